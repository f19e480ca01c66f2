// Tests of which launches are counted, and which others they stand for.

#include "opprof/Join/Selection.h"

#include "gtest/gtest.h"

using namespace opprof;
using namespace opprof::join;

namespace {

using Indices = std::vector<uint32_t>;
using StandsFor = std::map<uint32_t, Indices>;

class SelectionTest : public ::testing::Test {
protected:
  SelectionTest() { wrappers.add(0, "/cache/cabc.py", "code"); }

  /// Launches of one compiled graph, by the exported nodes that each computes;
  /// launch i is on line 10 + i.
  void addMap(std::vector<std::vector<std::string>> launches) {
    launch::LaunchMap &map = maps.emplace_back();
    map.graph = "g";
    for (const auto &nodes : launches) {
      launch::Launch &launch = map.launches.emplace_back();
      launch.index = map.launches.size() - 1;
      launch.line = 10 + launch.index;
      launch.kernel = "fused";
      for (const std::string &node : nodes)
        launch.nodes.emplace_back().from = {{"net", "export", node}};
    }
  }
  /// The first of the partitions is the unique one.
  void addClass(std::vector<std::vector<std::string>> places,
                const std::string &graph = "net") {
    PartitionMap *map = nullptr;
    for (PartitionMap &known : partitions)
      if (known.graph == graph)
        map = &known;
    if (!map) {
      map = &partitions.emplace_back();
      map->graph = graph;
      map->stage = "export";
    }
    MappedClass &added = map->classes.emplace_back();
    for (const auto &names : places) {
      MappedPartition &place = added.partitions.emplace_back();
      place.isUnique = added.partitions.size() == 1;
      for (const std::string &name : names)
        place.nodes.push_back({graph, "export", name});
    }
  }
  StepLaunch &addLine(uint32_t line, const std::string &kernel = "fused") {
    StepLaunch &launch = step.emplace_back();
    launch.kernel = kernel;
    launch.identity.file = "/cache/cabc.py";
    launch.identity.line = line;
    return launch;
  }
  void addNode(const std::string &name, const std::string &graph = "net") {
    StepLaunch &launch = step.emplace_back();
    launch.kernel = "k";
    launch.identity.node = name;
    launch.identity.graph = graph;
  }
  LayerInputs layers() const { return {partitions, maps, &wrappers}; }

