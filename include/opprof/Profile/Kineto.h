//===- Kineto.h - Traces of torch.profiler ----------------------*- C++ -*-===//
//
// Reads the Chrome trace that torch.profiler (Kineto) exports, plain or
// gzipped, into events with exact integer nanoseconds. Nothing is joined here:
// that is Attribution's.
//
//===----------------------------------------------------------------------===//

#ifndef OPPROF_PROFILE_KINETO_H
#define OPPROF_PROFILE_KINETO_H

#include "opprof/Profile/Gzip.h"
#include "opprof/Profile/Profile.h"

#include <memory>

namespace opprof::profile {

/// A process and thread of the host, as a place in KinetoTrace::threads.
using ThreadId = uint32_t;

/// A kernel, copy or memset.
struct TraceActivity {
  ActivityKind kind = ActivityKind::Kernel;
  llvm::StringRef name;
  int64_t startNs = 0;
  int64_t durationNs = 0;
  int64_t device = 0;
  std::optional<int64_t> stream;
  std::optional<uint64_t> correlation;
  std::optional<uint64_t> externalId;
  std::optional<std::array<uint64_t, 3>> grid;
  std::optional<std::array<uint64_t, 3>> block;
  std::optional<uint64_t> registers;
  std::optional<uint64_t> sharedMemory;
  std::optional<double> blocksPerSM;
  std::optional<double> warpsPerSM;
  std::optional<double> occupancyPct;
  std::optional<uint64_t> bytes;
};

/// A call of the CUDA runtime or driver.
struct RuntimeCall {
  llvm::StringRef name;
  ThreadId thread = 0;
  int64_t startNs = 0;
  int64_t durationNs = 0;
  std::optional<uint64_t> correlation;
  std::optional<uint64_t> externalId;

  int64_t endNs() const { return startNs + durationNs; }
};

/// An operator that the host ran, or a range that PyTorch itself marked.
struct HostOp {
  llvm::StringRef name;
  ThreadId thread = 0;
  int64_t startNs = 0;
  int64_t durationNs = 0;
  std::optional<uint64_t> externalId;
  /// Basename of the generated source file of a Triton kernel.
  llvm::StringRef kernelHash;
  llvm::StringRef inputType;
  /// A kernel that Triton compiled, with or without a hash.
  bool generated = false;
  /// Marked by user_annotation rather than cpu_op.
  bool annotation = false;

  int64_t endNs() const { return startNs + durationNs; }
};

/// A Python frame of an nn.Module: "nn.Module: Linear_0".
struct ModuleFrame {
  llvm::StringRef name;
  ThreadId thread = 0;
  int64_t startNs = 0;
  int64_t durationNs = 0;
};

struct KinetoTrace {
  KinetoTrace() : strings(allocator) {}
  KinetoTrace(const KinetoTrace &) = delete;
  KinetoTrace &operator=(const KinetoTrace &) = delete;

  std::string file;
  std::optional<int64_t> baseTimeNs;
  std::optional<int64_t> rank;
  std::vector<Device> devices;
  std::vector<TraceActivity> activities;
  std::vector<RuntimeCall> runtimeCalls;
  std::vector<HostOp> hostOps;
  std::vector<ModuleFrame> moduleFrames;
  /// "pid/tid" of each thread.
  std::vector<std::string> threads;
  /// Events in the file, of every kind.
  uint64_t events = 0;
  /// Times that had digits below the nanosecond and were rounded.
  uint64_t rounded = 0;

  llvm::StringRef intern(llvm::StringRef text) { return strings.save(text); }

private:
  llvm::BumpPtrAllocator allocator;
  llvm::UniqueStringSaver strings;
};

struct KinetoOptions {
  GzipLimits limits;
  bool moduleFrames = true;
};

/// Reads a trace from `data` (JSON, or JSON in gzip). `name` stands in errors
/// and in KinetoTrace::file.
llvm::Expected<std::unique_ptr<KinetoTrace>>
readKinetoTrace(llvm::StringRef data, llvm::StringRef name,
                const KinetoOptions &options = {});

/// Nanoseconds of a decimal number of microseconds, as its text states them:
/// no binary fraction in between. Digits below the nanosecond are rounded half
/// away from zero, and `rounded` is set. Absent where `text` is no decimal
/// number or too large.
std::optional<int64_t> parseMicroseconds(llvm::StringRef text, bool &rounded);

} // namespace opprof::profile

#endif // OPPROF_PROFILE_KINETO_H
