// What a profile says of a program.

#include "opprof/Findings/Findings.h"

#include "FindingBuilder.h"
#include "opprof/Support/Median.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <map>

using namespace llvm;
using namespace opprof;
using namespace opprof::findings;
using namespace opprof::profile;

Context::Context(const Profile &profile)
    : profile(profile), device(findBusiestDevice(profile)) {
  if (!device || !profile.summary.window)
    return;
  window = *profile.summary.window;
  between = profile.summary.betweenSteps;
  isCPU = device->kind == "cpu";
  steps = std::max<int64_t>(countSteadySteps(profile), 1);

  kernels = kernelsOn(device->id);
  for (const Activity *kernel : kernels)
    kernelTimeNs += kernel->durationNs;
  for (const Activity &copy : profile.copies)
    if (copy.device == device->id && isInSteps(copy))
      copies.push_back(&copy);
  // What was launched before the window, or to compile, keeps the device busy
  // as well.
  busy = runningTimes(profile.kernels, device->id, window);
  occupied = occupiedTimes(device->id, busy);
  if (isCPU)
    measureSpans();
}

/// What lasts longer than a call of an operator by Python or by autograd is
/// something else that the host does.
static constexpr int64_t kLongestCallNs = 30'000;

void Context::measureSpans() {
  spans.resize(profile.kernels.size());
  std::map<std::optional<int64_t>, const Activity *> lastOf;
  // Alike are those of one line, module and operator, with inputs of one size.
  std::map<std::pair<const Origin *, uint32_t>, std::vector<uint32_t>> alike;
  for (const Activity *kernel : kernels) {
    const Activity *&last = lastOf[kernel->stream];
    if (last && last->step == kernel->step)
      spans[placeOf(*last)] += std::clamp<int64_t>(
          kernel->startNs - last->endNs() - int64_t(last->recordingBesideNs), 0,
          kLongestCallNs);
    last = kernel;
    spans[placeOf(*kernel)] =
        std::max<int64_t>(kernel->durationNs - int64_t(kernel->recordingNs), 0);
    alike[{kernel->origin, kernel->op ? *kernel->op : ~uint32_t(0)}].push_back(
        placeOf(*kernel));
  }
  for (const auto &[key, places] : alike) {
    std::vector<int64_t> times;
    for (uint32_t place : places)
      times.push_back(spans[place]);
    int64_t most = mostOfUsual(std::move(times));
    for (uint32_t place : places)
      spans[place] = std::min(spans[place], most);
  }
}

const Simulation *Context::simulation() const {
  if (isCPU)
    return nullptr;
  if (!played) {
    std::vector<const Synchronization *> waits;
    for (const Synchronization &wait : profile.synchronizations)
      if (wait.startNs >= window.first && wait.startNs < window.second)
        waits.push_back(&wait);
    played.emplace(kernels, copies, waits);
  }
  return played->isKnown() ? &*played : nullptr;
}

std::vector<Interval> Context::compiledCalls() const {
  std::vector<Interval> calls;
  for (const CompiledCall &call : profile.calls)
    calls.push_back({call.startNs, call.startNs + call.durationNs});
  return unite(std::move(calls));
}

std::vector<Interval>
Context::occupiedTimes(int64_t device, std::vector<Interval> kernels) const {
  llvm::append_range(kernels, runningTimes(profile.copies, device, window));
  return unite(std::move(kernels));
}

bool Context::isInSteps(const Activity &activity) const {
  return activity.phase == Phase::Steady && activity.endNs() > window.first &&
         activity.startNs < window.second;
}

std::vector<const Activity *> Context::kernelsOn(int64_t device) const {
  std::vector<const Activity *> found;
  for (const Activity &kernel : profile.kernels)
    if (kernel.device == device && isInSteps(kernel))
      found.push_back(&kernel);
  llvm::stable_sort(found, [](const Activity *a, const Activity *b) {
    return a->startNs < b->startNs;
  });
  return found;
}

std::vector<int64_t> Context::devicesWithKernels() const {
  std::vector<int64_t> found;
  for (const Device &device : profile.devices)
    if (device.busyNs.value_or(0) > 0)
      found.push_back(device.id);
  llvm::sort(found);
  return found;
}

Finding &Context::add(Evidence evidence) {
  Finding &finding = findings.emplace_back();
  finding.evidence = std::move(evidence);
  return finding;
}

std::optional<double> findings::countRuns(const LaunchRecord &launch,
                                          int64_t timeNs) {
  if (!launch.runs || launch.kernelTimeNs <= 0)
    return std::nullopt;
  return std::max(1.0, std::round(double(launch.runs) * double(timeNs) /
                                  double(launch.kernelTimeNs)));
}

void findings::addNodes(Finding &finding, ArrayRef<uint32_t> nodes) {
  for (uint32_t node : nodes)
    if (!llvm::is_contained(finding.nodes, node))
      finding.nodes.push_back(node);
}

void opprof::computeFindings(Profile &profile) {
  profile.findings.clear();
  costOperators(profile);
  Context context(profile);
  if (context.kernels.empty() || context.wall() <= 0)
    return;
  if (hasTimeline(profile))
    addTimelineFindings(context);
  addRooflineFindings(context);
  if (hasTimeline(profile))
    addGoodput(context);
  addUnfusedAttention(context);
  addLayoutConversions(context);
  addCounterFindings(context);
  addLineFindings(context);
  setRooflineMetrics(context, profile);
  profile.findings = std::move(context.findings);
}

static bool isOfCeilings(const Finding &finding) {
  std::optional<FindingKind> kind = finding.kind();
  return kind == FindingKind::Roofline ||
         kind == FindingKind::TensorCoresIdle || kind == FindingKind::Goodput ||
         kind == FindingKind::MemoryTraffic;
}

void opprof::renewCeilingFindings(Profile &profile) {
  std::vector<Finding> known = std::move(profile.findings);
  computeFindings(profile);
  llvm::erase_if(known, isOfCeilings);
  // In the order of what is computed.
  std::vector<Finding> all;
  for (Finding &fresh : profile.findings) {
    if (isOfCeilings(fresh)) {
      all.push_back(std::move(fresh));
      continue;
    }
    auto same = llvm::find_if(known, [&](const Finding &finding) {
      return finding.kind() == fresh.kind();
    });
    if (same == known.end())
      continue;
    all.push_back(std::move(*same));
    known.erase(same);
  }
  all.insert(all.end(), std::make_move_iterator(known.begin()),
             std::make_move_iterator(known.end()));
  profile.findings = std::move(all);
}
