// From TorchScript's nodes to graph JSON's.

#include "Translator.h"

#include "opprof/Torch/Archive.h"

#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <cmath>

using namespace opprof::torchscript;
using namespace torch::jit;

/// Lists in lists of what an attribute holds.
static constexpr unsigned kMaxStateDepth = 64;

Translator::Translator(const ModuleGraph &graph, Runner *runner,
                       GraphFile &file, std::string archiveName)
    : graph(graph), runner(runner), file(file),
      archiveName(std::move(archiveName)) {}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

BindingRef Translator::makeNode(std::string name) {
  auto binding = std::make_shared<Binding>();
  binding->node = std::move(name);
  return binding;
}

BindingRef Translator::makeKnown(c10::IValue value) {
  return makeKnown(std::move(value), "");
}

BindingRef Translator::makeKnown(c10::IValue value, std::string node) {
  auto binding = std::make_shared<Binding>();
  binding->form = Binding::Known;
  binding->known = std::move(value);
  binding->node = std::move(node);
  return binding;
}

BindingRef Translator::get(const Value *value) {
  auto found = bindings.find(value);
  if (found != bindings.end())
    return found->second;
  if (const ModuleValue *module = graph.lookUpModule(value)) {
    auto binding = std::make_shared<Binding>();
    binding->form = Binding::Module;
    binding->path = module->path;
    return bindings[value] = binding;
  }
  throw InputError("the graph takes %" + value->debugName() +
                   " before it is there");
}

/// The value where it is known and no tensor.
std::optional<c10::IValue> Translator::getKnown(const Binding &binding) const {
  if (binding.form == Binding::Known)
    return binding.known;
  if (binding.form != Binding::Tuple)
    return std::nullopt;
  std::vector<c10::IValue> elements;
  for (const BindingRef &element : binding.elements) {
    auto known = getKnown(*element);
    if (!known)
      return std::nullopt;
    elements.push_back(*known);
  }
  return c10::ivalue::Tuple::create(std::move(elements));
}

std::optional<std::vector<BindingRef>>
Translator::getElements(const Binding &binding) {
  if (binding.form == Binding::List || binding.form == Binding::Tuple)
    return binding.elements;
  if (binding.form != Binding::Known)
    return std::nullopt;
  std::vector<BindingRef> elements;
  if (binding.known.isTuple())
    for (const c10::IValue &element : binding.known.toTupleRef().elements())
      elements.push_back(makeKnown(element));
  else if (binding.known.isList())
    for (const c10::IValue &element : binding.known.toListRef())
      elements.push_back(makeKnown(element));
  else
    return std::nullopt;
  return elements;
}

ValueType Translator::getType(const Value *value) const {
  ValueType declared = describe(*value->type());
  const ValueType *seen = runner ? runner->lookUpAny(value) : nullptr;
  if (!seen || seen->kind == ValueType::Unknown)
    return declared;
  // None now is no None in every call.
  if (declared.kind != ValueType::Optional || !variation->hasOtherTypes(value))
    return *seen;
  return seen->isNone() ? declared : seen->makeOptional();
}

