// Captures as Chrome traces. Prints a capture with the keys that Kineto uses,
// so that every reader of torch.profiler's traces (opprof's own, Perfetto)
// takes captures too.

#include "ChromeTrace.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <map>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>

using namespace opprof::capture;

/// How many bytes the character at the beginning of `text` has; 0 where it is
/// not UTF-8.
static size_t characterSize(std::string_view text) {
  unsigned char first = text[0];
  size_t size = first < 0x80             ? 1
                : (first & 0xe0) == 0xc0 ? 2
                : (first & 0xf0) == 0xe0 ? 3
                : (first & 0xf8) == 0xf0 ? 4
                                         : 0;
  if (!size || size > text.size())
    return 0;
  uint32_t code = size == 1 ? first : first & (0x7fu >> size);
  for (char c : text.substr(1, size - 1)) {
    if ((c & 0xc0) != 0x80)
      return 0;
    code = code << 6 | (c & 0x3f);
  }
  static constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  bool surrogate = code >= 0xd800 && code < 0xe000;
  return code < kSmallest[size] || surrogate || code > 0x10ffff ? 0 : size;
}

std::string opprof::capture::quoted(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    size_t size = characterSize(text);
    unsigned char c = text[0];
    if (!size) {
      out += "\\ufffd";
      size = 1;
    } else if (c < 0x20) {
      char buffer[8];
      std::snprintf(buffer, sizeof(buffer), "\\u%04x", c);
      out += buffer;
    } else {
      if (c == '"' || c == '\\')
        out += '\\';
      out += text.substr(0, size);
    }
    text.remove_prefix(size);
  }
  return out + '"';
}

/// Microseconds with the nanoseconds kept, as Kineto prints them.
static std::string micros(uint64_t ns, bool negative = false) {
  char buffer[40];
  std::snprintf(buffer, sizeof(buffer), "%s%llu.%03llu", negative ? "-" : "",
                (unsigned long long)(ns / 1000),
                (unsigned long long)(ns % 1000));
  return buffer;
}

namespace {
/// Second reading: prints each record as it comes.
class Printer : public CaptureVisitor {
public:
  Printer(CaptureReader &reader, const CaptureJoins &joins,
          const TracePlace &place, std::FILE *out, bool first)
      : First(first), Reader(reader), J(joins), Place(place), Out(out) {}

  void kernel(const KernelRecord &r) override {
    std::string args = common(r.device, r.context, r.stream, r.correlation,
                              r.graph, r.graphNode);
    args +=
        ", \"grid\": [" + list(r.grid) + "], \"block\": [" + list(r.block) +
        "], \"registers per thread\": " + std::to_string(r.registers) +
        ", \"shared memory\": " +
        std::to_string(uint64_t(r.staticShared) + r.dynamicShared) +
        ", \"local memory per thread\": " + std::to_string(r.localPerThread);
    auto it = J.Devices.find(r.device);
    if (it != J.Devices.end() && it->second.first.smCount) {
      double blocks = double(r.grid[0]) * r.grid[1] * r.grid[2];
      double threads = double(r.block[0]) * r.block[1] * r.block[2];
      char buffer[96];
      std::snprintf(buffer, sizeof(buffer),
                    ", \"blocks per SM\": %.6g, \"warps per SM\": %.6g",
                    blocks / it->second.first.smCount,
                    blocks * std::ceil(threads / 32) /
                        it->second.first.smCount);
      args += buffer;
    }
    // A step repeats few kernels, and names in C++ are long.
    auto [name, added] = KernelNames.try_emplace(r.name);
    if (added)
      name->second = demangled(std::string(Reader.string(r.name)));
    event("kernel", name->second, r.start, r.end, r.device, r.stream, args);
  }

  void memcpy(const MemcpyRecord &r) override {
    std::string args = common(r.device, r.context, r.stream, r.correlation,
                              r.graph, r.graphNode) +
                       ", \"bytes\": " + std::to_string(r.bytes);
    event("gpu_memcpy", copyName(r), r.start, r.end, r.device, r.stream, args);
  }

  void memset(const MemsetRecord &r) override {
    std::string args = common(r.device, r.context, r.stream, r.correlation,
                              r.graph, r.graphNode) +
                       ", \"bytes\": " + std::to_string(r.bytes);
    event("gpu_memset", memsetName(r), r.start, r.end, r.device, r.stream,
          args);
  }

