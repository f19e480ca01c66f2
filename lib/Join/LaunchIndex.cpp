// The launches of all maps.

#include "LaunchIndex.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::join;
using namespace opprof::profile;
using namespace opprof::trace;

std::string opprof::join::profilerName(StringRef name) {
  if (size_t at = name.find("cpp_fused"); at != StringRef::npos)
    return name.substr(at).str();
  if (name.contains("::"))
    return name.str();
  // Products with a bias of one row are a Python function round addmm.
  if (name == "extern_kernels.bias_addmm")
    return "aten::addmm";
  if (name.consume_front("extern_kernels."))
    return ("aten::" + name).str();
  name.consume_front("torch.ops.");
  auto [space, rest] = name.split('.');
  if (rest.empty())
    return name.str();
  StringRef op = rest.split('.').first;
  return (space + "::" + op).str();
}

LaunchIndex::LaunchIndex(ArrayRef<launch::LaunchMap> maps) : maps(maps) {
  uint32_t record = 0;
  for (auto [map, launchMap] : llvm::enumerate(maps)) {
    keys.emplace_back();
    firstRecord.push_back(record);
    record += launchMap.launches.size();
    for (auto [position, launch] : llvm::enumerate(launchMap.launches)) {
      LaunchKey key{intern(launch.kernelHash),
                    intern(profilerName(launch.kernel))};
      keys.back().push_back(key);
      if (key.hash)
        byHash[key.hash].push_back({uint32_t(map), uint32_t(position)});
    }
  }
}

uint32_t LaunchIndex::intern(StringRef text) {
  return text.empty() ? 0
                      : names.try_emplace(text, names.size() + 1).first->second;
}

LaunchKey LaunchIndex::keyOf(const HostTimeline &host, uint32_t op) {
  return {intern(host.inputsOf(op).kernelHash),
          intern(profilerName(host.op(op).name))};
}

ArrayRef<LaunchId> LaunchIndex::ofHash(uint32_t hash) const {
  auto it = byHash.find(hash);
  return it == byHash.end() ? ArrayRef<LaunchId>() : ArrayRef(it->second);
}

std::string LaunchIndex::describe(LaunchId id) const {
  const launch::Launch &launch = at(id);
  return ("launch " + Twine(launch.index) + " of " + maps[id.map].graph + " (" +
          launch.file + ":" + Twine(launch.line) + ")")
      .str();
}

/// Whether more than `inputs` and `outputs` may tie it to other launches, or it
/// may not run where it stands.
static bool hidesWhatItNeeds(const launch::Launch &launch) {
  using launch::LaunchKind;
  return launch.conditional || launch.inLoop || launch.outputs.empty() ||
         launch.kind == LaunchKind::Collective ||
         launch.kind == LaunchKind::Subgraph || launch.kind == LaunchKind::User;
}

namespace {
/// Which launches touched a buffer last.
struct Touched {
  std::optional<uint32_t> writer;
  SmallVector<uint32_t> readers;
};
} // namespace

/// Gives launches of one map, which are the last of `records`, those that come
/// before them by need: who wrote what they read, and who read or wrote what
/// they write.
static void findNeeds(const launch::LaunchMap &map, uint32_t first,
                      MutableArrayRef<LaunchRecord> records) {
  StringMap<Touched> buffers;
  for (auto [position, launch] : llvm::enumerate(map.launches)) {
    LaunchRecord &record = records[position];
    uint32_t place = first + position;
    record.isBarrier = hidesWhatItNeeds(launch);
    for (StringRef input : launch.inputs) {
      auto [it, isNew] = buffers.try_emplace(input);
      // Inductor's own buffers are written before they are read: where no
      // launch did, something did that the map does not show.
      if (isNew && input.starts_with("buf"))
        record.isBarrier = true;
      if (it->second.writer)
        record.after.push_back(*it->second.writer);
      it->second.readers.push_back(place);
    }
    for (StringRef output : launch.outputs) {
      Touched &buffer = buffers[output];
      if (buffer.writer)
        record.after.push_back(*buffer.writer);
      for (uint32_t reader : buffer.readers)
        if (reader != place)
          record.after.push_back(reader);
      buffer.writer = place;
      buffer.readers.clear();
    }
    llvm::sort(record.after);
    record.after.erase(llvm::unique(record.after), record.after.end());
  }
}

std::vector<LaunchRecord> LaunchIndex::makeRecords() const {
  std::vector<LaunchRecord> records;
  for (const launch::LaunchMap &map : maps) {
    uint32_t first = records.size();
    for (const launch::Launch &launch : map.launches) {
      LaunchRecord &record = records.emplace_back();
      static_cast<launch::LaunchInfo &>(record) = launch;
      record.compiledGraph = map.graph;
    }
    findNeeds(map, first, MutableArrayRef(records).drop_front(first));
  }
  return records;
}

void LaunchIndex::apply(Profile &profile, Activity &activity, Origin &origin,
                        const Join &join) const {
  activity.launch = recordOf(join.launch);
  origin.method = profile.intern(join.method);
  activity.confidence = join.confidence;
  origin.explanation = profile.intern(join.explanation);
}
