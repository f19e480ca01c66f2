// The kinds of nodes, one by one.

#include "Translator.h"

#include "opprof/Torch/Archive.h"

#include <torch/csrc/jit/ir/constants.h>

using namespace opprof::torchscript;
using namespace torch::jit;

//===----------------------------------------------------------------------===//
// TorchScript's own nodes
//===----------------------------------------------------------------------===//

bool Translator::translatePrimitive(Node *node) {
  switch (node->kind()) {
  case prim::Constant:
    translateConstant(node);
    return true;
  case prim::GetAttr:
    translateGetAttr(node);
    return true;
  case prim::SetAttr:
    translateSetAttr(node);
    return true;
  case prim::If:
    translateIf(node);
    return true;
  case prim::Loop:
    translateLoop(node);
    return true;
  case prim::Uninitialized:
    bind(node->output(), makeKnown({}));
    return true;
  case prim::unchecked_cast:
  case prim::unchecked_unwrap_optional:
  case aten::_unwrap_optional:
    bind(node->output(), get(node->input()));
    return true;
  case aten::warn:
    // Says something to people, and is part of no graph of PyTorch's.
    return true;
  case prim::RaiseException:
    emitPython(node, "torch._assert", {makeKnown(false), get(node->input(0))},
               /*acts=*/true);
    return true;
  default:
    return false;
  }
}

/// Lists, tuples and dictionaries stand in the arguments of what takes them.
bool Translator::translateConstruction(Node *node) {
  Binding::Form form;
  switch (node->kind()) {
  case prim::ListConstruct:
    form = Binding::List;
    break;
  case prim::TupleConstruct:
    form = Binding::Tuple;
    break;
  case prim::DictConstruct:
    form = Binding::Dict;
    break;
  default:
    return false;
  }
  std::vector<BindingRef> elements;
  for (const Value *input : node->inputs())
    elements.push_back(get(input));
  bindContainer(node, form, std::move(elements));
  return true;
}

bool Translator::translateUnpacking(Node *node) {
  bool isUnpack =
      node->kind() == prim::TupleUnpack || node->kind() == prim::ListUnpack;
  bool isIndex = node->kind() == prim::TupleIndex;
  if (node->kind() == prim::TupleSlice) {
    auto slice =
        form("slice", listText({std::to_string(node->i(attr::beg)),
                                std::to_string(node->i(attr::end)), "null"}));
    NodeRecord record = makeRecord(node, "operator.getitem", "getitem");
    addArgument(record, get(node->input()));
    addText(record, slice);
    emit(node, std::move(record));
    return true;
  }
  if (!isUnpack && !isIndex)
    return false;
  BindingRef base = get(node->input(0));
  auto elements = getElements(*base);
  if (isIndex) {
    auto index = getKnownInt(node->input(1));
    if (!elements || !index) {
      emitPython(node, "operator.getitem", {base, get(node->input(1))});
      return true;
    }
    auto place = toPlace(*index, elements->size());
    if (!place)
      throw InputError("a tuple has no element " + std::to_string(*index));
    bind(node->output(), (*elements)[*place]);
    return true;
  }
  for (size_t i = 0; i < node->outputs().size(); ++i) {
    const Value *output = node->outputs()[i];
    if (elements && elements->size() == node->outputs().size()) {
      bind(output, (*elements)[i]);
    } else if (!output->hasUses()) {
      continue;
    } else {
      std::string name = base->node;
      if (name.empty())
        throw InputError(
            "a list of " + std::to_string(elements ? elements->size() : 0) +
            " is taken apart into " + std::to_string(node->outputs().size()));
      bind(output, makeNode(emitGetItem(node, name, i,
                                        addType(file, getType(output)))));
    }
  }
  return true;
}

//===----------------------------------------------------------------------===//
// What is known before the graph runs
//===----------------------------------------------------------------------===//

/// Sizes and the like of a tensor that a run has seen, where they are always
/// the same.
bool Translator::translateMetadata(Node *node) {
  std::string name = node->kind().toQualString();
  // The run computes no gradients, and the graph is that of the run.
  if (runner &&
      (name == "aten::is_grad_enabled" || name == "aten::is_autocast_enabled" ||
       name == "aten::is_autocast_cpu_enabled")) {
    bind(node->output(), makeKnown(false));
    return true;
  }
  if (node->outputs().size() != 1 || node->inputs().empty())
    return false;
  const Value *first = node->input(0);
  if (translateFlag(node, name))
    return true;
  const ValueType *type = changesMetadata ? nullptr : lookUpFixedType(first);
  if (!type || !type->hasStaticSizes())
    return false;
  c10::IValue known;
  if (name == "aten::size" && node->inputs().size() == 1) {
    if (!isNeverWritten(node->output()))
      return false;
    known = type->sizes;
  } else if (name == "aten::size") {
    auto index = getKnownInt(node->input(1));
    auto place = index ? toPlace(*index, type->sizes.size()) : std::nullopt;
    if (!place)
      return false;
    known = type->sizes[*place];
  } else if (name == "aten::numel") {
    known = c10::multiply_integers(type->sizes);
  } else if (name == "aten::len" && !type->sizes.empty()) {
    known = type->sizes.front();
  } else if (name == "aten::element_size" || name == "prim::itemsize") {
    known = static_cast<int64_t>(c10::elementSize(type->dtype));
  } else if (name == "aten::dim") {
    known = static_cast<int64_t>(type->sizes.size());
  } else if (name == "prim::dtype") {
    known = static_cast<int64_t>(type->dtype);
  } else if (name == "prim::device") {
    known = c10::Device(type->device);
    if (followsDevices) {
      emitPython(node, "builtins.getattr",
                 {get(first), makeKnown(std::string("device"))});
      bind(node->output(), makeKnown(known, get(node->output())->node));
      return true;
    }
  } else if (name == "prim::layout" && type->layout.empty()) {
    known = static_cast<int64_t>(c10::Layout::Strided);
  } else if (name == "prim::is_cuda") {
    known = type->device.rfind("cuda", 0) == 0;
  } else if (name == "aten::is_floating_point") {
    known = c10::isFloatingType(type->dtype);
  } else if (name == "aten::is_complex") {
    known = c10::isComplexType(type->dtype);
  } else {
    return false;
  }
  bind(node->output(), makeKnown(known));
  return true;
}

