// Tests of the joins from kernels to launches, on traces written by hand.

#include "opprof/Join/Attribution.h"
#include "opprof/Trace/Microseconds.h"
#include "opprof/Trace/Reader.h"

#include "llvm/ADT/STLExtras.h"
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
          llvm::StringRef hash = "", llvm::StringRef dims = "") {
    ++external;
    std::string id = "\"External id\": " + std::to_string(external);
    std::string args = id;
    if (!hash.empty())
      args += ", \"kernel_hash\": \"" + hash.str() + "\"";
    if (!dims.empty())
      args += ", \"Input Dims\": " + dims.str();
    event(span("cpu_op", name, start, 8, args));
    for (unsigned k = 0; k < kernels; ++k) {
      ++correlation;
      std::string ids =
          id + ", \"correlation\": " + std::to_string(correlation);
      event(span("cuda_runtime", "cudaLaunchKernel", start + 1 + k, 0.5, ids));
      event(span("kernel", "kernel_of_" + name.str(), start + 100 + k, 0.75,
                 ids + ", \"device\": 0, \"stream\": 7"));
    }
  }
  void call(double start, double duration, llvm::StringRef key = "fabc") {
    event(span("cpu_op", ("## Call CompiledFxGraph " + key + " ##").str(),
               start, duration, ""));
  }
  /// A replay of a CUDA graph of these kernels.
  void replay(double start, llvm::ArrayRef<llvm::StringRef> kernels) {
    ++correlation;
    std::string id = "\"correlation\": " + std::to_string(correlation);
    event(span("cuda_runtime", "cudaGraphLaunch", start, 0.5, id));
    for (auto [place, name] : llvm::enumerate(kernels))
      event(span("kernel", name, start + 100 + double(place), 0.75,
                 id + ", \"device\": 0, \"stream\": 7"));
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
    inputs.wrappers = &wrappers;
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
  WrapperFiles wrappers;
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
  EXPECT_EQ(profile->kernels[0].origin->range, "");
}

/// As CUDA graphs of compiled functions are recorded, and PyTorch 2.0's: no
/// operator with a namespace is there.
TEST_F(AttributionTest, WhatTheHostCalledIsKnownOfReplays) {
  event(span("cpu_op", "Torch-Compiled Region: 0/0", 0, 90,
             "\"External id\": 1"));
  event(span("user_annotation", "## Call CompiledFxGraph f ##", 5, 80,
             "\"External id\": 2"));
  std::string id = "\"correlation\": 9";
  event(span("cuda_runtime", "cudaGraphLaunch", 10, 0.5, id));
  for (double start : {100.0, 110.0})
    event(span("kernel", "triton_poi_0", start, 5,
               id + ", \"device\": 0, \"stream\": 7"));
  auto profile = attributed({});
  ASSERT_EQ(profile->kernels.size(), 2u);
  for (const Activity &kernel : profile->kernels) {
    EXPECT_EQ(kernel.origin->hostOp, "Torch-Compiled Region: 0/0");
    EXPECT_EQ(kernel.op, 0u);
  }
  ASSERT_EQ(profile->operators.size(), 1u);
  EXPECT_EQ(profile->operators[0].name, "Torch-Compiled Region: 0/0");
  EXPECT_EQ(profile->operators[0].calls, 1u);
  EXPECT_EQ(profile->operators[0].kernels, 2u);
}

