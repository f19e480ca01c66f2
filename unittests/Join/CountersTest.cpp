// Tests of the way of counters to kernels and nodes.

#include "opprof/Join/Counters.h"
#include "opprof/Profile/ProfileJSON.h"

#include "llvm/Support/Error.h"
#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"

using namespace opprof;
using namespace opprof::join;
using namespace opprof::profile;
using namespace opprof::trace;

namespace {

/// Two steps of a compiled graph: launch 0 computes `embed`; 1 and 2, of two
/// kernels each, the same work for `a0` and its duplicate `a1`.
class CountersTest : public ::testing::Test {
protected:
  CountersTest() {
    launch::LaunchMap &map = maps.emplace_back();
    map.graph = "g";
    for (const char *name : {"embed", "a0", "a1"}) {
      launch::Launch &launch = map.launches.emplace_back();
      launch.index = map.launches.size() - 1;
      launch.file = "output_code.py";
      launch.line = 10 + launch.index;
      launch::LaunchNode &node = launch.nodes.emplace_back();
      node.name = "post";
      node.from = {{"net", "export", name}};
      LaunchRecord &record = profile.launches.emplace_back();
      record.compiledGraph = "g";
      record.index = launch.index;
      Node &exported = profile.nodes.emplace_back();
      exported.id = {"net", "export", name};
      record.nodes = {uint32_t(profile.nodes.size() - 1)};
    }
    profile.graph = "net";
    profile.stage = "export";
    PartitionMap &partitionMap = partitions.emplace_back();
    partitionMap.graph = "net";
    partitionMap.stage = "export";
    MappedClass &only = partitionMap.classes.emplace_back();
    only.id = "c0";
    only.partitions = {
        {"first", true, "", {}, {{"net", "export", "a0"}}},
        {"second", false, "", {}, {{"net", "export", "a1"}}},
    };
    wrappers.add(0, "/cache/cabc.py", "code");
    for (uint32_t step = 0; step < 2; ++step)
      for (uint32_t launch : {0, 1, 1, 2, 2})
        addKernel(launch, step);
    inputs.maps = maps;
    inputs.partitions = partitions;
    inputs.wrappers = &wrappers;
  }

  Activity &addKernel(std::optional<uint32_t> launch,
                      std::optional<uint32_t> step) {
    Activity &kernel = profile.kernels.emplace_back();
    kernel.id = profile.kernels.size() - 1;
    // A launch's second kernel has another name.
    kernel.name =
        launch && *launch && kernel.id % 5 % 2 == 0 ? "reduce" : "main";
    kernel.step = step;
    kernel.startNs = 100 * kernel.id;
    kernel.durationNs = launch && *launch ? 30 : 10;
    if (launch) {
      kernel.launch = *launch;
      profile.changeOrigin(kernel,
                           [&](Origin &origin) { origin.nodes = {*launch}; });
      profile.nodes[*launch].kernels.push_back(kernel.id);
    }
    return kernel;
  }

