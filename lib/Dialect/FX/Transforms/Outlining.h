// Turning the partitions of a class into calls of one graph.

#ifndef OPPROF_LIB_DIALECT_FX_TRANSFORMS_OUTLINING_H
#define OPPROF_LIB_DIALECT_FX_TRANSFORMS_OUTLINING_H

#include "opprof/Analysis/Structure/RepeatedSubgraphs.h"
#include "opprof/Dialect/FX/IR/FX.h"
#include "opprof/Dialect/FX/IR/NodeSymbols.h"

#include "mlir/IR/SymbolTable.h"

namespace opprof::fx {

/// On a call: the result types of the nodes of this instance, where they differ
/// in more than names from those of the callee (in storage offsets).
inline constexpr llvm::StringLiteral kInstanceTypesAttr = "fx.instance_types";
/// On a call: the arguments of the nodes of this instance that differ from
/// those of the callee, in what has no effect; units for the others.
inline constexpr llvm::StringLiteral kInstanceArgumentsAttr =
    "fx.instance_arguments";
/// On a call: which graphs stand here for those that the callee's nodes name.
inline constexpr llvm::StringLiteral kRenamedGraphsAttr = "fx.renamed_graphs";

/// What a partition is called, from the module paths of its nodes.
struct PartitionLabel {
  /// The module that all nodes lie in, or most of them; of several modules of
  /// one class, the first and the last (`h.0+h.1`, `h.0..h.3`). Empty where
  /// nothing is known.
  std::string path;
  /// The class of that module, without its package.
  std::string type;
  /// The outermost modules that hold the nodes.
  std::vector<std::string> modules;
};
/// `modulesKey` is kModulesKey, which many calls look up once.
PartitionLabel getPartitionLabel(mlir::StringAttr modulesKey,
                                 llvm::ArrayRef<mlir::Location> locations);

/// Moves nodes so that those of each partition lie side by side, in the order
/// of the partition. Leaves kRecordedOrderAttr where it had to.
void gatherPartitions(GraphOp graph, llvm::ArrayRef<PartitionClass> classes,
                      bool followDataflow);

/// What a class is to be called, and each of its partitions.
struct ClassNames {
  std::string graph;
  std::vector<std::string> labels;
};

/// Makes a private graph of the first partition of each class that has none and
/// replaces every partition by a call of it. The nodes of all partitions but
/// the first are gone afterwards.
llvm::SmallVector<GraphOp>
outlineClasses(GraphOp graph, llvm::MutableArrayRef<PartitionClass> classes,
               llvm::ArrayRef<ClassNames> names, mlir::SymbolTable &symbols);

} // namespace opprof::fx

#endif // OPPROF_LIB_DIALECT_FX_TRANSFORMS_OUTLINING_H
