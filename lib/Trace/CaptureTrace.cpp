// Captures of opprof itself. One pass over the chunks. What numbers stand for
// is known when all are read: ids, their names, calls' names and the nodes of
// CUDA graphs may follow the records that point at them. Where only the last
// kernels are wanted, a pass before it finds the time at which they begin, so
// that memory grows with what is kept and not with the file.

#include "CapturedAllocations.h"
#include "Readers.h"

#include "opprof/Capture/CaptureJoins.h"
#include "opprof/Support/Median.h"
#include "opprof/Trace/InputShapes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

#include <simdjson.h>

#include <limits>
#include <map>
#include <queue>

using namespace llvm;
using namespace opprof;
using namespace opprof::trace;
using namespace opprof::capture;

namespace {

/// CUPTI's kind of a device's own memory.
constexpr uint32_t kDeviceMemory = 3;

/// How far ahead of the device the host may have launched: what it did longer
/// before the kernels that are kept is not.
constexpr uint64_t kHostLeadNs = 10'000'000'000;

/// Recording an operator takes no longer than this for more than a few of them.
constexpr uint32_t kMostRecordingNs = 100'000;

/// A kernel has at most about so many operators; of what launched kernels that
/// are kept, more are not read.
constexpr uint64_t kOperatorsPerKernel = 16;

/// Finds when the last `limit` kernels or operators of a capture begin.
class LastKernels final : public CaptureVisitor {
public:
  explicit LastKernels(uint64_t limit) : limit(limit) {}

  void kernel(const KernelRecord &r) override {
    ++kernels;
    count(r.start);
  }
  void operatorRun(const OperatorRecord &r) override { count(r.start); }

  /// 0 where all are kept.
  uint64_t begin() const { return total > limit ? latest.top() : 0; }

  uint64_t total = 0;
  uint64_t kernels = 0;
  uint64_t first = std::numeric_limits<uint64_t>::max();

private:
  void count(uint64_t start) {
    first = std::min(first, start);
    ++total;
    if (latest.size() == limit) {
      if (start <= latest.top())
        return;
      latest.pop();
    }
    latest.push(start);
  }

  uint64_t limit;
  std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> latest;
};

class Builder final : public CaptureJoins {
public:
  /// What began before `begin` is left out, and operators that ended before
  /// `beginRealtime`; 0 keeps everything.
  Builder(const CaptureReader &reader, Trace &trace, uint64_t begin,
          int64_t beginRealtime)
      : CaptureJoins(reader), trace(trace), begin(begin),
        hostBegin(begin > kHostLeadNs ? begin - kHostLeadNs : 0),
        beginRealtime(beginRealtime), allocations(trace, begin) {}

  /// When what the host did for the activities that are kept begins, in
  /// nanoseconds since 1970; 0 where everything is kept.
  int64_t hostBeginRealtime() const {
    return hostBegin && trace.baseTimeNs
               ? int64_t(hostBegin) + *trace.baseTimeNs
               : 0;
  }

  void kernel(const KernelRecord &r) override;
  void memcpy(const MemcpyRecord &r) override;
  void memset(const MemsetRecord &r) override;
  void sync(const SyncRecord &r) override;
  void api(const ApiRecord &r) override;
  void overhead(const OverheadRecord &r) override;
  void marker(const MarkerRecord &r) override;
  void mark(const MarkRecord &r) override;
  void memory(const MemoryRecord &r) override;
  void operatorRun(const OperatorRecord &r) override;
  void place(const PlaceRecord &r) override;
  void allocation(const AllocationRecord &r) override;

  void finish(const CaptureSummary &summary);

  /// What makes the file unusable; empty if nothing does.
  std::string error;
  bool keepsWarmUp = false;

private:
  struct Span {
    int64_t start = 0;
    int64_t duration = 0;
  };
  /// A point of time, or an error where no clock shows it.
  int64_t at(uint64_t time, const char *what);
  Span span(uint64_t start, uint64_t end, const char *what);
  /// What kernels, copies and sets have in common.
  template <typename Record>
  TraceActivity &add(const Record &r, ActivityKind kind, const char *what);

