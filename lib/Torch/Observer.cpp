// Notes every operator that a program runs. PyTorch calls back where an
// operator, a function of autograd's or a marked range begins and ends; each is
// one record of a fixed size in its thread's ring. A thread of its own writes
// the rings to the file, when one is half full and twice a second, so that a
// program that is killed has lost little.
//
// A step runs thousands of operators, so what happens at each takes no lock,
// allocates nothing and compares no text but a range's.

#include "opprof/Torch/Observer.h"

#include "Allocations.h"
#include "StepCounter.h"

#include "opprof/Capture/Capture.h"
#include "opprof/Capture/FileWriter.h"

#include <ATen/record_function.h>
#include <torch/headeronly/version.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <memory>
#include <new>
#include <pthread.h>
#include <thread>
#include <unistd.h>
#include <unordered_map>

// Without it, at::RecordFunction has a field that PyTorch's own has not.
#ifndef NDEBUG
#error "compile with NDEBUG, as PyTorch is"
#endif

using namespace opprof::capture;
using opprof::observer::StepCounter;

namespace {

/// Records of a kind and thread that may wait to be written: 512 KiB of
/// operators and 320 KiB of allocations.
constexpr size_t kBuffered = 8192;
/// Names beyond so many are one, so that a program that makes its ranges' names
/// up as it goes takes no more memory the longer it runs.
constexpr size_t kMostNames = 200'000;
constexpr size_t kLongestName = 512;
/// Bytes of all names and sizes.
constexpr size_t kMostText = size_t(64) << 20;
/// Of the sizes of an operator's inputs; longer ones are not recorded.
constexpr size_t kLongestInputs = 1 << 16;
constexpr uint64_t kDefaultLimit = uint64_t(2) << 30;
/// How long a program whose steps are to be recorded is recorded before one has
/// ended, and how large the file gets.
constexpr double kSearchSeconds = 30;
constexpr uint64_t kSearchBytes = uint64_t(128) << 20;
/// How far a device may be behind the host.
constexpr uint64_t kDeviceLateNs = 2'000'000'000;
/// How long a thread may take from the time that it writes down to the record.
constexpr uint64_t kRecordLateNs = 100'000'000;

} // namespace

static uint64_t now() {
  timespec time;
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return uint64_t(time.tv_sec) * 1'000'000'000 + uint64_t(time.tv_nsec);
}

namespace {

struct ThreadState;

/// An operator that has begun. PyTorch holds it until the end, on whichever
/// thread that is.
struct Open final : at::ObserverContext {
  OperatorRecord record{};
  /// The one round it on its thread.
  Open *outer = nullptr;
  /// The innermost frame of Python where it began.
  const void *frame = nullptr;
  /// Where the innermost function of autograd's round it, or itself, began.
  const void *backwardFrame = nullptr;
  bool inBackward = false;
  /// An operator, or inside of one: not a range, and not autograd's.
  bool inOperator = false;
  /// The recording that the record's numbers are of.
  uint32_t recording = 0;

  /// The thread in whose chain of open ones it is; null where it is in none.
  ThreadState *owner = nullptr;
  /// Another thread ended it: its owner takes it out of the chain and frees it.
  std::atomic<bool> over{false};

  // One a call of an operator: from a list of its thread's own.
  // The checker knows no delete that destroys.
  // NOLINTNEXTLINE(misc-new-delete-overloads)
  static void *operator new(size_t size);
  static void operator delete(Open *open, std::destroying_delete_t);
};

/// Records of one kind, which a thread adds to and whoever holds its log's lock
/// takes from.
template <typename Record> struct Ring {
  /// Made by the thread before it adds the first.
  std::unique_ptr<Record[]> records;
  /// What was taken when the thread last looked.
  uint64_t seen = 0;
  alignas(64) std::atomic<uint64_t> added{0};
  alignas(64) std::atomic<uint64_t> taken{0};
};

/// A thread's records. The thread waits for the lock only where a ring is full.
struct Log {
  Ring<OperatorRecord> operators;
  Ring<AllocationRecord> allocations;
  std::mutex mutex;
};

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

/// The numbers of names that a thread has met.
class Names {
public:
  /// Of an operator, whose name lies where it is for as long as it can be
  /// called. Null where it is not known.
  const uint32_t *find(const char *text) const {
    for (size_t probe = 0; probe < kProbes; ++probe) {
      const Operator &known = operators[slotOf(text, probe)];
      if (known.text == text)
        return std::memcmp(known.head, text, kHead) ? nullptr : &known.number;
      if (!known.text)
        return nullptr;
    }
    return nullptr;
  }
  void add(const char *text, uint32_t number) {
    size_t probe = 0;
    while (probe < kProbes && operators[slotOf(text, probe)].text &&
           operators[slotOf(text, probe)].text != text)
      ++probe;
    Operator &known = operators[slotOf(text, probe % kProbes)];
    known.text = text;
    known.number = number;
    std::memcpy(known.head, text, kHead);
  }

