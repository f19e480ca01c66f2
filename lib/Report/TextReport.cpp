// The report as one page of a terminal.

#include "opprof/Profile/CollectiveWait.h"
#include "opprof/Report/FindingExplanation.h"
#include "opprof/Report/Report.h"
#include "opprof/Report/ReportModel.h"
#include "opprof/Support/TerminalText.h"
#include "opprof/Support/Units.h"

#include "Page.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::profile;
using namespace opprof::report;

static void printSummary(Page &page, const ReportModel &model) {
  const Profile &profile = *model.profile;
  const Summary &summary = profile.summary;
  std::string rest = " on " + (model.deviceName.empty() ? "an unknown device"
                                                        : model.deviceName);
  if (summary.steps)
    rest +=
        formatv(", {0} step{1}", *summary.steps, *summary.steps == 1 ? "" : "s")
            .str();
  // A command line may be longer than the page, and so may what others wrote.
  std::string origin = model.origin.empty() ? "" : ", " + model.origin;
  unsigned taken = columnsOf(rest) + columnsOf(origin);
  if (page.isNarrow() ||
      taken + std::min(columnsOf(model.title), 30u) > page.getWidth()) {
    page.paragraph(model.title + rest + origin, 0, 4);
  } else {
    page.text(fitColumns(model.title, page.getWidth() - taken), Style::Bold);
    page.text(rest);
    page.text(origin, Style::Dim);
    page.end();
  }

  std::string line;
  auto add = [&](const Twine &part) {
    line += (line.empty() ? "" : ", ") + part.str();
  };
  if (summary.wallNs)
    add(model.unit + " " + formatTime(model.perStep(*summary.wallNs)));
  if (summary.wallNs && summary.busyNs && *summary.wallNs > 0)
    add("busy " + formatPercent(100.0 * *summary.busyNs / *summary.wallNs));
  add(model.work + "s " + Twine(model.counted.kernels / model.steps) + " in " +
      formatTime(model.perStep(model.counted.kernelTimeNs)));
  if (summary.idleNs)
    add("idle " + formatTime(model.perStep(*summary.idleNs)));
  if (model.counted.copies)
    add("copies " + Twine(model.counted.copies / model.steps) + " in " +
        formatTime(model.perStep(model.counted.copyTimeNs)));
  unsigned lines = page.isNarrow() ? 4 : 2;
  page.paragraph(line, 0, lines);

  if (model.hasGraph) {
    line = "attributed";
    int64_t total = 0;
    for (int64_t time : summary.attributedNs)
      total += time;
    for (size_t i = 0; i < kNumConfidences; ++i)
      line += formatv("{0} {1} {2}", i ? "," : "", stringify(Confidence(i)),
                      formatPercent(
                          total ? 100.0 * summary.attributedNs[i] / total : 0))
                  .str();
    page.paragraph(line, 0, 2);
    line = describeLinks(summary);
    if (!line.empty())
      page.paragraph(line, 2, 2);
  }
  for (const std::string &fact : model.facts)
    page.paragraph(fact, 2, lines);
}

/// What to do first, before all that proves it.
static void printPayoffs(Page &page, const ReportModel &model) {
  if (model.payoffs.empty())
    return;
  page.heading("What pays most", "each alone: costs overlap");
  for (const Payoff &payoff : model.payoffs) {
    page.text("  ").right(formatTime(*payoff.finding->severityNsPerStep), 9,
                          Style::Warn);
    page.text(" ").text(payoff.finding->id(), Style::Bold);
    if (page.isNarrow()) {
      page.end();
      page.text("    ");
    } else {
      page.text(": ");
    }
    page.text(formatv("leaves {0} ({1})", formatTime(payoff.leavesNs),
                      formatTimes(payoff.times))
                  .str());
    page.end();
    unsigned indent = page.isNarrow() ? 4 : 12;
    page.text(std::string(indent, ' '))
        .paragraph(adviseOn(*payoff.finding, *model.profile), indent,
                   page.isNarrow() ? 16 : 8);
  }
}

