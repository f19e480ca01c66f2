// Puts the values of counters.json, or of a page of Nsight Compute, on the
// kernels and nodes of a profile.

#ifndef OPPROF_JOIN_COUNTERS_H
#define OPPROF_JOIN_COUNTERS_H

#include "opprof/Join/Attribution.h"
#include "opprof/Trace/Counters.h"

namespace opprof::join {

/// Gives the profile's kernels the counters of the launch that they are of, and
/// its nodes those of their steady kernels: amounts are summed over a step,
/// limits are the largest, rates are means weighted by time. Those of the whole
/// step are the profile's own, beside what its kernels add up to. `inputs` are
/// those that the profile was made with.
void attachCounters(profile::Profile &profile, const trace::CountersFile &file,
                    const AttributionInputs &inputs);

/// The same with the counters of a page of Nsight Compute
/// (trace::readCountedKernels), which knows of a kernel no more than its name,
/// grid, block and place in the order. A step whose kernels are all in the page
/// one after another is joined with medium confidence, and so is what an
/// alignment of both leaves no choice for; other kernels of the same name, grid
/// and block with low. A note says how many are which.
void attachCounters(profile::Profile &profile, const trace::Trace &counted);

} // namespace opprof::join

#endif // OPPROF_JOIN_COUNTERS_H
