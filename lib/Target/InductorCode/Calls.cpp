// What the calls of a wrapper launch. Kernels, libraries, copies, and functions
// of the wrapper itself, which are followed.

#include "Interpreter.h"
#include "KernelDefinitions.h"
#include "KernelRun.h"
#include "Sizes.h"

#include "opprof/Dialect/FX/IR/Schema.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::inductor;
using namespace opprof::launch;

/// "extern_kernels.mm", "torch.ops.aten.sort.default", aliases of the module's
/// head resolved.
std::string Interpreter::resolve(const Expr &callee) const {
  std::string dotted = callee.dotted();
  auto [head, rest] = StringRef(dotted).split('.');
  auto it = aliases.find(head);
  if (it == aliases.end() || rest.empty())
    return dotted;
  return it->second + "." + rest.str();
}

WrapperLaunch *Interpreter::addLaunch(const Expr &call, StringRef kernel,
                                      LaunchKind kind, LaunchCategory category,
                                      Frame &frame) {
  if (program.launches.size() >= kMaxLaunches) {
    exhausted = true;
    return nullptr;
  }
  WrapperLaunch &launch = program.launches.emplace_back();
  launch.line = call.line;
  launch.function = frame.function;
  launch.callLines = callLines;
  launch.kernel = kernel.str();
  launch.kind = kind;
  launch.category = category;
  launch.conditional = frame.conditional;
  launch.inLoop = frame.inLoop;
  launch.sourceNodes = std::move(frame.pending.sourceNodes);
  launch.originalAten = std::move(frame.pending.originalAten);
  auto &handles = frame.pending.handles;
  for (auto it = handles.begin(); it != handles.end(); ++it)
    if (it->first == kernel || StringRef(it->first).ends_with(kernel) ||
        kernel.ends_with(it->first)) {
      launch.debugHandle = it->second;
      break;
    }
  frame.pending = PendingComments();
  return &launch;
}

void Interpreter::addOperands(WrapperLaunch &launch, const Value &value,
                              KernelParameter::Role role) {
  if (value.kind == Value::List) {
    for (const Value &item : value.items)
      addOperands(launch, item, role);
    return;
  }
  if (value.kind != Value::Tensor)
    return;
  if (++operandCount > kMaxOperands) {
    exhausted = true;
    return;
  }
  LaunchOperand &operand = launch.operands.emplace_back();
  operand.name = value.name;
  operand.storage = value.storage;
  operand.offset = value.offset;
  operand.info = value.info;
  operand.role = role;
}

namespace {
/// Every element is a number of its own.
class MadeUpMemory : public KernelMemory {
public:
  AbstractValue load(unsigned parameter, double offset) override {
    return makeInput(parameter, offset);
  }
};
} // namespace

/// A parameter's name says how it may be used, the body how it is: memory that
/// is only written before it is read is no input.
static void setRoles(const KernelBody &body, KernelDefinition &kernel) {
  std::vector<KernelArgument> arguments(body.parameters.size());
  if (kernel.parameters.size() > arguments.size())
    return;
  for (auto [i, parameter] : enumerate(kernel.parameters)) {
    if (parameter.name != body.parameters[i])
      return;
    if (parameter.role != KernelParameter::Scalar)
      arguments[i].storage = i;
    else
      arguments[i].number = 16;
  }
  MadeUpMemory memory;
  KernelResult result = runKernel(body, arguments, memory);
  SmallBitVector written(arguments.size());
  for (const KernelStore &item : result.stores)
    written.set(item.parameter);
  // What is not reached says nothing.
  if (written.none())
    return;
  for (auto [i, parameter] : enumerate(kernel.parameters)) {
    if (parameter.role == KernelParameter::Scalar ||
        (!written[i] && !result.read[i]))
      continue;
    parameter.role = !written[i]       ? KernelParameter::Input
                     : !result.read[i] ? KernelParameter::Output
                                       : KernelParameter::InOut;
  }
}

