// What the host did besides computing, where an observer recorded it.

#include "HostCosts.h"

#include "TraceSteps.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

#include <map>

using namespace llvm;
using namespace opprof;
using namespace opprof::join;
using namespace opprof::profile;
using namespace opprof::trace;

/// What an operator is besides arithmetic, if anything.
static std::optional<HostCostKind> kindOf(const HostOp &op) {
  if (op.annotation)
    return op.name.starts_with("enumerate(DataLoader)")
               ? std::optional(HostCostKind::DataLoading)
               : std::nullopt;
  // Each gives the program a value that the device computes.
  return StringSwitch<std::optional<HostCostKind>>(op.name)
      .Cases({"aten::item", "aten::_local_scalar_dense", "aten::is_nonzero",
              "aten::nonzero", "aten::equal", "aten::unique_consecutive",
              "aten::_unique2", "aten::masked_select"},
             HostCostKind::Wait)
      .Default(std::nullopt);
}

void opprof::join::addHostCosts(const Trace &trace, const HostTimeline &host,
                                const OperatorPlaces &places,
                                Profile &profile) {
  if (!places.any())
    return;
  bool anySteady = countSteadySteps(profile) > 0;
  auto isCounted = [&](int64_t time) {
    std::optional<uint32_t> step = stepAt(profile.steps, time);
    return !anySteady || (step && profile.steps[*step].phase == Phase::Steady);
  };
  std::map<std::tuple<HostCostKind, StringRef, StringRef>, HostCost> costs;
  auto add = [&](HostCostKind kind, StringRef name, StringRef source,
                 StringRef module, int64_t duration) {
    HostCost &cost = costs[{kind, name, source}];
    cost.kind = kind;
    cost.name = name.str();
    cost.source = source.str();
    cost.module = module.str();
    ++cost.calls;
    cost.timeNs += duration;
  };
  for (uint32_t index = 0; index < trace.hostOps.size(); ++index) {
    const HostOp &op = trace.hostOps[index];
    std::optional<HostCostKind> kind = kindOf(op);
    if (!kind || !isCounted(op.startNs))
      continue;
    // A wait inside another one is part of it.
    uint32_t outer = host.parent(index);
    while (outer != HostTimeline::kNone && !kindOf(host.op(outer)))
      outer = host.parent(outer);
    if (outer != HostTimeline::kNone)
      continue;
    const OperatorPlaces::Where &where = places.of(index);
    add(*kind, op.name, where.source, where.module, op.durationNs);
  }
  for (const HostEvent &event : trace.hostEvents) {
    if (!isCounted(event.startNs))
      continue;
    StringRef source, module;
    if (event.place && *event.place < trace.places.size()) {
      source = trace.places[*event.place].source;
      module = trace.places[*event.place].module;
    }
    add(event.name.starts_with("garbage") ? HostCostKind::Garbage
                                          : HostCostKind::Compilation,
        event.name, source, module, event.durationNs);
  }
  for (auto &[key, cost] : costs)
    profile.host.push_back(std::move(cost));
  llvm::stable_sort(profile.host, [](const HostCost &a, const HostCost &b) {
    return a.timeNs > b.timeNs;
  });
}
