// Ties bodies of higher-order operators as the graphs that call them are tied:
// the calls say which body is which and what goes into its inputs, and
// structure ties the nodes within.

#include "AlignedGraphs.h"
#include "AlignmentOperators.h"
#include "AlignmentValues.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::inductor;

/// Bodies may nest; what nests deeper is not tied.
static constexpr unsigned kMaxDepth = 32;

/// A body may turn out to be less sure after what it calls was tied.
void AlignedGraphs::settleLinks() {
  bool isSettled = false;
  for (unsigned round = 0; round <= kMaxDepth && !isSettled; ++round) {
    isSettled = true;
    for (auto &[name, body] : bodies)
      for (const std::string &caller : body.callers)
        if (Confidence link = bodies.at(caller).link; body.link < link) {
          body.link = link;
          isSettled = false;
        }
  }
}

Tie AlignedGraph::findTie(uint32_t at) const {
  const Tie &own = ties[at];
  if (!own.origins.empty() && own.confidence != Confidence::Low)
    return own;
  StringRef op = canonicalOperator(opFamily(postGrad->nodes[at].target));
  Tie common;
  std::vector<uint32_t> open = users[at];
  for (size_t i = 0; i < open.size(); ++i) {
    if (postGrad->nodes[open[i]].target == "operator.getitem") {
      const std::vector<uint32_t> &next = users[open[i]];
      open.insert(open.end(), next.begin(), next.end());
      continue;
    }
    const Tie &tie = ties[open[i]];
    if (tie.origins.size() != 1 || tie.confidence == Confidence::Low ||
        (!common.origins.empty() && common.origins != tie.origins))
      return own;
    common.origins = tie.origins;
  }
  if (common.origins.empty())
    return own;
  const GraphNode &origin = exported.graph.nodes[common.origins.front()];
  bool isPart = decomposesInto(canonicalOperator(opFamily(origin.target)), op);
  common.confidence = Confidence::Medium;
  return isPart ? common : own;
}

/// The places of a graph's inputs, in their order.
static SmallVector<uint32_t> inputsOf(const GraphView &graph) {
  SmallVector<uint32_t> inputs;
  for (uint32_t i = 0; i < graph.nodes.size(); ++i)
    if (graph.nodes[i].op == GraphNode::Placeholder)
      inputs.push_back(i);
  return inputs;
}

/// How many of the values that go into a loop's bodies are carried from round
/// to round; these keep their places when it is compiled.
static size_t countCarried(const GraphNode &call) {
  if (call.target != "higher_order.while_loop" || call.args.size() < 3)
    return 0;
  const json::Array *list = call.args[2].getAsArray();
  if (const json::Object *object = call.args[2].getAsObject())
    list = object->getArray("tuple");
  return list ? list->size() : 0;
}

/// A call of bodies in two graphs that are tied: which of its operands are one.
class opprof::inductor::OperandPairs {
public:
  OperandPairs(const AlignedGraph &in, const Values &values, uint32_t mine,
               uint32_t theirs);

  /// Pairs of inputs of two bodies of the call, which need as many inputs as
  /// the call has operands.
  SmallVector<std::pair<uint32_t, uint32_t>>
  between(ArrayRef<uint32_t> postGrad, ArrayRef<uint32_t> exported) const;

private:
  void pairByValue(const AlignedGraph &in, const Values &values);
  void pairByPlace(size_t carried);

  SmallVector<uint32_t> mine, theirs;
  /// By place in `mine`: that in `theirs`, or kNoOperand.
  SmallVector<uint32_t> partner;
};

