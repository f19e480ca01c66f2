// Feeds the reader of Nsight Compute's pages random tables. What it takes is
// made into a profile, alone and beside a timeline of the same kernels.

#include "ProfileChecks.h"
#include "opprof/Join/Counters.h"
#include "opprof/Trace/Reader.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::join;
using namespace opprof::profile;
using namespace opprof::trace;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // The beginning that makes it one is given.
  std::string file = "==PROF== Connected\n" + toText(data, size).str();
  Expected<std::unique_ptr<Trace>> counted = readCountedKernels({file, "fuzz"});
  if (!counted) {
    consumeError(counted.takeError());
    return 0;
  }
  Expected<std::unique_ptr<Trace>> trace = readTrace({file, "fuzz"});
  if (!trace) {
    consumeError(trace.takeError());
    return 0;
  }
  std::unique_ptr<Profile> profile = checkProfile(**trace, AttributionInputs());
  attachCounters(*profile, **counted);
  checkRoundTrip(*profile);
  return 0;
}
