// The one CUPTI subscriber of a process. Launches are seen at the driver's
// entry points, below which no library can go: PyTorch, cuBLAS and Triton all
// pass there.

#include "Callbacks.h"

#include "HostCalls.h"
#include "Session.h"

#include <algorithm>
#include <chrono>
#include <cstring>

using namespace opprof::capture;

static const CUpti_CallbackId kLaunchIds[] = {
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch,
    CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz,
};

static const CUpti_CallbackId kGraphIds[] = {
    CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED,
    CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED,
};

namespace {
// How the driver's launch calls begin. CUPTI's generated header declares them
// too, but it cannot be compiled without the driver's internal types.
struct LaunchParams {
  CUfunction function;
  unsigned grid[3];
  unsigned block[3];
};
struct LaunchExParams {
  const CUlaunchConfig *config;
};
} // namespace

bool Launch::sameAs(const Launch &other) const {
  return name == other.name && kind == other.kind &&
         std::equal(grid, grid + 3, other.grid) &&
         std::equal(block, block + 3, other.block);
}

Callbacks &Callbacks::get() {
  static auto *instance = new Callbacks;
  return *instance;
}

int Callbacks::subscribe() {
  if (Users++)
    return OPPROF_OK;
  std::string error;
  const CuptiApi *api = loadCupti(nullptr, error);
  if (!api) {
    --Users;
    return failWith(OPPROF_NO_CUPTI, error);
  }
  char holder[128] = "";
  CUptiResult result;
  if (api->cuptiSubscribe_v2) {
    CUpti_SubscriberParams params{};
    params.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
    params.subscriberName = "opprof";
    params.oldSubscriberName = holder;
    params.oldSubscriberSize = sizeof(holder);
    result = api->cuptiSubscribe_v2(&Subscriber, callback, nullptr, &params);
  } else {
    result = api->cuptiSubscribe(&Subscriber, callback, nullptr);
  }
  if (result == CUPTI_SUCCESS)
    return OPPROF_OK;
  --Users;
  Subscriber = nullptr;
  if (result != CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED &&
      result != CUPTI_ERROR_MAX_LIMIT_REACHED)
    return failWith(OPPROF_CUPTI_ERROR,
                    "CUPTI callbacks: " + api->text(result) +
                        versionMismatch(*api));
  holder[sizeof(holder) - 1] = 0;
  std::string who =
      *holder ? std::string("'") + holder + "'" : std::string("another tool");
  return failWith(
      OPPROF_BUSY,
      "CUPTI is held by " + who +
          " in this process. torch.profiler keeps it from its first "
          "use to the end of the process; Proton, nsys and ncu keep it "
          "while they record. Capture before that profiler is used, or in a "
          "process without it");
}

void Callbacks::unsubscribe() {
  if (--Users || !Subscriber)
    return;
  if (const CuptiApi *api = cupti())
    api->cuptiUnsubscribe(Subscriber);
  Subscriber = nullptr;
}

int Callbacks::hold() {
  std::lock_guard<std::mutex> lock(Mutex);
  return subscribe();
}

void Callbacks::release() {
  std::lock_guard<std::mutex> lock(Mutex);
  unsubscribe();
}

void Callbacks::watchGraphs(bool on) {
  std::lock_guard<std::mutex> lock(Mutex);
  if (on == Graphs || (on && subscribe() != OPPROF_OK))
    return;
  Graphs = on;
  const CuptiApi *api = cupti();
  for (CUpti_CallbackId id : kGraphIds)
    api->cuptiEnableCallback(on, Subscriber, CUPTI_CB_DOMAIN_RESOURCE, id);
  if (!on)
    unsubscribe();
}

int Callbacks::watchCalls(bool on) {
  std::lock_guard<std::mutex> lock(Mutex);
  if (on == Calls)
    return OPPROF_OK;
  if (on)
    if (int status = subscribe())
      return status;
  Calls = on;
  enableCalls();
  if (!on)
    unsubscribe();
  return OPPROF_OK;
}

