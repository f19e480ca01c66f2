// From kernels of a CUDA graph to launches.

#include "GraphReplays.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::join;
using namespace opprof::profile;
using namespace opprof::trace;
using launch::Launch;
using launch::LaunchKind;

void GraphReplays::add(uint32_t call, uint64_t correlation,
                       const RuntimeCall &start, uint32_t kernel) {
  Replay &replay = replays[call][correlation];
  replay.startNs = start.startNs;
  replay.kernels.push_back(kernel);
}

std::optional<int64_t> GraphReplays::firstOf(uint32_t call) const {
  auto it = replays.find(call);
  if (it == replays.end())
    return std::nullopt;
  std::optional<int64_t> first;
  for (const auto &[correlation, replay] : it->second)
    first = std::min(first.value_or(replay.startNs), replay.startNs);
  return first;
}

namespace {
/// The kernels that one call replayed, in order.
///
/// Generated kernels are recognized by name, and what lies between two of them
/// belongs to the launches between.
class CallReplay {
public:
  CallReplay(std::vector<uint32_t> kernels, const LaunchIndex &index,
             Profile &profile)
      : kernels(std::move(kernels)), index(index), profile(profile) {}

  /// Finds the map that fits best, among all or only the one.
  uint32_t chooseMap(std::optional<uint32_t> only);
  void join();

private:
  bool isProven() const;
  void joinGap(ArrayRef<uint32_t> open, ArrayRef<uint32_t> between);
  void joinTo(uint32_t kernel, uint32_t launch, StringRef why,
              Confidence confidence);
  ArrayRef<Launch> launches() const { return index.launchesOf(map); }

  std::vector<uint32_t> kernels;
  const LaunchIndex &index;
  Profile &profile;
  uint32_t map = kNone;
  SequenceAlignment alignment;
  bool ambiguous = false;
  /// Order leaves no choice.
  bool proven = false;
  DenseSet<uint32_t> ran;
};
} // namespace

/// A kernel of such a launch is called as the launch calls it.
static bool isGenerated(const Launch &launch) {
  return launch.kind == LaunchKind::Triton || launch.kind == LaunchKind::User;
}

uint32_t CallReplay::chooseMap(std::optional<uint32_t> only) {
  for (uint32_t candidate = 0; candidate < index.getMaps().size();
       ++candidate) {
    if (only && candidate != *only)
      continue;
    ArrayRef<LaunchKey> keys = index.keysOf(candidate);
    SequenceAlignment found = alignSequences(
        kernels.size(), keys.size(), [&](uint32_t kernel, uint32_t launch) {
          return index.nameOf(profile.kernels[kernels[kernel]].name) ==
                 keys[launch].name;
        });
    if (!found.matched)
      continue;
    ambiguous |= map != kNone && found.matched == alignment.matched;
    if (map == kNone || found.matched > alignment.matched) {
      map = candidate;
      alignment = std::move(found);
      ambiguous = false;
    }
  }
  return map;
}

/// Whether each generated launch of the map has its one kernel: every kernel
/// between two of these then is of a launch between them. That takes one
/// stream, on which order is what the code says, and code without branches and
/// loops.
bool CallReplay::isProven() const {
  if (ambiguous)
    return false;
  DenseSet<uint32_t> names;
  uint64_t generated = 0;
  for (auto [launch, key] : llvm::zip_equal(launches(), index.keysOf(map))) {
    if (launch.conditional || launch.inLoop)
      return false;
    if (!isGenerated(launch))
      continue;
    ++generated;
    names.insert(key.name);
  }
  if (!generated || alignment.matched != generated)
    return false;
  for (auto [kernel, element] : llvm::zip_equal(kernels, alignment.elements)) {
    const Activity &activity = profile.kernels[kernel];
    if (activity.stream != profile.kernels[kernels.front()].stream)
      return false;
    if (element.position ? !element.forced
                         : names.contains(index.nameOf(activity.name)))
      return false;
  }
  return true;
}

