// What the fuzzers share.

#ifndef OPPROF_UNITTESTS_FUZZ_FUZZING_H
#define OPPROF_UNITTESTS_FUZZ_FUZZING_H

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>

/// Stops the fuzzer where what has to hold does not, and says which line
/// requires it.
inline void require(bool holds, const char *file = __builtin_FILE(),
                    int line = __builtin_LINE()) {
  if (holds)
    return;
  std::fprintf(stderr, "%s:%d: what has to hold does not\n", file, line);
  std::abort();
}

inline llvm::StringRef toText(const uint8_t *data, size_t size) {
  return {reinterpret_cast<const char *>(data), size};
}

#endif // OPPROF_UNITTESTS_FUZZ_FUZZING_H
