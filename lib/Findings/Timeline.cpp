// Findings from when things ran. Where wall time goes, how busy the device is,
// small kernels, launches that only move data, synchronization, copies from and
// to the host and of biases, first steps that are slow, and launches whose time
// varies.

#include "FindingBuilder.h"

#include "opprof/Metrics/KernelFamilies.h"
#include "opprof/Support/Median.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <cmath>
#include <tuple>

using namespace llvm;
using namespace opprof;
using namespace opprof::findings;
using namespace opprof::profile;

/// Below this a kernel is small: launching one costs about as much.
static constexpr int64_t kSmallKernelNs = 10'000;
/// The longest gaps of a device, which findings name.
static constexpr size_t kNamedGaps = 5;

namespace {
/// What the host did while the device was idle.
struct IdleCauses {
  /// It was the profiler's own: flushing its buffers, loading code for itself.
  int64_t profiler = 0;
  int64_t waiting = 0;
  int64_t inCompiledCalls = 0;
  int64_t outside = 0;
};
} // namespace

/// When the host was held up by the profiler.
static std::vector<Interval> findOverheads(const Context &context) {
  std::vector<Interval> overheads;
  for (const ProfilerOverhead &overhead : context.profile.overheads)
    if (overhead.isProfilersOwn())
      overheads.push_back(
          {overhead.startNs, overhead.startNs + overhead.durationNs});
  return unite(std::move(overheads));
}

static IdleCauses splitIdle(const Context &context, ArrayRef<Interval> all) {
  IdleCauses causes;
  std::vector<Interval> overheads = findOverheads(context);
  causes.profiler = sumLengths(intersect(all, overheads));
  std::vector<Interval> idle = subtract(all, overheads);
  std::vector<Interval> waits;
  for (const Synchronization &wait : context.profile.synchronizations)
    waits.push_back({wait.startNs, wait.startNs + wait.durationNs});
  waits = unite(std::move(waits));
  std::vector<Interval> waiting = intersect(idle, waits);
  causes.waiting = sumLengths(waiting);
  std::vector<Interval> launching = intersect(idle, context.compiledCalls());
  causes.inCompiledCalls =
      sumLengths(launching) - sumLengths(intersect(launching, waiting));
  causes.outside = sumLengths(idle) - causes.waiting - causes.inCompiledCalls;
  return causes;
}

static void addWallTime(Context &context) {
  std::vector<Interval> idle = context.idle();
  IdleCauses causes = splitIdle(context, idle);
  evidence::WallTime time;
  time.wallNs = context.wall();
  time.kernelsNs = sumLengths(context.busy);
  std::vector<Interval> own;
  for (const Activity *kernel : context.kernels)
    own.push_back({kernel->startNs, kernel->endNs()});
  time.otherKernelsNs =
      sumLengths(subtract(context.busy, unite(std::move(own))));
  time.copiesOnlyNs = sumLengths(context.occupied) - time.kernelsNs;
  time.idleNs = sumLengths(idle);
  time.idleInCompiledCallsNs = causes.inCompiledCalls;
  time.idleHostWaitingNs = causes.waiting;
  time.idleOutsideNs = causes.outside;
  time.idleProfilerNs = causes.profiler;
  time.kernels = static_cast<int64_t>(context.kernels.size());
  time.steps = context.steps;
  context.add(time);
}

/// How much of one lies in the other; negative where they lie apart.
static int64_t overlapOf(Interval one, Interval other) {
  return std::min(one.second, other.second) - std::max(one.first, other.first);
}

/// What the host did for most of the gap: what was found of that time, of which
/// a longer thing round it tells less.
static void nameHost(const Context &context, Interval interval,
                     evidence::Gap &gap) {
  const HostWork *found = nullptr;
  int64_t most = 0;
  for (const HostWork &work : context.profile.hostWork)
    if (int64_t shared = overlapOf(work.idle, interval); shared > most) {
      most = shared;
      found = &work;
    }
  if (!found)
    return;
  int64_t covered =
      overlapOf({found->startNs, found->startNs + found->durationNs}, interval);
  if (2 * covered < gap.lengthNs)
    return;
  gap.host = found->name;
  gap.hostNs = covered;
}

namespace {
/// An idle time of a device, of which there may be as many as kernels: what a
/// finding says of one is worked out for those that it names.
struct IdleTime {
  Interval span;
  /// The kernel or copy that ends it, where one does.
  const Activity *end = nullptr;

  int64_t lengthNs() const { return span.second - span.first; }
  bool endsInKernel() const { return end && end->kind == ActivityKind::Kernel; }
  /// What of it had passed when the launch call of what ends it ended.
  std::optional<int64_t> hostLateNs() const {
    if (!end || !end->launchStartNs)
      return std::nullopt;
    if (!end->launchDurationNs)
      return 0;
    return std::clamp<int64_t>(*end->launchStartNs + *end->launchDurationNs -
                                   span.first,
                               0, lengthNs());
  }
};
} // namespace

