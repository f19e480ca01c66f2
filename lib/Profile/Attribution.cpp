//===- Attribution.cpp - From kernels of a trace to nodes -----------------===//
//
// Where launches were recorded with what launched them, that is the join.
// Elsewhere it takes three steps: the host's calls of compiled graphs are
// matched to launch maps by what they launch; each activity of the device is
// followed back to the operator that launched it; the operator's launch gives
// the nodes.
//
//===----------------------------------------------------------------------===//

#include "opprof/Profile/Attribution.h"

#include "HostTimeline.h"
#include "IdentityPlaces.h"
#include "opprof/Profile/Occupancy.h"
#include "opprof/Profile/SequenceAlignment.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/Twine.h"

#include <cmath>
#include <limits>
#include <numeric>

using namespace llvm;
using namespace opprof;
using namespace opprof::profile;
using inductor::Launch;
using inductor::LaunchKind;
using inductor::LaunchMap;

namespace {

constexpr uint32_t none = HostTimeline::none;

/// A launch of one of the maps.
struct LaunchId {
  uint32_t map = none;
  uint32_t launch = none;

  bool valid() const { return map != none; }
};

/// How an operator of the host, or a kernel of a CUDA graph, was joined.
struct Join {
  LaunchId launch;
  StringRef method = "none";
  Confidence confidence = Confidence::Unattributed;
  std::string explanation;
};

/// What identifies a launch, or an operator that may be one.
struct Key {
  /// Interned numbers; 0 is none.
  uint32_t hash = 0;
  uint32_t name = 0;

  /// A hash on both sides decides alone.
  bool matches(const Key &other) const {
    if (hash && other.hash)
      return hash == other.hash;
    return name == other.name;
  }
};

/// The name under which the profiler shows what the wrapper calls `kernel`:
/// "extern_kernels.mm" and "torch.ops.aten.mm.out" are "aten::mm",
/// "graph_0_cpp_fused_relu_0" is the C++ kernel "cpp_fused_relu_0".
std::string canonicalName(StringRef name) {
  if (size_t at = name.find("cpp_fused"); at != StringRef::npos)
    return name.substr(at).str();
  if (name.contains("::"))
    return name.str();
  // Products with a bias of one row are a Python function round addmm.
  if (name == "extern_kernels.bias_addmm")
    return "aten::addmm";
  if (name.consume_front("extern_kernels."))
    return ("aten::" + name).str();
  name.consume_front("torch.ops.");
  auto [space, rest] = name.split('.');
  if (rest.empty())
    return name.str();
  StringRef op = rest.split('.').first;
  return (space + "::" + op).str();
}

/// Operators that only make views or allocate: they are no kernels of a CPU.
bool computesNothing(StringRef name) {
  static const StringSet<> names = {"aten::alias",
                                    "aten::as_strided",
                                    "aten::detach",
                                    "aten::empty",
                                    "aten::empty_like",
                                    "aten::empty_strided",
                                    "aten::expand",
                                    "aten::narrow",
                                    "aten::new_empty",
                                    "aten::new_empty_strided",
                                    "aten::permute",
                                    "aten::resize_",
                                    "aten::resolve_conj",
                                    "aten::resolve_neg",
                                    "aten::select",
                                    "aten::set_",
                                    "aten::slice",
                                    "aten::split",
                                    "aten::split_with_sizes",
                                    "aten::squeeze",
                                    "aten::t",
                                    "aten::transpose",
                                    "aten::unbind",
                                    "aten::unsqueeze",
                                    "aten::view",
                                    "aten::_reshape_alias",
                                    "aten::_unsafe_view",
                                    "aten::chunk",
                                    "aten::view_as_real",
                                    "aten::lift_fresh",
                                    "aten::is_nonzero",
                                    "aten::result_type"};
  return names.contains(name);
}

/// A kernel of such a launch is one run of it: generated code launches one.
bool launchesOneKernel(const Launch &launch) {
  switch (launch.kind) {
  case LaunchKind::Triton:
  case LaunchKind::User:
  case LaunchKind::CuteDsl:
    return true;
  default:
    return false;
  }
}

class Attributor {
public:
  Attributor(const Trace &trace, const AttributionInputs &inputs)
      : trace(trace), inputs(inputs), host(trace),
        profile(std::make_unique<Profile>()) {}

  std::unique_ptr<Profile> run();

private:
  /// An alignment of a call's operators with one map.
  struct CallAlignment {
    uint32_t map = none;
    SequenceAlignment alignment;
    /// Another map fits as well.
    bool ambiguous = false;
  };

  uint32_t intern(StringRef text) {
    return text.empty() ? 0
                        : keys.try_emplace(text, keys.size() + 1).first->second;
  }
  Key keyOf(const HostOp &op) {
    return {intern(op.kernelHash), intern(canonicalName(op.name))};
  }
  const Launch &launchAt(LaunchId id) const {
    return inputs.maps[id.map].launches[id.launch];
  }
  std::string describe(LaunchId id) const;

  void prepareLaunches();
  void indexRuntimeCalls();
  void alignCalls();
  const CallAlignment &alignSequence(ArrayRef<uint32_t> ops);
  void joinCall(uint32_t call, ArrayRef<uint32_t> ops);
  void fillGaps(uint32_t call, ArrayRef<uint32_t> ops);
  void joinOutside();
  void joinIdentities();
  void explainNoIdentity(Activity &activity, const TraceActivity &event,
                         const IdentityPlace *place);
  void findSteps();
  void addActivities();
  void addHostKernels();
  bool joinNode(Activity &activity, uint32_t identity);
  void joinGraphReplays();
  void describeUnjoined();
  std::string explainUnjoined(uint32_t op) const;
  void apply(Activity &activity, const Join &join);
  void estimateFill(Activity &kernel) const;
  void addNodes();
  void addPartitions();
  /// The innermost range at or round `op` that the program marked; empty where
  /// there is none.
  StringRef rangeAt(uint32_t op) const;
  Phase phaseOf(uint32_t op) const;
  std::optional<uint32_t> stepAt(int64_t time) const;

  const Trace &trace;
  const AttributionInputs &inputs;
  HostTimeline host;
  std::unique_ptr<Profile> profile;

  StringMap<uint32_t> keys;
  std::vector<std::vector<Key>> launchKeys;
  /// Launches by interned kernel hash and by interned name.
  DenseMap<uint32_t, std::vector<LaunchId>> byHash, byName;
  std::vector<uint32_t> firstRecord;

