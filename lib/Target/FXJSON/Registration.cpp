// --import-fx-json and --export-fx-json.

#include "opprof/Dialect/FX/IR/FXDialect.h"
#include "opprof/Dialect/Prof/IR/Prof.h"
#include "opprof/Support/ForeignDiagnostics.h"
#include "opprof/Support/ForeignMLIR.h"
#include "opprof/Target/FXJSON/FXJSON.h"

#include "mlir/Support/Timing.h"
#include "mlir/Tools/mlir-translate/Translation.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;

void opprof::fx::registerFXJSONTranslations() {
  registerDefaultTimingManagerCLOptions();
  static TranslateToMLIRRegistration toMLIR(
      "import-fx-json", "read graph JSON into the fx dialect",
      [](llvm::SourceMgr &sourceMgr, MLIRContext *context) {
        ForeignDiagnostics diagnostics(sourceMgr, context);
        const llvm::MemoryBuffer *buffer =
            sourceMgr.getMemoryBuffer(sourceMgr.getMainFileID());
        // --mlir-timing shows what reading costs, apart from printing.
        DefaultTimingManager timing;
        applyDefaultTimingManagerCLOptions(timing);
        TimingScope scope = timing.getRootScope();
        TimingScope reading = scope.nest("Parser");
        return OwningOpRef<Operation *>(
            importGraphJSON(buffer->getBuffer(), buffer->getBufferIdentifier(),
                            context)
                .release());
      },
      [](DialectRegistry &registry) { registry.insert<FXDialect>(); });
  registerTranslationFromMLIR(
      "export-fx-json", "write the fx dialect as graph JSON",
      [](ModuleOp module, raw_ostream &os) {
        return exportGraphJSON(module, os);
      },
      // Calls of partitions carry an attribute of it.
      [](DialectRegistry &registry) {
        registry.insert<FXDialect, opprof::prof::ProfDialect>();
      });
}