  /// One counted step; `counted` has "stands_for" after a colon.
  static std::string json(std::vector<std::pair<int, std::string>> counted,
                          const std::string &file = "/cache/cabc.py",
                          const std::string &last = "reduce") {
    std::string text =
        R"({"version": 1, "made_of": {"instructions": ["smsp__inst_executed.sum"]},
            "steps": [{"launches": [)";
    const char *names[] = {"main", "main", "reduce", "main", last.c_str()};
    int lines[] = {10, 11, 11, 12, 12};
    for (int i = 0; i < 5; ++i)
      text += llvm::formatv("{0}{{\"index\": {1}, \"kernel\": \"{2}\", "
                            "\"graph\": false, \"file\": \"{3}\", "
                            "\"line\": {4}}",
                            i ? ", " : "", i, names[i], file, lines[i])
                  .str();
    text += R"(], "counters": [)";
    for (auto [position, row] : llvm::enumerate(counted))
      text += llvm::formatv(
                  "{0}{{\"launch\": {1}, \"raw\": {{\"x__y.sum\": {2}, "
                  "\"smsp__inst_executed.sum\": 7}, \"metrics\": "
                  "{{\"instructions\": {3}, \"ipc\": {4}, \"registers\": {5}}, "
                  "\"absent\": {{\"l1_hit_pct\": \"was not collected\"}{6}}",
                  position ? ", " : "", row.first, 10 + row.first,
                  100 + row.first, 1 + row.first, 32 + row.first, row.second)
                  .str();
    return text + R"(], "report": {"absent": {"foo": "no such metric"}}}]})";
  }

  void attach(const std::string &text) {
    auto file = readCounters(text, "counters.json");
    ASSERT_TRUE(bool(file)) << llvm::toString(file.takeError());
    attachCounters(profile, *file, inputs);
  }
  /// A value of each kernel of the first step; 0 where it has none.
  std::vector<double> values(const std::string &name) {
    std::vector<double> all;
    for (const Activity &kernel : llvm::ArrayRef(profile.kernels).take_front(5))
      all.push_back(kernel.counters
                        ? profile.counters[*kernel.counters].values[name]
                        : 0);
    return all;
  }
  std::string error(const std::string &text) {
    auto file = readCounters(text, "counters.json");
    EXPECT_FALSE(bool(file));
    return file ? "" : llvm::toString(file.takeError());
  }

  Profile profile;
  std::vector<launch::LaunchMap> maps;
  std::vector<PartitionMap> partitions;
  WrapperFiles wrappers;
  AttributionInputs inputs;
};

TEST_F(CountersTest, ReachKernelsAndNodes) {
  attach(json({{0, ""}, {1, ""}, {2, ""}, {3, ""}, {4, ""}}));
  EXPECT_EQ(values("instructions"),
            (std::vector<double>{100, 101, 102, 103, 104}));
  EXPECT_EQ(profile.kernels[7].counters, profile.kernels[2].counters);
  EXPECT_EQ(profile.counters[0].absent["l1_hit_pct"], "was not collected");
  // Raw counters that values are made of are not repeated.
  EXPECT_EQ(profile.counters[0].values.count("smsp__inst_executed.sum"), 0u);
  const Node &embed = profile.nodes[0], &a0 = profile.nodes[1];
  EXPECT_EQ(embed.metrics.at("instructions"), 100);
  // Amounts of one step, rates by time, the largest limit.
  EXPECT_EQ(a0.metrics.at("instructions"), 203);
  EXPECT_EQ(a0.metrics.at("x__y.sum"), 23);
  EXPECT_EQ(a0.metrics.at("ipc"), 2.5);
  EXPECT_EQ(a0.metrics.at("registers"), 34);
  EXPECT_FALSE(a0.inferredFrom);
  EXPECT_EQ(profile.kernels[1].origin->countersFrom, "");
  ASSERT_EQ(profile.notes.size(), 1u);
  EXPECT_EQ(profile.notes[0], "foo was not collected: no such metric");
}

TEST_F(CountersTest, DuplicatesTakeTheirRepresentativesAndSaySo) {
  attach(json(
      {{0, ""}, {1, ", \"stands_for\": [3]"}, {2, ", \"stands_for\": [4]"}}));
  EXPECT_EQ(values("instructions"),
            (std::vector<double>{100, 101, 102, 101, 102}));
  EXPECT_EQ(profile.kernels[3].origin->countersFrom, "launch 1 of g");
  EXPECT_EQ(profile.nodes[2].metrics.at("ipc"), 2.5);
  EXPECT_EQ(metricsOriginIn(profile, profile.nodes[2]), "a0");
  EXPECT_FALSE(profile.nodes[1].inferredFrom);
}

TEST_F(CountersTest, NodesOfOneNameInTwoGraphsAreTwo) {
  // Another graph has a1 too, where it is the unique partition's own.
  PartitionMap &other = partitions.emplace_back(partitions.front());
  other.graph = "other";
  other.classes.front().partitions = {
      {"first", true, "", {}, {{"other", "export", "a1"}}},
      {"second", false, "", {}, {{"other", "export", "a0"}}},
  };
  inputs.partitions = partitions;
  attach(json(
      {{0, ""}, {1, ", \"stands_for\": [3]"}, {2, ", \"stands_for\": [4]"}}));
  EXPECT_EQ(metricsOriginIn(profile, profile.nodes[2]), "a0");
  EXPECT_EQ(profile.nodes[2].inferredFrom->node.graph, "net");
}

TEST_F(CountersTest, OfAnotherKernelAreNot) {
  attach(json({{0, ""}, {3, ""}, {4, ""}}, "/cache/cabc.py", "other"));
  EXPECT_EQ(values("instructions"), (std::vector<double>{100, 0, 0, 103, 0}));
  EXPECT_TRUE(profile.nodes[2].metrics.empty());
  EXPECT_EQ(profile.nodes[2].metricsAbsent["counters"],
            "2 of its 4 kernels were not counted");
  EXPECT_EQ(profile.notes.back(),
            "2 kernels have no counters because another kernel, or none, ran "
            "in their place when counters were taken");
}

TEST_F(CountersTest, OfAnotherProgramReachNothing) {
  attach(json({{0, ""}}, "/no/such/file.py"));
  EXPECT_EQ(values("instructions"), (std::vector<double>(5, 0)));
  EXPECT_EQ(profile.notes.back(),
            "counters were taken, and none of the launches that they are of "
            "is one of the profile's");
}

TEST_F(CountersTest, KernelsOfCudaGraphsAreMarked) {
  for (Activity &kernel : profile.kernels)
    kernel.cudaGraph = true;
  attach(json({{0, ", \"inferred\": \"outside of the CUDA graph\""}}));
  EXPECT_EQ(profile.kernels[0].origin->countersFrom,
            "the same kernel outside of the CUDA graph");
  EXPECT_EQ(metricsOriginIn(profile, profile.nodes[0]), "embed");
}

TEST_F(CountersTest, WithoutAGraphTheirOrderInTheStepCounts) {
  profile.graph.clear();
  profile.launches.clear();
  profile.nodes.clear();
  profile.kernels.clear();
  inputs = {};
  for (uint32_t step : {0, 1})
    for (const char *name : {"main", "main", "reduce", "main", "other"})
      addKernel(std::nullopt, step).name = name;
  attach(json({{1, ", \"stands_for\": [3]"}, {2, ""}, {4, ""}}));
  EXPECT_EQ(values("instructions"), (std::vector<double>{0, 101, 102, 101, 0}));
  EXPECT_EQ(profile.kernels[7].counters, profile.kernels[2].counters);
  EXPECT_EQ(profile.kernels[3].origin->countersFrom, "launch 1 of the step");
  EXPECT_EQ(profile.notes.back(),
            "2 kernels have no counters because another kernel, or none, ran "
            "in their place when counters were taken");
}

TEST_F(CountersTest, NodesOfAnEagerRun) {
  profile.kernels.clear();
  profile.launches.clear();
  maps.clear();
  inputs.maps = {};
  for (Node &node : profile.nodes)
    node.kernels.clear();
  Activity &kernel = addKernel(1, 0);
  kernel.launch.reset();
  kernel.name = "main";
  attach(R"({"version": 1, "steps": [{"launches": [
    {"index": 0, "kernel": "main", "node": "a0", "graph": "net",
     "stage": "export"}],
    "counters": [{"launch": 0, "metrics": {"ipc": 3}}]}]})");
  EXPECT_EQ(profile.nodes[1].metrics.at("ipc"), 3);
}

