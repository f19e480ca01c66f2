// A running capture. CUPTI's records are turned into the file's own on the
// writer thread; the threads of the program only exchange buffers.

#include "Session.h"

#include "Activities.h"
#include "Callbacks.h"
#include "HostCalls.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <pthread.h>
#include <unistd.h>

using namespace opprof::capture;

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

static std::string &lastError() {
  static thread_local std::string text;
  return text;
}

int opprof::capture::failWith(int status, std::string text) {
  lastError() = std::move(text);
  return status;
}

const char *opprof_capture_last_error(void) { return lastError().c_str(); }

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

static BufferPool &pool() {
  static BufferPool *instance = new BufferPool;
  return *instance;
}

void BufferPool::configure(size_t bufferBytes, size_t limitBytes) {
  std::lock_guard<std::mutex> lock(Mutex);
  for (uint8_t *data : Free) {
    std::free(data);
    Allocated -= BufferBytes;
  }
  Free.clear();
  BufferBytes = bufferBytes;
  LimitBytes = std::max(limitBytes, bufferBytes);
  Peak = Allocated;
}

uint8_t *BufferPool::take(size_t &size) {
  std::lock_guard<std::mutex> lock(Mutex);
  size = BufferBytes;
  if (!Free.empty()) {
    uint8_t *data = Free.back();
    Free.pop_back();
    Out.insert(data);
    return data;
  }
  if (Allocated + BufferBytes > LimitBytes)
    return nullptr;
  auto *data = static_cast<uint8_t *>(std::aligned_alloc(4096, BufferBytes));
  if (data) {
    Allocated += BufferBytes;
    Peak = std::max(Peak, Allocated);
    Out.insert(data);
  }
  return data;
}

bool BufferPool::takeBack(uint8_t *data) {
  std::lock_guard<std::mutex> lock(Mutex);
  return Out.erase(data) != 0;
}

void BufferPool::give(uint8_t *data, size_t size) {
  std::lock_guard<std::mutex> lock(Mutex);
  if (size == BufferBytes) {
    Free.push_back(data);
    return;
  }
  std::free(data);
  Allocated -= std::min(size, Allocated);
}

void BufferPool::refill(size_t spare) {
  for (;;) {
    size_t bytes;
    {
      std::lock_guard<std::mutex> lock(Mutex);
      if (Free.size() >= spare || Allocated + BufferBytes > LimitBytes)
        return;
      bytes = BufferBytes;
      Allocated += bytes;
      Peak = std::max(Peak, Allocated);
    }
    auto *data = static_cast<uint8_t *>(std::aligned_alloc(4096, bytes));
    if (!data)
      return;
    std::memset(data, 0, bytes);
    give(data, bytes);
  }
}

uint64_t BufferPool::allocatedBuffers() {
  std::lock_guard<std::mutex> lock(Mutex);
  return Allocated / BufferBytes;
}

uint64_t BufferPool::peakBytes() {
  std::lock_guard<std::mutex> lock(Mutex);
  return Peak;
}

//===----------------------------------------------------------------------===//
// Ids
//===----------------------------------------------------------------------===//

namespace {
thread_local std::vector<uint64_t> Pushed;

/// What a launch or a line reads: plain data, which a thread has without being
/// asked whether it made it.
struct ThreadIds {
  uint64_t Top;   ///< the last of Pushed, or 0
  size_t Depth;   ///< of Pushed
  uint64_t At;    ///< set by `at`, or 0
  size_t AtDepth; ///< of Pushed when At was set
};
constinit thread_local ThreadIds Ids{};

// Kineto uses the lower kinds.
constexpr CUpti_ExternalCorrelationKind kIdKind =
    CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2;
std::atomic<bool> IdsShared{false};

} // namespace

static void sharePush(uint64_t id) {
  if (const CuptiApi *api = IdsShared ? cupti() : nullptr)
    api->cuptiActivityPushExternalCorrelationId(kIdKind, id);
}

static void sharePop() {
  uint64_t last;
  if (const CuptiApi *api = IdsShared ? cupti() : nullptr)
    api->cuptiActivityPopExternalCorrelationId(kIdKind, &last);
}

void IdStack::shareWithCupti() { IdsShared = true; }

int IdStack::push(uint64_t id) {
  Pushed.push_back(id);
  Ids.Top = id;
  Ids.Depth = Pushed.size();
  sharePush(id);
  return OPPROF_OK;
}

