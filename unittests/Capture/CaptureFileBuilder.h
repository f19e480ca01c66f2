// Capture files written by hand. Puts the bytes of a capture file together for
// tests of its readers, right or wrong.

#ifndef OPPROF_UNITTESTS_CAPTURE_CAPTUREFILEBUILDER_H
#define OPPROF_UNITTESTS_CAPTURE_CAPTUREFILEBUILDER_H

#include "opprof/Capture/CaptureFile.h"

#include <cstring>
#include <string>

namespace opprof::capture {

template <typename T> std::string bytesOf(const T &value) {
  return std::string(reinterpret_cast<const char *>(&value), sizeof(value));
}

inline std::string fileHeader() {
  FileHeader header{};
  std::memcpy(header.magic, kFileMagic, 8);
  header.version = kFileVersion;
  header.headerBytes = sizeof(header);
  return bytesOf(header);
}

inline std::string stringRecord(uint32_t number, const std::string &text) {
  return bytesOf(number) + bytesOf(uint32_t(text.size())) + text;
}

inline void appendChunk(std::string &out, ChunkType type, uint32_t count,
                        uint32_t recordBytes, const std::string &payload) {
  ChunkHeader header{kChunkMagic, uint32_t(type), uint32_t(payload.size()),
                     count,       recordBytes,    0};
  uint32_t crc = crc32(0, &header, sizeof(header));
  header.crc = crc32(crc, payload.data(), payload.size());
  out.append(reinterpret_cast<const char *>(&header), sizeof(header));
  out += payload;
  out.resize((out.size() + 7) & ~size_t(7));
}

/// One record a chunk: a file may be written like that, too.
class CaptureFileBuilder {
public:
  uint32_t string(const std::string &text) {
    appendChunk(bytes, ChunkType::Strings, 1, 0, stringRecord(strings, text));
    return strings++;
  }
  void meta(const std::string &key, const std::string &value) {
    appendChunk(bytes, ChunkType::Meta, 1, 0,
                bytesOf(uint32_t(key.size())) +
                    bytesOf(uint32_t(value.size())) + key + value);
  }
  template <typename Record> void add(ChunkType type, const Record &record) {
    appendChunk(bytes, type, 1, sizeof(record), bytesOf(record));
  }
  void end() { add(ChunkType::End, EndRecord{}); }

  std::string bytes = fileHeader();

private:
  uint32_t strings = 0;
};

} // namespace opprof::capture

#endif // OPPROF_UNITTESTS_CAPTURE_CAPTUREFILEBUILDER_H
