// Lists and dictionaries while a graph is translated: what they hold is
// followed from where the graph makes them through its own changes, as far as
// no branch or loop that stays in the graph decides over them.

#include "Translator.h"

#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <functional>

using namespace opprof::torchscript;
using namespace torch::jit;

/// Rounds of a loop that are written one by one, and nodes of all such rounds.
static constexpr int64_t kMaxRounds = 64;
static constexpr size_t kMaxUnrolledNodes = 10000;

//===----------------------------------------------------------------------===//
// What is followed
//===----------------------------------------------------------------------===//

/// Binds the node's output to what it makes of these elements: a list or a
/// dictionary is followed where the graph changes it.
void Translator::bindContainer(Node *node, Binding::Form form,
                               std::vector<BindingRef> elements) {
  auto binding = std::make_shared<Binding>();
  binding->form = form;
  binding->elements = std::move(elements);
  if (form != Binding::Tuple && !isNeverWritten(node->output()))
    followed.try_emplace(binding.get(), Followed{binding, node});
  bind(node->output(), binding);
}

/// Writes a list or dictionary that was followed, and what is followed in it,
/// as nodes: from here on the graph holds it.
void Translator::stopFollowing(const BindingRef &root) {
  if (followed.empty())
    return;
  // What is held stands before what holds it.
  std::vector<Followed> written;
  std::unordered_set<const Binding *> seen;
  std::function<void(const Binding &)> visit = [&](const Binding &binding) {
    if (!seen.insert(&binding).second)
      return;
    for (const BindingRef &element : binding.elements)
      visit(*element);
    if (auto found = followed.find(&binding); found != followed.end())
      written.push_back(found->second);
  };
  visit(*root);
  for (const Followed &container : written) {
    bool isList = container.binding->form == Binding::List;
    NodeRecord record =
        makeRecord(container.maker, isList ? "builtins.list" : "builtins.dict");
    addArgument(record, container.binding);
    record.type = addType(file, getType(container.maker->output()));
    typeOfName[record.name] = record.type;
    container.binding->form = Binding::Node;
    container.binding->node = record.name;
    container.binding->elements.clear();
    nodes->push_back(std::move(record));
    followed.erase(container.binding.get());
  }
}

/// The same for all that blocks refer to which stay in the graph.
void Translator::stopFollowingWithin(Block *block) {
  auto visit = [&](const Value *value) {
    if (auto found = bindings.find(value); found != bindings.end())
      stopFollowing(BindingRef(found->second));
  };
  for (Node *node : block->nodes()) {
    for (const Value *input : node->inputs())
      visit(input);
    for (Block *inner : node->blocks())
      stopFollowingWithin(inner);
  }
  for (const Value *output : block->outputs())
    visit(output);
}

/// The same for what a node takes, but where it only looks at it: what keeps a
/// list, or gives a part of it by reference, sees later changes.
void Translator::stopFollowingInputs(Node *node) {
  if (followed.empty())
    return;
  switch (node->kind()) {
  case prim::If:
  case prim::Loop:
  case prim::ListConstruct:
  case prim::TupleConstruct:
  case prim::DictConstruct:
  case prim::TupleUnpack:
  case prim::TupleIndex:
  case prim::ListUnpack:
  case prim::isinstance:
  case prim::unchecked_cast:
  case prim::unchecked_unwrap_optional:
  case aten::_unwrap_optional:
    return;
  default:
    break;
  }
  const c10::FunctionSchema *schema = node->maybeSchema();
  bool isOperator = schema && !schema->is_vararg() && node->kind().is_aten();
  for (size_t i = 0; i < node->inputs().size(); ++i) {
    bool isRead = isOperator && i < schema->arguments().size() &&
                  !schema->arguments()[i].alias_info();
    auto found = bindings.find(node->input(i));
    if (!isRead && found != bindings.end())
      stopFollowing(BindingRef(found->second));
  }
}

/// What a list or tuple holds now, or a dictionary as keys and values in turn;
/// nothing where the graph may hold something else.
std::optional<std::vector<BindingRef>>
Translator::getContents(const Value *value) {
  auto found = bindings.find(value);
  if (found == bindings.end() ||
      (!followed.count(found->second.get()) && !isNeverWritten(value)))
    return std::nullopt;
  const Binding &binding = *found->second;
  if (binding.form == Binding::Dict)
    return binding.elements;
  if (binding.form != Binding::Known || !binding.known.isGenericDict())
    return value->type()->kind() == c10::TypeKind::DictType
               ? std::nullopt
               : getElements(binding);
  std::vector<BindingRef> elements;
  for (const auto &entry : binding.known.toGenericDict()) {
    elements.push_back(makeKnown(entry.key()));
    elements.push_back(makeKnown(entry.value()));
  }
  return elements;
}

