// The work of operators that a program without a graph called: the model of
// costs on what the profiler wrote of their inputs.

#include "FindingBuilder.h"

#include "opprof/Analysis/Cost/CostModel.h"
#include "opprof/Metrics/KernelFamilies.h"
#include "opprof/Trace/InputShapes.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::findings;
using namespace opprof::profile;

/// Bytes of an element of a type as the profiler names it; 0 for what is no
/// type of a tensor.
static unsigned getElementBytes(StringRef type) {
  return StringSwitch<unsigned>(type)
      .Cases({"float", "int", "unsigned int"}, 4)
      .Cases({"double", "long int", "long", "unsigned long",
              "c10::complex<float>"},
             8)
      .Cases({"c10::Half", "c10::BFloat16", "short int", "short",
              "unsigned short"},
             2)
      .Cases({"bool", "unsigned char", "signed char"}, 1)
      .Case("c10::complex<double>", 16)
      .Default(type.starts_with("c10::Float8") ? 1 : 0);
}

/// The tensors among the inputs, in order. Where a trace has their sizes and no
/// types, those that have sizes: numbers have none.
static SmallVector<TensorShape> readTensors(const OperatorTime &op) {
  SmallVector<TensorShape> tensors;
  std::vector<trace::InputShape> shapes = trace::readInputShapes(op.inputDims);
  std::vector<std::string> types = trace::readInputTexts(op.inputTypes);
  if (types.empty())
    for (const trace::InputShape &shape : shapes)
      for (const std::vector<int64_t> &sizes : shape.tensors)
        if (!sizes.empty())
          tensors.push_back({SmallVector<int64_t, 4>(ArrayRef(sizes)), 0});
  if (shapes.size() != types.size())
    return tensors;
  for (auto [shape, type] : llvm::zip(shapes, types)) {
    unsigned bytes = getElementBytes(type);
    if (!bytes && !shape.isList)
      continue;
    for (const std::vector<int64_t> &sizes : shape.tensors)
      tensors.push_back({SmallVector<int64_t, 4>(ArrayRef(sizes)), bytes});
  }
  return tensors;
}

/// The numbers in "[2, 2]" or "2".
static SmallVector<int64_t> readNumbers(StringRef text) {
  SmallVector<int64_t> numbers;
  SmallVector<StringRef> parts;
  text.trim("[]").split(parts, ',', -1, /*KeepEmpty=*/false);
  for (StringRef part : parts) {
    int64_t number;
    if (part.trim().getAsInteger(10, number))
      return {};
    numbers.push_back(number);
  }
  return numbers;
}

/// What a convolution gives, from its stride, padding and dilation.
static std::optional<TensorShape> convolve(const TensorShape &input,
                                           const TensorShape &weight,
                                           ArrayRef<std::string> values,
                                           size_t first) {
  size_t rank = input.sizes.size();
  if (rank < 3 || weight.sizes.size() != rank || values.size() < first + 3)
    return std::nullopt;
  SmallVector<int64_t> stride = readNumbers(values[first]),
                       padding = readNumbers(values[first + 1]),
                       dilation = readNumbers(values[first + 2]);
  const bool keepsSizes = values[first + 1] == "same";
  if (keepsSizes || values[first + 1] == "valid")
    padding = {0};
  TensorShape output = input;
  output.sizes[1] = weight.sizes[0];
  for (size_t at = 2; at < rank; ++at) {
    auto of = [&](ArrayRef<int64_t> list) -> std::optional<int64_t> {
      if (list.empty())
        return std::nullopt;
      int64_t number = list[std::min(at - 2, list.size() - 1)];
      return number >= 0 && number < (1 << 20) ? std::optional(number)
                                               : std::nullopt;
    };
    std::optional<int64_t> step = of(stride), pad = of(padding),
                           spread = of(dilation);
    if (!step || !*step || !pad || !spread || input.sizes[at] > (1 << 30) ||
        weight.sizes[at] > (1 << 20))
      return std::nullopt;
    if (keepsSizes)
      continue;
    int64_t room =
        input.sizes[at] + 2 * *pad - *spread * (weight.sizes[at] - 1) - 1;
    if (room < 0)
      return std::nullopt;
    output.sizes[at] = room / *step + 1;
  }
  return output;
}

