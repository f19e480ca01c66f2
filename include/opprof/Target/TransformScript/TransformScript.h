// Rewrite scripts: transform scripts with a head that says what they are for.
// Reading, applying, and printing one as the parts of a torch.compile backend.

#ifndef OPPROF_TARGET_TRANSFORMSCRIPT_TRANSFORMSCRIPT_H
#define OPPROF_TARGET_TRANSFORMSCRIPT_TRANSFORMSCRIPT_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace opprof::fx {

/// The attribute of a script's module that holds its head, a dictionary:
///   name         "merge-gemms"
///   rank         1 for the one with the largest prediction
///   finding      the finding that it answers
///   title        one line
///   explanation  why it is right and why it should be faster
///   saves_ns     predicted for one step; absent where nothing is known
///   nodes        lists of node names, one list for each place
/// All but the name may be missing.
inline constexpr llvm::StringLiteral kRewriteAttr = "fx.rewrite";

struct RewriteScript {
  std::string path;
  mlir::OwningOpRef<mlir::ModuleOp> module;

  mlir::DictionaryAttr getHead() const;
  llvm::StringRef getText(llvm::StringRef key) const;
  /// The name in the head, or the file's.
  llvm::StringRef getName() const;
  int64_t getRank() const;
};

/// The script in the file `path`, or all `*.mlir` files of the folder `path` by
/// rank, then name. Reports what is wrong with a file and fails.
mlir::FailureOr<llvm::SmallVector<RewriteScript>>
loadRewriteScripts(llvm::StringRef path, mlir::MLIRContext *context);

/// Applies `script` to the graphs of `payload`. A pattern of its sequence that
/// is nowhere is a warning; a failure that the sequence passes on is an error.
mlir::LogicalResult applyRewriteScript(const RewriteScript &script,
                                       mlir::ModuleOp payload);

/// Prints the functions of a script, then `REWRITES += (…)` and `STRATEGY =
/// replace(STRATEGY, …)` for what its sequence does. Writes nothing on failure.
/// The rewrite goes by `name`, or by that of the script where none is given.
mlir::LogicalResult emitRewrite(mlir::ModuleOp script, llvm::raw_ostream &os,
                                llvm::StringRef name = {});

/// Makes --emit-rewrite known: one script as Python definitions.
void registerEmitRewriteTranslation();

} // namespace opprof::fx

#endif // OPPROF_TARGET_TRANSFORMSCRIPT_TRANSFORMSCRIPT_H
