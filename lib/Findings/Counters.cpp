// Findings from hardware counters. How far kernels are from the peaks of
// compute and memory, how many bytes they move against the fewest possible,
// what holds their occupancy down, and what costs them: spills, bank conflicts,
// scattered accesses, stalls, divergence.

#include "FindingBuilder.h"

#include "opprof/Analysis/Cost/DeviceCeilings.h"
#include "opprof/Metrics/Occupancy.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace llvm;
using namespace opprof;
using namespace opprof::findings;
using namespace opprof::metrics;
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
    if (!kernel->origin->countersFrom.empty())
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

std::optional<Bound> findings::boundByCounters(const Counted &counted) {
  std::optional<double> compute = counted.rate("sm_throughput_pct");
  std::optional<double> memory = counted.rate("memory_throughput_pct");
  bool isWhole = memory.has_value();
  // The share of the memory is the largest of its levels': where one was not
  // counted, the others say the least that it can be.
  for (StringRef level :
       {"dram_throughput_pct", "l2_throughput_pct", "l1_throughput_pct"})
    if (std::optional<double> share = counted.rate(level); share && !isWhole)
      memory = std::max(memory.value_or(0), *share);
  if (!compute || !memory)
    return std::nullopt;
  if (std::max(*compute, *memory) < 50)
    return isWhole ? std::optional(Bound::Latency) : std::nullopt;
  return *compute > *memory ? Bound::Compute : Bound::Memory;
}

