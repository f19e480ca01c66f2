// Feeds the reader of Nsight Systems' exports random databases. What it takes
// is made into a profile.

#include "ProfileChecks.h"
#include "opprof/Trace/Reader.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::join;
using namespace opprof::profile;
using namespace opprof::trace;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // The beginning that makes it one is given.
  std::string file("SQLite format 3\0", 16);
  file += toText(data, size).drop_front(std::min<size_t>(size, 16));
  Expected<std::unique_ptr<Trace>> trace = readTrace({file, "fuzz"});
  if (!trace) {
    consumeError(trace.takeError());
    return 0;
  }
  checkProfile(**trace, AttributionInputs());
  return 0;
}
