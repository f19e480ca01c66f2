// Two captures from anywhere through the capture library's C ABI: a summary,
// and what communication costs both, refused with an error or written as JSON
// that is read back.

#include "Fuzzing.h"

#include "opprof/Capture/Capture.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <string>

using namespace llvm;

/// A folder of this process, which is gone at its end.
static const std::string &folder() {
  static const struct Folder {
    Folder() {
      SmallString<128> made;
      require(!sys::fs::createUniqueDirectory("opprof-fuzz", made));
      path = made.str().str();
    }
    ~Folder() { sys::fs::remove_directories(path); }
    std::string path;
  } instance;
  return instance.path;
}

static void write(const std::string &path, StringRef bytes) {
  std::error_code error;
  raw_fd_ostream os(path, error);
  require(!error);
  os << bytes;
}

/// JSON, whatever the capture's texts are.
static void requireJSON(const std::string &path) {
  auto file = MemoryBuffer::getFile(path);
  require(bool(file));
  Expected<json::Value> value = json::parse((*file)->getBuffer());
  if (!value) {
    errs() << toString(value.takeError()) << '\n';
    require(false);
  }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // Four bytes say where the first capture ends.
  StringRef input = toText(data, size);
  if (size < 4)
    return 0;
  size_t first = data[0] | data[1] << 8 | data[2] << 16;
  input = input.drop_front(4);
  std::string one = folder() + "/one.opcap", two = folder() + "/two.opcap";
  std::string measures = folder() + "/measures.json";
  write(one, input.take_front(first));
  write(two, input.drop_front(std::min(first, input.size())));

  char buffer[256];
  size_t length = opprof_capture_summarize(one.c_str(), buffer, sizeof(buffer));
  require(length == 0 || std::char_traits<char>::length(buffer) ==
                             std::min(length, sizeof(buffer) - 1));
  opprof_demangle(input.take_front(200).str().c_str(), buffer, sizeof(buffer));
  const char *paths[] = {one.c_str(), two.c_str()};
  const uint32_t ranks[] = {0, 1};
  if (opprof_capture_measure_ranks(paths, ranks, 2, measures.c_str()) ==
      OPPROF_OK)
    requireJSON(measures);
  else
    require(*opprof_capture_last_error());
  return 0;
}