/// Sources are read when they are launched: a file can hold many that are not.
void Interpreter::readBody(KernelDefinition &kernel) {
  if (kernel.source.empty() || kernel.body)
    return;
  if (kernel.kind == LaunchKind::Triton || kernel.kind == LaunchKind::Cpp ||
      kernel.kind == LaunchKind::MultiKernel)
    kernel.body = KernelBody::parse(
        kernel.source,
        kernel.kind == LaunchKind::Cpp ? KernelBody::Cpp : KernelBody::Triton);
  kernel.source = {};
  if (kernel.body && kernel.category != LaunchCategory::Template)
    setRoles(*kernel.body, kernel);
}

Value Interpreter::launchKernel(const Expr &call, size_t index, Frame &frame) {
  // Taken by value: evaluating arguments may add kernels' storages, and the
  // list of launches may move.
  readBody(program.kernels[index]);
  const KernelDefinition &kernel = program.kernels[index];
  SmallVector<const Expr *> args = call.positional();
  std::vector<Value> values;
  bool known = true;
  for (const Expr *arg : args)
    values.push_back(evaluate(*arg, frame, known));
  WrapperLaunch *launch =
      addLaunch(call, kernel.name, kernel.kind, kernel.category, frame);
  if (!launch)
    return {};
  launch->definition = index;
  launch->firstUse = used.insert(kernel.name).second;
  for (auto [i, value] : enumerate(values)) {
    KernelParameter::Role role = KernelParameter::InOut;
    if (kernel.hasSignature)
      role = i < kernel.parameters.size() ? kernel.parameters[i].role
                                          : KernelParameter::Scalar;
    if (role != KernelParameter::Scalar) {
      size_t before = launch->operands.size();
      addOperands(*launch, value, role);
      for (size_t at = before; at < launch->operands.size(); ++at)
        launch->operands[at].parameter = i;
    } else {
      auto size = args[i]->kind == Expr::Name
                      ? computedSizes.find(args[i]->text)
                      : computedSizes.end();
      launch->scalars.push_back({i, size == computedSizes.end()
                                        ? args[i]->source.str()
                                        : std::to_string(size->second)});
    }
  }
  return {};
}

Value Interpreter::launchLibrary(const Expr &call, StringRef name,
                                 LaunchKind kind, LaunchCategory category,
                                 Frame &frame) {
  bool known = true;
  std::vector<std::pair<Value, KernelParameter::Role>> values;
  // An operator whose name ends in an underscore writes its first argument.
  StringRef family = opFamily(name);
  bool inPlace = fx::getFunctionalName(family) != family;
  bool hasOut = false;
  bool causal = false;
  for (auto [item, key] : zip(call.items.drop_front(), call.names)) {
    // out=, or out0=, out1= of a variant with several results.
    StringRef suffix = key;
    bool isOut = suffix.consume_front("out") &&
                 llvm::all_of(suffix, [](char c) { return isDigit(c); });
    hasOut |= isOut;
    Value value = evaluate(*item, frame, known);
    KernelParameter::Role role = isOut ? KernelParameter::Output
                                 : inPlace && values.empty()
                                     ? KernelParameter::InOut
                                     : KernelParameter::Input;
    causal |= key == "is_causal" && item->isName("True");
    values.push_back({std::move(value), role});
  }
  WrapperLaunch *launch = addLaunch(call, name, kind, category, frame);
  if (!launch)
    return {};
  launch->isCausal = causal;
  for (const auto &[value, role] : values)
    addOperands(*launch, value, role);
  if (hasOut || inPlace)
    return {};
  // The result's shape is learned from the checks that follow.
  Value result;
  result.kind = Value::Tensor;
  result.producer = program.launches.size() - 1;
  return result;
}

Value Interpreter::callFunction(const Stmt &function, const Expr &call,
                                Frame &frame, bool &known) {
  if (active.size() >= kMaxCallDepth || is_contained(active, &function)) {
    addLaunch(call, call.items[0]->source, LaunchKind::Subgraph,
              LaunchCategory::Extern, frame);
    known = false;
    return {};
  }
  Frame inner;
  inner.function = function.name.str();
  inner.conditional = frame.conditional;
  inner.inLoop = frame.inLoop;
  ArrayRef<StringRef> parameters = function.parameters;
  if (!parameters.empty() && parameters.front() == "self")
    parameters = parameters.drop_front();
  SmallVector<const Expr *> args = call.positional();
  for (auto [name, arg] : zip(parameters, args))
    inner.values[name] = evaluate(*arg, frame, known);
  frame.pending = PendingComments();
  callLines.push_back(call.line);
  runFunction(function, inner);
  callLines.pop_back();
  if (!inner.result)
    return {};
  keepAlive(*inner.result);
  return *inner.result;
}

