// The fx dialect itself, for what registers or loads it.

#ifndef OPPROF_DIALECT_FX_IR_FXDIALECT_H
#define OPPROF_DIALECT_FX_IR_FXDIALECT_H

#include "mlir/IR/Dialect.h"

#include "opprof/Dialect/FX/IR/FXDialect.h.inc"

#endif // OPPROF_DIALECT_FX_IR_FXDIALECT_H
