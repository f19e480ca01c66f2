// Tests of allocations in captures: small files written by hand, and random
// ones whose sums are counted beside them.

#include "../Capture/CaptureFileBuilder.h"
#include "opprof/Join/Attribution.h"
#include "opprof/Profile/ProfileJSON.h"
#include "opprof/Trace/Reader.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"

#include <map>
#include <random>

using namespace opprof;
using namespace opprof::join;
using namespace opprof::profile;
using namespace opprof::trace;
using namespace opprof::capture;

namespace {

class AllocationsTest : public ::testing::Test {
protected:
  AllocationsTest() { file.meta("recorder", "opprof observer"); }

  uint32_t place(const std::string &module, uint32_t line) {
    PlaceRecord r{
        places, file.string(module), file.string("/p/train.py"), kNone, line,
        kNone};
    file.add(ChunkType::Places, r);
    return places++;
  }
  static AllocationRecord record(AllocationOperation operation, uint64_t time,
                                 uint64_t address, uint64_t bytes = 0,
                                 uint32_t place = kNone) {
    AllocationRecord r{};
    r.time = time;
    r.address = address;
    r.bytes = bytes;
    r.place = place;
    r.operation = uint8_t(operation);
    r.deviceIndex = -1;
    return r;
  }
  void add(const AllocationRecord &r) { file.add(ChunkType::Allocations, r); }
  void take(uint64_t time, uint64_t address, uint64_t bytes,
            uint32_t place = kNone) {
    add(record(AllocationOperation::Allocate, time, address, bytes, place));
  }
  void free(uint64_t time, uint64_t address, uint64_t bytes = 0) {
    add(record(AllocationOperation::Free, time, address, bytes));
  }
  void written(uint64_t time) {
    add(record(AllocationOperation::Written, time, 0));
  }
  void step(uint64_t number, uint64_t begin, uint64_t end) {
    file.add(ChunkType::Marks, MarkRecord{begin, number, 1, kNone, 0, 0});
    file.add(ChunkType::Marks, MarkRecord{end, number, 2, kNone, 0, 0});
  }
  void run(uint64_t id, const std::string &name, uint64_t start, uint64_t end,
           uint32_t place) {
    OperatorRecord r{};
    r.start = start;
    r.end = end;
    r.id = id;
    r.sequence = -1;
    r.thread = 1;
    r.name = file.string(name);
    r.place = place;
    r.sizes = r.types = kNone;
    file.add(ChunkType::Operators, r);
  }

  /// What the file says of its memory, written as JSON and read again.
  TensorMemory memory(size_t device = 0) {
    llvm::Expected<std::unique_ptr<Trace>> trace =
        readTrace({file.bytes, "t.opcap"});
    if (!trace) {
      ADD_FAILURE() << llvm::toString(trace.takeError());
      return {};
    }
    std::string text;
    llvm::raw_string_ostream os(text);
    writeProfile(*attribute(**trace, {}), os);
    llvm::Expected<std::unique_ptr<Profile>> profile = readProfile(text, "t");
    if (!profile) {
      ADD_FAILURE() << llvm::toString(profile.takeError());
      return {};
    }
    if (device >= (*profile)->tensorMemory.size()) {
      ADD_FAILURE() << "no memory of such a device";
      return {};
    }
    return (*profile)->tensorMemory[device];
  }
  static const MemorySite &site(const TensorMemory &memory,
                                llvm::StringRef module) {
    for (const MemorySite &site : memory.sites)
      if (site.module == module)
        return site;
    ADD_FAILURE() << "nothing of " << module.str();
    static const MemorySite none;
    return none;
  }

  CaptureFileBuilder file;
  uint32_t places = 0;
};

} // namespace

TEST_F(AllocationsTest, WhoHoldsThePeak) {
  uint32_t a = place("Net.a", 3), b = place("Net.b", 4);
  take(1000, 0x10, 100, a);
  take(2000, 0x20, 50, b);
  take(3000, 0x30, 7, b);
  free(4000, 0x20);
  take(5000, 0x40, 20, a);
  file.end();
  TensorMemory memory = this->memory();
  EXPECT_EQ(memory.device, "cpu");
  EXPECT_EQ(memory.allocations, 4u);
  EXPECT_EQ(memory.peakBytes, 157u);
  EXPECT_EQ(memory.peakTimeNs, 3000);
  EXPECT_EQ(memory.endBytes, 127u);
  ASSERT_TRUE(memory.peakSite);
  EXPECT_EQ(memory.sites[*memory.peakSite].module, "Net.b");
  ASSERT_EQ(memory.sites.size(), 2u);
  EXPECT_EQ(memory.sites[0].source, "/p/train.py:3");
  EXPECT_EQ(memory.sites[0].peakBytes, 100u);
  EXPECT_EQ(memory.sites[1].peakBytes, 57u);
  EXPECT_EQ(memory.sites[1].peakBlocks, 2u);
}

