// Post-grad nodes and the exported nodes that they came from: which are tied,
// and how sure that is.

#include "../../../lib/Target/InductorCode/AlignedGraphs.h"
#include "../../../lib/Target/InductorCode/AlignmentOperators.h"

#include "opprof/Launch/LaunchMap.h"
#include "opprof/Target/InductorCode/Alignment.h"
#include "opprof/Target/InductorCode/FXReadable.h"

#include "gtest/gtest.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::inductor;

static GraphView graphOf(StringRef body) {
  std::string text = "class M(torch.nn.Module):\n" + body.str();
  Expected<GraphView> graph = readFXReadable(text, "g.py");
  EXPECT_TRUE(bool(graph)) << toString(graph.takeError());
  return std::move(*graph);
}

namespace {
struct Ties {
  Ties(const GraphView &post, const GraphView &exported)
      : post(post), exported(exported),
        ties(alignByStructure(post, exported, /*groups=*/nullptr)) {}

  std::string origin(StringRef node) const {
    const std::vector<uint32_t> &all = ties[*post.find(node)].origins;
    return all.empty() ? "" : exported.nodes[all.front()].name;
  }
  Confidence confidence(StringRef node) const {
    return ties[*post.find(node)].confidence;
  }

  const GraphView &post, &exported;
  std::vector<Tie> ties;
};
} // namespace

TEST(Alignment, DecomposedOperatorsFindTheirOrigin) {
  GraphView exported = graphOf(
      "    def forward(self, x: \"f32[2, 4]\", w: \"f32[8, 4]\", b: "
      "\"f32[8]\"):\n"
      "        linear: \"f32[2, 8]\" = torch.ops.aten.linear.default(x, w, b)\n"
      "        gelu: \"f32[2, 8]\" = torch.ops.aten.gelu.default(linear)\n"
      "        linear_1: \"f32[2, 4]\" = torch.ops.aten.linear.default(gelu, "
      "w)\n"
      "        return (linear_1,)\n");
  GraphView post = graphOf(
      "    def forward(self, a0: \"f32[2, 4]\", a1: \"f32[8, 4]\", a2: "
      "\"f32[8]\"):\n"
      "        permute: \"f32[4, 8]\" = torch.ops.aten.permute.default(a1, [1, "
      "0])\n"
      "        addmm: \"f32[2, 8]\" = torch.ops.aten.addmm.default(a2, a0, "
      "permute)\n"
      "        mul: \"f32[2, 8]\" = torch.ops.aten.mul.Tensor(addmm, 0.5)\n"
      "        erf: \"f32[2, 8]\" = torch.ops.aten.erf.default(addmm)\n"
      "        add: \"f32[2, 8]\" = torch.ops.aten.add.Tensor(erf, 1)\n"
      "        mul_1: \"f32[2, 8]\" = torch.ops.aten.mul.Tensor(mul, add)\n"
      "        mm: \"f32[2, 4]\" = torch.ops.aten.mm.default(mul_1, a1)\n"
      "        return (mm,)\n");
  Ties tie(post, exported);
  EXPECT_EQ(tie.origin("addmm"), "linear");
  EXPECT_EQ(tie.origin("mul"), "gelu");
  EXPECT_EQ(tie.origin("erf"), "gelu");
  EXPECT_EQ(tie.origin("mul_1"), "gelu");
  EXPECT_EQ(tie.origin("mm"), "linear_1");
}

/// Three equal parts that the two graphs take in different orders.
TEST(Alignment, DataflowTellsEqualNodesApart) {
  GraphView exported = graphOf(
      "    def forward(self, x: \"f32[4, 6]\"):\n"
      "        split = torch.ops.aten.split.Tensor(x, 2, 1)\n"
      "        getitem: \"f32[4, 2]\" = split[1]\n"
      "        getitem_1: \"f32[4, 2]\" = split[0]\n"
      "        sin: \"f32[4, 2]\" = torch.ops.aten.sin.default(getitem)\n"
      "        sin_1: \"f32[4, 2]\" = "
      "torch.ops.aten.sin.default(getitem_1)\n"
      "        return (sin, sin_1)\n");
  GraphView post =
      graphOf("    def forward(self, a: \"f32[4, 6]\"):\n"
              "        split_0 = torch.ops.aten.split.Tensor(a, 2, 1)\n"
              "        q: \"f32[4, 2]\" = split_0[0]\n"
              "        k: \"f32[4, 2]\" = split_0[1]\n"
              "        first: \"f32[4, 2]\" = torch.ops.aten.sin.default(q)\n"
              "        second: \"f32[4, 2]\" = torch.ops.aten.sin.default(k)\n"
              "        return (first, second)\n");
  Ties tie(post, exported);
  EXPECT_EQ(tie.origin("first"), "sin_1");
  EXPECT_EQ(tie.origin("second"), "sin");
}

