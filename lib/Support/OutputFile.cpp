// Files and folders for results.

#include "opprof/Support/OutputFile.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <csignal>

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

/// What LLVM puts a random digit in the place of each of.
static constexpr StringLiteral kRandom = "%%%%%%%%";

bool opprof::isUnfinished(StringRef name, StringRef file) {
  return name.consume_front(".") && name.consume_front(file) &&
         name.consume_front(".") && name.size() == kRandom.size() &&
         llvm::all_of(name, [](char c) { return llvm::isHexDigit(c); });
}

/// A file that is to take the name of `path`, in its folder.
static Expected<sys::fs::TempFile> createBeside(StringRef path) {
  if (Error error = opprof::makeFolder(getParent(path)))
    return error;
  // A file beyond the user's limit (`ulimit -f`) is an error like a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  SmallString<256> model(getParent(path));
  sys::path::append(model, "." + sys::path::filename(path) + "." + kRandom);
  Expected<sys::fs::TempFile> file =
      sys::fs::TempFile::create(model, sys::fs::all_read | sys::fs::all_write);
  if (!file)
    return fail(path, "cannot be written: " + toString(file.takeError()));
  return file;
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
  Expected<sys::fs::TempFile> file = createBeside(name);
  if (!file)
    return file.takeError();
  if (std::error_code code = print(file->FD, /*closes=*/false, printTo)) {
    consumeError(file->discard());
    return fail(name, "cannot be written: " + code.message());
  }
  if (!keeps)
    return file->discard();
  if (Error error = file->keep(name))
    return fail(name, "cannot be written: " + toString(std::move(error)));
  return Error::success();
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
  Expected<sys::fs::TempFile> file = createBeside(path);
  if (!file)
    return file.takeError();
  if (!write(file->TmpName)) {
    consumeError(file->discard());
    return false;
  }
  if (Error error = file->keep(path))
    return fail(path, "cannot be written: " + toString(std::move(error)));
  return true;
}
