// What the steps of a program on the host take where nothing else has the
// processor, and without their recording. A machine that is shared makes steps
// several times longer, and a share of these says nothing of the program.

#include "UndisturbedSteps.h"

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
/// and disjoint.
static std::vector<Interval> ownTimes(const Trace &trace) {
  std::vector<Interval> times;
  for (const HostOp &op : trace.hostOps)
    if (op.annotation && op.name.starts_with("enumerate(DataLoader)"))
      times.push_back({op.startNs, op.endNs()});
  for (const HostEvent &event : trace.hostEvents)
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
  const std::vector<Interval> own = ownTimes(trace);
  std::map<Like, std::vector<int64_t>> times;
  int64_t undisturbed = 0, recorded = 0;
  for (const Step &step : profile.steps) {
    if (step.phase != Phase::Steady)
      continue;
    std::vector<const Activity *> &ran = ofSteps[step.index];
    llvm::stable_sort(ran, [](const Activity *a, const Activity *b) {
      return a->startNs < b->startNs;
    });
    std::map<std::pair<const Origin *, uint32_t>, uint32_t> seen;
    // Each lasts until the next begins, so that a step is the sum of all.
    auto add = [&](const Like &like, int64_t from, int64_t to,
                   int64_t recordingNs) {
      if (from >= to)
        return;
      const int64_t ofOthers = lengthIn(own, {from, to});
      undisturbed += ofOthers;
      recorded += to - from - recordingNs;
      times[like].push_back(
          std::max<int64_t>(to - from - ofOthers - recordingNs, 0));
    };
    add({nullptr, 0, 0}, step.startNs,
        ran.empty() ? step.endNs : ran.front()->startNs, 0);
    for (size_t at = 0; at < ran.size(); ++at) {
      const Activity &activity = *ran[at];
      const uint32_t op = activity.op.value_or(~uint32_t(0));
      add({activity.origin, op, seen[{activity.origin, op}]++},
          activity.startNs,
          at + 1 < ran.size() ? ran[at + 1]->startNs : step.endNs,
          int64_t(activity.recordingNs) + activity.recordingBesideNs);
    }
  }
  for (const auto &[like, list] : times) {
    const int64_t longest = mostOfUsual(list);
    for (int64_t time : list)
      undisturbed += std::min(time, longest);
  }
  profile.summary.undisturbedNs =
      100 * undisturbed >= kNearPct * recorded ? recorded : undisturbed;
}
