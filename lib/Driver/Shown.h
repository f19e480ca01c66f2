// Files that a command shows or compares, whatever they hold.

#ifndef OPPROF_LIB_DRIVER_SHOWN_H
#define OPPROF_LIB_DRIVER_SHOWN_H

#include "opprof/Profile/Profile.h"

#include "llvm/Support/Error.h"

#include <memory>
#include <string>
#include <vector>

namespace opprof::driver {

/// A file that is shown.
struct Shown {
  std::string file;
  std::unique_ptr<profile::Profile> profile;
};

/// Opens all that the paths stand for, in their order: run folders, folders of
/// recordings, profiles, recordings of any kind. There is at least one for a
/// path. What their devices can do is read from the file `ceilings`, or else
/// from where it lies in a run folder.
llvm::Expected<std::vector<Shown>> openShown(llvm::ArrayRef<std::string> paths,
                                             llvm::StringRef ceilings = {});

} // namespace opprof::driver

#endif // OPPROF_LIB_DRIVER_SHOWN_H
