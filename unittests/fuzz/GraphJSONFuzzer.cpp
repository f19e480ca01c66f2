// Graph JSON from anywhere: it is refused with a diagnostic, or read into a
// module that verifies and that is written, read again and written the same.

#include "opprof/Dialect/FX/IR/FX.h"
#include "opprof/Target/FXJSON/FXJSON.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdint>
#include <cstdlib>
#include <string>

using namespace mlir;

static std::string write(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (failed(opprof::fx::exportGraphJSON(module, os)))
    std::abort();
  return text;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  DialectRegistry registry;
  registry.insert<opprof::fx::FXDialect>();
  // A context a run: uniqued attributes of all inputs would pile up in one.
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  ScopedDiagnosticHandler silent(&context,
                                 [](Diagnostic &) { return success(); });

  llvm::StringRef text(reinterpret_cast<const char *>(data), size);
  OwningOpRef<ModuleOp> module =
      opprof::fx::importGraphJSON(text, "fuzz.json", &context);
  if (!module)
    return 0;
  if (failed(verify(*module)))
    std::abort();
  std::string first = write(*module);
  OwningOpRef<ModuleOp> again =
      opprof::fx::importGraphJSON(first, "again.json", &context);
  if (!again || write(*again) != first)
    std::abort();
  return 0;
}
