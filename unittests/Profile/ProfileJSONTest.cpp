// Tests of profile.opprof.json: what is written is read back the same, and
// what contradicts itself is refused.

#include "opprof/Profile/ProfileJSON.h"
#include "opprof/Profile/RunFacts.h"

#include "llvm/Support/Error.h"
#include "gtest/gtest.h"

using namespace opprof;
using namespace opprof::profile;

namespace {

std::string write(const Profile &profile) {
  std::string text;
  llvm::raw_string_ostream os(text);
  writeProfile(profile, os);
  return text;
}

/// A profile that has a value in every field.
std::unique_ptr<Profile> fullProfile() {
  auto profile = std::make_unique<Profile>();
  profile->graph = "g";
  profile->stage = "export";
  Source &source = profile->sources.emplace_back();
  source.kind = "kineto";
  source.file = "t.json.gz";
  source.rank = 3;
  source.worldSize = 8;
  source.processId = 4711;
  source.host = "example";
  source.baseTimeNs = 1700000000000000000;
  Device &device = profile->devices.emplace_back();
  device.name = "NVIDIA \"H200\"";
  device.kind = "cuda";
  device.smCount = 132;
  device.totalMemory = 150109880320;
  device.maxThreadsPerSM = 2048;
  device.warpSize = 32;
  device.computeCapability = {9, 0};
  profile->summary.stepsFrom = "profiler_step";
  profile->summary.steps = 1;
  profile->summary.undisturbedNs = 4'000;
  profile->summary.undisturbedIdleNs = 1'000;
  profile->steps = {{0, 0, 5000, Phase::Steady}};
  profile->notes = {"a note"};
  Node &own = profile->nodes.emplace_back();
  own.id = {"g", "export", "addmm"};
  own.module = "";
  own.source = "model.py:3";
  own.partition = "h.0";
  own.metrics["roof_pct"] = 12.5;
  own.inferredFrom = {.node = {"c", "post_grad", "addmm"}, .launch = ""};
  Node &other = profile->nodes.emplace_back();
  other.id = {"c", "post_grad", "addmm"};
  other.inferredFrom = {.node = {"g", "export", "addmm"}, .launch = ""};
  Node &third = profile->nodes.emplace_back();
  third.id = {"g", "joint", "addmm"};
  third.inferredFrom = {.node = {}, .launch = "launch 3 of the step"};
  LaunchRecord &launch = profile->launches.emplace_back();
  launch.compiledGraph = "c";
  launch.index = 4;
  launch.kernel = "extern_kernels.addmm";
  launch.kind = launch::LaunchKind::Extern;
  launch.category = launch::LaunchCategory::Extern;
  launch.file = "output_code.py";
  launch.line = 17;
  launch.flops = 1000;
  launch.bytesRead = 100;
  launch.bytesWritten = 10;
  launch.runs = 1;
  launch.nodes = {0, 1};
  Activity &kernel = profile->kernels.emplace_back();
  kernel.name = "sgemm";
  kernel.stream = 7;
  kernel.step = 0;
  kernel.startNs = 1001;
  kernel.durationNs = 333;
  kernel.launch = 0;
  kernel.confidence = Confidence::High;
  profile->changeOrigin(kernel, [](Origin &origin) {
    origin.rank = 3;
    origin.nodes = {0, 1};
    origin.method = "correlation";
    origin.explanation = "because";
    origin.hostOp = "aten::addmm";
    origin.inputType = "float";
  });
  kernel.launchStartNs = 900;
  kernel.launchDurationNs = 20;
  kernel.cudaGraph = true;
  kernel.config.own().grid = {1, 2, 3};
  kernel.config.own().block = {128, 1, 1};
  kernel.config.own().registers = 40;
  kernel.config.own().sharedMemory = 1024;
  kernel.config.own().blocksPerSM = 0.5;
  kernel.config.own().warpsPerSM = 2.25;
  kernel.config.own().occupancyPct = 48;
  Activity &copy = profile->copies.emplace_back();
  copy.kind = ActivityKind::Memcpy;
  copy.name = "Memcpy DtoD";
  copy.startNs = 1400;
  copy.durationNs = 8;
  copy.bytes = 64;
  copy.phase = Phase::WarmUp;
  profile->partitions.push_back({"c0", "9f86d081", "h.0", "unique", 12, 333});
  profile->calls.push_back({"c", 800, 700, 0, 5, 4});
  profile->synchronizations.push_back(
      {"cudaDeviceSynchronize", 1500, 100, "", ""});
  Finding &finding = profile->findings.emplace_back();
  finding.severityNsPerStep = 12;
  finding.nodes = {1};
  finding.evidence = evidence::Unread{
      "wall-time",
      llvm::json::Object{
          {"a", 1}, {"b", 2.5}, {"c", llvm::json::Array{"x", nullptr, true}}}};
  finding.text = "text";
  summarize(*profile);
  return profile;
}

TEST(ProfileJSON, KeepsEverything) {
  std::string text = write(*fullProfile());
  llvm::Expected<std::unique_ptr<Profile>> read = readProfile(text, "p.json");
  ASSERT_TRUE(bool(read)) << llvm::toString(read.takeError());
  EXPECT_EQ(write(**read), text);
  EXPECT_EQ((*read)->kernels[0].origin->nodes, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ((*read)->nodes[0].kernelTimeNs, 167);
  EXPECT_EQ((*read)->nodes[1].kernelTimeNs, 166);
}

TEST(ProfileJSON, WritesWhatKernelsHaveTogetherAsEachWouldBe) {
  auto profile = fullProfile();
  EXPECT_NE(write(*profile).find(R"(
 "kernels": [
  {
   "id": 0,
   "name": "sgemm",
   "device": 0,
   "stream": 7,
   "rank": 3,
   "step": 0,
   "compiled_graph": "c",
   "launch": 4,
   "start_ns": 1001,
   "duration_ns": 333,
   "nodes": [
    "addmm",
    {
     "graph": "c",
     "stage": "post_grad",
     "name": "addmm"
    }
   ],
   "method": "correlation",
   "confidence": "high",
   "explanation": "because",
   "phase": "steady",
   "host_op": "aten::addmm",
   "input_type": "float",
   "launched_at_ns": 900,
   "launch_call_ns": 20,
   "cuda_graph": true,
   "grid": [
    1,
    2,
    3
   ],
   "block": [
    128,
    1,
    1
   ],
   "registers": 40,
   "shared_memory": 1024,
   "blocks_per_sm": 0.5,
   "warps_per_sm": 2.25,
   "occupancy_pct": 48
  }
 ],
 "copies": [
  {
   "id": 0,
   "kind": "memcpy",
   "name": "Memcpy DtoD",
   "device": 0,
   "start_ns": 1400,
   "duration_ns": 8,
   "nodes": [],
   "method": "none",
   "confidence": "unattributed",
   "phase": "warm_up",
   "bytes": 64
  }
 ],)"),
            std::string::npos)
      << write(*profile);
}

TEST(ProfileJSON, KernelsOfMorePlacesThanAreKeptAreWrittenAsTheyAre) {
  auto profile = fullProfile();
  constexpr uint32_t kMany = 10'000;
  for (uint32_t id = 1; id < kMany; ++id) {
    Activity again = profile->kernels[0];
    again.id = id;
    again.startNs += id;
    again.name = profile->intern("\"kernel\n" + std::to_string(id % 5000));
    again.config.own().registers = id % 7000;
    profile->changeOrigin(again, [&](Origin &origin) {
      origin.source = profile->intern("a.py:" + std::to_string(id % 6000));
    });
    profile->kernels.push_back(again);
  }
  std::string text = write(*profile);
  llvm::Expected<std::unique_ptr<Profile>> read = readProfile(text, "p.json");
  ASSERT_TRUE(bool(read)) << llvm::toString(read.takeError());
  for (uint32_t id = 1; id < kMany; ++id) {
    const Activity &kernel = (*read)->kernels[id];
    ASSERT_EQ(kernel.name, "\"kernel\n" + std::to_string(id % 5000));
    ASSERT_EQ(kernel.config->registers, id % 7000);
    ASSERT_EQ(kernel.origin->source, "a.py:" + std::to_string(id % 6000));
  }
}

TEST(ProfileJSON, KernelsThatAreLaunchedAlikeHaveOneOrigin) {
  auto profile = fullProfile();
  for (uint32_t id : {1, 2}) {
    Activity again = profile->kernels[0];
    again.id = id;
    profile->kernels.push_back(again);
  }
  profile->changeOrigin(profile->kernels[2],
                        [](Origin &origin) { origin.module = "h.1"; });
  summarize(*profile);
  std::string text = write(*profile);
  llvm::Expected<std::unique_ptr<Profile>> read = readProfile(text, "p.json");
  ASSERT_TRUE(bool(read)) << llvm::toString(read.takeError());
  EXPECT_EQ(write(**read), text);
  for (const Profile *either : {profile.get(), read->get()}) {
    const std::vector<Activity> &kernels = either->kernels;
    EXPECT_EQ(kernels[0].origin, kernels[1].origin);
    EXPECT_NE(kernels[0].origin, kernels[2].origin);
    EXPECT_EQ(kernels[0].origin->module, "");
    EXPECT_EQ(kernels[2].origin->module, "h.1");
    EXPECT_EQ(kernels[2].origin->hostOp, "aten::addmm");
  }
  // One that is changed is not changed for others.
  (*read)->changeOrigin((*read)->kernels[1],
                        [](Origin &origin) { origin.module = "h.2"; });
  EXPECT_EQ((*read)->kernels[0].origin->module, "");
  EXPECT_EQ((*read)->kernels[1].origin->module, "h.2");
}

TEST(ProfileJSON, ReadsEvidenceOfItsOwnVersionOnly) {
  auto profile = fullProfile();
  evidence::ColdStart cold;
  cold.warmUpSteps = 2;
  cold.warmUpStepNs = 900;
  cold.steadyStepNs = 300;
  Finding &finding = profile->findings.front();
  finding.evidence = cold;
  std::string text = write(*profile);
  auto again = readProfile(text, "p.json");
  ASSERT_TRUE(bool(again)) << llvm::toString(again.takeError());
  EXPECT_EQ((*again)->findings[0].kind(), FindingKind::ColdStart);
  EXPECT_EQ(std::get<evidence::ColdStart>((*again)->findings[0].evidence)
                .warmUpStepNs,
            900);

  // A number more, one less, another type, an unknown kind: kept as they are.
  for (auto [from, to] :
       {std::pair<std::string, std::string>{"\"warm_up_steps\": 2",
                                            "\"warm_up_steps\": 2, \"new\": 1"},
        {"\"steady_ns_per_step\": 300,", ""},
        {"\"warm_up_steps\": 2", "\"warm_up_steps\": \"two\""},
        {"\"cold-start\"", "\"of-a-later-version\""}}) {
    std::string other = text;
    ASSERT_NE(other.find(from), std::string::npos) << from;
    other.replace(other.find(from), from.size(), to);
    auto kept = readProfile(other, "p.json");
    ASSERT_TRUE(bool(kept)) << llvm::toString(kept.takeError());
    EXPECT_FALSE((*kept)->findings[0].kind());
    EXPECT_EQ((*kept)->findings[0].text, "text");
    auto twice = readProfile(write(**kept), "p.json");
    ASSERT_TRUE(bool(twice)) << llvm::toString(twice.takeError());
    EXPECT_EQ(write(**twice), write(**kept));
    EXPECT_EQ((*kept)->findings[0].id(), to == "\"of-a-later-version\""
                                             ? "of-a-later-version"
                                             : "cold-start");
  }
}

std::string errorOf(llvm::StringRef text) {
  llvm::Expected<std::unique_ptr<Profile>> read = readProfile(text, "p.json");
  return read ? "" : llvm::toString(read.takeError());
}

TEST(ProfileJSON, RefusesWhatMakesNoSense) {
  EXPECT_NE(errorOf("").find("p.json: not valid JSON"), std::string::npos);
  EXPECT_NE(errorOf("[]").find("p.json: expected an object"),
            std::string::npos);
  EXPECT_NE(errorOf("{}").find("\"version\" is missing"), std::string::npos);
  EXPECT_NE(errorOf(R"({"version": 9})").find("version 9"), std::string::npos);
  EXPECT_NE(errorOf(R"({"version": 1, "kernels": []})").find("summary"),
            std::string::npos);
  auto kernel = [](llvm::StringRef keys) {
    return (R"({"version": 1, "summary": {}, "kernels": [{)" + keys + "}]}")
        .str();
  };
  EXPECT_EQ(errorOf(kernel(R"("id": 1, "start_ns": 1, "duration_ns": 1,
                              "confidence": "high")")),
            "p.json: kernels[0]: \"id\" must be the place in the list");
  EXPECT_EQ(errorOf(kernel(R"("id": 0, "start_ns": 1, "duration_ns": -1,
                              "confidence": "high")")),
            "p.json: kernels[0]: \"duration_ns\" is negative");
  EXPECT_EQ(errorOf(kernel(R"("id": 0, "start_ns": 1, "duration_ns": 1,
                              "confidence": "certain")")),
            "p.json: kernels[0]: \"certain\" is no known \"confidence\"");
  EXPECT_EQ(errorOf(kernel(R"("id": 0, "start_ns": 1, "duration_ns": 1,
                              "nodes": ["x"], "confidence": "high")")),
            "p.json: kernels[0].nodes[0]: node 'x' is not in \"nodes\"");
  EXPECT_EQ(errorOf(kernel(R"("id": 0, "start_ns": 9e99, "duration_ns": 1,
                              "confidence": "high")")),
            "p.json: kernels[0]: \"start_ns\" must be a whole number");
}

TEST(ProfileJSON, RefusesDurationsThatOverflow) {
  std::string text = R"({"version": 1, "summary": {}, "kernels": [)";
  for (int id = 0; id < 9; ++id)
    text += (id ? "," : "") + std::string(R"({"id": )") + std::to_string(id) +
            R"(, "start_ns": 0, "duration_ns": 1152921504606846976,
                "confidence": "high"})";
  EXPECT_NE(errorOf(text + "]}").find("add up to more than lifetimes"),
            std::string::npos);
}

TEST(ProfileJSON, SurvivesEveryCut) {
  std::string text = write(*fullProfile());
  for (size_t size = 0; size + 2 < text.size(); ++size)
    EXPECT_NE(errorOf(llvm::StringRef(text).take_front(size)), "") << size;
}

TEST(RunFacts, AreReadAndKept) {
  auto facts = readRunFacts(R"({"version": 1, "mode": "cudagraphs",
    "differs": "another program", "versions": {"torch": "2.13.0"}, "step": {"median_ns": 5, "steps_ns": [5], "loop_ns": 4}, "eager_step": {"median_ns": 9},
    "counters": {"mode": "unique", "metrics": "default", "passes": 2,
                 "caches": "not flushed"},
    "memory": {"peak_bytes": 7, "peak_reserved_bytes": 8}})",
                            "run.json");
  ASSERT_TRUE(bool(facts)) << llvm::toString(facts.takeError());
  auto profile = fullProfile();
  profile->run = *facts;
  std::string text = write(*profile);
  auto again = readProfile(text, "p.json");
  ASSERT_TRUE(bool(again)) << llvm::toString(again.takeError());
  EXPECT_EQ(write(**again), text);
  EXPECT_EQ((*again)->run->mode, "cudagraphs");
  EXPECT_EQ((*again)->run->differs, "another program");
  EXPECT_EQ((*again)->run->torch, "2.13.0");
  EXPECT_EQ((*again)->run->eagerStepNs, 9);
  EXPECT_EQ((*again)->run->loopNs, 4);
  EXPECT_EQ((*again)->run->passes, 2u);
  EXPECT_EQ((*again)->run->peakBytes, 7u);
  EXPECT_EQ((*again)->run->peakReservedBytes, 8u);
}

TEST(RunFacts, ErrorsNameThePlace) {
  auto errorIn = [](llvm::StringRef text) {
    auto facts = readRunFacts(text, "run.json");
    EXPECT_FALSE(bool(facts));
    return facts ? "" : llvm::toString(facts.takeError());
  };
  EXPECT_NE(errorIn("[").find("run.json: not valid JSON"), std::string::npos);
  EXPECT_NE(errorIn("{}").find("\"version\" is missing"), std::string::npos);
  EXPECT_NE(errorIn(R"({"version": 1, "step": {"median_ns": "x"}})")
                .find("run.json: step: \"median_ns\" must be"),
            std::string::npos);
  EXPECT_NE(errorIn(R"({"version": 1, "step": {"median_ns": -1}})")
                .find("no time of a step"),
            std::string::npos);
}

} // namespace
