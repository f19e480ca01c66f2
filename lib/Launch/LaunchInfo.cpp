// Reading what files say alike of launches.

#include "opprof/Launch/LaunchInfo.h"

#include "llvm/ADT/StringSwitch.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::launch;

#include "opprof/Launch/LaunchKinds.cpp.inc"

/// Reads a text under `key` that is one of the values that `parse` knows.
template <typename T>
static Error readEnum(const JSONReading &reading, JSONReading::object from,
                      StringRef key, StringRef what, bool required,
                      std::optional<T> (*parse)(StringRef),
                      std::optional<T> &out) {
  std::string text;
  if (Error error = reading.getString(from, key, text, required))
    return error;
  if (text.empty() && !required)
    return Error::success();
  out = parse(text);
  if (!out)
    return reading.fail("\"" + text + "\" is no " + what);
  return Error::success();
}

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
  if (Error error = readEnum(reading, from, "kind", "kind of launch", whole,
                             parseLaunchKind, info.kind))
    return error;
  if (Error error = readEnum(reading, from, "category", "category of launches",
                             whole, parseLaunchCategory, info.category))
    return error;
  if (Error error = reading.getString(from, "dtype", info.dtype, false))
    return error;
  if (Error error = reading.getInteger(from, "flops", info.flops))
    return error;
  if (Error error = reading.getInteger(from, "bytes_read", info.bytesRead))
    return error;
  return reading.getInteger(from, "bytes_written", info.bytesWritten);
}
