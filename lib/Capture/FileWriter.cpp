// Writes capture files. See docs/formats/capture.md for the format.

#include "opprof/Capture/FileWriter.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <unistd.h>

using namespace opprof::capture;

/// Records are written at the latest when this much of them has gathered.
static constexpr size_t kFlushBytes = 4u << 20;

std::string opprof::capture::recordedName() {
  const char *rank = std::getenv("RANK");
  return std::string("r") + (rank ? rank : "") + "-p" +
         std::to_string(::getpid());
}

FileWriter::~FileWriter() {
  if (Descriptor >= 0)
    ::close(Descriptor);
}

bool FileWriter::open(const std::string &path, std::string &error) {
  Path = path;
  Descriptor =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (Descriptor < 0) {
    error = path + ": cannot be written: " + std::strerror(errno);
    return false;
  }
  FileHeader header{};
  std::memcpy(header.magic, kFileMagic, sizeof(header.magic));
  header.version = kFileVersion;
  header.headerBytes = sizeof(header);
  header.processId = uint32_t(::getpid());
  timespec now;
  ::clock_gettime(CLOCK_REALTIME, &now);
  header.startRealtimeNs = uint64_t(now.tv_sec) * 1000000000 + now.tv_nsec;
  if (writeAll(reinterpret_cast<const char *>(&header), sizeof(header)))
    return true;
  error = Error;
  return false;
}

void FileWriter::addBytes(ChunkType type, const void *data, size_t size,
                          uint32_t recordBytes, size_t count) {
  Pending &pending = Chunks[type];
  pending.RecordBytes = recordBytes;
  pending.Count += uint32_t(count);
  const char *bytes = static_cast<const char *>(data);
  pending.Data.insert(pending.Data.end(), bytes, bytes + size);
  PendingBytes += size;
  if (type != ChunkType::Strings && type != ChunkType::Meta)
    Records += count;
  if (PendingBytes >= kFlushBytes)
    flush();
}

uint32_t FileWriter::string(std::string_view text) {
  auto it = Numbers.find(text);
  if (it != Numbers.end())
    return it->second;
  uint32_t number = uint32_t(Numbers.size());
  Numbers.emplace(std::string(text), number);
  // A name may be long (C++ templates), but a chunk has a limit.
  uint32_t size = uint32_t(std::min<size_t>(text.size(), 1u << 20));
  std::vector<char> record(8 + size);
  std::memcpy(record.data(), &number, 4);
  std::memcpy(record.data() + 4, &size, 4);
  std::memcpy(record.data() + 8, text.data(), size);
  // Without addBytes' flush: the record that uses the number is not in yet.
  Pending &pending = Chunks[ChunkType::Strings];
  ++pending.Count;
  pending.Data.insert(pending.Data.end(), record.begin(), record.end());
  PendingBytes += record.size();
  return number;
}

void FileWriter::meta(std::string_view key, std::string_view value) {
  uint32_t sizes[2] = {uint32_t(std::min<size_t>(key.size(), 1u << 20)),
                       uint32_t(std::min<size_t>(value.size(), 1u << 20))};
  std::vector<char> record(sizeof(sizes));
  std::memcpy(record.data(), sizes, sizeof(sizes));
  record.insert(record.end(), key.begin(), key.begin() + sizes[0]);
  record.insert(record.end(), value.begin(), value.begin() + sizes[1]);
  addBytes(ChunkType::Meta, record.data(), record.size(), 0, 1);
}

void FileWriter::appendChunk(std::vector<char> &out, ChunkType type,
                             const Pending &pending) {
  ChunkHeader header{};
  header.magic = kChunkMagic;
  header.type = uint32_t(type);
  header.size = uint32_t(pending.Data.size());
  header.count = pending.Count;
  header.recordBytes = pending.RecordBytes;
  uint32_t crc = crc32(0, &header, sizeof(header));
  header.crc = crc32(crc, pending.Data.data(), pending.Data.size());
  const char *bytes = reinterpret_cast<const char *>(&header);
  out.insert(out.end(), bytes, bytes + sizeof(header));
  out.insert(out.end(), pending.Data.begin(), pending.Data.end());
  out.resize((out.size() + 7) & ~size_t(7));
  ++ChunkCount;
}

bool FileWriter::flush() {
  if (Descriptor < 0)
    return false;
  std::vector<char> out;
  out.reserve(PendingBytes + Chunks.size() * 64);
  // Strings before the records that use them, whatever the types' numbers.
  auto strings = Chunks.find(ChunkType::Strings);
  if (strings != Chunks.end() && strings->second.Count)
    appendChunk(out, ChunkType::Strings, strings->second);
  for (auto &[type, pending] : Chunks) {
    if (pending.Count && type != ChunkType::Strings)
      appendChunk(out, type, pending);
    pending.Data.clear();
    pending.Count = 0;
  }
  PendingBytes = 0;
  return out.empty() || writeAll(out.data(), out.size());
}

bool FileWriter::finish(uint64_t lost, uint64_t time) {
  flush();
  EndRecord end{Records, lost, ChunkCount, time};
  add(ChunkType::End, end);
  bool good = flush() && Error.empty();
  if (Descriptor >= 0)
    ::close(Descriptor);
  Descriptor = -1;
  return good;
}

void FileWriter::abandon() {
  // The parent shares the file's position: closing is all a fork may do.
  if (Descriptor >= 0)
    ::close(Descriptor);
  Descriptor = -1;
}

bool FileWriter::writeAll(const char *data, size_t size) {
  if (!Error.empty())
    return false;
  while (size) {
    ssize_t done = ::write(Descriptor, data, size);
    if (done < 0) {
      if (errno == EINTR)
        continue;
      Error = Path + ": cannot be written: " + std::strerror(errno);
      return false;
    }
    data += done;
    size -= size_t(done);
    Bytes += uint64_t(done);
  }
  return true;
}
