// The fx dialect: PyTorch FX graphs. Include this for its ops; what only names
// its types and attributes, or registers it, includes FXAttributes.h or
// FXDialect.h, and is not built again when an op changes.

#ifndef OPPROF_DIALECT_FX_IR_FX_H
#define OPPROF_DIALECT_FX_IR_FX_H

#include "opprof/Dialect/FX/IR/FXAttributes.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/CallInterfaces.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace opprof::fx {
class OutputOp;
} // namespace opprof::fx

#define GET_OP_CLASSES
#include "opprof/Dialect/FX/IR/FXOps.h.inc"

namespace opprof::fx {

/// The graph of that name in the nearest symbol table round `from`, or null.
/// Goes through the table, as SymbolTable::lookupNearestSymbolFrom does in
/// twice the time: that asks each operation for an attribute by its name. Who
/// looks up many has a SymbolTable.
GraphOp lookupGraph(mlir::Operation *from, mlir::StringAttr name);
inline GraphOp lookupGraph(mlir::Operation *from,
                           mlir::FlatSymbolRefAttr name) {
  return lookupGraph(from, name.getAttr());
}

} // namespace opprof::fx

#endif // OPPROF_DIALECT_FX_IR_FX_H
