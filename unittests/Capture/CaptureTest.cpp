// The capture library against a CUPTI without a GPU. Buffers, file, threads,
// fork, kill -9, identity, counters: everything on the host's side, through the
// library's C ABI.

#include "opprof/Capture/Capture.h"
#include "opprof/Capture/CaptureJoins.h"
#include "opprof/Capture/CaptureReader.h"

#include "gtest/gtest.h"

#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace opprof::capture;

namespace {
struct FakeProgram {
  FakeProgram() {
    setenv("OPPROF_CUPTI_LIBRARY", OPPROF_FAKE_CUPTI, 1);
    setenv("OPPROF_CUDA_LIBRARY", OPPROF_FAKE_CUPTI, 1);
    void *handle = dlopen(OPPROF_FAKE_CUPTI, RTLD_NOW);
    auto find = [&](const char *name) { return dlsym(handle, name); };
    Launch = reinterpret_cast<decltype(Launch)>(find("fake_launch"));
    Graph = reinterpret_cast<decltype(Graph)>(find("fake_graph"));
    GraphLaunch =
        reinterpret_cast<decltype(GraphLaunch)>(find("fake_graph_launch"));
    Replay = reinterpret_cast<decltype(Replay)>(find("fake_graph_replay"));
    Nvtx = reinterpret_cast<decltype(Nvtx)>(find("fake_nvtx"));
    Copy = reinterpret_cast<decltype(Copy)>(find("fake_copy"));
    Others = reinterpret_cast<decltype(Others)>(find("fake_others"));
    Foreign = reinterpret_cast<decltype(Foreign)>(find("fake_foreign_buffer"));
    Profiling = reinterpret_cast<decltype(Profiling)>(find("fake_profiling"));
  }
  void (*Launch)(const char *, uint32_t, uint32_t);
  uint64_t (*Graph)();
  void (*GraphLaunch)(const char *, uint64_t);
  void (*Replay)(const char *const *, const uint64_t *, size_t);
  void *(*Nvtx)();
  void (*Copy)(uint64_t);
  void (*Others)();
  int (*Profiling)();
  void (*Foreign)();
};

} // namespace

static FakeProgram &program() {
  static FakeProgram instance;
  return instance;
}

namespace {
/// Everything a file holds.
struct Everything : CaptureVisitor {
  explicit Everything(CaptureReader &reader) : Reader(reader) {}
  void meta(std::string_view k, std::string_view v) override {
    Meta[std::string(k)] = std::string(v);
  }
  void kernel(const KernelRecord &r) override {
    Kernels.push_back(r);
    Names.emplace_back(Reader.string(r.name));
  }
  void memcpy(const MemcpyRecord &r) override { Copies.push_back(r); }
  void memset(const MemsetRecord &) override { ++Memsets; }
  void sync(const SyncRecord &) override { ++Syncs; }
  void api(const ApiRecord &r) override { Apis.push_back(r); }
  void apiName(const ApiNameRecord &r) override {
    ApiNames.emplace_back(Reader.string(r.name));
  }
  void overhead(const OverheadRecord &) override { ++Overheads; }
  void externalId(const ExternalIdRecord &r) override {
    Ids[r.correlation] = r.id;
  }
  void marker(const MarkerRecord &r) override { Markers.push_back(r); }
  void memory(const MemoryRecord &r) override { Memory.push_back(r); }
  void graphNode(const GraphNodeRecord &r) override { Nodes.push_back(r); }
  void device(const DeviceRecord &r) override {
    Device = std::string(Reader.string(r.name));
    SmCount = r.smCount;
  }
  void mark(const MarkRecord &r) override { Marks.push_back(r); }
  void idName(const IdNameRecord &r) override {
    IdNames[r.id] = std::string(Reader.string(r.name));
  }
  void loss(const LossRecord &r) override { Lost[r.reason] += r.count; }
  void counterSet(const CounterSetHeader &s,
                  const std::vector<uint32_t> &m) override {
    Passes = s.passes;
    for (uint32_t name : m)
      Metrics.emplace_back(Reader.string(name));
  }
  void counters(const CounterRowHeader &r,
                const std::vector<double> &v) override {
    Rows.push_back(r);
    Values.push_back(v);
  }

  CaptureReader &Reader;
  std::map<std::string, std::string> Meta;
  std::vector<KernelRecord> Kernels;
  std::vector<std::string> Names, ApiNames, Metrics;
  std::vector<MemcpyRecord> Copies;
  std::vector<ApiRecord> Apis;
  std::map<uint32_t, uint64_t> Ids, Lost;
  std::map<uint64_t, std::string> IdNames;
  std::vector<MarkerRecord> Markers;
  std::vector<MemoryRecord> Memory;
  std::vector<GraphNodeRecord> Nodes;
  std::vector<MarkRecord> Marks;
  std::vector<CounterRowHeader> Rows;
  std::vector<std::vector<double>> Values;
  std::string Device;
  uint32_t SmCount = 0, Passes = 0;
  int Memsets = 0, Syncs = 0, Overheads = 0;
};

class CaptureTest : public ::testing::Test {
protected:
  void SetUp() override {
    program();
    Path = (std::filesystem::temp_directory_path() /
            ("opprof-capture-" + std::to_string(getpid()) + "-" +
             ::testing::UnitTest::GetInstance()->current_test_info()->name() +
             ".opcap"))
               .string();
  }
  void TearDown() override {
    if (opprof_capture_active())
      opprof_capture_stop(nullptr);
    std::filesystem::remove(Path);
    for (const char *name :
         {"FAKE_CUPTI_DENY", "FAKE_CUPTI_BUSY", "FAKE_CUPTI_CONFIDENTIAL",
          "FAKE_CUDA_NO_CONTEXT", "FAKE_CUPTI_NO_MARKERS", "FAKE_CUDA_STARTING",
          "FAKE_CUDA_INIT_ERROR", "FAKE_CUPTI_ENABLE_ERROR"})
      unsetenv(name);
  }

