// Printed FX modules. Reads fx_graph_readable.py and fx_graph_transformed.py,
// which Inductor's debug folder holds: the printed module with types and source
// lines.

#ifndef OPPROF_TARGET_INDUCTORCODE_FXREADABLE_H
#define OPPROF_TARGET_INDUCTORCODE_FXREADABLE_H

#include "opprof/Target/InductorCode/GraphView.h"

#include "llvm/Support/Error.h"

namespace opprof::inductor {

/// Reads a printed module and those nested in it. Statements that are no node
/// are counted in `keptAsText` and left out.
llvm::Expected<GraphView> readFXReadable(llvm::StringRef source,
                                         llvm::StringRef fileName,
                                         uint64_t *keptAsText = nullptr);

} // namespace opprof::inductor

#endif // OPPROF_TARGET_INDUCTORCODE_FXREADABLE_H
