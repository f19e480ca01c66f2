// Damaged and foreign capture files. Every file ends in records or in an error
// with its place; none crashes, hangs or takes memory that the file does not
// hold.

#include "opprof/Capture/CaptureReader.h"
#include "CaptureFileBuilder.h"

#include "gtest/gtest.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <tuple>
#include <unistd.h>

using namespace opprof::capture;

/// A file with a name, two kernels and a proper end.
static std::string goodFile() {
  std::string file = fileHeader();
  appendChunk(file, ChunkType::Strings, 1, 0, stringRecord(0, "gemm"));
  KernelRecord kernel{};
  kernel.start = 100;
  kernel.end = 350;
  kernel.correlation = 7;
  std::string two = bytesOf(kernel);
  kernel.correlation = 8;
  two += bytesOf(kernel);
  appendChunk(file, ChunkType::Kernels, 2, sizeof(kernel), two);
  appendChunk(file, ChunkType::End, 1, sizeof(EndRecord),
              bytesOf(EndRecord{2, 0, 2, 400}));
  return file;
}

namespace {
struct Kernels : CaptureVisitor {
  void kernel(const KernelRecord &k) override {
    ++Count;
    Time += k.end - k.start;
  }
  uint64_t Count = 0, Time = 0;
};

struct Outcome {
  bool Good;
  std::string Error;
  Kernels Seen;
  CaptureSummary Summary;
};

} // namespace

static Outcome readBytes(const std::string &bytes) {
  CaptureReader reader;
  Outcome outcome;
  outcome.Good = reader.readBuffer(bytes, "test.opcap", outcome.Seen);
  outcome.Error = reader.error();
  outcome.Summary = reader.summary();
  return outcome;
}

