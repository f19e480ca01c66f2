// The observer of a process, as its parts share it: ObserverOperators.cpp is
// called at each operator, ObserverMemory.cpp at each allocation;
// ObserverFile.cpp writes what they note, ObserverSteps.cpp chooses the steps
// that are recorded.

#ifndef OPPROF_LIB_TORCH_OBSERVERSTATE_H
#define OPPROF_LIB_TORCH_OBSERVERSTATE_H

#include "StepCounter.h"
#include "ThreadState.h"

#include "opprof/Capture/Capture.h"
#include "opprof/Capture/FileWriter.h"
#include "opprof/Torch/Observer.h"

#include <chrono>
#include <condition_variable>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

namespace opprof::observer {

using capture::ChunkType;
using capture::FileWriter;

inline constexpr uint64_t kDefaultLimit = uint64_t(2) << 30;

/// Memory that is held, of a program whose first steps are not recorded: what
/// is there when recording begins is known by it.
class Blocks {
public:
  struct Shard {
    std::mutex mutex;
    std::unordered_map<uint64_t, AllocationRecord> held;
  };
  /// Of the blocks with this one's address, on any device.
  Shard &of(uint64_t address) {
    return shards[(address * 0x9E3779B97F4A7C15u) >> 58];
  }
  void hold() {
    for (Shard &shard : shards)
      shard.mutex.lock();
  }
  void release() {
    for (Shard &shard : shards)
      shard.mutex.unlock();
  }
  /// In a fork, after hold().
  void renewLocks() {
    for (Shard &shard : shards)
      new (&shard.mutex) std::mutex;
  }
  void clear() {
    for (Shard &shard : shards) {
      std::lock_guard<std::mutex> lock(shard.mutex);
      shard.held.clear();
    }
  }
  /// Between hold() and release().
  template <typename Visitor> void visit(Visitor visitor) {
    for (Shard &shard : shards)
      for (const auto &[address, record] : shard.held)
        visitor(record);
  }

private:
  std::array<Shard, 64> shards;
};

struct PlaceText {
  std::string module, file, function, group;
  uint32_t line;
};

/// libopprof_capture.so, as far as it is used here.
struct CaptureLibrary {
  void (*atId)(uint64_t) = nullptr;
  int (*start)(const opprof_capture_options *) = nullptr;
  int (*pause)() = nullptr;
  int (*stop)(opprof_capture_stats *) = nullptr;
  int (*active)() = nullptr;
  void (*decline)() = nullptr;

  void load(const char *path);
};

/// Where a program is that only some steps are to be recorded of.
enum class Part : uint8_t {
  All,      ///< everything is recorded
  Search,   ///< recorded, until it is known whether it has steps
  NotFound, ///< it had none for long: what was recorded stays
  Before,   ///< nothing is recorded before the first of the steps
  Inside,
  Over,
};

class Observer {
public:
  static Observer &get() {
    // Threads may still run operators when static objects are gone.
    static Observer *observer = new Observer;
    return *observer;
  }

  bool start(const opprof_observer_options &options);
  bool stop();
  bool flush();
  void followMemory();
  bool isWriting() const { return recording && file; }

  void add(ThreadState &state, const OperatorRecord &record);
  void allocated(const void *address, uint64_t bytes, c10::Device device,
                 std::optional<uint64_t> held);
  void freed(const void *address, uint64_t bytes, c10::Device device,
             std::optional<uint64_t> held);
  uint32_t name(ThreadState &state, const at::RecordFunction &function);
  uint32_t text(std::string_view text);
  void noteInputs(ThreadState &state, const at::RecordFunction &function,
                  OperatorRecord &record);
  uint32_t addPlace(PlaceText place);
  uint32_t placeAt(ThreadState &state, const void *frame, const void *until);
  const void *frame() const {
    const opprof_place_source *from = source.load(std::memory_order_acquire);
    return from ? from->frame() : nullptr;
  }
  std::shared_ptr<Log> makeLog(uint32_t &number);
  void dropLog(const std::shared_ptr<Log> &log);
  void rangeEnded(const at::RecordFunction &function);

