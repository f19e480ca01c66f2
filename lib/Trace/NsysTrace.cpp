// SQLite exports of Nsight Systems (`nsys export --type sqlite`), as versions
// 2023 to 2026 write them. Columns come and go between versions: each table is
// asked for those that it has, and what it lacks is unknown. The file is read
// in place, is never written, and runs nothing of its own: views, triggers and
// virtual tables are passed over, and the work on it is bounded by its size.

#include "Readers.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/Twine.h"

#include <sqlite3.h>

#include <map>
#include <set>
#include <unordered_map>

using namespace llvm;
using namespace opprof;
using namespace opprof::trace;

bool opprof::trace::isSQLite(StringRef data) {
  return data.starts_with(StringRef("SQLite format 3\0", 16));
}

namespace {
struct CloseDatabase {
  void operator()(sqlite3 *database) const { sqlite3_close(database); }
};
struct FinalizeStatement {
  void operator()(sqlite3_stmt *statement) const {
    sqlite3_finalize(statement);
  }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;
using Statement = std::unique_ptr<sqlite3_stmt, FinalizeStatement>;

/// A row, with its values by the places that Reader::forEach was given names
/// for.
class Row {
public:
  Row(sqlite3_stmt *statement, ArrayRef<int> places)
      : statement(statement), places(places) {}

  /// Absent where the table has no such column or the value is no integer.
  std::optional<int64_t> integer(size_t column) const {
    int place = places[column];
    if (place < 0 || sqlite3_column_type(statement, place) != SQLITE_INTEGER)
      return std::nullopt;
    return sqlite3_column_int64(statement, place);
  }
  std::optional<uint64_t> count(size_t column) const {
    std::optional<int64_t> value = integer(column);
    return value && *value >= 0 ? std::optional(uint64_t(*value))
                                : std::nullopt;
  }
  StringRef text(size_t column) const {
    int place = places[column];
    if (place < 0 || sqlite3_column_type(statement, place) != SQLITE_TEXT)
      return "";
    const unsigned char *text = sqlite3_column_text(statement, place);
    return {reinterpret_cast<const char *>(text),
            size_t(sqlite3_column_bytes(statement, place))};
  }
  std::optional<std::array<uint64_t, 3>> triple(size_t first) const {
    std::optional<uint64_t> x = count(first), y = count(first + 1),
                            z = count(first + 2);
    if (!x || !y || !z)
      return std::nullopt;
    return std::array<uint64_t, 3>{*x, *y, *z};
  }

private:
  sqlite3_stmt *statement;
  ArrayRef<int> places;
};

class Reader {
public:
  explicit Reader(Trace &trace) : trace(trace) {}

  Error read(StringRef data);

private:
  Error fail(const Twine &message) {
    return createStringError(trace.file + ": " + message);
  }
  Error open(StringRef data);
  Statement prepare(const std::string &text);
  /// The columns of a plain table; none where there is no such table.
  StringMap<bool> columnsOf(StringRef table);
  bool hasTable(StringRef table) { return !columnsOf(table).empty(); }
  /// Calls `visit` with each row of a table. A table that is not there has
  /// none, and of one that is damaged what comes before the damage is read.
  /// Rows of events are counted as such.
  void forEach(StringRef table, ArrayRef<StringRef> columns,
               function_ref<void(const Row &)> visit, bool isCounted = true);
  /// The text of StringIds, or empty.
  StringRef nameOf(std::optional<int64_t> id);
  /// The enumerators of a table of them, by their numbers.
  DenseMap<int64_t, std::string> namesIn(StringRef table);
  ThreadId threadOf(std::optional<int64_t> globalId);
  /// The device of the machine that a process calls so.
  int64_t deviceOf(int64_t id, std::optional<int64_t> globalId) const;
  /// What correlation ids are of: they are a process's own.
  std::optional<uint64_t> correlationOf(std::optional<uint64_t> id,
                                        std::optional<int64_t> globalId);
  /// Times of an event; false, and it is lost, where they make no sense.
  bool readTimes(const Row &row, int64_t &startNs, int64_t &durationNs);
  void place(const Row &row, ActivityKind kind, StringRef name);
  void readDevices();
  void readProcesses();
  void readKernels();
  void readGraphs();
  void readCopies();
  void readCalls();
  void readRanges();
  void readOverheads(StringRef table);
  void readClock();
  void countOthers();
  void noteLosses();
  void noteProcesses();
  void notePassedOver();
  Error finish();

