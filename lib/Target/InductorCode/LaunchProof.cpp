// Proves which nodes a launch computes: runs the kernel's body and the graph on
// the same made-up values, and compares a call's arguments with a node's.

#include "GraphRun.h"
#include "KernelRun.h"
#include "LaunchJoiner.h"

#include "llvm/ADT/StringSwitch.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::inductor;
using namespace opprof::launch;

/// So many nodes after what a launch reads are tried.
static constexpr size_t kMaxReachable = 1200;
static constexpr size_t kMaxCone = 20'000;

/// The node, and everything that it is computed from, back to what is read.
/// False where it needs a value that is not.
bool Joiner::collectCone(uint32_t start, const IndexedGraph &graph,
                         LaunchProof &proof) const {
  SmallVector<uint32_t> work = {start};
  DenseSet<uint32_t> seen = {start};
  while (!work.empty()) {
    uint32_t at = work.pop_back_val();
    if (proof.held.contains(at)) {
      if (!withoutBias.contains(at))
        continue;
      // Its bias is added here.
      proof.nodes.insert(at);
      proof.continued.insert(at);
      proof.passed.insert(at);
      continue;
    }
    const GraphNode &node = graph[at];
    bool isView = node.target == "operator.getitem" || graph.isView(at);
    if (!node.symbol.empty())
      continue;
    if (node.op != GraphNode::Call || (!isView && !isFusible(node)) ||
        seen.size() > kMaxCone)
      return false;
    proof.passed.insert(at);
    if (!isView)
      proof.nodes.insert(at);
    for (uint32_t operand : node.operands)
      if (seen.insert(operand).second)
        work.push_back(operand);
  }
  return true;
}

/// What records name, and what can be computed from what is read, in the order
/// of the graph.
std::vector<uint32_t>
Joiner::findReachable(const LaunchWork &work, const DenseSet<uint32_t> &held,
                      ArrayRef<FoundNode> found) const {
  const IndexedGraph &graph = work.graph;
  std::set<uint32_t> reached;
  std::set<uint32_t> open;
  for (const FoundNode &item : found)
    reached.insert(item.node);
  for (uint32_t node : held) {
    open.insert(graph.users[node].begin(), graph.users[node].end());
    if (withoutBias.contains(node))
      reached.insert(node);
  }
  // What reads nothing makes constants.
  if (held.empty())
    for (uint32_t node : graph.sources)
      if (!computedBy.contains({&work.graph, node}))
        open.insert(node);
  size_t budget = kMaxReachable;
  while (!open.empty() && budget--) {
    uint32_t at = *open.begin();
    open.erase(open.begin());
    const GraphNode &node = graph[at];
    bool isView = graph.isView(at) || node.target == "operator.getitem";
    if (node.op != GraphNode::Call || (!isView && !isFusible(node)) ||
        held.contains(at))
      continue;
    reached.insert(at);
    open.insert(graph.users[at].begin(), graph.users[at].end());
  }
  std::vector<uint32_t> out;
  for (uint32_t at : reached) {
    bool isPart = graph[at].target == "operator.getitem" &&
                  graph.value[at] == at;
    if (isPart || graph.root[at] == at)
      out.push_back(at);
  }
  return out;
}

namespace {
/// A node that has the value of a store, and how well it fits otherwise.
struct Match {
  uint32_t node = kNoNode;
  int score = -1;
  LaunchProof cone;
};
} // namespace

static bool sameDims(ArrayRef<Dim> a, ArrayRef<Dim> b) {
  return a.size() == b.size() && a == b;
}

/// What speaks for this of several nodes that have the value.
static int scoreMatch(const GraphNode &node, const LaunchOperand &operand,
                      bool isProposed, bool isNew, bool isTaken) {
  int score = 0;
  if (!node.results.empty()) {
    const TensorInfo &result = node.results.front();
    score += sameDims(result.shape, operand.info.shape) ? 8 : 0;
    score += !result.stride.empty() &&
                     sameDims(result.stride, operand.info.stride)
                 ? 2
                 : 0;
  }
  score += isProposed ? 4 : 0;
  score += isNew ? 16 : 0;
  score -= isTaken ? 64 : 0;
  return score;
}

