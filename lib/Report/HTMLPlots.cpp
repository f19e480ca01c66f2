// The plots of the HTML page: the roofline, and kernel time by module. They are
// read without a script; with one the modules zoom, and points show their rows.

#include "HTMLPlots.h"

#include "opprof/Support/TerminalText.h"
#include "opprof/Support/Units.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

#include <cmath>

using namespace llvm;
using namespace opprof;
using namespace opprof::profile;
using namespace opprof::report;

const StringLiteral report::kPlotStyle = R"css(
svg.roofline { max-width: 940px } svg.roofline text { font-size: 12px } svg.roofline text.in { fill: var(--fg) }
@media (max-width: 600px) { svg.roofline { min-width: 0 } svg.roofline text { font-size: 19px } svg.roofline a circle { stroke-width: 2 } }
svg.roofline .grid { stroke: var(--line); stroke-width: 1 } svg.roofline .roof { fill: none; stroke-width: 2 }
svg.roofline circle { fill-opacity: .72; stroke: var(--bg); stroke-width: 1 }
svg.roofline a:hover circle, svg.roofline a:focus circle { fill-opacity: 1; stroke: var(--fg); stroke-width: 2 }
.fp32 { fill: #3b8ea5; background: #3b8ea5; stroke: #3b8ea5 } .tf32 { fill: #5b9a68; background: #5b9a68; stroke: #5b9a68 }
.bf16 { fill: #c8553d; background: #c8553d; stroke: #c8553d } .fp16 { fill: #9a6fb0; background: #9a6fb0; stroke: #9a6fb0 }
.memory { background: #8a94a0; stroke: #8a94a0 }
ul.without { padding-left: 18px; margin: 6px 0 } ul.without li { margin: 3px 0; overflow-wrap: anywhere }
tr:target td, tr.found td { background: color-mix(in srgb, var(--bar) 22%, transparent) }
.flame { position: relative; overflow: hidden; background: var(--card); border: 1px solid var(--line); border-radius: 6px }
.flame button { position: absolute; top: calc(var(--d) * 24px + 1px); height: 23px; margin: 0; padding: 0 4px; border: 0;
  border-right: 1px solid var(--card); border-radius: 2px; overflow: hidden; white-space: nowrap; text-overflow: ellipsis; text-align: left;
  font: 12px/23px system-ui, sans-serif; color: #10151a; cursor: zoom-in }
.flame .m { background: #9cc4e4 } .flame .m.o { background: #86b4d9 } .flame .w { background: #f0c48a } .flame .w.o { background: #e8b673 }
.flame .k { background: #b9d3a8 } .flame .k.o { background: #a9c896 } .flame .thin { padding: 0; border-right-width: 0; color: transparent }
.flame button:hover, .flame button:focus-visible { filter: brightness(1.12); outline: 2px solid var(--fg); outline-offset: -2px; z-index: 1 }
.flamed { min-height: 1.5em; overflow-wrap: anywhere; margin-top: 4px }
svg .held { fill: var(--bar); fill-opacity: .55 }
)css";

const StringLiteral report::kPlotScript = R"js(
// A row may lie in a part that is closed, or be hidden by a search.
function showRow(id) {
  const row = document.getElementById(id);
  if (!row) return;
  for (let part = row.closest('details'); part; part = part.parentNode.closest('details')) part.open = true;
  row.hidden = false;
  for (const other of document.querySelectorAll('.found')) other.classList.remove('found');
  row.classList.add('found');
  row.scrollIntoView({ block: 'center' });
}
for (const link of document.querySelectorAll('a[href^="#"]'))
  link.addEventListener('click', event => { event.preventDefault();
    history.pushState(null, '', link.getAttribute('href')); showRow(link.getAttribute('href').slice(1)); });
addEventListener('popstate', () => { if (location.hash) showRow(location.hash.slice(1)); });
for (const flame of document.querySelectorAll('.flame')) {
  const frames = [...flame.children].map(element => ({ element, left: parseFloat(element.style.left),
    width: parseFloat(element.style.width), depth: +element.style.getPropertyValue('--d') }));
  if (!frames.length) continue;
  const text = flame.nextElementSibling, of = new Map(frames.map(frame => [frame.element, frame]));
  let shown = frames[0], held = frames[0];
  const holds = (outer, inner) => outer.depth <= inner.depth && outer.left <= inner.left + 1e-6 &&
    outer.left + outer.width >= inner.left + inner.width - 1e-6;
  const say = frame => { text.textContent = frame.element.title; };
  const hold = frame => { held.element.tabIndex = -1; held = frame; held.element.tabIndex = 0; };
  const zoom = frame => {
    shown = frame;
    const pixels = flame.clientWidth / 100;
    for (const other of frames) {
      const by = 100 / shown.width;
      const left = Math.max((other.left - shown.left) * by, 0), right = Math.min((other.left + other.width - shown.left) * by, 100);
      const style = other.element.style;
      other.element.hidden = right - left <= 0 || (right - left) * pixels < 0.3;
      if (other.element.hidden) continue;
      style.left = left + '%';
      style.width = right - left + '%';
      other.element.classList.toggle('thin', (right - left) * pixels < 12);
    }
    hold(frame);
    say(frame);
  };
  const parent = frame => frames.findLast(other => other.depth === frame.depth - 1 && holds(other, frame));
  const near = (frame, by) => {
    const row = frames.filter(other => other.depth === frame.depth && !other.element.hidden);
    return row[row.indexOf(frame) + by];
  };
  const ways = {
    ArrowUp: parent,
    ArrowDown: frame => frames.find(other => other.depth === frame.depth + 1 && holds(frame, other) && !other.element.hidden),
    ArrowLeft: frame => near(frame, -1),
    ArrowRight: frame => near(frame, 1),
    Home: () => frames[0],
  };
  for (const frame of frames) frame.element.tabIndex = -1;
  flame.addEventListener('click', event => { const frame = of.get(event.target); if (frame) zoom(frame); });
  flame.addEventListener('pointerover', event => { const frame = of.get(event.target); if (frame) say(frame); });
  flame.addEventListener('pointerleave', () => say(held));
  flame.addEventListener('focusin', event => { const frame = of.get(event.target); if (frame) { hold(frame); say(frame); } });
  flame.addEventListener('keydown', event => {
    const frame = of.get(event.target);
    if (!frame) return;
    if (event.key === 'Escape') { const outer = parent(shown) || frames[0]; zoom(outer); outer.element.focus(); event.preventDefault(); return; }
    const next = ways[event.key] && ways[event.key](frame);
    if (!ways[event.key]) return;
    event.preventDefault();
    if (next) next.element.focus();
  });
  const bar = toolsBefore(flame);
  tool(bar, 'all', () => zoom(frames[0]));
  tool(bar, 'up', () => zoom(parent(shown) || frames[0]));
  addEventListener('resize', () => zoom(shown));
  zoom(frames[0]);
}
)js";

/// A page may be printed, too, and no control character is one of HTML's.
static std::string withoutCommands(StringRef text) {
  std::string clean;
  for (;;) {
    size_t end = text.find_first_of("\n\t");
    clean += toTerminalText(text.take_front(end));
    if (end == StringRef::npos)
      return clean;
    clean += text[end];
    text = text.drop_front(end + 1);
  }
}

std::string report::escape(StringRef text) {
  std::string escaped;
  std::string valid = json::isUTF8(text) ? text.str() : json::fixUTF8(text);
  for (char c : withoutCommands(valid)) {
    switch (c) {
    case '&':
      escaped += "&amp;";
      break;
    case '<':
      escaped += "&lt;";
      break;
    case '>':
      escaped += "&gt;";
      break;
    case '"':
      escaped += "&quot;";
      break;
    case '\'':
      escaped += "&#39;";
      break;
    default:
      escaped += c;
    }
  }
  return escaped;
}

//===----------------------------------------------------------------------===//
// The roofline
//===----------------------------------------------------------------------===//

/// More would be one blot, and the page heavier than a mail takes.
static constexpr size_t kMaxPoints = 1000;

namespace {
/// A scale of decades over pixels.
struct LogScale {
  double low = 0, high = 1;
  double from = 0, to = 1;

  double at(double value) const {
    return from + (to - from) * (std::log10(value) - low) / (high - low);
  }
  /// Labels are at every `every`-th decade.
  int every() const { return std::max(1, int((high - low) / 9)); }
};

/// Types whose products have one ceiling.
struct ComputeRoof {
  std::string names;
  StringRef color;
  double rate = 0;
  std::string origin;
};
} // namespace

/// "0.01", "100 G": a power of ten.
static std::string labelDecade(int exponent) {
  static constexpr StringLiteral kPrefixes[] = {"",  "k", "M", "G",
                                                "T", "P", "E"};
  if (exponent < 0)
    return "0." + std::string(-exponent - 1, '0') + "1";
  size_t prefix = std::min<size_t>(exponent / 3, std::size(kPrefixes) - 1);
  return "1" + std::string(exponent - 3 * int(prefix), '0') +
         (prefix ? " " : "") + kPrefixes[prefix].str();
}

static std::vector<ComputeRoof> listRoofs(const evidence::Ceilings &ceilings) {
  std::vector<ComputeRoof> roofs;
  for (size_t index = 0; index < kNumPrecisions; ++index) {
    StringRef name = stringify(static_cast<Precision>(index));
    const evidence::Rate &rate = ceilings.compute[index];
    if (rate.perSecond <= 0)
      continue;
    auto same = llvm::find_if(roofs, [&](const ComputeRoof &roof) {
      return roof.rate == rate.perSecond;
    });
    if (same == roofs.end())
      roofs.push_back({name.str(), name, rate.perSecond, rate.origin});
    else
      same->names += ", " + name.str();
  }
  return roofs;
}

static StringRef describe(NoPlace why) {
  switch (why) {
  case NoPlace::Arithmetic:
    return "they do no arithmetic, they move data";
  case NoPlace::Model:
    return "the model of costs has no formula for what they do, or a size is "
           "not known";
  case NoPlace::Sizes:
    return "sizes were not recorded (profile(…, record_shapes=True))";
  case NoPlace::Type:
    return "it is not known which type their products are of";
  case NoPlace::Launch:
    return "they are joined to no launch of the compiled graph";
  case NoPlace::Operator:
    return "no operator that was recorded launched them";
  }
  llvm_unreachable("unhandled reason");
}

namespace {
class RooflinePrinter {
public:
  RooflinePrinter(const ReportModel &model, const RowOf &rowOf, raw_ostream &os)
      : model(model), profile(*model.profile), rowOf(rowOf), os(os),
        plot(plotRoofline(profile)) {}

  void print() {
    if (plot.points.empty() && plot.without.empty())
      return;
    os << "<h2>Roofline</h2>\n";
    if (plot.ceilings)
      roofs = listRoofs(*plot.ceilings);
    points = ArrayRef(plot.points).take_front(kMaxPoints);
    if (!points.empty()) {
      setScales();
      os << formatv("<div class=\"wide\"><svg class=\"roofline\" "
                    "viewBox=\"0 0 {0} {1}\" role=\"group\" "
                    "aria-label=\"roofline\">",
                    kWidth, kHeight);
      printGrid();
      printRoofs();
      for (const RooflinePoint &point : points)
        printPoint(point);
      os << "</svg></div>\n";
    }
    printLegend();
    printWithout();
  }

private:
  static constexpr double kWidth = 760, kHeight = 430;
  static constexpr double kLeft = 64, kRight = 746, kTop = 34, kBottom = 384;

  /// Whole decades round all points and where roofs bend.
  void setScales() {
    double xLow = points.front().intensity, xHigh = xLow;
    double yLow = points.front().flopsPerSecond, yHigh = yLow;
    for (const RooflinePoint &point : points) {
      xLow = std::min(xLow, point.intensity);
      xHigh = std::max(xHigh, point.intensity);
      yLow = std::min(yLow, point.flopsPerSecond);
      yHigh = std::max(yHigh, point.flopsPerSecond);
    }
    for (const ComputeRoof &roof : roofs) {
      xLow = std::min(xLow, roof.rate / memory());
      xHigh = std::max(xHigh, 2 * roof.rate / memory());
      yHigh = std::max(yHigh, 1.05 * roof.rate);
    }
    x = {std::floor(std::log10(xLow)), std::ceil(std::log10(xHigh) + 1e-9),
         kLeft, kRight};
    y = {std::floor(std::log10(yLow)), std::ceil(std::log10(yHigh) + 1e-9),
         kBottom, kTop};
    for (LogScale *scale : {&x, &y})
      scale->high = std::max(scale->high, scale->low + 1);
  }

  double memory() const { return plot.ceilings->memory.perSecond; }

  void printGrid() {
    auto line = [&](double x1, double y1, double x2, double y2) {
      os << formatv("<line class=\"grid\" x1=\"{0:f1}\" y1=\"{1:f1}\" "
                    "x2=\"{2:f1}\" y2=\"{3:f1}\"/>",
                    x1, y1, x2, y2);
    };
    auto label = [&](double at, double down, StringRef anchor,
                     const std::string &text) {
      os << formatv("<text x=\"{0:f1}\" y=\"{1:f1}\" "
                    "text-anchor=\"{2}\">{3}</text>",
                    at, down, anchor, text);
    };
    for (int decade = int(x.low); decade <= int(x.high); ++decade) {
      double at = x.at(std::pow(10.0, decade));
      line(at, kTop, at, kBottom);
      if ((decade - int(x.low)) % x.every() == 0)
        label(at, kBottom + 19, "middle", labelDecade(decade));
    }
    for (int decade = int(y.low); decade <= int(y.high); ++decade) {
      double at = y.at(std::pow(10.0, decade));
      line(kLeft, at, kRight, at);
      if ((decade - int(y.low)) % y.every() == 0)
        label(kLeft - 7, at + 4, "end", labelDecade(decade));
    }
    label(kLeft - 7, kTop - 17, "middle", "FLOP/s");
    label((kLeft + kRight) / 2, kBottom + 40, "middle",
          "arithmetic intensity, FLOP/byte");
  }

  /// The slope of the memory's rate, and from where it meets them the types'.
  void printRoofs() {
    if (roofs.empty())
      return;
    double top = 0;
    for (const ComputeRoof &roof : roofs)
      top = std::max(top, roof.rate);
    // The slope may begin below the plot.
    double from =
        std::max(std::pow(10.0, x.low), std::pow(10.0, y.low) / memory());
    double x1 = x.at(from), y1 = y.at(from * memory()),
           x2 = x.at(top / memory()), y2 = y.at(top);
    os << formatv("<path class=\"roof memory\" "
                  "d=\"M{0:f1} {1:f1}L{2:f1} {3:f1}\"/>",
                  x1, y1, x2, y2);
    double tilt = std::atan2(y2 - y1, x2 - x1) * 180 / 3.14159265358979;
    os << formatv("<text class=\"in\" transform=\"translate({0:f1} {1:f1}) "
                  "rotate({2:f1})\">memory {3}</text>",
                  x1 + (x2 - x1) * 0.08 - 4, y1 + (y2 - y1) * 0.08 - 7, tilt,
                  formatPrefix(memory()) + "B/s");
    double above = -100;
    std::vector<ComputeRoof> falling = roofs;
    llvm::sort(falling, [](const ComputeRoof &a, const ComputeRoof &b) {
      return a.rate > b.rate;
    });
    for (const ComputeRoof &roof : falling) {
      double at = y.at(roof.rate);
      os << formatv("<path class=\"roof {0}\" d=\"M{1:f1} {2:f1}H{3:f1}\"/>",
                    roof.color, x.at(roof.rate / memory()), at, kRight);
      // Labels of ceilings that lie close are put below one another, as far
      // apart as they are high on a phone.
      constexpr double kLabelHeight = 23;
      above = std::max(at - 5, above + kLabelHeight);
      os << formatv("<text class=\"in\" x=\"{0:f1}\" y=\"{1:f1}\" "
                    "text-anchor=\"end\">{2} {3}</text>",
                    kRight - 4, above, roof.names,
                    formatPrefix(roof.rate) + "FLOP/s");
    }
  }

  /// The color of the ceiling that it is held against.
  StringRef colorOf(const RooflinePoint &point) const {
    if (!plot.ceilings)
      return "fp32";
    double rate = plot.ceilings->of(point.ceiling).perSecond;
    for (const ComputeRoof &roof : roofs)
      if (roof.rate == rate)
        return roof.color;
    return "fp32";
  }

  std::string nameOf(const RooflinePoint &point) const {
    if (point.op) {
      const OperatorTime &op = profile.operators[*point.op];
      return op.name + " " + op.inputDims;
    }
    const LaunchRecord &launch = profile.launches[*point.launch];
    std::string names;
    for (uint32_t node : ArrayRef(launch.nodes).take_front(4))
      names += (names.empty() ? "" : ", ") + profile.nodes[node].id.name;
    if (launch.nodes.size() > 4)
      names += formatv(" and {0} more", launch.nodes.size() - 4);
    return names.empty() ? launch.kernel : names;
  }

  void printPoint(const RooflinePoint &point) {
    std::string name = nameOf(point);
    std::string text =
        formatv("{0}\n{1}\n{2} {3}, {4} of kernel time\n{5}FLOP/s, "
                "{6:f2} FLOP/byte",
                name, shortKernelName(profile.kernels[point.kernel].name),
                formatTime(point.timeNs / plot.steps),
                model.unit == "step" ? "a step" : "in all",
                formatPercent(model.share(point.timeNs)),
                formatPrefix(point.flopsPerSecond), point.intensity);
    if (plot.ceilings)
      text += formatv("\n{0} of its roof ({1}), {2}",
                      formatPercent(point.roofPct), stringify(point.ceiling),
                      point.bound == Bound::Unknown
                          ? std::string("of unknown bound")
                          : (stringify(point.bound) + "-bound").str());
    std::string row = rowOf(point);
    if (!row.empty())
      os << "<a href=\"#" << row << "\" aria-label=\"" << escape(name) << "\">";
    // Areas are as times.
    double radius = std::clamp(
        2.6 * std::sqrt(std::max(model.share(point.timeNs), 0.0)), 4.5, 18.0);
    os << formatv("<circle class=\"{0}\" cx=\"{1:f1}\" cy=\"{2:f1}\" "
                  "r=\"{3:f1}\"><title>",
                  colorOf(point), x.at(point.intensity),
                  y.at(point.flopsPerSecond), radius)
       << escape(text) << "</title></circle>" << (row.empty() ? "" : "</a>");
  }

  void printLegend() {
    int64_t time = 0, all = 0;
    uint64_t kernels = 0, allKernels = 0;
    for (const RooflinePoint &point : plot.points) {
      time += point.timeNs;
      kernels += point.kernels;
    }
    all = time;
    allKernels = kernels;
    for (const WithoutPlace &group : plot.without) {
      all += group.timeNs;
      allKernels += group.kernels;
    }
    os << "<div class=\"dim\">";
    for (const ComputeRoof &roof : roofs)
      os << "<span class=\"keyed\"><span class=\"key " << roof.color
         << "\"></span>" << roof.names << " " << formatPrefix(roof.rate)
         << "FLOP/s (" << escape(roof.origin) << ")</span>";
    if (plot.ceilings)
      os << "<span class=\"keyed\"><span class=\"key memory\"></span>memory "
         << formatPrefix(memory()) << "B/s ("
         << escape(plot.ceilings->memory.origin) << ")</span>";
    os << "</div><p class=\"dim\">"
       << formatv("{0} of {1} {2}s, {3} of their time, have a place, by the "
                  "model of costs. ",
                  kernels, allKernels, model.work,
                  formatPercent(percentOf(double(time), double(all))));
    if (!points.empty())
      os << "A dot is "
         << (points.front().op ? "an operator with inputs of one size"
                               : "a launch")
         << ", as large as its time; it leads to its row."
         << (plot.ceilings ? " Its color is that of the ceiling that it is "
                             "held against."
                           : "");
    if (!plot.ceilings)
      os << " What the device allows at most is not known.";
    os << "</p>\n";
    if (plot.points.size() > points.size())
      os << "<p class=\"dim\">" << plot.points.size() - points.size()
         << " shorter ones are not drawn.</p>\n";
  }

  void printWithout() {
    if (plot.without.empty())
      return;
    constexpr size_t kNamed = 8;
    os << "<details" << (plot.points.empty() ? " open" : "")
       << "><summary>Without a place in it</summary><ul class=\"without\">";
    for (const WithoutPlace &group : plot.without) {
      os << formatv("<li>{0}, {1}: {2}",
                    formatCount(group.kernels, model.work,
                                (model.work + "s").str()),
                    formatTime(group.timeNs / plot.steps) +
                        (model.unit == "step" ? " a step" : ""),
                    describe(group.why))
         << "<div class=\"dim\">";
      bool isFirst = true;
      for (const KernelsOfName &sum :
           ArrayRef(group.names).take_front(kNamed)) {
        os << (isFirst ? "" : "; ") << "<code>"
           << escape(shortKernelName(sum.name)) << "</code> "
           << formatTime(sum.timeNs / plot.steps);
        isFirst = false;
      }
      if (group.names.size() > kNamed)
        os << "; and " << group.names.size() - kNamed << " more";
      os << "</div></li>";
    }
    os << "</ul></details>\n";
  }

  const ReportModel &model;
  const Profile &profile;
  const RowOf &rowOf;
  raw_ostream &os;
  RooflinePlot plot;
  std::vector<ComputeRoof> roofs;
  ArrayRef<RooflinePoint> points;
  LogScale x, y;
};
} // namespace

void report::printRooflinePlot(const ReportModel &model, const RowOf &rowOf,
                               raw_ostream &os) {
  RooflinePrinter(model, rowOf, os).print();
}

//===----------------------------------------------------------------------===//
// Kernel time by module
//===----------------------------------------------------------------------===//

namespace {
enum class FrameKind : uint8_t { Module, Work, Kernel };

struct Frame {
  std::string name;
  FrameKind kind = FrameKind::Module;
  int64_t timeNs = 0;
  unsigned depth = 0;
  std::map<std::string, unsigned> places;
  std::vector<unsigned> children;
};

/// Kernel time by what it lies in, outermost first; the first frame is all.
class FrameTree {
public:
  FrameTree() { frames.emplace_back().name = "all"; }

  /// A frame inside of another, which is made where there is none.
  unsigned inside(unsigned outer, StringRef name, FrameKind kind) {
    auto [it, isNew] =
        frames[outer].places.try_emplace(name.str(), frames.size());
    unsigned place = it->second;
    if (isNew) {
      unsigned depth = frames[outer].depth + 1;
      frames[outer].children.push_back(place);
      Frame &made = frames.emplace_back();
      made.name = name.str();
      made.kind = kind;
      made.depth = depth;
    }
    return place;
  }

  /// The innermost module of a path. Numbers belong to what they count: "h.3".
  unsigned module(StringRef path) {
    // A file may say anything; no model nests deeper.
    constexpr unsigned kMostLevels = 40;
    unsigned place = 0, levels = 0;
    while (!path.empty() && ++levels < kMostLevels) {
      size_t end = path.find('.');
      while (end != StringRef::npos) {
        StringRef next = path.drop_front(end + 1).split('.').first;
        if (next.empty() || !llvm::all_of(next, isDigit))
          break;
        end += 1 + next.size();
        if (end >= path.size())
          end = StringRef::npos;
      }
      place = inside(place, path.take_front(end), FrameKind::Module);
      path = end == StringRef::npos ? "" : path.drop_front(end + 1);
    }
    return path.empty() ? place : inside(place, path, FrameKind::Module);
  }

  std::vector<Frame> frames;
};
} // namespace

/// Of a program with a graph: modules and nodes.
static void addNodes(const Profile &profile, FrameTree &tree) {
  for (const Node &node : profile.nodes) {
    if (node.kernelTimeNs <= 0)
      continue;
    unsigned outer =
        node.module ? tree.module(*node.module)
                    : tree.inside(0, "(module unknown)", FrameKind::Module);
    tree.frames[tree.inside(outer, node.id.name, FrameKind::Work)].timeNs +=
        node.kernelTimeNs;
  }
  for (const Activity &kernel : profile.kernels)
    if (kernel.origin->nodes.empty()) {
      unsigned outer =
          kernel.origin->module.empty()
              ? tree.inside(0, "(no node known)", FrameKind::Module)
              : tree.module(kernel.origin->module);
      tree.frames[tree.inside(outer, shortKernelName(kernel.name),
                              FrameKind::Kernel)]
          .timeNs += kernel.durationNs;
    }
}

/// Of one without: modules, operators and kernels.
static void addKernels(const Profile &profile, bool anyModule,
                       FrameTree &tree) {
  bool anySteady = countSteadySteps(profile) > 0;
  for (const Activity &kernel : profile.kernels) {
    if (!isCounted(profile, anySteady, kernel))
      continue;
    unsigned outer = 0;
    if (!kernel.origin->module.empty())
      outer = tree.module(kernel.origin->module);
    else if (anyModule)
      outer = tree.inside(0, "(in no module)", FrameKind::Module);
    std::string name = shortKernelName(kernel.name);
    // On a CPU operators are the kernels.
    if (!kernel.origin->hostOp.empty() && kernel.origin->hostOp != kernel.name)
      outer = tree.inside(outer, kernel.origin->hostOp, FrameKind::Work);
    tree.frames[tree.inside(outer, name, FrameKind::Kernel)].timeNs +=
        kernel.durationNs;
  }
}

/// The times of frames are those of what is inside; frames come after what they
/// are in.
static void sumUp(std::vector<Frame> &frames) {
  for (Frame &frame : llvm::reverse(frames)) {
    for (unsigned child : frame.children)
      frame.timeNs += frames[child].timeNs;
    llvm::stable_sort(frame.children, [&](unsigned a, unsigned b) {
      return frames[a].timeNs > frames[b].timeNs;
    });
  }
}

void report::printFlame(const ReportModel &model, raw_ostream &os) {
  const Profile &profile = *model.profile;
  FrameTree tree;
  bool anyModule =
      model.hasGraph || llvm::any_of(profile.kernels, [](const Activity &k) {
        return !k.origin->module.empty();
      });
  if (model.hasGraph)
    addNodes(profile, tree);
  else
    addKernels(profile, anyModule, tree);
  std::vector<Frame> &frames = tree.frames;
  sumUp(frames);
  int64_t all = frames.front().timeNs;
  if (all <= 0)
    return;

  // The largest; what is in a frame is no larger than it.
  constexpr size_t kMaxFrames = 3000;
  int64_t least = 1;
  if (frames.size() > kMaxFrames) {
    std::vector<int64_t> times;
    for (const Frame &frame : frames)
      times.push_back(frame.timeNs);
    std::nth_element(times.begin(), times.begin() + kMaxFrames, times.end(),
                     std::greater<>());
    least = times[kMaxFrames] + 1;
  }
  unsigned depth = 0;
  size_t left = 0;
  for (const Frame &frame : frames) {
    if (frame.timeNs >= least)
      depth = std::max(depth, frame.depth);
    else
      ++left;
  }

  os << "<h2>Flame view by " << (anyModule ? "module" : "operator")
     << "</h2>\n<div class=\"flame\" role=\"group\" aria-label=\"kernel time "
        "by module\" style=\"height:"
     << (depth + 1) * 24 + 2 << "px\">";
  auto print = [&](const auto &self, const Frame &frame, int64_t begin,
                   bool isOdd) -> void {
    static constexpr StringLiteral kClasses[] = {"m", "w", "k"};
    os << "<button class=\"" << kClasses[size_t(frame.kind)]
       << (isOdd ? " o" : "")
       << formatv("\" style=\"--d:{0};left:{1:f4}%;width:{2:f4}%\" title=\"",
                  frame.depth, 100.0 * double(begin) / double(all),
                  100.0 * double(frame.timeNs) / double(all))
       << escape(frame.name)
       << formatv(", {0}{1}, {2}\">", formatTime(model.perStep(frame.timeNs)),
                  model.unit == "step" ? " a step" : "",
                  formatPercent(100.0 * double(frame.timeNs) / double(all)))
       << escape(frame.name) << "</button>";
    bool odd = false;
    for (unsigned child : frame.children) {
      if (frames[child].timeNs < least)
        break;
      self(self, frames[child], begin, odd);
      begin += frames[child].timeNs;
      odd = !odd;
    }
  };
  print(print, frames.front(), 0, false);
  os << "</div><div class=\"dim flamed\" aria-live=\"polite\"></div>\n";
  if (left)
    os << "<div class=\"dim\">" << left
       << " smaller ones are not drawn.</div>\n";
  if (!anyModule)
    os << "<div class=\"dim\">No modules were recorded: profile(…, "
          "with_stack=True) or <code>opprof run</code> does.</div>\n";
}

void report::printHeldBytes(const TensorMemory &memory, raw_ostream &os) {
  size_t count = memory.heldBytes.size();
  if (count < 2 || !memory.peakBytes)
    return;
  constexpr double kWidth = 1000, kHeight = 90, kTop = 4;
  os << formatv("<svg viewBox=\"0 0 {0} {1}\" role=\"img\" aria-label=\"bytes "
                "held over the time of the recording\"><path class=\"held\" "
                "d=\"M0 {1}",
                kWidth, kHeight);
  for (size_t at = 0; at < count; ++at) {
    double share =
        std::min(1.0, double(memory.heldBytes[at]) / double(memory.peakBytes));
    double y = kHeight - share * (kHeight - kTop);
    os << formatv("L{0:f1} {1:f1}L{2:f1} {1:f1}", kWidth * at / count, y,
                  kWidth * (at + 1) / count);
  }
  os << formatv(
      "L{0} {1}Z\"/></svg>\n<div class=\"dim\">the most that was held "
      "in each of {2} parts of {3}; {4} at the end</div>\n",
      kWidth, kHeight, count, formatTime(memory.endNs - memory.startNs),
      formatBytes(memory.endBytes));
}
