// Feeds the reader of counters random files. What it takes is put on a profile,
// whose findings have to hold whatever the values are.

#include "ProfileChecks.h"
#include "opprof/Join/Counters.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::join;
using namespace opprof::profile;
using namespace opprof::trace;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Expected<CountersFile> file = readCounters(toText(data, size), "fuzz");
  if (!file) {
    consumeError(file.takeError());
    return 0;
  }
  std::vector<launch::LaunchMap> maps(1);
  maps[0].graph = "g";
  launch::Launch &launch = maps[0].launches.emplace_back();
  launch.line = 10;
  launch.flops = launch.bytesRead = launch.bytesWritten = 1 << 20;
  launch.nodes.emplace_back().name = "mm";
  WrapperFiles wrappers;
  wrappers.add(0, "/cache/cabc.py", "code");
  AttributionInputs inputs;
  inputs.maps = maps;
  inputs.wrappers = &wrappers;

  // Two steps of the line and of a node.
  Trace trace;
  trace.kind = "opprof capture";
  Device &device = trace.devices.emplace_back();
  device.name = "NVIDIA H200";
  device.kind = "cuda";
  trace.identities = {{"/cache/cabc.py", 10, "", "", ""},
                      {"", 0, "addmm", "net", "export"}};
  for (int64_t step = 0; step < 2; ++step) {
    trace.steps.push_back({uint64_t(step), step * 1000, step * 1000 + 900});
    for (uint32_t identity : {0, 1}) {
      TraceActivity &kernel = trace.activities.emplace_back();
      kernel.name = "k";
      kernel.startNs = step * 1000 + 100 + identity * 200;
      kernel.durationNs = 150;
      kernel.identity = identity;
    }
  }
  std::unique_ptr<Profile> profile = attribute(trace, inputs);
  attachCounters(*profile, *file, inputs);
  checkRoundTrip(*profile);
  return 0;
}