/// Views that copy where no view can be had: what ran a kernel of a device
/// copied.
static bool isCopyWhereNoView(StringRef name) {
  return llvm::is_contained(
      {"reshape", "reshape_as", "flatten", "contiguous", "type_as"}, name);
}

/// Operators that answer yes or no for each element. In place, the answer has
/// the type of what it is written over.
static bool isPredicate(StringRef name) {
  return llvm::is_contained({"eq", "ne", "lt", "le", "gt", "ge", "isnan",
                             "isinf", "isfinite", "isneginf", "isposinf",
                             "logical_and", "logical_or", "logical_not",
                             "logical_xor"},
                            name);
}

/// What element-wise operators give: the sizes that all inputs stretch to. The
/// type is that of the first one that is no number and no mask.
static TensorShape broadcast(ArrayRef<TensorShape> inputs) {
  const TensorShape *typed =
      llvm::find_if(inputs, [](const TensorShape &input) {
        return !input.sizes.empty() && input.elementBytes != 1;
      });
  TensorShape output = inputs.front();
  if (typed != inputs.end())
    output.elementBytes = typed->elementBytes;
  for (const TensorShape &input : inputs.drop_front()) {
    if (input.sizes.size() > output.sizes.size())
      output.sizes.insert(output.sizes.begin(),
                          input.sizes.size() - output.sizes.size(), 1);
    size_t skipped = output.sizes.size() - input.sizes.size();
    for (auto [at, size] : llvm::enumerate(input.sizes))
      output.sizes[skipped + at] = std::max(output.sizes[skipped + at], size);
  }
  return output;
}

/// The product of two matrices, or of two batches of them; none where their
/// sizes do not fit.
static std::optional<TensorShape> multiply(const TensorShape &a,
                                           const TensorShape &b) {
  if (a.sizes.size() < 2 || b.sizes.size() < 2)
    return std::nullopt;
  TensorShape output = a.sizes.size() >= b.sizes.size() ? a : b;
  output.elementBytes = a.elementBytes;
  output.sizes[output.sizes.size() - 2] = a.sizes[a.sizes.size() - 2];
  output.sizes.back() = b.sizes.back();
  return output;
}

/// What the operator gives, as far as its inputs say; the profiler does not.
static std::optional<TensorShape> deriveOutput(StringRef name, WorkKind kind,
                                               ArrayRef<TensorShape> inputs,
                                               ArrayRef<std::string> values) {
  if (inputs.empty())
    return std::nullopt;
  size_t count = inputs.size();
  if (kind == WorkKind::Pointwise) {
    TensorShape output = broadcast(inputs);
    if (name == "where" && count == 3)
      output.elementBytes = broadcast(inputs.drop_front()).elementBytes;
    if (isPredicate(name))
      output.elementBytes = 1;
    return output;
  }
  if ((name == "mm" || name == "bmm" || name == "matmul") && count >= 2)
    return multiply(inputs[0], inputs[1]);
  if ((name == "addmm" || name == "baddbmm") && count >= 3)
    return multiply(inputs[1], inputs[2]);
  if (name == "linear" && count >= 2 && !inputs[0].sizes.empty() &&
      !inputs[1].sizes.empty()) {
    TensorShape output = inputs[0];
    output.sizes.back() = inputs[1].sizes.front();
    return output;
  }
  if (name == "scaled_dot_product_attention" && count >= 3 &&
      !inputs[0].sizes.empty() && !inputs[2].sizes.empty()) {
    TensorShape output = inputs[0];
    output.sizes.back() = inputs[2].sizes.back();
    return output;
  }
  if ((name == "conv1d" || name == "conv2d" || name == "conv3d" ||
       name == "convolution" || name == "_convolution") &&
      count >= 2)
    return convolve(inputs[0], inputs[1], values, 3);
  if (name == "type_as" && count >= 2) {
    TensorShape output = inputs[0];
    output.elementBytes = inputs[1].elementBytes;
    return output;
  }
  if (isCopyWhereNoView(name))
    return inputs.front();
  if (name.ends_with("_norm") || name.ends_with("softmax") || name == "clone" ||
      name == "copy_")
    return inputs.front();
  if (name == "embedding" && count >= 2 && inputs[0].sizes.size() == 2) {
    TensorShape output = inputs[1];
    output.sizes.push_back(inputs[0].sizes[1]);
    output.elementBytes = inputs[0].elementBytes;
    return output;
  }
  return std::nullopt;
}

