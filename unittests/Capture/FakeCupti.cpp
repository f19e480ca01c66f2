// A CUPTI and a driver without a GPU. A shared object with the entry points
// that the capture library uses. It hands out activity records through the real
// buffer protocol, calls the subscriber round launches, and plays the range
// profiler, so that everything on the host's side is tested where there is no
// GPU. `fake_*` functions play the program.

#include <cuda.h>
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_driver_cbid.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_result.h>
#include <cupti_runtime_cbid.h>
#include <cupti_target.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {
struct State {
  std::recursive_mutex Mutex;
  CUpti_BuffersCallbackRequestFunc Request = nullptr;
  CUpti_BuffersCallbackCompleteFunc Complete = nullptr;
  std::set<int> Enabled;
  bool Apis = false;
  uint8_t *Buffer = nullptr;
  size_t Size = 0, Used = 0, Dropped = 0;
  uint32_t Correlation = 100;
  uint64_t NextNode = 1000;

  CUpti_CallbackFunc Subscriber = nullptr;
  std::set<std::pair<int, uint32_t>> Callbacks;

  // The range profiler.
  bool Profiling = false, Started = false, InRange = false, RangeIsNew = false;
  CUpti_RangeProfiler_SetConfig_Params Config{};
  size_t Pass = 0, RangesInPass = 0, Launched = 0;
  std::vector<std::string> RangeNames;
  std::vector<std::vector<size_t>> RangeLaunches;
  std::vector<const char *> Metrics;
  size_t Passes = 1;
  std::string Pushed;
};

} // namespace

static State &state() {
  static auto *s = new State;
  return *s;
}

namespace {
thread_local std::map<int, std::vector<uint64_t>> ExternalIds;

} // namespace

static uint64_t nowNs() {
  return uint64_t(std::chrono::duration_cast<std::chrono::nanoseconds>(
                      std::chrono::steady_clock::now().time_since_epoch())
                      .count());
}

static bool flag(const char *name) {
  const char *value = std::getenv(name);
  return value && *value == '1';
}

static void completeBuffer(State &s) {
  if (!s.Buffer)
    return;
  uint8_t *buffer = s.Buffer;
  size_t size = s.Size, used = s.Used;
  s.Buffer = nullptr;
  s.Complete(nullptr, 0, buffer, size, used);
}

template <typename T> static void emit(State &s, const T &record) {
  static_assert(sizeof(T) % 8 == 0);
  if (!s.Request)
    return;
  if (s.Buffer && s.Used + sizeof(T) > s.Size)
    completeBuffer(s);
  if (!s.Buffer) {
    size_t records = 0;
    s.Used = 0;
    s.Request(&s.Buffer, &s.Size, &records);
    if (!s.Buffer) {
      ++s.Dropped;
      return;
    }
  }
  std::memcpy(s.Buffer + s.Used, &record, sizeof(T));
  s.Used += sizeof(T);
}

static size_t sizeOf(const uint8_t *record) {
  CUpti_ActivityKind kind;
  std::memcpy(&kind, record, sizeof(kind));
  switch (kind) {
  case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
    return sizeof(CUpti_ActivityKernel10);
  case CUPTI_ACTIVITY_KIND_RUNTIME:
    return sizeof(CUpti_ActivityAPI);
  case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
    return sizeof(CUpti_ActivityExternalCorrelation);
  case CUPTI_ACTIVITY_KIND_MEMCPY:
    return sizeof(CUpti_ActivityMemcpy6);
  case CUPTI_ACTIVITY_KIND_MEMSET:
    return sizeof(CUpti_ActivityMemset4);
  case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
    return sizeof(CUpti_ActivitySynchronization2);
  case CUPTI_ACTIVITY_KIND_OVERHEAD:
    return sizeof(CUpti_ActivityOverhead3);
  case CUPTI_ACTIVITY_KIND_MARKER:
    return sizeof(CUpti_ActivityMarker2);
  case CUPTI_ACTIVITY_KIND_MEMORY2:
    return sizeof(CUpti_ActivityMemory4);
  case CUPTI_ACTIVITY_KIND_JIT:
    return sizeof(CUpti_ActivityJit2);
  default:
    return 0;
  }
}

