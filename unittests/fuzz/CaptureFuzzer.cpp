//===- CaptureFuzzer.cpp ------- Feeds the capture reader random files ----===//
//
// The checksums are made right first, so that what lies behind them is reached.
//
//===----------------------------------------------------------------------===//

#include "opprof/Capture/CaptureReader.h"

#include <cstring>

using namespace opprof::capture;

static void repairChecksums(std::string &file) {
  size_t at = sizeof(FileHeader);
  while (at + sizeof(ChunkHeader) <= file.size()) {
    ChunkHeader header;
    std::memcpy(&header, &file[at], sizeof(header));
    size_t payload = at + sizeof(header);
    if (header.size > file.size() - payload)
      return;
    header.crc = 0;
    uint32_t crc = crc32(0, &header, sizeof(header));
    header.crc = crc32(crc, &file[payload], header.size);
    std::memcpy(&file[at], &header, sizeof(header));
    at = payload + ((size_t(header.size) + 7) & ~size_t(7));
  }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string file(reinterpret_cast<const char *>(data), size);
  CaptureReader reader;
  CaptureVisitor visitor;
  reader.readBuffer(file, "fuzz", visitor);
  if (file.size() >= sizeof(FileHeader)) {
    repairChecksums(file);
    reader.readBuffer(file, "fuzz", visitor);
  }
  return 0;
}
