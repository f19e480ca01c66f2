// Graph JSON from anywhere: it is refused with a diagnostic, or read into a
// module that verifies and that is written, read again and written the same.

#include "FXFuzzing.h"

#include "opprof/Target/FXJSON/FXJSON.h"

#include "llvm/Support/raw_ostream.h"

#include <string>

using namespace mlir;

static std::string write(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  require(succeeded(opprof::fx::exportGraphJSON(module, os)));
  return text;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  QuietContext context;
  OwningOpRef<ModuleOp> module =
      opprof::fx::importGraphJSON(toText(data, size), "fuzz.json", &context);
  if (!module)
    return 0;
  require(succeeded(verify(*module)));
  std::string first = write(*module);
  OwningOpRef<ModuleOp> again =
      opprof::fx::importGraphJSON(first, "again.json", &context);
  require(again && write(*again) == first);
  return 0;
}
