// Passes on what profiling puts into graphs.

#ifndef OPPROF_DIALECT_PROF_TRANSFORMS_PASSES_H
#define OPPROF_DIALECT_PROF_TRANSFORMS_PASSES_H

#include "opprof/Dialect/FX/IR/FXDialect.h"
#include "opprof/Dialect/Prof/IR/Prof.h"

#include "mlir/Pass/Pass.h"

namespace opprof::prof {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "opprof/Dialect/Prof/Transforms/Passes.h.inc"

/// Makes all of them known; --attach-profile=FILE and --print-slowest=N take
/// their option without its name.
void registerProfPasses();

} // namespace opprof::prof

#endif // OPPROF_DIALECT_PROF_TRANSFORMS_PASSES_H
