// From a rewrite script to an offer: its places by the matcher, its gain by the
// model on a copy of the graphs to which it was applied.

#include "opprof/Rewrite/ScriptOffers.h"

#include "opprof/Analysis/Cost/NodeCost.h"
#include "opprof/Analysis/Structure/Equivalence.h"
#include "opprof/Dialect/FX/IR/Arguments.h"
#include "opprof/Dialect/FX/IR/FX.h"
#include "opprof/Dialect/FX/TransformOps/FXTransformOps.h"
#include "opprof/Dialect/Prof/IR/Prof.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace opprof;
using namespace opprof::fx;
using namespace opprof::rewrite;

/// Whether the node normalizes the result of a convolution by constants, or
/// multiplies its channels or adds to them, as one that is spelled out.
static bool normalizesConvolution(NodeOp node) {
  auto before = node.getNumOperands()
                    ? node.getOperand(0).getDefiningOp<NodeOp>()
                    : nullptr;
  if (!before)
    return false;
  bool isOfConvolution = before.getTarget().starts_with("aten.conv");
  if (node.getTarget().contains("batch_norm"))
    return isOfConvolution;
  if ((node.getTarget() != "aten.mul.Tensor" &&
       node.getTarget() != "aten.add.Tensor") ||
      node.getNumOperands() != 2)
    return false;
  auto type = dyn_cast<RankedTensorType>(node.getType());
  auto other = dyn_cast<RankedTensorType>(node.getOperand(1).getType());
  return type && other && type.getRank() > 2 && other.hasStaticShape() &&
         other.getNumElements() == type.getDimSize(1) &&
         (isOfConvolution || normalizesConvolution(before));
}

/// What the model says of one node. Only products wait for a launch of their
/// own: the rest is fused with what is around it.
static double getNodeNs(NodeOp node, const DeviceCeilings &device) {
  OperatorCost cost = getNodeCost(node);
  if (cost.kind == WorkKind::View)
    return 0;
  // On a GPU Inductor adds a convolution's bias in a pass of its own, in which
  // a normalization costs its constants and no more.
  if (device.isGPU && normalizesConvolution(node)) {
    double constants = 0;
    for (Value operand : node.getOperands().drop_front())
      constants += static_cast<double>(
          getTensorShape(operand.getType()).getNumBytes().value_or(0));
    return getRooflineNs(0, constants, device.fp32.rate, device.memory.rate);
  }
  bool isMatrix = cost.kind == WorkKind::Matrix;
  auto type = dyn_cast<RankedTensorType>(node.getType());
  auto bytes = type ? getElementBytes(type.getElementType()) : std::nullopt;
  double rate = isMatrix && bytes && *bytes < 4 && device.fp16.rate
                    ? device.fp16.rate
                    : device.fp32.rate;
  return getRooflineNs(cost.flops.value_or(0),
                       cost.bytesRead.value_or(0) +
                           cost.bytesWritten.value_or(0),
                       rate, device.memory.rate) +
         (isMatrix ? device.launchNs : 0);
}

llvm::DenseSet<Value> opprof::rewrite::collectOfWeights(GraphOp graph) {
  llvm::DenseSet<Value> kept;
  for (auto [index, argument] : llvm::enumerate(graph.getArguments()))
    if (graph.getInputKind(index) == "parameter" ||
        graph.getInputKind(index) == "buffer")
      kept.insert(argument);
  for (NodeOp node : graph.getBlock().getOps<NodeOp>()) {
    bool isKept = node.getNumOperands() && !node.hasSideEffects() &&
                  llvm::all_of(node.getOperands(), [&](Value operand) {
                    return kept.contains(operand);
                  });
    if (isKept)
      kept.insert(node.getResult());
  }
  return kept;
}

/// The model's time of what the graph computes in every call: of weights alone,
/// once is enough where they are kept.
static double getGraphNs(GraphOp graph, const DeviceCeilings &device) {
  llvm::DenseSet<Value> kept = collectOfWeights(graph);
  double ns = 0;
  for (NodeOp node : graph.getBlock().getOps<NodeOp>())
    if (!kept.contains(node.getResult()))
      ns += getNodeNs(node, device);
  return ns;
}

namespace {
/// The patterns of a script, in its order.
struct Patterns {
  SmallVector<SubgraphMatcher, 1> matchers;
  bool areValid = true;
};
} // namespace

static Patterns getPatterns(ModuleOp script) {
  Patterns patterns;
  script.walk([&](transform::ReplaceSubgraphOp replace) {
    auto lookup = [&](FlatSymbolRefAttr name) {
      return lookupGraph(replace, name);
    };
    FailureOr<SubgraphMatcher> matcher = SubgraphMatcher::get(
        lookup(replace.getPatternAttr()), lookup(replace.getReplacementAttr()));
    patterns.areValid &= succeeded(matcher);
    if (succeeded(matcher))
      patterns.matchers.push_back(std::move(*matcher));
  });
  return patterns;
}

