// Two sets of recordings of a program, item by item.

#include "opprof/Compare/Compare.h"
#include "opprof/Compare/Statistics.h"
#include "opprof/Support/Units.h"

#include "Sides.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <tuple>

using namespace llvm;
using namespace opprof;
using namespace opprof::compare;
using namespace opprof::profile;

StringRef compare::stringify(Verdict verdict) {
  static constexpr StringLiteral kVerdicts[] = {
      "same", "slower", "faster", "new", "gone", "small", "unknown", "unclear"};
  return kVerdicts[static_cast<size_t>(verdict)];
}

bool Change::isBeyond(double ns) const {
  return intervalNs && (intervalNs->first > ns || intervalNs->second < -ns);
}

std::optional<double> Change::percentOfA(double ns) const {
  if (!aNs || *aNs <= 0)
    return std::nullopt;
  return 100 * ns / *aNs;
}

size_t Comparison::count(Verdict verdict) const {
  return llvm::count_if(
      items, [&](const ItemChange &item) { return item.verdict == verdict; });
}

size_t Comparison::count(Match match) const {
  return llvm::count_if(
      items, [&](const ItemChange &item) { return item.matchedBy == match; });
}

bool Comparison::isJudged() const {
  if (byLaunch)
    return llvm::any_of(items, [](const ItemChange &item) {
      return item.intervalNs.has_value();
    });
  return a.repeats >= kFewestRepeats && b.repeats >= kFewestRepeats;
}

std::vector<std::string> Comparison::slowerBy(double percent) const {
  std::optional<double> whole = step.aNs ? step.aNs : kernelTime.aNs;
  std::vector<std::string> names;
  auto add = [&](const Change &change, const std::string &name,
                 double launches) {
    if (change.verdict == Verdict::Slower && whole && *whole > 0 &&
        100 * *change.changeNs * launches / *whole > percent)
      names.push_back(name);
  };
  add(step, "step", 1);
  add(kernelTime, "kernel time", 1);
  for (const ItemChange &item : items)
    add(item, item.name, byLaunch ? item.aKernels : 1);
  return names;
}

namespace {

/// Judges changes, all by the same standard.
class Judge {
public:
  Judge(const SideTable &a, const SideTable &b, Comparison &result);

  /// Fills in what the series say. Both must have values. Times are of one of
  /// `launches`.
  void judge(const Series &a, const Series &b, Change &change,
             double launches = 1);
  /// How many launches the times of an item are one of.
  double launchesOf(const ItemChange &item) const {
    return result.byLaunch ? std::max(item.aKernels, item.bKernels) : 1;
  }
  /// Says how many changes are unclear, and how many repeats would do.
  void noteUnproven() const;

private:
  /// How many repeats a side would prove a change of `changeNs`, were they as
  /// far apart as those of `a` and `b`, which are of `repeats`; absent where
  /// very many would not.
  std::optional<size_t> repeatsThatProve(double changeNs, double floorNs,
                                         TrimmedMean a, TrimmedMean b,
                                         size_t repeats) const;
  /// What B's time over A's is for most of the kernel time.
  std::optional<double> findClockRatio() const;

  Comparison &result;
  /// Of the numbers of repeats that were met last: most items have the same.
  std::optional<Bootstrap> bootstrap;
  std::pair<size_t, size_t> drawnFrom;
  /// The largest change that is unclear, of how many repeats a side it is, and
  /// how many would prove it.
  struct Unproven {
    double sizeNs;
    size_t repeats;
    std::optional<size_t> needed;
  };
  std::optional<Unproven> unproven;
  /// Level of one comparison among all, and what an item changes by itself.
  double level = 0, ownShare = 0, leastNs = 0;
};

} // namespace

/// Whether an item can be told apart from nothing, in either side.
static bool isLarge(const std::optional<double> &time, double least) {
  return time && *time >= least;
}

Judge::Judge(const SideTable &a, const SideTable &b, Comparison &result)
    : result(result) {
  leastNs = kLeastShare * (result.step.aNs ? *result.step.aNs
                                           : result.kernelTime.aNs.value_or(0));
  // Between recordings of one program, processes differ; where enough of
  // them are compared, that is in the errors.
  ownShare = a.side.repeatsAreRecordings && b.side.repeatsAreRecordings ? 0
             : a.side.isCPU || b.side.isCPU ? kProcessShareOfCPU
                                            : kProcessShareOfGPU;
  for (const ItemChange &item : result.items)
    result.compared +=
        item.matchedBy && (isLarge(item.aNs, leastNs / launchesOf(item)) ||
                           isLarge(item.bNs, leastNs / launchesOf(item)));
  level = kFamilyLevel / static_cast<double>(result.compared + 2);
  for (const SideTable *side : {&a, &b}) {
    double next = correlationOfNeighbours(side->kernels.values);
    result.errorGrowth =
        std::max(result.errorGrowth, std::sqrt((1 + next) / (1 - next)));
  }
  result.clockRatio = findClockRatio();
}