/// Values that kernels have a sum of are a line each; the others follow one
/// another.
static void printStepValues(Page &page, const ReportModel &model) {
  const StepCounters &step = *model.profile->stepCounters;
  page.heading(
      "Counters of the whole step",
      step.kernelSums.empty()
          ? "in one range"
          : formatv("in one range; sum of {0} kernels", step.summedKernels)
                .str());
  std::string others;
  for (const StepValue &row : model.stepValues) {
    if (!row.isMain)
      continue;
    if (row.kernels.empty()) {
      StringRef name = row.name;
      name.consume_back(" %");
      others += (others.empty() ? "" : ", ") + name.str() + " " + row.value;
      continue;
    }
    page.text("  ").left(row.name, 20).right(row.value, 10);
    if (!page.isNarrow()) {
      page.right(row.kernels, 10, Style::Dim);
      page.right(row.difference, 10, Style::Dim);
    }
    page.end();
  }
  if (!others.empty()) {
    page.text("  ");
    page.paragraph(others, 2, 3);
  }
}

/// What was counted in all steps is shown for one, as its time is.
static void printTimeRows(Page &page, const ReportModel &model,
                          ArrayRef<TimeRow> rows, size_t limit,
                          StringRef countName, bool longNames = false) {
  bool isStatic = countName == "partition";
  // Share, time and count take what they need; the name and its bar the rest.
  constexpr unsigned kShare = 8, kTime = 10;
  unsigned countWidth = page.isNarrow() ? 0 : 17;
  unsigned rest = page.getWidth() - 2 - 1 - kShare - kTime - countWidth;
  unsigned nameWidth = page.isNarrow() ? rest
                       : longNames     ? rest * 5 / 6
                                       : rest * 2 / 3;
  unsigned barWidth = rest - nameWidth;
  for (const TimeRow &row : rows.take_front(limit)) {
    std::string name = row.name;
    if (!row.detail.empty())
      name += " (" + row.detail + ")";
    // What tells kernels apart is mostly in the first part of their names.
    if (longNames)
      name = fitColumns(name, nameWidth, 3);
    page.text("  ").left(name, nameWidth);
    page.text(" ").bar(model.share(row.kernelTimeNs), barWidth);
    page.right(formatPercent(model.share(row.kernelTimeNs)), kShare);
    page.right(formatTime(model.perStep(row.kernelTimeNs)), kTime);
    std::string count =
        isStatic ? std::to_string(row.count) : model.countPerStep(row.count);
    page.right(
        formatv("{0} {1}{2}", count, countName, count == "1" ? "" : "s").str(),
        countWidth, Style::Dim);
    page.end();
  }
  if (rows.size() > limit) {
    int64_t rest = 0;
    for (const TimeRow &row : rows.drop_front(limit))
      rest += row.kernelTimeNs;
    page.text("  ").text(formatv("and {0} more, {1}", rows.size() - limit,
                                 formatTime(model.perStep(rest)))
                             .str(),
                         Style::Dim);
    page.end();
  }
}

/// The end of a path that fits: the file and the line are there.
static std::string fitSource(StringRef source, unsigned limit) {
  StringRef name = source.substr(source.find_last_of('/') + 1);
  return fitColumns(columnsOf(source) <= limit ? source : name, limit);
}

/// Columns of counters that nodes have, as many as leave room for names.
static std::vector<CounterColumn> fitCounterColumns(const Page &page,
                                                    const ReportModel &model) {
  std::vector<CounterColumn> columns;
  if (page.isNarrow())
    return columns;
  unsigned room = page.getWidth() > 70 ? (page.getWidth() - 70) / 5 : 0;
  for (const CounterColumn &column : getCounterColumns())
    if (columns.size() < std::max(room, 3u) &&
        llvm::any_of(model.nodes, [&](const NodeRow &row) {
          return row.node->metrics.contains(column.metric.str());
        }))
      columns.push_back(column);
  return columns;
}

