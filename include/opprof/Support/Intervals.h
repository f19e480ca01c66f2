// Sets of instants, as sorted, disjoint, half-open intervals.

#ifndef OPPROF_SUPPORT_INTERVALS_H
#define OPPROF_SUPPORT_INTERVALS_H

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace opprof {

using Interval = std::pair<int64_t, int64_t>;

/// Sorted and disjoint; empty ones are dropped.
std::vector<Interval> unite(std::vector<Interval> intervals);

/// What of `window` is in none of `covered`, which is sorted and disjoint.
std::vector<Interval> gapsIn(Interval window, llvm::ArrayRef<Interval> covered);

/// What of `intervals` lies outside of `covered`; both sorted and disjoint.
std::vector<Interval> subtract(llvm::ArrayRef<Interval> intervals,
                               llvm::ArrayRef<Interval> covered);

/// What two sorted, disjoint lists have in common.
std::vector<Interval> intersect(llvm::ArrayRef<Interval> a,
                                llvm::ArrayRef<Interval> b);

/// Whether one of sorted, disjoint intervals holds the instant.
bool contains(llvm::ArrayRef<Interval> intervals, int64_t at);

/// Of disjoint intervals.
int64_t sumLengths(llvm::ArrayRef<Interval> intervals);

/// Length of the union of intervals in any order.
int64_t unionLength(std::vector<Interval> intervals);

} // namespace opprof

#endif // OPPROF_SUPPORT_INTERVALS_H
