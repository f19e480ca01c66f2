// The prof dialect: what profiling puts into a graph, and how passes read it.

#ifndef OPPROF_DIALECT_PROF_IR_PROF_H
#define OPPROF_DIALECT_PROF_IR_PROF_H

#include "opprof/Dialect/FX/IR/FXAttributes.h"
#include "opprof/Support/Confidence.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "opprof/Dialect/Prof/IR/ProfDialect.h.inc"
#include "opprof/Dialect/Prof/IR/ProfEnums.h.inc"

namespace opprof::prof {
/// Reads `high`, `medium` or `low`.
mlir::FailureOr<Confidence> parseConfidence(mlir::AsmParser &parser);
} // namespace opprof::prof

#define GET_ATTRDEF_CLASSES
#include "opprof/Dialect/Prof/IR/ProfAttrs.h.inc"

#define GET_OP_CLASSES
#include "opprof/Dialect/Prof/IR/ProfOps.h.inc"

namespace opprof::prof {

/// The kernel time of `op` with all that is known of it, or null where no
/// profile says anything.
TimeAttr getTimeAttr(mlir::Operation *op);

/// The kernel time of `op` in one step, in nanoseconds, or none where no
/// profile says anything: an operation that took no time has 0.
std::optional<double> getTime(mlir::Operation *op);

/// The counters of `op`, or null.
CountersAttr getCounters(mlir::Operation *op);

/// The counter `name` of `op`, in the unit of docs/capture.md, or none.
std::optional<double> getCounter(mlir::Operation *op, llvm::StringRef name);

/// What the profile of the module that `op` is or lies in says of the whole
/// program, or null.
SummaryAttr getSummary(mlir::Operation *op);

} // namespace opprof::prof

#endif // OPPROF_DIALECT_PROF_IR_PROF_H
