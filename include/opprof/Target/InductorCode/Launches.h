// From a wrapper to its launch map. Joins every launch of a wrapper to the
// post-grad nodes that it computes, per launch and not per kernel definition,
// and says on what evidence.

#ifndef OPPROF_TARGET_INDUCTORCODE_LAUNCHES_H
#define OPPROF_TARGET_INDUCTORCODE_LAUNCHES_H

#include "opprof/Launch/LaunchMap.h"
#include "opprof/Target/InductorCode/GraphView.h"
#include "opprof/Target/InductorCode/Provenance.h"
#include "opprof/Target/InductorCode/Wrapper.h"

namespace opprof::inductor {

struct LaunchSources {
  const WrapperProgram &program;
  /// The post-grad graph; null where no file has it. The fragments in the
  /// wrapper's comments stand in for it then.
  const GraphView *postGrad = nullptr;
  const Provenance *provenance = nullptr;
  std::string graphName;
};

/// Builds the map. Nodes carry no `from`, `module` and `source` yet: see
/// Alignment.h.
launch::LaunchMap buildLaunchMap(const LaunchSources &sources);

/// The graph that the fragments of all kernels together describe.
GraphView graphFromFragments(const WrapperProgram &program);

} // namespace opprof::inductor

#endif // OPPROF_TARGET_INDUCTORCODE_LAUNCHES_H
