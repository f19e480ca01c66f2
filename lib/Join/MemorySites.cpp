// Who holds the memory of tensors, where an observer recorded it.

#include "MemorySites.h"

#include "TraceSteps.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

#include <map>
#include <numeric>

using namespace llvm;
using namespace opprof;
using namespace opprof::join;
using namespace opprof::profile;
using namespace opprof::trace;

/// Sites that are kept for each thing that is asked of them.
static constexpr size_t kMostSites = 100;

/// Parts of the time for which a device's memory is told.
static constexpr size_t kTimes = 240;

/// What grows is told of so many steps at least.
static constexpr size_t kFewestSteps = 6;

namespace {

/// Finds where each block was given out, and adds up what the sites took.
class Sites {
public:
  Sites(const Trace &trace, const HostTimeline &host,
        const OperatorPlaces &places, Profile &profile);

  void addAll();

private:
  using Key = std::tuple<StringRef, StringRef, Part, StringRef>;
  struct Site {
    MemorySite sums;
    /// What it held more or less at the end of which steady step than at that
    /// before, unless that is freed in the same step.
    std::map<uint32_t, int64_t> changes;
  };
  struct Found {
    uint32_t site = 0;
    /// The outermost operator, or kNone.
    uint32_t top = kNone;
  };
  Found find(const Allocation &allocation);
  uint32_t siteOf(const OperatorPlaces::Where &where, StringRef op);

  void add(uint32_t allocator);
  void addPeak(ArrayRef<uint32_t> own, TensorMemory &memory);
  void addSteps(ArrayRef<uint32_t> own);
  void addGrowth();
  void keep(TensorMemory &memory, std::optional<uint32_t> peakSite);
  /// How many steady steps have ended by then.
  uint32_t stepsUntil(int64_t time) const {
    return llvm::upper_bound(stepEnds, time) - stepEnds.begin();
  }

  const Trace &trace;
  const HostTimeline &host;
  const OperatorPlaces &places;
  Profile &profile;
  /// By allocation.
  std::vector<Found> founds;
  std::map<Key, uint32_t> numbers;
  std::vector<Site> sites;
  /// Of the steady steps; of all, where there are no steady ones.
  std::vector<int64_t> stepEnds;
  int64_t begin = std::numeric_limits<int64_t>::max();
  int64_t end = 0;
};

} // namespace

Sites::Sites(const Trace &trace, const HostTimeline &host,
             const OperatorPlaces &places, Profile &profile)
    : trace(trace), host(host), places(places), profile(profile) {
  for (const Step &step : profile.steps)
    if (step.phase == Phase::Steady)
      stepEnds.push_back(step.endNs);
  llvm::sort(stepEnds);
  for (const HostOp &op : trace.hostOps) {
    begin = std::min(begin, op.startNs);
    end = std::max(end, op.endNs());
  }
  for (const Allocation &allocation : trace.allocations) {
    if (!allocation.isEarlier)
      begin = std::min(begin, allocation.startNs);
    if (allocation.endNs != Allocation::kHeld)
      end = std::max(end, allocation.endNs);
    end = std::max(end, allocation.startNs);
  }
  begin = std::min(begin, end);
}

uint32_t Sites::siteOf(const OperatorPlaces::Where &where, StringRef op) {
  auto [it, isNew] = numbers.try_emplace(
      Key(where.source, where.module, where.part, op), sites.size());
  if (isNew) {
    MemorySite &site = sites.emplace_back().sums;
    site.source = where.source.str();
    site.module = where.module.str();
    site.part = where.part;
    site.op = op.str();
  }
  return it->second;
}

Sites::Found Sites::find(const Allocation &allocation) {
  Found found;
  OperatorPlaces::Where where;
  StringRef name;
  if (allocation.externalId) {
    uint32_t op = host.byExternalId(*allocation.externalId);
    if (op != kNone) {
      where = places.of(op);
      found.top = host.topOf(op);
      name = host.op(found.top == kNone ? op : found.top).name;
    }
  }
  // Of an operator that is not in the recording, or outside of all.
  if (where.source.empty() && where.module.empty() && allocation.place &&
      *allocation.place < trace.places.size()) {
    const Place &place = trace.places[*allocation.place];
    where.source = place.source;
    where.module = place.group.empty() ? place.module : place.group;
    if (!place.group.empty())
      where.part = Part::Optimizer;
  }
  found.site = siteOf(where, name);
  return found;
}

