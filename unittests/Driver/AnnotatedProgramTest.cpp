// The annotated program: made of its parts, read by a pass, stripped again.

#include "opprof/Driver/AnnotatedProgram.h"
#include "opprof/Dialect/FX/IR/FX.h"
#include "opprof/Dialect/FX/IR/NodeSymbols.h"
#include "opprof/Dialect/FX/IR/Provenance.h"
#include "opprof/Dialect/Inductor/IR/Inductor.h"
#include "opprof/Dialect/Prof/IR/Prof.h"
#include "opprof/Dialect/Prof/Transforms/AttachProfile.h"
#include "opprof/Target/InductorCode/InductorTranslation.h"

#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace opprof;

namespace {

// The same as in docs/dialects/prof.md, which a test compares.
// [example]
/// Remarks at the user's line of every node that takes a microsecond a step or
/// more.
struct RemarkSlowNodes
    : public PassWrapper<RemarkSlowNodes, OperationPass<fx::GraphOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(RemarkSlowNodes)

  void runOnOperation() override {
    for (auto node : getOperation().getBlock().getOps<fx::NodeOp>()) {
      // Absent where no profile says anything; never 0 for unknown.
      std::optional<double> ns = prof::getTime(node);
      if (!ns || *ns < 1000)
        continue;
      std::optional<double> busy =
          prof::getCounter(node, "dram_throughput_pct");
      node.emitRemark() << "takes " << *ns << " ns a step"
                        << (busy && *busy > 60 ? ", bound by memory" : "");
    }
  }
};
// [example]

constexpr const char *kExported = R"(
fx.graph @net stage "export" (%x: tensor<4xf32>, %p: tensor<i1>) -> tensor<4xf32> {
  %relu = fx.node "aten.relu.default"(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("relu"("model.py":3:0))
  %neg = fx.node "aten.neg.default"(%relu) : (tensor<4xf32>) -> tensor<4xf32> loc("neg")
  fx.output(%neg) : (tensor<4xf32>)
}
)";

