// Repeats: found whole, disjoint and equal; never with one thing changed.

#include "RandomGraph.h"

#include "opprof/Analysis/Structure/DataflowOrder.h"
#include "opprof/Analysis/Structure/RepeatedSubgraphs.h"

#include "llvm/ADT/SmallPtrSet.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace opprof::fx;

/// A block with one way in beside the weight, and one way out.
static GraphRecipe makeBlock(RandomGraphs &random, int numNodes) {
  GraphRecipe block = random.make(numNodes);
  while (block.outputs.size() > 1) {
    NodeRecipe join;
    join.target = "aten.add.Tensor";
    join.operands = {block.outputs[0], block.outputs[1]};
    block.outputs.erase(block.outputs.begin(), block.outputs.begin() + 2);
    block.outputs.push_back(block.numValues());
    block.nodes.push_back(join);
  }
  // A residual block: the way in goes past it too, and the way out has its
  // type, so that blocks can follow each other.
  NodeRecipe residual;
  residual.target = "aten.add.Tensor";
  residual.operands = {0, block.outputs[0]};
  block.outputs = {block.numValues()};
  block.nodes.push_back(residual);
  return block;
}

static std::vector<PartitionClass> find(GraphOp graph, unsigned minNodes,
                                        bool anyOrder = false) {
  RepeatOptions options;
  options.minNodes = minNodes;
  options.equivalence.ignoreOrder = anyOrder;
  StructuralHash hash;
  return findRepeatedSubgraphs(graph, options, hash);
}

/// What holds of every result: disjoint, large enough, equal.
static void checkClasses(ArrayRef<PartitionClass> classes, unsigned minNodes) {
  llvm::SmallPtrSet<Operation *, 32> seen;
  for (const PartitionClass &repeated : classes) {
    ASSERT_GE(repeated.partitions.size(), 2u);
    Subgraph first = Subgraph::get(repeated.partitions.front().nodes);
    for (const Partition &partition : repeated.partitions) {
      EXPECT_GE(partition.nodes.size(), minNodes);
      for (Operation *node : partition.nodes)
        EXPECT_TRUE(seen.insert(node).second);
      EXPECT_TRUE(areEquivalent(first, Subgraph::get(partition.nodes)));
    }
  }
}

TEST(RepeatedSubgraphs, FindsChainsOfBlocks) {
  RandomGraphs random(21);
  for (int i = 0; i < 300; ++i) {
    TestModule test;
    GraphRecipe block = makeBlock(random, 8 + random.below(20));
    int numBlocks = 2 + random.below(10);
    GraphOp graph = buildGraph(
        *test.module, "model", [&](OpBuilder &builder, ValueRange inputs) {
          SmallVector<Value> x = {inputs[0]};
          for (int i = 0; i < numBlocks; ++i)
            x = buildNodes(builder, block, {x[0], inputs[1]},
                           "b" + std::to_string(i) + "_");
          return x;
        });
    std::vector<PartitionClass> classes = find(graph, 4);
    checkClasses(classes, 4);
    ASSERT_EQ(classes.size(), 1u) << "graph " << i;
    EXPECT_EQ(classes[0].partitions.size(), size_t(numBlocks)) << "graph " << i;
    EXPECT_EQ(classes[0].partitions[0].nodes.size(), block.nodes.size());
  }
}

TEST(RepeatedSubgraphs, NeverMergesWhatDiffers) {
  RandomGraphs random(22);
  for (Change kind : kAllChanges) {
    int numPairs = 0;
    for (int i = 0; i < 50000 && numPairs < 2000; ++i) {
      GraphRecipe block = random.make(6 + random.below(12));
      std::optional<GraphRecipe> changed = random.change(block, kind);
      if (!changed)
        continue;
      ++numPairs;
      TestModule test;
      GraphOp graph = buildGraph(
          *test.module, "pair",
          [&](OpBuilder &builder, ValueRange inputs) {
            auto first = buildNodes(builder, block, inputs.take_front(2), "a");
            auto second =
                buildNodes(builder, *changed, inputs.drop_front(2), "b");
            first.append(second);
            return first;
          },
          4);
      unsigned size = block.nodes.size();
      // The order of outputs is no part of nodes inside a graph: there it is
      // the order of the nodes.
      bool areSame = kind == Change::OutputOrder;
      for (bool anyOrder : {false, true}) {
        auto classes = find(graph, size, anyOrder);
        checkClasses(classes, size);
        // With another edge the same nodes may compute the same once their
        // order does not count.
        bool mayBeSame =
            anyOrder && (kind == Change::Edge || kind == Change::OperandOrder ||
                         kind == Change::OutputOrder);
        if (!mayBeSame) {
          EXPECT_EQ(classes.size(), areSame ? 1u : 0u)
              << "change " << int(kind);
        }
      }
      checkClasses(find(graph, 2), 2);
    }
    EXPECT_EQ(numPairs, 2000) << "change " << int(kind);
  }
}

