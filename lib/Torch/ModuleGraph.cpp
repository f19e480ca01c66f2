// Inlining with the module hierarchy kept. LibTorch's own inliner keeps the
// name of the attribute that a module was called by, and not its path, so the
// paths are followed here.

#include "ModuleGraph.h"

#include "opprof/Torch/Archive.h"

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/alias_analysis.h>
#include <torch/csrc/jit/passes/freeze_module.h>
#include <torch/csrc/jit/passes/inline_fork_wait.h>

#include <functional>
#include <optional>
#include <set>

using namespace opprof::torchscript;
using namespace torch::jit;

/// An archive may make a graph of any size out of little code: a function that
/// calls another twice, which calls another twice.
static constexpr size_t kMaxNodes = 10'000'000;

/// Forks inside forks are no deeper.
static constexpr unsigned kMaxForks = 64;

std::string opprof::torchscript::getModuleTypeName(const c10::Type &type) {
  std::string name = type.str();
  auto remove = [&](const std::string &text, bool withNumber) {
    for (size_t at = name.find(text); at != std::string::npos;
         at = name.find(text, at)) {
      size_t end = at + text.size();
      while (withNumber && end < name.size() &&
             std::isdigit(static_cast<unsigned char>(name[end])))
        ++end;
      name.erase(at, end - at + (end < name.size() && withNumber ? 1 : 0));
    }
  };
  remove("___torch_mangle_", /*withNumber=*/true);
  if (name.rfind("__torch__.", 0) == 0)
    name.erase(0, 10);
  return name;
}

static bool hasForks(Block *block) {
  for (Node *node : block->nodes()) {
    if (node->kind() == prim::fork)
      return true;
    for (Block *inner : node->blocks())
      if (hasForks(inner))
        return true;
  }
  return false;
}

namespace {
/// The nodes that a method has when all that it calls and forks is inlined,
/// which is known before any of it is.
class InlinedSize {
public:
  /// Never more than one beyond kMaxNodes.
  size_t get(Block *block) {
    size_t total = 0;
    if (++depth <= kMaxDepth)
      for (Node *node : block->nodes())
        total = std::min(total + get(node), kMaxNodes + 1);
    --depth;
    return total;
  }

private:
  /// Deeper calls count nothing, and are counted as they are inlined.
  static constexpr unsigned kMaxDepth = 2000;

  size_t get(Node *node) {
    size_t total = 1;
    for (Block *inner : node->blocks())
      total += get(inner);
    if (node->kind() == prim::fork)
      total += get(node->g(attr::Subgraph).get());
    if (Function *callee = findCallee(node))
      if (GraphFunction *function = tryToGraphFunction(*callee))
        total += get(function->graph().get());
    return total;
  }
  size_t get(Graph *called) {
    // One that calls itself is refused where it is inlined.
    auto [entry, isNew] = known.try_emplace(called, 0);
    return isNew ? known[called] = get(called->block()) : entry->second;
  }
  static Function *findCallee(Node *node) {
    if (node->kind() == prim::CallFunction) {
      auto type = node->input(0)->type()->cast<c10::FunctionType>();
      return type ? type->function() : nullptr;
    }
    if (node->kind() != prim::CallMethod)
      return nullptr;
    auto type = node->input(0)->type()->cast<c10::ClassType>();
    return type ? type->findMethod(node->s(attr::name)) : nullptr;
  }

  std::unordered_map<Graph *, size_t> known;
  unsigned depth = 0;
};
} // namespace

[[noreturn]] static void refuseSize() {
  throw InputError("inlined, the method has more than " +
                   std::to_string(kMaxNodes) + " nodes");
}

