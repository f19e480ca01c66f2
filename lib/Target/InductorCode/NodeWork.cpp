// What a node does, for dividing a kernel's time among its nodes.

#include "NodeCost.h"

#include "opprof/Target/InductorCode/Alignment.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::inductor;

/// FLOPs that count as one byte: between what a GPU does of float32 and of
/// bfloat16 while it moves one.
static constexpr uint64_t kFlopsPerByte = 16;

std::optional<uint64_t> opprof::inductor::estimateWork(const GraphView &graph,
                                                       uint32_t at,
                                                       bool onlyPrepares) {
  const GraphNode &node = graph.nodes[at];
  if (node.op != GraphNode::Call || !node.symbol.empty() ||
      node.target == "operator.getitem" || isViewTarget(node.target))
    return 0;
  OperatorCost cost = estimateNodeCost(
      graph.nodes, at, [](const TensorInfo &info) { return info; });
  if (!cost.bytesRead || !cost.bytesWritten)
    return std::nullopt;
  uint64_t bytes = *cost.bytesRead + *cost.bytesWritten;
  return onlyPrepares ? bytes : bytes + cost.flops.value_or(0) / kFlopsPerByte;
}
