// The steps of a program on a device, played again without some of what it
// does. What removing costs of a program is not the time of what is removed: a
// kernel of two microseconds whose call takes ten costs ten where the device
// waits for its host, and two where the host is ahead.

#ifndef OPPROF_LIB_FINDINGS_SIMULATION_H
#define OPPROF_LIB_FINDINGS_SIMULATION_H

#include "opprof/Profile/Profile.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"

#include <optional>

namespace opprof::findings {

class Simulation {
public:
  /// What kernels and copies take instead, in ns; kGone where neither they nor
  /// their calls are there.
  using Times = llvm::DenseMap<const profile::Activity *, int64_t>;
  static constexpr int64_t kGone = -1;

  /// Of all that one device ran in the steady steps, and the calls in which the
  /// host waited then. All activities are in order of their start.
  Simulation(llvm::ArrayRef<const profile::Activity *> kernels,
             llvm::ArrayRef<const profile::Activity *> copies,
             llvm::ArrayRef<const profile::Synchronization *> waits);

  /// Whether the calls of what ran are known, and what is played of them takes
  /// as long as they did.
  bool isKnown() const { return known; }
  /// Whether the host waits in the call that starts an activity.
  bool waits(const profile::Activity &activity) const;

  /// What all the steps together are shorter by where activities take other
  /// times, and where no call that `free` names waits.
  int64_t savedBy(const Times &times,
                  llvm::ArrayRef<const void *> free = {}) const;

private:
  /// A kernel or copy as it ran.
  struct Work {
    const profile::Activity *activity;
    /// From its call to its start where nothing was before it.
    int64_t latencyNs = 0;
    /// Between what ran before it on its stream and its start.
    int64_t gapNs = 0;
    size_t stream = 0;
    /// Place of what it waited for on another stream.
    std::optional<size_t> after;
  };
  /// A call of the host.
  struct Call {
    int64_t startNs = 0, endNs = 0;
    /// What recording took of the host since the call before.
    int64_t recordingNs = 0;
    /// What else is longer than is usual for such a call: of the host before
    /// it, and of the call.
    int64_t heldUpBeforeNs = 0, heldUpNs = 0;
    /// Places of what it starts.
    size_t first = 0, last = 0;
    bool isCopy = false;
    /// Place of what it waits for.
    std::optional<size_t> waitsFor;
    /// The activity or wait that it is known by.
    const void *of = nullptr;
  };
  void shareRecording();
  void findHeldUp();
  /// `isRecorded` is with what recording took of the host, and what held it up
  /// meanwhile.
  int64_t play(const Times &times, llvm::ArrayRef<const void *> free,
               bool isRecorded) const;

  std::vector<Work> work;
  std::vector<Call> calls;
  size_t streams = 0;
  /// From a call to the start of what waits for nothing else.
  int64_t usualNs = 0;
  bool known = false;
  /// What all of it takes as it is played with nothing changed but that it is
  /// neither recorded nor held up. Savings are held against that: what the
  /// replay gets wrong is in both.
  int64_t unrecordedNs = 0;
};

} // namespace opprof::findings

#endif // OPPROF_LIB_FINDINGS_SIMULATION_H
