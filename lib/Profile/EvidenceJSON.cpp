// Findings' evidence in the profile's file. Each struct of evidence is
// described once, by a function `fields` that names its keys; the same function
// writes and reads it.

#include "opprof/Profile/Profile.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace llvm;

namespace opprof::profile {
// NOLINTBEGIN(llvm-prefer-static-over-anonymous-namespace): the templates of
// Fields find the functions `fields` by their argument's namespace.
namespace {

/// Sums of files beyond this are not taken apart into counts.
constexpr double kMaxWhole = double(int64_t(1) << 53);

/// The keys of one JSON object, written from a struct or read into one. What
/// does not fit sets `isValid` to false; what has been read by then is of no
/// use.
class Fields {
public:
  Fields(const Profile &profile, json::Object &object, bool isReading)
      : isReading(isReading), profile(profile), object(object),
        steps(std::max<int64_t>(countSteadySteps(profile), 1)) {}

  template <typename T> void value(StringRef key, T &value) {
    if (!isReading)
      object[key.str()] = value;
    else if (std::optional<T> read = get<T>(key))
      value = *read;
    else
      isValid = false;
  }

  template <typename T> void value(StringRef key, std::optional<T> &value) {
    present(key, value, [&](T &known) { this->value(key, known); });
  }

  /// A sum, which the file has a step.
  void perStep(StringRef key, int64_t &total) {
    int64_t mean = total / steps;
    value(key, mean);
    if (isReading && MulOverflow(mean, steps, total))
      isValid = false;
  }
  void perStep(StringRef key, uint64_t &total) {
    int64_t sum = static_cast<int64_t>(total);
    perStep(key, sum);
    total = static_cast<uint64_t>(sum);
  }
  void perStep(StringRef key, std::optional<int64_t> &total) {
    present(key, total, [&](int64_t &known) { perStep(key, known); });
  }
  void perStep(StringRef key, double &total) {
    int64_t mean = static_cast<int64_t>(total / static_cast<double>(steps));
    value(key, mean);
    if (isReading)
      total = static_cast<double>(mean) * static_cast<double>(steps);
  }

  /// A number of things, of which the file has the mean a step.
  void countPerStep(StringRef key, uint64_t &count) {
    double mean = static_cast<double>(count) / static_cast<double>(steps);
    value(key, mean);
    if (!isReading)
      return;
    double total = std::round(mean * static_cast<double>(steps));
    if (total >= 0 && total <= kMaxWhole)
      count = static_cast<uint64_t>(total);
    else
      isValid = false;
  }
  void countPerStep(StringRef key, std::optional<uint64_t> &count) {
    present(key, count, [&](uint64_t &known) { countPerStep(key, known); });
  }

  void rounded(StringRef key, double &exact) {
    double whole = std::round(exact);
    value(key, whole);
    if (isReading)
      exact = whole;
  }

  void tenths(StringRef key, double &exact) {
    double value = std::round(exact * 10) / 10;
    this->value(key, value);
    if (isReading)
      exact = value;
  }

  /// How often there is what has a name.
  void counts(StringRef key, std::map<std::string, uint64_t> &values) {
    nested(key, [&](Fields &inner) {
      if (isReading)
        for (const auto &[name, value] : inner.object)
          values[name.str()];
      for (auto &[name, value] : values)
        inner.value(name, value);
    });
  }

  /// One of `count` enumerators, by its name.
  template <typename Enum>
  void named(StringRef key, Enum &value, size_t count) {
    std::string name = stringify(value).str();
    this->value(key, name);
    if (isReading && !parse(name, value, count))
      isValid = false;
  }

  /// What enumerators have, by their names; `each` writes or reads one.
  template <typename Enum, typename T>
  void byName(StringRef key, std::map<Enum, T> &values, size_t count,
              function_ref<void(Fields &, StringRef, T &)> each) {
    nested(key, [&](Fields &fields) {
      if (!isReading) {
        for (auto &[name, value] : values)
          each(fields, stringify(name), value);
        return;
      }
      for (const auto &[name, value] : fields.object) {
        Enum parsed{};
        if (!parse(name, parsed, count))
          isValid = false;
        else
          each(fields, name, values[parsed]);
      }
    });
  }

