// Names of confidences.

#include "opprof/Support/Confidence.h"
#include "opprof/Support/EnumNames.h"

using namespace llvm;

static constexpr StringLiteral kConfidences[] = {"high", "medium", "low",
                                                 "unattributed"};
static_assert(std::size(kConfidences) == opprof::kNumConfidences);

StringRef opprof::stringify(Confidence confidence) {
  return kConfidences[static_cast<size_t>(confidence)];
}

std::optional<opprof::Confidence> opprof::parseConfidence(StringRef text) {
  return parseEnumerator<Confidence>(kConfidences, text);
}
