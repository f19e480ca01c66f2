// Reads capture files. Chunks are read one at a time, so that memory does not
// grow with the file.

#include "opprof/Capture/CaptureReader.h"

#include <cerrno>
#include <cstring>
#include <memory>

using namespace opprof::capture;

/// Bytes from a file or from memory.
class CaptureReader::Source {
public:
  explicit Source(std::FILE *file) : File(file) {}
  explicit Source(std::string_view bytes) : Bytes(bytes) {}

  /// Reads up to `size` bytes and returns how many there were.
  size_t read(void *out, size_t size) {
    if (File)
      return std::fread(out, 1, size, File);
    size_t have = std::min(size, Bytes.size());
    if (have)
      std::memcpy(out, Bytes.data(), have);
    Bytes.remove_prefix(have);
    return have;
  }

  /// Appends up to `size` bytes to `out`, growing it only as bytes arrive.
  size_t append(std::vector<char> &out, size_t size) {
    size_t total = 0;
    while (total < size) {
      size_t step = std::min<size_t>(size - total, 1u << 20);
      size_t at = out.size();
      out.resize(at + step);
      size_t have = read(out.data() + at, step);
      out.resize(at + have);
      total += have;
      if (have < step)
        break;
    }
    return total;
  }

private:
  std::FILE *File = nullptr;
  std::string_view Bytes;
};

bool CaptureReader::fail(const std::string &name, uint64_t offset,
                         const std::string &what) {
  Error = name + ": at byte " + std::to_string(offset) + ": " + what;
  return false;
}

std::string_view CaptureReader::string(uint32_t number) const {
  return number < Strings.size() ? std::string_view(Strings[number])
                                 : std::string_view();
}

bool CaptureReader::read(const std::string &path, CaptureVisitor &visitor) {
  std::unique_ptr<std::FILE, int (*)(std::FILE *)> file(
      std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) {
    Error = path + ": cannot be opened: " + std::strerror(errno);
    return false;
  }
  Source source(file.get());
  return readSource(source, path, visitor);
}

bool CaptureReader::readBuffer(std::string_view bytes, const std::string &name,
                               CaptureVisitor &visitor) {
  Source source(bytes);
  return readSource(source, name, visitor);
}

bool CaptureReader::readSource(Source &source, const std::string &name,
                               CaptureVisitor &visitor) {
  Error.clear();
  Summary = CaptureSummary();
  Strings.clear();

  FileHeader file;
  size_t have = source.read(&file, sizeof(file));
  if (have < sizeof(file) || std::memcmp(file.magic, kFileMagic, 8) != 0)
    return fail(name, 0,
                have == 0 ? "the file is empty; expected a capture file"
                          : "not a capture file (it does not begin with "
                            "OPPROFCP); give the .opcap file of a run folder");
  if (file.version != kFileVersion)
    return fail(name, 8,
                "version " + std::to_string(file.version) +
                    " of the format; this reader knows version " +
                    std::to_string(kFileVersion) +
                    "; use the opprof that wrote the file");
  if (file.headerBytes < sizeof(file) || file.headerBytes > 4096)
    return fail(name, 12,
                "header of " + std::to_string(file.headerBytes) +
                    " bytes; the file is damaged");
  uint64_t offset = file.headerBytes;
  std::vector<char> payload;
  if (source.append(payload, file.headerBytes - sizeof(file)) !=
      file.headerBytes - sizeof(file))
    return fail(name, sizeof(file), "the file ends inside its header");

  for (;;) {
    ChunkHeader header;
    have = source.read(&header, sizeof(header));
    if (have == 0)
      break;
    if (have < sizeof(header)) {
      Summary.ignoredTailBytes = have;
      break;
    }
    if (header.magic != kChunkMagic)
      return fail(
          name, offset,
          "no chunk begins here; the file is damaged from this byte on");
    if (header.size > kMaxChunkBytes)
      return fail(name, offset,
                  "a chunk claims " + std::to_string(header.size) +
                      " bytes; the file is damaged from this byte on");
    size_t padded = (size_t(header.size) + 7) & ~size_t(7);
    payload.clear();
    have = source.append(payload, padded);
    if (have < padded) {
      Summary.ignoredTailBytes = sizeof(header) + have;
      break;
    }
    ChunkHeader plain = header;
    plain.crc = 0;
    uint32_t crc = crc32(0, &plain, sizeof(plain));
    crc = crc32(crc, payload.data(), header.size);
    if (crc != header.crc)
      return fail(name, offset,
                  "the checksum of a chunk does not match; the file is damaged "
                  "from this byte on");
    if (!dispatch(header, payload.data(), name, offset, visitor))
      return false;
    ++Summary.chunks;
    offset += sizeof(header) + padded;
    Summary.bytes = offset;
  }
  return true;
}

