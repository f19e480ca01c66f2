// Recordings as a trace that Perfetto opens, in the words of torch.profiler.

#include "opprof/Report/PerfettoTrace.h"

#include "opprof/Support/Intervals.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/MathExtras.h"

#include <deque>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <variant>

using namespace llvm;
using namespace opprof;
using namespace opprof::profile;
using namespace opprof::report;

/// The process of the steps; those of devices follow.
static constexpr unsigned kSteps = 1;

/// Perfetto drops what is before its zero. Of several recordings one may begin
/// before the first, which is already printed: zero is that much earlier.
static constexpr int64_t kEarliestNs = int64_t(24) * 3600 * 1'000'000'000;

/// Any times may stand in a file: what would lie beyond all clocks is at their
/// end.
static int64_t sumOf(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (!AddOverflow(a, b, sum))
    return sum;
  return b < 0 ? std::numeric_limits<int64_t>::min()
               : std::numeric_limits<int64_t>::max();
}

static int64_t differenceOf(int64_t a, int64_t b) {
  int64_t difference = 0;
  if (!SubOverflow(a, b, difference))
    return difference;
  return b > 0 ? std::numeric_limits<int64_t>::min()
               : std::numeric_limits<int64_t>::max();
}

/// What ends before it begins takes no time.
static Interval spanOf(int64_t startNs, int64_t durationNs) {
  return {startNs, sumOf(startNs, std::max<int64_t>(durationNs, 0))};
}

namespace {
/// What a thread did, and who says so.
struct HostSlice {
  StringRef category;
  StringRef name;
  /// In Host::tracks.
  uint32_t track = 0;
  int64_t startNs = 0;
  int64_t durationNs = 0;
  std::variant<std::monostate, const trace::HostOp *,
               const trace::RuntimeCall *, const trace::HostEvent *,
               const CompiledCall *, const Synchronization *>
      what;

  Interval span() const { return spanOf(startNs, durationNs); }
};

/// The threads of the host, by process and as they are shown.
struct Track {
  std::string process;
  std::string thread;
};

struct Host {
  std::vector<Track> tracks;
  std::vector<HostSlice> slices;
  /// Names that are made here.
  TextPool texts;

  uint32_t track(std::string process, std::string thread) {
    tracks.push_back({std::move(process), std::move(thread)});
    return tracks.size() - 1;
  }
};

/// What a slice of a device stands for: an activity, or several in a row.
struct DeviceSlice {
  int64_t startNs = 0;
  int64_t durationNs = 0;
  StringRef name;
  uint64_t kernels = 0;
};

class Printer {
public:
  Printer(raw_ostream &os, bool &hasEvents, uint64_t &numArrows,
          std::string prefix, int64_t shiftNs, const Profile &profile,
          const trace::Trace *recording, const Host &host)
      : os(os), hasEvents(hasEvents), numArrows(numArrows),
        prefix(std::move(prefix)), shiftNs(shiftNs), profile(profile),
        recording(recording), host(host) {
    for (const std::vector<Activity> *list :
         {&profile.kernels, &profile.copies})
      for (const Activity &activity : *list)
        activities.push_back(&activity);
    if (recording)
      findRecorded();
  }

  void print();

private:
  using Arguments = function_ref<void(json::OStream &)>;
  using Lane = std::vector<const Activity *>;

  void findRecorded();
  void steps();
  void findLaunches();
  void device(unsigned process, ArrayRef<const Activity *> activities);
  void lane(unsigned process, unsigned &thread, const std::string &label,
            const Lane &members);
  void joined(unsigned process, unsigned &thread, const std::string &label,
              StringRef category, const Lane &members,
              function_ref<StringRef(const Activity &)> nameOf);
  void counters(unsigned process, const std::string &label,
                const Lane &members);
  void hostTracks(unsigned first);
  void activityArguments(json::OStream &out, const Activity &activity);
  void hostArguments(json::OStream &out, const HostSlice &slice);
  void place(json::OStream &out, OptionalPlace number);
  StringRef sharedBy(const Activity &activity,
                     std::optional<std::string> profile::Node::*part) const;
  StringRef partitionOf(const Activity &activity) const;
  StringRef moduleOf(const Activity &activity) const;

