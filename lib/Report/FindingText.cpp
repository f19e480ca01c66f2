// Findings in words.

#include "opprof/Report/FindingText.h"
#include "opprof/Support/Units.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::profile;
using namespace opprof::report;

/// `text`, cut after `length` bytes at most.
static std::string shorten(StringRef text, size_t length) {
  if (text.size() <= length)
    return text.str();
  // No character is cut in two.
  while (length && (static_cast<uint8_t>(text[length]) & 0xc0) == 0x80)
    --length;
  return text.take_front(length).str() + "…";
}

std::string report::shortHost(StringRef host) {
  constexpr size_t kMost = 60;
  if (host.size() <= kMost || !host.contains("): "))
    return shorten(host, kMost);
  // From a folder on.
  StringRef end = host.take_back(kMost).drop_while(
      [](char c) { return (static_cast<uint8_t>(c) & 0xc0) == 0x80; });
  size_t slash = end.find('/');
  return "…" + (slash == StringRef::npos ? end : end.drop_front(slash)).str();
}

/// What of the time of `timeNsOf` is longest; of equals the last.
template <typename Enum>
static std::pair<Enum, int64_t>
findMost(const std::map<Enum, int64_t> &timeNsOf) {
  std::pair<Enum, int64_t> most{Enum{}, -1};
  for (auto [name, time] : timeNsOf)
    if (time >= most.second)
      most = {name, time};
  return most;
}

namespace {
/// A sentence for each kind of evidence, as an overload of `say`.
class Prose {
public:
  explicit Prose(const Profile &profile)
      : profile(profile), hasSteps(countSteadySteps(profile) > 0),
        steps(std::max<int64_t>(countSteadySteps(profile), 1)) {
    const Device *busiest = findBusiestDevice(profile);
    isCPU = busiest && busiest->kind == "cpu";
    auto ran = [](const Device &device) { return device.busyNs.has_value(); };
    if (busiest && llvm::count_if(profile.devices, ran) > 1)
      device = formatv("device {0}", busiest->id);
  }

  std::string say(const evidence::Unread &) { return ""; }
  std::string say(const evidence::WallTime &time);
  std::string say(const evidence::DeviceBusy &busy);
  std::string say(const evidence::SmallKernels &small);
  std::string say(const evidence::NoArithmetic &moves);
  std::string say(const evidence::Synchronizations &waits);
  std::string say(const evidence::CacheLookups &lookups);
  std::string say(const evidence::HostCopies &copies);
  std::string say(const evidence::BiasCopies &copies);
  std::string say(const evidence::SerializedWork &work);
  std::string say(const evidence::Communication &talk);
  std::string say(const evidence::ColdStart &cold);
  std::string say(const evidence::Variation &variation);
  std::string say(const evidence::Roofline &roofline);
  std::string say(const evidence::TensorCoresIdle &idle);
  std::string say(const evidence::SpeedOfLight &speed);
  std::string say(const evidence::MemoryTraffic &traffic);
  std::string say(const evidence::LowOccupancy &occupancy);
  std::string say(const evidence::LocalMemory &memory);
  std::string say(const evidence::BankConflicts &conflicts);
  std::string say(const evidence::ScatteredAccess &scatter);
  std::string say(const evidence::Stalls &stalls);
  std::string say(const evidence::Pipes &pipes);
  std::string say(const evidence::Divergence &divergence);
  std::string say(const evidence::Goodput &goodput);
  std::string say(const evidence::LayoutConversions &conversions);
  std::string say(const evidence::UnfusedAttention &attention);
  std::string say(const evidence::DataLoadingWaits &line);
  std::string say(const evidence::Recompilation &line);
  std::string say(const evidence::GarbageCollection &line);
  std::string say(const evidence::CheckpointWriting &line);
  std::string say(const evidence::HostCode &code);
  std::string say(const evidence::NormalizationByHand &line);
  std::string say(const evidence::AttentionByHand &line);
  std::string say(const evidence::PrecisionIsland &island);
  std::string say(const evidence::GradientLoop &line);
  std::string say(const evidence::OptimizerLoop &line);
  std::string say(const evidence::ParameterLoop &line);
  std::string say(const evidence::OperatorLoop &line);
  std::string say(const evidence::HostWait &wait);
  std::string say(const evidence::CollectiveWait &line);
  std::string say(const evidence::PageableCopies &copies);
  std::string say(const evidence::GradientSets &line);
  std::string say(const evidence::DenseEmbeddingGradient &line);
  std::string say(const evidence::MemoryGrowth &growth);
  /// A sentence of a line: {0} is where, {1} its time, {2} of what, {3} its
  /// calls.
  std::string sayOf(const evidence::LineCost &line, const char *sentence,
                    StringRef detail = "");
  /// What is saved `otherwise`, as the steps were played again.
  std::string sayReplayed(const evidence::LineCost &line, StringRef otherwise);

private:
  /// Collectives, and idle times, of several devices; empty of one.
  std::string compare(ArrayRef<evidence::DeviceTalk> devices);
  std::string compare(ArrayRef<evidence::BusyOfDevice> devices);
  std::string compare(ArrayRef<evidence::SmallOfDevice> devices);
  std::string compare(ArrayRef<evidence::CopiesOfDevice> devices);
  /// What ends a gap that is the device's largest, in a clause; empty where
  /// that says nothing.
  std::string sayLargest(const evidence::Gap &gap) const;
  /// What figures a step are of: "a step", or "the capture" where the profile
  /// has no steps.
  std::string span() const {
    return hasSteps ? "a step" : ("the " + recordingNoun(profile)).str();
  }
  /// Which of several devices a figure is of: " on device 1".
  std::string onDevice() const {
    return device == "the device" ? "" : " on " + device;
  }
  /// How they are stated: "3 ms a step", or "3 ms in all".
  StringRef each() const { return hasSteps ? "a step" : "in all"; }

