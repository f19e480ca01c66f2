// Tests of comparisons: what is matched by what, and what is called a change.

#include "opprof/Compare/Compare.h"

#include "llvm/ADT/STLExtras.h"
#include "gtest/gtest.h"

#include <functional>
#include <random>

using namespace opprof;
using namespace opprof::compare;
using namespace opprof::profile;

namespace {

/// A run of some nodes, each one kernel a step, of noise of half a percent.
struct RunOptions {
  size_t steps = 20, nodes = 50;
  uint64_t seed = 1;
  /// Of the node's time, without noise.
  std::function<double(size_t node)> factor = [](size_t) { return 1.0; };
  std::function<std::string(size_t node)> name = [](size_t node) {
    return "linear_" + std::to_string(node);
  };
  std::string graph = "g", device = "NVIDIA H200", kind = "cuda";
  bool hasSteps = true;
  /// Of the device at the end of a step.
  std::function<int64_t(size_t step)> idleNs = [](size_t) { return 0; };
};

std::unique_ptr<Profile> makeRun(const RunOptions &options) {
  auto profile = std::make_unique<Profile>();
  profile->graph = options.graph;
  profile->stage = "export";
  Device &device = profile->devices.emplace_back();
  device.name = options.device;
  device.kind = options.kind;
  for (size_t node = 0; node < options.nodes; ++node) {
    Node &made = profile->nodes.emplace_back();
    made.id = {options.graph, "export", options.name(node)};
    made.module = "h." + std::to_string(node / 4);
  }
  std::mt19937_64 random(options.seed);
  std::normal_distribution<double> noise(1, 0.005);
  int64_t now = 0;
  if (options.hasSteps)
    profile->summary.stepsFrom = "profiler_step";
  for (size_t step = 0; step < options.steps; ++step) {
    int64_t start = now;
    for (size_t node = 0; node < options.nodes; ++node) {
      Activity &kernel = profile->kernels.emplace_back();
      kernel.id = profile->kernels.size() - 1;
      kernel.name = profile->intern("kernel_" + std::to_string(node));
      if (options.hasSteps)
        kernel.step = step;
      kernel.startNs = now;
      kernel.durationNs = std::llround(10000 * double(1 + node % 7) *
                                       options.factor(node) * noise(random));
      profile->changeOrigin(
          kernel, [&](Origin &origin) { origin.nodes = {uint32_t(node)}; });
      now += kernel.durationNs + 500;
    }
    now += options.idleNs(step);
    if (options.hasSteps)
      profile->steps.push_back({uint32_t(step), start, now, Phase::Steady});
  }
  summarize(*profile);
  return profile;
}

Comparison compareTwo(const RunOptions &a, const RunOptions &b,
                      std::optional<ItemKind> by = std::nullopt) {
  std::unique_ptr<Profile> first = makeRun(a), second = makeRun(b);
  return compareRecordings({{first.get(), "a"}}, {{second.get(), "b"}}, by);
}

TEST(Compare, EqualRunsAreTheSame) {
  Comparison result = compareTwo({.seed = 1}, {.seed = 2});
  EXPECT_EQ(result.by, ItemKind::Node);
  EXPECT_EQ(result.compared, 50u);
  EXPECT_EQ(result.count(Verdict::Same), 50u);
  EXPECT_EQ(result.step.verdict, Verdict::Same);
  EXPECT_EQ(result.kernelTime.verdict, Verdict::Same);
  EXPECT_EQ(result.count(Match::Identity), 50u);
  EXPECT_TRUE(result.unlike.empty());
  EXPECT_TRUE(result.slowerBy(0).empty());
}

TEST(Compare, ASlowerNodeIsNamed) {
  Comparison result =
      compareTwo({.seed = 1}, {.seed = 2, .factor = [](size_t node) {
                                 return node == 13 ? 1.6 : 1.0;
                               }});
  ASSERT_EQ(result.count(Verdict::Slower), 1u);
  const ItemChange &first = result.items.front();
  EXPECT_EQ(first.name, "linear_13");
  EXPECT_EQ(first.verdict, Verdict::Slower);
  EXPECT_GT(first.intervalNs->first, 0);
  EXPECT_EQ(result.step.verdict, Verdict::Slower);
  EXPECT_EQ(result.slowerBy(1),
            (std::vector<std::string>{"step", "kernel time", "linear_13"}));
  EXPECT_TRUE(result.slowerBy(5).empty());
}

TEST(Compare, AFasterNodeFailsNothing) {
  Comparison result =
      compareTwo({.seed = 1}, {.seed = 2, .factor = [](size_t node) {
                                 return node == 13 ? 0.5 : 1.0;
                               }});
  EXPECT_EQ(result.count(Verdict::Faster), 1u);
  EXPECT_TRUE(result.slowerBy(0).empty());
}

TEST(Compare, AnotherClockIsNoChange) {
  Comparison result = compareTwo(
      {.seed = 1}, {.seed = 2, .factor = [](size_t) { return 1.02; }});
  EXPECT_EQ(result.count(Verdict::Slower), 0u);
  EXPECT_EQ(result.step.verdict, Verdict::Same);
  ASSERT_TRUE(result.clockRatio);
  EXPECT_NEAR(*result.clockRatio, 1.02, 0.003);
  EXPECT_TRUE(llvm::any_of(result.notes, [](const std::string &note) {
    return llvm::StringRef(note).contains("another clock");
  }));
}

TEST(Compare, AllBeingMuchSlowerIsNoClock) {
  Comparison result = compareTwo(
      {.seed = 1}, {.seed = 2, .factor = [](size_t) { return 1.3; }});
  EXPECT_FALSE(result.clockRatio);
  EXPECT_EQ(result.count(Verdict::Slower), 50u);
  EXPECT_EQ(result.step.verdict, Verdict::Slower);
}

TEST(Compare, TooFewRepeatsAreNotJudged) {
  Comparison result =
      compareTwo({.steps = 4, .seed = 1},
                 {.seed = 2, .factor = [](size_t) { return 2.0; }});
  EXPECT_EQ(result.count(Verdict::Unknown), 50u);
  EXPECT_EQ(result.step.verdict, Verdict::Unknown);
  EXPECT_FALSE(result.step.intervalNs);
  ASSERT_TRUE(result.step.changeNs);
  EXPECT_TRUE(llvm::StringRef(result.notes.front()).contains("A has 4 steps"));
}

TEST(Compare, RecordingsWithoutStepsAreRepeats) {
  std::vector<std::unique_ptr<Profile>> a, b;
  std::vector<Recording> ofA, ofB;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    a.push_back(makeRun({.steps = 3, .seed = seed, .hasSteps = false}));
    b.push_back(
        makeRun({.steps = 3,
                 .seed = 100 + seed,
                 .factor = [](size_t node) { return node == 13 ? 1.6 : 1.0; },
                 .hasSteps = false}));
    ofA.push_back({a.back().get(), "a"});
    ofB.push_back({b.back().get(), "b"});
  }
  Comparison result = compareRecordings(ofA, ofB, std::nullopt);
  EXPECT_TRUE(result.a.repeatsAreRecordings);
  EXPECT_EQ(result.a.repeats, 6u);
  EXPECT_EQ(result.count(Verdict::Slower), 1u);
  EXPECT_EQ(result.items.front().name, "linear_13");
}