/// What a plain tensor is and is not.
bool Translator::translateFlag(Node *node, const std::string &name) {
  static const std::map<std::string, bool> kFlags = {
      {"prim::is_nested", false},    {"prim::is_quantized", false},
      {"prim::is_sparse", false},    {"prim::is_sparse_csr", false},
      {"prim::is_mkldnn", false},    {"prim::is_meta", false},
      {"prim::is_vulkan", false},    {"prim::is_mps", false},
      {"prim::is_xpu", false},       {"prim::is_ipu", false},
      {"prim::is_maia", false},      {"prim::is_mtia", false},
      {"prim::requires_grad", false}};
  auto flag = kFlags.find(name);
  const ValueType *type =
      flag != kFlags.end() ? lookUpFixedType(node->input(0)) : nullptr;
  if (!type || type->kind != ValueType::Tensor || !type->layout.empty() ||
      c10::isQIntType(type->dtype) || type->device.rfind("cpu", 0) != 0)
    return false;
  bool isSet =
      name == "prim::requires_grad" ? type->requiresGrad : flag->second;
  bind(node->output(), makeKnown(isSet));
  return true;
}

/// True where the operator does nothing but compute its outputs.
static bool isPure(const Node *node) {
  const c10::FunctionSchema *schema = node->maybeSchema();
  if (!schema || schema->is_vararg() || node->hasSideEffects() ||
      node->isNondeterministic() || !node->blocks().empty())
    return false;
  for (const c10::Argument &argument : schema->arguments())
    if (argument.alias_info() && argument.alias_info()->isWrite())
      return false;
  return true;
}

bool opprof::torchscript::isNumber(const c10::IValue &value) {
  if (!value.isTensor())
    return value.isEnum() || value.isInt() || value.isDouble() ||
           value.isBool() || value.isNone() || value.isString() ||
           value.isDevice() || value.isIntList() || value.isDoubleList() ||
           value.isTuple();
  const at::Tensor &tensor = value.toTensor();
  return tensor.defined() && tensor.dim() == 0 && tensor.device().is_cpu() &&
         tensor.layout() == at::kStrided && !tensor.is_quantized();
}

/// Runs an operator on numbers that are known.
bool Translator::translateKnown(Node *node) {
  if (!isPure(node) || node->outputs().size() != 1 || !node->maybeOperator() ||
      node->inputs().empty())
    return false;
  std::string name = node->kind().toQualString();
  std::vector<c10::IValue> stack;
  for (const Value *input : node->inputs()) {
    auto known = getKnownNumbers(input);
    if (!known)
      return false;
    stack.push_back(*std::move(known));
  }
  const c10::TypeKind kind = node->output()->type()->kind();
  bool givesTensor = kind == c10::TypeKind::TensorType;
  // Tensors that are made to be one, such as torch.zeros([]), stay nodes.
  bool isArithmetic = name == "prim::NumToTensor";
  for (const c10::IValue &input : stack)
    isArithmetic |= input.isTensor();
  if ((givesTensor && (!isArithmetic || !isNeverWritten(node->output()))) ||
      (kind == c10::TypeKind::ListType && !isNeverWritten(node->output())))
    return false;
  try {
    at::NoGradGuard noGradient;
    node->getOperation()(stack);
  } catch (const std::exception &) {
    // It fails when the graph runs, if it does.
    return false;
  }
  if (stack.empty() || !isNumber(stack.back()))
    return false;
  if (!givesTensor) {
    bind(node->output(), makeKnown(stack.back()));
    return true;
  }
  // The node stays for what takes the tensor.
  if (!translateNumToTensor(node))
    translateOperator(node);
  bind(node->output(), makeKnown(stack.back(), get(node->output())->node));
  return true;
}

//===----------------------------------------------------------------------===//
// What is Python in an exported graph
//===----------------------------------------------------------------------===//

static bool isContainer(const Value *value) {
  c10::TypeKind kind = value->type()->kind();
  return kind == c10::TypeKind::ListType || kind == c10::TypeKind::DictType ||
         kind == c10::TypeKind::StringType || kind == c10::TypeKind::TupleType;
}

static bool isScalar(const Value *value) {
  c10::TypeKind kind = value->type()->kind();
  return kind == c10::TypeKind::IntType || kind == c10::TypeKind::FloatType ||
         kind == c10::TypeKind::BoolType;
}

