// Reading and writing profile.opprof.json.

#include "opprof/Profile/ProfileJSON.h"
#include "ActivityWriter.h"
#include "AttributeWriter.h"
#include "RunFactsReading.h"
#include "opprof/Support/JSONReading.h"
#include "opprof/Support/JSONWriting.h"
#include "opprof/Support/OtherDocuments.h"
#include "opprof/Support/ReadingLimits.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace llvm;
using namespace opprof;
using namespace opprof::profile;
using opprof::JSONReading;
using simdjson::dom::element;
using simdjson::dom::object;

//===----------------------------------------------------------------------===//
// Writer
//===----------------------------------------------------------------------===//

namespace {
class Writer : AttributeWriter {
public:
  Writer(const Profile &profile, json::OStream &json)
      : AttributeWriter(profile, json) {}

  void write();

private:
  void compilations(const RunFacts &facts);
  void run(const RunFacts &facts);
  void stepCounters(const StepCounters &step);
  void summary();
  void launches();
  void sources();
  void measuredRates(const MeasuredRates &rates);
  void devices();
  void steps();
  void nodes();
  void partitions();
  void operators();
  void host();
  void hostEvents();
  void tensorMemory(const TensorMemory &memory);
};
} // namespace

void Writer::compilations(const RunFacts &facts) {
  if (!facts.compilations.empty())
    json.attributeArray("compilations", [&] {
      for (const Compilation &compilation : facts.compilations)
        json.object([&] {
          json.attribute("id", compilation.id);
          text("function", compilation.function);
          text("source", compilation.source);
          text("reason", compilation.reason);
          text("failed", compilation.failed);
          optional("compile_ns", compilation.compileNs);
          json.attributeArray("compiled_graphs", [&] {
            for (const std::string &graph : compilation.compiledGraphs)
              json.value(graph);
          });
        });
    });
  if (!facts.graphBreaks.empty())
    json.attributeArray("graph_breaks", [&] {
      for (const GraphBreak &graphBreak : facts.graphBreaks)
        json.object([&] {
          json.attribute("reason", graphBreak.reason);
          text("hint", graphBreak.hint);
          text("source", graphBreak.source);
          json.attribute("compilations", graphBreak.compilations);
        });
    });
}

void Writer::run(const RunFacts &facts) {
  json.attributeObject("run", [&] {
    text("program", facts.program);
    text("ended", facts.ended);
    optional("exit_status", facts.exitStatus);
    text("mode", facts.mode);
    text("differs", facts.differs);
    text("torch", facts.torch);
    compilations(facts);
    optional("step_ns", facts.stepNs);
    optional("loop_ns", facts.loopNs);
    optional("eager_step_ns", facts.eagerStepNs);
    text("counters", facts.counters);
    text("metrics", facts.metrics);
    optional("passes", facts.passes);
    text("caches", facts.caches);
    text("counters_left_out", facts.countersLeftOut);
    optional("peak_bytes", facts.peakBytes);
    optional("peak_reserved_bytes", facts.peakReservedBytes);
  });
}

void Writer::summary() {
  const Summary &summary = profile.summary;
  json.attributeObject("summary", [&] {
    json.attribute("kernels", summary.kernels);
    json.attribute("kernel_time_ns", summary.kernelTimeNs);
    optional("busy_ns", summary.busyNs);
    optional("wall_ns", summary.wallNs);
    optional("idle_ns", summary.idleNs);
    optional("recording_ns", summary.recordingNs);
    optional("undisturbed_ns", summary.undisturbedNs);
    optional("undisturbed_idle_ns", summary.undisturbedIdleNs);
    json.attribute("copies", summary.copies);
    json.attribute("copy_time_ns", summary.copyTimeNs);
    optional("steps", summary.steps);
    json.attribute("steps_from", summary.stepsFrom);
    json.attributeObject("attributed_ns", [&] {
      for (size_t index = 0; index < kNumConfidences; ++index)
        json.attribute(stringify(static_cast<Confidence>(index)),
                       summary.attributedNs[index]);
    });
    if (hasGraph(profile))
      json.attributeObject("links_ns", [&] {
        for (auto [link, times] : llvm::enumerate(summary.linksNs))
          json.attributeObject(kLinkNames[link], [&, &times = times] {
            for (size_t index = 0; index < kNumConfidences; ++index)
              json.attribute(stringify(static_cast<Confidence>(index)),
                             times[index]);
          });
      });
  });
}

void Writer::stepCounters(const StepCounters &step) {
  json.attributeObject("step_counters", [&] {
    metrics(step.row.values);
    absentMetrics(step.row.absent);
    if (!step.kernelSums.empty())
      json.attributeObject("kernels", [&] {
        json.attribute("summed", step.summedKernels);
        json.attribute("counted", step.countedKernels);
        metrics(step.kernelSums);
      });
  });
}

void Writer::launches() {
  json.attributeArray("launches", [&] {
    for (const LaunchRecord &launch : profile.launches)
      json.object([&] {
        json.attribute("compiled_graph", launch.compiledGraph);
        json.attribute("index", launch.index);
        json.attribute("kernel", launch.kernel);
        json.attribute("kind", launch.kind ? stringify(*launch.kind) : "");
        json.attribute("category",
                       launch.category ? stringify(*launch.category) : "");
        text("file", launch.file);
        if (launch.line)
          json.attribute("line", launch.line);
        text("dtype", launch.dtype);
        optional("flops", launch.flops);
        optional("bytes_read", launch.bytesRead);
        optional("bytes_written", launch.bytesWritten);
        json.attribute("runs", launch.runs);
        json.attribute("kernel_time_ns", launch.kernelTimeNs);
        nodeRefs(launch.nodes);
        if (!launch.parts.empty()) {
          json.attribute("share", stringify(launch.share));
          json.attributeArray("parts", [&] {
            for (uint32_t part : launch.parts)
              json.value(part);
          });
        }
      });
  });
}

