// Sums a profile up for the reports.

#include "opprof/Report/ReportModel.h"
#include "opprof/Report/CompilationText.h"
#include "opprof/Support/Intervals.h"
#include "opprof/Support/Units.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/IntEqClasses.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"

#include <cmath>
#include <set>

using namespace llvm;
using namespace opprof;
using namespace opprof::profile;
using namespace opprof::report;

std::string ReportModel::countPerStep(uint64_t count) const {
  if (count % steps == 0)
    return std::to_string(count / steps);
  double mean = double(count) / double(steps);
  return mean < 0.05 ? "<0.1" : formatv("{0:f1}", mean).str();
}

double ReportModel::share(int64_t totalNs) const {
  int64_t all = counted.kernelTimeNs;
  return all > 0 ? 100.0 * totalNs / all : 0;
}

std::string report::describeLinks(const Summary &summary) {
  std::string text;
  for (auto [link, times] : enumerate(summary.linksNs)) {
    int64_t total = 0;
    for (int64_t time : times)
      total += time;
    if (!total)
      continue;
    text += (text.empty() ? "by link: " : "; ") + kLinkNames[link].str();
    bool isFirst = true;
    for (size_t i = 0; i < kNumConfidences; ++i)
      if (times[i]) {
        text += (isFirst ? " " : ", ") + stringify(Confidence(i)).str() + " " +
                formatPercent(100.0 * times[i] / total);
        isFirst = false;
      }
  }
  return text;
}

std::string report::getModuleGroup(StringRef module) {
  SmallVector<StringRef> parts;
  module.split(parts, '.');
  for (StringRef &part : parts)
    if (!part.empty() && all_of(part, isDigit))
      part = "*";
  return join(parts, ".");
}

ArrayRef<CounterColumn> report::getCounterColumns() {
  static constexpr CounterColumn kColumns[] = {
      {"sm_throughput_pct", "SM", "SM %"},
      {"memory_throughput_pct", "mem", "memory %"},
      {"achieved_occupancy_pct", "occ", "occupancy %"},
      {"dram_throughput_pct", "DRAM", "DRAM %"},
      {"tensor_pipe_pct", "tens", "tensor pipe %"},
      {"l2_hit_pct", "L2", "L2 hit %"},
      {"registers", "regs", "registers", /*isPercent=*/false},
      {"l1_hit_pct", "L1", "L1 hit %"},
  };
  return kColumns;
}

std::string report::formatCounter(const CounterColumn &column,
                                  const std::map<std::string, double> &values) {
  auto it = values.find(column.metric.str());
  if (it == values.end())
    return "";
  bool isSmall = column.isPercent && it->second > 0 && it->second < 9.95;
  return formatv(isSmall ? "{0:f1}" : "{0:f0}", it->second);
}

StringRef report::getCategory(const Profile &profile, const Activity &kernel) {
  if (kernel.launch && *kernel.launch < profile.launches.size() &&
      profile.launches[*kernel.launch].category)
    return stringify(*profile.launches[*kernel.launch].category);
  return kernel.launch ? "other" : "not from the compiled graph";
}

/// The values of `rows`, largest first; equal ones keep their order.
template <typename Map> static std::vector<TimeRow> sortRows(Map &&rows) {
  std::vector<TimeRow> sorted;
  for (auto &[name, row] : rows)
    sorted.push_back(std::move(row));
  stable_sort(sorted, [](const TimeRow &a, const TimeRow &b) {
    return a.kernelTimeNs > b.kernelTimeNs;
  });
  return sorted;
}

/// "linear" of "linear_12" and of "linear".
static StringRef getBaseName(StringRef name) {
  StringRef base = name.rtrim("0123456789");
  return base.size() < name.size() && base.consume_back("_") ? base : name;
}

