// What the host did while a device was idle.

#include "IdleHost.h"

#include "opprof/Support/Intervals.h"

#include "llvm/ADT/STLExtras.h"

#include <limits>
#include <map>
#include <optional>

using namespace llvm;
using namespace opprof;
using namespace opprof::join;
using namespace opprof::profile;
using namespace opprof::trace;

/// Shorter ones are those between one launch and the next.
static constexpr int64_t kShortestNs = 20'000;
/// As many as reports may want to name.
static constexpr size_t kMost = 256;

/// Leaves the longest, the longer ones first.
static void keepLongest(std::vector<Interval> &idle) {
  llvm::stable_sort(idle, [](const Interval &a, const Interval &b) {
    return a.second - a.first > b.second - b.first;
  });
  idle.resize(std::min(idle.size(), kMost));
}

namespace {
/// When a device ran nothing, told from what it ran in order of start: lists of
/// that would add to the most memory that a profile takes.
class DeviceIdle {
public:
  void run(const Activity &activity) {
    if (activity.durationNs <= 0)
      return;
    // The steps begin before the device is given something.
    int64_t from = until.value_or(std::min(activity.startNs, begin));
    if (activity.startNs - from >= kShortestNs)
      idle.push_back({from, activity.startNs});
    if (idle.size() == 16 * kMost)
      keepLongest(idle);
    until = std::max(from, activity.endNs());
  }

  /// Of the first step, or later than all else.
  int64_t begin = std::numeric_limits<int64_t>::max();
  std::vector<Interval> idle;

private:
  std::optional<int64_t> until;
};
} // namespace

/// The longest times in which a device ran nothing between two things.
static std::vector<Interval> findIdle(const Profile &profile) {
  std::map<int64_t, DeviceIdle> devices;
  auto run = [&](const Activity &activity) {
    auto [it, isNew] = devices.try_emplace(activity.device);
    if (isNew && !profile.steps.empty())
      it->second.begin = profile.steps.front().startNs;
    it->second.run(activity);
  };
  const auto *copy = profile.copies.data();
  const auto *lastCopy = copy + profile.copies.size();
  for (const Activity &kernel : profile.kernels) {
    for (; copy != lastCopy && copy->startNs < kernel.startNs; ++copy)
      run(*copy);
    run(kernel);
  }
  for (; copy != lastCopy; ++copy)
    run(*copy);
  std::vector<Interval> idle;
  for (auto &[device, found] : devices)
    llvm::append_range(idle, found.idle);
  keepLongest(idle);
  return idle;
}

/// Steps say nothing of what is done in them, and what has no end may have been
/// over.
static bool saysNothing(const HostOp &op) {
  return op.open || op.name.starts_with("ProfilerStep#");
}

namespace {
/// What covers most of an idle time. What the program or PyTorch marked tells
/// more than an operator, and the innermost of two more than the outer.
struct Best {
  const HostOp *op = nullptr;
  int64_t covered = 0;

  void offer(const HostOp &candidate, Interval gap) {
    int64_t overlap = std::min(candidate.endNs(), gap.second) -
                      std::max(candidate.startNs, gap.first);
    bool isMost = overlap > 0 && 2 * overlap >= gap.second - gap.first;
    if (!isMost || (op && op->annotation && !candidate.annotation))
      return;
    op = &candidate;
    covered = overlap;
  }
};
} // namespace

/// Of the operators of `thread`, offers those that reach into the gap: outer
/// ones come first.
static void offerAll(const HostTimeline &host, ThreadId thread, Interval gap,
                     Best &best) {
  std::vector<uint32_t> around;
  for (uint32_t op = host.enclosing(thread, gap.first); op != kNone;
       op = host.parent(op))
    around.push_back(op);
  for (uint32_t op : llvm::reverse(around))
    if (!saysNothing(host.op(op)))
      best.offer(host.op(op), gap);
  ArrayRef<uint32_t> ops = host.opsOf(thread);
  const uint32_t *it =
      llvm::upper_bound(ops, gap.first, [&](int64_t at, uint32_t op) {
        return at < host.op(op).startNs;
      });
  // What covers half of the gap begins in its first half.
  int64_t middle = gap.first + (gap.second - gap.first) / 2;
  for (; it != ops.end() && host.op(*it).startNs <= middle; ++it)
    if (!saysNothing(host.op(*it)))
      best.offer(host.op(*it), gap);
}

void opprof::join::addHostWork(const Trace &trace, const HostTimeline &host,
                               Profile &profile) {
  // Waits are the profile's own already.
  std::vector<bool> launches(trace.threads.size());
  for (const RuntimeCall &call : trace.runtimeCalls)
    launches[call.thread] = true;
  for (Interval gap : findIdle(profile)) {
    Best best;
    for (ThreadId thread = 0; thread < launches.size(); ++thread)
      if (launches[thread])
        offerAll(host, thread, gap, best);
    if (best.op)
      profile.hostWork.push_back(
          {best.op->name.str(), best.op->startNs, best.op->durationNs});
  }
}
