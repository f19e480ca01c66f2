// The launch maps of compiled graphs.

#ifndef OPPROF_LIB_DRIVER_COMPILEDGRAPHS_H
#define OPPROF_LIB_DRIVER_COMPILEDGRAPHS_H

#include "opprof/Driver/Session.h"
#include "opprof/Launch/LaunchMap.h"
#include "opprof/Target/InductorCode/GraphView.h"

#include <optional>

namespace opprof::driver {

/// The graph that a compiled graph was made from where that is not the run's:
/// graph.json beside the code, or graph.mlirbc where that was made of it. With
/// `keeps` it is made if it is missing.
llvm::Expected<std::optional<inductor::GraphView>>
readOwnGraph(Session &session, llvm::StringRef folder, bool keeps);

/// Maps the launches of the code in `folder`, with nodes followed back to those
/// of `graph`, which may be null.
llvm::Expected<launch::LaunchMap> mapLaunches(Session &session,
                                              llvm::StringRef folder,
                                              const inductor::GraphView *graph);

} // namespace opprof::driver

#endif // OPPROF_LIB_DRIVER_COMPILEDGRAPHS_H
