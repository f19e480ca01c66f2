// Puts the values of counters.json on the kernels and nodes of a profile.

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

} // namespace opprof::join

#endif // OPPROF_JOIN_COUNTERS_H
