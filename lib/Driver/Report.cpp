// Shows what a run folder, or files of any kind, hold: profiles, and recordings
// that profiles are made of.

#include "Recordings.h"
#include "Shown.h"

#include "opprof/Driver/Commands.h"
#include "opprof/Driver/Profiling.h"
#include "opprof/Findings/Findings.h"
#include "opprof/Profile/Ceilings.h"
#include "opprof/Profile/ProfileJSON.h"
#include "opprof/Profile/RewriteOffers.h"
#include "opprof/Report/FindingText.h"
#include "opprof/Support/InputFile.h"
#include "opprof/Support/OutputFile.h"
#include "opprof/Support/TerminalText.h"
#include "opprof/Trace/HostTracks.h"
#include "opprof/Trace/Reader.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace opprof;
using namespace opprof::driver;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;
using llvm::Twine;

/// The profiles of the processes that `opprof run` recorded.
static std::vector<std::string> findProcesses(StringRef folder) {
  std::vector<std::string> found;
  std::error_code error;
  for (llvm::sys::fs::directory_iterator it(folder, error), end;
       it != end && !error; it.increment(error)) {
    StringRef name = llvm::sys::path::filename(it->path());
    if (name.starts_with("profile-") && name.ends_with(".opprof.json"))
      found.push_back(it->path());
  }
  llvm::sort(found);
  return found;
}

static std::vector<std::string> findRecordings(StringRef folder) {
  std::vector<std::string> found;
  std::error_code error;
  for (llvm::sys::fs::directory_iterator it(folder, error), end;
       it != end && !error; it.increment(error))
    if (isCalledRecording(llvm::sys::path::filename(it->path())) &&
        isFile(it->path()) && !llvm::sys::fs::is_symlink_file(it->path()))
      found.push_back(it->path());
  llvm::sort(found);
  return found;
}

/// The files that a folder, or the path itself, stands for.
static Expected<std::vector<std::string>> findFiles(StringRef path) {
  if (!llvm::sys::fs::is_directory(path)) {
    if (llvm::sys::fs::exists(path))
      return std::vector<std::string>{path.str()};
    return llvm::createStringError(path + ": no such file or folder");
  }
  RunFolder folder(path);
  if (Error error = folder.checkFiles())
    return error;
  std::vector<std::string> found;
  if (isFile(folder.profile()))
    found = {folder.profile()};
  else
    found = findProcesses(path);
  if (found.size() > 1)
    return llvm::createStringError(
        path + ": holds the profiles of " + Twine(found.size()) +
        " processes\n  give one of them: opprof report " + found.front());
  if (found.empty())
    found = findRecordings(path);
  if (found.empty())
    for (const std::string &recording : folder.recordings())
      llvm::append_range(found, findRecordings(recording));
  if (found.empty())
    return llvm::createStringError(
        folder.profile() +
        ": no such file\n  `opprof profile model.py -o run/` and `opprof "
        "run -o run/ script.py` make a run folder; a trace, a capture or a "
        "profile can be given as it is");
  return found;
}

/// Whether `text` is a profile of opprof: JSON with no events. Inside a text
/// of a profile the quotes would be escaped. What a program printed before
/// ncu's table may begin so too.
static bool isProfile(StringRef text) {
  return text.ltrim(" \t\r\n").starts_with("{") &&
         !text.starts_with(StringRef("{\0", 2)) &&
         !text.contains("\"traceEvents\"") && !trace::isCountersPage(text);
}

/// Reads a profile, or makes one of a recording, as the content says.
static Expected<Shown> open(const std::string &file) {
  Expected<std::unique_ptr<llvm::MemoryBuffer>> read = openRecording(file);
  if (!read)
    return read.takeError();
  std::unique_ptr<llvm::MemoryBuffer> text = std::move(*read);
  bool isOwn = isProfile(text->getBuffer());
  Expected<std::unique_ptr<profile::Profile>> profile =
      isOwn ? profile::readProfile(text->getBuffer(), file)
            : makeProfile({text->getBuffer(), file}, ProfileInputs());
  if (!profile)
    return profile.takeError();
  return Shown{file, std::move(*profile)};
}

/// Several profiles are a list of them.
static void printJSON(llvm::ArrayRef<Shown> list) {
  TerminalJSON os(llvm::outs());
  auto print = [&](const Shown &shown) {
    profile::writeProfile(*shown.profile, os);
  };
  if (list.size() == 1)
    return print(list.front());
  os << "[";
  llvm::interleave(list, print, [&] { os << ",\n"; });
  os << "]\n";
}

