// Prints a profile as a page for the terminal or as a self-contained HTML page.

#ifndef OPPROF_REPORT_REPORT_H
#define OPPROF_REPORT_REPORT_H

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

/// A page that needs no other file and no network.
void printHTML(const profile::Profile &profile, llvm::raw_ostream &os);

/// Registers --report-text and --report-html with opprof-translate.
void registerReportTranslations();

} // namespace opprof::report

#endif // OPPROF_REPORT_REPORT_H
