// From kernels of a trace to nodes. Makes the profile: every activity of the
// device, or of the host where there is none, with its place in time and its
// join. Where launches were recorded with what launched them, that is the join
// (IdentityJoins). Elsewhere it takes three steps: the host's calls of compiled
// graphs are matched to launch maps by what they launch (CallJoins), kernels of
// CUDA graphs by their sequence (GraphReplays); each activity is followed back
// to the operator that launched it; the operator's launch gives the nodes
// (JoinedNodes).

#include "opprof/Join/Attribution.h"

#include "CallJoins.h"
#include "CountedKernels.h"
#include "EagerJoins.h"
#include "GraphReplays.h"
#include "HostCosts.h"
#include "IdentityJoins.h"
#include "IdleHost.h"
#include "JoinedNodes.h"
#include "MemorySites.h"
#include "ModuleTimeline.h"
#include "OperatorPlaces.h"
#include "RecordingTimes.h"
#include "TraceSteps.h"
#include "UndisturbedSteps.h"
#include "opprof/Metrics/Occupancy.h"
#include "opprof/Support/Units.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"

#include <cmath>
#include <map>
#include <numeric>
#include <set>

using namespace llvm;
using namespace opprof;
using namespace opprof::join;
using namespace opprof::profile;
using namespace opprof::trace;

namespace {

class Attributor {
public:
  Attributor(const Trace &trace, const AttributionInputs &inputs);

  std::unique_ptr<Profile> run();

private:
  void addActivities();
  Activity &addActivity(const TraceActivity &event);
  void estimateFill(Activity &kernel);
  uint32_t findOperator(const TraceActivity &event) const;
  bool leaveOut(int64_t time, int64_t durationNs);
  void setStep(Activity &activity, uint32_t op, int64_t time) const;
  void setPlace(Activity &activity, Origin &origin, uint32_t op);
  void joinActivity(Activity &activity, Origin &origin, uint32_t place,
                    uint32_t op);
  StringRef calledName(uint32_t top) const;
  void addHostKernels();
  void addOperator(Activity &activity, uint32_t top);
  uint32_t nodeRangeAround(uint32_t op) const;
  bool joinNode(Activity &activity, Origin &origin, uint32_t identity,
                bool isRun, bool isKernel);
  void explainNoIdentity(const TraceActivity &event, Origin &origin,
                         const IdentityPlace *place);
  void describeUnjoined();
  std::string explainUnjoined(uint32_t op) const;
  /// The innermost range at or round `op` that the program marked; empty where
  /// there is none.
  StringRef rangeAt(uint32_t op) const;
  /// The range that the program is in when a thread without ranges of its own
  /// launches, as autograd's does: where one other thread of its process alone
  /// is in one, that.
  StringRef rangeElsewhere(ThreadId thread, int64_t time) const;
  void findRangedThreads();
  bool isOfUnseenCode(uint32_t call) const;
  void addCalls();
  void addHostEvents();
  void addPlace(const RuntimeCall &call, ArrayRef<const HostEvent *> noted,
                Synchronization &wait) const;
  void addDevices();
  void addUnseenCode();
  void addNotes();

  const Trace &trace;
  const AttributionInputs &inputs;
  /// The host's own work is what ran.
  const bool onHost;
  /// There is something that kernels can be joined to.
  const bool anyGraph;
  /// It is of a program of a GPU, of which only the host's side was recorded.
  const bool isHostSide;
  /// Calls of compiled graphs that ran code which no map is of.
  uint64_t unseenCalls = 0;
  /// The graph is one that `opprof run` recorded of a step of a program: of its
  /// forward part, while the program did more than run the graph, and has steps
  /// of its own.
  const bool isRecorded;
  /// Threads on which the program marks ranges.
  std::vector<ThreadId> rangedThreads;

  HostTimeline host;
  ModuleTimeline modules;
  OperatorPlaces places;
  RuntimeCalls runtime;
  LaunchIndex index;
  CallJoins calls;
  EagerJoins eager;
  std::unique_ptr<Profile> profile;
  IdentityJoins identities;
  GraphReplays replays;
  NodeActivities ofNodes;
  /// Of what has no node: how many activities, and their time.
  std::map<std::string, std::pair<uint64_t, int64_t>> unattributed;
  /// Places of operators in the profile by name and inputs, and the calls that
  /// are counted there.
  std::map<std::array<StringRef, 4>, uint32_t> operators;
  std::vector<bool> countedCalls;
  /// Configurations of the trace on a device, with how they fill it.
  std::map<std::pair<const LaunchConfig *, int64_t>, SharedConfig> filled;
  /// The operator that started each activity, or none.
  std::vector<uint32_t> opOfKernel, opOfCopy;
  /// Ranges of nodes that something was joined to.
  llvm::DenseSet<uint32_t> rangesThatRan;
  /// What lies outside of the steps that are left, and its time.
  std::pair<uint64_t, int64_t> leftOut;
};

} // namespace

