// The data model of profile.opprof.json. What ran, when, where it came from and
// how sure that is. Every reader of profiles fills this model in; findings and
// reports read nothing else. Plain C++: no MLIR context is needed.

#ifndef OPPROF_PROFILE_PROFILE_H
#define OPPROF_PROFILE_PROFILE_H

#include "opprof/Launch/LaunchInfo.h"
#include "opprof/Profile/Finding.h"
#include "opprof/Support/Confidence.h"
#include "opprof/Support/Intervals.h"
#include "opprof/Support/NodeId.h"
#include "opprof/Support/Recording.h"
#include "opprof/Support/TextPool.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/JSON.h"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

namespace opprof::profile {

using opprof::Confidence;
using opprof::kNumConfidences;

/// What the program was doing when it launched a kernel.
enum class Phase : uint8_t {
  Steady,
  WarmUp,
  Compile,
  Autotune,
  BeforeWindow,
  Apart, ///< in a step that did something else besides: an evaluation
};

llvm::StringRef stringify(Phase phase);
std::optional<Phase> parsePhase(llvm::StringRef text);

/// The part of a training step that an operator is of.
enum class Part : uint8_t {
  None,
  Forward,
  Backward,
  Optimizer,
  DataLoading,
};
constexpr size_t kNumParts = 5;

llvm::StringRef stringify(Part part);
std::optional<Part> parsePart(llvm::StringRef text);

/// What the host does besides computing.
enum class HostCostKind : uint8_t {
  DataLoading,
  Wait,
  Garbage,
  Compilation,
  Checkpoint,
  /// The program itself, while no operator ran.
  Program,
};

llvm::StringRef stringify(HostCostKind kind);
std::optional<HostCostKind> parseHostCostKind(llvm::StringRef text);

/// What the host did at one line of the program, in the steady steps, or in all
/// where there are none.
struct HostCost {
  HostCostKind kind = HostCostKind::Wait;
  /// The operator or range: "aten::item". Of the program itself, the line
  /// from which on no operator ran, "file:line", as `source` is the one of the
  /// next.
  std::string name;
  /// "file:line"; empty where it is not known.
  std::string source;
  std::string module;
  uint64_t calls = 0;
  int64_t timeNs = 0;
};

/// Memory that one operator took in one module, line and part of the step.
struct MemorySite {
  /// "file:line"; empty where it is not known.
  std::string source;
  std::string module;
  Part part = Part::None;
  /// The outermost operator; empty outside of all.
  std::string op;
  /// What it held at the peak, in how many blocks.
  uint64_t peakBytes = 0;
  uint64_t peakBlocks = 0;
  /// What it took in the steady steps, and what of it was free again before the
  /// end of the same step, and of the outermost operator.
  uint64_t calls = 0;
  uint64_t bytes = 0;
  uint64_t churnBytes = 0;
  uint64_t scratchBytes = 0;
  /// What it holds more at the end of each steady step than of the one before,
  /// where that grows all along; else 0.
  uint64_t growthBytesPerStep = 0;
};

/// Memory that PyTorch gave out for tensors on one device.
struct TensorMemory {
  /// As PyTorch calls it: "cpu", "cuda:0".
  std::string device;
  uint64_t allocations = 0;
  /// The most that was held at one time, when, and in which step.
  uint64_t peakBytes = 0;
  int64_t peakTimeNs = 0;
  std::optional<uint32_t> peakStep;
  /// The place in `sites` of what was given out last at that time.
  std::optional<uint32_t> peakSite;
  /// What of it was given out before the recording, and what was held when it
  /// ended.
  uint64_t earlierBytes = 0;
  uint64_t endBytes = 0;
  /// Blocks from before the recording that were freed, of an unknown size.
  uint64_t unknownFrees = 0;
  /// Sums over all sites, also those that are not in `sites`.
  uint64_t calls = 0;
  uint64_t bytes = 0;
  uint64_t churnBytes = 0;
  uint64_t scratchBytes = 0;
  uint64_t growthBytesPerStep = 0;
  /// The most that was held in each of as many equal parts of the recording.
  std::vector<uint64_t> heldBytes;
  int64_t startNs = 0;
  int64_t endNs = 0;
  /// Those that hold most at the peak come first.
  std::vector<MemorySite> sites;
  /// How many sites with little are left out.
  uint64_t otherSites = 0;
};

/// A file that the profile was made from.
struct Source {
  /// "kineto", "nsys", "ncu" or "opprof capture".
  std::string kind;
  std::string file;
  std::optional<int64_t> rank;
  /// Number of ranks.
  std::optional<int64_t> worldSize;
  std::optional<int64_t> processId;
  std::string host;
  /// What to add to every time of the profile to get nanoseconds since 1970.
  std::optional<int64_t> baseTimeNs;
};

/// How sure each link of an activity is, to its launch, on to nodes of the
/// compiled graph and on to those of the exported one. Absent: there is none.
struct Links {
  std::optional<Confidence> launch;
  std::optional<Confidence> nodes;
  std::optional<Confidence> exported;
};
inline constexpr size_t kNumLinks = 3;
/// Names of the links as files have them, in the order of the members.
inline constexpr llvm::StringLiteral kLinkNames[kNumLinks] = {"launch", "nodes",
                                                              "exported"};

inline std::array<std::optional<Confidence>, kNumLinks>
toArray(const Links &links) {
  return {links.launch, links.nodes, links.exported};
}

/// How a node's part of a kernel's time was divided, from the surest on.
enum class Share : uint8_t {
  None,     ///< it computes nothing, and others in the kernel do
  Whole,    ///< it alone computes
  Modelled, ///< by the bytes and FLOPs that the cost model gives its nodes
  Even,     ///< there is no model of one of them: evenly
};

llvm::StringRef stringify(Share share);
std::optional<Share> parseShare(llvm::StringRef text);

/// Where an activity comes from, and how that is known: the same for most that
/// one line of a program starts again and again. Strings live in the profile.
struct Origin {
  OptionalSigned rank;
  /// Places in Profile::nodes.
  std::vector<uint32_t> nodes;
  /// "identity", "kernel_hash", "correlation", "enclosure", "sequence",
  /// "operator", "sequence_number" or "none".
  llvm::StringRef method = "none";
  /// Why the join holds, or why there is none, for a person.
  llvm::StringRef explanation;
  /// Operator that the host ran when it launched this.
  llvm::StringRef hostOp;
  /// The modules that the host was in, outermost first: "GPT_0.Block_3.MLP_3".
  llvm::StringRef module;
  /// The deepest line outside of PyTorch that called the operator, "file:line";
  /// of what autograd runs, that of the forward operator.
  llvm::StringRef source;
  /// First input's type as the profiler names it: "float", "c10::BFloat16".
  llvm::StringRef inputType;
  /// The innermost range (NVTX, record_function) that the host had marked round
  /// the launch.
  llvm::StringRef range;
  /// Which other launch the counters are of, that does the same work; empty
  /// where they are its own.
  llvm::StringRef countersFrom;

