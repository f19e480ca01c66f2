// Formulas for the work of ATen operators.

#include "opprof/Analysis/Cost/CostModel.h"
#include "opprof/Dialect/FX/IR/Schema.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>
#include <map>
#include <set>

using namespace llvm;
using namespace opprof;

//===----------------------------------------------------------------------===//
// Checked arithmetic: sizes come from files
//===----------------------------------------------------------------------===//

using Count = std::optional<uint64_t>;

static Count multiply(Count first, Count second) {
  if (!first || !second)
    return std::nullopt;
  bool overflowed = false;
  uint64_t product = SaturatingMultiply(*first, *second, &overflowed);
  return overflowed ? Count() : Count(product);
}

static Count add(Count first, Count second) {
  if (!first || !second)
    return std::nullopt;
  bool overflowed = false;
  uint64_t sum = SaturatingAdd(*first, *second, &overflowed);
  return overflowed ? Count() : Count(sum);
}

/// The size of dimension `index`, counted from the end where negative.
static Count getSize(const TensorShape &tensor, int index) {
  int rank = tensor.sizes.size();
  if (index < 0)
    index += rank;
  if (index < 0 || index >= rank || tensor.sizes[index] < 0)
    return std::nullopt;
  return static_cast<uint64_t>(tensor.sizes[index]);
}

static Count product(ArrayRef<int64_t> sizes) {
  Count result = 1;
  for (int64_t size : sizes)
    result = multiply(result, size < 0 ? Count() : Count(size));
  return result;
}

Count TensorShape::getNumElements() const { return product(sizes); }

Count TensorShape::getNumBytes() const {
  if (!elementBytes)
    return std::nullopt;
  return multiply(getNumElements(), elementBytes);
}

//===----------------------------------------------------------------------===//
// What an operator does
//===----------------------------------------------------------------------===//

/// "addmm" of "aten.addmm.default", "aten.addmm" or "torch.ops.aten.addmm.out".
static StringRef getBaseName(StringRef target) {
  target.consume_front("torch.ops.");
  size_t dot = target.find('.');
  StringRef name = dot == StringRef::npos ? target : target.substr(dot + 1);
  name = name.split('.').first;
  // On a list of tensors, the same work for each.
  name.consume_front("_foreach_");
  // An in-place variant does the work of its functional twin.
  return fx::getFunctionalName(name);
}

