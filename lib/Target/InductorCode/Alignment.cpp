// From post-grad nodes to exported nodes, for the nodes of a launch map:
// recorded identities where there are some, structure where there are none.

#include "opprof/Target/InductorCode/Alignment.h"

#include "AlignedGraphs.h"
#include "AlignmentOperators.h"

#include "opprof/Analysis/Cost/CostModel.h"
#include "opprof/Dialect/FX/IR/Schema.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

#include <map>

using namespace llvm;
using namespace opprof;
using namespace opprof::inductor;
using namespace opprof::launch;

static std::string placeText(const SourcePlace &place) {
  if (!place.line)
    return "";
  return place.file + ":" + std::to_string(place.line);
}

namespace {
/// The nearest products that a value is made of, as exported nodes; none where
/// one is not known, or there are many.
using NearestProducts = std::optional<SmallVector<uint32_t, 4>>;

class LaunchAligner {
public:
  LaunchAligner(LaunchMap &map, const AlignmentSources &sources);

  void add(LaunchNode &node);

private:
  void addRecorded(LaunchNode &node, const GraphNode &record);
  void addUnrecorded(LaunchNode &node, uint32_t at);
  void addTie(LaunchNode &node, const AlignedGraph &in, const Tie &tie);
  std::optional<uint32_t> findRecordedCall(const GraphNode &call) const;
  bool isDoubtful(const GraphNode &record) const;
  bool isImpossible(const GraphNode &record) const;
  bool leadsNowhere(const GraphNode &record) const;
  bool isUnrecorded(const GraphNode &record) const;
  std::optional<uint32_t> findPurpose(uint32_t at);
  std::optional<uint32_t> findWrite(uint32_t at) const;
  std::optional<uint32_t> findProduct(uint32_t at);
  void tieProducts();
  void tieGradients(ArrayRef<NearestProducts> before);
  std::optional<uint32_t> findRecordedProduct(const GraphNode &node) const;
  void refer(LaunchNode &node, const GraphView &graph, uint32_t place);
  void count(const LaunchNode &node);
  void setStack(LaunchNode &node);

  LaunchMap &map;
  const AlignmentSources &sources;
  const GraphView *const exported;
  const GraphView *const recorded;
  /// The graph that the map's nodes are looked up in.
  const GraphView *const base;
  /// PyTorch's own records reach the exported graph.
  bool byRecord = false;
  /// Exported nodes that a pass of Inductor's left its nodes the record of,
  /// though not all of these can be made of them.
  StringSet<> misrecorded;
  AlignedGraphs structure;
  /// By products that a pass made: the exported ones that have the same
  /// products before them. None before any was asked for.
  std::optional<DenseMap<uint32_t, uint32_t>> products;
  StringSet<> counted;
  std::map<std::vector<std::string>, uint32_t> stacks;
  /// Of the node that is being added.
  std::vector<std::string> frames;
};
} // namespace

/// What is written back into an input bears the record of the first operator
/// that changed it; what is stored comes from the last.
static const GraphNode &findStored(const GraphView &graph,
                                   const GraphNode &node) {
  if (opFamily(node.target) != "copy_" || node.operands.size() != 2)
    return node;
  const GraphNode &into = graph.nodes[node.operands.front()];
  const GraphNode &value = graph.nodes[node.operands.back()];
  bool isKnown = value.op == GraphNode::Call && !value.from.empty();
  return into.op == GraphNode::Placeholder && isKnown ? value : node;
}

/// Nodes that Inductor's passes make bear the name of their operator and
/// overload: "amax_default_1".
static bool isMadeByPass(const GraphNode &node) {
  auto [rest, overload] = StringRef(node.target).rsplit('.');
  StringRef name = StringRef(node.name).rtrim("0123456789");
  // FX spells "sum_dim_int_list" of "dim_IntList".
  auto spell = [](StringRef text) {
    std::string letters = text.lower();
    llvm::erase(letters, '_');
    return letters;
  };
  return spell(name) == spell((opFamily(node.target) + "_" + overload).str());
}