/// What the host did for most of a gap of 10 ms, each by what tells most.
TEST_F(AttributionTest, TheHostOfAnIdleTimeIsWhatTellsMost) {
  std::string kernels = events;
  auto named = [&](llvm::ArrayRef<std::string> host) {
    events.clear();
    // A thread counts that launches.
    event(span("cuda_runtime", "cudaLaunchKernel", 1, 1, "\"correlation\": 1"));
    event(span("kernel", "a", 10, 90,
               "\"correlation\": 1, \"device\": 0, \"stream\": 7"));
    event(span("kernel", "b", 10'100, 100,
               "\"correlation\": 2, \"device\": 0, \"stream\": 7"));
    event(span("user_annotation", "execute_model", 0, 100'000, ""));
    for (const std::string &made : host)
      event(made);
    std::string all;
    std::unique_ptr<Profile> profile = attributed({});
    for (const HostWork &work : profile->hostWork)
      all += work.name + ";";
    return all;
  };
  std::string frame =
      span("python_function", "app/data.py(12): resize", 200, 9'000, "");
  std::string builtin =
      span("python_function", "<built-in function sleep>", 210, 8'990, "");
  std::string op =
      span("cpu_op", "aten::conv2d", 220, 8'900, "\"External id\": 5");
  std::string call =
      span("cuda_runtime", "cudaMalloc", 230, 8'000, "\"External id\": 5");
  std::string near =
      span("user_annotation", "enumerate(DataLoader)#x", 190, 9'500, "");
  // A range of a tenth of a second says nothing of a hundredth.
  EXPECT_EQ(named({}), "execute_model;");
  EXPECT_EQ(named({frame, builtin}), "app/data.py(12): resize;");
  EXPECT_EQ(named({frame, op}), "aten::conv2d;");
  EXPECT_EQ(named({frame, op, near}), "enumerate(DataLoader)#x;");
  EXPECT_EQ(named({op, call}), "cudaMalloc in aten::conv2d;");
}

/// The device of a program of a GPU that was recorded on the host alone.
TEST_F(AttributionTest, OperatorsOfAGPUAreNoWorkOfTheCPU) {
  std::string sizes = "\"Input Dims\": [[64, 64], [64, 64]], \"Input type\": "
                      "[\"float\", \"float\"]";
  event(span("cpu_op", "aten::mm", 10, 20, sizes + ", \"External id\": 1"));
  // As recurrent layers ask it, on a CPU too.
  event(
      span("cpu_op", "aten::cudnn_is_acceptable", 12, 1, "\"External id\": 3"));
  auto ofCPU = attributed({});
  ASSERT_EQ(ofCPU->operators.size(), 1u);
  EXPECT_FALSE(ofCPU->operators[0].inputTypes.empty());
  event(span("cpu_op", "aten::record_stream", 40, 2, "\"External id\": 2"));
  auto ofGPU = attributed({});
  ASSERT_FALSE(ofGPU->operators.empty());
  EXPECT_TRUE(ofGPU->operators[0].inputTypes.empty());
  EXPECT_FALSE(ofGPU->operators[0].inputDims.empty());
  EXPECT_TRUE(llvm::any_of(ofGPU->notes, [](llvm::StringRef note) {
    return note.contains("no work of a GPU is in the file");
  }));
}

/// What launches need of one another, by the buffers that they read and write.
TEST_F(AttributionTest, LaunchesKnowWhatTheyComeAfter) {
  launch::LaunchMap known = map({{"triton_poi_0", "h0"},
                                 {"triton_poi_1", "h1"},
                                 {"triton_poi_2", "h2"},
                                 {"triton_poi_3", "h3"},
                                 {"triton_poi_4", "h4"}});
  auto set = [&](size_t at, std::vector<std::string> in,
                 std::vector<std::string> out) {
    known.launches[at].inputs = std::move(in);
    known.launches[at].outputs = std::move(out);
  };
  set(0, {"arg0_1"}, {"buf0"});
  set(1, {"arg0_1"}, {"buf1"});
  set(2, {"buf0", "buf1"}, {"buf2"});
  // Overwrites what the one before reads, and reads what nobody wrote.
  set(3, {"arg1_1"}, {"buf0"});
  set(4, {"buf9"}, {"buf4"});
  op("aten::mm", 10);
  auto profile = attributed(known);
  ASSERT_EQ(profile->launches.size(), 5u);
  EXPECT_TRUE(profile->launches[0].after.empty());
  EXPECT_TRUE(profile->launches[1].after.empty());
  EXPECT_EQ(profile->launches[2].after, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(profile->launches[3].after, (std::vector<uint32_t>{0, 2}));
  EXPECT_FALSE(profile->launches[3].isBarrier);
  EXPECT_TRUE(profile->launches[4].isBarrier);
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
  EXPECT_EQ(profile->kernels[0].origin->method, "correlation");
  EXPECT_EQ(profile->kernels[1].origin->method, "kernel_hash");
  EXPECT_EQ(profile->kernels[2].durationNs, 750);
  EXPECT_EQ(profile->launches[2].runs, 1u);
  EXPECT_EQ(profile->calls[0].matched, 3u);
}

TEST_F(AttributionTest, AHashOfAnotherKernelIsNoMatch) {
  call(0, 50);
  op("triton_poi_fused_relu_0", 10, 1, "other");
  auto profile = attributed(map({{"triton_poi_fused_relu_0", "ha"}}));
  EXPECT_EQ(show(*profile), "-:unattributed ");
  EXPECT_NE(
      profile->kernels[0].origin->explanation.find("none of the launch maps"),
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
  EXPECT_EQ(profile->kernels[0].origin->method, "sequence");
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
  EXPECT_EQ(profile->kernels[1].origin->method, "enclosure");
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

// A function that is compiled again runs operators that the first compilation's
// map has as well.

TEST_F(AttributionTest, AnotherCompilationIsNotTheOneThatFitsBetter) {
  call(0, 50, "fone");
  op("aten::mm", 1);
  op("triton_a", 10, 1, "ha");
  call(100, 50, "ftwo");
  op("aten::mm", 101);
  op("triton_a", 110, 1, "ha");
  op("aten::mm", 120);
  auto profile =
      attributed(map({{"extern_kernels.mm", ""}, {"triton_a", "ha"}}));
  EXPECT_EQ(show(*profile), "0:high 1:high -:unattributed -:unattributed "
                            "-:unattributed ");
  EXPECT_TRUE(llvm::any_of(profile->notes, [](llvm::StringRef note) {
    return note.starts_with("1 of 2 calls of compiled graphs ran code that "
                            "none of the launch maps is of");
  }));
}

// A CPU's generated loops leave no event: of a call of nothing else it is not
// known which graph it is of, let alone that no map is of it.

TEST_F(AttributionTest, CallsThatShowNothingAreNotOfOtherCode) {
  call(0, 50, "None");
  op("aten::mm", 1, 0);
  call(100, 50, "None");
  call(200, 50, "None");
  op("aten::empty", 201, 0);
  auto profile = attributed(map({{"extern_kernels.mm", ""}}));
  EXPECT_EQ(show(*profile), "0:high ");
  EXPECT_EQ(profile->calls.size(), 3u);
  EXPECT_FALSE(llvm::any_of(profile->notes, [](llvm::StringRef note) {
    return note.contains("none of the launch maps is of");
  }));
}

TEST_F(AttributionTest, CompilationsThatRunTheSameAreInDoubtWithOneMap) {
  for (llvm::StringRef key : {"fone", "ftwo"}) {
    double start = key == "fone" ? 0 : 100;
    call(start, 50, key);
    op("aten::mm", start + 1);
  }
  auto profile = attributed(map({{"extern_kernels.mm", ""}}));
  EXPECT_EQ(show(*profile), "0:medium 0:medium ");
  EXPECT_NE(profile->kernels[0].origin->explanation.find("only one of them"),
            llvm::StringRef::npos);
}

TEST_F(AttributionTest, EachCompilationGoesToItsOwnMap) {
  call(0, 50, "fone");
  op("aten::mm", 1);
  op("triton_a", 10, 1, "ha");
  call(100, 50, "ftwo");
  op("aten::mm", 101);
  op("triton_b", 110, 1, "hb");
  op("aten::mm", 120);
  std::vector<launch::LaunchMap> maps = {
      map({{"extern_kernels.mm", ""}, {"triton_a", "ha"}}, "net"),
      map({{"extern_kernels.mm", ""},
           {"triton_b", "hb"},
           {"extern_kernels.mm", ""}},
          "net@1")};
  auto profile = attributed(maps);
  EXPECT_EQ(show(*profile), "0:high 1:high 0:high 1:high 2:high ");
  EXPECT_EQ(profile->calls[0].compiledGraph, "net");
  EXPECT_EQ(profile->calls[1].compiledGraph, "net@1");
}

TEST_F(AttributionTest, ACallThatNamesItsCodeIsOfThatMap) {
  std::vector<launch::LaunchMap> maps = {
      map({{"extern_kernels.mm", ""}}, "net"),
      map({{"extern_kernels.mm", ""}}, "net@1")};
  wrappers.add(0, "a/output_code.py", "a = 8");
  wrappers.add(1, "b/output_code.py", "a = 9");
  call(0, 50, inductorCacheName("a = 9"));
  op("aten::mm", 1);
  call(100, 50, inductorCacheName("a = 8"));
  op("aten::mm", 101);
  call(200, 50, inductorCacheName("a = 10"));
  op("aten::mm", 201);
  auto profile = attributed(maps);
  EXPECT_EQ(show(*profile), "0:high 0:high -:unattributed ");
  EXPECT_EQ(profile->calls[0].compiledGraph, "net@1");
  EXPECT_EQ(profile->calls[1].compiledGraph, "net");
  EXPECT_EQ(profile->calls[2].compiledGraph, "");
}

TEST_F(AttributionTest, CodeOfFixedSizesRunsOnOneShape) {
  launch::LaunchMap launches = map({{"extern_kernels.mm", ""}});
  launches.launches[0].flops = 2 * 4 * 8 * 16;
  wrappers.add(0, "a/output_code.py", "    buf0 = empty_strided_cpu((4, 16))");
  call(0, 50, "None");
  op("aten::mm", 1, 1, "", "[[5, 8], [8, 16]]");
  call(100, 50, "None");
  op("aten::mm", 101, 1, "", "[[4, 8], [8, 16]]");
  EXPECT_EQ(show(*attributed(launches)), "-:unattributed 0:high ");

  // Without their work nothing says which one it is.
  launches.launches[0].flops.reset();
  EXPECT_EQ(show(*attributed(launches)), "0:medium 0:medium ");

  // Symbolic sizes take any shape.
  wrappers = WrapperFiles();
  wrappers.add(0, "a/output_code.py", "    s77 = arg0_1\n");
  EXPECT_EQ(show(*attributed(launches)), "0:high 0:high ");
}

TEST_F(AttributionTest, AReplayWhoseOrderLeavesNoChoiceIsSure) {
  launch::LaunchMap launches = map({{"extern_kernels.mm", ""},
                                    {"triton_a", "ha"},
                                    {"extern_kernels.mm", ""},
                                    {"extern_kernels.mm", ""},
                                    {"triton_a", "ha"}});
  for (launch::Launch &launch : launches.launches)
    launch.flops = 8;
  call(0, 50);
  replay(1, {"gemm", "triton_a", "gemm", "gemm", "triton_a"});
  EXPECT_EQ(show(*attributed(launches)), "0:high 1:high 2:high 3:high 4:high ");

  // A kernel more, and which of two products has it can't be told.
  events.clear();
  call(0, 50);
  replay(1, {"gemm", "triton_a", "gemm", "splitKreduce", "gemm", "triton_a"});
  EXPECT_EQ(show(*attributed(launches)),
            "0:high 1:high 2:medium 2:medium 3:medium 4:high ");

  // A generated kernel less: anything may be missing.
  events.clear();
  call(0, 50);
  replay(1, {"gemm", "triton_a", "gemm", "gemm"});
  EXPECT_EQ(show(*attributed(launches)).find("high"), std::string::npos);

  // What may not run leaves a choice.
  launches.launches[2].conditional = true;
  events.clear();
  call(0, 50);
  replay(1, {"gemm", "triton_a", "gemm", "gemm", "triton_a"});
  EXPECT_EQ(show(*attributed(launches)).find("high"), std::string::npos);
}

TEST_F(AttributionTest, CopiesBeforeAReplayAreOfTheInputs) {
  launch::LaunchMap launches = map({{"triton_a", "ha"}});
  wrappers.add(0, "a/output_code.py",
               "    assert_size_stride(arg0_1, (8, ), (1, ))\n"
               "    assert_size_stride(arg1_1, (4, 8), (8, 1))\n");
  auto copy = [&](llvm::StringRef dims) {
    events.clear();
    call(0, 50);
    op("aten::_foreach_copy_", 1, 1, "", dims);
    replay(20, {"triton_a"});
    return attributed(launches);
  };
  auto profile = copy("[[[4, 8]], [[4, 8]], []]");
  EXPECT_EQ(show(*profile), "-:medium 0:high ");
  ASSERT_EQ(profile->kernels[0].origin->nodes.size(), 1u);
  EXPECT_EQ(profile->nodes[profile->kernels[0].origin->nodes[0]].id,
            NodeId({"model", "post_grad", "arg1_1"}));

  // Two of one shape, or none: the graph is known, the input is not.
  profile = copy("[[[4, 8], [4, 8]], [[4, 8], [4, 8]], []]");
  EXPECT_EQ(show(*profile), "-:unattributed 0:high ");
  EXPECT_NE(profile->kernels[0].origin->explanation.find(
                "copies inputs of model to where its CUDA graph reads them"),
            llvm::StringRef::npos);
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
