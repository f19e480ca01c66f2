// Tests of the findings: each on a profile small enough to work out by hand.

#include "opprof/Findings/Findings.h"
#include "opprof/Analysis/Cost/DeviceCeilings.h"

#include "gtest/gtest.h"

using namespace opprof;
using namespace opprof::profile;

namespace {

class FindingsTest : public ::testing::Test {
protected:
  FindingsTest() {
    profile.graph = "g";
    profile.stage = "export";
    Device &device = profile.devices.emplace_back();
    device.name = "NVIDIA H200";
    device.kind = "cuda";
    profile.summary.stepsFrom = "profiler_step";
    profile.steps = {{0, 0, 100'000, Phase::Steady},
                     {1, 100'000, 200'000, Phase::Steady}};
    Node &node = profile.nodes.emplace_back();
    node.graph = "g";
    node.stage = "export";
    node.name = "linear";
    node.module = "h.0.mlp";
    node.source = "/home/user/model.py:42";
  }

  Activity &addKernel(int64_t start, int64_t duration, uint32_t step = 0) {
    Activity &kernel = profile.kernels.emplace_back();
    kernel.id = profile.kernels.size() - 1;
    kernel.name = "k";
    kernel.startNs = start;
    kernel.durationNs = duration;
    kernel.step = step;
    return kernel;
  }

  /// A launch that every kernel added so far runs.
  LaunchRecord &launchAll(llvm::StringRef kernel, uint64_t flops, uint64_t read,
                          uint64_t written) {
    LaunchRecord &launch = profile.launches.emplace_back();
    launch.compiledGraph = "c";
    launch.kernel = kernel.str();
    launch.kind = launch.category = "extern";
    launch.flops = flops;
    launch.bytesRead = read;
    launch.bytesWritten = written;
    launch.runs = profile.kernels.size();
    launch.nodes = {0};
    for (Activity &activity : profile.kernels) {
      activity.launch = 0;
      activity.nodes = {0};
      activity.confidence = Confidence::High;
    }
    return launch;
  }

  void compute() {
    summarize(profile);
    computeFindings(profile);
  }

  const Finding *find(llvm::StringRef id) {
    for (const Finding &finding : profile.findings)
      if (finding.id == id)
        return &finding;
    return nullptr;
  }
  int64_t number(llvm::StringRef id, llvm::StringRef key) {
    const Finding *finding = find(id);
    EXPECT_TRUE(finding) << id.str();
    std::optional<int64_t> value =
        finding ? finding->evidence.getInteger(key) : std::nullopt;
    EXPECT_TRUE(value) << id.str() << " " << key.str();
    return value.value_or(-1);
  }

  Profile profile;
};

TEST_F(FindingsTest, SaysNothingOfNothing) {
  compute();
  EXPECT_TRUE(profile.findings.empty());
}

TEST_F(FindingsTest, SplitsWallTimeByWhatTheHostDoes) {
  addKernel(20'000, 30'000).stream = 7;
  addKernel(40'000, 20'000).stream = 8;
  addKernel(120'000, 40'000, 1).stream = 7;
  profile.calls.push_back({"c", 0, 50'000, 0, 1, 1});
  profile.synchronizations.push_back({"cudaDeviceSynchronize", 55'000, 15'000});
  compute();
  // 200 µs in two steps, 80 µs busy with the overlap counted once.
  EXPECT_EQ(number("wall-time", "wall_ns_per_step"), 100'000);
  EXPECT_EQ(number("wall-time", "kernels_ns_per_step"), 40'000);
  EXPECT_EQ(number("wall-time", "idle_ns_per_step"), 60'000);
  EXPECT_EQ(number("wall-time", "idle_in_compiled_calls_ns_per_step"), 10'000);
  EXPECT_EQ(number("wall-time", "idle_host_waiting_ns_per_step"), 5'000);
  EXPECT_EQ(number("wall-time", "idle_outside_ns_per_step"), 45'000);
  EXPECT_EQ(number("device-busy", "overlapped_ns_per_step"), 5'000);
  EXPECT_EQ(find("device-busy")->evidence.getNumber("busy_pct"), 40.0);
  EXPECT_EQ(find("device-busy")->severityNsPerStep, 60'000);
  EXPECT_EQ(number("synchronization", "host_waits_ns_per_step"), 7'500);
  EXPECT_EQ(number("synchronization", "device_idle_ns_per_step"), 5'000);
}

TEST_F(FindingsTest, TellsALateHostFromAQueuedLaunch) {
  Activity &late = addKernel(50'000, 50'000);
  late.launchStartNs = 30'000;
  late.launchDurationNs = 10'000;
  Activity &queued = addKernel(110'000, 90'000, 1);
  queued.launchStartNs = 60'000;
  queued.launchDurationNs = 5'000;
  compute();
  EXPECT_EQ(number("device-busy", "launch_to_start_shortest_ns"), 10'000);
  EXPECT_EQ(number("device-busy", "launch_to_start_median_ns"), 45'000);
  // Idle until 50: launched at 40. Idle 100 to 110: launched long before.
  EXPECT_EQ(number("device-busy", "idle_host_late_ns_per_step"), 20'000);
  EXPECT_EQ(number("device-busy", "idle_after_launch_ns_per_step"), 10'000);
}

TEST_F(FindingsTest, CountsKernelsShorterThanTheirLaunch) {
  addKernel(10'000, 4'000);
  Activity &slowLaunch = addKernel(30'000, 12'000);
  slowLaunch.launchStartNs = 1'000;
  slowLaunch.launchDurationNs = 20'000;
  addKernel(60'000, 30'000);
  compute();
  EXPECT_EQ(number("small-kernels", "small_ns_per_step"), 8'000);
  EXPECT_EQ(find("small-kernels")->evidence.getNumber("small_per_step"), 1.0);
  EXPECT_EQ(number("small-kernels", "idle_before_small_ns_per_step"),
            (10'000 + 16'000) / 2);
}

TEST_F(FindingsTest, NamesNodesAndLines) {
  addKernel(10'000, 4'000);
  launchAll("extern_kernels.mm", 1000, 1000, 1000);
  compute();
  EXPECT_NE(find("device-busy")->text.find("linear (h.0.mlp, model.py:42)"),
            std::string::npos)
      << find("device-busy")->text;
}

TEST_F(FindingsTest, ClassesByTheRoof) {
  // 67 GFLOP at 67 TFLOP/s is 1 ms; the kernel takes 1.25 ms.
  profile.steps = {{0, 0, 2'000'000, Phase::Steady}};
  Activity &kernel = addKernel(0, 1'250'000);
  kernel.name = "sgemm_128x64";
  kernel.inputType = "float";
  launchAll("extern_kernels.mm", 67'000'000'000, 1'000'000, 0);
  compute();
  const llvm::json::Object *compute =
      find("roofline")->evidence.getObject("classes")->getObject("compute");
  EXPECT_EQ(compute->getInteger("launches"), 1);
  EXPECT_EQ(number("roofline", "roof_ns_per_step"), 1'000'000);
  EXPECT_EQ(find("roofline")->severityNsPerStep, 250'000);
  EXPECT_EQ(profile.nodes[0].metrics["roof_pct"], 80);
  EXPECT_EQ(profile.nodes[0].metrics["arithmetic_intensity"], 67'000);
  // tf32 does 394 TFLOP/s: 170 µs.
  ASSERT_TRUE(find("tensor-cores-idle"));
  EXPECT_EQ(number("tensor-cores-idle", "least_ns_per_step_with_tensor_cores"),
            170'050);
  EXPECT_NE(find("roofline")->text.find("4.3 TB/s measured"),
            std::string::npos);
}

TEST_F(FindingsTest, TensorCoreKernelsAreNotIdle) {
  Activity &kernel = addKernel(0, 50'000);
  kernel.name = "cutlass_80_tensorop_s1688gemm_64x64";
  kernel.inputType = "float";
  launchAll("extern_kernels.mm", 1'000'000'000, 1'000'000, 0);
  compute();
  EXPECT_FALSE(find("tensor-cores-idle"));
}

TEST_F(FindingsTest, LeavesTheClassOutWhereCeilingsAreUnknown) {
  profile.devices[0].name = "Radeon";
  addKernel(0, 50'000);
  launchAll("extern_kernels.mm", 1'000'000'000, 1'000'000, 0);
  compute();
  EXPECT_EQ(find("roofline")->evidence.getString("reason"),
            "the ceilings of the device 'Radeon' are not in the table");
  EXPECT_FALSE(find("roofline")->severityNsPerStep);
  EXPECT_FALSE(find("tensor-cores-idle"));
}

TEST_F(FindingsTest, LaunchesWithoutArithmetic) {
  addKernel(0, 5'000);
  addKernel(10'000, 5'000, 1);
  LaunchRecord &launch = launchAll("triton_poi_fused_clone_0", 0, 64, 64);
  launch.kind = "triton";
  launch.category = "pointwise";
  compute();
  EXPECT_EQ(number("no-arithmetic", "ns_per_step"), 5'000);
  EXPECT_EQ(find("no-arithmetic")->severityNsPerStep, 5'000);
  profile.launches[0].category = "reduction";
  compute();
  EXPECT_FALSE(find("no-arithmetic"));
}

TEST_F(FindingsTest, CountsOnlySteadyKernels) {
  profile.steps[0].phase = Phase::WarmUp;
  addKernel(10'000, 50'000).phase = Phase::WarmUp;
  addKernel(120'000, 20'000, 1);
  compute();
  EXPECT_EQ(number("wall-time", "wall_ns_per_step"), 100'000);
  EXPECT_EQ(number("wall-time", "kernels_ns_per_step"), 20'000);
  EXPECT_EQ(number("cold-start", "warm_up_ns_per_step"), 100'000);
}

TEST_F(FindingsTest, CopiesFromTheHost) {
  addKernel(0, 50'000);
  Activity &copy = profile.copies.emplace_back();
  copy.kind = ActivityKind::Memcpy;
  copy.name = "Memcpy HtoD (Pageable -> Device)";
  copy.startNs = 60'000;
  copy.durationNs = 8'000;
  copy.bytes = 4096;
  compute();
  EXPECT_EQ(number("host-copies", "ns_per_step"), 4'000);
  EXPECT_EQ(number("host-copies", "bytes_per_step"), 2'048);
  EXPECT_EQ(find("host-copies")->evidence.getBoolean("pageable"), true);
  EXPECT_EQ(number("wall-time", "copies_only_ns_per_step"), 4'000);
}

TEST_F(FindingsTest, VariationOfOneLaunch) {
  for (int run = 0; run < 6; ++run)
    addKernel(run * 10'000, run == 3 ? 9'000 : 3'000);
  launchAll("extern_kernels.mm", 1000, 1000, 1000);
  compute();
  EXPECT_EQ(number("variation", "excess_ns_per_step"), 3'000);
  EXPECT_EQ(find("variation")->nodes, (std::vector<uint32_t>{0}));
}

TEST_F(FindingsTest, KernelsOfNoTimeHaveNoVariation) {
  for (int run = 0; run < 6; ++run)
    addKernel(run * 10'000, 10);
  launchAll("extern_kernels.mm", 1000, 1000, 1000);
  compute();
  EXPECT_FALSE(find("variation"));
}

TEST_F(FindingsTest, IdleTimeOfTheProfilerIsNotTheUsers) {
  addKernel(0, 40'000);
  addKernel(60'000, 20'000);
  profile.overheads.push_back({"buffer request", 45'000, 10'000});
  profile.calls.push_back({"c", 30'000, 25'000, std::nullopt, 0, 0});
  compute();
  EXPECT_EQ(number("wall-time", "idle_profiler_ns_per_step"), 5'000);
  EXPECT_EQ(number("wall-time", "idle_in_compiled_calls_ns_per_step"), 2'500);
  EXPECT_EQ(find("device-busy")->severityNsPerStep,
            number("device-busy", "idle_ns_per_step") - 5'000);
  EXPECT_NE(find("wall-time")->text.find("5.0 µs idle was the profiler's own"),
            std::string::npos)
      << find("wall-time")->text;
}

TEST_F(FindingsTest, TimeBetweenStepsOfACaptureIsNoStepsTime) {
  // The first step's kernels run on after the host has left it.
  profile.summary.stepsFrom = "capture_marks";
  profile.steps = {{0, 0, 100'000, Phase::Steady},
                   {1, 500'000, 600'000, Phase::Steady}};
  addKernel(50'000, 90'000);
  addKernel(520'000, 60'000, 1);
  compute();
  EXPECT_EQ(profile.summary.wallNs, 240'000);
  EXPECT_EQ(number("wall-time", "wall_ns_per_step"), 120'000);
  EXPECT_EQ(number("wall-time", "idle_ns_per_step"), 45'000);
  EXPECT_EQ(find("device-busy")->evidence.getNumber("busy_pct"), 62.5);
  // Steps of torch.profiler follow one another.
  profile.summary.stepsFrom = "profiler_step";
  compute();
  EXPECT_EQ(number("wall-time", "wall_ns_per_step"), 300'000);
}

TEST_F(FindingsTest, WithoutStepsAndGraphTheyAreOfTheCapture) {
  profile.graph.clear();
  profile.nodes.clear();
  profile.steps.clear();
  profile.summary.stepsFrom = "none";
  profile.sources.emplace_back().kind = "opprof capture";
  addKernel(20'000, 30'000);
  addKernel(60'000, 40'000).name = "ncclDevKernel_AllReduce";
  Activity &copy = profile.copies.emplace_back();
  copy.kind = ActivityKind::Memcpy;
  copy.name = "Memcpy HtoD (Pageable -> Device)";
  copy.startNs = 100'000;
  copy.durationNs = 5'000;
  profile.synchronizations.push_back({"cudaDeviceSynchronize", 55'000, 15'000});
  compute();
  std::string ids;
  for (const Finding &finding : profile.findings) {
    ids += finding.id + " ";
    EXPECT_EQ(finding.text.find("step"), std::string::npos) << finding.text;
  }
  EXPECT_EQ(ids, "wall-time device-busy synchronization host-copies "
                 "communication ");
  EXPECT_EQ(
      find("wall-time")
          ->text.find(
              "Of 85.0 µs of the capture, from the device's first event to "
              "its last, 2 kernels keep the device busy for 70.0 µs"),
      0u)
      << find("wall-time")->text;
  EXPECT_EQ(number("wall-time", "idle_ns_per_step"), 10'000);
}

TEST_F(FindingsTest, CommunicationThatNothingCovers) {
  addKernel(0, 40'000);
  addKernel(30'000, 30'000).name = "ncclDevKernel_AllReduce_Sum_f32";
  profile.sources.push_back({});
  profile.sources.back().rank = 1;
  compute();
  EXPECT_EQ(number("communication", "ns_per_step"), 15'000);
  EXPECT_EQ(number("communication", "exposed_ns_per_step"), 10'000);
  EXPECT_EQ(number("communication", "rank"), 1);
  EXPECT_EQ(find("communication")->severityNsPerStep, 10'000);
  profile.kernels[1].name = "other";
  compute();
  EXPECT_FALSE(find("communication"));
}

//===----------------------------------------------------------------------===//
// Counters
//===----------------------------------------------------------------------===//

class CounterFindingsTest : public FindingsTest {
protected:
  CounterFindingsTest() {
    Device &device = profile.devices.front();
    device.smCount = 132;
    device.maxThreadsPerSM = 2048;
    device.registersPerSM = 65536;
    device.sharedPerSM = 233472;
    device.warpSize = 32;
    device.computeCapability = {9, 0};
  }

  /// A kernel with counters.
  Activity &addCounted(int64_t start, int64_t duration,
                       std::map<std::string, double> values) {
    CounterRow &row = profile.counters.emplace_back();
    row.values = std::move(values);
    Activity &kernel = addKernel(start, duration);
    kernel.counters = profile.counters.size() - 1;
    return kernel;
  }
  const llvm::json::Object *largest(llvm::StringRef id) {
    const Finding *finding = find(id);
    const llvm::json::Array *all =
        finding ? finding->evidence.getArray("largest") : nullptr;
    return all && !all->empty() ? (*all)[0].getAsObject() : nullptr;
  }
};

TEST_F(CounterFindingsTest, ClassesAreByCountersWhereThereAreSome) {
  // By the model this is compute-bound: 2e9 FLOPs in 40 µs of fp32.
  addCounted(0, 40'000,
             {{"sm_throughput_pct", 20}, {"memory_throughput_pct", 90}});
  launchAll("extern_kernels.mm", 2'000'000'000, 1000, 1000);
  profile.kernels[0].inputType = "float";
  compute();
  const Finding *roofline = find("roofline");
  ASSERT_TRUE(roofline);
  const llvm::json::Object *worst =
      (*roofline->evidence.getArray("most_above_roof"))[0].getAsObject();
  EXPECT_EQ(worst->getString("class"), "memory");
  EXPECT_EQ(worst->getString("class_from"), "counters");
  EXPECT_NE(roofline->text.find("memory-bound by counters"), std::string::npos)
      << roofline->text;

  profile.kernels[0].counters.reset();
  compute();
  roofline = find("roofline");
  worst = (*roofline->evidence.getArray("most_above_roof"))[0].getAsObject();
  EXPECT_EQ(worst->getString("class"), "compute");
  EXPECT_EQ(worst->getString("class_from"), "model");
  EXPECT_FALSE(find("speed-of-light"));
}

TEST_F(CounterFindingsTest, TensorCoresByTheirOwnCounter) {
  // The name says tensor cores, and their counter does not.
  addCounted(0, 40'000, {{"tensor_pipe_pct", 0}});
  launchAll("extern_kernels.mm", 2'000'000'000, 1000, 1000).dtype = "bfloat16";
  profile.kernels[0].name = "nvjet_tst";
  compute();
  EXPECT_EQ(number("tensor-cores-idle", "launches_by_counters"), 1);
  EXPECT_NE(find("tensor-cores-idle")->text.find("counter shows none"),
            std::string::npos);
  profile.counters[0].values["tensor_pipe_pct"] = 60;
  compute();
  EXPECT_FALSE(find("tensor-cores-idle"));
}

TEST_F(CounterFindingsTest, SpeedOfLight) {
  addCounted(0, 60'000,
             {{"sm_throughput_pct", 85}, {"memory_throughput_pct", 30}});
  addCounted(60'000, 20'000,
             {{"sm_throughput_pct", 10}, {"memory_throughput_pct", 20}})
      .countersFrom = "launch 1 of c";
  addKernel(80'000, 20'000);
  profile.kernels[1].name = "b";
  profile.kernels[2].name = "c";
  compute();
  const Finding *finding = find("speed-of-light");
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->evidence.getNumber("near_compute_peak_pct"), 75);
  EXPECT_EQ(finding->evidence.getNumber("far_from_both_pct"), 25);
  EXPECT_EQ(finding->evidence.getNumber("mean_sm_throughput_pct"), 66.3);
  EXPECT_EQ(number("speed-of-light", "counted_ns_per_step"), 40'000);
  EXPECT_EQ(number("speed-of-light", "inferred_ns_per_step"), 10'000);
  EXPECT_NE(finding->text.find("80.0 % of kernel time"), std::string::npos)
      << finding->text;
}

TEST_F(CounterFindingsTest, BytesMovedAgainstTheFewest) {
  addCounted(0, 50'000, {{"dram_read_bytes", 8e6}, {"dram_write_bytes", 2e6}});
  launchAll("triton_poi", 0, 2'000'000, 2'000'000);
  compute();
  ASSERT_TRUE(largest("memory-traffic"));
  EXPECT_EQ(largest("memory-traffic")->getNumber("times"), 2.5);
  // 6 MB too many at 4.3 TB/s, over two steps.
  EXPECT_EQ(find("memory-traffic")->severityNsPerStep, 697);
  profile.counters[0].values["dram_read_bytes"] = 2e6;
  compute();
  EXPECT_FALSE(find("memory-traffic"));
}

TEST_F(CounterFindingsTest, WhatHoldsOccupancyDown) {
  Activity &kernel = addCounted(0, 50'000,
                                {{"sm_throughput_pct", 20},
                                 {"memory_throughput_pct", 30},
                                 {"achieved_occupancy_pct", 11}});
  kernel.grid = {10'000, 1, 1};
  kernel.block = {256, 1, 1};
  kernel.registers = 200;
  kernel.sharedMemory = 0;
  compute();
  ASSERT_TRUE(largest("occupancy"));
  EXPECT_EQ(largest("occupancy")->getString("limiter"), "registers");
  // 65536 registers hold one block of 8 warps of 32 * 200, and 64 warps fit.
  EXPECT_EQ(largest("occupancy")->getNumber("possible_occupancy_pct"), 12.5);
  profile.kernels[0].grid = {10, 1, 1};
  compute();
  EXPECT_EQ(largest("occupancy")->getString("limiter"), "grid");
  profile.counters[0].values["memory_throughput_pct"] = 70;
  compute();
  EXPECT_FALSE(find("occupancy"));
}

TEST_F(CounterFindingsTest, SpillsConflictsScatterStallsDivergence) {
  addCounted(
      0, 50'000,
      {{"local_memory_wavefronts", 1000},
       {"active_cycles", 1000},
       {"l1tex__data_bank_conflicts_pipe_lsu.sum", 250},
       {"l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", 3200},
       {"l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", 100},
       {"smsp__average_warps_issue_stalled_barrier_per_issue_active."
        "ratio",
        6},
       {"smsp__average_warps_issue_stalled_wait_per_issue_active.ratio", 2},
       {"sm__inst_executed_pipe_fma.sum", 300},
       {"sm__inst_executed_pipe_xu.sum", 100},
       {"threads_per_warp", 8}})
      .localMemory = 64;
  compute();
  ASSERT_TRUE(largest("local-memory"));
  EXPECT_EQ(largest("local-memory")->getInteger("bytes_per_thread"), 64);
  ASSERT_TRUE(largest("bank-conflicts"));
  EXPECT_EQ(largest("bank-conflicts")->getNumber("of_active_cycles_pct"), 25);
  EXPECT_EQ(find("bank-conflicts")->severityNsPerStep, 6'250);
  ASSERT_TRUE(largest("scattered-access"));
  EXPECT_EQ(largest("scattered-access")->getNumber("sectors_per_request"), 32);
  ASSERT_TRUE(largest("stalls"));
  EXPECT_EQ(largest("stalls")->getString("reason"), "barrier");
  EXPECT_EQ(largest("stalls")->getNumber("share_pct"), 75);
  ASSERT_TRUE(largest("pipes"));
  EXPECT_EQ(largest("pipes")->getString("pipe"), "fma");
  EXPECT_EQ(largest("pipes")->getObject("share_pct")->getNumber("xu"), 25);
  ASSERT_TRUE(largest("divergence"));
  EXPECT_EQ(find("divergence")->severityNsPerStep, 18'750);

  profile.counters[0].values = {{"local_memory_wavefronts", 0},
                                {"active_cycles", 1000},
                                {"threads_per_warp", 31}};
  compute();
  for (const char *id : {"local-memory", "bank-conflicts", "scattered-access",
                         "stalls", "pipes", "divergence"})
    EXPECT_FALSE(find(id)) << id;
}

TEST(DeviceCeilings, FindsTheVariantOfADevice) {
  EXPECT_EQ(findDeviceCeilings("NVIDIA H200")->memory.origin, "measured");
  EXPECT_EQ(findDeviceCeilings("NVIDIA H100 PCIe")->name, "H100 PCIe");
  EXPECT_EQ(findDeviceCeilings("NVIDIA H100 80GB HBM3")->name, "H100");
  EXPECT_EQ(findDeviceCeilings("NVIDIA A100-SXM4-80GB")->memory.rate, 2.039e12);
  EXPECT_EQ(findDeviceCeilings("Tesla T4")->tf32.rate, 0);
  EXPECT_FALSE(findDeviceCeilings("NVIDIA RTX A1000"));
  EXPECT_FALSE(findDeviceCeilings("Quadro T400"));
  EXPECT_EQ(findDeviceCeilings("NVIDIA A100-SXM4-40GB")->memory.rate, 1.555e12);
  EXPECT_EQ(findDeviceCeilings("cpu"), nullptr);
}

} // namespace
