// opprof-opt: runs opprof's passes on graphs, as mlir-opt does on its own.

#include "../Tools.h"

#include "opprof/Dialect/Dialects.h"
#include "opprof/Dialect/FX/Transforms/Passes.h"
#include "opprof/Dialect/Prof/Transforms/Passes.h"
#include "opprof/Rewrite/Passes.h"
#include "opprof/Rewrite/Recommend.h"
#include "opprof/Support/ForeignDiagnostics.h"
#include "opprof/Support/ForeignMLIR.h"
#include "opprof/Support/InputFile.h"
#include "opprof/Support/OutputFile.h"
#include "opprof/Support/ToolOptions.h"
#include "opprof/Target/TransformScript/Passes.h"

#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/Debug/CLOptionsSetup.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/Timing.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
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

/// Whether an option asks for what developers need, and only mlir-opt's own
/// function does.
static bool isForDevelopers(const mlir::MlirOptMainConfig &config) {
  const mlir::tracing::DebugConfig &debug = config.getDebugConfig();
  return !config.inputSplitMarker().empty() ||
         config.shouldVerifyDiagnostics() || config.shouldVerifyRoundtrip() ||
         !config.shouldVerifyOnParsing() || !config.getIrdlFile().empty() ||
         config.shouldRunReproducer() || config.shouldUseExplicitModule() ||
         !config.getReproducerFilename().empty() ||
         config.shouldEmitRemarks() || !config.shouldShowNotes() ||
         config.getDiagnosticVerbosityLevel() !=
             mlir::VerbosityLevel::ErrorsWarningsAndRemarks ||
         !debug.getLogActionsTo().empty() ||
         !debug.getProfileActionsTo().empty() ||
         debug.isDebuggerActionHookEnabled();
}

/// Parses a file that may be anyone's, runs the passes on it, and prints it.
static llvm::LogicalResult process(std::unique_ptr<llvm::MemoryBuffer> file,
                                   const mlir::MlirOptMainConfig &config,
                                   const mlir::DialectRegistry &registry,
                                   llvm::raw_ostream &os) {
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(file), llvm::SMLoc());
  mlir::MLIRContext context(registry);
  context.allowUnregisteredDialects(config.shouldAllowUnregisteredDialects());
  opprof::ForeignDiagnostics diagnostics(sources, &context);
  mlir::DefaultTimingManager manager;
  mlir::applyDefaultTimingManagerCLOptions(manager);
  mlir::TimingScope timing = manager.getRootScope();

  // One thread parses a file faster than many that wait for one another.
  bool isThreaded = context.isMultithreadingEnabled();
  context.disableMultithreading();
  mlir::FallbackAsmResourceMap resources;
  mlir::TimingScope parsing = timing.nest("Parser");
  mlir::OwningOpRef<mlir::ModuleOp> module =
      opprof::parseForeignMLIR(sources, &context, &resources);
  parsing.stop();
  if (!module)
    return llvm::failure();
  context.enableMultithreading(isThreaded);

  mlir::PassManager passes(module.get()->getName(),
                           mlir::PassManager::Nesting::Implicit);
  passes.enableVerifier(config.shouldVerifyPasses());
  if (failed(mlir::applyPassManagerCLOptions(passes)))
    return llvm::failure();
  passes.enableTiming(timing);
  if (failed(config.setupPassPipeline(passes)))
    return llvm::failure();
  if (config.shouldDumpPassPipeline()) {
    passes.dump();
    llvm::errs() << '\n';
  }
  if (failed(passes.run(*module)))
    return llvm::failure();

  mlir::TimingScope output = timing.nest("Output");
  if (config.shouldEmitBytecode()) {
    mlir::BytecodeWriterConfig writer(resources);
    if (std::optional<int64_t> version = config.bytecodeVersionToEmit())
      writer.setDesiredBytecodeVersion(*version);
    if (config.shouldElideResourceDataFromBytecode())
      writer.setElideResourceDataFlag();
    return mlir::writeBytecodeToFile(*module, os, writer);
  }
  mlir::AsmState state(*module, mlir::OpPrintingFlags(), nullptr, &resources);
  module->print(os, state);
  os << '\n';
  return llvm::success();
}

/// mlir-opt's own, but that the file may be anyone's, and that the output is
/// written beside its place.
static llvm::LogicalResult run(int argc, char **argv, llvm::StringRef input,
                               llvm::StringRef output,
                               mlir::DialectRegistry &registry) {
  auto config = mlir::MlirOptMainConfig::createFromCLOptions();
  if (config.shouldShowDialects() || config.shouldListPasses())
    return mlir::MlirOptMain(argc, argv, input, output, registry);
  llvm::InitLLVM init(argc, argv);
  std::string message;
  std::unique_ptr<llvm::MemoryBuffer> file = opprof::openInput(input, &message);
  if (!file) {
    llvm::errs() << message << '\n';
    return llvm::failure();
  }
  bool isOurs = isForDevelopers(config);
  if (isOurs && failed(opprof::checkForeignMLIR(*file, registry)))
    return llvm::failure();
  llvm::Expected<bool> written =
      opprof::writeOutput(output, [&](llvm::raw_ostream &os) {
        return succeeded(
            isOurs ? mlir::MlirOptMain(os, std::move(file), registry, config)
                   : process(std::move(file), config, registry, os));
      });
  if (written)
    return llvm::success(*written);
  llvm::errs() << "error: " << llvm::toString(written.takeError()) << '\n';
  return llvm::failure();
}

int opprof::runOpt(int argc, char **argv) {
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
