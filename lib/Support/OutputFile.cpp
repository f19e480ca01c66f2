// Files and folders for results.

#include "opprof/Support/OutputFile.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/raw_ostream.h"

#include <cerrno>
#include <csignal>
#include <utility>

#include <unistd.h>

using namespace llvm;

static Error fail(const Twine &path, const Twine &what) {
  return createStringError(path + ": " + what);
}

/// The folder that `path` lies in, as a path that can be opened.
static StringRef getParent(StringRef path) {
  StringRef parent = sys::path::parent_path(path);
  return parent.empty() ? "." : parent;
}

Error opprof::checkFolder(const Twine &path) {
  SmallString<256> place;
  path.toVector(place);
  while (!sys::fs::exists(place)) {
    SmallString<256> above = getParent(place);
    if (above == place)
      return Error::success();
    place = above;
  }
  if (!sys::fs::is_directory(place))
    return fail(path, "cannot be a folder of results: " + place + " is a file");
  if (::access(place.c_str(), W_OK | X_OK) != 0)
    return fail(path,
                "nothing may be written to " + place + ": permission denied");
  return Error::success();
}

Error opprof::makeFolder(const Twine &path) {
  if (Error error = checkFolder(path))
    return error;
  if (std::error_code code = sys::fs::create_directories(
          path, /*IgnoreExisting=*/true, sys::fs::all_all))
    return fail(path, "cannot be made a folder: " + code.message());
  return Error::success();
}

StringRef opprof::nameNoFile(const Twine &path) {
  sys::fs::file_status status;
  if (sys::fs::status(path, status))
    return "";
  switch (status.type()) {
  case sys::fs::file_type::directory_file:
    return "a folder";
  case sys::fs::file_type::fifo_file:
    return "a pipe";
  case sys::fs::file_type::socket_file:
    return "a socket";
  case sys::fs::file_type::character_file:
  case sys::fs::file_type::block_file:
    return "a device";
  default:
    return "";
  }
}

Error opprof::checkPlace(const Twine &path) {
  if (StringRef kind = nameNoFile(path); !kind.empty())
    return createStringError(path + ": is " + kind +
                             ", where opprof would write a file of its own\n  "
                             "give -o a folder of its own");
  return Error::success();
}

Error opprof::checkOwn(const Twine &path, StringRef mark) {
  if (Error error = checkPlace(path))
    return error;
  // What isn't there, or is empty, is in nobody's way.
  uint64_t size = 0;
  if (sys::fs::file_size(path, size) || !size)
    return Error::success();
  constexpr uint64_t kHead = 1 << 16;
  ErrorOr<std::unique_ptr<MemoryBuffer>> head =
      MemoryBuffer::getFileSlice(path, std::min(size, kHead), /*Offset=*/0);
  if (head && (*head)->getBuffer().contains(mark))
    return Error::success();
  return fail(path, "is none of opprof's files, and would be lost\n  give -o a "
                    "folder of its own");
}

/// Prints to the open file; what the system refused is the error.
static std::error_code print(int descriptor, bool closes,
                             function_ref<void(raw_ostream &)> print) {
  raw_fd_ostream os(descriptor, closes);
  print(os);
  if (closes)
    os.close();
  else
    os.flush();
  std::error_code code = os.error();
  os.clear_error();
  return code;
}

/// What stands behind the name of an unfinished file.
static constexpr unsigned kRandomDigits = 8;

bool opprof::isUnfinished(StringRef name, StringRef file) {
  return name.consume_front(".") && name.consume_front(file) &&
         name.consume_front(".") && name.size() == kRandomDigits &&
         llvm::all_of(name, [](char c) { return llvm::isHexDigit(c); });
}

namespace {

/// A file that is to take the name of another one in its folder. LLVM's own
/// (`sys::fs::TempFile`) changes each % of a path.
class UnfinishedFile {
public:
  int descriptor = -1;
  std::string name;

  UnfinishedFile() = default;
  UnfinishedFile(UnfinishedFile &&other)
      : descriptor(std::exchange(other.descriptor, -1)),
        name(std::exchange(other.name, "")) {}
  UnfinishedFile &operator=(UnfinishedFile &&) = delete;
  ~UnfinishedFile() { discard(); }