OperandPairs::OperandPairs(const AlignedGraph &in, const Values &values,
                           uint32_t mineAt, uint32_t theirsAt) {
  const GraphNode &myCall = in.postGrad->nodes[mineAt];
  mine = bodyOperands(myCall, *in.postGrad);
  auto [view, at] = in.exported.origins[theirsAt];
  const GraphNode &theirCall = view->nodes[at];
  theirs = bodyOperands(theirCall, *view);
  // Their operands are places in a graph whose own bodies were put in.
  DenseMap<uint32_t, uint32_t> places;
  for (auto [from, to] :
       zip(theirCall.operands, in.exported.graph.nodes[theirsAt].operands))
    places[from] = to;
  for (uint32_t &operand : theirs) {
    // A number is none, and no key of such a table.
    auto it = operand == kNoOperand ? places.end() : places.find(operand);
    operand = it == places.end() ? kNoOperand : it->second;
  }
  partner.assign(mine.size(), kNoOperand);
  pairByValue(in, values);
  size_t carried = countCarried(myCall);
  pairByPlace(carried == countCarried(theirCall) ? carried : 0);
}

/// What is tied to one value that goes in once.
void OperandPairs::pairByValue(const AlignedGraph &in, const Values &values) {
  // Of each value that goes in: how often, and where first.
  struct Use {
    unsigned count = 0;
    uint32_t first = 0;
  };
  DenseMap<uint32_t, Use> ours, others;
  auto note = [](DenseMap<uint32_t, Use> &uses, uint32_t value, uint32_t at) {
    Use &use = uses[value];
    if (!use.count++)
      use.first = at;
  };
  for (auto [i, operand] : enumerate(mine)) {
    const Tie *tie = operand == kNoOperand ? nullptr : &in.ties[operand];
    if (tie && tie->origins.size() == 1 && tie->confidence == Confidence::High)
      note(ours, values.root[tie->origins.front()], i);
  }
  for (auto [i, operand] : enumerate(theirs))
    if (operand != kNoOperand)
      note(others, values.root[operand], i);
  for (const auto &[value, use] : ours)
    if (auto it = others.find(value);
        it != others.end() && use.count == 1 && it->second.count == 1)
      partner[use.first] = it->second.first;
}

/// What a loop carries, and the one that is left.
void OperandPairs::pairByPlace(size_t carried) {
  BitVector taken(theirs.size());
  for (uint32_t other : partner)
    if (other != kNoOperand)
      taken.set(other);
  for (size_t i = 0; i < std::min({carried, mine.size(), theirs.size()}); ++i)
    if (!taken.test(i)) {
      if (partner[i] != kNoOperand)
        taken.reset(partner[i]);
      partner[i] = i;
      taken.set(i);
    }
  if (mine.size() == theirs.size() && taken.count() + 1 == taken.size())
    *llvm::find(partner, kNoOperand) = taken.find_first_unset();
}

SmallVector<std::pair<uint32_t, uint32_t>>
OperandPairs::between(ArrayRef<uint32_t> postGrad,
                      ArrayRef<uint32_t> exported) const {
  SmallVector<std::pair<uint32_t, uint32_t>> pairs;
  if (postGrad.size() != mine.size() || exported.size() != theirs.size())
    return pairs;
  for (auto [i, other] : enumerate(partner))
    if (other != kNoOperand)
      pairs.push_back({postGrad[i], exported[other]});
  return pairs;
}

/// The calls of bodies in two graphs that are tied, by what they are looked up.
class opprof::inductor::BodyCalls {
public:
  /// `whole`: the exported program's main graph.
  BodyCalls(const AlignedGraph &in, const GraphView *whole) {
    auto note = [](StringMap<Kind> &kinds, const GraphNode &node, uint32_t at) {
      Kind &kind = kinds[node.target];
      if (!kind.count++)
        kind.first = at;
    };
    for (auto [i, node] : enumerate(in.postGrad->nodes))
      if (isHigherOrder(node))
        note(mine, node, i);
    for (auto [i, node] : enumerate(in.exported.graph.nodes)) {
      if (!isHigherOrder(node))
        continue;
      note(theirs, node, i);
      if (auto [graph, place] = in.exported.origins[i]; graph == whole)
        places[place] = i;
    }
  }

