// The one table of what emitted code may call. A file is data: whatever stands
// in it, the program that is written of it computes with tensors and does
// nothing else. So operators are known by their schemas and everything else by
// its exact name; a module is never allowed as a whole, because modules hold
// other modules (torch.cuda.os).

#include "Calls.h"

#include "opprof/Dialect/FX/IR/Arguments.h"
#include "opprof/Dialect/FX/IR/Schema.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace opprof::fx;
using llvm::StringRef;

bool opprof::fx::isPythonKeyword(StringRef word) {
  static const llvm::StringSet<> kKeywords = {
      "False",  "None",   "True",    "and",      "as",       "assert", "async",
      "await",  "break",  "class",   "continue", "def",      "del",    "elif",
      "else",   "except", "finally", "for",      "from",     "global", "if",
      "import", "in",     "is",      "lambda",   "nonlocal", "not",    "or",
      "pass",   "raise",  "return",  "try",      "while",    "with",   "yield"};
  return kKeywords.contains(word);
}

bool opprof::fx::isPythonIdentifier(StringRef word) {
  return !word.empty() && !llvm::isDigit(word.front()) &&
         llvm::all_of(word,
                      [](char c) { return llvm::isAlnum(c) || c == '_'; });
}

std::string opprof::fx::getPythonMember(StringRef object, StringRef name) {
  if (isPythonKeyword(name))
    return ("getattr(" + object + ", \"" + name + "\")").str();
  return (object + "." + name).str();
}

static bool isDunder(StringRef name) {
  return name.starts_with("__") && name.ends_with("__");
}

//===----------------------------------------------------------------------===//
// Operators
//===----------------------------------------------------------------------===//

/// Operators that touch more than tensors: they read and write files or memory
/// that is no tensor's, or run text as code on the device.
static bool isRefusedOperator(StringRef space, StringRef name) {
  if (space == "aten")
    return name == "save" || name == "from_file" ||
           (name.starts_with("_sparse_") && name.ends_with("_unsafe"));
  // Views beyond the end of what is allocated.
  if (space == "inductor")
    return name == "_reinterpret_tensor" || name == "_alloc_from_pool" ||
           name == "resize_storage_bytes_";
  if (space == "higher_order")
    return name.starts_with("triton_kernel_wrapper") ||
           name == "inline_asm_elementwise" || name == "call_torchbind" ||
           name == "aoti_call_delegate" || name == "executorch_call_delegate" ||
           name == "invoke_leaf_function" || name == "flat_apply";
  return space == "debugprims" || space == "debug_mode_ops";
}

/// True where `word` stands in the type, as t does in "Dict[str, t]".
static bool holdsWord(StringRef type, StringRef word) {
  llvm::SmallVector<StringRef> words;
  llvm::SplitString(type, words, "[], ");
  return llvm::is_contained(words, word);
}

bool opprof::fx::isOperatorOfAnyType(StringRef target) {
  const OperatorSchema *schema = lookupSchema(target);
  return schema && llvm::any_of(schema->arguments, [](const auto &argument) {
           return holdsWord(argument.type, "t");
         });
}

bool opprof::fx::makesText(StringRef target) {
  if (target == "builtins.str")
    return true;
  const OperatorSchema *schema = lookupSchema(target);
  return schema && llvm::any_of(schema->returns, [](const auto &given) {
           return holdsWord(given.type, "str");
         });
}

/// The operator under torch.ops, or empty. One that PyTorch did not have when
/// opprof was built, such as a user's own, is `namespace.name` or
/// `namespace.name.overload`; what else can be reached by such a path is
/// refused.
static std::string getOperator(llvm::ArrayRef<StringRef> parts) {
  std::string joined = llvm::join(parts, ".");
  if (parts.size() < 2 || parts.size() > 3 ||
      isRefusedOperator(parts[0], parts[1]) || isOperatorOfAnyType(joined))
    return "";
  // What torch.ops, a namespace and an operator hold besides operators.
  static const llvm::StringSet<> kNoNamespaces = {
      "import_module", "load_library", "loaded_libraries", "name"};
  static const llvm::StringSet<> kNoOverloads = {"op", "overloads"};
  if (!lookupSchema(joined)) {
    if (llvm::any_of(parts, isDunder) || kNoNamespaces.contains(parts[0]) ||
        parts[1] == "name" || parts[1] == "_dir" || parts[0] == "_dir" ||
        (parts.size() == 3 &&
         (parts[2].starts_with("_") || kNoOverloads.contains(parts[2]))))
      return "";
  }
  std::string result = "torch.ops";
  for (StringRef part : parts)
    result = getPythonMember(result, part);
  return result;
}