  static ErrorOr<UnfinishedFile> create(StringRef folder, StringRef file) {
    UnfinishedFile made;
    constexpr int kMaxTries = 128;
    std::error_code code;
    for (int i = 0; i != kMaxTries; ++i) {
      SmallString<256> path(folder);
      sys::path::append(path,
                        "." + file + "." +
                            utohexstr(uint32_t(sys::Process::GetRandomNumber()),
                                      /*LowerCase=*/true, kRandomDigits));
      code = sys::fs::openFileForWrite(path, made.descriptor,
                                       sys::fs::CD_CreateNew);
      if (code == std::errc::file_exists)
        continue;
      if (code)
        return code;
      made.name = path.str();
      sys::RemoveFileOnSignal(path);
      return made;
    }
    return code;
  }

  std::error_code keep(StringRef path) {
    // Network file systems and quotas say here that nothing was kept.
    if (std::error_code code = close())
      return code;
    if (std::error_code code = sys::fs::rename(name, path)) {
      // A file that something is mounted on keeps its name.
      if (code != std::errc::device_or_resource_busy)
        return code;
      if (std::error_code uncopied = sys::fs::copy_file(name, path))
        return uncopied;
      sys::fs::remove(name);
    }
    sys::DontRemoveFileOnSignal(name);
    name.clear();
    return {};
  }

  void discard() {
    close();
    if (name.empty())
      return;
    sys::fs::remove(name);
    sys::DontRemoveFileOnSignal(name);
    name.clear();
  }

private:
  std::error_code close() {
    if (descriptor >= 0 && ::close(std::exchange(descriptor, -1)))
      return std::error_code(errno, std::generic_category());
    return {};
  }
};

} // namespace

/// A file that is to take the name of `path`, in its folder.
static Expected<UnfinishedFile> createBeside(StringRef path) {
  if (Error error = opprof::makeFolder(getParent(path)))
    return error;
  // A file beyond the user's limit (`ulimit -f`) is an error like a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  ErrorOr<UnfinishedFile> file =
      UnfinishedFile::create(getParent(path), sys::path::filename(path));
  if (!file)
    return fail(path, "cannot be written: " + file.getError().message());
  return std::move(*file);
}

/// Prints into the file, which stays as it was where `keeps` is false then.
static Error writeFile(const Twine &path, const bool &keeps,
                       function_ref<void(raw_ostream &)> printTo) {
  SmallString<256> name;
  path.toVector(name);
  sys::fs::file_status status;
  if (!sys::fs::status(name, status)) {
    if (status.type() == sys::fs::file_type::directory_file)
      return fail(name, "cannot be written: it is a folder");
    // /dev/null and pipes are written to: a file that took their place would be
    // in everybody's way.
    if (status.type() != sys::fs::file_type::regular_file) {
      int descriptor = -1;
      std::error_code code =
          sys::fs::openFileForWrite(name, descriptor, sys::fs::CD_OpenExisting);
      if (!code)
        code = print(descriptor, /*closes=*/true, printTo);
      return code ? fail(name, "cannot be written: " + code.message())
                  : Error::success();
    }
  }
  Expected<UnfinishedFile> file = createBeside(name);
  if (!file)
    return file.takeError();
  std::error_code code = print(file->descriptor, /*closes=*/false, printTo);
  if (!code && keeps)
    code = file->keep(name);
  return code ? fail(name, "cannot be written: " + code.message())
              : Error::success();
}

Error opprof::writeFile(const Twine &path,
                        function_ref<void(raw_ostream &)> printTo) {
  return ::writeFile(path, /*keeps=*/true, printTo);
}

Expected<bool> opprof::writeOutput(StringRef path,
                                   function_ref<bool(raw_ostream &)> printTo) {
  if (path == "-") {
    bool succeeded = printTo(outs());
    outs().flush();
    return succeeded;
  }
  bool succeeded = false;
  auto print = [&](raw_ostream &os) { succeeded = printTo(os); };
  if (Error error = ::writeFile(path, succeeded, print))
    return error;
  return succeeded;
}

Expected<bool> opprof::writeBeside(StringRef path,
                                   function_ref<bool(StringRef)> write) {
  sys::fs::file_status status;
  if (path == "-" ||
      (!sys::fs::status(path, status) && !sys::fs::is_regular_file(status)))
    return write(path);
  Expected<UnfinishedFile> file = createBeside(path);
  if (!file)
    return file.takeError();
  if (!write(file->name))
    return false;
  if (std::error_code code = file->keep(path))
    return fail(path, "cannot be written: " + code.message());
  return true;
}
