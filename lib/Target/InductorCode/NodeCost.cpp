// The cost model's answer for a node of an FX graph.

#include "NodeCost.h"

#include "opprof/Dialect/FX/IR/Schema.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::inductor;

static TensorShape toShape(const TensorInfo &info) {
  TensorShape out;
  out.elementBytes = elementSize(info.dtype).value_or(0);
  if (!info.shapeKnown)
    out.sizes.push_back(-1);
  for (const Dim &dim : info.shape)
    out.sizes.push_back(dim.value.value_or(-1));
  return out;
}

/// The argument of that name, where the node gives it.
static const json::Value *getArgument(const GraphNode &node,
                                      const fx::OperatorSchema *schema,
                                      StringRef name) {
  for (const auto &[key, value] : node.kwargs)
    if (key == name)
      return &value;
  int position = schema ? schema->getArgumentIndex(name) : -1;
  return position >= 0 && size_t(position) < node.args.size()
             ? &node.args[position]
             : nullptr;
}

/// Arguments that the model asks for beside shapes; `dims` holds lists.
static void setArguments(const GraphNode &node, OperatorCall &call,
                         SmallVectorImpl<int64_t> &dims) {
  const fx::OperatorSchema *schema = fx::lookupSchema(node.target);
  if (node.target.find("._fft_") != std::string::npos)
    if (const json::Value *list = getArgument(node, schema, "dim"))
      if (const json::Array *numbers = list->getAsArray())
        for (const json::Value &number : *numbers)
          if (std::optional<int64_t> dim = number.getAsInteger())
            dims.push_back(*dim);
  call.dims = dims;
  if (const json::Value *causal = getArgument(node, schema, "is_causal"))
    call.isCausal |= causal->getAsBoolean().value_or(false);
  if (const json::Value *transposed = getArgument(node, schema, "transposed"))
    call.isTransposed = transposed->getAsBoolean().value_or(false);
  if (const json::Value *groups = getArgument(node, schema, "groups"))
    call.groups = groups->getAsInteger().value_or(1);
  // With a path the operands of einsum are not taken in turn.
  const json::Value *path = getArgument(node, schema, "path");
  if (const json::Value *equation = getArgument(node, schema, "equation");
      equation && (call.inputs.size() == 2 || !path || path->getAsNull()))
    call.equation = equation->getAsString().value_or("");
  const json::Value *mask = getArgument(node, schema, "output_mask");
  if (const json::Array *asked = mask ? mask->getAsArray() : nullptr) {
    call.gradients = 0;
    for (size_t i = 0; i < 2 && i < asked->size(); ++i)
      *call.gradients += (*asked)[i].getAsBoolean().value_or(false);
  }
}

OperatorCost opprof::inductor::estimateNodeCost(
    ArrayRef<GraphNode> nodes, uint32_t at,
    function_ref<TensorInfo(const TensorInfo &)> withSizes, bool isCausal) {
  const GraphNode &node = nodes[at];
  SmallVector<TensorShape> inputs, outputs;
  for (uint32_t operand : node.operands) {
    const GraphNode &from = nodes[operand];
    if (!from.symbol.empty())
      continue;
    // Which of several results it is isn't said.
    bool isOne = !from.results.empty() && !from.resultIsTuple;
    inputs.push_back(
        toShape(isOne ? withSizes(from.results[0]) : TensorInfo()));
  }
  for (const TensorInfo &result : node.results)
    outputs.push_back(toShape(withSizes(result)));
  if (node.results.empty() && node.symbol.empty())
    outputs.push_back(toShape(TensorInfo()));
  OperatorCall call;
  call.target = node.target;
  call.inputs = inputs;
  call.outputs = outputs;
  call.isCausal = isCausal;
  SmallVector<int64_t> dims;
  setArguments(node, call, dims);
  return estimateCost(call);
}
