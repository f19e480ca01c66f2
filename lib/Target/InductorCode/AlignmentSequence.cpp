// Proposes which exported node each post-grad node comes from, by the sequence
// of both graphs: what stands for one node before decomposition is one element,
// and operators, sizes and source lines say how well two elements fit. Names
// only break ties. What is proposed is proven by dataflow or not at all.

#include "AlignmentSequence.h"
#include "AlignmentOperators.h"
#include "AlignmentValues.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

#include <set>

using namespace llvm;
using namespace opprof;
using namespace opprof::inductor;

/// Cells of the alignment table; larger graphs are aligned in a band.
static constexpr uint64_t kMaxCells = 64'000'000;

namespace {
/// One element of the post-grad sequence: what one earlier node became.
struct Group {
  std::string name;
  std::vector<uint32_t> nodes;
  /// Canonical operators of its nodes, views left out where there is more.
  SmallVector<StringRef, 4> operators;
  bool onlyViews = false;
  std::optional<uint64_t> elements;
  SourcePlace source;
};

struct Element {
  uint32_t node;
  StringRef op;
  /// Equal operators have equal numbers, from 0 on.
  uint32_t opNumber;
  std::optional<uint64_t> elements;
  SourcePlace source;
};
} // namespace

static std::optional<uint64_t> elementsOf(const GraphNode &node) {
  if (node.results.empty())
    return std::nullopt;
  return node.results.front().elements();
}

static StringRef baseName(StringRef path) {
  return path.substr(path.find_last_of("/\\") + 1);
}

/// How well an operator stands for a group, 0 where it can't.
/// Views alone stand for an operator that computes only as a part of it.
static int scoreOperator(const Group &group, StringRef whole,
                         bool asPart = false) {
  bool exact = is_contained(group.operators, whole);
  bool composed = all_of(
      group.operators, [&](StringRef op) { return decomposesInto(whole, op); });
  if (exact && composed)
    return 60;
  if (composed && (asPart || !group.onlyViews))
    return 28;
  return exact ? 20 : 0;
}

/// Fit of two elements whose operators fit so well, or nothing where they can't
/// be the same.
static std::optional<int> score(const Group &group, const Element &element,
                                StringRef elementName, int value) {
  if (!value)
    return std::nullopt;
  if (group.elements && element.elements)
    value += *group.elements == *element.elements ? 20 : -25;
  if (group.source.line && element.source.line) {
    bool same = group.source.line == element.source.line &&
                baseName(group.source.file) == baseName(element.source.file);
    value += same ? 30 : -40;
  }
  if (group.name == elementName)
    value += 2;
  return value > 0 ? std::optional<int>(value) : std::nullopt;
}

static std::vector<Group> makeGroups(const GraphView &graph,
                                     const Provenance::Table *groups) {
  std::vector<Group> out;
  StringMap<uint32_t> index;
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode &node = graph.nodes[i];
    if (node.op != GraphNode::Call)
      continue;
    std::string key = "\x01" + node.name;
    std::string name = node.name;
    if (groups)
      if (auto it = groups->find(node.name);
          it != groups->end() && it->second.size() == 1)
        key = name = it->second.front();
    auto [it, inserted] = index.try_emplace(key, out.size());
    if (inserted) {
      out.emplace_back();
      out.back().name = name;
      out.back().source = node.source;
    }
    out[it->second].nodes.push_back(i);
  }
  for (Group &group : out) {
    SmallVector<StringRef, 4> views;
    for (uint32_t i : group.nodes) {
      const GraphNode &node = graph.nodes[i];
      StringRef op = canonicalOperator(opFamily(node.target));
      if (op == "getitem")
        continue;
      SmallVector<StringRef, 4> &list =
          isViewTarget(node.target) ? views : group.operators;
      if (!is_contained(list, op))
        list.push_back(op);
    }
    group.onlyViews = group.operators.empty();
    if (group.onlyViews)
      group.operators = views;
    group.elements = elementsOf(graph.nodes[group.nodes.back()]);
  }
  return out;
}

/// Source lines tell elements apart where both captures ran the same files.
/// Where most lines of one are unknown to the other, they say nothing.
static void dropForeignEvidence(MutableArrayRef<Group> groups,
                                MutableArrayRef<Element> elements) {
  auto key = [](const SourcePlace &place) {
    return (baseName(place.file) + ":" + Twine(place.line)).str();
  };
  StringSet<> known;
  for (const Element &element : elements)
    if (element.source.line)
      known.insert(key(element.source));
  size_t placed = 0, shared = 0;
  for (const Group &group : groups)
    if (group.source.line) {
      ++placed;
      shared += known.contains(key(group.source));
    }
  if (shared * 2 < placed)
    for (Group &group : groups)
      group.source = SourcePlace();

  // The same holds for sizes: the captures may have had other batches. What
  // products, convolutions and attention give tells it best.
  auto isAnchor = [](StringRef op) {
    return op == "matmul" || op == "convolution" || op == "attention";
  };
  std::set<uint64_t> sizes;
  for (const Element &element : elements)
    if (element.elements && isAnchor(element.op))
      sizes.insert(*element.elements);
  size_t sized = 0, common = 0;
  for (const Group &group : groups)
    if (group.elements && any_of(group.operators, isAnchor)) {
      ++sized;
      common += sizes.count(*group.elements);
    }
  if (common * 2 < sized)
    for (Group &group : groups)
      group.elements = std::nullopt;
}