static evidence::Gap describeGap(const Context &context, const IdleTime &idle) {
  evidence::Gap gap;
  gap.lengthNs = idle.lengthNs();
  nameHost(context, idle.span, gap);
  if (idle.endsInKernel())
    gap.kernel = context.placeOf(*idle.end);
  else if (idle.end)
    gap.copy = idle.end - context.profile.copies.data();
  gap.hostLateNs = idle.hostLateNs();
  return gap;
}

/// The longest, as many as findings name.
static std::vector<evidence::Gap> describeLongest(const Context &context,
                                                  ArrayRef<IdleTime> times) {
  std::vector<evidence::Gap> gaps;
  for (const IdleTime &idle : times.take_front(kNamedGaps))
    gaps.push_back(describeGap(context, idle));
  return gaps;
}

/// The idle times of a device, longest first.
static std::vector<IdleTime> findGaps(const Context &context, int64_t device,
                                      ArrayRef<Interval> idle) {
  std::vector<const Activity *> next;
  for (const std::vector<Activity> *list :
       {&context.profile.kernels, &context.profile.copies})
    for (const Activity &activity : *list)
      if (activity.device == device)
        next.push_back(&activity);
  llvm::stable_sort(next, [](const Activity *a, const Activity *b) {
    return a->startNs < b->startNs;
  });
  std::vector<IdleTime> times;
  times.reserve(idle.size());
  size_t position = 0;
  for (Interval interval : idle) {
    while (position < next.size() && next[position]->startNs < interval.second)
      ++position;
    bool ends =
        position < next.size() && next[position]->startNs == interval.second;
    times.push_back({interval, ends ? next[position] : nullptr});
  }
  llvm::sort(times, [](const IdleTime &a, const IdleTime &b) {
    return std::tuple(-a.lengthNs(), a.span.first) <
           std::tuple(-b.lengthNs(), b.span.first);
  });
  return times;
}

/// Idle time by what the host did, most first.
static std::vector<evidence::IdleIn> sumByHost(const Context &context,
                                               ArrayRef<IdleTime> times) {
  std::map<std::string, int64_t> sums;
  // It is known of the longest alone.
  std::vector<Interval> known;
  for (const HostWork &work : context.profile.hostWork)
    known.push_back(work.idle);
  known = unite(std::move(known));
  for (const IdleTime &idle : times) {
    auto next = llvm::lower_bound(
        known, idle.span.second,
        [](Interval one, int64_t end) { return one.first < end; });
    if (next == known.begin() || std::prev(next)->second <= idle.span.first)
      continue;
    evidence::Gap gap;
    gap.lengthNs = idle.lengthNs();
    nameHost(context, idle.span, gap);
    if (gap.hostNs)
      sums[gap.host] += *gap.hostNs;
  }
  std::vector<evidence::IdleIn> found;
  for (const auto &[host, time] : sums)
    found.push_back({host, time});
  llvm::stable_sort(found,
                    [](const evidence::IdleIn &a, const evidence::IdleIn &b) {
                      return a.idleNs > b.idleNs;
                    });
  found.resize(std::min<size_t>(found.size(), 5));
  return found;
}

/// Was the host late with the launches of the kernels that end gaps, or were
/// they queued already?
static void judgeHost(const Context &context, ArrayRef<IdleTime> times,
                      evidence::DeviceBusy &busy) {
  // Longer than this no launch takes: the host did something else.
  constexpr int64_t kLongestLaunchNs = 1'000'000;
  int64_t late = 0, known = 0, lateLaunching = 0;
  for (const IdleTime &idle : times) {
    if (!idle.endsInKernel() || !idle.hostLateNs() ||
        !idle.end->launchDurationNs)
      continue;
    late += *idle.hostLateNs();
    known += idle.lengthNs();
    if (idle.lengthNs() <= kLongestLaunchNs)
      lateLaunching += *idle.hostLateNs();
  }
  if (!known)
    return;
  busy.idleHostLateNs = late;
  busy.idleAfterLaunchNs = known - late;
  // Of all idle time, whatever ends it.
  busy.isLaunchBound =
      lateLaunching > busy.idleNs / 2 && busy.idleNs > context.wall() / 4;
}

/// What recorders estimate of how full the device was.
static void addEstimates(const Context &context, evidence::DeviceBusy &busy) {
  double residentTime = 0, occupancy = 0, occupancyTime = 0;
  bool haveBlocks = !context.kernels.empty();
  for (const Activity *kernel : context.kernels) {
    if (kernel->config->blocksPerSM)
      residentTime +=
          std::min(*kernel->config->blocksPerSM, 1.0) * kernel->durationNs;
    else
      haveBlocks = false;
    if (kernel->config->occupancyPct) {
      occupancy += *kernel->config->occupancyPct * kernel->durationNs;
      occupancyTime += kernel->durationNs;
    }
  }
  if (haveBlocks)
    busy.smEfficiencyPct = percentOf(residentTime, context.wall());
  if (occupancyTime > 0)
    busy.occupancyPct = std::round(10 * occupancy / occupancyTime) / 10;
}