/// The type without futures: where calls are inlined, what a fork gives is what
/// is waited for.
static c10::TypePtr withoutFutures(const c10::TypePtr &type) {
  if (auto future = type->cast<c10::FutureType>())
    return withoutFutures(future->getElementType());
  if (type->containedTypes().empty() || type->cast<c10::ClassType>())
    return type;
  std::vector<c10::TypePtr> inner;
  bool isSame = true;
  for (const c10::TypePtr &contained : type->containedTypes()) {
    inner.push_back(withoutFutures(contained));
    isSame &= inner.back() == contained;
  }
  return isSame ? type : type->withContained(std::move(inner));
}

/// LibTorch's own pass inlines what is forked, and removes the waits that it
/// sees the fork of: a future in a list is left.
static void removeFutures(Block *block) {
  auto change = [](Value *value) {
    value->setType(withoutFutures(value->type()));
  };
  for (Value *input : block->inputs())
    change(input);
  for (auto it = block->nodes().begin(); it != block->nodes().end();) {
    Node *node = *it++;
    for (Value *output : node->outputs())
      change(output);
    for (Block *inner : node->blocks())
      removeFutures(inner);
    if (node->kind() == aten::wait) {
      node->output()->replaceAllUsesWith(node->input());
      node->destroy();
    }
  }
}

/// Context managers that change nothing of what a graph of inference computes.
static bool isWithoutEffect(const c10::Type &type) {
  static const std::set<std::string> kNames = {
      "torch.autograd.grad_mode.no_grad",
      "torch.autograd.grad_mode.enable_grad",
      "torch.autograd.grad_mode.set_grad_enabled",
      "torch.autograd.profiler.record_function"};
  return kNames.count(getModuleTypeName(type));
}

static void collectContexts(Block *block, std::vector<Node *> &found) {
  for (Node *node : block->nodes()) {
    if ((node->kind() == prim::Enter || node->kind() == prim::Exit) &&
        !node->hasUses() && isWithoutEffect(*node->input(0)->type()))
      found.push_back(node);
    for (Block *inner : node->blocks())
      collectContexts(inner, found);
  }
}

/// Removes what enters and leaves these managers, and their objects.
static void removeContexts(Block *block) {
  std::vector<Node *> found;
  collectContexts(block, found);
  std::set<Value *> objects;
  for (Node *node : found) {
    objects.insert(node->input(0));
    node->destroy();
  }
  for (Value *object : objects) {
    std::vector<Node *> setters;
    for (const Use &use : object->uses())
      if (use.user->kind() == prim::SetAttr && use.offset == 0)
        setters.push_back(use.user);
    if (object->node()->kind() != prim::CreateObject ||
        setters.size() != object->uses().size())
      continue;
    for (Node *setter : setters)
      setter->destroy();
    object->node()->destroy();
  }
}

/// Autocast is a pass of LibTorch's executor, which a graph that is read has
/// not gone through: without it the program would compute something else.
static void refuseAutocast(Block *block) {
  for (Node *node : block->nodes()) {
    if (node->kind() == prim::Enter) {
      std::string type = getModuleTypeName(*node->input(0)->type());
      if (type.find("autocast") != std::string::npos) {
        auto line = node->input(0)->node()->sourceRange().file_line_col();
        throw InputError(
            "the code asks for autocast" +
            (line ? " (" + std::get<0>(*line) + ":" +
                        std::to_string(std::get<1>(*line)) + ")"
                  : std::string()) +
            ", which opprof does not read: save the model without it, with "
            "weights and inputs of the precision that it is to compute in");
      }
    }
    for (Block *inner : node->blocks())
      refuseAutocast(inner);
  }
}

void ModuleGraph::findMethod(const std::string &method) {
  auto found = module.find_method(method);
  if (!found) {
    std::string names;
    for (const Method &other : module.get_methods())
      names += (names.empty() ? "" : ", ") + other.name();
    throw InputError("the module has no method '" + method + "'; it has " +
                     (names.empty() ? "none" : names));
  }
  Function &function = found->function();
  methodName = method;
  schema = &function.getSchema();
  graph = toGraphFunction(function).graph()->copy();
  modules[graph->inputs()[0]] = {module._ivalue(), ""};
}