/// Dropout that is switched off and copies that need not be made stand between.
TEST(Alignment, ResidualAdditionsFollowTheirOperands) {
  GraphView exported = graphOf(
      "    def forward(self, x: \"f32[4, 8]\", w: \"f32[8, 8]\", v: \"f32[8, "
      "8]\"):\n"
      "        linear: \"f32[4, 8]\" = torch.ops.aten.linear.default(x, w)\n"
      "        dropout: \"f32[4, 8]\" = torch.ops.aten.dropout.default(linear, "
      "0.1, False)\n"
      "        add: \"f32[4, 8]\" = torch.ops.aten.add.Tensor(x, dropout)\n"
      "        linear_1: \"f32[4, 8]\" = torch.ops.aten.linear.default(add, "
      "v)\n"
      "        contiguous: \"f32[4, 8]\" = "
      "torch.ops.aten.contiguous.default(linear_1)\n"
      "        add_1: \"f32[4, 8]\" = torch.ops.aten.add.Tensor(contiguous, "
      "add)\n"
      "        relu: \"f32[4, 8]\" = torch.ops.aten.relu.default(add_1)\n"
      "        return (relu,)\n");
  GraphView post = graphOf(
      "    def forward(self, a0: \"f32[4, 8]\", a1: \"f32[8, 8]\", a2: "
      "\"f32[8, 8]\"):\n"
      "        permute: \"f32[8, 8]\" = torch.ops.aten.permute.default(a1, [1, "
      "0])\n"
      "        mm: \"f32[4, 8]\" = torch.ops.aten.mm.default(a0, permute)\n"
      "        sum_a: \"f32[4, 8]\" = torch.ops.aten.add.Tensor(a0, mm)\n"
      "        permute_1: \"f32[8, 8]\" = torch.ops.aten.permute.default(a2, "
      "[1, 0])\n"
      "        mm_1: \"f32[4, 8]\" = torch.ops.aten.mm.default(sum_a, "
      "permute_1)\n"
      "        sum_b: \"f32[4, 8]\" = torch.ops.aten.add.Tensor(mm_1, sum_a)\n"
      "        out: \"f32[4, 8]\" = torch.ops.aten.relu.default(sum_b)\n"
      "        return (out,)\n");
  Ties tie(post, exported);
  EXPECT_EQ(tie.origin("mm"), "linear");
  EXPECT_EQ(tie.origin("sum_a"), "add");
  EXPECT_EQ(tie.origin("mm_1"), "linear_1");
  EXPECT_EQ(tie.origin("sum_b"), "add_1");
  EXPECT_EQ(tie.origin("out"), "relu");
  for (StringRef node : {"mm", "sum_a", "mm_1", "sum_b", "out"})
    EXPECT_EQ(tie.confidence(node), Confidence::High) << node.str();
}

TEST(Alignment, AnotherReadingOfEqualBranchesIsRefutedWhereTheyMeet) {
  GraphView exported =
      graphOf("    def forward(self, x: \"f32[4, 8]\", w: \"f32[8, 8]\", v: "
              "\"f32[8, 8]\"):\n"
              "        q: \"f32[4, 8]\" = torch.ops.aten.linear.default(x, w)\n"
              "        k: \"f32[4, 8]\" = torch.ops.aten.linear.default(x, v)\n"
              "        r: \"f32[4, 8]\" = torch.ops.aten.sub.Tensor(q, k)\n"
              "        return (r,)\n");
  Ties tie(exported, exported);
  EXPECT_EQ(tie.origin("q"), "q");
  EXPECT_EQ(tie.origin("k"), "k");
  EXPECT_EQ(tie.confidence("q"), Confidence::High);
  EXPECT_EQ(tie.confidence("r"), Confidence::High);
}

