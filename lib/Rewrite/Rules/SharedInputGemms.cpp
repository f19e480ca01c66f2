// The rule "GEMMs that share an input become one". Reading the input once and
// filling the device with one larger product beats several small ones; the
// merged weights are computed once, in a prologue.

#include "opprof/Analysis/Structure/PatternConditions.h"
#include "opprof/Analysis/Structure/StorageEffects.h"
#include "opprof/Dialect/FX/IR/Arguments.h"
#include "opprof/Dialect/FX/IR/FX.h"
#include "opprof/Dialect/FX/IR/Provenance.h"
#include "opprof/Dialect/Prof/IR/Prof.h"
#include "opprof/Rewrite/Recommend.h"
#include "opprof/Rewrite/ScriptOffers.h"
#include "opprof/Target/TransformScript/ScriptBuilder.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace opprof;
using namespace opprof::fx;
using namespace opprof::rewrite;

namespace {

/// A matrix product of an input by a weight, with or without a bias.
struct Gemm {
  NodeOp node;
  Value input, weight, bias, result;
  /// The dimension of the weight that holds the result's last dimension.
  unsigned widthDim;
  /// Why it can't be merged with others, or empty.
  StringRef obstacle;

  RankedTensorType getWeightType() const {
    return cast<RankedTensorType>(weight.getType());
  }
  Type getResultType() const { return result.getType(); }
  int64_t getWidth() const { return getWeightType().getDimSize(widthDim); }
};

/// GEMMs of one input that may become one.
struct Group {
  SmallVector<Gemm> gemms;
};

} // namespace

/// True for an argument that is absent or 1, as addmm's factors have to be.
static bool isOne(Attribute factor) {
  if (!factor)
    return true;
  if (auto integer = dyn_cast<IntegerAttr>(factor))
    return integer.getInt() == 1;
  auto number = dyn_cast<FloatAttr>(factor);
  return number && number.getValueAsDouble() == 1.0;
}

static bool isStaticTensor(Value value, unsigned minRank, unsigned maxRank) {
  auto type = value ? dyn_cast<RankedTensorType>(value.getType()) : nullptr;
  return type && type.hasStaticShape() && type.getRank() >= minRank &&
         type.getRank() <= maxRank;
}

/// `node` as a GEMM that this rule knows how to merge.
static std::optional<Gemm> matchGemm(NodeOp node) {
  Gemm gemm;
  gemm.node = node;
  gemm.result = node.getResult();
  StringRef target = node.getTarget();
  if (target == "aten.linear.default") {
    gemm.input = node.getArgumentValue("input");
    gemm.weight = node.getArgumentValue("weight");
    gemm.bias = node.getArgumentValue("bias");
    gemm.widthDim = 0;
  } else if (target == "aten.mm.default" || target == "aten.matmul.default") {
    gemm.input = node.getArgumentValue("self");
    gemm.weight =
        node.getArgumentValue(target == "aten.mm.default" ? "mat2" : "other");
    gemm.widthDim = 1;
  } else if (target == "aten.addmm.default") {
    gemm.input = node.getArgumentValue("mat1");
    gemm.weight = node.getArgumentValue("mat2");
    gemm.bias = node.getArgumentValue("self");
    gemm.widthDim = 1;
    if (!gemm.bias || !isOne(node.getArgument("alpha")) ||
        !isOne(node.getArgument("beta")))
      return std::nullopt;
  } else {
    return std::nullopt;
  }
  if (!isStaticTensor(gemm.input, 1, 16) ||
      !isStaticTensor(gemm.weight, 2, 2) ||
      !isStaticTensor(node.getResult(), 1, 16) ||
      (gemm.bias && !isStaticTensor(gemm.bias, 1, 1)))
    return std::nullopt;
  if (node->use_empty())
    return std::nullopt;
  // It would be copied in every call.
  if (!isa<BlockArgument>(gemm.weight) ||
      (gemm.bias && !isa<BlockArgument>(gemm.bias)))
    gemm.obstacle = "its weight is computed in every call";
  else if (isReturned(node.getResult()))
    gemm.obstacle = "the graph returns its result, or a view of it";
  return gemm;
}

