// What a launch costs: FLOPs of its nodes, bytes of its buffers.

#include "LaunchJoiner.h"
#include "NodeCost.h"

#include "llvm/ADT/StringSet.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::inductor;
using namespace opprof::launch;

/// Bytes that a view of `info` touches: repeated elements count once.
static std::optional<uint64_t> touchedBytes(const TensorInfo &info) {
  TensorInfo unique = info;
  if (info.stride.size() == info.shape.size())
    for (auto [size, stride] : zip(unique.shape, info.stride))
      if (stride.value && *stride.value == 0)
        size = Dim{1, ""};
  return unique.bytes();
}

/// FLOPs of the nodes that this launch really computes.
void Joiner::addFlops(const WrapperLaunch &launch, const IndexedGraph &graph,
                      ArrayRef<uint32_t> nodes, Launch &to) const {
  if (to.nodes.empty())
    return;
  bool isKernel = launch.definition >= 0;
  std::optional<uint64_t> total = 0;
  StringSet<> continued;
  for (const LaunchNode &node : to.nodes)
    if (node.continued)
      continued.insert(node.name);
  for (uint32_t at : nodes) {
    const GraphNode &node = graph[at];
    if (continued.contains(node.name) || node.target == "operator.getitem" ||
        (!isKernel && graph.root[at] != at))
      continue;
    OperatorCost cost = estimateNodeCost(
        graph.graph->nodes, at,
        [&](const TensorInfo &info) { return withSizes(info); },
        launch.isCausal);
    // Sizes computed on the host are no work of the device.
    if (!node.symbol.empty())
      cost.flops = 0;
    if (!cost.flops || !total)
      total = std::nullopt;
    else
      total = *total + *cost.flops;
  }
  to.flops = total;
}

/// Tables that are only gathered from, with as many bytes as are returned; and
/// what is read whole.
static std::pair<DenseMap<uint32_t, uint64_t>, DenseSet<uint32_t>>
findGathered(ArrayRef<uint32_t> nodes, const IndexedGraph &graph,
             function_ref<TensorInfo(TensorInfo)> withSizes) {
  DenseMap<uint32_t, uint64_t> gathered;
  DenseSet<uint32_t> readWhole;
  for (uint32_t at : nodes) {
    const GraphNode &node = graph[at];
    StringRef family = opFamily(node.target);
    bool gathers = family == "embedding" || family == "index" ||
                   family == "gather" || family == "index_select" ||
                   family == "_unsafe_index";
    for (auto [i, operand] : enumerate(node.operands)) {
      uint32_t root = graph.root[operand];
      std::optional<uint64_t> bytes;
      if (gathers && i == 0 && node.results.size() == 1)
        bytes = withSizes(node.results[0]).bytes();
      if (bytes)
        gathered[root] += *bytes;
      else if (graph.root[at] == at)
        readWhole.insert(root);
    }
  }
  return {std::move(gathered), std::move(readWhole)};
}

void Joiner::addBytes(const WrapperLaunch &launch, const IndexedGraph &graph,
                      ArrayRef<uint32_t> nodes, ArrayRef<uint32_t> inputNodes,
                      Launch &to) const {
  bool isKernel = launch.definition >= 0;
  if (isKernel && !program.kernels[launch.definition].rolesCertain)
    return;
  auto [gathered, readWhole] = findGathered(nodes, graph, [&](TensorInfo info) {
    return withSizes(std::move(info));
  });
  std::optional<uint64_t> read = 0, write = 0;
  SmallSet<std::pair<int32_t, uint64_t>, 8> seenReads;
  for (auto [operand, node] : zip(launch.operands, inputNodes)) {
    std::optional<uint64_t> size = touchedBytes(withSizes(infoOf(operand)));
    bool isOutput = operand.role & KernelParameter::Output;
    // Scratch memory is not read: isRead was asked before it was written.
    bool isInput = operand.role & KernelParameter::Input &&
                   !(isOutput && node == kNoNode && scratch.contains(&operand));
    if (isInput) {
      std::optional<uint64_t> bytes = size;
      if (node != kNoNode && !readWhole.contains(node))
        if (auto it = gathered.find(node); it != gathered.end())
          bytes = size ? std::min(*size, it->second) : it->second;
      bool isNew = !size || operand.storage < 0 ||
                   seenReads.insert({operand.storage, *size}).second;
      if (isNew)
        read = read && bytes ? std::optional(*read + *bytes) : std::nullopt;
    }
    if (isOutput)
      write = write && size ? std::optional(*write + *size) : std::nullopt;
  }
  if (launch.operands.empty())
    return;
  to.bytesRead = read;
  to.bytesWritten = write;
}

void Joiner::addResultBytes(const IndexedGraph &graph, ArrayRef<uint32_t> nodes,
                            Launch &to) const {
  std::optional<uint64_t> total;
  for (uint32_t node : nodes)
    if (graph.root[node] == node)
      for (const TensorInfo &info : graph[node].results)
        if (std::optional<uint64_t> size = withSizes(info).bytes())
          total = total.value_or(0) + *size;
  to.bytesWritten = total;
}
