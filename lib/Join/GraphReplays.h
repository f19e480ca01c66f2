// From kernels of a CUDA graph to launches. The join of kernels that a replay
// of a CUDA graph started, where they carry no identity: they share one
// correlation id, and only their order tells them apart.

#ifndef OPPROF_LIB_JOIN_GRAPHREPLAYS_H
#define OPPROF_LIB_JOIN_GRAPHREPLAYS_H

#include "CallJoins.h"

namespace opprof::join {

class GraphReplays {
public:
  /// A kernel of the profile that `replay`, inside a call of the host, ran.
  void add(uint32_t call, uint64_t correlation,
           const trace::RuntimeCall &replay, uint32_t kernel);

  /// Joins the kernels, and tells `calls` which map each call is of.
  void join(const LaunchIndex &index, CallJoins &calls,
            profile::Profile &profile) const;

  /// When the first replay of a call began; absent where it has none.
  std::optional<int64_t> firstOf(uint32_t call) const;

private:
  struct Replay {
    int64_t startNs = 0;
    std::vector<uint32_t> kernels;
  };
  /// By call, and by correlation.
  std::map<uint32_t, std::map<uint64_t, Replay>> replays;
};

} // namespace opprof::join

#endif // OPPROF_LIB_JOIN_GRAPHREPLAYS_H
