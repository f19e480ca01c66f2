// How a program spells attention: two products with a softmax between them, and
// what stands before and behind it.

#ifndef OPPROF_LIB_REWRITE_RULES_ATTENTIONSPELLING_H
#define OPPROF_LIB_REWRITE_RULES_ATTENTIONSPELLING_H

#include "opprof/Dialect/FX/IR/FX.h"

#include <optional>
#include <string>
#include <vector>

namespace opprof::rewrite {

/// What the dimensions of a tensor are called: "b" and "h", or "n" where
/// batches and heads are one, then "l" and "e" of queries, "s" and "e" of keys,
/// "s" and "f" of values.
using DimNames = llvm::SmallVector<std::string, 4>;

/// The names of batches, heads, and `last`, in a tensor of `rank` dimensions.
DimNames getDimNames(unsigned rank, llvm::ArrayRef<std::string> last);

/// A product of attention. Of the first `left` are queries and `right` keys, of
/// the second `left` are weights and `right` values.
struct AttentionProduct {
  fx::NodeOp node;
  mlir::Value left, right;
  DimNames leftDims, rightDims, dims;
  /// Of `baddbmm`: what the first product is multiplied by, and what is added,
  /// times `addedFactor`.
  double factor = 1, addedFactor = 0;
  mlir::Value added;
};

/// What is done to scores, or to weights.
struct AttentionStep {
  enum class Kind {
    Form,  ///< a view, a cast, dropout that is off: nothing that counts
    Scale, ///< times `number` or times, or divided by, `other`
    Add,   ///< plus `number` times `other`
    Hide,  ///< `number` where `other` is true, or, if `keeps`, where it is not
  };
  Kind kind = Kind::Form;
  fx::NodeOp node;
  /// What goes on: the scores before it.
  mlir::Value scores;
  mlir::Value other;
  std::optional<double> number;
  bool isDivided = false, keeps = false;
};

struct AttentionSpelling {
  AttentionProduct first, second;
  /// From the first product to softmax, and from there to the second one.
  llvm::SmallVector<AttentionStep, 4> before, after;
  fx::NodeOp softmax;

  /// The number of dimensions of what the products give, at most.
  unsigned getRank();
};

/// Why something is no attention that is known, and the node of which that is
/// true.
struct AttentionObstacle {
  fx::NodeOp node;
  std::string reason;
};

/// A place that looks like attention, and what was found there: a spelling, or
/// an obstacle.
struct AttentionPlace {
  /// What gives the weighted values, as far as that could be seen.
  fx::NodeOp last;
  std::optional<AttentionSpelling> spelling;
  AttentionObstacle obstacle;
};

/// The places of `graph` where a product, a softmax, and a product follow one
/// another.
std::vector<AttentionPlace> findAttention(fx::GraphOp graph);

/// The graph's input that `value` is a fresh copy of, where it is known what
/// number that holds; null for any other value.
mlir::BlockArgument getLifted(mlir::Value value);

/// The smallest number of a floating-point type.
double getLowest(mlir::Type element);

} // namespace opprof::rewrite

#endif // OPPROF_LIB_REWRITE_RULES_ATTENTIONSPELLING_H
