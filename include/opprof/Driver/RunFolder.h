// The files of a run folder, by what they are (docs/formats/run-folder.md).

#ifndef OPPROF_DRIVER_RUNFOLDER_H
#define OPPROF_DRIVER_RUNFOLDER_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace opprof::driver {

/// Begins the names of RunFolder::recordings(); RECORDING in
/// python/opprof/run_folder.py.
inline constexpr llvm::StringLiteral kRecording = ".recording-";

/// The paths of a run folder's files, none of which need be there.
class RunFolder {
public:
  /// `process` ends the names of what is one process's of several that
  /// `opprof run` recorded: "-r0-p4242".
  explicit RunFolder(llvm::StringRef path, llvm::StringRef process = {})
      : path(path), process(process) {}

  llvm::StringRef getPath() const { return path; }
  std::string run() const { return file("run.json"); }
  std::string graphJSON() const { return file("graph.json"); }
  std::string graph() const { return file("graph.mlirbc"); }
  /// What belongs to a graph that `opprof run` recorded of a step.
  std::string step() const { return file("step.json"); }
  std::string program() const { return file("program.mlirbc"); }
  std::string partitions() const { return file("partitions.json"); }
  std::string trace() const { return file("trace.json.gz"); }
  /// opprof's own timeline, where there is a GPU; the trace is made of it.
  std::string capture() const { return file("capture.opcap"); }
  /// What `opprof recommend` had for the run.
  std::string rewrites() const { return file("rewrites.json"); }
  /// What the devices were measured to do.
  std::string ceilings() const { return file("ceilings.json"); }
  std::string counters() const { return file("counters.json"); }
  /// What Nsight Compute printed, where counters are from there.
  std::string countersPage() const { return file("counters.csv.gz"); }
  /// The timeline of the step whose kernels were counted.
  std::string countersCapture() const { return file("counters.opcap"); }
  /// The launch map of the graph where it ran node by node.
  std::string operators() const { return file("operators.json"); }
  std::string profile() const {
    return file("profile" + process + ".opprof.json");
  }
  std::string reportText() const { return file("report" + process + ".txt"); }
  std::string reportHTML() const { return file("report" + process + ".html"); }

  /// Where Inductor leaves its debug folders while it compiles.
  std::string scratch() const { return file(".inductor"); }

  /// Where the processes of an `opprof run` record until it ends. There are
  /// several where some were killed.
  std::vector<std::string> recordings() const;

  /// The folders of the compiled graphs, in the order in which they were
  /// compiled. Run folders below this one keep theirs.
  std::vector<std::string> compiledGraphs() const;

  /// Refuses a folder, which may be anybody's, where a file that is read from
  /// it is a link to one that lies elsewhere, or no file at all.
  llvm::Error checkFiles() const;

  /// Refuses a folder that cannot be filled: a run's files and code folders are
  /// taken away by the next, so there may be no one else's. A link is nobody's
  /// work, and gives way.
  llvm::Error check() const;

  /// Checks, makes the folder, and takes away what an earlier run left: it
  /// would be put on this one's kernels, or be read as what this one gave.
  llvm::Error clear() const;

  /// Copies what a run folder keeps of the debug folders in scratch(), each to
  /// a folder of its name, and takes scratch() away. Where there is none,
  /// nothing is done.
  llvm::Error takeCode() const;

private:
  std::string file(const std::string &name) const;

  std::string path;
  std::string process;
};

/// What the folder of a compiled graph holds: the code, the graph that it was
/// made from, the further Dynamo graph that this is of where there is one, its
/// form as bytecode, and the map of the code's launches.
namespace code {
inline constexpr llvm::StringLiteral kOutput = "output_code.py";
inline constexpr llvm::StringLiteral kPostGrad = "post_grad.json";
inline constexpr llvm::StringLiteral kGraphJSON = "graph.json";
inline constexpr llvm::StringLiteral kGraph = "graph.mlirbc";
inline constexpr llvm::StringLiteral kLaunches = "launches.json";

/// The path of such a file.
std::string file(llvm::StringRef folder, llvm::StringRef name);

/// The folders at or below `folder` that hold generated code, in the order of
/// their compilation.
std::vector<std::string> findFolders(llvm::StringRef folder);

/// What a run folder calls the compiled graphs of these folders: by the
/// folder's name, NAME, and where several have it (debug folders of several
/// processes) NAME@1, NAME@2, …
std::vector<std::string> nameFolders(llvm::ArrayRef<std::string> folders);

/// Copies what a run folder keeps of a compiled graph's debug folder.
llvm::Error copy(llvm::StringRef from, llvm::StringRef to);
} // namespace code

/// Whether there is such a file, and it is no folder or device.
bool isFile(llvm::StringRef path);

} // namespace opprof::driver

#endif // OPPROF_DRIVER_RUNFOLDER_H
