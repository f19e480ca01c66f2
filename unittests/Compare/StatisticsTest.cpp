// Tests of the statistics of comparisons, against values that were computed
// otherwise: tables of Student's t, and sums by hand. test_compare.py holds
// whole comparisons against numpy.

#include "opprof/Compare/Statistics.h"

#include "gtest/gtest.h"

#include <cmath>
#include <random>

using namespace opprof::compare;

namespace {

TEST(Statistics, StudentQuantilesAreThoseOfTables) {
  // One degree of freedom is Cauchy's, two have a closed form.
  EXPECT_NEAR(studentQuantile(0.025, 1), 12.7062047362, 1e-8);
  EXPECT_NEAR(studentQuantile(0.025, 2), 4.30265272975, 1e-9);
  EXPECT_NEAR(studentQuantile(0.05, 10), 1.81246112281, 1e-9);
  EXPECT_NEAR(studentQuantile(0.005, 4), 4.60409487135, 1e-9);
  EXPECT_NEAR(studentQuantile(0.0005, 30), 3.6459586350, 1e-8);
  EXPECT_NEAR(studentQuantile(0.025, 1e9), 1.95996398454, 1e-6);
  EXPECT_NEAR(studentQuantile(0.5, 7), 0, 1e-9);
}

TEST(Statistics, StudentQuantilesReachFarTails) {
  // With one degree of freedom the tail is atan(1 / t) / pi.
  double t = studentQuantile(1e-9, 1);
  EXPECT_NEAR(std::atan(1 / t) / M_PI, 1e-9, 1e-15);
  // With two: (1 - t / sqrt(2 + t²)) / 2.
  t = studentQuantile(1e-8, 2);
  EXPECT_NEAR(t, 7071.0678, 1e-3);
}

TEST(Statistics, TrimmedMeanLeavesEndsOut) {
  TrimmedMean mean = trimmedMean({5, 1, 3, 1000, 2});
  EXPECT_EQ(mean.kept, 3u);
  EXPECT_DOUBLE_EQ(mean.mean, 10.0 / 3);
  // Winsorized: 2 2 3 5 5, of mean 3.4 and squares 9.2, over 3 · 2.
  EXPECT_NEAR(mean.squaredError, 9.2 / 6, 1e-12);
}

TEST(Statistics, FewValuesAreNotTrimmed) {
  TrimmedMean mean = trimmedMean({1, 2, 6});
  EXPECT_EQ(mean.kept, 3u);
  EXPECT_DOUBLE_EQ(mean.mean, 3);
  EXPECT_NEAR(mean.squaredError, 14.0 / 6, 1e-12);
  EXPECT_EQ(trimmedMean({7}).squaredError, 0);
}

TEST(Statistics, MarginIsWelchsOfTrimmedMeans) {
  TrimmedMean a{10, 0.04, 4}, b{11, 0.01, 6};
  double freedom = 0.05 * 0.05 / (0.04 * 0.04 / 3 + 0.01 * 0.01 / 5);
  EXPECT_NEAR(*marginOfDifference(a, b, 0.05),
              studentQuantile(0.025, freedom) * std::sqrt(0.05), 1e-12);
  EXPECT_EQ(marginOfDifference(a, {1, 0, 1}, 0.05), std::nullopt);
  EXPECT_EQ(marginOfDifference({1, 0, 5}, {2, 0, 5}, 0.05), 0.0);
}

TEST(Statistics, NeighboursThatAreAlike) {
  std::vector<double> drift, alternating;
  for (int i = 0; i < 40; ++i) {
    drift.push_back(i);
    alternating.push_back(i % 2);
  }
  EXPECT_NEAR(correlationOfNeighbours(drift), 0.9, 1e-12);
  EXPECT_EQ(correlationOfNeighbours(alternating), 0);
  EXPECT_EQ(correlationOfNeighbours({1, 1, 1, 1, 1}), 0);
  EXPECT_EQ(correlationOfNeighbours({1, 2}), 0);
}

TEST(Statistics, IntervalsHoldTheDifferenceAsOftenAsTheySay) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> noise(0, 1);
  constexpr size_t kTries = 400, kSteps = 20;
  Bootstrap bootstrap(kSteps, kSteps);
  size_t held = 0;
  for (size_t i = 0; i < kTries; ++i) {
    std::vector<double> a(kSteps), b(kSteps);
    for (double &value : a)
      value = 100 + noise(random);
    for (double &value : b)
      value = 103 + noise(random);
    auto [from, to] = bootstrap.interval(a, b);
    held += from <= 3 && 3 <= to;
  }
  // 95 % is 380; the bootstrap of twenty repeats is known to be a little
  // narrow.
  EXPECT_GE(held, 360u);
  EXPECT_LE(held, 395u);
}

TEST(Statistics, ARunawayRepeatMovesNothing) {
  std::vector<double> a(20, 100), b(20, 100);
  b[3] = 1e6;
  auto [from, to] = Bootstrap(20, 20).interval(a, b);
  EXPECT_EQ(from, 0);
  EXPECT_EQ(to, 0);
}

TEST(Statistics, ComparisonsAlwaysSayTheSame) {
  std::vector<double> a, b;
  for (int i = 0; i < 9; ++i) {
    a.push_back(i * i % 7);
    b.push_back(i * i % 5 + 2);
  }
  EXPECT_EQ(Bootstrap(9, 9).interval(a, b), Bootstrap(9, 9).interval(a, b));
}

} // namespace
