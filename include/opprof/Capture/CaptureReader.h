// Reads capture files. A streaming reader of capture files. It checks every
// size and checksum before it believes one, and takes a file whose writer was
// killed.

#ifndef OPPROF_CAPTURE_CAPTUREREADER_H
#define OPPROF_CAPTURE_CAPTUREREADER_H

#include "opprof/Capture/CaptureFile.h"

#include <cstdio>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace opprof::capture {

/// Receives what a capture file holds, in file order. Strings are delivered
/// before the first record that uses them; `CaptureReader::string` resolves
/// a string number at any time after that.
class CaptureVisitor {
public:
  virtual ~CaptureVisitor() = default;
  virtual void meta(std::string_view key, std::string_view value) {}
  virtual void kernel(const KernelRecord &) {}
  virtual void memcpy(const MemcpyRecord &) {}
  virtual void memset(const MemsetRecord &) {}
  virtual void sync(const SyncRecord &) {}
  virtual void api(const ApiRecord &) {}
  virtual void overhead(const OverheadRecord &) {}
  virtual void externalId(const ExternalIdRecord &) {}
  virtual void marker(const MarkerRecord &) {}
  virtual void memory(const MemoryRecord &) {}
  virtual void graphNode(const GraphNodeRecord &) {}
  virtual void device(const DeviceRecord &) {}
  virtual void clock(const ClockRecord &) {}
  virtual void mark(const MarkRecord &) {}
  virtual void idName(const IdNameRecord &) {}
  virtual void apiName(const ApiNameRecord &) {}
  virtual void operatorRun(const OperatorRecord &) {}
  virtual void place(const PlaceRecord &) {}
  virtual void allocation(const AllocationRecord &) {}
  virtual void loss(const LossRecord &) {}
  virtual void counterSet(const CounterSetHeader &,
                          const std::vector<uint32_t> &metrics) {}
  virtual void counters(const CounterRowHeader &,
                        const std::vector<double> &values) {}
};

/// What a reading found out about the file as a whole.
struct CaptureSummary {
  bool complete = false;         ///< The writer ended it.
  uint64_t bytes = 0;            ///< Bytes read.
  uint64_t ignoredTailBytes = 0; ///< Of a chunk that was cut short at the end.
  uint64_t chunks = 0;
  uint64_t unknownChunks = 0; ///< Of types this reader does not know.
  uint64_t records = 0;
  uint64_t lost = 0; ///< Records that the writer says it lost.
};

class CaptureReader {
public:
  /// Reads `path` and calls `visitor`. On failure returns false, and `error()`
  /// names the file, the byte offset, what was wrong and what to do.
  bool read(const std::string &path, CaptureVisitor &visitor);

  /// The same for bytes in memory; `name` stands for the path in errors.
  bool readBuffer(std::string_view bytes, const std::string &name,
                  CaptureVisitor &visitor);

  const std::string &error() const { return Error; }
  const CaptureSummary &summary() const { return Summary; }

  /// The text of a string number; empty for `kNone` or an undefined one.
  std::string_view string(uint32_t number) const;

private:
  class Source;
  bool readSource(Source &source, const std::string &name,
                  CaptureVisitor &visitor);
  bool fail(const std::string &name, uint64_t offset, const std::string &what);
  bool dispatch(const ChunkHeader &header, const char *payload,
                const std::string &name, uint64_t offset,
                CaptureVisitor &visitor);

  std::string Error;
  CaptureSummary Summary;
  std::vector<std::string> Strings;
};

/// A kernel's name as its source has it; other names as they are.
std::string demangled(const std::string &name);

/// A capture and the rank that it counts as.
struct RankCapture {
  std::string path;
  uint32_t rank = 0;
};

/// Writes into `measures` as JSON what communication costs each rank, on the
/// clock of the first: how long kernels of NCCL and others ran, how much of the
/// former no other kernel covers, and when each collective ran. On failure
/// returns false and fills `error`.
bool measureRanks(const std::vector<RankCapture> &captures,
                  const std::string &measures, std::string &error);

/// One line per kind of record with its count, kernels' total time and whether
/// the file is complete.
bool summarize(const std::string &path, std::string &text, std::string &error);

} // namespace opprof::capture

#endif // OPPROF_CAPTURE_CAPTUREREADER_H
