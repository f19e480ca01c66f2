// From the host's operators to launches.

#include "CallJoins.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/Twine.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::join;
using namespace opprof::profile;
using namespace opprof::trace;
using launch::LaunchKind;
using launch::LaunchMap;

static constexpr uint32_t kNone = HostTimeline::kNone;

bool opprof::join::computesNothing(StringRef name) {
  static const StringSet<> names = {"aten::alias",
                                    "aten::as_strided",
                                    "aten::detach",
                                    "aten::empty",
                                    "aten::empty_like",
                                    "aten::empty_strided",
                                    "aten::expand",
                                    "aten::narrow",
                                    "aten::new_empty",
                                    "aten::new_empty_strided",
                                    "aten::permute",
                                    "aten::resize_",
                                    "aten::resolve_conj",
                                    "aten::resolve_neg",
                                    "aten::select",
                                    "aten::set_",
                                    "aten::slice",
                                    "aten::split",
                                    "aten::split_with_sizes",
                                    "aten::squeeze",
                                    "aten::t",
                                    "aten::transpose",
                                    "aten::unbind",
                                    "aten::unsqueeze",
                                    "aten::view",
                                    "aten::_reshape_alias",
                                    "aten::_unsafe_view",
                                    "aten::chunk",
                                    "aten::view_as_real",
                                    "aten::lift_fresh",
                                    "aten::is_nonzero",
                                    "aten::result_type"};
  return names.contains(name);
}

CallJoins::CallJoins(const Trace &trace, const HostTimeline &host,
                     LaunchIndex &index, bool onHost)
    : host(host), index(index), onHost(onHost) {
  startedBy.assign(trace.hostOps.size(), 0);
  for (const TraceActivity &event : trace.activities)
    if (event.externalId)
      if (uint32_t op = host.byExternalId(*event.externalId);
          op != kNone && host.topOf(op) != kNone)
        ++startedBy[host.topOf(op)];
  joins.resize(trace.hostOps.size());
  mapOfCall.assign(host.calls().size(), kNone);
  for (uint32_t call = 0; call < host.calls().size(); ++call) {
    SmallVector<uint32_t> ops;
    for (uint32_t op : host.topsOfCall(call))
      if (onHost || startedBy[op] || !computesNothing(host.op(op).name))
        ops.push_back(op);
    joinCall(call, ops);
  }
  joinOutside();
}

const CallJoins::CallAlignment &
CallJoins::alignSequence(ArrayRef<uint32_t> ops) {
  std::vector<uint64_t> sequence;
  std::vector<LaunchKey> opKeys;
  for (uint32_t op : ops) {
    LaunchKey key = index.keyOf(host.op(op));
    opKeys.push_back(key);
    sequence.push_back(uint64_t(key.hash) << 32 | key.name);
  }
  auto [it, inserted] = alignments.try_emplace(sequence);
  CallAlignment &best = it->second;
  if (!inserted)
    return best;
  double bestScore = 0;
  for (auto [map, launchMap] : llvm::enumerate(index.getMaps())) {
    // What runs operator by operator is no compiled graph.
    if (launchMap.isByOperator())
      continue;
    ArrayRef<LaunchKey> launches = index.keysOf(map);
    SequenceAlignment alignment = alignSequences(
        opKeys.size(), launches.size(), [&](uint32_t op, uint32_t launch) {
          return opKeys[op].matches(launches[launch]);
        });
    // Library calls look alike in every model: a map whose generated kernels
    // are not those of the call is another model's. So is one that explains
    // less than half of it, unless a hash says otherwise: what runs in a loop
    // stands in the map once.
    bool anyGenerated = false, generatedMatched = false, hashMatched = false;
    for (auto [position, element] : llvm::enumerate(alignment.elements)) {
      const HostOp &op = host.op(ops[position]);
      if (op.kernelHash.empty() && !op.generated &&
          !op.name.contains("cpp_fused"))
        continue;
      anyGenerated = true;
      if (!element.position)
        continue;
      generatedMatched = true;
      hashMatched |= opKeys[position].hash && launches[*element.position].hash;
    }
    if (!alignment.matched || (anyGenerated && !generatedMatched) ||
        (!hashMatched &&
         2 * uint64_t(alignment.matched) < uint64_t(opKeys.size())))
      continue;
    double score = double(alignment.matched) /
                   double(std::max(opKeys.size(), launches.size()));
    if (score == bestScore)
      best.ambiguous = true;
    if (score > bestScore) {
      bestScore = score;
      best.map = map;
      best.alignment = std::move(alignment);
      best.ambiguous = false;
    }
  }
  return best;
}