void CallReplay::joinTo(uint32_t kernel, uint32_t launch, StringRef why,
                        Confidence confidence) {
  Join join;
  join.launch = {map, launch};
  join.method = "sequence";
  join.confidence = confidence;
  join.explanation =
      ("replay of a CUDA graph, all kernels under one correlation id; " + why +
       " " + index.describe(join.launch) +
       (ambiguous ? "; another compiled graph launches the same kernels" : "") +
       (proven ? "; all generated kernels of the graph ran once, in order"
               : ""))
          .str();
  Activity &activity = profile.kernels[kernel];
  profile.changeOrigin(activity, [&](Origin &origin) {
    index.apply(profile, activity, origin, join);
  });
  ran.insert(launch);
}

/// Joins kernels that the launches `between` two generated ones ran.
void CallReplay::joinGap(ArrayRef<uint32_t> open, ArrayRef<uint32_t> between) {
  if (between.size() == 1) {
    for (uint32_t kernel : open)
      joinTo(kernel, between[0],
             "between the generated kernels round it there is only",
             proven ? Confidence::High : Confidence::Medium);
    return;
  }
  // What does arithmetic runs a kernel at least, so where there are no more
  // kernels than launches each has one.
  bool oneEach = proven && open.size() == between.size() &&
                 llvm::all_of(between, [&](uint32_t launch) {
                   return launches()[launch].flops.value_or(0) > 0;
                 });
  // The second kernel of a split product belongs to the first.
  SmallVector<SmallVector<uint32_t>> groups;
  for (uint32_t kernel : open) {
    StringRef name = profile.kernels[kernel].name;
    bool continues = name.contains_insensitive("splitk") ||
                     name.contains_insensitive("split_k_kernel") ||
                     name.contains_insensitive("reduce_1Block");
    if (continues && !groups.empty() && !oneEach)
      groups.back().push_back(kernel);
    else
      groups.push_back({kernel});
  }
  if (groups.size() == between.size()) {
    for (auto [number, group] : llvm::enumerate(groups))
      for (uint32_t kernel : group)
        joinTo(kernel, between[number],
               "by order among the library calls between two generated "
               "kernels it is",
               oneEach ? Confidence::High : Confidence::Medium);
    return;
  }
  StringRef explanation = profile.intern(
      ("replay of a CUDA graph: " + Twine(open.size()) +
       " kernels between two generated ones, where " + Twine(between.size()) +
       " library calls stand; which is whose can't be told from the sequence")
          .str());
  for (uint32_t kernel : open)
    profile.changeOrigin(profile.kernels[kernel], [&](Origin &origin) {
      origin.explanation = explanation;
    });
}

void CallReplay::join() {
  proven = isProven();
  for (auto [kernel, element] : llvm::zip_equal(kernels, alignment.elements))
    if (element.position)
      joinTo(kernel, *element.position,
             "the kernel's name and its place in the sequence are those of",
             proven           ? Confidence::High
             : element.forced ? Confidence::Medium
                              : Confidence::Low);
  for (const AlignmentGap &gap : findGaps(alignment, launches().size())) {
    SmallVector<uint32_t> between;
    for (uint32_t launch = gap.secondBegin; launch < gap.secondEnd; ++launch)
      if (LaunchKind kind = *launches()[launch].kind;
          kind != LaunchKind::Subgraph && kind != LaunchKind::Triton &&
          kind != LaunchKind::Cpp)
        between.push_back(launch);
    joinGap(
        ArrayRef(kernels).slice(gap.firstBegin, gap.firstEnd - gap.firstBegin),
        between);
  }
  for (uint32_t launch : ran)
    index.countRun(profile, {map, launch});
}

void GraphReplays::join(const LaunchIndex &index, CallJoins &calls,
                        Profile &profile) const {
  for (auto &[call, graphs] : replays) {
    std::vector<const Replay *> ordered;
    for (auto &[correlation, replay] : graphs)
      ordered.push_back(&replay);
    llvm::stable_sort(ordered, [](const Replay *a, const Replay *b) {
      return a->startNs < b->startNs;
    });
    std::vector<uint32_t> kernels;
    for (const Replay *replay : ordered)
      llvm::append_range(kernels, replay->kernels);
    CallReplay replay(std::move(kernels), index, profile);
    uint32_t map = replay.chooseMap(calls.namedMapOf(call));
    if (map == kNone)
      continue;
    calls.setMap(call, map);
    replay.join();
  }
}
