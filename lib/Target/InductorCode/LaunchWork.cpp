// Which of the nodes that records name a launch computes, and which it only
// reads or stands for.

#include "LaunchJoiner.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Path.h"

#include <functional>

using namespace llvm;
using namespace opprof;
using namespace opprof::inductor;
using namespace opprof::launch;

void Joiner::setIdentity(const WrapperLaunch &from, uint32_t index,
                         Launch &to) const {
  to.index = index;
  to.file = sys::path::filename(program.fileName).str();
  to.line = from.line;
  to.function = from.function;
  to.callLines = from.callLines;
  to.kernel = from.kernel;
  to.kind = from.kind;
  to.category = from.category;
  to.debugHandle = handles[index];
  to.conditional = from.conditional;
  to.inLoop = from.inLoop;
  if (from.definition >= 0)
    to.kernelHash = program.kernels[from.definition].hash;
}

std::string Joiner::nameOf(const IndexedGraph &graph) const {
  bool isMain = graph.graph == sources.postGrad || graph.graph == &fragments;
  return isMain ? std::string() : graph.graph->name;
}

/// Which of the nodes the launch can compute from what goes in; what it
/// finishes is there as well for those that take it.
static DenseSet<uint32_t> computableAmong(ArrayRef<uint32_t> nodes,
                                          const LaunchInputs &inputs,
                                          const IndexedGraph &graph) {
  DenseSet<uint32_t> computable;
  for (uint32_t node : nodes) {
    bool can = true;
    for (uint32_t operand : graph[node].operands) {
      uint32_t root = graph.root[operand];
      const GraphNode &source = graph[root];
      can &= inputs.available.contains(root) || computable.contains(root) ||
             inputs.continued.contains(root) ||
             (source.op == GraphNode::Call && source.operands.empty()) ||
             !source.symbol.empty();
    }
    if (can) {
      computable.insert(graph.root[node]);
      computable.insert(node);
    }
  }
  return computable;
}

static bool wrapsUserKernel(const GraphNode &node) {
  return StringRef(node.target).contains("triton_kernel_wrapper");
}

/// A library call is one operator, a user's kernel the node that wraps it.
static bool isCalled(const WrapperLaunch &from, const GraphNode &node) {
  if (from.kind == LaunchKind::User)
    return wrapsUserKernel(node);
  return isExternFamily(from.kernel, opFamily(node.target));
}

/// Library work that a generated kernel can't do: it only prepares it.
static bool isOnlyPrepared(const LaunchWork &work, uint32_t node) {
  return work.isGenerated && work.from.category != LaunchCategory::Template &&
         work.graph.library[node];
}

/// Inductor knows no body of an operator that PyTorch does not have: it is
/// called as it is.
static bool isUsersOperator(const GraphNode &node) {
  StringRef space = StringRef(node.target).split('.').first;
  return node.op == GraphNode::Call && space != "aten" && space != "prims" &&
         space != "inductor" && space != "inductor_prims" &&
         space != "higher_order" && space != "operator" &&
         space != "quantized_decomposed" && space != "math";
}

/// What the launch may store.
std::vector<uint32_t> Joiner::findCandidates(ArrayRef<uint32_t> nodes,
                                             LaunchWork &work) const {
  const IndexedGraph &graph = work.graph;
  auto isCall = [&](uint32_t node) { return isCalled(work.from, graph[node]); };
  bool isSingle =
      work.from.kind == LaunchKind::User || work.from.definition < 0;
  work.hasCalled = isSingle && any_of(nodes, isCall);
  std::vector<uint32_t> candidates;
  for (uint32_t node : nodes) {
    if (work.hasCalled) {
      if (isCall(node))
        candidates.push_back(node);
      continue;
    }
    bool isWork = graph.root[node] == node && !isOnlyPrepared(work, node) &&
                  !(work.isGenerated && isUsersOperator(graph[node]));
    if (isWork && (work.computable.contains(node) || !work.inputs.known) &&
        !work.inputs.available.contains(node))
      candidates.push_back(node);
  }
  return candidates;
}