  /// Of what nothing is known.
  static const Origin &unknown();
};

/// A kernel, copy or memset that a device ran. There are as many as a recording
/// has: what many have together is in their origin.
struct Activity : DeviceActivity {
  /// Never null. Profile::setOrigin and changeOrigin write to it.
  const Origin *origin = &Origin::unknown();
  /// The call that launched it.
  OptionalSigned launchStartNs;
  OptionalSigned launchDurationNs;
  /// What recording operators took of the host: inside of it, and beside it up
  /// to the next one (on a CPU), or from the call before to its own. Not in
  /// files: findings know it.
  uint32_t recordingNs = 0;
  uint32_t recordingBesideNs = 0;
  uint32_t id = 0;
  OptionalPlace step;
  /// Place in Profile::launches.
  OptionalPlace launch;
  /// Place in Profile::operators.
  OptionalPlace op;
  /// Place in Profile::counters.
  OptionalPlace counters;
  Phase phase = Phase::Steady;
  Part part = Part::None;
  /// One replay of a CUDA graph starts many kernels with one call.
  bool cudaGraph = false;
  /// The least of its links.
  Confidence confidence = Confidence::Unattributed;
  Links links;
};

/// A launch of a compiled graph, as launches.json has it, with what it cost.
struct LaunchRecord : launch::LaunchInfo {
  std::string compiledGraph;
  /// Places in Profile::launches of those that have to be over before it
  /// begins, those that they need left out. Not in files.
  std::vector<uint32_t> after;
  /// What it reads and writes is not known: no other is free of it.
  bool isBarrier = false;
  /// Times that it ran in the window.
  uint64_t runs = 0;
  int64_t kernelTimeNs = 0;
  /// Places in Profile::nodes.
  std::vector<uint32_t> nodes;
  /// Each node's part of a kernel's time, of a million; empty where there is
  /// none to divide. `share` says where they come from.
  std::vector<uint32_t> parts;
  Share share = Share::Whole;
};

/// What the metrics of a node were copied from.
struct MetricsOrigin {
  /// The node in whose place of the unique partition it stands, or itself in
  /// other circumstances.
  NodeId node;
  /// Where that launch computes no node that is known: the launch, in words.
  std::string launch;
};

/// A node and its share of the kernels that compute it.
struct Node {
  NodeId id;
  /// Path of the innermost module; the root's is empty.
  std::optional<std::string> module;
  /// The deepest line outside of PyTorch, and all frames, outermost first.
  std::optional<std::string> source;
  std::vector<std::string> stack;
  int64_t kernelTimeNs = 0;
  /// The least sure of how its kernels' times were divided; absent without
  /// kernels.
  std::optional<Share> share;
  /// Ids of kernels, in order.
  std::vector<uint32_t> kernels;
  std::map<std::string, double> metrics;
  /// Why metrics that its kernels have are not the node's, by name.
  std::map<std::string, std::string> metricsAbsent;
  /// Absent where `metrics` are its own.
  std::optional<MetricsOrigin> inferredFrom;
  /// Label and role of the partition that it is in.
  std::optional<std::string> partition;
};

/// One instance of a repeated subgraph, from the partition map.
struct PartitionTime {
  std::string classId;
  /// Of the class's structure: the same in every run, machine and graph. Empty
  /// where it is not known.
  std::string hash;
  std::string label;
  /// "unique" or "duplicate".
  std::string role;
  uint64_t nodeCount = 0;
  int64_t kernelTimeNs = 0;
};

/// What the host called one operator for with inputs of the same sizes, types
/// and values, and what that ran. Of a program without a graph only.
struct OperatorTime {
  std::string name;
  /// As the profiler writes them, "[[8, 16], [16], []]"; empty where it was not
  /// asked for shapes.
  std::string inputDims;
  std::string inputTypes;
  std::string inputValues;
  /// In the steady steps, or in all where there are no steps.
  uint64_t calls = 0;
  uint64_t kernels = 0;
  int64_t kernelTimeNs = 0;
  /// Of one call, by the model of costs; absent where it has no formula or a
  /// size is not known.
  std::optional<uint64_t> flops;
  std::optional<uint64_t> bytesRead;
  std::optional<uint64_t> bytesWritten;
};

/// What the host did while a device was idle: the operator, range or call that
/// took most of that. Not in files: findings say it.
struct HostWork {
  std::string name;
  int64_t startNs = 0;
  int64_t durationNs = 0;
  /// When the device was idle.
  Interval idle = {0, 0};
};

/// A call of a compiled graph by the host.
struct CompiledCall {
  /// Empty where no launch map fits.
  std::string compiledGraph;
  int64_t startNs = 0;
  int64_t durationNs = 0;
  std::optional<uint32_t> step;
  /// Launches of the map, and how many of them the trace shows.
  uint64_t launches = 0;
  uint64_t matched = 0;
};

/// A call in which the host waits for the device.
struct Synchronization {
  std::string name;
  int64_t startNs = 0;
  int64_t durationNs = 0;
  /// The operator that waits, and the line that called it; empty where they
  /// are not known.
  std::string op;
  std::string source;
};

/// Dynamo looks for the compilation that fits a call of a function.
struct CacheLookup {
  int64_t startNs = 0;
  int64_t durationNs = 0;
};

/// A rewrite that `opprof recommend` has for the profile's graph.
struct RewriteOffer {
  /// The rule's, and the file of the script: "float16", "01-float16.mlir".
  std::string name;
  std::string file;
  std::string title;
  /// Predicted for one step.
  int64_t savesNs = 0;
  /// What `opprof optimize` measured that it saves of a step, and how its trial
  /// ended ("kept", "not faster"), where there was one.
  std::optional<int64_t> measuredNs;
  std::string end;
};

struct Step {
  uint32_t index = 0;
  /// On the host: where the step's own range begins and ends.
  int64_t startNs = 0;
  int64_t endNs = 0;
  Phase phase = Phase::Steady;
};

/// A compilation of a function of the program.
struct Compilation {
  /// Dynamo's: "3/1" is the second one of the fourth function.
  std::string id;
  std::string function;
  /// "file:line" of the function; empty where it is not the user's.
  std::string source;
  /// The guard that failed, where the function had been compiled before.
  std::string reason;
  /// Why nothing came of it, so that the function runs uncompiled.
  std::string failed;
  std::vector<std::string> compiledGraphs;
  std::optional<int64_t> compileNs;
};

/// A place where Dynamo ends one graph and begins another.
struct GraphBreak {
  std::string reason;
  /// What PyTorch says would help.
  std::string hint;
  /// "file:line" of the user's code.
  std::string source;
  /// In how many compilations it broke.
  uint64_t compilations = 1;
};

/// How the program was run, beside the recording.
struct RunFacts {
  /// The command line of a program that `opprof run` recorded, and the status
  /// that it ended with.
  std::string program;
  std::optional<int64_t> exitStatus;
  /// What ended the program while it was recorded, in words; empty where it
  /// ended by itself.
  std::string ended;
  /// "eager", "inductor", "cudagraphs" or the name of a backend.
  std::string mode;
  /// How the program differs from what `torch.compile(model)` runs.
  std::string differs;
  /// The version of PyTorch that ran it; empty where it is not known.
  std::string torch;
  /// In the order in which they were made; those of the program's functions
  /// that gave compiled graphs, or failed.
  std::vector<Compilation> compilations;
  std::vector<GraphBreak> graphBreaks;
  /// Median wall time of a step without a profiler: from an idle device to an
  /// idle device, of one among others that follow one another, and of the
  /// program as it is, uncompiled.
  std::optional<int64_t> stepNs;
  std::optional<int64_t> loopNs;
  std::optional<int64_t> eagerStepNs;
  /// "unique" or "all", the sets that were asked for, in how many passes, how
  /// caches were left, and why there are none.
  std::string counters;
  std::string metrics;
  std::optional<uint64_t> passes;
  std::string caches;
  std::string countersLeftOut;
  /// The most that tensors held during the recorded steps, and that PyTorch had
  /// taken from the driver for them.
  std::optional<uint64_t> peakBytes;
  std::optional<uint64_t> peakReservedBytes;
};

struct Summary {
  uint64_t kernels = 0;
  int64_t kernelTimeNs = 0;
  std::optional<int64_t> busyNs;
  std::optional<int64_t> wallNs;
  /// What of it the busiest device ran neither kernel nor copy.
  std::optional<int64_t> idleNs;
  /// What recording operators took of the host in the steady steps; costs of
  /// lines are without it. Absent where it was not measured.
  std::optional<int64_t> recordingNs;
  /// What the steady steps of a program on the host take without recording and
  /// where nothing else has the processor; what costs of lines are a part of.
  std::optional<int64_t> undisturbedNs;
  /// What of that no operator runs.
  std::optional<int64_t> undisturbedIdleNs;
  uint64_t copies = 0;
  int64_t copyTimeNs = 0;
  std::optional<uint64_t> steps;
  /// "profiler_step" (marks of the profiler), "capture_marks" (marks of the
  /// capture), "compiled_calls" (the calls of compiled graphs repeat),
  /// "graph_passes" (the operators of a graph repeat), "optimizer_steps",
  /// "recurring_operators" or "none".
  std::string stepsFrom = "none";
  /// The span that shares of time are stated of: the steady steps, from the end
  /// of earlier work to the end of their last kernel, or without step marks the
  /// first to the last event on the device, but for what ran before unrecorded
  /// work that the device was at. Absent when nothing ran.
  std::optional<Interval> window;
  /// A host that runs ahead begins a step while the device is still at earlier
  /// work: when the device came to the first kernel of the steady steps, or to
  /// the copies right before it, where that waited for work of which the
  /// recording may show nothing, or was done with what it shows of it. Absent
  /// where neither is known.
  std::optional<int64_t> earlierWorkEndNs;
  /// What of the span lies between two steps of a capture, with nothing on any
  /// device: it was not recorded (counters were taken, or the program did other
  /// things), so it is no step's idle time. Of steps that were found, those
  /// that are apart, and what lies between two requests. Sorted and disjoint.
  std::vector<Interval> betweenSteps;
  std::array<int64_t, kNumConfidences> attributedNs{};
  /// Kernel time by the confidence of each link, for kernels that have it.
  std::array<std::array<int64_t, kNumConfidences>, kNumLinks> linksNs{};
};

/// A profile. Owns the strings of its activities, so it can be moved, not
/// copied.
struct Profile {
  static constexpr int64_t kVersion = 1;

