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
/// target's suffix. Where an `archive` is named, `source` is graph JSON that
/// was made of it, and errors are of the archive.
llvm::Error importGraph(Session &session, llvm::StringRef source,
                        llvm::StringRef archive, llvm::StringRef target);

/// What ranges of layers and counters of unique partitions need to know before
/// they are taken: the code that Inductor left, graph.mlirbc of graph.json,
/// partitions and launch maps.
llvm::Error mapRun(Session &session, const RunFolder &folder);

/// Everything that follows from the graph, the code and the timeline of a run
/// folder, with the code that Inductor left: partitions, launches, profile,
/// reports. graph.mlirbc is made of graph.json where that is newer. `mapped`
/// says that partitions and launch maps are there already.
llvm::Error profileRun(Session &session, const RunFolder &folder, bool mapped,
                       const Page &page);

/// Files that were recorded elsewhere.
struct RecordedFiles {
  /// The exported graph; empty where there is only the code, whose post-grad
  /// graphs take its place.
  std::string graph;
  /// Inductor's debug folder of a graph, or a folder of such folders; empty for
  /// a program that ran uncompiled.
  std::string code;
  std::string trace;
  /// A CSV page or report of Nsight Compute, or counters.json; empty without.
  std::string counters;
};

/// Makes a run folder of them.
llvm::Error profileFiles(Session &session, const RecordedFiles &files,
                         const RunFolder &folder, const Page &page);

/// The profile and reports of a timeline in a run folder. With `mapped`, its
/// kernels are joined to the launch maps, partitions and counters that lie
/// there; else they stand for themselves. `operators` is what the observer
/// recorded beside a capture, and `graph` one of what the program ran operator
/// by operator, whose repeats and map are written then; both may be empty.
llvm::Error profileTimeline(Session &session, const RunFolder &folder,
                            llvm::StringRef timeline, llvm::StringRef operators,
                            llvm::StringRef graph, llvm::StringRef counters,
                            bool mapped, uint64_t lastKernels);

enum class ReportForm { Text, JSON, HTML };

/// Shows what run folders or files hold, whatever they are: profiles, captures,
/// traces. On stdout, or as HTML in `file`, which shows one. Several are set
/// side by side first; as JSON they are a list of profiles. What the devices
/// can do is read from the file `ceilings`, where that is not empty.
llvm::Error showReport(llvm::ArrayRef<std::string> paths, ReportForm form,
                       llvm::StringRef file, llvm::StringRef ceilings,
                       const report::TextOptions &page);

/// Writes what run folders or files hold as one trace for Perfetto, compressed
/// where the name of `file` ends so. Several stand on the clock of the first.
llvm::Error writePerfetto(llvm::ArrayRef<std::string> paths,
                          llvm::StringRef file);

enum class DifferenceForm : uint8_t { Text, Markdown, JSON };

struct DifferenceOptions {
  /// Absent: what both sides can be told apart by best.
  std::optional<profile::ItemKind> by;
  /// What a check fails above, in percent of a step.
  std::optional<double> failAbovePct;
  DifferenceForm form = DifferenceForm::Text;
  report::TextOptions page;
};

/// How a check ended that was asked to fail above a share of a step.
enum class CheckResult : uint8_t {
  Passed,
  Slower,
  Unknown, ///< too few steps to tell changes from noise
};

/// Compares what paths hold, at least one a side, on stdout; without a check it
/// passes.
llvm::Expected<CheckResult> showDifference(llvm::ArrayRef<std::string> a,
                                           llvm::ArrayRef<std::string> b,
                                           const DifferenceOptions &options);

/// Lists what takes most of the one recording that `path` stands for.
llvm::Error showTop(const std::string &path,
                    std::optional<profile::ItemKind> by, uint64_t number,
                    const report::TextOptions &page);

/// Explains a finding by its id, with what the recording at `path` has of it;
/// an empty path is none. "all" explains each, as a page of Markdown.
llvm::Error showExplanation(llvm::StringRef finding, const std::string &path,
                            const report::TextOptions &page);

/// Writes the rules' scripts for a run folder, or a graph in MLIR, to `output`.
/// The error budget is that of --recommend-rewrites where none is given;
/// `rules` is a folder of scripts that are offered too, or empty.
llvm::Error recommendRewrites(Session &session, llvm::StringRef path,
                              llvm::StringRef output,
                              std::optional<double> errorBudget,
                              llvm::StringRef rules);

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
/// folder, whose profile, where there is one, gives the times. A launch takes
/// two lines of at most `width` columns where one is longer and that is not 0.
llvm::Error showLaunches(Session &session, llvm::StringRef path,
                         llvm::StringRef graph, const LaunchFilter &filter,
                         bool asJSON, unsigned width);

// What the process that records asks while it counts. What it asks is the JSON
// of a file, "-" for stdin, whose further keys are ignored; the answer goes to
// stdout, as JSON.

/// Prints the raw counters that `names` asks for (metrics::resolve), those that
/// are collected beside them where a kernel has local memory, and what each
/// value of the catalogue is made of.
llvm::Error showMetrics(llvm::StringRef names);

/// Prints which launches of a step are counted, and which others each stands
/// for. `request` has "launches" as counters.json has them, and says which are
/// asked for: "all" of them, those that were "chosen", or one launch of each
/// work, by what lies in `folder`. "named", "top", "skip" and "count" narrow
/// that as join::LaunchFilter says, with kernels called as in "names".
llvm::Error selectLaunches(const RunFolder &folder, llvm::StringRef request);

/// Prints the values of counted ranges: of "launches", each with its "raw"
/// counters and what the timeline knows of it, and of a "step", on a "device"
/// of "sm_count" multiprocessors that hold "warps_per_sm".
llvm::Error deriveMetrics(llvm::StringRef request);

} // namespace opprof::driver

#endif // OPPROF_DRIVER_COMMANDS_H
