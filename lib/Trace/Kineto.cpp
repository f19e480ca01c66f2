// Traces of torch.profiler. One pass over the file with simdjson's on-demand
// parser: an event that no one asks for is skipped unparsed, and the others are
// turned into compact records at once. A large file is read in pieces of whole
// events, so that of its text no more than a piece is in memory, and in the
// caches. An event that makes no sense is left out and counted. Where the text
// is no JSON, another way looks for each event by itself, so that damage costs
// what it touches.

#include "Readers.h"
#include "opprof/Trace/Microseconds.h"

#include "opprof/Support/OtherDocuments.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/Twine.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/Endian.h"

#include <simdjson.h>

#include <cmath>
#include <limits>
#include <map>
#include <new>
#include <set>
#include <tuple>

using namespace llvm;
using namespace opprof;
using namespace opprof::trace;
using namespace simdjson;

//===----------------------------------------------------------------------===//
// Decimal microseconds
//===----------------------------------------------------------------------===//

/// What recorders write: up to fifteen digits, and three behind the point at
/// most. Absent for any other text.
static std::optional<int64_t> parsePlainMicroseconds(StringRef text) {
  constexpr size_t kLongest = 15;
  const char *at = text.begin(), *end = text.end();
  int64_t value = 0;
  size_t digits = 0;
  for (; at != end && isDigit(*at) && digits <= kLongest; ++at, ++digits)
    value = value * 10 + (*at - '0');
  if (!digits || digits > kLongest)
    return std::nullopt;
  int fraction = 0;
  if (at != end && *at == '.')
    for (++at; at != end && isDigit(*at) && fraction < 3; ++at, ++fraction)
      value = value * 10 + (*at - '0');
  if (at != end || text.back() == '.')
    return std::nullopt;
  for (; fraction < 3; ++fraction)
    value *= 10;
  return value;
}

std::optional<int64_t> opprof::trace::parseMicroseconds(StringRef text,
                                                        bool &rounded) {
  if (std::optional<int64_t> plain = parsePlainMicroseconds(text))
    return plain;
  text = text.trim();
  bool negative = text.consume_front("-");
  StringRef whole = text.take_while(isDigit);
  text = text.drop_front(whole.size());
  StringRef fraction;
  if (text.consume_front(".")) {
    fraction = text.take_while(isDigit);
    text = text.drop_front(fraction.size());
    if (fraction.empty())
      return std::nullopt;
  }
  if (whole.empty())
    return std::nullopt;
  int exponent = 0;
  if (text.consume_front_insensitive("e")) {
    text.consume_front("+");
    if (text.empty() || text.getAsInteger(10, exponent) || exponent < -400 ||
        exponent > 400)
      return std::nullopt;
    text = "";
  }
  if (!text.empty())
    return std::nullopt;

  // Digits up to this position count whole nanoseconds.
  int64_t nanosecondDigits = int64_t(whole.size()) + exponent + 3;
  constexpr int64_t kLimit = std::numeric_limits<int64_t>::max() / 4;
  int64_t value = 0;
  size_t digits = whole.size() + fraction.size();
  auto digit = [&](size_t position) {
    return position < whole.size() ? whole[position] - '0'
                                   : fraction[position - whole.size()] - '0';
  };
  for (int64_t position = 0; position < nanosecondDigits; ++position) {
    int next = position < int64_t(digits) ? digit(position) : 0;
    if (value > (kLimit - next) / 10)
      return std::nullopt;
    value = value * 10 + next;
    if (position >= int64_t(digits) && value == 0)
      break;
  }
  for (size_t position = std::max<int64_t>(nanosecondDigits, 0);
       position < digits; ++position) {
    if (digit(position) == 0)
      continue;
    rounded = true;
    if (nanosecondDigits >= 0 && digit(nanosecondDigits) >= 5)
      ++value;
    break;
  }
  return negative ? -value : value;
}

//===----------------------------------------------------------------------===//
// Reader
//===----------------------------------------------------------------------===//

namespace {
/// What the reader makes of an event's category.
enum class Category : uint8_t {
  Kernel,
  Memcpy,
  Memset,
  Runtime,
  HostOp,
  Annotation,
  Python,
  Overhead,
  /// Work of a device of a kind whose events are not read.
  OtherDevice,
  /// What the profiler writes besides, which says nothing that is not known.
  Beside,
  /// Nothing that the profiler writes.
  Other,
};

} // namespace

static Category categoryOf(StringRef text) {
  if (text == "kernel" || text == "Kernel")
    return Category::Kernel;
  if (text == "gpu_memcpy" || text == "Memcpy")
    return Category::Memcpy;
  if (text == "gpu_memset" || text == "Memset")
    return Category::Memset;
  if (text == "cpu_op" || text == "Operator")
    return Category::HostOp;
  if (text == "user_annotation")
    return Category::Annotation;
  if (text == "python_function")
    return Category::Python;
  if (text == "overhead")
    return Category::Overhead;
  if (text.ends_with("_runtime") || text.ends_with("_driver") ||
      text == "Runtime")
    return Category::Runtime;
  if (text == "mtia_ccp_events" || text == "mtia_insight" ||
      text == "mtia_workloadd" || text == "hpu_op")
    return Category::OtherDevice;
  if (text == "Trace" || text == "gpu_user_annotation" || text == "cuda_sync" ||
      text == "cuda_profiler_range" || text == "cpu_instant_event")
    return Category::Beside;
  return Category::Other;
}

/// How much of a text comes before its first quote or backslash. Behind the
/// text lies padding of simdjson's.
static size_t lengthOfPlain(const char *text) {
  constexpr uint64_t kOnes = 0x0101010101010101, kHighs = kOnes << 7;
  // The lowest bit that is set is that of the first such character.
  auto find = [](uint64_t word, unsigned char c) {
    uint64_t rest = word ^ (kOnes * c);
    return (rest - kOnes) & ~rest & kHighs;
  };
  for (size_t at = 0;; at += sizeof(uint64_t)) {
    uint64_t word = support::endian::read64le(text + at);
    if (uint64_t found = find(word, '"') | find(word, '\\'))
      return at + llvm::countr_zero(found) / 8;
  }
}

namespace {
/// The keys of an event's arguments that are read.
enum class Argument : uint8_t {
  ExternalId,
  Correlation,
  Device,
  Stream,
  Registers,
  SharedMemory,
  Bytes,
  BlocksPerSM,
  WarpsPerSM,
  Occupancy,
  Grid,
  Block,
  KernelHash,
  KernelBackend,
  InputTypes,
  InputDims,
  InputValues,
  Rank,
  SequenceNumber,
  ForwardThread,
  Other,
};
} // namespace

/// By length first: each event has a dozen of them.
static Argument argumentOf(StringRef key) {
  switch (key.size()) {
  case StringLiteral("grid").size():
    return key == "grid"   ? Argument::Grid
           : key == "rank" ? Argument::Rank
                           : Argument::Other;
  case StringLiteral("block").size():
    return key == "block"   ? Argument::Block
           : key == "bytes" ? Argument::Bytes
                            : Argument::Other;
  case StringLiteral("stream").size():
    return key == "stream"   ? Argument::Stream
           : key == "device" ? Argument::Device
                             : Argument::Other;
  case StringLiteral("Input Dims").size():
    // Written small before PyTorch 1.13.
    return key == "Input Dims" || key == "Input dims" ? Argument::InputDims
           : key == "Input type"                      ? Argument::InputTypes
                                                      : Argument::Other;
  case StringLiteral("External id").size():
    return key == "External id" || key == "external id" ? Argument::ExternalId
           : key == "correlation"                       ? Argument::Correlation
           : key == "kernel_hash"                       ? Argument::KernelHash
                                                        : Argument::Other;
  case StringLiteral("warps per SM").size():
    return key == "warps per SM" ? Argument::WarpsPerSM : Argument::Other;
  case StringLiteral("shared memory").size():
    return key == "shared memory"   ? Argument::SharedMemory
           : key == "blocks per SM" ? Argument::BlocksPerSM
           : key == "Fwd thread id" ? Argument::ForwardThread
                                    : Argument::Other;
  case StringLiteral("kernel_backend").size():
    return key == "kernel_backend" ? Argument::KernelBackend : Argument::Other;
  case StringLiteral("Concrete Inputs").size():
    return key == "Concrete Inputs"   ? Argument::InputValues
           : key == "Sequence number" ? Argument::SequenceNumber
                                      : Argument::Other;
  case StringLiteral("registers per thread").size():
    return key == "registers per thread" ? Argument::Registers
                                         : Argument::Other;
  case StringLiteral("est. achieved occupancy %").size():
    return key == "est. achieved occupancy %" ? Argument::Occupancy
                                              : Argument::Other;
  default:
    return Argument::Other;
  }
}

