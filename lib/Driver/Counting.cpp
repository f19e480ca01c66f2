// What the process that records asks while it counts: which raw counters to
// collect, which launches of a step to count, and the values of what was
// counted. JSON in, JSON out.

#include "opprof/Driver/Commands.h"
#include "opprof/Driver/Profiling.h"
#include "opprof/Join/Selection.h"
#include "opprof/Metrics/Catalogue.h"
#include "opprof/Support/InputFile.h"
#include "opprof/Support/JSONReading.h"
#include "opprof/Support/JSONWriting.h"
#include "opprof/Support/Units.h"
#include "opprof/Target/InductorCode/InductorFolder.h"
#include "opprof/Trace/Counters.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/MemoryBuffer.h"

#include <set>

using namespace opprof;
using namespace opprof::driver;
using join::SelectedLaunches;
using join::StepLaunch;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;
using simdjson::dom::element;
using simdjson::dom::object;

/// What errors call a request.
static StringRef nameOf(StringRef path) {
  return path == "-" ? "<stdin>" : path;
}

/// Reads the object in the file `path`, "-" for stdin, by `read(keys)`.
template <typename Reader>
static Error readRequest(StringRef path, Reader &reader) {
  llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> text =
      opprof::openInput(path);
  if (!text)
    return llvm::createStringError(path + ": " + text.getError().message());
  return reader.parse((*text)->getBuffer(), [&](element root) -> Error {
    object keys;
    if (Error error = reader.getObject(root, keys))
      return error;
    return reader.read(keys);
  });
}

/// Prints an object on stdout.
static void printObject(llvm::function_ref<void(llvm::json::OStream &)> body) {
  llvm::json::OStream json(llvm::outs());
  json.object([&] { body(json); });
  json.flush();
  llvm::outs() << '\n';
}

//===----------------------------------------------------------------------===//
// Which counters
//===----------------------------------------------------------------------===//

Error driver::showMetrics(StringRef names) {
  Expected<std::vector<std::string>> counters = metrics::resolve(names);
  if (!counters)
    return counters.takeError();
  printObject([&](llvm::json::OStream &json) {
    writeStrings(json, "counters", *counters);
    writeStrings(json, "with_local_memory",
                 metrics::getLocalMemoryCounters(*counters));
    json.attributeObject("made_of", [&] {
      for (const metrics::Metric &metric : metrics::getMetrics())
        if (!metric.needs.empty())
          json.attributeArray(metric.name, [&] {
            for (StringRef counter : metric.needs)
              json.value(counter);
          });
    });
  });
  return Error::success();
}

//===----------------------------------------------------------------------===//
// Which launches
//===----------------------------------------------------------------------===//

namespace {
class StepReader : public JSONReading {
public:
  using JSONReading::JSONReading;

  Error read(object keys);

  std::vector<StepLaunch> launches;
  bool countsAll = false;
  /// Those that the program itself chose.
  std::optional<std::vector<uint32_t>> chosen;
  /// What the launches' kernels are called where they are narrowed by that.
  std::vector<std::string> names;
  join::LaunchFilter filter;

private:
  Error readLaunch(object from);
  Error readSize(object from, StringRef key, std::array<uint64_t, 3> &size);
  /// Places in the step.
  Error readPlaces(object from, StringRef key,
                   std::optional<std::vector<uint32_t>> &places);
};
} // namespace

Error StepReader::readSize(object from, StringRef key,
                           std::array<uint64_t, 3> &size) {
  std::vector<uint64_t> sizes;
  if (Error error = getIntegers(from, key, sizes))
    return error;
  if (!sizes.empty() && sizes.size() != size.size())
    return fail("\"" + key + "\" must have three numbers");
  llvm::copy(sizes, size.begin());
  return Error::success();
}

Error StepReader::readLaunch(object from) {
  StepLaunch &launch = launches.emplace_back();
  if (Error error = getString(from, "kernel", launch.kernel, true))
    return error;
  if (Error error = readSize(from, "grid", launch.grid))
    return error;
  if (Error error = readSize(from, "block", launch.block))
    return error;
  if (Error error = getInteger(from, "static_shared", launch.staticShared))
    return error;
  if (Error error = getInteger(from, "dynamic_shared", launch.dynamicShared))
    return error;
  if (Error error = getInteger(from, "duration_ns", launch.durationNs))
    return error;
  return trace::readIdentity(*this, from, launch.identity);
}

Error StepReader::readPlaces(object from, StringRef key,
                             std::optional<std::vector<uint32_t>> &places) {
  element value;
  if (!find(from, key, value))
    return Error::success();
  if (Error error = getIntegers(from, key, places.emplace()))
    return error;
  for (uint32_t place : *places)
    if (place >= launches.size())
      return fail("launch " + llvm::Twine(place) + " is not in \"launches\"");
  return Error::success();
}

