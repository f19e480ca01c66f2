// Shows the profile that a run folder, or a file, holds.

#include "opprof/Driver/Commands.h"
#include "opprof/Profile/ProfileJSON.h"
#include "opprof/Support/OutputFile.h"

#include "mlir/Support/FileUtilities.h"
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

/// The profile that a run folder, or the path itself, stands for.
static Expected<std::string> findProfile(StringRef path) {
  bool isFolder = llvm::sys::fs::is_directory(path);
  std::string file = isFolder ? RunFolder(path).profile() : path.str();
  if (isFile(file))
    return file;
  if (isFolder) {
    std::vector<std::string> several = findProcesses(path);
    if (several.size() == 1)
      return several.front();
    if (!several.empty())
      return llvm::createStringError(
          path + ": holds the profiles of " + Twine(several.size()) +
          " processes\n  give one of them: opprof report " + several.front());
  }
  return llvm::createStringError(
      file + ": no such file\n  `opprof profile model.py -o run/` and `opprof "
             "run -o run/ script.py` make a run folder");
}

Error driver::showReport(StringRef path, ReportForm form, StringRef file,
                         const report::TextOptions &page) {
  Expected<std::string> name = findProfile(path);
  if (!name)
    return name.takeError();
  std::string message;
  std::unique_ptr<llvm::MemoryBuffer> text =
      mlir::openInputFile(*name, &message);
  if (!text)
    return llvm::createStringError(message);
  if (form == ReportForm::JSON) {
    llvm::outs() << text->getBuffer();
    return Error::success();
  }
  Expected<std::unique_ptr<profile::Profile>> profile =
      profile::readProfile(text->getBuffer(), *name);
  if (!profile)
    return profile.takeError();
  if (form == ReportForm::HTML)
    return writeOutput(file,
                       [&](llvm::raw_ostream &os) {
                         report::printHTML(**profile, os);
                         return true;
                       })
        .takeError();
  report::printText(**profile, llvm::outs(), page);
  return Error::success();
}
