// The code reader in tools. --inductor-launches, --import-inductor-code,
// --export-inductor-launches, --export-operator-launches and
// --import-fx-readable, and the way between the dialects and the code reader's
// own data.

#ifndef OPPROF_TARGET_INDUCTORCODE_INDUCTORTRANSLATION_H
#define OPPROF_TARGET_INDUCTORCODE_INDUCTORTRANSLATION_H

#include "opprof/Launch/LaunchMap.h"
#include "opprof/Target/InductorCode/GraphView.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/Error.h"

namespace opprof::fx {
class GraphOp;
class NodeSymbols;
} // namespace opprof::fx

namespace opprof::inductor {

class ProgramOp;

/// The launch map as a module with one inductor.program, and back. Neither
/// loses anything.
mlir::OwningOpRef<mlir::ModuleOp> toProgram(const launch::LaunchMap &map,
                                            mlir::MLIRContext *context);
launch::LaunchMap toLaunchMap(ProgramOp program);

/// Adds the program of a launch map where `builder` stands, in the module of
/// `symbols`. Graphs that the map names and the module does not hold get an
/// fx.external at its end.
ProgramOp addProgram(const launch::LaunchMap &map, fx::NodeSymbols &symbols,
                     mlir::OpBuilder &builder);

/// What an fx.graph says of its nodes.
GraphView toGraphView(fx::GraphOp graph);

/// The same of a file's main graph, the first that says its stage; the others
/// are its subgraphs. `name` stands in the error.
llvm::Expected<GraphView> toGraphView(mlir::ModuleOp module,
                                      llvm::StringRef name);

/// A printed module and those in it as fx.graph ops, the outermost first. Null,
/// with a diagnostic that names `fileName`, where they are no graphs.
mlir::OwningOpRef<mlir::ModuleOp> toModule(const GraphView &graph,
                                           llvm::StringRef fileName,
                                           mlir::MLIRContext *context);

/// The launches of the module's graph of a stage, as it runs node by node: each
/// operator is one, of the graph's own stage. Nodes that are views, members of
/// tuples or sizes launch nothing. None where no graph has a stage: the bodies
/// of higher-order operators, which are symbols beside it, have none.
std::optional<launch::LaunchMap> mapOperators(mlir::ModuleOp module);

/// Reads the main graph of a file of any form. Diagnostics of the readers go to
/// the context; the error says what could not be read.
llvm::Expected<GraphView> loadGraph(llvm::StringRef path,
                                    mlir::MLIRContext *context);

void registerInductorTranslations();

} // namespace opprof::inductor

#endif // OPPROF_TARGET_INDUCTORCODE_INDUCTORTRANSLATION_H
