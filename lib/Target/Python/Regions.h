// Regions that torch.compile takes: what a partition takes and gives may not
// share storage with each other.

#ifndef OPPROF_LIB_TARGET_PYTHON_REGIONS_H
#define OPPROF_LIB_TARGET_PYTHON_REGIONS_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseSet.h"

namespace opprof::fx {

/// True where separateViews has something to do.
bool needsSeparation(mlir::ModuleOp module);

/// Splits each graph that fx.call calls and that gives out views of what it
/// takes or of what else it gives, as far as operators' schemas say: a new
/// graph computes what owns its storage, and the old one calls it and makes
/// the views. Returns the graphs that cannot be regions: those that were split,
/// those whose views need more than what goes in and out, and those that some
/// call hands two values of one storage.
llvm::DenseSet<mlir::Operation *> separateViews(mlir::ModuleOp module);

} // namespace opprof::fx

#endif // OPPROF_LIB_TARGET_PYTHON_REGIONS_H