  // How events are written.
  void event(function_ref<void(json::OStream &)> write);
  void processAttribute(json::OStream &out, unsigned process);
  void time(json::OStream &out, StringRef key, int64_t ns);
  void slice(StringRef category, StringRef name, unsigned process,
             unsigned thread, Interval span, Arguments arguments);
  void arrow(StringRef phase, uint64_t number, unsigned process,
             unsigned thread, int64_t startNs);
  void nameProcess(unsigned process, StringRef name, unsigned place);
  void nameThread(unsigned process, unsigned thread, StringRef name);

  raw_ostream &os;
  bool &hasEvents;
  /// So far, of all recordings: Perfetto knows arrows by their number alone.
  uint64_t &numArrows;
  /// Goes before the number of each process, where there are several.
  std::string prefix;
  /// What is added to every time.
  int64_t shiftNs;
  const Profile &profile;
  const trace::Trace *recording;
  const Host &host;
  /// Kernels, copies and memsets: the profile's, and those that it leaves out,
  /// such as a warm-up's, as the recording has them.
  std::vector<const Activity *> activities;
  std::deque<Activity> leftOut;
  DenseMap<const Activity *, const trace::TraceActivity *> recorded;
  /// The number of the arrow to an activity from the call that launched it, and
  /// of those that lead away from a call, a place in `host`.
  DenseMap<const Activity *, uint64_t> launches;
  DenseMap<uint32_t, SmallVector<uint64_t, 1>> arrows;
};
} // namespace

//===----------------------------------------------------------------------===//
// How events are written
//===----------------------------------------------------------------------===//

/// What a program named may be no UTF-8.
static void text(json::OStream &out, StringRef key, StringRef value) {
  out.attributeBegin(key);
  out.value(json::isUTF8(value) ? value.str() : json::fixUTF8(value));
  out.attributeEnd();
}

static void known(json::OStream &out, StringRef key, StringRef value) {
  if (!value.empty())
    text(out, key, value);
}

template <typename Number>
static void known(json::OStream &out, StringRef key, const Number &value) {
  if (value)
    out.attribute(key, *value);
}

static void known(json::OStream &out, StringRef key,
                  const std::optional<std::array<uint64_t, 3>> &value) {
  if (value)
    out.attributeArray(key, [&] {
      for (uint64_t extent : *value)
        out.value(extent);
    });
}

void Printer::event(function_ref<void(json::OStream &)> write) {
  os << (hasEvents ? ",\n" : "\n");
  hasEvents = true;
  json::OStream out(os);
  out.object([&] { write(out); });
}

void Printer::processAttribute(json::OStream &out, unsigned process) {
  if (prefix.empty())
    out.attribute("pid", process);
  else
    text(out, "pid", prefix + std::to_string(process));
}

/// Microseconds, exact to the nanosecond.
static void printTime(raw_ostream &os, int64_t ns) {
  uint64_t size = ns < 0 ? uint64_t(0) - uint64_t(ns) : uint64_t(ns);
  os << (ns < 0 ? "-" : "") << size / 1000 << '.'
     << format("%03u", unsigned(size % 1000));
}

void Printer::time(json::OStream &out, StringRef key, int64_t ns) {
  out.attributeBegin(key);
  out.rawValue([&](raw_ostream &os) { printTime(os, ns); });
  out.attributeEnd();
}

void Printer::slice(StringRef category, StringRef name, unsigned process,
                    unsigned thread, Interval span, Arguments arguments) {
  event([&](json::OStream &out) {
    out.attribute("ph", "X");
    out.attribute("cat", category);
    text(out, "name", name);
    processAttribute(out, process);
    out.attribute("tid", thread);
    time(out, "ts", sumOf(span.first, shiftNs));
    time(out, "dur", differenceOf(span.second, span.first));
    out.attributeObject("args", [&] { arguments(out); });
  });
}

/// An arrow is bound to the slice that begins there, also where the one before
/// ends then.
void Printer::arrow(StringRef phase, uint64_t number, unsigned process,
                    unsigned thread, int64_t startNs) {
  event([&](json::OStream &out) {
    out.attribute("ph", phase);
    out.attribute("id", number);
    processAttribute(out, process);
    out.attribute("tid", thread);
    time(out, "ts", sumOf(startNs, shiftNs));
    out.attribute("cat", "ac2g");
    out.attribute("name", "ac2g");
    if (phase == "f")
      out.attribute("bp", "e");
  });
}

