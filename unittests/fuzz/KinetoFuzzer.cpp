// Feeds the trace reader random files. What the reader accepts goes through
// attribution, and the profile written must be one that the profile reader
// accepts, with every kernel kept.

#include "ProfileChecks.h"
#include "opprof/Trace/Reader.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::join;
using namespace opprof::profile;
using namespace opprof::trace;

/// The launches of the seed traces, so that mutated ones still join.
static std::vector<launch::LaunchMap> makeMaps() {
  std::vector<launch::LaunchMap> maps(2);
  auto add = [](launch::LaunchMap &map, StringRef kernel, StringRef hash,
                launch::LaunchKind kind) {
    launch::Launch &launch = map.launches.emplace_back();
    launch.index = map.launches.size() - 1;
    launch.file = "output_code.py";
    launch.kernel = kernel.str();
    launch.kernelHash = hash.str();
    launch.kind = kind;
    launch.nodes.emplace_back().name = "node_" + std::to_string(launch.index);
  };
  maps[0].graph = "cuda";
  add(maps[0], "extern_kernels.mm", "", launch::LaunchKind::Extern);
  add(maps[0], "triton_poi_fused_relu_0", "chash0", launch::LaunchKind::Triton);
  add(maps[0], "extern_kernels.mm", "", launch::LaunchKind::Extern);
  maps[1].graph = "cpu";
  add(maps[1], "extern_kernels.addmm", "", launch::LaunchKind::Extern);
  add(maps[1], "cpp_fused_relu_0", "", launch::LaunchKind::Cpp);
  return maps;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const std::vector<launch::LaunchMap> maps = makeMaps();
  ReadOptions options;
  options.limits.maxBytes = uint64_t(4) << 20;
  options.limits.ratioFrom = uint64_t(1) << 20;
  Expected<std::unique_ptr<Trace>> trace =
      readTrace({toText(data, size), "fuzz"}, options);
  if (!trace) {
    consumeError(trace.takeError());
    return 0;
  }
  AttributionInputs inputs;
  inputs.maps = maps;
  checkProfile(**trace, inputs);
  return 0;
}