LaunchAligner::LaunchAligner(LaunchMap &map, const AlignmentSources &sources)
    : map(map), sources(sources), exported(sources.exported),
      recorded(sources.recorded),
      base(sources.postGrad ? sources.postGrad : recorded) {
  if (!exported)
    return;
  bool isComplete = true;
  if (recorded)
    for (const GraphNode &node : recorded->nodes) {
      isComplete &= !isUnrecorded(node);
      for (const auto &[graph, name] : node.from)
        if (graph == exported->name)
          if (exported->find(name)) {
            byRecord = true;
            if (isImpossible(node))
              misrecorded.insert(name);
          }
    }
  // Records end at the call of a body, some are wrong, and of what a pass made
  // some lead nowhere; what lies in it, and what those should say, is found by
  // structure.
  bool hasBodies = any_of(exported->nodes, isHigherOrder);
  if (base && (!byRecord || hasBodies || !misrecorded.empty() || !isComplete))
    structure = AlignedGraphs(sources, *base, [&](const GraphNode &call) {
      return findRecordedCall(call);
    });
  Alignment &alignment = map.alignment.emplace();
  alignment.method = byRecord ? "recorded" : "structure";
  alignment.proven = 0;
  alignment.graph = exported->name;
  alignment.stage = exported->stage.empty() ? "export" : exported->stage;
  alignment.bodiesLeft = structure.numLeft();
}

/// The exported call that a call of the compiled graph is recorded to come
/// from.
std::optional<uint32_t>
LaunchAligner::findRecordedCall(const GraphNode &call) const {
  std::optional<uint32_t> at =
      byRecord ? recorded->find(call.name) : std::nullopt;
  if (at)
    for (const auto &[graph, name] : recorded->nodes[*at].from)
      if (graph == exported->name)
        if (std::optional<uint32_t> place = exported->find(name))
          return place;
  return std::nullopt;
}

/// Whether a pass made the node, and left it the record of a node that does not
/// compute such a thing.
bool LaunchAligner::isImpossible(const GraphNode &record) const {
  if (!isMadeByPass(record))
    return false;
  StringRef op = canonicalOperator(opFamily(record.target));
  return any_of(record.from, [&](const auto &from) {
    std::optional<uint32_t> origin = from.first == exported->name
                                         ? exported->find(from.second)
                                         : std::nullopt;
    if (!origin)
      return false;
    const GraphNode &whole = exported->nodes[*origin];
    // Zeros are a tensor that is full of them.
    return !(makesConstant(whole) && makesConstant(record)) &&
           !decomposesInto(canonicalOperator(opFamily(whole.target)), op);
  });
}

/// Whether a pass made the node, and such a record is the same as its own.
bool LaunchAligner::isDoubtful(const GraphNode &record) const {
  return isMadeByPass(record) && any_of(record.from, [&](const auto &from) {
           return from.first == exported->name &&
                  misrecorded.contains(from.second);
         });
}

/// Whether it puts a part back into what it was taken of.
static bool writesPart(const GraphNode &node) {
  return StringRef(opFamily(node.target)).ends_with("_scatter");
}

/// Whether its record ends before the exported graph, as in a pass's pattern.
bool LaunchAligner::leadsNowhere(const GraphNode &record) const {
  return none_of(record.from, [&](const auto &from) {
    return from.first == exported->name &&
           exported->find(from.second).has_value();
  });
}

/// Whether a pass made the node, and nothing says what of.
bool LaunchAligner::isUnrecorded(const GraphNode &record) const {
  return record.op == GraphNode::Call && isMadeByPass(record) &&
         leadsNowhere(record);
}

/// The one exported node that everything computes for which a pass made the
/// node: a softmax for the subtraction of its largest input.
std::optional<uint32_t> LaunchAligner::findPurpose(uint32_t at) {
  std::optional<uint32_t> purpose;
  auto isOnly = [&](uint32_t origin) {
    if (!purpose)
      purpose = origin;
    return purpose == origin;
  };
  const std::vector<std::vector<uint32_t>> &users = structure.find("")->users;
  SmallVector<uint32_t> open(users[at].begin(), users[at].end());
  DenseSet<uint32_t> seen;
  while (!open.empty()) {
    uint32_t user = open.pop_back_val();
    if (!seen.insert(user).second)
      continue;
    std::optional<uint32_t> found = recorded->find(base->nodes[user].name);
    if (!found)
      return std::nullopt;
    const GraphNode &record = recorded->nodes[*found];
    bool isGetitem = record.target == "operator.getitem";
    if (record.from.empty() && !isGetitem)
      return std::nullopt;
    if (std::optional<uint32_t> product = findProduct(user)) {
      if (!isOnly(*product))
        return std::nullopt;
      continue;
    }
    if (isGetitem || isDoubtful(record) || leadsNowhere(record)) {
      open.append(users[user].begin(), users[user].end());
      continue;
    }
    for (const auto &[graph, name] : record.from) {
      std::optional<uint32_t> origin =
          graph == exported->name ? exported->find(name) : std::nullopt;
      if (origin && !isOnly(*origin))
        return std::nullopt;
    }
  }
  return purpose;
}

