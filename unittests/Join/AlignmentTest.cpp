// Tests of order-preserving matching, and of the sums that a profile states.

#include "opprof/Join/SequenceAlignment.h"
#include "opprof/Profile/Items.h"
#include "opprof/Profile/Profile.h"
#include "opprof/Support/Intervals.h"

#include "gtest/gtest.h"

#include <numeric>
#include <random>

using namespace opprof;
using namespace opprof::join;
using namespace opprof::profile;

static SequenceAlignment align(llvm::StringRef a, llvm::StringRef b,
                               uint64_t maxCells = kMaxAlignmentCells) {
  return alignSequences(
      a.size(), b.size(), [&](uint32_t i, uint32_t j) { return a[i] == b[j]; },
      maxCells);
}

/// Where each element went, "-" for nowhere, "!" behind a forced choice.
static std::string show(const SequenceAlignment &alignment) {
  std::string text;
  for (const AlignedElement &element : alignment.elements) {
    text += element.position ? std::to_string(*element.position) : "-";
    text += element.forced ? "! " : " ";
  }
  return text;
}

namespace {
TEST(SequenceAlignment, MatchesEqualSequencesOneByOne) {
  SequenceAlignment alignment = align("abab", "abab");
  EXPECT_TRUE(alignment.complete);
  EXPECT_EQ(show(alignment), "0! 1! 2! 3! ");
}

TEST(SequenceAlignment, TellsForcedChoicesFromFreeOnes) {
  // One b of two is missing: either may be the one.
  SequenceAlignment alignment = align("abc", "abbc");
  EXPECT_FALSE(alignment.complete);
  EXPECT_EQ(alignment.matched, 3u);
  EXPECT_TRUE(alignment.elements[0].forced);
  EXPECT_FALSE(alignment.elements[1].forced);
  EXPECT_TRUE(alignment.elements[2].forced);
}

TEST(SequenceAlignment, LeavesOutWhatDoesNotFit) {
  EXPECT_EQ(show(align("axb", "ab")), "0! - 1! ");
  EXPECT_EQ(show(align("", "ab")), "");
  EXPECT_EQ(show(align("ab", "")), "- - ");
}

/// The elements of each gap, in the first sequence and in the second.
static std::string showGaps(llvm::StringRef a, llvm::StringRef b) {
  std::string text;
  for (const AlignmentGap &gap : findGaps(align(a, b), b.size()))
    text += (a.slice(gap.firstBegin, gap.firstEnd) + ":" +
             b.slice(gap.secondBegin, gap.secondEnd) + " ")
                .str();
  return text;
}

TEST(SequenceAlignment, GapsLieBetweenMatches) {
  EXPECT_EQ(showGaps("axyb", "aqb"), "xy:q ");
  EXPECT_EQ(showGaps("xaby", "qabrs"), "x:q y:rs ");
  EXPECT_EQ(showGaps("xyab", "ab"), "xy: ");
  // What only the second has lies in none.
  EXPECT_EQ(showGaps("ab", "aqb"), "");
  EXPECT_EQ(showGaps("xy", "qr"), "xy:qr ");
}

TEST(SequenceAlignment, ForcesNothingWhenTooLarge) {
  SequenceAlignment alignment = align("axb", "ab", /*maxCells=*/4);
  EXPECT_EQ(show(alignment), "0 - 1 ");
}

} // namespace

/// All order-preserving matchings of the greatest length, by brute force.
static void enumerate(llvm::StringRef a, llvm::StringRef b, size_t i,
                      size_t from, std::vector<int> &current,
                      std::vector<std::vector<int>> &found) {
  if (i == a.size()) {
    found.push_back(current);
    return;
  }
  current.push_back(-1);
  enumerate(a, b, i + 1, from, current, found);
  current.pop_back();
  for (size_t j = from; j < b.size(); ++j)
    if (a[i] == b[j]) {
      current.push_back(int(j));
      enumerate(a, b, i + 1, j + 1, current, found);
      current.pop_back();
    }
}

namespace {
TEST(SequenceAlignment, AgreesWithEveryLongestMatching) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::string a, b;
    for (unsigned k = random() % 7; k; --k)
      a += char('a' + random() % 3);
    for (unsigned k = random() % 7; k; --k)
      b += char('a' + random() % 3);
    std::vector<int> current;
    std::vector<std::vector<int>> all, longest;
    enumerate(a, b, 0, 0, current, all);
    size_t most = 0;
    auto size = [](const std::vector<int> &matching) {
      return size_t(llvm::count_if(matching, [](int j) { return j >= 0; }));
    };
    for (const auto &matching : all)
      most = std::max(most, size(matching));
    for (const auto &matching : all)
      if (size(matching) == most)
        longest.push_back(matching);
    SequenceAlignment alignment = align(a, b);
    EXPECT_EQ(alignment.matched, most) << a << " " << b;
    for (size_t i = 0; i < a.size(); ++i) {
      const AlignedElement &element = alignment.elements[i];
      bool same = llvm::all_of(longest, [&](const std::vector<int> &matching) {
        return element.position && matching[i] == int(*element.position);
      });
      EXPECT_EQ(element.forced, same) << a << " " << b << " at " << i;
    }
  }
}

