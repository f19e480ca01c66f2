// Steps and phases of a recording.

#include "TraceSteps.h"

#include "RecurringSteps.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::join;
using namespace opprof::profile;
using namespace opprof::trace;

/// Each step lasts until the next begins, and the last until the host's last
/// operator ends.
static void beginStepsAt(ArrayRef<int64_t> starts, const Trace &trace,
                         Profile &profile) {
  for (int64_t start : starts) {
    if (!profile.steps.empty())
      profile.steps.back().endNs = start;
    profile.steps.push_back({0, start, start});
  }
  int64_t last = profile.steps.back().startNs;
  for (const HostOp &op : trace.hostOps)
    last = std::max(last, op.endNs());
  profile.steps.back().endNs = last;
}

/// The steps that the profiler marks. Where ranks were put together each has
/// its own: those of the thread that marked most are taken.
static void addProfilerSteps(const Trace &trace, Profile &profile) {
  std::vector<std::vector<Step>> ofThreads(trace.threads.size());
  for (const HostOp &op : trace.hostOps)
    if (op.annotation && op.name.starts_with("ProfilerStep#"))
      ofThreads[op.thread].push_back({0, op.startNs, op.endNs()});
  llvm::erase_if(ofThreads, [](const auto &steps) { return steps.empty(); });
  if (ofThreads.empty())
    return;
  auto most = llvm::max_element(ofThreads, [](const auto &a, const auto &b) {
    return a.size() < b.size();
  });
  profile.steps = std::move(*most);
  if (ofThreads.size() > 1)
    profile.notes.push_back((Twine(ofThreads.size()) +
                             " threads mark steps: those of the one that marks "
                             "most, or of the first of such, are taken")
                                .str());
}

void opprof::join::findSteps(const Trace &trace, const HostTimeline &host,
                             const CallJoins &calls,
                             ArrayRef<int64_t> passStarts,
                             const LaunchIndex &index, bool anyGraph,
                             Profile &profile) {
  for (const TraceStep &step : trace.steps)
    profile.steps.push_back({0, step.startNs, step.endNs});
  bool marked = !profile.steps.empty();
  if (!marked)
    addProfilerSteps(trace, profile);
  if (!profile.steps.empty()) {
    profile.summary.stepsFrom = marked ? "capture_marks" : "profiler_step";
    llvm::sort(profile.steps, [](const Step &a, const Step &b) {
      return a.startNs < b.startNs;
    });
    // What begins with the program's last call of step() and lasts until it
    // takes the profiler away is no step, where nothing runs in it.
    auto runs = [&](const Step &step) {
      return llvm::any_of(trace.hostOps, [&](const HostOp &op) {
        return isOperator(op) && !op.annotation && op.startNs >= step.startNs &&
               op.startNs < step.endNs;
      });
    };
    if (!marked && profile.steps.size() > 1 && !runs(profile.steps.back()) &&
        runs(profile.steps[profile.steps.size() - 2]))
      profile.steps.pop_back();
  } else if (anyGraph && !host.calls().empty()) {
    // A step is taken to begin wherever the first compiled graph is called
    // again. Of a program that no graph is known of, that may be anything.
    auto identity = [&](uint32_t call) -> std::pair<uint32_t, StringRef> {
      if (calls.mapOf(call) != kNone)
        return {calls.mapOf(call), ""};
      return {kNone, host.op(host.calls()[call]).name};
    };
    std::vector<int64_t> starts;
    for (uint32_t call = 0; call < host.calls().size(); ++call)
      if (identity(call) == identity(0))
        starts.push_back(host.op(host.calls()[call]).startNs);
    beginStepsAt(starts, trace, profile);
    profile.summary.stepsFrom = "compiled_calls";
    std::string graph = identity(0).first == kNone
                            ? "the first compiled graph"
                            : index.getMaps()[identity(0).first].graph;
    profile.notes.push_back("no marks of steps (ProfilerStep#n) in the trace: "
                            "a step is taken to begin at each call of " +
                            graph);
  } else if (passStarts.size() > 1) {
    beginStepsAt(passStarts, trace, profile);
    profile.summary.stepsFrom = "graph_passes";
    profile.notes.push_back(
        "no marks of steps (ProfilerStep#n) in the trace: a "
        "step is taken to begin at each pass through the "
        "graph");
  } else {
    findRecurringSteps(trace, host, profile);
  }
  for (auto [number, step] : llvm::enumerate(profile.steps))
    step.index = number;
  if (!profile.steps.empty())
    profile.summary.steps = profile.steps.size();

  // A step in which something was compiled is no steady one, but where it is
  // the program's way to compile in every step.
  if (profile.summary.stepsFrom == "optimizer_steps" ||
      profile.summary.stepsFrom == "recurring_operators")
    return;
  for (const HostOp &op : trace.hostOps) {
    if (!op.name.ends_with("(dynamo_timed)") &&
        !op.name.starts_with("CUDAGraphNode.record"))
      continue;
    if (std::optional<uint32_t> step = stepAt(profile.steps, op.startNs))
      profile.steps[*step].phase = Phase::WarmUp;
  }
}

std::optional<uint32_t> opprof::join::stepAt(ArrayRef<Step> steps,
                                             int64_t time) {
  const Step *it =
      llvm::upper_bound(steps, time, [](int64_t at, const Step &step) {
        return at < step.startNs;
      });
  if (it == steps.begin())
    return std::nullopt;
  const Step &step = *std::prev(it);
  if (time >= step.endNs && &step != &steps.back())
    return std::nullopt;
  if (time > step.endNs)
    return std::nullopt;
  return step.index;
}

Phase opprof::join::phaseOf(const HostTimeline &host, uint32_t op) {
  Phase phase =
      op != kNone && host.isCompiling(op) ? Phase::Compile : Phase::Steady;
  for (; op != kNone; op = host.parent(op)) {
    StringRef name = host.op(op).name;
    if (name.ends_with("(dynamo_timed)")) {
      if (name.contains_insensitive("autotun") ||
          name.contains_insensitive("benchmark"))
        return Phase::Autotune;
      phase = Phase::Compile;
    } else if (name.starts_with("CUDAGraphNode.record") &&
               phase == Phase::Steady) {
      phase = Phase::WarmUp;
    }
  }
  return phase;
}
