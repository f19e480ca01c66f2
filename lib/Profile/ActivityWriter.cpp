// The objects of kernels and copies in profile.opprof.json.

#include "ActivityWriter.h"
#include "AttributeWriter.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <charconv>

using namespace llvm;
using namespace opprof;
using namespace opprof::profile;

/// How far json::OStream moves attributes of an object in a list of the
/// document to the right.
static constexpr size_t kDepth = 3;

/// The text of `key` among a few thousands that are kept: a recording may have
/// as many as it has kernels.
template <typename Key, typename Text, typename Make>
static const Text &keep(DenseMap<Key, Text> &kept, Key key, Make make) {
  constexpr unsigned kMost = 4096;
  auto it = kept.find(key);
  if (it != kept.end())
    return it->second;
  if (kept.size() >= kMost)
    kept.clear();
  return kept.try_emplace(key, make()).first->second;
}

static void addKey(std::string &text, StringRef key) {
  text += '\n';
  text.append(kDepth, ' ');
  text += '"';
  text += key;
  text += "\": ";
}

template <typename T>
static void addNumber(std::string &text, StringRef key, T value) {
  addKey(text, key);
  std::array<char, 24> digits;
  text.append(digits.begin(),
              std::to_chars(digits.begin(), digits.end(), value).ptr -
                  digits.begin());
  text += ',';
}

/// Of a word that needs no escapes.
static void addWord(std::string &text, StringRef key, StringRef word) {
  if (word.empty())
    return;
  addKey(text, key);
  text += '"';
  text += word;
  text += "\",";
}

template <typename T>
static void addOptional(std::string &text, StringRef key, const T &value) {
  if (value)
    addNumber(text, key, *value);
}

/// What json::OStream prints of attributes that `write` writes, moved to where
/// they stand: a line that is broken inside a text is escaped.
ActivityWriter::Attributes
ActivityWriter::toText(function_ref<void(AttributeWriter &)> write) const {
  std::string object;
  raw_string_ostream stream(object);
  {
    json::OStream json(stream, /*IndentSize=*/1);
    AttributeWriter attributes(profile, json);
    json.object([&] { write(attributes); });
  }
  StringRef printed(object);
  if (printed == "{}")
    return {};
  printed = printed.drop_front().drop_back().drop_back();
  std::string moved;
  for (char c : printed) {
    moved += c;
    if (c == '\n')
      moved.append(kDepth - 1, ' ');
  }
  moved += ',';
  return moved;
}

const ActivityWriter::OriginText &ActivityWriter::textOf(const Origin &origin) {
  return keep(origins, &origin, [&] {
    auto one = [&](StringRef key, StringRef value) {
      return toText([&](AttributeWriter &to) { to.text(key, value); });
    };
    return OriginText{
        toText([&](AttributeWriter &to) { to.optional("rank", origin.rank); }),
        toText([&](AttributeWriter &to) {
          to.nodeRefs(origin.nodes);
          to.attribute("method", origin.method);
        }),
        one("explanation", origin.explanation),
        one("host_op", origin.hostOp),
        one("module", origin.module) + one("source", origin.source),
        one("input_type", origin.inputType),
        one("range", origin.range),
        one("metrics_from", origin.countersFrom)};
  });
}

const ActivityWriter::Attributes &
ActivityWriter::nameOf(const Activity &activity) {
  std::pair key(activity.name.data(), activity.name.size());
  return keep(names, key, [&] {
    return toText(
        [&](AttributeWriter &to) { to.attribute("name", activity.name); });
  });
}

const ActivityWriter::Attributes &ActivityWriter::launchOf(uint32_t place) {
  return keep(launches, place, [&] {
    const LaunchRecord &launch = profile.launches[place];
    return toText([&](AttributeWriter &to) {
      to.attribute("compiled_graph", launch.compiledGraph);
      to.attribute("launch", launch.index);
    });
  });
}

const ActivityWriter::Attributes &
ActivityWriter::configOf(const LaunchConfig &config) {
  return keep(configs, &config, [&] {
    return toText([&](AttributeWriter &to) {
      to.triple("grid", config.grid);
      to.triple("block", config.block);
      to.optional("registers", config.registers);
      to.optional("shared_memory", config.sharedMemory);
      to.optional("local_memory", config.localMemory);
      to.optional("blocks_per_sm", config.blocksPerSM);
      to.optional("warps_per_sm", config.warpsPerSM);
      to.optional("occupancy_pct", config.occupancyPct);
    });
  });
}

/// How sure the activity is, and each of its links.
const ActivityWriter::Attributes &
ActivityWriter::linksOf(const Activity &activity) {
  uint32_t key = static_cast<uint32_t>(activity.confidence);
  for (std::optional<Confidence> link : toArray(activity.links))
    key = key * (kNumConfidences + 1) +
          (link ? static_cast<uint32_t>(*link) + 1 : 0);
  return keep(links, key, [&] {
    return toText([&](AttributeWriter &to) {
      to.attribute("confidence", stringify(activity.confidence));
      to.links(activity.links);
    });
  });
}

void ActivityWriter::addCounters(const Activity &activity) {
  const CounterRow &row = profile.counters[*activity.counters];
  text += toText([&](AttributeWriter &to) {
    to.metrics(row.values);
    to.absentMetrics(row.absent);
    if (!activity.origin->countersFrom.empty())
      to.attribute("metrics_inferred", true);
  });
  text += textOf(*activity.origin).countersFrom;
}

void ActivityWriter::write(const Activity &activity, json::OStream &json) {
  const OriginText &origin = textOf(*activity.origin);
  text = "{";
  addNumber(text, "id", activity.id);
  if (activity.kind != ActivityKind::Kernel)
    addWord(text, "kind", stringify(activity.kind));
  text += nameOf(activity);
  addNumber(text, "device", activity.device);
  addOptional(text, "stream", activity.stream);
  text += origin.rank;
  addOptional(text, "step", activity.step);
  if (activity.launch)
    text += launchOf(*activity.launch);
  addNumber(text, "start_ns", activity.startNs);
  addNumber(text, "duration_ns", activity.durationNs);
  text += origin.join;
  text += linksOf(activity);
  text += origin.explanation;
  addWord(text, "phase", stringify(activity.phase));
  text += origin.hostOp;
  addOptional(text, "operator", activity.op);
  text += origin.place;
  addWord(text, "part", stringify(activity.part));
  text += origin.inputType;
  addOptional(text, "launched_at_ns", activity.launchStartNs);
  addOptional(text, "launch_call_ns", activity.launchDurationNs);
  if (activity.cudaGraph) {
    addKey(text, "cuda_graph");
    text += "true,";
  }
  addOptional(text, "graph_node", activity.graphNode);
  text += origin.range;
  text += configOf(*activity.config);
  addOptional(text, "bytes", activity.bytes);
  if (activity.counters)
    addCounters(activity);
  // The comma after the last.
  text.pop_back();
  text += '\n';
  text.append(kDepth - 1, ' ');
  text += '}';
  json.rawValue(text);
}
