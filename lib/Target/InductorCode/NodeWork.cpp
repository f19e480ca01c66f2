// What a node does, for dividing a kernel's time among its nodes.

#include "opprof/Analysis/Cost/CostModel.h"
#include "opprof/Target/InductorCode/Alignment.h"

#include "llvm/ADT/SmallVector.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::inductor;

/// FLOPs that count as one byte: between what a GPU does of float32 and of
/// bfloat16 while it moves one.
static constexpr uint64_t kFlopsPerByte = 16;

static TensorShape toShape(const TensorInfo &info) {
  TensorShape out;
  out.elementBytes = elementSize(info.dtype).value_or(0);
  if (!info.shapeKnown)
    out.sizes.push_back(-1);
  for (const Dim &dim : info.shape)
    out.sizes.push_back(dim.value.value_or(-1));
  return out;
}

std::optional<uint64_t> opprof::inductor::estimateWork(const GraphView &graph,
                                                       uint32_t at,
                                                       bool onlyPrepares) {
  const GraphNode &node = graph.nodes[at];
  if (node.op != GraphNode::Call || !node.symbol.empty() ||
      node.target == "operator.getitem" || isViewTarget(node.target))
    return 0;
  SmallVector<TensorShape> inputs, outputs;
  for (uint32_t operand : node.operands) {
    const GraphNode &from = graph.nodes[operand];
    if (from.symbol.empty())
      inputs.push_back(toShape(from.results.empty() || from.resultIsTuple
                                   ? TensorInfo()
                                   : from.results[0]));
  }
  for (const TensorInfo &result : node.results)
    outputs.push_back(toShape(result));
  // Several results of unknown sizes: those of its members are known.
  if (outputs.empty() && node.resultIsTuple)
    return std::nullopt;
  OperatorCall call;
  call.target = node.target;
  call.inputs = inputs;
  call.outputs = outputs;
  OperatorCost cost = estimateCost(call);
  if (!cost.bytesRead || !cost.bytesWritten)
    return std::nullopt;
  uint64_t bytes = *cost.bytesRead + *cost.bytesWritten;
  return onlyPrepares ? bytes : bytes + cost.flops.value_or(0) / kFlopsPerByte;
}
