// The order of the dataflow: backwards from what is used last, nearest uses
// first. docs/dedup.md says why it is this one.

#include "opprof/Analysis/Structure/DataflowOrder.h"

#include "opprof/Analysis/Structure/StructuralHash.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/xxhash.h"

#include <queue>
#include <tuple>

using namespace mlir;
using namespace opprof;
using namespace opprof::fx;

namespace {
class DataflowSorter {
public:
  explicit DataflowSorter(ArrayRef<Operation *> nodes);
  std::vector<Operation *> sort(ArrayRef<Operation *> roots);

private:
  /// Nodes that a root needs and no root before it did. They are put together
  /// behind the node of the first part that they need last.
  struct Part {
    int anchor = -1;
    std::vector<int> nodes;
  };

  /// When the last use of a node got its place, counted backwards; how light
  /// the node is; which operand of the use it is.
  using Priority = std::tuple<int, int64_t, int>;

  std::vector<int> collectRoots(ArrayRef<Operation *> roots);
  void sortUnused(std::vector<int> &unused);
  std::vector<int> collectPart(int root, int &anchor);
  void weigh(ArrayRef<int> part);
  Part takePart(int root);
  ArrayRef<int> getOperands(int node) const {
    return ArrayRef(operands).slice(operandStart[node], operandStart[node + 1] -
                                                            operandStart[node]);
  }

  ArrayRef<Operation *> nodes;
  llvm::DenseMap<Operation *, int> numbers;
  /// The nodes that each node needs: those of its operands in their order, then
  /// the node with effects before it.
  std::vector<int> operandStart, operands;
  std::vector<int> numUses;
  /// The longest way from the inputs.
  std::vector<int> depths;
  int lastEffect = -1;
  /// Of a node that has its place: the node of the first part that it stands
  /// at or behind.
  std::vector<int> anchors;
  std::vector<bool> isPlaced;
  /// Of the nodes of a part: uses that have no place yet.
  std::vector<int> pendingUses;
  /// The tree of post-dominators of a part: parent, a node further up, level.
  std::vector<int> parents, jumps, levels;
  std::vector<int64_t> weights;
  std::vector<Priority> priorities;
};
} // namespace

DataflowSorter::DataflowSorter(ArrayRef<Operation *> nodes)
    : nodes(nodes), numUses(nodes.size()), depths(nodes.size()),
      anchors(nodes.size(), -1), isPlaced(nodes.size()),
      pendingUses(nodes.size()), parents(nodes.size(), -1), jumps(nodes.size()),
      levels(nodes.size()), weights(nodes.size()), priorities(nodes.size()) {
  numbers.reserve(nodes.size());
  for (auto [number, node] : llvm::enumerate(nodes)) {
    numbers[node] = number;
    operandStart.push_back(operands.size());
    auto need = [&](int definition) {
      operands.push_back(definition);
      ++numUses[definition];
      depths[number] = std::max(depths[number], depths[definition] + 1);
    };
    for (Value operand : node->getOperands())
      if (Operation *definition = operand.getDefiningOp())
        if (auto found = numbers.find(definition); found != numbers.end())
          need(found->second);
    if (isMemoryEffectFree(node))
      continue;
    if (lastEffect >= 0)
      need(lastEffect);
    lastEffect = number;
  }
  operandStart.push_back(operands.size());
}

/// Orders nodes that nothing uses by what they compute.
void DataflowSorter::sortUnused(std::vector<int> &unused) {
  if (unused.size() < 2)
    return;
  StructuralHash hash;
  std::vector<uint64_t> computed(nodes.size());
  for (auto [number, node] : llvm::enumerate(nodes)) {
    SmallVector<uint64_t> words = {hash.hashNode(node)};
    for (Value operand : node->getOperands()) {
      if (auto input = dyn_cast<BlockArgument>(operand)) {
        words.append({0, input.getArgNumber()});
        continue;
      }
      auto result = cast<OpResult>(operand);
      auto found = numbers.find(result.getOwner());
      words.append({found == numbers.end() ? 1 : computed[found->second],
                    result.getResultNumber()});
    }
    computed[number] = llvm::xxh3_64bits(
        ArrayRef(reinterpret_cast<const uint8_t *>(words.data()),
                 words.size() * sizeof(uint64_t)));
  }
  llvm::stable_sort(unused, [&](int first, int second) {
    return computed[first] < computed[second];
  });
}

/// What the parts begin with: the deepest root first, as it needs the most.
std::vector<int> DataflowSorter::collectRoots(ArrayRef<Operation *> roots) {
  std::vector<int> result;
  std::vector<bool> isRoot(nodes.size());
  auto add = [&](int number) {
    if (!isRoot[number])
      result.push_back(number);
    isRoot[number] = true;
  };
  for (Operation *root : roots)
    if (auto found = numbers.find(root); found != numbers.end())
      add(found->second);
  if (lastEffect >= 0)
    add(lastEffect);
  std::vector<int> unused;
  for (int number = 0, e = nodes.size(); number != e; ++number)
    if (!numUses[number] && !isRoot[number])
      unused.push_back(number);
  sortUnused(unused);
  llvm::for_each(unused, add);
  llvm::stable_sort(result, [&](int first, int second) {
    return depths[first] > depths[second];
  });
  return result;
}

