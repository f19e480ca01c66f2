// Steps of a program that marks none. A training loop steps its optimizer;
// other loops run the same operators from the same lines again and again, which
// a suffix array of the operators shows.

#include "RecurringSteps.h"

#include "Requests.h"
#include "TraceSteps.h"
#include "opprof/Support/Median.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

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

/// Other threads matter where they run more than this part of what the busiest
/// one does.
static constexpr size_t kLeastOthers = 10;

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
/// What tells one operator's call from others: its place, and where none is
/// known the sizes of its inputs.
using CallKey = std::tuple<StringRef, std::optional<uint32_t>, StringRef>;
} // namespace

/// Of several threads that step optimizers (ranks in one file) those of the one
/// that does most, in order of time.
static std::vector<const HostOp *> optimizerRanges(const Trace &trace,
                                                   Profile &profile) {
  std::vector<std::vector<const HostOp *>> ofThreads(trace.threads.size());
  for (const HostOp &op : trace.hostOps)
    if (op.annotation && op.name.starts_with("Optimizer.step#"))
      ofThreads[op.thread].push_back(&op);
  llvm::erase_if(ofThreads, [](const auto &steps) { return steps.empty(); });
  if (ofThreads.empty())
    return {};
  if (ofThreads.size() > 1)
    profile.notes.push_back(
        formatv("{0} threads step optimizers: the steps are those of the one "
                "that does most, or of the first of such",
                ofThreads.size()));
  auto most = llvm::max_element(ofThreads, [](const auto &a, const auto &b) {
    return a.size() < b.size();
  });
  llvm::stable_sort(*most, [](const HostOp *a, const HostOp *b) {
    return a->startNs < b->startNs;
  });
  return std::move(*most);
}

/// How many of `ranges`, which have one name and no places, are one step: two
/// optimizers of one class take turns, and each runs other operators than the
/// other does.
static uint32_t rangesOfAStep(const HostTimeline &host,
                              ArrayRef<const HostOp *> ranges) {
  std::vector<uint32_t> keys;
  std::map<std::vector<std::pair<StringRef, StringRef>>, uint32_t> numbers;
  for (const HostOp *range : ranges) {
    std::vector<std::pair<StringRef, StringRef>> inner;
    ArrayRef<uint32_t> ops = host.opsOf(range->thread);
    for (const auto *it = llvm::partition_point(
             ops,
             [&](uint32_t op) { return host.op(op).startNs < range->startNs; });
         it != ops.end() && host.op(*it).startNs < range->endNs(); ++it)
      if (!host.op(*it).annotation)
        inner.push_back({host.op(*it).name, host.inputsOf(*it).dims});
    keys.push_back(
        numbers.try_emplace(std::move(inner), numbers.size()).first->second);
  }
  std::optional<Recurrence> found = findRecurrence(keys);
  return found && found->length >= ranges.size() / 2 ? found->period : 1;
}

