// SymPy expressions as archives write them.

#ifndef OPPROF_LIB_TARGET_PT2_SYMPY_H
#define OPPROF_LIB_TARGET_PT2_SYMPY_H

#include "llvm/ADT/StringRef.h"

#include <string>

namespace opprof::fx {

/// What Python's str() gives for the expression that SymPy's srepr() wrote:
/// "2*s0 + 1" for Add(Mul(Integer(2), Symbol('s0', integer=True)), Integer(1)).
/// Any other text comes back as it is.
std::string getSymPyText(llvm::StringRef srepr);

} // namespace opprof::fx

#endif // OPPROF_LIB_TARGET_PT2_SYMPY_H
