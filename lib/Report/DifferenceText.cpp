// What changed from one set of recordings to another, for a terminal and for a
// pull request.

#include "opprof/Report/Report.h"
#include "opprof/Support/TerminalText.h"
#include "opprof/Support/Units.h"

#include "Page.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <cmath>

using namespace llvm;
using namespace opprof;
using namespace opprof::compare;
using namespace opprof::profile;
using namespace opprof::report;

/// "+12.3 µs", "-4.00 µs"; a change of nothing has no sign.
static std::string formatChange(double ns) {
  int64_t whole = std::llround(ns);
  return (whole > 0 ? "+" : "") + formatTime(whole);
}

static std::string formatNs(const std::optional<double> &ns) {
  return ns ? formatTime(std::llround(*ns)) : std::string();
}

static std::string describeChangePct(const Change &change) {
  std::optional<double> percent =
      change.changeNs ? change.percentOfA(*change.changeNs) : std::nullopt;
  if (!percent)
    return "";
  return (*percent >= 0.005 ? "+" : "") + formatv("{0:f2} %", *percent).str();
}

/// "+1.2 … +2.6 %" of A's time.
static std::string describeIntervalPct(const Change &change) {
  if (!change.intervalNs || !change.percentOfA(1))
    return "";
  auto end = [&](double ns) {
    double percent = *change.percentOfA(ns);
    return (percent >= 0.005 ? "+" : "") + formatv("{0:f2}", percent).str();
  };
  return end(change.intervalNs->first) + " … " +
         end(change.intervalNs->second) + " %";
}

static std::string describeIntervalNs(const Change &change) {
  if (!change.intervalNs)
    return "";
  return formatChange(change.intervalNs->first) + " … " +
         formatChange(change.intervalNs->second);
}

static std::string describeSide(const Side &side) {
  std::string text = side.files.front();
  if (side.files.size() > 1)
    text += formatv(" and {0} more", side.files.size() - 1);
  text += ": ";
  text += side.steps ? formatCount(side.steps, "step", "steps")
                     : std::string("no steps");
  if (side.recordings > 1)
    text += formatv(" of {0} recordings", side.recordings);
  if (!side.device.empty())
    text += " on " + side.device;
  if (!side.mode.empty())
    text += ", " + side.mode;
  if (!side.torch.empty())
    text += ", PyTorch " + side.torch;
  return text + ", by " + side.clock.str() + " clock";
}

/// "3 of 214 nodes changed".
static std::string describeCount(const Comparison &comparison) {
  size_t slower = comparison.count(Verdict::Slower),
         faster = comparison.count(Verdict::Faster);
  std::string text = formatv("{0} slower, {1} faster", slower, faster);
  if (!comparison.isJudged())
    text = "not judged";
  text += formatv(" of {0} compared", comparison.compared);
  for (Verdict verdict : {Verdict::Small, Verdict::Gone, Verdict::New})
    if (size_t count = comparison.count(verdict))
      text += formatv(", {0} {1}", count,
                      verdict == Verdict::Small  ? "too short"
                      : verdict == Verdict::Gone ? "in A alone"
                                                 : "in B alone");
  return text;
}

static std::string describeMatches(const Comparison &comparison) {
  std::string text;
  for (size_t way = 0; way < kNumMatches; ++way) {
    Match match = static_cast<Match>(way);
    if (size_t count = comparison.count(match))
      text += formatv("{0}{1} by {2}", text.empty() ? "matched " : ", ", count,
                      stringify(match));
  }
  return text;
}

/// How a check ended, that was asked to fail above a share of a step.
static std::string describeCheck(const Comparison &comparison,
                                 double failAbovePct) {
  std::vector<std::string> slower = comparison.slowerBy(failAbovePct);
  std::string limit = formatShortest(failAbovePct) + " % of a step";
  if (slower.empty())
    return (comparison.isJudged()
                ? "Nothing is slower by more than "
                : "Not known: whether anything is slower by more than ") +
           limit + ".";
  constexpr size_t kNamed = 5;
  std::string names = llvm::join(ArrayRef(slower).take_front(kNamed), ", ");
  if (slower.size() > kNamed)
    names += formatv(" and {0} more", slower.size() - kNamed);
  return "Slower by more than " + limit + ": " + names + ".";
}

