// The comparison of two nodes that equivalence and patterns share.

#ifndef OPPROF_LIB_ANALYSIS_STRUCTURE_NODECOMPARISON_H
#define OPPROF_LIB_ANALYSIS_STRUCTURE_NODECOMPARISON_H

#include "opprof/Analysis/Structure/Equivalence.h"
#include "opprof/Dialect/FX/IR/Schema.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace opprof::fx {

/// Arguments that say a size, which subgraphs equal but for shapes may differ
/// in.
bool isSizeArgument(llvm::StringRef name);

/// The name of the argument at `index`: its keyword, or the schema's name.
llvm::StringRef getArgumentName(NodeOp node, const OperatorSchema *schema,
                                unsigned index);

/// Compares one node after the other, and keeps what the nodes so far have
/// bound: values, size symbols, open constants. Where `isPattern` holds, the
/// first of two nodes may leave constants open, their arguments are compared as
/// the schema normalizes them, and their types are not looked at: those are for
/// PatternConditions. Every comparison answers whether they agree, and leaves
/// the difference where they do not.
class NodeComparison {
public:
  NodeComparison(EquivalenceOptions options, bool isPattern)
      : options(options), isPattern(isPattern) {}

  bool compareTypes(mlir::Type first, mlir::Type second);
  bool compareNodes(NodeOp first, NodeOp second);
  bool compareOperations(mlir::Operation *first, mlir::Operation *second);
  bool compareSubgraphs(const Subgraph &first, const Subgraph &second);

  /// Appends every difference to `differences`, where `pairs` are positions in
  /// `first` and `second` that stand for each other, in order.
  void listDifferences(const Subgraph &first, const Subgraph &second,
                       llvm::ArrayRef<std::pair<unsigned, unsigned>> pairs,
                       std::vector<Difference> &differences);

  const Difference &getDifference() const { return difference; }
  Renaming takeRenaming() { return std::move(renaming); }

  /// After compareNodes of a pattern: the operands that stand for each other.
  llvm::SmallVector<std::pair<mlir::Value, mlir::Value>> pairedOperands;
  llvm::MapVector<mlir::StringAttr, mlir::Attribute> boundConstants;
  llvm::StringMap<mlir::Attribute> boundSizes;

  /// In a pattern: true where a size is `expected`, or where the symbol
  /// `expected` stands for it. Null is a size that nobody knows.
  bool bindSize(mlir::Attribute expected, mlir::Attribute size);

private:
  llvm::StringRef getComparedArgument();
  bool differ(DifferenceKind kind, std::string firstText,
              std::string secondText);
  bool compareSymbols(llvm::StringRef first, llvm::StringRef second);
  bool compareSize(mlir::Attribute first, mlir::Attribute second);
  bool compareTensors(mlir::RankedTensorType first,
                      mlir::RankedTensorType second);
  bool compareGraphs(mlir::Operation *first, mlir::FlatSymbolRefAttr name,
                     mlir::Operation *second, mlir::FlatSymbolRefAttr other);
  bool compareArguments(mlir::Operation *first, mlir::Attribute argument,
                        mlir::Operation *second, mlir::Attribute other,
                        bool isSize);
  /// The arguments of two calls that give as many, with the same keywords.
  bool compareGivenArguments(NodeOp first, NodeOp second);
  bool comparePatternArguments(NodeOp pattern, NodeOp node);
  /// Lists in which arguments, by the schema's names and with defaults
  /// explicit, two calls differ that give another number of them.
  bool listArguments(NodeOp first, NodeOp second);
  /// The inputs of two graphs.
  bool compareInputs(const Subgraph &first, const Subgraph &second);
  bool compareOperands(mlir::Operation *node, mlir::Operation *other,
                       const Subgraph &first, const Subgraph &second);
  /// Numbers of nodes, inputs and outputs, and which the outputs are.
  bool compareBorders(const Subgraph &first, const Subgraph &second);
  bool bind(mlir::Value first, mlir::Value second);

  EquivalenceOptions options;
  bool isPattern;
  Difference difference;
  /// What is being compared, so that a difference can name it: an argument of
  /// `comparedNode` by its index, by the index of an operand in it, or by name.
  NodeOp comparedNode;
  std::optional<unsigned> comparedArgument, comparedOperand;
  llvm::StringRef comparedName;
  /// Where all differences are asked for: they go there, and comparing goes on.
  std::vector<Difference> *all = nullptr;
  /// The nodes of the two subgraphs, and those that the other one lacks.
  llvm::SmallPtrSet<mlir::Operation *, 16> inside, otherInside, unmatched;
  Renaming renaming;
  llvm::StringMap<std::string> backwardSymbols;
  llvm::DenseMap<mlir::Value, mlir::Value> values, backwardValues;
  llvm::DenseSet<std::pair<mlir::Operation *, mlir::Operation *>>
      graphsInProgress;
};

} // namespace opprof::fx

#endif // OPPROF_LIB_ANALYSIS_STRUCTURE_NODECOMPARISON_H