/// Functions of torch that run one operator: torch.relu runs aten.relu.
static bool isOperatorOfTorch(StringRef module, StringRef name) {
  static const llvm::StringSet<> kModules = {"torch",
                                             "torch._C._nn",
                                             "torch._C._fft",
                                             "torch._C._linalg",
                                             "torch._C._special",
                                             "torch._C._sparse",
                                             "torch._C._nested",
                                             "torch._C._VariableFunctions"};
  return kModules.contains(module) && !isDunder(name) &&
         !isRefusedOperator("aten", name) &&
         hasOperator(("aten." + name).str());
}

//===----------------------------------------------------------------------===//
// Exact names
//===----------------------------------------------------------------------===//

/// Functions by the module that holds them. Those of torch are what Dynamo,
/// torch.export and AOTAutograd leave in graphs besides operators.
static constexpr std::pair<llvm::StringLiteral, llvm::StringLiteral>
    kFunctions[] = {
        {"", "abs all any bool complex dict divmod float int len list max min "
             "pow range round slice sorted str sum tuple zip"},
        // What TorchScript's containers do by operators.
        {"dict", "clear get items pop setdefault update values"},
        {"list", "remove reverse sort"},
        {"operator",
         "abs add and_ concat contains countOf delitem eq floordiv ge getitem "
         "gt iadd iand iconcat ifloordiv ilshift imatmul imod imul index "
         "indexOf inv invert ior ipow irshift is_ is_not isub itruediv ixor "
         "le lshift lt matmul mod mul ne neg not_ or_ pos pow rshift setitem "
         "sub truediv truth xor"},
        {"math",
         "acos acosh asin asinh atan atan2 atanh cbrt ceil comb copysign cos "
         "cosh degrees dist erf erfc exp exp2 expm1 fabs factorial floor fmod "
         "frexp fsum gamma gcd hypot isclose isfinite isinf isnan isqrt lcm "
         "ldexp lgamma log log10 log1p log2 modf nextafter perm pow prod "
         "radians remainder sin sinh sqrt tan tanh trunc ulp"},
        {"torch",
         "Size _assert _assert_async _sym_acos _sym_asin _sym_atan _sym_ceil "
         "_sym_cos _sym_cosh _sym_floor _sym_log2 _sym_sin _sym_sinh _sym_sqrt "
         "_sym_tan _sym_tanh align_tensors as_tensor asarray autocast "
         "autocast_decrement_nesting autocast_increment_nesting can_cast "
         "clear_autocast_cache cond device dtype enable_grad finfo "

         "get_autocast_dtype get_default_device get_default_dtype "
         "get_rng_state iinfo inference_mode is_autocast_enabled "
         "is_grad_enabled is_inference_mode_enabled is_storage is_tensor "
         "lobpcg "
         "lu meshgrid no_grad pca_lowrank promote_types result_type seed "
         "set_autocast_cache_enabled set_autocast_dtype set_autocast_enabled "
         "set_grad_enabled set_rng_state split svd_lowrank sym_constrain_range "
         "sym_constrain_range_for_size sym_float sym_fresh_size sym_int "
         "sym_ite sym_max sym_min sym_not sym_sqrt sym_sum tensor typename "
         "unique unravel_index vmap"},
        {"torch._C", "_is_fwd_grad_enabled _set_fwd_grad_enabled "
                     "_set_grad_enabled"},
        {"torch._C._autograd",
         "_enter_inference_mode _exit_inference_mode "
         "_saved_tensors_hooks_disable _saved_tensors_hooks_enable"},
        {"torch.autograd.grad_mode",
         "_enter_inference_mode _exit_inference_mode"},
        {"torch.amp.autocast_mode", "_enter_autocast _exit_autocast"},
        {"torch._functorch.vmap",
         "_add_batch_dim _remove_batch_dim _vmap_decrement_nesting "
         "_vmap_increment_nesting lazy_load_decompositions"},
        {"torch._functorch.predispatch",
         "_add_batch_dim _enter_dual_level _exit_dual_level "
         "_jvp_decrement_nesting _jvp_increment_nesting _make_dual "
         "_remove_batch_dim _unpack_dual _unwrap_for_grad "
         "_vmap_decrement_nesting _vmap_increment_nesting "
         "lazy_load_decompositions"},
        {"torch._C._functorch",
         "_add_batch_dim _grad_decrement_nesting _grad_increment_nesting "
         "_jvp_decrement_nesting _jvp_increment_nesting _remove_batch_dim "
         "_unwrap_batched _unwrap_for_grad _vmap_decrement_nesting "
         "_vmap_increment_nesting _wrap_for_grad "
         "get_inplace_requires_grad_allowed set_inplace_requires_grad_allowed"},
        {"torch._functorch.eager_transforms",
         "_autograd_grad _set_tensor_requires_grad"},
        {"torch.autograd.forward_ad",
         "_maybe_load_decompositions _set_fwd_grad_enabled enter_dual_level "
         "exit_dual_level make_dual unpack_dual"},
        {"torch.cuda",
         "current_device current_stream device_count is_available stream "
         "synchronize"},
        {"torch.backends.cuda",
         "enable_cudnn_sdp enable_flash_sdp enable_math_sdp "
         "enable_mem_efficient_sdp"},
        {"torch._higher_order_ops.associative_scan", "associative_scan"},
        {"torch._higher_order_ops.cond", "cond"},
        {"torch._higher_order_ops.scan", "scan"},
        {"torch._higher_order_ops.while_loop", "while_loop"},
        {"torch.nn.attention.bias", "_materialize_causal_mask"},
        {"torch.nn.functional",
         "_canonical_mask _in_projection _in_projection_packed "
         "_threshold adaptive_avg_pool1d adaptive_avg_pool2d "
         "adaptive_avg_pool3d adaptive_max_pool1d "
         "adaptive_max_pool1d_with_indices adaptive_max_pool2d "
         "adaptive_max_pool2d_with_indices adaptive_max_pool3d "
         "adaptive_max_pool3d_with_indices affine_grid alpha_dropout "
         "avg_pool1d avg_pool2d avg_pool3d batch_norm bilinear "
         "binary_cross_entropy binary_cross_entropy_with_logits celu celu_ "
         "channel_shuffle conv1d conv2d conv3d conv_tbc conv_transpose1d "
         "conv_transpose2d conv_transpose3d cosine_embedding_loss "
         "cosine_similarity cross_entropy ctc_loss dropout dropout1d dropout2d "
         "dropout3d elu elu_ embedding embedding_bag feature_alpha_dropout "
         "fold fractional_max_pool2d fractional_max_pool2d_with_indices "
         "fractional_max_pool3d fractional_max_pool3d_with_indices "
         "gaussian_nll_loss gelu glu grid_sample group_norm grouped_mm "
         "gumbel_softmax hardshrink hardsigmoid hardswish hardtanh hardtanh_ "
         "hinge_embedding_loss huber_loss instance_norm interpolate kl_div "
         "l1_loss layer_norm leaky_relu leaky_relu_ linear "
         "linear_cross_entropy local_response_norm log_softmax logsigmoid "
         "lp_pool1d lp_pool2d lp_pool3d margin_ranking_loss max_pool1d "
         "max_pool1d_with_indices max_pool2d max_pool2d_with_indices "
         "max_pool3d max_pool3d_with_indices max_unpool1d max_unpool2d "
         "max_unpool3d mish mse_loss multi_head_attention_forward "
         "multi_margin_loss multilabel_margin_loss "
         "multilabel_soft_margin_loss native_channel_shuffle nll_loss "
         "normalize one_hot pad pairwise_distance pdist pixel_shuffle "
         "pixel_unshuffle poisson_nll_loss prelu relu relu6 relu_ rms_norm "
         "rrelu rrelu_ scaled_dot_product_attention scaled_grouped_mm "
         "scaled_mm selu selu_ sigmoid silu smooth_l1_loss soft_margin_loss "
         "softmax softmin softplus softshrink softsign tanh tanhshrink "
         "threshold threshold_ triplet_margin_loss unfold upsample "
         "upsample_bilinear upsample_nearest"},
};