  StringRef text(uint32_t number);
  StringRef kernelName(uint32_t number);
  ThreadId thread(uint64_t process, uint32_t number);
  void resolveIdentities();
  std::optional<uint32_t> parseIdentity(uint64_t id, const std::string &text);
  void nameCalls();
  void resolveWaits();
  void addRanges();
  void addOperators();
  std::vector<uint32_t> recordingTimes() const;
  void addMemory();
  void addDevices();
  void dropWarmUp();
  /// Whether operators are what the file holds, and not launches.
  bool isObserver() const;
  void addNotes(const CaptureSummary &summary);

  Trace &trace;
  uint64_t begin;
  uint64_t hostBegin;
  int64_t beginRealtime;
  /// Strings of the file that are interned already.
  std::vector<StringRef> names;
  std::unordered_map<uint32_t, StringRef> kernelNames;
  std::map<std::pair<uint64_t, uint32_t>, ThreadId> threadIds;
  // Keys of these come from the file, and may be what DenseMap keeps for
  // itself.
  std::unordered_map<uint64_t, uint32_t> identityOfId;
  int64_t totalDuration = 0;
  int64_t latest = 0;
  uint64_t endless = 0;
  uint64_t badNames = 0;

  /// Domain and number of each of Trace::runtimeCalls.
  std::vector<std::pair<uint32_t, uint32_t>> apis;
  struct Range {
    std::optional<MarkerRecord> begin, end;
  };
  std::unordered_map<uint32_t, Range> ranges;
  std::vector<uint32_t> rangeOrder;
  std::map<uint64_t, int64_t> openSteps;
  std::vector<std::pair<SyncRecord, Span>> waits;
  std::vector<MemoryRecord> memoryRecords;
  std::vector<OperatorRecord> operators;
  std::vector<PlaceRecord> places;
  CapturedAllocations allocations;
};

} // namespace

int64_t Builder::at(uint64_t time, const char *what) {
  if (time > uint64_t(kMaxTotalNs)) {
    if (error.empty())
      error = (Twine(what) + " is at " + Twine(time) +
               " ns, later than any clock shows; the file is damaged")
                  .str();
    return 0;
  }
  latest = std::max(latest, int64_t(time));
  return int64_t(time);
}

Builder::Span Builder::span(uint64_t start, uint64_t end, const char *what) {
  Span result{at(start, what), 0};
  // CUPTI writes 0 where it did not see the end.
  if (end < start) {
    ++endless;
    return result;
  }
  result.duration = at(end, what) - result.start;
  if (!error.empty())
    return {};
  if (result.duration > kMaxTotalNs - totalDuration) {
    error = (Twine("with ") + what +
             " the durations add up to more than lifetimes; the file is "
             "damaged")
                .str();
    return {};
  }
  totalDuration += result.duration;
  return result;
}

StringRef Builder::text(uint32_t number) {
  if (number < names.size() && names[number].data())
    return names[number];
  std::string_view found = Reader.string(number);
  StringRef kept = trace.intern({found.data(), found.size()});
  // A number without a string takes no place in the table.
  if (found.data() && number < (1u << 28)) {
    if (number >= names.size())
      names.resize(NextPowerOf2(number));
    names[number] = kept;
  }
  return kept;
}

/// Names of kernels are symbols as the compiler mangled them. They are shown as
/// torch.profiler shows them.
StringRef Builder::kernelName(uint32_t number) {
  auto [it, inserted] = kernelNames.try_emplace(number);
  if (inserted)
    it->second = trace.intern(demangled(text(number).str()));
  return it->second;
}

ThreadId Builder::thread(uint64_t process, uint32_t number) {
  auto [it, inserted] = threadIds.try_emplace({process, number});
  if (inserted)
    it->second = trace.addThread(std::to_string(process));
  return it->second;
}