static bool isCollective(StringRef name) {
  StringRef rest = name;
  rest.consume_front("torch.ops.");
  return rest.starts_with("_c10d_functional") ||
         rest.starts_with("c10d_functional") || rest.starts_with("c10d.") ||
         rest.starts_with("symm_mem.") || rest.starts_with("_dtensor.");
}

/// Calls that neither launch nor move data.
static bool isBookkeeping(StringRef name) {
  StringRef last = name.rsplit('.').second;
  if (last.empty())
    last = name;
  return StringSwitch<bool>(last)
      .Cases({"assert_size_stride", "assert_size_stride_grouped"}, true)
      .Cases({"assert_tensor_metadata", "assert_alignment", "clear"}, true)
      .Cases({"set_device", "get_raw_stream", "current_stream"}, true)
      .Cases({"synchronize", "record", "wait", "wait_stream"}, true)
      .Cases({"start_graph", "end_graph", "run_intermediate_hooks"}, true)
      .Cases({"range_push", "range_pop", "maybe_profile", "append"}, true)
      .Cases({"Event", "record_event", "wait_event", "record_stream"}, true)
      .Cases({"print", "len", "isinstance", "int", "float", "bool"}, true)
      .Cases({"size", "stride", "is_contiguous", "max", "min", "abs"}, true)
      .Cases({"ceil", "floor", "sqrt", "align", "cdiv", "device"}, true)
      .Cases({"_cuda_getCurrentRawStream", "inductor_seeds"}, true)
      .Cases({"check_memory_step", "copy_misaligned", "Size"}, true)
      .Default(false);
}

/// Calls of what the wrapper defines: K.run(…), K.K(…), K(…), f(…).
std::optional<Value> Interpreter::callDefined(const Expr &expr, Frame &frame,
                                              bool &known) {
  const Expr &callee = *expr.items[0];
  if (callee.kind == Expr::Name) {
    if (auto it = kernelIndex.find(callee.text); it != kernelIndex.end())
      return launchKernel(expr, it->second, frame);
    if (auto it = functions.find(callee.text); it != functions.end())
      return callFunction(*it->second, expr, frame, known);
  }
  if (callee.kind != Expr::Attribute || callee.items[0]->kind != Expr::Name)
    return std::nullopt;
  StringRef base = callee.items[0]->text;
  if (auto it = kernelIndex.find(base); it != kernelIndex.end())
    return launchKernel(expr, it->second, frame);
  if (callee.text == "run" && expr.keyword("stream")) {
    // A kernel that is defined in another file.
    launchLibrary(expr, base, LaunchKind::Triton,
                  categoryOfName(base, LaunchCategory::Pointwise), frame);
    if (!program.launches.empty())
      for (LaunchOperand &operand : program.launches.back().operands)
        operand.role = KernelParameter::InOut;
    return Value();
  }
  if (base == "self")
    if (auto it = functions.find(("self." + callee.text).str());
        it != functions.end())
      return callFunction(*it->second, expr, frame, known);
  return std::nullopt;
}

/// self.partitions[0](partition0_args)
std::optional<Value> Interpreter::callPartition(const Expr &expr, Frame &frame,
                                                bool &known) {
  const Expr &callee = *expr.items[0];
  if (callee.kind != Expr::Subscript ||
      callee.items[0]->source != "self.partitions")
    return std::nullopt;
  std::optional<int64_t> at = callee.items[1]->intValue();
  if (at && *at >= 0 && static_cast<size_t>(*at) < partitions.size())
    if (auto it = functions.find(partitions[*at]); it != functions.end())
      return callFunction(*it->second, expr, frame, known);
  addLaunch(expr, callee.source, LaunchKind::Subgraph, LaunchCategory::Extern,
            frame);
  known = false;
  return Value();
}

