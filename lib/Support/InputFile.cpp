// Opens files to read, which may be no files.

#include "opprof/Support/InputFile.h"
#include "opprof/Support/TerminalText.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

#include <cerrno>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>
#include <vector>

using namespace llvm;
using namespace opprof;

namespace {
enum class Refused { Device = 1, Socket, NoWriter, TooLong };

class Reasons : public std::error_category {
public:
  const char *name() const noexcept override { return "input"; }
  std::string message(int reason) const override {
    switch (static_cast<Refused>(reason)) {
    case Refused::Device:
      return "is a device, and no file";
    case Refused::Socket:
      return "is a socket, and no file";
    case Refused::NoWriter:
      return "is a pipe into which nobody writes";
    case Refused::TooLong:
      return "gives more than a pipe may (1 GiB): give it as a file";
    }
    return "cannot be read";
  }
};
} // namespace

static std::error_code refuse(Refused reason) {
  static const Reasons reasons;
  return {static_cast<int>(reason), reasons};
}

static std::error_code getError() { return {errno, std::generic_category()}; }

std::error_code opprof::checkInput(StringRef path) {
  struct stat of;
  if (path == "-" || ::stat(path.str().c_str(), &of))
    return {};
  if (S_ISSOCK(of.st_mode))
    return refuse(Refused::Socket);
  // What is typed has an end, and nothing is in /dev/null.
  struct stat null;
  bool isNull = !::stat("/dev/null", &null) && S_ISCHR(of.st_mode) &&
                of.st_rdev == null.st_rdev;
  if (S_ISBLK(of.st_mode) || (S_ISCHR(of.st_mode) && !isNull)) {
    int descriptor = ::open(path.str().c_str(),
                            O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    bool isTerminal = descriptor >= 0 && ::isatty(descriptor);
    if (descriptor >= 0)
      ::close(descriptor);
    if (!isTerminal)
      return refuse(Refused::Device);
  }
  return {};
}

/// Reads an open pipe to its end.
static ErrorOr<std::unique_ptr<MemoryBuffer>> readPipe(int descriptor,
                                                       StringRef path) {
  // A pipe without a name had a writer from the beginning.
  constexpr long kPipeFileSystem = 0x50495045;
  struct statfs on;
  bool hasWriter =
      ::fstatfs(descriptor, &on) == 0 && on.f_type == kPipeFileSystem;
  constexpr unsigned kWaitMs = 50, kSaidAfterMs = 1000;
  unsigned waited = 0;
  std::vector<char> bytes;
  constexpr size_t kPiece = 1 << 16;
  for (;;) {
    size_t size = bytes.size();
    if (size > kMaxPiped)
      return refuse(Refused::TooLong);
    bytes.resize(size + kPiece);
    ssize_t count = ::read(descriptor, bytes.data() + size, kPiece);
    int error = errno;
    bytes.resize(size + (count > 0 ? count : 0));
    if (count > 0 || (count < 0 && error == EINTR))
      continue;
    if (count < 0 && error == EAGAIN) {
      // Somebody has it open, and may take their time.
      hasWriter = true;
      pollfd waits = {descriptor, POLLIN, 0};
      ::poll(&waits, 1, -1);
      continue;
    }
    if (count < 0)
      return std::error_code(error, std::generic_category());
    if (hasWriter || !bytes.empty())
      break;
    if (waited >= kWriterSeconds * 1000)
      return refuse(Refused::NoWriter);
    if (waited == kSaidAfterMs)
      errs() << toTerminalLines(("nobody writes into the pipe " + path +
                                 " yet: it is waited for")
                                    .str())
             << '\n';
    ::usleep(kWaitMs * 1000);
    waited += kWaitMs;
  }
  return MemoryBuffer::getMemBufferCopy(StringRef(bytes.data(), bytes.size()),
                                        path);
}

ErrorOr<std::unique_ptr<MemoryBuffer>> opprof::openInput(StringRef path) {
  if (path == "-")
    return MemoryBuffer::getSTDIN();
  if (std::error_code code = checkInput(path))
    return code;
  struct stat of;
  std::string name = path.str();
  if (::stat(name.c_str(), &of) || !S_ISFIFO(of.st_mode))
    return MemoryBuffer::getFile(path, /*IsText=*/true);
  int descriptor = ::open(name.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0)
    return getError();
  auto close = llvm::scope_exit([&] { ::close(descriptor); });
  return readPipe(descriptor, path);
}

std::unique_ptr<MemoryBuffer> opprof::openInput(StringRef path,
                                                std::string *message) {
  ErrorOr<std::unique_ptr<MemoryBuffer>> file = openInput(path);
  if (file)
    return std::move(*file);
  if (message)
    *message =
        ("cannot open input file '" + path + "': " + file.getError().message())
            .str();
  return nullptr;
}
