// What the host did besides computing, where an observer recorded it.

#include "HostCosts.h"

#include "TraceSteps.h"

#include "opprof/Profile/CollectiveWait.h"
#include "opprof/Support/Intervals.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

#include <limits>
#include <map>

using namespace llvm;
using namespace opprof;
using namespace opprof::join;
using namespace opprof::profile;
using namespace opprof::trace;

/// What an operator is besides arithmetic, if anything. Without a device
/// nothing is waited for.
static std::optional<HostCostKind> kindOf(const HostOp &op, bool hasDevice) {
  if (op.annotation)
    return op.name.starts_with("enumerate(DataLoader)")
               ? std::optional(HostCostKind::DataLoading)
               : std::nullopt;
  if (!hasDevice)
    return std::nullopt;
  // Each gives the program a value that the device computes.
  return StringSwitch<std::optional<HostCostKind>>(op.name)
      .Cases({"aten::item", "aten::_local_scalar_dense", "aten::is_nonzero",
              "aten::nonzero", "aten::equal", "aten::unique_consecutive",
              "aten::_unique2", "aten::masked_select"},
             HostCostKind::Wait)
      .Default(std::nullopt);
}

static bool isGarbage(const HostEvent &event) {
  return event.name.starts_with("garbage");
}

static bool isWait(const HostEvent &event) {
  return event.name == kWaitEvent || event.name == kCollectiveWait ||
         event.name == kWorkWaitEvent;
}

namespace {
/// A time in which no operator ran: the lines before and after it.
using Between = std::pair<StringRef, StringRef>;

/// What is no code of the program's own: an operator, or what PyTorch or Python
/// does for long without any.
struct Covered {
  int64_t startNs = 0, endNs = 0;
  StringRef source;
  Part part = Part::None;
  /// Before it its thread had waited for work since then.
  std::optional<int64_t> waitedFromNs = std::nullopt;
};
} // namespace

/// Whether a range is a collective that a thread of the backend's runs on the
/// host, beside those that asked for it.
static bool isOfBackend(const HostOp &op) {
  return op.annotation && !op.open &&
         llvm::any_of(ArrayRef<StringRef>{"gloo:", "mpi:", "ucc:"},
                      [&](StringRef of) { return op.name.starts_with(of); });
}

namespace {
/// A thread runs no operator until a collective of the backend's ends, and goes
/// on then: it waits, inside of PyTorch, which records nothing of that (the
/// reducer of DistributedDataParallel at the end of a backward pass).
struct BackendWait {
  Interval time;
  /// The operator that it goes on with.
  uint32_t next;
};
} // namespace

static std::vector<BackendWait> findBackendWaits(const Trace &trace,
                                                 const HostTimeline &host) {
  constexpr int64_t kSoonNs = 1'000'000;
  std::vector<const HostOp *> collectives;
  std::vector<bool> asks(trace.threads.size());
  for (const HostOp &op : trace.hostOps)
    if (isOfBackend(op))
      collectives.push_back(&op);
    else if (op.name.starts_with("c10d::"))
      asks[op.thread] = true;
  if (collectives.empty())
    return {};
  llvm::sort(collectives, [](const HostOp *a, const HostOp *b) {
    return a->endNs() < b->endNs();
  });
  // What a wait that is recorded already covers is not found again.
  std::vector<std::vector<Interval>> known(trace.threads.size());
  for (const HostEvent &event : trace.hostEvents)
    if (isWait(event))
      known[event.thread].push_back(
          {event.startNs, event.startNs + event.durationNs});
  std::vector<BackendWait> waits;
  for (ThreadId thread = 0; thread < trace.threads.size(); ++thread) {
    if (!asks[thread])
      continue;
    std::vector<uint32_t> ops;
    for (uint32_t index : host.opsOf(thread))
      if (host.topOf(index) == index)
        ops.push_back(index);
    known[thread] = unite(std::move(known[thread]));
    int64_t waited = std::numeric_limits<int64_t>::min();
    for (const HostOp *collective : collectives) {
      if (collective->thread == thread ||
          trace.threads[collective->thread] != trace.threads[thread])
        continue;
      // Who waits is woken before the range of the collective ends.
      auto next = llvm::partition_point(ops, [&](uint32_t index) {
        return host.op(index).startNs < collective->endNs() - kSoonNs;
      });
      if (next == ops.end() || next == ops.begin())
        continue;
      int64_t startNs = host.op(*next).startNs;
      Interval time(std::max({host.op(*std::prev(next)).endNs(),
                              collective->startNs, waited}),
                    std::min(collective->endNs(), startNs));
      // The system may let it go on later than that.
      int64_t lateNs = std::max(kSoonNs, (time.second - time.first) / 2);
      if (time.first >= time.second || startNs - collective->endNs() > lateNs ||
          !intersect(known[thread], {time}).empty())
        continue;
      waited = time.second;
      waits.push_back({time, *next});
    }
  }
  return waits;
}