/// Changes of a list: PyTorch's operators called from Python change a copy.
bool Translator::translateListChange(Node *node, const std::string &name) {
  auto arg = [&](size_t i) { return get(node->input(i)); };
  auto makeSlice = [&](NodeRecord &record, const BindingRef &start,
                       const BindingRef &stop, const BindingRef &step) {
    NodeRecord parts;
    for (const BindingRef &part : {start, stop, step})
      addArgument(parts, part);
    addText(record, form("slice", listText(parts.args)));
    record.uses.insert(record.uses.end(), parts.uses.begin(), parts.uses.end());
  };
  auto makeList = [&](BindingRef element) {
    auto list = std::make_shared<Binding>();
    list->form = Binding::List;
    list->elements = {std::move(element)};
    return BindingRef(list);
  };
  BindingRef none = makeKnown({});
  if (node->input(0)->type()->kind() == c10::TypeKind::DictType)
    return translateDictChange(node, name);
  if (name == "aten::append") {
    emitPython(node, "operator.iadd", {arg(0), makeList(arg(1))}, true);
  } else if (name == "aten::extend" || name == "aten::add_") {
    emitPython(node, "operator.iadd", {arg(0), arg(1)}, true);
  } else if (name == "aten::_set_item") {
    emitPython(node, "operator.setitem", {arg(0), arg(1), arg(2)}, true);
  } else if (name == "aten::Delete" || name == "aten::__delitem__") {
    emitPython(node, "operator.delitem", {arg(0), arg(1)}, true);
  } else if (name == "aten::clear" || name == "aten::insert") {
    bool isInsert = name == "aten::insert";
    NodeRecord record =
        makeRecord(node, isInsert ? "operator.setitem" : "operator.delitem");
    addArgument(record, arg(0));
    makeSlice(record, isInsert ? arg(1) : none, isInsert ? arg(1) : none, none);
    if (isInsert)
      addArgument(record, makeList(arg(2)));
    record.acts = true;
    emit(node, std::move(record));
  } else if (name == "aten::pop" && node->inputs().size() == 2 &&
             node->input(0)->type()->kind() == c10::TypeKind::ListType) {
    emitPython(node, "operator.getitem", {arg(0), arg(1)}, true);
    NodeRecord record = makeRecord(node, "operator.delitem");
    addArgument(record, arg(0));
    addArgument(record, arg(1));
    record.acts = true;
    record.type = file.types.add("\"none\"");
    nodes->push_back(std::move(record));
  } else if (name == "aten::mul_") {
    emitPython(node, "operator.imul", {arg(0), arg(1)}, true);
  } else if (name == "aten::reverse") {
    emitPython(node, "builtins.list.reverse", {arg(0)}, true);
  } else if (name == "aten::remove" &&
             !holdsKind(*node->input(1)->type(), c10::TypeKind::TensorType)) {
    emitPython(node, "builtins.list.remove", {arg(0), arg(1)}, true);
  } else if (name == "aten::sort" && node->inputs().size() == 2 &&
             node->input(0)->type()->kind() == c10::TypeKind::ListType) {
    NodeRecord record = makeRecord(node, "builtins.list.sort");
    addArgument(record, arg(0));
    addKeyword(record, "reverse", arg(1));
    record.acts = true;
    emit(node, std::move(record));
  } else if (name == "aten::slice") {
    NodeRecord record = makeRecord(node, "operator.getitem", "getitem");
    addArgument(record, arg(0));
    makeSlice(record, arg(1), arg(2), arg(3));
    emit(node, std::move(record));
  } else {
    return false;
  }
  return true;
}

/// What dictionaries do by methods, and TorchScript by operators that Python
/// cannot call, because they take dictionaries of any type.
bool Translator::translateDictChange(Node *node, const std::string &name) {
  static const std::map<std::string, std::pair<std::string, bool>> kMethods = {
      {"aten::_set_item", {"operator.setitem", true}},
      {"aten::Delete", {"operator.delitem", true}},
      {"aten::__delitem__", {"operator.delitem", true}},
      {"aten::clear", {"builtins.dict.clear", true}},
      {"aten::pop", {"builtins.dict.pop", true}},
      {"aten::setdefault", {"builtins.dict.setdefault", true}},
      {"aten::update", {"builtins.dict.update", true}},
      {"aten::get", {"builtins.dict.get", false}},
      {"aten::copy", {"builtins.dict", false}}};
  std::vector<BindingRef> args;
  for (const Value *input : node->inputs())
    args.push_back(get(input));
  if (auto found = kMethods.find(name); found != kMethods.end()) {
    emitPython(node, found->second.first, args, found->second.second);
    return true;
  }
  // These stand before what gives the node's own result.
  auto emitStep = [&](const std::string &target,
                      const std::vector<BindingRef> &inputs, bool acts) {
    NodeRecord record = makeRecord(node, target);
    for (const BindingRef &input : inputs)
      addArgument(record, input);
    record.acts = acts;
    std::string step = record.name;
    nodes->push_back(std::move(record));
    return makeNode(step);
  };
  if (name == "aten::values" || name == "aten::items") {
    BindingRef view = emitStep(name == "aten::values" ? "builtins.dict.values"
                                                      : "builtins.dict.items",
                               args, /*acts=*/false);
    emitPython(node, "builtins.list", {view});
    return true;
  }
  if (name != "aten::popitem")
    return false;
  // The first entry, where Python's method takes the last.
  BindingRef keys = emitStep("builtins.list", args, /*acts=*/false);
  BindingRef key = emitStep("operator.getitem",
                            {keys, makeKnown(static_cast<int64_t>(0))}, false);
  BindingRef value = emitStep("builtins.dict.pop", {args[0], key}, true);
  auto entry = std::make_shared<Binding>();
  entry->form = Binding::Tuple;
  entry->elements = {key, value};
  bind(node->output(), entry);
  return true;
}