static WorkKind getListedKind(StringRef name) {
  return StringSwitch<WorkKind>(name)
      .Cases({"mm", "addmm", "bmm", "baddbmm", "linear", "matmul", "mv", "dot"},
             WorkKind::Matrix)
      .Cases({"_scaled_mm", "_int_mm", "addmv", "addbmm", "_addmm_activation",
              "vdot", "mkldnn_linear", "_linear_pointwise"},
             WorkKind::Matrix)
      .Cases({"_grouped_mm", "_scaled_grouped_mm", "_scaled_mm_v2",
              "_scaled_grouped_mm_v2", "_weight_int8pack_mm",
              "_weight_int4pack_mm", "_weight_int4pack_mm_for_cpu",
              "_dyn_quant_matmul_4bit", "qlinear_pointwise"},
             WorkKind::Matrix)
      .Cases({"convolution", "_convolution", "conv1d", "conv2d", "conv3d",
              "convolution_backward", "conv_transpose1d", "conv_transpose2d",
              "conv_transpose3d"},
             WorkKind::Matrix)
      .Cases({"cudnn_convolution", "mkldnn_convolution", "miopen_convolution",
              "cudnn_convolution_relu", "cudnn_convolution_add_relu",
              "_convolution_pointwise", "lstm", "gru"},
             WorkKind::Matrix)
      .Cases({"rnn_tanh", "rnn_relu", "einsum", "inner", "tensordot",
              "mkldnn_rnn_layer"},
             WorkKind::Matrix)
      .Cases({"bilinear", "_trilinear", "linalg_multi_dot", "chain_matmul",
              "flex_attention", "flex_attention_backward"},
             WorkKind::Matrix)
      .Cases({"_native_multi_head_attention", "_transformer_encoder_layer_fwd"},
             WorkKind::Matrix)
      .Cases({"_fft_r2c", "_fft_c2r", "_fft_c2c"}, WorkKind::Reduction)
      .Cases({"cdist", "_cdist_forward", "_euclidean_dist", "_cdist_backward",
              "pdist", "_pdist_forward"},
             WorkKind::Reduction)
      .Cases({"embedding_bag", "_embedding_bag", "_embedding_bag_forward_only",
              "_embedding_bag_backward", "_embedding_bag_dense_backward"},
             WorkKind::Reduction)
      .Cases({"outer", "ger"}, WorkKind::Pointwise)
      .Cases({"scaled_dot_product_attention",
              "_scaled_dot_product_flash_attention",
              "_scaled_dot_product_efficient_attention",
              "_scaled_dot_product_cudnn_attention",
              "_scaled_dot_product_flash_attention_for_cpu",
              "_scaled_dot_product_attention_math",
              "_scaled_dot_product_attention_math_for_mps",
              "_scaled_dot_product_fused_attention_overrideable"},
             WorkKind::Matrix)
      .Cases({"_flash_attention_forward", "_flash_attention_backward",
              "_efficient_attention_forward", "_efficient_attention_backward"},
             WorkKind::Matrix)
      .Cases({"_scaled_dot_product_flash_attention_backward",
              "_scaled_dot_product_efficient_attention_backward",
              "_scaled_dot_product_cudnn_attention_backward",
              "_scaled_dot_product_flash_attention_for_cpu_backward",
              "_scaled_dot_product_fused_attention_overrideable_backward"},
             WorkKind::Matrix)
      .Cases({"native_layer_norm", "layer_norm", "rms_norm", "_fused_rms_norm",
              "native_batch_norm", "batch_norm", "native_group_norm",
              "group_norm"},
             WorkKind::Reduction)
      .Cases({"_native_batch_norm_legit_no_training",
              "_native_batch_norm_legit", "native_layer_norm_backward",
              "native_batch_norm_backward", "instance_norm"},
             WorkKind::Reduction)
      .Cases({"softmax", "_softmax", "log_softmax", "_log_softmax",
              "_softmax_backward_data", "_log_softmax_backward_data",
              "_safe_softmax", "logsumexp"},
             WorkKind::Reduction)
      .Cases({"sum", "mean", "var", "std", "var_mean", "std_mean", "amax"},
             WorkKind::Reduction)
      .Cases({"amin", "max", "min", "argmax", "argmin", "any", "all"},
             WorkKind::Reduction)
      .Cases({"prod", "norm", "linalg_vector_norm", "cumsum", "cumprod",
              "nll_loss_forward", "nll_loss_backward", "topk", "sort"},
             WorkKind::Reduction)
      .Cases({"max_pool2d", "max_pool2d_with_indices", "avg_pool2d",
              "_low_memory_max_pool_with_offsets", "_adaptive_avg_pool2d",
              "adaptive_avg_pool2d", "max_pool2d_with_indices_backward"},
             WorkKind::Reduction)
      .Cases({"avg_pool3d", "avg_pool2d_backward", "avg_pool3d_backward",
              "adaptive_max_pool2d", "adaptive_max_pool3d",
              "_adaptive_avg_pool3d", "max_pool3d_with_indices",
              "fractional_max_pool2d"},
             WorkKind::Reduction)
      .Cases({"logcumsumexp", "cummax", "cummin", "scatter_reduce",
              "upsample_nearest2d_backward", "_adaptive_avg_pool2d_backward"},
             WorkKind::Reduction)
      .Cases({"upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d",
              "_upsample_nearest_exact1d", "_upsample_nearest_exact2d",
              "_upsample_nearest_exact3d"},
             WorkKind::Movement)
      .Cases({"_unsafe_index_put", "diagonal_scatter", "as_strided_scatter",
              "rand", "randn", "bernoulli", "native_dropout", "bucketize",
              "searchsorted"},
             WorkKind::Movement)
      .Cases({"clone", "copy", "_to_copy", "to", "contiguous", "cat", "stack",
              "constant_pad_nd"},
             WorkKind::Movement)
      .Cases({"cpu", "cuda", "pin_memory", "coalesce", "resolve_conj",
              "resolve_neg"},
             WorkKind::Movement)
      .Cases({"embedding", "index", "index_select", "gather", "select_scatter",
              "slice_scatter", "scatter", "index_put", "_unsafe_index"},
             WorkKind::Movement)
      .Case("prepare_softmax_online", WorkKind::Reduction)
      .Cases({"device_put", "inductor_random", "inductor_seeds",
              "inductor_lookup_seed", "inductor_randint"},
             WorkKind::Movement)
      .Cases({"embedding_dense_backward", "index_add", "scatter_add",
              "index_reduce"},
             WorkKind::Reduction)
      .Cases({"masked_scatter", "masked_scatter_backward", "_assert_async",
              "_functional_assert_async"},
             WorkKind::Movement)
      .Cases({"full", "full_like", "zeros", "zeros_like", "ones", "ones_like",
              "new_zeros", "new_full", "new_ones"},
             WorkKind::Movement)
      .Cases({"arange", "iota", "fill", "repeat", "roll", "flip", "rev",
              "convert_element_type", "lift_fresh_copy", "scalar_tensor"},
             WorkKind::Movement)
      .Cases({"__and__", "__or__", "__xor__", "__lshift__", "__rshift__"},
             WorkKind::Pointwise)
      .Cases({"tril", "triu", "where", "masked_fill", "one_hot", "fma",
              "_low_memory_max_pool_offsets_to_indices"},
             WorkKind::Pointwise)
      .Cases({"_unsafe_masked_index", "_unsafe_masked_index_put_accumulate"},
             WorkKind::Movement)
      // No views, but no work either: memory that nothing is written to, and
      // what is taken away before the program runs.
      .Cases({"empty", "empty_strided", "empty_like", "new_empty", "view_copy",
              "getitem", "dropout", "type_as"},
             WorkKind::View)
      .Default(WorkKind::Unknown);
}

