// Writes capture files. Gathers records by type and writes them as checksummed
// chunks, each group of chunks by one call to write(2): what was handed to the
// kernel survives the death of the process.

#ifndef OPPROF_CAPTURE_FILEWRITER_H
#define OPPROF_CAPTURE_FILEWRITER_H

#include "opprof/Capture/CaptureFile.h"

#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace opprof::capture {

/// What a file of this process is called, between its kind and its ending:
/// "r<rank>-p<process>", where the rank is torchrun's, and empty without one.
/// python/opprof/run_folder.py finds files by it.
std::string recordedName();

class FileWriter {
public:
  ~FileWriter();

  bool open(const std::string &path, std::string &error);

  /// Adds one fixed-size record.
  template <typename Record> void add(ChunkType type, const Record &record) {
    addAll(type, &record, 1);
  }
  /// Adds `count` of them.
  template <typename Record>
  void addAll(ChunkType type, const Record *records, size_t count) {
    addBytes(type, records, count * sizeof(Record), sizeof(Record), count);
  }
  /// Adds one record of varying size.
  void addVariable(ChunkType type, const void *data, size_t size) {
    addBytes(type, data, size, 0, 1);
  }

  /// The number of a text, defined in the file before it is used.
  uint32_t string(std::string_view text);
  bool hasString(std::string_view text) const {
    return Numbers.find(text) != Numbers.end();
  }
  size_t strings() const { return Numbers.size(); }
  void meta(std::string_view key, std::string_view value);

  /// Writes what was gathered. False once the disk failed; the failure stays.
  bool flush();
  /// Flushes and writes the chunk that says the file is whole.
  bool finish(uint64_t lost, uint64_t time);
  /// Forgets the file without touching it, in a fork.
  void abandon();

  /// Whether what is added still gets into the file.
  bool isOpen() const { return Descriptor >= 0; }
  uint64_t records() const { return Records; }
  uint64_t bytes() const { return Bytes; }
  const std::string &error() const { return Error; }

  /// Held by every caller for as long as it adds records.
  std::mutex Mutex;

private:
  struct Pending {
    std::vector<char> Data;
    uint32_t Count = 0, RecordBytes = 0;
  };
  void addBytes(ChunkType type, const void *data, size_t size,
                uint32_t recordBytes, size_t count);
  void appendChunk(std::vector<char> &out, ChunkType type,
                   const Pending &pending);
  bool writeAll(const char *data, size_t size);

  int Descriptor = -1;
  std::map<ChunkType, Pending> Chunks;
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view s) const {
      return std::hash<std::string_view>()(s);
    }
  };
  std::unordered_map<std::string, uint32_t, Hash, std::equal_to<>> Numbers;
  size_t PendingBytes = 0;
  uint64_t Records = 0, Bytes = 0, ChunkCount = 0;
  std::string Path, Error;
};

} // namespace opprof::capture

#endif // OPPROF_CAPTURE_FILEWRITER_H
