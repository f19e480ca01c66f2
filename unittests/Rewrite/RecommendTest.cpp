// What the rules offer, what they predict from, and what they refuse.

#include "opprof/Rewrite/Recommend.h"
#include "opprof/Dialect/FX/IR/FXDialect.h"
#include "opprof/Dialect/FX/TransformOps/FXTransformOps.h"
#include "opprof/Dialect/Prof/IR/Prof.h"
#include "opprof/Target/TransformScript/ScriptBuilder.h"

#include "mlir/Dialect/Transform/IR/TransformDialect.h"
#include "mlir/IR/OperationSupport.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringSet.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace opprof;
using namespace opprof::rewrite;

namespace {
constexpr const char *kTypes = R"(
!x = tensor<64x512xf32, #fx.tensor<"cuda:0">>
!w = tensor<512x512xf32, #fx.tensor<"cuda:0">>
)";

class RecommendTest : public ::testing::Test {
protected:
  RecommendTest() : context(makeRegistry()) {
    context.loadAllAvailableDialects();
  }

  static DialectRegistry makeRegistry() {
    DialectRegistry registry;
    registry.insert<fx::FXDialect, prof::ProfDialect,
                    transform::TransformDialect>();
    fx::registerTransformExtension(registry);
    return registry;
  }

  /// What all rules offer for a graph with the arguments x, a, b and `body`.
  std::vector<Recommendation> ask(const std::string &body,
                                  const Evidence &evidence) {
    std::string text =
        std::string(kTypes) +
        "fx.graph @model(%x: !x, %a: !w {fx.kind = \"parameter\"}, %b: !w "
        "{fx.kind = \"parameter\"}) -> !x {\n" +
        body + "}\n";
    module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    if (!module)
      return {};
    Offers offers = std::move(*rewrite::recommend(*module, evidence));
    declines = std::move(offers.declines);
    return std::move(offers.recommendations);
  }

  static const Recommendation *find(const std::vector<Recommendation> &all,
                                    llvm::StringRef name) {
    for (const Recommendation &one : all)
      if (one.name == name)
        return &one;
    return nullptr;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  /// Of the last call of `ask`.
  std::vector<Decline> declines;
};

const std::string kTwoProducts = R"(
  %p = fx.node "aten.linear.default"(%x, %a) : (!x, !w) -> !x loc("p")
  %q = fx.node "aten.linear.default"(%x, %b) : (!x, !w) -> !x loc("q")
  %sum = fx.node "aten.add.Tensor"(%p, %q) : (!x, !x) -> !x
  fx.output(%sum) : (!x)
)";

} // namespace

static Evidence onH200() {
  Evidence evidence;
  evidence.errorBudget = 1e-3;
  evidence.device = assumeDeviceCeilings("NVIDIA H200");
  return evidence;
}

namespace {
TEST_F(RecommendTest, DevicesAreFoundByTheirDriverNames) {
  EXPECT_EQ(assumeDeviceCeilings("NVIDIA H200").name, "H200");
  EXPECT_EQ(assumeDeviceCeilings("NVIDIA-A100-SXM4-80GB").name,
            "A100-SXM4-80GB");
  EXPECT_TRUE(assumeDeviceCeilings("NVIDIA RTX 9000 from the future").isGPU);
  EXPECT_FALSE(assumeDeviceCeilings("cpu").isGPU);
  EXPECT_FALSE(assumeDeviceCeilings("AMD EPYC").isGPU);
}

TEST_F(RecommendTest, MeasuredTimesScaleThePrediction) {
  Evidence evidence = onH200();
  const Recommendation *found = nullptr;
  auto modelled = ask(kTwoProducts, evidence);
  found = find(modelled, "merge-gemms");
  ASSERT_TRUE(found);
  EXPECT_GT(found->savesNs, 0);

  auto timed = [](int64_t ns) {
    std::string time = "{prof.time = #prof.time<ns = " + std::to_string(ns) +
                       ", kernels = 1, share = whole, confidence = high>} ";
    return "%p = fx.node \"aten.linear.default\"(%x, %a) " + time +
           ": (!x, !w) -> !x\n"
           "%q = fx.node \"aten.linear.default\"(%x, %b) " +
           time +
           ": (!x, !w) -> !x\n"
           "%sum = fx.node \"aten.add.Tensor\"(%p, %q) : (!x, !x) -> !x\n"
           "fx.output(%sum) : (!x)\n";
  };
  auto once = ask(timed(10000), evidence);
  double savedOnce = find(once, "merge-gemms")->savesNs;
  EXPECT_GT(savedOnce, 0);
  EXPECT_LT(savedOnce, 20000);
  auto twice = ask(timed(20000), evidence);
  EXPECT_DOUBLE_EQ(find(twice, "merge-gemms")->savesNs, 2 * savedOnce);
}

TEST_F(RecommendTest, OneWeightTakenTwiceIsNoReason) {
  auto all = ask(R"(
    %p = fx.node "aten.linear.default"(%x, %a) : (!x, !w) -> !x
    %q = fx.node "aten.linear.default"(%x, %a) : (!x, !w) -> !x
    %sum = fx.node "aten.add.Tensor"(%p, %q) : (!x, !x) -> !x
    fx.output(%sum) : (!x)
  )",
                 onH200());
  EXPECT_FALSE(find(all, "merge-gemms"));
}

