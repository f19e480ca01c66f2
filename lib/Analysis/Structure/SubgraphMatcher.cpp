// Finding the places of a pattern in a graph, by backtracking from the node of
// its first output.

#include "opprof/Analysis/Structure/Equivalence.h"
#include "opprof/Analysis/Structure/PatternConditions.h"
#include "opprof/Analysis/Structure/StorageEffects.h"

#include "NodeComparison.h"

using namespace mlir;
using namespace opprof::fx;

/// Checks that `graph` consists of nodes.
static LogicalResult checkNodes(GraphOp graph, StringRef what) {
  for (Operation &op : graph.getBlock().without_terminator())
    if (!isa<NodeOp>(op))
      return op.emitError()
             << "a " << what << " consists of fx.node operations";
  return success();
}

/// Checks that no node of `replacement` is known to write, which would have to
/// keep its order with what is around it.
static LogicalResult checkReplacement(GraphOp replacement) {
  if (failed(checkNodes(replacement, "replacement")))
    return failure();
  for (NodeOp node : replacement.getBlock().getOps<NodeOp>())
    if (isKnownToWrite(node.getTarget()))
      return node.emitError("a replacement may not write: use the operator "
                            "that gives a new tensor");
  return success();
}

/// True where the pattern reads `value` once, asking for its type left out.
static bool isReadOnce(Value value) {
  return llvm::count_if(value.getUses(), [&](OpOperand &use) {
           return !asksForTypeOnly(use.getOwner(), value);
         }) == 1;
}

/// Checks that nodes of `pattern` write what it makes, of which each value is
/// read once, and no more: edges say in which order all is read and written
/// then, and nothing around a place can tell. Operators without a schema, which
/// may be anybody's, are taken at their word; Python's own are known.
static LogicalResult checkPattern(GraphOp pattern) {
  if (failed(checkNodes(pattern, "pattern")))
    return failure();
  StorageEffects effects(pattern);
  llvm::DenseSet<unsigned> readOften;
  for (NodeOp node : pattern.getBlock().getOps<NodeOp>())
    if (!isReadOnce(node.getResult()))
      readOften.insert(effects.getStorage(node.getResult()));
  for (NodeOp node : pattern.getBlock().getOps<NodeOp>()) {
    bool isPython = node.getTarget().starts_with("operator.") &&
                    !lookupSchema(node.getTarget()) && node.mayWrite();
    if (!isPython && !isKnownToWrite(node.getTarget()))
      continue;
    bool isTold = !isPython;
    node.visitOperandRoles([&](OpOperand &operand, bool isWritten, bool) {
      Value value = operand.get();
      if (isWritten && (effects.mayBeInput(value) ||
                        readOften.contains(effects.getStorage(value))))
        isTold = false;
    });
    if (!isTold)
      return node.emitError("a pattern may write what it makes and takes once "
                            "alone: use the operator that gives a new tensor");
  }
  return success();
}

