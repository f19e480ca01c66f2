// Tests of how numbers with units are printed.

#include "opprof/Support/Units.h"

#include "gtest/gtest.h"

using namespace opprof;

TEST(Units, TimesOfThreeDigits) {
  EXPECT_EQ(formatTime(0), "0 ns");
  EXPECT_EQ(formatTime(999), "999 ns");
  EXPECT_EQ(formatTime(1000), "1.00 µs");
  EXPECT_EQ(formatTime(45678), "45.7 µs");
  EXPECT_EQ(formatTime(543210), "543 µs");
  EXPECT_EQ(formatTime(999499), "999 µs");
  EXPECT_EQ(formatTime(999960), "1.00 ms");
  EXPECT_EQ(formatTime(3390000), "3.39 ms");
  EXPECT_EQ(formatTime(999960000), "1.00 s");
  EXPECT_EQ(formatTime(12000000000), "12.0 s");
  EXPECT_EQ(formatTime(-1500), "-1.50 µs");
}

TEST(Units, TimesOfFixedDigits) {
  auto format = [](int64_t time) {
    return formatTime(time, TimeDigits::Fixed);
  };
  EXPECT_EQ(format(0), "0 ns");
  EXPECT_EQ(format(999), "999 ns");
  EXPECT_EQ(format(1'000), "1.0 µs");
  EXPECT_EQ(format(543'210), "543.2 µs");
  EXPECT_EQ(format(999'960), "1000.0 µs");
  EXPECT_EQ(format(3'390'000), "3.39 ms");
  EXPECT_EQ(format(12'000'000'000), "12.00 s");
}

TEST(Units, BytesAndAmounts) {
  EXPECT_EQ(formatBytes(999), "999 bytes");
  EXPECT_EQ(formatBytes(12'345), "12.3 kB");
  EXPECT_EQ(formatBytes(1'500'000'000), "1.50 GB");
  EXPECT_EQ(formatAmount(12), "12");
  EXPECT_EQ(formatAmount(0.5), "0.50");
  EXPECT_EQ(formatAmount(1.53e9), "1.53 G");
  EXPECT_EQ(formatPrefix(235), "235 ");
  EXPECT_EQ(formatPrefix(0.5), "0.50 ");
  EXPECT_EQ(formatPrefix(1.53e9), "1.53 G");
}

TEST(Units, SharesAndCounts) {
  EXPECT_EQ(percentOf(1, 3), 33.3);
  EXPECT_EQ(percentOf(1, 0), 0);
  EXPECT_EQ(formatPercent(33.3), "33.3 %");
  EXPECT_EQ(formatCount(1, "launch", "launches"), "1 launch");
  EXPECT_EQ(formatCount(0, "launch", "launches"), "0 launches");
}
