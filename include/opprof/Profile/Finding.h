// What a profile says of a program, with proof. A finding is a kind with the
// numbers that prove it, and no prose: rules compute it, the profile's file
// keeps it, reports put it into words.
//
// Times (ns) and amounts are sums over the steady steps, or over the whole
// recording where there are none; files and reports state them a step.
// Launches, nodes, kernels and copies are named by their place in the profile.
// What only a report needs to name, such as the worst kernel, is not in files.

#ifndef OPPROF_PROFILE_FINDING_H
#define OPPROF_PROFILE_FINDING_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/JSON.h"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace opprof::profile {

struct Profile;

/// What holds a launch back. Unknown is far from its roof for a reason that
/// counters would tell: latency, or traffic that the model does not know of.
enum class Bound : uint8_t { Compute, Memory, Latency, Launch, Unknown };
constexpr size_t kNumBounds = 5;

/// What a launch's arithmetic is held against.
enum class Precision : uint8_t { FP32, TF32, BF16, FP16 };
constexpr size_t kNumPrecisions = 4;

/// Why there is no roofline class.
enum class NoRoof : uint8_t {
  LaunchMap, ///< there is no launch map
  Costs,     ///< no launch has known FLOPs and bytes
  CPU,       ///< ceilings of CPUs are not known
  Device,    ///< the device is not in the table of ceilings
  Run,       ///< no launch with known FLOPs and bytes ran
};

/// Why one of PyTorch's fused attentions takes an input not.
enum class AttentionRefusal : uint8_t {
  Type,      ///< the type of its elements
  Rank,      ///< it is no [batch, heads, length, size]
  HeadSize,  ///< the size of a head is too large, or they differ
  Alignment, ///< the size of a head is no multiple of what is loaded at once
  Mask,      ///< it takes no mask
  Unknown,   ///< nothing of what was recorded
};
constexpr size_t kNumAttentionRefusals = 6;

/// What keeps warps off a multiprocessor.
enum class OccupancyLimiter : uint8_t {
  BlockSize,
  Blocks,
  Grid,
  LastWave,
  Registers,
  SharedMemory,
  UnevenWork,
  Unknown,
};
constexpr size_t kNumOccupancyLimiters = 8;

/// What a warp waits for.
enum class StallReason : uint8_t {
  LongScoreboard,
  ShortScoreboard,
  MathPipeThrottle,
  Barrier,
  LGThrottle,
  MIOThrottle,
  Wait,
  NotSelected,
};
constexpr size_t kNumStallReasons = 8;

/// What executes instructions.
enum class Pipe : uint8_t { Tensor, FMA, ALU, XU, LSU, FP64 };
constexpr size_t kNumPipes = 6;

/// As files have them, and counters' names.
llvm::StringRef stringify(Bound bound);
llvm::StringRef stringify(Precision precision);
llvm::StringRef stringify(OccupancyLimiter limiter);
llvm::StringRef stringify(StallReason reason);
llvm::StringRef stringify(AttentionRefusal refusal);
llvm::StringRef stringify(Pipe pipe);
std::optional<OccupancyLimiter> parseOccupancyLimiter(llvm::StringRef text);
/// A clause: files have it as the reason for the lack of classes on `device`.
std::string stringify(NoRoof reason, llvm::StringRef device);
/// Sets `device` where the clause names one.
std::optional<NoRoof> parseNoRoof(llvm::StringRef text, std::string &device);

