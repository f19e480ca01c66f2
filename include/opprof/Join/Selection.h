// Which launches of a step are counted, and which others their counters stand
// for: one launch of each work is enough.

#ifndef OPPROF_JOIN_SELECTION_H
#define OPPROF_JOIN_SELECTION_H

#include "opprof/Join/WrapperFiles.h"
#include "opprof/Launch/LaunchMap.h"
#include "opprof/Support/PartitionMap.h"
#include "opprof/Trace/Trace.h"

#include "llvm/ADT/ArrayRef.h"

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace opprof::join {

/// A launch of a recorded step.
struct StepLaunch {
  std::string kernel;
  /// What it was marked with; neither node nor file where it carried no id.
  trace::Identity identity;
  std::array<uint64_t, 3> grid{};
  std::array<uint64_t, 3> block{};
  std::optional<uint64_t> staticShared;
  std::optional<uint64_t> dynamicShared;
  std::optional<int64_t> durationNs;
};

/// The launches that are counted, and the others that each stands for, as
/// places in the step.
struct SelectedLaunches {
  std::vector<uint32_t> indices;
  std::map<uint32_t, std::vector<uint32_t>> standsFor;
};

/// What is known of a program's layers.
struct LayerInputs {
  llvm::ArrayRef<PartitionMap> partitions;
  /// With their code, whose places in `wrappers` are those in `maps`.
  llvm::ArrayRef<launch::LaunchMap> maps;
  const WrapperFiles *wrappers = nullptr;
};

/// Whether any of the launches is of the program that `layers` are of.
bool knowsLaunches(llvm::ArrayRef<StepLaunch> launches,
                   const LayerInputs &layers);

/// One launch of each work: the unique partition's, or what stands for it. What
/// lies in no partition is counted, and so is what ran other kernels than the
/// launch that would stand for it.
SelectedLaunches selectUnique(llvm::ArrayRef<StepLaunch> launches,
                              const LayerInputs &layers);

/// Without partitions: one launch of each kernel, grid, block and shared
/// memory. A product of other depth can have all of these in common, so
/// launches of a wrapper also agree in the operations and bytes that its launch
/// map knows.
SelectedLaunches selectSameKernels(llvm::ArrayRef<StepLaunch> launches,
                                   const LayerInputs &layers);

/// The launches that are wanted, in the order in which ncu's options narrow
/// them: names, times, then places.
struct LaunchFilter {
  /// Launches whose kernel has a wanted name, as places in the step; absent
  /// where every name is wanted.
  std::optional<std::vector<uint32_t>> named = {};
  /// The kernels, by name, with the longest total time. All launches of a
  /// kernel make up its time, also those that another one stands for.
  std::optional<uint32_t> top = {};
  /// How many of what is left are passed over, and how many are counted.
  uint32_t skip = 0;
  std::optional<uint32_t> count = {};
};

/// The selection with only those of its launches counted that are wanted.
SelectedLaunches narrow(SelectedLaunches selected,
                        llvm::ArrayRef<StepLaunch> launches,
                        const LaunchFilter &filter);

} // namespace opprof::join

#endif // OPPROF_JOIN_SELECTION_H
