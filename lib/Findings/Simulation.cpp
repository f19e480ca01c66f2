// Plays the calls of the host one after the other, and what they start on each
// stream of the device.

#include "Simulation.h"

#include "opprof/Support/Median.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

using namespace llvm;
using namespace opprof;
using namespace opprof::findings;
using namespace opprof::profile;

/// What lasts longer before a call is no part of it: the host does something
/// else.
static constexpr int64_t kLongestBeforeNs = 60'000;
/// A call of longer waits for something.
static constexpr int64_t kLongCallNs = 30'000;
/// What a call takes that waits no longer.
static constexpr int64_t kWithoutWaitNs = 5'000;
/// How much later than its call or the one before it a kernel begins at most
/// that waits for nothing else.
static constexpr int64_t kLongestLatencyNs = 30'000;

/// From a call to its start, where no kernel of the program tells.
static constexpr int64_t kUsualLatencyNs = 5'000;
/// By how much the steps as they are played may differ from the steps as they
/// were, of the latter: what is played otherwise is another program.
static constexpr double kLargestError = 0.1;

Simulation::Simulation(ArrayRef<const Activity *> kernels,
                       ArrayRef<const Activity *> copies,
                       ArrayRef<const Synchronization *> waits) {
  std::map<std::optional<int64_t>, size_t> numbers;
  auto add = [&](const Activity *activity) {
    if (!activity->launchStartNs || !activity->launchDurationNs)
      return;
    Work &one = work.emplace_back();
    one.activity = activity;
    one.stream =
        numbers.try_emplace(activity->stream, numbers.size()).first->second;
  };
  for (const Activity *kernel : kernels)
    add(kernel);
  for (const Activity *copy : copies)
    add(copy);
  streams = numbers.size();
  // Of few the rest can't be told.
  known = !work.empty() &&
          work.size() * 20 >= (kernels.size() + copies.size()) * 19;
  if (!known)
    return;
  llvm::stable_sort(work, [](const Work &a, const Work &b) {
    return std::pair(*a.activity->launchStartNs, a.activity->startNs) <
           std::pair(*b.activity->launchStartNs, b.activity->startNs);
  });

  for (size_t at = 0; at < work.size(); ++at) {
    const Activity &activity = *work[at].activity;
    if (!calls.empty() && calls.back().startNs == *activity.launchStartNs) {
      calls.back().last = at + 1;
      calls.back().recordingNs += activity.recordingBesideNs;
      continue;
    }
    Call &call = calls.emplace_back();
    call.startNs = *activity.launchStartNs;
    call.endNs = call.startNs + *activity.launchDurationNs;
    call.recordingNs = activity.recordingBesideNs;
    call.first = at;
    call.last = at + 1;
    call.of = &activity;
    call.isCopy = activity.kind == ActivityKind::Memcpy;
  }
  for (const Synchronization *wait : waits) {
    Call &call = calls.emplace_back();
    call.startNs = wait->startNs;
    call.endNs = wait->startNs + wait->durationNs;
    call.of = wait;
  }
  llvm::stable_sort(calls, [](const Call &a, const Call &b) {
    return a.startNs < b.startNs;
  });

  shareRecording();

  // By what ended when: what a call waits for, and a kernel on another stream.
  std::vector<size_t> byEnd(work.size());
  for (size_t at = 0; at < work.size(); ++at)
    byEnd[at] = at;
  llvm::sort(byEnd, [&](size_t a, size_t b) {
    return work[a].activity->endNs() < work[b].activity->endNs();
  });
  auto lastEndedBy = [&](int64_t time) -> std::optional<size_t> {
    auto it = llvm::partition_point(
        byEnd, [&](size_t at) { return work[at].activity->endNs() <= time; });
    if (it == byEnd.begin())
      return std::nullopt;
    return *std::prev(it);
  };
  std::vector<int64_t> latencies, ends(streams);
  for (Work &one : work) {
    int64_t start = one.activity->startNs,
            latency = start - *one.activity->launchStartNs;
    if (ends[one.stream] <= *one.activity->launchStartNs && latency > 0 &&
        latency < kLongestLatencyNs)
      latencies.push_back(latency);
    ends[one.stream] = std::max(ends[one.stream], one.activity->endNs());
  }
  usualNs =
      latencies.empty() ? kUsualLatencyNs : medianOf(std::move(latencies));
  llvm::fill(ends, 0);
  for (auto [at, one] : llvm::enumerate(work)) {
    int64_t start = one.activity->startNs;
    int64_t call = *one.activity->launchStartNs;
    one.latencyNs = std::clamp<int64_t>(start - call, 0, usualNs);
    // The host copies to where it does not move first.
    if (one.activity->kind == ActivityKind::Memcpy &&
        ends[one.stream] <= call &&
        start <= call + *one.activity->launchDurationNs)
      one.latencyNs = std::max<int64_t>(start - call, 0);
    int64_t ready = std::max(ends[one.stream], call + one.latencyNs);
    if (streams > 1 && start > ready + kLongestLatencyNs) {
      std::optional<size_t> before = lastEndedBy(start);
      if (before && *before < at && work[*before].stream != one.stream)
        one.after = before;
    }
    one.gapNs = one.after ? 0 : std::clamp<int64_t>(start - ready, 0, usualNs);
    ends[one.stream] = std::max(ends[one.stream], one.activity->endNs());
  }
  for (Call &call : calls) {
    // Others go on at once: a copy that is not waited for ends after its call,
    // and what ends meanwhile by chance is nothing that the call waits for.
    const bool isWait = call.first == call.last;
    if (!isWait && call.endNs - call.startNs < kLongCallNs &&
        !(call.isCopy && work[call.first].activity->endNs() <= call.endNs))
      continue;
    std::optional<size_t> before = lastEndedBy(call.endNs);
    if (before && work[*before].activity->endNs() > call.startNs &&
        *work[*before].activity->launchStartNs <= call.startNs)
      call.waitsFor = before;
  }
  findHeldUp();

  const int64_t asItWasNs = play(Times(), {}, /*isRecorded=*/true);
  int64_t last = 0;
  for (const Work &one : work)
    last = std::max(last, one.activity->endNs());
  for (const Call &call : calls)
    last = std::max(last, call.endNs);
  // From where nothing of before keeps the device busy any more.
  const Activity &first = *work.front().activity;
  int64_t began =
      std::max(calls.front().startNs, first.startNs - work.front().latencyNs);
  int64_t took = last - began;
  known = std::abs(double(asItWasNs - took)) <= kLargestError * double(took);
  unrecordedNs = play(Times(), {}, /*isRecorded=*/false);
}

