// What the observer notes of memory that is taken and given back, and what is
// held where a recording begins.

#include "Allocations.h"
#include "ObserverState.h"

using namespace opprof::capture;
using namespace opprof::observer;

void Observer::listen() {
  static const opprof::observer::AllocationListener listener{
      [](const void *address, uint64_t bytes, c10::Device device,
         std::optional<uint64_t> held) {
        get().allocated(address, bytes, device, held);
      },
      [](const void *address, uint64_t bytes, c10::Device device,
         std::optional<uint64_t> held) {
        get().freed(address, bytes, device, held);
      }};
  std::string missing = opprof::observer::listenToAllocations(listener);
  if (!missing.empty())
    note("memory", "not recorded: " + missing);
}

void Observer::followMemory() {
  listen();
  followsMemory = keepsBlocks = true;
}

/// Writes what is held into the file, before anything else gets there.
void Observer::recordHeld() {
  blocks.hold();
  if (auto [file, lock] = lockFile(); file)
    blocks.visit([&, file = file](const AllocationRecord &record) {
      file->add(ChunkType::Allocations, record);
    });
  recordsMemory = true;
  blocks.release();
}

/// Of a device whose allocator says it: what it had given out before the first
/// record, by blocks that nobody may know.
void Observer::noteHeld(const AllocationRecord &record, uint64_t before) {
  size_t device =
      (size_t(uint8_t(record.deviceType)) * 32 + uint8_t(record.deviceIndex)) %
      saidHeld.size();
  uint32_t number = recordings.load(std::memory_order_relaxed);
  if (saidHeld[device].load(std::memory_order_relaxed) == number ||
      saidHeld[device].exchange(number) == number)
    return;
  AllocationRecord held = record;
  held.operation = uint8_t(AllocationOperation::Held);
  held.address = 0;
  held.bytes = before;
  addAllocation(held);
}

void Observer::addAllocation(const AllocationRecord &record) {
  if (end && record.time > end)
    return;
  if (ThreadState *state = recordingThread(*this); state && state->log)
    return addTo(*state->log, state->log->allocations, record);
  // A thread that is at its end frees what it held.
  if (auto [file, lock] = lockFile(); file && file->isOpen())
    file->add(ChunkType::Allocations, record);
}

static AllocationRecord allocationOf(AllocationOperation operation,
                                     const void *address, uint64_t bytes,
                                     c10::Device device) {
  AllocationRecord record{};
  record.time = now();
  record.address = reinterpret_cast<uintptr_t>(address);
  record.bytes = bytes;
  record.place = OPPROF_NO_PLACE;
  record.operation = uint8_t(operation);
  record.deviceType = int8_t(device.type());
  record.deviceIndex = int8_t(device.index());
  return record;
}

void Observer::allocated(const void *address, uint64_t bytes,
                         c10::Device device, std::optional<uint64_t> held) {
  const bool keeps = keepsBlocks.load(std::memory_order_relaxed);
  // A fork has no file until it runs an operator.
  if (!keeps && (!recordsMemory.load(std::memory_order_relaxed) || !file))
    return;
  AllocationRecord record =
      allocationOf(AllocationOperation::Allocate, address, bytes, device);
  ThreadState *state = thisThread ? thisThread : makeThread();
  const Open *open = state ? state->open : nullptr;
  while (open && open->over.load(std::memory_order_acquire))
    open = open->outer;
  if (open) {
    record.id = open->record.id;
    record.place = open->record.place;
  }
  // A device's allocator holds its lock, and whoever holds the interpreter's
  // may wait for that.
  const bool mayAsk = state && device.type() == c10::DeviceType::CPU;
  if (mayAsk && record.place == OPPROF_NO_PLACE && (!open || keeps))
    record.place = placeAt(*state, frame(), nullptr);
  if (!keeps) {
    if (held)
      noteHeld(record, *held - bytes);
    return addAllocation(record);
  }
  if (recordsMemory)
    recordingThread(*this);
  Blocks::Shard &shard = blocks.of(record.address);
  std::lock_guard<std::mutex> lock(shard.mutex);
  shard.held[record.address] = record;
  if (!recordsMemory || !file)
    return;
  if (held)
    noteHeld(record, *held - bytes);
  addAllocation(record);
}

void Observer::freed(const void *address, uint64_t bytes, c10::Device device,
                     std::optional<uint64_t> held) {
  const bool keeps = keepsBlocks.load(std::memory_order_relaxed);
  if (!keeps && (!recordsMemory.load(std::memory_order_relaxed) || !file))
    return;
  AllocationRecord record =
      allocationOf(AllocationOperation::Free, address, bytes, device);
  if (!keeps) {
    if (held)
      noteHeld(record, *held + bytes);
    return addAllocation(record);
  }
  if (recordsMemory)
    recordingThread(*this);
  Blocks::Shard &shard = blocks.of(record.address);
  std::lock_guard<std::mutex> lock(shard.mutex);
  shard.held.erase(record.address);
  if (!recordsMemory || !file)
    return;
  if (held)
    noteHeld(record, *held + bytes);
  addAllocation(record);
}
