// Arguments of nodes that JSON has no value for. In files, and where a graph is
// held without MLIR, they are objects with one key, which says what the value
// is: {"dtype": "float16"}. docs/formats/graph-json.md lists them.

#ifndef OPPROF_DIALECT_FX_IR_ARGUMENTFORMS_H
#define OPPROF_DIALECT_FX_IR_ARGUMENTFORMS_H

#include "mlir/IR/Attributes.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"

#include <optional>

namespace opprof::fx {

/// How deep importers let arguments nest: far deeper than what PyTorch writes.
inline constexpr unsigned kMaxArgumentNesting = 60;

enum class ArgumentForm {
  Node,
  Tuple,
  Dict,
  Slice,
  Ellipsis,
  Float,
  Int,
  Complex,
  DType,
  Device,
  Layout,
  MemoryFormat,
  Sym,
  Graph,
  Op,
  Object
};

/// The form that `key` stands for, or none.
std::optional<ArgumentForm> parseArgumentForm(llvm::StringRef key);
llvm::StringRef stringifyArgumentForm(ArgumentForm form);

/// The argument of that form: `value` is what the key holds, as attributes; a
/// reference to a node is #fx.value there. Null, after `fail` was told what the
/// form takes, where `value` is something else.
mlir::Attribute
makeArgument(ArgumentForm form, mlir::Attribute value,
             llvm::function_ref<void(const llvm::Twine &)> fail);

} // namespace opprof::fx

#endif // OPPROF_DIALECT_FX_IR_ARGUMENTFORMS_H