TEST(Profile, SharesSumToTheTime) {
  auto sum = [](llvm::ArrayRef<int64_t> shares) {
    return std::accumulate(shares.begin(), shares.end(), int64_t(0));
  };
  for (int64_t total : {0, 1, 7, 1000003}) {
    for (size_t count : {1, 2, 3, 7})
      EXPECT_EQ(sum(shareTime(total, count)), total);
    for (const std::vector<uint32_t> &parts :
         {std::vector<uint32_t>{333333, 0, 666666},
          std::vector<uint32_t>{1, 0, 999999}, std::vector<uint32_t>{0, 0, 0}})
      EXPECT_EQ(sum(shareTime(total, 3, parts)), total);
  }
}

TEST(Profile, WhatComputesNothingGetsNoTime) {
  EXPECT_EQ(shareTime(1000, 3, {250000, 0, 750000}),
            (std::vector<int64_t>{250, 0, 750}));
  EXPECT_EQ(shareTime(10, 3, {0, 1000000, 0}),
            (std::vector<int64_t>{0, 10, 0}));
}

TEST(Profile, CountsOverlapOnce) {
  std::vector<std::pair<int64_t, int64_t>> intervals = {
      {10, 20}, {0, 5}, {15, 30}, {16, 17}, {30, 31}};
  EXPECT_EQ(unionLength(intervals), 5 + 21);
  std::vector<std::pair<int64_t, int64_t>> nothing;
  EXPECT_EQ(unionLength(nothing), 0);
}

} // namespace

static Activity kernel(uint32_t id, int64_t start, int64_t duration,
                       int64_t stream, std::optional<uint32_t> step = {}) {
  Activity activity;
  activity.id = id;
  activity.name = "k";
  activity.startNs = start;
  activity.durationNs = duration;
  activity.stream = stream;
  activity.step = step;
  return activity;
}

namespace {
TEST(Profile, BusyIsAUnionOverStreams) {
  Profile profile;
  Device &device = profile.devices.emplace_back();
  device.kind = "cuda";
  profile.kernels.push_back(kernel(0, 100, 50, 7));
  profile.kernels.push_back(kernel(1, 120, 50, 8));
  profile.kernels.push_back(kernel(2, 200, 10, 7));
  summarize(profile);
  EXPECT_EQ(profile.summary.kernelTimeNs, 110);
  EXPECT_EQ(profile.summary.busyNs, 80);
  EXPECT_EQ(profile.summary.wallNs, 110);
  EXPECT_EQ(profile.summary.attributedNs[size_t(Confidence::Unattributed)],
            110);
}

TEST(Profile, WallIsTheSteadySteps) {
  Profile profile;
  profile.devices.emplace_back();
  profile.summary.stepsFrom = "profiler_step";
  profile.steps = {{0, 0, 1000, Phase::WarmUp},
                   {1, 1000, 1200, Phase::Steady},
                   {2, 1200, 1400, Phase::Steady}};
  profile.kernels.push_back(kernel(0, 100, 800, 7, 0));
  profile.kernels.push_back(kernel(1, 1010, 100, 7, 1));
  // The device ends after the host has left the step.
  profile.kernels.push_back(kernel(2, 1390, 60, 7, 2));
  summarize(profile);
  EXPECT_EQ(profile.summary.window,
            std::make_pair(int64_t(1000), int64_t(1450)));
  EXPECT_EQ(profile.summary.wallNs, 450);
  EXPECT_EQ(profile.summary.busyNs, 160);
}

} // namespace