/// What is held over time: the peak, who holds it, and a coarse course.
void Sites::addPeak(ArrayRef<uint32_t> own, TensorMemory &memory) {
  struct Change {
    int64_t time;
    bool isEnd;
    uint32_t allocation;
  };
  std::vector<Change> changes;
  changes.reserve(2 * own.size());
  for (uint32_t index : own) {
    const Allocation &allocation = trace.allocations[index];
    changes.push_back(
        {allocation.isEarlier ? begin : allocation.startNs, false, index});
    if (allocation.endNs != Allocation::kHeld)
      changes.push_back({allocation.endNs, true, index});
  }
  llvm::stable_sort(changes, [](const Change &a, const Change &b) {
    // What was given out in an instant was not freed before it.
    return std::pair(a.time, a.isEnd) < std::pair(b.time, b.isEnd);
  });
  memory.startNs = begin;
  memory.endNs = end;
  memory.heldBytes.assign(end > begin ? kTimes : 1, 0);
  auto partAt = [&](int64_t time) {
    double share = double(time - begin) / std::max<double>(end - begin, 1);
    return std::min(size_t(share * double(memory.heldBytes.size())),
                    memory.heldBytes.size() - 1);
  };
  uint64_t held = 0;
  size_t peak = 0, part = 0;
  for (const auto &[at, change] : llvm::enumerate(changes)) {
    // Until the next change it is what it was.
    for (size_t now = partAt(change.time); part < now;)
      memory.heldBytes[++part] = held;
    uint64_t bytes = trace.allocations[change.allocation].bytes;
    held = change.isEnd ? held - bytes : held + bytes;
    memory.heldBytes[part] = std::max(memory.heldBytes[part], held);
    if (held > memory.peakBytes) {
      memory.peakBytes = held;
      memory.peakTimeNs = change.time;
      peak = at + 1;
    }
  }
  while (++part < memory.heldBytes.size())
    memory.heldBytes[part] = held;
  memory.endBytes = held;
  memory.peakStep = stepAt(profile.steps, memory.peakTimeNs);
  for (const Change &change : ArrayRef(changes).take_front(peak)) {
    const Allocation &allocation = trace.allocations[change.allocation];
    if (allocation.isEarlier) {
      memory.earlierBytes = change.isEnd
                                ? memory.earlierBytes - allocation.bytes
                                : memory.earlierBytes + allocation.bytes;
      continue;
    }
    MemorySite &site = sites[founds[change.allocation].site].sums;
    site.peakBytes = change.isEnd ? site.peakBytes - allocation.bytes
                                  : site.peakBytes + allocation.bytes;
    site.peakBlocks += change.isEnd ? -1 : 1;
  }
  if (peak && !trace.allocations[changes[peak - 1].allocation].isEarlier)
    memory.peakSite = founds[changes[peak - 1].allocation].site;
}

/// What was taken in steady steps, and given back in them.
void Sites::addSteps(ArrayRef<uint32_t> own) {
  bool anySteady = !stepEnds.empty();
  for (uint32_t index : own) {
    const Allocation &allocation = trace.allocations[index];
    if (allocation.isEarlier)
      continue;
    Site &site = sites[founds[index].site];
    if (uint32_t first = stepsUntil(allocation.startNs),
        last = allocation.endNs == Allocation::kHeld
                   ? uint32_t(stepEnds.size())
                   : stepsUntil(allocation.endNs);
        first < last) {
      site.changes[first] += int64_t(allocation.bytes);
      site.changes[last] -= int64_t(allocation.bytes);
    }
    std::optional<uint32_t> step = stepAt(profile.steps, allocation.startNs);
    if (anySteady && (!step || profile.steps[*step].phase != Phase::Steady))
      continue;
    ++site.sums.calls;
    site.sums.bytes += allocation.bytes;
    if (allocation.endNs == Allocation::kHeld)
      continue;
    if (!step || allocation.endNs <= profile.steps[*step].endNs)
      site.sums.churnBytes += allocation.bytes;
    if (uint32_t top = founds[index].top;
        top != kNone && allocation.endNs <= host.op(top).endNs())
      site.sums.scratchBytes += allocation.bytes;
  }
}

