// The one in the middle.

#ifndef OPPROF_SUPPORT_MEDIAN_H
#define OPPROF_SUPPORT_MEDIAN_H

#include <algorithm>
#include <cstdint>
#include <vector>

namespace opprof {

/// The value in the middle, of an even number of them the upper one; 0 of none.
template <typename T> T medianOf(std::vector<T> values) {
  if (values.empty())
    return 0;
  auto middle = values.begin() + values.size() / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// What of its like takes longer than this was held up: the system gave the
/// processor to others meanwhile.
inline int64_t mostOfUsual(std::vector<int64_t> times) {
  return 2 * medianOf(std::move(times));
}

} // namespace opprof

#endif // OPPROF_SUPPORT_MEDIAN_H
