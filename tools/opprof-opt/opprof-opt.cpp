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

/// --partition-map=FILE beside --dedup-partitions: the passes that the command
/// line makes are given it as their own option, which may say otherwise.
static void registerDedupPartitions(const llvm::cl::opt<std::string> &file) {
  mlir::registerPass([&file] {
    opprof::fx::DedupPartitionsPassOptions options;
    options.partitionMap = file;
    return opprof::fx::createDedupPartitionsPass(options);
  });
}

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  opprof::registerDialects(registry);

  llvm::cl::opt<std::string> partitionMap{
      "partition-map", llvm::cl::value_desc("file"),
      llvm::cl::desc("Where --dedup-partitions writes which nodes are the same "
                     "place of which class")};
  // The first registration of a pass is the one that counts.
  registerDedupPartitions(partitionMap);

  opprof::fx::registerApplyRewrites();
  opprof::fx::registerOpprofFXPasses();
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
