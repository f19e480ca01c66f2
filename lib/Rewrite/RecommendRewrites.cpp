// --recommend-rewrites: writes the recommendations for a module's graph to a
// folder.

#include "opprof/Dialect/FX/IR/FX.h"
#include "opprof/Dialect/FX/TransformOps/FXTransformOps.h"
#include "opprof/Rewrite/Passes.h"
#include "opprof/Rewrite/Recommend.h"

#include "mlir/Dialect/Transform/IR/TransformDialect.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

namespace opprof::rewrite {
#define GEN_PASS_DEF_RECOMMENDREWRITESPASS
#include "opprof/Rewrite/Passes.h.inc"
} // namespace opprof::rewrite

using namespace mlir;
using namespace opprof;
using namespace opprof::rewrite;

/// The graph that recommendations are for: the first public one.
static fx::GraphOp findMainGraph(ModuleOp module) {
  for (fx::GraphOp graph : module.getOps<fx::GraphOp>())
    if (graph.isPublic())
      return graph;
  return {};
}

/// The device of the graph's first tensor.
static std::string findDevice(fx::GraphOp graph) {
  for (Type type : graph.getArgumentTypes())
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      if (auto info =
              dyn_cast_or_null<fx::TensorInfoAttr>(tensor.getEncoding()))
        return info.getDevice().str();
  return "cpu";
}

/// Writes `text` to `path`, whole or not at all.
static llvm::Error writeFile(const Twine &path, StringRef text) {
  return llvm::writeToOutput(path.str(), [&](raw_ostream &os) {
    os << text;
    return llvm::Error::success();
  });
}

