// What a recording of a program holds. The events of one recording with exact
// integer nanoseconds, whoever made it: every reader of traces fills this in,
// and Attribution reads nothing else. Nothing is joined here.

#ifndef OPPROF_TRACE_TRACE_H
#define OPPROF_TRACE_TRACE_H

#include "opprof/Support/Recording.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Allocator.h"
#include "llvm/Support/StringSaver.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace opprof::trace {

/// A process and thread of the host, as a place in Trace::threads.
using ThreadId = uint32_t;

/// A kernel, copy or memset.
struct TraceActivity : DeviceActivity {
  std::optional<uint64_t> correlation;
  std::optional<uint64_t> externalId;
  /// Place in Trace::identities: what launched it, as it was recorded.
  std::optional<uint32_t> identity;
  /// Why there is no identity, where that is known.
  llvm::StringRef noIdentity;
  /// Bytes a block, the parts of `sharedMemory`.
  std::optional<uint64_t> staticShared;
  std::optional<uint64_t> dynamicShared;
  /// Place in Trace::counters.
  std::optional<uint32_t> counters;
};

/// A call of the CUDA runtime or driver.
struct RuntimeCall {
  llvm::StringRef name;
  ThreadId thread = 0;
  int64_t startNs = 0;
  int64_t durationNs = 0;
  std::optional<uint64_t> correlation;
  std::optional<uint64_t> externalId;

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

/// An operator that the host ran, or a range that PyTorch itself marked.
struct HostOp {
  llvm::StringRef name;
  ThreadId thread = 0;
  int64_t startNs = 0;
  int64_t durationNs = 0;
  std::optional<uint64_t> externalId;
  /// Basename of the generated source file of a Triton kernel.
  llvm::StringRef kernelHash;
  llvm::StringRef inputType;
  /// Sizes of the inputs as the profiler writes them, by position of the
  /// schema: "[[8, 16], [16], []]", where [] is a scalar too. Empty where
  /// shapes were not recorded.
  llvm::StringRef inputDims;
  /// Their types, and the values of what is no tensor, likewise:
  /// ["float", "ScalarList"], ["", "[1, 1]"].
  llvm::StringRef inputTypes;
  llvm::StringRef inputValues;
  /// Autograd's number: of a forward operator that of the next function it
  /// records, of a backward one that of its own.
  std::optional<int64_t> sequenceNumber;
  /// Runs a function that a forward operator recorded.
  bool backward = false;
  /// The thread of that operator, where it was recorded.
  std::optional<ThreadId> forwardThread;
  /// In Trace::places: where it was called, if that was recorded.
  std::optional<uint32_t> place;
  /// A kernel that Triton compiled, with or without a hash.
  bool generated = false;
  /// Marked by user_annotation rather than cpu_op.
  bool annotation = false;
  /// Place in Trace::identities of the node that runs in this range.
  std::optional<uint32_t> identity;

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
  Trace() : strings(allocator) {}
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
  std::string host;
  std::vector<Device> devices;
  std::vector<TraceActivity> activities;
  std::vector<RuntimeCall> runtimeCalls;
  std::vector<HostOp> hostOps;
  std::vector<Place> places;
  std::vector<HostEvent> hostEvents;
  std::vector<ModuleFrame> moduleFrames;
  std::vector<Identity> identities;
  std::vector<TraceStep> steps;
  /// Time that the profiler itself took.
  std::vector<ProfilerOverhead> overheads;
  std::vector<MemoryUse> memory;
  /// What hardware counters said of activities: places in `counterNames`, which
  /// are the recorder's own, and values, in nanoseconds, bytes or rates a
  /// second.
  std::vector<std::string> counterNames;
  std::vector<std::vector<std::pair<uint32_t, double>>> counters;
  /// "pid/tid" of each thread.
  std::vector<std::string> threads;
  /// Events in the file, of every kind.
  uint64_t events = 0;
  /// Times that had digits below the nanosecond and were rounded.
  uint64_t rounded = 0;
  /// What the reader has to say of the file, for a person.
  std::vector<std::string> notes;

  llvm::StringRef intern(llvm::StringRef text) { return strings.save(text); }

private:
  llvm::BumpPtrAllocator allocator;
  llvm::UniqueStringSaver strings;
};

} // namespace opprof::trace

#endif // OPPROF_TRACE_TRACE_H
