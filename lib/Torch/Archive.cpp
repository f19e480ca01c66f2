// A TorchScript archive, as far as it can be judged without LibTorch.

#include "opprof/Torch/Archive.h"

#include <minizip/unzip.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <set>

using namespace opprof::torchscript;

namespace {
struct ZipCloser {
  void operator()(void *zip) const { unzClose(zip); }
};

/// Names of files in an archive are no longer.
constexpr size_t kMaxNameSize = 4096;

/// Reads pickles' operations one by one.
class PickleReader {
public:
  PickleReader(std::string_view name, std::string_view pickle)
      : name(name), pickle(pickle) {}
  void read();

private:
  [[noreturn]] void fail(const std::string &what) const {
    throw InputError(std::string(name) + ", byte " + std::to_string(position) +
                     ": " + what);
  }
  std::string_view take(uint64_t size) {
    if (size > pickle.size() - position)
      fail("the pickle breaks off");
    std::string_view bytes = pickle.substr(position, size);
    position += size;
    return bytes;
  }
  uint64_t takeNumber(unsigned size) {
    std::string_view bytes = take(size);
    uint64_t number = 0;
    for (unsigned i = 0; i < size; ++i)
      number |= uint64_t(uint8_t(bytes[i])) << (8 * i);
    return number;
  }
  std::string_view takeLine() {
    size_t end = pickle.find('\n', position);
    if (end == std::string_view::npos)
      fail("the pickle breaks off");
    std::string_view line = pickle.substr(position, end - position);
    position = end + 1;
    return line;
  }
  bool skipArgument(uint8_t operation);
  void checkGlobal();

  std::string_view name, pickle;
  size_t position = 0;
};
} // namespace

/// Names that LibTorch's unpickler knows, beside the classes of the archive.
static bool isKnownGlobal(std::string_view module, std::string_view name) {
  static const std::set<std::pair<std::string_view, std::string_view>> kKnown =
      {{"torch._utils", "_rebuild_tensor_v2"},
       {"torch._utils", "_rebuild_qtensor"},
       {"torch._utils", "_rebuild_parameter"},
       {"torch._utils", "_rebuild_sparse_tensor"},
       {"torch._utils", "_rebuild_sparse_csr_tensor"},
       {"torch._utils", "_rebuild_device_tensor_from_numpy"},
       {"torch", "per_tensor_affine"},
       {"torch", "per_channel_affine"},
       {"torch", "per_channel_affine_float_qparams"},
       {"torch", "device"},
       {"torch", "_utils"},
       {"torch.jit._pickle", "build_intlist"},
       {"torch.jit._pickle", "build_tensorlist"},
       {"torch.jit._pickle", "build_doublelist"},
       {"torch.jit._pickle", "build_boollist"},
       {"torch.jit._pickle", "build_tensor_from_id"},
       {"torch.jit._pickle", "restore_type_tag"},
       {"torch.serialization", "_get_layout"},
       {"torch._C", "_get_layout"},
       {"builtins", "complex"},
       {"collections", "OrderedDict"}};
  if (kKnown.count({module, name}))
    return true;
  // Classes of the archive's own code, and torch.FloatStorage and its kind.
  if (module == "__torch__" || module.substr(0, 10) == "__torch__.")
    return true;
  constexpr std::string_view kStorage = "Storage";
  return module == "torch" && name.size() > kStorage.size() &&
         name.substr(name.size() - kStorage.size()) == kStorage;
}

void PickleReader::checkGlobal() {
  std::string_view module = takeLine(), entry = takeLine();
  if (!isKnownGlobal(module, entry))
    fail("names " + std::string(module.substr(0, 100)) + "." +
         std::string(entry.substr(0, 100)) +
         ", which no TorchScript archive needs: the file is refused");
}

