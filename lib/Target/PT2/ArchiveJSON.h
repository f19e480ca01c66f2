// Access to the JSON of archives, which may be anything.

#ifndef OPPROF_LIB_TARGET_PT2_ARCHIVEJSON_H
#define OPPROF_LIB_TARGET_PT2_ARCHIVEJSON_H

#include "llvm/ADT/StringRef.h"

#include <nlohmann/json.hpp>

#include <optional>

namespace opprof::fx::pt2 {

using nlohmann::json;

/// A member of an object, or null where there is none or `value` is no object.
inline const json *getMember(const json &value, const char *key) {
  if (!value.is_object())
    return nullptr;
  auto found = value.find(key);
  return found == value.end() || found->is_null() ? nullptr : &*found;
}

/// A member that is a string, or empty.
inline llvm::StringRef getString(const json &value, const char *key) {
  const json *member = getMember(value, key);
  return member && member->is_string()
             ? llvm::StringRef(member->get_ref<const std::string &>())
             : llvm::StringRef();
}

/// Whether a member is true; `otherwise` where it is no truth value.
inline bool getFlag(const json &value, const char *key,
                    bool otherwise = false) {
  const json *member = getMember(value, key);
  return member && member->is_boolean() ? member->get<bool>() : otherwise;
}

/// The elements of an array, or none where `value` is no array.
inline const std::vector<json> &getElements(const json *value) {
  static const std::vector<json> kNone;
  return value && value->is_array() ? value->get_ref<const json::array_t &>()
                                    : kNone;
}

inline std::optional<int64_t> getInteger(const json *value) {
  if (!value || !value->is_number_integer() ||
      (value->is_number_unsigned() &&
       value->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)))
    return std::nullopt;
  return value->get<int64_t>();
}

/// The name and value of a union: an object with one member.
inline std::pair<llvm::StringRef, const json *> getUnion(const json &value) {
  if (!value.is_object() || value.size() != 1)
    return {"", nullptr};
  auto member = value.begin();
  return {member.key(), &member.value()};
}

/// JSON as text, bounded, for values that are only kept.
inline std::string getText(const json &value) {
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > 1000)
    text = text.substr(0, 1000) + "…";
  return text;
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