void Printer::nameProcess(unsigned process, StringRef name, unsigned place) {
  auto meta = [&](StringRef kind, function_ref<void(json::OStream &)> args) {
    event([&](json::OStream &out) {
      out.attribute("ph", "M");
      out.attribute("name", kind);
      processAttribute(out, process);
      out.attributeObject("args", [&] { args(out); });
    });
  };
  meta("process_name",
       [&](json::OStream &out) { text(out, "name", name.trim()); });
  meta("process_sort_index",
       [&](json::OStream &out) { out.attribute("sort_index", place); });
}

void Printer::nameThread(unsigned process, unsigned thread, StringRef name) {
  auto meta = [&](StringRef kind, function_ref<void(json::OStream &)> args) {
    event([&](json::OStream &out) {
      out.attribute("ph", "M");
      out.attribute("name", kind);
      processAttribute(out, process);
      out.attribute("tid", thread);
      out.attributeObject("args", [&] { args(out); });
    });
  };
  meta("thread_name", [&](json::OStream &out) { text(out, "name", name); });
  meta("thread_sort_index",
       [&](json::OStream &out) { out.attribute("sort_index", thread); });
}

//===----------------------------------------------------------------------===//
// Devices
//===----------------------------------------------------------------------===//

/// What the launch was marked with while the program ran.
static void printIdentity(json::OStream &out, const trace::Identity &identity) {
  out.attributeObject("launched_by", [&] {
    known(out, "file", StringRef(identity.file));
    if (identity.line)
      out.attribute("line", identity.line);
    known(out, "node", StringRef(identity.node));
    known(out, "graph", StringRef(identity.graph));
    known(out, "stage", StringRef(identity.stage));
  });
}

/// What the recording says of each activity of the profile: the same ran at the
/// same time at the same place.
void Printer::findRecorded() {
  auto key = [](const DeviceActivity *one) {
    return std::tuple(one->startNs, one->durationNs, one->device,
                      one->stream.value_or(-1), one->name);
  };
  auto isBefore = [&](const auto *a, const auto *b) { return key(a) < key(b); };
  std::vector<const Activity *> known(activities);
  llvm::sort(known, isBefore);
  std::vector<const trace::TraceActivity *> all;
  for (const trace::TraceActivity &activity : recording->activities)
    all.push_back(&activity);
  llvm::sort(all, isBefore);
  DenseMap<uint64_t, const trace::RuntimeCall *> calls;
  for (const trace::RuntimeCall &call : recording->runtimeCalls)
    // Several processes count alike.
    if (recording->processes.size() <= 1 && call.correlation)
      calls.try_emplace(*call.correlation, &call);
  auto it = known.begin();
  for (const trace::TraceActivity *activity : all) {
    while (it != known.end() && key(*it) < key(activity))
      ++it;
    if (it != known.end() && key(*it) == key(activity)) {
      recorded[*it++] = activity;
      continue;
    }
    Activity &own = leftOut.emplace_back();
    static_cast<DeviceActivity &>(own) = *activity;
    own.id =
        profile.kernels.size() + profile.copies.size() + leftOut.size() - 1;
    own.phase = Phase::BeforeWindow;
    if (activity->correlation)
      if (const trace::RuntimeCall *call =
              calls.lookup(*activity->correlation)) {
        own.launchStartNs = call->startNs;
        own.launchDurationNs = call->durationNs;
      }
    recorded[&own] = activity;
    activities.push_back(&own);
  }
}

static Interval spanOf(const Activity &activity) {
  return spanOf(activity.startNs, activity.durationNs);
}

/// Slices of a track may not overlap in part: what runs at once is side by
/// side.
static std::vector<std::vector<const Activity *>>
lanesOf(std::vector<const Activity *> members) {
  llvm::sort(members, [](const Activity *a, const Activity *b) {
    return std::pair(a->startNs, a->id) < std::pair(b->startNs, b->id);
  });
  std::vector<std::vector<const Activity *>> lanes;
  std::vector<int64_t> ends;
  for (const Activity *activity : members) {
    size_t free =
        llvm::find_if(ends,
                      [&](int64_t end) { return end <= activity->startNs; }) -
        ends.begin();
    if (free == ends.size()) {
      lanes.emplace_back();
      ends.emplace_back();
    }
    lanes[free].push_back(activity);
    ends[free] = spanOf(*activity).second;
  }
  return lanes;
}