template <typename Record>
TraceActivity &Builder::add(const Record &r, ActivityKind kind,
                            const char *what) {
  Span when = span(r.start, r.end, what);
  TraceActivity &activity = trace.activities.emplace_back();
  activity.kind = kind;
  activity.startNs = when.start;
  activity.durationNs = when.duration;
  activity.device = r.device;
  if (r.stream != kNone)
    activity.stream = r.stream;
  if (r.correlation && r.correlation != kNone)
    activity.correlation = r.correlation;
  if (r.graphNode)
    activity.graphNode = r.graphNode;
  return activity;
}

/// Sizes of a grid or block, where the record has them.
static std::optional<std::array<uint64_t, 3>> sizes(const int32_t (&from)[3]) {
  if (llvm::any_of(from, [](int32_t size) { return size < 0; }))
    return std::nullopt;
  return {{uint64_t(from[0]), uint64_t(from[1]), uint64_t(from[2])}};
}

void Builder::kernel(const KernelRecord &r) {
  if (r.start < begin)
    return;
  TraceActivity &kernel = add(r, ActivityKind::Kernel, "a kernel");
  kernel.name = kernelName(r.name);
  LaunchConfig config;
  config.grid = sizes(r.grid);
  config.block = sizes(r.block);
  config.registers = r.registers;
  config.sharedMemory = uint64_t(r.staticShared) + r.dynamicShared;
  config.localMemory = r.localPerThread;
  kernel.config = trace.configs.keep(config);
}

void Builder::memcpy(const MemcpyRecord &r) {
  if (r.start < begin)
    return;
  TraceActivity &copy = add(r, ActivityKind::Memcpy, "a copy");
  copy.name = trace.intern(copyName(r));
  copy.bytes = r.bytes;
}

void Builder::memset(const MemsetRecord &r) {
  if (r.start < begin)
    return;
  TraceActivity &set = add(r, ActivityKind::Memset, "a memset");
  set.name = trace.intern(memsetName(r));
  set.bytes = r.bytes;
}

void Builder::sync(const SyncRecord &r) {
  // A stream that waits for an event does not hold up the host.
  if (r.type == 2 || r.end < hostBegin)
    return;
  waits.push_back({r, span(r.start, r.end, "a synchronization")});
}

void Builder::api(const ApiRecord &r) {
  if (r.end < hostBegin)
    return;
  Span when = span(r.start, r.end, "a call");
  RuntimeCall &call = trace.runtimeCalls.emplace_back();
  apis.push_back({r.domain, r.cbid});
  call.thread = thread(r.process, r.thread);
  call.startNs = when.start;
  call.durationNs = when.duration;
  if (r.correlation && r.correlation != kNone)
    call.correlation = r.correlation;
}

void Builder::overhead(const OverheadRecord &r) {
  if (r.end < hostBegin)
    return;
  Span when = span(r.start, r.end, "an overhead");
  trace.overheads.push_back(
      {trace.intern(overheadName(r.kind)), when.start, when.duration});
}

void Builder::marker(const MarkerRecord &r) {
  at(r.time, "a range");
  if (!(r.flags & 6))
    return;
  if (r.flags & 4 && r.time < hostBegin) {
    ranges.erase(r.id);
    return;
  }
  auto [it, inserted] = ranges.try_emplace(r.id);
  if (inserted)
    rangeOrder.push_back(r.id);
  (r.flags & 2 ? it->second.begin : it->second.end) = r;
}

void Builder::mark(const MarkRecord &r) {
  int64_t time = at(r.time, "a mark");
  if (r.kind == 1) {
    openSteps[r.value] = time;
    return;
  }
  auto open = openSteps.find(r.value);
  if (r.kind != 2 || open == openSteps.end())
    return;
  if (time >= open->second && uint64_t(open->second) >= begin)
    trace.steps.push_back(
        {r.value, open->second, time, text(r.name) == StringRef(kWarmUpStep)});
  openSteps.erase(open);
}

void Builder::memory(const MemoryRecord &r) {
  at(r.time, "an allocation");
  if (r.kind == kDeviceMemory)
    memoryRecords.push_back(r);
}

