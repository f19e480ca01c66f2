// Patterns: what they leave open, and matches that would not be safe.

#include "opprof/Analysis/Structure/Equivalence.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace opprof::fx;

namespace {
/// A module whose first graph is a pattern and whose second one is searched.
struct Search {
  explicit Search(StringRef text) {
    context.loadDialect<FXDialect>();
    module = parseSourceString<ModuleOp>(text, &context);
    if (!module)
      return;
    auto graphs = llvm::to_vector(module->getOps<GraphOp>());
    FailureOr<SubgraphMatcher> matcher = SubgraphMatcher::get(graphs[0]);
    isValid = succeeded(matcher);
    if (isValid)
      matches = matcher->matchAll(graphs[1]);
  }
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  bool isValid = false;
  SmallVector<SubgraphMatch, 0> matches;
};
} // namespace

static constexpr StringLiteral kLinearPair = R"(
  fx.graph @pattern(%x: tensor<*xf32>, %a: tensor<*xf32>, %b: tensor<*xf32>) -> (tensor<*xf32>, tensor<*xf32>) {
    %0 = fx.node "aten.linear.default"(%x, %a) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    %1 = fx.node "aten.linear.default"(%x, %b) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    fx.output(%0, %1) : (tensor<*xf32>, tensor<*xf32>)
  })";

TEST(SubgraphMatcher, FindsSinksThatShareAnInput) {
  Search search((kLinearPair + R"(
  fx.graph @graph(%x: tensor<4x8xf32>, %a: tensor<8x8xf32>, %b: tensor<2x8xf32>, %y: tensor<4x8xf32>)
      -> (tensor<4x8xf32>, tensor<4x2xf32>, tensor<4x8xf32>) {
    %p = fx.node "aten.linear.default"(%x, %a) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %relu = fx.node "aten.relu.default"(%p) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %q = fx.node "aten.linear.default"(%x, %b) : (tensor<4x8xf32>, tensor<2x8xf32>) -> tensor<4x2xf32>
    %r = fx.node "aten.linear.default"(%y, %a) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    fx.output(%relu, %q, %r) : (tensor<4x8xf32>, tensor<4x2xf32>, tensor<4x8xf32>)
  })")
                    .str());
  ASSERT_EQ(search.matches.size(), 1u);
  const SubgraphMatch &match = search.matches[0];
  ASSERT_EQ(match.nodes.size(), 2u);
  EXPECT_TRUE(match.nodes[0]->isBeforeInBlock(match.nodes[1]));
  EXPECT_EQ(match.insertionPoint, match.nodes[0]);
  EXPECT_EQ(match.inputs.size(), 3u);
  EXPECT_EQ(match.outputs[1], match.nodes[1]->getResult(0));
}

TEST(SubgraphMatcher, RefusesWhatFeedsItself) {
  // The second weight is made of the first product.
  Search search((kLinearPair + R"(
  fx.graph @graph(%x: tensor<8x8xf32>, %a: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %p = fx.node "aten.linear.default"(%x, %a) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %relu = fx.node "aten.relu.default"(%p) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %q = fx.node "aten.linear.default"(%x, %relu) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    fx.output(%q) : (tensor<8x8xf32>)
  })")
                    .str());
  EXPECT_TRUE(search.isValid);
  EXPECT_TRUE(search.matches.empty());
}

TEST(SubgraphMatcher, RefusesValuesThatEscape) {
  StringRef text = R"(
  fx.graph @pattern(%x: tensor<*xf32>) -> tensor<*xf32> {
    %0 = fx.node "aten.neg.default"(%x) : (tensor<*xf32>) -> tensor<*xf32>
    %1 = fx.node "aten.relu.default"(%0) : (tensor<*xf32>) -> tensor<*xf32>
    fx.output(%1) : (tensor<*xf32>)
  }
  fx.graph @graph(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
    %a = fx.node "aten.neg.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %b = fx.node "aten.relu.default"(%a) : (tensor<4xf32>) -> tensor<4xf32>
    %c = fx.node "aten.neg.default"(%b) : (tensor<4xf32>) -> tensor<4xf32>
    %d = fx.node "aten.relu.default"(%c) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output(%a, %b, %d) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  })";
  Search search(text);
  ASSERT_EQ(search.matches.size(), 1u);
  EXPECT_TRUE(search.matches[0].nodes[1]->use_empty() == false);
  EXPECT_EQ(cast<NodeOp>(search.matches[0].nodes[0]).getOperand(0),
            search.matches[0].inputs[0]);
  EXPECT_TRUE(search.matches[0].inputs[0].getDefiningOp());
}