/// Slices of a track may lie in one another; what overlaps in part is beside
/// it. Places in `spans`, by track and then by time.
static std::vector<std::vector<uint32_t>>
nestedLanes(ArrayRef<Interval> spans) {
  std::vector<uint32_t> order(spans.size());
  std::iota(order.begin(), order.end(), 0);
  llvm::stable_sort(order, [&](uint32_t a, uint32_t b) {
    return std::tuple(spans[a].first, spans[b].second) <
           std::tuple(spans[b].first, spans[a].second);
  });
  std::vector<std::vector<uint32_t>> lanes;
  std::vector<SmallVector<int64_t>> open;
  for (uint32_t place : order) {
    auto [startNs, endNs] = spans[place];
    std::optional<size_t> free;
    for (auto [lane, ends] : llvm::enumerate(open)) {
      while (!ends.empty() && ends.back() <= startNs)
        ends.pop_back();
      if (!free && (ends.empty() || endNs <= ends.back()))
        free = lane;
    }
    if (!free) {
      free = lanes.size();
      lanes.emplace_back();
      open.emplace_back();
    }
    lanes[*free].push_back(place);
    open[*free].push_back(endNs);
  }
  return lanes;
}

static StringRef categoryOf(const Activity &activity) {
  switch (activity.kind) {
  case ActivityKind::Kernel:
    return "kernel";
  case ActivityKind::Memcpy:
    return "gpu_memcpy";
  case ActivityKind::Memset:
    return "gpu_memset";
  }
  llvm_unreachable("unknown kind");
}

/// What all nodes have that an activity computes; of several, none is said.
StringRef
Printer::sharedBy(const Activity &activity,
                  std::optional<std::string> profile::Node::*part) const {
  std::optional<StringRef> found;
  for (uint32_t node : activity.origin->nodes) {
    const std::optional<std::string> &own = profile.nodes[node].*part;
    StringRef text = own ? StringRef(*own) : StringRef();
    if (found && *found != text)
      return "";
    found = text;
  }
  return found.value_or("");
}

StringRef Printer::partitionOf(const Activity &activity) const {
  return sharedBy(activity, &profile::Node::partition);
}

/// The module that the host was in, or that of all nodes which it computes.
StringRef Printer::moduleOf(const Activity &activity) const {
  if (!activity.origin->module.empty())
    return activity.origin->module;
  return sharedBy(activity, &profile::Node::module);
}

void Printer::activityArguments(json::OStream &out, const Activity &activity) {
  out.attribute("id", activity.id);
  out.attribute("device", activity.device);
  known(out, "stream", activity.stream);
  known(out, "step", activity.step);
  if (const trace::TraceActivity *own = recorded.lookup(&activity)) {
    known(out, "correlation", own->correlation);
    known(out, "External id", own->externalId);
    if (own->identity)
      printIdentity(out, recording->identities[*own->identity]);
  }
  if (activity.launch) {
    const LaunchRecord &launch = profile.launches[*activity.launch];
    text(out, "compiled_graph", launch.compiledGraph);
    out.attribute("launch", launch.index);
  }
  const Origin &origin = *activity.origin;
  text(out, "method", origin.method);
  out.attribute("confidence", stringify(activity.confidence));
  known(out, "explanation", origin.explanation);
  out.attribute("phase", stringify(activity.phase));
  known(out, "host_op", origin.hostOp);
  known(out, "module", origin.module);
  known(out, "source", origin.source);
  known(out, "input_type", origin.inputType);
  known(out, "range", origin.range);
  if (activity.cudaGraph)
    out.attribute("cuda_graph", true);
  known(out, "graph node id", activity.graphNode);
  known(out, "bytes", activity.bytes);
  // As torch.profiler calls them, for what reads its traces.
  const LaunchConfig &config = *activity.config;
  known(out, "grid", config.grid);
  known(out, "block", config.block);
  known(out, "registers per thread", config.registers);
  known(out, "shared memory", config.sharedMemory);
  known(out, "local memory per thread", config.localMemory);
  known(out, "blocks per SM", config.blocksPerSM);
  known(out, "warps per SM", config.warpsPerSM);
  known(out, "est. achieved occupancy %", config.occupancyPct);
  if (activity.counters)
    out.attributeObject("metrics", [&] {
      for (const auto &[name, value] :
           profile.counters[*activity.counters].values)
        out.attribute(name, value);
    });
  out.attributeArray("nodes", [&] {
    for (uint32_t node : origin.nodes)
      out.value(nameIn(profile, profile.nodes[node].id));
  });
}

