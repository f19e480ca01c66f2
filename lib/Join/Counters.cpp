//===- Counters.cpp - Hardware counters of a run --------------------------===//
//
// Counters were taken in steps of their own. A kernel of the profile is the
// counted launch of the same identity (a wrapper's line, or a node), of the
// same turn among the kernels of that identity in its step, and of the same
// name.
//
//===----------------------------------------------------------------------===//

#include "opprof/Join/Counters.h"
#include "opprof/Support/JSONReading.h"

#include "IdentityPlaces.h"
#include "opprof/Capture/CaptureReader.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

#include <cmath>
#include <numeric>
#include <set>

using namespace llvm;
using namespace opprof;
using namespace opprof::profile;
using opprof::JSONReading;
using simdjson::dom::element;
using simdjson::dom::object;

//===----------------------------------------------------------------------===//
// Reader
//===----------------------------------------------------------------------===//

namespace {
enum class Sum : uint8_t { Amount, Limit, Rate };
} // namespace

/// How a value of several kernels is made of theirs.
static Sum sumOf(StringRef name) {
  static const StringSet<> amounts = {
      "time_ns",       "dram_read_bytes", "dram_write_bytes",
      "active_cycles", "instructions",    "local_memory_wavefronts"};
  static const StringSet<> limits = {"registers", "dynamic_shared_bytes"};
  if (amounts.contains(name) || (name.contains("__") && name.ends_with(".sum")))
    return Sum::Amount;
  if (limits.contains(name) || (name.contains("__") && name.ends_with(".max")))
    return Sum::Limit;
  return Sum::Rate;
}