  /// Of what is named by a text that is made for the call.
  const uint32_t *findText(std::string_view text) const {
    const Text &known = texts[hash(text) % kTexts];
    return known.text == text ? &known.number : nullptr;
  }
  void addText(std::string_view text, uint32_t number) {
    texts[hash(text) % kTexts] = {std::string(text), number};
  }

private:
  static constexpr size_t kOperators = 2048, kProbes = 8, kTexts = 2048;
  /// A name is a std::string's, which has so many bytes at least. They tell a
  /// text from the operator of a library that was unloaded from there.
  static constexpr size_t kHead = 16;
  struct Operator {
    const char *text = nullptr;
    uint32_t number = 0;
    char head[kHead];
  };
  struct Text {
    std::string text;
    uint32_t number = 0;
  };

  static size_t slotOf(const char *text, size_t probe) {
    size_t mixed = (reinterpret_cast<uintptr_t>(text) >> 3) * kGolden;
    return ((mixed >> 48) + probe) % kOperators;
  }
  static size_t hash(std::string_view text) {
    uint64_t hash = text.size();
    for (; text.size() >= 8; text.remove_prefix(8)) {
      uint64_t word;
      std::memcpy(&word, text.data(), 8);
      hash = (hash ^ word) * kGolden;
      hash ^= hash >> 32;
    }
    for (char letter : text)
      hash = (hash ^ uint8_t(letter)) * kGolden;
    return hash >> 32;
  }
  static constexpr uint64_t kGolden = 0x9E3779B97F4A7C15u;

  std::array<Operator, kOperators> operators;
  std::array<Text, kTexts> texts;
};

/// Sizes and types of inputs that were met before.
struct Inputs {
  uint64_t hash = 0;
  uint32_t sizes = kNone, types = kNone;
  bool isKnown = false;
};

struct PlaceText {
  std::string module, file, function, group;
  uint32_t line;
};

struct ThreadState {
  std::shared_ptr<Log> log;
  Open *open = nullptr;
  uint64_t nextId = 0;
  uint32_t number = 0;
  /// Which recording the log and the numbers below are of.
  uint32_t recording = 0;
  /// Inside the source of places, where an operator is not to ask it again.
  bool asking = false;
  /// Memory of operators that have ended.
  Open *freed = nullptr;
  size_t numFreed = 0;
  std::unique_ptr<Names> names;
  std::array<Inputs, 1024> inputs;