/// Nothing tells the branches of a sum apart: either may be either.
TEST(Alignment, WhatAnotherReadingTiesOtherwiseIsNotCertain) {
  GraphView exported =
      graphOf("    def forward(self, x: \"f32[4, 8]\", w: \"f32[8, 8]\", v: "
              "\"f32[8, 8]\"):\n"
              "        q: \"f32[4, 8]\" = torch.ops.aten.linear.default(x, w)\n"
              "        k: \"f32[4, 8]\" = torch.ops.aten.linear.default(x, v)\n"
              "        r: \"f32[4, 8]\" = torch.ops.aten.add.Tensor(q, k)\n"
              "        return (r,)\n");
  Ties tie(exported, exported);
  EXPECT_EQ(tie.confidence("q"), Confidence::Medium);
  EXPECT_EQ(tie.confidence("k"), Confidence::Medium);
  EXPECT_EQ(tie.origin("r"), "r");
}

TEST(Alignment, PartsOfAnOperatorEndWhereTheNextOneBegins) {
  GraphView exported = graphOf(
      "    def forward(self, x: \"f32[4, 8]\", w: \"f32[8, 8]\"):\n"
      "        linear: \"f32[4, 8]\" = torch.ops.aten.linear.default(x, w)\n"
      "        gelu: \"f32[4, 8]\" = torch.ops.aten.gelu.default(linear)\n"
      "        mul: \"f32[4, 8]\" = torch.ops.aten.mul.Tensor(gelu, 3.0)\n"
      "        return (mul,)\n");
  GraphView post = graphOf(
      "    def forward(self, a: \"f32[4, 8]\", b: \"f32[8, 8]\"):\n"
      "        permute: \"f32[8, 8]\" = torch.ops.aten.permute.default(b, [1, "
      "0])\n"
      "        mm: \"f32[4, 8]\" = torch.ops.aten.mm.default(a, permute)\n"
      "        half: \"f32[4, 8]\" = torch.ops.aten.mul.Tensor(mm, 0.5)\n"
      "        scaled: \"f32[4, 8]\" = torch.ops.aten.mul.Tensor(mm, "
      "0.7071067811865476)\n"
      "        erf: \"f32[4, 8]\" = torch.ops.aten.erf.default(scaled)\n"
      "        plus: \"f32[4, 8]\" = torch.ops.aten.add.Tensor(erf, 1)\n"
      "        product: \"f32[4, 8]\" = torch.ops.aten.mul.Tensor(half, plus)\n"
      "        tripled: \"f32[4, 8]\" = torch.ops.aten.mul.Tensor(product, "
      "3.0)\n"
      "        return (tripled,)\n");
  Ties tie(post, exported);
  for (StringRef node : {"half", "scaled", "erf", "plus", "product"})
    EXPECT_EQ(tie.origin(node), "gelu") << node.str();
  EXPECT_EQ(tie.origin("tripled"), "mul");
  EXPECT_EQ(tie.confidence("tripled"), Confidence::High);
}

/// After an operator in place, its operand holds the new value.
TEST(Alignment, OperatorsInPlaceChangeWhatFollows) {
  GraphView exported = graphOf(
      "    def forward(self, x: \"f32[4, 8]\"):\n"
      "        sin: \"f32[4, 8]\" = torch.ops.aten.sin.default(x)\n"
      "        relu_: \"f32[4, 8]\" = torch.ops.aten.relu_.default(sin)\n"
      "        exp: \"f32[4, 8]\" = torch.ops.aten.exp.default(sin)\n"
      "        return (exp,)\n");
  GraphView post =
      graphOf("    def forward(self, a: \"f32[4, 8]\"):\n"
              "        sin: \"f32[4, 8]\" = torch.ops.aten.sin.default(a)\n"
              "        relu: \"f32[4, 8]\" = torch.ops.aten.relu.default(sin)\n"
              "        exp: \"f32[4, 8]\" = torch.ops.aten.exp.default(relu)\n"
              "        return (exp,)\n");
  Ties tie(post, exported);
  EXPECT_EQ(tie.origin("relu"), "relu_");
  EXPECT_EQ(tie.origin("exp"), "exp");
  EXPECT_EQ(tie.confidence("exp"), Confidence::High);
}

