// --attribute-profile of opprof-translate.

#include "opprof/Driver/ProfileTranslation.h"
#include "opprof/Driver/Profiling.h"
#include "opprof/Profile/ProfileJSON.h"
#include "opprof/Support/TerminalText.h"

#include "mlir/Tools/mlir-translate/Translation.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/WithColor.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::driver;

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

/// Does `with` with the file that an option names, if one is given.
static Error ifGiven(StringRef file, function_ref<Error(StringRef)> with) {
  return file.empty() ? Error::success() : with(file);
}

static Error translate(const MemoryBuffer &buffer, raw_ostream &os) {
  // Small files first: a mistake in one of them shows at once.
  ProfileInputs inputs;
  for (const std::string &file : options().launches)
    if (Error error = inputs.readMaps(file))
      return error;
  if (Error error = ifGiven(options().partitions, [&](StringRef file) {
        return inputs.readPartitions(file);
      }))
    return error;
  if (Error error = ifGiven(
          options().run, [&](StringRef file) { return inputs.readRun(file); }))
    return error;
  if (Error error = ifGiven(options().counters, [&](StringRef file) {
        return inputs.readCounters(file);
      }))
    return error;
  Expected<std::unique_ptr<profile::Profile>> profile = makeProfile(
      buffer.getMemBufferRef(), inputs, {.lastKernels = options().lastKernels});
  if (!profile)
    return profile.takeError();
  profile::writeProfile(**profile, os);
  if (Error error = ifGiven(options().textReport, [&](StringRef file) {
        return writeTextReport(**profile, file);
      }))
    return error;
  return ifGiven(options().htmlReport, [&](StringRef file) {
    return writeHTMLReport(**profile, file);
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
              << toTerminalLines(toString(std::move(error))) << '\n';
          return mlir::failure();
        }
        return mlir::success();
      });
}
