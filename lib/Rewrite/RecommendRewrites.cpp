// --recommend-rewrites: writes the recommendations for a module's graph to a
// folder.

#include "opprof/Dialect/FX/IR/FX.h"
#include "opprof/Dialect/FX/TransformOps/FXTransformOps.h"
#include "opprof/Dialect/Inductor/IR/Inductor.h"
#include "opprof/Dialect/Prof/IR/Prof.h"
#include "opprof/Dialect/Prof/Transforms/AttachProfile.h"
#include "opprof/Profile/ProfileJSON.h"
#include "opprof/Rewrite/Passes.h"
#include "opprof/Rewrite/RewriteFolder.h"

#include "mlir/Dialect/Transform/IR/TransformDialect.h"
#include "llvm/Support/MemoryBuffer.h"

namespace opprof::rewrite {
#define GEN_PASS_DEF_RECOMMENDREWRITESPASS
#include "opprof/Rewrite/Passes.h.inc"
} // namespace opprof::rewrite

using namespace mlir;
using namespace opprof;
using namespace opprof::rewrite;

/// The device of the graph's first tensor.
static std::string findDevice(fx::GraphOp graph) {
  for (Type type : graph.getArgumentTypes())
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      if (auto info =
              dyn_cast_or_null<fx::TensorInfoAttr>(tensor.getEncoding()))
        return info.getDevice().str();
  return "cpu";
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

  /// Puts the times of the file `profile` onto `module`.
  LogicalResult attach(ModuleOp module) {
    auto file = llvm::MemoryBuffer::getFile(profile, /*IsText=*/true);
    if (!file)
      return fail(profile, file.getError().message());
    llvm::Expected<std::unique_ptr<profile::Profile>> read =
        profile::readProfile((*file)->getBuffer(), profile);
    if (!read)
      return fail(llvm::toString(read.takeError()) +
                  "; give a profile.opprof.json that opprof profile wrote");
    return prof::attachProfile(module, **read);
  }

  LogicalResult run() {
    if (dir.empty())
      return fail("no folder is given: write --recommend-rewrites=dir=FOLDER");
    if (!(errorBudget >= 0 && errorBudget < 1))
      return fail("error-budget is a number from 0 up to 1");
    ModuleOp module = getOperation();
    SmallVector<fx::GraphOp> graphs = getRewritableGraphs(module);
    if (graphs.empty())
      return fail("the module holds no public fx.graph to look at");
    OwningOpRef<ModuleOp> annotated;
    if (!profile.empty()) {
      // Rules read times from nodes; the module of the user stays as it is.
      annotated = module.clone();
      if (failed(attach(*annotated)))
        return failure();
      graphs = getRewritableGraphs(*annotated);
    }
    Evidence evidence = readEvidence(annotated ? *annotated : module);
    evidence.errorBudget = errorBudget;
    if (!device.empty())
      evidence.device = assumeDeviceCeilings(device);
    else if (evidence.device.name.empty())
      evidence.device = assumeDeviceCeilings(findDevice(graphs[0]));
    if (llvm::Error error = writeRewriteFolder(
            dir, graphs[0], recommend(graphs, evidence), evidence, script))
      return fail(llvm::toString(std::move(error)));
    return success();
  }
};
} // namespace
