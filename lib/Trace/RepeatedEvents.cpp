// Events that stand in a file more than once: a tool has joined the file with
// itself, or wrote parts of it again. What is counted twice is wrong twice, so
// each counts once. Nearly all files have none, which is found out without a
// table of all events.

#include "Readers.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace llvm;
using namespace opprof;
using namespace opprof::trace;

static uint64_t hashOf(const TraceActivity &activity) {
  return hash_combine(activity.startNs, activity.durationNs,
                      activity.correlation.value_or(0),
                      activity.stream.value_or(0), activity.name.data());
}
static bool areSame(const TraceActivity &a, const TraceActivity &b) {
  return a.kind == b.kind && a.name.data() == b.name.data() &&
         a.startNs == b.startNs && a.durationNs == b.durationNs &&
         a.device == b.device && a.stream == b.stream &&
         a.correlation == b.correlation && a.externalId == b.externalId &&
         a.bytes == b.bytes && *a.config == *b.config;
}

static uint64_t hashOf(const RuntimeCall &call) {
  return hash_combine(call.startNs, call.durationNs,
                      call.correlation.value_or(0), call.name.data());
}
static bool areSame(const RuntimeCall &a, const RuntimeCall &b) {
  return a.name.data() == b.name.data() && a.thread == b.thread &&
         a.startNs == b.startNs && a.durationNs == b.durationNs &&
         a.correlation == b.correlation && a.externalId == b.externalId;
}

static uint64_t hashOf(const HostOp &op) {
  return hash_combine(op.startNs, op.durationNs, op.externalId.value_or(0),
                      op.name.data());
}
static bool areSame(const HostOp &a, const HostOp &b) {
  return a.name.data() == b.name.data() && a.thread == b.thread &&
         a.startNs == b.startNs && a.durationNs == b.durationNs &&
         a.externalId == b.externalId && a.sequenceNumber == b.sequenceNumber &&
         a.inputs == b.inputs && a.annotation == b.annotation;
}

static uint64_t hashOf(const ModuleFrame &frame) {
  return hash_combine(frame.startNs, frame.durationNs, frame.name.data());
}
static bool areSame(const ModuleFrame &a, const ModuleFrame &b) {
  return a.name.data() == b.name.data() && a.thread == b.thread &&
         a.startNs == b.startNs && a.durationNs == b.durationNs;
}

namespace {
/// Places of events, each with that of an earlier one that is the same.
using Repeats = std::vector<std::pair<uint32_t, uint32_t>>;
} // namespace

/// The hashes that several events may have: all that several have, and few
/// others.
template <typename Event>
static DenseSet<uint64_t> findHashes(const std::vector<Event> &events) {
  // Two bits of each event: by that many, one event in some thousand is taken
  // for another's repeat. Both are in one line of memory.
  constexpr size_t kBitsOfEach = 32, kLine = 512;
  size_t bits = PowerOf2Ceil(std::max(events.size() * kBitsOfEach, kLine));
  std::vector<uint64_t> seen(bits / 64);
  DenseSet<uint64_t> found;
  for (const Event &event : events) {
    uint64_t hash = hashOf(event);
    size_t first = hash & (bits - 1);
    size_t second = (first & ~(kLine - 1)) | ((hash >> 48) & (kLine - 1));
    uint64_t firstBit = uint64_t(1) << (first % 64),
             secondBit = uint64_t(1) << (second % 64);
    uint64_t &a = seen[first / 64], &b = seen[second / 64];
    if ((a & firstBit) && (b & secondBit))
      found.insert(hash);
    a |= firstBit;
    b |= secondBit;
  }
  return found;
}

template <typename Event>
static Repeats findRepeats(const std::vector<Event> &events) {
  DenseSet<uint64_t> hashes = findHashes(events);
  Repeats repeats;
  if (hashes.empty())
    return repeats;
  DenseMap<uint64_t, SmallVector<uint32_t, 1>> first;
  for (uint32_t place = 0; place < events.size(); ++place) {
    uint64_t hash = hashOf(events[place]);
    if (!hashes.contains(hash))
      continue;
    SmallVector<uint32_t, 1> &others = first[hash];
    const uint32_t *same = find_if(others, [&](uint32_t other) {
      return areSame(events[other], events[place]);
    });
    if (same != others.end())
      repeats.push_back({place, *same});
    else
      others.push_back(place);
  }
  return repeats;
}