void CallJoins::joinCall(uint32_t call, ArrayRef<uint32_t> ops) {
  const CallAlignment &found = alignSequence(ops);
  if (found.map == kNone)
    return;
  if (call != kNone) {
    mapOfCall[call] = found.map;
  } else if (!found.alignment.complete) {
    // An eager program runs operators of the same names. Only kernels that
    // were generated for this graph prove that it is the compiled one.
    bool anyHash = false;
    for (auto [position, element] : llvm::enumerate(found.alignment.elements))
      anyHash |= element.position && index.keyOf(host.op(ops[position])).hash &&
                 index.keysOf(found.map)[*element.position].hash;
    if (!anyHash)
      return;
  }
  const LaunchMap &map = index.getMaps()[found.map];
  const SequenceAlignment &alignment = found.alignment;
  std::string extent =
      alignment.complete
          ? ("all " + Twine(ops.size()) + " operators of the call match the " +
             Twine(map.launches.size()) + " launches of " + map.graph +
             " one by one, in order")
                .str()
          : (Twine(alignment.matched) + " of the call's " + Twine(ops.size()) +
             " operators match " + map.graph + "'s " +
             Twine(map.launches.size()) + " launches in order")
                .str();

  for (auto [position, element] : llvm::enumerate(alignment.elements)) {
    uint32_t op = ops[position];
    const HostOp &hostOp = host.op(op);
    LaunchKey key = index.keyOf(hostOp);
    Join &join = joins[op];
    if (!element.position) {
      // In a loop a launch runs more often than the map lists it: one launch
      // of that hash is still one launch.
      if (!key.hash)
        continue;
      SmallVector<LaunchId> same;
      for (LaunchId id : index.ofHash(key.hash))
        if (id.map == found.map)
          same.push_back(id);
      if (same.size() != 1)
        continue;
      join.launch = same.front();
      join.method = "kernel_hash";
      join.confidence = Confidence::High;
      join.explanation =
          ("host operator " + hostOp.name + " carries kernel_hash " +
           hostOp.kernelHash + ", and " + index.describe(join.launch) +
           " is the only one of that hash")
              .str();
      continue;
    }
    join.launch = {found.map, *element.position};
    bool sure = element.forced && !found.ambiguous;
    bool byHashToo =
        key.hash && index.keysOf(found.map)[*element.position].hash;
    join.method = byHashToo ? "kernel_hash" : "correlation";
    join.confidence = sure ? Confidence::High : Confidence::Medium;
    std::string what;
    if (byHashToo)
      what = ("host operator carries kernel_hash " + hostOp.kernelHash +
              " of " + index.describe(join.launch) + "; ")
                 .str();
    else
      what = ("host operator " + hostOp.name + " is what " +
              index.describe(join.launch) + " calls as " +
              index.at(join.launch).kernel + "; ")
                 .str();
    join.explanation = what + extent;
    if (!element.forced) {
      join.method = "sequence";
      join.explanation += "; another launch of the same kernel would fit too";
    }
    if (found.ambiguous) {
      join.method = "sequence";
      join.explanation += "; another compiled graph launches the same kernels";
    }
  }
  fillGaps(ops);
}