/// Ends of steps: where the optimizer that steps last in the program does.
/// Several that one line steps are one step together: they have places of
/// their own with the same texts.
static std::vector<int64_t>
optimizerSteps(const Trace &trace, const HostTimeline &host, Profile &profile) {
  std::vector<const HostOp *> steps = optimizerRanges(trace, profile);
  auto textsOf = [&](const HostOp *step) {
    const Place none, &place = step->place ? trace.places[*step->place] : none;
    return std::tuple(step->name, place.source, place.module, place.group);
  };
  if (steps.empty())
    return {};
  llvm::erase_if(steps, [&, last = textsOf(steps.back())](const HostOp *step) {
    return textsOf(step) != last;
  });
  std::vector<int64_t> ends;
  if (trace.places.empty()) {
    uint32_t together = rangesOfAStep(host, steps);
    for (size_t at = (steps.size() - 1) % together; at < steps.size();
         at += together)
      ends.push_back(steps[at]->endNs());
    return ends;
  }
  std::set<uint32_t> stepped;
  for (const HostOp *step : steps) {
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

namespace {
/// What the host ran, thread by thread: operators by number, and what tells
/// them apart.
struct Sequences {
  std::vector<std::vector<uint32_t>> ops, keys;
  size_t size = 0;

  size_t busiest() const {
    return llvm::max_element(ops,
                             [](const auto &a, const auto &b) {
                               return a.size() < b.size();
                             }) -
           ops.begin();
  }
};
} // namespace

/// The last operators, of all threads together.
static Sequences readSequences(const Trace &trace, const HostTimeline &host) {
  Sequences sequences;
  sequences.ops.resize(trace.threads.size());
  sequences.keys.resize(trace.threads.size());
  std::map<CallKey, uint32_t> numbers;
  ArrayRef<uint32_t> tops = host.topsOutside();
  for (uint32_t op : tops.take_back(kMostOperators)) {
    const HostOp &called = trace.hostOps[op];
    sequences.ops[called.thread].push_back(op);
    sequences.keys[called.thread].push_back(
        numbers
            .try_emplace({called.name, called.place,
                          trace.places.empty() ? trace.inputsOf(called).dims
                                               : StringRef()},
                         numbers.size())
            .first->second);
    ++sequences.size;
  }
  return sequences;
}

/// The outermost range round an operator; itself where there is none.
static uint32_t outermost(const HostTimeline &host, uint32_t op) {
  while (host.parent(op) != kNone)
    op = host.parent(op);
  return op;
}

/// Whether pieces that were found without places are steps. Layers of a model
/// that are alike recur as well, but something else comes before them or after
/// them, or there is a range or a module round all. One operator over and over
/// may be anything.
static bool areSteps(const Trace &trace, const HostTimeline &host,
                     ArrayRef<uint32_t> ops, const Recurrence &found) {
  if (found.begin != 0 || found.length != ops.size() || found.period < 2)
    return false;
  const HostOp &first = host.op(ops[0]), &second = host.op(ops[found.period]);
  if (llvm::any_of(trace.moduleFrames, [&](const auto &frame) {
        return frame.thread == first.thread && frame.startNs <= first.startNs &&
               frame.startNs + frame.durationNs > second.startNs;
      }))
    return false;
  for (uint32_t at = found.period; at < found.length; at += found.period)
    if (outermost(host, ops[at]) == outermost(host, ops[at - 1]))
      return false;
  return true;
}

/// Beginnings of steps, and the end of the last, of operators that recur on the
/// thread that runs most of them.
static std::vector<int64_t> recurringSteps(const Trace &trace,
                                           const HostTimeline &host,
                                           const Sequences &sequences) {
  const std::vector<uint32_t> &ops = sequences.ops[sequences.busiest()];
  std::optional<Recurrence> found =
      findRecurrence(sequences.keys[sequences.busiest()]);
  // What is less than half of the program is no step of it.
  if (!found || found->length < ops.size() / 2 ||
      (trace.places.empty() && !areSteps(trace, host, ops, *found)))
    return {};
  std::vector<int64_t> starts;
  uint32_t at = 0;
  for (; at + found->period <= found->length; at += found->period)
    starts.push_back(trace.hostOps[ops[found->begin + at]].startNs);
  starts.push_back(trace.hostOps[ops[found->begin + at - 1]].endNs());
  return starts;
}

/// "aten::linear (serve.py:12)".
static std::string describeOp(const Trace &trace, const HostOp &op) {
  std::string text = op.name.str();
  if (op.place && !trace.places[*op.place].source.empty())
    text += " (" + trace.places[*op.place].source.str() + ")";
  return text;
}

/// Steps of a program whose threads run the same again and again: requests of a
/// server. Those that run at once have no time of their own, and are no steps;
/// what was found is said in both cases. False where nothing was.
static bool findRequests(const Trace &trace, const Sequences &sequences,
                         Profile &profile) {
  std::optional<SharedPiece> shared = findSharedPiece(sequences.keys);
  if (!shared)
    return false;
  std::vector<Step> requests;
  for (const Piece &piece : shared->pieces) {
    ArrayRef<uint32_t> ops = sequences.ops[piece.thread];
    requests.push_back(
        {0, trace.hostOps[ops[piece.begin]].startNs,
         trace.hostOps[ops[piece.begin + shared->length - 1]].endNs()});
  }
  llvm::sort(requests, [](const Step &a, const Step &b) {
    return a.startNs < b.startNs;
  });
  // At the begin of one that of those before has not ended.
  size_t atOnce = 1, overlapping = 0;
  std::multiset<int64_t> ends;
  for (const Step &request : requests) {
    ends.erase(ends.begin(), ends.upper_bound(request.startNs));
    overlapping += !ends.empty();
    ends.insert(request.endNs);
    atOnce = std::max(atOnce, ends.size());
  }
  const Piece &first = shared->pieces.front();
  ArrayRef<uint32_t> ops = sequences.ops[first.thread];
  std::string evidence = formatv(
      "{0} times, on {1} threads, {2} operators follow one another, "
      "from {3} to {4}; they are {5:f1} % of all operators",
      requests.size(), shared->threads, shared->length,
      describeOp(trace, trace.hostOps[ops[first.begin]]),
      describeOp(trace, trace.hostOps[ops[first.begin + shared->length - 1]]),
      100.0 * double(requests.size() * shared->length) /
          double(sequences.size));
  if (overlapping) {
    profile.notes.push_back(
        formatv("requests: {0}. {1} of them began while another one ran, up "
                "to {2} at once, so that no time is one request's alone and "
                "none is a step: figures are of all together",
                evidence, overlapping, atOnce));
    return true;
  }
  profile.notes.push_back("steps are requests: " + evidence);
  for (auto [number, request] : llvm::enumerate(requests)) {
    request.index = uint32_t(number);
    profile.steps.push_back(request);
  }
  profile.summary.stepsFrom = "recurring_operators";
  return true;
}

/// What recording/injected/step_graph.py notes at the end of its step.
static constexpr StringLiteral kGraphRecorded = "graph recorded";

/// Sets apart what is no steady step.
static void classifySteps(const Trace &trace, const HostTimeline &host,
                          Profile &profile) {
  std::vector<int64_t> durations;
  for (const Step &step : profile.steps)
    durations.push_back(step.endNs - step.startNs);
  if (durations.size() < 2)
    return;
  // The program's first one has what that began with.
  bool isFirst = !trace.firstStep || *trace.firstStep == 0;
  if (isFirst)
    profile.steps.front().phase = Phase::WarmUp;
  int64_t usual = medianOf(durations);
  for (size_t at = isFirst ? 1 : 0;
       at + 1 < durations.size() && durations[at] > 2 * usual; ++at)
    profile.steps[at].phase = Phase::WarmUp;
  std::vector<int64_t> counts(profile.steps.size());
  // A compilation traces the program by operators of its own: it costs the
  // step time, and makes it no other step.
  for (uint32_t op : host.topsOutside())
    if (!host.isCompiling(op))
      if (std::optional<uint32_t> step =
              stepAt(profile.steps, trace.hostOps[op].startNs))
        ++counts[*step];
  int64_t usualCount = medianOf(counts);
  for (Step &step : profile.steps)
    if (step.phase == Phase::Steady &&
        counts[step.index] > usualCount + usualCount / 2)
      step.phase = Phase::Apart;
  // One whose operators were written down as a graph ran slowly for it.
  for (const HostEvent &event : trace.hostEvents)
    if (event.name == kGraphRecorded)
      if (std::optional<uint32_t> step = stepAt(profile.steps, event.startNs))
        profile.steps[*step].phase = Phase::Apart;
}

/// How the steps of a trace were found that has neither marks of them nor
/// places.
static std::string noteOf(const Trace &trace, const HostTimeline &host,
                          const Profile &profile) {
  std::string text = "no marks of steps (ProfilerStep#n) in the trace: a step ";
  if (profile.summary.stepsFrom == "optimizer_steps")
    return text + "is taken to end where the optimizer that steps last does";
  const auto *first = llvm::find_if(host.topsOutside(), [&](uint32_t op) {
    return trace.hostOps[op].startNs == profile.steps.front().startNs;
  });
  StringRef from = first == host.topsOutside().end()
                       ? StringRef("one")
                       : StringRef(trace.hostOps[*first].name);
  return text + formatv("is taken to begin wherever the operators from {0} on "
                        "recur, which they do {1} times",
                        from, profile.steps.size())
                    .str();
}

void opprof::join::findRecurringSteps(const Trace &trace,
                                      const HostTimeline &host,
                                      Profile &profile) {
  std::vector<int64_t> bounds = optimizerSteps(trace, host, profile);
  StringRef from = "optimizer_steps";
  if (bounds.size() >= (trace.firstStep ? 1 : 2)) {
    // The first has what comes before: all of the program's beginning, where
    // the recording does not begin with a step.
    int64_t start = bounds.front();
    for (const HostOp &op : trace.hostOps)
      start = std::min(start, op.startNs);
    bounds.insert(bounds.begin(), start);
  } else {
    Sequences sequences = readSequences(trace, host);
    if (!sequences.size)
      return;
    from = "recurring_operators";
    // What one thread does is not the program where others do as much.
    size_t busiest = sequences.ops[sequences.busiest()].size();
    bool isAlone = sequences.size - busiest <= busiest / kLeastOthers;
    // Without places a backward pass beside the program would be a request.
    if (isAlone || trace.places.empty() ||
        !findRequests(trace, sequences, profile))
      bounds = recurringSteps(trace, host, sequences);
    if (!isAlone && bounds.size() >= 3)
      profile.notes.push_back(formatv(
          "a step is what one thread runs over and over; others run "
          "{0:f1} % of all operators, which count to the step that "
          "they began in",
          100.0 * double(sequences.size - busiest) / double(sequences.size)));
  }
  if (profile.steps.empty()) {
    if (bounds.size() < (trace.firstStep ? 2 : 3))
      return;
    for (size_t at = 0; at + 1 < bounds.size(); ++at)
      profile.steps.push_back({uint32_t(at), bounds[at], bounds[at + 1]});
    profile.summary.stepsFrom = from.str();
    if (trace.places.empty())
      profile.notes.push_back(noteOf(trace, host, profile));
  }
  profile.summary.steps = profile.steps.size();
  classifySteps(trace, host, profile);
}
