// Tests of reading and writing partition maps.

#include "opprof/Support/PartitionMap.h"

#include "gtest/gtest.h"

using namespace opprof;

static PartitionMap makeMap(llvm::StringRef graph) {
  PartitionMap map;
  map.graph = graph;
  map.stage = "export";
  map.nodeCount = 4;
  MappedClass &only = map.classes.emplace_back();
  only.id = "c0";
  only.hash = "0123456789abcdef";
  only.nodeCount = 1;
  only.partitions = {
      {"h.0", true, "", {"h.0"}, {{map.graph, "export", "neg"}}},
      {"h.1", false, "", {"h.1"}, {{map.graph, "export", "neg_1"}}},
  };
  MappedClass &nested = map.classes.emplace_back(only);
  nested.id = "c1";
  nested.parent = "c0";
  nested.partitions[0].nodes = {{map.graph, "export", "neg_1"}};
  nested.partitions[1].nodes = {{"elsewhere", "joint", "neg"}};
  map.weakClasses = {{"w0", {"shape"}, {"h.0", "h.1"}}};
  return map;
}

static std::string write(llvm::ArrayRef<PartitionMap> maps) {
  std::string text;
  llvm::raw_string_ostream os(text);
  writePartitionMaps(maps, os);
  return text;
}

static std::string errorOf(llvm::StringRef text) {
  auto maps = readPartitionMaps(text, "partitions.json");
  return maps ? "" : llvm::toString(maps.takeError());
}

TEST(PartitionMap, IsReadAsWritten) {
  for (size_t count : {0, 1, 2}) {
    std::vector<PartitionMap> maps;
    for (size_t i = 0; i < count; ++i)
      maps.push_back(makeMap("g" + std::to_string(i)));
    std::string text = write(maps);
    EXPECT_EQ(text[0], count == 1 ? '{' : '[');
    auto read = readPartitionMaps(text, "partitions.json");
    ASSERT_TRUE(bool(read)) << llvm::toString(read.takeError());
    ASSERT_EQ(read->size(), count);
    EXPECT_EQ(write(*read), text);
    if (count) {
      EXPECT_EQ(read->back().classes[1].partitions[1].nodes[0],
                (NodeId{"elsewhere", "joint", "neg"}));
    }
  }
}

TEST(PartitionMap, NamesWhatIsWrong) {
  EXPECT_EQ(errorOf(R"({"version": 2})"),
            "partitions.json: version 2 of a partition map is not known; this "
            "program reads version 1: write the file again with `opprof-opt "
            "--dedup-partitions --partition-map=FILE`");
  EXPECT_EQ(errorOf(R"([{"version": 1, "graph": "g", "classes": [
                        {"id": "c0", "partitions": [{"label": "l",
                         "role": "other", "nodes": []}]}]}])"),
            "partitions.json: [0].classes[0].partitions[0]: \"role\" must be "
            "\"unique\" or \"duplicate\"");
}

TEST(UniquePlaces, GoThroughAllLevelsOfOneGraph) {
  std::vector<PartitionMap> maps = {makeMap("g0"), makeMap("g1")};
  maps[0].classes[1].partitions[1].nodes = {{"g0", "export", "neg_2"}};
  UniquePlaces places(maps);
  NodeId neg{"g0", "export", "neg"};
  EXPECT_EQ(places.representative({"g0", "export", "neg_2"}), neg);
  EXPECT_EQ(places.representative({"g0", "export", "neg_1"}), neg);
  EXPECT_EQ(places.representative(neg), neg);
  // Another graph's node of the same name has a place of its own.
  EXPECT_EQ(places.representative({"g1", "export", "neg_1"}),
            (NodeId{"g1", "export", "neg"}));
  EXPECT_EQ(places.representative({"g2", "export", "neg_1"}),
            (NodeId{"g2", "export", "neg_1"}));
}

TEST(UniquePlaces, EndInACycle) {
  PartitionMap map = makeMap("g");
  map.classes[1].partitions[0].nodes = {{"g", "export", "neg_1"}};
  map.classes[1].partitions[1].nodes = {{"g", "export", "neg"}};
  UniquePlaces places(map);
  places.representative({"g", "export", "neg"});
}
