// Nodes of what was joined, and partitions.

#include "JoinedNodes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

#include <tuple>

using namespace llvm;
using namespace opprof;
using namespace opprof::join;
using namespace opprof::profile;
using namespace opprof::trace;

/// How sure it is that a launch computes a node. Maps that do not say it show
/// which records do: dataflow that agrees with one of PyTorch's is certain. A
/// map without records, as of operators that run one by one, states its nodes.
static Confidence confidenceOf(const launch::LaunchNode &node) {
  if (node.confidence)
    return *node.confidence;
  if (node.evidence.empty())
    return Confidence::High;
  auto has = [&](StringRef record) {
    return llvm::is_contained(node.evidence, record);
  };
  bool isRecorded = has("provenance") || has("fragment") || has("target");
  if (isRecorded && (has("dataflow") || node.prepares))
    return Confidence::High;
  return isRecorded || has("dataflow") ? Confidence::Medium : Confidence::Low;
}

namespace {
/// What the nodes of a launch add up to for a kernel of it.
struct LaunchSum {
  std::optional<Confidence> nodes, exported;
  /// By place in Profile::nodes. Zero computes nothing.
  std::map<uint32_t, double> work;
  bool isModelled = true;
};
} // namespace

static void addConfidence(std::optional<Confidence> &least, Confidence next) {
  least = std::max(least.value_or(next), next);
}

/// Writes each node's part of a million: by work where all of it is modelled,
/// evenly among those that compute where not.
static void divide(const LaunchSum &sum, LaunchRecord &record) {
  constexpr double kMillion = 1e6;
  if (record.nodes.size() < 2)
    return;
  double total = 0;
  unsigned computing = 0;
  for (auto [node, work] : sum.work) {
    total += work;
    computing += work > 0;
  }
  // Where nothing of it computes, what it does move is anybody's.
  record.share = computing == 1                ? Share::Whole
                 : computing && sum.isModelled ? Share::Modelled
                                               : Share::Even;
  if (!computing)
    return;
  for (uint32_t node : record.nodes) {
    double work = sum.work.find(node)->second;
    double part = record.share == Share::Modelled
                      ? work / total
                      : (work > 0) / double(computing);
    record.parts.push_back(
        work > 0 ? std::max<uint32_t>(1, uint32_t(part * kMillion)) : 0);
  }
}

/// A kernel of a launch is as sure as the least sure link from it to its nodes.
static void setLinks(ArrayRef<LaunchSum> sums, Profile &profile) {
  for (std::vector<Activity> *list : {&profile.kernels, &profile.copies})
    for (Activity &activity : *list)
      if (activity.launch) {
        const std::vector<uint32_t> &nodes =
            profile.launches[*activity.launch].nodes;
        const LaunchSum &sum = sums[*activity.launch];
        activity.links = {activity.confidence, sum.nodes, sum.exported};
        for (std::optional<Confidence> link : {sum.nodes, sum.exported})
          activity.confidence =
              std::max(activity.confidence, link.value_or(activity.confidence));
        if (nodes.empty()) {
          activity.confidence = Confidence::Unattributed;
          activity.links = {};
        }
        profile.changeOrigin(activity, [&](Origin &origin) {
          origin.nodes = nodes;
          if (nodes.empty())
            origin.explanation =
                profile.intern((origin.explanation +
                                "; the launch map names no node of this launch")
                                   .str());
        });
      }
}

