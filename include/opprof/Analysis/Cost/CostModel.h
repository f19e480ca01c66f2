// How many floating-point operations an ATen operator does and how many bytes
// it must move: the model behind roofline classes and predictions.
//
// A multiply-add counts as two operations. Bytes are the fewest possible: each
// input read once, each output written once; an operator that only renames
// storage moves none. docs/cost-model.md lists the formulas.

#ifndef OPPROF_ANALYSIS_COST_COSTMODEL_H
#define OPPROF_ANALYSIS_COST_COSTMODEL_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <optional>

namespace opprof {

/// A tensor as the model needs it. An empty shape is a scalar.
struct TensorShape {
  llvm::SmallVector<int64_t, 4> sizes;
  /// Bytes of one element; 0 where unknown.
  unsigned elementBytes = 0;

  /// None where a size is unknown (negative) or the product passes 64 bits.
  std::optional<uint64_t> getNumElements() const;
  std::optional<uint64_t> getNumBytes() const;
};

/// One call of an operator, independent of where it was recorded.
struct OperatorCall {
  /// "aten.addmm.default"; the overload may be missing.
  llvm::StringRef target;
  /// The tensors among its arguments, in order; those not given are left out,
  /// except that an optional tensor before one that is given is an empty entry.
  llvm::ArrayRef<TensorShape> inputs;
  llvm::ArrayRef<TensorShape> outputs;
  /// Convolutions: the number of groups, and whether it is transposed.
  int64_t groups = 1;
  bool isTransposed = false;
  /// Backward of a convolution: how many of the gradients of input and weight
  /// are asked for, where that is known; else the outputs tell.
  std::optional<unsigned> gradients = {};
  /// Attention: only pairs on or below the diagonal are computed.
  bool isCausal = false;
  /// Of einsum, where its operands are taken in turn.
  llvm::StringRef equation = {};
  /// Of Fourier transforms: the dimensions that are transformed.
  llvm::ArrayRef<int64_t> dims = {};
};

enum class WorkKind {
  View,      ///< renames storage: no work
  Movement,  ///< moves or makes bytes: copies, casts, gathers, fills
  Pointwise, ///< arithmetic on each element
  Reduction, ///< arithmetic over dimensions, normalizations and softmax
  Matrix,    ///< matrix products, convolutions, attention
  Unknown,   ///< no formula: only bytes are known
};

struct OperatorCost {
  WorkKind kind = WorkKind::Unknown;
  /// Absent where there is no formula or a size is unknown.
  std::optional<uint64_t> flops;
  std::optional<uint64_t> bytesRead, bytesWritten;
};

OperatorCost estimateCost(const OperatorCall &call);

/// What the operator does, without looking at sizes.
WorkKind getWorkKind(llvm::StringRef target);

} // namespace opprof

#endif // OPPROF_ANALYSIS_COST_COSTMODEL_H
