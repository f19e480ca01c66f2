// The names that the values of a graph have outside MLIR, each of them once.

#ifndef OPPROF_DIALECT_FX_IR_NAMES_H
#define OPPROF_DIALECT_FX_IR_NAMES_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace opprof::fx {

class GraphOp;

/// Names of inputs and nodes, those in nodes' blocks among them: those of their
/// locations where there are any.
/// Others are made from the target, as FX does ("aten.add.Tensor" gives add,
/// add_1, …); of two equal names the later one is numbered.
class GraphNames {
public:
  /// `legalize` turns a name into one that may be used ("in" into "in_"), and
  /// need not keep different names different. `reserved` names are not given.
  explicit GraphNames(
      GraphOp graph,
      llvm::function_ref<std::string(llvm::StringRef)> legalize = nullptr,
      const llvm::StringSet<> *reserved = nullptr);

  llvm::StringRef lookup(mlir::Value value) const {
    return names.lookup(value);
  }

  /// A name for something that is no value: `wanted`, or that with a number.
  llvm::StringRef claim(llvm::StringRef wanted,
                        const llvm::StringSet<> *reserved = nullptr);

private:
  llvm::StringSet<> taken;
  llvm::StringMap<unsigned> nextNumber;
  llvm::DenseMap<mlir::Value, llvm::StringRef> names;
};

} // namespace opprof::fx

#endif // OPPROF_DIALECT_FX_IR_NAMES_H