  ~ThreadState();
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

} // namespace

/// This thread's state, or null: where a thread-local object costs calls, a
/// pointer costs one load.
[[gnu::tls_model(
    "initial-exec")]] static constinit thread_local ThreadState *thisThread =
    nullptr;

/// The state of a thread that is about to record for the first time; null where
/// the thread is at its end.
static ThreadState *makeThread() {
  struct Owner {
    ThreadState *state = nullptr;
    bool isGone = false;
    ~Owner() {
      isGone = true;
      thisThread = nullptr;
      delete state;
    }
  };
  thread_local Owner owner;
  if (owner.isGone)
    return nullptr;
  return thisThread = owner.state = new ThreadState;
}

/// The state of a thread that is about to record; null where it cannot.
static ThreadState *recordingThread(Observer &observer) {
  ThreadState *state = thisThread;
  if (!state) [[unlikely]]
    state = makeThread();
  uint32_t recording = observer.recordings.load(std::memory_order_relaxed);
  if (!state || state->recording == recording) [[likely]]
    return state;
  state->recording = recording;
  state->names = std::make_unique<Names>();
  state->inputs.fill({});
  if (!state->log)
    state->log = observer.makeLog(state->number);
  return state;
}

ThreadState::~ThreadState() {
  if (log)
    Observer::get().dropLog(log);
  while (freed) {
    Open *next = freed->outer;
    ::free(freed);
    freed = next;
  }
}

// NOLINTNEXTLINE(misc-new-delete-overloads)
void *Open::operator new(size_t size) {
  ThreadState *state = thisThread;
  if (!state || !state->freed)
    return ::malloc(size);
  Open *memory = state->freed;
  state->freed = memory->outer;
  --state->numFreed;
  return memory;
}

void Open::operator delete(Open *open, std::destroying_delete_t) {
  if (open->owner) {
    open->over.store(true, std::memory_order_release);
    return;
  }
  open->~Open();
  ThreadState *state = thisThread;
  if (!state || state->numFreed >= 256)
    return ::free(open);
  open->outer = state->freed;
  state->freed = open;
  ++state->numFreed;
}

//===----------------------------------------------------------------------===//
// The file
//===----------------------------------------------------------------------===//

static std::string pathOf(const std::string &prefix) {
  return prefix + "-" + recordedName() + ".opcap";
}

Observer::LockedFile Observer::lockFile() {
  while (true) {
    FileWriter *at = file.load(std::memory_order_acquire);
    if (!at)
      return {nullptr, {}};
    std::unique_lock<std::mutex> lock(at->Mutex);
    // A recording may have begun meanwhile, with a file of its own.
    if (at == file.load(std::memory_order_acquire))
      return {at, std::move(lock)};
  }
}

bool Observer::open() {
  // Until it is known to all, its places are those that there are now.
  std::lock_guard<std::mutex> lock(placesMutex);
  auto made = std::make_unique<FileWriter>();
  FileWriter *file = made.get();
  if (!file->open(pathOf(prefix), error))
    return false;
  const char *rank = std::getenv("RANK");
  file->meta("recorder", "opprof observer");
  file->meta("pid", std::to_string(::getpid()));
  file->meta("torch", opprof_observer_torch());
  if (rank)
    file->meta("rank", rank);
  if (const char *size = std::getenv("WORLD_SIZE"))
    file->meta("world_size", size);
  timespec real;
  ::clock_gettime(CLOCK_REALTIME, &real);
  uint64_t time = now();
  ClockRecord clock{
      time, uint64_t(real.tv_sec) * 1'000'000'000 + uint64_t(real.tv_nsec),
      time};
  file->add(ChunkType::Clocks, clock);
  for (uint32_t number = 0; number < places.size(); ++number)
    writePlace(*file, number);
  if (!file->flush()) {
    error = file->error();
    return false;
  }
  files.push_back(std::move(made));
  this->file.store(file, std::memory_order_release);
  return true;
}

uint32_t Observer::text(std::string_view text) {
  auto [file, lock] = lockFile();
  if (!file)
    return kNone;
  if (!file->hasString(text)) {
    if (file->strings() >= kMostNames || textBytes + text.size() > kMostText)
      text = "(further names)";
    textBytes += text.size();
  }
  return file->string(text);
}

uint32_t Observer::name(ThreadState &state,
                        const at::RecordFunction &function) {
  const char *text = function.name();
  if (const uint32_t *known = state.names->find(text)) [[likely]]
    return *known;
  std::string_view whole(text, ::strnlen(text, kLongestName));
  if (const uint32_t *known = state.names->findText(whole))
    return *known;
  uint32_t number = this->text(whole);
  if (function.operator_name())
    state.names->add(text, number);
  else
    state.names->addText(whole, number);
  return number;
}

void Observer::writePlace(FileWriter &file, uint32_t number) const {
  const PlaceText &place = places[number];
  PlaceRecord record{number,
                     file.string(place.module),
                     file.string(place.file),
                     file.string(place.function),
                     place.line,
                     file.string(place.group)};
  file.add(ChunkType::Places, record);
}

uint32_t Observer::addPlace(PlaceText place) {
  std::lock_guard<std::mutex> all(placesMutex);
  if (places.size() >= kMostNames)
    return OPPROF_NO_PLACE;
  places.push_back(std::move(place));
  if (auto [file, lock] = lockFile(); file)
    writePlace(*file, uint32_t(places.size() - 1));
  return uint32_t(places.size() - 1);
}

template <typename Record>
void Observer::writeRing(FileWriter &file, ChunkType type, Ring<Record> &ring) {
  uint64_t from = ring.taken.load(std::memory_order_relaxed);
  const uint64_t to = ring.added.load(std::memory_order_acquire);
  while (from < to) {
    size_t at = from % kBuffered;
    size_t count = std::min<size_t>(to - from, kBuffered - at);
    file.addAll(type, &ring.records[at], count);
    from += count;
  }
  ring.taken.store(to, std::memory_order_release);
}

void Observer::write(Log &log) {
  std::lock_guard<std::mutex> own(log.mutex);
  if (log.operators.taken == log.operators.added &&
      log.allocations.taken == log.allocations.added)
    return;
  auto [file, lock] = lockFile();
  if (!file || !file->isOpen())
    return;
  writeRing(*file, ChunkType::Operators, log.operators);
  writeRing(*file, ChunkType::Allocations, log.allocations);
  file->flush();
  if (file->bytes() <= limit || !recording.exchange(false))
    return;
  recordsMemory = false;
  file->meta("not recorded", "what ran after the file had reached its limit "
                             "of " +
                                 std::to_string(limit >> 20) + " MiB");
  file->flush();
}

void Observer::add(ThreadState &state, const OperatorRecord &record) {
  if (record.end < begin || (end && record.start > end))
    return;
  addTo(*state.log, state.log->operators, record);
}

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

std::shared_ptr<Log> Observer::makeLog(uint32_t &number) {
  auto log = std::make_shared<Log>();
  log->operators.records.reset(new OperatorRecord[kBuffered]);
  std::lock_guard<std::mutex> lock(logsMutex);
  if (!file) {
    if (open())
      startWriting();
    else
      recording = false;
  }
  number = ++threads;
  uint64_t never = 0;
  began.compare_exchange_strong(never, now());
  logs.push_back(log);
  return log;
}

void Observer::dropLog(const std::shared_ptr<Log> &log) {
  // A recording that is about to end may not have read it yet.
  write(*log);
  std::lock_guard<std::mutex> lock(logsMutex);
  std::erase(logs, log);
}

/// Begins a file in the place of the one that there is.
bool Observer::openNext() {
  std::lock_guard<std::mutex> lock(logsMutex);
  FileWriter *last = file;
  begun();
  for (const std::shared_ptr<Log> &log : logs) {
    std::lock_guard<std::mutex> own(log->mutex);
    log->operators.taken = log->operators.added.load();
    log->allocations.taken = log->allocations.added.load();
  }
  if (!open())
    return false;
  if (last) {
    std::lock_guard<std::mutex> own(last->Mutex);
    last->abandon();
  }
  return true;
}

void Observer::endFile() {
  flush();
  auto [file, lock] = lockFile();
  if (!file || !file->isOpen())
    return;
  file->finish(0, now());
  error = file->error();
}

void Observer::note(const char *key, const std::string &text) {
  auto [file, lock] = lockFile();
  if (!file || !file->isOpen())
    return;
  file->meta(key, text);
  file->flush();
}

bool Observer::flush() {
  const uint64_t written = now() - kRecordLateNs;
  std::vector<std::shared_ptr<Log>> all;
  {
    std::lock_guard<std::mutex> lock(logsMutex);
    all = logs;
  }
  for (const std::shared_ptr<Log> &log : all)
    write(*log);
  auto [file, lock] = lockFile();
  if (file && file->isOpen() && recordsMemory) {
    AllocationRecord record{};
    record.time = written;
    record.place = OPPROF_NO_PLACE;
    record.operation = uint8_t(AllocationOperation::Written);
    file->add(ChunkType::Allocations, record);
  }
  return file && file->flush();
}

void Observer::writeEvery() {
  std::unique_lock<std::mutex> lock(wakeMutex);
  while (true) {
    wake.wait_for(lock, interval, [&] { return ending || isHalfFull; });
    if (ending)
      return;
    isHalfFull = false;
    lock.unlock();
    flush();
    searchEnded();
    endCapture();
    lock.lock();
  }
}

//===----------------------------------------------------------------------===//
// What PyTorch calls
//===----------------------------------------------------------------------===//

uint32_t Observer::placeAt(ThreadState &state, const void *frame,
                           const void *until) {
  if (!frame || state.asking)
    return OPPROF_NO_PLACE;
  state.asking = true;
  uint32_t place = source.load(std::memory_order_acquire)->place(frame, until);
  state.asking = false;
  return place;
}

/// Whether the sizes can be asked for without running anything.
static bool hasSizes(const at::Tensor &tensor) {
  return tensor.defined() && !tensor.is_nested() &&
         !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
}

/// Calls `visitor` with each input: a tensor, a list of them, or another value.
template <typename Visitor>
static void visitInputs(const at::RecordFunction &function, Visitor &visitor) {
  for (const c10::IValue &input : function.inputs()) {
    if (input.isTensor())
      visitor.tensor(input.toTensor());
    else if (input.isTensorList())
      visitor.list(input.toTensorList());
    else
      visitor.other(input.isScalar());
  }
}

namespace {

/// Tells inputs of other sizes or types apart.
struct InputsHash {
  uint64_t hash = 1469598103934665603u;

