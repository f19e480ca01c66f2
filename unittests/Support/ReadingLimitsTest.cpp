// What a file may cost: more ends the process, with one line that names the
// file. Limits are a process's, so each is tried in one of its own.

#include "opprof/Support/ReadingLimits.h"

#include "gtest/gtest.h"

#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

using namespace opprof;

namespace {
constexpr ReadingBudget kSmall = {uint64_t(64) << 20, 16, 1, 1 << 20};

/// Takes a piece of memory after the other, for ever.
[[noreturn]] void takeMemory() {
  std::vector<std::string> pieces;
  while (true)
    pieces.emplace_back(1 << 20, 'x');
}

[[noreturn]] void takeTime() {
  for (volatile uint64_t i = 0;; i = i + 1) {
  }
}

class ReadingLimitsDeathTest : public ::testing::Test {
protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};
} // namespace

TEST_F(ReadingLimitsDeathTest, MemoryIsBounded) {
  EXPECT_EXIT(
      {
        limitReading("big\x1b.json", 1000, kSmall);
        takeMemory();
      },
      ::testing::ExitedWithCode(1),
      "error: big\\?.json: reading it takes more than 67.1 MB of memory");
}

TEST_F(ReadingLimitsDeathTest, ProcessorTimeIsBounded) {
  EXPECT_EXIT(
      {
        limitReading("long.json", 1000, kSmall);
        takeTime();
      },
      ::testing::ExitedWithCode(1),
      "error: long.json: reading it takes more than 1 s of processor time");
}

TEST_F(ReadingLimitsDeathTest, LargerFilesMayCostMore) {
  EXPECT_EXIT(
      {
        limitReading("small.json", 1000, kSmall);
        limitReading("large.json", uint64_t(64) << 20, kSmall);
        std::vector<std::string> pieces;
        for (int i = 0; i < 512; ++i)
          pieces.emplace_back(1 << 20, 'x');
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(ReadingLimitsDeathTest, TheUserMayTakeThemAway) {
  EXPECT_EXIT(
      {
        ::setenv("OPPROF_READING_LIMITS", "off", 1);
        limitReading("mine.json", 1000, kSmall);
        std::vector<std::string> pieces;
        for (int i = 0; i < 256; ++i)
          pieces.emplace_back(1 << 20, 'x');
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "");
}
