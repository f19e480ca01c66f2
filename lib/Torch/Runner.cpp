// An interpreter of inlined graphs that records types.

#include "Runner.h"

#include "Variation.h"

#include "opprof/Torch/Archive.h"

#include <ATen/ops/zeros_like.h>
#include <torch/csrc/jit/ir/constants.h>

using namespace opprof::torchscript;
using namespace torch::jit;

/// Nodes that a run may go through: a loop in an archive may have no end.
static constexpr uint64_t kMaxSteps = 200'000'000;

/// Operators that touch more than tensors, or other processes.
static bool isRefused(const Node *node) {
  static const std::set<std::string> kRefused = {
      "aten::save", "aten::from_file", "aten::load", "prim::PythonOp"};
  std::string name = node->kind().toQualString();
  return kRefused.count(name) || name.rfind("prim::rpc", 0) == 0 ||
         name.rfind("_c10d_functional::", 0) == 0 ||
         name.rfind("c10d::", 0) == 0;
}

static std::string getPlace(const Node *node) {
  std::string place = node->kind().toQualString();
  if (auto line = node->sourceRange().file_line_col())
    place += " (" + std::get<0>(*line) + ":" +
             std::to_string(std::get<1>(*line)) + ")";
  return place;
}

void Runner::set(const Value *value, c10::IValue content) {
  // Modules have no type of interest, and objects are described by their class.
  ValueType type = describe(content);
  auto [entry, isNew] = (variation ? anyTypes : types).try_emplace(value, type);
  if (!isNew)
    entry->second.merge(type);
  values[value] = std::move(content);
}

const c10::IValue &Runner::get(const Value *value) const {
  auto found = values.find(value);
  if (found == values.end())
    throw InputError("the graph takes %" + value->debugName() +
                     " before it is there");
  return found->second;
}

static bool writesAnything(Block *block) {
  for (Node *node : block->nodes()) {
    if (node->kind() == prim::SetAttr || node->kind() == prim::CallMethod)
      return true;
    if (const c10::FunctionSchema *schema = node->maybeSchema())
      for (const c10::Argument &argument : schema->arguments())
        if (argument.alias_info() && argument.alias_info()->isWrite())
          return true;
    for (Block *inner : node->blocks())
      if (writesAnything(inner))
        return true;
  }
  return false;
}

void Runner::findReleases(Block *block) {
  auto visit = [&](const Value *value) {
    const Node *last = nullptr;
    for (const Use &use : value->uses()) {
      Node *user = use.user;
      while (user->owningBlock() != block)
        user = user->owningBlock()->owningNode();
      if (!last || last->isBefore(user))
        last = user;
    }
    if (last && last != block->return_node())
      releases[last].push_back(value);
  };
  for (const Value *input : block->inputs())
    visit(input);
  for (Node *node : block->nodes()) {
    for (const Value *output : node->outputs())
      visit(output);
    for (Block *inner : node->blocks())
      findReleases(inner);
  }
}

static bool holdsComplex(const c10::IValue &value) {
  if (value.isComplexDouble())
    return true;
  c10::ArrayRef<c10::IValue> elements;
  if (value.isList())
    elements = value.toListRef();
  else if (value.isTuple())
    elements = value.toTupleRef().elements();
  for (const c10::IValue &element : elements)
    if (holdsComplex(element))
      return true;
  return false;
}

/// A copy that shares nothing. LibTorch copies all but complex numbers: these
/// are put aside meanwhile.
static Module getDeepCopy(const Module &module) {
  struct Aside {
    c10::intrusive_ptr<c10::ivalue::Object> object;
    size_t slot;
    c10::IValue value;
  };
  std::vector<Aside> aside;
  for (const Module &part : module.modules()) {
    auto object = part._ivalue();
    for (size_t slot = 0; slot < object->slots().size(); ++slot)
      if (holdsComplex(object->getSlot(slot)))
        aside.push_back({object, slot, object->getSlot(slot)});
  }
  if (aside.empty())
    return module.deepcopy();
  for (Aside &entry : aside)
    entry.object->setSlot(entry.slot, c10::IValue());
  auto restore = [&] {
    for (Aside &entry : aside)
      entry.object->setSlot(entry.slot, entry.value);
  };
  std::optional<Module> copy;
  try {
    copy = module.deepcopy();
  } catch (...) {
    restore();
    throw;
  }
  restore();
  // Modules are met in the same order in both.
  size_t next = 0;
  auto parts = module.modules();
  auto original = parts.begin();
  for (const Module &part : copy->modules()) {
    auto object = part._ivalue();
    for (; next < aside.size() && aside[next].object == (*original)._ivalue();
         ++next) {
      const c10::IValue &value = aside[next].value;
      object->setSlot(aside[next].slot, value.isList()
                                            ? c10::IValue(value.toList().copy())
                                            : value);
    }
    ++original;
  }
  return *copy;
}

