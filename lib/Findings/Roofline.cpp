//===- Roofline.cpp - Findings from the model of FLOPs and bytes ----------===//
//
// Sets the time of each launch against the least time that the device's
// ceilings allow for its arithmetic and its bytes. What bounds a launch is read
// from its counters where it has some.
//
//===----------------------------------------------------------------------===//

#include "FindingBuilder.h"

#include "opprof/Analysis/Cost/CostModel.h"
#include "opprof/Analysis/Cost/DeviceCeilings.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace llvm;
using namespace opprof;
using namespace opprof::findings;
using namespace opprof::profile;

namespace {
/// The steady runs of one launch.
struct LaunchRuns {
  uint32_t launch = 0;
  int64_t time = 0;
  uint64_t kernels = 0;
  int64_t launchCalls = 0;
  uint64_t withLaunchCall = 0;
  const Activity *longest = nullptr;
  std::vector<const Activity *> list;
};

struct Placed {
  LaunchRuns runs;
  double runTime = 0;
  double intensity = 0;
  double computeTime = 0;
  double memoryTime = 0;
  StringRef ceiling;
  Bound bound = Bound::Latency;
  /// The class is from counters, and else from the model.
  bool byCounters = false;
  bool tensorCoresIdle = false;
  bool idleByCounters = false;
  double tensorTime = 0;

  double roof() const { return std::max(computeTime, memoryTime); }
};
} // namespace

/// The operator that a launch calls, as the model of costs knows it.
static WorkKind getKind(const LaunchRecord &launch) {
  if (launch.category == "template")
    return WorkKind::Matrix;
  StringRef kernel = launch.kernel;
  if (kernel.consume_front("extern_kernels."))
    return getWorkKind(
        ("aten." + (kernel == "bias_addmm" ? "addmm" : kernel)).str());
  kernel.consume_front("torch.ops.");
  return getWorkKind(kernel);
}

/// Whether a kernel of matrix products in fp32 runs on tensor cores, as far as
/// libraries say it in its name.
static bool usesTF32(StringRef kernel) {
  return kernel.contains("tf32") || kernel.contains("s1688") ||
         kernel.contains("tensorop") || kernel.starts_with("nvjet") ||
         kernel.contains("xmma_gemm_f32f32_tf32");
}

static bool isFloat16(StringRef type) {
  return type == "c10::Half" || type == "float16";
}

/// Whether a library says in a kernel's name that it multiplies fp32.
static bool isSingleByName(StringRef kernel) {
  return kernel.contains("f32f32") || kernel.contains("sgemm") ||
         kernel.contains("s1688gemm_");
}

static std::vector<LaunchRuns> collectRuns(const Context &context) {
  std::vector<LaunchRuns> all(context.profile.launches.size());
  for (const Activity *kernel : context.kernels) {
    if (!kernel->launch)
      continue;
    LaunchRuns &runs = all[*kernel->launch];
    runs.launch = *kernel->launch;
    runs.time += kernel->durationNs;
    runs.list.push_back(kernel);
    ++runs.kernels;
    if (kernel->launchDurationNs && !kernel->cudaGraph) {
      runs.launchCalls += *kernel->launchDurationNs;
      ++runs.withLaunchCall;
    }
    if (!runs.longest || kernel->durationNs > runs.longest->durationNs)
      runs.longest = kernel;
  }
  llvm::erase_if(all, [](const LaunchRuns &runs) { return !runs.kernels; });
  return all;
}

/// Steady runs of a launch that ran `record.runs` times in the whole trace.
static double countRuns(const Context &context, const LaunchRuns &runs) {
  const LaunchRecord &record = context.profile.launches[runs.launch];
  if (!record.runs || record.kernelTimeNs <= 0)
    return double(runs.kernels);
  // Launches with several kernels have them in every run.
  return std::max(1.0, std::round(double(record.runs) * double(runs.time) /
                                  double(record.kernelTimeNs)));
}

