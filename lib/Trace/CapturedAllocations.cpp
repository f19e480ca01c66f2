// See CapturedAllocations.h.

#include "CapturedAllocations.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::capture;
using namespace opprof::trace;

/// Of all blocks together, so that no sum of them is too large for a number. No
/// program takes so much in years.
static constexpr uint64_t kMostBytes = uint64_t(1) << 62;

/// As PyTorch calls it. Its numbers of kinds of devices never change.
static std::string deviceName(int8_t type, int8_t index) {
  std::string name;
  switch (type) {
  case 0:
    return "cpu";
  case 1:
    name = "cuda";
    break;
  case 12:
    name = "xpu";
    break;
  case 13:
    name = "mps";
    break;
  default:
    name = ("device of kind " + Twine(int(type))).str();
  }
  return index < 0 ? name : (name + ":" + Twine(int(index))).str();
}

void CapturedAllocations::add(const AllocationRecord &r) {
  if (r.operation == uint8_t(AllocationOperation::Written))
    return process(r.time);
  waiting.push({r, added++});
}

void CapturedAllocations::finish() {
  process(std::numeric_limits<uint64_t>::max());
  for (auto [index, state] : llvm::enumerate(states)) {
    for (const auto &[address, allocation] : state.live)
      trace.allocations.push_back(allocation);
    if (!state.earlierBytes)
      continue;
    Allocation &earlier = trace.allocations.emplace_back();
    earlier.bytes = state.earlierBytes;
    earlier.allocator = index;
    earlier.isEarlier = true;
  }
  states.clear();
}

void CapturedAllocations::process(uint64_t until) {
  for (; !waiting.empty() && waiting.top().record.time < until; waiting.pop())
    process(waiting.top().record);
}

uint32_t CapturedAllocations::allocatorOf(const AllocationRecord &r) {
  uint32_t device = uint32_t(uint8_t(r.deviceType)) << 8 |
                    uint8_t(r.deviceType ? r.deviceIndex : 0);
  auto [it, isNew] = allocatorOfDevice.try_emplace(device, states.size());
  if (isNew) {
    states.emplace_back();
    trace.allocators.emplace_back().device =
        deviceName(r.deviceType, r.deviceIndex);
  }
  return it->second;
}

void CapturedAllocations::end(Allocation allocation, uint64_t time) {
  if (time < begin)
    return;
  allocation.endNs = int64_t(time);
  trace.allocations.push_back(allocation);
}

uint64_t CapturedAllocations::counted(uint64_t bytes) {
  bytes = std::min(bytes, kMostBytes - totalBytes);
  totalBytes += bytes;
  return bytes;
}

void CapturedAllocations::process(const AllocationRecord &r) {
  uint32_t index = allocatorOf(r);
  State &state = states[index];
  auto it = state.live.find(r.address);
  switch (AllocationOperation(r.operation)) {
  case AllocationOperation::Allocate: {
    // Its end was lost, or comes too late: no two blocks are at one place.
    if (it != state.live.end()) {
      state.liveBytes -= it->second.bytes;
      end(it->second,
          std::max(uint64_t(it->second.startNs), r.time ? r.time - 1 : 0));
      state.live.erase(it);
    }
    Allocation allocation;
    allocation.startNs = int64_t(r.time);
    allocation.bytes = counted(r.bytes);
    if (r.id)
      allocation.externalId = r.id;
    if (r.place != kNone)
      allocation.place = r.place;
    allocation.allocator = index;
    state.liveBytes += allocation.bytes;
    state.live.emplace(r.address, allocation);
    break;
  }
  case AllocationOperation::Free:
    if (it != state.live.end()) {
      // One that came too late is of the block before.
      if (int64_t(r.time) < it->second.startNs)
        break;
      state.liveBytes -= it->second.bytes;
      end(it->second, r.time);
      state.live.erase(it);
    } else if (uint64_t bytes = std::min(r.bytes, state.earlierBytes)) {
      state.earlierBytes -= bytes;
      Allocation earlier;
      earlier.bytes = bytes;
      earlier.allocator = index;
      earlier.isEarlier = true;
      end(earlier, r.time);
    } else {
      ++trace.allocators[index].unknownFrees;
    }
    break;
  case AllocationOperation::Held:
    state.earlierBytes =
        r.bytes > state.liveBytes ? counted(r.bytes - state.liveBytes) : 0;
    break;
  case AllocationOperation::Written:
    break;
  }
}