TEST_F(RecommendTest, AWeightComputedInEveryCallIsNotMerged) {
  auto all = ask(R"(
    %c = fx.node "aten.mul.Tensor"(%a, %b) : (!w, !w) -> !w
    %p = fx.node "aten.linear.default"(%x, %a) : (!x, !w) -> !x
    %q = fx.node "aten.linear.default"(%x, %c) : (!x, !w) -> !x
    %sum = fx.node "aten.add.Tensor"(%p, %q) : (!x, !x) -> !x
    fx.output(%sum) : (!x)
  )",
                 onH200());
  EXPECT_FALSE(find(all, "merge-gemms"));
}

TEST_F(RecommendTest, AWriteOfWhatProductsDoNotReadDoesNotKeepThemApart) {
  auto all = ask(R"(
    %p = fx.node "aten.linear.default"(%x, %a) : (!x, !w) -> !x
    %r = fx.node "aten.relu_.default"(%p) : (!x) -> !x
    %q = fx.node "aten.linear.default"(%x, %b) : (!x, !w) -> !x
    %sum = fx.node "aten.add_.Tensor"(%q, %r) : (!x, !x) -> !x
    %copy = fx.node "aten.neg.default"(%sum) : (!x) -> !x
    fx.output(%copy) : (!x)
  )",
                 onH200());
  EXPECT_TRUE(find(all, "merge-gemms"));
}

TEST_F(RecommendTest, ProductsWithAWriteBetweenThemAreNotMerged) {
  auto all = ask(R"(
    %p = fx.node "aten.linear.default"(%x, %a) : (!x, !w) -> !x
    %s = fx.node "aten.mul_.Tensor"(%x, 2) : (!x) -> !x
    %q = fx.node "aten.linear.default"(%x, %b) : (!x, !w) -> !x
    %sum = fx.node "aten.add.Tensor"(%p, %q) : (!x, !x) -> !x
    fx.output(%sum) : (!x)
  )",
                 onH200());
  EXPECT_FALSE(find(all, "merge-gemms"));
}

TEST_F(RecommendTest, NoPrecisionBeyondTheErrorBudget) {
  Evidence evidence = onH200();
  evidence.errorBudget = 1e-3;
  auto all = ask(kTwoProducts, evidence);
  EXPECT_TRUE(find(all, "float16"));
  EXPECT_FALSE(find(all, "bfloat16"));
  evidence.errorBudget = 0;
  all = ask(kTwoProducts, evidence);
  EXPECT_FALSE(find(all, "float16"));
  EXPECT_TRUE(find(all, "merge-gemms"));
  evidence.errorBudget = 1e-2;
  all = ask(kTwoProducts, evidence);
  EXPECT_TRUE(find(all, "bfloat16"));
}

