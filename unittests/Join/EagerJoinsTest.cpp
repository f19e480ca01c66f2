// Tests of the match between an eager program's operators and the nodes of its
// graph, on traces written by hand.

#include "opprof/Join/Attribution.h"
#include "opprof/Trace/Reader.h"

#include "llvm/Support/Error.h"
#include "gtest/gtest.h"

using namespace opprof;
using namespace opprof::join;
using namespace opprof::profile;
using launch::Sizes;

namespace {

/// Two linear layers with an activation and a residual addition, run several
/// times. An operator starts one kernel, inside an operator that it calls.
class EagerJoinsTest : public ::testing::Test {
protected:
  void span(llvm::StringRef category, llvm::StringRef name, double start,
            double duration, const llvm::Twine &args = "") {
    events += events.empty() ? "" : ",\n";
    events += (R"({"ph": "X", "cat": ")" + category + R"(", "name": ")" + name +
               R"(", "pid": 1, "tid": 1, "ts": )" + std::to_string(start) +
               R"(, "dur": )" + std::to_string(duration) + R"(, "args": {)" +
               args + "}}")
                  .str();
  }
  /// An operator, what it calls, and the kernel that this starts.
  void op(llvm::StringRef name, llvm::StringRef calls, llvm::StringRef dims,
          std::optional<int> number = std::nullopt, bool backward = false) {
    ++count;
    std::string args = dims.empty() ? "" : "\"Input Dims\": " + dims.str();
    if (number)
      args += (args.empty() ? "" : ", ") +
              std::string("\"Sequence number\": ") + std::to_string(*number);
    if (backward)
      args += ", \"Fwd thread id\": 1";
    span("cpu_op", name, time, 8, args);
    std::string ids = withIds
                          ? "\"External id\": " + std::to_string(count) +
                                ", \"correlation\": " + std::to_string(count)
                          : std::string();
    span("cpu_op", calls, time + 1, 6,
         withIds ? "\"External id\": " + std::to_string(count) : std::string());
    span("cuda_runtime", "cudaLaunchKernel", time + 2, 1, ids);
    span("kernel", ("kernel " + llvm::Twine(count)).str(), time + 100, 1,
         ids + (ids.empty() ? "" : ", ") + "\"device\": 0, \"stream\": 7");
    time += 10;
  }
  void layer(llvm::StringRef dims = "[[4, 8], [8, 8], [8]]") {
    op("aten::linear", "aten::addmm", dims);
  }
  void pass(llvm::StringRef relu = "aten::relu") {
    layer();
    op(relu, "aten::clamp_min", "[[4, 8]]");
    layer();
    op("aten::add", "aten::add", "[[4, 8], [4, 8], []]");
  }
  static launch::LaunchMap graph() {
    launch::LaunchMap map;
    map.graph = "model";
    map.stage = "export";
    auto add = [&](llvm::StringRef name, llvm::StringRef target,
                   std::vector<std::optional<Sizes>> sizes) {
      launch::Launch &launch = map.launches.emplace_back();
      launch.index = map.launches.size() - 1;
      launch.kernel = target.str();
      launch.kind = launch::LaunchKind::Fallback;
      launch.argumentSizes = std::move(sizes);
      launch.nodes.emplace_back().name = name.str();
    };
    Sizes x = {4, 8}, weight = {8, 8}, bias = {8};
    add("linear", "aten.linear.default", {x, weight, bias});
    add("relu", "aten.relu_.default", {x});
    add("linear_1", "aten.linear.default", {x, weight, bias});
    add("add", "aten.add.Tensor", {x, x});
    return map;
  }
  /// The node of each kernel, with the first letter of its confidence.
  std::string joined(const launch::LaunchMap &map = graph()) {
    auto trace = trace::readTrace({"{\"traceEvents\": [" + events + "]}", "t"});
    if (!trace)
      return llvm::toString(trace.takeError());
    for (trace::TraceActivity &activity : (*trace)->activities)
      if (hasOperatorIds)
        activity.noIdentity = (*trace)->intern("it carries an operator's id");
    AttributionInputs inputs;
    inputs.maps = map;
    profile = attribute(**trace, inputs);
    std::string out;
    for (const Activity &kernel : profile->kernels) {
      out += out.empty() ? "" : " ";
      out += kernel.origin->nodes.empty()
                 ? "-"
                 : profile->nodes[kernel.origin->nodes.front()].id.name + ":" +
                       stringify(kernel.confidence).take_front().str();
    }
    return out;
  }

  std::string events;
  std::unique_ptr<Profile> profile;
  double time = 10;
  int count = 0;
  bool withIds = true;
  /// Whether the ids of kernels stand for operators, as those of a capture that
  /// the observer ran beside, and not for lines or nodes.
  bool hasOperatorIds = false;
};

} // namespace

