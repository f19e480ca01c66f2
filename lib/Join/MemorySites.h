// Who holds the memory of tensors, where an observer recorded it.

#ifndef OPPROF_LIB_JOIN_MEMORYSITES_H
#define OPPROF_LIB_JOIN_MEMORYSITES_H

#include "OperatorPlaces.h"

namespace opprof::join {

/// Gives the profile the peak of each device's memory with who held it, what
/// the steady steps took and gave back, and what grows from step to step; by
/// module, line and part of the step.
void addTensorMemory(const trace::Trace &trace, const HostTimeline &host,
                     const OperatorPlaces &places, profile::Profile &profile);

} // namespace opprof::join

#endif // OPPROF_LIB_JOIN_MEMORYSITES_H
