//===- Timeline.cpp - Findings from when things ran -----------------------===//
//
// Where wall time goes, how busy the device is, small kernels, launches that
// only move data, synchronization, copies from and to the host, first steps
// that are slow, and launches whose time varies.
//
//===----------------------------------------------------------------------===//

#include "FindingBuilder.h"

#include "opprof/Analysis/Cost/CostModel.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::findings;
using namespace opprof::profile;

/// Below this a kernel is small: launching one costs about as much.
static constexpr int64_t smallKernelNs = 10'000;

static void addNodes(Finding &finding, const Activity &kernel) {
  for (uint32_t node : kernel.nodes)
    if (!llvm::is_contained(finding.nodes, node))
      finding.nodes.push_back(node);
}

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
    overheads.push_back(
        {overhead.startNs, overhead.startNs + overhead.durationNs});
  return unite(std::move(overheads));
}

static IdleCauses splitIdle(const Context &context, ArrayRef<Interval> all) {
  IdleCauses causes;
  std::vector<Interval> overheads = findOverheads(context);
  causes.profiler = sumLengths(intersect(all, overheads));
  std::vector<Interval> idle = subtract(all, overheads);
  std::vector<Interval> waits, calls;
  for (const Synchronization &wait : context.profile.synchronizations)
    waits.push_back({wait.startNs, wait.startNs + wait.durationNs});
  for (const CompiledCall &call : context.profile.calls)
    calls.push_back({call.startNs, call.startNs + call.durationNs});
  waits = unite(std::move(waits));
  calls = unite(std::move(calls));
  std::vector<Interval> waiting = intersect(idle, waits);
  causes.waiting = sumLengths(waiting);
  std::vector<Interval> launching = intersect(idle, calls);
  causes.inCompiledCalls =
      sumLengths(launching) - sumLengths(intersect(launching, waiting));
  causes.outside = sumLengths(idle) - causes.waiting - causes.inCompiledCalls;
  return causes;
}

static void addWallTime(Context &context) {
  int64_t busy = sumLengths(context.busy);
  int64_t copying = sumLengths(context.occupied) - busy;
  std::vector<Interval> idle = context.idle();
  IdleCauses causes = splitIdle(context, idle);
  int64_t wall = context.wall();

  Finding &finding = context.add("wall-time");
  finding.evidence = json::Object{
      {"wall_ns_per_step", context.perStep(wall)},
      {"kernels_ns_per_step", context.perStep(busy)},
      {"copies_only_ns_per_step", context.perStep(copying)},
      {"idle_ns_per_step", context.perStep(sumLengths(idle))},
      {"idle_in_compiled_calls_ns_per_step",
       context.perStep(causes.inCompiledCalls)},
      {"idle_host_waiting_ns_per_step", context.perStep(causes.waiting)},
      {"idle_outside_ns_per_step", context.perStep(causes.outside)},
      {"idle_profiler_ns_per_step", context.perStep(causes.profiler)},
      {"kernels_per_step", context.perStep(int64_t(context.kernels.size()))},
      {"steps", context.steps},
  };
  std::string text = formatv(
      "Of {0} {1}, {2} {3} {4} ({5}); ", formatTime(context.perStep(wall)),
      context.hasSteps
          ? "that a step takes"
          : "of " + context.span() +
                (context.isCPU ? ", from its first operator to its last"
                               : ", from the device's first event to its last"),
      formatCount(context.kernels.size() / context.steps,
                  context.isCPU ? "operator" : "kernel",
                  context.isCPU ? "operators" : "kernels"),
      context.isCPU ? "compute for" : "keep the device busy for",
      formatTime(context.perStep(busy)), formatPercent(busy, wall));
  if (copying)
    text += formatv("copies add {0}; ", formatTime(context.perStep(copying)));
  bool compiled = !context.profile.calls.empty();
  if (context.isCPU && !compiled)
    text += formatv("the other {0} ({1}) lie outside of operators.",
                    formatTime(context.perStep(causes.outside)),
                    formatPercent(causes.outside, wall));
  else if (context.isCPU)
    text +=
        formatv("{0} ({1}) are the generated program's own and {2} ({3}) "
                "lie outside it.",
                formatTime(context.perStep(causes.inCompiledCalls)),
                formatPercent(causes.inCompiledCalls, wall),
                formatTime(context.perStep(causes.outside + causes.waiting)),
                formatPercent(causes.outside + causes.waiting, wall));
  else
    text += formatv(
        "the device idles {0}{1} while {2} for the device, and {3} while it "
        "does something else.",
        compiled ? formatTime(context.perStep(causes.inCompiledCalls)) +
                       " while the host runs compiled code, "
                 : std::string(),
        formatTime(context.perStep(causes.waiting)),
        compiled ? "it waits" : "the host waits",
        formatTime(context.perStep(causes.outside)));
  if (causes.profiler)
    text += formatv(" Another {0} idle was the profiler's own.",
                    formatTime(context.perStep(causes.profiler)));
  finding.text = text;
}