static void printNodes(Page &page, const ReportModel &model, size_t limit) {
  page.heading("Slowest nodes",
               "time in " + model.span() + ", share of kernel time");
  constexpr unsigned kCounter = 5;
  std::vector<CounterColumn> columns = fitCounterColumns(page, model);
  if (!columns.empty()) {
    page.text("  ").right("", 9).right("", 8);
    for (const CounterColumn &column : columns)
      page.right(column.shortName, kCounter, Style::Dim);
    unsigned used = 2 + 9 + 8 + columns.size() * kCounter + 2;
    page.text("  ").text(
        fitColumns("% of peak, of what fits, of lookups; registers",
                   page.getWidth() - used),
        Style::Dim);
    page.end();
  }
  unsigned taken = columns.size() * kCounter + (columns.empty() ? 0 : 1);
  unsigned rest = page.getWidth() - 2 - 9 - 8 - 3 - taken;
  // Beside counters a kernel's name leaves no room for the user's own names.
  bool showKernel =
      !page.isNarrow() && (columns.empty() || page.getWidth() >= 150);
  unsigned nodeWidth = rest * (showKernel ? 3 : 4) / 10,
           moduleWidth = rest * (showKernel ? 20 : 25) / 100,
           sourceWidth =
               showKernel ? rest * 2 / 10 : rest - nodeWidth - moduleWidth;
  for (const NodeGroup &group : ArrayRef(model.nodeGroups).take_front(limit)) {
    const Node &node = *group.slowest.node;
    page.text("  ").right(formatTime(model.perStep(group.kernelTimeNs)), 9);
    page.right(formatPercent(model.share(group.kernelTimeNs)), 8);
    for (const CounterColumn &column : columns)
      page.right(formatCounter(column, node.metrics), kCounter);
    if (!columns.empty())
      page.text(node.inferredFrom ? "*" : " ", Style::Warn);
    page.text(" ");
    bool isSure = group.confidence == Confidence::High;
    if (page.isNarrow()) {
      page.left(group.getName(), rest, Style::Bold);
      page.text(isSure ? "" : "~", Style::Warn);
      page.end();
      continue;
    }
    page.left(group.getName(), nodeWidth - 1, Style::Bold).text(" ");
    page.left(group.getModule(), moduleWidth - 1).text(" ");
    // What is last needs no room after it, but where a mark follows.
    auto column = [&](StringRef content, unsigned size, bool isLast,
                      Style style) {
      if (isLast && isSure)
        page.text(fitColumns(content, size), style);
      else
        page.left(content, size, style);
    };
    column(fitSource(node.source.value_or(""), sourceWidth - 1),
           sourceWidth - 1, !showKernel, Style::Plain);
    if (showKernel || !isSure)
      page.text(" ");
    if (showKernel)
      column(group.slowest.kernel, rest - nodeWidth - moduleWidth - sourceWidth,
             true, Style::Dim);
    if (!isSure)
      page.text("~", Style::Warn);
    page.end();
  }
}

/// Where the list that begins at `begin` ends, after its bracket; npos where it
/// does not.
static size_t endOfList(StringRef text, size_t begin) {
  size_t depth = 0;
  for (size_t at = begin; at < text.size(); ++at) {
    depth += text[at] == '[';
    if (text[at] == ']' && --depth == 0)
      return at + 1;
  }
  return StringRef::npos;
}

/// "aten::mm [1024, 768] [768, 3072]", "aten::cat [[8, 8], [4, 8]]": with the
/// sizes of as many tensors as fit whole.
static std::string describeCall(const OperatorTime &op, unsigned limit) {
  std::string text = op.name;
  StringRef dims = op.inputDims;
  dims.consume_front("[");
  dims.consume_back("]");
  for (size_t at = dims.find('['); at != StringRef::npos;) {
    size_t end = endOfList(dims, at);
    if (end == StringRef::npos)
      break;
    StringRef input = dims.slice(at, end);
    at = dims.find('[', end);
    // What is no tensor has no sizes, as a scalar has.
    if (input == "[]")
      continue;
    if (text.size() + 1 + input.size() + 2 <= limit) {
      text += " " + input.str();
      continue;
    }
    // Of a list of tensors the first ones.
    constexpr size_t kCut = 6; // " [" and ", …]"
    std::string first;
    for (size_t from = 1; from < input.size() && input[from] == '[';) {
      size_t to = endOfList(input, from);
      std::string next =
          (first.empty() ? "" : ", ") + input.slice(from, to).str();
      if (text.size() + first.size() + next.size() + kCut > limit)
        break;
      first += next;
      from = to + (input[to] == ',' ? 2 : 0);
    }
    return text + (first.empty() ? " …" : " [" + first + ", …]");
  }
  return text;
}

