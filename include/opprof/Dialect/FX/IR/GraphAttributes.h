// Names of the attributes that hold what a file says of a graph beyond its
// nodes, and of what they say.

#ifndef OPPROF_DIALECT_FX_IR_GRAPHATTRIBUTES_H
#define OPPROF_DIALECT_FX_IR_GRAPHATTRIBUTES_H

#include "llvm/ADT/StringRef.h"

namespace opprof::fx {

/// On an argument of a graph, a tensor without dimensions: what it holds.
inline constexpr llvm::StringLiteral kConstantAttr = "fx.constant";

// Discardable attributes of a graph.
inline constexpr llvm::StringLiteral kRangeConstraintsAttr =
    "fx.range_constraints";
inline constexpr llvm::StringLiteral kInSpecAttr = "fx.in_spec";
inline constexpr llvm::StringLiteral kOutSpecAttr = "fx.out_spec";
inline constexpr llvm::StringLiteral kAttributesAttr = "fx.attributes";
/// On the module: what wrote the file.
inline constexpr llvm::StringLiteral kProducerAttr = "fx.producer";
/// The key in `fx.attributes` that says "single" or "list" where a graph does
/// not return a tuple.
inline constexpr llvm::StringLiteral kOutputFormKey = "output";
/// The key in `fx.attributes` of what attributes of the model that are no
/// tensors hold before the first call, by name.
inline constexpr llvm::StringLiteral kStateKey = "state";
/// The key in `fx.attributes` of weights that are parts of one memory, and of
/// which the graph writes one.
inline constexpr llvm::StringLiteral kSharedMemoryKey = "shared_memory";
/// The key in `fx.attributes` of arguments from whose types the graph follows,
/// and that are None, or lists, tuples and dictionaries.
inline constexpr llvm::StringLiteral kArgumentFormsKey = "argument_forms";

/// What `fx.kind` says of an input.
inline constexpr llvm::StringLiteral kInputKinds[] = {
    "parameter",       "buffer", "constant_tensor",
    "constant_object", "token",  "user_input"};
inline constexpr llvm::StringLiteral kUserInputKind = "user_input";

/// What the `signature` of an output op says of an output.
inline constexpr llvm::StringLiteral kOutputKinds[] = {"user_output",
                                                       "loss_output",
                                                       "buffer_mutation",
                                                       "parameter_mutation",
                                                       "user_input_mutation",
                                                       "gradient_to_parameter",
                                                       "gradient_to_user_input",
                                                       "token"};
inline constexpr llvm::StringLiteral kUserOutputKind = "user_output";

} // namespace opprof::fx

#endif // OPPROF_DIALECT_FX_IR_GRAPHATTRIBUTES_H
