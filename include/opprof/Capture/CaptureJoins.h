// What records of a capture point at. A kernel's record has numbers: of the
// call that launched it, of the id that this call carried, of a CUDA graph's
// node. This gathers what they stand for, for everyone who prints or joins
// records.

#ifndef OPPROF_CAPTURE_CAPTUREJOINS_H
#define OPPROF_CAPTURE_CAPTUREJOINS_H

#include "opprof/Capture/CaptureReader.h"

#include <map>
#include <optional>

namespace opprof::capture {

/// Fills itself while a file is read. A visitor that needs more records
/// overrides their functions; those that are overridden here are its own.
class CaptureJoins : public CaptureVisitor {
public:
  explicit CaptureJoins(const CaptureReader &reader) : Reader(reader) {}

  void externalId(const ExternalIdRecord &r) final {
    ByCorrelation[r.correlation] = r.id;
  }
  void graphNode(const GraphNodeRecord &r) final { Nodes[r.node] = r; }
  void idName(const IdNameRecord &r) final {
    IdNames[r.id] = std::string(Reader.string(r.name));
  }
  void apiName(const ApiNameRecord &r) final {
    ApiNames[{r.domain, r.cbid}] = std::string(Reader.string(r.name));
  }
  void clock(const ClockRecord &r) final {
    if (!Clock.cupti)
      Clock = r;
  }
  void meta(std::string_view key, std::string_view value) final {
    Meta[std::string(key)] = std::string(value);
  }
  void device(const DeviceRecord &r) final {
    Devices[r.id] = {r, std::string(Reader.string(r.name))};
  }

  /// The id that a launch carried, or 0: of a kernel of a CUDA graph the one
  /// under which its node was captured, followed from clone to original.
  uint64_t idOf(uint32_t correlation, uint64_t graphNode) const;
  /// What an id stands for; null where the program did not say.
  const std::string *nameOfId(uint64_t id) const;
  /// "cudaLaunchKernel"; a number where the file does not name the call.
  std::string apiNameOf(uint32_t domain, uint32_t cbid) const;
  /// A number that the writer noted as text, where it did.
  std::optional<uint64_t> metaNumber(const std::string &key) const;

  std::unordered_map<uint32_t, uint64_t> ByCorrelation;
  std::unordered_map<uint64_t, GraphNodeRecord> Nodes;
  std::unordered_map<uint64_t, std::string> IdNames;
  std::map<std::pair<uint32_t, uint32_t>, std::string> ApiNames;
  std::map<std::string, std::string> Meta;
  std::map<uint32_t, std::pair<DeviceRecord, std::string>> Devices;
  ClockRecord Clock{};

protected:
  const CaptureReader &Reader;
};

/// "Memcpy HtoD (Pageable -> Device)", as torch.profiler names copies.
std::string copyName(const MemcpyRecord &r);
std::string memsetName(const MemsetRecord &r);
/// "activity buffer request": what CUPTI took time for.
std::string overheadName(uint32_t kind);

} // namespace opprof::capture

#endif // OPPROF_CAPTURE_CAPTUREJOINS_H