namespace {
/// The keys of one event. Strings are interned by whoever keeps them.
struct RawEvent {
  /// Forgets the event before, and leaves what then says nothing as it is: a
  /// configuration is larger than all else, and few events have one.
  void begin() {
    static_assert(std::is_trivially_destructible_v<RawEvent>);
    // Without parentheses: what has no initializer is not set to 0.
    new (this) RawEvent;
  }

  bool complete = false;
  std::optional<Category> category;
  std::string_view name;
  bool hasName = false;
  std::optional<int64_t> start;
  std::optional<int64_t> duration;
  std::string_view pid, tid;

  std::optional<uint64_t> correlation, externalId, bytes;
  std::optional<int64_t> device, stream;
  std::optional<LaunchConfig> config;
  std::string_view kernelHash, inputTypes, inputDims, inputValues;
  std::optional<int64_t> sequenceNumber, forwardThread;
  /// Which rank it is of, where a tool that put ranks together says that.
  std::optional<int64_t> rank;
  bool generated = false;
};

class Reader {
public:
  Reader(Trace &trace, const ReadOptions &options)
      : trace(trace), options(options) {}

  /// Reads a text whose events are whole in pieces of ReadOptions::pieceBytes.
  /// Fails, and isDamaged() holds, where they are not, or where pieces can't be
  /// told: `read` may do.
  Error readPieces(StringRef text);
  Error read(const PaddedText &text);

  /// Whether `read` failed because the text is no JSON.
  bool isDamaged() const { return damaged; }
  /// Reads what can be read of such a text: each event that is whole. Fails
  /// where no events begin in it.
  Error readDamaged(StringRef text);

private:
  Error fail(const Twine &message) {
    return createStringError(trace.file + ": " + message);
  }
  /// Leaves the current event out, and goes on.
  Error loseEvent(const Twine &message) {
    if (!lost++) {
      firstLost = ("traceEvents[" + Twine(trace.events) + "]").str();
      if (current.hasName)
        firstLost += " ('" + StringRef(current.name).substr(0, 80).str() + "')";
      firstLost += (" " + message).str();
    }
    return Error::success();
  }
  Error failJSON(error_code code) {
    damaged = true;
    std::string where;
    const char *location = nullptr;
    if (document && !document->current_location().get(location) && base &&
        location >= base && location <= base + size)
      where = (" near byte " + Twine(location - base)).str();
    std::string what = error_message(code);
    if (trace.events)
      what += (", in or after traceEvents[" + Twine(trace.events) + "]").str();
    return fail("not valid JSON" + where + ": " + what +
                "; the file may be cut off: export the trace again");
  }

  /// Where the JSON begins: after a byte order mark.
  void setText(StringRef text);
  Error checkFormat();
  Error readPiece(StringRef begin, StringRef piece, StringRef end);
  Error readDocument(const char *data, size_t length, size_t capacity);
  Error readKeys(ondemand::object root, bool &found);
  /// What a document without events is, by a key of it.
  StringRef otherDocument;
  /// What wrote the events, if it was not torch.profiler: by the begin of the
  /// text, which may be gone when all of it is read.
  StringRef otherTool;
  Error readEvents(ondemand::array events);
  Error readEvent(ondemand::object event);
  Error readWholeEvent(StringRef text, ondemand::parser &parser,
                       std::string &buffer);
  Error readHead(StringRef head);
  void readTail(StringRef tail);
  Error finish();
  Error refuseOthers();
  void noteProcesses();
  void noteRanks();
  void nameDevices();
  std::optional<size_t> statedRank();
  size_t rankOfHost();
  int64_t deviceOf(size_t rank, int64_t id);
  void findForwardThreads();
  Error readArguments(ondemand::object arguments);
  /// How the current event was launched.
  LaunchConfig &config() {
    return current.config ? *current.config : current.config.emplace();
  }
  Error keepEvent();
  Error keepActivity(StringRef name);
  void keepFrame();
  void keepRuntimeCall(StringRef name);
  void keepHostOp(StringRef name);
  Error readDevices(ondemand::value value);
  ThreadId threadOf(size_t rank);
  std::optional<uint32_t> identityOf(llvm::StringRef range);
  /// Leaves the current event out as none that the profiler writes, of such a
  /// kind.
  Error passOver(const Twine &kind) {
    ++others[kind.str()];
    return Error::success();
  }

  /// A token without the space behind it.
  static StringRef tokenOf(ondemand::value value) {
    std::string_view text = value.raw_json_token();
    while (!text.empty() && isSpace(text.back()))
      text.remove_suffix(1);
    return text;
  }
  /// The text of a scalar, quotes removed.
  static std::string_view scalarText(ondemand::value value) {
    StringRef text = tokenOf(value);
    if (text.size() >= 2 && text.front() == '"' && text.back() == '"')
      text = text.drop_front().drop_back();
    return {text.data(), text.size()};
  }
  /// A key, which is copied only where it has escapes.
  static error_code readKey(ondemand::field &field, StringRef &key) {
    // A text may not have a quote in it but behind a backslash.
    const char *begin = field.key().raw();
    const char *end = begin + lengthOfPlain(begin);
    key = StringRef(begin, end - begin);
    if (*end == '"')
      return SUCCESS;
    std::string_view whole;
    error_code code = field.unescaped_key().get(whole);
    key = whole;
    return code;
  }
  /// A text, likewise; fails where the value is none.
  static error_code readText(ondemand::value value, std::string_view &text) {
    StringRef token = tokenOf(value);
    if (token.size() < 2 || !token.consume_front("\"") ||
        !token.consume_back("\"") || token.contains('\\'))
      return value.get_string().get(text);
    text = token;
    return SUCCESS;
  }
  template <typename T>
  static void readInteger(ondemand::value value, std::optional<T> &out) {
    T number;
    if constexpr (std::is_signed_v<T>) {
      if (!value.get_int64().get(number))
        out = number;
    } else {
      if (!value.get_uint64().get(number))
        out = number;
    }
  }
  /// No recorder counts beyond what is signed, and the largest numbers are
  /// DenseMap's own.
  static void readId(ondemand::value value, std::optional<uint64_t> &out) {
    std::optional<int64_t> number;
    readInteger(value, number);
    if (number && *number >= 0)
      out = uint64_t(*number);
  }
  static void readNumber(ondemand::value value, std::optional<double> &out) {
    double number;
    if (!value.get_double().get(number) && std::isfinite(number))
      out = number;
  }
  /// The text of an array as it stands.
  static void readRawArray(ondemand::value value, std::string_view &out) {
    ondemand::array items;
    std::string_view text;
    if (!value.get_array().get(items) && !items.raw_json().get(text))
      out = text;
  }
  static Error readTriple(ondemand::value value,
                          std::optional<std::array<uint64_t, 3>> &out);

