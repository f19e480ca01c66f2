// Tests of the joins from kernels to launches, on traces written by hand.

#include "opprof/Join/Attribution.h"
#include "opprof/Trace/Microseconds.h"
#include "opprof/Trace/Reader.h"

#include "llvm/Support/Error.h"
#include "gtest/gtest.h"

using namespace opprof;
using namespace opprof::join;
using namespace opprof::profile;
using namespace opprof::trace;

namespace {

/// Writes a trace: a host operator, its launch call and its kernel at a time.
class AttributionTest : public ::testing::Test {
protected:
  void event(const std::string &text) {
    events += (events.empty() ? "" : ",\n") + text;
  }
  static std::string span(llvm::StringRef category, llvm::StringRef name,
                          double start, double duration, llvm::StringRef args) {
    return (R"({"ph": "X", "cat": ")" + category + R"(", "name": ")" + name +
            R"(", "pid": 1, "tid": 1, "ts": )" + std::to_string(start) +
            R"(, "dur": )" + std::to_string(duration) + R"(, "args": {)" +
            args + "}}")
        .str();
  }
  /// An operator that launches `kernels` kernels from `start` on.
  void op(llvm::StringRef name, double start, unsigned kernels = 1,
          llvm::StringRef hash = "") {
    ++external;
    std::string id = "\"External id\": " + std::to_string(external);
    event(span("cpu_op", name, start, 8,
               id + (hash.empty()
                         ? std::string()
                         : ", \"kernel_hash\": \"" + hash.str() + "\"")));
    for (unsigned k = 0; k < kernels; ++k) {
      ++correlation;
      std::string ids =
          id + ", \"correlation\": " + std::to_string(correlation);
      event(span("cuda_runtime", "cudaLaunchKernel", start + 1 + k, 0.5, ids));
      event(span("kernel", "kernel_of_" + name.str(), start + 100 + k, 0.75,
                 ids + ", \"device\": 0, \"stream\": 7"));
    }
  }
  void call(double start, double duration) {
    event(
        span("cpu_op", "## Call CompiledFxGraph fabc ##", start, duration, ""));
  }
  static launch::LaunchMap
  map(llvm::ArrayRef<std::pair<llvm::StringRef, llvm::StringRef>> launches,
      llvm::StringRef graph = "model") {
    launch::LaunchMap map;
    map.graph = graph.str();
    for (auto [kernel, hash] : launches) {
      launch::Launch &launch = map.launches.emplace_back();
      launch.index = map.launches.size() - 1;
      launch.file = "output_code.py";
      launch.line = 10 + launch.index;
      launch.kernel = kernel.str();
      launch.kernelHash = hash.str();
      launch.kind = hash.empty() ? launch::LaunchKind::Extern
                                 : launch::LaunchKind::Triton;
      launch::LaunchNode &node = launch.nodes.emplace_back();
      node.name = "n" + std::to_string(launch.index);
    }
    return map;
  }
  std::unique_ptr<Profile> attributed(llvm::ArrayRef<launch::LaunchMap> maps) {
    llvm::Expected<std::unique_ptr<Trace>> trace =
        readTrace({"{\"traceEvents\": [" + events + "]}", "t.json"});
    if (!trace) {
      ADD_FAILURE() << llvm::toString(trace.takeError());
      return std::make_unique<Profile>();
    }
    AttributionInputs inputs;
    inputs.maps = maps;
    return attribute(**trace, inputs);
  }
  /// "2:high 0:medium -:unattributed": launch and confidence of each kernel.
  static std::string show(const Profile &profile) {
    std::string text;
    for (const Activity &kernel : profile.kernels)
      text += (kernel.launch
                   ? std::to_string(profile.launches[*kernel.launch].index)
                   : "-") +
              ":" + stringify(kernel.confidence).str() + " ";
    return text;
  }

  std::string events;
  int external = 0;
  int correlation = 0;
};

TEST_F(AttributionTest, CallsAreStepsOnlyWhereTheGraphIsKnown) {
  for (double start : {0.0, 1000.0}) {
    call(start, 100);
    op("aten::mm", start + 10);
  }
  EXPECT_EQ(attributed(map({{"extern_kernels.mm", ""}}))->summary.steps, 2u);
  auto profile = attributed({});
  EXPECT_EQ(profile->summary.stepsFrom, "none");
  EXPECT_FALSE(profile->summary.steps);
  ASSERT_EQ(profile->kernels.size(), 2u);
  EXPECT_EQ(profile->kernels[0].range, "");
}