void Writer::nodes() {
  json.attributeArray("nodes", [&] {
    for (const Node &node : profile.nodes)
      json.object([&] {
        if (node.id.graph != profile.graph || node.id.stage != profile.stage)
          writeNodeKeys(json, node.id);
        else
          json.attribute("name", node.id.name);
        optional("module", node.module);
        optional("source", node.source);
        if (!node.stack.empty())
          writeStrings(json, "stack", node.stack);
        optional("partition", node.partition);
        json.attribute("kernel_time_ns", node.kernelTimeNs);
        if (node.share)
          json.attribute("share", stringify(*node.share));
        json.attributeArray("kernels", [&] {
          for (uint32_t kernel : node.kernels)
            json.value(kernel);
        });
        metrics(node.metrics);
        absentMetrics(node.metricsAbsent);
        json.attributeBegin("inferred_from");
        if (!node.inferredFrom)
          json.value(nullptr);
        else if (node.inferredFrom->launch.empty())
          writeNode(json, node.inferredFrom->node, profile.graph,
                    profile.stage);
        else
          json.object(
              [&] { json.attribute("launch", node.inferredFrom->launch); });
        json.attributeEnd();
      });
  });
}

void Writer::operators() {
  if (profile.operators.empty())
    return;
  json.attributeArray("operators", [&] {
    for (const OperatorTime &op : profile.operators)
      json.object([&] {
        json.attribute("name", op.name);
        text("input_dims", op.inputDims);
        text("input_types", op.inputTypes);
        text("input_values", op.inputValues);
        json.attribute("calls", op.calls);
        json.attribute("kernels", op.kernels);
        json.attribute("kernel_time_ns", op.kernelTimeNs);
        optional("flops", op.flops);
        optional("bytes_read", op.bytesRead);
        optional("bytes_written", op.bytesWritten);
      });
  });
}

void Writer::host() {
  if (profile.host.empty())
    return;
  json.attributeArray("host", [&] {
    for (const HostCost &cost : profile.host)
      json.object([&] {
        json.attribute("kind", stringify(cost.kind));
        json.attribute("name", cost.name);
        text("source", cost.source);
        text("module", cost.module);
        json.attribute("calls", cost.calls);
        json.attribute("time_ns", cost.timeNs);
      });
  });
}

void Writer::sources() {
  json.attributeArray("sources", [&] {
    for (const Source &source : profile.sources)
      json.object([&] {
        json.attribute("kind", source.kind);
        json.attribute("file", source.file);
        optional("rank", source.rank);
        optional("world_size", source.worldSize);
        optional("process", source.processId);
        text("host", source.host);
        optional("base_time_ns", source.baseTimeNs);
      });
  });
}

/// Keys of the rates of MeasuredRates.
static constexpr std::pair<StringLiteral, double MeasuredRates::*> kRates[] = {
    {"memory_bytes_per_s", &MeasuredRates::memory},
    {"fp32_flops_per_s", &MeasuredRates::fp32},
    {"tf32_flops_per_s", &MeasuredRates::tf32},
    {"bf16_flops_per_s", &MeasuredRates::bf16},
    {"fp16_flops_per_s", &MeasuredRates::fp16},
};

void Writer::measuredRates(const MeasuredRates &rates) {
  json.attributeObject("measured", [&] {
    text("device", rates.device);
    for (const auto &[key, rate] : kRates)
      if (rates.*rate > 0)
        number(key, rates.*rate);
  });
}

void Writer::devices() {
  json.attributeArray("devices", [&] {
    for (const Device &device : profile.devices)
      json.object([&] {
        json.attribute("id", device.id);
        text("name", device.name);
        text("kind", device.kind);
        optional("sm_count", device.smCount);
        optional("total_memory", device.totalMemory);
        optional("max_threads_per_sm", device.maxThreadsPerSM);
        optional("registers_per_sm", device.registersPerSM);
        optional("shared_per_sm", device.sharedPerSM);
        optional("warp_size", device.warpSize);
        if (device.computeCapability)
          json.attributeArray("compute_capability", [&] {
            json.value((*device.computeCapability)[0]);
            json.value((*device.computeCapability)[1]);
          });
        optional("busy_ns", device.busyNs);
        if (device.measured)
          measuredRates(*device.measured);
      });
  });
}

void Writer::steps() {
  json.attributeArray("steps", [&] {
    for (const Step &step : profile.steps)
      json.object([&] {
        json.attribute("index", step.index);
        json.attribute("start_ns", step.startNs);
        json.attribute("end_ns", step.endNs);
        json.attribute("phase", stringify(step.phase));
      });
  });
}

void Writer::partitions() {
  json.attributeArray("partitions", [&] {
    for (const PartitionTime &partition : profile.partitions)
      json.object([&] {
        json.attribute("class", partition.classId);
        text("hash", partition.hash);
        json.attribute("label", partition.label);
        json.attribute("role", partition.role);
        json.attribute("node_count", partition.nodeCount);
        json.attribute("kernel_time_ns", partition.kernelTimeNs);
      });
  });
}

