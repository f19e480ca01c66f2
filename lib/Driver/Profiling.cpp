// Reads what a timeline is joined to, joins it, and writes what comes of it.

#include "opprof/Driver/Profiling.h"
#include "opprof/Findings/Findings.h"
#include "opprof/Join/Attribution.h"
#include "opprof/Profile/ProfileJSON.h"
#include "opprof/Profile/RunFacts.h"
#include "opprof/Report/FindingText.h"
#include "opprof/Report/Report.h"
#include "opprof/Support/InputFile.h"
#include "opprof/Support/OutputFile.h"
#include "opprof/Trace/Gzip.h"
#include "opprof/Trace/Reader.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

using namespace llvm;
using namespace opprof;
using namespace opprof::driver;
using namespace opprof::profile;

/// Columns of the page that is kept beside a profile.
static constexpr unsigned kPageWidth = 120;

/// Reads `file` with `read`, which is told its text and name.
template <typename Reader>
static auto readWith(StringRef file, Reader read)
    -> decltype(read(StringRef(), file)) {
  std::string message;
  std::unique_ptr<MemoryBuffer> text = opprof::openInput(file, &message);
  if (!text)
    return createStringError(message);
  return read(text->getBuffer(), file);
}

/// The same where one value is wanted, which goes to `to`.
template <typename T, typename Reader>
static Error readInto(std::optional<T> &to, StringRef file, Reader read) {
  Expected<T> value = readWith(file, read);
  if (!value)
    return value.takeError();
  to = std::move(*value);
  return Error::success();
}

Error ProfileInputs::addMap(launch::LaunchMap map, StringRef file) {
  for (const launch::LaunchMap &other : maps)
    if (other.graph == map.graph)
      return createStringError(file + ": compiled graph '" + map.graph +
                               "' was given before; give each launch map "
                               "once");
  StringSet<> files;
  for (const launch::Launch &launch : map.launches) {
    if (!files.insert(launch.file).second || launch.file.empty() ||
        launch.file != sys::path::filename(launch.file))
      continue;
    std::string path = code::file(sys::path::parent_path(file), launch.file);
    if (ErrorOr<std::unique_ptr<MemoryBuffer>> text = opprof::openInput(path))
      wrappers.add(maps.size(), path, (*text)->getBuffer());
  }
  maps.push_back(std::move(map));
  return Error::success();
}

Error ProfileInputs::readMaps(StringRef file) {
  Expected<std::vector<launch::LaunchMap>> read =
      readWith(file, launch::readLaunchMaps);
  if (!read)
    return read.takeError();
  for (launch::LaunchMap &map : *read)
    if (Error error = addMap(std::move(map), file))
      return error;
  return Error::success();
}

Error ProfileInputs::readMaps(const RunFolder &folder, bool some) {
  for (const std::string &compiled : folder.compiledGraphs()) {
    std::string file = code::file(compiled, code::kLaunches);
    if (some && !isFile(file))
      continue;
    if (Error error = readMaps(file))
      return error;
  }
  return Error::success();
}

Error ProfileInputs::readPartitions(StringRef file) {
  Expected<std::vector<PartitionMap>> read = readWith(file, readPartitionMaps);
  if (!read)
    return read.takeError();
  partitions = std::move(*read);
  return Error::success();
}

Error ProfileInputs::readCounters(StringRef file) {
  return readWith(file, [&](StringRef text, StringRef name) {
    return readCounters({text, name});
  });
}

Error ProfileInputs::readCounters(MemoryBufferRef text) {
  if (trace::isCountersPage(text.getBuffer())) {
    Expected<std::unique_ptr<trace::Trace>> read =
        trace::readCountedKernels(text);
    if (!read)
      return read.takeError();
    countedKernels = std::move(*read);
    return Error::success();
  }
  Expected<trace::CountersFile> read =
      trace::readCounters(text.getBuffer(), text.getBufferIdentifier());
  if (!read)
    return read.takeError();
  counters = std::move(*read);
  return Error::success();
}

Error ProfileInputs::readRun(StringRef file) {
  return readInto(run, file, readRunFacts);
}

Error ProfileInputs::readCeilings(StringRef file) {
  return readInto(ceilings, file, profile::readCeilings);
}

Error ProfileInputs::readCeilings(const RunFolder &folder) {
  std::string file = folder.ceilings();
  return isFile(file) ? readCeilings(file) : Error::success();
}

Expected<std::unique_ptr<Profile>>
driver::makeProfile(MemoryBufferRef timeline, const ProfileInputs &inputs,
                    const trace::ReadOptions &options) {
  Expected<std::unique_ptr<trace::Trace>> trace =
      trace::readTrace(timeline, options);
  if (!trace)
    return trace.takeError();
  return makeProfile(std::move(*trace), inputs);
}

std::unique_ptr<Profile>
driver::makeProfile(std::unique_ptr<trace::Trace> trace,
                    const ProfileInputs &inputs) {
  join::AttributionInputs joined;
  joined.maps = inputs.maps;
  joined.partitions = inputs.partitions;
  joined.wrappers = &inputs.wrappers;
  std::unique_ptr<Profile> profile = join::attribute(*trace, joined);
  // A large one takes as much memory as the findings and the text that follow,
  // which the C library would keep by for lists of the same sizes.
  trace.reset();
#ifdef __GLIBC__
  ::malloc_trim(/*pad=*/0);
#endif
  profile->run = inputs.run;
  llvm::append_range(profile->notes, inputs.notes);
  if (inputs.counters)
    join::attachCounters(*profile, *inputs.counters, joined);
  if (inputs.countedKernels)
    join::attachCounters(*profile, *inputs.countedKernels);
  if (inputs.ceilings)
    setCeilings(*profile, *inputs.ceilings);
  computeFindings(*profile);
  report::describeFindings(*profile);
  return profile;
}

Error driver::writeTextReport(const Profile &profile, StringRef file) {
  return writeFile(file, [&](raw_ostream &os) {
    report::printText(profile, os, {/*width=*/kPageWidth});
  });
}

Error driver::writeHTMLReport(const Profile &profile, StringRef file) {
  return writeFile(file,
                   [&](raw_ostream &os) { report::printHTML(profile, os); });
}

Error driver::writeTimeline(StringRef file, size_t recordings,
                            function_ref<Error(report::PerfettoTrace &)> add) {
  Error failure = Error::success();
  auto print = [&](raw_ostream &os) {
    report::PerfettoTrace timeline(os, recordings);
    failure = joinErrors(std::move(failure), add(timeline));
    timeline.end();
    return !failure;
  };
  Expected<bool> written = writeOutput(file, [&](raw_ostream &os) {
    if (!file.ends_with(".gz"))
      return print(os);
    trace::GzipStream packed(os);
    return print(packed);
  });
  return joinErrors(std::move(failure), written.takeError());
}

Error driver::writeResults(const Profile &profile, const RunFolder &folder) {
  if (Error error = writeTextReport(profile, folder.reportText()))
    return error;
  if (Error error = writeHTMLReport(profile, folder.reportHTML()))
    return error;
  // Last: who finds a profile finds its pages.
  return writeFile(folder.profile(),
                   [&](raw_ostream &os) { writeProfile(profile, os); });
}
