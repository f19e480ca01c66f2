// Which operators of two stages may be the same. One name for the spellings of
// an operator, what decomposes into what, and what leaves a value as it is.

#include "AlignmentOperators.h"

#include "opprof/Dialect/FX/IR/Schema.h"
#include "opprof/Target/InductorCode/GraphView.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::inductor;

StringRef opprof::inductor::canonicalOperator(StringRef family) {
  family = fx::getFunctionalName(family);
  return StringSwitch<StringRef>(family)
      .Cases({"addmm", "mm", "linear", "_addmm_activation"}, "matmul")
      .Cases({"bmm", "baddbmm", "matmul", "mv", "dot"}, "matmul")
      .Cases({"conv1d", "conv2d", "conv3d", "_convolution"}, "convolution")
      .Cases({"view", "_unsafe_view", "reshape", "flatten", "unflatten"},
             "view")
      .Cases({"permute", "transpose", "t", "swapaxes", "numpy_T"}, "permute")
      .Cases({"convert_element_type", "_to_copy", "to", "type_as"}, "to")
      .Cases({"float", "half", "bfloat16"}, "to")
      .Cases({"relu6", "hardtanh"}, "hardtanh")
      .Cases({"_softmax", "softmax", "_safe_softmax"}, "softmax")
      .Cases({"_log_softmax", "log_softmax"}, "log_softmax")
      .Cases({"native_layer_norm", "layer_norm"}, "layer_norm")
      .Cases({"native_group_norm", "group_norm"}, "group_norm")
      .Cases({"split", "split_with_sizes", "chunk", "unbind"}, "split")
      .Cases({"arange", "iota"}, "arange")
      .Cases({"truediv", "div", "__truediv__", "divide"}, "div")
      .Cases({"multiply", "mul"}, "mul")
      .Cases({"subtract", "sub"}, "sub")
      .Cases({"clip", "clamp"}, "clamp")
      .Cases({"__and__", "bitwise_and"}, "bitwise_and")
      .Cases({"__or__", "bitwise_or"}, "bitwise_or")
      .Cases({"_fused_rms_norm", "rms_norm"}, "rms_norm")
      .Cases({"_native_batch_norm_legit_no_training", "batch_norm",
              "native_batch_norm", "_native_batch_norm_legit"},
             "batch_norm")
      .StartsWith("_scaled_dot_product", "attention")
      .StartsWith("scaled_dot_product", "attention")
      .StartsWith("max_pool", "max_pool")
      .Cases({"_low_memory_max_pool_with_offsets",
              "_low_memory_max_pool2d_with_offsets"},
             "max_pool")
      .StartsWith("adaptive_avg_pool", "avg_pool")
      .StartsWith("_adaptive_avg_pool", "avg_pool")
      .StartsWith("avg_pool", "avg_pool")
      .Default(family);
}

