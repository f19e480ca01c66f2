// How the program of a profile was run.

#include "opprof/Profile/RunFacts.h"
#include "RunFactsReading.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::profile;
using opprof::JSONReading;
using simdjson::dom::element;
using simdjson::dom::object;

Error opprof::profile::readProgramFacts(JSONReading &reader, object from,
                                        RunFacts &facts) {
  if (Error error = reader.getString(from, "program", facts.program, false))
    return error;
  if (Error error = reader.getString(from, "ended", facts.ended, false))
    return error;
  if (Error error = reader.getInteger(from, "exit_status", facts.exitStatus))
    return error;
  if (Error error = reader.getString(from, "mode", facts.mode, false))
    return error;
  return reader.getString(from, "differs", facts.differs, false);
}

static Error readCompilation(JSONReading &reader, object from,
                             Compilation &compilation) {
  for (auto [key, text] : {std::pair("id", &compilation.id),
                           std::pair("function", &compilation.function),
                           std::pair("source", &compilation.source),
                           std::pair("reason", &compilation.reason),
                           std::pair("failed", &compilation.failed)})
    if (Error error = reader.getString(from, key, *text, false))
      return error;
  if (Error error =
          reader.getInteger(from, "compile_ns", compilation.compileNs))
    return error;
  int64_t time = compilation.compileNs.value_or(0);
  if (time < 0 || time > kMaxTotalNs)
    return reader.fail(Twine(time) + " ns is no time of a compilation");
  return reader.getArray(from, "compiled_graphs", false, [&](element name) {
    return reader.getText(name, compilation.compiledGraphs.emplace_back());
  });
}

static Error readGraphBreak(JSONReading &reader, object from,
                            GraphBreak &graphBreak) {
  for (auto [key, text] : {std::pair("reason", &graphBreak.reason),
                           std::pair("hint", &graphBreak.hint),
                           std::pair("source", &graphBreak.source)})
    if (Error error = reader.getString(from, key, *text, false))
      return error;
  std::optional<uint64_t> count;
  if (Error error = reader.getInteger(from, "compilations", count))
    return error;
  graphBreak.compilations = count.value_or(1);
  return Error::success();
}

Error opprof::profile::readCompilations(JSONReading &reader, object from,
                                        RunFacts &facts) {
  if (Error error =
          reader.getObjects(from, "compilations", false, [&](object entry) {
            return readCompilation(reader, entry,
                                   facts.compilations.emplace_back());
          }))
    return error;
  return reader.getObjects(from, "graph_breaks", false, [&](object entry) {
    return readGraphBreak(reader, entry, facts.graphBreaks.emplace_back());
  });
}

Error opprof::profile::readCounterFacts(JSONReading &reader, object from,
                                        RunFacts &facts) {
  if (Error error = reader.getString(from, "metrics", facts.metrics, false))
    return error;
  if (Error error = reader.getInteger(from, "passes", facts.passes))
    return error;
  return reader.getString(from, "caches", facts.caches, false);
}

Error opprof::profile::readMemoryFacts(JSONReading &reader, object from,
                                       RunFacts &facts) {
  if (Error error = reader.getInteger(from, "peak_bytes", facts.peakBytes))
    return error;
  return reader.getInteger(from, "peak_reserved_bytes",
                           facts.peakReservedBytes);
}

namespace {
class RunFactsReader : public JSONReading {
public:
  using JSONReading::JSONReading;

  Error read(element root, RunFacts &facts);
};
} // namespace

Error RunFactsReader::read(element root, RunFacts &facts) {
  object keys;
  if (Error error = getObject(root, keys))
    return error;
  if (Error error = checkVersion(keys, 1, "a run.json", "`opprof profile`"))
    return error;
  if (Error error = readProgramFacts(*this, keys, facts))
    return error;
  if (Error error = readCompilations(*this, keys, facts))
    return error;
  if (Error error = inObject(keys, "versions", [&](object versions) {
        return getString(versions, "torch", facts.torch, false);
      }))
    return error;
  if (Error error = inObject(keys, "step", [&](object step) -> Error {
        if (Error error = getInteger(step, "loop_ns", facts.loopNs))
          return error;
        return getInteger(step, "median_ns", facts.stepNs);
      }))
    return error;
  if (Error error = inObject(keys, "eager_step", [&](object step) {
        return getInteger(step, "median_ns", facts.eagerStepNs);
      }))
    return error;
  for (const std::optional<int64_t> &time :
       {facts.stepNs, facts.loopNs, facts.eagerStepNs})
    if (time && (*time < 0 || *time > kMaxTotalNs))
      return fail(Twine(*time) + " ns is no time of a step");
  if (Error error = inObject(keys, "memory", [&](object memory) {
        return readMemoryFacts(*this, memory, facts);
      }))
    return error;
  return inObject(keys, "counters", [&](object counters) -> Error {
    if (Error error = getString(counters, "mode", facts.counters, false))
      return error;
    if (Error error = readCounterFacts(*this, counters, facts))
      return error;
    return getString(counters, "left_out", facts.countersLeftOut, false);
  });
}

Expected<RunFacts> opprof::profile::readRunFacts(StringRef text,
                                                 StringRef name) {
  RunFacts facts;
  RunFactsReader reader(name);
  if (Error error = reader.parse(
          text, [&](element root) { return reader.read(root, facts); }))
    return error;
  return facts;
}