TEST_F(AttributionTest, ByHashAndByOrder) {
  call(0, 50);
  op("aten::mm", 1);
  op("triton_poi_fused_relu_0", 10, 1, "ha");
  op("aten::mm", 20, /*kernels=*/2);
  auto profile = attributed(map({{"extern_kernels.mm", ""},
                                 {"triton_poi_fused_relu_0", "ha"},
                                 {"extern_kernels.mm", ""}}));
  EXPECT_EQ(show(*profile), "0:high 1:high 2:high 2:high ");
  EXPECT_EQ(profile->kernels[0].method, "correlation");
  EXPECT_EQ(profile->kernels[1].method, "kernel_hash");
  EXPECT_EQ(profile->kernels[2].durationNs, 750);
  EXPECT_EQ(profile->launches[2].runs, 1u);
  EXPECT_EQ(profile->calls[0].matched, 3u);
}

TEST_F(AttributionTest, AHashOfAnotherKernelIsNoMatch) {
  call(0, 50);
  op("triton_poi_fused_relu_0", 10, 1, "other");
  auto profile = attributed(map({{"triton_poi_fused_relu_0", "ha"}}));
  EXPECT_EQ(show(*profile), "-:unattributed ");
  EXPECT_NE(profile->kernels[0].explanation.find("none of the launch maps"),
            llvm::StringRef::npos);
}

TEST_F(AttributionTest, AMissingOperatorLeavesTwoChoicesOpen) {
  call(0, 50);
  op("aten::mm", 1);
  op("triton_poi_fused_relu_0", 10, 1, "ha");
  auto profile = attributed(map({{"extern_kernels.mm", ""},
                                 {"extern_kernels.mm", ""},
                                 {"triton_poi_fused_relu_0", "ha"}}));
  EXPECT_EQ(show(*profile), "0:medium 2:high ");
  EXPECT_EQ(profile->kernels[0].method, "sequence");
}

TEST_F(AttributionTest, AnUnknownOperatorBetweenTwoKnownOnes) {
  call(0, 50);
  op("triton_a", 1, 1, "ha");
  op("mylib::custom", 10);
  op("triton_b", 20, 1, "hb");
  auto profile = attributed(map({{"triton_a", "ha"},
                                 {"extern_kernels.custom_out", ""},
                                 {"triton_b", "hb"}}));
  EXPECT_EQ(show(*profile), "0:high 1:medium 2:high ");
  EXPECT_EQ(profile->kernels[1].method, "enclosure");
}

TEST_F(AttributionTest, ChoosesTheGraphThatFits) {
  call(0, 30);
  op("triton_b", 1, 1, "hb");
  call(40, 30);
  op("triton_a", 41, 1, "ha");
  std::vector<launch::LaunchMap> maps = {map({{"triton_a", "ha"}}, "first"),
                                         map({{"triton_b", "hb"}}, "second")};
  auto profile = attributed(maps);
  EXPECT_EQ(profile->calls[0].compiledGraph, "second");
  EXPECT_EQ(profile->calls[1].compiledGraph, "first");
  EXPECT_EQ(show(*profile), "0:high 0:high ");
}

TEST_F(AttributionTest, ALoopRunsItsLaunchAgainAndAgain) {
  call(0, 90);
  op("aten::mm", 1);
  for (int round = 1; round < 6; ++round)
    op("triton_a", 10 * round, 1, "ha");
  auto profile =
      attributed(map({{"extern_kernels.mm", ""}, {"triton_a", "ha"}}));
  EXPECT_EQ(profile->launches[1].runs, 5u);
  EXPECT_EQ(profile->summary.attributedNs[size_t(Confidence::Unattributed)], 0);
}

TEST_F(AttributionTest, LibraryCallsAloneAreNoModel) {
  call(0, 50);
  op("aten::mm", 1);
  op("triton_b", 10, 1, "hb");
  op("aten::mm", 20);
  auto profile =
      attributed(map({{"extern_kernels.mm", ""}, {"extern_kernels.mm", ""}}));
  EXPECT_EQ(show(*profile), "-:unattributed -:unattributed -:unattributed ");
}

TEST_F(AttributionTest, TwoGraphsThatLaunchTheSameAreNoIdentity) {
  call(0, 30);
  op("triton_a", 1, 1, "ha");
  std::vector<launch::LaunchMap> maps = {map({{"triton_a", "ha"}}, "first"),
                                         map({{"triton_a", "ha"}}, "second")};
  auto profile = attributed(maps);
  EXPECT_EQ(show(*profile), "0:medium ");
}