  static std::string time(int64_t ns) {
    return formatTime(ns, TimeDigits::Fixed);
  }
  /// Of a sum, which is stated a step.
  std::string timePerStep(int64_t total) const { return time(total / steps); }
  /// With what it is of.
  std::string timeEach(int64_t total) const {
    return (timePerStep(total) + " " + each()).str();
  }
  std::string timePerStep(double total) const {
    return time(static_cast<int64_t>(total / static_cast<double>(steps)));
  }
  static std::string share(double part, double whole) {
    return formatPercent(percentOf(part, whole));
  }

  std::string name(ArrayRef<uint32_t> nodes, StringRef kernel) const;
  /// A kernel by its node and line of the user's code, or else by its name.
  std::string name(const Activity &kernel) const {
    return name(kernel.origin->nodes, kernel.name);
  }
  std::string nameLaunch(uint32_t launch) const {
    return name(profile.launches[launch].nodes,
                profile.launches[launch].kernel);
  }
  /// "aten::mm [[8, 16], [16, 4]]".
  static std::string nameOperator(const OperatorTime &op) {
    constexpr size_t kMost = 60;
    std::string text = op.name + " " + op.inputDims;
    if (text.size() <= kMost)
      return text;
    // No tensor's sizes are cut in two.
    StringRef head = StringRef(text).take_front(kMost);
    size_t end = head.rfind(']');
    return end == StringRef::npos
               ? shorten(text, kMost)
               : head.take_front(end + 1).rtrim(" ,[]").str() + "], …]";
  }
  /// A kernel by its launch or operator, or else by its name.
  std::string nameWork(const Activity &kernel) const {
    if (kernel.launch)
      return nameLaunch(*kernel.launch);
    if (kernel.op)
      return nameOperator(profile.operators[*kernel.op]);
    return name(kernel);
  }
  std::string name(const evidence::Work &work) const {
    return name(profile.kernels[*work.longest]);
  }

  std::string splitIdle(const evidence::WallTime &time) const;
  std::string splitClasses(const evidence::Roofline &roofline) const;
  std::string sayWithoutRoof(const evidence::Roofline &roofline) const;

  const Profile &profile;
  bool hasSteps;
  int64_t steps;
  bool isCPU = false;
  /// Which one figures of a device are of.
  std::string device = "the device";
};
} // namespace

std::string Prose::name(ArrayRef<uint32_t> nodes, StringRef kernel) const {
  if (nodes.empty())
    return shorten(shortKernelName(kernel), 60);
  const Node &first = profile.nodes[nodes.front()];
  std::string text = first.id.name;
  if (nodes.size() > 1)
    text += formatv(" and {0} more", nodes.size() - 1);
  SmallVector<std::string> details;
  if (first.module && !first.module->empty())
    details.push_back(*first.module);
  for (uint32_t node : nodes)
    if (const auto &source = profile.nodes[node].source) {
      details.push_back(sys::path::filename(*source).str());
      break;
    }
  if (!details.empty())
    text += formatv(" ({0})", llvm::join(details, ", "));
  return text;
}

//===----------------------------------------------------------------------===//
// From the timeline
//===----------------------------------------------------------------------===//

std::string Prose::splitIdle(const evidence::WallTime &time) const {
  bool isCompiled = !profile.calls.empty();
  if (isCPU && !isCompiled)
    return formatv("in the other {0} ({1}) none does.",
                   timePerStep(time.idleOutsideNs),
                   share(time.idleOutsideNs, time.wallNs));
  if (isCPU) {
    int64_t outside = time.idleOutsideNs + time.idleHostWaitingNs;
    return formatv("{0} ({1}) are the generated program's own and {2} ({3}) "
                   "lie outside it.",
                   timePerStep(time.idleInCompiledCallsNs),
                   share(time.idleInCompiledCallsNs, time.wallNs),
                   timePerStep(outside), share(outside, time.wallNs));
  }
  return formatv("{4} idles {0}{1} while {2} for the device, and {3} "
                 "while it does something else.",
                 isCompiled ? timePerStep(time.idleInCompiledCallsNs) +
                                  " while the host runs compiled code, "
                            : std::string(),
                 timePerStep(time.idleHostWaitingNs),
                 isCompiled ? "it waits" : "the host waits",
                 timePerStep(time.idleOutsideNs), device);
}

std::string Prose::say(const evidence::WallTime &time) {
  int64_t ran = time.kernels / steps;
  std::string keeps = std::string(isCPU ? "compute" : "keep") +
                      (ran == 1 ? "s" : "") +
                      (isCPU ? " for" : " " + device + " busy for");
  std::string text = formatv(
      "Of {0} {1}, {2} {3} {4} ({5}); ", timePerStep(time.wallNs),
      hasSteps ? "that a step takes"
               : "of " + span() +
                     (isCPU ? ", from its first operator to its last"
                            : ", from the device's first event to its last"),
      formatCount(ran, isCPU ? "operator" : "kernel",
                  isCPU ? "operators" : "kernels"),
      keeps, timePerStep(time.kernelsNs - time.otherKernelsNs),
      share(time.kernelsNs - time.otherKernelsNs, time.wallNs));
  if (time.otherKernelsNs)
    text += formatv("others, launched before {0}, add {1}; ",
                    hasSteps ? "the steps" : "it begins",
                    timePerStep(time.otherKernelsNs));
  if (time.copiesOnlyNs)
    text += formatv("copies add {0}; ", timePerStep(time.copiesOnlyNs));
  text += splitIdle(time);
  if (time.idleProfilerNs)
    text += formatv(" Another {0} idle was the profiler's own.",
                    timePerStep(time.idleProfilerNs));
  return text;
}