/// Calls of compiled graphs, waits, and what the profiler and the allocator
/// did.
void Writer::hostEvents() {
  json.attributeArray("calls", [&] {
    for (const CompiledCall &call : profile.calls)
      json.object([&] {
        text("compiled_graph", call.compiledGraph);
        json.attribute("start_ns", call.startNs);
        json.attribute("duration_ns", call.durationNs);
        optional("step", call.step);
        json.attribute("launches", call.launches);
        json.attribute("matched", call.matched);
      });
  });
  json.attributeArray("synchronizations", [&] {
    for (const Synchronization &wait : profile.synchronizations)
      json.object([&] {
        json.attribute("name", wait.name);
        json.attribute("start_ns", wait.startNs);
        json.attribute("duration_ns", wait.durationNs);
        if (!wait.op.empty())
          json.attribute("operator", wait.op);
        if (!wait.source.empty())
          json.attribute("source", wait.source);
      });
  });
  if (!profile.cacheLookups.empty())
    json.attributeArray("cache_lookups", [&] {
      for (const CacheLookup &lookup : profile.cacheLookups)
        json.object([&] {
          json.attribute("start_ns", lookup.startNs);
          json.attribute("duration_ns", lookup.durationNs);
        });
    });
  if (!profile.overheads.empty())
    json.attributeArray("overheads", [&] {
      for (const ProfilerOverhead &overhead : profile.overheads)
        json.object([&] {
          json.attribute("kind", overhead.kind);
          json.attribute("start_ns", overhead.startNs);
          json.attribute("duration_ns", overhead.durationNs);
        });
    });
  if (!profile.memory.empty())
    json.attributeArray("memory", [&] {
      for (const MemoryUse &use : profile.memory)
        json.object([&] {
          json.attribute("device", use.device);
          json.attribute("allocations", use.allocations);
          json.attribute("releases", use.releases);
          json.attribute("allocated_bytes", use.allocatedBytes);
          json.attribute("peak_bytes", use.peakBytes);
          json.attribute("peak_at_ns", use.peakTimeNs);
        });
    });
  if (!profile.tensorMemory.empty())
    json.attributeArray("tensor_memory", [&] {
      for (const TensorMemory &memory : profile.tensorMemory)
        json.object([&] { tensorMemory(memory); });
    });
}

void Writer::tensorMemory(const TensorMemory &memory) {
  json.attribute("device", memory.device);
  json.attribute("start_ns", memory.startNs);
  json.attribute("end_ns", memory.endNs);
  json.attribute("allocations", memory.allocations);
  json.attribute("peak_bytes", memory.peakBytes);
  json.attribute("peak_at_ns", memory.peakTimeNs);
  optional("peak_step", memory.peakStep);
  optional("peak_site", memory.peakSite);
  json.attribute("earlier_bytes", memory.earlierBytes);
  json.attribute("end_bytes", memory.endBytes);
  json.attribute("unknown_frees", memory.unknownFrees);
  json.attribute("calls", memory.calls);
  json.attribute("bytes", memory.bytes);
  json.attribute("churn_bytes", memory.churnBytes);
  json.attribute("scratch_bytes", memory.scratchBytes);
  json.attribute("growth_bytes_per_step", memory.growthBytesPerStep);
  json.attributeArray("held_bytes", [&] {
    for (uint64_t bytes : memory.heldBytes)
      json.value(bytes);
  });
  json.attributeArray("sites", [&] {
    for (const MemorySite &site : memory.sites)
      json.object([&] {
        text("source", site.source);
        text("module", site.module);
        if (site.part != Part::None)
          json.attribute("part", stringify(site.part));
        text("operator", site.op);
        json.attribute("peak_bytes", site.peakBytes);
        json.attribute("peak_blocks", site.peakBlocks);
        json.attribute("calls", site.calls);
        json.attribute("bytes", site.bytes);
        json.attribute("churn_bytes", site.churnBytes);
        json.attribute("scratch_bytes", site.scratchBytes);
        json.attribute("growth_bytes_per_step", site.growthBytesPerStep);
      });
  });
  json.attribute("other_sites", memory.otherSites);
}

void Writer::write() {
  json.object([&] {
    json.attribute("version", Profile::kVersion);
    sources();
    if (profile.run)
      run(*profile.run);
    text("graph", profile.graph);
    text("stage", profile.stage);
    devices();
    summary();
    if (profile.stepCounters)
      stepCounters(*profile.stepCounters);
    json.attributeArray("notes", [&] {
      for (const std::string &note : profile.notes)
        json.value(note);
    });
    steps();
    operators();
    host();
    ActivityWriter activities(profile);
    for (auto [key, list] : {std::pair("kernels", &profile.kernels),
                             std::pair("copies", &profile.copies)})
      json.attributeArray(key, [&, &list = list] {
        for (const Activity &activity : *list)
          activities.write(activity, json);
      });
    launches();
    nodes();
    partitions();
    hostEvents();
    json.attributeArray("findings", [&] {
      for (const Finding &finding : profile.findings)
        json.object([&] {
          json.attribute("id", finding.id());
          optional("severity_ns_per_step", finding.severityNsPerStep);
          nodeRefs(finding.nodes);
          json.attribute("evidence", toJSON(finding.evidence, profile));
          json.attribute("text", finding.text);
        });
    });
  });
  json.flush();
}

void opprof::profile::writeProfile(const Profile &profile, raw_ostream &os) {
  json::OStream json(os, /*IndentSize=*/1);
  Writer(profile, json).write();
  os << '\n';
}

//===----------------------------------------------------------------------===//
// Reader
//===----------------------------------------------------------------------===//

namespace {
class Reader : public JSONReading {
public:
  Reader(StringRef name, Profile &profile)
      : JSONReading(name), profile(profile) {}

