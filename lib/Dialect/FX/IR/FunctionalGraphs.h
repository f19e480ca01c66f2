// Which graphs write nothing, asked of many graphs of one module.

#ifndef OPPROF_LIB_DIALECT_FX_IR_FUNCTIONALGRAPHS_H
#define OPPROF_LIB_DIALECT_FX_IR_FUNCTIONALGRAPHS_H

#include "opprof/Dialect/FX/IR/FX.h"

#include "mlir/IR/SymbolTable.h"

namespace opprof::fx {

/// GraphOp::isFunctional, with tables for the graphs that nodes name: to look
/// each up alone takes time with the square of their number.
bool isFunctional(GraphOp graph, mlir::SymbolTableCollection &symbols);

} // namespace opprof::fx

#endif // OPPROF_LIB_DIALECT_FX_IR_FUNCTIONALGRAPHS_H