  Profile() = default;
  Profile(const Profile &) = delete;
  Profile &operator=(const Profile &) = delete;

  /// The graph and stage that plain node names belong to.
  std::string graph;
  std::string stage;
  std::vector<Source> sources;
  std::optional<RunFacts> run;
  std::vector<Device> devices;
  Summary summary;
  std::vector<Step> steps;
  /// Kernels first, in order of start; then copies and memsets.
  std::vector<Activity> kernels;
  std::vector<Activity> copies;
  std::vector<CounterRow> counters;
  std::optional<StepCounters> stepCounters;
  std::vector<LaunchRecord> launches;
  std::vector<Node> nodes;
  std::vector<PartitionTime> partitions;
  std::vector<OperatorTime> operators;
  /// Costliest first.
  std::vector<HostCost> host;
  std::vector<CompiledCall> calls;
  std::vector<Synchronization> synchronizations;
  std::vector<CacheLookup> cacheLookups;
  /// Of the longest idle times.
  std::vector<HostWork> hostWork;
  std::vector<ProfilerOverhead> overheads;
  std::vector<MemoryUse> memory;
  std::vector<TensorMemory> tensorMemory;
  std::vector<Finding> findings;
  /// What has been recommended for the run, best first; absent where nothing
  /// was asked. Not in files: rewrites.json of the run folder has them.
  std::optional<std::vector<RewriteOffer>> offers;
  /// What the reader has to say of the input, for a person.
  std::vector<std::string> notes;