/// What was recorded since the launch before lies before the waits between the
/// two as well: each has its share, by the host's time before it.
void Simulation::shareRecording() {
  SmallVector<std::pair<Call *, int64_t>> since;
  int64_t before = calls.front().startNs, total = 0;
  for (Call &call : calls) {
    int64_t between = std::max<int64_t>(call.startNs - before, 0);
    before = std::max(before, call.endNs);
    since.emplace_back(&call, between);
    total += between;
    if (call.first == call.last)
      continue;
    const double recorded = double(std::min(call.recordingNs, total));
    for (auto [one, own] : since)
      one->recordingNs =
          total ? int64_t(recorded * double(own) / double(total)) : 0;
    since.clear();
    total = 0;
  }
}

/// The system gives the processor to others now and then, and a machine that is
/// shared does so often. Calls of one operator at one line are alike, each with
/// those that have its place among them in other steps.
void Simulation::findHeldUp() {
  constexpr size_t kLeastAlike = 5;
  struct Alike {
    std::vector<Call *> calls;
    std::vector<int64_t> before, took;
  };
  using Like = std::tuple<const Origin *, uint32_t, uint32_t>;
  std::map<Like, Alike> alike;
  std::map<std::pair<const Origin *, uint32_t>, uint32_t> seen;
  std::optional<uint32_t> step;
  int64_t end = calls.front().startNs;
  for (Call &call : calls) {
    const int64_t before =
        std::max<int64_t>(call.startNs - end - call.recordingNs, 0);
    const int64_t took =
        std::max<int64_t>(call.endNs - std::max(call.startNs, end), 0);
    end = std::max(end, call.endNs);
    if (call.first == call.last)
      continue;
    const Activity &activity = *work[call.first].activity;
    if (activity.step != step) {
      step = activity.step;
      seen.clear();
    }
    const uint32_t op = activity.op.value_or(~uint32_t(0));
    Alike &own = alike[{activity.origin, op, seen[{activity.origin, op}]++}];
    own.calls.push_back(&call);
    own.before.push_back(before);
    own.took.push_back(took);
  }
  for (const auto &[like, own] : alike) {
    if (own.calls.size() < kLeastAlike)
      continue;
    const int64_t mostBefore = mostOfUsual(own.before);
    const int64_t most = mostOfUsual(own.took);
    for (size_t at = 0; at < own.calls.size(); ++at) {
      Call &call = *own.calls[at];
      call.heldUpBeforeNs = std::max<int64_t>(own.before[at] - mostBefore, 0);
      // What waits for the device is as long as that takes.
      if (!call.waitsFor)
        call.heldUpNs = std::max<int64_t>(own.took[at] - most, 0);
    }
  }
}

