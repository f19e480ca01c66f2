// The table of values, the sets of raw counters, and what is computed of both.
//
// Raw counters are few and share passes; composite metrics of CUPTI cost a pass
// or more each, and are only collected when they are named. All but one of the
// default set share a pass on Hopper (GH100): the L2 hit rate comes from tag
// lookups, because the sector hits of the L2 need a pass of their own, and DRAM
// writes from dram__bytes_write, which shares the pass of dram__bytes_read.

#include "opprof/Metrics/Catalogue.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/Twine.h"

#include <cmath>
#include <limits>

using namespace llvm;
using namespace opprof;
using namespace opprof::metrics;

static constexpr double kNotCollected =
    std::numeric_limits<double>::quiet_NaN();

/// Schedulers of a multiprocessor, each with a tensor core, on every
/// architecture that the range profiler knows. Counters of both sum over them,
/// whether they are the `smsp`'s or the `sm`'s.
static constexpr double kSchedulersPerSm = 4;

//===----------------------------------------------------------------------===//
// Counts
//===----------------------------------------------------------------------===//

Counts::Counts(const RawCounters &raw, const DeviceFacts &device,
               const LaunchFacts &launch)
    : launch(launch), raw(raw), device(device),
      time((*this)["gpu__time_duration.sum"]) {
  double own = double(launch.durationNs.value_or(0));
  if (own && time > own) {
    timeStretch = time / own;
    time = own;
  }
}

double Counts::operator[](StringRef name) const {
  auto it = raw.find(name.str());
  return it == raw.end() ? kNotCollected : it->second;
}

double Counts::elapsedCycles() const {
  return (*this)["sm__cycles_elapsed.max"] / timeStretch;
}

static std::optional<double> ratio(double numerator, double denominator) {
  if (!denominator || std::isnan(numerator) || std::isnan(denominator))
    return std::nullopt;
  return numerator / denominator;
}