  Error readProfile(element root);

private:
  Error getTime(object from, StringRef key, int64_t &out) {
    if (Error error = getRequired(from, key, out))
      return error;
    if (out < -kMaxTime || out > kMaxTime)
      return fail("\"" + key + "\" is no time in nanoseconds");
    return Error::success();
  }
  Error getDuration(object from, StringRef key, int64_t &out) {
    if (Error error = getTime(from, key, out))
      return error;
    if (out < 0)
      return fail("\"" + key + "\" is negative");
    if (out > kMaxTotalNs - totalDuration)
      return fail("the durations of the profile add up to more than lifetimes");
    totalDuration += out;
    return Error::success();
  }
  /// A duration that is never added up: spans of the host may overlap.
  Error getSpan(object from, StringRef key, int64_t &out) {
    if (Error error = getTime(from, key, out))
      return error;
    if (out < 0)
      return fail("\"" + key + "\" is negative");
    return Error::success();
  }
  Error getInterned(object from, StringRef key, StringRef &out) {
    std::string text;
    if (Error error = getString(from, key, text, /*required=*/false))
      return error;
    out = profile.intern(text);
    return Error::success();
  }
  Error getTriple(object from, StringRef key,
                  std::optional<std::array<uint64_t, 3>> &out) {
    std::vector<uint64_t> numbers;
    if (Error error = getIntegers(from, key, numbers))
      return error;
    element value;
    if (!find(from, key, value))
      return Error::success();
    if (numbers.size() != 3)
      return fail("\"" + key + "\" must hold three whole numbers");
    out = {numbers[0], numbers[1], numbers[2]};
    return Error::success();
  }
  Error getNodes(object from, std::vector<uint32_t> &out);
  Error readSource(object from);
  Error readStep(object from);
  Error readInferredFrom(object from, Node &node);
  Error readNode(object from);
  Error readLaunch(object from);
  Error readJoin(object from, Activity &activity, Origin &origin);
  Error readHost(object from, Activity &activity, Origin &origin);
  Error readShape(object from, Activity &activity);
  Error readCounters(object from, Activity &activity, Origin &origin);
  Error readActivity(object from, std::vector<Activity> &list);
  Error readKernel(object from) { return readActivity(from, profile.kernels); }
  Error readCopy(object from) { return readActivity(from, profile.copies); }
  Error readPartition(object from);
  Error readOperator(object from);
  Error readHostCost(object from);
  Error readCall(object from);
  Error readSynchronization(object from);
  Error readCacheLookup(object from);
  Error readMeasured(object from, MeasuredRates &rates);
  Error readDevice(object from);
  Error readSummary(object keys);
  Error readFinding(object from);
  Error readRun(object keys);
  Error readStepCounters(object keys);
  Error readOverhead(object from);
  Error readMemory(object from);
  Error readTensorMemory(object from);
  Error readMemorySite(object from, TensorMemory &memory);

  /// Later than any clock's time in nanoseconds since 1970 for decades, and
  /// small enough for the end of an event, and the span between two, to fit.
  static constexpr int64_t kMaxTime = int64_t(1) << 61;
  Profile &profile;
  ConfigPool configs;
  int64_t totalDuration = 0;
  NodeIdMap<uint32_t> nodeIds;
  std::map<std::pair<std::string, uint64_t>, uint32_t> launchIds;
};

} // namespace

/// JSON of findings' evidence; nesting is bounded by the parser.
static json::Value toValue(element value) {
  using simdjson::dom::element_type;
  switch (value.type()) {
  case element_type::ARRAY: {
    json::Array out;
    for (element item : simdjson::dom::array(value.get_array().value_unsafe()))
      out.push_back(toValue(item));
    return out;
  }
  case element_type::OBJECT: {
    json::Object out;
    for (auto field : simdjson::dom::object(value.get_object().value_unsafe()))
      out[std::string(field.key)] = toValue(field.value);
    return out;
  }
  case element_type::INT64:
    return value.get_int64().value_unsafe();
  case element_type::UINT64:
    return value.get_uint64().value_unsafe();
  case element_type::DOUBLE:
    return value.get_double().value_unsafe();
  case element_type::STRING: {
    std::string_view text = value.get_string().value_unsafe();
    return std::string(text);
  }
  case element_type::BOOL:
    return value.get_bool().value_unsafe();
  case element_type::NULL_VALUE:
    return nullptr;
  }
  return nullptr;
}

Error Reader::getNodes(object from, std::vector<uint32_t> &out) {
  return getArray(from, "nodes", false, [&](element item) -> Error {
    NodeId node;
    if (Error error = getNode(item, profile.graph, profile.stage, node))
      return error;
    auto it = nodeIds.find(node);
    if (it == nodeIds.end())
      return fail("node '" + node.name + "' is not in \"nodes\"");
    out.push_back(it->second);
    return Error::success();
  });
}

Error Reader::readInferredFrom(object from, Node &node) {
  element value;
  if (!find(from, "inferred_from", value))
    return Error::success();
  MetricsOrigin &origin = node.inferredFrom.emplace();
  object keys;
  element launch;
  if (!value.get(keys) && find(keys, "launch", launch))
    return getText(launch, origin.launch);
  return in("inferred_from", [&] {
    return getNode(value, profile.graph, profile.stage, origin.node);
  });
}

Error Reader::readNode(object from) {
  Node &node = profile.nodes.emplace_back();
  if (Error error = getNodeKeys(from, profile.graph, profile.stage, node.id))
    return error;
  if (Error error = getString(from, "module", node.module))
    return error;
  if (Error error = getString(from, "source", node.source))
    return error;
  if (Error error = getStrings(from, "stack", false, node.stack))
    return error;
  if (Error error = getString(from, "partition", node.partition))
    return error;
  if (Error error = readInferredFrom(from, node))
    return error;
  if (Error error = getNumbers(from, "metrics", node.metrics))
    return error;
  if (Error error = getTexts(from, "metrics_absent", node.metricsAbsent))
    return error;
  if (!nodeIds.try_emplace(node.id, profile.nodes.size() - 1).second)
    return fail("node '" + node.id.name + "' is there twice");
  return Error::success();
}