std::optional<double> Judge::findClockRatio() const {
  bool other = llvm::any_of(result.unlike, [](const Unlike &unlike) {
    return unlike.what != "source" && unlike.what != "torch";
  });
  if (other || ownShare == 0)
    return std::nullopt;
  std::vector<std::pair<double, double>> ratios;
  double all = 0;
  for (const ItemChange &item : result.items)
    if (item.matchedBy && isLarge(item.aNs, leastNs / launchesOf(item)) &&
        *item.aNs > 0) {
      ratios.push_back({*item.bNs / *item.aNs, *item.aNs * launchesOf(item)});
      all += ratios.back().second;
    }
  llvm::sort(ratios);
  double passed = 0;
  for (auto [ratio, time] : ratios) {
    passed += time;
    if (passed * 2 >= all)
      return std::abs(ratio - 1) <= kClockShare ? std::optional(ratio)
                                                : std::nullopt;
  }
  return std::nullopt;
}

void Judge::judge(const Series &a, const Series &b, Change &change,
                  double launches) {
  double least = leastNs / launches;
  TrimmedMean ofA = trimmedMean(a.values), ofB = trimmedMean(b.values);
  change.aNs = ofA.mean;
  change.bNs = ofB.mean;
  change.changeNs = ofB.mean - ofA.mean;
  change.verdict = Verdict::Unknown;
  std::pair repeats(a.values.size(), b.values.size());
  if (std::min(repeats.first, repeats.second) < kFewestRepeats)
    return;
  if (!bootstrap || drawnFrom != repeats)
    bootstrap.emplace(repeats.first, repeats.second);
  drawnFrom = repeats;
  change.intervalNs = bootstrap->interval(a.values, b.values);
  std::optional<double> margin = marginOfDifference(ofA, ofB, level);
  double larger = std::max(ofA.mean, ofB.mean);
  // Where recordings are the repeats, the errors know how far they are apart.
  double apart = ownShare > 0 ? std::max(a.apart, b.apart) : 0;
  change.floorNs = std::max({least, ownShare * larger, apart});
  double needed = *change.floorNs + margin.value_or(0) * result.errorGrowth;
  // Slower both as it was measured, and as it would have been by A's clock.
  double byClockOfA = ofB.mean / result.clockRatio.value_or(1) - ofA.mean;
  if (*change.changeNs > needed && byClockOfA > needed)
    change.verdict = Verdict::Slower;
  else if (*change.changeNs < -needed && byClockOfA < -needed)
    change.verdict = Verdict::Faster;
  else
    change.verdict = larger < least ? Verdict::Small
                     : change.isBeyond(*change.floorNs) &&
                             std::abs(byClockOfA) > *change.floorNs
                         ? Verdict::Unclear
                         : Verdict::Same;
  if (change.verdict != Verdict::Unclear)
    return;
  const double size = std::abs(*change.changeNs) * launches;
  if (unproven && unproven->sizeNs >= size)
    return;
  const size_t fewest = std::min(repeats.first, repeats.second);
  const bool isOneWay = (*change.changeNs < 0) == (byClockOfA < 0);
  const double provable =
      std::min(std::abs(*change.changeNs), std::abs(byClockOfA));
  unproven = {
      size, fewest,
      isOneWay ? repeatsThatProve(provable, *change.floorNs, ofA, ofB, fewest)
               : std::nullopt};
}

std::optional<size_t> Judge::repeatsThatProve(double changeNs, double floorNs,
                                              TrimmedMean a, TrimmedMean b,
                                              size_t repeats) const {
  constexpr size_t kMostTimes = 20;
  const TrimmedMean ofA = a, ofB = b;
  for (size_t many = repeats + 1; many <= kMostTimes * repeats; ++many) {
    const double times = double(many) / double(repeats);
    for (auto [scaled, was] : {std::pair(&a, &ofA), std::pair(&b, &ofB)}) {
      scaled->kept = static_cast<size_t>(double(was->kept) * times);
      scaled->squaredError = was->squaredError / times;
    }
    const std::optional<double> margin = marginOfDifference(a, b, level);
    if (margin && changeNs > floorNs + *margin * result.errorGrowth)
      return many;
  }
  return std::nullopt;
}