void ModuleGraph::finish() {
  mutations = Mutations(graph->block());
  collectWrites(graph->block());
  modules = {{graph->inputs()[0], {module._ivalue(), ""}}};
}

/// A tracer keeps `x + 1e-5` as the sum of two tensors. TorchScript's executor
/// takes the number again before it runs anything, with a number's say in the
/// type of the result, and exported graphs hold it.
/// A tensor that is written is no number: `isWritten` says so.
static void takeNumbers(const std::shared_ptr<Graph> &graph, Block *block,
                        const std::function<bool(Value *)> &isWritten) {
  static const std::set<std::string> kArithmetic = {"aten::add", "aten::sub",
                                                    "aten::mul", "aten::div"};
  for (auto it = block->nodes().begin(); it != block->nodes().end(); ++it) {
    for (Block *inner : it->blocks())
      takeNumbers(graph, inner, isWritten);
    const c10::FunctionSchema *schema = it->maybeSchema();
    if (!schema || !kArithmetic.count(schema->name()) ||
        schema->overload_name() != "Tensor")
      continue;
    Node *constant = it->input(1)->node();
    std::optional<c10::IValue> value = toIValue(it->input(1));
    if (!value || !value->isTensor() || !value->toTensor().defined())
      continue;
    const at::Tensor &tensor = value->toTensor();
    c10::ScalarType dtype = tensor.scalar_type();
    if (tensor.dim() != 0 || !tensor.device().is_cpu() ||
        tensor.layout() != at::kStrided ||
        !(c10::isFloatingType(dtype) ||
          c10::isIntegralType(dtype, /*includeBool=*/false)) ||
        isWritten(it->input(1)))
      continue;
    WithInsertPoint place(*it);
    at::Scalar number = tensor.item();
    it->replaceInput(1, graph->insertConstant(number));
    if (!constant->output()->hasUses())
      constant->destroy();
  }
}

ModuleGraph::ModuleGraph(const Module &module, const std::string &method)
    : module(module) {
  findMethod(method);
  checkSize();
  inlineBlock(graph->block());
  inlineForks();
  removeFutures(graph->block());
  refuseAutocast(graph->block());
  removeContexts(graph->block());
  std::optional<AliasDb> aliases;
  takeNumbers(graph, graph->block(), [&](Value *value) {
    if (!aliases)
      aliases.emplace(graph);
    return aliases->hasWriters(value);
  });
  finish();
}

/// Calls `visit` on every node of the block, those inside others among them.
template <typename Visitor>
static void visitNodes(Block *block, const Visitor &visit) {
  for (Node *node : block->nodes()) {
    visit(node);
    for (Block *inner : node->blocks())
      visitNodes(inner, visit);
  }
}

/// LibTorch's pass inlines by itself and loses the paths of modules, so it gets
/// what is inlined already, with the modules of each node as its scope, which
/// copies of a node keep.
ModuleGraph ModuleGraph::freeze() const {
  std::map<const ModuleStack *, ScopePtr> scopes;
  std::map<c10::Symbol, const ModuleStack *> stackOfScope;
  visitNodes(graph->block(), [&](Node *node) {
    const ModuleStack *stack = lookUpStack(node);
    if (!stack)
      return;
    ScopePtr &scope = scopes[stack];
    if (!scope) {
      auto name = c10::Symbol::scope("opprof" + std::to_string(scopes.size()));
      scope = c10::make_intrusive<Scope>(c10::make_intrusive<Scope>(), name);
      stackOfScope[name] = stack;
    }
    node->setScope(scope);
  });
  // The pass works on a copy of the module. The method's own graph is not
  // needed any more.
  auto own = toGraphFunction(module.get_method(methodName).function()).graph();
  own->block()->clear();
  own->block()->cloneFrom(graph->block(), [&](Value *) -> Value * {
    throw InputError("the method takes values from outside");
  });
  ModuleGraph frozen(torch::jit::freeze_module(module, {methodName},
                                               /*freezeInterfaces=*/true,
                                               /*preserveParameters=*/true));
  frozen.findMethod(methodName);
  visitNodes(frozen.graph->block(), [&](Node *node) {
    auto found = node->scope() ? stackOfScope.find(node->scope()->name())
                               : stackOfScope.end();
    if (found != stackOfScope.end())
      frozen.stacks[node] = &*frozen.stackPool.insert(*found->second).first;
  });
  frozen.finish();
  return frozen;
}

