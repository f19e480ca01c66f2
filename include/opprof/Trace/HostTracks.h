// What the host did in a recording, for timelines that people look at: a
// profile has what ran on devices, and of the host only what belongs to that.

#ifndef OPPROF_TRACE_HOSTTRACKS_H
#define OPPROF_TRACE_HOSTTRACKS_H

#include "opprof/Trace/Trace.h"

#include "llvm/Support/raw_ostream.h"

namespace opprof::trace {

/// Prints as JSON, for python/opprof/timeline.py: `processes` by name, the
/// place there of each of the `threads`, and `events`, each its category (as
/// torch.profiler calls it), name, thread, start and duration in nanoseconds,
/// and what else is known of it.
void writeHostTracks(const Trace &trace, llvm::raw_ostream &os);

} // namespace opprof::trace

#endif // OPPROF_TRACE_HOSTTRACKS_H