static void addBusy(Context &context) {
  int64_t busy = sumLengths(context.busy);
  int64_t wall = context.wall();
  std::vector<Interval> idle = context.idle();
  int64_t idleTime = sumLengths(idle);

  // Before each gap's next kernel: was the host late with its launch, or was
  // it queued already?
  struct Gap {
    int64_t length;
    int64_t hostLate;
    const Activity *next;
  };
  std::vector<Gap> gaps;
  int64_t late = 0, known = 0;
  size_t position = 0;
  for (Interval interval : idle) {
    while (position < context.kernels.size() &&
           context.kernels[position]->startNs < interval.second)
      ++position;
    const Activity *next =
        position < context.kernels.size() &&
                context.kernels[position]->startNs == interval.second
            ? context.kernels[position]
            : nullptr;
    Gap gap{interval.second - interval.first, 0, next};
    if (next && next->launchStartNs && next->launchDurationNs) {
      int64_t launched = *next->launchStartNs + *next->launchDurationNs;
      gap.hostLate =
          std::clamp<int64_t>(launched - interval.first, 0, gap.length);
      late += gap.hostLate;
      known += gap.length;
    }
    gaps.push_back(gap);
  }
  llvm::stable_sort(
      gaps, [](const Gap &a, const Gap &b) { return a.length > b.length; });

  int64_t ofProfiler = sumLengths(intersect(idle, findOverheads(context)));
  Finding &finding = context.add("device-busy");
  finding.severityNsPerStep = context.perStep(idleTime - ofProfiler);
  finding.evidence = json::Object{
      {"busy_pct", percentValue(busy, wall)},
      {"busy_ns_per_step", context.perStep(busy)},
      {"kernel_time_ns_per_step", context.perStep(context.kernelTimeNs)},
      {"overlapped_ns_per_step", context.perStep(context.kernelTimeNs - busy)},
      {"idle_ns_per_step", context.perStep(idleTime)},
      {"idle_profiler_ns_per_step", context.perStep(ofProfiler)},
      {"gaps_per_step", double(gaps.size()) / double(context.steps)},
  };
  if (known) {
    finding.evidence["idle_host_late_ns_per_step"] = context.perStep(late);
    finding.evidence["idle_after_launch_ns_per_step"] =
        context.perStep(known - late);
  }
  double residentTime = 0, occupancy = 0, occupancyTime = 0;
  bool haveBlocks = !context.kernels.empty();
  for (const Activity *kernel : context.kernels) {
    if (kernel->blocksPerSM)
      residentTime += std::min(*kernel->blocksPerSM, 1.0) * kernel->durationNs;
    else
      haveBlocks = false;
    if (kernel->occupancyPct) {
      occupancy += *kernel->occupancyPct * kernel->durationNs;
      occupancyTime += kernel->durationNs;
    }
  }
  if (haveBlocks)
    finding.evidence["estimated_sm_efficiency_pct"] =
        percentValue(residentTime, wall);
  if (occupancyTime > 0)
    finding.evidence["estimated_occupancy_pct"] =
        std::round(10 * occupancy / occupancyTime) / 10;
  // How long kernels wait once they are launched: a queue, or none.
  std::vector<int64_t> delays;
  for (const Activity *kernel : context.kernels)
    if (kernel->launchStartNs && kernel->launchDurationNs && !kernel->cudaGraph)
      delays.push_back(kernel->startNs - *kernel->launchStartNs -
                       *kernel->launchDurationNs);
  if (!delays.empty()) {
    llvm::sort(delays);
    finding.evidence["launch_to_start_median_ns"] = delays[delays.size() / 2];
    finding.evidence["launch_to_start_shortest_ns"] = delays.front();
  }
  json::Array largest;
  for (const Gap &gap : ArrayRef(gaps).take_front(5)) {
    json::Object entry{{"gap_ns", gap.length}};
    if (gap.next) {
      entry["before_kernel"] = gap.next->id;
      if (gap.next->launchStartNs)
        entry["host_late_ns"] = gap.hostLate;
      addNodes(finding, *gap.next);
    }
    largest.push_back(std::move(entry));
  }
  finding.evidence["largest_gaps"] = std::move(largest);

  std::string text = formatv(
      "{0} {1} busy {2} of the time", context.isCPU ? "Operators keep" : "The",
      context.isCPU ? "the CPU" : "device is", formatPercent(busy, wall));
  if (known > 0) {
    text += formatv("; the host was late for {0} of {1} idle before kernels",
                    formatTime(context.perStep(late)),
                    formatTime(context.perStep(known)));
    if (late > known / 2 && busy < wall * 3 / 4)
      text += ": the program is launch-bound";
  }
  auto named = llvm::find_if(gaps, [](const Gap &gap) { return gap.next; });
  if (named != gaps.end() && named->length >= 1000)
    text += formatv("; the largest gap, {0}, is before {1}",
                    formatTime(named->length),
                    describe(context.profile, *named->next));
  if (context.kernelTimeNs > busy)
    text += formatv("; {0} of kernel time overlaps and counts once",
                    formatTime(context.perStep(context.kernelTimeNs - busy)));
  finding.text = text + ".";
}

