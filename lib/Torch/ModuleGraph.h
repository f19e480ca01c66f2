// A method of a TorchScript module as one graph, every call in it inlined:
// which module each node was called in, and which attribute each value is.

#ifndef OPPROF_LIB_TORCH_MODULEGRAPH_H
#define OPPROF_LIB_TORCH_MODULEGRAPH_H

#include "Mutations.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace opprof::torchscript {

/// A module, or another object that hangs on one, and its qualified name.
struct ModuleValue {
  c10::IValue object;
  std::string path;
};

/// [(path, type), …], outermost first.
using ModuleStack = std::vector<std::pair<std::string, std::string>>;

/// "torch.nn.modules.linear.Linear" of "__torch__.torch.nn.modules.linear.
/// ___torch_mangle_3.Linear".
std::string getModuleTypeName(const c10::Type &type);

class ModuleGraph {
public:
  /// Inlines the method of that name. Throws InputError where the module has
  /// none.
  ModuleGraph(const torch::jit::Module &module, const std::string &method);

  /// The same method with the attributes that it does not change as constants,
  /// and what follows from these worked out, as torch.jit.freeze does. Nodes
  /// keep the modules that they were called in.
  ModuleGraph freeze() const;

  const torch::jit::Module &getModule() const { return module; }
  torch::jit::Graph &getGraph() const { return *graph; }
  const c10::FunctionSchema &getSchema() const { return *schema; }

  /// The object that the value is in every run, or null where that is not
  /// known: a value's type is a class, and it is read from the module.
  const ModuleValue *lookUpModule(const torch::jit::Value *value) const;
  /// Where the node was called; null for a node of the method itself.
  const ModuleStack *lookUpStack(const torch::jit::Node *node) const;
  /// The path of the attribute that a prim::GetAttr or prim::SetAttr names;
  /// nothing where the object is none that hangs on the module.
  std::optional<std::string>
  getAttributePath(const torch::jit::Node *node) const;
  /// True where the graph assigns to an attribute of that path.
  bool isWritten(const std::string &path) const {
    return writtenAttributes.count(path) != 0;
  }
  /// True where the graph changes what the attribute of that path holds, or
  /// gives it another name, by which it may be changed in another call.
  bool isChangedInPlace(const std::string &path) const {
    return changedAttributes.count(path) != 0;
  }
  const Mutations &getMutations() const { return mutations; }

private:
  explicit ModuleGraph(torch::jit::Module module) : module(std::move(module)) {}
  void findMethod(const std::string &method);
  void finish();
  void inlineBlock(torch::jit::Block *block);
  torch::jit::Node *inlineNode(torch::jit::Node *node);
  torch::jit::Function *findCallee(torch::jit::Node *call) const;
  void enterModule(torch::jit::Node *node, const ModuleStack *stack);
  void checkSize() const;
  void inlineForks();
  void collectWrites(torch::jit::Block *block);

  torch::jit::Module module;
  std::shared_ptr<torch::jit::Graph> graph;
  const c10::FunctionSchema *schema;
  mutable std::unordered_map<const torch::jit::Value *, ModuleValue> modules;
  /// The first path of each object: a module that hangs on others by several
  /// names has one state.
  mutable std::unordered_map<const c10::ivalue::Object *, std::string> homes;
  std::unordered_map<const torch::jit::Node *, const ModuleStack *> stacks;
  /// Each stack that occurs, once.
  std::set<ModuleStack> stackPool;
  std::string methodName;
  std::set<std::string> writtenAttributes, changedAttributes;
  Mutations mutations;
  size_t numInlined = 0;
};

} // namespace opprof::torchscript

#endif // OPPROF_LIB_TORCH_MODULEGRAPH_H