void Builder::operatorRun(const OperatorRecord &r) {
  if (beginRealtime && Clock.cupti <= uint64_t(kMaxTotalNs) &&
      Clock.realtime <= uint64_t(kMaxTotalNs) &&
      int64_t(std::min(r.end, uint64_t(kMaxTotalNs))) +
              int64_t(Clock.realtime) - int64_t(Clock.cupti) <
          beginRealtime)
    return;
  if (r.end >= hostBegin && (r.start >= begin || !isObserver()))
    operators.push_back(r);
}

void Builder::place(const PlaceRecord &r) { places.push_back(r); }

void Builder::allocation(const AllocationRecord &r) {
  at(r.time, "an allocation");
  if (error.empty())
    allocations.add(r);
}

bool Builder::isObserver() const {
  auto it = Meta.find(std::string(kRecorderKey));
  return it != Meta.end() && it->second == kObserver;
}

//===----------------------------------------------------------------------===//
// Joins
//===----------------------------------------------------------------------===//

/// The identity that an id's JSON states, or none where it states no known one.
std::optional<uint32_t> Builder::parseIdentity(uint64_t id,
                                               const std::string &text) {
  simdjson::dom::parser parser;
  simdjson::padded_string padded(text);
  simdjson::dom::object keys;
  if (parser.parse(padded).get(keys))
    return std::nullopt;
  Identity identity;
  std::string_view value;
  uint64_t line = 0;
  if (!keys["graph"].get(value))
    identity.graph = std::string(value);
  if (!keys["stage"].get(value))
    identity.stage = std::string(value);
  if (!keys["node"].get(value)) {
    identity.node = std::string(value);
  } else if (!keys["file"].get(value) && !keys["line"].get(line) && line &&
             line <= std::numeric_limits<uint32_t>::max()) {
    identity.file = std::string(value);
    identity.line = uint32_t(line);
  }
  if (identity.node.empty() && identity.file.empty())
    return std::nullopt;
  trace.identities.push_back(std::move(identity));
  return trace.identities.size() - 1;
}

void Builder::resolveIdentities() {
  // Of waits: what is on the device has its own below.
  for (RuntimeCall &call : trace.runtimeCalls)
    if (call.correlation)
      if (uint64_t id = idOf(*call.correlation, 0))
        call.externalId = id;
  for (TraceActivity &activity : trace.activities) {
    uint64_t id = idOf(activity.correlation.value_or(kNone),
                       activity.graphNode.value_or(0));
    if (!id) {
      activity.noIdentity =
          activity.graphNode
              ? "its node of the CUDA graph was captured without an id"
              : "it was launched outside of what carries an id: a wrapper's "
                "line, or a node";
      continue;
    }
    const std::string *name = nameOfId(id);
    // An operator's, where the observer ran.
    activity.externalId = id;
    if (!name) {
      activity.noIdentity =
          trace.intern(("it carries the id " + Twine(id) +
                        ", and the capture does not say what that stands for")
                           .str());
      continue;
    }
    constexpr uint32_t kBad = ~uint32_t(0);
    auto [it, inserted] = identityOfId.try_emplace(id, kBad);
    if (inserted) {
      it->second = parseIdentity(id, *name).value_or(kBad);
      badNames += it->second == kBad;
    }
    if (it->second == kBad)
      activity.noIdentity = trace.intern(
          ("it carries the id " + Twine(id) +
           ", and what the capture says of that is no line and no node")
              .str());
    else
      activity.identity = it->second;
  }
}

void Builder::nameCalls() {
  std::map<std::pair<uint32_t, uint32_t>, StringRef> known;
  for (auto [call, number] : llvm::zip_equal(trace.runtimeCalls, apis)) {
    auto [it, inserted] = known.try_emplace(number);
    if (inserted)
      it->second = trace.intern(apiNameOf(number.first, number.second));
    call.name = it->second;
  }
}

