//===- PartitionMap.h - Reading partitions.json -----------------*- C++ -*-===//
//
// The equivalence map of a graph's repeated subgraphs, as `--partition-map`
// writes it: read here to state times by partition.
//
//===----------------------------------------------------------------------===//

#ifndef OPPROF_SUPPORT_PARTITIONMAP_H
#define OPPROF_SUPPORT_PARTITIONMAP_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace opprof {

struct Partition {
  std::string classId;
  /// Class that this one's class lies in; empty for the outermost level.
  std::string parent;
  std::string label;
  /// "unique" or "duplicate".
  std::string role;
  std::vector<std::string> nodes;
};

struct PartitionMap {
  static constexpr int64_t version = 1;

  std::string graph;
  std::string stage;
  std::vector<Partition> partitions;
};

/// Reads partitions.json. `name` stands in errors.
llvm::Expected<PartitionMap> readPartitionMap(llvm::StringRef text,
                                              llvm::StringRef name);

} // namespace opprof

#endif // OPPROF_SUPPORT_PARTITIONMAP_H
