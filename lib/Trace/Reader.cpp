// Finds the reader of a recording by how the file begins.

#include "Readers.h"

#include "opprof/Support/ReadingLimits.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::trace;

namespace {
struct Format {
  /// Whether a file that begins so is one.
  bool (*matches)(StringRef data);
  Expected<std::unique_ptr<Trace>> (*read)(MemoryBufferRef buffer,
                                           const ReadOptions &options);
};
} // namespace

/// How much of a text shows what it is.
static constexpr size_t kBegin = 1 << 16;

bool opprof::trace::isCountersPage(StringRef data) {
  return isGzip(data) ? isNcuPage(unpackBegin(data, kBegin))
                      : isNcuPage(data.take_front(kBegin));
}

static bool isAnything(StringRef data) { return true; }

/// In this order. JSON, plain or in gzip, has no mark of its own: its reader
/// takes what is left, and says what a file is that it can't read.
static constexpr Format kFormats[] = {
    {isCapture, readCapture},
    {isSQLite, readNsys},
    {isCountersPage, readNcu},
    {isAnything, readKineto},
};

Expected<std::unique_ptr<Trace>>
opprof::trace::readTrace(MemoryBufferRef buffer, const ReadOptions &options) {
  limitReading(buffer.getBufferIdentifier(), buffer.getBufferSize(),
               kPackedBudget);
  for (const Format &format : ArrayRef(kFormats).drop_back())
    if (format.matches(buffer.getBuffer()))
      return format.read(buffer, options);
  return std::end(kFormats)[-1].read(buffer, options);
}
