// The prof dialect: profiling markers and partition labels.

#ifndef OPPROF_DIALECT_PROF_IR_PROF_H
#define OPPROF_DIALECT_PROF_IR_PROF_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "opprof/Dialect/Prof/IR/ProfDialect.h.inc"
#include "opprof/Dialect/Prof/IR/ProfEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "opprof/Dialect/Prof/IR/ProfAttrs.h.inc"

#define GET_OP_CLASSES
#include "opprof/Dialect/Prof/IR/ProfOps.h.inc"

#endif // OPPROF_DIALECT_PROF_IR_PROF_H
