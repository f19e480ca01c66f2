// What a capture holds, in words: its summary, and names as files and people
// have them.

#include "CaptureText.h"

#include "opprof/Capture/CaptureReader.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cxxabi.h>
#include <map>
#include <memory>
#include <unordered_map>

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

std::string opprof::capture::demangled(const std::string &name) {
  int status = 0;
  std::unique_ptr<char, void (*)(void *)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), std::free);
  return text ? text.get() : name;
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
