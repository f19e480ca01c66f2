// Tests of captures as traces: small files written by hand, read and joined.

#include "../Capture/CaptureFileBuilder.h"
#include "opprof/Join/Attribution.h"
#include "opprof/Profile/ProfileJSON.h"
#include "opprof/Trace/Reader.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "gtest/gtest.h"

#include <random>

using namespace opprof;
using namespace opprof::join;
using namespace opprof::profile;
using namespace opprof::trace;
using namespace opprof::capture;

namespace {

/// A program that launches on one thread; every launch takes 2 µs of the host.
class CaptureTraceTest : public ::testing::Test {
protected:
  CaptureTraceTest() {
    DeviceRecord device{};
    device.name = file.string("NVIDIA H200");
    device.computeMajor = 9;
    device.smCount = 132;
    device.maxThreadsPerSm = 2048;
    file.add(ChunkType::Devices, device);
    launchCall = call("cudaLaunchKernel", 211);
    graphCall = call("cudaGraphLaunch", 311);
  }

  uint32_t call(const std::string &name, uint32_t cbid) {
    file.add(ChunkType::ApiNames, ApiNameRecord{1, cbid, file.string(name), 0});
    return cbid;
  }
  void name(uint64_t id, const std::string &json) {
    file.add(ChunkType::IdNames, IdNameRecord{id, file.string(json), 0});
  }
  void line(uint64_t id, unsigned number,
            const std::string &path = "/cache/cabc.py") {
    name(id, "{\"file\": \"" + path +
                 "\", \"line\": " + std::to_string(number) + "}");
  }
  void api(uint32_t cbid, uint32_t thread = 1) {
    ApiRecord r{};
    r.domain = 1;
    r.cbid = cbid;
    r.thread = thread;
    r.correlation = ++correlation;
    r.start = time;
    r.end = time + 2000;
    file.add(ChunkType::Apis, r);
    time += 2000;
  }
  void kernel(const std::string &name, uint64_t duration,
              uint64_t graphNode = 0) {
    KernelRecord r{};
    r.name = file.string(name);
    r.start = time + 10000;
    r.end = r.start + duration;
    r.correlation = correlation;
    r.graphNode = graphNode;
    r.stream = 7;
    r.grid[0] = 264;
    r.grid[1] = r.grid[2] = r.block[1] = r.block[2] = 1;
    r.block[0] = 256;
    r.registers = 32;
    r.dynamicShared = 1024;
    r.localPerThread = 8;
    file.add(ChunkType::Kernels, r);
    time += duration;
  }
  void carry(uint64_t id) {
    file.add(ChunkType::ExternalIds, ExternalIdRecord{id, correlation, 0});
  }
  void launch(const std::string &name, uint64_t id, uint64_t duration = 1000) {
    api(launchCall);
    kernel(name, duration);
    if (id)
      carry(id);
  }
  void step(uint64_t number, bool begin) {
    MarkRecord r{};
    r.time = time;
    r.value = number;
    r.kind = begin ? 1 : 2;
    file.add(ChunkType::Marks, r);
    time += 1;
  }

  static launch::LaunchMap
  map(llvm::ArrayRef<std::pair<unsigned, llvm::StringRef>> launches) {
    launch::LaunchMap map;
    map.graph = "model";
    for (auto [line, kernel] : launches) {
      launch::Launch &launch = map.launches.emplace_back();
      launch.index = map.launches.size() - 1;
      launch.file = "output_code.py";
      launch.line = line;
      launch.kernel = kernel.str();
      launch.kind = kernel.starts_with("triton") ? launch::LaunchKind::Triton
                                                 : launch::LaunchKind::Extern;
      launch.nodes.emplace_back().name = "n" + std::to_string(launch.index);
    }
    return map;
  }

