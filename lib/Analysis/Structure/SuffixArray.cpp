// Induced sorting (Nong, Zhang, Chan 2009), common prefixes (Kasai 2001),
// longest earlier matches (Crochemore, Ilie 2008).

#include "SuffixArray.h"

#include <algorithm>
#include <cstdint>

#include "llvm/ADT/STLExtras.h"

using namespace opprof;

/// Sorts the suffixes of `text`, whose numbers are below `alphabet`.
static std::vector<int> sortSuffixes(llvm::ArrayRef<int> text, int alphabet) {
  int size = text.size();
  if (size == 0)
    return {};
  if (size == 1)
    return {0};
  std::vector<int> suffixes(size);
  // A suffix is smaller than the next one (type S), or larger.
  std::vector<bool> isSmaller(size);
  for (int i = size - 2; i >= 0; --i)
    isSmaller[i] =
        text[i] == text[i + 1] ? isSmaller[i + 1] : text[i] < text[i + 1];
  auto isLeftmost = [&](int i) {
    return i > 0 && isSmaller[i] && !isSmaller[i - 1];
  };
  // Where the larger and the smaller suffixes of each bucket begin.
  std::vector<int> larger(alphabet + 1), smaller(alphabet + 1);
  for (int i = 0; i < size; ++i) {
    if (!isSmaller[i])
      ++smaller[text[i]];
    else
      ++larger[text[i] + 1];
  }
  for (int i = 0; i <= alphabet; ++i) {
    smaller[i] += larger[i];
    if (i < alphabet)
      larger[i + 1] += smaller[i];
  }
  std::vector<int> next(alphabet + 1);
  auto induce = [&](const std::vector<int> &leftmost) {
    llvm::fill(suffixes, -1);
    llvm::copy(smaller, next.begin());
    for (int place : leftmost)
      suffixes[next[text[place]]++] = place;
    llvm::copy(larger, next.begin());
    suffixes[next[text[size - 1]]++] = size - 1;
    for (int i = 0; i < size; ++i) {
      int place = suffixes[i];
      if (place >= 1 && !isSmaller[place - 1])
        suffixes[next[text[place - 1]]++] = place - 1;
    }
    llvm::copy(larger, next.begin());
    for (int i = size - 1; i >= 0; --i) {
      int place = suffixes[i];
      if (place >= 1 && isSmaller[place - 1])
        suffixes[--next[text[place - 1] + 1]] = place - 1;
    }
  };
  std::vector<int> indexOf(size + 1, -1), leftmost;
  for (int i = 1; i < size; ++i)
    if (isLeftmost(i)) {
      indexOf[i] = leftmost.size();
      leftmost.push_back(i);
    }
  induce(leftmost);
  if (leftmost.empty())
    return suffixes;
  std::vector<int> sorted;
  sorted.reserve(leftmost.size());
  for (int place : suffixes)
    if (indexOf[place] != -1)
      sorted.push_back(place);
  // Names of the stretches between leftmost smaller suffixes: equal ones share
  // theirs.
  std::vector<int> names(leftmost.size());
  int numNames = 0;
  auto endOf = [&](int place) {
    unsigned index = indexOf[place];
    return index + 1 < leftmost.size() ? leftmost[index + 1] : size;
  };
  for (size_t i = 1; i < sorted.size(); ++i) {
    int left = sorted[i - 1], right = sorted[i];
    int leftEnd = endOf(left), rightEnd = endOf(right);
    bool areSame = leftEnd - left == rightEnd - right;
    while (areSame && left < leftEnd) {
      if (text[left] != text[right])
        break;
      ++left;
      ++right;
    }
    if (left == size || right == size || text[left] != text[right])
      areSame = false;
    if (!areSame)
      ++numNames;
    names[indexOf[sorted[i]]] = numNames;
  }
  std::vector<int> order = sortSuffixes(names, numNames + 1);
  for (size_t i = 0; i < sorted.size(); ++i)
    sorted[i] = leftmost[order[i]];
  induce(sorted);
  return suffixes;
}

SuffixArray::SuffixArray(llvm::ArrayRef<int> text, int alphabet)
    : suffixes(sortSuffixes(text, alphabet)), ranks(text.size()),
      common(text.empty() ? 0 : text.size() - 1) {
  int size = text.size();
  for (int i = 0; i < size; ++i)
    ranks[suffixes[i]] = i;
  int length = 0;
  for (int i = 0; i < size; ++i) {
    if (length > 0)
      --length;
    if (ranks[i] == 0) {
      length = 0;
      continue;
    }
    int other = suffixes[ranks[i] - 1];
    while (i + length < size && other + length < size &&
           text[i + length] == text[other + length])
      ++length;
    common[ranks[i] - 1] = length;
  }
}

std::pair<int, int> SuffixArray::findOccurrences(int place, int length) const {
  int first = ranks[place], last = first + 1;
  while (first > 0 && common[first - 1] >= length)
    --first;
  while (last < static_cast<int>(suffixes.size()) && common[last - 1] >= length)
    ++last;
  return {first, last};
}

EarlierMatches::EarlierMatches(const SuffixArray &array)
    : length(array.suffixes.size()), source(array.suffixes.size(), -1) {
  // The positions in lexical order as a linked list, from which the last
  // position of the text is taken out again and again: its neighbours are then
  // the best matches among earlier positions.
  int size = array.suffixes.size();
  std::vector<int> before(size), after(size), common(size);
  for (int rank = 0; rank < size; ++rank) {
    before[rank] = rank - 1;
    after[rank] = rank + 1;
    common[rank] = rank > 0 ? array.common[rank - 1] : 0;
  }
  for (int place = size - 1; place >= 0; --place) {
    int rank = array.ranks[place];
    int left = before[rank], right = after[rank];
    int withLeft = left >= 0 ? common[rank] : 0;
    int withRight = right < size ? common[right] : 0;
    length[place] = std::max(withLeft, withRight);
    if (length[place] > 0)
      source[place] = array.suffixes[withLeft >= withRight ? left : right];
    if (left >= 0)
      after[left] = right;
    if (right < size) {
      before[right] = left;
      common[right] = std::min(common[right], common[rank]);
    }
  }
}
