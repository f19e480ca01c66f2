// The script that makes one GEMM of several that share an input: the weights
// side by side, computed once in a prologue, and slices of the one result.

#include "GemmGroups.h"

#include "opprof/Target/TransformScript/ScriptBuilder.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace opprof;
using namespace opprof::fx;
using namespace opprof::rewrite;

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
  GraphMaker(const GemmGroup &group, ScriptBuilder &script);

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

  const GemmGroup &group;
  ScriptBuilder &script;
  OpBuilder &builder;
  Gemm first;
  NodeOp firstNode;
  RankedTensorType mergedType;
  /// Of the graph that is being made.
  Value input;
};

} // namespace

GraphMaker::GraphMaker(const GemmGroup &group, ScriptBuilder &script)
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

OwningOpRef<ModuleOp> opprof::rewrite::mergeGemms(const GemmGroup &group) {
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
