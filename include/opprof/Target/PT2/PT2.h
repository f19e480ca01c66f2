// Reads archives of torch.export (.pt2) into the fx dialect.

#ifndef OPPROF_TARGET_PT2_PT2_H
#define OPPROF_TARGET_PT2_PT2_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace opprof::fx {

/// Reads the graphs of an archive that torch.export.save wrote: PyTorch 2.6 to
/// 2.13, whose archives come in two layouts. Only JSON is read; weights stay
/// where they are, and pickles are not looked at. Null, with diagnostics that
/// name `fileName`, the entry, graph and node, where something is wrong.
mlir::OwningOpRef<mlir::ModuleOp> importPT2(llvm::StringRef archive,
                                            llvm::StringRef fileName,
                                            mlir::MLIRContext *context);

/// --import-pt2.
void registerPT2Translation();

} // namespace opprof::fx

#endif // OPPROF_TARGET_PT2_PT2_H