TEST_F(RecommendTest, AddmmWithFactorsIsNotMerged) {
  auto all = ask(R"(
    %p = fx.node "aten.addmm.default"(%x, %x, %a, beta = 2) : (!x, !x, !w) -> !x
    %q = fx.node "aten.addmm.default"(%x, %x, %b, beta = 2) : (!x, !x, !w) -> !x
    %sum = fx.node "aten.add.Tensor"(%p, %q) : (!x, !x) -> !x
    fx.output(%sum) : (!x)
  )",
                 onH200());
  EXPECT_FALSE(find(all, "merge-gemms"));
}

TEST_F(RecommendTest, WritesToWhatTheGraphMadeStandInNoWay) {
  auto all = ask(R"(
    %p = fx.node "aten.linear.default"(%x, %a) : (!x, !w) -> !x
    %q = fx.node "aten.add_.Tensor"(%p, %x) : (!x, !x) -> !x
    %r = fx.node "aten.relu_.default"(%q) : (!x) -> !x
    fx.output(%r) : (!x)
  )",
                 onH200());
  EXPECT_TRUE(find(all, "float16"));
  EXPECT_TRUE(find(all, "cuda-graph"));
  EXPECT_TRUE(find(all, "freeze"));
}

TEST_F(RecommendTest,
       AGraphThatWritesItsInputKeepsItsPrecisionAndIsNotCaptured) {
  auto all = ask(R"(
    %p = fx.node "aten.linear.default"(%x, %a) : (!x, !w) -> !x loc("p")
    %v = fx.node "aten.transpose.int"(%x, 0, 1) : (!x) -> !fx.any
    %q = fx.node "aten.relu_.default"(%v) : (!fx.any) -> !fx.any loc(fused["q", "model.py":7:0])
    %r = fx.node "aten.relu_.default"(%x) : (!x) -> !x loc("r")
    fx.output(%p) : (!x)
  )",
                 onH200());
  EXPECT_FALSE(find(all, "float16"));
  EXPECT_FALSE(find(all, "cuda-graph"));
  // What is constant stays so.
  EXPECT_TRUE(find(all, "freeze"));
  auto declined = [&](llvm::StringRef rule) -> const Decline * {
    auto found = llvm::find_if(
        declines, [&](const Decline &one) { return one.rule == rule; });
    return found == declines.end() ? nullptr : &*found;
  };
  for (llvm::StringRef rule : {"float16", "cuda-graph"}) {
    ASSERT_TRUE(declined(rule));
    EXPECT_EQ(declined(rule)->reason, "it writes an input of the graph");
    EXPECT_EQ(declined(rule)->line, "model.py:7");
  }
  ASSERT_TRUE(declined("bfloat16"));
  EXPECT_FALSE(declined("freeze"));
}

TEST_F(RecommendTest, WhatIsOverTheBudgetIsDeclined) {
  ask(kTwoProducts, onH200());
  auto found = llvm::find_if(
      declines, [](const Decline &one) { return one.rule == "bfloat16"; });
  ASSERT_NE(found, declines.end());
  EXPECT_EQ(found->reason,
            "its usual error, 0.006, is over the budget of 0.001");
  EXPECT_TRUE(found->node.name.empty());
}

TEST_F(RecommendTest, EqualDeclinesAreCounted) {
  auto all = ask(R"(
    %c = fx.node "aten.mul.Tensor"(%a, %b) : (!w, !w) -> !w
    %d = fx.node "aten.add.Tensor"(%a, %b) : (!w, !w) -> !w
    %p = fx.node "aten.linear.default"(%x, %c) : (!x, !w) -> !x loc("p")
    %q = fx.node "aten.linear.default"(%x, %d) : (!x, !w) -> !x loc("q")
    %sum = fx.node "aten.add.Tensor"(%p, %q) : (!x, !x) -> !x
    fx.output(%sum) : (!x)
  )",
                 onH200());
  auto found = llvm::find_if(
      declines, [](const Decline &one) { return one.rule == "merge-gemms"; });
  ASSERT_NE(found, declines.end());
  EXPECT_EQ(found->reason, "its weight is computed in every call");
  EXPECT_EQ(found->node.name, "p");
  EXPECT_EQ(found->count, 2u);
}

