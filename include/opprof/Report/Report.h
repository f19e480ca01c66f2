// Prints a profile as a page for the terminal or as a self-contained HTML page.

#ifndef OPPROF_REPORT_REPORT_H
#define OPPROF_REPORT_REPORT_H

#include "opprof/Compare/Compare.h"
#include "opprof/Profile/Items.h"
#include "opprof/Profile/Profile.h"
#include "llvm/Support/raw_ostream.h"

namespace opprof::report {

struct TextOptions {
  /// Columns of the page, at least 40.
  unsigned width = 100;
  /// Lines that lists of modules, nodes and findings are cut to fit in.
  unsigned height = 45;
  bool color = false;
};

/// One screen: where the time went, on what, and what to do.
void printText(const profile::Profile &profile, llvm::raw_ostream &os,
               const TextOptions &options = {});

/// A line for each of several recordings, as of the ranks of one program: time,
/// how busy the device was, communication, and how far they are apart.
void printComparison(llvm::ArrayRef<const profile::Profile *> profiles,
                     llvm::raw_ostream &os, const TextOptions &options = {});

/// What changed from one set of recordings to another, as a page. A terminal's
/// height of items is shown, all that changed first; `failAbovePct` is what a
/// check was asked to fail above, if it was.
void printDifference(const compare::Comparison &comparison,
                     std::optional<double> failAbovePct, llvm::raw_ostream &os,
                     const TextOptions &options = {});

/// The same in Markdown, for a pull request.
void printDifferenceMarkdown(const compare::Comparison &comparison,
                             std::optional<double> failAbovePct,
                             llvm::raw_ostream &os);

/// The `number` items that take most, by `by` or what tells the profile apart
/// best.
void printTop(const profile::Profile &profile,
              std::optional<profile::ItemKind> by, size_t number,
              llvm::raw_ostream &os, const TextOptions &options = {});

/// A page that needs no other file and no network.
void printHTML(const profile::Profile &profile, llvm::raw_ostream &os);

/// Registers --report-text and --report-html with opprof-translate.
void registerReportTranslations();

} // namespace opprof::report

#endif // OPPROF_REPORT_REPORT_H