std::string Prose::say(const evidence::DeviceBusy &busy) {
  std::string text = device + " is";
  text.front() = toUpper(text.front());
  if (isCPU)
    text = "Operators keep the CPU";
  text += formatv(" busy {0} of the time", formatPercent(busy.busyPct));
  // What explains a good part of it comes first.
  if (!busy.idleIn.empty() && busy.idleIn.front().idleNs >= busy.idleNs / 10)
    text += formatv("; while it was idle, the host was in {0} for {1}",
                    shortHost(busy.idleIn.front().host),
                    timePerStep(busy.idleIn.front().idleNs));
  if (busy.idleHostLateNs)
    text += formatv(
        "; the host was late for {0} of {1} idle before kernels",
        timePerStep(*busy.idleHostLateNs),
        timePerStep(*busy.idleHostLateNs + busy.idleAfterLaunchNs.value_or(0)));
  if (busy.isLaunchBound)
    text += ": the program is launch-bound";
  // Under a microsecond a gap is the device's own.
  bool isCopy = !busy.largestGaps.empty() && busy.largestGaps.front().copy;
  if (const auto &gap = busy.largestBeforeKernel;
      gap && gap->lengthNs >= 1000 && !isCopy)
    text += formatv("; the largest gap, {0}, is before {1}",
                    time(gap->lengthNs), name(profile.kernels[*gap->kernel]));
  if (isCopy && busy.largestGaps.front().lengthNs >= 1000)
    text += formatv("; the largest gap, {0}, is before the copy {1}",
                    time(busy.largestGaps.front().lengthNs),
                    profile.copies[*busy.largestGaps.front().copy].name);
  if (busy.overlappedNs > 0)
    text += formatv("; {0} of kernel time overlaps and counts once",
                    timePerStep(busy.overlappedNs));
  return text + "." + compare(busy.devices);
}

std::string Prose::sayLargest(const evidence::Gap &gap) const {
  // Under a microsecond a gap is the device's own.
  if (gap.lengthNs < 1000)
    return "";
  std::string text = formatv(", the largest {0}", time(gap.lengthNs));
  if (gap.kernel)
    text += " before " + name(profile.kernels[*gap.kernel]);
  else if (gap.copy)
    text += " before the copy " + profile.copies[*gap.copy].name.str();
  return text;
}

std::string Prose::compare(ArrayRef<evidence::BusyOfDevice> devices) {
  std::string text;
  for (const evidence::BusyOfDevice &busy : devices)
    text += formatv(
        "{0} device {1} is busy {2} and idle for {3} in {4}{5}",
        text.empty() ? " Of the devices," : ";", busy.device,
        formatPercent(busy.busyPct), timePerStep(busy.idleNs),
        formatCount(busy.gaps / steps, "gap", "gaps"),
        busy.largestGaps.empty() ? "" : sayLargest(busy.largestGaps.front()));
  return text.empty() ? text : text + ".";
}

std::string Prose::say(const evidence::SmallKernels &small) {
  std::string text = formatv(
      "{0} of {1} {2} small (under {3}{4}): {5} of work, {6} of {7} time",
      small.small / steps,
      formatCount(small.kernels / steps, isCPU ? "operator" : "kernel",
                  isCPU ? "operators" : "kernels"),
      small.small / steps == 1 ? "is" : "are", time(small.thresholdNs),
      small.launchCallsNs ? " or shorter than their own launch" : "",
      timePerStep(small.smallNs), formatPercent(small.sharePct),
      isCPU ? "operator" : "kernel");
  if (small.launchCallsNs)
    text += formatv("; launching them takes the host {0}",
                    timePerStep(*small.launchCallsNs));
  text += formatv(", and {0} idle {1} between them",
                  isCPU                   ? "the CPU spends"
                  : small.devices.empty() ? device + " is"
                                          : "the devices are",
                  timePerStep(small.idleBeforeNs));
  if (small.mostIdleBefore)
    text += formatv("; most before {0}",
                    name(profile.kernels[*small.mostIdleBefore]));
  return text + "." + compare(small.devices);
}

std::string Prose::compare(ArrayRef<evidence::SmallOfDevice> devices) {
  std::string text;
  for (const evidence::SmallOfDevice &small : devices)
    text += formatv("{0} device {1} has {2} of {3} and idles {4} between them",
                    text.empty() ? " Of the devices," : ";", small.device,
                    small.small / steps, small.kernels / steps,
                    timePerStep(small.idleBeforeNs));
  return text.empty() ? text : text + ".";
}

std::string Prose::say(const evidence::NoArithmetic &moves) {
  return formatv(
      "{0} no arithmetic (copies, casts, layout changes, gathers): {1} {4}, "
      "{2} of kernel time; the longest is {3}.",
      formatCount(moves.launches, "launch does", "launches do"),
      timePerStep(moves.timeNs), formatPercent(moves.sharePct),
      nameLaunch(moves.largest.front().launch), each());
}

std::string Prose::say(const evidence::CacheLookups &lookups) {
  return formatv(
      "Dynamo evaluates guards to find the compilation that fits a call: {0} "
      "{1}, {2}, {3} of the time; {4} runs nothing for {5} of that. The "
      "longest takes {6}.",
      formatCount((lookups.lookups + steps / 2) / steps, "lookup", "lookups"),
      each(), timePerStep(lookups.timeNs), formatPercent(lookups.sharePct),
      isCPU ? "the CPU" : "the device", timePerStep(lookups.deviceIdleNs),
      time(lookups.longestNs));
}

