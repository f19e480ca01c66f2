// What has been recommended for a run. Reads rewrites.json, as `opprof
// recommend` leaves it in a run folder and `opprof optimize` adds what it
// measured.

#ifndef OPPROF_PROFILE_REWRITEOFFERS_H
#define OPPROF_PROFILE_REWRITEOFFERS_H

#include "opprof/Profile/Profile.h"

#include "llvm/Support/Error.h"

namespace opprof::profile {

/// Reads what docs/formats/rewrites.md describes; best first. `name` stands in
/// errors.
llvm::Expected<std::vector<RewriteOffer>>
readRewriteOffers(llvm::StringRef text, llvm::StringRef name);

} // namespace opprof::profile

#endif // OPPROF_PROFILE_REWRITEOFFERS_H