static StringRef nameUnlike(const Unlike &unlike) {
  return unlike.what == "torch"    ? "version of PyTorch"
         : unlike.what == "batch"  ? "batch or sizes"
         : unlike.what == "source" ? "kind of recording"
                                   : unlike.what;
}

//===----------------------------------------------------------------------===//
// For a terminal
//===----------------------------------------------------------------------===//

static void printWhole(Page &page, StringRef name, const Change &change) {
  if (!change.aNs || !change.bNs)
    return;
  page.text("  ").left(name, 9, Style::Bold);
  if (!page.isNarrow())
    page.right(formatNs(change.aNs), 9)
        .text(" → ")
        .left(formatNs(change.bNs), 9);
  page.right(describeChangePct(change), 10);
  if (!page.isNarrow())
    page.text("  ").left(describeIntervalPct(change), 24, Style::Dim);
  page.text(" ").text(stringify(change.verdict),
                      change.verdict == Verdict::Slower   ? Style::Warn
                      : change.verdict == Verdict::Faster ? Style::Good
                                                          : Style::Plain);
  page.end();
}

static void printItem(Page &page, const ItemChange &item) {
  constexpr unsigned kVerdict = 8, kTime = 9, kChange = 11, kInterval = 27;
  bool hasInterval = page.getWidth() >= 110;
  unsigned used =
      2 + kVerdict + 2 * kTime + kChange + 2 + (hasInterval ? kInterval : 0);
  unsigned rest = page.getWidth() - std::min(page.getWidth() - 8, used);
  page.text("  ").left(stringify(item.verdict), kVerdict,
                       item.verdict == Verdict::Slower   ? Style::Warn
                       : item.verdict == Verdict::Faster ? Style::Good
                                                         : Style::Dim);
  if (!page.isNarrow())
    page.right(formatNs(item.aNs), kTime).right(formatNs(item.bNs), kTime);
  page.right(item.changeNs ? formatChange(*item.changeNs) : "", kChange);
  if (hasInterval)
    page.right(describeIntervalNs(item), kInterval, Style::Dim);
  page.text("  ");
  if (page.isNarrow())
    rest = page.getWidth() - 2 - kVerdict - kChange - 2;
  // How it was found is said where it is not the surest way.
  std::string name = item.name;
  if (item.matchedBy && *item.matchedBy != Match::Identity &&
      rest > columnsOf(name) + 12)
    name += (" (by " + stringify(*item.matchedBy) + ")").str();
  unsigned nameWidth = columnsOf(name);
  if (item.detail.empty() || nameWidth + 8 > rest)
    page.text(fitColumns(name, rest), Style::Bold);
  else
    page.text(name, Style::Bold)
        .text("  ")
        .text(fitColumns(item.detail, rest - nameWidth - 2), Style::Dim);
  page.end();
}

void report::printDifference(const Comparison &comparison,
                             std::optional<double> failAbovePct,
                             raw_ostream &os, const TextOptions &options) {
  Page page(os, options);
  for (const Unlike &unlike : comparison.unlike) {
    page.text("other ", Style::Warn);
    page.paragraph(
        (nameUnlike(unlike) + ": " + unlike.a + " → " + unlike.b).str(), 6, 2);
  }
  page.text("A ", Style::Bold).paragraph(describeSide(comparison.a), 2, 2);
  page.text("B ", Style::Bold).paragraph(describeSide(comparison.b), 2, 2);
  page.end();
  printWhole(page, "step", comparison.step);
  printWhole(page, "kernels", comparison.kernelTime);

  page.heading("By " + stringify(comparison.by).str() +
                   (comparison.byLaunch ? ", time of one launch" : ""),
               describeCount(comparison));
  if (std::string matches = describeMatches(comparison); !matches.empty()) {
    page.text("  ");
    page.paragraph(matches + "; intervals are of 95 % for one item alone", 2,
                   2);
  }
  size_t changed =
      comparison.count(Verdict::Slower) + comparison.count(Verdict::Faster);
  size_t room = options.height > page.getLines() + 8
                    ? options.height - page.getLines() - 8
                    : 3;
  size_t shown =
      std::min(comparison.items.size(), std::max({changed, room, size_t(3)}));
  for (const ItemChange &item : ArrayRef(comparison.items).take_front(shown))
    printItem(page, item);
  if (shown < comparison.items.size()) {
    page.text(formatv("  and {0} more, none of them called a change",
                      comparison.items.size() - shown)
                  .str(),
              Style::Dim);
    page.end();
  }
  page.end();
  for (const std::string &note : comparison.notes) {
    page.text("note: ", Style::Warn);
    page.paragraph(note, 6, page.isNarrow() ? 8 : 3);
  }
  if (failAbovePct)
    page.paragraph(describeCheck(comparison, *failAbovePct), 0, 3);
}