int IdStack::pop() {
  if (Pushed.empty())
    return failWith(OPPROF_INVALID,
                    "opprof_capture_pop_id without a push on this thread");
  Pushed.pop_back();
  Ids.Top = Pushed.empty() ? 0 : Pushed.back();
  Ids.Depth = Pushed.size();
  sharePop();
  return OPPROF_OK;
}

void IdStack::at(uint64_t id) {
  ThreadIds &here = Ids;
  if (IdsShared.load(std::memory_order_relaxed) && id != here.At) {
    if (here.At)
      sharePop();
    if (id)
      sharePush(id);
  }
  here.At = id;
  here.AtDepth = here.Depth;
}

uint64_t IdStack::top() {
  const ThreadIds &here = Ids;
  return here.At && here.AtDepth >= here.Depth ? here.At : here.Top;
}

//===----------------------------------------------------------------------===//
// The running session
//===----------------------------------------------------------------------===//

// Guards the pointer alone, and no call is made while it is held: callbacks of
// CUPTI take it too.
static std::mutex HolderMutex;
// One start or stop at a time; never taken in a callback.
static std::mutex LifecycleMutex;
static std::atomic<bool> Forked{false};
static std::atomic<bool> Registered{false};

static std::shared_ptr<Session> &holder() {
  static auto *instance = new std::shared_ptr<Session>;
  return *instance;
}

std::shared_ptr<Session> Session::current() {
  std::lock_guard<std::mutex> lock(HolderMutex);
  return holder();
}

void Session::forkedChild() {
  Forked = true;
  // The writer thread does not exist here, and its locks may be held: leave
  // every object as it is, but for the shared file.
  auto &session = holder();
  if (session) {
    session->Writer.abandon();
    new std::shared_ptr<Session>(std::move(session));
  }
  new (&HolderMutex) std::mutex;
  new (&LifecycleMutex) std::mutex;
}

uint64_t Session::now() const {
  uint64_t time = 0;
  Cupti->cuptiGetTimestamp(&time);
  return time;
}

void Session::bufferRequested(uint8_t **buffer, size_t *size, size_t *records) {
  *records = 0;
  *buffer = pool().take(*size);
  if (!*buffer)
    *size = 0;
}

void Session::bufferCompleted(CUcontext context, uint32_t stream,
                              uint8_t *buffer, size_t size, size_t valid) {
  if (!buffer || !pool().takeBack(buffer))
    return;
  std::shared_ptr<Session> session = current();
  if (!session) {
    pool().give(buffer, size);
    return;
  }
  size_t dropped = 0;
  session->Cupti->cuptiActivityGetNumDroppedRecords(context, stream, &dropped);
  std::lock_guard<std::mutex> lock(session->QueueMutex);
  session->Queue.push_back({buffer, size, valid, dropped});
  session->QueueReady.notify_one();
}

int Session::start(const opprof_capture_options &options) {
  if (Forked)
    return failWith(OPPROF_FORKED,
                    "this process is a fork of one that captured; CUDA itself "
                    "cannot be used across fork: start workers with spawn");
  if (!options.path || !*options.path)
    return failWith(OPPROF_INVALID, "opprof_capture_start: no path was given");
  std::string error;
  const CuptiApi *api = loadCupti(nullptr, error);
  if (!api)
    return failWith(OPPROF_NO_CUPTI, error);
  std::unique_lock<std::mutex> lifecycle(LifecycleMutex);
  if (current())
    return failWith(OPPROF_BUSY,
                    "a capture is already running in this process; stop it "
                    "before another is started");

  std::shared_ptr<Session> session(new Session);
  session->Cupti = api;
  session->Kinds =
      options.kinds ? options.kinds : uint32_t(OPPROF_DEFAULT_KINDS);
  session->FlushMs = options.flush_ms ? options.flush_ms : 500;
  // Activity buffers are the process's, not the tool's: whoever is here already
  // would get our records, and we its buffers.
  if (int status = Callbacks::get().hold())
    return status;
  struct Release {
    ~Release() {
      if (Held)
        Callbacks::get().release();
    }
    bool Held = true;
  } release;
  if (!session->Writer.open(options.path, error))
    return failWith(OPPROF_IO, error);
  pool().configure(options.buffer_bytes
                       ? std::max<size_t>(options.buffer_bytes, 64u << 10)
                       : size_t(2) << 20,
                   options.pool_bytes ? options.pool_bytes : uint64_t(1) << 30);
  pool().refill(4);
  if (!Registered.exchange(true))
    ::pthread_atfork(nullptr, nullptr, [] { Session::forkedChild(); });
  CUptiResult result =
      api->cuptiActivityRegisterCallbacks(bufferRequested, bufferCompleted);
  if (result != CUPTI_SUCCESS)
    return failWith(OPPROF_CUPTI_ERROR,
                    "activity buffers: " + api->text(result));
  // Thread ids as the system has them, so that they match other tools'.
  if (api->cuptiSetThreadIdType)
    api->cuptiSetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
  session->FlushesItself =
      api->cuptiActivityFlushPeriod &&
      api->cuptiActivityFlushPeriod(session->FlushMs) == CUPTI_SUCCESS;
  session->describe();
  uint64_t before = 0;
  HostCalls::get().take(before);
  session->Thread = std::thread([raw = session.get()] { raw->run(); });
  {
    std::lock_guard<std::mutex> lock(HolderMutex);
    holder() = session;
  }
  release.Held = false;
  if (session->Kinds & OPPROF_IDS)
    Callbacks::get().watchGraphs(true);
  if (!options.paused) {
    int status = session->resume();
    if (status != OPPROF_OK) {
      std::string text = opprof_capture_last_error();
      lifecycle.unlock();
      stop(nullptr);
      return failWith(status, text);
    }
  }
  return OPPROF_OK;
}

