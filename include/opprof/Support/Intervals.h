// Sums over intervals of time.

#ifndef OPPROF_SUPPORT_INTERVALS_H
#define OPPROF_SUPPORT_INTERVALS_H

#include <cstdint>
#include <utility>
#include <vector>

namespace opprof {

/// Length of the union of half-open intervals; sorts `intervals`.
int64_t unionLength(std::vector<std::pair<int64_t, int64_t>> &intervals);

} // namespace opprof

#endif // OPPROF_SUPPORT_INTERVALS_H