/// What the host called, with the rates that the model of costs gives.
static void printOperators(Page &page, const ReportModel &model, size_t limit) {
  bool withRates = !page.isNarrow();
  page.heading("By operator and sizes",
               "calls, time in " + model.span() +
                   (withRates ? ", rate by the cost model" : ""));
  constexpr unsigned kCalls = 8, kTime = 10, kRate = 15;
  unsigned name =
      page.getWidth() - 2 - kCalls - kTime - (withRates ? 2 * kRate : 0);
  for (const OperatorTime *op : ArrayRef(model.operators).take_front(limit)) {
    page.text("  ").left(describeCall(*op, name - 1), name);
    page.right(model.countPerStep(op->calls), kCalls, Style::Dim);
    page.right(formatTime(model.perStep(op->kernelTimeNs)), kTime);
    double seconds = double(op->kernelTimeNs) / 1e9;
    auto rate = [&](double amount, StringRef unit) {
      return seconds > 0 && amount > 0
                 ? formatPrefix(double(op->calls) * amount / seconds) +
                       unit.str()
                 : std::string();
    };
    if (withRates) {
      page.right(rate(double(op->flops.value_or(0)), "FLOP/s"), kRate);
      page.right(
          op->bytesRead && op->bytesWritten
              ? rate(double(*op->bytesRead) + double(*op->bytesWritten), "B/s")
              : "",
          kRate);
    }
    page.end();
  }
  if (model.operators.size() > limit) {
    page.text(formatv("  and {0} more", model.operators.size() - limit).str(),
              Style::Dim);
    page.end();
  }
}

/// Operators with the module and the line that called them.
static void printPlaces(Page &page, const ReportModel &model, size_t limit) {
  page.heading("By operator, module and line",
               "share, time in " + model.span());
  constexpr unsigned kShare = 8, kTime = 10;
  unsigned rest = page.getWidth() - 2 - 1 - kShare - kTime;
  unsigned name = rest * 3 / 10, module = rest * 3 / 10,
           source = rest - name - module;
  for (const PlaceRow &row : ArrayRef(model.places).take_front(limit)) {
    page.text("  ").left(row.name + (row.isBackward ? " (backward)" : ""),
                         name - 1);
    page.text(" ").left(row.module, module - 1).text(" ");
    page.left(fitSource(row.source, source), source);
    page.text(" ").right(formatPercent(model.share(row.kernelTimeNs)), kShare);
    page.right(formatTime(model.perStep(row.kernelTimeNs)), kTime);
    page.end();
  }
  if (model.places.size() > limit) {
    page.text(formatv("  and {0} more", model.places.size() - limit).str(),
              Style::Dim);
    page.end();
  }
}

/// What the host did besides computing, with its line.
static void printHostCosts(Page &page, const ReportModel &model, size_t limit) {
  page.heading("What the host did besides", "calls, time in " + model.span());
  constexpr unsigned kKind = 14, kCalls = 8, kTime = 10;
  unsigned rest = page.getWidth() - 2 - kKind - kCalls - kTime;
  ArrayRef<HostCost> costs = model.profile->host;
  for (const HostCost &cost : costs.take_front(limit)) {
    std::string kind = stringify(cost.kind).str();
    llvm::replace(kind, '_', ' ');
    page.text("  ").left(kind, kKind);
    page.left(cost.name, rest / 2 - 1).text(" ");
    page.left(fitSource(cost.source, rest - rest / 2), rest - rest / 2);
    page.right(model.countPerStep(cost.calls), kCalls, Style::Dim);
    page.right(formatTime(model.perStep(cost.timeNs)), kTime);
    page.end();
  }
  if (costs.size() > limit) {
    page.text(formatv("  and {0} more", costs.size() - limit).str(),
              Style::Dim);
    page.end();
  }
}

/// Lines that took memory, most of `value` first; `each` says how often, where
/// that is asked.
static void printSites(Page &page, const TensorMemory &memory, size_t limit,
                       uint64_t MemorySite::*value,
                       function_ref<std::string(uint64_t)> print,
                       function_ref<std::string(const MemorySite &)> each) {
  std::vector<const MemorySite *> sites = largestSites(memory, value);
  constexpr unsigned kBytes = 10, kEach = 14;
  unsigned eachWidth = page.isNarrow() ? 0 : kEach;
  unsigned rest = page.getWidth() - 2 - kBytes - 1 - eachWidth;
  unsigned name = rest * 3 / 10, module = rest * 3 / 10,
           source = rest - name - module;
  for (const MemorySite *site : ArrayRef(sites).take_front(limit)) {
    page.text("  ").right(print(site->*value), kBytes).text(" ");
    page.left(describeWork(*site), name - 1).text(" ");
    page.left(site->module, module - 1).text(" ");
    page.left(fitSource(site->source, source), source);
    if (eachWidth)
      page.right(each(*site), eachWidth, Style::Dim);
    page.end();
  }
  if (sites.size() > limit) {
    page.text(formatv("  and {0} more", sites.size() - limit).str(),
              Style::Dim);
    page.end();
  }
}

