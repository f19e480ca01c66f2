// CUPTI and the driver, found at run time. The entry points that the capture
// library uses, as function pointers. None is linked: the library loads in a
// process without CUDA, and uses the CUPTI that PyTorch brought.

#ifndef OPPROF_LIB_CAPTURE_CUPTI_H
#define OPPROF_LIB_CAPTURE_CUPTI_H

#include <cuda.h>
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_driver_cbid.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_runtime_cbid.h>
#include <cupti_target.h>
#include <cupti_version.h>

#include <string>

namespace opprof::capture {

// Entry points without which there is no timeline.
#define OPPROF_CUPTI_REQUIRED(X)                                               \
  X(cuptiGetVersion)                                                           \
  X(cuptiGetResultString)                                                      \
  X(cuptiGetTimestamp)                                                         \
  X(cuptiActivityEnable)                                                       \
  X(cuptiActivityDisable)                                                      \
  X(cuptiActivityRegisterCallbacks)                                            \
  X(cuptiActivityGetNextRecord)                                                \
  X(cuptiActivityGetNumDroppedRecords)                                         \
  X(cuptiActivityFlushAll)                                                     \
  X(cuptiActivityPushExternalCorrelationId)                                    \
  X(cuptiActivityPopExternalCorrelationId)                                     \
  X(cuptiSubscribe)                                                            \
  X(cuptiUnsubscribe)                                                          \
  X(cuptiEnableCallback)                                                       \
  X(cuptiGetCallbackName)

// Entry points whose absence turns one feature off.
#define OPPROF_CUPTI_OPTIONAL(X)                                               \
  X(cuptiSubscribe_v2)                                                         \
  X(cuptiActivityFlushPeriod)                                                  \
  X(cuptiSetThreadIdType)                                                      \
  X(cuptiGetGraphNodeId)                                                       \
  X(cuptiGetGraphId)                                                           \
  X(cuptiProfilerInitialize)                                                   \
  X(cuptiProfilerDeviceSupported)                                              \
  X(cuptiProfilerGetCounterAvailability)                                       \
  X(cuptiDeviceGetChipName)                                                    \
  X(cuptiProfilerHostInitialize)                                               \
  X(cuptiProfilerHostDeinitialize)                                             \
  X(cuptiProfilerHostGetBaseMetrics)                                           \
  X(cuptiProfilerHostGetSubMetrics)                                            \
  X(cuptiProfilerHostConfigAddMetrics)                                         \
  X(cuptiProfilerHostGetConfigImageSize)                                       \
  X(cuptiProfilerHostGetConfigImage)                                           \
  X(cuptiProfilerHostGetNumOfPasses)                                           \
  X(cuptiProfilerHostEvaluateToGpuValues)                                      \
  X(cuptiRangeProfilerEnable)                                                  \
  X(cuptiRangeProfilerDisable)                                                 \
  X(cuptiRangeProfilerSetConfig)                                               \
  X(cuptiRangeProfilerStart)                                                   \
  X(cuptiRangeProfilerStop)                                                    \
  X(cuptiRangeProfilerPushRange)                                               \
  X(cuptiRangeProfilerPopRange)                                                \
  X(cuptiRangeProfilerDecodeData)                                              \
  X(cuptiRangeProfilerGetCounterDataSize)                                      \
  X(cuptiRangeProfilerCounterDataImageInitialize)                              \
  X(cuptiRangeProfilerGetCounterDataInfo)                                      \
  X(cuptiRangeProfilerCounterDataGetRangeInfo)

#define OPPROF_CUDA_DRIVER(X)                                                  \
  X(cuInit)                                                                    \
  X(cuDriverGetVersion)                                                        \
  X(cuCtxGetCurrent)                                                           \
  X(cuCtxGetDevice)                                                            \
  X(cuDeviceGet)                                                               \
  X(cuDeviceGetCount)                                                          \
  X(cuDeviceTotalMem)                                                          \
  X(cuDeviceGetName)                                                           \
  X(cuDeviceGetAttribute)

struct CuptiApi {
#define X(name) decltype(&::name) name = nullptr;
  // NOLINTBEGIN(readability-identifier-naming): as CUPTI names them.
  OPPROF_CUPTI_REQUIRED(X)
  OPPROF_CUPTI_OPTIONAL(X)
  // NOLINTEND(readability-identifier-naming)
#undef X
  uint32_t version = 0;
  std::string path;

  /// CUPTI's message for a result, with its number.
  std::string text(CUptiResult result) const;
};

struct DriverApi {
#define X(name) decltype(&::name) name = nullptr;
  OPPROF_CUDA_DRIVER(X)
#undef X
  int version = 0;
};

/// Loads CUPTI once per process; null, with `error` filled, when it can't be.
const CuptiApi *loadCupti(const char *path, std::string &error);
/// The one that was loaded, or null.
const CuptiApi *cupti();

/// Loads the CUDA driver once per process, or says why not.
const DriverApi *driver(std::string *error = nullptr);

/// Why cuInit failed, and what helps, in words for the user.
std::string driverText(CUresult result);
/// What stands between this CUPTI and this driver where they are not of one
/// generation; empty where they are.
std::string versionMismatch(const CuptiApi &cupti);
/// Says so where the process seems to run under MPS, whose clients share a GPU
/// that lends nobody its counters; else empty.
std::string multiProcessHint();

} // namespace opprof::capture

#endif // OPPROF_LIB_CAPTURE_CUPTI_H
