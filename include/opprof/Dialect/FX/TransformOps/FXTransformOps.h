// Transform operations on fx graphs, and the replacement of subgraphs that one
// of them stands for.

#ifndef OPPROF_DIALECT_FX_TRANSFORMOPS_FXTRANSFORMOPS_H
#define OPPROF_DIALECT_FX_TRANSFORMOPS_FXTRANSFORMOPS_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Transform/IR/TransformDialect.h"
#include "mlir/Dialect/Transform/Interfaces/TransformInterfaces.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#define GET_OP_CLASSES
#include "opprof/Dialect/FX/TransformOps/FXTransformOps.h.inc"

namespace opprof::fx {

class GraphOp;
class SubgraphMatcher;

/// The discardable attribute of a graph that holds its region strategies.
inline constexpr llvm::StringLiteral kStrategiesAttr = "fx.strategies";

/// What replacing a pattern in a graph made.
struct Replaced {
  unsigned numPlaces = 0;
  /// The new nodes of all places, in the order of the places.
  llvm::SmallVector<mlir::Operation *> nodes;
};

/// Puts the nodes of `replacement` at every place of the matcher's pattern in
/// `graph`. The two agree in arguments and results, and the matcher was made
/// for that replacement. Every change goes through `rewriter`, also the new
/// types of views of what was replaced.
Replaced replaceSubgraphs(mlir::RewriterBase &rewriter, GraphOp graph,
                          const SubgraphMatcher &matcher, GraphOp replacement);

/// Under this extension of the state, a pattern of the sequence `entry` itself
/// that is nowhere is a warning, and the sequence goes on: each edit of a
/// script stands for itself, as in an emitted backend. What is nested, as in
/// transform.alternatives, still fails silenceably.
class WarnWherePatternIsNowhere
    : public mlir::transform::TransformState::Extension {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(WarnWherePatternIsNowhere)
  WarnWherePatternIsNowhere(mlir::transform::TransformState &state,
                            mlir::Operation *entry)
      : Extension(state), entry(entry) {}

  mlir::Operation *getEntry() const { return entry; }

private:
  mlir::Operation *entry;
};

/// Makes the operations above part of the transform dialect.
void registerTransformExtension(mlir::DialectRegistry &registry);

} // namespace opprof::fx

#endif // OPPROF_DIALECT_FX_TRANSFORMOPS_FXTRANSFORMOPS_H