void Runner::runAll(const std::vector<c10::IValue> &inputs) {
  at::NoGradGuard noGradient;
  Block *block = graph.getGraph().block();
  // What the graph takes is what the archive holds, and not what a run leaves.
  Module module = graph.getModule();
  values[block->inputs()[0]] =
      (writesAny ? getDeepCopy(module) : module)._ivalue();
  for (size_t i = 0; i < inputs.size(); ++i)
    set(block->inputs()[i + 1], inputs[i]);
  runBlock(block);
}

static std::vector<c10::IValue>
getCopies(const std::vector<c10::IValue> &originals) {
  std::vector<c10::IValue> copies;
  for (const c10::IValue &value : originals)
    copies.push_back(value.deepcopy());
  return copies;
}

std::vector<c10::IValue> Runner::run(const std::vector<c10::IValue> &inputs) {
  writesAny = writesAnything(graph.getGraph().block());
  given = writesAny ? getCopies(inputs) : inputs;
  Block *block = graph.getGraph().block();
  findReleases(block);
  runAll(inputs);
  std::vector<c10::IValue> results;
  for (const Value *output : block->outputs())
    results.push_back(get(output));
  return results;
}

void Runner::runBlock(Block *block) {
  if (!variation)
    ran.insert(block);
  for (Node *node : block->nodes()) {
    if (variation)
      exploreNode(node);
    else if (++numSteps > kMaxSteps)
      throw InputError("the run goes through more than " +
                       std::to_string(kMaxSteps) + " nodes");
    else
      runNode(node);
    auto done = releases.find(node);
    if (done != releases.end())
      for (const Value *value : done->second)
        values.erase(value);
  }
}

void Runner::runNode(Node *node) {
  if (isRefused(node))
    throw InputError(getPlace(node) +
                     " is not run: it touches more than tensors");
  try {
    if (!runPrimitive(node) && !runConstruction(node))
      runOperator(node);
  } catch (const InputError &) {
    throw;
  } catch (const std::exception &error) {
    std::string what = error.what();
    throw InputError(getPlace(node) + ": " + what.substr(0, what.find('\n')));
  }
}

/// What the code of the archive holds is written as it was, and not as a run
/// leaves it: that has a copy, one of each tensor.
c10::IValue Runner::getOwn(const c10::IValue &constant) {
  if (!constant.isTensor() || !constant.toTensor().defined())
    return constant;
  const at::Tensor &tensor = constant.toTensor();
  auto [found, isNew] = ownConstants.try_emplace(tensor.unsafeGetTensorImpl());
  if (isNew)
    found->second = tensor.clone();
  return found->second;
}

/// Control flow, and what reads and writes modules; false for other nodes.
bool Runner::runPrimitive(Node *node) {
  switch (node->kind()) {
  case prim::Constant:
    // The function that a call named, before the call was inlined, has no
    // value.
    if (auto value = toIValue(node->output()))
      set(node->output(), writesAny ? getOwn(*value) : *value);
    return true;
  case prim::GetAttr:
    set(node->output(),
        get(node->input()).toObject()->getAttr(node->s(attr::name)));
    return true;
  case prim::SetAttr:
    get(node->input(0))
        .toObject()
        ->setAttr(node->s(attr::name), get(node->input(1)));
    return true;
  case prim::If: {
    Block *taken = node->blocks()[get(node->input()).toBool() ? 0 : 1];
    runBlock(taken);
    for (size_t i = 0; i < node->outputs().size(); ++i)
      set(node->outputs()[i], get(taken->outputs()[i]));
    return true;
  }
  case prim::Loop:
    runLoop(node);
    return true;
  case prim::Uninitialized:
    set(node->output(), {});
    return true;
  case prim::unchecked_cast:
    set(node->output(), get(node->input()));
    return true;
  case aten::warn:
    return true;
  case prim::CallMethod: {
    auto object = get(node->input(0)).toObject();
    Stack stack;
    for (const Value *input : node->inputs())
      stack.push_back(get(input));
    object->type()->getMethod(node->s(attr::name)).run(stack);
    set(node->output(), stack.back());
    return true;
  }
  default:
    return false;
  }
}

