//===- PartitionMap.cpp - Reading partitions.json -------------------------===//

#include "opprof/Support/PartitionMap.h"
#include "opprof/Support/JSONReading.h"

using namespace llvm;
using namespace opprof;
using simdjson::dom::element;
using simdjson::dom::object;

namespace {
class Reader : public JSONReading {
public:
  using JSONReading::JSONReading;

  Error readPartition(object keys, Partition &partition) {
    if (Error error = getString(keys, "label", partition.label, true))
      return error;
    if (Error error = getString(keys, "role", partition.role, true))
      return error;
    if (partition.role != "unique" && partition.role != "duplicate")
      return fail("\"role\" must be \"unique\" or \"duplicate\"");
    return getStrings(keys, "nodes", true, partition.nodes);
  }

  Error readMap(element root, PartitionMap &map) {
    object keys;
    if (Error error = getObject(root, keys))
      return error;
    if (Error error =
            checkVersion(keys, PartitionMap::version, "a partition map",
                         "`opprof-opt --dedup-partitions "
                         "--partition-map=FILE`"))
      return error;
    if (Error error = getString(keys, "graph", map.graph, true))
      return error;
    if (Error error = getString(keys, "stage", map.stage, true))
      return error;
    return getObjects(keys, "classes", true, [&](object classKeys) -> Error {
      std::string id, parent;
      if (Error error = getString(classKeys, "id", id, true))
        return error;
      if (Error error = getString(classKeys, "parent", parent, false))
        return error;
      return getObjects(classKeys, "partitions", true, [&](object entry) {
        Partition &partition = map.partitions.emplace_back();
        partition.classId = id;
        partition.parent = parent;
        return readPartition(entry, partition);
      });
    });
  }
};
} // namespace

Expected<PartitionMap> opprof::readPartitionMap(StringRef text,
                                                StringRef name) {
  PartitionMap map;
  Reader reader(name);
  if (Error error = reader.parse(
          text, [&](element root) { return reader.readMap(root, map); }))
    return error;
  return map;
}
