// The cost model's answer for a node of an FX graph.

#ifndef OPPROF_LIB_TARGET_INDUCTORCODE_NODECOST_H
#define OPPROF_LIB_TARGET_INDUCTORCODE_NODECOST_H

#include "opprof/Analysis/Cost/CostModel.h"
#include "opprof/Target/InductorCode/GraphView.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace opprof::inductor {

/// What one call of node `at` costs, by its operands, results and arguments.
/// `withSizes` puts numbers in the place of symbols. `isCausal`: attention
/// whose kernel is known to skip what is masked, whatever the node says.
OperatorCost
estimateNodeCost(llvm::ArrayRef<GraphNode> nodes, uint32_t at,
                 llvm::function_ref<TensorInfo(const TensorInfo &)> withSizes,
                 bool isCausal = false);

} // namespace opprof::inductor

#endif // OPPROF_LIB_TARGET_INDUCTORCODE_NODECOST_H
