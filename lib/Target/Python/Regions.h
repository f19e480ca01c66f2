// Regions that torch.compile takes: what a partition gives to the outside may
// not share storage with what it takes, nor with what else it gives.

#ifndef OPPROF_LIB_TARGET_PYTHON_REGIONS_H
#define OPPROF_LIB_TARGET_PYTHON_REGIONS_H

#include "opprof/Dialect/FX/IR/FX.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseSet.h"

namespace opprof::fx {

/// True where an output of `graph` is a view of an input or of another output,
/// as far as operators' schemas say.
bool hasSharedOutputs(GraphOp graph);

/// Splits each graph that fx.call calls and that has shared outputs: a new
/// graph computes what owns its storage, and the old one calls it and makes
/// the views. Returns the graphs that cannot be regions: those that were split,
/// and those whose views need more than what goes in and out.
llvm::DenseSet<mlir::Operation *> separateViews(mlir::ModuleOp module);

} // namespace opprof::fx

#endif // OPPROF_LIB_TARGET_PYTHON_REGIONS_H
