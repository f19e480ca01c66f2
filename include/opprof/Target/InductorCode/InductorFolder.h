// One compiled graph's files. output_code.py and the files that Inductor's
// debug folder has beside it.

#ifndef OPPROF_TARGET_INDUCTORCODE_INDUCTORFOLDER_H
#define OPPROF_TARGET_INDUCTORCODE_INDUCTORFOLDER_H

#include "opprof/Launch/LaunchMap.h"
#include "opprof/Target/InductorCode/GraphView.h"
#include "opprof/Target/InductorCode/Provenance.h"
#include "opprof/Target/InductorCode/Wrapper.h"

namespace opprof::inductor {

struct InductorFolder {
  /// The compiled graph's name: its folder's, else its AOT ID, else the
  /// file's.
  std::string name;
  WrapperProgram program;
  /// From fx_graph_transformed.py, else fx_graph_readable.py.
  std::optional<GraphView> postGrad;
  /// From inductor_provenance_tracking_node_mappings.json.
  std::optional<Provenance> provenance;
};

/// Interprets `code`, the text of the file at `path`, and reads what lies
/// beside that path. A file that is there and can't be read is an error; one
/// that is missing is not.
llvm::Expected<InductorFolder> readInductorFolder(llvm::StringRef code,
                                                  llvm::StringRef path);

/// The launches of a compiled graph. `recorded` is the post-grad graph with
/// what PyTorch recorded of its nodes' origin, `exported` the graph whose nodes
/// launches are followed back to; either may be null.
launch::LaunchMap mapLaunches(const InductorFolder &folder,
                              const GraphView *recorded,
                              const GraphView *exported);

} // namespace opprof::inductor

#endif // OPPROF_TARGET_INDUCTORCODE_INDUCTORFOLDER_H