namespace {
TEST(CaptureReaderTest, ReadsWhatIsThere) {
  Outcome o = readBytes(goodFile());
  EXPECT_TRUE(o.Good) << o.Error;
  EXPECT_EQ(o.Seen.Count, 2u);
  EXPECT_EQ(o.Seen.Time, 500u);
  EXPECT_TRUE(o.Summary.complete);
  EXPECT_EQ(o.Summary.ignoredTailBytes, 0u);
}

TEST(CaptureReaderTest, EveryCutIsAFileOrAnError) {
  std::string file = goodFile();
  for (size_t size = 0; size < file.size(); ++size) {
    Outcome o = readBytes(file.substr(0, size));
    // After the header a cut is what a killed program leaves.
    EXPECT_EQ(o.Good, size >= sizeof(FileHeader)) << "cut at " << size;
    EXPECT_FALSE(o.Summary.complete);
    if (!o.Good) {
      EXPECT_NE(o.Error.find("test.opcap: at byte"), std::string::npos);
    }
  }
  EXPECT_NE(readBytes("").Error.find("empty"), std::string::npos);
}

TEST(CaptureReaderTest, AFlippedBitIsFoundWithItsPlace) {
  std::string file = goodFile();
  for (size_t at = sizeof(FileHeader); at < file.size(); ++at) {
    std::string damaged = file;
    damaged[at] ^= 1;
    Outcome o = readBytes(damaged);
    // Padding is not covered; everything else is.
    if (o.Good && o.Summary.ignoredTailBytes == 0) {
      EXPECT_EQ(o.Seen.Count, 2u) << "byte " << at;
      continue;
    }
    if (!o.Good) {
      EXPECT_NE(o.Error.find("at byte"), std::string::npos);
    }
  }
}

TEST(CaptureReaderTest, RefusesOtherFilesAndVersions) {
  EXPECT_NE(readBytes("{\"traceEvents\": []} and more bytes than a header has")
                .Error.find("not a capture file"),
            std::string::npos);
  std::string file = goodFile();
  file[8] = 9;
  EXPECT_NE(readBytes(file).Error.find("version 9"), std::string::npos);
}

TEST(CaptureReaderTest, RefusesAbsurdSizes) {
  std::string file = fileHeader();
  ChunkHeader header{kChunkMagic, 3, 0xffffffffu, 1, 8, 0};
  file += bytesOf(header);
  EXPECT_NE(readBytes(file).Error.find("claims 4294967295 bytes"),
            std::string::npos);
  // A size within bounds that the file does not hold takes no memory for it.
  header.size = kMaxChunkBytes;
  Outcome o = readBytes(fileHeader() + bytesOf(header));
  EXPECT_TRUE(o.Good);
  EXPECT_EQ(o.Summary.ignoredTailBytes, sizeof(header));
}

TEST(CaptureReaderTest, RefusesCountsThatDoNotAddUp) {
  for (auto [count, record] : {std::pair(3u, 112u), {2u, 8u}, {2u, 0u}}) {
    std::string file = fileHeader();
    appendChunk(file, ChunkType::Kernels, count, record,
                std::string(2 * sizeof(KernelRecord), 0));
    EXPECT_FALSE(readBytes(file).Good);
  }
  std::string file = fileHeader();
  appendChunk(file, ChunkType::Strings, 1, 0, stringRecord(5, "sparse"));
  EXPECT_FALSE(readBytes(file).Good);
  file = fileHeader();
  appendChunk(file, ChunkType::Strings, 1, 0,
              bytesOf(0u) + bytesOf(0xfffffff0u) + "short");
  EXPECT_FALSE(readBytes(file).Good);
  file = fileHeader();
  appendChunk(file, ChunkType::Meta, 1, 0,
              bytesOf(0xffffffffu) + bytesOf(0xffffffffu));
  EXPECT_FALSE(readBytes(file).Good);
  file = fileHeader();
  CounterRowHeader row{};
  row.metrics = 0x40000000;
  appendChunk(file, ChunkType::Counters, 1, 0, bytesOf(row));
  EXPECT_FALSE(readBytes(file).Good);
  file = fileHeader();
  CounterSetHeader set{};
  set.metrics = 0xffffffff;
  appendChunk(file, ChunkType::CounterSets, 1, 0, bytesOf(set));
  EXPECT_FALSE(readBytes(file).Good);
}

TEST(CaptureReaderTest, LaterVersionsMayAddFieldsAndChunks) {
  std::string file = fileHeader();
  KernelRecord kernel{};
  kernel.end = 10;
  appendChunk(file, ChunkType::Kernels, 1, sizeof(kernel) + 8,
              bytesOf(kernel) + std::string(8, 'x'));
  appendChunk(file, ChunkType(999), 1, 4, "abcd");
  Outcome o = readBytes(file);
  EXPECT_TRUE(o.Good) << o.Error;
  EXPECT_EQ(o.Seen.Time, 10u);
  EXPECT_EQ(o.Summary.unknownChunks, 1u);
}

TEST(CaptureReaderTest, RandomBytesNeverCrash) {
  std::mt19937 random(7);
  std::string file = goodFile();
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = file;
    for (int flips = 0; flips < 4; ++flips)
      damaged[random() % damaged.size()] = char(random());
    readBytes(damaged);
  }
}

/// Files in a folder of their own.
class RankMeasuresTest : public ::testing::Test {
protected:
  RankMeasuresTest()
      : folder(std::filesystem::temp_directory_path() /
               ("opprof-merge-" + std::to_string(::getpid()))) {
    std::filesystem::create_directory(folder);
  }
  ~RankMeasuresTest() override { std::filesystem::remove_all(folder); }