  Trace &trace;
  const ReadOptions &options;
  ondemand::document *document = nullptr;
  const char *base = nullptr;
  size_t size = 0;
  RawEvent current;
  int64_t totalDuration = 0;
  bool damaged = false;
  /// Of pieces.
  ondemand::parser pieceParser;
  std::string pieceText;
  /// Events that were left out, and what is wrong with the first.
  uint64_t lost = 0;
  std::string firstLost;
  StringMap<ThreadId> threadIds;
  StringMap<uint32_t> identities;
  /// Operators that run what a forward operator recorded, and the thread of
  /// that, by PyTorch's own count of threads.
  std::vector<std::pair<uint32_t, int64_t>> recordedOn;
  /// Complete events that are none of the profiler's, by what they are.
  StringMap<uint64_t> others;
  /// Ranks that a tool put together, by what it calls them, which processes are
  /// whose, and their devices, by rank and its own number, as the trace numbers
  /// them.
  std::vector<std::string> ranks;
  StringMap<size_t> rankPlaces, ranksOfProcesses;
  std::map<std::pair<size_t, int64_t>, int64_t> devices;
  std::set<int64_t> takenDevices;
  /// The least number that may be free.
  int64_t nextDevice = 0;
  /// What there is too much of; empty where nothing is.
  StringRef tooMany;
  /// Of the last event that had one.
  std::optional<ThreadId> lastThread;
  size_t lastRank = 0;
  std::string lastPid, lastTid;
};

/// Ranks in one file, and devices. What is known of each is compared with
/// others, and no machine has as many.
constexpr size_t kMostRanks = 4096;

/// Devices that a note names.
constexpr size_t kNamedDevices = 8;
} // namespace

/// The node that runs in a range which `opprof profile --mode=eager` opened
/// where it has no capture of its own: opprof::node::<graph>::<stage>::<node>.
std::optional<uint32_t> Reader::identityOf(StringRef range) {
  if (!range.consume_front("opprof::node::"))
    return std::nullopt;
  auto [it, inserted] = identities.try_emplace(range, trace.identities.size());
  if (inserted) {
    Identity identity;
    auto [rest, node] = range.rsplit("::");
    auto [graph, stage] = rest.rsplit("::");
    identity.graph = graph.str();
    identity.stage = stage.str();
    identity.node = node.str();
    trace.identities.push_back(std::move(identity));
  }
  return it->second;
}

/// The thread of the current event. Ranks may have processes of one number, as
/// those of several machines do.
ThreadId Reader::threadOf(size_t rank) {
  // Events of one thread mostly follow one another.
  if (lastThread && lastRank == rank && lastPid == current.pid &&
      lastTid == current.tid)
    return *lastThread;
  lastRank = rank;
  lastPid = current.pid;
  lastTid = current.tid;
  std::string process = std::to_string(rank) + "/" + lastPid;
  auto [it, isNew] =
      threadIds.try_emplace((process + "/" + lastTid), trace.threads.size());
  if (isNew)
    trace.addThread(process);
  lastThread = it->second;
  return it->second;
}

Error Reader::readTriple(ondemand::value value,
                         std::optional<std::array<uint64_t, 3>> &out) {
  ondemand::array items;
  if (value.get_array().get(items))
    return Error::success();
  std::array<uint64_t, 3> triple{1, 1, 1};
  size_t count = 0;
  bool whole = true;
  for (auto item : items) {
    uint64_t number = 0;
    if (item.get_uint64().get(number))
      whole = false;
    else if (count < 3)
      triple[count] = number;
    ++count;
  }
  if (whole && count >= 1 && count <= 3)
    out = triple;
  return Error::success();
}

Error Reader::readArguments(ondemand::object arguments) {
  for (auto result : arguments) {
    ondemand::field field;
    if (error_code code = std::move(result).get(field))
      return failJSON(code);
    StringRef key;
    if (error_code code = readKey(field, key))
      return failJSON(code);
    ondemand::value value = field.value();
    // Device ids, counts and shapes are optional: a value of another type is
    // unknown, which is what leaving it out means.
    switch (argumentOf(key)) {
    case Argument::ExternalId:
      readId(value, current.externalId);
      break;
    case Argument::Correlation:
      readId(value, current.correlation);
      break;
    case Argument::Device:
      readInteger(value, current.device);
      break;
    case Argument::Stream:
      readInteger(value, current.stream);
      break;
    case Argument::Registers:
      readInteger(value, config().registers);
      break;
    case Argument::SharedMemory:
      readInteger(value, config().sharedMemory);
      break;
    case Argument::Bytes:
      readInteger(value, current.bytes);
      break;
    case Argument::BlocksPerSM:
      readNumber(value, config().blocksPerSM);
      break;
    case Argument::WarpsPerSM:
      readNumber(value, config().warpsPerSM);
      break;
    case Argument::Occupancy:
      readNumber(value, config().occupancyPct);
      break;
    case Argument::Grid:
      if (Error error = readTriple(value, config().grid))
        return error;
      break;
    case Argument::Block:
      if (Error error = readTriple(value, config().block))
        return error;
      break;
    case Argument::KernelHash: {
      std::string_view text;
      if (!value.get_string().get(text))
        current.kernelHash = text;
      break;
    }
    case Argument::KernelBackend: {
      std::string_view text;
      current.generated = !value.get_string().get(text) && text == "triton";
      break;
    }
    case Argument::InputTypes:
      readRawArray(value, current.inputTypes);
      break;
    case Argument::InputDims:
      readRawArray(value, current.inputDims);
      break;
    case Argument::InputValues:
      readRawArray(value, current.inputValues);
      break;
    case Argument::Rank:
      readInteger(value, current.rank);
      break;
    case Argument::SequenceNumber:
      readInteger(value, current.sequenceNumber);
      break;
    case Argument::ForwardThread:
      readInteger(value, current.forwardThread);
      break;
    case Argument::Other:
      break;
    }
  }
  return Error::success();
}

/// What a tool that puts ranks together calls the one of a process:
/// "[TP01-PP00] 4242".
static StringRef labelOf(StringRef pid) {
  if (!pid.starts_with("["))
    return "";
  auto [label, number] = pid.drop_front().split("] ");
  return number.empty() ? "" : label;
}

/// Which of the ranks the current event says that it is of.
std::optional<size_t> Reader::statedRank() {
  StringRef label = labelOf(current.pid);
  if (label.empty() && !current.rank)
    return std::nullopt;
  SmallString<32> name;
  (label.empty() ? "rank " + Twine(*current.rank) : Twine(label))
      .toVector(name);
  auto [it, isNew] = rankPlaces.try_emplace(name, ranks.size());
  if (isNew && ranks.size() == kMostRanks)
    tooMany = "ranks";
  else if (isNew)
    ranks.push_back(name.str().str());
  return it->second;
}

/// Which the current event of the host's is of: where it says nothing, its
/// process's, or the first.
size_t Reader::rankOfHost() {
  std::optional<size_t> rank = statedRank();
  if (rank)
    ranksOfProcesses.try_emplace(current.pid, *rank);
  else if (!ranks.empty())
    rank = ranksOfProcesses.lookup(current.pid);
  return rank.value_or(0);
}

/// Each rank counts calls for itself. CUPTI uses 0 for "none".
static OptionalId idOf(size_t rank, std::optional<uint64_t> id) {
  if (!id || !*id)
    return std::nullopt;
  constexpr unsigned kBits = 40;
  static_assert(kMostRanks <= uint64_t(1) << (63 - kBits));
  if (*id >> kBits)
    return *id;
  return *id | uint64_t(rank) << kBits;
}

