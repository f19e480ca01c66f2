// Tests of the findings: each on a profile small enough to work out by hand.

#include "opprof/Findings/Findings.h"
#include "opprof/Analysis/Cost/DeviceCeilings.h"
#include "opprof/Findings/RooflinePlot.h"

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
    node.id = {"g", "export", "linear"};
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
    launch.kind = launch::LaunchKind::Extern;
    launch.category = launch::LaunchCategory::Extern;
    launch.flops = flops;
    launch.bytesRead = read;
    launch.bytesWritten = written;
    launch.runs = profile.kernels.size();
    launch.nodes = {0};
    for (Activity &activity : profile.kernels) {
      activity.launch = 0;
      profile.changeOrigin(activity,
                           [&](Origin &origin) { origin.nodes = {0}; });
      activity.confidence = Confidence::High;
    }
    return launch;
  }

  void compute() {
    summarize(profile);
    computeFindings(profile);
  }

  const Finding *find(FindingKind kind) {
    for (const Finding &finding : profile.findings)
      if (finding.kind() == kind)
        return &finding;
    return nullptr;
  }
  std::optional<int64_t> cost(FindingKind kind) {
    const Finding *finding = find(kind);
    return finding ? finding->severityNsPerStep : std::nullopt;
  }
  /// Evidence of the finding of that type, which has to be there.
  template <typename T> const T &get() {
    for (const Finding &finding : profile.findings)
      if (const T *evidence = std::get_if<T>(&finding.evidence))
        return *evidence;
    ADD_FAILURE() << "no such finding";
    static const T none;
    return none;
  }
  /// Of what a finding about work lists, the costliest.
  template <typename T> auto largest() {
    const T &evidence = get<T>();
    EXPECT_FALSE(evidence.largest.empty());
    return evidence.largest.empty()
               ? typename decltype(evidence.largest)::value_type()
               : evidence.largest.front();
  }

  Profile profile;
};

TEST_F(FindingsTest, SaysNothingOfNothing) {
  compute();
  EXPECT_TRUE(profile.findings.empty());
}

/// Sites of a device whose peak was 100 kB.
static TensorMemory memoryThatGrows(
    std::initializer_list<std::pair<const char *, uint64_t>> sites) {
  TensorMemory memory;
  memory.device = "cuda:1";
  memory.peakBytes = 100'000;
  for (auto [source, growth] : sites) {
    MemorySite &site = memory.sites.emplace_back();
    site.source = source;
    site.growthBytesPerStep = growth;
    memory.growthBytesPerStep += growth;
  }
  return memory;
}

