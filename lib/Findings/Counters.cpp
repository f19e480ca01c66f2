//===- Counters.cpp - Findings from hardware counters ---------------------===//
//
// How far kernels are from the peaks of compute and memory, how many bytes they
// move against the fewest possible, what holds their occupancy down, and what
// costs them: spills, bank conflicts, scattered accesses, stalls, divergence.
//
//===----------------------------------------------------------------------===//

#include "FindingBuilder.h"

#include "opprof/Analysis/Cost/DeviceCeilings.h"
#include "opprof/Metrics/Occupancy.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace llvm;
using namespace opprof;
using namespace opprof::findings;
using namespace opprof::profile;

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

Counted::Counted(const Profile &profile, ArrayRef<const Activity *> kernels)
    : profile(profile) {
  for (const Activity *kernel : kernels) {
    if (!kernel->counters) {
      all = false;
      continue;
    }
    counted.push_back(kernel);
    timeNs += kernel->durationNs;
    if (!kernel->countersFrom.empty())
      inferredNs += kernel->durationNs;
  }
}

std::optional<double> Counted::rate(StringRef name) const {
  double sum = 0, weight = 0;
  for (const Activity *kernel : counted) {
    const auto &values = profile.counters[*kernel->counters].values;
    auto it = values.find(name.str());
    if (it == values.end())
      continue;
    sum += it->second * double(kernel->durationNs);
    weight += double(kernel->durationNs);
  }
  if (weight <= 0 || !std::isfinite(sum))
    return std::nullopt;
  return sum / weight;
}

std::optional<double> Counted::sum(StringRef name) const {
  if (!all || counted.empty())
    return std::nullopt;
  double sum = 0;
  for (const Activity *kernel : counted) {
    const auto &values = profile.counters[*kernel->counters].values;
    auto it = values.find(name.str());
    if (it == values.end())
      return std::nullopt;
    sum += it->second;
  }
  if (!std::isfinite(sum))
    return std::nullopt;
  return sum;
}

StringRef findings::stringify(Bound bound) {
  switch (bound) {
  case Bound::Compute:
    return "compute";
  case Bound::Memory:
    return "memory";
  case Bound::Latency:
    return "latency";
  case Bound::Launch:
    return "launch";
  }
  llvm_unreachable("unhandled bound");
}

std::optional<Bound> findings::boundByCounters(const Counted &counted) {
  std::optional<double> compute = counted.rate("sm_throughput_pct");
  std::optional<double> memory = counted.rate("memory_throughput_pct");
  if (!compute || !memory)
    return std::nullopt;
  if (std::max(*compute, *memory) < 50)
    return Bound::Latency;
  return *compute > *memory ? Bound::Compute : Bound::Memory;
}

std::vector<WorkGroup> Context::groupKernels() const {
  std::map<std::tuple<uint32_t, uint32_t, StringRef>, WorkGroup> groups;
  constexpr uint32_t none = ~uint32_t(0);
  for (const Activity *kernel : kernels) {
    bool known = kernel->launch || !kernel->nodes.empty();
    WorkGroup &group =
        groups[{kernel->launch.value_or(none),
                kernel->launch || !known ? none : kernel->nodes.front(),
                known ? StringRef() : kernel->name}];
    group.launch = kernel->launch;
    group.kernels.push_back(kernel);
    group.timeNs += kernel->durationNs;
    if (!group.longest || kernel->durationNs > group.longest->durationNs)
      group.longest = kernel;
  }
  std::vector<WorkGroup> sorted;
  for (auto &[key, group] : groups)
    sorted.push_back(std::move(group));
  llvm::stable_sort(sorted, [](const WorkGroup &a, const WorkGroup &b) {
    return a.timeNs > b.timeNs;
  });
  return sorted;
}

std::string findings::describe(const Profile &profile, const WorkGroup &group) {
  return describe(profile, *group.longest);
}

json::Object findings::toEvidence(const Context &context,
                                  const WorkGroup &group) {
  json::Object entry{{"kernel", group.longest->name},
                     {"ns_per_step", context.perStep(group.timeNs)}};
  if (group.launch) {
    const LaunchRecord &launch = context.profile.launches[*group.launch];
    entry["compiled_graph"] = launch.compiledGraph;
    entry["launch"] = launch.index;
  } else if (!group.longest->nodes.empty()) {
    entry["node"] = context.profile.nodes[group.longest->nodes.front()].name;
  }
  return entry;
}