  void api(const ApiRecord &r) override {
    std::string args = "\"cbid\": " + std::to_string(r.cbid) +
                       ", \"correlation\": " + std::to_string(r.correlation);
    appendId(args, r.correlation, 0);
    event(r.domain ? "cuda_runtime" : "cuda_driver",
          J.apiNameOf(r.domain, r.cbid), r.start, r.end, r.process, r.thread,
          args);
  }

  void sync(const SyncRecord &r) override {
    static const char *names[] = {"Unknown Sync", "Event Sync",
                                  "Stream Wait Event", "Stream Sync",
                                  "Context Sync"};
    std::string args = "\"correlation\": " + std::to_string(r.correlation);
    if (r.stream != kNone)
      args += ", \"stream\": " + std::to_string(r.stream);
    event("cuda_sync", names[r.type < 5 ? r.type : 0], r.start, r.end, 0,
          r.stream == kNone ? 0 : r.stream, args);
  }

  void overhead(const OverheadRecord &r) override {
    event("overhead", "CUPTI " + overheadName(r.kind), r.start, r.end,
          process(), r.thread, "\"kind\": " + std::to_string(r.kind));
  }

  void marker(const MarkerRecord &r) override {
    if (r.flags & 2) {
      OpenMarkers[r.id] = r;
    } else if (r.flags & 4) {
      auto it = OpenMarkers.find(r.id);
      if (it == OpenMarkers.end())
        return;
      event("user_annotation", Reader.string(it->second.name), it->second.time,
            r.time, process(), it->second.thread,
            "\"marker\": " + std::to_string(r.id));
      OpenMarkers.erase(it);
    }
  }

  void mark(const MarkRecord &r) override {
    if (r.kind == 1) {
      OpenSteps[r.value] = r;
    } else if (r.kind == 2) {
      auto it = OpenSteps.find(r.value);
      if (it == OpenSteps.end())
        return;
      event("user_annotation",
            Reader.string(r.name) == kWarmUpStep
                ? std::string(kWarmUpStep)
                : "ProfilerStep#" + std::to_string(r.value),
            it->second.time, r.time, process(), it->second.thread,
            "\"step\": " + std::to_string(r.value));
      OpenSteps.erase(it);
    }
  }

  bool First;

private:
  /// A time on the trace's clock; one of another machine may lie before it.
  std::string at(uint64_t time) const {
    uint64_t shifted = time + uint64_t(Place.shift);
    bool negative = Place.shift < 0 && shifted > time;
    return micros(negative ? uint64_t(0) - shifted : shifted, negative);
  }
  uint64_t process() const { return J.metaNumber("pid").value_or(0); }

  static std::string list(const int32_t (&v)[3]) {
    return std::to_string(v[0]) + ", " + std::to_string(v[1]) + ", " +
           std::to_string(v[2]);
  }

  void appendId(std::string &args, uint32_t correlation, uint64_t node) const {
    uint64_t id = J.idOf(correlation, node);
    if (!id)
      return;
    args += ", \"External id\": " + std::to_string(id);
    if (const std::string *name = J.nameOfId(id))
      args += ", \"opprof id\": " + quoted(*name);
  }

  std::string common(uint32_t device, uint32_t context, uint32_t stream,
                     uint32_t correlation, uint32_t graph,
                     uint64_t node) const {
    std::string args = "\"device\": " + std::to_string(device) +
                       ", \"context\": " + std::to_string(context) +
                       ", \"stream\": " + std::to_string(stream) +
                       ", \"correlation\": " + std::to_string(correlation);
    if (node)
      args += ", \"graph id\": " + std::to_string(graph) +
              ", \"graph node id\": " + std::to_string(node);
    appendId(args, correlation, node);
    return args;
  }

