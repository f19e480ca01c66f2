// minizip over a buffer in memory.

#include "ZipArchive.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"

#include <minizip/unzip.h>

#include <cstring>

using namespace opprof::fx;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;
using llvm::Twine;

namespace {
/// The most that one entry may unpack to, and by how much it may grow: text
/// that PyTorch writes shrinks to a twentieth, a bomb to a thousandth.
constexpr uint64_t kMaxSize = uint64_t(1) << 30;
constexpr uint64_t kMaxRatio = 100;
constexpr uint64_t kSmall = uint64_t(1) << 20;
constexpr uint64_t kMaxEntries = 1 << 20;
constexpr uint64_t kMaxNameLength = 4096;

/// A read position in the buffer, as minizip's file.
struct Stream {
  StringRef bytes;
  uint64_t position = 0;
};

} // namespace

static voidpf openStream(voidpf opaque, const void *, int) { return opaque; }

static uLong readStream(voidpf, voidpf file, void *buffer, uLong size) {
  auto *stream = static_cast<Stream *>(file);
  uint64_t left = stream->bytes.size() - stream->position;
  uLong count = std::min<uint64_t>(size, left);
  if (count)
    std::memcpy(buffer, stream->bytes.data() + stream->position, count);
  stream->position += count;
  return count;
}

static uLong writeStream(voidpf, voidpf, const void *, uLong) { return 0; }

static ZPOS64_T tellStream(voidpf, voidpf file) {
  return static_cast<Stream *>(file)->position;
}

static long seekStream(voidpf, voidpf file, ZPOS64_T offset, int origin) {
  auto *stream = static_cast<Stream *>(file);
  uint64_t base = origin == ZLIB_FILEFUNC_SEEK_SET   ? 0
                  : origin == ZLIB_FILEFUNC_SEEK_CUR ? stream->position
                                                     : stream->bytes.size();
  uint64_t target = base + offset;
  if (target > stream->bytes.size())
    return -1;
  stream->position = target;
  return 0;
}

static int closeStream(voidpf, voidpf) { return 0; }
static int errorStream(voidpf, voidpf) { return 0; }

static unzFile openZip(Stream &stream) {
  zlib_filefunc64_def functions = {openStream,  readStream, writeStream,
                                   tellStream,  seekStream, closeStream,
                                   errorStream, &stream};
  return unzOpen2_64("archive", &functions);
}

