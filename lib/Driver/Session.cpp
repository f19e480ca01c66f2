// Context, diagnostics and progress of a process of the driver.

#include "opprof/Driver/Session.h"
#include "opprof/Dialect/Dialects.h"
#include "opprof/Target/GraphFile/GraphFile.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace opprof;
using namespace opprof::driver;

static DialectRegistry makeRegistry() {
  DialectRegistry registry;
  registerDialects(registry);
  return registry;
}

Session::Diagnostics::Diagnostics(llvm::SourceMgr &sources,
                                  MLIRContext *context,
                                  llvm::raw_string_ostream &text)
    : ForeignDiagnostics(sources, context, text) {
  setHandler([this, &text](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error &&
        isa<UnknownLoc>(diagnostic.getLocation()) && text.str().empty()) {
      // Of no place in a file: it says itself what it is of.
      text << diagnostic.str() << '\n';
      return;
    }
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      return show(diagnostic);
    if (quiet)
      return;
    std::string before = std::exchange(text.str(), {});
    show(diagnostic);
    llvm::errs() << text.str();
    text.str() = std::move(before);
  });
}

// One thread: commands work on one graph after another, and a pool of threads
// would cost more to begin than most graphs to read.
Session::Session(double elapsed)
    : context(makeRegistry(), MLIRContext::Threading::DISABLED),
      diagnostics(sources, &context, stream),
      start(std::chrono::steady_clock::now() -
            std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                std::chrono::duration<double>(elapsed))) {}

void Session::progress(const llvm::Twine &what) const {
  std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - start;
  llvm::errs() << llvm::format("[%6.1f s] ", seconds.count()) << what << '\n';
}

llvm::Error Session::takeErrors(const llvm::Twine &otherwise) {
  std::string errors = std::exchange(text, {});
  llvm::StringRef shown = llvm::StringRef(errors).trim('\n');
  return llvm::createStringError(shown.empty() ? otherwise
                                               : llvm::Twine(shown));
}

llvm::Expected<OwningOpRef<ModuleOp>> Session::readGraph(llvm::StringRef path) {
  llvm::Expected<OwningOpRef<ModuleOp>> module = readGraphFile(path, &context);
  if (module && !*module)
    return takeErrors(path + ": could not be read as a graph");
  return module;
}

llvm::Expected<OwningOpRef<ModuleOp>>
Session::readGraphOf(llvm::StringRef archive, llvm::StringRef path) {
  std::string name = ("graph JSON of " + archive).str();
  llvm::Expected<OwningOpRef<ModuleOp>> module =
      readGraphJSONFile(path, name, &context);
  if (module && !*module)
    return takeErrors(name + ": could not be read as a graph");
  return module;
}

llvm::Error Session::runPass(ModuleOp module, std::unique_ptr<Pass> pass) {
  std::string name = pass->getArgument().str();
  PassManager manager(&context);
  manager.addPass(std::move(pass));
  if (failed(manager.run(module)))
    return takeErrors("--" + name + " failed");
  return llvm::Error::success();
}

llvm::Error Session::quietly(llvm::function_ref<llvm::LogicalResult()> work) {
  diagnostics.quiet = true;
  LogicalResult result = work();
  diagnostics.quiet = false;
  return failed(result) ? takeErrors("it failed") : llvm::Error::success();
}
