// Runs an inlined graph node by node, and keeps what each value was, and what
// it can be where that depends on numbers in tensors.

#ifndef OPPROF_LIB_TORCH_RUNNER_H
#define OPPROF_LIB_TORCH_RUNNER_H

#include "ModuleGraph.h"
#include "ValueTypes.h"

#include <atomic>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace opprof::torchscript {

class Variation;

class Runner {
public:
  Runner(const ModuleGraph &graph, bool explores,
         std::atomic<bool> *isExploring)
      : graph(graph), explores(explores), isExploring(isExploring) {}

  /// Runs the graph with these inputs (without the module itself). Throws
  /// InputError, which names the node, where one fails or may not be run here.
  std::vector<c10::IValue> run(const std::vector<c10::IValue> &inputs);

  /// What the value was whenever its node ran; null where it did not run.
  const ValueType *lookUp(const torch::jit::Value *value) const {
    auto found = types.find(value);
    return found == types.end() ? nullptr : &found->second;
  }

  /// Runs the graph again, on what it was given, through all branches that
  /// depend on numbers and with other sizes where these do. What fails is left
  /// out, and all of it where nothing is to be explored.
  void explore(const Variation &variation);

  /// What the value was in all of the runs.
  const ValueType *lookUpAny(const torch::jit::Value *value) const {
    auto found = anyTypes.find(value);
    return found == anyTypes.end() ? lookUp(value) : &found->second;
  }

  /// Whether the value was a tensor that its operator took, in any round.
  bool isPassedOn(const torch::jit::Value *value) const {
    return passedOn.count(value) != 0;
  }

  /// Whether a run came to the block.
  bool hasRun(const torch::jit::Block *block) const {
    return ran.count(block) != 0;
  }

private:
  using Values = std::unordered_map<const torch::jit::Value *, c10::IValue>;

  void findReleases(torch::jit::Block *block);
  void runBlock(torch::jit::Block *block);
  void runNode(torch::jit::Node *node);
  c10::IValue getOwn(const c10::IValue &constant);
  bool runPrimitive(torch::jit::Node *node);
  bool runConstruction(torch::jit::Node *node);
  void runOperator(torch::jit::Node *node);
  void runLoop(torch::jit::Node *node);
  void runAll(const std::vector<c10::IValue> &inputs);
  bool hasInputs(const torch::jit::Node *node) const;
  void exploreNode(torch::jit::Node *node);
  void exploreIf(torch::jit::Node *node);
  void exploreLoop(torch::jit::Node *node);
  void exploreAside(torch::jit::Block *block);
  void resize(const torch::jit::Node *node, torch::jit::Stack &stack) const;
  void copyIfThere(const torch::jit::Value *from,
                   const torch::jit::Value *target);
  void set(const torch::jit::Value *value, c10::IValue content);
  const c10::IValue &get(const torch::jit::Value *value) const;

  const ModuleGraph &graph;
  const bool explores;
  /// As in ReadRequest.
  std::atomic<bool> *const isExploring;
  Values values;
  std::unordered_map<const torch::jit::Value *, ValueType> types;
  /// The values of a node's block that nothing after the node takes.
  std::unordered_map<const torch::jit::Node *,
                     std::vector<const torch::jit::Value *>>
      releases;
  std::unordered_set<const torch::jit::Block *> ran;
  std::unordered_set<const torch::jit::Value *> passedOn;
  uint64_t numSteps = 0;
  /// True where a run may write what the module holds, or the code; and the
  /// constants that the run has then.
  bool writesAny = false;
  std::unordered_map<const c10::TensorImpl *, at::Tensor> ownConstants;

  /// What the run was given, as it was before.
  std::vector<c10::IValue> given;
  std::unordered_map<const torch::jit::Value *, ValueType> anyTypes;
  /// While the graph is explored.
  const Variation *variation = nullptr;
  /// Masks take one less than they do otherwise.
  bool leavesOneOut = false;
  uint64_t numLeft = 0;
};

} // namespace opprof::torchscript

#endif // OPPROF_LIB_TORCH_RUNNER_H
