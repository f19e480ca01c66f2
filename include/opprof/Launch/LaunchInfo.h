// What the launch map and the profile both say of a launch.

#ifndef OPPROF_LAUNCH_LAUNCHINFO_H
#define OPPROF_LAUNCH_LAUNCHINFO_H

#include "opprof/Support/JSONReading.h"

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <optional>
#include <string>

#include "opprof/Launch/LaunchKinds.h.inc"

namespace opprof::launch {

/// The names that files and the inductor dialect use.
inline llvm::StringRef stringify(LaunchKind kind) {
  return stringifyLaunchKind(kind);
}
inline llvm::StringRef stringify(LaunchCategory category) {
  return stringifyLaunchCategory(category);
}
inline std::optional<LaunchKind> parseLaunchKind(llvm::StringRef text) {
  return symbolizeLaunchKind(text);
}
inline std::optional<LaunchCategory> parseLaunchCategory(llvm::StringRef text) {
  return symbolizeLaunchCategory(text);
}

struct LaunchInfo {
  /// Static place in call order. A launch in a loop has one.
  uint64_t index = 0;
  std::string file;
  uint32_t line = 0;
  /// Name in the wrapper: "triton_poi_fused_add_0", "extern_kernels.mm",
  /// "torch.ops.aten.sort.default", "Tensor.copy_".
  std::string kernel;
  /// Known of every launch of a map; a profile may not say them.
  std::optional<LaunchKind> kind;
  std::optional<LaunchCategory> category;
  /// Type of the first tensor that goes in: "bfloat16". Empty where unknown.
  std::string dtype;
  /// Model FLOPs of its nodes, absent when one node's cost is unknown.
  std::optional<uint64_t> flops;
  std::optional<uint64_t> bytesRead;
  std::optional<uint64_t> bytesWritten;
};

/// Reads the keys of a LaunchInfo; with `whole`, those that say where it is and
/// of what kind must be there.
llvm::Error readLaunchInfo(JSONReading &reading, JSONReading::object from,
                           bool whole, LaunchInfo &info);

} // namespace opprof::launch

#endif // OPPROF_LAUNCH_LAUNCHINFO_H
