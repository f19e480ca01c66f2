// The cost model's answer for a node of the fx dialect.

#ifndef OPPROF_ANALYSIS_COST_NODECOST_H
#define OPPROF_ANALYSIS_COST_NODECOST_H

#include "opprof/Analysis/Cost/CostModel.h"

#include "mlir/IR/Types.h"

namespace opprof::fx {
class NodeOp;
} // namespace opprof::fx

namespace opprof {

/// The shape of a tensor type; of any other type an unknown one.
TensorShape getTensorShape(mlir::Type type);

/// FLOPs and bytes of one call of the node, by its operands' types and the
/// arguments that the model asks for.
OperatorCost getNodeCost(fx::NodeOp node);

} // namespace opprof

#endif // OPPROF_ANALYSIS_COST_NODECOST_H
