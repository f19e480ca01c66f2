// The enumerations of torch/_export/serde/schema.py.

#include "Enums.h"

#include "llvm/ADT/ArrayRef.h"

using namespace llvm;
using namespace opprof::fx;

static constexpr std::pair<int64_t, StringLiteral> kScalarTypes[] = {
    {1, "uint8"},
    {2, "int8"},
    {3, "int16"},
    {4, "int32"},
    {5, "int64"},
    {6, "float16"},
    {7, "float32"},
    {8, "float64"},
    {9, "complex32"},
    {10, "complex64"},
    {11, "complex128"},
    {12, "bool"},
    {13, "bfloat16"},
    {28, "uint16"},
    {29, "float8_e4m3fn"},
    {30, "float8_e5m2"},
    {31, "float8_e4m3fnuz"},
    {32, "float8_e5m2fnuz"},
    {33, "float8_e8m0fnu"},
    {34, "uint32"},
    {35, "uint64"}};
// Indices are the numbers.
static constexpr StringLiteral kLayouts[] = {
    "",           "sparse_coo", "sparse_csr", "sparse_csc",
    "sparse_bsr", "sparse_bsc", "_mkldnn",    "strided"};
static constexpr StringLiteral kMemoryFormats[] = {
    "", "contiguous_format", "channels_last", "channels_last_3d",
    "preserve_format"};

static StringRef lookUp(ArrayRef<StringLiteral> names, int64_t code) {
  if (code < 0 || code >= static_cast<int64_t>(names.size()))
    return {};
  return names[code];
}

StringRef pt2::getScalarTypeName(int64_t code) {
  for (const auto &[known, name] : kScalarTypes)
    if (known == code)
      return name;
  return {};
}

StringRef pt2::getLayoutName(int64_t code) { return lookUp(kLayouts, code); }

StringRef pt2::getMemoryFormatName(int64_t code) {
  return lookUp(kMemoryFormats, code);
}
