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
using launch::LaunchKind;

static constexpr uint32_t kNone = HostTimeline::kNone;

void GraphReplays::add(uint32_t call, uint64_t correlation,
                       const RuntimeCall &start, uint32_t kernel) {
  Replay &replay = replays[call][correlation];
  replay.startNs = start.startNs;
  replay.kernels.push_back(kernel);
}

/// Generated kernels are recognized by name, and what lies between two of them
/// belongs to the launches between.
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
    uint32_t bestMap = kNone;
    SequenceAlignment best;
    bool ambiguous = false;
    for (uint32_t map = 0; map < index.getMaps().size(); ++map) {
      SequenceAlignment alignment = alignSequences(
          kernels.size(), index.keysOf(map).size(),
          [&](uint32_t kernel, uint32_t launch) {
            return index.nameOf(profile.kernels[kernels[kernel]].name) ==
                   index.keysOf(map)[launch].name;
          });
      if (!alignment.matched)
        continue;
      if (bestMap != kNone && alignment.matched == best.matched)
        ambiguous = true;
      if (bestMap == kNone || alignment.matched > best.matched) {
        bestMap = map;
        best = std::move(alignment);
        ambiguous = false;
      }
    }
    if (bestMap == kNone)
      continue;
    calls.setMap(call, bestMap);
    ArrayRef<launch::Launch> launches = index.launchesOf(bestMap);
    DenseSet<uint32_t> ran;

    auto joinTo = [&](uint32_t kernel, uint32_t launch, StringRef why,
                      Confidence confidence) {
      Join join;
      join.launch = {bestMap, launch};
      join.method = "sequence";
      join.confidence = confidence;
      join.explanation =
          ("replay of a CUDA graph, all kernels under one correlation id; " +
           why + " " + index.describe(join.launch) +
           (ambiguous ? "; another compiled graph launches the same kernels"
                      : ""))
              .str();
      index.apply(profile, profile.kernels[kernel], join);
      ran.insert(launch);
    };

    uint32_t next = 0;
    for (size_t position = 0; position < kernels.size();) {
      const AlignedElement &element = best.elements[position];
      if (element.position) {
        joinTo(kernels[position], *element.position,
               "the kernel's name and its place in the sequence are those of",
               element.forced ? Confidence::Medium : Confidence::Low);
        next = *element.position + 1;
        ++position;
        continue;
      }
      SmallVector<uint32_t> open;
      uint32_t end = launches.size();
      for (; position < kernels.size(); ++position) {
        if (best.elements[position].position) {
          end = *best.elements[position].position;
          break;
        }
        open.push_back(kernels[position]);
      }
      SmallVector<uint32_t> between;
      for (uint32_t launch = next; launch < end; ++launch)
        if (launches[launch].kind != LaunchKind::Subgraph &&
            launches[launch].kind != LaunchKind::Triton)
          between.push_back(launch);
      if (between.size() == 1) {
        for (uint32_t kernel : open)
          joinTo(kernel, between[0],
                 "between the generated kernels round it there is only",
                 Confidence::Medium);
        continue;
      }
      // The second kernel of a split product belongs to the first.
      SmallVector<SmallVector<uint32_t>> groups;
      for (uint32_t kernel : open) {
        StringRef name = profile.kernels[kernel].name;
        bool continues = name.contains_insensitive("splitk") ||
                         name.contains_insensitive("split_k_kernel") ||
                         name.contains_insensitive("reduce_1Block");
        if (continues && !groups.empty())
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
                   Confidence::Medium);
        continue;
      }
      for (uint32_t kernel : open)
        profile.kernels[kernel].explanation = profile.intern(
            ("replay of a CUDA graph: " + Twine(open.size()) +
             " kernels between two generated ones, where " +
             Twine(between.size()) +
             " library calls stand; which is whose can't be told from the "
             "sequence")
                .str());
    }
    for (uint32_t launch : ran)
      index.countRun(profile, {bestMap, launch});
  }
}
