// The blocks of memory that the observer recorded.

#ifndef OPPROF_LIB_TRACE_CAPTUREDALLOCATIONS_H
#define OPPROF_LIB_TRACE_CAPTUREDALLOCATIONS_H

#include "opprof/Capture/CaptureFile.h"
#include "opprof/Trace/Trace.h"

#include <queue>
#include <unordered_map>

namespace opprof::trace {

/// Finds what was freed of what was allocated. Threads write their records one
/// after the other, so that these wait until all earlier ones are there; at any
/// time it keeps those, the blocks that are held, and what goes into the trace.
class CapturedAllocations {
public:
  /// What was freed before `begin` is left out.
  CapturedAllocations(Trace &trace, uint64_t begin)
      : trace(trace), begin(begin) {}

  /// Takes the next record of the file.
  void add(const capture::AllocationRecord &r);
  /// When all are there. Places are numbers of PlaceRecord still.
  void finish();

private:
  /// Of one allocator: a place in Trace::allocators.
  struct State {
    /// By address. Keys come from the file, and may be what DenseMap keeps for
    /// itself.
    std::unordered_map<uint64_t, Allocation> live;
    uint64_t liveBytes = 0;
    /// What it had given out before, of which nothing is known.
    uint64_t earlierBytes = 0;
  };
  struct Waiting {
    capture::AllocationRecord record;
    /// Its place in the file: what happens in an instant stays in order.
    uint64_t order;

    bool operator>(const Waiting &other) const {
      return std::pair(record.time, order) >
             std::pair(other.record.time, other.order);
    }
  };
  void process(uint64_t until);
  void process(const capture::AllocationRecord &r);
  uint64_t counted(uint64_t bytes);
  uint32_t allocatorOf(const capture::AllocationRecord &r);
  /// Puts it into the trace.
  void end(Allocation allocation, uint64_t time);

  Trace &trace;
  uint64_t begin;
  uint64_t totalBytes = 0;
  /// A heap, for a file may say after each of many records that all before some
  /// time are there.
  std::priority_queue<Waiting, std::vector<Waiting>, std::greater<>> waiting;
  uint64_t added = 0;
  std::vector<State> states;
  /// By type and index of the device.
  std::unordered_map<uint32_t, uint32_t> allocatorOfDevice;
};

} // namespace opprof::trace

#endif // OPPROF_LIB_TRACE_CAPTUREDALLOCATIONS_H
