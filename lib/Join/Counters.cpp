// Hardware counters of a run. Counters were taken in steps of their own. A
// kernel of the profile is the counted launch of the same identity (a wrapper's
// line, or a node), of the same turn among the kernels of that identity in its
// step, and of the same name.

#include "opprof/Join/Counters.h"

#include "IdentityPlaces.h"
#include "NodeMetrics.h"
#include "opprof/Metrics/Catalogue.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <numeric>

using namespace llvm;
using namespace opprof;
using namespace opprof::join;
using namespace opprof::profile;
using namespace opprof::trace;

/// Adds up the kernels of the step, each by its own values or by those that
/// stand for it. Without one of them there is nothing to hold the step against.
static void sumKernels(const CountersFile &file, StepCounters &step) {
  std::map<std::string, double> sums;
  // The step's time has the gaps between kernels in it, which no sum has.
  for (const auto &[name, value] : step.row.values)
    if (metrics::sumOf(name) == metrics::Sum::Amount && name != "time_ns")
      sums[name] = 0;
  for (const CountedLaunch &launch : file.launches) {
    std::optional<uint32_t> row = launch.row;
    if (!row && launch.countedFor)
      row = file.launches[*launch.countedFor].row;
    if (!row)
      return;
    const auto &values = file.rows[*row].values;
    for (auto it = sums.begin(); it != sums.end();) {
      auto value = values.find(it->first);
      if (value == values.end()) {
        it = sums.erase(it);
        continue;
      }
      it->second += value->second;
      // No file could say more than the largest number.
      it = std::isfinite(it->second) ? std::next(it) : sums.erase(it);
    }
  }
  if (sums.empty())
    return;
  step.kernelSums = std::move(sums);
  step.summedKernels = file.launches.size();
  step.countedKernels = file.rows.size();
}

namespace {
class CounterJoin {
public:
  CounterJoin(Profile &profile, const CountersFile &file,
              const AttributionInputs &inputs);

  void attach();

private:
  /// A launch of a map, the first one of its line, or a node outside of maps.
  struct Key {
    bool isNode = false;
    uint32_t index = 0;
    auto operator<=>(const Key &) const = default;
  };
  std::optional<Key> keyOf(const Identity &identity) const;
  std::optional<Key> keyOf(const Activity &kernel) const;
  /// Nodes of a counted launch.
  ArrayRef<uint32_t> nodesOf(uint32_t launch) const;
  std::string describe(uint32_t launch) const;
  void attachKernels();
  void attachNodes();
  void inferFrom(Node &node, uint32_t launch) const;

  Profile &profile;
  const CountersFile &file;
  IdentityPlaces places;
  std::vector<uint32_t> firstRecord;
  /// By launch record: the first record of the same line.
  std::vector<uint32_t> firstOfLine;
  NodeIdMap<uint32_t> nodes;
  /// Keys of CountersFile::launches.
  std::vector<std::optional<Key>> keys;
  std::map<Key, std::vector<uint32_t>> byKey;
  UniquePlaces unique;
  /// By kernel: the launch that was counted for its own.
  std::vector<std::optional<uint32_t>> countedFor;
};
} // namespace

CounterJoin::CounterJoin(Profile &profile, const CountersFile &file,
                         const AttributionInputs &inputs)
    : profile(profile), file(file), places(inputs), unique(inputs.partitions) {
  std::map<std::tuple<uint32_t, uint32_t>, uint32_t> lines;
  uint32_t record = 0;
  for (auto [map, launchMap] : llvm::enumerate(inputs.maps)) {
    firstRecord.push_back(record);
    for (const launch::Launch &launch : launchMap.launches) {
      firstOfLine.push_back(
          launch.line
              ? lines.try_emplace({map, launch.line}, record).first->second
              : record);
      ++record;
    }
  }
  for (auto [index, node] : llvm::enumerate(profile.nodes))
    nodes.try_emplace(node.id, index);
}

std::optional<CounterJoin::Key>
CounterJoin::keyOf(const Identity &identity) const {
  if (identity.node.empty() && identity.file.empty())
    return std::nullopt;
  IdentityPlace place = places.find(identity);
  if (!place.launches.empty()) {
    uint32_t record = firstRecord[place.map] + place.launches.front();
    if (record < firstOfLine.size())
      return Key{false, firstOfLine[record]};
  } else if (place.isNode) {
    auto it = nodes.find(place.node);
    if (it != nodes.end())
      return Key{true, it->second};
  }
  return std::nullopt;
}

std::optional<CounterJoin::Key>
CounterJoin::keyOf(const Activity &kernel) const {
  if (kernel.launch && *kernel.launch < firstOfLine.size())
    return Key{false, firstOfLine[*kernel.launch]};
  if (!kernel.launch && kernel.origin->nodes.size() == 1)
    return Key{true, kernel.origin->nodes.front()};
  return std::nullopt;
}

