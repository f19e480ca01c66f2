// A node's identity, in every table and file: names repeat over forward and
// backward, over stages, and over graphs after a graph break, so no table has a
// bare name as its key.

#ifndef OPPROF_SUPPORT_NODEID_H
#define OPPROF_SUPPORT_NODEID_H

#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/StringRef.h"

#include <compare>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace opprof {

struct NodeId {
  std::string graph;
  /// PyTorch's stage that the graph was taken from: "export", "post_grad"; of a
  /// subgraph that of the graph that it belongs to.
  std::string stage;
  std::string name;

  bool operator==(const NodeId &other) const = default;
  auto operator<=>(const NodeId &other) const = default;
};

/// "gpt2@export:linear_3", for messages: not a form that is read back.
std::string toString(const NodeId &node);

struct NodeIdHash {
  size_t operator()(const NodeId &node) const {
    return llvm::hash_combine(llvm::StringRef(node.graph),
                              llvm::StringRef(node.stage),
                              llvm::StringRef(node.name));
  }
};

template <typename Value>
using NodeIdMap = std::unordered_map<NodeId, Value, NodeIdHash>;
using NodeIdSet = std::unordered_set<NodeId, NodeIdHash>;

} // namespace opprof

#endif // OPPROF_SUPPORT_NODEID_H