/// What is summed up by nodes counts every kernel and step: the others are left
/// out where only some of a program's steps are steady.
static void leaveSteadySteps(Profile &profile) {
  if (int64_t steady = countSteadySteps(profile))
    profile.summary.steps = steady;
}

/// Whether what began then is in none of the steps that are left.
static bool isLeftOut(const Profile &profile, bool isRecorded, int64_t time) {
  if (!isRecorded || !countSteadySteps(profile))
    return false;
  std::optional<uint32_t> step = stepAt(profile.steps, time);
  return !step || profile.steps[*step].phase != Phase::Steady;
}

/// A profile of what is known before activities are joined: its launches, with
/// the runs that calls show, and its steps.
static std::unique_ptr<Profile>
beginProfile(const Trace &trace, const HostTimeline &host,
             const LaunchIndex &index, const CallJoins &calls,
             const EagerJoins &eager, bool anyGraph, bool isRecorded) {
  auto profile = std::make_unique<Profile>();
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
  profile->launches = index.makeRecords();
  for (const Join &join : calls.all())
    if (join.launch.valid())
      index.countRun(*profile, join.launch);
  llvm::append_range(profile->notes, eager.notes());
  findSteps(trace, host, calls,
            isRecorded ? ArrayRef<int64_t>() : eager.passStarts(), index,
            anyGraph && !isRecorded, *profile);
  if (isRecorded)
    leaveSteadySteps(*profile);
  for (auto [op, join] : llvm::enumerate(eager.all()))
    if (join.launch.valid() && join.method == EagerJoins::kForward &&
        !isLeftOut(*profile, isRecorded, host.op(op).startNs))
      index.countRun(*profile, join.launch);
  return profile;
}

/// Calls that start something on a device.
static size_t countLaunches(const Trace &trace) {
  return llvm::count_if(trace.runtimeCalls, [](const RuntimeCall &call) {
    return call.name.contains("Launch");
  });
}

/// Operators and ranges that only a program of a GPU has.
static size_t countOfGPU(const Trace &trace) {
  constexpr StringLiteral kBegins[] = {"aten::record_stream",
                                       "aten::cudnn_",
                                       "aten::_cudnn_",
                                       "aten::miopen_",
                                       "nccl:",
                                       "aten::_flash_attention_forward",
                                       "aten::_efficient_attention_forward"};
  return llvm::count_if(trace.hostOps, [&](const HostOp &op) {
    // Recurrent layers ask it on a CPU, too.
    return op.name != "aten::cudnn_is_acceptable" &&
           llvm::any_of(kBegins, [&](StringRef begin) {
             return op.name.starts_with(begin);
           });
  });
}

Attributor::Attributor(const Trace &trace, const AttributionInputs &inputs)
    : trace(trace), inputs(inputs),
      onHost(trace.activities.empty() && !countLaunches(trace) &&
             !trace.otherDeviceEvents &&
             (trace.kind == "kineto" || trace.kind == "opprof observer")),
      anyGraph(!inputs.maps.empty() || !inputs.partitions.empty() ||
               !trace.identities.empty()),
      isHostSide(onHost && countOfGPU(trace)),
      isRecorded(llvm::any_of(inputs.maps,
                              [](const launch::LaunchMap &map) {
                                return map.stage == "recorded";
                              })),
      host(trace), modules(trace), places(trace, host, modules), runtime(trace),
      index(inputs.maps), calls(trace, host, index, inputs.wrappers, onHost),
      eager(trace, host, index),
      profile(
          beginProfile(trace, host, index, calls, eager, anyGraph, isRecorded)),
      identities(trace, inputs, index, runtime, *profile) {}

/// Says why an activity of a capture has no node, and counts it.
void Attributor::explainNoIdentity(const TraceActivity &event, Origin &origin,
                                   const IdentityPlace *place) {
  std::string reason = place ? place->reason.str() : event.noIdentity.str();
  if (!anyGraph)
    return;
  auto &[count, time] = unattributed[reason];
  if (event.kind == ActivityKind::Kernel) {
    ++count;
    time += event.durationNs;
  }
  if (place)
    reason += ": " + place->details;
  if (!origin.range.empty())
    reason += (" (inside the range '" + origin.range + "')").str();
  origin.explanation = profile->intern(reason);
}

