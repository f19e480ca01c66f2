// What a launch's kernel proves about the nodes that it computes.

#ifndef OPPROF_LIB_TARGET_INDUCTORCODE_LAUNCHPROOF_H
#define OPPROF_LIB_TARGET_INDUCTORCODE_LAUNCHPROOF_H

#include "AbstractValue.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include <set>
#include <vector>

namespace opprof::inductor {

/// A value that is that of a node, times a number.
struct ScaledNode {
  uint32_t node;
  double times;
};

struct LaunchProof {
  /// Every value that is used later is that of a node, and the nodes say
  /// exactly what leads there from what is read.
  bool complete = false;
  /// No other node of the graph has the value of one that is stored.
  bool unique = true;
  /// By operand: the node that it holds afterwards, where that is proven.
  std::vector<uint32_t> outputs;
  /// Operands that may as well hold another node's value.
  llvm::DenseSet<size_t> tied;
  /// By operand: those others.
  llvm::DenseMap<size_t, llvm::SmallVector<uint32_t, 1>> rivals;
  /// By operand: what stands for the first element that is stored.
  std::vector<AbstractValue> firsts;
  /// By operand: the values that this one was loaded from.
  std::vector<std::vector<uint32_t>> firstsFrom;
  /// By operand: that of which it is a multiple, where that is no node's value.
  llvm::DenseMap<size_t, ScaledNode> multiples;
  /// What is computed, views left out.
  std::set<uint32_t> nodes;
  /// Of those, what leads to stores that are proven each by itself.
  std::set<uint32_t> stored;
  /// Of those, what an earlier launch began.
  llvm::DenseSet<uint32_t> continued;
  /// Everything between what is read and what is stored, views included.
  llvm::DenseSet<uint32_t> passed;
  /// The values that lead there.
  llvm::DenseSet<uint32_t> leaves;
  /// What was read is sure to be the value that it is taken for.
  bool sure = true;
  /// The values that were read.
  llvm::DenseSet<uint32_t> held;
  /// Convolutions whose bias is still to be added: of those that were read, or
  /// the one that was called.
  llvm::DenseSet<uint32_t> withoutBias;
};

} // namespace opprof::inductor

#endif // OPPROF_LIB_TARGET_INDUCTORCODE_LAUNCHPROOF_H
