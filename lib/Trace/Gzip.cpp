// Bounded decompression of gzip files.

#include "opprof/Trace/Gzip.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/ErrorHandling.h"

#include <libdeflate.h>
#include <simdjson.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

using namespace llvm;
using namespace opprof;
using namespace opprof::trace;

bool opprof::trace::isGzip(StringRef data) {
  return data.starts_with("\x1f\x8b");
}

static Error fail(StringRef name, const Twine &message) {
  return createStringError(name + ": " + message);
}

/// Makes room for `capacity` bytes and the padding, keeping what is there.
static bool reserve(PaddedText &text, size_t capacity) {
  char *grown = new (std::nothrow) char[capacity + simdjson::SIMDJSON_PADDING];
  if (!grown)
    return false;
  if (text.size)
    std::memcpy(grown, text.data.get(), text.size);
  text.data.reset(grown);
  text.capacity = capacity;
  return true;
}

std::string opprof::trace::unpackBegin(StringRef data, size_t size) {
  std::string text;
  z_stream stream = {};
  if (inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK)
    return text;
  scope_exit end([&] { inflateEnd(&stream); });
  text.resize(size);
  stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(data.data()));
  // Deflate takes no less than a thousandth.
  stream.avail_in = std::min<size_t>(data.size(), size + 4096);
  stream.next_out = reinterpret_cast<Bytef *>(text.data());
  stream.avail_out = size;
  inflate(&stream, Z_SYNC_FLUSH);
  text.resize(size - stream.avail_out);
  return text;
}

/// Adds what a member that is damaged or cut off holds up to there, as far as
/// it fits; libdeflate gives all of a member or nothing.
static void inflateBegin(StringRef data, PaddedText &text, uint64_t bound) {
  z_stream stream = {};
  // 16 is gzip, with the largest window.
  if (inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK)
    return;
  scope_exit end([&] { inflateEnd(&stream); });
  stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(data.data()));
  stream.avail_in = std::min<size_t>(data.size(), UINT_MAX);
  int status = Z_OK;
  while (status == Z_OK) {
    if (text.size == text.capacity &&
        (text.capacity >= bound ||
         !reserve(text, std::min<uint64_t>(bound, text.capacity * 2))))
      return;
    size_t room = std::min<size_t>(text.capacity - text.size, UINT_MAX);
    stream.next_out = reinterpret_cast<Bytef *>(text.data.get() + text.size);
    stream.avail_out = room;
    status = inflate(&stream, Z_SYNC_FLUSH);
    text.size += room - stream.avail_out;
  }
}