uint64_t Callbacks::measureNoting() {
  std::lock_guard<std::mutex> lock(Mutex);
  const CuptiApi *api = cupti();
  const DriverApi *cuda = driver();
  if (Calls || Now != Mode::Off || !Subscriber || !api || !cuda)
    return 0;
  auto timeCalls = [&] {
    constexpr int kCalls = 256, kRounds = 5;
    using Clock = std::chrono::steady_clock;
    Clock::duration least = Clock::duration::max();
    for (int round = 0; round < kRounds; ++round) {
      const Clock::time_point from = Clock::now();
      for (int at = 0; at < kCalls; ++at) {
        // It needs no context, which at a program's end is gone.
        int version = 0;
        cuda->cuDriverGetVersion(&version);
      }
      least = std::min(least, Clock::now() - from);
    }
    return std::chrono::nanoseconds(least).count() / kCalls;
  };
  auto note = [&](bool on) {
    Calls = on;
    api->cuptiEnableCallback(on, Subscriber, CUPTI_CB_DOMAIN_DRIVER_API,
                             CUPTI_DRIVER_TRACE_CBID_cuDriverGetVersion);
  };
  const auto without = timeCalls();
  note(true);
  const auto with = timeCalls();
  note(false);
  return uint64_t(std::max<decltype(with)>(with - without, 0));
}

void Callbacks::enableCalls() {
  const CuptiApi *api = cupti();
  for (CUpti_CallbackId id : HostCalls::get().watched())
    api->cuptiEnableCallback(Calls, Subscriber, CUPTI_CB_DOMAIN_DRIVER_API, id);
  for (CUpti_CallbackId id : kLaunchIds)
    api->cuptiEnableCallback(Calls || Now != Mode::Off, Subscriber,
                             CUPTI_CB_DOMAIN_DRIVER_API, id);
}

int Callbacks::beginLaunches() {
  std::lock_guard<std::mutex> lock(Mutex);
  if (Now != Mode::Off)
    return failWith(OPPROF_INVALID, "launches are already being recorded");
  if (int status = subscribe())
    return status;
  {
    std::lock_guard<std::mutex> launches(LaunchMutex);
    Recorded.clear();
    Names.clear();
    Kernels.clear();
    GraphKernels.clear();
    KeptKernels = 0;
    KeepKernels = true;
    Seen = 0;
    Now = Mode::Record;
  }
  enableCalls();
  return OPPROF_OK;
}

int Callbacks::endLaunches() {
  std::lock_guard<std::mutex> lock(Mutex);
  if (Now != Mode::Record)
    return failWith(OPPROF_INVALID, "launches are not being recorded");
  Now = Mode::Off;
  enableCalls();
  unsubscribe();
  return OPPROF_OK;
}

int Callbacks::beginCheck(LaunchHook hook) {
  std::lock_guard<std::mutex> lock(Mutex);
  if (Now != Mode::Off)
    return failWith(OPPROF_INVALID, "a pass is already running");
  if (int status = subscribe())
    return status;
  {
    std::lock_guard<std::mutex> launches(LaunchMutex);
    KeepKernels = false;
    Hook = hook ? std::make_shared<LaunchHook>(std::move(hook)) : nullptr;
    Seen = SeenInPass = 0;
    Difference.clear();
    Now = Mode::Check;
  }
  enableCalls();
  return OPPROF_OK;
}

void Callbacks::checkEnd() {
  if (Difference.empty() && Seen < Recorded.size())
    Difference = "the pass ended after launch " + std::to_string(Seen) +
                 " of " + std::to_string(Recorded.size()) + "; the next was " +
                 describe(Recorded[Seen]);
}

void Callbacks::nextRun() {
  std::lock_guard<std::mutex> launches(LaunchMutex);
  checkEnd();
  Seen = 0;
}

