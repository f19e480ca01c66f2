// What `opprof ceilings` measured of a device: its file
// (docs/formats/ceilings.md) and the devices of a profile that it is of.

#ifndef OPPROF_PROFILE_CEILINGS_H
#define OPPROF_PROFILE_CEILINGS_H

#include "opprof/Profile/Profile.h"

#include "llvm/Support/Error.h"

namespace opprof::profile {

struct Ceilings {
  /// "cuda" or "cpu".
  std::string deviceKind;
  MeasuredRates rates;
};

/// Reads ceilings.json. `name` stands in errors.
llvm::Expected<Ceilings> readCeilings(llvm::StringRef text,
                                      llvm::StringRef name);

/// Gives them to the profile's devices that bear the name; a recording of a CPU
/// does not name it. False where there is none.
bool setCeilings(Profile &profile, const Ceilings &ceilings);

} // namespace opprof::profile

#endif // OPPROF_PROFILE_CEILINGS_H