/// Takes the repeats out.
template <typename Event>
static void drop(std::vector<Event> &events, const Repeats &repeats) {
  if (repeats.empty())
    return;
  auto next = repeats.begin();
  size_t kept = next->first;
  for (size_t place = kept; place < events.size(); ++place) {
    if (next != repeats.end() && next->first == place)
      ++next;
    else
      events[kept++] = std::move(events[place]);
  }
  events.erase(events.begin() + kept, events.end());
}

/// Leaves out what may be there twice: kernels of one CUDA graph, which run
/// side by side and have its launch's number, by a clock that counts
/// microseconds; and those of two ranks, whose calls have the same numbers.
static void keepDistinct(const Trace &trace, const Repeats &calls,
                         Repeats &activities) {
  if (activities.empty())
    return;
  DenseSet<uint64_t> repeated, graphs, called, ambiguous;
  auto next = calls.begin();
  for (auto [place, call] : enumerate(trace.runtimeCalls)) {
    bool isRepeat = next != calls.end() && next->first == place;
    next += isRepeat;
    if (!call.correlation)
      continue;
    if (isRepeat)
      repeated.insert(*call.correlation);
    else if (!called.insert(*call.correlation).second)
      ambiguous.insert(*call.correlation);
    if (call.name.contains("GraphLaunch"))
      graphs.insert(*call.correlation);
  }
  erase_if(activities, [&](auto pair) {
    OptionalId correlation = trace.activities[pair.first].correlation;
    return correlation && (ambiguous.contains(*correlation) ||
                           (graphs.contains(*correlation) &&
                            !repeated.contains(*correlation)));
  });
}

std::vector<uint32_t> opprof::trace::dropRepeatedEvents(Trace &trace) {
  Repeats calls = findRepeats(trace.runtimeCalls),
          activities = findRepeats(trace.activities),
          operators = findRepeats(trace.hostOps);
  keepDistinct(trace, calls, activities);
  // What bears no number of its own may be as another one is: an operator that
  // calls one of its name, by a clock that counts microseconds. A stream runs
  // one kernel after another.
  Repeats certain = activities, certainCalls = calls,
          certainOperators = operators;
  erase_if(certain, [&](auto pair) {
    const TraceActivity &activity = trace.activities[pair.first];
    return !activity.correlation && !activity.stream;
  });
  erase_if(certainCalls, [&](auto pair) {
    return !trace.runtimeCalls[pair.first].correlation;
  });
  erase_if(certainOperators,
           [&](auto pair) { return !trace.hostOps[pair.first].externalId; });
  if (certain.empty() && certainCalls.empty() && certainOperators.empty())
    return {};
  Repeats frames = findRepeats(trace.moduleFrames);
  size_t count =
      calls.size() + activities.size() + operators.size() + frames.size();
  StringRef first = !certain.empty()
                        ? trace.activities[certain.front().first].name
                    : !certainOperators.empty()
                        ? trace.hostOps[certainOperators.front().first].name
                        : trace.runtimeCalls[certainCalls.front().first].name;
  trace.notes.push_back(
      (Twine(count) + " of " + Twine(trace.events) +
       (count == 1 ? " events stands in the file again and counts"
                   : " events stand in the file again and count") +
       " once: a tool may have joined it with itself; pass the one that "
       "export_chrome_trace wrote. The first is '" +
       first.take_front(80) + "'")
          .str());
  std::vector<uint32_t> moved;
  if (!operators.empty()) {
    moved.reserve(trace.hostOps.size());
    auto next = operators.begin();
    for (uint32_t place = 0, kept = 0; place < trace.hostOps.size(); ++place) {
      bool isRepeat = next != operators.end() && next->first == place;
      moved.push_back(isRepeat ? moved[next++->second] : kept++);
    }
  }
  drop(trace.runtimeCalls, calls);
  drop(trace.activities, activities);
  drop(trace.hostOps, operators);
  drop(trace.moduleFrames, frames);
  return moved;
}
