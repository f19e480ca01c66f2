// What ends a step of a program, of the ranges that optimizers and
// torch.profiler make.

#include "StepCounter.h"

#include "gtest/gtest.h"

using namespace opprof::observer;
using Event = StepCounter::Event;

/// Steps of optimizers, a letter each, as what each of them was to the steps:
/// '.' nothing, '|' the end of one, '+' more of the last one.
static std::string events(StepCounter &counter, std::string_view letters) {
  std::string text;
  for (char letter : letters) {
    std::string name = "Optimizer.step#" + std::string(1, letter) + ".step";
    switch (counter.rangeEnded(name, 0)) {
    case Event::None:
      text += '.';
      break;
    case Event::Step:
      text += '|';
      break;
    case Event::Longer:
      text += '+';
      break;
    }
  }
  return text;
}

TEST(StepCounter, OneOptimizer) {
  StepCounter counter;
  EXPECT_EQ(counter.endsWith(), "");
  EXPECT_EQ(events(counter, "AAAA"), "||||");
  EXPECT_EQ(counter.steps(), 4u);
  EXPECT_EQ(counter.endsWith(), "A.step");
}

TEST(StepCounter, TwoOptimizersMakeAStepTogether) {
  StepCounter counter;
  EXPECT_EQ(events(counter, "DGDGDG"), "|+.|.|");
  EXPECT_EQ(counter.steps(), 3u);
  EXPECT_EQ(counter.endsWith(), "G.step");
}

TEST(StepCounter, ACriticStepsSeveralTimes) {
  StepCounter counter;
  events(counter, "CCCCCG");
  // The first round is a step as those after it.
  EXPECT_EQ(counter.steps(), 1u);
  EXPECT_EQ(events(counter, "CCCCCGCCCCCG"), ".....|.....|");
  EXPECT_EQ(counter.steps(), 3u);
}

TEST(StepCounter, StepsBeforeAnotherOptimizerBegins) {
  StepCounter counter;
  EXPECT_EQ(events(counter, "AAAAAAAA"), "||||||||");
  // It may be the first round of a long one…
  EXPECT_EQ(events(counter, "B"), "+");
  EXPECT_EQ(counter.steps(), 1u);
  // … and is not, as it steps again at once.
  EXPECT_EQ(events(counter, "ABAB"), ".|.|");
  EXPECT_EQ(counter.steps(), 10u);
}

TEST(StepCounter, ThreeOptimizersOfThreeRhythms) {
  StepCounter counter;
  events(counter, "AABAABC");
  EXPECT_EQ(counter.steps(), 1u);
  EXPECT_EQ(events(counter, "AABAABCAABAABC"), "......|......|");
  EXPECT_EQ(counter.steps(), 3u);
}

TEST(StepCounter, WhatBeginsLateLeavesTheStepsBefore) {
  StepCounter counter;
  events(counter, std::string(150, 'A'));
  EXPECT_EQ(events(counter, "B"), "+");
  EXPECT_EQ(counter.steps(), 150u);
}

TEST(StepCounter, OptimizersOfOneClassAreToldByTheirPlaces) {
  StepCounter counter;
  const char *name = "Optimizer.step#Adam.step";
  EXPECT_EQ(counter.rangeEnded(name, 1), Event::Step);
  EXPECT_EQ(counter.rangeEnded(name, 2), Event::Longer);
  EXPECT_EQ(counter.rangeEnded(name, 1), Event::None);
  EXPECT_EQ(counter.rangeEnded(name, 2), Event::Step);
}

TEST(StepCounter, AnOptimizerThatIsOutOfUseIsWaitedForNoMore) {
  StepCounter counter;
  events(counter, "ABABAB");
  // The second part of a program steps the first one alone.
  EXPECT_EQ(events(counter, "AAAAAAAAAAAA").substr(8), "||||");
  EXPECT_EQ(counter.endsWith(), "A.step");
  // And its third one a new one.
  EXPECT_EQ(events(counter, "CCCC"), "+|||");
}

TEST(StepCounter, StepsOfTheProfilerCountUntilAnOptimizerSteps) {
  StepCounter counter;
  EXPECT_EQ(counter.rangeEnded("ProfilerStep#0", 0), Event::Step);
  EXPECT_EQ(counter.rangeEnded("ProfilerStep#1", 0), Event::Step);
  EXPECT_EQ(counter.endsWith(), "a step of torch.profiler's");
  EXPECT_EQ(events(counter, "AA"), "||");
  EXPECT_EQ(counter.rangeEnded("ProfilerStep#2", 0), Event::None);
  EXPECT_EQ(counter.steps(), 2u);
}

TEST(StepCounter, OtherRangesAreNone) {
  StepCounter counter;
  EXPECT_FALSE(StepCounter::counts("Optimizer.zero_grad#SGD.zero_grad"));
  EXPECT_FALSE(StepCounter::counts("mine"));
  EXPECT_TRUE(StepCounter::counts("Optimizer.step#SGD.step"));
  EXPECT_TRUE(StepCounter::counts("ProfilerStep#7"));
  EXPECT_EQ(counter.rangeEnded("mine", 0), Event::None);
}
