//===- FindingBuilder.h - What the rules for findings share -----*- C++ -*-===//

#ifndef OPPROF_LIB_ANALYSIS_FINDINGS_FINDINGBUILDER_H
#define OPPROF_LIB_ANALYSIS_FINDINGS_FINDINGBUILDER_H

#include "opprof/Profile/Profile.h"

#include "llvm/ADT/ArrayRef.h"

namespace opprof::findings {

using Interval = std::pair<int64_t, int64_t>;

/// Sorted and disjoint.
std::vector<Interval> unite(std::vector<Interval> intervals);
/// What of `window` is in none of `covered`, which is sorted and disjoint.
std::vector<Interval> gapsIn(Interval window, llvm::ArrayRef<Interval> covered);
/// What two sorted, disjoint lists have in common.
std::vector<Interval> intersect(llvm::ArrayRef<Interval> a,
                                llvm::ArrayRef<Interval> b);
int64_t sumLengths(llvm::ArrayRef<Interval> intervals);

/// A profile with the sums that several rules use.
class Context {
public:
  explicit Context(profile::Profile &profile);

  profile::Profile &profile;
  /// Kernels of steady steps on `device`, in order of their start.
  std::vector<const profile::Activity *> kernels;
  std::vector<const profile::Activity *> copies;
  /// The device with most busy time; null when nothing ran.
  const profile::Device *device = nullptr;
  bool isCPU = false;
  /// The span that shares are stated of, and the steady steps in it: 1 where
  /// the profile has no steps.
  Interval window = {0, 0};
  int64_t steps = 1;
  bool hasSteps = false;
  /// Kernels alone, and kernels with copies: sorted, disjoint, in the window.
  std::vector<Interval> busy, occupied;
  int64_t kernelTimeNs = 0;

  int64_t wall() const { return window.second - window.first; }
  int64_t perStep(int64_t total) const { return total / steps; }
  int64_t perStep(double total) const {
    return static_cast<int64_t>(total / static_cast<double>(steps));
  }

  /// Adds a finding and returns it.
  profile::Finding &add(llvm::StringRef id);
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

void addTimelineFindings(Context &context);
void addRooflineFindings(Context &context);

} // namespace opprof::findings

#endif // OPPROF_LIB_ANALYSIS_FINDINGS_FINDINGBUILDER_H
