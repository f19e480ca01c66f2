// Names of confidences.

#include "opprof/Support/Confidence.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

static constexpr StringLiteral kConfidences[] = {"high", "medium", "low",
                                                 "unattributed"};
static_assert(std::size(kConfidences) == opprof::kNumConfidences);

StringRef opprof::stringify(Confidence confidence) {
  return kConfidences[static_cast<size_t>(confidence)];
}

std::optional<opprof::Confidence> opprof::parseConfidence(StringRef text) {
  const StringLiteral *found = llvm::find(kConfidences, text);
  if (found == std::end(kConfidences))
    return std::nullopt;
  return static_cast<Confidence>(found - kConfidences);
}
