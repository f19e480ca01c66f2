// The rule "GEMMs that share an input become one". Reading the input once and
// filling the device with one larger product beats several small ones; the
// merged weights are computed once, in a prologue.

#include "opprof/Dialect/FX/IR/Arguments.h"
#include "opprof/Dialect/FX/IR/FX.h"
#include "opprof/Dialect/FX/IR/Provenance.h"
#include "opprof/Rewrite/Recommend.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

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
  } else if (target == "aten.mm.default") {
    gemm.input = node.getArgumentValue("self");
    gemm.weight = node.getArgumentValue("mat2");
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
  // A weight that is computed in every call would be copied in every call.
  if (!isa<BlockArgument>(gemm.weight) ||
      (gemm.bias && !isa<BlockArgument>(gemm.bias)))
    return std::nullopt;
  if (llvm::any_of(node->getUsers(), llvm::IsaPred<OutputOp>) ||
      node->use_empty())
    return std::nullopt;
  return gemm;
}

/// True where some node from `first` to `last` may write a tensor.
static bool isWrittenBetween(Operation *first, Operation *last) {
  for (Operation *op = first; op != last; op = op->getNextNode())
    if (auto node = dyn_cast<NodeOp>(op); node && node.mayWrite())
      return true;
  return false;
}

/// The groups of `graph`, in the order of their first GEMM.
static SmallVector<Group> findGroups(GraphOp graph) {
  using Key = std::tuple<Value, StringAttr, unsigned, Type>;
  llvm::MapVector<Key, Group> groups;
  for (Operation &op : graph.getBlock()) {
    auto node = dyn_cast<NodeOp>(op);
    if (!node)
      continue;
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
  SmallVector<Group> result;
  for (auto &[key, group] : groups)
    if (group.gemms.size() >= 2 &&
        !isWrittenBetween(group.gemms.front().node, group.gemms.back().node))
      result.push_back(std::move(group));
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
    auto found = evidence.nodeNs.find(getNodeName(gemm.node));
    isMeasured &= found != evidence.nodeNs.end();
    measured += isMeasured ? found->second : 0;
  }
  double merged =
      predictGemmNs(rows, width, depth, elementBytes, evidence.device, rate);
  // The model gives the ratio; a measured time gives the scale.
  return isMeasured ? measured * (1 - merged / apart) : apart - merged;
}

//===----------------------------------------------------------------------===//
// The script
//===----------------------------------------------------------------------===//

namespace {

/// Names for the types of a script, so that its text stays readable.
class TypeNames {
public:
  std::string get(Type type) {
    auto [it, isNew] = names.try_emplace(type, names.size());
    return ("!t" + Twine(it->second)).str();
  }
  std::string getDefinitions() const {
    std::string text;
    llvm::raw_string_ostream os(text);
    for (auto &[type, index] : names)
      os << "!t" << index << " = " << type << "\n";
    return text;
  }

private:
  llvm::MapVector<Type, unsigned> names;
};

} // namespace

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

