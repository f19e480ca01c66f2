// Proves which nodes a launch computes: runs the kernel's body and the graph on
// the same made-up values, and compares a call's arguments with a node's.

#include "AlignmentOperators.h"
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

/// The operands whose elements tell the node's: of one value that fills all of
/// a tensor, no index makes another.
static ArrayRef<uint32_t> tellingOperands(uint32_t at,
                                          const IndexedGraph &graph) {
  ArrayRef<uint32_t> operands = graph.valueOperands(at);
  bool isTaken = StringSwitch<bool>(graph.family[at])
                     .Cases({"gather", "index", "index_select"}, true)
                     .Case("_unsafe_index", true)
                     .Default(false);
  return isTaken && !operands.empty() &&
                 makesConstant(graph[graph.root[operands.front()]])
             ? operands.take_front()
             : operands;
}

/// The node, and everything that it is computed from, back to what is read.
/// False where it needs a value that is not.
bool Joiner::collectCone(uint32_t start, const IndexedGraph &graph,
                         LaunchProof &proof) const {
  SmallVector<uint32_t> work = {start};
  DenseSet<uint32_t> seen = {start};
  while (!work.empty()) {
    uint32_t at = work.pop_back_val();
    if (proof.held.contains(at)) {
      proof.leaves.insert(graph.twin[at]);
      if (!proof.withoutBias.contains(at))
        continue;
      // Its bias is added here.
      proof.nodes.insert(at);
      proof.continued.insert(at);
      proof.passed.insert(at);
      continue;
    }
    const GraphNode &node = graph[at];
    if (!node.symbol.empty())
      continue;
    if (!graph.isKernelWork(at) || seen.size() > kMaxCone)
      return false;
    proof.passed.insert(at);
    if (node.target != "operator.getitem" && !graph.isView(at))
      proof.nodes.insert(at);
    for (uint32_t operand : tellingOperands(at, graph))
      if (seen.insert(operand).second)
        work.push_back(operand);
  }
  return true;
}

/// What a generated kernel can compute from `held`, and of the nodes of `open`
/// and what follows; `isCut`: there is more than is searched. A value of a
/// residual stream leads to everything after it, but what reads other values
/// too ends the way.
DenseSet<uint32_t> Joiner::findComputable(const IndexedGraph &graph,
                                          const DenseSet<uint32_t> &held,
                                          std::set<uint32_t> open,
                                          bool &isCut) const {
  for (uint32_t node : held)
    open.insert(graph.users[node].begin(), graph.users[node].end());
  DenseSet<uint32_t> computable;
  auto isThere = [&](uint32_t operand) {
    return graph.selfMade[operand] || held.contains(operand) ||
           computable.contains(operand);
  };
  size_t budget = kMaxReachable;
  while (!open.empty()) {
    if (!budget--) {
      isCut = true;
      break;
    }
    uint32_t at = *open.begin();
    open.erase(open.begin());
    if (!graph.isKernelWork(at) || held.contains(at) ||
        !all_of(graph.valueOperands(at), isThere))
      continue;
    computable.insert(at);
    open.insert(graph.users[at].begin(), graph.users[at].end());
  }
  return computable;
}

namespace {
/// A node that has the value of a store, and how well it fits otherwise.
struct Match {
  uint32_t node = kNoNode;
  int score = -1000;
  /// The same were the launches not to have computed it that may as well have
  /// computed something else.
  int scoreIfNew = -1000;
  /// What is known of the value says too little of where it is from.
  bool isDoubtful = false;
  /// Other nodes that have the value too, and nothing tells them apart.
  SmallVector<uint32_t, 1> rivals;
  /// Their values are this one's in every element: it times one.
  bool areRivalsEqual = true;

  bool isTie() const { return isDoubtful || !rivals.empty(); }
  /// What has the other's value as well has this one's.
  void takeRivals(const Match &other) {
    rivals.append(other.rivals.begin(), other.rivals.end());
    areRivalsEqual &= other.areRivalsEqual;
  }
  void addRivals(const Match &other, bool areEqual) {
    rivals.push_back(other.node);
    areRivalsEqual &= areEqual;
    takeRivals(other);
  }
  /// Both values are known.
  bool agrees = false;
  /// Dataflow alone proposes it, which knows none of its rivals.
  bool isGuessed = false;
  LaunchProof cone;
};

/// What runs the graph, and what does so with reductions of a few elements done
/// element by element.
struct Runners {
  GraphRunner runner, unrolled;
};

/// A run of the kernel, and of the graph, for another draw of the places that
/// data gives.
struct Redraw : Runners {
  KernelResult result;
};

/// The sum of a mean, or of a variance, that a later launch divides by their
/// number.
struct Begun {
  uint32_t mean = kNoNode;
  double count = 1;
  bool isSpelledOut = false;
  bool isVariance = false;
};
} // namespace

static bool sameDims(ArrayRef<Dim> a, ArrayRef<Dim> b) {
  return a.size() == b.size() && a == b;
}

/// Operators that write to the places that a tensor gives.
static bool isScatter(StringRef family) {
  return family.starts_with("index_put") || family.starts_with("scatter");
}

/// What speaks for this of several nodes that have the value.
static int scoreMatch(const GraphNode &node, const LaunchOperand &operand,
                      bool isRecorded, bool isNew, bool isTaken) {
  int score = 0;
  if (!node.results.empty()) {
    const TensorInfo &result = node.results.front();
    score += sameDims(result.shape, operand.info.shape) ? 8 : 0;
    score +=
        !result.stride.empty() && sameDims(result.stride, operand.info.stride)
            ? 2
            : 0;
  }
  score += isRecorded ? 4 : 0;
  score += isNew ? 16 : 0;
  score -= isTaken ? 64 : 0;
  return score;
}

/// A mask that is stored as whole numbers: a library call that counts takes
/// them, and no node of the graph stands for that.
static bool isStoredMask(const LaunchOperand &operand,
                         const TensorInfo &result) {
  return result.dtype == "bool" &&
         StringRef(operand.info.dtype).starts_with("int");
}

/// Runs one kernel, and finds the nodes of what it stores.
class opprof::inductor::KernelProver : private KernelMemory {
public:
  KernelProver(Joiner &joiner, const LaunchWork &work, const KernelBody &body,
               ArrayRef<FoundNode> found)
      : joiner(joiner), work(work), graph(work.graph), body(body),
        found(found) {
    for (const FoundNode &item : found) {
      proposed.insert(item.node);
      if (isRecord(item))
        recorded.insert(item.node);
    }
    isRecorded = !recorded.empty();
    size_t count = work.from.operands.size();
    proof.outputs.assign(count, kNoNode);
    proof.firsts.assign(count, AbstractValue::unknown());
    proof.firstsFrom.resize(count);
  }