TEST_F(RecommendTest, EveryScriptOfAProgramWithRecurrentLayersAsksForThem) {
  auto print = [](const Recommendation &one) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    fx::printRewriteScript(*one.script, stream);
    return text;
  };
  auto all = ask(R"(
    %l = fx.node "aten.lstm.input"(%x, [%x, %x], [%a, %b], true, 1, 0.0, false, false, false) : (!x, !x, !x, !w, !w) -> tuple<!x, !x, !x>
    %y = fx.node "operator.getitem"(%l, 0) : (tuple<!x, !x, !x>) -> !x
    %p = fx.node "aten.linear.default"(%y, %a) : (!x, !w) -> !x
    %q = fx.node "aten.linear.default"(%y, %b) : (!x, !w) -> !x
    %sum = fx.node "aten.add.Tensor"(%p, %q) : (!x, !x) -> !x
    fx.output(%sum) : (!x)
  )",
                 onH200());
  for (llvm::StringRef name : {"merge-gemms", "freeze", "cuda-graph"}) {
    ASSERT_TRUE(find(all, name));
    EXPECT_NE(print(*find(all, name)).find("recurrent"), std::string::npos);
  }
  all = ask(kTwoProducts, onH200());
  EXPECT_EQ(print(*find(all, "freeze")).find("recurrent"), std::string::npos);
}

TEST_F(RecommendTest, EveryRuleSaysWhatItIsAbout) {
  llvm::StringSet<> names;
  for (const Rule *rule : getRules()) {
    EXPECT_TRUE(names.insert(rule->name).second);
    EXPECT_FALSE(rule->finding.empty());
    EXPECT_FALSE(rule->conditions.empty());
    EXPECT_FALSE(rule->prediction.empty());
  }
}

TEST_F(RecommendTest, RandomNumbersAreNotCaptured) {
  auto all = ask(R"(
    %p = fx.node "aten.dropout.default"(%x, 0.5, true) : (!x) -> !x
    %q = fx.node "aten.linear.default"(%p, %a) : (!x, !w) -> !x
    fx.output(%q) : (!x)
  )",
                 onH200());
  EXPECT_FALSE(find(all, "cuda-graph"));
  EXPECT_TRUE(find(all, "float16"));
}

TEST_F(RecommendTest, ACpuGetsNoCudaGraph) {
  Evidence evidence;
  evidence.device = assumeDeviceCeilings("cpu");
  EXPECT_FALSE(find(ask(kTwoProducts, evidence), "cuda-graph"));
}

TEST_F(RecommendTest, TheHostsShareRanksTheCudaGraph) {
  Evidence evidence = onH200();
  evidence.wallNs = 900000;
  evidence.busyNs = 100000;
  evidence.kernelNs = 100000;
  auto all = ask(kTwoProducts, evidence);
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all.front().name, "cuda-graph");
  EXPECT_DOUBLE_EQ(all.front().savesNs, 800000);
}

TEST_F(RecommendTest, TF32UnitsAreWorthTheTimeOfProductsThatWaitForThem) {
  auto all = ask(kTwoProducts, onH200());
  const Recommendation *found = find(all, "tf32");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->title, "2 float32 products on TF32 units");
  // Two products of 34 MFLOP in 0.50 us each, and their 1.3 MB in 0.31 us.
  EXPECT_NEAR(found->savesNs, 2 * (501 - 305), 2);

  // A measured time scales it.
  auto timed = ask(R"(
    %p = fx.node "aten.linear.default"(%x, %a) {prof.time = #prof.time<ns = 10000, kernels = 1, share = whole, confidence = high>} : (!x, !w) -> !x
    fx.output(%p) : (!x)
  )",
                   onH200());
  EXPECT_NEAR(find(timed, "tf32")->savesNs, 10000 * (501 - 305) / 501., 20);
}

