// --import-pt2.

#include "opprof/Dialect/FX/IR/FXDialect.h"
#include "opprof/Support/ForeignDiagnostics.h"
#include "opprof/Target/PT2/PT2.h"

#include "mlir/Tools/mlir-translate/Translation.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;

void opprof::fx::registerPT2Translation() {
  static TranslateToMLIRRegistration translation(
      "import-pt2", "read an archive of torch.export into the fx dialect",
      [](llvm::SourceMgr &sourceMgr, MLIRContext *context) {
        ForeignDiagnostics diagnostics(sourceMgr, context);
        const llvm::MemoryBuffer *buffer =
            sourceMgr.getMemoryBuffer(sourceMgr.getMainFileID());
        return OwningOpRef<Operation *>(importPT2(buffer->getBuffer(),
                                                  buffer->getBufferIdentifier(),
                                                  context)
                                            .release());
      },
      [](DialectRegistry &registry) { registry.insert<FXDialect>(); });
}