void ModuleGraph::checkSize() const {
  if (InlinedSize().get(graph->block()) > kMaxNodes)
    refuseSize();
}

/// What is forked calls methods, and may fork.
void ModuleGraph::inlineForks() {
  for (unsigned depth = 0; hasForks(graph->block()); ++depth) {
    if (depth == kMaxForks)
      throw InputError("the method's forks are more than " +
                       std::to_string(kMaxForks) + " deep");
    InlineForkWait(graph);
    inlineBlock(graph->block());
    checkSize();
  }
}

const ModuleValue *ModuleGraph::lookUpModule(const Value *value) const {
  auto found = modules.find(value);
  if (found != modules.end())
    return &found->second;
  const Node *node = value->node();
  if (node->kind() != prim::GetAttr)
    return nullptr;
  const ModuleValue *owner = lookUpModule(node->input(0));
  const std::string &name = node->s(attr::name);
  if (!owner || !owner->object.isObject())
    return nullptr;
  auto object = owner->object.toObject();
  auto slot = object->type()->findAttributeSlot(name);
  if (!slot)
    return nullptr;
  const c10::IValue &attribute = object->getSlot(*slot);
  if (!attribute.isObject())
    return nullptr;
  std::string path = owner->path.empty() ? name : owner->path + "." + name;
  // Which object it is, is not known where another one may be assigned.
  if (isWritten(path))
    return nullptr;
  return &modules.emplace(value, ModuleValue{attribute, path}).first->second;
}

const ModuleStack *ModuleGraph::lookUpStack(const Node *node) const {
  auto found = stacks.find(node);
  return found == stacks.end() ? nullptr : found->second;
}

Function *ModuleGraph::findCallee(Node *call) const {
  if (call->kind() == prim::CallFunction) {
    auto type = call->input(0)->type()->cast<c10::FunctionType>();
    return type ? type->function() : nullptr;
  }
  const std::string &name = call->s(attr::name);
  if (const ModuleValue *callee = lookUpModule(call->input(0)))
    return callee->object.toObject()->type()->findMethod(name);
  auto type = call->input(0)->type()->cast<c10::ClassType>();
  return type ? type->findMethod(name) : nullptr;
}

void ModuleGraph::enterModule(Node *node, const ModuleStack *stack) {
  if (!stack)
    return;
  stacks[node] = stack;
  for (Block *block : node->blocks())
    for (Node *inner : block->nodes())
      enterModule(inner, stack);
}

/// Says of a node, and of what stands in its blocks, which call brought it
/// there.
static void setCall(Node *node, const InlinedCallStackPtr &call) {
  node->setCallStack(call);
  for (Block *block : node->blocks())
    for (Node *inner : block->nodes())
      setCall(inner, call);
}