/// Adds up the kernels of the step, each by its own values or by those that
/// stand for it. Without one of them there is nothing to hold the step against.
static void sumKernels(const CountersFile &file, StepCounters &step) {
  std::map<std::string, double> sums;
  // The step's time has the gaps between kernels in it, which no sum has.
  for (const auto &[name, value] : step.row.values)
    if (sumOf(name) == Sum::Amount && name != "time_ns")
      sums[name] = 0;
  for (const CountedLaunch &launch : file.launches) {
    std::optional<uint32_t> row = launch.row;
    if (!row && launch.countedFor)
      row = file.launches[*launch.countedFor].row;
    if (!row)
      return;
    const auto &values = file.rows[*row].values;
    for (auto it = sums.begin(); it != sums.end();) {
      auto value = values.find(it->first);
      if (value == values.end()) {
        it = sums.erase(it);
        continue;
      }
      it->second += value->second;
      // No file could say more than the largest number.
      it = std::isfinite(it->second) ? std::next(it) : sums.erase(it);
    }
  }
  if (sums.empty())
    return;
  step.kernelSums = std::move(sums);
  step.summedKernels = file.launches.size();
  step.countedKernels = file.rows.size();
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
  Identity &identity = launch.identity;
  if (Error error = getString(from, "file", identity.file, false))
    return error;
  if (Error error = getString(from, "node", identity.node, false))
    return error;
  if (Error error = getString(from, "stage", identity.stage, false))
    return error;
  // Beside a launch, "graph" may also say that it is a CUDA graph's.
  element graph;
  if (find(from, "graph", graph) && !graph.is_bool())
    if (Error error = getString(from, "graph", identity.graph, true))
      return error;
  std::optional<uint32_t> line;
  if (Error error = getInteger(from, "line", line))
    return error;
  identity.line = line.value_or(0);
  return Error::success();
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
    sumKernels(file, step);
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

Expected<CountersFile> opprof::profile::readCounters(StringRef text,
                                                     StringRef name) {
  CountersFile file;
  Reader reader(name, file);
  if (Error error =
          reader.parse(text, [&](element root) { return reader.read(root); }))
    return error;
  return file;
}

//===----------------------------------------------------------------------===//
// Join
//===----------------------------------------------------------------------===//

namespace {
class Join {
public:
  Join(Profile &profile, const CountersFile &file,
       const AttributionInputs &inputs);

  void attach();

private:
  /// A launch of a map, the first one of its line, or a node outside of maps.
  struct Key {
    bool isNode = false;
    uint32_t index = 0;
    auto operator<=>(const Key &) const = default;
  };
  std::optional<Key> keyOf(const Identity &identity) const;
  std::optional<Key> keyOf(const Activity &kernel) const;
  /// Nodes of a counted launch.
  ArrayRef<uint32_t> nodesOf(uint32_t launch) const;
  std::string describe(uint32_t launch) const;
  void attachKernels();
  void attachNodes();
  void inferFrom(Node &node, uint32_t launch) const;
  std::string representativeOf(StringRef node) const;

  Profile &profile;
  const CountersFile &file;
  IdentityPlaces places;
  const AttributionInputs &inputs;
  std::vector<uint32_t> firstRecord;
  /// By launch record: the first record of the same line.
  std::vector<uint32_t> firstOfLine;
  std::map<std::tuple<StringRef, StringRef, StringRef>, uint32_t> nodes;
  /// Keys of CountersFile::launches.
  std::vector<std::optional<Key>> keys;
  std::map<Key, std::vector<uint32_t>> byKey;
  /// The node in whose place of the unique partition each duplicate's stands.
  StringMap<std::string> uniquePlace;
  /// By kernel: the launch that was counted for its own.
  std::vector<std::optional<uint32_t>> countedFor;
};
} // namespace

Join::Join(Profile &profile, const CountersFile &file,
           const AttributionInputs &inputs)
    : profile(profile), file(file), places(inputs), inputs(inputs) {
  std::map<std::tuple<uint32_t, uint32_t>, uint32_t> lines;
  uint32_t record = 0;
  for (auto [map, launchMap] : llvm::enumerate(inputs.maps)) {
    firstRecord.push_back(record);
    for (const launch::Launch &launch : launchMap.launches) {
      firstOfLine.push_back(
          launch.line
              ? lines.try_emplace({map, launch.line}, record).first->second
              : record);
      ++record;
    }
  }
  for (auto [index, node] : llvm::enumerate(profile.nodes))
    nodes[{node.graph, node.stage, node.name}] = index;
  if (inputs.partitions) {
    std::map<StringRef, const Partition *> unique;
    for (const Partition &partition : inputs.partitions->partitions)
      if (partition.role == "unique")
        unique.try_emplace(partition.classId, &partition);
    for (const Partition &partition : inputs.partitions->partitions)
      if (auto it = unique.find(partition.classId);
          it != unique.end() && partition.role != "unique")
        for (auto [mine, its] : llvm::zip(partition.nodes, it->second->nodes))
          uniquePlace[mine] = its;
  }
}

std::optional<Join::Key> Join::keyOf(const Identity &identity) const {
  if (identity.node.empty() && identity.file.empty())
    return std::nullopt;
  IdentityPlace place = places.find(identity);
  if (!place.launches.empty()) {
    uint32_t record = firstRecord[place.map] + place.launches.front();
    if (record < firstOfLine.size())
      return Key{false, firstOfLine[record]};
  } else if (place.isNode) {
    auto it = nodes.find({place.graph, place.stage, identity.node});
    if (it != nodes.end())
      return Key{true, it->second};
  }
  return std::nullopt;
}

std::optional<Join::Key> Join::keyOf(const Activity &kernel) const {
  if (kernel.launch && *kernel.launch < firstOfLine.size())
    return Key{false, firstOfLine[*kernel.launch]};
  if (!kernel.launch && kernel.nodes.size() == 1)
    return Key{true, kernel.nodes.front()};
  return std::nullopt;
}

ArrayRef<uint32_t> Join::nodesOf(uint32_t launch) const {
  const std::optional<Key> &key = keys[launch];
  if (!key)
    return {};
  return key->isNode ? ArrayRef(key->index)
                     : ArrayRef(profile.launches[key->index].nodes);
}

std::string Join::describe(uint32_t launch) const {
  const std::optional<Key> &key = keys[launch];
  if (!key)
    return "launch " + std::to_string(launch) + " of the step";
  if (key->isNode)
    return "node " + profile.nodes[key->index].name;
  const LaunchRecord &record = profile.launches[key->index];
  return "launch " + std::to_string(record.index) + " of " +
         record.compiledGraph;
}

void Join::attachKernels() {
  // Without a graph, launches have no more than their order in the step.
  bool byOrder = !hasGraph(profile);
  for (auto [index, launch] : llvm::enumerate(file.launches)) {
    keys.push_back(keyOf(launch.identity));
    if (byOrder)
      byKey[Key{}].push_back(index);
    else if (keys.back())
      byKey[*keys.back()].push_back(index);
  }
  std::vector<std::string> names;
  for (const CountedLaunch &launch : file.launches)
    names.push_back(capture::demangled(launch.kernel));

  std::vector<uint32_t> order(profile.kernels.size());
  std::iota(order.begin(), order.end(), 0);
  llvm::stable_sort(order, [&](uint32_t a, uint32_t b) {
    auto key = [&](const Activity &kernel) {
      return std::tuple(kernel.launchStartNs.value_or(kernel.startNs),
                        kernel.graphNode.value_or(0), kernel.startNs);
    };
    return key(profile.kernels[a]) < key(profile.kernels[b]);
  });

  std::vector<uint32_t> rowPlace(file.rows.size(), ~uint32_t(0));
  std::map<std::pair<std::optional<uint32_t>, Key>, uint32_t> turns;
  countedFor.resize(profile.kernels.size());
  uint64_t others = 0, counted = 0;
  for (uint32_t position : order) {
    Activity &kernel = profile.kernels[position];
    std::optional<Key> key = byOrder ? Key{} : keyOf(kernel);
    if (!key || !byKey.contains(*key))
      continue;
    const std::vector<uint32_t> &same = byKey[*key];
    uint32_t turn = turns[{kernel.step, *key}]++;
    // Without marks of steps the turns of all of them follow one another.
    if (!kernel.step)
      turn %= same.size();
    if (turn >= same.size() || names[same[turn]] != kernel.name) {
      ++others;
      continue;
    }
    const CountedLaunch &launch = file.launches[same[turn]];
    std::optional<uint32_t> row = launch.row;
    std::string from;
    if (!row && launch.countedFor) {
      row = file.launches[*launch.countedFor].row;
      countedFor[position] = launch.countedFor;
      from = describe(*launch.countedFor);
    }
    if (!row)
      continue;
    if (const std::string &where = file.elsewhere[*row];
        !where.empty() && kernel.cudaGraph)
      from += (from.empty() ? "the same kernel " : ", ") + where;
    if (rowPlace[*row] == ~uint32_t(0)) {
      rowPlace[*row] = profile.counters.size();
      profile.counters.push_back(file.rows[*row]);
    }
    kernel.counters = rowPlace[*row];
    kernel.countersFrom = profile.intern(from);
    ++counted;
  }
  if (others)
    profile.notes.push_back(
        std::to_string(others) +
        " kernels have no counters because another kernel, or none, ran in "
        "their place when counters were taken");
  if (!file.rows.empty() && !counted)
    profile.notes.push_back("counters were taken, and none of the launches "
                            "that they are of is one of the profile's");
}

std::string Join::representativeOf(StringRef node) const {
  // A class may be nested in another: follow until nothing stands for it.
  std::string name = node.str();
  for (int hops = 0; hops < 16; ++hops) {
    auto it = uniquePlace.find(name);
    if (it == uniquePlace.end() || it->second == name)
      break;
    name = it->second;
  }
  return name;
}

/// Names the node of the counted launch that stands in this one's place.
void Join::inferFrom(Node &node, uint32_t launch) const {
  ArrayRef<uint32_t> candidates = nodesOf(launch);
  std::string place = representativeOf(node.name);
  for (uint32_t candidate : candidates)
    if (representativeOf(profile.nodes[candidate].name) == place) {
      node.inferredFrom = profile.nodes[candidate].name;
      return;
    }
  node.inferredFrom =
      candidates.empty() ? describe(launch) : profile.nodes[candidates[0]].name;
}

void Join::attachNodes() {
  for (Node &node : profile.nodes) {
    std::vector<const Activity *> kernels;
    std::set<std::optional<uint32_t>> steps;
    size_t counted = 0;
    std::optional<uint32_t> standIn;
    bool elsewhere = false;
    for (uint32_t id : node.kernels) {
      const Activity &kernel = profile.kernels[id];
      if (kernel.phase != Phase::Steady)
        continue;
      kernels.push_back(&kernel);
      steps.insert(kernel.step);
      counted += kernel.counters.has_value();
      if (!standIn)
        standIn = countedFor[id];
      elsewhere |= !kernel.countersFrom.empty();
    }
    if (!counted)
      continue;
    if (counted < kernels.size()) {
      node.metricsAbsent["counters"] =
          std::to_string(kernels.size() - counted) + " of its " +
          std::to_string(kernels.size()) + " kernels were not counted";
      continue;
    }
    std::set<std::string> names;
    for (const Activity *kernel : kernels)
      for (const auto &[name, value] :
           profile.counters[*kernel->counters].values)
        names.insert(name);
    for (const std::string &name : names) {
      double total = 0, weight = 0, largest = 0;
      size_t having = 0;
      for (const Activity *kernel : kernels) {
        const auto &values = profile.counters[*kernel->counters].values;
        auto it = values.find(name);
        if (it == values.end())
          continue;
        double time = double(kernel->durationNs);
        largest = having ? std::max(largest, it->second) : it->second;
        total += sumOf(name) == Sum::Amount ? it->second : time * it->second;
        weight += time;
        ++having;
      }
      switch (sumOf(name)) {
      case Sum::Amount:
        // A sum that leaves kernels out would be a wrong one.
        if (having < kernels.size())
          node.metricsAbsent[name] = "not all of its kernels have it";
        else if (!std::isfinite(total))
          node.metricsAbsent[name] = "its sum is more than a number can be";
        else
          node.metrics[name] = total / double(steps.size());
        break;
      case Sum::Limit:
        node.metrics[name] = largest;
        break;
      case Sum::Rate:
        if (weight > 0 && std::isfinite(total))
          node.metrics[name] = total / weight;
        break;
      }
    }
    if (standIn)
      inferFrom(node, *standIn);
    else if (elsewhere)
      node.inferredFrom = node.name;
  }
}

void Join::attach() {
  for (const std::string &note : file.notes)
    profile.notes.push_back(note);
  profile.stepCounters = file.whole;
  attachKernels();
  attachNodes();
}

void opprof::profile::attachCounters(Profile &profile, const CountersFile &file,
                                     const AttributionInputs &inputs) {
  Join(profile, file, inputs).attach();
}
