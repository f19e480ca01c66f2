// Finds the reader of a recording by how the file begins.

#include "Readers.h"

#include "opprof/Support/ReadingLimits.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::trace;

namespace {
struct Format {
  /// Whether a file that begins so, unpacked, is one.
  bool (*matches)(StringRef begin);
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

static constexpr Format kFormats[] = {
    {isCapture, readCapture},
    {isSQLite, readNsys},
    {isNcuPage, readNcu},
};

Expected<std::unique_ptr<Trace>> opprof::trace::readUnpacked(
    MemoryBufferRef buffer, const GzipLimits &limits,
    function_ref<Expected<std::unique_ptr<Trace>>(MemoryBufferRef)> read) {
  if (!isGzip(buffer.getBuffer()))
    return read(buffer);
  Expected<PaddedText> whole =
      readMaybeGzip(buffer.getBuffer(), buffer.getBufferIdentifier(), limits);
  if (!whole)
    return whole.takeError();
  Expected<std::unique_ptr<Trace>> trace =
      read({whole->str(), buffer.getBufferIdentifier()});
  if (trace && !whole->damage.empty())
    (*trace)->notes.insert((*trace)->notes.begin(),
                           whole->damage + ": what comes before is read");
  return trace;
}

Expected<std::unique_ptr<Trace>>
opprof::trace::readTrace(MemoryBufferRef buffer, const ReadOptions &options) {
  limitReading(buffer.getBufferIdentifier(), buffer.getBufferSize(),
               kPackedBudget);
  StringRef data = buffer.getBuffer();
  std::string unpacked = isGzip(data) ? unpackBegin(data, kBegin) : "";
  StringRef begin = isGzip(data) ? unpacked : data.take_front(kBegin);
  for (const Format &format : kFormats)
    if (format.matches(begin))
      return readUnpacked(buffer, options.limits, [&](MemoryBufferRef whole) {
        return format.read(whole, options);
      });
  // JSON has no mark of its own: its reader takes what is left, and says what a
  // file is that it can't read.
  return readKineto(buffer, options);
}