static void callback(State &s, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                     const void *data) {
  if (s.Subscriber && s.Callbacks.count({domain, id}))
    s.Subscriber(nullptr, domain, id, data);
}

namespace {
const char *const kMetricNames[] = {
    "gpu__time_duration",
    "dram__bytes_read",
    "dram__bytes_write",
    "dram__bytes",
    "lts__t_sectors",
    "lts__t_tag_requests",
    "lts__t_tag_requests_hit",
    "l1tex__t_sectors",
    "l1tex__t_sectors_lookup_hit",
    "sm__cycles_active",
    "sm__cycles_elapsed",
    "sm__warps_active",
    "smsp__issue_active",
    "smsp__inst_executed",
    "smsp__thread_inst_executed",
    "sm__pipe_tensor_cycles_active",
    "l1tex__t_output_wavefronts_pipe_lsu_mem_local",
};

} // namespace

static int metricNumber(const char *name) {
  std::string base = std::string(name).substr(0, std::strcspn(name, "."));
  if (base.size() == std::strlen(name))
    return -1;
  int i = 0;
  for (const char *known : kMetricNames) {
    if (base == known)
      return i;
    ++i;
  }
  return -1;
}

//===----------------------------------------------------------------------===//
// The driver
//===----------------------------------------------------------------------===//

