// Steps and phases of a recording.

#ifndef OPPROF_LIB_JOIN_TRACESTEPS_H
#define OPPROF_LIB_JOIN_TRACESTEPS_H

#include "CallJoins.h"

namespace opprof::join {

/// Fills in the steps of the profile: those that the program or the profiler
/// marked, else, with `anyGraph`, one from each call of the first compiled
/// graph to the next, or from where a pass through a graph that ran uncompiled
/// begins.
void findSteps(const trace::Trace &trace, const HostTimeline &host,
               const CallJoins &calls, llvm::ArrayRef<int64_t> passStarts,
               const LaunchIndex &index, bool anyGraph,
               profile::Profile &profile);

/// The step that `time` lies in.
std::optional<uint32_t> stepAt(llvm::ArrayRef<profile::Step> steps,
                               int64_t time);

/// What the program was doing when it ran `op`, or none.
profile::Phase phaseOf(const HostTimeline &host, uint32_t op);

} // namespace opprof::join

#endif // OPPROF_LIB_JOIN_TRACESTEPS_H
