// Levels, from what calls change forward through the graph.

#include "Variation.h"

#include <ATen/core/enum_tag.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>
#include <set>

using namespace opprof::torchscript;
using namespace torch::jit;

/// Times that the graph is gone through before everything is taken to vary: a
/// change goes from loop to loop, and from round to round.
static constexpr unsigned kMaxPasses = 32;

static bool isTensor(const Value *value) {
  return value->type()->kind() == c10::TypeKind::TensorType;
}

static bool hasTag(const Node *node, at::Tag tag) {
  const Operator *op = node->maybeOperator();
  if (!op)
    return false;
  for (at::Tag present : op->getTags())
    if (present == tag)
      return true;
  return false;
}

/// Operators that say of a tensor what follows from its type.
static bool asksForType(const Node *node) {
  static const std::set<std::string> kNames = {"aten::size",
                                               "aten::sym_size",
                                               "aten::dim",
                                               "aten::ndimension",
                                               "aten::numel",
                                               "aten::sym_numel",
                                               "aten::stride",
                                               "aten::storage_offset",
                                               "aten::len",
                                               "aten::is_floating_point",
                                               "aten::is_complex",
                                               "aten::is_signed",
                                               "aten::is_contiguous",
                                               "aten::element_size",
                                               "aten::get_device",
                                               "aten::result_type",
                                               "aten::can_cast",
                                               "prim::dtype",
                                               "prim::device",
                                               "prim::layout",
                                               "prim::itemsize",
                                               "prim::nbytes",
                                               "prim::is_cuda",
                                               "prim::is_cpu",
                                               "prim::is_nested",
                                               "prim::is_quantized",
                                               "prim::is_sparse",
                                               "prim::is_sparse_csr",
                                               "prim::is_mkldnn",
                                               "prim::is_meta",
                                               "prim::is_vulkan",
                                               "prim::is_mps",
                                               "prim::is_xpu",
                                               "prim::is_ipu",
                                               "prim::is_maia",
                                               "prim::is_mtia",
                                               "prim::requires_grad",
                                               "aten::__is__",
                                               "aten::__isnot__",
                                               "prim::isinstance",
                                               "aten::is_grad_enabled"};
  return kNames.count(node->kind().toQualString());
}

Variation::Variation(const ModuleGraph &graph, const Runner &runner,
                     const std::vector<Argument> &arguments)
    : graph(graph), runner(runner) {
  Block *block = graph.getGraph().block();
  for (size_t i = 1; i < block->inputs().size(); ++i)
    if (i > arguments.size() || arguments[i - 1] == Argument::OfOneType)
      levels[block->inputs()[i]] = OtherContent;
    else if (arguments[i - 1] == Argument::OfAnyType)
      levels[block->inputs()[i]] = OtherType;
  for (unsigned pass = 0; pass < kMaxPasses; ++pass) {
    isStable = true;
    visitBlock(block, Same);
    if (isStable)
      return;
  }
  isGivenUp = true;
}

bool Variation::hasAnyOtherTypes() const {
  return isGivenUp ||
         std::any_of(levels.begin(), levels.end(), [](const auto &entry) {
           return entry.second == OtherType;
         });
}

void Variation::raise(const Value *value, Level level) {
  // A number has one type.
  if (level == OtherType && isNumberType(*value->type()))
    level = OtherContent;
  if (level == Same)
    return;
  Level &known = levels[value];
  if (known >= level)
    return;
  known = level;
  isStable = false;
}

void Variation::visitBlock(Block *block, Level control) {
  for (Node *node : block->nodes())
    visitNode(node, control);
}

void Variation::visitNode(Node *node, Level control) {
  switch (node->kind()) {
  case prim::Constant:
  case prim::Uninitialized:
  case prim::SetAttr:
    return;
  case prim::GetAttr: {
    if (graph.lookUpModule(node->output()))
      return;
    std::optional<std::string> path = graph.getAttributePath(node);
    if (!path || graph.isWritten(*path) || graph.isChangedInPlace(*path))
      raise(node->output(), OtherType);
    else if (holdsKind(*node->output()->type(), c10::TypeKind::TensorType))
      raise(node->output(), OtherContent);
    return;
  }
  case prim::If:
    visitIf(node, control);
    return;
  case prim::Loop:
    visitLoop(node, control);
    return;
  default:
    visitOperator(node, control);
  }
}