WorkKind opprof::getWorkKind(StringRef target) {
  WorkKind listed = getListedKind(getBaseName(target));
  if (listed != WorkKind::Unknown)
    return listed;
  if (target.contains("._foreach_"))
    return WorkKind::Pointwise;
  StringRef key = target;
  key.consume_front("torch.ops.");
  // Of an operator without its overload, as traces have it, whichever ran.
  bool isOverload = key.count('.') > 1;
  const fx::OperatorSchema *schema =
      isOverload ? fx::lookupSchema(key) : nullptr;
  ArrayRef<fx::OperatorSchema> schemas;
  if (!isOverload)
    schemas = fx::getOverloads(key);
  else if (schema)
    schemas = *schema;
  auto isPointwise = [](const fx::OperatorSchema &each) {
    return each.isPointwise;
  };
  auto isReduction = [](const fx::OperatorSchema &each) {
    return each.isReduction;
  };
  if (llvm::any_of(schemas, isPointwise))
    return WorkKind::Pointwise;
  if (llvm::any_of(schemas, isReduction))
    return WorkKind::Reduction;
  // An in-place variant of a view renames storage too.
  if (fx::isViewOperator(target) || fx::isViewOperator(getBaseName(target)))
    return WorkKind::View;
  return WorkKind::Unknown;
}

//===----------------------------------------------------------------------===//
// Formulas
//===----------------------------------------------------------------------===//

/// 2·m·n·k of the product of the last two dimensions, for each of the others.
static Count getMatrixProductFlops(const TensorShape &first,
                                   const TensorShape &second) {
  // A vector on the right has one column.
  Count columns = second.sizes.size() == 1 ? Count(1) : getSize(second, -1);
  Count firstElements = first.getNumElements();
  // Batch dimensions broadcast: those of the larger operand count.
  if (second.sizes.size() > first.sizes.size() && first.sizes.size() >= 2) {
    Count batches =
        product(ArrayRef(second.sizes)
                    .take_front(second.sizes.size() - first.sizes.size()));
    firstElements = multiply(firstElements, batches);
  }
  return multiply(2, multiply(firstElements, columns));
}

/// 2 · outputs · (channels of a group) · kernel positions. A transposed
/// convolution does for each input what the other does for each output.
static Count getConvolutionFlops(const TensorShape &positions,
                                 const TensorShape &weight, bool isTransposed,
                                 int64_t groups) {
  if (weight.sizes.size() < 3 || groups < 1)
    return std::nullopt;
  // Weights are [out, in / groups, kernel…]; transposed [in, out / groups, …].
  Count perPosition = product(ArrayRef(weight.sizes).drop_front());
  return multiply(2, multiply(positions.getNumElements(), perPosition));
}

/// Pairs of query and key, those above the diagonal left out where causal
/// (aligned at the top left, as PyTorch's is_causal is).
static Count getAttentionPairs(uint64_t queries, uint64_t keys, bool isCausal) {
  if (!isCausal)
    return multiply(queries, keys);
  uint64_t triangle = std::min(queries, keys);
  Count half = multiply(triangle, add(triangle, 1));
  if (!half)
    return std::nullopt;
  return add(*half / 2, multiply(queries - triangle, keys));
}