void findings::addNodes(Finding &finding, const Profile &profile,
                        const WorkGroup &group) {
  for (uint32_t node : group.longest->nodes)
    if (!llvm::is_contained(finding.nodes, node))
      finding.nodes.push_back(node);
}

//===----------------------------------------------------------------------===//
// Rules
//===----------------------------------------------------------------------===//

namespace {

/// A group that a rule found something in.
struct Found {
  const WorkGroup *group;
  json::Object evidence;
  /// What it costs over all steps, where that is a cost.
  double cost = 0;
};

class CounterRules {
public:
  explicit CounterRules(Context &context)
      : context(context), groups(context.groupKernels()) {
    for (const WorkGroup &group : groups)
      counted.emplace_back(context.profile, group.kernels);
  }

  void add();

private:
  void addSpeedOfLight();
  void addMemoryTraffic();
  void addOccupancy();
  void addLocalMemory();
  void addBankConflicts();
  void addScatteredAccess();
  void addStalls();
  void addPipes();
  void addDivergence();

  /// Starts a finding about some groups: their number, time, share and the
  /// largest of them, by cost and then by time.
  Finding &start(StringRef id, std::vector<Found> &found);
  /// Adds the time of the groups in which each thing leads, by its name, to the
  /// evidence; returns the longest, and what leads there.
  std::pair<int64_t, size_t> addTimes(Finding &finding, StringRef key,
                                      const std::map<size_t, int64_t> &times,
                                      function_ref<StringRef(size_t)> nameOf);
  std::string formatGroups(const std::vector<Found> &found) const {
    return formatCount(found.size(), "launch", "launches");
  }
  int64_t timeOf(const std::vector<Found> &found) const {
    int64_t time = 0;
    for (const Found &one : found)
      time += one.group->timeNs;
    return time;
  }

  Context &context;
  std::vector<WorkGroup> groups;
  /// By group.
  std::vector<Counted> counted;
};

double rounded(double value) { return std::round(value * 10) / 10; }

} // namespace

Finding &CounterRules::start(StringRef id, std::vector<Found> &found) {
  llvm::stable_sort(found, [](const Found &a, const Found &b) {
    return std::tuple(a.cost, a.group->timeNs) >
           std::tuple(b.cost, b.group->timeNs);
  });
  Finding &finding = context.add(id);
  int64_t time = timeOf(found), inferred = 0;
  double cost = 0;
  json::Array largest;
  for (Found &one : found) {
    cost += one.cost;
    inferred += counted[one.group - groups.data()].inferredNs;
    if (largest.size() < 10) {
      json::Object entry = toEvidence(context, *one.group);
      for (auto &[key, value] : one.evidence)
        entry[key] = value;
      largest.push_back(std::move(entry));
    }
    if (largest.size() <= 5)
      addNodes(finding, context.profile, *one.group);
  }
  if (cost > 0)
    finding.severityNsPerStep = context.perStep(cost);
  finding.evidence = json::Object{
      {"launches", int64_t(found.size())},
      {"ns_per_step", context.perStep(time)},
      {"share_of_kernel_time_pct", percentValue(time, context.kernelTimeNs)},
      {"inferred_ns_per_step", context.perStep(inferred)},
      {"largest", std::move(largest)},
  };
  return finding;
}

