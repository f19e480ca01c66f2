// What findings and their parts are called.

#include "opprof/Profile/Finding.h"
#include "opprof/Support/EnumNames.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::profile;

static constexpr StringLiteral kKinds[] = {
#define OPPROF_FINDING(Name, Id) Id,
#include "opprof/Profile/FindingKinds.def"
};
static_assert(std::size(kKinds) == kNumFindingKinds);

static constexpr StringLiteral kBounds[] = {"compute", "memory", "latency",
                                            "launch", "unknown"};
static_assert(std::size(kBounds) == kNumBounds);

static constexpr StringLiteral kPrecisions[] = {"fp32", "tf32", "bf16", "fp16"};
static_assert(std::size(kPrecisions) == kNumPrecisions);

static constexpr StringLiteral kLimiters[] = {
    "block size", "blocks",        "grid",        "last wave",
    "registers",  "shared memory", "uneven work", "unknown"};
static_assert(std::size(kLimiters) == kNumOccupancyLimiters);

static constexpr StringLiteral kStallReasons[] = {
    "long_scoreboard",
    "short_scoreboard",
    "math_pipe_throttle",
    "barrier",
    "lg_throttle",
    "mio_throttle",
    "wait",
    "not_selected",
};
static_assert(std::size(kStallReasons) == kNumStallReasons);

static constexpr StringLiteral kPipes[] = {"tensor", "fma", "alu",
                                           "xu",     "lsu", "fp64"};
static_assert(std::size(kPipes) == kNumPipes);

StringRef opprof::profile::stringify(FindingKind kind) {
  return kKinds[static_cast<size_t>(kind)];
}
StringRef opprof::profile::stringify(Bound bound) {
  return kBounds[static_cast<size_t>(bound)];
}
StringRef opprof::profile::stringify(Precision precision) {
  return kPrecisions[static_cast<size_t>(precision)];
}
StringRef opprof::profile::stringify(OccupancyLimiter limiter) {
  return kLimiters[static_cast<size_t>(limiter)];
}
StringRef opprof::profile::stringify(StallReason reason) {
  return kStallReasons[static_cast<size_t>(reason)];
}
StringRef opprof::profile::stringify(AttentionRefusal refusal) {
  static constexpr StringLiteral kRefusals[kNumAttentionRefusals] = {
      "type", "rank", "head_size", "alignment", "mask", "unknown"};
  return kRefusals[static_cast<size_t>(refusal)];
}
StringRef opprof::profile::stringify(Pipe pipe) {
  return kPipes[static_cast<size_t>(pipe)];
}

std::optional<FindingKind> opprof::profile::parseFindingKind(StringRef text) {
  return parseEnumerator<FindingKind>(kKinds, text);
}
std::optional<OccupancyLimiter>
opprof::profile::parseOccupancyLimiter(StringRef text) {
  return parseEnumerator<OccupancyLimiter>(kLimiters, text);
}

static constexpr StringLiteral kBeforeDevice = "the ceilings of the device '";
static constexpr StringLiteral kAfterDevice = "' are not in the table";

std::string opprof::profile::stringify(NoRoof reason, StringRef device) {
  switch (reason) {
  case NoRoof::LaunchMap:
    return "there is no launch map, so no kernel's FLOPs and bytes are known";
  case NoRoof::Costs:
    return "no launch's FLOPs and bytes are known (shapes that are not fixed "
           "have none)";
  case NoRoof::CPU:
    return "the ceilings of this CPU are not known";
  case NoRoof::Device:
    return (kBeforeDevice + device + kAfterDevice).str();
  case NoRoof::Run:
    return "no launch that ran has known FLOPs and bytes";
  }
  llvm_unreachable("unhandled reason");
}

std::optional<NoRoof> opprof::profile::parseNoRoof(StringRef text,
                                                   std::string &device) {
  for (NoRoof reason :
       {NoRoof::LaunchMap, NoRoof::Costs, NoRoof::CPU, NoRoof::Run})
    if (stringify(reason, "") == text)
      return reason;
  if (!text.consume_front(kBeforeDevice) || !text.consume_back(kAfterDevice))
    return std::nullopt;
  device = text.str();
  return NoRoof::Device;
}

StringRef Finding::id() const {
  if (std::optional<FindingKind> known = kind())
    return stringify(*known);
  return std::get<evidence::Unread>(evidence).id;
}
