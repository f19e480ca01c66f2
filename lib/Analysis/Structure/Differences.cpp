// All differences of two subgraphs: their nodes are aligned as the lines of two
// texts are, and compared pair by pair.

#include "opprof/Analysis/Structure/Equivalence.h"

#include "NodeComparison.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace opprof::fx;

using Pairs = SmallVector<std::pair<unsigned, unsigned>>;

/// How well two nodes stand for each other: 0 for other operators, more where
/// what they give is of the same types.
static unsigned rate(Operation *first, Operation *second) {
  if (first->getName() != second->getName())
    return 0;
  if (auto node = dyn_cast<NodeOp>(first)) {
    auto other = cast<NodeOp>(second);
    if (node.getKind() != other.getKind() ||
        (node.getKind() != NodeKind::get_attr &&
         node.getTargetAttr() != other.getTargetAttr()))
      return 0;
  }
  return first->getResultTypes() == second->getResultTypes() ? 3 : 2;
}

/// Pairs nodes of the same operator in order so that the sum of their ratings
/// is the largest (Needleman and Wunsch, gaps for nothing).
static Pairs align(ArrayRef<Operation *> first, ArrayRef<Operation *> second) {
  size_t rows = first.size(), columns = second.size();
  // best[i][j]: of what stands from i and j on.
  std::vector<unsigned> best((rows + 1) * (columns + 1));
  auto at = [&](size_t i, size_t j) -> unsigned & {
    return best[i * (columns + 1) + j];
  };
  for (size_t i = rows; i-- > 0;)
    for (size_t j = columns; j-- > 0;) {
      unsigned rating = rate(first[i], second[j]);
      at(i, j) = std::max(
          {rating ? rating + at(i + 1, j + 1) : 0, at(i + 1, j), at(i, j + 1)});
    }
  Pairs pairs;
  for (size_t i = 0, j = 0; i < rows && j < columns;) {
    unsigned rating = rate(first[i], second[j]);
    if (rating && at(i, j) == rating + at(i + 1, j + 1))
      pairs.emplace_back(i++, j++);
    else if (at(i, j) == at(i + 1, j))
      ++i;
    else
      ++j;
  }
  return pairs;
}

/// Between two pairs, as many nodes on both sides stand for each other though
/// they call something else.
static Pairs fillGaps(ArrayRef<std::pair<unsigned, unsigned>> pairs,
                      unsigned size, unsigned otherSize) {
  Pairs filled;
  unsigned next = 0, otherNext = 0;
  auto fill = [&](unsigned end, unsigned otherEnd) {
    if (end - next == otherEnd - otherNext)
      for (; next < end; ++next, ++otherNext)
        filled.emplace_back(next, otherNext);
    next = end, otherNext = otherEnd;
  };
  for (auto [position, otherPosition] : pairs) {
    fill(position, otherPosition);
    filled.emplace_back(next++, otherNext++);
  }
  fill(size, otherSize);
  return filled;
}

static Pairs pairNodes(const Subgraph &first, const Subgraph &second) {
  ArrayRef<Operation *> nodes = first.nodes, others = second.nodes;
  auto isBest = [](Operation *node, Operation *other) {
    return rate(node, other) == 3;
  };
  // What is alike at both ends need not be searched.
  size_t shorter = std::min(nodes.size(), others.size()), begin = 0, end = 0;
  while (begin < shorter && isBest(nodes[begin], others[begin]))
    ++begin;
  while (end < shorter - begin &&
         isBest(nodes[nodes.size() - 1 - end], others[others.size() - 1 - end]))
    ++end;
  ArrayRef<Operation *> inner = nodes.drop_front(begin).drop_back(end);
  ArrayRef<Operation *> otherInner = others.drop_front(begin).drop_back(end);
  Pairs pairs;
  for (size_t i = 0; i < begin; ++i)
    pairs.emplace_back(i, i);
  if (inner.size() * otherInner.size() <= kMostAligned) {
    for (auto [position, other] : align(inner, otherInner))
      pairs.emplace_back(begin + position, begin + other);
  } else {
    for (size_t i = 0; i < std::min(inner.size(), otherInner.size()); ++i)
      pairs.emplace_back(begin + i, begin + i);
  }
  for (size_t i = end; i-- > 0;)
    pairs.emplace_back(nodes.size() - 1 - i, others.size() - 1 - i);
  return fillGaps(pairs, nodes.size(), others.size());
}

std::vector<Difference>
opprof::fx::findDifferences(const Subgraph &first, const Subgraph &second,
                            EquivalenceOptions options) {
  Subgraph sorted = first, otherSorted = second;
  if (options.ignoreOrder) {
    sorted.sortByDataflow();
    otherSorted.sortByDataflow();
  }
  std::vector<Difference> differences;
  NodeComparison(options, /*isPattern=*/false)
      .listDifferences(sorted, otherSorted, pairNodes(sorted, otherSorted),
                       differences);
  return differences;
}
