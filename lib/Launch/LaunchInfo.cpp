// Reading what files say alike of launches.

#include "opprof/Launch/LaunchInfo.h"

#include "llvm/ADT/StringSwitch.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::launch;

#include "opprof/Launch/LaunchKinds.cpp.inc"

Error opprof::launch::readLaunchInfo(JSONReading &reading,
                                     JSONReading::object from, bool whole,
                                     LaunchInfo &info) {
  if (Error error = reading.getRequired(from, "index", info.index))
    return error;
  if (Error error = reading.getString(from, "file", info.file, whole))
    return error;
  std::optional<uint32_t> line;
  if (Error error = whole ? reading.getRequired(from, "line", info.line)
                          : reading.getInteger(from, "line", line))
    return error;
  if (line)
    info.line = *line;
  if (Error error = reading.getString(from, "kernel", info.kernel, true))
    return error;
  if (Error error =
          reading.getEnum(from, "kind", info.kind, parseLaunchKind, whole))
    return error;
  if (Error error = reading.getEnum(from, "category", info.category,
                                    parseLaunchCategory, whole))
    return error;
  if (Error error = reading.getString(from, "dtype", info.dtype, false))
    return error;
  if (Error error = reading.getInteger(from, "flops", info.flops))
    return error;
  if (Error error = reading.getInteger(from, "bytes_read", info.bytesRead))
    return error;
  return reading.getInteger(from, "bytes_written", info.bytesWritten);
}
