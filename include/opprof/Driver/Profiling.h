// From a timeline and what is known of its program to a profile and its pages.

#ifndef OPPROF_DRIVER_PROFILING_H
#define OPPROF_DRIVER_PROFILING_H

#include "opprof/Driver/RunFolder.h"
#include "opprof/Join/Counters.h"
#include "opprof/Join/WrapperFiles.h"
#include "opprof/Launch/LaunchMap.h"
#include "opprof/Profile/Ceilings.h"
#include "opprof/Profile/Profile.h"
#include "opprof/Report/PerfettoTrace.h"
#include "opprof/Support/PartitionMap.h"
#include "opprof/Trace/Reader.h"

#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBufferRef.h"

#include <memory>
#include <optional>
#include <vector>

namespace opprof::driver {

/// What a timeline is joined to. All of it may be missing: kernels are then
/// shown by their names.
struct ProfileInputs {
  std::vector<launch::LaunchMap> maps;
  join::WrapperFiles wrappers;
  std::vector<PartitionMap> partitions;
  std::optional<trace::CountersFile> counters;
  /// Those of a page of Nsight Compute.
  std::unique_ptr<trace::Trace> countedKernels;
  std::optional<profile::RunFacts> run;
  std::optional<profile::Ceilings> ceilings;
  /// What the report has to say of them, for a person.
  std::vector<std::string> notes;

  /// Adds the launch map of a compiled graph. `file` is where it is, or is to
  /// be, written: the code lies beside it, or is not there.
  llvm::Error addMap(launch::LaunchMap map, llvm::StringRef file);

  // Each reads one file, whose name stands in the error.
  llvm::Error readMaps(llvm::StringRef file);
  llvm::Error readPartitions(llvm::StringRef file);
  llvm::Error readCounters(llvm::StringRef file);
  llvm::Error readCounters(llvm::MemoryBufferRef text);
  llvm::Error readRun(llvm::StringRef file);
  llvm::Error readCeilings(llvm::StringRef file);

  /// Those of the folder, if it has some.
  llvm::Error readCeilings(const RunFolder &folder);
  /// Reads the launch maps that lie in the folder; those that are missing are
  /// passed over where `some` will do.
  llvm::Error readMaps(const RunFolder &folder, bool some);
};

/// The profile of a timeline, with its findings: a capture, or a trace of
/// torch.profiler, as the bytes say.
llvm::Expected<std::unique_ptr<profile::Profile>>
makeProfile(llvm::MemoryBufferRef timeline, const ProfileInputs &inputs,
            const trace::ReadOptions &options = {});

/// That of a timeline that has been read.
std::unique_ptr<profile::Profile>
makeProfile(std::unique_ptr<trace::Trace> timeline,
            const ProfileInputs &inputs);

/// The report as pages in files: 120 columns of text, and HTML.
llvm::Error writeTextReport(const profile::Profile &profile,
                            llvm::StringRef file);
llvm::Error writeHTMLReport(const profile::Profile &profile,
                            llvm::StringRef file);

/// A trace for Perfetto of so many recordings, which `add` puts into it one
/// after the other; compressed where the file's name ends so. "-" is stdout.
llvm::Error
writeTimeline(llvm::StringRef file, size_t recordings,
              llvm::function_ref<llvm::Error(report::PerfettoTrace &)> add);

/// The profile and both pages at their places.
llvm::Error writeResults(const profile::Profile &profile,
                         const RunFolder &folder);

} // namespace opprof::driver

#endif // OPPROF_DRIVER_PROFILING_H