// A graph of the same name, with the body of a higher-order operator.
constexpr const char *kPostGrad = R"(
fx.graph @net stage "post_grad" (%x: tensor<4xf32>, %p: tensor<i1>) -> tensor<4xf32> {
  %neg = fx.node "aten.neg.default"(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("neg")
  %cond = fx.node "higher_order.cond"(%p, @true_graph_0, @true_graph_0, [%neg]) : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32> loc("cond")
  fx.output(%cond) : (tensor<4xf32>)
}
fx.graph private @true_graph_0(%x: tensor<4xf32>) -> tensor<4xf32> {
  %relu = fx.node "aten.relu.default"(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("relu")
  fx.output(%relu) : (tensor<4xf32>)
}
)";

class AnnotatedProgramTest : public ::testing::Test {
protected:
  AnnotatedProgramTest() {
    context.loadDialect<fx::FXDialect, inductor::InductorDialect,
                        prof::ProfDialect>();
  }

  static std::string print(ModuleOp module) {
    std::string text;
    llvm::raw_string_ostream os(text);
    module->print(os, OpPrintingFlags().enableDebugInfo());
    return text;
  }

  static launch::LaunchMap makeMap(std::string graph) {
    launch::LaunchMap map;
    map.graph = std::move(graph);
    map.launches.resize(2);
    for (auto [index, launch] : llvm::enumerate(map.launches)) {
      launch.index = index;
      launch.kernel = index ? "triton_poi" : "cpp_fused";
      launch.kind =
          index ? launch::LaunchKind::Triton : launch::LaunchKind::Cpp;
      launch.file = "output_code.py";
      launch.line = 10 + index;
      launch::LaunchNode &node = launch.nodes.emplace_back();
      node.name = index ? "relu" : "neg";
      node.graph = index ? "true_graph_0" : "";
      node.from = {{"net", "export", node.name}};
    }
    map.notLaunched.push_back({"view", "", "view"});
    return map;
  }

  static std::unique_ptr<profile::Profile> makeProfile(StringRef compiled) {
    auto profile = std::make_unique<profile::Profile>();
    profile->graph = "net";
    profile->stage = "export";
    profile->summary.steps = 2;
    profile->nodes.resize(2);
    profile->launches.resize(2);
    for (auto [i, node] : llvm::enumerate(profile->nodes)) {
      node.id = {"net", "export", i ? "relu" : "neg"};
      node.metrics["dram_throughput_pct"] = 50.0 + 20 * i;
      profile->launches[i].compiledGraph = compiled.str();
      profile->launches[i].index = i;
      profile->launches[i].kernel = i ? "triton_poi" : "cpp_fused";
      profile::Activity &kernel = profile->kernels.emplace_back();
      kernel.id = i;
      kernel.name = profile->launches[i].kernel;
      kernel.startNs = 10000 * i;
      kernel.durationNs = 1000 + 4000 * i;
      profile->changeOrigin(kernel, [&](profile::Origin &origin) {
        origin.nodes = {static_cast<uint32_t>(i)};
      });
      kernel.launch = i;
      kernel.confidence = Confidence::High;
    }
    profile::summarize(*profile);
    return profile;
  }

  OwningOpRef<ModuleOp> parse(StringRef text) {
    return parseSourceString<ModuleOp>(text, &context);
  }

  MLIRContext context;
};

TEST_F(AnnotatedProgramTest, HoldsAllStages) {
  OwningOpRef<ModuleOp> module = parse(kExported);
  std::string before = print(*module);
  // Two compiled graphs whose bodies have the same name.
  std::vector<CompiledGraph> compiled;
  for (StringRef name : {"net", "other"}) {
    compiled.push_back({makeMap(name.str()), parse(kPostGrad), {}});
    compiled.back().map.launches.front().nodes.front().from = {
        {"net", "export", "neg"}};
  }
  PartitionMap partitions;
  partitions.graph = "net";
  partitions.stage = "export";
  MappedClass &repeated = partitions.classes.emplace_back();
  repeated.id = "c0";
  repeated.partitions = {
      {"h.0", /*isUnique=*/true, /*parent=*/"", {}, {{"net", "export", "neg"}}},
      {"h.1",
       /*isUnique=*/false,
       /*parent=*/"",
       {},
       {{"net", "export", "relu"}}}};
  std::unique_ptr<profile::Profile> profile = makeProfile("other");
  ASSERT_TRUE(succeeded(
      buildAnnotatedProgram(*module, compiled, partitions, profile.get())));
  ASSERT_TRUE(succeeded(verify(*module)));

  fx::NodeSymbols symbols(*module);
  const fx::NodePlace *exported =
      symbols.lookup(NodeId{"net", "export", "neg"});
  const fx::NodePlace *post = symbols.lookup(NodeId{"net", "post_grad", "neg"});
  ASSERT_TRUE(exported && post);
  EXPECT_NE(exported->node, post->node);
  EXPECT_EQ(prof::getTime(exported->node), 500.0);
  EXPECT_EQ(prof::getTime(post->node), std::nullopt);
  EXPECT_EQ(prof::getCounter(exported->node, "dram_throughput_pct"), 50.0);
  EXPECT_EQ(prof::getSummary(exported->node).getPerStep(6000), 3000.0);

  // Each program's launches name the body of its own graph.
  std::vector<inductor::ProgramOp> programs(
      module->getOps<inductor::ProgramOp>().begin(),
      module->getOps<inductor::ProgramOp>().end());
  ASSERT_EQ(programs.size(), 2u);
  SmallVector<Operation *> bodies;
  for (inductor::ProgramOp program : programs)
    for (auto launch : program.getBody().getOps<inductor::LaunchOp>())
      if (launch.getIndex() == 1)
        bodies.push_back(
            symbols
                .lookup(
                    cast<inductor::NodeAttr>(launch.getNodes()[0]).getNode())
                ->node);
  ASSERT_EQ(bodies.size(), 2u);
  EXPECT_NE(bodies[0], bodies[1]);
  // The profile is of the second one.
  auto first = [](inductor::ProgramOp program) {
    return *program.getBody().getOps<inductor::LaunchOp>().begin();
  };
  EXPECT_EQ(prof::getTime(first(programs[0])), std::nullopt);
  EXPECT_EQ(prof::getTime(first(programs[1])), 500.0);
  // And each gives its launch map back.
  EXPECT_EQ(inductor::toLaunchMap(programs[0]).graph, "net");
  EXPECT_EQ(inductor::toLaunchMap(programs[1]).launches[1].nodes[0].graph,
            "true_graph_0");

  auto classOp = *module->getOps<prof::ClassOp>().begin();
  EXPECT_EQ(prof::getTime(&classOp.getBody().front().back()), 2500.0);

  // Bytecode loses nothing, and what is stripped is what there was.
  std::string bytes;
  llvm::raw_string_ostream os(bytes);
  ASSERT_TRUE(succeeded(writeBytecodeToFile(*module, os)));
  OwningOpRef<ModuleOp> again = parse(bytes);
  ASSERT_TRUE(again);
  EXPECT_EQ(print(*again), print(*module));
  prof::stripProfile(*again);
  EXPECT_EQ(print(*again), before);
}

TEST_F(AnnotatedProgramTest, StaysValidUnderPasses) {
  OwningOpRef<ModuleOp> module = parse(kExported);
  std::vector<CompiledGraph> compiled;
  compiled.push_back({makeMap("net"), parse(kPostGrad), {}});
  std::unique_ptr<profile::Profile> profile = makeProfile("net");
  ASSERT_TRUE(
      succeeded(buildAnnotatedProgram(*module, compiled, {}, profile.get())));
  // Names live in locations, and nodes may go: neither makes the module
  // invalid, and post-grad graphs that a program is of are not dead.
  PassManager manager(&context);
  manager.addPass(createSymbolDCEPass());
  manager.addNestedPass<fx::GraphOp>(createCSEPass());
  manager.addPass(createStripDebugInfoPass());
  ASSERT_TRUE(succeeded(manager.run(*module)));
  size_t graphs = llvm::range_size(module->getOps<fx::GraphOp>());
  EXPECT_EQ(graphs, 3u);
}

TEST_F(AnnotatedProgramTest, LaunchesWithoutTheirGraph) {
  OwningOpRef<ModuleOp> module = parse(kExported);
  std::vector<CompiledGraph> compiled;
  compiled.push_back({makeMap("net"), {}, {}});
  ASSERT_TRUE(succeeded(buildAnnotatedProgram(*module, compiled, {}, nullptr)));
  ASSERT_TRUE(succeeded(verify(*module)));
  launch::LaunchMap map =
      inductor::toLaunchMap(*module->getOps<inductor::ProgramOp>().begin());
  EXPECT_EQ(map.graph, "net");
  EXPECT_EQ(map.stage, "post_grad");
  EXPECT_EQ(map.launches[1].nodes[0].graph, "true_graph_0");
  EXPECT_EQ(map.launches[1].nodes[0].from,
            (std::vector<NodeId>{{"net", "export", "relu"}}));
  EXPECT_EQ(map.notLaunched[0].name, "view");
}

TEST_F(AnnotatedProgramTest, PassesReadTimes) {
  OwningOpRef<ModuleOp> module = parse(kExported);
  std::unique_ptr<profile::Profile> profile = makeProfile("net");
  ASSERT_TRUE(succeeded(prof::attachProfile(*module, *profile)));
  std::vector<std::string> remarks;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    remarks.push_back(diagnostic.str());
    return success();
  });
  PassManager manager(&context);
  manager.addNestedPass<fx::GraphOp>(std::make_unique<RemarkSlowNodes>());
  ASSERT_TRUE(succeeded(manager.run(*module)));
  ASSERT_EQ(remarks.size(), 1u);
  EXPECT_EQ(remarks[0], "takes 2.500000e+03 ns a step, bound by memory");
}

} // namespace
