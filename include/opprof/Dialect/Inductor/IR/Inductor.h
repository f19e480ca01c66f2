// The inductor dialect: the launches of a compiled graph.

#ifndef OPPROF_DIALECT_INDUCTOR_IR_INDUCTOR_H
#define OPPROF_DIALECT_INDUCTOR_IR_INDUCTOR_H

#include "opprof/Launch/LaunchMap.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/RegionKindInterface.h"
#include "mlir/IR/SymbolTable.h"

#include "opprof/Dialect/Inductor/IR/InductorDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "opprof/Dialect/Inductor/IR/InductorAttrs.h.inc"

#define GET_OP_CLASSES
#include "opprof/Dialect/Inductor/IR/InductorOps.h.inc"

#endif // OPPROF_DIALECT_INDUCTOR_IR_INDUCTOR_H