/// Needleman-Wunsch without a price for gaps, in a band round the diagonal
/// where the whole table would be too large. For each group an element, or
/// kNoValue.
static std::vector<uint32_t> matchSequences(ArrayRef<Group> groups,
                                            ArrayRef<Element> elements,
                                            const GraphView &exported) {
  const size_t rows = groups.size(), columns = elements.size();
  uint64_t width = columns;
  if (rows * columns > kMaxCells)
    width = std::max<uint64_t>(256, kMaxCells / rows);
  auto begin = [&](size_t row) -> size_t {
    if (width >= columns)
      return 0;
    size_t middle = static_cast<uint64_t>(row) * columns / rows;
    return middle > width / 2
               ? std::min<size_t>(middle - width / 2, columns - width)
               : 0;
  };
  enum Step : uint8_t { None, Match, SkipGroup, SkipElement };
  std::vector<uint8_t> steps(rows * width, None);
  std::vector<int> above(columns + 1, 0), here(columns + 1, 0);
  // Of a row's many elements few have an operator of their own.
  constexpr int kNotAsked = -1;
  uint32_t operators = 0;
  for (const Element &element : elements)
    operators = std::max(operators, element.opNumber + 1);
  std::vector<int> byOperator(operators);
  for (size_t row = 0; row < rows; ++row) {
    llvm::fill(byOperator, kNotAsked);
    size_t first = begin(row);
    size_t last = std::min<size_t>(first + width, columns);
    here[first] = above[first];
    for (size_t column = first; column < last; ++column) {
      int best = here[column];
      Step step = SkipElement;
      if (above[column + 1] >= best) {
        best = above[column + 1];
        step = SkipGroup;
      }
      const Element &element = elements[column];
      int &fitOfOperator = byOperator[element.opNumber];
      if (fitOfOperator == kNotAsked)
        fitOfOperator = scoreOperator(groups[row], element.op);
      if (std::optional<int> fit =
              score(groups[row], element, exported.nodes[element.node].name,
                    fitOfOperator))
        if (above[column] + *fit > best) {
          best = above[column] + *fit;
          step = Match;
        }
      here[column + 1] = best;
      steps[row * width + (column - first)] = step;
    }
    for (size_t column = last; column < columns; ++column)
      here[column + 1] = here[column];
    std::swap(above, here);
  }
  std::vector<uint32_t> matched(rows, kNoValue);
  for (size_t row = rows, column = columns; row && column;) {
    size_t first = begin(row - 1);
    if (column <= first) {
      --row;
      continue;
    }
    if (column > first + width) {
      column = first + width;
      continue;
    }
    switch (steps[(row - 1) * width + (column - 1 - first)]) {
    case Match:
      matched[--row] = --column;
      break;
    case SkipGroup:
      --row;
      break;
    default:
      --column;
    }
  }
  return matched;
}

/// What the sequence left out belongs to a neighbour that it is a part of: an
/// operator that became several, or a value computed where it is first used.
static void fillGaps(ArrayRef<Group> groups, ArrayRef<Element> elements,
                     const GraphView &exported,
                     std::vector<uint32_t> &matched) {
  const size_t rows = groups.size();
  const uint32_t columns = elements.size();
  std::vector<uint32_t> before(rows, kNoValue), next(rows, kNoValue);
  for (size_t row = 0; row < rows; ++row)
    before[row] = matched[row] != kNoValue ? matched[row]
                  : row                    ? before[row - 1]
                                           : kNoValue;
  for (size_t row = rows; row-- > 0;)
    next[row] = matched[row] != kNoValue ? matched[row]
                : row + 1 < rows         ? next[row + 1]
                                         : kNoValue;
  for (size_t row = 0; row < rows; ++row) {
    if (matched[row] != kNoValue)
      continue;
    uint32_t low = before[row] == kNoValue ? 0 : before[row];
    uint32_t high = next[row] == kNoValue ? columns - 1 : next[row];
    Group plain = groups[row];
    plain.elements = std::nullopt; // A part has sizes of its own.
    int best = 0;
    for (uint32_t column = low; column <= high && column < low + 256;
         ++column) {
      const Element &element = elements[column];
      if (std::optional<int> fit =
              score(plain, element, exported.nodes[element.node].name,
                    scoreOperator(plain, element.op, /*asPart=*/true)))
        if (*fit > best) {
          best = *fit;
          matched[row] = column;
        }
    }
  }
}

std::vector<uint32_t>
opprof::inductor::proposeBySequence(const GraphView &postGrad,
                                    const GraphView &exported,
                                    const Provenance::Table *table) {
  std::vector<uint32_t> proposals(postGrad.nodes.size(), kNoValue);
  std::vector<Group> groups = makeGroups(postGrad, table);
  std::vector<Element> elements;
  StringMap<uint32_t> numbers;
  for (uint32_t i = 0; i < exported.nodes.size(); ++i) {
    const GraphNode &node = exported.nodes[i];
    StringRef op = canonicalOperator(opFamily(node.target));
    if (node.op != GraphNode::Call || op == "getitem")
      continue;
    uint32_t number = numbers.try_emplace(op, numbers.size()).first->second;
    elements.push_back({i, op, number, elementsOf(node), node.source});
  }
  if (groups.empty() || elements.empty())
    return proposals;
  dropForeignEvidence(groups, elements);
  std::vector<uint32_t> matched = matchSequences(groups, elements, exported);
  fillGaps(groups, elements, exported, matched);
  for (auto [group, column] : zip(groups, matched))
    if (column != kNoValue)
      for (uint32_t node : group.nodes)
        proposals[node] = elements[column].node;
  return proposals;
}
