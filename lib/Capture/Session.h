// A running capture. One capture of this process: CUPTI's activity buffers on
// one side, the file on the other, and a thread between them, so that the
// program only ever swaps a full buffer for an empty one.

#ifndef OPPROF_LIB_CAPTURE_SESSION_H
#define OPPROF_LIB_CAPTURE_SESSION_H

#include "Cupti.h"
#include "opprof/Capture/FileWriter.h"

#include "opprof/Capture/Capture.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

namespace opprof::capture {

/// Sets this thread's error text and returns `status`.
int failWith(int status, std::string text);

/// Buffers that CUPTI fills. One per process and never destroyed, because
/// CUPTI may hand one back after a capture ended.
class BufferPool {
public:
  struct Full {
    uint8_t *data;
    size_t size;
    size_t validBytes;
    size_t dropped;
  };

  void configure(size_t bufferBytes, size_t limitBytes);
  /// Null when the limit is reached.
  uint8_t *take(size_t &size);
  void give(uint8_t *data, size_t size);
  /// Keeps a few touched buffers ready, so that no launch pays for page faults.
  void refill(size_t spare);
  uint64_t allocatedBuffers();
  uint64_t peakBytes();
  /// Whether CUPTI took `data` here and still has it: another tool of the
  /// process may have handed out buffers of its own.
  bool takeBack(uint8_t *data);

private:
  std::mutex Mutex;
  std::vector<uint8_t *> Free;
  std::unordered_set<uint8_t *> Out;
  size_t BufferBytes = 2u << 20, LimitBytes = 1u << 30;
  size_t Allocated = 0, Peak = 0;
};

class Session {
public:
  static int start(const opprof_capture_options &options);
  static int stop(opprof_capture_stats *stats);
  /// The running one, or null. The pointer is good until `stop` returns.
  static std::shared_ptr<Session> current();

  int pause();
  int resume();
  int flush();

  FileWriter &writer() { return Writer; }
  uint64_t now() const;
  uint32_t kinds() const { return Kinds; }

  /// The node of a CUDA graph that came into being on this thread.
  void graphNode(const GraphNodeRecord &record);
  /// A mark of the program's at this moment. Does not wait for the writer.
  void mark(uint32_t kind, uint64_t value, const char *name);

  // What CUPTI and the fork handlers call.
  static void bufferRequested(uint8_t **buffer, size_t *size, size_t *records);
  static void bufferCompleted(CUcontext context, uint32_t stream,
                              uint8_t *buffer, size_t size, size_t valid);
  static void forkedChild();

  ~Session();

private:
  Session() = default;
  int enable(bool on);
  int enableApis(bool on);
  void run();
  void drain(std::unique_lock<std::mutex> &lock);
  void decode(const BufferPool::Full &full);
  void describe();
  /// Says what noting a call takes, once none is noted any more.
  void describeNoting();
  /// A driver that is still starting, as it is when it injects this library,
  /// knows no devices yet: asked again until it does.
  void describeDevices();
  /// One instant on all clocks. Asks CUPTI, so Writer.Mutex is not held.
  ClockRecord readClocks() const;
  /// Writes nodes and marks.
  void drainNotes();
  /// Writes what HostCalls noted.
  void drainCalls();
  /// Names a call in the file before its first record.
  void nameApi(uint32_t domain, uint32_t cbid);

  const CuptiApi *Cupti = nullptr;
  uint32_t Kinds = 0, FlushMs = 500;
  bool FlushesItself = false;
  FileWriter Writer;
  bool DevicesDescribed = false; ///< guarded by Writer.Mutex

  /// A program's threads, the library's timer and the end may meet here.
  std::mutex RecordingMutex;
  bool Recording = false, Ended = false;

  std::mutex QueueMutex;
  std::condition_variable QueueReady, QueueEmpty;
  std::deque<BufferPool::Full> Queue;
  bool Busy = false, Ending = false;
  std::thread Thread;

  struct Mark {
    MarkRecord Record;
    std::optional<std::string> Name;
  };
  std::mutex NotesMutex;
  std::vector<GraphNodeRecord> Nodes;
  std::vector<Mark> Marks;

  uint64_t Lost = 0;
  std::unordered_set<uint64_t> KnownApis;
};

/// The ids that launches of this thread carry, innermost last.
class IdStack {
public:
  static int push(uint64_t id);
  static int pop();
  static void at(uint64_t id);
  static uint64_t top();
  /// From now on CUPTI is told of ids too, for calls that it records itself.
  static void shareWithCupti();
};

} // namespace opprof::capture

#endif // OPPROF_LIB_CAPTURE_SESSION_H
