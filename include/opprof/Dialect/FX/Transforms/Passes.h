// Passes on fx graphs.

#ifndef OPPROF_DIALECT_FX_TRANSFORMS_PASSES_H
#define OPPROF_DIALECT_FX_TRANSFORMS_PASSES_H

#include "opprof/Dialect/FX/IR/FXDialect.h"
#include "opprof/Dialect/Prof/IR/Prof.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace opprof::fx {

enum class DedupMode { Exact, IgnoreShapes };

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "opprof/Dialect/FX/Transforms/Passes.h.inc"

} // namespace opprof::fx

#endif // OPPROF_DIALECT_FX_TRANSFORMS_PASSES_H
