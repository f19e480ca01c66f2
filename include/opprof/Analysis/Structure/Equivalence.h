// When two subgraphs are the same, why they are not, and where a pattern lies
// in a graph. One comparison of nodes serves all three.

#ifndef OPPROF_ANALYSIS_STRUCTURE_EQUIVALENCE_H
#define OPPROF_ANALYSIS_STRUCTURE_EQUIVALENCE_H

#include "opprof/Dialect/FX/IR/FX.h"
#include "opprof/Dialect/FX/IR/Symbols.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

#include <memory>
#include <vector>

namespace opprof::fx {

//===----------------------------------------------------------------------===//
// Subgraphs
//===----------------------------------------------------------------------===//

/// Nodes of one graph's block, and the values that cross their border.
struct Subgraph {
  /// In the order of the block, or in the order in which they are compared.
  llvm::SmallVector<mlir::Operation *> nodes;
  /// Values from outside in the order of their first use.
  llvm::SmallVector<mlir::Value> inputs;
  /// Values used outside in the order of their definition; for a whole graph
  /// the operands of its fx.output.
  llvm::SmallVector<mlir::Value> outputs;
  /// The graph, where this is all of it.
  GraphOp graph;

  /// The subgraph of `nodes`, which stand in one block.
  static Subgraph get(llvm::ArrayRef<mlir::Operation *> nodes);
  /// All nodes of `graph`; its inputs are the graph's, used or not.
  static Subgraph get(GraphOp graph);

  /// The same nodes in an order that depends on the dataflow alone: what
  /// each output needs, operands first. Nodes with effects keep their order.
  void sortByDataflow();
};

//===----------------------------------------------------------------------===//
// Equivalence
//===----------------------------------------------------------------------===//

struct EquivalenceOptions {
  /// Compares only the element types of tensors and their number of
  /// dimensions: the weaker class, which is reported and never merged.
  bool ignoreShapes = false;
  /// Compares nodes in the order of the dataflow instead of the recorded one.
  bool ignoreOrder = false;
};

enum class DifferenceKind {
  NodeCount,
  InputCount,
  OutputCount,
  Operation, ///< one is a node, the other a call or a marker
  Target,
  NodeKind,
  Arguments, ///< other number, nesting or keywords
  Constant,
  Edge, ///< an operand comes from another place
  DType,
  Shape,
  Stride,
  Device,
  Type, ///< another difference of types
  Effect,
  InputOrder,
  OutputOrder,
  Subgraph,  ///< in a graph that both name or call
  Unmatched, ///< a node that only one of them has
};

/// "operand", "stride", … as reports and remarks write it.
llvm::StringRef stringifyDifferenceKind(DifferenceKind kind);

/// One thing in which two subgraphs differ.
struct Difference {
  DifferenceKind kind = DifferenceKind::NodeCount;
  /// The position in `Subgraph::nodes`, of the first where both have a node
  /// there, or of the input or output.
  unsigned position = 0;
  /// The nodes at that position; null where a subgraph has none there.
  mlir::Operation *first = nullptr, *second = nullptr;
  /// What each has there, in words.
  std::string firstText, secondText;
  /// The schema's name of the argument that differs, or empty.
  llvm::StringRef argument;

