// Equivalence: equal under renaming, never equal with one thing changed.

#include "RandomGraph.h"

#include "opprof/Analysis/Structure/Equivalence.h"

#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace opprof::fx;

static bool areSame(GraphOp first, GraphOp second,
                    EquivalenceOptions options = {}) {
  return areEquivalent(Subgraph::get(first), Subgraph::get(second), options);
}

TEST(Equivalence, HoldsUnderRenaming) {
  RandomGraphs random(1);
  for (int i = 0; i < 500; ++i) {
    TestModule test;
    GraphRecipe recipe = random.make(1 + random.below(30));
    GraphOp first = buildGraph(*test.module, "first", recipe);
    GraphOp second = buildGraph(*test.module, "second", recipe);
    EXPECT_TRUE(areSame(first, second));
    EXPECT_TRUE(
        findDifferences(Subgraph::get(first), Subgraph::get(second)).empty());
  }
}

TEST(Equivalence, SeesEverySingleChange) {
  RandomGraphs random(2);
  for (Change kind : kAllChanges) {
    int numPairs = 0;
    for (int i = 0; i < 20000 && numPairs < 2000; ++i) {
      GraphRecipe recipe = random.make(2 + random.below(20));
      std::optional<GraphRecipe> changed = random.change(recipe, kind);
      if (!changed)
        continue;
      ++numPairs;
      TestModule test;
      GraphOp first = buildGraph(*test.module, "first", recipe);
      GraphOp second = buildGraph(*test.module, "second", *changed);
      std::optional<Difference> difference =
          findDifference(Subgraph::get(first), Subgraph::get(second));
      ASSERT_TRUE(difference) << "change " << int(kind);
      EXPECT_FALSE(difference->getText().empty());
      std::vector<Difference> all =
          findDifferences(Subgraph::get(first), Subgraph::get(second));
      EXPECT_FALSE(all.empty()) << "change " << int(kind);
      for (const Difference &one : all)
        EXPECT_FALSE(one.getText().empty());
      switch (kind) {
      case Change::Constant:
        EXPECT_EQ(difference->kind, DifferenceKind::Constant);
        break;
      case Change::Shape:
        EXPECT_EQ(difference->kind, DifferenceKind::Shape);
        break;
      case Change::Stride:
        EXPECT_EQ(difference->kind, DifferenceKind::Stride);
        break;
      case Change::DType:
        EXPECT_EQ(difference->kind, DifferenceKind::DType);
        break;
      case Change::Device:
        EXPECT_EQ(difference->kind, DifferenceKind::Device);
        break;
      case Change::Effect:
        EXPECT_EQ(difference->kind, DifferenceKind::Effect);
        break;
      case Change::Target:
        EXPECT_EQ(difference->kind, DifferenceKind::Target);
        break;
      default:
        break;
      }
      EXPECT_FALSE(areSame(second, first)) << "change " << int(kind);
    }
    EXPECT_EQ(numPairs, 2000) << "change " << int(kind);
  }
}

TEST(Equivalence, IgnoresOrderWhereAsked) {
  RandomGraphs random(3);
  EquivalenceOptions anyOrder;
  anyOrder.ignoreOrder = true;
  int numMoved = 0;
  for (int i = 0; i < 500; ++i) {
    TestModule test;
    GraphRecipe recipe = random.make(2 + random.below(20));
    GraphOp first = buildGraph(*test.module, "first", recipe);
    GraphOp second = buildGraph(*test.module, "second", random.shuffle(recipe));
    EXPECT_TRUE(areSame(first, second, anyOrder));
    numMoved += !areSame(first, second);
  }
  EXPECT_GT(numMoved, 100);
}

TEST(Equivalence, SeesChangesInAnyOrder) {
  RandomGraphs random(4);
  EquivalenceOptions anyOrder;
  anyOrder.ignoreOrder = true;
  // A changed edge may give the same graph once order does not count.
  for (Change kind : {Change::Constant, Change::Shape, Change::Stride,
                      Change::DType, Change::Device, Change::Target})
    for (int i = 0; i < 200; ++i) {
      GraphRecipe recipe = random.make(2 + random.below(20));
      std::optional<GraphRecipe> changed = random.change(recipe, kind);
      if (!changed)
        continue;
      TestModule test;
      GraphOp first = buildGraph(*test.module, "first", recipe);
      GraphOp second =
          buildGraph(*test.module, "second", random.shuffle(*changed));
      EXPECT_FALSE(areSame(first, second, anyOrder)) << "change " << int(kind);
    }
}

static OwningOpRef<ModuleOp> parse(MLIRContext &context, StringRef text) {
  context.loadDialect<FXDialect>();
  return parseSourceString<ModuleOp>(text, &context);
}

static std::optional<Difference> compareParsed(StringRef text) {
  MLIRContext context;
  OwningOpRef<ModuleOp> module = parse(context, text);
  EXPECT_TRUE(module);
  auto graphs = llvm::to_vector(module->getOps<GraphOp>());
  std::optional<Difference> difference =
      findDifference(Subgraph::get(graphs[0]), Subgraph::get(graphs[1]));
  if (difference)
    difference->first = difference->second = nullptr;
  return difference;
}

