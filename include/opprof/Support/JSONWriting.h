// What the writers of opprof's own JSON files share: texts of any bytes, and
// nodes, whose plain names belong to the graph and stage that a file names.

#ifndef OPPROF_SUPPORT_JSONWRITING_H
#define OPPROF_SUPPORT_JSONWRITING_H

#include "opprof/Support/NodeId.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/JSON.h"

#include <string>

namespace opprof {

/// Names may hold any bytes; JSON may not.
inline std::string toJSONText(llvm::StringRef text) {
  return llvm::json::isUTF8(text) ? text.str() : llvm::json::fixUTF8(text);
}

inline void writeStrings(llvm::json::OStream &json, llvm::StringRef key,
                         llvm::ArrayRef<std::string> values) {
  json.attributeArray(key, [&] {
    for (const std::string &value : values)
      json.value(toJSONText(value));
  });
}

/// The keys of a node that is written as an object.
inline void writeNodeKeys(llvm::json::OStream &json, const NodeId &node) {
  json.attribute("graph", toJSONText(node.graph));
  json.attribute("stage", toJSONText(node.stage));
  json.attribute("name", toJSONText(node.name));
}

/// Writes a node of `graph` and `stage` as its name, any other as an object.
inline void writeNode(llvm::json::OStream &json, const NodeId &node,
                      llvm::StringRef graph, llvm::StringRef stage) {
  if (node.graph == graph && node.stage == stage)
    json.value(toJSONText(node.name));
  else
    json.object([&] { writeNodeKeys(json, node); });
}

} // namespace opprof

#endif // OPPROF_SUPPORT_JSONWRITING_H