std::string Prose::say(const evidence::Synchronizations &waits) {
  uint64_t number = 0;
  for (const auto &[name, times] : waits.calls)
    number += times;
  return formatv("The host waits for the device {0} ({1} in {2}, {3} {5}); {7} "
                 "is idle for {4} of {6} meanwhile.",
                 formatCount(number, "time", "times"),
                 waits.calls.begin()->first,
                 hasSteps ? formatCount(steps, "step", "steps") : span(),
                 timePerStep(waits.hostWaitsNs),
                 timePerStep(waits.deviceIdleNs), each(), span(), device);
}

std::string Prose::say(const evidence::HostCopies &copies) {
  const Activity &longest = profile.copies[*copies.longest];
  return formatv(
      "{0} between host and {7} {5}: {1} and {2} {6}{9}{3}; the longest is "
      "{4}.{8}",
      formatCount(copies.copies, "copy", "copies"), timePerStep(copies.timeNs),
      formatBytes(copies.bytes / steps),
      copies.isPageable ? ", from or to pageable memory, which blocks the host"
      : copies.pages    ? ", pages of unified memory that move when they are "
                          "touched"
                        : "",
      longest.origin->hostOp.empty()
          ? longest.name.str()
          : "started by " + longest.origin->hostOp.str(),
      hasSteps ? "inside the steps" : "in " + span(), each(),
      copies.devices.empty() ? "device" : "devices", compare(copies.devices),
      copies.hiddenNs
          ? ", of which kernels hide " + timePerStep(copies.hiddenNs)
          : "");
}

std::string Prose::compare(ArrayRef<evidence::CopiesOfDevice> devices) {
  std::string text;
  for (const evidence::CopiesOfDevice &copies : devices)
    text += formatv("{0} device {1} has {2} of them, for {3}",
                    text.empty() ? " Of the devices," : ";", copies.device,
                    copies.copies, timePerStep(copies.timeNs));
  return text.empty() ? text : text + ".";
}