EXPORT CUresult CUDAAPI cuInit(unsigned) {
  const char *error = std::getenv("FAKE_CUDA_INIT_ERROR");
  return error ? CUresult(std::atoi(error)) : CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuDriverGetVersion(int *version) {
  State &s = state();
  std::lock_guard<std::recursive_mutex> lock(s.Mutex);
  CUpti_CallbackData data{};
  for (CUpti_ApiCallbackSite site : {CUPTI_API_ENTER, CUPTI_API_EXIT}) {
    data.callbackSite = site;
    data.correlationId = s.Correlation + 1;
    callback(s, CUPTI_CB_DOMAIN_DRIVER_API,
             CUPTI_DRIVER_TRACE_CBID_cuDriverGetVersion, &data);
    // What CUPTI takes for one.
    if (s.Callbacks.count({CUPTI_CB_DOMAIN_DRIVER_API,
                           CUPTI_DRIVER_TRACE_CBID_cuDriverGetVersion}))
      for (uint64_t until = nowNs() + 500; nowNs() < until;)
        ;
  }
  *version = 13000;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuCtxGetCurrent(CUcontext *context) {
  *context =
      flag("FAKE_CUDA_NO_CONTEXT") ? nullptr : reinterpret_cast<CUcontext>(1);
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuCtxSynchronize() { return CUDA_SUCCESS; }
EXPORT CUresult CUDAAPI cuCtxGetDevice(CUdevice *device) {
  *device = 0;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuDeviceGet(CUdevice *device, int ordinal) {
  *device = ordinal;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuDeviceGetCount(int *count) {
  // A driver that is still starting.
  std::lock_guard<std::recursive_mutex> lock(state().Mutex);
  if (flag("FAKE_CUDA_STARTING") && state().Correlation == 100)
    return CUDA_ERROR_NOT_INITIALIZED;
  *count = 1;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuDeviceGetName(char *name, int size, CUdevice) {
  std::strncpy(name, "Fake H200", size_t(size));
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuDeviceGetAttribute(int *value,
                                             CUdevice_attribute attribute,
                                             CUdevice) {
  *value = attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT ? 132 : 32;
  return CUDA_SUCCESS;
}
EXPORT CUresult CUDAAPI cuDeviceTotalMem(size_t *bytes, CUdevice) {
  *bytes = size_t(1) << 37;
  return CUDA_SUCCESS;
}

//===----------------------------------------------------------------------===//
// Activity
//===----------------------------------------------------------------------===//

EXPORT CUptiResult cuptiGetVersion(uint32_t *version) {
  *version = 130001;
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiGetResultString(CUptiResult, const char **text) {
  *text = "a fake error";
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiGetTimestamp(uint64_t *time) {
  *time = nowNs();
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  std::lock_guard<std::recursive_mutex> lock(state().Mutex);
  if (kind == CUPTI_ACTIVITY_KIND_MARKER && flag("FAKE_CUPTI_NO_MARKERS"))
    return CUPTI_ERROR_NOT_COMPATIBLE;
  state().Enabled.insert(kind);
  if (kind == CUPTI_ACTIVITY_KIND_RUNTIME)
    state().Apis = true;
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  std::lock_guard<std::recursive_mutex> lock(state().Mutex);
  state().Enabled.erase(kind);
  if (kind == CUPTI_ACTIVITY_KIND_RUNTIME)
    state().Apis = false;
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult
cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                               CUpti_BuffersCallbackCompleteFunc complete) {
  std::lock_guard<std::recursive_mutex> lock(state().Mutex);
  state().Request = request;
  state().Complete = complete;
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid,
                                              CUpti_Activity **record) {
  uint8_t *next = *record ? reinterpret_cast<uint8_t *>(*record) +
                                sizeOf(reinterpret_cast<uint8_t *>(*record))
                          : buffer;
  if (next >= buffer + valid)
    return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity *>(next);
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t,
                                                     size_t *dropped) {
  std::lock_guard<std::recursive_mutex> lock(state().Mutex);
  *dropped = state().Dropped;
  state().Dropped = 0;
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiActivityFlushAll(uint32_t) {
  std::lock_guard<std::recursive_mutex> lock(state().Mutex);
  completeBuffer(state());
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiActivityPushExternalCorrelationId(
    CUpti_ExternalCorrelationKind kind, uint64_t id) {
  ExternalIds[kind].push_back(id);
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiActivityPopExternalCorrelationId(
    CUpti_ExternalCorrelationKind kind, uint64_t *last) {
  auto &stack = ExternalIds[kind];
  if (stack.empty())
    return CUPTI_ERROR_QUEUE_EMPTY;
  *last = stack.back();
  stack.pop_back();
  return CUPTI_SUCCESS;
}

//===----------------------------------------------------------------------===//
// Callbacks
//===----------------------------------------------------------------------===//

EXPORT CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *handle,
                                  CUpti_CallbackFunc function, void *) {
  std::lock_guard<std::recursive_mutex> lock(state().Mutex);
  if (state().Subscriber || flag("FAKE_CUPTI_BUSY"))
    return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  state().Subscriber = function;
  *handle = reinterpret_cast<CUpti_SubscriberHandle>(1);
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiSubscribe_v2(CUpti_SubscriberHandle *handle,
                                     CUpti_CallbackFunc function, void *data,
                                     CUpti_SubscriberParams *params) {
  CUptiResult result = cuptiSubscribe(handle, function, data);
  if (result != CUPTI_SUCCESS && params && params->oldSubscriberName)
    std::strncpy(params->oldSubscriberName, "CUPTI for Kineto",
                 params->oldSubscriberSize);
  return result;
}
EXPORT CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle) {
  std::lock_guard<std::recursive_mutex> lock(state().Mutex);
  state().Subscriber = nullptr;
  state().Callbacks.clear();
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiEnableCallback(uint32_t on, CUpti_SubscriberHandle,
                                       CUpti_CallbackDomain domain,
                                       CUpti_CallbackId id) {
  std::lock_guard<std::recursive_mutex> lock(state().Mutex);
  if (on)
    state().Callbacks.insert({domain, id});
  else
    state().Callbacks.erase({domain, id});
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain,
                                        uint32_t id, const char **name) {
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API) {
    *name = id == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel  ? "cuLaunchKernel"
            : id == CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch ? "cuGraphLaunch"
            : id == CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2
                ? "cuMemcpyHtoDAsync_v2"
                : "cuCtxGetDevice";
    return id < CUPTI_DRIVER_TRACE_CBID_SIZE ? CUPTI_SUCCESS
                                             : CUPTI_ERROR_INVALID_PARAMETER;
  }
  static const char *const names[] = {
      "cudaGetDevice_v3020", "cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020"};
  if (domain != CUPTI_CB_DOMAIN_RUNTIME_API || id < 1 || id > std::size(names))
    return CUPTI_ERROR_INVALID_PARAMETER;
  *name = names[id - 1];
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiGetGraphNodeId(CUgraphNode node, uint64_t *id) {
  *id = reinterpret_cast<uint64_t>(node);
  return *id ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

//===----------------------------------------------------------------------===//
// The range profiler
//===----------------------------------------------------------------------===//

EXPORT CUptiResult cuptiProfilerInitialize(CUpti_Profiler_Initialize_Params *) {
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult
cuptiProfilerDeviceSupported(CUpti_Profiler_DeviceSupported_Params *p) {
  p->isSupported = CUPTI_PROFILER_CONFIGURATION_SUPPORTED;
  if (flag("FAKE_CUPTI_CONFIDENTIAL")) {
    p->isSupported = CUPTI_PROFILER_CONFIGURATION_UNSUPPORTED;
    p->confidentialCompute = CUPTI_PROFILER_CONFIGURATION_UNSUPPORTED;
  }
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiProfilerGetCounterAvailability(
    CUpti_Profiler_GetCounterAvailability_Params *p) {
  p->counterAvailabilityImageSize = 16;
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiDeviceGetChipName(CUpti_Device_GetChipName_Params *p) {
  p->pChipName = "GH100";
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult
cuptiProfilerHostInitialize(CUpti_Profiler_Host_Initialize_Params *p) {
  if (std::strcmp(p->pChipName, "GH100") != 0)
    return CUPTI_ERROR_INVALID_CHIP_NAME;
  p->pHostObject = reinterpret_cast<CUpti_Profiler_Host_Object *>(1);
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult
cuptiProfilerHostDeinitialize(CUpti_Profiler_Host_Deinitialize_Params *) {
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult
cuptiProfilerHostGetBaseMetrics(CUpti_Profiler_Host_GetBaseMetrics_Params *p) {
  static const char *names[std::size(kMetricNames)];
  std::copy(std::begin(kMetricNames), std::end(kMetricNames), names);
  p->ppMetricNames = names;
  p->numMetrics =
      p->metricType == CUPTI_METRIC_TYPE_COUNTER ? std::size(kMetricNames) : 0;
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult
cuptiProfilerHostGetSubMetrics(CUpti_Profiler_Host_GetSubMetrics_Params *) {
  return CUPTI_ERROR_NOT_SUPPORTED;
}
EXPORT CUptiResult cuptiProfilerHostConfigAddMetrics(
    CUpti_Profiler_Host_ConfigAddMetrics_Params *p) {
  for (size_t i = 0; i < p->numMetrics; ++i)
    if (metricNumber(p->ppMetricNames[i]) < 0)
      return CUPTI_ERROR_INVALID_METRIC_NAME;
  // Local-memory wavefronts need a pass of their own, as on Hopper.
  state().Passes = 1;
  for (size_t i = 0; i < p->numMetrics; ++i)
    if (std::strstr(p->ppMetricNames[i], "mem_local"))
      state().Passes = 2;
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiProfilerHostGetConfigImageSize(
    CUpti_Profiler_Host_GetConfigImageSize_Params *p) {
  p->configImageSize = 64;
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult
cuptiProfilerHostGetConfigImage(CUpti_Profiler_Host_GetConfigImage_Params *p) {
  std::memset(p->pConfigImage, 7, p->configImageSize);
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult
cuptiProfilerHostGetNumOfPasses(CUpti_Profiler_Host_GetNumOfPasses_Params *p) {
  p->numOfPasses = state().Passes;
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult
cuptiRangeProfilerEnable(CUpti_RangeProfiler_Enable_Params *p) {
  if (flag("FAKE_CUPTI_DENY"))
    return CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
  if (const char *error = std::getenv("FAKE_CUPTI_ENABLE_ERROR"))
    return CUptiResult(std::atoi(error));
  if (state().Profiling)
    return CUPTI_ERROR_HARDWARE_BUSY;
  state().Profiling = true;
  state().Pass = 0;
  state().RangeNames.clear();
  state().RangeLaunches.clear();
  p->pRangeProfilerObject = reinterpret_cast<CUpti_RangeProfiler_Object *>(1);
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult
cuptiRangeProfilerDisable(CUpti_RangeProfiler_Disable_Params *) {
  state().Profiling = state().Started = false;
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiRangeProfilerGetCounterDataSize(
    CUpti_RangeProfiler_GetCounterDataSize_Params *p) {
  p->counterDataSize = 64 * p->maxNumOfRanges;
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiRangeProfilerCounterDataImageInitialize(
    CUpti_RangeProfiler_CounterDataImage_Initialize_Params *p) {
  std::memset(p->pCounterData, 0, p->counterDataSize);
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult
cuptiRangeProfilerSetConfig(CUpti_RangeProfiler_SetConfig_Params *p) {
  state().Config = *p;
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiRangeProfilerStart(CUpti_RangeProfiler_Start_Params *) {
  if (!state().Profiling || state().Started)
    return CUPTI_ERROR_INVALID_OPERATION;
  state().Started = true;
  state().RangesInPass = state().Launched = 0;
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiRangeProfilerStop(CUpti_RangeProfiler_Stop_Params *p) {
  state().Started = false;
  ++state().Pass;
  p->isAllPassSubmitted = state().Config.replayMode == CUPTI_KernelReplay ||
                          state().Pass >= state().Passes;
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult
cuptiRangeProfilerPushRange(CUpti_RangeProfiler_PushRange_Params *p) {
  if (!state().Started || state().InRange ||
      state().Config.range != CUPTI_UserRange)
    return CUPTI_ERROR_INVALID_OPERATION;
  state().InRange = state().RangeIsNew = true;
  state().Pushed = p->pRangeName;
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult
cuptiRangeProfilerPopRange(CUpti_RangeProfiler_PopRange_Params *) {
  if (!state().InRange)
    return CUPTI_ERROR_INVALID_OPERATION;
  state().InRange = false;
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult
cuptiRangeProfilerDecodeData(CUpti_RangeProfiler_DecodeData_Params *p) {
  p->numOfRangeDropped = 0;
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiRangeProfilerGetCounterDataInfo(
    CUpti_RangeProfiler_GetCounterDataInfo_Params *p) {
  p->numTotalRanges = state().RangeNames.size();
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiRangeProfilerCounterDataGetRangeInfo(
    CUpti_RangeProfiler_CounterData_GetRangeInfo_Params *p) {
  p->rangeName = state().RangeNames[p->rangeIndex].c_str();
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiProfilerHostEvaluateToGpuValues(
    CUpti_Profiler_Host_EvaluateToGpuValues_Params *p) {
  std::fill(p->pMetricValues, p->pMetricValues + p->numMetrics, 0.0);
  for (size_t i = 0; i < p->numMetrics; ++i)
    for (size_t launch : state().RangeLaunches[p->rangeIndex])
      p->pMetricValues[i] +=
          1000.0 * (metricNumber(p->ppMetricNames[i]) + 1) + double(launch);
  return CUPTI_SUCCESS;
}

//===----------------------------------------------------------------------===//
// The program
//===----------------------------------------------------------------------===//

static void runKernel(State &s, const char *name, uint32_t grid, uint32_t block,
                      uint64_t node, uint32_t correlation) {
  if (s.Started) {
    size_t launch = s.Launched++;
    bool counts = s.Config.range == CUPTI_AutoRange || s.InRange;
    if (counts && s.Pass == 0) {
      if (!s.InRange || s.RangeIsNew) {
        s.RangeNames.push_back(s.InRange ? s.Pushed
                                         : std::to_string(s.RangesInPass));
        s.RangeLaunches.emplace_back();
      }
      s.RangeIsNew = false;
      s.RangeLaunches.back().push_back(launch);
    }
    s.RangesInPass += counts;
  }
  if (!s.Enabled.count(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL))
    return;
  CUpti_ActivityKernel10 k{};
  k.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  k.start = nowNs();
  k.end = k.start + 1234;
  k.name = name;
  k.correlationId = correlation;
  k.gridX = int32_t(grid);
  k.gridY = k.gridZ = 1;
  k.blockX = int32_t(block);
  k.blockY = k.blockZ = 1;
  k.registersPerThread = 40;
  k.localMemoryPerThread = std::strstr(name, "spill") ? 64 : 0;
  k.dynamicSharedMemory = 2048;
  k.streamId = 7;
  k.graphNodeId = node;
  emit(s, k);
}

/// Launches a kernel on this thread, as cuLaunchKernel would.
EXPORT void fake_launch(const char *name, uint32_t grid, uint32_t block) {
  State &s = state();
  std::lock_guard<std::recursive_mutex> lock(s.Mutex);
  uint32_t correlation = ++s.Correlation;
  struct {
    CUfunction function;
    unsigned grid[3], block[3], shared;
    CUstream stream;
  } params{nullptr, {grid, 1, 1}, {block, 1, 1}, 0, nullptr};
  CUpti_CallbackData data{};
  data.callbackSite = CUPTI_API_ENTER;
  data.functionParams = &params;
  data.symbolName = name;
  data.correlationId = correlation;
  callback(s, CUPTI_CB_DOMAIN_DRIVER_API,
           CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, &data);
  uint64_t start = nowNs();
  // As CUPTI does: no ids unless the kind of the call is recorded.
  if (s.Enabled.count(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION) &&
      s.Enabled.count(CUPTI_ACTIVITY_KIND_RUNTIME))
    for (auto &[kind, ids] : ExternalIds)
      if (!ids.empty()) {
        CUpti_ActivityExternalCorrelation e{};
        e.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
        e.externalKind = CUpti_ExternalCorrelationKind(kind);
        e.externalId = ids.back();
        e.correlationId = correlation;
        emit(s, e);
      }
  runKernel(s, name, grid, block, 0, correlation);
  // A call that asks for the device, and the launch.
  for (uint32_t cbid : {1u, 2u}) {
    if (!s.Apis)
      continue;
    CUpti_ActivityAPI a{};
    a.kind = CUPTI_ACTIVITY_KIND_RUNTIME;
    a.cbid = cbid;
    a.start = start;
    a.end = nowNs();
    a.correlationId = correlation;
    emit(s, a);
  }
  data.callbackSite = CUPTI_API_EXIT;
  callback(s, CUPTI_CB_DOMAIN_DRIVER_API,
           CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, &data);
}

/// Copies through the runtime, which calls the driver.
EXPORT void fake_copy(uint64_t bytes) {
  State &s = state();
  std::lock_guard<std::recursive_mutex> lock(s.Mutex);
  uint32_t status = 0;
  CUpti_CallbackData data{};
  data.correlationId = ++s.Correlation;
  data.functionReturnValue = &status;
  const std::pair<CUpti_CallbackDomain, CUpti_CallbackId> calls[] = {
      {CUPTI_CB_DOMAIN_RUNTIME_API, 3},
      {CUPTI_CB_DOMAIN_DRIVER_API,
       CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2}};
  data.callbackSite = CUPTI_API_ENTER;
  for (auto [domain, id] : calls)
    callback(s, domain, id, &data);
  if (s.Enabled.count(CUPTI_ACTIVITY_KIND_MEMCPY)) {
    CUpti_ActivityMemcpy6 c{};
    c.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
    c.copyKind = 1;
    c.bytes = bytes;
    c.correlationId = data.correlationId;
    emit(s, c);
  }
  data.callbackSite = CUPTI_API_EXIT;
  for (auto [domain, id] : {calls[1], calls[0]})
    callback(s, domain, id, &data);
}

/// Captures one kernel into a graph and instantiates it; returns the node that
/// replays will name.
EXPORT uint64_t fake_graph(void) {
  State &s = state();
  std::lock_guard<std::recursive_mutex> lock(s.Mutex);
  CUpti_GraphData graph{};
  graph.node = reinterpret_cast<CUgraphNode>(++s.NextNode);
  CUpti_ResourceData data{};
  data.resourceDescriptor = &graph;
  callback(s, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED,
           &data);
  graph.originalNode = graph.node;
  graph.node = reinterpret_cast<CUgraphNode>(++s.NextNode);
  callback(s, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED,
           &data);
  return s.NextNode;
}

EXPORT void fake_graph_launch(const char *name, uint64_t node) {
  State &s = state();
  std::lock_guard<std::recursive_mutex> lock(s.Mutex);
  CUpti_CallbackData data{};
  data.callbackSite = CUPTI_API_ENTER;
  data.correlationId = ++s.Correlation;
  callback(s, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch,
           &data);
  runKernel(s, name, 1, 1, node, s.Correlation);
  data.callbackSite = CUPTI_API_EXIT;
  callback(s, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch,
           &data);
}

/// Replays a graph of several kernels.
EXPORT void fake_graph_replay(const char *const *names, const uint64_t *nodes,
                              size_t count) {
  State &s = state();
  std::lock_guard<std::recursive_mutex> lock(s.Mutex);
  CUpti_CallbackData data{};
  data.callbackSite = CUPTI_API_ENTER;
  data.correlationId = ++s.Correlation;
  callback(s, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch,
           &data);
  CUpti_ActivityAPI a{};
  a.kind = CUPTI_ACTIVITY_KIND_RUNTIME;
  a.cbid = 2;
  a.start = nowNs();
  for (size_t i = 0; i < count; ++i)
    runKernel(s, names[i], 4, 128, nodes[i], data.correlationId);
  a.end = nowNs();
  a.correlationId = data.correlationId;
  if (s.Apis)
    emit(s, a);
  data.callbackSite = CUPTI_API_EXIT;
  callback(s, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch,
           &data);
}

/// One record of every other kind, and one that no reader of today knows.
EXPORT void fake_others(void) {
  State &s = state();
  std::lock_guard<std::recursive_mutex> lock(s.Mutex);
  CUpti_ActivityMemcpy6 c{};
  c.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
  c.copyKind = 1;
  c.bytes = 4096;
  c.start = nowNs();
  c.end = c.start + 10;
  emit(s, c);
  CUpti_ActivityMemset4 m{};
  m.kind = CUPTI_ACTIVITY_KIND_MEMSET;
  m.bytes = 64;
  emit(s, m);
  CUpti_ActivitySynchronization2 y{};
  y.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
  y.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE;
  emit(s, y);
  CUpti_ActivityOverhead3 o{};
  o.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
  emit(s, o);
  CUpti_ActivityMarker2 r{};
  r.kind = CUPTI_ACTIVITY_KIND_MARKER;
  r.id = 5;
  r.name = "layer::unique::h.0";
  r.flags = CUPTI_ACTIVITY_FLAG_MARKER_START;
  r.timestamp = 10;
  emit(s, r);
  r.name = nullptr;
  r.flags = CUPTI_ACTIVITY_FLAG_MARKER_END;
  r.timestamp = 20;
  emit(s, r);
  CUpti_ActivityMemory4 a{};
  a.kind = CUPTI_ACTIVITY_KIND_MEMORY2;
  a.memoryOperationType = CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION;
  a.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  a.address = 4096;
  a.bytes = 1000;
  emit(s, a);
  CUpti_ActivityJit2 j{};
  j.kind = CUPTI_ACTIVITY_KIND_JIT;
  emit(s, j);
}

/// Completes a buffer that the running capture never handed out.
EXPORT void fake_foreign_buffer(void) {
  static uint8_t buffer[4096];
  state().Complete(nullptr, 0, buffer, sizeof(buffer), 8);
}

/// CUPTI's own entry for NVTX; the fake only remembers what it was handed.
static void *NvtxTable = nullptr;
EXPORT int InitializeInjectionNvtx2(void *exportTable) {
  NvtxTable = exportTable;
  return 1;
}
EXPORT void *fake_nvtx(void) { return NvtxTable; }

EXPORT int fake_profiling(void) {
  return state().Profiling + 2 * state().Started;
}
