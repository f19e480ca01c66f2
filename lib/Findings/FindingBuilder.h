// What the rules for findings share.

#ifndef OPPROF_LIB_FINDINGS_FINDINGBUILDER_H
#define OPPROF_LIB_FINDINGS_FINDINGBUILDER_H

#include "Simulation.h"

#include "opprof/Profile/Profile.h"
#include "opprof/Support/Intervals.h"
#include "opprof/Support/Units.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"

namespace opprof::findings {

/// What hardware counters say of some kernels.
class Counted {
public:
  Counted(const profile::Profile &profile,
          llvm::ArrayRef<const profile::Activity *> kernels);

  /// Mean of a rate, weighted by time, over the kernels that have it.
  std::optional<double> rate(llvm::StringRef name) const;
  /// Sum of an amount; absent unless all of the kernels have it.
  std::optional<double> sum(llvm::StringRef name) const;

  /// Time of the kernels that were counted, and of those among them whose
  /// counters are another launch's.
  int64_t timeNs = 0;
  int64_t inferredNs = 0;

private:
  const profile::Profile &profile;
  std::vector<const profile::Activity *> counted;
  bool all = true;
};

/// Steady kernels of one launch, or of one node outside of launch maps, or of
/// one name.
struct WorkGroup {
  std::optional<uint32_t> launch;
  std::vector<const profile::Activity *> kernels;
  int64_t timeNs = 0;
  const profile::Activity *longest = nullptr;
};

/// The class by the share of their peaks that compute and memory reach; absent
/// where a share was not counted.
std::optional<profile::Bound> boundByCounters(const Counted &counted);

/// A profile with the sums that several rules use.
class Context {
public:
  explicit Context(const profile::Profile &profile);

  const profile::Profile &profile;
  /// Kernels of steady steps on `device`, in order of their start.
  std::vector<const profile::Activity *> kernels;
  std::vector<const profile::Activity *> copies;
  /// The device with most busy time; null when nothing ran.
  const Device *device = nullptr;
  bool isCPU = false;
  /// The span that shares are stated of, and the steady steps in it: 1 where
  /// the profile has no steps.
  Interval window = {0, 0};
  int64_t steps = 1;
  /// When `device` ran kernels, and kernels or copies: sorted, disjoint, in the
  /// window.
  std::vector<Interval> busy, occupied;
  int64_t kernelTimeNs = 0;

  /// Between the steps of a capture, which is nobody's time.
  std::vector<Interval> between;

  int64_t wall() const {
    return window.second - window.first - sumLengths(between);
  }
  /// The same without what held the program up while it was recorded, on a CPU.
  int64_t undisturbedNs() const {
    return profile.summary.undisturbedNs.value_or(wall());
  }
  /// What of a time in which a CPU ran nothing is the program's own.
  int64_t ownIdle(int64_t idleNs) const {
    const int64_t all = sumLengths(idle());
    const int64_t own = profile.summary.undisturbedIdleNs.value_or(all);
    return own < all ? static_cast<int64_t>(double(idleNs) * double(own) /
                                            double(all))
                     : idleNs;
  }
  /// When `device` did nothing in the steps, sorted and disjoint.
  std::vector<Interval> idle() const { return idleBeside(occupied); }
  std::vector<Interval> idleOf(int64_t device) const {
    return idleBeside(
        occupiedTimes(device, runningTimes(profile.kernels, device, window)));
  }
  /// And another one, which was `occupied` then.
  std::vector<Interval> idleBeside(llvm::ArrayRef<Interval> occupied) const {
    return subtract(gapsIn(window, occupied), between);
  }
  /// When a device ran kernels or copies, of which `kernels` are the times of
  /// the kernels: sorted, disjoint, in the window.
  std::vector<Interval> occupiedTimes(int64_t device,
                                      std::vector<Interval> kernels) const;
  int64_t perStep(int64_t total) const { return total / steps; }
  int64_t perStep(double total) const {
    return static_cast<int64_t>(total / static_cast<double>(steps));
  }

  /// When the host was in calls of compiled graphs, sorted and disjoint.
  std::vector<Interval> compiledCalls() const;

  /// Whether it ran in the window, in a steady step.
  bool isInSteps(const profile::Activity &activity) const;
  /// Kernels of steady steps on a device, in order of their start.
  std::vector<const profile::Activity *> kernelsOn(int64_t device) const;
  /// Devices that ran kernels in the window, in their order.
  std::vector<int64_t> devicesWithKernels() const;

  /// What the rules found, which no rule reads.
  std::vector<profile::Finding> findings;
  /// What the program is longer for the kernel: on a CPU an operator's time and
  /// what the program takes to call the next one, which goes with it. Where the
  /// system took the processor away meanwhile, that is no part of it, nor is
  /// what recording took.
  int64_t spanOf(const profile::Activity &kernel) const {
    return isCPU ? spans[placeOf(kernel)] : kernel.durationNs;
  }

  /// The steps on `device`, to be played without some of what they do; null on
  /// a CPU, and where calls are not known.
  const Simulation *simulation() const;

  /// Adds a finding and returns it.
  profile::Finding &add(profile::Evidence evidence);
  /// The place of one of the kernels.
  uint32_t placeOf(const profile::Activity &kernel) const {
    return &kernel - profile.kernels.data();
  }

  /// Longest first.
  std::vector<WorkGroup> groupKernels() const;

  /// Whether it is a collective among devices, by its name.
  bool isCollective(const profile::Activity &kernel) const;

private:
  void measureSpans();

  /// On a CPU, by the place of a kernel.
  std::vector<int64_t> spans;
  /// Made when it is asked for.
  mutable std::optional<Simulation> played;
  /// By where the name lies, which is there once.
  mutable llvm::DenseMap<const char *, bool> collectives;
};

/// Steady runs of a launch whose steady kernels take `timeNs`: at least one.
/// Launches with several kernels have them in every run. Absent where the
/// profile has no runs of it.
std::optional<double> countRuns(const profile::LaunchRecord &launch,
                                int64_t timeNs);

/// Adds those of `nodes` that the finding does not have.
void addNodes(profile::Finding &finding, llvm::ArrayRef<uint32_t> nodes);

/// Gives operators without a graph their work, by the model of costs.
void costOperators(profile::Profile &profile);

/// PyTorch's own operator that does the work of `op` with the same inputs
/// first, "linear"; empty where none is known.
llvm::StringRef nameOfATen(llvm::StringRef op);

/// Attention that the fused kernels refused, where operators are known.
void addUnfusedAttention(Context &context);
/// What libraries turn from one layout into the other for convolutions.
void addLayoutConversions(Context &context);

/// How much of the device's arithmetic the program makes use of.
void addGoodput(Context &context);

void addTimelineFindings(Context &context);
void addRooflineFindings(Context &context);
/// Gives nodes their arithmetic intensity and their share of the roof.
void setRooflineMetrics(const Context &context, profile::Profile &profile);
void addCounterFindings(Context &context);
void addLineFindings(Context &context);

} // namespace opprof::findings

#endif // OPPROF_LIB_FINDINGS_FINDINGBUILDER_H