  opprof_capture_options options() {
    opprof_capture_options o{};
    o.size = sizeof(o);
    o.path = Path.c_str();
    o.buffer_bytes = 64 << 10;
    o.flush_ms = 20;
    return o;
  }
  void start() {
    opprof_capture_options o = options();
    ASSERT_EQ(opprof_capture_start(&o), OPPROF_OK)
        << opprof_capture_last_error();
  }
  Everything &read() {
    Reader = std::make_unique<CaptureReader>();
    Read = std::make_unique<Everything>(*Reader);
    EXPECT_TRUE(Reader->read(Path, *Read)) << Reader->error();
    return *Read;
  }

  std::string Path;
  std::unique_ptr<CaptureReader> Reader;
  std::unique_ptr<Everything> Read;
};

TEST_F(CaptureTest, KeepsEveryKernelOfManyThreads) {
  start();
  constexpr int kThreads = 8, kLaunches = 5000;
  // CUPTI's names live as long as their module, so these outlive the threads.
  std::vector<std::string> names;
  for (int t = 0; t < kThreads; ++t)
    names.push_back("kernel_" + std::to_string(t));
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([t, &name = names[size_t(t)]] {
      for (int i = 0; i < kLaunches; ++i) {
        opprof_capture_push_id(uint64_t(t) << 32 | uint64_t(i + 1));
        program().Launch(name.c_str(), uint32_t(i + 1), 128);
        opprof_capture_pop_id();
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  opprof_capture_stats stats{};
  ASSERT_EQ(opprof_capture_stop(&stats), OPPROF_OK);
  EXPECT_EQ(stats.lost, 0u);

  Everything &all = read();
  ASSERT_EQ(all.Kernels.size(), size_t(kThreads) * kLaunches);
  EXPECT_EQ(all.Ids.size(), all.Kernels.size());
  for (size_t i = 0; i < all.Kernels.size(); ++i) {
    uint64_t id = all.Ids.at(all.Kernels[i].correlation);
    EXPECT_EQ(all.Names[i], "kernel_" + std::to_string(id >> 32));
    EXPECT_EQ(uint64_t(all.Kernels[i].grid[0]), id & 0xffffffff);
    EXPECT_EQ(all.Kernels[i].end - all.Kernels[i].start, 1234u);
  }
  EXPECT_EQ(all.Apis.size(), all.Kernels.size());
  // Only calls that put work on the device.
  ASSERT_EQ(all.ApiNames.size(), 1u);
  EXPECT_EQ(all.ApiNames[0], "cuLaunchKernel");
  EXPECT_TRUE(Reader->summary().complete);
  EXPECT_EQ(all.Device, "Fake H200");
  EXPECT_EQ(all.SmCount, 132u);
}

TEST_F(CaptureTest, SaysWhatNotingACallTakes) {
  start();
  program().Launch("kernel", 1, 128);
  ASSERT_EQ(opprof_capture_stop(nullptr), OPPROF_OK);
  Everything &all = read();
  // The fake takes half a microsecond at either end of a call.
  const std::string key(kNotingCallKey);
  ASSERT_EQ(all.Meta.count(key), 1u);
  EXPECT_GE(std::stoull(all.Meta[key]), 1000u);
  EXPECT_LT(std::stoull(all.Meta[key]), 100'000u);
  // The calls that it was measured by are nobody's.
  EXPECT_EQ(all.Apis.size(), 1u);
}

TEST_F(CaptureTest, KeepsCallsOfAThreadsLastDestructors) {
  start();
  struct LaunchesAtTheEnd {
    ~LaunchesAtTheEnd() { program().Launch("last", 1, 1); }
  };
  std::thread([] {
    // Made before what the library keeps of the thread, so it ends after that.
    static thread_local LaunchesAtTheEnd guard;
    (void)guard;
    program().Launch("first", 1, 1);
  }).join();
  ASSERT_EQ(opprof_capture_stop(nullptr), OPPROF_OK);
  Everything &all = read();
  EXPECT_EQ(all.Kernels.size(), 2u);
  EXPECT_EQ(all.Apis.size(), 2u);
}

TEST_F(CaptureTest, KeepsEveryKindOfRecordAndCountsUnknownOnes) {
  opprof_capture_options o = options();
  o.kinds = OPPROF_DEFAULT_KINDS | OPPROF_SYNCS | OPPROF_MEMORY;
  ASSERT_EQ(opprof_capture_start(&o), OPPROF_OK);
  program().Others();
  ASSERT_EQ(opprof_capture_mark(1, 3, nullptr), OPPROF_OK);
  ASSERT_EQ(opprof_capture_mark(2, 3, "step"), OPPROF_OK);
  ASSERT_EQ(opprof_capture_name_id(9, "{\"node\": \"addmm\"}"), OPPROF_OK);
  opprof_capture_stats stats{};
  ASSERT_EQ(opprof_capture_stop(&stats), OPPROF_OK);
  Everything &all = read();
  ASSERT_EQ(all.Copies.size(), 1u);
  EXPECT_EQ(all.Copies[0].bytes, 4096u);
  EXPECT_EQ(all.Memsets, 1);
  EXPECT_EQ(all.Syncs, 1);
  EXPECT_EQ(all.Overheads, 1);
  ASSERT_EQ(all.Markers.size(), 2u);
  EXPECT_EQ(Reader->string(all.Markers[0].name), "layer::unique::h.0");
  EXPECT_EQ(all.Markers[1].flags, 4u);
  ASSERT_EQ(all.Memory.size(), 1u);
  EXPECT_EQ(all.Memory[0].bytes, 1000u);
  EXPECT_EQ(all.Lost[3], 1u);
  EXPECT_EQ(stats.lost, 1u);
  ASSERT_EQ(all.Marks.size(), 2u);
  EXPECT_EQ(all.Marks[0].kind, 1u);
  EXPECT_EQ(all.Marks[1].value, 3u);
  EXPECT_EQ(all.IdNames[9], "{\"node\": \"addmm\"}");
}

TEST_F(CaptureTest, SaysWhatTheToolkitWillNotRecord) {
  setenv("FAKE_CUPTI_NO_MARKERS", "1", 1);
  start();
  program().Launch("k", 1, 1);
  ASSERT_EQ(opprof_capture_stop(nullptr), OPPROF_OK);
  Everything &all = read();
  EXPECT_EQ(all.Kernels.size(), 1u);
  EXPECT_NE(all.Meta["not recorded"].find("activity kind 12"),
            std::string::npos);
}

TEST_F(CaptureTest, ACallOfTheRuntimeIsTheDriversCall) {
  start();
  ASSERT_EQ(opprof_capture_push_id(77), OPPROF_OK);
  program().Copy(4096);
  ASSERT_EQ(opprof_capture_pop_id(), OPPROF_OK);
  program().Copy(64);
  ASSERT_EQ(opprof_capture_stop(nullptr), OPPROF_OK);
  Everything &all = read();
  ASSERT_EQ(all.Copies.size(), 2u);
  EXPECT_EQ(all.ApiNames, std::vector<std::string>{"cuMemcpyHtoDAsync"});
  ASSERT_EQ(all.Apis.size(), 2u);
  EXPECT_EQ(all.Apis[0].correlation, all.Copies[0].correlation);
  EXPECT_LE(all.Apis[0].start, all.Apis[0].end);
  ASSERT_EQ(all.Ids.size(), 1u);
  EXPECT_EQ(all.Ids.at(all.Copies[0].correlation), 77u);
}

TEST_F(CaptureTest, EveryCallWhereItIsAskedFor) {
  opprof_capture_options o = options();
  o.kinds = OPPROF_DEFAULT_KINDS | OPPROF_ALL_API;
  ASSERT_EQ(opprof_capture_start(&o), OPPROF_OK);
  ASSERT_EQ(opprof_capture_push_id(5), OPPROF_OK);
  program().Launch("k", 1, 1);
  ASSERT_EQ(opprof_capture_pop_id(), OPPROF_OK);
  ASSERT_EQ(opprof_capture_stop(nullptr), OPPROF_OK);
  Everything &all = read();
  EXPECT_EQ(all.ApiNames,
            (std::vector<std::string>{"cudaGetDevice", "cudaLaunchKernel"}));
  EXPECT_EQ(all.Apis.size(), 2u);
  EXPECT_EQ(all.Ids.at(all.Kernels.at(0).correlation), 5u);
}

TEST_F(CaptureTest, PausesAndResumes) {
  opprof_capture_options o = options();
  o.paused = 1;
  ASSERT_EQ(opprof_capture_start(&o), OPPROF_OK);
  program().Launch("before", 1, 1);
  ASSERT_EQ(opprof_capture_resume(), OPPROF_OK);
  program().Launch("during", 1, 1);
  ASSERT_EQ(opprof_capture_pause(), OPPROF_OK);
  program().Launch("after", 1, 1);
  ASSERT_EQ(opprof_capture_stop(nullptr), OPPROF_OK);
  EXPECT_EQ(read().Names, std::vector<std::string>{"during"});
}

TEST_F(CaptureTest, CountsWhatDoesNotFitIntoThePool) {
  opprof_capture_options o = options();
  // One buffer for CUPTI and the rest held back by the pool's limit.
  o.kinds = OPPROF_KERNELS;
  o.pool_bytes = 1;
  ASSERT_EQ(opprof_capture_start(&o), OPPROF_OK);
  constexpr uint64_t kLaunches = 20000;
  for (uint64_t i = 0; i < kLaunches; ++i)
    program().Launch("k", 1, 1);
  opprof_capture_stats stats{};
  ASSERT_EQ(opprof_capture_stop(&stats), OPPROF_OK);
  Everything &all = read();
  EXPECT_EQ(all.Kernels.size() + stats.lost, kLaunches);
  EXPECT_EQ(all.Lost[1], stats.lost);
}

TEST_F(CaptureTest, MemoryStaysFlatInALongRun) {
  start();
  opprof_capture_stats stats{};
  for (int i = 0; i < 200000; ++i) {
    program().Launch("k", 1, 1);
    if (i % 1000 == 0) {
      ASSERT_EQ(opprof_capture_flush(), OPPROF_OK);
    }
  }
  ASSERT_EQ(opprof_capture_stop(&stats), OPPROF_OK);
  EXPECT_EQ(stats.lost, 0u);
  // 200 000 kernels are 48 MB of records; buffers for a thousand suffice.
  EXPECT_LT(stats.buffer_peak_bytes, 8u << 20);
}

/// The program that FileOfAKilledProgramIsRead starts and kills. It has a
/// process of its own, as a fork of one that captured may not capture.
TEST_F(CaptureTest, DISABLED_ProgramThatWaitsToBeKilled) {
  Path = std::getenv("OPPROF_TEST_FILE");
  start();
  for (int i = 0; i < 1000; ++i)
    program().Launch("k", 1, 1);
  // Longer than the flush period: what came before must be in the file.
  usleep(300000);
  for (int i = 0; i < 10; ++i)
    program().Launch("late", 1, 1);
  kill(getpid(), SIGKILL);
}

TEST_F(CaptureTest, FileOfAKilledProgramIsRead) {
  setenv("OPPROF_TEST_FILE", Path.c_str(), 1);
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    execl("/proc/self/exe", "CaptureTest", "--gtest_also_run_disabled_tests",
          "--gtest_filter=CaptureTest.DISABLED_ProgramThatWaitsToBeKilled",
          nullptr);
    _exit(1);
  }
  int status;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  Everything &all = read();
  EXPECT_GE(all.Kernels.size(), 1000u);
  EXPECT_FALSE(Reader->summary().complete);
}

TEST_F(CaptureTest, ForkLeavesTheParentsFileAlone) {
  start();
  program().Launch("parent", 1, 1);
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    bool good = !opprof_capture_active() &&
                opprof_capture_stop(nullptr) == OPPROF_FORKED;
    opprof_capture_options o = options();
    good = good && opprof_capture_start(&o) == OPPROF_FORKED;
    _exit(good ? 0 : 1);
  }
  int status;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  program().Launch("parent", 1, 1);
  ASSERT_EQ(opprof_capture_stop(nullptr), OPPROF_OK);
  EXPECT_EQ(read().Kernels.size(), 2u);
}

TEST_F(CaptureTest, OneCaptureAtATime) {
  start();
  opprof_capture_options o = options();
  EXPECT_EQ(opprof_capture_start(&o), OPPROF_BUSY);
  EXPECT_NE(std::string(opprof_capture_last_error()).find("already running"),
            std::string::npos);
  ASSERT_EQ(opprof_capture_stop(nullptr), OPPROF_OK);
  EXPECT_EQ(opprof_capture_stop(nullptr), OPPROF_INVALID);
  // A second capture of the same process is as good as the first.
  start();
  program().Launch("k", 1, 1);
  ASSERT_EQ(opprof_capture_stop(nullptr), OPPROF_OK);
  EXPECT_EQ(read().Kernels.size(), 1u);
}

TEST_F(CaptureTest, SaysWhichFileCannotBeWritten) {
  opprof_capture_options o = options();
  o.path = "/no/such/folder/capture.opcap";
  EXPECT_EQ(opprof_capture_start(&o), OPPROF_IO);
  EXPECT_NE(std::string(opprof_capture_last_error())
                .find("/no/such/folder/capture.opcap"),
            std::string::npos);
}

TEST_F(CaptureTest, AsksADriverThatIsStillStartingAgain) {
  // As in an injected program, whose driver loads this library while it starts.
  setenv("FAKE_CUDA_STARTING", "1", 1);
  start();
  program().Launch("gemm", 1, 1);
  opprof_capture_stop(nullptr);
  EXPECT_EQ(read().Device, "Fake H200");
  EXPECT_EQ(read().SmCount, 132u);
}

TEST_F(CaptureTest, HandsNvtxToCupti) {
  int table = 0;
  EXPECT_EQ(InitializeInjectionNvtx2(&table), 1);
  EXPECT_EQ(program().Nvtx(), &table);
}

TEST_F(CaptureTest, SaysWhyTheDriverDoesNotStart) {
  char text[2048];
  auto info = [&](int error) {
    setenv("FAKE_CUDA_INIT_ERROR", std::to_string(error).c_str(), 1);
    opprof_capture_info(text, sizeof(text));
    return std::string(text);
  };
  EXPECT_NE(info(100).find("MIG mode needs an instance"), std::string::npos);
  EXPECT_NE(info(802).find("nvidia-fabricmanager"), std::string::npos);
  EXPECT_NE(info(803).find("reboot"), std::string::npos);
  EXPECT_NE(info(804).find("update the driver"), std::string::npos);
  EXPECT_NE(info(805).find("nvidia-cuda-mps-control"), std::string::npos);
  EXPECT_NE(info(999).find("CUDA error 999"), std::string::npos);
  EXPECT_EQ(info(0).find("no_driver"), std::string::npos);
}

TEST_F(CaptureTest, ATimerThatWakesAfterTheEndTurnsNothingOn) {
  opprof_capture_options o = options();
  o.paused = 1;
  ASSERT_EQ(opprof_capture_start(&o), OPPROF_OK);
  std::atomic<bool> go{false};
  std::thread timer([&] {
    while (!go)
      std::this_thread::yield();
    for (int i = 0; i < 1000; ++i) {
      opprof_capture_resume();
      opprof_capture_pause();
    }
  });
  go = true;
  opprof_capture_stop(nullptr);
  timer.join();
  EXPECT_EQ(opprof_capture_resume(), OPPROF_INVALID);
  read();
}

TEST_F(CaptureTest, GraphReplaysCarryTheIdOfTheirCapture) {
  start();
  opprof_capture_push_id(77);
  uint64_t node = program().Graph();
  opprof_capture_pop_id();
  opprof_capture_name_id(77, "wrapper line 12");
  for (int i = 0; i < 3; ++i)
    program().GraphLaunch("in_graph", node);
  ASSERT_EQ(opprof_capture_stop(nullptr), OPPROF_OK);
  Everything &all = read();
  ASSERT_EQ(all.Nodes.size(), 2u);
  EXPECT_EQ(all.Nodes[0].externalId, 77u);
  EXPECT_EQ(all.Nodes[1].original, all.Nodes[0].node);
  EXPECT_EQ(all.Nodes[1].node, node);

  CaptureReader reader;
  CaptureJoins joins(reader);
  ASSERT_TRUE(reader.read(Path, joins)) << reader.error();
  for (const KernelRecord &kernel : all.Kernels)
    EXPECT_EQ(joins.idOf(kernel.correlation, kernel.graphNode), 77u);
  ASSERT_TRUE(joins.nameOfId(77));
  EXPECT_EQ(*joins.nameOfId(77), "wrapper line 12");
}

TEST_F(CaptureTest, AtIdReplacesTheIdBefore) {
  start();
  opprof_capture_at_id(5);
  program().Launch("a", 1, 1);
  opprof_capture_at_id(6);
  program().Launch("b", 1, 1);
  opprof_capture_at_id(0);
  program().Launch("c", 1, 1);
  ASSERT_EQ(opprof_capture_stop(nullptr), OPPROF_OK);
  Everything &all = read();
  ASSERT_EQ(all.Kernels.size(), 3u);
  EXPECT_EQ(all.Ids.at(all.Kernels[0].correlation), 5u);
  EXPECT_EQ(all.Ids.at(all.Kernels[1].correlation), 6u);
  EXPECT_EQ(all.Ids.count(all.Kernels[2].correlation), 0u);
  EXPECT_EQ(opprof_capture_pop_id(), OPPROF_INVALID);
}

TEST_F(CaptureTest, WhatWasSetLastIsTheIdOfALaunch) {
  std::vector<uint64_t> ids;
  auto launch = [&] {
    size_t count = 0;
    ASSERT_EQ(opprof_launches_begin(), OPPROF_OK);
    program().Launch("a", 1, 1);
    ASSERT_EQ(opprof_launches_end(&count), OPPROF_OK);
    opprof_launch got;
    ASSERT_EQ(opprof_launches_get(0, &got), OPPROF_OK);
    ids.push_back(got.external_id);
  };
  opprof_capture_push_id(5);
  opprof_capture_at_id(1); // a line inside of what was pushed
  launch();
  opprof_capture_push_id(6); // and something pushed inside of the line
  launch();
  opprof_capture_at_id(2); // which runs further lines
  launch();
  opprof_capture_at_id(0);
  launch();
  EXPECT_EQ(opprof_capture_pop_id(), OPPROF_OK);
  launch();
  EXPECT_EQ(opprof_capture_pop_id(), OPPROF_OK);
  launch();
  opprof_capture_at_id(3);
  launch();
  opprof_capture_at_id(0);
  EXPECT_EQ(ids, (std::vector<uint64_t>{1, 6, 2, 6, 5, 0, 3}));
}

//===----------------------------------------------------------------------===//
// Counters
//===----------------------------------------------------------------------===//

} // namespace

static void launchStep(int extra = 0) {
  program().Launch("gemm", 10, 128);
  program().Launch("relu", 20, 256);
  program().Launch("gemm", 10, 128);
  for (int i = 0; i < extra; ++i)
    program().Launch("more", 1, 1);
}

namespace {
class CountersTest : public CaptureTest {
protected:
  void record(int extra = 0) {
    ASSERT_EQ(opprof_launches_begin(), OPPROF_OK)
        << opprof_capture_last_error();
    launchStep(extra);
    size_t count = 0;
    ASSERT_EQ(opprof_launches_end(&count), OPPROF_OK);
    ASSERT_EQ(count, size_t(3 + extra));
  }
  int open(std::vector<const char *> metrics) {
    Metrics = std::move(metrics);
    Options.size = sizeof(Options);
    Options.metrics = Metrics.data();
    Options.metric_count = Metrics.size();
    return opprof_counters_open(&Options, &Counters);
  }
  void TearDown() override {
    opprof_counters_close(Counters);
    EXPECT_EQ(program().Profiling(), 0) << "the profiler was left on";
    CaptureTest::TearDown();
  }
  std::vector<const char *> Metrics;
  opprof_counters_options Options{};
  opprof_counters *Counters = nullptr;
};

TEST_F(CountersTest, EveryKernelInTwoPasses) {
  start();
  record();
  ASSERT_EQ(open({"dram__bytes_read.sum",
                  "l1tex__t_output_wavefronts_pipe_lsu_mem_local.sum"}),
            OPPROF_OK)
      << opprof_capture_last_error();
  EXPECT_EQ(opprof_counters_passes(Counters), 2u);
  int more = 1, passes = 0;
  while (more) {
    ASSERT_EQ(opprof_counters_begin_pass(Counters), OPPROF_OK);
    launchStep();
    ASSERT_EQ(opprof_counters_end_pass(Counters, &more), OPPROF_OK)
        << opprof_capture_last_error();
    ++passes;
  }
  EXPECT_EQ(passes, 2);
  EXPECT_EQ(opprof_counters_begin_pass(Counters), OPPROF_INVALID);
  ASSERT_EQ(opprof_counters_finish(Counters), OPPROF_OK)
      << opprof_capture_last_error();
  ASSERT_EQ(opprof_counters_rows(Counters), 3u);
  for (size_t i = 0; i < 3; ++i) {
    uint64_t launch;
    double values[2];
    ASSERT_EQ(opprof_counters_row(Counters, i, &launch, values), OPPROF_OK);
    EXPECT_EQ(launch, i);
    EXPECT_EQ(values[0], 2000.0 + double(i));
    EXPECT_EQ(values[1], 17000.0 + double(i));
  }
  ASSERT_EQ(opprof_capture_stop(nullptr), OPPROF_OK);
  Everything &all = read();
  EXPECT_EQ(all.Metrics.size(), 2u);
  EXPECT_EQ(all.Passes, 2u);
  ASSERT_EQ(all.Rows.size(), 3u);
  EXPECT_EQ(Reader->string(all.Rows[1].name), "relu");
  EXPECT_EQ(all.Rows[1].grid[0], 20);
  EXPECT_EQ(all.Values[2][0], 2002.0);
}

TEST_F(CountersTest, OnlySelectedLaunches) {
  record();
  const uint64_t selected[] = {0, 1, 2, 3};
  Options.ranges = OPPROF_RANGE_SELECTED;
  Options.selected = selected;
  Options.selected_count = 2;
  ASSERT_EQ(open({"dram__bytes_read.sum"}), OPPROF_OK)
      << opprof_capture_last_error();
  int more;
  ASSERT_EQ(opprof_counters_begin_pass(Counters), OPPROF_OK);
  launchStep();
  ASSERT_EQ(opprof_counters_end_pass(Counters, &more), OPPROF_OK);
  EXPECT_EQ(more, 0);
  ASSERT_EQ(opprof_counters_finish(Counters), OPPROF_OK)
      << opprof_capture_last_error();
  ASSERT_EQ(opprof_counters_rows(Counters), 2u);
  uint64_t launch;
  double value;
  opprof_counters_row(Counters, 0, &launch, &value);
  EXPECT_EQ(launch, 0u);
  opprof_counters_row(Counters, 1, &launch, &value);
  EXPECT_EQ(launch, 2u);
  EXPECT_EQ(value, 2002.0);
}

TEST_F(CountersTest, ARunBeforeThatDoesNotCount) {
  record();
  Options.uncounted_runs = 1;
  const uint64_t selected[] = {1, 3};
  Options.selected = selected;
  Options.selected_count = 1;
  for (uint32_t ranges :
       {OPPROF_RANGE_ALL, OPPROF_RANGE_SELECTED, OPPROF_RANGE_STEP}) {
    Options.ranges = ranges;
    ASSERT_EQ(open({"dram__bytes_read.sum"}), OPPROF_OK)
        << opprof_capture_last_error();
    int more;
    ASSERT_EQ(opprof_counters_begin_pass(Counters), OPPROF_OK);
    launchStep();
    ASSERT_EQ(opprof_counters_next_run(Counters), OPPROF_OK);
    launchStep();
    ASSERT_EQ(opprof_counters_end_pass(Counters, &more), OPPROF_OK)
        << opprof_capture_last_error();
    ASSERT_EQ(opprof_counters_finish(Counters), OPPROF_OK)
        << opprof_capture_last_error();
    std::vector<std::pair<uint64_t, double>> rows;
    for (size_t i = 0; i < opprof_counters_rows(Counters); ++i) {
      auto &[launch, value] = rows.emplace_back();
      opprof_counters_row(Counters, i, &launch, &value);
    }
    // The fake counts 2000 and the launch's number in the pass.
    std::vector<std::pair<uint64_t, double>> expected = {
        {0, 2003.0}, {1, 2004.0}, {2, 2005.0}};
    if (ranges == OPPROF_RANGE_SELECTED)
      expected.erase(expected.begin());
    if (ranges == OPPROF_RANGE_STEP)
      expected = {{0, 2003.0 + 2004.0 + 2005.0}};
    EXPECT_EQ(rows, expected) << ranges;
    opprof_counters_close(Counters);
    Counters = nullptr;
  }
}

TEST_F(CountersTest, ASecondRunMustBeTheSame) {
  record();
  Options.uncounted_runs = 1;
  ASSERT_EQ(open({"dram__bytes_read.sum"}), OPPROF_OK);
  ASSERT_EQ(opprof_counters_begin_pass(Counters), OPPROF_OK);
  launchStep();
  ASSERT_EQ(opprof_counters_next_run(Counters), OPPROF_OK);
  int more;
  EXPECT_EQ(opprof_counters_end_pass(Counters, &more), OPPROF_NOT_REPLAYABLE);
  EXPECT_NE(std::string(opprof_capture_last_error()).find("launch 0 of 3"),
            std::string::npos)
      << opprof_capture_last_error();
}

TEST_F(CountersTest, OneRangeOverTheStep) {
  record();
  Options.ranges = OPPROF_RANGE_STEP;
  ASSERT_EQ(open({"dram__bytes_read.sum"}), OPPROF_OK)
      << opprof_capture_last_error();
  int more;
  ASSERT_EQ(opprof_counters_begin_pass(Counters), OPPROF_OK);
  launchStep();
  ASSERT_EQ(opprof_counters_end_pass(Counters, &more), OPPROF_OK)
      << opprof_capture_last_error();
  ASSERT_EQ(opprof_counters_finish(Counters), OPPROF_OK)
      << opprof_capture_last_error();
  ASSERT_EQ(opprof_counters_rows(Counters), 1u);
  uint64_t launch;
  double value;
  opprof_counters_row(Counters, 0, &launch, &value);
  EXPECT_EQ(launch, 0u);
  // The fake counts 2000 and the launch's number; the range holds all three.
  EXPECT_EQ(value, 2000.0 + 2001.0 + 2002.0);
}

TEST_F(CountersTest, RefusesRangesThatOverlap) {
  record();
  const uint64_t selected[] = {1, 3, 2, 3};
  Options.ranges = OPPROF_RANGE_SELECTED;
  Options.selected = selected;
  Options.selected_count = 2;
  EXPECT_EQ(open({"dram__bytes_read.sum"}), OPPROF_INVALID);
}

TEST_F(CountersTest, NamesTheLaunchThatDiffers) {
  record();
  ASSERT_EQ(open({"dram__bytes_read.sum"}), OPPROF_OK);
  ASSERT_EQ(opprof_counters_begin_pass(Counters), OPPROF_OK);
  program().Launch("gemm", 10, 128);
  program().Launch("relu", 21, 256);
  program().Launch("gemm", 10, 128);
  int more;
  EXPECT_EQ(opprof_counters_end_pass(Counters, &more), OPPROF_NOT_REPLAYABLE);
  std::string error = opprof_capture_last_error();
  EXPECT_NE(error.find("launch 1 was relu grid (20, 1, 1)"), std::string::npos)
      << error;
  EXPECT_NE(error.find("grid (21, 1, 1)"), std::string::npos) << error;
}

TEST_F(CountersTest, NamesMissingAndAddedLaunches) {
  record();
  ASSERT_EQ(open({"dram__bytes_read.sum"}), OPPROF_OK);
  ASSERT_EQ(opprof_counters_begin_pass(Counters), OPPROF_OK);
  program().Launch("gemm", 10, 128);
  EXPECT_EQ(opprof_counters_end_pass(Counters, nullptr), OPPROF_NOT_REPLAYABLE);
  EXPECT_NE(std::string(opprof_capture_last_error())
                .find("ended after launch 1 of 3"),
            std::string::npos);
  opprof_counters_close(Counters);
  Counters = nullptr;
  ASSERT_EQ(open({"dram__bytes_read.sum"}), OPPROF_OK);
  ASSERT_EQ(opprof_counters_begin_pass(Counters), OPPROF_OK);
  launchStep(1);
  EXPECT_EQ(opprof_counters_end_pass(Counters, nullptr), OPPROF_NOT_REPLAYABLE);
  EXPECT_NE(std::string(opprof_capture_last_error()).find("more grid"),
            std::string::npos);
}

TEST_F(CountersTest, RefusesGraphsAndCollectivesByName) {
  ASSERT_EQ(opprof_launches_begin(), OPPROF_OK);
  program().GraphLaunch("in_graph", 1);
  ASSERT_EQ(opprof_launches_end(nullptr), OPPROF_OK);
  EXPECT_EQ(open({"dram__bytes_read.sum"}), OPPROF_NOT_REPLAYABLE);
  EXPECT_NE(std::string(opprof_capture_last_error()).find("CUDA graph"),
            std::string::npos);

  ASSERT_EQ(opprof_launches_begin(), OPPROF_OK);
  program().Launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 1, 1);
  ASSERT_EQ(opprof_launches_end(nullptr), OPPROF_OK);
  EXPECT_EQ(open({"dram__bytes_read.sum"}), OPPROF_NOT_REPLAYABLE);
  EXPECT_NE(std::string(opprof_capture_last_error()).find("ncclDevKernel"),
            std::string::npos);
}

TEST_F(CountersTest, LeavesOutWhatTheChipLacksAndNamesNearOnes) {
  record();
  ASSERT_EQ(open({"dram__bytes_read.sum", "dram__bytes_writen.sum"}),
            OPPROF_OK);
  std::string report = opprof_counters_report(Counters);
  EXPECT_NE(report.find("near names: dram__bytes_write.sum"), std::string::npos)
      << report;
  ASSERT_EQ(opprof_counters_begin_pass(Counters), OPPROF_OK);
  launchStep();
  ASSERT_EQ(opprof_counters_end_pass(Counters, nullptr), OPPROF_OK);
  ASSERT_EQ(opprof_counters_finish(Counters), OPPROF_OK);
  uint64_t launch;
  double values[2];
  opprof_counters_row(Counters, 0, &launch, values);
  EXPECT_EQ(values[0], 2000.0);
  EXPECT_TRUE(std::isnan(values[1]));
}

TEST_F(CountersTest, FailsWhenNoMetricIsKnown) {
  record();
  EXPECT_EQ(open({"sm__cycles_active"}), OPPROF_UNKNOWN_METRIC);
  EXPECT_NE(std::string(opprof_capture_last_error())
                .find("sm__cycles_active.sum, .avg or .max"),
            std::string::npos);
}

TEST_F(CountersTest, PermissionErrorHasTheRemedy) {
  setenv("FAKE_CUPTI_DENY", "1", 1);
  record();
  EXPECT_EQ(open({"dram__bytes_read.sum"}), OPPROF_PERMISSION);
  std::string error = opprof_capture_last_error();
  EXPECT_NE(error.find("NVreg_RestrictProfilingToAdminUsers=0"),
            std::string::npos);
  EXPECT_NE(error.find("ERR_NVGPUCTRPERM"), std::string::npos);
}

TEST_F(CountersTest, SaysWhyADeviceHasNone) {
  setenv("FAKE_CUPTI_CONFIDENTIAL", "1", 1);
  record();
  EXPECT_EQ(open({"dram__bytes_read.sum"}), OPPROF_NO_DEVICE);
  EXPECT_NE(
      std::string(opprof_capture_last_error()).find("confidential-computing"),
      std::string::npos);
  unsetenv("FAKE_CUPTI_CONFIDENTIAL");
  setenv("FAKE_CUDA_NO_CONTEXT", "1", 1);
  EXPECT_EQ(open({"dram__bytes_read.sum"}), OPPROF_NO_DEVICE);
}

TEST_F(CountersTest, SaysWhatHelpsWhereTheDeviceLendsNone) {
  record();
  for (auto [error, text] :
       {std::pair(43, "nvidia-smi -mig 0"), std::pair(33, "enable_profiling=1"),
        std::pair(41, "counters=\"none\""),
        std::pair(26, "dcgmi profile --pause")}) {
    setenv("FAKE_CUPTI_ENABLE_ERROR", std::to_string(error).c_str(), 1);
    EXPECT_NE(open({"dram__bytes_read.sum"}), OPPROF_OK);
    EXPECT_NE(std::string(opprof_capture_last_error()).find(text),
              std::string::npos)
        << opprof_capture_last_error();
  }
  // MPS leaves a pipe where its clients find it.
  std::filesystem::path pipes = Path + ".mps";
  std::filesystem::create_directory(pipes);
  std::ofstream(pipes / "control") << "";
  setenv("CUDA_MPS_PIPE_DIRECTORY", pipes.c_str(), 1);
  EXPECT_NE(open({"dram__bytes_read.sum"}), OPPROF_OK);
  EXPECT_NE(std::string(opprof_capture_last_error()).find("MPS seems to run"),
            std::string::npos);
  unsetenv("CUDA_MPS_PIPE_DIRECTORY");
  std::filesystem::remove_all(pipes);
}

TEST_F(CountersTest, KernelsOfAGraphLaunchAreThoseOfItsNodes) {
  start();
  uint64_t nodes[] = {program().Graph(), program().Graph()};
  ASSERT_EQ(opprof_launches_begin(), OPPROF_OK);
  program().Launch("gemm", 2, 32);
  // Branches may end in another order than that of the capture.
  const char *names[] = {"second", "first"};
  uint64_t order[] = {nodes[1], nodes[0]};
  program().Replay(names, order, 2);
  ASSERT_EQ(opprof_launches_end(nullptr), OPPROF_OK);
  ASSERT_EQ(opprof_capture_flush(), OPPROF_OK);
  opprof_launch kernel;
  EXPECT_EQ(opprof_launches_kernel(0, 0, &kernel), OPPROF_INVALID);
  ASSERT_EQ(opprof_launches_kernel(1, 0, &kernel), OPPROF_OK);
  EXPECT_STREQ(kernel.name, "first");
  EXPECT_EQ(kernel.grid[0], 4);
  EXPECT_EQ(kernel.registers, 40u);
  ASSERT_EQ(opprof_launches_kernel(1, 1, &kernel), OPPROF_OK);
  EXPECT_STREQ(kernel.name, "second");
  EXPECT_EQ(opprof_launches_kernel(1, 2, &kernel), OPPROF_INVALID);
  EXPECT_EQ(opprof_launches_kernel(2, 0, &kernel), OPPROF_INVALID);
}

TEST_F(CountersTest, NamesWhoHoldsCupti) {
  setenv("FAKE_CUPTI_BUSY", "1", 1);
  EXPECT_EQ(opprof_launches_begin(), OPPROF_BUSY);
  EXPECT_NE(std::string(opprof_capture_last_error()).find("CUPTI for Kineto"),
            std::string::npos);
  // Nor does a timeline begin: the buffers belong to the other tool.
  opprof_capture_options o = options();
  EXPECT_EQ(opprof_capture_start(&o), OPPROF_BUSY);
  EXPECT_FALSE(std::filesystem::exists(Path));
  unsetenv("FAKE_CUPTI_BUSY");
  start();
}

TEST_F(CaptureTest, LeavesBuffersOfOtherToolsAlone) {
  start();
  program().Foreign();
  program().Launch("k", 1, 1);
  ASSERT_EQ(opprof_capture_stop(nullptr), OPPROF_OK);
  EXPECT_EQ(read().Kernels.size(), 1u);
}

TEST_F(CountersTest, KernelReplayRunsTheStepOnce) {
  record();
  Options.replay = OPPROF_KERNEL_REPLAY;
  ASSERT_EQ(open({"dram__bytes_read.sum",
                  "l1tex__t_output_wavefronts_pipe_lsu_mem_local.sum"}),
            OPPROF_OK);
  EXPECT_EQ(opprof_counters_passes(Counters), 1u);
  int more = 1;
  ASSERT_EQ(opprof_counters_begin_pass(Counters), OPPROF_OK);
  launchStep();
  ASSERT_EQ(opprof_counters_end_pass(Counters, &more), OPPROF_OK);
  EXPECT_EQ(more, 0);
}

TEST_F(CountersTest, ClosingMidwayTurnsTheProfilerOff) {
  record();
  ASSERT_EQ(open({"dram__bytes_read.sum"}), OPPROF_OK);
  ASSERT_EQ(opprof_counters_begin_pass(Counters), OPPROF_OK);
  program().Launch("gemm", 10, 128);
  EXPECT_EQ(program().Profiling(), 3);
  opprof_counters_close(Counters);
  Counters = nullptr;
  EXPECT_EQ(program().Profiling(), 0);
}

TEST_F(CountersTest, LaunchesKnowWhatTheTimelineSaysOfThem) {
  start();
  ASSERT_EQ(opprof_launches_begin(), OPPROF_OK);
  program().Launch("spill", 4, 64);
  ASSERT_EQ(opprof_launches_end(nullptr), OPPROF_OK);
  ASSERT_EQ(opprof_capture_flush(), OPPROF_OK);
  opprof_launch launch;
  ASSERT_EQ(opprof_launches_get(0, &launch), OPPROF_OK);
  EXPECT_STREQ(launch.name, "spill");
  EXPECT_EQ(launch.local_bytes, 64u);
  EXPECT_EQ(launch.registers, 40u);
  EXPECT_EQ(launch.dynamic_shared, 2048u);
  EXPECT_EQ(launch.duration_ns, 1234u);
  EXPECT_EQ(opprof_launches_get(1, &launch), OPPROF_INVALID);
}

TEST_F(CountersTest, LaunchesAreReadWhileOtherThreadsLaunch) {
  constexpr size_t kThreads = 3, kNames = 100, kReadings = 4;
  std::vector<std::string> names;
  for (size_t i = 0; i < kThreads * kNames; ++i)
    names.push_back("kernel_with_a_name_too_long_to_be_kept_in_place_" +
                    std::to_string(i));
  start();
  uint64_t nodes[] = {program().Graph(), program().Graph()};
  ASSERT_EQ(opprof_launches_begin(), OPPROF_OK);
  std::atomic<bool> ended{false};
  std::atomic<size_t> launched{0};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      const char *graph[] = {"second", "first"};
      uint64_t order[] = {nodes[1], nodes[0]};
      for (size_t i = 0; i < kNames || !ended; ++i) {
        program().Launch(names[t * kNames + i % kNames].c_str(), 1, 128);
        program().Replay(graph, order, 2);
        launched += 2;
      }
    });
  std::vector<std::pair<std::string, const char *>> read;
  auto readAll = [&] {
    opprof_launch launch, kernel;
    for (size_t i = 0; i < 2 * kThreads * kNames &&
                       opprof_launches_get(i, &launch) == OPPROF_OK;
         ++i) {
      if (i >= read.size())
        read.emplace_back(launch.name, launch.name);
      for (size_t k = 0; opprof_launches_kernel(i, k, &kernel) == OPPROF_OK;
           ++k)
        EXPECT_NE(kernel.name, nullptr);
    }
  };
  for (size_t i = 0; i < kReadings; ++i) {
    EXPECT_EQ(opprof_capture_flush(), OPPROF_OK);
    readAll();
  }
  ended = true;
  for (std::thread &thread : threads)
    thread.join();
  readAll();
  size_t count = 0;
  ASSERT_EQ(opprof_launches_end(&count), OPPROF_OK);
  EXPECT_EQ(count, launched);
  EXPECT_EQ(read.size(), 2 * kThreads * kNames);
  // A name stays where it is while others are added.
  for (const auto &[text, name] : read)
    EXPECT_EQ(text, name);
  // What CUPTI names lives longer than the capture.
  ASSERT_EQ(opprof_capture_stop(nullptr), OPPROF_OK);
}

