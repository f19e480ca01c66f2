// Bounded decompression of gzip files.

#ifndef OPPROF_TRACE_GZIP_H
#define OPPROF_TRACE_GZIP_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdint>
#include <memory>
#include <string>

namespace opprof::trace {

/// Text that simdjson can read in place: `size` bytes, then padding.
struct PaddedText {
  std::unique_ptr<char[]> data;
  size_t size = 0;
  size_t capacity = 0;
  /// What ends it early, where the compressed data are damaged or cut off.
  std::string damage;

  llvm::StringRef str() const { return {data.get(), size}; }
};

/// What decompression may grow to.
struct GzipLimits {
  /// Bytes of output. simdjson reads documents below 4 GiB.
  uint64_t maxBytes = (uint64_t(4) << 30) - (uint64_t(1) << 20);
  /// Output over input, once the output passes `ratioFrom` bytes. Traces reach
  /// some 40; a deflate bomb comes close to 1000.
  uint64_t maxRatio = 250;
  uint64_t ratioFrom = uint64_t(64) << 20;
};

/// True when `data` starts like a gzip member.
bool isGzip(llvm::StringRef data);

/// The first bytes of what a gzip file holds, `size` of them at most; fewer
/// where it is damaged.
std::string unpackBegin(llvm::StringRef data, size_t size);

/// Decompresses all members of a gzip file, or copies plain text, into padded
/// memory. Of a member that is damaged or cut off, what comes before that is
/// given. `name` stands in errors.
llvm::Expected<PaddedText> readMaybeGzip(llvm::StringRef data,
                                         llvm::StringRef name,
                                         const GzipLimits &limits = {});

/// Compresses what is printed into another stream, piece by piece.
class GzipStream : public llvm::raw_ostream {
public:
  explicit GzipStream(llvm::raw_ostream &os);
  ~GzipStream() override;

private:
  void write_impl(const char *data, size_t size) override;
  uint64_t current_pos() const override { return position; }
  void pack(llvm::StringRef data, bool isLast);

  struct State;
  std::unique_ptr<State> state;
  llvm::raw_ostream &os;
  uint64_t position = 0;
};

/// Writes `data` compressed, or as it is where it is so already.
void writeGzip(llvm::StringRef data, llvm::raw_ostream &os);

} // namespace opprof::trace

#endif // OPPROF_TRACE_GZIP_H