void Runner::runLoop(Node *node) {
  Block *body = node->blocks()[0];
  int64_t count = get(node->input(0)).toInt();
  bool goesOn = get(node->input(1)).toBool();
  std::vector<c10::IValue> carried;
  for (size_t i = 2; i < node->inputs().size(); ++i)
    carried.push_back(get(node->input(i)));
  for (int64_t iteration = 0; goesOn && iteration < count; ++iteration) {
    set(body->inputs()[0], iteration);
    for (size_t i = 0; i < carried.size(); ++i)
      set(body->inputs()[i + 1], carried[i]);
    runBlock(body);
    goesOn = get(body->outputs()[0]).toBool();
    for (size_t i = 0; i < carried.size(); ++i)
      carried[i] = get(body->outputs()[i + 1]);
  }
  for (size_t i = 0; i < carried.size(); ++i)
    set(node->outputs()[i], carried[i]);
}

static c10::IValue makeList(const c10::ListType &type,
                            std::vector<c10::IValue> elements) {
  c10::impl::GenericList list(type.getElementType());
  for (c10::IValue &element : elements)
    list.push_back(std::move(element));
  return list;
}

static c10::IValue makeTuple(const c10::TupleTypePtr &type,
                             std::vector<c10::IValue> elements) {
  return type->name()
             ? c10::ivalue::Tuple::createNamed(std::move(elements), type)
             : c10::ivalue::Tuple::create(std::move(elements));
}

static c10::IValue makeDict(const c10::DictType &type,
                            const std::vector<c10::IValue> &elements) {
  c10::impl::GenericDict dict(type.getKeyType(), type.getValueType());
  for (size_t i = 0; i + 1 < elements.size(); i += 2)
    dict.insert_or_assign(elements[i], elements[i + 1]);
  return dict;
}

static bool isInstance(const c10::IValue &value,
                       at::ArrayRef<c10::TypePtr> types) {
  c10::TypePtr type = value.type();
  for (const c10::TypePtr &candidate : types)
    if (type->isSubtypeOf(*candidate))
      return true;
  return false;
}

/// Nodes that LibTorch's own interpreter has instructions for; false for
/// others.
bool Runner::runConstruction(Node *node) {
  auto getInputs = [&] {
    std::vector<c10::IValue> inputs;
    for (const Value *input : node->inputs())
      inputs.push_back(get(input));
    return inputs;
  };
  auto setOutputs = [&](const std::vector<c10::IValue> &elements) {
    if (elements.size() != node->outputs().size())
      throw InputError(getPlace(node) + ": " + std::to_string(elements.size()) +
                       " values are taken apart into " +
                       std::to_string(node->outputs().size()));
    for (size_t i = 0; i < elements.size(); ++i)
      set(node->outputs()[i], elements[i]);
  };
  switch (node->kind()) {
  case prim::TupleConstruct:
    set(node->output(),
        makeTuple(node->output()->type()->expect<c10::TupleType>(),
                  getInputs()));
    return true;
  case prim::ListConstruct:
    set(node->output(),
        makeList(node->output()->type()->expectRef<c10::ListType>(),
                 getInputs()));
    return true;
  case prim::DictConstruct:
    set(node->output(),
        makeDict(node->output()->type()->expectRef<c10::DictType>(),
                 getInputs()));
    return true;
  case prim::TupleUnpack:
    setOutputs(get(node->input()).toTupleRef().elements().vec());
    return true;
  case prim::ListUnpack:
    setOutputs(get(node->input()).toListRef().vec());
    return true;
  case prim::TupleSlice: {
    auto elements = get(node->input()).toTupleRef().elements().vec();
    auto begin = static_cast<size_t>(node->i(attr::beg));
    auto end =
        std::min(static_cast<size_t>(node->i(attr::end)), elements.size());
    if (begin > end)
      throw InputError(getPlace(node) + ": the slice has no such elements");
    set(node->output(), c10::ivalue::Tuple::create(std::vector<c10::IValue>(
                            elements.begin() + static_cast<ptrdiff_t>(begin),
                            elements.begin() + static_cast<ptrdiff_t>(end))));
    return true;
  }
  case prim::CreateObject: {
    auto type = node->output()->type()->expect<c10::ClassType>();
    set(node->output(), c10::ivalue::Object::create(
                            c10::StrongTypePtr(type->compilation_unit(), type),
                            type->numAttributes()));
    return true;
  }
  case prim::isinstance:
    set(node->output(), isInstance(get(node->input()), node->tys(attr::types)));
    return true;
  default:
    return false;
  }
}

