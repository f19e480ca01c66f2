// The report as one HTML page: no other file, no network. No script is needed
// to read it; its own sorts and searches tables and zooms the timeline.

#include "opprof/Report/FindingExplanation.h"
#include "opprof/Report/Report.h"
#include "opprof/Report/ReportModel.h"
#include "opprof/Support/Units.h"

#include "HTMLPlots.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FormatVariadic.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::profile;
using namespace opprof::report;

/// A person's sentence; what stands between `backticks` is code.
static std::string prose(StringRef text) {
  std::string result;
  SmallVector<StringRef> parts;
  text.split(parts, '`');
  for (auto [index, part] : llvm::enumerate(parts)) {
    bool isCode = index % 2 && index + 1 < parts.size();
    result += index % 2 && !isCode ? "`" : "";
    result +=
        (isCode ? "<code>" : "") + escape(part) + (isCode ? "</code>" : "");
  }
  return result;
}

static constexpr StringLiteral kStyle = R"css(
:root { color-scheme: light dark; --bg: #fff; --fg: #1b1f24; --dim: #667080; --line: #dfe3e8; --card: #f6f8fa; --bar: #2f7fb8; --warn: #b35900; }
@media (prefers-color-scheme: dark) {
  :root { --bg: #14171b; --fg: #e4e8ee; --dim: #93a0b0; --line: #2c333b; --card: #1c2127; --bar: #4fa3dd; --warn: #f0a04b; }
}
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 1180px; padding: 28px 24px 60px; background: var(--bg); color: var(--fg);
  font: 14px/1.5 system-ui, sans-serif }
h1 { font-size: 22px; margin: 0 } h2 { font-size: 16px; margin: 34px 0 10px }
.dim { color: var(--dim) } .num { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
code { font: 12.5px/1.4 ui-monospace, monospace; overflow-wrap: anywhere }
.tiles { display: flex; flex-wrap: wrap; gap: 10px; margin: 18px 0 6px }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 9px 14px; min-width: 120px }
.tile b { display: block; font-size: 19px; font-weight: 600; font-variant-numeric: tabular-nums }
table { border-collapse: collapse; width: 100% } th { text-align: left; font-weight: 600; color: var(--dim); font-size: 12.5px }
td, th { padding: 4px 10px 4px 0; border-bottom: 1px solid var(--line); vertical-align: top } th.num { text-align: right }
.bar { background: var(--line); border-radius: 3px; height: 10px; min-width: 90px; margin-top: 5px }
.bar i { display: block; height: 100%; border-radius: 3px; background: var(--bar) }
.columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(440px, 100%), 1fr)); gap: 0 36px }
.wide { overflow-x: auto } .wide td code { display: inline-block; min-width: 320px }
.columns td:first-child { overflow-wrap: anywhere; min-width: 130px }
.keyed { display: inline-flex; align-items: baseline; max-width: 100%; overflow-wrap: anywhere } .keyed .key { flex: none }
.finding { overflow-wrap: anywhere } .finding pre { white-space: pre-wrap }
.tools { display: flex; flex-wrap: wrap; gap: 6px; margin: 0 0 6px } th.sorts { cursor: pointer }
.tools button, .tools input { font: inherit; color: var(--fg); background: var(--card); border: 1px solid var(--line);
  border-radius: 5px; padding: 3px 10px; min-height: 30px }
@media (max-width: 600px) { body { padding: 16px 12px 40px } svg { min-width: 640px } .bar { min-width: 40px }
  .wide td code { min-width: 104px } .wide td:first-child b { display: inline-block; min-width: 98px; overflow-wrap: anywhere } }
.finding { background: var(--card); border: 1px solid var(--line); border-left: 4px solid var(--warn); border-radius: 6px;
  padding: 10px 14px; margin: 0 0 10px }
.pays { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(300px, 100%), 1fr)); gap: 0 12px } h2 .dim { font-weight: 400; font-size: 13px }
.pays .finding { border-left-color: var(--bar) } a { color: inherit } .finding.found { outline: 2px solid var(--bar) }
.finding b.cost { float: right; font-variant-numeric: tabular-nums }
.stack { display: flex; height: 12px; border-radius: 4px; overflow: hidden; margin: 8px 0 4px; background: var(--line) }
.key { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin: 0 5px 0 14px }
details { margin-top: 14px } summary { cursor: pointer; font-weight: 600 }
svg { display: block; width: 100%; height: auto; background: var(--card); border: 1px solid var(--line); border-radius: 6px }
svg text { fill: var(--dim); font: 11px system-ui, sans-serif }
svg.zoom { background: none; border: 0; min-width: 0; touch-action: pan-y }
)css";