/// And each has a device 0, unless it numbers those of the whole machine.
int64_t Reader::deviceOf(size_t rank, int64_t id) {
  auto [it, isNew] = devices.try_emplace({rank, id}, id);
  if (!isNew)
    return it->second;
  if (devices.size() > kMostRanks && tooMany.empty())
    tooMany = "devices";
  if (!takenDevices.insert(id).second) {
    while (!takenDevices.insert(nextDevice).second)
      ++nextDevice;
    it->second = nextDevice;
  }
  return it->second;
}

/// Keeps the current event, which a device ran.
Error Reader::keepActivity(StringRef name) {
  Category category = *current.category;
  TraceActivity activity;
  activity.kind = category == Category::Kernel   ? ActivityKind::Kernel
                  : category == Category::Memcpy ? ActivityKind::Memcpy
                                                 : ActivityKind::Memset;
  activity.name = name;
  activity.startNs = *current.start;
  activity.durationNs = *current.duration;
  size_t rank = statedRank().value_or(0);
  int64_t id;
  if (current.device)
    id = *current.device;
  else if (StringRef(current.pid).rsplit("] ").second.empty()
               ? StringRef(current.pid).getAsInteger(10, id)
               : StringRef(current.pid)
                     .rsplit("] ")
                     .second.getAsInteger(10, id))
    return loseEvent("names no device");
  activity.device = deviceOf(rank, id);
  activity.stream = current.stream;
  activity.correlation = idOf(rank, current.correlation);
  activity.externalId = idOf(rank, current.externalId);
  if (current.config)
    activity.config = trace.configs.keep(*current.config);
  activity.bytes = current.bytes;
  trace.activities.push_back(activity);
  return Error::success();
}

void Reader::keepRuntimeCall(StringRef name) {
  RuntimeCall call;
  call.name = name;
  size_t rank = rankOfHost();
  call.thread = threadOf(rank);
  call.startNs = *current.start;
  call.durationNs = *current.duration;
  call.correlation = idOf(rank, current.correlation);
  call.externalId = idOf(rank, current.externalId);
  trace.runtimeCalls.push_back(call);
}

/// The first type in a list of them that is of a tensor.
static StringRef firstTypeOf(StringRef types) {
  for (size_t begin; (begin = types.find('"')) != StringRef::npos;) {
    auto [type, rest] = types.substr(begin + 1).split('"');
    if (type != "" && type != "Scalar" && type != "ScalarList")
      return type;
    types = rest;
  }
  return "";
}

void Reader::keepHostOp(StringRef name) {
  HostOp op;
  op.name = name;
  size_t rank = rankOfHost();
  op.thread = threadOf(rank);
  op.startNs = *current.start;
  op.durationNs = *current.duration;
  op.externalId = idOf(rank, current.externalId);
  OperatorInputs inputs;
  if (!current.kernelHash.empty())
    inputs.kernelHash = trace.intern(current.kernelHash);
  if (!current.inputTypes.empty()) {
    inputs.types = trace.intern(current.inputTypes);
    inputs.firstType = firstTypeOf(inputs.types);
  }
  if (!current.inputValues.empty())
    inputs.values = trace.intern(current.inputValues);
  if (!current.inputDims.empty())
    inputs.dims = trace.intern(current.inputDims);
  op.inputs = trace.placeOf(inputs);
  op.sequenceNumber = current.sequenceNumber;
  op.backward = current.forwardThread.value_or(0) > 0;
  if (op.backward && op.sequenceNumber)
    recordedOn.push_back({trace.hostOps.size(), *current.forwardThread});
  op.generated = current.generated || !inputs.kernelHash.empty();
  // PyTorch before 1.12 has one category for operators and marks.
  op.annotation = current.category == Category::Annotation ||
                  name.starts_with("ProfilerStep#");
  if (op.annotation)
    op.identity = identityOf(name);
  trace.hostOps.push_back(op);
}

/// Keeps the current event if it is a function of Python that says where a
/// program was while no operator ran. Of what it lacks nothing is said: most
/// frames are of no interest.
void Reader::keepFrame() {
  // As long as is worth being named among the idle times of a device.
  constexpr int64_t kLongNs = 1'000'000;
  StringRef name = current.name;
  if (!options.moduleFrames || !current.start || !current.duration ||
      *current.duration < kLongNs || *current.duration > kMaxTotalNs ||
      // Builtins have no place; what PyTorch runs is told by its operators.
      name.starts_with("<") || name.starts_with("torch/") ||
      name.starts_with("threading.py") || name.contains("/torchinductor") ||
      !name.contains("): "))
    return;
  HostEvent &frame = trace.longFrames.emplace_back();
  frame.name = trace.intern(name);
  frame.thread = threadOf(rankOfHost());
  frame.startNs = *current.start;
  frame.durationNs = *current.duration;
}

Error Reader::keepEvent() {
  if (!current.complete)
    return Error::success();
  if (!current.category)
    return passOver("without a category");
  Category category = *current.category;
  bool isModule = StringRef(current.name).starts_with("nn.Module: ");
  if (category == Category::Python && !isModule)
    keepFrame();
  if (category == Category::Python && (!options.moduleFrames || !isModule))
    return Error::success();

  if (!current.hasName)
    return loseEvent("has no name");
  if (!current.start)
    return loseEvent("has no start time (\"ts\")");
  if (!current.duration)
    return loseEvent("has no duration (\"dur\")");
  if (*current.duration < 0)
    return loseEvent("has a negative duration (" + Twine(*current.duration) +
                     " ns); the trace is damaged: record it again");

  if (*current.duration > kMaxTotalNs - totalDuration)
    return loseEvent("makes the durations of the trace add up to more than "
                     "lifetimes; the trace is damaged: record it again");
  totalDuration += *current.duration;

  StringRef name = trace.intern(current.name);
  switch (category) {
  case Category::Kernel:
  case Category::Memcpy:
  case Category::Memset:
    return keepActivity(name);
  case Category::Runtime:
    keepRuntimeCall(name);
    break;
  case Category::HostOp:
  case Category::Annotation:
    keepHostOp(name);
    break;
  case Category::Python: {
    trace.moduleFrames.push_back(
        {name, threadOf(rankOfHost()), *current.start, *current.duration});
    break;
  }
  case Category::Overhead:
    trace.overheads.push_back({name, *current.start, *current.duration});
    break;
  case Category::OtherDevice:
    ++trace.otherDeviceEvents;
    break;
  case Category::Beside:
  case Category::Other:
    break;
  }
  return Error::success();
}

Error Reader::readEvent(ondemand::object event) {
  current.begin();
  for (auto result : event) {
    ondemand::field field;
    if (error_code code = std::move(result).get(field))
      return failJSON(code);
    StringRef key;
    if (error_code code = readKey(field, key))
      return failJSON(code);
    // Those that are read have four letters at most.
    if (key.size() > 4)
      continue;
    ondemand::value value = field.value();
    if (key == "ph") {
      std::string_view phase;
      if (error_code code = readText(value, phase))
        return loseEvent(Twine("has no text as \"ph\": ") +
                         error_message(code));
      current.complete = phase == "X";
      if (phase == "B")
        return passOver("whose beginnings and ends are apart (\"ph\": \"B\")");
      if (!current.complete)
        return Error::success();
    } else if (key == "cat") {
      std::string_view category;
      if (error_code code = readText(value, category))
        return loseEvent(Twine("has no text as \"cat\": ") +
                         error_message(code));
      current.category = categoryOf(category);
      if (*current.category == Category::Beside)
        return Error::success();
      if (*current.category == Category::Other)
        return passOver("of '" + StringRef(category).take_front(40) + "'");
    } else if (key == "name") {
      if (current.hasName)
        return loseEvent("states \"name\" twice");
      if (error_code code = readText(value, current.name))
        return loseEvent(Twine("has a name that is no valid text: ") +
                         error_message(code));
      current.hasName = true;
    } else if (key == "ts" || key == "dur") {
      std::optional<int64_t> &out =
          key == "ts" ? current.start : current.duration;
      if (out)
        return loseEvent("states \"" + key + "\" twice");
      StringRef text = tokenOf(value), number = text;
      // Some recorders write texts.
      if (number.consume_front("\""))
        number.consume_back("\"");
      bool rounded = false;
      out = parseMicroseconds(number, rounded);
      if (!out)
        return loseEvent("has \"" + key + "\": " + text.substr(0, 40) +
                         ", where a number of microseconds is expected");
      trace.rounded += rounded;
    } else if (key == "pid" || key == "tid") {
      (key == "pid" ? current.pid : current.tid) = scalarText(value);
    } else if (key == "args") {
      ondemand::object arguments;
      if (error_code code = value.get_object().get(arguments)) {
        if (code != INCORRECT_TYPE)
          return failJSON(code);
        // As tables write what is not there.
        if (tokenOf(value) == "null")
          continue;
        return loseEvent("has \"args\" that are no object");
      }
      if (Error error = readArguments(arguments))
        return error;
    }
  }
  return keepEvent();
}

