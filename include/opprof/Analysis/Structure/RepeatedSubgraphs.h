// Subgraphs that a graph repeats, found from structure alone.

#ifndef OPPROF_ANALYSIS_STRUCTURE_REPEATEDSUBGRAPHS_H
#define OPPROF_ANALYSIS_STRUCTURE_REPEATEDSUBGRAPHS_H

#include "opprof/Analysis/Structure/Equivalence.h"
#include "opprof/Analysis/Structure/StructuralHash.h"

#include <vector>

namespace opprof::fx {

struct RepeatOptions {
  /// The fewest nodes of a partition.
  unsigned minNodes = 4;
  /// The fewest partitions of a class.
  unsigned minRepeats = 2;
  EquivalenceOptions equivalence;
  /// True where the classes are searched for repeats again: the greatest
  /// repeats come first then, with borders that cut no smaller one.
  bool areNested = false;
};

/// One place of a class.
struct Partition {
  /// Position i is the same place of the class in every partition.
  std::vector<mlir::Operation *> nodes;
  /// Values from outside in the order of their first use.
  std::vector<mlir::Value> inputs;
  /// True where the nodes are known to lie side by side in the block.
  bool isSideBySide = false;
  /// True where arguments and types of every node are the very ones of the
  /// first partition.
  bool isIdentical = false;
  /// From the first partition's symbols and graphs to this one's.
  Renaming renaming;
};

/// Subgraphs that are the same, confirmed one by one.
struct PartitionClass {
  uint64_t hash = 0;
  /// The graph that is this class already, all of which is the first partition;
  /// null for a new class.
  GraphOp graph;
  /// The values used outside: a node's position, and which of its results.
  std::vector<std::pair<unsigned, unsigned>> outputs;
  /// Those found first in the order of the graph. A std::vector would copy them
  /// as it grows, since nothing says that moving a Renaming does not throw.
  llvm::SmallVector<Partition, 0> partitions;
};

/// What a search went through.
struct SearchedNodes {
  /// The number of fx.node operations, those in blocks of nodes among them.
  unsigned numNodes = 0;
  /// True where a node holds blocks.
  bool hasBlocks = false;
};

/// Disjoint, convex, maximal repeats of `graphs`, the classes in the order of
/// their first partitions. Where there are several graphs, those behind the
/// first are classes already: what is in them is searched too, and what is the
/// same as all of one of them belongs to it.
///
/// Nodes that only name a weight (get_attr), calls and nodes of other dialects
/// are in no partition. With `ignoreOrder`, partitions need not lie side by
/// side in the block, but do so in the order of getDataflowOrder.
std::vector<PartitionClass>
findRepeatedSubgraphs(llvm::ArrayRef<GraphOp> graphs,
                      const RepeatOptions &options, StructuralHash &hash,
                      SearchedNodes *searched = nullptr);

/// The same of blocks that nodes hold, none of which lies in another one. What
/// is the same as all of one of `classes` belongs to it; they are not searched
/// themselves.
std::vector<PartitionClass>
findRepeatedSubgraphs(llvm::ArrayRef<mlir::Block *> blocks,
                      llvm::ArrayRef<GraphOp> classes,
                      const RepeatOptions &options, StructuralHash &hash);

} // namespace opprof::fx

#endif // OPPROF_ANALYSIS_STRUCTURE_REPEATEDSUBGRAPHS_H