TEST(Compare, RecordingsOfOneSideThatAreApartAreNoise) {
  // A's own two recordings are as far apart as A is from B.
  auto one = makeRun({.seed = 1}),
       two = makeRun(
           {.seed = 2,
            .factor = [](size_t node) { return node == 13 ? 1.6 : 1.0; }}),
       other = makeRun({.seed = 3, .factor = [](size_t node) {
                          return node == 13 ? 1.6 : 1.0;
                        }});
  Comparison result = compareRecordings({{one.get(), "1"}, {two.get(), "2"}},
                                        {{other.get(), "3"}}, std::nullopt);
  EXPECT_EQ(result.count(Verdict::Slower), 0u);
}

TEST(Compare, OneDisturbedStepSetsNoRecordingApart) {
  auto slower = [](size_t node) { return node == 13 ? 1.6 : 1.0; };
  auto one = makeRun({.seed = 1}), two = makeRun({.seed = 2}),
       other = makeRun({.seed = 3, .factor = slower}),
       last = makeRun({.seed = 4, .factor = slower});
  for (Activity &kernel : two->kernels)
    if (kernel.step == 3u && kernel.origin->nodes == std::vector<uint32_t>{13})
      kernel.durationNs *= 30;
  summarize(*two);
  Comparison result =
      compareRecordings({{one.get(), "1"}, {two.get(), "2"}},
                        {{other.get(), "3"}, {last.get(), "4"}}, std::nullopt);
  EXPECT_EQ(result.count(Verdict::Slower), 1u);
  EXPECT_EQ(result.items.front().name, "linear_13");
}

