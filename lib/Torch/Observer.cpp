// Begins and ends the observer of a process, which notes every operator that a
// program runs: PyTorch calls back where an operator, a function of autograd's
// or a marked range begins and ends, and each is one record of a fixed size in
// its thread's ring. A thread of its own writes the rings to the file, when one
// is half full and twice a second, so that a program that is killed has lost
// little.

#include "ObserverState.h"

#include <torch/version.h>

#include <pthread.h>

using namespace opprof::capture;
using namespace opprof::observer;

namespace {

/// How long a program whose steps are to be recorded is recorded before one has
/// ended, and how large the file gets.
constexpr double kSearchSeconds = 30;

} // namespace

void Observer::startWriting() {
  ending = false;
  writing = std::thread([this] { writeEvery(); });
}

/// Nothing that a fork copies is half changed by another thread.
void Observer::holdLocks() {
  blocks.hold();
  logsMutex.lock();
  placesMutex.lock();
  if (FileWriter *at = file)
    at->Mutex.lock();
}

void Observer::releaseLocks() {
  if (FileWriter *at = file)
    at->Mutex.unlock();
  placesMutex.unlock();
  logsMutex.unlock();
  blocks.release();
}

/// A fork has this thread alone. It writes a file of its own, which is made
/// when it runs an operator: most forks run another program.
void Observer::forked() {
  // The writing thread and what it waits for may be in any state: they are
  // left as they are, and new ones made.
  if (FileWriter *at = file.exchange(nullptr))
    at->abandon();
  new (&logsMutex) std::mutex;
  new (&placesMutex) std::mutex;
  new (&wakeMutex) std::mutex;
  new (&wake) std::condition_variable;
  new (&writing) std::thread;
  for (std::shared_ptr<Log> &log : logs)
    // Another thread of the parent's may hold its lock.
    new (&log) std::shared_ptr<Log>;
  logs.clear();
  if (ThreadState *state = thisThread)
    new (&state->log) std::shared_ptr<Log>;
  new (&lifeMutex) std::mutex;
  new (&stepsMutex) std::mutex;
  blocks.renewLocks();
  capturePath.clear();
  if (part != Part::All) {
    // Its steps are counted from its beginning, and most have none.
    part = Part::Before;
    steps = StepCounter();
    recording = false;
    recordsMemory = false;
  }
  begun();
}

/// What was numbered before is of another file.
void Observer::begun() {
  isEnded = false;
  textBytes = 0;
  ++recordings;
}

bool Observer::start(const opprof_observer_options &options) {
  std::lock_guard<std::mutex> life(lifeMutex);
  if (recording) {
    error = "the observer records already";
    return false;
  }
  if (options.size < sizeof(options) || !options.prefix) {
    error = "the observer's options are of another version";
    return false;
  }
  prefix = options.prefix;
  shapes = options.shapes;
  limit = options.limit_bytes ? options.limit_bytes : kDefaultLimit;
  interval =
      std::chrono::milliseconds(options.flush_ms ? options.flush_ms : 500);
  begin = now() + uint64_t(options.delay_s * 1e9);
  end = options.duration_s > 0 ? begin + uint64_t(options.duration_s * 1e9) : 0;
  if (options.capture)
    capture.load(options.capture);
  firstStep = options.first_step;
  endStep = options.end_step;
  begunStep = 0;
  part = endStep ? Part::Search : Part::All;
  steps = StepCounter();
  searchNs = uint64_t(
      (options.search_s > 0 ? options.search_s : kSearchSeconds) * 1e9);
  if (options.capture_prefix && capture.start)
    capturePath = pathOf(options.capture_prefix);
  callingNs = measureCalling();
  if (!openNext())
    return false;
  startWriting();
  static std::once_flag once;
  std::call_once(once, [] {
    ::pthread_atfork([] { Observer::get().holdLocks(); },
                     [] { Observer::get().releaseLocks(); },
                     [] { Observer::get().forked(); });
  });
  recording = true;
  memory = options.memory;
  if (memory)
    listen();
  if (!followsMemory)
    blocks.clear();
  keepsBlocks = followsMemory || (memory && part != Part::All);
  if (memory)
    recordHeld();
  call(/*forOperators=*/true);
  return true;
}