/// What follows one another and is of one partition, or module, and of one step
/// where that is known, as one slice.
void Printer::joined(unsigned process, unsigned &thread,
                     const std::string &label, StringRef category,
                     const Lane &members,
                     function_ref<StringRef(const Activity &)> nameOf) {
  StringRef current;
  OptionalPlace step;
  int64_t start = 0, end = 0;
  uint64_t kernels = 0;
  bool isNamed = false;
  auto close = [&] {
    if (current.empty())
      return;
    if (!isNamed)
      nameThread(process, ++thread, label);
    isNamed = true;
    slice(category, current, process, thread, {start, end},
          [&](json::OStream &out) { out.attribute("kernels", kernels); });
  };
  for (const Activity *activity : members) {
    StringRef name = nameOf(*activity);
    bool isOtherStep = step && activity->step && !(step == activity->step);
    if (name != current || isOtherStep) {
      close();
      current = name;
      start = activity->startNs;
      kernels = 0;
      step.reset();
    }
    if (activity->step)
      step = activity->step;
    end = spanOf(*activity).second;
    kernels += activity->kind == ActivityKind::Kernel;
  }
  close();
}

void Printer::counters(unsigned process, const std::string &label,
                       const Lane &members) {
  for (const Activity *activity : members) {
    if (!activity->counters)
      continue;
    for (const auto &[metric, value] :
         profile.counters[*activity->counters].values) {
      std::string name = metric + ", " + label;
      auto point = [&](int64_t atNs, double shown) {
        event([&](json::OStream &out) {
          out.attribute("ph", "C");
          text(out, "name", name);
          processAttribute(out, process);
          time(out, "ts", sumOf(atNs, shiftNs));
          out.attributeObject("args", [&] { out.attribute("value", shown); });
        });
      };
      point(activity->startNs, value);
      point(spanOf(*activity).second, 0);
    }
  }
}

void Printer::lane(unsigned process, unsigned &thread, const std::string &label,
                   const Lane &members) {
  nameThread(process, ++thread, label);
  for (const Activity *activity : members) {
    slice(categoryOf(*activity), activity->name, process, thread,
          spanOf(*activity),
          [&](json::OStream &out) { activityArguments(out, *activity); });
    if (auto it = launches.find(activity); it != launches.end())
      arrow("f", it->second, process, thread, activity->startNs);
  }
  auto hasNodes = [](const Activity *activity) {
    return !activity->origin->nodes.empty();
  };
  if (llvm::any_of(members, hasNodes)) {
    nameThread(process, ++thread, "nodes of " + label);
    for (const Activity *activity : members) {
      if (!hasNodes(activity))
        continue;
      std::vector<std::string> names;
      for (uint32_t node : activity->origin->nodes)
        names.push_back(nameIn(profile, profile.nodes[node].id));
      slice("node", llvm::join(names, " + "), process, thread,
            spanOf(*activity), [&](json::OStream &out) {
              out.attributeArray("nodes", [&] {
                for (const std::string &name : names)
                  out.value(name);
              });
              out.attribute("confidence", stringify(activity->confidence));
              out.attribute("kernel", activity->id);
            });
    }
  }
  joined(process, thread, "partitions of " + label, "partition", members,
         [&](const Activity &activity) { return partitionOf(activity); });
  joined(process, thread, "modules of " + label, "module", members,
         [&](const Activity &activity) { return moduleOf(activity); });
  counters(process, label, members);
}

void Printer::device(unsigned process, ArrayRef<const Activity *> activities) {
  std::map<int64_t, std::vector<const Activity *>> streams;
  for (const Activity *activity : activities)
    streams[activity->stream.value_or(0)].push_back(activity);
  unsigned thread = 0;
  for (auto &[stream, members] : streams)
    for (auto [number, own] : llvm::enumerate(lanesOf(std::move(members))))
      lane(process, thread,
           "stream " + std::to_string(stream) +
               (number ? " (" + std::to_string(number + 1) + ")" : ""),
           own);
}

//===----------------------------------------------------------------------===//
// The host
//===----------------------------------------------------------------------===//

/// What may launch: it has arrows.
static bool isCall(const HostSlice &slice) {
  return slice.category == "cuda_runtime" || slice.category == "cuda_driver" ||
         slice.category == "launch";
}

