// Feeds the capture reader random files. As they are, and with the checksums
// made right, so that what lies behind them is reached. What the reader takes
// is made into a profile.

#include "ProfileChecks.h"
#include "opprof/Capture/CaptureReader.h"
#include "opprof/Trace/Reader.h"

#include <cstring>

using namespace opprof;
using namespace opprof::capture;
using namespace opprof::join;
using namespace opprof::profile;
using namespace opprof::trace;

/// The launches of the seeds: two lines, and a node of an eager run.
static std::vector<launch::LaunchMap> makeMaps() {
  std::vector<launch::LaunchMap> maps(2);
  auto add = [](launch::LaunchMap &map, uint32_t line, const char *node,
                launch::LaunchKind kind) {
    launch::Launch &launch = map.launches.emplace_back();
    launch.index = map.launches.size() - 1;
    launch.line = line;
    launch.kind = kind;
    launch.nodes.emplace_back().name = node;
  };
  maps[0].graph = "compiled";
  add(maps[0], 10, "mm", launch::LaunchKind::Extern);
  add(maps[0], 11, "relu", launch::LaunchKind::Triton);
  add(maps[0], 10, "mm_1", launch::LaunchKind::Extern);
  maps[1].graph = "exported";
  maps[1].stage = "export";
  add(maps[1], 0, "addmm", launch::LaunchKind::Fallback);
  return maps;
}

static void readAsProfile(const std::string &file) {
  static const std::vector<launch::LaunchMap> maps = makeMaps();
  static const WrapperFiles wrappers = [] {
    WrapperFiles files;
    files.add(0, "/cache/cabc.py", "code");
    return files;
  }();
  llvm::Expected<std::unique_ptr<Trace>> trace = readTrace({file, "fuzz"});
  if (!trace) {
    llvm::consumeError(trace.takeError());
    return;
  }
  AttributionInputs inputs;
  inputs.maps = maps;
  inputs.wrappers = &wrappers;
  checkProfile(**trace, inputs);
}

static void repairChecksums(std::string &file) {
  size_t at = sizeof(FileHeader);
  while (at + sizeof(ChunkHeader) <= file.size()) {
    ChunkHeader header;
    std::memcpy(&header, &file[at], sizeof(header));
    size_t payload = at + sizeof(header);
    if (header.size > file.size() - payload)
      return;
    header.crc = 0;
    uint32_t crc = crc32(0, &header, sizeof(header));
    header.crc = crc32(crc, &file[payload], header.size);
    std::memcpy(&file[at], &header, sizeof(header));
    at = payload + ((size_t(header.size) + 7) & ~size_t(7));
  }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string file(reinterpret_cast<const char *>(data), size);
  readAsProfile(file);
  if (file.size() >= sizeof(FileHeader)) {
    repairChecksums(file);
    readAsProfile(file);
  }
  return 0;
}