FailureOr<SubgraphMatcher> SubgraphMatcher::get(GraphOp pattern,
                                                GraphOp replacement) {
  SubgraphMatcher matcher(pattern);
  if (failed(checkPattern(pattern)) ||
      (replacement && failed(checkReplacement(replacement))))
    return failure();
  matcher.conditions = std::make_shared<const PatternConditions>(
      PatternConditions::get(pattern, replacement));
  unsigned numNodes = 0;
  for (NodeOp node : pattern.getBlock().getOps<NodeOp>())
    matcher.positions[node] = numNodes++;
  for (BlockArgument argument : pattern.getArguments())
    if (argument.use_empty())
      return pattern.emitError()
             << "argument " << argument.getArgNumber()
             << " of the pattern is not used, so nothing says what it "
                "stands for";
  NodeOp anchor;
  if (pattern.getOutput().getNumOperands())
    anchor = pattern.getOutput().getOperand(0).getDefiningOp<NodeOp>();
  if (!anchor)
    return pattern.emitError(
        "the first output of a pattern has to be the result of a node");

  llvm::SmallPtrSet<Operation *, 8> visited;
  llvm::SmallDenseSet<Value> bound;
  auto visit = [&](NodeOp node, OpOperand *shared) {
    SmallVector<std::pair<NodeOp, OpOperand *>> worklist{{node, shared}};
    visited.insert(node);
    while (!worklist.empty()) {
      auto [current, from] = worklist.pop_back_val();
      matcher.steps.push_back({current, from});
      bound.insert(current.getResult());
      for (Value operand : current->getOperands()) {
        bound.insert(operand);
        auto definition = operand.getDefiningOp<NodeOp>();
        if (definition && visited.insert(definition).second)
          worklist.emplace_back(definition, nullptr);
      }
    }
  };
  visit(anchor, nullptr);
  // What is left hangs together with the rest through a value that both take.
  // Outputs come first, in their order, and then the nodes nearest to them:
  // they lead to their operands.
  SmallVector<Operation *> rest;
  for (Value output : pattern.getOutput().getOperands())
    if (auto node = output.getDefiningOp<NodeOp>())
      rest.push_back(node);
  for (Operation &op : llvm::reverse(pattern.getBlock().without_terminator()))
    rest.push_back(&op);
  while (matcher.steps.size() != numNodes) {
    bool foundAny = false;
    for (Operation *op : rest) {
      if (visited.contains(op))
        continue;
      for (OpOperand &operand : op->getOpOperands()) {
        if (!bound.contains(operand.get()))
          continue;
        visit(cast<NodeOp>(op), &operand);
        foundAny = true;
        break;
      }
      if (foundAny)
        break;
    }
    if (!foundAny) {
      for (Operation &op : pattern.getBlock().without_terminator())
        if (!visited.contains(&op))
          return op.emitError("shares no value with the part of the pattern "
                              "that gives its first output");
    }
  }
  return matcher;
}

namespace {
/// What a candidate does not have in common with a node of the pattern, from
/// the furthest to the nearest.
enum class Mismatch { Operator, Argument, Type, Place };
} // namespace

namespace opprof::fx {

/// One search from an anchor.
class MatchSearch {
public:
  MatchSearch(const SubgraphMatcher &matcher, const StorageEffects &effects,
              llvm::function_ref<bool(Operation *)> isTaken,
              std::optional<NearestPlace> *nearest = nullptr)
      : matcher(matcher), effects(effects), isTaken(isTaken), nearest(nearest) {
  }

  std::optional<SubgraphMatch> run(Operation *anchor) {
    State state;
    if (!take(state, matcher.steps.front().node, anchor))
      return std::nullopt;
    return search(std::move(state), 1);
  }

private:
  struct State {
    NodeComparison comparison{EquivalenceOptions(), true};
    llvm::SmallDenseMap<Value, Value> values;
    llvm::SmallDenseMap<Operation *, Operation *> nodes;
    llvm::SmallPtrSet<Operation *, 8> matched;
  };

  bool take(State &state, NodeOp node, Operation *op);
  bool bind(State &state, Value value, Value other, NodeOp node,
            NodeOp candidate);
  bool refuse(const State &state, NodeOp node, NodeOp candidate,
              Mismatch mismatch, llvm::function_ref<std::string()> explain);
  std::optional<SubgraphMatch> search(State state, unsigned next);
  std::optional<SubgraphMatch> finish(State &state);
  bool findInsertionPoint(State &state, SubgraphMatch &match);
  bool holdsAt(const Condition &condition, State &state,
               const SubgraphMatch &match);
  bool hasEffectsInOrder(const State &state, const SubgraphMatch &match);

  /// Bounds the search on graphs where one value has very many users.
  static constexpr unsigned kMaxTries = 10000;

  const SubgraphMatcher &matcher;
  const StorageEffects &effects;
  llvm::function_ref<bool(Operation *)> isTaken;
  /// What came furthest, where someone wants to know.
  std::optional<NearestPlace> *nearest;
  unsigned numTries = 0;
};

} // namespace opprof::fx

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

