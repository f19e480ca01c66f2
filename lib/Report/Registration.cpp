// --report-text and --report-html of opprof-translate.

#include "opprof/Profile/ProfileJSON.h"
#include "opprof/Report/Report.h"
#include "opprof/Support/TerminalText.h"

#include "mlir/Tools/mlir-translate/Translation.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/WithColor.h"

using namespace mlir;
using namespace opprof;

/// Reads the profile in the main buffer and hands it to `print`.
static LogicalResult
printReport(llvm::SourceMgr &sources,
            llvm::function_ref<void(const profile::Profile &)> print) {
  const llvm::MemoryBuffer *buffer =
      sources.getMemoryBuffer(sources.getMainFileID());
  auto profile =
      profile::readProfile(buffer->getBuffer(), buffer->getBufferIdentifier());
  if (!profile) {
    // The reader's message names the file and the place in it.
    llvm::WithColor::error(llvm::errs(), "opprof-translate")
        << toTerminalLines(llvm::toString(profile.takeError())) << '\n';
    return failure();
  }
  print(**profile);
  return success();
}

void report::registerReportTranslations() {
  static llvm::cl::opt<unsigned> width(
      "width", llvm::cl::desc("--report-text: columns of the page"),
      llvm::cl::init(TextOptions().width));
  static llvm::cl::opt<unsigned> height(
      "height", llvm::cl::desc("--report-text: lines to stay within"),
      llvm::cl::init(TextOptions().height));

  static TranslateRegistration text(
      "report-text", "print a profile.opprof.json as a page for the terminal",
      [](const std::shared_ptr<llvm::SourceMgr> &sources, raw_ostream &os,
         MLIRContext *context) {
        // LLVM's own --color decides, and else whether this is a terminal.
        bool color = llvm::WithColor(os).colorsEnabled();
        return printReport(*sources, [&](const profile::Profile &profile) {
          printText(profile, os, {width, height, color});
        });
      });
  static TranslateRegistration html(
      "report-html",
      "print a profile.opprof.json as a self-contained HTML page",
      [](const std::shared_ptr<llvm::SourceMgr> &sources, raw_ostream &os,
         MLIRContext *context) {
        return printReport(*sources, [&](const profile::Profile &profile) {
          printHTML(profile, os);
        });
      });
}