/// The dtype of a tensor that TorchScript makes of one number; null for what is
/// none.
static const char *getNumberDType(c10::TypeKind kind) {
  switch (kind) {
  case c10::TypeKind::IntType:
    return "int64";
  case c10::TypeKind::FloatType:
    return "float64";
  case c10::TypeKind::BoolType:
    return "bool";
  case c10::TypeKind::ComplexType:
    return "complex128";
  default:
    return nullptr;
  }
}

/// A tensor of one number, whose type to TorchScript is the number's.
bool Translator::translateNumToTensor(Node *node) {
  if (node->kind() != prim::NumToTensor || !isScalar(node->input()))
    return false;
  NodeRecord record = makeRecord(node, "torch.tensor");
  addArgument(record, get(node->input()));
  record.kwargs.emplace_back(
      "dtype",
      form("dtype", quote(getNumberDType(node->input()->type()->kind()))));
  emit(node, std::move(record));
  return true;
}

/// A tensor of numbers in lists. TorchScript makes one of the lists' type,
/// which an empty list has too, and of that the one that is asked for.
bool Translator::translateTensorOfList(Node *node) {
  const c10::FunctionSchema *schema = node->maybeSchema();
  std::string name = node->kind().toQualString();
  if (!schema || (name != "aten::tensor" && name != "aten::as_tensor") ||
      node->input(0)->type()->kind() != c10::TypeKind::ListType)
    return false;
  // Tracked gradients are what no graph of inference has.
  if (node->inputs().size() > 3) {
    auto requiresGrad = getKnown(*get(node->input(3)));
    if (!requiresGrad || !requiresGrad->isBool() || requiresGrad->toBool())
      return false;
  }
  c10::TypePtr element = node->input(0)->type();
  while (auto list = element->cast<c10::ListType>())
    element = list->getElementType();
  const char *dtype = getNumberDType(element->kind());
  if (!dtype)
    return false;
  NodeRecord made = makeRecord(node, "torch.tensor");
  addArgument(made, get(node->input(0)));
  // Numbers with a point have the default one there as here.
  if (element->kind() != c10::TypeKind::FloatType)
    made.kwargs.emplace_back("dtype", form("dtype", quote(dtype)));
  BindingRef wantedType = get(node->input(1)),
             wantedPlace = get(node->input(2));
  auto isLeftOut = [&](const BindingRef &binding) {
    auto known = getKnown(*binding);
    return known && known->isNone();
  };
  if (isLeftOut(wantedType) && isLeftOut(wantedPlace)) {
    emit(node, std::move(made));
    return true;
  }
  std::string base = made.name;
  nodes->push_back(std::move(made));
  NodeRecord record = makeRecord(node, "aten.to.dtype_layout");
  addArgument(record, makeNode(base));
  static const c10::TypePtr kDType = c10::ScalarTypeType::get();
  if (!isLeftOut(wantedType))
    addKeyword(record, "dtype", wantedType, kDType.get());
  if (!isLeftOut(wantedPlace))
    addKeyword(record, "device", wantedPlace);
  emit(node, std::move(record));
  return true;
}

bool Translator::translateScalars(Node *node, const std::string &name) {
  static const std::map<std::string, std::string> kFunctions = {
      {"aten::add", "operator.add"},
      {"aten::sub", "operator.sub"},
      {"aten::mul", "operator.mul"},
      {"aten::div", "operator.truediv"},
      {"aten::floordiv", "operator.floordiv"},
      {"aten::remainder", "operator.mod"},
      {"aten::neg", "operator.neg"},
      {"aten::lt", "operator.lt"},
      {"aten::le", "operator.le"},
      {"aten::gt", "operator.gt"},
      {"aten::ge", "operator.ge"},
      {"aten::eq", "operator.eq"},
      {"aten::ne", "operator.ne"},
      {"aten::__and__", "operator.and_"},
      {"aten::__or__", "operator.or_"},
      {"aten::__not__", "operator.not_"},
      {"prim::max", "builtins.max"},
      {"prim::min", "builtins.min"},
      {"aten::Int", "builtins.int"},
      {"aten::Float", "builtins.float"},
      {"aten::Bool", "builtins.bool"}};
  auto function = kFunctions.find(name);
  if (function == kFunctions.end() || node->outputs().size() != 1)
    return false;
  for (const Value *input : node->inputs())
    if (!isScalar(input))
      return false;
  std::vector<BindingRef> args;
  for (const Value *input : node->inputs())
    args.push_back(get(input));
  emitPython(node, function->second, args);
  return true;
}

