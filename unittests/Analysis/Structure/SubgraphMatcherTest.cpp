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
  const auto *dim =
      match.constants.find(StringAttr::get(&search.context, "dim"));
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

/// How often aten.add.Tensor with `pattern` after its operands is found where
/// the graph has one with `graph` there.
static size_t countAdditions(StringRef pattern, StringRef graph) {
  std::string text = R"(
  fx.graph @pattern(%x: tensor<*xf32>, %y: tensor<*xf32>) -> tensor<*xf32> {
    %0 = fx.node "aten.add.Tensor"(%x, PATTERN) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    fx.output(%0) : (tensor<*xf32>)
  }
  fx.graph @graph(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
    %0 = fx.node "aten.add.Tensor"(%x, GRAPH) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    fx.output(%0) : (tensor<4xf32>)
  })";
  text.replace(text.find("PATTERN"), 7, pattern.str());
  text.replace(text.find("GRAPH"), 5, graph.str());
  Search search(text);
  EXPECT_TRUE(search.isValid) << text;
  return search.matches.size();
}

TEST(SubgraphMatcher, ComparesConstantsExactly) {
  EXPECT_EQ(countAdditions("%y, alpha = 0.5", "%y, alpha = 0.5"), 1u);
  EXPECT_EQ(countAdditions("%y, alpha = 0.5", "%y, alpha = 0.25"), 0u);
  EXPECT_EQ(countAdditions("%y, alpha = 0.0", "%y, alpha = -0.0"), 0u);
  EXPECT_EQ(countAdditions("%y, alpha = 0x7FF8000000000000 : f64",
                           "%y, alpha = 0x7FF8000000000000 : f64"),
            1u);
  // A number that PyTorch may promote by its type is not another type's.
  EXPECT_EQ(countAdditions("%y, alpha = 2", "%y, alpha = 2.0"), 0u);
  EXPECT_EQ(countAdditions("%y, alpha = 1", "%y, alpha = true"), 0u);
}

TEST(SubgraphMatcher, NormalizesCallsBySchema) {
  EXPECT_EQ(countAdditions("%y", "%y, alpha = 1"), 1u);
  EXPECT_EQ(countAdditions("%y, alpha = 1", "%y"), 1u);
  EXPECT_EQ(countAdditions("%y, alpha = 2", "%y"), 0u);
  EXPECT_EQ(countAdditions("other = %y", "%y"), 1u);
  EXPECT_EQ(countAdditions("%y", "other = %y, alpha = 1"), 1u);
}

/// How often two negations of a value of type `pattern` are found where the
/// graph has two of type `graph`.
static size_t countNegations(StringRef pattern, StringRef graph) {
  std::string text = ("!p = " + pattern + "\n!g = " + graph + R"(
  fx.graph @pattern(%x: !p) -> !p {
    %0 = fx.node "aten.neg.default"(%x) : (!p) -> !p
    %1 = fx.node "aten.neg.default"(%0) : (!p) -> !p
    fx.output(%1) : (!p)
  }
  fx.graph @graph(%x: !g) -> !g {
    %0 = fx.node "aten.neg.default"(%x) : (!g) -> !g
    %1 = fx.node "aten.neg.default"(%0) : (!g) -> !g
    fx.output(%1) : (!g)
  })")
                         .str();
  Search search(text);
  EXPECT_TRUE(search.isValid) << text;
  return search.matches.size();
}

TEST(SubgraphMatcher, ComparesTypesByWhatThePatternAsks) {
  StringRef plain = "tensor<2x4xf32, #fx.tensor<\"cuda:0\">>";
  EXPECT_EQ(countNegations(plain, plain), 1u);
  EXPECT_EQ(countNegations("!fx.any", plain), 1u);
  EXPECT_EQ(countNegations("tensor<*xf32>", plain), 1u);
  EXPECT_EQ(countNegations("tensor<*xf16>", plain), 0u);
  EXPECT_EQ(countNegations("tensor<2x4xf32>", plain), 1u);
  EXPECT_EQ(countNegations("tensor<2x?xf32>", plain), 1u);
  EXPECT_EQ(countNegations("tensor<4x4xf32>", plain), 0u);
  EXPECT_EQ(countNegations("tensor<2x4xf16, #fx.tensor<\"cuda:0\">>", plain),
            0u);
  auto refuses = [&](StringRef encoding) {
    std::string other =
        ("tensor<2x4xf32, #fx.tensor<\"cuda:0\", " + encoding + ">>").str();
    return countNegations(plain, other) == 0 &&
           countNegations(other, plain) == 0 &&
           countNegations(other, other) == 1;
  };
  EXPECT_EQ(countNegations(plain, "tensor<2x4xf32, #fx.tensor<\"cuda:1\">>"),
            0u);
  EXPECT_TRUE(refuses("strides = [1, 2]"));
  EXPECT_TRUE(refuses("layout = \"sparse_coo\""));
  EXPECT_TRUE(refuses("subclass = \"mine.Tensor\""));
  // Strides that nobody knows are not those that a pattern asks for, and a
  // pattern may ask for none.
  StringRef unknown =
      "tensor<2x4xf32, #fx.tensor<\"cuda:0\", unknown_strides>>";
  EXPECT_EQ(countNegations(plain, unknown), 0u);
  EXPECT_EQ(countNegations(unknown, plain), 1u);
}

