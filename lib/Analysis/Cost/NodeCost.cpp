// The cost model's answer for a node of the fx dialect.

#include "opprof/Analysis/Cost/NodeCost.h"

#include "opprof/Dialect/FX/IR/Arguments.h"
#include "opprof/Dialect/FX/IR/FX.h"
#include "opprof/Dialect/FX/IR/Schema.h"

using namespace mlir;
using namespace opprof;
using namespace opprof::fx;

TensorShape opprof::getTensorShape(Type type) {
  TensorShape shape;
  if (auto ranked = dyn_cast<RankedTensorType>(type)) {
    shape.elementBytes = getElementBytes(ranked.getElementType()).value_or(0);
    for (int64_t size : ranked.getShape())
      shape.sizes.push_back(ShapedType::isDynamic(size) ? -1 : size);
  }
  return shape;
}

static bool getFlag(NodeOp node, StringRef argument) {
  auto flag = dyn_cast_or_null<BoolAttr>(node.getArgument(argument));
  return flag && flag.getValue();
}

OperatorCost opprof::getNodeCost(NodeOp node) {
  SmallVector<TensorShape> inputs, outputs;
  for (Value operand : node.getOperands())
    inputs.push_back(getTensorShape(operand.getType()));
  // Results that were not asked for are none.
  auto addResult = [&](Type type) {
    if (!isa<fx::NoneType>(type))
      outputs.push_back(getTensorShape(type));
  };
  if (auto tuple = dyn_cast<TupleType>(node.getType()))
    llvm::for_each(tuple.getTypes(), addResult);
  else
    addResult(node.getType());
  OperatorCall call{node.getTarget(), inputs, outputs};
  if (auto groups = dyn_cast_or_null<IntegerAttr>(node.getArgument("groups")))
    call.groups = groups.getInt();
  call.isTransposed = getFlag(node, "transposed");
  call.isCausal = getFlag(node, "is_causal");
  // With a path the operands of einsum are not taken in turn.
  auto path = node.getArgument("path");
  if (auto equation =
          dyn_cast_or_null<StringAttr>(node.getArgument("equation"));
      equation && (inputs.size() == 2 || !path || isa<fx::NoneAttr>(path)))
    call.equation = equation.getValue();
  // Which of the gradients of input and weight are asked for.
  if (auto mask =
          dyn_cast_or_null<ArrayAttr>(node.getArgument("output_mask"))) {
    call.gradients = 0;
    for (Attribute asked : mask.getValue().take_front(2))
      if (auto flag = dyn_cast<BoolAttr>(asked))
        *call.gradients += flag.getValue();
  }
  SmallVector<int64_t> dims;
  if (call.target.contains("._fft_"))
    if (auto list = dyn_cast_or_null<ArrayAttr>(node.getArgument("dim")))
      for (Attribute dim : list.getValue())
        if (auto number = dyn_cast<IntegerAttr>(dim))
          dims.push_back(number.getInt());
  call.dims = dims;
  return estimateCost(call);
}
