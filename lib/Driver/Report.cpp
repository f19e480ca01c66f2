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
#include "opprof/Trace/Reader.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
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

/// Files that may be recordings by another name.
static std::vector<std::string> findLikely(StringRef folder) {
  std::vector<std::string> found;
  std::error_code error;
  for (llvm::sys::fs::directory_iterator it(folder, error), end;
       it != end && !error; it.increment(error)) {
    StringRef name = llvm::sys::path::filename(it->path());
    name.consume_back(".gz");
    if ((name.ends_with(".json") || name.ends_with(".csv")) &&
        isFile(it->path()))
      found.push_back(it->path());
  }
  llvm::sort(found);
  return found;
}

static constexpr llvm::StringLiteral kStdin = "-";

/// How a file is called where it is shown.
static std::string nameOf(StringRef file) {
  return file == kStdin ? "stdin" : file.str();
}

/// The files that a folder, or the path itself, stands for.
static Expected<std::vector<std::string>> findFiles(StringRef path) {
  if (path == kStdin)
    return std::vector<std::string>{path.str()};
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
  if (found.size() > 1) {
    // The one of which most is known; one that only began others has little.
    auto sizeOf = [](const std::string &file) {
      uint64_t size = 0;
      return llvm::sys::fs::file_size(file, size) ? 0 : size;
    };
    auto most = llvm::max_element(found, [&](const auto &a, const auto &b) {
      return sizeOf(a) < sizeOf(b);
    });
    return llvm::createStringError(
        path + ": holds the profiles of " + Twine(found.size()) +
        " processes\n  give one of them: opprof report " + *most);
  }
  if (found.empty())
    found = findRecordings(path);
  if (found.empty())
    for (const std::string &recording : folder.recordings())
      llvm::append_range(found, findRecordings(recording));
  if (found.empty() && isFile(folder.run()))
    return llvm::createStringError(
        path +
        ": holds run.json, and no profile and no recording: what made it ended "
        "before it had any\n  run that again; `opprof run` and `opprof "
        "profile` say why there is none");
  if (found.empty())
    if (std::vector<std::string> likely = findLikely(path); !likely.empty()) {
      std::string others;
      if (likely.size() > 1)
        others = (" (" + Twine(likely.size() - 1) + " more may be some)").str();
      return llvm::createStringError(
          path +
          ": is no run folder, and no file in it is called as a recording is "
          "(trace.json, rank0.pt.trace.json.gz, *.opcap, *.sqlite)\n  if one "
          "is, give it itself: opprof report " +
          likely.front() + others);
    }
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
static Expected<std::unique_ptr<profile::Profile>>
readOrMakeProfile(const llvm::MemoryBuffer &text, StringRef file,
                  const trace::ReadOptions &options = {}) {
  return isProfile(text.getBuffer())
             ? profile::readProfile(text.getBuffer(), file)
             : makeProfile({text.getBuffer(), file}, ProfileInputs(), options);
}

static Expected<Shown> open(const std::string &file) {
  Expected<std::unique_ptr<llvm::MemoryBuffer>> text = openRecording(file);
  if (!text)
    return text.takeError();
  Expected<std::unique_ptr<profile::Profile>> profile =
      readOrMakeProfile(**text, nameOf(file));
  if (!profile)
    return profile.takeError();
  return Shown{nameOf(file), std::move(*profile)};
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

/// A name as its texts and, between them, the numbers in it.
static std::vector<StringRef> splitAtNumbers(StringRef name) {
  std::vector<StringRef> parts;
  while (!name.empty()) {
    parts.push_back(name.take_until(llvm::isDigit));
    name = name.drop_front(parts.back().size());
    parts.push_back(name.take_while(llvm::isDigit));
    name = name.drop_front(parts.back().size());
  }
  return parts;
}

/// The recordings of the other ranks, as a shell finds them: files beside this
/// one whose names differ from its own in numbers alone, as those of
/// torch.profiler's handler for TensorBoard do. Empty where there are none, or
/// where a shell would read the name as something else.
static std::string findOtherRanks(StringRef file) {
  StringRef name = llvm::sys::path::filename(file);
  StringRef folder = file.drop_back(name.size());
  std::vector<StringRef> own = splitAtNumbers(name);
  std::vector<bool> differs(own.size());
  std::error_code error;
  for (llvm::sys::fs::directory_iterator
           it(folder.empty() ? "." : folder, error),
       end;
       it != end && !error; it.increment(error)) {
    std::vector<StringRef> parts =
        splitAtNumbers(llvm::sys::path::filename(it->path()));
    if (parts.size() != own.size() || !isFile(it->path()))
      continue;
    bool isAlike = true;
    for (size_t i = 0; i != own.size(); i += 2)
      isAlike &= parts[i] == own[i];
    for (size_t i = 1; isAlike && i < own.size(); i += 2)
      differs[i] = differs[i] || parts[i] != own[i];
  }
  if (llvm::none_of(differs, [](bool isOther) { return isOther; }))
    return "";
  std::string pattern = folder.str();
  for (auto [part, isOther] : llvm::zip_equal(own, differs))
    pattern += isOther ? "*" : part;
  bool isPlain = llvm::all_of(pattern, [](char c) {
    return llvm::isAlnum(c) || StringRef("/._-+=@%,:*").contains(c);
  });
  return isPlain && !StringRef(pattern).starts_with("-") ? pattern : "";
}

/// Of one rank's profile, where the others' are to be had; among those of
/// others nothing is to be said.
static void noteOtherRanks(const Shown &shown, bool isAlone) {
  profile::Profile &profile = *shown.profile;
  if (profile.sources.size() != 1)
    return;
  const profile::Source &source = profile.sources.front();
  if (!source.rank || source.worldSize.value_or(1) < 2)
    return;
  std::string begin = "rank " + std::to_string(*source.rank) + " of " +
                      std::to_string(*source.worldSize) + " alone: ";
  // A profile that was printed has it already.
  llvm::erase_if(profile.notes, [&](const std::string &note) {
    return StringRef(note).starts_with(begin);
  });
  if (!isAlone)
    return;
  std::string others = findOtherRanks(shown.file);
  profile.notes.push_back(
      begin + "which one the others wait for is said by `opprof report " +
      (others.empty() ? "FILE...` with the files of all of them"
                      : others + "`"));
}

Error driver::showReport(llvm::ArrayRef<std::string> paths, ReportForm form,
                         StringRef file, StringRef ceilings,
                         const report::TextOptions &page) {
  Expected<std::vector<Shown>> opened = openShown(paths, ceilings);
  if (!opened)
    return opened.takeError();
  llvm::ArrayRef<Shown> list = *opened;
  for (const Shown &shown : list)
    noteOtherRanks(shown, /*isAlone=*/list.size() == 1);
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

/// The file of this name beside another one, or nothing; a folder may be
/// anybody's: what it links to is not read.
static std::string findBeside(StringRef file, const llvm::Twine &name) {
  llvm::SmallString<256> path(llvm::sys::path::parent_path(file));
  llvm::sys::path::append(path, name);
  bool isOwn = isFile(path) && !llvm::sys::fs::is_symlink_file(path);
  return isOwn ? path.str().str() : "";
}

/// What the observer recorded of the process of a capture, where that lies
/// beside it: both are called by their process.
static std::string findOperators(StringRef capture) {
  StringRef name = llvm::sys::path::filename(capture);
  return name.consume_front("capture-r")
             ? findBeside(capture, "operators-r" + name)
             : "";
}

/// The one recording that a profile in `file` is of, where it lies beside it.
static std::string findRecordingOf(const profile::Profile &profile,
                                   StringRef file) {
  llvm::StringSet<> names;
  for (const profile::Source &source : profile.sources)
    names.insert(llvm::sys::path::filename(source.file));
  if (names.size() != 1 || names.begin()->getKey().empty())
    return "";
  return findBeside(file, names.begin()->getKey());
}

/// No more kernels of a capture are put into a trace for Perfetto, which opens
/// files of some gigabytes.
static constexpr uint64_t kMostShown = 1'000'000;

/// What the host did in a recording.
static Expected<std::unique_ptr<trace::Trace>>
readHost(const llvm::MemoryBuffer &text, StringRef name) {
  trace::ReadOptions options;
  options.lastKernels = kMostShown;
  options.warmUp = true;
  std::unique_ptr<llvm::MemoryBuffer> observed;
  if (std::string operators = findOperators(name); !operators.empty()) {
    Expected<std::unique_ptr<llvm::MemoryBuffer>> read =
        openRecording(operators);
    if (!read)
      return read.takeError();
    observed = std::move(*read);
    options.operators = observed->getMemBufferRef();
  }
  return trace::readTrace({text.getBuffer(), name}, options);
}

/// Adds a file to a trace for Perfetto: a profile, with its recording where
/// that is at hand, or a recording. Of several, `labels` has what goes before
/// the processes of those before it.
static Error addTimeline(StringRef file, llvm::StringSet<> *labels,
                         report::PerfettoTrace &timeline) {
  Expected<std::unique_ptr<llvm::MemoryBuffer>> text = openRecording(file);
  if (!text)
    return text.takeError();
  trace::ReadOptions options;
  options.lastKernels = kMostShown;
  Expected<std::unique_ptr<profile::Profile>> profile =
      readOrMakeProfile(**text, nameOf(file), options);
  if (!profile)
    return profile.takeError();
  std::string name = nameOf(file);
  if (isProfile((*text)->getBuffer())) {
    text->reset();
    name = findRecordingOf(**profile, file);
    if (!name.empty()) {
      text = openRecording(name);
      if (!text)
        return text.takeError();
    }
  }
  std::unique_ptr<trace::Trace> recording;
  if (*text && !isProfile((*text)->getBuffer())) {
    Expected<std::unique_ptr<trace::Trace>> read = readHost(**text, name);
    if (!read)
      return read.takeError();
    recording = std::move(*read);
    for (const std::string &note : recording->notes)
      llvm::errs() << toTerminalLines(name + ": " + note) << '\n';
  }
  std::string label;
  if (labels) {
    llvm::ArrayRef<profile::Source> sources = (*profile)->sources;
    if (sources.size() != 1 || !sources.front().baseTimeNs)
      return llvm::createStringError(
          file + ": holds no clock, so it cannot be put beside others\n  give "
                 "it alone");
    if (sources.front().rank)
      label = "rank " + std::to_string(*sources.front().rank);
    if (label.empty() || labels->contains(label))
      label = llvm::sys::path::filename(file);
    std::string first = label;
    for (unsigned number = 2; !labels->insert(label).second; ++number)
      label = first + " #" + std::to_string(number);
  }
  if (!timeline.add(**profile, recording.get(), label))
    return llvm::createStringError(
        file + ": began more than a day before the first recording, and a "
               "trace has no room before its begin\n  give the earliest one "
               "first");
  return Error::success();
}

Error driver::writePerfetto(llvm::ArrayRef<std::string> paths, StringRef file) {
  std::vector<std::string> files;
  for (const std::string &path : paths) {
    Expected<std::vector<std::string>> found = findFiles(path);
    if (!found)
      return found.takeError();
    llvm::append_range(files, *found);
  }
  llvm::StringSet<> labels;
  return writeTimeline(
      file, files.size(), [&](report::PerfettoTrace &timeline) -> Error {
        for (StringRef one : files)
          if (Error error = addTimeline(
                  one, files.size() > 1 ? &labels : nullptr, timeline))
            return error;
        return Error::success();
      });
}