static void addWithoutCeilings(Context &context, StringRef reason) {
  std::vector<LaunchRuns> all = collectRuns(context);
  double flops = 0, bytes = 0;
  int64_t time = 0;
  for (const LaunchRuns &runs : all) {
    const LaunchRecord &launch = context.profile.launches[runs.launch];
    if (!launch.flops || !launch.bytesRead || !launch.bytesWritten)
      continue;
    double times = countRuns(context, runs);
    flops += times * double(*launch.flops);
    bytes += times * (double(*launch.bytesRead) + double(*launch.bytesWritten));
    time += runs.time;
  }
  Finding &finding = context.add("roofline");
  finding.evidence =
      json::Object{{"ceilings", nullptr}, {"reason", reason.str()}};
  std::string text = "No roofline class: " + reason.str();
  if (time > 0 && flops > 0) {
    finding.evidence["flops_per_step"] = flops / double(context.steps);
    finding.evidence["bytes_per_step"] = bytes / double(context.steps);
    finding.evidence["flops_per_s"] = flops * 1e9 / double(time);
    finding.evidence["bytes_per_s"] = bytes * 1e9 / double(time);
    double perStep = flops / double(context.steps);
    bool isSmall = perStep < 1e7;
    text += formatv("; the {0} known work did {1:f2} {5} {4} at {2:f1} "
                    "GFLOP/s and {3:f1} GB/s",
                    context.isCPU ? "operators of" : "kernels of",
                    perStep / (isSmall ? 1e6 : 1e9), flops / double(time),
                    bytes / double(time), context.each(),
                    isSmall ? "MFLOP" : "GFLOP");
  }
  finding.text = text + ".";
}

