// opprof-opt: runs opprof's passes on graphs, as mlir-opt does on its own.

#include "opprof/Dialect/Dialects.h"
#include "opprof/Dialect/FX/Transforms/Passes.h"
#include "opprof/Dialect/Prof/Transforms/Passes.h"
#include "opprof/Rewrite/Passes.h"
#include "opprof/Support/ToolOptions.h"
#include "opprof/Target/TransformScript/Passes.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  opprof::registerDialects(registry);

  opprof::fx::registerApplyRewrites();
  opprof::fx::registerOpprofFXPasses();
  opprof::fx::registerPartitionMapOption();
  opprof::prof::registerProfPasses();
  opprof::rewrite::registerOpprofRewritePasses();
  mlir::registerCSEPass();
  mlir::registerCanonicalizerPass();
  mlir::registerInlinerPass();
  mlir::registerSymbolDCEPass();
  mlir::registerStripDebugInfoPass();
  mlir::registerLocationSnapshotPass();

  opprof::printLocationsByDefault();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "opprof's optimizer driver\n", registry));
}