/// Steps and calls of compiled graphs are known as such.
static bool isRange(const HostOp &op) {
  return op.annotation && !op.name.starts_with("ProfilerStep#") &&
         !op.name.starts_with("## Call CompiledFxGraph");
}

/// What the host was doing round `op`.
StringRef Attributor::rangeAt(uint32_t op) const {
  for (; op != kNone; op = host.parent(op))
    if (isRange(host.op(op)))
      return host.op(op).name;
  return "";
}

void Attributor::findRangedThreads() {
  std::vector<bool> ranged(trace.threads.size());
  for (const HostOp &op : trace.hostOps)
    // Those that opprof and NCCL put round launches are on the thread that
    // launches, whoever the program has do that.
    if (isRange(op) && !op.name.starts_with("layer::") &&
        !op.name.starts_with("nccl"))
      ranged[op.thread] = true;
  for (ThreadId thread = 0; thread < ranged.size(); ++thread)
    if (ranged[thread])
      rangedThreads.push_back(thread);
}

StringRef Attributor::rangeElsewhere(ThreadId thread, int64_t time) const {
  if (llvm::is_contained(rangedThreads, thread))
    return "";
  StringRef found;
  for (ThreadId other : rangedThreads) {
    if (trace.threads[other] != trace.threads[thread])
      continue;
    StringRef range = rangeAt(host.enclosing(other, time));
    if (range.empty() || range.starts_with("layer::"))
      continue;
    if (!found.empty())
      return "";
    found = range;
  }
  return found;
}

std::string Attributor::explainUnjoined(uint32_t op) const {
  if (op == kNone)
    return "no operator of the trace encloses or names its launch";
  uint32_t top = host.topOf(op) == kNone ? op : host.topOf(op);
  uint32_t call = host.callOf(op);
  std::string text = "started by ";
  text += host.op(top).name;
  StringRef recorder = eager.recorderOf(op);
  if (call == kNone && !recorder.empty())
    text += ", in the backward of " + recorder.str() +
            ", which launched nothing that is a node of the graph";
  else if (call == kNone && eager.any())
    text += eager.isOutside(op)
                ? ", in a function of autograd's that no node of the graph "
                  "recorded, or in an optimizer's step"
                : ", which is no node of the graph by name, sizes and order";
  else if (call == kNone)
    text += ", outside every compiled graph";
  else if (calls.mapOf(call) == kNone)
    text += " in a call of a compiled graph that none of the launch maps fits";
  else
    text += " in a call of " + inputs.maps[calls.mapOf(call)].graph +
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
      if (!activity.launch && activity.origin->explanation.empty())
        profile->changeOrigin(activity, [&, ops = ops](Origin &origin) {
          origin.explanation =
              profile->intern(explainUnjoined((*ops)[activity.id]));
        });
}

/// How a launch fills its device.
static LaunchConfig withFill(const Trace &trace, LaunchConfig config,
                             int64_t id) {
  const Device *device = nullptr;
  for (const Device &candidate : trace.devices)
    if (candidate.id == id)
      device = &candidate;
  if (!device || !device->smCount || !config.grid || !config.block)
    return config;
  double blocks = 1, threads = 1;
  for (uint64_t size : *config.grid)
    blocks *= double(size);
  for (uint64_t size : *config.block)
    threads *= double(size);
  double sms = double(*device->smCount);
  double warpSize = double(device->warpSize.value_or(32));
  config.blocksPerSM = blocks / sms;
  config.warpsPerSM = blocks * std::ceil(threads / warpSize) / sms;
  if (std::optional<metrics::Occupancy> bound =
          metrics::estimateOccupancy(config, *device))
    config.occupancyPct =
        std::min(bound->pct, 100 * *config.warpsPerSM * warpSize /
                                 double(*device->maxThreadsPerSM));
  return config;
}

/// Says how the kernel fills its device, where the trace does not.
void Attributor::estimateFill(Activity &kernel) {
  if (kernel.config->blocksPerSM || !kernel.config->grid)
    return;
  auto [it, isNew] = filled.try_emplace({&*kernel.config, kernel.device});
  if (isNew)
    it->second.own() = withFill(trace, *kernel.config, kernel.device);
  kernel.config = it->second;
}

