// Transform operations on fx graphs: checks, and what the interpreter does.

#include "opprof/Dialect/FX/TransformOps/FXTransformOps.h"
#include "opprof/Analysis/Structure/Equivalence.h"
#include "opprof/Dialect/FX/IR/Provenance.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace opprof::fx;

#define GET_OP_CLASSES
#include "opprof/Dialect/FX/TransformOps/FXTransformOps.cpp.inc"

//===----------------------------------------------------------------------===//
// ReplaceSubgraphOp
//===----------------------------------------------------------------------===//

/// Shape and element type: what a replacement has to keep of a result.
static bool haveSameValues(Type first, Type second) {
  auto one = dyn_cast<RankedTensorType>(first);
  auto other = dyn_cast<RankedTensorType>(second);
  if (!one || !other)
    return first == second;
  return one.getElementType() == other.getElementType() &&
         one.getShape() == other.getShape();
}

LogicalResult
transform::ReplaceSubgraphOp::verifySymbolUses(SymbolTableCollection &tables) {
  auto lookup = [&](FlatSymbolRefAttr name) {
    auto graph = tables.lookupNearestSymbolFrom<GraphOp>(getOperation(), name);
    if (!graph)
      emitOpError() << "names " << name
                    << ", which is no fx.graph of this file";
    return graph;
  };
  GraphOp pattern = lookup(getPatternAttr());
  GraphOp replacement = lookup(getReplacementAttr());
  if (!pattern || !replacement)
    return failure();
  auto complain = [&](const Twine &what) -> LogicalResult {
    InFlightDiagnostic diagnostic = emitOpError() << what;
    diagnostic.attachNote(pattern.getLoc()) << "the pattern";
    diagnostic.attachNote(replacement.getLoc()) << "the replacement";
    return diagnostic;
  };
  if (pattern.getArgumentTypes() != replacement.getArgumentTypes())
    return complain("has a replacement that takes other arguments than the "
                    "pattern");
  if (pattern.getResultTypes().size() != replacement.getResultTypes().size())
    return complain("has a replacement with another number of results than "
                    "the pattern");
  for (auto [index, types] : llvm::enumerate(
           llvm::zip(pattern.getResultTypes(), replacement.getResultTypes())))
    if (!haveSameValues(std::get<0>(types), std::get<1>(types)))
      return complain("has a replacement whose result " + Twine(index) +
                      " has another shape or element type than the pattern's");
  return success();
}

void transform::ReplaceSubgraphOp::getEffects(
    SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  onlyReadsHandle(getTargetMutable(), effects);
  producesHandle(getOperation()->getOpResults(), effects);
  modifiesPayload(effects);
}

namespace {
/// The place of some graph that comes nearest to a pattern, with its graph.
struct Nearest {
  NearestPlace place;
  GraphOp graph;
};
} // namespace

static std::optional<Nearest> findNearest(ArrayRef<GraphOp> graphs,
                                          const SubgraphMatcher &matcher) {
  std::optional<Nearest> nearest;
  for (GraphOp graph : graphs) {
    std::optional<NearestPlace> place = matcher.findNearest(graph);
    if (place && (!nearest || nearest->place.rank < place->rank))
      nearest = Nearest{std::move(*place), graph};
  }
  return nearest;
}

/// Says where a pattern that is nowhere comes nearest, in notes of
/// `diagnostic`.
template <typename Diagnostic>
static void explainNearest(Diagnostic &diagnostic, ArrayRef<GraphOp> graphs,
                           const SubgraphMatcher &matcher) {
  GraphOp pattern = matcher.getPattern();
  std::optional<Nearest> nearest = findNearest(graphs, matcher);
  if (!nearest) {
    NodeOp anchor =
        pattern.getOutput().getOperand(0).template getDefiningOp<NodeOp>();
    diagnostic.attachNote(anchor.getLoc())
        << "no node calls " << anchor.getTarget()
        << " with these arguments, which gives the pattern's first result";
    return;
  }
  unsigned numNodes =
      llvm::range_size(pattern.getBlock().template getOps<NodeOp>());
  NearestPlace &place = nearest->place;
  auto &note = diagnostic.attachNote(place.actual.getLoc())
               << "the nearest place is in @" << nearest->graph.getSymName()
               << ", where " << place.numFound << " of the pattern's "
               << numNodes << (numNodes == 1 ? " node fits" : " nodes fit");
  if (StringRef name = getNodeName(place.actual); !name.empty())
    note << "; of " << name << ", ";
  else
    note << "; ";
  note << place.text;
  diagnostic.attachNote(place.expected.getLoc()) << "the pattern's node";
}

