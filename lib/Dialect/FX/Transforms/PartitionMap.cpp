// Writing the partition map.

#include "PartitionMap.h"

#include "opprof/Dialect/FX/Transforms/Passes.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/ManagedStatic.h"
#include "llvm/Support/raw_ostream.h"

using namespace opprof::fx;

/// Node names may hold any bytes; JSON may not.
static std::string toJSONText(llvm::StringRef text) {
  return llvm::json::isUTF8(text) ? text.str() : llvm::json::fixUTF8(text);
}

static void writeStrings(llvm::json::OStream &json,
                         const std::vector<std::string> &strings) {
  json.array([&] {
    for (const std::string &text : strings)
      json.value(toJSONText(text));
  });
}

static void writePartition(llvm::json::OStream &json,
                           const MappedPartition &partition,
                           const PartitionMap &map) {
  json.object([&] {
    json.attribute("label", toJSONText(partition.label));
    json.attribute("role", partition.isUnique ? "unique" : "duplicate");
    json.attributeBegin("modules");
    writeStrings(json, partition.modules);
    json.attributeEnd();
    json.attributeArray("nodes", [&] {
      for (const std::string &node : partition.nodes) {
        if (partition.graph == map.graph) {
          json.value(toJSONText(node));
          continue;
        }
        json.object([&] {
          json.attribute("graph", toJSONText(partition.graph));
          if (!map.stage.empty())
            json.attribute("stage", map.stage);
          json.attribute("name", toJSONText(node));
        });
      }
    });
  });
}

llvm::Error PartitionMap::write(llvm::StringRef file) const {
  return llvm::writeToOutput(file, [&](llvm::raw_ostream &os) -> llvm::Error {
    llvm::json::OStream json(os, /*IndentSize=*/1);
    json.object([&] {
      json.attribute("version", 1);
      json.attribute("graph", toJSONText(graph));
      if (!stage.empty())
        json.attribute("stage", stage);
      json.attribute("node_count", nodeCount);
      json.attributeArray("classes", [&] {
        for (const MappedClass &mapped : classes)
          json.object([&] {
            json.attribute("id", mapped.id);
            json.attribute("hash", mapped.hash);
            if (mapped.parent.empty())
              json.attribute("parent", nullptr);
            else
              json.attribute("parent", mapped.parent);
            json.attribute("node_count", mapped.nodeCount);
            json.attributeArray("partitions", [&] {
              for (const MappedPartition &partition : mapped.partitions)
                writePartition(json, partition, *this);
            });
          });
      });
      json.attributeArray("weak_classes", [&] {
        for (const MappedWeakClass &weak : weakClasses)
          json.object([&] {
            json.attribute("id", weak.id);
            json.attributeBegin("differ_in");
            writeStrings(json, weak.differIn);
            json.attributeEnd();
            json.attributeBegin("partitions");
            writeStrings(json, weak.partitions);
            json.attributeEnd();
          });
      });
    });
    os << "\n";
    return llvm::Error::success();
  });
}

namespace {
struct PartitionMapOption {
  llvm::cl::opt<std::string> file{
      "partition-map", llvm::cl::value_desc("file"),
      llvm::cl::desc("Where --dedup-partitions writes which nodes are the same "
                     "place of which class")};
};
} // namespace

static llvm::ManagedStatic<PartitionMapOption> partitionMapOption;

void opprof::fx::registerPartitionMapOption() { *partitionMapOption; }

llvm::StringRef opprof::fx::getPartitionMapFile() {
  if (!partitionMapOption.isConstructed())
    return "";
  return partitionMapOption->file.getValue();
}