/// How much time runs at which share of the peaks.
void CounterRules::addSpeedOfLight() {
  std::vector<Found> found;
  int64_t total = 0, nearCompute = 0, nearMemory = 0, farFromBoth = 0;
  double computeTime = 0, memoryTime = 0;
  for (auto [index, group] : llvm::enumerate(groups)) {
    std::optional<double> compute = counted[index].rate("sm_throughput_pct");
    std::optional<double> memory = counted[index].rate("memory_throughput_pct");
    if (!compute || !memory)
      continue;
    int64_t time = counted[index].timeNs;
    total += time;
    computeTime += *compute * double(time);
    memoryTime += *memory * double(time);
    if (std::max(*compute, *memory) < 50)
      farFromBoth += time;
    else if (std::max(*compute, *memory) > 80)
      (*compute > *memory ? nearCompute : nearMemory) += time;
    json::Object evidence{{"sm_throughput_pct", rounded(*compute)},
                          {"memory_throughput_pct", rounded(*memory)}};
    for (StringRef name :
         {"dram_throughput_pct", "tensor_pipe_pct", "achieved_occupancy_pct",
          "l1_hit_pct", "l2_hit_pct", "issue_active_pct"})
      if (std::optional<double> value = counted[index].rate(name))
        evidence[name] = rounded(*value);
    found.push_back({&group, std::move(evidence)});
  }
  if (!total)
    return;
  Finding &finding = start("speed-of-light", found);
  finding.evidence["counted_ns_per_step"] = context.perStep(total);
  finding.evidence["near_compute_peak_pct"] = percentValue(nearCompute, total);
  finding.evidence["near_memory_peak_pct"] = percentValue(nearMemory, total);
  finding.evidence["far_from_both_pct"] = percentValue(farFromBoth, total);
  finding.evidence["mean_sm_throughput_pct"] =
      rounded(computeTime / double(total));
  finding.evidence["mean_memory_throughput_pct"] =
      rounded(memoryTime / double(total));
  finding.text = formatv(
      "By counters, {0} of the time of {1} runs at over 80 % of the peak of "
      "compute, {2} of memory, and {3} at under half of both, where latency "
      "decides; means are {4:f1} % and {5:f1} %{6}.",
      formatPercent(nearCompute, total),
      total >= context.kernelTimeNs
          ? std::string("all kernels")
          : formatPercent(total, context.kernelTimeNs) + " of kernel time",
      formatPercent(nearMemory, total), formatPercent(farFromBoth, total),
      computeTime / double(total), memoryTime / double(total),
      finding.evidence.getInteger("inferred_ns_per_step").value_or(0)
          ? "; some are those of launches that do the same work"
          : "");
}

/// Bytes that went through DRAM against the fewest that the launch has to move.
void CounterRules::addMemoryTraffic() {
  std::vector<Found> found;
  const DeviceCeilings *ceilings = findDeviceCeilings(context.device->name);
  for (auto [index, group] : llvm::enumerate(groups)) {
    std::optional<double> read = counted[index].sum("dram_read_bytes");
    std::optional<double> written = counted[index].sum("dram_write_bytes");
    if (!read || !written || !group.launch)
      continue;
    const LaunchRecord &launch = context.profile.launches[*group.launch];
    if (!launch.bytesRead || !launch.bytesWritten || !launch.runs ||
        launch.kernelTimeNs <= 0)
      continue;
    double runs =
        std::max(1.0, std::round(double(launch.runs) * double(group.timeNs) /
                                 double(launch.kernelTimeNs)));
    double needed =
        runs * (double(*launch.bytesRead) + double(*launch.bytesWritten));
    double moved = *read + *written;
    // Some excess is noise of the caches.
    if (moved < 1.5 * needed || moved - needed < runs * 65536)
      continue;
    json::Object evidence{{"dram_bytes", std::round(moved / runs)},
                          {"fewest_bytes", std::round(needed / runs)},
                          {"times", rounded(needed > 0 ? moved / needed : 0)}};
    double cost = ceilings ? (moved - needed) / ceilings->memory.rate * 1e9 : 0;
    found.push_back(
        {&group, std::move(evidence), std::min(cost, double(group.timeNs))});
  }
  if (found.empty())
    return;
  Finding &finding = start("memory-traffic", found);
  const Found &worst = found.front();
  finding.text = formatv(
      "{0} ({1} a step) through DRAM over one and a half times the bytes that "
      "{2} inputs and outputs have; the worst, {3}, {4:f1} MB where {5:f1} MB "
      "would do.",
      found.size() == 1 ? "1 launch moves"
                        : std::to_string(found.size()) + " launches move",
      formatTime(context.perStep(timeOf(found))),
      found.size() == 1 ? "its" : "their",
      describe(context.profile, *worst.group),
      worst.evidence.getNumber("dram_bytes").value_or(0) / 1e6,
      worst.evidence.getNumber("fewest_bytes").value_or(0) / 1e6);
}

