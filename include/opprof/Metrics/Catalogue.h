// The catalogue of hardware counters: which raw counters each value is made of,
// by which formula, and what it becomes over several kernels. A row of one
// table is all that a value needs (docs/how-to/add-a-metric.md).

#ifndef OPPROF_METRICS_CATALOGUE_H
#define OPPROF_METRICS_CATALOGUE_H

#include "opprof/Support/Recording.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace opprof::metrics {

/// How a value of several kernels is made of theirs.
enum class Sum : uint8_t {
  Amount, ///< their sum
  Limit,  ///< the largest of them
  Rate,   ///< their mean, weighted by time
};

/// What ranges have a value.
enum class Scope : uint8_t {
  Launch, ///< one launch: what a kernel is launched with
  Step,   ///< a whole step: what only a range with gaps in it has
  Both,
};

/// Raw counters of a range, by CUPTI's names.
using RawCounters = std::map<std::string, double>;

/// What formulas need to know of the device.
struct DeviceFacts {
  uint64_t smCount = 0;
  uint64_t warpsPerSM = 0;
};

/// What the timeline says of a launch.
struct LaunchFacts {
  std::optional<uint64_t> registers;
  std::optional<uint64_t> dynamicShared;
  /// Bytes a thread.
  std::optional<uint64_t> localBytes;
  /// The kernel's own time. A range that is pushed and popped round a launch is
  /// some microseconds longer than its kernel, while its counts are the
  /// kernel's: values that are taken over the range's time are put on this.
  std::optional<int64_t> durationNs;
};

/// What the formula of a value is computed from.
class Counts {
public:
  Counts(const RawCounters &raw, const DeviceFacts &device,
         const LaunchFacts &launch);

  /// A raw counter; not a number where it was not collected.
  double operator[](llvm::StringRef name) const;
  /// The time of the range, or of its kernel where that is less.
  double timeNs() const { return time; }
  /// The range's time over timeNs().
  double stretch() const { return timeStretch; }
  /// Cycles that a multiprocessor had in timeNs().
  double elapsedCycles() const;
  double smCount() const { return double(device.smCount); }
  double warpsPerSM() const { return double(device.warpsPerSM); }

  const LaunchFacts &launch;

private:
  const RawCounters &raw;
  const DeviceFacts &device;
  double time;
  double timeStretch = 1;
};

/// A counter that is a value by itself, which tools collect in place of those
/// that the value is made of.
struct Substitute {
  llvm::StringLiteral counter;
  /// The value over the counter.
  double factor = 1;
  /// The counter is the mean of the multiprocessors, and the value their sum.
  bool isMean = false;
};

/// A value that is made of raw counters.
struct Metric {
  llvm::StringRef name;
  /// "ns", "bytes", "%", "cycles"; empty for a plain number.
  llvm::StringRef unit;
  Sum sum;
  Scope scope;
  llvm::ArrayRef<llvm::StringRef> needs;
  /// Absent, or not a number, where it can't be made.
  std::optional<double> (*formula)(const Counts &counts);
  /// The first that was collected stands in where the formula gives nothing.
  llvm::ArrayRef<Substitute> substitutes = {};
};

/// All values, in the order in which they are documented.
llvm::ArrayRef<Metric> getMetrics();

/// Null where `name` is no value of the catalogue.
const Metric *findMetric(llvm::StringRef name);

/// Of a value of the catalogue, or of a raw counter, whose name says it.
Sum sumOf(llvm::StringRef name);

/// Raw counters that are asked for together.
struct MetricSet {
  llvm::StringRef name;
  std::vector<std::string> counters;
};
llvm::ArrayRef<MetricSet> getMetricSets();

/// Whether a set other than the default one has the counter: findings read it
/// by its name, and no value is made of it.
bool isFindingCounter(llvm::StringRef name);

/// Collected beside the default set only when a kernel of the step has local
/// memory: otherwise it is zero by construction.
inline constexpr llvm::StringLiteral kLocalMemory =
    "l1tex__t_output_wavefronts_pipe_lsu_mem_local.sum";

/// The raw counters that `names` asks for: names of sets, or of CUPTI's
/// metrics, or both, separated by commas. Each is there once, in order.
llvm::Expected<std::vector<std::string>> resolve(llvm::StringRef names);

/// Those that are collected beside `counters` where a kernel of the step has
/// local memory: kLocalMemory beside the default set alone.
std::vector<std::string>
getLocalMemoryCounters(llvm::ArrayRef<std::string> counters);

/// The values of one launch, and the reason for each that is absent.
CounterRow derive(const RawCounters &raw, const DeviceFacts &device,
                  const LaunchFacts &launch);

/// The same of one range over a whole step; `localBytes` is 0 where none of its
/// kernels has local memory.
CounterRow deriveStep(const RawCounters &raw, const DeviceFacts &device,
                      std::optional<uint64_t> localBytes);

/// The clock of the multiprocessors over a range, whatever ran in it; absent
/// where it was not counted.
std::optional<double> getSmClockMHz(const RawCounters &counters);

} // namespace opprof::metrics

#endif // OPPROF_METRICS_CATALOGUE_H