/// Calls that give a buffer without a launch: new memory, or another name or
/// layout of what is there.
std::optional<Value> Interpreter::callAllocator(const Expr &expr,
                                                StringRef name, Frame &frame,
                                                bool &known) {
  SmallVector<const Expr *> args = expr.positional();
  auto makeTensor = [&](const Expr *shape, const Expr *stride,
                        const Expr *dtype, StringRef device) {
    TensorInfo info;
    info.shape = dims(shape, frame);
    info.shapeKnown = shape;
    info.stride = dims(stride, frame);
    info.device = device.str();
    if (dtype)
      if (StringRef text = dtype->source; text.consume_front("torch."))
        info.dtype = text.str();
    return newTensor(std::move(info));
  };
  if (name.starts_with("empty_strided")) {
    StringRef device = name.drop_front(13);
    device.consume_front("_");
    if (device.starts_with("cpu"))
      device = "cpu";
    const Expr *dtype = args.size() > 2 ? args[2] : expr.keyword("dtype");
    if (const Expr *where = expr.keyword("device"))
      device = where->source;
    if (args.size() >= 2)
      return makeTensor(args[0], args[1], dtype, device);
  }
  if (name == "alloc_from_pool" && args.size() >= 5)
    return makeTensor(args[3], args[4], args[2], "");
  if (name == "reinterpret_tensor" && args.size() >= 3) {
    Value value = evaluate(*args[0], frame, known);
    value.info.shape = dims(args[1], frame);
    value.info.stride = dims(args[2], frame);
    value.info.shapeKnown = true;
    // Of a size that is a symbol, where it is by the harness's number.
    std::optional<int64_t> moved =
        args.size() > 3 ? evaluateSize(*args[3], program.sizeHints)
                        : std::optional<int64_t>(0);
    value.offset = value.offset && moved ? std::optional(*value.offset + *moved)
                                         : std::nullopt;
    if (value.kind == Value::Unknown)
      value.kind = Value::Tensor;
    value.items.clear();
    return value;
  }
  if (name == "copy_if_misaligned" && !args.empty())
    return evaluate(*args[0], frame, known);
  if ((name == "c_void_p" || name == "c_long" || name == "c_int") &&
      args.size() == 1)
    return evaluate(*args[0], frame, known);
  if (name == "rand_strided")
    return Value();
  return std::nullopt;
}

/// The value with a layout that is not known.
static Value forgetLayout(Value value) {
  value.offset.reset();
  value.info.shapeKnown = false;
  value.info.shape.clear();
  value.info.stride.clear();
  return value;
}

/// Views whose first element is that of what they show.
static bool keepsFirst(StringRef family) {
  return StringSwitch<bool>(family)
      .Cases({"alias", "detach", "view", "reshape", "_unsafe_view"}, true)
      .Cases({"permute", "transpose", "t", "unsqueeze", "squeeze"}, true)
      .Cases({"expand", "view_as_real", "view_as_complex", "_conj"}, true)
      .Default(false);
}

/// extern_kernels.mm(…), torch.ops.aten.sort.default(…)
std::optional<Value> Interpreter::callOperator(const Expr &expr, StringRef name,
                                               Frame &frame, bool &known) {
  if (name.starts_with("extern_kernels."))
    return launchLibrary(expr, name, LaunchKind::Extern, LaunchCategory::Extern,
                         frame);
  StringRef target = name;
  if (!target.consume_front("torch.ops."))
    return std::nullopt;
  if (isCollective(name))
    return launchLibrary(expr, name, LaunchKind::Collective,
                         LaunchCategory::Collective, frame);
  SmallVector<const Expr *> args = expr.positional();
  if (isViewTarget(target) && !args.empty()) {
    Value from = evaluate(*args[0], frame, known);
    // Others are counted in elements of another size or order.
    bool isStart = from.offset == 0 && keepsFirst(opFamily(target));
    Value view = forgetLayout(std::move(from));
    if (isStart)
      view.offset = 0;
    return view;
  }
  return launchLibrary(expr, name, LaunchKind::Fallback, LaunchCategory::Extern,
                       frame);
}