/// How long kernels wait once they are launched: a queue, or none.
static void addDelays(const Context &context, evidence::DeviceBusy &busy) {
  std::vector<int64_t> delays;
  for (const Activity *kernel : context.kernels)
    if (kernel->launchStartNs && kernel->launchDurationNs && !kernel->cudaGraph)
      delays.push_back(kernel->startNs - *kernel->launchStartNs -
                       *kernel->launchDurationNs);
  if (delays.empty())
    return;
  busy.launchToStartShortestNs = *llvm::min_element(delays);
  busy.launchToStartMedianNs = medianOf(std::move(delays));
}

/// Each device that ran kernels, where several did.
static std::vector<evidence::BusyOfDevice>
compareBusy(const Context &context, ArrayRef<Interval> overheads) {
  std::vector<evidence::BusyOfDevice> devices;
  if (llvm::count_if(context.profile.devices, [](const Device &device) {
        return device.busyNs.has_value();
      }) < 2)
    return devices;
  for (const Device &device : context.profile.devices) {
    if (!device.busyNs)
      continue;
    std::vector<Interval> busy =
        runningTimes(context.profile.kernels, device.id, context.window);
    evidence::BusyOfDevice &found = devices.emplace_back();
    found.device = device.id;
    found.busyNs = sumLengths(busy);
    found.busyPct = percentOf(found.busyNs, context.wall());
    std::vector<Interval> idle =
        context.idleBeside(context.occupiedTimes(device.id, std::move(busy)));
    found.idleNs = sumLengths(idle);
    found.idleProfilerNs = sumLengths(intersect(idle, overheads));
    std::vector<IdleTime> gaps = findGaps(context, device.id, idle);
    found.gaps = gaps.size();
    found.largestGaps = describeLongest(context, gaps);
  }
  llvm::sort(devices,
             [](const auto &a, const auto &b) { return a.device < b.device; });
  return devices;
}

/// What idle time costs: what the steps would be shorter by if the work kept
/// all devices busy, which is the mean of their idle times.
static int64_t idleCost(const evidence::DeviceBusy &busy) {
  if (busy.devices.empty())
    return busy.idleNs - busy.idleProfilerNs;
  int64_t sum = 0;
  for (const evidence::BusyOfDevice &device : busy.devices)
    sum += device.idleNs - device.idleProfilerNs;
  return sum / static_cast<int64_t>(busy.devices.size());
}

static void addBusy(Context &context) {
  std::vector<Interval> idle = context.idle();
  std::vector<Interval> overheads = findOverheads(context);
  std::vector<IdleTime> gaps = findGaps(context, context.device->id, idle);
  evidence::DeviceBusy busy;
  busy.busyNs = sumLengths(context.busy);
  busy.busyPct = percentOf(busy.busyNs, context.wall());
  busy.kernelTimeNs = context.kernelTimeNs;
  busy.overlappedNs = context.kernelTimeNs - busy.busyNs;
  busy.idleNs = sumLengths(idle);
  busy.idleProfilerNs = sumLengths(intersect(idle, overheads));
  busy.gaps = gaps.size();
  judgeHost(context, gaps, busy);
  addEstimates(context, busy);
  addDelays(context, busy);
  busy.largestGaps = describeLongest(context, gaps);
  busy.idleIn = sumByHost(context, gaps);
  if (auto before = llvm::find_if(
          gaps, [](const IdleTime &idle) { return idle.endsInKernel(); });
      before != gaps.end())
    busy.largestBeforeKernel = describeGap(context, *before);

  busy.devices = compareBusy(context, overheads);
  std::vector<evidence::Gap> named = busy.largestGaps;
  for (const evidence::BusyOfDevice &device : busy.devices)
    if (device.device != context.device->id)
      llvm::append_range(named, device.largestGaps);

  int64_t cost = context.perStep(context.ownIdle(idleCost(busy)));
  Finding &finding = context.add(std::move(busy));
  finding.severityNsPerStep = cost;
  for (const evidence::Gap &gap : named)
    if (gap.kernel)
      addNodes(finding, context.profile.kernels[*gap.kernel].origin->nodes);
}

/// A longer gap before a small kernel has another cause than launching it: the
/// end of a step, the next batch.
static constexpr int64_t kLongestSmallGapNs = 10 * kSmallKernelNs;