/// Whether the value is None in every call; nothing where that is not known.
std::optional<bool> Translator::isNone(const Value *value) {
  const Binding &binding = *get(value);
  if (binding.form == Binding::Known)
    return binding.known.isNone();
  if (binding.form != Binding::Node)
    return false;
  if (value->type()->kind() != c10::TypeKind::OptionalType &&
      value->type()->kind() != c10::TypeKind::UnionType)
    return value->type()->kind() == c10::TypeKind::NoneType;
  const ValueType *type = lookUpFixedType(value);
  if (!type || type->kind == ValueType::Unknown ||
      type->kind == ValueType::Optional)
    return std::nullopt;
  return type->isNone();
}

/// The value before what gives it another type and nothing else.
static const Value *getUncast(const Value *value) {
  while (value->node()->kind() == prim::unchecked_cast)
    value = value->node()->input();
  return value;
}

/// True for an operator that never gives out a tensor that it takes because of
/// how that lies in memory, as contiguous() does: its schema says that nothing
/// is shared, or it makes a view.
static bool givesOwnTensor(const c10::FunctionSchema &schema, size_t result) {
  static const std::set<std::string> kViews = {
      "aten::transpose", "aten::t",      "aten::permute", "aten::unsqueeze",
      "aten::squeeze",   "aten::select", "aten::slice",   "aten::view",
      "aten::expand",    "aten::narrow"};
  return schema.name().rfind("aten::", 0) == 0 &&
         result < schema.returns().size() &&
         (!schema.returns()[result].alias_info() ||
          kViews.count(schema.name()));
}

/// True where the node makes the tensor, whatever the call. An operator may
/// give out one that it takes, which a run shows, and numbers may decide.
bool Translator::isMadeByNode(const Value *value) {
  const Node *node = value->node();
  const c10::FunctionSchema *schema = node->maybeSchema();
  if (!runner || !runner->lookUp(value) || runner->isPassedOn(value) ||
      !schema || !givesOwnTensor(*schema, value->offset()) ||
      value->type()->kind() != c10::TypeKind::TensorType)
    return false;
  for (const Value *input : node->inputs())
    if (!holdsKind(*input->type(), c10::TypeKind::TensorType) &&
        !getKnownNumbers(input))
      return false;
  return true;
}

/// True for a tensor that is there before the graph runs.
bool Translator::isGiven(const Value *value) const {
  const Node *node = value->node();
  if (node->kind() == prim::GetAttr) {
    auto path = graph.getAttributePath(node);
    return path && !graph.isWritten(*path);
  }
  return node->kind() == prim::Constant ||
         (node->kind() == prim::Param &&
          node->owningBlock() == graph.getGraph().block());
}

/// The value that the tensor is, through branches that are decided.
const Value *Translator::getOrigin(const Value *value) {
  auto found = makers.find(get(value)->node);
  return found == makers.end() ? getUncast(value) : found->second;
}

/// True where two values are two tensors. Two that are given may be one.
bool Translator::areApart(const Value *first, const Value *second) {
  first = getOrigin(first), second = getOrigin(second);
  bool isFirstMade = isMadeByNode(first), isSecondMade = isMadeByNode(second);
  return (isFirstMade && isSecondMade) || (isFirstMade && isGiven(second)) ||
         (isSecondMade && isGiven(first));
}

/// Answers whether two values are one object, where one is None, both have one
/// name, or one is made by its node.
bool Translator::translateIs(Node *node, bool asksIs) {
  const std::string &name = get(node->input(0))->node;
  if (getUncast(node->input(0)) == getUncast(node->input(1)) ||
      (!name.empty() && name == get(node->input(1))->node)) {
    bind(node->output(), makeKnown(asksIs));
    return true;
  }
  std::optional<bool> first = isNone(node->input(0)),
                      second = isNone(node->input(1));
  if (!first || !second)
    return false;
  if (!*first && !*second) {
    if (!areApart(node->input(0), node->input(1)))
      return false;
    bind(node->output(), makeKnown(!asksIs));
    return true;
  }
  bind(node->output(), makeKnown((*first == *second) == asksIs));
  return true;
}

/// True where no object is of both types.
static bool areDisjoint(const c10::Type &type, const c10::Type &other) {
  auto isPlain = [](const c10::Type &one) {
    switch (one.kind()) {
    case c10::TypeKind::TensorType:
    case c10::TypeKind::IntType:
    case c10::TypeKind::FloatType:
    case c10::TypeKind::BoolType:
    case c10::TypeKind::ComplexType:
    case c10::TypeKind::StringType:
    case c10::TypeKind::NoneType:
    case c10::TypeKind::ListType:
    case c10::TypeKind::DictType:
    case c10::TypeKind::TupleType:
      return true;
    default:
      return false;
    }
  };
  return isPlain(type) && isPlain(other) && type.kind() != other.kind();
}

/// Answers isinstance() where the value's own type does: what is inlined is
/// called with narrower types than it asks about.
bool Translator::translateIsInstance(Node *node) {
  if (node->kind() != prim::isinstance)
    return false;
  const Value *value = getUncast(node->input());
  c10::TypePtr type = value->type();
  bool isNone = this->isNone(value).value_or(false);
  if (isNone)
    type = c10::NoneType::get();
  bool isAny = false, isNoOther = true;
  for (const c10::TypePtr &asked : node->tys(attr::types)) {
    isAny |= type->isSubtypeOf(*asked);
    isNoOther &= areDisjoint(*type, *asked);
  }
  if (!isAny && !isNoOther)
    return false;
  bind(node->output(), makeKnown(isAny));
  return true;
}

