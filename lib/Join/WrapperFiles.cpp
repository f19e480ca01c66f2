// Whose code a file of a run is.

#include "opprof/Join/WrapperFiles.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SHA256.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::join;

std::string opprof::join::inductorCacheName(StringRef text) {
  // Space round the text does not count, so that it can be printed anyhow.
  StringRef code = text.trim(" \t\n\r\f\v");
  std::array<uint8_t, 32> hash = SHA256::hash(
      ArrayRef(reinterpret_cast<const uint8_t *>(code.data()), code.size()));
  static constexpr char kDigits[] = "abcdefghijklmnopqrstuvwxyz234567";
  std::string name = "c";
  for (size_t bit = 0; name.size() < 52; bit += 5) {
    unsigned value = 0;
    for (size_t i = bit; i < bit + 5; ++i)
      value = value << 1 | (i < 256 ? hash[i / 8] >> (7 - i % 8) & 1u : 0u);
    name += kDigits[value];
  }
  return name;
}

void WrapperFiles::add(uint32_t map, StringRef path, StringRef text) {
  codes.push_back({map, path.str(), text.str(), inductorCacheName(text)});
  found.clear();
}

/// What a regular file says, if it has exactly `size` bytes. A path out of a
/// recording may be anything: a pipe that never ends, for one.
static std::unique_ptr<MemoryBuffer> readIfSize(StringRef path, size_t size) {
  sys::fs::file_status status;
  if (sys::fs::status(path, status) || !sys::fs::is_regular_file(status) ||
      status.getSize() != size)
    return nullptr;
  ErrorOr<std::unique_ptr<MemoryBuffer>> buffer = MemoryBuffer::getFile(path);
  // A file that is gone or may not be read is not known to be anyone's code.
  return buffer ? std::move(*buffer) : nullptr;
}

std::optional<uint32_t> WrapperFiles::find(StringRef file) const {
  auto [it, inserted] = found.try_emplace(file);
  if (!inserted)
    return it->second;
  for (const Code &code : codes)
    if (file == code.path)
      return it->second = code.map;
  StringRef name = sys::path::stem(file);
  for (const Code &code : codes)
    if (name == code.name)
      return it->second = code.map;
  for (const Code &code : codes)
    if (std::unique_ptr<MemoryBuffer> buffer =
            readIfSize(file, code.text.size());
        buffer && buffer->getBuffer() == code.text)
      return it->second = code.map;
  return std::nullopt;
}

bool WrapperFiles::isOtherCode(StringRef file, uint32_t map) const {
  StringRef name = sys::path::stem(file);
  bool isHash = name.size() == 52 && name.consume_front("c") &&
                llvm::all_of(name, [](char c) {
                  return (c >= 'a' && c <= 'z') || (c >= '2' && c <= '7');
                });
  return isHash && llvm::any_of(codes, [&](const Code &code) {
           return code.map == map && StringRef(code.name).drop_front() != name;
         });
}
