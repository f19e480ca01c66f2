// Enumerators by their names.

#ifndef OPPROF_SUPPORT_ENUMNAMES_H
#define OPPROF_SUPPORT_ENUMNAMES_H

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

#include <optional>

namespace opprof {

/// The enumerator that is called `text`; `names` has a name for each value from
/// 0 on.
template <typename Enum, size_t N>
std::optional<Enum> parseEnumerator(const llvm::StringLiteral (&names)[N],
                                    llvm::StringRef text) {
  const llvm::StringLiteral *found = llvm::find(names, text);
  if (found == std::end(names))
    return std::nullopt;
  return static_cast<Enum>(found - names);
}

} // namespace opprof

#endif // OPPROF_SUPPORT_ENUMNAMES_H