static bool holdsTensor(const c10::IValue &value, const c10::IValue &tensor) {
  bool isHeld = false;
  value.visit([&](const c10::IValue &part) {
    isHeld |= part.isTensor() && part.is(tensor);
    return isHeld;
  });
  return isHeld;
}

void Runner::runOperator(Node *node) {
  if (!node->maybeOperator())
    throw InputError(getPlace(node) + " is no operator that can be run here");
  Stack stack;
  for (const Value *input : node->inputs())
    stack.push_back(get(input));
  // What takes any number of arguments is told how many, but for what looks
  // for its own three.
  if (node->getOperator().schema().is_vararg() && node->kind() != prim::tolist)
    stack.emplace_back(static_cast<int64_t>(node->inputs().size()));
  if (variation)
    resize(node, stack);
  node->getOperation()(stack);
  for (size_t i = 0; i < node->outputs().size(); ++i) {
    const Value *output = node->outputs()[i];
    c10::IValue &result = stack[stack.size() - node->outputs().size() + i];
    if (result.isTensor() && !variation)
      for (const Value *input : node->inputs())
        if (holdsTensor(get(input), result))
          passedOn.insert(output);
    set(output, std::move(result));
  }
}

//===----------------------------------------------------------------------===//
// What depends on numbers
//===----------------------------------------------------------------------===//

/// Rounds of a loop whose number depends on numbers: what a round makes of what
/// another one made is of the same sizes, or of any.
static constexpr int64_t kExploredRounds = 2;

/// Elements that masks take: few, as what compares all of them with all others
/// (suppression of boxes) needs the square of that.
static constexpr int64_t kTaken = 64;

/// Nodes that are gone through in all, for each one of the run.
static constexpr uint64_t kExploredSteps = 8;

void Runner::explore(const Variation &variation) {
  if (!explores)
    return;
  if (isExploring)
    *isExploring = true;
  this->variation = &variation;
  anyTypes = types;
  // Two runs differ in all sizes that masks have a say in, whatever they hold.
  for (bool leavesOut : {false, true}) {
    leavesOneOut = leavesOut;
    numLeft = kExploredSteps * (numSteps + 1000);
    values.clear();
    runAll(writesAny ? getCopies(given) : given);
  }
  values.clear();
  this->variation = nullptr;
  if (isExploring)
    *isExploring = false;
}

bool Runner::hasInputs(const Node *node) const {
  for (const Value *input : node->inputs())
    if (!values.count(input))
      return false;
  return true;
}

void Runner::exploreNode(Node *node) {
  // What an earlier round or run left there is not this one's.
  for (const Value *output : node->outputs())
    values.erase(output);
  if (numLeft == 0 || node->kind() == prim::Uninitialized)
    return;
  --numLeft;
  if (node->kind() == prim::If)
    return exploreIf(node);
  if (node->kind() == prim::Loop)
    return exploreLoop(node);
  if (!hasInputs(node))
    return;
  try {
    runNode(node);
  } catch (const std::exception &) {
    for (const Value *output : node->outputs())
      values.erase(output);
  }
}

void Runner::copyIfThere(const Value *from, const Value *target) {
  auto found = values.find(from);
  if (found != values.end())
    set(target, c10::IValue(found->second));
}

void Runner::exploreIf(Node *node) {
  auto condition = values.find(node->input());
  bool isKnown = condition != values.end() && condition->second.isBool();
  size_t taken = isKnown && !condition->second.toBool() ? 1 : 0;
  Block *other = node->blocks()[1 - taken];
  if (variation->hasOtherContents(node->input()))
    exploreAside(other);
  runBlock(node->blocks()[taken]);
  for (size_t i = 0; i < node->outputs().size(); ++i)
    copyIfThere(node->blocks()[taken]->outputs()[i], node->outputs()[i]);
}

