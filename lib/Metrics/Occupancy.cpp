// How many warps a processor can hold.

#include "opprof/Metrics/Occupancy.h"

#include "llvm/Support/MathExtras.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::metrics;

/// Blocks that a multiprocessor holds whatever they need, from the table of
/// compute capabilities in the CUDA programming guide.
static uint64_t maxBlocks(const std::array<uint64_t, 2> &capability) {
  auto [major, minor] = capability;
  if (major == 7 && minor == 5)
    return 16;
  if (major == 8)
    return minor == 0 ? 32 : minor == 9 ? 24 : 16;
  if (major == 12)
    return 24;
  return 32;
}

std::optional<Occupancy>
opprof::metrics::estimateOccupancy(const LaunchConfig &kernel,
                                   const Device &device) {
  if (!kernel.grid || !kernel.block || !kernel.registers ||
      !kernel.sharedMemory || !device.smCount || !device.maxThreadsPerSM ||
      !device.registersPerSM || !device.sharedPerSM ||
      !device.computeCapability)
    return std::nullopt;
  uint64_t warpSize = device.warpSize.value_or(32);
  uint64_t threads = 1, gridBlocks = 1;
  for (uint64_t size : *kernel.block)
    threads = SaturatingMultiply(threads, size);
  for (uint64_t size : *kernel.grid)
    gridBlocks = SaturatingMultiply(gridBlocks, size);
  uint64_t maxWarps = warpSize ? *device.maxThreadsPerSM / warpSize : 0;
  if (!threads || !maxWarps || threads > *device.maxThreadsPerSM ||
      !gridBlocks || !*device.smCount || *kernel.registers > 255 ||
      *kernel.sharedMemory > *device.sharedPerSM)
    return std::nullopt;
  uint64_t warps = divideCeil(threads, warpSize);

  Occupancy result;
  result.blocks = maxBlocks(*device.computeCapability);
  result.limiter = "blocks";
  auto limit = [&](uint64_t blocks, StringRef by) {
    if (blocks < result.blocks) {
      result.blocks = blocks;
      result.limiter = by;
    }
  };
  limit(maxWarps / warps, "block size");
  // Registers are given out 256 at a time to a warp, warps four at a time.
  if (*kernel.registers) {
    uint64_t ofWarp = alignTo(*kernel.registers * warpSize, 256);
    limit(alignDown(*device.registersPerSM / ofWarp, 4) / alignTo(warps, 4),
          "registers");
  }
  // From compute capability 8 on each block takes 1 KiB for itself.
  uint64_t reserved = (*device.computeCapability)[0] >= 8 ? 1024 : 0;
  if (uint64_t shared = alignTo(*kernel.sharedMemory, 128) + reserved)
    limit(*device.sharedPerSM / shared, "shared memory");
  if (!result.blocks)
    return std::nullopt;
  result.pct = 100.0 * double(result.blocks * warps) / double(maxWarps);
  result.waves =
      double(gridBlocks) / (double(*device.smCount) * double(result.blocks));
  return result;
}