namespace evidence {

struct WallTime {
  int64_t wallNs = 0;
  /// The union of kernels over all streams, and of copies what is beside it.
  int64_t kernelsNs = 0;
  int64_t copiesOnlyNs = 0;
  int64_t idleNs = 0;
  /// Parts of it, by what the host did.
  int64_t idleInCompiledCallsNs = 0;
  int64_t idleHostWaitingNs = 0;
  int64_t idleOutsideNs = 0;
  int64_t idleProfilerNs = 0;
  int64_t kernels = 0;
  int64_t steps = 1;
  /// Of `kernelsNs` what is of none of `kernels`: launched before the steps.
  int64_t otherKernelsNs = 0;
};

/// A time in which the device ran nothing.
struct Gap {
  int64_t lengthNs = 0;
  /// The kernel or copy that ends it, where one does.
  std::optional<uint32_t> kernel;
  std::optional<uint32_t> copy;
  /// What of it had passed when that kernel's launch call ended.
  std::optional<int64_t> hostLateNs;
  /// What the host did for most of it, and for how long; empty where that is
  /// not known.
  std::string host;
  std::optional<int64_t> hostNs;
};

/// Idle time that one thing which the host did explains.
struct IdleIn {
  std::string host;
  int64_t idleNs = 0;
};

/// Busy and idle time of one of several devices, in the window of all.
struct BusyOfDevice {
  int64_t device = 0;
  double busyPct = 0;
  int64_t busyNs = 0;
  int64_t idleNs = 0;
  int64_t idleProfilerNs = 0;
  uint64_t gaps = 0;
  std::vector<Gap> largestGaps;
};

struct DeviceBusy {
  double busyPct = 0;
  int64_t busyNs = 0;
  /// Sum of the kernels, and what of it overlaps.
  int64_t kernelTimeNs = 0;
  int64_t overlappedNs = 0;
  int64_t idleNs = 0;
  int64_t idleProfilerNs = 0;
  uint64_t gaps = 0;
  /// Idle time before kernels whose launch call is known, until the end of that
  /// call and after it.
  std::optional<int64_t> idleHostLateNs;
  std::optional<int64_t> idleAfterLaunchNs;
  /// From the recorder's estimates.
  std::optional<double> smEfficiencyPct;
  std::optional<double> occupancyPct;
  /// From the end of a launch call to the start of its kernel.
  std::optional<int64_t> launchToStartMedianNs;
  std::optional<int64_t> launchToStartShortestNs;
  std::vector<Gap> largestGaps;
  /// Largest first.
  std::vector<IdleIn> idleIn;
  /// Where several ran kernels; the other fields are of the busiest one.
  std::vector<BusyOfDevice> devices;
  /// Not in files: the largest gap that a kernel ends, and whether the host
  /// being late decides.
  std::optional<Gap> largestBeforeKernel;
  bool isLaunchBound = false;
};

/// Of small kernels on one of several devices.
struct SmallOfDevice {
  int64_t device = 0;
  uint64_t small = 0;
  uint64_t kernels = 0;
  int64_t smallNs = 0;
  int64_t idleBeforeNs = 0;
};

/// Of all devices together.
struct SmallKernels {
  int64_t thresholdNs = 0;
  uint64_t small = 0;
  uint64_t kernels = 0;
  int64_t smallNs = 0;
  double sharePct = 0;
  /// Idle time between one and the next; longer gaps have another cause.
  int64_t idleBeforeNs = 0;
  /// Where launch calls are known.
  std::optional<uint64_t> shorterThanLaunch;
  std::optional<int64_t> launchCallsNs;
  /// Not in files: the kernel after the largest gap.
  std::optional<uint32_t> mostIdleBefore;
  /// Where several ran kernels.
  std::vector<SmallOfDevice> devices;
};

struct LaunchTime {
  uint32_t launch = 0;
  int64_t timeNs = 0;
};

struct NoArithmetic {
  uint64_t launches = 0;
  uint64_t kernels = 0;
  int64_t timeNs = 0;
  double sharePct = 0;
  /// Of one run of each launch.
  uint64_t bytes = 0;
  std::vector<LaunchTime> largest;
};

struct Synchronizations {
  /// By name, how often each was called.
  std::map<std::string, uint64_t> calls;
  int64_t hostWaitsNs = 0;
  int64_t deviceIdleNs = 0;
};

/// Dynamo evaluates guards to find which of its compilations fits a call.
struct CacheLookups {
  uint64_t lookups = 0;
  int64_t timeNs = 0;
  int64_t longestNs = 0;
  /// What of it the device ran nothing in.
  int64_t deviceIdleNs = 0;
  /// Of the steps' time.
  double sharePct = 0;
};

/// Of copies between the host and one of several devices.
struct CopiesOfDevice {
  int64_t device = 0;
  uint64_t copies = 0;
  uint64_t bytes = 0;
  int64_t timeNs = 0;
};

/// Of all devices together.
struct HostCopies {
  uint64_t copies = 0;
  uint64_t bytes = 0;
  int64_t timeNs = 0;
  bool isPageable = false;
  /// Not in files.
  std::optional<uint32_t> longest;
  /// Where several ran kernels or copies.
  std::vector<CopiesOfDevice> devices;
  /// Of `timeNs` what kernels of the same device hide.
  int64_t hiddenNs = 0;
  /// Of `copies` those that move pages of unified memory.
  uint64_t pages = 0;
};

/// What one line of the program costs.
struct LineCost {
  /// "file:line"; empty where it is not known.
  std::string source;
  std::string module;
  uint64_t calls = 0;
  int64_t timeNs = 0;
  /// Where something stays in its place: what the step would be shorter by.
  std::optional<int64_t> savedNs;
};

/// The program waits for its data loader.
struct DataLoadingWaits : LineCost {};
/// A function is compiled again in steady steps.
struct Recompilation : LineCost {};
/// Python looks for garbage in steady steps.
struct GarbageCollection : LineCost {};
/// The program saves what it has in steady steps.
struct CheckpointWriting : LineCost {};
/// The program computes nothing while it runs code of its own, up to `source`.
struct HostCode : LineCost {
  /// The line whose operator ran before; empty where it is not known.
  std::string after;
};
/// The program waits at a line until the device has come to it.
struct HostWait : LineCost {
  /// The call, or the operator that it is of: "aten::item".
  std::string call;
};
/// The program waits at a line until other ranks have come to a collective.
struct CollectiveWait : LineCost {};
/// Copies of a line between the device and memory that the system may move,
/// during which the program waits.
struct PageableCopies : LineCost {
  uint64_t bytes = 0;
};
/// Several operators do what layer_norm or rms_norm does.
struct NormalizationByHand : LineCost {};
/// Two products with a softmax between do what scaled_dot_product_attention
/// does.
struct AttentionByHand : LineCost {};
/// A loop takes the norm of each gradient by itself.
struct GradientLoop : LineCost {};
/// The optimizer steps each parameter by itself.
struct OptimizerLoop : LineCost {};
/// A loop of the program's own updates one parameter after the other: an
/// optimizer or a running mean by hand.
struct ParameterLoop : LineCost {};
/// A line calls small operators over and over, each for little.
struct OperatorLoop : LineCost {};
/// zero_grad sets gradients to zero that the backward pass could make anew.
struct GradientSets : LineCost {};
/// Products in float32 of a program that multiplies in fewer bits.
struct PrecisionIsland : LineCost {
  /// What the others multiply: "c10::BFloat16".
  std::string others;
};
/// The gradient of an embedding has all rows of its table.
struct DenseEmbeddingGradient : LineCost {};
/// More and more tensors of a line are held.
struct MemoryGrowth {
  /// As PyTorch calls it.
  std::string device;
  /// The line that grows most; empty where it is not known.
  std::string source;
  std::string module;
  uint64_t bytesPerStep = 0;
  /// Of all lines.
  uint64_t allBytesPerStep = 0;
  /// The most that was held on the device.
  uint64_t peakBytes = 0;
};

/// Copies on the device that put a bias where a product adds to it.
struct BiasCopies {
  uint64_t copies = 0;
  uint64_t bytes = 0;
  int64_t timeNs = 0;
  /// Not in files: the product after the longest.
  std::optional<uint32_t> product;
};

/// Kernels of one stream that need nothing of one another, and which together
/// would not fill the device.
struct SerializedWork {
  uint64_t groups = 0;
  uint64_t kernels = 0;
  int64_t timeNs = 0;
  /// What it would take less if each group took as long as its longest kernel.
  int64_t savedNs = 0;
  /// Of the group that would save most.
  uint64_t largestKernels = 0;
  int64_t largestSavedNs = 0;
  /// Not in files: its first and last kernel.
  std::optional<uint32_t> first, last;
};

/// Of collectives on one of several devices.
struct DeviceTalk {
  int64_t device = 0;
  uint64_t collectives = 0;
  int64_t timeNs = 0;
  /// What of it no other kernel of that device covers.
  int64_t exposedNs = 0;
  /// Until the last device joined in those that all devices ran at a time.
  int64_t waitedNs = 0;
};

struct Communication {
  uint64_t collectives = 0;
  int64_t timeNs = 0;
  /// What of it no other kernel covers.
  int64_t exposedNs = 0;
  int64_t longestNs = 0;
  std::string longestName;
  std::optional<int64_t> rank;
  /// Not in files.
  std::optional<uint32_t> longest;
  /// Where there are several; the other fields are of the busiest one.
  std::vector<DeviceTalk> devices;
};

struct ColdStart {
  int64_t warmUpSteps = 0;
  /// Means.
  int64_t warmUpStepNs = 0;
  int64_t steadyStepNs = 0;
};

struct SpreadOfLaunch {
  uint32_t launch = 0;
  int64_t medianNs = 0;
  int64_t longestNs = 0;
  uint64_t runs = 0;
};

struct Variation {
  uint64_t launches = 0;
  int64_t excessNs = 0;
  SpreadOfLaunch worst;
};

struct Rate {
  double perSecond = 0;
  /// "measured", "datasheet" or how it follows from another number.
  std::string origin;
};

struct Ceilings {
  /// As the table of ceilings calls it, or as it calls itself where it is not
  /// there.
  std::string device;
  Rate memory;
  /// By Precision.
  std::array<Rate, kNumPrecisions> compute;

