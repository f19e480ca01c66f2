// Diagnostics of files that may be anyone's.

#include "opprof/Support/ForeignDiagnostics.h"
#include "opprof/Support/TerminalText.h"

#include "mlir/IR/Location.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/VirtualFileSystem.h"

using namespace mlir;
using namespace opprof;

/// Whether diagnostics are held against what the file expects, by a handler
/// of MLIR's that they are left to.
static bool areVerified() {
  const auto &options = llvm::cl::getRegisteredOptions();
  auto option = options.find("verify-diagnostics");
  return option != options.end() && option->second->getNumOccurrences();
}

ForeignDiagnostics::ForeignDiagnostics(llvm::SourceMgr &sources,
                                       MLIRContext *context,
                                       llvm::raw_ostream &os)
    : SourceMgrDiagnosticHandler(sources, context, stream), shown(os) {
  // Where MLIR looks for the files of locations.
  sources.setVirtualFileSystem(
      llvm::makeIntrusiveRefCnt<llvm::vfs::InMemoryFileSystem>());
  setHandler([this, verified = areVerified()](Diagnostic &diagnostic) {
    if (!verified)
      show(diagnostic);
    return success(!verified);
  });
}

static llvm::StringRef nameOf(DiagnosticSeverity severity) {
  switch (severity) {
  case DiagnosticSeverity::Error:
    return "error: ";
  case DiagnosticSeverity::Warning:
    return "warning: ";
  case DiagnosticSeverity::Remark:
    return "remark: ";
  case DiagnosticSeverity::Note:
    return "note: ";
  }
  llvm_unreachable("no severity");
}

void ForeignDiagnostics::show(Diagnostic &diagnostic) {
  if (isa<UnknownLoc>(diagnostic.getLocation())) {
    // Of no place in a file: it says itself what it is of.
    shown << nameOf(diagnostic.getSeverity())
          << toTerminalLines(diagnostic.str()) << '\n';
    for (Diagnostic &note : diagnostic.getNotes())
      show(note);
    return;
  }
  emitDiagnostic(diagnostic);
  shown << toTerminalLines(text);
  text.clear();
}
