// Passes on fx graphs.

#ifndef OPPROF_DIALECT_FX_TRANSFORMS_PASSES_H
#define OPPROF_DIALECT_FX_TRANSFORMS_PASSES_H

#include "opprof/Dialect/FX/IR/FXDialect.h"
#include "opprof/Dialect/Prof/IR/Prof.h"
#include "opprof/Support/PartitionMap.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

#include <vector>

namespace opprof::fx {

enum class DedupMode { Exact, IgnoreShapes };

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "opprof/Dialect/FX/Transforms/Passes.h.inc"

/// What --dedup-partitions does: outlines the repeats of the module's public
/// graphs, remarks on them, and returns a map of each. The maps hold nodes
/// where the options name a file for them, which is for the caller to write.
std::vector<PartitionMap>
dedupPartitions(mlir::ModuleOp module,
                const DedupPartitionsPassOptions &options);

} // namespace opprof::fx

#endif // OPPROF_DIALECT_FX_TRANSFORMS_PASSES_H
