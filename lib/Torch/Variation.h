// What may be another one in another call. A run shows what values are in that
// run; this says of which of them it holds in every call on arguments of the
// same types: not of what depends on attributes that calls change, nor of sizes
// and branches that follow from the numbers in tensors.

#ifndef OPPROF_LIB_TORCH_VARIATION_H
#define OPPROF_LIB_TORCH_VARIATION_H

#include "ModuleGraph.h"
#include "Runner.h"

#include <unordered_map>

namespace opprof::torchscript {

class Variation {
public:
  /// What is the same of an argument in every call.
  enum class Argument { Fixed, OfOneType, OfAnyType };
  Variation(const ModuleGraph &graph, const Runner &runner,
            const std::vector<Argument> &arguments);

  /// True where the value's type, which is its sizes, its dtype, and whether
  /// it is None, may be another one in another call.
  bool hasOtherTypes(const torch::jit::Value *value) const {
    return isGivenUp || getLevel(value) == OtherType;
  }

  /// True where what the value says may be another thing in another call.
  bool hasOtherContents(const torch::jit::Value *value) const {
    return isGivenUp || getLevel(value) != Same;
  }
  /// True where any value's type is.
  bool hasAnyOtherTypes() const;

private:
  enum Level {
    /// It follows from the types of the arguments.
    Same,
    /// Its type does; numbers and truth values are another matter.
    OtherContent,
    OtherType
  };

  Level getLevel(const torch::jit::Value *value) const {
    auto found = levels.find(value);
    return found == levels.end() ? Same : found->second;
  }
  void raise(const torch::jit::Value *value, Level level);
  void visitBlock(torch::jit::Block *block, Level control);
  void visitNode(torch::jit::Node *node, Level control);
  void visitIf(torch::jit::Node *node, Level control);
  void visitLoop(torch::jit::Node *node, Level control);
  void visitOperator(torch::jit::Node *node, Level control);
  /// True where it is known which element of a tuple each output is.
  bool visitTuple(torch::jit::Node *node);
  bool isOneType(const torch::jit::Value *first,
                 const torch::jit::Value *second) const;
  bool hasSizesOfData(const torch::jit::Node *node) const;

  const ModuleGraph &graph;
  const Runner &runner;
  std::unordered_map<const torch::jit::Value *, Level> levels;
  bool isGivenUp = false, isStable = true;
};

} // namespace opprof::torchscript

#endif // OPPROF_LIB_TORCH_VARIATION_H