Error StepReader::read(object keys) {
  if (Error error = getObjects(keys, "launches", true, [&](object launch) {
        return readLaunch(launch);
      }))
    return error;
  if (Error error = getBool(keys, "all", countsAll))
    return error;
  if (Error error = readPlaces(keys, "chosen", chosen))
    return error;
  if (Error error = getStrings(keys, "names", false, names))
    return error;
  if (!names.empty() && names.size() != launches.size())
    return fail("\"names\" must have one for each launch");
  if (Error error = readPlaces(keys, "named", filter.named))
    return error;
  if (Error error = getInteger(keys, "top", filter.top))
    return error;
  if (Error error = getInteger(keys, "count", filter.count))
    return error;
  std::optional<uint32_t> skip;
  if (Error error = getInteger(keys, "skip", skip))
    return error;
  filter.skip = skip.value_or(0);
  return Error::success();
}

/// The launch maps of the code that the launches carry. They know no graph but
/// the code's own.
static Error mapWrappers(llvm::ArrayRef<StepLaunch> launches,
                         ProfileInputs &inputs) {
  std::set<StringRef> files;
  for (const StepLaunch &launch : launches)
    if (!launch.identity.file.empty())
      files.insert(launch.identity.file);
  for (StringRef file : files) {
    llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> text =
        opprof::openInput(file);
    if (!text)
      return llvm::createStringError(
          file + ": cannot be read: " + text.getError().message());
    Expected<inductor::InductorFolder> code =
        inductor::readInductorFolder((*text)->getBuffer(), file);
    if (!code)
      return code.takeError();
    inputs.wrappers.add(inputs.maps.size(), file, (*text)->getBuffer());
    inputs.maps.push_back(inductor::mapLaunches(*code, nullptr, nullptr));
  }
  return Error::success();
}

static join::LayerInputs getLayers(const ProfileInputs &inputs) {
  return {inputs.partitions, inputs.maps, &inputs.wrappers};
}

/// One launch of each work. `by` is given what makes two launches the same.
static Expected<SelectedLaunches>
selectWork(const RunFolder &folder, llvm::ArrayRef<StepLaunch> launches,
           std::string &by) {
  if (isFile(folder.partitions())) {
    ProfileInputs inputs;
    if (Error error = inputs.readPartitions(folder.partitions()))
      return error;
    if (Error error = inputs.readMaps(folder, /*some=*/true))
      return error;
    if (join::knowsLaunches(launches, getLayers(inputs))) {
      by = "the same place of the same class in " + folder.partitions() +
           ", and the same kernels";
      return join::selectUnique(launches, getLayers(inputs));
    }
  }
  ProfileInputs inputs;
  if (Error error = mapWrappers(launches, inputs)) {
    llvm::errs() << "opprof: no launch maps: " << toString(std::move(error))
                 << '\n';
    inputs = ProfileInputs();
  }
  by = "the same kernel, grid, block and shared memory";
  if (!inputs.maps.empty())
    by += ", and the same operations and bytes by the launch map";
  return join::selectSameKernels(launches, getLayers(inputs));
}

static Expected<SelectedLaunches>
selectAsAsked(const RunFolder &folder, StepReader &step, std::string &by) {
  if (!step.countsAll && !step.chosen)
    return selectWork(folder, step.launches, by);
  SelectedLaunches selected;
  if (step.chosen) {
    by = "select=";
    selected.indices = std::move(*step.chosen);
  } else {
    for (uint32_t index = 0; index < step.launches.size(); ++index)
      selected.indices.push_back(index);
  }
  return selected;
}

/// How far the times of the launches that one stands for are from its own: the
/// least and the greatest, over its own.
static void writeTimes(const StepLaunch &counted,
                       llvm::ArrayRef<uint32_t> others,
                       llvm::ArrayRef<StepLaunch> launches,
                       llvm::json::OStream &json) {
  std::vector<int64_t> times;
  for (uint32_t other : others)
    if (int64_t time = launches[other].durationNs.value_or(0))
      times.push_back(time);
  double own = double(counted.durationNs.value_or(0));
  if (!own || times.empty())
    return;
  auto [least, greatest] = std::minmax_element(times.begin(), times.end());
  json.attributeArray("times", [&] {
    for (int64_t time : {*least, *greatest}) {
      std::string text;
      llvm::raw_string_ostream(text)
          << llvm::format("%.3f", double(time) / own);
      json.rawValue(text);
    }
  });
}

static void writeSelection(const SelectedLaunches &selected,
                           llvm::ArrayRef<StepLaunch> launches, StringRef by,
                           llvm::json::OStream &json) {
  size_t stoodFor = 0;
  for (const auto &[counted, others] : selected.standsFor)
    stoodFor += others.size();
  json.attribute("same_work_by", by);
  json.attribute("counted", selected.indices.size());
  json.attribute("of", launches.size());
  json.attribute("stood_for", stoodFor);
  json.attributeArray("launches", [&] {
    for (uint32_t index : selected.indices)
      json.object([&] {
        auto it = selected.standsFor.find(index);
        llvm::ArrayRef<uint32_t> others;
        if (it != selected.standsFor.end())
          others = it->second;
        json.attribute("launch", index);
        json.attribute("kernel", toJSONText(launches[index].kernel));
        json.attributeArray("for", [&] {
          for (uint32_t other : others)
            json.value(other);
        });
        writeTimes(launches[index], others, launches, json);
      });
  });
}

