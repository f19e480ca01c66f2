// Names of what a recording holds.

#include "opprof/Support/Recording.h"
#include "opprof/Support/EnumNames.h"

#include "llvm/ADT/STLExtras.h"

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

void Device::dropZeros() {
  for (std::optional<uint64_t> *fact :
       {&smCount, &totalMemory, &maxThreadsPerSM, &registersPerSM, &sharedPerSM,
        &warpSize})
    if (*fact == 0)
      fact->reset();
}

bool ProfilerOverhead::isProfilersOwn() const {
  // As CUPTI, Kineto and nsys spell them.
  return llvm::none_of(
      std::initializer_list<StringRef>{"command buffer full",
                                       "function loading", "module loading",
                                       "compiler"},
      [&](StringRef part) { return kind.contains_insensitive(part); });
}
