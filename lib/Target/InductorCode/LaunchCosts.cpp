// What a launch costs: FLOPs of its nodes, bytes of its buffers.

#include "LaunchJoiner.h"

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

static TensorShape toShape(const TensorInfo &info) {
  TensorShape out;
  out.elementBytes = elementSize(info.dtype).value_or(0);
  if (!info.shapeKnown)
    out.sizes.push_back(-1);
  for (const Dim &dim : info.shape)
    out.sizes.push_back(dim.value.value_or(-1));
  return out;
}

/// The argument of that name, where the node gives it.
static const json::Value *getArgument(const GraphNode &node, StringRef name) {
  for (const auto &[key, value] : node.kwargs)
    if (key == name)
      return &value;
  const fx::OperatorSchema *schema = fx::lookupSchema(node.target);
  int position = schema ? schema->getArgumentIndex(name) : -1;
  return position >= 0 && size_t(position) < node.args.size()
             ? &node.args[position]
             : nullptr;
}

/// Arguments that the model asks for beside shapes.
static void setArguments(const GraphNode &node, OperatorCall &call) {
  if (const json::Value *causal = getArgument(node, "is_causal"))
    call.isCausal |= causal->getAsBoolean().value_or(false);
  if (const json::Value *transposed = getArgument(node, "transposed"))
    call.isTransposed = transposed->getAsBoolean().value_or(false);
  if (const json::Value *groups = getArgument(node, "groups"))
    call.groups = groups->getAsInteger().value_or(1);
  const json::Value *mask = getArgument(node, "output_mask");
  if (const json::Array *asked = mask ? mask->getAsArray() : nullptr) {
    call.gradients = 0;
    for (size_t i = 0; i < 2 && i < asked->size(); ++i)
      *call.gradients += (*asked)[i].getAsBoolean().value_or(false);
  }
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
    SmallVector<TensorShape> inputs, outputs;
    for (uint32_t operand : node.operands) {
      const GraphNode &from = graph[operand];
      if (from.symbol.empty())
        inputs.push_back(toShape(from.results.empty() || from.resultIsTuple
                                     ? TensorInfo()
                                     : withSizes(from.results[0])));
    }
    for (const TensorInfo &result : node.results)
      outputs.push_back(toShape(withSizes(result)));
    if (node.results.empty() && node.symbol.empty())
      outputs.push_back(toShape(TensorInfo()));
    OperatorCall call;
    call.target = node.target;
    call.inputs = inputs;
    call.outputs = outputs;
    call.isCausal = launch.isCausal;
    setArguments(node, call);
    OperatorCost cost = estimateCost(call);
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
