//===- Registration.cpp - --attribute-profile of opprof-translate ---------===//

#include "opprof/Driver/ProfileTranslation.h"
#include "opprof/Findings/Findings.h"
#include "opprof/Join/Attribution.h"
#include "opprof/Join/Counters.h"
#include "opprof/Profile/ProfileJSON.h"
#include "opprof/Profile/RunFacts.h"
#include "opprof/Report/FindingText.h"
#include "opprof/Report/Report.h"
#include "opprof/Support/PartitionMap.h"
#include "opprof/Trace/Reader.h"

#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-translate/Translation.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/ToolOutputFile.h"
#include "llvm/Support/WithColor.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::join;
using namespace opprof::profile;
using namespace opprof::trace;

namespace {
struct Options {
  cl::list<std::string> launches{
      "launches",
      cl::desc("--attribute-profile: the launch map (launches.json) of a "
               "compiled graph; give it once for each graph"),
      cl::value_desc("file")};
  cl::opt<std::string> partitions{
      "partitions",
      cl::desc("--attribute-profile: the partition map of the exported graph, "
               "as --partition-map writes it"),
      cl::value_desc("file")};
  cl::opt<std::string> counters{
      "counters",
      cl::desc("--attribute-profile: the hardware counters that a capture left "
               "(counters.json)"),
      cl::value_desc("file")};
  cl::opt<std::string> run{
      "run",
      cl::desc("--attribute-profile: how the program was run (run.json)"),
      cl::value_desc("file")};
  cl::opt<uint64_t> lastKernels{
      "last-kernels",
      cl::desc("--attribute-profile: of a capture with more kernels, the "
               "number of the latest that are read; 0 (default) reads all"),
      cl::init(0)};
  cl::opt<std::string> textReport{
      "with-text",
      cl::desc("--attribute-profile: also write the report as a page of 120 "
               "columns, as --report-text prints it"),
      cl::value_desc("file")};
  cl::opt<std::string> htmlReport{
      "with-html",
      cl::desc("--attribute-profile: also write the report as an HTML page, as "
               "--report-html prints it"),
      cl::value_desc("file")};
};
} // namespace

static Options &options() {
  static Options instance;
  return instance;
}

/// Prints a page into `file`, which stays only when it was written whole.
static Error writeReport(StringRef file,
                         function_ref<void(raw_ostream &)> print) {
  if (file.empty())
    return Error::success();
  std::string message;
  std::unique_ptr<ToolOutputFile> page = mlir::openOutputFile(file, &message);
  if (!page)
    return createStringError(message);
  print(page->os());
  page->os().close();
  if (std::error_code code = page->os().error()) {
    page->os().clear_error();
    return createStringError(file + ": cannot be written: " + code.message());
  }
  page->keep();
  return Error::success();
}

static Error translate(const MemoryBuffer &buffer, raw_ostream &os) {
  // Small files first: a mistake in one of them shows at once.
  std::vector<launch::LaunchMap> maps;
  WrapperFiles wrappers;
  std::string message;
  for (const std::string &file : options().launches) {
    std::unique_ptr<MemoryBuffer> text = mlir::openInputFile(file, &message);
    if (!text)
      return createStringError(message);
    Expected<std::vector<launch::LaunchMap>> read =
        launch::readLaunchMaps(text->getBuffer(), file);
    if (!read)
      return read.takeError();
    // The code lies beside its launch map in a run folder; for maps from
    // elsewhere it may not be there.
    for (launch::LaunchMap &map : *read) {
      StringSet<> files;
      for (const launch::Launch &launch : map.launches) {
        if (!files.insert(launch.file).second || launch.file.empty() ||
            launch.file != sys::path::filename(launch.file))
          continue;
        SmallString<128> path(sys::path::parent_path(file));
        sys::path::append(path, launch.file);
        if (ErrorOr<std::unique_ptr<MemoryBuffer>> text =
                MemoryBuffer::getFile(path))
          wrappers.add(maps.size(), path, (*text)->getBuffer());
      }
      for (const launch::LaunchMap &other : maps)
        if (other.graph == map.graph)
          return createStringError(file + ": compiled graph '" + map.graph +
                                   "' was given before; give each launch map "
                                   "once");
      maps.push_back(std::move(map));
    }
  }
  std::vector<PartitionMap> partitions;
  if (!options().partitions.empty()) {
    std::unique_ptr<MemoryBuffer> text =
        mlir::openInputFile(options().partitions, &message);
    if (!text)
      return createStringError(message);
    Expected<std::vector<PartitionMap>> read =
        readPartitionMaps(text->getBuffer(), options().partitions);
    if (!read)
      return read.takeError();
    partitions = std::move(*read);
  }

  std::optional<RunFacts> run;
  if (!options().run.empty()) {
    std::unique_ptr<MemoryBuffer> text =
        mlir::openInputFile(options().run, &message);
    if (!text)
      return createStringError(message);
    Expected<RunFacts> read = readRunFacts(text->getBuffer(), options().run);
    if (!read)
      return read.takeError();
    run = std::move(*read);
  }
  std::optional<CountersFile> counters;
  if (!options().counters.empty()) {
    std::unique_ptr<MemoryBuffer> text =
        mlir::openInputFile(options().counters, &message);
    if (!text)
      return createStringError(message);
    Expected<CountersFile> read =
        readCounters(text->getBuffer(), options().counters);
    if (!read)
      return read.takeError();
    counters = std::move(*read);
  }

  Expected<std::unique_ptr<Trace>> trace =
      readTrace(buffer, {.lastKernels = options().lastKernels});
  if (!trace)
    return trace.takeError();
  AttributionInputs inputs;
  inputs.maps = maps;
  inputs.partitions = partitions;
  inputs.wrappers = &wrappers;
  std::unique_ptr<Profile> profile = attribute(**trace, inputs);
  profile->run = run;
  if (counters)
    attachCounters(*profile, *counters, inputs);
  computeFindings(*profile);
  report::describeFindings(*profile);
  // What was read is not needed any more, and may be most of the memory.
  trace->reset();
  writeProfile(*profile, os);
  if (Error error = writeReport(options().textReport, [&](raw_ostream &page) {
        report::printText(*profile, page, {/*width=*/120});
      }))
    return error;
  return writeReport(options().htmlReport, [&](raw_ostream &page) {
    report::printHTML(*profile, page);
  });
}

void profile::registerProfileTranslations() {
  options();
  static mlir::TranslateRegistration attribution(
      "attribute-profile",
      "read a capture (.opcap) or a trace of torch.profiler (.json or "
      ".json.gz), join its kernels to the launches of compiled graphs, and "
      "write profile.opprof.json",
      [](const std::shared_ptr<SourceMgr> &sources, raw_ostream &os,
         mlir::MLIRContext *context) -> mlir::LogicalResult {
        if (Error error = translate(
                *sources->getMemoryBuffer(sources->getMainFileID()), os)) {
          WithColor::error(errs(), "opprof-translate")
              << toString(std::move(error)) << '\n';
          return mlir::failure();
        }
        return mlir::success();
      });
}
