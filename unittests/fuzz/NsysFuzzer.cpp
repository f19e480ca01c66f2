// Feeds the reader of Nsight Systems' exports random databases. What it takes
// is made into a profile.
//
// Changed bytes seldom leave a database that SQLite reads, so most changes are
// of its rows and columns, by SQLite itself.

#include "ProfileChecks.h"
#include "opprof/Trace/Reader.h"

#include <random>
#include <sqlite3.h>

using namespace llvm;
using namespace opprof;
using namespace opprof::join;
using namespace opprof::profile;
using namespace opprof::trace;

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

namespace {
/// A database in memory that random statements change.
class Mutation {
public:
  explicit Mutation(unsigned seed) : random(seed) {
    require(sqlite3_open(":memory:", &database) == SQLITE_OK);
  }
  ~Mutation() { sqlite3_close(database); }
  Mutation(const Mutation &) = delete;
  Mutation &operator=(const Mutation &) = delete;

  unsigned below(unsigned end) { return random() % end; }

  bool load(const uint8_t *data, size_t size) {
    // SQLite frees it.
    auto *copy = static_cast<unsigned char *>(sqlite3_malloc64(size));
    std::memcpy(copy, data, size);
    return sqlite3_deserialize(database, "main", copy, size, size,
                               SQLITE_DESERIALIZE_FREEONCLOSE |
                                   SQLITE_DESERIALIZE_RESIZEABLE) == SQLITE_OK;
  }

  /// One change; false where the database has nothing to change or is damaged.
  bool change() {
    std::string table = oneOf("SELECT name FROM sqlite_schema WHERE "
                              "type = 'table' AND name NOT LIKE 'sqlite_%'");
    std::string column =
        oneOf("SELECT name FROM pragma_table_info('" + table + "')");
    if (table.empty() || column.empty())
      return false;
    std::string row = "(SELECT rowid FROM \"" + table +
                      "\" LIMIT 1 OFFSET abs(random()) % (SELECT count(*) + "
                      "1 FROM \"" +
                      table + "\"))";
    switch (below(16)) {
    case 0:
      return run("DROP TABLE \"" + table + "\"");
    case 1:
      return run("ALTER TABLE \"" + table + "\" DROP COLUMN \"" + column +
                 "\"");
    case 2:
      return run("ALTER TABLE \"" + table +
                 "\" RENAME TO other; CREATE VIEW "
                 "\"" +
                 table + "\" AS SELECT * FROM other");
    case 3:
    case 4:
      return run("DELETE FROM \"" + table + "\" WHERE rowid = " + row);
    case 5:
    case 6:
    case 7:
      return run("INSERT INTO \"" + table + "\" SELECT * FROM \"" + table +
                 "\" WHERE rowid = " + row);
    default:
      return run("UPDATE \"" + table + "\" SET \"" + column +
                 "\" = " + value(column) + " WHERE rowid = " + row);
    }
  }

  /// Puts the database to `data`; its size, or 0 where it has no room.
  size_t store(uint8_t *data, size_t maxSize) {
    sqlite3_int64 size = 0;
    unsigned char *bytes = sqlite3_serialize(database, "main", &size, 0);
    bool fits = bytes && size > 0 && size_t(size) <= maxSize;
    if (fits)
      std::memcpy(data, bytes, size);
    sqlite3_free(bytes);
    return fits ? size : 0;
  }

private:
  bool run(const std::string &statements) {
    return sqlite3_exec(database, statements.c_str(), nullptr, nullptr,
                        nullptr) == SQLITE_OK;
  }

  /// A value of a list, by chance.
  std::string oneOf(const std::string &list) {
    std::vector<std::string> values;
    sqlite3_exec(
        database, list.c_str(),
        [](void *all, int, char **texts, char **) {
          if (texts[0])
            static_cast<std::vector<std::string> *>(all)->push_back(texts[0]);
          return 0;
        },
        &values, nullptr);
    return values.empty() ? "" : values[below(values.size())];
  }

  /// What a column is set to.
  std::string value(const std::string &column) {
    static constexpr StringLiteral kValues[] = {
        "0",
        "1",
        "-1",
        "7",
        "59",
        "4096",
        "16777216",
        "4294967295",
        "4294967296",
        "1000000000000",
        "9223372036854775807",
        "(-9223372036854775807 - 1)",
        "NULL",
        "1.5",
        "9e999",
        "x'00ff'",
        "''",
        "'aten::mm, seq = 9, sizes = [[2, 3], [3]'",
        "'aten::add, op_id = 3, sizes = [[], [1]]'",
        "'nccl:all_reduce'",
        "'ampere_sgemm_128x64_tn'",
        "'ProfilerStep#3'",
        "CAST(x'ff3c2f7363726970743e1b5b' AS TEXT)",
        "abs(random() % 10000)"};
    std::string old = "\"" + column + "\"";
    switch (below(4)) {
    case 0:
      return old + " + 1";
    case 1:
      return old + " * 2 - 1";
    default:
      return kValues[below(std::size(kValues))].str();
    }
  }

  sqlite3 *database = nullptr;
  std::minstd_rand random;
};
} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t maxSize, unsigned seed) {
  // Inputs with one seed have one outcome.
  sqlite3_test_control(SQLITE_TESTCTRL_PRNG_SEED, int(seed | 1), nullptr);
  Mutation mutation(seed);
  if (mutation.below(8) == 0 || !mutation.load(data, size))
    return LLVMFuzzerMutate(data, size, maxSize);
  bool changed = false;
  for (unsigned changes = 1 + mutation.below(4); changes; --changes)
    changed |= mutation.change();
  size_t stored = changed ? mutation.store(data, maxSize) : 0;
  return stored ? stored : LLVMFuzzerMutate(data, size, maxSize);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // The beginning that makes it one is given.
  std::string file("SQLite format 3\0", 16);
  file += toText(data, size).drop_front(std::min<size_t>(size, 16));
  Expected<std::unique_ptr<Trace>> trace = readTrace({file, "fuzz"});
  if (!trace) {
    consumeError(trace.takeError());
    return 0;
  }
  checkProfile(**trace, AttributionInputs());
  return 0;
}
