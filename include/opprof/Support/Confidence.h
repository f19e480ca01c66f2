// How sure a link is, from a kernel to its launch and on to its nodes.

#ifndef OPPROF_SUPPORT_CONFIDENCE_H
#define OPPROF_SUPPORT_CONFIDENCE_H

#include "llvm/ADT/StringRef.h"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace opprof {

/// From the surest on, so that the least sure of several links is the greatest.
enum class Confidence : uint8_t {
  High,         ///< identity: correlation id, kernel hash and launch order
  Medium,       ///< enclosure or sequence alignment
  Low,          ///< names only
  Unattributed, ///< no node is known; the kernel is kept and counted
};
inline constexpr size_t kNumConfidences = 4;

llvm::StringRef stringify(Confidence confidence);
std::optional<Confidence> parseConfidence(llvm::StringRef text);

} // namespace opprof

#endif // OPPROF_SUPPORT_CONFIDENCE_H