/// Which call launched what: calls are told apart by their time, which is the
/// profile's too. Of two threads' calls at the same nanosecond, none is said.
void Printer::findLaunches() {
  constexpr uint32_t kSeveral = std::numeric_limits<uint32_t>::max();
  // Any times may stand in a file: no number is free to mean "none".
  std::map<std::pair<int64_t, int64_t>, uint32_t> calls;
  for (auto [place, slice] : llvm::enumerate(host.slices))
    if (isCall(slice)) {
      auto [it, isNew] = calls.try_emplace(
          std::pair(slice.startNs, slice.durationNs), uint32_t(place));
      if (!isNew)
        it->second = kSeveral;
    }
  for (const Activity *activity : activities) {
    if (!activity->launchStartNs)
      continue;
    auto it = calls.find(
        {*activity->launchStartNs, activity->launchDurationNs.value_or(0)});
    if (it == calls.end() || it->second == kSeveral)
      continue;
    launches.try_emplace(activity, ++numArrows);
    arrows[it->second].push_back(numArrows);
  }
}

void Printer::place(json::OStream &out, OptionalPlace number) {
  if (!number || !recording)
    return;
  const trace::Place &place = recording->places[*number];
  known(out, "module", place.module);
  known(out, "source", place.source);
  known(out, "function", place.function);
  known(out, "group", place.group);
}

void Printer::hostArguments(json::OStream &out, const HostSlice &slice) {
  const auto &what = slice.what;
  if (const auto *op = std::get_if<const trace::HostOp *>(&what)) {
    known(out, "External id", (*op)->externalId);
    known(out, "Sequence number", (*op)->sequenceNumber);
    known(out, "Input Dims", recording->inputsOf(**op).dims);
    place(out, (*op)->place);
  } else if (const auto *call =
                 std::get_if<const trace::RuntimeCall *>(&what)) {
    known(out, "correlation", (*call)->correlation);
    known(out, "External id", (*call)->externalId);
  } else if (const auto *event = std::get_if<const trace::HostEvent *>(&what)) {
    place(out, (*event)->place);
  } else if (const auto *call = std::get_if<const CompiledCall *>(&what)) {
    known(out, "step", (*call)->step);
    out.attribute("launches", (*call)->launches);
    out.attribute("matched", (*call)->matched);
  } else if (const auto *wait = std::get_if<const Synchronization *>(&what)) {
    known(out, "op", StringRef((*wait)->op));
    known(out, "source", StringRef((*wait)->source));
  }
}

void Printer::hostTracks(unsigned first) {
  MapVector<StringRef, MapVector<StringRef, std::vector<uint32_t>>> processes;
  for (auto [place, slice] : llvm::enumerate(host.slices)) {
    const Track &track = host.tracks[slice.track];
    processes[track.process][track.thread].push_back(place);
  }
  unsigned process = first;
  for (auto &[name, threads] : processes) {
    nameProcess(process, ("host " + name).str(), process);
    unsigned thread = 0;
    for (auto &[label, members] : threads) {
      std::vector<Interval> spans;
      for (uint32_t place : members)
        spans.push_back(host.slices[place].span());
      for (auto [number, own] : llvm::enumerate(nestedLanes(spans))) {
        nameThread(process, ++thread,
                   label.str() +
                       (number ? " (" + std::to_string(number + 1) + ")" : ""));
        for (uint32_t member : own) {
          uint32_t place = members[member];
          const HostSlice &slice = host.slices[place];
          this->slice(slice.category, slice.name, process, thread, slice.span(),
                      [&](json::OStream &out) { hostArguments(out, slice); });
          if (auto it = arrows.find(place); it != arrows.end())
            for (uint64_t number : it->second)
              arrow("s", number, process, thread, slice.startNs);
        }
      }
    }
    ++process;
  }
}