std::string Prose::say(const evidence::MemoryGrowth &growth) {
  std::string where =
      growth.source.empty() ? "a line that is not known" : growth.source;
  if (!growth.module.empty())
    where += " (" + growth.module + ")";
  std::string text =
      formatv("Each step holds {0} more on {1} of what is allocated at {2}, "
              "and gives none of it back: something keeps the tensors",
              formatBytes(growth.bytesPerStep), growth.device, where);
  if (growth.allBytesPerStep > growth.bytesPerStep)
    text += formatv("; all lines that grow hold {0} more",
                    formatBytes(growth.allBytesPerStep));
  return text + ". The peak of the recording was " +
         formatBytes(growth.peakBytes) + ".";
}
/// `detail` is recorded text, which a sentence names as {4}.
std::string Prose::sayOf(const evidence::LineCost &line, const char *sentence,
                         StringRef detail) {
  std::string where =
      line.source.empty() ? "a line that is not known" : line.source;
  if (!line.module.empty())
    where += " (" + line.module + ")";
  std::string text =
      formatv(sentence, where, timePerStep(line.timeNs), each(),
              formatCount(std::max<int64_t>(int64_t(line.calls) / steps, 1),
                          "call", "calls"),
              detail);
  if (line.savedNs)
    text += formatv(" That would save about {0} {1}, by an estimate.",
                    timePerStep(*line.savedNs), each());
  return text;
}
std::string Prose::say(const evidence::DataLoadingWaits &line) {
  return sayOf(line, "The program waits for its data at {0}: {1} {2}; more "
                     "workers, or less work for each sample, would hide it.");
}
std::string Prose::say(const evidence::Recompilation &line) {
  return sayOf(line, "A function is compiled again in steady steps, called at "
                     "{0}: {3} take {1} {2}; mark what changes as dynamic, or "
                     "keep it the same.");
}
std::string Prose::say(const evidence::GarbageCollection &line) {
  return sayOf(line, "Python looks for garbage at {0}: {1} {2} in {3}; "
                     "gc.freeze() before the loop leaves out what is there by "
                     "then, and gc.disable() lets the program choose when.");
}
std::string Prose::say(const evidence::CheckpointWriting &line) {
  return sayOf(line, "torch.save writes at {0}: {1} {2} in {3}; save less "
                     "often, or copy to the host and write in a thread.");
}
std::string Prose::say(const evidence::HostCode &code) {
  if (code.after.empty())
    return sayOf(code, "No operator runs for {1} {2} before {0}, while the "
                       "program's own code does.");
  return formatv("No operator runs for {0} {1} from {2} to {3}, while the "
                 "program's own code between the two, or called there, does.",
                 timePerStep(code.timeNs), each(), code.after, code.source);
}
std::string Prose::say(const evidence::NormalizationByHand &line) {
  evidence::LineCost cost = line;
  bool isSame = line.savedNs && !*line.savedNs;
  if (isSame)
    cost.savedNs.reset();
  std::string text =
      sayOf(cost, "A normalization is written by hand at {0}: {3} take {1} "
                  "{2}, which one of torch.nn.functional does: layer_norm or "
                  "rms_norm over the last dimensions, group_norm over groups "
                  "of channels.");
  return isSame ? text + " On a CPU rms_norm is made of the same operators: "
                         "only torch.compile saves any of it."
                : text;
}
std::string Prose::say(const evidence::AttentionByHand &line) {
  return sayOf(line, "An attention is written by hand at {0}: its products and "
                     "softmax take {1} {2}; scaled_dot_product_attention does "
                     "them as one.");
}
std::string Prose::say(const evidence::PrecisionIsland &island) {
  StringRef others = island.others;
  others.consume_front("c10::");
  return sayOf(island, ("Products in float32 at {0}, among others in " +
                        others.lower() +
                        ": {3} take {1} {2}, with their backward pass; leave "
                        "autocast on, or cast their inputs.")
                           .c_str());
}
std::string Prose::say(const evidence::GradientLoop &line) {
  return sayOf(line,
               "Gradients are clipped one by one at {0}: {3} take {1} {2}; "
               "torch.nn.utils.clip_grad_norm_ takes all norms in a few.");
}
std::string Prose::say(const evidence::OptimizerLoop &line) {
  // PyTorch's have groups of parameters in the place of modules.
  if (!line.module.empty() && !StringRef(line.module).contains(" group "))
    return sayOf(line,
                 "The program's own optimizer steps its parameters one by one "
                 "at {0}: {3} take {1} {2}; torch._foreach_ functions "
                 "(_foreach_add_, _mul_, _lerp_) do a list of them in a few, "
                 "as do optimizers of torch.optim with fused=True.");
  return sayOf(line,
               "The optimizer steps its parameters one by one at {0}: {3} "
               "take {1} {2}; fused=True or foreach=True, where it has "
               "them, does them in a few.");
}
std::string Prose::say(const evidence::ParameterLoop &line) {
  return sayOf(line,
               "Tensors are changed one by one at {0}, as parameters or a "
               "running mean of them are, or read for a term of the loss: {3} "
               "take {1} {2}; torch._foreach_ "
               "functions (_foreach_add_, _mul_, _lerp_) do a list of them in "
               "a few, as do an optimizer of torch.optim with fused=True and "
               "torch.optim.swa_utils.AveragedModel with a multi_avg_fn; a "
               "term of the loss is one of torch.nn.utils."
               "parameters_to_vector.");
}
std::string Prose::say(const evidence::OperatorLoop &line) {
  return sayOf(line,
               "Small operators are called over and over at {0}: {3} take {1} "
               "{2}. Where no round needs the one before, one call on a tensor "
               "with one dimension more (torch.stack, torch.vmap) does them "
               "in a few; else torch.compile of the loop may.");
}
std::string Prose::say(const evidence::HostWait &wait) {
  evidence::LineCost line = wait;
  line.savedNs.reset();
  return sayOf(line,
               "The program waits for the device at {0} ({4}): {1} {2} in {3}; "
               "leave the value on the device, read it every so many steps, or "
               "a step later.",
               wait.call) +
         sayReplayed(wait, "if it did not wait there");
}
std::string Prose::say(const evidence::CollectiveWait &line) {
  if (line.source.empty())
    return sayOf(line,
                 "The program waits until threads of the backend's are done "
                 "with collectives: {1} {2} in {3}, which is the most that "
                 "could be saved; even the ranks out, or send less. Its lines "
                 "are not in the recording: with_stack=True of torch.profiler "
                 "records them.");
  return sayOf(line,
               "The program waits for other ranks, or for what is sent, at "
               "{0}: {1} {2} in {3}, which is the most that could be saved; "
               "even the ranks out, send less, or begin the collective "
               "earlier (async_op=True) and wait for it later.");
}
std::string Prose::say(const evidence::PageableCopies &copies) {
  evidence::LineCost line = copies;
  line.savedNs.reset();
  return sayOf(line,
               "Copies of {4} {2} to the device from memory that is not "
               "pinned, at {0}: {3} take {1} {2}, and the program waits; pin "
               "the memory (pin_memory=True of a DataLoader) and copy with "
               "non_blocking=True.",
               formatBytes(copies.bytes / steps)) +
         sayReplayed(copies, "if they were pinned and it did not wait");
}
std::string Prose::sayReplayed(const evidence::LineCost &line,
                               StringRef otherwise) {
  return formatv(" By a replay of what was recorded, which is an estimate, the "
                 "program would be shorter by {0} {1} {2}.",
                 timePerStep(line.savedNs.value_or(0)), each(), otherwise);
}
std::string Prose::say(const evidence::GradientSets &line) {
  return sayOf(line,
               "zero_grad sets gradients to zero at {0}: {3} take {1} {2}; "
               "set_to_none=True leaves that to the backward pass.");
}
std::string Prose::say(const evidence::DenseEmbeddingGradient &line) {
  return sayOf(line,
               "The gradient of an embedding has all rows of its table, "
               "called at {0}: {1} {2}; sparse=True makes those that were "
               "used.");
}

std::string Prose::say(const evidence::BiasCopies &copies) {
  return formatv(
      "{0} on the device put a bias where a product adds to it: {1} and {2} "
      "{3}; the product after the longest is {4}.",
      formatCount(copies.copies, "copy", "copies"), timePerStep(copies.timeNs),
      formatBytes(copies.bytes / steps), each(),
      name(profile.kernels[*copies.product]));
}

std::string Prose::say(const evidence::SerializedWork &work) {
  return formatv(
      "{0} need nothing of one another and run one after another all the same, "
      "in {1}, though their blocks together are fewer than the device has "
      "multiprocessors: {2} {3}, of which running side by side would save {4} "
      "at most; the group that would save most has {5}, from {6} to {7}.",
      formatCount((work.kernels + steps / 2) / steps, "kernel", "kernels"),
      formatCount(std::max<uint64_t>((work.groups + steps / 2) / steps, 1),
                  "group", "groups"),
      timePerStep(work.timeNs), each(), timePerStep(work.savedNs),
      formatCount(work.largestKernels, "kernel", "kernels"),
      name(profile.kernels[*work.first]), name(profile.kernels[*work.last]));
}