/// How long the device was idle right before `kernel`, where that is no more
/// than launching takes.
static int64_t gapBefore(ArrayRef<Interval> idle, const Activity &kernel) {
  const Interval *gap = llvm::lower_bound(
      idle, kernel.startNs,
      [](const Interval &gap, int64_t start) { return gap.second < start; });
  if (gap == idle.end() || gap->second != kernel.startNs)
    return 0;
  int64_t length = gap->second - gap->first;
  return length <= kLongestSmallGapNs ? length : 0;
}

namespace {
/// Kernels that are small, each with the idle time before it, and what
/// launching them took.
struct SmallFound {
  std::vector<std::pair<int64_t, const Activity *>> kernels;
  uint64_t shorterThanLaunch = 0, withLaunch = 0;
  int64_t launchTime = 0;
};
} // namespace

/// Adds those of one device, whose `kernels` come in their order.
static evidence::SmallOfDevice measureSmall(int64_t device,
                                            ArrayRef<const Activity *> kernels,
                                            ArrayRef<Interval> idle,
                                            SmallFound &found) {
  evidence::SmallOfDevice small;
  small.device = device;
  small.kernels = kernels.size();
  bool wasSmall = false;
  for (const Activity *kernel : kernels) {
    // One call launches all kernels of a graph: none is shorter than its own.
    bool ownLaunch = kernel->launchDurationNs && !kernel->cudaGraph;
    found.withLaunch += ownLaunch;
    bool isShort = ownLaunch && kernel->durationNs < *kernel->launchDurationNs;
    found.shorterThanLaunch += isShort;
    if (kernel->durationNs >= kSmallKernelNs && !isShort) {
      wasSmall = false;
      continue;
    }
    ++small.small;
    small.smallNs += kernel->durationNs;
    // The time after a large kernel is no small one's.
    int64_t gap = wasSmall ? gapBefore(idle, *kernel) : 0;
    wasSmall = true;
    small.idleBeforeNs += gap;
    if (ownLaunch)
      found.launchTime += *kernel->launchDurationNs;
    found.kernels.push_back({gap, kernel});
  }
  return small;
}

static void addSmallKernels(Context &context) {
  evidence::SmallKernels small;
  small.thresholdNs = kSmallKernelNs;
  SmallFound found;
  int64_t kernelTime = 0;
  for (int64_t device : context.devicesWithKernels()) {
    std::vector<const Activity *> kernels = context.kernelsOn(device);
    for (const Activity *kernel : kernels)
      kernelTime += kernel->durationNs;
    const evidence::SmallOfDevice &own = small.devices.emplace_back(
        measureSmall(device, kernels, context.idleOf(device), found));
    small.small += own.small;
    small.kernels += own.kernels;
    small.smallNs += own.smallNs;
    small.idleBeforeNs += own.idleBeforeNs;
  }
  // In some steps only, it is none of their cost.
  if (int64_t(small.small) < context.steps)
    return;
  // Where nothing is idle between them, starting them costs nothing.
  if (small.idleBeforeNs <= 0)
    return;
  small.sharePct = percentOf(small.smallNs, kernelTime);
  if (found.withLaunch) {
    small.shorterThanLaunch = found.shorterThanLaunch;
    small.launchCallsNs = found.launchTime;
  }
  llvm::stable_sort(found.kernels, [](const auto &a, const auto &b) {
    return a.first > b.first;
  });
  if (found.kernels.front().first > 0)
    small.mostIdleBefore = context.placeOf(*found.kernels.front().second);
  // As of idle time: what the steps would be shorter by if the work kept all
  // devices busy.
  int64_t cost = context.perStep(
      context.ownIdle(small.idleBeforeNs / int64_t(small.devices.size())));
  if (small.devices.size() < 2)
    small.devices.clear();

  Finding &finding = context.add(std::move(small));
  finding.severityNsPerStep = cost;
  for (auto [gap, kernel] : ArrayRef(found.kernels).take_front(5))
    addNodes(finding, kernel->origin->nodes);
}

/// What the model knows of a launch that does no arithmetic. Sums can be a
/// reduction's whole work, so reductions are left alone.
static bool onlyMovesData(const LaunchRecord &launch) {
  using launch::LaunchCategory;
  if (launch.category == LaunchCategory::Copy)
    return true;
  return launch.flops == 0 && launch.category != LaunchCategory::Reduction &&
         launch.category != LaunchCategory::PersistentReduction &&
         launch.category != LaunchCategory::SplitScan &&
         launch.category != LaunchCategory::Collective;
}