TEST_F(AllocationsTest, AnAddressIsGivenOutAgainByAnotherThread) {
  // The thread that allocates later is written first.
  take(3000, 0x10, 30);
  take(1000, 0x10, 100);
  free(2000, 0x10);
  written(4000);
  file.end();
  TensorMemory memory = this->memory();
  EXPECT_EQ(memory.peakBytes, 100u);
  EXPECT_EQ(memory.endBytes, 30u);
  EXPECT_EQ(memory.unknownFrees, 0u);
}

TEST_F(AllocationsTest, WhatComesTooLateIsOfTheBlockBefore) {
  take(1000, 0x10, 100);
  written(5000);
  take(6000, 0x10, 30);
  written(7000);
  free(2000, 0x10);
  file.end();
  TensorMemory memory = this->memory();
  EXPECT_EQ(memory.peakBytes, 100u);
  EXPECT_EQ(memory.endBytes, 30u);
}

TEST_F(AllocationsTest, AnAddressIsGivenOutTwiceAtTheBeginningOfTime) {
  take(0, 0x10, 100);
  take(0, 0x10, 30);
  take(1000, 0x20, 7);
  file.end();
  TensorMemory memory = this->memory();
  EXPECT_EQ(memory.peakBytes, 130u);
  EXPECT_EQ(memory.endBytes, 37u);
}

/// In time that grows with the square of their number this does not end.
TEST_F(AllocationsTest, ManyRecordsWaitWhileMuchIsWritten) {
  constexpr uint64_t kNumber = 200'000;
  for (uint64_t at = 0; at < kNumber; ++at) {
    take(1'000'000 - at, at, 1);
    written(1000 + at % 500);
  }
  file.end();
  EXPECT_EQ(memory().peakBytes, kNumber);
}

TEST_F(AllocationsTest, WhatHappensInAnInstantStaysInOrder) {
  take(1000, 0x10, 100);
  free(1000, 0x10);
  take(1000, 0x10, 30);
  free(1000, 0x10);
  take(1000, 0x10, 7);
  file.end();
  TensorMemory memory = this->memory();
  EXPECT_EQ(memory.endBytes, 7u);
  EXPECT_EQ(memory.unknownFrees, 0u);
}

TEST_F(AllocationsTest, BlocksFromBeforeTheRecording) {
  // The CPU's allocator does not say how large they were.
  free(1000, 0x70);
  take(2000, 0x10, 100);
  // A device's says so, and what it had given out.
  auto device = [&](AllocationOperation operation, uint64_t time,
                    uint64_t address, uint64_t bytes) {
    AllocationRecord r = record(operation, time, address, bytes);
    r.deviceType = 1;
    r.deviceIndex = 2;
    add(r);
  };
  device(AllocationOperation::Held, 1500, 0, 5000);
  device(AllocationOperation::Allocate, 1500, 0x99, 300);
  device(AllocationOperation::Free, 1600, 0x98, 2000);
  device(AllocationOperation::Allocate, 1700, 0x97, 10);
  file.end();
  TensorMemory cuda = memory(0), cpu = memory(1);
  EXPECT_EQ(cuda.device, "cuda:2");
  EXPECT_EQ(cuda.peakBytes, 5300u);
  EXPECT_EQ(cuda.earlierBytes, 5000u);
  EXPECT_EQ(cuda.endBytes, 3310u);
  EXPECT_EQ(cuda.unknownFrees, 0u);
  EXPECT_EQ(cpu.unknownFrees, 1u);
  EXPECT_EQ(cpu.peakBytes, 100u);
}

