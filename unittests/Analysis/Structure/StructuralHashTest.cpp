// Structural hashes: what they depend on, and that they stay what they are.

#include "RandomGraph.h"

#include "opprof/Analysis/Structure/StructuralHash.h"

#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

#include <set>

using namespace mlir;
using namespace opprof::fx;

TEST(StructuralHash, DependsOnStructureAlone) {
  RandomGraphs random(11);
  for (int i = 0; i < 300; ++i) {
    GraphRecipe recipe = random.make(1 + random.below(30));
    // Other contexts, other pointers.
    TestModule test, other;
    GraphOp first = buildGraph(*test.module, "first", recipe);
    buildGraph(*other.module, "noise", random.make(5));
    GraphOp second = buildGraph(*other.module, "second", recipe);
    EXPECT_EQ(StructuralHash().hashGraph(first),
              StructuralHash().hashGraph(second));
  }
}

TEST(StructuralHash, ChangesWithEverySingleChange) {
  RandomGraphs random(12);
  for (Change kind : kAllChanges)
    for (int i = 0; i < 200; ++i) {
      GraphRecipe recipe = random.make(2 + random.below(20));
      std::optional<GraphRecipe> changed = random.change(recipe, kind);
      if (!changed)
        continue;
      TestModule test;
      GraphOp first = buildGraph(*test.module, "first", recipe);
      GraphOp second = buildGraph(*test.module, "second", *changed);
      EXPECT_NE(StructuralHash().hashGraph(first),
                StructuralHash().hashGraph(second))
          << "change " << int(kind);
    }
}

static uint64_t hashText(StringRef text, EquivalenceOptions options = {}) {
  MLIRContext context;
  context.loadDialect<FXDialect>();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  EXPECT_TRUE(module);
  return StructuralHash(options).hashGraph(*module->getOps<GraphOp>().begin());
}

static std::string getGraph(StringRef symbol, StringRef name) {
  std::string type = ("tensor<?x8xf32, #fx.tensor<\"cpu\", strides = [8, 1], "
                      "dims = [#fx.sym<\"" +
                      symbol + "\">, 8]>>")
                         .str();
  return "fx.graph @" + name.str() + "(%x: " + type + ") -> " + type +
         " {\n %0 = fx.node \"aten.softmax.int\"(%x, -1, dtype = "
         "#fx.dtype<\"float32\">) : (" +
         type + ") -> " + type + " loc(\"" + name.str() +
         "\")\n fx.output(%0) : (" + type + ")\n}\n";
}

// The hash is written into files that outlive this build: the same structure
// has the same hash on every machine and in every later version.
TEST(StructuralHash, IsPartOfTheFormat) {
  EXPECT_EQ(StructuralHash::toText(hashText(R"(
    fx.graph @g(%x: tensor<4x8xf32, #fx.tensor<"cpu">>) -> tensor<4x8xf32, #fx.tensor<"cpu">> {
      %0 = fx.node "aten.add.Tensor"(%x, 1.5, alpha = 2) : (tensor<4x8xf32, #fx.tensor<"cpu">>) -> tensor<4x8xf32, #fx.tensor<"cpu">>
      fx.output(%0) : (tensor<4x8xf32, #fx.tensor<"cpu">>)
    })")),
            "b7b79e953cba9f6c");
}

TEST(StructuralHash, SymbolsHaveNoNames) {
  EXPECT_EQ(hashText(getGraph("s0", "a")), hashText(getGraph("s77", "b")));
  EXPECT_NE(hashText(getGraph("s0", "a")), hashText(getGraph("2*s0", "a")));
}

TEST(StructuralHash, IgnoresShapesWhereAsked) {
  auto graph = [](int size) {
    std::string type = "tensor<" + std::to_string(size) + "xf32>";
    return "fx.graph @g(%x: " + type + ") -> " + type +
           " {\n %0 = fx.node \"aten.view.default\"(%x, [" +
           std::to_string(size) + "]) : (" + type + ") -> " + type +
           "\n fx.output(%0) : (" + type + ")\n}\n";
  };
  EquivalenceOptions ignoreShapes;
  ignoreShapes.ignoreShapes = true;
  EXPECT_NE(hashText(graph(4)), hashText(graph(8)));
  EXPECT_EQ(hashText(graph(4), ignoreShapes), hashText(graph(8), ignoreShapes));
}

TEST(StructuralHash, TextHasSixteenDigits) {
  EXPECT_EQ(StructuralHash::toText(0x1f), "000000000000001f");
}
