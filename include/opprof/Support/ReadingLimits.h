// What a file may cost: memory and processor time of the process that reads it,
// as the system holds them (setrlimit). A file of a stranger that asks for more
// ends the process with one line that names it, instead of taking the machine.

#ifndef OPPROF_SUPPORT_READINGLIMITS_H
#define OPPROF_SUPPORT_READINGLIMITS_H

#include "llvm/ADT/StringRef.h"

#include <cstdint>

namespace opprof {

/// What a process may take for the files that it reads, all together: a start,
/// and so much for each of their bytes.
struct ReadingBudget {
  /// Bytes of memory, beyond what the process had before its first file and
  /// the stacks of its threads.
  uint64_t memory;
  uint64_t memoryPerByte;
  /// Seconds of processor time, of all threads, since the process began.
  uint64_t seconds;
  uint64_t bytesPerSecond;
};

/// Text and bytecode. A graph takes 20 to 40 bytes a byte of its text.
inline constexpr ReadingBudget kPlainBudget = {uint64_t(2) << 30, 128, 600,
                                               uint64_t(20) << 10};
/// Archives and compressed traces, whose text PyTorch packs to a twentieth.
inline constexpr ReadingBudget kPackedBudget = {uint64_t(1) << 30, 512, 600,
                                                uint64_t(2) << 10};

/// Lets the process take what a file of `bytes` may cost, before it is read,
/// and no more. A process of several files may take the larger start and the
/// sum of the rest. What the user's own limits (ulimit) forbid stays forbidden;
/// OPPROF_READING_LIMITS=off in the environment leaves all of it to them.
void limitReading(llvm::StringRef name, uint64_t bytes,
                  const ReadingBudget &budget);

} // namespace opprof

#endif // OPPROF_SUPPORT_READINGLIMITS_H