std::string Prose::say(const evidence::Communication &talk) {
  return formatv(
      "{0}{7}{1} {9} {2}, of which no other kernel covers {3} ({4}); the "
      "longest, {5}, takes {6}.{8}",
      formatCount(talk.collectives / steps, "collective", "collectives"),
      talk.rank ? formatv(" of rank {0}", *talk.rank).str() : std::string(),
      timePerStep(talk.timeNs), timePerStep(talk.exposedNs),
      share(talk.exposedNs, talk.timeNs), name(profile.kernels[*talk.longest]),
      time(talk.longestNs), hasSteps ? " a step" : "", compare(talk.devices),
      talk.collectives / steps == 1 ? "takes" : "take");
}

std::string Prose::compare(ArrayRef<evidence::DeviceTalk> devices) {
  std::string text;
  for (const evidence::DeviceTalk &talk : devices)
    text += formatv("{0} device {1} has {2} of them, {3} uncovered, and waits "
                    "{4} for the others",
                    text.empty() ? " Of the devices," : ";", talk.device,
                    timePerStep(talk.timeNs), timePerStep(talk.exposedNs),
                    timePerStep(talk.waitedNs));
  return text.empty() ? text : text + ".";
}

std::string Prose::say(const evidence::ColdStart &cold) {
  bool isOne = cold.warmUpSteps == 1;
  return formatv(
      "{0} of the trace {1} warm-up: {2} a step against {3} in steady state, "
      "by their marks on the host; no other figure counts {4}.",
      formatCount(cold.warmUpSteps, "step", "steps"), isOne ? "is" : "are",
      time(cold.warmUpStepNs), time(cold.steadyStepNs), isOne ? "it" : "them");
}

std::string Prose::say(const evidence::Variation &variation) {
  const evidence::SpreadOfLaunch &worst = variation.worst;
  return formatv(
      "{0} half as long again as usual in some runs, {1} {6}; the worst, {2}, "
      "takes {3} in the median of {4} runs and {5} in the longest.",
      formatCount(variation.launches, "launch takes", "launches take"),
      timePerStep(variation.excessNs), nameLaunch(worst.launch),
      time(worst.medianNs), worst.runs, time(worst.longestNs), each());
}

//===----------------------------------------------------------------------===//
// From the model of FLOPs and bytes
//===----------------------------------------------------------------------===//

std::string Prose::sayWithoutRoof(const evidence::Roofline &roofline) const {
  bool isUnnamed =
      roofline.without == NoRoof::Device && roofline.ceilings.device.empty();
  std::string text =
      "No roofline class: " +
      (isUnnamed ? "the recording does not name its device"
                 : stringify(*roofline.without, roofline.ceilings.device));
  if (!isUnnamed &&
      (roofline.without == NoRoof::CPU || roofline.without == NoRoof::Device))
    text += " (`opprof ceilings` measures them where nothing else runs)";
  if (const std::optional<evidence::WorkRates> &rates = roofline.rates) {
    bool isSmall = rates->flopsPerStep < 1e7;
    text += formatv("; the {0} known work did {1:f2} {5} {4} at {2}FLOP/s and "
                    "{3}B/s",
                    isCPU ? "operators of" : "kernels of",
                    rates->flopsPerStep / (isSmall ? 1e6 : 1e9),
                    formatPrefix(rates->flopsPerSecond),
                    formatPrefix(rates->bytesPerSecond), each(),
                    isSmall ? "MFLOP" : "GFLOP");
  }
  return text + ".";
}

/// "61.2 % memory-bound, 38.8 % latency-bound by counters".
std::string Prose::splitClasses(const evidence::Roofline &roofline) const {
  int64_t total = 0, byCounters = roofline.byCounters.timeNs;
  for (const evidence::ClassTime &sum : roofline.classes)
    total += sum.timeNs;
  std::string parts;
  for (auto [index, sum] : llvm::enumerate(roofline.classes))
    if (sum.launches) {
      Bound bound = static_cast<Bound>(index);
      std::string what = bound == Bound::Unknown
                             ? "of unknown bound"
                             : (stringify(bound) + "-bound").str();
      parts += formatv("{0}{1} {2}", parts.empty() ? "" : ", ",
                       share(sum.timeNs, total), what);
    }
  if (byCounters == total)
    return parts + " by counters";
  if (!byCounters)
    return parts + " by the model";
  return parts + formatv(" ({0} by counters, the rest by the model)",
                         share(byCounters, total))
                     .str();
}

/// "4.3 TB/s", "19.9 GB/s".
static std::string describeRate(const evidence::Rate &rate, StringRef unit,
                                StringRef format) {
  constexpr double kTera = 1e12;
  if (rate.perSecond < kTera)
    return formatPrefix(rate.perSecond) + unit.str();
  return formatv(/*Validate=*/false, format.data(), rate.perSecond / kTera)
             .str() +
         " T" + unit.str();
}