Expected<PaddedText> opprof::trace::readMaybeGzip(StringRef data,
                                                  StringRef name,
                                                  const GzipLimits &limits) {
  PaddedText text;
  if (data.empty())
    return fail(name, "the file is empty");

  if (!isGzip(data)) {
    if (data.size() > limits.maxBytes)
      return fail(name, "the file has " + Twine(data.size()) +
                            " bytes, more than the " + Twine(limits.maxBytes) +
                            " that are read; record fewer steps");
    if (!reserve(text, data.size()))
      return fail(name,
                  "not enough memory for " + Twine(data.size()) + " bytes");
    std::memcpy(text.data.get(), data.data(), data.size());
    text.size = data.size();
    std::memset(text.data.get() + text.size, 0, simdjson::SIMDJSON_PADDING);
    return text;
  }

  uint64_t bound =
      std::max(limits.ratioFrom, uint64_t(data.size()) * limits.maxRatio);
  bound = std::min(bound, limits.maxBytes);

  libdeflate_decompressor *decompressor = libdeflate_alloc_decompressor();
  if (!decompressor)
    return fail(name, "not enough memory to decompress");
  scope_exit freeDecompressor(
      [&] { libdeflate_free_decompressor(decompressor); });

  // The trailer states the last member's size modulo 2^32: a hint, no more.
  uint64_t guess = uint64_t(data.size()) * 8;
  if (data.size() >= 18)
    guess = support::endian::read32le(data.end() - 4);
  if (!reserve(text, std::clamp<uint64_t>(guess, 4096, bound)))
    return fail(name, "not enough memory to decompress");

  StringRef rest = data;
  unsigned member = 0;
  while (!rest.empty()) {
    // Tape and disk writers pad the end with zeros.
    if (member && rest.find_first_not_of('\0') == StringRef::npos)
      break;
    size_t in = 0, out = 0;
    libdeflate_result result = libdeflate_gzip_decompress_ex(
        decompressor, rest.data(), rest.size(), text.data.get() + text.size,
        text.capacity - text.size, &in, &out);
    if (result == LIBDEFLATE_INSUFFICIENT_SPACE) {
      if (text.capacity >= bound)
        return fail(name, "the compressed data grows past " + Twine(bound) +
                              " bytes from " + Twine(data.size()) +
                              "; this is no trace that a profiler wrote, or "
                              "too large a one: record fewer steps");
      if (!reserve(text, std::min<uint64_t>(bound, text.capacity * 2)))
        return fail(name, "not enough memory to decompress past " +
                              Twine(text.capacity) + " bytes");
      continue;
    }
    if (result != LIBDEFLATE_SUCCESS) {
      text.damage = ("the gzip data is damaged or cut off in member " +
                     Twine(member + 1) + ", which starts at byte " +
                     Twine(data.size() - rest.size()))
                        .str();
      size_t before = text.size;
      inflateBegin(rest, text, bound);
      // What follows whole members and is none takes nothing from them.
      if (text.size == before && (!member || isGzip(rest)))
        return fail(name,
                    text.damage + "; copy the file again or record it anew");
      break;
    }
    text.size += out;
    rest = rest.drop_front(in);
    ++member;
  }
  if (!text.size)
    return fail(name, "the compressed file holds nothing");
  std::memset(text.data.get() + text.size, 0, simdjson::SIMDJSON_PADDING);
  return text;
}

void opprof::trace::writeGzip(StringRef data, raw_ostream &os) {
  if (isGzip(data)) {
    os << data;
    return;
  }
  constexpr int kLevel = 6;
  libdeflate_compressor *compressor = libdeflate_alloc_compressor(kLevel);
  if (!compressor)
    report_bad_alloc_error("not enough memory to compress");
  scope_exit freeCompressor([&] { libdeflate_free_compressor(compressor); });
  size_t capacity = libdeflate_gzip_compress_bound(compressor, data.size());
  auto packed = std::make_unique_for_overwrite<char[]>(capacity);
  size_t size = libdeflate_gzip_compress(compressor, data.data(), data.size(),
                                         packed.get(), capacity);
  os << StringRef(packed.get(), size);
}

struct GzipStream::State {
  z_stream stream = {};
  std::array<char, 1 << 16> packed;
};

GzipStream::GzipStream(raw_ostream &os)
    : state(std::make_unique<State>()), os(os) {
  // 16 is zlib's way to ask for gzip.
  if (deflateInit2(&state->stream, /*level=*/6, Z_DEFLATED, 16 + MAX_WBITS,
                   /*memLevel=*/8, Z_DEFAULT_STRATEGY) != Z_OK)
    report_bad_alloc_error("not enough memory to compress");
  SetBufferSize(state->packed.size());
}

GzipStream::~GzipStream() {
  flush();
  pack({}, /*isLast=*/true);
  deflateEnd(&state->stream);
}

void GzipStream::pack(StringRef data, bool isLast) {
  z_stream &stream = state->stream;
  stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(data.data()));
  stream.avail_in = data.size();
  do {
    stream.next_out = reinterpret_cast<Bytef *>(state->packed.data());
    stream.avail_out = state->packed.size();
    deflate(&stream, isLast ? Z_FINISH : Z_NO_FLUSH);
    os << StringRef(state->packed.data(),
                    state->packed.size() - stream.avail_out);
  } while (stream.avail_out == 0);
}

void GzipStream::write_impl(const char *data, size_t size) {
  position += size;
  // zlib counts in 32 bits.
  constexpr size_t kPiece = size_t(1) << 30;
  for (StringRef left(data, size); !left.empty();
       left = left.drop_front(std::min(left.size(), kPiece)))
    pack(left.take_front(kPiece), /*isLast=*/false);
}
