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
  /// Of a recording with more kernels than this, only so many, the latest, are
  /// kept, with what the host did meanwhile; 0 keeps all. Captures only.
  uint64_t lastKernels = 0;
  /// Of traces in gzip.
  GzipLimits limits = {};
  /// Whether frames of modules are kept. Kineto only.
  bool moduleFrames = true;
};

/// Reads a recording in any known format, which its content tells. The
/// buffer's identifier stands in errors and in Trace::file.
llvm::Expected<std::unique_ptr<Trace>>
readTrace(llvm::MemoryBufferRef buffer, const ReadOptions &options = {});

} // namespace opprof::trace

#endif // OPPROF_TRACE_READER_H