/// Who holds the memory of tensors, what steps take and give back, what grows.
static void printMemory(Page &page, const ReportModel &model,
                        const TensorMemory &memory, size_t limit) {
  auto perStep = [&](uint64_t bytes) {
    return formatBytes(bytes / model.steps);
  };
  page.heading("Memory of tensors on " + memory.device,
               "who holds the peak of " + formatBytes(memory.peakBytes));
  printSites(page, memory, limit, &MemorySite::peakBytes, formatBytes,
             [](const MemorySite &site) {
               return formatCount(site.peakBlocks, "block", "blocks");
             });
  if (memory.churnBytes) {
    page.heading("Taken and given back on " + memory.device,
                 "bytes of " + model.span() + ", how often it takes some");
    printSites(page, memory, limit, &MemorySite::churnBytes, perStep,
               [&](const MemorySite &site) {
                 std::string count = model.countPerStep(site.calls);
                 return count + (count == "1" ? " block" : " blocks");
               });
  }
  if (memory.growthBytesPerStep) {
    page.heading("Held longer and longer on " + memory.device,
                 "more after each step than after the one before");
    printSites(page, memory, limit, &MemorySite::growthBytesPerStep,
               formatBytes, [](const MemorySite &) { return "a step"; });
  }
}

void report::printText(const Profile &profile, raw_ostream &os,
                       const TextOptions &options) {
  ReportModel model = makeReportModel(profile);
  Page page(os, options);
  printSummary(page, model);
  printPayoffs(page, model);
  if (!model.stepValues.empty())
    printStepValues(page, model);

  // What is left of the screen is shared among the lists; findings, of which
  // each is a line or two, come first.
  unsigned findings = std::min<size_t>(model.findings.size(), 6);
  unsigned fixed = page.getLines() + 4 * 2 + 2 * findings + 2;
  unsigned room = options.height > fixed ? options.height - fixed : 0;
  auto listSize = [&](size_t size, unsigned share) {
    return std::min<size_t>(size, std::max(share, 3u));
  };

  std::string columns = "share, time in " + model.span();
  if (!model.hasGraph && !model.kernels.empty()) {
    page.heading("By " + model.work.str(), columns);
    printTimeRows(page, model, model.kernels,
                  listSize(model.kernels.size(),
                           room / (model.operators.empty() ? 2 : 4)),
                  "run",
                  /*longNames=*/true);
  }
  if (!model.parts.empty()) {
    page.heading("By part of a step", columns);
    printTimeRows(page, model, model.parts, model.parts.size(), model.work);
  }
  if (!model.places.empty())
    printPlaces(page, model, listSize(model.places.size(), room / 4));
  if (!model.profile->host.empty())
    printHostCosts(page, model, listSize(model.profile->host.size(), room / 8));
  for (const TensorMemory &memory : profile.tensorMemory)
    printMemory(page, model, memory, std::max(room / 8, 5u));
  if (!model.operators.empty())
    printOperators(page, model, listSize(model.operators.size(), room / 4));
  if (!model.ranges.empty()) {
    page.heading("By range, the innermost", columns);
    printTimeRows(page, model, model.ranges,
                  listSize(model.ranges.size(), room / 4), model.work);
  }
  if (model.hasGraph && !model.categories.empty()) {
    page.heading("Kernel time by kind", columns);
    printTimeRows(page, model, model.categories,
                  listSize(model.categories.size(), room / 5), model.work);
  }
  if (!model.modules.empty()) {
    page.heading("By module", columns);
    printTimeRows(page, model, model.modules,
                  listSize(model.modules.size(), room / 4), model.work);
  }
  if (!model.classes.empty()) {
    page.heading("By class of repeated subgraphs", columns);
    printTimeRows(page, model, model.classes,
                  listSize(model.classes.size(), room / 8), "partition");
  }
  if (!model.nodes.empty())
    printNodes(
        page, model,
        listSize(model.nodes.size(),
                 options.height > page.getLines() + 2 * findings + 6
                     ? options.height - page.getLines() - 2 * findings - 5
                     : 3));

  page.heading("Findings",
               model.findings.empty() ? "none" : "cost of " + model.span());
  for (const Finding *finding : ArrayRef(model.findings).take_front(findings)) {
    page.text("  ").right(finding->severityNsPerStep
                              ? formatTime(*finding->severityNsPerStep)
                              : "",
                          9, Style::Warn);
    // Another version's may be of any length.
    std::string id = fitColumns(finding->id(), page.getWidth() / 2);
    page.text(" ").text(id, Style::Bold).text(": ");
    if (page.isNarrow()) {
      page.end();
      page.text("    ").paragraph(finding->text, 4, 6);
    } else {
      page.paragraph(finding->text, 14 + columnsOf(id), 2);
    }
  }
  if (model.findings.size() > findings) {
    page.text(formatv("  and {0} more", model.findings.size() - findings).str(),
              Style::Dim);
    page.end();
  }
  for (const std::string &note : profile.notes) {
    page.text("note: ", Style::Warn);
    page.paragraph(note, 6, 2);
  }
}

