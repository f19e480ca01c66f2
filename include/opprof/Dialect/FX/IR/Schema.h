// The schemas of PyTorch's operators: arguments, aliasing, mutation, tags.
// The table is made of cmake/operator_schemas.jsonl, which is kept.

#ifndef OPPROF_DIALECT_FX_IR_SCHEMA_H
#define OPPROF_DIALECT_FX_IR_SCHEMA_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace opprof::fx {

struct SchemaArgument {
  llvm::StringLiteral name;
  /// TorchScript's type: "Tensor", "Optional[Tensor]", "List[int]", "number" …
  llvm::StringLiteral type;
  bool isKeywordOnly;
  bool isWritten;
  /// Arguments and returns with the same letter may alias; 0 is a fresh value,
  /// '*' may alias anything.
  char aliasSet;
  /// What an argument that is left out stands for, as getDefaultValue reads it;
  /// empty where it has to be given.
  llvm::StringLiteral defaultText;

  bool hasDefault() const { return !defaultText.empty(); }
};

struct OperatorSchema {
  /// "aten.add.Tensor"
  llvm::StringLiteral name;
  llvm::ArrayRef<SchemaArgument> arguments;
  llvm::ArrayRef<SchemaArgument> returns;
  /// Elementwise over broadcast operands (torch.Tag.pointwise).
  bool isPointwise;
  /// Draws from a random generator (torch.Tag.nondeterministic_seeded).
  bool isRandom;
  /// Reduces dimensions (torch.Tag.reduction).
  bool isReduction;

  bool isMutating() const;
  /// True where a return may share storage with an argument: in-place operators
  /// and those that copy only where they must (contiguous, to) among them.
  bool isView() const;
  /// The index of the argument called `name`, or -1.
  int getArgumentIndex(llvm::StringRef argumentName) const;
};

/// The schema of the operator overload `target`, or null where no PyTorch whose
/// schemas are kept has one of that name.
const OperatorSchema *lookupSchema(llvm::StringRef target);

/// The schemas of all overloads of "aten.transpose", in the order of their
/// names.
llvm::ArrayRef<OperatorSchema> getOverloads(llvm::StringRef name);

/// True where the schema of `target` is known and says that it writes.
bool isKnownToWrite(llvm::StringRef target);

/// True where PyTorch had operators in the namespace of `target` ("aten"), and
/// so knows of all there are.
bool hasNamespace(llvm::StringRef target);

/// The operator overload whose name comes nearest to `target`, or empty where
/// none is near.
llvm::StringRef findSimilarOperator(llvm::StringRef target);

/// True where PyTorch had an operator `name` ("aten.transpose"), of whatever
/// overload; `ofTensor` asks for one whose first argument is a tensor.
bool hasOperator(llvm::StringRef name, bool ofTensor = false);

/// True where the operator only gives another view of its first operand: it
/// launches nothing and moves no bytes. `target` is an overload
/// ("aten.transpose.int"), an operator ("aten.transpose") or its bare name.
///
/// By its schema, an operator that may alias and writes nothing; but not one
/// that makes a copy wherever there is anything to do. Those that only copy
/// where no view can be had, such as reshape, count as views.
bool isViewOperator(llvm::StringRef target);

/// True where the result may be an argument, or a view of one, though the
/// schema does not say so: dropout that is off, einsum that only permutes.
bool returnsUndeclaredAlias(llvm::StringRef target);

/// True for a normalization that writes the running statistics it is given,
/// when in training, though its schema does not say so.
bool renewsRunningStatistics(llvm::StringRef target);

/// "mm" of "aten.mm.default" or "torch.ops.aten.mm.default", "getitem" of
/// "operator.getitem".
llvm::StringRef getOperatorName(llvm::StringRef target);

/// "mul" of "mul_": the operator that gives as a new tensor what this one
/// writes into its first argument. Other names are as they were.
llvm::StringRef getFunctionalName(llvm::StringRef operatorName);

} // namespace opprof::fx

#endif // OPPROF_DIALECT_FX_IR_SCHEMA_H
