// What the host did besides computing, where an observer recorded it.

#ifndef OPPROF_LIB_JOIN_HOSTCOSTS_H
#define OPPROF_LIB_JOIN_HOSTCOSTS_H

#include "OperatorPlaces.h"

namespace opprof::join {

/// What the observer calls a wait for the device that no operator is round.
inline constexpr llvm::StringLiteral kWaitEvent = "wait";
/// And the time in which a thread, not the process's first, ran no operator
/// and did not have the processor: a server's waits for requests.
inline constexpr llvm::StringLiteral kWorkWaitEvent = "work wait";

/// Gives the profile what the host did in its steady steps, or in all where
/// there are none: loading data, waiting for values, collecting garbage,
/// compiling; each by line, costliest first. `hasDevice` is whether the program
/// has one to wait for.
void addHostCosts(const trace::Trace &trace, const HostTimeline &host,
                  const OperatorPlaces &places, bool hasDevice,
                  profile::Profile &profile);

} // namespace opprof::join

#endif // OPPROF_LIB_JOIN_HOSTCOSTS_H
