// Which values of a graph share storage, and what each node writes: a write to
// a tensor that the graph made itself is as harmless as the operator that gives
// a new one, and a write to what the caller holds is a part of what the graph
// does.

#ifndef OPPROF_ANALYSIS_STRUCTURE_STORAGEEFFECTS_H
#define OPPROF_ANALYSIS_STRUCTURE_STORAGEEFFECTS_H

#include "opprof/Dialect/FX/IR/FX.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/IntEqClasses.h"

namespace opprof::fx {

/// Storage is told apart by schemas: a result is a storage of its own unless
/// its operator may return an argument or a view of one. It does not depend on
/// order, so one answer holds at every place. All inputs may be one storage: a
/// caller may pass a tensor twice, and weights may be tied.
class StorageEffects {
public:
  explicit StorageEffects(GraphOp graph);

  /// A node that may write tensors that existed before it.
  struct Write {
    mlir::Operation *node;
    /// What it may write, but for views of it.
    llvm::SmallVector<mlir::Value, 1> values;
    /// True where it may write any storage: nothing is known of it, or it gives
    /// a tensor another storage.
    bool isAny = false;
  };

  /// All of them, in the order of the block.
  llvm::ArrayRef<Write> getWrites() const { return writes; }

  /// A number for what may share storage with the value by what the graph does:
  /// others may do so only where both may be inputs.
  unsigned getStorage(mlir::Value value) const;

  /// True where both may share storage.
  bool mayAlias(mlir::Value first, mlir::Value second) const;
  /// True where the value may be, or share storage with, what lives longer than
  /// one call: an input or an attribute of the module.
  bool mayBeInput(mlir::Value value) const;

  /// The first node that may write what lives longer than one call, which for a
  /// graph without such writes in its nodes is the node whose result its
  /// signature puts into an input; null where there is none.
  mlir::Operation *findWriteOfInput() const;

  /// A node from `first` up to `last`, both included, for which `isLeftOut`
  /// does not hold and that may write the storage of one of `values`; null
  /// where there is none.
  mlir::Operation *findWriteBetween(
      mlir::Operation *first, mlir::Operation *last,
      llvm::ArrayRef<mlir::Value> values,
      llvm::function_ref<bool(mlir::Operation *)> isLeftOut = nullptr) const;

private:
  void unite(mlir::Value first, mlir::Value second);
  void addNode(NodeOp node);
  bool canWrite(const Write &write, mlir::Value value) const;

  GraphOp graph;
  llvm::DenseMap<mlir::Value, unsigned> numbers;
  llvm::IntEqClasses storages;
  /// By storage: whether it lives longer than one call.
  llvm::DenseMap<unsigned, bool> isInput;
  llvm::SmallVector<Write> writes;
};

} // namespace opprof::fx

#endif // OPPROF_ANALYSIS_STRUCTURE_STORAGEEFFECTS_H
