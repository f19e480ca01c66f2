// The launches of all maps. The launches by what names them: what every way of
// joining kernels to launches needs of the launch maps.

#ifndef OPPROF_LIB_JOIN_LAUNCHINDEX_H
#define OPPROF_LIB_JOIN_LAUNCHINDEX_H

#include "HostTimeline.h"
#include "opprof/Launch/LaunchMap.h"
#include "opprof/Profile/Profile.h"

namespace opprof::join {

/// A launch of one of the maps.
struct LaunchId {
  uint32_t map = kNone;
  uint32_t launch = kNone;

  bool valid() const { return map != kNone; }
};

/// How an operator of the host, or an activity of the device, was joined.
struct Join {
  LaunchId launch;
  llvm::StringRef method = "none";
  profile::Confidence confidence = profile::Confidence::Unattributed;
  std::string explanation;
};

/// What identifies a launch, or an operator that may be one.
struct LaunchKey {
  /// Interned numbers; 0 is none.
  uint32_t hash = 0;
  uint32_t name = 0;

  /// A hash on both sides decides alone.
  bool matches(const LaunchKey &other) const {
    if (hash && other.hash)
      return hash == other.hash;
    return name == other.name;
  }
};

/// The name under which the profiler shows what a launch map calls `kernel`:
/// "extern_kernels.mm", "torch.ops.aten.mm.out" and "aten.mm.default" are
/// "aten::mm", "graph_0_cpp_fused_relu_0" is the C++ kernel "cpp_fused_relu_0".
std::string profilerName(llvm::StringRef kernel);

class LaunchIndex {
public:
  explicit LaunchIndex(llvm::ArrayRef<launch::LaunchMap> maps);

  llvm::ArrayRef<launch::LaunchMap> getMaps() const { return maps; }
  llvm::ArrayRef<launch::Launch> launchesOf(uint32_t map) const {
    return maps[map].launches;
  }
  const launch::Launch &at(LaunchId id) const {
    return maps[id.map].launches[id.launch];
  }
  /// "launch 3 of model (output_code.py:17)".
  std::string describe(LaunchId id) const;

  /// Of each launch of a map.
  llvm::ArrayRef<LaunchKey> keysOf(uint32_t map) const { return keys[map]; }
  LaunchKey keyOf(const HostTimeline &host, uint32_t op);
  /// The number of a kernel's name as the device has it, 0 if no launch has it.
  uint32_t nameOf(llvm::StringRef kernel) const { return names.lookup(kernel); }
  /// The launches of a kernel hash.
  llvm::ArrayRef<LaunchId> ofHash(uint32_t hash) const;

  /// Profile::launches has a record of each launch, map by map.
  std::vector<profile::LaunchRecord> makeRecords() const;
  uint32_t recordOf(LaunchId id) const {
    return firstRecord[id.map] + id.launch;
  }
  /// Counts a run of the launch.
  void countRun(profile::Profile &profile, LaunchId id) const {
    ++profile.launches[recordOf(id)].runs;
  }
  /// Writes a join into an activity and what is to be its origin.
  void apply(profile::Profile &profile, profile::Activity &activity,
             profile::Origin &origin, const Join &join) const;

private:
  uint32_t intern(llvm::StringRef text);

  llvm::ArrayRef<launch::LaunchMap> maps;
  llvm::StringMap<uint32_t> names;
  std::vector<std::vector<LaunchKey>> keys;
  llvm::DenseMap<uint32_t, std::vector<LaunchId>> byHash;
  std::vector<uint32_t> firstRecord;
};

} // namespace opprof::join

#endif // OPPROF_LIB_JOIN_LAUNCHINDEX_H
