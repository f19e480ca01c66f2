// What a recording and a profile made of it have in common: devices, what runs
// on them, their memory and counters.

#ifndef OPPROF_SUPPORT_RECORDING_H
#define OPPROF_SUPPORT_RECORDING_H

#include "llvm/ADT/IntrusiveRefCntPtr.h"
#include "llvm/ADT/StringRef.h"

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

namespace opprof {

/// What an activity of a device is.
enum class ActivityKind : uint8_t { Kernel, Memcpy, Memset };
llvm::StringRef stringify(ActivityKind kind);
std::optional<ActivityKind> parseActivityKind(llvm::StringRef text);

/// Whether a copy of that name moves pages of unified memory, by no call.
inline bool isOfPages(llvm::StringRef copy) {
  return copy.ends_with("(Unified)");
}

/// The kind of a source that has counters and no timeline: Nsight Compute.
inline constexpr llvm::StringLiteral kNcuKind = "ncu";

/// What all durations of a file may add up to, some 70 years: readers refuse
/// more, so that no sum or share overflows.
constexpr int64_t kMaxTotalNs = int64_t(1) << 61;

/// What a device was measured to do (`opprof ceilings`), in bytes or
/// floating-point operations a second; 0 where it was not measured.
struct MeasuredRates {
  /// As PyTorch calls it.
  std::string device;
  double memory = 0;
  double fp32 = 0;
  double tf32 = 0;
  double bf16 = 0;
  double fp16 = 0;

  bool operator==(const MeasuredRates &other) const = default;
};

struct Device {
  int64_t id = 0;
  std::string name;
  /// "cuda" or "cpu".
  std::string kind;
  std::optional<uint64_t> smCount;
  std::optional<uint64_t> totalMemory;
  std::optional<uint64_t> maxThreadsPerSM;
  std::optional<uint64_t> registersPerSM;
  std::optional<uint64_t> sharedPerSM;
  std::optional<uint64_t> warpSize;
  std::optional<std::array<uint64_t, 2>> computeCapability;
  /// Union of the kernel intervals over all streams, inside the wall window.
  std::optional<int64_t> busyNs;
  std::optional<MeasuredRates> measured;

  /// No device has 0 of anything: files write it for what was not asked.
  void dropZeros();
};

/// How a kernel was launched, and how that fills the device.
struct LaunchConfig {
  std::optional<std::array<uint64_t, 3>> grid;
  std::optional<std::array<uint64_t, 3>> block;
  std::optional<uint64_t> registers;
  std::optional<uint64_t> sharedMemory;
  /// Bytes a block, the parts of `sharedMemory`.
  std::optional<uint64_t> staticShared;
  std::optional<uint64_t> dynamicShared;
  /// Bytes a thread, of registers that were spilled and arrays.
  std::optional<uint64_t> localMemory;
  std::optional<double> blocksPerSM;
  std::optional<double> warpsPerSM;
  std::optional<double> occupancyPct;

  bool operator==(const LaunchConfig &other) const;
};

/// A configuration that many kernels have together: there are few of them, and
/// they are larger than all else that is known of a kernel.
class SharedConfig {
public:
  SharedConfig() = default;
  SharedConfig(const SharedConfig &) = default;
  // LLVM's pointer does not say that it throws nothing, without which vectors
  // that grow copy.
  SharedConfig(SharedConfig &&other) noexcept : held(std::move(other.held)) {}
  SharedConfig &operator=(const SharedConfig &) = default;
  SharedConfig &operator=(SharedConfig &&other) noexcept {
    held = std::move(other.held);
    return *this;
  }

