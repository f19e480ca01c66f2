// Kernels that were counted by themselves, without a timeline.

#ifndef OPPROF_LIB_JOIN_COUNTEDKERNELS_H
#define OPPROF_LIB_JOIN_COUNTEDKERNELS_H

#include "opprof/Support/Recording.h"
#include "opprof/Trace/Trace.h"

namespace opprof::join {

/// The values of the catalogue that the counters of `kernel`, which is one of
/// `counted`, give, and beside them the counters that findings read.
CounterRow deriveCounters(const trace::Trace &counted,
                          const trace::TraceActivity &kernel);

} // namespace opprof::join

#endif // OPPROF_LIB_JOIN_COUNTEDKERNELS_H