/// The nodes that `root` needs and that have no place yet, later ones first.
/// Counts their uses, and finds the part's anchor.
std::vector<int> DataflowSorter::collectPart(int root, int &anchor) {
  std::vector<int> part = {root};
  for (size_t next = 0; next != part.size(); ++next)
    for (int operand : getOperands(part[next])) {
      if (isPlaced[operand])
        anchor = std::max(anchor, anchors[operand]);
      else if (pendingUses[operand]++ == 0)
        part.push_back(operand);
    }
  llvm::sort(part, std::greater<int>());
  return part;
}

/// Weighs what each node of the part alone needs: the nodes all of whose ways
/// to the root go through it (those that it post-dominates). What begins at
/// the user's inputs weighs more than anything that is made of weights.
void DataflowSorter::weigh(ArrayRef<int> part) {
  // Each node's immediate post-dominator is the lowest common ancestor of its
  // users in the tree of post-dominators. `jump` goes up it in long steps.
  auto findCommon = [&](int first, int second) {
    while (first != second) {
      if (levels[first] < levels[second])
        std::swap(first, second);
      if (levels[first] > levels[second])
        first = levels[jumps[first]] >= levels[second] ? jumps[first]
                                                       : parents[first];
      else if (jumps[first] != jumps[second])
        first = jumps[first], second = jumps[second];
      else
        first = parents[first], second = parents[second];
    }
    return first;
  };
  llvm::MapVector<Value, int> inputParents;
  parents[part.front()] = jumps[part.front()] = part.front();
  for (int node : part) {
    if (node != part.front()) {
      int parent = parents[node];
      levels[node] = levels[parent] + 1;
      int jump = jumps[parent];
      jumps[node] =
          levels[parent] - levels[jump] == levels[jump] - levels[jumps[jump]]
              ? jumps[jump]
              : parent;
    }
    for (int operand : getOperands(node))
      if (!isPlaced[operand])
        parents[operand] =
            parents[operand] < 0 ? node : findCommon(parents[operand], node);
  }
  for (int node : llvm::reverse(part)) {
    ++weights[node];
    if (node != part.front())
      weights[parents[node]] += weights[node];
  }
}

/// Backwards from `root`: of the nodes whose uses have their places, the one
/// whose last use has got its place last comes next; of what one node takes,
/// the lightest.
DataflowSorter::Part DataflowSorter::takePart(int root) {
  Part part;
  if (isPlaced[root])
    return part;
  weigh(collectPart(root, part.anchor));
  std::priority_queue<std::pair<Priority, int>> ready;
  ready.emplace(Priority(), root);
  while (!ready.empty()) {
    int node = ready.top().second;
    ready.pop();
    part.nodes.push_back(node);
    int time = part.nodes.size();
    ArrayRef<int> needed = getOperands(node);
    for (int index = needed.size(); index-- > 0;) {
      int operand = needed[index];
      if (isPlaced[operand])
        continue;
      if (!std::get<0>(priorities[operand]))
        priorities[operand] = {time, -weights[operand], index};
      if (--pendingUses[operand] == 0)
        ready.emplace(priorities[operand], operand);
    }
  }
  for (int node : part.nodes)
    isPlaced[node] = true;
  std::reverse(part.nodes.begin(), part.nodes.end());
  return part;
}

std::vector<Operation *> DataflowSorter::sort(ArrayRef<Operation *> roots) {
  std::vector<int> main;
  /// By anchor plus one: what stands before the first part, and behind each of
  /// its nodes.
  std::vector<std::vector<int>> attached;
  for (int root : collectRoots(roots)) {
    Part part = takePart(root);
    if (part.nodes.empty())
      continue;
    if (attached.empty()) {
      main = std::move(part.nodes);
      attached.resize(main.size() + 1);
      for (auto [place, node] : llvm::enumerate(main))
        anchors[node] = place;
      continue;
    }
    for (int node : part.nodes)
      anchors[node] = part.anchor;
    llvm::append_range(attached[part.anchor + 1], part.nodes);
  }
  std::vector<Operation *> result;
  result.reserve(nodes.size());
  auto append = [&](int node) { result.push_back(nodes[node]); };
  for (size_t place = 0; place != attached.size(); ++place) {
    if (place)
      append(main[place - 1]);
    llvm::for_each(attached[place], append);
  }
  return result;
}

std::vector<Operation *>
opprof::fx::getDataflowOrder(ArrayRef<Operation *> nodes,
                             ArrayRef<Operation *> roots) {
  return DataflowSorter(nodes).sort(roots);
}

std::vector<Operation *> opprof::fx::getDataflowOrder(GraphOp graph) {
  std::vector<Operation *> nodes, roots;
  for (Operation &op : graph.getBlock().without_terminator())
    nodes.push_back(&op);
  for (Value output : graph.getOutput()->getOperands())
    if (Operation *definition = output.getDefiningOp())
      roots.push_back(definition);
  return getDataflowOrder(nodes, roots);
}
