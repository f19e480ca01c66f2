// Order-preserving matching. Longest common subsequence by two tables, of
// prefixes and of suffixes: with both, one can tell the pairs that every
// longest matching has from those that are one choice among several.

#include "opprof/Join/SequenceAlignment.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace opprof;
using namespace opprof::join;

/// Takes for each element the next one that fits.
static SequenceAlignment
alignGreedily(uint32_t first, uint32_t second,
              llvm::function_ref<bool(uint32_t, uint32_t)> equal) {
  // Looking further ahead than this costs a square, and finds little.
  constexpr uint32_t kWindow = 1024;
  SequenceAlignment result;
  result.elements.resize(first);
  uint32_t next = 0;
  for (uint32_t i = 0; i < first && next < second; ++i)
    for (uint32_t j = next; j < std::min(second, next + kWindow); ++j)
      if (equal(i, j)) {
        result.elements[i].position = j;
        ++result.matched;
        next = j + 1;
        break;
      }
  return result;
}

SequenceAlignment
opprof::join::alignSequences(uint32_t first, uint32_t second,
                             llvm::function_ref<bool(uint32_t, uint32_t)> equal,
                             uint64_t maxCells) {
  SequenceAlignment result;
  result.elements.resize(first);

  if (first == second) {
    uint32_t same = 0;
    while (same < first && equal(same, same))
      ++same;
    if (same == first) {
      for (uint32_t i = 0; i < first; ++i)
        result.elements[i] = {i, true};
      result.matched = first;
      result.complete = true;
      return result;
    }
  }
  uint64_t width = uint64_t(second) + 1;
  if ((uint64_t(first) + 1) * width > maxCells)
    return alignGreedily(first, second, equal);

  // prefix[i][j]: longest matching of the first i and j elements; suffix[i][j]:
  // of the elements from i and j on.
  std::vector<uint32_t> prefix((first + 1) * width), suffix = prefix;
  for (uint32_t i = 0; i < first; ++i)
    for (uint32_t j = 0; j < second; ++j)
      prefix[(i + 1) * width + j + 1] =
          equal(i, j) ? prefix[i * width + j] + 1
                      : std::max(prefix[i * width + j + 1],
                                 prefix[(i + 1) * width + j]);
  for (uint32_t i = first; i-- > 0;)
    for (uint32_t j = second; j-- > 0;)
      suffix[i * width + j] = equal(i, j)
                                  ? suffix[(i + 1) * width + j + 1] + 1
                                  : std::max(suffix[(i + 1) * width + j],
                                             suffix[i * width + j + 1]);
  uint32_t longest = suffix[0];

  uint32_t i = 0, j = 0;
  while (i < first && j < second) {
    if (equal(i, j) &&
        suffix[i * width + j] == suffix[(i + 1) * width + j + 1] + 1) {
      result.elements[i++].position = j++;
      ++result.matched;
    } else if (suffix[i * width + j + 1] == suffix[i * width + j]) {
      ++j;
    } else {
      ++i;
    }
  }
  for (uint32_t i = 0; i < first; ++i) {
    if (!result.elements[i].position)
      continue;
    uint32_t choices = 0;
    bool dispensable = false;
    for (uint32_t j = 0; j <= second; ++j) {
      dispensable |=
          prefix[i * width + j] + suffix[(i + 1) * width + j] == longest;
      choices += j < second && equal(i, j) &&
                 prefix[i * width + j] + 1 + suffix[(i + 1) * width + j + 1] ==
                     longest;
    }
    result.elements[i].forced = choices == 1 && !dispensable;
  }
  return result;
}

std::vector<AlignmentGap>
opprof::join::findGaps(const SequenceAlignment &alignment, uint32_t second) {
  std::vector<AlignmentGap> gaps;
  uint32_t next = 0;
  for (auto [at, element] : llvm::enumerate(alignment.elements)) {
    bool isOpen = !gaps.empty() && gaps.back().firstEnd == at;
    if (element.position) {
      if (isOpen)
        gaps.back().secondEnd = *element.position;
      next = *element.position + 1;
    } else if (isOpen) {
      ++gaps.back().firstEnd;
    } else {
      gaps.push_back({uint32_t(at), uint32_t(at) + 1, next, second});
    }
  }
  return gaps;
}
