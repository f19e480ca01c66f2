// Nodes by symbol: @gpt2::@linear_3 is the node linear_3 of the graph @gpt2,
// here or, where an fx.external stands for it, in another module.
//
// A node's name lives in its location, so such a reference is no use that
// MLIR's symbol tables follow to the end: it keeps pointing at the graph when
// the graph is renamed, and finds no node any more where a pass took the node
// or its location away. Verifiers therefore hold references to their graph
// only.
//
// Operations are not named by their classes here: who only looks nodes up is
// not built again when an op changes.

#ifndef OPPROF_DIALECT_FX_IR_NODESYMBOLS_H
#define OPPROF_DIALECT_FX_IR_NODESYMBOLS_H

#include "opprof/Support/NodeId.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Operation.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

#include <map>
#include <memory>
#include <vector>

namespace opprof::fx {

/// On a graph whose nodes were moved to lie side by side: for each node, in the
/// order of the graph with all partitions inlined, its place in the recorded
/// order.
inline constexpr llvm::StringLiteral kRecordedOrderAttr = "fx.recorded_order";
/// On a call: the discardable attributes that the nodes of this instance had.
inline constexpr llvm::StringLiteral kInstanceAttributesAttr =
    "fx.instance_attributes";

// Null is none of these.
bool isNode(mlir::Operation *op);
bool isCall(mlir::Operation *op);
bool isGraph(mlir::Operation *op);
/// An fx.external stands for a graph of another module.
bool isGraphOrExternal(mlir::Operation *op);

/// Graph and stage of an fx.graph or fx.external: `fx.name` where its symbol is
/// another one, and `stage`. What stands in a NodeId; its name is empty.
NodeId getGraphId(mlir::Operation *graph);

/// Where a node is.
struct NodePlace {
  /// The fx.node; of an outlined one that of the graph that its class shares.
  mlir::Operation *node = nullptr;
  /// The fx.calls that lead to it, the innermost first; none for a node that
  /// stands in the graph's own block.
  llvm::SmallVector<mlir::Operation *, 2> calls;
  /// Its place among the nodes that the outermost call stands for.
  unsigned index = 0;
  /// Its own location, also where others share the node; null where nothing
  /// keeps it.
  mlir::LocationAttr location;
};

/// All graphs and nodes of a module by identity and by symbol. Holds for as
/// long as nothing adds, removes or renames them, but for graphs that
/// addExternal adds.
class NodeSymbols {
public:
  explicit NodeSymbols(mlir::ModuleOp module);

  /// The fx.graph or fx.external of this graph and stage, or null; null too
  /// where several have them.
  mlir::Operation *lookupGraph(const NodeId &id) const;
  /// The same, and an fx.external that is made at the module's end where there
  /// is neither.
  mlir::Operation *getOrAddGraph(const NodeId &id);

  /// The node that is meant, or null: of inputs, of graphs that are not here,
  /// and where no node has the name.
  const NodePlace *lookup(const NodeId &id);
  const NodePlace *lookup(mlir::SymbolRefAttr node);

  /// @graph::@name. The graph must be in the module.
  mlir::SymbolRefAttr getRef(const NodeId &id) const;
  static mlir::SymbolRefAttr getRef(mlir::Operation *graph,
                                    llvm::StringRef name);
  /// What a reference means; the graph must be in the module.
  NodeId getId(mlir::SymbolRefAttr node) const;

  /// The nodes of an fx.graph in order, with those that its calls of outlined
  /// graphs stand for, as --inline-partitions would place them.
  llvm::ArrayRef<NodePlace> getPlaces(mlir::Operation *graph);
  /// The fx.graphs that have an identity: all but those that outlining made.
  llvm::ArrayRef<mlir::Operation *> getGraphs() const { return graphs; }

private:
  struct Index {
    std::vector<NodePlace> places;
    llvm::StringMap<unsigned> byName;
  };
  Index &getIndex(mlir::Operation *graph);
  void addGraph(mlir::Operation *graph, NodeId id);

  mlir::ModuleOp module;
  mlir::SymbolTableCollection symbols;
  llvm::SmallVector<mlir::Operation *> graphs;
  /// More than one where two graphs have the same identity.
  std::map<NodeId, llvm::SmallVector<mlir::Operation *, 1>> byId;
  llvm::DenseMap<mlir::Operation *, NodeId> ids;
  llvm::DenseMap<mlir::Operation *, std::unique_ptr<Index>> indices;
};

/// Checks that each of `nodes` is @graph::@node of an fx.graph or fx.external
/// of the module.
mlir::LogicalResult verifyNodeRefs(mlir::Operation *op, mlir::ArrayAttr nodes,
                                   mlir::SymbolTableCollection &symbols);

} // namespace opprof::fx

#endif // OPPROF_DIALECT_FX_IR_NODESYMBOLS_H
