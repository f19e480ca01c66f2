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

static llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
open(llvm::StringRef path) {
  std::string message;
  if (auto buffer = opprof::openInput(path, &message))
    return buffer;
  return llvm::createStringError(message);
}

static OwningOpRef<ModuleOp> verified(OwningOpRef<ModuleOp> module) {
  if (module && failed(verify(*module)))
    return nullptr;
  return module;
}

llvm::Expected<OwningOpRef<ModuleOp>>
opprof::readGraphJSONFile(llvm::StringRef path, llvm::StringRef name,
                          MLIRContext *context) {
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> buffer = open(path);
  if (!buffer)
    return buffer.takeError();
  context->loadDialect<fx::FXDialect>();
  return verified(fx::importGraphJSON((*buffer)->getBuffer(), name, context));
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
  if (suffix == kJSONSuffix)
    return readGraphJSONFile(path, path, context);
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> buffer = open(path);
  if (!buffer)
    return buffer.takeError();
  context->loadDialect<fx::FXDialect>();
  if (!imports) {
    llvm::SourceMgr sources;
    sources.AddNewSourceBuffer(std::move(*buffer), llvm::SMLoc());
    return parseForeignMLIR(sources, context);
  }
  return verified(fx::importPT2((*buffer)->getBuffer(), path, context));
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
