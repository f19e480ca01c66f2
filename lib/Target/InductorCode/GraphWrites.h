// Graphs that write through views, as graphs of values.

#ifndef OPPROF_LIB_TARGET_INDUCTORCODE_GRAPHWRITES_H
#define OPPROF_LIB_TARGET_INDUCTORCODE_GRAPHWRITES_H

#include "opprof/Target/InductorCode/GraphView.h"

namespace opprof::inductor {

/// The graph, where it writes through a view and takes what was written later:
/// the write is a node with the value of all that the view is of, and what
/// follows takes that. Views that are taken on both sides stand there twice,
/// under one name, which means the first. None where nothing is written so.
std::optional<GraphView> followWrites(const GraphView &graph);

} // namespace opprof::inductor

#endif // OPPROF_LIB_TARGET_INDUCTORCODE_GRAPHWRITES_H