/// What each module is summed up under. Modules of one group are repeats; the
/// layers of a Sequential, which have no more than a number, only where they
/// have some kind of node in common.
static std::map<StringRef, std::string> nameModules(const Profile &profile) {
  std::map<std::string, std::map<StringRef, std::set<StringRef>>> groups;
  for (const Node &node : profile.nodes)
    if (node.module && !node.kernels.empty())
      groups[getModuleGroup(*node.module)][*node.module].insert(
          getBaseName(node.id.name));
  std::map<StringRef, std::string> names;
  for (const auto &[group, modules] : groups) {
    IntEqClasses repeats(modules.size());
    std::map<StringRef, unsigned> firstWith;
    for (auto [index, module] : llvm::enumerate(modules))
      for (StringRef kind : module.second)
        repeats.join(firstWith.try_emplace(kind, index).first->second, index);
    if (!StringRef(group).ends_with("*"))
      for (unsigned index = 1; index < modules.size(); ++index)
        repeats.join(0, index);
    repeats.compress();
    std::vector<std::map<StringRef, unsigned>> kinds(repeats.getNumClasses());
    std::vector<unsigned> members(repeats.getNumClasses());
    for (auto [index, module] : llvm::enumerate(modules)) {
      ++members[repeats[index]];
      for (StringRef kind : module.second)
        ++kinds[repeats[index]][kind];
    }
    for (auto [index, module] : llvm::enumerate(modules)) {
      unsigned repeat = repeats[index];
      std::string &name = names[module.first];
      name = members[repeat] == 1 ? module.first.str() : group;
      if (members[repeat] > 1 && members.size() > 1)
        name += (" " + llvm::max_element(kinds[repeat],
                                         [](const auto &a, const auto &b) {
                                           return a.second < b.second;
                                         })
                           ->first)
                    .str();
    }
  }
  return names;
}

static std::vector<TimeRow> sumModules(const Profile &profile) {
  std::map<StringRef, std::string> names = nameModules(profile);
  std::map<std::string, TimeRow> rows;
  std::map<std::string, std::map<std::string, bool>> members;
  // A kernel of several nodes of a module is one kernel of it.
  std::map<std::string, DenseSet<uint32_t>> kernels;
  for (const Node &node : profile.nodes) {
    if (node.kernels.empty())
      continue;
    std::string name = !node.module           ? "(module unknown)"
                       : node.module->empty() ? "(the model itself)"
                                              : names.at(*node.module);
    TimeRow &row = rows[name];
    row.name = name;
    row.kernelTimeNs += node.kernelTimeNs;
    kernels[name].insert(node.kernels.begin(), node.kernels.end());
    if (node.module)
      members[name][*node.module] = true;
  }
  for (auto &[name, row] : rows) {
    row.count = kernels[name].size();
    if (size_t count = members[name].size(); count > 1)
      row.detail = formatv("{0} modules", count).str();
  }
  // The rows sum to all kernel time: what no node is known of has one too, that
  // of the module which the program was in, where it was observed.
  for (const Activity &kernel : profile.kernels)
    if (kernel.origin->nodes.empty()) {
      auto it = names.find(kernel.origin->module);
      std::string name = it != names.end() ? it->second
                         : kernel.origin->module.empty()
                             ? "(no node known)"
                             : kernel.origin->module.str();
      TimeRow &row = rows[name];
      row.name = name;
      row.kernelTimeNs += kernel.durationNs;
      ++row.count;
    }
  return sortRows(rows);
}

static std::vector<TimeRow> sumClasses(const Profile &profile) {
  std::map<std::string, TimeRow> rows;
  std::map<std::string, std::pair<std::string, std::string>> ends;
  for (const PartitionTime &partition : profile.partitions) {
    TimeRow &row = rows[partition.classId];
    row.name = partition.classId;
    row.kernelTimeNs += partition.kernelTimeNs;
    ++row.count;
    auto [place, isFirst] =
        ends.try_emplace(partition.classId, partition.label, partition.label);
    if (!isFirst)
      place->second.second = partition.label;
  }
  for (auto &[id, row] : rows) {
    const auto &[first, last] = ends[row.name];
    row.detail = first == last ? first : first + " … " + last;
  }
  return sortRows(rows);
}