Error Reader::readLaunch(object from) {
  LaunchRecord &launch = profile.launches.emplace_back();
  if (Error error =
          getString(from, "compiled_graph", launch.compiledGraph, true))
    return error;
  if (Error error =
          launch::readLaunchInfo(*this, from, /*whole=*/false, launch))
    return error;
  std::optional<uint64_t> runs;
  if (Error error = getInteger(from, "runs", runs))
    return error;
  launch.runs = runs.value_or(0);
  if (!launchIds
           .try_emplace({launch.compiledGraph, launch.index},
                        profile.launches.size() - 1)
           .second)
    return fail("launch " + Twine(launch.index) + " of " +
                launch.compiledGraph + " is there twice");
  if (Error error = getNodes(from, launch.nodes))
    return error;
  if (Error error = getIntegers(from, "parts", launch.parts))
    return error;
  if (!launch.parts.empty() && launch.parts.size() != launch.nodes.size())
    return fail("\"parts\" must have a number for each of \"nodes\"");
  for (uint32_t part : launch.parts)
    if (part > 1'000'000)
      return fail("\"parts\" are of a million: " + Twine(part) +
                  " is too many");
  return getEnum(from, "share", launch.share, parseShare, /*required=*/false);
}

/// What the activity was joined to, and how.
Error Reader::readJoin(object from, Activity &activity, Origin &origin) {
  std::optional<uint64_t> launch;
  if (Error error = getInteger(from, "launch", launch))
    return error;
  if (launch) {
    std::string graph;
    if (Error error = getString(from, "compiled_graph", graph, false))
      return error;
    // Files of other tools may leave out the table of launches.
    auto it = launchIds.find({graph, *launch});
    if (it != launchIds.end())
      activity.launch = it->second;
    else if (!launchIds.empty())
      return fail("launch " + Twine(*launch) + " of '" + graph +
                  "' is not in \"launches\"");
  }
  if (Error error = getNodes(from, origin.nodes))
    return error;
  if (Error error = getInterned(from, "method", origin.method))
    return error;
  if (Error error = getEnum(from, "confidence", activity.confidence,
                            parseConfidence, /*required=*/true))
    return error;
  if (Error error = inObject(from, "links", [&](object links) -> Error {
        for (auto [key, confidence] :
             {std::pair("launch", &activity.links.launch),
              std::pair("nodes", &activity.links.nodes),
              std::pair("exported", &activity.links.exported)})
          if (Error error = getEnum(links, key, *confidence, parseConfidence,
                                    /*required=*/false))
            return error;
        return Error::success();
      }))
    return error;
  return getInterned(from, "explanation", origin.explanation);
}

/// What the host did when it started the activity.
Error Reader::readHost(object from, Activity &activity, Origin &origin) {
  if (Error error = getInterned(from, "host_op", origin.hostOp))
    return error;
  if (Error error = getInteger(from, "operator", activity.op))
    return error;
  if (activity.op && *activity.op >= profile.operators.size())
    return fail("\"operator\" is no place in \"operators\"");
  if (Error error = getInterned(from, "module", origin.module))
    return error;
  if (Error error = getInterned(from, "source", origin.source))
    return error;
  if (Error error = getEnum(from, "part", activity.part, parsePart,
                            /*required=*/false))
    return error;
  if (Error error = getInterned(from, "input_type", origin.inputType))
    return error;
  if (Error error = getInteger(from, "launched_at_ns", activity.launchStartNs))
    return error;
  if (Error error =
          getInteger(from, "launch_call_ns", activity.launchDurationNs))
    return error;
  if (Error error = getBool(from, "cuda_graph", activity.cudaGraph))
    return error;
  if (Error error = getInteger(from, "graph_node", activity.graphNode))
    return error;
  return getInterned(from, "range", origin.range);
}

/// How the launch fills its device.
Error Reader::readShape(object from, Activity &activity) {
  LaunchConfig config;
  if (Error error = getTriple(from, "grid", config.grid))
    return error;
  if (Error error = getTriple(from, "block", config.block))
    return error;
  if (Error error = getInteger(from, "registers", config.registers))
    return error;
  if (Error error = getInteger(from, "shared_memory", config.sharedMemory))
    return error;
  if (Error error = getInteger(from, "local_memory", config.localMemory))
    return error;
  if (Error error = getNumber(from, "blocks_per_sm", config.blocksPerSM))
    return error;
  if (Error error = getNumber(from, "warps_per_sm", config.warpsPerSM))
    return error;
  if (Error error = getNumber(from, "occupancy_pct", config.occupancyPct))
    return error;
  activity.config = configs.keep(config);
  return getInteger(from, "bytes", activity.bytes);
}

Error Reader::readCounters(object from, Activity &activity, Origin &origin) {
  CounterRow row;
  if (Error error = getNumbers(from, "metrics", row.values))
    return error;
  if (Error error = getTexts(from, "metrics_absent", row.absent))
    return error;
  if (!row.values.empty() || !row.absent.empty()) {
    activity.counters = profile.counters.size();
    profile.counters.push_back(std::move(row));
  }
  if (Error error = getInterned(from, "metrics_from", origin.countersFrom))
    return error;
  bool inferred = false;
  if (Error error = getBool(from, "metrics_inferred", inferred))
    return error;
  if (inferred && origin.countersFrom.empty())
    origin.countersFrom = profile.intern("another launch");
  return Error::success();
}

