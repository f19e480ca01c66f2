// Where in the program each operator came from, where an observer recorded it
// or a trace has frames of modules.

#include "OperatorPlaces.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

#include <map>
#include <numeric>

using namespace llvm;
using namespace opprof;
using namespace opprof::join;
using namespace opprof::profile;
using namespace opprof::trace;

/// What a range of PyTorch's own is of.
static Part partOfRange(StringRef name) {
  if (name.starts_with("Optimizer."))
    return Part::Optimizer;
  if (name.starts_with("enumerate(DataLoader)"))
    return Part::DataLoading;
  return Part::None;
}

/// A step of an optimizer is given a function that runs the model (LBFGS,
/// Lightning): what has a place, and not that of the optimizer, is of that.
static bool isStepRange(const HostOp &op) {
  return op.annotation && op.name.starts_with("Optimizer.step#");
}

static bool isEngine(const HostOp &op) {
  return op.name.starts_with("autograd::engine::");
}

/// What adds to the gradient of a parameter runs right after the function that
/// made the gradient. Not every recorder says that it is of the backward pass.
static bool addsUp(const HostOp &op) {
  return isEngine(op) && op.name.ends_with("AccumulateGrad");
}

OperatorPlaces::OperatorPlaces(const Trace &trace, const HostTimeline &host,
                               const ModuleTimeline &modules)
    : fromFrames(trace.places.empty()) {
  if (trace.places.empty() && trace.moduleFrames.empty())
    return;
  wheres.resize(trace.hostOps.size());
  std::vector<uint32_t> order(trace.hostOps.size());
  std::iota(order.begin(), order.end(), 0);
  llvm::stable_sort(order, [&](uint32_t a, uint32_t b) {
    return trace.hostOps[a].startNs < trace.hostOps[b].startNs;
  });
  // By thread and sequence number: of operators that have the same, the last
  // began is the one that recorded the function.
  std::map<std::pair<ThreadId, int64_t>, uint32_t> recorder;
  std::vector<uint32_t> lastBackward(trace.threads.size(), kNone);
  for (uint32_t index : order) {
    const HostOp &op = trace.hostOps[index];
    Where &where = wheres[index];
    uint32_t outer = host.parent(index);
    if (outer != kNone)
      where = wheres[outer];
    if (op.annotation) {
      if (Part part = partOfRange(op.name); part != Part::None)
        where.part = part;
    } else if (isEngine(op)) {
      where.part = Part::Backward;
    }
    if (op.backward || addsUp(op)) {
      uint32_t from = lastBackward[op.thread];
      if (op.sequenceNumber) {
        auto it = recorder.find(
            {op.forwardThread.value_or(op.thread), *op.sequenceNumber});
        from = it == recorder.end() ? kNone : it->second;
        // The engine's own range is round the function.
        if (outer == kNone || !trace.hostOps[outer].backward) {
          ++functions;
          found += from != kNone;
        }
      }
      // PyTorch numbers what needs no gradient too: what was recorded is what
      // comes back.
      for (uint32_t at = from; at != kNone && wheres[at].part == Part::None &&
                               !trace.hostOps[at].annotation;
           at = host.parent(at))
        wheres[at].part = Part::Forward;
      where = from == kNone ? Where() : wheres[from];
      where.part = Part::Backward;
      lastBackward[op.thread] = index;
      // Gradients that meet here are added up after the function.
      if (outer != kNone && isEngine(trace.hostOps[outer]))
        wheres[outer] = where;
    } else if (op.place && *op.place < trace.places.size()) {
      const Place &place = trace.places[*op.place];
      if (!place.source.empty())
        where.source = place.source;
      if (!place.module.empty())
        where.module = place.module;
      if (!place.group.empty()) {
        where.module = place.group;
        where.part = Part::Optimizer;
      } else if (outer != kNone && isStepRange(trace.hostOps[outer])) {
        where.part = Part::None;
        where.module = place.module;
      }
    }
    // The engine's threads have no frames but of what is computed again.
    if (fromFrames && !op.backward)
      if (StringRef module = modules.at(op.thread, op.startNs);
          !module.empty()) {
        where.module = module;
        if (outer != kNone && isStepRange(trace.hostOps[outer]))
          where.part = Part::None;
      }
    if (where.part == Part::None && !op.annotation && !op.backward &&
        !where.module.empty())
      where.part = Part::Forward;
    if (op.sequenceNumber && !op.backward)
      recorder[{op.thread, *op.sequenceNumber}] = index;
  }
}

std::string OperatorPlaces::describeBackward() const {
  if (!fromFrames || !functions)
    return "";
  return ("modules of backward operators are those of the forward operators "
          "with their sequence numbers, which is certain, and known of " +
          Twine(found) + " of " + Twine(functions) +
          " functions of autograd; what adds up gradients has those of the "
          "function before it" +
          (found == functions
               ? ""
               : "; of the others the forward operator is not in the trace, or "
                 "several threads have such a number"))
      .str();
}

const OperatorPlaces::Where &OperatorPlaces::of(uint32_t op) const {
  static const Where nowhere;
  return op < wheres.size() ? wheres[op] : nowhere;
}
