// Notes every operator that a program runs. PyTorch calls back where an
// operator, a function of autograd's or a marked range begins and ends; each is
// one record of a fixed size in its thread's buffer, which goes to the file
// when it is full, and twice a second by a thread of its own, so that a program
// that is killed has lost little.

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
#include <pthread.h>
#include <thread>
#include <unistd.h>

using namespace opprof::capture;

namespace {

/// Records of one thread that wait to be written: 256 KiB.
constexpr size_t kBuffered = 4096;
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

  // One a call of an operator: from a list of its thread's own.
  static void *operator new(size_t size);
  static void operator delete(void *memory);
};

/// A thread's records. Its lock is waited for only while they are written.
struct Log {
  std::mutex mutex;
  std::vector<OperatorRecord> records;
};

struct Name {
  const char *pointer = nullptr;
  std::string text;
  uint32_t number = 0;
};

/// Sizes and types of inputs that were met before.
struct Inputs {
  uint64_t hash = 0;
  uint32_t sizes = kNone, types = kNone;
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
  /// Inside the source of places, where an operator is not to ask it again.
  bool asking = false;
  std::vector<void *> freed;
  /// Which recording the numbers below are of.
  uint32_t recording = 0;
  std::array<Name, 1024> names;
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
  uint32_t name(ThreadState &state, const char *text);
  uint32_t text(std::string_view text);
  void noteInputs(ThreadState &state, const at::RecordFunction &function,
                  OperatorRecord &record);
  uint32_t addPlace(PlaceText place);
  uint32_t placeAt(ThreadState &state, const void *until);
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
  void writePlace(uint32_t number);
  void writeEvery();
  void write(Log &log);
  void startWriting();
  void holdLocks();
  void releaseLocks();
  void forked();

  std::string prefix;
  uint64_t limit = kDefaultLimit;
  std::chrono::milliseconds interval{500};
  /// Guards the list of logs; never held while a log is written.
  std::mutex logsMutex;
  std::vector<std::shared_ptr<Log>> logs;
  uint32_t threads = 0;

  /// Its own mutex guards it, and what follows.
  std::unique_ptr<FileWriter> file;
  /// Of earlier recordings, which a callback may still hold.
  std::vector<std::unique_ptr<FileWriter>> finished;
  /// By number: a fork's file has them too.
  std::vector<PlaceText> places;

  std::mutex wakeMutex;
  std::condition_variable wake;
  bool ending = false;
  std::atomic<bool> stopping{false};
  std::thread writing;
};

} // namespace

static ThreadState &thisThread() {
  thread_local ThreadState state;
  return state;
}

/// The state of a thread that is about to record.
static ThreadState &recordingThread(Observer &observer) {
  ThreadState &state = thisThread();
  if (!state.log)
    state.log = observer.makeLog(state.number);
  if (state.recording != observer.recordings) {
    state.recording = observer.recordings;
    state.names.fill({});
    state.inputs.fill({});
  }
  return state;
}

ThreadState::~ThreadState() {
  if (log)
    Observer::get().dropLog(log);
  for (void *memory : freed)
    ::free(memory);
}

void *Open::operator new(size_t size) {
  std::vector<void *> &freed = thisThread().freed;
  if (freed.empty())
    return ::malloc(size);
  void *memory = freed.back();
  freed.pop_back();
  return memory;
}

void Open::operator delete(void *memory) {
  std::vector<void *> &freed = thisThread().freed;
  if (freed.size() < 256)
    freed.push_back(memory);
  else
    ::free(memory);
}

//===----------------------------------------------------------------------===//
// The file
//===----------------------------------------------------------------------===//

bool Observer::open() {
  const char *rank = std::getenv("RANK");
  std::string path = prefix + "-r" + (rank ? rank : "") + "-p" +
                     std::to_string(::getpid()) + ".opcap";
  file = std::make_unique<FileWriter>();
  std::lock_guard<std::mutex> lock(file->Mutex);
  if (!file->open(path, error))
    return false;
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
    writePlace(number);
  return file->flush();
}

uint32_t Observer::text(std::string_view text) {
  std::lock_guard<std::mutex> lock(file->Mutex);
  if (!file->hasString(text)) {
    if (file->strings() >= kMostNames || textBytes + text.size() > kMostText)
      text = "(further names)";
    textBytes += text.size();
  }
  return file->string(text);
}

uint32_t Observer::name(ThreadState &state, const char *text) {
  Name &known =
      state
          .names[(reinterpret_cast<uintptr_t>(text) >> 3) % state.names.size()];
  // Ranges' names may lie where others did before.
  if (known.pointer == text && known.text == text)
    return known.number;
  known.number = this->text(std::string_view(text).substr(0, kLongestName));
  known.pointer = text;
  known.text = text;
  return known.number;
}

void Observer::writePlace(uint32_t number) {
  const PlaceText &place = places[number];
  PlaceRecord record{number,
                     file->string(place.module),
                     file->string(place.file),
                     file->string(place.function),
                     place.line,
                     file->string(place.group)};
  file->add(ChunkType::Places, record);
}

