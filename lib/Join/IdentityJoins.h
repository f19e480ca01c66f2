// From recorded identities to launches. The join where launches were recorded
// with what launched them, a line of a wrapper or a node: only the turn of a
// line that runs several times is left to find out.

#ifndef OPPROF_LIB_JOIN_IDENTITYJOINS_H
#define OPPROF_LIB_JOIN_IDENTITYJOINS_H

#include "IdentityPlaces.h"
#include "LaunchIndex.h"

namespace opprof::join {

/// The calls of the runtime, by the correlation that activities carry.
class RuntimeCalls {
public:
  explicit RuntimeCalls(const trace::Trace &trace);

  /// The call that started an activity, or null.
  const trace::RuntimeCall *of(const trace::TraceActivity &event) const;
  /// The trace carries no correlation: activities were given to calls by order.
  bool areByOrder() const { return !byOrder.empty(); }

private:
  void pairByOrder();

  const trace::Trace &trace;

  PlacesById byCorrelation;
  /// By place in Trace::activities, where there is no correlation.
  std::vector<uint32_t> byOrder;
};

class IdentityJoins {
public:
  /// Adds the calls of compiled graphs to the profile, and counts the runs of
  /// launches. The profile knows its steps.
  IdentityJoins(const trace::Trace &trace, const AttributionInputs &inputs,
                const LaunchIndex &index, const RuntimeCalls &runtime,
                profile::Profile &profile);

  /// By place in Trace::identities.
  const IdentityPlace &placeOf(uint32_t identity) const {
    return places[identity];
  }
  /// By place in Trace::activities: of those whose identity has launches.
  const Join &of(uint32_t activity) const { return joins[activity]; }

private:
  /// An activity that launches of a map started.
  struct Launched {
    uint32_t activity;
    const trace::RuntimeCall *runtime;
    int64_t when;
    bool replayed;
  };
  std::vector<Launched> inOrderOfLaunch(const RuntimeCalls &runtime) const;
  void joinInOrder(llvm::ArrayRef<Launched> order, const LaunchIndex &index,
                   profile::Profile &profile);
  void setJoin(uint32_t activity, uint32_t launch, const LaunchIndex &index);

  const trace::Trace &trace;
  std::vector<IdentityPlace> places;
  std::vector<Join> joins;
};

} // namespace opprof::join

#endif // OPPROF_LIB_JOIN_IDENTITYJOINS_H