  std::vector<launch::LaunchMap> maps;
  std::vector<PartitionMap> partitions;
  WrapperFiles wrappers;
  std::vector<StepLaunch> step;
};

TEST_F(SelectionTest, LaunchesOfDuplicatesAreNotCounted) {
  addMap({{"embed"}, {"a0", "b0"}, {"a1", "b1"}, {"b1", "head"}, {}});
  addClass({{"a0", "b0"}, {"a1", "b1"}});
  for (uint32_t line : {10, 11, 12, 13, 14})
    addLine(line);
  step.emplace_back().kernel = "of no wrapper";
  SelectedLaunches selected = selectUnique(step, layers());
  EXPECT_EQ(selected.indices, (Indices{0, 1, 3, 4, 5}));
  EXPECT_EQ(selected.standsFor, (StandsFor{{1, {2}}}));
  EXPECT_TRUE(knowsLaunches(step, layers()));
  EXPECT_FALSE(knowsLaunches(llvm::ArrayRef(step).drop_front(5), layers()));
  // What runs other kernels is other work, whatever the graph says.
  step[2].kernel = "another";
  EXPECT_TRUE(selectUnique(step, layers()).standsFor.empty());
}

TEST_F(SelectionTest, OneLaunchOfEachWorkIsCounted) {
  // The unique partition's first launch computes the embedding too, so the
  // first duplicate's stands for the others'.
  addMap({{"embed", "a0"}, {"a1"}, {"a2"}});
  addClass({{"a0"}, {"a1"}, {"a2"}});
  for (uint32_t line : {10, 11, 12})
    addLine(line);
  EXPECT_EQ(selectUnique(step, layers()).standsFor, (StandsFor{{1, {2}}}));
}

TEST_F(SelectionTest, LinesOutsideOfTheMapAreCounted) {
  addMap({{"a0"}, {"a1"}});
  addClass({{"a0"}, {"a1"}});
  addLine(10);
  addLine(99);
  addLine(11).identity.file = "/cache/none.py";
  EXPECT_EQ(selectUnique(step, layers()).indices, (Indices{0, 1, 2}));
}

TEST_F(SelectionTest, WithoutRepeatsEveryNodeIsCounted) {
  addClass({{"x"}});
  for (const char *name : {"n0", "n1", "n2"})
    addNode(name);
  EXPECT_TRUE(knowsLaunches(step, layers()));
  EXPECT_EQ(selectUnique(step, layers()).indices, (Indices{0, 1, 2}));
  step.clear();
  addNode("n0", "another");
  EXPECT_FALSE(knowsLaunches(step, layers()));
}

TEST_F(SelectionTest, NodesOfOneNameInTwoGraphsAreTwo) {
  addClass({{"a"}, {"b"}});
  addClass({{"b"}, {"a"}}, "other");
  addNode("a");
  addNode("b");
  addNode("a", "other");
  addNode("b", "other");
  SelectedLaunches selected = selectUnique(step, layers());
  EXPECT_EQ(selected.indices, (Indices{0, 3}));
  EXPECT_EQ(selected.standsFor, (StandsFor{{0, {1}}, {3, {2}}}));
}

TEST_F(SelectionTest, WithoutPartitionsTheSameKernelsAreTheSameWork) {
  addMap({{"a"}, {"b"}, {"c"}});
  maps[0].launches[2].flops = 100;
  for (uint32_t line : {10, 11, 12})
    addLine(line);
  addLine(99).grid = {4, 1, 1};
  SelectedLaunches selected = selectSameKernels(step, layers());
  EXPECT_EQ(selected.indices, (Indices{0, 2, 3}));
  EXPECT_EQ(selected.standsFor, (StandsFor{{0, {1}}}));
}

TEST_F(SelectionTest, LaunchesAreNarrowedByNameThenTimeThenPlace) {
  for (auto [name, time] : std::initializer_list<std::pair<const char *, int>>{
           {"a", 5}, {"b", 9}, {"a", 5}, {"c", 1}, {"b", 9}, {"b", 9}}) {
    StepLaunch &launch = step.emplace_back();
    launch.kernel = name;
    launch.durationNs = time;
  }
  auto narrowed = [&](const LaunchFilter &filter,
                      Indices indices = {0, 1, 2, 3, 4, 5}) {
    SelectedLaunches selected;
    selected.indices = indices;
    return narrow(selected, step, filter).indices;
  };
  EXPECT_EQ(narrowed({}), (Indices{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(narrowed({.named = Indices{0, 2, 3}}), (Indices{0, 2, 3}));
  EXPECT_EQ(narrowed({.top = 1}), (Indices{1, 4, 5}));
  EXPECT_EQ(narrowed({.top = 2}, {0, 1, 3}), (Indices{0, 1}));
  EXPECT_EQ(narrowed({.skip = 1, .count = 2}), (Indices{1, 2}));
  EXPECT_EQ(narrowed({.named = Indices{1, 4, 5}, .skip = 1}), (Indices{4, 5}));
  EXPECT_EQ(narrowed({.named = Indices{0, 2, 3}, .top = 1, .count = 1}),
            (Indices{0}));
  EXPECT_TRUE(narrowed({.skip = 9}).empty());
  // What a launch stands for goes with it.
  SelectedLaunches selected;
  selected.indices = {0, 1};
  selected.standsFor = {{0, {2}}, {1, {4, 5}}};
  EXPECT_EQ(narrow(selected, step, {.top = 1}).standsFor,
            (StandsFor{{1, {4, 5}}}));
}

} // namespace