  LaunchProof run();

private:
  bool setArguments();
  void findCandidates(bool withSources);
  bool mayCompute(uint32_t node) const {
    return isCut || graph.selfMade[node] || computable.contains(node);
  }
  void hold(unsigned parameter, const HeldRegion &region);
  void holdOtherParts();
  AbstractValue load(unsigned parameter, double offset) override;
  void touch(unsigned parameter) override;
  std::optional<double> elementAt(const HeldRegion &region, double place);
  std::optional<AbstractValue> reload(unsigned parameter, unsigned round,
                                      double offset) override;
  bool mayHold(unsigned parameter, double offset) override;
  bool holdsOthers(unsigned parameter) override {
    return readBy.contains(parameter);
  }
  Match findMatch(const LaunchOperand &operand, const KernelStore &store,
                  GraphRunner &runner, GraphRunner &unrolled);
  Match findMatch(const LaunchOperand &operand, const KernelStore &store,
                  GraphRunner &runner, GraphRunner &unrolled,
                  ArrayRef<uint32_t> among);
  bool isSoleCopy(const LaunchOperand &operand, uint32_t copy,
                  uint32_t from) const;
  bool mayBe(const KernelStore &store, const Match &match) const;
  void tellElsewhere(const LaunchOperand &operand, const KernelStore &store,
                     GraphRunner &runner, GraphRunner &unrolled,
                     SmallVectorImpl<uint32_t> &nodes);
  void tellRivals(const LaunchOperand &operand, const KernelStore &store,
                  GraphRunner &runner, GraphRunner &unrolled, Match &match);
  void redraw(GraphRunner::Sizes sizes);
  Runners makeRunners(GraphRunner::Sizes sizes) const;
  std::optional<bool> agreesAgain(
      const KernelStore &store,
      function_ref<SmallVector<AbstractValue, 2>(Redraw &)> valuesIn) const;
  std::optional<bool> agreesAgain(const KernelStore &store,
                                  uint32_t candidate) const;
  uint32_t findMoved(const LaunchOperand &operand, const KernelStore &store,
                     GraphRunner &runner, bool &isTied) const;
  bool begins(const KernelStore &store, uint32_t node,
              GraphRunner &runner) const;
  bool isStillTaken(uint32_t node) const;
  bool reach(uint32_t candidate, bool agrees, Match &match) const;
  Match findSum(const LaunchOperand &operand, const KernelStore &store,
                GraphRunner &runner, GraphRunner &unrolled, Begun &out);
  std::vector<uint32_t> findLoaded(const KernelStore &store) const;
  void setFirsts();
  void add(const Match &match);
  void addAsserted(const LaunchOperand &operand, const KernelStore &store,
                   GraphRunner &runner, GraphRunner &unrolled);
  bool runOnce();
  void dropBegun();

  Joiner &joiner;
  const LaunchWork &work;
  const IndexedGraph &graph;
  const KernelBody &body;
  ArrayRef<FoundNode> found;
  std::vector<KernelArgument> arguments;
  std::vector<const LaunchOperand *> byParameter;
  DenseSet<uint32_t> proposed, recorded, taken;
  /// Operands that hold what a later launch makes a node's value of.
  DenseMap<size_t, Begun> begun;
  /// Nodes that have the value of a store as well as the one that was chosen.
  std::set<uint32_t> rivals;
  /// A record of PyTorch's is among what proposes.
  bool isRecorded = false;
  /// By parameter: the nodes whose values were read through it.
  DenseMap<unsigned, std::set<uint32_t>> readBy;
  /// Of values that are read at places between elements, as what stands for a
  /// place that data gives may be: how they lie in memory.
  GraphRunner::Layouts layouts;
  /// Launches that stored a part of a value that is read.
  DenseSet<uint32_t> begunBy;
  /// What may be stored, and the views of that.
  std::vector<uint32_t> candidates, views;
  /// Of those, what can be computed from what is read.
  DenseSet<uint32_t> computable;
  /// There is more of that than was searched.
  bool isCut = false;
  LaunchProof proof;
  /// By parameter and round: the node whose value the kernel stored there and
  /// reads back.
  DenseMap<std::pair<unsigned, unsigned>, uint32_t> readBack;
  /// Of constants that begin alike, all nodes that it may be.
  DenseMap<std::pair<unsigned, unsigned>, SmallVector<uint32_t, 2>> constants;
  /// What is held only because the kernel computed it itself.
  SmallVector<uint32_t> ownValues;
  /// Which draw of places the kernel is run for, and the further ones where
  /// they matter.
  unsigned draw = 0;
  std::vector<std::unique_ptr<Redraw>> redraws;
  /// Runs of the kernel for other elements than the first, where one was asked
  /// for; and whether it is run for such ones.
  std::vector<KernelResult> elsewhere;
  bool isElsewhere = false;
  /// It divides places that are drawn as other numbers are.
  bool dividesOthers = false;
  bool isComplete = false, hasStore = false;
};

bool KernelProver::setArguments() {
  arguments.resize(body.parameters.size());
  byParameter.resize(arguments.size());
  for (const LaunchOperand &operand : work.from.operands) {
    if (operand.parameter >= arguments.size())
      return false;
    KernelArgument &argument = arguments[operand.parameter];
    argument.storage = operand.storage;
    argument.offset = operand.offset ? double(*operand.offset) : NAN;
    byParameter[operand.parameter] = &operand;
  }
  for (const auto &[position, text] : work.from.scalars)
    if (position < arguments.size())
      if (auto value = joiner.sizeOf(Dim{std::nullopt, text}))
        arguments[position].number = *value;
  return true;
}

/// The region is read through the parameter.
void KernelProver::hold(unsigned parameter, const HeldRegion &region) {
  proof.held.insert_range(graph.findSame(region.node));
  if (region.lacksBias)
    proof.withoutBias.insert(region.node);
  readBy[parameter].insert(graph.twin[region.node]);
}

/// A concatenation that is read where this kernel stores a part of it: the
/// other parts are read too, though the first element is not theirs.
void KernelProver::holdOtherParts() {
  auto isWritten = [&](const HeldRegion &region, int32_t storage) {
    return any_of(work.from.operands, [&](const LaunchOperand &operand) {
      return operand.storage == storage &&
             operand.role & KernelParameter::Output &&
             joiner.overlaps(region, operand);
    });
  };
  auto isPartWritten = [&](const LaunchOperand &whole) {
    return any_of(work.from.operands, [&](const LaunchOperand &operand) {
      return operand.storage == whole.storage &&
             operand.role == KernelParameter::Output;
    });
  };
  for (const LaunchOperand &operand : work.from.operands) {
    if (operand.storage < 0 || operand.role != KernelParameter::Input ||
        operand.parameter >= arguments.size() || !isPartWritten(operand))
      continue;
    for (const HeldRegion &region : joiner.regions[operand.storage])
      if (region.node != kNoNode && region.graph == &graph &&
          joiner.overlaps(region, operand) &&
          !isWritten(region, operand.storage))
        hold(operand.parameter, region);
  }
}

/// The number of the element of the region's node that stands at a place of
/// its storage; between elements, that of the place.
std::optional<double> KernelProver::elementAt(const HeldRegion &region,
                                              double place) {
  if (place == std::floor(place) || region.node == kNoNode || !region.offset)
    return joiner.offsetIn(region, place);
  auto steps = joiner.stepsOf(region, graph);
  if (!steps)
    return std::nullopt;
  auto [it, isNew] = layouts.try_emplace(graph.twin[region.node], *steps);
  if (!isNew && it->second != *steps)
    it->second.clear();
  return place - double(*region.offset);
}

