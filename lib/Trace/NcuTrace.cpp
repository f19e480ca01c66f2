// CSV pages of Nsight Compute: `ncu --csv --page raw` (a row a kernel, a column
// a metric, units in a row of their own) and `--page details` (a row a metric),
// of versions since 2019, which print numbers as the language of the machine
// has them. Nsight Compute runs kernels one by one, each several times: there
// is no timeline, and what is read is what was counted.

#include "Readers.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/ConvertUTF.h"

#include <cmath>
#include <deque>
#include <map>

using namespace llvm;
using namespace opprof;
using namespace opprof::trace;

/// A name of all templates and parameters of a kernel has some thousands of
/// characters, an advice of the details page some hundreds.
static constexpr size_t kMaxField = 1 << 18;
static constexpr size_t kMaxColumns = 1 << 16;
/// Rows that are looked for anew after damage.
static constexpr uint64_t kMaxDamaged = 10'000;
/// What a program and ncu may print before the table.
static constexpr size_t kMaxPreamble = 1 << 20;

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

namespace {
/// The records of a text of values with `separator` between them, in quotes or
/// not, as RFC 4180 has them.
class Records {
public:
  Records(StringRef text, char separator) : text(text), separator(separator) {}

  /// Reads the next record into `fields`, which live until the next call, and
  /// as long as this; false at the end. A record without an end is left out,
  /// and the line after the one that it begins in is the next.
  bool next(SmallVectorImpl<StringRef> &fields) &;
  uint64_t damaged = 0;

private:
  bool readField(size_t &at, StringRef &field);

  StringRef text;
  char separator;
  size_t position = 0;
  /// Fields that have quotes in them.
  std::deque<std::string> unescaped;
};
} // namespace

/// Reads the field at `at`, and moves there behind it, to what ends it.
bool Records::readField(size_t &at, StringRef &field) {
  size_t begins = text.find_first_not_of(' ', at);
  if (begins != StringRef::npos && text[begins] == '"')
    at = begins;
  if (at >= text.size() || text[at] != '"') {
    const char ends[] = {separator, '\n'};
    size_t end =
        std::min(text.find_first_of(StringRef(ends, 2), at), text.size());
    if (end - at > kMaxField)
      return false;
    field = text.slice(at, end).trim(" \t\r");
    at = end;
    return true;
  }
  size_t begin = ++at;
  bool escapes = false;
  while (true) {
    size_t quote = text.slice(at, begin + kMaxField).find('"');
    if (quote == StringRef::npos)
      return false;
    at += quote + 1;
    if (at < text.size() && text[at] == '"') {
      escapes = true;
      ++at;
      continue;
    }
    break;
  }
  field = text.slice(begin, at - 1);
  if (escapes) {
    std::string &whole = unescaped.emplace_back();
    for (size_t place = 0; place < field.size(); ++place) {
      whole += field[place];
      place += field[place] == '"';
    }
    field = whole;
  }
  if (at < text.size() && text[at] == '\r')
    ++at;
  return at >= text.size() || text[at] == separator || text[at] == '\n';
}

bool Records::next(SmallVectorImpl<StringRef> &fields) & {
  while (position < text.size() && damaged <= kMaxDamaged) {
    fields.clear();
    unescaped.clear();
    size_t at = position;
    bool whole = true;
    while (whole) {
      whole =
          fields.size() < kMaxColumns && readField(at, fields.emplace_back());
      if (!whole || at >= text.size() || text[at] == '\n')
        break;
      ++at;
    }
    if (whole) {
      position = at + 1;
      return true;
    }
    ++damaged;
    position = std::min(text.find('\n', position), text.size() - 1) + 1;
  }
  return false;
}

//===----------------------------------------------------------------------===//
// Numbers and units
//===----------------------------------------------------------------------===//

namespace {
/// Which of point and comma stands before fractions: it differs by the language
/// of the machine that printed, and only all numbers together show it.
class NumberForm {
public:
  /// Takes what the number `text`, if it is one, says of the form.
  void observe(StringRef text);
  bool isMixed() const { return points && commas; }
  /// Absent where `text` is no finite number.
  std::optional<double> read(StringRef text) const;

private:
  uint64_t points = 0, commas = 0;
};
} // namespace

/// The value of a metric without those of its instances, which may follow it
/// (--print-metric-instances): "12.5 (0: 12; 1: 13)".
static StringRef withoutInstances(StringRef text) {
  size_t end = text.find(" (");
  return end == StringRef::npos || !text.ends_with(")") ? text
                                                        : text.take_front(end);
}