std::string Prose::say(const evidence::Roofline &roofline) {
  if (roofline.without)
    return sayWithoutRoof(roofline);
  int64_t total = 0;
  for (const evidence::ClassTime &sum : roofline.classes)
    total += sum.timeNs;
  const evidence::PlacedLaunch &worst = roofline.mostAboveRoof.front();
  const evidence::Ceilings &ceilings = roofline.ceilings;
  const evidence::Rate &compute = ceilings.of(worst.ceiling);
  return formatv(
      "Of {0} of kernels with known work{13}, {1}; the roof allows {2}. "
      "Furthest off: {3}, {4} where {5} would do ({6:f1} FLOP/byte; {7}: "
      "{8} {9}, {10} {11} {12}).",
      timePerStep(total), splitClasses(roofline), timePerStep(roofline.roofNs),
      worst.op ? nameOperator(profile.operators[*worst.op])
               : nameLaunch(*worst.launch),
      time(static_cast<int64_t>(worst.runNs)),
      time(static_cast<int64_t>(worst.roofNs)), worst.intensity,
      ceilings.device, describeRate(ceilings.memory, "B/s", "{0:f1}"),
      ceilings.memory.origin, stringify(worst.ceiling),
      describeRate(compute, "FLOP/s", "{0:f0}"), compute.origin, onDevice());
}

std::string Prose::say(const evidence::Goodput &goodput) {
  return formatv("The program does {0}FLOP{8} {1}, {2}FLOP/s: {3} of "
                 "{4}FLOP/s, the peak in "
                 "{5} ({6}). FLOPs are known for {7} of kernel time.",
                 formatPrefix(goodput.flops / double(steps)), each(),
                 formatPrefix(goodput.flopsPerSecond),
                 formatPercent(goodput.utilizationPct),
                 formatPrefix(goodput.peak.perSecond),
                 stringify(goodput.precision), goodput.peak.origin,
                 formatPercent(goodput.knownPct), onDevice());
}

static StringRef describeRefusal(AttentionRefusal refusal) {
  switch (refusal) {
  case AttentionRefusal::Type:
    return "it takes no elements of this type";
  case AttentionRefusal::Rank:
    return "it takes [batch, heads, length, size]";
  case AttentionRefusal::HeadSize:
    return "it takes no heads of this size";
  case AttentionRefusal::Alignment:
    return "the size of a head is no multiple of what it loads";
  case AttentionRefusal::Mask:
    return "it takes no mask";
  case AttentionRefusal::Unknown:
    return "nothing that was recorded says why";
  }
  llvm_unreachable("unhandled refusal");
}

std::string Prose::say(const evidence::LayoutConversions &conversions) {
  return formatv(
      "{0} tensors of convolutions from one layout, channels first or last, "
      "into the other: {1} {2}, {3} of kernel time; the longest is of {4}.",
      formatCount(conversions.kernels / steps, "kernel turns", "kernels turn"),
      timePerStep(conversions.timeNs), each(),
      formatPercent(conversions.sharePct),
      nameWork(profile.kernels[*conversions.longest]));
}

std::string Prose::say(const evidence::UnfusedAttention &attention) {
  return formatv(
      "{0} of attention {1} as single products and a softmax, in {2} kernels: "
      "{3} {4}, {5} of kernel time. FlashAttention refuses {6}: {7}; "
      "memory-efficient attention: {8}.",
      formatCount(attention.calls / steps, "call", "calls"),
      attention.calls / steps == 1 ? "runs" : "run", attention.kernels / steps,
      timePerStep(attention.timeNs), each(), formatPercent(attention.sharePct),
      attention.inputDims, describeRefusal(attention.flash),
      describeRefusal(attention.efficient));
}

std::string Prose::say(const evidence::TensorCoresIdle &idle) {
  return formatv(
      "{0} {6}without tensor cores{10}{7}: {1} {9}, {2} of kernel time, where "
      "{8} ceiling allows {3}; longest is {4}, kernel {5}.",
      formatCount(idle.launches, "matrix product runs", "matrix products run"),
      timePerStep(idle.timeNs), formatPercent(idle.sharePct),
      timePerStep(idle.leastNs), nameWork(profile.kernels[*idle.longest]),
      shorten(idle.kernel, 48), idle.isAllFP32 ? "in fp32 " : "",
      idle.launchesByCounters == idle.launches ? " (their counter shows none)"
                                               : "",
      idle.isAllFP32 ? "tf32's" : "their", each(), onDevice());
}

//===----------------------------------------------------------------------===//
// From hardware counters
//===----------------------------------------------------------------------===//

std::string Prose::say(const evidence::SpeedOfLight &speed) {
  return formatv(
      "By counters, {0} of the time of {1} runs at over 80 % of the peak of "
      "compute, {2} of memory, and {3} at under half of both, where latency "
      "decides; means are {4:f1} % and {5:f1} %{6}.",
      formatPercent(speed.nearComputePeakPct),
      speed.countedPct ? formatPercent(*speed.countedPct) + " of kernel time"
                       : std::string("all kernels"),
      formatPercent(speed.nearMemoryPeakPct),
      formatPercent(speed.farFromBothPct), speed.meanSMThroughputPct,
      speed.meanMemoryThroughputPct,
      speed.inferredNs / steps
          ? "; some are those of launches that do the same work"
          : "");
}

std::string Prose::say(const evidence::MemoryTraffic &traffic) {
  const evidence::Traffic &worst = traffic.largest.front();
  return formatv(
      "{0} ({1}) through DRAM over one and a half times the bytes that "
      "{2} inputs and outputs have; the worst, {3}, {4:f1} MB where {5:f1} MB "
      "would do.",
      formatCount(traffic.launches, "launch moves", "launches move"),
      timeEach(traffic.timeNs), traffic.launches == 1 ? "its" : "their",
      name(worst), worst.dramBytes / 1e6, worst.fewestBytes / 1e6);
}