/// Calls that wait are there as calls, unless calls were not recorded.
void Builder::resolveWaits() {
  static const char *names[] = {"Synchronize", "cuEventSynchronize",
                                "Synchronize", "cuStreamSynchronize",
                                "cuCtxSynchronize"};
  DenseSet<uint64_t> calls;
  for (const RuntimeCall &call : trace.runtimeCalls)
    if (call.correlation)
      calls.insert(*call.correlation);
  for (const auto &[r, when] : waits) {
    if (calls.contains(r.correlation))
      continue;
    RuntimeCall &call = trace.runtimeCalls.emplace_back();
    call.name = names[r.type < std::size(names) ? r.type : 0];
    call.thread = thread(trace.processId.value_or(0), 0);
    call.startNs = when.start;
    call.durationNs = when.duration;
  }
}

void Builder::addRanges() {
  uint64_t open = 0;
  for (uint32_t id : rangeOrder) {
    auto found = ranges.find(id);
    if (found == ranges.end() || !found->second.begin)
      continue;
    const Range &range = found->second;
    int64_t start = int64_t(range.begin->time);
    // A program that was ended inside a range was in it to the last.
    int64_t end = range.end ? int64_t(range.end->time) : latest;
    open += !range.end;
    HostOp &op = trace.hostOps.emplace_back();
    op.name = text(range.begin->name);
    op.thread = thread(trace.processId.value_or(0), range.begin->thread);
    op.startNs = start;
    op.durationNs = std::max<int64_t>(end - start, 0);
    op.annotation = true;
    op.open = !range.end;
  }
  if (open)
    trace.notes.push_back(std::to_string(open) +
                          (open == 1 ? " range has" : " ranges have") +
                          " no end: taken to last as long as the capture");
}

/// What the recording of each operator took of its thread: what it takes of the
/// operators of that name, as far as it was measured, or else of all, and what
/// PyTorch takes to call back. Where the inputs were noted it takes longer.
std::vector<uint32_t> Builder::recordingTimes() const {
  // By name, and kNone for all.
  std::map<std::pair<uint32_t, bool>, std::vector<uint32_t>> measured;
  for (const OperatorRecord &r : operators)
    if (r.recordingNs)
      for (uint32_t name : {r.name, kNone})
        measured[{name, r.sizes != kNone}].push_back(r.recordingNs);
  const uint64_t calling = metaNumber(std::string(kCallingKey)).value_or(0);
  std::map<std::pair<uint32_t, bool>, uint32_t> usual;
  for (auto &[key, times] : measured)
    usual[key] = uint32_t(std::min<uint64_t>(
        medianOf(std::move(times)) + calling, kMostRecordingNs));
  std::vector<uint32_t> times;
  for (const OperatorRecord &r : operators) {
    auto it = usual.find({r.name, r.sizes != kNone});
    if (it == usual.end())
      it = usual.find({kNone, r.sizes != kNone});
    times.push_back(it == usual.end() ? 0 : it->second);
  }
  return times;
}