static StringRef fileOf(const Profile &profile) {
  if (profile.sources.empty())
    return "";
  return profile.sources.front().file;
}

/// The title of one of several recordings; of files that are called the same in
/// different folders, with their folders.
static std::string nameAmong(ArrayRef<const Profile *> profiles,
                             const Profile &profile, StringRef title) {
  StringRef file = fileOf(profile);
  StringRef name = sys::path::filename(file);
  bool isShared =
      title == name && llvm::any_of(profiles, [&](const Profile *other) {
        return other != &profile && fileOf(*other) != file &&
               sys::path::filename(fileOf(*other)) == name;
      });
  StringRef folder = sys::path::filename(sys::path::parent_path(file));
  return isShared && !folder.empty() ? (folder + "/" + name).str()
                                     : title.str();
}

namespace {
/// What a recording says of the time that its rank spends with others.
struct Talk {
  /// Kernels of collectives, and what of them no other kernel covers.
  std::optional<int64_t> collectivesNs;
  std::optional<int64_t> exposedNs;
  /// Threads of a backend's on the host run collectives: what a program waits
  /// for them.
  std::optional<int64_t> waitedNs;

  std::optional<int64_t> heldUpNs() const {
    return exposedNs ? exposedNs : waitedNs;
  }
};
} // namespace

static Talk talkOf(const Profile &profile) {
  Talk talk;
  for (const Finding &finding : profile.findings)
    if (const auto *found =
            std::get_if<evidence::Communication>(&finding.evidence)) {
      talk.collectivesNs = found->timeNs;
      talk.exposedNs = found->exposedNs;
    }
  for (const HostCost &cost : profile.host)
    if (cost.kind == HostCostKind::Wait && cost.name == kCollectiveWait)
      talk.waitedNs = talk.waitedNs.value_or(0) + cost.timeNs;
  return talk;
}

namespace {
/// A row of the comparison.
struct ComparedRank {
  std::optional<int64_t> rank;
  /// Of a step.
  std::optional<int64_t> wallNs;
  std::optional<int64_t> heldUpNs;
};
} // namespace

/// Which rank the others wait for. What a collective takes to send, all of them
/// spend in it; what one spends in it beyond that, it waits for the last.
static std::string sayWhoIsLast(ArrayRef<ComparedRank> rows) {
  auto isLess = [](const ComparedRank &a, const ComparedRank &b) {
    return *a.heldUpNs < *b.heldUpNs;
  };
  if (rows.size() < 2 || !llvm::all_of(rows, [](const ComparedRank &row) {
        return row.rank && row.wallNs && row.heldUpNs;
      }))
    return "";
  const ComparedRank &last = *llvm::min_element(rows, isLess);
  const ComparedRank &first = *llvm::max_element(rows, isLess);
  int64_t waited = *first.heldUpNs - *last.heldUpNs;
  // Less than that of a step is no one's fault.
  constexpr double kLeast = 0.01;
  if (double(waited) < kLeast * double(*first.wallNs))
    return "";
  return formatv("the others wait for rank {0} in collectives: rank {1} spends "
                 "{2} a step in them, and rank {0} {3}",
                 *last.rank, *first.rank, formatTime(*first.heldUpNs),
                 formatTime(*last.heldUpNs));
}

