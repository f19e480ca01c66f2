// How many warps a processor can hold. What a kernel's registers, shared memory
// and block size leave of a multiprocessor, by the device's limits. A bound,
// and no measurement.

#ifndef OPPROF_METRICS_OCCUPANCY_H
#define OPPROF_METRICS_OCCUPANCY_H

#include "opprof/Support/Recording.h"

namespace opprof::metrics {

struct Occupancy {
  /// Blocks that a multiprocessor holds at once.
  uint64_t blocks = 0;
  /// Its warps, in percent of those that it can hold.
  double pct = 0;
  /// What holds fewest blocks: "registers", "shared memory", "block size" or
  /// "blocks".
  llvm::StringRef limiter;
  /// How often the grid fills the device.
  double waves = 0;
};

/// Absent where the launch or the device is not known well enough.
std::optional<Occupancy> estimateOccupancy(const LaunchConfig &kernel,
                                           const Device &device);

} // namespace opprof::metrics

#endif // OPPROF_METRICS_OCCUPANCY_H