/// What memory holds before the launch.
AbstractValue KernelProver::load(unsigned parameter, double offset) {
  const LaunchOperand *operand = byParameter[parameter];
  if (!operand || operand->storage < 0 || !operand->offset)
    return AbstractValue::unknown();
  const HeldRegion *region = joiner.findRegionAt(*operand, offset, graph);
  double place = double(*operand->offset) + offset;
  // Kernels read complex numbers as pairs of others.
  bool isPair =
      region && region->node != kNoNode && graph.isComplex(region->node);
  bool isSecond = isPair && std::fmod(place, 2) == 1;
  if (isPair)
    place = (place - isSecond) / 2;
  std::optional<double> inside =
      region ? elementAt(*region, place) : std::nullopt;
  if (!inside)
    return AbstractValue::unknown();
  auto value = [&] {
    AbstractValue at = GraphRunner::given(graph, region->node, *inside, draw);
    return isSecond ? applyOperator("imag", at) : at;
  };
  auto multiple = [&] {
    return applyOperator(
        "mul",
        {GraphRunner::given(graph, region->multiple->node, *inside, draw),
         AbstractValue::constant(region->multiple->times)});
  };
  // The first draw says what is read, and the first elements.
  if (draw || isElsewhere)
    return region->node != kNoNode ? value()
           : region->multiple      ? multiple()
                                   : AbstractValue::unknown();
  proof.sure &= region->sure;
  if (region->node != kNoNode) {
    hold(parameter, *region);
    // Parts of one concatenation: other turns of the loop read the others.
    // Read by a part's own name, nothing else is.
    if (!joiner.isPart(*region, operand->storage))
      for (const HeldRegion &other : joiner.regions[operand->storage])
        if (&other != region && other.node != kNoNode &&
            other.graph == &graph && joiner.overlaps(other, *operand))
          hold(parameter, other);
    return value();
  }
  if (region->multiple) {
    proof.held.insert_range(graph.findSame(region->multiple->node));
    readBy[parameter].insert(graph.twin[region->multiple->node]);
    return multiple();
  }
  if (*inside != 0 || !region->first.known)
    return AbstractValue::unknown();
  for (uint32_t node : region->madeFrom) {
    proof.held.insert_range(graph.findSame(node));
    readBy[parameter].insert(graph.twin[node]);
  }
  if (region->writer != kNoNode)
    begunBy.insert(region->writer);
  return region->first;
}

/// Where data that is not modelled says where to read, any of what the operand
/// holds goes in.
void KernelProver::touch(unsigned parameter) {
  const LaunchOperand *operand = byParameter[parameter];
  if (draw || isElsewhere || !operand || operand->storage < 0 ||
      !operand->offset)
    return;
  for (const HeldRegion &region : joiner.regions[operand->storage])
    if (region.node != kNoNode && region.graph == &graph &&
        joiner.overlaps(region, *operand)) {
      proof.sure &= region.sure;
      hold(parameter, region);
    }
}

/// For values that are not modelled: whether the node comes from all that the
/// stored value was loaded from, and from nothing else.
bool KernelProver::mayBe(const KernelStore &store, const Match &match) const {
  DenseSet<uint32_t> from;
  for (unsigned parameter : store.loaded.set_bits()) {
    auto it = readBy.find(parameter);
    if (it == readBy.end())
      return false;
    from.insert(it->second.begin(), it->second.end());
  }
  return from.size() == match.cone.leaves.size() &&
         all_of(from, [&](uint32_t node) {
           return match.cone.leaves.contains(node);
         });
}

/// Runs the kernel for further places: the first ones are small, and dividing
/// them tells little. `sizes` has to live as long as they are used.
void KernelProver::redraw(GraphRunner::Sizes sizes) {
  for (draw = 1; draw < kPlaceDraws; ++draw) {
    KernelResult result = runKernel(body, arguments, *this);
    redraws.push_back(std::make_unique<Redraw>(
        Redraw{makeRunners(sizes), std::move(result)}));
  }
  draw = 0;
}

/// For the draw that is looked at. `sizes` has to live as long as they do.
Runners KernelProver::makeRunners(GraphRunner::Sizes sizes) const {
  Runners made{GraphRunner(graph, proof.held, sizes),
               GraphRunner(graph, proof.held, sizes)};
  for (GraphRunner *runner : {&made.runner, &made.unrolled}) {
    runner->withoutBias = &proof.withoutBias;
    runner->draw = draw;
    runner->layouts = &layouts;
    runner->unrollsWhole = body.language == KernelBody::Triton;
  }
  made.unrolled.unrolls = true;
  return made;
}

/// Whether one of the values is what is stored, in every further draw; none
/// where that is not known of each.
std::optional<bool> KernelProver::agreesAgain(
    const KernelStore &store,
    function_ref<SmallVector<AbstractValue, 2>(Redraw &)> valuesIn) const {
  // Great numbers make more of what constants are rounded by.
  constexpr double kTolerance = 1e-3;
  bool isKnown = !dividesOthers;
  for (const std::unique_ptr<Redraw> &again : redraws) {
    const KernelStore *stored = nullptr;
    for (const auto *stores :
         {&again->result.stores, &again->result.overwritten})
      for (const KernelStore &item : *stores)
        if (item.parameter == store.parameter && item.offset == store.offset &&
            item.round == store.round)
          stored = &item;
    if (!stored || !stored->value.known) {
      isKnown = false;
      continue;
    }
    SmallVector<AbstractValue, 2> values = valuesIn(*again);
    if (any_of(values, [&](const AbstractValue &value) {
          return stored->value.agrees(value, kTolerance);
        }))
      continue;
    if (all_of(values, [](const AbstractValue &value) { return value.known; }))
      return false;
    isKnown = false;
  }
  return isKnown ? std::optional(true) : std::nullopt;
}

std::optional<bool> KernelProver::agreesAgain(const KernelStore &store,
                                              uint32_t candidate) const {
  return agreesAgain(store, [&](Redraw &again) {
    SmallVector<AbstractValue, 2> values = {
        again.runner.evaluateFirst(candidate)};
    if (again.runner.canUnroll)
      values.push_back(again.unrolled.evaluateFirst(candidate));
    return values;
  });
}

/// Whether a memory has the shape of the copy and not of what that copies,
/// which nothing else takes any more: its elements lie as in the copy.
bool KernelProver::isSoleCopy(const LaunchOperand &operand, uint32_t copy,
                              uint32_t from) const {
  auto isShaped = [&](uint32_t node) {
    const std::vector<TensorInfo> &results = graph[node].results;
    return results.size() == 1 &&
           sameDims(results.front().shape, operand.info.shape);
  };
  if (!graph.isClone(copy) || graph.isOutput[graph.root[from]] ||
      isShaped(from))
    return false;
  SmallVector<uint32_t> open = {from};
  DenseSet<uint32_t> seen = {from, copy};
  while (!open.empty())
    for (uint32_t user : graph.users[open.pop_back_val()]) {
      if (graph[user].op != GraphNode::Call || !seen.insert(user).second ||
          joiner.computedBy.contains({&work.graph, user}))
        continue;
      if (!graph.isView(user))
        return false;
      open.push_back(user);
    }
  // The copy, and what shows it in its order of elements.
  open = {copy};
  while (!open.empty()) {
    uint32_t at = open.pop_back_val();
    if (isShaped(at))
      return true;
    for (uint32_t user : graph.users[at])
      if (graph.isView(user) && !graph.movesElements(user, at) &&
          seen.insert(user).second)
        open.push_back(user);
  }
  return false;
}

/// The node that has the value, fits the buffer, and can be computed from what
/// is read. Of a chain of copies the last one is stored, of twins the first.
Match KernelProver::findMatch(const LaunchOperand &operand,
                              const KernelStore &store, GraphRunner &runner,
                              GraphRunner &unrolled) {
  Match best = findMatch(operand, store, runner, unrolled, candidates);
  if (best.node != kNoNode || !store.value.known)
    return best;
  // A constant may as well be the value of what no formula is known of.
  if (!store.value.isData && any_of(candidates, [&](uint32_t candidate) {
        const std::vector<TensorInfo> &results = graph[candidate].results;
        return proposed.contains(candidate) && results.size() == 1 &&
               joiner.fits(operand, results.front()) &&
               !runner.evaluateFirst(candidate).known;
      }))
    return best;
  // A view that is a part of what it shows, or repeats it, laid out anew.
  auto countElements = [&](uint32_t node) -> std::optional<uint64_t> {
    const std::vector<TensorInfo> &results = graph[node].results;
    if (results.size() != 1)
      return std::nullopt;
    return joiner.elementsOf(results.front());
  };
  std::vector<uint32_t> resized;
  for (uint32_t view : views) {
    // A constant has many equals: there the records know more.
    if (!store.value.isData && !proposed.contains(view))
      continue;
    std::optional<uint64_t> size = countElements(view);
    std::optional<uint64_t> from = countElements(graph.value[view]);
    if (size && from && size != from)
      resized.push_back(view);
  }
  best = findMatch(operand, store, runner, unrolled, resized);
  return best.agrees ? best : Match();
}