TEST(Equivalence, RenamesSymbolsConsistently) {
  auto compare = [](StringRef first, StringRef second) {
    auto type = [](StringRef symbol) {
      return ("tensor<?xf32, #fx.tensor<\"cpu\", dims = [#fx.sym<\"" + symbol +
              "\">]>>")
          .str();
    };
    auto graph = [&](StringRef name, StringRef symbols) {
      auto [a, b] = symbols.split(',');
      std::string x = type(a), y = type(b);
      return "fx.graph @" + name.str() + "(%x: " + x + ", %y: " + y + ") -> " +
             y + " {\n %0 = fx.node \"aten.add.Tensor\"(%x, %y) : (" + x +
             ", " + y + ") -> " + y + "\n fx.output(%0) : (" + y + ")\n}\n";
    };
    return compareParsed(graph("a", first) + graph("b", second));
  };
  EXPECT_FALSE(compare("s0,s0", "s7,s7"));
  EXPECT_FALSE(compare("s0,s1", "s1,s0"));
  EXPECT_FALSE(compare("s0,2*s0 + 1", "s3,2*s3 + 1"));
  EXPECT_TRUE(compare("s0,s0", "s0,s1"));
  EXPECT_TRUE(compare("s0,s1", "s0,s0"));
  EXPECT_TRUE(compare("s0,2*s0", "s0,2*s1"));
  EXPECT_TRUE(compare("s0,2*s0", "s0,3*s0"));
}

TEST(Equivalence, LooksIntoSubgraphs) {
  auto compare = [](StringRef target) {
    std::string text = R"(
      fx.graph @a(%x: tensor<4xf32>) -> tensor<4xf32> {
        %0 = fx.node "higher_order.invoke_subgraph"(@one, "one", %x) : (tensor<4xf32>) -> tensor<4xf32>
        fx.output(%0) : (tensor<4xf32>)
      }
      fx.graph @b(%x: tensor<4xf32>) -> tensor<4xf32> {
        %0 = fx.node "higher_order.invoke_subgraph"(@two, "one", %x) : (tensor<4xf32>) -> tensor<4xf32>
        fx.output(%0) : (tensor<4xf32>)
      }
      fx.graph private @one(%x: tensor<4xf32>) -> tensor<4xf32> {
        %0 = fx.node "aten.sin.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
        fx.output(%0) : (tensor<4xf32>)
      }
      fx.graph private @two(%x: tensor<4xf32>) -> tensor<4xf32> {
        %0 = fx.node "TARGET"(%x) : (tensor<4xf32>) -> tensor<4xf32>
        fx.output(%0) : (tensor<4xf32>)
      })";
    text.replace(text.find("TARGET"), 6, target.str());
    return compareParsed(text);
  };
  EXPECT_FALSE(compare("aten.sin.default"));
  std::optional<Difference> difference = compare("aten.cos.default");
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->kind, DifferenceKind::Subgraph);
}

TEST(Equivalence, SharingOfInputsCounts) {
  EXPECT_TRUE(compareParsed(R"(
    fx.graph @a(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
      %0 = fx.node "aten.add.Tensor"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      fx.output(%0) : (tensor<4xf32>)
    }
    fx.graph @b(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
      %0 = fx.node "aten.add.Tensor"(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      fx.output(%0) : (tensor<4xf32>)
    })"));
}

/// In what a graph that calls `target` with `first` differs from one that calls
/// it with `second`. Each is a type and the rest of the call's arguments.
static std::optional<DifferenceKind>
compareCalls(StringRef target, std::pair<StringRef, StringRef> first,
             std::pair<StringRef, StringRef> second) {
  std::string text;
  llvm::raw_string_ostream os(text);
  for (auto [name, call] : {std::pair("a", first), std::pair("b", second)})
    os << "fx.graph @" << name << "(%x: " << call.first << ") -> " << call.first
       << " {\n  %0 = fx.node \"" << target << "\"(%x" << call.second << ") : ("
       << call.first << ") -> " << call.first << "\n  fx.output(%0) : ("
       << call.first << ")\n}\n";
  std::optional<Difference> difference = compareParsed(text);
  if (!difference)
    return std::nullopt;
  return difference->kind;
}

TEST(Equivalence, GradientsLayoutAndClassCount) {
  auto compare = [](StringRef first, StringRef second) {
    return compareCalls("aten.neg.default", {first, ""}, {second, ""});
  };
  StringRef plain = "tensor<4xf32, #fx.tensor<\"cpu\">>";
  EXPECT_EQ(compare(plain, plain), std::nullopt);
  for (StringRef other : {"requires_grad", "layout = \"sparse_coo\"",
                          "subclass = \"mine.Tensor\""}) {
    std::string type =
        ("tensor<4xf32, #fx.tensor<\"cpu\", " + other + ">>").str();
    EXPECT_EQ(compare(plain, type), DifferenceKind::Type) << type;
    EXPECT_EQ(compare(type, plain), DifferenceKind::Type) << type;
    EXPECT_EQ(compare(type, type), std::nullopt) << type;
  }
}

TEST(Equivalence, FloatsAreComparedByTheirBits) {
  auto compare = [](StringRef first, StringRef second) {
    return !compareCalls("aten.mul.Scalar", {"tensor<4xf32>", first},
                         {"tensor<4xf32>", second});
  };
  EXPECT_TRUE(compare(", 0.5", ", 0.5"));
  EXPECT_FALSE(compare(", 0.5", ", 0.25"));
  EXPECT_FALSE(compare(", 0.0", ", -0.0"));
  StringRef nan = ", 0x7FF8000000000000 : f64";
  EXPECT_TRUE(compare(nan, nan));
  EXPECT_FALSE(compare(", 1", ", 1.0"));
}