//===----------------------------------------------------------------------===//
// For a pull request
//===----------------------------------------------------------------------===//

/// Text of files as inline code of a table: nothing in it is Markdown or HTML,
/// and nothing ends the cell.
static std::string toCode(StringRef unsafe) {
  std::string text;
  for (char c : toTerminalText(unsafe)) {
    if (c == '`')
      text += '\'';
    else if (c == '|')
      // Behind a backslash an escaped one would be a backslash, and a cell's
      // end.
      text += StringRef(text).ends_with("\\") ? "¦" : "\\|";
    else
      text += c == '\n' ? ' ' : c;
  }
  if (StringRef(text).trim().empty())
    return "";
  return "`" + text + "`";
}

static void printRow(const Change &change, StringRef name, StringRef detail,
                     raw_ostream &os) {
  StringRef mark = change.verdict == Verdict::Slower ? "**slower**"
                   : change.verdict == Verdict::Faster
                       ? "*faster*"
                       : stringify(change.verdict);
  os << "| " << name << " | " << detail << " | " << formatNs(change.aNs)
     << " | " << formatNs(change.bNs) << " | "
     << (change.changeNs ? formatChange(*change.changeNs) : "") << " | "
     << describeChangePct(change) << " | " << describeIntervalPct(change)
     << " | " << mark << " |\n";
}

void report::printDifferenceMarkdown(const Comparison &comparison,
                                     std::optional<double> failAbovePct,
                                     raw_ostream &os) {
  constexpr size_t kMostRows = 20;
  os << "### opprof diff\n\n";
  for (const Unlike &unlike : comparison.unlike)
    os << "> **other " << nameUnlike(unlike) << "**: " << toCode(unlike.a)
       << " → " << toCode(unlike.b) << "\n>\n";
  if (!comparison.unlike.empty())
    os << '\n';
  if (failAbovePct) {
    std::vector<std::string> slower = comparison.slowerBy(*failAbovePct);
    os << (!slower.empty()         ? "❌ slower by more than "
           : comparison.isJudged() ? "✅ nothing is slower by more than "
                                   : "❔ not known: whether anything is slower "
                                     "by more than ")
       << formatShortest(*failAbovePct) << " % of a step";
    for (auto [place, name] : llvm::enumerate(slower))
      os << (place ? ", " : ": ") << toCode(name);
    os << "\n\n";
  }
  os << "| | " << stringify(comparison.by)
     << (comparison.byLaunch ? ", one launch" : "")
     << " | A | B | change | | 95 % interval | |\n"
        "|---|---|--:|--:|--:|--:|---|---|\n";
  for (const auto &[name, change] :
       {std::pair("step", &comparison.step),
        std::pair("kernels", &comparison.kernelTime)})
    if (change->aNs && change->bNs)
      printRow(*change, name, "", os);
  size_t rows = 0;
  for (const ItemChange &item : comparison.items) {
    if (item.verdict != Verdict::Slower && item.verdict != Verdict::Faster)
      break;
    if (rows++ == kMostRows)
      break;
    printRow(item, toCode(item.name), toCode(item.detail), os);
  }
  os << '\n' << describeCount(comparison);
  if (std::string matches = describeMatches(comparison); !matches.empty())
    os << "; " << matches;
  os << ".\n\n<details><summary>what was compared</summary>\n\n";
  os << "- A: " << toCode(describeSide(comparison.a)) << '\n';
  os << "- B: " << toCode(describeSide(comparison.b)) << '\n';
  for (const std::string &note : comparison.notes)
    os << "- " << toCode(note) << '\n';
  os << "\n</details>\n";
}
