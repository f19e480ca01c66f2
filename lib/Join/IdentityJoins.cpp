// From recorded identities to launches.

#include "IdentityJoins.h"

#include "TraceSteps.h"

#include "llvm/ADT/STLExtras.h"

#include <set>

using namespace llvm;
using namespace opprof;
using namespace opprof::join;
using namespace opprof::profile;
using namespace opprof::trace;
using launch::LaunchKind;

RuntimeCalls::RuntimeCalls(const Trace &trace) : trace(trace) {
  byCorrelation.reserve(trace.runtimeCalls.size());
  for (auto [index, call] : llvm::enumerate(trace.runtimeCalls))
    if (call.correlation)
      byCorrelation.add(*call.correlation, index);
  byCorrelation.sort();
  if (byCorrelation.empty() &&
      llvm::none_of(trace.activities, [](const TraceActivity &event) {
        return event.correlation || event.externalId || event.identity;
      }))
    pairByOrder();
}

/// What the device can have been given by a call, by its name.
static std::optional<ActivityKind> startedKind(StringRef call) {
  if (call.contains("Memcpy"))
    return ActivityKind::Memcpy;
  if (call.contains("Memset"))
    return ActivityKind::Memset;
  if (call.contains("Launch") && !call.contains("Graph") &&
      !call.contains("HostFunc"))
    return ActivityKind::Kernel;
  return std::nullopt;
}

/// One stream runs what it is given in the order of the calls. Where a trace
/// holds more of one than of the other, it began or ended in between; where
/// that leaves something running before its call, nothing is known.
void RuntimeCalls::pairByOrder() {
  // One call of a CUDA graph starts many kernels, which look like any other.
  if (llvm::any_of(trace.runtimeCalls, [](const RuntimeCall &call) {
        return call.name.contains("GraphLaunch");
      }))
    return;
  std::vector<uint32_t> result(trace.activities.size(), kNone);
  bool any = false;
  for (ActivityKind kind :
       {ActivityKind::Kernel, ActivityKind::Memcpy, ActivityKind::Memset}) {
    std::vector<uint32_t> activities, calls;
    std::set<std::pair<int64_t, int64_t>> streams;
    for (auto [index, event] : llvm::enumerate(trace.activities))
      if (event.kind == kind) {
        activities.push_back(index);
        streams.insert({event.device, event.stream.value_or(-1)});
      }
    for (auto [index, call] : llvm::enumerate(trace.runtimeCalls))
      if (startedKind(call.name) == kind)
        calls.push_back(index);
    if (streams.size() > 1)
      continue;
    auto byStart = [](const auto &list) {
      return [&list](uint32_t a, uint32_t b) {
        return list[a].startNs < list[b].startNs;
      };
    };
    llvm::stable_sort(activities, byStart(trace.activities));
    llvm::stable_sort(calls, byStart(trace.runtimeCalls));
    ArrayRef<uint32_t> ran = activities, made = calls;
    if (ran.size() > made.size())
      ran = ran.take_back(made.size());
    else
      made = made.take_front(ran.size());
    if (llvm::any_of(llvm::zip(ran, made), [&](auto pair) {
          return trace.activities[std::get<0>(pair)].startNs <
                 trace.runtimeCalls[std::get<1>(pair)].startNs;
        }))
      continue;
    for (auto [activity, call] : llvm::zip(ran, made)) {
      result[activity] = call;
      any = true;
    }
  }
  if (any)
    byOrder = std::move(result);
}

const RuntimeCall *RuntimeCalls::of(const TraceActivity &event) const {
  if (!event.correlation) {
    size_t place = &event - trace.activities.data();
    uint32_t call = place < byOrder.size() ? byOrder[place] : kNone;
    return call == kNone ? nullptr : &trace.runtimeCalls[call];
  }
  uint32_t call = byCorrelation.find(*event.correlation);
  return call == kNone ? nullptr : &trace.runtimeCalls[call];
}

/// A kernel of such a launch is one run of it: generated code launches one.
static bool launchesOneKernel(const launch::Launch &launch) {
  switch (*launch.kind) {
  case LaunchKind::Triton:
  case LaunchKind::User:
  case LaunchKind::CuteDsl:
    return true;
  default:
    return false;
  }
}

IdentityJoins::IdentityJoins(const Trace &trace,
                             const AttributionInputs &inputs,
                             const LaunchIndex &index,
                             const RuntimeCalls &runtime, Profile &profile)
    : trace(trace) {
  if (trace.identities.empty())
    return;
  IdentityPlaces find(inputs);
  for (const Identity &identity : trace.identities)
    places.push_back(find.find(identity));
  joins.resize(trace.activities.size());
  joinInOrder(inOrderOfLaunch(runtime), index, profile);
}