static void addNoArithmetic(Context &context) {
  struct Sum {
    int64_t time = 0;
    const Activity *first = nullptr;
  };
  std::map<uint32_t, Sum> sums;
  evidence::NoArithmetic moves;
  auto add = [&](const Activity &activity) {
    if (!activity.launch ||
        !onlyMovesData(context.profile.launches[*activity.launch]))
      return;
    Sum &sum = sums[*activity.launch];
    sum.time += activity.durationNs;
    if (!sum.first)
      sum.first = &activity;
    moves.timeNs += activity.durationNs;
    ++moves.kernels;
  };
  for (const Activity *kernel : context.kernels)
    add(*kernel);
  for (const Activity *copy : context.copies)
    add(*copy);
  if (sums.empty())
    return;
  std::vector<std::pair<uint32_t, Sum>> ordered(sums.begin(), sums.end());
  llvm::stable_sort(ordered, [](const auto &a, const auto &b) {
    return a.second.time > b.second.time;
  });
  moves.launches = ordered.size();
  moves.sharePct = percentOf(moves.timeNs, context.kernelTimeNs);
  for (auto &[index, sum] : ordered) {
    const LaunchRecord &launch = context.profile.launches[index];
    moves.bytes +=
        launch.bytesRead.value_or(0) + launch.bytesWritten.value_or(0);
  }
  for (auto &[index, sum] : ArrayRef(ordered).take_front(10))
    moves.largest.push_back({index, sum.time});

  int64_t cost = context.perStep(moves.timeNs);
  Finding &finding = context.add(std::move(moves));
  finding.severityNsPerStep = cost;
  for (auto &[index, sum] : ArrayRef(ordered).take_front(5))
    addNodes(finding, sum.first->origin->nodes);
}

/// When the device is idle because the host waits: what it runs next had not
/// been launched when the wait began.
static std::vector<Interval> idleThroughWaits(const Context &context,
                                              ArrayRef<Interval> waits) {
  std::map<int64_t, int64_t> launched;
  for (const std::vector<const Activity *> *list :
       {&context.kernels, &context.copies})
    for (const Activity *activity : *list)
      if (activity->launchStartNs) {
        auto [it, isNew] =
            launched.try_emplace(activity->startNs, *activity->launchStartNs);
        it->second = std::min(it->second, *activity->launchStartNs);
      }
  std::vector<Interval> idle;
  for (Interval gap : context.idle()) {
    auto next = launched.find(gap.second);
    if (next == launched.end()) {
      idle.push_back(gap);
      continue;
    }
    // Of the gap, what lies after the launch of its end is no wait's.
    const Interval *first = llvm::upper_bound(
        waits, gap.first,
        [](int64_t at, const Interval &wait) { return at < wait.second; });
    for (; first != waits.end() && first->first < gap.second; ++first)
      if (first->first < next->second)
        idle.push_back({std::max(gap.first, first->first),
                        std::min(gap.second, first->second)});
  }
  return intersect(idle, waits);
}

static void addSynchronization(Context &context) {
  if (context.isCPU)
    return;
  std::vector<Interval> waits;
  evidence::Synchronizations found;
  for (const Synchronization &wait : context.profile.synchronizations) {
    int64_t end = wait.startNs + wait.durationNs;
    if (end <= context.window.first || wait.startNs >= context.window.second)
      continue;
    waits.push_back({wait.startNs, end});
    ++found.calls[wait.name];
  }
  if (waits.empty())
    return;
  waits = unite(std::move(waits));
  found.hostWaitsNs = sumLengths(intersect({context.window}, waits));
  found.deviceIdleNs = sumLengths(idleThroughWaits(context, waits));
  int64_t cost = context.perStep(found.deviceIdleNs);
  context.add(std::move(found)).severityNsPerStep = cost;
}

/// Where the device has work meanwhile, lookups cost nothing.
static void addCacheLookups(Context &context) {
  std::vector<Interval> lookups;
  evidence::CacheLookups found;
  for (const CacheLookup &lookup : context.profile.cacheLookups) {
    Interval span = {lookup.startNs, lookup.startNs + lookup.durationNs};
    if (span.first < context.window.first ||
        span.second > context.window.second)
      continue;
    lookups.push_back(span);
    ++found.lookups;
    found.longestNs = std::max(found.longestNs, lookup.durationNs);
  }
  // One function may call another that was compiled by itself.
  lookups = subtract(unite(std::move(lookups)), context.between);
  found.timeNs = sumLengths(lookups);
  found.deviceIdleNs = sumLengths(intersect(context.idle(), lookups));
  constexpr double kWorthIt = 0.01;
  if (double(found.deviceIdleNs) < kWorthIt * double(context.wall()))
    return;
  found.sharePct = percentOf(found.timeNs, context.wall());
  int64_t cost = context.perStep(found.deviceIdleNs);
  context.add(std::move(found)).severityNsPerStep = cost;
}

/// Whether it copies from the host or to it: NVIDIA's recorders write the one,
/// AMD's the other.
static bool isOfHost(const Activity &copy) {
  return copy.kind == ActivityKind::Memcpy &&
         llvm::any_of(ArrayRef<StringRef>{"HtoD", "DtoH", "HostToDevice",
                                          "DeviceToHost"},
                      [&](StringRef part) { return copy.name.contains(part); });
}