void Builder::addOperators() {
  // Records are written where operators end; ids say in which order those of a
  // thread began.
  llvm::sort(operators, [](const OperatorRecord &a, const OperatorRecord &b) {
    return std::pair(a.start, a.id) < std::pair(b.start, b.id);
  });
  std::unordered_map<uint32_t, uint32_t> placeOf;
  for (const PlaceRecord &r : places) {
    if (!placeOf.try_emplace(r.number, trace.places.size()).second)
      continue;
    Place &place = trace.places.emplace_back();
    place.module = text(r.module);
    place.function = text(r.function);
    place.group = text(r.group);
    place.source = text(r.file);
    if (r.line)
      place.source = trace.intern((place.source + ":" + Twine(r.line)).str());
  }
  allocations.finish();
  for (Allocation &allocation : trace.allocations)
    if (allocation.place) {
      auto place = placeOf.find(*allocation.place);
      allocation.place =
          place == placeOf.end() ? OptionalPlace() : place->second;
    }
  uint64_t process = trace.processId.value_or(0);
  const std::vector<uint32_t> recording = recordingTimes();
  for (auto [at, r] : llvm::enumerate(operators)) {
    Span when = span(r.start, r.end, "an operator");
    auto place = placeOf.find(r.place);
    std::optional<uint32_t> where =
        place == placeOf.end() ? std::nullopt : std::optional(place->second);
    ThreadId own = thread(process, r.thread);
    if (r.scope == uint8_t(OperatorScope::Host)) {
      trace.hostEvents.push_back(
          {text(r.name), own, when.start, when.duration, where});
      continue;
    }
    HostOp &op = trace.hostOps.emplace_back();
    op.name = text(r.name);
    op.thread = own;
    op.startNs = when.start;
    op.durationNs = when.duration;
    op.recordingNs = recording[at];
    op.externalId = r.id;
    op.place = where;
    op.annotation = r.scope == uint8_t(OperatorScope::Range);
    op.backward = r.scope == uint8_t(OperatorScope::Backward);
    if (r.sequence >= 0)
      op.sequenceNumber = r.sequence;
    if (r.forwardThread)
      op.forwardThread = thread(process, r.forwardThread);
    OperatorInputs inputs;
    inputs.dims = text(r.sizes);
    inputs.types = text(r.types);
    if (r.values)
      inputs.values = text(r.values - 1);
    std::vector<std::string> types = readInputTexts(inputs.types);
    if (!types.empty())
      inputs.firstType = trace.intern(types.front());
    op.inputs = trace.placeOf(inputs);
  }
}

void Builder::addMemory() {
  llvm::stable_sort(memoryRecords,
                    [](const MemoryRecord &a, const MemoryRecord &b) {
                      return a.time < b.time;
                    });
  struct State {
    MemoryUse use;
    std::unordered_map<uint64_t, uint64_t> live;
    uint64_t held = 0;
  };
  std::map<uint32_t, State> devices;
  for (const MemoryRecord &r : memoryRecords) {
    State &state = devices[r.device];
    state.use.device = r.device;
    if (r.operation == 1) {
      ++state.use.allocations;
      uint64_t &bytes = state.live[r.address];
      state.held = SaturatingAdd(state.held - bytes, r.bytes);
      bytes = r.bytes;
      state.use.allocatedBytes =
          SaturatingAdd(state.use.allocatedBytes, r.bytes);
      if (state.held > state.use.peakBytes) {
        state.use.peakBytes = state.held;
        state.use.peakTimeNs = int64_t(r.time);
      }
    } else {
      ++state.use.releases;
      auto it = state.live.find(r.address);
      if (it == state.live.end())
        continue;
      state.held -= std::min(state.held, it->second);
      state.live.erase(it);
    }
  }
  for (auto &[id, state] : devices)
    trace.memory.push_back(state.use);
}

void Builder::addDevices() {
  for (const auto &[id, entry] : Devices) {
    const auto &[r, name] = entry;
    Device &device = trace.devices.emplace_back();
    device.id = id;
    device.name = name;
    device.kind = "cuda";
    device.smCount = r.smCount;
    device.totalMemory = r.memoryBytes;
    device.maxThreadsPerSM = r.maxThreadsPerSm;
    device.registersPerSM = r.registersPerSm;
    device.sharedPerSM = r.sharedPerSm;
    device.warpSize = r.warpSize;
    device.dropZeros();
    if (r.computeMajor)
      device.computeCapability = {r.computeMajor, r.computeMinor};
  }
}