/// What puts a part that was written back into the whole: the exported write.
std::optional<uint32_t> LaunchAligner::findWrite(uint32_t at) const {
  auto isScatter = [&](uint32_t node) {
    return writesPart(base->nodes[node]) &&
           base->nodes[node].operands.size() > 1 &&
           base->nodes[node].operands[1] < node;
  };
  if (!isScatter(at))
    return std::nullopt;
  // Of a part of a part.
  while (isScatter(at))
    at = base->nodes[at].operands[1];
  std::optional<uint32_t> found = recorded->find(base->nodes[at].name);
  if (!found || isDoubtful(recorded->nodes[*found]))
    return std::nullopt;
  for (const auto &[graph, name] : recorded->nodes[*found].from)
    if (graph == exported->name)
      if (std::optional<uint32_t> origin = exported->find(name))
        if (fx::isKnownToWrite(exported->nodes[*origin].target))
          return origin;
  return std::nullopt;
}

static bool isProduct(const GraphNode &node) {
  return node.op == GraphNode::Call &&
         getWorkKind(node.target) == WorkKind::Matrix;
}

/// Of a node's operands, or the other way of its users. `before`: of each node
/// that was passed; `origins`: of products among these, the exported ones that
/// they are.
static NearestProducts
nearestProducts(const GraphView &graph, ArrayRef<uint32_t> operands,
                ArrayRef<NearestProducts> before,
                const DenseMap<uint32_t, uint32_t> &origins) {
  constexpr size_t kMany = 8;
  SmallVector<uint32_t, 4> nearest;
  for (uint32_t operand : operands) {
    if (isProduct(graph.nodes[operand])) {
      auto origin = origins.find(operand);
      if (origin == origins.end())
        return std::nullopt;
      nearest.push_back(origin->second);
      continue;
    }
    // What is defined later closes no circle.
    if (operand >= before.size() || !before[operand])
      return std::nullopt;
    nearest.append(*before[operand]);
  }
  llvm::sort(nearest);
  nearest.erase(llvm::unique(nearest), nearest.end());
  if (nearest.size() > kMany)
    return std::nullopt;
  return nearest;
}

/// Whether the exported product, or its gradient, can be such an operator.
static bool canBe(const GraphNode &node, const GraphNode &whole) {
  return decomposesInto(canonicalOperator(opFamily(whole.target)),
                        canonicalOperator(opFamily(node.target)));
}

/// The exported node that its record leads to.
std::optional<uint32_t>
LaunchAligner::findRecordedProduct(const GraphNode &node) const {
  if (std::optional<uint32_t> found = recorded->find(node.name))
    for (const auto &[graph, name] : recorded->nodes[*found].from)
      if (graph == exported->name)
        if (std::optional<uint32_t> origin = exported->find(name))
          return origin;
  return std::nullopt;
}

/// Scores and what they weigh are products of projections that have records,
/// which tells them apart although the pattern's own lead nowhere.
void LaunchAligner::tieProducts() {
  products.emplace();
  // By the products before them: the exported product, or none where several
  // have the same.
  std::map<SmallVector<uint32_t, 4>, std::optional<uint32_t>> known;
  std::vector<NearestProducts> before;
  DenseMap<uint32_t, uint32_t> origins;
  for (auto [i, node] : enumerate(exported->nodes)) {
    before.push_back(
        nearestProducts(*exported, node.operands, before, origins));
    if (!isProduct(node))
      continue;
    origins[i] = i;
    if (before.back() && !before.back()->empty())
      if (auto [it, isNew] = known.try_emplace(*before.back(), i); !isNew)
        it->second.reset();
  }
  if (any_of(base->nodes, [](const GraphNode &node) {
        return node.op == GraphNode::Placeholder &&
               StringRef(node.name).starts_with("tangents_");
      }))
    return tieGradients(before);
  before.clear();
  origins.clear();
  for (auto [i, node] : enumerate(base->nodes)) {
    before.push_back(nearestProducts(*base, node.operands, before, origins));
    if (!isProduct(node))
      continue;
    if (std::optional<uint32_t> origin = findRecordedProduct(node))
      origins[i] = *origin;
    if (origins.contains(i) || !before.back() || !recorded->find(node.name))
      continue;
    auto it = known.find(*before.back());
    if (it == known.end() || !it->second)
      continue;
    const GraphNode &whole = exported->nodes[*it->second];
    bool isAsLarge = node.results.size() == 1 && whole.results.size() == 1 &&
                     node.results[0].elements() &&
                     node.results[0].elements() == whole.results[0].elements();
    if (!isAsLarge || !canBe(node, whole))
      continue;
    origins[i] = *it->second;
    products->insert({uint32_t(i), *it->second});
  }
}