ArrayRef<uint32_t> CounterJoin::nodesOf(uint32_t launch) const {
  const std::optional<Key> &key = keys[launch];
  if (!key)
    return {};
  return key->isNode ? ArrayRef(key->index)
                     : ArrayRef(profile.launches[key->index].nodes);
}

std::string CounterJoin::describe(uint32_t launch) const {
  const std::optional<Key> &key = keys[launch];
  if (!key)
    return "launch " + std::to_string(launch) + " of the step";
  if (key->isNode)
    return "node " + nameIn(profile, profile.nodes[key->index].id);
  const LaunchRecord &record = profile.launches[key->index];
  return "launch " + std::to_string(record.index) + " of " +
         record.compiledGraph;
}

void CounterJoin::attachKernels() {
  // Without a graph, launches have no more than their order in the step.
  bool byOrder = !hasGraph(profile);
  for (auto [index, launch] : llvm::enumerate(file.launches)) {
    keys.push_back(keyOf(launch.identity));
    if (byOrder)
      byKey[Key{}].push_back(index);
    else if (keys.back())
      byKey[*keys.back()].push_back(index);
  }
  std::vector<uint32_t> order(profile.kernels.size());
  std::iota(order.begin(), order.end(), 0);
  llvm::stable_sort(order, [&](uint32_t a, uint32_t b) {
    auto key = [&](const Activity &kernel) {
      return std::tuple(kernel.launchStartNs.value_or(kernel.startNs),
                        kernel.graphNode.value_or(0), kernel.startNs);
    };
    return key(profile.kernels[a]) < key(profile.kernels[b]);
  });

  std::vector<uint32_t> rowPlace(file.rows.size(), ~uint32_t(0));
  std::map<std::pair<std::optional<uint32_t>, Key>, uint32_t> turns;
  countedFor.resize(profile.kernels.size());
  uint64_t others = 0, counted = 0;
  for (uint32_t position : order) {
    Activity &kernel = profile.kernels[position];
    std::optional<Key> key = byOrder ? Key{} : keyOf(kernel);
    if (!key || !byKey.contains(*key))
      continue;
    const std::vector<uint32_t> &same = byKey[*key];
    uint32_t turn = turns[{kernel.step, *key}]++;
    // Without marks of steps the turns of all of them follow one another.
    if (!kernel.step)
      turn %= same.size();
    if (turn >= same.size() ||
        file.launches[same[turn]].kernel != kernel.name) {
      ++others;
      continue;
    }
    const CountedLaunch &launch = file.launches[same[turn]];
    std::optional<uint32_t> row = launch.row;
    std::string from;
    if (!row && launch.countedFor) {
      row = file.launches[*launch.countedFor].row;
      countedFor[position] = launch.countedFor;
      from = describe(*launch.countedFor);
    }
    if (!row)
      continue;
    if (const std::string &where = file.elsewhere[*row];
        !where.empty() && kernel.cudaGraph)
      from += (from.empty() ? "the same kernel " : ", ") + where;
    if (rowPlace[*row] == ~uint32_t(0)) {
      rowPlace[*row] = profile.counters.size();
      profile.counters.push_back(file.rows[*row]);
    }
    kernel.counters = rowPlace[*row];
    profile.changeOrigin(kernel, [&](Origin &origin) {
      origin.countersFrom = profile.intern(from);
    });
    ++counted;
  }
  if (others)
    profile.notes.push_back(
        std::to_string(others) +
        " kernels have no counters because another kernel, or none, ran in "
        "their place when counters were taken");
  if (!file.rows.empty() && !counted)
    profile.notes.push_back("counters were taken, and none of the launches "
                            "that they are of is one of the profile's");
}

/// Names the node of the counted launch that stands in this one's place.
void CounterJoin::inferFrom(Node &node, uint32_t launch) const {
  MetricsOrigin &origin = node.inferredFrom.emplace();
  ArrayRef<uint32_t> candidates = nodesOf(launch);
  if (candidates.empty()) {
    origin.launch = describe(launch);
    return;
  }
  NodeId place = unique.representative(node.id);
  const auto *standing = llvm::find_if(candidates, [&](uint32_t candidate) {
    return unique.representative(profile.nodes[candidate].id) == place;
  });
  uint32_t found =
      standing == candidates.end() ? candidates.front() : *standing;
  origin.node = profile.nodes[found].id;
}

void CounterJoin::attachNodes() {
  addNodeMetrics(profile, [&](Node &node) {
    for (uint32_t id : node.kernels)
      if (profile.kernels[id].phase == Phase::Steady && countedFor[id])
        return inferFrom(node, *countedFor[id]);
  });
}

void CounterJoin::attach() {
  for (const std::string &note : file.notes)
    profile.notes.push_back(note);
  profile.stepCounters = file.whole;
  if (profile.stepCounters)
    sumKernels(file, *profile.stepCounters);
  attachKernels();
  attachNodes();
}

void opprof::join::attachCounters(Profile &profile, const CountersFile &file,
                                  const AttributionInputs &inputs) {
  CounterJoin(profile, file, inputs).attach();
}
