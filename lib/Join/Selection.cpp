// Selecting the launches of a step that are counted.

#include "opprof/Join/Selection.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"

#include <set>
#include <tuple>

using namespace llvm;
using namespace opprof;
using namespace opprof::join;

//===----------------------------------------------------------------------===//
// Launches of the maps
//===----------------------------------------------------------------------===//

namespace {
/// Finds the launch of a map that a recorded launch is, by its line of code.
class Locator {
public:
  explicit Locator(const LayerInputs &layers) : layers(layers) {
    for (const launch::LaunchMap &map : layers.maps) {
      auto &lines = byLine.emplace_back();
      for (auto [place, launch] : llvm::enumerate(map.launches))
        if (launch.line)
          lines[launch.line] = place;
    }
  }

  /// Map, and place in it.
  using Place = std::pair<uint32_t, uint32_t>;
  std::optional<Place> find(const StepLaunch &launch) const {
    if (launch.identity.file.empty() || !layers.wrappers)
      return std::nullopt;
    std::optional<uint32_t> map = layers.wrappers->find(launch.identity.file);
    if (!map)
      return std::nullopt;
    auto it = byLine[*map].find(launch.identity.line);
    if (it == byLine[*map].end())
      return std::nullopt;
    return Place{*map, it->second};
  }
  const launch::Launch &at(Place place) const {
    return layers.maps[place.first].launches[place.second];
  }
  /// The launches that can be found, in call order.
  std::vector<Place> all() const {
    std::vector<Place> places;
    for (uint32_t map = 0; map < byLine.size(); ++map) {
      size_t begin = places.size();
      for (auto [line, place] : byLine[map])
        places.push_back({map, place});
      std::sort(places.begin() + begin, places.end(),
                [&](Place a, Place b) { return at(a).index < at(b).index; });
    }
    return places;
  }

private:
  const LayerInputs &layers;
  std::vector<std::map<uint32_t, uint32_t>> byLine;
};

/// Which launch's counters stand for which, by the partitions.
class Standing {
public:
  /// A launch of a map, or a node that runs by itself.
  struct Key {
    std::optional<Locator::Place> place;
    NodeId node;
    auto operator<=>(const Key &) const = default;
  };

  Standing(const LayerInputs &layers, const Locator &locator)
      : unique(layers.partitions) {
    std::map<Nodes, uint32_t> seen;
    for (Locator::Place place : locator.all()) {
      const launch::Launch &launch = locator.at(place);
      Nodes nodes;
      for (const launch::LaunchNode &node : launch.nodes)
        nodes.insert(node.from.begin(), node.from.end());
      if (!nodes.empty())
        add({place, {}}, nodes, seen[nodes]++, launch.kernel);
    }
  }

  void addNode(const NodeId &node) { add({std::nullopt, node}, {node}, 0, ""); }

  /// The launch whose counters stand for this one's; one that is known to
  /// compute no node stands for itself.
  Key countedFor(const Key &key) const {
    auto it = workOf.find(key);
    return it == workOf.end() ? key : counted.at(it->second);
  }

private:
  using Nodes = std::set<NodeId>;
  /// Launches that do the same work: what they compute with each node in its
  /// unique place, which of the launches of exactly these nodes it is, and its
  /// kernel.
  using Work = std::tuple<Nodes, uint32_t, std::string>;

  void add(const Key &key, const Nodes &nodes, uint32_t number,
           StringRef kernel) {
    Nodes places;
    for (const NodeId &node : nodes)
      places.insert(unique.representative(node));
    bool isUnique = nodes == places;
    Work work{std::move(places), number, kernel.str()};
    if (!workOf.try_emplace(key, work).second)
      return;
    // The unique partition's own launch, where it has one that computes nothing
    // else; fusion across a partition's border can leave it without.
    auto [it, inserted] = counted.try_emplace(work, key);
    if (!inserted && isUnique && !uniqueOnes.contains(it->second))
      it->second = key;
    if (isUnique)
      uniqueOnes.insert(key);
  }

  UniquePlaces unique;
  std::map<Key, Work> workOf;
  std::map<Work, Key> counted;
  /// Launches of unique nodes alone.
  std::set<Key> uniqueOnes;
};
} // namespace

/// What is recorded of a node may leave out its graph and stage where the
/// program has one.
static NodeId nodeOf(const trace::Identity &identity,
                     const LayerInputs &layers) {
  NodeId node{identity.graph, identity.stage, identity.node};
  if (node.graph.empty() && layers.partitions.size() == 1)
    node.graph = layers.partitions.front().graph;
  for (const PartitionMap &map : layers.partitions)
    if (node.stage.empty() && node.graph == map.graph)
      node.stage = map.stage;
  return node;
}

//===----------------------------------------------------------------------===//
// Selections
//===----------------------------------------------------------------------===//

/// `stood` has the counted launch of each that is not.
static SelectedLaunches select(size_t count,
                               const MapVector<uint32_t, uint32_t> &stood) {
  SelectedLaunches selected;
  for (uint32_t index = 0; index < count; ++index)
    if (!stood.contains(index))
      selected.indices.push_back(index);
  for (auto [other, counted] : stood)
    selected.standsFor[counted].push_back(other);
  return selected;
}

