// Events of captures as a Chrome trace has them. What a trace of one capture
// and a trace of several ranks print alike.

#ifndef OPPROF_LIB_CAPTURE_CHROMETRACE_H
#define OPPROF_LIB_CAPTURE_CHROMETRACE_H

#include "opprof/Capture/CaptureJoins.h"

#include <functional>

namespace opprof::capture {

/// How events of a capture are put among those of others.
struct TracePlace {
  /// Goes before every process: "rank 0, ".
  std::string processPrefix;
  /// What is added to every time, in nanoseconds.
  int64_t shift = 0;
};

/// A text as JSON has it; what is not UTF-8 in it is replaced.
std::string quoted(std::string_view text);

/// Reads the capture at `path` again, whose joins are `joins`, and prints its
/// events one after the other; `first` says whether there are none before. On
/// failure returns false, and `reader` has the error.
bool printTraceEvents(const std::string &path, CaptureReader &reader,
                      const CaptureJoins &joins, const TracePlace &place,
                      std::FILE *out, bool &first);

/// Writes a file through a temporary one, which `write` fills; nothing is left
/// when that returns false or the disk is full. "-" is stdout; what is there
/// and no file, such as /dev/null, is written to itself.
bool writeWhole(const std::string &output, std::string &error,
                const std::function<bool(std::FILE *)> &write);

} // namespace opprof::capture

#endif // OPPROF_LIB_CAPTURE_CHROMETRACE_H