static std::vector<TimeRow> sumCategories(const Profile &profile) {
  std::map<std::string, TimeRow> rows;
  for (const Activity &kernel : profile.kernels) {
    TimeRow &row = rows[getCategory(profile, kernel).str()];
    row.name = getCategory(profile, kernel).str();
    row.kernelTimeNs += kernel.durationNs;
    ++row.count;
  }
  return sortRows(rows);
}

/// Fills in the sums of a program whose kernels are known by name alone.
static void sumWithoutGraph(ReportModel &model) {
  const Profile &profile = *model.profile;
  uint64_t steady = countSteadySteps(profile);
  if (steady)
    model.steps = steady;
  // Names are many times fewer than kernels.
  DenseMap<StringRef, TimeRow> byName;
  std::map<std::string, TimeRow> kernels, ranges, modules;
  bool anyRange = false, anyModule = false;
  WorkSum rest;
  model.counted = {};
  for (const Activity &kernel : profile.kernels) {
    bool counted = isCounted(profile, steady, kernel);
    WorkSum &sum = counted ? model.counted : rest;
    ++sum.kernels;
    sum.kernelTimeNs += kernel.durationNs;
    if (!counted)
      continue;
    TimeRow &row = byName[kernel.name];
    row.kernelTimeNs += kernel.durationNs;
    ++row.count;
    anyModule |= !kernel.origin->module.empty();
    std::string path = kernel.origin->module.empty()
                           ? "(in no module)"
                           : kernel.origin->module.str();
    TimeRow &module = modules[path];
    module.name = path;
    module.kernelTimeNs += kernel.durationNs;
    ++module.count;
    // Ranges that opprof puts round launches are those of the layers.
    bool marked = !kernel.origin->range.empty() &&
                  !kernel.origin->range.starts_with("layer::");
    anyRange |= marked;
    std::string name = marked ? kernel.origin->range.str() : "(in no range)";
    TimeRow &range = ranges[name];
    range.name = name;
    range.kernelTimeNs += kernel.durationNs;
    ++range.count;
  }
  for (const Activity &copy : profile.copies)
    if (isCounted(profile, steady, copy)) {
      ++model.counted.copies;
      model.counted.copyTimeNs += copy.durationNs;
    }
  for (auto &[name, sum] : byName) {
    std::string shortName = shortKernelName(name);
    TimeRow &row = kernels[shortName];
    row.name = shortName;
    row.kernelTimeNs += sum.kernelTimeNs;
    row.count += sum.count;
  }
  model.kernels = sortRows(kernels);
  if (anyRange)
    model.ranges = sortRows(ranges);
  if (anyModule)
    model.modules = sortRows(modules);
  for (const OperatorTime &op : profile.operators)
    if (op.kernels)
      model.operators.push_back(&op);
  stable_sort(model.operators,
              [](const OperatorTime *a, const OperatorTime *b) {
                return a->kernelTimeNs > b->kernelTimeNs;
              });
  if (rest.kernels)
    model.facts.push_back(formatv("{0} {1}{2} of {3} ran outside of the steady "
                                  "steps, and no figure counts them",
                                  rest.kernels, model.work,
                                  rest.kernels == 1 ? "" : "s",
                                  formatTime(rest.kernelTimeNs)));
}

static StringRef describe(Part part) {
  switch (part) {
  case Part::None:
    return "(other)";
  case Part::DataLoading:
    return "data loading";
  default:
    return stringify(part);
  }
}