TEST_F(RecommendTest, TF32UnitsAreForFloat32ProductsOnDevicesThatHaveThem) {
  auto offers = [&](StringRef types, StringRef target,
                    const Evidence &evidence) {
    std::string text = (types + R"(
      fx.graph @model(%x: !x, %a: !w) -> !x {
        %p = fx.node ")" +
                        target +
                        R"("(%x, %a) : (!x, !w) -> !x
        fx.output(%p) : (!x)
      })")
                           .str();
    module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    return module &&
           find(rewrite::recommend(*module, evidence)->recommendations, "tf32");
  };
  auto types = [](StringRef element, StringRef device, StringRef rows) {
    return ("!x = tensor<" + rows + "x512x" + element + ", #fx.tensor<\"" +
            device + "\">>\n!w = tensor<512x512x" + element +
            ", #fx.tensor<\"" + device + "\">>\n")
        .str();
  };
  std::string plain = types("f32", "cuda:0", "64");
  EXPECT_TRUE(offers(plain, "aten.linear.default", onH200()));
  EXPECT_TRUE(offers(plain, "aten.mm.default", onH200()));
  // Near misses: another type, another device, a product that waits for memory
  // alone, what is no product of cuBLAS, and a device without the units.
  EXPECT_FALSE(
      offers(types("f16", "cuda:0", "64"), "aten.linear.default", onH200()));
  EXPECT_FALSE(
      offers(types("f32", "cpu", "64"), "aten.linear.default", onH200()));
  EXPECT_FALSE(
      offers(types("f32", "cuda:0", "1"), "aten.linear.default", onH200()));
  EXPECT_FALSE(offers(plain, "aten.mul.Tensor", onH200()));
  Evidence old;
  old.device = onH200().device;
  old.device.tf32 = {};
  EXPECT_FALSE(offers(plain, "aten.linear.default", old));
  Evidence strict = onH200();
  strict.errorBudget = 5e-4;
  EXPECT_FALSE(offers(plain, "aten.linear.default", strict));
}

TEST_F(RecommendTest, ScriptsAreReadBackAsTheyWerePrinted) {
  auto all = ask(kTwoProducts, onH200());
  ASSERT_FALSE(all.empty());
  for (const Recommendation &one : all) {
    setScriptHead(one, 1, {"model", "", ""});
    std::string text, again;
    llvm::raw_string_ostream stream(text), streamAgain(again);
    fx::printRewriteScript(*one.script, stream);
    auto read = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(read) << text;
    EXPECT_TRUE(OperationEquivalence::isEquivalentTo(
        *one.script, *read, OperationEquivalence::IgnoreLocations))
        << text;
  }
}

TEST_F(RecommendTest, AScriptIsPrintedForPeople) {
  auto all = ask(kTwoProducts, onH200());
  const Recommendation *merge = find(all, "merge-gemms");
  ASSERT_TRUE(merge);
  setScriptHead(*merge, 2, {"model", "", ""});
  std::string text;
  llvm::raw_string_ostream stream(text);
  fx::printRewriteScript(*merge->script, stream);
  for (const char *line :
       {"// 2 GEMMs of one input become one.\n", "!t = tensor<",
        "\n  rank = 2,", "\n  expected_error = 1.0e-06,",
        "\n  nodes = [[\"p\", \"q\"]]",
        "  // What is there.\n  fx.graph private @pattern(%x: !t ",
        "  // What takes its place.\n  fx.graph private @replacement(",
        "%weight = fx.node \"aten.cat.default\"([%weight_0, %weight_1], 0)"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
}

TEST_F(RecommendTest, NodesOfSeveralGraphsKeepTheirGraphs) {
  module = parseSourceString<ModuleOp>(std::string(kTypes) + R"(
      fx.graph @first stage "export" (%x: !x, %a: !w, %b: !w) -> !x {)" +
                                           kTwoProducts + R"(}
      fx.graph @second stage "export" (%x: !x, %a: !w, %b: !w) -> !x {)" +
                                           kTwoProducts + R"(}
      fx.graph @lowered stage "post_grad" (%x: !x, %a: !w, %b: !w) -> !x {)" +
                                           kTwoProducts + "}",
                                       &context);
  ASSERT_TRUE(module);
  FailureOr<Offers> offers = rewrite::recommend(*module, onH200());
  auto &all = offers->recommendations;
  const Recommendation *merge = find(all, "merge-gemms");
  ASSERT_TRUE(merge);
  EXPECT_EQ(merge->title, "2 GEMMs of one input become one, at 2 places");
  ASSERT_EQ(merge->places.size(), 2u);
  EXPECT_EQ(merge->places[0][0], (NodeId{"first", "export", "p"}));
  EXPECT_EQ(merge->places[1][1], (NodeId{"second", "export", "q"}));
}
} // namespace