Error driver::selectLaunches(const RunFolder &folder, StringRef request) {
  StepReader step(nameOf(request));
  if (Error error = readRequest(request, step))
    return error;
  std::string by;
  Expected<SelectedLaunches> selected = selectAsAsked(folder, step, by);
  if (!selected)
    return selected.takeError();
  std::vector<StepLaunch> shown = step.launches;
  for (auto [launch, name] : llvm::zip(shown, step.names))
    launch.kernel = name;
  SelectedLaunches narrowed =
      join::narrow(std::move(*selected), shown, step.filter);
  printObject([&](llvm::json::OStream &json) {
    writeSelection(narrowed, step.launches, by, json);
  });
  return Error::success();
}

//===----------------------------------------------------------------------===//
// Which values
//===----------------------------------------------------------------------===//

namespace {
/// A range that was counted.
struct CountedRange {
  metrics::RawCounters raw;
  metrics::LaunchFacts launch;
};

class RangesReader : public JSONReading {
public:
  using JSONReading::JSONReading;

  Error read(object keys);

  metrics::DeviceFacts device;
  std::vector<CountedRange> launches;
  std::optional<CountedRange> step;

private:
  Error readRange(object from, CountedRange &range);
};
} // namespace

Error RangesReader::readRange(object from, CountedRange &range) {
  if (Error error = getNumbers(from, "raw", range.raw))
    return error;
  metrics::LaunchFacts &launch = range.launch;
  if (Error error = getInteger(from, "registers", launch.registers))
    return error;
  if (Error error = getInteger(from, "dynamic_shared", launch.dynamicShared))
    return error;
  if (Error error = getInteger(from, "local_bytes", launch.localBytes))
    return error;
  return getInteger(from, "duration_ns", launch.durationNs);
}

Error RangesReader::read(object keys) {
  if (Error error = inObject(keys, "device", [&](object from) -> Error {
        if (Error error = getRequired(from, "sm_count", device.smCount))
          return error;
        return getRequired(from, "warps_per_sm", device.warpsPerSM);
      }))
    return error;
  if (Error error = getObjects(keys, "launches", false, [&](object from) {
        return readRange(from, launches.emplace_back());
      }))
    return error;
  return inObject(keys, "step",
                  [&](object from) { return readRange(from, step.emplace()); });
}

/// Counts are real numbers, as CUPTI gives them, also where they have no digits
/// behind the point.
static std::string printReal(double value) {
  std::string text = formatShortest(value);
  if (StringRef(text).find_first_of(".e") == StringRef::npos)
    text += ".0";
  return text;
}

/// What a kernel is launched with is whole.
static std::string print(const metrics::Metric &metric, double value) {
  return metric.scope == metrics::Scope::Launch
             ? std::to_string(uint64_t(value))
             : printReal(value);
}

static void writeRow(const CounterRow &row, const metrics::RawCounters &raw,
                     llvm::json::OStream &json) {
  json.attributeObject("metrics", [&] {
    for (const metrics::Metric &metric : metrics::getMetrics())
      if (auto it = row.values.find(metric.name.str());
          it != row.values.end()) {
        json.attributeBegin(metric.name);
        json.rawValue(print(metric, it->second));
        json.attributeEnd();
      }
  });
  json.attributeObject("absent", [&] {
    for (const metrics::Metric &metric : metrics::getMetrics())
      if (auto it = row.absent.find(metric.name.str()); it != row.absent.end())
        json.attribute(metric.name, toJSONText(it->second));
  });
  if (std::optional<double> clock = metrics::getSmClockMHz(raw)) {
    json.attributeBegin("sm_clock_mhz");
    json.rawValue(printReal(*clock));
    json.attributeEnd();
  }
}

Error driver::deriveMetrics(StringRef request) {
  RangesReader ranges(nameOf(request));
  if (Error error = readRequest(request, ranges))
    return error;
  printObject([&](llvm::json::OStream &json) {
    json.attributeArray("launches", [&] {
      for (const CountedRange &range : ranges.launches)
        json.object([&] {
          writeRow(metrics::derive(range.raw, ranges.device, range.launch),
                   range.raw, json);
        });
    });
    if (ranges.step)
      json.attributeObject("step", [&] {
        writeRow(metrics::deriveStep(ranges.step->raw, ranges.device,
                                     ranges.step->launch.localBytes),
                 ranges.step->raw, json);
      });
  });
  return Error::success();
}
