// Defaults that opprof's tools share.

#include "opprof/Support/ToolOptions.h"

#include "mlir/IR/AsmState.h"
#include "llvm/Support/CommandLine.h"

void opprof::printLocationsByDefault() {
  mlir::registerAsmPrinterCLOptions();
  auto &options = llvm::cl::getRegisteredOptions();
  auto found = options.find("mlir-print-debuginfo");
  if (found == options.end())
    return;
  auto *option = static_cast<llvm::cl::opt<bool> *>(found->second);
  option->setInitialValue(true);
}
