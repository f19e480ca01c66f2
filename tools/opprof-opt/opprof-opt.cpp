// opprof-opt: runs opprof's passes on graphs, as mlir-opt does on its own.

#include "opprof/Dialect/FX/IR/FX.h"
#include "opprof/Dialect/FX/TransformOps/FXTransformOps.h"
#include "opprof/Dialect/FX/Transforms/Passes.h"
#include "opprof/Dialect/Inductor/IR/Inductor.h"
#include "opprof/Dialect/Prof/IR/Prof.h"
#include "opprof/Dialect/Prof/Transforms/Passes.h"
#include "opprof/Rewrite/Recommend.h"
#include "opprof/Support/ToolOptions.h"
#include "opprof/Target/TransformScript/Passes.h"

#include "mlir/Dialect/Transform/IR/TransformDialect.h"
#include "mlir/Dialect/Transform/Transforms/Passes.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry
      .insert<opprof::fx::FXDialect, opprof::inductor::InductorDialect,
              opprof::prof::ProfDialect, mlir::transform::TransformDialect>();

  opprof::fx::registerTransformExtension(registry);

  opprof::fx::registerApplyRewrites();
  opprof::fx::registerOpprofFXPasses();
  opprof::fx::registerPartitionMapOption();
  opprof::prof::registerOpprofProfPasses();
  opprof::rewrite::registerRecommendRewrites();
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
