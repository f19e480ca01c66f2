// Transform operations on fx graphs, and the replacement of subgraphs that one
// of them stands for.

#ifndef OPPROF_DIALECT_FX_TRANSFORMOPS_FXTRANSFORMOPS_H
#define OPPROF_DIALECT_FX_TRANSFORMOPS_FXTRANSFORMOPS_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Transform/IR/TransformDialect.h"
#include "mlir/Dialect/Transform/Interfaces/TransformInterfaces.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#define GET_OP_CLASSES
#include "opprof/Dialect/FX/TransformOps/FXTransformOps.h.inc"

namespace opprof::fx {

class GraphOp;
class SubgraphMatcher;

/// The discardable attribute of a graph that holds its region strategies.
inline constexpr llvm::StringLiteral kStrategiesAttr = "fx.strategies";

/// Puts the nodes of `replacement` at every place of the matcher's pattern in
/// `graph`, and returns at how many. The two agree in arguments and results.
unsigned replaceSubgraphs(GraphOp graph, const SubgraphMatcher &matcher,
                          GraphOp replacement);

/// Makes the operations above part of the transform dialect.
void registerTransformExtension(mlir::DialectRegistry &registry);

} // namespace opprof::fx

#endif // OPPROF_DIALECT_FX_TRANSFORMOPS_FXTRANSFORMOPS_H