/// Those of a rule's own script, of which nobody but the rule hears why they
/// are not valid.
static Patterns getPatternsOfRule(ModuleOp script, std::string &reason) {
  ScopedDiagnosticHandler handler(script.getContext(),
                                  [&](Diagnostic &diagnostic) {
                                    if (reason.empty())
                                      reason = diagnostic.str();
                                  });
  return getPatterns(script);
}

namespace {
/// The place of some graph that comes nearest to some pattern.
struct Nearest {
  std::optional<NearestPlace> place;
  GraphOp graph;

  void look(ArrayRef<GraphOp> graphs, const Patterns &patterns) {
    for (const SubgraphMatcher &matcher : patterns.matchers)
      for (GraphOp candidate : graphs)
        if (auto found = matcher.findNearest(candidate);
            found && (!place || place->rank < found->rank)) {
          place = std::move(found);
          graph = candidate;
        }
  }
  void decline(StringRef name, Offers &offers) {
    if (place)
      offers.decline(name, "its pattern is nowhere; nearest: " + place->text,
                     graph, place->actual);
    else
      offers.decline(name, "its pattern is nowhere", {}, nullptr);
  }
};
} // namespace

/// The share of the model's time of the graphs that is gone when the script is
/// applied; none where it does not apply.
static std::optional<double> predictSavedNs(ArrayRef<GraphOp> graphs,
                                            ModuleOp script,
                                            const DeviceCeilings &device) {
  auto program = graphs.front()->getParentOfType<ModuleOp>();
  OwningOpRef<ModuleOp> copy = program.clone();
  fx::RewriteScript applied;
  applied.module = cast<ModuleOp>(script->clone());
  {
    // That it applies is said in the offer.
    ScopedDiagnosticHandler silence(program.getContext(),
                                    [](Diagnostic &) { return success(); });
    if (failed(applyRewriteScript(applied, *copy)))
      return std::nullopt;
  }
  double saved = 0;
  for (GraphOp graph : graphs) {
    auto after = SymbolTable(*copy).lookup<GraphOp>(graph.getSymName());
    saved += getGraphNs(graph, device) - getGraphNs(after, device);
  }
  return saved;
}

/// Adds the places of the patterns to `offer` and says what it should save;
/// false, and declines it, where it can't be applied.
static bool measureOffer(ArrayRef<GraphOp> graphs, const Evidence &evidence,
                         const Patterns &patterns, Recommendation &offer,
                         Offers &offers) {
  double modelled = 0, measured = 0;
  bool isMeasured = true;
  for (const SubgraphMatcher &matcher : patterns.matchers)
    for (GraphOp graph : graphs)
      for (const SubgraphMatch &match : matcher.matchAll(graph)) {
        std::vector<NodeId> &place = offer.places.emplace_back();
        for (Operation *node : match.nodes) {
          place.push_back(getNodeId(graph, node));
          modelled += getNodeNs(cast<NodeOp>(node), evidence.device);
          std::optional<double> time = prof::getTime(node);
          measured += time.value_or(0);
          isMeasured &= time.has_value();
        }
      }
  if (offer.places.empty())
    return false;
  std::optional<double> saved =
      predictSavedNs(graphs, *offer.script, evidence.device);
  if (!saved) {
    offers.decline(offer.name, "its script can't be applied", {}, nullptr);
    return false;
  }
  bool hasScale = isMeasured && modelled > 0;
  offer.savesNs = *saved * (hasScale ? measured / modelled : 1);
  return true;
}

void opprof::rewrite::offerScript(ArrayRef<GraphOp> graphs,
                                  const Evidence &evidence,
                                  Recommendation offer, Offers &offers) {
  Patterns patterns = getPatterns(*offer.script);
  if (!patterns.areValid)
    return;
  if (!patterns.matchers.empty() &&
      !measureOffer(graphs, evidence, patterns, offer, offers)) {
    Nearest nearest;
    nearest.look(graphs, patterns);
    if (offer.places.empty())
      nearest.decline(offer.name, offers);
    return;
  }
  offer.savesNs = std::max(offer.savesNs, 0.0);
  offers.recommendations.push_back(std::move(offer));
}

/// Says at its first node that the model sees no gain in a variant.
static void declineWithoutGain(ArrayRef<GraphOp> graphs, const Rule &rule,
                               const Recommendation &variant, Offers &offers) {
  const NodeId &first = variant.places.front().front();
  for (GraphOp graph : graphs)
    for (NodeOp node : graph.getBlock().getOps<NodeOp>())
      if (getNodeId(graph, node) == first)
        return offers.decline(rule.name, "the model sees no gain in it", graph,
                              node);
}