/// Adds a kernel or copy as the trace has it, not yet joined.
Activity &Attributor::addActivity(const TraceActivity &event) {
  bool isKernel = event.kind == ActivityKind::Kernel;
  std::vector<Activity> &list = isKernel ? profile->kernels : profile->copies;
  Activity &activity = list.emplace_back();
  static_cast<DeviceActivity &>(activity) = event;
  activity.id = list.size() - 1;
  activity.name = profile->intern(event.name);
  activity.cudaGraph = event.graphNode.has_value();
  if (isKernel)
    estimateFill(activity);
  if (const RuntimeCall *launch = runtime.of(event)) {
    activity.launchStartNs = launch->startNs;
    activity.launchDurationNs = launch->durationNs;
    activity.cudaGraph |= launch->name.contains("GraphLaunch");
  }
  if (event.counters) {
    activity.counters = profile->counters.size();
    profile->counters.push_back(deriveCounters(trace, event));
  }
  return activity;
}

/// The operator of the host that started an activity, or none.
uint32_t Attributor::findOperator(const TraceActivity &event) const {
  uint32_t op = kNone;
  if (event.externalId)
    op = host.byExternalId(*event.externalId);
  const RuntimeCall *launch = runtime.of(event);
  if (!launch)
    return op;
  if (op == kNone && launch->externalId)
    op = host.byExternalId(*launch->externalId);
  // A graph's replay names the region, not the call inside it.
  if (op == kNone || host.topOf(op) == kNone) {
    uint32_t around = host.enclosing(launch->thread, launch->startNs);
    if (around != kNone)
      op = around;
  }
  return op;
}

/// Counts what began outside of the steps that are left; false for all else.
bool Attributor::leaveOut(int64_t time, int64_t durationNs) {
  if (!isLeftOut(*profile, isRecorded, time))
    return false;
  ++leftOut.first;
  leftOut.second += durationNs;
  return true;
}

/// The step that `op`, at `time`, started the activity in, and its phase.
void Attributor::setStep(Activity &activity, uint32_t op, int64_t time) const {
  activity.step = stepAt(profile->steps, time);
  activity.phase = phaseOf(host, op);
  if (activity.phase == Phase::Steady && activity.step)
    activity.phase = profile->steps[*activity.step].phase;
}

/// Where in the program `op`, which started the activity, was called.
void Attributor::setPlace(Activity &activity, Origin &origin, uint32_t op) {
  const OperatorPlaces::Where &where = places.of(op);
  if (!where.module.empty())
    origin.module = profile->intern(where.module);
  origin.source = profile->intern(where.source);
  activity.part = where.part;
}

/// Joins the activity at `place` of the trace, which `op` started, to what is
/// known to have launched it.
void Attributor::joinActivity(Activity &activity, Origin &origin,
                              uint32_t place, uint32_t op) {
  const TraceActivity &event = trace.activities[place];
  bool isKernel = event.kind == ActivityKind::Kernel;
  if (event.identity) {
    const IdentityPlace &stands = identities.placeOf(*event.identity);
    if (stands.isNode)
      (isKernel ? ofNodes.kernels : ofNodes.copies)
          .push_back({activity.id, *event.identity});
    else if (stands.launches.empty())
      explainNoIdentity(event, origin, &stands);
    else
      index.apply(*profile, activity, origin, identities.of(place));
    return;
  }
  // An operator's id says which one started it, where the graph is of
  // operators.
  if (!event.noIdentity.empty() && !(isRecorded && op != kNone)) {
    if (origin.explanation.empty())
      explainNoIdentity(event, origin, nullptr);
    return;
  }
  const RuntimeCall *launch = runtime.of(event);
  if (uint32_t range = nodeRangeAround(op); range != kNone) {
    bool isFirst = rangesThatRan.insert(range).second;
    if (joinNode(activity, origin, *host.op(range).identity, isFirst, isKernel))
      return;
  }
  if (activity.cudaGraph && op != kNone && host.callOf(op) != kNone) {
    if (isKernel && launch && event.correlation)
      replays.add(host.callOf(op), *event.correlation, *launch, activity.id);
    return;
  }
  uint32_t top = op == kNone ? kNone : host.topOf(op);
  Join join = top == kNone ? Join() : calls.of(top);
  if (!join.launch.valid()) {
    join = eager.of(op);
    top = eager.joinedOp(op);
  }
  if (!join.launch.valid())
    return;
  bool byOrder = !event.correlation && runtime.areByOrder();
  join.explanation =
      (byOrder  ? "order of launches → " + launch->name.str() + " → "
       : launch ? "correlation id → " + launch->name.str() + " → "
                : std::string("External id → ")) +
      host.op(top).name.str() + "; " + join.explanation;
  if (byOrder)
    join.confidence = std::max(join.confidence, Confidence::Medium);
  index.apply(*profile, activity, origin, join);
}

