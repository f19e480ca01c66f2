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

void opprof::join::addNodes(const Trace &trace, const AttributionInputs &inputs,
                            const LaunchIndex &launches,
                            const IdentityJoins &identities,
                            const NodeActivities &ofNodes,
                            ArrayRef<InputCopy> copies, Profile &profile) {
  std::map<std::pair<std::string, std::string>, uint64_t> weight;
  NodeIdMap<uint32_t> places;
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
      LaunchRecord &record =
          profile.launches[launches.recordOf({uint32_t(map), uint32_t(index)})];
      for (const launch::LaunchNode &node : launch.nodes) {
        SmallVector<uint32_t> found;
        if (node.from.empty())
          found.push_back(placeOf(launchMap.idOf(node), &node));
        for (const NodeId &origin : node.from)
          found.push_back(placeOf(origin, &node));
        for (uint32_t id : found)
          if (!llvm::is_contained(record.nodes, id))
            record.nodes.push_back(id);
      }
    }
  for (std::vector<Activity> *list : {&profile.kernels, &profile.copies})
    for (Activity &activity : *list)
      if (activity.launch) {
        activity.nodes = profile.launches[*activity.launch].nodes;
        if (activity.nodes.empty()) {
          activity.explanation =
              profile.intern((activity.explanation +
                              "; the launch map names no node of this launch")
                                 .str());
          activity.confidence = Confidence::Unattributed;
        }
      }

  for (auto [list, pairs] : {std::pair(&profile.kernels, &ofNodes.kernels),
                             std::pair(&profile.copies, &ofNodes.copies)})
    for (auto [id, number] : *pairs) {
      const Identity &identity = trace.identities[number];
      Activity &activity = (*list)[id];
      const IdentityPlace &place = identities.placeOf(number);
      activity.nodes = {placeOf(place.node, nullptr)};
      activity.method = "identity";
      activity.confidence = Confidence::High;
      activity.explanation = profile.intern(
          (activity.graphNode ? "replay of a CUDA graph; its node was captured "
                                "under the id of node "
                              : "launched under the id of node ") +
          identity.node);
    }

  for (const InputCopy &copy : copies) {
    Activity &activity =
        (copy.isKernel ? profile.kernels : profile.copies)[copy.id];
    activity.explanation = profile.intern(copy.explanation);
    if (copy.inputs.empty())
      continue;
    for (const NodeId &input : copy.inputs)
      activity.nodes.push_back(placeOf(input, nullptr));
    activity.method = "enclosure";
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
        if (mapped.parent.empty())
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
