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
                     LaunchIndex &index, const WrapperFiles *wrappers,
                     bool onHost)
    : host(host), index(index), onHost(onHost) {
  mapOfCall.assign(host.calls().size(), kNone);
  namedMaps.resize(host.calls().size());
  if (index.getMaps().empty())
    return;
  startedBy.assign(trace.hostOps.size(), 0);
  for (const TraceActivity &event : trace.activities)
    if (event.externalId)
      if (uint32_t op = host.byExternalId(*event.externalId);
          op != kNone && host.topOf(op) != kNone)
        ++startedBy[host.topOf(op)];
  joins.resize(trace.hostOps.size());
  std::vector<CallFits::Operators> calls(host.calls().size());
  for (uint32_t call = 0; call < host.calls().size(); ++call)
    for (uint32_t op : host.topsOfCall(call))
      if (onHost || startedBy[op] || !computesNothing(host.op(op).name))
        calls[call].push_back(op);
  CallFits fits(host, index, wrappers, std::move(calls));
  for (uint32_t call = 0; call < host.calls().size(); ++call) {
    const CallChoice &choice = fits.choiceOf(call);
    namedMaps[call] = choice.named;
    mapOfCall[call] = choice.named.value_or(kNone);
    if (!choice.fit)
      continue;
    mapOfCall[call] = choice.fit->map;
    joinCall(choice, fits.operatorsOf(call));
  }
  joinOutside(fits);
}

/// An eager program runs operators of the same names as a compiled graph. Only
/// kernels that were generated for the graph prove that it ran.
bool CallJoins::provesGraph(const CallFit &fit, ArrayRef<uint32_t> ops) const {
  if (fit.alignment.complete)
    return true;
  for (auto [position, element] : llvm::enumerate(fit.alignment.elements))
    if (element.position && index.keyOf(host, ops[position]).hash &&
        index.keysOf(fit.map)[*element.position].hash)
      return true;
  return false;
}

const Join &CallJoins::of(uint32_t op) const {
  static const Join none;
  return joins.empty() ? none : joins[op];
}

void CallJoins::joinCall(const CallChoice &choice, ArrayRef<uint32_t> ops) {
  const CallFit &found = *choice.fit;
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
    LaunchKey key = index.keyOf(host, op);
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
      join.confidence =
          choice.doubt.empty() ? Confidence::High : Confidence::Medium;
      join.explanation =
          ("host operator " + hostOp.name + " carries kernel_hash " +
           host.inputsOf(op).kernelHash + ", and " +
           index.describe(join.launch) + " is the only one of that hash" +
           choice.doubt)
              .str();
      continue;
    }
    join.launch = {found.map, *element.position};
    bool sure = element.forced && choice.doubt.empty();
    bool byHashToo =
        key.hash && index.keysOf(found.map)[*element.position].hash;
    join.method = byHashToo ? "kernel_hash" : "correlation";
    join.confidence = sure ? Confidence::High : Confidence::Medium;
    std::string what;
    if (byHashToo)
      what =
          ("host operator carries kernel_hash " + host.inputsOf(op).kernelHash +
           " of " + index.describe(join.launch) + "; ")
              .str();
    else
      what = ("host operator " + hostOp.name + " is what " +
              index.describe(join.launch) + " calls as " +
              index.at(join.launch).kernel + "; ")
                 .str();
    join.explanation = what + extent;
    if (choice.named)
      join.explanation += ", whose code the call names";
    if (!element.forced) {
      join.method = "sequence";
      join.explanation += "; another launch of the same kernel would fit too";
    }
    if (!choice.doubt.empty()) {
      join.method = "sequence";
      join.explanation += "; ";
      join.explanation += choice.doubt;
    }
  }
  fillGaps(found, ops);
}

/// Operators between two matched ones belong to the launches between: where
/// there is one launch it may run several operators, and where there are as
/// many launches as operators each has its own.
void CallJoins::fillGaps(const CallFit &found, ArrayRef<uint32_t> ops) {
  ArrayRef<launch::Launch> launches = index.launchesOf(found.map);
  auto isOpen = [&](uint32_t op) {
    return !joins[op].launch.valid() && (onHost || startedBy[op] != 0) &&
           !computesNothing(host.op(op).name);
  };
  for (const AlignmentGap &gap : findGaps(found.alignment, launches.size())) {
    SmallVector<uint32_t> open, between;
    for (uint32_t at = gap.firstBegin; at < gap.firstEnd; ++at)
      if (isOpen(ops[at]))
        open.push_back(ops[at]);
    for (uint32_t launch = gap.secondBegin; launch < gap.secondEnd; ++launch)
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
void CallJoins::joinOutside(CallFits &fits) {
  // With no calls in the trace the threads' own order is all there is.
  if (host.calls().empty() && !index.getMaps().empty()) {
    std::map<ThreadId, std::vector<uint32_t>> threads;
    for (uint32_t op : host.topsOutside())
      threads[host.op(op).thread].push_back(op);
    for (auto &[thread, ops] : threads) {
      // One pass through the map at a time: the sequence is cut where a map's
      // first launch comes again.
      std::vector<uint32_t> pass;
      auto joinPass = [&] {
        CallChoice choice = fits.choose(pass);
        if (choice.fit && provesGraph(*choice.fit, pass))
          joinCall(choice, pass);
        pass.clear();
      };
      auto startsPass = [&](uint32_t op) {
        LaunchKey key = index.keyOf(host, op);
        if (key.hash)
          for (uint32_t map = 0; map < index.getMaps().size(); ++map)
            if (ArrayRef<LaunchKey> launches = index.keysOf(map);
                !launches.empty() && launches.front().hash == key.hash)
              return true;
        return false;
      };
      for (uint32_t op : ops) {
        if (startsPass(op) && !pass.empty())
          joinPass();
        pass.push_back(op);
      }
      if (!pass.empty())
        joinPass();
    }
    // Nothing says where a call begins and ends, so order proves less.
    for (Join &join : joins)
      if (join.confidence == Confidence::High && join.method != "kernel_hash")
        join.confidence = Confidence::Medium;
  }
  for (uint32_t op : host.topsOutside()) {
    if (joins[op].launch.valid())
      continue;
    LaunchKey key = index.keyOf(host, op);
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
        ("host operator carries kernel_hash " + host.inputsOf(op).kernelHash +
         ", and " + index.describe(join.launch) +
         " is the only one of that hash in all compiled graphs")
            .str();
  }
}
