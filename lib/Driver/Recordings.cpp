// Recordings by their names, and those that only the tool which made them can
// read.

#include "Recordings.h"

#include "opprof/Support/InputFile.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Program.h"

using namespace opprof;
using namespace opprof::driver;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;
using llvm::Twine;

namespace {
/// A tool whose reports only it can read.
struct Exporter {
  StringRef program;
  StringRef name;
  /// How the names of its reports end.
  std::vector<StringRef> endings;
  /// What of the export is read.
  StringRef suffix;
  /// Its arguments, of which REPORT and TARGET stand for files; without TARGET
  /// it prints the export.
  std::vector<StringRef> arguments;
};
} // namespace

static const Exporter *findExporter(StringRef file) {
  static const Exporter exporters[] = {
      {"nsys",
       "Nsight Systems",
       {".nsys-rep", ".qdrep"},
       "sqlite",
       {"export", "--type=sqlite", "--force-overwrite=true", "--output=TARGET",
        "--", "REPORT"}},
      {"ncu",
       "Nsight Compute",
       {".ncu-rep", ".nsight-cuprof-report"},
       "csv",
       {"--csv", "--page", "raw", "--print-units", "base", "--import",
        "REPORT"}},
  };
  for (const Exporter &exporter : exporters)
    for (StringRef ending : exporter.endings)
      if (file.ends_with(ending))
        return &exporter;
  return nullptr;
}

bool driver::isCalledRecording(StringRef name) {
  if (name.ends_with(".opcap") || name.ends_with(".sqlite") ||
      findExporter(name))
    return true;
  return (name.contains("trace") || name.starts_with("rank")) &&
         (name.ends_with(".json") || name.ends_with(".json.gz"));
}

/// What a person is to run.
static std::string describeCommand(const Exporter &exporter, StringRef report) {
  if (exporter.program == "nsys")
    return ("nsys export --type sqlite " + report).str();
  return ("ncu --csv --page raw --import " + report + " > report.csv").str();
}

static Error exportReport(const Exporter &exporter, StringRef report,
                          StringRef target) {
  llvm::ErrorOr<std::string> program =
      llvm::sys::findProgramByName(exporter.program);
  if (!program)
    return llvm::createStringError(
        report + ": a report of " + exporter.name + " is read by its " +
        exporter.program + ", which is not in PATH\n  install " +
        exporter.name +
        ", or make the file where it is: " + describeCommand(exporter, report));
  std::vector<std::string> texts = {*program};
  bool prints = true;
  for (StringRef argument : exporter.arguments) {
    prints &= !argument.ends_with("TARGET");
    // A name is none of the tool's options.
    std::string file =
        report.starts_with("-") ? ("./" + report).str() : report.str();
    texts.push_back(argument == "REPORT" ? file
                    : argument.consume_back("TARGET")
                        ? (argument + target).str()
                        : argument.str());
  }
  std::string message;
  llvm::SmallVector<StringRef> arguments(texts.begin(), texts.end());
  int status = llvm::sys::ExecuteAndWait(
      *program, arguments, /*Env=*/std::nullopt,
      /*Redirects=*/
      {StringRef(""), prints ? target : StringRef(""), std::nullopt},
      /*SecondsToWait=*/0, /*MemoryLimit=*/0, &message);
  if (status)
    return llvm::createStringError(
        report + ": `" + exporter.program +
        (exporter.program == "nsys" ? " export" : " --import") +
        "` failed with status " + Twine(status) +
        (message.empty() ? "" : ": " + message) +
        "\n  it may be older than the " + exporter.program +
        " that recorded the report");
  return Error::success();
}

Expected<std::unique_ptr<llvm::MemoryBuffer>>
driver::openRecording(StringRef file) {
  std::string message;
  const Exporter *exporter = findExporter(file);
  if (!exporter) {
    std::unique_ptr<llvm::MemoryBuffer> text =
        opprof::openInput(file, &message);
    if (!text)
      return llvm::createStringError(message);
    return text;
  }
  llvm::SmallString<128> exported;
  if (std::error_code error = llvm::sys::fs::createTemporaryFile(
          "opprof-" + exporter->program, exporter->suffix, exported))
    return llvm::createStringError(
        file + ": no place to export it to: " + error.message());
  Error failed = exportReport(*exporter, file, exported);
  std::unique_ptr<llvm::MemoryBuffer> text =
      failed ? nullptr : opprof::openInput(exported, &message);
  // What is mapped stays.
  llvm::sys::fs::remove(exported);
  if (failed)
    return failed;
  if (!text)
    return llvm::createStringError(message);
  return text;
}