/// Texts with values in them, as Python's operator for texts makes them.
bool Translator::translateFormat(Node *node) {
  auto pattern = getKnown(*get(node->input(0)));
  if (!pattern || !pattern->isString())
    return false;
  std::string text;
  size_t numHoles = 0;
  const std::string &source = pattern->toStringRef();
  for (size_t i = 0; i < source.size(); ++i) {
    bool isHole = source.compare(i, 2, "{}") == 0;
    text += isHole ? "%s" : source[i] == '%' ? "%%" : source.substr(i, 1);
    numHoles += isHole;
    i += isHole;
  }
  if (numHoles != node->inputs().size() - 1)
    return false;
  auto values = std::make_shared<Binding>();
  values->form = Binding::Tuple;
  for (const Value *input : node->inputs().slice(1))
    values->elements.push_back(get(input));
  emitPython(node, "operator.mod", {makeKnown(text), values});
  return true;
}

/// True where the value is taken as nothing but a dtype, or a layout.
static bool isTakenAs(const Value *value, c10::TypeKind kind) {
  for (const Use &use : value->uses()) {
    const c10::FunctionSchema *schema = use.user->maybeSchema();
    if (!schema || use.offset >= schema->arguments().size())
      return false;
    c10::TypePtr type = schema->arguments()[use.offset].real_type();
    if (auto optional = type->cast<c10::OptionalType>())
      type = optional->getElementType();
    if (type->kind() != kind)
      return false;
  }
  return true;
}

/// A tensor's dtype or layout, which is a number to TorchScript: it is compared
/// with numbers, and may come out of the graph as one.
bool Translator::translateTypeNumber(Node *node, const std::string &name) {
  bool isDType = name == "prim::dtype";
  if ((!isDType && name != "prim::layout") ||
      isTakenAs(node->output(), isDType ? c10::TypeKind::ScalarTypeType
                                        : c10::TypeKind::LayoutType))
    return false;
  NodeRecord read = makeRecord(node, "builtins.getattr");
  addArgument(read, get(node->input()));
  addText(read, quote(isDType ? "dtype" : "layout"));
  std::string own = read.name;
  nodes->push_back(std::move(read));
  std::vector<std::string> known;
  if (isDType) {
    for (int i = 0; i <= static_cast<int>(c10::ScalarType::QUInt2x4); ++i)
      known.push_back(
          form("dtype", quote(getDTypeName(static_cast<c10::ScalarType>(i)))));
  } else {
    for (const char *layout : {"strided", "sparse_coo", "sparse_csr", "_mkldnn",
                               "sparse_csc", "sparse_bsr", "sparse_bsc"})
      known.push_back(form("layout", quote(layout)));
  }
  NodeRecord record = makeRecord(node, "operator.indexOf");
  addText(record, listText(known));
  addArgument(record, makeNode(own));
  emit(node, std::move(record));
  return true;
}

/// Operators on enumerators, which are tuples of name and value.
bool Translator::translateEnum(Node *node, const std::string &name) {
  if (name == "aten::eq" || name == "aten::ne") {
    emitPython(node, name == "aten::eq" ? "operator.eq" : "operator.ne",
               {get(node->input(0)), get(node->input(1))});
    return true;
  }
  if (name != "prim::EnumName" && name != "prim::EnumValue")
    return false;
  emitPython(node, "operator.getitem",
             {get(node->input(0)),
              makeKnown(static_cast<int64_t>(name == "prim::EnumValue"))});
  return true;
}

bool Translator::translateToPython(Node *node) {
  std::string name = node->kind().toQualString();
  if (node->inputs().empty())
    return false;
  if (name == "aten::format" && translateFormat(node))
    return true;
  std::vector<BindingRef> args;
  if (name == "aten::__is__" || name == "aten::__isnot__") {
    if (translateIs(node, name == "aten::__is__"))
      return true;
    emitPython(node,
               name == "aten::__is__" ? "operator.is_" : "operator.is_not",
               {get(node->input(0)), get(node->input(1))});
    return true;
  }
  if (translateScalars(node, name))
    return true;
  const Value *first = node->input(0);
  if (first->type()->kind() == c10::TypeKind::EnumType && writesEnums)
    return translateEnum(node, name);
  bool isTensor = first->type()->kind() == c10::TypeKind::TensorType;
  static const std::map<std::string, std::string> kOfTensor = {
      {"aten::Int", "builtins.int"},
      {"aten::Float", "builtins.float"},
      {"aten::Bool", "builtins.bool"}};
  static const std::map<std::string, std::string> kAttributes = {
      {"prim::device", "device"},
      {"prim::dtype", "dtype"},
      {"prim::layout", "layout"},
      {"prim::is_cuda", "is_cuda"}};
  static const std::map<std::string, std::string> kOfContainer = {
      {"aten::len", "builtins.len"},
      {"aten::__getitem__", "operator.getitem"},
      {"aten::add", "operator.add"},
      {"aten::mul", "operator.mul"},
      {"aten::eq", "operator.eq"},
      {"aten::ne", "operator.ne"},
      {"aten::list", "builtins.list"},
      {"aten::copy", "builtins.list"},
      {"aten::keys", "builtins.list"},
      {"aten::sorted", "builtins.sorted"},
      {"aten::select", "operator.getitem"},
      {"aten::dict", "builtins.dict"},
      {"aten::__contains__", "operator.contains"}};
  if (isTensor) {
    if (translateTypeNumber(node, name))
      return true;
    if (auto found = kAttributes.find(name); found != kAttributes.end()) {
      emitPython(node, "builtins.getattr",
                 {get(first), makeKnown(found->second)});
      return true;
    }
    if (node->kind() == prim::tolist) {
      emitPython(node, "torch.Tensor.tolist", {get(first)});
      return true;
    }
    auto found = kOfTensor.find(name);
    if (found == kOfTensor.end())
      return false;
    emitPython(node, found->second, {get(first)});
    return true;
  }
  // Numbers with a point are written otherwise by Python.
  c10::TypeKind kind = first->type()->kind();
  if (name == "aten::str" &&
      (kind == c10::TypeKind::IntType || kind == c10::TypeKind::BoolType ||
       kind == c10::TypeKind::StringType ||
       kind == c10::TypeKind::DeviceObjType)) {
    emitPython(node, "builtins.str", {get(first)});
    return true;
  }
  if (!isContainer(first))
    return false;
  if (translateTensorOfList(node) || translateListChange(node, name))
    return true;
  auto found = kOfContainer.find(name);
  if (found == kOfContainer.end())
    return false;
  for (const Value *input : node->inputs())
    args.push_back(get(input));
  emitPython(node, found->second, args);
  return true;
}

