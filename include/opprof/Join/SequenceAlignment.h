// Order-preserving matching.

#ifndef OPPROF_JOIN_SEQUENCEALIGNMENT_H
#define OPPROF_JOIN_SEQUENCEALIGNMENT_H

#include "llvm/ADT/STLFunctionalExtras.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace opprof::join {

/// Where one element of the first sequence went.
struct AlignedElement {
  /// Position in the second sequence.
  std::optional<uint32_t> position;
  /// Every longest order-preserving matching makes this very choice.
  bool forced = false;
};

struct SequenceAlignment {
  /// One for each element of the first sequence.
  std::vector<AlignedElement> elements;
  uint32_t matched = 0;
  /// Both sequences match element by element.
  bool complete = false;
};

/// Elements of the first sequence that follow one another without a match, and
/// those of the second between what is matched before and after them. Both are
/// half-open; the second may be empty.
struct AlignmentGap {
  uint32_t firstBegin, firstEnd;
  uint32_t secondBegin, secondEnd;
};

/// The gaps of an alignment with a sequence of `second` elements, in order.
std::vector<AlignmentGap> findGaps(const SequenceAlignment &alignment,
                                   uint32_t second);

/// Cells of the table above which alignment matches greedily, and forces
/// nothing.
constexpr uint64_t kMaxAlignmentCells = uint64_t(1) << 24;

/// Finds a longest matching of 0..first-1 with 0..second-1 that keeps order and
/// pairs only what `equal` accepts.
SequenceAlignment
alignSequences(uint32_t first, uint32_t second,
               llvm::function_ref<bool(uint32_t, uint32_t)> equal,
               uint64_t maxCells = kMaxAlignmentCells);

} // namespace opprof::join

#endif // OPPROF_JOIN_SEQUENCEALIGNMENT_H