TEST(Alignment, WhatFitsNothingIsNotProven) {
  GraphView exported =
      graphOf("    def forward(self, x: \"f32[4, 8]\"):\n"
              "        sin: \"f32[4, 8]\" = torch.ops.aten.sin.default(x)\n"
              "        cos: \"f32[4, 8]\" = torch.ops.aten.cos.default(sin)\n"
              "        return (cos,)\n");
  GraphView post =
      graphOf("    def forward(self, a: \"f32[4, 8]\"):\n"
              "        tan: \"f32[4, 8]\" = torch.ops.aten.tan.default(a)\n"
              "        cos: \"f32[4, 8]\" = torch.ops.aten.cos.default(tan)\n"
              "        return (cos,)\n");
  Ties tie(post, exported);
  EXPECT_EQ(tie.origin("tan"), "");
  EXPECT_EQ(tie.origin("cos"), "cos");
  EXPECT_NE(tie.confidence("cos"), Confidence::High);
}

/// PyTorch's pass for the softmax of a quotient leaves its nodes the record of
/// any operator: what structure does not know either is of the softmax.
TEST(Alignment, WhatAPassMakesIsOfWhatItIsMadeFor) {
  GraphView exported =
      graphOf("    def forward(self, x: \"f32[4, 8]\", t: \"f32[1, 8]\"):\n"
              "        expand: \"f32[4, 8]\" = "
              "torch.ops.aten.expand.default(t, [4, 8])\n"
              "        div: \"f32[4, 8]\" = torch.ops.aten.div.Tensor(x, 3.0)\n"
              "        softmax: \"f32[4, 8]\" = "
              "torch.ops.aten.softmax.int(div, -1)\n"
              "        add: \"f32[4, 8]\" = torch.ops.aten.add.Tensor(softmax, "
              "expand)\n"
              "        return (add,)\n");
  exported.name = "model";
  GraphView post = graphOf(
      "    def forward(self, x: \"f32[4, 8]\", t: \"f32[1, 8]\"):\n"
      "        div_tensor: \"f32[4, 8]\" = torch.ops.aten.div.Tensor(x, 3.0)\n"
      "        abs_default: \"f32[4, 8]\" = "
      "torch.ops.aten.abs.default(div_tensor)\n"
      "        any_dims: \"b8[4, 1]\" = torch.ops.aten.any.dims(abs_default, "
      "[-1], True)\n"
      "        amax_default: \"f32[4, 1]\" = torch.ops.aten.amax.default(x, "
      "[-1], True)\n"
      "        sub_tensor: \"f32[4, 8]\" = torch.ops.aten.sub.Tensor(x, "
      "amax_default)\n"
      "        where: \"f32[4, 8]\" = torch.ops.aten.where.self(any_dims, "
      "sub_tensor, div_tensor)\n"
      "        exp: \"f32[4, 8]\" = torch.ops.aten.exp.default(where)\n"
      "        add: \"f32[4, 8]\" = torch.ops.aten.add.Tensor(exp, t)\n"
      "        return (add,)\n");
  const std::pair<StringRef, StringRef> records[] = {
      {"div_tensor", "div"},    {"abs_default", "expand"},
      {"any_dims", "expand"},   {"amax_default", "expand"},
      {"sub_tensor", "expand"}, {"where", "softmax"},
      {"exp", "softmax"},       {"add", "add"},
  };
  launch::LaunchMap map;
  launch::Launch &launch = map.launches.emplace_back();
  for (auto [node, origin] : records) {
    post.nodes[*post.find(node)].from = {{"model", origin.str()}};
    launch.nodes.emplace_back().name = node.str();
  }
  AlignmentSources sources;
  sources.postGrad = sources.recorded = &post;
  sources.exported = &exported;
  alignLaunches(map, sources);
  for (auto [node, record] : zip(launch.nodes, records)) {
    StringRef origin = record.second == "expand" ? "softmax" : record.second;
    ASSERT_EQ(node.from.size(), 1u) << node.name;
    EXPECT_EQ(node.from.front().name, origin) << node.name;
    EXPECT_EQ(node.fromConfidence,
              record.second == "expand" ? Confidence::Medium : Confidence::High)
        << node.name;
  }
}