/// Going backward, a product leads to the gradients of the products before its
/// own: it is of the one exported product that takes all of these. `before`: by
/// exported node.
void LaunchAligner::tieGradients(ArrayRef<NearestProducts> before) {
  const std::vector<std::vector<uint32_t>> &users = structure.find("")->users;
  DenseMap<uint32_t, SmallVector<uint32_t, 2>> takers;
  for (uint32_t whole = 0; whole < before.size(); ++whole)
    if (isProduct(exported->nodes[whole]) && before[whole])
      for (uint32_t taken : *before[whole])
        takers[taken].push_back(whole);
  std::vector<NearestProducts> after(base->nodes.size());
  DenseMap<uint32_t, uint32_t> origins;
  for (uint32_t i = base->nodes.size(); i-- > 0;) {
    const GraphNode &node = base->nodes[i];
    after[i] = nearestProducts(*base, users[i], after, origins);
    if (!isProduct(node))
      continue;
    if (std::optional<uint32_t> origin = findRecordedProduct(node))
      origins[i] = *origin;
    if (origins.contains(i) || !after[i] || after[i]->empty() ||
        !recorded->find(node.name))
      continue;
    std::optional<uint32_t> found;
    bool isOne = true;
    for (uint32_t whole : takers.lookup(after[i]->front()))
      if (canBe(node, exported->nodes[whole]) &&
          all_of(*after[i], [&](uint32_t origin) {
            return is_contained(*before[whole], origin);
          })) {
        isOne &= !found;
        found = whole;
      }
    if (!found || !isOne)
      continue;
    origins[i] = *found;
    products->insert({i, *found});
  }
}

/// The exported product that one which a pass made is, or is of the gradient
/// of.
std::optional<uint32_t> LaunchAligner::findProduct(uint32_t at) {
  if (!products)
    tieProducts();
  auto it = products->find(at);
  return it == products->end() ? std::nullopt : std::optional(it->second);
}

/// Adds an exported node to those that `node` was made from. Module and line
/// are those of the first one that computes.
void LaunchAligner::refer(LaunchNode &node, const GraphView &graph,
                          uint32_t place) {
  const GraphNode &origin = graph.nodes[place];
  NodeId ref{graph.name, map.alignment->stage, origin.name};
  if (is_contained(node.from, ref))
    return;
  if (node.from.size() == node.idleFrom.size()) {
    if (!origin.stack.empty())
      frames = origin.stack;
    if (origin.hasModule)
      node.module = origin.module;
    if (origin.source.line)
      node.source = placeText(origin.source);
  }
  if (keepsValue(origin))
    node.idleFrom.push_back(node.from.size());
  node.from.push_back(std::move(ref));
}

void LaunchAligner::addTie(LaunchNode &node, const AlignedGraph &in,
                           const Tie &tie) {
  for (uint32_t origin : tie.origins) {
    auto [graph, place] = in.exported.origins[origin];
    refer(node, *graph, place);
  }
  if (!node.from.empty())
    node.fromConfidence = std::max(tie.confidence, in.link);
}

void LaunchAligner::addRecorded(LaunchNode &node, const GraphNode &record) {
  bool inBody = false;
  bool isDoubted = isDoubtful(record);
  for (const auto &[name, origin] : record.from)
    if (name == exported->name)
      if (std::optional<uint32_t> found = exported->find(origin)) {
        inBody |= findBody(*exported, exported->nodes[*found]) != nullptr;
        refer(node, *exported, *found);
      }
  if (node.from.empty())
    return;
  // The call of a body stands for all that it holds.
  node.fromConfidence =
      inBody || isDoubted ? Confidence::Medium : Confidence::High;
  std::optional<uint32_t> at = node.graph.empty() && !structure.empty()
                                   ? base->find(node.name)
                                   : std::nullopt;
  if (!at)
    return;
  const AlignedGraph &main = *structure.find("");
  Tie tie = main.findTie(*at);
  // What a pass made is found nowhere else, or by its operator's name alone.
  bool isMadeUp = isDoubted && tie.confidence >= Confidence::Low;
  std::optional<uint32_t> purpose = isDoubted ? findWrite(*at) : std::nullopt;
  if (!purpose && (isMadeUp || isImpossible(record)))
    purpose = findPurpose(*at);
  if (purpose) {
    node.from.clear();
    node.idleFrom.clear();
    refer(node, *exported, *purpose);
    return;
  }
  bool leadsIntoBody = inBody && none_of(tie.origins, [&](uint32_t origin) {
                         return main.exported.origins[origin].first == exported;
                       });
  if (tie.origins.empty() || (!leadsIntoBody && !isDoubted))
    return;
  node.from.clear();
  node.idleFrom.clear();
  addTie(node, main, tie);
}

