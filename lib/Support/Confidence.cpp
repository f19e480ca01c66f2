// Names of confidences.

#include "opprof/Support/Confidence.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

static constexpr StringLiteral confidences[] = {"high", "medium", "low",
                                                "unattributed"};
static_assert(std::size(confidences) == opprof::numConfidences);

StringRef opprof::stringify(Confidence confidence) {
  return confidences[static_cast<size_t>(confidence)];
}

std::optional<opprof::Confidence> opprof::parseConfidence(StringRef text) {
  const StringLiteral *found = llvm::find(confidences, text);
  if (found == std::end(confidences))
    return std::nullopt;
  return static_cast<Confidence>(found - confidences);
}
