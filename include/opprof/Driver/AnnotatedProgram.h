// The annotated program: the graphs of every stage, what each compiled graph
// launches, classes of repeats, times and counters, in one module.

#ifndef OPPROF_DRIVER_ANNOTATEDPROGRAM_H
#define OPPROF_DRIVER_ANNOTATEDPROGRAM_H

#include "opprof/Launch/LaunchMap.h"
#include "opprof/Profile/Profile.h"
#include "opprof/Support/PartitionMap.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace opprof {

/// One compiled graph: what it launches and, where it is known, the graph that
/// it was compiled from with the bodies of its higher-order operators.
struct CompiledGraph {
  launch::LaunchMap map;
  mlir::OwningOpRef<mlir::ModuleOp> postGrad;
  /// The graph that Dynamo handed over, where that is not the run's; forward
  /// and backward may share it.
  mlir::OwningOpRef<mlir::ModuleOp> dynamo;
};

/// Moves the graphs that Dynamo handed over into `module`, but for those that
/// it has: compiled graphs of one of them, forward and backward, share it.
mlir::LogicalResult addDynamoGraphs(mlir::ModuleOp module, mlir::ModuleOp from);

/// Moves the post-grad graphs of `compiled` into `module` as private graphs,
/// which the maps name, and Dynamo's graphs.
mlir::LogicalResult
addCompiledGraphs(mlir::ModuleOp module,
                  llvm::MutableArrayRef<CompiledGraph> compiled);

/// Makes the annotated program of `module`, which holds the exported graph:
/// takes the post-grad graphs out of `compiled` and adds them as private
/// graphs, each with the program that launches its nodes, and Dynamo's graphs.
/// `profile` may be null. --strip-profile gives back what `module` was.
/// Warnings say what the module does not have; fails where the profile is of
/// another graph.
mlir::LogicalResult buildAnnotatedProgram(
    mlir::ModuleOp module, llvm::MutableArrayRef<CompiledGraph> compiled,
    llvm::ArrayRef<PartitionMap> partitions, const profile::Profile *profile);

} // namespace opprof

#endif // OPPROF_DRIVER_ANNOTATEDPROGRAM_H
