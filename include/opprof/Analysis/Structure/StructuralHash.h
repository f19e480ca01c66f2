// Hashes of nodes and subgraphs that depend on nothing but their structure: the
// same in every run, on every machine, in every graph.

#ifndef OPPROF_ANALYSIS_STRUCTURE_STRUCTURALHASH_H
#define OPPROF_ANALYSIS_STRUCTURE_STRUCTURALHASH_H

#include "opprof/Analysis/Structure/Equivalence.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

namespace opprof::fx {

/// Hashes what `findDifference` compares: equal subgraphs have equal hashes.
/// Attributes and types are interned, so each of them is hashed once; keep one
/// object for all the graphs of a module, and no longer than they stay as they
/// are.
class StructuralHash {
public:
  explicit StructuralHash(EquivalenceOptions options = {}) : options(options) {}

  /// A node without its operands: operation, target, kind, constants, keywords
  /// and result types.
  uint64_t hashNode(mlir::Operation *op);
  uint64_t hashBlocks(NodeOp node);

  uint64_t hashSubgraph(const Subgraph &subgraph);

  /// A graph that nodes name or call; names do not count.
  uint64_t hashGraph(GraphOp graph);

  uint64_t hashType(mlir::Type type);
  uint64_t hashAttribute(mlir::Attribute attribute);

  /// Sixteen hexadecimal digits.
  static std::string toText(uint64_t hash);

private:
  uint64_t hashGraphReference(mlir::Operation *op,
                              mlir::FlatSymbolRefAttr name);
  uint64_t computeTypeHash(mlir::Type type);
  uint64_t computeAttributeHash(mlir::Attribute attribute);
  uint64_t hashArguments(NodeOp node);
  bool namesGraphs(mlir::Attribute attribute);
  void appendSymbols(mlir::Type type, llvm::StringMap<unsigned> &numbers,
                     llvm::SmallVectorImpl<uint64_t> &words);

  EquivalenceOptions options;
  llvm::DenseMap<mlir::Attribute, uint64_t> attributeHashes;
  llvm::DenseMap<mlir::Type, uint64_t> typeHashes;
  llvm::DenseMap<mlir::Attribute, bool> graphNaming;
  /// The symbols of a type in the order written; none for most.
  llvm::DenseMap<mlir::Type, llvm::SmallVector<llvm::StringRef>> typeSymbols;
  llvm::DenseMap<mlir::Operation *, uint64_t> graphHashes;
};

} // namespace opprof::fx

#endif // OPPROF_ANALYSIS_STRUCTURE_STRUCTURALHASH_H