  void event(const char *category, std::string_view name, uint64_t start,
             uint64_t end, uint64_t pid, uint64_t tid,
             const std::string &args) {
    std::string line = First ? "\n" : ",\n";
    First = false;
    line += "  {\"ph\": \"X\", \"cat\": \"";
    line += category;
    line += "\", \"name\": " + quoted(name) + ", \"pid\": " +
            (Place.processPrefix.empty()
                 ? std::to_string(pid)
                 : quoted(Place.processPrefix + std::to_string(pid))) +
            ", \"tid\": " + std::to_string(tid) + ", \"ts\": " + at(start) +
            ", \"dur\": " + micros(end > start ? end - start : 0) +
            ", \"args\": {" + args + "}}";
    std::fwrite(line.data(), 1, line.size(), Out);
  }

  CaptureReader &Reader;
  const CaptureJoins &J;
  const TracePlace &Place;
  std::FILE *Out;
  std::unordered_map<uint32_t, std::string> KernelNames;
  std::unordered_map<uint32_t, MarkerRecord> OpenMarkers;
  std::unordered_map<uint64_t, MarkRecord> OpenSteps;
};
} // namespace

std::string opprof::capture::demangled(const std::string &name) {
  int status = 0;
  std::unique_ptr<char, void (*)(void *)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), std::free);
  return text ? text.get() : name;
}

bool opprof::capture::printTraceEvents(const std::string &path,
                                       CaptureReader &reader,
                                       const CaptureJoins &joins,
                                       const TracePlace &place, std::FILE *out,
                                       bool &first) {
  Printer printer(reader, joins, place, out, first);
  bool good = reader.read(path, printer);
  first = printer.First;
  return good;
}

bool opprof::capture::writeWhole(
    const std::string &output, std::string &error,
    const std::function<bool(std::FILE *)> &write) {
  bool toStdout = output == "-";
  // /dev/null and pipes are written to: a file that took their place would be
  // in everybody's way.
  struct stat status;
  bool inPlace = !toStdout && ::stat(output.c_str(), &status) == 0 &&
                 !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
  std::string temporary =
      inPlace ? output : output + ".tmp" + std::to_string(::getpid());
  std::FILE *out = toStdout ? stdout : std::fopen(temporary.c_str(), "wb");
  if (!out) {
    error = temporary + ": cannot be written: " + std::strerror(errno);
    return false;
  }
  bool good = write(out);
  if (std::fflush(out) != 0 || std::ferror(out)) {
    error = output + ": cannot be written: " + std::strerror(errno);
    good = false;
  }
  if (toStdout)
    return good;
  std::fclose(out);
  if (inPlace)
    return good;
  if (good && std::rename(temporary.c_str(), output.c_str()) != 0) {
    error = output + ": cannot be written: " + std::strerror(errno);
    good = false;
  }
  if (!good)
    std::remove(temporary.c_str());
  return good;
}

bool opprof::capture::exportChromeTrace(const std::string &path,
                                        const std::string &output,
                                        std::string &error) {
  CaptureReader reader;
  CaptureJoins joins(reader);
  if (!reader.read(path, joins)) {
    error = reader.error();
    return false;
  }
  if (auto it = joins.Meta.find(std::string(kRecorderKey));
      it != joins.Meta.end() && it->second == kObserver) {
    error = path +
            ": holds the operators that the host ran, and nothing of a "
            "device, so a trace of it would be empty\n  `opprof report " +
            path + " --perfetto FILE` makes one of operators";
    return false;
  }
  std::string head = "{\n\"schemaVersion\": 1,\n\"deviceProperties\": [";
  bool first = true;
  for (auto &[id, device] : joins.Devices) {
    const DeviceRecord &d = device.first;
    head += first ? "\n" : ",\n";
    first = false;
    head += "  {\"id\": " + std::to_string(id) +
            ", \"name\": " + quoted(device.second) +
            ", \"totalGlobalMem\": " + std::to_string(d.memoryBytes) +
            ", \"computeMajor\": " + std::to_string(d.computeMajor) +
            ", \"computeMinor\": " + std::to_string(d.computeMinor) +
            ", \"numSms\": " + std::to_string(d.smCount) +
            ", \"warpSize\": " + std::to_string(d.warpSize) +
            ", \"maxThreadsPerMultiprocessor\": " +
            std::to_string(d.maxThreadsPerSm) + "}";
  }
  head += "\n],\n";
  if (std::optional<uint64_t> rank = joins.metaNumber("rank")) {
    head += "\"distributedInfo\": {\"rank\": " + std::to_string(*rank);
    if (std::optional<uint64_t> world = joins.metaNumber("world_size"))
      head += ", \"world_size\": " + std::to_string(*world);
    head += "},\n";
  }
  if (joins.Clock.cupti)
    head += "\"clock\": {\"trace\": " + std::to_string(joins.Clock.cupti) +
            ", \"realtime\": " + std::to_string(joins.Clock.realtime) +
            ", \"monotonic\": " + std::to_string(joins.Clock.monotonic) +
            "},\n";
  head +=
      "\"trace_source\": \"opprof capture\",\n\"displayTimeUnit\": \"ms\",\n"
      "\"baseTimeNanoseconds\": 0,\n\"traceEvents\": [";
  return writeWhole(output, error, [&](std::FILE *out) {
    std::fwrite(head.data(), 1, head.size(), out);
    bool none = true;
    bool good = printTraceEvents(path, reader, joins, {}, out, none);
    std::fputs("\n]\n}\n", out);
    if (!good)
      error = reader.error();
    return good;
  });
}