/// Fills in the sums by where operators were called, where that is known.
static void sumPlaces(ReportModel &model) {
  const Profile &profile = *model.profile;
  uint64_t steady = countSteadySteps(profile);
  std::map<std::tuple<StringRef, StringRef, StringRef, bool>, PlaceRow> rows;
  std::map<std::string, TimeRow> parts;
  bool any = false;
  for (const Activity &kernel : profile.kernels) {
    if (!isCounted(profile, steady, kernel))
      continue;
    any |= !kernel.origin->source.empty() || kernel.part != Part::None;
    bool isBackward = kernel.part == Part::Backward;
    StringRef name =
        kernel.origin->hostOp.empty() ? kernel.name : kernel.origin->hostOp;
    PlaceRow &row =
        rows[{name, kernel.origin->module, kernel.origin->source, isBackward}];
    row.name = name.str();
    row.module = kernel.origin->module.str();
    row.source = kernel.origin->source.str();
    row.isBackward = isBackward;
    row.kernelTimeNs += kernel.durationNs;
    ++row.count;
    TimeRow &part = parts[describe(kernel.part).str()];
    part.name = describe(kernel.part).str();
    part.kernelTimeNs += kernel.durationNs;
    ++part.count;
  }
  if (!any)
    return;
  model.parts = sortRows(parts);
  for (auto &[key, row] : rows)
    model.places.push_back(std::move(row));
  llvm::stable_sort(model.places, [](const PlaceRow &a, const PlaceRow &b) {
    return a.kernelTimeNs > b.kernelTimeNs;
  });
}

static std::vector<NodeRow> rankNodes(const Profile &profile) {
  // A kernel's id is its place among all activities.
  DenseMap<uint32_t, const Activity *> kernels;
  for (const Activity &kernel : profile.kernels)
    kernels[kernel.id] = &kernel;
  std::vector<NodeRow> rows;
  for (const Node &node : profile.nodes) {
    if (node.kernels.empty())
      continue;
    NodeRow row;
    row.node = &node;
    row.kernelRuns = node.kernels.size();
    int64_t longest = -1;
    for (uint32_t id : node.kernels) {
      const Activity *kernel = kernels.lookup(id);
      if (!kernel)
        continue;
      row.confidence = std::max(row.confidence, kernel->confidence);
      if (kernel->durationNs > longest) {
        longest = kernel->durationNs;
        row.kernel = kernel->name;
      }
    }
    rows.push_back(row);
  }
  stable_sort(rows, [](const NodeRow &a, const NodeRow &b) {
    return a.node->kernelTimeNs > b.node->kernelTimeNs;
  });
  return rows;
}

std::string NodeGroup::getName() const {
  if (count == 1)
    return slowest.node->id.name;
  return formatv("{0}_* ×{1}", getBaseName(slowest.node->id.name), count).str();
}

std::string NodeGroup::getModule() const {
  std::string module = slowest.node->module.value_or("");
  return count == 1 ? module : getModuleGroup(module);
}

/// `rows` come slowest first.
static std::vector<NodeGroup> groupNodes(ArrayRef<NodeRow> rows) {
  std::map<std::tuple<std::string, std::string, std::string>, NodeGroup> groups;
  for (const NodeRow &row : rows) {
    const Node &node = *row.node;
    auto [place, isNew] = groups.try_emplace(
        {getBaseName(node.id.name).str(), node.source.value_or(""),
         getModuleGroup(node.module.value_or(""))});
    NodeGroup &group = place->second;
    if (isNew)
      group.slowest = row;
    else
      ++group.count;
    group.kernelTimeNs += node.kernelTimeNs;
    group.confidence = std::max(group.confidence, row.confidence);
  }
  std::vector<NodeGroup> sorted;
  for (auto &[key, group] : groups)
    sorted.push_back(group);
  stable_sort(sorted, [](const NodeGroup &a, const NodeGroup &b) {
    return a.kernelTimeNs > b.kernelTimeNs;
  });
  return sorted;
}

static std::optional<CounterShare> shareCounters(const Profile &profile) {
  double total = 0, counted = 0, inferred = 0;
  for (const Activity &kernel : profile.kernels) {
    if (kernel.phase != Phase::Steady)
      continue;
    double time = double(kernel.durationNs);
    total += time;
    if (!kernel.counters)
      continue;
    counted += time;
    if (!kernel.origin->countersFrom.empty())
      inferred += time;
  }
  if (counted <= 0)
    return std::nullopt;
  return CounterShare{100 * counted / total, 100 * inferred / counted};
}

/// Counters are doubles in files, which anyone can have written.
static uint64_t toWhole(double value) {
  return value > 0 ? uint64_t(std::min(value, double(kMaxTotalNs))) : 0;
}

