// What has to hold at a place before a pattern may be replaced there. It is
// computed once, from the pattern and its replacement: the matcher evaluates
// this description, and an emitted backend holds and evaluates the same one, so
// neither can check what the other does not.

#ifndef OPPROF_ANALYSIS_STRUCTURE_PATTERNCONDITIONS_H
#define OPPROF_ANALYSIS_STRUCTURE_PATTERNCONDITIONS_H

#include "opprof/Analysis/Structure/Equivalence.h"

namespace opprof::fx {

enum class ConditionKind {
  // Of one value that the pattern's arguments or nodes stand for.
  DType,        ///< expected: the element type
  Shape,        ///< sizes: a number, a symbol that stands for one, unit for any
  Stride,       ///< as sizes, or unit for those of a contiguous tensor
  Device,       ///< as torch writes it, index included
  Layout,       ///< torch's name: "strided", "sparse_coo"
  Subclass,     ///< the class's qualified name; "" for a plain tensor
  RequiresGrad, ///< only where the pattern asks for it
  Constant,     ///< a tensor of the graph's own that holds this number
  Type,         ///< this type: what is no tensor
  // Of the place.
  InnerUsesOnly,     ///< what the pattern does not output is used inside only
  InputsComeFirst,   ///< inputs are defined before results are used: convexity
  EffectsInOrder,    ///< nothing in between writes what matched nodes read, or
                     ///< draws where they do
  ResultsStayInside, ///< the graph returns no result, nor a view of one
  ViewsWork, ///< views of a result work on these new strides, a unit unknown
             ///< ones
  NothingWrittenAfter, ///< no input or result is written later: results share
                       ///< storage otherwise than before
};

/// "dtype", "stride", …: what emitted backends and messages call it.
llvm::StringRef stringifyConditionKind(ConditionKind kind);

/// Why a place does not meet a condition on places, in words.
llvm::StringRef explainPlaceCondition(ConditionKind kind);

struct Condition {
  ConditionKind kind;
  mlir::Attribute expected;
  /// For a list or tuple: which element of it, and of that, is meant.
  llvm::SmallVector<unsigned, 1> path;
  /// ViewsWork: the index of the result.
  unsigned result = 0;
};

struct PatternConditions {
  /// Computes the conditions; `replacement` is null where the pattern is only
  /// looked for. The two agree in arguments and results.
  static PatternConditions get(GraphOp pattern, GraphOp replacement);

  /// By value of the pattern: its arguments, then the results of its nodes.
  llvm::SmallVector<llvm::SmallVector<Condition>> ofValues;
  llvm::SmallVector<Condition> ofPlace;
};

/// Compares a size or stride that a pattern expects, a number or a symbol, with
/// one of the graph, which is null where nobody knows it.
using SizeComparison =
    llvm::function_ref<bool(mlir::Attribute expected, mlir::Attribute actual)>;

/// True where `value` meets a condition on values.
bool holds(const Condition &condition, mlir::Value value,
           SizeComparison compareSize);

/// The number that an input of a graph holds which is no input of the program,
/// as `torch.tensor(0.5)` in it is lifted to; null where none is known.
mlir::Attribute getConstantOfInput(mlir::Value value);

/// Calls `visit(user)` for the nodes whose result may share storage with
/// `value`, which is their first operand.
void visitViews(mlir::Value value, llvm::function_ref<void(NodeOp)> visit);

/// True where the graph returns `value`, or a view of it.
bool isReturned(mlir::Value value);

/// True for a node that asserts of a tensor what its type says, as torch.export
/// adds one to every cast. It takes nothing of what the tensor holds.
bool onlyAsserts(mlir::Operation *op);

/// True for a node that asks for no more than the type of `value`: such an
/// assertion, or a cast of something else to the same type.
bool asksForTypeOnly(mlir::Operation *user, mlir::Value value);

/// The strides of a view that makes `shape` of a tensor of `sizes` and
/// `strides`, or none where such a tensor has no such view.
std::optional<llvm::SmallVector<int64_t>>
getViewStrides(llvm::ArrayRef<int64_t> sizes, llvm::ArrayRef<int64_t> strides,
               llvm::ArrayRef<int64_t> shape);

/// The strides of the result of `view`, whose first operand has `strides`, or
/// none where this is not known.
std::optional<llvm::SmallVector<int64_t>>
inferViewStrides(NodeOp view, llvm::ArrayRef<int64_t> strides);

/// True where every view of `value`, and of its views, exists when `value` is
/// laid out with `strides`; none stands for unknown ones.
bool viewsWork(mlir::Value value,
               std::optional<llvm::SmallVector<int64_t>> strides);

} // namespace opprof::fx

#endif // OPPROF_ANALYSIS_STRUCTURE_PATTERNCONDITIONS_H
