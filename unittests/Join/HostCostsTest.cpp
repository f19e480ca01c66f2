// What the host does besides computing, on recordings written by hand.

#include "opprof/Join/Attribution.h"

#include "llvm/ADT/STLExtras.h"
#include "gtest/gtest.h"

#include <random>

using namespace opprof;
using namespace opprof::join;
using namespace opprof::profile;
using namespace opprof::trace;

namespace {

constexpr int64_t kMs = 1'000'000;

/// A program of steps of 10 ms, whose two operators an observer recorded, with
/// the lines that called them.
class HostCostsTest : public ::testing::Test {
protected:
  HostCostsTest() {
    trace.kind = "opprof observer";
    trace.addThread("1");
    trace.places = {{"net", "train.py:1", "step", ""},
                    {"net", "train.py:2", "step", ""}};
    for (int64_t step = 0; step < 3; ++step) {
      int64_t start = step * 10 * kMs;
      trace.steps.push_back({uint64_t(step), start, start + 10 * kMs});
      op("aten::mm", start, 1 * kMs, 0);
      op("aten::relu", start + 8 * kMs, 2 * kMs, 1);
    }
  }
  void op(llvm::StringRef name, int64_t start, int64_t duration,
          uint32_t place) {
    HostOp &made = trace.hostOps.emplace_back();
    made.name = name;
    made.startNs = start;
    made.durationNs = duration;
    made.place = place;
  }
  /// In each step, what a device runs from 2 to `end` milliseconds.
  void run(ActivityKind kind, int64_t end) {
    for (int64_t step = 0; step < 3; ++step) {
      TraceActivity &made = trace.activities.emplace_back();
      made.kind = kind;
      made.name = kind == ActivityKind::Kernel ? "k" : "Memcpy HtoD";
      made.startNs = (step * 10 + 2) * kMs;
      made.durationNs = (end - 2) * kMs;
    }
  }
  /// Time a step between the two lines of the program.
  double programMs() {
    std::unique_ptr<Profile> profile = attribute(trace, {});
    double found = 0;
    for (const HostCost &cost : profile->host)
      if (cost.kind == HostCostKind::Program)
        found += double(cost.timeNs) / 3 / kMs;
    return found;
  }