static Error makeError(const Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

/// True for a name that would lie outside the folder that an archive is
/// unpacked to. Nothing is unpacked here, but such an archive is no model.
static bool isEscaping(StringRef name) {
  if (name.empty() || name.starts_with("/") || name.contains('\\') ||
      name.contains('\0') || (name.size() > 1 && name[1] == ':'))
    return true;
  llvm::SmallVector<StringRef> parts;
  name.split(parts, '/');
  return llvm::is_contained(parts, "..");
}

/// A name from the file, fit for a message.
static std::string quote(StringRef name) {
  std::string result;
  for (char c : name.take_front(200))
    result += llvm::isPrint(c) ? c : '?';
  return ("'" + Twine(result) + "'").str();
}

Expected<ZipArchive> ZipArchive::open(StringRef bytes) {
  ZipArchive archive;
  archive.bytes = bytes;
  Stream stream{bytes};
  // minizip makes do with an end record that breaks off.
  constexpr size_t kEndRecordSize = 22;
  size_t end = bytes.rfind("PK\x05\x06");
  bool hasEnd = end != StringRef::npos && bytes.size() - end >= kEndRecordSize;
  unzFile zip = hasEnd ? openZip(stream) : nullptr;
  if (!zip)
    return makeError(
        bytes.empty() ? "the file is empty"
        : bytes.starts_with("PK")
            ? "the zip archive has no directory at its end: it was truncated"
            : "this is no zip archive, and so no .pt2 file");
  llvm::scope_exit close([&] { unzClose(zip); });
  unz_global_info64 info;
  if (unzGetGlobalInfo64(zip, &info) != UNZ_OK)
    return makeError("the zip archive's directory cannot be read");
  if (info.number_entry > kMaxEntries)
    return makeError("the zip archive says that it holds " +
                     Twine(info.number_entry) + " entries; the most is " +
                     Twine(kMaxEntries));
  int status =
      info.number_entry ? unzGoToFirstFile(zip) : UNZ_END_OF_LIST_OF_FILE;
  while (status == UNZ_OK) {
    unz_file_info64 file;
    unz64_file_pos place;
    char name[kMaxNameLength + 1] = {};
    if (unzGetCurrentFileInfo64(zip, &file, name, kMaxNameLength, nullptr, 0,
                                nullptr, 0) != UNZ_OK ||
        unzGetFilePos64(zip, &place) != UNZ_OK)
      return makeError("entry #" + Twine(archive.entries.size()) +
                       " of the zip archive cannot be read: it is damaged");
    if (file.size_filename >= kMaxNameLength)
      return makeError("entry #" + Twine(archive.entries.size()) +
                       " of the zip archive has a name longer than " +
                       Twine(kMaxNameLength));
    Entry entry;
    entry.name.assign(name, file.size_filename);
    if (isEscaping(entry.name))
      return makeError("the zip archive holds an entry outside its own "
                       "folder: " +
                       quote(entry.name));
    entry.compressedSize = file.compressed_size;
    entry.size = file.uncompressed_size;
    entry.directoryOffset = place.pos_in_zip_directory;
    entry.index = place.num_of_file;
    if (!archive.index.try_emplace(entry.name, archive.entries.size()).second)
      return makeError("the zip archive holds " + quote(entry.name) + " twice");
    archive.entries.push_back(std::move(entry));
    if (archive.entries.size() > kMaxEntries)
      return makeError("the zip archive holds more than " + Twine(kMaxEntries) +
                       " entries");
    status = unzGoToNextFile(zip);
  }
  if (status != UNZ_END_OF_LIST_OF_FILE)
    return makeError("the zip archive's directory is damaged after entry #" +
                     Twine(archive.entries.size()));
  return archive;
}

const ZipArchive::Entry *ZipArchive::find(StringRef name) const {
  auto found = index.find(name);
  return found == index.end() ? nullptr : &entries[found->second];
}

Expected<std::string> ZipArchive::read(const Entry &entry) const {
  auto fail = [&](const Twine &what) {
    return makeError("entry " + quote(entry.name) + ": " + what);
  };
  if (entry.size > kMaxSize)
    return fail("it says that it unpacks to " + Twine(entry.size) +
                " bytes; the most is " + Twine(kMaxSize));
  if (entry.size > kSmall && entry.size / kMaxRatio > entry.compressedSize)
    return fail("it says that it unpacks to more than " + Twine(kMaxRatio) +
                " times its size: this is a zip bomb");
  Stream stream{bytes};
  unzFile zip = openZip(stream);
  if (!zip)
    return fail("the archive cannot be read");
  llvm::scope_exit close([&] { unzClose(zip); });
  unz64_file_pos place{entry.directoryOffset, entry.index};
  if (unzGoToFilePos64(zip, &place) != UNZ_OK ||
      unzOpenCurrentFile(zip) != UNZ_OK)
    return fail("it is damaged, or packed in a way other than deflate");
  std::string text;
  // The size is what the directory claims: memory is taken as bytes come.
  constexpr unsigned kChunk = 1 << 20;
  while (text.size() < entry.size) {
    size_t before = text.size();
    unsigned want = std::min<uint64_t>(kChunk, entry.size - before);
    text.resize(before + want);
    int count = unzReadCurrentFile(zip, text.data() + before, want);
    if (count <= 0)
      return fail("it is truncated or damaged");
    text.resize(before + count);
  }
  if (unzCloseCurrentFile(zip) != UNZ_OK)
    return fail("its check sum is wrong: it is damaged");
  return text;
}