/// Operators that are no ATen operators and take subgraphs.
static constexpr llvm::StringLiteral kHigherOrder =
    "_export_tracepoint associative_scan auto_functionalized "
    "auto_functionalized_v2 autograd_function_apply cond custom_function_call "
    "dynamo_bypassing_wrapper flex_attention flex_attention_backward "
    "foreach_map graphsafe_run_with_rng_state hints_wrapper invoke_quant "
    "invoke_quant_packed invoke_subgraph local_map_hop map_impl out_dtype "
    "print run_and_save_rng_state run_const_graph run_dtensor_rng_op "
    "run_with_rng_state scan strict_mode tag_activation_checkpoint while_loop "
    "while_loop_stack_output with_effects wrap wrap_activation_checkpoint "
    "wrap_with_autocast wrap_with_set_grad_enabled";

/// Methods of tensors that run no operator of the same name.
static constexpr llvm::StringLiteral kMethods =
    "__abs__ __add__ __and__ __bool__ __contains__ __eq__ __float__ "
    "__floordiv__ __ge__ __getitem__ __gt__ __iadd__ __iand__ __ifloordiv__ "
    "__ilshift__ __imod__ __imul__ __int__ __invert__ __ior__ __ipow__ "
    "__irshift__ __isub__ __itruediv__ __ixor__ __le__ __len__ __lshift__ "
    "__lt__ __matmul__ __mod__ __mul__ __ne__ __neg__ __or__ __pos__ __pow__ "
    "__radd__ __rand__ __rdiv__ __rfloordiv__ __rlshift__ __rmatmul__ "
    "__rmod__ __rmul__ __ror__ __rpow__ __rrshift__ __rshift__ __rsub__ "
    "__rtruediv__ __rxor__ __setitem__ __sub__ __truediv__ __xor__ bfloat16 "
    "bool byte cdouble cfloat chalf char cuda cpu dim_order double float "
    "get_device half int lu long ndimension nelement new new_tensor short to "
    "to_sparse_coo tolist type unflatten unique";