/// What records name and what can be computed from what is read, in the order
/// of the graph.
void KernelProver::findCandidates(bool withSources) {
  std::set<uint32_t> sources;
  // What reads nothing makes constants, some of them once more.
  if (proof.held.empty() || withSources)
    sources.insert(graph.sources.begin(), graph.sources.end());
  isCut = false;
  computable =
      joiner.findComputable(graph, proof.held, std::move(sources), isCut);
  // Their bias is added here.
  computable.insert_range(proof.withoutBias);
  SmallVector<uint32_t> all(computable.begin(), computable.end());
  all.append(proposed.begin(), proposed.end());
  llvm::sort(all);
  all.erase(llvm::unique(all), all.end());
  candidates.clear();
  views.clear();
  for (uint32_t at : all) {
    bool isPart =
        graph[at].target == "operator.getitem" && graph.value[at] == at;
    (isPart || graph.root[at] == at ? candidates : views).push_back(at);
  }
}

/// Makes `match` a candidate with its cone; false where that leads to what is
/// not read.
bool KernelProver::reach(uint32_t candidate, bool agrees, Match &match) const {
  match.node = candidate;
  match.agrees = agrees;
  match.cone.held = proof.held;
  match.cone.withoutBias = proof.withoutBias;
  return joiner.collectCone(candidate, graph, match.cone);
}

Match KernelProver::findMatch(const LaunchOperand &operand,
                              const KernelStore &store, GraphRunner &runner,
                              GraphRunner &unrolled, ArrayRef<uint32_t> among) {
  Match best;
  // What an earlier launch was taken to compute, and may not have.
  SmallVector<Match, 0> unsure;
  for (uint32_t candidate : among) {
    const GraphNode &node = graph[candidate];
    if (node.results.size() != 1 || !mayCompute(candidate))
      continue;
    TensorInfo result = node.results.front();
    bool isMask = isStoredMask(operand, result) &&
                  (store.value.isData || proposed.contains(candidate));
    if (isMask)
      result.dtype = operand.info.dtype;
    if (!joiner.fits(operand, result))
      continue;
    AbstractValue value = runner.evaluateFirst(candidate);
    // Many constants begin alike: there the records know more.
    if (!store.value.isData && isRecorded && !proposed.contains(candidate))
      continue;
    bool agrees = store.value.agrees(value) ||
                  (runner.canUnroll &&
                   store.value.agrees(unrolled.evaluateFirst(candidate)));
    if (!agrees && store.value.known && value.known)
      continue;
    std::optional<bool> again = true;
    if (agrees)
      again = agreesAgain(store, candidate);
    if (again == false)
      continue;
    Match match;
    if (!reach(candidate, agrees, match) || match.cone.nodes.empty())
      continue;
    // One element may be that of a part: all that it is loaded from tells.
    bool isWhole = mayBe(store, match);
    if (!agrees && !isWhole)
      continue;
    bool isNew = any_of(match.cone.nodes, [&](uint32_t at) {
      return !joiner.computedBy.contains({&work.graph, at});
    });
    bool mayBeNew = isNew || any_of(match.cone.nodes, [&](uint32_t at) {
                      return joiner.unsure.contains({&work.graph, at});
                    });
    auto score = [&](bool isNew) {
      int score = scoreMatch(node, operand, recorded.contains(candidate), isNew,
                             taken.contains(candidate));
      score += (agrees ? 32 : 0) + (isWhole ? 40 : 0);
      // Indices and constants are often equal: there the records know more.
      if (!store.value.isData && proposed.contains(candidate))
        score += 24;
      return score;
    };
    match.score = score(isNew);
    match.scoreIfNew = score(mayBeNew);
    match.isDoubtful = !isWhole || !again ||
                       (!agrees && !proposed.contains(candidate)) ||
                       (isMask && !store.value.isData);
    if (agrees && mayBeNew && !isNew)
      unsure.push_back(match);
    bool isChain =
        best.node != kNoNode && match.cone.passed.contains(best.node);
    // What dataflow alone proposes is preferred, and others remain rivals.
    bool isEqual = match.score == best.score;
    match.isGuessed =
        proposed.contains(candidate) && !recorded.contains(candidate);
    // Of values that are not known, a result is stored rather than what leads
    // to another value that is computed here.
    bool isResult = !agrees && graph.isOutput[graph.root[candidate]];
    bool isPreferred = match.isGuessed != best.isGuessed ? match.isGuessed
                       : isResult && best.node != kNoNode
                           ? !graph.isOutput[graph.root[best.node]] || isChain
                           : isChain;
    if (match.score > best.score || (isEqual && isPreferred)) {
      if (isEqual) {
        match.isDoubtful |= !agrees;
        bool moves = graph.movesElements(candidate, best.node) &&
                     !isSoleCopy(operand, candidate, best.node);
        if (!graph.isClone(candidate) || moves)
          match.addRivals(best, agrees && !moves);
        else
          match.takeRivals(best);
      }
      best = std::move(match);
    } else if (isEqual) {
      best.isDoubtful |= !agrees;
      if (!isChain || !graph.isClone(candidate) ||
          graph.movesElements(candidate, best.node))
        best.addRivals(match, false);
    }
  }
  auto isCopy = [&](const Match &copy, const Match &of) {
    return graph.isClone(copy.node) && copy.cone.passed.contains(of.node) &&
           (!graph.movesElements(copy.node, of.node) ||
            isSoleCopy(operand, copy.node, of.node));
  };
  for (const Match &other : unsure)
    if (other.score < best.score && other.scoreIfNew >= best.score &&
        !isCopy(best, other) && !isCopy(other, best))
      best.addRivals(other, false);
  tellRivals(operand, store, runner, unrolled, best);
  return best;
}

