// Where in the program each operator came from, where an observer recorded it
// or a trace has frames of modules.

#ifndef OPPROF_LIB_JOIN_OPERATORPLACES_H
#define OPPROF_LIB_JOIN_OPERATORPLACES_H

#include "HostTimeline.h"
#include "ModuleTimeline.h"

#include "opprof/Profile/Profile.h"

namespace opprof::join {

/// The modules and lines of operators. What autograd runs has those of the
/// forward operator that recorded it, found by its sequence number; what adds
/// up gradients has those of the function before it, which computed them.
class OperatorPlaces {
public:
  OperatorPlaces(const trace::Trace &trace, const HostTimeline &host,
                 const ModuleTimeline &modules);

  struct Where {
    llvm::StringRef module;
    llvm::StringRef source;
    profile::Part part = profile::Part::None;
  };
  /// Of `op`; nothing is known of kNone.
  const Where &of(uint32_t op) const;
  /// Whether any operator has a place.
  bool any() const { return !wheres.empty(); }
  /// Of frames of modules: how many functions of autograd have the modules of
  /// their forward operator, for a person; empty where there are none.
  std::string describeBackward() const;

private:
  std::vector<Where> wheres;
  /// Functions of autograd, and those whose forward operator was found.
  uint64_t functions = 0;
  uint64_t found = 0;
  bool fromFrames = false;
};

} // namespace opprof::join

#endif // OPPROF_LIB_JOIN_OPERATORPLACES_H