/// What the recording says of the host: operators and ranges, calls of CUDA,
/// frames of modules and of the program's own functions, what Python did
/// besides, and what the profiler took.
static void addRecorded(const trace::Trace &trace, Host &host) {
  for (auto [number, process] : llvm::enumerate(trace.threads))
    host.track(trace.processes[process], "thread " + std::to_string(number));
  auto add = [&](StringRef category, const auto &event, auto what) {
    host.slices.push_back({category, event.name, event.thread, event.startNs,
                           event.durationNs, what});
  };
  for (const trace::HostOp &op : trace.hostOps)
    add(op.annotation ? "user_annotation" : "cpu_op", op, &op);
  for (const trace::RuntimeCall &call : trace.runtimeCalls)
    // The driver's functions begin so, and the runtime's with "cuda".
    add(call.name.starts_with("cu") && !call.name.starts_with("cuda")
            ? "cuda_driver"
            : "cuda_runtime",
        call, &call);
  for (const trace::ModuleFrame &frame : trace.moduleFrames)
    add("python_function", frame, std::monostate());
  for (const trace::HostEvent &frame : trace.longFrames)
    add("python_function", frame, &frame);
  for (const trace::HostEvent &event : trace.hostEvents)
    add("host", event, &event);
  uint32_t profiler = host.track("", "profiler");
  // Marks of captures; those of torch.profiler are ranges.
  if (trace.kind != "kineto")
    for (const trace::TraceStep &step : trace.steps)
      host.slices.push_back(
          {"user_annotation",
           step.warmUp
               ? StringRef("warm-up")
               : host.texts.save("ProfilerStep#" + std::to_string(step.number)),
           profiler,
           step.startNs,
           differenceOf(step.endNs, step.startNs),
           {}});
  for (const ProfilerOverhead &overhead : trace.overheads)
    host.slices.push_back({"overhead",
                           overhead.kind,
                           profiler,
                           overhead.startNs,
                           overhead.durationNs,
                           {}});
}

/// What a profile alone says of the host: when it launched, called what was
/// compiled, waited, and was held up by the profiler.
static void addProfiled(const Profile &profile, Host &host) {
  std::map<int64_t, uint32_t> launchers;
  std::set<std::tuple<int64_t, int64_t, int64_t>> seen;
  for (const std::vector<Activity> *list : {&profile.kernels, &profile.copies})
    for (const Activity &activity : *list) {
      if (!activity.launchStartNs)
        continue;
      int64_t rank = activity.origin->rank.value_or(-1);
      int64_t duration = activity.launchDurationNs.value_or(0);
      if (!seen.insert({rank, *activity.launchStartNs, duration}).second)
        continue;
      auto [it, isNew] = launchers.try_emplace(rank, 0);
      if (isNew)
        it->second = host.track(
            rank < 0 ? "" : "of rank " + std::to_string(rank), "launches");
      StringRef op = activity.origin->hostOp;
      host.slices.push_back({"launch",
                             op.empty() ? activity.name : op,
                             it->second,
                             *activity.launchStartNs,
                             duration,
                             {}});
    }
  auto addAll = [&](StringRef category, StringRef thread, const auto &list,
                    auto nameOf, auto whatOf) {
    if (list.empty())
      return;
    uint32_t track = host.track("", thread.str());
    for (const auto &row : list)
      host.slices.push_back({category, nameOf(row), track, row.startNs,
                             row.durationNs, whatOf(row)});
  };
  auto itself = [](const auto &row) { return &row; };
  auto nothing = [](const auto &) { return std::monostate(); };
  addAll(
      "cuda_runtime", "waits", profile.synchronizations,
      [](const Synchronization &row) { return StringRef(row.name); }, itself);
  addAll(
      "compiled_call", "compiled calls", profile.calls,
      [](const CompiledCall &row) {
        return row.compiledGraph.empty() ? StringRef("compiled call")
                                         : StringRef(row.compiledGraph);
      },
      itself);
  addAll(
      "cache_lookup", "cache lookups", profile.cacheLookups,
      [](const CacheLookup &) { return StringRef("cache lookup"); }, nothing);
  addAll(
      "overhead", "profiler", profile.overheads,
      [](const ProfilerOverhead &row) { return row.kind; }, nothing);
}

//===----------------------------------------------------------------------===//
// The whole
//===----------------------------------------------------------------------===//

void Printer::steps() {
  if (profile.steps.empty())
    return;
  nameProcess(kSteps, "steps", 0);
  std::vector<Interval> spans;
  for (const Step &step : profile.steps)
    spans.push_back({step.startNs, std::max(step.startNs, step.endNs)});
  // Ranks in one recording, and what a file says, may take steps at once.
  for (auto [number, lane] : llvm::enumerate(nestedLanes(spans))) {
    unsigned thread = number + 1;
    nameThread(kSteps, thread,
               number ? "steps (" + std::to_string(thread) + ")" : "steps");
    for (uint32_t place : lane) {
      const Step &step = profile.steps[place];
      slice("step", "step " + std::to_string(step.index), kSteps, thread,
            spans[place], [&](json::OStream &out) {
              out.attribute("phase", stringify(step.phase));
            });
    }
  }
}

