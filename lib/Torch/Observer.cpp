// Notes every operator that a program runs. PyTorch calls back where an
// operator, a function of autograd's or a marked range begins and ends; each is
// one record of a fixed size in its thread's ring. A thread of its own writes
// the rings to the file, when one is half full and twice a second, so that a
// program that is killed has lost little.
//
// A step runs thousands of operators, so what happens at each takes no lock,
// allocates nothing and compares no text but a range's.

#include "opprof/Torch/Observer.h"

#include "opprof/Capture/FileWriter.h"

#include <ATen/record_function.h>
#include <torch/headeronly/version.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <memory>
#include <new>
#include <pthread.h>
#include <thread>
#include <unistd.h>

using namespace opprof::capture;

namespace {

/// Records of one thread that may wait to be written: 512 KiB.
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

/// A thread's records: a ring, which the thread adds to and whoever holds the
/// lock takes from. The thread waits for the lock only where the ring is full.
struct Log {
  std::unique_ptr<OperatorRecord[]> records{new OperatorRecord[kBuffered]};
  alignas(64) std::atomic<uint64_t> added{0};
  alignas(64) std::atomic<uint64_t> taken{0};
  std::mutex mutex;
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
  /// Of the log, when it was last asked.
  uint64_t taken = 0;
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
  bool isWriting() const { return recording && file; }

  void add(ThreadState &state, const OperatorRecord &record);
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

  std::atomic<bool> recording{false};
  /// Bytes of the names in the file; its mutex guards it.
  size_t textBytes = 0;
  /// How many recordings have begun: numbers of texts are of one.
  std::atomic<uint32_t> recordings{0};
  std::atomic<const opprof_place_source *> source{nullptr};
  void (*atId)(uint64_t) = nullptr;
  bool shapes = false;
  at::CallbackHandle callback = 0;
  uint64_t begin = 0, end = 0;
  std::string error;

private:
  bool open();
  void writePlace(FileWriter &file, uint32_t number) const;
  void writeEvery();
  void write(Log &log);
  void startWriting();
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

void Observer::write(Log &log) {
  std::lock_guard<std::mutex> own(log.mutex);
  uint64_t from = log.taken.load(std::memory_order_relaxed);
  const uint64_t to = log.added.load(std::memory_order_acquire);
  if (from == to)
    return;
  auto [file, lock] = lockFile();
  if (!file || !file->isOpen())
    return;
  while (from < to) {
    size_t at = from % kBuffered;
    size_t count = std::min<size_t>(to - from, kBuffered - at);
    file->addAll(ChunkType::Operators, &log.records[at], count);
    from += count;
  }
  log.taken.store(to, std::memory_order_release);
  file->flush();
  if (file->bytes() <= limit || !recording.exchange(false))
    return;
  file->meta("not recorded", "what ran after the file had reached its limit "
                             "of " +
                                 std::to_string(limit >> 20) + " MiB");
  file->flush();
}

void Observer::add(ThreadState &state, const OperatorRecord &record) {
  if (record.end < begin || (end && record.start > end))
    return;
  Log &log = *state.log;
  uint64_t at = log.added.load(std::memory_order_relaxed);
  if (at - state.taken >= kBuffered) [[unlikely]] {
    state.taken = log.taken.load(std::memory_order_acquire);
    if (at - state.taken >= kBuffered) {
      write(log);
      state.taken = log.taken.load(std::memory_order_acquire);
    }
  }
  log.records[at % kBuffered] = record;
  log.added.store(++at, std::memory_order_release);
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
  std::lock_guard<std::mutex> lock(logsMutex);
  if (!file) {
    if (open())
      startWriting();
    else
      recording = false;
  }
  number = ++threads;
  logs.push_back(log);
  return log;
}

void Observer::dropLog(const std::shared_ptr<Log> &log) {
  // A recording that is about to end may not have read it yet.
  write(*log);
  std::lock_guard<std::mutex> lock(logsMutex);
  std::erase(logs, log);
}

bool Observer::flush() {
  std::vector<std::shared_ptr<Log>> all;
  {
    std::lock_guard<std::mutex> lock(logsMutex);
    all = logs;
  }
  for (const std::shared_ptr<Log> &log : all)
    write(*log);
  auto [file, lock] = lockFile();
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
  record.thread = uint32_t(function.threadId());
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
  // What is made to end on another thread is round nothing of this one.
  if (!function.isAsync()) {
    state.open = open.get();
    open->owner = &state;
  }
  if (observer.atId)
    observer.atId(record.id);
  record.start = now();
  return open;
}

static void endOperator(const at::RecordFunction &,
                        at::ObserverContext *context) {
  auto *open = static_cast<Open *>(context);
  if (!open)
    return;
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
  if (observer.atId)
    observer.atId(state && state->open ? state->open->record.id : 0);
  if (!observer.recording.load(std::memory_order_relaxed) ||
      open->recording != observer.recordings.load(std::memory_order_relaxed))
    return;
  if (ThreadState *recording = recordingThread(observer))
    observer.add(*recording, open->record);
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
    if (void *library = ::dlopen(options.capture, RTLD_NOW | RTLD_LOCAL))
      atId = reinterpret_cast<void (*)(uint64_t)>(
          ::dlsym(library, "opprof_capture_at_id"));
  {
    std::lock_guard<std::mutex> lock(logsMutex);
    begun();
    for (const std::shared_ptr<Log> &log : logs) {
      std::lock_guard<std::mutex> own(log->mutex);
      log->taken = log->added.load();
    }
    if (!open())
      return false;
    startWriting();
  }
  static std::once_flag once;
  std::call_once(once, [] {
    ::pthread_atfork([] { Observer::get().holdLocks(); },
                     [] { Observer::get().releaseLocks(); },
                     [] { Observer::get().forked(); });
  });
  recording = true;
  callback = at::addGlobalCallback(
      at::RecordFunctionCallback(beginOperator, endOperator)
          .needsInputs(shapes)
          .scopes({at::RecordScope::FUNCTION,
                   at::RecordScope::BACKWARD_FUNCTION,
                   at::RecordScope::TORCHSCRIPT_FUNCTION,
                   at::RecordScope::USER_SCOPE}));
  return true;
}

bool Observer::stop() {
  // One thread may leave the process while another one ends it: both wait until
  // the file is whole.
  std::lock_guard<std::mutex> life(lifeMutex);
  if (!file || isEnded || !writing.joinable()) {
    // A fork of what records has had nothing to record yet.
    if (recording.exchange(false))
      at::removeCallback(callback);
    return true;
  }
  isEnded = true;
  {
    std::lock_guard<std::mutex> lock(wakeMutex);
    ending = true;
  }
  wake.notify_all();
  writing.join();
  // Callbacks that other threads are in come to nothing from here on.
  recording = false;
  at::removeCallback(callback);
  flush();
  auto [file, lock] = lockFile();
  bool good = file->finish(0, now());
  error = file->error();
  return good;
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
