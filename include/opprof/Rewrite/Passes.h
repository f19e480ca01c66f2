// The pass that recommends rewrites.

#ifndef OPPROF_REWRITE_PASSES_H
#define OPPROF_REWRITE_PASSES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace opprof::rewrite {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "opprof/Rewrite/Passes.h.inc"

} // namespace opprof::rewrite

#endif // OPPROF_REWRITE_PASSES_H
