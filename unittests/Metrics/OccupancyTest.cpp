// Tests of the bound on occupancy, with figures worked out by NVIDIA's rules
// for a Hopper multiprocessor: 64 warps, 65536 registers, 228 KiB of shared
// memory, 32 blocks.

#include "opprof/Metrics/Occupancy.h"

#include "gtest/gtest.h"

using namespace opprof;
using namespace opprof::metrics;

static Device hopper() {
  Device device;
  device.smCount = 132;
  device.warpSize = 32;
  device.maxThreadsPerSM = 2048;
  device.registersPerSM = 65536;
  device.sharedPerSM = 228 * 1024;
  device.computeCapability = {9, 0};
  return device;
}

static LaunchConfig kernel(uint64_t threads, uint64_t registers,
                           uint64_t shared, uint64_t blocks = 1320) {
  LaunchConfig kernel;
  kernel.grid = {blocks, 1, 1};
  kernel.block = {threads, 1, 1};
  kernel.registers = registers;
  kernel.sharedMemory = shared;
  return kernel;
}

static Occupancy bound(const LaunchConfig &kernel,
                       const Device &device = hopper()) {
  std::optional<Occupancy> result = estimateOccupancy(kernel, device);
  EXPECT_TRUE(result);
  return result.value_or(Occupancy());
}

TEST(Occupancy, BlocksOfOddWarpsTakeRegistersForFourAtATime) {
  // A warp takes 1280 registers (40 x 32 is a multiple of 256): 51 fit, given
  // out as 48. Five warps take those of eight: 6 blocks.
  Occupancy result = bound(kernel(160, 40, 0));
  EXPECT_EQ(result.blocks, 6u);
  EXPECT_EQ(result.limiter, "registers");
  EXPECT_DOUBLE_EQ(result.pct, 100.0 * 30 / 64);
}

TEST(Occupancy, RegistersOfAWarpAreRoundedUp) {
  // 33 x 32 = 1056 become 1280.
  EXPECT_EQ(bound(kernel(128, 33, 0)).blocks, 12u);
}

TEST(Occupancy, BlocksTakeSharedMemoryForThemselves) {
  // 228 KiB hold 14 blocks of 16 KiB, and 13 of 17.
  Occupancy result = bound(kernel(32, 0, 16 * 1024));
  EXPECT_EQ(result.blocks, 13u);
  EXPECT_EQ(result.limiter, "shared memory");
  Device volta = hopper();
  volta.computeCapability = {7, 0};
  EXPECT_EQ(bound(kernel(32, 0, 16 * 1024), volta).blocks, 14u);
}

TEST(Occupancy, ThreadsAndBlocksLimitToo) {
  EXPECT_EQ(bound(kernel(1024, 16, 0)).blocks, 2u);
  EXPECT_EQ(bound(kernel(1024, 16, 0)).limiter, "block size");
  EXPECT_EQ(bound(kernel(32, 16, 0)).blocks, 32u);
  EXPECT_EQ(bound(kernel(32, 16, 0)).limiter, "blocks");
}

TEST(Occupancy, WavesAreOfTheWholeDevice) {
  EXPECT_DOUBLE_EQ(bound(kernel(1024, 16, 0, 132 * 2 * 3)).waves, 3);
}

TEST(Occupancy, UnknownIsNoBound) {
  LaunchConfig unknown = kernel(128, 32, 0);
  unknown.registers.reset();
  EXPECT_FALSE(estimateOccupancy(unknown, hopper()));
  EXPECT_FALSE(estimateOccupancy(kernel(4096, 32, 0), hopper()));
  EXPECT_FALSE(estimateOccupancy(kernel(128, 32, 300 * 1024), hopper()));
}