  std::unique_ptr<Trace> read() {
    llvm::Expected<std::unique_ptr<Trace>> trace =
        readTrace({file.bytes, "t.opcap"});
    if (!trace) {
      ADD_FAILURE() << llvm::toString(trace.takeError());
      return std::make_unique<Trace>();
    }
    return std::move(*trace);
  }
  std::unique_ptr<Profile>
  attributed(llvm::ArrayRef<launch::LaunchMap> maps,
             llvm::ArrayRef<PartitionMap> partitions = {}) {
    WrapperFiles wrappers;
    for (size_t index = 0; index < maps.size(); ++index)
      wrappers.add(index, "/cache/cabc.py", "code " + std::to_string(index));
    AttributionInputs inputs;
    inputs.maps = maps;
    inputs.partitions = partitions;
    inputs.wrappers = &wrappers;
    trace = read();
    return attribute(*trace, inputs);
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
  static bool hasNote(const std::vector<std::string> &notes,
                      const std::string &part) {
    return llvm::any_of(notes, [&](const std::string &note) {
      return note.find(part) != std::string::npos;
    });
  }

  CaptureFileBuilder file;
  std::unique_ptr<Trace> trace;
  uint32_t launchCall, graphCall;
  uint32_t correlation = 0;
  uint64_t time = 1'000'000;
};

TEST_F(CaptureTraceTest, LinesOfTheWrapperAreItsLaunches) {
  line(1, 10);
  line(2, 11);
  for (int number = 0; number < 2; ++number) {
    step(number, true);
    launch("gemm", 1);
    launch("triton_poi", 2);
    // A second kernel of the library call.
    step(number, false);
  }
  file.end();
  auto profile =
      attributed(map({{10, "extern_kernels.mm"}, {11, "triton_poi"}}));
  EXPECT_EQ(show(*profile), "0:high 1:high 0:high 1:high ");
  EXPECT_EQ(profile->kernels[0].origin->method, "identity");
  EXPECT_EQ(profile->kernels[0].origin->explanation,
            "launched under the id of line 10, which is launch 0 of model "
            "(output_code.py:10)");
  EXPECT_EQ(profile->summary.stepsFrom, "capture_marks");
  EXPECT_EQ(profile->summary.steps, 2u);
  EXPECT_EQ(profile->kernels[3].step, 1u);
  EXPECT_EQ(profile->launches[0].runs, 2u);
  ASSERT_EQ(profile->calls.size(), 2u);
  EXPECT_EQ(profile->calls[0].matched, 2u);
  EXPECT_EQ(profile->calls[0].compiledGraph, "model");
  EXPECT_EQ(profile->sources[0].kind, "opprof capture");
  EXPECT_EQ(profile->devices[0].name, "NVIDIA H200");
  EXPECT_TRUE(profile->notes.empty());
  EXPECT_EQ(profile->nodes.size(), 2u);
}

TEST_F(CaptureTraceTest, TimesAreExact) {
  step(0, true);
  uint64_t before = time;
  launch("k", 0, 1234);
  step(0, false);
  file.end();
  auto read = this->read();
  ASSERT_EQ(read->activities.size(), 1u);
  EXPECT_EQ(read->activities[0].durationNs, 1234);
  EXPECT_EQ(read->activities[0].startNs, int64_t(before) + 12000);
  EXPECT_EQ(read->runtimeCalls[0].startNs, int64_t(before));
  EXPECT_EQ(read->runtimeCalls[0].durationNs, 2000);
  EXPECT_EQ(read->runtimeCalls[0].name, "cudaLaunchKernel");
  EXPECT_EQ(read->activities[0].config->registers, 32u);
  EXPECT_EQ(read->activities[0].config->sharedMemory, 1024u);
  EXPECT_EQ(read->activities[0].config->localMemory, 8u);
  EXPECT_EQ(read->activities[0].stream, 7);
}

TEST_F(CaptureTraceTest, OfManyKernelsTheLastAreKept) {
  constexpr uint64_t kSecond = 1'000'000'000;
  auto marker = [&](uint32_t id, uint32_t flags, const std::string &name) {
    MarkerRecord r{};
    r.time = time;
    r.id = id;
    r.flags = flags;
    r.name = name.empty() ? kNone : file.string(name);
    r.thread = 1;
    file.add(ChunkType::Markers, r);
  };
  marker(1, 2, "all of it");
  for (int number = 0; number < 40; ++number) {
    step(number, true);
    marker(10 + number, 2, "part");
    launch("k" + std::to_string(number), 0);
    marker(10 + number, 4, "");
    step(number, false);
    time += kSecond;
  }
  file.end();
  llvm::Expected<std::unique_ptr<Trace>> last =
      readTrace({file.bytes, "t.opcap"}, {.lastKernels = 5});
  ASSERT_TRUE(bool(last)) << llvm::toString(last.takeError());
  ASSERT_EQ((*last)->activities.size(), 5u);
  EXPECT_EQ((*last)->activities.front().name, "k35");
  // The host is kept for ten seconds more: kernels are launched ahead.
  EXPECT_EQ((*last)->runtimeCalls.size(), 14u);
  EXPECT_EQ((*last)->hostOps.size(), 15u);
  EXPECT_EQ((*last)->steps.size(), 4u);
  EXPECT_TRUE(hasNote((*last)->notes,
                      "the capture holds 40 kernels: this is about the last 5, "
                      "which begin 35.0 s after the first"));
  std::unique_ptr<Profile> profile = attribute(**last, AttributionInputs());
  EXPECT_EQ(profile->kernels.size(), 5u);
  EXPECT_EQ(profile->kernels[0].origin->range, "part");
  EXPECT_TRUE(profile->kernels[0].launchStartNs);

  for (uint64_t limit : {uint64_t(40), uint64_t(0), uint64_t(1) << 40}) {
    llvm::Expected<std::unique_ptr<Trace>> all =
        readTrace({file.bytes, "t.opcap"}, {.lastKernels = limit});
    ASSERT_TRUE(bool(all)) << llvm::toString(all.takeError());
    EXPECT_EQ((*all)->activities.size(), 40u);
    EXPECT_FALSE(hasNote((*all)->notes, "this is about"));
  }
}

TEST_F(CaptureTraceTest, RecordingTakesWhatItTookOfMostThatWereMeasured) {
  CaptureFileBuilder observed;
  observed.meta("recorder", "opprof observer");
  observed.meta("calling", "50");
  observed.add(ChunkType::Clocks, ClockRecord{1000, 1'000'000, 1000});
  auto run = [&](uint32_t name, uint32_t sizes, uint32_t recordingNs) {
    OperatorRecord op{};
    op.start = time;
    op.end = time += 1000;
    op.id = time;
    op.name = name;
    op.place = op.types = kNone;
    op.sizes = sizes;
    op.recordingNs = recordingNs;
    observed.add(ChunkType::Operators, op);
  };
  uint32_t sizes = observed.string("[[8]]"), add = observed.string("aten::add"),
           mul = observed.string("aten::mul"),
           empty = observed.string("aten::empty");
  // One was held up; of most nothing was measured.
  for (uint32_t took : {0, 300, 0, 310, 90'000, 0, 320, 310})
    run(add, sizes, took);
  run(mul, sizes, 0);
  run(add, kNone, 100);
  run(empty, kNone, 0);
  observed.end();
  llvm::Expected<std::unique_ptr<Trace>> read =
      readTrace({observed.bytes, "o.opcap"});
  ASSERT_TRUE(bool(read)) << llvm::toString(read.takeError());
  ASSERT_EQ((*read)->hostOps.size(), 11u);
  for (const HostOp &op : llvm::ArrayRef((*read)->hostOps).take_front(9))
    EXPECT_EQ(op.recordingNs, 360u);
  for (const HostOp &op : llvm::ArrayRef((*read)->hostOps).take_back(2))
    EXPECT_EQ(op.recordingNs, 150u);
}

TEST_F(CaptureTraceTest, AConvolutionHasTheValuesOfItsInputs) {
  file.meta("recorder", "opprof observer");
  file.meta(std::string(kNotingCallKey), "700");
  file.add(ChunkType::Clocks, ClockRecord{1000, 1'000'000, 1000});
  OperatorRecord op{};
  op.place = op.types = kNone;
  op.end = 500;
  op.scope = uint8_t(OperatorScope::Backward);
  op.name = file.string("aten::conv2d");
  op.sizes = file.string("[[2, 4, 8, 8], []]");
  file.add(ChunkType::Operators, op);
  op.values = file.string("[\"\", \"[2, 2]\"]") + 1;
  file.add(ChunkType::Operators, op);
  file.end();
  llvm::Expected<std::unique_ptr<Trace>> read =
      readTrace({file.bytes, "o.opcap"});
  ASSERT_TRUE(bool(read)) << llvm::toString(read.takeError());
  std::vector<llvm::StringRef> values;
  for (const HostOp &found : (*read)->hostOps) {
    EXPECT_TRUE(found.backward);
    values.push_back((*read)->operatorInputs[found.inputs].values);
  }
  // Files of before have none.
  EXPECT_EQ(values, (std::vector<llvm::StringRef>{"", "[\"\", \"[2, 2]\"]"}));
  EXPECT_EQ((*read)->recordingCallNs, 700);
}

TEST_F(CaptureTraceTest, TheLastKernelsHaveAllOfTheirOperators) {
  constexpr uint64_t kSecond = 1'000'000'000, kRealtime = kSecond << 30;
  // The observer's clock is another one than the capture's.
  constexpr uint64_t kAhead = 500 * kSecond;
  ClockRecord clock{};
  clock.cupti = 1000;
  clock.realtime = kRealtime;
  file.add(ChunkType::Clocks, clock);
  CaptureFileBuilder observed;
  observed.meta("recorder", "opprof observer");
  clock.cupti += kAhead;
  observed.add(ChunkType::Clocks, clock);
  OperatorRecord op{};
  op.name = observed.string("aten::mm");
  op.place = op.sizes = op.types = kNone;
  for (int number = 0; number < 40; ++number) {
    for (int nested = 0; nested < 3; ++nested) {
      op.start = time + kAhead;
      op.end = op.start + 1000;
      observed.add(ChunkType::Operators, op);
    }
    launch("k" + std::to_string(number), 0);
    time += kSecond;
  }
  file.end();
  observed.end();
  ReadOptions options;
  options.lastKernels = 5;
  options.operators = llvm::MemoryBufferRef(observed.bytes, "o.opcap");
  llvm::Expected<std::unique_ptr<Trace>> last =
      readTrace({file.bytes, "t.opcap"}, options);
  ASSERT_TRUE(bool(last)) << llvm::toString(last.takeError());
  ASSERT_EQ((*last)->activities.size(), 5u);
  // As far back as what else the host did: ten seconds more.
  size_t operators = llvm::count_if((*last)->hostOps, [](const HostOp &found) {
    return found.name == "aten::mm";
  });
  EXPECT_EQ(operators, 3u * 14u);
}

TEST_F(CaptureTraceTest, RangesOfTheProgramCanBeItsSteps) {
  uint32_t id = 0;
  auto marker = [&](uint32_t flags, const std::string &name) {
    MarkerRecord r{};
    r.time = time++;
    r.id = flags == 2 ? ++id : id;
    r.flags = flags;
    r.name = name.empty() ? kNone : file.string(name);
    r.thread = 1;
    file.add(ChunkType::Markers, r);
  };
  for (int number = 0; number < 3; ++number) {
    marker(2, "ProfilerStep#" + std::to_string(number));
    launch("gemm", 0);
    marker(4, "");
  }
  file.end();
  auto profile = attributed({});
  EXPECT_EQ(profile->summary.steps, 3u);
  EXPECT_EQ(profile->summary.stepsFrom, "profiler_step");
  EXPECT_EQ(profile->kernels[1].step, 1u);
  EXPECT_EQ(profile->kernels[1].origin->range, "");
}

TEST_F(CaptureTraceTest, AThreadWithoutRangesIsInThatOfTheOther) {
  auto marker = [&](uint32_t id, uint32_t flags, const std::string &name,
                    uint32_t thread) {
    MarkerRecord r{};
    r.time = time++;
    r.id = id;
    r.flags = flags;
    r.name = name.empty() ? kNone : file.string(name);
    r.thread = thread;
    file.add(ChunkType::Markers, r);
  };
  auto launchOn = [&](uint32_t thread) {
    api(launchCall, thread);
    kernel("gemm", 100);
  };
  // As in loss.backward(): the launches are autograd's thread's.
  marker(1, 2, "backward", 1);
  // Its collectives are in ranges of NCCL's own.
  marker(5, 2, "ncclAllReduce", 2);
  launchOn(2);
  marker(5, 4, "", 2);
  launchOn(2);
  marker(2, 2, "inner", 1);
  launchOn(2);
  marker(2, 4, "", 1);
  // A third thread loads data meanwhile: which of both it is cannot be told.
  marker(3, 2, "load", 3);
  launchOn(2);
  launchOn(3);
  marker(1, 4, "", 1);
  launchOn(2);
  marker(3, 4, "", 3);
  // One that marks ranges was in none.
  marker(4, 2, "again", 1);
  launchOn(3);
  file.end();
  auto profile = attributed({});
  std::string ranges;
  for (const Activity &kernel : profile->kernels)
    ranges += kernel.origin->range.str() + ",";
  EXPECT_EQ(ranges, "ncclAllReduce,backward,inner,,load,load,,");
}

TEST_F(CaptureTraceTest, WithoutAGraphThatIsSaidOnce) {
  launch("gemm", 0);
  launch("relu", 0);
  file.end();
  auto profile = attributed({});
  EXPECT_TRUE(hasNote(profile->notes, "no graph: kernels are not joined"));
  EXPECT_EQ(profile->notes.size(), 1u);
  EXPECT_EQ(profile->kernels[0].origin->explanation, "");
}

TEST_F(CaptureTraceTest, SeveralKernelsOfOneLineAreOneRun) {
  line(1, 10);
  launch("splitk_gemm", 1);
  launch("splitk_reduce", 1);
  file.end();
  auto profile = attributed(map({{10, "extern_kernels.mm"}}));
  EXPECT_EQ(show(*profile), "0:high 0:high ");
  EXPECT_EQ(profile->launches[0].runs, 1u);
}

TEST_F(CaptureTraceTest, AGeneratedKernelIsARunEach) {
  line(1, 10);
  for (int number = 0; number < 3; ++number)
    launch("triton_poi", 1);
  file.end();
  auto profile = attributed(map({{10, "triton_poi"}}));
  EXPECT_EQ(show(*profile), "0:high 0:high 0:high ");
  EXPECT_EQ(profile->launches[0].runs, 3u);
  EXPECT_EQ(profile->calls.size(), 3u);
}

TEST_F(CaptureTraceTest, ALineThatRunsTwiceInACallIsJoinedByOrder) {
  line(1, 10);
  line(2, 11);
  for (int number = 0; number < 2; ++number) {
    launch("triton_a", 1);
    launch("triton_b", 2);
  }
  file.end();
  // A function of the wrapper that is called twice: its lines come twice.
  auto profile = attributed(map({{10, "triton_a"},
                                 {11, "triton_b"},
                                 {10, "triton_a"},
                                 {11, "triton_b"}}));
  EXPECT_EQ(show(*profile), "0:medium 1:medium 2:medium 3:medium ");
  EXPECT_EQ(profile->calls.size(), 1u);
}

TEST_F(CaptureTraceTest, ReplaysCarryTheIdsOfTheirCapture) {
  line(1, 10);
  line(2, 11);
  // Node 101 is a clone of 1, which was captured under the id.
  file.add(ChunkType::GraphNodes, GraphNodeRecord{1, 0, 1, 0, 5});
  file.add(ChunkType::GraphNodes, GraphNodeRecord{2, 0, 2, 0, 5});
  file.add(ChunkType::GraphNodes, GraphNodeRecord{101, 1, 0, 0, 6});
  file.add(ChunkType::GraphNodes, GraphNodeRecord{102, 2, 0, 0, 6});
  file.add(ChunkType::GraphNodes, GraphNodeRecord{103, 0, 0, 0, 6});
  for (int number = 0; number < 2; ++number) {
    api(graphCall);
    kernel("gemm", 500, 101);
    kernel("triton_poi", 400, 102);
    kernel("copy", 100, 103);
  }
  file.end();
  auto profile =
      attributed(map({{10, "extern_kernels.mm"}, {11, "triton_poi"}}));
  EXPECT_EQ(show(*profile), "0:high 1:high -:unattributed 0:high 1:high "
                            "-:unattributed ");
  EXPECT_TRUE(profile->kernels[0].cudaGraph);
  EXPECT_EQ(profile->kernels[0].graphNode, 101u);
  EXPECT_NE(
      profile->kernels[0].origin->explanation.find("replay of a CUDA graph"),
      llvm::StringRef::npos);
  EXPECT_EQ(profile->kernels[2].origin->explanation,
            "its node of the CUDA graph was captured without an id");
  EXPECT_TRUE(hasNote(profile->notes, "2 of 6 kernels (200 ns) have no node: "
                                      "its node of the CUDA graph"));
  EXPECT_EQ(profile->launches[1].runs, 2u);
  EXPECT_EQ(profile->calls.size(), 2u);
  EXPECT_EQ(profile->summary.attributedNs[0], 1800);
}

TEST_F(CaptureTraceTest, NodesOfAnEagerRun) {
  name(1, R"({"node": "addmm_3"})");
  name(2, R"({"node": "relu", "graph": "net"})");
  launch("gemm", 1);
  launch("_ZN4mine4reluINS_3AddIfEEEEvPf", 2);
  file.end();
  PartitionMap partitions;
  partitions.graph = "net";
  partitions.stage = "export";
  MappedClass &only = partitions.classes.emplace_back();
  only.id = "c0";
  MappedPartition &first = only.partitions.emplace_back();
  first.label = "fc";
  first.isUnique = true;
  first.nodes = {{"net", "export", "addmm_3"}};
  auto profile = attributed({}, partitions);
  EXPECT_EQ(show(*profile), "-:high -:high ");
  EXPECT_EQ(profile->graph, "net");
  EXPECT_EQ(profile->stage, "export");
  ASSERT_EQ(profile->nodes.size(), 2u);
  EXPECT_EQ(profile->nodes[0].id.name, "addmm_3");
  EXPECT_EQ(profile->nodes[0].partition, "fc");
  EXPECT_EQ(profile->kernels[1].name,
            "void mine::relu<mine::Add<float> >(float*)");
  EXPECT_EQ(profile->kernels[1].origin->explanation,
            "launched under the id of node relu");
  EXPECT_EQ(profile->partitions[0].kernelTimeNs, 1000);
  EXPECT_TRUE(profile->notes.empty());
}

TEST_F(CaptureTraceTest, NodesThatALaunchMapLists) {
  name(1, R"({"node": "n1"})");
  launch("gemm", 1);
  file.end();
  auto profile = attributed(map({{0, "aten.t"}, {0, "aten.mm"}}));
  EXPECT_EQ(show(*profile), "1:high ");
}

TEST_F(CaptureTraceTest, WhatHasNoPlaceSaysWhy) {
  line(1, 99);
  line(2, 10, "/elsewhere/cxyz.py");
  name(3, "[]");
  launch("a", 1);
  launch("b", 2);
  launch("c", 3);
  launch("d", 4);
  launch("e", 0);
  file.end();
  auto profile = attributed(map({{10, "extern_kernels.mm"}}));
  EXPECT_EQ(show(*profile),
            "-:unattributed -:unattributed -:unattributed -:unattributed "
            "-:unattributed ");
  auto why = [&](size_t kernel) {
    return profile->kernels[kernel].origin->explanation.str();
  };
  EXPECT_NE(why(0).find("the launch map has no launch: /cache/cabc.py:99 "
                        "(model)"),
            std::string::npos)
      << why(0);
  EXPECT_NE(why(1).find("none of the launch maps is of: /elsewhere/cxyz.py:10"),
            std::string::npos)
      << why(1);
  EXPECT_NE(why(2).find("the id 3, and what the capture says"),
            std::string::npos);
  EXPECT_NE(why(3).find("the id 4, and the capture does not say"),
            std::string::npos);
  EXPECT_NE(why(4).find("outside of what carries an id"), std::string::npos);
  EXPECT_TRUE(hasNote(profile->notes, "1 ids stand for"));
  EXPECT_EQ(profile->summary.attributedNs[3], 5000);
}

TEST_F(CaptureTraceTest, AGraphsNameIsProofOnlyWithoutCodeToCheck) {
  // Inductor's name for another text than that of the launch map.
  std::string hashed = "c" + std::string(51, 'a');
  auto identity = [&](uint64_t id, const std::string &file) {
    name(id, "{\"file\": \"/x/" + file +
                 ".py\", \"line\": 10, \"graph\": \"model\"}");
  };
  identity(1, hashed);
  identity(2, "wrapper");
  launch("a", 1);
  launch("b", 2);
  file.end();
  auto profile = attributed(map({{10, "extern_kernels.mm"}}));
  EXPECT_EQ(show(*profile), "-:unattributed 0:high ");
}

TEST_F(CaptureTraceTest, RangesAreNamedAndNested) {
  auto range = [&](uint32_t id, const std::string &name, bool begin) {
    MarkerRecord r{};
    r.time = time;
    r.id = id;
    r.flags = begin ? 2 : 4;
    r.thread = 1;
    r.name = begin ? file.string(name) : kNone;
    file.add(ChunkType::Markers, r);
    time += 1;
  };
  file.meta("pid", "0");
  range(1, "outer", true);
  range(2, "layer::unique::h.0", true);
  launch("a", 0);
  range(2, "", false);
  launch("b", 0);
  range(1, "", false);
  launch("c", 0);
  range(3, "open", true);
  launch("d", 0);
  file.end();
  auto profile = attributed({});
  EXPECT_EQ(profile->kernels[0].origin->range, "layer::unique::h.0");
  EXPECT_EQ(profile->kernels[1].origin->range, "outer");
  EXPECT_EQ(profile->kernels[2].origin->range, "");
  EXPECT_EQ(profile->kernels[3].origin->range, "open");
  EXPECT_TRUE(hasNote(profile->notes, "1 range has no end"));
}

TEST_F(CaptureTraceTest, MemoryCopiesWaitsAndOverheads) {
  auto memory = [&](uint64_t address, uint64_t bytes, bool allocate,
                    uint32_t kind = 3) {
    MemoryRecord r{};
    r.time = time++;
    r.address = address;
    r.bytes = bytes;
    r.operation = allocate ? 1 : 2;
    r.kind = kind;
    file.add(ChunkType::Memory, r);
  };
  memory(0x1000, 100, true);
  memory(0x2000, 300, true);
  memory(0x9000, 5000, true, /*kind=*/2);
  memory(0x1000, 100, false);
  memory(0x3000, 50, true);
  memory(~uint64_t(0), 7, true);
  memory(0x7777, 1, false);
  MemcpyRecord copy{};
  copy.start = time;
  copy.end = time + 70;
  copy.bytes = 4096;
  copy.copyKind = 1;
  copy.sourceKind = 1;
  copy.destinationKind = 3;
  copy.correlation = 77;
  file.add(ChunkType::Memcpys, copy);
  SyncRecord wait{};
  wait.start = time;
  wait.end = time + 900;
  wait.type = 4;
  wait.correlation = 78;
  file.add(ChunkType::Syncs, wait);
  file.add(ChunkType::Overheads,
           OverheadRecord{time, time + 40, 7u << 16, 1, 0, 0});
  file.end();
  auto profile = attributed({});
  ASSERT_EQ(profile->memory.size(), 1u);
  EXPECT_EQ(profile->memory[0].peakBytes, 400u);
  EXPECT_EQ(profile->memory[0].allocations, 4u);
  EXPECT_EQ(profile->memory[0].releases, 2u);
  EXPECT_EQ(profile->memory[0].allocatedBytes, 457u);
  ASSERT_EQ(profile->copies.size(), 1u);
  EXPECT_EQ(profile->copies[0].name, "Memcpy HtoD (Pageable -> Device)");
  EXPECT_EQ(profile->copies[0].bytes, 4096u);
  ASSERT_EQ(profile->synchronizations.size(), 1u);
  EXPECT_EQ(profile->synchronizations[0].name, "cuCtxSynchronize");
  EXPECT_EQ(profile->synchronizations[0].durationNs, 900);
  ASSERT_EQ(profile->overheads.size(), 1u);
  EXPECT_EQ(profile->overheads[0].kind, "activity buffer request");
}

TEST_F(CaptureTraceTest, NamesOfCallsMayFollowThem) {
  launch("a", 0);
  api(412);
  file.add(ChunkType::ApiNames,
           ApiNameRecord{1, 412, file.string("cudaDeviceSynchronize"), 0});
  file.end();
  auto profile = attributed({});
  ASSERT_EQ(profile->synchronizations.size(), 1u);
  EXPECT_EQ(profile->synchronizations[0].name, "cudaDeviceSynchronize");
}

TEST_F(CaptureTraceTest, RankProcessAndClock) {
  file.meta("pid", "4711");
  file.meta("rank", "3");
  file.meta("world_size", "8");
  file.meta("host", "node7");
  file.add(ChunkType::Clocks, ClockRecord{1000, 5000, 1});
  file.add(ChunkType::Clocks, ClockRecord{2000, 9000, 1});
  launch("a", 0);
  file.end();
  auto profile = attributed({});
  const Source &source = profile->sources[0];
  EXPECT_EQ(source.rank, 3);
  EXPECT_EQ(source.worldSize, 8);
  EXPECT_EQ(source.processId, 4711);
  EXPECT_EQ(source.host, "node7");
  EXPECT_EQ(source.baseTimeNs, 4000);
  EXPECT_EQ(profile->kernels[0].origin->rank, 3);
}

TEST_F(CaptureTraceTest, AKilledProgramsFileIsReadToItsLastWholeChunk) {
  line(1, 10);
  step(0, true);
  launch("gemm", 1);
  step(0, false);
  step(1, true);
  launch("gemm", 1);
  size_t whole = file.bytes.size();
  launch("gemm", 1);
  file.bytes.resize(whole + 40);
  auto profile = attributed(map({{10, "extern_kernels.mm"}}));
  EXPECT_EQ(show(*profile), "0:high 0:high ");
  EXPECT_TRUE(hasNote(profile->notes, "was not ended by its program"));
  EXPECT_TRUE(hasNote(profile->notes, "the last 40 bytes"));
  EXPECT_TRUE(hasNote(profile->notes, "step 1 was begun and not ended"));
  EXPECT_EQ(profile->summary.steps, 1u);
  EXPECT_FALSE(profile->kernels[1].step);
}

TEST_F(CaptureTraceTest, LostRecordsAndMissingEndsAreSaid) {
  file.add(ChunkType::Losses, LossRecord{12, 1, 0});
  KernelRecord kernel{};
  kernel.start = 5000;
  kernel.name = file.string("k");
  file.add(ChunkType::Kernels, kernel);
  file.end();
  auto profile = attributed({});
  EXPECT_EQ(profile->kernels[0].durationNs, 0);
  EXPECT_TRUE(hasNote(profile->notes, "12 records were lost"));
  EXPECT_TRUE(hasNote(profile->notes, "1 events have no end"));
}

TEST_F(CaptureTraceTest, RefusesTimesThatNoClockShows) {
  KernelRecord kernel{};
  kernel.start = 5;
  kernel.end = ~uint64_t(0);
  file.add(ChunkType::Kernels, kernel);
  file.end();
  auto trace = readTrace({file.bytes, "t.opcap"});
  ASSERT_FALSE(bool(trace));
  std::string message = llvm::toString(trace.takeError());
  EXPECT_NE(message.find("t.opcap: a kernel is at 18446744073709551615 ns"),
            std::string::npos)
      << message;
}

TEST_F(CaptureTraceTest, TheProfileIsReadBackAsItWas) {
  name(1, R"({"node": "mm"})");
  step(0, true);
  launch("gemm", 1);
  step(0, false);
  file.meta("rank", "1");
  file.end();
  auto profile = attributed({});
  CounterRow row;
  row.values = {{"time_ns", 1000}, {"ipc", 0.125}};
  row.absent = {{"l1_hit_pct", "was not collected"}};
  profile->counters.push_back(row);
  profile->kernels[0].counters = 0;
  profile->changeOrigin(profile->kernels[0], [&](Origin &origin) {
    origin.countersFrom = "launch 3 of model";
  });
  profile->nodes[0].metricsAbsent = {{"dram_read_bytes", "why"}};
  profile->memory.push_back({0, 1, 2, 3, 4, 5});
  auto print = [](const Profile &profile) {
    std::string text;
    llvm::raw_string_ostream os(text);
    writeProfile(profile, os);
    return text;
  };
  std::string text = print(*profile);
  auto again = readProfile(text, "p.json");
  ASSERT_TRUE(bool(again)) << llvm::toString(again.takeError());
  EXPECT_EQ(print(**again), text);
  EXPECT_NE(text.find("\"metrics_from\": \"launch 3 of model\""),
            std::string::npos);
}

TEST_F(CaptureTraceTest, EveryCutAndFlipEndsInAProfileOrAnError) {
  line(1, 10);
  step(0, true);
  launch("gemm", 1);
  step(0, false);
  file.end();
  std::string whole = file.bytes;
  std::vector<launch::LaunchMap> maps = {map({{10, "extern_kernels.mm"}})};
  AttributionInputs inputs;
  inputs.maps = maps;
  auto tryIt = [&](const std::string &bytes) {
    auto trace = readTrace({bytes, "t.opcap"});
    if (!trace) {
      EXPECT_NE(llvm::toString(trace.takeError()).find("t.opcap"),
                std::string::npos);
      return;
    }
    EXPECT_EQ(attribute(**trace, inputs)->kernels.size(),
              (*trace)->activities.size());
  };
  for (size_t size = 0; size < whole.size(); ++size)
    tryIt(whole.substr(0, size));
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    std::string damaged = whole;
    damaged[random() % damaged.size()] = char(random());
    tryIt(damaged);
  }
}

//===----------------------------------------------------------------------===//
// WrapperFiles
//===----------------------------------------------------------------------===//

TEST(WrapperFilesTest, NamesFilesAsInductorDoes) {
  // What torch._inductor.codecache.get_hash("import torch") returns.
  std::string name = "cz4ihbu5bn4slemgyg53ukkvjmjincfieyza7j24hrtaq6nd5dl5";
  EXPECT_EQ(inductorCacheName("import torch"), name);
  EXPECT_EQ(inductorCacheName("\n import torch\n\n"), name);
}

TEST(WrapperFilesTest, FindsByPathNameAndText) {
  WrapperFiles files;
  files.add(0, "/run/a/output_code.py", "import torch\n");
  files.add(1, "/run/b/output_code.py", "import os\n");
  EXPECT_EQ(files.find("/run/b/output_code.py"), 1u);
  EXPECT_EQ(files.find("/tmp/gone/"
                       "cz4ihbu5bn4slemgyg53ukkvjmjincfieyza7j24hrtaq6nd5dl5."
                       "py"),
            0u);
  EXPECT_EQ(files.find("/nowhere/x.py"), std::nullopt);
  EXPECT_EQ(files.find("/dev/zero"), std::nullopt);

  llvm::SmallString<128> path;
  int descriptor = -1;
  ASSERT_FALSE(
      llvm::sys::fs::createTemporaryFile("wrapper", "py", descriptor, path));
  {
    llvm::raw_fd_ostream os(descriptor, /*shouldClose=*/true);
    os << "import os\n";
  }
  EXPECT_EQ(files.find(path), 1u);
  llvm::sys::fs::remove(path);
}

} // namespace
