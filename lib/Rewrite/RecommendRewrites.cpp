// --recommend-rewrites: writes the recommendations for a module's graph to a
// folder.

#include "opprof/Dialect/FX/IR/FXDialect.h"
#include "opprof/Dialect/FX/TransformOps/FXTransformOps.h"
#include "opprof/Dialect/Inductor/IR/Inductor.h"
#include "opprof/Dialect/Prof/IR/Prof.h"
#include "opprof/Dialect/Prof/Transforms/AttachProfile.h"
#include "opprof/Profile/ProfileJSON.h"
#include "opprof/Rewrite/Passes.h"
#include "opprof/Rewrite/RewriteFolder.h"
#include "opprof/Support/InputFile.h"

#include "mlir/Dialect/Transform/IR/TransformDialect.h"
#include "llvm/Support/MemoryBuffer.h"

namespace opprof::rewrite {
#define GEN_PASS_DEF_RECOMMENDREWRITESPASS
#include "opprof/Rewrite/Passes.h.inc"
} // namespace opprof::rewrite

using namespace mlir;
using namespace opprof;
using namespace opprof::rewrite;

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
    auto file = opprof::openInput(profile);
    if (!file)
      return fail(profile, file.getError().message());
    llvm::Expected<std::unique_ptr<profile::Profile>> read =
        profile::readProfile((*file)->getBuffer(), profile);
    if (!read)
      return fail(llvm::toString(read.takeError()) +
                  "; give a profile.opprof.json that opprof profile wrote");
    return prof::attachProfile(module, **read);
  }

  /// A comma before another option's name makes that a part of the value.
  LogicalResult checkCommas() {
    for (const std::string &value :
         {dir.getValue(), profile.getValue(), device.getValue(),
          script.getValue(), rules.getValue()})
      for (StringRef name :
           {dir.ArgStr, profile.ArgStr, device.ArgStr, script.ArgStr,
            rules.ArgStr, errorBudget.ArgStr, training.ArgStr})
        if (StringRef(value).contains(("," + name + "=").str()))
          return fail(value, "options are separated by blanks, not by commas: "
                             "write --recommend-rewrites=\"dir=FOLDER " +
                                 name + "=…\"");
    return success();
  }

  LogicalResult run() {
    if (failed(checkCommas()))
      return failure();
    if (dir.empty())
      return fail("no folder is given: write --recommend-rewrites=dir=FOLDER");
    if (!(errorBudget >= 0 && errorBudget < 1))
      return fail("error-budget is a number from 0 up to 1");
    ModuleOp module = getOperation();
    std::optional<NodeId> main = getMainGraph(module);
    if (!main)
      return fail("the module holds no public fx.graph to look at");
    OwningOpRef<ModuleOp> annotated;
    if (!profile.empty()) {
      // Rules read times from nodes; the module of the user stays as it is.
      annotated = module.clone();
      if (failed(attach(*annotated)))
        return failure();
      module = *annotated;
    }
    Evidence evidence = readEvidence(module);
    evidence.errorBudget = errorBudget;
    evidence.isTraining = training;
    if (!device.empty())
      evidence.device = assumeDeviceCeilings(device);
    FailureOr<Offers> offers = recommend(module, evidence, rules);
    if (failed(offers))
      return failure();
    if (llvm::Error error =
            writeRewriteFolder(dir, *main, *offers, evidence, script))
      return fail(llvm::toString(std::move(error)));
    return success();
  }
};
} // namespace