/// Adds to the page, once it is there, what only a script can do.
static constexpr StringLiteral kScript = R"js(
const units = { ns: 1e-9, 'µs': 1e-6, ms: 1e-3, s: 1 };
const prefixes = { k: 1e3, K: 1e3, M: 1e6, G: 1e9, T: 1e12 };
// A number with its unit, or else the text itself.
function valueOf(cell) {
  const text = cell ? cell.textContent.trim() : '';
  const found = /^(-?[\d.]+)\s*(ns|µs|ms|s|%|\*|([kKMGT]?)(?:FLOP\/s|B\/s|B))?$/.exec(text);
  return found ? found[1] * (units[found[2]] || prefixes[found[3]] || 1) : text;
}
function compare(a, b) {
  if (typeof a === typeof b) return typeof a === 'number' ? a - b : a.localeCompare(b);
  return typeof a === 'number' ? 1 : -1;
}
function tool(bar, name, action) {
  const button = bar.appendChild(document.createElement('button'));
  button.textContent = name;
  button.onclick = action;
}
function toolsBefore(element) {
  const bar = document.createElement('div');
  bar.className = 'tools';
  element.before(bar);
  return bar;
}
for (const table of document.querySelectorAll('table')) {
  const rows = [...table.rows].slice(1);
  if (rows.length < 2) continue;
  [...table.rows[0].cells].forEach((head, column) => {
    if (!head.textContent) return;
    head.className += ' sorts';
    head.tabIndex = 0;
    head.onclick = () => {
      const down = head.getAttribute('aria-sort') !== 'descending';
      for (const other of table.rows[0].cells) other.removeAttribute('aria-sort');
      head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      const keys = new Map(rows.map(row => [row, valueOf(row.cells[column])]));
      rows.sort((a, b) => (down ? -1 : 1) * compare(keys.get(a), keys.get(b)));
      rows[0].parentNode.append(...rows);
    };
    head.onkeydown = event => event.key === 'Enter' && head.onclick();
  });
  if (rows.length < 12) continue;
  const search = document.createElement('input');
  search.type = 'search';
  search.placeholder = 'search ' + rows.length + ' rows';
  search.oninput = () => {
    const words = search.value.toLowerCase().split(/\s+/);
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every(word => text.includes(word));
    }
  };
  toolsBefore(table.closest('.wide') || table).append(search);
}
for (const lanes of document.querySelectorAll('svg.zoom')) {
  const all = lanes.viewBox.baseVal.width, left = lanes.viewBox.baseVal.x;
  const ends = lanes.parentNode.querySelectorAll('text.end'), span = +lanes.dataset.ns;
  const name = ns => ns < 1e3 ? ns.toFixed(0) + ' ns' : ns < 1e6 ? (ns / 1e3).toFixed(2) + ' µs' : (ns / 1e6).toFixed(3) + ' ms';
  let from = 0, width = all;
  const show = () => {
    width = Math.min(Math.max(width, all / 1e5), all);
    from = Math.min(Math.max(from, 0), all - width);
    lanes.setAttribute('viewBox', `${left + from} 0 ${width} ${lanes.viewBox.baseVal.height}`);
    ends[0].textContent = name(from / all * span);
    ends[1].textContent = name((from + width) / all * span);
  };
  const zoom = (by, at) => { from += at * width * (1 - by); width *= by; show(); };
  const bar = toolsBefore(lanes.closest('.wide'));
  tool(bar, '+', () => zoom(0.5, 0.5));
  tool(bar, '−', () => zoom(2, 0.5));
  tool(bar, '←', () => { from -= width / 2; show(); });
  tool(bar, '→', () => { from += width / 2; show(); });
  tool(bar, 'all', () => { width = all; show(); });
  lanes.addEventListener('wheel', event => {
    if (!event.ctrlKey && !event.metaKey && !event.shiftKey) return;
    event.preventDefault();
    const place = lanes.parentNode.getBoundingClientRect();
    const start = place.left + place.width * 100 / 1120;
    const share = (event.clientX - start) / (place.width * 1000 / 1120);
    zoom((event.deltaY || event.deltaX) > 0 ? 1.25 : 0.8, Math.min(Math.max(share, 0), 1));
  }, { passive: false });
  let held = null;
  lanes.onpointerdown = event => { held = event.clientX; };
  window.addEventListener('pointerup', () => { held = null; });
  window.addEventListener('pointermove', event => {
    if (held === null) return;
    const place = lanes.parentNode.getBoundingClientRect();
    from -= (event.clientX - held) / (place.width * 1000 / 1120) * width;
    held = event.clientX;
    show();
  });
}
)js";

/// Kernels drawn in the timeline and listed in the table: more would make the
/// page heavier than a mail takes.
static constexpr size_t kMaxDrawn = 4000;

static StringRef getColor(StringRef category) {
  return StringSwitch<StringRef>(category)
      .Case("extern", "#c8553d")
      .Case("template", "#e08a3c")
      .Case("pointwise", "#3b8ea5")
      .Cases({"reduction", "split_scan"}, "#6a4c93")
      .Case("persistent_reduction", "#9a6fb0")
      .Case("foreach", "#5b9a68")
      .Case("copy", "#9aa35c")
      .Case("collective", "#c94f7c")
      .Default("#8a94a0");
}

