// Graphs in files of any form that opprof reads and writes.

#ifndef OPPROF_TARGET_GRAPHFILE_GRAPHFILE_H
#define OPPROF_TARGET_GRAPHFILE_GRAPHFILE_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/Error.h"

namespace opprof {

/// Whether the suffix of `path` is one of MLIR's: .mlir (text) or .mlirbc.
bool isMLIRFile(llvm::StringRef path);

/// Reads and verifies a graph by the suffix of its file: .json (graph JSON),
/// .pt2 (an archive of torch.export), .mlir and .mlirbc. What is wrong inside
/// of the file goes to the context as diagnostics, and the module is null; the
/// error is of what cannot be opened, or is none of these.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>>
readGraphFile(llvm::StringRef path, mlir::MLIRContext *context);

/// Reads and verifies graph JSON whatever the suffix of its file, of which
/// diagnostics speak as `name`.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>>
readGraphJSONFile(llvm::StringRef path, llvm::StringRef name,
                  mlir::MLIRContext *context);

/// Writes a module, whole or not at all: as text where `path` ends with .mlir,
/// as bytecode else.
llvm::Error writeGraphFile(mlir::ModuleOp module, llvm::StringRef path);

} // namespace opprof

#endif // OPPROF_TARGET_GRAPHFILE_GRAPHFILE_H