TEST(Compare, NodesAreMatchedByModuleWhereNumbersMoved) {
  // One more node before all others moves every number.
  Comparison result =
      compareTwo({.seed = 1}, {.seed = 2, .name = [](size_t node) {
                                 return "linear_" + std::to_string(node + 4);
                               }});
  EXPECT_EQ(result.count(Match::Identity), 0u);
  EXPECT_EQ(result.count(Match::Structure), 50u);
  EXPECT_EQ(result.count(Verdict::Same), 50u);
}

TEST(Compare, GraphsOfOtherNamesAreMatchedByStructure) {
  Comparison result = compareTwo({.seed = 1}, {.seed = 2, .graph = "other"});
  EXPECT_EQ(result.count(Match::Structure), 50u);
}

TEST(Compare, WhatIsInOneSideAloneIsSaid) {
  Comparison result = compareTwo({.nodes = 10, .seed = 1},
                                 {.nodes = 12, .seed = 2}, ItemKind::Kernel);
  EXPECT_EQ(result.count(Verdict::New), 2u);
  result = compareTwo({.nodes = 12, .seed = 1}, {.nodes = 10, .seed = 2});
  EXPECT_EQ(result.count(Verdict::Gone), 2u);
}

TEST(Compare, OtherDevicesAreSaidAndHaveNoClock) {
  Comparison result =
      compareTwo({.seed = 1}, {.seed = 2, .device = "NVIDIA A100"});
  ASSERT_EQ(result.unlike.size(), 1u);
  EXPECT_EQ(result.unlike.front().what, "device");
  EXPECT_FALSE(result.clockRatio);
}

TEST(Compare, ItemsSumToKernelTime) {
  std::unique_ptr<Profile> run = makeRun({.seed = 1});
  run->changeOrigin(run->kernels[3],
                    [&](Origin &origin) { origin.nodes = {1, 2, 3}; });
  run->changeOrigin(run->kernels[4],
                    [&](Origin &origin) { origin.nodes = {}; });
  summarize(*run);
  for (ItemKind by : {ItemKind::Node, ItemKind::Class, ItemKind::Module,
                      ItemKind::Kernel, ItemKind::Operator}) {
    ItemTable table = listItems(*run, by);
    int64_t sum = 0;
    for (const Item &item : table.items)
      sum += item.totalNs();
    EXPECT_EQ(sum, run->summary.kernelTimeNs) << stringify(by).str();
    EXPECT_EQ(table.repeats(), 20u);
  }
}