  /// What became of the call at this place of the exported main graph.
  std::optional<uint32_t> find(uint32_t place) const {
    auto it = places.find(place);
    return it == places.end() ? std::nullopt : std::optional(it->second);
  }
  /// The only exported one of its kind, where there is one of it in both.
  std::optional<uint32_t> findOnly(StringRef target) const {
    auto own = mine.find(target), other = theirs.find(target);
    if (own == mine.end() || other == theirs.end() || own->second.count != 1 ||
        other->second.count != 1)
      return std::nullopt;
    return other->second.first;
  }

private:
  struct Kind {
    unsigned count = 0;
    uint32_t first = 0;
  };
  DenseMap<uint32_t, uint32_t> places;
  StringMap<Kind> mine, theirs;
};

AlignedGraphs::AlignedGraphs(const AlignmentSources &sources,
                             const GraphView &postGrad,
                             RecordedCall recordedCall)
    : exported(sources.exported), postGrad(&postGrad),
      recorded(sources.recorded), budget(*sources.exported) {
  auto noteCalls = [&](const GraphView &view) {
    for (const GraphNode &node : view.nodes)
      if (isHigherOrder(node))
        called.insert(node.target);
  };
  noteCalls(postGrad);
  for (const GraphView &body : postGrad.subgraphs)
    noteCalls(body);
  main.postGrad = &postGrad;
  main.exported = inlineBodies(*exported, *exported, called, budget);
  main.ties = alignByStructure(
      postGrad, main.exported.graph,
      sources.provenance ? &sources.provenance->postToPre : nullptr);
  main.users = postGrad.users();
  alignBodies(main, recordedCall, 0);
  settleLinks();
}

const AlignedGraph *AlignedGraphs::find(StringRef graph) const {
  if (graph.empty())
    return empty() ? nullptr : &main;
  auto it = bodies.find(graph);
  return it == bodies.end() ? nullptr : &it->second;
}

/// The exported call that a call is, and how sure that is.
std::optional<std::pair<uint32_t, Confidence>>
AlignedGraphs::findCall(const AlignedGraph &in, const BodyCalls &calls,
                        uint32_t call, RecordedCall recordedCall) const {
  const GraphNode &node = in.postGrad->nodes[call];
  const std::vector<GraphNode> &theirs = in.exported.graph.nodes;
  if (in.postGrad == postGrad)
    if (std::optional<uint32_t> place = recordedCall(node))
      if (std::optional<uint32_t> at = calls.find(*place);
          at && theirs[*at].target == node.target)
        return std::pair(*at, Confidence::High);
  const Tie &tie = in.ties[call];
  if (tie.origins.size() == 1 &&
      theirs[tie.origins.front()].target == node.target)
    return std::pair(tie.origins.front(), tie.confidence);
  if (std::optional<uint32_t> only = calls.findOnly(node.target))
    return std::pair(*only, Confidence::Medium);
  return std::nullopt;
}

/// The names of what a body's nodes are recorded to come from. They are no
/// identities: the graph that they lie in is one that Dynamo traced anew. What
/// passes of Inductor's made, and left records of their own patterns, has none.
static Provenance::Table recordedGroups(const GraphView *body) {
  Provenance::Table groups;
  if (!body)
    return groups;
  StringMap<unsigned> graphs;
  StringRef traced;
  for (const GraphNode &node : body->nodes)
    if (!node.from.empty() &&
        ++graphs[node.from.back().first] > graphs.lookup(traced))
      traced = node.from.back().first;
  for (const GraphNode &node : body->nodes)
    if (!node.from.empty() && node.from.back().first == traced)
      groups[node.name] = {node.from.back().second};
  return groups;
}