/// How much of an activity lies in sorted, disjoint times.
static int64_t overlapWith(ArrayRef<Interval> times, const Activity &activity) {
  int64_t sum = 0;
  const Interval *time = llvm::upper_bound(
      times, activity.startNs, [](int64_t at, const Interval &interval) {
        return at < interval.second;
      });
  for (; time != times.end() && time->first < activity.endNs(); ++time)
    sum += overlapOf(*time, {activity.startNs, activity.endNs()});
  return sum;
}

static void addHostCopies(Context &context) {
  evidence::HostCopies found;
  const Activity *longest = nullptr;
  std::map<int64_t, evidence::CopiesOfDevice> devices;
  std::map<int64_t, std::vector<Interval>> busy;
  for (int64_t device : context.devicesWithKernels()) {
    devices[device].device = device;
    busy[device] =
        runningTimes(context.profile.kernels, device, context.window);
  }
  for (const Activity &copy : context.profile.copies) {
    if (!isOfHost(copy) || !context.isInSteps(copy))
      continue;
    evidence::CopiesOfDevice &own = devices[copy.device];
    own.device = copy.device;
    ++own.copies;
    own.bytes += copy.bytes.value_or(0);
    own.timeNs += copy.durationNs;
    found.hiddenNs += overlapWith(busy[copy.device], copy);
    found.isPageable |= copy.name.contains("Pageable");
    found.pages += isOfPages(copy.name);
    if (!longest || copy.durationNs > longest->durationNs)
      longest = &copy;
  }
  if (!longest)
    return;
  for (const auto &[device, own] : devices) {
    found.copies += own.copies;
    found.bytes += own.bytes;
    found.timeNs += own.timeNs;
    if (devices.size() > 1)
      found.devices.push_back(own);
  }
  found.longest = longest - context.profile.copies.data();
  // Devices copy beside one another: the steps have the mean of it. What
  // kernels hide costs nothing.
  int64_t cost = context.perStep((found.timeNs - found.hiddenNs) /
                                 int64_t(devices.size()));
  Finding &finding = context.add(std::move(found));
  finding.severityNsPerStep = cost;
  addNodes(finding, longest->origin->nodes);
}

/// Whether a kernel multiplies matrices and adds to what is there already.
static bool addsToBias(const Context &context, const Activity &kernel) {
  StringRef callee = kernel.origin->hostOp;
  if (kernel.launch)
    callee = context.profile.launches[*kernel.launch].kernel;
  return callee.ends_with("addmm") || callee.ends_with("baddbmm");
}

/// Copies on the device that a product with a bias follows at once on their
/// stream: the library has no epilogue for that bias.
static void addBiasCopies(Context &context) {
  std::vector<const Activity *> copies;
  for (const Activity *copy : context.copies)
    if (copy->kind == ActivityKind::Memcpy &&
        (copy->name.contains("DtoD") || copy->name.contains("DeviceToDevice")))
      copies.push_back(copy);
  // From the last to the first, so that what follows on each stream is known.
  llvm::stable_sort(copies, [](const Activity *a, const Activity *b) {
    return a->endNs() > b->endNs();
  });
  std::map<std::optional<int64_t>, const Activity *> following;
  size_t left = context.kernels.size();
  evidence::BiasCopies found;
  const Activity *longest = nullptr;
  for (const Activity *copy : copies) {
    for (; left && context.kernels[left - 1]->startNs >= copy->endNs(); --left)
      following[context.kernels[left - 1]->stream] = context.kernels[left - 1];
    auto next = following.find(copy->stream);
    if (next == following.end() || !addsToBias(context, *next->second))
      continue;
    ++found.copies;
    found.bytes += copy->bytes.value_or(0);
    found.timeNs += copy->durationNs;
    if (!longest || copy->durationNs > longest->durationNs) {
      longest = copy;
      found.product = context.placeOf(*next->second);
    }
  }
  if (!longest)
    return;
  Finding &finding = context.add(found);
  finding.severityNsPerStep = context.perStep(found.timeNs);
  addNodes(finding, context.profile.kernels[*found.product].origin->nodes);
}

/// Whether launch `later` has to wait for `earlier`, or for one that has to:
/// launches come in the order in which they are called.
static bool needs(const Profile &profile, uint32_t later, uint32_t earlier) {
  SmallVector<uint32_t> left{later};
  DenseSet<uint32_t> seen;
  while (!left.empty()) {
    uint32_t place = left.pop_back_val();
    if (place == earlier)
      return true;
    if (profile.launches[place].isBarrier)
      return true;
    for (uint32_t before : profile.launches[place].after)
      if (before >= earlier && seen.insert(before).second)
        left.push_back(before);
  }
  // What lies between may do so unseen.
  for (uint32_t place = earlier; place < later; ++place)
    if (profile.launches[place].isBarrier)
      return true;
  return false;
}