namespace {
struct RecommendRewritesPass
    : public opprof::rewrite::impl::RecommendRewritesPassBase<
          RecommendRewritesPass> {
  using Base::Base;

  void runOnOperation() final {
    if (failed(run()))
      signalPassFailure();
  }

private:
  /// Not Operation::emitError, which would print the program after what is
  /// wrong with a file.
  LogicalResult fail(const Twine &what) {
    return mlir::emitError(getOperation().getLoc()) << what;
  }
  LogicalResult fail(const Twine &file, const Twine &what) {
    return fail(file + ": " + what);
  }

  LogicalResult run() {
    if (dir.empty())
      return fail("no folder is given: write --recommend-rewrites=dir=FOLDER");
    fx::GraphOp graph = findMainGraph(getOperation());
    if (!graph)
      return fail("the module holds no public fx.graph to look at");
    Evidence evidence;
    evidence.errorBudget = errorBudget;
    evidence.device =
        assumeDeviceCeilings(device.empty() ? findDevice(graph) : device);
    if (!profile.empty()) {
      auto file = llvm::MemoryBuffer::getFile(profile, /*IsText=*/true);
      if (!file)
        return fail(profile, file.getError().message());
      if (llvm::Error error =
              readEvidence((*file)->getBuffer(), profile, evidence))
        return fail(llvm::toString(std::move(error)));
    }
    return write(graph, rewrite::recommend(graph, evidence), evidence);
  }

  LogicalResult write(fx::GraphOp graph,
                      ArrayRef<Recommendation> recommendations,
                      const Evidence &evidence) {
    if (std::error_code error = llvm::sys::fs::create_directories(dir))
      return fail(dir, error.message());
    if (failed(removeOldScripts()))
      return failure();
    std::string index;
    llvm::raw_string_ostream os(index);
    llvm::json::OStream json(os, 1);
    json.objectBegin();
    json.attribute("version", 1);
    json.attribute("graph", graph.getSymName());
    json.attribute("device", evidence.device.name);
    json.attribute("error_budget", evidence.errorBudget);
    json.attribute("times", evidence.wallNs ? "profile" : "model");
    json.attributeBegin("rewrites");
    json.arrayBegin();
    for (auto [i, current] : llvm::enumerate(recommendations)) {
      std::string file =
          llvm::formatv("{0,0+2}-{1}.mlir", i + 1, current.name).str();
      SmallString<128> path(dir);
      llvm::sys::path::append(path, file);
      std::string text = getScriptText(current, i + 1);
      if (!parseSourceString<ModuleOp>(text, &getContext(), file))
        return fail(path, "the script made for this graph is not valid");
      if (llvm::Error error = writeFile(path, text))
        return fail(path, llvm::toString(std::move(error)));
      json.object([&] {
        json.attribute("file", file);
        json.attribute("name", current.name);
        json.attribute("rank", static_cast<int64_t>(i + 1));
        json.attribute("finding", current.finding);
        json.attribute("title", current.title);
        json.attribute("explanation", current.explanation);
        json.attribute("saves_ns", static_cast<int64_t>(current.savesNs));
        json.attribute("expected_error", current.error);
        json.attributeArray("nodes", [&] {
          for (const std::vector<std::string> &names : current.places)
            json.array([&] {
              for (const std::string &name : names)
                json.value(name);
            });
        });
      });
    }
    json.arrayEnd();
    json.attributeEnd();
    json.objectEnd();
    os << "\n";
    SmallString<128> path(dir);
    llvm::sys::path::append(path, "rewrites.json");
    if (llvm::Error error = writeFile(path, index))
      return fail(path, llvm::toString(std::move(error)));
    return success();
  }

  /// Removes the scripts that an index of an earlier run names, and no others:
  /// a folder may hold a person's own.
  LogicalResult removeOldScripts() {
    SmallString<128> index(dir);
    llvm::sys::path::append(index, "rewrites.json");
    auto file = llvm::MemoryBuffer::getFile(index, /*IsText=*/true);
    if (!file)
      return success();
    auto old = llvm::json::parse((*file)->getBuffer());
    if (!old)
      return fail(index, llvm::toString(old.takeError()));
    const llvm::json::Object *root = old->getAsObject();
    const llvm::json::Array *scripts =
        root ? root->getArray("rewrites") : nullptr;
    if (!scripts)
      return success();
    for (const llvm::json::Value &entry : *scripts) {
      const llvm::json::Object *script = entry.getAsObject();
      auto name = script ? script->getString("file") : std::nullopt;
      // Only names that this pass gives: never a path to elsewhere.
      if (!name || name->contains('/') || !name->ends_with(".mlir"))
        continue;
      SmallString<128> path(dir);
      llvm::sys::path::append(path, *name);
      llvm::sys::fs::remove(path);
    }
    return success();
  }
};
} // namespace

void opprof::rewrite::registerRecommendRewrites() {
  registerPassPipeline(
      "recommend-rewrites",
      "Write the rewrites that should make a graph faster, ranked: "
      "--recommend-rewrites=dir=FOLDER[,profile=FILE][,device=NAME]"
      "[,error-budget=NUMBER]",
      [](OpPassManager &manager, StringRef options,
         llvm::function_ref<LogicalResult(const Twine &)> fail)
          -> LogicalResult {
        RecommendRewritesPassOptions parsed;
        SmallVector<StringRef> entries;
        llvm::SplitString(options, entries, ", ");
        for (StringRef entry : entries) {
          auto [key, value] = entry.split('=');
          if (key == "dir")
            parsed.dir = value.str();
          else if (key == "profile")
            parsed.profile = value.str();
          else if (key == "device")
            parsed.device = value.str();
          else if (key == "error-budget") {
            if (value.getAsDouble(parsed.errorBudget))
              return fail("'" + value + "' is not a number");
          } else
            return fail("recommend-rewrites has no option '" + key +
                        "': dir, profile, device and error-budget are known");
        }
        manager.addPass(createRecommendRewritesPass(parsed));
        return success();
      },
      [](llvm::function_ref<void(const mlir::detail::PassOptions &)>) {});
}