Error Reader::readEvents(ondemand::array events) {
  for (auto result : events) {
    ondemand::value item;
    if (error_code code = std::move(result).get(item))
      return failJSON(code);
    ondemand::object event;
    if (error_code code = item.get_object().get(event)) {
      if (code != INCORRECT_TYPE)
        return failJSON(code);
      current.begin();
      cantFail(loseEvent("is no object"));
    } else if (Error error = readEvent(event)) {
      return error;
    }
    ++trace.events;
  }
  return Error::success();
}

Error Reader::readDevices(ondemand::value value) {
  ondemand::array devices;
  if (value.get_array().get(devices))
    return fail("\"deviceProperties\" must be an array");
  for (auto item : devices) {
    ondemand::object properties;
    if (std::move(item).get_object().get(properties))
      return fail("\"deviceProperties\" must hold objects");
    Device device;
    device.kind = "cuda";
    std::optional<int64_t> id;
    std::optional<uint64_t> major, minor;
    for (auto result : properties) {
      ondemand::field field;
      std::string_view key, text;
      if (error_code code = std::move(result).get(field))
        return failJSON(code);
      if (error_code code = field.unescaped_key().get(key))
        return failJSON(code);
      ondemand::value entry = field.value();
      if (key == "id")
        readInteger(entry, id);
      else if (key == "name") {
        if (!entry.get_string().get(text))
          device.name = std::string(text);
      } else if (key == "numSms")
        readInteger(entry, device.smCount);
      else if (key == "totalGlobalMem")
        readInteger(entry, device.totalMemory);
      else if (key == "maxThreadsPerMultiprocessor")
        readInteger(entry, device.maxThreadsPerSM);
      else if (key == "warpSize")
        readInteger(entry, device.warpSize);
      else if (key == "computeMajor")
        readInteger(entry, major);
      else if (key == "computeMinor")
        readInteger(entry, minor);
    }
    if (!id)
      return fail("a device of \"deviceProperties\" has no id");
    device.id = *id;
    if (major && minor)
      device.computeCapability = {*major, *minor};
    device.dropZeros();
    trace.devices.push_back(device);
  }
  return Error::success();
}

/// What a file is that does not begin as JSON does; empty where that is not
/// known.
static StringRef nameOtherFormat(StringRef text) {
  static constexpr std::pair<StringRef, StringRef> kFormats[] = {
      {"NVR", "a report of Nsight Compute"},
      {"PK\x03\x04", "a zip archive; unpack traces first, and give graphs "
                     "(.pt2) as --graph"},
      {"ML\xEFR", "MLIR bytecode; graphs are given as --graph"},
      {"\x1f\x8b", "gzip in gzip; unpack it once (gunzip)"},
      {"\x28\xb5\x2f\xfd", "a file packed by zstd; unpack it first (zstd -d)"},
      {StringRef("\xfd"
                 "7zXZ\0",
                 6),
       "a file packed by xz; unpack it first (xz -d)"},
      {"BZh", "a file packed by bzip2; unpack it first (bunzip2)"},
      {"7z\xbc\xaf", "a 7-Zip archive; unpack it first"},
      {StringRef("\xff\xfe\0\0", 4), "text in UTF-32; store it as UTF-8"},
      {"\xff\xfe", "text in UTF-16; store it as UTF-8"},
      {"\xfe\xff", "text in UTF-16; store it as UTF-8"},
      {StringRef("{\0", 2), "text in UTF-16; store it as UTF-8"},
      {StringRef("[\0", 2), "text in UTF-16; store it as UTF-8"},
      {StringRef("\0{", 2), "text in UTF-16; store it as UTF-8"},
      {StringRef("\0[", 2), "text in UTF-16; store it as UTF-8"},
      {"\x80\x02", "a pickle of Python's, which is never opened"},
      {"\x80\x04", "a pickle of Python's, which is never opened"},
      {"\x80\x05", "a pickle of Python's, which is never opened"},
      {"version https://git-lfs",
       "a pointer of Git LFS; fetch the file itself (git lfs pull)"},
      {"<!DOCTYPE", "a page of HTML; download the file itself"},
      {"<!doctype", "a page of HTML; download the file itself"},
      {"<html", "a page of HTML; download the file itself"},
  };
  for (const auto &[begin, name] : kFormats)
    if (text.starts_with(begin))
      return name;
  if (text.substr(257).starts_with("ustar"))
    return "a tar archive; unpack it first (tar -xf)";
  constexpr size_t kShown = 1 << 12;
  StringRef shown = text.take_front(kShown), first = shown.ltrim(" \t\r\n");
  // The times come first, and are -1 for what was there before. An empty list
  // of them names nothing.
  StringRef inner = first;
  if (inner.consume_front("[") && (inner = inner.ltrim()).consume_front("[") &&
      inner.ltrim().find_if([](char c) { return llvm::isDigit(c); }) ==
          (inner.ltrim().starts_with("-") ? 1u : 0u))
    return "lists of numbers, as export_memory_timeline writes them; its "
           "allocations are in the trace of profile_memory=True";
  if (first.starts_with("{") || first.starts_with("[") || first.empty())
    return "";
  if (shown.contains("Self CPU"))
    return "the text of key_averages().table(), which holds sums alone; record "
           "again, and keep the trace";
  if (llvm::any_of(shown, [](char c) {
        return static_cast<unsigned char>(c) < ' ' && !llvm::isSpace(c);
      }))
    return "a binary file of another tool, such as the .xplane.pb of JAX and "
           "TensorFlow";
  // "outer;inner 12" a line; the last one shown may be cut.
  llvm::SmallVector<StringRef> lines;
  first.split(lines, '\n', -1, /*KeepEmpty=*/false);
  if (lines.size() > 1 && text.size() > kShown)
    lines.pop_back();
  if (first.contains(';') && llvm::all_of(lines, [](StringRef line) {
        StringRef count = line.rtrim().rsplit(' ').second;
        return !count.empty() && llvm::all_of(count, llvm::isDigit);
      }))
    return "stacks with their sums, as export_stacks writes them for a flame "
           "graph; record again, and keep the trace";
  if (lines.size() > 1 && lines[0].contains(',') &&
      lines[0].count(',') == lines[1].count(','))
    return "a table of values (CSV) of a kind that is not read; of tables "
           "those of Nsight Compute are, which ncu --import REPORT --csv "
           "--page raw prints";
  return "";
}

