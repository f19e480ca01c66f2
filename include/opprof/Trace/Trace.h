// What a recording of a program holds. The events of one recording with exact
// integer nanoseconds, whoever made it: every reader of traces fills this in,
// and Attribution reads nothing else. Nothing is joined here.

#ifndef OPPROF_TRACE_TRACE_H
#define OPPROF_TRACE_TRACE_H

#include "opprof/Support/Recording.h"
#include "opprof/Support/TextPool.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace opprof::trace {

/// A process and thread of the host, as a place in Trace::threads.
using ThreadId = uint32_t;
/// A process, as a place in Trace::processes.
using ProcessId = uint32_t;

/// A kernel, copy or memset.
struct TraceActivity : DeviceActivity {
  OptionalId correlation;
  OptionalId externalId;
  /// Place in Trace::identities: what launched it, as it was recorded.
  OptionalPlace identity;
  /// Place in Trace::counters.
  OptionalPlace counters;
  /// Why there is no identity, where that is known.
  llvm::StringRef noIdentity;
};

/// A call of the CUDA runtime or driver.
struct RuntimeCall {
  llvm::StringRef name;
  ThreadId thread = 0;
  int64_t startNs = 0;
  int64_t durationNs = 0;
  OptionalId correlation;
  OptionalId externalId;

  int64_t endNs() const { return startNs + durationNs; }
};

/// Where in the program the host was.
struct Place {
  /// Path of the innermost module from the one that was called; empty outside.
  llvm::StringRef module;
  /// The deepest line outside of PyTorch, "file:line", and its function.
  llvm::StringRef source;
  llvm::StringRef function;
  /// Of an optimizer: "AdamW group 0".
  llvm::StringRef group;
};

/// What the host did besides operators: collecting garbage, compiling.
struct HostEvent {
  llvm::StringRef name;
  ThreadId thread = 0;
  int64_t startNs = 0;
  int64_t durationNs = 0;
  /// In Trace::places.
  std::optional<uint32_t> place;
};

/// Memory that PyTorch gave out for a tensor.
struct Allocation {
  /// The end of what was not freed while it was recorded.
  static constexpr int64_t kHeld = std::numeric_limits<int64_t>::max();

  int64_t startNs = 0;
  int64_t endNs = kHeld;
  uint64_t bytes = 0;
  /// Of the innermost operator, where one ran.
  OptionalId externalId;
  /// In Trace::places, where that is known beside the operator.
  OptionalPlace place;
  /// In Trace::allocators.
  uint32_t allocator = 0;
  /// Given out before the recording began, nobody knows where.
  bool isEarlier = false;
};

/// What gives out the memory of one device.
struct TensorAllocator {
  /// As PyTorch calls the device: "cpu", "cuda:0".
  std::string device;
  /// Blocks that were freed and whose size nobody knows, since they were given
  /// out before the recording began.
  uint64_t unknownFrees = 0;
};

/// What operators were called with, and how: the same for most of them.
struct OperatorInputs {
  /// Basename of the generated source file of a Triton kernel.
  llvm::StringRef kernelHash;
  llvm::StringRef firstType;
  /// Sizes of the inputs as the profiler writes them, by position of the
  /// schema: "[[8, 16], [16], []]", where [] is a scalar too. Empty where
  /// shapes were not recorded.
  llvm::StringRef dims;
  /// Their types, and the values of what is no tensor, likewise:
  /// ["float", "ScalarList"], ["", "[1, 1]"].
  llvm::StringRef types;
  llvm::StringRef values;
};

/// An operator that the host ran, or a range that PyTorch itself marked.
struct HostOp {
  llvm::StringRef name;
  int64_t startNs = 0;
  int64_t durationNs = 0;
  OptionalId externalId;
  /// Autograd's number: of a forward operator that of the next function it
  /// records, of a backward one that of its own.
  OptionalSigned sequenceNumber;
  ThreadId thread = 0;
  /// In Trace::operatorInputs.
  uint32_t inputs = 0;
  /// What recording it took of its thread, before it begins and after it ends.
  uint32_t recordingNs = 0;
  /// The thread of the forward operator that recorded what it runs, where that
  /// is known.
  OptionalPlace forwardThread;
  /// In Trace::places: where it was called, if that was recorded.
  OptionalPlace place;
  /// Place in Trace::identities of the node that runs in this range.
  OptionalPlace identity;
  /// Runs a function that a forward operator recorded.
  bool backward = false;
  /// A kernel that Triton compiled, with or without a hash.
  bool generated = false;
  /// Marked by user_annotation rather than cpu_op.
  bool annotation = false;
  /// Its end was not recorded: it may have ended at any time.
  bool open = false;