  void mix(uint64_t value) {
    hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
  void tensor(const at::Tensor &tensor) {
    if (!hasSizes(tensor))
      return mix(1);
    mix(2 + tensor.sizes().size());
    for (int64_t size : tensor.sizes())
      mix(uint64_t(size));
    mix(hash_value(tensor.dtype().id()));
  }
  void list(const c10::List<at::Tensor> &tensors) {
    mix(3);
    for (const at::Tensor &each : tensors)
      tensor(each);
  }
  void other(bool isScalar) { mix(isScalar ? 5 : 7); }
};

/// As torch.profiler writes them: "[[8, 16], [], [[4], [4]]]".
struct InputsText {
  std::string sizes, types;

  void tensor(const at::Tensor &tensor) {
    add("\"" + std::string(tensor.defined() ? tensor.dtype().name() : "") +
        "\"");
    describe(tensor);
  }
  void list(const c10::List<at::Tensor> &tensors) {
    add("\"TensorList\"");
    sizes += '[';
    const char *separator = "";
    for (const at::Tensor &each : tensors) {
      sizes += std::exchange(separator, ", ");
      describe(each);
    }
    sizes += ']';
  }
  void other(bool isScalar) {
    add(isScalar ? "\"Scalar\"" : "\"\"");
    sizes += "[]";
  }

private:
  void add(std::string_view type) {
    if (!types.empty()) {
      sizes += ", ";
      types += ", ";
    }
    types += type;
  }
  void describe(const at::Tensor &tensor) {
    sizes += '[';
    if (hasSizes(tensor))
      for (size_t at = 0; at < tensor.sizes().size(); ++at)
        sizes += (at ? ", " : "") + std::to_string(tensor.sizes()[at]);
    sizes += ']';
  }
};

} // namespace

void Observer::noteInputs(ThreadState &state,
                          const at::RecordFunction &function,
                          OperatorRecord &record) {
  InputsHash hash;
  visitInputs(function, hash);
  Inputs &known = state.inputs[hash.hash % state.inputs.size()];
  if (!known.isKnown || known.hash != hash.hash) {
    InputsText inputs;
    visitInputs(function, inputs);
    bool isLong = inputs.sizes.size() > kLongestInputs ||
                  inputs.types.size() > kLongestInputs;
    auto number = [&](const std::string &list) {
      return isLong ? kNone : text("[" + list + "]");
    };
    known = {hash.hash, number(inputs.sizes), number(inputs.types), true};
  }
  record.sizes = known.sizes;
  record.types = known.types;
}

static OperatorScope scopeOf(at::RecordScope scope) {
  switch (scope) {
  case at::RecordScope::BACKWARD_FUNCTION:
    return OperatorScope::Backward;
  case at::RecordScope::USER_SCOPE:
    return OperatorScope::Range;
  default:
    return OperatorScope::Operator;
  }
}

/// What autograd puts round each of its functions, and round what it adds up.
static bool isEngine(const char *name) {
  return std::strncmp(name, "autograd::engine::", 18) == 0;
}

/// Takes those out of the thread's chain that another thread has ended.
static void dropEnded(ThreadState &state) {
  while (state.open && state.open->over.load(std::memory_order_acquire)) {
    Open *ended = state.open;
    state.open = ended->outer;
    ended->owner = nullptr;
    delete ended;
  }
}

static std::unique_ptr<at::ObserverContext>
beginOperator(const at::RecordFunction &function) {
  Observer &observer = Observer::get();
  if (!observer.recording.load(std::memory_order_relaxed))
    return nullptr;
  ThreadState *recording = recordingThread(observer);
  if (!recording)
    return nullptr;
  ThreadState &state = *recording;
  auto open = std::make_unique<Open>();
  open->recording = state.recording;
  OperatorRecord &record = open->record;
  OperatorScope scope = scopeOf(function.scope());
  record.scope = uint8_t(scope);
  record.name = observer.name(state, function);
  record.id = uint64_t(state.number) << 40 | ++state.nextId;
  record.sequence = function.seqNr();
  // What is made to end on another thread is round nothing of this one, nor
  // does it lie within what this one runs.
  record.thread = function.isAsync() ? 0 : uint32_t(function.threadId());
  record.forwardThread = uint32_t(function.forwardThreadId());
  record.place = OPPROF_NO_PLACE;
  record.sizes = record.types = kNone;

  dropEnded(state);
  const Open *outer = open->outer = state.open;
  open->frame = observer.frame();
  if (outer) {
    open->inBackward = outer->inBackward;
    open->backwardFrame = outer->backwardFrame;
  }
  const bool wasInOperator = outer && outer->inOperator;
  // What operators call is none of the engine's.
  const bool isOfEngine = !wasInOperator && isEngine(function.name());
  if (scope == OperatorScope::Backward) {
    open->inBackward = true;
    open->backwardFrame = open->frame;
  } else if (outer && outer->frame == open->frame &&
             outer->record.scope != uint8_t(OperatorScope::Range)) {
    // No Python lies between the two.
    record.place = outer->record.place;
  } else if (!isOfEngine) {
    // Autograd runs on the thread that called it, whose frames say nothing of
    // the functions.
    record.place = observer.placeAt(
        state, open->frame, open->inBackward ? open->backwardFrame : nullptr);
  }
  open->inOperator =
      wasInOperator || (scope == OperatorScope::Operator && !isOfEngine);
  // What operators call is computed from the sizes of the outermost.
  if (observer.shapes && (scope == OperatorScope::Backward ||
                          (open->inOperator && !wasInOperator)))
    observer.noteInputs(state, function, record);
  if (!function.isAsync()) {
    state.open = open.get();
    open->owner = &state;
  }
  if (observer.capture.atId)
    observer.capture.atId(record.id);
  record.start = now();
  return open;
}

static void recordEnd(Open *open) {
  open->record.end = now();
  ThreadState *state = thisThread;
  if (state && open->owner == state) {
    // A range may end out of order.
    for (Open **at = &state->open; *at; at = &(*at)->outer)
      if (*at == open) {
        *at = open->outer;
        break;
      }
    open->owner = nullptr;
    dropEnded(*state);
  }
  Observer &observer = Observer::get();
  if (observer.capture.atId)
    observer.capture.atId(state && state->open ? state->open->record.id : 0);
  if (!observer.recording.load(std::memory_order_relaxed) ||
      open->recording != observer.recordings.load(std::memory_order_relaxed))
    return;
  if (ThreadState *recording = recordingThread(observer))
    observer.add(*recording, open->record);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

void Observer::listen() {
  static const opprof::observer::AllocationListener listener{
      [](const void *address, uint64_t bytes, c10::Device device,
         std::optional<uint64_t> held) {
        get().allocated(address, bytes, device, held);
      },
      [](const void *address, uint64_t bytes, c10::Device device,
         std::optional<uint64_t> held) {
        get().freed(address, bytes, device, held);
      }};
  std::string missing = opprof::observer::listenToAllocations(listener);
  if (!missing.empty())
    note("memory", "not recorded: " + missing);
}

void Observer::followMemory() {
  listen();
  followsMemory = keepsBlocks = true;
}

/// Writes what is held into the file, before anything else gets there.
void Observer::recordHeld() {
  blocks.hold();
  if (auto [file, lock] = lockFile(); file)
    blocks.visit([&, file = file](const AllocationRecord &record) {
      file->add(ChunkType::Allocations, record);
    });
  recordsMemory = true;
  blocks.release();
}

/// Of a device whose allocator says it: what it had given out before the first
/// record, by blocks that nobody may know.
void Observer::noteHeld(const AllocationRecord &record, uint64_t before) {
  size_t device =
      (size_t(uint8_t(record.deviceType)) * 32 + uint8_t(record.deviceIndex)) %
      saidHeld.size();
  uint32_t number = recordings.load(std::memory_order_relaxed);
  if (saidHeld[device].load(std::memory_order_relaxed) == number ||
      saidHeld[device].exchange(number) == number)
    return;
  AllocationRecord held = record;
  held.operation = uint8_t(AllocationOperation::Held);
  held.address = 0;
  held.bytes = before;
  addAllocation(held);
}

void Observer::addAllocation(const AllocationRecord &record) {
  if (end && record.time > end)
    return;
  if (ThreadState *state = recordingThread(*this); state && state->log)
    return addTo(*state->log, state->log->allocations, record);
  // A thread that is at its end frees what it held.
  if (auto [file, lock] = lockFile(); file && file->isOpen())
    file->add(ChunkType::Allocations, record);
}

static AllocationRecord allocationOf(AllocationOperation operation,
                                     const void *address, uint64_t bytes,
                                     c10::Device device) {
  AllocationRecord record{};
  record.time = now();
  record.address = reinterpret_cast<uintptr_t>(address);
  record.bytes = bytes;
  record.place = OPPROF_NO_PLACE;
  record.operation = uint8_t(operation);
  record.deviceType = int8_t(device.type());
  record.deviceIndex = int8_t(device.index());
  return record;
}

void Observer::allocated(const void *address, uint64_t bytes,
                         c10::Device device, std::optional<uint64_t> held) {
  const bool keeps = keepsBlocks.load(std::memory_order_relaxed);
  // A fork has no file until it runs an operator.
  if (!keeps && (!recordsMemory.load(std::memory_order_relaxed) || !file))
    return;
  AllocationRecord record =
      allocationOf(AllocationOperation::Allocate, address, bytes, device);
  ThreadState *state = thisThread ? thisThread : makeThread();
  const Open *open = state ? state->open : nullptr;
  while (open && open->over.load(std::memory_order_acquire))
    open = open->outer;
  if (open) {
    record.id = open->record.id;
    record.place = open->record.place;
  }
  // A device's allocator holds its lock, and whoever holds the interpreter's
  // may wait for that.
  const bool mayAsk = state && device.type() == c10::DeviceType::CPU;
  if (mayAsk && record.place == OPPROF_NO_PLACE && (!open || keeps))
    record.place = placeAt(*state, frame(), nullptr);
  if (!keeps) {
    if (held)
      noteHeld(record, *held - bytes);
    return addAllocation(record);
  }
  if (recordsMemory)
    recordingThread(*this);
  Blocks::Shard &shard = blocks.of(record.address);
  std::lock_guard<std::mutex> lock(shard.mutex);
  shard.held[record.address] = record;
  if (!recordsMemory || !file)
    return;
  if (held)
    noteHeld(record, *held - bytes);
  addAllocation(record);
}

void Observer::freed(const void *address, uint64_t bytes, c10::Device device,
                     std::optional<uint64_t> held) {
  const bool keeps = keepsBlocks.load(std::memory_order_relaxed);
  if (!keeps && (!recordsMemory.load(std::memory_order_relaxed) || !file))
    return;
  AllocationRecord record =
      allocationOf(AllocationOperation::Free, address, bytes, device);
  if (!keeps) {
    if (held)
      noteHeld(record, *held + bytes);
    return addAllocation(record);
  }
  if (recordsMemory)
    recordingThread(*this);
  Blocks::Shard &shard = blocks.of(record.address);
  std::lock_guard<std::mutex> lock(shard.mutex);
  shard.held.erase(record.address);
  if (!recordsMemory || !file)
    return;
  if (held)
    noteHeld(record, *held + bytes);
  addAllocation(record);
}

static void endOperator(const at::RecordFunction &function,
                        at::ObserverContext *context) {
  if (auto *open = static_cast<Open *>(context))
    recordEnd(open);
  if (function.scope() == at::RecordScope::USER_SCOPE)
    Observer::get().rangeEnded(function);
}

/// Where operators are not recorded, steps are counted all the same.
static std::unique_ptr<at::ObserverContext>
beginCounted(const at::RecordFunction &) {
  return nullptr;
}

static void endCounted(const at::RecordFunction &function,
                       at::ObserverContext *) {
  Observer::get().rangeEnded(function);
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

void CaptureLibrary::load(const char *path) {
  void *library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return;
  auto find = [&](auto &function, const char *name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
        ::dlsym(library, name));
  };
  find(atId, "opprof_capture_at_id");
  find(start, "opprof_capture_start");
  find(pause, "opprof_capture_pause");
  find(stop, "opprof_capture_stop");
  find(active, "opprof_capture_active");
  find(decline, "opprof_capture_decline_injection");
}

/// Has PyTorch call back at each operator, or at ranges alone.
void Observer::call(bool forOperators) {
  callNobody();
  at::RecordFunctionCallback ranges(beginCounted, endCounted);
  at::RecordFunctionCallback operators(beginOperator, endOperator);
  callback = at::addGlobalCallback(
      forOperators
          ? operators.needsInputs(shapes).scopes(
                {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION,
                 at::RecordScope::TORCHSCRIPT_FUNCTION,
                 at::RecordScope::USER_SCOPE})
          : ranges.scopes({at::RecordScope::USER_SCOPE}));
}

void Observer::callNobody() {
  if (callback != at::INVALID_CALLBACK_HANDLE)
    at::removeCallback(callback);
  callback = at::INVALID_CALLBACK_HANDLE;
}

/// "--steps=20:40".
std::string Observer::describeWindow() const {
  return "--steps=" + std::to_string(firstStep) + ":" + std::to_string(endStep);
}

/// What ran until now was before the first of the steps.
void Observer::dropBegun() {
  part = Part::Before;
  recording = false;
  blocks.hold();
  recordsMemory = false;
  blocks.release();
  call(/*forOperators=*/false);
  if (!capturePath.empty()) {
    if (capture.active())
      capture.stop(nullptr);
    ::unlink(capturePath.c_str());
    // Of a program that uses CUDA for the first time from here on.
    if (capture.decline)
      capture.decline();
  }
  openNext();
  note("steps",
       describeWindow() +
           ": nothing is recorded: the program did not get to these steps");
}

/// Records the step before the first one, to be dropped: lines, modules and
/// names are met for the first time in it, which takes longer than to meet them
/// again.
void Observer::meetPlaces() {
  recording = true;
  call(/*forOperators=*/true);
}

void Observer::beginSteps() {
  begunStep = steps.steps();
  if (!openNext())
    return;
  note("first step", std::to_string(begunStep));
  note("steps", describeWindow() + ": the program's steps from " +
                    std::to_string(begunStep) +
                    " on are recorded; a step ends with " + steps.endsWith());
  if (!capturePath.empty() && !capture.active()) {
    opprof_capture_options options{};
    options.size = sizeof(options);
    options.path = capturePath.c_str();
    // As in a program that is recorded from the beginning.
    options.buffer_bytes = 256u << 10;
    if (capture.start(&options) != OPPROF_OK)
      note("not recorded", "kernels: the capture did not begin");
  }
  if (!writing.joinable())
    // In a fork.
    startWriting();
  part = Part::Inside;
  recording = true;
  if (memory)
    recordHeld();
  call(/*forOperators=*/true);
}

/// Says in the file which steps there are, now that it ends.
void Observer::sayWhatEnded() {
  std::string window = describeWindow(), text;
  uint64_t count = steps.steps();
  switch (part.load()) {
  case Part::Search:
    text = count || !began
               ? ""
               : "the program stepped no optimizer and no torch.profiler, so "
                 "that its steps could not be counted: all of it is recorded. "
                 "--delay and --duration choose a part of it by time";
    break;
  case Part::NotFound:
    text = "the program stepped no optimizer and no torch.profiler in its "
           "first " +
           std::to_string(searchNs / 1'000'000'000) +
           " s, which are recorded instead. Call step() of a torch.profiler "
           "in it, or choose by --delay and --duration";
    break;
  case Part::Before:
    text = "nothing is recorded: the program ended after " +
           std::to_string(count) + (count == 1 ? " step" : " steps") +
           "; a step ends with " + steps.endsWith();
    break;
  case Part::Inside:
  case Part::Over: {
    uint64_t last = part == Part::Over ? endStep : count;
    text = last <= begunStep + 1
               ? "step " + std::to_string(begunStep) + " of the program is"
               : "steps " + std::to_string(begunStep) + " to " +
                     std::to_string(last - 1) + " of the program are";
    text += " recorded";
    if (part == Part::Inside)
      text += ", after which it ended";
    text += "; a step ends with " + steps.endsWith();
    break;
  }
  case Part::All:
    break;
  }
  if (!text.empty())
    note("steps", window + ": " + text);
}

void Observer::endSteps() {
  part = Part::Over;
  recording = false;
  recordsMemory = false;
  keepsBlocks = followsMemory;
  callNobody();
  // What the device still runs is recorded, and nothing that comes after.
  if (!capturePath.empty() && capture.active())
    capture.pause();
  pausedAt = now();
  sayWhatEnded();
  endFile();
}

/// What the device still ran when the steps were over has ended by now.
void Observer::endCapture() {
  if (part != Part::Over || !pausedAt || now() - pausedAt < kDeviceLateNs)
    return;
  std::unique_lock<std::mutex> own(stepsMutex, std::try_to_lock);
  if (!own)
    return;
  pausedAt = 0;
  if (!capturePath.empty() && capture.active())
    capture.stop(nullptr);
}

/// A program that has no steps for long is not recorded any longer.
void Observer::searchEnded() {
  if (part != Part::Search || !began)
    return;
  FileWriter *at = file;
  if (now() - began < searchNs && at && at->bytes() < kSearchBytes)
    return;
  // At the program's end there is no need for it.
  std::unique_lock<std::mutex> own(stepsMutex, std::try_to_lock);
  if (!own || part != Part::Search || steps.steps())
    return;
  searchNs = now() - began;
  part = Part::NotFound;
  recording = false;
  recordsMemory = false;
  call(/*forOperators=*/false);
  if (!capturePath.empty() && capture.active())
    capture.pause();
  sayWhatEnded();
  std::fprintf(stderr,
               "opprof: no optimizer and no torch.profiler has stepped for "
               "%llu s, which are recorded; %s is begun when one does\n",
               static_cast<unsigned long long>(searchNs / 1'000'000'000),
               describeWindow().c_str());
}

void Observer::rangeEnded(const at::RecordFunction &function) {
  Part at = part.load(std::memory_order_relaxed);
  if (at == Part::All || at == Part::Over ||
      !StepCounter::counts(function.name()))
    return;
  ThreadState *state = thisThread ? thisThread : makeThread();
  if (!state)
    return;
  uint32_t place = placeAt(*state, frame(), nullptr);
  std::lock_guard<std::mutex> lock(stepsMutex);
  StepCounter::Event event = steps.rangeEnded(function.name(), place);
  if (event == StepCounter::Event::None || part == Part::Over)
    return;
  uint64_t count = steps.steps();
  if (part == Part::Search && firstStep == 0) {
    note("first step", "0");
    part = Part::Inside;
  }
  // Also where steps are counted anew.
  if ((part == Part::Search || part == Part::NotFound ||
       part == Part::Inside) &&
      count < firstStep)
    dropBegun();
  if (part == Part::Inside && event == StepCounter::Event::Longer &&
      count == firstStep && firstStep)
    dropBegun();
  if ((part == Part::Before || part == Part::Search ||
       part == Part::NotFound) &&
      count >= firstStep) {
    if (part != Part::Before)
      dropBegun();
    beginSteps();
  }
  if (part == Part::Inside && count >= endStep)
    endSteps();
  if (part == Part::Before && count + 1 == firstStep)
    meetPlaces();
}

//===----------------------------------------------------------------------===//
// Begin and end
//===----------------------------------------------------------------------===//

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