void Judge::noteUnproven() const {
  if (!unproven)
    return;
  const StringRef what = result.byLaunch                 ? "launches"
                         : result.a.repeatsAreRecordings ? "recordings"
                                                         : "steps";
  SmallVector<std::string, 3> unclear;
  if (result.step.verdict == Verdict::Unclear)
    unclear.push_back("the step");
  if (result.kernelTime.verdict == Verdict::Unclear)
    unclear.push_back("the kernel time");
  const size_t items = result.count(Verdict::Unclear);
  if (items)
    unclear.push_back(formatCount(items, "item", "items"));
  const bool isOne = unclear.size() == 1 && items <= 1;
  std::string named = join(drop_end(unclear), ", ");
  named += (named.empty() ? "" : " and ") + unclear.back();
  std::string text =
      formatv("{0} {1} unclear: 95 % intervals leave out zero, but of {2} that "
              "differ as these do {3} a side do not prove {4} at the level of "
              "{5} changes",
              named, isOne ? "is" : "are", what, unproven->repeats,
              isOne ? "it" : "them", result.compared + 2);
  if (unproven->needed)
    text += formatv("; for the largest about {0} would", *unproven->needed);
  result.notes.push_back(std::move(text));
}

static std::optional<double> trimmedMeanOf(const Series &series) {
  if (series.values.empty())
    return std::nullopt;
  return trimmedMean(series.values).mean;
}

/// The items of both sides, with their times.
static std::vector<ItemChange>
pairItems(const SideTable &a, const SideTable &b,
          std::vector<std::pair<const Series *, const Series *>> &series) {
  std::vector<ItemChange> items;
  auto add = [&](const Item &item) -> ItemChange & {
    ItemChange &change = items.emplace_back();
    change.name = item.name;
    change.detail = item.detail;
    change.node = item.node;
    return change;
  };
  auto perRepeat = [](const Item &item, const SideTable &side) {
    return static_cast<double>(item.kernels) /
           static_cast<double>(std::max<size_t>(side.counted, 1));
  };
  std::vector<bool> taken(b.items.size());
  for (auto [place, found] : llvm::enumerate(matchItems(a.items, b.items))) {
    ItemChange &change = add(a.items[place]);
    change.aNs = trimmedMeanOf(a.times[place]);
    change.aKernels = perRepeat(a.items[place], a);
    series.push_back({&a.times[place], nullptr});
    if (!found.place) {
      change.verdict = Verdict::Gone;
      continue;
    }
    taken[*found.place] = true;
    change.matchedBy = found.match;
    change.bNs = trimmedMeanOf(b.times[*found.place]);
    change.bKernels = perRepeat(b.items[*found.place], b);
    series.back().second = &b.times[*found.place];
  }
  for (auto [place, item] : llvm::enumerate(b.items)) {
    if (taken[place])
      continue;
    ItemChange &change = add(item);
    change.bNs = trimmedMeanOf(b.times[place]);
    change.bKernels = perRepeat(item, b);
    change.verdict = Verdict::New;
    series.push_back({nullptr, &b.times[place]});
  }
  return items;
}

static void addNotes(Comparison &result) {
  if (result.byLaunch) {
    auto few = [](const ItemChange &item) {
      return item.matchedBy && !item.intervalNs;
    };
    result.notes.push_back(
        "Nsight Compute ran kernels one by one: times are those of one launch, "
        "and a step's time is not in them");
    if (size_t count = llvm::count_if(result.items, few))
      result.notes.push_back(formatv(
          "{0} {1} fewer than {2} launches in a side, and nothing is called a "
          "change with those: count more (ncu --launch-count)",
          formatCount(count, "kernel", "kernels"), count == 1 ? "has" : "have",
          kFewestRepeats));
    return;
  }
  auto few = [&](const Side &side, StringRef name) {
    if (side.repeats < kFewestRepeats)
      result.notes.push_back(formatv(
          "{0} has {1}, and nothing is called a change with fewer than {2} in "
          "each side: record more steps (`opprof profile --iters 20`), or give "
          "more recordings",
          name,
          side.steps ? formatCount(side.steps, "step", "steps")
                     : formatCount(side.recordings, "recording without steps",
                                   "recordings without steps"),
          kFewestRepeats));
  };
  few(result.a, "A");
  few(result.b, "B");
  if (!result.isJudged())
    return;
  for (const auto &[side, name] :
       {std::pair(&result.a, "A"), std::pair(&result.b, "B")})
    if (!side->repeatsAreRecordings && side->recordings < 2)
      result.notes.push_back(formatv(
          "{0} is one recording: how far one process is from the next is not "
          "known, and {1} % of an item is taken for it",
          name,
          formatShortest(100 * (result.a.isCPU || result.b.isCPU
                                    ? kProcessShareOfCPU
                                    : kProcessShareOfGPU))));
  const std::optional<std::pair<double, double>> &interval =
      result.kernelTime.intervalNs;
  bool differs = interval && (interval->first > 0 || interval->second < 0);
  if (differs && result.clockRatio && std::abs(*result.clockRatio - 1) >= 0.002)
    result.notes.push_back(
        formatv("most kernels of B take {0:f1} % {1} alike, as by another "
                "clock: only what goes beyond that is called a change",
                100 * std::abs(*result.clockRatio - 1),
                *result.clockRatio > 1 ? "longer" : "less"));
}

