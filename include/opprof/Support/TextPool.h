// Keeps one of equal texts, of which a recording has as many as events.

#ifndef OPPROF_SUPPORT_TEXTPOOL_H
#define OPPROF_SUPPORT_TEXTPOOL_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Allocator.h"
#include "llvm/Support/StringSaver.h"

#include <array>

namespace opprof {

class TextPool {
public:
  TextPool() : strings(allocator) {}
  TextPool(const TextPool &) = delete;
  TextPool &operator=(const TextPool &) = delete;

  /// The same for equal texts, as long as the pool lives.
  llvm::StringRef save(llvm::StringRef text);

private:
  llvm::BumpPtrAllocator allocator;
  llvm::UniqueStringSaver strings;
  /// Some of them, each where its length, beginning and end put it: few texts
  /// are most of a recording, and to look at all of one costs more than to
  /// compare it with one.
  std::array<llvm::StringRef, 1024> recent;
};

} // namespace opprof

#endif // OPPROF_SUPPORT_TEXTPOOL_H
