// The schemas of PyTorch's operators: arguments, aliasing, mutation, tags.
// Generated from PyTorch when the project is built.

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
  bool hasDefault;
  bool isWritten;
  /// Arguments and returns with the same letter may alias; 0 is a fresh value,
  /// '*' may alias anything.
  char aliasSet;

  bool holdsTensors() const { return type.contains("Tensor"); }
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
  /// True where a return may share storage with an argument.
  bool isView() const;
  /// The index of the argument called `name`, or -1.
  int getArgumentIndex(llvm::StringRef argumentName) const;
};

/// The schema of the operator overload `target`, or null where PyTorch had none
/// of that name when opprof was built.
const OperatorSchema *lookupSchema(llvm::StringRef target);

/// The version of PyTorch that the schemas came from.
llvm::StringRef getSchemaTorchVersion();

} // namespace opprof::fx

#endif // OPPROF_DIALECT_FX_IR_SCHEMA_H
