//===- JoinedNodes.cpp - Nodes of what was joined, and partitions --------===//

#include "JoinedNodes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

#include <tuple>

using namespace llvm;
using namespace opprof;
using namespace opprof::profile;

void opprof::profile::addNodes(const Trace &trace,
                               const AttributionInputs &inputs,
                               const LaunchIndex &launches,
                               const IdentityJoins &identities,
                               const NodeActivities &ofNodes,
                               Profile &profile) {
  std::map<std::pair<std::string, std::string>, uint64_t> weight;
  std::map<std::tuple<std::string, std::string, std::string>, uint32_t> ids;
  auto nodeId = [&](StringRef graph, StringRef stage, StringRef name,
                    const launch::LaunchNode *from) {
    auto [it, inserted] = ids.try_emplace(
        {graph.str(), stage.str(), name.str()}, profile.nodes.size());
    if (inserted) {
      Node &node = profile.nodes.emplace_back();
      node.graph = graph.str();
      node.stage = stage.str();
      node.name = name.str();
      ++weight[{node.graph, node.stage}];
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
          found.push_back(
              nodeId(launchMap.graph, launchMap.stage, node.name, &node));
        for (const NodeId &ref : node.from)
          found.push_back(nodeId(ref.graph, ref.stage, ref.name, &node));
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
      activity.nodes = {
          nodeId(place.graph, place.stage, identity.node, nullptr)};
      activity.method = "identity";
      activity.confidence = Confidence::High;
      activity.explanation = profile.intern(
          (activity.graphNode ? "replay of a CUDA graph; its node was captured "
                                "under the id of node "
                              : "launched under the id of node ") +
          identity.node);
    }

  uint64_t most = 0;
  for (const auto &[identity, count] : weight)
    if (count > most) {
      most = count;
      std::tie(profile.graph, profile.stage) = identity;
    }
  if (inputs.partitions && !inputs.partitions->graph.empty() &&
      weight.contains({inputs.partitions->graph, inputs.partitions->stage})) {
    profile.graph = inputs.partitions->graph;
    profile.stage = inputs.partitions->stage;
  }
}

void opprof::profile::addPartitions(const PartitionMap &map, Profile &profile) {
  StringMap<uint32_t> nodes;
  for (auto [index, node] : llvm::enumerate(profile.nodes))
    if (node.graph == map.graph && node.stage == map.stage)
      nodes[node.name] = index;
  uint64_t met = 0;
  for (const Partition &partition : map.partitions) {
    PartitionTime &time = profile.partitions.emplace_back();
    time.classId = partition.classId;
    time.label = partition.label;
    time.role = partition.role;
    time.nodeCount = partition.nodes.size();
    for (const std::string &name : partition.nodes) {
      auto it = nodes.find(name);
      if (it == nodes.end())
        continue;
      ++met;
      Node &node = profile.nodes[it->second];
      time.kernelTimeNs += node.kernelTimeNs;
      if (partition.parent.empty())
        node.partition = partition.label;
    }
  }
  if (!met && !map.partitions.empty())
    profile.notes.push_back("the partition map speaks of graph '" + map.graph +
                            "', stage '" + map.stage +
                            "', and no kernel was joined to a node of it");
}
