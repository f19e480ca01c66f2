// What the host did while a device was idle.

#include "IdleHost.h"

#include "opprof/Support/Intervals.h"

#include "llvm/ADT/STLExtras.h"

#include <limits>
#include <map>
#include <optional>
#include <tuple>

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
/// How much a name tells of an idle time, least first.
enum class Telling : uint8_t {
  /// A range that the program or PyTorch marked, in which far more happened.
  FarRange,
  /// A function of Python outside of PyTorch.
  Frame,
  Operator,
  /// A range that is about as long.
  NearRange,
  /// A call of the driver that took most of it.
  Call,
};

/// What covers most of an idle time. Of two names that tell as much the
/// innermost, which comes last, stays.
struct Best {
  std::string name;
  int64_t startNs = 0, durationNs = 0;
  Telling telling = Telling::FarRange;

  /// Whether it took at least half of the idle time, and no name that is there
  /// tells more.
  bool isBetter(int64_t start, int64_t duration, Interval gap,
                Telling own) const {
    int64_t overlap =
        std::min(start + duration, gap.second) - std::max(start, gap.first);
    return overlap > 0 && 2 * overlap >= gap.second - gap.first &&
           (name.empty() || own >= telling);
  }

  void offer(const HostOp &op, Interval gap) {
    // A range of a whole step or request says where an idle time lies in it,
    // and not what happened.
    constexpr int64_t kFar = 4;
    bool isFar = op.durationNs / kFar > gap.second - gap.first;
    Telling own = !op.annotation ? Telling::Operator
                  : isFar        ? Telling::FarRange
                                 : Telling::NearRange;
    if (isBetter(op.startNs, op.durationNs, gap, own))
      *this = {op.name.str(), op.startNs, op.durationNs, own};
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

namespace {
/// What some threads did besides operators, each thread's in order of time.
template <typename Event> class ByThread {
public:
  ByThread(ArrayRef<Event> all, size_t threads,
           function_ref<bool(const Event &)> isOfInterest)
      : byThread(threads) {
    for (const Event &event : all)
      if (isOfInterest(event))
        byThread[event.thread].push_back(&event);
    for (std::vector<const Event *> &events : byThread)
      llvm::stable_sort(events, [](const Event *a, const Event *b) {
        return std::tuple(a->startNs, -a->durationNs) <
               std::tuple(b->startNs, -b->durationNs);
      });
  }

  /// Those that begin in the first half of the gap or before it, as what covers
  /// half of it does.
  ArrayRef<const Event *> until(ThreadId thread, Interval gap) const {
    int64_t middle = gap.first + (gap.second - gap.first) / 2;
    ArrayRef<const Event *> events = byThread[thread];
    return events.take_front(
        llvm::upper_bound(events, middle,
                          [](int64_t at, const Event *event) {
                            return at < event->startNs;
                          }) -
        events.begin());
  }

private:
  std::vector<std::vector<const Event *>> byThread;
};
} // namespace

void opprof::join::addHostWork(const Trace &trace, const HostTimeline &host,
                               Profile &profile) {
  std::vector<bool> launches(trace.threads.size());
  for (const RuntimeCall &call : trace.runtimeCalls)
    launches[call.thread] = true;
  // Waits are the profile's own already.
  ByThread<RuntimeCall> calls(trace.runtimeCalls, trace.threads.size(),
                              [](const RuntimeCall &call) {
                                return call.durationNs >= kShortestNs / 2 &&
                                       !call.name.contains("Synchronize");
                              });
  ByThread<HostEvent> frames(trace.longFrames, trace.threads.size(),
                             [](const HostEvent &) { return true; });
  for (Interval gap : findIdle(profile)) {
    Best best;
    for (ThreadId thread = 0; thread < launches.size(); ++thread) {
      if (!launches[thread])
        continue;
      for (const HostEvent *frame : frames.until(thread, gap))
        if (best.isBetter(frame->startNs, frame->durationNs, gap,
                          Telling::Frame))
          best = {frame->name.str(), frame->startNs, frame->durationNs,
                  Telling::Frame};
      offerAll(host, thread, gap, best);
      // Calls of a thread follow one another.
      constexpr size_t kNear = 64;
      ArrayRef<const RuntimeCall *> near = calls.until(thread, gap);
      near = near.take_back(std::min(near.size(), kNear));
      for (const RuntimeCall *call : near)
        if (best.isBetter(call->startNs, call->durationNs, gap,
                          Telling::Call)) {
          uint32_t op = host.enclosing(thread, call->startNs);
          std::string name = call->name.str();
          if (uint32_t callee = host.calleeOf(op); callee != kNone)
            name += " in " + host.op(callee).name.str();
          best = {std::move(name), call->startNs, call->durationNs,
                  Telling::Call};
        }
    }
    if (!best.name.empty())
      profile.hostWork.push_back(
          {std::move(best.name), best.startNs, best.durationNs, gap});
  }
}
