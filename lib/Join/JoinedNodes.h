// Nodes of what was joined, and partitions.

#ifndef OPPROF_LIB_JOIN_JOINEDNODES_H
#define OPPROF_LIB_JOIN_JOINEDNODES_H

#include "IdentityJoins.h"
#include "InputCopies.h"

namespace opprof::join {

/// Kernels and copies that were launched for a node outside of launch maps:
/// the id of each, and its identity.
struct NodeActivities {
  std::vector<std::pair<uint32_t, uint32_t>> kernels, copies;
};

/// Fills in the profile's nodes, and gives its launches and activities theirs.
void addNodes(const trace::Trace &trace, const AttributionInputs &inputs,
              const LaunchIndex &index, const IdentityJoins &identities,
              const NodeActivities &ofNodes, llvm::ArrayRef<InputCopy> copies,
              profile::Profile &profile);

/// Fills in the profile's partitions; its nodes know their times.
void addPartitions(llvm::ArrayRef<PartitionMap> maps,
                   profile::Profile &profile);

} // namespace opprof::join

#endif // OPPROF_LIB_JOIN_JOINEDNODES_H