static void addSmallKernels(Context &context) {
  uint64_t small = 0, shorterThanLaunch = 0, withLaunch = 0;
  int64_t smallTime = 0, gapsBefore = 0, launchTime = 0;
  std::vector<std::pair<int64_t, const Activity *>> found;
  std::vector<Interval> idle = context.idle();
  auto gapBefore = [&](const Activity &kernel) -> int64_t {
    auto it = llvm::lower_bound(
        idle, kernel.startNs,
        [](const Interval &gap, int64_t start) { return gap.second < start; });
    return it != idle.end() && it->second == kernel.startNs
               ? it->second - it->first
               : 0;
  };
  for (const Activity *kernel : context.kernels) {
    // One call launches all kernels of a graph: none is shorter than its own.
    bool ownLaunch = kernel->launchDurationNs && !kernel->cudaGraph;
    withLaunch += ownLaunch;
    bool isShort = ownLaunch && kernel->durationNs < *kernel->launchDurationNs;
    shorterThanLaunch += isShort;
    if (kernel->durationNs >= smallKernelNs && !isShort)
      continue;
    ++small;
    smallTime += kernel->durationNs;
    int64_t gap = gapBefore(*kernel);
    gapsBefore += gap;
    if (ownLaunch)
      launchTime += *kernel->launchDurationNs;
    found.push_back({gap, kernel});
  }
  if (!small)
    return;
  Finding &finding = context.add("small-kernels");
  finding.severityNsPerStep = context.perStep(gapsBefore);
  finding.evidence = json::Object{
      {"threshold_ns", smallKernelNs},
      {"small_per_step", double(small) / double(context.steps)},
      {"kernels_per_step",
       double(context.kernels.size()) / double(context.steps)},
      {"small_ns_per_step", context.perStep(smallTime)},
      {"small_share_of_kernel_time_pct",
       percentValue(smallTime, context.kernelTimeNs)},
      {"idle_before_small_ns_per_step", context.perStep(gapsBefore)},
  };
  if (withLaunch) {
    finding.evidence["shorter_than_own_launch_per_step"] =
        double(shorterThanLaunch) / double(context.steps);
    finding.evidence["launch_calls_ns_per_step"] = context.perStep(launchTime);
  }
  llvm::stable_sort(
      found, [](const auto &a, const auto &b) { return a.first > b.first; });
  for (auto [gap, kernel] : ArrayRef(found).take_front(5))
    addNodes(finding, *kernel);
  std::string text = formatv(
      "{0} of {1} {2} are small (under {3}{4}): {5} of work, {6} of {7} time",
      small / context.steps, context.kernels.size() / context.steps,
      context.isCPU ? "operators" : "kernels", formatTime(smallKernelNs),
      withLaunch ? " or shorter than their own launch" : "",
      formatTime(context.perStep(smallTime)),
      formatPercent(smallTime, context.kernelTimeNs),
      context.isCPU ? "operator" : "kernel");
  if (withLaunch)
    text += formatv("; launching them takes the host {0}",
                    formatTime(context.perStep(launchTime)));
  text += formatv(", and {0} idle {1} before them",
                  context.isCPU ? "the CPU spends" : "the device is",
                  formatTime(context.perStep(gapsBefore)));
  if (found.front().first > 0)
    text += formatv("; most before {0}",
                    describe(context.profile, *found.front().second));
  finding.text = text + ".";
}

