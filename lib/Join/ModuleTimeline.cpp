// Which modules the host was in.

#include "ModuleTimeline.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::join;
using namespace opprof::trace;

ModuleTimeline::ModuleTimeline(const Trace &trace)
    : frames(trace.threads.size()) {
  std::vector<const ModuleFrame *> order;
  for (const ModuleFrame &frame : trace.moduleFrames)
    order.push_back(&frame);
  // A frame comes before what it holds.
  llvm::stable_sort(order, [](const ModuleFrame *a, const ModuleFrame *b) {
    return std::tuple(a->startNs, -a->durationNs) <
           std::tuple(b->startNs, -b->durationNs);
  });
  // A path is bounded: nesting comes from the file.
  constexpr size_t kLongest = 400;
  std::vector<uint32_t> open(trace.threads.size(), kNone);
  for (const ModuleFrame *frame : order) {
    std::vector<Frame> &own = frames[frame->thread];
    uint32_t &inner = open[frame->thread];
    while (inner != kNone && own[inner].endNs <= frame->startNs)
      inner = own[inner].parent;
    StringRef name = frame->name;
    name.consume_front("nn.Module: ");
    StringRef path = name;
    if (inner != kNone && own[inner].path.size() + name.size() < kLongest)
      path = paths.save(own[inner].path + "." + name);
    own.push_back(
        {frame->startNs, frame->startNs + frame->durationNs, inner, path});
    inner = own.size() - 1;
  }
}

StringRef ModuleTimeline::at(ThreadId thread, int64_t time) const {
  const std::vector<Frame> &own = frames[thread];
  auto it = llvm::upper_bound(own, time, [](int64_t at, const Frame &frame) {
    return at < frame.startNs;
  });
  if (it == own.begin())
    return "";
  uint32_t inner = it - own.begin() - 1;
  while (inner != kNone && own[inner].endNs <= time)
    inner = own[inner].parent;
  return inner == kNone ? "" : own[inner].path;
}
