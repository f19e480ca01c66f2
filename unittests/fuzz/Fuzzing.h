// What the fuzzers share.

#ifndef OPPROF_UNITTESTS_FUZZ_FUZZING_H
#define OPPROF_UNITTESTS_FUZZ_FUZZING_H

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <cstdlib>

/// Stops the fuzzer where what has to hold does not.
inline void require(bool holds) {
  if (!holds)
    std::abort();
}

inline llvm::StringRef toText(const uint8_t *data, size_t size) {
  return {reinterpret_cast<const char *>(data), size};
}

#endif // OPPROF_UNITTESTS_FUZZ_FUZZING_H