int Callbacks::endCheck() {
  std::lock_guard<std::mutex> lock(Mutex);
  if (Now != Mode::Check)
    return failWith(OPPROF_INVALID, "no pass is running");
  Now = Mode::Off;
  enableCalls();
  unsubscribe();
  std::lock_guard<std::mutex> launches(LaunchMutex);
  Hook = nullptr;
  checkEnd();
  if (Difference.empty())
    return OPPROF_OK;
  return failWith(
      OPPROF_NOT_REPLAYABLE,
      "the step does not launch the same kernels every time: " + Difference +
          ". Use replay=\"kernel\" (slower, but each kernel is "
          "repeated by itself), or make the step repeatable");
}

void Callbacks::addKernels(const std::vector<NamedKernel> &kernels) {
  std::lock_guard<std::mutex> lock(LaunchMutex);
  // A long timeline without a step must not gather its kernels here.
  if (!KeepKernels || KeptKernels > (1u << 20))
    return;
  KeptKernels += kernels.size();
  for (const NamedKernel &kernel : kernels) {
    if (kernel.first.graphNode)
      GraphKernels[kernel.first.correlation].push_back(kernel);
    else
      Kernels.emplace(kernel.first.correlation, kernel.first);
  }
}

std::vector<Launch> Callbacks::launches() const {
  std::lock_guard<std::mutex> lock(LaunchMutex);
  return Recorded;
}

size_t Callbacks::launchCount() const {
  std::lock_guard<std::mutex> lock(LaunchMutex);
  return Recorded.size();
}

const std::string &Callbacks::name(uint32_t index) const {
  std::lock_guard<std::mutex> lock(LaunchMutex);
  return Names[index];
}

std::optional<Callbacks::NamedLaunch> Callbacks::launch(size_t index) const {
  std::lock_guard<std::mutex> lock(LaunchMutex);
  if (index >= Recorded.size())
    return std::nullopt;
  const Launch &launch = Recorded[index];
  NamedLaunch result{launch, Names[launch.name].c_str(), std::nullopt};
  auto it = Kernels.find(launch.correlation);
  if (launch.kind != 1 && it != Kernels.end())
    result.kernel = it->second;
  return result;
}

std::optional<Callbacks::NamedKernel>
Callbacks::kernelOfGraph(const Launch &launch, size_t index, size_t &count) {
  std::lock_guard<std::mutex> lock(LaunchMutex);
  count = 0;
  auto it = GraphKernels.find(launch.correlation);
  if (launch.kind != 1 || it == GraphKernels.end())
    return std::nullopt;
  auto byNode = [](const NamedKernel &a, const NamedKernel &b) {
    return a.first.graphNode < b.first.graphNode;
  };
  // Branches of a graph run side by side, so their times say nothing.
  std::vector<NamedKernel> &kernels = it->second;
  if (!std::is_sorted(kernels.begin(), kernels.end(), byNode))
    std::stable_sort(kernels.begin(), kernels.end(), byNode);
  count = kernels.size();
  if (index >= count)
    return std::nullopt;
  return kernels[index];
}

std::string Callbacks::describe(const Launch &l) const {
  if (l.kind == 1)
    return "a CUDA graph";
  std::string text = Names[l.name] + " grid (";
  for (int i = 0; i < 3; ++i)
    text += (i ? ", " : "") + std::to_string(l.grid[i]);
  text += ") block (";
  for (int i = 0; i < 3; ++i)
    text += (i ? ", " : "") + std::to_string(l.block[i]);
  return text + ")";
}

uint32_t Callbacks::nameIndex(const char *name) {
  std::string_view text = name ? name : "(unnamed)";
  // Steps repeat few kernels; the list stays short.
  for (size_t i = Names.size(); i-- > 0;)
    if (Names[i] == text)
      return uint32_t(i);
  Names.emplace_back(text);
  return uint32_t(Names.size() - 1);
}

void CUPTIAPI Callbacks::callback(void *, CUpti_CallbackDomain domain,
                                  CUpti_CallbackId cbid, const void *data) {
  Callbacks &self = get();
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API) {
    auto &call = *static_cast<const CUpti_CallbackData *>(data);
    if (self.Calls)
      HostCalls::get().note(cbid, call);
    if (self.Now != Mode::Off &&
        std::find(std::begin(kLaunchIds), std::end(kLaunchIds), cbid) !=
            std::end(kLaunchIds))
      self.onLaunch(cbid, call);
  } else if (domain == CUPTI_CB_DOMAIN_RESOURCE)
    self.onResource(cbid, *static_cast<const CUpti_ResourceData *>(data));
}

