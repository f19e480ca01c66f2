// What steps on the host take where nothing else has the processor.

#ifndef OPPROF_LIB_JOIN_UNDISTURBEDSTEPS_H
#define OPPROF_LIB_JOIN_UNDISTURBEDSTEPS_H

#include "opprof/Profile/Profile.h"
#include "opprof/Trace/Trace.h"

namespace opprof::join {

/// Sums up what is usual for each operator of the steady steps, with all that
/// the host does besides; of a program whose kernels are operators of the host.
void addUndisturbedTime(const trace::Trace &trace, profile::Profile &profile);

} // namespace opprof::join

#endif // OPPROF_LIB_JOIN_UNDISTURBEDSTEPS_H