/// Operators of all threads, and ranges that have a cost of their own, in order
/// of time.
static std::vector<Covered> coveredTimes(const Trace &trace,
                                         const HostTimeline &host,
                                         const OperatorPlaces &places,
                                         ArrayRef<BackendWait> backendWaits) {
  std::vector<Covered> covered;
  for (const BackendWait &wait : backendWaits)
    covered.push_back({wait.time.first, wait.time.second,
                       places.of(wait.next).source, Part::None});
  // Such waits end where the operator begins.
  std::map<std::pair<ThreadId, int64_t>, int64_t> waits;
  for (const HostEvent &event : trace.hostEvents)
    if (event.name == kWorkWaitEvent)
      waits[{event.thread, event.startNs + event.durationNs}] = event.startNs;
  for (uint32_t index = 0; index < trace.hostOps.size(); ++index) {
    const HostOp &op = trace.hostOps[index];
    if (op.open || (op.annotation ? !op.name.starts_with("Optimizer.") &&
                                        !op.name.starts_with("enumerate(")
                                  : host.topOf(index) != index))
      continue;
    const OperatorPlaces::Where &where = places.of(index);
    covered.push_back({op.startNs, op.endNs(), where.source, where.part});
    if (auto wait = waits.find({op.thread, op.startNs}); wait != waits.end())
      covered.back().waitedFromNs = wait->second;
  }
  for (const HostEvent &event : trace.hostEvents) {
    // Of one thread, while others may compute.
    if (event.name == kWorkWaitEvent)
      continue;
    bool isKnown = event.place && *event.place < trace.places.size();
    covered.push_back(
        {event.startNs, event.startNs + event.durationNs,
         isKnown ? trace.places[*event.place].source : StringRef(),
         Part::None});
  }
  llvm::sort(covered, [](const Covered &a, const Covered &b) {
    return a.startNs < b.startNs;
  });
  return covered;
}

/// The program's own code, by the lines between which it ran while no operator
/// and no device did. The median of the steps stands for each: another process
/// or the system may take the processor in any of them.
static void addProgram(const Trace &trace, const HostTimeline &host,
                       const OperatorPlaces &places,
                       ArrayRef<BackendWait> backendWaits, Profile &profile) {
  constexpr int64_t kLeastNs = 100'000;
  const int64_t steps = countSteadySteps(profile);
  if (!steps)
    return;
  std::vector<Interval> runs;
  for (const std::vector<Activity> *list : {&profile.kernels, &profile.copies})
    for (const Activity &activity : *list)
      runs.push_back({activity.startNs, activity.endNs()});
  runs = unite(std::move(runs));
  const ArrayRef<Interval> running = runs;
  std::map<Between, std::map<uint32_t, std::pair<int64_t, uint64_t>>> found;
  const Covered *last = nullptr;
  for (const std::vector<Covered> covered =
           coveredTimes(trace, host, places, backendWaits);
       const Covered &next : covered) {
    const Covered *before = last;
    if (!last || next.endNs > last->endNs)
      last = &next;
    if (!before || next.startNs - before->endNs < kLeastNs ||
        next.part == Part::Backward || next.source.empty() ||
        next.source == before->source ||
        (next.waitedFromNs && *next.waitedFromNs <= before->endNs))
      continue;
    std::optional<uint32_t> step = stepAt(profile.steps, before->endNs);
    if (!step)
      step = stepAt(profile.steps, next.startNs);
    if (!step || profile.steps[*step].phase != Phase::Steady)
      continue;
    const Interval gap(before->endNs, next.startNs);
    const auto *from = llvm::partition_point(
        running, [&](const Interval &one) { return one.second <= gap.first; });
    const auto *to =
        std::partition_point(from, running.end(), [&](const Interval &one) {
          return one.first < gap.second;
        });
    int64_t idle = sumLengths(gapsIn(gap, ArrayRef(from, to)));
    auto &[timeNs, times] = found[{before->source, next.source}][*step];
    timeNs += idle;
    ++times;
  }
  for (const auto &[between, bySteps] : found) {
    std::vector<int64_t> times;
    uint64_t calls = 0;
    for (const auto &[step, took] : bySteps) {
      times.push_back(took.first);
      calls += took.second;
    }
    times.resize(std::max<size_t>(times.size(), steps));
    llvm::sort(times);
    int64_t median = times[(times.size() - 1) / 2];
    if (median < kLeastNs)
      continue;
    HostCost &cost = profile.host.emplace_back();
    cost.kind = HostCostKind::Program;
    cost.name = between.first.str();
    cost.source = between.second.str();
    cost.calls = calls;
    cost.timeNs = median * steps;
  }
}

