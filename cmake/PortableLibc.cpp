// Linked into the programs of a portable build: what LLVM's archives take from
// a libc newer than 2.35, so that the programs run where that is the libc.

#include <cstdint>
#include <cstdlib>
#include <sys/random.h>

extern "C" uint32_t arc4random() {
  uint32_t number;
  if (getrandom(&number, sizeof number, 0) != sizeof number)
    std::abort();
  return number;
}