/// Changed first, then the rest, each by the size of the change, and of no
/// change by time.
static void sortItems(std::vector<ItemChange> &items, const Judge &judge) {
  auto rank = [&](const ItemChange &item) {
    bool changed =
        item.verdict == Verdict::Slower || item.verdict == Verdict::Faster;
    double launches = judge.launchesOf(item);
    double time =
        launches * std::max(item.aNs.value_or(0), item.bNs.value_or(0));
    return std::tuple(
        !changed, item.changeNs ? -launches * std::abs(*item.changeNs) : -time,
        -time);
  };
  llvm::stable_sort(items, [&](const ItemChange &a, const ItemChange &b) {
    return rank(a) < rank(b);
  });
}

/// What all recordings can be told apart by.
static ItemKind findKind(ArrayRef<Recording> a, ArrayRef<Recording> b) {
  std::optional<ItemKind> kind;
  for (ArrayRef<Recording> side : {a, b})
    for (const Recording &recording : side) {
      ItemKind finest = finestKind(*recording.profile);
      // Nodes and operators have other names; kernels have everywhere the same.
      kind = kind.value_or(finest) == finest ? finest : ItemKind::Kernel;
    }
  return kind.value_or(ItemKind::Kernel);
}

Comparison compare::compareRecordings(ArrayRef<Recording> a,
                                      ArrayRef<Recording> b,
                                      std::optional<ItemKind> by) {
  assert(!a.empty() && !b.empty() && "each side has a recording");
  Comparison result;
  result.by = by ? *by : findKind(a, b);
  auto isTimeless = [](const Recording &recording) {
    return !hasTimeline(*recording.profile);
  };
  result.byLaunch = result.by == ItemKind::Kernel &&
                    llvm::all_of(a, isTimeless) && llvm::all_of(b, isTimeless);
  Repeats repeats = result.byLaunch ? Repeats::Launches
                    : std::min(a.size(), b.size()) >= kFewestRepeats
                        ? Repeats::Recordings
                        : Repeats::Steps;
  SideTable ofA = tabulate(a, result.by, repeats),
            ofB = tabulate(b, result.by, repeats);
  result.a = ofA.side;
  result.b = ofB.side;
  result.unlike = findUnlike(ofA, ofB);
  result.step.aNs = trimmedMeanOf(ofA.wall);
  result.step.bNs = trimmedMeanOf(ofB.wall);
  result.kernelTime.aNs = trimmedMeanOf(ofA.kernels);
  std::vector<std::pair<const Series *, const Series *>> series;
  result.items = pairItems(ofA, ofB, series);
  Judge judge(ofA, ofB, result);
  // A recording in which nothing ran has no wall time.
  if (!result.byLaunch && ofA.wall.values.size() == result.a.repeats &&
      ofB.wall.values.size() == result.b.repeats)
    judge.judge(ofA.wall, ofB.wall, result.step);
  // What a page's kernels add up to is a matter of how many were counted.
  if (result.byLaunch)
    result.kernelTime.bNs = trimmedMeanOf(ofB.kernels);
  else
    judge.judge(ofA.kernels, ofB.kernels, result.kernelTime);
  for (auto [item, both] : llvm::zip_equal(result.items, series))
    if (both.first && both.second)
      judge.judge(*both.first, *both.second, item, judge.launchesOf(item));
  sortItems(result.items, judge);
  addNotes(result);
  judge.noteUnproven();
  return result;
}
