// The values of a graph as alignment sees them: which node each value comes
// from, once views, copies, casts and what is switched off are looked through.

#ifndef OPPROF_LIB_TARGET_INDUCTORCODE_ALIGNMENTVALUES_H
#define OPPROF_LIB_TARGET_INDUCTORCODE_ALIGNMENTVALUES_H

#include "opprof/Target/InductorCode/GraphView.h"

#include "llvm/ADT/SmallVector.h"

namespace opprof::inductor {

enum class Role : uint8_t {
  Input,    ///< a placeholder or an attribute
  Constant, ///< a tensor of one value, made anywhere
  Same,     ///< holds the value of its first operand
  Pick,     ///< a part of its operand: slice, select, one result of a split
  Compute,
  None, ///< a size, a check: no value
};

inline constexpr uint32_t kNoValue = ~0u;

/// A part of a tensor: where it begins in its dimension, and how long it is.
struct Part {
  int64_t start = 0;
  int64_t length = 0;

  bool operator==(const Part &) const = default;
};

struct Values {
  /// With `merge`, nodes that compute the same of the same operands have one
  /// value, as compilers leave them.
  Values(const GraphView &graph, bool merge);

  const GraphView &graph;
  std::vector<Role> role;
  /// The node that each node's value comes from: itself where it computes.
  std::vector<uint32_t> root;
  /// Of nodes that compute or pick: the values that they take, in the order of
  /// the operator's arguments as all spellings share it.
  std::vector<llvm::SmallVector<uint32_t, 4>> operands;
  /// Canonical operators.
  std::vector<llvm::StringRef> op;
  /// Nodes that compute with, or pick from, a value.
  std::vector<llvm::SmallVector<uint32_t, 4>> users;
  std::vector<std::optional<Part>> part;

  std::optional<uint64_t> elements(uint32_t node) const;
  bool computes(uint32_t node) const {
    return role[node] == Role::Compute || role[node] == Role::Pick;
  }

private:
  void addCall(uint32_t node);
  void addMember(uint32_t node);
  void setPart(uint32_t node);
  void setOperands(uint32_t node);
  uint32_t valueOf(uint32_t node);
  std::string keyOf(uint32_t node) const;

  /// What a value became when an operator wrote into it.
  std::vector<uint32_t> written;
};

} // namespace opprof::inductor

#endif // OPPROF_LIB_TARGET_INDUCTORCODE_ALIGNMENTVALUES_H