namespace {
/// What comes nearest at each place that no variant takes: a rule says of every
/// place why it left it alone.
class NearMisses {
public:
  void look(ArrayRef<GraphOp> graphs, const Patterns &patterns) {
    for (const SubgraphMatcher &matcher : patterns.matchers)
      for (GraphOp graph : graphs) {
        for (const SubgraphMatch &match : matcher.matchAll(graph))
          taken.insert_range(match.nodes);
        matcher.visitNearest(graph, [&](Operation *anchor, NearestPlace place) {
          auto [known, isNew] = places.try_emplace(anchor, graph, place);
          if (!isNew && known->second.second.rank < place.rank)
            known->second.second = std::move(place);
        });
      }
  }
  /// True where a pattern takes all of `nodes`.
  bool takesAll(ArrayRef<NodeOp> nodes) const {
    return llvm::all_of(nodes,
                        [&](NodeOp node) { return taken.contains(node); });
  }
  /// Whatever differs where `anchor` gives the first result.
  void declineAt(NodeOp anchor, StringRef name, Offers &offers) const {
    const auto *found = places.find(anchor);
    if (found == places.end())
      return offers.decline(name, "its pattern is not here",
                            anchor->getParentOfType<GraphOp>(), anchor);
    const auto &[graph, place] = found->second;
    offers.decline(name, "its pattern is not here: " + place.text, graph,
                   place.actual);
  }
  /// Those that have all operators of a variant.
  void decline(StringRef name, llvm::function_ref<bool(Operation *)> isAsked,
               Offers &offers) {
    for (auto &[anchor, found] : places) {
      auto &[graph, place] = found;
      if (!taken.contains(anchor) && !place.isOtherOperator &&
          (!isAsked || isAsked(anchor)))
        offers.decline(name,
                       (taken.empty() ? "its pattern is nowhere; nearest: "
                                      : "its pattern is not here: ") +
                           place.text,
                       graph, place.actual);
    }
  }

private:
  llvm::MapVector<Operation *, std::pair<GraphOp, NearestPlace>> places;
  llvm::SmallPtrSet<Operation *, 32> taken;
};
} // namespace

SmallVector<bool> opprof::rewrite::findApplicable(
    ArrayRef<GraphOp> graphs, const Rule &rule, ModuleOp script,
    ArrayRef<SmallVector<NodeOp>> places, Offers &offers) {
  std::string reason;
  Patterns patterns = getPatternsOfRule(script, reason);
  assert(patterns.areValid && "a rule's own script has a pattern");
  NearMisses misses;
  misses.look(graphs, patterns);
  return llvm::map_to_vector(places, [&](const SmallVector<NodeOp> &place) {
    bool isApplicable = misses.takesAll(place);
    if (!isApplicable)
      misses.declineAt(place.front(), rule.name, offers);
    return isApplicable;
  });
}

void opprof::rewrite::offerVariants(
    ArrayRef<GraphOp> graphs, const Evidence &evidence, const Rule &rule,
    std::vector<Recommendation> variants, Offers &offers,
    llvm::function_ref<bool(Operation *)> isAsked) {
  NearMisses misses;
  for (Recommendation &variant : variants) {
    std::string reason;
    Patterns patterns = getPatternsOfRule(*variant.script, reason);
    if (!patterns.areValid) {
      offers.decline(rule.name, reason, {}, nullptr);
      continue;
    }
    misses.look(graphs, patterns);
    if (!measureOffer(graphs, evidence, patterns, variant, offers))
      continue;
    if (variant.savesNs > 0)
      offers.recommendations.push_back(std::move(variant));
    else
      declineWithoutGain(graphs, rule, variant, offers);
  }
  misses.decline(rule.name, isAsked, offers);
}

Recommendation opprof::rewrite::makeVariant(const Rule &rule, StringRef title,
                                            StringRef explanation,
                                            OwningOpRef<ModuleOp> script) {
  Recommendation variant;
  variant.name = rule.name;
  variant.finding = rule.finding;
  variant.title = title.str();
  variant.explanation = explanation.str();
  variant.error = 1e-6;
  variant.script = std::move(script);
  return variant;
}

Recommendation opprof::rewrite::describeScript(fx::RewriteScript script) {
  Recommendation offer;
  offer.name = script.getName().str();
  offer.finding = script.getText("finding").str();
  offer.title = script.getText("title").str();
  offer.explanation = script.getText("explanation").str();
  if (auto error = script.getHead().getAs<FloatAttr>("expected_error"))
    offer.error = error.getValueAsDouble();
  if (auto saves = script.getHead().getAs<IntegerAttr>("saves_ns"))
    offer.savesNs = static_cast<double>(saves.getInt());
  if (offer.title.empty())
    offer.title = offer.name;
  if (offer.finding.empty())
    offer.finding = "given";
  offer.script = std::move(script.module);
  return offer;
}
