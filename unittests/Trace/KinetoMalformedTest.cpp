// Traces that are damaged, or not traces. Every error names the file, the event
// and what is wrong with it; odd but lawful traces are read to the nanosecond.

#include "opprof/Join/Attribution.h"
#include "opprof/Trace/Microseconds.h"
#include "opprof/Trace/Reader.h"

#include "llvm/ADT/Twine.h"
#include "gtest/gtest.h"

#include <libdeflate.h>

using namespace llvm;
using namespace opprof;
using namespace opprof::join;
using namespace opprof::profile;
using namespace opprof::trace;

namespace {

/// A member of a gzip file.
std::string gzip(StringRef text) {
  libdeflate_compressor *compressor = libdeflate_alloc_compressor(9);
  std::string out(libdeflate_gzip_compress_bound(compressor, text.size()), 0);
  out.resize(libdeflate_gzip_compress(compressor, text.data(), text.size(),
                                      out.data(), out.size()));
  libdeflate_free_compressor(compressor);
  return out;
}

/// A kernel with `keys` in place of what is usual.
std::string event(StringRef keys) {
  return ("{\"ph\": \"X\", \"cat\": \"kernel\", \"pid\": 0, \"tid\": 7, " +
          keys + "}")
      .str();
}

std::string trace(const Twine &events) {
  return ("{\"schemaVersion\": 1, \"traceEvents\": [" + events + "]}").str();
}

/// A whole, small trace.
std::string wholeTrace() {
  return trace(event("\"name\": \"k\", \"ts\": 1.5, \"dur\": 2.25"));
}

std::string errorOf(StringRef text, const ReadOptions &options = {}) {
  Expected<std::unique_ptr<Trace>> read = readTrace({text, "t.json"}, options);
  if (read)
    return "";
  return toString(read.takeError());
}

std::unique_ptr<Trace> readWhole(StringRef text) {
  Expected<std::unique_ptr<Trace>> read = readTrace({text, "t.json"});
  if (!read) {
    ADD_FAILURE() << toString(read.takeError());
    return std::make_unique<Trace>();
  }
  return std::move(*read);
}

#define EXPECT_ERROR(text, part)                                               \
  do {                                                                         \
    std::string message = errorOf(text);                                       \
    EXPECT_TRUE(StringRef(message).starts_with("t.json: ")) << message;        \
    EXPECT_NE(message.find(part), std::string::npos) << message;               \
  } while (false)

//===----------------------------------------------------------------------===//
// Pieces
//===----------------------------------------------------------------------===//

/// What of a trace pieces could change.
std::string describe(StringRef text, size_t pieceBytes) {
  Expected<std::unique_ptr<Trace>> read =
      readTrace({text, "t.json"}, {.pieceBytes = pieceBytes});
  if (!read)
    return toString(read.takeError());
  const Trace &trace = **read;
  std::string all = std::to_string(trace.events);
  for (const TraceActivity &activity : trace.activities)
    all += ("|" + activity.name + " " + Twine(activity.startNs) + " " +
            Twine(activity.durationNs))
               .str();
  for (const Device &device : trace.devices)
    all += "|" + device.name;
  all += "|" + std::to_string(trace.rank.value_or(-1));
  for (const std::string &note : trace.notes)
    all += "|" + note;
  return all;
}

TEST(KinetoPieces, EverySizeReadsTheSame) {
  std::string events;
  for (int number = 0; number < 40; ++number)
    events += (number ? ",\n  " : "") +
              event("\"name\": \"k{\\\"ph\\\", " + std::to_string(number) +
                    "\", \"ts\": " + std::to_string(number) +
                    ".25, \"dur\": 0.5, \"args\": {\"grid\": [1, 2, 3]}");
  std::string devices = "\"deviceProperties\": [{\"id\": 0, \"name\": \"d\"}]";
  std::string rank = "\"distributedInfo\": {\"rank\": 3}";
  std::string last = events;
  // An event without a name is lost wherever it stands.
  last.insert(last.find("\"name\"", last.size() / 2), "\"name\": 7, ");
  const std::string texts[] = {
      "{" + devices + ", \"traceEvents\": [" + events + "], " + rank + "}",
      "{" + rank + ", \"traceEvents\": [" + events + "]," + devices + "}",
      "\xEF\xBB\xBF[\n" + events + "\n]\n",
      "{\"traceEvents\": [" + events + "]",
      "{\"traceEvents\": [" + events.substr(0, events.size() / 2),
      "{\"traceEvents\": [" + last + "], " + devices + "}",
      "{\"traceEvents\": [" + events + "], \"traceEvents\": []}",
      "{\"traceEvents\": [" + events +
          "], \"more\": [{\"ph\": 1}, {\"ph\": 2}]}",
      "[" + events + "] [" + events + "]",
      "[]",
  };
  for (const std::string &text : texts) {
    std::string whole = describe(text, text.size());
    for (size_t size : {1u, 7u, 64u, 100u, 333u, 1000u, 4000u})
      EXPECT_EQ(describe(text, size), whole) << size << "\n" << text;
  }
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

TEST(KinetoMalformed, Empty) {
  EXPECT_ERROR("", "the file is empty");
  EXPECT_ERROR(" \n", "not valid JSON");
}

TEST(KinetoMalformed, EveryTruncationLeavesTheEventOrIsAnError) {
  std::string whole = wholeTrace();
  ASSERT_EQ(errorOf(whole), "");
  size_t end = whole.rfind("}]") + 1;
  for (size_t length = 0; length < whole.size(); ++length) {
    StringRef cut = StringRef(whole).take_front(length);
    if (length < end)
      EXPECT_NE(errorOf(cut), "") << length;
    else
      EXPECT_EQ(readWhole(cut)->activities.size(), 1u) << length;
  }
}

TEST(KinetoMalformed, EveryTruncationOfGzipIsSaid) {
  std::string whole = gzip(wholeTrace());
  ASSERT_EQ(errorOf(whole), "");
  for (size_t length = 0; length < whole.size(); ++length) {
    StringRef cut = StringRef(whole).take_front(length);
    Expected<std::unique_ptr<Trace>> read = readTrace({cut, "t.json"});
    if (!read) {
      consumeError(read.takeError());
      continue;
    }
    ASSERT_FALSE((*read)->notes.empty()) << length;
    EXPECT_NE((*read)->notes.front().find("cut off"), std::string::npos);
  }
}

TEST(KinetoMalformed, OneBadEventCostsItself) {
  std::string good = event("\"name\": \"k\", \"ts\": 1, \"dur\": 1");
  std::unique_ptr<Trace> read = readWhole(
      trace(event("\"name\": \"bad\", \"ts\": NaN, \"dur\": 1") + "," + good));
  EXPECT_EQ(read->activities.size(), 1u);
  ASSERT_EQ(read->notes.size(), 1u);
  EXPECT_EQ(read->notes.front().find("1 event of 2 is damaged and left out: "
                                     "traceEvents[0] ('bad') has \"ts\""),
            0u)
      << read->notes.front();
}

TEST(KinetoMalformed, ABareArrayAndAMarkOfTheByteOrderAreRead) {
  std::string good = event("\"name\": \"k\", \"ts\": 1, \"dur\": 1");
  EXPECT_EQ(readWhole("[" + good + "]")->activities.size(), 1u);
  EXPECT_EQ(readWhole("\xEF\xBB\xBF" + trace(good))->activities.size(), 1u);
}

TEST(KinetoMalformed, DamagedGzipNamesTheMember) {
  std::string text = wholeTrace();
  std::string second = gzip(StringRef(text).drop_front(20));
  // Its first block is of no kind.
  second[10] |= 0x06;
  EXPECT_ERROR(gzip(StringRef(text).take_front(20)) + second, "in member 2");
}

TEST(KinetoMalformed, WhatFollowsGzipTakesNothingFromIt) {
  std::unique_ptr<Trace> read =
      readWhole(gzip(wholeTrace()) + std::string(700, 'x'));
  EXPECT_EQ(read->activities.size(), 1u);
  ASSERT_EQ(read->notes.size(), 1u);
  EXPECT_NE(read->notes.front().find("what comes before is read"),
            std::string::npos)
      << read->notes.front();
}

TEST(KinetoMalformed, MembersOfGzipAreJoined) {
  std::string text = wholeTrace();
  std::string members = gzip(StringRef(text).take_front(20)) +
                        gzip(StringRef(text).drop_front(20)) +
                        std::string(512, '\0');
  EXPECT_EQ(readWhole(members)->activities.size(), 1u);
}

TEST(KinetoMalformed, BombIsRefused) {
  std::string bomb = gzip(std::string(8u << 20, ' '));
  ASSERT_LT(bomb.size(), 20000u);
  ReadOptions options;
  options.limits.ratioFrom = 1u << 20;
  EXPECT_NE(errorOf(bomb, options).find("grows past"), std::string::npos);
  options.limits = {/*maxBytes=*/1u << 20, /*maxRatio=*/100000,
                    /*ratioFrom=*/1u << 20};
  EXPECT_NE(errorOf(bomb, options).find("grows past"), std::string::npos);
}

TEST(KinetoMalformed, TooLargeAFileIsRefused) {
  ReadOptions options;
  options.limits.maxBytes = 16;
  EXPECT_NE(errorOf(wholeTrace(), options).find("more than the 16"),
            std::string::npos);
}

TEST(KinetoMalformed, WrongKind) {
  EXPECT_ERROR("[]", "holds no event");
  EXPECT_ERROR("3", "no JSON object");
  EXPECT_ERROR("{\"version\": 1, \"kernels\": []}", "no \"traceEvents\"");
  EXPECT_ERROR("{\"traceEvents\": {}}", "must be an array");
  EXPECT_ERROR("{\"traceEvents\": [3]}", "traceEvents[0]");
  EXPECT_ERROR("{\"traceEvents\": [{}, []]}", "traceEvents[1]");
  EXPECT_ERROR("import torch\n", "no JSON object");
}

TEST(KinetoMalformed, FilesOfOtherToolsAreNamed) {
  EXPECT_ERROR(std::string("SQLite format 3\0\x10", 17), "SQLite");
  EXPECT_ERROR("NVR\x01", "a report of Nsight Compute");
  EXPECT_ERROR(gzip("\"ID\",\"Kernel Name\"\n"), "no kernel in the table");
  EXPECT_ERROR(std::string("PK\x03\x04\0\0\0", 7), "a zip archive");
}

TEST(KinetoMalformed, IdsThatNothingHasJoinNothing) {
  for (StringRef id : {"18446744073709551615", "18446744073709551614", "-1"}) {
    std::unique_ptr<Trace> read = readWhole(trace(
        "{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": "
        "\"cudaLaunchKernel\", \"pid\": 1, \"tid\": 1, \"ts\": 1, "
        "\"dur\": 1, \"args\": {\"correlation\": 5, \"External id\": 3}}, "
        "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::mm\", "
        "\"pid\": 1, \"tid\": 2, \"ts\": 0, \"dur\": 1, \"args\": "
        "{\"External id\": 3}}, " +
        event(("\"name\": \"k\", \"ts\": 3, \"dur\": 1, \"args\": "
               "{\"device\": 9223372036854775807, \"stream\": "
               "9223372036854775807, \"correlation\": " +
               id + ", \"External id\": " + id + "}")
                  .str())));
    std::unique_ptr<Profile> profile = attribute(*read, {});
    ASSERT_EQ(profile->kernels.size(), 1u);
    EXPECT_FALSE(profile->kernels[0].launchStartNs);
    EXPECT_EQ(profile->kernels[0].origin->hostOp, "");
  }
}

TEST(KinetoMalformed, TwoFilesInOne) {
  EXPECT_ERROR(wholeTrace() + wholeTrace(), "text follows the end");
  EXPECT_ERROR("{\"traceEvents\": [], \"traceEvents\": []}", "twice");
}

TEST(KinetoMalformed, DeepNestingEnds) {
  std::string deep(200000, '[');
  EXPECT_NE(errorOf("{\"traceEvents\": " + deep), "");
  EXPECT_NE(errorOf(trace(deep + std::string(200000, ']'))), "");
}

TEST(KinetoMalformed, TextThatIsNoUTF8) {
  std::string bad = event("\"name\": \"\xff\", \"ts\": 1, \"dur\": 1");
  EXPECT_ERROR(trace(bad), "not valid JSON");
  std::string good = event("\"name\": \"k\", \"ts\": 1, \"dur\": 1");
  EXPECT_EQ(readWhole(trace(bad + "," + good))->activities.size(), 1u);
}

//===----------------------------------------------------------------------===//
// Events
//===----------------------------------------------------------------------===//

TEST(KinetoMalformed, MissingKeys) {
  EXPECT_ERROR(trace(event("\"ts\": 1, \"dur\": 1")), "has no name");
  EXPECT_ERROR(trace(event("\"name\": \"k\", \"dur\": 1")),
               "('k') has no start");
  EXPECT_ERROR(trace(event("\"name\": \"k\", \"ts\": 1")),
               "('k') has no duration");
}

TEST(KinetoMalformed, NegativeDuration) {
  EXPECT_ERROR(trace(event("\"name\": \"k\", \"ts\": 1, \"dur\": -0.001")),
               "negative duration (-1 ns)");
}

TEST(KinetoMalformed, TimesThatAreNoNumbers) {
  for (StringRef bad : {"NaN", "Infinity", "-Infinity", "nan", "null", "true",
                        "\"x\"", "\"\"", "[]", "1.", ".5", "--1", "0x10",
                        "1e999", "1e", "99999999999999999999999"})
    EXPECT_NE(errorOf(trace(event(
                  ("\"name\": \"k\", \"dur\": 1, \"ts\": " + bad).str()))),
              "")
        << bad.str();
}

TEST(KinetoMalformed, TimesThatAreTexts) {
  std::unique_ptr<Trace> read = readWhole(
      trace(event("\"name\": \"k\", \"dur\": \"1\", \"ts\": \"1.5\"")));
  ASSERT_EQ(read->activities.size(), 1u);
  EXPECT_EQ(read->activities.front().startNs, 1500);
  EXPECT_EQ(read->activities.front().durationNs, 1000);
}

TEST(KinetoMalformed, Duplicates) {
  EXPECT_ERROR(
      trace(event("\"name\": \"k\", \"ts\": 1, \"ts\": 2, \"dur\": 1")),
      "states \"ts\" twice");
  EXPECT_ERROR(
      trace(event("\"name\": \"k\", \"name\": \"l\", \"ts\": 2, \"dur\": 1")),
      "states \"name\" twice");
}

TEST(KinetoMalformed, DurationsThatOverflowTheirSum) {
  std::string huge = event("\"name\": \"k\", \"ts\": 0, \"dur\": 2e15");
  std::string events = huge;
  for (int i = 0; i < 8; ++i)
    events += "," + huge;
  // Those that are left out are said.
  std::unique_ptr<Trace> read = readWhole(trace(events));
  EXPECT_EQ(read->activities.size(), 1u);
  ASSERT_EQ(read->notes.size(), 1u);
  EXPECT_NE(read->notes.front().find("add up to more than"), std::string::npos);
}

TEST(KinetoMalformed, EventsWithoutInterestMayBeOdd) {
  // Metadata and flows have no times; their oddities are no one's business.
  std::string text = trace("{\"ph\": \"M\", \"name\": \"process_name\"},"
                           "{\"ph\": \"s\", \"cat\": \"ac2g\", \"dur\": -5},"
                           "{\"ph\": \"X\", \"cat\": \"overhead\", \"name\": "
                           "\"x\", \"dur\": null}," +
                           event("\"name\": \"k\", \"ts\": 1, \"dur\": 1"));
  std::unique_ptr<Trace> read = readWhole(text);
  EXPECT_EQ(read->activities.size(), 1u);
  EXPECT_EQ(read->events, 4u);
}

TEST(KinetoMalformed, OptionalArgumentsOfAnotherTypeAreUnknown) {
  std::unique_ptr<Trace> read = readWhole(trace(event(
      "\"name\": \"k\", \"ts\": 1, \"dur\": 1, \"args\": {"
      "\"correlation\": \"seven\", \"stream\": 3.5, \"grid\": [1, \"x\", 2],"
      "\"block\": [1, 2, 3, 4], \"registers per thread\": -1,"
      "\"est. achieved occupancy %\": NaN, \"warps per SM\": {}}")));
  ASSERT_EQ(read->activities.size(), 1u);
  const TraceActivity &activity = read->activities.front();
  EXPECT_FALSE(activity.correlation);
  EXPECT_FALSE(activity.stream);
  EXPECT_FALSE(activity.config->grid);
  EXPECT_FALSE(activity.config->block);
  EXPECT_FALSE(activity.config->registers);
  EXPECT_FALSE(activity.config->occupancyPct);
  EXPECT_FALSE(activity.config->warpsPerSM);
}

TEST(KinetoMalformed, ZeroIsNoCorrelation) {
  std::unique_ptr<Trace> read = readWhole(
      trace(event("\"name\": \"k\", \"ts\": 1, \"dur\": 1, \"args\": {"
                  "\"correlation\": 0, \"External id\": 0}")));
  EXPECT_FALSE(read->activities.front().correlation);
  EXPECT_FALSE(read->activities.front().externalId);
}

TEST(KinetoMalformed, WhatADeviceRanIsKeptUnderAnyName) {
  auto ran = [](const std::string &category) {
    return "{\"ph\": \"X\", \"cat\": \"" + category +
           "\", \"name\": \"x\", \"ts\": 1, \"dur\": 1, \"pid\": 0, "
           "\"tid\": 7},";
  };
  std::unique_ptr<Trace> read =
      readWhole(trace(ran("kernel") + ran("gpu_memcpy") + ran("gpu_memset") +
                      ran("Kernel") + ran("Memcpy") + ran("Memset") +
                      event("\"name\": \"k\", \"ts\": 1, \"dur\": 1")));
  std::array<unsigned, 3> kinds{};
  for (const TraceActivity &activity : read->activities)
    ++kinds[size_t(activity.kind)];
  EXPECT_EQ(kinds[size_t(ActivityKind::Kernel)], 3u);
  EXPECT_EQ(kinds[size_t(ActivityKind::Memcpy)], 2u);
  EXPECT_EQ(kinds[size_t(ActivityKind::Memset)], 2u);
}

//===----------------------------------------------------------------------===//
// Nanoseconds
//===----------------------------------------------------------------------===//

TEST(KinetoTimes, ExactDecimalMicroseconds) {
  auto parse = [](StringRef text) {
    bool rounded = false;
    std::optional<int64_t> value = parseMicroseconds(text, rounded);
    EXPECT_FALSE(rounded) << text.str();
    return value;
  };
  // A double has no room for these.
  EXPECT_EQ(parse("4350987385452.134"), 4350987385452134);
  EXPECT_EQ(parse("1790857026000000.001"), 1790857026000000001);
  EXPECT_EQ(parse("0.001"), 1);
  EXPECT_EQ(parse("7"), 7000);
  EXPECT_EQ(parse("-1.5"), -1500);
  EXPECT_EQ(parse("1.25e3"), 1250000);
  EXPECT_EQ(parse("1500E-3"), 1500);
  EXPECT_EQ(parse("2E-3"), 2);
  EXPECT_EQ(parse("0e400"), 0);
  EXPECT_EQ(parse("1.2340"), 1234);
}

TEST(KinetoTimes, DigitsBelowTheNanosecondAreRoundedAndCounted) {
  auto parse = [](StringRef text) {
    bool rounded = false;
    std::optional<int64_t> value = parseMicroseconds(text, rounded);
    EXPECT_TRUE(rounded) << text.str();
    return value;
  };
  EXPECT_EQ(parse("1.2344"), 1234);
  EXPECT_EQ(parse("1.2345"), 1235);
  EXPECT_EQ(parse("-1.2345"), -1235);
  EXPECT_EQ(parse("0.0004"), 0);
  EXPECT_EQ(parse("4e-5"), 0);
  std::unique_ptr<Trace> read = readWhole(
      trace(event("\"name\": \"k\", \"ts\": 1.0001, \"dur\": 1.0001")));
  EXPECT_EQ(read->rounded, 2u);
}

//===----------------------------------------------------------------------===//
// Lawful traces that don't fit the launches
//===----------------------------------------------------------------------===//

/// A call of a compiled graph that runs `ops` ("name" or "name=hash"), each
/// with one kernel.
std::string callOf(ArrayRef<StringRef> ops) {
  std::string events =
      "{\"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"## Call "
      "CompiledFxGraph None ##\", \"pid\": 1, \"tid\": 1, \"ts\": 0, \"dur\": "
      "1000}";
  int64_t id = 1;
  for (StringRef op : ops) {
    auto [name, hash] = op.split('=');
    std::string at = std::to_string(10 * id), number = std::to_string(id);
    events +=
        ",{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"" + name.str() +
        "\", \"pid\": 1, \"tid\": 1, \"ts\": " + at +
        ", \"dur\": 5, \"args\": {\"External id\": " + number +
        (hash.empty() ? "" : ", \"kernel_hash\": \"" + hash.str() + "\"") +
        "}}";
    events += ",{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": "
              "\"cudaLaunchKernel\", \"pid\": 1, \"tid\": 1, \"ts\": " +
              at + ".5, \"dur\": 1, \"args\": {\"correlation\": " + number +
              ", \"External id\": " + number + "}}";
    events +=
        "," + event("\"name\": \"k" + number + "\", \"ts\": " + at +
                    ".9, \"dur\": 2, \"args\": {\"correlation\": " + number +
                    ", \"External id\": " + number + "}");
    ++id;
  }
  return trace(events);
}

launch::LaunchMap mapOf(ArrayRef<StringRef> launches) {
  launch::LaunchMap map;
  map.graph = "model";
  for (StringRef entry : launches) {
    auto [name, hash] = entry.split('=');
    launch::Launch &launch = map.launches.emplace_back();
    launch.index = map.launches.size() - 1;
    launch.file = "output_code.py";
    launch.kernel = name.str();
    launch.kernelHash = hash.str();
    launch.kind =
        hash.empty() ? launch::LaunchKind::Extern : launch::LaunchKind::Triton;
    launch.nodes.emplace_back().name = "n" + std::to_string(launch.index);
  }
  return map;
}

std::unique_ptr<Profile> attributeTo(StringRef text,
                                     const launch::LaunchMap &map) {
  std::unique_ptr<Trace> trace = readWhole(text);
  AttributionInputs inputs;
  inputs.maps = ArrayRef(map);
  return attribute(*trace, inputs);
}

TEST(KinetoWrongModel, OwnLaunchesJoin) {
  std::unique_ptr<Profile> profile = attributeTo(
      callOf({"aten::mm", "triton_poi_fused_relu_0=c1", "aten::mm"}),
      mapOf({"extern_kernels.mm", "triton_poi_fused_relu_0=c1",
             "extern_kernels.mm"}));
  ASSERT_EQ(profile->kernels.size(), 3u);
  EXPECT_EQ(profile->summary.attributedNs[0], 6000);
}

TEST(KinetoWrongModel, GeneratedKernelsOfAnotherCompilation) {
  // Library calls look alike in every model: they prove nothing where no
  // generated kernel is the graph's own.
  std::unique_ptr<Profile> profile = attributeTo(
      callOf({"aten::mm", "triton_poi_fused_relu_0=c1", "aten::mm"}),
      mapOf({"extern_kernels.mm", "triton_poi_fused_gelu_0=c2",
             "extern_kernels.mm"}));
  ASSERT_EQ(profile->kernels.size(), 3u);
  for (const Activity &kernel : profile->kernels) {
    EXPECT_EQ(kernel.confidence, Confidence::Unattributed);
    EXPECT_TRUE(kernel.origin->nodes.empty());
    EXPECT_NE(kernel.origin->explanation.find("none of the launch maps fits"),
              StringRef::npos)
        << kernel.origin->explanation.str();
  }
  EXPECT_EQ(profile->summary.attributedNs[3], 6000);
}

TEST(KinetoWrongModel, FewOfManyOperators) {
  std::unique_ptr<Profile> profile =
      attributeTo(callOf({"aten::mm", "aten::bmm", "aten::convolution",
                          "aten::bmm", "aten::cumsum"}),
                  mapOf({"extern_kernels.mm", "extern_kernels.addmm"}));
  EXPECT_EQ(profile->summary.attributedNs[0], 0);
  EXPECT_EQ(profile->summary.attributedNs[3], 10000);
}

TEST(KinetoWrongModel, NoLaunchesAtAll) {
  std::unique_ptr<Profile> profile =
      attributeTo(callOf({"aten::mm"}), mapOf({}));
  ASSERT_EQ(profile->kernels.size(), 1u);
  EXPECT_EQ(profile->kernels.front().origin->method, "none");
}

} // namespace
