// Arguments that change nothing because of what another one says.

#ifndef OPPROF_ANALYSIS_STRUCTURE_IDLEARGUMENTS_H
#define OPPROF_ANALYSIS_STRUCTURE_IDLEARGUMENTS_H

#include "opprof/Dialect/FX/IR/FX.h"

#include <optional>

namespace opprof::fx {

/// The index in `node.getArgs()` of a constant that changes nothing in what the
/// node computes: the probability of a dropout that is off, the momentum of a
/// normalization that does not train. None where every argument counts.
std::optional<unsigned> getIdleArgument(NodeOp node);

} // namespace opprof::fx

#endif // OPPROF_ANALYSIS_STRUCTURE_IDLEARGUMENTS_H
