// The enumerations of archives, which hold numbers for them.

#ifndef OPPROF_LIB_TARGET_PT2_ENUMS_H
#define OPPROF_LIB_TARGET_PT2_ENUMS_H

#include "llvm/ADT/StringRef.h"

#include <cstdint>

namespace opprof::fx::pt2 {

// Torch's name for what a number stands for in the enumeration of that name in
// torch/_export/serde/schema.py; empty where it has no such number.
llvm::StringRef getScalarTypeName(int64_t code);
llvm::StringRef getLayoutName(int64_t code);
llvm::StringRef getMemoryFormatName(int64_t code);

} // namespace opprof::fx::pt2

#endif // OPPROF_LIB_TARGET_PT2_ENUMS_H
