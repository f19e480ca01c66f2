// Types without where in its storage a tensor begins.

#ifndef OPPROF_DIALECT_FX_IR_STORAGEOFFSETS_H
#define OPPROF_DIALECT_FX_IR_STORAGEOFFSETS_H

#include "mlir/IR/Types.h"

namespace opprof::fx {

/// `type` with the storage offsets of the tensors in it left out. What is
/// computed does not depend on them: the steps of a sequence that was taken
/// apart are the same work on views that begin at other places.
mlir::Type dropStorageOffsets(mlir::Type type);

} // namespace opprof::fx

#endif // OPPROF_DIALECT_FX_IR_STORAGEOFFSETS_H