namespace {
/// Kernels that follow one another on a stream and could run at one time.
struct Group {
  SmallVector<const Activity *> kernels;
  double blocksPerSM = 0;

  int64_t timeNs() const {
    int64_t sum = 0;
    for (const Activity *kernel : kernels)
      sum += kernel->durationNs;
    return sum;
  }
  int64_t savedNs() const {
    int64_t longest = 0;
    for (const Activity *kernel : kernels)
      longest = std::max(longest, kernel->durationNs);
    return timeNs() - longest;
  }
  /// Whether the kernel needs nothing of them, nor they of it, and there is
  /// room beside them.
  bool takes(const Profile &profile, const Activity &kernel) const {
    if (!kernel.launch || profile.launches[*kernel.launch].isBarrier ||
        !kernel.config->blocksPerSM)
      return false;
    if (kernels.empty())
      return *kernel.config->blocksPerSM < 1;
    const LaunchRecord &launch = profile.launches[*kernel.launch];
    return blocksPerSM + *kernel.config->blocksPerSM <= 1 &&
           kernels.back()->step == kernel.step &&
           llvm::all_of(kernels, [&](const Activity *other) {
             return *other->launch < *kernel.launch &&
                    profile.launches[*other->launch].compiledGraph ==
                        launch.compiledGraph &&
                    !needs(profile, *kernel.launch, *other->launch);
           });
  }
  void add(const Activity &kernel) {
    kernels.push_back(&kernel);
    blocksPerSM += *kernel.config->blocksPerSM;
  }
};
} // namespace

static void addSerializedWork(Context &context) {
  if (context.isCPU || context.profile.launches.empty())
    return;
  evidence::SerializedWork found;
  auto close = [&](Group &group) {
    if (int64_t saved = group.savedNs(); group.kernels.size() > 1 && saved) {
      ++found.groups;
      found.kernels += group.kernels.size();
      found.timeNs += group.timeNs();
      found.savedNs += saved;
      if (saved > found.largestSavedNs) {
        found.largestSavedNs = saved;
        found.largestKernels = group.kernels.size();
        found.first = context.placeOf(*group.kernels.front());
        found.last = context.placeOf(*group.kernels.back());
      }
    }
    group = Group();
  };
  std::map<std::optional<int64_t>, Group> streams;
  for (const Activity *kernel : context.kernels) {
    Group &group = streams[kernel->stream];
    if (!group.takes(context.profile, *kernel))
      close(group);
    if (group.takes(context.profile, *kernel))
      group.add(*kernel);
  }
  for (auto &[stream, group] : streams)
    close(group);
  // In some steps only, or of nothing that would be seen.
  constexpr double kWorthIt = 0.01;
  if (int64_t(found.groups) < context.steps ||
      double(found.savedNs) < kWorthIt * double(context.kernelTimeNs))
    return;
  int64_t cost = context.perStep(found.savedNs);
  uint32_t first = *found.first, last = *found.last;
  Finding &finding = context.add(std::move(found));
  finding.severityNsPerStep = cost;
  for (uint32_t place : {first, last})
    addNodes(finding, context.profile.kernels[place].origin->nodes);
}

bool Context::isCollective(const Activity &kernel) const {
  auto [it, isNew] = collectives.try_emplace(kernel.name.data());
  if (isNew)
    it->second = metrics::isCollective(kernel.name);
  return it->second;
}

/// The collectives among kernels of one device, by name and in their order.
using Collectives = std::map<StringRef, std::vector<const Activity *>>;

static Collectives findCollectives(const Context &context,
                                   ArrayRef<const Activity *> kernels) {
  Collectives found;
  for (const Activity *kernel : kernels)
    if (context.isCollective(*kernel))
      found[kernel->name].push_back(kernel);
  return found;
}

/// Time in collectives, and how much of it nothing else covered.
static evidence::DeviceTalk measureTalk(const Context &context, int64_t device,
                                        ArrayRef<const Activity *> kernels) {
  evidence::DeviceTalk found;
  found.device = device;
  std::vector<Interval> talk, work;
  for (const Activity *kernel : kernels) {
    bool talks = context.isCollective(*kernel);
    (talks ? talk : work).push_back({kernel->startNs, kernel->endNs()});
    found.collectives += talks;
  }
  talk = unite(std::move(talk));
  found.timeNs = sumLengths(talk);
  found.exposedNs = sumLengths(subtract(talk, unite(std::move(work))));
  return found;
}