static constexpr llvm::StringLiteral kAttributes =
    "H T data device dtype grad imag is_cpu is_cuda is_leaf is_meta is_mkldnn "
    "is_mps is_nested is_quantized is_sparse is_sparse_csr is_xla is_xpu "
    "itemsize layout mH mT nbytes ndim real requires_grad shape type index "
    "max min eps tiny smallest_normal resolution bits";

static constexpr llvm::StringLiteral kConstants =
    "bfloat16 bit bits16 bits1x8 bits2x4 bits4x2 bits8 bool cdouble cfloat "
    "chalf complex128 complex32 complex64 double float float16 float32 "
    "float4_e2m1fn_x2 float64 float8_e4m3fn float8_e4m3fnuz float8_e5m2 "
    "float8_e5m2fnuz float8_e8m0fnu half int int1 int16 int2 int3 int32 int4 "
    "int5 int6 int64 int7 int8 long qint32 qint8 quint2x4 quint4x2 quint8 "
    "short uint1 uint16 uint2 uint3 uint32 uint4 uint5 uint6 uint64 uint7 "
    "uint8 _mkldnn jagged sparse_bsc sparse_bsr sparse_coo sparse_csc "
    "sparse_csr strided channels_last channels_last_3d contiguous_format "
    "preserve_format";

/// The words of a list of the above.
static llvm::StringSet<> split(StringRef words) {
  llvm::SmallVector<StringRef> parts;
  words.split(parts, ' ', -1, /*KeepEmpty=*/false);
  llvm::StringSet<> result;
  for (StringRef part : parts)
    result.insert(part);
  return result;
}

