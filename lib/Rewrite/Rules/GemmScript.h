// The graphs of a script about GEMMs that share an input: what the pattern and
// its replacement have in common, arguments and calls.

#ifndef OPPROF_LIB_REWRITE_RULES_GEMMSCRIPT_H
#define OPPROF_LIB_REWRITE_RULES_GEMMSCRIPT_H

#include "GemmGroups.h"

#include "opprof/Target/TransformScript/ScriptBuilder.h"

namespace opprof::rewrite {

class GemmScript : public fx::ScriptBuilder {
public:
  explicit GemmScript(const GemmGroup &group);

  /// Begins a graph that takes the input, then each weight with its bias.
  fx::GraphOp beginGemms(llvm::StringRef name, mlir::TypeRange results);
  /// Of the graph that is being made. There are biases of all or of none.
  llvm::ArrayRef<mlir::Value> getWeights() const { return weights; }
  llvm::ArrayRef<mlir::Value> getBiases() const { return biases; }

  /// Adds a call of the group's operator.
  mlir::Value addGemm(const llvm::Twine &name, mlir::Value weight,
                      mlir::Value bias, mlir::Type type);

private:
  const GemmGroup &group;
  mlir::Value input;
  llvm::SmallVector<mlir::Value> weights, biases;
};

} // namespace opprof::rewrite

#endif // OPPROF_LIB_REWRITE_RULES_GEMMSCRIPT_H
