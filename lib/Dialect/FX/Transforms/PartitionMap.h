// The partition map: which nodes are the same place of which class.

#ifndef OPPROF_LIB_DIALECT_FX_TRANSFORMS_PARTITIONMAP_H
#define OPPROF_LIB_DIALECT_FX_TRANSFORMS_PARTITIONMAP_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>
#include <vector>

namespace opprof::fx {

struct MappedPartition {
  std::string label;
  bool isUnique = false;
  std::vector<std::string> modules;
  std::vector<std::string> nodes;
  /// The graph that the nodes are in.
  std::string graph;
};

struct MappedClass {
  std::string id, hash;
  /// The id of the class that this one lies in, or empty.
  std::string parent;
  unsigned nodeCount = 0;
  std::vector<MappedPartition> partitions;
};

struct MappedWeakClass {
  std::string id;
  std::vector<std::string> differIn;
  std::vector<std::string> partitions;
};

struct PartitionMap {
  /// The graph and stage that plain node names belong to.
  std::string graph, stage;
  unsigned nodeCount = 0;
  std::vector<MappedClass> classes;
  std::vector<MappedWeakClass> weakClasses;

  /// Writes docs/formats/partition-map.md's format; the file is there whole or
  /// not at all.
  llvm::Error write(llvm::StringRef file) const;
};

/// What --partition-map=FILE names, or empty.
llvm::StringRef getPartitionMapFile();

} // namespace opprof::fx

#endif // OPPROF_LIB_DIALECT_FX_TRANSFORMS_PARTITIONMAP_H
