// Putting a profile onto a module, and taking it off again.

#ifndef OPPROF_DIALECT_PROF_TRANSFORMS_ATTACHPROFILE_H
#define OPPROF_DIALECT_PROF_TRANSFORMS_ATTACHPROFILE_H

#include "opprof/Profile/Profile.h"
#include "opprof/Support/PartitionMap.h"

#include "mlir/IR/BuiltinOps.h"

namespace opprof::prof {

/// Puts times, counters, findings and the summary of a profile onto the
/// module's nodes and launches, in place of an earlier one's. A compiled graph
/// that no program of the module stands for gets one of the launches that the
/// profile lists. Nodes and launches that the module does not have are warned
/// of; fails where the profile is of other graphs, and where a program launches
/// another kernel than the profile says.
mlir::LogicalResult attachProfile(mlir::ModuleOp module,
                                  const profile::Profile &profile);

/// Adds a prof.class for every class of the map. attachProfile gives its
/// instances the sums over their nodes.
void addClasses(mlir::ModuleOp module, const PartitionMap &map);

/// Marks everything that stands in the module and not in `before` as having
/// come with a profile.
void markAttached(mlir::ModuleOp module,
                  const llvm::DenseSet<mlir::Operation *> &before);
/// The operations of the module's own block.
llvm::DenseSet<mlir::Operation *> getOperations(mlir::ModuleOp module);

/// Takes away what a profile left: the graph is what it was before.
void stripProfile(mlir::ModuleOp module);

} // namespace opprof::prof

#endif // OPPROF_DIALECT_PROF_TRANSFORMS_ATTACHPROFILE_H
