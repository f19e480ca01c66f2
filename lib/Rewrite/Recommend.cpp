// Asks all rules, ranks what they offer, and heads each script with what it is
// for.

#include "opprof/Rewrite/Recommend.h"
#include "opprof/Dialect/FX/IR/FX.h"
#include "opprof/Dialect/FX/IR/NodeSymbols.h"
#include "opprof/Dialect/FX/IR/Provenance.h"
#include "opprof/Dialect/FX/IR/Schema.h"
#include "opprof/Dialect/FX/TransformOps/FXTransformOps.h"
#include "opprof/Dialect/Prof/IR/Prof.h"
#include "opprof/Rewrite/ScriptOffers.h"
#include "opprof/Support/Units.h"
#include "opprof/Target/TransformScript/TransformScript.h"

#include "mlir/Dialect/Transform/IR/TransformOps.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace opprof;
using namespace opprof::rewrite;

static const Rule *const kRules[] = {
    &kSharedInputGemms, &kBatchNormFolding, &kAttention, &kFreeze,
    &kFloat16,          &kBFloat16,         &kCudaGraph, &kAutotune,
    &kTF32Products,     &kNormalization};

ArrayRef<const Rule *> opprof::rewrite::getRules() { return kRules; }

void opprof::rewrite::printRules(raw_ostream &os) {
  for (const Rule *rule : getRules())
    os << rule->name << "\n  finding:    " << rule->finding
       << "\n  conditions: " << rule->conditions
       << "\n  prediction: " << rule->prediction << "\n";
}

void Offers::decline(StringRef rule, const Twine &reason, fx::GraphOp graph,
                     Operation *node) {
  std::string text = reason.str();
  for (Decline &known : declines)
    if (known.rule == rule && known.reason == text) {
      ++known.count;
      return;
    }
  Decline &added = declines.emplace_back();
  added.rule = rule.str();
  added.reason = std::move(text);
  if (graph && node) {
    added.node = getNodeId(graph, node);
    added.line = fx::getSourceText(node->getLoc());
  }
}

static SmallVector<fx::GraphOp> getRewritableGraphs(ModuleOp module) {
  SmallVector<fx::GraphOp> graphs;
  for (fx::GraphOp graph : module.getOps<fx::GraphOp>())
    if (graph.isPublic() && graph.getStage() != "post_grad")
      graphs.push_back(graph);
  return graphs;
}

std::optional<NodeId> opprof::rewrite::getMainGraph(ModuleOp module) {
  SmallVector<fx::GraphOp> graphs = getRewritableGraphs(module);
  if (graphs.empty())
    return std::nullopt;
  return fx::getGraphId(graphs.front());
}

/// The device of the main graph's first tensor.
static std::string findDevice(ModuleOp module) {
  SmallVector<fx::GraphOp> graphs = getRewritableGraphs(module);
  if (!graphs.empty())
    for (Type type : graphs.front().getArgumentTypes())
      if (auto tensor = dyn_cast<RankedTensorType>(type))
        if (auto info =
                dyn_cast_or_null<fx::TensorInfoAttr>(tensor.getEncoding()))
          return info.getDevice().str();
  return "cpu";
}

Evidence opprof::rewrite::readEvidence(ModuleOp module) {
  Evidence evidence;
  prof::SummaryAttr summary = prof::getSummary(module);
  StringAttr device = summary ? summary.getDevice() : StringAttr();
  evidence.device =
      assumeDeviceCeilings(device ? device.str() : findDevice(module));
  if (!summary)
    return evidence;
  auto perStep = [&](std::optional<int64_t> total) {
    return total ? std::optional(summary.getPerStep(*total)) : std::nullopt;
  };
  evidence.wallNs = perStep(summary.getWallNs());
  evidence.busyNs = perStep(summary.getBusyNs());
  evidence.kernelNs = perStep(summary.getKernelNs());
  return evidence;
}

/// What only changes the order of roundings may give equal bits: whether it
/// does is for a run to show, however small the budget.
static constexpr double kRoundingOrder = 1e-6;

static bool isRecurrentLayer(fx::NodeOp node) {
  return llvm::is_contained({"lstm", "gru", "rnn_tanh", "rnn_relu"},
                            fx::getOperatorName(node.getTarget()));
}

/// The op of the script that names strategies; null where none does.
static transform::RegionStrategyOp findStrategy(ModuleOp script) {
  transform::RegionStrategyOp strategy;
  script.walk([&](transform::RegionStrategyOp op) { strategy = op; });
  return strategy;
}

/// Lets the script ask for graphs that are handed to no backend otherwise, or
/// left alone by it, whatever else it does.
static void askFor(ModuleOp script, StringRef graphs) {
  MLIRContext *context = script.getContext();
  NamedAttribute flag(StringAttr::get(context, graphs), UnitAttr::get(context));
  if (transform::RegionStrategyOp strategy = findStrategy(script)) {
    strategy->setAttr(flag.getName(), flag.getValue());
    return;
  }
  transform::NamedSequenceOp sequence;
  script.walk([&](transform::NamedSequenceOp op) { sequence = op; });
  Block &body = sequence.getBody().front();
  OpBuilder builder(body.getTerminator());
  transform::RegionStrategyOp::create(builder, sequence.getLoc(), TypeRange(),
                                      ValueRange{body.getArgument(0)},
                                      ArrayRef<NamedAttribute>{flag});
}

