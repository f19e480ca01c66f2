// Huge pages for what a tool allocates: graphs and traces of many nodes lie all
// over memory, and a quarter of the time that they take goes into translating
// addresses (docs/dedup.md).

#ifndef OPPROF_TOOLS_HUGEPAGES_H
#define OPPROF_TOOLS_HUGEPAGES_H

#include <cstdlib>
#include <cstring>

namespace opprof {
/// What glibc takes when a program is loaded, and at no other time: its heaps
/// are advised (madvise) to lie in transparent huge pages.
inline constexpr char kTunables[] = "GLIBC_TUNABLES";
inline constexpr char kHugePages[] = "glibc.malloc.hugetlb=1";

/// Asks for them in the program that this one becomes (exec). False where they
/// were asked for, or where whoever began this program has chosen.
inline bool askForHugePages() {
  return !std::getenv(kTunables) && setenv(kTunables, kHugePages, 0) == 0;
}

/// What this program begins is not to have what was asked for this one.
inline void keepHugePagesFromChildren() {
  const char *asked = std::getenv(kTunables);
  if (asked && std::strcmp(asked, kHugePages) == 0)
    unsetenv(kTunables);
}
} // namespace opprof

#endif // OPPROF_TOOLS_HUGEPAGES_H
