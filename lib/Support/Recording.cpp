// Names of what a recording holds.

#include "opprof/Support/Recording.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;
using namespace opprof;

static constexpr StringLiteral kActivityKinds[] = {"kernel", "memcpy",
                                                   "memset"};

StringRef opprof::stringify(ActivityKind kind) {
  return kActivityKinds[static_cast<size_t>(kind)];
}

std::optional<ActivityKind> opprof::parseActivityKind(StringRef text) {
  const StringLiteral *found = llvm::find(kActivityKinds, text);
  if (found == std::end(kActivityKinds))
    return std::nullopt;
  return static_cast<ActivityKind>(found - kActivityKinds);
}
