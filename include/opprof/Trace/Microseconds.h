// Times of traces as their text states them.

#ifndef OPPROF_TRACE_MICROSECONDS_H
#define OPPROF_TRACE_MICROSECONDS_H

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>

namespace opprof::trace {

/// Nanoseconds of a decimal number of microseconds, as its text states them:
/// no binary fraction in between. Digits below the nanosecond are rounded half
/// away from zero, and `rounded` is set. Absent where `text` is no decimal
/// number or too large.
std::optional<int64_t> parseMicroseconds(llvm::StringRef text, bool &rounded);

} // namespace opprof::trace

#endif // OPPROF_TRACE_MICROSECONDS_H