TEST_F(EagerJoinsTest, EachPassIsMatched) {
  pass();
  pass("aten::relu_");
  EXPECT_EQ(joined(), "linear:h relu:h linear_1:h add:h "
                      "linear:h relu:h linear_1:h add:h");
  EXPECT_EQ(profile->notes.size(), 2u);
  EXPECT_EQ(profile->summary.stepsFrom, "graph_passes");
  EXPECT_EQ(profile->summary.steps, 2u);
  EXPECT_EQ(profile->kernels[3].step, 0u);
  EXPECT_EQ(profile->kernels[4].step, 1u);
}

TEST_F(EagerJoinsTest, IdsOfOperatorsLeadToTheGraphThatWasRecorded) {
  pass();
  hasOperatorIds = true;
  launch::LaunchMap map = graph();
  EXPECT_EQ(joined(map), "- - - -");
  map.stage = "recorded";
  EXPECT_EQ(joined(map), "linear:h relu:h linear_1:h add:h");
}

TEST_F(EagerJoinsTest, WhatIsNotInTheGraphHasNoNode) {
  layer();
  op("aten::relu", "aten::clamp_min", "[[4, 8]]");
  op("aten::sort", "aten::sort", "[[4, 8]]");
  layer();
  op("aten::add", "aten::add", "[[4, 8], [4, 8], []]");
  EXPECT_EQ(joined(), "linear:h relu:h - linear_1:h add:h");
  EXPECT_EQ(profile->kernels[2].origin->explanation,
            "started by aten::sort, which is no node of the graph by name, "
            "sizes and order");
}

TEST_F(EagerJoinsTest, AnotherReadingIsNotSure) {
  // Three products of one size where the graph has two.
  layer();
  op("aten::relu", "aten::clamp_min", "[[4, 8]]");
  layer();
  layer();
  op("aten::add", "aten::add", "[[4, 8], [4, 8], []]");
  EXPECT_EQ(joined(), "linear:h relu:h linear_1:m - add:h");
}

TEST_F(EagerJoinsTest, SizesTellOperatorsApart) {
  layer();
  // A product of other sizes is not the graph's, although its name is.
  layer("[[1, 8], [2, 8], [2]]");
  op("aten::relu", "aten::clamp_min", "[[4, 8]]");
  layer();
  op("aten::add", "aten::add", "[[4, 8], [4, 8], []]");
  EXPECT_EQ(joined(), "linear:h - relu:h linear_1:h add:h");
}

TEST_F(EagerJoinsTest, AnotherBatchIsNeverSure) {
  for (int i = 0; i < 2; ++i) {
    layer("[[2, 8], [8, 8], [8]]");
    op("aten::relu", "aten::clamp_min", "[[2, 8]]");
    layer("[[2, 8], [8, 8], [8]]");
    op("aten::add", "aten::add", "[[2, 8], [2, 8], []]");
  }
  EXPECT_EQ(joined(), "linear:m relu:m linear_1:m add:m "
                      "linear:m relu:m linear_1:m add:m");
  EXPECT_NE(profile->notes.front().find("export the graph with the inputs"),
            std::string::npos);
}

TEST_F(EagerJoinsTest, OneArgumentMayDiffer) {
  layer();
  op("aten::relu", "aten::clamp_min", "[[4, 8]]");
  layer();
  op("aten::add", "aten::add", "[[4, 8], [], []]");
  EXPECT_EQ(joined(), "linear:h relu:h linear_1:h add:m");
}

TEST_F(EagerJoinsTest, AnotherProgramIsNotMatched) {
  op("aten::mm", "aten::mm", "[[4, 8], [8, 8]]");
  op("aten::add", "aten::add", "[[4, 8], [4, 8], []]");
  EXPECT_EQ(joined(), "- -");
}