/// What a pass made of its own pattern: the exported node that dataflow proves
/// it to be, or the one that it is computed for. What a library computes may as
/// well be for itself.
void LaunchAligner::addUnrecorded(LaunchNode &node, uint32_t at) {
  const AlignedGraph &main = *structure.find("");
  const GraphNode &own = base->nodes[at];
  // Constants are equal to many.
  if (main.ties[at].confidence == Confidence::High && !own.operands.empty())
    return addTie(node, main, main.ties[at]);
  // A part that is put back is of no one who reads the whole.
  if (writesPart(own))
    return;
  if (std::optional<uint32_t> purpose =
          isProduct(own) ? findProduct(at) : findPurpose(at)) {
    refer(node, *exported, *purpose);
    node.fromConfidence = Confidence::Medium;
  }
}

void LaunchAligner::count(const LaunchNode &node) {
  if (!counted.insert(node.graph + "\x01" + node.name).second)
    return;
  ++map.alignment->of;
  map.alignment->aligned += !node.from.empty();
  *map.alignment->proven += node.fromConfidence == Confidence::High;
}

void LaunchAligner::setStack(LaunchNode &node) {
  if (frames.empty())
    return;
  auto [it, inserted] = stacks.try_emplace(frames, map.stacks.size());
  if (inserted)
    map.stacks.push_back(frames);
  node.stack = it->second;
}

void LaunchAligner::add(LaunchNode &node) {
  const GraphView *graph = base;
  if (!node.graph.empty() && graph)
    graph = graph->subgraph(node.graph);
  std::optional<uint32_t> at = graph ? graph->find(node.name) : std::nullopt;
  frames.clear();
  if (at) {
    const GraphNode &own = graph->nodes[*at];
    node.source = placeText(own.source);
    if (own.hasModule)
      node.module = own.module;
    node.work = estimateWork(*graph, *at, node.prepares);
  }
  const GraphNode *record = nullptr;
  const GraphView *records = recorded;
  if (!node.graph.empty() && recorded)
    records = recorded->subgraph(node.graph);
  if (records)
    if (std::optional<uint32_t> found = records->find(node.name))
      record = &findStored(*records, records->nodes[*found]);
  if (record) {
    frames = record->stack;
    if (record->hasModule)
      node.module = record->module;
    if (record->source.line)
      node.source = placeText(record->source);
  }
  if (exported) {
    if (byRecord && record)
      addRecorded(node, *record);
    const AlignedGraph *aligned = structure.find(node.graph);
    if (at && aligned && node.from.empty() &&
        (!byRecord || !node.graph.empty()))
      addTie(node, *aligned,
             node.graph.empty() ? aligned->ties[*at] : aligned->findTie(*at));
    else if (at && aligned && record && node.from.empty() &&
             isUnrecorded(*record))
      addUnrecorded(node, *at);
    // Where nothing of it computes, the copy that it became is its work.
    if (node.idleFrom.size() == node.from.size())
      node.idleFrom.clear();
    count(node);
  } else if (sources.provenance && node.graph.empty()) {
    // Without an exported graph: the nodes that Dynamo traced.
    auto it = sources.provenance->postToPre.find(node.name);
    if (it != sources.provenance->postToPre.end())
      for (const std::string &name : it->second)
        node.from.push_back({map.graph, "dynamo", name});
  }
  setStack(node);
}

void opprof::inductor::alignLaunches(LaunchMap &map,
                                     const AlignmentSources &sources) {
  LaunchAligner aligner(map, sources);
  for (Launch &launch : map.launches)
    for (LaunchNode &node : launch.nodes)
      aligner.add(node);
}
