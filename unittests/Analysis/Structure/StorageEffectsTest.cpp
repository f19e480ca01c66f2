// What shares storage, and what is written, by the schemas of operators.

#include "opprof/Analysis/Structure/StorageEffects.h"
#include "opprof/Dialect/FX/IR/Provenance.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace opprof::fx;

namespace {
/// A graph of the inputs x and y and `body`, whose nodes have their names as
/// locations.
struct Effects {
  explicit Effects(const std::string &body) {
    context.loadDialect<FXDialect>();
    module = parseSourceString<ModuleOp>(
        "!t = tensor<4x8xf32>\n"
        "fx.graph @graph(%x: !t, %y: !t) -> !t {\n" +
            body + "}\n",
        &context);
    EXPECT_TRUE(module) << body;
    graph = *module->getOps<GraphOp>().begin();
    effects.emplace(graph);
  }

  Value get(StringRef name) {
    if (name == "x" || name == "y")
      return graph.getArgument(name == "y");
    for (Operation &op : graph.getBlock())
      if (getNodeName(&op) == name)
        return op.getResult(0);
    ADD_FAILURE() << name.str();
    return {};
  }

  bool mayAlias(StringRef first, StringRef second) {
    return effects->mayAlias(get(first), get(second));
  }

  /// The name of the first node that may write `value`, or empty.
  std::string findWriteOf(StringRef value) {
    Block &block = graph.getBlock();
    Operation *write =
        effects->findWriteBetween(&block.front(), &block.back(), get(value));
    return write ? getNodeName(write).str() : "";
  }

  std::string findWriteOfInput() {
    Operation *write = effects->findWriteOfInput();
    return write ? getNodeName(write).str() : "";
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  GraphOp graph;
  std::optional<StorageEffects> effects;
};
} // namespace

TEST(StorageEffects, AResultIsAStorageOfItsOwn) {
  Effects all(R"(
    %a = fx.node "aten.add.Tensor"(%x, %y) : (!t, !t) -> !t loc("a")
    %b = fx.node "aten.add_.Tensor"(%a, %y) : (!t, !t) -> !t loc("b")
    %c = fx.node "aten.relu_.default"(%b) : (!t) -> !t loc("c")
    %d = fx.node "aten.neg.default"(%c) : (!t) -> !t loc("d")
    fx.output(%d) : (!t)
  )");
  EXPECT_TRUE(all.mayAlias("a", "c"));
  EXPECT_FALSE(all.mayAlias("a", "d"));
  EXPECT_FALSE(all.mayAlias("b", "y"));
  EXPECT_EQ(all.findWriteOf("a"), "b");
  EXPECT_EQ(all.findWriteOf("y"), "");
  EXPECT_EQ(all.findWriteOfInput(), "");
}

TEST(StorageEffects, InputsMayBeOneAndAreWrittenThroughViews) {
  Effects all(R"(
    %v = fx.node "aten.select.int"(%y, 0, 1) : (!t) -> tensor<8xf32> loc("v")
    %w = fx.node "aten.zero_.default"(%v) : (tensor<8xf32>) -> tensor<8xf32> loc("w")
    %a = fx.node "aten.neg.default"(%x) : (!t) -> !t loc("a")
    fx.output(%a) : (!t)
  )");
  EXPECT_TRUE(all.mayAlias("x", "y"));
  EXPECT_EQ(all.findWriteOf("x"), "w");
  EXPECT_EQ(all.findWriteOf("a"), "");
  EXPECT_EQ(all.findWriteOfInput(), "w");
}

TEST(StorageEffects, DropoutThatIsOffGivesItsInput) {
  Effects all(R"(
    %d = fx.node "aten.dropout.default"(%x, 0.5, false) : (!t) -> !t loc("d")
    %w = fx.node "aten.relu_.default"(%d) : (!t) -> !t loc("w")
    fx.output(%w) : (!t)
  )");
  EXPECT_EQ(all.findWriteOfInput(), "w");
}

TEST(StorageEffects, DetachingWritesNoElement) {
  Effects all(R"(
    %d = fx.node "aten.detach_.default"(%x) : (!t) -> !t loc("d")
    fx.output(%d) : (!t)
  )");
  EXPECT_EQ(all.findWriteOfInput(), "");
  EXPECT_TRUE(all.mayAlias("d", "x"));
}

TEST(StorageEffects, NormalizationsInTrainingRenewTheirStatistics) {
  auto normalize = [](const std::string &training) {
    return R"(
    %m = fx.node "aten.select.int"(%y, 0, 0) : (!t) -> tensor<8xf32> loc("m")
    %n = fx.node "aten.batch_norm.default"(%x, none, none, %m, %m, )" +
           training +
           R"(, 0.1, 1.0e-05, true) : (!t, tensor<8xf32>, tensor<8xf32>) -> !t loc("n")
    fx.output(%n) : (!t)
  )";
  };
  Effects training(normalize("true")), inference(normalize("false"));
  EXPECT_EQ(training.findWriteOfInput(), "n");
  EXPECT_EQ(inference.findWriteOfInput(), "");
  // Which the mark of a graph says too.
  SymbolTableCollection symbols;
  EXPECT_FALSE(training.graph.isFunctional(symbols));
  EXPECT_TRUE(inference.graph.isFunctional(symbols));
}

TEST(StorageEffects, WhatNothingIsKnownOfWritesEverything) {
  Effects all(R"(
    %a = fx.node "aten.neg.default"(%x) : (!t) -> !t loc("a")
    %u = fx.node "mine.act.default"(%y) : (!t) -> !t loc("u")
    fx.output(%u) : (!t)
  )");
  EXPECT_EQ(all.findWriteOf("a"), "u");
  EXPECT_EQ(all.findWriteOfInput(), "u");
  EXPECT_TRUE(all.mayAlias("u", "y"));
}

TEST(StorageEffects, AnotherStorageMayBeAny) {
  Effects all(R"(
    %a = fx.node "aten.neg.default"(%x) : (!t) -> !t loc("a")
    %b = fx.node "aten.neg.default"(%x) : (!t) -> !t loc("b")
    %s = fx.node "aten.set_.source_Tensor"(%a, %b) : (!t, !t) -> !t loc("s")
    fx.output(%s) : (!t)
  )");
  EXPECT_EQ(all.findWriteOf("b"), "s");
}

TEST(StorageEffects, AListIsWrittenElementByElement) {
  Effects all(R"(
    %a = fx.node "aten.neg.default"(%x) : (!t) -> !t loc("a")
    %b = fx.node "aten.neg.default"(%x) : (!t) -> !t loc("b")
    %c = fx.node "aten.neg.default"(%x) : (!t) -> !t loc("c")
    %f = fx.node "aten._foreach_add_.Scalar"([%a, %b], 1.0) : (!t, !t) -> !fx.none loc("f")
    fx.output(%c) : (!t)
  )");
  EXPECT_EQ(all.findWriteOf("b"), "f");
  EXPECT_EQ(all.findWriteOf("c"), "");
  EXPECT_EQ(all.findWriteOfInput(), "");
}
