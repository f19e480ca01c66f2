// Which steps of a program are recorded, where not all are: they are counted
// while it runs, and a recording begins and ends with one.

#include "ObserverState.h"

#include <cstdio>
#include <dlfcn.h>
#include <unistd.h>

using namespace opprof::capture;
using namespace opprof::observer;

namespace {

constexpr uint64_t kSearchBytes = uint64_t(128) << 20;
/// How far a device may be behind the host.
constexpr uint64_t kDeviceLateNs = 2'000'000'000;

} // namespace

void CaptureLibrary::load(const char *path) {
  void *library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return;
  auto find = [&](auto &function, const char *name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
        ::dlsym(library, name));
  };
  find(atId, "opprof_capture_at_id");
  find(start, "opprof_capture_start");
  find(pause, "opprof_capture_pause");
  find(stop, "opprof_capture_stop");
  find(active, "opprof_capture_active");
  find(decline, "opprof_capture_decline_injection");
}

/// "--steps=20:40".
std::string Observer::describeWindow() const {
  return "--steps=" + std::to_string(firstStep) + ":" + std::to_string(endStep);
}

/// What ran until now was before the first of the steps.
void Observer::dropBegun() {
  part = Part::Before;
  recording = false;
  blocks.hold();
  recordsMemory = false;
  blocks.release();
  call(/*forOperators=*/false);
  if (!capturePath.empty()) {
    if (capture.active())
      capture.stop(nullptr);
    ::unlink(capturePath.c_str());
    // Of a program that uses CUDA for the first time from here on.
    if (capture.decline)
      capture.decline();
  }
  openNext();
  note("steps",
       describeWindow() +
           ": nothing is recorded: the program did not get to these steps");
}

/// Records the step before the first one, to be dropped: lines, modules and
/// names are met for the first time in it, which takes longer than to meet them
/// again.
void Observer::meetPlaces() {
  recording = true;
  call(/*forOperators=*/true);
}

void Observer::beginSteps() {
  begunStep = steps.steps();
  if (!openNext())
    return;
  note("first step", std::to_string(begunStep));
  note("steps", describeWindow() + ": the program's steps from " +
                    std::to_string(begunStep) +
                    " on are recorded; a step ends with " + steps.endsWith());
  if (!capturePath.empty() && !capture.active()) {
    opprof_capture_options options{};
    options.size = sizeof(options);
    options.path = capturePath.c_str();
    // As in a program that is recorded from the beginning.
    options.buffer_bytes = 256u << 10;
    if (capture.start(&options) != OPPROF_OK)
      note("not recorded", "kernels: the capture did not begin");
  }
  if (!writing.joinable())
    // In a fork.
    startWriting();
  part = Part::Inside;
  recording = true;
  if (memory)
    recordHeld();
  call(/*forOperators=*/true);
}

/// Says in the file which steps there are, now that it ends.
void Observer::sayWhatEnded() {
  std::string window = describeWindow(), text;
  uint64_t count = steps.steps();
  switch (part.load()) {
  case Part::Search:
    text = count || !began
               ? ""
               : "the program stepped no optimizer and no torch.profiler, so "
                 "that its steps could not be counted: all of it is recorded. "
                 "--delay and --duration choose a part of it by time";
    break;
  case Part::NotFound:
    text = "the program stepped no optimizer and no torch.profiler in its "
           "first " +
           std::to_string(searchNs / 1'000'000'000) +
           " s, which are recorded instead. Call step() of a torch.profiler "
           "in it, or choose by --delay and --duration";
    break;
  case Part::Before:
    text = "nothing is recorded: the program ended after " +
           std::to_string(count) + (count == 1 ? " step" : " steps") +
           "; a step ends with " + steps.endsWith();
    break;
  case Part::Inside:
  case Part::Over: {
    uint64_t last = part == Part::Over ? endStep : count;
    text = last <= begunStep + 1
               ? "step " + std::to_string(begunStep) + " of the program is"
               : "steps " + std::to_string(begunStep) + " to " +
                     std::to_string(last - 1) + " of the program are";
    text += " recorded";
    if (part == Part::Inside)
      text += ", after which it ended";
    text += "; a step ends with " + steps.endsWith();
    break;
  }
  case Part::All:
    break;
  }
  if (!text.empty())
    note("steps", window + ": " + text);
}

void Observer::endSteps() {
  part = Part::Over;
  recording = false;
  recordsMemory = false;
  keepsBlocks = followsMemory;
  callNobody();
  // What the device still runs is recorded, and nothing that comes after.
  if (!capturePath.empty() && capture.active())
    capture.pause();
  pausedAt = now();
  sayWhatEnded();
  endFile();
}

/// What the device still ran when the steps were over has ended by now.
void Observer::endCapture() {
  if (part != Part::Over || !pausedAt || now() - pausedAt < kDeviceLateNs)
    return;
  std::unique_lock<std::mutex> own(stepsMutex, std::try_to_lock);
  if (!own)
    return;
  pausedAt = 0;
  if (!capturePath.empty() && capture.active())
    capture.stop(nullptr);
}

/// A program that has no steps for long is not recorded any longer.
void Observer::searchEnded() {
  if (part != Part::Search || !began)
    return;
  FileWriter *at = file;
  if (now() - began < searchNs && at && at->bytes() < kSearchBytes)
    return;
  // At the program's end there is no need for it.
  std::unique_lock<std::mutex> own(stepsMutex, std::try_to_lock);
  if (!own || part != Part::Search || steps.steps())
    return;
  searchNs = now() - began;
  part = Part::NotFound;
  recording = false;
  recordsMemory = false;
  call(/*forOperators=*/false);
  if (!capturePath.empty() && capture.active())
    capture.pause();
  sayWhatEnded();
  std::fprintf(stderr,
               "opprof: no optimizer and no torch.profiler has stepped for "
               "%llu s, which are recorded; %s is begun when one does\n",
               static_cast<unsigned long long>(searchNs / 1'000'000'000),
               describeWindow().c_str());
}

void Observer::rangeEnded(const at::RecordFunction &function) {
  Part at = part.load(std::memory_order_relaxed);
  if (at == Part::All || at == Part::Over ||
      !StepCounter::counts(function.name()))
    return;
  ThreadState *state = thisThread ? thisThread : makeThread();
  if (!state)
    return;
  uint32_t place = placeAt(*state, frame(), nullptr);
  std::lock_guard<std::mutex> lock(stepsMutex);
  StepCounter::Event event = steps.rangeEnded(function.name(), place);
  if (event == StepCounter::Event::None || part == Part::Over)
    return;
  uint64_t count = steps.steps();
  if (part == Part::Search && firstStep == 0) {
    note("first step", "0");
    part = Part::Inside;
  }
  // Also where steps are counted anew.
  if ((part == Part::Search || part == Part::NotFound ||
       part == Part::Inside) &&
      count < firstStep)
    dropBegun();
  if (part == Part::Inside && event == StepCounter::Event::Longer &&
      count == firstStep && firstStep)
    dropBegun();
  if ((part == Part::Before || part == Part::Search ||
       part == Part::NotFound) &&
      count >= firstStep) {
    if (part != Part::Before)
      dropBegun();
    beginSteps();
  }
  if (part == Part::Inside && count >= endStep)
    endSteps();
  if (part == Part::Before && count + 1 == firstStep)
    meetPlaces();
}
