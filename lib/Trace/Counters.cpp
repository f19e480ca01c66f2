// Reading counters.json.

#include "opprof/Trace/Counters.h"

#include "opprof/Capture/CaptureReader.h"
#include "opprof/Support/ReadingLimits.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::trace;
using simdjson::dom::element;
using simdjson::dom::object;

Error opprof::trace::readIdentity(const JSONReading &reading, object from,
                                  Identity &identity) {
  if (Error error = reading.getString(from, "file", identity.file, false))
    return error;
  if (Error error = reading.getString(from, "node", identity.node, false))
    return error;
  if (Error error = reading.getString(from, "stage", identity.stage, false))
    return error;
  // Beside a launch, "graph" may also say that it is a CUDA graph's.
  element graph;
  if (JSONReading::find(from, "graph", graph) && !graph.is_bool())
    if (Error error = reading.getString(from, "graph", identity.graph, true))
      return error;
  std::optional<uint32_t> line;
  if (Error error = reading.getInteger(from, "line", line))
    return error;
  identity.line = line.value_or(0);
  return Error::success();
}

namespace {
class Reader : public JSONReading {
public:
  Reader(StringRef name, CountersFile &file) : JSONReading(name), file(file) {}

  Error read(element root);

private:
  Error readMade(object from);
  Error readLaunch(object from);
  Error readRow(object from);
  Error readCounted(object from, CounterRow &row);
  Error readWhole(object from);
  Error readReport(object from);

  CountersFile &file;
  /// Raw counters that values are made of, which stand for them. Others were
  /// asked for, and are kept.
  StringSet<> made;
};
} // namespace

Error Reader::readMade(object from) {
  return getEntries(from, "made_of",
                    [&](const std::string &value, element names) {
                      return forEach(names, value, [&](element item) {
                        std::string name;
                        Error error = getText(item, name);
                        made.insert(name);
                        return error;
                      });
                    });
}

Error Reader::readLaunch(object from) {
  uint64_t index;
  if (Error error = getRequired(from, "index", index))
    return error;
  if (index != file.launches.size())
    return fail("\"index\" must be the place in the list");
  CountedLaunch &launch = file.launches.emplace_back();
  if (Error error = getString(from, "kernel", launch.kernel, true))
    return error;
  launch.kernel = capture::demangled(launch.kernel);
  return readIdentity(*this, from, launch.identity);
}

/// What there is of a range, be it round a launch or the whole step.
Error Reader::readCounted(object from, CounterRow &row) {
  std::map<std::string, double> raw;
  if (Error error = getNumbers(from, "raw", raw))
    return error;
  for (const auto &[name, value] : raw)
    if (!made.contains(name))
      row.values[name] = value;
  if (Error error = getNumbers(from, "metrics", row.values))
    return error;
  return getTexts(from, "absent", row.absent);
}

Error Reader::readRow(object from) {
  auto launchAt = [&](uint64_t index) -> Expected<CountedLaunch *> {
    if (index >= file.launches.size())
      return fail("launch " + Twine(index) + " is not in \"launches\"");
    return &file.launches[index];
  };
  uint64_t index;
  if (Error error = getRequired(from, "launch", index))
    return error;
  Expected<CountedLaunch *> counted = launchAt(index);
  if (!counted)
    return counted.takeError();
  (*counted)->row = file.rows.size();
  CounterRow &row = file.rows.emplace_back();
  if (Error error =
          getString(from, "inferred", file.elsewhere.emplace_back(), false))
    return error;
  if (Error error = readCounted(from, row))
    return error;
  return getArray(from, "stands_for", false, [&](element item) -> Error {
    uint64_t other;
    if (item.get(other))
      return fail("expected a whole number");
    Expected<CountedLaunch *> launch = launchAt(other);
    if (!launch)
      return launch.takeError();
    if (other != index)
      (*launch)->countedFor = uint32_t(index);
    return Error::success();
  });
}

Error Reader::readWhole(object from) {
  return inObject(from, "whole", [&](object whole) -> Error {
    StepCounters &step = file.whole.emplace();
    if (Error error = readCounted(whole, step.row))
      return error;
    return readReport(whole);
  });
}

Error Reader::readReport(object from) {
  return inObject(from, "report", [&](object report) -> Error {
    for (StringRef key : {"failed", "skipped"}) {
      std::string text;
      if (Error error = getString(report, key, text, false))
        return error;
      if (!text.empty())
        file.notes.push_back("no counters: " + text);
    }
    std::map<std::string, std::string> absent;
    if (Error error = getTexts(report, "absent", absent))
      return error;
    for (const auto &[name, reason] : absent) {
      // Asked for of kernels and of the whole step, it is missing once.
      std::string note = name + " was not collected: " + reason;
      if (!is_contained(file.notes, note))
        file.notes.push_back(std::move(note));
    }
    return Error::success();
  });
}

Error Reader::read(element root) {
  object keys;
  if (Error error = getObject(root, keys))
    return error;
  if (Error error = checkVersion(keys, 1, "a file of counters",
                                 "`opprof profile --counters=…`"))
    return error;
  if (Error error = readMade(keys))
    return error;
  element value;
  simdjson::dom::array steps;
  if (!find(keys, "steps", value) || value.get(steps))
    return fail("the key \"steps\" is missing, or is no array");
  if (steps.size() == 0)
    return Error::success();
  size_t last = steps.size() - 1;
  return in("steps[" + Twine(last) + "]", [&]() -> Error {
    object step;
    if (Error error = getObject(steps.at(last).value_unsafe(), step))
      return error;
    if (Error error = getObjects(step, "launches", true,
                                 [&](object item) { return readLaunch(item); }))
      return error;
    if (Error error = getObjects(step, "counters", true,
                                 [&](object item) { return readRow(item); }))
      return error;
    if (Error error = readWhole(step))
      return error;
    return readReport(step);
  });
}

Expected<CountersFile> opprof::trace::readCounters(StringRef text,
                                                   StringRef name) {
  limitReading(name, text.size(), kPlainBudget);
  CountersFile file;
  Reader reader(name, file);
  if (Error error =
          reader.parse(text, [&](element root) { return reader.read(root); }))
    return error;
  return file;
}