/// Of nodes that have the value of a store's first element, leaves those that
/// have that of other elements too, where one of them does.
void KernelProver::tellElsewhere(const LaunchOperand &operand,
                                 const KernelStore &store, GraphRunner &runner,
                                 GraphRunner &unrolled,
                                 SmallVectorImpl<uint32_t> &nodes) {
  // Deeper loops, and more of their turns, were not needed to tell any.
  constexpr unsigned kDepths = 4;
  constexpr double kShares[] = {0, 0.5, 1};
  SmallVector<int64_t> sizes, strides;
  ArrayRef<Dim> shape = operand.info.shape;
  for (auto [size, stride] : zip(shape, operand.info.stride)) {
    sizes.push_back(joiner.sizeOf(size).value_or(0));
    strides.push_back(joiner.sizeOf(stride).value_or(0));
  }
  if (sizes.size() != shape.size() || is_contained(sizes, 0))
    return;
  if (elsewhere.empty()) {
    isElsewhere = true;
    for (unsigned depth = 0; depth < kDepths; ++depth)
      for (double share : kShares)
        elsewhere.push_back(
            runKernel(body, arguments, *this, KernelTurn{depth, share}));
    isElsewhere = false;
  }
  auto tell = [&](const KernelStore &item) {
    if (item.parameter != store.parameter || item.round != store.round ||
        !(item.offset > 0) || !item.value.known)
      return;
    std::optional<GraphRunner::Place> place =
        placeIn(sizes, strides, item.offset);
    if (!place)
      return;
    bool hasOne = false;
    auto isOther = [&](uint32_t node) {
      // By other dimensions it is no element of this place.
      std::optional<GraphRunner::Place> own = runner.shapeOf(node);
      if (!own || !llvm::equal(*own, sizes))
        return false;
      AbstractValue value = runner.evaluate(node, *place);
      bool agrees = item.value.agrees(value) ||
                    (runner.canUnroll &&
                     item.value.agrees(unrolled.evaluate(node, *place)));
      hasOne |= agrees;
      return value.known && !agrees;
    };
    SmallVector<uint32_t> left;
    copy_if(nodes, std::back_inserter(left),
            [&](uint32_t node) { return !isOther(node); });
    if (hasOne)
      nodes.assign(left.begin(), left.end());
  };
  for (const KernelResult &result : elsewhere) {
    if (nodes.size() < 2)
      return;
    // Of what several statements store, another turn may store over it.
    if (store.parameter >= result.storing.size() ||
        result.storing[store.parameter] != 1)
      continue;
    llvm::for_each(result.stores, tell);
    llvm::for_each(result.overwritten, tell);
  }
}

/// Drops the rivals of a match that other elements tell from what is stored,
/// or takes the one for it that they tell it to be.
void KernelProver::tellRivals(const LaunchOperand &operand,
                              const KernelStore &store, GraphRunner &runner,
                              GraphRunner &unrolled, Match &match) {
  if (!match.agrees || match.rivals.empty())
    return;
  SmallVector<uint32_t> nodes = {match.node};
  for (uint32_t rival : match.rivals)
    if (!is_contained(nodes, rival))
      nodes.push_back(rival);
  tellElsewhere(operand, store, runner, unrolled, nodes);
  if (nodes.front() != match.node) {
    Match other = match;
    other.cone = LaunchProof();
    if (!reach(nodes.front(), /*agrees=*/true, other) ||
        other.cone.nodes.empty())
      return;
    other.isDoubtful |=
        !mayBe(store, other) || agreesAgain(store, other.node) != true;
    match = std::move(other);
  }
  match.rivals.assign(nodes.begin() + 1, nodes.end());
}

namespace {
/// What a node is the mean of, or the variance, and by how many elements for
/// each of its own a sum is divided for it.
struct Averaged {
  uint32_t operand;
  double count;
  bool isVariance;
};
} // namespace

static std::optional<Averaged>
findAveraged(uint32_t node, const IndexedGraph &graph,
             function_ref<std::optional<uint64_t>(uint32_t)> countElements) {
  auto make = [&](uint32_t operand, double correction,
                  bool isVariance) -> std::optional<Averaged> {
    std::optional<uint64_t> from = countElements(operand);
    std::optional<uint64_t> to = countElements(node);
    if (!from || !to || !*to)
      return std::nullopt;
    return Averaged{operand, double(*from) / double(*to) - correction,
                    isVariance};
  };
  ArrayRef<uint32_t> operands = graph[node].operands;
  if (operands.size() != 1)
    return std::nullopt;
  if (graph.family[node] == "mean")
    return make(operands.front(), 0, false);
  const GraphNode &both = graph[operands.front()];
  if (graph[node].target != "operator.getitem" || both.operands.size() != 1 ||
      graph.family[operands.front()] != "var_mean" ||
      graph[node].args.size() != 2)
    return std::nullopt;
  if (graph[node].args[1].getAsInteger() == 1)
    return make(both.operands.front(), 0, false);
  for (const auto &[key, value] : both.kwargs)
    if (key == "correction")
      if (std::optional<double> correction = value.getAsNumber())
        return make(both.operands.front(), *correction, true);
  return std::nullopt;
}

/// A mean whose sum is stored here: what takes it divides.
Match KernelProver::findSum(const LaunchOperand &operand,
                            const KernelStore &store, GraphRunner &runner,
                            GraphRunner &unrolled, Begun &out) {
  auto countElements = [&](uint32_t node) -> std::optional<uint64_t> {
    const std::vector<TensorInfo> &results = graph[node].results;
    if (results.size() != 1)
      return std::nullopt;
    return joiner.elementsOf(results.front());
  };
  Match best;
  for (uint32_t candidate : candidates) {
    const GraphNode &node = graph[candidate];
    std::optional<Averaged> averaged =
        findAveraged(candidate, graph, countElements);
    if (!averaged || node.results.size() != 1 || !mayCompute(candidate) ||
        !joiner.fits(operand, node.results.front()))
      continue;
    Begun sum{candidate, averaged->count, false, averaged->isVariance};
    auto isSum = [&](AbstractValue mean) {
      mean.number *= sum.count;
      return store.value.agrees(mean);
    };
    if (!isSum(runner.evaluateFirst(candidate))) {
      sum.isSpelledOut = true;
      if (!isSum(unrolled.evaluateFirst(candidate)))
        continue;
    }
    std::optional<bool> again = agreesAgain(store, [&](Redraw &other) {
      AbstractValue mean = (sum.isSpelledOut ? other.unrolled : other.runner)
                               .evaluateFirst(candidate);
      mean.number *= sum.count;
      return SmallVector<AbstractValue, 2>{mean};
    });
    Match match;
    if (again == false || !reach(candidate, /*agrees=*/true, match))
      continue;
    match.isDoubtful = !again;
    if (best.node == kNoNode) {
      best = std::move(match);
      out = sum;
    } else {
      best.addRivals(match, false);
    }
  }
  return best;
}

/// Whether the stored value may be the first of the node's.
bool KernelProver::begins(const KernelStore &store, uint32_t node,
                          GraphRunner &runner) const {
  bool isHeld = proof.held.contains(node);
  auto first = [&](GraphRunner &by) {
    return isHeld ? GraphRunner::given(graph, node, 0, by.draw)
                  : by.evaluateFirst(node);
  };
  return store.value.agrees(first(runner)) &&
         agreesAgain(store, [&](Redraw &again) {
           return SmallVector<AbstractValue, 2>{first(again.runner)};
         }) == true;
}

/// Whether both values are one in the elements next to the first as well.
static bool areAlike(uint32_t a, uint32_t b, GraphRunner &runner, size_t rank) {
  for (size_t dim = 0; dim < rank; ++dim) {
    GraphRunner::Place place(rank, 0.0);
    place[dim] = 1;
    AbstractValue value = runner.evaluate(a, place);
    if (!value.known || !value.agrees(runner.evaluate(b, place)))
      return false;
  }
  return true;
}

/// Whether something that no launch has computed yet takes the value.
bool KernelProver::isStillTaken(uint32_t node) const {
  return any_of(graph.users[node], [&](uint32_t user) {
    return graph[user].op == GraphNode::Call &&
           (graph.isView(user) ? isStillTaken(user)
                               : !joiner.computedBy.contains({&graph, user}));
  });
}