/// Skips what follows the operation; false for one that LibTorch does not read.
bool PickleReader::skipArgument(uint8_t operation) {
  switch (operation) {
  case 'c': // GLOBAL
    checkGlobal();
    return true;
  case 0x80: // PROTO
  case 'K':  // BININT1
  case 'h':  // BINGET
  case 'q':  // BINPUT
    take(1);
    return true;
  case 'M': // BININT2
    take(2);
    return true;
  case 'J': // BININT
  case 'j': // LONG_BINGET
  case 'r': // LONG_BINPUT
    take(4);
    return true;
  case 'G':  // BINFLOAT
  case 0x95: // FRAME
    take(8);
    return true;
  case 'U':  // SHORT_BINSTRING
  case 0x8a: // LONG1
  case 0x8c: // SHORT_BINUNICODE
    take(takeNumber(1));
    return true;
  case 'X': // BINUNICODE
  case 'T': // BINSTRING
    take(takeNumber(4));
    return true;
  default:
    // Operations without arguments: tuples, lists, dictionaries, None, truth
    // values, marks, REDUCE, BUILD, BINPERSID.
    return operation != 0 &&
           std::strchr("().]}NRbelaudstQ0\x81\x85\x86\x87\x88\x89\x94",
                       operation);
  }
}

void PickleReader::read() {
  while (position < pickle.size()) {
    auto operation = static_cast<uint8_t>(pickle[position++]);
    if (operation == '.')
      return;
    if (!skipArgument(operation)) {
      --position;
      fail("the pickle's operation " + std::to_string(operation) +
           " is none that TorchScript writes: the file is refused");
    }
  }
  fail("the pickle has no end");
}

void opprof::torchscript::checkPickle(std::string_view name,
                                      std::string_view pickle) {
  PickleReader(name, pickle).read();
}

/// Adds what the code calls through `ops.`: "ops.quantized.linear(" is
/// quantized::linear.
static void collectOperators(std::string_view code,
                             std::set<std::string> &operators) {
  constexpr std::string_view kPrefix = "ops.";
  auto isWord = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
  };
  for (size_t at = code.find(kPrefix); at != std::string_view::npos;
       at = code.find(kPrefix, at + 1)) {
    if (at && (isWord(code[at - 1]) || code[at - 1] == '.' ||
               code[at - 1] == '"' || code[at - 1] == '\''))
      continue;
    size_t space = at + kPrefix.size(), dot = space;
    while (dot < code.size() && isWord(code[dot]))
      ++dot;
    if (dot == space || dot >= code.size() || code[dot] != '.')
      continue;
    size_t end = dot + 1;
    while (end < code.size() && isWord(code[end]))
      ++end;
    if (end > dot + 1 && end < code.size() && code[end] == '(')
      operators.insert(std::string(code.substr(space, dot - space)) +
                       "::" + std::string(code.substr(dot + 1, end - dot - 1)));
  }
}

static bool endsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() &&
         text.substr(text.size() - end.size()) == end;
}

static std::string readEntry(void *zip, const std::string &name,
                             uint64_t size) {
  if (unzOpenCurrentFile(zip) != UNZ_OK)
    throw InputError(name + ": the entry cannot be read");
  std::string content;
  content.resize(size);
  size_t done = 0;
  while (done < size) {
    auto part = static_cast<unsigned>(std::min<size_t>(size - done, 1 << 20));
    int count = unzReadCurrentFile(zip, content.data() + done, part);
    if (count <= 0)
      break;
    done += static_cast<size_t>(count);
  }
  // The checksum is looked at when the entry is closed.
  if (unzCloseCurrentFile(zip) != UNZ_OK || done != size)
    throw InputError(name + ": the entry breaks off, or its checksum is wrong");
  return content;
}

/// What a file that is no zip file is, by how it begins.
static const char *describeFormat(const std::string &path) {
  char head[8] = {};
  if (FILE *file = std::fopen(path.c_str(), "rb")) {
    size_t size = std::fread(head, 1, sizeof head, file);
    (void)size;
    std::fclose(file);
  }
  std::string_view begin(head, sizeof head);
  if (begin == "PYTORCH1")
    return "it is in the form of the previews of PyTorch 1.0, which PyTorch "
           "has not read since: save the model again from its source";
  if (begin.substr(4) == "PTMF")
    return "it is a flatbuffer of PyTorch's lite interpreter, which holds "
           "bytecode: give the file of torch.jit.save that it was made of";
  if (begin.substr(4) == "ET12")
    return "it is a program of ExecuTorch: give the model that it was made of";
  if (begin.substr(0, 1) == "\x80")
    return "it is a pickle, as torch.save wrote them before PyTorch 1.6: "
           "load the model in Python and write it with torch.jit.save";
  return "it is no zip file";
}