/// PyTorch's pass for softmax leaves its nodes the record of the operator
/// before it.
TEST(Alignment, RecordsThatCannotBeAreReplacedByWhatDataflowSays) {
  GraphView exported =
      graphOf("    def forward(self, x: \"f32[4, 8]\", w: \"f32[8]\"):\n"
              "        layer_norm: \"f32[4, 8]\" = "
              "torch.ops.aten.layer_norm.default(x, [8], w)\n"
              "        softmax: \"f32[4, 8]\" = "
              "torch.ops.aten.softmax.int(layer_norm, -1)\n"
              "        return (softmax,)\n");
  exported.name = "model";
  GraphView post = graphOf(
      "    def forward(self, x: \"f32[4, 8]\", w: \"f32[8]\"):\n"
      "        mul_1: \"f32[4, 8]\" = torch.ops.aten.mul.Tensor(x, w)\n"
      "        prepare_softmax_online_default = "
      "torch.ops.prims.prepare_softmax_online.default(mul_1, -1)\n"
      "        getitem: \"f32[4, 1]\" = prepare_softmax_online_default[0]\n"
      "        getitem_1: \"f32[4, 1]\" = prepare_softmax_online_default[1]\n"
      "        sub_tensor: \"f32[4, 8]\" = torch.ops.aten.sub.Tensor(mul_1, "
      "getitem)\n"
      "        exp_default: \"f32[4, 8]\" = "
      "torch.ops.aten.exp.default(sub_tensor)\n"
      "        div: \"f32[4, 8]\" = torch.ops.aten.div.Tensor(exp_default, "
      "getitem_1)\n"
      "        return (div,)\n");
  for (GraphNode &node : post.nodes)
    if (node.op == GraphNode::Call)
      node.from = {{"model", node.name == "div" ? "softmax" : "layer_norm"}};
  launch::LaunchMap map;
  launch::Launch &launch = map.launches.emplace_back();
  for (StringRef name : {"mul_1", "prepare_softmax_online_default",
                         "sub_tensor", "exp_default", "div"})
    launch.nodes.emplace_back().name = name.str();
  AlignmentSources sources;
  sources.postGrad = sources.recorded = &post;
  sources.exported = &exported;
  alignLaunches(map, sources);
  for (const launch::LaunchNode &node : launch.nodes) {
    ASSERT_EQ(node.from.size(), 1u) << node.name;
    bool isOfNorm = node.name == "mul_1";
    EXPECT_EQ(node.from.front().name, isOfNorm ? "layer_norm" : "softmax")
        << node.name;
  }
  // What records name and nothing speaks against stays as sure as it was.
  EXPECT_EQ(launch.nodes.front().fromConfidence, Confidence::High);
  EXPECT_EQ(launch.nodes.back().fromConfidence, Confidence::High);
}