//===----------------------------------------------------------------------===//
// Operators
//===----------------------------------------------------------------------===//

/// "aten.add.Tensor". Python's arithmetic with a number takes the overload for
/// tensors, and so do exported graphs.
static std::string getTarget(const c10::FunctionSchema &schema) {
  std::string name = schema.name();
  for (size_t at = name.find("::"); at != std::string::npos;
       at = name.find("::"))
    name.replace(at, 2, ".");
  std::string overload = schema.overload_name();
  static const std::set<std::string> kArithmetic = {
      "aten.add",  "aten.sub",  "aten.mul",  "aten.div",
      "aten.add_", "aten.sub_", "aten.mul_", "aten.div_"};
  if ((overload == "Scalar" || overload == "Scalar_mode") &&
      kArithmetic.count(name))
    overload.replace(0, 6, "Tensor");
  return name + "." + (overload.empty() ? "default" : overload);
}

/// Arguments that hold their defaults are left out, as PyTorch leaves them out
/// of exported graphs: by position from the end, and by keyword.
void Translator::translateOperator(Node *node) {
  const c10::FunctionSchema &schema = *node->maybeSchema();
  NodeRecord record = makeRecord(node, getTarget(schema));
  std::vector<Argument> positional;
  std::vector<bool> isDefault;
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument &formal = schema.arguments()[i];
    Argument argument =
        getArgument(get(node->input(i)), formal.real_type().get());
    bool holdsDefault = formal.default_value() &&
                        getConstant(*formal.default_value(),
                                    formal.real_type().get()) == argument.text;
    if (formal.alias_info() && formal.alias_info()->isWrite())
      record.acts = true;
    if (!formal.kwarg_only()) {
      positional.push_back(std::move(argument));
      isDefault.push_back(holdsDefault);
    } else if (!holdsDefault) {
      record.kwargs.emplace_back(formal.name(), argument.text);
      record.uses.insert(record.uses.end(), argument.uses.begin(),
                         argument.uses.end());
    }
  }
  while (!positional.empty() && isDefault.back()) {
    positional.pop_back();
    isDefault.pop_back();
  }
  for (Argument &argument : positional) {
    record.args.push_back(std::move(argument.text));
    record.uses.insert(record.uses.end(), argument.uses.begin(),
                       argument.uses.end());
  }
  record.acts |= node->hasSideEffects() || node->isNondeterministic();
  emit(node, std::move(record));
}

/// Traced graphs hold aten::_convolution, which is what torch.conv2d and its
/// kind call; exported ones hold what the model called.
bool Translator::translateConvolution(Node *node) {
  if (std::string(node->kind().toQualString()) != "aten::_convolution")
    return false;
  enum {
    Input,
    Weight,
    Bias,
    Stride,
    Padding,
    Dilation,
    Transposed,
    OutputPadding,
    Groups
  };
  auto transposed = getKnown(*get(node->input(Transposed)));
  auto stride = getElements(*get(node->input(Stride)));
  if (!transposed || !transposed->isBool() || !stride || stride->empty() ||
      stride->size() > 3)
    return false;
  std::string rank = std::to_string(stride->size());
  bool isTransposed = transposed->toBool();
  std::string target = isTransposed ? "aten.conv_transpose" + rank + "d." +
                                          (rank == "1" ? "default" : "input")
                                    : "aten.conv" + rank + "d.default";
  // Defaults are filled in for every dimension, and left out from the end.
  auto allAre = [&](int place, const char *text) {
    auto elements = getElements(*get(node->input(place)));
    if (!elements)
      return false;
    for (const BindingRef &element : *elements)
      if (getArgument(element).text != text)
        return false;
    return true;
  };
  bool hasNoGroups = getArgument(get(node->input(Groups))).text == "1";
  std::vector<std::pair<int, bool>> order = {
      {Input, false},
      {Weight, false},
      {Bias, getArgument(get(node->input(Bias))).text == "null"},
      {Stride, allAre(Stride, "1")},
      {Padding, allAre(Padding, "0")}};
  if (isTransposed)
    order.insert(order.end(), {{OutputPadding, allAre(OutputPadding, "0")},
                               {Groups, hasNoGroups},
                               {Dilation, allAre(Dilation, "1")}});
  else
    order.insert(order.end(),
                 {{Dilation, allAre(Dilation, "1")}, {Groups, hasNoGroups}});
  while (order.back().second)
    order.pop_back();
  NodeRecord record = makeRecord(node, target);
  for (auto [place, isDefault] : order)
    addArgument(record, get(node->input(place)));
  emit(node, std::move(record));
  return true;
}

