// Hardware counters by the range profiler. One range a kernel, the user's step
// run once a pass. All metrics are added by one call, so that their passes
// merge, and the counter image is sized to the launches that were recorded.

#include "Callbacks.h"
#include "Session.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>

using namespace opprof::capture;

static double seconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

static std::string jsonQuoted(std::string_view text) {
  std::string out = "\"";
  for (unsigned char c : text) {
    if (c == '"' || c == '\\')
      out += '\\';
    if (c >= 0x20)
      out += char(c);
  }
  return out + '"';
}

static size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j)
    row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t above = row[j];
      row[j] = std::min(
          {row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row[b.size()];
}

namespace {
/// CUPTI's knowledge of one chip's metrics; needs no device.
class HostMetrics {
public:
  ~HostMetrics() { close(); }

  int open(const char *chip, const uint8_t *availability) {
    std::string error;
    Api = loadCupti(nullptr, error);
    if (!Api)
      return failWith(OPPROF_NO_CUPTI, error);
    if (!Api->cuptiProfilerHostInitialize || !Api->cuptiRangeProfilerEnable)
      return failWith(OPPROF_NO_CUPTI,
                      Api->path + " has no range profiler; counters need CUPTI "
                                  "12.6 or newer (pip install -U "
                                  "nvidia-cuda-cupti)");
    CUpti_Profiler_Host_Initialize_Params p{};
    p.structSize = CUpti_Profiler_Host_Initialize_Params_STRUCT_SIZE;
    p.profilerType = CUPTI_PROFILER_TYPE_RANGE_PROFILER;
    p.pChipName = chip;
    p.pCounterAvailabilityImage = availability;
    CUptiResult result = Api->cuptiProfilerHostInitialize(&p);
    if (result != CUPTI_SUCCESS)
      return failWith(OPPROF_CUPTI_ERROR, "counters of chip " +
                                              std::string(chip) + ": " +
                                              Api->text(result));
    Host = p.pHostObject;
    Chip = chip;
    return OPPROF_OK;
  }

  void close() {
    if (!Host)
      return;
    CUpti_Profiler_Host_Deinitialize_Params p{};
    p.structSize = CUpti_Profiler_Host_Deinitialize_Params_STRUCT_SIZE;
    p.pHostObject = Host;
    Api->cuptiProfilerHostDeinitialize(&p);
    Host = nullptr;
  }

  /// Whether the chip has `metric`, judged by a host object of its own, as a
  /// failed addition may leave one half-filled.
  bool has(const char *metric, const uint8_t *availability) {
    HostMetrics probe;
    return probe.open(Chip.c_str(), availability) == OPPROF_OK &&
           probe.add({metric}) == CUPTI_SUCCESS;
  }

  CUptiResult add(std::vector<const char *> metrics) {
    CUpti_Profiler_Host_ConfigAddMetrics_Params p{};
    p.structSize = CUpti_Profiler_Host_ConfigAddMetrics_Params_STRUCT_SIZE;
    p.pHostObject = Host;
    p.ppMetricNames = metrics.data();
    p.numMetrics = metrics.size();
    return Api->cuptiProfilerHostConfigAddMetrics(&p);
  }

  CUptiResult image(std::vector<uint8_t> &config, size_t &passes) {
    CUpti_Profiler_Host_GetConfigImageSize_Params s{};
    s.structSize = CUpti_Profiler_Host_GetConfigImageSize_Params_STRUCT_SIZE;
    s.pHostObject = Host;
    CUptiResult result = Api->cuptiProfilerHostGetConfigImageSize(&s);
    if (result != CUPTI_SUCCESS)
      return result;
    config.resize(s.configImageSize);
    CUpti_Profiler_Host_GetConfigImage_Params g{};
    g.structSize = CUpti_Profiler_Host_GetConfigImage_Params_STRUCT_SIZE;
    g.pHostObject = Host;
    g.configImageSize = config.size();
    g.pConfigImage = config.data();
    result = Api->cuptiProfilerHostGetConfigImage(&g);
    if (result != CUPTI_SUCCESS)
      return result;
    CUpti_Profiler_Host_GetNumOfPasses_Params n{};
    n.structSize = CUpti_Profiler_Host_GetNumOfPasses_Params_STRUCT_SIZE;
    n.configImageSize = config.size();
    n.pConfigImage = config.data();
    result = Api->cuptiProfilerHostGetNumOfPasses(&n);
    passes = n.numOfPasses;
    return result;
  }

  /// Names that look like `metric`, nearest first.
  std::vector<std::string> near(std::string_view metric) {
    std::string_view base = metric.substr(0, metric.find('.'));
    std::string_view rest =
        base.size() < metric.size() ? metric.substr(base.size()) : "";
    std::vector<std::pair<size_t, std::string>> found;
    for (int type = 0; type < CUPTI_METRIC_TYPE__COUNT; ++type) {
      CUpti_Profiler_Host_GetBaseMetrics_Params p{};
      p.structSize = CUpti_Profiler_Host_GetBaseMetrics_Params_STRUCT_SIZE;
      p.pHostObject = Host;
      p.metricType = CUpti_MetricType(type);
      if (Api->cuptiProfilerHostGetBaseMetrics(&p) != CUPTI_SUCCESS)
        continue;
      for (size_t i = 0; i < p.numMetrics; ++i) {
        size_t distance = editDistance(base, p.ppMetricNames[i]);
        if (distance <= std::max<size_t>(3, base.size() / 4))
          found.emplace_back(distance, p.ppMetricNames[i]);
      }
    }
    std::sort(found.begin(), found.end());
    std::vector<std::string> names;
    for (auto &[distance, name] : found) {
      names.push_back(name + std::string(rest));
      if (names.size() == 3)
        break;
    }
    return names;
  }

  std::string unknownText(const char *metric) {
    std::string text = "the chip " + Chip + " has no metric '" + metric + "'";
    std::vector<std::string> names = near(metric);
    for (size_t i = 0; i < names.size(); ++i)
      text += (i ? ", " : "; near names: ") + names[i];
    if (!std::strchr(metric, '.'))
      text += std::string("; a metric ends in what is taken of it: ") + metric +
              ".sum, .avg or .max";
    return text;
  }

  const CuptiApi *Api = nullptr;
  CUpti_Profiler_Host_Object *Host = nullptr;
  std::string Chip;
};
} // namespace

struct opprof_counters {
  HostMetrics Host;
  std::vector<std::string> Asked;     ///< in the caller's order
  std::vector<std::string> Collected; ///< those that the chip has
  std::vector<size_t> Place;          ///< of each collected one in Asked
  std::vector<std::pair<std::string, std::string>> Absent;
  std::vector<std::pair<uint64_t, uint64_t>> Selected;
  std::vector<uint64_t> RangeLaunch; ///< the launch that each range is of
  uint32_t Replay = 0, Ranges = 0;
  /// Launches of a run of the step, and runs of a pass that do not count.
  uint64_t Launches = 0, UncountedRuns = 0;
  size_t Passes = 0, PassesDone = 0, MaxRanges = 0;
  std::vector<uint8_t> Availability, Config, Image;
  CUpti_RangeProfiler_Object *Profiler = nullptr;
  bool InPass = false, AllSubmitted = false;
  uint32_t Device = 0;
  std::vector<std::pair<uint64_t, std::vector<double>>> Rows;
  std::vector<std::pair<std::string, double>> Stages;
  std::string Report;
  CUptiResult RangeFailure = CUPTI_SUCCESS;

  void stage(const char *name, double since) {
    double took = seconds() - since;
    for (auto &entry : Stages)
      if (entry.first == name) {
        entry.second += took;
        return;
      }
    Stages.emplace_back(name, took);
  }

  bool selected(uint64_t launch) const {
    auto it = std::upper_bound(
        Selected.begin(), Selected.end(), launch,
        [](uint64_t l, const auto &range) { return l < range.first; });
    return it != Selected.begin() && launch < std::prev(it)->second;
  }

  CUptiResult pushRange(uint64_t launch) {
    std::string name = std::to_string(launch);
    CUpti_RangeProfiler_PushRange_Params push{};
    push.structSize = CUpti_RangeProfiler_PushRange_Params_STRUCT_SIZE;
    push.pRangeProfilerObject = Profiler;
    push.pRangeName = name.c_str();
    return Host.Api->cuptiRangeProfilerPushRange(&push);
  }

  CUptiResult popRange() {
    CUpti_RangeProfiler_PopRange_Params pop{};
    pop.structSize = CUpti_RangeProfiler_PopRange_Params_STRUCT_SIZE;
    pop.pRangeProfilerObject = Profiler;
    return Host.Api->cuptiRangeProfilerPopRange(&pop);
  }

  int fail(const char *what, CUptiResult result);
  int open(const opprof_counters_options &options);
  int chooseLaunches(const opprof_counters_options &options);
  int initialize(const CuptiApi *api, CUdevice device, const char *&chip);
  int readAvailability(const CuptiApi *api, CUcontext context);
  int addMetrics(const opprof_counters_options &options, const char *chip,
                 const uint8_t *availability);
  int enable();
  int decode();
};

int opprof_counters::fail(const char *what, CUptiResult result) {
  std::string text = std::string(what) + ": " + Host.Api->text(result);
  switch (int(result)) {
  case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
  case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
    return failWith(
        OPPROF_PERMISSION,
        text + ". The driver keeps counters for administrators "
               "(ERR_NVGPUCTRPERM). Remedies: run as root; in a container add "
               "--cap-add=SYS_ADMIN; or let every user have them: write "
               "'options nvidia NVreg_RestrictProfilingToAdminUsers=0' to "
               "/etc/modprobe.d/nvidia-profiling.conf and reboot. The timeline "
               "needs no permission: counters=\"none\"");
  case CUPTI_ERROR_HARDWARE_BUSY:
    return failWith(OPPROF_BUSY,
                    text +
                        ". Another process profiles this GPU (ncu, dcgm: "
                        "'dcgmi profile --pause' releases it)" +
                        multiProcessHint());
  case CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED:
    return failWith(OPPROF_NO_DEVICE,
                    text + ". This instance of a MIG GPU lends no counters: "
                           "take an instance that spans the GPU, or turn MIG "
                           "off (nvidia-smi -mig 0). The timeline works: "
                           "counters=\"none\"");
  case CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED:
    return failWith(OPPROF_NO_DEVICE,
                    text + ". This virtual GPU lends no counters; its host "
                           "allows them with "
                           "pciPassthru<n>.cfg.enable_profiling=1");
  case CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED:
  case CUPTI_ERROR_CMP_DEVICE_NOT_SUPPORTED:
  case CUPTI_ERROR_SLI_DEVICE_NOT_SUPPORTED:
  case CUPTI_ERROR_WSL_DEVICE_NOT_SUPPORTED:
    return failWith(OPPROF_NO_DEVICE, text + ". The timeline needs no "
                                             "counters: counters=\"none\"");
  case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
    return failWith(OPPROF_BUSY,
                    text + ". End the other profiler of this process first "
                           "(torch.profiler, Proton, nsys)");
  case CUPTI_ERROR_OUT_OF_MEMORY:
    return failWith(OPPROF_CUPTI_ERROR,
                    text + ". Profile fewer kernels or metrics at once");
  default:
    return failWith(OPPROF_CUPTI_ERROR,
                    text + versionMismatch(*Host.Api) + multiProcessHint());
  }
}

static const char *
unsupportedReason(const CUpti_Profiler_DeviceSupported_Params &p) {
  if (p.architecture == CUPTI_PROFILER_CONFIGURATION_UNSUPPORTED)
    return "counters need a GPU of compute capability 7.5 or higher";
  if (p.sli == CUPTI_PROFILER_CONFIGURATION_UNSUPPORTED)
    return "the GPU is in an SLI group, which has no counters";
  if (p.vGpu == CUPTI_PROFILER_CONFIGURATION_UNSUPPORTED)
    return "this virtual GPU has no counters";
  if (p.vGpu == CUPTI_PROFILER_CONFIGURATION_DISABLED)
    return "the host has not enabled counters for this virtual GPU "
           "(pciPassthru<n>.cfg.enable_profiling=1 on the host)";
  if (p.confidentialCompute == CUPTI_PROFILER_CONFIGURATION_UNSUPPORTED)
    return "the GPU is in confidential-computing mode, which hides counters";
  if (p.cmp == CUPTI_PROFILER_CONFIGURATION_UNSUPPORTED)
    return "mining processors have no counters";
  if (p.wsl == CUPTI_PROFILER_CONFIGURATION_UNSUPPORTED)
    return "this WSL version lends no counters";
  return "the device lends no counters";
}

/// The launches that get a range, in the order of the step.
int opprof_counters::chooseLaunches(const opprof_counters_options &options) {
  std::vector<Launch> launches = Callbacks::get().launches();
  Replay = options.replay;
  Ranges = options.ranges;
  Launches = launches.size();
  UncountedRuns = options.uncounted_runs;
  for (size_t i = 0; i < options.selected_count; ++i) {
    uint64_t first = options.selected[2 * i],
             last = options.selected[2 * i + 1];
    if (first >= last || (!Selected.empty() && first < Selected.back().second))
      return failWith(OPPROF_INVALID,
                      "selected launches: pair " + std::to_string(i) +
                          " is empty or overlaps the one before");
    Selected.emplace_back(first, last);
  }
  for (uint64_t i = 0; i < launches.size(); ++i) {
    if (launches[i].kind == 1 && Ranges != OPPROF_RANGE_STEP)
      return failWith(
          OPPROF_NOT_REPLAYABLE,
          "launch " + std::to_string(i) +
              " of the step is a CUDA graph, whose kernels CUPTI does not "
              "count "
              "one by one; give the same program without the graph (its "
              "kernels "
              "are the same and their counters are joined by sequence)");
    if (Replay == OPPROF_USER_REPLAY &&
        Callbacks::get().name(launches[i].name).find("nccl") !=
            std::string::npos)
      return failWith(
          OPPROF_NOT_REPLAYABLE,
          "launch " + std::to_string(i) + " is the collective " +
              Callbacks::get().name(launches[i].name) +
              ": serialized ranges would wait for the other ranks for ever; "
              "take counters of a step without collectives");
    if (Ranges == OPPROF_RANGE_ALL ||
        (Ranges == OPPROF_RANGE_STEP ? i == 0 : selected(i)))
      RangeLaunch.push_back(i);
  }
  if (RangeLaunch.empty())
    return failWith(OPPROF_INVALID,
                    launches.empty()
                        ? "the recorded step launched no kernel on this "
                          "process's GPUs"
                        : "no recorded launch is selected");
  // One range a kernel covers the runs that do not count as well.
  if (Ranges == OPPROF_RANGE_ALL)
    for (uint64_t i = 0, end = UncountedRuns * Launches; i < end; ++i)
      RangeLaunch.push_back(i % Launches);
  MaxRanges = RangeLaunch.size();
  return OPPROF_OK;
}

/// Begins with the device's profiler; `chip` becomes its name for the counters.
int opprof_counters::initialize(const CuptiApi *api, CUdevice device,
                                const char *&chip) {
  CUpti_Profiler_Initialize_Params init{};
  init.structSize = CUpti_Profiler_Initialize_Params_STRUCT_SIZE;
  CUptiResult result = api->cuptiProfilerInitialize(&init);
  Host.Api = api;
  if (result != CUPTI_SUCCESS)
    return fail("profiler", result);
  CUpti_Profiler_DeviceSupported_Params supported{};
  supported.structSize = CUpti_Profiler_DeviceSupported_Params_STRUCT_SIZE;
  supported.cuDevice = device;
  supported.api = CUPTI_PROFILER_RANGE_PROFILING;
  if (api->cuptiProfilerDeviceSupported &&
      api->cuptiProfilerDeviceSupported(&supported) == CUPTI_SUCCESS &&
      supported.isSupported == CUPTI_PROFILER_CONFIGURATION_UNSUPPORTED)
    return failWith(OPPROF_NO_DEVICE, unsupportedReason(supported));
  CUpti_Device_GetChipName_Params name{};
  name.structSize = CUpti_Device_GetChipName_Params_STRUCT_SIZE;
  name.deviceIndex = size_t(device);
  result = api->cuptiDeviceGetChipName(&name);
  if (result != CUPTI_SUCCESS)
    return fail("chip name", result);
  chip = name.pChipName;
  return OPPROF_OK;
}

/// Which counters the device lends now.
int opprof_counters::readAvailability(const CuptiApi *api, CUcontext context) {
  double begin = seconds();
  CUpti_Profiler_GetCounterAvailability_Params p{};
  p.structSize = CUpti_Profiler_GetCounterAvailability_Params_STRUCT_SIZE;
  p.ctx = context;
  CUptiResult result = api->cuptiProfilerGetCounterAvailability(&p);
  if (result == CUPTI_SUCCESS) {
    Availability.resize(p.counterAvailabilityImageSize);
    p.pCounterAvailabilityImage = Availability.data();
    result = api->cuptiProfilerGetCounterAvailability(&p);
  }
  if (result != CUPTI_SUCCESS)
    return fail("counter availability", result);
  stage("availability", begin);
  return OPPROF_OK;
}

/// Asks for the metrics, without those that the device does not know.
int opprof_counters::addMetrics(const opprof_counters_options &options,
                                const char *chip, const uint8_t *availability) {
  double begin = seconds();
  if (int status = Host.open(chip, availability))
    return status;
  std::vector<const char *> names(options.metrics,
                                  options.metrics + options.metric_count);
  Asked.assign(names.begin(), names.end());
  if (names.empty())
    return failWith(OPPROF_INVALID, "no metric was asked for");
  CUptiResult result = Host.add(names);
  if (result != CUPTI_SUCCESS) {
    // One unknown name spoils the whole set: find out which, leave it out, and
    // begin again.
    std::vector<const char *> good;
    for (const char *name : names) {
      if (Host.has(name, availability))
        good.push_back(name);
      else
        Absent.emplace_back(name, Host.unknownText(name));
    }
    if (Absent.empty())
      return fail("metrics", result);
    if (good.empty())
      return failWith(OPPROF_UNKNOWN_METRIC, Absent.front().second);
    Host.close();
    if (int status = Host.open(chip, availability))
      return status;
    result = Host.add(good);
    if (result != CUPTI_SUCCESS)
      return fail("metrics", result);
    names = good;
  }
  Collected.assign(names.begin(), names.end());
  for (const std::string &name : Collected)
    Place.push_back(std::find(Asked.begin(), Asked.end(), name) -
                    Asked.begin());
  result = Host.image(Config, Passes);
  if (result != CUPTI_SUCCESS)
    return fail("metrics", result);
  stage("metrics", begin);
  return OPPROF_OK;
}

int opprof_counters::open(const opprof_counters_options &options) {
  double begin = seconds();
  std::string error;
  const DriverApi *cuda = driver(&error);
  if (!cuda)
    return failWith(OPPROF_NO_DEVICE, error);
  const CuptiApi *api = loadCupti(nullptr, error);
  if (!api)
    return failWith(OPPROF_NO_CUPTI, error);
  if (!api->cuptiProfilerInitialize || !api->cuptiDeviceGetChipName)
    return failWith(OPPROF_NO_CUPTI,
                    api->path + " has no profiler; counters need CUPTI 12.6 or "
                                "newer");
  CUcontext context = nullptr;
  if (cuda->cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context)
    return failWith(OPPROF_NO_DEVICE,
                    "this thread has no CUDA context; run the step once on the "
                    "GPU before counters are taken");
  CUdevice device = 0;
  cuda->cuCtxGetDevice(&device);
  Device = uint32_t(device);

  if (int status = chooseLaunches(options))
    return status;
  const char *chip = nullptr;
  if (int status = initialize(api, device, chip))
    return status;
  stage("initialize", begin);

  const uint8_t *availability = nullptr;
  if (options.check_availability && api->cuptiProfilerGetCounterAvailability) {
    if (int status = readAvailability(api, context))
      return status;
    availability = Availability.data();
  }
  if (int status = addMetrics(options, chip, availability))
    return status;
  return enable();
}

int opprof_counters::enable() {
  const CuptiApi *api = Host.Api;
  double begin = seconds();
  CUpti_RangeProfiler_Enable_Params e{};
  e.structSize = CUpti_RangeProfiler_Enable_Params_STRUCT_SIZE;
  CUptiResult result = api->cuptiRangeProfilerEnable(&e);
  if (result != CUPTI_SUCCESS)
    return fail("the range profiler cannot be turned on", result);
  Profiler = e.pRangeProfilerObject;
  stage("enable", begin);

  begin = seconds();
  std::vector<const char *> names;
  for (const std::string &name : Collected)
    names.push_back(name.c_str());
  CUpti_RangeProfiler_GetCounterDataSize_Params s{};
  s.structSize = CUpti_RangeProfiler_GetCounterDataSize_Params_STRUCT_SIZE;
  s.pRangeProfilerObject = Profiler;
  s.pMetricNames = names.data();
  s.numMetrics = names.size();
  s.maxNumOfRanges = MaxRanges;
  s.maxNumRangeTreeNodes = uint32_t(MaxRanges);
  result = api->cuptiRangeProfilerGetCounterDataSize(&s);
  if (result != CUPTI_SUCCESS)
    return fail("counter image", result);
  Image.resize(s.counterDataSize);
  CUpti_RangeProfiler_CounterDataImage_Initialize_Params i{};
  i.structSize =
      CUpti_RangeProfiler_CounterDataImage_Initialize_Params_STRUCT_SIZE;
  i.pRangeProfilerObject = Profiler;
  i.counterDataSize = Image.size();
  i.pCounterData = Image.data();
  result = api->cuptiRangeProfilerCounterDataImageInitialize(&i);
  if (result != CUPTI_SUCCESS)
    return fail("counter image", result);
  CUpti_RangeProfiler_SetConfig_Params c{};
  c.structSize = CUpti_RangeProfiler_SetConfig_Params_STRUCT_SIZE;
  c.pRangeProfilerObject = Profiler;
  c.configSize = Config.size();
  c.pConfig = Config.data();
  c.counterDataImageSize = Image.size();
  c.pCounterDataImage = Image.data();
  c.range = Ranges == OPPROF_RANGE_ALL ? CUPTI_AutoRange : CUPTI_UserRange;
  c.replayMode =
      Replay == OPPROF_KERNEL_REPLAY ? CUPTI_KernelReplay : CUPTI_UserReplay;
  c.maxRangesPerPass = MaxRanges;
  c.numNestingLevels = 1;
  c.minNestingLevel = 1;
  c.passIndex = 0;
  c.targetNestingLevel = Ranges == OPPROF_RANGE_ALL ? 0 : 1;
  result = api->cuptiRangeProfilerSetConfig(&c);
  if (result != CUPTI_SUCCESS)
    return fail("counter configuration", result);
  stage("configure", begin);
  return OPPROF_OK;
}

int opprof_counters_open(const opprof_counters_options *options,
                         opprof_counters **out) {
  if (!options || !out || options->size < sizeof(*options))
    return failWith(OPPROF_INVALID,
                    "opprof_counters_open: options of another ABI");
  *out = nullptr;
  auto counters = std::make_unique<opprof_counters>();
  int status = counters->open(*options);
  if (status == OPPROF_OK) {
    *out = counters.release();
    return status;
  }
  std::string text = opprof_capture_last_error();
  opprof_counters_close(counters.release());
  return failWith(status, text);
}

size_t opprof_counters_passes(const opprof_counters *c) {
  return c->Replay == OPPROF_KERNEL_REPLAY ? 1 : c->Passes;
}

int opprof_counters_begin_pass(opprof_counters *c) {
  if (c->InPass || c->AllSubmitted)
    return failWith(OPPROF_INVALID, c->InPass ? "the pass before has not ended"
                                              : "every pass has been run");
  const CuptiApi *api = c->Host.Api;
  double begin = seconds();
  CUpti_RangeProfiler_Start_Params p{};
  p.structSize = CUpti_RangeProfiler_Start_Params_STRUCT_SIZE;
  p.pRangeProfilerObject = c->Profiler;
  CUptiResult result = api->cuptiRangeProfilerStart(&p);
  if (result != CUPTI_SUCCESS)
    return c->fail("a counter pass cannot start", result);
  c->InPass = true;
  c->stage("start", begin);
  Callbacks::LaunchHook hook;
  const uint64_t first = c->UncountedRuns * c->Launches;
  if (c->Ranges == OPPROF_RANGE_SELECTED)
    hook = [c, first](size_t number, bool entering) {
      if (number >= first && c->selected(number - first) &&
          c->RangeFailure == CUPTI_SUCCESS)
        c->RangeFailure =
            entering ? c->pushRange(number - first) : c->popRange();
    };
  else if (c->Ranges == OPPROF_RANGE_STEP)
    hook = [c, first](size_t number, bool entering) {
      if (number == first && entering)
        c->RangeFailure = c->pushRange(0);
    };
  int status = Callbacks::get().beginCheck(std::move(hook));
  if (status == OPPROF_OK)
    return status;
  std::string text = opprof_capture_last_error();
  CUpti_RangeProfiler_Stop_Params stop{};
  stop.structSize = CUpti_RangeProfiler_Stop_Params_STRUCT_SIZE;
  stop.pRangeProfilerObject = c->Profiler;
  api->cuptiRangeProfilerStop(&stop);
  c->InPass = false;
  return failWith(status, text);
}

int opprof_counters_next_run(opprof_counters *c) {
  if (!c->InPass)
    return failWith(OPPROF_INVALID, "no pass is running");
  Callbacks::get().nextRun();
  return OPPROF_OK;
}

int opprof_counters_end_pass(opprof_counters *c, int *more) {
  if (!c->InPass)
    return failWith(OPPROF_INVALID, "no pass is running");
  double begin = seconds();
  int checked = Callbacks::get().endCheck();
  std::string difference = checked ? opprof_capture_last_error() : "";
  if (c->Ranges == OPPROF_RANGE_STEP && c->RangeFailure == CUPTI_SUCCESS)
    c->RangeFailure = c->popRange();
  CUpti_RangeProfiler_Stop_Params p{};
  p.structSize = CUpti_RangeProfiler_Stop_Params_STRUCT_SIZE;
  p.pRangeProfilerObject = c->Profiler;
  CUptiResult result = c->Host.Api->cuptiRangeProfilerStop(&p);
  c->InPass = false;
  ++c->PassesDone;
  c->stage("stop", begin);
  if (checked)
    return failWith(checked, difference);
  if (c->RangeFailure != CUPTI_SUCCESS)
    return c->fail("a range of launches", c->RangeFailure);
  if (result != CUPTI_SUCCESS)
    return c->fail("a counter pass cannot end", result);
  c->AllSubmitted = p.isAllPassSubmitted || (c->Replay == OPPROF_USER_REPLAY &&
                                             c->PassesDone >= c->Passes);
  if (more)
    *more = !c->AllSubmitted;
  return OPPROF_OK;
}

int opprof_counters::decode() {
  const CuptiApi *api = Host.Api;
  double begin = seconds();
  CUpti_RangeProfiler_DecodeData_Params d{};
  d.structSize = CUpti_RangeProfiler_DecodeData_Params_STRUCT_SIZE;
  d.pRangeProfilerObject = Profiler;
  CUptiResult result = api->cuptiRangeProfilerDecodeData(&d);
  if (result != CUPTI_SUCCESS)
    return fail("counters cannot be read out", result);
  stage("decode", begin);
  begin = seconds();
  CUpti_RangeProfiler_GetCounterDataInfo_Params n{};
  n.structSize = CUpti_RangeProfiler_GetCounterDataInfo_Params_STRUCT_SIZE;
  n.pCounterDataImage = Image.data();
  n.counterDataImageSize = Image.size();
  result = api->cuptiRangeProfilerGetCounterDataInfo(&n);
  if (result != CUPTI_SUCCESS)
    return fail("counters cannot be read out", result);
  if (n.numTotalRanges != RangeLaunch.size() || d.numOfRangeDropped)
    return failWith(
        OPPROF_NOT_REPLAYABLE,
        "counters came back for " + std::to_string(n.numTotalRanges) +
            " kernels (" + std::to_string(d.numOfRangeDropped) +
            " dropped) where " + std::to_string(RangeLaunch.size()) +
            " were launched; nothing is attributed by guess");
  std::vector<const char *> names;
  for (const std::string &name : Collected)
    names.push_back(name.c_str());
  std::vector<double> values(names.size());
  const size_t uncounted =
      Ranges == OPPROF_RANGE_ALL ? UncountedRuns * Launches : 0;
  for (size_t range = uncounted; range < n.numTotalRanges; ++range) {
    uint64_t launch = RangeLaunch[range];
    if (Ranges == OPPROF_RANGE_SELECTED) {
      CUpti_RangeProfiler_CounterData_GetRangeInfo_Params r{};
      r.structSize =
          CUpti_RangeProfiler_CounterData_GetRangeInfo_Params_STRUCT_SIZE;
      r.pCounterDataImage = Image.data();
      r.counterDataImageSize = Image.size();
      r.rangeIndex = range;
      r.rangeDelimiter = "/";
      result = api->cuptiRangeProfilerCounterDataGetRangeInfo(&r);
      if (result != CUPTI_SUCCESS)
        return fail("a range's name", result);
      launch = std::strtoull(r.rangeName ? r.rangeName : "", nullptr, 10);
    }
    CUpti_Profiler_Host_EvaluateToGpuValues_Params v{};
    v.structSize = CUpti_Profiler_Host_EvaluateToGpuValues_Params_STRUCT_SIZE;
    v.pHostObject = Host.Host;
    v.pCounterDataImage = Image.data();
    v.counterDataImageSize = Image.size();
    v.rangeIndex = range;
    v.ppMetricNames = names.data();
    v.numMetrics = names.size();
    v.pMetricValues = values.data();
    result = api->cuptiProfilerHostEvaluateToGpuValues(&v);
    if (result != CUPTI_SUCCESS)
      return fail("counter values", result);
    std::vector<double> row(Asked.size(),
                            std::numeric_limits<double>::quiet_NaN());
    for (size_t i = 0; i < values.size(); ++i)
      row[Place[i]] = values[i];
    Rows.emplace_back(launch, std::move(row));
  }
  stage("evaluate", begin);
  return OPPROF_OK;
}

int opprof_counters_finish(opprof_counters *c) {
  if (c->InPass || !c->PassesDone)
    return failWith(OPPROF_INVALID, "counters are read out after the passes");
  if (int status = c->decode())
    return status;
  std::shared_ptr<Session> session = Session::current();
  if (!session)
    return OPPROF_OK;
  FileWriter &writer = session->writer();
  std::lock_guard<std::mutex> lock(writer.Mutex);
  static std::atomic<uint32_t> sets{0};
  CounterSetHeader set{};
  set.set = sets++;
  set.device = c->Device;
  set.metrics = uint32_t(c->Asked.size());
  set.passes = uint32_t(c->Passes);
  set.replay = c->Replay + 1;
  std::vector<char> bytes(sizeof(set) + c->Asked.size() * 4);
  std::memcpy(bytes.data(), &set, sizeof(set));
  for (size_t i = 0; i < c->Asked.size(); ++i) {
    uint32_t name = writer.string(c->Asked[i]);
    std::memcpy(bytes.data() + sizeof(set) + 4 * i, &name, 4);
  }
  // A chunk holds one set.
  writer.flush();
  writer.addVariable(ChunkType::CounterSets, bytes.data(), bytes.size());
  writer.flush();
  std::vector<Launch> launches = Callbacks::get().launches();
  for (auto &[launch, values] : c->Rows) {
    CounterRowHeader row{};
    row.set = set.set;
    row.launch = uint32_t(launch);
    row.metrics = set.metrics;
    row.name = kNone;
    if (launch < launches.size()) {
      const Launch &l = launches[launch];
      row.externalId = l.externalId;
      row.name = writer.string(Callbacks::get().name(l.name));
      std::copy(l.grid, l.grid + 3, row.grid);
      std::copy(l.block, l.block + 3, row.block);
    }
    bytes.resize(sizeof(row) + values.size() * 8);
    std::memcpy(bytes.data(), &row, sizeof(row));
    std::memcpy(bytes.data() + sizeof(row), values.data(), values.size() * 8);
    writer.addVariable(ChunkType::Counters, bytes.data(), bytes.size());
  }
  writer.flush();
  return OPPROF_OK;
}

size_t opprof_counters_rows(const opprof_counters *c) { return c->Rows.size(); }

int opprof_counters_row(const opprof_counters *c, size_t index,
                        uint64_t *launch, double *values) {
  if (index >= c->Rows.size())
    return failWith(OPPROF_INVALID, "no row " + std::to_string(index));
  *launch = c->Rows[index].first;
  std::copy(c->Rows[index].second.begin(), c->Rows[index].second.end(), values);
  return OPPROF_OK;
}

const char *opprof_counters_report(opprof_counters *c) {
  std::string out =
      "{\"chip\": " + jsonQuoted(c->Host.Chip) +
      ", \"passes\": " + std::to_string(c->Passes) +
      ", \"ranges\": " + std::to_string(c->MaxRanges) +
      ", \"uncounted_runs\": " + std::to_string(c->UncountedRuns) +
      ", \"image_bytes\": " + std::to_string(c->Image.size()) +
      ", \"seconds\": {";
  for (size_t i = 0; i < c->Stages.size(); ++i) {
    char buffer[64];
    std::snprintf(buffer, sizeof(buffer), "%.6f", c->Stages[i].second);
    out += (i ? ", " : "") + jsonQuoted(c->Stages[i].first) + ": " + buffer;
  }
  out += "}, \"absent\": {";
  for (size_t i = 0; i < c->Absent.size(); ++i)
    out += (i ? ", " : "") + jsonQuoted(c->Absent[i].first) + ": " +
           jsonQuoted(c->Absent[i].second);
  c->Report = out + "}}";
  return c->Report.c_str();
}

void opprof_counters_close(opprof_counters *c) {
  if (!c)
    return;
  const CuptiApi *api = c->Host.Api;
  if (c->InPass) {
    Callbacks::get().endCheck();
    CUpti_RangeProfiler_Stop_Params p{};
    p.structSize = CUpti_RangeProfiler_Stop_Params_STRUCT_SIZE;
    p.pRangeProfilerObject = c->Profiler;
    api->cuptiRangeProfilerStop(&p);
  }
  if (c->Profiler) {
    CUpti_RangeProfiler_Disable_Params p{};
    p.structSize = CUpti_RangeProfiler_Disable_Params_STRUCT_SIZE;
    p.pRangeProfilerObject = c->Profiler;
    api->cuptiRangeProfilerDisable(&p);
  }
  delete c;
}

int opprof_metrics_passes(const char *chip, const char *const *metrics,
                          size_t count, size_t *passes) {
  HostMetrics host;
  if (int status = host.open(chip, nullptr))
    return status;
  std::vector<const char *> names(metrics, metrics + count);
  if (host.add(names) != CUPTI_SUCCESS) {
    for (const char *name : names)
      if (!host.has(name, nullptr))
        return failWith(OPPROF_UNKNOWN_METRIC, host.unknownText(name));
  }
  std::vector<uint8_t> config;
  CUptiResult result = host.image(config, *passes);
  if (result != CUPTI_SUCCESS)
    return failWith(OPPROF_CUPTI_ERROR, "metrics: " + host.Api->text(result));
  return OPPROF_OK;
}
