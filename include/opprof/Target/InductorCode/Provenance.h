// Inductor's own record of kernels. Reads
// inductor_provenance_tracking_node_mappings.json: which post-grad nodes a
// kernel's launch computes, and which pre-grad nodes those came from.

#ifndef OPPROF_TARGET_INDUCTORCODE_PROVENANCE_H
#define OPPROF_TARGET_INDUCTORCODE_PROVENANCE_H

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace opprof::inductor {

struct Provenance {
  using Table = llvm::StringMap<std::vector<std::string>>;
  Table preToPost;
  Table postToPre;
  /// "triton_poi_fused_relu_0:2" -> post-grad nodes. Before PyTorch 2.9 the
  /// keys have no handle.
  Table kernelToPost;
};

llvm::Expected<Provenance> readProvenance(llvm::StringRef text,
                                          llvm::StringRef fileName);

} // namespace opprof::inductor

#endif // OPPROF_TARGET_INDUCTORCODE_PROVENANCE_H