/// Puts the calls that led to `call` before those of what was inlined for it:
/// LibTorch, which inlines the innermost calls first, knows of that one only.
static void
addCallers(Node *node, const InlinedCallStackPtr &callers,
           std::map<InlinedCallStack *, InlinedCallStackPtr> &known) {
  if (auto own = node->callstack()) {
    auto [entry, isNew] = known.try_emplace(own->get());
    if (isNew) {
      std::vector<InlinedCallStack *> outer;
      for (std::optional<InlinedCallStackPtr> at = callers; at;
           at = (*at)->callee())
        outer.push_back(at->get());
      entry->second = *own;
      for (size_t i = outer.size(); i-- > 0;) {
        // By name: freezing frees the functions of the module that it copies.
        std::string name = outer[i]->function_name();
        entry->second = c10::make_intrusive<InlinedCallStack>(
            entry->second, outer[i]->function(), outer[i]->source_range(),
            outer[i]->module_instance(), name);
      }
    }
    node->setCallStack(entry->second);
  }
  for (Block *block : node->blocks())
    for (Node *inner : block->nodes())
      addCallers(inner, callers, known);
}

/// Replaces a call by what it calls, and returns the node to go on with.
Node *ModuleGraph::inlineNode(Node *node) {
  Function *callee = findCallee(node);
  GraphFunction *function = callee ? tryToGraphFunction(*callee) : nullptr;
  if (!function)
    return node->next();
  const ModuleStack *stack = lookUpStack(node);
  if (node->kind() == prim::CallMethod)
    if (const ModuleValue *called = lookUpModule(node->input(0))) {
      ModuleStack inner = stack ? *stack : ModuleStack();
      std::string type = getModuleTypeName(*called->object.type());
      // What was known of it by an interface has attributes too.
      if (node->input(0)->type()->kind() == c10::TypeKind::InterfaceType)
        node->input(0)->setType(called->object.type());
      // A method that calls another of its own module stays in it.
      if (inner.empty() ? !called->path.empty()
                        : inner.back().first != called->path)
        inner.emplace_back(called->path, type);
      stack = &*stackPool.insert(std::move(inner)).first;
    }
  Node *before = node->prev(), *after = node->next();
  std::optional<InlinedCallStackPtr> callers = node->callstack();
  std::map<InlinedCallStack *, InlinedCallStackPtr> known;
  auto call = c10::make_intrusive<InlinedCallStack>(
      function, node->sourceRange(), std::nullopt);
  // The function that a call names is none of the function's arguments.
  if (node->kind() == prim::CallFunction)
    node->removeInput(0);
  inlineCallTo(node, function, function->graph().get());
  for (Node *made = before->next(); made != after; made = made->next()) {
    enterModule(made, stack);
    // LibTorch leaves out what has no result, such as a branch that writes in
    // place, and all inside it.
    if (!made->callstack())
      setCall(made, call);
    if (callers)
      addCallers(made, *callers, known);
    if (++numInlined > kMaxNodes)
      refuseSize();
  }
  return before->next();
}

void ModuleGraph::inlineBlock(Block *block) {
  for (Node *node = block->return_node()->next();
       node != block->return_node();) {
    if (node->kind() == prim::CallMethod ||
        node->kind() == prim::CallFunction) {
      node = inlineNode(node);
      continue;
    }
    for (Block *inner : node->blocks())
      inlineBlock(inner);
    node = node->next();
  }
}

std::optional<std::string>
ModuleGraph::getAttributePath(const Node *node) const {
  const ModuleValue *owner = lookUpModule(node->input(0));
  if (!owner || !owner->object.isObject())
    return std::nullopt;
  const std::string &home =
      homes.try_emplace(owner->object.toObject().get(), owner->path)
          .first->second;
  const std::string &name = node->s(attr::name);
  return home.empty() ? name : home + "." + name;
}

void ModuleGraph::collectWrites(Block *block) {
  for (Node *node : block->nodes()) {
    if (node->kind() == prim::SetAttr) {
      if (auto path = getAttributePath(node))
        writtenAttributes.insert(*path);
    } else if (node->kind() == prim::GetAttr &&
               mutations.isChanged(node->output())) {
      if (auto path = getAttributePath(node))
        changedAttributes.insert(*path);
    }
    for (Block *inner : node->blocks())
      collectWrites(inner);
  }
}
