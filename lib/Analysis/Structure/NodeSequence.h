// The bodies of graphs as one sequence of numbers, for finding what repeats.

#ifndef OPPROF_LIB_ANALYSIS_STRUCTURE_NODESEQUENCE_H
#define OPPROF_LIB_ANALYSIS_STRUCTURE_NODESEQUENCE_H

#include "opprof/Analysis/Structure/RepeatedSubgraphs.h"

#include <limits>

namespace opprof::fx {

/// The bodies of graphs, one behind the other, as arrays of numbers. A position
/// is that of a node that may be in a partition, or of something that no
/// partition goes across, which has a null in `nodes`.
struct NodeSequence {
  /// `lastUse` of a node that its graph returns, or that something takes which
  /// is in no partition.
  static constexpr int kOutside = std::numeric_limits<int>::max();

  NodeSequence(llvm::ArrayRef<GraphOp> graphs, bool ignoreOrder,
               StructuralHash &hash);
  /// The blocks that nodes hold, and behind them the graphs that are classes
  /// already, closed.
  NodeSequence(llvm::ArrayRef<mlir::Block *> blocks,
               llvm::ArrayRef<GraphOp> classes, StructuralHash &hash);

  std::vector<mlir::Operation *> nodes;
  /// A number for each node's content and the types that it takes: what is the
  /// same has equal numbers.
  std::vector<int> contents;
  int numContents = 0;
  /// For the operands of all nodes: the position of the node that gives the
  /// value, or -1 for one from elsewhere. Those of node i begin at
  /// operandStart[i].
  std::vector<int> operandStart, operands;
  /// The last position that uses a result of a node, or kOutside.
  std::vector<int> lastUse;
  /// Where the graphs that are classes already begin and end.
  struct Body {
    int begin, end;
    GraphOp graph;
  };
  std::vector<Body> bodies;
  /// From here on stands what may only be taken whole.
  int firstClosed = 0;
  /// The number of fx.node operations, those in blocks of nodes among them.
  unsigned numNodes = 0;
  /// True where nodes of the first graph are not in the sequence.
  bool hasSkipped = false;
  /// True where a node holds blocks.
  bool hasBlocks = false;

  int size() const { return nodes.size(); }
};

/// The edges of one appearance: for each operand the position inside, or which
/// value from outside; and which results are used outside.
struct AppearanceShape {
  std::vector<int> edges;
  std::vector<mlir::Value> inputs;
  std::vector<std::pair<unsigned, unsigned>> outputs;
};

/// The shape of the `length` nodes from position `place` on.
AppearanceShape getShape(const NodeSequence &sequence, int place, int length);

} // namespace opprof::fx

#endif // OPPROF_LIB_ANALYSIS_STRUCTURE_NODESEQUENCE_H
