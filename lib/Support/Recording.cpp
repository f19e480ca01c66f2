// Names of what a recording holds.

#include "opprof/Support/Recording.h"
#include "opprof/Support/EnumNames.h"

#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/STLExtras.h"

#include <tuple>

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

bool LaunchConfig::operator==(const LaunchConfig &other) const {
  auto all = [](const LaunchConfig &config) {
    return std::tie(config.grid, config.block, config.registers,
                    config.sharedMemory, config.staticShared,
                    config.dynamicShared, config.localMemory,
                    config.blocksPerSM, config.warpsPerSM, config.occupancyPct);
  };
  return all(*this) == all(other);
}

const LaunchConfig &SharedConfig::operator*() const {
  static const LaunchConfig unknown;
  return held ? held->config : unknown;
}

LaunchConfig &SharedConfig::own() {
  if (!held || held->UseCount() > 1) {
    llvm::IntrusiveRefCntPtr<Counted> copy = new Counted();
    copy->config = **this;
    held = std::move(copy);
  }
  return held->config;
}

SharedConfig ConfigPool::keep(const LaunchConfig &config) {
  if (config == LaunchConfig())
    return {};
  auto triple = [](const std::optional<std::array<uint64_t, 3>> &sizes) {
    return sizes ? hash_combine_range(*sizes) : hash_code(0);
  };
  // What differs in the rest alone is rare, and then it is just not shared.
  size_t hash = hash_combine(triple(config.grid), triple(config.block),
                             config.registers.value_or(0),
                             config.sharedMemory.value_or(0));
  SharedConfig &found = kept[hash];
  if (!(*found == config)) {
    found = SharedConfig();
    found.own() = config;
  }
  return found;
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
