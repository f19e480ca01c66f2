// How a wait for other ranks is told from a wait for a device.

#ifndef OPPROF_PROFILE_COLLECTIVEWAIT_H
#define OPPROF_PROFILE_COLLECTIVEWAIT_H

#include "llvm/ADT/StringRef.h"

namespace opprof::profile {

/// The name of a cost of kind Wait that is no wait for a device: other ranks
/// are waited for. The observer calls it so.
inline constexpr llvm::StringLiteral kCollectiveWait = "collective wait";

} // namespace opprof::profile

#endif // OPPROF_PROFILE_COLLECTIVEWAIT_H
