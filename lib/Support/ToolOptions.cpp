// Defaults that opprof's tools share.

#include "opprof/Support/ToolOptions.h"

#include "mlir/IR/AsmState.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
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

void opprof::registerPassWithValue(const mlir::PassAllocatorFunction &create,
                                   llvm::StringRef option) {
  std::unique_ptr<mlir::Pass> pass = create();
  // A pipeline of one pass: it sees the text after '=' as it is, where a pass
  // sees only what has a key.
  mlir::registerPassPipeline(
      pass->getArgument(), pass->getDescription(),
      [create, prefix = (option + "=").str()](
          mlir::OpPassManager &manager, llvm::StringRef text,
          llvm::function_ref<mlir::LogicalResult(const llvm::Twine &)> fail) {
        std::unique_ptr<mlir::Pass> pass = create();
        // Braces keep a path with spaces in one piece.
        bool isBare = !text.empty() && !text.starts_with(prefix);
        std::string options =
            isBare ? prefix + "{" + text.str() + "}" : text.str();
        auto refuse = [&](const llvm::Twine &why) {
          // A value of the wrong type is told on stderr, by itself.
          return fail("--" + pass->getArgument() + "=" + text +
                      ": cannot be read" +
                      (why.isTriviallyEmpty() ? "" : ": ") + why);
        };
        if (mlir::failed(pass->initializeOptions(options, refuse)))
          return mlir::failure();
        manager.addPass(std::move(pass));
        return mlir::success();
      },
      [](llvm::function_ref<void(const mlir::detail::PassOptions &)>) {});
}
