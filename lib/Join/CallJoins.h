// From the host's operators to launches. The join where launches were recorded
// without what launched them: each call of a compiled graph is matched to a
// launch map by the operators that it ran, in order, and each of its operators
// to a launch.

#ifndef OPPROF_LIB_JOIN_CALLJOINS_H
#define OPPROF_LIB_JOIN_CALLJOINS_H

#include "CallFits.h"

namespace opprof::join {

/// Operators that only make views or allocate: they are no kernels of a CPU.
bool computesNothing(llvm::StringRef name);

class CallJoins {
public:
  /// With `onHost` the operators themselves are the kernels. `wrappers` may be
  /// null.
  CallJoins(const trace::Trace &trace, const HostTimeline &host,
            LaunchIndex &index, const WrapperFiles *wrappers, bool onHost);

  /// Of an operator of the host.
  const Join &of(uint32_t op) const;
  /// Of all of them; empty without maps.
  llvm::ArrayRef<Join> all() const { return joins; }
  /// The map that a call of the host fits, or kNone.
  uint32_t mapOf(uint32_t call) const { return mapOfCall[call]; }
  /// The map whose code a call names, kNone where it names code
  /// of none; absent where it names nothing.
  std::optional<uint32_t> namedMapOf(uint32_t call) const {
    return namedMaps[call];
  }
  /// A replay shows what its call is of.
  void setMap(uint32_t call, uint32_t map) { mapOfCall[call] = map; }

private:
  bool provesGraph(const CallFit &fit, llvm::ArrayRef<uint32_t> ops) const;
  void joinCall(const CallChoice &choice, llvm::ArrayRef<uint32_t> ops);
  void fillGaps(const CallFit &fit, llvm::ArrayRef<uint32_t> ops);
  void joinOutside(CallFits &fits);

  const HostTimeline &host;
  LaunchIndex &index;
  bool onHost;
  /// How many activities each outermost operator started.
  std::vector<uint32_t> startedBy;
  std::vector<Join> joins;
  std::vector<uint32_t> mapOfCall;
  std::vector<std::optional<uint32_t>> namedMaps;
};

} // namespace opprof::join

#endif // OPPROF_LIB_JOIN_CALLJOINS_H