uint32_t Observer::addPlace(PlaceText place) {
  std::lock_guard<std::mutex> lock(file->Mutex);
  if (places.size() >= kMostNames)
    return OPPROF_NO_PLACE;
  places.push_back(std::move(place));
  writePlace(uint32_t(places.size() - 1));
  return uint32_t(places.size() - 1);
}

void Observer::write(Log &log) {
  std::vector<OperatorRecord> records;
  {
    std::lock_guard<std::mutex> lock(log.mutex);
    records.swap(log.records);
    log.records.reserve(kBuffered);
  }
  if (records.empty())
    return;
  std::lock_guard<std::mutex> lock(file->Mutex);
  for (const OperatorRecord &record : records)
    file->add(ChunkType::Operators, record);
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
  bool full;
  {
    std::lock_guard<std::mutex> lock(state.log->mutex);
    state.log->records.push_back(record);
    full = state.log->records.size() >= kBuffered;
  }
  if (full)
    write(*state.log);
}

std::shared_ptr<Log> Observer::makeLog(uint32_t &number) {
  auto log = std::make_shared<Log>();
  log->records.reserve(kBuffered);
  std::lock_guard<std::mutex> lock(logsMutex);
  if (!file) {
    if (!open())
      recording = false;
    startWriting();
  }
  number = ++threads;
  logs.push_back(log);
  return log;
}

void Observer::dropLog(const std::shared_ptr<Log> &log) {
  if (file && recording)
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
  std::lock_guard<std::mutex> lock(file->Mutex);
  return file->flush();
}

void Observer::writeEvery() {
  std::unique_lock<std::mutex> lock(wakeMutex);
  while (!wake.wait_for(lock, interval, [&] { return ending; })) {
    lock.unlock();
    flush();
    lock.lock();
  }
}

//===----------------------------------------------------------------------===//
// What PyTorch calls
//===----------------------------------------------------------------------===//

uint32_t Observer::placeAt(ThreadState &state, const void *until) {
  const opprof_place_source *from = source.load(std::memory_order_acquire);
  if (!from || state.asking)
    return OPPROF_NO_PLACE;
  state.asking = true;
  uint32_t place = from->place(until);
  state.asking = false;
  return place;
}

/// Tells inputs of other sizes or types apart.
static uint64_t hashInputs(const at::RecordFunction &function) {
  uint64_t hash = 1469598103934665603u;
  auto mix = [&](uint64_t value) {
    hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  };
  auto mixTensor = [&](const at::Tensor &tensor) {
    if (!tensor.defined() || tensor.is_nested() ||
        tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides())
      return mix(1);
    mix(2 + tensor.sizes().size());
    for (int64_t size : tensor.sizes())
      mix(uint64_t(size));
    mix(hash_value(tensor.dtype().id()));
  };
  for (const c10::IValue &input : function.inputs()) {
    if (input.isTensor()) {
      mixTensor(input.toTensor());
    } else if (input.isTensorList()) {
      mix(3);
      for (const at::Tensor &tensor : input.toTensorList())
        mixTensor(tensor);
    } else {
      mix(input.isScalar() ? 5 : 7);
    }
  }
  return hash ? hash : 1;
}

/// As torch.profiler writes them: "[[8, 16], [], [[4], [4]]]".
static void describeInputs(const at::RecordFunction &function,
                           std::string &sizes, std::string &types) {
  auto describe = [&](const at::Tensor &tensor) {
    sizes += '[';
    if (tensor.defined() && !tensor.is_nested() &&
        !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides())
      for (size_t at = 0; at < tensor.sizes().size(); ++at)
        sizes += (at ? ", " : "") + std::to_string(tensor.sizes()[at]);
    sizes += ']';
  };
  sizes = types = "[";
  bool first = true;
  for (const c10::IValue &input : function.inputs()) {
    if (!first) {
      sizes += ", ";
      types += ", ";
    }
    first = false;
    if (input.isTensor()) {
      const at::Tensor &tensor = input.toTensor();
      describe(tensor);
      std::string type(tensor.defined() ? tensor.dtype().name() : "");
      types += '"' + type + '"';
    } else if (input.isTensorList()) {
      sizes += '[';
      bool begun = false;
      for (const at::Tensor &tensor : input.toTensorVector()) {
        sizes += begun ? ", " : "";
        begun = true;
        describe(tensor);
      }
      sizes += ']';
      types += "\"TensorList\"";
    } else {
      sizes += "[]";
      types += input.isScalar() ? "\"Scalar\"" : "\"\"";
    }
  }
  sizes += ']';
  types += ']';
}

