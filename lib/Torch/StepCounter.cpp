// See StepCounter.h.

#include "StepCounter.h"

#include <algorithm>
#include <utility>

using namespace opprof::observer;

/// What PyTorch calls the ranges.
static constexpr std::string_view kOptimizer = "Optimizer.step#",
                                  kProfiler = "ProfilerStep#";

/// Programs have a few; one that makes them as it goes is counted by the first.
static constexpr size_t kMostOptimizers = 1000;

/// How far one's steps may lie apart that came as late as this or later.
static constexpr uint64_t kLongestFirstGap = 100;

bool StepCounter::counts(std::string_view name) {
  return name.starts_with(kOptimizer) || name.starts_with(kProfiler);
}

StepCounter::Event StepCounter::rangeEnded(std::string_view name,
                                           uint32_t place) {
  if (name.starts_with(kProfiler)) {
    if (!optimizers.empty())
      return Event::None;
    isProfilers = true;
    ++count;
    return Event::Step;
  }
  if (!name.starts_with(kOptimizer))
    return Event::None;
  name.remove_prefix(kOptimizer.size());
  ++stepped;
  size_t at = 0;
  while (at < optimizers.size() &&
         (optimizers[at].name != name || optimizers[at].place != place))
    ++at;
  if (at == optimizers.size()) {
    if (optimizers.size() == kMostOptimizers)
      return Event::None;
    // The profiler's were parts of this one's.
    if (isProfilers)
      count = 0;
    isProfilers = false;
    Optimizer &added = optimizers.emplace_back(
        Optimizer{std::string(name), place, stepped,
                  std::min(stepped - 1, kLongestFirstGap)});
    ending = at;
    if (at) {
      // A critic that steps five times before its generator does so in the
      // first round as well.
      if (stepped <= kLongestFirstGap) {
        added.first = stepped;
        added.merged = std::exchange(count, 1);
      }
      return Event::Longer;
    }
    ++count;
    return Event::Step;
  }
  Optimizer &known = optimizers[at];
  // It steps more often than it took to come: what was before it had steps of
  // its own.
  if (stepped - known.last < known.first)
    count += known.merged - 1;
  known.first = 0;
  known.longestGap = std::max(known.longestGap, stepped - known.last);
  known.last = stepped;
  // One that stays away for much longer than ever is out of use.
  const Optimizer &awaited = optimizers[ending];
  if (stepped - awaited.last > 2 * awaited.longestGap + 2) {
    for (size_t other = 0; other < optimizers.size(); ++other)
      if (optimizers[other].last > awaited.last)
        ending = other;
  }
  if (at != ending)
    return Event::None;
  ++count;
  return Event::Step;
}

std::string StepCounter::endsWith() const {
  if (isProfilers)
    return "a step of torch.profiler's";
  return optimizers.empty() ? "" : optimizers[ending].name;
}