TEST(Compare, EmptyProfiles) {
  Profile none;
  Comparison result =
      compareRecordings({{&none, "a"}}, {{&none, "b"}}, std::nullopt);
  EXPECT_TRUE(result.items.empty());
  EXPECT_EQ(result.step.verdict, Verdict::Unknown);
  std::string text;
  llvm::raw_string_ostream os(text);
  writeComparison(result, 3.0, os);
  EXPECT_TRUE(llvm::StringRef(text).contains("\"items\": []"));
}

TEST(Compare, WhatIsNeitherProvenNorTheSameIsUnclear) {
  // Six steps a side, the node half as long again in most of those of B.
  RunOptions a{.steps = 6, .seed = 1}, b{.steps = 6, .seed = 2};
  size_t calls = 0;
  b.factor = [&](size_t node) {
    if (node != 3)
      return 1.0;
    constexpr double kFactors[] = {1.2, 1.9, 1.3, 1.8, 1.25, 1.7};
    return kFactors[calls++ % 6];
  };
  Comparison result = compareTwo(a, b, ItemKind::Node);
  auto item = llvm::find_if(result.items, [](const ItemChange &change) {
    return change.name == "linear_3";
  });
  ASSERT_TRUE(item != result.items.end());
  EXPECT_EQ(item->verdict, Verdict::Unclear);
  EXPECT_EQ(stringify(item->verdict), "unclear");
  EXPECT_GT(item->intervalNs->first, *item->floorNs);
  EXPECT_EQ(result.count(Verdict::Slower), 0u);
  EXPECT_TRUE(result.slowerBy(0).empty());
  // As many as it says prove it, and no fewer than there are.
  auto needed = [](const Comparison &of) -> unsigned {
    for (llvm::StringRef note : of.notes) {
      auto [text, rest] = note.split("; for the largest about ");
      unsigned number = 0;
      if (text.contains(" unclear: ") && !rest.consumeInteger(10, number))
        return number;
    }
    return 0;
  };
  const unsigned enough = needed(result);
  EXPECT_GT(enough, 6u);
  ASSERT_LT(enough, 60u);
  a.steps = b.steps = (enough + 5) / 6 * 6;
  calls = 0;
  Comparison longer = compareTwo(a, b, ItemKind::Node);
  item = llvm::find_if(longer.items, [](const ItemChange &change) {
    return change.name == "linear_3";
  });
  EXPECT_EQ(item->verdict, Verdict::Slower);
  EXPECT_EQ(needed(longer), 0u);
}

/// What a comparison says of changes that are unclear.
std::string findUnclearNote(const Comparison &comparison) {
  for (llvm::StringRef note : comparison.notes)
    if (note.contains(" unclear: "))
      return note.str();
  return "";
}

/// One of the nodes longer by about half of `scale`, in some steps by far more
/// than in others: six don't prove it.
RunOptions makeUnclearRun(std::function<double(size_t node)> factor,
                          double scale = 1) {
  static constexpr double kFactors[] = {1.2, 1.9, 1.3, 1.8, 1.25, 1.7};
  RunOptions options{.steps = 6, .seed = 2};
  options.factor = [calls = size_t(0), factor, scale](size_t node) mutable {
    return node == 3 ? 1 + scale * (kFactors[calls++ % 6] - 1) : factor(node);
  };
  return options;
}

TEST(Compare, WhatIsSaidOfTheUnclearIsNotOfWhatIsProven) {
  Comparison result =
      compareTwo({.steps = 6, .seed = 1}, makeUnclearRun([](size_t node) {
                   return node == 13 || node == 20 ? 3.0 : 1.0;
                 }));
  EXPECT_EQ(result.count(Verdict::Slower), 2u);
  EXPECT_EQ(result.count(Verdict::Unclear), 1u);
  std::string said = findUnclearNote(result);
  llvm::StringRef note = said;
  EXPECT_TRUE(
      note.starts_with("the step, the kernel time and 1 item are unclear: "))
      << said;
  EXPECT_TRUE(note.contains("6 a side do not prove them at the level of 52"))
      << said;
}