std::vector<WorkGroup> Context::groupKernels() const {
  std::map<std::tuple<uint32_t, uint32_t, StringRef>, WorkGroup> groups;
  constexpr uint32_t kNone = ~uint32_t(0);
  for (const Activity *kernel : kernels) {
    bool known = kernel->launch || !kernel->origin->nodes.empty();
    WorkGroup &group = groups[{
        kernel->launch.value_or(kNone),
        kernel->launch || !known ? kNone : kernel->origin->nodes.front(),
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

//===----------------------------------------------------------------------===//
// Rules
//===----------------------------------------------------------------------===//

namespace {
/// A group that a rule found something in.
template <typename Entry> struct Found {
  const WorkGroup *group;
  Entry entry;
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

  /// Completes `evidence` with the groups that were found, by cost and then by
  /// time, and adds it as a finding.
  template <typename Entry, typename List>
  void add(std::vector<Found<Entry>> found, List evidence);

  Context &context;
  std::vector<WorkGroup> groups;
  /// By group.
  std::vector<Counted> counted;
};

} // namespace

static double rounded(double value) { return std::round(value * 10) / 10; }

/// What evidence says of any group.
static evidence::Work describe(const Context &context, const WorkGroup &group) {
  evidence::Work work;
  work.kernel = group.longest->name;
  work.timeNs = group.timeNs;
  work.launch = group.launch;
  if (!group.launch && !group.longest->origin->nodes.empty())
    work.node = group.longest->origin->nodes.front();
  work.longest = context.placeOf(*group.longest);
  return work;
}

template <typename Entry, typename List>
void CounterRules::add(std::vector<Found<Entry>> found, List evidence) {
  llvm::stable_sort(found, [](const Found<Entry> &a, const Found<Entry> &b) {
    return std::tuple(a.cost, a.group->timeNs) >
           std::tuple(b.cost, b.group->timeNs);
  });
  double cost = 0;
  for (const Found<Entry> &one : found) {
    cost += one.cost;
    evidence.timeNs += one.group->timeNs;
    evidence.inferredNs += counted[one.group - groups.data()].inferredNs;
  }
  evidence.launches = found.size();
  evidence.sharePct = percentOf(evidence.timeNs, context.kernelTimeNs);
  for (Found<Entry> &one : MutableArrayRef(found).take_front(10)) {
    static_cast<evidence::Work &>(one.entry) = describe(context, *one.group);
    evidence.largest.push_back(std::move(one.entry));
  }
  Finding &finding = context.add(std::move(evidence));
  if (cost > 0)
    finding.severityNsPerStep = context.perStep(cost);
  for (const Found<Entry> &one : ArrayRef(found).take_front(5))
    addNodes(finding, one.group->longest->origin->nodes);
}

/// How much time runs at which share of the peaks.
void CounterRules::addSpeedOfLight() {
  std::vector<Found<evidence::PeakShares>> found;
  int64_t nearCompute = 0, nearMemory = 0, farFromBoth = 0;
  double computeTime = 0, memoryTime = 0;
  evidence::SpeedOfLight speed;
  for (auto [index, group] : llvm::enumerate(groups)) {
    std::optional<double> compute = counted[index].rate("sm_throughput_pct");
    std::optional<double> memory = counted[index].rate("memory_throughput_pct");
    if (!compute || !memory)
      continue;
    int64_t time = counted[index].timeNs;
    speed.countedNs += time;
    computeTime += *compute * double(time);
    memoryTime += *memory * double(time);
    if (std::max(*compute, *memory) < 50)
      farFromBoth += time;
    else if (std::max(*compute, *memory) > 80)
      (*compute > *memory ? nearCompute : nearMemory) += time;
    auto rate = [&](StringRef name) -> std::optional<double> {
      std::optional<double> value = counted[index].rate(name);
      return value ? std::optional(rounded(*value)) : std::nullopt;
    };
    evidence::PeakShares shares;
    shares.smThroughputPct = rounded(*compute);
    shares.memoryThroughputPct = rounded(*memory);
    shares.dramThroughputPct = rate("dram_throughput_pct");
    shares.tensorPipePct = rate("tensor_pipe_pct");
    shares.achievedOccupancyPct = rate("achieved_occupancy_pct");
    shares.l1HitPct = rate("l1_hit_pct");
    shares.l2HitPct = rate("l2_hit_pct");
    shares.issueActivePct = rate("issue_active_pct");
    found.push_back({&group, shares});
  }
  if (!speed.countedNs)
    return;
  double total = double(speed.countedNs);
  speed.nearComputePeakPct = percentOf(nearCompute, total);
  speed.nearMemoryPeakPct = percentOf(nearMemory, total);
  speed.farFromBothPct = percentOf(farFromBoth, total);
  speed.meanSMThroughputPct = computeTime / total;
  speed.meanMemoryThroughputPct = memoryTime / total;
  if (speed.countedNs < context.kernelTimeNs)
    speed.countedPct = percentOf(total, context.kernelTimeNs);
  add(std::move(found), std::move(speed));
}

/// Bytes that went through DRAM against the fewest that the launch has to move.
void CounterRules::addMemoryTraffic() {
  std::vector<Found<evidence::Traffic>> found;
  std::optional<DeviceCeilings> ceilings = findDeviceCeilings(*context.device);
  for (auto [index, group] : llvm::enumerate(groups)) {
    std::optional<double> read = counted[index].sum("dram_read_bytes");
    std::optional<double> written = counted[index].sum("dram_write_bytes");
    if (!read || !written || !group.launch)
      continue;
    const LaunchRecord &launch = context.profile.launches[*group.launch];
    std::optional<double> runs = countRuns(launch, group.timeNs);
    if (!launch.bytesRead || !launch.bytesWritten || !runs)
      continue;
    double needed =
        *runs * (double(*launch.bytesRead) + double(*launch.bytesWritten));
    double moved = *read + *written;
    // Some excess is noise of the caches.
    if (moved < 1.5 * needed || moved - needed < *runs * 65536)
      continue;
    evidence::Traffic traffic;
    traffic.dramBytes = std::round(moved / *runs);
    traffic.fewestBytes = std::round(needed / *runs);
    traffic.times = rounded(needed > 0 ? moved / needed : 0);
    double cost = ceilings ? (moved - needed) / ceilings->memory.rate * 1e9 : 0;
    found.push_back({&group, traffic, std::min(cost, double(group.timeNs))});
  }
  if (!found.empty())
    add(std::move(found), evidence::MemoryTraffic());
}

/// What keeps warps off the device. A grid that does not fill it leaves no one
/// else to blame.
static OccupancyLimiter findLimiter(const Occupancy &bound) {
  if (bound.waves < 1)
    return OccupancyLimiter::Grid;
  if (bound.pct < 50)
    return parseOccupancyLimiter(bound.limiter)
        .value_or(OccupancyLimiter::Unknown);
  return bound.waves < 2 ? OccupancyLimiter::LastWave
                         : OccupancyLimiter::UnevenWork;
}

/// Launches that latency bounds and that keep few warps on the device.
void CounterRules::addOccupancy() {
  std::vector<Found<evidence::OccupancyOfWork>> found;
  evidence::LowOccupancy occupancy;
  for (auto [index, group] : llvm::enumerate(groups)) {
    std::optional<double> achieved =
        counted[index].rate("achieved_occupancy_pct");
    if (!achieved || *achieved >= 50 ||
        boundByCounters(counted[index]) != Bound::Latency)
      continue;
    evidence::OccupancyOfWork entry;
    entry.achievedPct = rounded(*achieved);
    if (std::optional<Occupancy> bound =
            estimateOccupancy(*group.longest->config, *context.device)) {
      entry.possiblePct = rounded(bound->pct);
      entry.waves = std::round(bound->waves * 100) / 100;
      entry.limiter = findLimiter(*bound);
    }
    occupancy.timeNsOf[entry.limiter] += group.timeNs;
    found.push_back({&group, entry});
  }
  if (!found.empty())
    add(std::move(found), std::move(occupancy));
}

void CounterRules::addLocalMemory() {
  std::vector<Found<evidence::LocalMemoryOfWork>> found;
  for (auto [index, group] : llvm::enumerate(groups)) {
    std::optional<double> wavefronts =
        counted[index].sum("local_memory_wavefronts");
    if (!wavefronts || *wavefronts <= 0)
      continue;
    evidence::LocalMemoryOfWork entry;
    entry.wavefronts = *wavefronts;
    entry.bytesPerThread = group.longest->config->localMemory;
    entry.registers = group.longest->config->registers;
    found.push_back({&group, entry});
  }
  if (!found.empty())
    add(std::move(found), evidence::LocalMemory());
}

void CounterRules::addBankConflicts() {
  std::vector<Found<evidence::ConflictsOfWork>> found;
  for (auto [index, group] : llvm::enumerate(groups)) {
    std::optional<double> conflicts =
        counted[index].sum("l1tex__data_bank_conflicts_pipe_lsu.sum");
    std::optional<double> cycles = counted[index].sum("active_cycles");
    // Each conflict takes a cycle of the memory pipe.
    if (!conflicts || !cycles || *cycles <= 0 || *conflicts < 0.1 * *cycles)
      continue;
    double share = std::min(*conflicts / *cycles, 1.0);
    evidence::ConflictsOfWork entry;
    entry.conflicts = *conflicts;
    entry.ofActiveCyclesPct = rounded(100 * share);
    found.push_back({&group, entry, share * double(group.timeNs)});
  }
  if (!found.empty())
    add(std::move(found), evidence::BankConflicts());
}

void CounterRules::addScatteredAccess() {
  std::vector<Found<evidence::ScatterOfWork>> found;
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
    evidence::ScatterOfWork entry;
    entry.sectorsPerRequest = rounded(sectors / requests);
    found.push_back({&group, entry});
  }
  if (!found.empty())
    add(std::move(found), evidence::ScatteredAccess());
}

/// What warps wait for most.
void CounterRules::addStalls() {
  std::vector<Found<evidence::StallsOfWork>> found;
  evidence::Stalls stalls;
  for (auto [index, group] : llvm::enumerate(groups)) {
    double all = 0, most = 0;
    evidence::StallsOfWork entry;
    for (size_t number = 0; number < kNumStallReasons; ++number) {
      auto reason = static_cast<StallReason>(number);
      std::optional<double> cycles =
          counted[index].rate(("smsp__average_warps_issue_stalled_" +
                               stringify(reason) + "_per_issue_active.ratio")
                                  .str());
      if (!cycles)
        continue;
      all += *cycles;
      if (*cycles > most) {
        most = *cycles;
        entry.reason = reason;
      }
    }
    if (most <= 0)
      continue;
    entry.cyclesPerIssue = rounded(most);
    entry.sharePct = percentOf(most, all);
    stalls.timeNsOf[entry.reason] += group.timeNs;
    found.push_back({&group, entry});
  }
  if (!found.empty())
    add(std::move(found), std::move(stalls));
}

/// Which pipe takes most instructions.
void CounterRules::addPipes() {
  std::vector<Found<evidence::PipesOfWork>> found;
  evidence::Pipes pipes;
  for (auto [index, group] : llvm::enumerate(groups)) {
    double all = 0, most = 0;
    evidence::PipesOfWork entry;
    for (size_t number = 0; number < kNumPipes; ++number) {
      auto pipe = static_cast<Pipe>(number);
      std::optional<double> executed = counted[index].sum(
          ("sm__inst_executed_pipe_" + stringify(pipe) + ".sum").str());
      if (!executed)
        continue;
      entry.sharePct[pipe] = *executed;
      all += *executed;
      if (*executed > most) {
        most = *executed;
        entry.pipe = pipe;
      }
    }
    // One pipe alone was not asked for to be compared.
    if (most <= 0 || entry.sharePct.size() < 2)
      continue;
    for (auto &[pipe, share] : entry.sharePct)
      share = percentOf(share, all);
    pipes.timeNsOf[entry.pipe] += group.timeNs;
    found.push_back({&group, std::move(entry)});
  }
  if (!found.empty())
    add(std::move(found), std::move(pipes));
}

void CounterRules::addDivergence() {
  std::vector<Found<evidence::DivergenceOfWork>> found;
  int64_t time = 0;
  for (auto [index, group] : llvm::enumerate(groups)) {
    std::optional<double> threads = counted[index].rate("threads_per_warp");
    if (!threads || *threads >= 24)
      continue;
    evidence::DivergenceOfWork entry;
    entry.threadsPerWarp = rounded(*threads);
    time += group.timeNs;
    found.push_back(
        {&group, entry, double(group.timeNs) * (1 - *threads / 32)});
  }
  // Small kernels that count up to a remainder are everywhere.
  if (!found.empty() && time >= context.kernelTimeNs / 100)
    add(std::move(found), evidence::Divergence());
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
