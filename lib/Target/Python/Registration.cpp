// --emit-python.

#include "opprof/Dialect/Dialects.h"
#include "opprof/Support/ForeignMLIR.h"
#include "opprof/Target/Python/PythonEmitter.h"

#include "llvm/Support/CommandLine.h"

using namespace mlir;

void opprof::fx::registerPythonTranslation() {
  static llvm::cl::opt<bool> regions(
      "regions",
      llvm::cl::desc("--emit-python: make each partition a "
                     "torch.compiler.nested_compile_region, so that Inductor "
                     "compiles one of a class"));
  registerTranslationFromMLIR(
      "emit-python", "write a graph as a Python program that PyTorch runs",
      [](ModuleOp module, raw_ostream &os) {
        PythonProgramOptions options;
        options.regions = regions;
        return emitPython(module, os, options);
      },
      registerDialects);
}