void Builder::addNotes(const CaptureSummary &summary) {
  auto note = [&](const Twine &text) { trace.notes.push_back(text.str()); };
  if (!summary.complete)
    note("the capture was not ended by its program, which was killed or still "
         "runs: read as far as it was written" +
         (summary.ignoredTailBytes
              ? "; the last " + Twine(summary.ignoredTailBytes) +
                    " bytes, of a chunk that was cut short, are left out"
              : Twine("")));
  if (summary.lost)
    note(Twine(summary.lost) +
         " records were lost while the program ran: sums are too small by "
         "them");
  if (endless)
    note(Twine(endless) + " events have no end and count as 0 ns long");
  if (badNames)
    note(Twine(badNames) + " ids stand for something that is no line and no "
                           "node");
  if (!openSteps.empty())
    note("step " + Twine(openSteps.begin()->first) +
         (openSteps.size() > 1
              ? " and " + Twine(openSteps.size() - 1) + " more were"
              : Twine(" was")) +
         " begun and not ended: what ran in it counts to no step");
  auto it = Meta.find("not recorded");
  if (it != Meta.end() && !it->second.empty())
    note("not recorded: " + it->second);
  it = Meta.find("memory");
  if (it != Meta.end() && !it->second.empty())
    note(it->second);
  it = Meta.find("steps");
  if (it != Meta.end() && !it->second.empty())
    note(it->second);
}

/// Leaves out what ran in the steps that only got the recording over its first
/// costs. The device was idle at their ends, so times tell what that is.
void Builder::dropWarmUp() {
  std::vector<TraceStep> warmUps;
  llvm::copy_if(trace.steps, std::back_inserter(warmUps),
                [](const TraceStep &step) { return step.warmUp; });
  if (warmUps.empty())
    return;
  auto inside = [&](int64_t start) {
    return llvm::any_of(warmUps, [&](const TraceStep &step) {
      return step.startNs <= start && start <= step.endNs;
    });
  };
  size_t activities = trace.activities.size();
  auto drop = [&](auto &list) {
    llvm::erase_if(list,
                   [&](const auto &entry) { return inside(entry.startNs); });
  };
  drop(trace.activities);
  drop(trace.runtimeCalls);
  drop(trace.hostOps);
  drop(trace.overheads);
  llvm::erase_if(trace.steps,
                 [](const TraceStep &step) { return step.warmUp; });
  trace.notes.push_back(
      (Twine(activities - trace.activities.size()) +
       " kernels, copies and sets before the first step are left out: the "
       "capture ran them to get over its own first costs")
          .str());
}

void Builder::finish(const CaptureSummary &summary) {
  trace.events = summary.records;
  auto number = [&](const char *key) -> std::optional<int64_t> {
    std::optional<uint64_t> value = metaNumber(key);
    if (!value || *value > uint64_t(std::numeric_limits<int64_t>::max()))
      return std::nullopt;
    return int64_t(*value);
  };
  if (isObserver())
    trace.kind = kObserver;
  trace.rank = number("rank");
  trace.worldSize = number("world_size");
  trace.processId = number("pid");
  // Of what is cut the beginning is missing.
  if (!begin)
    trace.firstStep = number("first step");
  trace.recordingCallNs = std::min<int64_t>(
      number(kNotingCallKey.data()).value_or(0), kMostRecordingNs);
  auto host = Meta.find("host");
  if (host != Meta.end())
    trace.host = host->second;
  if (Clock.cupti && Clock.cupti <= uint64_t(kMaxTotalNs) &&
      Clock.realtime <= uint64_t(kMaxTotalNs))
    trace.baseTimeNs = int64_t(Clock.realtime) - int64_t(Clock.cupti);

  resolveIdentities();
  nameCalls();
  resolveWaits();
  addRanges();
  addOperators();
  if (!keepsWarmUp)
    dropWarmUp();
  addMemory();
  addDevices();
  llvm::sort(trace.steps, [](const TraceStep &a, const TraceStep &b) {
    return a.startNs < b.startNs;
  });
  addNotes(summary);
}

