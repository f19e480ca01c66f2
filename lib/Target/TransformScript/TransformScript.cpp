// Reads rewrite scripts and hands them to the transform interpreter.

#include "opprof/Target/TransformScript/TransformScript.h"
#include "opprof/Dialect/FX/IR/FX.h"
#include "opprof/Dialect/FX/IR/Schema.h"
#include "opprof/Dialect/FX/TransformOps/FXTransformOps.h"
#include "opprof/Support/ForeignMLIR.h"
#include "opprof/Support/InputFile.h"

#include "mlir/Dialect/Transform/IR/TransformDialect.h"
#include "mlir/Dialect/Transform/IR/TransformOps.h"
#include "mlir/Dialect/Transform/Transforms/TransformInterpreterUtils.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace opprof::fx;

DictionaryAttr RewriteScript::getHead() const {
  ModuleOp root = module.get();
  auto head = root->getAttrOfType<DictionaryAttr>(kRewriteAttr);
  return head ? head : DictionaryAttr::get(root.getContext());
}

StringRef RewriteScript::getText(StringRef key) const {
  auto text = getHead().getAs<StringAttr>(key);
  return text ? text.getValue() : StringRef();
}

StringRef RewriteScript::getName() const {
  StringRef name = getText("name");
  return name.empty() ? llvm::sys::path::stem(path) : name;
}

int64_t RewriteScript::getRank() const {
  auto rank = getHead().getAs<IntegerAttr>("rank");
  return rank ? rank.getInt() : std::numeric_limits<int64_t>::max();
}

/// The files that `path` stands for.
static FailureOr<SmallVector<std::string>> listFiles(StringRef path,
                                                     MLIRContext *context) {
  auto fail = [&](const Twine &what) {
    return emitError(UnknownLoc::get(context)) << path << ": " << what;
  };
  if (!llvm::sys::fs::exists(path))
    return fail("no such file or folder; give a rewrite script or the folder "
                "that `opprof recommend` wrote");
  SmallVector<std::string> files;
  if (!llvm::sys::fs::is_directory(path)) {
    StringRef ending = llvm::sys::path::extension(path);
    if (ending != ".mlir" && ending != ".mlirbc")
      return fail("is no rewrite script, whose name ends in .mlir");
    files.push_back(path.str());
    return files;
  }
  std::error_code error;
  for (llvm::sys::fs::directory_iterator it(path, error), end;
       it != end && !error; it.increment(error))
    if (llvm::sys::path::extension(it->path()) == ".mlir")
      files.push_back(it->path());
  if (error)
    return fail(error.message());
  if (files.empty())
    return fail("holds no rewrite script (.mlir)");
  llvm::sort(files);
  return files;
}

/// The sequence that a script is applied by; null where it has none. MLIR's own
/// search prints the whole module then.
static transform::NamedSequenceOp findSequence(ModuleOp script) {
  transform::NamedSequenceOp found;
  script.walk<WalkOrder::PreOrder>([&](transform::NamedSequenceOp sequence) {
    if (sequence.getSymName() !=
        transform::TransformDialect::kTransformEntryPointSymbolName)
      return WalkResult::advance();
    found = sequence;
    return WalkResult::interrupt();
  });
  return found;
}

static OwningOpRef<ModuleOp> parseFile(StringRef path, MLIRContext *context) {
  std::string message;
  std::unique_ptr<llvm::MemoryBuffer> buffer =
      opprof::openInput(path, &message);
  if (!buffer) {
    emitError(UnknownLoc::get(context)) << message;
    return nullptr;
  }
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(buffer), llvm::SMLoc());
  return opprof::parseForeignMLIR(sources, context);
}

/// Reports the operators of the script's graphs that PyTorch does not have. Of
/// those in a namespace of a library's own nothing is known.
static LogicalResult checkOperators(ModuleOp script) {
  WalkResult result = script.walk([](NodeOp node) {
    StringRef target = node.getTarget();
    if (node.getKind() != NodeKind::call_function || lookupSchema(target) ||
        !hasNamespace(target))
      return WalkResult::advance();
    // Not Operation::emitError, which would print the operation after it.
    InFlightDiagnostic error = mlir::emitError(node.getLoc())
                               << "PyTorch has no operator '" << target << "'";
    if (StringRef similar = findSimilarOperator(target); !similar.empty())
      error << "; did you mean '" << similar << "'?";
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

FailureOr<SmallVector<RewriteScript>>
opprof::fx::loadRewriteScripts(StringRef path, MLIRContext *context) {
  FailureOr<SmallVector<std::string>> files = listFiles(path, context);
  if (failed(files))
    return failure();
  SmallVector<RewriteScript> scripts;
  for (std::string &file : *files) {
    RewriteScript script;
    script.module = parseFile(file, context);
    script.path = std::move(file);
    if (!script.module)
      return failure();
    if (!findSequence(*script.module))
      return emitError(script.module->getLoc())
             << "holds no transform.named_sequence @"
             << transform::TransformDialect::kTransformEntryPointSymbolName
             << ": give a rewrite script, such as `opprof recommend` writes";
    if (failed(checkOperators(*script.module)))
      return failure();
    scripts.push_back(std::move(script));
  }
  llvm::stable_sort(scripts,
                    [](const RewriteScript &a, const RewriteScript &b) {
                      return a.getRank() < b.getRank();
                    });
  return scripts;
}

LogicalResult opprof::fx::applyRewriteScript(const RewriteScript &script,
                                             ModuleOp payload) {
  transform::NamedSequenceOp entry = findSequence(script.module.get());
  return transform::applyTransforms(
      payload, entry, {}, transform::TransformOptions(),
      /*enforceToplevelTransformOp=*/false,
      [&](transform::TransformState &state) {
        state.addExtension<WarnWherePatternIsNowhere>(entry);
      });
}