TEST_F(FindingsTest, TheLineWhoseMemoryGrowsMost) {
  addKernel(0, 1'000);
  // Operators of one line are one.
  profile.tensorMemory.push_back(
      memoryThatGrows({{"a.py:1", 300}, {"a.py:2", 200}, {"a.py:2", 150}}));
  compute();
  const auto &growth = get<evidence::MemoryGrowth>();
  EXPECT_EQ(growth.device, "cuda:1");
  EXPECT_EQ(growth.source, "a.py:2");
  EXPECT_EQ(growth.bytesPerStep, 350u);
  EXPECT_EQ(growth.allBytesPerStep, 650u);
  EXPECT_EQ(growth.peakBytes, 100'000u);
  EXPECT_EQ(cost(FindingKind::MemoryGrowth), std::nullopt);
}

TEST_F(FindingsTest, MemoryThatGrowsByLittleIsNoFinding) {
  addKernel(0, 1'000);
  // A list of numbers, which a thousand steps do not fill.
  profile.tensorMemory.push_back(memoryThatGrows({{"a.py:1", 100}}));
  compute();
  EXPECT_EQ(find(FindingKind::MemoryGrowth), nullptr);
}

TEST_F(FindingsTest, SplitsWallTimeByWhatTheHostDoes) {
  addKernel(20'000, 30'000).stream = 7;
  addKernel(40'000, 20'000).stream = 8;
  addKernel(120'000, 40'000, 1).stream = 7;
  profile.calls.push_back({"c", 0, 50'000, 0, 1, 1});
  profile.synchronizations.push_back(
      {"cudaDeviceSynchronize", 55'000, 15'000, "", ""});
  compute();
  // 200 µs in two steps, 80 µs busy with the overlap counted once.
  const auto &wall = get<evidence::WallTime>();
  EXPECT_EQ(wall.steps, 2);
  EXPECT_EQ(wall.kernels, 3);
  EXPECT_EQ(wall.wallNs, 200'000);
  EXPECT_EQ(wall.kernelsNs, 80'000);
  EXPECT_EQ(wall.copiesOnlyNs, 0);
  EXPECT_EQ(wall.idleNs, 120'000);
  EXPECT_EQ(wall.idleInCompiledCallsNs, 20'000);
  EXPECT_EQ(wall.idleHostWaitingNs, 10'000);
  EXPECT_EQ(wall.idleOutsideNs, 90'000);
  const auto &busy = get<evidence::DeviceBusy>();
  EXPECT_EQ(busy.busyNs, 80'000);
  EXPECT_EQ(busy.overlappedNs, 10'000);
  EXPECT_EQ(busy.busyPct, 40.0);
  EXPECT_EQ(cost(FindingKind::DeviceBusy), 60'000);
  const auto &waits = get<evidence::Synchronizations>();
  EXPECT_EQ(waits.calls.at("cudaDeviceSynchronize"), 1u);
  EXPECT_EQ(waits.hostWaitsNs, 15'000);
  EXPECT_EQ(waits.deviceIdleNs, 10'000);
  EXPECT_EQ(cost(FindingKind::Synchronizations), 5'000);
}

TEST_F(FindingsTest, CacheLookupsCostWhatTheDeviceIdles) {
  // Two steps of 100 µs each.
  addKernel(20'000, 30'000);
  addKernel(120'000, 40'000, 1);
  // Half of it is hidden by the first kernel.
  profile.cacheLookups = {{40'000, 20'000}, {100'000, 10'000}};
  // One in another is no further time.
  profile.cacheLookups.push_back({102'000, 4'000});
  compute();
  const auto &lookups = get<evidence::CacheLookups>();
  EXPECT_EQ(lookups.lookups, 3u);
  EXPECT_EQ(lookups.timeNs, 30'000);
  EXPECT_EQ(lookups.deviceIdleNs, 20'000);
  EXPECT_EQ(lookups.longestNs, 20'000);
  EXPECT_EQ(lookups.sharePct, 15.0);
  EXPECT_EQ(cost(FindingKind::CacheLookups), 10'000);
}

TEST_F(FindingsTest, CacheLookupsThatCostNothingAreNoFinding) {
  addKernel(20'000, 30'000);
  addKernel(120'000, 40'000, 1);
  for (std::vector<CacheLookup> lookups :
       {std::vector<CacheLookup>{},
        // Behind a kernel; and of 200 µs 1.9 µs; and out of the steps.
        {{22'000, 20'000}, {130'000, 10'000}},
        {{5'000, 1'900}},
        {{210'000, 50'000}}}) {
    profile.cacheLookups = lookups;
    compute();
    EXPECT_FALSE(find(FindingKind::CacheLookups)) << lookups.size();
  }
  profile.cacheLookups = {{5'000, 2'000}};
  compute();
  EXPECT_TRUE(find(FindingKind::CacheLookups));
}

TEST_F(FindingsTest, TellsALateHostFromAQueuedLaunch) {
  Activity &late = addKernel(50'000, 50'000);
  late.launchStartNs = 30'000;
  late.launchDurationNs = 10'000;
  Activity &queued = addKernel(110'000, 90'000, 1);
  queued.launchStartNs = 60'000;
  queued.launchDurationNs = 5'000;
  compute();
  const auto &busy = get<evidence::DeviceBusy>();
  EXPECT_EQ(busy.launchToStartShortestNs, 10'000);
  EXPECT_EQ(busy.launchToStartMedianNs, 45'000);
  // Idle until 50: launched at 40. Idle 100 to 110: launched long before.
  EXPECT_EQ(busy.idleHostLateNs, 40'000);
  EXPECT_EQ(busy.idleAfterLaunchNs, 20'000);
  EXPECT_TRUE(busy.isLaunchBound == (140'000 < 200'000 * 3 / 4));
  EXPECT_EQ(busy.gaps, 2u);
  ASSERT_EQ(busy.largestGaps.size(), 2u);
  EXPECT_EQ(busy.largestGaps[0].lengthNs, 50'000);
  EXPECT_EQ(busy.largestGaps[0].kernel, 0u);
  EXPECT_EQ(busy.largestGaps[0].hostLateNs, 40'000);
  EXPECT_EQ(busy.largestGaps[1].hostLateNs, 0);
  EXPECT_EQ(busy.largestBeforeKernel->kernel, 0u);
}

TEST_F(FindingsTest, RecordersEstimatesAreMeansOverTime) {
  Activity &small = addKernel(0, 30'000);
  small.config.own().blocksPerSM = 0.5;
  small.config.own().occupancyPct = 20;
  Activity &large = addKernel(30'000, 10'000);
  large.config.own().blocksPerSM = 8;
  large.config.own().occupancyPct = 60;
  compute();
  // (15 + 10) of 200 µs.
  EXPECT_EQ(get<evidence::DeviceBusy>().smEfficiencyPct, 12.5);
  EXPECT_EQ(get<evidence::DeviceBusy>().occupancyPct, 30);
}

TEST_F(FindingsTest, CountsKernelsShorterThanTheirLaunch) {
  addKernel(10'000, 4'000);
  Activity &slowLaunch = addKernel(30'000, 12'000);
  slowLaunch.launchStartNs = 1'000;
  slowLaunch.launchDurationNs = 20'000;
  addKernel(60'000, 30'000);
  compute();
  const auto &small = get<evidence::SmallKernels>();
  EXPECT_EQ(small.small, 2u);
  EXPECT_EQ(small.kernels, 3u);
  EXPECT_EQ(small.smallNs, 16'000);
  EXPECT_EQ(small.sharePct, 34.8);
  EXPECT_EQ(small.shorterThanLaunch, 1u);
  EXPECT_EQ(small.launchCallsNs, 20'000);
  // What is before the first is not between them.
  EXPECT_EQ(small.idleBeforeNs, 16'000);
  EXPECT_EQ(small.mostIdleBefore, 1u);
  EXPECT_EQ(cost(FindingKind::SmallKernels), 8'000);
}

TEST_F(FindingsTest, SmallKernelsThatFollowOneAnotherCostNothing) {
  addKernel(0, 4'000);
  addKernel(4'000, 4'000);
  addKernel(8'000, 4'000);
  compute();
  EXPECT_FALSE(find(FindingKind::SmallKernels));
}

TEST_F(FindingsTest, SmallKernelsAreBilledTheTimeBetweenThem) {
  profile.steps = {{0, 0, 1'000'000, Phase::Steady}};
  addKernel(0, 50'000);
  addKernel(60'000, 1'000);
  addKernel(66'000, 1'000);
  // The next batch took its time.
  addKernel(500'000, 1'000);
  compute();
  EXPECT_EQ(get<evidence::SmallKernels>().idleBeforeNs, 5'000);
}

TEST_F(FindingsTest, GapsEndAtCopiesTooAndNameTheHost) {
  profile.steps = {{0, 0, 200'000, Phase::Steady}};
  addKernel(0, 10'000);
  Activity &copy = profile.copies.emplace_back();
  copy.kind = ActivityKind::Memcpy;
  copy.name = "Memcpy HtoD (Pageable -> Device)";
  copy.startNs = 136'000;
  copy.durationNs = 4'000;
  copy.step = 0;
  addKernel(140'000, 60'000);
  // What lies round it all is of another time.
  profile.hostWork = {
      {"the step", 0, 200'000, {150'000, 160'000}},
      {"enumerate(DataLoader)", 9'000, 126'000, {10'000, 136'000}}};
  compute();
  const auto &busy = get<evidence::DeviceBusy>();
  ASSERT_FALSE(busy.largestGaps.empty());
  const evidence::Gap &gap = busy.largestGaps.front();
  EXPECT_EQ(gap.lengthNs, 126'000);
  EXPECT_FALSE(gap.kernel);
  EXPECT_EQ(gap.copy, 0u);
  EXPECT_EQ(gap.host, "enumerate(DataLoader)");
  EXPECT_EQ(gap.hostNs, 125'000);
  ASSERT_EQ(busy.idleIn.size(), 1u);
  EXPECT_EQ(busy.idleIn.front().idleNs, 125'000);
}

TEST_F(FindingsTest, ProgramsThatWaitForDataAreNotLaunchBound) {
  // As in a pipeline of images: launches are late for a little, and a copy of
  // what the host has prepared ends nearly all of the idle time.
  profile.steps = {{0, 0, 10'000'000, Phase::Steady}};
  Activity &copy = profile.copies.emplace_back();
  copy.kind = ActivityKind::Memcpy;
  copy.name = "Memcpy HtoD (Pageable -> Device)";
  copy.startNs = 9'000'000;
  copy.durationNs = 10'000;
  copy.step = 0;
  Activity &kernel = addKernel(9'100'000, 900'000);
  kernel.launchStartNs = 9'090'000;
  kernel.launchDurationNs = 5'000;
  compute();
  EXPECT_EQ(get<evidence::DeviceBusy>().idleHostLateNs, 85'000);
  EXPECT_FALSE(get<evidence::DeviceBusy>().isLaunchBound);
  // Nor where one launch waits for what takes seconds: code that is loaded.
  profile.copies.clear();
  compute();
  EXPECT_EQ(get<evidence::DeviceBusy>().idleHostLateNs, 9'095'000);
  EXPECT_FALSE(get<evidence::DeviceBusy>().isLaunchBound);
}

TEST_F(FindingsTest, KernelsOfBeforeAreToldFromTheStepsOwn) {
  addKernel(0, 40'000).phase = Phase::BeforeWindow;
  addKernel(50'000, 10'000);
  compute();
  EXPECT_EQ(get<evidence::WallTime>().kernelsNs, 50'000);
  EXPECT_EQ(get<evidence::WallTime>().otherKernelsNs, 40'000);
  EXPECT_EQ(get<evidence::WallTime>().kernels, 1);
}

TEST_F(FindingsTest, PagesOfUnifiedMemoryAreTold) {
  addKernel(0, 50'000).stream = 7;
  Activity &copy = profile.copies.emplace_back();
  copy.kind = ActivityKind::Memcpy;
  copy.name = "Memcpy HtoD (Unified)";
  copy.startNs = 60'000;
  copy.durationNs = 20'000;
  copy.step = 0;
  compute();
  EXPECT_EQ(get<evidence::HostCopies>().pages, 1u);
  EXPECT_EQ(get<evidence::HostCopies>().timeNs, 20'000);
}

TEST_F(FindingsTest, IdleTimeBetweenWhatWasLaunchedBeforeAWaitIsNotItsCost) {
  profile.steps = {{0, 0, 100'000, Phase::Steady}};
  addKernel(0, 40'000).launchStartNs = -9'000;
  // Launched before the wait, and begun 10 us after the first ended; the third
  // one is launched when the wait is over.
  addKernel(50'000, 20'000).launchStartNs = -4'000;
  addKernel(90'000, 10'000).launchStartNs = 80'000;
  profile.synchronizations = {{"cudaStreamSynchronize", 1'000, 71'000, "", ""}};
  compute();
  EXPECT_EQ(get<evidence::Synchronizations>().deviceIdleNs, 2'000);
}

TEST_F(FindingsTest, CopiesThatKernelsHideCostNothing) {
  addKernel(0, 50'000).stream = 7;
  Activity &copy = profile.copies.emplace_back();
  copy.kind = ActivityKind::Memcpy;
  copy.name = "Memcpy HtoD (Pinned -> Device)";
  copy.stream = 8;
  copy.startNs = 40'000;
  copy.durationNs = 20'000;
  copy.step = 0;
  compute();
  EXPECT_EQ(get<evidence::HostCopies>().timeNs, 20'000);
  EXPECT_EQ(get<evidence::HostCopies>().hiddenNs, 10'000);
  EXPECT_EQ(cost(FindingKind::HostCopies), 5'000);
}

/// Three kernels of a compiled graph, right after one another, which a quarter
/// of the device would take.
TEST_F(FindingsTest, IndependentKernelsThatWaitForOneAnother) {
  for (uint32_t place = 0; place < 3; ++place) {
    Activity &kernel = addKernel(place * 10'000, 10'000);
    kernel.launch = place;
    kernel.config.own().blocksPerSM = 0.25;
    LaunchRecord &launch = profile.launches.emplace_back();
    launch.compiledGraph = "c";
    launch.kernel = "triton_poi_" + std::to_string(place);
    launch.runs = 1;
  }
  compute();
  // Of one step of two only.
  EXPECT_FALSE(find(FindingKind::SerializedWork));
  profile.steps = {{0, 0, 100'000, Phase::Steady}};
  compute();
  const auto &work = get<evidence::SerializedWork>();
  EXPECT_EQ(work.groups, 1u);
  EXPECT_EQ(work.kernels, 3u);
  EXPECT_EQ(work.timeNs, 30'000);
  EXPECT_EQ(work.savedNs, 20'000);
  EXPECT_EQ(work.first, 0u);
  EXPECT_EQ(work.last, 2u);
  EXPECT_EQ(cost(FindingKind::SerializedWork), 20'000);
  // The last needs what the first writes, by way of the second.
  profile.launches[2].after = {1};
  profile.launches[1].after = {0};
  compute();
  EXPECT_FALSE(find(FindingKind::SerializedWork));
  profile.launches[1].after.clear();
  compute();
  EXPECT_EQ(get<evidence::SerializedWork>().kernels, 2u);
  // Of one that hides what it needs nothing is known.
  profile.launches[1].isBarrier = true;
  compute();
  EXPECT_FALSE(find(FindingKind::SerializedWork));
  profile.launches[1].isBarrier = false;
  profile.launches[2].after.clear();
  // Those that fill the device gain nothing, nor do those of two streams,
  // which need not wait.
  for (Activity &kernel : profile.kernels)
    kernel.config.own().blocksPerSM = 0.75;
  compute();
  EXPECT_FALSE(find(FindingKind::SerializedWork));
  for (Activity &kernel : profile.kernels) {
    kernel.config.own().blocksPerSM = 0.25;
    kernel.stream = kernel.id;
  }
  compute();
  EXPECT_FALSE(find(FindingKind::SerializedWork));
}

TEST_F(FindingsTest, EachDeviceHasItsOwnIdleTime) {
  for (int64_t id : {1, 2}) {
    profile.devices.push_back(profile.devices.front());
    profile.devices.back().id = id;
  }
  profile.steps = {{0, 0, 100'000, Phase::Steady}};
  addKernel(0, 100'000);
  // While device 0 is busy all the time the other is not.
  addKernel(20'000, 10'000).device = 1;
  Activity &copy = profile.copies.emplace_back();
  copy.kind = ActivityKind::Memcpy;
  copy.device = 1;
  copy.startNs = 70'000;
  copy.durationNs = 5'000;
  copy.step = 0;
  profile.overheads = {{"Buffer Flush", 80'000, 5'000}};
  compute();
  const auto &busy = get<evidence::DeviceBusy>();
  EXPECT_EQ(busy.idleNs, 0);
  ASSERT_EQ(busy.devices.size(), 2u);
  EXPECT_EQ(busy.devices[0].device, 0);
  EXPECT_EQ(busy.devices[0].idleNs, 0);
  EXPECT_EQ(busy.devices[0].gaps, 0u);
  const evidence::BusyOfDevice &other = busy.devices[1];
  EXPECT_EQ(other.device, 1);
  EXPECT_EQ(other.busyNs, 10'000);
  EXPECT_EQ(other.idleNs, 85'000);
  EXPECT_EQ(other.gaps, 3u);
  ASSERT_EQ(other.largestGaps.size(), 3u);
  EXPECT_EQ(other.largestGaps[0].lengthNs, 40'000);
  EXPECT_EQ(other.largestGaps[0].copy, 0u);
  EXPECT_EQ(other.largestGaps[1].lengthNs, 25'000);
  EXPECT_EQ(other.largestGaps[2].kernel, 1u);
  // Spread over both, the work would leave half of that.
  EXPECT_EQ(cost(FindingKind::DeviceBusy), (85'000 - 5'000) / 2);
}

TEST_F(FindingsTest, BusyAndIdleAreTheSameInHeaderAndFindings) {
  profile.steps = {{0, 100'000, 200'000, Phase::Steady}};
  Activity &before = addKernel(90'000, 30'000);
  before.phase = Phase::BeforeWindow;
  before.step.reset();
  addKernel(150'000, 20'000);
  compute();
  EXPECT_EQ(profile.summary.busyNs, 40'000);
  EXPECT_EQ(profile.summary.idleNs, 60'000);
  EXPECT_EQ(get<evidence::DeviceBusy>().busyNs, 40'000);
  EXPECT_EQ(get<evidence::DeviceBusy>().idleNs, 60'000);
}

TEST_F(FindingsTest, ProductsOfServersAreHeldAgainstTheirType) {
  profile.graph.clear();
  profile.nodes.clear();
  profile.steps = {{0, 0, 2'000'000, Phase::Steady}};
  OperatorTime &served = profile.operators.emplace_back();
  served.name = "aiter::gemm_a16w16";
  served.inputDims = "[[4096, 4096], [6144, 4096], [], []]";
  served.inputTypes = R"(["c10::BFloat16", "c10::BFloat16", "", ""])";
  served.calls = served.kernels = 1;
  served.kernelTimeNs = 500'000;
  Activity &kernel = addKernel(0, 500'000);
  kernel.op = 0;
  kernel.name = "Cijk_Alik_Bljk_BBS_BH";
  profile.changeOrigin(
      kernel, [](Origin &origin) { origin.inputType = "c10::BFloat16"; });
  compute();
  EXPECT_EQ(served.flops, uint64_t(2) * 4096 * 4096 * 6144);
  EXPECT_EQ(served.bytesWritten, 2u * 4096 * 6144);
  EXPECT_EQ(get<evidence::Goodput>().precision, Precision::BF16);
}

TEST_F(FindingsTest, OperatorsHaveARoofWithoutAGraph) {
  profile.graph.clear();
  profile.nodes.clear();
  profile.steps = {{0, 0, 2'000'000, Phase::Steady}};
  // 34.4 GFLOP at 67 TFLOP/s take 513 µs, twice that many a second would do.
  Activity &kernel = addKernel(0, 1'000'000);
  kernel.name = "sgemm_128x64";
  kernel.op = 0;
  OperatorTime &product = profile.operators.emplace_back();
  product.name = "aten::mm";
  product.inputDims = "[[4096, 1024], [1024, 4096]]";
  product.inputTypes = R"(["float", "float"])";
  product.calls = product.kernels = 1;
  product.kernelTimeNs = 1'000'000;
  addKernel(1'000'000, 1'000).op = 1;
  OperatorTime &copy = profile.operators.emplace_back();
  copy.name = "aten::copy_";
  copy.inputDims = "[[8], [8]]";
  copy.inputTypes = R"(["float", "float"])";
  copy.calls = copy.kernels = 1;
  addKernel(1'010'000, 2'000).op = 2;
  OperatorTime &unknown = profile.operators.emplace_back();
  unknown.name = "aten::mm";
  unknown.calls = unknown.kernels = 1;
  addKernel(1'020'000, 3'000).name = "elsewhere";
  compute();
  const auto &roofline = get<evidence::Roofline>();
  EXPECT_FALSE(roofline.without);
  ASSERT_FALSE(roofline.mostAboveRoof.empty());
  EXPECT_EQ(roofline.mostAboveRoof[0].op, 0u);
  EXPECT_FALSE(roofline.mostAboveRoof[0].launch);
  EXPECT_EQ(roofline.mostAboveRoof[0].roofPct, 51.3);
  EXPECT_EQ(roofline.withoutModelNs, 5'000);
  EXPECT_EQ(get<evidence::TensorCoresIdle>().timeNs, 1'000'000);

  RooflinePlot plot = plotRoofline(profile);
  ASSERT_TRUE(plot.ceilings);
  EXPECT_EQ(plot.ceilings->device, "H200");
  ASSERT_EQ(plot.points.size(), 1u);
  EXPECT_EQ(plot.points[0].op, 0u);
  EXPECT_NEAR(plot.points[0].flopsPerSecond, 34.36e12, 0.01e12);
  EXPECT_EQ(plot.points[0].roofPct, 51.3);
  std::map<NoPlace, int64_t> without;
  for (const WithoutPlace &group : plot.without)
    without[group.why] = group.timeNs;
  EXPECT_EQ(without, (std::map<NoPlace, int64_t>{{NoPlace::Arithmetic, 1'000},
                                                 {NoPlace::Sizes, 2'000},
                                                 {NoPlace::Operator, 3'000}}));
}

TEST_F(FindingsTest, ConvolutionsWhoseLayoutIsTurned) {
  profile.steps = {{0, 0, 10'000, Phase::Steady},
                   {1, 10'000, 20'000, Phase::Steady}};
  addKernel(0, 1'000).name =
      "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>";
  Activity &second = addKernel(1'000, 3'000);
  second.name = "batched_transpose_32x32_half";
  profile.changeOrigin(second, [](Origin &origin) { origin.nodes = {0}; });
  addKernel(4'000, 4'000).name = "sm80_xmma_fprop_implicit_gemm_f32f32";
  compute();
  const auto &found = get<evidence::LayoutConversions>();
  EXPECT_EQ(found.kernels, 2u);
  EXPECT_EQ(found.timeNs, 4'000);
  EXPECT_EQ(found.sharePct, 50);
  EXPECT_EQ(found.longest, 1u);
  EXPECT_EQ(cost(FindingKind::LayoutConversions), 2'000);
  EXPECT_EQ(find(FindingKind::LayoutConversions)->nodes,
            (std::vector<uint32_t>{0}));

  profile.kernels[0].name = profile.kernels[1].name = "transpose_kernel";
  compute();
  EXPECT_FALSE(find(FindingKind::LayoutConversions));
}

TEST_F(FindingsTest, OperatorsOfATraceHaveWorkWithoutTheirOverloads) {
  struct Call {
    llvm::StringRef name, dims, types, values;
    std::optional<uint64_t> flops, read, written;
  };
  const Call calls[] = {
      // Seen in traces of an OWL-ViT and of a DLRM.
      {"aten::mul", "[[1, 8, 4], [1, 8, 4]]",
       R"(["c10::BFloat16", "c10::BFloat16"])", "", 32, 128, 64},
      {"aten::mul", "[[], [8, 4]]", R"(["double", "c10::Half"])", "", 32, 72,
       64},
      {"aten::add_", "[[8, 4], [4], []]", R"(["float", "float", "Scalar"])", "",
       32, 144, 128},
      {"aten::pow", "[[16], []]", R"(["float", "Scalar"])", R"(["", "2"])", 16,
       64, 64},
      {"aten::mul", "[[8, 4], [8, 4]]", R"(["bool", "float"])", "", 32, 160,
       128},
      {"aten::where", "[[8, 4], [8, 4], []]", R"(["bool", "float", "float"])",
       "", 32, 164, 128},
      {"aten::logical_and_", "[[8], [8]]", R"(["float", "float"])", "", 8, 64,
       32},
      {"aten::isnan", "[[8]]", R"(["float"])", "", 8, 32, 8},
      {"aten::eq", "[[16], []]", R"(["long int", "Scalar"])", "", 16, 128, 16},
      // Lists have no types.
      {"aten::cat", "[[[2, 4], [3, 4]], []]", R"(["TensorList", "Scalar"])",
       R"(["", "0"])", 0, std::nullopt, std::nullopt},
      // It copied, as no view of a transposed tensor has these sizes.
      {"aten::reshape", "[[4, 8], []]", R"(["float", "ScalarList"])",
       R"(["", "[32]"])", 0, 128, 128},
      {"aten::type_as", "[[4, 8], [2]]", R"(["float", "c10::Half"])", "", 0,
       128, 64},
      // Older traces have sizes and no types: work, and no bytes.
      {"aten::bmm", "[[2, 32, 1], [2, 1, 32]]", "", "", 4096, std::nullopt,
       std::nullopt},
      // What kernel a view ran is not known.
      {"aten::transpose", "[[4, 8], [], []]",
       R"(["float", "Scalar", "Scalar"])", "", std::nullopt, std::nullopt,
       std::nullopt},
      {"fbgemm::permute", "[[4, 8]]", R"(["float"])", "", std::nullopt,
       std::nullopt, std::nullopt},
  };
  for (const Call &call : calls) {
    OperatorTime &op = profile.operators.emplace_back();
    op.name = call.name.str();
    op.inputDims = call.dims.str();
    op.inputTypes = call.types.str();
    op.inputValues = call.values.str();
  }
  compute();
  for (auto [op, call] : llvm::zip_equal(profile.operators, calls)) {
    SCOPED_TRACE(op.name + " " + op.inputDims);
    EXPECT_EQ(op.flops, call.flops);
    EXPECT_EQ(op.bytesRead, call.read);
    EXPECT_EQ(op.bytesWritten, call.written);
  }

  // A processor's operators are all in the list, and most of these are views.
  for (Device &device : profile.devices)
    device.kind = "cpu";
  for (OperatorTime &op : profile.operators)
    op.flops = op.bytesRead = op.bytesWritten = std::nullopt;
  compute();
  for (const OperatorTime &op : profile.operators)
    if (op.name == "aten::reshape" || op.name == "aten::type_as") {
      EXPECT_FALSE(op.bytesRead);
    }
}

TEST_F(FindingsTest, ClassesByTheRoof) {
  // 67 GFLOP at 67 TFLOP/s is 1 ms; the kernel takes 1.25 ms.
  profile.steps = {{0, 0, 2'000'000, Phase::Steady}};
  Activity &kernel = addKernel(0, 1'250'000);
  kernel.name = "sgemm_128x64";
  profile.changeOrigin(kernel,
                       [&](Origin &origin) { origin.inputType = "float"; });
  launchAll("extern_kernels.mm", 67'000'000'000, 1'000'000, 0);
  compute();
  const auto &roofline = get<evidence::Roofline>();
  EXPECT_FALSE(roofline.without);
  EXPECT_EQ(roofline.classes[size_t(Bound::Compute)].launches, 1u);
  EXPECT_EQ(roofline.classes[size_t(Bound::Compute)].timeNs, 1'250'000);
  EXPECT_EQ(roofline.roofNs, 1'000'000);
  EXPECT_EQ(roofline.aboveRoofNs, 250'000);
  EXPECT_EQ(roofline.ceilings.device, "H200");
  EXPECT_EQ(roofline.ceilings.memory.origin, "measured");
  ASSERT_EQ(roofline.mostAboveRoof.size(), 1u);
  const evidence::PlacedLaunch &placed = roofline.mostAboveRoof[0];
  EXPECT_EQ(placed.bound, Bound::Compute);
  EXPECT_FALSE(placed.isByCounters);
  EXPECT_EQ(placed.ceiling, Precision::FP32);
  EXPECT_EQ(placed.roofPct, 80);
  EXPECT_EQ(cost(FindingKind::Roofline), 250'000);
  EXPECT_EQ(profile.nodes[0].metrics["roof_pct"], 80);
  EXPECT_EQ(profile.nodes[0].metrics["arithmetic_intensity"], 67'000);
  // tf32 does 394 TFLOP/s: 170 µs.
  const auto &idle = get<evidence::TensorCoresIdle>();
  EXPECT_EQ(int64_t(idle.leastNs), 170'050);
  EXPECT_EQ(idle.launches, 1u);
  EXPECT_EQ(idle.launchesByCounters, 0u);
  EXPECT_EQ(idle.sharePct, 100);
  EXPECT_EQ(idle.kernel, "sgemm_128x64");
  EXPECT_TRUE(idle.isAllFP32);
}

TEST_F(FindingsTest, BytesReadAndWrittenAreBothHeldAgainstTheMemory) {
  // 4.3 MB at 4.3 TB/s is 1 µs each way.
  addKernel(0, 3'000);
  LaunchRecord &launch =
      launchAll("triton_poi_fused_0", 1'000, 4'300'000, 4'300'000);
  launch.category = launch::LaunchCategory::Pointwise;
  compute();
  EXPECT_NEAR(get<evidence::Roofline>().roofNs, 2'000, 1);
  EXPECT_EQ(get<evidence::Roofline>().mostAboveRoof[0].bound, Bound::Memory);
  EXPECT_NEAR(get<evidence::Roofline>().mostAboveRoof[0].intensity,
              1'000 / 8'600'000.0, 1e-9);
  profile.launches[0].bytesWritten = 8'600'000;
  compute();
  EXPECT_NEAR(get<evidence::Roofline>().roofNs, 3'000, 1);
  profile.launches[0].bytesWritten = 0;
  compute();
  EXPECT_NEAR(get<evidence::Roofline>().roofNs, 1'000, 1);
  // Without a ceiling the rate reached has both too.
  profile.devices[0].name = "Radeon";
  profile.launches[0].bytesWritten = 8'600'000;
  compute();
  EXPECT_NEAR(get<evidence::Roofline>().rates->bytesPerSecond, 4.3e12, 1e6);
}

TEST_F(FindingsTest, LaunchesShorterThanTheirCallAreLaunchBound) {
  Activity &kernel = addKernel(0, 3'000);
  kernel.launchStartNs = 0;
  kernel.launchDurationNs = 5'000;
  launchAll("triton_poi_fused_0", 1'000, 64, 64).category =
      launch::LaunchCategory::Pointwise;
  compute();
  EXPECT_EQ(get<evidence::Roofline>().mostAboveRoof[0].bound, Bound::Launch);
  profile.kernels[0].launchDurationNs = 2'000;
  compute();
  EXPECT_EQ(get<evidence::Roofline>().mostAboveRoof[0].bound, Bound::Unknown);
  profile.kernels[0].config.own().blocksPerSM = 0.5;
  compute();
  EXPECT_EQ(get<evidence::Roofline>().mostAboveRoof[0].bound, Bound::Latency);
}

TEST_F(FindingsTest, LaunchesOfNoTimeHaveNoShareOfTheRoof) {
  addKernel(5, 0);
  addKernel(10, 1'000).name = "other";
  launchAll("triton_poi_fused_0", 1'000, 64, 64).category =
      launch::LaunchCategory::Pointwise;
  profile.kernels[1].launch.reset();
  compute();
  EXPECT_EQ(get<evidence::Roofline>().aboveRoofNs, 0);
  EXPECT_EQ(cost(FindingKind::Roofline), 0);
}

TEST_F(FindingsTest, ProductsAreHeldAgainstTheCeilingOfTheirType) {
  Activity &kernel = addKernel(0, 50'000);
  kernel.name = "nvjet_tst";
  launchAll("extern_kernels.mm", 1'000'000'000, 1'000'000, 0);
  for (auto [type, ceiling] : {std::pair("float", Precision::TF32),
                               {"c10::Half", Precision::FP16},
                               {"c10::BFloat16", Precision::BF16},
                               {"double", Precision::FP32}}) {
    profile.changeOrigin(profile.kernels[0],
                         [&](Origin &origin) { origin.inputType = type; });
    compute();
    EXPECT_EQ(get<evidence::Roofline>().mostAboveRoof[0].ceiling, ceiling)
        << type;
  }
  // As the code says it, and not at all.
  profile.changeOrigin(profile.kernels[0],
                       [&](Origin &origin) { origin.inputType = ""; });
  profile.launches[0].dtype = "float16";
  compute();
  EXPECT_EQ(get<evidence::Roofline>().mostAboveRoof[0].ceiling,
            Precision::FP16);
  profile.launches[0].dtype = "";
  compute();
  EXPECT_EQ(get<evidence::Roofline>().without, NoRoof::Run);
}

TEST_F(FindingsTest, TensorCoreKernelsAreNotIdle) {
  Activity &kernel = addKernel(0, 50'000);
  kernel.name = "cutlass_80_tensorop_s1688gemm_64x64";
  profile.changeOrigin(kernel,
                       [&](Origin &origin) { origin.inputType = "float"; });
  launchAll("extern_kernels.mm", 1'000'000'000, 1'000'000, 0);
  compute();
  EXPECT_FALSE(find(FindingKind::TensorCoresIdle));
}

TEST_F(FindingsTest, AttentionInFP32UsesTensorCores) {
  Activity &kernel = addKernel(0, 50'000);
  kernel.name = "fmha_cutlassF_f32_aligned_64x64_rf_sm80(Params)";
  profile.changeOrigin(kernel,
                       [&](Origin &origin) { origin.inputType = "float"; });
  launchAll("torch.ops.aten._scaled_dot_product_efficient_attention.default",
            1'000'000'000, 1'000'000, 0);
  compute();
  EXPECT_FALSE(find(FindingKind::TensorCoresIdle));
  EXPECT_EQ(get<evidence::Roofline>().mostAboveRoof[0].ceiling,
            Precision::TF32);
}

TEST_F(FindingsTest, DepthwiseConvolutionsAreNoMatrixProducts) {
  Activity &kernel = addKernel(0, 50'000);
  kernel.name = "conv2d_c1_k1_nhwc";
  profile.changeOrigin(kernel,
                       [&](Origin &origin) { origin.inputType = "float"; });
  launchAll("extern_kernels.convolution", 1'000'000'000, 1'000'000, 0);
  compute();
  EXPECT_FALSE(find(FindingKind::TensorCoresIdle));
  EXPECT_EQ(get<evidence::Roofline>().mostAboveRoof[0].ceiling,
            Precision::FP32);
}

TEST_F(FindingsTest, OfKernelsThatNoOneKnowsNothingIsSaid) {
  Activity &kernel = addKernel(0, 50'000);
  kernel.name = "my_gemm";
  profile.changeOrigin(kernel,
                       [&](Origin &origin) { origin.inputType = "float"; });
  launchAll("extern_kernels.mm", 1'000'000'000, 1'000'000, 0);
  compute();
  EXPECT_FALSE(find(FindingKind::TensorCoresIdle));
}

TEST_F(FindingsTest, HelpersAreNotWhatALaunchRunsOn) {
  // The sum of parts takes longer than the product that left them.
  addKernel(0, 20'000).name = "nvjet_tst_64x8";
  Activity &helper = addKernel(20'000, 30'000);
  helper.name = "void cublasLt::splitKreduce_kernel<32>()";
  for (Activity *product : {&helper, &profile.kernels[0]})
    profile.changeOrigin(*product,
                         [](Origin &origin) { origin.inputType = "float"; });
  launchAll("extern_kernels.mm", 1'000'000'000, 1'000'000, 0).runs = 1;
  compute();
  EXPECT_FALSE(find(FindingKind::TensorCoresIdle));
}

TEST_F(FindingsTest, GoodputIsOfTheWallTimeAndTheTypesPeak) {
  // 78.8 GFLOP in 200 µs are 394 TFLOP/s, half of the bf16 peak.
  Activity &kernel = addKernel(0, 150'000);
  kernel.name = "nvjet_tst";
  profile.changeOrigin(
      kernel, [&](Origin &origin) { origin.inputType = "c10::BFloat16"; });
  launchAll("extern_kernels.mm", 78'800'000'000, 1'000'000, 0);
  addKernel(150'000, 50'000).name = "other";
  compute();
  const auto &goodput = get<evidence::Goodput>();
  EXPECT_EQ(goodput.precision, Precision::BF16);
  EXPECT_NEAR(goodput.flopsPerSecond, 394e12, 1e6);
  EXPECT_NEAR(goodput.utilizationPct, 50, 1e-9);
  EXPECT_EQ(goodput.knownPct, 75);
  EXPECT_FALSE(cost(FindingKind::Goodput));
}

TEST_F(FindingsTest, AttentionThatIsNotFusedSaysWhy) {
  profile.nodes.clear();
  profile.graph = "";
  OperatorTime &op = profile.operators.emplace_back();
  op.name = "aten::scaled_dot_product_attention";
  op.inputDims = "[[2, 4, 128, 66], [2, 4, 128, 66], [2, 4, 128, 66], [], []]";
  op.inputTypes = "[\"float\", \"float\", \"float\", \"\", \"Scalar\"]";
  op.calls = 1;
  for (int64_t start : {0, 20'000, 40'000}) {
    Activity &kernel = addKernel(start, 10'000);
    kernel.op = 0;
    kernel.name = "ampere_sgemm_128x64_nn";
  }
  compute();
  const auto &attention = get<evidence::UnfusedAttention>();
  EXPECT_EQ(attention.kernels, 3u);
  EXPECT_EQ(attention.timeNs, 30'000);
  EXPECT_EQ(attention.flash, AttentionRefusal::Type);
  EXPECT_EQ(attention.efficient, AttentionRefusal::Alignment);
  EXPECT_EQ(cost(FindingKind::UnfusedAttention), 15'000);
  profile.kernels[1].name = "fmha_cutlassF_f32_aligned_64x64_rf_sm80";
  compute();
  EXPECT_FALSE(find(FindingKind::UnfusedAttention));
}

/// What data sheets state, from what they are made of: units, what one does in
/// a clock, the clocks of the units and of their tensor cores, and the pins of
/// the memory.
TEST(DeviceCeilingsTest, RatesAreTheUnitsTimesTheirClocks) {
  struct Made {
    llvm::StringRef name;
    unsigned units;
    double fp32PerClock, ghz;
    double bf16PerClock, tensorGhz;
    double gigabitsPerPin;
    unsigned pins;
  };
  const Made devices[] = {
      {"NVIDIA A10G", 80, 256, 1.71, 512, 1.71, 12.5, 384},
      {"NVIDIA RTX 6000 Ada Generation", 142, 256, 2.505, 1024, 2.505, 20, 384},
      {"NVIDIA H800", 132, 256, 1.98, 4096, 1.83, 5.2, 5120},
      {"NVIDIA H800 PCIe", 114, 256, 1.755, 4096, 1.62, 3.2, 5120},
      {"AMD Instinct MI210", 104, 256, 1.7, 1024, 1.7, 3.2, 4096},
      {"AMD Instinct MI350X", 256, 256, 2.2, 4096, 2.2, 8, 8192},
      {"AMD Instinct MI355X", 256, 256, 2.4, 4096, 2.4, 8, 8192},
  };
  for (const Made &made : devices) {
    const DeviceCeilings *found = findDeviceCeilings(made.name);
    ASSERT_TRUE(found) << made.name.str();
    auto near = [&](double rate, double expected) {
      EXPECT_NEAR(rate / expected, 1, 0.025) << made.name.str();
    };
    EXPECT_EQ(found->multiprocessors, made.units) << made.name.str();
    near(found->fp32.rate, made.units * made.fp32PerClock * made.ghz * 1e9);
    near(found->bf16.rate,
         made.units * made.bf16PerClock * made.tensorGhz * 1e9);
    near(found->fp16.rate, found->bf16.rate);
    near(found->memory.rate, made.gigabitsPerPin * made.pins / 8 * 1e9);
    if (found->tf32.rate)
      near(found->tf32.rate, found->bf16.rate / 2);
  }
}

TEST_F(FindingsTest, CeilingsOfFurtherDevices) {
  for (auto [name, memory] : {std::pair("NVIDIA B200", 8e12),
                              {"NVIDIA GB200", 8e12},
                              {"Tesla V100-SXM2-16GB", 0.9e12},
                              {"NVIDIA GeForce RTX 3090", 0.936e12},
                              {"NVIDIA GeForce RTX 4090", 1.008e12},
                              {"NVIDIA GeForce RTX 5090", 1.792e12},
                              {"NVIDIA L4", 0.3e12},
                              {"AMD Instinct MI300X", 5.3e12},
                              {"AMD Instinct MI250X", 1.638e12},
                              {"AMD Instinct MI355X", 8e12},
                              {"NVIDIA B300 SXM6 AC", 8e12},
                              {"NVIDIA L40S", 0.864e12}}) {
    const DeviceCeilings *found = findDeviceCeilings(name);
    ASSERT_TRUE(found) << name;
    EXPECT_EQ(found->memory.rate, memory) << name;
  }
  EXPECT_FALSE(findDeviceCeilings("Tesla V100")->bf16.rate);
  // One die of two.
  EXPECT_EQ(findDeviceCeilings("AMD Instinct MI250")->bf16.rate, 181e12);
  EXPECT_FALSE(findDeviceCeilings("AMD Instinct MI355X")->tf32.rate);
}

TEST_F(FindingsTest, LeavesTheClassOutWhereCeilingsAreUnknown) {
  profile.devices[0].name = "Radeon";
  addKernel(0, 50'000);
  launchAll("extern_kernels.mm", 1'000'000'000, 1'000'000, 0);
  compute();
  EXPECT_EQ(get<evidence::Roofline>().without, NoRoof::Device);
  EXPECT_EQ(get<evidence::Roofline>().ceilings.device, "Radeon");
  EXPECT_EQ(get<evidence::Roofline>().rates->flopsPerSecond, 2e13);
  EXPECT_FALSE(cost(FindingKind::Roofline));
  EXPECT_FALSE(find(FindingKind::TensorCoresIdle));
}

TEST_F(FindingsTest, LaunchesWithoutArithmetic) {
  addKernel(0, 5'000);
  addKernel(10'000, 5'000, 1);
  LaunchRecord &launch = launchAll("triton_poi_fused_clone_0", 0, 64, 64);
  launch.kind = launch::LaunchKind::Triton;
  launch.category = launch::LaunchCategory::Pointwise;
  compute();
  const auto &moves = get<evidence::NoArithmetic>();
  EXPECT_EQ(moves.timeNs, 10'000);
  EXPECT_EQ(moves.launches, 1u);
  EXPECT_EQ(moves.kernels, 2u);
  EXPECT_EQ(moves.bytes, 128u);
  EXPECT_EQ(moves.sharePct, 100);
  ASSERT_EQ(moves.largest.size(), 1u);
  EXPECT_EQ(moves.largest[0].timeNs, 10'000);
  EXPECT_EQ(cost(FindingKind::NoArithmetic), 5'000);
  profile.launches[0].category = launch::LaunchCategory::Reduction;
  compute();
  EXPECT_FALSE(find(FindingKind::NoArithmetic));
}

TEST_F(FindingsTest, CountsOnlySteadyKernels) {
  profile.steps[0].phase = Phase::WarmUp;
  addKernel(10'000, 50'000).phase = Phase::WarmUp;
  addKernel(120'000, 20'000, 1);
  compute();
  EXPECT_EQ(get<evidence::WallTime>().wallNs, 100'000);
  EXPECT_EQ(get<evidence::WallTime>().kernelsNs, 20'000);
  EXPECT_EQ(get<evidence::ColdStart>().warmUpSteps, 1);
  EXPECT_EQ(get<evidence::ColdStart>().warmUpStepNs, 100'000);
  EXPECT_EQ(get<evidence::ColdStart>().steadyStepNs, 100'000);
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
  const auto &copies = get<evidence::HostCopies>();
  EXPECT_EQ(copies.copies, 1u);
  EXPECT_EQ(copies.timeNs, 8'000);
  EXPECT_EQ(copies.bytes, 4'096u);
  EXPECT_TRUE(copies.isPageable);
  EXPECT_EQ(copies.longest, 0u);
  EXPECT_EQ(cost(FindingKind::HostCopies), 4'000);
  EXPECT_EQ(get<evidence::WallTime>().copiesOnlyNs, 8'000);
}

TEST_F(FindingsTest, SmallKernelsAndCopiesOfAllDevicesAddUp) {
  profile.devices.push_back(profile.devices.front());
  profile.devices.back().id = 1;
  profile.steps = {{0, 0, 100'000, Phase::Steady}};
  addKernel(0, 60'000);
  addKernel(62'000, 5'000);
  // The other device has most of them, and all of the copies.
  for (int64_t start : {0, 10'000, 20'000})
    addKernel(start, 4'000).device = 1;
  for (int64_t start : {70'000, 80'000}) {
    Activity &copy = profile.copies.emplace_back();
    copy.kind = ActivityKind::Memcpy;
    copy.name = "Memcpy DtoH (Device -> Pinned)";
    copy.device = 1;
    copy.startNs = start;
    copy.durationNs = 3'000;
    copy.bytes = 100;
    copy.step = 0;
  }
  compute();
  const auto &small = get<evidence::SmallKernels>();
  EXPECT_EQ(small.small, 4u);
  EXPECT_EQ(small.kernels, 5u);
  EXPECT_EQ(small.smallNs, 17'000);
  EXPECT_EQ(small.idleBeforeNs, 12'000);
  EXPECT_EQ(small.mostIdleBefore, 3u);
  ASSERT_EQ(small.devices.size(), 2u);
  EXPECT_EQ(small.devices[0].idleBeforeNs, 0);
  EXPECT_EQ(small.devices[1].small, 3u);
  EXPECT_EQ(small.devices[1].idleBeforeNs, 12'000);
  EXPECT_EQ(cost(FindingKind::SmallKernels), 6'000);
  const auto &copies = get<evidence::HostCopies>();
  EXPECT_EQ(copies.copies, 2u);
  EXPECT_EQ(copies.bytes, 200u);
  EXPECT_FALSE(copies.isPageable);
  ASSERT_EQ(copies.devices.size(), 2u);
  EXPECT_EQ(copies.devices[0].copies, 0u);
  EXPECT_EQ(copies.devices[1].timeNs, 6'000);
  EXPECT_EQ(cost(FindingKind::HostCopies), 3'000);
}

TEST_F(FindingsTest, CopiesOfABiasAreThoseRightBeforeItsProduct) {
  addKernel(0, 5'000).stream = 7;
  addKernel(20'000, 5'000).stream = 8;
  addKernel(30'000, 5'000).stream = 7;
  launchAll("extern_kernels.addmm", 1'000, 64, 64);
  for (Activity &kernel : profile.kernels)
    kernel.launch.reset();
  profile.kernels[2].launch = 0;
  Activity &copy = profile.copies.emplace_back();
  copy.kind = ActivityKind::Memcpy;
  copy.name = "Memcpy DtoD (Device -> Device)";
  copy.stream = 7;
  copy.startNs = 10'000;
  copy.durationNs = 2'000;
  copy.bytes = 512;
  compute();
  EXPECT_EQ(get<evidence::BiasCopies>().copies, 1u);
  EXPECT_EQ(get<evidence::BiasCopies>().timeNs, 2'000);
  EXPECT_EQ(get<evidence::BiasCopies>().bytes, 512u);
  EXPECT_EQ(get<evidence::BiasCopies>().product, 2u);
  EXPECT_EQ(cost(FindingKind::BiasCopies), 1'000);
  EXPECT_EQ(find(FindingKind::BiasCopies)->nodes, (std::vector<uint32_t>{0}));
  // Without a launch map the host's operator tells, and other products have no
  // bias to begin with.
  profile.kernels[2].launch.reset();
  profile.changeOrigin(profile.kernels[2], [&](Origin &origin) {
    origin.hostOp = "aten::baddbmm";
  });
  compute();
  EXPECT_EQ(get<evidence::BiasCopies>().copies, 1u);
  profile.changeOrigin(profile.kernels[2],
                       [&](Origin &origin) { origin.hostOp = "aten::mm"; });
  compute();
  EXPECT_FALSE(find(FindingKind::BiasCopies));
  // On another stream the product does not wait for it.
  profile.changeOrigin(profile.kernels[2],
                       [&](Origin &origin) { origin.hostOp = "aten::addmm"; });
  profile.copies[0].stream = 8;
  compute();
  EXPECT_FALSE(find(FindingKind::BiasCopies));
}

TEST_F(FindingsTest, VariationOfOneLaunch) {
  for (int run = 0; run < 6; ++run)
    addKernel(run * 10'000, run == 3 ? 9'000 : 3'000);
  launchAll("extern_kernels.mm", 1000, 1000, 1000);
  compute();
  const auto &variation = get<evidence::Variation>();
  EXPECT_EQ(variation.launches, 1u);
  EXPECT_EQ(variation.excessNs, 6'000);
  EXPECT_EQ(variation.worst.medianNs, 3'000);
  EXPECT_EQ(variation.worst.longestNs, 9'000);
  EXPECT_EQ(variation.worst.runs, 6u);
  EXPECT_EQ(cost(FindingKind::Variation), 3'000);
  EXPECT_EQ(find(FindingKind::Variation)->nodes, (std::vector<uint32_t>{0}));
}

TEST_F(FindingsTest, KernelsOfNoTimeHaveNoVariation) {
  for (int run = 0; run < 6; ++run)
    addKernel(run * 10'000, 10);
  launchAll("extern_kernels.mm", 1000, 1000, 1000);
  compute();
  EXPECT_FALSE(find(FindingKind::Variation));
}

TEST_F(FindingsTest, IdleTimeOfTheProfilerIsNotTheUsers) {
  addKernel(0, 40'000);
  addKernel(60'000, 20'000);
  profile.overheads.push_back({"buffer request", 45'000, 10'000});
  profile.calls.push_back({"c", 30'000, 25'000, std::nullopt, 0, 0});
  compute();
  EXPECT_EQ(get<evidence::WallTime>().idleProfilerNs, 10'000);
  EXPECT_EQ(get<evidence::WallTime>().idleInCompiledCallsNs, 5'000);
  EXPECT_EQ(cost(FindingKind::DeviceBusy),
            get<evidence::DeviceBusy>().idleNs / 2 - 5'000);
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
  EXPECT_EQ(get<evidence::WallTime>().wallNs, 240'000);
  EXPECT_EQ(get<evidence::WallTime>().idleNs, 90'000);
  EXPECT_EQ(get<evidence::DeviceBusy>().busyPct, 62.5);
  // Steps of torch.profiler follow one another.
  profile.summary.stepsFrom = "profiler_step";
  compute();
  EXPECT_EQ(get<evidence::WallTime>().wallNs, 600'000);
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
  profile.synchronizations.push_back(
      {"cudaDeviceSynchronize", 55'000, 15'000, "", ""});
  compute();
  std::vector<FindingKind> kinds;
  for (const Finding &finding : profile.findings)
    kinds.push_back(*finding.kind());
  EXPECT_EQ(kinds,
            (std::vector{FindingKind::WallTime, FindingKind::DeviceBusy,
                         FindingKind::Synchronizations, FindingKind::HostCopies,
                         FindingKind::Communication}));
  EXPECT_EQ(get<evidence::WallTime>().idleNs, 10'000);
  EXPECT_EQ(get<evidence::WallTime>().steps, 1);
}

TEST_F(FindingsTest, CommunicationThatNothingCovers) {
  addKernel(0, 40'000);
  addKernel(30'000, 30'000).name = "ncclDevKernel_AllReduce_Sum_f32";
  profile.sources.push_back({});
  profile.sources.back().rank = 1;
  compute();
  const auto &talk = get<evidence::Communication>();
  EXPECT_EQ(talk.collectives, 1u);
  EXPECT_EQ(talk.timeNs, 30'000);
  EXPECT_EQ(talk.exposedNs, 20'000);
  EXPECT_EQ(talk.longestNs, 30'000);
  EXPECT_EQ(talk.longestName, "ncclDevKernel_AllReduce_Sum_f32");
  EXPECT_EQ(talk.rank, 1);
  EXPECT_EQ(cost(FindingKind::Communication), 10'000);
  profile.kernels[1].name = "other";
  compute();
  EXPECT_FALSE(find(FindingKind::Communication));
}

TEST_F(FindingsTest, CommunicationOfSeveralDevices) {
  profile.devices.push_back(profile.devices.front());
  profile.devices.back().id = 1;
  auto addOn = [&](int64_t device, int64_t start, int64_t duration,
                   const char *name) {
    Activity &kernel = addKernel(start, duration);
    kernel.device = device;
    kernel.name = name;
  };
  addOn(0, 0, 40'000, "gemm");
  addOn(0, 40'000, 20'000, "ncclAllReduce");
  addOn(1, 0, 30'000, "gemm");
  addOn(1, 30'000, 30'000, "ncclAllReduce");
  // What does not run at one time is not one collective.
  addOn(0, 60'000, 5'000, "ncclSendRecv");
  addOn(1, 70'000, 5'000, "ncclSendRecv");
  compute();
  const auto &talk = get<evidence::Communication>();
  ASSERT_EQ(talk.devices.size(), 2u);
  EXPECT_EQ(talk.devices[0].waitedNs, 0);
  EXPECT_EQ(talk.devices[1].waitedNs, 10'000);
  EXPECT_EQ(talk.devices[0].timeNs, 25'000);
  EXPECT_EQ(talk.devices[1].timeNs, 35'000);
  EXPECT_EQ(talk.devices[1].collectives, 2u);
  EXPECT_EQ(talk.exposedNs, 25'000);
}

//===----------------------------------------------------------------------===//
// Lines of programs
//===----------------------------------------------------------------------===//

namespace {
/// Operators on a CPU one after the other, with 1 us between them.
class LineFindingsTest : public FindingsTest {
protected:
  LineFindingsTest() {
    profile.devices.front().kind = "cpu";
    profile.devices.front().name = "CPU";
    profile.steps = {{0, 0, kStepNs, Phase::Steady}};
    profile.nodes.clear();
  }

  static constexpr int64_t kStepNs = 1'000'000;

  Activity &run(llvm::StringRef op, llvm::StringRef source,
                int64_t duration = 9'000, Part part = Part::Forward) {
    Activity &kernel = addKernel(at, duration);
    at += duration + 1'000;
    kernel.name = profile.intern(op);
    kernel.part = part;
    profile.changeOrigin(kernel, [&](Origin &origin) {
      origin.hostOp = kernel.name;
      origin.source = profile.intern(source);
      origin.module = "Net";
    });
    return kernel;
  }

  void runOnType(llvm::StringRef type, llvm::StringRef source,
                 int64_t duration) {
    OperatorTime &op = profile.operators.emplace_back();
    op.name = "aten::linear";
    op.inputDims = "[[64, 64], [64, 64], [64]]";
    op.inputTypes = R"(["float", "float", "float"])";
    op.calls = op.kernels = 1;
    Activity &product = run("aten::linear", source, duration);
    product.op = profile.operators.size() - 1;
    profile.changeOrigin(product, [&](Origin &origin) {
      origin.inputType = profile.intern(type);
    });
  }

  int64_t at = 0;
};
} // namespace

TEST_F(LineFindingsTest, AnOptimizersLoopCostsWhatOneKernelSaves) {
  for (int parameter = 0; parameter < 16; ++parameter)
    for (llvm::StringRef op : {"aten::mul_", "aten::sqrt", "aten::addcdiv_"}) {
      Activity &kernel =
          run(op, "train.py:9", op == "aten::sqrt" ? 19'000 : 9'000,
              Part::Optimizer);
      profile.changeOrigin(kernel, [&](Origin &origin) {
        origin.module = "AdamW group 0";
        origin.range = "Optimizer.step#AdamW.step";
      });
    }
  compute();
  const auto &loop = get<evidence::OptimizerLoop>();
  EXPECT_EQ(loop.timeNs, 16 * 37'000);
  // The longest of them stays, and the last one has no next.
  EXPECT_EQ(loop.savedNs, 16 * 20'000 - 1'000);
  EXPECT_EQ(cost(FindingKind::OptimizerLoop), loop.savedNs);
}

TEST_F(LineFindingsTest, WhatIsLongIsJudgedByTheProgramsOwnTime) {
  for (llvm::StringRef op : {"aten::mean", "aten::sub", "aten::pow",
                             "aten::mean", "aten::sqrt", "aten::div"})
    run(op, "model.py:5");
  run("aten::relu", "model.py:20");
  // A step of 200 ms of which the program itself has one.
  profile.steps.front().endNs = profile.steps.front().startNs + 200'000'000;
  compute();
  EXPECT_FALSE(find(FindingKind::NormalizationByHand));
  std::optional<int64_t> idle = cost(FindingKind::DeviceBusy);
  profile.summary.undisturbedNs = 1'000'000;
  profile.summary.undisturbedIdleNs = *idle / 500;
  compute();
  EXPECT_EQ(cost(FindingKind::NormalizationByHand), 6 * 10'000 - 10'000);
  EXPECT_EQ(*cost(FindingKind::DeviceBusy), *idle / 500);
}

TEST_F(LineFindingsTest, WhatRecordingTakesIsNoCost) {
  for (int parameter = 0; parameter < 32; ++parameter) {
    Activity &kernel = run("aten::mul_", "train.py:9", 9'000, Part::Optimizer);
    kernel.recordingNs = 2'000;
    kernel.recordingBesideNs = 600;
    profile.changeOrigin(kernel, [&](Origin &origin) {
      origin.module = "AdamW group 0";
      origin.range = "Optimizer.step#AdamW.step";
    });
    // Longer than what lies between the two: the rest is nobody's.
    run("aten::add_", "train.py:9", 500, Part::Optimizer).recordingBesideNs =
        4'000;
    profile.changeOrigin(profile.kernels.back(), [&](Origin &origin) {
      origin.module = "AdamW group 0";
      origin.range = "Optimizer.step#AdamW.step";
    });
  }
  compute();
  // Of each pair 7.4 us and 0.5; the longer ones stay.
  EXPECT_EQ(get<evidence::OptimizerLoop>().savedNs, 32 * 500);
}

TEST_F(LineFindingsTest, ANormalizationCostsWhatOneOperatorSaves) {
  for (llvm::StringRef op : {"aten::mean", "aten::sub", "aten::pow",
                             "aten::mean", "aten::sqrt", "aten::div"})
    run(op, "model.py:5");
  run("aten::relu", "model.py:20");
  for (int i = 0; i < 6; ++i)
    run("aten::mul", "model.py:5", 9'000, Part::Backward);
  run("aten::mul", "model.py:20", 9'000, Part::Backward);
  compute();
  const auto &norm = get<evidence::NormalizationByHand>();
  EXPECT_EQ(norm.source, "model.py:5");
  EXPECT_EQ(norm.timeNs, 12 * 9'000);
  EXPECT_EQ(norm.savedNs, 12 * 10'000 - 3 * 10'000);
}

TEST_F(LineFindingsTest, ARootMeanSquareIsTheSameOnACPU) {
  auto runAll = [&] {
    for (llvm::StringRef op :
         {"aten::pow", "aten::mean", "aten::add", "aten::rsqrt", "aten::mul"})
      run(op, "model.py:5");
  };
  runAll();
  compute();
  EXPECT_EQ(get<evidence::NormalizationByHand>().savedNs, 0);
  ASSERT_TRUE(find(FindingKind::NormalizationByHand));
  EXPECT_EQ(cost(FindingKind::NormalizationByHand), std::nullopt);

  profile.devices.front().kind = "cuda";
  profile.devices.front().name = "NVIDIA H200";
  compute();
  EXPECT_EQ(get<evidence::NormalizationByHand>().savedNs, 4 * 9'000);
}

TEST_F(LineFindingsTest, OfAnAttentionTheProductsStay) {
  run("aten::matmul", "model.py:5", 40'000);
  run("aten::mul", "model.py:5");
  run("aten::add", "model.py:6");
  run("aten::softmax", "model.py:7", 29'000);
  run("aten::matmul", "model.py:8", 40'000);
  run("aten::relu", "model.py:20");
  compute();
  const auto &attention = get<evidence::AttentionByHand>();
  EXPECT_EQ(attention.timeNs, 127'000);
  EXPECT_EQ(attention.savedNs, 20'000);
}

TEST_F(LineFindingsTest, OfAnAttentionTheCopiesForItsProductsGo) {
  auto copy = [&](llvm::StringRef source) {
    run("aten::matmul", source, 20'000).name =
        profile.intern("direct_copy_kernel");
  };
  // Of another attention before it, in the same line.
  run("aten::matmul", "model.py:5", 40'000);
  copy("model.py:5");
  copy("model.py:5");
  run("aten::matmul", "model.py:5", 40'000);
  run("aten::softmax", "model.py:7", 20'000);
  run("aten::softmax", "model.py:7", 29'000);
  copy("model.py:8");
  run("aten::matmul", "model.py:8", 40'000);
  run("aten::matmul", "model.py:8", 40'000);
  compute();
  const auto &attention = get<evidence::AttentionByHand>();
  EXPECT_EQ(attention.calls, 1u);
  EXPECT_EQ(attention.timeNs, 189'000);
  EXPECT_EQ(attention.savedNs, 3 * 21'000);
}

TEST_F(LineFindingsTest, OfAnAttentionTheScoresGo) {
  // The first writes the scores, in 30 us more than the second takes.
  run("aten::matmul", "model.py:5", 70'000);
  run("aten::softmax", "model.py:7", 29'000);
  run("aten::matmul", "model.py:8", 39'000);
  for (int product = 0; product < 2; ++product)
    run("aten::bmm", "model.py:8", 39'000, Part::Backward);
  run("aten::_softmax_backward_data", "model.py:7", 59'000, Part::Backward);
  run("aten::relu", "model.py:20");
  compute();
  // One product is computed again for the backward pass.
  EXPECT_EQ(get<evidence::AttentionByHand>().savedNs, 31'000 + 60'000 - 40'000);
}

TEST_F(LineFindingsTest, AGradientLoopCostsItsCalls) {
  for (int parameter = 0; parameter < 20; ++parameter) {
    run("aten::norm", "train.py:5", 9'000, Part::None);
    run("aten::clamp", "train.py:6", 1'000, Part::None);
    run("aten::mul_", "train.py:6", 9'000, Part::None);
  }
  compute();
  // A call takes 2 us; the gradients are read and written all the same.
  EXPECT_EQ(get<evidence::GradientLoop>().savedNs, 60 * 2'000);
}

/// What the next line takes is often longer than at the least of the calls.
TEST_F(LineFindingsTest, ACallTakesWhatIsUsualForTheSmallest) {
  for (llvm::StringRef dims :
       {"[[64], [64], []]", "[[64, 64], [64, 64], []]"}) {
    OperatorTime &op = profile.operators.emplace_back();
    op.name = "aten::add_";
    op.inputDims = dims.str();
  }
  const uint32_t large = profile.operators.size() - 1;
  for (int parameter = 0; parameter < 32; ++parameter) {
    const bool isLarge = parameter % 4 == 3;
    const int64_t duration = isLarge              ? 40'000
                             : parameter % 4 == 0 ? 1'000
                                                  : 4'000;
    run("aten::add_", "train.py:9", duration, Part::None).op =
        isLarge ? large : large - 1;
    profile.changeOrigin(profile.kernels.back(),
                         [](Origin &origin) { origin.module = ""; });
  }
  compute();
  // With 1 us to the next, 5 us of each; one call stays. Of 8 the call takes 2.
  EXPECT_EQ(get<evidence::ParameterLoop>().savedNs,
            24 * 5'000 + 8 * 2'000 - 5'000);
}

TEST_F(LineFindingsTest, ANormByHandIsOneOfAGradientLoop) {
  for (int parameter = 0; parameter < 20; ++parameter) {
    run("aten::pow", "train.py:5", 4'000, Part::None);
    run("aten::sum", "train.py:5", 4'000, Part::None);
    run("aten::add", "train.py:5", 1'000, Part::None);
  }
  for (int parameter = 0; parameter < 20; ++parameter)
    run("aten::mul_", "train.py:8", 9'000, Part::None);
  compute();
  EXPECT_EQ(get<evidence::GradientLoop>().source, "train.py:5");
  EXPECT_FALSE(find(FindingKind::ParameterLoop));
}

TEST_F(LineFindingsTest, SumsOfProductsOfOneSizeAreNoGradientsThatAreClipped) {
  // What a program measures of each of its classes.
  auto measure = [&](size_t sizes) {
    profile.operators.resize(sizes);
    for (size_t part = 0; part < 20; ++part) {
      run("aten::mul", "train.py:5", 9'000, Part::None);
      run("aten::sum", "train.py:5", 9'000, Part::None).op = part % sizes;
    }
  };
  measure(1);
  compute();
  EXPECT_FALSE(find(FindingKind::GradientLoop));
  measure(2);
  compute();
  EXPECT_TRUE(find(FindingKind::GradientLoop));
}

TEST_F(LineFindingsTest, ALossOfMeansAndDeviationsNormalizesNothing) {
  auto runAll = [&](llvm::StringRef sizes) {
    for (llvm::StringRef op :
         {"aten::mean", "aten::sub", "aten::var", "aten::sqrt"})
      run(op, "loss.py:5");
    profile.operators.emplace_back().inputDims = sizes.str();
    run("aten::div", "loss.py:6").op = profile.operators.size() - 1;
    run("aten::relu", "loss.py:20");
  };
  // A variance that is divided by a number.
  runAll("[[64, 64], []]");
  compute();
  EXPECT_FALSE(find(FindingKind::NormalizationByHand));
  runAll("[[32, 64], [1, 64]]");
  compute();
  EXPECT_TRUE(find(FindingKind::NormalizationByHand));
}

TEST_F(LineFindingsTest, ASparseGradientIsNoneOfAWholeTable) {
  run("aten::embedding_bag", "model.py:5");
  run("aten::_embedding_bag_backward", "model.py:5", 399'000, Part::Backward);
  run("aten::relu", "model.py:20");
  compute();
  EXPECT_TRUE(find(FindingKind::DenseEmbeddingGradient));
  for (Activity &kernel : profile.kernels)
    if (kernel.part == Part::Backward)
      profile.changeOrigin(kernel, [&](Origin &origin) {
        origin.hostOp = "aten::_embedding_bag_sparse_backward";
      });
  compute();
  EXPECT_FALSE(find(FindingKind::DenseEmbeddingGradient));
}

TEST_F(LineFindingsTest, ATablesGradientCostsTheOptimizerToo) {
  auto sized = [&](llvm::StringRef dims, Activity &kernel) {
    profile.operators.emplace_back().inputDims = dims.str();
    kernel.op = profile.operators.size() - 1;
  };
  sized("[[1000, 8], [4]]", run("aten::embedding_bag", "model.py:5"));
  run("aten::_embedding_bag_backward", "model.py:5", 39'000, Part::Backward);
  Activity &step =
      run("aten::_foreach_add_", "train.py:9", 79'000, Part::Optimizer);
  sized("[[[1000, 8], [80, 100]], [[1000, 8], [80, 100]], []]", step);
  profile.changeOrigin(step, [&](Origin &origin) {
    origin.module = "SGD group 0";
    origin.range = "Optimizer.step#SGD.step";
  });
  run("aten::relu", "model.py:20");
  compute();
  // Half of the parameters are the table.
  EXPECT_EQ(get<evidence::DenseEmbeddingGradient>().savedNs, 40'000 + 40'000);
}

TEST_F(LineFindingsTest, ATablesGradientCostsAnOptimizerWithoutLists) {
  auto sized = [&](llvm::StringRef dims, Activity &kernel) {
    profile.operators.emplace_back().inputDims = dims.str();
    kernel.op = profile.operators.size() - 1;
  };
  sized("[[1000, 8], [4]]", run("aten::embedding_bag", "model.py:5"));
  run("aten::_embedding_bag_backward", "model.py:5", 39'000, Part::Backward);
  // The table, a head of its size, and others.
  for (const char *dims :
       {"[[1000, 8], [1000, 8]]", "[[8, 1000], [8, 1000]]", "[[8, 8], [8, 8]]"})
    for (llvm::StringRef op : {"aten::mul_", "aten::add_"})
      sized(dims, run(op, "train.py:9", 29'000, Part::Optimizer));
  run("aten::relu", "model.py:20");
  compute();
  EXPECT_EQ(get<evidence::DenseEmbeddingGradient>().savedNs, 40'000 + 60'000);
}

TEST_F(LineFindingsTest, AProductInFloat32AmongOthers) {
  for (int layer = 0; layer < 4; ++layer)
    runOnType("c10::BFloat16", "model.py:5", 9'000);
  run("aten::to", "model.py:8");
  runOnType("float", "model.py:8", 99'000);
  run("aten::mm", "model.py:8", 199'000, Part::Backward);
  run("aten::relu", "model.py:20");
  compute();
  const auto &island = get<evidence::PrecisionIsland>();
  EXPECT_EQ(island.source, "model.py:8");
  EXPECT_EQ(island.others, "c10::BFloat16");
  EXPECT_EQ(island.timeNs, 298'000);
  // A tenth of forward and backward stays, and the cast goes.
  EXPECT_EQ(island.savedNs, 300'000 - 30'000 + 10'000);
}

TEST_F(LineFindingsTest, ProductsInFloat32ThatAreNoIsland) {
  // Most are, or it is as fast.
  runOnType("c10::BFloat16", "model.py:5", 9'000);
  for (int layer = 0; layer < 2; ++layer)
    runOnType("float", "model.py:8", 99'000);
  compute();
  EXPECT_EQ(find(FindingKind::PrecisionIsland), nullptr);
  for (int layer = 0; layer < 4; ++layer)
    runOnType("c10::BFloat16", "model.py:5", 199'000);
  compute();
  EXPECT_EQ(find(FindingKind::PrecisionIsland), nullptr);
}

namespace {
/// Loops of a program's own, in steps of 1 ms. Of each operator the last one
/// has a next one as well, so that each takes 10 us with its call.
class LoopFindingsTest : public LineFindingsTest {
protected:
  /// Outside of all modules, on a tensor of so many blocks.
  void change(llvm::StringRef op, llvm::StringRef source, uint32_t blocks) {
    Activity &kernel = run(op, source, 9'000, Part::None);
    kernel.config.own().grid = {blocks, 1, 1};
    profile.changeOrigin(kernel, [](Origin &origin) { origin.module = ""; });
  }
  void runIn(llvm::StringRef module, llvm::StringRef op, llvm::StringRef source,
             int64_t duration = 9'000) {
    profile.changeOrigin(run(op, source, duration), [&](Origin &origin) {
      origin.module = profile.intern(module);
    });
  }
  void end() { run("aten::relu", "end.py:1"); }
  bool hasLoops() {
    return find(FindingKind::ParameterLoop) || find(FindingKind::OperatorLoop);
  }
  void forgetSteps() {
    profile.steps.clear();
    profile.summary.stepsFrom = "none";
    for (Activity &kernel : profile.kernels)
      kernel.step.reset();
  }
};
} // namespace

TEST_F(LoopFindingsTest, FewParametersAreNoLoop) {
  for (uint32_t parameter = 1; parameter <= 3; ++parameter)
    for (llvm::StringRef op : {"aten::mul_", "aten::add_", "aten::addcdiv_"})
      change(op, "train.py:9", parameter);
  end();
  compute();
  EXPECT_FALSE(hasLoops());
}

TEST_F(LoopFindingsTest, OneTensorChangedOverAndOverIsNoLoopOverParameters) {
  for (int round = 0; round < 12; ++round)
    change("aten::add_", "train.py:9", 1);
  end();
  compute();
  EXPECT_FALSE(hasLoops());
}

TEST_F(LoopFindingsTest, ASumOfEarlierOnesIsNoLoopOverParameters) {
  // Two operators have no one size, and tell nothing of tensors of two.
  for (int round = 0; round < 12; ++round)
    for (uint32_t op : {0, 1}) {
      change(op ? "aten::add_" : "aten::mul_", "train.py:9", 1);
      profile.operators.resize(2);
      profile.kernels.back().op = op;
    }
  end();
  compute();
  EXPECT_FALSE(find(FindingKind::ParameterLoop));
}

TEST_F(LoopFindingsTest, ParametersThatAreMadeAnewOneByOne) {
  auto updateAll = [&](llvm::StringRef source) {
    for (uint32_t parameter = 1; parameter <= 8; ++parameter)
      for (llvm::StringRef op : {"aten::mul", "aten::add"})
        change(op, source, parameter);
  };
  updateAll("train.py:9");
  end();
  compute();
  EXPECT_EQ(get<evidence::ParameterLoop>().source, "train.py:9");
  EXPECT_EQ(get<evidence::ParameterLoop>().savedNs, 16 * 10'000 - 2 * 10'000);
  // The program does it once, under one name.
  EXPECT_FALSE(find(FindingKind::OperatorLoop));
}

TEST_F(LoopFindingsTest, TensorsOfOtherSizesInEachStepAreNoParameters) {
  profile.steps.clear();
  for (uint32_t step = 0; step < 2; ++step) {
    at = int64_t(step) * kStepNs;
    profile.steps.push_back({step, at, at + kStepNs, Phase::Steady});
    for (uint32_t image = 1; image <= 8; ++image) {
      change("aten::div", "train.py:9", 8 * step + image);
      profile.kernels.back().step = step;
    }
  }
  end();
  profile.kernels.back().step = 1;
  compute();
  EXPECT_FALSE(find(FindingKind::ParameterLoop));
}

TEST_F(LoopFindingsTest, LayersOfFunctionsAreNoLoopOverParameters) {
  // A residual stream that grows: each layer adds to it in place.
  for (uint32_t layer = 1; layer <= 12; ++layer) {
    change("aten::relu", "model.py:30", layer);
    change("aten::add_", "model.py:9", layer);
  }
  end();
  compute();
  EXPECT_FALSE(hasLoops());
}

TEST_F(LoopFindingsTest, UpdatesThatMultiplyMatricesAreNoLoopOverParameters) {
  // Lists of tensors have no product for all.
  for (uint32_t layer = 1; layer <= 12; ++layer) {
    change("aten::mm", "muon.py:8", layer);
    change("aten::add_", "muon.py:9", layer);
  }
  end();
  compute();
  EXPECT_FALSE(hasLoops());
}

TEST_F(LoopFindingsTest, GradientsThatAreClippedAreNamedAsSuch) {
  for (uint32_t parameter = 1; parameter <= 12; ++parameter) {
    change("aten::norm", "train.py:8", parameter);
    change("aten::mul_", "train.py:9", parameter);
  }
  end();
  compute();
  EXPECT_FALSE(find(FindingKind::ParameterLoop));
  EXPECT_TRUE(find(FindingKind::GradientLoop));
}

TEST_F(LoopFindingsTest, AProgramWithoutStepsIsItsOwnLoop) {
  for (uint32_t round = 1; round <= 20; ++round) {
    change("aten::add_", "train.py:9", round);
    runIn("Net", "aten::square", "model.py:5");
  }
  forgetSteps();
  compute();
  EXPECT_FALSE(hasLoops());
}

TEST_F(LoopFindingsTest, ParametersThatAreUpdatedOneByOne) {
  for (uint32_t parameter = 1; parameter <= 8; ++parameter)
    for (llvm::StringRef op : {"aten::mul_", "aten::add_"})
      change(op, "train.py:9", parameter);
  end();
  compute();
  const auto &loop = get<evidence::ParameterLoop>();
  EXPECT_EQ(loop.source, "train.py:9");
  EXPECT_EQ(loop.calls, 16u);
  EXPECT_EQ(loop.timeNs, 16 * 9'000);
  // One call of each stays.
  EXPECT_EQ(loop.savedNs, 16 * 10'000 - 2 * 10'000);
  EXPECT_EQ(cost(FindingKind::ParameterLoop), loop.savedNs);
}

TEST_F(LoopFindingsTest, ATermOfTheLossThatIsSummedOverParameters) {
  std::vector<llvm::StringRef> ops = {"aten::sub", "aten::pow", "aten::sum",
                                      "aten::add"};
  for (uint32_t parameter = 1; parameter <= 8; ++parameter)
    for (llvm::StringRef op : ops) {
      change(op, "train.py:9", op == "aten::add" ? 1 : parameter);
      profile.kernels.back().part = Part::Forward;
    }
  for (uint32_t parameter = 1; parameter <= 8; ++parameter)
    for (llvm::StringRef op :
         {"aten::mul", "torch::autograd::AccumulateGrad"}) {
      change(op, "train.py:9", parameter);
      profile.kernels.back().part = Part::Backward;
    }
  end();
  compute();
  const auto &loop = get<evidence::ParameterLoop>();
  EXPECT_EQ(loop.source, "train.py:9");
  EXPECT_EQ(loop.calls, 32u);
  // One call of each operator stays, and what adds to each gradient.
  EXPECT_EQ(loop.savedNs, 5 * 7 * 10'000);
}

/// A loss over eight tensors of sizes of their own, of which gradients have
/// those that `isParameter` says.
class LossTest : public LoopFindingsTest {
protected:
  void sumUp(llvm::function_ref<bool(uint32_t)> isParameter) {
    auto call = [&](llvm::StringRef op, uint32_t size, Part part) {
      change(op, "train.py:9", size);
      profile.kernels.back().part = part;
      profile.kernels.back().op = profile.operators.size();
      OperatorTime &called = profile.operators.emplace_back();
      called.name = op.str();
      called.inputDims = ("[[8, " + llvm::Twine(size) + "], []]").str();
    };
    for (uint32_t size = 1; size <= 8; ++size)
      for (llvm::StringRef op : {"aten::sub", "aten::abs", "aten::sum"})
        call(op, size, Part::Forward);
    for (uint32_t size = 1; size <= 8; ++size)
      call("torch::autograd::AccumulateGrad",
           isParameter(size) ? size : size + 100, Part::Backward);
    end();
    compute();
  }
};

TEST_F(LossTest, OverParameters) {
  sumUp([](uint32_t size) { return size > 2; });
  EXPECT_TRUE(find(FindingKind::ParameterLoop));
}

TEST_F(LossTest, OverFeatures) {
  sumUp([](uint32_t size) { return size <= 2; });
  EXPECT_FALSE(find(FindingKind::ParameterLoop));
}

TEST_F(LoopFindingsTest, WhatLargeParametersTakeStays) {
  for (uint32_t parameter = 1; parameter <= 8; ++parameter)
    change("aten::add_", "train.py:9", parameter);
  profile.kernels.back().durationNs += 300'000;
  at += 300'000;
  end();
  compute();
  EXPECT_EQ(get<evidence::ParameterLoop>().timeNs, 8 * 9'000 + 300'000);
  // What takes four times as long as most of its like was held up: it is the
  // 40 us of four that stay.
  EXPECT_EQ(get<evidence::ParameterLoop>().savedNs, 7 * 10'000);
}

TEST_F(LoopFindingsTest, CallsThatAreTooFewOrTooLongAreNoLoop) {
  for (int round = 0; round < 7; ++round)
    runIn("Net", "aten::square", "model.py:5");
  for (int round = 0; round < 16; ++round)
    runIn("Net", "aten::abs", "model.py:25", 40'000);
  end();
  compute();
  EXPECT_FALSE(hasLoops());
}

TEST_F(LoopFindingsTest, TheModelsOwnLayersAreNoLoop) {
  // `x = relu(layer(x))` of a list of layers.
  for (int layer = 0; layer < 8; ++layer) {
    runIn(("Net.layers." + llvm::Twine(layer)).str(), "aten::linear",
          "model.py:5");
    runIn("Net", "aten::relu", "model.py:5");
  }
  end();
  compute();
  EXPECT_FALSE(hasLoops());
}

TEST_F(LoopFindingsTest, AModelThatIsCalledOverAndOverIsNoLoop) {
  // A token after the other, or small batches whose gradients add up.
  for (int token = 0; token < 20; ++token)
    for (llvm::StringRef line :
         {"model.py:5", "model.py:25", "model.py:45", "model.py:65"})
      runIn("Net", "aten::mul", line);
  end();
  compute();
  EXPECT_FALSE(hasLoops());
}

TEST_F(LoopFindingsTest, SmallOperatorsThatALineCallsOverAndOver) {
  for (int row = 0; row < 8; ++row) {
    runIn("Net", "aten::square", "model.py:5");
    runIn("Net", "aten::mean", "model.py:6");
    runIn("Net", "aten::add", "model.py:6");
  }
  end();
  for (int row = 0; row < 8; ++row)
    run("aten::mul", "model.py:5", 4'000, Part::Backward);
  end();
  compute();
  const auto &loop = get<evidence::OperatorLoop>();
  // Most of the calls are there.
  EXPECT_EQ(loop.source, "model.py:6");
  EXPECT_EQ(loop.calls, 3 * 8u);
  EXPECT_EQ(loop.timeNs, 3 * 8 * 9'000 + 8 * 4'000);
  EXPECT_EQ(loop.savedNs, 3 * 7 * 10'000 + 7 * 5'000);
}

TEST_F(LoopFindingsTest, ALoopIsOfTheModuleOfItsLine) {
  for (int moment = 0; moment < 8; ++moment) {
    runIn("Net", "aten::sigmoid", "model.py:6");
    runIn("Net", "aten::tanh", "model.py:6");
    runIn("Net.input", "aten::linear", "model.py:5");
  }
  end();
  compute();
  EXPECT_EQ(get<evidence::OperatorLoop>().source, "model.py:6");
  EXPECT_EQ(get<evidence::OperatorLoop>().module, "Net");
}

TEST_F(LoopFindingsTest, AModuleThatIsCalledForEachMomentIsALoop) {
  for (int moment = 0; moment < 20; ++moment) {
    runIn("Net.input", "aten::linear", "model.py:5");
    runIn("Net.hidden", "aten::linear", "model.py:5");
    runIn("Net", "aten::tanh", "model.py:5");
  }
  end();
  compute();
  EXPECT_EQ(get<evidence::OperatorLoop>().calls, 60u);
  // What several modules run at a line is one loop.
  EXPECT_EQ(llvm::count_if(profile.findings,
                           [](const Finding &finding) {
                             return finding.kind() == FindingKind::OperatorLoop;
                           }),
            1);
}

//===----------------------------------------------------------------------===//
// Steps that are played again
//===----------------------------------------------------------------------===//

namespace {
/// A GPU whose kernels begin 6 us after their call, which takes 4 us, or when
/// the one before them on their stream ends.
class PlayedFindingsTest : public FindingsTest {
protected:
  static constexpr int64_t kStepNs = 1'000'000;

  PlayedFindingsTest() {
    profile.steps = {{0, 0, kStepNs, Phase::Steady}};
    profile.nodes.clear();
  }

  Activity &launch(int64_t call, int64_t duration, llvm::StringRef op = "mm",
                   llvm::StringRef source = "model.py:1", int64_t stream = 7) {
    int64_t &free = ends[stream];
    Activity &kernel = addKernel(std::max(free, call + 6'000), duration);
    free = kernel.endNs();
    set(kernel, call, 4'000, op, source, stream);
    kernel.part = Part::Forward;
    return kernel;
  }
  Activity &copy(llvm::StringRef kind, int64_t call, int64_t callTook,
                 int64_t start, int64_t duration, llvm::StringRef op,
                 llvm::StringRef source, int64_t stream = 7) {
    Activity &copy = profile.copies.emplace_back();
    copy.kind = ActivityKind::Memcpy;
    copy.name = profile.intern(("Memcpy " + kind).str());
    copy.startNs = start;
    copy.durationNs = duration;
    copy.step = 0;
    ends[stream] = copy.endNs();
    set(copy, call, callTook, op, source, stream);
    return copy;
  }
  void wait(int64_t start, int64_t end, llvm::StringRef op = "aten::item",
            llvm::StringRef source = "train.py:9") {
    profile.synchronizations.push_back(
        {"cudaStreamSynchronize", start, end - start, op.str(), source.str()});
  }

  std::map<int64_t, int64_t> ends;

private:
  void set(Activity &activity, int64_t call, int64_t took, llvm::StringRef op,
           llvm::StringRef source, int64_t stream) {
    activity.launchStartNs = call;
    activity.launchDurationNs = took;
    activity.stream = stream;
    profile.changeOrigin(activity, [&](Origin &origin) {
      origin.hostOp = profile.intern(op);
      origin.source = profile.intern(source);
      origin.module = "Net";
    });
  }
};
} // namespace

TEST_F(PlayedFindingsTest, AWaitForWhatIsDoneCostsNothing) {
  launch(0, 50'000);
  wait(100'000, 150'000);
  launch(160'000, 50'000);
  compute();
  EXPECT_FALSE(find(FindingKind::HostWait));
}

TEST_F(PlayedFindingsTest, AWaitBehindWhichTheDeviceHasWorkCostsNothing) {
  // An event of the first kernel; the second one lasts until the next comes.
  launch(0, 100'000);
  launch(4'000, 500'000);
  wait(8'000, 110'000);
  launch(150'000, 200'000);
  compute();
  EXPECT_FALSE(find(FindingKind::HostWait));
}

TEST_F(PlayedFindingsTest, AWaitOfNoKnownLineIsNotNamed) {
  launch(0, 100'000);
  wait(4'000, 110'000, "", "");
  launch(300'000, 100'000);
  compute();
  EXPECT_FALSE(find(FindingKind::HostWait));
}

TEST_F(PlayedFindingsTest, AWaitCostsWhatTheDeviceIsIdleFor) {
  launch(0, 300'000);
  wait(4'000, 308'000);
  launch(400'000, 100'000);
  wait(404'000, 508'000);
  compute();
  const auto &found = get<evidence::HostWait>();
  EXPECT_EQ(found.source, "train.py:9");
  EXPECT_EQ(found.call, "aten::item");
  EXPECT_EQ(found.calls, 2u);
  EXPECT_EQ(found.timeNs, 304'000 + 104'000);
  // Without waits, which take 5 us as calls, the second kernel is launched at
  // 101 us: it runs from 306 to 406 us, and the program ended at 508.
  EXPECT_EQ(found.savedNs, 102'000);
  EXPECT_EQ(cost(FindingKind::HostWait), 102'000);
}

TEST_F(PlayedFindingsTest, WhatIsRecordedBeforeAWaitIsNoTimeOfTheHosts) {
  for (int64_t at = 0; at < 4; ++at) {
    launch(at * 40'000, 30'000);
    // Of the 26 us before the wait and the 2 behind it.
    if (at > 0)
      profile.kernels.back().recordingBesideNs = 14'000;
    wait(at * 40'000 + 30'000, at * 40'000 + 38'000);
  }
  compute();
  // Of a round 14 us are left of 28, 13 of them before the wait: without waits
  // the host launches every 23 us, and kernels of 30 us follow each other. The
  // last ends at 126 us, and the last wait at 155, without the 1 us of
  // recording behind each of the three others.
  EXPECT_EQ(get<evidence::HostWait>().savedNs, 29'000);
}

TEST_F(PlayedFindingsTest, AWaitThatNoOperatorIsRoundHasItsCallsName) {
  launch(0, 300'000);
  wait(4'000, 308'000, "", "train.py:30");
  launch(400'000, 100'000);
  compute();
  EXPECT_EQ(get<evidence::HostWait>().call, "cudaStreamSynchronize");
  EXPECT_EQ(get<evidence::HostWait>().source, "train.py:30");
}

TEST_F(PlayedFindingsTest, AValueThatIsReadIsOneWait) {
  launch(0, 300'000);
  // The call of the copy waits, and the one after it has nothing to wait for.
  copy("DtoH (Device -> Pageable)", 4'000, 306'000, 306'000, 2'000,
       "aten::item", "train.py:9");
  wait(310'000, 311'000);
  launch(400'000, 100'000);
  compute();
  EXPECT_EQ(get<evidence::HostWait>().calls, 1u);
  // The second kernel is launched at 99 us, and runs from 308 to 408 us; it
  // ended at 506.
  EXPECT_EQ(get<evidence::HostWait>().savedNs, 98'000);
  EXPECT_FALSE(find(FindingKind::PageableCopies));
}

TEST_F(PlayedFindingsTest, NothingIsSaidOfStepsThatAreNotUnderstood) {
  launch(0, 300'000);
  wait(4'000, 308'000);
  launch(400'000, 100'000);
  // Nobody knows what it waits for.
  Activity &late = addKernel(900'000, 50'000);
  late.launchStartNs = 410'000;
  late.launchDurationNs = 4'000;
  late.stream = 7;
  compute();
  EXPECT_FALSE(find(FindingKind::HostWait));
  // Nor without the calls of all kernels.
  profile.kernels.pop_back();
  compute();
  EXPECT_TRUE(find(FindingKind::HostWait));
  profile.kernels.back().launchStartNs.reset();
  compute();
  EXPECT_FALSE(find(FindingKind::HostWait));
}

TEST_F(PlayedFindingsTest, ACopyBesideWhichTheDeviceWorksCostsNothing) {
  launch(0, 800'000);
  copy("HtoD (Pageable -> Device)", 10'000, 400'000, 100'000, 290'000,
       "aten::to", "train.py:5", 8);
  wait(410'000, 414'000, "aten::to", "train.py:5");
  launch(420'000, 100'000);
  compute();
  EXPECT_FALSE(find(FindingKind::PageableCopies));
  EXPECT_FALSE(find(FindingKind::HostWait));
}

TEST_F(PlayedFindingsTest, CopiesOfPinnedMemoryAreNotNamed) {
  copy("HtoD (Pinned -> Device)", 0, 4'000, 6'000, 290'000, "aten::to",
       "train.py:5");
  launch(10'000, 100'000);
  compute();
  EXPECT_FALSE(find(FindingKind::PageableCopies));
}

TEST_F(PlayedFindingsTest, PageableCopiesCostTheWaitAndTheSlowerCopy) {
  // The host copies to pinned memory of the driver's for 100 us first.
  copy("HtoD (Pageable -> Device)", 0, 400'000, 100'000, 290'000, "aten::to",
       "train.py:5")
      .bytes = 2'000'000;
  wait(400'000, 404'000, "aten::to", "train.py:5");
  launch(404'000, 500'000);
  compute();
  const auto &found = get<evidence::PageableCopies>();
  EXPECT_EQ(found.source, "train.py:5");
  EXPECT_EQ(found.calls, 1u);
  EXPECT_EQ(found.bytes, 2'000'000u);
  EXPECT_EQ(found.timeNs, 290'000);
  // At 20 GB/s it runs from 6 to 106 us, and the kernel to 606 instead of 910.
  EXPECT_EQ(found.savedNs, 304'000);
  // The wait is the copy's.
  EXPECT_FALSE(find(FindingKind::HostWait));
}

TEST_F(PlayedFindingsTest, CopiesThatTakeNoTimeOfAStepAreNotNamed) {
  // All that they take, 4 us and 1 of the call, is less than a hundredth.
  copy("HtoD (Pageable -> Device)", 0, 1'000, 2'000, 4'000, "aten::to",
       "train.py:5")
      .bytes = 2'000;
  launch(10'000, 600'000);
  compute();
  EXPECT_FALSE(find(FindingKind::PageableCopies));
}

TEST_F(PlayedFindingsTest, CopiesThatWouldTakeAsLongPinnedAreNotNamed) {
  // They take half of the step, at the rate of pinned memory, and the host
  // waits for none.
  copy("HtoD (Pageable -> Device)", 0, 4'000, 6'000, 300'000, "aten::to",
       "train.py:5")
      .bytes = 6'000'000;
  launch(10'000, 300'000);
  compute();
  EXPECT_FALSE(find(FindingKind::PageableCopies));
  // At a tenth of that rate they are.
  profile.copies.front().bytes = 600'000;
  compute();
  EXPECT_TRUE(find(FindingKind::PageableCopies));
}

TEST_F(PlayedFindingsTest, APageableCopyHoldsUpItsCallWhereItIsNotWaitedFor) {
  // The device ends it after the call, which waits for nothing on the device.
  copy("HtoD (Pageable -> Device)", 0, 400'000, 100'000, 302'000, "aten::to",
       "train.py:5")
      .bytes = 2'000'000;
  launch(410'000, 400'000);
  compute();
  // The call takes 5 us, and the kernel begins at 106 instead of 416.
  EXPECT_EQ(get<evidence::PageableCopies>().savedNs, 310'000);
}

TEST_F(PlayedFindingsTest, TheWaitOfACopyIsTheCopys) {
  // The call is back at once; the operator waits for what the device did
  // before.
  launch(0, 300'000);
  copy("HtoD (Pageable -> Device)", 4'000, 6'000, 306'000, 1'000, "aten::to",
       "train.py:5")
      .bytes = 1'000;
  wait(10'000, 310'000, "aten::to", "train.py:5");
  launch(400'000, 100'000);
  compute();
  EXPECT_FALSE(find(FindingKind::HostWait));
  // The kernel is launched at 104 us, and runs from 306 on, 50 ns of a copy
  // later, instead of 406.
  EXPECT_EQ(get<evidence::PageableCopies>().savedNs, 100'000 - 50);
}

TEST_F(PlayedFindingsTest, ALoopOfALateHostCostsItsCalls) {
  for (int row = 0; row < 16; ++row)
    launch(row * 20'000, 2'000, "aten::square", "model.py:5");
  launch(320'000, 100'000);
  compute();
  // One of them stays, and the kernel is launched at 20 us instead of 320.
  EXPECT_EQ(get<evidence::OperatorLoop>().savedNs, 300'000);
}

/// Each row has what recording it took, and not a share of the step's.
TEST_F(PlayedFindingsTest, ALoopsOwnRecordingIsNoCostOfIt) {
  launch(0, 2'000);
  for (int row = 1; row <= 16; ++row)
    launch(row * 20'000, 2'000, "aten::square", "model.py:5")
        .recordingBesideNs = 12'000;
  launch(340'000, 100'000).recordingBesideNs = 12'000;
  compute();
  // A row takes 8 of the 20 us, and 15 of them go.
  EXPECT_EQ(get<evidence::OperatorLoop>().savedNs, 15 * 8'000);
}

/// What holds the host up in one step of six is no cost of the loop that it
/// met.
TEST_F(PlayedFindingsTest, WhatHoldsTheHostUpIsNoCostOfALoop) {
  profile.steps.clear();
  int64_t at = 0;
  for (uint32_t step = 0; step < 6; ++step) {
    const int64_t start = at;
    for (int row = 0; row < 16; ++row) {
      at += row == 7 && step == 3 ? 520'000 : 20'000;
      launch(at, 2'000, "aten::square", "model.py:5").step = step;
    }
    at += 20'000;
    launch(at, 2'000).step = step;
    profile.steps.push_back({step, start, at + 10'000, Phase::Steady});
  }
  compute();
  // One row of a step stays. The one that was held up counts twice what is
  // usual before its call, 16 us.
  EXPECT_EQ(get<evidence::OperatorLoop>().savedNs, 6 * 15 * 20'000 + 16'000);
}

TEST_F(PlayedFindingsTest, WhatACompiledGraphLaunchesIsNoLoopOfTheLineThere) {
  for (int row = 0; row < 16; ++row)
    launch(row * 20'000, 2'000, "aten::square", "model.py:5");
  launch(320'000, 100'000);
  CompiledCall &call = profile.calls.emplace_back();
  call.durationNs = 315'000;
  compute();
  EXPECT_FALSE(find(FindingKind::OperatorLoop));
}

TEST_F(PlayedFindingsTest, ALoopBehindWhichTheDeviceHasWorkCostsItsKernels) {
  launch(0, 500'000);
  for (int row = 1; row <= 16; ++row)
    launch(row * 20'000, 5'000, "aten::square", "model.py:5");
  launch(360'000, 100'000);
  compute();
  EXPECT_EQ(get<evidence::OperatorLoop>().savedNs, 15 * 5'000);
}

TEST_F(PlayedFindingsTest, AWaitBehindALoopStillWaitsForWhatWasBeforeIt) {
  launch(0, 500'000);
  for (int64_t at = 1; at <= 16; ++at)
    launch(at * 10'000, 5'000, "aten::square", "model.py:5");
  wait(200'000, 586'000, "", "");
  launch(900'000, 50'000);
  compute();
  // One of the 16 stays.
  EXPECT_EQ(get<evidence::OperatorLoop>().savedNs, 15 * 5'000);
}

TEST_F(PlayedFindingsTest, AnotherStreamWaitsForWhatItWaitedFor) {
  // The second kernel waits for the first one, on another stream, as the third
  // one for the second.
  launch(0, 300'000, "aten::mm", "model.py:1", 7);
  ends[8] = 306'000;
  launch(8'000, 100'000, "aten::mm", "model.py:2", 8);
  ends[7] = 406'000;
  launch(16'000, 100'000, "aten::mm", "model.py:3", 7);
  wait(20'000, 508'000);
  launch(600'000, 100'000);
  compute();
  // 20 us, 5 of the wait and 92 until the last call: it runs from 506 on, where
  // the third ends, and not from 306, where its own stream has a first gap.
  EXPECT_EQ(get<evidence::HostWait>().savedNs, 706'000 - 606'000);
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
};

TEST_F(CounterFindingsTest, ClassesAreByCountersWhereThereAreSome) {
  // By the model this is compute-bound: 2e9 FLOPs in 40 µs of fp32.
  addCounted(0, 40'000,
             {{"sm_throughput_pct", 20}, {"memory_throughput_pct", 90}});
  launchAll("extern_kernels.mm", 2'000'000'000, 1000, 1000);
  profile.changeOrigin(profile.kernels[0],
                       [&](Origin &origin) { origin.inputType = "float"; });
  compute();
  evidence::PlacedLaunch worst = get<evidence::Roofline>().mostAboveRoof[0];
  EXPECT_EQ(worst.bound, Bound::Memory);
  EXPECT_TRUE(worst.isByCounters);
  EXPECT_EQ(get<evidence::Roofline>().byCounters.launches, 1u);
  EXPECT_EQ(get<evidence::Roofline>().byCounters.timeNs, 40'000);

  profile.kernels[0].counters.reset();
  compute();
  worst = get<evidence::Roofline>().mostAboveRoof[0];
  EXPECT_EQ(worst.bound, Bound::Compute);
  EXPECT_FALSE(worst.isByCounters);
  EXPECT_FALSE(find(FindingKind::SpeedOfLight));
}

TEST_F(CounterFindingsTest, TensorCoresByTheirOwnCounter) {
  // The name says tensor cores, and their counter does not.
  addCounted(0, 40'000, {{"tensor_pipe_pct", 0}});
  launchAll("extern_kernels.mm", 2'000'000'000, 1000, 1000).dtype = "bfloat16";
  profile.kernels[0].name = "nvjet_tst";
  compute();
  EXPECT_EQ(get<evidence::TensorCoresIdle>().launchesByCounters, 1u);
  EXPECT_FALSE(get<evidence::TensorCoresIdle>().isAllFP32);
  profile.counters[0].values["tensor_pipe_pct"] = 60;
  compute();
  EXPECT_FALSE(find(FindingKind::TensorCoresIdle));
}

TEST_F(CounterFindingsTest, SharesOfSomeLevelsAreALeastShare) {
  addCounted(0, 40'000,
             {{"sm_throughput_pct", 20}, {"dram_throughput_pct", 60}});
  launchAll("triton_poi_fused_0", 1'000, 1000, 1000).category =
      launch::LaunchCategory::Pointwise;
  compute();
  EXPECT_EQ(get<evidence::Roofline>().mostAboveRoof[0].bound, Bound::Memory);
  EXPECT_TRUE(get<evidence::Roofline>().mostAboveRoof[0].isByCounters);
  // A level that was not counted may be the one that bounds it.
  profile.counters[0].values["dram_throughput_pct"] = 10;
  compute();
  EXPECT_FALSE(get<evidence::Roofline>().mostAboveRoof[0].isByCounters);
}

TEST_F(CounterFindingsTest, SpeedOfLight) {
  addCounted(0, 60'000,
             {{"sm_throughput_pct", 85}, {"memory_throughput_pct", 30}});
  profile.changeOrigin(
      addCounted(60'000, 20'000,
                 {{"sm_throughput_pct", 10}, {"memory_throughput_pct", 20}}),
      [](Origin &origin) { origin.countersFrom = "launch 1 of c"; });
  addKernel(80'000, 20'000);
  profile.kernels[1].name = "b";
  profile.kernels[2].name = "c";
  compute();
  const auto &speed = get<evidence::SpeedOfLight>();
  EXPECT_EQ(speed.nearComputePeakPct, 75);
  EXPECT_EQ(speed.farFromBothPct, 25);
  EXPECT_EQ(speed.meanSMThroughputPct, 66.25);
  EXPECT_EQ(speed.countedNs, 80'000);
  EXPECT_EQ(speed.countedPct, 80);
  EXPECT_EQ(speed.inferredNs, 20'000);
  ASSERT_EQ(speed.largest.size(), 2u);
  EXPECT_EQ(speed.largest[0].kernel, "k");
  EXPECT_EQ(speed.largest[0].timeNs, 60'000);
  EXPECT_EQ(speed.largest[0].smThroughputPct, 85);
  EXPECT_FALSE(speed.largest[0].l2HitPct);
}

TEST_F(CounterFindingsTest, BytesMovedAgainstTheFewest) {
  addCounted(0, 50'000, {{"dram_read_bytes", 8e6}, {"dram_write_bytes", 2e6}});
  launchAll("triton_poi", 0, 2'000'000, 2'000'000);
  compute();
  EXPECT_EQ(largest<evidence::MemoryTraffic>().times, 2.5);
  EXPECT_EQ(largest<evidence::MemoryTraffic>().dramBytes, 10e6);
  EXPECT_EQ(largest<evidence::MemoryTraffic>().fewestBytes, 4e6);
  // 6 MB too many at 4.3 TB/s, over two steps.
  EXPECT_EQ(cost(FindingKind::MemoryTraffic), 697);
  profile.counters[0].values["dram_read_bytes"] = 2e6;
  compute();
  EXPECT_FALSE(find(FindingKind::MemoryTraffic));
}

TEST_F(CounterFindingsTest, WhatHoldsOccupancyDown) {
  Activity &kernel = addCounted(0, 50'000,
                                {{"sm_throughput_pct", 20},
                                 {"memory_throughput_pct", 30},
                                 {"achieved_occupancy_pct", 11}});
  kernel.config.own().grid = {10'000, 1, 1};
  kernel.config.own().block = {256, 1, 1};
  kernel.config.own().registers = 200;
  kernel.config.own().sharedMemory = 0;
  compute();
  EXPECT_EQ(largest<evidence::LowOccupancy>().limiter,
            OccupancyLimiter::Registers);
  // 65536 registers hold one block of 8 warps of 32 * 200, and 64 warps fit.
  EXPECT_EQ(largest<evidence::LowOccupancy>().possiblePct, 12.5);
  EXPECT_EQ(
      get<evidence::LowOccupancy>().timeNsOf.at(OccupancyLimiter::Registers),
      50'000);
  profile.kernels[0].config.own().grid = {10, 1, 1};
  compute();
  EXPECT_EQ(largest<evidence::LowOccupancy>().limiter, OccupancyLimiter::Grid);
  profile.counters[0].values["memory_throughput_pct"] = 70;
  compute();
  EXPECT_FALSE(find(FindingKind::LowOccupancy));
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
      .config.own()
      .localMemory = 64;
  compute();
  EXPECT_EQ(largest<evidence::LocalMemory>().wavefronts, 1000);
  EXPECT_EQ(largest<evidence::LocalMemory>().bytesPerThread, 64u);
  EXPECT_EQ(largest<evidence::BankConflicts>().ofActiveCyclesPct, 25);
  EXPECT_EQ(cost(FindingKind::BankConflicts), 6'250);
  EXPECT_EQ(largest<evidence::ScatteredAccess>().sectorsPerRequest, 32);
  EXPECT_EQ(largest<evidence::Stalls>().reason, StallReason::Barrier);
  EXPECT_EQ(largest<evidence::Stalls>().sharePct, 75);
  EXPECT_EQ(get<evidence::Stalls>().timeNsOf.at(StallReason::Barrier), 50'000);
  EXPECT_EQ(largest<evidence::Pipes>().pipe, Pipe::FMA);
  EXPECT_EQ(largest<evidence::Pipes>().sharePct.at(Pipe::XU), 25);
  EXPECT_EQ(largest<evidence::Divergence>().threadsPerWarp, 8);
  EXPECT_EQ(cost(FindingKind::Divergence), 18'750);

  profile.counters[0].values = {{"local_memory_wavefronts", 0},
                                {"active_cycles", 1000},
                                {"threads_per_warp", 31}};
  compute();
  for (FindingKind kind : {FindingKind::LocalMemory, FindingKind::BankConflicts,
                           FindingKind::ScatteredAccess, FindingKind::Stalls,
                           FindingKind::Pipes, FindingKind::Divergence})
    EXPECT_FALSE(find(kind)) << stringify(kind).str();
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
  // Other memory, or a share of a device.
  EXPECT_EQ(findDeviceCeilings("NVIDIA H20")->memory.rate, 4.0e12);
  EXPECT_EQ(findDeviceCeilings("NVIDIA GH200 480GB")->memory.rate, 4.0e12);
  for (llvm::StringRef name :
       {"NVIDIA H20-3e", "NVIDIA A40-8Q", "NVIDIA L40S-48C",
        "NVIDIA H100 80GB HBM2e", "NVIDIA GH200 144G HBM3e",
        "NVIDIA A100-SXM-64GB"})
    EXPECT_FALSE(findDeviceCeilings(name)) << name.str();
}

TEST(DeviceCeilings, TakesNoNameForAnother) {
  // As drivers call them, and what the table calls them; "" is not in it.
  for (auto [device, entry] :
       {std::pair<const char *, const char *>("NVIDIA GeForce RTX 4090",
                                              "RTX 4090"),
        {"NVIDIA GeForce RTX 4090 D", ""},
        {"NVIDIA GeForce RTX 4090 Laptop GPU", ""},
        {"NVIDIA GeForce RTX 4080", "RTX 4080"},
        {"NVIDIA GeForce RTX 4080 SUPER", "RTX 4080 SUPER"},
        {"NVIDIA GeForce RTX 4070 Ti SUPER", "RTX 4070 Ti SUPER"},
        {"NVIDIA GeForce RTX 4070 Ti", "RTX 4070 Ti"},
        {"NVIDIA GeForce RTX 4070 SUPER", "RTX 4070 SUPER"},
        {"NVIDIA GeForce RTX 4070", "RTX 4070"},
        {"NVIDIA GeForce RTX 3080 Ti", "RTX 3080 Ti"},
        {"NVIDIA GeForce RTX 3080 Ti Laptop GPU", ""},
        {"NVIDIA GeForce RTX 2080 Ti", ""},
        {"NVIDIA GeForce RTX 5070 Ti", "RTX 5070 Ti"},
        {"NVIDIA GeForce RTX 5070", "RTX 5070"},
        {"NVIDIA L4", "L4"},
        {"NVIDIA L40", "L40"},
        {"NVIDIA L40S", "L40S"},
        {"NVIDIA A10", "A10"},
        {"NVIDIA A10G", "A10G"},
        {"NVIDIA A100-SXM4-40GB", "A100"},
        {"NVIDIA A100-PCIE-40GB", "A100"},
        {"NVIDIA A100 80GB PCIe", "A100 80GB PCIe"},
        {"NVIDIA A100-SXM4-80GB MIG 1g.10gb", ""},
        {"GRID A100X-10C", ""},
        {"NVIDIA A30", "A30"},
        {"NVIDIA A40", "A40"},
        {"NVIDIA RTX A6000", "RTX A6000"},
        {"NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada"},
        {"Quadro RTX 6000", ""},
        {"NVIDIA H100 NVL", "H100 NVL"},
        {"NVIDIA H200", "H200"},
        {"NVIDIA H200 NVL", "H200 NVL"},
        {"NVIDIA GH200 480GB", "GH200"},
        {"NVIDIA B200", "B200"},
        {"NVIDIA GB200", "GB200"},
        {"NVIDIA B300 SXM6 AC", "B300"},
        {"NVIDIA GB300", "GB300"},
        {"NVIDIA H20", "H20"},
        {"NVIDIA H20-3e", ""},
        {"NVIDIA H800", "H800"},
        {"NVIDIA H800 PCIe", "H800 PCIe"},
        {"NVIDIA A800-SXM4-80GB", "A800-SXM4-80GB"},
        {"NVIDIA A800 80GB PCIe", "A800 80GB PCIe"},
        {"Tesla V100-SXM2-32GB", "V100-SXM2"},
        {"Tesla V100-PCIE-16GB", "V100"},
        {"Tesla V100S-PCIE-32GB", "V100S"},
        {"Tesla V100-SXM3-32GB", ""},
        {"AMD Instinct MI300X", "MI300X"},
        {"AMD Instinct MI300X VF", "MI300X"},
        {"AMD Instinct MI325X", "MI325X"},
        {"AMD Instinct MI300A", "MI300A"},
        {"AMD Instinct MI250X", "MI250X"},
        {"AMD Instinct MI250X / MI250", "MI250X"},
        {"AMD Instinct MI250", "MI250"},
        {"AMD Instinct MI210", "MI210"},
        {"AMD Instinct MI350X", "MI350X"},
        {"AMD Instinct MI355X", "MI355X"},
        {"AMD Instinct MI100", ""}}) {
    const DeviceCeilings *found = findDeviceCeilings(device);
    EXPECT_EQ(found ? found->name : "", entry) << device;
  }
}

TEST(DeviceCeilings, AreThoseThatWereMeasured) {
  Device device;
  device.kind = "cuda";
  device.name = "NVIDIA H200";
  EXPECT_EQ(findDeviceCeilings(device)->name, "H200");
  device.measured = MeasuredRates{"NVIDIA H200", 4e12, 50e12, 0, 700e12, 0};
  std::optional<DeviceCeilings> found = findDeviceCeilings(device);
  EXPECT_EQ(found->name, "NVIDIA H200");
  EXPECT_EQ(found->memory.rate, 4e12);
  EXPECT_EQ(found->bf16.origin, "measured on this device");
  EXPECT_EQ(found->fp16.rate, 788e12);
  EXPECT_EQ(found->multiprocessors, 132u);
  // Of what no table has, nothing is assumed.
  device.name = "Someone's";
  EXPECT_EQ(findDeviceCeilings(device)->fp16.rate, 0);
  device.measured.reset();
  EXPECT_FALSE(findDeviceCeilings(device));
  // A CPU's name says nothing, whatever it is.
  device.kind = "cpu";
  device.name = "H200";
  EXPECT_FALSE(findDeviceCeilings(device));
  device.measured = MeasuredRates{"Some CPU", 4e10, 1e12, 0, 0, 0};
  EXPECT_FALSE(findDeviceCeilings(device)->isGPU);
  EXPECT_EQ(findDeviceCeilings(device)->tf32.rate, 0);
}

} // namespace