/// What the launch stores, and so what it must compute.
void Joiner::findNeeded(ArrayRef<uint32_t> candidates, LaunchWork &work,
                        const LaunchProof &proof, bool isRecorded) {
  const IndexedGraph &graph = work.graph;
  // Without a record the candidates are guesses themselves.
  work.outputs =
      matchOutputs(work.from, work.index, candidates, graph,
                   isRecorded ? ArrayRef(proof.outputs) : ArrayRef<uint32_t>());
  for (auto [i, node] : enumerate(proof.outputs))
    if (node != kNoNode)
      work.outputs[i] = node;
  work.allStored = work.isGenerated && work.inputs.known;
  for (auto [operand, node] : zip(work.from.operands, work.outputs))
    if (operand.role & KernelParameter::Output && isLive(operand, work.index)) {
      if (node == kNoNode)
        work.allStored = false;
      else
        work.needed.insert(node);
    }
  for (uint32_t node : reverse(candidates))
    if (work.needed.contains(node))
      for (uint32_t operand : graph[node].operands)
        work.needed.insert(graph.root[operand]);
}

namespace {
/// How a launch stands to a node that records name for it.
struct Relation {
  /// It only moves data for the node.
  bool prepares = false;
  /// It computes the node, which an earlier launch did too.
  bool again = false;
  /// It finishes what an earlier launch began.
  bool continues = false;
  /// It does not compute the node.
  bool listed = false;
};
} // namespace

/// `computedBefore`: an earlier launch of another line computed the node.
static Relation relate(const LaunchWork &work, uint32_t node,
                       bool computedBefore) {
  const IndexedGraph &graph = work.graph;
  const DenseSet<uint32_t> &available = work.inputs.available;
  bool isView = graph.root[node] != node;
  bool can = work.computable.contains(node);
  Relation relation;
  relation.again = computedBefore && !isView;
  relation.prepares = !isView && isOnlyPrepared(work, node);
  relation.continues =
      relation.again && !can && work.inputs.continued.contains(node);
  if (relation.prepares)
    // Where the kernel computes other things, the product is what it reads.
    relation.listed =
        computedBefore || (!available.empty() && available.contains(node));
  else if (work.hasCalled)
    relation.listed = !isCalled(work.from, graph[node]);
  else if (wrapsUserKernel(graph[node]) && work.isGenerated)
    relation.listed = true;
  else if (relation.continues)
    relation.listed = false;
  else if (isView)
    relation.listed =
        work.isGenerated && work.inputs.known &&
        (!can || (work.allStored && !work.needed.contains(graph.root[node]) &&
                  !available.contains(graph.root[node])));
  else if (relation.again)
    relation.listed = available.contains(node) || (!can && work.inputs.known) ||
                      (work.allStored && !work.needed.contains(node));
  else
    relation.listed = work.allStored && can && !work.needed.contains(node);
  return relation;
}

/// Adds what the launch computes, prepares or only lists; returns what it
/// computes.
std::vector<uint32_t> Joiner::addNodes(ArrayRef<FoundNode> found,
                                       const LaunchWork &work,
                                       const LaunchProof &proof, Launch &to) {
  std::vector<uint32_t> computed;
  for (const FoundNode &item : found) {
    Relation relation =
        relate(work, item.node, isComputedBefore(work, item.node));
    const std::string &name = work.graph[item.node].name;
    if (relation.listed && !proof.stored.count(item.node)) {
      to.listedOnly.push_back(name);
      continue;
    }
    LaunchNode &node = to.nodes.emplace_back();
    node.name = name;
    node.graph = nameOf(work.graph);
    node.evidence = item.evidence;
    node.prepares = relation.prepares;
    if (relation.prepares)
      continue;
    if ((work.computable.contains(item.node) || relation.continues ||
         proof.stored.count(item.node)) &&
        !is_contained(node.evidence, "dataflow"))
      node.evidence.push_back("dataflow");
    node.continued = relation.continues;
    node.recomputed = relation.again && !relation.continues;
    computed.push_back(item.node);
    computedBy.try_emplace({&work.graph, item.node}, work.index);
  }
  return computed;
}

/// A second stage that no record names.
void Joiner::addContinued(const LaunchWork &work,
                          std::vector<uint32_t> &computed, Launch &to) const {
  if (!work.isGenerated || !computed.empty())
    return;
  for (uint32_t at : work.inputs.continued) {
    LaunchNode &node = to.nodes.emplace_back();
    node.name = work.graph[at].name;
    node.graph = nameOf(work.graph);
    node.evidence = {"dataflow"};
    node.continued = true;
    computed.push_back(at);
  }
}

bool Joiner::isComputedBefore(const LaunchWork &work, uint32_t node) const {
  auto earlier = computedBy.find({&work.graph, node});
  // The same line again is another instance of the same function: another
  // call, other values.
  return earlier != computedBy.end() &&
         program.launches[earlier->second].line != work.from.line;
}

