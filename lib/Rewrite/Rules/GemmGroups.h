// GEMMs that share an input, and the script that makes one of them: what the
// rule about them finds, and what it hands out.

#ifndef OPPROF_LIB_REWRITE_RULES_GEMMGROUPS_H
#define OPPROF_LIB_REWRITE_RULES_GEMMGROUPS_H

#include "opprof/Dialect/FX/IR/FX.h"
#include "opprof/Rewrite/Recommend.h"

namespace opprof::rewrite {

/// A matrix product of an input by a weight, with or without a bias.
struct Gemm {
  fx::NodeOp node;
  mlir::Value input, weight, bias, result;
  /// The dimension of the weight that holds the result's last dimension.
  unsigned widthDim;
  /// Why it can't be merged with others, or empty.
  llvm::StringRef obstacle;

  mlir::RankedTensorType getWeightType() const {
    return mlir::cast<mlir::RankedTensorType>(weight.getType());
  }
  mlir::Type getResultType() const { return result.getType(); }
  int64_t getWidth() const { return getWeightType().getDimSize(widthDim); }
};

/// GEMMs of one input that may become one.
struct GemmGroup {
  /// Of different weights.
  llvm::SmallVector<Gemm> gemms;
  /// What is one of them once more, and the place of that. They take its
  /// slice: left out of the merge, each would be computed by itself.
  llvm::SmallVector<std::pair<unsigned, Gemm>> repeats;

  /// The nodes, those of the repeats last.
  llvm::SmallVector<fx::NodeOp> getNodes() const;
};

/// The groups of `graph`, in the order of their first GEMM. What stands in the
/// way of others is declined.
llvm::SmallVector<GemmGroup> findGemmGroups(fx::GraphOp graph, Offers &offers);

/// The script that makes one GEMM of a group's.
mlir::OwningOpRef<mlir::ModuleOp> mergeGemms(const GemmGroup &group);

} // namespace opprof::rewrite

#endif // OPPROF_LIB_REWRITE_RULES_GEMMGROUPS_H