/// The nodes of a pass's own pattern bear the pattern's names alone: they are
/// of what takes them, or of what dataflow proves.
TEST(Alignment, PatternsOfPassesAreOfWhatTheyAreComputedFor) {
  GraphView exported = graphOf(
      "    def forward(self, x: \"f32[4, 8]\", y: \"f32[4, 8]\"):\n"
      "        add: \"f32[4, 8]\" = torch.ops.aten.add.Tensor(x, y)\n"
      "        div: \"f32[4, 8]\" = torch.ops.aten.div.Tensor(add, 0.2)\n"
      "        log_softmax: \"f32[4, 8]\" = "
      "torch.ops.aten.log_softmax.int(div, -1)\n"
      "        return (log_softmax,)\n");
  exported.name = "model";
  GraphView post = graphOf(
      "    def forward(self, x: \"f32[4, 8]\", y: \"f32[4, 8]\"):\n"
      "        add: \"f32[4, 8]\" = torch.ops.aten.add.Tensor(x, y)\n"
      "        div_tensor: \"f32[4, 8]\" = torch.ops.aten.div.Tensor(add, "
      "0.2)\n"
      "        mul_tensor: \"f32[4, 8]\" = torch.ops.aten.mul.Tensor(add, 1)\n"
      "        amax_default: \"f32[4, 1]\" = "
      "torch.ops.aten.amax.default(mul_tensor, [1], True)\n"
      "        sub_tensor: \"f32[4, 8]\" = "
      "torch.ops.aten.sub.Tensor(mul_tensor, amax_default)\n"
      "        div_tensor_1: \"f32[4, 8]\" = "
      "torch.ops.aten.div.Tensor(sub_tensor, 0.2)\n"
      "        iota_default: \"i64[8]\" = torch.ops.prims.iota.default(8)\n"
      "        view_default: \"i64[1, 8]\" = "
      "torch.ops.aten.reshape.default(iota_default, [1, 8])\n"
      "        abs_default: \"f32[4, 8]\" = "
      "torch.ops.aten.abs.default(div_tensor)\n"
      "        ne_tensor: \"b8[4, 8]\" = torch.ops.aten.ne.Tensor(abs_default, "
      "view_default)\n"
      "        where: \"f32[4, 8]\" = torch.ops.aten.where.self(ne_tensor, "
      "div_tensor_1, div_tensor)\n"
      "        exp: \"f32[4, 8]\" = torch.ops.aten.exp.default(where)\n"
      "        sum_1: \"f32[4, 1]\" = torch.ops.aten.sum.dim_IntList(exp, [1], "
      "True)\n"
      "        log: \"f32[4, 1]\" = torch.ops.aten.log.default(sum_1)\n"
      "        sub: \"f32[4, 8]\" = torch.ops.aten.sub.Tensor(where, log)\n"
      "        return (sub,)\n");
  launch::LaunchMap map;
  launch::Launch &launch = map.launches.emplace_back();
  for (GraphNode &node : post.nodes) {
    if (node.op != GraphNode::Call)
      continue;
    if (node.name != "view_default")
      launch.nodes.emplace_back().name = node.name;
    bool isPattern = node.name.find("_tensor") != std::string::npos ||
                     node.name.find("_default") != std::string::npos;
    if (isPattern)
      node.from = {{"#4", node.name.substr(0, node.name.find('_'))}};
    else
      node.from = {{"model", node.name == "add" ? "add" : "log_softmax"}};
  }
  AlignmentSources sources;
  sources.postGrad = sources.recorded = &post;
  sources.exported = &exported;
  alignLaunches(map, sources);
  for (const launch::LaunchNode &node : launch.nodes) {
    ASSERT_EQ(node.from.size(), 1u) << node.name;
    EXPECT_EQ(node.from.front().name, node.name == "add" ? "add"
                                      : node.name == "div_tensor"
                                          ? "div"
                                          : "log_softmax")
        << node.name;
  }
  EXPECT_EQ(launch.nodes[1].fromConfidence, Confidence::High);
  EXPECT_EQ(launch.nodes[2].fromConfidence, Confidence::Medium);
}

TEST(Alignment, AProductIsNoPartOfASoftmax) {
  // Passes leave their nodes the record of what stood before: of these it is
  // wrong, and no other may be sure of it.
  for (StringRef part : {"amax", "sub", "exp", "where", "eq", "div"})
    EXPECT_FALSE(decomposesInto("einsum", part)) << part.str();
  for (StringRef part : {"matmul", "mul", "sum", "view"})
    EXPECT_TRUE(decomposesInto("einsum", part)) << part.str();
  EXPECT_TRUE(decomposesInto("attention", "sub"));
}

//===----------------------------------------------------------------------===//
// Bodies
//===----------------------------------------------------------------------===//

static std::string withBranches(StringRef call) {
  return ("    def forward(self, x: \"f32[4]\", y: \"f32[4]\"):\n"
          "        gt: \"b8[]\" = torch.ops.aten.gt.Scalar(x, 0)\n" +
          call +
          "        return (z,)\n"
          "    class true_graph_0(torch.nn.Module):\n"
          "        def forward(self, a: \"f32[4]\", b: \"f32[4]\"):\n"
          "            sub: \"f32[4]\" = torch.ops.aten.sub.Tensor(a, b)\n"
          "            sin: \"f32[4]\" = torch.ops.aten.sin.default(sub)\n"
          "            return (sin,)\n"
          "    class false_graph_0(torch.nn.Module):\n"
          "        def forward(self, a: \"f32[4]\", b: \"f32[4]\"):\n"
          "            sub: \"f32[4]\" = torch.ops.aten.sub.Tensor(b, a)\n"
          "            return (sub,)\n")
      .str();
}

static const char kBranch[] =
    "        t = self.true_graph_0\n"
    "        f = self.false_graph_0\n"
    "        cond = torch.ops.higher_order.cond(gt, t, f, (x, y))\n"
    "        z: \"f32[4]\" = cond[0]\n";

static launch::LaunchMap
mapOf(std::vector<std::pair<const char *, const char *>> nodes) {
  launch::LaunchMap map;
  launch::Launch &launch = map.launches.emplace_back();
  for (auto [graph, name] : nodes) {
    launch::LaunchNode &node = launch.nodes.emplace_back();
    node.graph = graph;
    node.name = name;
  }
  return map;
}

