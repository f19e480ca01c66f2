// What the steps of a program on the host take where nothing else has the
// processor, and without their recording. A machine that is shared makes steps
// several times longer, and a share of these says nothing of the program.

#include "UndisturbedSteps.h"

#include "HostCosts.h"

#include "opprof/Support/Intervals.h"
#include "opprof/Support/Median.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>

using namespace llvm;
using namespace opprof;
using namespace opprof::join;
using namespace opprof::profile;
using namespace opprof::trace;

/// What is usual needs some of its like.
static constexpr int64_t kLeastSteps = 5;

/// What is near to it is undisturbed, in percent.
static constexpr int64_t kNearPct = 85;

/// Of several threads that run at once no time is one operator's alone, in
/// percent of all operators.
static constexpr size_t kMostOthersPct = 10;

/// What the host did besides that has its own cost and need not recur, sorted
/// and disjoint. Ranges in which operators ran say nothing of what lies between
/// these; one without any is the program's, such as of writing a checkpoint.
static std::vector<Interval> ownTimes(const Trace &trace,
                                      const Profile &profile) {
  std::vector<int64_t> starts;
  for (const std::vector<Activity> *list : {&profile.kernels, &profile.copies})
    for (const Activity &activity : *list)
      starts.push_back(activity.startNs);
  llvm::sort(starts);
  std::vector<Interval> times;
  for (const HostOp &op : trace.hostOps) {
    if (!op.annotation || op.open)
      continue;
    const auto first = llvm::lower_bound(starts, op.startNs);
    if (first == starts.end() || *first >= op.endNs() ||
        op.name.starts_with("enumerate(DataLoader)"))
      times.push_back({op.startNs, op.endNs()});
  }
  for (const HostEvent &event : trace.hostEvents)
    // A wait for work is as long as others take to have some.
    if (event.name != kWorkWaitEvent)
      times.push_back({event.startNs, event.startNs + event.durationNs});
  return unite(std::move(times));
}

/// How much of `window` lies in `times`.
static int64_t lengthIn(ArrayRef<Interval> times, Interval window) {
  const auto *from = llvm::partition_point(
      times, [&](const Interval &one) { return one.second <= window.first; });
  const auto *to =
      std::partition_point(from, times.end(), [&](const Interval &one) {
        return one.first < window.second;
      });
  return window.second - window.first -
         sumLengths(gapsIn(window, ArrayRef(from, to)));
}

namespace {
/// What tells operators of a step from one another: line, module and operator,
/// and which of such it is. Null is what comes before the first.
using Like = std::tuple<const Origin *, uint32_t, uint32_t>;

/// Times of what is alike, and what of them is the program's own.
class UsualTimes {
public:
  /// Of a time without its recording, what is the program's in any case.
  void add(const Like &like, int64_t timeNs, int64_t knownNs) {
    knownNs = std::min(knownNs, timeNs);
    known += knownNs;
    all += timeNs;
    times[like].push_back(timeNs - knownNs);
  }
  int64_t allNs() const { return all; }
  int64_t usualNs() const {
    int64_t sum = known;
    for (const auto &[like, list] : times) {
      const int64_t longest = mostOfUsual(list);
      for (int64_t time : list)
        sum += std::min(time, longest);
    }
    return sum;
  }

private:
  std::map<Like, std::vector<int64_t>> times;
  int64_t known = 0, all = 0;
};
} // namespace

void join::addUndisturbedTime(const Trace &trace, Profile &profile) {
  if (countSteadySteps(profile) < kLeastSteps)
    return;
  std::vector<std::vector<const Activity *>> ofSteps(profile.steps.size());
  std::map<std::optional<int64_t>, size_t> ofStreams;
  size_t all = 0;
  for (const std::vector<Activity> *list : {&profile.kernels, &profile.copies})
    for (const Activity &activity : *list)
      if (activity.step && activity.phase == Phase::Steady) {
        ofSteps[*activity.step].push_back(&activity);
        ++ofStreams[activity.stream];
        ++all;
      }
  size_t most = 0;
  for (const auto &[stream, count] : ofStreams)
    most = std::max(most, count);
  if (100 * (all - most) > kMostOthersPct * all)
    return;
  const std::vector<Interval> own = ownTimes(trace, profile);
  // A gap is far shorter than its operator, which would hide what held it up.
  UsualTimes spans, gaps;
  for (const Step &step : profile.steps) {
    if (step.phase != Phase::Steady)
      continue;
    std::vector<const Activity *> &ran = ofSteps[step.index];
    llvm::stable_sort(ran, [](const Activity *a, const Activity *b) {
      return a->startNs < b->startNs;
    });
    std::map<std::pair<const Origin *, uint32_t>, uint32_t> seen;
    // Each lasts until the next begins, so that a step is the sum of all.
    auto add = [&](UsualTimes &times, const Like &like, int64_t from,
                   int64_t to, int64_t recordingNs) {
      if (from < to)
        times.add(like, std::max<int64_t>(to - from - recordingNs, 0),
                  lengthIn(own, {from, to}));
    };
    const int64_t begin = ran.empty() ? step.endNs : ran.front()->startNs;
    for (UsualTimes *times : {&spans, &gaps})
      add(*times, {nullptr, 0, 0}, step.startNs, begin, 0);
    int64_t end = begin;
    for (size_t at = 0; at < ran.size(); ++at) {
      const Activity &activity = *ran[at];
      const uint32_t op = activity.op.value_or(~uint32_t(0));
      const Like like = {activity.origin, op, seen[{activity.origin, op}]++};
      const int64_t next =
          at + 1 < ran.size() ? ran[at + 1]->startNs : step.endNs;
      end = std::max(end, activity.endNs());
      add(spans, like, activity.startNs, next,
          int64_t(activity.recordingNs) + activity.recordingBesideNs);
      add(gaps, like, end, next, activity.recordingBesideNs);
    }
  }
  const int64_t usualNs = spans.usualNs();
  const bool isUndisturbed = 100 * usualNs >= kNearPct * spans.allNs();
  profile.summary.undisturbedNs = isUndisturbed ? spans.allNs() : usualNs;
  profile.summary.undisturbedIdleNs =
      isUndisturbed ? gaps.allNs() : gaps.usualNs();
}
