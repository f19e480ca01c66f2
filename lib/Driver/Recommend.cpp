// Asks the rules for rewrites of a run's graph, with what was measured of it.

#include "CompiledGraphs.h"

#include "opprof/Driver/AnnotatedProgram.h"
#include "opprof/Driver/Commands.h"
#include "opprof/Rewrite/Passes.h"
#include "opprof/Support/InputFile.h"
#include "opprof/Support/JSONReading.h"
#include "opprof/Support/OutputFile.h"
#include "opprof/Target/GraphFile/GraphFile.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace opprof;
using namespace opprof::driver;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

namespace {
/// What run.json says that rewrites depend on.
struct RewriteFacts {
  bool isTraining = false;
  std::string deviceType, deviceName, script;
};

class FactsReader : public JSONReading {
public:
  using JSONReading::JSONReading;

  Error read(simdjson::dom::element root, RewriteFacts &facts) {
    simdjson::dom::object keys;
    if (Error error = getObject(root, keys))
      return error;
    if (Error error = getBool(keys, "training", facts.isTraining))
      return error;
    if (Error error = getString(keys, "script", facts.script, false))
      return error;
    return inObject(keys, "device", [&](simdjson::dom::object device) -> Error {
      if (Error error = getString(device, "type", facts.deviceType, false))
        return error;
      return getString(device, "name", facts.deviceName, false);
    });
  }
};
} // namespace

/// Those of a folder without a run.json are none.
static Expected<RewriteFacts> readFacts(const std::string &file) {
  RewriteFacts facts;
  if (!isFile(file))
    return facts;
  std::string message;
  std::unique_ptr<llvm::MemoryBuffer> text = opprof::openInput(file, &message);
  if (!text)
    return llvm::createStringError(message);
  FactsReader reader(file);
  if (Error error =
          reader.parse(text->getBuffer(), [&](simdjson::dom::element root) {
            return reader.read(root, facts);
          }))
    return error;
  return facts;
}

/// What the pass is to know of the run in `folder`.
static Error readRun(const RunFolder &folder,
                     rewrite::RecommendRewritesPassOptions &options) {
  Expected<RewriteFacts> facts = readFacts(folder.run());
  if (!facts)
    return facts.takeError();
  options.training = facts->isTraining;
  options.device = facts->deviceType == "cpu" ? "cpu" : facts->deviceName;
  options.script = facts->script;
  if (isFile(folder.profile()))
    options.profile = folder.profile();
  return Error::success();
}

/// Adds the further graphs of a program that does not export: rules look at
/// what is behind a graph break too.
static Error addFurtherGraphs(Session &session, const RunFolder &folder,
                              ModuleOp module) {
  for (const std::string &compiled : folder.compiledGraphs()) {
    Expected<OwningOpRef<ModuleOp>> own =
        readOwnGraph(session, compiled, /*keeps=*/false);
    if (!own)
      return own.takeError();
    if (!*own)
      continue;
    if (Error error =
            session.quietly([&] { return addDynamoGraphs(module, **own); }))
      return error;
  }
  return Error::success();
}

Error driver::recommendRewrites(Session &session, StringRef path,
                                StringRef output,
                                std::optional<double> errorBudget,
                                StringRef rules) {
  rewrite::RecommendRewritesPassOptions options;
  options.dir = output.str();
  options.rules = rules.str();
  if (errorBudget)
    options.errorBudget = *errorBudget;
  std::string graph = path.str();
  if (llvm::sys::fs::is_directory(path)) {
    RunFolder folder(path);
    graph = folder.graph();
    if (Error error = readRun(folder, options))
      return error;
  }
  if (graph != path && !isFile(graph) && isFile(RunFolder(path).profile()))
    return llvm::createStringError(
        path + ": holds a profile and no exported graph, which rewrites are "
               "of\n  give one: `opprof profile --graph g.pt2` with the same "
               "--code and --trace; `opprof export` writes it");
  if (!isFile(graph))
    return llvm::createStringError(
        graph +
        (llvm::sys::fs::exists(graph) ? ": is no file" : ": no such file") +
        "\n  give a run folder that `opprof profile` "
        "filled, or a graph (.mlir, .mlirbc)");
  if (!isMLIRFile(graph))
    return llvm::createStringError(
        graph + ": not a graph in MLIR\n  give a run folder, or what `opprof "
                "export model.py -o graph.mlir` writes");
  if (Error error = makeFolder(output))
    return error;
  Expected<OwningOpRef<ModuleOp>> module = session.readGraph(graph);
  if (!module)
    return module.takeError();
  if (llvm::sys::fs::is_directory(path))
    if (Error error = addFurtherGraphs(session, RunFolder(path), **module))
      return error;
  if (Error error = session.runPass(
          **module, rewrite::createRecommendRewritesPass(std::move(options))))
    return error;
  if (!llvm::sys::fs::is_directory(path))
    return Error::success();
  // Reports of the run quote it.
  std::string index = code::file(output, "rewrites.json"), message;
  std::unique_ptr<llvm::MemoryBuffer> text = opprof::openInput(index, &message);
  if (!text)
    return llvm::createStringError(message);
  return writeFile(RunFolder(path).rewrites(),
                   [&](llvm::raw_ostream &os) { os << text->getBuffer(); });
}