// Most kernels take 3 % longer: what a clock does isn't proven by any number.
TEST(Compare, TheRepeatsThatAreSaidProveAChangeByBothClocks) {
  auto factor = [](size_t) { return 1.029; };
  Comparison result =
      compareTwo({.steps = 6, .seed = 1}, makeUnclearRun(factor, 0.5));
  std::string said = findUnclearNote(result);
  auto [text, rest] = llvm::StringRef(said).split("for the largest about ");
  unsigned enough = 0;
  ASSERT_FALSE(rest.consumeInteger(10, enough)) << said;
  RunOptions longer = makeUnclearRun(factor, 0.5);
  longer.steps = (enough + 5) / 6 * 6;
  result = compareTwo({.steps = longer.steps, .seed = 1}, longer);
  auto item = llvm::find_if(result.items, [](const ItemChange &change) {
    return change.name == "linear_3";
  });
  EXPECT_EQ(item->verdict, Verdict::Slower);
}

TEST(Compare, WhatIsUnclearIsNamed) {
  // Kernels differ from step to step, and their sum does by less.
  auto idle = [](size_t step) {
    return int64_t(step * step * 200'000 % 970'000);
  };
  RunOptions b{.steps = 6, .seed = 2, .idleNs = idle};
  b.factor = [calls = size_t(0)](size_t node) mutable {
    constexpr double kFactors[] = {1.02, 1.19, 1.03, 1.18, 1.025, 1.17};
    constexpr double kOwn[] = {-0.5, 0.6, -0.4, 0.5, -0.6, 0.4};
    size_t step = calls++ / 50;
    return kFactors[step] + kOwn[(step + node) % 6];
  };
  Comparison result = compareTwo({.steps = 6, .seed = 1, .idleNs = idle}, b);
  EXPECT_EQ(result.count(Verdict::Unclear), 0u);
  EXPECT_NE(result.step.verdict, Verdict::Unclear);
  EXPECT_EQ(result.kernelTime.verdict, Verdict::Unclear);
  std::string said = findUnclearNote(result);
  llvm::StringRef note = said;
  EXPECT_TRUE(note.starts_with("the kernel time is unclear: ")) << said;
}

/// Launches of a page without a timeline: six of one kernel, many of another.
std::unique_ptr<Profile> makePage(llvm::ArrayRef<double> factors) {
  auto profile = std::make_unique<Profile>();
  profile->devices.emplace_back().kind = "cuda";
  profile->sources.emplace_back().kind = kNcuKind.str();
  auto add = [&](llvm::StringRef name, int64_t durationNs) {
    Activity &kernel = profile->kernels.emplace_back();
    kernel.id = profile->kernels.size() - 1;
    kernel.name = profile->intern(name);
    kernel.config.own().grid = {1, 1, 1};
    kernel.durationNs = durationNs;
  };
  for (size_t i = 0; i < 6; ++i)
    add("few", std::llround(100000 * factors[i] + 300 * double(i % 3)));
  for (size_t i = 0; i < 40; ++i)
    add("many", 10000 + int64_t(i % 5) * 20);
  summarize(*profile);
  return profile;
}

TEST(Compare, TheRepeatsThatAreSaidAreThoseOfTheLargest) {
  std::unique_ptr<Profile> a = makePage({1, 1, 1, 1, 1, 1}),
                           b = makePage({1.2, 1.9, 1.3, 1.8, 1.25, 1.7});
  Comparison result =
      compareRecordings({{a.get(), "a"}}, {{b.get(), "b"}}, ItemKind::Kernel);
  ASSERT_TRUE(result.byLaunch);
  std::string said = findUnclearNote(result);
  llvm::StringRef note = said;
  EXPECT_TRUE(note.starts_with("1 item is unclear: ")) << said;
  EXPECT_TRUE(note.contains(" 6 a side do not prove it ")) << said;
}

} // namespace
