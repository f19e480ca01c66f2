// Copies into the inputs of CUDA graphs. A replay reads its inputs at the
// addresses at which it was captured, so a call copies what lies elsewhere to
// there before it replays: work of the compiled graph that no launch of its
// code does.

#ifndef OPPROF_LIB_JOIN_INPUTCOPIES_H
#define OPPROF_LIB_JOIN_INPUTCOPIES_H

#include "GraphReplays.h"

namespace opprof::join {

/// A kernel or copy of the profile that did so.
struct InputCopy {
  bool isKernel = true;
  /// Its place in Profile::kernels or Profile::copies.
  uint32_t id = 0;
  /// The placeholders that were copied to; none where shapes do not say.
  std::vector<NodeId> inputs;
  std::string explanation;
};

/// The operator, of those of `host`, that started each kernel and each copy.
struct StartedBy {
  llvm::ArrayRef<uint32_t> kernels, copies;
};

/// `wrappers`, which may be null, says which shapes the inputs have.
std::vector<InputCopy>
findInputCopies(const HostTimeline &host, const LaunchIndex &index,
                const CallJoins &calls, const GraphReplays &replays,
                const StartedBy &operators, const WrapperFiles *wrappers,
                const profile::Profile &profile);

} // namespace opprof::join

#endif // OPPROF_LIB_JOIN_INPUTCOPIES_H