/// True where both are one type that the run knows all of: none of a list, of
/// which another round or branch may make another one.
bool Variation::isOneType(const Value *first, const Value *second) const {
  const ValueType *left = runner.lookUp(first), *right = runner.lookUp(second);
  if (!left || !right || !left->hasStaticSizes() || !right->hasStaticSizes())
    return false;
  return left->sizes == right->sizes && left->dtype == right->dtype &&
         left->device == right->device && left->layout == right->layout &&
         left->requiresGrad == right->requiresGrad;
}

/// A condition that is the same in each call takes the branches that a run
/// took.
void Variation::visitIf(Node *node, Level control) {
  Level condition = getLevel(node->input());
  std::vector<Block *> taken;
  for (Block *block : node->blocks())
    if (runner.hasRun(block))
      taken.push_back(block);
  if (condition != Same || taken.empty())
    taken = node->blocks().vec();
  for (Block *block : taken)
    visitBlock(block, std::max(control, condition));
  for (size_t i = 0; i < node->outputs().size(); ++i) {
    Level level = Same;
    for (Block *block : taken)
      level = std::max(level, getLevel(block->outputs()[i]));
    if (condition != Same)
      level = isOneType(taken[0]->outputs()[i], taken[1]->outputs()[i])
                  ? std::max(level, OtherContent)
                  : OtherType;
    raise(node->outputs()[i], level);
  }
}

/// Where the number of rounds varies, a run has not seen all of them: what is
/// carried has one type if it has that before the first round, and a round that
/// takes that type gives it.
void Variation::visitLoop(Node *node, Level control) {
  Block *body = node->blocks()[0];
  Level rounds = std::max({getLevel(node->input(0)), getLevel(node->input(1)),
                           getLevel(body->outputs()[0])});
  raise(body->inputs()[0], rounds);
  for (size_t i = 0; i < node->outputs().size(); ++i) {
    const Value *initial = node->inputs()[i + 2],
                *next = body->outputs()[i + 1], *inside = body->inputs()[i + 1];
    Level level = std::max(getLevel(initial), getLevel(next));
    if (rounds != Same)
      level =
          isOneType(initial, next) ? std::max(level, OtherContent) : OtherType;
    raise(inside, level);
    raise(node->outputs()[i], level);
  }
  visitBlock(body, std::max(control, rounds));
}

static bool isMask(const ValueType *type) {
  return !type || type->kind != ValueType::Tensor ||
         type->dtype == c10::ScalarType::Bool ||
         type->dtype == c10::ScalarType::Byte;
}

/// True where sizes of what the operator gives follow from numbers in tensors.
bool Variation::hasSizesOfData(const Node *node) const {
  std::string name = node->kind().toQualString();
  // Indices are as many as they are; a mask takes as many as it says.
  if (name == "aten::index") {
    const Node *list = node->input(1)->node();
    if (list->kind() != prim::ListConstruct)
      return true;
    for (const Value *index : list->inputs()) {
      const ValueType *seen = runner.lookUp(index);
      bool isNone = seen && seen->kind == ValueType::Name;
      if (!isNone && isMask(seen))
        return true;
    }
    return false;
  }
  // These are made of operators that PyTorch knows as such, and not known as
  // such themselves.
  static const std::set<std::string> kComposite = {
      "aten::nonzero_numpy",
      "aten::argwhere",
      "aten::one_hot",
      "aten::_pack_padded_sequence",
      "aten::_pad_packed_sequence",
      "aten::masked_select",
      "aten::unique_consecutive",
      "aten::histogramdd",
      "aten::_sparse_mask_helper",
      "aten::to_sparse",
      "aten::sparse_coo_tensor",
      "aten::unflatten_dense_tensors"};
  if (kComposite.count(name) ||
      (name == "aten::where" && node->inputs().size() == 1))
    return true;
  if ((name == "aten::repeat_interleave" || name == "aten::tensor_split") &&
      node->inputs().size() > 1 && isTensor(node->input(1)))
    return true;
  if (!node->maybeOperator())
    return true;
  // Libraries say of few operators what they do.
  if (name.rfind("aten::", 0) != 0 && name.rfind("prim::", 0) != 0 &&
      name.rfind("quantized::", 0) != 0)
    return true;
  return hasTag(node, at::Tag::dynamic_output_shape);
}

/// The elements of a tuple that is put together in sight, which are what is
/// taken of it: that one of them varies says nothing of the others.
static at::ArrayRef<Value *> lookUpElements(Node *node) {
  Node *tuple = node->input(0)->node();
  return tuple->kind() == prim::TupleConstruct ? tuple->inputs()
                                               : at::ArrayRef<Value *>();
}