/// to.copy_(from)
Value Interpreter::copyTensor(const Expr &expr, Frame &frame) {
  bool known = true;
  Value to = evaluate(*expr.items[0]->items[0], frame, known);
  Value from = evaluate(*expr.positional()[0], frame, known);
  if (WrapperLaunch *launch = addLaunch(expr, "Tensor.copy_", LaunchKind::Copy,
                                        LaunchCategory::Copy, frame)) {
    addOperands(*launch, from, KernelParameter::Input);
    addOperands(*launch, to, KernelParameter::Output);
  }
  return to;
}

/// from.clone()
Value Interpreter::cloneTensor(const Expr &expr, Frame &frame) {
  bool known = true;
  Value from = evaluate(*expr.items[0]->items[0], frame, known);
  Value result = newTensor(from.info);
  if (WrapperLaunch *launch = addLaunch(expr, "Tensor.clone", LaunchKind::Copy,
                                        LaunchCategory::Copy, frame)) {
    addOperands(*launch, from, KernelParameter::Input);
    result.producer = program.launches.size() - 1;
  }
  return result;
}

/// from.item(): on a device, reading a scalar is a copy that the host waits
/// for.
Value Interpreter::readScalar(const Expr &expr, Frame &frame) {
  bool known = true;
  Value from = evaluate(*expr.items[0]->items[0], frame, known);
  keepAlive(from);
  Value scalar;
  scalar.kind = Value::Scalar;
  if (from.kind == Value::Tensor &&
      !StringRef(from.info.device).starts_with("cpu"))
    if (WrapperLaunch *launch = addLaunch(expr, "Tensor.item", LaunchKind::Copy,
                                          LaunchCategory::Copy, frame))
      addOperands(*launch, from, KernelParameter::Input);
  return scalar;
}

/// Methods of tensors.
std::optional<Value> Interpreter::callMethod(const Expr &expr, Frame &frame,
                                             bool &known) {
  const Expr &callee = *expr.items[0];
  if (callee.kind != Expr::Attribute)
    return std::nullopt;
  StringRef method = callee.text;
  if (method == "data_ptr")
    return evaluate(*callee.items[0], frame, known);
  if (method == "copy_" && !expr.positional().empty())
    return copyTensor(expr, frame);
  if (method == "clone")
    return cloneTensor(expr, frame);
  if (method == "item")
    return readScalar(expr, frame);
  if (StringSwitch<bool>(method)
          .Cases({"view", "unsqueeze", "squeeze", "t", "permute"}, true)
          .Cases({"as_strided", "detach", "expand", "reshape"}, true)
          .Default(false))
    return forgetLayout(evaluate(*callee.items[0], frame, known));
  return std::nullopt;
}

/// Anything else may launch: where a tensor goes in, it is taken to.
Value Interpreter::callUnknown(const Expr &expr, Frame &frame) {
  bool takesTensor = false;
  bool known = true;
  std::vector<Value> values;
  for (const Expr *arg : expr.items.drop_front()) {
    values.push_back(evaluate(*arg, frame, known));
    takesTensor |= values.back().kind == Value::Tensor;
  }
  if (!takesTensor)
    return {};
  std::string called = json::fixUTF8(expr.items[0]->source.take_front(200));
  WrapperLaunch *launch = addLaunch(expr, called, LaunchKind::Fallback,
                                    LaunchCategory::Extern, frame);
  if (!launch)
    return {};
  for (const Value &value : values)
    addOperands(*launch, value, KernelParameter::Input);
  Value result;
  result.kind = Value::Tensor;
  result.producer = program.launches.size() - 1;
  return result;
}

Value Interpreter::evaluateCall(const Expr &expr, Frame &frame, bool &known) {
  if (std::optional<Value> value = callDefined(expr, frame, known))
    return *value;
  if (std::optional<Value> value = callPartition(expr, frame, known))
    return *value;
  const Expr &callee = *expr.items[0];
  std::string name = resolve(callee);
  StringRef bare = callee.kind == Expr::Name ? callee.text : StringRef(name);
  if (std::optional<Value> value = callAllocator(expr, bare, frame, known))
    return *value;
  if (std::optional<Value> value = callOperator(expr, name, frame, known))
    return *value;
  if (std::optional<Value> value = callMethod(expr, frame, known))
    return *value;
  if (isBookkeeping(name)) {
    noteShapes(expr, bare, frame);
    return {};
  }
  // The statement is kept as text.
  known = false;
  return callUnknown(expr, frame);
}