DiagnosedSilenceableFailure
transform::ReplaceSubgraphOp::apply(TransformRewriter &rewriter,
                                    TransformResults &results,
                                    TransformState &state) {
  auto pattern = lookupGraph(*this, getPatternAttr());
  auto replacement = lookupGraph(*this, getReplacementAttr());
  FailureOr<SubgraphMatcher> matcher =
      SubgraphMatcher::get(pattern, replacement);
  if (failed(matcher))
    return DiagnosedSilenceableFailure::definiteFailure();
  SmallVector<GraphOp> graphs;
  for (Operation *payload : state.getPayloadOps(getTarget()))
    payload->walk([&](GraphOp graph) { graphs.push_back(graph); });
  unsigned numPlaces = 0;
  SmallVector<Operation *> made;
  for (GraphOp graph : graphs) {
    Replaced replaced =
        replaceSubgraphs(rewriter, graph, *matcher, replacement);
    numPlaces += replaced.numPlaces;
    llvm::append_range(made, replaced.nodes);
  }
  if (Value handle = getReplaced())
    results.set(cast<OpResult>(handle), made);
  if (numPlaces) {
    // Not Operation::emitRemark, which would print the operation after each.
    mlir::emitRemark(getLoc()) << "applied at " << numPlaces
                               << (numPlaces == 1 ? " place" : " places");
    return DiagnosedSilenceableFailure::success();
  }
  std::string what = ("the pattern @" + getPattern() +
                      " is nowhere in the graph, which stays as it is")
                         .str();
  auto *goesOn = state.getExtension<WarnWherePatternIsNowhere>();
  if (goesOn && getOperation()->getParentOp() == goesOn->getEntry()) {
    InFlightDiagnostic warning = mlir::emitWarning(getLoc()) << what;
    explainNearest(warning, graphs, *matcher);
    return DiagnosedSilenceableFailure::success();
  }
  DiagnosedSilenceableFailure failure =
      mlir::emitSilenceableFailure(getLoc(), what);
  explainNearest(failure, graphs, *matcher);
  return failure;
}

//===----------------------------------------------------------------------===//
// RegionStrategyOp
//===----------------------------------------------------------------------===//

/// What the nodes of a class may run at, but for float32.
static constexpr llvm::StringLiteral kLevels[] = {
    "float16", "bfloat16", "float16_float32", "float16x2", "float16x3"};

DictionaryAttr transform::RegionStrategyOp::getStrategies() {
  NamedAttrList strategies;
  for (StringAttr name :
       {getPrologueAttrName(), getFreezeAttrName(), getPrecisionAttrName(),
        getRegionsAttrName(), getTf32AttrName(), getAutotuneAttrName(),
        getCudaGraphAttrName(), getRecurrentAttrName(), getTrainingAttrName()})
    if (Attribute value = getOperation()->getAttr(name))
      strategies.set(name, value);
  return strategies.getDictionary(getContext());
}

LogicalResult transform::RegionStrategyOp::verify() {
  if (getStrategies().empty())
    return emitOpError()
           << "names no strategy: give prologue, freeze, precision, regions, "
              "tf32, autotune, cuda_graph, recurrent or training";
  if (std::optional<StringRef> precision = getPrecision())
    if (*precision != "float16" && *precision != "bfloat16")
      return emitOpError() << "has precision \"" << *precision
                           << "\"; \"float16\" and \"bfloat16\" are known";
  if (getPrecision() && getRegionsAttr())
    return emitOpError() << "has a precision for everything and regions; give "
                            "one of them";
  DictionaryAttr regions = getRegionsAttr();
  if (!regions)
    return success();
  for (NamedAttribute region : regions) {
    auto level = dyn_cast<StringAttr>(region.getValue());
    if (!level || !llvm::is_contained(kLevels, level.getValue()))
      return emitOpError() << "has class \"" << region.getName().getValue()
                           << "\" at level " << region.getValue() << "; "
                           << llvm::join(ArrayRef(kLevels), ", ")
                           << " are known";
  }
  return success();
}

void transform::RegionStrategyOp::getEffects(
    SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  onlyReadsHandle(getTargetMutable(), effects);
  modifiesPayload(effects);
}

DiagnosedSilenceableFailure
transform::RegionStrategyOp::apply(TransformRewriter &rewriter,
                                   TransformResults &results,
                                   TransformState &state) {
  for (Operation *payload : state.getPayloadOps(getTarget()))
    payload->walk([&](GraphOp graph) {
      if (!graph.isPublic())
        return;
      NamedAttrList merged(
          graph->getAttrOfType<DictionaryAttr>(kStrategiesAttr));
      for (NamedAttribute strategy : getStrategies())
        merged.set(strategy.getName(), strategy.getValue());
      rewriter.modifyOpInPlace(graph, [&] {
        graph->setDiscardableAttr(kStrategiesAttr,
                                  merged.getDictionary(getContext()));
      });
    });
  return DiagnosedSilenceableFailure::success();
}

//===----------------------------------------------------------------------===//
// Registration
//===----------------------------------------------------------------------===//

namespace {
class FXTransformExtension
    : public transform::TransformDialectExtension<FXTransformExtension> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(FXTransformExtension)
  FXTransformExtension() {
    declareGeneratedDialect<FXDialect>();
    registerTransformOps<
#define GET_OP_LIST
#include "opprof/Dialect/FX/TransformOps/FXTransformOps.cpp.inc"
        >();
  }
};
} // namespace

void opprof::fx::registerTransformExtension(DialectRegistry &registry) {
  registry.insert<FXDialect>();
  registry.addExtensions<FXTransformExtension>();
}