static std::vector<StepValue> listStepValues(const Profile &profile) {
  std::vector<StepValue> list;
  if (!profile.stepCounters)
    return list;
  const StepCounters &step = *profile.stepCounters;
  const std::map<std::string, double> &values = step.row.values;
  auto format = [](StringRef metric, double value) -> std::string {
    if (metric.ends_with("_pct"))
      return formatPercent(value);
    if (metric.ends_with("_bytes"))
      return formatBytes(toWhole(value));
    if (metric == "time_ns")
      return formatTime(int64_t(toWhole(value)));
    return formatAmount(value);
  };
  auto find = [&](StringRef metric) -> std::optional<double> {
    auto it = values.find(metric.str());
    if (it == values.end())
      return std::nullopt;
    return it->second;
  };
  std::set<StringRef> shown;
  auto add = [&](StringRef metric, StringRef name, bool isMain) {
    std::optional<double> value = find(metric);
    if (!value || !shown.insert(metric).second)
      return;
    StepValue &row = list.emplace_back();
    row.name = name;
    row.value = format(metric, *value);
    row.isMain = isMain;
    auto sum = step.kernelSums.find(metric.str());
    if (sum == step.kernelSums.end())
      return;
    row.kernels = format(metric, sum->second);
    if (*value == 0)
      return;
    double more = 100 * (sum->second / *value - 1);
    row.difference = "0.0 %";
    if (std::abs(more) >= 0.05)
      row.difference = formatv("{0}{1:f1} %", more < 0 ? "" : "+", more);
  };
  add("dram_read_bytes", "DRAM read", true);
  add("dram_write_bytes", "DRAM written", true);
  add("instructions", "instructions", true);
  add("time_ns", "time, gaps included", true);
  // What CUPTI does in a pass may hold the host up, above all where the step
  // is not run once before the counted run.
  constexpr double kNoticeable = 1.25;
  std::optional<double> counted = find("time_ns");
  if (counted && profile.summary.wallNs && *profile.summary.wallNs > 0) {
    double times =
        *counted *
        double(std::max<uint64_t>(profile.summary.steps.value_or(1), 1)) /
        double(*profile.summary.wallNs);
    if (times > kNoticeable)
      list.back().value += formatv(
          " ({0:f1}× a recorded step: rates are that much lower)", times);
  }
  add("dram_throughput_pct", "DRAM %", true);
  std::optional<double> read = find("dram_read_bytes"),
                        written = find("dram_write_bytes"),
                        time = find("time_ns");
  if (read && written && time && *time > 0)
    list.push_back(
        {"DRAM rate",
         formatBytes(toWhole(1e9 * (*read + *written) / *time)) + "/s", "", "",
         true});
  add("sm_active_pct", "SM busy %", true);
  // What kernels have columns of.
  for (const CounterColumn &column : getCounterColumns())
    add(column.metric, column.name, true);
  for (const auto &[metric, value] : values)
    add(metric, metric, false);
  return list;
}

std::string report::formatTimes(double times) {
  // Beyond that it says no more than that next to nothing is left.
  constexpr double kMost = 100;
  return times > kMost ? formatv("over ×{0}", int(kMost)).str()
                       : formatv("×{0:f2}", times).str();
}

static std::string describeOrigin(const Profile &profile) {
  std::string origin = profile.run ? profile.run->mode : "";
  std::set<std::string> kinds;
  for (const Source &source : profile.sources)
    kinds.insert(source.kind == "kineto" ? "torch.profiler" : source.kind);
  for (const std::string &kind : kinds)
    origin += (origin.empty() ? "by " : ", by ") + kind;
  // One of several processes is told from the others.
  for (const Source &source : profile.sources) {
    if (source.rank && source.worldSize && *source.worldSize > 1)
      origin += formatv(", rank {0} of {1}", *source.rank, *source.worldSize);
    else if (source.rank && *source.rank > 0)
      origin += formatv(", rank {0}", *source.rank);
    if (source.processId && !hasGraph(profile))
      origin += formatv(", process {0}", *source.processId);
  }
  return origin;
}

