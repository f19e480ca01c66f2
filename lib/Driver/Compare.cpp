// Compares two sets of recordings, ranks what takes most of one, and explains
// findings.

#include "Shown.h"

#include "opprof/Compare/Compare.h"
#include "opprof/Driver/Commands.h"
#include "opprof/Report/FindingExplanation.h"
#include "opprof/Support/TerminalText.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"

using namespace opprof;
using namespace opprof::driver;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

static std::vector<compare::Recording>
toRecordings(llvm::ArrayRef<Shown> list) {
  std::vector<compare::Recording> recordings;
  for (const Shown &shown : list)
    recordings.push_back({shown.profile.get(), shown.file});
  return recordings;
}

/// What is compared with itself passes every check.
static void noteSameFiles(llvm::ArrayRef<Shown> a, llvm::ArrayRef<Shown> b,
                          compare::Comparison &comparison) {
  for (const Shown &one : a)
    for (const Shown &other : b)
      if (llvm::sys::fs::equivalent(one.file, other.file))
        comparison.notes.insert(comparison.notes.begin(),
                                one.file + " is in A and in B: a file does not "
                                           "differ from itself");
}

Expected<CheckResult> driver::showDifference(llvm::ArrayRef<std::string> a,
                                             llvm::ArrayRef<std::string> b,
                                             const DifferenceOptions &options) {
  if (llvm::is_contained(a, "-") && llvm::is_contained(b, "-"))
    return llvm::createStringError(
        "-: stdin is read once\n  give the other side as a file");
  Expected<std::vector<Shown>> ofA = openShown(a);
  if (!ofA)
    return ofA.takeError();
  Expected<std::vector<Shown>> ofB = openShown(b);
  if (!ofB)
    return ofB.takeError();
  compare::Comparison comparison = compare::compareRecordings(
      toRecordings(*ofA), toRecordings(*ofB), options.by);
  noteSameFiles(*ofA, *ofB, comparison);
  std::optional<double> limit = options.failAbovePct;
  switch (options.form) {
  case DifferenceForm::Text:
    report::printDifference(comparison, limit, llvm::outs(), options.page);
    break;
  case DifferenceForm::Markdown:
    report::printDifferenceMarkdown(comparison, limit, llvm::outs());
    break;
  case DifferenceForm::JSON: {
    TerminalJSON os(llvm::outs());
    compare::writeComparison(comparison, limit, os);
    break;
  }
  }
  if (!limit)
    return CheckResult::Passed;
  if (!comparison.slowerBy(*limit).empty())
    return CheckResult::Slower;
  return comparison.isJudged() ? CheckResult::Passed : CheckResult::Unknown;
}

/// The one recording that a path stands for.
static Expected<Shown> openOne(const std::string &path, StringRef command) {
  Expected<std::vector<Shown>> list = openShown({path});
  if (!list)
    return list.takeError();
  if (list->size() > 1)
    return llvm::createStringError(path + ": holds " +
                                   llvm::Twine(list->size()) +
                                   " recordings\n  give one of them: opprof " +
                                   command + " " + list->front().file);
  return std::move(list->front());
}

Error driver::showTop(const std::string &path,
                      std::optional<profile::ItemKind> by, uint64_t number,
                      const report::TextOptions &page) {
  Expected<Shown> shown = openOne(path, "top");
  if (!shown)
    return shown.takeError();
  report::printTop(*shown->profile, by, number, llvm::outs(), page);
  return Error::success();
}

Error driver::showExplanation(StringRef finding, const std::string &path,
                              const report::TextOptions &page) {
  if (path.empty())
    return report::explainFinding(finding, nullptr, llvm::outs(), page);
  Expected<Shown> shown = openOne(path, ("explain " + finding).str());
  if (!shown)
    return shown.takeError();
  return report::explainFinding(finding, shown->profile.get(), llvm::outs(),
                                page);
}
