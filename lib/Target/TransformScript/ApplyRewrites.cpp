// --apply-rewrites: applies rewrite scripts to the graphs of a module.

#include "opprof/Dialect/FX/IR/FXDialect.h"
#include "opprof/Dialect/FX/IR/NodeSymbols.h"
#include "opprof/Dialect/FX/TransformOps/FXTransformOps.h"
#include "opprof/Support/ToolOptions.h"
#include "opprof/Target/TransformScript/Passes.h"
#include "opprof/Target/TransformScript/TransformScript.h"

#include "mlir/Pass/Pass.h"

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
    WalkResult calls = getOperation().walk([](Operation *op) {
      if (!isCall(op))
        return WalkResult::advance();
      op->emitOpError("stands in the way of rewrites, which may cross its "
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
  registerPassWithValue([] { return createApplyRewritesPass(); }, "path");
}
