// The pass that applies rewrite scripts.

#ifndef OPPROF_TARGET_TRANSFORMSCRIPT_PASSES_H
#define OPPROF_TARGET_TRANSFORMSCRIPT_PASSES_H

#include "mlir/Pass/Pass.h"

namespace opprof::fx {

#define GEN_PASS_DECL
#include "opprof/Target/TransformScript/Passes.h.inc"

/// Makes --apply-rewrites=PATH known.
void registerApplyRewrites();

} // namespace opprof::fx

#endif // OPPROF_TARGET_TRANSFORMSCRIPT_PASSES_H