Error Reader::readActivity(object from, std::vector<Activity> &list) {
  Activity &activity = list.emplace_back();
  Origin origin;
  if (Error error = getRequired(from, "id", activity.id))
    return error;
  if (activity.id != list.size() - 1)
    return fail("\"id\" must be the place in the list");
  if (Error error = getEnum(from, "kind", activity.kind, parseActivityKind,
                            /*required=*/false))
    return error;
  if (Error error = getInterned(from, "name", activity.name))
    return error;
  std::optional<int64_t> device;
  if (Error error = getInteger(from, "device", device))
    return error;
  activity.device = device.value_or(0);
  if (Error error = getInteger(from, "stream", activity.stream))
    return error;
  if (Error error = getInteger(from, "rank", origin.rank))
    return error;
  if (Error error = getInteger(from, "step", activity.step))
    return error;
  if (Error error = getTime(from, "start_ns", activity.startNs))
    return error;
  if (Error error = getDuration(from, "duration_ns", activity.durationNs))
    return error;
  if (Error error = getEnum(from, "phase", activity.phase, parsePhase,
                            /*required=*/false))
    return error;
  if (Error error = readJoin(from, activity, origin))
    return error;
  if (Error error = readHost(from, activity, origin))
    return error;
  if (Error error = readShape(from, activity))
    return error;
  if (Error error = readCounters(from, activity, origin))
    return error;
  profile.setOrigin(activity, std::move(origin));
  return Error::success();
}

Error Reader::readMeasured(object from, MeasuredRates &rates) {
  if (Error error = getString(from, "device", rates.device, true))
    return error;
  for (const auto &[key, rate] : kRates) {
    std::optional<double> found;
    if (Error error = getNumber(from, key, found))
      return error;
    rates.*rate = found.value_or(0);
    if (found && !(*found > 0 && std::isfinite(*found)))
      return fail("\"" + key + "\" must be a rate above 0");
  }
  if (!rates.memory || !rates.fp32)
    return fail("memory and fp32 must both be measured");
  return Error::success();
}

Error Reader::readDevice(object from) {
  Device &device = profile.devices.emplace_back();
  if (Error error = getRequired(from, "id", device.id))
    return error;
  if (Error error = getString(from, "name", device.name, false))
    return error;
  if (Error error = getString(from, "kind", device.kind, false))
    return error;
  if (Error error = getInteger(from, "sm_count", device.smCount))
    return error;
  if (Error error = getInteger(from, "total_memory", device.totalMemory))
    return error;
  if (Error error =
          getInteger(from, "max_threads_per_sm", device.maxThreadsPerSM))
    return error;
  if (Error error = getInteger(from, "registers_per_sm", device.registersPerSM))
    return error;
  if (Error error = getInteger(from, "shared_per_sm", device.sharedPerSM))
    return error;
  if (Error error = getInteger(from, "warp_size", device.warpSize))
    return error;
  std::vector<uint64_t> capability;
  if (Error error = getIntegers(from, "compute_capability", capability))
    return error;
  if (capability.size() == 2)
    device.computeCapability = {capability[0], capability[1]};
  if (Error error = inObject(from, "measured", [&](object measured) {
        return readMeasured(measured, device.measured.emplace());
      }))
    return error;
  return getInteger(from, "busy_ns", device.busyNs);
}

Error Reader::readSummary(object keys) {
  // Sums are computed again from the kernels; only what they can't tell is
  // read.
  if (Error error = getInteger(keys, "steps", profile.summary.steps))
    return error;
  if (Error error =
          getInteger(keys, "recording_ns", profile.summary.recordingNs))
    return error;
  if (Error error =
          getInteger(keys, "undisturbed_ns", profile.summary.undisturbedNs))
    return error;
  if (Error error = getInteger(keys, "undisturbed_idle_ns",
                               profile.summary.undisturbedIdleNs))
    return error;
  return getString(keys, "steps_from", profile.summary.stepsFrom, false);
}

Error Reader::readRun(object keys) {
  RunFacts &facts = profile.run.emplace();
  if (Error error = readProgramFacts(*this, keys, facts))
    return error;
  if (Error error = getString(keys, "torch", facts.torch, false))
    return error;
  if (Error error = readCompilations(*this, keys, facts))
    return error;
  if (Error error = getInteger(keys, "step_ns", facts.stepNs))
    return error;
  if (Error error = getInteger(keys, "loop_ns", facts.loopNs))
    return error;
  if (Error error = getInteger(keys, "eager_step_ns", facts.eagerStepNs))
    return error;
  if (Error error = getString(keys, "counters", facts.counters, false))
    return error;
  if (Error error = readCounterFacts(*this, keys, facts))
    return error;
  if (Error error = readMemoryFacts(*this, keys, facts))
    return error;
  return getString(keys, "counters_left_out", facts.countersLeftOut, false);
}

Error Reader::readStepCounters(object keys) {
  StepCounters &step = profile.stepCounters.emplace();
  if (Error error = getNumbers(keys, "metrics", step.row.values))
    return error;
  if (Error error = getTexts(keys, "metrics_absent", step.row.absent))
    return error;
  return inObject(keys, "kernels", [&](object kernels) -> Error {
    if (Error error = getRequired(kernels, "summed", step.summedKernels))
      return error;
    if (Error error = getRequired(kernels, "counted", step.countedKernels))
      return error;
    return getNumbers(kernels, "metrics", step.kernelSums);
  });
}

