// MLIR from anywhere, text and bytecode, graphs and rewrite scripts: it is
// refused with a diagnostic, or parsed into a module that verifies. What is
// emitted of it, program or rewrite, is Python, by Python's own parser.

#include "FXFuzzing.h"
#include "PythonSyntax.h"

#include "opprof/Dialect/Dialects.h"
#include "opprof/Support/ForeignMLIR.h"
#include "opprof/Target/Python/PythonEmitter.h"
#include "opprof/Target/TransformScript/TransformScript.h"

#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;

extern "C" int LLVMFuzzerInitialize(int *, char ***) {
  // libFuzzer has limits of its own, for all inputs together.
  return ::setenv("OPPROF_READING_LIMITS", "off", 1);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  QuietContext context;
  DialectRegistry registry;
  opprof::registerDialects(registry);
  context.appendDialectRegistry(registry);
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(
      llvm::MemoryBuffer::getMemBufferCopy(toText(data, size), "fuzz.mlir"),
      llvm::SMLoc());
  OwningOpRef<ModuleOp> module = opprof::parseForeignMLIR(sources, &context);
  if (!module)
    return 0;
  require(succeeded(verify(*module)));
  static PythonSyntax python;
  std::string program, rewrite;
  llvm::raw_string_ostream os(program);
  if (succeeded(opprof::fx::emitPython(*module, os)))
    python.require(program);
  llvm::raw_string_ostream definitions(rewrite);
  if (succeeded(opprof::fx::emitRewrite(*module, definitions)))
    python.require(rewrite);
  return 0;
}
