// The launch maps of compiled graphs, and the graphs that they were made from.

#ifndef OPPROF_LIB_DRIVER_COMPILEDGRAPHS_H
#define OPPROF_LIB_DRIVER_COMPILEDGRAPHS_H

#include "Belonging.h"
#include "opprof/Driver/Session.h"
#include "opprof/Launch/LaunchMap.h"
#include "opprof/Target/InductorCode/GraphView.h"

namespace opprof::driver {

/// The graph that a compiled graph was made from where that is not the run's,
/// or null: graph.json beside the code, or graph.mlirbc where that was made of
/// it. With `keeps` it is made if it is missing.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>>
readOwnGraph(Session &session, llvm::StringRef folder, bool keeps);

/// The post-grad graph that PyTorch's records are of, post_grad.json beside the
/// code, or null.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>>
readRecordedGraph(Session &session, llvm::StringRef folder);

/// Maps the launches of the code in `folder`, with nodes followed back to those
/// of `graph`, which may be null. `postGrad`, where it is not null, is given
/// the graph whose nodes are launched: the recorded one, or the one that
/// Inductor printed beside its code; `belonging`, how far that is found in
/// `graph`.
llvm::Expected<launch::LaunchMap>
mapLaunches(Session &session, llvm::StringRef folder,
            const inductor::GraphView *graph,
            mlir::OwningOpRef<mlir::ModuleOp> *postGrad = nullptr,
            Belonging *belonging = nullptr);

} // namespace opprof::driver

#endif // OPPROF_LIB_DRIVER_COMPILEDGRAPHS_H
