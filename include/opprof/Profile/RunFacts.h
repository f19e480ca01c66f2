// How the program of a profile was run. Reads what a report needs of a run
// folder's run.json.

#ifndef OPPROF_PROFILE_RUNFACTS_H
#define OPPROF_PROFILE_RUNFACTS_H

#include "opprof/Profile/Profile.h"

#include "llvm/Support/Error.h"

namespace opprof::profile {

/// Reads run.json (docs/formats/run-folder.md). `name` stands in errors.
llvm::Expected<RunFacts> readRunFacts(llvm::StringRef text,
                                      llvm::StringRef name);

} // namespace opprof::profile

#endif // OPPROF_PROFILE_RUNFACTS_H