/// Calls `take` with each fixed-size record; false when the sizes don't add up.
template <typename Record, typename Take>
static bool eachRecord(const ChunkHeader &header, const char *payload,
                       Take take) {
  if (header.recordBytes < sizeof(Record) ||
      uint64_t(header.recordBytes) * header.count != header.size)
    return false;
  for (uint32_t i = 0; i < header.count; ++i) {
    Record record;
    std::memcpy(&record, payload + size_t(i) * header.recordBytes,
                sizeof(record));
    take(record);
  }
  return true;
}

bool CaptureReader::dispatch(const ChunkHeader &header, const char *payload,
                             const std::string &name, uint64_t offset,
                             CaptureVisitor &visitor) {
  const char *end = payload + header.size;
  bool good = true;
  switch (ChunkType(header.type)) {
  case ChunkType::Meta: {
    const char *at = payload;
    for (uint32_t i = 0; good && i < header.count; ++i) {
      uint32_t sizes[2];
      good = size_t(end - at) >= sizeof(sizes);
      if (!good)
        break;
      std::memcpy(sizes, at, sizeof(sizes));
      at += sizeof(sizes);
      good = uint64_t(sizes[0]) + sizes[1] <= uint64_t(end - at);
      if (!good)
        break;
      visitor.meta({at, sizes[0]}, {at + sizes[0], sizes[1]});
      at += size_t(sizes[0]) + sizes[1];
    }
    break;
  }
  case ChunkType::Strings: {
    const char *at = payload;
    for (uint32_t i = 0; good && i < header.count; ++i) {
      uint32_t numbers[2];
      good = size_t(end - at) >= sizeof(numbers);
      if (!good)
        break;
      std::memcpy(numbers, at, sizeof(numbers));
      at += sizeof(numbers);
      // Numbers are dense, so a table can't be made to grow past its bytes.
      good = numbers[0] == Strings.size() && numbers[1] <= uint64_t(end - at);
      if (!good)
        break;
      Strings.emplace_back(at, numbers[1]);
      at += numbers[1];
    }
    break;
  }
  case ChunkType::Kernels:
    good = eachRecord<KernelRecord>(header, payload,
                                    [&](auto &r) { visitor.kernel(r); });
    break;
  case ChunkType::Memcpys:
    good = eachRecord<MemcpyRecord>(header, payload,
                                    [&](auto &r) { visitor.memcpy(r); });
    break;
  case ChunkType::Memsets:
    good = eachRecord<MemsetRecord>(header, payload,
                                    [&](auto &r) { visitor.memset(r); });
    break;
  case ChunkType::Syncs:
    good = eachRecord<SyncRecord>(header, payload,
                                  [&](auto &r) { visitor.sync(r); });
    break;
  case ChunkType::Apis:
    good = eachRecord<ApiRecord>(header, payload,
                                 [&](auto &r) { visitor.api(r); });
    break;
  case ChunkType::Overheads:
    good = eachRecord<OverheadRecord>(header, payload,
                                      [&](auto &r) { visitor.overhead(r); });
    break;
  case ChunkType::ExternalIds:
    good = eachRecord<ExternalIdRecord>(
        header, payload, [&](auto &r) { visitor.externalId(r); });
    break;
  case ChunkType::Markers:
    good = eachRecord<MarkerRecord>(header, payload,
                                    [&](auto &r) { visitor.marker(r); });
    break;
  case ChunkType::Memory:
    good = eachRecord<MemoryRecord>(header, payload,
                                    [&](auto &r) { visitor.memory(r); });
    break;
  case ChunkType::GraphNodes:
    good = eachRecord<GraphNodeRecord>(header, payload,
                                       [&](auto &r) { visitor.graphNode(r); });
    break;
  case ChunkType::Devices:
    good = eachRecord<DeviceRecord>(header, payload,
                                    [&](auto &r) { visitor.device(r); });
    break;
  case ChunkType::Clocks:
    good = eachRecord<ClockRecord>(header, payload,
                                   [&](auto &r) { visitor.clock(r); });
    break;
  case ChunkType::Marks:
    good = eachRecord<MarkRecord>(header, payload,
                                  [&](auto &r) { visitor.mark(r); });
    break;
  case ChunkType::IdNames:
    good = eachRecord<IdNameRecord>(header, payload,
                                    [&](auto &r) { visitor.idName(r); });
    break;
  case ChunkType::ApiNames:
    good = eachRecord<ApiNameRecord>(header, payload,
                                     [&](auto &r) { visitor.apiName(r); });
    break;
  case ChunkType::Operators:
    good = eachRecord<OperatorRecord>(header, payload,
                                      [&](auto &r) { visitor.operatorRun(r); });
    break;
  case ChunkType::Places:
    good = eachRecord<PlaceRecord>(header, payload,
                                   [&](auto &r) { visitor.place(r); });
    break;
  case ChunkType::Allocations:
    good = eachRecord<AllocationRecord>(
        header, payload, [&](auto &r) { visitor.allocation(r); });
    break;
  case ChunkType::Losses:
    good = eachRecord<LossRecord>(header, payload, [&](auto &r) {
      Summary.lost += r.count;
      visitor.loss(r);
    });
    break;
  case ChunkType::End:
    good = eachRecord<EndRecord>(header, payload,
                                 [&](auto &) { Summary.complete = true; });
    break;
  case ChunkType::CounterSets: {
    CounterSetHeader set;
    good = header.size >= sizeof(set);
    if (!good)
      break;
    std::memcpy(&set, payload, sizeof(set));
    good = header.size == sizeof(set) + uint64_t(set.metrics) * 4;
    if (!good)
      break;
    std::vector<uint32_t> metrics(set.metrics);
    if (set.metrics)
      std::memcpy(metrics.data(), payload + sizeof(set),
                  metrics.size() * sizeof(uint32_t));
    visitor.counterSet(set, metrics);
    break;
  }
  case ChunkType::Counters: {
    const char *at = payload;
    std::vector<double> values;
    for (uint32_t i = 0; good && i < header.count; ++i) {
      CounterRowHeader row;
      good = size_t(end - at) >= sizeof(row);
      if (!good)
        break;
      std::memcpy(&row, at, sizeof(row));
      at += sizeof(row);
      good = uint64_t(row.metrics) * 8 <= uint64_t(end - at);
      if (!good)
        break;
      values.resize(row.metrics);
      if (row.metrics)
        std::memcpy(values.data(), at, values.size() * sizeof(double));
      at += values.size() * sizeof(double);
      visitor.counters(row, values);
    }
    break;
  }
  default:
    ++Summary.unknownChunks;
    return true;
  }
  if (!good)
    return fail(name, offset,
                "a chunk of type " + std::to_string(header.type) +
                    " does not hold what its header says; the file is damaged "
                    "from this byte on");
  Summary.records += header.count;
  return true;
}
