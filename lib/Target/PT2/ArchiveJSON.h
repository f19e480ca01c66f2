// Access to the JSON of archives, which may be anything. What is not as it
// should be counts as absent here; who needs it says so.

#ifndef OPPROF_LIB_TARGET_PT2_ARCHIVEJSON_H
#define OPPROF_LIB_TARGET_PT2_ARCHIVEJSON_H

#include "opprof/Support/JSONReading.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <optional>

namespace opprof::fx::pt2 {

/// A handle: it holds for as long as its document.
using json = JSONReading::element;

/// The number of graphs whose nodes may hold one another.
inline constexpr unsigned kMaxGraphNesting = 32;
/// Arrays and objects in one another. A graph in an argument of a node lies
/// eight deeper than the node's own.
inline constexpr size_t kMaxDepth = 10 * kMaxGraphNesting;

/// A member of an object; none where it is null, or `value` is no object.
inline std::optional<json> getMember(const json &value, llvm::StringRef key) {
  JSONReading::object object;
  json member;
  if (value.get(object) || !JSONReading::find(object, key, member))
    return std::nullopt;
  return member;
}

inline std::optional<llvm::StringRef> getString(const json &value) {
  std::string_view text;
  if (value.get(text))
    return std::nullopt;
  return llvm::StringRef(text);
}

/// A member that is a string, or empty.
inline llvm::StringRef getString(const json &value, llvm::StringRef key) {
  std::optional<json> member = getMember(value, key);
  return member ? getString(*member).value_or("") : llvm::StringRef();
}

/// Whether a member is true; `otherwise` where it is no truth value.
inline bool getFlag(const json &value, llvm::StringRef key,
                    bool otherwise = false) {
  std::optional<json> member = getMember(value, key);
  bool flag;
  return member && !member->get(flag) ? flag : otherwise;
}

/// The elements of an array, or none where `value` is no array.
inline llvm::SmallVector<json, 4> getElements(std::optional<json> value) {
  JSONReading::array array;
  if (!value || value->get(array))
    return {};
  return {array.begin(), array.end()};
}

/// A whole number of 64 bits with a sign.
inline std::optional<int64_t> getInteger(std::optional<json> value) {
  int64_t number;
  if (!value || value->get(number))
    return std::nullopt;
  return number;
}

/// The name and value of a union: an object with one member.
inline std::pair<llvm::StringRef, std::optional<json>>
getUnion(const json &value) {
  JSONReading::object object;
  if (value.get(object) || object.size() != 1)
    return {"", std::nullopt};
  auto member = *object.begin();
  return {member.key, member.value};
}

/// JSON as text, bounded, for values that are only kept.
inline std::string getText(const json &value) {
  constexpr size_t kMaxBytes = 1000;
  std::string text = simdjson::minify(value);
  if (text.size() <= kMaxBytes)
    return text;
  size_t end = kMaxBytes;
  // Never inside of a character.
  while ((text[end] & 0xC0) == 0x80)
    --end;
  return text.substr(0, end) + "…";
}

/// "cuda:0" from {"type": "cuda", "index": 0}.
inline std::string getDeviceName(const json &device) {
  std::string name = getString(device, "type").str();
  if (auto index = getInteger(getMember(device, "index")))
    name += ":" + std::to_string(*index);
  return name;
}

} // namespace opprof::fx::pt2

#endif // OPPROF_LIB_TARGET_PT2_ARCHIVEJSON_H