TEST(SubgraphMatcher, AsksForGradientsOnlyWhereThePatternDoes) {
  StringRef plain = "tensor<2x4xf32, #fx.tensor<\"cpu\">>";
  StringRef trained = "tensor<2x4xf32, #fx.tensor<\"cpu\", requires_grad>>";
  EXPECT_EQ(countNegations(plain, trained), 1u);
  EXPECT_EQ(countNegations(trained, trained), 1u);
  EXPECT_EQ(countNegations(trained, plain), 0u);
}

TEST(SubgraphMatcher, SaysWhatDiffersAtTheNearestPlace) {
  Search search(R"(
  fx.graph @pattern(%x: tensor<*xf32>) -> tensor<*xf32> {
    %0 = fx.node "aten.softmax.int"(%x, 1) : (tensor<*xf32>) -> tensor<*xf32>
    %1 = fx.node "aten.neg.default"(%0) : (tensor<*xf32>) -> tensor<*xf32>
    fx.output(%1) : (tensor<*xf32>)
  }
  fx.graph @graph(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %a = fx.node "aten.relu.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %b = fx.node "aten.neg.default"(%a) : (tensor<4xf32>) -> tensor<4xf32>
    %c = fx.node "aten.softmax.int"(%x, dim = 0) : (tensor<4xf32>) -> tensor<4xf32>
    %d = fx.node "aten.neg.default"(%c) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output(%b, %d) : (tensor<4xf32>, tensor<4xf32>)
  })");
  ASSERT_TRUE(search.isValid);
  EXPECT_TRUE(search.matches.empty());
  auto graphs = llvm::to_vector(search.module->getOps<GraphOp>());
  auto nearest = SubgraphMatcher::get(graphs[0])->findNearest(graphs[1]);
  ASSERT_TRUE(nearest);
  EXPECT_EQ(nearest->numFound, 1u);
  EXPECT_EQ(nearest->actual.getTarget(), "aten.softmax.int");
  EXPECT_EQ(nearest->text, "the argument 'dim' is 0 here and 1 in the pattern");
}

TEST(SubgraphMatcher, RefusesPatternsThatWrite) {
  Search search(R"(
  fx.graph @pattern(%x: tensor<*xf32>) -> tensor<*xf32> {
    %0 = fx.node "aten.relu_.default"(%x) : (tensor<*xf32>) -> tensor<*xf32>
    fx.output(%0) : (tensor<*xf32>)
  }
  fx.graph @graph() {
    fx.output() : ()
  })");
  EXPECT_TRUE(search.module);
  EXPECT_FALSE(search.isValid);
}

TEST(SubgraphMatcher, ComparesArgumentsThatTheSchemaDoesNotKnow) {
  for (StringRef extra : {", bogus = 1", ", 1, 3"}) {
    std::string text =
        (R"(
  fx.graph @pattern(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
    %0 = fx.node "aten.add.Tensor"(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    fx.output(%0) : (tensor<4xf32>)
  }
  fx.graph @graph(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
    %p = fx.node "aten.add.Tensor"(%x, %y)" +
         extra + R"() : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %relu = fx.node "aten.relu.default"(%p) : (tensor<4xf32>) -> tensor<4xf32>
    fx.output(%relu) : (tensor<4xf32>)
  })")
            .str();
    Search search(text);
    EXPECT_TRUE(search.isValid);
    EXPECT_TRUE(search.matches.empty()) << extra.str();
  }
}
