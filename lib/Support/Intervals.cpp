// Sums over intervals of time.

#include "opprof/Support/Intervals.h"

#include <algorithm>
#include <limits>

using namespace opprof;

int64_t
opprof::unionLength(std::vector<std::pair<int64_t, int64_t>> &intervals) {
  std::sort(intervals.begin(), intervals.end());
  int64_t length = 0;
  int64_t end = std::numeric_limits<int64_t>::min();
  for (auto [from, to] : intervals) {
    length += std::max<int64_t>(0, to - std::max(from, end));
    end = std::max(end, to);
  }
  return length;
}