/// Where dataflow proves nothing, ties to the exported node of the recorded
/// name, and what a pass made, to the one that everything takes it for.
static void tieByRecord(AlignedGraph &aligned,
                        const Provenance::Table &groups) {
  if (groups.empty())
    return;
  const GraphView &exported = aligned.exported.graph;
  for (uint32_t i = aligned.ties.size(); i-- > 0;) {
    const GraphNode &node = aligned.postGrad->nodes[i];
    Tie &tie = aligned.ties[i];
    if (node.op != GraphNode::Call || tie.confidence == Confidence::High)
      continue;
    std::optional<uint32_t> origin;
    if (auto it = groups.find(node.name); it != groups.end()) {
      origin = exported.find(it->second.front());
      if (origin && exported.nodes[*origin].op != GraphNode::Call)
        origin.reset();
    } else if (tie.confidence != Confidence::Medium) {
      for (uint32_t user : aligned.users[i]) {
        const Tie &theirs = aligned.ties[user];
        bool isSame = theirs.origins.size() == 1 &&
                      theirs.confidence < Confidence::Low &&
                      (!origin || *origin == theirs.origins.front());
        origin = isSame ? std::optional(theirs.origins.front()) : std::nullopt;
        if (!isSame)
          break;
      }
    }
    if (!origin)
      continue;
    tie.origins = {*origin};
    tie.confidence = Confidence::Medium;
  }
}

void AlignedGraphs::alignBodies(const AlignedGraph &in,
                                RecordedCall recordedCall, unsigned depth) {
  if (depth >= kMaxDepth)
    return;
  std::optional<BodyCalls> calls;
  std::optional<Values> values;
  for (uint32_t i = 0; i < in.postGrad->nodes.size(); ++i) {
    auto mine = findBodies(*postGrad, *in.postGrad, in.postGrad->nodes[i]);
    if (mine.empty())
      continue;
    if (!calls)
      calls.emplace(in, exported);
    auto call = findCall(in, *calls, i, recordedCall);
    if (!call)
      continue;
    auto [view, at] = in.exported.origins[call->first];
    auto theirs = findBodies(*exported, *view, view->nodes[at]);
    if (mine.size() != theirs.size())
      continue;
    if (!values)
      values.emplace(in.exported.graph, /*merge=*/true);
    OperandPairs operands(in, *values, i, call->first);
    DenseSet<std::pair<const GraphView *, const GraphView *>> seen;
    for (auto [body, origin] : zip(mine, theirs))
      if (seen.insert({body, origin}).second)
        alignBody(in, *body, *origin, operands, call->second, recordedCall,
                  depth);
  }
}

/// Ties a body that is called in `in`. `link`: how sure the call is; how sure
/// its caller is comes to it once all are known.
void AlignedGraphs::alignBody(const AlignedGraph &in, const GraphView &body,
                              const GraphView &origin,
                              const OperandPairs &operands, Confidence link,
                              RecordedCall recordedCall, unsigned depth) {
  auto it = bodies.find(body.name);
  bool isNew = it == bodies.end();
  if (isNew) {
    if (!budget.take(origin))
      return;
    it = bodies.try_emplace(body.name).first;
  }
  AlignedGraph &aligned = it->second;
  if (&in != &main)
    aligned.callers.insert(in.postGrad->name);
  if (!isNew) {
    // Shared by calls: as sure as the least of them, and not sure where they
    // are of different ones, or are given their operands otherwise.
    bool isSame = aligned.exported.graph.name == origin.name &&
                  aligned.inputs == operands.between(aligned.postGradInputs,
                                                     aligned.exportedInputs);
    aligned.link = std::max(aligned.link, isSame ? link : Confidence::Medium);
    return;
  }
  aligned.postGrad = &body;
  aligned.link = link;
  aligned.exported = inlineBodies(*exported, origin, called, budget);
  aligned.postGradInputs = inputsOf(body);
  aligned.exportedInputs = inputsOf(aligned.exported.graph);
  Provenance::Table groups =
      recordedGroups(recorded ? recorded->subgraph(body.name) : nullptr);
  aligned.inputs =
      operands.between(aligned.postGradInputs, aligned.exportedInputs);
  aligned.ties =
      alignByStructure(body, aligned.exported.graph, &groups, aligned.inputs);
  aligned.users = body.users();
  tieByRecord(aligned, groups);
  alignBodies(aligned, recordedCall, depth + 1);
}
