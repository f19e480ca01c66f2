// Which exported node each post-grad node may come from, by sequence alone.

#ifndef OPPROF_LIB_TARGET_INDUCTORCODE_ALIGNMENTSEQUENCE_H
#define OPPROF_LIB_TARGET_INDUCTORCODE_ALIGNMENTSEQUENCE_H

#include "opprof/Target/InductorCode/GraphView.h"
#include "opprof/Target/InductorCode/Provenance.h"

namespace opprof::inductor {

/// For each node of `postGrad` a node of `exported`, or kNoValue. `groups`
/// gives the pre-grad nodes that a post-grad node came from; it may be null.
std::vector<uint32_t> proposeBySequence(const GraphView &postGrad,
                                        const GraphView &exported,
                                        const Provenance::Table *groups);

} // namespace opprof::inductor

#endif // OPPROF_LIB_TARGET_INDUCTORCODE_ALIGNMENTSEQUENCE_H