  /// How many activities each outermost operator started.
  std::vector<uint32_t> startedBy;
  DenseMap<uint64_t, uint32_t> runtimeByCorrelation;
  std::map<std::vector<uint64_t>, CallAlignment> alignments;
  std::vector<Join> joins;
  std::vector<uint32_t> mapOfCall;
  /// Operators of calls that several maps fit: the turn of each map.
  std::map<std::vector<uint64_t>, uint32_t> turns;
  bool onHost = false;
  /// There is something that kernels can be joined to.
  bool anyGraph = false;
  std::vector<IdentityPlace> places;
  /// By place in Trace::activities; empty where no launch was recorded with an
  /// identity.
  std::vector<Join> identityJoins;
  /// Kernels and copies that were launched for a node outside of launch maps:
  /// the identity of each.
  std::vector<std::pair<uint32_t, uint32_t>> nodesOfKernels, nodesOfCopies;
  /// Of what has no node: how many activities, and their time.
  std::map<std::string, std::pair<uint64_t, int64_t>> unattributed;
  /// The operator that started each activity, or none.
  std::vector<uint32_t> opOfKernel, opOfCopy;

  /// Kernels of each replay of a CUDA graph, by call.
  struct Replay {
    uint32_t runtimeCall;
    std::vector<uint32_t> kernels;
  };
  std::map<uint32_t, std::map<uint64_t, Replay>> replays;
};

} // namespace

std::string Attributor::describe(LaunchId id) const {
  const Launch &launch = launchAt(id);
  return ("launch " + Twine(launch.index) + " of " + inputs.maps[id.map].graph +
          " (" + launch.file + ":" + Twine(launch.line) + ")")
      .str();
}

void Attributor::prepareLaunches() {
  for (auto [map, launchMap] : llvm::enumerate(inputs.maps)) {
    launchKeys.emplace_back();
    firstRecord.push_back(profile->launches.size());
    for (auto [index, launch] : llvm::enumerate(launchMap.launches)) {
      Key key{intern(launch.kernelHash), intern(canonicalName(launch.kernel))};
      launchKeys.back().push_back(key);
      LaunchId id{uint32_t(map), uint32_t(index)};
      if (key.hash)
        byHash[key.hash].push_back(id);
      byName[key.name].push_back(id);

      LaunchRecord &record = profile->launches.emplace_back();
      record.compiledGraph = launchMap.graph;
      record.index = launch.index;
      record.kernel = launch.kernel;
      record.kind = stringify(launch.kind).str();
      record.category = stringify(launch.category).str();
      record.file = launch.file;
      record.line = launch.line;
      record.dtype = launch.dtype;
      record.flops = launch.flops;
      record.bytesRead = launch.bytesRead;
      record.bytesWritten = launch.bytesWritten;
    }
  }
}

/// Follows activities to the operators that started them.
void Attributor::indexRuntimeCalls() {
  for (auto [index, call] : llvm::enumerate(trace.runtimeCalls))
    if (call.correlation)
      runtimeByCorrelation.try_emplace(*call.correlation, index);
}

const Attributor::CallAlignment &
Attributor::alignSequence(ArrayRef<uint32_t> ops) {
  std::vector<uint64_t> sequence;
  std::vector<Key> opKeys;
  for (uint32_t op : ops) {
    Key key = keyOf(host.op(op));
    opKeys.push_back(key);
    sequence.push_back(uint64_t(key.hash) << 32 | key.name);
  }
  auto [it, inserted] = alignments.try_emplace(sequence);
  CallAlignment &best = it->second;
  if (!inserted)
    return best;
  double bestScore = 0;
  for (auto [map, launchMap] : llvm::enumerate(inputs.maps)) {
    const std::vector<Key> &launches = launchKeys[map];
    SequenceAlignment alignment = alignSequences(
        opKeys.size(), launches.size(), [&](uint32_t op, uint32_t launch) {
          return opKeys[op].matches(launches[launch]);
        });
    // Library calls look alike in every model: a map whose generated kernels
    // are not those of the call is another model's. So is one that explains
    // less than half of it, unless a hash says otherwise: what runs in a loop
    // stands in the map once.
    bool anyGenerated = false, generatedMatched = false, hashMatched = false;
    for (auto [position, element] : llvm::enumerate(alignment.elements)) {
      const HostOp &op = host.op(ops[position]);
      if (op.kernelHash.empty() && !op.generated &&
          !op.name.contains("cpp_fused"))
        continue;
      anyGenerated = true;
      if (!element.position)
        continue;
      generatedMatched = true;
      hashMatched |= opKeys[position].hash && launches[*element.position].hash;
    }
    if (!alignment.matched || (anyGenerated && !generatedMatched) ||
        (!hashMatched &&
         2 * uint64_t(alignment.matched) < uint64_t(opKeys.size())))
      continue;
    double score = double(alignment.matched) /
                   double(std::max(opKeys.size(), launches.size()));
    if (score == bestScore)
      best.ambiguous = true;
    if (score > bestScore) {
      bestScore = score;
      best.map = map;
      best.alignment = std::move(alignment);
      best.ambiguous = false;
    }
  }
  return best;
}