static StringRef getColor(Confidence confidence) {
  switch (confidence) {
  case Confidence::High:
    return "#3d9a5f";
  case Confidence::Medium:
    return "#d0a030";
  case Confidence::Low:
    return "#cc6b3a";
  case Confidence::Unattributed:
    return "#a33b3b";
  }
  llvm_unreachable("unhandled confidence");
}

namespace {
class HTMLPage {
public:
  HTMLPage(const ReportModel &model, raw_ostream &os)
      : model(model), profile(*model.profile), os(os) {
    for (const OperatorTime *op :
         ArrayRef(model.operators).take_front(kOperators))
      shownOperators.insert(op - profile.operators.data());
  }

  void print() {
    renderRows();
    std::string title = escape(model.title);
    os << "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
          "<meta name=\"viewport\" content=\"width=device-width, "
          "initial-scale=1\">\n<title>"
       << title << " — opprof</title><style>" << kStyle << kPlotStyle
       << "</style></head><body>\n<h1>" << title << "</h1><div class=\"dim\">"
       << escape(model.deviceName);
    if (!model.origin.empty())
      os << " · " << escape(model.origin);
    for (const Source &source : profile.sources)
      os << " · " << escape(source.kind) << " <code>" << escape(source.file)
         << "</code>";
    os << "</div>\n";
    printTiles();
    for (const std::string &fact : model.facts)
      os << "<div class=\"dim\">" << escape(fact) << "</div>\n";
    printConfidence();
    printStepValues();
    printPayoffs();
    printFindings();
    printTimeline();
    printFlame(model, os);
    printRooflinePlot(model, rowOf, os);
    os << "<div class=\"columns\">";
    std::string works = model.work.str() + "s";
    if (model.hasGraph) {
      printRows("Kernel time by kind", model.categories, works);
      printRows("By module", model.modules, works);
    } else {
      printRows("By part of the step", model.parts, works);
      printRows("By " + model.work.str(), model.kernels, "runs");
      printRows("By module", model.modules, works);
    }
    printRows("By range, the innermost", model.ranges, works);
    printRows("By class of repeated subgraphs", model.classes, "partitions");
    os << "</div>\n";
    printOperators();
    printPlaces();
    printMemory();
    printNodes();
    printKernels();
    if (!profile.notes.empty()) {
      os << "<h2>Notes</h2><ul>";
      for (const std::string &note : profile.notes)
        os << "<li>" << escape(note) << "</li>";
      os << "</ul>\n";
    }
    os << "<script>" << kScript << kPlotScript << "</script></body></html>\n";
  }

private:
  void tile(StringRef name, const Twine &value) {
    os << "<div class=\"tile\"><span class=\"dim\">" << name << "</span><b>"
       << escape(value.str()) << "</b></div>";
  }

  std::string time(int64_t total) { return formatTime(model.perStep(total)); }

  void printTiles() {
    const Summary &summary = profile.summary;
    os << "<div class=\"tiles\">";
    if (summary.wallNs)
      tile(model.unit == "step" ? "one step" : model.unit,
           time(*summary.wallNs));
    if (summary.wallNs && summary.busyNs && *summary.wallNs > 0) {
      tile("device busy",
           formatPercent(100.0 * *summary.busyNs / *summary.wallNs));
      tile("idle", time(summary.idleNs.value_or(0)));
    }
    tile(model.work.str() + " time", time(model.counted.kernelTimeNs));
    tile(model.work.str() + "s", Twine(model.counted.kernels / model.steps));
    if (model.counted.copies)
      tile("copies", Twine(model.counted.copies / model.steps) + " · " +
                         time(model.counted.copyTimeNs));
    if (summary.steps)
      tile("steps", Twine(*summary.steps));
    if (profile.run && profile.run->stepNs)
      tile("without a profiler", formatTime(*profile.run->stepNs));
    uint64_t peak = 0;
    for (const MemoryUse &use : profile.memory)
      peak = std::max(peak, use.peakBytes);
    // What tensors held says more than what was taken for them.
    if (profile.run && profile.run->peakBytes)
      peak = *profile.run->peakBytes;
    for (const TensorMemory &memory : profile.tensorMemory)
      peak = std::max(peak, memory.peakBytes);
    if (peak)
      tile("memory peak", formatBytes(peak));
    os << "</div>\n";
  }

