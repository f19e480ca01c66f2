// The inductor dialect: kernels and launches of a compiled graph.

#ifndef OPPROF_DIALECT_INDUCTOR_IR_INDUCTOR_H
#define OPPROF_DIALECT_INDUCTOR_IR_INDUCTOR_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/RegionKindInterface.h"
#include "mlir/IR/SymbolTable.h"

#include "opprof/Dialect/Inductor/IR/InductorDialect.h.inc"
#include "opprof/Dialect/Inductor/IR/InductorEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "opprof/Dialect/Inductor/IR/InductorAttrs.h.inc"

#define GET_OP_CLASSES
#include "opprof/Dialect/Inductor/IR/InductorOps.h.inc"

#endif // OPPROF_DIALECT_INDUCTOR_IR_INDUCTOR_H