// A host that is three steps ahead of its device: each step takes the device
// 1 ms, and the host 10 µs.
static void runAhead(Profile &profile) {
  profile.devices.emplace_back();
  profile.summary.stepsFrom = "profiler_step";
  for (uint32_t step = 0; step < 4; ++step) {
    int64_t begins = 10'000 * int64_t(step);
    profile.steps.push_back({step, begins, begins + 10'000, Phase::Steady});
    Activity &run = profile.kernels.emplace_back(kernel(
        step, 3'000'000 + 1'000'000 * int64_t(step), 1'000'000, 7, step));
    run.launchStartNs = begins + 1'000;
    run.launchDurationNs = 3'000;
  }
}

namespace {
TEST(Profile, StepsBeginWhereTheDeviceIsDoneWithEarlierWork) {
  Profile profile;
  runAhead(profile);
  summarize(profile);
  EXPECT_EQ(profile.summary.window,
            std::make_pair(int64_t(3'000'000), int64_t(7'000'000)));
  EXPECT_EQ(profile.summary.wallNs, 4'000'000);
  EXPECT_EQ(profile.summary.busyNs, 4'000'000);
  EXPECT_EQ(profile.summary.idleNs, 0);
  EXPECT_EQ(listItems(profile, ItemKind::Kernel).wallNs,
            std::vector<int64_t>(4, 1'000'000));
}

TEST(Profile, CopiesRightBeforeTheFirstKernelAreTheStepsOwn) {
  Profile profile;
  runAhead(profile);
  Activity copy = kernel(0, 2'500'000, 499'000, 7, 0);
  copy.launchStartNs = 500;
  copy.launchDurationNs = 400;
  profile.copies.push_back(copy);
  summarize(profile);
  EXPECT_EQ(profile.summary.window->first, 2'500'000);
  // A copy that began at once says that the device waited for the step, and the
  // kernel for the copy.
  profile.copies[0].startNs = 2'000;
  profile.copies[0].durationNs = 2'997'000;
  summarize(profile);
  EXPECT_EQ(profile.summary.window->first, 0);
  // And one of another stream, done long before, says nothing.
  profile.copies[0].durationNs = 10'000;
  summarize(profile);
  EXPECT_EQ(profile.summary.window->first, 3'000'000);
}

// The program waits for earlier work, which is recorded, when its step begins.
TEST(Profile, StepsBeginWhereEarlierWorkThatIsRecordedEnds) {
  Profile profile;
  profile.devices.emplace_back();
  profile.summary.stepsFrom = "profiler_step";
  profile.steps = {{0, 0, 30'000'000, Phase::Steady}};
  for (int64_t at : {-1'000'000, 4'000'000, 9'000'000}) {
    Activity &before = profile.kernels.emplace_back(
        kernel(profile.kernels.size(), at, 5'000'000, 7, 0));
    before.step.reset();
    before.phase = Phase::BeforeWindow;
  }
  Activity &run =
      profile.kernels.emplace_back(kernel(3, 14'500'000, 20'000'000, 7, 0));
  run.launchStartNs = 14'450'000;
  run.launchDurationNs = 10'000;
  summarize(profile);
  EXPECT_EQ(profile.summary.window,
            std::make_pair(int64_t(14'000'000), int64_t(34'500'000)));
  EXPECT_EQ(profile.summary.idleNs, 500'000);
  EXPECT_EQ(listItems(profile, ItemKind::Kernel).wallNs,
            std::vector<int64_t>{20'500'000});
  // What comes later, after the device had nothing to do, is in the step.
  profile.kernels[1].startNs = 5'000'000;
  profile.kernels[1].durationNs = 4'000'000;
  summarize(profile);
  EXPECT_EQ(profile.summary.window->first, 4'000'000);
}

// The host began work before it was recorded, and what it launched then runs
// after it.
TEST(Profile, WhatTheDeviceWasAtBeforeARecordingIsNoIdleTime) {
  Profile profile;
  profile.devices.emplace_back();
  auto launched = [&](int64_t startNs, int64_t durationNs, int64_t stream,
                      int64_t launchedNs) {
    Activity &run = profile.kernels.emplace_back(
        kernel(profile.kernels.size(), startNs, durationNs, stream, 0));
    run.step.reset();
    run.launchStartNs = launchedNs;
    run.launchDurationNs = 5'000;
  };
  launched(0, 3'000, 2, -10'000);
  launched(50'000'000, 7'000, 3, 40'000);
  launched(50'007'000, 1'000'000, 3, 60'000);
  summarize(profile);
  EXPECT_EQ(profile.summary.window,
            std::make_pair(int64_t(50'000'000), int64_t(51'007'000)));
  EXPECT_EQ(profile.summary.idleNs, 0);
  EXPECT_EQ(profile.summary.busyNs, 1'007'000);
  // One that comes late waits for its launch, not for the device.
  profile.kernels[1].launchStartNs = 49'990'000;
  summarize(profile);
  EXPECT_EQ(profile.summary.window->first, 0);
  // And one of a stream that was at work waits for what is recorded there.
  profile.kernels[1].launchStartNs = 40'000;
  profile.kernels[0].stream = 3;
  summarize(profile);
  EXPECT_EQ(profile.summary.window->first, 0);
  // What ran for long before is no remainder.
  profile.kernels[0].stream = 2;
  profile.kernels[0].durationNs = 1'000'000;
  profile.kernels[1].launchStartNs = 1'000'000;
  summarize(profile);
  EXPECT_EQ(profile.summary.window->first, 0);
  // Another device that ran meanwhile has its time.
  profile.kernels[0].durationNs = 3'000;
  profile.kernels[1].launchStartNs = 40'000;
  profile.devices.emplace_back().id = 1;
  launched(1'000'000, 2'000'000, 7, 990'000);
  profile.kernels.back().device = 1;
  summarize(profile);
  EXPECT_EQ(profile.summary.window->first, 1'000'000);
}

TEST(Profile, StepsBeginWithTheHostWhereTheDeviceWaitsForIt) {
  Profile profile;
  runAhead(profile);
  for (Activity &run : profile.kernels) {
    run.startNs = *run.launchStartNs + 8'000;
    run.durationNs = 500;
  }
  summarize(profile);
  EXPECT_EQ(profile.summary.wallNs, 40'000);
  EXPECT_EQ(listItems(profile, ItemKind::Kernel).wallNs,
            std::vector<int64_t>(4, 10'000));
}
} // namespace
