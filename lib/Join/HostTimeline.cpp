// How the host's operators nest.

#include "HostTimeline.h"

#include "llvm/ADT/STLExtras.h"

#include <numeric>

using namespace llvm;
using namespace opprof;
using namespace opprof::join;
using namespace opprof::trace;

bool opprof::join::isOperator(const HostOp &op) {
  if (op.annotation)
    return false;
  if (op.generated || op.name.contains("cpp_fused"))
    return true;
  auto [space, rest] = op.name.split("::");
  return !rest.empty() && !space.empty() && !space.contains(' ') &&
         space != "autograd";
}

static bool isCompiledCall(const HostOp &op) {
  return op.name.starts_with("## Call CompiledFxGraph");
}

HostTimeline::HostTimeline(const Trace &trace) : trace(trace) {
  size_t count = trace.hostOps.size();
  parents.assign(count, kNone);
  callOfOp.assign(count, kNone);
  tops.assign(count, kNone);
  byThread.resize(trace.threads.size());
  // Lists that grow leave their former rooms behind.
  externalIds.reserve(count);

  compilations.resize(trace.threads.size());
  for (const HostEvent &event : trace.hostEvents)
    if (event.name == kCompilationEvent)
      compilations[event.thread].push_back(
          {event.startNs, event.startNs + event.durationNs});
  for (std::vector<Interval> &ofThread : compilations)
    ofThread = unite(std::move(ofThread));

  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  // A range comes before what it holds.
  llvm::stable_sort(order, [&](uint32_t a, uint32_t b) {
    const HostOp &left = trace.hostOps[a], &right = trace.hostOps[b];
    if (left.startNs != right.startNs)
      return left.startNs < right.startNs;
    return left.durationNs > right.durationNs;
  });

  std::vector<std::vector<uint32_t>> open(trace.threads.size());
  for (uint32_t index : order) {
    const HostOp &op = trace.hostOps[index];
    byThread[op.thread].push_back(index);
    if (op.externalId)
      externalIds.add(*op.externalId, index);

    // Ends are rounded, so a child may end a nanosecond after its parent: the
    // start alone decides.
    std::vector<uint32_t> &stack = open[op.thread];
    while (!stack.empty() && trace.hostOps[stack.back()].endNs() <= op.startNs)
      stack.pop_back();
    uint32_t outer = stack.empty() ? kNone : stack.back();
    parents[index] = outer;

    if (isCompiledCall(op)) {
      callOfOp[index] = callOps.size();
      callOps.push_back(index);
      callTops.emplace_back();
    } else if (outer != kNone) {
      callOfOp[index] = callOfOp[outer];
      if (callOfOp[outer] == kNone || outer != callOps[callOfOp[outer]])
        tops[index] = tops[outer];
    }
    if (tops[index] != kNone && op.name == trace.hostOps[outer].name &&
        outer == tops[index] && !trace.inputsOf(op).firstType.empty())
      calledAgain[outer] = index;
    if (tops[index] == kNone && isOperator(op)) {
      tops[index] = index;
      if (callOfOp[index] == kNone)
        outsideTops.push_back(index);
      else
        callTops[callOfOp[index]].push_back(index);
    }
    stack.push_back(index);
  }
  // Of several with one id the first to begin stays.
  externalIds.sort();
}

StringRef HostTimeline::firstTypeAround(uint32_t op) const {
  for (; op != kNone; op = parents[op])
    if (StringRef type = inputsOf(op).firstType; !type.empty())
      return type;
  return "";
}

StringRef HostTimeline::firstTypeWithin(uint32_t top) const {
  auto it = calledAgain.find(top);
  return inputsOf(it == calledAgain.end() ? top : it->second).firstType;
}

uint32_t HostTimeline::calleeOf(uint32_t op) const {
  if (op == kNone)
    return kNone;
  if (uint32_t top = topOf(op); top != kNone)
    return top;
  while (op != kNone && trace.hostOps[op].annotation)
    op = parents[op];
  return op;
}

uint32_t HostTimeline::byExternalId(uint64_t externalId) const {
  return externalIds.find(externalId);
}

bool HostTimeline::isCompiling(uint32_t op) const {
  const HostOp &what = trace.hostOps[op];
  return contains(compilations[what.thread], what.startNs);
}

uint32_t HostTimeline::enclosing(ThreadId thread, int64_t time) const {
  ArrayRef<uint32_t> ops = byThread[thread];
  const uint32_t *it =
      llvm::upper_bound(ops, time, [&](int64_t at, uint32_t op) {
        return at < trace.hostOps[op].startNs;
      });
  if (it == ops.begin())
    return kNone;
  uint32_t candidate = *std::prev(it);
  while (candidate != kNone && trace.hostOps[candidate].endNs() <= time)
    candidate = parents[candidate];
  return candidate;
}