TEST_F(AttributionTest, EagerOperatorsAreNotTheGraphs) {
  op("aten::mm", 1);
  op("aten::relu", 10);
  op("aten::mm", 20);
  auto profile =
      attributed(map({{"extern_kernels.mm", ""}, {"triton_a", "ha"}}));
  EXPECT_EQ(show(*profile), "-:unattributed -:unattributed -:unattributed ");
}

TEST_F(AttributionTest, KeepsKernelsLaunchedBeforeTheTrace) {
  event(span("kernel", "early", 5, 2,
             "\"device\": 0, \"stream\": 7, \"correlation\": 999"));
  call(10, 30);
  op("triton_a", 11, 1, "ha");
  auto profile = attributed(map({{"triton_a", "ha"}}));
  EXPECT_EQ(show(*profile), "-:unattributed 0:high ");
  EXPECT_EQ(profile->kernels[0].phase, Phase::BeforeWindow);
  EXPECT_EQ(profile->summary.kernels, 2u);
}

TEST_F(AttributionTest, ALaunchWithoutNodesIsUnattributed) {
  call(0, 50);
  op("triton_a", 1, 1, "ha");
  launch::LaunchMap launches = map({{"triton_a", "ha"}});
  launches.launches[0].nodes.clear();
  auto profile = attributed(launches);
  EXPECT_EQ(show(*profile), "0:unattributed ");
}

TEST_F(AttributionTest, StepsByTheProfilersMarks) {
  for (int step = 0; step < 2; ++step) {
    double start = step * 1000;
    event(span("user_annotation", "ProfilerStep#" + std::to_string(step), start,
               900, ""));
    call(start + 1, 50);
    op("triton_a", start + 2, 1, "ha");
  }
  auto profile = attributed(map({{"triton_a", "ha"}}));
  EXPECT_EQ(profile->summary.stepsFrom, "profiler_step");
  EXPECT_EQ(profile->summary.steps, 2u);
  EXPECT_EQ(profile->summary.wallNs, 1'900'000);
  EXPECT_EQ(profile->kernels[1].step, 1u);
  EXPECT_EQ(profile->launches[0].runs, 2u);
}

TEST_F(AttributionTest, AStepThatCompilesIsNotSteady) {
  for (int step = 0; step < 2; ++step) {
    double start = step * 1000;
    event(span("user_annotation", "ProfilerStep#" + std::to_string(step), start,
               900, ""));
    if (step == 0)
      event(span("user_annotation", "compile_fx (dynamo_timed)", start + 100,
                 500, ""));
    call(start + 1, 50);
    op("triton_a", start + 2, 1, "ha");
  }
  auto profile = attributed(map({{"triton_a", "ha"}}));
  EXPECT_EQ(profile->steps[0].phase, Phase::WarmUp);
  EXPECT_EQ(profile->steps[1].phase, Phase::Steady);
  EXPECT_EQ(profile->kernels[0].phase, Phase::WarmUp);
  EXPECT_EQ(profile->kernels[1].phase, Phase::Steady);
}

TEST(ParseMicroseconds, IsExact) {
  auto parse = [](llvm::StringRef text) {
    bool rounded = false;
    std::optional<int64_t> value = parseMicroseconds(text, rounded);
    return std::make_pair(value, rounded);
  };
  using Result = std::pair<std::optional<int64_t>, bool>;
  EXPECT_EQ(parse("4350987386097.695"), Result(4350987386097695, false));
  EXPECT_EQ(parse("0.001"), Result(1, false));
  EXPECT_EQ(parse("12"), Result(12000, false));
  EXPECT_EQ(parse("-1.5"), Result(-1500, false));
  EXPECT_EQ(parse("1.5e3"), Result(1500000, false));
  EXPECT_EQ(parse("1.0005"), Result(1001, true));
  EXPECT_EQ(parse("1.0004"), Result(1000, true));
  EXPECT_EQ(parse("1e300"), Result(std::nullopt, false));
  EXPECT_EQ(parse("1e-300"), Result(0, true));
  for (llvm::StringRef text : {"", ".", "1.", ".5", "x", "1x", "--1", "1e",
                               "1e9999999999", "\"1\"", "NaN"})
    EXPECT_FALSE(parse(text).first) << text.str();
}

} // namespace