  void printConfidence() {
    int64_t total = 0;
    for (int64_t part : profile.summary.attributedNs)
      total += part;
    if (!total || !model.hasGraph)
      return;
    os << "<div class=\"stack\" role=\"img\" aria-label=\"share of kernel time "
          "by confidence\">";
    for (size_t i = 0; i < kNumConfidences; ++i)
      os << formatv("<span style=\"width:{0:f3}%;background:{1}\"></span>",
                    100.0 * profile.summary.attributedNs[i] / total,
                    getColor(Confidence(i)));
    os << "</div><div class=\"dim\">kernel time joined to nodes:";
    for (size_t i = 0; i < kNumConfidences; ++i)
      os << "<span class=\"key\" style=\"background:" << getColor(Confidence(i))
         << "\"></span>" << stringify(Confidence(i)) << ' '
         << formatPercent(100.0 * profile.summary.attributedNs[i] / total);
    if (std::string links = describeLinks(profile.summary); !links.empty())
      os << "<br>" << escape(links);
    os << "</div>\n";
  }

  void printStepValues() {
    if (model.stepValues.empty())
      return;
    const StepCounters &step = *profile.stepCounters;
    bool hasSums = !step.kernelSums.empty();
    os << "<h2>Counters of the whole step</h2>\n<div class=\"dim\">One range "
          "over the step, at its own speed";
    if (hasSums) {
      os << "; beside it what its " << step.summedKernels
         << " kernels add up to";
      if (step.countedKernels < step.summedKernels)
        os << ", of which " << step.countedKernels
           << " were counted and stand for the others";
    }
    os << "</div><div class=\"wide\"><table><tr><th>value</th><th "
          "class=\"num\">step</th>";
    if (hasSums)
      os << "<th class=\"num\">kernels</th><th class=\"num\">difference</th>";
    os << "</tr>";
    for (const StepValue &row : model.stepValues) {
      os << "<tr><td>" << escape(row.name) << "</td><td class=\"num\">"
         << row.value << "</td>";
      if (hasSums) {
        os << "<td class=\"num\">" << row.kernels << "</td><td class=\"num\">";
        os << row.difference << "</td>";
      }
      os << "</tr>";
    }
    os << "</table></div>\n";
    for (const auto &[name, reason] : step.row.absent)
      os << "<div class=\"dim\">no " << escape(name) << ": " << escape(reason)
         << "</div>\n";
  }

  /// What to do first, before all that proves it.
  void printPayoffs() {
    if (model.payoffs.empty())
      return;
    os << "<h2>What pays most <span class=\"dim\">each alone: costs "
          "overlap</span></h2>\n<div class=\"pays\">";
    for (const Payoff &payoff : model.payoffs) {
      os << "<div class=\"finding\"><b class=\"cost\">"
         << formatTime(*payoff.finding->severityNsPerStep)
         << "</b><a href=\"#finding" << payoff.finding - profile.findings.data()
         << "\"><b>" << escape(payoff.finding->id()) << "</b></a><div>leaves "
         << formatTime(payoff.leavesNs) << " of "
         << formatTime(model.ownStepNs())
         << formatv(" ({0})</div><div>", formatTimes(payoff.times))
         << prose(adviseOn(*payoff.finding, profile)) << "</div></div>";
    }
    os << "</div>\n";
  }

  void printFindings() {
    os << "<h2>Findings</h2>\n";
    if (model.findings.empty())
      os << "<p class=\"dim\">None.</p>\n";
    for (const Finding *finding : model.findings) {
      os << "<div class=\"finding\" id=\"finding"
         << finding - profile.findings.data() << "\">";
      if (finding->severityNsPerStep)
        os << "<b class=\"cost\">" << formatTime(*finding->severityNsPerStep)
           << (model.unit == "step" ? " a step" : "") << "</b>";
      os << "<b>" << escape(finding->id()) << "</b><div>"
         << escape(finding->text) << "</div>";
      if (!finding->nodes.empty()) {
        constexpr size_t kShown = 12;
        os << "<div class=\"dim\">nodes:";
        for (uint32_t index : ArrayRef(finding->nodes).take_front(kShown))
          if (index < profile.nodes.size())
            os << " <code>" << escape(profile.nodes[index].id.name)
               << "</code>";
        if (finding->nodes.size() > kShown)
          os << " and " << finding->nodes.size() - kShown << " more";
        os << "</div>";
      }
      if (std::string advice = adviseOn(*finding, profile); !advice.empty())
        os << "<div><b>What to do:</b> " << prose(advice) << "</div>";
      json::Object evidence = toJSON(finding->evidence, profile);
      if (!evidence.empty())
        os << "<details><summary class=\"dim\">evidence</summary><pre><code>"
           << escape(formatv("{0:2}", json::Value(std::move(evidence))).str())
           << "</code></pre></details>";
      os << "</div>\n";
    }
  }