/// `text` without the marks between thousands that are neither point nor comma;
/// empty where it is no number.
static StringRef cleanNumber(StringRef text, SmallVectorImpl<char> &buffer) {
  buffer.clear();
  for (text = withoutInstances(text.trim()); !text.empty();) {
    // Spaces that do not break, and the Swiss apostrophe.
    if (text.consume_front("\xC2\xA0") || text.consume_front("\xE2\x80\xAF") ||
        text.consume_front("\xE2\x80\x99"))
      continue;
    char c = text.front();
    text = text.drop_front();
    if (c == ' ' || c == '\'')
      continue;
    if (!isDigit(c) && !StringRef(".,+-eE").contains(c))
      return "";
    buffer.push_back(c);
  }
  return {buffer.data(), buffer.size()};
}

void NumberForm::observe(StringRef text) {
  SmallString<32> buffer;
  StringRef number = cleanNumber(text, buffer).ltrim("+-");
  size_t point = number.rfind('.'), comma = number.rfind(',');
  if (point == StringRef::npos && comma == StringRef::npos)
    return;
  if (point != StringRef::npos && comma != StringRef::npos) {
    ++(point > comma ? points : commas);
    return;
  }
  bool isPoint = point != StringRef::npos;
  size_t at = isPoint ? point : comma;
  char mark = number[at];
  StringRef rest = number.drop_front(at + 1);
  size_t fraction = rest.find_first_not_of("0123456789");
  fraction = std::min(fraction, rest.size());
  if (number.count(mark) > 1)
    ++(isPoint ? commas : points); // between thousands: the other is free
  else if (fraction != 3 || at > 3 || at == 0 || number.front() == '0')
    ++(isPoint ? points : commas);
}

std::optional<double> NumberForm::read(StringRef text) const {
  SmallString<32> buffer, plain;
  char decimal = commas > points ? ',' : '.';
  for (char c : cleanNumber(text, buffer)) {
    if (c == decimal)
      plain += '.';
    else if (c != ',' && c != '.')
      plain += c;
  }
  double value = 0;
  // A number that starts or ends with the point is none of ncu's.
  if (plain.empty() || !to_float(plain, value) || !std::isfinite(value))
    return std::nullopt;
  return value;
}

namespace {
/// What multiplies a value with a unit into nanoseconds, bytes, or a rate of
/// them a second.
struct Unit {
  double factor = 1;
  bool isPercent = false;
  bool isTime = false;
  bool isSize = false;
};
} // namespace

/// Nanoseconds of a unit of time; 0 where it is none.
static double getTimeFactor(StringRef unit) {
  return StringSwitch<double>(unit)
      .Cases({"nsecond", "ns"}, 1)
      .Cases({"usecond", "us", "\xC2\xB5s", "\xCE\xBCs"}, 1e3)
      .Cases({"msecond", "ms"}, 1e6)
      .Cases({"second", "s", "sec"}, 1e9)
      .Default(0);
}

/// What the letters before a unit multiply it by; 0 where they are none.
static double getPrefix(StringRef letters) {
  // 1 Kbyte of ncu is 1000 bytes, and 1 KiB is 1024 everywhere.
  return StringSwitch<double>(letters)
      .Case("", 1)
      .CaseLower("k", 1e3)
      .CaseLower("m", 1e6)
      .CaseLower("g", 1e9)
      .CaseLower("t", 1e12)
      .CaseLower("ki", 0x1p10)
      .CaseLower("mi", 0x1p20)
      .CaseLower("gi", 0x1p30)
      .CaseLower("ti", 0x1p40)
      .Default(0);
}

static double getFrequencyFactor(StringRef unit) {
  return unit.consume_back_insensitive("hz") ? getPrefix(unit) : 0;
}

/// Bytes of a unit of size; 0 where it is none.
static double getSizeFactor(StringRef unit) {
  // A small b is a bit to many.
  return unit.consume_back_insensitive("byte") ||
                 unit.consume_back_insensitive("bytes") ||
                 unit.consume_back("B")
             ? getPrefix(unit)
             : 0;
}

static Unit parseUnit(StringRef text) {
  Unit unit;
  text = text.trim();
  unit.isPercent = text == "%";
  auto [what, per] = text.split('/');
  double time = getTimeFactor(what), size = getSizeFactor(what);
  unit.isTime = time > 0;
  unit.isSize = size > 0;
  for (double factor : {time, size, getFrequencyFactor(what)})
    if (factor > 0)
      unit.factor = factor;
  // A rate is stated a second.
  if (double second = getTimeFactor(per))
    unit.factor *= 1e9 / second;
  return unit;
}