LaunchProof Joiner::proveKernel(const LaunchWork &work, const KernelBody &body,
                                ArrayRef<FoundNode> found) {
  const IndexedGraph &graph = work.graph;
  ArrayRef<LaunchOperand> operands = work.from.operands;
  LaunchProof proof;
  proof.outputs.assign(operands.size(), kNoNode);
  proof.firsts.assign(operands.size(), AbstractValue::unknown());

  std::vector<KernelArgument> arguments(body.parameters.size());
  std::vector<const LaunchOperand *> byParameter(arguments.size());
  for (const LaunchOperand &operand : operands) {
    if (operand.parameter >= arguments.size())
      return proof;
    KernelArgument &argument = arguments[operand.parameter];
    argument.storage = operand.storage;
    argument.offset = operand.offset ? double(*operand.offset) : NAN;
    byParameter[operand.parameter] = &operand;
  }
  for (const auto &[position, text] : work.from.scalars)
    if (position < arguments.size())
      if (std::optional<int64_t> value = sizeOf(Dim{std::nullopt, text}))
        arguments[position].number = *value;

  DenseSet<uint32_t> partialWriters;
  auto load = [&](unsigned parameter, double offset) -> AbstractValue {
    const LaunchOperand *operand = byParameter[parameter];
    if (!operand || operand->storage < 0 || !operand->offset)
      return AbstractValue::unknown();
    const HeldRegion *region = findRegionAt(*operand, offset, graph);
    if (!region)
      return AbstractValue::unknown();
    std::optional<double> inside =
        offsetIn(*region, double(*operand->offset) + offset);
    if (!inside)
      return AbstractValue::unknown();
    if (region->node == kNoNode) {
      if (*inside != 0 || !region->first.known)
        return AbstractValue::unknown();
      proof.held.insert(region->madeFrom.begin(), region->madeFrom.end());
      if (region->writer != kNoNode)
        partialWriters.insert(region->writer);
      return region->first;
    }
    proof.held.insert(region->node);
    return GraphRunner::given(region->node, *inside);
  };
  std::vector<KernelStore> stores = runKernel(body, arguments, load);

  auto sizes = [&](const Dim &dim) { return sizeOf(dim); };
  GraphRunner runner(graph, proof.held, sizes);
  runner.withoutBias = &withoutBias;
  DenseSet<uint32_t> proposed, taken;
  for (const FoundNode &item : found)
    proposed.insert(item.node);
  std::vector<uint32_t> candidates = findReachable(work, proof.held, found);
  bool complete = true, hasStore = false;
  for (auto [i, operand] : enumerate(operands)) {
    auto store = find_if(stores, [&](const KernelStore &item) {
      return item.parameter == operand.parameter && item.offset == 0;
    });
    bool isWritten = operand.role & KernelParameter::Output;
    if (store == stores.end()) {
      complete &= !isWritten || !isLive(operand, work.index);
      continue;
    }
    proof.firsts[i] = store->value;
    if (!isLive(operand, work.index))
      continue;
    hasStore = true;
    Match best;
    bool isTie = false;
    for (uint32_t candidate : candidates) {
      const GraphNode &node = graph[candidate];
      if (node.results.size() != 1 || !fits(operand, node.results.front()))
        continue;
      AbstractValue value = runner.evaluateFirst(candidate);
      if (!store->value.agrees(value))
        continue;
      Match match;
      match.node = candidate;
      match.cone.held = proof.held;
      if (!collectCone(candidate, graph, match.cone) ||
          match.cone.nodes.empty())
        continue;
      bool isNew = any_of(match.cone.nodes, [&](uint32_t at) {
        return !computedBy.contains({&work.graph, at});
      });
      match.score = scoreMatch(node, operand, proposed.contains(candidate),
                               isNew, taken.contains(candidate));
      bool isChain = best.node != kNoNode && match.cone.passed.contains(best.node);
      // Of a chain of copies the last one is stored, of twins the first.
      if (match.score > best.score || (match.score == best.score && isChain)) {
        isTie = false;
        best = std::move(match);
      } else if (match.score == best.score) {
        isTie = true;
      }
    }
    if (best.node != kNoNode) {
      proof.outputs[i] = best.node;
      taken.insert(best.node);
      proof.unique &= !isTie;
      proof.nodes.insert(best.cone.nodes.begin(), best.cone.nodes.end());
      proof.passed.insert(best.cone.passed.begin(), best.cone.passed.end());
      proof.continued.insert(best.cone.continued.begin(),
                             best.cone.continued.end());
      continue;
    }
    // The value of something that was read: another layout of it.
    for (uint32_t node : proof.held) {
      const GraphNode &source = graph[node];
      if (source.results.size() == 1 && fits(operand, source.results.front()) &&
          store->value.agrees(GraphRunner::given(node, 0)))
        proof.outputs[i] = node;
    }
    complete &= proof.outputs[i] != kNoNode;
  }
  proof.complete = complete && hasStore;
  // What an earlier launch began: only its last step is done here.
  if (!partialWriters.empty())
    for (auto it = proof.nodes.begin(); it != proof.nodes.end();) {
      auto earlier = computedBy.find({&work.graph, *it});
      if (earlier == computedBy.end() ||
          !partialWriters.contains(earlier->second)) {
        ++it;
      } else if (getWorkKind(graph[*it].target) == WorkKind::Reduction) {
        proof.continued.insert(*it);
        ++it;
      } else {
        it = proof.nodes.erase(it);
      }
    }
  return proof;
}