/// The value of something that was read: another layout of it, or a view that
/// is part of a concatenation. `isTied`: the first element is that of another
/// of these as well, as of a matrix and its transpose.
uint32_t KernelProver::findMoved(const LaunchOperand &operand,
                                 const KernelStore &store, GraphRunner &runner,
                                 bool &isTied) const {
  // What comes from several values is more than one of them.
  std::set<uint32_t> from;
  for (unsigned parameter : store.loaded.set_bits())
    if (auto it = readBy.find(parameter); it != readBy.end())
      from.insert(it->second.begin(), it->second.end());
  if (from.size() != 1)
    return kNoNode;
  ArrayRef<Dim> shape = operand.info.shape;
  uint32_t moved = kNoNode;
  SmallVector<uint32_t> fitting;
  for (uint32_t node : proof.held) {
    const std::vector<TensorInfo> &results = graph[node].results;
    if (results.size() != 1 || !joiner.fits(operand, results.front()) ||
        !begins(store, node, runner))
      continue;
    moved = node;
    if (sameDims(results.front().shape, shape))
      fitting.push_back(node);
  }
  for (uint32_t node : views) {
    const std::vector<TensorInfo> &results = graph[node].results;
    if (results.size() == 1 && !proof.held.contains(node) &&
        proof.held.contains(graph.value[node]) &&
        joiner.fits(operand, results.front()) &&
        sameDims(results.front().shape, shape) && begins(store, node, runner))
      fitting.push_back(node);
  }
  if (fitting.empty())
    return moved;
  isTied = any_of(fitting, [&](uint32_t node) {
    return !areAlike(node, fitting.front(), runner, shape.size());
  });
  // What is laid out anew is for something that is still to come.
  auto *taken =
      isTied
          ? find_if(fitting, [&](uint32_t node) { return isStillTaken(node); })
          : fitting.begin();
  return taken == fitting.end() ? fitting.front() : *taken;
}

/// Of what an earlier launch began, only the last step is done here.
void KernelProver::dropBegun() {
  // The views before it were the earlier launch's.
  proof.passed.clear();
  // What these computed again too.
  DenseSet<uint32_t> earlier;
  for (uint32_t launch : begunBy)
    earlier.insert_range(joiner.computedIn[launch]);
  for (auto it = proof.nodes.begin(); it != proof.nodes.end();) {
    bool isBegun = earlier.contains(*it);
    if (isBegun && getWorkKind(graph[*it].target) != WorkKind::Reduction) {
      proof.stored.erase(*it);
      it = proof.nodes.erase(it);
      continue;
    }
    if (isBegun)
      proof.continued.insert(*it);
    ++it;
  }
}

std::optional<AbstractValue>
KernelProver::reload(unsigned parameter, unsigned round, double offset) {
  auto it = readBack.find({parameter, round});
  auto constant = constants.find({parameter, round});
  if (it == readBack.end() && constant == constants.end())
    return std::nullopt;
  const LaunchOperand &operand = *byParameter[parameter];
  HeldRegion region;
  region.offset = operand.offset;
  region.info = operand.info;
  if (it != readBack.end())
    region.node = it->second;
  std::optional<double> inside =
      elementAt(region, double(*operand.offset) + offset);
  if (!inside)
    return AbstractValue::unknown();
  if (it != readBack.end())
    return GraphRunner::given(graph, it->second, *inside, draw);
  // Whichever of them it is, where all have one value there.
  auto sizes = [&](const Dim &dim) { return joiner.sizeOf(dim); };
  GraphRunner runner(graph, proof.held, sizes);
  std::optional<AbstractValue> value;
  for (uint32_t node : constant->second) {
    AbstractValue at = runner.evaluateAt(node, *inside);
    if (!at.known || at.isData || (value && !value->agrees(at)))
      return AbstractValue::unknown();
    value = at;
  }
  return value;
}

bool KernelProver::mayHold(unsigned parameter, double offset) {
  const LaunchOperand *operand = byParameter[parameter];
  return !operand || joiner.mayHold(operand->info, offset);
}

void KernelProver::add(const Match &match) {
  taken.insert(match.node);
  proof.unique &= !match.isDoubtful;
  rivals.insert(match.rivals.begin(), match.rivals.end());
  if (match.agrees && !match.isTie())
    proof.stored.insert(match.cone.nodes.begin(), match.cone.nodes.end());
  proof.nodes.insert(match.cone.nodes.begin(), match.cone.nodes.end());
  proof.passed.insert(match.cone.passed.begin(), match.cone.passed.end());
  proof.continued.insert(match.cone.continued.begin(),
                         match.cone.continued.end());
}

/// What the kernel stores and nobody reads again may be what it checks.
void KernelProver::addAsserted(const LaunchOperand &operand,
                               const KernelStore &store, GraphRunner &runner,
                               GraphRunner &unrolled) {
  if (operand.info.dtype != "bool" || !store.value.known)
    return;
  // Nodes that only lead to checks.
  std::set<uint32_t> asserted;
  std::vector<uint32_t> among;
  for (uint32_t candidate : reverse(candidates)) {
    ArrayRef<uint32_t> users = graph.users[candidate];
    if (!users.empty() && all_of(users, [&](uint32_t user) {
          return graph.family[user].starts_with("_assert") ||
                 asserted.count(user);
        })) {
      asserted.insert(candidate);
      among.push_back(candidate);
    }
  }
  std::reverse(among.begin(), among.end());
  Match match = findMatch(operand, store, runner, unrolled, among);
  if (!match.agrees || match.isTie())
    return;
  // The check itself, and what stands before it.
  SmallVector<uint32_t> open = {match.node};
  while (!open.empty())
    for (uint32_t user : graph.users[open.pop_back_val()])
      if (match.cone.nodes.insert(user).second) {
        match.cone.passed.insert(user);
        open.push_back(user);
      }
  add(match);
}