TEST(SubgraphMatcher, LearnsConstantsAndSizes) {
  Search search(R"(
  fx.graph @pattern(%x: tensor<?x?xf32, #fx.tensor<"cpu", dims = [#fx.sym<"m">, #fx.sym<"n">]>>) -> !fx.any {
    %0 = fx.node "aten.softmax.int"(%x, #fx.any<"dim">) : (tensor<?x?xf32, #fx.tensor<"cpu", dims = [#fx.sym<"m">, #fx.sym<"n">]>>) -> !fx.any
    %1 = fx.node "aten.softmax.int"(%0, #fx.any<"dim">) : (!fx.any) -> !fx.any
    fx.output(%1) : (!fx.any)
  }
  fx.graph @graph(%x: tensor<4x8xf32, #fx.tensor<"cpu">>) -> (tensor<4x8xf32, #fx.tensor<"cpu">>, tensor<4x8xf32, #fx.tensor<"cpu">>) {
    %a = fx.node "aten.softmax.int"(%x, 1) : (tensor<4x8xf32, #fx.tensor<"cpu">>) -> tensor<4x8xf32, #fx.tensor<"cpu">>
    %b = fx.node "aten.softmax.int"(%a, dim = 1) : (tensor<4x8xf32, #fx.tensor<"cpu">>) -> tensor<4x8xf32, #fx.tensor<"cpu">>
    %c = fx.node "aten.softmax.int"(%x, 0) : (tensor<4x8xf32, #fx.tensor<"cpu">>) -> tensor<4x8xf32, #fx.tensor<"cpu">>
    %d = fx.node "aten.softmax.int"(%c, 1) : (tensor<4x8xf32, #fx.tensor<"cpu">>) -> tensor<4x8xf32, #fx.tensor<"cpu">>
    fx.output(%b, %d) : (tensor<4x8xf32, #fx.tensor<"cpu">>, tensor<4x8xf32, #fx.tensor<"cpu">>)
  })");
  ASSERT_EQ(search.matches.size(), 1u);
  const SubgraphMatch &match = search.matches[0];
  auto dim = match.constants.find(StringAttr::get(&search.context, "dim"));
  ASSERT_NE(dim, match.constants.end());
  EXPECT_EQ(cast<IntegerAttr>(dim->second).getInt(), 1);
  EXPECT_EQ(cast<IntegerAttr>(match.symbols.lookup("n")).getInt(), 8);
}

TEST(SubgraphMatcher, KeepsEffectsInOrder) {
  auto count = [](StringRef between) {
    std::string text = R"(
  fx.graph @pattern(%x: tensor<*xf32>, %y: tensor<*xf32>) -> (tensor<*xf32>, tensor<*xf32>) {
    %0 = fx.node "aten.neg.default"(%x) : (tensor<*xf32>) -> tensor<*xf32>
    %1 = fx.node "aten.add.Tensor"(%x, %y) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    fx.output(%0, %1) : (tensor<*xf32>, tensor<*xf32>)
  }
  fx.graph @graph(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %a = fx.node "aten.neg.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %b = fx.node "BETWEEN"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %c = fx.node "aten.add.Tensor"(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    fx.output(%a, %c) : (tensor<4xf32>, tensor<4xf32>)
  })";
    text.replace(text.find("BETWEEN"), 7, between.str());
    return Search(text).matches.size();
  };
  EXPECT_EQ(count("aten.relu.default"), 1u);
  EXPECT_EQ(count("aten.relu_.default"), 0u);
}

TEST(SubgraphMatcher, RefusesPatternsThatHangTogetherNowhere) {
  Search search(R"(
  fx.graph @pattern(%x: tensor<*xf32>, %y: tensor<*xf32>) -> (tensor<*xf32>, tensor<*xf32>) {
    %0 = fx.node "aten.neg.default"(%x) : (tensor<*xf32>) -> tensor<*xf32>
    %1 = fx.node "aten.neg.default"(%y) : (tensor<*xf32>) -> tensor<*xf32>
    fx.output(%0, %1) : (tensor<*xf32>, tensor<*xf32>)
  }
  fx.graph @graph() {
    fx.output() : ()
  })");
  EXPECT_TRUE(search.module);
  EXPECT_FALSE(search.isValid);
}
