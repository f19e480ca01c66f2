// Attributes of the objects that profile.opprof.json has, written where they
// are known.

#ifndef OPPROF_LIB_PROFILE_ATTRIBUTEWRITER_H
#define OPPROF_LIB_PROFILE_ATTRIBUTEWRITER_H

#include "opprof/Profile/Profile.h"
#include "opprof/Support/JSONWriting.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/JSON.h"

#include <cmath>

namespace opprof::profile {

class AttributeWriter {
public:
  AttributeWriter(const Profile &profile, llvm::json::OStream &json)
      : profile(profile), json(json) {}

  void attribute(llvm::StringRef key, const llvm::json::Value &value) {
    json.attribute(key, value);
  }
  template <typename T> void optional(llvm::StringRef key, const T &value) {
    if (value)
      json.attribute(key, *value);
  }
  /// JSON has no number that is not finite: it is left out as not known.
  void number(llvm::StringRef key, double value) {
    if (std::isfinite(value))
      json.attribute(key, value);
  }
  void optional(llvm::StringRef key, const std::optional<double> &value) {
    if (value)
      number(key, *value);
  }
  void text(llvm::StringRef key, llvm::StringRef value) {
    if (!value.empty())
      json.attribute(key, value);
  }
  void triple(llvm::StringRef key,
              const std::optional<std::array<uint64_t, 3>> &value) {
    if (value)
      json.attributeArray(key, [&] {
        for (uint64_t number : *value)
          json.value(number);
      });
  }
  /// A node of the profile's own graph is its name; another one is in full.
  void nodeRefs(llvm::ArrayRef<uint32_t> nodes) {
    json.attributeArray("nodes", [&] {
      for (uint32_t node : nodes)
        writeNode(json, profile.nodes[node].id, profile.graph, profile.stage);
    });
  }
  void links(const Links &links) {
    if (links.launch || links.nodes || links.exported)
      json.attributeObject("links", [&] {
        for (auto [link, confidence] : llvm::enumerate(toArray(links)))
          if (confidence)
            json.attribute(kLinkNames[link], stringify(*confidence));
      });
  }
  void metrics(const std::map<std::string, double> &values) {
    json.attributeObject("metrics", [&] {
      for (const auto &[name, value] : values)
        number(name, value);
    });
  }
  void absentMetrics(const std::map<std::string, std::string> &reasons) {
    if (!reasons.empty())
      json.attributeObject("metrics_absent", [&] {
        for (const auto &[name, reason] : reasons)
          json.attribute(name, reason);
      });
  }

protected:
  const Profile &profile;
  llvm::json::OStream &json;
};

} // namespace opprof::profile

#endif // OPPROF_LIB_PROFILE_ATTRIBUTEWRITER_H