  const Rate &of(Precision precision) const {
    return compute[static_cast<size_t>(precision)];
  }
};

/// FLOPs and bytes that kernels with known work reached.
struct WorkRates {
  double flopsPerStep = 0;
  double bytesPerStep = 0;
  double flopsPerSecond = 0;
  double bytesPerSecond = 0;
};

struct ClassTime {
  uint64_t launches = 0;
  int64_t timeNs = 0;
};

/// A launch, or without a graph an operator with inputs of one size, against
/// its roof; times are of one run.
struct PlacedLaunch {
  /// One of them.
  std::optional<uint32_t> launch;
  std::optional<uint32_t> op;
  Bound bound = Bound::Unknown;
  /// The class is from counters, and else from the model.
  bool isByCounters = false;
  Precision ceiling = Precision::FP32;
  double runNs = 0;
  double roofNs = 0;
  double roofPct = 0;
  /// FLOPs a byte.
  double intensity = 0;
};

struct Roofline {
  /// Why there are no classes; all but `rates` and the device says nothing
  /// then.
  std::optional<NoRoof> without;
  std::optional<WorkRates> rates;

  Ceilings ceilings;
  /// By Bound.
  std::array<ClassTime, kNumBounds> classes;
  ClassTime byCounters;
  double roofNs = 0;
  double aboveRoofNs = 0;
  int64_t withoutModelNs = 0;
  std::vector<PlacedLaunch> mostAboveRoof;
};

struct TensorCoresIdle {
  uint64_t launches = 0;
  int64_t timeNs = 0;
  double sharePct = 0;
  /// What tensor cores would allow.
  double leastNs = 0;
  uint64_t launchesByCounters = 0;
  /// Name of the longest kernel of the launch that takes longest.
  std::string kernel;
  /// Not in files: that kernel, and whether all are in fp32.
  std::optional<uint32_t> longest;
  bool isAllFP32 = false;
};

/// How much of the device the program's arithmetic makes use of.
struct Goodput {
  /// FLOPs by the model of costs, and the share of kernel time that they are
  /// of.
  double flops = 0;
  double knownPct = 0;
  double flopsPerSecond = 0;
  /// The type that most of them are of, its peak, and the share of it: model
  /// FLOPs utilization (MFU).
  Precision precision = Precision::FP32;
  Rate peak;
  double utilizationPct = 0;
};

/// Kernels with which a library turns what convolutions take and give from one
/// layout into the other.
struct LayoutConversions {
  uint64_t kernels = 0;
  int64_t timeNs = 0;
  double sharePct = 0;
  /// Not in files: the longest of them.
  std::optional<uint32_t> longest;
};

/// Calls of attention that ran as products and a softmax.
struct UnfusedAttention {
  uint64_t calls = 0;
  uint64_t kernels = 0;
  int64_t timeNs = 0;
  double sharePct = 0;
  /// Of the calls that take longest, and why FlashAttention and
  /// memory-efficient attention do not take them.
  std::string inputDims;
  AttentionRefusal flash = AttentionRefusal::Unknown;
  AttentionRefusal efficient = AttentionRefusal::Unknown;
};

/// Steady kernels of one launch, or of one node outside of launch maps, or of
/// one name.
struct Work {
  /// Name of the longest of them.
  std::string kernel;
  int64_t timeNs = 0;
  std::optional<uint32_t> launch;
  std::optional<uint32_t> node;
  /// Not in files: the longest of them.
  std::optional<uint32_t> longest;
};

/// What findings about such work have: its number, time and share of kernel
/// time, how much of that has another launch's counters, and the costliest of
/// them.
template <typename Entry> struct WorkList {
  uint64_t launches = 0;
  int64_t timeNs = 0;
  double sharePct = 0;
  int64_t inferredNs = 0;
  std::vector<Entry> largest;
};

struct PeakShares : Work {
  double smThroughputPct = 0;
  double memoryThroughputPct = 0;
  std::optional<double> dramThroughputPct, tensorPipePct, achievedOccupancyPct,
      l1HitPct, l2HitPct, issueActivePct;
};
struct SpeedOfLight : WorkList<PeakShares> {
  int64_t countedNs = 0;
  double nearComputePeakPct = 0;
  double nearMemoryPeakPct = 0;
  double farFromBothPct = 0;
  double meanSMThroughputPct = 0;
  double meanMemoryThroughputPct = 0;
  /// Not in files: of kernel time; absent where all of it is counted.
  std::optional<double> countedPct;
};

struct Traffic : Work {
  /// Of one run.
  double dramBytes = 0;
  double fewestBytes = 0;
  double times = 0;
};
struct MemoryTraffic : WorkList<Traffic> {};

struct OccupancyOfWork : Work {
  double achievedPct = 0;
  std::optional<double> possiblePct;
  /// How often the grid fills the device.
  std::optional<double> waves;
  OccupancyLimiter limiter = OccupancyLimiter::Unknown;
};
struct LowOccupancy : WorkList<OccupancyOfWork> {
  std::map<OccupancyLimiter, int64_t> timeNsOf;
};

struct LocalMemoryOfWork : Work {
  double wavefronts = 0;
  std::optional<uint64_t> bytesPerThread;
  std::optional<uint64_t> registers;
};
struct LocalMemory : WorkList<LocalMemoryOfWork> {};

struct ConflictsOfWork : Work {
  double conflicts = 0;
  double ofActiveCyclesPct = 0;
};
struct BankConflicts : WorkList<ConflictsOfWork> {};

struct ScatterOfWork : Work {
  double sectorsPerRequest = 0;
};
struct ScatteredAccess : WorkList<ScatterOfWork> {};

struct StallsOfWork : Work {
  StallReason reason = StallReason::LongScoreboard;
  double cyclesPerIssue = 0;
  double sharePct = 0;
};
struct Stalls : WorkList<StallsOfWork> {
  std::map<StallReason, int64_t> timeNsOf;
};

struct PipesOfWork : Work {
  Pipe pipe = Pipe::Tensor;
  std::map<Pipe, double> sharePct;
};
struct Pipes : WorkList<PipesOfWork> {
  std::map<Pipe, int64_t> timeNsOf;
};

struct DivergenceOfWork : Work {
  double threadsPerWarp = 0;
};
struct Divergence : WorkList<DivergenceOfWork> {};

/// What a file has that this version does not know: a kind of its own, or other
/// numbers for a known one. It is kept as it is.
struct Unread {
  std::string id;
  llvm::json::Object object;
};

} // namespace evidence