/// The type of the value in every call; null where that is not known.
const ValueType *Translator::lookUpFixedType(const Value *value) const {
  return runner && !variation->hasOtherTypes(value) ? runner->lookUp(value)
                                                    : nullptr;
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

static const c10::Type *unwrap(const c10::Type *type) {
  while (type) {
    if (auto *optional = type->castRaw<c10::OptionalType>())
      type = optional->getElementType().get();
    else
      break;
  }
  return type;
}

static std::string getEnumText(const c10::Type &expected, int64_t number) {
  std::ostringstream text;
  switch (expected.kind()) {
  case c10::TypeKind::ScalarTypeType:
    return form("dtype",
                quote(getDTypeName(static_cast<c10::ScalarType>(number))));
  case c10::TypeKind::LayoutType: {
    text << static_cast<c10::Layout>(number);
    std::string name = text.str();
    for (char &c : name)
      c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return form("layout", quote(name));
  }
  case c10::TypeKind::MemoryFormatType: {
    static constexpr const char *kFormats[] = {
        "contiguous_format", "preserve_format", "channels_last",
        "channels_last_3d"};
    if (number < 0 || number >= 4)
      throw InputError("memory format " + std::to_string(number) +
                       " is none of PyTorch's");
    return form("memory_format", quote(kFormats[number]));
  }
  default:
    return "";
  }
}

/// `expected` is the schema's own type of the argument, which tells a dtype
/// from a number; null where there is none.
std::string Translator::getConstant(const c10::IValue &value,
                                    Expected expected) const {
  expected = unwrap(expected);
  auto all = [&](c10::ArrayRef<c10::IValue> elements) {
    const c10::Type *inner = nullptr;
    if (auto *list = expected ? expected->castRaw<c10::ListType>() : nullptr)
      inner = list->getElementType().get();
    std::vector<std::string> texts;
    for (const c10::IValue &element : elements)
      texts.push_back(getConstant(element, inner));
    return listText(texts);
  };
  if (value.isNone())
    return "null";
  if (value.isBool())
    return value.toBool() ? "true" : "false";
  if (value.isInt()) {
    std::string named =
        expected ? getEnumText(*expected, value.toInt()) : std::string();
    return named.empty() ? std::to_string(value.toInt()) : named;
  }
  if (value.isDouble())
    return floatText(value.toDouble());
  if (value.isComplexDouble())
    return form("complex",
                listText({floatText(value.toComplexDouble().real()),
                          floatText(value.toComplexDouble().imag())}));
  if (value.isString())
    return quote(value.toStringRef());
  if (value.isDevice())
    return form("device", quote(value.toDevice().str()));
  if (value.isList() && value.toListRef().size() <= kMaxKnownElements)
    return all(value.toListRef());
  if (value.isTuple())
    return form("tuple", all(value.toTupleRef().elements()));
  if (value.isGenericDict()) {
    std::vector<std::string> pairs;
    for (const auto &entry : value.toGenericDict())
      pairs.push_back(listText({getConstant(entry.key(), nullptr),
                                getConstant(entry.value(), nullptr)}));
    return form("dict", listText(pairs));
  }
  std::string type = getModuleTypeName(*value.type());
  if (value.isEnum() && writesEnums)
    return form("tuple", listText({quote(value.toEnumHolder()->name()),
                                   getConstant(value.toEnumHolder()->value(),
                                               nullptr)}));
  std::string repr = value.isEnum()
                         ? value.toEnumHolder()->qualifiedClassName() + "." +
                               value.toEnumHolder()->name()
                         : type;
  return form("object",
              "{\"type\":" + quote(type) + ",\"repr\":" + quote(repr) + "}");
}

void Translator::appendArgument(const BindingRef &binding, Expected expected,
                                Argument &argument) {
  expected = unwrap(expected);
  auto appendAll = [&](const std::vector<BindingRef> &elements) {
    const c10::Type *inner = nullptr;
    if (auto *list = expected ? expected->castRaw<c10::ListType>() : nullptr)
      inner = list->getElementType().get();
    argument.text += "[";
    for (size_t i = 0; i < elements.size(); ++i) {
      argument.text += i ? "," : "";
      appendArgument(elements[i], inner, argument);
    }
    argument.text += "]";
  };
  switch (binding->form) {
  case Binding::Known:
    if (binding->node.empty()) {
      argument.text += getConstant(binding->known, expected);
      return;
    }
    [[fallthrough]];
  case Binding::Node:
    argument.text += form("node", quote(binding->node));
    argument.uses.push_back(binding->node);
    return;
  case Binding::List:
    appendAll(binding->elements);
    return;
  case Binding::Tuple:
    argument.text += "{\"tuple\":";
    appendAll(binding->elements);
    argument.text += "}";
    return;
  case Binding::Dict:
    argument.text += "{\"dict\":[";
    for (size_t i = 0; i + 1 < binding->elements.size(); i += 2) {
      argument.text += i ? ",[" : "[";
      appendArgument(binding->elements[i], nullptr, argument);
      argument.text += ",";
      appendArgument(binding->elements[i + 1], nullptr, argument);
      argument.text += "]";
    }
    argument.text += "]}";
    return;
  case Binding::Module: {
    // An object that a kept node takes is a constant of the model.
    std::string name = addWeight(binding->path.empty() ? "self" : binding->path,
                                 "constant_object", c10::IValue());
    argument.text += form("node", quote(name));
    argument.uses.push_back(name);
    return;
  }
  }
}

Translator::Argument Translator::getArgument(const BindingRef &binding,
                                             Expected expected) {
  Argument argument;
  appendArgument(binding, expected, argument);
  return argument;
}

void Translator::addArgument(NodeRecord &record, const BindingRef &binding,
                             Expected expected) {
  Argument argument = getArgument(binding, expected);
  record.args.push_back(std::move(argument.text));
  for (std::string &use : argument.uses)
    record.uses.push_back(std::move(use));
}

void Translator::addKeyword(NodeRecord &record, const std::string &name,
                            const BindingRef &binding, Expected expected) {
  Argument argument = getArgument(binding, expected);
  record.kwargs.emplace_back(name, std::move(argument.text));
  for (std::string &use : argument.uses)
    record.uses.push_back(std::move(use));
}

//===----------------------------------------------------------------------===//
// Attributes and constants
//===----------------------------------------------------------------------===//

/// Of tensors that hold nothing, or are not strided, each is its own.
Translator::Place Translator::getPlace(const at::Tensor &tensor) {
  if (tensor.layout() != at::kStrided || !tensor.numel())
    return {tensor.unsafeGetTensorImpl(), tensor.scalar_type(), {}, {}};
  return {tensor.const_data_ptr(), tensor.scalar_type(), tensor.sizes().vec(),
          tensor.strides().vec()};
}

void Translator::nameConstants(const Module &original) {
  auto add = [&](const std::string &name, const at::Tensor &tensor) {
    if (tensor.layout() == at::kStrided && tensor.numel())
      constantPaths.try_emplace(getPlace(tensor), name);
  };
  for (const auto &entry : original.named_parameters())
    add(entry.name, entry.value);
  for (const auto &entry : original.named_buffers())
    add(entry.name, entry.value);
}

static std::string toIdentifier(const std::string &path) {
  std::string result;
  for (char c : path)
    result += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return result;
}

/// The name of the graph's input for what the model holds at `path`.
std::string Translator::addWeight(const std::string &path, const char *kind,
                                  const c10::IValue &value, bool persistent) {
  auto [entry, isNew] = weightNames.try_emplace(path);
  if (!isNew)
    return entry->second;
  std::string_view what = kind;
  InputRecord input;
  input.name = makeName((what == "parameter"         ? "p_"
                         : what == "buffer"          ? "b_"
                         : what == "constant_object" ? "obj_"
                                                     : "c_") +
                        toIdentifier(path));
  input.kind = kind;
  input.target = path;
  input.persistent = persistent;
  if (value.isTensor()) {
    input.type = addType(file, describe(value));
    weights.emplace_back(path, value.toTensor());
  } else if (!value.isNone()) {
    input.type = addType(file, describe(value));
  }
  typeOfName[input.name] = input.type;
  entry->second = input.name;
  auto &list = what == "parameter" ? parameters
               : what == "buffer"  ? buffers
                                   : constants;
  list.push_back(input);
  return entry->second;
}

static bool holdsTensors(const c10::IValue &value) {
  if (value.isTensor())
    return true;
  if (value.isList()) {
    for (const c10::IValue &element : value.toListRef())
      if (holdsTensors(element))
        return true;
  } else if (value.isTuple()) {
    for (const c10::IValue &element : value.toTupleRef().elements())
      if (holdsTensors(element))
        return true;
  }
  return false;
}

static bool isPlain(const c10::IValue &value) {
  if (value.isNone() || value.isBool() || value.isInt() || value.isDouble() ||
      value.isComplexDouble() || value.isString() || value.isDevice() ||
      value.isEnum())
    return true;
  c10::ArrayRef<c10::IValue> elements;
  if (value.isTuple())
    elements = value.toTupleRef().elements();
  else if (value.isList() && value.toListRef().size() <= kMaxKnownElements)
    elements = value.toListRef();
  else
    return false;
  for (const c10::IValue &element : elements)
    if (!isPlain(element))
      return false;
  return true;
}

/// A table from numbers or text to such, as a model's settings are.
static bool isPlainDict(const c10::IValue &value) {
  if (!value.isGenericDict() ||
      value.toGenericDict().size() > kMaxKnownElements)
    return false;
  for (const auto &entry : value.toGenericDict())
    if (!isPlain(entry.key()) || !isPlain(entry.value()))
      return false;
  return true;
}

/// The parameter or buffer that a tensor of another attribute is, such as an
/// element of the list in which recurrent layers keep their weights; null where
/// it is none, or where the graph puts another tensor in that one's place.
const Translator::Registered *
Translator::lookUpRegistered(const at::Tensor &tensor) {
  if (tensor.layout() != at::kStrided || !tensor.numel())
    return nullptr;
  if (!registered) {
    registered.emplace();
    for (const auto &inner : graph.getModule().named_modules()) {
      auto object = inner.value._ivalue();
      const c10::ClassType &type = *object->type();
      for (size_t slot = 0; slot < type.numAttributes(); ++slot) {
        const c10::IValue &own = object->getSlot(slot);
        bool isParameter = type.is_parameter(slot);
        if ((!isParameter && !type.is_buffer(slot)) || !own.isTensor() ||
            !own.toTensor().defined() || !own.toTensor().numel() ||
            own.toTensor().layout() != at::kStrided)
          continue;
        registered->try_emplace(
            getPlace(own.toTensor()),
            Registered{(inner.name.empty() ? "" : inner.name + ".") +
                           type.getAttributeName(slot),
                       isParameter ? "parameter" : "buffer",
                       own.toTensor().requires_grad()});
      }
    }
  }
  auto found = registered->find(getPlace(tensor));
  return found != registered->end() &&
                 found->second.requiresGrad == tensor.requires_grad() &&
                 !graph.isWritten(found->second.path)
             ? &found->second
             : nullptr;
}

BindingRef Translator::bindAttribute(const c10::IValue &value,
                                     const std::string &path, const char *kind,
                                     bool persistent) {
  if (value.isTensor() && value.toTensor().defined()) {
    const Registered *home = std::string_view(kind) == "constant_tensor"
                                 ? lookUpRegistered(value.toTensor())
                                 : nullptr;
    if (!home)
      return makeNode(addWeight(path, kind, value, persistent));
    if (mayBeWritten(path))
      writtenConstants.insert(home->path);
    return makeNode(addWeight(home->path, home->kind, value, persistent));
  }
  if (isPlain(value) || isPlainDict(value))
    return makeKnown(value);
  bool isList = value.isList();
  if (value.isGenericDict())
    keepState(path, value);
  if (!holdsTensors(value) || !(isList || value.isTuple()))
    return makeNode(addWeight(path, "constant_object", value));
  auto binding = std::make_shared<Binding>();
  binding->form = isList ? Binding::List : Binding::Tuple;
  std::vector<c10::IValue> elements =
      isList ? value.toListRef().vec() : value.toTupleRef().elements().vec();
  for (size_t i = 0; i < elements.size(); ++i)
    binding->elements.push_back(bindAttribute(
        elements[i], path + "." + std::to_string(i), kind, persistent));
  return binding;
}

/// What an attribute holds, as JSON. A tensor is named, and one of the weights.
std::string Translator::getState(const c10::IValue &value,
                                 const std::string &path, unsigned depth) {
  auto isTensor = [](const c10::IValue &element) {
    return element.isTensor() && element.toTensor().defined();
  };
  if (isTensor(value)) {
    if (weightNames.try_emplace(path, path).second)
      weights.emplace_back(path, value.toTensor());
    return form("weight", quote(path));
  }
  if (value.isTensor())
    return "null";
  auto all = [&](c10::ArrayRef<c10::IValue> elements) {
    std::vector<std::string> texts;
    for (size_t i = 0; i < elements.size(); ++i)
      texts.push_back(
          getState(elements[i], path + "." + std::to_string(i), depth + 1));
    return listText(texts);
  };
  if (depth < kMaxStateDepth && value.isList())
    return all(value.toListRef());
  if (depth < kMaxStateDepth && value.isTuple())
    return form("tuple", all(value.toTupleRef().elements()));
  if (depth < kMaxStateDepth && value.isGenericDict()) {
    std::vector<std::string> pairs;
    for (const auto &entry : value.toGenericDict()) {
      std::string place = path + "." + std::to_string(pairs.size());
      pairs.push_back(
          listText({getState(entry.key(), place + ".key", depth + 1),
                    getState(entry.value(), place, depth + 1)}));
    }
    return form("dict", listText(pairs));
  }
  return getConstant(value, nullptr);
}

void Translator::keepState(const std::string &path, const c10::IValue &value) {
  if (auto [entry, isNew] = file.state.try_emplace(path); isNew)
    entry->second = getState(value, path, 0);
}

/// The first path of a tensor that hangs on modules by several names: what is
/// written by one of them is there by the others. Parameters are not written.
std::string Translator::getTensorHome(const c10::IValue &value,
                                      const std::string &path,
                                      std::string_view kind) {
  if (!value.isTensor() || !value.toTensor().defined() || kind == "parameter")
    return path;
  const at::Tensor &tensor = value.toTensor();
  if (tensor.layout() != at::kStrided || !tensor.numel())
    return path;
  return tensorHomes.try_emplace(getPlace(tensor), path).first->second;
}

/// True where the graph may write to the tensor of that name, or to what holds
/// it.
bool Translator::mayBeWritten(const std::string &path) const {
  for (std::string outer = path;;) {
    if (graph.isWritten(outer) || graph.isChangedInPlace(outer) ||
        writtenConstants.count(outer))
      return true;
    size_t dot = outer.rfind('.');
    if (dot == std::string::npos)
      return false;
    outer.resize(dot);
  }
}

void Translator::keepSharedMemory() {
  struct Part {
    const std::string *path;
    const at::Tensor *tensor;
    size_t begin, end;
  };
  // By where each begins.
  std::map<const void *, std::multimap<size_t, Part>> parts;
  for (const auto &[path, tensor] : weights) {
    if (tensor.layout() != at::kStrided || !tensor.numel() ||
        tensor.is_quantized())
      continue;
    size_t begin = static_cast<size_t>(tensor.storage_offset()), last = begin;
    for (int64_t i = 0; i < tensor.dim(); ++i)
      last += static_cast<size_t>(tensor.stride(i) * (tensor.size(i) - 1));
    begin *= tensor.itemsize();
    parts[tensor.storage().data()].insert(
        {begin, {&path, &tensor, begin, (last + 1) * tensor.itemsize()}});
  }
  auto keep = [&](const std::vector<Part> &group) {
    bool isWritten = false;
    for (const Part &part : group)
      isWritten |= mayBeWritten(*part.path);
    if (group.size() < 2 || !isWritten)
      return;
    std::string text;
    for (const Part &part : group) {
      std::vector<std::string> strides;
      for (int64_t stride : part.tensor->strides())
        strides.push_back(std::to_string(stride));
      text += (text.empty() ? "" : ",") + quote(*part.path) +
              ":{\"offset\":" + std::to_string(part.begin) +
              ",\"stride\":" + listText(strides) + "}";
    }
    file.sharedMemory.push_back("{" + text + "}");
  };
  for (auto &[storage, found] : parts) {
    std::vector<Part> group;
    size_t end = 0;
    for (const auto &[begin, part] : found) {
      if (begin >= end) {
        keep(group);
        group.clear();
      }
      group.push_back(part);
      end = std::max(end, part.end);
    }
    keep(group);
  }
}

void Translator::translateGetAttr(Node *node) {
  if (graph.lookUpModule(node->output()))
    return;
  const std::string &name = node->s(attr::name);
  std::optional<std::string> path = graph.getAttributePath(node);
  if (!path && isOwnObject(node->input())) {
    emitPython(node, "operator.getitem", {get(node->input()), makeKnown(name)},
               /*acts=*/true);
    return;
  }
  if (!path) {
    NodeRecord record = makeRecord(node, "prim.GetAttr", name);
    addArgument(record, get(node->input()));
    addText(record, quote(name));
    record.acts = true;
    emit(node, std::move(record));
    return;
  }
  auto object = graph.lookUpModule(node->input())->object.toObject();
  size_t slot = object->type()->getAttributeSlot(name);
  const c10::IValue &value = object->getSlot(slot);
  if (graph.isWritten(*path)) {
    NodeRecord record = makeRecord(node, *path, toIdentifier(*path));
    record.op = "get_attr";
    emit(node, std::move(record));
    if (value.isTensor() && value.toTensor().defined()) {
      if (weightNames.try_emplace(*path, *path).second)
        weights.emplace_back(*path, value.toTensor());
    } else {
      keepState(*path, value);
    }
    return;
  }
  bool isContainer = value.isList() || value.isGenericDict() || value.isTuple();
  if (isContainer && graph.isChangedInPlace(*path)) {
    // What is written is the object itself, from call to call.
    keepState(*path, value);
    bind(node->output(), makeNode(addWeight(*path, "constant_object", value)));
    return;
  }
  // Objects of other classes have neither.
  bool isModule = object->type()->is_module();
  const char *kind =
      isModule && object->type()->is_parameter(slot) ? "parameter"
      : isModule && object->type()->is_buffer(slot)  ? "buffer"
                                                     : "constant_tensor";
  bind(node->output(), bindAttribute(value, getTensorHome(value, *path, kind),
                                     kind, /*persistent=*/true));
}

void Translator::translateSetAttr(Node *node) {
  const std::string &name = node->s(attr::name);
  if (!graph.getAttributePath(node) && isOwnObject(node->input(0))) {
    emitPython(node, "operator.setitem",
               {get(node->input(0)), makeKnown(name), get(node->input(1))},
               /*acts=*/true);
    return;
  }
  NodeRecord record = makeRecord(node, "prim.SetAttr", "set_" + name);
  if (std::optional<std::string> path = graph.getAttributePath(node)) {
    addText(record, quote(*path));
  } else {
    addArgument(record, get(node->input(0)));
    addText(record, quote(name));
  }
  addArgument(record, get(node->input(1)));
  record.acts = true;
  emit(node, std::move(record));
}

void Translator::translateConstant(Node *node) {
  std::optional<c10::IValue> value = toIValue(node->output());
  if (!value) {
    bind(node->output(), makeKnown({}));
    return;
  }
  if (!value->isTensor()) {
    if (isPlain(*value) || !holdsTensors(*value)) {
      bind(node->output(), makeKnown(*value));
      return;
    }
    std::string path = "constant_" + std::to_string(numConstants++);
    if (!isNeverWritten(node->output()))
      writtenConstants.insert(path);
    bind(node->output(), bindAttribute(*value, path, "constant_tensor", true));
    return;
  }
  const at::Tensor &tensor = value->toTensor();
  if (!tensor.defined()) {
    bind(node->output(), makeKnown({}));
    return;
  }
  auto [path, isNew] = constantPaths.try_emplace(getPlace(tensor));
  if (isNew)
    path->second = "constant_" + std::to_string(numConstants++);
  if (!isNeverWritten(node->output()))
    writtenConstants.insert(path->second);
  std::string name = addWeight(path->second, "constant_tensor", tensor);
  // A number that a traced graph keeps as a tensor.
  bool isNumber = tensor.dim() == 0 && tensor.device().is_cpu() &&
                  tensor.layout() == at::kStrided && !tensor.is_quantized() &&
                  isNeverWritten(node->output());
  bind(node->output(), isNumber ? makeKnown(tensor, name) : makeNode(name));
}

//===----------------------------------------------------------------------===//
// Records
//===----------------------------------------------------------------------===//

std::string Translator::makeName(const std::string &wanted) {
  std::string base = toIdentifier(wanted);
  if (base.empty() || std::isdigit(static_cast<unsigned char>(base[0])))
    base.insert(0, "_");
  std::string name = base;
  while (!names.insert(name).second)
    name = base + "_" + std::to_string(++nextNumber[base]);
  return name;
}

/// The node whose place stands for that of `node`. What the compiler made
/// itself, such as what takes a list apart, has none of its own.
static const Node *findPlaced(const Node *node, const ModuleGraph &graph) {
  auto isPlaced = [&](const Node *other) {
    return other->sourceRange().source() &&
           graph.lookUpStack(other) == graph.lookUpStack(node);
  };
  if (isPlaced(node))
    return node;
  const Block *block = node->owningBlock();
  for (const Node *other = node->prev(); other != block->return_node();
       other = other->prev())
    if (isPlaced(other))
      return other;
  for (const Node *other = node->next(); other != block->return_node();
       other = other->next())
    if (isPlaced(other))
      return other;
  return block->owningNode() ? findPlaced(block->owningNode(), graph) : node;
}

int Translator::addStack(const Node *unplaced) {
  const Node *node = findPlaced(unplaced, graph);
  std::vector<std::string> frames;
  auto addFrame = [&](const SourceRange &range, const std::string &function) {
    if (!range.source())
      return;
    auto place = range.source()->filename();
    if (!place)
      return;
    size_t line = range.source()->lineno_for_offset(range.start());
    std::string code = range.source()->get_line(line).str();
    size_t first = code.find_first_not_of(" \t\n");
    size_t last = code.find_last_not_of(" \t\n");
    code =
        first == std::string::npos ? "" : code.substr(first, last - first + 1);
    size_t number = range.source()->lineno_to_source_lineno(line);
    frames.push_back("{\"file\":" + quote(archiveName + "/" + *place) +
                     ",\"line\":" + std::to_string(number) + ",\"function\":" +
                     quote(function) + ",\"code\":" + quote(code) + "}");
  };
  std::string function = graph.getSchema().name();
  // By name: freezing frees the functions of the module that it copies.
  for (auto call = node->callstack(); call; call = (*call)->callee()) {
    addFrame((*call)->source_range(), function);
    function = (*call)->function_name();
  }
  addFrame(node->sourceRange(), function);
  return frames.empty() ? -1 : file.stacks.add(listText(frames));
}

int Translator::addModules(const Node *node) {
  auto entry = [](const std::string &path, const std::string &type) {
    return "{\"path\":" + quote(path) + ",\"type\":" + quote(type) + "}";
  };
  const ModuleStack *stack = graph.lookUpStack(node);
  auto [found, isNew] = stackIndices.try_emplace(stack, -1);
  if (!isNew)
    return found->second;
  std::vector<std::string> entries = {
      entry("", getModuleTypeName(*graph.getModule().type()))};
  if (stack)
    for (const auto &[path, type] : *stack)
      entries.push_back(entry(path, type));
  return found->second = file.modules.add(listText(entries));
}

/// "linear" of "aten.linear.default".
static std::string getBaseName(const std::string &target) {
  size_t first = target.find('.');
  if (first == std::string::npos)
    return target;
  size_t second = target.find('.', first + 1);
  return target.substr(first + 1, second - first - 1);
}

NodeRecord Translator::makeRecord(Node *node, const std::string &target,
                                  const std::string &baseName) {
  NodeRecord record;
  record.target = target;
  record.name = makeName(baseName.empty() ? getBaseName(target) : baseName);
  record.stack = addStack(node);
  record.modules = addModules(node);
  return record;
}

std::string Translator::emitGetItem(Node *node, const std::string &base,
                                    size_t index, int type) {
  NodeRecord item = makeRecord(node, "operator.getitem", "getitem");
  item.args = {form("node", quote(base)), std::to_string(index)};
  item.uses = {base};
  item.type = type;
  typeOfName[item.name] = type;
  std::string name = item.name;
  nodes->push_back(std::move(item));
  return name;
}

/// Adds the record, which gives the node's outputs.
void Translator::emit(Node *node, NodeRecord record) {
  std::string name = record.name;
  auto outputs = node->outputs();
  if (outputs.size() == 1) {
    record.type = addType(file, getType(outputs[0]));
  } else if (outputs.empty()) {
    record.type = file.types.add("\"none\"");
  } else {
    ValueType tuple;
    tuple.kind = ValueType::Tuple;
    for (const Value *output : outputs)
      tuple.elements.push_back(getType(output));
    record.type = addType(file, tuple);
  }
  typeOfName[name] = record.type;
  nodes->push_back(std::move(record));
  if (outputs.size() == 1) {
    bind(outputs[0], makeNode(name));
    makers[name] = outputs[0];
    return;
  }
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i]->hasUses())
      bind(outputs[i], makeNode(emitGetItem(
                           node, name, i, addType(file, getType(outputs[i])))));
}