TEST_F(CaptureTest, BeginsAndEndsWhileOtherThreadsLaunch) {
  std::atomic<bool> ended{false};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      while (!ended) {
        opprof_capture_push_id(t + 1);
        program().Launch("k", 1, 1);
        program().Copy(64);
        opprof_capture_mark(1, t, "mark");
        opprof_capture_name_id(t + 1, "{}");
        opprof_capture_pop_id();
      }
    });
  for (int i = 0; i < 5; ++i) {
    start();
    EXPECT_EQ(opprof_capture_pause(), OPPROF_OK);
    EXPECT_EQ(opprof_capture_resume(), OPPROF_OK);
    EXPECT_EQ(opprof_launches_begin(), OPPROF_OK);
    EXPECT_EQ(opprof_capture_flush(), OPPROF_OK);
    EXPECT_EQ(opprof_launches_end(nullptr), OPPROF_OK);
    EXPECT_EQ(opprof_capture_stop(nullptr), OPPROF_OK)
        << opprof_capture_last_error();
    read();
    EXPECT_TRUE(Reader->summary().complete);
  }
  ended = true;
  for (std::thread &thread : threads)
    thread.join();
}

TEST(MetricsTest, PassesWithoutADevice) {
  program();
  const char *one[] = {"dram__bytes_read.sum"};
  size_t passes = 0;
  ASSERT_EQ(opprof_metrics_passes("GH100", one, 1, &passes), OPPROF_OK);
  EXPECT_EQ(passes, 1u);
  const char *unknown[] = {"dram__bytes_red.sum"};
  EXPECT_EQ(opprof_metrics_passes("GH100", unknown, 1, &passes),
            OPPROF_UNKNOWN_METRIC);
  EXPECT_NE(std::string(opprof_capture_last_error())
                .find("near names: dram__bytes_read.sum"),
            std::string::npos);
  EXPECT_EQ(opprof_metrics_passes("XY100", one, 1, &passes),
            OPPROF_CUPTI_ERROR);
}
} // namespace
