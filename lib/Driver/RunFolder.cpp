// The files of a run folder: where they are, and which of them are opprof's.

#include "opprof/Driver/RunFolder.h"
#include "opprof/Capture/CaptureFile.h"
#include "opprof/Support/OutputFile.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::driver;

/// What opprof copies of Inductor's debug folder of a graph.
static constexpr StringLiteral kCopied[] = {
    code::kOutput,
    "fx_graph_readable.py",
    "fx_graph_transformed.py",
    "inductor_provenance_tracking_node_mappings.json",
    code::kPostGrad,
    code::kGraphJSON};
/// What it makes beside them.
static constexpr StringLiteral kMade[] = {code::kGraph, code::kLaunches};

static Error refuse(const Twine &what) {
  return createStringError(what + "\n  give -o a folder of its own");
}

bool driver::isFile(StringRef path) { return sys::fs::is_regular_file(path); }

std::string code::file(StringRef folder, StringRef name) {
  SmallString<256> path(folder);
  sys::path::append(path, name);
  return path.str().str();
}

std::string RunFolder::file(const std::string &name) const {
  return code::file(path, name);
}

/// Inductor ends a folder's name with the number of its compilation:
/// model__2_backward_5.1. What has the name already, compiled again, follows:
/// model__2_backward_5.1@1. _compilation in python/opprof/run_folder.py sorts
/// likewise.
static std::pair<uint64_t, uint64_t> getCompilation(StringRef folder) {
  auto toNumber = [](StringRef text) {
    uint64_t value = 0;
    return text.getAsInteger(10, value) ? uint64_t(0) : value;
  };
  auto [first, again] = sys::path::filename(folder).split('@');
  return {toNumber(first.substr(first.rfind('.') + 1)), toNumber(again)};
}

static void sortByCompilation(std::vector<std::string> &folders) {
  llvm::sort(folders, [](StringRef a, StringRef b) {
    return std::tuple(getCompilation(a), sys::path::filename(a), a) <
           std::tuple(getCompilation(b), sys::path::filename(b), b);
  });
}

std::vector<std::string> RunFolder::compiledGraphs() const {
  std::vector<std::string> folders;
  std::error_code error;
  for (sys::fs::directory_iterator it(path, error), end; it != end && !error;
       it.increment(error))
    if (sys::fs::exists(code::file(it->path(), code::kOutput)))
      folders.push_back(it->path());
  sortByCompilation(folders);
  return folders;
}

std::vector<std::string> RunFolder::recordings() const {
  std::vector<std::string> folders;
  std::error_code error;
  for (sys::fs::directory_iterator it(path, error, /*follow_symlinks=*/false),
       end;
       it != end && !error; it.increment(error))
    if (sys::path::filename(it->path()).starts_with(kRecording) &&
        it->type() == sys::fs::file_type::directory_file)
      folders.push_back(it->path());
  llvm::sort(folders);
  return folders;
}

std::vector<std::string> code::findFolders(StringRef folder) {
  if (isFile(code::file(folder, kOutput)))
    return {folder.str()};
  std::vector<std::string> folders;
  std::error_code error;
  // A link may lead to where the search came from.
  for (sys::fs::recursive_directory_iterator
           it(folder, error, /*follow_symlinks=*/false),
       end;
       it != end && !error; it.increment(error))
    if (sys::path::filename(it->path()) == kOutput)
      folders.push_back(sys::path::parent_path(it->path()).str());
  sortByCompilation(folders);
  return folders;
}

std::vector<std::string> code::nameFolders(ArrayRef<std::string> folders) {
  std::vector<std::string> names;
  StringSet<> taken;
  for (StringRef folder : folders) {
    // "." and what ends in a slash are called by the folder that they are.
    SmallString<256> path(folder);
    sys::fs::make_absolute(path);
    sys::path::remove_dots(path, /*remove_dot_dot=*/true);
    std::string first = sys::path::filename(path).str(), name = first;
    for (unsigned again = 1; !taken.insert(name).second; ++again)
      name = first + "@" + std::to_string(again);
    names.push_back(name);
  }
  return names;
}

Error code::copy(StringRef from, StringRef to) {
  if (!sys::fs::is_directory(from))
    return createStringError(from + ": no such folder");
  if (Error error = makeFolder(to))
    return error;
  for (ArrayRef<StringLiteral> names : {ArrayRef(kCopied), ArrayRef(kMade)})
    for (StringRef name : names)
      if (Error error = checkPlace(file(to, name)))
        return error;
  for (StringRef name : kCopied) {
    std::string source = file(from, name);
    if (!isFile(source))
      continue;
    ErrorOr<std::unique_ptr<MemoryBuffer>> text = MemoryBuffer::getFile(source);
    if (!text)
      return createStringError(source + ": cannot be copied to " + to + ": " +
                               text.getError().message());
    if (Error error = writeFile(file(to, name), [&](raw_ostream &os) {
          os << (*text)->getBuffer();
        }))
      return error;
  }
  return Error::success();
}

/// Refuses a link to something out of `folder`: a folder of a stranger could
/// have any file printed, or taken for its own, by its name.
static Error checkLink(StringRef folder, StringRef path) {
  if (!sys::fs::is_symlink_file(path))
    return Error::success();
  SmallString<256> inside, target;
  // What leads nowhere is no file to be read.
  if (sys::fs::real_path(folder, inside) || sys::fs::real_path(path, target))
    return Error::success();
  inside += sys::path::get_separator();
  if (StringRef(target).starts_with(inside))
    return Error::success();
  return createStringError(path + ": is a link out of the run folder, to " +
                           target + "\n  put the file itself there");
}

