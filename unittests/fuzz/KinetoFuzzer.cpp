//===- KinetoFuzzer.cpp ----------- Feeds the trace reader random files ---===//
//
// What the reader accepts goes through attribution, and the profile written
// must be one that the profile reader accepts, with every kernel kept.
//
//===----------------------------------------------------------------------===//

#include "opprof/Analysis/Findings.h"
#include "opprof/Profile/Attribution.h"
#include "opprof/Profile/Kineto.h"
#include "opprof/Profile/ProfileJSON.h"

#include <cstdlib>

using namespace llvm;
using namespace opprof;
using namespace opprof::profile;

/// The launches of the seed traces, so that mutated ones still join.
static std::vector<inductor::LaunchMap> makeMaps() {
  std::vector<inductor::LaunchMap> maps(2);
  auto add = [](inductor::LaunchMap &map, StringRef kernel, StringRef hash,
                inductor::LaunchKind kind) {
    inductor::Launch &launch = map.launches.emplace_back();
    launch.index = map.launches.size() - 1;
    launch.file = "output_code.py";
    launch.kernel = kernel.str();
    launch.kernelHash = hash.str();
    launch.kind = kind;
    launch.nodes.emplace_back().name = "node_" + std::to_string(launch.index);
  };
  maps[0].graph = "cuda";
  add(maps[0], "extern_kernels.mm", "", inductor::LaunchKind::Extern);
  add(maps[0], "triton_poi_fused_relu_0", "chash0",
      inductor::LaunchKind::Triton);
  add(maps[0], "extern_kernels.mm", "", inductor::LaunchKind::Extern);
  maps[1].graph = "cpu";
  add(maps[1], "extern_kernels.addmm", "", inductor::LaunchKind::Extern);
  add(maps[1], "cpp_fused_relu_0", "", inductor::LaunchKind::Cpp);
  return maps;
}

static void require(bool holds) {
  if (!holds)
    std::abort();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const std::vector<inductor::LaunchMap> maps = makeMaps();
  KinetoOptions options;
  options.limits.maxBytes = uint64_t(4) << 20;
  options.limits.ratioFrom = uint64_t(1) << 20;
  Expected<std::unique_ptr<Trace>> trace = readKinetoTrace(
      StringRef(reinterpret_cast<const char *>(data), size), "fuzz", options);
  if (!trace) {
    consumeError(trace.takeError());
    return 0;
  }
  AttributionInputs inputs;
  inputs.maps = maps;
  std::unique_ptr<Profile> profile = attribute(**trace, inputs);
  if (!(*trace)->activities.empty())
    require(profile->kernels.size() + profile->copies.size() ==
            (*trace)->activities.size());

  computeFindings(*profile);

  std::string text;
  raw_string_ostream os(text);
  writeProfile(*profile, os);
  Expected<std::unique_ptr<Profile>> read = readProfile(text, "written");
  if (!read) {
    errs() << toString(read.takeError()) << '\n';
    std::abort();
  }
  require((*read)->kernels.size() == profile->kernels.size());
  require((*read)->summary.kernelTimeNs == profile->summary.kernelTimeNs);
  require((*read)->summary.busyNs == profile->summary.busyNs);
  require((*read)->summary.attributedNs == profile->summary.attributedNs);
  return 0;
}