/// What tool wrote events that are none of torch.profiler's; empty where that
/// is not known.
static StringRef nameOtherTool(StringRef text) {
  constexpr size_t kShown = 1 << 16;
  static constexpr std::pair<StringRef, StringRef> kSigns[] = {
      {"\"hlo_op\"", "a trace of JAX or TensorFlow"},
      {"\"hlo_module\"", "a trace of JAX or TensorFlow"},
      {"\"tf_op\"", "a trace of JAX or TensorFlow"},
      {"/host:CPU", "a trace of JAX or TensorFlow"},
      {"CUDA functions", "a trace of torch.autograd.profiler as PyTorch had it "
                         "before 1.8: record with torch.profiler"},
      {"CPU functions", "a trace of torch.autograd.profiler as PyTorch had it "
                        "before 1.8: record with torch.profiler"},
      {"devtools.timeline", "a recording of Chrome's of a page"},
      {"\"viztracer_metadata\"", "a trace of VizTracer"},
  };
  for (const auto &[sign, name] : kSigns)
    if (text.take_front(kShown).contains(sign))
      return name;
  return "";
}

void Reader::setText(StringRef text) {
  text.consume_front("\xEF\xBB\xBF");
  base = text.data();
  size = text.size();
}

Error Reader::readKeys(ondemand::object root, bool &found) {
  for (auto result : root) {
    ondemand::field field;
    if (error_code code = std::move(result).get(field))
      return failJSON(code);
    std::string_view view;
    if (error_code code = field.unescaped_key().get(view))
      return failJSON(code);
    StringRef key(view);
    if (otherDocument.empty())
      otherDocument = nameOtherDocument(key);
    ondemand::value value = field.value();
    if (key == "traceEvents") {
      if (found)
        return fail("\"traceEvents\" is there twice");
      found = true;
      ondemand::array events;
      if (error_code code = value.get_array().get(events)) {
        if (code != INCORRECT_TYPE)
          return failJSON(code);
        return fail("\"traceEvents\" must be an array");
      }
      if (Error error = readEvents(events))
        return error;
    } else if (key == "deviceProperties") {
      if (Error error = readDevices(value))
        return error;
    } else if (key == "baseTimeNanoseconds") {
      readInteger(value, trace.baseTimeNs);
    } else if (key == "distributedInfo") {
      ondemand::object info;
      if (value.get_object().get(info))
        continue;
      for (auto entry : info) {
        ondemand::field item;
        std::string_view name;
        if (error_code code = std::move(entry).get(item))
          return failJSON(code);
        if (error_code code = item.unescaped_key().get(name))
          return failJSON(code);
        if (name == "rank")
          readInteger(item.value(), trace.rank);
        else if (name == "world_size")
          readInteger(item.value(), trace.worldSize);
      }
    }
  }
  return Error::success();
}

/// Whether it is the trace of a process that loads data for another one, whose
/// threads are called so.
static bool isOfLoadingWorker(StringRef text) {
  constexpr size_t kShown = 1 << 16;
  return text.take_front(kShown).contains("(pt_data_worker)");
}

Error Reader::checkFormat() {
  if (isOfLoadingWorker(StringRef(base, size)))
    trace.notes.push_back(
        "recorded in a worker of a DataLoader: what it computes are samples, "
        "and it is idle where it reads them or has loaded enough ahead; "
        "whether the program waits for it is in the trace of the main "
        "process");
  otherTool = nameOtherTool(StringRef(base, size));
  if (StringRef format = nameOtherFormat(StringRef(base, size));
      !format.empty())
    return fail("not a trace of torch.profiler, but " + format +
                "; what is read is the trace that export_chrome_trace wrote, "
                "and opprof's own capture (.opcap)");
  return Error::success();
}

Error Reader::readDocument(const char *data, size_t length, size_t capacity) {
  ondemand::document doc;
  if (error_code code = pieceParser.iterate(data, length, capacity).get(doc))
    return failJSON(code);
  document = &doc;
  scope_exit forget([&] { document = nullptr; });
  bool found = false;
  ondemand::object root;
  if (StringRef(data, length).ltrim().starts_with("[")) {
    // Tools that cut traces leave the bare events.
    found = true;
    ondemand::array events;
    if (error_code code = doc.get_array().get(events))
      return failJSON(code);
    if (Error error = readEvents(events))
      return error;
    if (!trace.events)
      return fail("not a trace of torch.profiler: the array holds no event");
  } else if (error_code code = doc.get_object().get(root)) {
    if (code != INCORRECT_TYPE)
      return failJSON(code);
    return fail("not a trace of torch.profiler: the file holds no JSON object");
  } else if (Error error = readKeys(root, found)) {
    return error;
  }
  // At the end of the text there is no location.
  const char *rest = nullptr;
  if (!doc.current_location().get(rest) && rest < data + length) {
    return fail("text follows the end of the JSON; two files may have been "
                "joined: pass them one by one");
  }
  if (!found)
    return fail((otherDocument.empty()
                     ? Twine("not a trace of torch.profiler: no "
                             "\"traceEvents\"")
                     : "not a trace of torch.profiler, but " + otherDocument) +
                "; pass the file that export_chrome_trace wrote");
  return Error::success();
}

Error Reader::read(const PaddedText &text) {
  setText(text.str());
  if (Error error = checkFormat())
    return error;
  if (Error error = readDocument(base, size, size + SIMDJSON_PADDING))
    return error;
  return finish();
}

//===----------------------------------------------------------------------===//
// Pieces
//===----------------------------------------------------------------------===//

static constexpr StringLiteral kSpace = " \t\r\n";

/// Where the list of events opens; npos where that can't be told.
static size_t findEvents(StringRef text) {
  size_t open = text.find_first_not_of(kSpace);
  if (open == StringRef::npos || text[open] == '[')
    return open;
  constexpr StringLiteral kEvents = "\"traceEvents\"";
  size_t key = text.find(kEvents);
  if (key == StringRef::npos)
    return key;
  open = text.find_first_not_of(": \t\r\n", key + kEvents.size());
  return open != StringRef::npos && text[open] == '[' ? open : StringRef::npos;
}

/// The key, in its quotes, that the first event of a list begins with, as all
/// of a recorder's do; empty where there is none. Inside a text its quotes
/// would be escaped.
static StringRef firstKeyOf(StringRef events) {
  events = events.ltrim(kSpace);
  if (!events.consume_front("{"))
    return "";
  events = events.ltrim(kSpace);
  size_t end = events.find('"', 1);
  return events.starts_with("\"") && end != StringRef::npos
             ? events.take_front(end + 1)
             : StringRef();
}

/// Where the comma in front of the last event stands that begins in `window`
/// and has one; 0 where none has.
static size_t findCut(StringRef window, StringRef firstKey) {
  for (size_t at; (at = window.rfind(firstKey)) != StringRef::npos;) {
    window = window.take_front(at);
    StringRef before = window.rtrim(kSpace);
    if (!before.consume_back("{"))
      continue;
    before = before.rtrim(kSpace);
    if (before.consume_back(","))
      return before.size();
  }
  return 0;
}

Error Reader::readPiece(StringRef begin, StringRef piece, StringRef end) {
  pieceText.assign(begin.data(), begin.size());
  pieceText.append(piece.data(), piece.size());
  pieceText.append(end.data(), end.size());
  size_t length = pieceText.size();
  pieceText.append(SIMDJSON_PADDING, ' ');
  return readDocument(pieceText.data(), length, pieceText.size());
}

/// Makes room in a list that is nearly full when `done` of the text is read,
/// for as much as that promises: a list that grows by itself is there twice
/// while it does, and leaves its former room behind. Room that is not used
/// costs none.
template <typename T> static void makeRoom(std::vector<T> &list, double done) {
  constexpr size_t kFew = 4096;
  size_t size = list.size();
  if (size < kFew || size + size / 8 < list.capacity())
    return;
  constexpr double kSpare = 1.1;
  list.reserve(
      std::max(2 * size, static_cast<size_t>(double(size) / done * kSpare)));
}

