// Findings from the model of FLOPs and bytes. Sets the time of each launch
// against the least time that the device's ceilings allow for its arithmetic
// and its bytes. What bounds a launch is read from its counters where it has
// some.

#include "FindingBuilder.h"

#include "opprof/Analysis/Cost/CostModel.h"
#include "opprof/Analysis/Cost/DeviceCeilings.h"
#include "opprof/Findings/RooflinePlot.h"
#include "opprof/Metrics/KernelFamilies.h"
#include "opprof/Trace/InputShapes.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

#include <cmath>

using namespace llvm;
using namespace opprof;
using namespace opprof::findings;
using namespace opprof::profile;

namespace {
/// The steady runs of one launch; without a graph the calls of one operator
/// with inputs of one size.
struct WorkRuns {
  /// Places in the profile; one of them.
  std::optional<uint32_t> launch;
  std::optional<uint32_t> op;
  int64_t time = 0;
  uint64_t kernels = 0;
  int64_t launchCalls = 0;
  uint64_t withLaunchCall = 0;
  const Activity *longest = nullptr;
  std::vector<const Activity *> list;
};

/// What one run does.
struct WorkOfRun {
  double flops = 0;
  double bytes = 0;
  WorkKind kind = WorkKind::Unknown;
};

/// Work against the ceilings; times are of one run.
struct Placed {
  WorkRuns runs;
  /// How many there were.
  double times = 0;
  WorkOfRun work;
  double runTime = 0;
  double intensity = 0;
  double computeTime = 0;
  double memoryTime = 0;
  Precision ceiling = Precision::FP32;
  Bound bound = Bound::Unknown;
  /// The class is from counters, and else from the model.
  bool byCounters = false;
  /// What tensor cores could do it in, where they are idle; whether a counter
  /// shows that, and the time that they would allow.
  std::optional<Precision> idleTensorCores;
  bool idleByCounters = false;
  double tensorTime = 0;

  double roof() const { return std::max(computeTime, memoryTime); }
  /// A time of one run over all runs.
  double inAllRuns(double time) const {
    return runTime > 0 ? time * (double(runs.time) / runTime) : 0;
  }
  double above() const { return inAllRuns(std::max(0.0, runTime - roof())); }
};

/// The types that products have ceilings for.
enum class ProductType : uint8_t { Other, Half, BFloat16, Single };
} // namespace

static bool hasModel(const LaunchRecord &launch) {
  return launch.flops && launch.bytesRead && launch.bytesWritten;
}

static double bytesOf(const LaunchRecord &launch) {
  return double(*launch.bytesRead) + double(*launch.bytesWritten);
}

/// The operator that a launch calls, as the model of costs knows it.
static WorkKind getKind(const LaunchRecord &launch) {
  if (launch.category == launch::LaunchCategory::Template)
    return WorkKind::Matrix;
  StringRef kernel = launch.kernel;
  if (kernel.consume_front("extern_kernels."))
    return getWorkKind(
        ("aten." + (kernel == "bias_addmm" ? "addmm" : kernel)).str());
  kernel.consume_front("torch.ops.");
  return getWorkKind(kernel);
}

/// Of a type as profilers or torch name it.
static ProductType parseProductType(StringRef type) {
  return StringSwitch<ProductType>(type)
      .Cases({"c10::Half", "float16"}, ProductType::Half)
      .Cases({"c10::BFloat16", "bfloat16"}, ProductType::BFloat16)
      .Cases({"float", "float32"}, ProductType::Single)
      .Default(ProductType::Other);
}

/// Whether a library says in a kernel's name that it multiplies fp32.
static bool isSingleByName(StringRef kernel) {
  return kernel.contains("f32f32") || kernel.contains("sgemm") ||
         kernel.contains("s1688gemm_");
}