bool Variation::visitTuple(Node *node) {
  if (node->kind() == prim::TupleUnpack) {
    at::ArrayRef<Value *> elements = lookUpElements(node);
    if (elements.size() != node->outputs().size())
      return false;
    for (size_t i = 0; i < elements.size(); ++i)
      raise(node->outputs()[i], getLevel(elements[i]));
    return true;
  }
  if (node->kind() != prim::TupleIndex)
    return false;
  at::ArrayRef<Value *> elements = lookUpElements(node);
  std::optional<c10::IValue> index = toIValue(node->input(1));
  if (!index || !index->isInt())
    return false;
  auto place = toPlace(index->toInt(), elements.size());
  if (!place)
    return false;
  raise(node->output(), getLevel(elements[*place]));
  return true;
}

/// True where a number stands for a dtype, a layout or a memory format, which
/// are types of their own in the schema alone.
static bool statesType(const c10::Argument &argument) {
  c10::TypePtr type = argument.real_type();
  if (auto optional = type->cast<c10::OptionalType>())
    type = optional->getElementType();
  return type->kind() == c10::TypeKind::ScalarTypeType ||
         type->kind() == c10::TypeKind::LayoutType ||
         type->kind() == c10::TypeKind::MemoryFormatType;
}

void Variation::visitOperator(Node *node, Level control) {
  if (visitTuple(node))
    return;
  const c10::FunctionSchema *schema = node->maybeSchema();
  bool isPlain =
      schema || node->kind() == prim::ListConstruct ||
      node->kind() == prim::DictConstruct ||
      node->kind() == prim::TupleConstruct ||
      node->kind() == prim::ListUnpack || node->kind() == prim::TupleUnpack ||
      node->kind() == prim::TupleIndex || node->kind() == prim::TupleSlice ||
      node->kind() == prim::unchecked_cast || node->kind() == prim::isinstance;
  bool isConstruct = !schema && isPlain;
  bool takesTensors = false, onlyAsks = asksForType(node);
  Level types = Same, numbers = Same;
  // What is drawn is another number in each call.
  Level contents =
      hasTag(node, at::Tag::nondeterministic_seeded) ? OtherContent : Same;
  bool isMadeOtherwise = false;
  for (size_t i = 0; i < node->inputs().size(); ++i) {
    const Value *input = node->input(i);
    Level level = getLevel(input);
    contents = std::max(contents, level);
    if (level != Same && schema && i < schema->arguments().size() &&
        statesType(schema->arguments()[i]))
      isMadeOtherwise = true;
    if (level == OtherType)
      types = OtherType;
    if (holdsKind(*input->type(), c10::TypeKind::TensorType))
      takesTensors = true;
    else
      numbers = std::max(numbers, level);
  }
  // Scales, which a buffer holds, say as little of sizes as other numbers
  // there.
  bool pointwise = hasTag(node, at::Tag::pointwise) ||
                   node->kind() == aten::quantize_per_tensor;
  bool ofData = !isConstruct && takesTensors && contents != Same && !onlyAsks &&
                hasSizesOfData(node);
  for (const Value *output : node->outputs()) {
    Level level = contents;
    if (!isPlain)
      level = OtherType;
    else if (isConstruct)
      level = contents;
    else if (onlyAsks)
      level = takesTensors ? std::max(types, numbers) : contents;
    else if (!isNumberType(*output->type()) &&
             (ofData || (numbers != Same && (!pointwise || isMadeOtherwise) &&
                         node->kind() != prim::NumToTensor)))
      level = OtherType;
    raise(output, level);
  }
  // What is put into a list, or whether it is, is to be seen by all its names.
  if (!schema)
    return;
  for (size_t i = 0;
       i < node->inputs().size() && i < schema->arguments().size(); ++i) {
    const c10::AliasInfo *alias = schema->arguments()[i].alias_info();
    const Value *input = node->input(i);
    bool writesContainer = alias && alias->isWrite() && !isTensor(input);
    if (!writesContainer || (control == Same && types == Same &&
                             numbers == Same && getLevel(input) != OtherType))
      continue;
    std::vector<const Value *> pending = {input};
    std::set<const Value *> seen = {input};
    while (!pending.empty()) {
      const Value *value = pending.back();
      pending.pop_back();
      raise(value, OtherType);
      for (const Value *other : graph.getMutations().getOtherNames(value))
        if (!isTensor(other) && seen.insert(other).second)
          pending.push_back(other);
    }
  }
}