/// A library call's nodes are those of its operator whose arguments are the
/// values that go in.
LaunchProof Joiner::proveCall(const LaunchWork &work,
                              ArrayRef<FoundNode> found) {
  const IndexedGraph &graph = work.graph;
  LaunchProof proof;
  proof.outputs.assign(work.from.operands.size(), kNoNode);
  proof.firsts.assign(work.from.operands.size(), AbstractValue::unknown());
  std::vector<std::optional<AbstractValue>> inputs;
  std::vector<const LaunchOperand *> outputs;
  for (const LaunchOperand &operand : work.from.operands) {
    if (operand.role == KernelParameter::Output) {
      outputs.push_back(&operand);
      continue;
    }
    std::optional<AbstractValue> value;
    const HeldRegion *region =
        operand.offset ? findRegion(operand, graph) : nullptr;
    if (region && region->node != kNoNode)
      if (auto inside = offsetIn(*region, *operand.offset)) {
        proof.held.insert(region->node);
        value = GraphRunner::given(region->node, *inside);
      }
    inputs.push_back(value);
  }
  if (inputs.empty())
    return proof;

  std::set<uint32_t> candidates;
  for (const FoundNode &item : found)
    candidates.insert(item.node);
  for (const auto &[family, nodes] : graph.byFamily)
    if (isExternFamily(work.from.kernel, family))
      candidates.insert(nodes.begin(), nodes.end());
  auto sizes = [&](const Dim &dim) { return sizeOf(dim); };
  GraphRunner runner(graph, proof.held, sizes);
  uint32_t best = kNoNode;
  int bestScore = -1;
  bool isTie = false, lacksBias = false;
  for (uint32_t candidate : candidates) {
    const GraphNode &node = graph[candidate];
    if (node.op != GraphNode::Call ||
        !isExternFamily(work.from.kernel, opFamily(node.target)))
      continue;
    SmallVector<uint32_t> operands;
    for (uint32_t operand : node.operands)
      if (graph[operand].symbol.empty())
        operands.push_back(operand);
    bool dropsBias = opFamily(node.target) == "convolution" &&
                     operands.size() == 3 && inputs.size() == 2;
    if (dropsBias)
      operands.pop_back();
    if (operands.size() != inputs.size())
      continue;
    // Unknown arguments speak neither for nor against.
    size_t same = 0;
    bool conflicts = false;
    for (auto [operand, input] : zip(operands, inputs)) {
      if (!input)
        continue;
      AbstractValue value = runner.evaluateFirst(operand);
      if (value.known && !input->agrees(value))
        conflicts = true;
      same += value.known;
    }
    bool outputFits =
        outputs.size() != 1 || node.results.size() != 1 ||
        fits(*outputs.front(), node.results.front());
    if (conflicts || !outputFits)
      continue;
    int score = 2 * same + !computedBy.contains({&work.graph, candidate});
    isTie = score == bestScore || (isTie && score < bestScore);
    if (score <= bestScore)
      continue;
    isTie = false;
    best = candidate;
    bestScore = score;
    lacksBias = dropsBias;
    proof.complete = same == inputs.size();
  }
  proof.unique = !isTie;
  if (best == kNoNode) {
    proof.complete = false;
    return proof;
  }
  // One that is not sure is still the best reading.
  proof.unique &= proof.complete;
  proof.complete = true;
  proof.nodes = {best};
  proof.passed = {best};
  if (lacksBias)
    withoutBias.insert(best);
  for (auto [i, operand] : enumerate(work.from.operands)) {
    if (!(operand.role & KernelParameter::Output))
      continue;
    proof.outputs[i] = best;
    if (operand.member)
      for (uint32_t user : graph.users[best])
        if (graph[user].target == "operator.getitem" &&
            graph[user].args.size() == 2 &&
            graph[user].args[1].getAsInteger() == *operand.member)
          proof.outputs[i] = user;
  }
  return proof;
}

LaunchProof Joiner::prove(const LaunchWork &work, ArrayRef<FoundNode> found) {
  if (work.from.definition < 0) {
    bool isCall = work.from.kind == LaunchKind::Extern ||
                  work.from.kind == LaunchKind::Fallback ||
                  work.from.kind == LaunchKind::Collective;
    return isCall ? proveCall(work, found) : LaunchProof();
  }
  const KernelDefinition &kernel = program.kernels[work.from.definition];
  if (!kernel.body || work.from.category == LaunchCategory::Template)
    return LaunchProof();
  return proveKernel(work, *kernel.body, found);
}