void report::printComparison(ArrayRef<const Profile *> profiles,
                             raw_ostream &os, const TextOptions &options) {
  Page page(os, options);
  constexpr unsigned kRank = 6, kTime = 11, kShare = 9, kTalk = 13;
  // Who waits for whom is what people look for here: where there is no room for
  // all columns, busy time and collectives are left to a page of one recording.
  bool isNarrow = page.isNarrow();
  std::vector<Talk> talks;
  std::vector<ReportModel> models;
  for (const Profile *profile : profiles) {
    talks.push_back(talkOf(*profile));
    models.push_back(makeReportModel(*profile));
  }
  bool haveTalk = !isNarrow && llvm::any_of(talks, [](const Talk &talk) {
    return talk.collectivesNs.has_value();
  });
  bool haveWaits = llvm::any_of(
      talks, [](const Talk &talk) { return talk.waitedNs.has_value(); });
  if (haveWaits)
    // The last to come waits for no one.
    for (Talk &talk : talks)
      talk.waitedNs = talk.waitedNs.value_or(0);
  haveWaits &= !isNarrow && !haveTalk;
  unsigned name = page.getWidth() - kRank - 2 - 2 * kTime -
                  (isNarrow ? 0 : kShare) - (haveTalk ? kTalk + kTime : 0) -
                  (haveWaits ? kTime : 0);
  page.text(formatv("{0} recordings", profiles.size()).str(), Style::Bold);
  page.end();
  page.text("  ").left("", name, Style::Dim).right("rank", kRank, Style::Dim);
  page.right("step", kTime, Style::Dim);
  if (!isNarrow)
    page.right("busy", kShare, Style::Dim);
  bool sameWork = llvm::all_equal(llvm::map_range(
      models, [](const ReportModel &model) { return model.work; }));
  std::string work = (sameWork ? models.front().work : "kernel").str();
  page.right(work + "s", kTime, Style::Dim);
  if (haveTalk)
    page.right("collectives", kTalk, Style::Dim)
        .right("exposed", kTime, Style::Dim);
  if (haveWaits)
    page.right("waiting", kTime, Style::Dim);
  page.end();
  std::optional<int64_t> fastest, slowest;
  std::vector<ComparedRank> rows;
  for (auto [profile, talk, model] : llvm::zip_equal(profiles, talks, models)) {
    const Summary &summary = profile->summary;
    auto inStep = [&](std::optional<int64_t> ns) {
      return ns ? std::optional(model.perStep(*ns)) : std::nullopt;
    };
    auto time = [&](std::optional<int64_t> ns, unsigned width) {
      page.right(ns ? formatTime(model.perStep(*ns)) : "", width);
    };
    ComparedRank &row = rows.emplace_back();
    for (const Source &source : profile->sources)
      if (source.rank)
        row.rank = source.rank;
    row.wallNs = inStep(summary.wallNs);
    row.heldUpNs = inStep(talk.heldUpNs());
    page.text("  ")
        .left(nameAmong(profiles, *profile, model.title), name - 1)
        .text(" ");
    page.right(row.rank ? std::to_string(*row.rank) : "", kRank);
    time(summary.wallNs, kTime);
    if (!isNarrow)
      page.right(summary.wallNs && summary.busyNs && *summary.wallNs > 0
                     ? formatPercent(100.0 * *summary.busyNs / *summary.wallNs)
                     : "",
                 kShare);
    time(model.counted.kernelTimeNs, kTime);
    if (haveTalk) {
      time(talk.collectivesNs, kTalk);
      time(talk.exposedNs, kTime);
    }
    if (haveWaits)
      time(talk.waitedNs, kTime);
    page.end();
    if (!row.wallNs)
      continue;
    fastest = std::min(fastest.value_or(*row.wallNs), *row.wallNs);
    slowest = std::max(slowest.value_or(*row.wallNs), *row.wallNs);
  }
  if (!fastest || *fastest <= 0)
    return;
  page.text("  ");
  std::string apart =
      formatv("the slowest takes {0} longer than the fastest ({1:f1} %)",
              formatTime(*slowest - *fastest),
              100.0 * double(*slowest - *fastest) / double(*fastest));
  page.paragraph(apart, 2, 2);
  if (std::string last = sayWhoIsLast(rows); !last.empty()) {
    page.text("  ");
    page.paragraph(last, 2, 2);
  }
}
