// The one way from a file to a trace, whoever wrote it. Each format has a
// reader of its own behind it (docs/how-to/add-a-trace-reader.md).

#ifndef OPPROF_TRACE_READER_H
#define OPPROF_TRACE_READER_H

#include "opprof/Trace/Gzip.h"
#include "opprof/Trace/Trace.h"

#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBufferRef.h"

#include <memory>

namespace opprof::trace {

struct ReadOptions {
  /// Of a recording with more kernels or operators than this, only so many, the
  /// latest, are kept, with what the host did meanwhile; 0 keeps all. Captures
  /// only.
  uint64_t lastKernels = 0;
  /// What ended before this point, in nanoseconds since 1970, is left out; 0
  /// keeps all. Recordings of operators only.
  int64_t beginRealtimeNs = 0;
  /// What the observer recorded of the same process, which is joined to the
  /// launches of a capture. Captures only.
  std::optional<llvm::MemoryBufferRef> operators = {};
  /// Of traces in gzip.
  GzipLimits limits = {};
  /// How much of a text is read at once, where its events are. Kineto only.
  size_t pieceBytes = size_t(1) << 18;
  /// Whether steps that only got the recording over its first costs are kept.
  /// Captures only.
  bool warmUp = false;
  /// Whether frames of modules are kept. Kineto only.
  bool moduleFrames = true;
};

/// Reads a recording in any known format, which its content tells. The
/// buffer's identifier stands in errors and in Trace::file.
llvm::Expected<std::unique_ptr<Trace>>
readTrace(llvm::MemoryBufferRef buffer, const ReadOptions &options = {});

/// Whether `data` is what Nsight Compute prints: counters without a timeline.
bool isCountersPage(llvm::StringRef data);

/// Reads the kernels of such a page with their counters. Those whose time was
/// not counted have none: 0.
llvm::Expected<std::unique_ptr<Trace>>
readCountedKernels(llvm::MemoryBufferRef buffer);

} // namespace opprof::trace

#endif // OPPROF_TRACE_READER_H