/// What is known of the value now: a number, or a list of numbers.
std::optional<c10::IValue> Translator::getKnownNumbers(const Value *value) {
  auto found = bindings.find(value);
  // A module is no number.
  if (found == bindings.end())
    return std::nullopt;
  if (auto known = getKnown(*found->second))
    return isNumber(*known) ? known : std::nullopt;
  auto *type = value->type()->castRaw<c10::ListType>();
  auto elements = type ? getContents(value) : std::nullopt;
  if (!elements || elements->size() > kMaxKnownElements)
    return std::nullopt;
  c10::impl::GenericList list(type->getElementType());
  for (const BindingRef &element : *elements) {
    auto number = getKnown(*element);
    if (!number || number->isTensor() || !isNumber(*number) ||
        !number->type()->isSubtypeOf(*type->getElementType()))
      return std::nullopt;
    list.push_back(*number);
  }
  return c10::IValue(std::move(list));
}

//===----------------------------------------------------------------------===//
// Lists
//===----------------------------------------------------------------------===//

std::optional<int64_t> Translator::getKnownInt(const Value *value) {
  auto known = getKnown(*get(value));
  return known && known->isInt() ? std::optional(known->toInt()) : std::nullopt;
}

/// A step of a list whose elements are there, done now and not by the graph.
bool Translator::translateListStep(Node *node, const std::string &name) {
  const Value *list = node->input(0);
  auto elements = getContents(list);
  if (!elements || elements->size() > kMaxKnownElements)
    return false;
  auto place = [&](size_t input) {
    auto index = getKnownInt(node->input(input));
    return index ? toPlace(*index, elements->size()) : std::nullopt;
  };
  if (name == "aten::len") {
    bind(node->output(), makeKnown(static_cast<int64_t>(elements->size())));
    return true;
  }
  if (name == "aten::__getitem__") {
    auto at = place(1);
    if (at)
      bind(node->output(), (*elements)[*at]);
    return at.has_value();
  }
  if (name == "aten::list" || name == "aten::copy") {
    bindContainer(node, Binding::List, *elements);
    return true;
  }
  if (name == "aten::add") {
    auto more = getContents(node->input(1));
    if (!more || elements->size() + more->size() > kMaxKnownElements)
      return false;
    elements->insert(elements->end(), more->begin(), more->end());
    bindContainer(node, Binding::List, *elements);
    return true;
  }
  auto found = followed.find(get(list).get());
  if (found == followed.end())
    return false;
  std::vector<BindingRef> &own = found->second.binding->elements;
  if (name == "aten::append") {
    own.push_back(get(node->input(1)));
  } else if (name == "aten::extend" || name == "aten::add_") {
    auto more = getContents(node->input(1));
    if (!more || own.size() + more->size() > kMaxKnownElements)
      return false;
    own.insert(own.end(), more->begin(), more->end());
  } else if (name == "aten::_set_item") {
    auto at = place(1);
    if (!at)
      return false;
    own[*at] = get(node->input(2));
  } else if (name == "aten::insert") {
    auto index = getKnownInt(node->input(1));
    if (!index)
      return false;
    auto size = static_cast<int64_t>(own.size());
    int64_t at =
        std::clamp<int64_t>(*index < 0 ? *index + size : *index, 0, size);
    own.insert(own.begin() + at, get(node->input(2)));
  } else if (name == "aten::pop") {
    auto at = place(1);
    if (!at)
      return false;
    bind(node->output(), own[*at]);
    own.erase(own.begin() + static_cast<int64_t>(*at));
    return true;
  } else if (name == "aten::Delete" || name == "aten::__delitem__") {
    auto at = place(1);
    if (!at)
      return false;
    own.erase(own.begin() + static_cast<int64_t>(*at));
  } else if (name == "aten::clear") {
    own.clear();
  } else if (name == "aten::reverse") {
    std::reverse(own.begin(), own.end());
  } else {
    return false;
  }
  // Some give the list itself.
  for (const Value *output : node->outputs())
    bind(output, get(list));
  return true;
}

//===----------------------------------------------------------------------===//
// Dictionaries
//===----------------------------------------------------------------------===//

/// Where a key's entry begins among keys and values in turn, their number where
/// it is not there; nothing where a key is not known.
std::optional<size_t>
Translator::findEntry(const std::vector<BindingRef> &entries,
                      const Value *key) {
  auto wanted = getKnown(*get(key));
  if (!wanted || !isNumber(*wanted) || wanted->isTensor())
    return std::nullopt;
  std::optional<size_t> place = entries.size();
  for (size_t i = 0; i + 1 < entries.size(); i += 2) {
    auto known = getKnown(*entries[i]);
    if (!known || !isNumber(*known) || known->isTensor())
      return std::nullopt;
    if (*known == *wanted)
      place = i;
  }
  return place;
}