static std::optional<double> toNumber(std::optional<uint64_t> value) {
  if (!value)
    return std::nullopt;
  return double(*value);
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

namespace raw {
static constexpr StringLiteral kTime = "gpu__time_duration.sum";
static constexpr StringLiteral kDramRead = "dram__bytes_read.sum";
static constexpr StringLiteral kDramWrite = "dram__bytes_write.sum";
static constexpr StringLiteral kDramPct =
    "dram__bytes.avg.pct_of_peak_sustained_elapsed";
static constexpr StringLiteral kL2Pct =
    "lts__t_sectors.avg.pct_of_peak_sustained_elapsed";
static constexpr StringLiteral kL1Pct =
    "l1tex__t_sectors.avg.pct_of_peak_sustained_elapsed";
static constexpr StringLiteral kL1Sectors = "l1tex__t_sectors.sum";
static constexpr StringLiteral kL1Hits = "l1tex__t_sectors_lookup_hit.sum";
static constexpr StringLiteral kL2Tags = "lts__t_tag_requests.sum";
static constexpr StringLiteral kL2Hits = "lts__t_tag_requests_hit.sum";
static constexpr StringLiteral kIssue = "smsp__issue_active.sum";
static constexpr StringLiteral kTensor = "sm__pipe_tensor_cycles_active.sum";
static constexpr StringLiteral kElapsed = "sm__cycles_elapsed.max";
static constexpr StringLiteral kActive = "sm__cycles_active.sum";
static constexpr StringLiteral kWarps = "sm__warps_active.sum";
static constexpr StringLiteral kInstructions = "smsp__inst_executed.sum";
static constexpr StringLiteral kThreads = "smsp__thread_inst_executed.sum";
} // namespace raw

/// The greater of the shares of the time in which schedulers issue and tensor
/// cores work.
static std::optional<double> smThroughput(const Counts &c) {
  double slots = c.elapsedCycles() * c.smCount() * kSchedulersPerSm;
  std::optional<double> issue = ratio(c[raw::kIssue], slots);
  std::optional<double> tensor = ratio(c[raw::kTensor], slots);
  if (!issue || !tensor)
    return std::nullopt;
  return 100 * std::max(*issue, *tensor);
}

static std::optional<double> memoryThroughput(const Counts &c) {
  double dram = c[raw::kDramPct], l2 = c[raw::kL2Pct], l1 = c[raw::kL1Pct];
  if (std::isnan(dram) || std::isnan(l2) || std::isnan(l1))
    return std::nullopt;
  return c.stretch() * std::max({dram, l2, l1});
}

/// A kernel without local memory has no wavefronts of it, whatever was
/// collected.
static std::optional<double> localWavefronts(const Counts &c) {
  return c.launch.localBytes == 0u ? 0 : c[kLocalMemory];
}

// What Nsight Compute's sets collect in their place. Shares of throughput are
// its own breakdowns of more units than the formulas have, and that of the L1
// is of the cycles in which it was active.
namespace other {
static constexpr Substitute kTime[] = {{"gpu__time_duration.avg"},
                                       {"gpu__time_duration.max"}};
static constexpr Substitute kDramRead[] = {{"fbpa__dram_read_bytes.sum"}};
static constexpr Substitute kDramWrite[] = {{"fbpa__dram_write_bytes.sum"}};
static constexpr Substitute kDramPct[] = {
    {"dram__throughput.avg.pct_of_peak_sustained_elapsed"},
    {"gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"}};
static constexpr Substitute kMemoryPct[] = {
    {"gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"}};
static constexpr Substitute kL1Pct[] = {
    {"l1tex__throughput.avg.pct_of_peak_sustained_active"}};
static constexpr Substitute kL2Pct[] = {
    {"lts__throughput.avg.pct_of_peak_sustained_elapsed"}};
static constexpr Substitute kL1Hit[] = {{"l1tex__t_sector_hit_rate.pct"}};
static constexpr Substitute kL2Hit[] = {{"lts__t_sector_hit_rate.pct"}};
static constexpr Substitute kSmPct[] = {
    {"sm__throughput.avg.pct_of_peak_sustained_elapsed"}};
static constexpr Substitute kTensorPct[] = {
    {"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"},
    {"smsp__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"},
    {"sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active"}};
static constexpr Substitute kActive[] = {
    {"sm__cycles_active.avg", 1, /*isMean=*/true}};
static constexpr Substitute kOccupancy[] = {
    {"sm__warps_active.avg.pct_of_peak_sustained_active"}};
static constexpr Substitute kPerIssue[] = {
    {"smsp__average_warp_latency_per_inst_issued.ratio"},
    {"smsp__average_warps_active_per_issue_active.ratio"}};
static constexpr Substitute kIssuePct[] = {
    {"smsp__issue_active.avg.pct_of_peak_sustained_active"},
    {"smsp__issue_active.avg.per_cycle_active", 100}};
static constexpr Substitute kInstructions[] = {{"sm__inst_executed.sum"}};
static constexpr Substitute kIpc[] = {
    {"sm__inst_executed.avg.per_cycle_active"},
    {"smsp__inst_executed.avg.per_cycle_active", kSchedulersPerSm}};
static constexpr Substitute kThreads[] = {
    {"smsp__thread_inst_executed_per_inst_executed.ratio"},
    {"smsp__average_thread_inst_executed_per_inst_executed.ratio"}};
} // namespace other

ArrayRef<Metric> opprof::metrics::getMetrics() {
  using R = std::optional<double>;
  using enum Sum;
  using enum Scope;
  static constexpr StringRef kTime[] = {raw::kTime},
                             kDramRead[] = {raw::kDramRead},
                             kDramWrite[] = {raw::kDramWrite},
                             kDramPct[] = {raw::kDramPct},
                             kMemoryPct[] = {raw::kDramPct, raw::kL2Pct,
                                             raw::kL1Pct},
                             kL1Pct[] = {raw::kL1Pct}, kL2Pct[] = {raw::kL2Pct},
                             kL1Hit[] = {raw::kL1Sectors, raw::kL1Hits},
                             kL2Hit[] = {raw::kL2Tags, raw::kL2Hits},
                             kSmPct[] = {raw::kIssue, raw::kTensor,
                                         raw::kElapsed},
                             kTensorPct[] = {raw::kTensor, raw::kActive},
                             kActive[] = {raw::kActive},
                             kOccupancy[] = {raw::kWarps, raw::kActive},
                             kPerIssue[] = {raw::kWarps, raw::kIssue},
                             kIssuePct[] = {raw::kIssue, raw::kActive},
                             kInstructions[] = {raw::kInstructions},
                             kIpc[] = {raw::kInstructions, raw::kActive},
                             kThreads[] = {raw::kThreads, raw::kInstructions},
                             kLocal[] = {kLocalMemory},
                             kActivePct[] = {raw::kActive, raw::kElapsed};
  static const Metric table[] = {
      {"time_ns", "ns", Amount, Both, kTime,
       [](const Counts &c) -> R { return c.timeNs(); }, other::kTime},
      {"dram_read_bytes", "bytes", Amount, Both, kDramRead,
       [](const Counts &c) -> R { return c[raw::kDramRead]; },
       other::kDramRead},
      {"dram_write_bytes", "bytes", Amount, Both, kDramWrite,
       [](const Counts &c) -> R { return c[raw::kDramWrite]; },
       other::kDramWrite},
      {"dram_throughput_pct", "%", Rate, Both, kDramPct,
       [](const Counts &c) -> R { return c.stretch() * c[raw::kDramPct]; },
       other::kDramPct},
      {"memory_throughput_pct", "%", Rate, Both, kMemoryPct, memoryThroughput,
       other::kMemoryPct},
      {"l1_throughput_pct", "%", Rate, Both, kL1Pct,
       [](const Counts &c) -> R { return c.stretch() * c[raw::kL1Pct]; },
       other::kL1Pct},
      {"l2_throughput_pct", "%", Rate, Both, kL2Pct,
       [](const Counts &c) -> R { return c.stretch() * c[raw::kL2Pct]; },
       other::kL2Pct},
      {"l1_hit_pct", "%", Rate, Both, kL1Hit,
       [](const Counts &c) {
         return ratio(100 * c[raw::kL1Hits], c[raw::kL1Sectors]);
       },
       other::kL1Hit},
      {"l2_hit_pct", "%", Rate, Both, kL2Hit,
       [](const Counts &c) {
         return ratio(100 * c[raw::kL2Hits], c[raw::kL2Tags]);
       },
       other::kL2Hit},
      {"sm_throughput_pct", "%", Rate, Both, kSmPct, smThroughput,
       other::kSmPct},
      {"tensor_pipe_pct", "%", Rate, Both, kTensorPct,
       [](const Counts &c) {
         return ratio(100 * c[raw::kTensor],
                      c[raw::kActive] * kSchedulersPerSm);
       },
       other::kTensorPct},
      {"active_cycles", "cycles", Amount, Both, kActive,
       [](const Counts &c) -> R { return c[raw::kActive]; }, other::kActive},
      {"achieved_occupancy_pct", "%", Rate, Both, kOccupancy,
       [](const Counts &c) {
         return ratio(100 * c[raw::kWarps], c[raw::kActive] * c.warpsPerSM());
       },
       other::kOccupancy},
      {"warp_cycles_per_issue", "cycles", Rate, Both, kPerIssue,
       [](const Counts &c) { return ratio(c[raw::kWarps], c[raw::kIssue]); },
       other::kPerIssue},
      {"issue_active_pct", "%", Rate, Both, kIssuePct,
       [](const Counts &c) {
         return ratio(100 * c[raw::kIssue], c[raw::kActive] * kSchedulersPerSm);
       },
       other::kIssuePct},
      {"instructions", "", Amount, Both, kInstructions,
       [](const Counts &c) -> R { return c[raw::kInstructions]; },
       other::kInstructions},
      {"ipc", "", Rate, Both, kIpc,
       [](const Counts &c) {
         return ratio(c[raw::kInstructions], c[raw::kActive]);
       },
       other::kIpc},
      {"threads_per_warp", "", Rate, Both, kThreads,
       [](const Counts &c) {
         return ratio(c[raw::kThreads], c[raw::kInstructions]);
       },
       other::kThreads},
      {"registers",
       "",
       Limit,
       Launch,
       {},
       [](const Counts &c) { return toNumber(c.launch.registers); }},
      {"dynamic_shared_bytes",
       "bytes",
       Limit,
       Launch,
       {},
       [](const Counts &c) { return toNumber(c.launch.dynamicShared); }},
      {"local_memory_wavefronts", "", Amount, Both, kLocal, localWavefronts},
      // How much of the time the multiprocessors had work at all.
      {"sm_active_pct", "%", Rate, Step, kActivePct,
       [](const Counts &c) {
         return ratio(100 * c[raw::kActive], c[raw::kElapsed] * c.smCount());
       }},
  };
  return table;
}

const Metric *opprof::metrics::findMetric(StringRef name) {
  for (const Metric &metric : getMetrics())
    if (metric.name == name)
      return &metric;
  return nullptr;
}

Sum opprof::metrics::sumOf(StringRef name) {
  if (const Metric *metric = findMetric(name))
    return metric->sum;
  if (!name.contains("__"))
    return Sum::Rate;
  return name.ends_with(".sum")   ? Sum::Amount
         : name.ends_with(".max") ? Sum::Limit
                                  : Sum::Rate;
}

//===----------------------------------------------------------------------===//
// Sets
//===----------------------------------------------------------------------===//

/// Every raw counter that values are made of, but for local memory's.
static std::vector<std::string> getDefaultCounters() {
  std::vector<std::string> counters;
  for (const Metric &metric : getMetrics())
    for (StringRef counter : metric.needs)
      if (counter != kLocalMemory && !is_contained(counters, counter))
        counters.push_back(counter.str());
  return counters;
}

ArrayRef<MetricSet> opprof::metrics::getMetricSets() {
  static const std::vector<MetricSet> sets = [] {
    std::vector<MetricSet> sets;
    auto add = [&](StringRef name, std::initializer_list<StringRef> beside) {
      MetricSet &set = sets.emplace_back();
      set.name = name;
      set.counters = getDefaultCounters();
      for (StringRef counter : beside)
        set.counters.push_back(counter.str());
    };
    add("default", {});
    add("roofline", {"sm__inst_executed_pipe_tensor.sum",
                     "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum",
                     "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum",
                     "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
                     "lts__t_bytes.sum", "l1tex__t_bytes.sum"});
    add("memory",
        {kLocalMemory, "lts__t_sectors_op_read.sum",
         "lts__t_sectors_op_write.sum", "lts__t_sectors_lookup_hit.sum",
         "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
         "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
         "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
         "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
         "l1tex__data_bank_conflicts_pipe_lsu.sum"});
    add("stalls",
        {"smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active."
         "ratio",
         "smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active."
         "ratio",
         "smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_"
         "active.ratio",
         "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio",
         "smsp__average_warps_issue_stalled_lg_throttle_per_issue_active.ratio",
         "smsp__average_warps_issue_stalled_mio_throttle_per_issue_active."
         "ratio",
         "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio",
         "smsp__average_warps_issue_stalled_not_selected_per_issue_active."
         "ratio"});
    add("pipes",
        {"sm__inst_executed_pipe_alu.sum", "sm__inst_executed_pipe_fma.sum",
         "sm__inst_executed_pipe_fp64.sum", "sm__inst_executed_pipe_xu.sum",
         "sm__inst_executed_pipe_lsu.sum",
         "sm__inst_executed_pipe_tensor.sum"});
    return sets;
  }();
  return sets;
}

bool opprof::metrics::isFindingCounter(StringRef name) {
  static const StringSet<> known = [] {
    StringSet<> known;
    for (const MetricSet &set : getMetricSets().drop_front())
      for (const std::string &counter : set.counters)
        known.insert(counter);
    for (const std::string &counter : getDefaultCounters())
      known.erase(counter);
    known.erase(kLocalMemory);
    return known;
  }();
  return known.contains(name);
}

/// Up to three of the known names that are near to `name`, the nearest first.
static std::vector<StringRef> findNearNames(StringRef name) {
  std::vector<StringRef> known;
  for (const MetricSet &set : getMetricSets())
    known.push_back(set.name);
  for (const MetricSet &set : getMetricSets())
    for (const std::string &counter : set.counters)
      if (!is_contained(known, StringRef(counter)))
        known.push_back(counter);
  std::vector<std::pair<unsigned, StringRef>> near;
  for (StringRef candidate : known) {
    unsigned longest = std::max(name.size(), candidate.size());
    unsigned distance = name.edit_distance(candidate);
    if (2 * distance <= longest)
      near.push_back({distance, candidate});
  }
  llvm::stable_sort(near, llvm::less_first());
  std::vector<StringRef> result;
  for (auto [distance, candidate] : ArrayRef(near).take_front(3))
    result.push_back(candidate);
  return result;
}

Expected<std::vector<std::string>> opprof::metrics::resolve(StringRef names) {
  std::string sets =
      "sets: " +
      llvm::join(llvm::map_range(getMetricSets(),
                                 [](const MetricSet &set) { return set.name; }),
                 ", ");
  std::vector<std::string> counters;
  auto add = [&](StringRef counter) {
    if (!is_contained(counters, counter))
      counters.push_back(counter.str());
  };
  SmallVector<StringRef> parts;
  names.split(parts, ',');
  for (StringRef part : parts) {
    part = part.trim();
    if (part.empty())
      continue;
    const auto *set = llvm::find_if(getMetricSets(), [&](const MetricSet &set) {
      return set.name == part;
    });
    if (set != getMetricSets().end()) {
      for (const std::string &counter : set->counters)
        add(counter);
      continue;
    }
    if (part.contains("__")) {
      add(part);
      continue;
    }
    std::string near = llvm::join(findNearNames(part), ", ");
    return createStringError(
        "'" + part + "' is neither a set of metrics nor a metric of CUPTI" +
        (near.empty() ? "" : "; near names: " + near) + "\n  " + sets +
        "; metrics have a unit before their name, as dram__bytes_read.sum");
  }
  if (counters.empty())
    return createStringError("no metric is named\n  " + sets);
  return counters;
}

std::vector<std::string>
opprof::metrics::getLocalMemoryCounters(ArrayRef<std::string> counters) {
  if (counters != ArrayRef<std::string>(getDefaultCounters()))
    return {};
  return {kLocalMemory.str()};
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

/// Why there is no value that is made of these counters.
static std::string explainAbsence(const Counts &counts,
                                  ArrayRef<StringRef> needs) {
  SmallVector<StringRef> missing;
  for (StringRef counter : needs)
    if (std::isnan(counts[counter]))
      missing.push_back(counter);
  if (!missing.empty())
    return llvm::join(missing, ", ") + " was not collected";
  return needs.empty() ? "the launch is not in the timeline"
                       : "nothing was done that it could be a share of";
}

/// What a counter that was collected in place of others says of the value.
static double substitute(const Metric &metric, const Counts &counts) {
  for (const Substitute &other : metric.substitutes) {
    double value = counts[other.counter] * other.factor;
    if (other.isMean)
      value *= counts.smCount() ? counts.smCount() : kNotCollected;
    if (!std::isnan(value))
      return value;
  }
  return kNotCollected;
}

static CounterRow deriveIn(Scope scope, const Counts &counts) {
  CounterRow row;
  for (const Metric &metric : getMetrics()) {
    if (metric.scope != scope && metric.scope != Scope::Both)
      continue;
    std::optional<double> value = metric.formula(counts);
    if (!value || std::isnan(*value))
      value = substitute(metric, counts);
    if (!std::isnan(*value))
      row.values[metric.name.str()] = *value;
    else
      row.absent[metric.name.str()] = explainAbsence(counts, metric.needs);
  }
  return row;
}

CounterRow opprof::metrics::derive(const RawCounters &raw,
                                   const DeviceFacts &device,
                                   const LaunchFacts &launch) {
  return deriveIn(Scope::Launch, Counts(raw, device, launch));
}

CounterRow opprof::metrics::deriveStep(const RawCounters &raw,
                                       const DeviceFacts &device,
                                       std::optional<uint64_t> localBytes) {
  LaunchFacts launch;
  launch.localBytes = localBytes;
  return deriveIn(Scope::Step, Counts(raw, device, launch));
}

std::optional<double>
opprof::metrics::getSmClockMHz(const RawCounters &counters) {
  auto find = [&](StringRef name) {
    auto it = counters.find(name.str());
    return it == counters.end() ? kNotCollected : it->second;
  };
  // Both cover the range, whatever the kernel's own time.
  std::optional<double> clock =
      ratio(1e3 * find(raw::kElapsed), find(raw::kTime));
  return clock == 0.0 ? std::nullopt : clock;
}
