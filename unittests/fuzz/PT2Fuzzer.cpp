// Archives of torch.export from anywhere: refused with a diagnostic, or read
// into a module that verifies. Input that is no zip archive is packed as the
// graph of one, so that what lies behind the zip reader is reached too.

#include "FXFuzzing.h"

#include "opprof/Target/PT2/PT2.h"

#include "llvm/Support/CRC.h"

#include <string>

using namespace mlir;

static void append(std::string &bytes, uint32_t value, unsigned size) {
  for (unsigned i = 0; i < size; ++i)
    bytes += static_cast<char>(value >> (8 * i));
}

/// A zip archive with one stored entry.
static std::string pack(llvm::StringRef name, llvm::StringRef content) {
  uint32_t crc = llvm::crc32(llvm::ArrayRef(
      reinterpret_cast<const uint8_t *>(content.data()), content.size()));
  auto appendCommon = [&](std::string &bytes) {
    append(bytes, 20, 2); // version needed
    append(bytes, 0, 2);  // flags
    append(bytes, 0, 2);  // stored
    append(bytes, 0, 4);  // time and date
    append(bytes, crc, 4);
    append(bytes, content.size(), 4);
    append(bytes, content.size(), 4);
    append(bytes, name.size(), 2);
    append(bytes, 0, 2); // extra field
  };
  std::string bytes = "PK\x03\x04";
  appendCommon(bytes);
  bytes += name.str() + content.str();
  uint32_t directory = bytes.size();
  bytes += "PK\x01\x02";
  append(bytes, 20, 2); // version made by
  appendCommon(bytes);
  append(bytes, 0, 2); // comment
  append(bytes, 0, 2); // disk
  append(bytes, 0, 2); // internal attributes
  append(bytes, 0, 4); // external attributes
  append(bytes, 0, 4); // offset
  bytes += name;
  uint32_t end = bytes.size();
  bytes += "PK\x05\x06";
  append(bytes, 0, 4); // disks
  append(bytes, 1, 2);
  append(bytes, 1, 2);
  append(bytes, end - directory, 4);
  append(bytes, directory, 4);
  append(bytes, 0, 2); // comment
  return bytes;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  QuietContext context;
  llvm::StringRef input = toText(data, size);
  std::string packed;
  if (!input.starts_with("PK")) {
    packed = pack("net/models/model.json", input);
    input = packed;
  }
  OwningOpRef<ModuleOp> module =
      opprof::fx::importPT2(input, "fuzz.pt2", &context);
  require(!module || succeeded(verify(*module)));
  return 0;
}