/// A step of a dictionary whose entries are there.
bool Translator::translateDictStep(Node *node, const std::string &name) {
  const Value *dict = node->input(0);
  auto entries = getContents(dict);
  if (!entries || entries->size() > kMaxKnownElements)
    return false;
  auto bindParts = [&](size_t first) {
    std::vector<BindingRef> parts;
    for (size_t i = first; i < entries->size(); i += 2)
      parts.push_back((*entries)[i]);
    bindContainer(node, Binding::List, std::move(parts));
  };
  if (name == "aten::len") {
    bind(node->output(), makeKnown(static_cast<int64_t>(entries->size() / 2)));
  } else if (name == "aten::dict" || name == "aten::copy") {
    bindContainer(node, Binding::Dict, *entries);
  } else if (name == "aten::keys" || name == "aten::values") {
    bindParts(name == "aten::keys" ? 0 : 1);
  } else if (name == "aten::__contains__" || name == "aten::__getitem__") {
    auto at = findEntry(*entries, node->input(1));
    bool asksIs = name == "aten::__contains__";
    if (!at || (!asksIs && *at == entries->size()))
      return false;
    bind(node->output(),
         asksIs ? makeKnown(*at < entries->size()) : (*entries)[*at + 1]);
  } else if (name == "aten::_set_item") {
    auto found = followed.find(get(dict).get());
    auto at = findEntry(*entries, node->input(1));
    if (found == followed.end() || !at)
      return false;
    std::vector<BindingRef> &own = found->second.binding->elements;
    if (*at == own.size())
      own.insert(own.end(), {get(node->input(1)), nullptr});
    own[*at + 1] = get(node->input(2));
  } else {
    return false;
  }
  return true;
}

bool Translator::translateContainerStep(Node *node) {
  if (node->kind() == aten::dict && node->inputs().empty()) {
    bindContainer(node, Binding::Dict, {});
    return true;
  }
  if (node->inputs().empty() || node->outputs().size() > 1 ||
      !node->kind().is_aten())
    return false;
  std::string name = node->kind().toQualString();
  switch (node->input(0)->type()->kind()) {
  case c10::TypeKind::ListType:
    return translateListStep(node, name);
  case c10::TypeKind::DictType:
    return translateDictStep(node, name);
  default:
    return false;
  }
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

/// Counts the nodes of a block that computes no tensor; nothing where it does.
static std::optional<size_t> countNumberNodes(Block *block) {
  size_t count = 0;
  for (Node *node : block->nodes()) {
    ++count;
    bool isConstant =
        node->kind() == prim::Constant || node->kind() == prim::GetAttr;
    for (const Value *output : node->outputs())
      if (!isConstant && holdsKind(*output->type(), c10::TypeKind::TensorType))
        return std::nullopt;
    for (Block *inner : node->blocks()) {
      auto nested = countNumberNodes(inner);
      if (!nested)
        return std::nullopt;
      count += *nested;
    }
  }
  return count;
}

/// Writes a loop of few rounds, known now, over sizes and other numbers one
/// round after another. One that computes tensors stays a loop.
bool Translator::unrollLoop(Node *node) {
  auto rounds = getKnownInt(node->input(0));
  auto begins = getKnown(*get(node->input(1)));
  Block *body = node->blocks()[0];
  std::optional<c10::IValue> goesOn = toIValue(body->outputs()[0]);
  if (!rounds || *rounds > kMaxRounds || !begins || !begins->isBool() ||
      !goesOn || !goesOn->isBool() || !goesOn->toBool())
    return false;
  int64_t count = begins->toBool() ? std::max<int64_t>(*rounds, 0) : 0;
  auto size = countNumberNodes(body);
  if (!size || numUnrolled + *size * count > kMaxUnrolledNodes)
    return false;
  numUnrolled += *size * count;
  std::vector<BindingRef> carried;
  for (const Value *input : node->inputs().slice(2))
    carried.push_back(get(input));
  for (int64_t round = 0; round < count; ++round) {
    bind(body->inputs()[0], makeKnown(round));
    for (size_t i = 0; i < carried.size(); ++i)
      bind(body->inputs()[i + 1], carried[i]);
    translateBlock(body);
    for (size_t i = 0; i < carried.size(); ++i)
      carried[i] = get(body->outputs()[i + 1]);
  }
  for (size_t i = 0; i < carried.size(); ++i)
    bind(node->outputs()[i], carried[i]);
  return true;
}