static std::string makeTitle(const Profile &profile) {
  if (!profile.graph.empty())
    return profile.graph;
  if (profile.run && !profile.run->program.empty())
    return profile.run->program;
  for (const Source &source : profile.sources)
    if (!source.file.empty())
      return sys::path::filename(source.file).str();
  return "profile";
}

/// What tensors held on a device: "tensors on cpu held at most 1.50 GB, in step
/// 3 of the recording, when aten::mm of Net.head (net.py:7) had run".
static std::string describeMemory(const ReportModel &model,
                                  const TensorMemory &memory) {
  std::string text = formatv("tensors on {0} held at most {1}", memory.device,
                             formatBytes(memory.peakBytes));
  if (memory.peakStep)
    text += formatv(", in step {0} of the recording", *memory.peakStep);
  if (memory.peakSite) {
    const MemorySite &site = memory.sites[*memory.peakSite];
    std::string where = site.module;
    if (!site.source.empty())
      where += (where.empty() ? "" : ", ") + site.source;
    std::string work = describeWork(site);
    if (!work.empty() || !where.empty())
      text += ", reached in " + (work.empty() ? where : work);
    if (!work.empty() && !where.empty())
      text += " of " + where;
  }
  if (memory.bytes)
    text += formatv("; {0} takes {1} in {2} blocks, of which {3} are free "
                    "again before it ends",
                    model.span(), formatBytes(memory.bytes / model.steps),
                    model.countPerStep(memory.calls),
                    formatBytes(memory.churnBytes / model.steps));
  if (memory.earlierBytes)
    text += formatv("; {0} of the peak are older than the recording",
                    formatBytes(memory.earlierBytes));
  if (memory.unknownFrees)
    text += formatv("; {0} freed from before the recording, whose bytes are "
                    "not counted",
                    memory.unknownFrees == 1
                        ? "a block was"
                        : std::to_string(memory.unknownFrees) + " blocks were");
  return text;
}