TEST_F(EagerJoinsTest, BackwardFollowsAutogradsNumbers) {
  op("aten::linear", "aten::addmm", "[[4, 8], [8, 8], [8]]", 3);
  op("aten::relu", "aten::clamp_min", "[[4, 8]]", 4);
  op("aten::linear", "aten::addmm", "[[4, 8], [8, 8], [8]]", 5);
  op("aten::add", "aten::add", "[[4, 8], [4, 8], []]", 6);
  op("aten::mse_loss", "aten::mse_loss", "[[4, 8], [4, 8], []]", 7);
  op("MseLossBackward0", "aten::mse_loss_backward", "[[]]", 7, true);
  op("AddmmBackward0", "aten::mm", "[[4, 8]]", 5, true);
  op("ReluBackward0", "aten::threshold_backward", "[[4, 8]]", 4, true);
  EXPECT_EQ(joined(), "linear:h relu:h linear_1:h add:h - - linear_1:h relu:h");
  EXPECT_EQ(profile->kernels[6].origin->method, "sequence_number");
}

TEST_F(EagerJoinsTest, TheLastThatShowsANumberHasDrawnIt) {
  op("aten::linear", "aten::addmm", "[[4, 8], [8, 8], [8]]", 3);
  // Nothing is recorded of an operator on what needs no gradient.
  op("aten::relu", "aten::clamp_min", "[[4, 8]]", 4);
  op("aten::linear", "aten::addmm", "[[4, 8], [8, 8], [8]]", 4);
  op("aten::add", "aten::add", "[[4, 8], [4, 8], []]", 5);
  op("AddmmBackward0", "aten::mm", "[[4, 8]]", 4, true);
  EXPECT_EQ(joined(), "linear:h relu:h linear_1:h add:h linear_1:h");
}

TEST_F(EagerJoinsTest, AGradientIsAddedToTheNodeThatTakesTheParameter) {
  op("aten::linear", "aten::addmm", "[[4, 8], [8, 8], [8]]", 3);
  op("aten::relu", "aten::clamp_min", "[[4, 8]]", 4);
  op("aten::linear", "aten::addmm", "[[4, 8], [8, 8], [8]]", 5);
  op("aten::add", "aten::add", "[[4, 8], [4, 8], []]", 6);
  op("AddmmBackward0", "aten::mm", "[[4, 8]]", 5, true);
  op("torch::autograd::AccumulateGrad", "aten::add_", "[[8, 8]]");
  op("ReluBackward0", "aten::threshold_backward", "[[4, 8]]", 4, true);
  op("torch::autograd::AccumulateGrad", "aten::add_", "[[8]]");
  op("torch::autograd::AccumulateGrad", "aten::add_", "[[3]]");
  EXPECT_EQ(joined(), "linear:h relu:h linear_1:h add:h "
                      "linear_1:h linear_1:m relu:h linear_1:m -");
}

TEST_F(EagerJoinsTest, WithoutIdsOrderIsNeverSure) {
  withIds = false;
  pass();
  EXPECT_EQ(joined(), "linear:m relu:m linear_1:m add:m");
  EXPECT_NE(profile->notes.back().find("no correlation ids"),
            std::string::npos);
}

TEST_F(EagerJoinsTest, UnknownSizesOfTheGraphFitAll) {
  launch::LaunchMap map = graph();
  for (launch::Launch &launch : map.launches)
    for (std::optional<Sizes> &sizes : launch.argumentSizes)
      if (sizes && sizes->size() == 2 && sizes->front() == 4)
        sizes->front() = launch::kUnknownSize;
  pass();
  EXPECT_EQ(joined(map), "linear:h relu:h linear_1:h add:h");
}

TEST_F(EagerJoinsTest, BrokenSizesAreNoSizes) {
  for (const char *dims :
       {"[]", "[[[4, 8], [8]]]", "[[99999999999999999999]]", "{}", "7",
        "[[4, 8], null, \"]\"]", "[[], 3, [[[]]]]"}) {
    events.clear();
    layer();
    op("aten::relu", "aten::clamp_min", "[[4, 8]]");
    layer(dims);
    op("aten::add", "aten::add", "[[4, 8], [4, 8], []]");
    EXPECT_TRUE(llvm::StringRef(joined()).ends_with(" add:h")) << dims;
  }
}