bool Observer::stop() {
  // One thread may leave the process while another one ends it: both wait until
  // the file is whole.
  std::lock_guard<std::mutex> life(lifeMutex);
  if (!file || isEnded || !writing.joinable()) {
    // A fork of what records has had nothing to record yet.
    recording = false;
    recordsMemory = false;
    keepsBlocks = followsMemory;
    callNobody();
    return true;
  }
  isEnded = true;
  {
    std::lock_guard<std::mutex> lock(wakeMutex);
    ending = true;
  }
  wake.notify_all();
  writing.join();
  std::lock_guard<std::mutex> lock(stepsMutex);
  // Callbacks that other threads are in come to nothing from here on.
  const bool wasRecording = recording.exchange(false);
  recordsMemory = false;
  keepsBlocks = followsMemory;
  error.clear();
  if (part == Part::Before && wasRecording) {
    dropBegun();
    isEnded = true;
  }
  callNobody();
  if (part != Part::Over)
    sayWhatEnded();
  endFile();
  if (part != Part::All && !capturePath.empty() && capture.active())
    capture.stop(nullptr);
  part = Part::All;
  return error.empty();
}

//===----------------------------------------------------------------------===//
// The C ABI
//===----------------------------------------------------------------------===//

int opprof_observer_abi(void) { return OPPROF_OBSERVER_ABI; }

const char *opprof_observer_torch(void) { return TORCH_VERSION; }

const char *opprof_observer_last_error(void) {
  return Observer::get().error.c_str();
}

int opprof_observer_start(const opprof_observer_options *options) {
  return Observer::get().start(*options) ? 0 : 1;
}

void opprof_observer_follow_memory(void) { Observer::get().followMemory(); }

int opprof_observer_stop(void) { return Observer::get().stop() ? 0 : 1; }

int opprof_observer_flush(void) {
  Observer &observer = Observer::get();
  return !observer.isWriting() || observer.flush() ? 0 : 1;
}

void opprof_observer_set_places(const opprof_place_source *source) {
  Observer::get().source.store(source, std::memory_order_release);
}

uint32_t opprof_observer_add_place(const char *module, const char *file,
                                   const char *function, uint32_t line,
                                   const char *group) {
  return Observer::get().addPlace({module, file, function, group, line});
}

const char *opprof_observer_file(const char *prefix) {
  thread_local std::string path;
  path = pathOf(prefix);
  return path.c_str();
}

uint64_t opprof_observer_now(void) { return now(); }

void opprof_observer_note(const char *name, uint64_t start) {
  Observer &observer = Observer::get();
  if (!observer.recording)
    return;
  ThreadState *state = recordingThread(observer);
  if (!state)
    return;
  OperatorRecord record{};
  record.start = start;
  record.end = now();
  record.id = uint64_t(state->number) << 40 | ++state->nextId;
  record.sequence = -1;
  record.thread = uint32_t(at::RecordFunction::currentThreadId());
  record.name = observer.text(name);
  record.place = observer.placeAt(*state, observer.frame(), nullptr);
  record.sizes = record.types = kNone;
  record.scope = uint8_t(OperatorScope::Host);
  observer.add(*state, record);
}

int64_t opprof_observer_count_step(const char *range, uint32_t place) {
  static std::mutex mutex;
  // Never destroyed: optimizers may step while the process ends.
  static auto *counter = new StepCounter;
  std::lock_guard<std::mutex> lock(mutex);
  return counter->rangeEnded(range, place) == StepCounter::Event::None
             ? -1
             : int64_t(counter->steps());
}
