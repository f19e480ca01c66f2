// The records of a capture file. The on-disk structures of a capture file, as
// docs/formats/capture.md describes them. Writer and reader share this header;
// it needs nothing but the C++ library.

#ifndef OPPROF_CAPTURE_CAPTUREFILE_H
#define OPPROF_CAPTURE_CAPTUREFILE_H

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace opprof::capture {

inline constexpr char kFileMagic[8] = {'O', 'P', 'P', 'R', 'O', 'F', 'C', 'P'};
inline constexpr uint32_t kFileVersion = 1;
inline constexpr uint32_t kChunkMagic = 0x4b4e4843; // "CHNK"
/// No chunk may be larger; a reader refuses one that claims to be.
inline constexpr uint32_t kMaxChunkBytes = 1u << 28;

/// An absent string, device, stream or correlation.
inline constexpr uint32_t kNone = 0xffffffffu;

struct FileHeader {
  char magic[8];
  uint32_t version;
  uint32_t headerBytes;
  uint32_t processId;
  uint32_t reserved;
  uint64_t startRealtimeNs;
};

/// `size` bytes of payload follow, then zero bytes up to a multiple of 8.
struct ChunkHeader {
  uint32_t magic;
  uint32_t type;
  uint32_t size;
  uint32_t count;
  uint32_t recordBytes; ///< 0 for records of varying size.
  uint32_t crc; ///< CRC-32 (IEEE) of the header with crc = 0, then the payload.
};

enum class ChunkType : uint32_t {
  Meta = 1,
  Strings = 2,
  Kernels = 3,
  Memcpys = 4,
  Memsets = 5,
  Syncs = 6,
  Apis = 7,
  Overheads = 8,
  ExternalIds = 9,
  Markers = 10,
  Memory = 11,
  GraphNodes = 12,
  Devices = 13,
  Clocks = 14,
  Marks = 15,
  IdNames = 16,
  CounterSets = 17,
  Counters = 18,
  Losses = 19,
  ApiNames = 20,
  End = 21,
  Operators = 22,
  Places = 23,
  Allocations = 24,
};

struct KernelRecord {
  uint64_t start, end;
  uint64_t graphNode;
  uint64_t localMemoryTotal;
  uint32_t name;
  uint32_t device, context, stream;
  uint32_t correlation;
  uint32_t graph;
  int32_t grid[3];
  int32_t block[3];
  uint32_t cluster[3];
  uint32_t staticShared, dynamicShared, sharedExecuted;
  uint32_t localPerThread;
  uint16_t registers;
  uint16_t flags; ///< bit 0: launched by a device-side graph
};

struct MemcpyRecord {
  uint64_t start, end, bytes, graphNode;
  uint32_t device, context, stream, correlation, graph, peerDevice;
  uint8_t copyKind, sourceKind, destinationKind, flags;
  uint32_t reserved;
};

struct MemsetRecord {
  uint64_t start, end, bytes, graphNode;
  uint32_t device, context, stream, correlation, graph, value;
  uint16_t memoryKind, flags;
  uint32_t reserved;
};

struct SyncRecord {
  uint64_t start, end;
  uint32_t type, context, stream, correlation, event, result;
};

struct ApiRecord {
  uint64_t start, end;
  uint32_t domain; ///< 0 driver, 1 runtime
  uint32_t cbid, thread, correlation, result, process;
};

struct OverheadRecord {
  uint64_t start, end;
  uint32_t kind, thread, correlation, reserved;
};

struct ExternalIdRecord {
  uint64_t id;
  uint32_t correlation;
  uint32_t kind;
};

struct MarkerRecord {
  uint64_t time;
  uint32_t id, flags; ///< flags as CUPTI's: 1 instantaneous, 2 start, 4 end
  uint32_t name, domain, thread, reserved;
};

struct MemoryRecord {
  uint64_t time, address, bytes;
  uint32_t operation; ///< 1 allocate, 2 release
  uint32_t kind, device, context, stream, correlation;
};

struct GraphNodeRecord {
  uint64_t node;
  uint64_t original;   ///< the node it was cloned from, or 0
  uint64_t externalId; ///< the innermost id at its creation, or 0
  uint32_t type;       ///< CUgraphNodeType
  uint32_t graph;
};

struct DeviceRecord {
  uint32_t id, computeMajor, computeMinor, smCount;
  uint32_t smClockKHz, memoryClockKHz, memoryBusBits, l2Bytes;
  uint64_t memoryBytes;
  uint32_t maxThreadsPerSm, sharedPerSm, registersPerSm, warpSize;
  uint32_t name, reserved;
};

/// One instant on three clocks, so that files of several ranks can be aligned.
struct ClockRecord {
  uint64_t cupti, realtime, monotonic;
};

/// The name of a step's marks that only gets the recording over its first
/// costs.
inline constexpr std::string_view kWarmUpStep = "warm-up";

/// Under kRecorderKey a file of operators names who made it; a capture has no
/// such entry.
inline constexpr std::string_view kRecorderKey = "recorder";
inline constexpr std::string_view kObserver = "opprof observer";

/// Under which a file of operators says how many nanoseconds PyTorch takes to
/// call back for one.
inline constexpr std::string_view kCallingKey = "calling";
/// Under which a file of a device says how many nanoseconds CUPTI and the
/// library take to note one call of the driver.
inline constexpr std::string_view kNotingCallKey = "noting a call";

struct MarkRecord {
  uint64_t time;
  uint64_t value;
  uint32_t kind; ///< 1 step begin, 2 step end, 3 note
  uint32_t name, thread, reserved;
};

struct IdNameRecord {
  uint64_t id;
  uint32_t name, reserved;
};

struct LossRecord {
  uint64_t count;
  uint32_t
      reason; ///< 1 CUPTI dropped, 2 own pool full, 3 record not understood
  uint32_t reserved;
};

struct ApiNameRecord {
  uint32_t domain, cbid, name, reserved;
};

struct EndRecord {
  uint64_t records, lost, chunks, time;
};

/// What an OperatorRecord is of, as its `scope` says.
enum class OperatorScope : uint8_t {
  Operator = 0,
  Backward = 1, ///< a function that autograd recorded
  Range = 2,    ///< marked by PyTorch or by the program
  Host = 3,     ///< what the interpreter did: garbage, a compilation
};

/// An operator, or what else the host did, on one thread from `start` to `end`.
struct OperatorRecord {
  uint64_t start, end; ///< on the clock of ClockRecord::cupti
  uint64_t id;         ///< what the launches that it makes carry
  int64_t sequence;    ///< autograd's number; negative where it has none
  uint32_t thread, forwardThread; ///< as PyTorch numbers them; 0 is none
  uint32_t name;                  ///< string
  uint32_t place;                 ///< PlaceRecord::number, or kNone
  uint32_t sizes, types;          ///< strings, or kNone
  uint32_t scope : 8;
  /// Of a convolution, one more than the string of its inputs that are no
  /// tensors; 0 is none.
  uint32_t values : 24;
  uint32_t recordingNs; ///< what recording it took; 0 where not measured
};

/// Where in the program an operator was called.
struct PlaceRecord {
  uint32_t number;
  uint32_t module;   ///< string: its path from the model that was called
  uint32_t file;     ///< string: of the deepest line outside of PyTorch
  uint32_t function; ///< string
  uint32_t line;     ///< 0 where it is not known
  uint32_t group;    ///< string: an optimizer's group of parameters
};

/// What an AllocationRecord says, as its `operation` has it.
enum class AllocationOperation : uint8_t {
  Allocate = 1,
  Free = 2,
  Held = 3,    ///< what the device's allocator has given out is `bytes`
  Written = 4, ///< earlier ones, of all threads, stand before this one
};

/// Memory of tensors that PyTorch took or gave back.
struct AllocationRecord {
  uint64_t time; ///< on the clock of ClockRecord::cupti
  uint64_t address;
  uint64_t bytes;     ///< 0 where what frees it does not say
  uint64_t id;        ///< OperatorRecord::id of the innermost one, or 0
  uint32_t place;     ///< PlaceRecord::number, or kNone
  uint8_t operation;  ///< AllocationOperation
  int8_t deviceType;  ///< as c10::DeviceType numbers them: 0 CPU, 1 CUDA
  int8_t deviceIndex; ///< of the CPU -1
  uint8_t reserved;
};

/// Followed by `metrics` string numbers (uint32_t each).
struct CounterSetHeader {
  uint32_t set, device, metrics, passes;
  uint32_t replay; ///< 1 user replay, 2 kernel replay
  uint32_t reserved;
};

/// Followed by one double per metric of the set; NaN is absent.
struct CounterRowHeader {
  uint64_t externalId;
  uint32_t set, launch, name, metrics;
  int32_t grid[3];
  int32_t block[3];
};

static_assert(sizeof(FileHeader) == 32 && sizeof(ChunkHeader) == 24);
static_assert(sizeof(KernelRecord) == 112 && sizeof(MemcpyRecord) == 64);
static_assert(sizeof(MemsetRecord) == 64 && sizeof(SyncRecord) == 40);
static_assert(sizeof(ApiRecord) == 40 && sizeof(OverheadRecord) == 32);
static_assert(sizeof(ExternalIdRecord) == 16 && sizeof(MarkerRecord) == 32);
static_assert(sizeof(MemoryRecord) == 48 && sizeof(GraphNodeRecord) == 32);
static_assert(sizeof(DeviceRecord) == 64 && sizeof(ClockRecord) == 24);
static_assert(sizeof(MarkRecord) == 32 && sizeof(IdNameRecord) == 16);
static_assert(sizeof(LossRecord) == 16 && sizeof(ApiNameRecord) == 16);
static_assert(sizeof(EndRecord) == 32 && sizeof(CounterSetHeader) == 24);
static_assert(sizeof(CounterRowHeader) == 48);
static_assert(sizeof(OperatorRecord) == 64 && sizeof(PlaceRecord) == 24);
static_assert(sizeof(AllocationRecord) == 40);

/// CRC-32 (IEEE 802.3, as zlib's crc32), continuing from `seed`.
uint32_t crc32(uint32_t seed, const void *data, size_t size);

} // namespace opprof::capture

#endif // OPPROF_CAPTURE_CAPTUREFILE_H