/// Launches that latency bounds and that keep few warps on the device.
void CounterRules::addOccupancy() {
  std::vector<Found> found;
  std::map<std::string, int64_t> byLimiter;
  for (auto [index, group] : llvm::enumerate(groups)) {
    std::optional<double> achieved =
        counted[index].rate("achieved_occupancy_pct");
    if (!achieved || *achieved >= 50 ||
        boundByCounters(counted[index]) != Bound::Latency)
      continue;
    json::Object evidence{{"achieved_occupancy_pct", rounded(*achieved)}};
    std::string limiter = "unknown";
    if (std::optional<Occupancy> bound =
            estimateOccupancy(*group.longest, *context.device)) {
      evidence["possible_occupancy_pct"] = rounded(bound->pct);
      evidence["waves"] = std::round(bound->waves * 100) / 100;
      // A grid that does not fill the device leaves no one else to blame.
      limiter = bound->waves < 1   ? "grid"
                : bound->pct < 50  ? bound->limiter.str()
                : bound->waves < 2 ? "last wave"
                                   : "uneven work";
    }
    evidence["limiter"] = limiter;
    byLimiter[limiter] += group.timeNs;
    found.push_back({&group, std::move(evidence)});
  }
  if (found.empty())
    return;
  Finding &finding = start("occupancy", found);
  json::Object limits;
  std::pair<int64_t, std::string> most;
  for (auto &[limiter, time] : byLimiter) {
    limits[limiter] = context.perStep(time);
    most = std::max(most, {time, limiter});
  }
  finding.evidence["ns_per_step_by_limiter"] = std::move(limits);
  StringRef why =
      StringSwitch<StringRef>(most.second)
          .Case("grid", "their grids do not fill the device once")
          .Case("registers", "registers leave no room for more blocks")
          .Case("shared memory", "shared memory leaves no room for more blocks")
          .Case("block size", "the size of their blocks leaves warps out")
          .Case("blocks", "no more blocks go on a multiprocessor")
          .Case("last wave", "a last, part-filled wave takes long")
          .Case("uneven work", "their warps end at different times")
          .Default("why is not known");
  finding.text = formatv(
      "{0} ({1} a step) {2} latency-bound with under half of the warps that "
      "the device holds, mostly as {3}; the longest is {4}, {5:f0} %.",
      formatGroups(found), formatTime(context.perStep(timeOf(found))),
      found.size() == 1 ? "is" : "are", why,
      describe(context.profile, *found.front().group),
      found.front().evidence.getNumber("achieved_occupancy_pct").value_or(0));
}

void CounterRules::addLocalMemory() {
  std::vector<Found> found;
  for (auto [index, group] : llvm::enumerate(groups)) {
    std::optional<double> wavefronts =
        counted[index].sum("local_memory_wavefronts");
    if (!wavefronts || *wavefronts <= 0)
      continue;
    json::Object evidence{{"local_memory_wavefronts", *wavefronts}};
    if (group.longest->localMemory)
      evidence["bytes_per_thread"] = *group.longest->localMemory;
    if (group.longest->registers)
      evidence["registers"] = *group.longest->registers;
    found.push_back({&group, std::move(evidence)});
  }
  if (found.empty())
    return;
  Finding &finding = start("local-memory", found);
  finding.text = formatv(
      "{0} ({1} a step) {2} values in local memory, spilled registers or "
      "arrays; the longest is {3}.",
      formatGroups(found), formatTime(context.perStep(timeOf(found))),
      found.size() == 1 ? "keeps" : "keep",
      describe(context.profile, *found.front().group));
}