/// The operators that `whole` decomposes into, beside what only moves values.
static ArrayRef<StringLiteral> partsOf(StringRef whole) {
  static constexpr StringLiteral kMatmul[] = {"add", "mul", "sum",
                                              "constant_pad_nd"};
  static constexpr StringLiteral kConvolution[] = {"add", "constant_pad_nd"};
  static constexpr StringLiteral kNorm[] = {"var_mean", "sub",  "add", "rsqrt",
                                            "mul",      "mean", "pow"};
  static constexpr StringLiteral kBatchNorm[] = {
      "sub", "add", "sqrt", "rsqrt", "reciprocal", "mul", "var_mean", "div"};
  static constexpr StringLiteral kRmsNorm[] = {"pow", "mean", "add", "rsqrt",
                                               "mul"};
  static constexpr StringLiteral kGelu[] = {"mul", "erf", "add", "tanh", "pow"};
  static constexpr StringLiteral kSigmoid[] = {
      "neg", "exp", "add", "div", "sigmoid", "mul", "reciprocal"};
  static constexpr StringLiteral kHardSigmoid[] = {
      "add", "clamp_min", "clamp_max", "clamp", "mul", "div"};
  static constexpr StringLiteral kMish[] = {"exp", "log1p", "where",
                                            "gt",  "tanh",  "mul"};
  static constexpr StringLiteral kElu[] = {"gt",    "mul", "expm1",
                                           "where", "exp", "sub"};
  static constexpr StringLiteral kSoftmax[] = {
      "amax", "sub", "exp", "sum", "div", "log", "prepare_softmax_online",
      "max"};
  static constexpr StringLiteral kEinsum[] = {"matmul", "mul", "sum", "add"};
  static constexpr StringLiteral kAttention[] = {"matmul",
                                                 "softmax",
                                                 "mul",
                                                 "amax",
                                                 "sub",
                                                 "exp",
                                                 "sum",
                                                 "div",
                                                 "where",
                                                 "full",
                                                 "scalar_tensor",
                                                 "constant_pad_nd",
                                                 "slice",
                                                 "le",
                                                 "arange",
                                                 "add",
                                                 "eq",
                                                 "any",
                                                 "full_like",
                                                 "logical_not",
                                                 "cat",
                                                 "prepare_softmax_online"};
  static constexpr StringLiteral kClamp[] = {"clamp_min", "clamp_max", "clamp"};
  static constexpr StringLiteral kPool[] = {"mean", "sum", "div"};
  static constexpr StringLiteral kVariance[] = {
      "var_mean", "var", "mean", "sqrt", "sub", "mul", "sum", "div"};
  static constexpr StringLiteral kVectorNorm[] = {"pow", "abs",  "sum",  "sqrt",
                                                  "mul", "amax", "amin", "ne"};
  static constexpr StringLiteral kDropout[] = {"mul", "gt", "inductor_random",
                                               "inductor_lookup_seed"};
  static constexpr StringLiteral kLoss[] = {"log_softmax",
                                            "amax",
                                            "sub",
                                            "exp",
                                            "sum",
                                            "log",
                                            "gather",
                                            "neg",
                                            "where",
                                            "div",
                                            "ne",
                                            "full",
                                            "prepare_softmax_online"};
  static constexpr StringLiteral kRecurrent[] = {
      "matmul", "add",   "mul", "sigmoid", "tanh", "split", "cat",
      "select", "slice", "sub", "stack",   "full", "zeros"};
  static constexpr StringLiteral kPower[] = {"mul", "pow", "sqrt",
                                             "reciprocal"};
  static constexpr StringLiteral kPut[] = {"index_put", "scatter"};
  static constexpr StringLiteral kFill[] = {"where", "scalar_tensor", "full"};
  static constexpr StringLiteral kStack[] = {"cat"};
  static constexpr StringLiteral kDifference[] = {"sub", "cat", "slice", "ne"};
  static constexpr StringLiteral kRoll[] = {
      "index", "arange", "add", "fmod", "remainder", "cat", "slice"};
  return StringSwitch<ArrayRef<StringLiteral>>(whole)
      .Case("matmul", kMatmul)
      .Cases({"einsum", "bilinear"}, kEinsum)
      .Case("convolution", kConvolution)
      .Cases({"layer_norm", "group_norm", "instance_norm"}, kNorm)
      .Case("batch_norm", kBatchNorm)
      .Case("rms_norm", kRmsNorm)
      .Case("gelu", kGelu)
      .Cases({"silu", "sigmoid", "log_sigmoid", "logsigmoid"}, kSigmoid)
      .Cases({"hardsigmoid", "hardswish"}, kHardSigmoid)
      .Cases({"mish", "softplus"}, kMish)
      .Cases({"elu", "selu", "celu", "leaky_relu"}, kElu)
      .Cases({"softmax", "log_softmax"}, kSoftmax)
      .Cases({"attention", "_native_multi_head_attention"}, kAttention)
      .Cases({"hardtanh", "clamp"}, kClamp)
      .Cases({"avg_pool", "mean"}, kPool)
      .Cases({"std", "var", "std_mean"}, kVariance)
      .Cases({"linalg_vector_norm", "norm"}, kVectorNorm)
      .Case("dropout", kDropout)
      .Cases({"cross_entropy_loss", "cross_entropy", "nll_loss_nd"}, kLoss)
      .Cases({"lstm", "gru", "rnn_tanh", "rnn_relu"}, kRecurrent)
      .Cases({"square", "rsqrt", "pow"}, kPower)
      .Cases({"index_copy", "index_put", "index_add"}, kPut)
      .Cases({"where", "masked_fill"}, kFill)
      .Cases({"stack", "hstack", "vstack"}, kStack)
      .Case("diff", kDifference)
      .Case("roll", kRoll)
      .Default({});
}

bool opprof::inductor::isComposite(StringRef op) {
  return !partsOf(op).empty();
}

bool opprof::inductor::movesValues(StringRef op) {
  return StringSwitch<bool>(op)
      .Cases({"view", "permute", "clone", "to", "expand"}, true)
      .Cases({"unsqueeze", "squeeze", "getitem", "alias"}, true)
      .Default(false);
}

bool opprof::inductor::decomposesInto(StringRef whole, StringRef part) {
  if (whole == part)
    return true;
  // Copies, casts and views appear wherever a layout or dtype is needed.
  if (movesValues(part))
    return !isViewTarget(whole);
  return is_contained(partsOf(whole), part == "part" ? "slice" : part);
}

bool opprof::inductor::isCommutative(StringRef op) {
  return StringSwitch<bool>(op)
      .Cases({"add", "mul", "maximum", "minimum", "eq", "ne"}, true)
      .Cases({"bitwise_and", "bitwise_or", "bitwise_xor"}, true)
      .Cases({"logical_and", "logical_or", "logical_xor"}, true)
      .Default(false);
}

/// The i-th argument, or null.
static const json::Value *argument(const GraphNode &node, size_t i,
                                   StringRef name) {
  if (i < node.args.size())
    return &node.args[i];
  for (const auto &[key, value] : node.kwargs)
    if (key == name)
      return &value;
  return nullptr;
}

static bool isFalse(const json::Value *value) {
  return value && value->getAsBoolean() == std::optional(false);
}

bool opprof::inductor::keepsValue(const GraphNode &node) {
  StringRef family = opFamily(node.target);
  if (isViewTarget(node.target))
    return true;
  return StringSwitch<bool>(family)
      .Cases({"dropout", "feature_dropout", "alpha_dropout", "dropout_"},
             isFalse(argument(node, 2, "train")))
      .Case("native_dropout", isFalse(argument(node, 2, "train")))
      .Cases({"contiguous", "detach", "detach_", "alias", "clone"}, true)
      .Cases({"lift_fresh", "lift_fresh_copy", "lift"}, true)
      .Cases({"to", "_to_copy", "convert_element_type", "type_as"}, true)
      .Cases({"float", "half", "bfloat16", "cpu", "cuda", "device_put"}, true)
      .Cases({"copy", "requires_grad_", "_to_cpu", "view_as"}, true)
      .Default(false);
}

bool opprof::inductor::makesConstant(const GraphNode &node) {
  return StringSwitch<bool>(opFamily(node.target))
      .Cases({"full", "scalar_tensor", "zeros", "ones", "empty"}, true)
      .Cases({"full_like", "zeros_like", "ones_like", "empty_like"}, true)
      .Cases({"new_zeros", "new_ones", "new_full", "new_empty"}, true)
      .Default(false);
}