Error Reader::readOverhead(object from) {
  ProfilerOverhead &overhead = profile.overheads.emplace_back();
  if (Error error = getInterned(from, "kind", overhead.kind))
    return error;
  if (Error error = getTime(from, "start_ns", overhead.startNs))
    return error;
  return getSpan(from, "duration_ns", overhead.durationNs);
}

Error Reader::readMemory(object from) {
  MemoryUse &use = profile.memory.emplace_back();
  if (Error error = getRequired(from, "device", use.device))
    return error;
  if (Error error = getRequired(from, "allocations", use.allocations))
    return error;
  if (Error error = getRequired(from, "releases", use.releases))
    return error;
  if (Error error = getRequired(from, "allocated_bytes", use.allocatedBytes))
    return error;
  if (Error error = getRequired(from, "peak_bytes", use.peakBytes))
    return error;
  return getTime(from, "peak_at_ns", use.peakTimeNs);
}

Error Reader::readTensorMemory(object from) {
  TensorMemory &memory = profile.tensorMemory.emplace_back();
  if (Error error = getString(from, "device", memory.device, true))
    return error;
  if (Error error = getTime(from, "start_ns", memory.startNs))
    return error;
  if (Error error = getTime(from, "end_ns", memory.endNs))
    return error;
  if (Error error = getTime(from, "peak_at_ns", memory.peakTimeNs))
    return error;
  for (auto [key, number] : {
           std::pair("allocations", &memory.allocations),
           std::pair("peak_bytes", &memory.peakBytes),
           std::pair("earlier_bytes", &memory.earlierBytes),
           std::pair("end_bytes", &memory.endBytes),
           std::pair("unknown_frees", &memory.unknownFrees),
           std::pair("calls", &memory.calls),
           std::pair("bytes", &memory.bytes),
           std::pair("churn_bytes", &memory.churnBytes),
           std::pair("scratch_bytes", &memory.scratchBytes),
           std::pair("growth_bytes_per_step", &memory.growthBytesPerStep),
           std::pair("other_sites", &memory.otherSites),
       })
    if (Error error = getRequired(from, key, *number))
      return error;
  if (Error error = getInteger(from, "peak_step", memory.peakStep))
    return error;
  if (Error error = getIntegers(from, "held_bytes", memory.heldBytes))
    return error;
  if (Error error = getObjects(from, "sites", true, [&](object item) {
        return readMemorySite(item, memory);
      }))
    return error;
  if (Error error = getInteger(from, "peak_site", memory.peakSite))
    return error;
  if (memory.peakSite && *memory.peakSite >= memory.sites.size())
    return fail("\"peak_site\" is no place in \"sites\"");
  return Error::success();
}

Error Reader::readMemorySite(object from, TensorMemory &memory) {
  MemorySite &site = memory.sites.emplace_back();
  if (Error error = getString(from, "source", site.source, false))
    return error;
  if (Error error = getString(from, "module", site.module, false))
    return error;
  if (Error error = getEnum(from, "part", site.part, parsePart,
                            /*required=*/false))
    return error;
  if (Error error = getString(from, "operator", site.op, false))
    return error;
  for (auto [key, number] : {
           std::pair("peak_bytes", &site.peakBytes),
           std::pair("peak_blocks", &site.peakBlocks),
           std::pair("calls", &site.calls),
           std::pair("bytes", &site.bytes),
           std::pair("churn_bytes", &site.churnBytes),
           std::pair("scratch_bytes", &site.scratchBytes),
           std::pair("growth_bytes_per_step", &site.growthBytesPerStep),
       })
    if (Error error = getRequired(from, key, *number))
      return error;
  return Error::success();
}

Error Reader::readFinding(object from) {
  Finding &finding = profile.findings.emplace_back();
  std::string id;
  if (Error error = getString(from, "id", id, true))
    return error;
  if (Error error =
          getInteger(from, "severity_ns_per_step", finding.severityNsPerStep))
    return error;
  if (Error error = getNodes(from, finding.nodes))
    return error;
  json::Object evidence;
  if (element given; find(from, "evidence", given)) {
    json::Value converted = toValue(given);
    json::Object *object = converted.getAsObject();
    if (!object)
      return fail("\"evidence\" must be an object");
    evidence = std::move(*object);
  }
  finding.evidence = readEvidence(id, std::move(evidence), profile);
  return getString(from, "text", finding.text, true);
}

Error Reader::readSource(object from) {
  Source &source = profile.sources.emplace_back();
  if (Error error = getString(from, "kind", source.kind, true))
    return error;
  if (Error error = getString(from, "file", source.file, false))
    return error;
  if (Error error = getInteger(from, "rank", source.rank))
    return error;
  if (Error error = getInteger(from, "world_size", source.worldSize))
    return error;
  if (Error error = getInteger(from, "process", source.processId))
    return error;
  if (Error error = getString(from, "host", source.host, false))
    return error;
  return getInteger(from, "base_time_ns", source.baseTimeNs);
}

Error Reader::readStep(object from) {
  Step &step = profile.steps.emplace_back();
  if (Error error = getRequired(from, "index", step.index))
    return error;
  if (Error error = getTime(from, "start_ns", step.startNs))
    return error;
  if (Error error = getTime(from, "end_ns", step.endNs))
    return error;
  return getEnum(from, "phase", step.phase, parsePhase, false);
}

Error Reader::readPartition(object from) {
  PartitionTime &partition = profile.partitions.emplace_back();
  if (Error error = getString(from, "class", partition.classId, true))
    return error;
  if (Error error = getString(from, "hash", partition.hash, false))
    return error;
  if (Error error = getString(from, "label", partition.label, true))
    return error;
  if (Error error = getString(from, "role", partition.role, true))
    return error;
  if (Error error = getRequired(from, "node_count", partition.nodeCount))
    return error;
  return getDuration(from, "kernel_time_ns", partition.kernelTimeNs);
}

