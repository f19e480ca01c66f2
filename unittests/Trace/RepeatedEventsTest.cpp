// Events that stand in a trace twice count once, and a note says so; what only
// looks alike stays.

#include "opprof/Trace/Reader.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"
#include "gtest/gtest.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::trace;

namespace {

std::string event(StringRef category, StringRef name, unsigned start,
                  unsigned duration, const Twine &args) {
  return ("{\"ph\": \"X\", \"cat\": \"" + category +
          "\", \"pid\": 0, \"tid\": 7, \"name\": \"" + name +
          "\", \"ts\": " + Twine(start) + ", \"dur\": " + Twine(duration) +
          ", \"args\": {" + args + "}}")
      .str();
}

std::string op(unsigned start, const Twine &args) {
  return event("cpu_op", "aten::mm", start, 9, args);
}

std::string call(unsigned start, unsigned number,
                 StringRef name = "cudaLaunchKernel") {
  return event("cuda_runtime", name, start, 2,
               "\"correlation\": " + Twine(number));
}

std::string kernel(unsigned start, unsigned number, const Twine &args = "") {
  return event(
      "kernel", "gemm", start, 4,
      "\"device\": 0, \"stream\": 7, \"correlation\": " + Twine(number) + args);
}

std::unique_ptr<Trace> read(ArrayRef<std::string> events,
                            const ReadOptions &options = {}) {
  std::string text = "{\"traceEvents\": [" + join(events, ", ") + "]}";
  Expected<std::unique_ptr<Trace>> read = readTrace({text, "t.json"}, options);
  if (!read) {
    ADD_FAILURE() << toString(read.takeError());
    return std::make_unique<Trace>();
  }
  return std::move(*read);
}

std::vector<std::string> step(unsigned start, unsigned number) {
  return {op(start, "\"External id\": " + Twine(number)),
          call(start + 1, number), kernel(start + 5, number)};
}

/// Counts of what was kept.
std::vector<size_t> countsOf(const Trace &trace) {
  return {trace.hostOps.size(), trace.runtimeCalls.size(),
          trace.activities.size(), trace.moduleFrames.size()};
}
using Counts = std::vector<size_t>;

TEST(RepeatedEvents, OfAFileJoinedWithItselfCountOnce) {
  std::vector<std::string> events;
  for (unsigned i = 0; i < 100; ++i)
    append_range(events, step(100 * i, i + 1));
  for (size_t pieceBytes : {size_t(1) << 20, size_t(500)}) {
    ReadOptions options;
    options.pieceBytes = pieceBytes;
    std::unique_ptr<Trace> once = read(events, options);
    EXPECT_EQ(countsOf(*once), (Counts{100, 100, 100, 0}));
    EXPECT_TRUE(once->notes.empty());
    std::vector<std::string> both = events;
    append_range(both, events);
    std::unique_ptr<Trace> twice = read(both, options);
    EXPECT_EQ(countsOf(*twice), countsOf(*once));
    ASSERT_EQ(twice->notes.size(), 1u);
    StringRef note = twice->notes.front();
    EXPECT_TRUE(note.starts_with("300 of 600 events stand in the file again"))
        << note.str();
    EXPECT_TRUE(note.contains("'gemm'")) << note.str();
    for (auto [a, b] : zip(once->activities, twice->activities))
      EXPECT_EQ(a.startNs, b.startNs);
  }
}

TEST(RepeatedEvents, OneKernelOfMany) {
  std::vector<std::string> events;
  for (unsigned i = 0; i < 50; ++i)
    append_range(events, step(100 * i, i + 1));
  events.push_back(kernel(2005, 21));
  std::unique_ptr<Trace> trace = read(events);
  EXPECT_EQ(countsOf(*trace), (Counts{50, 50, 50, 0}));
  ASSERT_EQ(trace->notes.size(), 1u);
  EXPECT_TRUE(
      StringRef(trace->notes.front()).starts_with("1 of 151 events stands"))
      << trace->notes.front();
}

TEST(RepeatedEvents, WhatDiffersInAnythingStays) {
  std::vector<std::string> events = step(100, 1);
  events.push_back(kernel(105, 2));
  events.push_back(kernel(106, 1));
  events.push_back(kernel(105, 1, ", \"grid\": [2, 1, 1]"));
  events.push_back(op(100, "\"External id\": 2"));
  std::unique_ptr<Trace> trace = read(events);
  EXPECT_EQ(countsOf(*trace), (Counts{2, 1, 4, 0}));
  EXPECT_TRUE(trace->notes.empty());
}

TEST(RepeatedEvents, KernelsOfOneGraphMayRunAtTheSameTime) {
  std::vector<std::string> events = {call(100, 5, "cudaGraphLaunch"),
                                     kernel(105, 5), kernel(105, 5)};
  std::unique_ptr<Trace> trace = read(events);
  EXPECT_EQ(countsOf(*trace), (Counts{0, 1, 2, 0}));
  EXPECT_TRUE(trace->notes.empty());
  // A call is there once.
  append_range(events, std::vector<std::string>(events));
  trace = read(events);
  EXPECT_EQ(countsOf(*trace), (Counts{0, 1, 1, 0}));
}

TEST(RepeatedEvents, KernelsOfTwoRanksMayHaveTheSameNumbers) {
  auto by = [](std::string text, StringRef process) {
    size_t at = text.find("\"pid\": ");
    return text.insert(at + StringRef("\"pid\": ").size(), process.str());
  };
  std::vector<std::string> events = {call(100, 1), by(call(100, 1), "1"),
                                     kernel(105, 1), kernel(105, 1)};
  EXPECT_EQ(countsOf(*read(events)), (Counts{0, 2, 2, 0}));
}

TEST(RepeatedEvents, OperatorsWithoutNumbersStayUnlessOthersAreThereTwice) {
  std::vector<std::string> events = {op(100, ""), op(100, ""), call(101, 1),
                                     kernel(105, 1)};
  std::unique_ptr<Trace> trace = read(events);
  EXPECT_EQ(countsOf(*trace), (Counts{2, 1, 1, 0}));
  EXPECT_TRUE(trace->notes.empty());
  std::string frame =
      event("python_function", "nn.Module: Linear_0", 90, 40, "");
  events = {frame, op(100, ""), call(101, 1), kernel(105, 1)};
  append_range(events, std::vector<std::string>(events));
  trace = read(events, {.moduleFrames = true});
  EXPECT_EQ(countsOf(*trace), (Counts{1, 1, 1, 1}));
}

TEST(RepeatedEvents, OperatorsAreFoundWhereTheyAreThen) {
  // A repeat before the operators of a backward pass, which are known by place.
  std::string forward = op(100, "\"External id\": 1, \"Sequence number\": 3");
  std::string backward = op(200, "\"External id\": 2, \"Sequence number\": 3, "
                                 "\"Fwd thread id\": 1");
  std::string other = op(300, "\"External id\": 3");
  for (const std::vector<std::string> &events :
       {std::vector{forward, backward, other},
        std::vector{forward, forward, backward, other, backward}}) {
    std::unique_ptr<Trace> trace = read(events);
    ASSERT_EQ(trace->hostOps.size(), 3u);
    EXPECT_TRUE(trace->hostOps[1].forwardThread.has_value());
    EXPECT_FALSE(trace->hostOps[2].forwardThread.has_value());
  }
}

} // namespace
