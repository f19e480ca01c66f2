// The fx dialect: PyTorch FX graphs. Include this for its ops, types and
// attributes.

#ifndef OPPROF_DIALECT_FX_IR_FX_H
#define OPPROF_DIALECT_FX_IR_FX_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/CallInterfaces.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "opprof/Dialect/FX/IR/FXDialect.h.inc"
#include "opprof/Dialect/FX/IR/FXEnums.h.inc"

#define GET_TYPEDEF_CLASSES
#include "opprof/Dialect/FX/IR/FXTypes.h.inc"

#define GET_ATTRDEF_CLASSES
#include "opprof/Dialect/FX/IR/FXAttrs.h.inc"

namespace opprof::fx {
class OutputOp;
} // namespace opprof::fx

#define GET_OP_CLASSES
#include "opprof/Dialect/FX/IR/FXOps.h.inc"

#endif // OPPROF_DIALECT_FX_IR_FX_H
