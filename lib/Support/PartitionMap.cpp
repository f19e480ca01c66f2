// Reading and writing partition maps.

#include "opprof/Support/PartitionMap.h"
#include "opprof/Support/JSONReading.h"
#include "opprof/Support/JSONWriting.h"
#include "opprof/Support/ReadingLimits.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/JSON.h"

using namespace llvm;
using namespace opprof;
using simdjson::dom::element;
using simdjson::dom::object;

//===----------------------------------------------------------------------===//
// Reader
//===----------------------------------------------------------------------===//

namespace {
class Reader : public JSONReading {
public:
  using JSONReading::JSONReading;

  Error readMap(object keys, PartitionMap &map);

private:
  Error readClass(object keys, const PartitionMap &map, MappedClass &mapped);
  Error readPartition(object keys, const PartitionMap &map,
                      const MappedClass &mapped, MappedPartition &partition);
};
} // namespace

Error Reader::readPartition(object keys, const PartitionMap &map,
                            const MappedClass &mapped,
                            MappedPartition &partition) {
  if (Error error = getString(keys, "label", partition.label, true))
    return error;
  std::string role;
  if (Error error = getString(keys, "role", role, true))
    return error;
  if (role != "unique" && role != "duplicate")
    return fail("\"role\" must be \"unique\" or \"duplicate\"");
  partition.isUnique = role == "unique";
  // A null says that it lies in no class, whatever the others do.
  bool saysParent = keys["parent"].error() == simdjson::SUCCESS;
  if (!saysParent)
    partition.parent = mapped.parent;
  else if (Error error = getString(keys, "parent", partition.parent, false))
    return error;
  if (Error error = getStrings(keys, "modules", false, partition.modules))
    return error;
  return getArray(keys, "nodes", true, [&](element node) {
    return getNode(node, map.graph, map.stage, partition.nodes.emplace_back());
  });
}

Error Reader::readClass(object keys, const PartitionMap &map,
                        MappedClass &mapped) {
  if (Error error = getString(keys, "id", mapped.id, true))
    return error;
  if (Error error = getString(keys, "hash", mapped.hash, false))
    return error;
  if (Error error = getString(keys, "parent", mapped.parent, false))
    return error;
  if (Error error = getObjects(keys, "partitions", true, [&](object entry) {
        return readPartition(entry, map, mapped,
                             mapped.partitions.emplace_back());
      }))
    return error;
  std::optional<uint64_t> count;
  if (Error error = getInteger(keys, "node_count", count))
    return error;
  mapped.nodeCount = count.value_or(
      mapped.partitions.empty() ? 0 : mapped.partitions.front().nodes.size());
  return Error::success();
}

Error Reader::readMap(object keys, PartitionMap &map) {
  if (Error error =
          checkVersion(keys, PartitionMap::kVersion, "a partition map",
                       "`opprof-opt --dedup-partitions "
                       "--partition-map=FILE`"))
    return error;
  if (Error error = getString(keys, "graph", map.graph, true))
    return error;
  if (Error error = getString(keys, "stage", map.stage, false))
    return error;
  std::optional<uint64_t> count;
  if (Error error = getInteger(keys, "node_count", count))
    return error;
  map.nodeCount = count.value_or(0);
  if (Error error = getObjects(keys, "classes", true, [&](object entry) {
        return readClass(entry, map, map.classes.emplace_back());
      }))
    return error;
  return getObjects(keys, "weak_classes", false, [&](object entry) -> Error {
    MappedWeakClass &weak = map.weakClasses.emplace_back();
    if (Error error = getString(entry, "id", weak.id, true))
      return error;
    if (Error error = getStrings(entry, "differ_in", false, weak.differIn))
      return error;
    return getStrings(entry, "partitions", false, weak.partitions);
  });
}

Expected<std::vector<PartitionMap>> opprof::readPartitionMaps(StringRef text,
                                                              StringRef name) {
  std::vector<PartitionMap> maps;
  limitReading(name, text.size(), kPlainBudget);
  Reader reader(name);
  if (Error error = reader.parse(text, [&](element root) {
        return reader.forOneOrMany(root, [&](object keys) {
          return reader.readMap(keys, maps.emplace_back());
        });
      }))
    return error;
  return maps;
}

//===----------------------------------------------------------------------===//
// Writer
//===----------------------------------------------------------------------===//

static json::Value toParent(StringRef parent) {
  return parent.empty() ? json::Value(nullptr) : json::Value(parent);
}

static void writePartition(json::OStream &json,
                           const MappedPartition &partition,
                           const MappedClass &mapped, const PartitionMap &map) {
  json.object([&] {
    json.attribute("label", toJSONText(partition.label));
    json.attribute("role", partition.role());
    if (partition.parent != mapped.parent)
      json.attribute("parent", toParent(partition.parent));
    writeStrings(json, "modules", partition.modules);
    json.attributeArray("nodes", [&] {
      for (const NodeId &node : partition.nodes)
        writeNode(json, node, map.graph, map.stage);
    });
  });
}

static void writeMap(json::OStream &json, const PartitionMap &map) {
  json.object([&] {
    json.attribute("version", PartitionMap::kVersion);
    json.attribute("graph", toJSONText(map.graph));
    if (!map.stage.empty())
      json.attribute("stage", toJSONText(map.stage));
    json.attribute("node_count", map.nodeCount);
    json.attributeArray("classes", [&] {
      for (const MappedClass &mapped : map.classes)
        json.object([&] {
          json.attribute("id", mapped.id);
          json.attribute("hash", mapped.hash);
          json.attribute("parent", toParent(mapped.parent));
          json.attribute("node_count", mapped.nodeCount);
          json.attributeArray("partitions", [&] {
            for (const MappedPartition &partition : mapped.partitions)
              writePartition(json, partition, mapped, map);
          });
        });
    });
    json.attributeArray("weak_classes", [&] {
      for (const MappedWeakClass &weak : map.weakClasses)
        json.object([&] {
          json.attribute("id", weak.id);
          writeStrings(json, "differ_in", weak.differIn);
          writeStrings(json, "partitions", weak.partitions);
        });
    });
  });
}

void opprof::writePartitionMaps(ArrayRef<PartitionMap> maps, raw_ostream &os) {
  json::OStream json(os, /*IndentSize=*/1);
  if (maps.size() == 1)
    writeMap(json, maps.front());
  else
    json.array([&] {
      for (const PartitionMap &map : maps)
        writeMap(json, map);
    });
  json.flush();
  os << '\n';
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

UniquePlaces::UniquePlaces(ArrayRef<PartitionMap> maps) {
  for (const PartitionMap &map : maps)
    for (const MappedClass &mapped : map.classes) {
      auto unique = llvm::find_if(
          mapped.partitions,
          [](const MappedPartition &partition) { return partition.isUnique; });
      if (unique == mapped.partitions.end())
        continue;
      // The lists of a file that was edited may differ in length.
      for (const MappedPartition &partition : mapped.partitions)
        if (!partition.isUnique)
          for (auto [mine, its] : llvm::zip(partition.nodes, unique->nodes))
            places[mine] = its;
    }
}

NodeId UniquePlaces::representative(const NodeId &node) const {
  // A class may be nested in another: follow until nothing stands for it. A
  // file could name a cycle.
  constexpr int kMaxLevels = 16;
  const NodeId *found = &node;
  for (int level = 0; level < kMaxLevels; ++level) {
    auto it = places.find(*found);
    if (it == places.end() || it->second == *found)
      break;
    found = &it->second;
  }
  return *found;
}
