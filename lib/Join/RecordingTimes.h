// What the recording of operators took of the host, activity by activity.

#ifndef OPPROF_LIB_JOIN_RECORDINGTIMES_H
#define OPPROF_LIB_JOIN_RECORDINGTIMES_H

#include "HostTimeline.h"

#include "opprof/Profile/Profile.h"

namespace opprof::join {

/// The operators of kernels and copies, in their order: kNone where there is
/// none.
struct ActivityOps {
  llvm::ArrayRef<uint32_t> kernels, copies;
};

/// Sets what recording took in each activity and beside it, and sums it up.
void addRecordingTimes(const trace::Trace &trace, const HostTimeline &host,
                       ActivityOps ops, bool onHost, profile::Profile &profile);

} // namespace opprof::join

#endif // OPPROF_LIB_JOIN_RECORDINGTIMES_H