std::vector<IdentityJoins::Launched>
IdentityJoins::inOrderOfLaunch(const RuntimeCalls &runtime) const {
  std::vector<Launched> order;
  for (auto [index, event] : llvm::enumerate(trace.activities)) {
    if (!event.identity || places[*event.identity].launches.empty())
      continue;
    const RuntimeCall *call = runtime.of(event);
    order.push_back({uint32_t(index), call,
                     call ? call->startNs : event.startNs,
                     event.graphNode.has_value()});
  }
  // Nodes of a CUDA graph are numbered in the order of their capture.
  llvm::stable_sort(order, [&](const Launched &a, const Launched &b) {
    const TraceActivity &left = trace.activities[a.activity];
    const TraceActivity &right = trace.activities[b.activity];
    return std::tuple(a.when, left.correlation.value_or(0),
                      left.graphNode.value_or(0), left.startNs) <
           std::tuple(b.when, right.correlation.value_or(0),
                      right.graphNode.value_or(0), right.startNs);
  });
  return order;
}

/// The launches of a map that follow one another on a thread, or that one call
/// of a CUDA graph replays, are one call of its compiled graph.
void IdentityJoins::joinInOrder(ArrayRef<Launched> order,
                                const LaunchIndex &index, Profile &profile) {
  struct Running {
    uint32_t map = kNone;
    uint32_t call = kNone;
    uint32_t launch = 0;
    uint32_t identity = kNone;
    bool hasKernel = false;
    std::optional<uint32_t> step;
  };
  // By correlation of a replay, or by thread.
  std::map<std::pair<bool, uint64_t>, Running> running;
  for (const Launched &launched : order) {
    const TraceActivity &event = trace.activities[launched.activity];
    const IdentityPlace &place = places[*event.identity];
    ArrayRef<launch::Launch> launches = index.launchesOf(place.map);
    bool isKernel = event.kind == ActivityKind::Kernel;
    std::optional<uint32_t> step = stepAt(profile.steps, launched.when);
    Running &at = running[{launched.replayed,
                           launched.replayed  ? event.correlation.value_or(0)
                           : launched.runtime ? launched.runtime->thread
                                              : ~uint64_t(0)}];
    bool sameCall = at.call != kNone && at.map == place.map && at.step == step;
    // The launch that follows what ran last; the same one goes on unless it
    // has had its kernel.
    std::optional<uint32_t> found;
    bool goesOn = false;
    if (sameCall) {
      for (uint32_t candidate : place.launches) {
        bool again = candidate == at.launch;
        bool spent = again && isKernel && at.hasKernel &&
                     launchesOneKernel(launches[candidate]);
        if (candidate < at.launch || spent)
          continue;
        found = candidate;
        goesOn = again && at.identity == *event.identity;
        break;
      }
      if (!found && launches[place.launches.front()].inLoop &&
          launches[at.launch].inLoop)
        found = place.launches.front();
    }
    if (!found) {
      found = place.launches.front();
      at = Running();
      at.map = place.map;
      at.step = step;
      at.call = profile.calls.size();
      CompiledCall &call = profile.calls.emplace_back();
      call.compiledGraph = index.getMaps()[place.map].graph;
      call.launches = launches.size();
      call.startNs = launched.when;
      call.step = step;
    }
    CompiledCall &call = profile.calls[at.call];
    if (launched.runtime)
      call.durationNs =
          std::max(call.durationNs, launched.runtime->endNs() - call.startNs);
    if (!goesOn) {
      at.hasKernel = false;
      index.countRun(profile, {place.map, *found});
      ++call.matched;
    }
    at.hasKernel |= isKernel;
    at.launch = *found;
    at.identity = *event.identity;
    setJoin(launched.activity, *found, index);
  }
}

void IdentityJoins::setJoin(uint32_t activity, uint32_t launch,
                            const LaunchIndex &index) {
  const TraceActivity &event = trace.activities[activity];
  const IdentityPlace &place = places[*event.identity];
  ArrayRef<launch::Launch> launches = index.launchesOf(place.map);
  Join &join = joins[activity];
  join.launch = {place.map, launch};
  join.method = "identity";
  const Identity &identity = trace.identities[*event.identity];
  std::string what = identity.node.empty()
                         ? "line " + std::to_string(identity.line)
                         : "node " + identity.node;
  join.explanation =
      (event.graphNode ? "replay of a CUDA graph; the node was captured "
                         "under the id of "
                       : "launched under the id of ") +
      what + ", which is " + index.describe(join.launch);
  bool same = llvm::all_of(place.launches, [&](uint32_t other) {
    return llvm::equal(launches[other].nodes, launches[launch].nodes,
                       [](const auto &a, const auto &b) {
                         return a.name == b.name && a.graph == b.graph;
                       });
  });
  join.confidence = same ? Confidence::High : Confidence::Medium;
  if (!same)
    join.explanation += "; by order, as the line runs several times in a call";
}
