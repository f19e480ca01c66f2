// Calls that put work on a device. The calls a timeline is read for, with the
// ids of what made them, noted in callbacks of the driver. Activity records
// would have them too, but CUPTI then records every call of the program, or at
// least looks at it, which costs a launch several times as much. Callbacks in
// the runtime's domain cost more too: PyTorch makes many calls there of which
// the driver sees few.

#ifndef OPPROF_LIB_CAPTURE_HOSTCALLS_H
#define OPPROF_LIB_CAPTURE_HOSTCALLS_H

#include "Cupti.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace opprof::capture {

/// A call that has returned. Times are CUPTI's.
struct HostCall {
  uint64_t start, end;
  uint64_t id; ///< of what made it; 0 is none
  uint32_t cbid, thread, correlation, result;
};

class HostCalls {
public:
  static HostCalls &get();

  /// The calls of the driver that put work on a device, wait for it, or hold
  /// memory. No library can go below them: the runtime ends there too.
  const std::vector<CUpti_CallbackId> &watched();

  /// Both ends of a watched call, on the thread that makes it.
  void note(CUpti_CallbackId cbid, const CUpti_CallbackData &data);

  /// Takes what was noted since the last time, and how many did not fit.
  std::vector<HostCall> take(uint64_t &lost);

private:
  /// A thread's calls: its own lock is never waited for but by `take`.
  struct Buffer {
    std::mutex Mutex;
    std::vector<HostCall> Calls;
    uint64_t Lost = 0;
  };
  struct Thread;
  Thread &thread();

  std::mutex Mutex;
  std::vector<std::shared_ptr<Buffer>> Buffers;
  std::vector<CUpti_CallbackId> List;
};

} // namespace opprof::capture

#endif // OPPROF_LIB_CAPTURE_HOSTCALLS_H