  std::string path(const std::string &name) { return (folder / name).string(); }
  std::string text(const std::string &name) {
    std::ifstream file(folder / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  /// A rank with kernels of (name, start, end), whose clock shows 1000 when it
  /// is `realtime`.
  RankCapture
  rank(uint32_t number, uint64_t realtime,
       std::vector<std::tuple<std::string, uint64_t, uint64_t>> kernels) {
    CaptureFileBuilder file;
    if (realtime)
      file.add(ChunkType::Clocks, ClockRecord{1000, realtime, 5});
    for (auto &[name, start, end] : kernels) {
      KernelRecord kernel{};
      kernel.name = file.string(name);
      kernel.start = start;
      kernel.end = end;
      file.add(ChunkType::Kernels, kernel);
    }
    file.end();
    std::string name = "rank" + std::to_string(number) + ".opcap";
    std::ofstream(folder / name, std::ios::binary) << file.bytes;
    return {path(name), number};
  }

  std::filesystem::path folder;
  std::string error;
};

TEST_F(RankMeasuresTest, CommunicationIsExposedWhereNoKernelCoversIt) {
  // The all-reduce of 3000 … 4000 is covered from 2500 to 3200 and from 3900;
  // kernels come in any order, and what overlaps counts once.
  std::vector<RankCapture> ranks = {
      rank(0, 1'000'000,
           {{"gemm", 3900, 4500},
            {"ncclDevKernel_AllReduce", 3000, 4000},
            {"gemm", 2000, 3000},
            {"gemm", 2500, 3200},
            {"NCCLkernel", 6000, 6010}}),
      rank(3, 1'000'500, {{"ncclDevKernel_AllReduce", 900, 800}})};
  ASSERT_TRUE(measureRanks(ranks, path("m.json"), error)) << error;
  std::string measures = text("m.json");
  EXPECT_NE(measures.find("\"kernels\": 5, \"compute_ns\": 1800, "
                          "\"communication_ns\": 1010, \"exposed_ns\": 710"),
            std::string::npos)
      << measures;
  EXPECT_NE(measures.find("\"names\": [\"ncclDevKernel_AllReduce\", "
                          "\"NCCLkernel\"],\n \"collectives\": [\n  [0, 2000, "
                          "3000],\n  [1, 5000, 5010]]"),
            std::string::npos)
      << measures;
  // One that has no end is 0 long, and its clock is 500 ns later.
  EXPECT_NE(measures.find("\"exposed_ns\": 0,"), std::string::npos);
  EXPECT_NE(measures.find("[0, 400, 400]"), std::string::npos) << measures;
}

TEST_F(RankMeasuresTest, NamesAreUTF8WhateverTheyWere) {
  ASSERT_TRUE(measureRanks(
      {rank(0, 1'000'000,
            {{"nccl µ \xe5\xb1\x82 \xf0\x9f\x99\x82 \"a\\\n", 1000, 1001},
             {"nccl\xff|\xc3|\xc0\x80|\xed\xa0\x80|\xf4\x90\x80\x80", 1000,
              1001}})},
      path("m.json"), error))
      << error;
  std::string measures = text("m.json");
  EXPECT_NE(measures.find(
                "\"nccl µ \xe5\xb1\x82 \xf0\x9f\x99\x82 \\\"a\\\\\\u000a\""),
            std::string::npos)
      << measures;
  std::string bad = "\\ufffd";
  EXPECT_NE(measures.find("\"nccl" + bad + "|" + bad + "|" + bad + bad + "|" +
                          bad + bad + bad + "|" + bad + bad + bad + bad + "\""),
            std::string::npos)
      << measures;
}

TEST_F(RankMeasuresTest, AClockMayBeBehindTheFirst) {
  ASSERT_TRUE(measureRanks({rank(0, 1'000'000, {{"nccl", 1000, 1001}}),
                            rank(1, 990'000, {{"nccl", 1000, 1001}})},
                           path("m.json"), error))
      << error;
  EXPECT_NE(text("m.json").find("[0, -10000, -9999]"), std::string::npos)
      << text("m.json");
}

TEST_F(RankMeasuresTest, AFailureNamesTheFileAndLeavesNothing) {
  RankCapture good = rank(0, 1'000'000, {{"a", 1000, 1001}});
  for (uint64_t realtime : {uint64_t(0), ~uint64_t(0)}) {
    EXPECT_FALSE(measureRanks({good, rank(1, realtime, {{"a", 1, 2}})},
                              path("m.json"), error));
    EXPECT_NE(error.find("rank1.opcap: holds no clock"), std::string::npos);
  }
  EXPECT_FALSE(
      measureRanks({good, {path("none.opcap"), 1}}, path("m.json"), error));
  EXPECT_NE(error.find("none.opcap: cannot be opened"), std::string::npos);
  EXPECT_FALSE(measureRanks({good}, path("none/m.json"), error));
  EXPECT_NE(error.find("cannot be written"), std::string::npos);
  size_t files = 0;
  for (auto &entry : std::filesystem::directory_iterator(folder))
    files += entry.path().extension() != ".opcap";
  EXPECT_EQ(files, 0u);
}
} // namespace