/// Forward: two products over all pairs. Backward: those of the three
/// gradients, of the probabilities' gradient, and the scores again.
static Count getAttentionFlops(const TensorShape &query, const TensorShape &key,
                               const TensorShape &value, bool isCausal,
                               bool isBackward) {
  if (query.sizes.size() < 3 || key.sizes.size() < 3)
    return std::nullopt;
  Count batches = product(ArrayRef(query.sizes).drop_back(2));
  Count queries = getSize(query, -2), keys = getSize(key, -2);
  Count headSize = getSize(query, -1), valueSize = getSize(value, -1);
  if (!queries || !keys)
    return std::nullopt;
  Count pairs = multiply(batches, getAttentionPairs(*queries, *keys, isCausal));
  Count perPair = isBackward
                      ? add(multiply(3, headSize), multiply(2, valueSize))
                      : add(headSize, valueSize);
  return multiply(2, multiply(pairs, perPair));
}

/// Operations on each element of the larger side of a pointwise operator. A
/// special function (exp, tanh, rsqrt) counts once, as hardware has a unit for
/// it.
static uint64_t getPointwiseOperations(StringRef name) {
  return StringSwitch<uint64_t>(name)
      .Case("gelu", 8)
      .Cases({"silu", "sigmoid", "mish", "softplus"}, 4)
      .Cases({"addcmul", "addcdiv", "lerp", "hardswish"}, 3)
      .Cases({"hardtanh", "clamp", "relu6", "fma"}, 2)
      .Cases({"gelu_backward"}, 14)
      .Cases({"silu_backward"}, 7)
      .Default(1);
}

/// Operations on each input element of a reduction.
static uint64_t getReductionOperations(StringRef name) {
  return StringSwitch<uint64_t>(name)
      // Mean 1, variance 3, normalization 2, scale and shift 2.
      .Cases({"native_layer_norm", "layer_norm", "native_group_norm",
              "group_norm", "instance_norm", "native_batch_norm", "batch_norm",
              "_native_batch_norm_legit"},
             8)
      // Square, sum, normalization, scale.
      .Cases({"rms_norm", "_fused_rms_norm"}, 4)
      // With the statistics given: normalization, scale and shift.
      .Case("_native_batch_norm_legit_no_training", 4)
      // Maximum, difference, exponential, sum, quotient.
      .Cases({"softmax", "_softmax", "log_softmax", "_log_softmax",
              "_safe_softmax", "logsumexp"},
             5)
      .Cases({"var", "std", "var_mean", "std_mean"}, 4)
      // Maximum, difference, exponential, sum.
      .Case("prepare_softmax_online", 4)
      .Cases({"norm", "linalg_vector_norm"}, 2)
      .Cases({"native_layer_norm_backward", "native_batch_norm_backward"}, 11)
      .Cases({"_softmax_backward_data", "_log_softmax_backward_data"}, 4)
      .Default(1);
}

/// Whether one of the tensors is a table of blocks, a row of columns for each
/// row of blocks ([batch, heads, rows, columns]), of more than one block.
static bool hasSeveralBlocks(ArrayRef<TensorShape> maskTensors) {
  // What a score_mod or a mask_mod captures may have any shape, too; that it
  // makes the count unknown does no harm.
  return any_of(maskTensors, [](const TensorShape &tensor) {
    return tensor.sizes.size() == 4 &&
           (tensor.sizes[2] != 1 || tensor.sizes[3] != 1);
  });
}

/// Attention with the projections round it: of one packed weight for query, key
/// and value, and of one for what comes out.
static Count getProjectedAttentionFlops(const TensorShape &query,
                                        const TensorShape &key,
                                        const TensorShape &packedWeight,
                                        const TensorShape &weight) {
  if (query.sizes.size() != 3 || key.sizes.size() != 3 ||
      packedWeight.sizes.size() != 2 || weight.sizes.size() != 2)
    return std::nullopt;
  Count rows = product(ArrayRef(query.sizes).drop_back());
  Count keyRows = product(ArrayRef(key.sizes).drop_back());
  Count third = packedWeight.getNumElements();
  if (!third)
    return std::nullopt;
  *third /= 3;
  Count projections = add(multiply(add(rows, multiply(keyRows, 2)), third),
                          multiply(rows, weight.getNumElements()));
  // Scores and weighted sums over all heads: the whole width for each pair.
  Count pairs = multiply(multiply(rows, getSize(key, 1)),
                         multiply(2, getSize(weight, 1)));
  return multiply(2, add(projections, pairs));
}