TEST(Alignment, NodesOfBodiesAreTiedToThoseOfTheSameBranch) {
  GraphView exported = graphOf(withBranches(kBranch)),
            post = graphOf(withBranches(kBranch));
  launch::LaunchMap map = mapOf({{"true_graph_0", "sub"},
                                 {"true_graph_0", "sin"},
                                 {"false_graph_0", "sub"}});
  AlignmentSources sources;
  sources.postGrad = &post;
  sources.exported = &exported;
  alignLaunches(map, sources);
  for (const launch::LaunchNode &node : map.launches.front().nodes) {
    ASSERT_EQ(node.from.size(), 1u) << node.name;
    EXPECT_EQ(node.from.front().graph, node.graph);
    EXPECT_EQ(node.from.front().name, node.name);
    EXPECT_EQ(node.fromConfidence, Confidence::High);
  }
}

TEST(Alignment, ResultsOfALoopAreToldApart) {
  auto loop = [](StringRef uses) {
    return graphOf(
        ("    def forward(self, x: \"f32[4]\", y: \"f32[4]\"):\n"
         "        c = self.cond_0\n"
         "        b = self.body_0\n"
         "        while_loop = torch.ops.higher_order.while_loop(c, b, (x, y), "
         "())\n"
         "        getitem: \"f32[4]\" = while_loop[0]\n"
         "        getitem_1: \"f32[4]\" = while_loop[1]\n" +
         uses +
         "        return (first, second)\n"
         "    class cond_0(torch.nn.Module):\n"
         "        def forward(self, a: \"f32[4]\", b: \"f32[4]\"):\n"
         "            any_1: \"b8[]\" = torch.ops.aten.any.default(a)\n"
         "            return any_1\n"
         "    class body_0(torch.nn.Module):\n"
         "        def forward(self, a: \"f32[4]\", b: \"f32[4]\"):\n"
         "            sub: \"f32[4]\" = torch.ops.aten.sub.Tensor(a, b)\n"
         "            add: \"f32[4]\" = torch.ops.aten.add.Tensor(b, 1)\n"
         "            return (sub, add)\n")
            .str());
  };
  GraphView exported =
      loop("        first: \"f32[4]\" = torch.ops.aten.sin.default(getitem)\n"
           "        second: \"f32[4]\" = "
           "torch.ops.aten.sin.default(getitem_1)\n");
  GraphView post = loop("        second: \"f32[4]\" = "
                        "torch.ops.aten.sin.default(getitem_1)\n"
                        "        first: \"f32[4]\" = "
                        "torch.ops.aten.sin.default(getitem)\n");
  Ties ties(post, exported);
  EXPECT_EQ(ties.origin("first"), "first");
  EXPECT_EQ(ties.origin("second"), "second");
  EXPECT_EQ(ties.confidence("first"), Confidence::High);
  EXPECT_EQ(ties.confidence("second"), Confidence::High);
}

static AlignedGraphs alignBodies(const GraphView &post,
                                 const GraphView &exported) {
  AlignmentSources sources;
  sources.postGrad = &post;
  sources.exported = &exported;
  return AlignedGraphs(sources, post,
                       [](const GraphNode &) { return std::nullopt; });
}

/// `count` calls of branches, each of which takes what the last one gave.
static std::string chainOfCalls(unsigned count, bool ownBodies) {
  std::string text = "    def forward(self, z0: \"f32[4]\", p: \"b8[]\"):\n";
  raw_string_ostream os(text);
  for (unsigned i = 0; i < count; ++i) {
    unsigned body = ownBodies ? i : 0;
    os << "        t" << i << " = self.yes_" << body << "\n        f" << i
       << " = self.no_" << body << "\n        c" << i
       << " = torch.ops.higher_order.cond(p, t" << i << ", f" << i << ", (z"
       << i << ",))\n        z" << i + 1 << ": \"f32[4]\" = c" << i << "[0]\n";
  }
  os << "        return (z" << count << ",)\n";
  return text;
}

static std::string classOf(StringRef name, StringRef lines) {
  return ("    class " + name +
          "(torch.nn.Module):\n"
          "        def forward(self, a: \"f32[4]\"):\n" +
          lines)
      .str();
}