/// Holds what is shown against ceilings that its file does not have yet.
static Error applyCeilings(Shown &shown, const profile::Ceilings &ceilings,
                           StringRef file, bool isAsked) {
  std::vector<Device> before = shown.profile->devices;
  if (!profile::setCeilings(*shown.profile, ceilings)) {
    if (!isAsked)
      return Error::success();
    std::string names;
    for (const Device &device : before)
      names += (names.empty() ? "'" : ", '") + device.name + "'";
    return llvm::createStringError(
        file + ": was measured on '" + ceilings.rates.device + "', and " +
        shown.file + " is of " + (names.empty() ? "no known device" : names) +
        "\n  measure the device that the recording is of: opprof ceilings");
  }
  auto isSame = [](const Device &a, const Device &b) {
    return a.measured == b.measured;
  };
  if (std::equal(before.begin(), before.end(), shown.profile->devices.begin(),
                 isSame))
    return Error::success();
  renewCeilingFindings(*shown.profile);
  report::describeFindings(*shown.profile);
  return Error::success();
}

/// What was recommended for a run folder's profile.
static Error readOffers(Shown &shown, const RunFolder &folder) {
  std::string file = folder.rewrites();
  if (shown.file != folder.profile() || !isFile(file))
    return Error::success();
  llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> text =
      opprof::openInput(file);
  if (!text)
    return llvm::createStringError(file + ": " + text.getError().message());
  Expected<std::vector<profile::RewriteOffer>> offers =
      profile::readRewriteOffers((*text)->getBuffer(), file);
  if (!offers)
    return offers.takeError();
  shown.profile->offers = std::move(*offers);
  return Error::success();
}

Expected<std::vector<Shown>>
driver::openShown(llvm::ArrayRef<std::string> paths, StringRef ceilings) {
  ProfileInputs asked;
  if (!ceilings.empty())
    if (Error error = asked.readCeilings(ceilings))
      return error;
  std::vector<Shown> list;
  for (const std::string &path : paths) {
    Expected<std::vector<std::string>> files = findFiles(path);
    if (!files)
      return files.takeError();
    ProfileInputs own;
    RunFolder folder(path);
    if (!asked.ceilings && llvm::sys::fs::is_directory(path))
      if (Error error = own.readCeilings(folder))
        return error;
    for (const std::string &found : *files) {
      Expected<Shown> shown = open(found);
      if (!shown)
        return shown.takeError();
      if (const std::optional<profile::Ceilings> &rates =
              asked.ceilings ? asked.ceilings : own.ceilings)
        if (Error error = applyCeilings(*shown, *rates,
                                        asked.ceilings ? ceilings.str()
                                                       : folder.ceilings(),
                                        asked.ceilings.has_value()))
          return error;
      if (Error error = readOffers(*shown, folder))
        return error;
      list.push_back(std::move(*shown));
    }
  }
  return list;
}

Error driver::showReport(llvm::ArrayRef<std::string> paths, ReportForm form,
                         StringRef file, StringRef ceilings,
                         const report::TextOptions &page) {
  Expected<std::vector<Shown>> opened = openShown(paths, ceilings);
  if (!opened)
    return opened.takeError();
  llvm::ArrayRef<Shown> list = *opened;
  if (form == ReportForm::JSON) {
    printJSON(list);
    return Error::success();
  }
  if (form == ReportForm::HTML) {
    if (list.size() > 1)
      return llvm::createStringError(
          "a page shows one recording, and these are " + Twine(list.size()) +
          "\n  give one of them: opprof report --html=" + file + " " +
          list.front().file);
    return writeOutput(file,
                       [&](llvm::raw_ostream &os) {
                         report::printHTML(*list.front().profile, os);
                         return true;
                       })
        .takeError();
  }
  if (list.size() > 1) {
    std::vector<const profile::Profile *> profiles;
    for (const Shown &shown : list)
      profiles.push_back(shown.profile.get());
    report::printComparison(profiles, llvm::outs(), page);
  }
  for (const Shown &shown : list) {
    if (list.size() > 1)
      llvm::outs() << '\n';
    report::printText(*shown.profile, llvm::outs(), page);
  }
  return Error::success();
}

Error driver::showHostTracks(const std::string &file,
                             const std::string &operators) {
  Expected<std::unique_ptr<llvm::MemoryBuffer>> text = openRecording(file);
  if (!text)
    return text.takeError();
  if (isProfile((*text)->getBuffer())) {
    trace::writeHostTracks(trace::Trace(), llvm::outs());
    return Error::success();
  }
  trace::ReadOptions options;
  std::unique_ptr<llvm::MemoryBuffer> observed;
  if (!operators.empty()) {
    Expected<std::unique_ptr<llvm::MemoryBuffer>> opened =
        openRecording(operators);
    if (!opened)
      return opened.takeError();
    observed = std::move(*opened);
    options.operators = observed->getMemBufferRef();
  }
  Expected<std::unique_ptr<trace::Trace>> trace =
      trace::readTrace({(*text)->getBuffer(), file}, options);
  if (!trace)
    return trace.takeError();
  trace::writeHostTracks(**trace, llvm::outs());
  return Error::success();
}
