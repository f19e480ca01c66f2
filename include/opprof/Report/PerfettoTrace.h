// Recordings as a trace that Perfetto and torch.profiler's tools open: what the
// host did on each thread, what ran on each stream, and beside it the nodes,
// partitions and modules that it was for, the steps, and the counters.

#ifndef OPPROF_REPORT_PERFETTOTRACE_H
#define OPPROF_REPORT_PERFETTOTRACE_H

#include "opprof/Profile/Profile.h"
#include "opprof/Trace/Trace.h"

#include "llvm/Support/raw_ostream.h"

namespace opprof::report {

/// Prints one trace of one or several recordings, which need not be in memory
/// together: those of several ranks stand on the clock of the first.
class PerfettoTrace {
public:
  PerfettoTrace(llvm::raw_ostream &os, size_t recordings)
      : os(os), isAlone(recordings == 1) {}

  /// What ran on devices, and what it was for, is the profile's. What the host
  /// did is `recording`'s, where that is at hand; a profile alone says when it
  /// launched and waited. `label` goes before the processes of one of several:
  /// "rank 0". False, and nothing is printed, where it began so long before the
  /// first that no viewer would show it.
  bool add(const profile::Profile &profile, const trace::Trace *recording,
           llvm::StringRef label = {});
  /// After the last.
  void end();

private:
  llvm::raw_ostream &os;
  bool isAlone;
  bool hasBegun = false;
  bool hasEvents = false;
  uint64_t numArrows = 0;
  /// The zero of the trace, on the clock of the first and in nanoseconds since
  /// 1970.
  int64_t originNs = 0;
  std::optional<int64_t> originRealtimeNs;
};

} // namespace opprof::report

#endif // OPPROF_REPORT_PERFETTOTRACE_H