/// The library work that takes what the launch moves, where each of the values
/// is for one call that is still to come.
std::vector<uint32_t> Joiner::findTakers(const LaunchWork &work,
                                         const LaunchProof &proof) const {
  const IndexedGraph &graph = work.graph;
  std::vector<uint32_t> found;
  for (uint32_t moved : proof.outputs) {
    if (moved == kNoNode)
      continue;
    SmallVector<uint32_t> open = {graph.value[moved]}, takers;
    while (!open.empty())
      for (uint32_t user : graph.users[open.pop_back_val()])
        if (graph.isView(user))
          open.push_back(user);
        else if (graph.library[user] && !isComputedBefore(work, user) &&
                 !is_contained(takers, user))
          takers.push_back(user);
    if (takers.size() == 1 && !is_contained(found, takers.front()))
      found.push_back(takers.front());
  }
  return found;
}

/// A launch whose stores, or whose arguments, say which nodes it computes.
std::vector<uint32_t> Joiner::decideProven(ArrayRef<FoundNode> found,
                                           const LaunchWork &work,
                                           const LaunchProof &proof,
                                           Launch &to) {
  const IndexedGraph &graph = work.graph;
  std::map<uint32_t, const FoundNode *> listed;
  for (const FoundNode &item : found)
    listed[item.node] = &item;
  for (uint32_t node : proof.nodes)
    listed.try_emplace(node, nullptr);
  bool isCall = work.from.definition < 0;
  // Library work that takes what this launch only moves.
  auto takesMoved = [&](uint32_t at) {
    return any_of(graph[at].operands, [&](uint32_t operand) {
      return any_of(proof.outputs, [&](uint32_t node) {
        return node != kNoNode && graph.value[node] == graph.value[operand] &&
               proof.held.contains(graph.value[node]);
      });
    });
  };
  // Without any record what it is moved for is all that there is to say.
  bool isMoved = found.empty() && proof.nodes.empty() && work.isGenerated;
  if (isMoved)
    for (uint32_t node : findTakers(work, proof))
      listed.try_emplace(node, nullptr);
  std::vector<uint32_t> computed;
  for (auto [at, record] : listed) {
    bool isWork = proof.nodes.count(at);
    bool isView = graph.root[at] != at && !isCall;
    bool isPrepared = !isWork && !isView && takesMoved(at) &&
                      isOnlyPrepared(work, at) && !proof.held.contains(at) &&
                      !isComputedBefore(work, at);
    // What is written into an input is stored here.
    bool isMutation =
        record && opFamily(graph[at].target) == "copy_" &&
        !graph[at].operands.empty() &&
        is_contained(proof.outputs, graph.value[graph[at].operands.back()]);
    bool isKept = isWork || isPrepared || isMutation ||
                  (isView && proof.passed.contains(at));
    const std::string &name = graph[at].name;
    if (!isKept) {
      to.listedOnly.push_back(name);
      continue;
    }
    LaunchNode &node = to.nodes.emplace_back();
    node.name = name;
    node.graph = nameOf(graph);
    if (record)
      node.evidence = record->evidence;
    node.prepares = isPrepared;
    // What rests on a reading that is not sure needs a record beside it.
    bool isRecorded = record && isRecord(*record);
    bool isSure = proof.unique && (proof.sure || isRecorded);
    node.confidence = isSure ? Confidence::High : Confidence::Medium;
    if (isPrepared) {
      if (isMoved)
        node.evidence.push_back("dataflow");
      continue;
    }
    if (isCall && !is_contained(node.evidence, "target"))
      node.evidence.push_back("target");
    if (!is_contained(node.evidence, "dataflow"))
      node.evidence.push_back("dataflow");
    node.continued = proof.continued.contains(at);
    node.recomputed = !isView && !node.continued && isComputedBefore(work, at);
    computed.push_back(at);
    computedBy.try_emplace({&work.graph, at}, work.index);
  }
  return computed;
}