/// Writes pattern and replacement of `group`.
static void writeGraphs(const Group &group, Recommendation &result) {
  const Gemm &first = group.gemms[0];
  NodeOp firstNode = first.node;
  StringRef target = firstNode.getTarget();
  bool hasBias = bool(first.bias), isLinear = target == "aten.linear.default";
  TypeNames types;
  std::string text;
  llvm::raw_string_ostream os(text);

  int64_t total = 0;
  for (const Gemm &gemm : group.gemms)
    total += gemm.getWidth();
  auto resultType = cast<RankedTensorType>(first.getResultType());
  RankedTensorType mergedType =
      getResizedType(resultType, resultType.getRank() - 1, total);

  std::string inputs;
  llvm::raw_string_ostream inputStream(inputs);
  auto addInput = [&](const Twine &name, Type type) {
    if (!inputs.empty())
      inputStream << ", ";
    inputStream << "%" << name << ": " << types.get(type) << " {fx.name = \""
                << name << "\"}";
  };
  addInput("x", first.input.getType());
  for (auto [i, gemm] : llvm::enumerate(group.gemms)) {
    addInput("weight_" + Twine(i), gemm.weight.getType());
    if (hasBias)
      addInput("bias_" + Twine(i), gemm.bias.getType());
  }
  /// `(a, b, …)` of a GEMM of the given values.
  auto writeCall = [&](const Twine &result, const Twine &weight,
                       Type weightType, const Twine &bias, Type biasType,
                       Type type) {
    os << "    %" << result << " = fx.node \"" << target << "\"(";
    std::string x = types.get(first.input.getType());
    std::string w = types.get(weightType);
    std::string b = hasBias ? types.get(biasType) : "";
    if (isLinear) {
      os << "%x, %" << weight;
      if (hasBias)
        os << ", %" << bias;
      os << ") : (" << x << ", " << w << (hasBias ? ", " + b : "");
    } else if (hasBias) {
      os << "%" << bias << ", %x, %" << weight << ") : (" << b << ", " << x
         << ", " << w;
    } else {
      os << "%x, %" << weight << ") : (" << x << ", " << w;
    }
    os << ") -> " << types.get(type) << "\n";
  };
  auto writeOutput = [&](StringRef prefix, ArrayRef<std::string> resultTypes) {
    os << "    fx.output(";
    for (unsigned i = 0; i < resultTypes.size(); ++i)
      os << (i ? ", " : "") << "%" << prefix << "_" << i;
    os << ") : (" << llvm::join(resultTypes, ", ") << ")\n  }\n";
  };

  // The pattern: one GEMM a weight.
  SmallVector<std::string> resultTypes;
  for (const Gemm &gemm : group.gemms)
    resultTypes.push_back(types.get(gemm.getResultType()));
  os << "  // What is there: " << group.gemms.size()
     << " products of one input.\n  fx.graph private @pattern(" << inputs
     << ") -> (" << llvm::join(resultTypes, ", ") << ") {\n";
  for (auto [i, gemm] : llvm::enumerate(group.gemms))
    writeCall("product_" + Twine(i), "weight_" + Twine(i),
              gemm.weight.getType(), "bias_" + Twine(i),
              hasBias ? gemm.bias.getType() : Type(), gemm.getResultType());
  writeOutput("product", resultTypes);

  // The replacement: the weights side by side, one GEMM, its slices.
  SmallVector<Type> sliceTypes;
  SmallVector<std::string> sliceNames;
  int64_t offset = 0;
  for (const Gemm &gemm : group.gemms) {
    sliceTypes.push_back(getSliceType(
        cast<RankedTensorType>(gemm.getResultType()), mergedType, offset));
    sliceNames.push_back(types.get(sliceTypes.back()));
    offset += gemm.getWidth();
  }
  os << "\n  // What takes its place: the weights side by side, one product, "
        "and "
        "its slices.\n  fx.graph private @replacement("
     << inputs << ") -> (" << llvm::join(sliceNames, ", ") << ") {\n";
  auto writeCat = [&](StringRef name, StringRef part, unsigned dim, Type type,
                      auto getPartType) {
    os << "    %" << name << " = fx.node \"aten.cat.default\"([";
    for (unsigned i = 0; i < group.gemms.size(); ++i)
      os << (i ? ", " : "") << "%" << part << "_" << i;
    os << "], " << dim << ") : (";
    for (auto [i, gemm] : llvm::enumerate(group.gemms))
      os << (i ? ", " : "") << types.get(getPartType(gemm));
    os << ") -> " << types.get(type) << "\n";
  };
  RankedTensorType weightType =
      getResizedType(first.getWeightType(), first.widthDim, total);
  writeCat("weight", "weight", first.widthDim, weightType,
           [](const Gemm &gemm) { return gemm.weight.getType(); });
  RankedTensorType biasType;
  if (hasBias) {
    biasType =
        getResizedType(cast<RankedTensorType>(first.bias.getType()), 0, total);
    writeCat("bias", "bias", 0, biasType,
             [](const Gemm &gemm) { return gemm.bias.getType(); });
  }
  writeCall("product", "weight", weightType, "bias", biasType, mergedType);
  std::string listType;
  {
    llvm::raw_string_ostream stream(listType);
    stream << "!fx.list<tuple<" << llvm::join(sliceNames, ", ") << ">>";
  }
  os << "    %slices = fx.node \"aten.split_with_sizes.default\"(%product, [";
  llvm::interleaveComma(group.gemms, os,
                        [&](const Gemm &gemm) { os << gemm.getWidth(); });
  os << "], -1) : (" << types.get(mergedType) << ") -> " << listType << "\n";
  for (unsigned i = 0; i < group.gemms.size(); ++i)
    os << "    %slice_" << i << " = fx.node \"operator.getitem\"(%slices, " << i
       << ") : (" << listType << ") -> " << sliceNames[i] << "\n";
  writeOutput("slice", sliceNames);

  result.types = types.getDefinitions();
  result.graphs = std::move(text);
  result.sequence =
      "    transform.fx.replace_subgraph %root, @pattern -> @replacement : "
      "!transform.any_op\n"
      "    // The weights do not change from call to call, so they are put "
      "side "
      "by side once.\n"
      "    transform.fx.region_strategy %root {prologue} : !transform.any_op\n";
}

void opprof::rewrite::recommendSharedInputGemms(
    GraphOp graph, const Evidence &evidence,
    std::vector<Recommendation> &results) {
  // Groups of the same text are one recommendation with several places.
  std::vector<Recommendation> found;
  for (const Group &group : findGroups(graph)) {
    Recommendation current;
    writeGraphs(group, current);
    auto same = llvm::find_if(found, [&](const Recommendation &other) {
      return other.graphs == current.graphs && other.types == current.types;
    });
    if (same == found.end())
      same = found.insert(found.end(), std::move(current));
    std::vector<std::string> names;
    for (const Gemm &gemm : group.gemms)
      names.push_back(getNodeName(gemm.node).str());
    same->savesNs += predictSavings(group, evidence);
    same->places.push_back(std::move(names));
  }
  for (Recommendation &current : found) {
    size_t count = current.places[0].size();
    current.name = "merge-gemms";
    current.finding = "gemms-sharing-an-input";
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
    results.push_back(std::move(current));
  }
}