/// A list of the trace on one line, as the profiler would write it there.
static std::string onOneLine(StringRef list) {
  std::string text;
  bool inText = false;
  for (char c : list) {
    inText ^= c == '"';
    if (!inText && isSpace(c))
      continue;
    text += c;
    if (!inText && c == ',')
      text += ' ';
  }
  return text;
}

/// Without a graph, what a kernel is of is the operator that the host called.
void Attributor::addOperator(Activity &activity, uint32_t top) {
  if (anyGraph || activity.kind != ActivityKind::Kernel ||
      activity.phase == Phase::BeforeWindow)
    return;
  const HostOp &op = host.op(top);
  const OperatorInputs &inputs = host.inputsOf(top);
  auto [it, isNew] =
      operators.try_emplace({op.name, inputs.dims, inputs.types, inputs.values},
                            profile->operators.size());
  if (isNew) {
    OperatorTime &made = profile->operators.emplace_back();
    made.name = op.name.str();
    made.inputDims = onOneLine(inputs.dims);
    // What the device did meanwhile has no rate that the host's times say.
    if (!isHostSide)
      made.inputTypes = onOneLine(inputs.types);
    made.inputValues = onOneLine(inputs.values);
  }
  activity.op = it->second;
  countedCalls.resize(trace.hostOps.size());
  if (!countedCalls[top] &&
      isCounted(*profile, countSteadySteps(*profile) > 0, activity))
    ++profile->operators[it->second].calls;
  countedCalls[top] = true;
}

/// Makes the profile's kernels and copies of the device's activities.
void Attributor::addActivities() {
  // Per stream: when the first kernel with a launch in the window began.
  // Keys, as those below, come from the file, and may be what DenseMap keeps
  // for itself.
  std::map<std::pair<int64_t, int64_t>, int64_t> firstLaunched;
  for (const TraceActivity &event : trace.activities)
    if (runtime.of(event)) {
      auto [it, inserted] = firstLaunched.try_emplace(
          {event.device, event.stream.value_or(-1)}, event.startNs);
      it->second = std::min(it->second, event.startNs);
    }

  // What grows is there twice while it does.
  size_t kernels =
      llvm::count_if(trace.activities, [](const TraceActivity &event) {
        return event.kind == ActivityKind::Kernel;
      });
  profile->kernels.reserve(profile->kernels.size() + kernels);
  profile->copies.reserve(profile->copies.size() + trace.activities.size() -
                          kernels);
  std::vector<uint32_t> order(trace.activities.size());
  std::iota(order.begin(), order.end(), 0);
  llvm::stable_sort(order, [&](uint32_t a, uint32_t b) {
    return trace.activities[a].startNs < trace.activities[b].startNs;
  });
  for (uint32_t place : order) {
    const TraceActivity &event = trace.activities[place];
    const RuntimeCall *launch = runtime.of(event);
    uint32_t op = findOperator(event);
    int64_t begun = launch        ? launch->startNs
                    : op != kNone ? host.op(op).startNs
                                  : event.startNs;
    if (leaveOut(begun, event.durationNs))
      continue;
    Activity &activity = addActivity(event);
    Origin origin;
    origin.rank = trace.rank;
    StringRef range = rangeAt(op);
    if (range.empty() && launch)
      range = rangeElsewhere(launch->thread, launch->startNs);
    origin.range = profile->intern(range);
    (event.kind == ActivityKind::Kernel ? opOfKernel : opOfCopy).push_back(op);
    setStep(activity, op, begun);
    // What only counts has no launches at all.
    if (!launch && op == kNone && event.kind == ActivityKind::Memcpy &&
        isOfPages(event.name)) {
      origin.explanation = profile->intern(
          "pages of unified memory move when they are touched: no call starts "
          "that");
    } else if (!launch && op == kNone && trace.kind != kNcuKind) {
      auto it = firstLaunched.find({event.device, event.stream.value_or(-1)});
      if (it == firstLaunched.end() || event.startNs < it->second) {
        activity.phase = Phase::BeforeWindow;
        activity.step.reset();
        origin.explanation = profile->intern(
            "launched before the trace begins: its launch is not recorded");
      }
    }
    if (uint32_t top = host.calleeOf(op); top != kNone) {
      origin.hostOp = profile->intern(calledName(top));
      origin.inputType = profile->intern(host.firstTypeAround(op));
      addOperator(activity, top);
    }
    if (launch)
      origin.module =
          profile->intern(modules.at(launch->thread, launch->startNs));
    setPlace(activity, origin, op);
    joinActivity(activity, origin, place, op);
    profile->setOrigin(activity, std::move(origin));
  }
}