/// A layer of an encoder in one call: attention, and two products behind it.
static Count getEncoderLayerFlops(ArrayRef<TensorShape> inputs) {
  // Input, packed weight and bias, weight and bias, two norms' weights and
  // biases, then the two products' weights, each with its bias.
  if (inputs.size() < 13)
    return std::nullopt;
  Count rows = product(ArrayRef(inputs[0].sizes).drop_back());
  Count weights = add(inputs[9].getNumElements(), inputs[11].getNumElements());
  return add(
      getProjectedAttentionFlops(inputs[0], inputs[0], inputs[1], inputs[3]),
      multiply(2, multiply(rows, weights)));
}

/// Attention of any backend; a backward takes the gradient of the output first.
static Count getAttentionCallFlops(StringRef name, const OperatorCall &call) {
  bool isBackward = name.ends_with("_backward");
  bool isFlexible = name.starts_with("flex_attention");
  size_t first = isBackward && !isFlexible ? 1 : 0;
  if (call.inputs.size() < first + 3)
    return std::nullopt;
  // How many blocks a mask leaves stands in tensors, not in the graph: only of
  // a mask of one block is it known that all pairs are computed.
  size_t beforeMask = isBackward ? 6 : 3;
  if (isFlexible && call.inputs.size() > beforeMask &&
      hasSeveralBlocks(call.inputs.drop_front(beforeMask)))
    return std::nullopt;
  SmallVector<TensorShape, 3> tensors(call.inputs.begin() + first,
                                      call.inputs.begin() + first + 3);
  // Kernels called below scaled_dot_product have heads behind positions.
  if (!name.contains("scaled_dot_product") && !isFlexible)
    for (TensorShape &tensor : tensors) {
      if (tensor.sizes.size() != 4)
        return std::nullopt;
      std::swap(tensor.sizes[1], tensor.sizes[2]);
    }
  return getAttentionFlops(tensors[0], tensors[1], tensors[2], call.isCausal,
                           isBackward);
}

/// The gradients of input and weight cost one forward each; that of the bias is
/// a sum, which is left out.
static Count getConvolutionBackwardFlops(const OperatorCall &call) {
  if (call.inputs.size() < 3)
    return std::nullopt;
  Count one =
      getConvolutionFlops(call.isTransposed ? call.inputs[1] : call.inputs[0],
                          call.inputs[2], call.isTransposed, call.groups);
  if (call.gradients)
    return multiply(one, *call.gradients);
  uint64_t gradients = 0;
  for (const TensorShape &output : call.outputs) {
    if (is_contained(output.sizes, -1))
      return std::nullopt;
    gradients += output.sizes.size() > 1;
  }
  return multiply(one, gradients);
}

/// Products of groups of rows (or columns) with a matrix each: together as
/// much as one product, but where both operands have all groups.
static Count getGroupedProductFlops(const TensorShape &first,
                                    const TensorShape &second) {
  Count rows = getSize(first, -2), inner = getSize(first, -1);
  Count groups = first.sizes.size() == 3 && second.sizes.size() == 3
                     ? getSize(first, 0)
                     : Count(1);
  return multiply(2, multiply(multiply(groups, rows),
                              multiply(inner, getSize(second, -1))));
}

/// Of recurrent layers: each position of the sequence meets each weight once.
/// The weights are the matrices behind the input and the states.
static Count getRecurrentFlops(ArrayRef<TensorShape> inputs) {
  if (inputs.empty())
    return std::nullopt;
  Count elements = inputs.front().getNumElements();
  Count width = getSize(inputs.front(), -1);
  if (!elements || !width || !*width)
    return std::nullopt;
  Count weights = 0;
  for (const TensorShape &tensor : inputs.drop_front())
    if (tensor.sizes.size() == 2)
      weights = add(weights, tensor.getNumElements());
  if (!weights || !*weights)
    return std::nullopt;
  return multiply(2, multiply(*elements / *width, weights));
}

/// A matrix of weights for each result: it meets the first tensor's vectors,
/// and what comes out the second's.
static Count getBilinearFlops(const TensorShape &first,
                              const TensorShape &second,
                              const TensorShape &weight) {
  Count width = getSize(first, -1), elements = first.getNumElements();
  if (weight.sizes.size() != 3 || !elements || !width || !*width)
    return std::nullopt;
  Count rows = *elements / *width;
  return multiply(2, add(multiply(rows, weight.getNumElements()),
                         multiply(multiply(rows, getSize(weight, 0)),
                                  getSize(second, -1))));
}