bool Simulation::waits(const Activity &activity) const {
  auto call = llvm::partition_point(calls, [&](const Call &one) {
    return one.startNs < *activity.launchStartNs;
  });
  return call != calls.end() && call->startNs == *activity.launchStartNs &&
         call->waitsFor;
}

int64_t Simulation::play(const Times &times, ArrayRef<const void *> free,
                         bool isRecorded) const {
  DenseSet<const void *> freed(free.begin(), free.end());
  std::vector<int64_t> ends(work.size()), ofStream(streams);
  auto timeOf = [&](const Work &one) {
    auto it = times.find(one.activity);
    return it == times.end() ? one.activity->durationNs : it->second;
  };
  int64_t host = 0, last = 0, before = calls.front().startNs;
  for (const Call &call : calls) {
    int64_t between = std::max<int64_t>(call.startNs - before, 0);
    int64_t took =
        std::max<int64_t>(call.endNs - std::max(call.startNs, before), 0);
    if (!isRecorded) {
      between = std::max<int64_t>(
          between - call.recordingNs - call.heldUpBeforeNs, 0);
      took -= call.heldUpNs;
    }
    before = std::max(before, call.endNs);
    bool isGone = call.first != call.last;
    for (size_t at = call.first; at < call.last; ++at)
      isGone &= timeOf(work[at]) == kGone;
    if (isGone) {
      host += std::max<int64_t>(between - kLongestBeforeNs, 0);
      // What waits for one of them waits for what is before it.
      for (size_t at = call.first; at < call.last; ++at)
        ends[at] = ofStream[work[at].stream];
      continue;
    }
    host += between;
    const bool isFreed = freed.contains(call.of);
    for (size_t at = call.first; at < call.last; ++at) {
      const Work &one = work[at];
      int64_t &end = ofStream[one.stream];
      int64_t time = timeOf(one);
      if (time == kGone) {
        ends[at] = end;
        continue;
      }
      int64_t latency =
          isFreed ? std::min(one.latencyNs, usualNs) : one.latencyNs;
      int64_t start = std::max(end, host + latency) + one.gapNs;
      if (one.after)
        start = std::max(start, ends[*one.after]);
      ends[at] = end = start + time;
      last = std::max(last, end);
    }
    int64_t quick = host + std::min(took, kWithoutWaitNs);
    // A copy from memory that may move holds up its call even where it waits
    // for nothing on the device.
    if (isFreed && (call.waitsFor || call.isCopy)) {
      host = quick;
      continue;
    }
    if (!call.waitsFor) {
      host += took;
      continue;
    }
    // What the call takes when that has ended.
    int64_t rest = call.endNs - work[*call.waitsFor].activity->endNs();
    host = std::max(quick, ends[*call.waitsFor] + std::min(rest, took));
  }
  return std::max(host, last);
}

int64_t Simulation::savedBy(const Times &times,
                            ArrayRef<const void *> free) const {
  return std::max<int64_t>(
      unrecordedNs - play(times, free, /*isRecorded=*/false), 0);
}
