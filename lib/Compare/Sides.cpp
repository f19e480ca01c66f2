// One side of a comparison: several recordings as one table of items.

#include "Sides.h"

#include "opprof/Compare/Statistics.h"
#include "opprof/Support/Units.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

using namespace llvm;
using namespace opprof;
using namespace opprof::compare;
using namespace opprof::profile;

/// More repeats than this are put together with their neighbours: they make an
/// interval no better, and the bootstrap's tables grow with them.
static constexpr size_t kMostRepeats = 1000;

std::vector<Found> compare::matchItems(ArrayRef<Item> from, ArrayRef<Item> to) {
  std::vector<Found> found(from.size());
  std::vector<bool> taken(to.size());
  for (size_t way = 0; way < kNumMatches; ++way) {
    // Those of one key are taken in order.
    StringMap<SmallVector<uint32_t, 1>> byKey;
    for (size_t place = to.size(); place-- > 0;)
      if (!taken[place] && !to[place].keys[way].empty())
        byKey[to[place].keys[way]].push_back(place);
    for (auto [item, match] : llvm::zip_equal(from, found)) {
      if (match.place || item.keys[way].empty())
        continue;
      auto candidates = byKey.find(item.keys[way]);
      if (candidates == byKey.end() || candidates->second.empty())
        continue;
      match = {candidates->second.pop_back_val(), static_cast<Match>(way)};
      taken[*match.place] = true;
    }
  }
  return found;
}

/// Means of neighbours, so that no more than kMostRepeats are left.
static std::vector<double> group(ArrayRef<double> values) {
  size_t groups = std::min(values.size(), kMostRepeats);
  std::vector<double> means;
  for (size_t i = 0; i < groups; ++i) {
    size_t from = values.size() * i / groups,
           to = values.size() * (i + 1) / groups;
    means.push_back(meanOf(values.slice(from, to - from)));
  }
  return means;
}

/// Puts the repeats of recordings, each a part of `values`, into the form in
/// which they are compared.
static Series makeSeries(ArrayRef<double> values, ArrayRef<size_t> parts,
                         bool byRecording) {
  Series series;
  std::vector<double> means, trimmed;
  for (size_t from = 0; size_t part : parts) {
    if (part) {
      means.push_back(meanOf(values.slice(from, part)));
      trimmed.push_back(trimmedMean(values.slice(from, part)).mean);
    }
    from += part;
  }
  // One step that the machine disturbed does not set a recording apart.
  if (trimmed.size() > 1)
    series.apart = *llvm::max_element(trimmed) - *llvm::min_element(trimmed);
  series.values = byRecording ? means : group(values);
  return series;
}

/// What most kernels' first inputs are, by time, those of 1 % and more.
static std::string describeTypes(const Profile &profile) {
  std::map<StringRef, int64_t> timeOf;
  int64_t all = 0;
  for (const Activity &kernel : profile.kernels)
    if (!kernel.origin->inputType.empty()) {
      timeOf[kernel.origin->inputType] += kernel.durationNs;
      all += kernel.durationNs;
    }
  std::vector<std::string> types;
  for (auto [type, time] : timeOf)
    if (time * 100 >= all) {
      StringRef name = type;
      name.consume_front("c10::");
      // A list of tensors has no type of its own.
      if (!name.contains_insensitive("list"))
        types.push_back(name.lower());
    }
  return llvm::join(types, ", ");
}

/// What all launches with known work add up to in a run; empty without any.
static std::string describeWork(const Profile &profile) {
  uint64_t bytes = 0, flops = 0;
  for (const LaunchRecord &launch : profile.launches) {
    if (!launch.runs)
      continue;
    flops += launch.flops.value_or(0);
    bytes += launch.bytesRead.value_or(0) + launch.bytesWritten.value_or(0);
  }
  return flops || bytes
             ? formatPrefix(double(flops)) + "FLOP, " + formatBytes(bytes)
             : std::string();
}

/// Adds what a recording says of one thing to what the others said.
static void addWord(std::string &to, StringRef word) {
  if (word.empty() || StringRef(to) == word)
    return;
  SmallVector<StringRef> known;
  StringRef(to).split(known, "; ");
  if (to.empty())
    to = word;
  else if (!llvm::is_contained(known, word))
    to += ("; " + word).str();
}

/// The operators with known sizes that take 1 % of kernel time or more: by name
/// the sizes that each is called with.
static void addSizes(const Profile &profile, SideTable &table) {
  const OperatorTime *longest = nullptr;
  int64_t all = 0;
  for (const Activity &kernel : profile.kernels)
    all += kernel.durationNs;
  for (const OperatorTime &op : profile.operators) {
    if (op.inputDims.empty() || op.kernelTimeNs * 100 < all)
      continue;
    table.sizes[op.name].insert(op.inputDims);
    if (!longest || op.kernelTimeNs > longest->kernelTimeNs)
      longest = &op;
  }
  if (longest)
    addWord(table.side.inputs, longest->name + " " + longest->inputDims);
}