/// Says of a GEMM that is alone in its group why the others of its input are
/// in another one.
template <typename Groups>
static void declineUnlike(const Groups &groups, const Gemm &gemm, GraphOp graph,
                          Offers &offers) {
  for (auto &[key, group] : groups) {
    const Gemm &other = group.gemms[0];
    if (other.input != gemm.input || other.node == gemm.node)
      continue;
    bool isOfOneOperator =
        NodeOp(other.node).getTargetAttr() == NodeOp(gemm.node).getTargetAttr();
    StringRef reason =
        !isOfOneOperator ? "another product of its input calls another operator"
        : !other.bias != !gemm.bias
            ? "of it and another product of its input one has a bias"
            : "the weight of another product of its input has another type";
    offers.decline(kSharedInputGemms.name, reason, graph, gemm.node);
    return;
  }
}

/// The groups of `graph`, in the order of their first GEMM.
static SmallVector<Group> findGroups(GraphOp graph, Offers &offers) {
  using Key = std::tuple<Value, StringAttr, unsigned, Type>;
  llvm::MapVector<Key, Group> groups;
  for (NodeOp node : graph.getBlock().getOps<NodeOp>()) {
    std::optional<Gemm> gemm = matchGemm(node);
    if (!gemm)
      continue;
    Group &group =
        groups[{gemm->input, node.getTargetAttr(), gemm->bias ? 1u : 0u,
                gemm->getWeightType().getElementType()}];
    // The same weight twice is for common subexpressions, not for this rule;
    // and torch.fx's matcher takes different inputs for different values.
    bool isRepeated = llvm::any_of(group.gemms, [&](const Gemm &g) {
      return g.weight == gemm->weight || (g.bias && g.bias == gemm->bias);
    });
    if (!isRepeated)
      group.gemms.push_back(*gemm);
  }
  for (auto &[key, group] : groups)
    if (group.gemms.size() < 2)
      declineUnlike(groups, group.gemms[0], graph, offers);
  StorageEffects effects(graph);
  SmallVector<Group> result;
  for (auto &[key, group] : groups) {
    if (group.gemms.size() < 2)
      continue;
    llvm::erase_if(group.gemms, [&](const Gemm &gemm) {
      if (!gemm.obstacle.empty())
        offers.decline(kSharedInputGemms.name, gemm.obstacle, graph, gemm.node);
      return !gemm.obstacle.empty();
    });
    if (group.gemms.size() < 2)
      continue;
    SmallVector<Value> read;
    for (const Gemm &gemm : group.gemms)
      llvm::append_range(read, gemm.node->getOperands());
    if (Operation *write = effects.findWriteBetween(
            group.gemms.front().node, group.gemms.back().node, read))
      offers.decline(kSharedInputGemms.name,
                     "what the products read may be written between them",
                     graph, write);
    else
      result.push_back(std::move(group));
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Prediction
//===----------------------------------------------------------------------===//

/// Time of a GEMM of these sizes. On a GPU its tiles run in waves, the last of
/// which may leave most processors idle: the reason why small ones are slow.
static double predictGemmNs(double rows, double width, double depth,
                            double elementBytes, const DeviceCeilings &device,
                            double rate) {
  double flops = 2 * rows * width * depth;
  double bytes = elementBytes * (rows * depth + width * depth + rows * width);
  if (device.isGPU) {
    double tiles = std::ceil(rows / 128) * std::ceil(width / 128);
    double waves = std::ceil(tiles / device.multiprocessors);
    rate *= tiles / (waves * device.multiprocessors);
  }
  return getRooflineNs(flops, bytes, rate, device.memory.rate) +
         device.launchNs;
}

static double predictSavings(const Group &group, const Evidence &evidence) {
  auto inputType = cast<RankedTensorType>(group.gemms[0].input.getType());
  double depth = inputType.getShape().back();
  double rows = depth ? inputType.getNumElements() / depth : 0;
  auto bytes = getElementBytes(inputType.getElementType());
  double elementBytes = bytes ? *bytes : 4;
  double rate = elementBytes < 4 && evidence.device.fp16.rate
                    ? evidence.device.fp16.rate
                    : evidence.device.fp32.rate;
  double apart = 0, width = 0, measured = 0;
  bool isMeasured = true;
  for (const Gemm &gemm : group.gemms) {
    apart += predictGemmNs(rows, gemm.getWidth(), depth, elementBytes,
                           evidence.device, rate);
    width += gemm.getWidth();
    std::optional<double> time = prof::getTime(gemm.node);
    isMeasured &= time.has_value();
    measured += time.value_or(0);
  }
  double merged =
      predictGemmNs(rows, width, depth, elementBytes, evidence.device, rate);
  // The model gives the ratio; a measured time gives the scale.
  return isMeasured ? measured * (1 - merged / apart) : apart - merged;
}

//===----------------------------------------------------------------------===//
// The script
//===----------------------------------------------------------------------===//

/// The type of the part of `merged` that stands at `offset` in its last
/// dimension, with the shape of `part`.
static Type getSliceType(RankedTensorType part, RankedTensorType merged,
                         int64_t offset) {
  Builder builder(part.getContext());
  auto info = dyn_cast_or_null<TensorInfoAttr>(part.getEncoding());
  SmallVector<int64_t> strides(merged.getRank(), 1);
  for (int64_t i = merged.getRank() - 2; i >= 0; --i)
    strides[i] = strides[i + 1] * merged.getDimSize(i + 1);
  SmallVector<Attribute> dims;
  for (int64_t size : part.getShape())
    dims.push_back(builder.getI64IntegerAttr(size));
  return RankedTensorType::get(
      part.getShape(), part.getElementType(),
      TensorInfoAttr::getCanonical(
          part.getContext(), info ? info.getDevice() : "cpu", dims,
          builder.getI64ArrayAttr(strides), builder.getI64IntegerAttr(offset)));
}

/// A contiguous tensor like `type` but for its size `size` in dimension `dim`.
static RankedTensorType getResizedType(RankedTensorType type, unsigned dim,
                                       int64_t size) {
  auto info = dyn_cast_or_null<TensorInfoAttr>(type.getEncoding());
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = size;
  return RankedTensorType::get(
      shape, type.getElementType(),
      TensorInfoAttr::get(type.getContext(), info ? info.getDevice() : "cpu",
                          {}, false, {}, {}, false, {}, {}));
}

namespace {

/// Builds the pattern and the replacement of a group into its script.
class GraphMaker {
public:
  GraphMaker(const Group &group, ScriptBuilder &script);

  /// One GEMM a weight.
  GraphOp makePattern();
  /// The weights side by side, one GEMM, its slices.
  GraphOp makeReplacement();

private:
  GraphOp beginGraph(StringRef name, TypeRange results);
  Value makeGemm(const Twine &name, Value weight, Value bias, Type type);
  Value concatenate(StringRef name, ArrayRef<Value> parts, unsigned dim);
  SmallVector<Value> getWeights(GraphOp graph) const;
  SmallVector<Value> getBiases(GraphOp graph) const;

  const Group &group;
  ScriptBuilder &script;
  OpBuilder &builder;
  Gemm first;
  NodeOp firstNode;
  RankedTensorType mergedType;
  /// Of the graph that is being made.
  Value input;
};

} // namespace

GraphMaker::GraphMaker(const Group &group, ScriptBuilder &script)
    : group(group), script(script), builder(script.getBuilder()),
      first(group.gemms[0]), firstNode(first.node) {
  int64_t total = 0;
  for (const Gemm &gemm : group.gemms)
    total += gemm.getWidth();
  auto resultType = cast<RankedTensorType>(first.getResultType());
  mergedType = getResizedType(resultType, resultType.getRank() - 1, total);
}

/// Arguments: the input, then each weight with its bias.
GraphOp GraphMaker::beginGraph(StringRef name, TypeRange results) {
  SmallVector<std::string> names{"x"};
  SmallVector<Type> types{first.input.getType()};
  for (auto [i, gemm] : llvm::enumerate(group.gemms)) {
    names.push_back(("weight_" + Twine(i)).str());
    types.push_back(gemm.weight.getType());
    if (gemm.bias) {
      names.push_back(("bias_" + Twine(i)).str());
      types.push_back(gemm.bias.getType());
    }
  }
  GraphOp graph = script.beginGraph(name, names, types, results);
  input = graph.getArgument(0);
  return graph;
}

SmallVector<Value> GraphMaker::getWeights(GraphOp graph) const {
  SmallVector<Value> weights;
  for (unsigned i = 0; i < group.gemms.size(); ++i)
    weights.push_back(graph.getArgument(1 + (first.bias ? 2 : 1) * i));
  return weights;
}

SmallVector<Value> GraphMaker::getBiases(GraphOp graph) const {
  SmallVector<Value> biases;
  for (unsigned i = 0; first.bias && i < group.gemms.size(); ++i)
    biases.push_back(graph.getArgument(2 + 2 * i));
  return biases;
}

/// A call of the group's operator.
Value GraphMaker::makeGemm(const Twine &name, Value weight, Value bias,
                           Type type) {
  SmallVector<Value> operands{input, weight};
  if (bias)
    // linear takes its bias last, addmm first.
    operands.insert(firstNode.getTarget() == "aten.linear.default"
                        ? operands.end()
                        : operands.begin(),
                    bias);
  return script.addNode(name, firstNode.getTarget(), operands, type);
}

Value GraphMaker::concatenate(StringRef name, ArrayRef<Value> parts,
                              unsigned dim) {
  int64_t size = 0;
  for (Value part : parts)
    size += cast<RankedTensorType>(part.getType()).getDimSize(dim);
  SmallVector<Attribute> values(parts.size(),
                                ValueAttr::get(builder.getContext()));
  return script.addNode(
      name, "aten.cat.default", parts,
      getResizedType(cast<RankedTensorType>(parts[0].getType()), dim, size),
      {builder.getArrayAttr(values), builder.getI64IntegerAttr(dim)});
}

GraphOp GraphMaker::makePattern() {
  SmallVector<Type> results;
  for (const Gemm &gemm : group.gemms)
    results.push_back(gemm.getResultType());
  GraphOp graph = beginGraph("pattern", results);
  SmallVector<Value> weights = getWeights(graph), biases = getBiases(graph);
  SmallVector<Value> products;
  for (auto [i, type] : llvm::enumerate(results))
    products.push_back(makeGemm("product_" + Twine(i), weights[i],
                                biases.empty() ? Value() : biases[i], type));
  script.finishGraph(products);
  return graph;
}

GraphOp GraphMaker::makeReplacement() {
  SmallVector<Type> types;
  SmallVector<Attribute> widths;
  int64_t offset = 0;
  for (const Gemm &gemm : group.gemms) {
    types.push_back(getSliceType(cast<RankedTensorType>(gemm.getResultType()),
                                 mergedType, offset));
    widths.push_back(builder.getI64IntegerAttr(gemm.getWidth()));
    offset += gemm.getWidth();
  }
  GraphOp graph = beginGraph("replacement", types);
  Value weight = concatenate("weight", getWeights(graph), first.widthDim);
  Value bias = first.bias ? concatenate("bias", getBiases(graph), 0) : Value();
  Value product = makeGemm("product", weight, bias, mergedType);
  Attribute value = ValueAttr::get(builder.getContext());
  Value slices = script.addNode(
      "slices", "aten.split_with_sizes.default", product,
      ListType::get(builder.getContext(), builder.getTupleType(types)),
      {value, builder.getArrayAttr(widths), builder.getI64IntegerAttr(-1)});
  SmallVector<Value> results;
  for (auto [i, type] : llvm::enumerate(types))
    results.push_back(script.addNode("slice_" + Twine(i), "operator.getitem",
                                     slices, type,
                                     {value, builder.getI64IntegerAttr(i)}));
  script.finishGraph(results);
  return graph;
}

static OwningOpRef<ModuleOp> makeScript(const Group &group) {
  NodeOp node = group.gemms[0].node;
  ScriptBuilder script(node.getContext());
  GraphMaker maker(group, script);
  GraphOp pattern = maker.makePattern();
  GraphOp replacement = maker.makeReplacement();
  script.addReplacement(pattern, replacement);
  // The weights do not change from call to call: side by side once.
  script.addStrategies({{StringAttr::get(node.getContext(), "prologue"),
                         UnitAttr::get(node.getContext())}});
  return script.finish();
}

/// What decides about the script: two groups of one form are two places of one
/// rewrite.
static SmallVector<Attribute> getForm(const Group &group) {
  NodeOp node = group.gemms[0].node;
  SmallVector<Attribute> form{node.getTargetAttr(),
                              TypeAttr::get(group.gemms[0].input.getType())};
  for (const Gemm &gemm : group.gemms) {
    for (Value value : {gemm.weight, gemm.bias, gemm.result})
      form.push_back(value ? TypeAttr::get(value.getType()) : TypeAttr());
  }
  return form;
}

namespace {
/// What is offered for groups of one form.
struct Offered {
  SmallVector<Attribute> form;
  Recommendation current;
  SmallVector<SmallVector<NodeOp>> places;
  SmallVector<double> savings;
};
} // namespace

/// Leaves the places where the script can be applied.
static void keepApplicable(ArrayRef<GraphOp> graphs, Offered &offered,
                           Offers &offers) {
  Recommendation &current = offered.current;
  SmallVector<bool> applicable = findApplicable(
      graphs, kSharedInputGemms, *current.script, offered.places, offers);
  for (auto [place, saves, isApplicable] :
       llvm::zip(offered.places, offered.savings, applicable)) {
    if (!isApplicable)
      continue;
    current.savesNs += saves;
    std::vector<NodeId> &nodes = current.places.emplace_back();
    for (NodeOp node : place)
      nodes.push_back(getNodeId(node->getParentOfType<GraphOp>(), node));
  }
}

static void recommendSharedInputGemms(ArrayRef<GraphOp> graphs,
                                      const Evidence &evidence,
                                      Offers &offers) {
  std::vector<Offered> found;
  for (GraphOp graph : graphs)
    for (const Group &group : findGroups(graph, offers)) {
      SmallVector<Attribute> form = getForm(group);
      auto same = llvm::find_if(
          found, [&](const Offered &other) { return other.form == form; });
      if (same == found.end()) {
        same = found.emplace(found.end());
        same->form = std::move(form);
        same->current.script = makeScript(group);
      }
      SmallVector<NodeOp> &nodes = same->places.emplace_back();
      for (const Gemm &gemm : group.gemms)
        nodes.push_back(gemm.node);
      same->savings.push_back(predictSavings(group, evidence));
    }
  for (Offered &offered : found) {
    keepApplicable(graphs, offered, offers);
    Recommendation &current = offered.current;
    if (current.places.empty())
      continue;
    size_t count = current.places[0].size();
    current.name = kSharedInputGemms.name;
    current.finding = kSharedInputGemms.finding;
    current.title =
        (Twine(count) + " GEMMs of one input become one" +
         (current.places.size() > 1
              ? ", at " + std::to_string(current.places.size()) + " places"
              : std::string()))
            .str();
    current.explanation =
        "Every product reads the same input, and each is too small to fill the "
        "device. With the weights side by side, one product reads the input "
        "once; each result is a slice of it. Every element is the same sum of "
        "the same products as before, so results agree up to the order in "
        "which the library adds.";
    current.error = 1e-6;
    offers.recommendations.push_back(std::move(current));
  }
}

const Rule rewrite::kSharedInputGemms = {
    "merge-gemms", "gemms-sharing-an-input",
    "linear, mm, matmul or addmm with one input and different 2-D weights that "
    "are inputs of the graph, all with or all without a 1-D bias; none is "
    "returned, and nothing they read is written between them",
    "times × (1 − roofline of one product of all widths, in waves of tiles / "
    "the sum of theirs)",
    recommendSharedInputGemms};