int Session::stop(opprof_capture_stats *stats) {
  std::lock_guard<std::mutex> lifecycle(LifecycleMutex);
  std::shared_ptr<Session> session = current();
  if (!session)
    return failWith(Forked ? OPPROF_FORKED : OPPROF_INVALID,
                    "no capture is running in this process");
  session->pause();
  {
    // A timer that wakes up from now on turns nothing on any more.
    std::lock_guard<std::mutex> lock(session->RecordingMutex);
    session->Ended = true;
  }
  if (session->Kinds & OPPROF_IDS)
    Callbacks::get().watchGraphs(false);
  session->Cupti->cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  if (session->FlushesItself)
    session->Cupti->cuptiActivityFlushPeriod(0);
  {
    std::lock_guard<std::mutex> lock(HolderMutex);
    holder().reset();
  }
  {
    std::lock_guard<std::mutex> lock(session->QueueMutex);
    session->Ending = true;
    session->QueueReady.notify_one();
  }
  session->Thread.join();
  session->drainCalls();
  if (!(session->Kinds & OPPROF_ALL_API))
    session->describeNoting();
  Callbacks::get().release();
  size_t dropped = 0;
  session->Cupti->cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped);
  ClockRecord clock = session->readClocks();
  session->drainCalls();
  session->drainNotes();
  std::lock_guard<std::mutex> lock(session->Writer.Mutex);
  if (dropped) {
    LossRecord loss{dropped, 1, 0};
    session->Writer.add(ChunkType::Losses, loss);
    session->Lost += dropped;
  }
  session->describeDevices();
  session->Writer.add(ChunkType::Clocks, clock);
  uint64_t records = session->Writer.records();
  bool good = session->Writer.finish(session->Lost, clock.cupti);
  if (stats) {
    stats->records = records;
    stats->lost = session->Lost;
    stats->bytes = session->Writer.bytes();
    stats->buffers = pool().allocatedBuffers();
    stats->buffer_peak_bytes = pool().peakBytes();
  }
  if (!good)
    return failWith(OPPROF_IO, session->Writer.error() +
                                   "; what was captured before is kept");
  return OPPROF_OK;
}

Session::~Session() {
  if (Thread.joinable())
    Thread.detach();
}

//===----------------------------------------------------------------------===//
// What is recorded
//===----------------------------------------------------------------------===//

namespace {
const CUpti_ActivityKind kCopyKinds[] = {CUPTI_ACTIVITY_KIND_MEMCPY,
                                         CUPTI_ACTIVITY_KIND_MEMCPY2,
                                         CUPTI_ACTIVITY_KIND_MEMSET};
} // namespace

int Session::enableApis(bool on) {
  if (!(Kinds & OPPROF_ALL_API))
    return Kinds & (OPPROF_API | OPPROF_IDS) ? Callbacks::get().watchCalls(on)
                                             : OPPROF_OK;
  for (CUpti_ActivityKind kind :
       {CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_DRIVER}) {
    CUptiResult result = on ? Cupti->cuptiActivityEnable(kind)
                            : Cupti->cuptiActivityDisable(kind);
    if (on && result != CUPTI_SUCCESS)
      return failWith(OPPROF_CUPTI_ERROR, "API calls: " + Cupti->text(result));
  }
  return OPPROF_OK;
}

