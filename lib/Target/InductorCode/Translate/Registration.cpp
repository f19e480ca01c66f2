// The code reader's translations. --inductor-launches, --import-inductor-code,
// --export-inductor-launches, --export-operator-launches and
// --import-fx-readable.

#include "opprof/Dialect/FX/IR/FXDialect.h"
#include "opprof/Dialect/Inductor/IR/Inductor.h"
#include "opprof/Support/ForeignDiagnostics.h"
#include "opprof/Support/ForeignMLIR.h"
#include "opprof/Target/InductorCode/FXReadable.h"
#include "opprof/Target/InductorCode/InductorFolder.h"
#include "opprof/Target/InductorCode/InductorTranslation.h"

#include "mlir/Tools/mlir-translate/Translation.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace opprof;
using namespace opprof::inductor;
using namespace opprof::launch;

namespace {
struct Options {
  llvm::cl::opt<std::string> graph{
      "graph",
      llvm::cl::desc("the exported graph whose nodes launches are joined to "
                     "(.pt2, .json, .mlir, .mlirbc)"),
      llvm::cl::value_desc("file")};
  llvm::cl::opt<std::string> postGradGraph{
      "post-grad-graph",
      llvm::cl::desc("the post-grad graph as graph JSON, with what PyTorch "
                     "recorded of its nodes' origin"),
      llvm::cl::value_desc("file")};
};
} // namespace

static Options &options() {
  static Options instance;
  return instance;
}

static LogicalResult report(llvm::Error error, MLIRContext *context) {
  emitError(UnknownLoc::get(context)) << llvm::toString(std::move(error));
  return failure();
}

/// The launch map of the wrapper in `sourceMgr`, aligned as the options ask.
static FailureOr<LaunchMap> buildMap(llvm::SourceMgr &sourceMgr,
                                     MLIRContext *context) {
  const llvm::MemoryBuffer *buffer =
      sourceMgr.getMemoryBuffer(sourceMgr.getMainFileID());
  llvm::Expected<InductorFolder> folder =
      readInductorFolder(buffer->getBuffer(), buffer->getBufferIdentifier());
  if (!folder)
    return report(folder.takeError(), context);

  std::optional<GraphView> exported, recorded;
  if (!options().graph.empty()) {
    llvm::Expected<GraphView> graph = loadGraph(options().graph, context);
    if (!graph)
      return report(graph.takeError(), context);
    exported = std::move(*graph);
  }
  if (!options().postGradGraph.empty()) {
    llvm::Expected<GraphView> graph =
        loadGraph(options().postGradGraph, context);
    if (!graph)
      return report(graph.takeError(), context);
    recorded = std::move(*graph);
  }

  return mapLaunches(*folder, recorded ? &*recorded : nullptr,
                     exported ? &*exported : nullptr);
}

void opprof::inductor::registerInductorTranslations() {
  options();
  static TranslateRegistration launches(
      "inductor-launches",
      "read Inductor's output_code.py and write its launches as JSON",
      [](const std::shared_ptr<llvm::SourceMgr> &sourceMgr,
         llvm::raw_ostream &os, MLIRContext *context) -> LogicalResult {
        ForeignDiagnostics diagnostics(*sourceMgr, context);
        FailureOr<LaunchMap> map = buildMap(*sourceMgr, context);
        if (failed(map))
          return failure();
        writeLaunchMap(*map, os);
        return success();
      });
  static TranslateToMLIRRegistration program(
      "import-inductor-code",
      "read Inductor's output_code.py into the inductor dialect",
      [](llvm::SourceMgr &sourceMgr,
         MLIRContext *context) -> OwningOpRef<Operation *> {
        ForeignDiagnostics diagnostics(sourceMgr, context);
        FailureOr<LaunchMap> map = buildMap(sourceMgr, context);
        if (failed(map))
          return {};
        return OwningOpRef<Operation *>(toProgram(*map, context).release());
      },
      [](DialectRegistry &registry) {
        registry.insert<InductorDialect, opprof::fx::FXDialect>();
      });
  registerTranslationFromMLIR(
      "export-inductor-launches",
      "write the programs of the inductor dialect as launches.json",
      [](ModuleOp module, llvm::raw_ostream &os) -> LogicalResult {
        auto programs = module.getOps<ProgramOp>();
        if (programs.empty())
          return module.emitError("holds no inductor.program");
        if (llvm::hasSingleElement(programs)) {
          writeLaunchMap(toLaunchMap(*programs.begin()), os);
          return success();
        }
        llvm::json::OStream json(os, /*IndentSize=*/1);
        json.array([&] {
          for (ProgramOp program : programs)
            writeLaunchMap(toLaunchMap(program), json);
        });
        json.flush();
        os << '\n';
        return success();
      },
      [](DialectRegistry &registry) {
        registry.insert<InductorDialect, opprof::fx::FXDialect>();
      });
  registerTranslationFromMLIR(
      "export-operator-launches",
      "write what a graph launches that runs node by node as launches.json",
      [](ModuleOp module, llvm::raw_ostream &os) -> LogicalResult {
        if (std::optional<LaunchMap> map = mapOperators(module)) {
          writeLaunchMap(*map, os);
          return success();
        }
        return module.emitError("holds no fx.graph with a stage");
      },
      [](DialectRegistry &registry) {
        registry.insert<opprof::fx::FXDialect>();
      });
  static TranslateToMLIRRegistration readable(
      "import-fx-readable",
      "read a printed FX module (fx_graph_transformed.py) into the fx dialect",
      [](llvm::SourceMgr &sourceMgr,
         MLIRContext *context) -> OwningOpRef<Operation *> {
        ForeignDiagnostics diagnostics(sourceMgr, context);
        const llvm::MemoryBuffer *buffer =
            sourceMgr.getMemoryBuffer(sourceMgr.getMainFileID());
        llvm::StringRef name = buffer->getBufferIdentifier();
        uint64_t kept = 0;
        llvm::Expected<GraphView> graph =
            readFXReadable(buffer->getBuffer(), name, &kept);
        if (!graph) {
          (void)report(graph.takeError(), context);
          return {};
        }
        if (kept)
          emitWarning(UnknownLoc::get(context))
              << name << ": " << kept
              << " statements are no nodes and were left out";
        return OwningOpRef<Operation *>(
            toModule(*graph, name, context).release());
      },
      [](DialectRegistry &registry) {
        registry.insert<opprof::fx::FXDialect>();
      });
}