static std::vector<std::string> collectFacts(const ReportModel &model) {
  const Profile &profile = *model.profile;
  std::vector<std::string> facts;
  if (profile.run && !profile.run->differs.empty())
    facts.push_back(profile.run->differs);
  if (profile.run)
    llvm::append_range(facts, describeCompilations(*profile.run));
  if (profile.run && !profile.run->ended.empty())
    facts.push_back("the program ended while it was recorded: " +
                    profile.run->ended);
  if (profile.run && profile.run->exitStatus.value_or(0))
    facts.push_back(
        formatv("the program ended with status {0}", *profile.run->exitStatus));
  if (profile.run && profile.run->stepNs) {
    std::string text =
        "without a profiler a step takes " + formatTime(*profile.run->stepNs);
    // Recorded steps follow one another, so that the host runs ahead.
    int64_t loop = profile.run->loopNs.value_or(*profile.run->stepNs);
    if (profile.run->loopNs)
      text += ", " + formatTime(loop) + " where steps follow one another";
    if (profile.run->eagerStepNs && profile.run->mode != "eager" &&
        *profile.run->stepNs > 0)
      text += formatv(
          ", uncompiled {0} (×{1:f2})", formatTime(*profile.run->eagerStepNs),
          double(*profile.run->eagerStepNs) / double(*profile.run->stepNs));
    // Steps that the recording slows down have gaps that the program has not.
    constexpr double kNoticeable = 1.03;
    if (profile.summary.wallNs && loop > 0) {
      double longer =
          double(model.perStep(*profile.summary.wallNs)) / double(loop);
      if (longer >= kNoticeable)
        text += formatv("; recording made it {0:f0} % longer, and the gaps "
                        "between kernels with it",
                        100 * (longer - 1));
    }
    facts.push_back(text);
  }
  if (model.counters) {
    std::string text =
        formatv("counters of {0:f1} % of kernel time", model.counters->counted);
    if (model.counters->inferred > 0)
      text += formatv(", {0:f1} % of it those of a launch that does the same "
                      "work (marked *)",
                      model.counters->inferred);
    if (profile.run && profile.run->passes)
      text += formatv(", in {0} pass{1}", *profile.run->passes,
                      *profile.run->passes == 1 ? "" : "es");
    facts.push_back(text);
  } else if (profile.run && !profile.run->countersLeftOut.empty()) {
    facts.push_back("no counters: " + profile.run->countersLeftOut);
  }
  if (profile.run && profile.run->peakBytes) {
    std::string text =
        "tensors held at most " + formatBytes(*profile.run->peakBytes);
    if (profile.run->peakReservedBytes)
      text += " of " + formatBytes(*profile.run->peakReservedBytes) +
              " that PyTorch had taken from the driver";
    facts.push_back(text);
  }
  for (const Finding &finding : profile.findings)
    if (const auto *goodput = std::get_if<evidence::Goodput>(&finding.evidence))
      facts.push_back(formatv(
          "{0}FLOP/s, {1} of the peak in {2} (MFU), by FLOPs of {3} of kernel "
          "time",
          formatPrefix(goodput->flopsPerSecond),
          formatPercent(goodput->utilizationPct), stringify(goodput->precision),
          formatPercent(goodput->knownPct)));
  // What the first line says of busy and idle time is the busiest device's.
  if (llvm::count_if(profile.devices, [](const Device &device) {
        return device.busyNs.has_value();
      }) > 1)
    for (const Device &device : profile.devices) {
      int64_t time = 0;
      uint64_t kernels = 0;
      for (const Activity &kernel : profile.kernels)
        if (kernel.device == device.id) {
          time += kernel.durationNs;
          ++kernels;
        }
      if (kernels && profile.summary.wallNs && *profile.summary.wallNs > 0)
        facts.push_back(
            formatv("device {0}: {1} kernels in {2} in all, busy {3}",
                    device.id, kernels, formatTime(time),
                    formatPercent(100.0 * double(device.busyNs.value_or(0)) /
                                  double(*profile.summary.wallNs))));
    }
  for (const MemoryUse &use : profile.memory)
    facts.push_back(
        formatv("device {0}: at most {1} taken from the driver at a time while "
                "recorded, in {2} allocation{3}",
                use.device, formatBytes(use.peakBytes), use.allocations,
                use.allocations == 1 ? "" : "s"));
  for (const TensorMemory &memory : profile.tensorMemory)
    facts.push_back(describeMemory(model, memory));
  // Ranges that opprof puts round launches are named so.
  uint64_t ranged = llvm::count_if(profile.kernels, [](const Activity &kernel) {
    return kernel.origin->range.starts_with("layer::");
  });
  if (ranged)
    facts.push_back(formatv(
        "{0} of {1} kernels lie in ranges of their layers, put round launches "
        "(observe): the program is as it was",
        ranged, profile.kernels.size()));
  std::vector<std::pair<int64_t, int64_t>> spans;
  for (const ProfilerOverhead &overhead : profile.overheads)
    if (overhead.isProfilersOwn())
      spans.push_back(
          {overhead.startNs, overhead.startNs + overhead.durationNs});
  if (int64_t time = unionLength(std::move(spans)))
    facts.push_back(formatTime(time) +
                    " of the host's time was the profiler's own");
  if (profile.summary.recordingNs)
    facts.push_back(formatv(
        "recording the operators took {0} of the host in a {1}: costs "
        "of lines are without it",
        formatTime(model.perStep(*profile.summary.recordingNs)), model.unit));
  if (const Summary &summary = profile.summary;
      summary.undisturbedNs && summary.wallNs) {
    int64_t ownNs = *summary.undisturbedNs + summary.recordingNs.value_or(0);
    constexpr double kNoticeable = 1.1;
    if (double(*summary.wallNs) >= kNoticeable * double(ownNs))
      facts.push_back(formatv(
          "about {0} of a {1} are the program's own, by what is usual for each "
          "operator; for the rest something else may have had the processor. "
          "Costs are parts of that, and what pays leaves the rest of that",
          formatTime(model.ownStepNs()), model.unit));
  }
  return facts;
}