StringRef findings::nameOfATen(StringRef op) {
  if (op.consume_front("aten::"))
    return op;
  // Of serving on AMD's devices: rows, weights as linear has them, a bias.
  return llvm::StringSwitch<StringRef>(op)
      .Cases({"aiter::gemm_a16w16", "vllm::rocm_unquantized_gemm",
              "vllm::rocm_unquantized_gemm_impl"},
             "linear")
      .Default("");
}

/// Sets the work of one call. Of a processor's operators, which are what runs,
/// none tells whether it copied or gave a view.
static void setCost(OperatorTime &op, bool isOnHost) {
  StringRef name = nameOfATen(op.name);
  if (name.empty())
    return;
  std::string target = "aten." + name.str();
  SmallVector<TensorShape> inputs = readTensors(op);
  std::vector<std::string> values = trace::readInputTexts(op.inputValues);
  WorkKind kind = getWorkKind(target);
  bool isCopy = isCopyWhereNoView(name);
  if (isOnHost && isCopy)
    return;
  // Another view that ran a kernel did something that the model does not know.
  if (inputs.empty() || (kind == WorkKind::View && !isCopy) ||
      kind == WorkKind::Unknown)
    return;
  // What they multiply is calls of their own in a trace.
  if (name == "_native_multi_head_attention" ||
      name == "_transformer_encoder_layer_fwd")
    return;
  std::optional<TensorShape> output = deriveOutput(name, kind, inputs, values);
  OperatorCall call;
  call.target = isCopy ? StringRef("aten.clone") : StringRef(target);
  call.inputs = inputs;
  if (isCopy)
    call.inputs = call.inputs.take_front();
  if (output)
    call.outputs = *output;
  // What is copied to is not read.
  if (name == "copy_" && inputs.size() == 2)
    call.inputs = call.inputs.drop_front();
  bool isConvolution = name.contains("conv");
  size_t groups = name == "convolution" || name == "_convolution" ? 8 : 6;
  if (isConvolution && values.size() > groups)
    if (SmallVector<int64_t> number = readNumbers(values[groups]);
        number.size() == 1)
      call.groups = number.front();
  if (isConvolution && groups == 8 && values.size() > 6)
    call.isTransposed = values[6] == "True";
  if (name == "scaled_dot_product_attention" && values.size() > 5)
    call.isCausal = values[5] == "True";
  SmallVector<int64_t> dims;
  if (name.starts_with("_fft_") && values.size() > 1)
    dims = readNumbers(values[1]);
  call.dims = dims;
  OperatorCost cost = estimateCost(call);
  op.flops = cost.flops;
  op.bytesRead = cost.bytesRead;
  if (output)
    op.bytesWritten = cost.bytesWritten;
}