void Callbacks::onLaunch(CUpti_CallbackId cbid,
                         const CUpti_CallbackData &data) {
  // The hook calls CUPTI, which may launch work of its own.
  static thread_local bool inside = false;
  if (inside)
    return;
  struct Guard {
    Guard() { inside = true; }
    ~Guard() { inside = false; }
  } guard;
  // The launch that this thread is in, for the way out of it.
  static thread_local size_t current = 0;
  std::unique_lock<std::mutex> lock(LaunchMutex);
  Mode mode = Now;
  if (mode == Mode::Off)
    return;
  // Called without the lock: the hook waits for CUPTI, which may be waiting
  // here with another thread's launch.
  std::shared_ptr<LaunchHook> hook = Hook;
  if (data.callbackSite == CUPTI_API_EXIT) {
    lock.unlock();
    if (mode == Mode::Check && hook)
      (*hook)(current, false);
    return;
  }
  Launch launch{};
  launch.externalId = IdStack::top();
  launch.correlation = data.correlationId;
  switch (cbid) {
  case CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch:
  case CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz:
    launch.kind = 1;
    launch.name = nameIndex("(CUDA graph)");
    break;
  case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx:
  case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz: {
    auto *p = static_cast<const LaunchExParams *>(data.functionParams);
    if (p->config) {
      launch.grid[0] = int32_t(p->config->gridDimX);
      launch.grid[1] = int32_t(p->config->gridDimY);
      launch.grid[2] = int32_t(p->config->gridDimZ);
      launch.block[0] = int32_t(p->config->blockDimX);
      launch.block[1] = int32_t(p->config->blockDimY);
      launch.block[2] = int32_t(p->config->blockDimZ);
    }
    launch.name = nameIndex(data.symbolName);
    break;
  }
  default: {
    // The other launch calls begin with the same parameters.
    auto *p = static_cast<const LaunchParams *>(data.functionParams);
    std::copy(p->grid, p->grid + 3, launch.grid);
    std::copy(p->block, p->block + 3, launch.block);
    launch.name = nameIndex(data.symbolName);
  }
  }
  if (mode == Mode::Record) {
    Recorded.push_back(launch);
    return;
  }
  size_t index = Seen++;
  if (Difference.empty()) {
    if (index >= Recorded.size())
      Difference = "launch " + std::to_string(index) + ", " + describe(launch) +
                   ", was not there when the step was "
                   "recorded (" +
                   std::to_string(Recorded.size()) + " launches)";
    else if (!launch.sameAs(Recorded[index]))
      Difference = "launch " + std::to_string(index) + " was " +
                   describe(Recorded[index]) + " and is now " +
                   describe(launch);
  }
  current = SeenInPass++;
  lock.unlock();
  if (hook)
    (*hook)(current, true);
}

void Callbacks::onResource(CUpti_CallbackId cbid,
                           const CUpti_ResourceData &data) {
  const CuptiApi *api = cupti();
  std::shared_ptr<Session> session = Session::current();
  auto *graph = static_cast<const CUpti_GraphData *>(data.resourceDescriptor);
  if (!session || !graph || !api->cuptiGetGraphNodeId)
    return;
  GraphNodeRecord record{};
  if (api->cuptiGetGraphNodeId(graph->node, &record.node) != CUPTI_SUCCESS)
    return;
  record.type = uint32_t(graph->nodeType);
  if (api->cuptiGetGraphId && graph->graph)
    api->cuptiGetGraphId(graph->graph, &record.graph);
  if (cbid == CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED)
    api->cuptiGetGraphNodeId(graph->originalNode, &record.original);
  else
    record.externalId = IdStack::top();
  session->graphNode(record);
}
