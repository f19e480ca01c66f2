// --apply-rewrites: applies rewrite scripts to the graphs of a module.

#include "opprof/Dialect/FX/IR/FX.h"
#include "opprof/Dialect/FX/TransformOps/FXTransformOps.h"
#include "opprof/Target/TransformScript/Passes.h"
#include "opprof/Target/TransformScript/TransformScript.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

namespace opprof::fx {
#define GEN_PASS_DEF_APPLYREWRITESPASS
#include "opprof/Target/TransformScript/Passes.h.inc"
} // namespace opprof::fx

using namespace mlir;
using namespace opprof::fx;

namespace {
struct ApplyRewritesPass
    : public opprof::fx::impl::ApplyRewritesPassBase<ApplyRewritesPass> {
  using Base::Base;

  void runOnOperation() final {
    if (path.empty()) {
      getOperation().emitError("no rewrites are given: write "
                               "--apply-rewrites=FILE or FOLDER");
      return signalPassFailure();
    }
    WalkResult calls = getOperation().walk([](CallOp call) {
      call.emitOpError("stands in the way of rewrites, which may cross its "
                       "border: run --inline-partitions first");
      return WalkResult::interrupt();
    });
    if (calls.wasInterrupted())
      return signalPassFailure();
    FailureOr<SmallVector<RewriteScript>> scripts =
        loadRewriteScripts(path, &getContext());
    if (failed(scripts))
      return signalPassFailure();
    for (const RewriteScript &script : *scripts)
      if (failed(applyRewriteScript(script, getOperation())))
        return signalPassFailure();
  }
};
} // namespace

void opprof::fx::registerApplyRewrites() {
  // Registered as a pipeline, because that one sees the text after '=' as it
  // is, and a path should not need a key.
  registerPassPipeline(
      "apply-rewrites",
      "Apply the rewrite scripts of a file or a folder, by rank: "
      "--apply-rewrites=PATH",
      [](OpPassManager &manager, StringRef options,
         llvm::function_ref<LogicalResult(const Twine &)>) {
        options.consume_front("path=");
        ApplyRewritesPassOptions parsed;
        parsed.path = options.str();
        manager.addPass(createApplyRewritesPass(parsed));
        return success();
      },
      [](llvm::function_ref<void(const mlir::detail::PassOptions &)>) {});
}
