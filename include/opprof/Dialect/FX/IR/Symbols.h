// Size symbols inside expressions and types.

#ifndef OPPROF_DIALECT_FX_IR_SYMBOLS_H
#define OPPROF_DIALECT_FX_IR_SYMBOLS_H

#include "opprof/Dialect/FX/IR/FXAttributes.h"

#include "llvm/ADT/StringMap.h"

namespace opprof::fx {

/// On a call: which size symbols here stand for those of the callee, a
/// dictionary of strings.
inline constexpr llvm::StringLiteral kRenamedSymbolsAttr = "fx.renamed_symbols";

using SymbolMap = llvm::StringMap<std::string>;

/// Calls `visit(text, isSymbol)` for the symbols of an expression and for the
/// text between them. A symbol is a name that ends in a digit (s0, u12, zuf1)
/// and is not called.
void splitSymbols(llvm::StringRef expression,
                  llvm::function_ref<void(llvm::StringRef, bool)> visit);

/// The identifiers of `expression` replaced as `symbols` says.
std::string renameSymbols(llvm::StringRef expression, const SymbolMap &symbols);
/// The same throughout a type.
mlir::Type renameSymbols(mlir::Type type, const SymbolMap &symbols);

/// What kRenamedSymbolsAttr says; empty where it is absent.
SymbolMap getRenamedSymbols(mlir::Operation *call);

} // namespace opprof::fx

#endif // OPPROF_DIALECT_FX_IR_SYMBOLS_H
