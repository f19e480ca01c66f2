// Offering what a rewrite script does: where it applies, and what that should
// save.

#ifndef OPPROF_REWRITE_SCRIPTOFFERS_H
#define OPPROF_REWRITE_SCRIPTOFFERS_H

#include "opprof/Dialect/FX/IR/FX.h"
#include "opprof/Rewrite/Recommend.h"
#include "opprof/Target/TransformScript/TransformScript.h"

namespace opprof::rewrite {

/// Adds the places of the script of `offer` and what it should save, and offers
/// it; where its patterns are nowhere, declines it with the nearest place. What
/// it should save is the model's time of the graphs before and after, on the
/// scale of the measured times of the nodes that go. A script that names
/// strategies only keeps `offer.savesNs`.
///
void offerScript(llvm::ArrayRef<fx::GraphOp> graphs, const Evidence &evidence,
                 Recommendation offer, Offers &offers);

/// Offers those of a rule's scripts that are somewhere in the graphs and that
/// the model sees a gain in. `rule` is declined at each place that has all
/// operators of one of them and differs in something else; where there is
/// `isAsked`, only where it says so of the node that gives the result.
void offerVariants(
    llvm::ArrayRef<fx::GraphOp> graphs, const Evidence &evidence,
    const Rule &rule, std::vector<Recommendation> variants, Offers &offers,
    llvm::function_ref<bool(mlir::Operation *)> isAsked = nullptr);

/// Whether a rule's script can be applied at each of `places`, of which the
/// first node gives the first result. `rule` is declined at the others, with
/// what differs there.
llvm::SmallVector<bool> findApplicable(
    llvm::ArrayRef<fx::GraphOp> graphs, const Rule &rule, mlir::ModuleOp script,
    llvm::ArrayRef<llvm::SmallVector<fx::NodeOp>> places, Offers &offers);

/// The parameters and buffers of `graph`, and what is computed of them alone.
llvm::DenseSet<mlir::Value> collectOfWeights(fx::GraphOp graph);

/// How both predict, for a rule's description.
inline constexpr llvm::StringLiteral kPredictionByModel =
    "roofline of the graph before − after, without what depends on weights "
    "alone, × measured / modelled time of the nodes that go";

/// A script of `rule` that changes the order of roundings, no more.
Recommendation makeVariant(const Rule &rule, llvm::StringRef title,
                           llvm::StringRef explanation,
                           mlir::OwningOpRef<mlir::ModuleOp> script);

/// A person's script, described by its head, as an offer that has no places
/// yet.
Recommendation describeScript(fx::RewriteScript script);

} // namespace opprof::rewrite

#endif // OPPROF_REWRITE_SCRIPTOFFERS_H