Error Reader::readPieces(StringRef whole) {
  setText(whole);
  if (Error error = checkFormat())
    return error;
  StringRef text(base, size);
  // What goes wrong here has no place in the file.
  base = nullptr;
  size_t open = findEvents(text);
  StringRef firstKey = open == StringRef::npos
                           ? StringRef()
                           : firstKeyOf(text.drop_front(open + 1));
  damaged = true;
  if (firstKey.empty())
    return fail("no events begin in it");
  bool isBare = text.take_front(open).trim(kSpace).empty();
  if (!isBare)
    if (Error error = readHead(text.take_front(open + 1)))
      return error;
  text = text.drop_front(open + 1);
  const double total = double(text.size());
  while (true) {
    if (double done = 1 - double(text.size()) / total; done > 0) {
      makeRoom(trace.activities, done);
      makeRoom(trace.runtimeCalls, done);
      makeRoom(trace.hostOps, done);
      makeRoom(trace.moduleFrames, done);
    }
    size_t window = std::max<size_t>(options.pieceBytes, 1), cut = 0;
    // An event may be larger than a piece.
    while (window < text.size() &&
           !(cut = findCut(text.take_front(window), firstKey)))
      window *= 2;
    if (window >= text.size())
      break;
    if (Error error = readPiece("[", text.take_front(cut), "]"))
      return error;
    text = text.drop_front(cut + 1);
  }
  if (text.size() >= std::numeric_limits<uint32_t>::max() - SIMDJSON_PADDING)
    return fail("no events begin in it");
  if (Error error = readPiece(isBare ? "[" : "{\"traceEvents\":[", text, ""))
    return error;
  damaged = false;
  return finish();
}

/// The profiler records the calls of its own process. Where there are others,
/// someone has put traces together.
void Reader::noteProcesses() {
  std::set<ProcessId> processes;
  for (const RuntimeCall &call : trace.runtimeCalls)
    processes.insert(trace.threads[call.thread]);
  if (processes.size() > 1)
    trace.notes.push_back(
        (Twine(processes.size()) +
         " processes made calls in this file, in which one number may mean "
         "several launches and devices: traces of several ranks were put "
         "together; give each rank's own file instead")
            .str());
}

/// PyTorch counts the threads that record for backward passes for itself. Which
/// of the trace's a number means is told by the sequence numbers: those of what
/// it recorded are forward operators' of that thread. Each thread counts its
/// own, so that those of another may be the same: then it is the thread that
/// runs the backward pass as well, or is not known.
void Reader::findForwardThreads() {
  if (recordedOn.empty())
    return;
  // Number, process, thread.
  std::vector<std::tuple<int64_t, ProcessId, ThreadId>> forward;
  for (const HostOp &op : trace.hostOps)
    if (op.sequenceNumber && !op.backward && !op.annotation)
      forward.push_back(
          {*op.sequenceNumber, trace.threads[op.thread], op.thread});
  llvm::sort(forward);
  forward.erase(llvm::unique(forward), forward.end());
  // By process and the number of a thread: what it recorded, on which threads
  // that could have been, and on which it ran.
  struct Recorded {
    uint64_t functions = 0;
    std::map<ThreadId, uint64_t> fits;
    std::set<ThreadId> ranOn;
  };
  std::map<std::pair<ProcessId, int64_t>, Recorded> all;
  for (auto [place, number] : recordedOn) {
    const HostOp &op = trace.hostOps[place];
    ProcessId process = trace.threads[op.thread];
    auto first = llvm::lower_bound(
        forward, std::tuple(*op.sequenceNumber, process, ThreadId(0)));
    auto isSame = [&](const auto &other) {
      return std::get<0>(other) == *op.sequenceNumber &&
             std::get<1>(other) == process;
    };
    if (first == forward.end() || !isSame(*first))
      continue;
    Recorded &recorded = all[{process, number}];
    ++recorded.functions;
    recorded.ranOn.insert(op.thread);
    for (; first != forward.end() && isSame(*first); ++first)
      ++recorded.fits[std::get<2>(*first)];
  }
  std::map<std::pair<ProcessId, int64_t>, ThreadId> known;
  for (const auto &[number, recorded] : all) {
    std::vector<ThreadId> fitting;
    for (auto [thread, fits] : recorded.fits)
      if (fits == recorded.functions)
        fitting.push_back(thread);
    ThreadId own = *recorded.ranOn.begin();
    if (fitting.size() == 1)
      known[number] = fitting.front();
    else if (recorded.ranOn.size() == 1 && llvm::is_contained(fitting, own))
      known[number] = own;
  }
  for (auto [place, number] : recordedOn) {
    HostOp &op = trace.hostOps[place];
    if (auto it = known.find({trace.threads[op.thread], number});
        it != known.end())
      op.forwardThread = it->second;
  }
}

/// Other tools write events of this form too.
Error Reader::refuseOthers() {
  if (others.empty() || trace.otherDeviceEvents || !trace.activities.empty() ||
      !trace.hostOps.empty() || !trace.runtimeCalls.empty())
    return Error::success();
  std::vector<std::pair<uint64_t, StringRef>> kinds;
  for (const auto &entry : others)
    kinds.push_back({entry.second, entry.first()});
  llvm::sort(kinds, std::greater<>());
  constexpr size_t kNamed = 3;
  std::string text;
  for (auto [count, kind] : ArrayRef(kinds).take_front(kNamed))
    text += (Twine(text.empty() ? "" : ", ") + Twine(count) + " " + kind).str();
  if (kinds.size() > kNamed)
    text += ", and others";
  if (!otherTool.empty())
    text += (" (it looks like " + otherTool + ")").str();
  return fail("not a trace of torch.profiler: it has no operator, call or "
              "kernel, but events " +
              text +
              "; pass the file that export_chrome_trace wrote, an export of "
              "nsys, or a page of ncu");
}

/// Where ranks were put together, which device is whose.
void Reader::noteRanks() {
  std::string text;
  size_t renamed = 0;
  for (auto [own, id] : devices)
    if (own.second != id && ++renamed <= kNamedDevices)
      text += (Twine(text.empty() ? ": device " : ", device ") + Twine(id) +
               " is device " + Twine(own.second) + " of " + ranks[own.first])
                  .str();
  if (renamed > kNamedDevices)
    text += (", and " + Twine(renamed - kNamedDevices) + " more").str();
  trace.notes.push_back(
      (Twine(ranks.size()) + " ranks are in this file" + text).str());
  // Of one of them.
  trace.rank.reset();
}

/// Describes devices that are in use and described under another number:
/// another rank's, and AMD's, which count the host's processors too. Where all
/// that are described are alike, so is this one.
void Reader::nameDevices() {
  std::map<int64_t, Device> known;
  for (const Device &device : trace.devices)
    known.try_emplace(device.id, device);
  if (known.empty() || devices.empty())
    return;
  const Device &first = known.begin()->second;
  bool areAlike = llvm::all_of(known, [&](const auto &entry) {
    return entry.second.name == first.name &&
           entry.second.smCount == first.smCount;
  });
  std::map<int64_t, Device> all = known;
  std::set<int64_t> taken;
  for (auto [own, id] : devices) {
    auto it = known.find(own.second);
    if (it == known.end()) {
      if (!areAlike)
        continue;
      it = known.begin();
      taken.insert(own.second);
    }
    all[id] = it->second;
    all[id].id = id;
  }
  if (!taken.empty() && !first.name.empty()) {
    bool isOne = taken.size() == 1;
    std::string list;
    for (auto [place, id] : llvm::enumerate(taken))
      if (place < kNamedDevices)
        list += (Twine(place ? ", " : "") + Twine(id)).str();
    if (taken.size() > kNamedDevices)
      list += (", and " + Twine(taken.size() - kNamedDevices) + " more").str();
    trace.notes.push_back(
        (Twine(isOne ? "device " : "devices ") + list +
         (isOne ? " is not described in the file: it is taken for "
                : " are not described in the file: each is taken for ") +
         first.name + ", as " +
         (known.size() == 1 ? "the one that is" : "all that are"))
            .str());
  }
  trace.devices.clear();
  for (auto &[id, device] : all)
    trace.devices.push_back(std::move(device));
}