TEST_F(AllocationsTest, StepsTakeAndGiveBack) {
  uint32_t act = place("Net.act", 5), kept = place("Net.kept", 6);
  for (uint64_t number = 0; number < 8; ++number) {
    uint64_t at = 1'000'000 * (number + 1), id = number + 1;
    step(number, at, at + 900'000);
    run(id, "aten::mm", at + 100, at + 500, act);
    AllocationRecord scratch =
        record(AllocationOperation::Allocate, at + 200, 0x10, 16, act);
    scratch.id = id;
    add(scratch);
    free(at + 300, 0x10);
    AllocationRecord result =
        record(AllocationOperation::Allocate, at + 400, 0x20, 64, act);
    result.id = id;
    add(result);
    free(at + 800, 0x20);
    take(at + 700, 0x1000 + number, 3, kept);
  }
  file.end();
  TensorMemory memory = this->memory();
  EXPECT_EQ(memory.calls, 24u);
  EXPECT_EQ(memory.bytes, 8u * (16 + 64 + 3));
  EXPECT_EQ(memory.churnBytes, 8u * (16 + 64));
  EXPECT_EQ(memory.scratchBytes, 8u * 16);
  EXPECT_EQ(memory.growthBytesPerStep, 3u);
  EXPECT_EQ(site(memory, "Net.act").op, "aten::mm");
  EXPECT_EQ(site(memory, "Net.act").growthBytesPerStep, 0u);
  EXPECT_EQ(site(memory, "Net.act").scratchBytes, 8u * 16);
  EXPECT_EQ(site(memory, "Net.kept").growthBytesPerStep, 3u);
  EXPECT_EQ(site(memory, "Net.kept").op, "");
}

TEST_F(AllocationsTest, WhatFillsUpOrIsCollectedDoesNotGrow) {
  uint32_t cache = place("cache", 1), cycle = place("cycle", 2),
           late = place("late", 3);
  for (uint64_t number = 0; number < 12; ++number) {
    uint64_t at = 1'000'000 * (number + 1);
    step(number, at, at + 900'000);
    if (number < 6)
      take(at + 10, 0x1000 + number, 100, cache);
    take(at + 20, 0x2000 + number, 100, cycle);
    // The collector of garbage.
    if (number % 4 == 3)
      for (uint64_t of = number - 3; of <= number; ++of)
        free(at + 30, 0x2000 + of);
    if (number > 8)
      take(at + 40, 0x3000 + number, 100, late);
  }
  file.end();
  TensorMemory memory = this->memory();
  EXPECT_EQ(memory.growthBytesPerStep, 0u);
}

/// A program of several threads, and what a plain count of it gives.
TEST_F(AllocationsTest, RandomProgramsAddUp) {
  std::mt19937 random(7);
  auto below = [&](uint32_t n) { return uint32_t(random() % n); };
  for (int turn = 0; turn < 20; ++turn) {
    file = CaptureFileBuilder();
    file.meta("recorder", "opprof observer");
    places = 0;
    constexpr uint32_t kSites = 5;
    for (uint32_t at = 0; at < kSites; ++at)
      place("m" + std::to_string(at), at + 1);
    std::map<uint64_t, std::pair<uint64_t, uint32_t>> live;
    std::vector<std::vector<AllocationRecord>> threads(3);
    uint64_t held = 0, peak = 0, time = 1000, unwritten = 0;
    std::map<uint32_t, uint64_t> now, atPeak;
    auto flush = [&] {
      // Whichever comes first.
      std::shuffle(threads.begin(), threads.end(), random);
      for (std::vector<AllocationRecord> &thread : threads) {
        for (const AllocationRecord &r : thread)
          add(r);
        thread.clear();
      }
      written(time);
    };
    for (int event = 0; event < 600; ++event) {
      time += 1 + below(5);
      uint64_t address = 0x100 + below(60);
      std::vector<AllocationRecord> &thread = threads[below(threads.size())];
      if (auto it = live.find(address); it != live.end()) {
        held -= it->second.first;
        now[it->second.second] -= it->second.first;
        live.erase(it);
        thread.push_back(record(AllocationOperation::Free, time, address));
      } else {
        uint64_t bytes = 1 + below(1000);
        uint32_t where = below(kSites);
        live[address] = {bytes, where};
        held += bytes;
        now[where] += bytes;
        thread.push_back(
            record(AllocationOperation::Allocate, time, address, bytes, where));
        if (held > peak) {
          peak = held;
          atPeak = now;
        }
      }
      if (++unwritten > 50 && below(10) == 0) {
        ++time;
        flush();
        unwritten = 0;
      }
    }
    flush();
    file.end();
    TensorMemory memory = this->memory();
    EXPECT_EQ(memory.peakBytes, peak);
    EXPECT_EQ(memory.endBytes, held);
    for (const auto &[where, bytes] : atPeak)
      if (bytes)
        EXPECT_EQ(site(memory, "m" + std::to_string(where)).peakBytes, bytes);
  }
}

TEST_F(AllocationsTest, NoSumOverflows) {
  for (uint64_t at = 0; at < 100; ++at)
    take(1000 + at, at, ~uint64_t(0) - at);
  AllocationRecord held =
      record(AllocationOperation::Held, 1050, 0, ~uint64_t(0));
  held.deviceType = 20;
  add(held);
  for (uint64_t at = 0; at < 100; ++at)
    free(2000 + at, at, ~uint64_t(0));
  file.end();
  TensorMemory memory = this->memory();
  EXPECT_EQ(memory.peakBytes, uint64_t(1) << 62);
  EXPECT_EQ(memory.endBytes, 0u);
}