static std::string toText(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

/// What `value` is in the pattern, in words.
static std::string describePatternValue(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return "what stands for the pattern's argument " +
           std::to_string(argument.getArgNumber());
  return "the result of " + value.getDefiningOp<NodeOp>().getTarget().str();
}

/// Remembers why `candidate` does not stand for `node`, if that is nearer than
/// what was seen before. Always false.
bool MatchSearch::refuse(const State &state, NodeOp node, NodeOp candidate,
                         Mismatch mismatch,
                         llvm::function_ref<std::string()> explain) {
  if (!nearest)
    return false;
  unsigned numFound = state.matched.size();
  unsigned rank = 4 * numFound + static_cast<unsigned>(mismatch);
  if (!*nearest || (*nearest)->rank < rank)
    *nearest = NearestPlace{
        numFound, node, candidate, explain(), mismatch == Mismatch::Operator,
        rank};
  return false;
}

/// Lets `other` stand for the pattern's `value`, which `node` takes or gives.
bool MatchSearch::bind(State &state, Value value, Value other, NodeOp node,
                       NodeOp candidate) {
  auto [bound, isNew] = state.values.try_emplace(value, other);
  if (bound->second != other)
    return refuse(state, node, candidate, Mismatch::Argument, [&] {
      return "it takes another value than " + describePatternValue(value);
    });
  if (!isNew)
    return true;
  GraphOp pattern = matcher.pattern;
  unsigned index;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    index = argument.getArgNumber();
  } else {
    Operation *definition = other.getDefiningOp();
    if (!isa_and_nonnull<NodeOp>(definition) ||
        definition->getBlock() != candidate->getBlock())
      return refuse(state, node, candidate, Mismatch::Argument, [&] {
        return "it takes an input of the graph for " +
               describePatternValue(value);
      });
    index = pattern.getBlock().getNumArguments() +
            matcher.positions.lookup(value.getDefiningOp());
  }
  for (const Condition &condition : matcher.conditions->ofValues[index])
    if (!holds(condition, other, [&](Attribute size, Attribute own) {
          return state.comparison.bindSize(size, own);
        }))
      return refuse(state, node, candidate, Mismatch::Type, [&] {
        if (condition.kind == ConditionKind::Constant)
          return describePatternValue(value) + " holds another number";
        return ("the " + stringifyConditionKind(condition.kind) + " of " +
                describePatternValue(value) + " is that of " +
                toText(other.getType()) + " here and that of " +
                toText(value.getType()) + " in the pattern")
            .str();
      });
  return true;
}

/// Lets `op` stand for the pattern's `node`, where it can.
bool MatchSearch::take(State &state, NodeOp node, Operation *op) {
  auto candidate = dyn_cast_or_null<NodeOp>(op);
  if (!candidate || state.matched.contains(op) || (isTaken && isTaken(op)))
    return false;
  if (!state.comparison.compareNodes(node, candidate)) {
    const Difference &difference = state.comparison.getDifference();
    // Every node of the graph is another one than the first that is looked for.
    if (state.matched.empty() && difference.kind != DifferenceKind::Arguments &&
        difference.kind != DifferenceKind::Constant)
      return false;
    bool isOther = difference.kind == DifferenceKind::Target ||
                   difference.kind == DifferenceKind::Effect ||
                   difference.kind == DifferenceKind::NodeKind;
    Mismatch mismatch = isOther ? Mismatch::Operator : Mismatch::Argument;
    return refuse(state, node, candidate, mismatch, [&] {
      std::string what =
          difference.argument.empty()
              ? "the " + stringifyDifferenceKind(difference.kind).str()
              : "the argument '" + difference.argument.str() + "'";
      return what + " is " + difference.secondText + " here and " +
             difference.firstText + " in the pattern";
    });
  }
  for (auto [value, other] : state.comparison.pairedOperands)
    if (!bind(state, value, other, node, candidate))
      return false;
  auto known = state.values.find(node.getResult());
  bool isBound = known != state.values.end();
  if (isBound ? known->second != candidate.getResult()
              : !bind(state, node.getResult(), candidate.getResult(), node,
                      candidate))
    return false;
  state.nodes[node] = op;
  state.matched.insert(op);
  return true;
}