// Each call looked through all nodes of both graphs, each body through all
// bodies, and each node through all that take the predicate: time grew with the
// square of the calls.
TEST(Alignment, ManyCallsOfBodiesAreTiedInTime) {
  constexpr unsigned kCalls = 2000;
  std::string shared = chainOfCalls(kCalls, /*ownBodies=*/false),
              own = chainOfCalls(kCalls, /*ownBodies=*/true);
  auto addBodies = [](std::string &text, unsigned number) {
    std::string at = std::to_string(number);
    text += classOf("yes_" + at, "            sin: \"f32[4]\" = "
                                 "torch.ops.aten.sin.default(a)\n"
                                 "            return (sin,)\n");
    text += classOf("no_" + at, "            cos: \"f32[4]\" = "
                                "torch.ops.aten.cos.default(a)\n"
                                "            return (cos,)\n");
  };
  addBodies(shared, 0);
  for (unsigned i = 0; i < kCalls; ++i)
    addBodies(own, i);
  for (const std::string &text : {shared, own}) {
    GraphView exported = graphOf(text), post = graphOf(text);
    AlignedGraphs graphs = alignBodies(post, exported);
    EXPECT_EQ(graphs.numLeft(), 0u);
    const AlignedGraph *body = graphs.find("no_0");
    ASSERT_TRUE(body);
    ASSERT_EQ(body->ties.size(), 2u);
    ASSERT_EQ(body->ties[1].origins.size(), 1u);
    EXPECT_EQ(body->exported.graph.nodes[body->ties[1].origins[0]].name, "cos");
  }
}

// A body that is called from many others was copied into each, whatever that
// came to: here 800 times 1500 nodes.
TEST(Alignment, CopiesOfBodiesAreBounded) {
  constexpr unsigned kCalls = 400, kNodes = 1500;
  auto bodiesOf = [&](StringRef lines) {
    std::string text = chainOfCalls(kCalls, /*ownBodies=*/true);
    for (unsigned i = 0; i < kCalls; ++i)
      for (StringRef name : {"yes_", "no_"})
        text += classOf((name + Twine(i)).str(), lines);
    return text;
  };
  std::string large = "            v0: \"f32[4]\" = "
                      "torch.ops.aten.sin.default(a)\n";
  for (unsigned i = 1; i < kNodes; ++i)
    large +=
        ("            v" + Twine(i) +
         ": \"f32[4]\" = torch.ops.aten.sin.default(v" + Twine(i - 1) + ")\n")
            .str();
  large += ("            return (v" + Twine(kNodes - 1) + ",)\n").str();
  GraphView exported =
      graphOf(bodiesOf("            g = self.large\n"
                       "            w = torch.ops.higher_order.wrap(g, a)\n"
                       "            r: \"f32[4]\" = w[0]\n"
                       "            return (r,)\n") +
              classOf("large", large));
  // Graph JSON names bodies where printed modules read attributes.
  for (GraphView &body : exported.subgraphs)
    for (GraphNode &node : body.nodes)
      if (node.target == "higher_order.wrap")
        node.args[0] = json::Object{{"graph", "large"}};
  GraphView post = graphOf(bodiesOf("            sin: \"f32[4]\" = "
                                    "torch.ops.aten.sin.default(a)\n"
                                    "            return (sin,)\n"));
  AlignedGraphs graphs = alignBodies(post, exported);
  EXPECT_GT(graphs.numLeft(), 0u);
  size_t copied = 0;
  for (unsigned i = 0; i < kCalls; ++i)
    for (StringRef name : {"yes_", "no_"})
      if (const AlignedGraph *body = graphs.find((name + Twine(i)).str()))
        copied += body->exported.graph.nodes.size();
  EXPECT_GT(copied, size_t(kNodes));
  EXPECT_LT(copied, size_t(kNodes) * kCalls);

  // The map says it, and its file does.
  AlignmentSources sources;
  sources.postGrad = &post;
  sources.exported = &exported;
  launch::LaunchMap map;
  map.graph = "graph";
  alignLaunches(map, sources);
  EXPECT_EQ(map.alignment->bodiesLeft, graphs.numLeft());
  std::string text;
  raw_string_ostream os(text);
  json::OStream json(os);
  launch::writeLaunchMap(map, json);
  Expected<launch::LaunchMap> again =
      launch::readLaunchMap(text, "launches.json");
  ASSERT_TRUE(bool(again)) << toString(again.takeError());
  EXPECT_EQ(again->alignment->bodiesLeft, graphs.numLeft());
}