/// The name of an operator; of the gradient of a table, whose name is one for
/// both, that of what makes a sparse one.
StringRef Attributor::calledName(uint32_t top) const {
  const HostOp &op = host.op(top);
  if (!op.name.contains("embedding") || !op.name.ends_with("backward"))
    return op.name;
  ArrayRef<uint32_t> ops = host.opsOf(op.thread);
  for (uint32_t inner :
       llvm::make_range(llvm::lower_bound(ops, op.startNs,
                                          [&](uint32_t other, int64_t at) {
                                            return host.op(other).startNs < at;
                                          }),
                        ops.end())) {
    if (host.op(inner).startNs >= op.endNs())
      break;
    if (host.op(inner).name.ends_with("sparse_backward"))
      return host.op(inner).name;
  }
  return op.name;
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
  for (uint32_t place : ops) {
    const HostOp &op = host.op(place);
    const Join &join = calls.of(place);
    if (!join.launch.valid() && computesNothing(op.name))
      continue;
    if (host.isCompiling(place))
      continue;
    if (leaveOut(op.startNs, op.durationNs))
      continue;
    Activity &activity = profile->kernels.emplace_back();
    activity.id = profile->kernels.size() - 1;
    activity.name = profile->intern(op.name);
    activity.stream = op.thread;
    activity.startNs = op.startNs;
    activity.durationNs = op.durationNs;
    Origin origin;
    origin.rank = trace.rank;
    origin.hostOp = profile->intern(calledName(place));
    origin.range = profile->intern(rangeAt(host.parent(place)));
    origin.inputType = profile->intern(host.firstTypeWithin(place));
    origin.module = profile->intern(modules.at(op.thread, op.startNs));
    setPlace(activity, origin, place);
    setStep(activity, place, op.startNs);
    addOperator(activity, place);
    opOfKernel.push_back(place);
    uint32_t around = nodeRangeAround(place);
    bool isNode =
        around != kNone &&
        joinNode(activity, origin, *host.op(around).identity, true, true);
    if (!isNode && join.launch.valid())
      index.apply(*profile, activity, origin, join);
    else if (const Join &own = eager.within(place);
             !isNode && own.launch.valid())
      index.apply(*profile, activity, origin, own);
    profile->setOrigin(activity, std::move(origin));
  }
}

/// The innermost range of a node that is round an operator, or kNone.
uint32_t Attributor::nodeRangeAround(uint32_t op) const {
  while (op != kNone && !host.op(op).identity)
    op = host.parent(op);
  return op;
}