  /// One steady step on every stream: what ran, and the gaps between. Without
  /// steps it is the middle of the recording, which is no warm-up.
  void printTimeline() {
    std::optional<uint32_t> step;
    for (const Step &candidate : profile.steps)
      if (candidate.phase == Phase::Steady) {
        step = candidate.index;
        break;
      }
    std::vector<const Activity *> shown;
    size_t all = profile.kernels.size();
    bool cut = !step && all > kMaxDrawn;
    ArrayRef<Activity> kernels = profile.kernels;
    if (cut)
      kernels = kernels.slice((all - kMaxDrawn) / 2, kMaxDrawn);
    for (ArrayRef<Activity> list : {kernels, ArrayRef(profile.copies)})
      for (const Activity &activity : list)
        if (shown.size() < (cut ? 2 : 1) * kMaxDrawn &&
            (!step || activity.step == step) &&
            (!cut || (activity.endNs() > kernels.front().startNs &&
                      activity.startNs <= kernels.back().startNs)))
          shown.push_back(&activity);
    if (shown.empty())
      return;
    int64_t begin = std::numeric_limits<int64_t>::max(), end = 0;
    std::map<std::pair<int64_t, int64_t>, unsigned> rows;
    for (const Activity *activity : shown) {
      begin = std::min(begin, activity->startNs);
      end = std::max(end, activity->endNs());
      rows.try_emplace({activity->device, activity->stream.value_or(-1)}, 0);
    }
    unsigned next = 0;
    for (auto &[key, row] : rows)
      row = next++;
    // Without a graph there are no kinds: the longest kernels have colors.
    StringMap<StringRef> colorOf;
    static constexpr StringLiteral kColors[kNamed] = {
        "#c8553d", "#3b8ea5", "#6a4c93", "#e08a3c", "#5b9a68", "#c94f7c"};
    for (auto [color, row] : llvm::zip(kColors, namedInTimeline()))
      colorOf[row.name] = color;
    double scale = 1000.0 / std::max<int64_t>(end - begin, 1);
    os << "<h2>Timeline of "
       << (step  ? std::string("one step")
           : cut ? formatv("{0} {1}s from the middle of the {2}",
                           kernels.size(), model.work, model.unit)
                       .str()
                 : model.span())
       << "</h2>\n<div class=\"wide\"><svg viewBox=\"0 0 1120 "
       << 28 + 30 * rows.size() << "\">";
    bool several = rows.begin()->first.first != rows.rbegin()->first.first;
    for (const auto &[key, row] : rows) {
      std::string name = key.second < 0 ? "" : std::to_string(key.second);
      if (several)
        name = formatv("device {0}{1}{2}", key.first, name.empty() ? "" : " · ",
                       name);
      else
        name = name.empty() ? "device" : "stream " + name;
      os << "<text x=\"6\" y=\"" << 22 + 30 * row << "\">" << name << "</text>";
    }
    // What lies outside of the part that is shown is cut off.
    unsigned height = 2 + 30 * rows.size();
    os << "<svg class=\"zoom\" x=\"100\" width=\"1000\" height=\"" << height
       << "\" viewBox=\"100 0 1000 " << height
       << "\" preserveAspectRatio=\"none\" data-ns=\"" << end - begin << "\">";
    for (const Activity *activity : shown) {
      unsigned row = rows[{activity->device, activity->stream.value_or(-1)}];
      os << formatv("<rect x=\"{0:f2}\" y=\"{1}\" width=\"{2:f2}\" "
                    "height=\"22\" fill=\"{3}\"><title>",
                    100 + (activity->startNs - begin) * scale, 6 + 30 * row,
                    std::max(activity->durationNs * scale, 0.15),
                    model.hasGraph ? getColor(getCategory(profile, *activity))
                    : activity->kind != ActivityKind::Kernel
                        ? getColor("copy")
                        : lookUp(colorOf, shortKernelName(activity->name)))
         << escape(activity->name) << "\n"
         << formatTime(activity->durationNs) << " at "
         << formatTime(activity->startNs - begin) << "\n"
         << escape(describeNodes(*activity)) << "</title></rect>";
    }
    os << "</svg><text class=\"end\" x=\"100\" y=\"" << 20 + 30 * rows.size()
       << "\">0</text><text class=\"end\" x=\"1100\" text-anchor=\"end\" y=\""
       << 20 + 30 * rows.size() << "\">" << formatTime(end - begin)
       << "</text></svg></div>\n<div class=\"dim\">";
    if (model.hasGraph)
      for (const TimeRow &row : model.categories)
        os << "<span class=\"keyed\"><span class=\"key\" style=\"background:"
           << getColor(row.name) << "\"></span>" << escape(row.name)
           << "</span>";
    for (const TimeRow &row : namedInTimeline())
      os << "<span class=\"keyed\"><span class=\"key\" style=\"background:"
         << colorOf[row.name] << "\"></span><code>" << escape(row.name)
         << "</code></span>";
    os << "</div>\n";
  }

  static StringRef lookUp(const StringMap<StringRef> &colors, StringRef name) {
    auto it = colors.find(name);
    return it == colors.end() ? getColor("") : it->second;
  }

