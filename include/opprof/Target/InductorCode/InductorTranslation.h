//===- InductorTranslation.h - The code reader in tools ----------*- C++
//-*-===//
//
// --inductor-launches, --import-inductor-code and --import-fx-readable, and the
// way from the fx dialect to the code reader's own graphs.
//
//===----------------------------------------------------------------------===//

#ifndef OPPROF_TARGET_INDUCTORCODE_INDUCTORTRANSLATION_H
#define OPPROF_TARGET_INDUCTORCODE_INDUCTORTRANSLATION_H

#include "opprof/Target/InductorCode/GraphView.h"

#include "llvm/Support/Error.h"

namespace mlir {
class MLIRContext;
} // namespace mlir

namespace opprof::fx {
class GraphOp;
} // namespace opprof::fx

namespace opprof::inductor {

/// What an fx.graph says of its nodes.
GraphView toGraphView(fx::GraphOp graph);

/// Reads the main graph of a file by its suffix: .json (graph JSON), .mlir and
/// .mlirbc. Diagnostics of the readers go to the context; the error says what
/// could not be read.
llvm::Expected<GraphView> loadGraph(llvm::StringRef path,
                                    mlir::MLIRContext *context);

void registerInductorTranslations();

} // namespace opprof::inductor

#endif // OPPROF_TARGET_INDUCTORCODE_INDUCTORTRANSLATION_H