/// Joins what ran, or was launched, in the range of a node that runs by itself;
/// `isRun` where nothing was joined to this range before.
bool Attributor::joinNode(Activity &activity, Origin &origin, uint32_t identity,
                          bool isRun, bool isKernel) {
  const IdentityPlace &place = identities.placeOf(identity);
  if (place.isNode) {
    (isKernel ? ofNodes.kernels : ofNodes.copies)
        .push_back({activity.id, identity});
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
                    index.describe(own.launch);
  if (isRun)
    index.countRun(*profile, own.launch);
  index.apply(*profile, activity, origin, own);
  return true;
}

/// Whether a call that fits no map says so: on a CPU, generated loops leave no
/// event, and a call of nothing else shows nothing that could be known again.
bool Attributor::isOfUnseenCode(uint32_t call) const {
  return !onHost || calls.namedMapOf(call) ||
         llvm::any_of(host.topsOfCall(call), [&](uint32_t top) {
           return !computesNothing(host.op(top).name);
         });
}

void Attributor::addCalls() {
  for (uint32_t call = 0; call < host.calls().size(); ++call) {
    const HostOp &op = host.op(host.calls()[call]);
    CompiledCall &record = profile->calls.emplace_back();
    record.startNs = op.startNs;
    record.durationNs = op.durationNs;
    record.step = stepAt(profile->steps, op.startNs);
    if (calls.mapOf(call) == kNone) {
      unseenCalls += isOfUnseenCode(call);
      continue;
    }
    record.compiledGraph = inputs.maps[calls.mapOf(call)].graph;
    record.launches = inputs.maps[calls.mapOf(call)].launches.size();
    for (uint32_t top : host.topsOfCall(call))
      record.matched += calls.of(top).launch.valid();
  }
  llvm::stable_sort(profile->calls,
                    [](const CompiledCall &a, const CompiledCall &b) {
                      return a.startNs < b.startNs;
                    });
}

/// Where the program waits: the operator that it called, or the line that was
/// noted for a call outside of all. `noted` is in order of time.
void Attributor::addPlace(const RuntimeCall &call,
                          ArrayRef<const HostEvent *> noted,
                          Synchronization &wait) const {
  if (!places.any())
    return;
  uint32_t op = call.externalId ? host.byExternalId(*call.externalId) : kNone;
  if (op != kNone) {
    uint32_t top = host.topOf(op);
    if (top != kNone)
      wait.op = host.op(top).name.str();
    wait.source = places.of(top == kNone ? op : top).source.str();
    return;
  }
  // Who recorded the calls counts threads in another way: the one that was
  // noted last before the end of the call, of those round it.
  constexpr size_t kThreads = 16;
  size_t before = llvm::partition_point(noted,
                                        [&](const HostEvent *event) {
                                          return event->startNs < call.endNs();
                                        }) -
                  noted.begin();
  for (const HostEvent *event : llvm::reverse(
           noted.take_front(before).take_back(std::min(before, kThreads))))
    if (call.startNs < event->startNs + event->durationNs) {
      wait.source = trace.places[*event->place].source.str();
      return;
    }
}

/// What else the trace says of the host.
void Attributor::addHostEvents() {
  for (const ProfilerOverhead &overhead : trace.overheads)
    profile->overheads.push_back({profile->intern(overhead.kind),
                                  overhead.startNs, overhead.durationNs});
  for (const HostOp &op : trace.hostOps)
    if (op.name == "TorchDynamo Cache Lookup" && !op.open)
      profile->cacheLookups.push_back({op.startNs, op.durationNs});
  llvm::sort(profile->cacheLookups,
             [](const CacheLookup &a, const CacheLookup &b) {
               return std::tuple(a.startNs, a.durationNs) <
                      std::tuple(b.startNs, b.durationNs);
             });
  profile->memory = trace.memory;
  std::vector<const HostEvent *> noted;
  for (const HostEvent &event : trace.hostEvents)
    if (event.name == kWaitEvent && event.place &&
        *event.place < trace.places.size())
      noted.push_back(&event);
  llvm::stable_sort(noted, [](const HostEvent *a, const HostEvent *b) {
    return a->startNs < b->startNs;
  });
  for (const RuntimeCall &call : trace.runtimeCalls) {
    if (!call.name.contains("Synchronize"))
      continue;
    Synchronization &wait = profile->synchronizations.emplace_back();
    wait.name = call.name.str();
    wait.startNs = call.startNs;
    wait.durationNs = call.durationNs;
    addPlace(call, noted, wait);
  }
  llvm::sort(profile->synchronizations,
             [](const Synchronization &a, const Synchronization &b) {
               return a.startNs < b.startNs;
             });
}

/// The devices that something ran on, known or not.
void Attributor::addDevices() {
  std::set<int64_t> used;
  for (const std::vector<Activity> *list :
       {&profile->kernels, &profile->copies})
    for (const Activity &activity : *list)
      used.insert(activity.device);
  for (const Device &device : trace.devices)
    if (!onHost && (used.contains(device.id) || trace.devices.size() == 1)) {
      used.erase(device.id);
      profile->devices.push_back(device);
    }
  for (int64_t id : used) {
    Device &device = profile->devices.emplace_back();
    device.id = id;
    device.kind = onHost ? "cpu" : "cuda";
    device.name = onHost ? "cpu" : "";
  }
}

/// Says of code which ran and which no map is of what to do about it.
void Attributor::addUnseenCode() {
  if (inputs.maps.empty())
    return;
  std::string what;
  // Where it is all of them, the files are of different programs.
  if (unseenCalls && unseenCalls != profile->calls.size())
    what = (Twine(unseenCalls) + " of " + Twine(profile->calls.size()) +
            " calls of compiled graphs ran code that none of the launch maps "
            "is of, and their kernels have no node: it")
               .str();
  else if (unattributed.count(kUnknownCode.str()))
    what = "the code that none of the launch maps is of";
  else
    return;
  profile->notes.push_back(
      what + " was compiled again from the same function, or by another "
             "process, or came out of a cache; `opprof profile model.py` sees "
             "every compilation, and for files TORCH_COMPILE_DEBUG=1 with "
             "TORCHINDUCTOR_FORCE_DISABLE_CACHES=1 leaves a debug folder of "
             "each, all of which are to be given");
}

void Attributor::addNotes() {
  if (trace.rounded)
    profile->notes.push_back(std::to_string(trace.rounded) +
                             (trace.rounded == 1 ? " time" : " times") +
                             " had digits below the nanosecond, rounded away");
  uint64_t before =
      llvm::count_if(profile->kernels, [](const Activity &kernel) {
        return kernel.phase == Phase::BeforeWindow;
      });
  if (before)
    profile->notes.push_back(
        std::to_string(before) +
        (before == 1 ? " kernel was" : " kernels were") +
        " launched before the trace begins: kept, and counted as unattributed");
  if (size_t launches = countLaunches(trace);
      launches && trace.activities.empty())
    profile->notes.push_back(
        "the host launched " + std::to_string(launches) +
        (launches == 1 ? " kernel, which is not in the file: it ends before it"
                       : " kernels, and none is in the file: it ends before "
                         "them") +
        ", or the device was not recorded");
  if (isHostSide)
    profile->notes.push_back(
        (Twine(countOfGPU(trace)) +
         " operators or ranges (nccl:…, aten::record_stream and the like) are "
         "those of a GPU's program, and no work of a GPU is in the file: "
         "times are what the host took to launch it; record with "
         "ProfilerActivity.CUDA as well")
            .str());
  if (trace.otherDeviceEvents)
    profile->notes.push_back(
        std::to_string(trace.otherDeviceEvents) +
        (trace.otherDeviceEvents == 1 ? " event is" : " events are") +
        " of a device of a kind that is not read (of GPUs, NVIDIA's "
        "and AMD's are): of what it ran nothing is known here");
  if (std::string backward = places.describeBackward(); !backward.empty())
    profile->notes.push_back(std::move(backward));
  if (runtime.areByOrder())
    profile->notes.push_back(
        "the trace has no correlation ids: kernels were given to the calls "
        "that launched them by order, which is never sure");
  if (!inputs.maps.empty() && !profile->kernels.empty() &&
      llvm::none_of(profile->kernels, [](const Activity &kernel) {
        return kernel.launch.has_value() || !kernel.origin->nodes.empty();
      }))
    profile->notes.push_back(
        "no kernel was joined to a launch: the trace and the launch maps seem "
        "to be of different programs, or the trace is of an eager run");
  if (leftOut.first)
    profile->notes.push_back(
        std::to_string(leftOut.first) + " operators or kernels (" +
        formatTime(leftOut.second) +
        ") ran outside of the steady steps, and no figure counts them");
  addUnseenCode();
  if (!anyGraph && !profile->kernels.empty())
    profile->notes.push_back(
        "no graph: kernels are not joined to nodes; what is known of their "
        "work is that of operators whose sizes were recorded");
  for (const auto &[reason, sum] : unattributed)
    if (sum.first && anyGraph)
      profile->notes.push_back(std::to_string(sum.first) + " of " +
                               std::to_string(profile->kernels.size()) +
                               " kernels (" + formatTime(sum.second) +
                               ") have no node: " + reason);
  if (profile->kernels.empty())
    profile->notes.push_back(
        "the trace holds no kernels: nothing ran on a device while it was "
        "recorded, or the device was not recorded (torch.profiler: "
        "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]; nsys: "
        "--trace=cuda,nvtx)");
  if (trace.kind == "kineto" && trace.activities.empty() &&
      trace.runtimeCalls.empty() && llvm::none_of(trace.hostOps, isOperator))
    profile->notes.push_back(
        "the trace holds no operator: a torch.profiler with a schedule keeps "
        "the steps of a cycle until it calls on_trace_ready, and begins anew: "
        "export_chrome_trace belongs there");
}

std::unique_ptr<Profile> Attributor::run() {
  if (onHost) {
    addHostKernels();
  } else {
    findRangedThreads();
    addActivities();
  }
  replays.join(index, calls, *profile);
  describeUnjoined();
  addNodes(trace, inputs, index, identities, ofNodes,
           findInputCopies(host, index, calls, replays, {opOfKernel, opOfCopy},
                           inputs.wrappers, *profile),
           *profile);
  addCalls();
  addHostEvents();
  addHostCosts(trace, host, places, !onHost || isHostSide, *profile);
  addRecordingTimes(trace, host, {opOfKernel, opOfCopy}, onHost, *profile);
  if (onHost)
    addUndisturbedTime(trace, *profile);
  addTensorMemory(trace, host, places, *profile);
  addHostWork(trace, host, *profile);
  addDevices();
  addNotes();
  summarize(*profile);
  addPartitions(inputs.partitions, *profile);
  return std::move(profile);
}

std::unique_ptr<Profile>
opprof::join::attribute(const Trace &trace, const AttributionInputs &inputs) {
  return Attributor(trace, inputs).run();
}
