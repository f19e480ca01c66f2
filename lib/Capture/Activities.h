// CUPTI's records as the file's own. One function a kind. What they read is in
// every version since CUDA 12.0: newer CUPTIs only append to a record, so the
// oldest form that has a field is the one that it is read through.

#ifndef OPPROF_LIB_CAPTURE_ACTIVITIES_H
#define OPPROF_LIB_CAPTURE_ACTIVITIES_H

#include "Cupti.h"
#include "opprof/Capture/FileWriter.h"

#include "opprof/Capture/CaptureFile.h"

namespace opprof::capture {

/// The name as CUPTI has it; CUPTI keeps the text to the end of the process.
const char *kernelName(const CUpti_Activity &activity);
/// Names are put into the file.
KernelRecord kernelRecord(const CUpti_Activity &activity, FileWriter &writer);
MarkerRecord markerRecord(const CUpti_Activity &activity, FileWriter &writer);
/// Of copies within a device's reach and from device to device.
MemcpyRecord memcpyRecord(const CUpti_Activity &activity);
MemsetRecord memsetRecord(const CUpti_Activity &activity);
SyncRecord syncRecord(const CUpti_Activity &activity);
ApiRecord apiRecord(const CUpti_Activity &activity);
OverheadRecord overheadRecord(const CUpti_Activity &activity);
ExternalIdRecord externalIdRecord(const CUpti_Activity &activity);
MemoryRecord memoryRecord(const CUpti_Activity &activity);

} // namespace opprof::capture

#endif // OPPROF_LIB_CAPTURE_ACTIVITIES_H
