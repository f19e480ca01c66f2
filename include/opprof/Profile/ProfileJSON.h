// Reading and writing profile.opprof.json. The format is described in
// docs/formats/profile.md.

#ifndef OPPROF_PROFILE_PROFILEJSON_H
#define OPPROF_PROFILE_PROFILEJSON_H

#include "opprof/Profile/Profile.h"

#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

#include <memory>

namespace opprof::profile {

/// Writes `profile` as indented text that ends in a newline.
void writeProfile(const Profile &profile, llvm::raw_ostream &os);

/// Reads profile.opprof.json. `name` stands in errors. Keys that are not known
/// are ignored.
llvm::Expected<std::unique_ptr<Profile>> readProfile(llvm::StringRef text,
                                                     llvm::StringRef name);

} // namespace opprof::profile

#endif // OPPROF_PROFILE_PROFILEJSON_H
