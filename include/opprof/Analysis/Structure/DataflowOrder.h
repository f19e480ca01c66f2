// An order of nodes that depends on the dataflow alone.

#ifndef OPPROF_ANALYSIS_STRUCTURE_DATAFLOWORDER_H
#define OPPROF_ANALYSIS_STRUCTURE_DATAFLOWORDER_H

#include "opprof/Dialect/FX/IR/FX.h"

#include <vector>

namespace opprof::fx {

/// `nodes`, which stand in one block and have definitions before uses, in an
/// order that depends on what they compute, and not on the order that they came
/// in: the same for every order in which the same graph could be recorded. Each
/// node stands as near to its last use as the others allow, so that what
/// belongs together stays together. Nodes with effects keep their order.
///
/// `roots` gives the nodes whose results the outside takes, in its order; what
/// they don't need follows.
std::vector<mlir::Operation *>
getDataflowOrder(llvm::ArrayRef<mlir::Operation *> nodes,
                 llvm::ArrayRef<mlir::Operation *> roots);

/// The nodes of `graph` without its output, for which its outputs are the
/// roots.
std::vector<mlir::Operation *> getDataflowOrder(GraphOp graph);

} // namespace opprof::fx

#endif // OPPROF_ANALYSIS_STRUCTURE_DATAFLOWORDER_H