void Attributor::joinCall(uint32_t call, ArrayRef<uint32_t> ops) {
  const CallAlignment &found = alignSequence(ops);
  if (found.map == none)
    return;
  if (call != none) {
    mapOfCall[call] = found.map;
  } else if (!found.alignment.complete) {
    // An eager program runs operators of the same names. Only kernels that
    // were generated for this graph prove that it is the compiled one.
    bool anyHash = false;
    for (auto [position, element] : llvm::enumerate(found.alignment.elements))
      anyHash |= element.position && keyOf(host.op(ops[position])).hash &&
                 launchKeys[found.map][*element.position].hash;
    if (!anyHash)
      return;
  }
  const LaunchMap &map = inputs.maps[found.map];
  const SequenceAlignment &alignment = found.alignment;
  std::string extent =
      alignment.complete
          ? ("all " + Twine(ops.size()) + " operators of the call match the " +
             Twine(map.launches.size()) + " launches of " + map.graph +
             " one by one, in order")
                .str()
          : (Twine(alignment.matched) + " of the call's " + Twine(ops.size()) +
             " operators match " + map.graph + "'s " +
             Twine(map.launches.size()) + " launches in order")
                .str();

  for (auto [position, element] : llvm::enumerate(alignment.elements)) {
    uint32_t op = ops[position];
    const HostOp &hostOp = host.op(op);
    Key key = keyOf(hostOp);
    Join &join = joins[op];
    if (!element.position) {
      // In a loop a launch runs more often than the map lists it: one launch
      // of that hash is still one launch.
      if (!key.hash)
        continue;
      SmallVector<LaunchId> same;
      for (LaunchId id : byHash.lookup(key.hash))
        if (id.map == found.map)
          same.push_back(id);
      if (same.size() != 1)
        continue;
      join.launch = same.front();
      join.method = "kernel_hash";
      join.confidence = Confidence::High;
      join.explanation =
          ("host operator " + hostOp.name + " carries kernel_hash " +
           hostOp.kernelHash + ", and " + describe(join.launch) +
           " is the only one of that hash")
              .str();
      continue;
    }
    join.launch = {found.map, *element.position};
    bool sure = element.forced && !found.ambiguous;
    bool byHashToo = key.hash && launchKeys[found.map][*element.position].hash;
    join.method = byHashToo ? "kernel_hash" : "correlation";
    join.confidence = sure ? Confidence::High : Confidence::Medium;
    std::string what;
    if (byHashToo)
      what = ("host operator carries kernel_hash " + hostOp.kernelHash +
              " of " + describe(join.launch) + "; ")
                 .str();
    else
      what = ("host operator " + hostOp.name + " is what " +
              describe(join.launch) + " calls as " +
              launchAt(join.launch).kernel + "; ")
                 .str();
    join.explanation = what + extent;
    if (!element.forced) {
      join.method = "sequence";
      join.explanation += "; another launch of the same kernel would fit too";
    }
    if (found.ambiguous) {
      join.method = "sequence";
      join.explanation += "; another compiled graph launches the same kernels";
    }
  }
  fillGaps(call, ops);
}

/// Operators between two matched ones belong to the launches between: where
/// there is one launch it may run several operators, and where there are as
/// many launches as operators each has its own.
void Attributor::fillGaps(uint32_t call, ArrayRef<uint32_t> ops) {
  const CallAlignment &found = alignSequence(ops);
  const std::vector<Launch> &launches = inputs.maps[found.map].launches;
  uint32_t nextLaunch = 0;
  size_t position = 0;
  auto isOpen = [&](uint32_t op) {
    return !joins[op].launch.valid() && (onHost || startedBy[op] != 0) &&
           !computesNothing(host.op(op).name);
  };
  while (position < ops.size()) {
    const std::optional<uint32_t> &matched =
        found.alignment.elements[position].position;
    if (matched) {
      nextLaunch = *matched + 1;
      ++position;
      continue;
    }
    SmallVector<uint32_t> open;
    uint32_t end = launches.size();
    for (; position < ops.size(); ++position) {
      if (found.alignment.elements[position].position) {
        end = *found.alignment.elements[position].position;
        break;
      }
      if (isOpen(ops[position]))
        open.push_back(ops[position]);
    }
    SmallVector<uint32_t> between;
    for (uint32_t launch = nextLaunch; launch < end; ++launch)
      if (launches[launch].kind != LaunchKind::Subgraph &&
          launches[launch].kind != LaunchKind::Triton)
        between.push_back(launch);
    if (open.empty() || between.empty() ||
        (between.size() != 1 && between.size() != open.size()))
      continue;
    for (auto [index, op] : llvm::enumerate(open)) {
      Join &join = joins[op];
      join.launch = {found.map,
                     between.size() == 1 ? between[0] : between[index]};
      join.method = "enclosure";
      join.confidence = Confidence::Medium;
      join.explanation =
          ("host operator " + host.op(op).name + " ran where " +
           describe(join.launch) + " (" + launchAt(join.launch).kernel +
           ") stands: between the operators matched before and after it")
              .str();
    }
  }
}

/// Generated kernels that ran outside every known call.
void Attributor::joinOutside() {
  // With no calls in the trace the threads' own order is all there is.
  if (host.calls().empty() && !inputs.maps.empty()) {
    std::map<ThreadId, std::vector<uint32_t>> threads;
    for (uint32_t op : host.topsOutside())
      threads[host.op(op).thread].push_back(op);
    for (auto &[thread, ops] : threads) {
      // One pass through the map at a time: the sequence is cut where a map's
      // first launch comes again.
      std::vector<uint32_t> pass;
      auto startsPass = [&](uint32_t op) {
        Key key = keyOf(host.op(op));
        return key.hash && llvm::any_of(launchKeys, [&](const auto &launches) {
                 return !launches.empty() && launches.front().hash == key.hash;
               });
      };
      for (uint32_t op : ops) {
        if (startsPass(op) && !pass.empty()) {
          joinCall(none, pass);
          pass.clear();
        }
        pass.push_back(op);
      }
      if (!pass.empty())
        joinCall(none, pass);
    }
    // Nothing says where a call begins and ends, so order proves less.
    for (Join &join : joins)
      if (join.confidence == Confidence::High && join.method != "kernel_hash")
        join.confidence = Confidence::Medium;
  }
  for (uint32_t op : host.topsOutside()) {
    if (joins[op].launch.valid())
      continue;
    Key key = keyOf(host.op(op));
    if (!key.hash)
      continue;
    const std::vector<LaunchId> &same = byHash.lookup(key.hash);
    if (same.size() != 1)
      continue;
    Join &join = joins[op];
    join.launch = same.front();
    join.method = "kernel_hash";
    join.confidence = Confidence::High;
    join.explanation =
        ("host operator carries kernel_hash " + host.op(op).kernelHash +
         ", and " + describe(join.launch) +
         " is the only one of that hash in all compiled graphs")
            .str();
  }
}

void Attributor::alignCalls() {
  joins.resize(trace.hostOps.size());
  mapOfCall.assign(host.calls().size(), none);
  for (uint32_t call = 0; call < host.calls().size(); ++call) {
    SmallVector<uint32_t> ops;
    for (uint32_t op : host.topsOfCall(call))
      if (onHost || startedBy[op] || !computesNothing(host.op(op).name))
        ops.push_back(op);
    joinCall(call, ops);
  }
  joinOutside();
  for (const Join &join : joins)
    if (join.launch.valid())
      ++profile->launches[firstRecord[join.launch.map] + join.launch.launch]
            .runs;
}

