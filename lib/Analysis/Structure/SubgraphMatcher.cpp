// Finding the places of a pattern in a graph, by backtracking from the node of
// its first output.

#include "opprof/Analysis/Structure/Equivalence.h"

#include "NodeComparison.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace opprof::fx;

FailureOr<SubgraphMatcher> SubgraphMatcher::get(GraphOp pattern) {
  SubgraphMatcher matcher(pattern);
  unsigned numNodes = 0;
  for (Operation &op : pattern.getBlock().without_terminator()) {
    if (!isa<NodeOp>(op))
      return op.emitError("a pattern consists of fx.node operations");
    ++numNodes;
  }
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

namespace opprof::fx {

/// One search from an anchor.
class MatchSearch {
public:
  MatchSearch(const SubgraphMatcher &matcher,
              llvm::function_ref<bool(Operation *)> isTaken)
      : matcher(matcher), isTaken(isTaken) {}

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

  /// Lets `op` stand for the pattern's `node`, where it can.
  bool take(State &state, NodeOp node, Operation *op) {
    auto candidate = dyn_cast_or_null<NodeOp>(op);
    if (!candidate || state.matched.contains(op) || (isTaken && isTaken(op)) ||
        !state.comparison.compareNodes(node, candidate))
      return false;
    for (auto [value, other] : state.comparison.pairedOperands) {
      auto [bound, isNew] = state.values.try_emplace(value, other);
      if (bound->second != other)
        return false;
      if (!isNew)
        continue;
      if (isa<BlockArgument>(value)) {
        if (!state.comparison.compareTypes(value.getType(), other.getType()))
          return false;
      } else if (!other.getDefiningOp<NodeOp>() ||
                 other.getDefiningOp()->getBlock() != op->getBlock()) {
        return false;
      }
    }
    auto [bound, isNew] =
        state.values.try_emplace(node.getResult(), candidate.getResult());
    if (bound->second != candidate.getResult())
      return false;
    state.nodes[node] = op;
    state.matched.insert(op);
    return true;
  }

  std::optional<SubgraphMatch> search(State state, unsigned next) {
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
        return std::nullopt;
      }
      Value result = state.values.lookup(step.node->getResult(0));
      if (!take(state, step.node, result.getDefiningOp()))
        return std::nullopt;
    }
    return finish(state);
  }

  /// The match, where it is safe to replace.
  std::optional<SubgraphMatch> finish(State &state) {
    SubgraphMatch match;
    GraphOp pattern = matcher.pattern;
    OutputOp output = pattern.getOutput();
    llvm::SmallDenseSet<Value> outputs;
    for (Value value : output.getOperands()) {
      outputs.insert(value);
      match.outputs.push_back(state.values.lookup(value));
    }
    for (Value argument : pattern.getArguments())
      match.inputs.push_back(state.values.lookup(argument));
    Operation *first = nullptr, *last = nullptr, *firstUse = nullptr;
    auto isOutside = [&](Operation *user) {
      return !state.matched.contains(user);
    };
    for (Operation &op : pattern.getBlock().without_terminator()) {
      Operation *node = state.nodes.lookup(&op);
      match.nodes.push_back(node);
      if (!first || node->isBeforeInBlock(first))
        first = node;
      if (!last || last->isBeforeInBlock(node))
        last = node;
      bool isOutput = outputs.contains(op.getResult(0));
      for (Operation *user : node->getUsers()) {
        if (!isOutside(user))
          continue;
        if (!isOutput)
          return std::nullopt;
        if (!firstUse || user->isBeforeInBlock(firstUse))
          firstUse = user;
      }
    }
    match.insertionPoint = first;
    for (Value input : match.inputs) {
      Operation *definition = input.getDefiningOp();
      if (!definition)
        continue;
      // An input that is itself matched: the pattern would feed itself.
      if (!isOutside(definition))
        return std::nullopt;
      if (!definition->isBeforeInBlock(match.insertionPoint))
        match.insertionPoint = definition->getNextNode();
    }
    // Also the proof of convexity: a path out of the match and back into it
    // would use an output before the definition of an input.
    if (firstUse && firstUse->isBeforeInBlock(match.insertionPoint))
      return std::nullopt;
    if (!llvm::all_of(match.nodes, isMemoryEffectFree))
      for (Operation *op = first; op != last; op = op->getNextNode())
        if (isOutside(op) && !isMemoryEffectFree(op))
          return std::nullopt;
    match.constants = std::move(state.comparison.boundConstants);
    match.symbols = std::move(state.comparison.boundSizes);
    return match;
  }

  /// Bounds the search on graphs where one value has very many users.
  static constexpr unsigned kMaxTries = 10000;

  const SubgraphMatcher &matcher;
  llvm::function_ref<bool(Operation *)> isTaken;
  unsigned numTries = 0;
};

} // namespace opprof::fx

std::optional<SubgraphMatch>
SubgraphMatcher::match(Operation *anchor,
                       llvm::function_ref<bool(Operation *)> isTaken) const {
  return MatchSearch(*this, isTaken).run(anchor);
}

SmallVector<SubgraphMatch, 0> SubgraphMatcher::matchAll(GraphOp graph) const {
  SmallVector<SubgraphMatch, 0> matches;
  llvm::SmallPtrSet<Operation *, 32> taken;
  auto isTaken = [&](Operation *op) { return taken.contains(op); };
  for (NodeOp node : graph.getBlock().getOps<NodeOp>()) {
    if (taken.contains(node))
      continue;
    if (auto found = match(node, isTaken)) {
      taken.insert_range(found->nodes);
      matches.push_back(std::move(*found));
    }
  }
  return matches;
}

SmallVector<SubgraphMatch, 0> opprof::fx::matchSubgraph(GraphOp pattern,
                                                        GraphOp graph) {
  FailureOr<SubgraphMatcher> matcher = SubgraphMatcher::get(pattern);
  if (failed(matcher))
    return {};
  return matcher->matchAll(graph);
}
