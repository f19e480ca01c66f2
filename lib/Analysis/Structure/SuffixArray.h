// Suffix arrays of sequences of numbers, and what they say of repeats.

#ifndef OPPROF_LIB_ANALYSIS_STRUCTURE_SUFFIXARRAY_H
#define OPPROF_LIB_ANALYSIS_STRUCTURE_SUFFIXARRAY_H

#include "llvm/ADT/ArrayRef.h"

#include <vector>

namespace opprof {

/// The suffixes of a sequence in lexical order. Built in linear time and
/// memory.
class SuffixArray {
public:
  /// `text` holds numbers below `alphabet`.
  SuffixArray(llvm::ArrayRef<int> text, int alphabet);

  /// The places in the text at which the `length` numbers from `place` on
  /// stand, in no order; as a half-open range of `suffixes`.
  std::pair<int, int> findOccurrences(int place, int length) const;

  /// Start positions in lexical order of what follows.
  std::vector<int> suffixes;
  /// For each position its index in `suffixes`.
  std::vector<int> ranks;
  /// How many numbers the suffixes i and i + 1 begin with in common.
  std::vector<int> common;
};

/// For each position the longest stretch from there on that also begins at an
/// earlier position (and may overlap it), and one such position.
struct EarlierMatches {
  explicit EarlierMatches(const SuffixArray &suffixes);
  std::vector<int> length, source;
};

} // namespace opprof

#endif // OPPROF_LIB_ANALYSIS_STRUCTURE_SUFFIXARRAY_H
