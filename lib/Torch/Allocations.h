// Hears of the memory that PyTorch takes and gives back. On the CPU its
// allocator is wrapped, which PyTorch offers for such purposes; of other
// devices their allocators report each block to c10, and the calls of that
// report lead here first. Nothing of CUDA is needed to build or to load it.

#ifndef OPPROF_LIB_TORCH_ALLOCATIONS_H
#define OPPROF_LIB_TORCH_ALLOCATIONS_H

#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace opprof::observer {

/// Who is told. Called on the thread that allocates or frees, maybe under the
/// lock of a device's allocator, so that a listener waits for nothing that a
/// thread may hold which allocates: the interpreter's lock, above all. Of the
/// CPU a block is told after it was taken and before it is given back.
struct AllocationListener {
  /// `held` is what the allocator has given out with this block, where it says.
  void (*allocated)(const void *address, uint64_t bytes, c10::Device device,
                    std::optional<uint64_t> held);
  /// `held` is that without this block of `bytes`, where the allocator says.
  void (*freed)(const void *address, uint64_t bytes, c10::Device device,
                std::optional<uint64_t> held);
};

/// Begins to tell the listener, for good: blocks keep leading back here when
/// they are freed. A second call does nothing. Returns what cannot be heard of,
/// in words; empty where all can.
std::string listenToAllocations(const AllocationListener &listener);

} // namespace opprof::observer

#endif // OPPROF_LIB_TORCH_ALLOCATIONS_H