void Translator::emitPython(Node *node, const std::string &target,
                            const std::vector<BindingRef> &args, bool acts) {
  NodeRecord record = makeRecord(node, target);
  for (const BindingRef &argument : args)
    addArgument(record, argument);
  record.acts = acts;
  emit(node, std::move(record));
}

//===----------------------------------------------------------------------===//
// Graphs and blocks
//===----------------------------------------------------------------------===//

/// Operators that give a tensor that is already there other sizes or strides.
static bool changesMetadataInPlace(Block *block) {
  static const std::set<std::string> kChanging = {
      "aten::resize_",    "aten::resize_as_", "aten::set_",
      "aten::t_",         "aten::transpose_", "aten::squeeze_",
      "aten::unsqueeze_", "aten::swapaxes_",  "aten::swapdims_",
      "aten::as_strided_"};
  for (Node *node : block->nodes()) {
    if (kChanging.count(node->kind().toQualString()))
      return true;
    for (Block *inner : node->blocks())
      if (changesMetadataInPlace(inner))
        return true;
  }
  return false;
}

void Translator::addOutput(BlockRecord &block, const BindingRef &binding) {
  Argument argument = getArgument(binding);
  block.outputs.push_back(std::move(argument.text));
  for (std::string &use : argument.uses)
    block.outputUses.push_back(std::move(use));
}

