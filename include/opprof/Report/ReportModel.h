// What a report shows of a profile: sums by module, by class and by kind of
// kernel, and the slowest nodes. The terminal page and the HTML page print the
// same model.

#ifndef OPPROF_REPORT_REPORTMODEL_H
#define OPPROF_REPORT_REPORTMODEL_H

#include "opprof/Profile/Profile.h"
#include "llvm/ADT/ArrayRef.h"

#include <string>
#include <vector>

namespace opprof::report {

/// A sum of kernel time under one name. Times are totals of the window.
struct TimeRow {
  std::string name;
  /// What stands behind the name: the modules of a group, the labels of a
  /// class.
  std::string detail;
  int64_t kernelTimeNs = 0;
  /// Kernels that ran in all steps, or for a class its partitions.
  uint64_t count = 0;
};

struct NodeRow {
  const profile::Node *node = nullptr;
  /// The kernel that took most of its time.
  llvm::StringRef kernel;
  uint64_t kernelRuns = 0;
  /// The least sure of the joins that its time rests on.
  profile::Confidence confidence = profile::Confidence::High;
};

/// Nodes that stand at the same place of repeated modules: same source line,
/// same group of modules, same name but for its number.
struct NodeGroup {
  /// The slowest of them.
  NodeRow slowest;
  uint64_t count = 1;
  int64_t kernelTimeNs = 0;
  profile::Confidence confidence = profile::Confidence::High;

  /// The node's name, or "linear_* ×12" of a group.
  std::string getName() const;
  /// The module of the node, or the group of modules; empty where unknown.
  std::string getModule() const;
};

/// A hardware counter that reports have a column for.
struct CounterColumn {
  llvm::StringLiteral metric;
  /// For a terminal, and for a page with room.
  llvm::StringLiteral shortName;
  llvm::StringLiteral name;
  bool isPercent = true;
};

/// In the order in which they are left out where there is no room, last first.
llvm::ArrayRef<CounterColumn> getCounterColumns();

/// "61" or "42": a value in its column; empty where it was not measured.
std::string formatCounter(const CounterColumn &column,
                          const std::map<std::string, double> &values);

/// A value of the whole step, and what its kernels add up to.
struct StepValue {
  std::string name;
  std::string value;
  /// Empty where kernels were not counted, or it does not add up.
  std::string kernels;
  /// By how much the kernels' sum is more than the step's: "+1.2 %".
  std::string difference;
  /// Whether it is one of those that every report shows.
  bool isMain = false;
};

/// What kernels and copies add up to.
struct WorkSum {
  uint64_t kernels = 0;
  int64_t kernelTimeNs = 0;
  uint64_t copies = 0;
  int64_t copyTimeNs = 0;
};

/// How far counters reach: shares of the time of steady kernels, in percent.
struct CounterShare {
  double counted = 0;
  /// Of it, what is another launch's.
  double inferred = 0;
};

/// What one operator took where one line of a module called it.
struct PlaceRow {
  std::string name;
  std::string module;
  std::string source;
  /// Of its backward.
  bool isBackward = false;
  int64_t kernelTimeNs = 0;
  uint64_t count = 0;
};

/// A finding, and what would be left of a step without its cost.
struct Payoff {
  const profile::Finding *finding = nullptr;
  int64_t leavesNs = 0;
  /// How much faster that is.
  double times = 1;
};

/// "×1.25"; "over ×100".
std::string formatTimes(double times);

struct ReportModel {
  const profile::Profile *profile = nullptr;
  /// The graph, the command line of a program without one, or the file that
  /// was read.
  std::string title;
  /// Kernels were joined to launches or nodes; without, they are shown by name.
  bool hasGraph = true;
  /// Steps that the sums are over; 1 where the profile has no step marks.
  uint64_t steps = 1;
  /// What is divided by them: everything, but where a program without a graph
  /// has steps, what ran in them. It may do much besides.
  WorkSum counted;
  /// What times are of: "step"; "capture" or "trace" where there are no steps.
  llvm::StringRef unit = "step";
  /// What runs: "kernel", or "operator" on a CPU.
  llvm::StringRef work = "kernel";
  std::string deviceName;
  /// How the program ran and what recorded it: "inductor, by opprof capture".
  std::string origin;
  /// Absent where no kernel has counters.
  std::optional<CounterShare> counters;
  /// Of a range over the whole step; amounts first.
  std::vector<StepValue> stepValues;
  /// Further facts of the run, a sentence each: times without a profiler,
  /// memory, ranges, counters.
  std::vector<std::string> facts;
  /// Largest first.
  std::vector<TimeRow> modules, classes, categories;
  /// Without a graph: by short name, and by the innermost range (NVTX,
  /// record_function) that the program had marked; empty where it marked none.
  std::vector<TimeRow> kernels, ranges;
  /// Where it was recorded: by part of a training step, and by operator, module
  /// and line.
  std::vector<TimeRow> parts;
  std::vector<PlaceRow> places;
  /// Without a graph: what the host called, those that ran longest first.
  std::vector<const profile::OperatorTime *> operators;
  std::vector<NodeRow> nodes;
  std::vector<NodeGroup> nodeGroups;
  /// The costliest, each by itself: what they cost overlaps.
  std::vector<Payoff> payoffs;
  /// Costliest first; those without a cost last.
  std::vector<const profile::Finding *> findings;

  /// "a step" or "the capture".
  std::string span() const {
    return (unit == "step" ? "a " : "the ") + unit.str();
  }
  int64_t perStep(int64_t totalNs) const { return totalNs / int64_t(steps); }
  /// What a step takes where nothing holds it up, which costs are parts of.
  int64_t ownStepNs() const {
    const profile::Summary &summary = profile->summary;
    return perStep(summary.undisturbedNs.value_or(summary.wallNs.value_or(0)));
  }
  /// What ran `count` times in all: "84" a step, "0.2" where not every step has
  /// one.
  std::string countPerStep(uint64_t count) const;
  /// In percent of all kernel time; 0 where there is none.
  double share(int64_t totalNs) const;
};

/// `profile` must outlive the model.
ReportModel makeReportModel(const profile::Profile &profile);

/// The sites that have any of `value`, most of it first.
std::vector<const profile::MemorySite *>
largestSites(const profile::TensorMemory &memory,
             uint64_t profile::MemorySite::*value);

/// What a site's blocks were taken for: "aten::mm (backward)". Empty outside of
/// all operators.
std::string describeWork(const profile::MemorySite &site);

/// How sure kernels' links are, as shares of their time: "by link: launch high
/// 100.0 %; nodes high 98.0 %, medium 2.0 %". Empty where there are none.
std::string describeLinks(const profile::Summary &summary);

/// "h.3.mlp" as the group it repeats in, "h.*.mlp": numbers that stand alone
/// between dots are left open.
std::string getModuleGroup(llvm::StringRef module);

/// What a kernel is counted under: its launch's category, or what it is.
llvm::StringRef getCategory(const profile::Profile &profile,
                            const profile::Activity &kernel);

} // namespace opprof::report

#endif // OPPROF_REPORT_REPORTMODEL_H