/// What holds more and more: never less after a steady step than after the one
/// before, and more after at least half of them, in the first half of the
/// recording and in the second. What fills up, as a cache or the state of an
/// optimizer, stops growing; what waits for the collector of garbage falls.
void Sites::addGrowth() {
  size_t count = stepEnds.size();
  if (count < kFewestSteps)
    return;
  for (Site &site : sites) {
    // The first end begins the count.
    int64_t grown = 0;
    size_t rises[2] = {0, 0};
    bool falls = false;
    for (auto [step, bytes] : site.changes) {
      if (step == 0 || step >= count)
        continue;
      falls |= bytes < 0;
      grown += bytes;
      rises[step > count / 2] += bytes > 0;
    }
    if (!falls && 2 * rises[0] >= count / 2 &&
        2 * rises[1] >= count - 1 - count / 2)
      site.sums.growthBytesPerStep = uint64_t(grown) / (count - 1);
  }
}

/// Keeps the sites that are first in anything that is asked.
void Sites::keep(TensorMemory &memory, std::optional<uint32_t> peakSite) {
  DenseSet<uint32_t> kept;
  std::vector<uint32_t> order(sites.size());
  auto take = [&](uint64_t MemorySite::*value) {
    std::iota(order.begin(), order.end(), 0);
    llvm::stable_sort(order, [&](uint32_t a, uint32_t b) {
      return sites[a].sums.*value > sites[b].sums.*value;
    });
    for (uint32_t index : ArrayRef(order).take_front(kMostSites))
      if (sites[index].sums.*value)
        kept.insert(index);
  };
  take(&MemorySite::bytes);
  take(&MemorySite::churnBytes);
  take(&MemorySite::growthBytesPerStep);
  take(&MemorySite::peakBytes);
  if (peakSite)
    kept.insert(*peakSite);
  size_t any = 0;
  for (uint32_t index : order) {
    Site &site = sites[index];
    MemorySite &sums = site.sums;
    memory.calls += sums.calls;
    memory.bytes += sums.bytes;
    memory.churnBytes += sums.churnBytes;
    memory.scratchBytes += sums.scratchBytes;
    memory.growthBytesPerStep += sums.growthBytesPerStep;
    any += sums.peakBytes || sums.bytes;
    if (!kept.contains(index))
      continue;
    if (index == peakSite)
      memory.peakSite = memory.sites.size();
    memory.sites.push_back(std::move(sums));
  }
  memory.otherSites = any > kept.size() ? any - kept.size() : 0;
}

void Sites::add(uint32_t allocator) {
  numbers.clear();
  sites.clear();
  std::vector<uint32_t> own;
  TensorMemory memory;
  memory.device = trace.allocators[allocator].device;
  memory.unknownFrees = trace.allocators[allocator].unknownFrees;
  for (const auto &[index, allocation] : llvm::enumerate(trace.allocations)) {
    if (allocation.allocator != allocator)
      continue;
    own.push_back(index);
    if (allocation.isEarlier)
      continue;
    ++memory.allocations;
    founds[index] = find(allocation);
  }
  addPeak(own, memory);
  addSteps(own);
  addGrowth();
  keep(memory, std::exchange(memory.peakSite, std::nullopt));
  profile.tensorMemory.push_back(std::move(memory));
}

void Sites::addAll() {
  founds.resize(trace.allocations.size());
  for (uint32_t allocator = 0; allocator < trace.allocators.size(); ++allocator)
    add(allocator);
  llvm::stable_sort(profile.tensorMemory,
                    [](const TensorMemory &a, const TensorMemory &b) {
                      return a.peakBytes > b.peakBytes;
                    });
}

void opprof::join::addTensorMemory(const Trace &trace, const HostTimeline &host,
                                   const OperatorPlaces &places,
                                   Profile &profile) {
  if (!trace.allocators.empty())
    Sites(trace, host, places, profile).addAll();
}
