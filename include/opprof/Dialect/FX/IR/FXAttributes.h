// Types and attributes of the fx dialect.

#ifndef OPPROF_DIALECT_FX_IR_FXATTRIBUTES_H
#define OPPROF_DIALECT_FX_IR_FXATTRIBUTES_H

#include "opprof/Dialect/FX/IR/FXDialect.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/TensorEncoding.h"

#include "opprof/Dialect/FX/IR/FXAttrInterfaces.h.inc"
#include "opprof/Dialect/FX/IR/FXEnums.h.inc"

#define GET_TYPEDEF_CLASSES
#include "opprof/Dialect/FX/IR/FXTypes.h.inc"

#define GET_ATTRDEF_CLASSES
#include "opprof/Dialect/FX/IR/FXAttrs.h.inc"

#endif // OPPROF_DIALECT_FX_IR_FXATTRIBUTES_H