void Observer::noteInputs(ThreadState &state,
                          const at::RecordFunction &function,
                          OperatorRecord &record) {
  uint64_t hash = hashInputs(function);
  Inputs &known = state.inputs[hash % state.inputs.size()];
  if (known.hash != hash) {
    std::string sizes, types;
    describeInputs(function, sizes, types);
    bool isLong =
        sizes.size() > kLongestInputs || types.size() > kLongestInputs;
    known = {hash, isLong ? kNone : text(sizes), isLong ? kNone : text(types)};
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

static std::unique_ptr<at::ObserverContext>
beginOperator(const at::RecordFunction &function) {
  Observer &observer = Observer::get();
  if (!observer.recording.load(std::memory_order_relaxed))
    return nullptr;
  ThreadState &state = recordingThread(observer);
  auto open = std::make_unique<Open>();
  open->recording = state.recording;
  OperatorRecord &record = open->record;
  const char *name = function.name();
  OperatorScope scope = scopeOf(function.scope());
  record.scope = uint8_t(scope);
  record.name = observer.name(state, name);
  record.id = uint64_t(state.number) << 40 | ++state.nextId;
  record.sequence = function.seqNr();
  record.thread = uint32_t(function.threadId());
  record.forwardThread = uint32_t(function.forwardThreadId());
  record.place = OPPROF_NO_PLACE;
  record.sizes = record.types = kNone;

  const Open *outer = open->outer = state.open;
  open->frame = observer.frame();
  if (outer) {
    open->inBackward = outer->inBackward;
    open->backwardFrame = outer->backwardFrame;
  }
  if (scope == OperatorScope::Backward) {
    open->inBackward = true;
    open->backwardFrame = open->frame;
  } else if (outer && outer->frame == open->frame &&
             outer->record.scope != uint8_t(OperatorScope::Range)) {
    // No Python lies between the two.
    record.place = outer->record.place;
  } else if (open->frame && !isEngine(name)) {
    // Autograd runs on the thread that called it, whose frames say nothing of
    // the functions.
    record.place = observer.placeAt(
        state, open->inBackward ? open->backwardFrame : nullptr);
  }
  bool wasInOperator = outer && outer->inOperator;
  open->inOperator =
      wasInOperator || (scope == OperatorScope::Operator && !isEngine(name));
  // What operators call is computed from the sizes of the outermost.
  if (observer.shapes && (scope == OperatorScope::Backward ||
                          (open->inOperator && !wasInOperator)))
    observer.noteInputs(state, function, record);
  state.open = open.get();
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
  Observer &observer = Observer::get();
  ThreadState &state = thisThread();
  // A range may end out of order, or on another thread.
  for (Open **at = &state.open; *at; at = &(*at)->outer)
    if (*at == open) {
      *at = open->outer;
      break;
    }
  if (observer.atId)
    observer.atId(state.open ? state.open->record.id : 0);
  if (observer.recording.load(std::memory_order_relaxed) &&
      open->recording == observer.recordings)
    observer.add(recordingThread(observer), open->record);
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
  if (file)
    file->Mutex.lock();
}

void Observer::releaseLocks() {
  if (file)
    file->Mutex.unlock();
  logsMutex.unlock();
}

/// A fork has this thread alone. It writes a file of its own, which is made
/// when it runs an operator: most forks run another program.
void Observer::forked() {
  // The writing thread and what it waits for may be in any state: they are
  // left as they are, and new ones made.
  if (file)
    file.release()->abandon(); // NOLINT(bugprone-unused-return-value)
  new (&logsMutex) std::mutex;
  new (&wakeMutex) std::mutex;
  new (&wake) std::condition_variable;
  new (&writing) std::thread;
  for (std::shared_ptr<Log> &log : logs)
    // Another thread of the parent's may hold its lock.
    new (&log) std::shared_ptr<Log>;
  logs.clear();
  ThreadState &state = thisThread();
  stopping = false;
  textBytes = 0;
  ++recordings;
  new (&state.log) std::shared_ptr<Log>;
}

bool Observer::start(const opprof_observer_options &options) {
  if (recording) {
    error = "the observer records already";
    return false;
  }
  if (options.size < sizeof(options) || !options.prefix) {
    error = "the observer's options are of another version";
    return false;
  }
  stopping = false;
  textBytes = 0;
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
    if (file)
      finished.push_back(std::move(file));
    ++recordings;
    for (const std::shared_ptr<Log> &log : logs) {
      std::lock_guard<std::mutex> own(log->mutex);
      log->records.clear();
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
  // One thread may leave the process while another one ends it.
  if (!file || stopping.exchange(true) || !writing.joinable())
    return true;
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
  std::lock_guard<std::mutex> lock(file->Mutex);
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

uint64_t opprof_observer_now(void) { return now(); }

void opprof_observer_note(const char *name, uint64_t start) {
  Observer &observer = Observer::get();
  if (!observer.recording)
    return;
  ThreadState &state = recordingThread(observer);
  OperatorRecord record{};
  record.start = start;
  record.end = now();
  record.id = uint64_t(state.number) << 40 | ++state.nextId;
  record.sequence = -1;
  record.thread = uint32_t(at::RecordFunction::currentThreadId());
  record.name = observer.text(name);
  record.place = observer.placeAt(state, nullptr);
  record.sizes = record.types = kNone;
  record.scope = uint8_t(OperatorScope::Host);
  observer.add(state, record);
}