/// Whether a metric is of times or sizes, and its unit is of neither: its value
/// cannot be told in nanoseconds or bytes.
static bool isOfOtherUnit(StringRef metric, const Unit &unit) {
  if (unit.isPercent)
    return false;
  if (metric.contains("__time_duration"))
    return !unit.isTime;
  return (metric.contains("__bytes") || metric.contains("_bytes.")) &&
         !unit.isSize;
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

/// The metric that the details page shows under a label, which versions change.
/// A label of two metrics is told by its unit.
static StringRef metricOfLabel(StringRef label, bool isPercent) {
  // A metric that was asked for by its name is called so, alone or behind the
  // label (--print-metric-name).
  for (StringRef word : split(label, ' '))
    if (word.contains("__"))
      return word.trim("()[]");
  if (label == "Memory Throughput")
    return isPercent ? "gpu__compute_memory_throughput.avg.pct_of_peak_"
                       "sustained_elapsed"
                     : "dram__bytes.sum.per_second";
  return StringSwitch<StringRef>(label)
      .Case("Duration", "gpu__time_duration.sum")
      .Case("Elapsed Cycles", "sm__cycles_elapsed.max")
      .Case("SM Active Cycles", "sm__cycles_active.avg")
      .Cases(
          {"Compute (SM) Throughput", "Compute (SM) [%]", "SM [%]", "SOL SM"},
          "sm__throughput.avg.pct_of_peak_sustained_elapsed")
      .Cases({"Memory [%]", "SOL Memory"},
             "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed")
      .Cases({"DRAM Throughput", "SOL DRAM"},
             "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed")
      .Cases({"L1/TEX Cache Throughput", "SOL L1/TEX Cache", "SOL TEX"},
             "l1tex__throughput.avg.pct_of_peak_sustained_active")
      .Cases({"L2 Cache Throughput", "SOL L2 Cache", "SOL L2"},
             "lts__throughput.avg.pct_of_peak_sustained_elapsed")
      .Cases({"L1/TEX Hit Rate", "L1 Hit Rate"}, "l1tex__t_sector_hit_rate.pct")
      .Case("L2 Hit Rate", "lts__t_sector_hit_rate.pct")
      .Case("Achieved Occupancy",
            "sm__warps_active.avg.pct_of_peak_sustained_active")
      .Case("One or More Eligible",
            "smsp__issue_active.avg.pct_of_peak_sustained_active")
      .Case("Issued Warp Per Scheduler", "smsp__issue_active.avg.per_cycle_"
                                         "active")
      .Case("Executed Ipc Active", "sm__inst_executed.avg.per_cycle_active")
      .Cases({"Warp Cycles Per Issued Instruction",
              "Warp Cycles Per Issue Active"},
             "smsp__average_warp_latency_per_inst_issued.ratio")
      .Case("Avg. Active Threads Per Warp",
            "smsp__thread_inst_executed_per_inst_executed.ratio")
      .Case("Executed Instructions", "smsp__inst_executed.sum")
      .Case("Registers Per Thread", "launch__registers_per_thread")
      .Case("Static Shared Memory Per Block",
            "launch__shared_mem_per_block_static")
      .Case("Dynamic Shared Memory Per Block",
            "launch__shared_mem_per_block_dynamic")
      .Case("# SMs", "launch__sm_count")
      .Default("");
}

/// Whether a metric says nothing of what ran: attributes of the device and of
/// its links, and how ncu itself went.
static bool isAboutKernel(StringRef metric) {
  for (StringRef room : {"device__", "numa__", "nvlink__", "c2clink__",
                         "profiler__", "launch__", "pcie__", "sass__"})
    if (metric.starts_with(room))
      return false;
  return metric.contains("__");
}

//===----------------------------------------------------------------------===//
// Reader
//===----------------------------------------------------------------------===//

namespace {
/// Where a table has what is the same on both pages.
struct Columns {
  std::optional<size_t> id, process, host, kernel, stream, block, grid, device,
      capability, section, metric, unit, value;
  size_t count = 0;
  /// The page of a row a metric.
  bool isDetails() const { return section || metric || unit || value; }

  /// A column that no page is read without, and that is not there.
  StringRef findMissing() const {
    if (!id)
      return "ID";
    if (!kernel)
      return "Kernel Name";
    if (isDetails() && !metric)
      return "Metric Name";
    if (isDetails() && !unit)
      return "Metric Unit";
    return isDetails() && !value ? "Metric Value" : "";
  }
};

/// Takes one metric of one kernel as its page has it.
using TakeValue =
    function_ref<void(StringRef name, StringRef unit, StringRef text)>;

class Reader {
public:
  explicit Reader(Trace &trace) : trace(trace) {}

  Error read(StringRef text, bool needsTimes);

private:
  Error fail(const Twine &message) {
    return createStringError(trace.file + ": " + message);
  }
  /// Where the table begins, or why there is none.
  Expected<size_t> findTable(StringRef text);
  /// Whether the record is the header of a table, which then is the one that is
  /// read.
  bool readHeader(ArrayRef<StringRef> fields);
  /// Calls `row` with each row of the tables, and with what it is of.
  void forEachRow(StringRef text, function_ref<void(ArrayRef<StringRef>)> row);
  void forEachValue(ArrayRef<StringRef> fields, TakeValue take) const;
  void readRow(ArrayRef<StringRef> fields);
  /// The kernel that the row is of; null where the row makes no sense.
  TraceActivity *findKernel(ArrayRef<StringRef> fields);
  void beginTable();
  void take(TraceActivity &kernel, StringRef name, StringRef unit,
            StringRef text);
  void takeFact(TraceActivity &kernel, StringRef name, StringRef text,
                double value);
  Device &deviceOf(const TraceActivity &kernel);
  Error finish(bool needsTimes);

  Trace &trace;
  char separator = ',';
  NumberForm numbers;
  Columns columns;
  /// Of the table at hand: names, and units of the raw page.
  std::vector<std::string> names, units;
  bool expectsUnits = false;
  /// A metric of a table that says nothing of units.
  std::string unitless;
  StringMap<uint32_t> counterPlaces;
  /// Kernels of the table at hand by host, process, id and name, and where the
  /// table's begin.
  using Key = std::tuple<std::string, std::string, std::string, std::string>;
  std::map<Key, uint32_t> kernels;
  Key lastKernel;
  size_t tableBegin = 0;
  /// Of the details page: kernels and the counters that they have.
  DenseSet<std::pair<uint32_t, uint32_t>> taken;
  uint64_t lost = 0;
  /// Values left out for the unit that they are in, and the first of those.
  uint64_t unread = 0;
  std::string unreadUnit;
  /// Tables of the same kernels that were put on those before them.
  uint64_t merged = 0;
};
} // namespace

static std::optional<std::array<uint64_t, 3>> readTriple(StringRef text) {
  std::array<uint64_t, 3> triple{1, 1, 1};
  text = text.trim("() ");
  SmallVector<StringRef, 3> parts;
  text.split(parts, ',');
  if (parts.size() > 3)
    return std::nullopt;
  for (auto [place, part] : enumerate(parts))
    if (part.trim().getAsInteger(10, triple[place]))
      return std::nullopt;
  return triple;
}

/// What stands between the fields of the line that `text` begins with.
static char separatorOf(StringRef text) {
  if (text.consume_front("\""))
    text = text.drop_front(std::min(text.find('"'), text.size()));
  size_t at = text.find_first_of(",;\t\n");
  return at == StringRef::npos ? '\n' : text[at];
}

/// Whether these are names of columns of ncu's: those that each page has, or
/// two that others hardly have, so that one without a column is told, too.
static bool isHeader(ArrayRef<StringRef> fields) {
  if (is_contained(fields, "ID") && is_contained(fields, "Kernel Name"))
    return true;
  return count_if(fields, [](StringRef field) {
           return is_contained({"Process ID", "Process Name", "Host Name",
                                "Kernel Name", "Block Size", "Grid Size",
                                "Section Name", "Metric Name", "Metric Unit",
                                "Metric Value", "Invocations"},
                               field);
         }) >= 2;
}

/// Whether the text at a line's beginning is the header of a page.
static bool beginsTable(StringRef line) {
  // A header is a line, and no JSON.
  line = line.take_until([](char c) { return c == '\n'; });
  if (line.starts_with("{") || line.starts_with("[") || line.size() > kMaxField)
    return false;
  SmallVector<StringRef> fields;
  Records records(line, separatorOf(line));
  return records.next(fields) && isHeader(fields);
}

/// Where a line that begins a table starts; npos where none does.
static size_t findHeader(StringRef text) {
  text = text.take_front(kMaxPreamble);
  for (size_t at = 0; at < text.size();) {
    if (beginsTable(text.drop_front(at)))
      return at;
    size_t end = text.find('\n', at);
    if (end == StringRef::npos)
      break;
    at = end + 1;
  }
  return StringRef::npos;
}

/// Whether text without a mark is in UTF-16 of either order: half of the bytes
/// of what both pages begin with are zeros.
static bool looksLikeUTF16(StringRef text, bool isBig) {
  text = text.take_front(4);
  if (text.size() < 4)
    return false;
  for (auto [place, c] : enumerate(text))
    if ((c == 0) == ((place % 2 == 1) == isBig))
      return false;
  return true;
}

/// Text in UTF-16, as PowerShell redirects and stores it, in UTF-8: nothing
/// where it is none, empty where it is damaged.
static std::optional<std::string> fromUTF16(StringRef text) {
  constexpr StringLiteral kLittle = "\xFF\xFE", kBig = "\xFE\xFF";
  std::string marked;
  if (!text.starts_with(kLittle) && !text.starts_with(kBig)) {
    bool isBig = looksLikeUTF16(text, true);
    if (!isBig && !looksLikeUTF16(text, false))
      return std::nullopt;
    marked = ((isBig ? kBig : kLittle) + text).str();
    text = marked;
  }
  std::string converted;
  if (!convertUTF16ToUTF8String(ArrayRef(text.data(), text.size() & ~1ull),
                                converted))
    return "";
  return converted;
}

bool opprof::trace::isNcuPage(StringRef begin) {
  // Before anything is taken from the front: units of two bytes are aligned.
  if (std::optional<std::string> text = fromUTF16(begin)) {
    // What shows the kind may be cut in a letter of two units.
    if (text->empty())
      text = fromUTF16(begin.drop_back(std::min<size_t>(2, begin.size())));
    return text && !text->empty() && isNcuPage(*text);
  }
  begin.consume_front("\xEF\xBB\xBF");
  return begin.starts_with("==PROF==") || begin.starts_with("==WARNING==") ||
         begin.starts_with("\"#\",\"Address\",\"Source\"") ||
         findHeader(begin) != StringRef::npos;
}

Expected<size_t> Reader::findTable(StringRef text) {
  constexpr StringLiteral kAgain = "ncu --import REPORT --csv --page raw";
  size_t at = findHeader(text);
  if (at == StringRef::npos)
    return fail(
        text.starts_with("\"#\",")
            ? "the source page of Nsight Compute, which has instructions and "
              "no kernels; print the other one: " +
                  kAgain
            : "no table of Nsight Compute begins in it: ncu counted nothing, "
              "or printed no CSV; make it with " +
                  kAgain);
  separator = separatorOf(text.drop_front(at));
  SmallVector<StringRef> fields;
  Records header(text.drop_front(at), separator);
  header.next(fields);
  if (is_contained(fields, "Invocations"))
    return fail("a summary of Nsight Compute, which has no kernel by itself; "
                "print it without --print-summary: " +
                kAgain);
  readHeader(fields);
  if (StringRef missing = columns.findMissing(); !missing.empty())
    return fail("the table of Nsight Compute has no column \"" + missing +
                "\"; print it again: " + kAgain);
  return at;
}

bool Reader::readHeader(ArrayRef<StringRef> fields) {
  if (!isHeader(fields))
    return false;
  columns = Columns();
  columns.count = fields.size();
  names.clear();
  units.assign(fields.size(), "");
  for (auto [place, field] : enumerate(fields)) {
    auto *column = StringSwitch<std::optional<size_t> *>(field)
                       .Case("ID", &columns.id)
                       .Case("Process ID", &columns.process)
                       .Case("Host Name", &columns.host)
                       .Case("Kernel Name", &columns.kernel)
                       .Case("Stream", &columns.stream)
                       .Case("Block Size", &columns.block)
                       .Case("Grid Size", &columns.grid)
                       .Case("Device", &columns.device)
                       .Case("CC", &columns.capability)
                       .Case("Section Name", &columns.section)
                       .Case("Metric Name", &columns.metric)
                       .Case("Metric Unit", &columns.unit)
                       .Case("Metric Value", &columns.value)
                       .Default(nullptr);
    if (column && !*column)
      *column = place;
    // Some put the unit behind the name: "gpu__time_duration.sum [us]".
    auto [name, unit] = field.split(" [");
    bool hasUnit = unit.consume_back("]") && name.contains("__");
    if (hasUnit)
      units[place] = unit.str();
    names.push_back(hasUnit ? name.str() : field.str());
  }
  expectsUnits = !columns.isDetails();
  return true;
}

void Reader::forEachRow(StringRef text,
                        function_ref<void(ArrayRef<StringRef>)> row) {
  Records records(text, separator);
  SmallVector<StringRef> fields;
  while (records.next(fields)) {
    if (readHeader(fields)) {
      beginTable();
      continue;
    }
    if (!columns.findMissing().empty()) {
      ++lost;
      continue;
    }
    // Empty lines, and what ncu and the program print in between.
    if (fields.size() == 1)
      continue;
    if (fields.size() != columns.count) {
      ++lost;
      continue;
    }
    if (std::exchange(expectsUnits, false)) {
      if (fields[*columns.id].empty()) {
        for (auto [place, unit] : enumerate(fields))
          if (!unit.empty())
            units[place] = unit.str();
        continue;
      }
      if (all_of(units, [](StringRef unit) { return unit.empty(); }))
        for (StringRef name : names)
          if (unitless.empty() && isAboutKernel(name))
            unitless = name.str();
    }
    row(fields);
  }
  lost += records.damaged;
}

void Reader::forEachValue(ArrayRef<StringRef> fields, TakeValue take) const {
  if (columns.isDetails()) {
    take(fields[*columns.metric],
         columns.unit ? fields[*columns.unit] : StringRef(),
         fields[*columns.value]);
    return;
  }
  for (auto [name, unit, text] : zip_equal(names, units, fields))
    if (StringRef(name).contains("__"))
      take(name, unit, text);
}

/// Passes over the same kernels have other metrics in a table of their own: one
/// that has the kernels of the table before it, in their order, adds to them.
void Reader::beginTable() {
  size_t begin = std::exchange(tableBegin, trace.activities.size());
  kernels.clear();
  lastKernel = {};
  size_t count = tableBegin - begin;
  if (!begin || count > begin)
    return;
  auto sameWork = [](const TraceActivity &a, const TraceActivity &b) {
    return a.name == b.name && a.config->grid == b.config->grid &&
           a.config->block == b.config->block;
  };
  size_t before = begin - count;
  for (size_t place = 0; place < count; ++place)
    if (!sameWork(trace.activities[before + place],
                  trace.activities[begin + place]))
      return;
  // A value that both have was counted twice: the tables are of two runs.
  for (size_t place = 0; place < count; ++place) {
    SmallDenseSet<uint32_t> known;
    for (const auto &value : trace.counters[before + place])
      known.insert(value.first);
    for (const auto &value : trace.counters[begin + place])
      if (known.contains(value.first))
        return;
  }
  for (size_t place = 0; place < count; ++place) {
    append_range(trace.counters[before + place], trace.counters[begin + place]);
    TraceActivity &first = trace.activities[before + place];
    const TraceActivity &second = trace.activities[begin + place];
    if (!first.durationNs)
      first.durationNs = second.durationNs;
    LaunchConfig &config = first.config.own();
    if (!config.registers)
      config.registers = second.config->registers;
    if (!config.staticShared)
      config.staticShared = second.config->staticShared;
    if (!config.dynamicShared)
      config.dynamicShared = second.config->dynamicShared;
  }
  trace.activities.resize(begin);
  trace.counters.resize(begin);
  tableBegin = begin;
  ++merged;
}

TraceActivity *Reader::findKernel(ArrayRef<StringRef> fields) {
  StringRef id = fields[*columns.id];
  uint64_t number;
  if (id.getAsInteger(10, number) || fields[*columns.kernel].empty())
    return nullptr;
  auto at = [&](std::optional<size_t> column) {
    return column ? fields[*column] : StringRef();
  };
  auto key = std::tuple(at(columns.host).str(), at(columns.process).str(),
                        id.str(), fields[*columns.kernel].str());
  // Processes count alike: where none is named, the first kernel comes again.
  bool isNext = !columns.process && (!columns.isDetails() || key != lastKernel);
  auto [it, isNew] = kernels.try_emplace(key, trace.activities.size());
  lastKernel = std::move(key);
  if (!isNew && !isNext)
    return &trace.activities[it->second];
  it->second = trace.activities.size();
  TraceActivity &kernel = trace.activities.emplace_back();
  kernel.name = trace.intern(fields[*columns.kernel]);
  kernel.counters = trace.counters.size();
  trace.counters.emplace_back();
  int64_t integer;
  if (!at(columns.stream).getAsInteger(10, integer))
    kernel.stream = integer;
  if (!at(columns.device).getAsInteger(10, integer))
    kernel.device = integer;
  kernel.config.own().grid = readTriple(at(columns.grid));
  kernel.config.own().block = readTriple(at(columns.block));
  auto [major, minor] = at(columns.capability).split('.');
  std::array<uint64_t, 2> capability;
  Device &device = deviceOf(kernel);
  if (!major.getAsInteger(10, capability[0]) &&
      !minor.getAsInteger(10, capability[1]))
    device.computeCapability = capability;
  return &kernel;
}

Device &Reader::deviceOf(const TraceActivity &kernel) {
  for (Device &device : trace.devices)
    if (device.id == kernel.device)
      return device;
  Device &device = trace.devices.emplace_back();
  device.id = kernel.device;
  device.kind = "cuda";
  return device;
}

/// What the kernel was launched with, and what of the device.
void Reader::takeFact(TraceActivity &kernel, StringRef name, StringRef text,
                      double value) {
  if (name == "device__attribute_display_name") {
    deviceOf(kernel).name = text.str();
    return;
  }
  // Sizes are whole, and none is that large.
  if (!(value >= 0) || value > 1e15 || value != std::floor(value))
    return;
  auto number = uint64_t(value);
  auto setAxis = [&](std::optional<std::array<uint64_t, 3>> &size) {
    if (!size)
      size = {1, 1, 1};
    (*size)[name.back() - 'x'] = number;
  };
  // Another version may name something else so.
  auto isAxisOf = [&](StringRef prefix) {
    return name.size() == prefix.size() + 1 && name.starts_with(prefix) &&
           name.back() >= 'x' && name.back() <= 'z';
  };
  if (isAxisOf("launch__grid_dim_"))
    return setAxis(kernel.config.own().grid);
  if (isAxisOf("launch__block_dim_"))
    return setAxis(kernel.config.own().block);
  if (name == "launch__registers_per_thread")
    kernel.config.own().registers = number;
  else if (name == "launch__shared_mem_per_block_dynamic")
    kernel.config.own().dynamicShared = number;
  else if (name == "launch__shared_mem_per_block_static")
    kernel.config.own().staticShared = number;
  Device &device = deviceOf(kernel);
  if (name == "launch__sm_count" ||
      name == "device__attribute_multiprocessor_count")
    device.smCount = number;
  else if (name == "device__attribute_warp_size")
    device.warpSize = number;
  else if (name == "device__attribute_max_threads_per_multiprocessor")
    device.maxThreadsPerSM = number;
  else if (name == "device__attribute_max_registers_per_multiprocessor")
    device.registersPerSM = number;
  else if (name == "device__attribute_max_shared_memory_per_multiprocessor")
    device.sharedPerSM = number;
}

void Reader::take(TraceActivity &kernel, StringRef name, StringRef unitText,
                  StringRef text) {
  Unit unit = parseUnit(unitText);
  if (columns.isDetails())
    name = metricOfLabel(name, unit.isPercent);
  if (name.empty() || text.empty())
    return;
  std::optional<double> number = numbers.read(text);
  if (number && !unitText.empty() && isOfOtherUnit(name, unit)) {
    if (!unread++)
      unreadUnit = unitText.str();
    return;
  }
  double value = number.value_or(std::nan("")) * unit.factor;
  if (!isAboutKernel(name))
    return takeFact(kernel, name, text, value);
  // No counter counts further.
  if (!(std::abs(value) <= 1e18))
    return;
  auto [it, isNew] = counterPlaces.try_emplace(name, trace.counterNames.size());
  if (isNew)
    trace.counterNames.push_back(name.str());
  auto &row = trace.counters[*kernel.counters];
  // Sections of the details page show some metrics twice.
  if (columns.isDetails() &&
      !taken.insert({*kernel.counters, it->second}).second)
    return;
  row.push_back({it->second, value});
  if (name == "gpu__time_duration.sum" || name == "gpu__time_duration.avg" ||
      name == "gpu__time_duration.max")
    if (value >= 0 && value < double(kMaxTotalNs))
      kernel.durationNs = std::llround(value);
}

void Reader::readRow(ArrayRef<StringRef> fields) {
  TraceActivity *kernel = findKernel(fields);
  if (!kernel) {
    ++lost;
    return;
  }
  forEachValue(fields, [&](StringRef name, StringRef unit, StringRef text) {
    take(*kernel, name, unit, text);
  });
}

Error Reader::finish(bool needsTimes) {
  beginTable();
  if (trace.activities.empty())
    return fail(Twine("no kernel in the table of Nsight Compute") +
                (lost ? ": " + Twine(lost) +
                            (lost == 1 ? " row is" : " rows are") + " damaged"
                      : Twine()));
  int64_t total = 0;
  uint64_t untimed = 0;
  for (TraceActivity &kernel : trace.activities) {
    untimed += !kernel.durationNs;
    if (kernel.durationNs > kMaxTotalNs - total)
      return fail("the times of its kernels add up to more than lifetimes");
    // One after another, since when each ran is not known.
    kernel.startNs = total;
    total += kernel.durationNs;
    LaunchConfig config = *kernel.config;
    if (config.staticShared || config.dynamicShared)
      config.sharedMemory =
          config.staticShared.value_or(0) + config.dynamicShared.value_or(0);
    kernel.config = trace.configs.keep(config);
  }
  for (Device &device : trace.devices)
    device.dropZeros();
  if (needsTimes && untimed == trace.activities.size())
    return fail("Nsight Compute did not count how long kernels took; collect "
                "gpu__time_duration.sum (any of ncu's sets has it)");
  auto add = [&](const Twine &note) { trace.notes.push_back(note.str()); };
  if (needsTimes && untimed)
    add(Twine(untimed) + " kernels have no time");
  if (lost)
    add(Twine(lost) + (lost == 1 ? " row" : " rows") + " of the table " +
        (lost == 1 ? "is" : "are") + " damaged and left out");
  if (unread)
    add(Twine(unread) + (unread == 1 ? " value is" : " values are") +
        " left out, as what units (the first one is \"" + unreadUnit +
        "\") are in nanoseconds or bytes is not known; print the table again "
        "with --print-units base");
  if (numbers.isMixed())
    add("numbers are printed in two languages: those of the rarer one may be "
        "misread; print all of them with LC_ALL=C");
  if (merged)
    add(Twine(merged + 1) + " tables of the same kernels were put together");
  return Error::success();
}

Error Reader::read(StringRef text, bool needsTimes) {
  std::optional<std::string> converted = fromUTF16(text);
  if (converted && converted->empty())
    return fail("the UTF-16 text is damaged; print the table again");
  if (converted)
    text = *converted;
  text.consume_front("\xEF\xBB\xBF");
  Expected<size_t> begin = findTable(text);
  if (!begin)
    return begin.takeError();
  text = text.drop_front(*begin);
  // How numbers are printed shows in all of them together.
  forEachRow(text, [&](ArrayRef<StringRef> fields) {
    ++trace.events;
    forEachValue(fields, [&](StringRef, StringRef, StringRef value) {
      numbers.observe(value);
    });
  });
  if (!unitless.empty())
    return fail("the column \"" + unitless +
                "\" has no unit: the row of units below the header is missing; "
                "print the table again: ncu --import REPORT --csv --page raw");
  lost = 0;
  forEachRow(text, [&](ArrayRef<StringRef> fields) { readRow(fields); });
  return finish(needsTimes);
}

static Expected<std::unique_ptr<Trace>> readPage(MemoryBufferRef buffer,
                                                 bool needsTimes) {
  auto trace = std::make_unique<Trace>();
  trace->kind = kNcuKind.str();
  trace->file = buffer.getBufferIdentifier().str();
  if (Error error = Reader(*trace).read(buffer.getBuffer(), needsTimes))
    return error;
  return trace;
}

Expected<std::unique_ptr<Trace>>
opprof::trace::readNcu(MemoryBufferRef buffer, const ReadOptions &options) {
  Expected<std::unique_ptr<Trace>> trace =
      readPage(buffer, /*needsTimes=*/true);
  if (trace)
    (*trace)->notes.push_back(
        "Nsight Compute runs kernels one by one, with caches and clocks of its "
        "own (--cache-control, --clock-control): there is no timeline, and "
        "kernels stand one after another");
  return trace;
}

Expected<std::unique_ptr<Trace>>
opprof::trace::readCountedKernels(MemoryBufferRef buffer) {
  return readUnpacked(buffer, {}, [](MemoryBufferRef page) {
    return readPage(page, /*needsTimes=*/false);
  });
}