/// One run of the kernel, with the values of what it reads back that earlier
/// ones settled. True where this one settled more.
bool KernelProver::runOnce() {
  KernelResult result = runKernel(body, arguments, *this);
  auto sizes = [&](const Dim &dim) { return joiner.sizeOf(dim); };
  auto [runner, unrolled] = makeRunners(sizes);
  redraws.clear();
  elsewhere.clear();
  if (result.readsByData)
    redraw(sizes);
  dividesOthers = any_of(result.divided.set_bits(), [&](unsigned parameter) {
    auto it = readBy.find(parameter);
    return it == readBy.end() || any_of(it->second, [&](uint32_t node) {
             return graph.placeLimits[node] == 0;
           });
  });
  // Of constants no value leads to them.
  bool storesConstant =
      !isRecorded && any_of(result.stores, [](const KernelStore &store) {
        return store.offset == 0 && store.value.known && !store.value.isData;
      });
  findCandidates(storesConstant);
  // A twin may lie where nothing was searched.
  proof.unique &= !isCut;
  isComplete = true;
  // By operand: what is stored there, and its node.
  std::vector<std::tuple<size_t, const KernelStore *, Match>> stored;
  std::vector<std::pair<const KernelStore *, Match>> settled;
  auto isUnsettled = [&](const KernelStore &store) {
    std::pair<unsigned, unsigned> key = {store.parameter, store.round};
    return store.isReadBack && !readBack.contains(key) &&
           !constants.contains(key);
  };
  auto settle = [&](const LaunchOperand &operand, const KernelStore &store,
                    Match match) {
    // A copy of what was read, as where parts are put together.
    if (match.node == kNoNode && store.value.known && store.value.isData) {
      bool isTied = false;
      match.node = findMoved(operand, store, runner, isTied);
      match.agrees =
          match.node != kNoNode && !isTied &&
          sameDims(graph[match.node].results.front().shape, operand.info.shape);
    }
    // What is scattered has no value of its own: the one scatter that comes
    // from all that goes into it is what is read back.
    bool isScattered = store.isScattered && match.node != kNoNode &&
                       isScatter(graph.family[match.node]) &&
                       match.rivals.empty();
    bool isOne = match.areRivalsEqual || !store.value.isData;
    if ((match.agrees || isScattered) && !match.isDoubtful && isOne)
      settled.push_back({&store, match});
  };
  for (const KernelStore &store : result.overwritten) {
    const LaunchOperand *operand = byParameter[store.parameter];
    if (store.offset == 0 && operand && operand->offset && isUnsettled(store))
      settle(*operand, store, findMatch(*operand, store, runner, unrolled));
  }
  auto findScatters = [&] {
    SmallVector<uint32_t> found;
    copy_if(candidates, std::back_inserter(found),
            [&](uint32_t node) { return isScatter(graph.family[node]); });
    return found;
  };
  SmallVector<uint32_t> guessed;
  for (auto [i, operand] : enumerate(work.from.operands)) {
    if (proof.outputs[i] != kNoNode || begun.contains(i))
      continue;
    auto isStore = [&](const KernelStore &item, double offset) {
      return item.parameter == operand.parameter && item.offset == offset;
    };
    auto store = find_if(result.stores, [&](const KernelStore &item) {
      return isStore(item, 0);
    });
    // Where data says where to: at any place.
    if (store == result.stores.end())
      store = find_if(result.stores, [&](const KernelStore &item) {
        return isStore(item, -1) && !item.value.known;
      });
    bool isLive = joiner.isLive(operand, work.index);
    if (store == result.stores.end()) {
      isComplete &= !(operand.role & KernelParameter::Output) || !isLive;
      continue;
    }
    if (!proof.firsts[i].known) {
      proof.firsts[i] = store->value;
      proof.firstsFrom[i] = findLoaded(*store);
    }
    bool isReadBack = isUnsettled(*store) && operand.offset;
    if (!isLive && !isReadBack) {
      addAsserted(operand, *store, runner, unrolled);
      continue;
    }
    Match best;
    // What is read back of a scatter is not what is made of that.
    if (isReadBack && store->isScattered)
      best = findMatch(operand, *store, runner, unrolled, findScatters());
    if (best.node == kNoNode)
      best = findMatch(operand, *store, runner, unrolled);
    if (isReadBack)
      settle(operand, *store, best);
    if (!isLive)
      continue;
    // What is only guessed is nobody else's in this run of the kernel.
    bool isSettled = best.agrees || result.readBack.none();
    if (best.node != kNoNode && taken.insert(best.node).second && !isSettled)
      guessed.push_back(best.node);
    stored.push_back({i, &*store, std::move(best)});
  }
  for (uint32_t node : guessed)
    taken.erase(node);
  hasStore |= !stored.empty();
  for (auto &[i, store, match] : stored) {
    // Once what is read back is settled, more values are known.
    if (!settled.empty() && !match.agrees) {
      isComplete = false;
      continue;
    }
    if (match.node != kNoNode) {
      proof.outputs[i] = match.node;
      if (!match.rivals.empty()) {
        proof.tied.insert(i);
        proof.rivals[i] = match.rivals;
      }
      add(match);
      continue;
    }
    Begun sum;
    Match mean = findSum(work.from.operands[i], *store, runner, unrolled, sum);
    if (mean.node != kNoNode) {
      add(mean);
      begun[i] = sum;
      continue;
    }
    bool isTied = false;
    proof.outputs[i] = findMoved(work.from.operands[i], *store, runner, isTied);
    if (isTied)
      proof.tied.insert(i);
    isComplete &= proof.outputs[i] != kNoNode;
  }
  if (isComplete)
    return false;
  for (auto &[store, match] : settled) {
    std::pair<unsigned, unsigned> key = {store->parameter, store->round};
    std::set<uint32_t> &from = readBy[getReadBackBit(
        arguments.size(), store->parameter, store->round)];
    if (!match.areRivalsEqual) {
      constants[key].push_back(match.node);
      append_range(constants[key], match.rivals);
      continue;
    }
    add(match);
    readBack[key] = match.node;
    from = {graph.twin[match.node]};
    for (uint32_t same : graph.findSame(match.node))
      if (proof.held.insert(same).second)
        ownValues.push_back(same);
  }
  return !settled.empty();
}

/// The values that a store was loaded from; none where it was made of what the
/// kernel reads back, which no later launch has.
std::vector<uint32_t> KernelProver::findLoaded(const KernelStore &store) const {
  std::vector<uint32_t> found;
  for (unsigned parameter : store.loaded.set_bits()) {
    auto it = readBy.find(parameter);
    if (parameter >= arguments.size() || it == readBy.end())
      return {};
    found.insert(found.end(), it->second.begin(), it->second.end());
  }
  return found;
}

/// Sums of means, by the values that were read: a later launch knows no others.
void KernelProver::setFirsts() {
  if (begun.empty())
    return;
  auto sizes = [&](const Dim &dim) { return joiner.sizeOf(dim); };
  for (const auto &[operand, sum] : begun) {
    // Its mean may be a value of its own to who divides it.
    if (sum.isVariance) {
      proof.multiples.try_emplace(operand, ScaledNode{sum.mean, sum.count});
      continue;
    }
    GraphRunner runner(graph, proof.held, sizes);
    runner.withoutBias = &proof.withoutBias;
    runner.unrolls = sum.isSpelledOut;
    runner.unrollsWhole = body.language == KernelBody::Triton;
    proof.firsts[operand] = runner.evaluateFirst(sum.mean);
    proof.firsts[operand].number *= sum.count;
    LaunchProof cone;
    cone.held = proof.held;
    if (joiner.collectCone(sum.mean, graph, cone))
      proof.firstsFrom[operand].assign(cone.leaves.begin(), cone.leaves.end());
  }
}

LaunchProof KernelProver::run() {
  if (!setArguments())
    return std::move(proof);
  holdOtherParts();
  while (runOnce())
    ;
  proof.complete = isComplete && hasStore;
  // Whichever of them it is that is stored: all are computed here.
  proof.unique &= all_of(
      rivals, [&](uint32_t rival) { return proof.nodes.count(rival) != 0; });
  for (uint32_t node : ownValues)
    proof.held.erase(node);
  setFirsts();
  if (!begunBy.empty())
    dropBegun();
  return std::move(proof);
}

namespace {
/// A library call's arguments, and how well a node's fit them.
struct CallArguments {
  struct Input {
    /// The value that goes in, where it is known, and its elements next to the
    /// first, with their places.
    std::optional<AbstractValue> value;
    std::vector<ElementAt> others;
    /// It is proven that it is this value.
    bool sure = true;
  };
  std::vector<Input> inputs;
  std::vector<const LaunchOperand *> outputs;
};

struct CallMatch {
  uint32_t node = kNoNode;
  /// Arguments that are the node's operands.
  size_t same = 0;
  /// What speaks for it: what is only taken for a value says little, and
  /// elements other than the first tell a matrix from its transpose.
  int score = 0;
  bool lacksBias = false;
};
} // namespace

