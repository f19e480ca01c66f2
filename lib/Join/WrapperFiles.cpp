// Whose code a file of a run is.

#include "opprof/Join/WrapperFiles.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
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

bool opprof::join::isCodeName(StringRef name) {
  return name.size() == 52 && name.consume_front("c") &&
         llvm::all_of(name, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '2' && c <= '7');
         });
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

std::optional<uint32_t> WrapperFiles::findName(StringRef name) const {
  for (const Code &code : codes)
    if (name == code.name)
      return code.map;
  return std::nullopt;
}

bool WrapperFiles::haveCodeOfAll(uint32_t count) const {
  return llvm::all_of(llvm::seq(count), [&](uint32_t map) {
    return llvm::any_of(codes,
                        [&](const Code &code) { return code.map == map; });
  });
}

/// Whether a line of the code names a symbolic size: "s77 = arg0_1".
static bool namesSymbol(StringRef text) {
  while (!text.empty()) {
    auto [line, rest] = text.split('\n');
    text = rest;
    StringRef name = line.ltrim();
    if (!name.consume_front("s") && !name.consume_front("u"))
      continue;
    uint64_t number = 0;
    if (!name.consumeInteger(10, number) && name.starts_with(" = "))
      return true;
  }
  return false;
}

bool WrapperFiles::isStatic(uint32_t map) const {
  for (const Code &code : codes)
    if (code.map == map)
      return !namesSymbol(code.text);
  return false;
}

std::vector<std::pair<std::string, std::string>>
WrapperFiles::inputsOf(uint32_t map) const {
  std::vector<std::pair<std::string, std::string>> inputs;
  for (const Code &code : codes) {
    if (code.map != map)
      continue;
    // "assert_size_stride(arg2_1, (256, 512), (512, 1))"
    for (StringRef rest = code.text; !rest.empty();) {
      auto [line, after] = rest.split('\n');
      rest = after;
      line = line.ltrim();
      if (!line.consume_front("assert_size_stride("))
        continue;
      auto [name, sizes] = line.split(", (");
      if (!name.starts_with("arg") && !name.starts_with("primals_"))
        continue;
      std::string shape;
      for (char c : sizes.split(')').first)
        if (c != ' ')
          shape += c;
      if (StringRef(shape).ends_with(","))
        shape.pop_back();
      inputs.push_back({name.str(), shape});
    }
  }
  return inputs;
}

bool WrapperFiles::isOtherCode(StringRef file, uint32_t map) const {
  StringRef name = sys::path::stem(file);
  return isCodeName(name) && llvm::any_of(codes, [&](const Code &code) {
           return code.map == map && code.name != name;
         });
}
