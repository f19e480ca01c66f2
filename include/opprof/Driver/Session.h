// What all commands of one process share: the context, what its readers say,
// and the lines of progress.

#ifndef OPPROF_DRIVER_SESSION_H
#define OPPROF_DRIVER_SESSION_H

#include "opprof/Support/ForeignDiagnostics.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

#include <chrono>
#include <memory>
#include <string>

namespace mlir {
class Pass;
} // namespace mlir

namespace opprof::driver {

class Session {
public:
  /// `elapsed` is how long the command had run before this process began, in
  /// seconds: progress counts from there.
  explicit Session(double elapsed = 0);

  mlir::MLIRContext &getContext() { return context; }

  /// Prints a line on stderr, with the seconds since the command began.
  void progress(const llvm::Twine &what) const;

  /// Reads a graph in any form that opprof reads.
  llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>>
  readGraph(llvm::StringRef path);

  /// Reads graph JSON that was made of `archive`, which errors name.
  llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>>
  readGraphOf(llvm::StringRef archive, llvm::StringRef path);

  /// Runs one pass on a module.
  llvm::Error runPass(mlir::ModuleOp module, std::unique_ptr<mlir::Pass> pass);

  /// Does what may remark and warn without showing it; what it gives as errors
  /// is the Error.
  llvm::Error quietly(llvm::function_ref<llvm::LogicalResult()> work);

private:
  /// Shows remarks and warnings at once, and keeps errors for the Error that
  /// ends the command.
  class Diagnostics : public ForeignDiagnostics {
  public:
    Diagnostics(llvm::SourceMgr &sources, mlir::MLIRContext *context,
                llvm::raw_string_ostream &text);
    bool quiet = false;
  };

  /// The errors that readers and passes gave since the last call.
  llvm::Error takeErrors(const llvm::Twine &otherwise);

  mlir::MLIRContext context;
  llvm::SourceMgr sources;
  std::string text;
  llvm::raw_string_ostream stream{text};
  Diagnostics diagnostics;
  std::chrono::steady_clock::time_point start;
};

} // namespace opprof::driver

#endif // OPPROF_DRIVER_SESSION_H