bool opprof::join::knowsLaunches(ArrayRef<StepLaunch> launches,
                                 const LayerInputs &layers) {
  Locator locator(layers);
  return llvm::any_of(launches, [&](const StepLaunch &launch) {
    if (!launch.identity.node.empty())
      return llvm::any_of(layers.partitions, [&](const PartitionMap &map) {
        return map.graph == launch.identity.graph;
      });
    return locator.find(launch).has_value();
  });
}

SelectedLaunches opprof::join::selectUnique(ArrayRef<StepLaunch> launches,
                                            const LayerInputs &layers) {
  Locator locator(layers);
  Standing standing(layers, locator);
  std::map<Standing::Key, std::vector<uint32_t>> ofKey;
  std::vector<Standing::Key> order;
  for (auto [index, launch] : llvm::enumerate(launches)) {
    Standing::Key key;
    if (std::optional<Locator::Place> place = locator.find(launch)) {
      key.place = place;
    } else if (!launch.identity.node.empty()) {
      key.node = nodeOf(launch.identity, layers);
      standing.addNode(key.node);
    } else {
      continue;
    }
    std::vector<uint32_t> &mine = ofKey[key];
    if (mine.empty())
      order.push_back(key);
    mine.push_back(index);
  }
  MapVector<uint32_t, uint32_t> stood;
  for (const Standing::Key &key : order) {
    const std::vector<uint32_t> &mine = ofKey.at(key);
    auto theirs = ofKey.find(standing.countedFor(key));
    // A launch of another number of kernels is other work, whatever the graph
    // says.
    if (theirs == ofKey.end() || theirs->first == key ||
        !llvm::equal(mine, theirs->second, [&](uint32_t a, uint32_t b) {
          return launches[a].kernel == launches[b].kernel;
        }))
      continue;
    for (auto [other, counted] : llvm::zip_equal(mine, theirs->second))
      stood.insert({other, counted});
  }
  return select(launches.size(), stood);
}

SelectedLaunches opprof::join::selectSameKernels(ArrayRef<StepLaunch> launches,
                                                 const LayerInputs &layers) {
  using Numbers = std::vector<std::optional<uint64_t>>;
  Locator locator(layers);
  std::map<std::pair<std::string, Numbers>, uint32_t> first;
  std::map<Locator::Place, uint32_t> turns;
  MapVector<uint32_t, uint32_t> stood;
  for (auto [index, launch] : llvm::enumerate(launches)) {
    Numbers shape(launch.grid.begin(), launch.grid.end());
    shape.insert(shape.end(), launch.block.begin(), launch.block.end());
    shape.insert(shape.end(), {launch.staticShared, launch.dynamicShared});
    if (std::optional<Locator::Place> place = locator.find(launch)) {
      const launch::Launch &entry = locator.at(*place);
      // One call of a library may launch several kernels.
      uint64_t turn = turns[*place]++;
      shape.insert(shape.end(),
                   {entry.flops, entry.bytesRead, entry.bytesWritten, turn});
    }
    auto [it, inserted] =
        first.try_emplace({launch.kernel, std::move(shape)}, index);
    if (!inserted)
      stood.insert({uint32_t(index), it->second});
  }
  return select(launches.size(), stood);
}

//===----------------------------------------------------------------------===//
// Filter
//===----------------------------------------------------------------------===//

/// The `top` kernels of those chosen with the longest total time.
static std::set<StringRef> longestKernels(ArrayRef<StepLaunch> launches,
                                          ArrayRef<uint32_t> chosen,
                                          uint32_t top) {
  std::map<StringRef, int64_t> total;
  for (const StepLaunch &launch : launches)
    total[launch.kernel] += launch.durationNs.value_or(0);
  std::set<StringRef> names;
  for (uint32_t index : chosen)
    names.insert(launches[index].kernel);
  std::vector<StringRef> order(names.begin(), names.end());
  llvm::stable_sort(
      order, [&](StringRef a, StringRef b) { return total[a] > total[b]; });
  order.resize(std::min<size_t>(order.size(), top));
  return {order.begin(), order.end()};
}

SelectedLaunches opprof::join::narrow(SelectedLaunches selected,
                                      ArrayRef<StepLaunch> launches,
                                      const LaunchFilter &filter) {
  std::vector<uint32_t> chosen = std::move(selected.indices);
  if (filter.named) {
    std::set<uint32_t> named(filter.named->begin(), filter.named->end());
    llvm::erase_if(chosen,
                   [&](uint32_t index) { return !named.contains(index); });
  }
  if (filter.top) {
    std::set<StringRef> longest = longestKernels(launches, chosen, *filter.top);
    llvm::erase_if(chosen, [&](uint32_t index) {
      return !longest.contains(launches[index].kernel);
    });
  }
  chosen.erase(chosen.begin(),
               chosen.begin() + std::min<size_t>(filter.skip, chosen.size()));
  if (filter.count)
    chosen.resize(std::min<size_t>(chosen.size(), *filter.count));
  SelectedLaunches result;
  for (uint32_t index : chosen)
    if (auto it = selected.standsFor.find(index);
        it != selected.standsFor.end())
      result.standsFor.insert(*it);
  result.indices = std::move(chosen);
  return result;
}
