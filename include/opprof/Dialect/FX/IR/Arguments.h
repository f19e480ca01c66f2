// Nested arguments of fx nodes: walking them, rebuilding them, and torch's
// dtypes as MLIR types.

#ifndef OPPROF_DIALECT_FX_IR_ARGUMENTS_H
#define OPPROF_DIALECT_FX_IR_ARGUMENTS_H

#include "opprof/Dialect/FX/IR/FXAttributes.h"

namespace opprof::fx {

class NodeOp;
struct SchemaArgument;

/// What `argument` is where a call leaves it out, or null where it may not.
mlir::Attribute getDefaultValue(mlir::MLIRContext *context,
                                const SchemaArgument &argument);

/// What `node` gives for `argument` of its schema, in the one form that all
/// ways to write the same call have: a default that is left out is explicit, a
/// whole number for a float is a float, a tuple for a list is a list. Null
/// where an argument is missing that may not be.
mlir::Attribute getNormalizedArgument(NodeOp node,
                                      const SchemaArgument &argument);

/// The model's attribute that `node` assigns, by its name: what TorchScript's
/// `prim.SetAttr` writes and `get_attr` reads. Null for other nodes.
mlir::StringAttr getAssignedAttribute(NodeOp node);

/// Calls `visit` on every leaf of `argument` (lists, tuples, dicts and slices
/// are no leaves) in the order in which it is written, which is the order of
/// the operands that its #fx.value leaves stand for.
void walkLeaves(mlir::Attribute argument,
                llvm::function_ref<void(mlir::Attribute)> visit);

/// The number of #fx.value leaves in `argument`.
unsigned countValues(mlir::Attribute argument);

/// The number that an argument is, whole or not; none for anything else, or
/// where there is no argument.
std::optional<double> getNumber(mlir::Attribute argument);

/// A copy of `argument` whose leaves are what `replace` makes of them.
mlir::Attribute
mapLeaves(mlir::Attribute argument,
          llvm::function_ref<mlir::Attribute(mlir::Attribute)> replace);

/// The MLIR element type for torch's dtype of that name ("bfloat16").
/// A dtype that MLIR has no type for becomes !fx.dtype.
mlir::Type getElementType(mlir::MLIRContext *context, llvm::StringRef dtype);

/// Torch's name for an element type; empty for a type that torch does not have.
llvm::StringRef getDTypeName(mlir::Type elementType);

/// Bytes of an element of that type, or none where it is unknown.
std::optional<uint64_t> getElementBytes(mlir::Type elementType);

} // namespace opprof::fx

#endif // OPPROF_DIALECT_FX_IR_ARGUMENTS_H