  Trace &trace;
  Database database;
  Statement findName;
  DenseMap<int64_t, StringRef> names;
  std::unordered_map<int64_t, ThreadId> threadIds;
  DenseMap<int64_t, uint64_t> processes;
  /// What has the name of a table that is read, and is none that holds
  /// anything by itself.
  std::set<std::string> passedOver;
  /// The one process that made calls, if it is one.
  std::optional<int64_t> onlyProcess;
  /// By process and CUDA's number of a device there.
  std::map<std::pair<int64_t, int64_t>, int64_t> devices;
  /// Of the devices that no table ties to the machine's, the processes that
  /// name them.
  std::map<int64_t, std::set<int64_t>> usersOf;
  /// Processes' correlations whose kernels were recorded one by one.
  DenseSet<uint64_t> seenInside;
  uint64_t lost = 0;
  uint64_t endless = 0;
  /// Of `lost`: those that ran on a device without anyone having seen when.
  uint64_t untimed = 0;
  int64_t totalDuration = 0;
  /// Steps of SQLite's machine that are left.
  int64_t stepsLeft = 0;
};
} // namespace

/// How many steps of SQLite's machine come between two looks at the bound.
static constexpr int kStepsAtOnce = 100'000;

Error Reader::open(StringRef data) {
  sqlite3 *opened = nullptr;
  if (sqlite3_open_v2(":memory:", &opened,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
                      nullptr) != SQLITE_OK) {
    sqlite3_close(opened);
    return fail("SQLite can't be started: there may be too little memory");
  }
  database.reset(opened);
  // The data are not written: the database is read-only.
  auto *bytes =
      reinterpret_cast<unsigned char *>(const_cast<char *>(data.data()));
  if (sqlite3_deserialize(opened, "main", bytes, data.size(), data.size(),
                          SQLITE_DESERIALIZE_READONLY) != SQLITE_OK)
    return fail("SQLite does not take it: " + Twine(sqlite3_errmsg(opened)));
  sqlite3_db_config(opened, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(opened, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_limit(opened, SQLITE_LIMIT_LENGTH, 64 << 20);
  sqlite3_exec(opened, "PRAGMA cell_size_check=ON", nullptr, nullptr, nullptr);
  // A row takes some 100 steps and 50 bytes at least.
  stepsLeft = 100'000'000 + 100 * int64_t(data.size());
  sqlite3_progress_handler(
      opened, kStepsAtOnce,
      [](void *self) -> int {
        return (static_cast<Reader *>(self)->stepsLeft -= kStepsAtOnce) < 0;
      },
      this);
  return Error::success();
}

Statement Reader::prepare(const std::string &text) {
  sqlite3_stmt *statement = nullptr;
  if (sqlite3_prepare_v2(database.get(), text.c_str(), -1, &statement,
                         nullptr) != SQLITE_OK)
    return nullptr;
  return Statement(statement);
}

static StringRef toText(const unsigned char *text) {
  return text ? StringRef(reinterpret_cast<const char *>(text)) : StringRef();
}

StringMap<bool> Reader::columnsOf(StringRef table) {
  StringMap<bool> columns;
  Statement kind = prepare("SELECT type, sql FROM sqlite_schema WHERE "
                           "type IN ('table', 'view') AND name='" +
                           table.str() + "'");
  if (!kind || sqlite3_step(kind.get()) != SQLITE_ROW)
    return columns;
  StringRef type = toText(sqlite3_column_text(kind.get(), 0));
  if (type != "table" || !toText(sqlite3_column_text(kind.get(), 1))
                              .starts_with_insensitive("CREATE TABLE")) {
    passedOver.insert(table.str());
    return columns;
  }
  Statement list = prepare("PRAGMA table_xinfo('" + table.str() + "')");
  while (list && sqlite3_step(list.get()) == SQLITE_ROW) {
    const unsigned char *name = sqlite3_column_text(list.get(), 1);
    // Hidden columns and those that are computed are none of nsys's.
    if (name && sqlite3_column_int(list.get(), 6) == 0)
      columns[reinterpret_cast<const char *>(name)] = true;
  }
  return columns;
}

void Reader::forEach(StringRef table, ArrayRef<StringRef> columns,
                     function_ref<void(const Row &)> visit, bool isCounted) {
  StringMap<bool> known = columnsOf(table);
  if (known.empty())
    return;
  SmallVector<int> places;
  std::string list;
  int next = 0;
  for (StringRef column : columns) {
    if (!known.contains(column)) {
      places.push_back(-1);
      continue;
    }
    list += (next ? ", \"" : "\"") + column.str() + "\"";
    places.push_back(next++);
  }
  if (list.empty())
    return;
  Statement rows = prepare("SELECT " + list + " FROM \"" + table.str() + "\"");
  uint64_t count = 0;
  int status = rows ? SQLITE_ROW : SQLITE_ERROR;
  while (rows && (status = sqlite3_step(rows.get())) == SQLITE_ROW) {
    visit(Row(rows.get(), places));
    ++count;
  }
  if (isCounted)
    trace.events += count;
  if (status == SQLITE_DONE)
    return;
  std::string note = (table + " is damaged or cut off after " + Twine(count) +
                      " rows: " + sqlite3_errmsg(database.get()) +
                      "; what comes before is read")
                         .str();
  if (!is_contained(trace.notes, note))
    trace.notes.push_back(std::move(note));
}

StringRef Reader::nameOf(std::optional<int64_t> id) {
  // The largest numbers are DenseMap's own.
  if (!id || !findName || *id < 0 || *id > INT64_MAX - 2)
    return "";
  auto [it, inserted] = names.try_emplace(*id);
  if (inserted) {
    sqlite3_reset(findName.get());
    sqlite3_bind_int64(findName.get(), 1, *id);
    if (sqlite3_step(findName.get()) == SQLITE_ROW)
      if (const unsigned char *text = sqlite3_column_text(findName.get(), 0))
        it->second = trace.intern(reinterpret_cast<const char *>(text));
  }
  return it->second;
}

DenseMap<int64_t, std::string> Reader::namesIn(StringRef table) {
  DenseMap<int64_t, std::string> found;
  forEach(
      table, {"id", "name", "label"},
      [&](const Row &row) {
        std::optional<uint64_t> id = row.count(0);
        if (id && *id < 1000)
          found[*id] = (row.text(1) + " " + row.text(2)).str();
      },
      /*isCounted=*/false);
  return found;
}

/// A thread's number, and a process's, holds the process above 24 bits, and
/// what it runs on above that.
static int64_t processOf(int64_t globalId) {
  return int64_t(uint64_t(globalId) >> 24);
}

ThreadId Reader::threadOf(std::optional<int64_t> globalId) {
  int64_t id = globalId.value_or(0);
  auto [it, inserted] = threadIds.try_emplace(id);
  if (inserted)
    it->second = trace.addThread(std::to_string(processOf(id)));
  return it->second;
}

std::optional<uint64_t> Reader::correlationOf(std::optional<uint64_t> id,
                                              std::optional<int64_t> globalId) {
  if (!id || !*id || *id > UINT32_MAX)
    return std::nullopt;
  int64_t process = globalId ? processOf(*globalId) : onlyProcess.value_or(0);
  return processes.try_emplace(process, processes.size()).first->second << 32 |
         *id;
}

int64_t Reader::deviceOf(int64_t id, std::optional<int64_t> globalId) const {
  if (!globalId && !onlyProcess)
    return id;
  int64_t process = globalId ? processOf(*globalId) : *onlyProcess;
  auto it = devices.find({process & 0xFFFFFF, id});
  return it == devices.end() ? id : it->second;
}

bool Reader::readTimes(const Row &row, int64_t &startNs, int64_t &durationNs) {
  std::optional<int64_t> start = row.integer(0), end = row.integer(1);
  // What was called before the recording began has a time before 0.
  if (!start || !end || *start < -kMaxTotalNs || *end < *start ||
      *end > kMaxTotalNs || *end - *start > kMaxTotalNs ||
      *end - *start > kMaxTotalNs - totalDuration) {
    ++lost;
    return false;
  }
  startNs = *start;
  durationNs = *end - *start;
  totalDuration += durationNs;
  return true;
}

void Reader::readDevices() {
  // Kernels name a device by its id, as nsys's own reports join them; what CUDA
  // calls it differs where devices are hidden from a process.
  forEach(
      "TARGET_INFO_GPU",
      {"id", "cuDevice", "name", "smCount", "totalMemory", "threadsPerWarp",
       "maxWarpsPerSm", "computeMajor", "computeMinor", "maxRegistersPerSm",
       "maxShmemPerSm"},
      [&](const Row &row) {
        std::optional<int64_t> id = row.integer(0);
        if (!id)
          id = row.integer(1);
        if (!id)
          return;
        Device device;
        device.id = *id;
        device.kind = "cuda";
        device.name = row.text(2).str();
        device.smCount = row.count(3);
        device.totalMemory = row.count(4);
        device.warpSize = row.count(5);
        std::optional<uint64_t> warps = row.count(6);
        if (warps && *warps < 1024 && device.warpSize.value_or(0) < 1024)
          device.maxThreadsPerSM = *warps * device.warpSize.value_or(32);
        if (std::optional<uint64_t> major = row.count(7), minor = row.count(8);
            major && minor)
          device.computeCapability = {*major, *minor};
        device.registersPerSM = row.count(9);
        device.sharedPerSM = row.count(10);
        device.dropZeros();
        trace.devices.push_back(device);
      },
      /*isCounted=*/false);
  forEach(
      "TARGET_INFO_CUDA_DEVICE", {"gpuId", "cudaId", "pid"},
      [&](const Row &row) {
        std::optional<int64_t> gpu = row.integer(0), cuda = row.integer(1),
                               process = row.integer(2);
        if (gpu && cuda && process)
          devices[{*process & 0xFFFFFF, *cuda}] = *gpu;
      },
      /*isCounted=*/false);
}

/// Exports without the processes of kernels are of one.
void Reader::readProcesses() {
  std::set<int64_t> found;
  forEach(
      "CUPTI_ACTIVITY_KIND_RUNTIME", {"globalTid"},
      [&](const Row &row) {
        if (std::optional<int64_t> id = row.integer(0); id && found.size() < 2)
          found.insert(processOf(*id));
      },
      /*isCounted=*/false);
  if (found.size() == 1)
    onlyProcess = *found.begin();
}

// The first columns of everything that a device ran.
#define OPPROF_PLACE                                                           \
  "start", "end", "deviceId", "streamId", "correlationId", "globalPid",        \
      "graphNodeId"
static constexpr size_t kPlaces = 7;

void Reader::place(const Row &row, ActivityKind kind, StringRef name) {
  // CUPTI's way to say that it could not see when.
  if (row.integer(0) == 0 && row.integer(1) == 0) {
    ++untimed;
    return;
  }
  TraceActivity activity;
  if (!readTimes(row, activity.startNs, activity.durationNs))
    return;
  activity.kind = kind;
  activity.name = trace.intern(name);
  std::optional<int64_t> process = row.integer(5);
  int64_t device = row.integer(2).value_or(0);
  activity.device = deviceOf(device, process);
  if (process && devices.empty())
    usersOf[device].insert(processOf(*process));
  activity.stream = row.integer(3);
  activity.correlation = correlationOf(row.count(4), process);
  if (std::optional<uint64_t> node = row.count(6); node && *node) {
    activity.graphNode = node;
    if (activity.correlation)
      seenInside.insert(*activity.correlation);
  }
  trace.activities.push_back(activity);
}

void Reader::readKernels() {
  forEach("CUPTI_ACTIVITY_KIND_KERNEL",
          {OPPROF_PLACE, "demangledName", "shortName", "gridX", "gridY",
           "gridZ", "blockX", "blockY", "blockZ", "registersPerThread",
           "staticSharedMemory", "dynamicSharedMemory", "localMemoryPerThread"},
          [&](const Row &row) {
            StringRef name = nameOf(row.integer(kPlaces));
            if (name.empty())
              name = nameOf(row.integer(kPlaces + 1));
            size_t before = trace.activities.size();
            place(row, ActivityKind::Kernel,
                  name.empty() ? "(kernel without a name)" : name);
            if (trace.activities.size() == before)
              return;
            TraceActivity &kernel = trace.activities.back();
            LaunchConfig config;
            config.grid = row.triple(kPlaces + 2);
            config.block = row.triple(kPlaces + 5);
            config.registers = row.count(kPlaces + 8);
            std::optional<uint64_t> fixed = row.count(kPlaces + 9),
                                    dynamic = row.count(kPlaces + 10);
            if (fixed && dynamic && *fixed < UINT32_MAX &&
                *dynamic < UINT32_MAX)
              config.sharedMemory = *fixed + *dynamic;
            config.localMemory = row.count(kPlaces + 11);
            kernel.config = trace.configs.keep(config);
          });
}

/// Graphs that were traced as one: what ran in them is not known. A replay
/// whose kernels are there too would count twice.
void Reader::readGraphs() {
  size_t before = trace.activities.size();
  uint64_t known = 0;
  forEach("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", {OPPROF_PLACE, "graphId"},
          [&](const Row &row) {
            std::optional<uint64_t> correlation =
                correlationOf(row.count(4), row.integer(5));
            if (correlation && seenInside.contains(*correlation)) {
              ++known;
              return;
            }
            std::string name = "CUDA graph";
            if (std::optional<uint64_t> id = row.count(kPlaces))
              name += " " + std::to_string(*id);
            place(row, ActivityKind::Kernel, name);
          });
  if (size_t graphs = trace.activities.size() - before)
    trace.notes.push_back(
        (Twine(graphs) +
         " replays of CUDA graphs were traced as a whole, and stand for the "
         "kernels in them; record with --cuda-graph-trace=node to see those")
            .str());
  if (known)
    trace.notes.push_back((Twine(known) +
                           " replays of CUDA graphs are left out as a whole: "
                           "their kernels are there one by one")
                              .str());
}

/// "HtoD": CUPTI's numbers, which nsys keeps.
static StringRef copyKindOf(std::optional<int64_t> kind) {
  static constexpr StringLiteral kKinds[] = {
      "Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD",
      "HtoH", "PtoP",
      // Pages of unified memory.
      "HtoD (Unified)", "DtoH (Unified)", "DtoD (Unified)"};
  return kind && *kind >= 0 && *kind < int64_t(std::size(kKinds))
             ? kKinds[*kind]
             : kKinds[0];
}

void Reader::readCopies() {
  DenseMap<int64_t, std::string> kinds = namesIn("ENUM_CUDA_MEM_KIND");
  // Exports before 2023 have no such table, and the same numbers.
  if (kinds.empty())
    kinds = {{0, "Pageable"}, {1, "Pinned"}, {2, "Device"}, {3, "Array"},
             {4, "Managed"},  {5, "Device"}, {6, "Managed"}};
  auto memory = [&](std::optional<int64_t> kind) -> StringRef {
    if (!kind || *kind < 0 || *kind >= 1000)
      return "";
    StringRef name = kinds[*kind];
    for (StringRef known : {"Pageable", "Pinned", "Managed", "Device", "Array"})
      if (name.contains_insensitive(known))
        return known;
    return "";
  };
  forEach("CUPTI_ACTIVITY_KIND_MEMCPY",
          {OPPROF_PLACE, "copyKind", "bytes", "srcKind", "dstKind"},
          [&](const Row &row) {
            std::string name =
                "Memcpy " + copyKindOf(row.integer(kPlaces)).str();
            StringRef from = memory(row.integer(kPlaces + 2)),
                      to = memory(row.integer(kPlaces + 3));
            if (!from.empty() && !to.empty() && !isOfPages(name))
              name += (" (" + from + " -> " + to + ")").str();
            size_t before = trace.activities.size();
            place(row, ActivityKind::Memcpy, name);
            if (trace.activities.size() > before)
              trace.activities.back().bytes = row.count(kPlaces + 1);
          });
  forEach("CUPTI_ACTIVITY_KIND_MEMSET", {OPPROF_PLACE, "bytes"},
          [&](const Row &row) {
            size_t before = trace.activities.size();
            place(row, ActivityKind::Memset, "Memset (Device)");
            if (trace.activities.size() > before)
              trace.activities.back().bytes = row.count(kPlaces);
          });
}

/// "cudaLaunchKernel" of "cudaLaunchKernel_v7000".
static StringRef dropVersion(StringRef name) {
  auto [base, version] = name.rsplit("_v");
  return !version.empty() && all_of(version, isDigit) ? base : name;
}

void Reader::readCalls() {
  forEach("CUPTI_ACTIVITY_KIND_RUNTIME",
          {"start", "end", "globalTid", "correlationId", "nameId"},
          [&](const Row &row) {
            RuntimeCall call;
            if (!readTimes(row, call.startNs, call.durationNs))
              return;
            call.name = dropVersion(nameOf(row.integer(4)));
            call.thread = threadOf(row.integer(2));
            call.correlation = correlationOf(row.count(3), row.integer(2));
            trace.runtimeCalls.push_back(call);
          });
  // Without calls of the runtime, waits are all that is known of the host.
  if (hasTable("CUPTI_ACTIVITY_KIND_RUNTIME"))
    return;
  forEach("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", {"start", "end", "globalPid"},
          [&](const Row &row) {
            RuntimeCall call;
            if (!readTimes(row, call.startNs, call.durationNs))
              return;
            call.name = "Synchronize";
            call.thread = threadOf(row.integer(2));
            trace.runtimeCalls.push_back(call);
          });
}

/// What torch.autograd.profiler.emit_nvtx puts behind an operator's name:
/// "aten::mm, seq = 4, sizes = [[2, 3], [3, 4]]".
static void readOperator(StringRef text, HostOp &op, Trace &trace) {
  auto [name, rest] = text.split(", ");
  if (!rest.starts_with("seq = ") && !rest.starts_with("sizes = ") &&
      !rest.starts_with("op_id = "))
    return;
  // Of a function of autograd too the calls are told apart by numbers only.
  op.name = name;
  if (!name.contains("::") || name.contains(' '))
    return;
  op.annotation = false;
  StringRef number = rest;
  int64_t sequence;
  if (number.consume_front("seq = ") && !number.consumeInteger(10, sequence))
    op.sequenceNumber = sequence;
  size_t sizes = rest.find("sizes = [");
  if (sizes == StringRef::npos)
    return;
  StringRef list = rest.substr(sizes + 8);
  size_t depth = 0;
  for (size_t at = 0; at < list.size(); ++at) {
    depth += list[at] == '[';
    if (list[at] == ']' && --depth == 0) {
      OperatorInputs inputs;
      // Each operator says its own, and most say what others said.
      inputs.dims = trace.intern(list.take_front(at + 1));
      op.inputs = trace.placeOf(inputs);
      return;
    }
  }
}

void Reader::readRanges() {
  // Ranges that are pushed and popped, those that start and end, and both as
  // they are imported from text; an export's own numbers count.
  std::set<int64_t> types;
  for (const auto &[id, name] : namesIn("ENUM_NSYS_EVENT_TYPE"))
    if (is_contained({"NvtxPushPopRange", "NvtxStartEndRange",
                      "NvtxtPushPopRange", "NvtxtStartEndRange"},
                     StringRef(name).split(' ').first))
      types.insert(id);
  if (types.empty())
    types = {59, 60, 70, 71};
  forEach("NVTX_EVENTS",
          {"start", "end", "eventType", "globalTid", "text", "textId"},
          [&](const Row &row) {
            std::optional<int64_t> type = row.integer(2);
            // Marks have no end, and domains no time.
            if (type && !types.contains(*type))
              return;
            if (std::optional<int64_t> end = row.integer(1); !end || *end < 0) {
              ++endless;
              return;
            }
            HostOp op;
            if (!readTimes(row, op.startNs, op.durationNs))
              return;
            StringRef text = row.text(4);
            text = text.empty() ? nameOf(row.integer(5)) : trace.intern(text);
            op.name = text;
            op.annotation = true;
            op.thread = threadOf(row.integer(3));
            readOperator(text, op, trace);
            trace.hostOps.push_back(op);
          });
}

/// What CUPTI's own work took of the host: buffers, code that it instruments.
/// What CUDA itself takes, to load functions for one, is in another table since
/// 2026.
void Reader::readOverheads(StringRef table) {
  DenseMap<int64_t, std::string> types = namesIn("ENUM_CUPTI_OVERHEAD_TYPE");
  forEach(table, {"start", "end", "nameId", "overheadType"},
          [&](const Row &row) {
            ProfilerOverhead overhead;
            if (!readTimes(row, overhead.startNs, overhead.durationNs))
              return;
            overhead.kind = nameOf(row.integer(2));
            if (std::optional<uint64_t> type = row.count(3);
                overhead.kind.empty() && type && *type < 1000)
              overhead.kind =
                  trace.intern(StringRef(types[*type]).split(' ').second);
            trace.overheads.push_back(overhead);
          });
}

/// Says of what a device did that is neither kernel nor copy how much there is.
void Reader::countOthers() {
  static constexpr std::pair<StringLiteral, StringLiteral> kOthers[] = {
      {"CUPTI_ACTIVITY_KIND_MEM_DECOMPRESS",
       "decompressions by the copy engine"},
      {"CUPTI_ACTIVITY_KIND_GRAPH_HOST_NODE_AND_HOST_LAUNCH",
       "functions of the host that streams waited for"},
      {"CUDA_UM_GPU_PAGE_FAULT_EVENTS", "page faults of devices"},
  };
  for (const auto &[table, what] : kOthers) {
    uint64_t count = 0;
    forEach(table, {"start"}, [&](const Row &) { ++count; });
    if (count)
      trace.notes.push_back(
          (Twine(count) + " " + what + " (" + table + ") are left out").str());
  }
}

void Reader::readClock() {
  forEach(
      "TARGET_INFO_SESSION_START_TIME", {"utcEpochNs"},
      [&](const Row &row) { trace.baseTimeNs = row.integer(0); },
      /*isCounted=*/false);
}

void Reader::noteLosses() {
  auto note = [&](uint64_t count, StringRef one, StringRef many) {
    if (count)
      trace.notes.push_back((Twine(count) + (count == 1 ? one : many)).str());
  };
  std::string of = (" of " + Twine(trace.events)).str();
  note(lost, " event" + of + " has times that make no sense, and is left out",
       " events" + of + " have times that make no sense, and are left out");
  note(
      untimed,
      " kernel, copy or graph has no time, as CUPTI could not see when it ran, "
      "and is left out",
      " kernels, copies or graphs have no time, as CUPTI could not see when "
      "they ran, and are left out");
  note(endless, " range has no end, and is left out",
       " ranges have no end, and are left out");
}

/// Someone made it of what nsys wrote, and may take it for read.
void Reader::notePassedOver() {
  if (!passedOver.empty())
    trace.notes.insert(
        trace.notes.begin(),
        llvm::join(passedOver, ", ") +
            (passedOver.size() == 1
                 ? " is a view or a virtual table, and is not read"
                 : " are views or virtual tables, and are not read") +
            ", as nothing in a file is run: export again with `nsys export "
            "--type sqlite`, or copy the rows into a table");
}

void Reader::noteProcesses() {
  if (processes.size() > 1)
    trace.notes.push_back((Twine(processes.size()) +
                           " processes are in the file, and all of them are "
                           "counted")
                              .str());
  for (const auto &[device, users] : usersOf)
    if (users.size() > 1)
      trace.notes.push_back(
          (Twine(users.size()) + " processes name device " + Twine(device) +
           ", and nothing in the file says whether it is one: it is taken for "
           "one; export again with a newer nsys, or record each process alone")
              .str());
}

Error Reader::finish() {
  notePassedOver();
  if (trace.activities.empty() && trace.runtimeCalls.empty() &&
      trace.hostOps.empty()) {
    std::string why = trace.notes.empty() ? "" : ": " + trace.notes.front();
    return fail("not an export of Nsight Systems with anything of a GPU in it" +
                why +
                "; record with --trace=cuda,nvtx, and make the file with "
                "`nsys export --type sqlite`");
  }
  noteLosses();
  noteProcesses();
  return Error::success();
}

Error Reader::read(StringRef data) {
  if (Error error = open(data))
    return error;
  if (!prepare("SELECT count(*) FROM sqlite_schema"))
    return fail("the SQLite database can't be read: " +
                Twine(sqlite3_errmsg(database.get())) +
                "; copy it again, with the process that wrote it ended, or "
                "export it anew");
  if (hasTable("StringIds"))
    findName = prepare("SELECT value FROM StringIds WHERE id = ?");
  readDevices();
  readProcesses();
  readKernels();
  readCopies();
  readGraphs();
  readCalls();
  readRanges();
  readOverheads("PROFILER_OVERHEAD");
  readOverheads("CUPTI_ACTIVITY_KIND_OVERHEAD");
  countOthers();
  readClock();
  return finish();
}

Expected<std::unique_ptr<Trace>>
opprof::trace::readNsys(MemoryBufferRef buffer, const ReadOptions &options) {
  auto trace = std::make_unique<Trace>();
  trace->kind = "nsys";
  trace->file = buffer.getBufferIdentifier().str();
  if (Error error = Reader(*trace).read(buffer.getBuffer()))
    return error;
  return trace;
}
