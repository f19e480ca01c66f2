// Names of what a recording holds.

#include "opprof/Support/Recording.h"
#include "opprof/Support/EnumNames.h"

using namespace llvm;
using namespace opprof;

static constexpr StringLiteral kActivityKinds[] = {"kernel", "memcpy",
                                                   "memset"};

StringRef opprof::stringify(ActivityKind kind) {
  return kActivityKinds[static_cast<size_t>(kind)];
}

std::optional<ActivityKind> opprof::parseActivityKind(StringRef text) {
  return parseEnumerator<ActivityKind>(kActivityKinds, text);
}