static std::unique_ptr<void, ZipCloser> openZip(const std::string &path) {
  std::unique_ptr<void, ZipCloser> zip(unzOpen64(path.c_str()));
  if (!zip)
    throw InputError(std::string("this is no TorchScript archive: ") +
                     describeFormat(path));
  return zip;
}

ArchiveSummary opprof::torchscript::checkArchive(const std::string &path,
                                                 const ArchiveLimits &limits) {
  std::unique_ptr<void, ZipCloser> zip = openZip(path);
  std::set<std::string> operators, names;
  bool hasCode = false, hasConstants = false, hasData = false;
  bool isLegacy = false, isOfTorchServe = false;
  uint64_t total = 0, numEntries = 0;
  for (int status = unzGoToFirstFile(zip.get()); status == UNZ_OK;
       status = unzGoToNextFile(zip.get())) {
    if (++numEntries > limits.maxEntries)
      throw InputError("the archive has more than " +
                       std::to_string(limits.maxEntries) + " files");
    unz_file_info64 info;
    char buffer[kMaxNameSize + 1];
    if (unzGetCurrentFileInfo64(zip.get(), &info, buffer, kMaxNameSize, nullptr,
                                0, nullptr, 0) != UNZ_OK ||
        info.size_filename >= kMaxNameSize)
      throw InputError("the archive's list of files is damaged");
    std::string name(buffer, info.size_filename);
    if (!names.insert(name).second)
      throw InputError(name + ": the archive has two files of this name");
    // Every file lies below one folder of any name.
    std::string inner = name.substr(name.find('/') + 1);
    bool isPickle = endsWith(inner, ".pkl") || endsWith(inner, ".debug_pkl");
    bool isCode = inner.rfind("code/", 0) == 0 && endsWith(inner, ".py");
    hasCode |= inner.rfind("code/", 0) == 0;
    hasConstants |= inner == "constants.pkl";
    hasData |= inner == "data.pkl";
    isLegacy |= inner == "model.json";
    isOfTorchServe |= name == "MAR-INF/MANIFEST.json";
    if (!isPickle && !isCode) {
      // LibTorch reads tensors by their place in the file.
      if (info.compression_method != 0 && inner.rfind("data/", 0) == 0)
        throw InputError(name + ": a tensor's data is compressed, which "
                                "PyTorch does not write");
      continue;
    }
    total += info.uncompressed_size;
    if (info.uncompressed_size > limits.maxTextSize ||
        total > limits.maxTotalTextSize)
      throw InputError(name +
                       ": the archive's code and pickles unfold to "
                       "more than the bound of " +
                       std::to_string(limits.maxTotalTextSize >> 20) + " MiB");
    std::string content = readEntry(zip.get(), name, info.uncompressed_size);
    if (isPickle)
      checkPickle(name, content);
    else
      collectOperators(content, operators);
  }
  if (isLegacy && !hasConstants)
    throw InputError(
        "the archive is in the form of PyTorch 1.0 to 1.3 (model.json), which "
        "LibTorch no longer loads: load it with a PyTorch that does, of 1.4 or "
        "a few versions on, and write it again with torch.jit.save");
  if (isOfTorchServe)
    throw InputError("this is an archive of TorchServe: unpack it, and give "
                     "the model's own file inside");
  if (!hasCode || !hasConstants || !hasData)
    throw InputError(
        "this is no TorchScript archive: it has no code, constants.pkl or "
        "data.pkl. For a .pt2 file use opprof-translate --import-pt2; a "
        "checkpoint of torch.save holds weights and no graph");
  return {{operators.begin(), operators.end()}};
}

std::string opprof::torchscript::printable(std::string text) {
  for (size_t i = 0; i < text.size(); ++i) {
    auto c = static_cast<uint8_t>(text[i]);
    // In UTF-8 the second set of control characters is C2 80 to C2 9F.
    bool isSecondSet = c == 0xC2 && i + 1 < text.size() &&
                       static_cast<uint8_t>(text[i + 1]) >= 0x80 &&
                       static_cast<uint8_t>(text[i + 1]) < 0xA0;
    if (isSecondSet)
      text.erase(i + 1, 1);
    if (isSecondSet || (c < 0x20 && c != '\n') || c == 0x7F)
      text[i] = '?';
  }
  return text;
}
