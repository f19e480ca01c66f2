// The one CUPTI subscriber of a process. CUPTI has a single subscriber. This
// object is it: it watches CUDA graphs for the timeline, and calls for the
// timeline and for counter passes.

#ifndef OPPROF_LIB_CAPTURE_CALLBACKS_H
#define OPPROF_LIB_CAPTURE_CALLBACKS_H

#include "Cupti.h"

#include "opprof/Capture/CaptureFile.h"

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace opprof::capture {

struct Launch {
  uint32_t name; ///< index into Callbacks' names
  uint32_t kind; ///< 0 kernel, 1 CUDA graph
  uint64_t externalId;
  int32_t grid[3];
  int32_t block[3];
  uint32_t correlation;

  /// Whether it is the same work; the id may differ between passes.
  bool sameAs(const Launch &other) const;
};

class Callbacks {
public:
  static Callbacks &get();

  /// Takes the subscription for as long as a capture runs; BUSY, with the name
  /// of the holder, when another tool has it.
  int hold();
  void release();

  /// Notes the nodes of CUDA graphs as they come into being.
  void watchGraphs(bool on);
  /// Notes calls that put work on a device, for HostCalls.
  int watchCalls(bool on);
  /// What noting one call takes of the thread that makes it, in ns: of a call
  /// that does nothing, noted and not. 0 where calls are noted already, or
  /// nobody has the subscription. HostCalls has these calls afterwards.
  uint64_t measureNoting();

  /// Begins to note launches into a new list. Fails when another tool holds
  /// the subscription.
  int beginLaunches();
  int endLaunches();
  /// The launches noted so far. Other threads may go on launching, here as in
  /// all that follows: what is handed out is a copy, but for texts of names,
  /// which stay until the next list begins.
  std::vector<Launch> launches() const;
  size_t launchCount() const;
  const std::string &name(uint32_t index) const;

  /// Called around each launch of a checked pass with its number in the pass;
  /// `entering` on the way in.
  using LaunchHook = std::function<void(size_t index, bool entering)>;
  /// Begins a pass that is held against the recording.
  int beginCheck(LaunchHook hook);
  /// The step begins anew in the same pass.
  void nextRun();
  /// Ends it; NOT_REPLAYABLE, with the first difference, when it was another.
  int endCheck();

  /// A kernel of the timeline, and its name, which lives as long as CUPTI does.
  using NamedKernel = std::pair<KernelRecord, const char *>;
  /// Keeps what the timeline says of the launches being recorded.
  void addKernels(const std::vector<NamedKernel> &kernels);
  /// A launch, its name, and what the timeline said of it, if it did.
  struct NamedLaunch {
    Launch launch;
    const char *name;
    std::optional<KernelRecord> kernel;
  };
  std::optional<NamedLaunch> launch(size_t index) const;
  /// A kernel of those that a launch of a CUDA graph ran, in the order of its
  /// nodes; `count` becomes how many there are.
  std::optional<NamedKernel> kernelOfGraph(const Launch &launch, size_t index,
                                           size_t &count);

private:
  Callbacks() = default;
  static void CUPTIAPI callback(void *, CUpti_CallbackDomain domain,
                                CUpti_CallbackId cbid, const void *data);
  void onLaunch(CUpti_CallbackId cbid, const CUpti_CallbackData &data);
  void onResource(CUpti_CallbackId cbid, const CUpti_ResourceData &data);
  int subscribe();
  void unsubscribe();
  /// Lets through the calls that somebody wants now.
  void enableCalls();
  /// Notes where a run that is over ended too early.
  void checkEnd();
  uint32_t nameIndex(const char *name);
  std::string describe(const Launch &launch) const;

  std::mutex Mutex;
  CUpti_SubscriberHandle Subscriber = nullptr;
  int Users = 0;
  bool Graphs = false;
  std::atomic<bool> Calls{false};

  enum class Mode { Off, Record, Check };
  std::atomic<Mode> Now{Mode::Off};
  /// Guards all that follows, which launching threads, the writer of the
  /// timeline and whoever reads the launches share.
  mutable std::mutex LaunchMutex;
  /// Grows without moving its texts.
  std::deque<std::string> Names;
  std::vector<Launch> Recorded;
  std::shared_ptr<LaunchHook> Hook;
  /// Launches of this run, and of all runs of the pass.
  size_t Seen = 0, SeenInPass = 0;
  std::string Difference;
  bool KeepKernels = false;
  size_t KeptKernels = 0;
  std::unordered_map<uint32_t, KernelRecord> Kernels;
  std::unordered_map<uint32_t, std::vector<NamedKernel>> GraphKernels;
};

} // namespace opprof::capture

#endif // OPPROF_LIB_CAPTURE_CALLBACKS_H
