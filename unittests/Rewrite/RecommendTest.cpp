// What the rules offer, what they predict from, and what they refuse.

#include "opprof/Dialect/FX/IR/FX.h"
#include "opprof/Rewrite/Recommend.h"
#include "opprof/Dialect/FX/TransformOps/FXTransformOps.h"

#include "mlir/Dialect/Transform/IR/TransformDialect.h"
#include "mlir/Parser/Parser.h"
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
    registry.insert<fx::FXDialect, transform::TransformDialect>();
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
    return rewrite::recommend(*module->getOps<fx::GraphOp>().begin(), evidence);
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
};

const std::string kTwoProducts = R"(
  %p = fx.node "aten.linear.default"(%x, %a) : (!x, !w) -> !x loc("p")
  %q = fx.node "aten.linear.default"(%x, %b) : (!x, !w) -> !x loc("q")
  %sum = fx.node "aten.add.Tensor"(%p, %q) : (!x, !x) -> !x
  fx.output(%sum) : (!x)
)";

Evidence onH200() {
  Evidence evidence;
  evidence.device = assumeDeviceCeilings("NVIDIA H200");
  return evidence;
}

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

  evidence.nodeNs["p"] = 10000;
  evidence.nodeNs["q"] = 10000;
  auto once = ask(kTwoProducts, evidence);
  double savedOnce = find(once, "merge-gemms")->savesNs;
  EXPECT_GT(savedOnce, 0);
  EXPECT_LT(savedOnce, 20000);
  evidence.nodeNs["p"] = evidence.nodeNs["q"] = 20000;
  auto twice = ask(kTwoProducts, evidence);
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

TEST_F(RecommendTest, AGraphThatWritesKeepsItsPrecisionAndIsNotCaptured) {
  auto all = ask(R"(
    %p = fx.node "aten.linear.default"(%x, %a) : (!x, !w) -> !x
    %q = fx.node "aten.add_.Tensor"(%p, %x) : (!x, !x) -> !x
    fx.output(%q) : (!x)
  )",
                 onH200());
  EXPECT_FALSE(find(all, "float16"));
  EXPECT_FALSE(find(all, "cuda-graph"));
  EXPECT_FALSE(find(all, "freeze"));
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

TEST_F(RecommendTest, ScriptsAreValid) {
  for (const Recommendation &one : ask(kTwoProducts, onH200())) {
    std::string text = getScriptText(one, 1);
    EXPECT_TRUE(parseSourceString<ModuleOp>(text, &context)) << text;
  }
}

TEST_F(RecommendTest, AProfileThatIsNoneIsAnError) {
  Evidence evidence;
  for (llvm::StringRef text : {"", "[]", "{}", "{\"version\": 2}",
                               "{\"version\": 1, \"summary\": 3}", "{\"ver"}) {
    llvm::Error error = readEvidence(text, "p.json", evidence);
    ASSERT_TRUE(bool(error)) << text.str();
    EXPECT_NE(llvm::toString(std::move(error)).find("p.json"),
              std::string::npos);
  }
  EXPECT_FALSE(evidence.wallNs);
}

} // namespace
