// opprof-opt: runs opprof's passes on graphs, as mlir-opt does on its own.

#include "opprof/Dialect/Dialects.h"
#include "opprof/Dialect/FX/Transforms/Passes.h"
#include "opprof/Dialect/Prof/Transforms/Passes.h"
#include "opprof/Rewrite/Passes.h"
#include "opprof/Rewrite/Recommend.h"
#include "opprof/Support/ForeignMLIR.h"
#include "opprof/Support/OutputFile.h"
#include "opprof/Support/ToolOptions.h"
#include "opprof/Target/TransformScript/Passes.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

/// --partition-map=FILE beside --dedup-partitions: the passes that the command
/// line makes are given it as their own option, which may say otherwise.
static void registerDedupPartitions(const llvm::cl::opt<std::string> &file) {
  mlir::registerPass([&file] {
    opprof::fx::DedupPartitionsPassOptions options;
    options.partitionMap = file;
    return opprof::fx::createDedupPartitionsPass(options);
  });
}

/// mlir-opt's own, but that the file is looked at before it is parsed, and the
/// output written beside its place.
static llvm::LogicalResult run(int argc, char **argv, llvm::StringRef input,
                               llvm::StringRef output,
                               mlir::DialectRegistry &registry) {
  auto config = mlir::MlirOptMainConfig::createFromCLOptions();
  if (config.shouldShowDialects() || config.shouldListPasses())
    return mlir::MlirOptMain(argc, argv, input, output, registry);
  llvm::InitLLVM init(argc, argv);
  std::string message;
  std::unique_ptr<llvm::MemoryBuffer> file =
      mlir::openInputFile(input, &message);
  if (!file) {
    llvm::errs() << message << '\n';
    return llvm::failure();
  }
  if (failed(opprof::checkForeignMLIR(*file, registry)))
    return llvm::failure();
  llvm::Expected<bool> written =
      opprof::writeOutput(output, [&](llvm::raw_ostream &os) {
        return succeeded(
            mlir::MlirOptMain(os, std::move(file), registry, config));
      });
  if (written)
    return llvm::success(*written);
  llvm::errs() << "error: " << llvm::toString(written.takeError()) << '\n';
  return llvm::failure();
}

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  opprof::registerDialects(registry);

  llvm::cl::opt<std::string> partitionMap{
      "partition-map", llvm::cl::value_desc("file"),
      llvm::cl::desc("Where --dedup-partitions writes which nodes are the same "
                     "place of which class")};
  llvm::cl::opt<bool> listRules{
      "list-rules", llvm::cl::desc("Print the rules of --recommend-rewrites: "
                                   "what each answers, its conditions, and how "
                                   "it predicts what is saved")};
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
  auto [input, output] = mlir::registerAndParseCLIOptions(
      argc, argv, "opprof's optimizer driver\n", registry);
  if (listRules) {
    opprof::rewrite::printRules(llvm::outs());
    return EXIT_SUCCESS;
  }
  return mlir::asMainReturnCode(run(argc, argv, input, output, registry));
}