void findings::costOperators(Profile &profile) {
  auto isHost = [](const Device &device) { return device.kind == "cpu"; };
  bool isOnHost =
      !profile.devices.empty() && llvm::all_of(profile.devices, isHost);
  for (OperatorTime &op : profile.operators)
    setCost(op, isOnHost);
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

namespace {
/// The inputs of a call of attention, as far as fused ones ask for them.
struct AttentionCall {
  TensorShape query, key, value;
  StringRef type;
  bool hasMask = false;
};
} // namespace

static std::optional<AttentionCall> readAttention(const OperatorTime &op) {
  std::vector<trace::InputShape> shapes = trace::readInputShapes(op.inputDims);
  std::vector<std::string> types = trace::readInputTexts(op.inputTypes);
  if (shapes.size() < 3 || types.size() != shapes.size())
    return std::nullopt;
  AttentionCall call;
  TensorShape *inputs[] = {&call.query, &call.key, &call.value};
  for (auto [input, shape] : llvm::zip(inputs, shapes)) {
    if (shape.isList || shape.tensors.empty())
      return std::nullopt;
    input->sizes.assign(shape.tensors.front().begin(),
                        shape.tensors.front().end());
  }
  for (StringRef known : {"float", "double", "c10::Half", "c10::BFloat16"})
    if (types.front() == known)
      call.type = known;
  call.hasMask = shapes.size() > 3 && !shapes[3].tensors.empty() &&
                 !shapes[3].tensors.front().empty();
  return call;
}

/// What PyTorch's checks (sdp_utils) of FlashAttention, or of memory-efficient
/// attention, say of the call.
static AttentionRefusal refuse(const AttentionCall &call, bool isFlash) {
  bool isHalf = call.type == "c10::Half" || call.type == "c10::BFloat16";
  bool isTaken = isFlash ? isHalf : isHalf || call.type == "float";
  if (!isTaken)
    return AttentionRefusal::Type;
  for (const TensorShape *input : {&call.query, &call.key, &call.value})
    if (input->sizes.size() != 4)
      return AttentionRefusal::Rank;
  int64_t size = call.query.sizes.back();
  if (call.key.sizes.back() != size)
    return AttentionRefusal::HeadSize;
  if (isFlash && (size > 256 || call.value.sizes.back() != size))
    return AttentionRefusal::HeadSize;
  // Sixteen bytes at once.
  int64_t aligned = call.type == "float" ? 4 : 8;
  if (!isFlash && (size % aligned || call.value.sizes.back() % aligned))
    return AttentionRefusal::Alignment;
  if (isFlash && call.hasMask)
    return AttentionRefusal::Mask;
  return AttentionRefusal::Unknown;
}

void findings::addUnfusedAttention(Context &context) {
  const Profile &profile = context.profile;
  // By operator: steady kernels, their time, and whether one is fused.
  struct Ran {
    uint64_t kernels = 0;
    int64_t timeNs = 0;
    bool isFused = false;
  };
  std::map<uint32_t, Ran> calls;
  for (const Activity *kernel : context.kernels) {
    if (!kernel->op || profile.operators[*kernel->op].name !=
                           "aten::scaled_dot_product_attention")
      continue;
    Ran &ran = calls[*kernel->op];
    ++ran.kernels;
    ran.timeNs += kernel->durationNs;
    const metrics::KernelFamily *family =
        metrics::findKernelFamily(kernel->name);
    ran.isFused |= family && family->work == metrics::KernelWork::Attention;
  }
  evidence::UnfusedAttention found;
  int64_t longest = -1;
  for (const auto &[place, ran] : calls) {
    const OperatorTime &op = profile.operators[place];
    // One kernel is a fused one that no one knows.
    if (ran.isFused || ran.kernels < 2 * std::max<uint64_t>(op.calls, 1))
      continue;
    found.calls += op.calls;
    found.kernels += ran.kernels;
    found.timeNs += ran.timeNs;
    std::optional<AttentionCall> call = readAttention(op);
    if (ran.timeNs <= longest || !call)
      continue;
    longest = ran.timeNs;
    found.inputDims = op.inputDims;
    found.flash = refuse(*call, /*isFlash=*/true);
    found.efficient = refuse(*call, /*isFlash=*/false);
  }
  if (!found.kernels)
    return;
  found.sharePct = percentOf(found.timeNs, context.kernelTimeNs);
  int64_t cost = context.perStep(found.timeNs);
  context.add(std::move(found)).severityNsPerStep = cost;
}
