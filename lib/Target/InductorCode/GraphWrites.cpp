// Graphs that write through views, as graphs of values. Inductor's passes leave
// `copy_(diagonal(x), y)`, after which x is another value: what takes x later
// is made to take what the write leaves of it.

#include "GraphWrites.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/STLFunctionalExtras.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::inductor;

/// Longer chains of views are taken for copies.
static constexpr unsigned kMaxViews = 64;

static bool isWrite(const GraphNode &node) {
  return node.op == GraphNode::Call && opFamily(node.target) == "copy_" &&
         node.operands.size() == 2 && node.args.size() >= 2;
}

/// By node: what its memory is, through views, and writes through views, which
/// give the view.
static std::vector<uint32_t> findMemory(const GraphView &graph) {
  std::vector<uint32_t> memory(graph.nodes.size());
  std::vector<unsigned> depth(graph.nodes.size());
  for (uint32_t i = 0; i < memory.size(); ++i) {
    const GraphNode &node = graph.nodes[i];
    memory[i] = i;
    if (node.op != GraphNode::Call || node.operands.empty() ||
        node.operands.front() >= i)
      continue;
    uint32_t from = node.operands.front();
    bool isView = isViewTarget(node.target) && depth[from] < kMaxViews;
    if (!isView && !(isWrite(node) && memory[from] != from))
      continue;
    memory[i] = memory[from];
    depth[i] = depth[from] + isView;
  }
  return memory;
}

/// The nodes that write a part of what is taken again later, with the view that
/// each gives.
static DenseMap<uint32_t, uint32_t> findWrites(const GraphView &graph,
                                               ArrayRef<uint32_t> memory) {
  DenseMap<uint32_t, uint32_t> lastUse;
  for (uint32_t i = 0; i < memory.size(); ++i)
    for (uint32_t operand : graph.nodes[i].operands)
      lastUse[memory[operand]] = i;
  for (uint32_t output : graph.outputs)
    lastUse[memory[output]] = memory.size();
  DenseMap<uint32_t, uint32_t> writes;
  for (uint32_t i = 0; i < memory.size(); ++i) {
    if (!isWrite(graph.nodes[i]) || memory[i] == i ||
        lastUse.lookup(memory[i]) <= i)
      continue;
    uint32_t to = graph.nodes[i].operands.front();
    if (auto before = writes.find(to); before != writes.end())
      to = before->second;
    writes.try_emplace(i, to);
  }
  return writes;
}

namespace {
/// A graph, node by node, with each operand as it is when it is taken.
class WriteFollower {
public:
  explicit WriteFollower(const GraphView &from)
      : from(from), memory(findMemory(from)), writes(findWrites(from, memory)) {
  }

  bool hasWrites() const { return !writes.empty(); }
  /// With what the bodies were made into, or none where one is as it was.
  GraphView run(std::vector<std::optional<GraphView>> bodies);

private:
  using Taken = function_ref<uint32_t(uint32_t)>;

  uint32_t now(uint32_t node);
  static json::Value withTaken(const json::Value &value, Taken taken);
  void append(uint32_t node);

  const GraphView &from;
  std::vector<uint32_t> memory;
  DenseMap<uint32_t, uint32_t> writes;
  GraphView to;
  /// By node of `from`: the node that it is now.
  DenseMap<uint32_t, uint32_t> current;
  /// By memory: the writes to it so far. By node: how many it knows of.
  DenseMap<uint32_t, unsigned> written, known;
};
} // namespace

/// A view of what was written since is made once more. A write stands for all
/// of the tensor, and what takes it takes the view.
uint32_t WriteFollower::now(uint32_t node) {
  if (auto write = writes.find(node); write != writes.end())
    node = write->second;
  if (memory[node] != node && known[node] != written.lookup(memory[node]))
    append(node);
  return current[node];
}

json::Value WriteFollower::withTaken(const json::Value &value, Taken taken) {
  if (std::optional<uint32_t> node = getNodeArgument(value))
    return makeNodeArgument(taken(*node));
  if (const json::Array *list = value.getAsArray()) {
    json::Array out;
    for (const json::Value &item : *list)
      out.push_back(withTaken(item, taken));
    return out;
  }
  if (const json::Object *object = value.getAsObject()) {
    json::Object out;
    for (const auto &[key, item] : *object)
      out[key] = withTaken(item, taken);
    return out;
  }
  return value;
}

void WriteFollower::append(uint32_t node) {
  GraphNode copy = from.nodes[node];
  bool isView = memory[node] != node && !isWrite(copy);
  // What a view takes besides are sizes, which no write changes: views made
  // once more for those would be as deep as such chains are long.
  auto taken = [&](uint32_t operand) {
    bool isSize = isView && operand != from.nodes[node].operands.front();
    return isSize ? current[operand] : now(operand);
  };
  for (uint32_t &operand : copy.operands)
    operand = taken(operand);
  for (json::Value &value : copy.args)
    value = withTaken(value, taken);
  for (auto &[key, value] : copy.kwargs)
    value = withTaken(value, taken);
  known[node] = written.lookup(memory[node]);
  current[node] = to.nodes.size();
  to.nodes.push_back(std::move(copy));
}

GraphView WriteFollower::run(std::vector<std::optional<GraphView>> bodies) {
  to.name = from.name;
  to.stage = from.stage;
  for (uint32_t i = 0; i < from.nodes.size(); ++i) {
    append(i);
    if (!writes.contains(i))
      continue;
    uint32_t whole = memory[from.nodes[i].operands.front()];
    to.nodes.back().results = from.nodes[whole].results;
    ++written[whole];
    current[whole] = current[i];
  }
  for (uint32_t output : from.outputs)
    to.outputs.push_back(now(output));
  for (const json::Value &value : from.outputArgs)
    to.outputArgs.push_back(
        withTaken(value, [&](uint32_t node) { return now(node); }));
  for (auto [body, followed] : zip_equal(from.subgraphs, bodies))
    to.subgraphs.push_back(followed ? std::move(*followed) : body);
  to.reindex();
  return std::move(to);
}

std::optional<GraphView>
opprof::inductor::followWrites(const GraphView &graph) {
  WriteFollower follower(graph);
  std::vector<std::optional<GraphView>> bodies;
  for (const GraphView &body : graph.subgraphs)
    bodies.push_back(followWrites(body));
  bool hasBody = any_of(bodies, [](const std::optional<GraphView> &followed) {
    return followed.has_value();
  });
  if (!follower.hasWrites() && !hasBody)
    return std::nullopt;
  return follower.run(std::move(bodies));
}
