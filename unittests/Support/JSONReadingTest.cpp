// Tests of the bounds of the JSON reader.

#include "opprof/Support/JSONReading.h"

#include "gtest/gtest.h"

using namespace opprof;

static std::string readNested(size_t depth) {
  std::string text(depth, '[');
  text.append(depth, ']');
  JSONReading reading("file.json");
  return llvm::toString(reading.parse(
      text, [](JSONReading::element) { return llvm::Error::success(); }));
}

TEST(JSONReading, NestingIsBounded) {
  EXPECT_EQ(readNested(JSONReading::kMaxDepth - 1), "");
  EXPECT_NE(readNested(JSONReading::kMaxDepth + 1).find("file.json: not valid"),
            std::string::npos);
  // Deep enough to overflow the stack of a reader without a bound.
  EXPECT_NE(readNested(1 << 20).find("file.json: not valid"),
            std::string::npos);
}

TEST(JSONReading, NodesOfOtherGraphsAreObjects) {
  JSONReading reading("file.json");
  std::vector<NodeId> nodes;
  auto read = [&](llvm::StringRef text) {
    nodes.clear();
    return llvm::toString(reading.parse(text, [&](JSONReading::element root) {
      return reading.forEach(root, "nodes", [&](JSONReading::element item) {
        return reading.getNode(item, "g", "export", nodes.emplace_back());
      });
    }));
  };
  EXPECT_EQ(read(R"(["a", {"graph": "h", "stage": "joint", "name": "a"},
                     {"name": "b"}])"),
            "");
  EXPECT_EQ(nodes, (std::vector<NodeId>{{"g", "export", "a"},
                                        {"h", "joint", "a"},
                                        {"g", "export", "b"}}));
  EXPECT_EQ(read("[7]"), "file.json: nodes[0]: a node must be a name or an "
                         "object with the key \"name\"");
}