  const LaunchConfig &operator*() const;
  const LaunchConfig *operator->() const { return &**this; }
  /// For one activity alone to write to.
  LaunchConfig &own();

private:
  struct Counted : llvm::ThreadSafeRefCountedBase<Counted> {
    LaunchConfig config;
  };
  llvm::IntrusiveRefCntPtr<Counted> held;
};

/// Keeps one of equal configurations.
class ConfigPool {
public:
  /// Nothing is known: nothing is kept.
  SharedConfig keep(const LaunchConfig &config);

private:
  std::unordered_map<size_t, SharedConfig> kept;
};

/// A number that may not be known, in the room of the number alone: there are
/// as many of them as events. `none` is one that no recorder writes. Used as an
/// optional is.
template <typename T, T none> class OptionalNumber {
public:
  OptionalNumber() = default;
  OptionalNumber(T number) : number(number) {}
  OptionalNumber(std::nullopt_t) {}
  OptionalNumber(std::optional<T> other) : number(other.value_or(none)) {}

  explicit operator bool() const { return has_value(); }
  operator std::optional<T>() const {
    return *this ? std::optional(number) : std::nullopt;
  }
  // NOLINTBEGIN(readability-identifier-naming): as std::optional has them.
  bool has_value() const { return number != none; }
  T value_or(T otherwise) const { return *this ? number : otherwise; }
  // NOLINTEND(readability-identifier-naming)
  T operator*() const { return number; }
  void reset() { number = none; }

  friend bool operator==(OptionalNumber a, OptionalNumber b) {
    return a.number == b.number;
  }

private:
  T number = none;
};
/// What recorders count calls and functions with, and amounts.
using OptionalId =
    OptionalNumber<uint64_t, std::numeric_limits<uint64_t>::max()>;
/// In a list of the trace or profile.
using OptionalPlace =
    OptionalNumber<uint32_t, std::numeric_limits<uint32_t>::max()>;
/// A time, or another number with a sign.
using OptionalSigned =
    OptionalNumber<int64_t, std::numeric_limits<int64_t>::min()>;

/// What a recording says of a kernel, copy or memset that a device ran.
struct DeviceActivity {
  ActivityKind kind = ActivityKind::Kernel;
  /// Lives in the trace or profile that the activity is of.
  llvm::StringRef name;
  int64_t device = 0;
  OptionalSigned stream;
  int64_t startNs = 0;
  int64_t durationNs = 0;
  /// The node of the CUDA graph that this is a replay of.
  OptionalId graphNode;
  SharedConfig config;
  /// Of a copy or memset.
  OptionalId bytes;

  int64_t endNs() const { return startNs + durationNs; }
};

/// What hardware counters said of one launch.
struct CounterRow {
  /// By name; docs/capture.md has their formulas.
  std::map<std::string, double> values;
  /// Why others are not there, by name.
  std::map<std::string, std::string> absent;
};

/// What hardware counters said of a whole step, in one range over all of it.
struct StepCounters {
  CounterRow row;
  /// What the kernels of the step, counted one by one, add up to: of the
  /// amounts, those that every kernel has. Empty where kernels were left out.
  std::map<std::string, double> kernelSums;
  /// Kernels that are in the sums, and how many of them were counted
  /// themselves.
  uint64_t summedKernels = 0;
  uint64_t countedKernels = 0;
};

/// Time that the profiler itself took, on the host, or that CUPTI counts with
/// it.
struct ProfilerOverhead {
  llvm::StringRef kind;
  int64_t startNs = 0;
  int64_t durationNs = 0;

  /// Whether it goes away with the profiler: CUDA compiles, loads functions and
  /// waits for room in its queue without one too.
  bool isProfilersOwn() const;
};

/// Memory of a device that the process allocated while it was recorded. What it
/// held before is not known.
struct MemoryUse {
  int64_t device = 0;
  uint64_t allocations = 0;
  uint64_t releases = 0;
  uint64_t allocatedBytes = 0;
  /// The most that was held at one time, and when.
  uint64_t peakBytes = 0;
  int64_t peakTimeNs = 0;
};

} // namespace opprof

#endif // OPPROF_SUPPORT_RECORDING_H
