// Which reader a graph's file is for, by its suffix.

#include "opprof/Target/GraphFile/GraphFile.h"
#include "opprof/Dialect/FX/IR/FXDialect.h"
#include "opprof/Support/ForeignMLIR.h"
#include "opprof/Support/InputFile.h"
#include "opprof/Support/OutputFile.h"
#include "opprof/Target/FXJSON/FXJSON.h"
#include "opprof/Target/PT2/PT2.h"

#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace opprof;

static constexpr llvm::StringLiteral kJSONSuffix = ".json";
static constexpr llvm::StringLiteral kArchiveSuffix = ".pt2";
static constexpr llvm::StringLiteral kTextSuffix = ".mlir";
static constexpr llvm::StringLiteral kBytecodeSuffix = ".mlirbc";

bool opprof::isMLIRFile(llvm::StringRef path) {
  llvm::StringRef suffix = llvm::sys::path::extension(path);
  return suffix == kTextSuffix || suffix == kBytecodeSuffix;
}

llvm::Expected<OwningOpRef<ModuleOp>>
opprof::readGraphFile(llvm::StringRef path, MLIRContext *context) {
  llvm::StringRef suffix = llvm::sys::path::extension(path);
  bool imports = suffix == kJSONSuffix || suffix == kArchiveSuffix;
  if (!imports && !isMLIRFile(path))
    return llvm::createStringError(
        path + ": not a graph that opprof reads\n  give graph JSON (" +
        kJSONSuffix + "), a torch.export archive (" + kArchiveSuffix +
        "), or MLIR (" + kTextSuffix + ", " + kBytecodeSuffix + ")");
  std::string message;
  std::unique_ptr<llvm::MemoryBuffer> buffer =
      opprof::openInput(path, &message);
  if (!buffer)
    return llvm::createStringError(message);
  context->loadDialect<fx::FXDialect>();
  if (!imports) {
    llvm::SourceMgr sources;
    sources.AddNewSourceBuffer(std::move(buffer), llvm::SMLoc());
    return parseForeignMLIR(sources, context);
  }
  llvm::StringRef text = buffer->getBuffer();
  OwningOpRef<ModuleOp> module = suffix == kJSONSuffix
                                     ? fx::importGraphJSON(text, path, context)
                                     : fx::importPT2(text, path, context);
  if (module && failed(verify(*module)))
    module = nullptr;
  return module;
}

llvm::Error opprof::writeGraphFile(ModuleOp module, llvm::StringRef path) {
  bool isText = llvm::sys::path::extension(path) == kTextSuffix;
  return writeFile(path, [&](llvm::raw_ostream &os) {
    // Only a version of the format that is asked for can be refused.
    if (!isText)
      return (void)writeBytecodeToFile(module, os);
    module.print(os, OpPrintingFlags().enableDebugInfo());
  });
}
