// Which modules the host was in.

#ifndef OPPROF_LIB_JOIN_MODULETIMELINE_H
#define OPPROF_LIB_JOIN_MODULETIMELINE_H

#include "opprof/Trace/Trace.h"

namespace opprof::join {

/// The frames of modules of a trace, nested by thread and time.
class ModuleTimeline {
public:
  explicit ModuleTimeline(const trace::Trace &trace);

  /// The modules that `thread` was in at `time`, outermost first, with dots
  /// between; empty where it was in none.
  llvm::StringRef at(trace::ThreadId thread, int64_t time) const;

private:
  struct Frame {
    int64_t startNs;
    int64_t endNs;
    /// Place in `frames` of its thread, or none.
    uint32_t parent;
    llvm::StringRef path;
  };
  static constexpr uint32_t kNone = ~uint32_t(0);
  /// Of each thread, by start.
  std::vector<std::vector<Frame>> frames;
  llvm::BumpPtrAllocator allocator;
  llvm::UniqueStringSaver paths{allocator};
};

} // namespace opprof::join

#endif // OPPROF_LIB_JOIN_MODULETIMELINE_H