static void addFacts(const Profile &profile, SideTable &table) {
  Side &side = table.side;
  std::map<std::string, unsigned> devices;
  for (const Device &device : profile.devices)
    if (device.busyNs)
      ++devices[device.name.empty() ? device.kind : device.name];
  std::string names;
  for (const auto &[name, count] : devices)
    names += (names.empty() ? "" : ", ") +
             (count > 1 ? utostr(count) + " × " : std::string()) + name;
  addWord(side.device, names);
  const Device *busiest = findBusiestDevice(profile);
  bool isCPU = busiest && busiest->kind == "cpu";
  side.isCPU |= isCPU;
  side.clock = side.isCPU ? "the host's" : "the device's";
  if (profile.run) {
    addWord(side.mode, profile.run->mode);
    addWord(side.torch, profile.run->torch);
  }
  addWord(side.dtypes, describeTypes(profile));
  addWord(side.inputs, describeWork(profile));
  addSizes(profile, table);
  for (const Source &source : profile.sources)
    addWord(side.source, source.kind);
}

SideTable compare::tabulate(ArrayRef<Recording> recordings, ItemKind by,
                            Repeats repeats) {
  bool byRecording = repeats == Repeats::Recordings;
  bool byLaunch = repeats == Repeats::Launches;
  SideTable result;
  std::vector<ItemTable> tables;
  std::vector<size_t> parts, wallParts;
  Side &side = result.side;
  for (const Recording &recording : recordings) {
    side.files.push_back(recording.file);
    addFacts(*recording.profile, result);
    tables.push_back(byLaunch ? listLaunches(*recording.profile)
                              : listItems(*recording.profile, by));
    side.steps += tables.back().hasSteps ? tables.back().repeats() : 0;
    parts.push_back(tables.back().repeats());
    wallParts.push_back(tables.back().wallNs.size());
  }
  side.recordings = recordings.size();
  side.repeatsAreRecordings = byRecording;
  size_t all = std::accumulate(parts.begin(), parts.end(), size_t(0));

  // The first recording's items, and what only later ones have.
  std::vector<std::vector<double>> times;
  // Of items that are launched: how many times are of each recording.
  std::vector<std::vector<size_t>> partsOfItem;
  std::vector<double> wall, kernels;
  for (size_t from = 0; ItemTable &table : tables) {
    std::vector<Found> found = matchItems(table.items, result.items);
    for (auto [item, match] : llvm::zip_equal(table.items, found)) {
      if (!match.place) {
        match.place = result.items.size();
        result.items.push_back(item);
        result.items.back().kernels = 0;
        times.emplace_back(byLaunch ? 0 : all);
        partsOfItem.emplace_back();
      }
      result.items[*match.place].kernels += item.kernels;
      if (byLaunch) {
        llvm::append_range(times[*match.place], item.timesNs);
        partsOfItem[*match.place].push_back(item.timesNs.size());
        continue;
      }
      llvm::copy(item.timesNs, times[*match.place].begin() + from);
    }
    from += table.repeats();
    llvm::append_range(wall, table.wallNs);
    llvm::append_range(kernels, table.kernelNs);
  }
  // Each launch is one, however many recordings they are from.
  result.counted = byLaunch ? 1 : all;
  for (auto [series, own] : llvm::zip_equal(times, partsOfItem))
    result.times.push_back(
        makeSeries(series, byLaunch ? own : parts, byRecording));
  result.wall = makeSeries(wall, wallParts, byRecording);
  result.kernels = makeSeries(kernels, parts, byRecording);
  side.repeats = result.kernels.values.size();
  if (byLaunch) {
    side.repeats = 0;
    for (const Item &item : result.items)
      side.repeats += item.kernels;
  }
  return result;
}

/// Whether two calls have the same sizes: compiled code gives libraries the
/// result to write into, an argument more at the end.
static bool haveSameSizes(StringRef a, StringRef b) {
  if (a.size() > b.size())
    std::swap(a, b);
  return a == b || (a.consume_back("]") && b.starts_with((a + ",").str()));
}

/// Whether no operator that both have is called with the same sizes in both.
static bool haveOtherSizes(const SideTable &a, const SideTable &b) {
  bool both = false;
  for (const auto &[name, sizes] : a.sizes) {
    auto other = b.sizes.find(name);
    if (other == b.sizes.end())
      continue;
    both = true;
    for (const std::string &one : sizes)
      if (llvm::any_of(other->second, [&](const std::string &of) {
            return haveSameSizes(one, of);
          }))
        return false;
  }
  return both;
}

std::vector<Unlike> compare::findUnlike(const SideTable &a,
                                        const SideTable &b) {
  std::vector<Unlike> unlike;
  auto add = [&](StringRef what, StringRef ofA, StringRef ofB) {
    if (!ofA.empty() && !ofB.empty() && ofA != ofB)
      unlike.push_back({what, ofA.str(), ofB.str()});
  };
  add("device", a.side.device, b.side.device);
  add("mode", a.side.mode, b.side.mode);
  add("torch", a.side.torch, b.side.torch);
  add("dtypes", a.side.dtypes, b.side.dtypes);
  if (a.sizes.empty() && b.sizes.empty() ? a.side.inputs != b.side.inputs
                                         : haveOtherSizes(a, b))
    add("batch", a.side.inputs, b.side.inputs);
  add("source", a.side.source, b.side.source);
  return unlike;
}
