// Captures of opprof itself. Reads a capture file (docs/formats/capture.md)
// into a trace. A file whose writer was killed is read up to its last whole
// chunk, and a note says so.

#ifndef OPPROF_TRACE_CAPTURETRACE_H
#define OPPROF_TRACE_CAPTURETRACE_H

#include "opprof/Trace/Trace.h"

#include "llvm/Support/Error.h"

#include <memory>

namespace opprof::profile {

/// Whether `data` begins as a capture file does.
bool isCapture(llvm::StringRef data);

/// Reads the bytes of a capture file. `name` stands in errors and in
/// Trace::file. Of a capture with more than `lastKernels` kernels, only that
/// many, the latest, are kept, with what the host did meanwhile; 0 keeps all.
llvm::Expected<std::unique_ptr<Trace>>
readCaptureTrace(llvm::StringRef data, llvm::StringRef name,
                 uint64_t lastKernels = 0);

} // namespace opprof::profile

#endif // OPPROF_TRACE_CAPTURETRACE_H