/// Of the operators where there are no launches.
static std::vector<WorkRuns> collectRuns(const Context &context) {
  const Profile &profile = context.profile;
  bool byLaunch = !profile.launches.empty();
  std::vector<WorkRuns> all(byLaunch ? profile.launches.size()
                                     : profile.operators.size());
  for (const Activity *kernel : context.kernels) {
    std::optional<uint32_t> place = byLaunch ? kernel->launch : kernel->op;
    if (!place)
      continue;
    WorkRuns &runs = all[*place];
    (byLaunch ? runs.launch : runs.op) = place;
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
  llvm::erase_if(all, [](const WorkRuns &runs) { return !runs.kernels; });
  return all;
}

/// Steady runs of a launch; without a count of them, each kernel is one. Calls
/// of an operator are those of all devices.
static double countRuns(const Context &context, const WorkRuns &runs) {
  if (runs.op) {
    const OperatorTime &op = context.profile.operators[*runs.op];
    return std::max(1.0, double(op.calls) * double(runs.kernels) /
                             double(std::max(op.kernels, runs.kernels)));
  }
  return findings::countRuns(context.profile.launches[*runs.launch], runs.time)
      .value_or(double(runs.kernels));
}

/// Absent where the model of costs does not know it.
static std::optional<WorkOfRun> findWork(const Context &context,
                                         const WorkRuns &runs) {
  if (runs.op) {
    const OperatorTime &op = context.profile.operators[*runs.op];
    if (!op.flops || !op.bytesRead || !op.bytesWritten)
      return std::nullopt;
    return WorkOfRun{double(*op.flops),
                     double(*op.bytesRead) + double(*op.bytesWritten),
                     getWorkKind(("aten." + nameOfATen(op.name)).str())};
  }
  const LaunchRecord &launch = context.profile.launches[*runs.launch];
  if (!hasModel(launch))
    return std::nullopt;
  return WorkOfRun{double(*launch.flops), bytesOf(launch), getKind(launch)};
}

//===----------------------------------------------------------------------===//
// The class of a launch
//===----------------------------------------------------------------------===//

static const Ceiling &getCeiling(const DeviceCeilings &ceilings,
                                 Precision precision) {
  switch (precision) {
  case Precision::FP32:
    return ceilings.fp32;
  case Precision::TF32:
    return ceilings.tf32;
  case Precision::BF16:
    return ceilings.bf16;
  case Precision::FP16:
    return ceilings.fp16;
  }
  llvm_unreachable("unhandled precision");
}

/// The type that products multiply, as the profiler saw it, or else as the code
/// that launches them says, or else as their kernel's name does. Absent where
/// that is not known.
static std::optional<ProductType> getProductType(const Context &context,
                                                 const WorkRuns &runs) {
  const Activity &kernel = *runs.longest;
  if (runs.op)
    for (const std::string &type :
         trace::readInputTexts(context.profile.operators[*runs.op].inputTypes))
      if (ProductType product = parseProductType(type);
          product != ProductType::Other)
        return product;
  StringRef type = kernel.origin->inputType;
  if (type.empty() && runs.launch)
    type = context.profile.launches[*runs.launch].dtype;
  if (!type.empty())
    return parseProductType(type);
  if (isSingleByName(kernel.name))
    return ProductType::Single;
  return std::nullopt;
}

/// The family of the launch's kernels: that of the longest one which is no
/// other's helper.
static const metrics::KernelFamily *findFamily(const WorkRuns &runs) {
  const metrics::KernelFamily *found = nullptr;
  int64_t longest = -1;
  // The same kernels run again and again, and each name is there once.
  SmallDenseMap<const char *, const metrics::KernelFamily *, 4> known;
  for (const Activity *kernel : runs.list) {
    auto [it, isNew] = known.try_emplace(kernel->name.data());
    if (isNew)
      it->second = metrics::findKernelFamily(kernel->name);
    const metrics::KernelFamily *family = it->second;
    if (!family || family->work == metrics::KernelWork::Helper ||
        kernel->durationNs <= longest)
      continue;
    found = family;
    longest = kernel->durationNs;
  }
  return found;
}

/// Holds a launch of products against the ceiling of its type, and says whether
/// tensor cores, which could do them, are idle: by their counter, or else by
/// what its kernels are known to be. Of kernels that no one knows nothing is
/// said.
static void placeProduct(Placed &place, ProductType type,
                         const Counted &counted,
                         const DeviceCeilings &ceilings) {
  using metrics::KernelWork;
  using metrics::TensorCores;
  bool isHalf = type == ProductType::Half || type == ProductType::BFloat16;
  bool isSingle = type == ProductType::Single;
  const metrics::KernelFamily *family = findFamily(place.runs);
  // What reads each value once, or multiplies no matrices, has no use for them.
  bool couldUse =
      !family || (family->work != KernelWork::DepthwiseConvolution &&
                  family->work != KernelWork::VectorProduct);
  TensorCores use = family ? family->tensorCores : TensorCores::Unknown;
  std::optional<double> tensorPipe = counted.rate("tensor_pipe_pct");
  // Under one percent is what an epilogue may leave.
  if (tensorPipe)
    use = *tensorPipe >= 1 ? TensorCores::Used : TensorCores::Unused;
  Precision ofTensorCores = type == ProductType::Half ? Precision::FP16
                            : isHalf                  ? Precision::BF16
                                                      : Precision::TF32;
  if (getCeiling(ceilings, ofTensorCores).rate <= 0)
    return;
  if ((isHalf && couldUse) || (isSingle && use == TensorCores::Used))
    place.ceiling = ofTensorCores;
  if (use == TensorCores::Unused && couldUse && (isSingle || isHalf)) {
    place.idleTensorCores = ofTensorCores;
    place.idleByCounters = tensorPipe.has_value();
  }
}

/// What bounds a launch, by its counters where it has them.
static void classify(Placed &place, const Counted &counted, double runs) {
  if (std::optional<Bound> bound = boundByCounters(counted)) {
    place.bound = *bound;
    place.byCounters = true;
  } else if (place.roof() < place.runTime / 2) {
    // Only a grid that leaves the device unfilled shows latency by itself.
    std::optional<double> blocks = place.runs.longest->config->blocksPerSM;
    place.bound = blocks && *blocks < 1 ? Bound::Latency : Bound::Unknown;
  } else {
    place.bound =
        place.computeTime > place.memoryTime ? Bound::Compute : Bound::Memory;
  }
  double launchCall =
      place.runs.withLaunchCall ? double(place.runs.launchCalls) / runs : 0;
  bool isFarOff =
      place.bound == Bound::Latency || place.bound == Bound::Unknown;
  if (isFarOff && place.runTime < launchCall)
    place.bound = Bound::Launch;
}

/// Absent where the work, or the type of its products, is not known.
static std::optional<Placed> place(const Context &context, const WorkRuns &runs,
                                   const DeviceCeilings &ceilings) {
  std::optional<WorkOfRun> work = findWork(context, runs);
  if (!work)
    return std::nullopt;
  Placed place;
  place.runs = runs;
  place.work = *work;
  place.times = countRuns(context, runs);
  place.runTime = double(runs.time) / place.times;
  place.intensity = work->bytes > 0 ? work->flops / work->bytes : 0;
  place.memoryTime = work->bytes / ceilings.memory.rate * 1e9;

  Counted counted(context.profile, runs.list);
  if (work->kind == WorkKind::Matrix) {
    std::optional<ProductType> type = getProductType(context, runs);
    if (!type)
      return std::nullopt;
    placeProduct(place, *type, counted, ceilings);
    if (place.idleTensorCores)
      place.tensorTime = std::max(
          work->flops / getCeiling(ceilings, *place.idleTensorCores).rate * 1e9,
          place.memoryTime);
  }
  place.computeTime =
      work->flops / getCeiling(ceilings, place.ceiling).rate * 1e9;
  classify(place, counted, place.times);
  return place;
}

/// The nodes that a launch computes; an operator without a graph has none.
static ArrayRef<uint32_t> nodesOf(const Context &context,
                                  const WorkRuns &runs) {
  return runs.launch ? ArrayRef(context.profile.launches[*runs.launch].nodes)
                     : ArrayRef<uint32_t>();
}

//===----------------------------------------------------------------------===//
// Findings
//===----------------------------------------------------------------------===//

/// What is known without ceilings: the rates that were reached.
static void addWithoutRoof(Context &context, NoRoof reason) {
  double flops = 0, bytes = 0;
  int64_t time = 0;
  for (const WorkRuns &runs : collectRuns(context)) {
    std::optional<WorkOfRun> work = findWork(context, runs);
    if (!work)
      continue;
    double times = countRuns(context, runs);
    flops += times * work->flops;
    bytes += times * work->bytes;
    time += runs.time;
  }
  evidence::Roofline roofline;
  roofline.without = reason;
  if (reason == NoRoof::Device)
    roofline.ceilings.device = context.device->name;
  if (time > 0 && flops > 0)
    roofline.rates = {flops / double(context.steps),
                      bytes / double(context.steps), flops * 1e9 / double(time),
                      bytes * 1e9 / double(time)};
  context.add(std::move(roofline));
}

static evidence::Ceilings describeCeilings(const DeviceCeilings &ceilings) {
  auto rate = [](const Ceiling &from) {
    return evidence::Rate{from.rate, from.origin.str()};
  };
  evidence::Ceilings described;
  described.device = ceilings.name.str();
  described.memory = rate(ceilings.memory);
  for (size_t index = 0; index < kNumPrecisions; ++index)
    described.compute[index] =
        rate(getCeiling(ceilings, static_cast<Precision>(index)));
  return described;
}

/// Sums up `placed`, which comes furthest above the roof first.
static evidence::Roofline sumClasses(ArrayRef<Placed> placed) {
  evidence::Roofline roofline;
  for (const Placed &place : placed) {
    evidence::ClassTime &sum =
        roofline.classes[static_cast<size_t>(place.bound)];
    ++sum.launches;
    sum.timeNs += place.runs.time;
    if (place.byCounters) {
      ++roofline.byCounters.launches;
      roofline.byCounters.timeNs += place.runs.time;
    }
    roofline.aboveRoofNs += place.above();
    roofline.roofNs += place.inAllRuns(place.roof());
  }
  for (const Placed &place : placed.take_front(10))
    roofline.mostAboveRoof.push_back(
        {place.runs.launch, place.runs.op, place.bound, place.byCounters,
         place.ceiling, place.runTime, place.roof(),
         percentOf(place.roof(), place.runTime), place.intensity});
  return roofline;
}

static void addTensorCoresIdle(Context &context, ArrayRef<Placed> placed) {
  std::vector<const Placed *> idle;
  evidence::TensorCoresIdle found;
  found.isAllFP32 = true;
  double gain = 0;
  for (const Placed &place : placed)
    if (place.idleTensorCores) {
      idle.push_back(&place);
      found.launchesByCounters += place.idleByCounters;
      found.isAllFP32 &= place.ceiling == Precision::FP32;
      found.timeNs += place.runs.time;
      gain += place.inAllRuns(std::max(0.0, place.runTime - place.tensorTime));
    }
  if (idle.empty())
    return;
  llvm::stable_sort(idle, [](const Placed *a, const Placed *b) {
    return a->runs.time > b->runs.time;
  });
  const WorkRuns &longest = idle.front()->runs;
  found.launches = idle.size();
  found.sharePct = percentOf(found.timeNs, context.kernelTimeNs);
  found.leastNs = double(found.timeNs) - gain;
  found.kernel = longest.longest->name;
  found.longest = context.placeOf(*longest.longest);
  Finding &finding = context.add(std::move(found));
  finding.severityNsPerStep = context.perStep(gain);
  for (const Placed *place : ArrayRef(idle).take_front(5))
    addNodes(finding, nodesOf(context, place->runs));
}

void findings::addGoodput(Context &context) {
  std::optional<DeviceCeilings> ceilings = findDeviceCeilings(*context.device);
  if (!ceilings)
    return;
  std::array<double, kNumPrecisions> flops{};
  int64_t known = 0;
  for (const WorkRuns &runs : collectRuns(context)) {
    std::optional<Placed> placed = place(context, runs, *ceilings);
    if (!placed)
      continue;
    known += runs.time;
    flops[size_t(placed->ceiling)] += placed->times * placed->work.flops;
  }
  evidence::Goodput goodput;
  for (double part : flops)
    goodput.flops += part;
  // Less is no program of products, and its share says nothing.
  if (goodput.flops < 1e6 * double(context.steps) || !known)
    return;
  goodput.knownPct = percentOf(known, context.kernelTimeNs);
  goodput.flopsPerSecond = goodput.flops * 1e9 / double(context.wall());
  goodput.precision =
      static_cast<Precision>(llvm::max_element(flops) - flops.begin());
  const Ceiling &peak = getCeiling(*ceilings, goodput.precision);
  goodput.peak = {peak.rate, peak.origin.str()};
  goodput.utilizationPct = 100 * goodput.flopsPerSecond / peak.rate;
  context.add(std::move(goodput));
}

/// What can be placed, furthest above its roof first.
static std::vector<Placed> placeAll(const Context &context,
                                    const DeviceCeilings &ceilings) {
  std::vector<Placed> placed;
  for (const WorkRuns &runs : collectRuns(context))
    if (std::optional<Placed> found = place(context, runs, ceilings))
      placed.push_back(std::move(*found));
  llvm::stable_sort(placed, [](const Placed &a, const Placed &b) {
    return a.above() > b.above();
  });
  return placed;
}

void findings::addRooflineFindings(Context &context) {
  const Profile &profile = context.profile;
  bool anyWork = llvm::any_of(profile.launches, hasModel);
  if (profile.launches.empty())
    anyWork = llvm::any_of(profile.operators, [](const OperatorTime &op) {
      return op.flops && op.bytesRead && op.bytesWritten;
    });
  std::optional<DeviceCeilings> ceilings = findDeviceCeilings(*context.device);
  // Without a graph nobody asked, and operators have their rates beside them.
  if (!hasGraph(profile) && (!anyWork || !ceilings))
    return;
  if (!anyWork)
    return addWithoutRoof(context, profile.launches.empty() ? NoRoof::LaunchMap
                                                            : NoRoof::Costs);
  if (!ceilings)
    return addWithoutRoof(context,
                          context.isCPU ? NoRoof::CPU : NoRoof::Device);

  std::vector<Placed> placed = placeAll(context, *ceilings);
  if (placed.empty())
    return addWithoutRoof(context, NoRoof::Run);
  evidence::Roofline roofline = sumClasses(placed);
  roofline.ceilings = describeCeilings(*ceilings);
  roofline.withoutModelNs = context.kernelTimeNs;
  for (const Placed &place : placed)
    roofline.withoutModelNs -= place.runs.time;
  int64_t cost = context.perStep(roofline.aboveRoofNs);
  Finding &finding = context.add(std::move(roofline));
  finding.severityNsPerStep = cost;
  for (const Placed &place : ArrayRef(placed).take_front(5))
    addNodes(finding, nodesOf(context, place.runs));
  addTensorCoresIdle(context, placed);
}

void findings::setRooflineMetrics(const Context &context, Profile &profile) {
  std::optional<DeviceCeilings> ceilings = findDeviceCeilings(*context.device);
  if (!ceilings)
    return;
  for (const Placed &place : placeAll(context, *ceilings)) {
    ArrayRef<uint32_t> nodes = nodesOf(context, place.runs);
    // A node that several launches compute has no intensity of its own.
    if (nodes.size() != 1)
      continue;
    Node &node = profile.nodes[nodes.front()];
    node.metrics["arithmetic_intensity"] = place.intensity;
    node.metrics["roof_pct"] = percentOf(place.roof(), place.runTime);
  }
}

//===----------------------------------------------------------------------===//
// The plot
//===----------------------------------------------------------------------===//

/// Why kernels of one work, or of none, are not in the plot.
static NoPlace explainNoPlace(const Context &context,
                              const std::optional<WorkOfRun> &work,
                              const WorkRuns &runs) {
  if (work)
    return work->flops > 0 ? NoPlace::Type : NoPlace::Arithmetic;
  if (!runs.launch && !runs.op)
    return context.profile.launches.empty() ? NoPlace::Operator
                                            : NoPlace::Launch;
  if (runs.op && context.profile.operators[*runs.op].inputDims.empty())
    return NoPlace::Sizes;
  return NoPlace::Model;
}

RooflinePlot opprof::plotRoofline(const Profile &profile) {
  RooflinePlot plot;
  Context context(profile);
  if (context.kernels.empty())
    return plot;
  std::optional<DeviceCeilings> ceilings = findDeviceCeilings(*context.device);
  if (ceilings)
    plot.ceilings = describeCeilings(*ceilings);
  plot.steps = context.steps;
  std::map<NoPlace, std::map<StringRef, KernelsOfName>> without;
  auto leaveOut = [&](NoPlace why, ArrayRef<const Activity *> kernels) {
    for (const Activity *kernel : kernels) {
      KernelsOfName &sum = without[why][kernel->name];
      sum.name = kernel->name;
      sum.timeNs += kernel->durationNs;
      ++sum.kernels;
    }
  };
  for (const WorkRuns &runs : collectRuns(context)) {
    std::optional<WorkOfRun> work = findWork(context, runs);
    // Where no ceilings are known, the rates are all the same.
    std::optional<Placed> placed;
    if (ceilings)
      placed = place(context, runs, *ceilings);
    bool isPlaced = ceilings ? placed.has_value() : work.has_value();
    if (!isPlaced || work->flops <= 0 || work->bytes <= 0 || runs.time <= 0) {
      leaveOut(explainNoPlace(context, work, runs), runs.list);
      continue;
    }
    RooflinePoint &point = plot.points.emplace_back();
    point.launch = runs.launch;
    point.op = runs.op;
    point.kernel = context.placeOf(*runs.longest);
    point.kernels = runs.kernels;
    point.timeNs = runs.time;
    double times = countRuns(context, runs);
    point.flopsPerSecond = work->flops * times * 1e9 / double(runs.time);
    point.intensity = work->flops / work->bytes;
    if (placed) {
      point.ceiling = placed->ceiling;
      point.bound = placed->bound;
      point.roofPct = percentOf(placed->roof(), placed->runTime);
    }
  }
  bool byLaunch = !profile.launches.empty();
  std::vector<const Activity *> unknown;
  for (const Activity *kernel : context.kernels)
    if (!(byLaunch ? kernel->launch : kernel->op))
      unknown.push_back(kernel);
  leaveOut(explainNoPlace(context, std::nullopt, WorkRuns()), unknown);
  llvm::stable_sort(plot.points,
                    [](const RooflinePoint &a, const RooflinePoint &b) {
                      return a.timeNs > b.timeNs;
                    });
  for (auto &[why, names] : without) {
    WithoutPlace &group = plot.without.emplace_back();
    group.why = why;
    for (auto &[name, sum] : names) {
      group.timeNs += sum.timeNs;
      group.kernels += sum.kernels;
      group.names.push_back(sum);
    }
    llvm::stable_sort(group.names,
                      [](const KernelsOfName &a, const KernelsOfName &b) {
                        return a.timeNs > b.timeNs;
                      });
  }
  return plot;
}