/// Whether it says what the host did instead of giving a device work.
static bool saysWhyIdle(const Finding &finding) {
  return llvm::is_contained<std::optional<FindingKind>>(
      {FindingKind::DataLoadingWaits, FindingKind::HostCode,
       FindingKind::GarbageCollection, FindingKind::CheckpointWriting,
       FindingKind::Recompilation},
      finding.kind());
}

/// Whether the idle time that `finding` is of is mostly that of others, which
/// know their lines: what to do is said once.
static bool isExplained(const ReportModel &model, const Finding &finding) {
  if (finding.kind() != FindingKind::DeviceBusy)
    return false;
  int64_t known = 0;
  for (const Finding *other : model.findings)
    if (saysWhyIdle(*other))
      known += other->severityNsPerStep.value_or(0);
  return known > 0 && 2 * known >= finding.severityNsPerStep.value_or(0);
}

/// The three costliest findings that leave something.
static void findPayoffs(ReportModel &model) {
  constexpr size_t kMost = 3;
  // Less is no work for anyone.
  constexpr double kLeastPct = 0.5;
  int64_t wall = model.ownStepNs();
  for (const Finding *finding : model.findings) {
    int64_t cost = finding->severityNsPerStep.value_or(0);
    if (model.payoffs.size() == kMost || cost <= 0 ||
        100.0 * double(cost) < kLeastPct * double(wall))
      break;
    // What to do about another version's is not known.
    if (finding->kind() && cost < wall && !isExplained(model, *finding))
      model.payoffs.push_back(
          {finding, wall - cost, double(wall) / double(wall - cost)});
  }
}

std::vector<const MemorySite *>
report::largestSites(const TensorMemory &memory, uint64_t MemorySite::*value) {
  std::vector<const MemorySite *> sites;
  for (const MemorySite &site : memory.sites)
    if (site.*value)
      sites.push_back(&site);
  llvm::stable_sort(sites, [&](const MemorySite *a, const MemorySite *b) {
    return a->*value > b->*value;
  });
  return sites;
}

std::string report::describeWork(const MemorySite &site) {
  if (site.part != Part::Backward)
    return site.op;
  return site.op + (site.op.empty() ? "" : " ") + "(backward)";
}

ReportModel report::makeReportModel(const Profile &profile) {
  ReportModel model;
  model.profile = &profile;
  model.title = makeTitle(profile);
  model.hasGraph = hasGraph(profile);
  model.steps = std::max<uint64_t>(profile.summary.steps.value_or(1), 1);
  if (!profile.summary.steps)
    model.unit = recordingNoun(profile);
  if (llvm::any_of(profile.devices,
                   [](const Device &device) { return device.kind == "cpu"; }))
    model.work = "operator";
  // "2 × NVIDIA H200".
  MapVector<StringRef, unsigned> devices;
  for (const Device &device : profile.devices)
    ++devices[device.name];
  for (const auto &[name, count] : devices) {
    if (!model.deviceName.empty())
      model.deviceName += ", ";
    if (count > 1)
      model.deviceName += formatv("{0} × ", count);
    bool isNamed = !name.empty() || (count == 1 && devices.size() == 1);
    model.deviceName += isNamed ? name : "unknown device";
  }
  model.origin = describeOrigin(profile);
  model.counters = shareCounters(profile);
  model.stepValues = listStepValues(profile);
  const Summary &summary = profile.summary;
  model.counted = {summary.kernels, summary.kernelTimeNs, summary.copies,
                   summary.copyTimeNs};
  model.facts = collectFacts(model);
  if (model.hasGraph)
    model.modules = sumModules(profile);
  else
    sumWithoutGraph(model);
  sumPlaces(model);
  model.classes = sumClasses(profile);
  model.categories = sumCategories(profile);
  model.nodes = rankNodes(profile);
  model.nodeGroups = groupNodes(model.nodes);
  for (const Finding &finding : profile.findings)
    model.findings.push_back(&finding);
  stable_sort(model.findings, [](const Finding *a, const Finding *b) {
    return a->severityNsPerStep.value_or(-1) >
           b->severityNsPerStep.value_or(-1);
  });
  findPayoffs(model);
  return model;
}