  static constexpr size_t kNamed = 6;
  ArrayRef<TimeRow> namedInTimeline() const {
    return model.hasGraph ? ArrayRef<TimeRow>()
                          : ArrayRef(model.kernels).take_front(kNamed);
  }

  std::string describeNodes(const Activity &activity) {
    std::string names;
    for (uint32_t index : ArrayRef(activity.origin->nodes).take_front(8))
      if (index < profile.nodes.size())
        names += (names.empty() ? "" : ", ") + profile.nodes[index].id.name;
    if (activity.origin->nodes.size() > 8)
      names += " …";
    return names;
  }

  void bar(double share) {
    os << formatv("<div class=\"bar\"><i style=\"width:{0:f2}%\"></i></div>",
                  std::clamp(share, 0.0, 100.0));
  }

  void printRows(const Twine &title, ArrayRef<TimeRow> rows,
                 StringRef counted) {
    if (rows.empty())
      return;
    os << "<section><h2>" << title.str()
       << "</h2><div class=\"wide\"><table><tr><th>name</th><th></th><th "
          "class=\"num\">share</th>"
          "<th class=\"num\">"
       << (model.unit == "step" ? "a step" : "time")
       << "</th><th class=\"num\">" << counted << "</th></tr>";
    constexpr size_t kRows = 100;
    for (const TimeRow &row : rows.take_front(kRows)) {
      os << "<tr><td>" << escape(row.name);
      if (!row.detail.empty())
        os << " <span class=\"dim\">" << escape(row.detail) << "</span>";
      os << "</td><td>";
      bar(model.share(row.kernelTimeNs));
      os << "</td><td class=\"num\">"
         << formatPercent(model.share(row.kernelTimeNs))
         << "</td><td class=\"num\">" << time(row.kernelTimeNs)
         << "</td><td class=\"num\">"
         << (counted == "partitions" ? std::to_string(row.count)
                                     : escape(model.countPerStep(row.count)))
         << "</td></tr>";
    }
    os << "</table></div>";
    sayMore(rows.size(), kRows);
    os << "</section>\n";
  }

  /// Of `amount` a call; nothing where it is not known.
  static std::string rate(const OperatorTime &op, double amount,
                          StringRef unit) {
    double seconds = double(op.kernelTimeNs) / 1e9;
    if (seconds <= 0 || amount <= 0)
      return "";
    return formatPrefix(double(op.calls) * amount / seconds) + unit.str();
  }

  static constexpr size_t kOperators = 200;

  /// What the host called, with the rates that the model of costs gives.
  void printOperators() {
    if (model.operators.empty())
      return;
    os << "<h2>By operator and sizes</h2><div class=\"wide\"><table><tr>"
          "<th>operator</th><th>sizes</th><th class=\"num\">calls</th>"
          "<th class=\"num\">"
       << (model.unit == "step" ? "a step" : "time")
       << "</th><th class=\"num\">share</th><th class=\"num\">FLOP/s</th>"
          "<th class=\"num\">B/s</th></tr>";
    for (const OperatorTime *op :
         ArrayRef(model.operators).take_front(kOperators)) {
      std::string bytes;
      if (op->bytesRead && op->bytesWritten)
        bytes = rate(*op, double(*op->bytesRead) + double(*op->bytesWritten),
                     "B/s");
      os << "<tr id=\"op" << op - profile.operators.data() << "\"><td><b>"
         << escape(op->name) << "</b></td><td><code>" << escape(op->inputDims)
         << "</code></td><td class=\"num\">" << model.countPerStep(op->calls)
         << "</td><td class=\"num\">" << time(op->kernelTimeNs)
         << "</td><td class=\"num\">"
         << formatPercent(model.share(op->kernelTimeNs))
         << "</td><td class=\"num\">"
         << rate(*op, double(op->flops.value_or(0)), "FLOP/s")
         << "</td><td class=\"num\">" << bytes << "</td></tr>";
    }
    os << "</table></div>\n";
    sayMore(model.operators.size(), kOperators);
  }

  /// Operators with the module and the line that called them.
  void printPlaces() {
    if (model.places.empty())
      return;
    os << "<h2>By operator, module and line</h2><div class=\"wide\"><table>"
          "<tr><th>operator</th><th>module</th><th>line</th>"
          "<th class=\"num\">share</th><th class=\"num\">"
       << (model.unit == "step" ? "a step" : "time") << "</th></tr>";
    for (const PlaceRow &row : ArrayRef(model.places).take_front(kOperators))
      os << "<tr><td><b>" << escape(row.name) << "</b>"
         << (row.isBackward ? " (backward)" : "") << "</td><td>"
         << escape(row.module) << "</td><td>" << escape(row.source)
         << "</td><td class=\"num\">"
         << formatPercent(model.share(row.kernelTimeNs))
         << "</td><td class=\"num\">" << time(row.kernelTimeNs) << "</td></tr>";
    os << "</table></div>\n";
    sayMore(model.places.size(), kOperators);
  }

