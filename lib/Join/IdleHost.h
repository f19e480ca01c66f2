// What the host did while a device was idle.

#ifndef OPPROF_LIB_JOIN_IDLEHOST_H
#define OPPROF_LIB_JOIN_IDLEHOST_H

#include "HostTimeline.h"

#include "opprof/Profile/Profile.h"

namespace opprof::join {

/// Finds the longest times in which a device ran nothing, and gives the profile
/// what the host did then.
void addHostWork(const trace::Trace &trace, const HostTimeline &host,
                 profile::Profile &profile);

} // namespace opprof::join

#endif // OPPROF_LIB_JOIN_IDLEHOST_H
