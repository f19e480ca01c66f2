// Graph JSON (docs/formats/graph-json.md) to the fx dialect and back.

#ifndef OPPROF_TARGET_FXJSON_FXJSON_H
#define OPPROF_TARGET_FXJSON_FXJSON_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace opprof::fx {

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