/// Adds what each device waits for the last one. The n-th collective of a name
/// on one is the n-th on each other, if there are as many and all of them run
/// at one time.
static void addWaits(std::vector<evidence::DeviceTalk> &devices,
                     ArrayRef<Collectives> collectives) {
  for (const auto &[name, first] : collectives.front()) {
    if (!llvm::all_of(collectives, [&](const Collectives &other) {
          auto it = other.find(name);
          return it != other.end() && it->second.size() == first.size();
        }))
      continue;
    for (size_t at = 0; at < first.size(); ++at) {
      int64_t lastStart = first[at]->startNs, firstEnd = first[at]->endNs();
      for (const Collectives &other : collectives) {
        const Activity &same = *other.at(name)[at];
        lastStart = std::max(lastStart, same.startNs);
        firstEnd = std::min(firstEnd, same.endNs());
      }
      if (lastStart >= firstEnd)
        continue;
      for (auto [device, own] : llvm::zip_equal(devices, collectives))
        device.waitedNs += lastStart - own.at(name)[at]->startNs;
    }
  }
}

/// The collectives of each device, where several ran any.
static std::vector<evidence::DeviceTalk> compareTalk(const Context &context) {
  std::vector<evidence::DeviceTalk> devices;
  std::vector<Collectives> collectives;
  for (const Device &device : context.profile.devices) {
    std::vector<const Activity *> kernels = context.kernelsOn(device.id);
    Collectives own = findCollectives(context, kernels);
    if (own.empty())
      continue;
    devices.push_back(measureTalk(context, device.id, kernels));
    collectives.push_back(std::move(own));
  }
  if (devices.size() < 2)
    return {};
  addWaits(devices, collectives);
  llvm::sort(devices,
             [](const auto &a, const auto &b) { return a.device < b.device; });
  return devices;
}

static void addCommunication(Context &context) {
  evidence::Communication found;
  const Activity *longest = nullptr;
  for (const Activity *kernel : context.kernels)
    if (context.isCollective(*kernel) &&
        (!longest || kernel->durationNs > longest->durationNs))
      longest = kernel;
  if (!longest)
    return;
  evidence::DeviceTalk own =
      measureTalk(context, context.device->id, context.kernels);
  found.collectives = own.collectives;
  found.timeNs = own.timeNs;
  found.exposedNs = own.exposedNs;
  found.devices = compareTalk(context);
  found.longestNs = longest->durationNs;
  found.longestName = longest->name;
  found.longest = context.placeOf(*longest);
  for (const Source &source : context.profile.sources)
    if (source.rank)
      found.rank = source.rank;
  int64_t cost = context.perStep(found.exposedNs);
  Finding &finding = context.add(std::move(found));
  finding.severityNsPerStep = cost;
  addNodes(finding, longest->origin->nodes);
}

static void addColdStart(Context &context) {
  evidence::ColdStart cold;
  int64_t coldTime = 0, steadyTime = 0, steadySteps = 0;
  for (const Step &step : context.profile.steps) {
    bool isSteady = step.phase == Phase::Steady;
    (isSteady ? steadyTime : coldTime) += step.endNs - step.startNs;
    ++(isSteady ? steadySteps : cold.warmUpSteps);
  }
  if (!cold.warmUpSteps || !steadySteps)
    return;
  cold.warmUpStepNs = coldTime / cold.warmUpSteps;
  cold.steadyStepNs = steadyTime / steadySteps;
  context.add(cold);
}

static void addVariation(Context &context) {
  // Spread means little of a few runs, or of what takes no time.
  constexpr size_t kFewestRuns = 5;
  std::map<uint32_t, std::map<StringRef, std::vector<int64_t>>> runs;
  for (const Activity *kernel : context.kernels)
    if (kernel->launch)
      runs[*kernel->launch][kernel->name].push_back(kernel->durationNs);
  evidence::Variation found;
  int64_t most = 0;
  for (auto &[launch, byName] : runs)
    for (auto &[name, durations] : byName) {
      if (durations.size() < kFewestRuns)
        continue;
      int64_t median = medianOf(durations);
      int64_t excess = 0;
      for (int64_t duration : durations)
        if (duration > median + median / 2)
          excess += duration - median;
      if (!excess)
        continue;
      found.excessNs += excess;
      ++found.launches;
      if (excess > most) {
        most = excess;
        found.worst = {launch, median, *llvm::max_element(durations),
                       durations.size()};
      }
    }
  if (!found.launches || found.excessNs < context.kernelTimeNs / 100)
    return;
  Finding &finding = context.add(found);
  finding.severityNsPerStep = context.perStep(found.excessNs);
  finding.nodes = context.profile.launches[found.worst.launch].nodes;
}

void findings::addTimelineFindings(Context &context) {
  addWallTime(context);
  addBusy(context);
  addSmallKernels(context);
  addNoArithmetic(context);
  addSynchronization(context);
  addCacheLookups(context);
  addHostCopies(context);
  addBiasCopies(context);
  addSerializedWork(context);
  addCommunication(context);
  addColdStart(context);
  addVariation(context);
}