/// The same, and refuses what is no file.
static Error checkFile(StringRef folder, StringRef path) {
  if (Error error = checkLink(folder, path))
    return error;
  if (StringRef kind = nameNoFile(path); !kind.empty())
    return createStringError(path + ": is " + kind + ", and no file");
  return Error::success();
}

Error RunFolder::checkFiles() const {
  const std::string own[] = {
      run(),          graphJSON(), graph(),           program(),  partitions(),
      trace(),        capture(),   countersCapture(), counters(), operators(),
      countersPage(), ceilings(),  rewrites(),        step()};
  // Names that a process may end.
  auto isOwn = [&](StringRef entry) {
    StringRef name = sys::path::filename(entry);
    return is_contained(own, entry) ||
           ((name.starts_with("profile") || name.starts_with("report")) &&
            !sys::fs::is_directory(entry));
  };
  std::error_code error;
  for (sys::fs::directory_iterator it(path, error), end; it != end && !error;
       it.increment(error)) {
    StringRef entry = it->path();
    bool isCode = isFile(code::file(entry, code::kOutput));
    if (Error error = isCode         ? checkLink(path, entry)
                      : isOwn(entry) ? checkFile(path, entry)
                                     : Error::success())
      return error;
    if (!isCode)
      continue;
    for (ArrayRef<StringLiteral> names : {ArrayRef(kCopied), ArrayRef(kMade)})
      for (StringRef name : names)
        if (Error error = checkFile(path, code::file(entry, name)))
          return error;
  }
  return Error::success();
}

Error RunFolder::check() const {
  if (Error error = checkFolder(path))
    return error;
  if (sys::fs::exists(file(code::kOutput.str())))
    return refuse(path + ": is a debug folder of Inductor, not a run folder");
  // Their names are such that others have them too.
  const std::pair<std::string, StringRef> marks[] = {
      {run(), "\"version\""},
      {graphJSON(), "\"opprof_graph_version\""},
      {graph(), "ML\xefR"},
      {program(), "ML\xefR"},
      {partitions(), "\"version\""},
      {operators(), "\"version\""},
      {ceilings(), "\"version\""},
      {rewrites(), "\"version\""},
      {step(), "\"opprof_step_version\""},
      {profile(), "\"version\""},
      {reportHTML(), "opprof</title>"}};
  for (const auto &[file, mark] : marks)
    if (Error error = checkOwn(file, mark))
      return error;
  // A page of text, a trace, and what was counted bear no mark, but a run that
  // writes them has left what it was made of. A capture may be kept alone.
  StringRef captured(capture::kFileMagic, sizeof(capture::kFileMagic));
  const std::string unmarked[] = {reportText(), trace(),
                                  capture(),    countersCapture(),
                                  counters(),   countersPage()};
  for (const std::string &file : unmarked)
    if (Error error = checkPlace(file))
      return error;
  if (none_of(ArrayRef<std::string>{run(), graph(), graphJSON(), program(),
                                    profile()},
              [](const std::string &file) { return isFile(file); }))
    for (const std::string &file : unmarked)
      if (Error error = checkOwn(file, captured))
        return error;
  for (const std::string &folder : compiledGraphs()) {
    std::error_code error;
    for (sys::fs::directory_iterator it(folder, error), end;
         it != end && !error; it.increment(error)) {
      StringRef name = sys::path::filename(it->path());
      auto isOf = [&](StringRef own) {
        return name == own || isUnfinished(name, own);
      };
      if (llvm::none_of(kCopied, isOf) && llvm::none_of(kMade, isOf))
        return refuse(folder + ": would be taken for code of this run, and " +
                      name + " in it is none of opprof's files");
      if (Error error = checkPlace(it->path()))
        return error;
    }
  }
  return Error::success();
}

/// Takes a folder away with all that it holds, and of a link the link alone:
/// a stranger's may lead to any folder.
static Error removeFolder(const std::string &path) {
  std::error_code error =
      sys::fs::is_symlink_file(path)
          ? sys::fs::remove(path)
          : sys::fs::remove_directories(path, /*IgnoreErrors=*/false);
  if (error)
    return createStringError(path + ": cannot be removed: " + error.message());
  return Error::success();
}

Error RunFolder::clear() const {
  if (Error error = check())
    return error;
  if (Error error = makeFolder(path))
    return error;
  std::vector<std::string> old = {
      reportText(), reportHTML(),   profile(),         run(),      partitions(),
      operators(),  counters(),     countersCapture(), capture(),  trace(),
      program(),    countersPage(), ceilings(),        rewrites(), step()};
  for (const std::string &folder : compiledGraphs())
    if (Error error = removeFolder(folder))
      return error;
  // A run that was killed left its code where the next would take it for its
  // own.
  if (Error error = removeFolder(scratch()))
    return error;
  // The program of one that was killed may still be writing there, which is in
  // nobody's way.
  for (const std::string &folder : recordings())
    sys::fs::remove_directories(folder);
  // The graph stays: it is replaced, and an unchanged one is not made again.
  for (const std::string &file : old)
    if (std::error_code error = sys::fs::remove(file))
      return createStringError(file +
                               ": cannot be removed: " + error.message());
  return Error::success();
}

Error RunFolder::takeCode() const {
  if (!sys::fs::is_directory(scratch()))
    return Error::success();
  for (const std::string &folder : code::findFolders(scratch()))
    if (Error error =
            code::copy(folder, file(sys::path::filename(folder).str())))
      return error;
  return removeFolder(scratch());
}
