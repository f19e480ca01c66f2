// The script that makes one GEMM of several that share an input: the weights
// side by side, computed once in a prologue, and slices of the one result.

#include "GemmScript.h"

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

/// Adds `parts` one after the other in dimension `dim`.
static Value concatenate(GemmScript &script, StringRef name,
                         ArrayRef<Value> parts, unsigned dim) {
  OpBuilder &builder = script.getBuilder();
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

/// One GEMM a weight, and what is one of them once more.
static GraphOp makePattern(const GemmGroup &group, GemmScript &script) {
  SmallVector<Type> results;
  for (const Gemm &gemm : group.gemms)
    results.push_back(gemm.getResultType());
  for (const auto &[place, gemm] : group.repeats)
    results.push_back(gemm.getResultType());
  GraphOp graph = script.beginGemms("pattern", results);
  ArrayRef<Value> biases = script.getBiases();
  SmallVector<Value> products;
  for (auto [i, type] : llvm::enumerate(results)) {
    unsigned number = group.gemms.size();
    unsigned of = i < number ? i : group.repeats[i - number].first;
    products.push_back(
        script.addGemm("product_" + Twine(i), script.getWeights()[of],
                       biases.empty() ? Value() : biases[of], type));
  }
  script.finishGraph(products);
  return graph;
}

/// The weights side by side, one GEMM, its slices.
static GraphOp makeReplacement(const GemmGroup &group, GemmScript &script) {
  OpBuilder &builder = script.getBuilder();
  int64_t total = 0;
  for (const Gemm &gemm : group.gemms)
    total += gemm.getWidth();
  auto resultType = cast<RankedTensorType>(group.gemms[0].getResultType());
  RankedTensorType mergedType =
      getResizedType(resultType, resultType.getRank() - 1, total);
  SmallVector<Type> types;
  SmallVector<Attribute> widths;
  int64_t offset = 0;
  for (const Gemm &gemm : group.gemms) {
    types.push_back(getSliceType(cast<RankedTensorType>(gemm.getResultType()),
                                 mergedType, offset));
    widths.push_back(builder.getI64IntegerAttr(gemm.getWidth()));
    offset += gemm.getWidth();
  }
  SmallVector<Type> all(types);
  for (const auto &[place, gemm] : group.repeats)
    all.push_back(types[place]);
  GraphOp graph = script.beginGemms("replacement", all);
  Value weight = concatenate(script, "weight", script.getWeights(),
                             group.gemms[0].widthDim);
  Value bias;
  if (!script.getBiases().empty())
    bias = concatenate(script, "bias", script.getBiases(), 0);
  Value product = script.addGemm("product", weight, bias, mergedType);
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
  for (const auto &[place, gemm] : group.repeats)
    results.push_back(results[place]);
  script.finishGraph(results);
  return graph;
}

OwningOpRef<ModuleOp> opprof::rewrite::mergeGemms(const GemmGroup &group) {
  GemmScript script(group);
  MLIRContext *context = script.getBuilder().getContext();
  GraphOp pattern = makePattern(group, script);
  GraphOp replacement = makeReplacement(group, script);
  script.addReplacement(pattern, replacement);
  // The weights do not change from call to call: side by side once.
  script.addStrategies(
      {{StringAttr::get(context, "prologue"), UnitAttr::get(context)}});
  return script.finish();
}