/// Puts what the observer recorded into the capture of the same process, on the
/// capture's clock.
static void takeOperators(Trace &trace, const Trace &from) {
  int64_t shift = 0;
  if (trace.baseTimeNs && from.baseTimeNs)
    shift = *from.baseTimeNs - *trace.baseTimeNs;
  else
    trace.notes.push_back("no clock says how the operators lie to the kernels");
  auto moved = [&](int64_t time) {
    return std::clamp<int64_t>(time + shift, 0, kMaxTotalNs);
  };
  // Threads have other numbers there.
  auto thread = [&, first = trace.threads.size()](ThreadId number) {
    return ThreadId(first + number);
  };
  for (ProcessId process : from.threads)
    trace.addThread(from.processes[process]);
  uint32_t firstPlace = trace.places.size();
  for (const Place &place : from.places)
    trace.places.push_back(
        {trace.intern(place.module), trace.intern(place.source),
         trace.intern(place.function), trace.intern(place.group)});
  std::vector<uint32_t> inputs;
  for (const OperatorInputs &own : from.operatorInputs)
    inputs.push_back(
        trace.placeOf({trace.intern(own.kernelHash),
                       trace.intern(own.firstType), trace.intern(own.dims),
                       trace.intern(own.types), trace.intern(own.values)}));
  for (HostOp op : from.hostOps) {
    op.name = trace.intern(op.name);
    op.inputs = inputs[op.inputs];
    op.thread = thread(op.thread);
    if (op.forwardThread)
      op.forwardThread = thread(*op.forwardThread);
    if (op.place)
      op.place = *op.place + firstPlace;
    op.startNs = moved(op.startNs);
    trace.hostOps.push_back(op);
  }
  for (HostEvent event : from.hostEvents) {
    event.name = trace.intern(event.name);
    event.thread = thread(event.thread);
    if (event.place)
      *event.place += firstPlace;
    event.startNs = moved(event.startNs);
    trace.hostEvents.push_back(event);
  }
  trace.allocators = from.allocators;
  for (Allocation allocation : from.allocations) {
    if (allocation.place)
      allocation.place = *allocation.place + firstPlace;
    if (!allocation.isEarlier)
      allocation.startNs = moved(allocation.startNs);
    if (allocation.endNs != Allocation::kHeld)
      allocation.endNs = moved(allocation.endNs);
    trace.allocations.push_back(allocation);
  }
  llvm::append_range(trace.notes, from.notes);
  trace.firstStep = from.firstStep;
}

//===----------------------------------------------------------------------===//
// Entry points
//===----------------------------------------------------------------------===//

bool opprof::trace::isCapture(StringRef data) {
  return data.starts_with(StringRef(kFileMagic, sizeof(kFileMagic)));
}

Expected<std::unique_ptr<Trace>>
opprof::trace::readCapture(MemoryBufferRef buffer, const ReadOptions &options) {
  StringRef data = buffer.getBuffer(), name = buffer.getBufferIdentifier();
  uint64_t lastKernels = options.lastKernels;
  auto trace = std::make_unique<Trace>();
  trace->kind = "opprof capture";
  trace->file = name.str();
  CaptureReader reader;
  uint64_t begin = 0;
  // A file that is too small to hold more kernels need not be counted.
  if (lastKernels && data.size() / sizeof(OperatorRecord) > lastKernels) {
    LastKernels last(lastKernels);
    if (!reader.readBuffer({data.data(), data.size()}, name.str(), last))
      return createStringError(reader.error());
    begin = last.begin();
    if (begin)
      trace->notes.push_back(
          formatv("the capture holds {0} {1}: this is about the last {2}, "
                  "which begin {3:f1} s after the first",
                  last.total, last.kernels ? "kernels" : "operators",
                  lastKernels, double(begin - last.first) / 1e9));
  }
  Builder builder(reader, *trace, begin, options.beginRealtimeNs);
  if (!reader.readBuffer({data.data(), data.size()}, name.str(), builder))
    return createStringError(reader.error());
  builder.keepsWarmUp = options.warmUp;
  if (builder.error.empty())
    builder.finish(reader.summary());
  if (!builder.error.empty())
    return createStringError(name + ": " + builder.error);
  if (options.operators) {
    ReadOptions own = options;
    own.operators.reset();
    own.lastKernels *= kOperatorsPerKernel;
    own.beginRealtimeNs = builder.hostBeginRealtime();
    Expected<std::unique_ptr<Trace>> operators =
        readCapture(*options.operators, own);
    if (!operators)
      return operators.takeError();
    takeOperators(*trace, **operators);
  }
  return trace;
}