void findings::addRooflineFindings(Context &context) {
  Profile &profile = context.profile;
  bool anyModel =
      llvm::any_of(profile.launches, [](const LaunchRecord &launch) {
        return launch.flops && launch.bytesRead && launch.bytesWritten;
      });
  if (!anyModel) {
    addWithoutCeilings(context,
                       profile.launches.empty()
                           ? "there is no launch map, so no kernel's FLOPs and "
                             "bytes are known"
                           : "no launch's FLOPs and bytes are known (shapes "
                             "that are not fixed have none)");
    return;
  }
  const DeviceCeilings *ceilings =
      context.isCPU ? nullptr : findDeviceCeilings(context.device->name);
  if (!ceilings) {
    addWithoutCeilings(context, context.isCPU
                                    ? "the ceilings of this CPU are not known"
                                    : "the ceilings of the device '" +
                                          context.device->name +
                                          "' are not in the table");
    return;
  }

  std::vector<Placed> placed;
  int64_t unknownTime = 0;
  for (const LaunchRuns &runs : collectRuns(context)) {
    const LaunchRecord &launch = profile.launches[runs.launch];
    if (!launch.flops || !launch.bytesRead || !launch.bytesWritten) {
      unknownTime += runs.time;
      continue;
    }
    Placed place;
    place.runs = runs;
    double times = countRuns(context, runs);
    place.runTime = double(runs.time) / times;
    double flops = double(*launch.flops);
    double bytes = double(*launch.bytesRead) + double(*launch.bytesWritten);
    place.intensity = bytes > 0 ? flops / bytes : 0;

    bool matrix = getKind(launch) == WorkKind::Matrix;
    // As the profiler saw it, or else as the code that launches it says.
    StringRef type = runs.longest->inputType;
    if (type.empty())
      type = launch.dtype;
    bool half = type == "c10::BFloat16" || type == "c10::Half" ||
                type == "bfloat16" || type == "float16";
    bool single = type == "float" || type == "float32";
    // A kernel may come without an operator and its types.
    if (matrix && type.empty()) {
      single = isSingleByName(runs.longest->name);
      if (!single) {
        unknownTime += runs.time;
        continue;
      }
    }
    Counted counted(profile, runs.list);
    std::optional<double> tensorPipe = counted.rate("tensor_pipe_pct");
    // Under one percent is what an epilogue may leave.
    bool onTensorCores =
        tensorPipe ? *tensorPipe >= 1 : usesTF32(runs.longest->name);
    const Ceiling *compute = &ceilings->fp32;
    const Ceiling *ofHalf = isFloat16(type) ? &ceilings->fp16 : &ceilings->bf16;
    place.ceiling = "fp32";
    if (matrix && half && ofHalf->rate > 0) {
      compute = ofHalf;
      place.ceiling = ofHalf == &ceilings->fp16 ? "fp16" : "bf16";
    } else if (matrix && single && onTensorCores && ceilings->tf32.rate > 0) {
      compute = &ceilings->tf32;
      place.ceiling = "tf32";
    }
    // By counters it shows for any type; a name tells it of fp32 only.
    const Ceiling *ofTensorCores = half ? ofHalf : &ceilings->tf32;
    if (matrix && (half || single) && ofTensorCores->rate > 0 &&
        !onTensorCores && (single || tensorPipe)) {
      place.tensorCoresIdle = true;
      place.idleByCounters = tensorPipe.has_value();
    }
    place.computeTime = flops / compute->rate * 1e9;
    place.memoryTime = bytes / ceilings->memory.rate * 1e9;
    if (ofTensorCores->rate > 0)
      place.tensorTime =
          std::max(flops / ofTensorCores->rate * 1e9, place.memoryTime);

    double launchCall =
        runs.withLaunchCall ? double(runs.launchCalls) / times : 0;
    if (std::optional<Bound> bound = boundByCounters(counted)) {
      place.bound = *bound;
      place.byCounters = true;
    } else if (place.roof() < place.runTime / 2) {
      place.bound = Bound::Latency;
    } else {
      place.bound =
          place.computeTime > place.memoryTime ? Bound::Compute : Bound::Memory;
    }
    if (place.bound == Bound::Latency && place.runTime < launchCall)
      place.bound = Bound::Launch;
    placed.push_back(place);
  }
  if (placed.empty()) {
    addWithoutCeilings(context, "no launch that ran has known FLOPs and bytes");
    return;
  }

  auto above = [&](const Placed &place) {
    return std::max(0.0, place.runTime - place.roof()) *
           (double(place.runs.time) / place.runTime);
  };
  llvm::stable_sort(placed, [&](const Placed &a, const Placed &b) {
    return above(a) > above(b);
  });
  std::array<int64_t, numBounds> timeOf{}, launchesOf{};
  double aboveRoof = 0, roofTime = 0;
  int64_t modelTime = 0, countedTime = 0, countedLaunches = 0;
  for (const Placed &place : placed) {
    timeOf[size_t(place.bound)] += place.runs.time;
    ++launchesOf[size_t(place.bound)];
    aboveRoof += above(place);
    roofTime += place.roof() * (double(place.runs.time) / place.runTime);
    modelTime += place.runs.time;
    countedTime += place.byCounters ? place.runs.time : 0;
    countedLaunches += place.byCounters;
    // A node that several launches compute has no intensity of its own.
    const LaunchRecord &launch = profile.launches[place.runs.launch];
    if (launch.nodes.size() == 1) {
      Node &node = profile.nodes[launch.nodes.front()];
      node.metrics["arithmetic_intensity"] = place.intensity;
      node.metrics["roof_pct"] = percentValue(place.roof(), place.runTime);
    }
  }

  Finding &finding = context.add("roofline");
  finding.severityNsPerStep = context.perStep(aboveRoof);
  json::Object classes;
  for (size_t index = 0; index < numBounds; ++index)
    classes[stringify(Bound(index))] =
        json::Object{{"launches", launchesOf[index]},
                     {"ns_per_step", context.perStep(timeOf[index])}};
  json::Array slowest;
  for (const Placed &place : ArrayRef(placed).take_front(10)) {
    const LaunchRecord &launch = profile.launches[place.runs.launch];
    slowest.push_back(json::Object{
        {"compiled_graph", launch.compiledGraph},
        {"launch", launch.index},
        {"kernel", launch.kernel},
        {"class", stringify(place.bound)},
        {"class_from", place.byCounters ? "counters" : "model"},
        {"ceiling", place.ceiling},
        {"ns", std::round(place.runTime)},
        {"roof_ns", std::round(place.roof())},
        {"roof_pct", percentValue(place.roof(), place.runTime)},
        {"arithmetic_intensity", place.intensity},
    });
  }
  auto ceiling = [](const Ceiling &from) {
    return json::Object{{"rate_per_s", from.rate}, {"origin", from.origin}};
  };
  finding.evidence = json::Object{
      {"ceilings", json::Object{{"device", ceilings->name},
                                {"memory_bytes", ceiling(ceilings->memory)},
                                {"fp32_flops", ceiling(ceilings->fp32)},
                                {"tf32_flops", ceiling(ceilings->tf32)},
                                {"bf16_flops", ceiling(ceilings->bf16)},
                                {"fp16_flops", ceiling(ceilings->fp16)}}},
      {"ridge_fp32_flops_per_byte",
       ceilings->fp32.rate / ceilings->memory.rate},
      {"ridge_bf16_flops_per_byte",
       ceilings->bf16.rate / ceilings->memory.rate},
      {"classes", std::move(classes)},
      {"classes_from_counters_launches", countedLaunches},
      {"classes_from_counters_ns_per_step", context.perStep(countedTime)},
      {"roof_ns_per_step", context.perStep(roofTime)},
      {"above_roof_ns_per_step", context.perStep(aboveRoof)},
      {"without_model_ns_per_step", context.perStep(unknownTime)},
      {"most_above_roof", std::move(slowest)},
  };
  for (const Placed &place : ArrayRef(placed).take_front(5))
    for (uint32_t node : profile.launches[place.runs.launch].nodes)
      if (!llvm::is_contained(finding.nodes, node))
        finding.nodes.push_back(node);
  std::string parts;
  for (size_t index = 0; index < numBounds; ++index)
    if (launchesOf[index])
      parts += formatv("{0}{1} {2}-bound", parts.empty() ? "" : ", ",
                       formatPercent(timeOf[index], modelTime),
                       stringify(Bound(index)));
  parts += countedTime == modelTime ? " by counters"
           : countedTime ? formatv(" ({0} by counters, the rest by the model)",
                                   formatPercent(countedTime, modelTime))
                               .str()
                         : std::string(" by the model");
  const Placed &worst = placed.front();
  const LaunchRecord &worstLaunch = profile.launches[worst.runs.launch];
  const Ceiling &compute = worst.ceiling == "bf16"   ? ceilings->bf16
                           : worst.ceiling == "fp16" ? ceilings->fp16
                           : worst.ceiling == "tf32" ? ceilings->tf32
                                                     : ceilings->fp32;
  finding.text = formatv(
      "Of {0} of kernels with known work, {1}; the roof allows {2}. Furthest "
      "off: {3}, {4} where {5} would do ({6:f1} FLOP/byte; {7}: {8:f1} TB/s "
      "{9}, {10} {11:f0} TFLOP/s {12}).",
      formatTime(context.perStep(modelTime)), parts,
      formatTime(context.perStep(roofTime)), describe(profile, worstLaunch),
      formatTime(int64_t(worst.runTime)), formatTime(int64_t(worst.roof())),
      worst.intensity, ceilings->name, ceilings->memory.rate / 1e12,
      ceilings->memory.origin, worst.ceiling, compute.rate / 1e12,
      compute.origin);

  double gain = 0;
  int64_t idleTime = 0;
  std::vector<const Placed *> idle;
  int64_t idleByCounters = 0;
  bool onlySingle = true;
  for (const Placed &place : placed)
    if (place.tensorCoresIdle) {
      idle.push_back(&place);
      idleByCounters += place.idleByCounters;
      onlySingle &= place.ceiling == "fp32";
      idleTime += place.runs.time;
      gain += std::max(0.0, place.runTime - place.tensorTime) *
              (double(place.runs.time) / place.runTime);
    }
  if (idle.empty())
    return;
  llvm::stable_sort(idle, [](const Placed *a, const Placed *b) {
    return a->runs.time > b->runs.time;
  });
  Finding &cores = context.add("tensor-cores-idle");
  cores.severityNsPerStep = context.perStep(gain);
  for (const Placed *place : ArrayRef(idle).take_front(5))
    for (uint32_t node : profile.launches[place->runs.launch].nodes)
      if (!llvm::is_contained(cores.nodes, node))
        cores.nodes.push_back(node);
  cores.evidence = json::Object{
      {"launches", int64_t(idle.size())},
      {"ns_per_step", context.perStep(idleTime)},
      {"share_of_kernel_time_pct",
       percentValue(idleTime, context.kernelTimeNs)},
      {"least_ns_per_step_with_tensor_cores",
       context.perStep(double(idleTime) - gain)},
      {"launches_by_counters", idleByCounters},
      {"kernel", idle.front()->runs.longest->name},
  };
  cores.text = formatv(
      "{0} {6}without tensor cores{7}: {1} {9}, {2} of kernel time, where "
      "{8} ceiling allows {3}; longest is {4}, kernel {5}.",
      idle.size() == 1 ? "1 matrix product runs"
                       : std::to_string(idle.size()) + " matrix products run",
      formatTime(context.perStep(idleTime)),
      formatPercent(idleTime, context.kernelTimeNs),
      formatTime(context.perStep(double(idleTime) - gain)),
      describe(profile, profile.launches[idle.front()->runs.launch]),
      shorten(idle.front()->runs.longest->name, 48),
      onlySingle ? "in fp32 " : "",
      idleByCounters == int64_t(idle.size()) ? " (their counter shows none)"
                                             : "",
      onlySingle ? "tf32's" : "their", context.each());
}