TEST_F(CountersTest, WithoutStepsTurnsRepeat) {
  profile.kernels.clear();
  for (Node &node : profile.nodes)
    node.kernels.clear();
  for (int run = 0; run < 3; ++run)
    addKernel(0, std::nullopt).name = "main";
  attach(json({{0, ""}}));
  for (const Activity &kernel : profile.kernels)
    EXPECT_TRUE(kernel.counters);
}

/// `text` with the values of a range over the step.
static std::string withWhole(std::string text) {
  text.insert(text.rfind(", \"report\""),
              R"(, "whole": {"raw": {"x__y.sum": 20, "smsp__inst_executed.sum":
                 9}, "metrics": {"instructions": 500, "time_ns": 900, "ipc": 2},
                 "absent": {"l1_hit_pct": "was not collected"},
                 "report": {"absent": {"foo": "no such metric"}}})");
  return text;
}

TEST_F(CountersTest, WholeStepBesideItsKernels) {
  attach(withWhole(json(
      {{0, ""}, {1, ", \"stands_for\": [3]"}, {2, ", \"stands_for\": [4]"}})));
  ASSERT_TRUE(profile.stepCounters);
  const StepCounters &step = *profile.stepCounters;
  EXPECT_EQ(step.row.values.at("instructions"), 500);
  EXPECT_EQ(step.row.values.at("ipc"), 2);
  EXPECT_EQ(step.row.values.at("x__y.sum"), 20);
  EXPECT_EQ(step.row.values.count("smsp__inst_executed.sum"), 0u);
  EXPECT_EQ(step.row.absent.at("l1_hit_pct"), "was not collected");
  // Stand-ins count for those that they stand for; rates have no sum, and the
  // time of the step has the gaps in it.
  EXPECT_EQ(step.kernelSums, (std::map<std::string, double>{
                                 {"instructions", 506}, {"x__y.sum", 56}}));
  EXPECT_EQ(step.summedKernels, 5u);
  EXPECT_EQ(step.countedKernels, 3u);
  // Kernels and step lack the same counter, which is said once.
  EXPECT_EQ(profile.notes, (std::vector<std::string>{
                               "foo was not collected: no such metric"}));

  std::string written;
  llvm::raw_string_ostream os(written);
  writeProfile(profile, os);
  auto again = readProfile(written, "profile.json");
  ASSERT_TRUE(bool(again)) << llvm::toString(again.takeError());
  ASSERT_TRUE((*again)->stepCounters);
  EXPECT_EQ((*again)->stepCounters->row.values, step.row.values);
  EXPECT_EQ((*again)->stepCounters->row.absent, step.row.absent);
  EXPECT_EQ((*again)->stepCounters->kernelSums, step.kernelSums);
  EXPECT_EQ((*again)->stepCounters->summedKernels, 5u);
  EXPECT_EQ((*again)->stepCounters->countedKernels, 3u);
}