void opprof::join::addNodes(const Trace &trace, const AttributionInputs &inputs,
                            const LaunchIndex &launches,
                            const IdentityJoins &identities,
                            const NodeActivities &ofNodes,
                            ArrayRef<InputCopy> copies, Profile &profile) {
  std::map<std::pair<std::string, std::string>, uint64_t> weight;
  NodeIdMap<uint32_t> places;
  std::vector<LaunchSum> sums(profile.launches.size());
  auto placeOf = [&](const NodeId &id, const launch::LaunchNode *from) {
    auto [it, inserted] = places.try_emplace(id, profile.nodes.size());
    if (inserted) {
      profile.nodes.emplace_back().id = id;
      ++weight[{id.graph, id.stage}];
    }
    Node &node = profile.nodes[it->second];
    if (from && !node.module)
      node.module = from->module;
    if (from && !node.source && !from->source.empty())
      node.source = from->source;
    return it->second;
  };
  for (auto [map, launchMap] : llvm::enumerate(inputs.maps))
    for (auto [index, launch] : llvm::enumerate(launchMap.launches)) {
      uint32_t number = launches.recordOf({uint32_t(map), uint32_t(index)});
      LaunchRecord &record = profile.launches[number];
      LaunchSum &sum = sums[number];
      // What computes nothing can't be wrong about time, where others compute.
      bool anyComputes =
          llvm::any_of(launch.nodes, [](const launch::LaunchNode &node) {
            return node.work != uint64_t(0);
          });
      for (const launch::LaunchNode &node : launch.nodes) {
        SmallVector<uint32_t> found, working;
        if (node.from.empty())
          found.push_back(placeOf(launchMap.idOf(node), &node));
        for (const NodeId &origin : node.from)
          found.push_back(placeOf(origin, &node));
        for (auto [place, id] : llvm::enumerate(found)) {
          if (!llvm::is_contained(record.nodes, id))
            record.nodes.push_back(id);
          sum.work.try_emplace(id, 0);
          if (!llvm::is_contained(node.idleFrom, place))
            working.push_back(id);
          Node &known = profile.nodes[id];
          if (known.stack.empty() && node.stack &&
              *node.stack < launchMap.stacks.size())
            known.stack = launchMap.stacks[*node.stack];
        }
        if (anyComputes && node.work == uint64_t(0))
          continue;
        sum.isModelled &= node.work.has_value();
        for (uint32_t id : working)
          sum.work[id] += double(node.work.value_or(1)) / working.size();
        addConfidence(sum.nodes, confidenceOf(node));
        if (node.fromConfidence)
          addConfidence(sum.exported, *node.fromConfidence);
      }
      divide(sum, record);
    }
  setLinks(sums, profile);
  for (auto [list, pairs] : {std::pair(&profile.kernels, &ofNodes.kernels),
                             std::pair(&profile.copies, &ofNodes.copies)})
    for (auto [id, number] : *pairs) {
      const Identity &identity = trace.identities[number];
      Activity &activity = (*list)[id];
      const IdentityPlace &place = identities.placeOf(number);
      activity.confidence = Confidence::High;
      activity.links = {Confidence::High, Confidence::High, std::nullopt};
      profile.changeOrigin(activity, [&](Origin &origin) {
        origin.nodes = {placeOf(place.node, nullptr)};
        origin.method = "identity";
        origin.explanation = profile.intern(
            (activity.graphNode
                 ? "replay of a CUDA graph; its node was captured "
                   "under the id of node "
                 : "launched under the id of node ") +
            identity.node);
      });
    }

  for (const InputCopy &copy : copies) {
    Activity &activity =
        (copy.isKernel ? profile.kernels : profile.copies)[copy.id];
    profile.changeOrigin(activity, [&](Origin &origin) {
      origin.explanation = profile.intern(copy.explanation);
      for (const NodeId &input : copy.inputs)
        origin.nodes.push_back(placeOf(input, nullptr));
      if (!copy.inputs.empty())
        origin.method = "enclosure";
    });
    if (!copy.inputs.empty())
      activity.confidence = Confidence::Medium;
  }

  uint64_t most = 0;
  for (const auto &[identity, count] : weight)
    if (count > most) {
      most = count;
      std::tie(profile.graph, profile.stage) = identity;
    }
  // A partition map's graph is what the user asks about.
  for (const PartitionMap &map : inputs.partitions)
    if (!map.graph.empty() && weight.contains({map.graph, map.stage})) {
      profile.graph = map.graph;
      profile.stage = map.stage;
      break;
    }
}

/// Adds the partitions of one graph; `nodes` are the places of the profile's.
static void addPartitions(const PartitionMap &map,
                          const NodeIdMap<uint32_t> &nodes, Profile &profile) {
  uint64_t met = 0;
  for (const MappedClass &mapped : map.classes)
    for (const MappedPartition &partition : mapped.partitions) {
      PartitionTime &time = profile.partitions.emplace_back();
      time.classId = mapped.id;
      time.hash = mapped.hash;
      time.label = partition.label;
      time.role = partition.role();
      time.nodeCount = partition.nodes.size();
      for (const NodeId &id : partition.nodes) {
        auto it = nodes.find(id);
        if (it == nodes.end())
          continue;
        ++met;
        Node &node = profile.nodes[it->second];
        time.kernelTimeNs += node.kernelTimeNs;
        if (partition.parent.empty())
          node.partition = partition.label;
      }
    }
  if (!met && !map.classes.empty())
    profile.notes.push_back("the partition map speaks of graph '" + map.graph +
                            "', stage '" + map.stage +
                            "', and no kernel was joined to a node of it");
}

void opprof::join::addPartitions(ArrayRef<PartitionMap> maps,
                                 Profile &profile) {
  NodeIdMap<uint32_t> nodes;
  for (auto [index, node] : llvm::enumerate(profile.nodes))
    nodes.try_emplace(node.id, index);
  for (const PartitionMap &map : maps)
    ::addPartitions(map, nodes, profile);
}