/// Says what was left out. A file of which nothing is left is not one with
/// nothing in it.
Error Reader::finish() {
  if (Error error = refuseOthers())
    return error;
  if (!tooMany.empty())
    return fail("more than " + Twine(kMostRanks) + " " + tooMany +
                " are in it; " +
                (tooMany == "ranks"
                     ? "give files of fewer, or the ranks' own side by side"
                     : "no process has as many: the trace is damaged; record "
                       "it again"));
  if (ranks.size() > 1)
    noteRanks();
  else
    noteProcesses();
  nameDevices();
  if (std::vector<uint32_t> moved = dropRepeatedEvents(trace); !moved.empty())
    for (auto &[place, thread] : recordedOn)
      place = moved[place];
  findForwardThreads();
  if (!lost)
    return Error::success();
  if (trace.activities.empty() && trace.hostOps.empty() &&
      trace.runtimeCalls.empty())
    return fail(firstLost);
  trace.notes.push_back((Twine(lost) + (lost == 1 ? " event" : " events") +
                         " of " + Twine(trace.events) +
                         (lost == 1 ? " is" : " are") +
                         " damaged and left out" +
                         (lost == 1 ? ": " : "; the first: ") + firstLost)
                            .str());
  return Error::success();
}

//===----------------------------------------------------------------------===//
// Texts that are no JSON
//===----------------------------------------------------------------------===//

/// Whether an event begins with the brace at `at`: the profiler writes "ph"
/// first, and a text inside an event can't hold these characters unescaped.
static bool beginsEvent(StringRef text, size_t at) {
  return text.substr(at + 1).ltrim(kSpace).starts_with("\"ph\"");
}

/// The end of the event whose brace is at `begin`; npos, with `next` at the
/// event that begins inside it or at the end of the text, where it has none.
static size_t findEventEnd(StringRef text, size_t begin, size_t &next) {
  unsigned depth = 0;
  bool inText = false;
  for (size_t at = begin; at < text.size(); ++at) {
    char c = text[at];
    if (c == '{' && at != begin && beginsEvent(text, at)) {
      next = at;
      return StringRef::npos;
    }
    if (inText) {
      if (c == '\\')
        ++at;
      else if (c == '"')
        inText = false;
      continue;
    }
    if (c == '"')
      inText = true;
    else if (c == '{')
      ++depth;
    else if (c == '}' && --depth == 0)
      return at + 1;
  }
  next = text.size();
  return StringRef::npos;
}

/// Reads the keys of a part of the text in a document of its own; `found` is
/// whether events are in it.
Error Reader::readHead(StringRef head) {
  std::string whole = (head + "]}").str();
  ondemand::parser parser;
  ondemand::document doc;
  ondemand::object root;
  padded_string padded(whole);
  if (parser.iterate(padded).get(doc) || doc.get_object().get(root))
    return fail("not a trace of torch.profiler: what comes before its events "
                "is no JSON");
  document = &doc;
  bool found = false;
  Error error = readKeys(root, found);
  document = nullptr;
  return error;
}

void Reader::readTail(StringRef tail) {
  tail = tail.ltrim(", \t\r\n");
  padded_string padded(("{" + tail).str());
  ondemand::parser parser;
  ondemand::document doc;
  ondemand::object root;
  if (parser.iterate(padded).get(doc) || doc.get_object().get(root))
    return;
  document = &doc;
  bool found = true;
  // The events are there; what follows them says less than what damaged it.
  consumeError(readKeys(root, found));
  document = nullptr;
}

/// Reads the event that `text` is all of.
Error Reader::readWholeEvent(StringRef text, ondemand::parser &parser,
                             std::string &buffer) {
  current.begin();
  buffer.assign(text.begin(), text.end());
  buffer.append(SIMDJSON_PADDING, '\0');
  ondemand::document doc;
  ondemand::object event;
  if (error_code code =
          parser.iterate(buffer.data(), text.size(), buffer.size()).get(doc))
    return loseEvent(Twine("is no JSON: ") + error_message(code));
  if (error_code code = doc.get_object().get(event))
    return loseEvent(Twine("is no JSON: ") + error_message(code));
  if (Error error = readEvent(event)) {
    consumeError(std::move(error));
    return loseEvent("is no JSON");
  }
  return Error::success();
}

Error Reader::readDamaged(StringRef whole) {
  setText(whole);
  StringRef text(base, size);
  size_t open = findEvents(text);
  if (open == StringRef::npos)
    return fail("no events begin in it");
  if (!text.take_front(open).trim(kSpace).empty())
    if (Error error = readHead(text.take_front(open + 1)))
      return error;

  ondemand::parser parser;
  std::string buffer;
  size_t at = open + 1;
  bool ended = false;
  while ((at = text.find_first_not_of(" \t\r\n,", at)) != StringRef::npos) {
    if (text[at] == ']') {
      ended = true;
      break;
    }
    size_t next = text.size(), end = StringRef::npos;
    if (text[at] == '{')
      end = findEventEnd(text, at, next);
    else
      while ((next = text.find('{', at)) != StringRef::npos &&
             !beginsEvent(text, next))
        at = next + 1;
    current.begin();
    if (end == StringRef::npos)
      cantFail(loseEvent("has no end"));
    else
      cantFail(readWholeEvent(text.slice(at, end), parser, buffer));
    ++trace.events;
    at = end == StringRef::npos ? next : end;
  }
  if (!trace.events)
    return fail("no events begin in it");
  if (ended)
    readTail(text.substr(at + 1));
  else
    trace.notes.push_back("the file ends before its events do: it was cut off, "
                          "and what it holds is all that is known");
  return finish();
}

Expected<std::unique_ptr<Trace>>
opprof::trace::readKineto(MemoryBufferRef buffer, const ReadOptions &options) {
  StringRef name = buffer.getBufferIdentifier(), text = buffer.getBuffer();
  PaddedText padded;
  auto pad = [&]() -> Error {
    Expected<PaddedText> read = readMaybeGzip(text, name, options.limits);
    if (!read)
      return read.takeError();
    padded = std::move(*read);
    return Error::success();
  };
  bool isSmall = text.size() <= options.pieceBytes;
  if (isSmall || isGzip(text)) {
    if (Error error = pad())
      return error;
    text = padded.str();
    isSmall = text.size() <= options.pieceBytes;
  }
  auto begin = [&] {
    auto trace = std::make_unique<Trace>();
    trace->kind = "kineto";
    trace->file = name.str();
    if (!padded.damage.empty())
      trace->notes.push_back(padded.damage + ": what comes before is read");
    return trace;
  };
  // What one way read until it failed is read again by the next: this is rare,
  // and simple.
  if (!isSmall) {
    std::unique_ptr<Trace> trace = begin();
    Reader reader(*trace, options);
    Error error = reader.readPieces(text);
    if (!error)
      return trace;
    if (!reader.isDamaged())
      return error;
    consumeError(std::move(error));
  }
  // simdjson takes no more at once.
  if (!padded.data && text.size() > options.limits.maxBytes) {
    std::unique_ptr<Trace> trace = begin();
    if (Error error = Reader(*trace, options).readDamaged(text))
      return error;
    return trace;
  }
  if (!padded.data)
    if (Error error = pad())
      return error;
  std::unique_ptr<Trace> trace = begin();
  Reader reader(*trace, options);
  Error error = reader.read(padded);
  if (!error)
    return trace;
  if (!reader.isDamaged())
    return error;
  std::unique_ptr<Trace> rest = begin();
  if (Error again = Reader(*rest, options).readDamaged(text)) {
    consumeError(std::move(again));
    return error;
  }
  consumeError(std::move(error));
  return rest;
}
