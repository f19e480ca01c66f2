// Steps of a program that marks none. A training loop steps its optimizer;
// other loops run the same operators from the same lines again and again, which
// a suffix array of the operators shows.

#include "RecurringSteps.h"

#include "TraceSteps.h"

#include "llvm/ADT/STLExtras.h"

#include <map>
#include <numeric>
#include <set>
#include <tuple>

using namespace llvm;
using namespace opprof;
using namespace opprof::join;
using namespace opprof::profile;
using namespace opprof::trace;

/// Operators that recurrences are looked for in, the last ones.
static constexpr size_t kMostOperators = 200'000;

/// Suffixes of `sequence` in order, by doubling what they are compared by.
static std::vector<uint32_t> sortSuffixes(ArrayRef<uint32_t> sequence,
                                          std::vector<uint32_t> &rank) {
  size_t count = sequence.size();
  std::vector<uint32_t> suffixes(count), next(count);
  std::iota(suffixes.begin(), suffixes.end(), 0);
  rank.assign(sequence.begin(), sequence.end());
  for (size_t length = 0;; length = length ? 2 * length : 1) {
    auto key = [&](uint32_t at) {
      return std::pair<uint32_t, int64_t>(
          rank[at], length && at + length < count ? rank[at + length] : -1);
    };
    llvm::sort(suffixes,
               [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
    for (size_t at = 0; at < count; ++at)
      next[suffixes[at]] = at ? next[suffixes[at - 1]] +
                                    (key(suffixes[at - 1]) != key(suffixes[at]))
                              : 0;
    rank.swap(next);
    if (!count || rank[suffixes.back()] == count - 1)
      return suffixes;
  }
}

std::optional<Recurrence>
opprof::join::findRecurrence(ArrayRef<uint32_t> sequence) {
  std::vector<uint32_t> rank;
  std::vector<uint32_t> suffixes = sortSuffixes(sequence, rank);
  std::optional<Recurrence> best;
  // Kasai: how far a suffix and the one before it in order agree. Where they
  // agree for as long as they lie apart, a piece recurs.
  size_t agree = 0;
  for (uint32_t at = 0; at < sequence.size(); ++at) {
    if (rank[at] == 0) {
      agree = 0;
      continue;
    }
    uint32_t other = suffixes[rank[at] - 1];
    while (at + agree < sequence.size() && other + agree < sequence.size() &&
           sequence[at + agree] == sequence[other + agree])
      ++agree;
    uint32_t period = at > other ? at - other : other - at;
    if (agree >= size_t(2) * period) {
      Recurrence found{std::min(at, other), uint32_t(agree + period), period};
      if (!best || found.length > best->length ||
          (found.length == best->length && found.period < best->period))
        best = found;
    }
    agree = agree ? agree - 1 : 0;
  }
  return best;
}

namespace {
/// What tells one operator's call from others.
using CallKey = std::pair<StringRef, std::optional<uint32_t>>;
} // namespace

/// Ends of steps: where the optimizer that steps last in the program does.
/// Several that one line steps are one step together: they have places of
/// their own with the same texts.
static std::vector<int64_t> optimizerSteps(const Trace &trace) {
  std::vector<const HostOp *> steps;
  for (const HostOp &op : trace.hostOps)
    if (op.annotation && op.name.starts_with("Optimizer.step#"))
      steps.push_back(&op);
  llvm::stable_sort(steps, [](const HostOp *a, const HostOp *b) {
    return a->startNs < b->startNs;
  });
  auto textsOf = [&](const HostOp *step) {
    const Place none, &place = step->place ? trace.places[*step->place] : none;
    return std::tuple(step->name, place.source, place.module, place.group);
  };
  std::vector<int64_t> ends;
  std::set<uint32_t> stepped;
  for (const HostOp *step : steps) {
    if (textsOf(step) != textsOf(steps.back()))
      continue;
    uint32_t place = step->place ? *step->place : uint32_t(trace.places.size());
    if (stepped.insert(place).second && stepped.size() > 1) {
      ends.back() = step->endNs();
      continue;
    }
    stepped = {place};
    ends.push_back(step->endNs());
  }
  return ends;
}

/// Beginnings of steps, and the end of the last, of operators that recur on the
/// thread that runs most of them.
static std::vector<int64_t> recurringSteps(const Trace &trace,
                                           const HostTimeline &host) {
  std::vector<std::vector<uint32_t>> byThread(trace.threads.size());
  for (uint32_t op : host.topsOutside())
    byThread[trace.hostOps[op].thread].push_back(op);
  if (byThread.empty())
    return {};
  std::vector<uint32_t> &ops =
      *llvm::max_element(byThread, [](const auto &a, const auto &b) {
        return a.size() < b.size();
      });
  if (ops.size() > kMostOperators)
    ops.erase(ops.begin(), ops.end() - kMostOperators);
  std::map<CallKey, uint32_t> numbers;
  std::vector<uint32_t> sequence;
  for (uint32_t op : ops)
    sequence.push_back(
        numbers
            .try_emplace({trace.hostOps[op].name, trace.hostOps[op].place},
                         numbers.size())
            .first->second);
  std::optional<Recurrence> found = findRecurrence(sequence);
  // What is less than half of the program is no step of it.
  if (!found || found->length < sequence.size() / 2)
    return {};
  std::vector<int64_t> starts;
  uint32_t at = 0;
  for (; at + found->period <= found->length; at += found->period)
    starts.push_back(trace.hostOps[ops[found->begin + at]].startNs);
  starts.push_back(trace.hostOps[ops[found->begin + at - 1]].endNs());
  return starts;
}

static int64_t median(std::vector<int64_t> values) {
  auto middle = values.begin() + values.size() / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Sets apart what is no steady step.
static void classifySteps(const Trace &trace, const HostTimeline &host,
                          Profile &profile) {
  std::vector<int64_t> durations;
  for (const Step &step : profile.steps)
    durations.push_back(step.endNs - step.startNs);
  if (durations.size() < 2)
    return;
  // It has what the program began with.
  if (!trace.firstStep)
    profile.steps.front().phase = Phase::WarmUp;
  int64_t usual = median(durations);
  for (size_t at = trace.firstStep ? 0 : 1;
       at + 1 < durations.size() && durations[at] > 2 * usual; ++at)
    profile.steps[at].phase = Phase::WarmUp;
  std::vector<int64_t> counts(profile.steps.size());
  for (uint32_t op : host.topsOutside())
    if (std::optional<uint32_t> step =
            stepAt(profile.steps, trace.hostOps[op].startNs))
      ++counts[*step];
  int64_t usualCount = median(counts);
  for (Step &step : profile.steps)
    if (step.phase == Phase::Steady &&
        counts[step.index] > usualCount + usualCount / 2)
      step.phase = Phase::Apart;
}

void opprof::join::findRecurringSteps(const Trace &trace,
                                      const HostTimeline &host,
                                      Profile &profile) {
  // Without places, operators of unlike loops are the same.
  if (trace.places.empty())
    return;
  std::vector<int64_t> bounds = optimizerSteps(trace);
  StringRef from = "optimizer_steps";
  if (bounds.size() >= (trace.firstStep ? 1 : 2)) {
    // The first has what comes before: all of the program's beginning, where
    // the recording does not begin with a step.
    int64_t start = bounds.front();
    for (const HostOp &op : trace.hostOps)
      start = std::min(start, op.startNs);
    bounds.insert(bounds.begin(), start);
  } else {
    bounds = recurringSteps(trace, host);
    from = "recurring_operators";
  }
  if (bounds.size() < (trace.firstStep ? 2 : 3))
    return;
  for (size_t at = 0; at + 1 < bounds.size(); ++at)
    profile.steps.push_back({uint32_t(at), bounds[at], bounds[at + 1]});
  profile.summary.stepsFrom = from.str();
  profile.summary.steps = profile.steps.size();
  classifySteps(trace, host, profile);
}