  /// An object under `key`, whose fields `visit` names.
  template <typename Visit> void nested(StringRef key, Visit visit) {
    json::Object inner;
    if (isReading) {
      const json::Object *found = object.getObject(key);
      if (!found) {
        isValid = false;
        return;
      }
      inner = *found;
    }
    Fields child(profile, inner, isReading);
    visit(child);
    isValid &= child.isValid;
    if (!isReading)
      object[key.str()] = std::move(inner);
  }

  /// An array of objects.
  template <typename T> void list(StringRef key, std::vector<T> &values) {
    if (!isReading) {
      json::Array array;
      for (T &value : values) {
        json::Object item;
        Fields child(profile, item, isReading);
        fields(child, value);
        array.push_back(std::move(item));
      }
      object[key.str()] = std::move(array);
      return;
    }
    const json::Array *array = object.getArray(key);
    if (!array) {
      isValid = false;
      return;
    }
    for (const json::Value &value : *array) {
      const json::Object *found = value.getAsObject();
      json::Object item = found ? *found : json::Object();
      Fields child(profile, item, isReading);
      fields(child, values.emplace_back());
      isValid &= found && child.isValid;
    }
  }

  /// A launch by its compiled graph and number.
  void launch(uint32_t &place) {
    std::string graph;
    uint64_t index = 0;
    if (!isReading) {
      graph = profile.launches[place].compiledGraph;
      index = profile.launches[place].index;
    }
    value("compiled_graph", graph);
    value("launch", index);
    if (!isReading)
      return;
    auto found =
        llvm::find_if(profile.launches, [&](const LaunchRecord &launch) {
          return launch.index == index && launch.compiledGraph == graph;
        });
    place = found - profile.launches.begin();
    isValid &= found != profile.launches.end();
  }
  void launch(std::optional<uint32_t> &place) {
    present("launch", place, [&](uint32_t &known) { launch(known); });
  }

  void launchAndKernel(uint32_t &place) {
    launch(place);
    if (!isReading)
      object["kernel"] = profile.launches[place].kernel;
  }

  /// An operator by its place in the file's list.
  void op(uint32_t &place) {
    uint64_t index = place;
    value("operator", index);
    isValid &= index < profile.operators.size();
    place = static_cast<uint32_t>(index);
    if (isReading || !isValid)
      return;
    object["name"] = profile.operators[place].name;
    object["input_dims"] = profile.operators[place].inputDims;
  }

  /// A node by its bare name, where one node has it.
  void node(StringRef key, std::optional<uint32_t> &place) {
    present(key, place, [&](uint32_t &known) {
      std::string name = isReading ? "" : profile.nodes[known].id.name;
      value(key, name);
      if (!isReading)
        return;
      auto isNamed = [&](const Node &node) { return node.id.name == name; };
      auto found = llvm::find_if(profile.nodes, isNamed);
      known = found - profile.nodes.begin();
      isValid &= found != profile.nodes.end() &&
                 llvm::count_if(profile.nodes, isNamed) == 1;
    });
  }

  /// A kernel or copy by its id, which is its place.
  void kernel(StringRef key, std::optional<uint32_t> &place) {
    activity(key, place, profile.kernels.size());
  }
  void copy(StringRef key, std::optional<uint32_t> &place) {
    activity(key, place, profile.copies.size());
  }

  /// What follows from other fields.
  void derived(StringRef key, const json::Value &value) {
    if (!isReading)
      object[key.str()] = value;
  }

  bool has(StringRef key) const { return object.get(key); }

  const bool isReading;
  bool isValid = true;

private:
  void activity(StringRef key, std::optional<uint32_t> &place, size_t count) {
    present(key, place, [&](uint32_t &known) {
      uint64_t id = known;
      value(key, id);
      isValid &= id < count;
      known = static_cast<uint32_t>(id);
    });
  }