void Printer::print() {
  steps();
  findLaunches();
  std::map<std::pair<int64_t, int64_t>, std::vector<const Activity *>> places;
  // A device that ranks share is each one's own.
  std::map<int64_t, int64_t> ranks;
  for (const Activity *activity : activities) {
    int64_t rank = activity->origin->rank.value_or(-1);
    if (rank >= 0)
      ranks.try_emplace(activity->device, rank);
    else if (auto it = ranks.find(activity->device); it != ranks.end())
      rank = it->second;
    places[{rank, activity->device}].push_back(activity);
  }
  unsigned process = kSteps;
  for (const auto &[place, activities] : places) {
    auto [rank, id] = place;
    auto known =
        llvm::find_if(profile.devices, [id = id](const Device &device) {
          return device.id == id;
        });
    std::string name = rank < 0 ? "" : "rank " + std::to_string(rank) + ", ";
    name += "device " + std::to_string(id) + " ";
    if (known != profile.devices.end())
      name += known->name;
    ++process;
    nameProcess(process, name, process - kSteps);
    device(process, activities);
  }
  hostTracks(process + 1);
}

/// Where the events of a recording begin.
static int64_t beginOf(const Profile &profile, const trace::Trace *recording,
                       const Host &host) {
  std::optional<int64_t> began;
  auto see = [&](int64_t startNs) {
    began = began ? std::min(*began, startNs) : startNs;
  };
  for (const std::vector<Activity> *list : {&profile.kernels, &profile.copies})
    for (const Activity &activity : *list)
      see(activity.startNs);
  if (recording)
    for (const trace::TraceActivity &activity : recording->activities)
      see(activity.startNs);
  for (const Step &step : profile.steps)
    see(step.startNs);
  for (const HostSlice &slice : host.slices)
    see(slice.startNs);
  return began.value_or(0);
}

/// As torch.profiler names what it says of a device.
static void printDevice(json::OStream &out, const Device &device) {
  out.attribute("id", device.id);
  text(out, "name", device.name);
  known(out, "totalGlobalMem", device.totalMemory);
  if (device.computeCapability) {
    out.attribute("computeMajor", (*device.computeCapability)[0]);
    out.attribute("computeMinor", (*device.computeCapability)[1]);
  }
  known(out, "maxThreadsPerMultiprocessor", device.maxThreadsPerSM);
  known(out, "regsPerMultiprocessor", device.registersPerSM);
  known(out, "sharedMemPerMultiprocessor", device.sharedPerSM);
  known(out, "warpSize", device.warpSize);
  known(out, "numSms", device.smCount);
}

bool PerfettoTrace::add(const Profile &profile, const trace::Trace *recording,
                        StringRef label) {
  Host host;
  if (recording)
    addRecorded(*recording, host);
  if (host.slices.empty()) {
    host.tracks.clear();
    addProfiled(profile, host);
  }
  const Source *source =
      profile.sources.size() == 1 ? &profile.sources.front() : nullptr;
  std::optional<int64_t> base;
  if (source)
    base = source->baseTimeNs;
  int64_t beginNs = beginOf(profile, recording, host);
  if (!hasBegun) {
    hasBegun = true;
    originNs = isAlone ? beginNs : differenceOf(beginNs, kEarliestNs);
    if (base)
      originRealtimeNs = sumOf(*base, originNs);
    os << "{\"displayTimeUnit\": \"ns\", \"deviceProperties\": ";
    json::OStream out(os);
    out.array([&] {
      for (const Device &device : profile.devices)
        if (!device.name.empty())
          out.object([&] { printDevice(out, device); });
    });
    if (originRealtimeNs)
      os << ", \"baseTimeNanoseconds\": " << *originRealtimeNs;
    if (isAlone && source && source->rank) {
      os << ", \"distributedInfo\": {\"rank\": " << *source->rank;
      if (source->worldSize)
        os << ", \"world_size\": " << *source->worldSize;
      os << "}";
    }
    os << ", \"traceEvents\": [";
  }
  int64_t shift = differenceOf(0, originNs);
  if (!isAlone && originRealtimeNs && base)
    shift = differenceOf(*base, *originRealtimeNs);
  if (sumOf(beginNs, shift) < 0)
    return false;
  Printer(os, hasEvents, numArrows, isAlone ? "" : (label + ", ").str(), shift,
          profile, recording, host)
      .print();
  return true;
}

void PerfettoTrace::end() { os << "\n]}\n"; }
