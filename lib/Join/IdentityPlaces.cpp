// What recorded identities stand for.

#include "IdentityPlaces.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::join;
using namespace opprof::profile;
using namespace opprof::trace;
using launch::LaunchKind;

IdentityPlaces::IdentityPlaces(const AttributionInputs &inputs)
    : inputs(inputs) {
  for (const launch::LaunchMap &map : inputs.maps) {
    auto &lines = byLine.emplace_back();
    auto &nodes = byNode.emplace_back();
    for (auto [index, launch] : llvm::enumerate(map.launches)) {
      if (launch.line && launch.kind != LaunchKind::Subgraph)
        lines[launch.line].push_back(index);
      if (launch.nodes.size() == 1 && launch.nodes[0].from.empty())
        nodes[map.idOf(launch.nodes[0])].push_back(index);
    }
  }
}

IdentityPlace IdentityPlaces::findNode(const Identity &identity) const {
  IdentityPlace place;
  for (auto [index, map] : llvm::enumerate(inputs.maps)) {
    if ((!identity.graph.empty() && identity.graph != map.graph) ||
        (!identity.stage.empty() && identity.stage != map.stage))
      continue;
    auto it = byNode[index].find({map.graph, map.stage, identity.node});
    if (it == byNode[index].end())
      continue;
    place.map = index;
    place.launches = it->second;
    return place;
  }
  place.isNode = true;
  NodeId &node = place.node;
  node = {identity.graph, identity.stage, identity.node};
  // What the recording leaves out is the exported graph's, where there is one.
  if (node.graph.empty() && inputs.partitions.size() == 1)
    node.graph = inputs.partitions.front().graph;
  for (const PartitionMap &map : inputs.partitions)
    if (node.stage.empty() && node.graph == map.graph)
      node.stage = map.stage;
  if (node.stage.empty())
    node.stage = "export";
  return place;
}

IdentityPlace IdentityPlaces::find(const Identity &identity) const {
  if (!identity.node.empty())
    return findNode(identity);
  IdentityPlace place;
  // The code decides. A compiled graph's name alone is no proof, as every
  // program's first one has the same; it serves where there is no code to hold
  // against it.
  std::optional<uint32_t> map;
  if (inputs.wrappers)
    map = inputs.wrappers->find(identity.file);
  for (auto [index, launchMap] : llvm::enumerate(inputs.maps))
    if (!map && !identity.graph.empty() && identity.graph == launchMap.graph &&
        !(inputs.wrappers &&
          inputs.wrappers->isOtherCode(identity.file, index)))
      map = index;
  place.details = identity.file + ":" + std::to_string(identity.line);
  if (!map) {
    place.reason = inputs.maps.empty()
                       ? "launched by generated code, and there is no launch "
                         "map"
                       : StringRef(kUnknownCode);
    return place;
  }
  auto it = byLine[*map].find(identity.line);
  if (it == byLine[*map].end()) {
    place.reason = "launched by a line of a compiled graph for which the "
                   "launch map has no launch";
    place.details += " (" + inputs.maps[*map].graph + ")";
    return place;
  }
  place.map = *map;
  place.launches = it->second;
  return place;
}
