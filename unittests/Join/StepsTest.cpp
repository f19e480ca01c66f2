// Tests of the steps of a trace that marks none and has no places of the
// program, written by hand.

#include "opprof/Join/Attribution.h"
#include "opprof/Trace/Reader.h"

#include "llvm/Support/Error.h"
#include "gtest/gtest.h"

using namespace opprof;
using namespace opprof::join;
using namespace opprof::profile;

namespace {

/// What one thread runs of microseconds each, one after the other.
class StepsTest : public ::testing::Test {
protected:
  void span(llvm::StringRef category, llvm::StringRef name, int start,
            int duration, llvm::StringRef dims = "") {
    events += events.empty() ? "" : ",\n";
    events += (R"({"ph": "X", "cat": ")" + category + R"(", "name": ")" + name +
               R"(", "pid": 1, "tid": )" + std::to_string(thread) +
               R"(, "ts": )" + std::to_string(start) + R"(, "dur": )" +
               std::to_string(duration) + R"(, "args": {)" +
               (dims.empty() ? "" : "\"Input Dims\": " + dims.str()) + "}}")
                  .str();
  }
  void op(llvm::StringRef name, llvm::StringRef dims = "") {
    span("cpu_op", name, time, 8, dims);
    time += 10;
  }
  void forward() {
    op("aten::linear");
    op("aten::relu");
    op("aten::mean");
  }
  /// An optimizer that runs so many operators.
  void optimize(llvm::StringRef name, int operators) {
    span("user_annotation", ("Optimizer.step#" + name + ".step").str(), time,
         10 * operators);
    for (int count = 0; count < operators; ++count)
      op("aten::add_");
  }
  const Profile &read() {
    auto trace = trace::readTrace({"{\"traceEvents\": [" + events + "]}", "t"});
    if (!trace) {
      ADD_FAILURE() << llvm::toString(trace.takeError());
      profile = std::make_unique<Profile>();
    } else {
      profile = attribute(**trace, AttributionInputs());
    }
    return *profile;
  }
  std::vector<int64_t> starts() const {
    std::vector<int64_t> found;
    for (const Step &step : profile->steps)
      found.push_back((step.startNs - profile->steps[0].startNs) / 1000);
    return found;
  }
  bool isNoted(llvm::StringRef text) const {
    return llvm::any_of(profile->notes, [&](const std::string &note) {
      return llvm::StringRef(note).contains(text);
    });
  }

  std::string events;
  std::unique_ptr<Profile> profile;
  int time = 10, thread = 1;
};

} // namespace

TEST_F(StepsTest, OneEndsWhereTheOptimizerSteps) {
  for (int step = 0; step < 4; ++step) {
    forward();
    optimize("AdamW", 2);
    if (step == 1)
      op("aten::item");
  }
  EXPECT_EQ(read().summary.stepsFrom, "optimizer_steps");
  EXPECT_EQ(starts(), (std::vector<int64_t>{0, 50, 100, 160}));
  EXPECT_EQ(profile->steps[0].phase, Phase::WarmUp);
  EXPECT_EQ(profile->steps[1].phase, Phase::Steady);
  EXPECT_TRUE(isNoted("end where the optimizer"));
}

TEST_F(StepsTest, OptimizersOfOneClassThatTakeTurnsAreOneStep) {
  for (int step = 0; step < 4; ++step) {
    forward();
    optimize("AdamW", 2);
    forward();
    optimize("AdamW", 5);
  }
  read();
  EXPECT_EQ(starts(), (std::vector<int64_t>{0, 130, 260, 390}));
}

TEST_F(StepsTest, OfRanksInOneFileThoseOfOneAreTaken) {
  for (thread = 1; thread <= 2; ++thread) {
    time = 10 + thread;
    for (int step = 0; step < 3; ++step) {
      forward();
      optimize("SGD", 1);
    }
  }
  EXPECT_EQ(read().summary.steps, 3u);
  EXPECT_TRUE(isNoted("2 threads step optimizers"));
}

TEST_F(StepsTest, WithoutAnyOperatorsThatRecurAreSteps) {
  for (int step = 0; step < 3; ++step)
    forward();
  EXPECT_EQ(read().summary.stepsFrom, "recurring_operators");
  EXPECT_EQ(starts(), (std::vector<int64_t>{0, 30, 60}));
  EXPECT_TRUE(isNoted("from aten::linear on recur, which they do 3 times"));
}

TEST_F(StepsTest, LayersThatAreAlikeAreNone) {
  op("aten::embedding");
  for (int layer = 0; layer < 6; ++layer)
    forward();
  EXPECT_EQ(read().summary.stepsFrom, "none");
  // A model whose layers are all that it has, in a range.
  events.clear();
  span("user_annotation", "model_inference", time, 1000);
  for (int layer = 0; layer < 6; ++layer)
    forward();
  EXPECT_EQ(read().summary.stepsFrom, "none");
  // One whose modules were recorded.
  events.clear();
  span("python_function", "nn.Module: Net_0", time, 1000);
  for (int layer = 0; layer < 6; ++layer)
    forward();
  EXPECT_EQ(read().summary.stepsFrom, "none");
  // One operator.
  events.clear();
  for (int layer = 0; layer < 6; ++layer)
    op("aten::linear");
  EXPECT_EQ(read().summary.stepsFrom, "none");
  // Layers of other sizes each.
  events.clear();
  for (llvm::StringRef dims : {"[[4, 8]]", "[[4, 16]]", "[[4, 32]]"}) {
    op("aten::linear", dims);
    op("aten::relu", dims);
  }
  EXPECT_EQ(read().summary.stepsFrom, "none");
}