/// True where an object that hangs on the module may be taken for one that the
/// graph makes, or the other way round.
bool Translator::exchangesObjects(Block *block) const {
  for (Node *node : block->nodes()) {
    for (Block *inner : node->blocks())
      if (exchangesObjects(inner))
        return true;
    if (node->kind() == prim::SetAttr && graph.getAttributePath(node) &&
        holdsKind(*node->input(1)->type(), c10::TypeKind::ClassType))
      return true;
    if (node->kind() != prim::GetAttr || !graph.getAttributePath(node))
      continue;
    const ModuleValue *held = graph.lookUpModule(node->output());
    if (!held && holdsKind(*node->output()->type(), c10::TypeKind::ClassType))
      return true;
    if (!held || held->object.type()->expectRef<c10::ClassType>().is_module())
      continue;
    for (const Use &use : node->output()->uses())
      if (use.offset != 0 || (use.user->kind() != prim::GetAttr &&
                              use.user->kind() != prim::SetAttr))
        return true;
  }
  return false;
}

/// True for an object of a class of the archive's own, that the graph makes.
bool Translator::isOwnObject(const Value *value) const {
  auto type = value->type()->cast<c10::ClassType>();
  return writesObjects && type && !type->is_module() && type->name() &&
         type->name()->qualifiedName().rfind("__torch__.torch.classes.", 0) !=
             0;
}