/// What the script does that means nothing where weights change in every step
/// and gradients are taken; empty where it does none of that.
static StringRef findWorkOfInference(ModuleOp script) {
  transform::RegionStrategyOp strategy = findStrategy(script);
  if (!strategy)
    return {};
  if (strategy.getFreeze() || strategy.getPrologue())
    return "makes something of weights once, and they change in every step of "
           "training";
  if (strategy.getCudaGraph())
    return "captures the forward pass, whose gradients are needed";
  return {};
}

/// Keeps what leaves gradients right, and lets it have the graphs.
static void offerForTraining(Offers &offers) {
  llvm::erase_if(offers.recommendations, [&](const Recommendation &result) {
    StringRef reason = findWorkOfInference(*result.script);
    if (!reason.empty())
      offers.decline(result.name, reason, {}, nullptr);
    return !reason.empty();
  });
  for (Recommendation &result : offers.recommendations)
    askFor(*result.script, "training");
}

/// Lets those that merge more products of one input come first: fewer of them
/// are found among more, and would take some of each place away.
static void putLargerMergesFirst(std::vector<Recommendation> &results) {
  SmallVector<size_t> ranks;
  std::vector<Recommendation> merges;
  for (auto [rank, result] : llvm::enumerate(results))
    if (result.name == kSharedInputGemms.name && !result.places.empty()) {
      ranks.push_back(rank);
      merges.push_back(std::move(result));
    }
  llvm::stable_sort(merges,
                    [](const Recommendation &a, const Recommendation &b) {
                      return a.places.front().size() > b.places.front().size();
                    });
  for (auto [rank, merge] : llvm::zip(ranks, merges))
    results[rank] = std::move(merge);
}

FailureOr<Offers> opprof::rewrite::recommend(ModuleOp module,
                                             const Evidence &evidence,
                                             StringRef rules) {
  SmallVector<fx::GraphOp> graphs = getRewritableGraphs(module);
  Offers offers;
  if (graphs.empty())
    return offers;
  for (const Rule *rule : getRules())
    rule->find(graphs, evidence, offers);
  if (!rules.empty()) {
    FailureOr<SmallVector<fx::RewriteScript>> scripts =
        fx::loadRewriteScripts(rules, module.getContext());
    if (failed(scripts))
      return failure();
    for (fx::RewriteScript &script : *scripts)
      offerScript(graphs, evidence, describeScript(std::move(script)), offers);
  }
  bool hasRecurrentLayers = llvm::any_of(graphs, [](fx::GraphOp graph) {
    return llvm::any_of(graph.getBlock().getOps<fx::NodeOp>(),
                        isRecurrentLayer);
  });
  if (hasRecurrentLayers)
    for (Recommendation &result : offers.recommendations)
      askFor(*result.script, "recurrent");
  if (evidence.isTraining)
    offerForTraining(offers);
  double allowed = std::max(evidence.errorBudget, kRoundingOrder);
  std::vector<Recommendation> &results = offers.recommendations;
  llvm::erase_if(results, [&](const Recommendation &result) {
    if (result.error <= allowed)
      return false;
    offers.decline(result.name,
                   "its usual error, " + formatShortest(result.error) +
                       ", is over the budget of " +
                       formatShortest(evidence.errorBudget),
                   {}, nullptr);
    return true;
  });
  llvm::stable_sort(results,
                    [](const Recommendation &a, const Recommendation &b) {
                      return a.savesNs > b.savesNs;
                    });
  putLargerMergesFirst(results);
  return offers;
}

NodeId opprof::rewrite::getNodeId(fx::GraphOp graph, Operation *node) {
  NodeId id = fx::getGraphId(graph);
  id.name = fx::getNodeName(node).str();
  return id;
}

/// The plain name of a node of `main`, or all that identifies another one.
static Attribute toAttribute(const NodeId &node, const NodeId &main,
                             Builder &builder) {
  StringAttr name = builder.getStringAttr(node.name);
  if (node.graph == main.graph && node.stage == main.stage)
    return name;
  return builder.getDictionaryAttr(
      {builder.getNamedAttr("graph", builder.getStringAttr(node.graph)),
       builder.getNamedAttr("stage", builder.getStringAttr(node.stage)),
       builder.getNamedAttr("name", name)});
}

void opprof::rewrite::setScriptHead(const Recommendation &current,
                                    unsigned rank, const NodeId &main) {
  ModuleOp script = *current.script;
  Builder builder(script.getContext());
  NamedAttrList head;
  head.set("name", builder.getStringAttr(current.name));
  head.set("rank", builder.getI64IntegerAttr(rank));
  head.set("finding", builder.getStringAttr(current.finding));
  head.set("title", builder.getStringAttr(current.title));
  head.set("explanation", builder.getStringAttr(current.explanation));
  head.set("saves_ns",
           builder.getI64IntegerAttr(static_cast<int64_t>(current.savesNs)));
  head.set("expected_error", builder.getF64FloatAttr(current.error));
  SmallVector<Attribute> places;
  for (const std::vector<NodeId> &place : current.places)
    places.push_back(builder.getArrayAttr(
        llvm::map_to_vector(place, [&](const NodeId &node) {
          return toAttribute(node, main, builder);
        })));
  if (!places.empty())
    head.set("nodes", builder.getArrayAttr(places));
  script->setAttr(fx::kRewriteAttr, head.getDictionary(script.getContext()));
}