/// The arguments that agree; none where one is another value. Unknown ones
/// speak neither for nor against, and what is only taken for another value not
/// against.
static std::optional<CallMatch>
matchCall(const CallArguments &arguments, uint32_t candidate,
          const IndexedGraph &graph, function_ref<bool(uint32_t)> isComputable,
          GraphRunner &runner) {
  const GraphNode &node = graph[candidate];
  SmallVector<uint32_t> operands;
  for (uint32_t operand : node.operands)
    if (graph[operand].symbol.empty())
      operands.push_back(operand);
  CallMatch match;
  match.node = candidate;
  match.lacksBias = opFamily(node.target) == "convolution" &&
                    operands.size() == 3 && arguments.inputs.size() == 2;
  if (match.lacksBias)
    operands.pop_back();
  if (operands.size() != arguments.inputs.size())
    return std::nullopt;
  for (auto [operand, input] : zip(operands, arguments.inputs)) {
    if (!input.value || !isComputable(operand))
      continue;
    AbstractValue value = runner.evaluateFirst(operand);
    bool agrees = input.value->agrees(value);
    if (value.known && !agrees && input.sure)
      return std::nullopt;
    match.same += agrees;
    bool isEverywhere =
        agrees && all_of(input.others, [&](const ElementAt &other) {
          // A call may read a value by other dimensions than its node has.
          const std::vector<TensorInfo> &results = graph[operand].results;
          if (results.size() != 1 || !results[0].shapeKnown ||
              results[0].shape.size() != other.place.size())
            return true;
          AbstractValue at = runner.evaluate(operand, other.place);
          return !at.known || other.value.agrees(at);
        });
    match.score += (agrees + isEverywhere) * (input.sure ? 4 : 1);
  }
  return match;
}

/// What the operand holds at the second place of each of its dimensions.
std::vector<ElementAt> Joiner::otherElements(const LaunchOperand &operand,
                                             const HeldRegion &region,
                                             const IndexedGraph &graph) const {
  std::vector<ElementAt> out;
  ArrayRef<Dim> shape = operand.info.shape, strides = operand.info.stride;
  if (!operand.info.shapeKnown || shape.size() != strides.size())
    return out;
  for (size_t i = 0; i < shape.size(); ++i) {
    std::optional<int64_t> size = sizeOf(shape[i]), step = sizeOf(strides[i]);
    if (!size || *size < 2 || !step)
      continue;
    std::optional<double> inside =
        offsetIn(region, double(*operand.offset) + double(*step));
    if (!inside)
      continue;
    ElementAt element{SmallVector<double, 4>(shape.size(), 0.0),
                      GraphRunner::given(graph, region.node, *inside)};
    element.place[i] = 1;
    out.push_back(std::move(element));
  }
  return out;
}

/// A library call's node is that of its operator whose operands are the values
/// that go in.
LaunchProof Joiner::proveCall(const LaunchWork &work,
                              ArrayRef<FoundNode> found) {
  const IndexedGraph &graph = work.graph;
  LaunchProof proof;
  proof.outputs.assign(work.from.operands.size(), kNoNode);
  proof.firsts.assign(work.from.operands.size(), AbstractValue::unknown());
  CallArguments arguments;
  for (const LaunchOperand &operand : work.from.operands) {
    if (operand.role == KernelParameter::Output) {
      arguments.outputs.push_back(&operand);
      continue;
    }
    CallArguments::Input input;
    const HeldRegion *region =
        operand.offset ? findRegion(operand, graph) : nullptr;
    input.sure = !region || region->sure;
    proof.sure &= input.sure;
    if (region && region->node != kNoNode)
      if (auto inside = offsetIn(*region, *operand.offset)) {
        proof.held.insert_range(graph.findSame(region->node));
        input.value = GraphRunner::given(graph, region->node, *inside);
        input.others = otherElements(operand, *region, graph);
      }
    arguments.inputs.push_back(input);
  }

  std::set<uint32_t> candidates, recorded;
  for (const FoundNode &item : found) {
    if (isRecord(item))
      recorded.insert(item.node);
    if (graph[item.node].op == GraphNode::Call &&
        isExternFamily(work.from.kernel, opFamily(graph[item.node].target)))
      candidates.insert(item.node);
  }
  for (StringRef family : externFamilies(work.from.kernel))
    if (auto it = graph.byFamily.find(family); it != graph.byFamily.end())
      candidates.insert(it->second.begin(), it->second.end());
  auto sizes = [&](const Dim &dim) { return sizeOf(dim); };
  GraphRunner runner(graph, proof.held, sizes);
  bool isCut = false;
  DenseSet<uint32_t> computable =
      findComputable(graph, proof.held, /*open=*/{}, isCut);
  auto isComputable = [&](uint32_t operand) {
    return isCut || graph.selfMade[operand] || proof.held.contains(operand) ||
           computable.contains(operand);
  };
  CallMatch best;
  int bestScore = -1;
  for (uint32_t candidate : candidates) {
    const std::vector<TensorInfo> &results = graph[candidate].results;
    bool isOne = arguments.outputs.size() == 1 && results.size() == 1;
    if (isOne && !fits(*arguments.outputs.front(), results.front()))
      continue;
    std::optional<CallMatch> match =
        matchCall(arguments, candidate, graph, isComputable, runner);
    if (!match)
      continue;
    // A library is rarely called twice for one node, and of two that compute
    // the same a record knows which.
    int score = match->score +
                2 * !computedBy.contains({&work.graph, candidate}) +
                recorded.count(candidate);
    proof.unique &= score != bestScore;
    if (score <= bestScore)
      continue;
    proof.unique = true;
    best = *match;
    bestScore = score;
  }
  if (best.node == kNoNode)
    return proof;
  // One that is not sure is still the best reading.
  proof.unique &= best.same == arguments.inputs.size();
  proof.complete = true;
  proof.nodes = {best.node};
  proof.passed = {best.node};
  if (best.lacksBias)
    proof.withoutBias.insert(best.node);
  for (auto [operand, output] : zip(work.from.operands, proof.outputs)) {
    if (!(operand.role & KernelParameter::Output))
      continue;
    output = best.node;
    for (uint32_t user : graph.users[best.node])
      if (operand.member && graph[user].target == "operator.getitem" &&
          graph[user].args.size() == 2 &&
          graph[user].args[1].getAsInteger() == *operand.member)
        output = user;
  }
  return proof;
}

/// A copy has the value of what it copies; where the graph has a node for that,
/// it is the node's.
LaunchProof Joiner::proveCopy(const LaunchWork &work,
                              ArrayRef<FoundNode> found) {
  const IndexedGraph &graph = work.graph;
  ArrayRef<LaunchOperand> operands = work.from.operands;
  LaunchProof proof;
  proof.outputs.assign(operands.size(), kNoNode);
  proof.firsts.assign(operands.size(), AbstractValue::unknown());
  uint32_t source =
      operands.empty() ? kNoNode : inputNode(operands.front(), graph);
  if (source == kNoNode)
    return proof;
  proof.held.insert(source);
  proof.complete = true;
  uint32_t result = source;
  for (const FoundNode &item : found) {
    const GraphNode &node = graph[item.node];
    if (any_of(node.operands,
               [&](uint32_t operand) {
                 return graph.value[operand] == graph.value[source];
               }) &&
        graph.root[item.node] == item.node) {
      proof.nodes.insert(item.node);
      proof.passed.insert(item.node);
      result = item.node;
    }
  }
  for (auto [operand, output] : zip(operands, proof.outputs))
    if (operand.role & KernelParameter::Output)
      output = result;
  return proof;
}

LaunchProof Joiner::prove(const LaunchWork &work, ArrayRef<FoundNode> found) {
  if (work.from.kind == LaunchKind::Copy)
    return proveCopy(work, found);
  if (work.from.definition < 0) {
    bool isCall = work.from.kind == LaunchKind::Extern ||
                  work.from.kind == LaunchKind::Fallback ||
                  work.from.kind == LaunchKind::Collective;
    return isCall ? proveCall(work, found) : LaunchProof();
  }
  const KernelDefinition &kernel = program.kernels[work.from.definition];
  if (!kernel.body || work.from.category == LaunchCategory::Template)
    return LaunchProof();
  return KernelProver(*this, work, *kernel.body, found).run();
}