BlockRecord
Translator::translate(const std::vector<std::optional<c10::IValue>> &fixed,
                      const std::vector<ArgumentForm> &forms) {
  Block *block = graph.getGraph().block();
  changesMetadata = changesMetadataInPlace(block);
  // Only the archive has the classes that these are of.
  std::vector<const Value *> passed(block->inputs().begin() + 1,
                                    block->inputs().end());
  passed.push_back(block->outputs()[0]);
  for (const Value *value : passed) {
    writesEnums &= !holdsKind(*value->type(), c10::TypeKind::EnumType);
    writesObjects &= !holdsKind(*value->type(), c10::TypeKind::ClassType);
  }
  writesObjects &= !exchangesObjects(block);
  if (runner) {
    std::vector<Variation::Argument> arguments;
    for (size_t i = 0; i < fixed.size(); ++i)
      arguments.push_back(fixed[i].has_value() ? Variation::Argument::Fixed
                          : forms[i].isOpen ? Variation::Argument::OfAnyType
                                            : Variation::Argument::OfOneType);
    variation.emplace(graph, *runner, arguments);
    if (variation->hasAnyOtherTypes())
      runner->explore(*variation);
  }
  BlockRecord result;
  nodes = &result.nodes;
  std::vector<InputRecord> userInputs;
  for (size_t i = 1; i < block->inputs().size(); ++i) {
    const Value *value = block->inputs()[i];
    if (i - 1 < fixed.size() && fixed[i - 1]) {
      bind(value, makeKnown(*fixed[i - 1]));
      continue;
    }
    InputRecord input;
    input.name = makeName(graph.getSchema().arguments()[i].name());
    input.type = addType(file, getType(value));
    typeOfName[input.name] = input.type;
    bind(value, makeNode(input.name));
    makers[input.name] = value;
    if (i - 1 < forms.size() && !forms[i - 1].text.empty())
      file.argumentForms[input.name] = forms[i - 1].text;
    userInputs.push_back(input);
  }
  translateBlock(block);
  BindingRef returned = get(block->outputs()[0]);
  stopFollowing(returned);
  if (returned->form == Binding::Tuple && returned->elements.size() != 1) {
    hasOneOutput = false;
    for (const BindingRef &element : returned->elements)
      addOutput(result, element);
  } else {
    addOutput(result, returned);
  }
  finishBlock(result, typeOfName);
  for (auto *list : {&parameters, &buffers, &constants, &userInputs})
    result.inputs.insert(result.inputs.end(), list->begin(), list->end());
  return result;
}