  /// Who holds the memory of tensors, what steps take and give back.
  void printMemory() {
    for (const TensorMemory &memory : profile.tensorMemory) {
      os << "<h2>Memory of tensors on " << escape(memory.device)
         << " <span class=\"dim\">at most " << formatBytes(memory.peakBytes)
         << "</span></h2>";
      printHeldBytes(memory, os);
      bool grows = memory.growthBytesPerStep > 0;
      os << "<div class=\"wide\"><table><tr><th>operator</th><th>module</th>"
            "<th>line</th><th class=\"num\">held at the peak</th>"
            "<th class=\"num\">share</th><th class=\"num\">blocks</th>"
            "<th class=\"num\">taken in "
         << model.span()
         << "</th><th class=\"num\">blocks</th><th class=\"num\">free again in "
            "it</th><th class=\"num\">in the operator itself</th>"
         << (grows ? "<th class=\"num\">more after each step</th>" : "")
         << "</tr>";
      auto bytes = [&](uint64_t number) {
        os << "</td><td class=\"num\">" << (number ? formatBytes(number) : "");
      };
      for (const MemorySite &site :
           ArrayRef(memory.sites).take_front(kOperators)) {
        os << "<tr><td><b>" << escape(describeWork(site)) << "</b></td><td>"
           << escape(site.module) << "</td><td>" << escape(site.source);
        bytes(site.peakBytes);
        os << "</td><td class=\"num\">"
           << formatPercent(
                  percentOf(double(site.peakBytes), double(memory.peakBytes)))
           << "</td><td class=\"num\">" << site.peakBlocks;
        bytes(site.bytes / model.steps);
        os << "</td><td class=\"num\">" << model.countPerStep(site.calls);
        bytes(site.churnBytes / model.steps);
        bytes(site.scratchBytes / model.steps);
        if (grows)
          bytes(site.growthBytesPerStep);
        os << "</td></tr>";
      }
      os << "</table></div>\n";
      sayMore(memory.sites.size(), kOperators);
    }
  }

  void sayMore(size_t all, size_t shown) {
    if (all > shown)
      os << "<p class=\"dim\">and " << all - shown
         << " more; all of them are in the JSON.</p>";
  }

  void counterHead() {
    if (model.counters)
      for (const CounterColumn &column : getCounterColumns())
        os << "<th class=\"num\">" << column.name << "</th>";
  }

  /// Values that are another launch's are marked, and say whose.
  void counterCells(const std::map<std::string, double> &values,
                    StringRef from) {
    if (!model.counters)
      return;
    bool isSaid = false;
    for (const CounterColumn &column : getCounterColumns()) {
      std::string value = formatCounter(column, values);
      os << "<td class=\"num\"";
      // The first says whose all of them are.
      if (!from.empty() && !value.empty() && !isSaid)
        os << " title=\"of " << escape(from) << "\"";
      bool isMarked = !from.empty() && !value.empty();
      isSaid |= isMarked;
      os << (isMarked ? "><i>" : ">") << value
         << (isMarked ? "*</i></td>" : "</td>");
    }
  }

  /// The line that a person looks for, and the whole stack where it is known.
  void printSource(const Node &node) {
    std::string source = escape(node.source.value_or(""));
    if (node.stack.size() < 2) {
      os << source;
      return;
    }
    os << "<details><summary>" << source << "</summary>";
    for (const std::string &frame : node.stack)
      os << "<div class=\"dim\">" << escape(frame) << "</div>";
    os << "</details>";
  }

  void nodeCells(int64_t total, StringRef name, const Twine &module,
                 const NodeRow &row, Confidence confidence,
                 const Twine &id = "") {
    os << "<tr" << id << "><td class=\"num\">" << time(total)
       << "</td><td class=\"num\">" << formatPercent(model.share(total))
       << "</td>";
    counterCells(row.node->metrics, metricsOriginIn(profile, *row.node));
    os << "<td><b>" << escape(name) << "</b></td><td>" << escape(module.str())
       << "</td><td>";
    printSource(*row.node);
    os << "</td><td><code>" << escape(row.kernel) << "</code></td><td>"
       << stringify(confidence) << "</td></tr>";
  }

