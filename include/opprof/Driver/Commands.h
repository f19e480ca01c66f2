// What the `opprof` command has done natively: a process a command. Errors say
// file, what is wrong, and on a line of its own what to do.

#ifndef OPPROF_DRIVER_COMMANDS_H
#define OPPROF_DRIVER_COMMANDS_H

#include "opprof/Driver/RunFolder.h"
#include "opprof/Driver/Session.h"
#include "opprof/Report/Report.h"

#include <optional>

namespace opprof::driver {

/// How a command prints the report on stdout, where it does.
using Page = std::optional<report::TextOptions>;

/// A graph in any form that opprof reads, as MLIR: text or bytecode, by the
/// target's suffix.
llvm::Error importGraph(Session &session, llvm::StringRef source,
                        llvm::StringRef target);

/// What ranges of layers and counters of unique partitions need to know before
/// they are taken: graph.mlirbc of graph.json, partitions and launch maps.
llvm::Error mapRun(Session &session, const RunFolder &folder);

/// Everything that follows from the graph, the code and the timeline of a run
/// folder: partitions, launches, profile, reports. graph.mlirbc is made of
/// graph.json where that is newer. `mapped` says that partitions and launch
/// maps are there already.
llvm::Error profileRun(Session &session, const RunFolder &folder, bool mapped,
                       const Page &page);

/// Files that were recorded elsewhere.
struct RecordedFiles {
  std::string graph;
  /// Inductor's debug folder of a graph, or a folder of such folders.
  std::string code;
  std::string trace;
};

/// Makes a run folder of them.
llvm::Error profileFiles(Session &session, const RecordedFiles &files,
                         const RunFolder &folder, const Page &page);

/// The profile and reports of a timeline in a run folder. With `mapped`, its
/// kernels are joined to the launch maps, partitions and counters that lie
/// there; else they stand for themselves.
llvm::Error profileTimeline(const RunFolder &folder, llvm::StringRef timeline,
                            bool mapped, uint64_t lastKernels);

enum class ReportForm { Text, JSON, HTML };

/// Shows the profile of a run folder or file: on stdout, or as HTML in `file`.
llvm::Error showReport(llvm::StringRef path, ReportForm form,
                       llvm::StringRef file, const report::TextOptions &page);

/// Writes the rules' scripts for a run folder, or a graph in MLIR, to `output`.
llvm::Error recommendRewrites(Session &session, llvm::StringRef path,
                              llvm::StringRef output, double errorBudget);

/// Which launches are shown: those that everything given here fits. Empty is
/// anything.
struct LaunchFilter {
  /// Of the user's code: "model.py:42", or the number alone.
  std::string line;
  /// Path of a module: launches of modules inside it are meant too.
  std::string module;
  /// Name of a node, compiled or exported.
  std::string node;
  /// A part of the kernel's name.
  std::string kernel;
};

/// Prints what the generated code at or below `path` launches, or the code in
/// that file: a line a launch, or the launch maps as JSON. Nodes are followed
/// back to those of the graph in a file, where one is given, or else of the run
/// folder, whose profile, where there is one, gives the times.
llvm::Error showLaunches(Session &session, llvm::StringRef path,
                         llvm::StringRef graph, const LaunchFilter &filter,
                         bool asJSON);

} // namespace opprof::driver

#endif // OPPROF_DRIVER_COMMANDS_H