namespace {
class Counter : public CaptureVisitor {
public:
  void meta(std::string_view key, std::string_view value) override {
    if (key == "rank")
      Rank = value;
    if (key == "steps")
      Steps = value;
  }
  void kernel(const KernelRecord &r) override {
    ++Counts["kernels"];
    KernelTime += r.end - r.start;
  }
  void memcpy(const MemcpyRecord &) override { ++Counts["memcpys"]; }
  void memset(const MemsetRecord &) override { ++Counts["memsets"]; }
  void sync(const SyncRecord &) override { ++Counts["syncs"]; }
  void api(const ApiRecord &) override { ++Counts["api calls"]; }
  void overhead(const OverheadRecord &) override { ++Counts["overheads"]; }
  void externalId(const ExternalIdRecord &) override {
    ++Counts["external ids"];
  }
  void marker(const MarkerRecord &) override { ++Counts["markers"]; }
  void operatorRun(const OperatorRecord &) override { ++Counts["operators"]; }
  void allocation(const AllocationRecord &r) override {
    Counts["allocations"] +=
        r.operation == uint8_t(AllocationOperation::Allocate);
  }
  void memory(const MemoryRecord &r) override {
    ++Counts["memory operations"];
    // Kind 3 is device memory; other kinds are the host's.
    if (r.kind != 3)
      return;
    if (r.operation == 1) {
      Live[r.address] = r.bytes;
      Held += r.bytes;
      Peak = std::max(Peak, Held);
    } else if (auto it = Live.find(r.address); it != Live.end()) {
      Held -= it->second;
      Live.erase(it);
    }
  }
  void graphNode(const GraphNodeRecord &) override { ++Counts["graph nodes"]; }
  void counters(const CounterRowHeader &,
                const std::vector<double> &) override {
    ++Counts["counter rows"];
  }

  std::map<std::string, uint64_t> Counts;
  std::unordered_map<uint64_t, uint64_t> Live;
  uint64_t KernelTime = 0, Held = 0, Peak = 0;
  std::string Rank, Steps;
};
} // namespace

bool opprof::capture::summarize(const std::string &path, std::string &text,
                                std::string &error) {
  CaptureReader reader;
  Counter counter;
  if (!reader.read(path, counter)) {
    error = reader.error();
    return false;
  }
  text.clear();
  for (auto &[name, count] : counter.Counts)
    text += name + ": " + std::to_string(count) + "\n";
  if (!counter.Rank.empty())
    text += "rank: " + counter.Rank + "\n";
  if (!counter.Steps.empty())
    text += "steps: " + counter.Steps + "\n";
  text += "kernel time: " + std::to_string(counter.KernelTime) + " ns\n";
  if (counter.Peak)
    text += "device memory peak: " + std::to_string(counter.Peak) + " bytes\n";
  const CaptureSummary &s = reader.summary();
  text += "lost records: " + std::to_string(s.lost) + "\n";
  text += std::string("complete: ") + (s.complete ? "yes" : "no") + "\n";
  if (s.ignoredTailBytes)
    text += "ignored at the end: " + std::to_string(s.ignoredTailBytes) +
            " bytes of a chunk that was being written\n";
  return true;
}