/// What the model knows of a launch that does no arithmetic. Sums can be a
/// reduction's whole work, so reductions are left alone.
static bool onlyMovesData(const LaunchRecord &launch) {
  if (launch.category == "copy")
    return true;
  return launch.flops == 0 && launch.category != "reduction" &&
         launch.category != "persistent_reduction" &&
         launch.category != "split_scan" && launch.category != "collective";
}

static void addNoArithmetic(Context &context) {
  struct Sum {
    int64_t time = 0;
    uint64_t kernels = 0;
    const Activity *first = nullptr;
  };
  std::map<uint32_t, Sum> sums;
  int64_t total = 0;
  uint64_t kernels = 0;
  auto add = [&](const Activity &activity) {
    if (!activity.launch ||
        !onlyMovesData(context.profile.launches[*activity.launch]))
      return;
    Sum &sum = sums[*activity.launch];
    sum.time += activity.durationNs;
    ++sum.kernels;
    if (!sum.first)
      sum.first = &activity;
    total += activity.durationNs;
    ++kernels;
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
  Finding &finding = context.add("no-arithmetic");
  finding.severityNsPerStep = context.perStep(total);
  uint64_t bytes = 0;
  json::Array launches;
  for (auto &[index, sum] : ordered) {
    const LaunchRecord &launch = context.profile.launches[index];
    bytes += launch.bytesRead.value_or(0) + launch.bytesWritten.value_or(0);
    if (launches.size() < 10)
      launches.push_back(
          json::Object{{"compiled_graph", launch.compiledGraph},
                       {"launch", launch.index},
                       {"kernel", launch.kernel},
                       {"ns_per_step", context.perStep(sum.time)}});
    if (launches.size() <= 5)
      addNodes(finding, *sum.first);
  }
  finding.evidence = json::Object{
      {"launches", int64_t(ordered.size())},
      {"kernels_per_step", double(kernels) / double(context.steps)},
      {"ns_per_step", context.perStep(total)},
      {"share_of_kernel_time_pct", percentValue(total, context.kernelTimeNs)},
      {"bytes", int64_t(bytes)},
      {"largest", std::move(launches)},
  };
  finding.text = formatv(
      "{0} no arithmetic (copies, casts, layout changes, gathers): {1} {4}, "
      "{2} of kernel time; the longest is {3}.",
      ordered.size() == 1 ? "1 launch does"
                          : std::to_string(ordered.size()) + " launches do",
      formatTime(context.perStep(total)),
      formatPercent(total, context.kernelTimeNs),
      describe(context.profile, context.profile.launches[ordered[0].first]),
      context.each());
}

static void addSynchronization(Context &context) {
  if (context.isCPU)
    return;
  std::vector<Interval> waits;
  std::map<std::string, uint64_t> names;
  uint64_t number = 0;
  for (const Synchronization &wait : context.profile.synchronizations) {
    int64_t end = wait.startNs + wait.durationNs;
    if (end <= context.window.first || wait.startNs >= context.window.second)
      continue;
    waits.push_back({wait.startNs, end});
    ++names[wait.name];
    ++number;
  }
  if (waits.empty())
    return;
  std::vector<Interval> idle = context.idle();
  waits = unite(std::move(waits));
  int64_t waited = sumLengths(intersect({context.window}, waits));
  int64_t idleTime = sumLengths(intersect(idle, waits));
  Finding &finding = context.add("synchronization");
  finding.severityNsPerStep = context.perStep(idleTime);
  json::Object calls;
  for (auto &[name, times] : names)
    calls[name] = int64_t(times);
  finding.evidence = json::Object{
      {"calls", std::move(calls)},
      {"host_waits_ns_per_step", context.perStep(waited)},
      {"device_idle_ns_per_step", context.perStep(idleTime)},
  };
  finding.text = formatv(
      "The host waits for the device {0} ({1} in {2}, {3} {5}); the device "
      "is idle for {4} of {6} meanwhile.",
      formatCount(number, "time", "times"), names.begin()->first,
      context.hasSteps ? formatCount(context.steps, "step", "steps")
                       : context.span(),
      formatTime(context.perStep(waited)),
      formatTime(context.perStep(idleTime)), context.each(), context.span());
}

static void addHostCopies(Context &context) {
  struct Sum {
    uint64_t number = 0;
    uint64_t bytes = 0;
    int64_t time = 0;
    bool pageable = false;
  } sum;
  const Activity *longest = nullptr;
  for (const Activity *copy : context.copies) {
    bool fromHost = copy->name.contains("HtoD");
    if (copy->kind != ActivityKind::Memcpy ||
        (!fromHost && !copy->name.contains("DtoH")))
      continue;
    ++sum.number;
    sum.bytes += copy->bytes.value_or(0);
    sum.time += copy->durationNs;
    sum.pageable |= copy->name.contains("Pageable");
    if (!longest || copy->durationNs > longest->durationNs)
      longest = copy;
  }
  if (!longest)
    return;
  Finding &finding = context.add("host-copies");
  finding.severityNsPerStep = context.perStep(sum.time);
  finding.evidence = json::Object{
      {"copies_per_step", double(sum.number) / double(context.steps)},
      {"bytes_per_step", context.perStep(int64_t(sum.bytes))},
      {"ns_per_step", context.perStep(sum.time)},
      {"pageable", sum.pageable},
  };
  addNodes(finding, *longest);
  finding.text = formatv(
      "{0} between host and device {5}: {1} and {2} bytes {6}{3}; the longest "
      "is {4}.",
      formatCount(sum.number, "copy", "copies"),
      formatTime(context.perStep(sum.time)),
      context.perStep(int64_t(sum.bytes)),
      sum.pageable ? ", from or to pageable memory, which blocks the host" : "",
      longest->hostOp.empty() ? longest->name.str()
                              : "started by " + longest->hostOp.str(),
      context.hasSteps ? "inside the steps" : "in " + context.span(),
      context.each());
}

/// Time in collectives, and how much of it nothing else covered.
static void addCommunication(Context &context) {
  std::vector<Interval> talk, work;
  uint64_t collectives = 0;
  const Activity *longest = nullptr;
  for (const Activity *kernel : context.kernels) {
    bool isCollective = StringRef(kernel->name).contains_insensitive("nccl");
    (isCollective ? talk : work).push_back({kernel->startNs, kernel->endNs()});
    if (!isCollective)
      continue;
    ++collectives;
    if (!longest || kernel->durationNs > longest->durationNs)
      longest = kernel;
  }
  if (!longest)
    return;
  talk = unite(std::move(talk));
  int64_t total = sumLengths(talk);
  int64_t exposed = sumLengths(subtract(talk, unite(std::move(work))));
  Finding &finding = context.add("communication");
  finding.severityNsPerStep = context.perStep(exposed);
  addNodes(finding, *longest);
  finding.evidence = json::Object{
      {"collectives_per_step", double(collectives) / double(context.steps)},
      {"ns_per_step", context.perStep(total)},
      {"exposed_ns_per_step", context.perStep(exposed)},
      {"longest_ns", longest->durationNs},
      {"longest", longest->name},
  };
  std::string rank;
  for (const Source &source : context.profile.sources)
    if (source.rank) {
      finding.evidence["rank"] = *source.rank;
      rank = formatv(" of rank {0}", *source.rank);
    }
  finding.text = formatv(
      "{0}{7}{1} take {2}, of which no other kernel covers {3} ({4}); the "
      "longest, {5}, takes {6}.",
      formatCount(collectives / context.steps, "collective", "collectives"),
      rank, formatTime(context.perStep(total)),
      formatTime(context.perStep(exposed)), formatPercent(exposed, total),
      describe(context.profile, *longest), formatTime(longest->durationNs),
      context.hasSteps ? " a step" : "");
}

static void addColdStart(Context &context) {
  int64_t cold = 0, coldSteps = 0, steady = 0, steadySteps = 0;
  for (const Step &step : context.profile.steps) {
    bool isSteady = step.phase == Phase::Steady;
    (isSteady ? steady : cold) += step.endNs - step.startNs;
    ++(isSteady ? steadySteps : coldSteps);
  }
  if (!coldSteps || !steadySteps)
    return;
  Finding &finding = context.add("cold-start");
  finding.evidence = json::Object{
      {"warm_up_steps", coldSteps},
      {"warm_up_ns_per_step", cold / coldSteps},
      {"steady_ns_per_step", steady / steadySteps},
  };
  finding.text = formatv(
      "{0} of the trace {1} warm-up: {2} a step against {3} in steady state; "
      "no other figure counts {4}.",
      formatCount(coldSteps, "step", "steps"), coldSteps == 1 ? "is" : "are",
      formatTime(cold / coldSteps), formatTime(steady / steadySteps),
      coldSteps == 1 ? "it" : "them");
}

static void addVariation(Context &context) {
  // Spread means little of a few runs, or of what takes no time.
  constexpr size_t fewestRuns = 5;
  std::map<uint32_t, std::map<StringRef, std::vector<int64_t>>> runs;
  for (const Activity *kernel : context.kernels)
    if (kernel->launch)
      runs[*kernel->launch][kernel->name].push_back(kernel->durationNs);
  struct Spread {
    uint32_t launch;
    int64_t median, longest, excess;
    size_t runs;
  };
  std::vector<Spread> found;
  int64_t excess = 0;
  for (auto &[launch, byName] : runs)
    for (auto &[name, durations] : byName) {
      if (durations.size() < fewestRuns)
        continue;
      llvm::sort(durations);
      int64_t median = durations[durations.size() / 2];
      int64_t over = 0;
      for (int64_t duration : durations)
        if (duration > median + median / 2)
          over += duration - median;
      if (!over)
        continue;
      excess += over;
      found.push_back(
          {launch, median, durations.back(), over, durations.size()});
    }
  if (found.empty() || excess < context.kernelTimeNs / 100)
    return;
  llvm::stable_sort(found, [](const Spread &a, const Spread &b) {
    return a.excess > b.excess;
  });
  const Spread &worst = found.front();
  const LaunchRecord &launch = context.profile.launches[worst.launch];
  Finding &finding = context.add("variation");
  finding.severityNsPerStep = context.perStep(excess);
  finding.nodes = launch.nodes;
  finding.evidence = json::Object{
      {"launches", int64_t(found.size())},
      {"excess_ns_per_step", context.perStep(excess)},
      {"worst", json::Object{{"compiled_graph", launch.compiledGraph},
                             {"launch", launch.index},
                             {"median_ns", worst.median},
                             {"longest_ns", worst.longest},
                             {"runs", int64_t(worst.runs)}}},
  };
  finding.text = formatv(
      "{0} half as long again as usual in some runs, {1} {6}; the worst, {2}, "
      "takes {3} in the median of {4} runs and {5} in the longest.",
      found.size() == 1 ? "1 launch takes"
                        : std::to_string(found.size()) + " launches take",
      formatTime(context.perStep(excess)), describe(context.profile, launch),
      formatTime(worst.median), worst.runs, formatTime(worst.longest),
      context.each());
}

void findings::addTimelineFindings(Context &context) {
  addWallTime(context);
  addBusy(context);
  addSmallKernels(context);
  addNoArithmetic(context);
  addSynchronization(context);
  addHostCopies(context);
  addCommunication(context);
  addColdStart(context);
  addVariation(context);
}
