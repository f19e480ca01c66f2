// Graph JSON (docs/formats/graph-json.md) to the fx dialect and back.

#ifndef OPPROF_TARGET_FXJSON_FXJSON_H
#define OPPROF_TARGET_FXJSON_FXJSON_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace opprof::fx {

/// Names of the discardable attributes that hold what a file says of a graph
/// beyond its nodes, and of the one on the module.
inline constexpr llvm::StringLiteral kRangeConstraintsAttr =
    "fx.range_constraints";
inline constexpr llvm::StringLiteral kInSpecAttr = "fx.in_spec";
inline constexpr llvm::StringLiteral kOutSpecAttr = "fx.out_spec";
inline constexpr llvm::StringLiteral kAttributesAttr = "fx.attributes";
inline constexpr llvm::StringLiteral kProducerAttr = "fx.producer";
/// The key in `fx.attributes` that says "single" or "list" where a graph does
/// not return a tuple.
inline constexpr llvm::StringLiteral kOutputFormKey = "output";

/// Reads graph JSON in one pass. Null, with diagnostics at the place in the
/// file, where it is not what the format asks for; `fileName` is what they name
/// it.
mlir::OwningOpRef<mlir::ModuleOp> importGraphJSON(llvm::StringRef text,
                                                  llvm::StringRef fileName,
                                                  mlir::MLIRContext *context);

/// Writes all graphs of the module. Fails, having written nothing, where one
/// holds an op that the format has no form for.
mlir::LogicalResult exportGraphJSON(mlir::ModuleOp module,
                                    llvm::raw_ostream &os);

/// --import-fx-json and --export-fx-json.
void registerFXJSONTranslations();

} // namespace opprof::fx

#endif // OPPROF_TARGET_FXJSON_FXJSON_H
