// The small JSON files of a run folder from anywhere, run.json, ceilings.json,
// rewrites.json and partitions.json: each is refused with an error or read, and
// a partition map is written, read again and written the same.

#include "Fuzzing.h"

#include "opprof/Profile/Ceilings.h"
#include "opprof/Profile/RewriteOffers.h"
#include "opprof/Profile/RunFacts.h"
#include "opprof/Support/PartitionMap.h"

using namespace llvm;
using namespace opprof;

static std::string write(ArrayRef<PartitionMap> maps) {
  std::string text;
  raw_string_ostream os(text);
  writePartitionMaps(maps, os);
  return text;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  StringRef text = toText(data, size);
  consumeError(profile::readRunFacts(text, "run.json").takeError());
  consumeError(profile::readRewriteOffers(text, "rewrites.json").takeError());
  consumeError(profile::readCeilings(text, "ceilings.json").takeError());
  Expected<std::vector<PartitionMap>> maps =
      readPartitionMaps(text, "partitions.json");
  if (!maps) {
    consumeError(maps.takeError());
    return 0;
  }
  UniquePlaces places(*maps);
  for (const PartitionMap &map : *maps)
    for (const MappedClass &mapped : map.classes)
      for (const MappedPartition &partition : mapped.partitions)
        for (const NodeId &node : partition.nodes)
          (void)places.representative(node);
  std::string first = write(*maps);
  Expected<std::vector<PartitionMap>> again =
      readPartitionMaps(first, "written");
  if (!again) {
    errs() << toString(again.takeError()) << '\n' << first;
    require(false);
  }
  require(write(*again) == first);
  return 0;
}
