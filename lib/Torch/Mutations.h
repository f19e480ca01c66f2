// Which values of an inlined graph are changed in place: lists, dictionaries
// and tensors are references, and what one name changes every other sees.

#ifndef OPPROF_LIB_TORCH_MUTATIONS_H
#define OPPROF_LIB_TORCH_MUTATIONS_H

#include <torch/csrc/jit/ir/ir.h>

#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace opprof::torchscript {

class Mutations {
public:
  Mutations() = default;
  explicit Mutations(torch::jit::Block *block);

  /// True where something may change the list, dictionary or tensor that
  /// `value` is, or one inside it, by this name or by one that is taken of it.
  bool isChanged(const torch::jit::Value *value) const {
    return changed.count(value) != 0;
  }
  /// The values that may be the same object, in parts or as a whole.
  std::vector<const torch::jit::Value *>
  getOtherNames(const torch::jit::Value *value) const;

private:
  void visitBlock(torch::jit::Block *block);
  void visitNode(torch::jit::Node *node);
  void visitOperator(torch::jit::Node *node);
  void connectAll(torch::jit::Node *node);
  void connect(const torch::jit::Value *from, const torch::jit::Value *to);
  void markChanged(const torch::jit::Value *value);

  using Values = std::vector<const torch::jit::Value *>;

  std::unordered_set<const torch::jit::Value *> changed;
  /// Of each value, those that it was taken of or put together from, and those
  /// that were taken of it.
  std::unordered_map<const torch::jit::Value *, Values> sources, derived;
  Values pending;
};

/// True for numbers, truth values, text and devices, of which each has one
/// type.
bool isNumberType(const c10::Type &type);
/// True for what may be changed in place, or holds it.
bool isMutable(const c10::Type &type);
/// True for types of the kind, and those that may hold one.
bool holdsKind(const c10::Type &type, c10::TypeKind kind);

} // namespace opprof::torchscript

#endif // OPPROF_LIB_TORCH_MUTATIONS_H