  llvm::StringRef intern(llvm::StringRef text) { return strings.save(text); }

  /// Lets `change` write to the origin of `activity`, which is this profile's,
  /// and of no other activity.
  template <typename Change>
  void changeOrigin(Activity &activity, Change change) {
    Origin origin = *activity.origin;
    change(origin);
    setOrigin(activity, std::move(origin));
  }
  void setOrigin(Activity &activity, Origin origin) {
    activity.origin = &*origins.insert(std::move(origin)).first;
  }

private:
  /// By which texts they have, not by what these say: they are interned.
  struct OriginHash {
    size_t operator()(const Origin &origin) const;
  };
  struct IsSameOrigin {
    bool operator()(const Origin &a, const Origin &b) const;
  };
  std::unordered_set<Origin, OriginHash, IsSameOrigin> origins;
  TextPool strings;
};

/// Computes Summary, what of it is in no file too, Device::busyNs and the times
/// of nodes, launches and partitions from the kernels. A kernel's time goes to
/// its nodes by the rule of `shareTime`.
void summarize(Profile &profile);

/// The rule for a kernel of several nodes: each has its part, in whole
/// nanoseconds that always sum to the kernel's time. Without parts all are
/// equal.
std::vector<int64_t> shareTime(int64_t total, size_t count,
                               llvm::ArrayRef<uint32_t> parts = {});

/// The parts of a kernel's time that its nodes have, in their order.
std::vector<int64_t> shareAmongNodes(const Profile &profile,
                                     const Activity &kernel);

/// When the device ran what `list` has of it, whatever launched that and when,
/// but for steps that are apart: sorted, disjoint, inside the window.
std::vector<std::pair<int64_t, int64_t>>
runningTimes(llvm::ArrayRef<Activity> list, int64_t device,
             std::pair<int64_t, int64_t> window);

/// Steady steps; 0 where the profile has none.
int64_t countSteadySteps(const Profile &profile);

/// The device with most busy time; null when nothing ran.
const Device *findBusiestDevice(const Profile &profile);

/// A kernel's name without what all overloads and instances share: parameters,
/// the lambdas round a functor, PyTorch's own namespaces.
std::string shortKernelName(llvm::StringRef kernel);

/// The node for a person: its plain name where it is of the profile's own graph
/// and stage, else all of its identity.
std::string nameIn(const Profile &profile, const NodeId &node);

/// What the metrics of a node were copied from, for a person; empty where they
/// are its own.
std::string metricsOriginIn(const Profile &profile, const Node &node);

/// Whether what a report without a graph sums up has `activity` in it: what ran
/// in the steady steps, or all where there are none.
bool isCounted(const Profile &profile, bool anySteady,
               const Activity &activity);

/// Whether kernels could be joined to anything: launches or nodes of a graph.
/// A program that was recorded unmodified has none.
bool hasGraph(const Profile &profile);

/// Whether it is known when things ran. Of a source that only counts, each
/// kernel has its time, and stands where the one before it ends.
bool hasTimeline(const Profile &profile);

/// "capture" or "trace": what figures are of where there are no steps.
llvm::StringRef recordingNoun(const Profile &profile);

} // namespace opprof::profile

#endif // OPPROF_PROFILE_PROFILE_H