TEST(RepeatedSubgraphs, FindsBlocksInAnyOrderWhereAsked) {
  RandomGraphs random(23);
  int numFound = 0, numMissedInOrder = 0;
  for (int i = 0; i < 200; ++i) {
    TestModule test;
    GraphRecipe block = makeBlock(random, 10);
    GraphRecipe shuffled = random.shuffle(block);
    GraphOp graph = buildGraph(
        *test.module, "model", [&](OpBuilder &builder, ValueRange inputs) {
          auto x = buildNodes(builder, block, inputs, "a");
          return buildNodes(builder, shuffled, {x[0], inputs[1]}, "b");
        });
    unsigned size = block.nodes.size();
    auto classes = find(graph, size, /*anyOrder=*/true);
    checkClasses(find(graph, 4), 4);
    numFound += !classes.empty();
    numMissedInOrder += find(graph, size).empty();
  }
  EXPECT_EQ(numFound, 200);
  EXPECT_GT(numMissedInOrder, 50);
}

TEST(RepeatedSubgraphs, FindsTheSameInEveryOrderOfTheGraph) {
  RandomGraphs random(25);
  int numMissedInOrder = 0;
  for (int i = 0; i < 1000; ++i) {
    GraphRecipe block = makeBlock(random, 4 + random.below(16));
    unsigned size = block.nodes.size(), numBlocks = 2 + random.below(6);
    GraphRecipe recorded = random.chain(block, numBlocks);
    std::optional<uint64_t> hash;
    for (const GraphRecipe &recipe :
         {recorded, random.shuffle(recorded), random.shuffle(recorded)}) {
      TestModule test;
      GraphOp graph = buildGraph(*test.module, "model", recipe);
      auto classes = find(graph, size, /*anyOrder=*/true);
      checkClasses(classes, size);
      ASSERT_EQ(classes.size(), 1u) << "graph " << i;
      EXPECT_EQ(classes[0].partitions.size(), numBlocks) << "graph " << i;
      EXPECT_EQ(classes[0].hash, hash.value_or(classes[0].hash));
      hash = classes[0].hash;
      numMissedInOrder += find(graph, size).size() != 1;
    }
  }
  EXPECT_GT(numMissedInOrder, 1000);
}

TEST(RepeatedSubgraphs, DataflowOrderIsAnOrder) {
  RandomGraphs random(26);
  for (int i = 0; i < 500; ++i) {
    GraphRecipe recipe = random.make(2 + random.below(40));
    // Some values are used by nothing, others by the outside only.
    if (recipe.outputs.size() > 1)
      recipe.outputs.resize(1 + random.below(recipe.outputs.size()));
    std::vector<std::string> order;
    for (const GraphRecipe &each : {recipe, random.shuffle(recipe)}) {
      TestModule test;
      GraphOp graph = buildGraph(*test.module, "graph", each);
      llvm::SmallPtrSet<Operation *, 32> seen;
      std::vector<std::string> targets;
      for (Operation *node : getDataflowOrder(graph)) {
        for (Value operand : node->getOperands()) {
          if (Operation *definition = operand.getDefiningOp()) {
            EXPECT_TRUE(seen.contains(definition));
          }
        }
        EXPECT_TRUE(seen.insert(node).second);
        targets.push_back(cast<NodeOp>(node).getTarget().str());
      }
      EXPECT_EQ(seen.size(), each.nodes.size());
      if (!order.empty()) {
        EXPECT_EQ(order, targets) << "graph " << i;
      }
      order = targets;
    }
  }
}

TEST(RepeatedSubgraphs, FindsNothingInSmallOrEmptyGraphs) {
  TestModule test;
  RandomGraphs random(24);
  GraphRecipe empty;
  empty.outputs = {0};
  EXPECT_TRUE(find(buildGraph(*test.module, "empty", empty), 1).empty());
  EXPECT_TRUE(find(buildGraph(*test.module, "one", random.make(1)), 1).empty());
}