  std::atomic<bool> recording{false};
  /// Bytes of the names in the file; its mutex guards it.
  size_t textBytes = 0;
  /// How many recordings have begun: numbers of texts are of one.
  std::atomic<uint32_t> recordings{0};
  std::atomic<const opprof_place_source *> source{nullptr};
  CaptureLibrary capture;
  bool shapes = false;
  at::CallbackHandle callback = at::INVALID_CALLBACK_HANDLE;
  uint64_t begin = 0, end = 0;
  std::string error;

private:
  bool open();
  void writePlace(FileWriter &file, uint32_t number) const;
  void writeEvery();
  void write(Log &log);
  template <typename Record>
  void writeRing(FileWriter &file, ChunkType type, Ring<Record> &ring);
  template <typename Record>
  void addTo(Log &log, Ring<Record> &ring, const Record &record);
  void addAllocation(const AllocationRecord &record);
  void noteHeld(const AllocationRecord &record, uint64_t before);
  void recordHeld();
  void listen();
  void startWriting();
  bool openNext();
  void call(bool forOperators);
  uint64_t measureCalling();
  void callNobody();
  void endFile();
  void note(const char *key, const std::string &text);
  void searchEnded();
  void endCapture();
  void beginSteps();
  void dropBegun();
  void meetPlaces();
  void endSteps();
  void sayWhatEnded();
  std::string describeWindow() const;
  void holdLocks();
  void releaseLocks();
  void forked();
  void begun();

  std::string prefix;
  /// What PyTorch takes to call back for an operator.
  uint64_t callingNs = 0;
  uint64_t limit = kDefaultLimit;
  std::chrono::milliseconds interval{500};
  /// Guards the list of logs; never held while a log is written.
  std::mutex logsMutex;
  std::vector<std::shared_ptr<Log>> logs;
  uint32_t threads = 0;

  /// A file that is locked, and the one of this recording.
  struct LockedFile {
    FileWriter *file;
    std::unique_lock<std::mutex> lock;
  };
  LockedFile lockFile();

  /// Of this recording, or the last one; its own mutex guards it.
  std::atomic<FileWriter *> file{nullptr};
  /// All that there were, which a callback may still hold.
  std::vector<std::unique_ptr<FileWriter>> files;
  std::mutex placesMutex;
  /// By number: a fork's file has them too.
  std::vector<PlaceText> places;

  std::mutex wakeMutex;
  std::condition_variable wake;
  bool ending = false;
  std::atomic<bool> isHalfFull{false};
  /// Held while a recording begins or ends.
  std::mutex lifeMutex;
  bool isEnded = false;
  std::thread writing;

  /// Held while steps are counted; never taken by one that holds another lock
  /// but `lifeMutex`.
  std::mutex stepsMutex;
  std::atomic<Part> part{Part::All};
  StepCounter steps;
  uint64_t firstStep = 0, endStep = 0, begunStep = 0;
  uint64_t searchNs = 0;
  /// When the first operator ran.
  std::atomic<uint64_t> began{0};
  /// When the last step was over.
  std::atomic<uint64_t> pausedAt{0};
  /// Empty where there is no GPU.
  std::string capturePath;

  /// Whether allocations get into the file, and whether what is held is known
  /// by `blocks`, which holds its locks while the first is changed.
  std::atomic<bool> recordsMemory{false}, keepsBlocks{false};
  bool memory = false;
  /// What is held is kept between the recordings too.
  bool followsMemory = false;
  Blocks blocks;
  /// By device: the recording that has said what it holds.
  std::array<std::atomic<uint32_t>, 1024> saidHeld{};
};

template <typename Record>
void Observer::addTo(Log &log, Ring<Record> &ring, const Record &record) {
  if (!ring.records) [[unlikely]]
    ring.records.reset(new Record[kBuffered]);
  uint64_t at = ring.added.load(std::memory_order_relaxed);
  if (at - ring.seen >= kBuffered) [[unlikely]] {
    ring.seen = ring.taken.load(std::memory_order_acquire);
    if (at - ring.seen >= kBuffered) {
      write(log);
      ring.seen = ring.taken.load(std::memory_order_acquire);
    }
  }
  ring.records[at % kBuffered] = record;
  ring.added.store(++at, std::memory_order_release);
  if (at % (kBuffered / 2) == 0) [[unlikely]] {
    {
      // Between its look and its wait the writing thread would not hear.
      std::lock_guard<std::mutex> lock(wakeMutex);
      isHalfFull = true;
    }
    wake.notify_one();
  }
}

/// The state of a thread that is about to record; null where it cannot.
inline ThreadState *recordingThread(Observer &observer) {
  ThreadState *state = thisThread;
  if (!state) [[unlikely]]
    state = makeThread();
  uint32_t recording = observer.recordings.load(std::memory_order_relaxed);
  if (!state || state->recording == recording) [[likely]]
    return state;
  state->recording = recording;
  state->lastEnd = 0;
  state->pauses.fill({});
  state->names = std::make_unique<Names>();
  state->inputs.fill({});
  if (!state->log)
    state->log = observer.makeLog(state->number);
  return state;
}

/// The file of this process, in which `prefix` begins the name.
std::string pathOf(const std::string &prefix);

} // namespace opprof::observer

#endif // OPPROF_LIB_TORCH_OBSERVERSTATE_H