void Translator::translateBlock(Block *block) {
  for (Node *node : block->nodes())
    translateNode(node);
}

void Translator::translateNode(Node *node) {
  if (translateContainerStep(node))
    return;
  stopFollowingInputs(node);
  if (translatePrimitive(node) || translateIsInstance(node) ||
      translateConstruction(node) || translateUnpacking(node) ||
      translateMetadata(node) || translateKnown(node) ||
      translateNumToTensor(node) || translateToPython(node) ||
      translateConvolution(node) || translateWholeSlice(node))
    return;
  giveBackDropoutOperand(node);
  if (node->maybeSchema() && !node->maybeSchema()->is_vararg())
    translateOperator(node);
  else
    translateOther(node);
}

BlockRecord Translator::translateInner(Block *block) {
  BlockRecord result;
  std::vector<NodeRecord> *outer = std::exchange(nodes, &result.nodes);
  translateBlock(block);
  for (const Value *output : block->outputs())
    addOutput(result, get(output));
  nodes = outer;
  return result;
}

static bool acts(const std::vector<BlockRecord> &blocks) {
  for (const BlockRecord &block : blocks)
    for (const NodeRecord &node : block.nodes)
      if (node.acts)
        return true;
  return false;
}

void Translator::translateIf(Node *node) {
  BindingRef condition = get(node->input());
  if (auto known = getKnown(*condition); known && known->isBool()) {
    Block *taken = node->blocks()[known->toBool() ? 0 : 1];
    translateBlock(taken);
    for (size_t i = 0; i < node->outputs().size(); ++i)
      bind(node->outputs()[i], get(taken->outputs()[i]));
    return;
  }
  for (Block *block : node->blocks())
    stopFollowingWithin(block);
  NodeRecord record = makeRecord(node, "prim.If", "branch");
  addArgument(record, condition);
  for (Block *block : node->blocks())
    record.blocks.push_back(translateInner(block));
  record.acts = acts(record.blocks);
  emit(node, std::move(record));
}

void Translator::translateLoop(Node *node) {
  if (unrollLoop(node))
    return;
  for (const Value *input : node->inputs())
    stopFollowing(get(input));
  stopFollowingWithin(node->blocks()[0]);
  NodeRecord record = makeRecord(node, "prim.Loop", "loop");
  for (const Value *input : node->inputs())
    addArgument(record, get(input));
  Block *body = node->blocks()[0];
  std::vector<InputRecord> inputs;
  for (size_t i = 0; i < body->inputs().size(); ++i) {
    const Value *value = body->inputs()[i];
    InputRecord input;
    input.name = makeName(i ? "carried" : "iteration");
    input.type = addType(file, getType(value));
    typeOfName[input.name] = input.type;
    bind(value, makeNode(input.name));
    inputs.push_back(input);
  }
  BlockRecord block = translateInner(body);
  block.inputs = std::move(inputs);
  record.blocks.push_back(std::move(block));
  record.acts = acts(record.blocks);
  emit(node, std::move(record));
}
