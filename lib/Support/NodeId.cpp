// A node's identity in words.

#include "opprof/Support/NodeId.h"

std::string opprof::toString(const NodeId &node) {
  return node.graph + "@" + node.stage + ":" + node.name;
}