void Attributor::findSteps() {
  for (const TraceStep &step : trace.steps)
    profile->steps.push_back({0, step.startNs, step.endNs});
  bool marked = !profile->steps.empty();
  for (const HostOp &op : trace.hostOps)
    if (!marked && op.annotation && op.name.starts_with("ProfilerStep#"))
      profile->steps.push_back({0, op.startNs, op.endNs()});
  if (!profile->steps.empty()) {
    profile->summary.stepsFrom = marked ? "capture_marks" : "profiler_step";
    llvm::sort(profile->steps, [](const Step &a, const Step &b) {
      return a.startNs < b.startNs;
    });
  } else if (anyGraph && !host.calls().empty()) {
    // A step is taken to begin wherever the first compiled graph is called
    // again. Of a program that no graph is known of, that may be anything.
    auto identity = [&](uint32_t call) -> std::pair<uint32_t, StringRef> {
      if (mapOfCall[call] != none)
        return {mapOfCall[call], ""};
      return {none, host.op(host.calls()[call]).name};
    };
    for (uint32_t call = 0; call < host.calls().size(); ++call) {
      if (identity(call) != identity(0))
        continue;
      int64_t start = host.op(host.calls()[call]).startNs;
      if (!profile->steps.empty())
        profile->steps.back().endNs = start;
      profile->steps.push_back({0, start, start});
    }
    int64_t last = profile->steps.back().startNs;
    for (const HostOp &op : trace.hostOps)
      last = std::max(last, op.endNs());
    profile->steps.back().endNs = last;
    profile->summary.stepsFrom = "compiled_calls";
    std::string graph = identity(0).first == none
                            ? "the first compiled graph"
                            : inputs.maps[identity(0).first].graph;
    profile->notes.push_back("no marks of steps (ProfilerStep#n) in the trace: "
                             "a step is taken to begin at each call of " +
                             graph);
  }
  for (auto [index, step] : llvm::enumerate(profile->steps))
    step.index = index;
  if (!profile->steps.empty())
    profile->summary.steps = profile->steps.size();

  // A step in which something was compiled is no steady one.
  for (const HostOp &op : trace.hostOps) {
    if (!op.name.ends_with("(dynamo_timed)") &&
        !op.name.starts_with("CUDAGraphNode.record"))
      continue;
    if (std::optional<uint32_t> step = stepAt(op.startNs))
      profile->steps[*step].phase = Phase::WarmUp;
  }
}

std::optional<uint32_t> Attributor::stepAt(int64_t time) const {
  const std::vector<Step> &steps = profile->steps;
  auto it = llvm::upper_bound(steps, time, [](int64_t at, const Step &step) {
    return at < step.startNs;
  });
  if (it == steps.begin())
    return std::nullopt;
  const Step &step = *std::prev(it);
  if (time >= step.endNs && &step != &steps.back())
    return std::nullopt;
  if (time > step.endNs)
    return std::nullopt;
  return step.index;
}