  void printNodes() {
    if (model.nodes.empty())
      return;
    constexpr size_t kGroups = 40;
    auto head = [&] {
      os << "<div class=\"wide\"><table><tr><th class=\"num\">"
         << (model.unit == "step" ? "a step" : "time")
         << "</th><th class=\"num\">share</th>";
      counterHead();
      os << "<th>node</th><th>module</th><th>source</th><th>kernel</th>"
            "<th>join</th></tr>";
    };
    os << "<h2>Slowest nodes</h2>";
    head();
    for (const NodeGroup &group :
         ArrayRef(model.nodeGroups).take_front(kGroups))
      nodeCells(group.kernelTimeNs, group.getName(), group.getModule(),
                group.slowest, group.confidence);
    os << "</table></div>\n<details><summary>Each node alone ("
       << model.nodes.size() << ")</summary>";
    head();
    os << nodeRows << "</table></div>";
    sayMore(model.nodes.size(), shownNodes.size());
    os << "</details>\n";
  }

  /// The rows of long tables, as many as a page has room for: before what leads
  /// to them is printed.
  void renderRows() {
    constexpr size_t kMostBytes = 1'500'000;
    raw_string_ostream ofNodes(nodeRows), ofKernels(kernelRows);
    HTMLPage nodes(model, ofNodes), kernels(model, ofKernels);
    for (const NodeRow &row : model.nodes) {
      if (nodeRows.size() > kMostBytes)
        break;
      uint32_t place = row.node - profile.nodes.data();
      nodes.nodeCells(row.node->kernelTimeNs, row.node->id.name,
                      row.node->module.value_or(""), row, row.confidence,
                      " id=\"node" + Twine(place) + "\"");
      shownNodes.insert(place);
    }
    for (const Activity &kernel : profile.kernels) {
      if (kernelRows.size() > kMostBytes || shownKernels == kMaxDrawn)
        break;
      kernels.kernelRow(kernel);
      ++shownKernels;
    }
  }

  void kernelRow(const Activity &kernel) {
    int64_t begin = profile.kernels.front().startNs;
    os << "<tr id=\"kernel" << &kernel - profile.kernels.data()
       << "\"><td class=\"num\">" << formatTime(kernel.startNs - begin)
       << "</td><td class=\"num\">" << formatTime(kernel.durationNs) << "</td>";
    counterCells(kernel.counters ? profile.counters[*kernel.counters].values
                                 : std::map<std::string, double>(),
                 kernel.origin->countersFrom);
    os << "<td><code>" << escape(kernel.name) << "</code></td><td>";
    if (!model.hasGraph) {
      if (kernel.stream)
        os << *kernel.stream;
      os << "</td><td>" << escape(kernel.origin->range) << "</td></tr>";
      return;
    }
    os << escape(describeNodes(kernel)) << "</td><td>"
       << stringify(kernel.confidence) << " by "
       << escape(kernel.origin->method) << "<div class=\"dim\">"
       << escape(kernel.origin->explanation)
       << (kernel.origin->range.empty()
               ? std::string()
               : " · in " + escape(kernel.origin->range))
       << "</div></td></tr>";
  }

  void printKernels() {
    if (profile.kernels.empty())
      return;
    os << "<details><summary>"
       << (model.hasGraph ? "All kernels, and how each was joined ("
                          : "All " + model.work.str() + "s (")
       << profile.kernels.size()
       << ")</summary><div class=\"wide\"><table><tr><th "
          "class=\"num\">start</th><th "
          "class=\"num\">duration</th>";
    counterHead();
    os << "<th>" << model.work << "</th>"
       << (model.hasGraph ? "<th>nodes</th><th>join</th></tr>"
                          : "<th>stream</th><th>range</th></tr>");
    os << kernelRows;
    os << "</table></div>";
    if (profile.kernels.size() > shownKernels)
      os << "<p class=\"dim\">" << profile.kernels.size() - shownKernels
         << " more are in the JSON.</p>";
    os << "</details>\n";
  }

  /// The id of the row of what a point of the roofline stands for: its node
  /// that takes most, its operator, or its longest kernel. Empty where that is
  /// not shown.
  std::string findRow(const RooflinePoint &point) const {
    std::optional<uint32_t> longest;
    if (point.launch)
      for (uint32_t node : profile.launches[*point.launch].nodes)
        if (shownNodes.contains(node) &&
            (!longest || profile.nodes[node].kernelTimeNs >
                             profile.nodes[*longest].kernelTimeNs))
          longest = node;
    if (longest)
      return "node" + std::to_string(*longest);
    if (point.op && shownOperators.contains(*point.op))
      return "op" + std::to_string(*point.op);
    return point.kernel < shownKernels ? "kernel" + std::to_string(point.kernel)
                                       : "";
  }

  const ReportModel &model;
  const Profile &profile;
  raw_ostream &os;
  /// Places of what has rows of its own; of kernels the first ones have.
  DenseSet<uint32_t> shownNodes, shownOperators;
  size_t shownKernels = 0;
  std::string nodeRows, kernelRows;
  const RowOf rowOf = [this](const RooflinePoint &point) {
    return findRow(point);
  };
};
} // namespace

void report::printHTML(const Profile &profile, raw_ostream &os) {
  ReportModel model = makeReportModel(profile);
  HTMLPage(model, os).print();
}