  /// One sentence: "they differ in constant at node 3, … and …: the argument
  /// 'dim' is 0 in the first, -1 in the second".
  std::string getText() const;
  /// Reports it as a remark at the first node with a note at the second, each
  /// with the calls that led there, or at `place` where it is of no node.
  void report(mlir::Location place) const;
};

/// What a one-to-one map of two equal subgraphs renames.
struct Renaming {
  /// Size symbols, first to second ("s0" to "s1").
  SymbolMap symbols;
  /// Graphs that nodes name, first to second, where the names differ.
  llvm::MapVector<mlir::StringAttr, mlir::StringAttr> graphs;
};

/// None where the subgraphs are the same: the i-th node of one stands for the
/// i-th of the other with the same target, kind, constants, operands in order,
/// result type up to a consistent renaming of size symbols, and effects; and
/// inputs and outputs correspond in order. Names, locations, discardable
/// attributes and which values come in do not count.
std::optional<Difference> findDifference(const Subgraph &first,
                                         const Subgraph &second,
                                         EquivalenceOptions options = {},
                                         Renaming *renaming = nullptr);

inline bool areEquivalent(const Subgraph &first, const Subgraph &second,
                          EquivalenceOptions options = {},
                          Renaming *renaming = nullptr) {
  return !findDifference(first, second, options, renaming);
}

/// All differences, in the order of the nodes; empty where findDifference finds
/// none. Nodes are paired as in a diff of two texts, by what they call and
/// give, so that a node that only one subgraph has is one difference and does
/// not shift what follows; that the values it gives are taken then is no
/// difference of its own. Beyond kMostAligned pairs of nodes that could be
/// compared, those at equal positions are paired.
inline constexpr size_t kMostAligned = 25'000'000;
std::vector<Difference> findDifferences(const Subgraph &first,
                                        const Subgraph &second,
                                        EquivalenceOptions options = {});

/// A node's arguments with the symbols and graphs that they name renamed.
mlir::Attribute rename(mlir::Attribute attribute, const Renaming &renaming);

//===----------------------------------------------------------------------===//
// Patterns
//===----------------------------------------------------------------------===//

/// A place in a graph that a pattern matches.
struct SubgraphMatch {
  /// The nodes matched, in the order of the pattern's nodes.
  llvm::SmallVector<mlir::Operation *> nodes;
  /// What the pattern's arguments stand for, in order.
  llvm::SmallVector<mlir::Value> inputs;
  /// What the operands of the pattern's fx.output stand for, in order.
  llvm::SmallVector<mlir::Value> outputs;
  /// What each named open constant (#fx.any<"eps">) stands for.
  llvm::MapVector<mlir::StringAttr, mlir::Attribute> constants;
  /// What each size symbol of the pattern stands for: an #fx.sym or a number.
  llvm::StringMap<mlir::Attribute> symbols;
  /// Before this operation all inputs are defined, and no use of an output from
  /// outside the match stands before it: a replacement goes here.
  mlir::Operation *insertionPoint = nullptr;
};

struct PatternConditions;

/// The place of a graph that comes nearest to a pattern which is nowhere.
struct NearestPlace {
  /// How many of the pattern's nodes were found there.
  unsigned numFound = 0;
  /// The node of the pattern that does not fit, and the graph's in its place.
  NodeOp expected, actual;
  /// What is different there, in words.
  std::string text;
  /// Another operator stands there, and not only another argument or type.
  bool isOtherOperator = false;
  /// The larger, the nearer: first by the nodes found, then another type before
  /// another argument before another operator.
  unsigned rank = 0;
};

/// Finds places of a pattern. A pattern is an fx.graph whose arguments stand
/// for any value of a fitting type, the same argument for the same value. It
/// leaves open:
///  - a type:      !fx.any;  tensor<*xf32>, which fixes the element type only;
///                 `?` without an entry in `dims`; strides where the type says
///                 unknown_strides; strides, device, layout and subclass where
///                 it has no #fx.tensor encoding; requires_grad where it is not
///                 asked for
///  - a constant:  #fx.any, or #fx.any<"name"> to learn it (the same name
///                 stands for the same constant)
///  - a size:      a symbol in `dims` stands for one size or expression
/// Arguments of operators with a schema are compared by the schema's names,
/// with defaults explicit, so that it does not matter which are given by
/// keyword or left out. Graphs that nodes name have to be the same.
///
/// What else has to hold stands in PatternConditions.h. A match is safe to
/// replace: no value inside it is used outside unless the pattern outputs it;
/// it is convex; and no effect lies between its nodes that replacing them could
/// reorder.
class SubgraphMatcher {
public:
  /// Fails, with a diagnostic at the pattern, where it has no nodes, a node
  /// that writes more than what the pattern makes and reads once, or a node
  /// that no output needs and that is not linked to one through an argument.
  /// Where a `replacement` is given, a match is a place that it may take.
  static mlir::FailureOr<SubgraphMatcher> get(GraphOp pattern,
                                              GraphOp replacement = {});

  GraphOp getPattern() const { return pattern; }
  const PatternConditions &getConditions() const { return *conditions; }

  /// Matches that share no node, in the order of their anchors in `graph`.
  llvm::SmallVector<SubgraphMatch, 0> matchAll(GraphOp graph) const;

  /// Where in `graph`, in which there is no match, most of the pattern's nodes
  /// are found, and what differs there; none where no node of the graph calls
  /// what the first output's node calls.
  std::optional<NearestPlace> findNearest(GraphOp graph) const;
  /// The same for each node of `graph` that might give the pattern's first
  /// output and does not.
  void visitNearest(
      GraphOp graph,
      llvm::function_ref<void(mlir::Operation *, NearestPlace)> visit) const;

private:
  explicit SubgraphMatcher(GraphOp pattern) : pattern(pattern) {}

  /// One step of the search: how the node comes to be found.
  struct Step {
    NodeOp node;
    /// Null where an earlier step's node takes this one's result; else the
    /// operand of this node whose value an earlier step has found, so that this
    /// one is among that value's users.
    mlir::OpOperand *shared = nullptr;
  };
  GraphOp pattern;
  llvm::SmallVector<Step> steps;
  /// The place of a node among the pattern's nodes.
  llvm::SmallDenseMap<mlir::Operation *, unsigned> positions;
  std::shared_ptr<const PatternConditions> conditions;

  friend class MatchSearch;
};

} // namespace opprof::fx

#endif // OPPROF_ANALYSIS_STRUCTURE_EQUIVALENCE_H
