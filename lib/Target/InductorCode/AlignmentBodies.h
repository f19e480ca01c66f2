// Bodies of higher-order operators in place of their calls.

#ifndef OPPROF_LIB_TARGET_INDUCTORCODE_ALIGNMENTBODIES_H
#define OPPROF_LIB_TARGET_INDUCTORCODE_ALIGNMENTBODIES_H

#include "opprof/Target/InductorCode/GraphView.h"

#include <utility>

namespace opprof::inductor {

/// What a higher-order operator does with the graphs that it is given.
enum class BodyUse : uint8_t {
  None,   ///< nothing that is known, or it is no such operator
  Once,   ///< runs the one that it has, whatever its operands are
  Choice, ///< runs one of several
  Loop    ///< runs them any number of times
};

BodyUse getBodyUse(llvm::StringRef target);

struct InlinedGraph {
  GraphView graph;
  /// The graph that each node lies in, and its place there.
  std::vector<std::pair<const GraphView *, uint32_t>> origins;
};

/// The exported graph without calls of bodies that run once, as a region of
/// autocast does. What chooses or repeats a body (cond, while_loop) stays.
InlinedGraph inlineBodies(const GraphView &exported);

/// The body that such a call runs, or null.
const GraphView *findBody(const GraphView &exported, const GraphNode &node);

} // namespace opprof::inductor

#endif // OPPROF_LIB_TARGET_INDUCTORCODE_ALIGNMENTBODIES_H
