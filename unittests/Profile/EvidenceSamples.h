// A finding of every kind. For tests of what is to hold of every kind of
// evidence.

#ifndef OPPROF_UNITTESTS_PROFILE_EVIDENCESAMPLES_H
#define OPPROF_UNITTESTS_PROFILE_EVIDENCESAMPLES_H

#include "opprof/Profile/Profile.h"

namespace opprof::profile {

/// Two steady steps, and one of everything that evidence names by its place.
inline std::unique_ptr<Profile> sampleProfile() {
  auto profile = std::make_unique<Profile>();
  profile->graph = "g";
  profile->stage = "export";
  Device &device = profile->devices.emplace_back();
  device.name = "NVIDIA H200";
  device.kind = "cuda";
  device.busyNs = 1;
  profile->steps = {{0, 0, 100, Phase::Steady}, {1, 100, 200, Phase::Steady}};
  Node &node = profile->nodes.emplace_back();
  node.id.name = "linear";
  node.module = "h.0";
  node.source = "/home/user/model.py:42";
  LaunchRecord &launch = profile->launches.emplace_back();
  launch.compiledGraph = "c";
  launch.index = 3;
  launch.kernel = "extern_kernels.mm";
  launch.nodes = {0};
  OperatorTime &op = profile->operators.emplace_back();
  op.name = "aten::mm";
  op.inputDims = "[[8, 16], [16, 4]]";
  Activity &kernel = profile->kernels.emplace_back();
  kernel.name = "gemm";
  kernel.launch = 0;
  profile->changeOrigin(kernel, [&](Origin &origin) { origin.nodes = {0}; });
  Activity &copy = profile->copies.emplace_back();
  copy.name = "Memcpy HtoD";
  return profile;
}

/// Fills in what evidence about work has in common.
template <typename Evidence, typename Entry>
Evidence withWork(Evidence evidence, Entry entry) {
  entry.kernel = "gemm";
  entry.timeNs = 4'000;
  entry.launch = 0;
  entry.longest = 0;
  evidence.launches = 2;
  evidence.timeNs = 6'000;
  evidence.sharePct = 12.5;
  evidence.inferredNs = 2'000;
  evidence.largest.push_back(entry);
  // Outside of launch maps it is a node's, or no one's.
  entry.launch.reset();
  entry.node = 0;
  evidence.largest.push_back(entry);
  entry.node.reset();
  evidence.largest.push_back(entry);
  return evidence;
}

/// In the order of the kinds.
inline std::vector<Evidence> sampleEvidence() {
  using namespace evidence;
  Roofline roofline;
  roofline.ceilings = {"H200",
                       {4.3e12, "measured"},
                       {{{67e12, "datasheet"},
                         {394e12, "half"},
                         {788e12, "measured"},
                         {788e12, "measured"}}}};
  roofline.classes = {{{1, 4'000}, {2, 12'000}, {}, {}}};
  roofline.byCounters = {1, 4'000};
  roofline.roofNs = 10'000;
  roofline.aboveRoofNs = 6'000;
  roofline.withoutModelNs = 200;
  roofline.mostAboveRoof = {{0, std::nullopt, Bound::Memory, true,
                             Precision::TF32, 3'000, 2'000, 66.7, 12.5},
                            {std::nullopt, 0, Bound::Compute, false,
                             Precision::FP32, 900, 800, 88.9, 400}};

  SpeedOfLight speed;
  speed.countedNs = 6'000;
  speed.nearComputePeakPct = 75;
  speed.farFromBothPct = 25;
  speed.meanSMThroughputPct = 66.5;
  speed.meanMemoryThroughputPct = 20;
  PeakShares shares;
  shares.smThroughputPct = 85.5;
  shares.memoryThroughputPct = 30;
  shares.l2HitPct = 12.5;
  Traffic traffic;
  traffic.dramBytes = 10e6;
  traffic.fewestBytes = 4e6;
  traffic.times = 2.5;
  LowOccupancy occupancy;
  occupancy.timeNsOf = {{OccupancyLimiter::Grid, 2'000},
                        {OccupancyLimiter::Registers, 4'000}};
  OccupancyOfWork lowest;
  lowest.achievedPct = 11;
  lowest.possiblePct = 12.5;
  lowest.waves = 75.76;
  lowest.limiter = OccupancyLimiter::Registers;
  LocalMemoryOfWork spills;
  spills.wavefronts = 1'000;
  spills.bytesPerThread = 64;
  ConflictsOfWork conflicts;
  conflicts.conflicts = 250;
  conflicts.ofActiveCyclesPct = 25;
  ScatterOfWork scatter;
  scatter.sectorsPerRequest = 32;
  Stalls stalls;
  stalls.timeNsOf = {{StallReason::Barrier, 6'000}};
  StallsOfWork barrier;
  barrier.reason = StallReason::Barrier;
  barrier.cyclesPerIssue = 6;
  barrier.sharePct = 75;
  Pipes pipes;
  pipes.timeNsOf = {{Pipe::FMA, 6'000}};
  PipesOfWork fma;
  fma.pipe = Pipe::FMA;
  fma.sharePct = {{Pipe::FMA, 75}, {Pipe::XU, 25}};
  DivergenceOfWork divergence;
  divergence.threadsPerWarp = 8.5;

  Gap gap{4'000, 0, std::nullopt, 1'000, "aten::item", 900};
  return {
      WallTime{20'000, 8'000, 400, 11'600, 2'000, 1'000, 8'000, 600, 6, 2},
      DeviceBusy{
          40,
          8'000,
          9'000,
          1'000,
          12'000,
          600,
          6,
          3'000,
          5'000,
          12.5,
          30,
          700,
          100,
          {gap,
           {2'000, std::nullopt, std::nullopt, std::nullopt, "", std::nullopt}},
          {{"aten::item", 1'500}},
          {{0, 40, 8'000, 12'000, 600, 6, {gap}},
           {1, 10, 2'000, 18'000, 600, 2, {}}},
          gap,
          true},
      SmallKernels{10'000, 4, 6, 3'000, 33.3, 2'000, 1, 5'000, 0, {}},
      NoArithmetic{1, 4, 3'000, 33.3, 128, {{0, 3'000}}},
      Synchronizations{{{"cudaDeviceSynchronize", 2}}, 5'000, 3'000},
      HostCopies{
          4, 4'096, 3'000, true, 0, {{0, 2, 4'000, 2'000}, {1, 2, 96, 1'000}}},
      BiasCopies{2, 4'096, 3'000, 0},
      SerializedWork{2, 6, 9'000, 4'000, 4, 3'000, 0, 0},
      Communication{4,
                    8'000,
                    2'000,
                    3'000,
                    "nccl",
                    1,
                    0,
                    {{0, 4, 8'000, 2'000, 0}, {1, 4, 6'000, 2'000, 2'000}}},
      ColdStart{1, 90'000, 100},
      Variation{1, 6'000, {0, 3'000, 9'000, 6}},
      roofline,
      TensorCoresIdle{2, 6'000, 75, 1'000, 2, "gemm", 0, true},
      withWork(speed, shares),
      withWork(MemoryTraffic(), traffic),
      withWork(occupancy, lowest),
      withWork(LocalMemory(), spills),
      withWork(BankConflicts(), conflicts),
      withWork(ScatteredAccess(), scatter),
      withWork(stalls, barrier),
      withWork(pipes, fma),
      withWork(Divergence(), divergence),
      Goodput{2e12, 87.5, 1e14, Precision::BF16, {788e12, "measured"}, 12.5},
      LayoutConversions{2, 3'000, 12.5, 0},
      UnfusedAttention{2, 8, 6'000, 75, "[[2, 4, 8, 3]]",
                       AttentionRefusal::Type, AttentionRefusal::Alignment},
      DataLoadingWaits{{"train.py:7", "Net.norm", 4, 3'000, {}}},
      Recompilation{{"train.py:7", "Net.norm", 4, 3'000, {}}},
      GarbageCollection{{"train.py:7", "", 4, 3'000, {}}},
      CheckpointWriting{{"train.py:7", "", 4, 3'000, {}}},
      HostCode{{"train.py:7", "", 4, 3'000, {}}, "train.py:5"},
      HostWait{{"train.py:7", "", 4, 3'000, 2'000}, "aten::item"},
      CollectiveWait{{"train.py:7", "", 4, 3'000, {}}},
      PageableCopies{{"train.py:7", "", 4, 3'000, 2'000}, 4096},
      NormalizationByHand{{"train.py:7", "Net.norm", 4, 3'000, {}}},
      AttentionByHand{{"train.py:7", "Net.norm", 4, 3'000, {}}},
      PrecisionIsland{{"train.py:7", "Net.norm", 4, 3'000, 2'000},
                      "c10::BFloat16"},
      GradientLoop{{"train.py:7", "Net.norm", 4, 3'000, {}}},
      OptimizerLoop{{"train.py:7", "Net.norm", 4, 3'000, {}}},
      ParameterLoop{{"train.py:7", "", 4, 3'000, {}}},
      OperatorLoop{{"train.py:7", "Net.norm", 4, 3'000, {}}},
      GradientSets{{"train.py:7", "Net.norm", 4, 3'000, {}}},
      DenseEmbeddingGradient{{"train.py:7", "Net.norm", 4, 3'000, {}}},
      CacheLookups{4, 6'000, 2'000, 4'000, 30},
      MemoryGrowth{"cuda:0", "train.py:9", "Net.head", 4'000, 5'000, 70'000},
  };
}

} // namespace opprof::profile

#endif // OPPROF_UNITTESTS_PROFILE_EVIDENCESAMPLES_H