void opprof::join::addHostCosts(const Trace &trace, const HostTimeline &host,
                                const OperatorPlaces &places, bool hasDevice,
                                Profile &profile) {
  bool anySteady = countSteadySteps(profile) > 0;
  // Without steps figures are of the time from the first activity to the last
  // one: imports and what else comes before are none of it.
  std::optional<Interval> window;
  if (!anySteady)
    for (const std::vector<Activity> *list :
         {&profile.kernels, &profile.copies})
      for (const Activity &activity : *list) {
        Interval time(activity.startNs, activity.endNs());
        window = window ? Interval(std::min(window->first, time.first),
                                   std::max(window->second, time.second))
                        : time;
      }
  // How much of a time counts, if anything of it does. What is waited for may
  // come after the last activity that was seen.
  auto counted = [&](int64_t startNs, int64_t durationNs,
                     bool isAwaited) -> std::optional<int64_t> {
    if (anySteady) {
      std::optional<uint32_t> step = stepAt(profile.steps, startNs);
      return step && profile.steps[*step].phase == Phase::Steady
                 ? std::optional(durationNs)
                 : std::nullopt;
    }
    if (!window)
      return durationNs;
    int64_t from = std::max(startNs, window->first);
    int64_t to = startNs + durationNs;
    if (!isAwaited)
      to = std::min(to, window->second);
    bool isOutside = durationNs ? from >= to : from > to;
    return isOutside ? std::nullopt : std::optional(to - from);
  };
  std::map<std::tuple<HostCostKind, StringRef, StringRef>, HostCost> costs;
  auto add = [&](HostCostKind kind, StringRef name, StringRef source,
                 StringRef module, int64_t duration) {
    HostCost &cost = costs[{kind, name, source}];
    cost.kind = kind;
    cost.name = name.str();
    cost.source = source.str();
    cost.module = module.str();
    ++cost.calls;
    cost.timeNs += duration;
  };
  const std::vector<BackendWait> backendWaits = findBackendWaits(trace, host);
  for (const BackendWait &wait : backendWaits)
    if (std::optional<int64_t> ns =
            counted(wait.time.first, wait.time.second - wait.time.first,
                    /*isAwaited=*/true)) {
      OperatorPlaces::Where where;
      if (places.any())
        where = places.of(wait.next);
      add(HostCostKind::Wait, kCollectiveWait, where.source, where.module, *ns);
    }
  for (uint32_t index = 0; index < trace.hostOps.size(); ++index) {
    const HostOp &op = trace.hostOps[index];
    // Of what is told by its line nothing is known without any.
    if (!places.any() && !op.annotation)
      continue;
    std::optional<HostCostKind> kind = kindOf(op, hasDevice);
    if (!kind)
      continue;
    std::optional<int64_t> ns =
        counted(op.startNs, op.durationNs, *kind == HostCostKind::Wait);
    if (!ns)
      continue;
    // A wait inside another one is part of it.
    uint32_t outer = host.parent(index);
    while (outer != kNone && !kindOf(host.op(outer), hasDevice))
      outer = host.parent(outer);
    if (outer != kNone)
      continue;
    OperatorPlaces::Where where;
    if (places.any())
      where = places.of(index);
    add(*kind, op.name, where.source, where.module, *ns);
  }
  // All else is of lines.
  if (!places.any()) {
    for (auto &[key, cost] : costs)
      profile.host.push_back(std::move(cost));
    return;
  }
  // Compilations and torch.save collect garbage as well, which is theirs.
  std::vector<std::vector<Interval>> others(trace.threads.size());
  for (const HostEvent &event : trace.hostEvents)
    if (!isGarbage(event) && !isWait(event))
      others[event.thread].push_back(
          {event.startNs, event.startNs + event.durationNs});
  for (std::vector<Interval> &ofThread : others)
    ofThread = unite(std::move(ofThread));
  auto isWithin = [&](const HostEvent &event) {
    auto before =
        llvm::partition_point(others[event.thread], [&](const Interval &one) {
          return one.first <= event.startNs;
        });
    return before != others[event.thread].begin() &&
           event.startNs < std::prev(before)->second;
  };
  for (const HostEvent &event : trace.hostEvents) {
    std::optional<int64_t> ns =
        counted(event.startNs, event.durationNs, isWait(event));
    if (!ns || (isGarbage(event) && isWithin(event)))
      continue;
    StringRef source, module;
    if (event.place && *event.place < trace.places.size()) {
      source = trace.places[*event.place].source;
      module = trace.places[*event.place].module;
    }
    HostCostKind kind = isGarbage(event)             ? HostCostKind::Garbage
                        : event.name == "checkpoint" ? HostCostKind::Checkpoint
                        : isWait(event) ? HostCostKind::Wait
                                        : HostCostKind::Compilation;
    add(kind, event.name, source, module, *ns);
  }
  addProgram(trace, host, places, backendWaits, profile);
  for (auto &[key, cost] : costs)
    profile.host.push_back(std::move(cost));
  llvm::stable_sort(profile.host, [](const HostCost &a, const HostCost &b) {
    return a.timeNs > b.timeNs;
  });
}