/// Operators between two matched ones belong to the launches between: where
/// there is one launch it may run several operators, and where there are as
/// many launches as operators each has its own.
void CallJoins::fillGaps(ArrayRef<uint32_t> ops) {
  const CallAlignment &found = alignSequence(ops);
  ArrayRef<launch::Launch> launches = index.launchesOf(found.map);
  uint32_t nextLaunch = 0;
  size_t position = 0;
  auto isOpen = [&](uint32_t op) {
    return !joins[op].launch.valid() && (onHost || startedBy[op] != 0) &&
           !computesNothing(host.op(op).name);
  };
  while (position < ops.size()) {
    const std::optional<uint32_t> &matched =
        found.alignment.elements[position].position;
    if (matched) {
      nextLaunch = *matched + 1;
      ++position;
      continue;
    }
    SmallVector<uint32_t> open;
    uint32_t end = launches.size();
    for (; position < ops.size(); ++position) {
      if (found.alignment.elements[position].position) {
        end = *found.alignment.elements[position].position;
        break;
      }
      if (isOpen(ops[position]))
        open.push_back(ops[position]);
    }
    SmallVector<uint32_t> between;
    for (uint32_t launch = nextLaunch; launch < end; ++launch)
      if (launches[launch].kind != LaunchKind::Subgraph &&
          launches[launch].kind != LaunchKind::Triton)
        between.push_back(launch);
    if (open.empty() || between.empty() ||
        (between.size() != 1 && between.size() != open.size()))
      continue;
    for (auto [number, op] : llvm::enumerate(open)) {
      Join &join = joins[op];
      join.launch = {found.map,
                     between.size() == 1 ? between[0] : between[number]};
      join.method = "enclosure";
      join.confidence = Confidence::Medium;
      join.explanation =
          ("host operator " + host.op(op).name + " ran where " +
           index.describe(join.launch) + " (" + index.at(join.launch).kernel +
           ") stands: between the operators matched before and after it")
              .str();
    }
  }
}

/// Generated kernels that ran outside every known call.
void CallJoins::joinOutside() {
  // With no calls in the trace the threads' own order is all there is.
  if (host.calls().empty() && !index.getMaps().empty()) {
    std::map<ThreadId, std::vector<uint32_t>> threads;
    for (uint32_t op : host.topsOutside())
      threads[host.op(op).thread].push_back(op);
    for (auto &[thread, ops] : threads) {
      // One pass through the map at a time: the sequence is cut where a map's
      // first launch comes again.
      std::vector<uint32_t> pass;
      auto startsPass = [&](uint32_t op) {
        LaunchKey key = index.keyOf(host.op(op));
        if (key.hash)
          for (uint32_t map = 0; map < index.getMaps().size(); ++map)
            if (ArrayRef<LaunchKey> launches = index.keysOf(map);
                !launches.empty() && launches.front().hash == key.hash)
              return true;
        return false;
      };
      for (uint32_t op : ops) {
        if (startsPass(op) && !pass.empty()) {
          joinCall(kNone, pass);
          pass.clear();
        }
        pass.push_back(op);
      }
      if (!pass.empty())
        joinCall(kNone, pass);
    }
    // Nothing says where a call begins and ends, so order proves less.
    for (Join &join : joins)
      if (join.confidence == Confidence::High && join.method != "kernel_hash")
        join.confidence = Confidence::Medium;
  }
  for (uint32_t op : host.topsOutside()) {
    if (joins[op].launch.valid())
      continue;
    LaunchKey key = index.keyOf(host.op(op));
    if (!key.hash)
      continue;
    ArrayRef<LaunchId> same = index.ofHash(key.hash);
    if (same.size() != 1)
      continue;
    Join &join = joins[op];
    join.launch = same.front();
    join.method = "kernel_hash";
    join.confidence = Confidence::High;
    join.explanation =
        ("host operator carries kernel_hash " + host.op(op).kernelHash +
         ", and " + index.describe(join.launch) +
         " is the only one of that hash in all compiled graphs")
            .str();
  }
}
