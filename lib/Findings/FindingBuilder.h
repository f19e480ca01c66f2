//===- FindingBuilder.h - What the rules for findings share -----*- C++ -*-===//

#ifndef OPPROF_FINDINGS_FINDINGBUILDER_H
#define OPPROF_FINDINGS_FINDINGBUILDER_H

#include "opprof/Profile/Profile.h"

#include "llvm/ADT/ArrayRef.h"

namespace opprof::findings {

using Interval = std::pair<int64_t, int64_t>;

/// Sorted and disjoint.
std::vector<Interval> unite(std::vector<Interval> intervals);
/// What of `window` is in none of `covered`, which is sorted and disjoint.
std::vector<Interval> gapsIn(Interval window, llvm::ArrayRef<Interval> covered);
/// What of `intervals` lies outside of `covered`; both sorted and disjoint.
std::vector<Interval> subtract(llvm::ArrayRef<Interval> intervals,
                               llvm::ArrayRef<Interval> covered);
/// What two sorted, disjoint lists have in common.
std::vector<Interval> intersect(llvm::ArrayRef<Interval> a,
                                llvm::ArrayRef<Interval> b);
int64_t sumLengths(llvm::ArrayRef<Interval> intervals);

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

/// Classes by the share of their peaks that compute and memory reach, from
/// counters.
enum class Bound : uint8_t { Compute, Memory, Latency, Launch };
constexpr size_t numBounds = 4;
llvm::StringRef stringify(Bound bound);
/// Absent where a share was not counted.
std::optional<Bound> boundByCounters(const Counted &counted);

/// A profile with the sums that several rules use.
class Context {
public:
  explicit Context(profile::Profile &profile);

  profile::Profile &profile;
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
  bool hasSteps = false;
  /// Kernels alone, and kernels with copies: sorted, disjoint, in the window.
  std::vector<Interval> busy, occupied;
  int64_t kernelTimeNs = 0;

  /// Between the steps of a capture, which is nobody's time.
  std::vector<Interval> between;

  int64_t wall() const {
    return window.second - window.first - sumLengths(between);
  }
  /// When the device did nothing in the steps, sorted and disjoint.
  std::vector<Interval> idle() const {
    return subtract(gapsIn(window, occupied), between);
  }
  int64_t perStep(int64_t total) const { return total / steps; }
  int64_t perStep(double total) const {
    return static_cast<int64_t>(total / static_cast<double>(steps));
  }

  /// What figures per step are of: "a step", or "the capture" where the
  /// profile has no steps.
  std::string span() const;
  /// How they are stated: "3 ms a step", or "3 ms in all".
  llvm::StringRef each() const { return hasSteps ? "a step" : "in all"; }

  /// Adds a finding and returns it.
  profile::Finding &add(llvm::StringRef id);

  /// Longest first.
  std::vector<WorkGroup> groupKernels() const;
};

/// "543.2 µs".
std::string formatTime(int64_t nanoseconds);
/// "61.2 %".
std::string formatPercent(double part, double whole);
double percentValue(double part, double whole);
/// "launch" or "launches".
std::string formatCount(uint64_t number, llvm::StringRef singular,
                        llvm::StringRef plural);
/// `text`, cut after `length` bytes at most.
std::string shorten(llvm::StringRef text, size_t length);
/// A kernel by its node and line of the user's code, or else by its name.
std::string describe(const profile::Profile &profile,
                     const profile::Activity &kernel);
std::string describe(const profile::Profile &profile,
                     const profile::LaunchRecord &launch);
std::string describe(const profile::Profile &profile, const WorkGroup &group);
/// A group for a finding's evidence: its launch or node, kernel and time.
llvm::json::Object toEvidence(const Context &context, const WorkGroup &group);
/// Adds nodes of the group to a finding.
void addNodes(profile::Finding &finding, const profile::Profile &profile,
              const WorkGroup &group);

void addTimelineFindings(Context &context);
void addRooflineFindings(Context &context);
void addCounterFindings(Context &context);

} // namespace opprof::findings

#endif // OPPROF_FINDINGS_FINDINGBUILDER_H
