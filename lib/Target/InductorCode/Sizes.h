// Sizes that are expressions of symbols.

#ifndef OPPROF_LIB_TARGET_INDUCTORCODE_SIZES_H
#define OPPROF_LIB_TARGET_INDUCTORCODE_SIZES_H

#include "opprof/Target/InductorCode/PythonParser.h"

#include <map>
#include <optional>
#include <string>

namespace opprof::inductor {

/// The value of "2*s77 + 1" with the sizes of `hints`; none where a symbol has
/// none, where it is no expression of sizes, or where it passes 64 bits.
std::optional<int64_t>
evaluateSize(const Expr &expr, const std::map<std::string, int64_t> &hints);

} // namespace opprof::inductor

#endif // OPPROF_LIB_TARGET_INDUCTORCODE_SIZES_H