void CounterRules::addBankConflicts() {
  std::vector<Found> found;
  for (auto [index, group] : llvm::enumerate(groups)) {
    std::optional<double> conflicts =
        counted[index].sum("l1tex__data_bank_conflicts_pipe_lsu.sum");
    std::optional<double> cycles = counted[index].sum("active_cycles");
    // Each conflict takes a cycle of the memory pipe.
    if (!conflicts || !cycles || *cycles <= 0 || *conflicts < 0.1 * *cycles)
      continue;
    double share = std::min(*conflicts / *cycles, 1.0);
    found.push_back(
        {&group,
         json::Object{{"bank_conflicts", *conflicts},
                      {"of_active_cycles_pct", rounded(100 * share)}},
         share * double(group.timeNs)});
  }
  if (found.empty())
    return;
  Finding &finding = start("bank-conflicts", found);
  finding.text = formatv(
      "Bank conflicts of shared memory take {0} % of the cycles of {1}, and "
      "over 10 % of those of {2} in all.",
      found.front().evidence.getNumber("of_active_cycles_pct").value_or(0),
      describe(context.profile, *found.front().group), formatGroups(found));
}

void CounterRules::addScatteredAccess() {
  std::vector<Found> found;
  for (auto [index, group] : llvm::enumerate(groups)) {
    double sectors = 0, requests = 0;
    for (StringRef direction : {"ld", "st"}) {
      auto of = [&](StringRef what) {
        return counted[index]
            .sum(("l1tex__t_" + what + "_pipe_lsu_mem_global_op_" + direction +
                  ".sum")
                     .str())
            .value_or(0);
      };
      sectors += of("sectors");
      requests += of("requests");
    }
    // A warp's widest access, 16 bytes a thread, is 16 sectors.
    if (requests <= 0 || sectors <= 16 * requests)
      continue;
    found.push_back({&group, json::Object{{"sectors_per_request",
                                           rounded(sectors / requests)}}});
  }
  if (found.empty())
    return;
  Finding &finding = start("scattered-access", found);
  finding.text = formatv(
      "{0} ({1} a step) {2} global memory scattered: {3} touches {4} sectors a "
      "request, where neighbouring addresses need 16 at most.",
      formatGroups(found), formatTime(context.perStep(timeOf(found))),
      found.size() == 1 ? "reaches" : "reach",
      describe(context.profile, *found.front().group),
      found.front().evidence.getNumber("sectors_per_request").value_or(0));
}

std::pair<int64_t, size_t>
CounterRules::addTimes(Finding &finding, StringRef key,
                       const std::map<size_t, int64_t> &times,
                       function_ref<StringRef(size_t)> nameOf) {
  json::Object byName;
  std::pair<int64_t, size_t> most{-1, 0};
  for (auto [number, time] : times) {
    byName[nameOf(number)] = context.perStep(time);
    most = std::max(most, {time, number});
  }
  finding.evidence[key] = std::move(byName);
  return most;
}

void CounterRules::addStalls() {
  struct Reason {
    StringLiteral name, text, remedy;
  };
  static constexpr Reason reasons[] = {
      {"long_scoreboard", "loads from L2 or memory",
       "more warps or loads in flight, or fewer bytes"},
      {"short_scoreboard", "shared memory or special functions",
       "fewer of them, or more work between"},
      {"math_pipe_throttle", "a busy arithmetic pipe",
       "other instructions, or tensor cores"},
      {"barrier", "other warps at a barrier",
       "smaller blocks, or fewer barriers"},
      {"lg_throttle", "the queue of global and local accesses",
       "wider accesses"},
      {"mio_throttle", "the queue of shared memory",
       "wider accesses of shared memory"},
      {"wait", "fixed latency of instructions", "more warps"},
      {"not_selected", "other warps that were ready", "nothing: warps abound"},
  };
  std::map<size_t, int64_t> timeOfReason;
  std::vector<Found> found;
  for (auto [index, group] : llvm::enumerate(groups)) {
    double all = 0, most = 0;
    size_t leading = 0;
    for (auto [number, reason] : llvm::enumerate(reasons)) {
      std::optional<double> cycles =
          counted[index].rate(("smsp__average_warps_issue_stalled_" +
                               reason.name + "_per_issue_active.ratio")
                                  .str());
      if (!cycles)
        continue;
      all += *cycles;
      if (*cycles > most) {
        most = *cycles;
        leading = number;
      }
    }
    if (most <= 0)
      continue;
    timeOfReason[leading] += group.timeNs;
    found.push_back(
        {&group, json::Object{{"reason", reasons[leading].name},
                              {"cycles_per_issue", rounded(most)},
                              {"share_pct", percentValue(most, all)}}});
  }
  if (found.empty())
    return;
  Finding &finding = start("stalls", found);
  std::pair<int64_t, size_t> most =
      addTimes(finding, "ns_per_step_by_leading_reason", timeOfReason,
               [](size_t number) { return reasons[number].name; });
  const Reason &reason = reasons[most.second];
  finding.text =
      formatv("Warps wait most for {0} ({1}) in launches of {2} a step ({3} of "
              "what was "
              "counted); it asks for {4}.",
              reason.text, reason.name, formatTime(context.perStep(most.first)),
              formatPercent(most.first, timeOf(found)), reason.remedy);
}

