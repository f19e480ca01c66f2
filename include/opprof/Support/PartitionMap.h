// The equivalence map of a graph's repeated subgraphs: what --dedup-partitions
// writes, and the join and the selection of counted kernels read.

#ifndef OPPROF_SUPPORT_PARTITIONMAP_H
#define OPPROF_SUPPORT_PARTITIONMAP_H

#include "opprof/Support/NodeId.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

#include <string>
#include <vector>

namespace opprof {

/// One place of a class.
struct MappedPartition {
  std::string label;
  /// The one that stands for its class; the others are duplicates.
  bool isUnique = false;
  /// The id of the class that this place lies in; empty for one in the graph
  /// itself.
  std::string parent;
  /// The outermost modules that hold the nodes.
  std::vector<std::string> modules;
  /// Position i is the same place of the class in every partition.
  std::vector<NodeId> nodes;

  /// As the file has it: "unique" or "duplicate".
  llvm::StringRef role() const { return isUnique ? "unique" : "duplicate"; }
};

/// Subgraphs that are the same.
struct MappedClass {
  std::string id;
  std::string hash;
  /// Where the unique partition lies, and in the file each that does not say
  /// otherwise.
  std::string parent;
  /// Of each of its partitions.
  uint64_t nodeCount = 0;
  std::vector<MappedPartition> partitions;
};

/// Subgraphs that are the same but for some things, and so were not merged.
struct MappedWeakClass {
  std::string id;
  std::vector<std::string> differIn;
  /// Their labels.
  std::vector<std::string> partitions;
};

/// The repeats of one graph.
struct PartitionMap {
  static constexpr int64_t kVersion = 1;

  /// The graph and stage that plain node names of the file belong to; the stage
  /// is empty where the graph says none.
  std::string graph;
  std::string stage;
  uint64_t nodeCount = 0;
  std::vector<MappedClass> classes;
  std::vector<MappedWeakClass> weakClasses;
};

/// Reads a partition map (docs/formats/partition-map.md): one graph's, or a
/// list of several graphs'. `name` stands in errors. Unknown keys are ignored.
llvm::Expected<std::vector<PartitionMap>>
readPartitionMaps(llvm::StringRef text, llvm::StringRef name);

/// Writes the map of one graph as an object, and those of none or several as a
/// list, as text that ends in a newline.
void writePartitionMaps(llvm::ArrayRef<PartitionMap> maps,
                        llvm::raw_ostream &os);

/// Which node stands for which: what is known of a unique partition's node
/// holds for the nodes in its place of the duplicates.
class UniquePlaces {
public:
  UniquePlaces() = default;
  explicit UniquePlaces(llvm::ArrayRef<PartitionMap> maps);

  /// The node in the place of the unique partition, through all levels of
  /// nesting; `node` itself where nothing stands for it.
  NodeId representative(const NodeId &node) const;

private:
  NodeIdMap<NodeId> places;
};

} // namespace opprof

#endif // OPPROF_SUPPORT_PARTITIONMAP_H
