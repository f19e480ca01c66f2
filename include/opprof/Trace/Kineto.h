// Traces of torch.profiler. Reads the Chrome trace that torch.profiler (Kineto)
// exports, plain or gzipped, into events with exact integer nanoseconds.
// Nothing is joined here: that is Attribution's.

#ifndef OPPROF_TRACE_KINETO_H
#define OPPROF_TRACE_KINETO_H

#include "opprof/Trace/Gzip.h"
#include "opprof/Trace/Trace.h"

#include <memory>

namespace opprof::profile {

struct KinetoOptions {
  GzipLimits limits;
  bool moduleFrames = true;
};

/// Reads a trace from `data` (JSON, or JSON in gzip). `name` stands in errors
/// and in Trace::file.
llvm::Expected<std::unique_ptr<Trace>>
readKinetoTrace(llvm::StringRef data, llvm::StringRef name,
                const KinetoOptions &options = {});

/// Nanoseconds of a decimal number of microseconds, as its text states them:
/// no binary fraction in between. Digits below the nanosecond are rounded half
/// away from zero, and `rounded` is set. Absent where `text` is no decimal
/// number or too large.
std::optional<int64_t> parseMicroseconds(llvm::StringRef text, bool &rounded);

} // namespace opprof::profile

#endif // OPPROF_TRACE_KINETO_H