/// Of matrices that are multiplied in the order that takes least, as PyTorch
/// does: the costs of all runs of them, the short ones first.
static Count getChainFlops(ArrayRef<TensorShape> matrices) {
  size_t count = matrices.size();
  // The border sizes: a vector at either end has one row or column.
  SmallVector<Count> sizes;
  for (auto [i, matrix] : enumerate(matrices)) {
    bool isVector = matrix.sizes.size() == 1;
    if (!isVector && matrix.sizes.size() != 2)
      return std::nullopt;
    sizes.push_back(isVector && i == 0 ? Count(1) : getSize(matrix, 0));
  }
  if (count < 2 || count > 64)
    return std::nullopt;
  sizes.push_back(matrices.back().sizes.size() == 1
                      ? Count(1)
                      : getSize(matrices.back(), 1));
  std::vector<std::vector<Count>> least(count, std::vector<Count>(count, 0));
  for (size_t length = 1; length < count; ++length)
    for (size_t from = 0; from + length < count; ++from) {
      size_t to = from + length;
      Count best;
      for (size_t cut = from; cut < to; ++cut) {
        Count product = multiply(
            2, multiply(multiply(sizes[from], sizes[cut + 1]), sizes[to + 1]));
        Count all = add(add(least[from][cut], least[cut + 1][to]), product);
        if (!all)
          return std::nullopt;
        best = std::min(best.value_or(*all), *all);
      }
      least[from][to] = best;
    }
  return least[0][count - 1];
}

/// Of two tensors that are contracted over all that the result lacks: m·k, k·n
/// and m·n elements.
static Count getContractionFlops(const TensorShape &first,
                                 const TensorShape &second,
                                 const TensorShape &result) {
  Count product =
      multiply(multiply(first.getNumElements(), second.getNumElements()),
               result.getNumElements());
  if (!product)
    return std::nullopt;
  auto root = static_cast<uint64_t>(std::sqrt(static_cast<double>(*product)));
  while (root * root > *product)
    --root;
  while ((root + 1) * (root + 1) <= *product)
    ++root;
  return root * root == *product ? multiply(2, root) : Count();
}

/// "bij,bjk->bik": what the operands cost that are multiplied in turn. Labels
/// that one of the two alone has are summed up before.
static Count getEinsumFlops(StringRef equation,
                            ArrayRef<TensorShape> operands) {
  std::string text;
  for (char letter : equation)
    if (!isSpace(letter))
      text += letter;
  auto [left, result] = StringRef(text).split("->");
  SmallVector<StringRef> terms;
  left.split(terms, ',');
  if (operands.size() < 2 || terms.size() != operands.size())
    return std::nullopt;
  std::map<char, Count> sizes;
  std::map<char, unsigned> uses;
  for (auto [term, operand] : zip_equal(terms, operands)) {
    if (term.size() != operand.sizes.size() || term.contains('.'))
      return std::nullopt;
    for (auto [at, label] : enumerate(term)) {
      Count size = getSize(operand, int(at));
      Count &known = sizes[label];
      if (!size)
        return std::nullopt;
      known = std::max(known.value_or(0), *size);
      ++uses[label];
    }
  }
  // Without an arrow what stands once is kept.
  std::string kept = result.str();
  if (!equation.contains("->"))
    for (auto [label, count] : uses)
      if (count == 1)
        kept += label;
  Count total = 0;
  std::set<char> labels(terms[0].begin(), terms[0].end());
  for (size_t i = 1; i < terms.size(); ++i) {
    auto isNeeded = [&](char label) {
      return kept.find(label) != std::string::npos ||
             any_of(ArrayRef(terms).drop_front(i + 1),
                    [&](StringRef term) { return term.contains(label); });
    };
    Count product = 2;
    std::set<char> all = labels, next;
    all.insert(terms[i].begin(), terms[i].end());
    for (char label : all) {
      bool isShared = labels.count(label) && terms[i].contains(label);
      if (isShared || isNeeded(label))
        product = multiply(product, sizes[label]);
      if (isNeeded(label))
        next.insert(label);
    }
    total = add(total, product);
    labels = std::move(next);
  }
  return total;
}