  /// Runs `visit` on an optional field that is there.
  template <typename T, typename Visit>
  void present(StringRef key, std::optional<T> &value, Visit visit) {
    if (isReading && has(key))
      value.emplace();
    if (value)
      visit(*value);
  }

  template <typename Enum>
  static bool parse(StringRef name, Enum &value, size_t count) {
    for (size_t index = 0; index < count; ++index)
      if (stringify(static_cast<Enum>(index)) == name) {
        value = static_cast<Enum>(index);
        return true;
      }
    return false;
  }

  template <typename T> std::optional<T> get(StringRef key) const {
    const json::Value *found = object.get(key);
    if (!found)
      return std::nullopt;
    if constexpr (std::is_same_v<T, bool>)
      return found->getAsBoolean();
    else if constexpr (std::is_same_v<T, double>)
      return found->getAsNumber();
    else if constexpr (std::is_same_v<T, int64_t>)
      return found->getAsInteger();
    else if constexpr (std::is_same_v<T, uint64_t>)
      return found->getAsUINT64();
    else if (std::optional<StringRef> text = found->getAsString())
      return text->str();
    return std::nullopt;
  }

  const Profile &profile;
  json::Object &object;
  int64_t steps;
};

//===----------------------------------------------------------------------===//
// From the timeline
//===----------------------------------------------------------------------===//

void fields(Fields &io, evidence::WallTime &time) {
  io.perStep("wall_ns_per_step", time.wallNs);
  io.perStep("kernels_ns_per_step", time.kernelsNs);
  if (time.otherKernelsNs || io.has("other_kernels_ns_per_step"))
    io.perStep("other_kernels_ns_per_step", time.otherKernelsNs);
  io.perStep("copies_only_ns_per_step", time.copiesOnlyNs);
  io.perStep("idle_ns_per_step", time.idleNs);
  io.perStep("idle_in_compiled_calls_ns_per_step", time.idleInCompiledCallsNs);
  io.perStep("idle_host_waiting_ns_per_step", time.idleHostWaitingNs);
  io.perStep("idle_outside_ns_per_step", time.idleOutsideNs);
  io.perStep("idle_profiler_ns_per_step", time.idleProfilerNs);
  io.perStep("kernels_per_step", time.kernels);
  io.value("steps", time.steps);
}

void fields(Fields &io, evidence::Gap &gap) {
  io.value("gap_ns", gap.lengthNs);
  io.kernel("before_kernel", gap.kernel);
  io.copy("before_copy", gap.copy);
  io.value("host_late_ns", gap.hostLateNs);
  if (!gap.host.empty() || io.has("host"))
    io.value("host", gap.host);
  io.value("host_ns", gap.hostNs);
}

void fields(Fields &io, evidence::IdleIn &idle) {
  io.value("host", idle.host);
  io.perStep("idle_ns_per_step", idle.idleNs);
}

void fields(Fields &io, evidence::BusyOfDevice &busy) {
  io.value("device", busy.device);
  io.value("busy_pct", busy.busyPct);
  io.perStep("busy_ns_per_step", busy.busyNs);
  io.perStep("idle_ns_per_step", busy.idleNs);
  io.perStep("idle_profiler_ns_per_step", busy.idleProfilerNs);
  io.countPerStep("gaps_per_step", busy.gaps);
  io.list("largest_gaps", busy.largestGaps);
}

void fields(Fields &io, evidence::DeviceBusy &busy) {
  io.value("busy_pct", busy.busyPct);
  io.perStep("busy_ns_per_step", busy.busyNs);
  io.perStep("kernel_time_ns_per_step", busy.kernelTimeNs);
  io.perStep("overlapped_ns_per_step", busy.overlappedNs);
  io.perStep("idle_ns_per_step", busy.idleNs);
  io.perStep("idle_profiler_ns_per_step", busy.idleProfilerNs);
  io.countPerStep("gaps_per_step", busy.gaps);
  io.perStep("idle_host_late_ns_per_step", busy.idleHostLateNs);
  io.perStep("idle_after_launch_ns_per_step", busy.idleAfterLaunchNs);
  io.value("estimated_sm_efficiency_pct", busy.smEfficiencyPct);
  io.value("estimated_occupancy_pct", busy.occupancyPct);
  io.value("launch_to_start_median_ns", busy.launchToStartMedianNs);
  io.value("launch_to_start_shortest_ns", busy.launchToStartShortestNs);
  io.list("largest_gaps", busy.largestGaps);
  if (!busy.idleIn.empty() || io.has("idle_in"))
    io.list("idle_in", busy.idleIn);
  if (!busy.devices.empty() || io.has("devices"))
    io.list("devices", busy.devices);
}

void fields(Fields &io, evidence::SmallOfDevice &small) {
  io.value("device", small.device);
  io.countPerStep("small_per_step", small.small);
  io.countPerStep("kernels_per_step", small.kernels);
  io.perStep("small_ns_per_step", small.smallNs);
  io.perStep("idle_before_small_ns_per_step", small.idleBeforeNs);
}

void fields(Fields &io, evidence::SmallKernels &small) {
  io.value("threshold_ns", small.thresholdNs);
  io.countPerStep("small_per_step", small.small);
  io.countPerStep("kernels_per_step", small.kernels);
  io.perStep("small_ns_per_step", small.smallNs);
  io.value("small_share_of_kernel_time_pct", small.sharePct);
  io.perStep("idle_before_small_ns_per_step", small.idleBeforeNs);
  io.countPerStep("shorter_than_own_launch_per_step", small.shorterThanLaunch);
  io.perStep("launch_calls_ns_per_step", small.launchCallsNs);
  if (!small.devices.empty() || io.has("devices"))
    io.list("devices", small.devices);
}

void fields(Fields &io, evidence::LaunchTime &time) {
  io.launchAndKernel(time.launch);
  io.perStep("ns_per_step", time.timeNs);
}

void fields(Fields &io, evidence::NoArithmetic &found) {
  io.value("launches", found.launches);
  io.countPerStep("kernels_per_step", found.kernels);
  io.perStep("ns_per_step", found.timeNs);
  io.value("share_of_kernel_time_pct", found.sharePct);
  io.value("bytes", found.bytes);
  io.list("largest", found.largest);
}

void fields(Fields &io, evidence::Synchronizations &waits) {
  io.counts("calls", waits.calls);
  io.perStep("host_waits_ns_per_step", waits.hostWaitsNs);
  io.perStep("device_idle_ns_per_step", waits.deviceIdleNs);
}

void fields(Fields &io, evidence::CacheLookups &lookups) {
  io.countPerStep("lookups_per_step", lookups.lookups);
  io.perStep("host_ns_per_step", lookups.timeNs);
  io.value("longest_ns", lookups.longestNs);
  io.perStep("device_idle_ns_per_step", lookups.deviceIdleNs);
  io.value("share_of_wall_time_pct", lookups.sharePct);
}

void fields(Fields &io, evidence::CopiesOfDevice &copies) {
  io.value("device", copies.device);
  io.countPerStep("copies_per_step", copies.copies);
  io.perStep("bytes_per_step", copies.bytes);
  io.perStep("ns_per_step", copies.timeNs);
}

void fields(Fields &io, evidence::HostCopies &copies) {
  io.countPerStep("copies_per_step", copies.copies);
  io.perStep("bytes_per_step", copies.bytes);
  io.perStep("ns_per_step", copies.timeNs);
  if (copies.hiddenNs || io.has("hidden_ns_per_step"))
    io.perStep("hidden_ns_per_step", copies.hiddenNs);
  io.value("pageable", copies.isPageable);
  if (copies.pages || io.has("pages_per_step"))
    io.countPerStep("pages_per_step", copies.pages);
  if (!copies.devices.empty() || io.has("devices"))
    io.list("devices", copies.devices);
}

// One for all that are of a line.
void fields(Fields &io, evidence::LineCost &line) {
  io.value("source", line.source);
  io.value("module", line.module);
  io.countPerStep("calls_per_step", line.calls);
  io.perStep("ns_per_step", line.timeNs);
  io.perStep("saved_ns_per_step", line.savedNs);
}

void fields(Fields &io, evidence::PrecisionIsland &island) {
  fields(io, static_cast<evidence::LineCost &>(island));
  io.value("others", island.others);
}

void fields(Fields &io, evidence::HostWait &wait) {
  fields(io, static_cast<evidence::LineCost &>(wait));
  io.value("call", wait.call);
}

void fields(Fields &io, evidence::PageableCopies &copies) {
  fields(io, static_cast<evidence::LineCost &>(copies));
  io.perStep("bytes_per_step", copies.bytes);
}

void fields(Fields &io, evidence::HostCode &code) {
  fields(io, static_cast<evidence::LineCost &>(code));
  io.value("after", code.after);
}

void fields(Fields &io, evidence::MemoryGrowth &growth) {
  io.value("device", growth.device);
  io.value("source", growth.source);
  io.value("module", growth.module);
  io.value("bytes_per_step", growth.bytesPerStep);
  io.value("all_bytes_per_step", growth.allBytesPerStep);
  io.value("peak_bytes", growth.peakBytes);
}

void fields(Fields &io, evidence::SerializedWork &work) {
  io.countPerStep("groups_per_step", work.groups);
  io.countPerStep("kernels_per_step", work.kernels);
  io.perStep("ns_per_step", work.timeNs);
  io.perStep("would_save_ns_per_step", work.savedNs);
  io.value("largest_kernels", work.largestKernels);
  io.value("largest_would_save_ns", work.largestSavedNs);
}

void fields(Fields &io, evidence::BiasCopies &copies) {
  io.countPerStep("copies_per_step", copies.copies);
  io.perStep("bytes_per_step", copies.bytes);
  io.perStep("ns_per_step", copies.timeNs);
}

void fields(Fields &io, evidence::LayoutConversions &conversions) {
  io.countPerStep("kernels_per_step", conversions.kernels);
  io.perStep("ns_per_step", conversions.timeNs);
  io.value("share_of_kernel_time_pct", conversions.sharePct);
}

void fields(Fields &io, evidence::UnfusedAttention &attention) {
  io.countPerStep("calls_per_step", attention.calls);
  io.countPerStep("kernels_per_step", attention.kernels);
  io.perStep("ns_per_step", attention.timeNs);
  io.value("share_of_kernel_time_pct", attention.sharePct);
  io.value("input_dims", attention.inputDims);
  io.named("flash_refuses", attention.flash, kNumAttentionRefusals);
  io.named("efficient_refuses", attention.efficient, kNumAttentionRefusals);
}

void fields(Fields &io, evidence::DeviceTalk &talk) {
  io.value("device", talk.device);
  io.countPerStep("collectives_per_step", talk.collectives);
  io.perStep("ns_per_step", talk.timeNs);
  io.perStep("exposed_ns_per_step", talk.exposedNs);
  io.perStep("waited_ns_per_step", talk.waitedNs);
}

void fields(Fields &io, evidence::Communication &talk) {
  io.countPerStep("collectives_per_step", talk.collectives);
  io.perStep("ns_per_step", talk.timeNs);
  io.perStep("exposed_ns_per_step", talk.exposedNs);
  io.value("longest_ns", talk.longestNs);
  io.value("longest", talk.longestName);
  io.value("rank", talk.rank);
  if (!talk.devices.empty() || io.has("devices"))
    io.list("devices", talk.devices);
}

void fields(Fields &io, evidence::ColdStart &cold) {
  io.value("warm_up_steps", cold.warmUpSteps);
  io.value("warm_up_ns_per_step", cold.warmUpStepNs);
  io.value("steady_ns_per_step", cold.steadyStepNs);
}

void fields(Fields &io, evidence::Variation &found) {
  io.value("launches", found.launches);
  io.perStep("excess_ns_per_step", found.excessNs);
  io.nested("worst", [&](Fields &worst) {
    worst.launch(found.worst.launch);
    worst.value("median_ns", found.worst.medianNs);
    worst.value("longest_ns", found.worst.longestNs);
    worst.value("runs", found.worst.runs);
  });
}

//===----------------------------------------------------------------------===//
// From the model of FLOPs and bytes
//===----------------------------------------------------------------------===//

void fields(Fields &io, evidence::PlacedLaunch &placed) {
  if (io.isReading)
    (io.has("operator") ? placed.op : placed.launch).emplace();
  if (placed.op)
    io.op(*placed.op);
  else if (placed.launch)
    io.launchAndKernel(*placed.launch);
  io.named("class", placed.bound, kNumBounds);
  std::string from = placed.isByCounters ? "counters" : "model";
  io.value("class_from", from);
  placed.isByCounters = from == "counters";
  io.named("ceiling", placed.ceiling, kNumPrecisions);
  io.rounded("ns", placed.runNs);
  io.rounded("roof_ns", placed.roofNs);
  io.value("roof_pct", placed.roofPct);
  io.value("arithmetic_intensity", placed.intensity);
}

void ceilingFields(Fields &io, evidence::Ceilings &ceilings) {
  io.value("device", ceilings.device);
  auto rate = [&](StringRef key, evidence::Rate &rate) {
    io.nested(key, [&](Fields &inner) {
      inner.value("rate_per_s", rate.perSecond);
      inner.value("origin", rate.origin);
    });
  };
  rate("memory_bytes", ceilings.memory);
  for (size_t index = 0; index < kNumPrecisions; ++index)
    rate((stringify(static_cast<Precision>(index)) + "_flops").str(),
         ceilings.compute[index]);
}

/// No classes: the reason, and what rates are known all the same.
void withoutRoofFields(Fields &io, evidence::Roofline &roofline) {
  io.derived("ceilings", nullptr);
  std::string reason;
  if (roofline.without)
    reason = stringify(*roofline.without, roofline.ceilings.device);
  io.value("reason", reason);
  if (io.isReading) {
    roofline.without = parseNoRoof(reason, roofline.ceilings.device);
    io.isValid &= roofline.without.has_value();
    if (io.has("flops_per_step"))
      roofline.rates.emplace();
  }
  if (!roofline.rates)
    return;
  io.value("flops_per_step", roofline.rates->flopsPerStep);
  io.value("bytes_per_step", roofline.rates->bytesPerStep);
  io.value("flops_per_s", roofline.rates->flopsPerSecond);
  io.value("bytes_per_s", roofline.rates->bytesPerSecond);
}

void fields(Fields &io, evidence::Roofline &roofline) {
  if (io.isReading ? io.has("reason") : roofline.without.has_value())
    return withoutRoofFields(io, roofline);
  evidence::Ceilings &ceilings = roofline.ceilings;
  io.nested("ceilings", [&](Fields &inner) { ceilingFields(inner, ceilings); });
  for (Precision precision : {Precision::FP32, Precision::BF16})
    io.derived(("ridge_" + stringify(precision) + "_flops_per_byte").str(),
               ceilings.of(precision).perSecond / ceilings.memory.perSecond);
  io.nested("classes", [&](Fields &classes) {
    for (size_t index = 0; index < kNumBounds; ++index) {
      Bound bound = static_cast<Bound>(index);
      // Earlier profiles call these latency-bound.
      if (bound == Bound::Unknown && classes.isReading &&
          !classes.has(stringify(bound)))
        continue;
      classes.nested(stringify(bound), [&](Fields &inner) {
        inner.value("launches", roofline.classes[index].launches);
        inner.perStep("ns_per_step", roofline.classes[index].timeNs);
      });
    }
  });
  io.value("classes_from_counters_launches", roofline.byCounters.launches);
  io.perStep("classes_from_counters_ns_per_step", roofline.byCounters.timeNs);
  io.perStep("roof_ns_per_step", roofline.roofNs);
  io.perStep("above_roof_ns_per_step", roofline.aboveRoofNs);
  io.perStep("without_model_ns_per_step", roofline.withoutModelNs);
  io.list("most_above_roof", roofline.mostAboveRoof);
}

void fields(Fields &io, evidence::TensorCoresIdle &idle) {
  io.value("launches", idle.launches);
  io.perStep("ns_per_step", idle.timeNs);
  io.value("share_of_kernel_time_pct", idle.sharePct);
  io.perStep("least_ns_per_step_with_tensor_cores", idle.leastNs);
  io.value("launches_by_counters", idle.launchesByCounters);
  io.value("kernel", idle.kernel);
}

void fields(Fields &io, evidence::Goodput &goodput) {
  io.perStep("flops_per_step", goodput.flops);
  io.value("known_share_of_kernel_time_pct", goodput.knownPct);
  io.rounded("flops_per_s", goodput.flopsPerSecond);
  io.named("precision", goodput.precision, kNumPrecisions);
  io.value("peak_flops_per_s", goodput.peak.perSecond);
  io.value("peak_from", goodput.peak.origin);
  io.tenths("utilization_pct", goodput.utilizationPct);
}

//===----------------------------------------------------------------------===//
// From hardware counters
//===----------------------------------------------------------------------===//

void workFields(Fields &io, evidence::Work &work) {
  io.value("kernel", work.kernel);
  io.perStep("ns_per_step", work.timeNs);
  io.launch(work.launch);
  if (!work.launch)
    io.node("node", work.node);
}

template <typename Entry>
void workListFields(Fields &io, evidence::WorkList<Entry> &work) {
  io.value("launches", work.launches);
  io.perStep("ns_per_step", work.timeNs);
  io.value("share_of_kernel_time_pct", work.sharePct);
  io.perStep("inferred_ns_per_step", work.inferredNs);
  io.list("largest", work.largest);
}

void fields(Fields &io, evidence::PeakShares &shares) {
  workFields(io, shares);
  io.value("sm_throughput_pct", shares.smThroughputPct);
  io.value("memory_throughput_pct", shares.memoryThroughputPct);
  io.value("dram_throughput_pct", shares.dramThroughputPct);
  io.value("tensor_pipe_pct", shares.tensorPipePct);
  io.value("achieved_occupancy_pct", shares.achievedOccupancyPct);
  io.value("l1_hit_pct", shares.l1HitPct);
  io.value("l2_hit_pct", shares.l2HitPct);
  io.value("issue_active_pct", shares.issueActivePct);
}

void fields(Fields &io, evidence::SpeedOfLight &speed) {
  workListFields(io, speed);
  io.perStep("counted_ns_per_step", speed.countedNs);
  io.value("near_compute_peak_pct", speed.nearComputePeakPct);
  io.value("near_memory_peak_pct", speed.nearMemoryPeakPct);
  io.value("far_from_both_pct", speed.farFromBothPct);
  io.tenths("mean_sm_throughput_pct", speed.meanSMThroughputPct);
  io.tenths("mean_memory_throughput_pct", speed.meanMemoryThroughputPct);
}

void fields(Fields &io, evidence::Traffic &traffic) {
  workFields(io, traffic);
  io.value("dram_bytes", traffic.dramBytes);
  io.value("fewest_bytes", traffic.fewestBytes);
  io.value("times", traffic.times);
}

void fields(Fields &io, evidence::MemoryTraffic &traffic) {
  workListFields(io, traffic);
}

void fields(Fields &io, evidence::OccupancyOfWork &occupancy) {
  workFields(io, occupancy);
  io.value("achieved_occupancy_pct", occupancy.achievedPct);
  io.value("possible_occupancy_pct", occupancy.possiblePct);
  io.value("waves", occupancy.waves);
  io.named("limiter", occupancy.limiter, kNumOccupancyLimiters);
}

template <typename Enum>
void timesByName(Fields &io, StringRef key, std::map<Enum, int64_t> &timeNsOf,
                 size_t count) {
  io.byName<Enum, int64_t>(key, timeNsOf, count,
                           [](Fields &inner, StringRef name, int64_t &time) {
                             inner.perStep(name, time);
                           });
}

void fields(Fields &io, evidence::LowOccupancy &occupancy) {
  workListFields(io, occupancy);
  timesByName(io, "ns_per_step_by_limiter", occupancy.timeNsOf,
              kNumOccupancyLimiters);
}

void fields(Fields &io, evidence::LocalMemoryOfWork &memory) {
  workFields(io, memory);
  io.value("local_memory_wavefronts", memory.wavefronts);
  io.value("bytes_per_thread", memory.bytesPerThread);
  io.value("registers", memory.registers);
}

void fields(Fields &io, evidence::LocalMemory &memory) {
  workListFields(io, memory);
}

void fields(Fields &io, evidence::ConflictsOfWork &conflicts) {
  workFields(io, conflicts);
  io.value("bank_conflicts", conflicts.conflicts);
  io.value("of_active_cycles_pct", conflicts.ofActiveCyclesPct);
}

void fields(Fields &io, evidence::BankConflicts &conflicts) {
  workListFields(io, conflicts);
}

void fields(Fields &io, evidence::ScatterOfWork &scatter) {
  workFields(io, scatter);
  io.value("sectors_per_request", scatter.sectorsPerRequest);
}

void fields(Fields &io, evidence::ScatteredAccess &scatter) {
  workListFields(io, scatter);
}

void fields(Fields &io, evidence::StallsOfWork &stalls) {
  workFields(io, stalls);
  io.named("reason", stalls.reason, kNumStallReasons);
  io.value("cycles_per_issue", stalls.cyclesPerIssue);
  io.value("share_pct", stalls.sharePct);
}

void fields(Fields &io, evidence::Stalls &stalls) {
  workListFields(io, stalls);
  timesByName(io, "ns_per_step_by_leading_reason", stalls.timeNsOf,
              kNumStallReasons);
}

void fields(Fields &io, evidence::PipesOfWork &pipes) {
  workFields(io, pipes);
  io.named("pipe", pipes.pipe, kNumPipes);
  io.byName<Pipe, double>("share_pct", pipes.sharePct, kNumPipes,
                          [](Fields &inner, StringRef name, double &share) {
                            inner.value(name, share);
                          });
}

void fields(Fields &io, evidence::Pipes &pipes) {
  workListFields(io, pipes);
  timesByName(io, "ns_per_step_by_leading_pipe", pipes.timeNsOf, kNumPipes);
}

void fields(Fields &io, evidence::DivergenceOfWork &divergence) {
  workFields(io, divergence);
  io.value("threads_per_warp", divergence.threadsPerWarp);
}

void fields(Fields &io, evidence::Divergence &divergence) {
  workListFields(io, divergence);
}

/// Evidence of a kind with nothing in it yet.
Evidence makeEvidence(FindingKind kind) {
  switch (kind) {
#define OPPROF_FINDING(Name, Id)                                               \
  case FindingKind::Name:                                                      \
    return evidence::Name();
#include "opprof/Profile/FindingKinds.def"
  }
  llvm_unreachable("unhandled kind");
}

} // namespace
// NOLINTEND(llvm-prefer-static-over-anonymous-namespace)

json::Object toJSON(const Evidence &evidence, const Profile &profile) {
  if (const auto *unread = std::get_if<evidence::Unread>(&evidence))
    return unread->object;
  json::Object object;
  Fields io(profile, object, /*isReading=*/false);
  // Fields are named for reading too, which takes what can be changed.
  Evidence copy = evidence;
  std::visit(
      [&](auto &typed) {
        if constexpr (!std::is_same_v<std::decay_t<decltype(typed)>,
                                      evidence::Unread>)
          fields(io, typed);
      },
      copy);
  return object;
}

Evidence readEvidence(StringRef id, json::Object object,
                      const Profile &profile) {
  if (std::optional<FindingKind> kind = parseFindingKind(id)) {
    Evidence evidence = makeEvidence(*kind);
    Fields io(profile, object, /*isReading=*/true);
    std::visit(
        [&](auto &typed) {
          if constexpr (!std::is_same_v<std::decay_t<decltype(typed)>,
                                        evidence::Unread>)
            fields(io, typed);
        },
        evidence);
    if (io.isValid && toJSON(evidence, profile) == object)
      return evidence;
  }
  return evidence::Unread{id.str(), std::move(object)};
}

} // namespace opprof::profile
