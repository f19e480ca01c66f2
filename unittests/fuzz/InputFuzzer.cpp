// Any bytes, given as a file and through a pipe in pieces: both are read to
// their end, and the same. Any text as a path is opened, or refused by a
// message that names it.

#include "Fuzzing.h"

#include "opprof/Support/InputFile.h"

#include <thread>

#include <sys/mman.h>
#include <unistd.h>

using namespace llvm;
using namespace opprof;

static std::string pathOf(int descriptor) {
  return "/proc/self/fd/" + std::to_string(descriptor);
}

static void writeAll(int descriptor, StringRef text) {
  while (!text.empty()) {
    ssize_t count = write(descriptor, text.data(), text.size());
    require(count > 0);
    text = text.drop_front(count);
  }
}

static void checkFile(StringRef text) {
  int descriptor = memfd_create("fuzz", MFD_CLOEXEC);
  require(descriptor >= 0);
  writeAll(descriptor, text);
  auto read = openInput(pathOf(descriptor));
  close(descriptor);
  require(read && (*read)->getBuffer() == text);
}

static void checkPipe(StringRef text, ArrayRef<uint8_t> lengths) {
  int ends[2];
  require(pipe(ends) == 0);
  // The reader opens the pipe anew: what is written before is not lost, as this
  // end stays.
  auto writeText = [&] {
    StringRef rest = text;
    for (uint8_t length : lengths) {
      writeAll(ends[1], rest.take_front(length));
      rest = rest.drop_front(std::min<size_t>(length, rest.size()));
      std::this_thread::yield();
    }
    writeAll(ends[1], rest);
    close(ends[1]);
  };
  // A thread costs more than all else: what fits into the pipe and is no
  // matter of pieces needs none.
  constexpr size_t kFits = 4096;
  std::thread writer;
  if (lengths.empty() && text.size() <= kFits)
    writeText();
  else
    writer = std::thread(writeText);
  auto read = openInput(pathOf(ends[0]));
  if (writer.joinable())
    writer.join();
  close(ends[0]);
  require(read && (*read)->getBuffer() == text);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  size_t pieces = size ? std::min<size_t>(data[0] % 16, size - 1) : 0;
  ArrayRef<uint8_t> lengths(data + (size != 0), pieces);
  StringRef text = toText(data, size).drop_front(pieces + (size != 0));
  checkFile(text);
  checkPipe(text, lengths);
  // Not stdin, which is the fuzzer's, nor what a machine has for itself.
  if (text == "-" || text.starts_with("/"))
    return 0;
  std::string message;
  if (!openInput(text, &message))
    require(StringRef(message).contains(text));
  return 0;
}
