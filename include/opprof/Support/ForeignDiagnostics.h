// Diagnostics of files that may be anyone's.

#ifndef OPPROF_SUPPORT_FOREIGNDIAGNOSTICS_H
#define OPPROF_SUPPORT_FOREIGNDIAGNOSTICS_H

#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/raw_ostream.h"

#include <string>

namespace opprof {

/// Shows diagnostics as MLIR does, but what a file says commands no terminal
/// and fills none, and what its locations name is not opened: a file can name
/// any other one, a line of which would be shown.
class ForeignDiagnostics : public mlir::SourceMgrDiagnosticHandler {
public:
  ForeignDiagnostics(llvm::SourceMgr &sources, mlir::MLIRContext *context,
                     llvm::raw_ostream &os = llvm::errs());

  /// Shows one.
  void show(mlir::Diagnostic &diagnostic);

private:
  std::string text;
  llvm::raw_string_ostream stream{text};
  llvm::raw_ostream &shown;
};

} // namespace opprof

#endif // OPPROF_SUPPORT_FOREIGNDIAGNOSTICS_H
