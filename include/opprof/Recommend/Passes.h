// The pass that recommends rewrites.

#ifndef OPPROF_RECOMMEND_PASSES_H
#define OPPROF_RECOMMEND_PASSES_H

#include "mlir/Pass/Pass.h"

namespace opprof::recommend {

#define GEN_PASS_DECL
#include "opprof/Recommend/Passes.h.inc"

} // namespace opprof::recommend

#endif // OPPROF_RECOMMEND_PASSES_H
