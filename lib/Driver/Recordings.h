// Recordings by their names, and those that only the tool which made them can
// read.

#ifndef OPPROF_LIB_DRIVER_RECORDINGS_H
#define OPPROF_LIB_DRIVER_RECORDINGS_H

#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"

#include <memory>

namespace opprof::driver {

/// Whether a file in a folder that is no run folder is taken for a recording:
/// those of torch.profiler's handler for TensorBoard, one a rank, and what
/// people call so. Other JSON there may be anything.
bool isCalledRecording(llvm::StringRef name);

/// Opens a recording, which bears the file's name. A report of Nsight Systems
/// or of Nsight Compute is first exported by the nsys or ncu in PATH; without
/// one the error says what to run where it is.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
openRecording(llvm::StringRef file);

} // namespace opprof::driver

#endif // OPPROF_LIB_DRIVER_RECORDINGS_H