enum class FindingKind : uint8_t {
#define OPPROF_FINDING(Name, Id) Name,
#include "opprof/Profile/FindingKinds.def"
};

/// In the order of FindingKind, after what is not known.
using Evidence = std::variant<evidence::Unread
#define OPPROF_FINDING(Name, Id) , evidence::Name
#include "opprof/Profile/FindingKinds.def"
                              >;
constexpr size_t kNumFindingKinds = std::variant_size_v<Evidence> - 1;

/// "tensor-cores-idle", ….
llvm::StringRef stringify(FindingKind kind);
std::optional<FindingKind> parseFindingKind(llvm::StringRef text);

/// `evidence` as the profile's file has it.
llvm::json::Object toJSON(const Evidence &evidence, const Profile &profile);

/// The other way round. What writing it would not give back as it is, is
/// `Unread`.
Evidence readEvidence(llvm::StringRef id, llvm::json::Object object,
                      const Profile &profile);

struct Finding {
  /// What it costs a step; absent where that is not a cost.
  std::optional<int64_t> severityNsPerStep;
  /// Places in Profile::nodes.
  std::vector<uint32_t> nodes;
  Evidence evidence;
  /// For a person. The file that the finding was read from has it, or
  /// report::describeFindings writes it; rules leave it empty.
  std::string text;

  /// Absent where the evidence is `Unread`.
  std::optional<FindingKind> kind() const {
    if (!evidence.index())
      return std::nullopt;
    return static_cast<FindingKind>(evidence.index() - 1);
  }
  llvm::StringRef id() const;
};

} // namespace opprof::profile

#endif // OPPROF_PROFILE_FINDING_H
