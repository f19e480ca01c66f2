// Tests of sets of instants.

#include "opprof/Support/Intervals.h"

#include "gtest/gtest.h"

using namespace opprof;
using Intervals = std::vector<Interval>;

TEST(Intervals, UniteSortsAndJoins) {
  EXPECT_EQ(unite({{5, 9}, {1, 3}, {3, 4}, {6, 7}, {2, 2}}),
            (Intervals{{1, 4}, {5, 9}}));
  EXPECT_EQ(unionLength({{5, 9}, {1, 3}, {2, 4}}), 7);
  EXPECT_EQ(unionLength({}), 0);
}

TEST(Intervals, GapsAreWhatNothingCovers) {
  EXPECT_EQ(gapsIn({0, 10}, {{2, 4}, {6, 12}}), (Intervals{{0, 2}, {4, 6}}));
  EXPECT_EQ(gapsIn({0, 10}, {}), (Intervals{{0, 10}}));
  EXPECT_EQ(gapsIn({3, 4}, {{0, 10}}), Intervals());
}

TEST(Intervals, SubtractAndIntersectShareOutAList) {
  Intervals a = {{0, 5}, {8, 12}, {20, 30}}, b = {{3, 9}, {11, 22}};
  EXPECT_EQ(subtract(a, b), (Intervals{{0, 3}, {9, 11}, {22, 30}}));
  EXPECT_EQ(intersect(a, b), (Intervals{{3, 5}, {8, 9}, {11, 12}, {20, 22}}));
  EXPECT_EQ(sumLengths(subtract(a, b)) + sumLengths(intersect(a, b)),
            sumLengths(a));
}

TEST(Intervals, ContainsIsHalfOpen) {
  Intervals times = {{1, 3}, {5, 9}};
  for (int64_t inside : {1, 2, 5, 8})
    EXPECT_TRUE(contains(times, inside)) << inside;
  for (int64_t outside : {0, 3, 4, 9})
    EXPECT_FALSE(contains(times, outside)) << outside;
  EXPECT_FALSE(contains({}, 0));
}