/// Which pipe takes most instructions.
void CounterRules::addPipes() {
  struct Pipe {
    StringLiteral name, text;
  };
  static constexpr Pipe pipes[] = {
      {"tensor", "tensor cores"},          {"fma", "multiply-adds"},
      {"alu", "integers and comparisons"}, {"xu", "special functions"},
      {"lsu", "loads and stores"},         {"fp64", "double precision"},
  };
  std::map<size_t, int64_t> timeOfPipe;
  std::vector<Found> found;
  for (auto [index, group] : llvm::enumerate(groups)) {
    double all = 0, most = 0;
    size_t leading = 0;
    json::Object shares;
    for (auto [number, pipe] : llvm::enumerate(pipes)) {
      std::optional<double> executed = counted[index].sum(
          ("sm__inst_executed_pipe_" + pipe.name + ".sum").str());
      if (!executed)
        continue;
      shares[pipe.name] = *executed;
      all += *executed;
      if (*executed > most) {
        most = *executed;
        leading = number;
      }
    }
    // One pipe alone was not asked for to be compared.
    if (most <= 0 || shares.size() < 2)
      continue;
    for (auto &[name, executed] : shares)
      executed = percentValue(*executed.getAsNumber(), all);
    timeOfPipe[leading] += group.timeNs;
    found.push_back({&group, json::Object{{"pipe", pipes[leading].name},
                                          {"share_pct", std::move(shares)}}});
  }
  if (found.empty())
    return;
  Finding &finding = start("pipes", found);
  std::pair<int64_t, size_t> most =
      addTimes(finding, "ns_per_step_by_leading_pipe", timeOfPipe,
               [](size_t number) { return pipes[number].name; });
  finding.text = formatv(
      "Most instructions are {0} ({1}) in launches of {2} a step ({3} of what "
      "was counted); in the longest launch, {4}, they are {5}.",
      pipes[most.second].text, pipes[most.second].name,
      formatTime(context.perStep(most.first)),
      formatPercent(most.first, timeOf(found)),
      describe(context.profile, *found.front().group),
      found.front().evidence.getString("pipe").value_or(""));
}

void CounterRules::addDivergence() {
  std::vector<Found> found;
  for (auto [index, group] : llvm::enumerate(groups)) {
    std::optional<double> threads = counted[index].rate("threads_per_warp");
    if (!threads || *threads >= 24)
      continue;
    found.push_back({&group,
                     json::Object{{"threads_per_warp", rounded(*threads)}},
                     double(group.timeNs) * (1 - *threads / 32)});
  }
  // Small kernels that count up to a remainder are everywhere.
  if (found.empty() || timeOf(found) < context.kernelTimeNs / 100)
    return;
  Finding &finding = start("divergence", found);
  finding.text = formatv(
      "{0} ({1} a step) {2} with under 24 of a warp's 32 threads active; {3} "
      "with {4:f1}.",
      formatGroups(found), formatTime(context.perStep(timeOf(found))),
      found.size() == 1 ? "runs" : "run",
      describe(context.profile, *found.front().group),
      found.front().evidence.getNumber("threads_per_warp").value_or(0));
}

void CounterRules::add() {
  addSpeedOfLight();
  addMemoryTraffic();
  addOccupancy();
  addLocalMemory();
  addBankConflicts();
  addScatteredAccess();
  addStalls();
  addPipes();
  addDivergence();
}

void findings::addCounterFindings(Context &context) {
  if (llvm::none_of(context.kernels, [](const Activity *kernel) {
        return kernel->counters.has_value();
      }))
    return;
  CounterRules(context).add();
}
