// Symbolic expressions, as SymPy prints PyTorch's, in Python.

#ifndef OPPROF_LIB_TARGET_PYTHON_SYMBOLICEXPRESSION_H
#define OPPROF_LIB_TARGET_PYTHON_SYMBOLICEXPRESSION_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>

namespace opprof::fx {

/// `expression` in Python, or none where it holds what Python has no form for.
/// `nameSymbol` gives the Python name of a symbol, empty for an unknown one.
std::optional<std::string> getPythonExpression(
    llvm::StringRef expression,
    llvm::function_ref<std::string(llvm::StringRef)> nameSymbol);

} // namespace opprof::fx

#endif // OPPROF_LIB_TARGET_PYTHON_SYMBOLICEXPRESSION_H