TEST_F(CountersTest, SumsThatNoNumberCanBeAreLeftOut) {
  std::string text =
      withWhole(json({{0, ""}, {1, ""}, {2, ""}, {3, ""}, {4, ""}}));
  for (size_t at = 0; (at = text.find("\"ipc\": ", at)) != text.npos; ++at)
    text.replace(at + 7, 1, "1e308, \"instructions\": 1e308, \"x\": 1");
  attach(text);
  ASSERT_TRUE(profile.stepCounters);
  EXPECT_FALSE(profile.stepCounters->kernelSums.contains("instructions"));
  EXPECT_TRUE(profile.stepCounters->kernelSums.contains("x__y.sum"));
  EXPECT_EQ(profile.nodes[1].metricsAbsent["instructions"],
            "its sum is more than a number can be");
  std::string written;
  llvm::raw_string_ostream os(written);
  writeProfile(profile, os);
  auto again = readProfile(written, "profile.json");
  EXPECT_TRUE(bool(again)) << llvm::toString(again.takeError());
}

TEST_F(CountersTest, WithoutAKernelThereIsNoSum) {
  attach(withWhole(json({{0, ""}, {1, ", \"stands_for\": [3]"}})));
  ASSERT_TRUE(profile.stepCounters);
  EXPECT_TRUE(profile.stepCounters->kernelSums.empty());
  EXPECT_EQ(profile.stepCounters->row.values.at("instructions"), 500);
}

TEST_F(CountersTest, ErrorsNameThePlace) {
  EXPECT_NE(error("{").find("counters.json: not valid JSON"),
            std::string::npos);
  EXPECT_NE(error("{}").find("\"version\" is missing"), std::string::npos);
  EXPECT_NE(error(R"({"version": 1})").find("\"steps\" is missing"),
            std::string::npos);
  EXPECT_NE(error(R"({"version": 1, "steps": [{"launches": [],
               "counters": [{"launch": 4}]}]})")
                .find("steps[0].counters[0]: launch 4 is not in \"launches\""),
            std::string::npos);
  EXPECT_NE(error(R"({"version": 1, "steps": [{"launches":
               [{"index": 1, "kernel": "k"}], "counters": []}]})")
                .find("steps[0].launches[0]: \"index\" must be the place"),
            std::string::npos);
  EXPECT_NE(error(R"({"version": 1, "steps": [{"launches": [], "counters": [],
               "whole": {"metrics": {"ipc": "2"}}}]})")
                .find("steps[0].whole.metrics: \"ipc\" must be a number"),
            std::string::npos);
  std::string whole = withWhole(json({{0, ", \"stands_for\": [3]"}}));
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(error(whole.substr(0, size)).empty());
}

TEST_F(CountersTest, RawCountersAreKeptWhereNothingIsSaidOfThem) {
  std::string text = json({{0, ""}});
  size_t begin = text.find("\"made_of\""), end = text.find("\"steps\"");
  attach(text.erase(begin, end - begin));
  EXPECT_EQ(profile.counters[0].values.at("smsp__inst_executed.sum"), 7);
  EXPECT_NE(error(R"({"version": 1, "made_of": {"ipc": [2]}, "steps": []})")
                .find("made_of.ipc[0]: expected a string"),
            std::string::npos);
}

TEST_F(CountersTest, FailedCountingIsANote) {
  attach(R"({"version": 1, "steps": [{"launches": [], "counters": [],
             "report": {"failed": "pass 2: RuntimeError: no"}}]})");
  EXPECT_EQ(profile.notes.back(), "no counters: pass 2: RuntimeError: no");
}

} // namespace
