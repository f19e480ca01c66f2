// The join of launches to nodes, on small programs whose answer is known, and
// the alignment of two captures.

#include "opprof/Target/InductorCode/Launches.h"
#include "opprof/Target/InductorCode/Alignment.h"
#include "opprof/Target/InductorCode/FXReadable.h"

#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::inductor;
using namespace opprof::launch;

static GraphView graphOf(StringRef body) {
  std::string text = "class M(torch.nn.Module):\n" + body.str();
  Expected<GraphView> graph = readFXReadable(text, "g.py");
  EXPECT_TRUE(bool(graph)) << toString(graph.takeError());
  return std::move(*graph);
}

static WrapperProgram programOf(StringRef text) {
  Expected<WrapperProgram> program = readWrapper(text, "output_code.py");
  EXPECT_TRUE(bool(program)) << toString(program.takeError());
  return std::move(*program);
}

static std::string names(const Launch &launch) {
  std::string out;
  for (const LaunchNode &node : launch.nodes)
    out += (out.empty() ? "" : " ") + node.name + (node.recomputed ? "*" : "") +
           (node.continued ? "~" : "") + (node.prepares ? "^" : "");
  return out;
}

namespace {
constexpr StringLiteral kKernels =
    "k0 = async_compile.cpp_pybinding(['const float*', 'const float*', "
    "'float*'], r'''\nextern \"C\"  void  kernel(const float* in_ptr0, const "
    "float* in_ptr1, float* out_ptr0)\n''')\n"
    "k1 = async_compile.cpp_pybinding(['float*'], r'''\nvoid kernel(float* "
    "in_out_ptr0)\n''')\n"
    "async_compile.wait(globals())\n";

constexpr StringLiteral kAddReluGraph =
    "    def forward(self, a: \"f32[4]\", b: \"f32[4]\"):\n"
    "        add: \"f32[4]\" = torch.ops.aten.add.Tensor(a, b)\n"
    "        relu: \"f32[4]\" = torch.ops.aten.relu.default(add)\n"
    "        sin: \"f32[4]\" = torch.ops.aten.sin.default(add)\n"
    "        return (relu, sin)\n";

TEST(Launches, DataflowAloneFindsNodes) {
  std::string code =
      kKernels.str() +
      "k2 = async_compile.cpp_pybinding(['const float*', 'float*'], r'''"
      "void kernel(const float* in_ptr0, float* out_ptr0)''')\n"
      "def call(args):\n"
      "    a, b = args\n"
      "    buf0 = empty_strided_cpu((4,), (1,), torch.float32)\n"
      "    k0(a, b, buf0)\n"
      "    buf1 = empty_strided_cpu((), (), torch.float32)\n"
      "    k2(buf0, buf1)\n"
      "    return (buf0, buf1)\n";
  GraphView graph =
      graphOf("    def forward(self, a: \"f32[4]\", b: \"f32[4]\"):\n"
              "        mul: \"f32[4]\" = torch.ops.aten.mul.Tensor(a, b)\n"
              "        add: \"f32[4]\" = torch.ops.aten.add.Tensor(mul, b)\n"
              "        sum_1: \"f32[]\" = torch.ops.aten.sum.default(add)\n"
              "        return (add, sum_1)\n");
  WrapperProgram program = programOf(code);
  LaunchMap map = buildLaunchMap({program, &graph, nullptr, "g"});
  ASSERT_EQ(map.launches.size(), 2u);
  EXPECT_EQ(map.statements.keptAsText, 0u);
  EXPECT_EQ(names(map.launches[0]), "mul add");
  EXPECT_EQ(names(map.launches[1]), "sum_1");
  EXPECT_EQ(map.launches[1].nodes[0].evidence,
            std::vector<std::string>{"dataflow"});
  // Inputs have the types of the graph's.
  EXPECT_EQ(map.launches[0].bytesRead, 32u);
  EXPECT_EQ(map.launches[0].bytesWritten, 16u);
}

TEST(Launches, RecomputedNodesAreMarked) {
  std::string code = kKernels.str() +
                     "def call(args):\n"
                     "    a, b = args\n"
                     "    buf0 = empty_strided_cpu((4,), (1,), torch.float32)\n"
                     "    # [Provenance debug handles] k0:1\n"
                     "    k0(a, b, buf0)\n"
                     "    buf1 = empty_strided_cpu((4,), (1,), torch.float32)\n"
                     "    # [Provenance debug handles] k0:2\n"
                     "    k0(a, b, buf1)\n"
                     "    return (buf0, buf1)\n";
  GraphView graph = graphOf(kAddReluGraph);
  Provenance provenance;
  provenance.kernelToPost["k0:1"] = {"relu", "add"};
  provenance.kernelToPost["k0:2"] = {"add", "sin"};
  WrapperProgram program = programOf(code);
  LaunchMap map = buildLaunchMap({program, &graph, &provenance, "g"});
  ASSERT_EQ(map.launches.size(), 2u);
  EXPECT_EQ(names(map.launches[0]), "add relu");
  EXPECT_EQ(names(map.launches[1]), "add* sin");
  EXPECT_EQ(map.launches[0].flops, 8u);
  EXPECT_EQ(map.launches[0].dtype, "float32");
  EXPECT_TRUE(map.notLaunched.empty());
}

TEST(Launches, AValueThatGoesInIsOnlyListed) {
  std::string code = kKernels.str() +
                     "def call(args):\n"
                     "    a, b = args\n"
                     "    buf0 = empty_strided_cpu((4,), (1,), torch.float32)\n"
                     "    # [Provenance debug handles] k0:1\n"
                     "    k0(a, b, buf0)\n"
                     "    # [Provenance debug handles] k1:2\n"
                     "    k1(buf0)\n"
                     "    return (buf0,)\n";
  GraphView graph =
      graphOf("    def forward(self, a: \"f32[4]\", b: \"f32[4]\"):\n"
              "        add: \"f32[4]\" = torch.ops.aten.add.Tensor(a, b)\n"
              "        relu: \"f32[4]\" = torch.ops.aten.relu.default(add)\n"
              "        return (relu,)\n");
  Provenance provenance;
  provenance.kernelToPost["k0:1"] = {"add"};
  provenance.kernelToPost["k1:2"] = {"add", "relu"};
  WrapperProgram program = programOf(code);
  LaunchMap map = buildLaunchMap({program, &graph, &provenance, "g"});
  EXPECT_EQ(names(map.launches[1]), "relu");
  EXPECT_EQ(map.launches[1].listedOnly, std::vector<std::string>{"add"});
}

TEST(Launches, WhatTheWrapperCallsNoKernelComputes) {
  std::string code =
      kKernels.str() +
      "k2 = async_compile.cpp_pybinding(['const float*', 'float*'], r'''"
      "void kernel(const float* in_ptr0, float* out_ptr0)''')\n"
      "def call(args):\n"
      "    a, b = args\n"
      "    buf0 = empty_strided_cpu((4,), (1,), torch.float32)\n"
      "    # [Provenance debug handles] k0:1\n"
      "    k0(a, b, buf0)\n"
      "    # [Provenance debug handles] torch.ops.aten.cumsum.default:2\n"
      "    buf1 = torch.ops.aten.cumsum.default(buf0, 0)\n"
      "    buf2 = empty_strided_cpu((4,), (1,), torch.float32)\n"
      "    # [Provenance debug handles] k2:3\n"
      "    k2(buf1, buf2)\n"
      "    return (buf2,)\n";
  GraphView graph =
      graphOf("    def forward(self, a: \"f32[4]\", b: \"f32[4]\"):\n"
              "        add: \"f32[4]\" = torch.ops.aten.add.Tensor(a, b)\n"
              "        cumsum: \"f32[4]\" = "
              "torch.ops.aten.cumsum.default(add, 0)\n"
              "        sin: \"f32[4]\" = torch.ops.aten.sin.default(cumsum)\n"
              "        return (sin,)\n");
  // PyTorch names the scan for the kernel that makes its operand, and for the
  // one that reads its result.
  Provenance provenance;
  provenance.kernelToPost["k0:1"] = {"add", "cumsum"};
  provenance.kernelToPost["torch.ops.aten.cumsum.default:2"] = {"cumsum"};
  provenance.kernelToPost["k2:3"] = {"cumsum", "sin"};
  WrapperProgram program = programOf(code);
  LaunchMap map = buildLaunchMap({program, &graph, &provenance, "g"});
  ASSERT_EQ(map.launches.size(), 3u);
  EXPECT_EQ(names(map.launches[0]), "add cumsum^");
  EXPECT_EQ(names(map.launches[1]), "cumsum");
  EXPECT_EQ(names(map.launches[2]), "sin");
  EXPECT_EQ(map.launches[2].listedOnly, std::vector<std::string>{"cumsum"});
}

TEST(Launches, SubgraphsGiveTheirLaunchesAtEachCall) {
  std::string code = kKernels.str() + "def region(args):\n"
                                      "    x, = args\n"
                                      "    k1(x)\n"
                                      "    return (x,)\n"
                                      "def call(args):\n"
                                      "    a, = args\n"
                                      "    region_args = [a]\n"
                                      "    (b,) = region(region_args)\n"
                                      "    while b.item():\n"
                                      "        (c,) = region([b])\n"
                                      "    return (c,)\n";
  WrapperProgram program = programOf(code);
  ASSERT_EQ(program.launches.size(), 3u);
  EXPECT_EQ(program.launches[0].function, "region");
  EXPECT_EQ(program.launches[0].callLines, std::vector<uint32_t>{15});
  EXPECT_EQ(program.launches[1].kernel, "Tensor.item");
  EXPECT_TRUE(program.launches[2].inLoop);
  EXPECT_EQ(program.launches[2].operands[0].storage,
            program.launches[0].operands[0].storage);
}

TEST(Launches, GatheredTablesCountTheRowsThatAreRead) {
  std::string code =
      "k = async_compile.cpp_pybinding(['const int64_t*', 'const float*', "
      "'float*'], r'''void kernel(const int64_t* in_ptr0, const float* "
      "in_ptr1, float* out_ptr0)''')\n"
      "def call(args):\n"
      "    i, w = args\n"
      "    assert_size_stride(i, (2,), (1,))\n"
      "    assert_size_stride(w, (1000, 8), (8, 1))\n"
      "    buf0 = empty_strided_cpu((2, 8), (8, 1), torch.float32)\n"
      "    # [Provenance debug handles] k:1\n"
      "    k(i, w, buf0)\n"
      "    return (buf0,)\n"
      "def get_args():\n"
      "    i = rand_strided((2,), (1,), device='cpu', dtype=torch.int64)\n"
      "    w = rand_strided((9, 9), (9, 1), device='cpu', "
      "dtype=torch.float32)\n";
  GraphView graph =
      graphOf("    def forward(self, i: \"i64[2]\", w: \"f32[1000, 8]\"):\n"
              "        embedding: \"f32[2, 8]\" = "
              "torch.ops.aten.embedding.default(w, i)\n"
              "        return (embedding,)\n");
  Provenance provenance;
  provenance.kernelToPost["k:1"] = {"embedding"};
  WrapperProgram program = programOf(code);
  LaunchMap map = buildLaunchMap({program, &graph, &provenance, "g"});
  EXPECT_EQ(map.launches[0].bytesRead, 16u + 64u);
  EXPECT_EQ(map.launches[0].bytesWritten, 64u);
}

TEST(Launches, TwoBodiesOfOneNameAreNoHarm) {
  GraphView graph =
      graphOf("    def forward(self, a: \"f32[4]\"):\n"
              "        return (a,)\n"
              "    class body(torch.nn.Module):\n"
              "        def forward(self, x):\n"
              "            return (x,)\n"
              "    class body(torch.nn.Module):\n"
              "        def forward(self, x):\n"
              "            sin = torch.ops.aten.sin.default(x)\n"
              "            cos = torch.ops.aten.cos.default(sin)\n"
              "            return (cos,)\n");
  WrapperProgram program = programOf("def call(args):\n    return args\n");
  LaunchMap map = buildLaunchMap({program, &graph, nullptr, "g"});
  EXPECT_TRUE(map.launches.empty());
}

TEST(Launches, AWriteIntoANumberIsNoHarm) {
  GraphView graph =
      graphOf("    def forward(self, a: \"f32[4]\"):\n"
              "        c = torch.ops.aten.copy_.default(1.0, 2.0)\n"
              "        exp: \"f32[4]\" = torch.ops.aten.exp.default(a)\n"
              "        return (exp, c)\n");
  WrapperProgram program = programOf("def call(args):\n    return args\n");
  LaunchMap map = buildLaunchMap({program, &graph, nullptr, "g"});
  EXPECT_TRUE(map.launches.empty());
}

/// Each view takes the one before it for a size, and each tensor is written
/// later: no chain of views is as long as the stack is deep.
TEST(Launches, LongChainsOfSizesAreNoHarm) {
  constexpr int kLinks = 20'000;
  std::string body = "    def forward(self, a: \"f32[4]\"):\n"
                     "        v0 = torch.ops.aten.sin.default(a)\n";
  for (int i = 1; i <= kLinks; ++i) {
    std::string at = std::to_string(i);
    body += "        s" + at + " = torch.ops.aten.sin.default(a)\n        v" +
            at + " = torch.ops.aten.view.default(s" + at + ", [4, v" +
            std::to_string(i - 1) + "])\n";
  }
  for (int i = 1; i <= kLinks; ++i) {
    std::string at = std::to_string(i);
    body += "        u" + at + " = torch.ops.aten.view.default(s" + at +
            ", [4])\n        c" + at + " = torch.ops.aten.copy_.default(u" +
            at + ", a)\n";
  }
  body += "        exp = torch.ops.aten.exp.default(v" +
          std::to_string(kLinks) + ")\n        return (exp, ";
  for (int i = 1; i <= kLinks; ++i)
    body += "s" + std::to_string(i) + ", ";
  body += ")\n";
  GraphView graph = graphOf(body);
  WrapperProgram program = programOf("def call(args):\n    return args\n");
  LaunchMap map = buildLaunchMap({program, &graph, nullptr, "g"});
  EXPECT_TRUE(map.launches.empty());
}

/// What PyTorch 2.4 wrote: no headers, signatures by number, a grid at the
/// call.
TEST(Launches, OlderForms) {
  WrapperProgram program = programOf(
      "# kernel path: /tmp/x/ab/cabc.py\n"
      "# Source Nodes: [x, x_1], Original ATen: [aten.addmm, aten.relu]\n"
      "# x => add\n"
      "# x_1 => relu\n"
      "triton_poi_fused_relu_0 = async_compile.triton('triton_', '''\n"
      "@triton_heuristics.pointwise(\n"
      "    triton_meta={'signature': {0: '*fp32', 1: '*fp32', 2: 'i32'}, "
      "'configs': [instance_descriptor(divisible_by_16=(0, 1))]},\n"
      "    inductor_meta={'kernel_name': 'triton_', 'mutated_arg_names': "
      "['in_ptr0']},\n"
      ")\n"
      "@triton.jit\n"
      "def triton_(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):\n"
      "    pass\n"
      "''', device_str='cuda')\n"
      "multi_kernel_0 = async_compile.multi_kernel('multi_kernel_0', "
      "[triton_poi_fused_relu_0, other])\n"
      "def call(args):\n"
      "    arg0_1, = args\n"
      "    args.clear()\n"
      "    assert_size_stride(arg0_1, (8, 4), (4, 1))\n"
      "    with torch.cuda._DeviceGuard(0):\n"
      "        pool1 = empty_strided_cuda((256, ), (1, ), torch.uint8)\n"
      "        buf0 = alloc_from_pool(pool1, 0, torch.float32, (8, 4), (4, "
      "1))\n"
      "        # Source Nodes: [x, x_1], Original ATen: [aten.addmm]\n"
      "        triton_poi_fused_relu_0.run(arg0_1, buf0, 32, grid=grid(32), "
      "stream=stream0)\n"
      "        multi_kernel_0.run(arg0_1, buf0, 32, grid=grid(32), "
      "stream=stream0)\n"
      "        buf1 = torch.ops._c10d_functional.all_reduce_.default(buf0, "
      "'sum', '0')\n"
      "        cutlass_0.cutlass_0(buf0, c_void_p(stream0))\n"
      "    return (buf0, )\n");
  EXPECT_EQ(program.statements.keptAsText, 1u); // cutlass_0 is defined nowhere.
  ASSERT_EQ(program.kernels.size(), 2u);
  const KernelDefinition &kernel = program.kernels[0];
  EXPECT_EQ(kernel.hash, "cabc");
  EXPECT_EQ(kernel.sourceNodes, (std::vector<std::string>{"x", "x_1"}));
  ASSERT_EQ(kernel.sourceToAten.size(), 2u);
  EXPECT_EQ(kernel.sourceToAten[1].second, std::vector<std::string>{"relu"});
  ASSERT_EQ(kernel.parameters.size(), 3u);
  EXPECT_EQ(kernel.parameters[0].role, KernelParameter::InOut);
  EXPECT_EQ(kernel.parameters[1].role, KernelParameter::Output);
  EXPECT_EQ(kernel.parameters[2].role, KernelParameter::Scalar);

  ASSERT_EQ(program.launches.size(), 4u);
  EXPECT_EQ(program.launches[0].sourceNodes,
            (std::vector<std::string>{"x", "x_1"}));
  ASSERT_EQ(program.launches[0].operands.size(), 2u);
  EXPECT_EQ(program.launches[0].operands[1].info.bytes(), 128u);
  EXPECT_EQ(program.launches[1].kind, LaunchKind::MultiKernel);
  EXPECT_EQ(program.launches[2].kind, LaunchKind::Collective);
  EXPECT_EQ(program.launches[2].operands[0].role, KernelParameter::InOut);
  EXPECT_EQ(program.launches[3].kind, LaunchKind::Fallback);
}

TEST(Launches, JSONIsReadAsItWasWritten) {
  LaunchMap map;
  map.graph = "g";
  map.statements = {3, 2, 1};
  map.alignment = Alignment{"structure", "net", "export", 1, 1, 2};
  Launch &launch = map.launches.emplace_back();
  launch.file = "output_code.py";
  launch.line = 7;
  launch.callLines = {3, 5};
  launch.kernel = "k";
  launch.kind = LaunchKind::MultiKernel;
  launch.category = LaunchCategory::SplitScan;
  launch.debugHandle = -1;
  launch.flops = UINT64_C(1) << 62;
  launch.dtype = "bfloat16";
  launch.listedOnly = {"x"};
  LaunchNode &node = launch.nodes.emplace_back();
  node.name = "n\"\n";
  node.graph = "body";
  node.recomputed = true;
  node.continued = true;
  node.prepares = true;
  node.confidence = Confidence::Medium;
  node.fromConfidence = Confidence::Low;
  node.from = {{"net", "export", "linear"}};
  map.notLaunched.push_back({"v", "", "view"});
  std::string text;
  raw_string_ostream os(text);
  writeLaunchMap(map, os);
  Expected<LaunchMap> read = readLaunchMap(text, "l.json");
  ASSERT_TRUE(bool(read)) << toString(read.takeError());
  std::string again;
  raw_string_ostream againStream(again);
  writeLaunchMap(*read, againStream);
  EXPECT_EQ(text, again);
  EXPECT_EQ(read->launches[0].flops, launch.flops);
  EXPECT_EQ(read->launches[0].dtype, "bfloat16");
  EXPECT_FALSE(read->launches[0].bytesRead);
}

TEST(Launches, JSONErrorsNameThePlace) {
  auto error = [](StringRef text) {
    Expected<LaunchMap> read = readLaunchMap(text, "l.json");
    EXPECT_FALSE(bool(read));
    return toString(read.takeError());
  };
  EXPECT_EQ(error("[]"), "l.json: expected one compiled graph, found 0");
  EXPECT_NE(error("{\"version\": 2, \"graph\": \"g\"}").find("version 2"),
            std::string::npos);
  EXPECT_EQ(error("{\"version\": 1, \"graph\": \"g\", \"stage\": \"s\"}"),
            "l.json: the key \"launches\" is missing");
  EXPECT_EQ(error("{\"version\": 1, \"graph\": \"g\", \"stage\": \"s\", "
                  "\"launches\": [{\"index\": 0, \"file\": \"f\", \"line\": 1, "
                  "\"kernel\": \"k\", \"kind\": \"magic\", \"category\": "
                  "\"extern\", \"nodes\": []}]}"),
            "l.json: launches[0]: \"magic\" is no known \"kind\"");
  EXPECT_NE(error("{\"version\": 1, \"graph\": \"g\", \"stage\": \"s\", "
                  "\"launches\": [{\"index\": -1}]}")
                .find("launches[0]: \"index\" must be a whole number"),
            std::string::npos);
  EXPECT_NE(error("{").find("not valid JSON"), std::string::npos);
}

TEST(GraphView, ShortTypes) {
  std::optional<TensorInfo> info =
      parseShortType("bf16[s0, 2*s1, Max(1, s2)][1, s0]cuda:0");
  ASSERT_TRUE(info);
  EXPECT_EQ(info->dtype, "bfloat16");
  ASSERT_EQ(info->shape.size(), 3u);
  EXPECT_EQ(info->shape[2].symbol, "Max(1, s2)");
  EXPECT_EQ(info->stride.size(), 2u);
  EXPECT_EQ(info->device, "cuda:0");
  EXPECT_FALSE(info->bytes());
  EXPECT_EQ(parseShortType("b8[]")->bytes(), 1u);
  EXPECT_EQ(parseShortType("f32[0, 5]")->bytes(), 0u);
  EXPECT_FALSE(parseShortType("f32[9223372036854775807, 4]")->bytes());
  EXPECT_FALSE(parseShortType("Sym(s0)"));
  EXPECT_FALSE(parseShortType("f32[4"));
}
} // namespace
