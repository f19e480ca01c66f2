// From post-grad nodes to exported nodes. Joins the nodes of a launch map to
// the nodes, modules and source lines of the exported graph: by the identities
// that PyTorch recorded, or, where two captures of one model meet, by
// structure.

#ifndef OPPROF_TARGET_INDUCTORCODE_ALIGNMENT_H
#define OPPROF_TARGET_INDUCTORCODE_ALIGNMENT_H

#include "opprof/Launch/LaunchMap.h"
#include "opprof/Target/InductorCode/GraphView.h"
#include "opprof/Target/InductorCode/Provenance.h"

#include "llvm/ADT/ArrayRef.h"

#include <utility>

namespace opprof::inductor {

struct AlignmentSources {
  /// The post-grad graph that the map's names belong to; may be null.
  const GraphView *postGrad = nullptr;
  /// The same graph as the exporter wrote it, with from_node, modules and
  /// stacks; may be null.
  const GraphView *recorded = nullptr;
  /// The exported graph; null where none is given.
  const GraphView *exported = nullptr;
  /// May be null.
  const Provenance *provenance = nullptr;
};

/// Fills `from`, `module` and `source` of every node of `map`, and
/// `map.alignment` where there is an exported graph.
void alignLaunches(launch::LaunchMap &map, const AlignmentSources &sources);

/// The exported nodes that a post-grad node was made from.
struct Tie {
  /// Places in the exported graph; empty where none is known.
  std::vector<uint32_t> origins;
  /// High: dataflow proves it, and no other reading of the two graphs ties it
  /// otherwise. Medium: it agrees with dataflow, or with the sequence of both
  /// graphs, but so does another. Low: the operator's name is all there is.
  Confidence confidence = Confidence::Unattributed;
};

/// Ties each node of `postGrad` to `exported` by operators, operands, parts of
/// tensors, sizes and constants. `groups` gives the pre-grad nodes that a
/// post-grad node came from; it may be null. `inputs` are pairs of inputs, of
/// both graphs, that are known to be the same. Inputs that what takes them
/// tells apart have ties as well.
std::vector<Tie>
alignByStructure(const GraphView &postGrad, const GraphView &exported,
                 const Provenance::Table *groups,
                 llvm::ArrayRef<std::pair<uint32_t, uint32_t>> inputs = {});

/// What the cost model estimates that `node` does, as LaunchNode::work has it.
/// `onlyPrepares`: no more than its data is moved.
std::optional<uint64_t> estimateWork(const GraphView &graph, uint32_t node,
                                     bool onlyPrepares);

} // namespace opprof::inductor

#endif // OPPROF_TARGET_INDUCTORCODE_ALIGNMENT_H