Error Reader::readOperator(object from) {
  OperatorTime &op = profile.operators.emplace_back();
  if (Error error = getString(from, "name", op.name, true))
    return error;
  if (Error error = getString(from, "input_dims", op.inputDims, false))
    return error;
  if (Error error = getString(from, "input_types", op.inputTypes, false))
    return error;
  if (Error error = getString(from, "input_values", op.inputValues, false))
    return error;
  if (Error error = getRequired(from, "calls", op.calls))
    return error;
  if (Error error = getInteger(from, "flops", op.flops))
    return error;
  if (Error error = getInteger(from, "bytes_read", op.bytesRead))
    return error;
  return getInteger(from, "bytes_written", op.bytesWritten);
}

Error Reader::readHostCost(object from) {
  HostCost &cost = profile.host.emplace_back();
  if (Error error = getEnum(from, "kind", cost.kind, parseHostCostKind,
                            /*required=*/true))
    return error;
  if (Error error = getString(from, "name", cost.name, true))
    return error;
  if (Error error = getString(from, "source", cost.source, false))
    return error;
  if (Error error = getString(from, "module", cost.module, false))
    return error;
  if (Error error = getRequired(from, "calls", cost.calls))
    return error;
  return getDuration(from, "time_ns", cost.timeNs);
}

Error Reader::readCall(object from) {
  CompiledCall &call = profile.calls.emplace_back();
  if (Error error =
          getString(from, "compiled_graph", call.compiledGraph, false))
    return error;
  if (Error error = getTime(from, "start_ns", call.startNs))
    return error;
  if (Error error = getSpan(from, "duration_ns", call.durationNs))
    return error;
  if (Error error = getInteger(from, "step", call.step))
    return error;
  if (Error error = getRequired(from, "launches", call.launches))
    return error;
  return getRequired(from, "matched", call.matched);
}

Error Reader::readSynchronization(object from) {
  Synchronization &wait = profile.synchronizations.emplace_back();
  if (Error error = getString(from, "name", wait.name, true))
    return error;
  if (Error error = getTime(from, "start_ns", wait.startNs))
    return error;
  if (Error error = getString(from, "operator", wait.op, false))
    return error;
  if (Error error = getString(from, "source", wait.source, false))
    return error;
  return getSpan(from, "duration_ns", wait.durationNs);
}

Error Reader::readCacheLookup(object from) {
  CacheLookup &lookup = profile.cacheLookups.emplace_back();
  if (Error error = getTime(from, "start_ns", lookup.startNs))
    return error;
  return getSpan(from, "duration_ns", lookup.durationNs);
}

Error Reader::readProfile(element root) {
  object keys;
  if (Error error = getObject(root, keys))
    return error;
  if (element version; !find(keys, "version", version))
    for (auto field : keys)
      if (StringRef name = nameOtherDocument(field.key); !name.empty())
        return fail("this is " + name +
                    "; pass the trace that torch.profiler's "
                    "export_chrome_trace wrote");
  if (Error error = checkVersion(keys, Profile::kVersion, "a profile",
                                 "`opprof profile`"))
    return error;
  if (Error error = getString(keys, "graph", profile.graph, false))
    return error;
  if (Error error = getString(keys, "stage", profile.stage, false))
    return error;
  if (Error error =
          inObject(keys, "run", [&](object run) { return readRun(run); }))
    return error;
  element summary;
  if (!find(keys, "summary", summary))
    return fail("the key \"summary\" is missing: this is not a profile");
  if (Error error = inObject(keys, "summary",
                             [&](object from) { return readSummary(from); }))
    return error;
  if (Error error = inObject(keys, "step_counters", [&](object step) {
        return readStepCounters(step);
      }))
    return error;
  if (Error error = getStrings(keys, "notes", false, profile.notes))
    return error;
  // Nodes come before what refers to them, and launches before kernels.
  struct List {
    StringRef key;
    bool isRequired;
    Error (Reader::*read)(object);
  };
  for (const List &list : {
           List{"sources", false, &Reader::readSource},
           List{"devices", false, &Reader::readDevice},
           List{"steps", false, &Reader::readStep},
           List{"nodes", false, &Reader::readNode},
           List{"launches", false, &Reader::readLaunch},
           List{"operators", false, &Reader::readOperator},
           List{"host", false, &Reader::readHostCost},
           List{"kernels", true, &Reader::readKernel},
           List{"copies", false, &Reader::readCopy},
           List{"partitions", false, &Reader::readPartition},
           List{"calls", false, &Reader::readCall},
           List{"synchronizations", false, &Reader::readSynchronization},
           List{"cache_lookups", false, &Reader::readCacheLookup},
           List{"overheads", false, &Reader::readOverhead},
           List{"memory", false, &Reader::readMemory},
           List{"tensor_memory", false, &Reader::readTensorMemory},
           List{"findings", false, &Reader::readFinding},
       })
    if (Error error =
            getObjects(keys, list.key, list.isRequired,
                       [&](object item) { return (this->*list.read)(item); }))
      return error;
  return Error::success();
}

Expected<std::unique_ptr<Profile>>
opprof::profile::readProfile(StringRef text, StringRef name) {
  limitReading(name, text.size(), kPlainBudget);
  auto profile = std::make_unique<Profile>();
  Reader reader(name, *profile);
  if (Error error = reader.parse(
          text, [&](element root) { return reader.readProfile(root); }))
    return error;
  summarize(*profile);
  return profile;
}