static StringRef explain(OccupancyLimiter limiter) {
  switch (limiter) {
  case OccupancyLimiter::BlockSize:
    return "the size of their blocks leaves warps out";
  case OccupancyLimiter::Blocks:
    return "no more blocks go on a multiprocessor";
  case OccupancyLimiter::Grid:
    return "their grids do not fill the device once";
  case OccupancyLimiter::LastWave:
    return "a last, part-filled wave takes long";
  case OccupancyLimiter::Registers:
    return "registers leave no room for more blocks";
  case OccupancyLimiter::SharedMemory:
    return "shared memory leaves no room for more blocks";
  case OccupancyLimiter::UnevenWork:
    return "their warps end at different times";
  case OccupancyLimiter::Unknown:
    return "why is not known";
  }
  llvm_unreachable("unhandled limiter");
}

std::string Prose::say(const evidence::LowOccupancy &occupancy) {
  return formatv(
      "{0} ({1}) {2} latency-bound with under half of the warps that "
      "the device holds, mostly as {3}; the longest is {4}, {5:f0} %.",
      formatCount(occupancy.launches, "launch", "launches"),
      timeEach(occupancy.timeNs), occupancy.launches == 1 ? "is" : "are",
      explain(findMost(occupancy.timeNsOf).first),
      name(occupancy.largest.front()), occupancy.largest.front().achievedPct);
}

std::string Prose::say(const evidence::LocalMemory &memory) {
  return formatv("{0} ({1}) {2} values in local memory, spilled registers or "
                 "arrays; the longest is {3}.",
                 formatCount(memory.launches, "launch", "launches"),
                 timeEach(memory.timeNs),
                 memory.launches == 1 ? "keeps" : "keep",
                 name(memory.largest.front()));
}

std::string Prose::say(const evidence::BankConflicts &conflicts) {
  return formatv(
      "Bank conflicts of shared memory take {0} % of the cycles of {1}, and "
      "over 10 % of those of {2} in all.",
      conflicts.largest.front().ofActiveCyclesPct,
      name(conflicts.largest.front()),
      formatCount(conflicts.launches, "launch", "launches"));
}

std::string Prose::say(const evidence::ScatteredAccess &scatter) {
  return formatv(
      "{0} ({1}) {2} global memory scattered: {3} touches {4} sectors a "
      "request, where neighbouring addresses need 16 at most.",
      formatCount(scatter.launches, "launch", "launches"),
      timeEach(scatter.timeNs), scatter.launches == 1 ? "reaches" : "reach",
      name(scatter.largest.front()), scatter.largest.front().sectorsPerRequest);
}

namespace {
struct StallWords {
  StringLiteral waitsFor, remedy;
};
} // namespace

static StallWords explain(StallReason reason) {
  switch (reason) {
  case StallReason::LongScoreboard:
    return {"loads from L2 or memory",
            "more warps or loads in flight, or fewer bytes"};
  case StallReason::ShortScoreboard:
    return {"shared memory or special functions",
            "fewer of them, or more work between"};
  case StallReason::MathPipeThrottle:
    return {"a busy arithmetic pipe", "other instructions, or tensor cores"};
  case StallReason::Barrier:
    return {"other warps at a barrier", "smaller blocks, or fewer barriers"};
  case StallReason::LGThrottle:
    return {"the queue of global and local accesses", "wider accesses"};
  case StallReason::MIOThrottle:
    return {"the queue of shared memory", "wider accesses of shared memory"};
  case StallReason::Wait:
    return {"fixed latency of instructions", "more warps"};
  case StallReason::NotSelected:
    return {"other warps that were ready", "nothing: warps abound"};
  }
  llvm_unreachable("unhandled reason");
}

std::string Prose::say(const evidence::Stalls &stalls) {
  auto [reason, most] = findMost(stalls.timeNsOf);
  StallWords words = explain(reason);
  return formatv("Warps wait most for {0} ({1}) in launches of {2} ({3} "
                 "of what was counted); it asks for {4}.",
                 words.waitsFor, stringify(reason), timeEach(most),
                 share(most, stalls.timeNs), words.remedy);
}

static StringRef explain(Pipe pipe) {
  switch (pipe) {
  case Pipe::Tensor:
    return "tensor cores";
  case Pipe::FMA:
    return "multiply-adds";
  case Pipe::ALU:
    return "integers and comparisons";
  case Pipe::XU:
    return "special functions";
  case Pipe::LSU:
    return "loads and stores";
  case Pipe::FP64:
    return "double precision";
  }
  llvm_unreachable("unhandled pipe");
}

std::string Prose::say(const evidence::Pipes &pipes) {
  auto [pipe, most] = findMost(pipes.timeNsOf);
  return formatv(
      "Most instructions are {0} ({1}) in launches of {2} ({3} of what "
      "was counted); in the longest launch, {4}, they are {5}.",
      explain(pipe), stringify(pipe), timeEach(most), share(most, pipes.timeNs),
      name(pipes.largest.front()), stringify(pipes.largest.front().pipe));
}

std::string Prose::say(const evidence::Divergence &divergence) {
  return formatv("{0} ({1}) {2} with under 24 of a warp's 32 threads "
                 "active; {3} with {4:f1}.",
                 formatCount(divergence.launches, "launch", "launches"),
                 timeEach(divergence.timeNs),
                 divergence.launches == 1 ? "runs" : "run",
                 name(divergence.largest.front()),
                 divergence.largest.front().threadsPerWarp);
}

void report::describeFindings(Profile &profile) {
  Prose prose(profile);
  for (Finding &finding : profile.findings)
    if (finding.text.empty())
      finding.text =
          std::visit([&](const auto &evidence) { return prose.say(evidence); },
                     finding.evidence);
}