static bool isListedFunction(StringRef module, StringRef name) {
  static const llvm::StringSet<> kListed = [] {
    llvm::StringSet<> result;
    for (auto [module, names] : kFunctions)
      for (const auto &entry : split(names))
        result.insert((module + "." + entry.getKey()).str());
    return result;
  }();
  return kListed.contains((module + "." + name).str());
}

bool opprof::fx::isCallableMethod(StringRef name) {
  static const llvm::StringSet<> kListed = split(kMethods);
  if (kListed.contains(name))
    return true;
  return isPythonIdentifier(name) && !isDunder(name) &&
         !isRefusedOperator("aten", name) &&
         hasOperator(("aten." + name).str(), /*ofTensor=*/true);
}

bool opprof::fx::isReadableAttribute(StringRef name) {
  static const llvm::StringSet<> kListed = split(kAttributes);
  return kListed.contains(name);
}

bool opprof::fx::isTorchConstant(StringRef name) {
  static const llvm::StringSet<> kListed = split(kConstants);
  return kListed.contains(name);
}

/// True for what is no operator of a registered library: Python's functions.
static bool isPythonFunction(StringRef target) {
  StringRef root = target.split('.').first;
  return root == target || root == "builtins" || root == "math" ||
         root == "operator" || root == "_operator";
}

bool opprof::fx::isForeignOperator(StringRef target) {
  StringRef root = target.split('.').first;
  return root != "torch" && root != "higher_order" && root != "prim" &&
         !isPythonFunction(target) && !lookupSchema(target) &&
         !hasOperator(target);
}

bool opprof::fx::callsForeignOperators(mlir::Operation *program) {
  bool found = false;
  program->walk([&](NodeOp node) {
    if (node.getKind() == NodeKind::call_function)
      found |= isForeignOperator(node.getTarget());
    node.getArgs().walk([&](OpRefAttr reference) {
      found |= isForeignOperator(reference.getValue());
    });
  });
  return found;
}

bool opprof::fx::mayTakeTextBesideForeign(StringRef target) {
  // Those that look for it, and give something else.
  static const llvm::StringSet<> kLookups = {"contains", "delitem", "eq",
                                             "getitem",  "ne",      "setitem"};
  StringRef name = target;
  if (name.consume_front("operator.") || name.consume_front("_operator."))
    return kLookups.contains(name);
  return !isPythonFunction(target) && !isForeignOperator(target);
}

bool opprof::fx::isAssignment(NodeOp node) {
  return getAssignedAttribute(node) && node.getResult().use_empty();
}

std::string opprof::fx::getCallableFunction(StringRef target) {
  llvm::SmallVector<StringRef> parts;
  target.split(parts, '.');
  if (!llvm::all_of(parts, isPythonIdentifier))
    return "";
  auto [module, name] = target.rsplit('.');
  if (name.empty())
    std::swap(module, name);
  if (module == "builtins")
    module = "";
  else if (module == "builtins.dict" || module == "builtins.list")
    module = module.drop_front(strlen("builtins."));
  else if (module == "_operator")
    module = "operator";
  // Where Python defines functions of torch, by which Dynamo names them.
  else if (module == "torch.functional" || module == "torch._lowrank")
    module = "torch";
  if (isListedFunction(module, name))
    return module.empty() ? name.str() : getPythonMember(module, name);
  StringRef root = parts.front();
  if (parts.size() == 1 || root == "builtins" || root == "operator" ||
      root == "_operator" || root == "math")
    return "";
  if (root == "torch") {
    bool isKnown = module == "torch.Tensor" ||
                           module == "torch._C.TensorBase" ||
                           module == "torch._C._TensorBase"
                       ? isCallableMethod(name)
                       : isOperatorOfTorch(module, name);
    return isKnown ? getPythonMember(module, name) : "";
  }
  static const llvm::StringSet<> kOperatorsOfGraphs = split(kHigherOrder);
  if (root == "higher_order" &&
      (parts.size() != 2 || !kOperatorsOfGraphs.contains(parts[1])))
    return "";
  // TorchScript's own nodes; operators of the namespace name an overload.
  if (root == "prim" && parts.size() == 2)
    return "";
  return getOperator(parts);
}
