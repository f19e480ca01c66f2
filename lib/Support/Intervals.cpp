// Sets of instants, as sorted, disjoint, half-open intervals.

#include "opprof/Support/Intervals.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace llvm;
using namespace opprof;

std::vector<Interval> opprof::unite(std::vector<Interval> intervals) {
  if (!llvm::is_sorted(intervals))
    llvm::sort(intervals);
  // In place: there are as many as a recording has kernels.
  size_t united = 0;
  for (Interval interval : intervals) {
    if (interval.second <= interval.first)
      continue;
    if (!united || interval.first > intervals[united - 1].second)
      intervals[united++] = interval;
    else
      intervals[united - 1].second =
          std::max(intervals[united - 1].second, interval.second);
  }
  intervals.resize(united);
  return intervals;
}

std::vector<Interval> opprof::gapsIn(Interval window,
                                     ArrayRef<Interval> covered) {
  std::vector<Interval> result;
  int64_t at = window.first;
  for (Interval interval : covered) {
    if (interval.first > at)
      result.push_back({at, std::min(interval.first, window.second)});
    at = std::max(at, interval.second);
    if (at >= window.second)
      return result;
  }
  if (at < window.second)
    result.push_back({at, window.second});
  return result;
}

std::vector<Interval> opprof::subtract(ArrayRef<Interval> intervals,
                                       ArrayRef<Interval> covered) {
  std::vector<Interval> result;
  for (Interval interval : intervals) {
    while (!covered.empty() && covered.front().second <= interval.first)
      covered = covered.drop_front();
    llvm::append_range(result, gapsIn(interval, covered));
  }
  return result;
}

std::vector<Interval> opprof::intersect(ArrayRef<Interval> a,
                                        ArrayRef<Interval> b) {
  std::vector<Interval> result;
  while (!a.empty() && !b.empty()) {
    int64_t from = std::max(a.front().first, b.front().first);
    int64_t to = std::min(a.front().second, b.front().second);
    if (from < to)
      result.push_back({from, to});
    if (a.front().second < b.front().second)
      a = a.drop_front();
    else
      b = b.drop_front();
  }
  return result;
}

bool opprof::contains(ArrayRef<Interval> intervals, int64_t at) {
  const Interval *next = llvm::partition_point(
      intervals, [&](const Interval &one) { return one.second <= at; });
  return next != intervals.end() && next->first <= at;
}

int64_t opprof::sumLengths(ArrayRef<Interval> intervals) {
  int64_t total = 0;
  for (Interval interval : intervals)
    total += interval.second - interval.first;
  return total;
}

int64_t opprof::unionLength(std::vector<Interval> intervals) {
  return sumLengths(unite(std::move(intervals)));
}