  Trace trace;
};

TEST_F(HostCostsTest, WithoutADeviceNothingIsWaitedFor) {
  for (int64_t step = 0; step < 3; ++step)
    op("aten::item", (step * 10 + 4) * kMs, kMs, 1);
  auto isWait = [](const HostCost &cost) {
    return cost.kind == HostCostKind::Wait;
  };
  EXPECT_FALSE(llvm::any_of(attribute(trace, {})->host, isWait));
  run(ActivityKind::Kernel, 4);
  EXPECT_TRUE(llvm::any_of(attribute(trace, {})->host, isWait));
}

TEST_F(HostCostsTest, RecordingTakesTimeInAnOperatorAndBesideIt) {
  for (HostOp &op : trace.hostOps)
    op.recordingNs = 300;
  // One that an operator calls, and a view, which is none of the profile's.
  for (int64_t step = 0; step < 3; ++step) {
    op("aten::relu_", (step * 10 + 9) * kMs, 1'000, 1);
    trace.hostOps.back().recordingNs = 100;
    op("aten::view", (step * 10 + 5) * kMs, 1'000, 1);
    trace.hostOps.back().recordingNs = 40;
  }
  std::unique_ptr<Profile> profile = attribute(trace, {});
  ASSERT_EQ(profile->kernels.size(), 6u);
  EXPECT_EQ(profile->kernels[0].recordingNs, 0u);
  EXPECT_EQ(profile->kernels[0].recordingBesideNs, 340u);
  EXPECT_EQ(profile->kernels[1].recordingNs, 100u);
  EXPECT_EQ(profile->kernels[1].recordingBesideNs, 300u);
  EXPECT_EQ(profile->summary.recordingNs, 3 * 740);
}

/// What notes a launch takes its time before each; of kernels that one call
/// starts, once.
TEST_F(HostCostsTest, RecordingALaunchTakesTimeBeforeIt) {
  trace.recordingCallNs = 700;
  uint64_t correlation = 0;
  for (HostOp &op : trace.hostOps) {
    op.recordingNs = 300;
    if (op.name != "aten::mm")
      continue;
    for (int64_t after : {100'000, 200'000}) {
      RuntimeCall &call = trace.runtimeCalls.emplace_back();
      call.name = "cudaLaunchKernel";
      call.startNs = op.startNs + after;
      call.durationNs = 5'000;
      call.correlation = ++correlation;
      for (int64_t kernel = 0; kernel < (after == 100'000 ? 1 : 2); ++kernel) {
        TraceActivity &made = trace.activities.emplace_back();
        made.kind = ActivityKind::Kernel;
        made.name = "k";
        made.startNs = call.startNs + 10'000 * (kernel + 1);
        made.durationNs = 8'000;
        made.correlation = correlation;
      }
    }
  }
  std::unique_ptr<Profile> profile = attribute(trace, {});
  std::vector<uint32_t> beside;
  for (const Activity &kernel : profile->kernels)
    beside.push_back(kernel.recordingBesideNs);
  // From the second step on the other operator and the launch's own lie before
  // the first.
  EXPECT_EQ(beside,
            (std::vector<uint32_t>{700, 700, 0, 1300, 700, 0, 1300, 700, 0}));
  EXPECT_EQ(profile->summary.recordingNs, 6 * 700 + 2 * 600);
}

/// A server's thread waits for requests between operators.
TEST_F(HostCostsTest, AThreadThatWaitsForWorkRunsNoCodeOfTheProgram) {
  EXPECT_DOUBLE_EQ(programMs(), 7);
  trace.addThread("2");
  auto wait = [&](ThreadId thread) {
    for (int64_t step = 0; step < 3; ++step) {
      HostEvent &event = trace.hostEvents.emplace_back();
      event.name = "work wait";
      event.thread = thread;
      event.startNs = (step * 10 + 1) * kMs;
      event.durationNs = 7 * kMs;
      event.place = 1;
    }
  };
  // Another one's wait is nothing of this one.
  wait(1);
  EXPECT_DOUBLE_EQ(programMs(), 7);
  wait(0);
  EXPECT_DOUBLE_EQ(programMs(), 0);
  std::unique_ptr<Profile> profile = attribute(trace, {});
  auto isWait = [](const HostCost &cost) {
    return cost.kind == HostCostKind::Wait && cost.name == "work wait" &&
           cost.source == "train.py:2";
  };
  EXPECT_TRUE(llvm::any_of(profile->host, isWait));
}

/// On a shared machine something else has the processor at times, in operators
/// and between them: what is usual for each is the program's own.
TEST_F(HostCostsTest, WhatHoldsStepsUpIsNotTheirOwnTime) {
  trace.steps.clear();
  trace.hostOps.clear();
  int64_t at = 0, own = 0;
  for (uint64_t step = 0; step < 9; ++step) {
    const int64_t start = at;
    auto run = [&](llvm::StringRef name, int64_t usual, int64_t heldUp,
                   uint32_t place) {
      op(name, at, usual + heldUp, place);
      at += usual + heldUp;
    };
    run("aten::mm", 2 * kMs, step % 4 == 0 ? 30 * kMs : 0, 0);
    at += kMs + (step == 1 ? 40 * kMs : 0);
    run("aten::relu", kMs, step % 3 == 2 ? 20 * kMs : 0, 1);
    own += 4 * kMs;
    // Collected in one step of nine, which is the program's own all the same.
    if (step == 4) {
      HostEvent &event = trace.hostEvents.emplace_back();
      event.name = "garbage 2";
      event.startNs = at;
      event.durationNs = 50 * kMs;
      event.place = 1;
      at += event.durationNs;
      own += event.durationNs;
    }
    trace.steps.push_back({step, start, at});
  }
  std::unique_ptr<Profile> profile = attribute(trace, {});
  ASSERT_EQ(profile->summary.wallNs, at);
  ASSERT_TRUE(profile->summary.undisturbedNs);
  // A time that was held up counts twice what is usual until the next begins.
  const int64_t heldUp = (4 * 3 + 3 * 1) * kMs;
  EXPECT_EQ(*profile->summary.undisturbedNs, own + heldUp);
  // So does what lies between two, which is less.
  EXPECT_EQ(profile->summary.undisturbedIdleNs, (8 * 1 + 2 + 50) * kMs);

  // Of what is near to all, all but the recording is the program's.
  for (HostOp &op : trace.hostOps) {
    op.durationNs = 4 * kMs;
    op.recordingNs = 1'000;
  }
  trace.hostEvents.clear();
  trace.hostOps.resize(18);
  for (uint64_t step = 0; step < 9; ++step) {
    trace.steps[step] = {step, int64_t(step) * 10 * kMs,
                         int64_t(step + 1) * 10 * kMs};
    trace.hostOps[2 * step].startNs = int64_t(step) * 10 * kMs;
    trace.hostOps[2 * step + 1].startNs = int64_t(step) * 10 * kMs + 5 * kMs;
  }
  profile = attribute(trace, {});
  EXPECT_EQ(profile->summary.undisturbedNs, 9 * (10 * kMs - 2'000));
  EXPECT_EQ(profile->summary.undisturbedIdleNs, 9 * (2 * kMs - 2'000));

  // What several threads run at once is nobody's alone.
  trace.addThread("2");
  for (size_t place = 0; place < trace.hostOps.size(); place += 2)
    trace.hostOps[place].thread = 1;
  EXPECT_FALSE(attribute(trace, {})->summary.undisturbedNs);
}

/// What the user marked is the program's, though not each step has it; of what
/// nobody marked, only what is usual is.
TEST_F(HostCostsTest, AMarkedCheckpointIsTheStepsOwnTime) {
  trace.steps.clear();
  trace.hostOps.clear();
  int64_t at = 0;
  std::vector<uint32_t> checkpoints;
  for (uint64_t step = 0; step < 12; ++step) {
    const int64_t start = at;
    for (uint32_t place : {0, 1}) {
      op("aten::mm", at, 10 * kMs, place);
      at += 10 * kMs + kMs / 10;
    }
    if (step % 4 == 3) {
      checkpoints.push_back(trace.hostOps.size());
      op("save_checkpoint", at, 200 * kMs, 1);
      trace.hostOps.back().annotation = true;
      at += 200 * kMs;
    }
    // Round all operators, which does not make what is between them known.
    op("train", start, at - start, 0);
    trace.hostOps.back().annotation = true;
    trace.steps.push_back({step, start, at});
  }
  std::unique_ptr<Profile> profile = attribute(trace, {});
  EXPECT_EQ(profile->summary.undisturbedNs, at);
  EXPECT_EQ(profile->summary.undisturbedIdleNs, at - 12 * 20 * kMs);

  for (uint32_t checkpoint : checkpoints)
    trace.hostOps[checkpoint].open = true;
  profile = attribute(trace, {});
  EXPECT_EQ(profile->summary.undisturbedNs,
            12 * 2 * (10 * kMs + kMs / 10) + 3 * (10 * kMs + kMs / 10));
  EXPECT_EQ(profile->summary.undisturbedIdleNs, (12 * 2 + 3) * kMs / 10);
}

TEST_F(HostCostsTest, TheProgramsOwnCodeIsIdleTimeOfTheDevice) {
  // A kernel elsewhere, so that the recording is one of a device.
  run(ActivityKind::Kernel, 3);
  EXPECT_DOUBLE_EQ(programMs(), 6);
}

TEST_F(HostCostsTest, WhileADeviceComputesTheProgramCostsNothing) {
  run(ActivityKind::Kernel, 7);
  EXPECT_DOUBLE_EQ(programMs(), 2);
}

TEST_F(HostCostsTest, NorWhileItCopies) {
  run(ActivityKind::Kernel, 3);
  run(ActivityKind::Memcpy, 7);
  EXPECT_DOUBLE_EQ(programMs(), 2);
}

TEST_F(HostCostsTest, ADeviceIsIdleBetweenKernelsAndCopies) {
  run(ActivityKind::Kernel, 3);
  run(ActivityKind::Memcpy, 7);
  // Most of what lies between a copy and the next kernel, and a third of what
  // lies between two kernels.
  for (int64_t step = 0; step < 3; ++step)
    op("wait", (step * 10 + 7) * kMs, 3 * kMs, 0);
  trace.runtimeCalls.emplace_back();
  std::unique_ptr<Profile> profile = attribute(trace, {});
  std::string found;
  for (const HostWork &work : profile->hostWork)
    found += work.name + " at " + std::to_string(work.startNs / kMs) + "; ";
  // The longest first.
  EXPECT_EQ(found, "wait at 7; wait at 17; aten::mm at 0; ");
}

/// Garbage that is collected within another event of its thread is that
/// event's: against a count that compares each with each.
TEST_F(HostCostsTest, GarbageWithinAnotherEventIsThatEvents) {
  std::mt19937 random(1);
  trace.addThread("1");
  auto below = [&](int64_t limit) { return int64_t(random() % limit); };
  for (int round = 0; round < 200; ++round) {
    trace.hostEvents.clear();
    for (int64_t count = 1 + below(12); count--;) {
      HostEvent &made = trace.hostEvents.emplace_back();
      made.name = below(2) ? "garbage 2" : below(2) ? "checkpoint" : "compile";
      made.thread = below(2);
      made.startNs = below(30) * kMs;
      made.durationNs = below(6) * kMs;
    }
    uint64_t expected = 0;
    for (const HostEvent &event : trace.hostEvents)
      expected += event.name == "garbage 2" &&
                  llvm::none_of(trace.hostEvents, [&](const HostEvent &other) {
                    return other.name != "garbage 2" &&
                           other.thread == event.thread &&
                           other.startNs <= event.startNs &&
                           event.startNs < other.startNs + other.durationNs;
                  });
    std::unique_ptr<Profile> profile = attribute(trace, {});
    uint64_t found = 0;
    for (const HostCost &cost : profile->host)
      if (cost.kind == HostCostKind::Garbage)
        found += cost.calls;
    EXPECT_EQ(found, expected) << round;
  }
}

/// Without steps figures are of the time between the first operator and the
/// last one, and imports come before that.
TEST_F(HostCostsTest, WithoutStepsWhatLiesBesideTheWindowIsNotCounted) {
  trace.steps.clear();
  trace.hostOps.resize(2);
  for (auto [start, end] :
       {std::pair(-30, -10), {4, 5}, {9, 12}, {14, 15}, {-2, 1}}) {
    HostEvent &event = trace.hostEvents.emplace_back();
    event.name = "garbage 2";
    event.startNs = start * kMs;
    event.durationNs = (end - start) * kMs;
    event.place = 0;
  }
  std::unique_ptr<Profile> profile = attribute(trace, {});
  ASSERT_TRUE(profile->steps.empty());
  ASSERT_EQ(profile->host.size(), 1u);
  EXPECT_EQ(profile->host[0].calls, 3u);
  EXPECT_EQ(profile->host[0].timeNs, 3 * kMs);
  // What the program waits for at its end comes after its last operator.
  for (HostEvent &event : trace.hostEvents)
    event.name = "wait";
  profile = attribute(trace, {});
  ASSERT_EQ(profile->host.size(), 1u);
  EXPECT_EQ(profile->host[0].calls, 4u);
  EXPECT_EQ(profile->host[0].timeNs, 6 * kMs);
}

/// A compilation traces the program by calling its operators, more than a step
/// has: the step is one of training for all that, and pays for it.
TEST_F(HostCostsTest, AStepThatCompilesIsNoOtherStep) {
  trace.steps.clear();
  trace.hostOps.clear();
  for (int64_t step = 0; step < 6; ++step) {
    int64_t start = step * 10 * kMs;
    op("aten::mm", start, kMs, 0);
    op("aten::relu", start + 8 * kMs, kMs, 1);
    op("Optimizer.step#SGD.step", start + 9 * kMs, kMs, 1);
    trace.hostOps.back().annotation = true;
  }
  for (int64_t traced = 0; traced < 5; ++traced)
    op("aten::mm", 32 * kMs + traced * kMs, kMs / 2, 0);
  HostEvent &event = trace.hostEvents.emplace_back();
  event.name = "compilation";
  event.startNs = 31 * kMs;
  event.durationNs = 6 * kMs;
  event.place = 0;
  std::unique_ptr<Profile> profile = attribute(trace, {});
  ASSERT_EQ(profile->steps.size(), 6u);
  EXPECT_EQ(profile->steps[3].phase, Phase::Steady);
  auto isCompilation = [](const HostCost &cost) {
    return cost.kind == HostCostKind::Compilation && cost.timeNs == 6 * kMs;
  };
  EXPECT_TRUE(llvm::any_of(profile->host, isCompilation));
  EXPECT_EQ(profile->kernels.size(), 12u);

  // What a device runs for the compiler is known for it.
  for (uint64_t id = 0; id < 4; ++id) {
    RuntimeCall &call = trace.runtimeCalls.emplace_back();
    call.name = "cudaLaunchKernel";
    call.correlation = id + 1;
    call.startNs = (12 + int64_t(id) * 10) * kMs + kMs / 4;
    call.durationNs = kMs / 8;
    TraceActivity &kernel = trace.activities.emplace_back();
    kernel.kind = ActivityKind::Kernel;
    kernel.name = "k";
    kernel.correlation = id + 1;
    kernel.startNs = call.startNs + kMs / 4;
    kernel.durationNs = kMs;
  }
  profile = attribute(trace, {});
  std::string compiled;
  for (const Activity &kernel : profile->kernels)
    compiled += kernel.phase == Phase::Compile ? "c" : "-";
  EXPECT_EQ(compiled, "--c-");
}

/// The calls that wait have the operator that they carry the id of, or else the
/// line that was noted round them.
TEST_F(HostCostsTest, AWaitHasTheLineThatWaits) {
  run(ActivityKind::Kernel, 3);
  trace.hostOps[1].externalId = 7;
  auto call = [&](llvm::StringRef name, int64_t start,
                  std::optional<uint64_t> id) {
    RuntimeCall &made = trace.runtimeCalls.emplace_back();
    made.name = name;
    made.startNs = start;
    made.durationNs = kMs;
    if (id)
      made.externalId = *id;
  };
  call("cudaStreamSynchronize", 8 * kMs, 7);
  call("cudaDeviceSynchronize", 3 * kMs, std::nullopt);
  call("cudaEventSynchronize", 5 * kMs, std::nullopt);
  for (auto [name, start] : {std::pair<const char *, int64_t>("wait", 3 * kMs),
                             {"checkpoint", 5 * kMs}}) {
    HostEvent &event = trace.hostEvents.emplace_back();
    event.name = name;
    event.startNs = start;
    event.durationNs = kMs;
    event.place = 0;
  }
  std::unique_ptr<Profile> profile = attribute(trace, {});
  std::string found;
  for (const Synchronization &wait : profile->synchronizations)
    found += wait.name + " " + wait.op + " " + wait.source + "; ";
  EXPECT_EQ(found, "cudaDeviceSynchronize  train.py:1; "
                   "cudaEventSynchronize  ; "
                   "cudaStreamSynchronize aten::relu train.py:2; ");
}

} // namespace
