// From kernels of a trace to nodes. Joins every kernel of a trace to the launch
// of the compiled graph that started it, and so to nodes, modules and source
// lines; each join says by which method, how sure it is, and why. Nothing is
// dropped or merged. docs/attribution.md describes the methods.

#ifndef OPPROF_JOIN_ATTRIBUTION_H
#define OPPROF_JOIN_ATTRIBUTION_H

#include "opprof/Join/WrapperFiles.h"
#include "opprof/Launch/LaunchMap.h"
#include "opprof/Profile/Profile.h"
#include "opprof/Support/PartitionMap.h"
#include "opprof/Trace/Trace.h"

#include "llvm/ADT/ArrayRef.h"

namespace opprof::join {

struct AttributionInputs {
  /// One for each compiled graph.
  llvm::ArrayRef<launch::LaunchMap> maps;
  /// One for each exported graph that one was made of.
  llvm::ArrayRef<PartitionMap> partitions;
  /// The code of the launch maps, for lines that were recorded with launches.
  const WrapperFiles *wrappers = nullptr;
};

/// Makes a profile of a trace. On a trace without a GPU the operators and
/// generated kernels that the host ran are the kernels of the device "cpu".
std::unique_ptr<profile::Profile> attribute(const trace::Trace &trace,
                                            const AttributionInputs &inputs);

} // namespace opprof::join

#endif // OPPROF_JOIN_ATTRIBUTION_H
