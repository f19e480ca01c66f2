//===- Findings.cpp - What a profile says of a program --------------------===//

#include "opprof/Findings/Findings.h"

#include "FindingBuilder.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"

#include <cmath>

using namespace llvm;
using namespace opprof;
using namespace opprof::findings;
using namespace opprof::profile;

//===----------------------------------------------------------------------===//
// Intervals
//===----------------------------------------------------------------------===//

std::vector<Interval> findings::unite(std::vector<Interval> intervals) {
  llvm::sort(intervals);
  std::vector<Interval> result;
  for (Interval interval : intervals) {
    if (interval.second <= interval.first)
      continue;
    if (result.empty() || interval.first > result.back().second)
      result.push_back(interval);
    else
      result.back().second = std::max(result.back().second, interval.second);
  }
  return result;
}

std::vector<Interval> findings::gapsIn(Interval window,
                                       ArrayRef<Interval> covered) {
  std::vector<Interval> result;
  int64_t at = window.first;
  for (Interval interval : covered) {
    if (interval.first > at)
      result.push_back({at, std::min(interval.first, window.second)});
    at = std::max(at, interval.second);
    if (at >= window.second)
      return result;
  }
  if (at < window.second)
    result.push_back({at, window.second});
  return result;
}

std::vector<Interval> findings::subtract(ArrayRef<Interval> intervals,
                                         ArrayRef<Interval> covered) {
  std::vector<Interval> result;
  for (Interval interval : intervals) {
    while (!covered.empty() && covered.front().second <= interval.first)
      covered = covered.drop_front();
    llvm::append_range(result, gapsIn(interval, covered));
  }
  return result;
}

std::vector<Interval> findings::intersect(ArrayRef<Interval> a,
                                          ArrayRef<Interval> b) {
  std::vector<Interval> result;
  while (!a.empty() && !b.empty()) {
    int64_t from = std::max(a.front().first, b.front().first);
    int64_t to = std::min(a.front().second, b.front().second);
    if (from < to)
      result.push_back({from, to});
    if (a.front().second < b.front().second)
      a = a.drop_front();
    else
      b = b.drop_front();
  }
  return result;
}

int64_t findings::sumLengths(ArrayRef<Interval> intervals) {
  int64_t total = 0;
  for (Interval interval : intervals)
    total += interval.second - interval.first;
  return total;
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

std::string findings::formatTime(int64_t nanoseconds) {
  double value = static_cast<double>(nanoseconds);
  if (nanoseconds < 1000)
    return formatv("{0} ns", nanoseconds);
  if (nanoseconds < 1000 * 1000)
    return formatv("{0:f1} µs", value / 1e3);
  if (nanoseconds < 1000 * 1000 * 1000)
    return formatv("{0:f2} ms", value / 1e6);
  return formatv("{0:f2} s", value / 1e9);
}

double findings::percentValue(double part, double whole) {
  return whole > 0 ? std::round(1000 * part / whole) / 10 : 0;
}

std::string findings::formatPercent(double part, double whole) {
  return formatv("{0:f1} %", percentValue(part, whole));
}

std::string findings::formatCount(uint64_t number, StringRef singular,
                                  StringRef plural) {
  return formatv("{0} {1}", number, number == 1 ? singular : plural);
}

std::string findings::shorten(StringRef text, size_t length) {
  if (text.size() <= length)
    return text.str();
  // No character is cut in two.
  while (length && (static_cast<uint8_t>(text[length]) & 0xc0) == 0x80)
    --length;
  return text.take_front(length).str() + "…";
}

static std::string describeNodes(const Profile &profile,
                                 ArrayRef<uint32_t> nodes, StringRef kernel) {
  if (nodes.empty())
    return shorten(shortKernelName(kernel), 60);
  const Node &first = profile.nodes[nodes.front()];
  std::string text = first.name;
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

std::string findings::describe(const Profile &profile, const Activity &kernel) {
  return describeNodes(profile, kernel.nodes, kernel.name);
}

std::string findings::describe(const Profile &profile,
                               const LaunchRecord &launch) {
  return describeNodes(profile, launch.nodes, launch.kernel);
}

//===----------------------------------------------------------------------===//
// Context
//===----------------------------------------------------------------------===//

Context::Context(Profile &profile) : profile(profile) {
  for (const Device &candidate : profile.devices)
    if (candidate.busyNs &&
        (!device || *candidate.busyNs > device->busyNs.value_or(0)))
      device = &candidate;
  std::optional<Interval> span = wallWindow(profile);
  if (!device || !span)
    return;
  window = *span;
  between = timeBetweenSteps(profile);
  isCPU = device->kind == "cpu";
  int64_t steady = llvm::count_if(profile.steps, [](const Step &step) {
    return step.phase == Phase::Steady;
  });
  hasSteps = steady > 0;
  steps = std::max<int64_t>(steady, 1);

  std::vector<Interval> kernelSpans;
  for (const Activity &kernel : profile.kernels) {
    if (kernel.device != device->id || kernel.phase != Phase::Steady ||
        kernel.endNs() <= window.first || kernel.startNs >= window.second)
      continue;
    kernels.push_back(&kernel);
    kernelTimeNs += kernel.durationNs;
    kernelSpans.push_back({std::max(kernel.startNs, window.first),
                           std::min(kernel.endNs(), window.second)});
  }
  std::vector<Interval> all = kernelSpans;
  for (const Activity &copy : profile.copies) {
    if (copy.device != device->id || copy.phase != Phase::Steady ||
        copy.endNs() <= window.first || copy.startNs >= window.second)
      continue;
    copies.push_back(&copy);
    all.push_back({std::max(copy.startNs, window.first),
                   std::min(copy.endNs(), window.second)});
  }
  llvm::stable_sort(kernels, [](const Activity *a, const Activity *b) {
    return a->startNs < b->startNs;
  });
  busy = unite(std::move(kernelSpans));
  occupied = unite(std::move(all));
}

std::string Context::span() const {
  return hasSteps ? "a step" : ("the " + recordingNoun(profile)).str();
}

Finding &Context::add(StringRef id) {
  Finding &finding = profile.findings.emplace_back();
  finding.id = id.str();
  return finding;
}

void opprof::computeFindings(Profile &profile) {
  profile.findings.clear();
  Context context(profile);
  if (context.kernels.empty() || context.wall() <= 0)
    return;
  addTimelineFindings(context);
  // Without a graph no kernel's work is known, and there is nothing to class.
  if (hasGraph(profile))
    addRooflineFindings(context);
  addCounterFindings(context);
}
