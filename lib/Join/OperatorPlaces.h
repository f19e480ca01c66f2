// Where in the program each operator came from, where an observer recorded it.

#ifndef OPPROF_LIB_JOIN_OPERATORPLACES_H
#define OPPROF_LIB_JOIN_OPERATORPLACES_H

#include "HostTimeline.h"

#include "opprof/Profile/Profile.h"

namespace opprof::join {

/// The modules and lines of operators. What autograd runs has those of the
/// forward operator that recorded it, found by its sequence number; what adds
/// up gradients has those of the function before it, which computed them.
class OperatorPlaces {
public:
  OperatorPlaces(const trace::Trace &trace, const HostTimeline &host);

  struct Where {
    llvm::StringRef module;
    llvm::StringRef source;
    profile::Part part = profile::Part::None;
  };
  /// Of `op`; nothing is known of kNone.
  const Where &of(uint32_t op) const;
  /// Whether any operator has a place.
  bool any() const { return !wheres.empty(); }

private:
  std::vector<Where> wheres;
};

} // namespace opprof::join

#endif // OPPROF_LIB_JOIN_OPERATORPLACES_H