void Runner::exploreLoop(Node *node) {
  Block *body = node->blocks()[0];
  auto count = values.find(node->input(0));
  auto goesOn = values.find(node->input(1));
  bool varies = variation->hasOtherContents(node->input(0)) ||
                variation->hasOtherContents(node->input(1)) ||
                variation->hasOtherContents(body->outputs()[0]);
  int64_t rounds = kExploredRounds;
  if (!varies)
    rounds = count != values.end() && goesOn != values.end() &&
                     goesOn->second.toBool()
                 ? count->second.toInt()
                 : 0;
  for (size_t i = 0; i < node->outputs().size(); ++i)
    copyIfThere(node->input(i + 2), node->outputs()[i]);
  for (int64_t round = 0; round < rounds && numLeft; ++round) {
    // As a node does: the body may have none.
    --numLeft;
    set(body->inputs()[0], round);
    for (size_t i = 0; i < node->outputs().size(); ++i) {
      values.erase(body->inputs()[i + 1]);
      copyIfThere(node->outputs()[i], body->inputs()[i + 1]);
    }
    runBlock(body);
    for (size_t i = 0; i < node->outputs().size(); ++i) {
      values.erase(node->outputs()[i]);
      copyIfThere(body->outputs()[i + 1], node->outputs()[i]);
    }
    auto next = values.find(body->outputs()[0]);
    if (numLeft == 0 ||
        (!varies && (next == values.end() || !next->second.toBool())))
      return;
  }
}

static bool setsAttributes(Block *block) {
  for (Node *node : block->nodes()) {
    if (node->kind() == prim::SetAttr || node->kind() == prim::CallMethod)
      return true;
    for (Block *inner : node->blocks())
      if (setsAttributes(inner))
        return true;
  }
  return false;
}

static void collectInputs(Block *block, std::set<const Value *> &found) {
  for (Node *node : block->nodes()) {
    found.insert(node->inputs().begin(), node->inputs().end());
    for (Block *inner : node->blocks())
      collectInputs(inner, found);
  }
}

/// Runs the block that is not taken, of which nothing is left but types: it
/// writes copies.
void Runner::exploreAside(Block *block) {
  if (setsAttributes(block))
    return;
  Values before = values;
  if (writesAnything(block)) {
    std::set<const Value *> taken;
    collectInputs(block, taken);
    c10::IValue::HashIdentityIValueMap copies;
    for (const Value *value : taken) {
      auto found = values.find(value);
      if (found == values.end() || found->second.isObject())
        continue;
      try {
        found->second = found->second.deepcopy(copies);
      } catch (const std::exception &) {
        // LibTorch copies no complex numbers.
        values = std::move(before);
        return;
      }
    }
  }
  runBlock(block);
  Node *node = block->owningNode();
  for (size_t i = 0; i < node->outputs().size(); ++i)
    copyIfThere(block->outputs()[i], node->outputs()[i]);
  values = std::move(before);
}

/// Of what an operator takes by what is true or not zero, some is taken, or one
/// less.
void Runner::resize(const Node *node, Stack &stack) const {
  static const std::map<std::string, size_t> kMasks = {
      {"aten::nonzero", 0}, {"aten::nonzero_numpy", 0}, {"aten::argwhere", 0},
      {"aten::where", 0},   {"aten::masked_select", 1}, {"aten::index", 1}};
  auto found = kMasks.find(node->kind().toQualString());
  if (found == kMasks.end() || found->second >= stack.size() ||
      (found->first == "aten::where" && stack.size() != 1) ||
      !variation->hasOtherTypes(node->output()))
    return;
  auto change = [&](const at::Tensor &mask) {
    at::Tensor some =
        at::zeros_like(mask, mask.options(), at::MemoryFormat::Contiguous);
    int64_t number = std::min(some.numel(), kTaken);
    if (number)
      some.view(-1).narrow(0, 0, leavesOneOut ? number - 1 : number).fill_(1);
    return some;
  };
  c10::IValue &place = stack[found->second];
  if (place.isTensor()) {
    place = change(place.toTensor());
  } else if (place.isList()) {
    c10::impl::GenericList list = place.toList().copy();
    for (size_t i = 0; i < list.size(); ++i) {
      c10::IValue index = list.get(i);
      if (index.isTensor() && index.toTensor().defined() &&
          (index.toTensor().scalar_type() == c10::ScalarType::Bool ||
           index.toTensor().scalar_type() == c10::ScalarType::Byte))
        list.set(i, change(index.toTensor()));
    }
    place = list;
  }
}