static Count getMatrixFlops(StringRef name, const OperatorCall &call) {
  ArrayRef<TensorShape> inputs = call.inputs;
  auto has = [&](size_t count) { return inputs.size() >= count; };

  if (name == "_native_multi_head_attention")
    return has(6) ? getProjectedAttentionFlops(inputs[0], inputs[1], inputs[3],
                                               inputs[5])
                  : std::nullopt;
  if (name == "_transformer_encoder_layer_fwd")
    return getEncoderLayerFlops(inputs);
  if (name.contains("attention"))
    return getAttentionCallFlops(name, call);
  if (name == "convolution_backward")
    return getConvolutionBackwardFlops(call);
  if (name.contains("grouped_mm"))
    return has(2) ? getGroupedProductFlops(inputs[0], inputs[1]) : std::nullopt;
  // Weights that are packed do not show their width; the result does.
  if (name.starts_with("_weight_int") || name.starts_with("_dyn_quant") ||
      name == "qlinear_pointwise")
    return has(1) && call.outputs.size() == 1
               ? multiply(2, multiply(call.outputs[0].getNumElements(),
                                      getSize(inputs[0], -1)))
               : Count();
  if (name.contains("conv")) {
    if (!has(2) || call.outputs.empty())
      return std::nullopt;
    bool isTransposed = call.isTransposed || name.contains("conv_transpose");
    return getConvolutionFlops(isTransposed ? inputs[0] : call.outputs[0],
                               inputs[1], isTransposed, call.groups);
  }
  if (name == "linear" || name == "mkldnn_linear" ||
      name == "_linear_pointwise") {
    if (!has(2))
      return std::nullopt;
    return multiply(
        2, multiply(inputs[0].getNumElements(), getSize(inputs[1], 0)));
  }
  if (name == "lstm" || name == "gru" || name.starts_with("rnn_"))
    return getRecurrentFlops(inputs);
  // Whatever else goes in, two of its tensors are weights.
  if (name == "mkldnn_rnn_layer")
    return has(3) ? getRecurrentFlops(inputs.take_front(3)) : std::nullopt;
  if (name == "bilinear")
    return has(3) ? getBilinearFlops(inputs[0], inputs[1], inputs[2])
                  : std::nullopt;
  if (name == "_trilinear")
    return has(3) ? getBilinearFlops(inputs[0], inputs[2], inputs[1])
                  : std::nullopt;
  if (name == "linalg_multi_dot" || name == "chain_matmul")
    return getChainFlops(inputs);
  if (name == "einsum")
    return getEinsumFlops(call.equation, inputs);
  if (name == "inner" || name == "tensordot")
    return has(2) && call.outputs.size() == 1
               ? getContractionFlops(inputs[0], inputs[1], call.outputs[0])
               : Count();
  // addmm, baddbmm … take what is added first.
  size_t first = name.starts_with("add") || name == "baddbmm" ||
                         name == "_addmm_activation"
                     ? 1
                     : 0;
  if (!has(first + 2))
    return std::nullopt;
  // Each element of the result is a sum over the inner dimension, whichever
  // side is repeated; addbmm adds up the products of a batch besides.
  if (call.outputs.size() == 1 && name != "addbmm")
    if (Count elements = call.outputs[0].getNumElements())
      return multiply(2, multiply(elements, getSize(inputs[first], -1)));
  return getMatrixProductFlops(inputs[first], inputs[first + 1]);
}

static Count getLargest(ArrayRef<TensorShape> tensors) {
  Count largest = 0;
  for (const TensorShape &tensor : tensors) {
    Count elements = tensor.getNumElements();
    if (!elements)
      return std::nullopt;
    largest = std::max(largest, elements);
  }
  return largest;
}

static Count sumElements(ArrayRef<TensorShape> tensors) {
  Count sum = 0;
  for (const TensorShape &tensor : tensors)
    sum = add(sum, tensor.getNumElements());
  return sum;
}

static Count sumBytes(ArrayRef<TensorShape> tensors) {
  Count sum = 0;
  for (const TensorShape &tensor : tensors)
    sum = add(sum, tensor.getNumBytes());
  return sum;
}

/// 5 · n · log2(n) of each complex transform of n numbers, whatever algorithm
/// computes it; half of that where one side is real.
static Count getFourierFlops(StringRef name, const OperatorCall &call) {
  bool isReal = name != "_fft_c2c";
  // The real side has all numbers; of the other, half are left out.
  ArrayRef<TensorShape> side = name == "_fft_c2r" ? call.outputs : call.inputs;
  if (side.empty() || call.dims.empty())
    return std::nullopt;
  const TensorShape &tensor = side.front();
  Count elements = tensor.getNumElements(), length = 1;
  for (int64_t dim : call.dims)
    length = multiply(length, getSize(tensor, int(dim)));
  if (!elements || !length || *elements > (uint64_t(1) << 48))
    return std::nullopt;
  double steps = *length > 1 ? std::log2(double(*length)) : 0;
  return uint64_t(
      std::llround((isReal ? 2.5 : 5.0) * double(*elements) * steps));
}

