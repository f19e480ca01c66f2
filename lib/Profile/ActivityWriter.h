// The objects of kernels and copies in profile.opprof.json. There are as many
// as a recording has, and most of what they say is what others of the same
// place, name or configuration said: that is made into text once.

#ifndef OPPROF_LIB_PROFILE_ACTIVITYWRITER_H
#define OPPROF_LIB_PROFILE_ACTIVITYWRITER_H

#include "opprof/Profile/Profile.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/JSON.h"

#include <string>

namespace opprof::profile {

class AttributeWriter;

class ActivityWriter {
public:
  explicit ActivityWriter(const Profile &profile) : profile(profile) {}

  /// Writes the next object of a list that is an attribute of the document.
  void write(const Activity &activity, llvm::json::OStream &json);

private:
  /// Attributes as they stand in such an object, each with its comma.
  using Attributes = std::string;
  /// What an origin says, in pieces: other things stand between them.
  struct OriginText {
    Attributes rank, join, explanation, hostOp, place, inputType, range,
        countersFrom;
  };

  Attributes toText(llvm::function_ref<void(AttributeWriter &)> write) const;
  const OriginText &textOf(const Origin &origin);
  const Attributes &nameOf(const Activity &activity);
  const Attributes &launchOf(uint32_t place);
  const Attributes &configOf(const LaunchConfig &config);
  const Attributes &linksOf(const Activity &activity);
  void addCounters(const Activity &activity);

  const Profile &profile;
  Attributes text;
  llvm::DenseMap<const Origin *, OriginText> origins;
  llvm::DenseMap<std::pair<const char *, size_t>, Attributes> names;
  llvm::DenseMap<uint32_t, Attributes> launches;
  llvm::DenseMap<const LaunchConfig *, Attributes> configs;
  llvm::DenseMap<uint32_t, Attributes> links;
};

} // namespace opprof::profile

#endif // OPPROF_LIB_PROFILE_ACTIVITYWRITER_H