std::optional<SubgraphMatch> MatchSearch::search(State state, unsigned next) {
  for (; next != matcher.steps.size(); ++next) {
    const SubgraphMatcher::Step &step = matcher.steps[next];
    if (step.shared) {
      Value shared = state.values.lookup(step.shared->get());
      // Candidates in the order of the block, so that of several equal
      // nodes the first stands for the pattern's first.
      SmallVector<Operation *> candidates(shared.getUsers());
      Block *block = state.nodes.begin()->second->getBlock();
      llvm::erase_if(candidates, [&](Operation *candidate) {
        return candidate->getBlock() != block || !isa<NodeOp>(candidate);
      });
      llvm::sort(candidates, [](Operation *first, Operation *second) {
        return first->isBeforeInBlock(second);
      });
      candidates.erase(llvm::unique(candidates), candidates.end());
      for (Operation *candidate : candidates) {
        if (++numTries > kMaxTries)
          return std::nullopt;
        State branch = state;
        if (take(branch, step.node, candidate))
          if (auto match = search(std::move(branch), next + 1))
            return match;
      }
      NodeOp node = step.node;
      auto found = cast<NodeOp>(state.nodes.lookup(matcher.steps[0].node));
      refuse(state, node, found, Mismatch::Operator, [&] {
        return "no other node that takes what stands for the same value "
               "calls " +
               node.getTarget().str() + " as the pattern does";
      });
      return std::nullopt;
    }
    Value result = state.values.lookup(step.node->getResult(0));
    if (!take(state, step.node, result.getDefiningOp()))
      return std::nullopt;
  }
  return finish(state);
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

/// Puts the insertion point behind all inputs; false where one of them is
/// itself matched, so that the pattern would feed itself.
bool MatchSearch::findInsertionPoint(State &state, SubgraphMatch &match) {
  match.insertionPoint = match.nodes.front();
  for (Operation *node : match.nodes)
    if (node->isBeforeInBlock(match.insertionPoint))
      match.insertionPoint = node;
  for (Value input : match.inputs) {
    Operation *definition = input.getDefiningOp();
    if (!definition)
      continue;
    if (state.matched.contains(definition))
      return false;
    if (!definition->isBeforeInBlock(match.insertionPoint))
      match.insertionPoint = definition->getNextNode();
  }
  return true;
}

bool MatchSearch::hasEffectsInOrder(const State &state,
                                    const SubgraphMatch &match) {
  auto isMatched = [&](Operation *op) { return state.matched.contains(op); };
  // What a node reads, it reads at the insertion point now.
  for (Operation *node : match.nodes) {
    bool isEarlier = node->isBeforeInBlock(match.insertionPoint);
    Operation *from = isEarlier ? node : match.insertionPoint;
    Operation *to = isEarlier ? match.insertionPoint->getPrevNode() : node;
    SmallVector<Value> read(node->getOperands());
    if (effects.findWriteBetween(from, to, read, isMatched))
      return false;
  }
  auto draws = [](Operation *op) {
    auto node = dyn_cast<NodeOp>(op);
    return node && node.drawsRandomNumbers();
  };
  if (llvm::none_of(match.nodes, draws))
    return true;
  auto [first, last] = std::minmax_element(
      match.nodes.begin(), match.nodes.end(),
      [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  for (Operation *op = *first; op != *last; op = op->getNextNode())
    if (!isMatched(op) && draws(op))
      return false;
  return true;
}

bool MatchSearch::holdsAt(const Condition &condition, State &state,
                          const SubgraphMatch &match) {
  switch (condition.kind) {
  case ConditionKind::InnerUsesOnly:
    return llvm::all_of(match.nodes, [&](Operation *node) {
      return llvm::is_contained(match.outputs, node->getResult(0)) ||
             llvm::none_of(node->getUsers(), [&](Operation *user) {
               return !state.matched.contains(user) && !onlyAsserts(user);
             });
    });
  case ConditionKind::InputsComeFirst:
    // Also the proof of convexity: a path out of the match and back into it
    // would use an output before the definition of an input.
    return llvm::all_of(match.outputs, [&](Value output) {
      return llvm::none_of(output.getUsers(), [&](Operation *user) {
        return !state.matched.contains(user) &&
               user->isBeforeInBlock(match.insertionPoint);
      });
    });
  case ConditionKind::EffectsInOrder:
    return hasEffectsInOrder(state, match);
  case ConditionKind::ResultsStayInside:
    return llvm::none_of(match.outputs, isReturned);
  case ConditionKind::ViewsWork: {
    std::optional<SmallVector<int64_t>> strides;
    if (auto expected = dyn_cast<ArrayAttr>(condition.expected)) {
      strides.emplace();
      for (Attribute stride : expected) {
        if (auto symbol = dyn_cast<SymAttr>(stride))
          stride = state.comparison.boundSizes.lookup(symbol.getValue());
        auto number = dyn_cast_or_null<IntegerAttr>(stride);
        if (number && strides)
          strides->push_back(number.getInt());
        else
          strides.reset();
        if (!strides)
          break;
      }
    }
    return viewsWork(match.outputs[condition.result], std::move(strides));
  }
  case ConditionKind::NothingWrittenAfter: {
    SmallVector<Value> shared(match.inputs);
    llvm::append_range(shared, match.outputs);
    return !effects.findWriteBetween(
        match.insertionPoint, &match.insertionPoint->getBlock()->back(), shared,
        [&](Operation *op) { return state.matched.contains(op); });
  }
  default:
    llvm_unreachable("a condition of a value is asked of a place");
  }
}

/// The match, where the pattern's conditions hold at its place.
std::optional<SubgraphMatch> MatchSearch::finish(State &state) {
  SubgraphMatch match;
  GraphOp pattern = matcher.pattern;
  for (NodeOp node : pattern.getBlock().getOps<NodeOp>())
    match.nodes.push_back(state.nodes.lookup(node));
  for (Value value : pattern.getOutput().getOperands())
    match.outputs.push_back(state.values.lookup(value));
  for (Value argument : pattern.getArguments())
    match.inputs.push_back(state.values.lookup(argument));
  auto refuseMatch = [&](const Twine &why) {
    auto first = *pattern.getBlock().getOps<NodeOp>().begin();
    refuse(state, first, cast<NodeOp>(match.nodes.front()), Mismatch::Place,
           [&] { return why.str(); });
    return std::nullopt;
  };
  if (!findInsertionPoint(state, match))
    return refuseMatch("one matched node feeds another as an input");
  for (const Condition &condition : matcher.conditions->ofPlace)
    if (!holdsAt(condition, state, match))
      return refuseMatch(explainPlaceCondition(condition.kind));
  match.constants = std::move(state.comparison.boundConstants);
  match.symbols = std::move(state.comparison.boundSizes);
  return match;
}

SmallVector<SubgraphMatch, 0> SubgraphMatcher::matchAll(GraphOp graph) const {
  StorageEffects effects(graph);
  SmallVector<SubgraphMatch, 0> matches;
  llvm::SmallPtrSet<Operation *, 32> taken;
  auto isTaken = [&](Operation *op) { return taken.contains(op); };
  for (NodeOp node : graph.getBlock().getOps<NodeOp>()) {
    if (taken.contains(node))
      continue;
    if (auto found = MatchSearch(*this, effects, isTaken).run(node)) {
      taken.insert_range(found->nodes);
      matches.push_back(std::move(*found));
    }
  }
  return matches;
}

void SubgraphMatcher::visitNearest(
    GraphOp graph,
    llvm::function_ref<void(Operation *, NearestPlace)> visit) const {
  StorageEffects effects(graph);
  for (NodeOp node : graph.getBlock().getOps<NodeOp>()) {
    std::optional<NearestPlace> nearest;
    if (!MatchSearch(*this, effects, nullptr, &nearest).run(node) && nearest)
      visit(node, std::move(*nearest));
  }
}

std::optional<NearestPlace> SubgraphMatcher::findNearest(GraphOp graph) const {
  std::optional<NearestPlace> nearest;
  visitNearest(graph, [&](Operation *, NearestPlace place) {
    if (!nearest || nearest->rank < place.rank)
      nearest = std::move(place);
  });
  return nearest;
}