/// Difference, power and sum for each pair of vectors and each place in them;
/// the gradient multiplies by that of the result besides.
static Count getDistanceFlops(StringRef name, const OperatorCall &call) {
  bool isBackward = name.ends_with("_backward");
  ArrayRef<TensorShape> pairs = isBackward ? call.inputs : call.outputs;
  if (pairs.empty() || call.inputs.size() < (isBackward ? 2u : 1u))
    return std::nullopt;
  return multiply(isBackward ? 4 : 3,
                  multiply(pairs.front().getNumElements(),
                           getSize(call.inputs[isBackward ? 1 : 0], -1)));
}

/// A row is added for each index, and multiplied where it has a weight.
static Count getBagFlops(StringRef name, ArrayRef<TensorShape> inputs) {
  if (inputs.size() < 2)
    return std::nullopt;
  bool isWeighted = !name.ends_with("_backward") && inputs.size() > 3;
  return multiply(isWeighted ? 2 : 1,
                  multiply(inputs[1].getNumElements(), getSize(inputs[0], -1)));
}

/// Reductions into places that data gives, (self, dim, index, source): what is
/// added is in the source, or as much of it as there are places.
static bool isScatteredReduction(StringRef name) {
  return name == "scatter_add" || name == "scatter_reduce" ||
         name == "index_add" || name == "index_reduce";
}

static Count getScatteredFlops(StringRef name, ArrayRef<TensorShape> inputs) {
  if (inputs.size() < 3)
    return std::nullopt;
  return inputs[name.starts_with("index_") ? 2 : 1].getNumElements();
}

static Count getReductionFlops(StringRef name, const OperatorCall &call) {
  if (isScatteredReduction(name))
    return getScatteredFlops(name, call.inputs);
  if (name.starts_with("_fft_"))
    return getFourierFlops(name, call);
  if (name.contains("dist"))
    return getDistanceFlops(name, call);
  if (name.contains("embedding_bag"))
    return getBagFlops(name, call.inputs);
  return multiply(call.inputs.empty() ? Count()
                                      : call.inputs.front().getNumElements(),
                  getReductionOperations(name));
}

/// Gathers read what they give, and the indices.
static bool isGather(StringRef name) {
  return name == "embedding" || name == "index_select" || name == "gather" ||
         name == "index" || name == "_unsafe_index";
}

OperatorCost opprof::estimateCost(const OperatorCall &call) {
  StringRef name = getBaseName(call.target);
  OperatorCost cost;
  cost.kind = getWorkKind(call.target);
  switch (cost.kind) {
  case WorkKind::View:
    cost.flops = cost.bytesRead = cost.bytesWritten = 0;
    return cost;
  case WorkKind::Movement:
    cost.flops = 0;
    break;
  case WorkKind::Pointwise:
    cost.flops =
        multiply(call.target.contains("._foreach_") ? sumElements(call.outputs)
                                                    : getLargest(call.outputs),
                 getPointwiseOperations(name));
    break;
  case WorkKind::Reduction:
    cost.flops = getReductionFlops(name, call);
    break;
  case WorkKind::Matrix:
    cost.flops = getMatrixFlops(name, call);
    break;
  case WorkKind::Unknown:
    break;
  }
  cost.bytesRead = sumBytes(call.inputs);
  cost.bytesWritten = sumBytes(call.outputs);
  if (isGather(name) && call.inputs.size() >= 2)
    cost.bytesRead = add(cost.bytesWritten, sumBytes(call.inputs.drop_front()));
  // A bag reads a row for each index, not the table.
  if (name.contains("embedding_bag") && !name.ends_with("_backward") &&
      call.inputs.size() >= 2)
    cost.bytesRead =
        add(multiply(call.inputs[1].getNumElements(),
                     multiply(getSize(call.inputs[0], -1),
                              call.inputs[0].elementBytes
                                  ? Count(call.inputs[0].elementBytes)
                                  : Count())),
            sumBytes(call.inputs.drop_front()));
  return cost;
}
