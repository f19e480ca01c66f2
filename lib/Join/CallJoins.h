// From the host's operators to launches. The join where launches were recorded
// without what launched them: each call of a compiled graph is matched to a
// launch map by the operators that it ran, in order, and each of its operators
// to a launch.

#ifndef OPPROF_LIB_JOIN_CALLJOINS_H
#define OPPROF_LIB_JOIN_CALLJOINS_H

#include "LaunchIndex.h"
#include "opprof/Join/SequenceAlignment.h"

namespace opprof::join {

/// Operators that only make views or allocate: they are no kernels of a CPU.
bool computesNothing(llvm::StringRef name);

class CallJoins {
public:
  /// With `onHost` the operators themselves are the kernels.
  CallJoins(const trace::Trace &trace, const HostTimeline &host,
            LaunchIndex &index, bool onHost);

  /// Of an operator of the host.
  const Join &of(uint32_t op) const { return joins[op]; }
  llvm::ArrayRef<Join> all() const { return joins; }
  /// The map that a call of the host fits, or HostTimeline::kNone.
  uint32_t mapOf(uint32_t call) const { return mapOfCall[call]; }
  /// A replay shows what its call is of.
  void setMap(uint32_t call, uint32_t map) { mapOfCall[call] = map; }

private:
  /// An alignment of a call's operators with one map.
  struct CallAlignment {
    uint32_t map = HostTimeline::kNone;
    SequenceAlignment alignment;
    /// Another map fits as well.
    bool ambiguous = false;
  };

  const CallAlignment &alignSequence(llvm::ArrayRef<uint32_t> ops);
  void joinCall(uint32_t call, llvm::ArrayRef<uint32_t> ops);
  void fillGaps(llvm::ArrayRef<uint32_t> ops);
  void joinOutside();

  const HostTimeline &host;
  LaunchIndex &index;
  bool onHost;
  /// How many activities each outermost operator started.
  std::vector<uint32_t> startedBy;
  /// By the keys of the operators: calls of one graph are alike.
  std::map<std::vector<uint64_t>, CallAlignment> alignments;
  std::vector<Join> joins;
  std::vector<uint32_t> mapOfCall;
};

} // namespace opprof::join

#endif // OPPROF_LIB_JOIN_CALLJOINS_H
