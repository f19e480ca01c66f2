// Changes in place, from where they happen back along what shares the object.

#include "Mutations.h"

using namespace opprof::torchscript;
using namespace torch::jit;

bool opprof::torchscript::isNumberType(const c10::Type &type) {
  switch (type.kind()) {
  case c10::TypeKind::IntType:
  case c10::TypeKind::FloatType:
  case c10::TypeKind::ComplexType:
  case c10::TypeKind::NumberType:
  case c10::TypeKind::BoolType:
  case c10::TypeKind::StringType:
  case c10::TypeKind::DeviceObjType:
    return true;
  default:
    return false;
  }
}

static bool isMutable(const c10::Type &type, unsigned depth) {
  if (isNumberType(type))
    return false;
  switch (type.kind()) {
  case c10::TypeKind::NoneType:
  case c10::TypeKind::EnumType:
  case c10::TypeKind::FunctionType:
    return false;
  case c10::TypeKind::OptionalType:
  case c10::TypeKind::TupleType:
  case c10::TypeKind::UnionType:
    if (depth > 64)
      return true;
    for (const c10::TypePtr &inner : type.containedTypes())
      if (isMutable(*inner, depth + 1))
        return true;
    return false;
  default:
    return true;
  }
}

bool opprof::torchscript::isMutable(const c10::Type &type) {
  return ::isMutable(type, 0);
}

static bool holdsKind(const c10::Type &type, c10::TypeKind kind,
                      unsigned depth) {
  if (type.kind() == kind || depth > 64)
    return true;
  for (const c10::TypePtr &inner : type.containedTypes())
    if (holdsKind(*inner, kind, depth + 1))
      return true;
  return false;
}

bool opprof::torchscript::holdsKind(const c10::Type &type, c10::TypeKind kind) {
  return ::holdsKind(type, kind, 0);
}

static bool mayChange(const Value *value) {
  return opprof::torchscript::isMutable(*value->type());
}

/// True for lists, dictionaries and tuples of what may be changed itself.
static bool holdsMutable(const c10::Type &type) {
  if (type.kind() == c10::TypeKind::TensorType)
    return false;
  for (const c10::TypePtr &inner : type.containedTypes())
    if (opprof::torchscript::isMutable(*inner))
      return true;
  return false;
}

Mutations::Mutations(Block *block) {
  visitBlock(block);
  while (!pending.empty()) {
    const Value *value = pending.back();
    pending.pop_back();
    auto found = sources.find(value);
    if (found == sources.end())
      continue;
    for (const Value *source : found->second)
      markChanged(source);
  }
}

void Mutations::markChanged(const Value *value) {
  if (mayChange(value) && changed.insert(value).second)
    pending.push_back(value);
}

void Mutations::connect(const Value *from, const Value *to) {
  if (!mayChange(from) || !mayChange(to))
    return;
  sources[to].push_back(from);
  derived[from].push_back(to);
}

void Mutations::connectAll(Node *node) {
  for (const Value *input : node->inputs())
    for (const Value *output : node->outputs())
      connect(input, output);
}

std::vector<const Value *> Mutations::getOtherNames(const Value *value) const {
  Values result;
  for (const auto *edges : {&sources, &derived})
    if (auto found = edges->find(value); found != edges->end())
      result.insert(result.end(), found->second.begin(), found->second.end());
  return result;
}

void Mutations::visitBlock(Block *block) {
  for (Node *node : block->nodes()) {
    visitNode(node);
    for (Block *inner : node->blocks())
      visitBlock(inner);
  }
}

void Mutations::visitNode(Node *node) {
  switch (node->kind()) {
  case prim::Constant:
  case prim::Uninitialized:
  case prim::CreateObject:
    return;
  // What is read from an object is looked at by the attribute's name.
  case prim::GetAttr:
    return;
  case prim::SetAttr:
    // From here on it has another name.
    markChanged(node->input(1));
    return;
  case prim::ListConstruct:
  case prim::DictConstruct:
  case prim::TupleConstruct:
  case prim::ListUnpack:
  case prim::TupleUnpack:
  case prim::TupleIndex:
  case prim::TupleSlice:
  case prim::unchecked_cast:
    connectAll(node);
    return;
  case prim::If:
    for (Block *block : node->blocks())
      for (size_t i = 0; i < node->outputs().size(); ++i)
        connect(block->outputs()[i], node->outputs()[i]);
    return;
  case prim::Loop: {
    Block *body = node->blocks()[0];
    for (size_t i = 0; i < node->outputs().size(); ++i) {
      connect(node->inputs()[i + 2], body->inputs()[i + 1]);
      connect(body->outputs()[i + 1], body->inputs()[i + 1]);
      connect(node->inputs()[i + 2], node->outputs()[i]);
      connect(body->outputs()[i + 1], node->outputs()[i]);
    }
    return;
  }
  default:
    visitOperator(node);
  }
}

/// True where `value` is a list, dictionary or tuple, made of no others that
/// have a name, that nothing but `user` takes, and another one each time.
static bool isMadeFor(const Node *user, const Value *value) {
  const Node *maker = value->node();
  if (maker->kind() == prim::Constant)
    return false;
  if (value->type()->kind() == c10::TypeKind::TensorType)
    return true;
  if ((maker->kind() != prim::ListConstruct &&
       maker->kind() != prim::DictConstruct &&
       maker->kind() != prim::TupleConstruct) ||
      value->uses().size() != 1 || maker->owningBlock() != user->owningBlock())
    return false;
  for (const Value *element : maker->inputs())
    if (mayChange(element) && !isMadeFor(maker, element))
      return false;
  return true;
}

void Mutations::visitOperator(Node *node) {
  const c10::FunctionSchema *schema = node->maybeSchema();
  // What is put into a text is read, and so is a tensor that lists are made of.
  if (node->kind() == prim::tolist ||
      (schema && schema->is_vararg() && !schema->returns().empty() &&
       schema->returns()[0].type()->kind() == c10::TypeKind::StringType))
    return;
  bool writes = false;
  if (schema)
    for (const c10::Argument &argument : schema->arguments())
      writes |= argument.alias_info() && argument.alias_info()->isWrite();
  bool givesNew = schema && !schema->is_varret();
  for (size_t i = 0; givesNew && i < schema->returns().size(); ++i)
    givesNew = !schema->returns()[i].alias_info();
  for (size_t i = 0; i < node->inputs().size(); ++i) {
    const Value *input = node->input(i);
    if (!mayChange(input))
      continue;
    if (!schema || i >= schema->arguments().size()) {
      markChanged(input);
      continue;
    }
    const c10::AliasInfo *alias = schema->arguments()[i].alias_info();
    if (alias && alias->isWrite()) {
      markChanged(input);
      for (const Value *output : node->outputs())
        connect(input, output);
      continue;
    }
    // What is put into a container is reached through that from here on.
    if (alias && writes && alias->isWildcardAfter() && !isMadeFor(node, input))
      markChanged(input);
    // A slice or a copy of a list is a list of its own, and holds the same
    // elements.
    bool isCopied = !alias || (givesNew && input->type()->kind() ==
                                               c10::TypeKind::ListType);
    bool isNew = isCopied && !holdsMutable(*input->type());
    for (const Value *output : node->outputs())
      if (!isNew && (alias || holdsMutable(*output->type())))
        connect(input, output);
  }
}