/// `x[:, None]` calls slice for ':' only where it is traced. What another name
/// of the same tensor may show, such as its own sizes after unsqueeze_, keeps
/// the node.
bool Translator::translateWholeSlice(Node *node) {
  if (std::string(node->kind().toQualString()) != "aten::slice" ||
      node->inputs().size() != 5 || changesMetadata ||
      !node->input(0)->type()->isSubtypeOf(*c10::TensorType::get()))
    return false;
  auto isOneOf = [&](size_t place, std::optional<int64_t> number) {
    auto known = getKnown(*get(node->input(place)));
    return known && (known->isNone() ||
                     (known->isInt() && number && known->toInt() == *number));
  };
  auto step = getKnown(*get(node->input(4)));
  if (!isOneOf(2, 0) || !isOneOf(3, std::numeric_limits<int64_t>::max()) ||
      !step || !step->isInt() || step->toInt() != 1)
    return false;
  for (const Use &use : node->output()->uses())
    if (use.user->kind() == prim::Return || !use.user->maybeSchema() ||
        use.user->kind() == aten::__is__ || use.user->kind() == aten::__isnot__)
      return false;
  bind(node->output(), get(node->input(0)));
  return true;
}

/// True where `inner` is the place of a call inside that of `outer`, or that
/// place itself.
static bool isInside(const ModuleStack *inner, const ModuleStack *outer) {
  return inner && outer && inner->size() >= outer->size() &&
         std::equal(outer->begin(), outer->end(), inner->begin());
}

/// Dropout that is off gives the tensor that went in, and a tracer takes that
/// for its result from there on: what layers share seems to come out of the
/// first of them, and then out of the next. What is outside of the module that
/// called it, and of it inside too, gets the tensor that went in.
void Translator::giveBackDropoutOperand(Node *node) {
  if (node->kind() != aten::dropout || changesMetadata)
    return;
  auto isOn = getKnown(*get(node->input(2)));
  const ModuleStack *stack = graph.lookUpStack(node);
  Value *before = node->input(0), *after = node->output();
  if (!isOn || !isOn->isBool() || isOn->toBool() || !stack || stack->empty() ||
      !isNeverWritten(after))
    return;
  ModuleStack own = *stack;
  static const std::string kModule = "Dropout";
  const std::string &type = own.back().second;
  if (type.size() >= kModule.size() &&
      type.compare(type.size() - kModule.size(), kModule.size(), kModule) == 0)
    own.pop_back();
  // Where the tensor itself is taken behind it, nothing was mistaken.
  for (const Use &use : before->uses())
    if (use.user != node && use.user->isAfter(node))
      return;
  std::vector<Use> others;
  bool isUsedInside = false;
  // What a traced module hands out beside its result is what others use.
  for (const Use &use : after->uses())
    if (use.user->kind() != prim::TupleConstruct &&
        isInside(graph.lookUpStack(use.user), &own))
      isUsedInside = true;
    else if (use.user->owningBlock() == node->owningBlock())
      others.push_back(use);
  if (!isUsedInside)
    return;
  for (const Use &use : others)
    use.user->replaceInput(use.offset, before);
}

/// Nodes that PyTorch has no schema for are kept as they are, with every
/// effect.
void Translator::translateOther(Node *node) {
  std::string target = node->kind().toQualString();
  for (size_t at = target.find("::"); at != std::string::npos;
       at = target.find("::"))
    target.replace(at, 2, ".");
  if (node->kind() == prim::CreateObject && isOwnObject(node->output())) {
    emitPython(node, "builtins.dict", {});
    return;
  }
  NodeRecord record = makeRecord(node, target);
  for (const Value *input : node->inputs())
    addArgument(record, get(input));
  if (node->kind() == prim::CallMethod)
    record.args.insert(record.args.begin() + 1, quote(node->s(attr::name)));
  if (node->kind() == prim::CreateObject)
    addText(record, quote(getModuleTypeName(*node->output()->type())));
  if (node->kind() == prim::isinstance) {
    std::vector<std::string> types;
    for (const c10::TypePtr &type : node->tys(attr::types))
      types.push_back(quote(getModuleTypeName(*type)));
    addText(record, listText(types));
  }
  if (!node->blocks().empty())
    throw InputError(target + " holds blocks of nodes, and is neither prim.If "
                              "nor prim.Loop: it has no form in a graph");
  record.acts = true;
  emit(node, std::move(record));
}
