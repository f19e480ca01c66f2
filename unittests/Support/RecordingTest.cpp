// Tests of configurations that kernels share.

#include "opprof/Support/Recording.h"

#include "gtest/gtest.h"

using namespace opprof;

static LaunchConfig config(uint64_t blocks, uint64_t registers) {
  LaunchConfig config;
  config.grid = {blocks, 1, 1};
  config.registers = registers;
  return config;
}

TEST(SharedConfig, EqualOnesAreOne) {
  ConfigPool pool;
  SharedConfig first = pool.keep(config(8, 32)),
               same = pool.keep(config(8, 32)),
               other = pool.keep(config(8, 40));
  EXPECT_EQ(&*first, &*same);
  EXPECT_NE(&*first, &*other);
  EXPECT_EQ(other->registers, 40u);
  EXPECT_EQ(&*pool.keep(LaunchConfig()), &*SharedConfig());
}

TEST(SharedConfig, OfOneHashEachKeepsItsOwn) {
  ConfigPool pool;
  LaunchConfig estimated = config(8, 32);
  estimated.occupancyPct = 50;
  SharedConfig first = pool.keep(config(8, 32)), second = pool.keep(estimated);
  EXPECT_FALSE(first->occupancyPct);
  EXPECT_EQ(second->occupancyPct, 50);
  EXPECT_FALSE(pool.keep(config(8, 32))->occupancyPct);
}

TEST(SharedConfig, WritingToOneLeavesTheOthers) {
  ConfigPool pool;
  SharedConfig first = pool.keep(config(8, 32)), copy = first;
  copy.own().registers = 64;
  EXPECT_EQ(first->registers, 32u);
  EXPECT_EQ(copy->registers, 64u);
  EXPECT_EQ(copy->grid, first->grid);
  EXPECT_EQ(pool.keep(config(8, 32))->registers, 32u);
  const LaunchConfig *alone = &*copy;
  copy.own().registers = 65;
  EXPECT_EQ(&*copy, alone);
  EXPECT_FALSE(SharedConfig()->registers);
}

TEST(OptionalNumber, IsAnOptionalInTheRoomOfItsNumber) {
  static_assert(sizeof(OptionalId) == 8 && sizeof(OptionalPlace) == 4);
  OptionalSigned number;
  EXPECT_FALSE(number);
  EXPECT_FALSE(std::optional<int64_t>(number));
  EXPECT_EQ(number.value_or(7), 7);
  for (int64_t known : {int64_t(0), int64_t(-1), int64_t(5),
                        std::numeric_limits<int64_t>::max()}) {
    number = known;
    EXPECT_TRUE(number.has_value());
    EXPECT_EQ(*number, known);
    EXPECT_EQ(number, OptionalSigned(std::optional(known)));
    EXPECT_EQ(std::optional<int64_t>(number), known);
    EXPECT_EQ(number.value_or(7), known);
  }
  number.reset();
  EXPECT_EQ(number, OptionalSigned(std::nullopt));
}