/// Of a concatenation no kernel is PyTorch's record: its parts are stored into
/// one buffer. Where all parts are there, and records name what reads it here,
/// it is put together here, with parts that only repeat others.
void Joiner::addPutTogether(const LaunchWork &work,
                            std::vector<FoundNode> &found) const {
  const IndexedGraph &graph = work.graph;
  auto cats = graph.byFamily.find("cat");
  if (!work.isGenerated || cats == graph.byFamily.end())
    return;
  DenseSet<uint32_t> here;
  for (const FoundNode &item : found)
    if (isRecord(item) && !isComputedBefore(work, item.node))
      here.insert(item.node);
  auto isThere = [&](uint32_t node) {
    return here.contains(node) || computedBy.contains({&graph, node}) ||
           work.inputs.available.contains(node);
  };
  std::function<bool(uint32_t)> isReadHere = [&](uint32_t node) {
    return any_of(graph.users[node], [&](uint32_t user) {
      return graph.root[user] != user ? isReadHere(user) : here.contains(user);
    });
  };
  for (uint32_t cat : cats->second) {
    if (here.contains(cat) || computedBy.contains({&graph, cat}) ||
        !isReadHere(cat))
      continue;
    SmallVector<uint32_t> added = {cat};
    bool isNew = false;
    bool isWhole = all_of(graph[cat].operands, [&](uint32_t operand) {
      uint32_t part = graph.root[operand];
      isNew |= here.contains(part);
      if (isThere(part))
        return true;
      added.push_back(part);
      return graph.family[part] == "repeat" &&
             all_of(graph[part].operands, [&](uint32_t repeated) {
               return isThere(graph.root[repeated]);
             });
    });
    if (!isWhole || !isNew)
      continue;
    for (uint32_t node : added)
      if (here.insert(node).second)
        found.push_back({node, {}});
  }
}

/// A launch that proves too little: records, and what dataflow says of them.
std::vector<uint32_t> Joiner::decideListed(std::vector<FoundNode> found,
                                           LaunchWork &work,
                                           const LaunchProof &proof,
                                           Launch &to) {
  const WrapperLaunch &from = work.from;
  IndexedGraph &graph = work.graph;
  // What leads to stores, proven or not, no record needs to name.
  for (uint32_t node : proof.nodes)
    if (none_of(found,
                [&](const FoundNode &item) { return item.node == node; }))
      found.push_back({node, {}});
  addPutTogether(work, found);
  llvm::sort(found, [](const FoundNode &a, const FoundNode &b) {
    return a.node < b.node;
  });
  std::vector<uint32_t> nodes;
  for (const FoundNode &item : found)
    nodes.push_back(item.node);
  work.computable = computableAmong(nodes, work.inputs, graph);
  findNeeded(findCandidates(nodes, work), work, proof, any_of(found, isRecord));
  std::vector<uint32_t> computed = addNodes(found, work, proof, to);
  addContinued(work, computed, to);
  // What is stored now, with the second stages among it.
  if (any_of(to.nodes, [](const LaunchNode &node) { return node.continued; }))
    work.outputs =
        matchOutputs(from, work.index, computed, graph, proof.outputs);
  // A kernel that only moves data for a library call gives its input's value.
  const DenseSet<uint32_t> &available = work.inputs.available;
  if (work.isGenerated && computed.empty() && available.size() == 1)
    for (auto [operand, node] : zip(from.operands, work.outputs))
      if (operand.role & KernelParameter::Output &&
          fits(operand, graph[*available.begin()]))
        node = *available.begin();
  for (LaunchNode &node : to.nodes) {
    bool isNamed = node.evidence == std::vector<std::string>{"source_nodes"};
    node.confidence = isNamed ? Confidence::Low : Confidence::Medium;
  }
  return computed;
}

void Joiner::fillLaunch(const WrapperLaunch &from, uint32_t index, Launch &to) {
  setIdentity(from, index, to);
  IndexedGraph &graph = graphOf(from);
  bindInputs(from, graph);
  std::vector<FoundNode> found = findNodes(from, index, graph);
  LaunchWork work{from, index, graph};
  work.isGenerated = from.definition >= 0 && from.kind != LaunchKind::User;
  work.inputs = readInputs(from, graph);

  LaunchProof proof = prove(work, found);
  std::vector<uint32_t> computed;
  if (proof.complete) {
    work.outputs = proof.outputs;
    computed = decideProven(found, work, proof, to);
  } else {
    computed = decideListed(found, work, proof, to);
  }
  if (work.isGenerated)
    computedIn[index] = computed;
  for (uint32_t node : computed)
    if (proof.complete && proof.unique)
      unsure.erase({&graph, node});
    else if (computedBy.lookup({&graph, node}) == index)
      unsure.insert({&graph, node});
  if (from.definition >= 0 && from.firstUse) {
    FirstUse &first = firstUses[from.definition];
    first.nodes = computed;
    first.operandNodes = work.inputs.nodes;
  }
  setBuffers(work, computed, proof, to);
  addOperands(from, to);
  addFlops(from, graph, computed, to);
  addBytes(from, graph, computed, work.inputs.nodes, to);
  if (!to.bytesWritten && !computed.empty() && from.definition < 0)
    addResultBytes(graph, computed, to);
}
