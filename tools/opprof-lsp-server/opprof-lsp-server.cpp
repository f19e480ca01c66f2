// opprof-lsp-server: what editors ask about opprof's files, graphs and rewrite
// scripts among them.

#include "../Tools.h"
#include "Relay.h"

#include "opprof/Dialect/Dialects.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>

/// Tests of MLIR's server speak to it in another form than editors do.
static bool speaksToEditor(llvm::ArrayRef<char *> arguments) {
  return llvm::none_of(arguments, [](llvm::StringRef argument) {
    return argument.contains("lit-test") || argument.contains("input-style") ||
           argument.contains("help") || argument.contains("version");
  });
}

int opprof::runLspServer(int argc, char **argv) {
  mlir::DialectRegistry registry;
  opprof::registerDialects(registry);
  llvm::LogicalResult result = llvm::failure();
  if (speaksToEditor(llvm::ArrayRef(argv, size_t(argc)).drop_front())) {
    auto *relay = new opprof::Relay(registry);
    if (llvm::Error error = relay->begin()) {
      llvm::errs() << "opprof-lsp-server: " << toString(std::move(error))
                   << '\n';
      return EXIT_FAILURE;
    }
    result = mlir::MlirLspServerMain(argc, argv, registry);
    relay->end();
  } else {
    result = mlir::MlirLspServerMain(argc, argv, registry);
  }
  return failed(result);
}