int Session::enable(bool on) {
  std::vector<CUpti_ActivityKind> kinds;
  if (Kinds & OPPROF_KERNELS)
    kinds.push_back(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  if (Kinds & OPPROF_COPIES)
    kinds.insert(kinds.end(), std::begin(kCopyKinds), std::end(kCopyKinds));
  if (Kinds & OPPROF_SYNCS)
    kinds.push_back(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
  if (Kinds & OPPROF_OVERHEAD)
    kinds.push_back(CUPTI_ACTIVITY_KIND_OVERHEAD);
  if ((Kinds & OPPROF_IDS) && (Kinds & OPPROF_ALL_API)) {
    IdStack::shareWithCupti();
    kinds.push_back(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
  }
  if (Kinds & OPPROF_MARKERS)
    kinds.push_back(CUPTI_ACTIVITY_KIND_MARKER);
  if (Kinds & OPPROF_MEMORY)
    kinds.push_back(CUPTI_ACTIVITY_KIND_MEMORY2);
  for (CUpti_ActivityKind kind : kinds) {
    CUptiResult result = on ? Cupti->cuptiActivityEnable(kind)
                            : Cupti->cuptiActivityDisable(kind);
    if (!on || result == CUPTI_SUCCESS)
      continue;
    // Only kernels are worth failing for.
    std::string text =
        "activity kind " + std::to_string(kind) + ": " + Cupti->text(result);
    if (kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
      return failWith(result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES
                          ? OPPROF_PERMISSION
                          : OPPROF_CUPTI_ERROR,
                      text);
    std::lock_guard<std::mutex> lock(Writer.Mutex);
    Writer.meta("not recorded", text);
  }
  return enableApis(on);
}

int Session::pause() {
  std::lock_guard<std::mutex> lock(RecordingMutex);
  if (!Recording)
    return OPPROF_OK;
  Recording = false;
  return enable(false);
}

int Session::resume() {
  std::lock_guard<std::mutex> lock(RecordingMutex);
  if (Recording || Ended)
    return OPPROF_OK;
  int status = enable(true);
  Recording = status == OPPROF_OK;
  return status;
}

int Session::flush() {
  CUptiResult result = Cupti->cuptiActivityFlushAll(0);
  if (result != CUPTI_SUCCESS)
    return failWith(OPPROF_CUPTI_ERROR, "flush: " + Cupti->text(result));
  {
    std::unique_lock<std::mutex> lock(QueueMutex);
    QueueEmpty.wait(lock, [&] { return Queue.empty() && !Busy; });
  }
  drainCalls();
  drainNotes();
  std::lock_guard<std::mutex> lock(Writer.Mutex);
  if (!Writer.flush())
    return failWith(OPPROF_IO, Writer.error());
  return OPPROF_OK;
}

void Session::graphNode(const GraphNodeRecord &record) {
  // Called by CUPTI, so it waits for nothing that calls CUPTI.
  std::lock_guard<std::mutex> lock(NotesMutex);
  Nodes.push_back(record);
}

void Session::mark(uint32_t kind, uint64_t value, const char *name) {
  Mark mark;
  mark.Record = MarkRecord{};
  mark.Record.time = now();
  mark.Record.value = value;
  mark.Record.kind = kind;
  if (name)
    mark.Name = name;
  std::lock_guard<std::mutex> lock(NotesMutex);
  Marks.push_back(std::move(mark));
}

void Session::drainNotes() {
  std::vector<GraphNodeRecord> nodes;
  std::vector<Mark> marks;
  {
    std::lock_guard<std::mutex> lock(NotesMutex);
    nodes.swap(Nodes);
    marks.swap(Marks);
  }
  std::lock_guard<std::mutex> lock(Writer.Mutex);
  for (const GraphNodeRecord &node : nodes)
    Writer.add(ChunkType::GraphNodes, node);
  for (Mark &mark : marks) {
    mark.Record.name = mark.Name ? Writer.string(*mark.Name) : kNone;
    Writer.add(ChunkType::Marks, mark.Record);
  }
}

ClockRecord Session::readClocks() const {
  timespec real, mono;
  ClockRecord clock;
  clock.cupti = now();
  ::clock_gettime(CLOCK_REALTIME, &real);
  ::clock_gettime(CLOCK_MONOTONIC, &mono);
  clock.realtime = uint64_t(real.tv_sec) * 1000000000 + real.tv_nsec;
  clock.monotonic = uint64_t(mono.tv_sec) * 1000000000 + mono.tv_nsec;
  return clock;
}

void Session::describe() {
  ClockRecord clock = readClocks();
  std::lock_guard<std::mutex> lock(Writer.Mutex);
  Writer.add(ChunkType::Clocks, clock);
  Writer.meta("pid", std::to_string(::getpid()));
  char host[256] = "";
  ::gethostname(host, sizeof(host) - 1);
  Writer.meta("host", host);
  Writer.meta("cupti_path", Cupti->path);
  Writer.meta("cupti_version", std::to_string(Cupti->version));
  for (auto [variable, key] :
       {std::pair("RANK", "rank"), std::pair("LOCAL_RANK", "local_rank"),
        std::pair("WORLD_SIZE", "world_size")})
    if (const char *value = std::getenv(variable))
      Writer.meta(key, value);
  if (std::FILE *file = std::fopen("/proc/self/cmdline", "r")) {
    char line[4096];
    size_t size = std::fread(line, 1, sizeof(line), file);
    std::fclose(file);
    for (size_t i = 0; i + 1 < size; ++i)
      if (!line[i])
        line[i] = ' ';
    Writer.meta("command", {line, size ? size - 1 : 0});
  }
  if (const DriverApi *cuda = driver())
    Writer.meta("driver_version", std::to_string(cuda->version));
  describeDevices();
  Writer.flush();
}

void Session::describeNoting() {
  const uint64_t ns = Callbacks::get().measureNoting();
  // None of them is the program's.
  uint64_t lost = 0;
  HostCalls::get().take(lost);
  std::lock_guard<std::mutex> lock(Writer.Mutex);
  if (ns)
    Writer.meta(kNotingCallKey, std::to_string(ns));
}

void Session::describeDevices() {
  const DriverApi *cuda = driver();
  int count = 0;
  if (DevicesDescribed || !cuda ||
      cuda->cuDeviceGetCount(&count) != CUDA_SUCCESS)
    return;
  DevicesDescribed = true;
  for (int i = 0; i < count; ++i) {
    CUdevice device;
    if (cuda->cuDeviceGet(&device, i) != CUDA_SUCCESS)
      continue;
    auto attribute = [&](CUdevice_attribute which) {
      int value = 0;
      cuda->cuDeviceGetAttribute(&value, which, device);
      return uint32_t(value);
    };
    DeviceRecord record{};
    char name[256] = "";
    cuda->cuDeviceGetName(name, sizeof(name) - 1, device);
    size_t memory = 0;
    cuda->cuDeviceTotalMem(&memory, device);
    record.id = uint32_t(i);
    record.computeMajor =
        attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    record.computeMinor =
        attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    record.smCount = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    record.smClockKHz = attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
    record.memoryClockKHz = attribute(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
    record.memoryBusBits =
        attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
    record.l2Bytes = attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
    record.maxThreadsPerSm =
        attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
    record.sharedPerSm =
        attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
    record.registersPerSm =
        attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
    record.warpSize = attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
    record.memoryBytes = memory;
    record.name = Writer.string(name);
    record.reserved = 0;
    Writer.add(ChunkType::Devices, record);
  }
}

//===----------------------------------------------------------------------===//
// The writer thread
//===----------------------------------------------------------------------===//

void Session::run() {
  std::unique_lock<std::mutex> lock(QueueMutex);
  for (;;) {
    QueueReady.wait_for(lock, std::chrono::milliseconds(FlushMs),
                        [&] { return Ending || !Queue.empty(); });
    if (Queue.empty() && !Ending) {
      lock.unlock();
      if (!FlushesItself)
        Cupti->cuptiActivityFlushAll(0);
      drainCalls();
      drainNotes();
      {
        std::lock_guard<std::mutex> writer(Writer.Mutex);
        describeDevices();
        Writer.flush();
      }
      lock.lock();
    }
    if (!Queue.empty()) {
      // A busy program fills buffers before the time is up.
      lock.unlock();
      drainCalls();
      lock.lock();
    }
    drain(lock);
    if (Ending && Queue.empty())
      return;
  }
}

void Session::drain(std::unique_lock<std::mutex> &lock) {
  while (!Queue.empty()) {
    BufferPool::Full full = Queue.front();
    Queue.pop_front();
    Busy = true;
    lock.unlock();
    decode(full);
    pool().give(full.data, full.size);
    pool().refill(2);
    lock.lock();
    Busy = false;
  }
  QueueEmpty.notify_all();
}

void Session::nameApi(uint32_t domain, uint32_t cbid) {
  if (!KnownApis.insert(uint64_t(domain) << 32 | cbid).second)
    return;
  const char *name = nullptr;
  Cupti->cuptiGetCallbackName(domain ? CUPTI_CB_DOMAIN_RUNTIME_API
                                     : CUPTI_CB_DOMAIN_DRIVER_API,
                              cbid, &name);
  std::string_view text = name ? name : "";
  // The runtime's names end in the version that introduced them.
  size_t version = text.rfind("_v");
  if (version != std::string_view::npos && version + 2 < text.size() &&
      text.find_first_not_of("0123456789", version + 2) ==
          std::string_view::npos)
    text = text.substr(0, version);
  ApiNameRecord record{domain, cbid, Writer.string(text), 0};
  Writer.add(ChunkType::ApiNames, record);
}

void Session::drainCalls() {
  uint64_t lost = 0;
  std::vector<HostCall> calls = HostCalls::get().take(lost);
  if (calls.empty() && !lost)
    return;
  uint32_t process = uint32_t(::getpid());
  std::lock_guard<std::mutex> lock(Writer.Mutex);
  for (const HostCall &call : calls) {
    if (Kinds & OPPROF_API) {
      nameApi(0, call.cbid);
      ApiRecord record{call.start,  call.end,         0,           call.cbid,
                       call.thread, call.correlation, call.result, process};
      Writer.add(ChunkType::Apis, record);
    }
    if ((Kinds & OPPROF_IDS) && call.id) {
      ExternalIdRecord record{call.id, call.correlation, uint32_t(kIdKind)};
      Writer.add(ChunkType::ExternalIds, record);
    }
  }
  if (lost) {
    LossRecord record{lost, 1, 0};
    Writer.add(ChunkType::Losses, record);
    Lost += lost;
  }
}

void Session::decode(const BufferPool::Full &full) {
  std::vector<Callbacks::NamedKernel> kernels;
  std::unique_lock<std::mutex> lock(Writer.Mutex);
  uint64_t strange = 0;
  CUpti_Activity *activity = nullptr;
  while (Cupti->cuptiActivityGetNextRecord(full.data, full.validBytes,
                                           &activity) == CUPTI_SUCCESS) {
    switch (activity->kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      KernelRecord kernel = kernelRecord(*activity, Writer);
      Writer.add(ChunkType::Kernels, kernel);
      kernels.emplace_back(kernel, kernelName(*activity));
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY:
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      Writer.add(ChunkType::Memcpys, memcpyRecord(*activity));
      break;
    case CUPTI_ACTIVITY_KIND_MEMSET:
      Writer.add(ChunkType::Memsets, memsetRecord(*activity));
      break;
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      Writer.add(ChunkType::Syncs, syncRecord(*activity));
      break;
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER: {
      ApiRecord call = apiRecord(*activity);
      nameApi(call.domain, call.cbid);
      Writer.add(ChunkType::Apis, call);
      break;
    }
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      Writer.add(ChunkType::Overheads, overheadRecord(*activity));
      break;
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
      ExternalIdRecord id = externalIdRecord(*activity);
      // Another library of the process may push ids of its own kinds.
      if (id.kind == uint32_t(kIdKind))
        Writer.add(ChunkType::ExternalIds, id);
      break;
    }
    case CUPTI_ACTIVITY_KIND_MARKER:
      Writer.add(ChunkType::Markers, markerRecord(*activity, Writer));
      break;
    case CUPTI_ACTIVITY_KIND_MEMORY2:
      Writer.add(ChunkType::Memory, memoryRecord(*activity));
      break;
    default:
      ++strange;
    }
  }
  for (auto [count, reason] :
       {std::pair<uint64_t, uint32_t>(full.dropped, 1), {strange, 3}})
    if (count) {
      LossRecord r{count, reason, 0};
      Writer.add(ChunkType::Losses, r);
      Lost += count;
    }
  Writer.flush();
  lock.unlock();
  Callbacks::get().addKernels(kernels);
}