/// Joins what was launched under a recorded identity. The launches of a map
/// that follow one another on a thread, or that one call of a CUDA graph
/// replays, are one call of its compiled graph.
void Attributor::joinIdentities() {
  if (trace.identities.empty())
    return;
  IdentityPlaces index(inputs);
  for (const Identity &identity : trace.identities)
    places.push_back(index.find(identity));
  identityJoins.resize(trace.activities.size());

  struct Launched {
    uint32_t activity;
    const RuntimeCall *runtime;
    int64_t when;
    bool replayed;
    auto key() const { return std::tuple(when, activity); }
  };
  std::vector<Launched> order;
  for (auto [index, event] : llvm::enumerate(trace.activities)) {
    if (!event.identity || places[*event.identity].launches.empty())
      continue;
    const RuntimeCall *runtime = nullptr;
    if (event.correlation)
      if (auto it = runtimeByCorrelation.find(*event.correlation);
          it != runtimeByCorrelation.end())
        runtime = &trace.runtimeCalls[it->second];
    order.push_back({uint32_t(index), runtime,
                     runtime ? runtime->startNs : event.startNs,
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

  struct Running {
    uint32_t map = none;
    uint32_t call = none;
    uint32_t launch = 0;
    uint32_t identity = none;
    bool hasKernel = false;
    std::optional<uint32_t> step;
  };
  // By correlation of a replay, or by thread.
  std::map<std::pair<bool, uint64_t>, Running> running;
  for (const Launched &launched : order) {
    const TraceActivity &event = trace.activities[launched.activity];
    const IdentityPlace &place = places[*event.identity];
    const std::vector<Launch> &launches = inputs.maps[place.map].launches;
    bool isKernel = event.kind == ActivityKind::Kernel;
    std::optional<uint32_t> step = stepAt(launched.when);
    Running &at = running[{launched.replayed,
                           launched.replayed  ? event.correlation.value_or(0)
                           : launched.runtime ? launched.runtime->thread
                                              : ~uint64_t(0)}];
    bool sameCall = at.call != none && at.map == place.map && at.step == step;
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
      at.call = profile->calls.size();
      CompiledCall &call = profile->calls.emplace_back();
      call.compiledGraph = inputs.maps[place.map].graph;
      call.launches = launches.size();
      call.startNs = launched.when;
      call.step = step;
    }
    CompiledCall &call = profile->calls[at.call];
    if (launched.runtime)
      call.durationNs =
          std::max(call.durationNs, launched.runtime->endNs() - call.startNs);
    if (!goesOn) {
      at.hasKernel = false;
      ++profile->launches[firstRecord[place.map] + *found].runs;
      ++call.matched;
    }
    at.hasKernel |= isKernel;
    at.launch = *found;
    at.identity = *event.identity;

    Join &join = identityJoins[launched.activity];
    join.launch = {place.map, *found};
    join.method = "identity";
    const Identity &identity = trace.identities[*event.identity];
    std::string what = identity.node.empty()
                           ? "line " + std::to_string(identity.line)
                           : "node " + identity.node;
    join.explanation =
        (event.graphNode ? "replay of a CUDA graph; the node was captured "
                           "under the id of "
                         : "launched under the id of ") +
        what + ", which is " + describe(join.launch);
    bool same = llvm::all_of(place.launches, [&](uint32_t launch) {
      return llvm::equal(launches[launch].nodes, launches[*found].nodes,
                         [](const auto &a, const auto &b) {
                           return a.name == b.name && a.graph == b.graph;
                         });
    });
    join.confidence = same ? Confidence::High : Confidence::Medium;
    if (!same)
      join.explanation +=
          "; by order, as the line runs several times in a call";
  }
}

/// Says why an activity of a capture has no node, and counts it.
void Attributor::explainNoIdentity(Activity &activity,
                                   const TraceActivity &event,
                                   const IdentityPlace *place) {
  std::string reason = place ? place->reason.str() : event.noIdentity.str();
  if (!anyGraph)
    return;
  auto &[count, time] = unattributed[reason];
  if (activity.kind == ActivityKind::Kernel) {
    ++count;
    time += activity.durationNs;
  }
  if (place)
    reason += ": " + place->details;
  if (!activity.range.empty())
    reason += (" (inside the range '" + activity.range + "')").str();
  activity.explanation = profile->intern(reason);
}

/// What the host was doing round `op`.
StringRef Attributor::rangeAt(uint32_t op) const {
  for (; op != none; op = host.parent(op)) {
    StringRef name = host.op(op).name;
    // Steps and calls of compiled graphs are known as such.
    if (host.op(op).annotation && !name.starts_with("ProfilerStep#") &&
        !name.starts_with("## Call CompiledFxGraph"))
      return name;
  }
  return "";
}

Phase Attributor::phaseOf(uint32_t op) const {
  Phase phase = Phase::Steady;
  for (; op != none; op = host.parent(op)) {
    StringRef name = host.op(op).name;
    if (name.ends_with("(dynamo_timed)")) {
      if (name.contains_insensitive("autotun") ||
          name.contains_insensitive("benchmark"))
        return Phase::Autotune;
      phase = Phase::Compile;
    } else if (name.starts_with("CUDAGraphNode.record") &&
               phase == Phase::Steady) {
      phase = Phase::WarmUp;
    }
  }
  return phase;
}

std::string Attributor::explainUnjoined(uint32_t op) const {
  if (op == none)
    return "no operator of the trace encloses or names its launch";
  uint32_t top = host.topOf(op) == none ? op : host.topOf(op);
  uint32_t call = host.callOf(op);
  std::string text = "started by ";
  text += host.op(top).name;
  if (call == none)
    text += ", outside every compiled graph";
  else if (mapOfCall[call] == none)
    text += " in a call of a compiled graph that none of the launch maps fits";
  else
    text += " in a call of " + inputs.maps[mapOfCall[call]].graph +
            ", where no launch of the map corresponds to it";
  return text;
}

/// Says of all activities that are joined to no launch why not: only now is it
/// known which launch map each call fits.
void Attributor::describeUnjoined() {
  if (!anyGraph)
    return;
  for (auto [list, ops] : {std::pair(&profile->kernels, &opOfKernel),
                           std::pair(&profile->copies, &opOfCopy)})
    for (Activity &activity : *list)
      if (!activity.launch && activity.explanation.empty())
        activity.explanation =
            profile->intern(explainUnjoined((*ops)[activity.id]));
}

/// How a launch fills its device, where the trace does not say.
void Attributor::estimateFill(Activity &kernel) const {
  const Device *device = nullptr;
  for (const Device &candidate : trace.devices)
    if (candidate.id == kernel.device)
      device = &candidate;
  if (!device || !device->smCount || !kernel.grid || !kernel.block)
    return;
  double blocks = 1, threads = 1;
  for (uint64_t size : *kernel.grid)
    blocks *= double(size);
  for (uint64_t size : *kernel.block)
    threads *= double(size);
  double sms = double(*device->smCount);
  double warpSize = double(device->warpSize.value_or(32));
  kernel.blocksPerSM = blocks / sms;
  kernel.warpsPerSM = blocks * std::ceil(threads / warpSize) / sms;
  if (std::optional<Occupancy> bound = estimateOccupancy(kernel, *device))
    kernel.occupancyPct =
        std::min(bound->pct, 100 * *kernel.warpsPerSM * warpSize /
                                 double(*device->maxThreadsPerSM));
}

void Attributor::apply(Activity &activity, const Join &join) {
  activity.launch = firstRecord[join.launch.map] + join.launch.launch;
  activity.method = profile->intern(join.method);
  activity.confidence = join.confidence;
  activity.explanation = profile->intern(join.explanation);
}

/// Makes the profile's kernels and copies of the device's activities.
void Attributor::addActivities() {
  // Per stream: when the first kernel with a launch in the window began.
  DenseMap<std::pair<int64_t, int64_t>, int64_t> firstLaunched;
  for (const TraceActivity &event : trace.activities)
    if (event.correlation &&
        runtimeByCorrelation.contains(*event.correlation)) {
      auto [it, inserted] = firstLaunched.try_emplace(
          {event.device, event.stream.value_or(-1)}, event.startNs);
      it->second = std::min(it->second, event.startNs);
    }

  std::vector<uint32_t> order(trace.activities.size());
  std::iota(order.begin(), order.end(), 0);
  llvm::stable_sort(order, [&](uint32_t a, uint32_t b) {
    return trace.activities[a].startNs < trace.activities[b].startNs;
  });
  for (uint32_t index : order) {
    const TraceActivity &event = trace.activities[index];
    bool isKernel = event.kind == ActivityKind::Kernel;
    std::vector<Activity> &list = isKernel ? profile->kernels : profile->copies;
    Activity &activity = list.emplace_back();
    activity.id = list.size() - 1;
    activity.kind = event.kind;
    activity.name = profile->intern(event.name);
    activity.device = event.device;
    activity.stream = event.stream;
    activity.rank = trace.rank;
    activity.startNs = event.startNs;
    activity.durationNs = event.durationNs;
    activity.grid = event.grid;
    activity.block = event.block;
    activity.registers = event.registers;
    activity.sharedMemory = event.sharedMemory;
    activity.blocksPerSM = event.blocksPerSM;
    activity.warpsPerSM = event.warpsPerSM;
    activity.occupancyPct = event.occupancyPct;
    activity.bytes = event.bytes;
    activity.localMemory = event.localMemory;
    activity.graphNode = event.graphNode;
    if (isKernel && !activity.blocksPerSM)
      estimateFill(activity);

    const RuntimeCall *runtime = nullptr;
    uint32_t op = none;
    if (event.correlation) {
      auto it = runtimeByCorrelation.find(*event.correlation);
      if (it != runtimeByCorrelation.end())
        runtime = &trace.runtimeCalls[it->second];
    }
    if (event.externalId)
      op = host.byExternalId(*event.externalId);
    if (runtime) {
      activity.launchStartNs = runtime->startNs;
      activity.launchDurationNs = runtime->durationNs;
      activity.cudaGraph = runtime->name.contains("GraphLaunch");
      if (op == none && runtime->externalId)
        op = host.byExternalId(*runtime->externalId);
      // A graph's replay names the region, not the call inside it.
      if (op == none || host.topOf(op) == none) {
        uint32_t around = host.enclosing(runtime->thread, runtime->startNs);
        if (around != none)
          op = around;
      }
    }
    activity.cudaGraph |= event.graphNode.has_value();
    activity.range = profile->intern(rangeAt(op));
    (isKernel ? opOfKernel : opOfCopy).push_back(op);
    int64_t when = runtime      ? runtime->startNs
                   : op != none ? host.op(op).startNs
                                : event.startNs;
    activity.step = stepAt(when);
    activity.phase = phaseOf(op);
    if (!runtime) {
      auto it = firstLaunched.find({event.device, event.stream.value_or(-1)});
      if (op == none &&
          (it == firstLaunched.end() || event.startNs < it->second)) {
        activity.phase = Phase::BeforeWindow;
        activity.step.reset();
        activity.explanation = profile->intern(
            "launched before the trace begins: its launch is not recorded");
      }
    }
    if (activity.phase == Phase::Steady && activity.step &&
        profile->steps[*activity.step].phase != Phase::Steady)
      activity.phase = profile->steps[*activity.step].phase;

    uint32_t top = op == none ? none : host.topOf(op);
    if (top != none) {
      activity.hostOp = profile->intern(host.op(top).name);
      activity.inputType = profile->intern(host.op(op).inputType.empty()
                                               ? host.op(top).inputType
                                               : host.op(op).inputType);
    }
    if (event.identity) {
      const IdentityPlace &place = places[*event.identity];
      if (place.isNode)
        (isKernel ? nodesOfKernels : nodesOfCopies)
            .push_back({activity.id, *event.identity});
      else if (place.launches.empty())
        explainNoIdentity(activity, event, &place);
      else
        apply(activity, identityJoins[index]);
      continue;
    }
    if (!event.noIdentity.empty()) {
      if (activity.explanation.empty())
        explainNoIdentity(activity, event, nullptr);
      continue;
    }
    if (activity.cudaGraph && op != none && host.callOf(op) != none) {
      if (isKernel) {
        Replay &replay = replays[host.callOf(op)][*event.correlation];
        replay.runtimeCall = runtime - trace.runtimeCalls.data();
        replay.kernels.push_back(activity.id);
      }
      continue;
    }
    if (top != none && joins[top].launch.valid()) {
      Join join = joins[top];
      join.explanation =
          (event.correlation && runtime
               ? "correlation id → " + runtime->name.str() + " → " +
                     host.op(top).name.str() + "; "
               : "External id → " + host.op(top).name.str() + "; ") +
          join.explanation;
      apply(activity, join);
    }
  }
}

/// Without a GPU, what the host computed is what ran.
void Attributor::addHostKernels() {
  std::vector<uint32_t> ops;
  for (uint32_t call = 0; call < host.calls().size(); ++call)
    llvm::append_range(ops, host.topsOfCall(call));
  llvm::append_range(ops, host.topsOutside());
  llvm::stable_sort(ops, [&](uint32_t a, uint32_t b) {
    return host.op(a).startNs < host.op(b).startNs;
  });
  for (uint32_t index : ops) {
    const HostOp &op = host.op(index);
    const Join &join = joins[index];
    if (!join.launch.valid() && computesNothing(op.name))
      continue;
    Activity &activity = profile->kernels.emplace_back();
    activity.id = profile->kernels.size() - 1;
    activity.name = profile->intern(op.name);
    activity.stream = op.thread;
    activity.rank = trace.rank;
    activity.startNs = op.startNs;
    activity.durationNs = op.durationNs;
    activity.hostOp = activity.name;
    activity.range = profile->intern(rangeAt(host.parent(index)));
    activity.inputType = profile->intern(op.inputType);
    activity.step = stepAt(op.startNs);
    activity.phase = phaseOf(index);
    if (activity.phase == Phase::Steady && activity.step &&
        profile->steps[*activity.step].phase != Phase::Steady)
      activity.phase = profile->steps[*activity.step].phase;
    opOfKernel.push_back(index);
    uint32_t around = index;
    while (around != none && !host.op(around).identity)
      around = host.parent(around);
    if (around != none && joinNode(activity, *host.op(around).identity))
      continue;
    if (join.launch.valid())
      apply(activity, join);
  }
}

/// Joins what the host ran in the range of a node that runs by itself.
bool Attributor::joinNode(Activity &activity, uint32_t identity) {
  const IdentityPlace &place = places[identity];
  if (place.isNode) {
    nodesOfKernels.push_back({activity.id, identity});
    return true;
  }
  if (place.launches.size() != 1)
    return false;
  Join own;
  own.launch = {place.map, place.launches.front()};
  own.method = "identity";
  own.confidence = Confidence::High;
  own.explanation = "ran in the range of node " +
                    trace.identities[identity].node + ", which is " +
                    describe(own.launch);
  ++profile->launches[firstRecord[place.map] + place.launches.front()].runs;
  apply(activity, own);
  return true;
}

/// Kernels of a CUDA graph's replay share one correlation id. Their order is
/// the order of the launches: generated kernels are recognized by name, and
/// what lies between two of them belongs to the launches between.
void Attributor::joinGraphReplays() {
  DenseMap<uint32_t, uint64_t> runs;
  for (auto &[call, graphs] : replays) {
    std::vector<std::pair<int64_t, const Replay *>> ordered;
    for (auto &[correlation, replay] : graphs)
      ordered.push_back(
          {trace.runtimeCalls[replay.runtimeCall].startNs, &replay});
    llvm::sort(ordered);
    std::vector<uint32_t> kernels;
    for (auto [start, replay] : ordered)
      llvm::append_range(kernels, replay->kernels);

    auto nameOf = [&](uint32_t kernel) {
      auto it = keys.find(profile->kernels[kernel].name);
      return it == keys.end() ? 0 : it->second;
    };
    uint32_t bestMap = none;
    SequenceAlignment best;
    bool ambiguous = false;
    for (uint32_t map = 0; map < inputs.maps.size(); ++map) {
      SequenceAlignment alignment = alignSequences(
          kernels.size(), launchKeys[map].size(),
          [&](uint32_t kernel, uint32_t launch) {
            return nameOf(kernels[kernel]) == launchKeys[map][launch].name;
          });
      if (!alignment.matched)
        continue;
      if (bestMap != none && alignment.matched == best.matched)
        ambiguous = true;
      if (bestMap == none || alignment.matched > best.matched) {
        bestMap = map;
        best = std::move(alignment);
        ambiguous = false;
      }
    }
    if (bestMap == none)
      continue;
    mapOfCall[call] = bestMap;
    const std::vector<Launch> &launches = inputs.maps[bestMap].launches;
    DenseSet<uint32_t> ran;

    auto joinTo = [&](uint32_t kernel, uint32_t launch, StringRef why,
                      Confidence confidence) {
      Join join;
      join.launch = {bestMap, launch};
      join.method = "sequence";
      join.confidence = confidence;
      join.explanation =
          ("replay of a CUDA graph, all kernels under one correlation id; " +
           why + " " + describe(join.launch) +
           (ambiguous ? "; another compiled graph launches the same kernels"
                      : ""))
              .str();
      apply(profile->kernels[kernel], join);
      ran.insert(launch);
    };

    uint32_t next = 0;
    for (size_t position = 0; position < kernels.size();) {
      const AlignedElement &element = best.elements[position];
      if (element.position) {
        joinTo(kernels[position], *element.position,
               "the kernel's name and its place in the sequence are those of",
               element.forced ? Confidence::Medium : Confidence::Low);
        next = *element.position + 1;
        ++position;
        continue;
      }
      SmallVector<uint32_t> open;
      uint32_t end = launches.size();
      for (; position < kernels.size(); ++position) {
        if (best.elements[position].position) {
          end = *best.elements[position].position;
          break;
        }
        open.push_back(kernels[position]);
      }
      SmallVector<uint32_t> between;
      for (uint32_t launch = next; launch < end; ++launch)
        if (launches[launch].kind != LaunchKind::Subgraph &&
            launches[launch].kind != LaunchKind::Triton)
          between.push_back(launch);
      if (between.size() == 1) {
        for (uint32_t kernel : open)
          joinTo(kernel, between[0],
                 "between the generated kernels round it there is only",
                 Confidence::Medium);
        continue;
      }
      // The second kernel of a split product belongs to the first.
      SmallVector<SmallVector<uint32_t>> groups;
      for (uint32_t kernel : open) {
        StringRef name = profile->kernels[kernel].name;
        bool continues = name.contains_insensitive("splitk") ||
                         name.contains_insensitive("split_k_kernel") ||
                         name.contains_insensitive("reduce_1Block");
        if (continues && !groups.empty())
          groups.back().push_back(kernel);
        else
          groups.push_back({kernel});
      }
      if (groups.size() == between.size()) {
        for (auto [index, group] : llvm::enumerate(groups))
          for (uint32_t kernel : group)
            joinTo(kernel, between[index],
                   "by order among the library calls between two generated "
                   "kernels it is",
                   Confidence::Medium);
        continue;
      }
      for (uint32_t kernel : open)
        profile->kernels[kernel].explanation = profile->intern(
            ("replay of a CUDA graph: " + Twine(open.size()) +
             " kernels between two generated ones, where " +
             Twine(between.size()) +
             " library calls stand; which is whose can't be told from the "
             "sequence")
                .str());
    }
    for (uint32_t launch : ran)
      ++profile->launches[firstRecord[bestMap] + launch].runs;
  }
}

void Attributor::addNodes() {
  std::map<std::pair<std::string, std::string>, uint64_t> weight;
  std::map<std::tuple<std::string, std::string, std::string>, uint32_t> ids;
  auto nodeId = [&](StringRef graph, StringRef stage, StringRef name,
                    const inductor::LaunchNode *from) {
    auto [it, inserted] = ids.try_emplace(
        {graph.str(), stage.str(), name.str()}, profile->nodes.size());
    if (inserted) {
      Node &node = profile->nodes.emplace_back();
      node.graph = graph.str();
      node.stage = stage.str();
      node.name = name.str();
      ++weight[{node.graph, node.stage}];
    }
    Node &node = profile->nodes[it->second];
    if (from && !node.module)
      node.module = from->module;
    if (from && !node.source && !from->source.empty())
      node.source = from->source;
    return it->second;
  };
  for (auto [map, launchMap] : llvm::enumerate(inputs.maps))
    for (auto [index, launch] : llvm::enumerate(launchMap.launches)) {
      LaunchRecord &record = profile->launches[firstRecord[map] + index];
      for (const inductor::LaunchNode &node : launch.nodes) {
        SmallVector<uint32_t> found;
        if (node.from.empty())
          found.push_back(
              nodeId(launchMap.graph, launchMap.stage, node.name, &node));
        for (const inductor::NodeRef &ref : node.from)
          found.push_back(nodeId(ref.graph, ref.stage, ref.name, &node));
        for (uint32_t id : found)
          if (!llvm::is_contained(record.nodes, id))
            record.nodes.push_back(id);
      }
    }
  for (std::vector<Activity> *list : {&profile->kernels, &profile->copies})
    for (Activity &activity : *list)
      if (activity.launch) {
        activity.nodes = profile->launches[*activity.launch].nodes;
        if (activity.nodes.empty()) {
          activity.explanation =
              profile->intern((activity.explanation +
                               "; the launch map names no node of this launch")
                                  .str());
          activity.confidence = Confidence::Unattributed;
        }
      }

  for (auto [list, pairs] : {std::pair(&profile->kernels, &nodesOfKernels),
                             std::pair(&profile->copies, &nodesOfCopies)})
    for (auto [id, number] : *pairs) {
      const Identity &identity = trace.identities[number];
      Activity &activity = (*list)[id];
      const IdentityPlace &place = places[number];
      activity.nodes = {
          nodeId(place.graph, place.stage, identity.node, nullptr)};
      activity.method = "identity";
      activity.confidence = Confidence::High;
      activity.explanation = profile->intern(
          (activity.graphNode ? "replay of a CUDA graph; its node was captured "
                                "under the id of node "
                              : "launched under the id of node ") +
          identity.node);
    }

  uint64_t most = 0;
  for (const auto &[identity, count] : weight)
    if (count > most) {
      most = count;
      std::tie(profile->graph, profile->stage) = identity;
    }
  if (inputs.partitions && !inputs.partitions->graph.empty() &&
      weight.contains({inputs.partitions->graph, inputs.partitions->stage})) {
    profile->graph = inputs.partitions->graph;
    profile->stage = inputs.partitions->stage;
  }
}

void Attributor::addPartitions() {
  if (!inputs.partitions)
    return;
  const PartitionMap &map = *inputs.partitions;
  StringMap<uint32_t> nodes;
  for (auto [index, node] : llvm::enumerate(profile->nodes))
    if (node.graph == map.graph && node.stage == map.stage)
      nodes[node.name] = index;
  uint64_t met = 0;
  for (const Partition &partition : map.partitions) {
    PartitionTime &time = profile->partitions.emplace_back();
    time.classId = partition.classId;
    time.label = partition.label;
    time.role = partition.role;
    time.nodeCount = partition.nodes.size();
    for (const std::string &name : partition.nodes) {
      auto it = nodes.find(name);
      if (it == nodes.end())
        continue;
      ++met;
      Node &node = profile->nodes[it->second];
      time.kernelTimeNs += node.kernelTimeNs;
      if (partition.parent.empty())
        node.partition = partition.label;
    }
  }
  if (!met && !map.partitions.empty())
    profile->notes.push_back("the partition map speaks of graph '" + map.graph +
                             "', stage '" + map.stage +
                             "', and no kernel was joined to a node of it");
}

std::unique_ptr<Profile> Attributor::run() {
  Source source;
  source.kind = trace.kind;
  source.file = trace.file;
  source.rank = trace.rank;
  source.worldSize = trace.worldSize;
  source.processId = trace.processId;
  source.host = trace.host;
  source.baseTimeNs = trace.baseTimeNs;
  profile->sources.push_back(source);
  profile->notes = trace.notes;
  onHost = trace.activities.empty() && trace.kind == "kineto";
  anyGraph =
      !inputs.maps.empty() || inputs.partitions || !trace.identities.empty();

  prepareLaunches();
  indexRuntimeCalls();
  startedBy.assign(trace.hostOps.size(), 0);
  for (const TraceActivity &event : trace.activities)
    if (event.externalId)
      if (uint32_t op = host.byExternalId(*event.externalId);
          op != none && host.topOf(op) != none)
        ++startedBy[host.topOf(op)];
  alignCalls();
  findSteps();
  joinIdentities();
  if (onHost)
    addHostKernels();
  else
    addActivities();
  joinGraphReplays();
  describeUnjoined();
  addNodes();

  for (uint32_t call = 0; call < host.calls().size(); ++call) {
    const HostOp &op = host.op(host.calls()[call]);
    CompiledCall &record = profile->calls.emplace_back();
    record.startNs = op.startNs;
    record.durationNs = op.durationNs;
    record.step = stepAt(op.startNs);
    if (mapOfCall[call] == none)
      continue;
    record.compiledGraph = inputs.maps[mapOfCall[call]].graph;
    record.launches = inputs.maps[mapOfCall[call]].launches.size();
    for (uint32_t top : host.topsOfCall(call))
      record.matched += joins[top].launch.valid();
  }
  llvm::stable_sort(profile->calls,
                    [](const CompiledCall &a, const CompiledCall &b) {
                      return a.startNs < b.startNs;
                    });
  for (const ProfilerOverhead &overhead : trace.overheads)
    profile->overheads.push_back({profile->intern(overhead.kind),
                                  overhead.startNs, overhead.durationNs});
  profile->memory = trace.memory;
  for (const RuntimeCall &call : trace.runtimeCalls)
    if (call.name.contains("Synchronize"))
      profile->synchronizations.push_back(
          {call.name.str(), call.startNs, call.durationNs});
  llvm::sort(profile->synchronizations,
             [](const Synchronization &a, const Synchronization &b) {
               return a.startNs < b.startNs;
             });

  DenseSet<int64_t> used;
  for (const std::vector<Activity> *list :
       {&profile->kernels, &profile->copies})
    for (const Activity &activity : *list)
      used.insert(activity.device);
  for (const Device &device : trace.devices)
    if (!onHost && (used.contains(device.id) || trace.devices.size() == 1)) {
      used.erase(device.id);
      profile->devices.push_back(device);
    }
  std::vector<int64_t> unknown(used.begin(), used.end());
  llvm::sort(unknown);
  for (int64_t id : unknown) {
    Device &device = profile->devices.emplace_back();
    device.id = id;
    device.kind = onHost ? "cpu" : "cuda";
    device.name = onHost ? "cpu" : "";
  }

  if (trace.rounded)
    profile->notes.push_back(std::to_string(trace.rounded) +
                             " times had digits below the nanosecond and were "
                             "rounded");
  uint64_t before =
      llvm::count_if(profile->kernels, [](const Activity &kernel) {
        return kernel.phase == Phase::BeforeWindow;
      });
  if (before)
    profile->notes.push_back(std::to_string(before) +
                             " kernels were launched before the trace begins: "
                             "kept, and counted as unattributed");
  if (!inputs.maps.empty() && !profile->kernels.empty() &&
      llvm::none_of(profile->kernels, [](const Activity &kernel) {
        return kernel.launch.has_value() || !kernel.nodes.empty();
      }))
    profile->notes.push_back(
        "no kernel was joined to a launch: the trace and the launch maps seem "
        "to be of different programs, or the trace is of an eager run");
  if (!anyGraph && !profile->kernels.empty())
    profile->notes.push_back(
        "no graph: kernels are not joined to nodes, and findings that need a "
        "node's work (roofline, tensor cores, data movement) are left out");
  for (const auto &[reason, sum] : unattributed)
    if (sum.first && anyGraph)
      profile->notes.push_back(std::to_string(sum.first) + " of " +
                               std::to_string(profile->kernels.size()) +
                               " kernels (" + std::to_string(sum.second) +
                               " ns) have no node: " + reason);
  if (profile->kernels.empty())
    profile->notes.push_back("the trace holds no kernels");
  summarize(*profile);
  addPartitions();
  return std::move(profile);
}

std::unique_ptr<Profile>
opprof::profile::attribute(const Trace &trace,
                           const AttributionInputs &inputs) {
  return Attributor(trace, inputs).run();
}
