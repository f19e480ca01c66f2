// What recording took of the host. The recorder says what each operator's
// takes, and what a call does that launches something; costs of what the host
// does are stated without it.

#include "RecordingTimes.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <limits>

using namespace llvm;
using namespace opprof;
using namespace opprof::join;
using namespace opprof::profile;
using namespace opprof::trace;

namespace {
/// The sums of one thread, by the starts of its operators.
class ThreadTimes {
public:
  ThreadTimes(const HostTimeline &host, ArrayRef<uint32_t> ops) {
    sums.push_back(0);
    for (uint32_t op : ops) {
      starts.push_back(host.op(op).startNs);
      sums.push_back(sums.back() + host.op(op).recordingNs);
    }
  }

  /// Of operators that began at `from` or later, and before `to`.
  uint32_t between(int64_t from, int64_t to) const {
    if (from >= to)
      return 0;
    size_t first = llvm::lower_bound(starts, from) - starts.begin();
    size_t last = llvm::lower_bound(starts, to) - starts.begin();
    return std::min<uint64_t>(sums[last] - sums[first],
                              std::numeric_limits<uint32_t>::max());
  }

private:
  std::vector<int64_t> starts;
  std::vector<uint64_t> sums;
};
} // namespace

void join::addRecordingTimes(const Trace &trace, const HostTimeline &host,
                             ActivityOps ops, bool onHost, Profile &profile) {
  const int64_t callNs = onHost ? 0 : trace.recordingCallNs;
  if (!callNs && llvm::none_of(trace.hostOps, [](const HostOp &op) {
        return op.recordingNs > 0;
      }))
    return;
  std::vector<ThreadTimes> times;
  for (ThreadId thread = 0; thread < trace.threads.size(); ++thread)
    times.emplace_back(host, host.opsOf(thread));
  // Of each thread, in order of time: the host's own work, or its calls.
  struct Launched {
    Activity *activity;
    uint32_t op;
  };
  std::vector<std::vector<Launched>> ofThread(trace.threads.size());
  for (auto [list, opOf] : {std::pair(&profile.kernels, ops.kernels),
                            std::pair(&profile.copies, ops.copies)})
    for (Activity &activity : *list)
      if (uint32_t op = opOf[activity.id];
          op != kNone && (onHost || activity.launchStartNs))
        ofThread[host.op(op).thread].push_back({&activity, op});
  auto begins = [&](const Launched &launched) {
    const Activity &activity = *launched.activity;
    return onHost ? activity.startNs : int64_t(*activity.launchStartNs);
  };
  for (auto &&[list, own] : llvm::zip(ofThread, times)) {
    llvm::stable_sort(list, [&](const Launched &a, const Launched &b) {
      return begins(a) < begins(b);
    });
    for (size_t at = 0; at < list.size(); ++at) {
      Activity &activity = *list[at].activity;
      int64_t next = at + 1 < list.size() ? begins(list[at + 1])
                                          : std::numeric_limits<int64_t>::max();
      if (!onHost) {
        const bool isSameCall =
            at > 0 && begins(list[at - 1]) == begins(list[at]);
        if (!isSameCall)
          activity.recordingBesideNs = callNs;
        if (at > 0)
          activity.recordingBesideNs +=
              own.between(begins(list[at - 1]), begins(list[at]));
        continue;
      }
      activity.recordingNs =
          own.between(activity.startNs + 1, activity.endNs());
      activity.recordingBesideNs = host.op(list[at].op).recordingNs +
                                   own.between(activity.endNs(), next);
    }
  }
  int64_t &sum = profile.summary.recordingNs.emplace(0);
  const bool anySteady = countSteadySteps(profile) > 0;
  for (const std::vector<Activity> *list : {&profile.kernels, &profile.copies})
    for (const Activity &activity : *list)
      if (isCounted(profile, anySteady, activity))
        sum += int64_t(activity.recordingNs) + activity.recordingBesideNs;
}
