// What a program that is written from a file may call and read.

#ifndef OPPROF_LIB_TARGET_PYTHON_CALLS_H
#define OPPROF_LIB_TARGET_PYTHON_CALLS_H

#include "opprof/Dialect/FX/IR/FX.h"

#include "llvm/ADT/StringRef.h"

#include <string>

namespace opprof::fx {

bool isPythonKeyword(llvm::StringRef word);

/// True for what is a name in Python and in ASCII; keywords are too.
bool isPythonIdentifier(llvm::StringRef word);

/// `object.name`, written otherwise where the name is a keyword of Python's, as
/// some operators' are (aten.random.from).
std::string getPythonMember(llvm::StringRef object, llvm::StringRef name);

/// The expression of the function that a call_function target names, or empty
/// where it is none that a program may call: an operator, or a function that
/// stands in the table by its whole name. getattr is none; see below.
std::string getCallableFunction(llvm::StringRef target);

/// True for an operator that PyTorch did not have when opprof was built: it may
/// take text for the name of a file (image.write_file).
bool isForeignOperator(llvm::StringRef target);

/// True where any graph of `program` calls such an operator, or hands one on.
bool callsForeignOperators(mlir::Operation *program);

/// True where a call of this function may hold text in a program that calls
/// foreign operators: Python's own functions may hand it on to one.
bool mayTakeTextBesideForeign(llvm::StringRef target);

/// True for a method of tensors that computes: it reads and writes no files and
/// runs no code that it is handed.
bool isCallableMethod(llvm::StringRef name);

/// True for an attribute of a tensor that a program may read.
bool isReadableAttribute(llvm::StringRef name);

/// True for a dtype, layout or memory format that is a name in torch.
bool isTorchConstant(llvm::StringRef name);

/// True for an operator of TorchScript's that takes lists, dictionaries or
/// values of any type: torch.ops has it, and cannot call it with Python's.
bool isOperatorOfAnyType(llvm::StringRef target);

/// True for what gives text: of a number, or of other text.
bool makesText(llvm::StringRef target);

/// True where the node, of TorchScript, assigns its second argument to the
/// model's attribute of the name that is its first: a program keeps it.
bool isAssignment(NodeOp node);

} // namespace opprof::fx

#endif // OPPROF_LIB_TARGET_PYTHON_CALLS_H
