// Captures of several ranks on one clock: what each rank's communication costs
// it. They are read one after the other; what stays of one is its collectives.

#include "CaptureText.h"

#include "opprof/Capture/CaptureJoins.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <unistd.h>

using namespace opprof::capture;

namespace {
using Interval = std::pair<uint64_t, uint64_t>;

/// Spans of time, of which only the union counts.
class Spans {
public:
  void add(Interval span) {
    // Kernels of one stream come in order; most only draw out the last span.
    if (!List.empty() && List.back().first <= span.first &&
        span.first <= List.back().second)
      List.back().second = std::max(List.back().second, span.second);
    else
      List.push_back(span);
  }

  /// The spans with overlaps joined, in order.
  const std::vector<Interval> &joined() {
    std::sort(List.begin(), List.end());
    size_t kept = 0;
    for (const Interval &span : List) {
      if (kept && span.first <= List[kept - 1].second)
        List[kept - 1].second = std::max(List[kept - 1].second, span.second);
      else
        List[kept++] = span;
    }
    List.resize(kept);
    return List;
  }

private:
  std::vector<Interval> List;
};

} // namespace

static uint64_t length(const std::vector<Interval> &spans) {
  uint64_t total = 0;
  for (const Interval &span : spans)
    total += span.second - span.first;
  return total;
}

/// How much of `spans` lies outside of `cover`; both are unions.
static uint64_t uncovered(const std::vector<Interval> &spans,
                          const std::vector<Interval> &cover) {
  uint64_t total = length(spans);
  size_t index = 0;
  for (const auto &[start, end] : spans) {
    while (index < cover.size() && cover[index].second <= start)
      ++index;
    for (size_t at = index; at < cover.size() && cover[at].first < end; ++at)
      total -=
          std::min(end, cover[at].second) - std::max(start, cover[at].first);
  }
  return total;
}

namespace {
/// Measures a rank, and keeps its collectives.
class Measurer final : public CaptureJoins {
public:
  using CaptureJoins::CaptureJoins;

  void kernel(const KernelRecord &r) override {
    ++Kernels;
    uint64_t end = std::max(r.start, r.end);
    auto [it, isNew] = IsCollective.try_emplace(r.name);
    if (isNew)
      it->second = isCollective(Reader.string(r.name));
    (it->second ? Communication : Compute).add({r.start, end});
    if (it->second)
      Collectives.push_back({r.start, end, r.name});
  }

  uint64_t Kernels = 0;
  Spans Compute, Communication;
  struct Collective {
    uint64_t start, end;
    uint32_t name;
    bool operator<(const Collective &other) const {
      return start < other.start;
    }
  };
  std::vector<Collective> Collectives;

private:
  static bool isCollective(std::string_view name) {
    static constexpr std::string_view kNccl = "nccl";
    return std::search(name.begin(), name.end(), kNccl.begin(), kNccl.end(),
                       [](char a, char b) { return (a | 0x20) == b; }) !=
           name.end();
  }
  std::unordered_map<uint32_t, bool> IsCollective;
};
} // namespace

/// What `measurer` found out, as JSON; `shift` puts its times on the common
/// clock.
static std::string measuresOf(Measurer &measurer, const CaptureReader &reader,
                              const RankCapture &capture, int64_t shift) {
  const std::vector<Interval> &compute = measurer.Compute.joined();
  const std::vector<Interval> &communication = measurer.Communication.joined();
  std::string text =
      "{\"rank\": " + std::to_string(capture.rank) +
      ", \"file\": " + quoted(capture.path) +
      ", \"kernels\": " + std::to_string(measurer.Kernels) +
      ", \"compute_ns\": " + std::to_string(length(compute)) +
      ", \"communication_ns\": " + std::to_string(length(communication)) +
      ", \"exposed_ns\": " + std::to_string(uncovered(communication, compute)) +
      ",\n \"names\": [";
  std::stable_sort(measurer.Collectives.begin(), measurer.Collectives.end());
  std::unordered_map<uint32_t, size_t> numbers;
  // Times of a damaged file may be any: these wrap round.
  auto shifted = [&](uint64_t time) {
    return std::to_string(int64_t(time + uint64_t(shift)));
  };
  std::string list;
  for (const Measurer::Collective &collective : measurer.Collectives) {
    auto [it, isNew] = numbers.try_emplace(collective.name, numbers.size());
    if (isNew)
      text += (it->second ? ", " : "") +
              quoted(demangled(std::string(reader.string(collective.name))));
    list += (list.empty() ? "\n  [" : ",\n  [") + std::to_string(it->second) +
            ", " + shifted(collective.start) + ", " + shifted(collective.end) +
            "]";
  }
  return text + "],\n \"collectives\": [" + list + "]}";
}

/// Writes a file through a temporary one, and leaves nothing where the disk is
/// full.
static bool writeWhole(const std::string &output, const std::string &text,
                       std::string &error) {
  std::string temporary = output + ".tmp" + std::to_string(::getpid());
  std::FILE *out = std::fopen(temporary.c_str(), "wb");
  if (!out) {
    error = temporary + ": cannot be written: " + std::strerror(errno);
    return false;
  }
  bool good = std::fwrite(text.data(), 1, text.size(), out) == text.size();
  good &= std::fclose(out) == 0;
  if (good && std::rename(temporary.c_str(), output.c_str()) == 0)
    return true;
  error = output + ": cannot be written: " + std::strerror(errno);
  std::remove(temporary.c_str());
  return false;
}

bool opprof::capture::measureRanks(const std::vector<RankCapture> &captures,
                                   const std::string &measures,
                                   std::string &error) {
  std::string measured;
  int64_t origin = 0;
  for (const RankCapture &capture : captures) {
    CaptureReader reader;
    Measurer measurer(reader);
    if (!reader.read(capture.path, measurer)) {
      error = reader.error();
      return false;
    }
    // Times of a damaged file may be any; these add up without overflow.
    constexpr uint64_t kLatest = uint64_t(1) << 61;
    const ClockRecord &clock = measurer.Clock;
    if (!clock.cupti || clock.cupti > kLatest || clock.realtime > kLatest) {
      error = capture.path +
              ": holds no clock, so it cannot be put beside other ranks";
      return false;
    }
    // One origin keeps nanoseconds since 1970 out of double's last digits.
    if (measured.empty())
      origin = int64_t(clock.realtime);
    int64_t shift = int64_t(clock.realtime) - int64_t(clock.cupti) - origin;
    measured += (measured.empty() ? "\n" : ",\n") +
                measuresOf(measurer, reader, capture, shift);
  }
  return writeWhole(measures, "{\"ranks\": [" + measured + "\n]}\n", error);
}
