// A folder of rewrite scripts with its index (docs/formats/rewrites.md).

#ifndef OPPROF_REWRITE_REWRITEFOLDER_H
#define OPPROF_REWRITE_REWRITEFOLDER_H

#include "opprof/Rewrite/Recommend.h"

#include "llvm/Support/Error.h"

namespace opprof::rewrite {

/// Writes the scripts by rank and rewrites.json to `folder`, which is made if
/// it is missing. Scripts that an earlier index names go, others stay. Plain
/// node names in the index are those of the graph `main`; `script` is the model
/// script that the graphs are of, or empty where it is not known.
llvm::Error writeRewriteFolder(llvm::StringRef folder, const NodeId &main,
                               const Offers &offers, const Evidence &evidence,
                               llvm::StringRef script);

} // namespace opprof::rewrite

#endif // OPPROF_REWRITE_REWRITEFOLDER_H
