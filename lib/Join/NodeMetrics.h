// What the counters of its kernels say of a node.

#ifndef OPPROF_LIB_JOIN_NODEMETRICS_H
#define OPPROF_LIB_JOIN_NODEMETRICS_H

#include "opprof/Profile/Profile.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace opprof::join {

/// Gives nodes the counters of their steady kernels: amounts are summed over a
/// step, limits are the largest, rates are means weighted by time. A node of
/// which a kernel was not counted has none. `infer` is called with each that
/// has some, and says which other node they are of, if they are.
void addNodeMetrics(profile::Profile &profile,
                    llvm::function_ref<void(profile::Node &)> infer);

} // namespace opprof::join

#endif // OPPROF_LIB_JOIN_NODEMETRICS_H