  int64_t endNs() const { return startNs + durationNs; }
};

/// A Python frame of an nn.Module: "nn.Module: Linear_0".
struct ModuleFrame {
  llvm::StringRef name;
  ThreadId thread = 0;
  int64_t startNs = 0;
  int64_t durationNs = 0;
};

/// What a launch was marked with while the program ran: a line of generated
/// code, or a node of an exported graph.
struct Identity {
  /// As the program loaded the code; empty for a node.
  std::string file;
  uint32_t line = 0;
  /// The node's name; empty for a line.
  std::string node;
  /// The graph of the node, or the compiled graph of the line, where recorded.
  std::string graph;
  /// And the stage of that graph.
  std::string stage;
};

/// A step that the program marked.
struct TraceStep {
  uint64_t number = 0;
  int64_t startNs = 0;
  int64_t endNs = 0;
  /// Only to get the recording itself over its first costs.
  bool warmUp = false;
};

struct Trace {
  Trace() = default;
  Trace(const Trace &) = delete;
  Trace &operator=(const Trace &) = delete;

  /// Who made it: "kineto", "nsys", "ncu", "opprof capture" or "opprof
  /// observer".
  std::string kind;
  std::string file;
  std::optional<int64_t> baseTimeNs;
  std::optional<int64_t> rank;
  std::optional<int64_t> worldSize;
  std::optional<int64_t> processId;
  /// Where the recording begins with a step of the program: which one.
  std::optional<int64_t> firstStep;
  /// What recording a call that launches something took of the host, beside
  /// what recording operators did.
  int64_t recordingCallNs = 0;
  std::string host;
  std::vector<Device> devices;
  std::vector<TraceActivity> activities;
  ConfigPool configs;
  std::vector<RuntimeCall> runtimeCalls;
  std::vector<HostOp> hostOps;
  /// The first is of those of which nothing is known.
  std::vector<OperatorInputs> operatorInputs = {{}};
  std::vector<Place> places;
  std::vector<HostEvent> hostEvents;
  std::vector<ModuleFrame> moduleFrames;
  /// Functions of Python outside of PyTorch that took long, by file, line and
  /// name: what the host did where no operator ran.
  std::vector<HostEvent> longFrames;
  std::vector<Identity> identities;
  std::vector<TraceStep> steps;
  /// Time that the profiler itself took.
  std::vector<ProfilerOverhead> overheads;
  std::vector<MemoryUse> memory;
  std::vector<TensorAllocator> allocators;
  /// In no order.
  std::vector<Allocation> allocations;
  /// What hardware counters said of activities: places in `counterNames`, which
  /// are the recorder's own, and values, in nanoseconds, bytes or rates a
  /// second.
  std::vector<std::string> counterNames;
  std::vector<std::vector<std::pair<uint32_t, double>>> counters;
  /// As the recording tells them apart: there may be several of one number,
  /// each of another rank's.
  std::vector<std::string> processes;
  /// The process of each thread: operators, calls and what autograd records are
  /// counted by each process for itself.
  std::vector<ProcessId> threads;
  /// Events in the file, of every kind.
  uint64_t events = 0;
  /// Of them, work of devices of kinds whose events are not read.
  uint64_t otherDeviceEvents = 0;
  /// Times that had digits below the nanosecond and were rounded.
  uint64_t rounded = 0;
  /// What the reader has to say of the file, for a person.
  std::vector<std::string> notes;

  llvm::StringRef intern(llvm::StringRef text) { return strings.save(text); }

  const OperatorInputs &inputsOf(const HostOp &op) const {
    return operatorInputs[op.inputs];
  }
  /// Another thread, of the process of that name.
  ThreadId addThread(llvm::StringRef process);

  /// The place of such inputs, whose texts are the trace's own, in
  /// `operatorInputs`, where they are put if they are new.
  uint32_t placeOf(const OperatorInputs &inputs);

private:
  llvm::StringMap<ProcessId> processIds;
  /// By a hash of where the texts are, which are the trace's own.
  llvm::DenseMap<uint64_t, uint32_t> inputPlaces;
  TextPool strings;
};

} // namespace opprof::trace

#endif // OPPROF_TRACE_TRACE_H
