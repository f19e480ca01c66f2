// What takes most of a profile, as a short list.

#include "opprof/Report/Report.h"
#include "opprof/Support/TerminalText.h"
#include "opprof/Support/Units.h"

#include "Page.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::profile;
using namespace opprof::report;

void report::printTop(const Profile &profile, std::optional<ItemKind> by,
                      size_t number, raw_ostream &os,
                      const TextOptions &options) {
  ItemKind kind = by ? *by : finestKind(profile);
  ItemTable table = listItems(profile, kind);
  llvm::stable_sort(table.items, [](const Item &a, const Item &b) {
    return a.totalNs() > b.totalNs();
  });
  auto repeats = static_cast<int64_t>(table.repeats());
  int64_t all = 0;
  for (int64_t time : table.kernelNs)
    all += time;
  std::string span =
      table.hasSteps ? "a step" : "the " + recordingNoun(profile).str();
  Page page(os, options);
  std::string title = "By " + stringify(kind).str() + ": ";
  page.text(title, Style::Bold);
  page.paragraph(
      formatv("{0} of kernel time in {1}{2}", formatTime(all / repeats), span,
              table.hasSteps ? formatv(", the mean of {0}", repeats).str()
                             : std::string())
          .str(),
      title.size(), 2);

  constexpr unsigned kTime = 10, kShare = 8, kCount = 9;
  unsigned countWidth = page.isNarrow() ? 0 : kCount;
  unsigned rest = page.getWidth() - kTime - kShare - countWidth - 2;
  int64_t shown = 0;
  for (const Item &item : ArrayRef(table.items).take_front(number)) {
    shown += item.totalNs();
    page.right(formatTime(item.totalNs() / repeats), kTime);
    page.right(
        formatPercent(all ? 100.0 * double(item.totalNs()) / double(all) : 0),
        kShare);
    if (countWidth)
      page.right(
          formatv("×{0}", formatAmount(double(item.kernels) / double(repeats)))
              .str(),
          countWidth, Style::Dim);
    page.text("  ");
    unsigned name = std::min(rest, columnsOf(item.name));
    page.text(fitColumns(item.name, rest), Style::Bold);
    if (!item.detail.empty() && name + 8 < rest)
      page.text("  ").text(fitColumns(item.detail, rest - name - 2),
                           Style::Dim);
    page.end();
  }
  // Where there is nothing, why.
  if (table.items.empty())
    for (const std::string &note : profile.notes)
      page.paragraph("note: " + note, 6, 4);
  if (table.items.size() > number) {
    page.text(formatv("{0} more take {1}", table.items.size() - number,
                      formatTime((all - shown) / repeats))
                  .str(),
              Style::Dim);
    page.end();
  }
}
