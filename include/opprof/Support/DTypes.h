// Torch's dtypes by name, for code with and without MLIR.

#ifndef OPPROF_SUPPORT_DTYPES_H
#define OPPROF_SUPPORT_DTYPES_H

#include "llvm/ADT/StringRef.h"

#include <optional>

namespace opprof {

struct DType {
  /// "bfloat16", as torch calls it.
  llvm::StringLiteral name;
  /// "bf16", as comments of printed graphs call it; empty where none is known.
  llvm::StringLiteral shortName;
  /// Of one element.
  unsigned bytes;
};

inline constexpr DType kDTypes[] = {
    {"bool", "b8", 1},
    {"int8", "i8", 1},
    {"int16", "i16", 2},
    {"int32", "i32", 4},
    {"int64", "i64", 8},
    {"uint8", "u8", 1},
    {"uint16", "u16", 2},
    {"uint32", "u32", 4},
    {"uint64", "u64", 8},
    {"float16", "f16", 2},
    {"bfloat16", "bf16", 2},
    {"float32", "f32", 4},
    {"float64", "f64", 8},
    {"float8_e4m3fn", "f8e4m3fn", 1},
    {"float8_e5m2", "f8e5m2", 1},
    {"float8_e4m3fnuz", "f8e4m3fnuz", 1},
    {"float8_e5m2fnuz", "f8e5m2fnuz", 1},
    {"float8_e8m0fnu", "f8e8m0fnu", 1},
    {"complex32", "c32", 4},
    {"complex64", "c64", 8},
    {"complex128", "c128", 16},
};

/// The dtype that torch calls `name`, or null.
inline const DType *lookupDType(llvm::StringRef name) {
  for (const DType &dtype : kDTypes)
    if (dtype.name == name)
      return &dtype;
  return nullptr;
}

/// The dtype that comments of printed graphs call `name`, or null.
inline const DType *lookupShortDType(llvm::StringRef name) {
  for (const DType &dtype : kDTypes)
    if (dtype.shortName == name)
      return &dtype;
  return nullptr;
}

/// Bytes of one element, or none for a dtype that is not known.
inline std::optional<uint64_t> getDTypeBytes(llvm::StringRef name) {
  if (const DType *dtype = lookupDType(name))
    return dtype->bytes;
  return std::nullopt;
}

} // namespace opprof

#endif // OPPROF_SUPPORT_DTYPES_H
