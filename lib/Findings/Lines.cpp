// Findings at lines of the program, of programs whose operators an observer
// recorded: what the host waits for, and work that one operator of PyTorch does
// faster than the several that the program calls.

#include "FindingBuilder.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

#include <map>
#include <set>

using namespace llvm;
using namespace opprof;
using namespace opprof::findings;
using namespace opprof::profile;

/// What costs less of a step is not worth a finding.
static constexpr double kLeastShare = 0.01;
/// Data loading that a step can hide behind is less than this of it.
static constexpr double kLeastLoadingShare = 0.1;
/// Calls of an operator in a step that make a loop over parameters.
static constexpr uint64_t kLeastLoop = 8;
static constexpr uint64_t kLeastOptimizerLoop = 30;
/// Operators between the products and the softmax of an attention: scale, mask,
/// dropout.
static constexpr size_t kAttentionReach = 6;
/// Lines that a normalization or a loop by hand is written in.
static constexpr unsigned kLinesAround = 4;

namespace {
/// A line of a file.
struct Line {
  StringRef file;
  unsigned number = 0;

  explicit Line(StringRef source) {
    auto [path, line] = source.rsplit(':');
    file = path;
    if (line.getAsInteger(10, number))
      number = 0;
  }
  bool isNear(const Line &other) const {
    return file == other.file && number <= other.number + kLinesAround &&
           other.number <= number + kLinesAround;
  }
};

/// What the kernels of one line take.
struct Cost {
  StringRef module;
  uint64_t calls = 0;
  int64_t timeNs = 0;

  void add(const Activity &kernel) {
    module = kernel.origin->module;
    ++calls;
    timeNs += kernel.durationNs;
  }
  void add(const Cost &other) {
    calls += other.calls;
    timeNs += other.timeNs;
  }
};

/// A module and a line of it.
using ModuleLine = std::pair<StringRef, StringRef>;
} // namespace

static StringRef nameOf(const Activity &kernel) {
  StringRef name =
      kernel.origin->hostOp.empty() ? kernel.name : kernel.origin->hostOp;
  name.consume_front("aten::");
  return name;
}

template <typename Evidence>
static void addAt(Context &context, StringRef source, const Cost &cost) {
  if (static_cast<double>(cost.timeNs) <
      kLeastShare * static_cast<double>(context.wall()))
    return;
  Evidence found;
  found.source = source.str();
  found.module = cost.module.str();
  found.calls = cost.calls;
  found.timeNs = cost.timeNs;
  context.add(found).severityNsPerStep = context.perStep(cost.timeNs);
}

static void addHostLines(Context &context) {
  std::map<StringRef, Cost> garbage;
  for (const HostCost &host : context.profile.host) {
    Cost cost = {host.module, host.calls, host.timeNs};
    bool isMuch = static_cast<double>(cost.timeNs) >=
                  kLeastLoadingShare * static_cast<double>(context.wall());
    if (host.kind == HostCostKind::DataLoading && isMuch)
      addAt<evidence::DataLoadingWaits>(context, host.source, cost);
    if (host.kind == HostCostKind::Compilation)
      addAt<evidence::Recompilation>(context, host.source, cost);
    if (host.kind == HostCostKind::Garbage)
      garbage[host.source].add(cost);
    if (host.kind == HostCostKind::Checkpoint)
      addAt<evidence::CheckpointWriting>(context, host.source, cost);
    if (host.kind == HostCostKind::Program && isMuch) {
      evidence::HostCode code;
      code.source = host.source;
      code.after = host.name;
      code.calls = host.calls;
      code.timeNs = host.timeNs;
      context.add(code).severityNsPerStep = context.perStep(host.timeNs);
    }
  }
  // Of all generations.
  for (const auto &[source, cost] : garbage)
    addAt<evidence::GarbageCollection>(context, source, cost);
}

/// What the backward pass of these lines takes.
static int64_t backwardTime(const Context &context,
                            const std::set<ModuleLine> &lines) {
  int64_t timeNs = 0;
  for (const Activity *kernel : context.kernels)
    if (kernel->part == Part::Backward &&
        lines.count({kernel->origin->module, kernel->origin->source}))
      timeNs += kernel->durationNs;
  return timeNs;
}

/// Means, roots and quotients of one place, and no operator that normalizes.
static void addNormalizations(Context &context) {
  std::map<StringRef, std::vector<const Activity *>> byModule;
  for (const Activity *kernel : context.kernels)
    if (kernel->part == Part::Forward && !kernel->origin->source.empty())
      byModule[kernel->origin->module].push_back(kernel);
  std::map<StringRef, Cost> found;
  for (auto &[module, kernels] : byModule) {
    auto is = [](const Activity *kernel, std::initializer_list<StringRef> of) {
      return llvm::is_contained(of, nameOf(*kernel));
    };
    std::set<StringRef> means;
    for (const Activity *kernel : kernels)
      if (is(kernel, {"mean", "var", "var_mean", "std"}))
        means.insert(kernel->origin->source);
    std::set<StringRef> counted;
    for (StringRef source : means) {
      Line line(source);
      bool hasRoot = false, hasScale = false;
      for (const Activity *kernel : kernels)
        if (Line(kernel->origin->source).isNear(line)) {
          hasRoot |= is(kernel, {"rsqrt", "sqrt", "std"});
          hasScale |= is(kernel, {"mul", "div"});
        }
      if (!hasRoot || !hasScale)
        continue;
      bool isCounted = llvm::any_of(
          counted, [&](StringRef other) { return Line(other).isNear(line); });
      if (isCounted)
        continue;
      counted.insert(source);
      // One line in two modules is of the last.
      Cost &cost = found[source];
      std::set<ModuleLine> lines;
      for (const Activity *kernel : kernels)
        if (Line(kernel->origin->source).isNear(line) &&
            is(kernel, {"mean", "var", "var_mean", "std", "pow", "square",
                        "sub", "rsub", "add", "mul", "div", "rsqrt", "sqrt"})) {
          cost.add(*kernel);
          lines.insert({module, kernel->origin->source});
        }
      cost.timeNs += backwardTime(context, lines);
    }
  }
  for (const auto &[source, cost] : found)
    addAt<evidence::NormalizationByHand>(context, source, cost);
}

/// A softmax between two products of one module.
static void addAttentions(Context &context) {
  auto isProduct = [](const Activity &kernel) {
    return StringSwitch<bool>(nameOf(kernel))
        .Cases({"matmul", "bmm", "baddbmm", "einsum"}, true)
        .Default(false);
  };
  std::map<StringRef, Cost> found;
  // Of the operators that each is made of.
  std::map<StringRef, std::set<ModuleLine>> lines;
  std::vector<const Activity *> kernels;
  llvm::copy_if(
      context.kernels, std::back_inserter(kernels), [](const Activity *kernel) {
        return kernel->part == Part::Forward && !kernel->origin->source.empty();
      });
  for (size_t at = 0; at < kernels.size(); ++at) {
    StringRef name = nameOf(*kernels[at]);
    if (name != "softmax" && name != "_softmax")
      continue;
    auto inModule = [&](size_t place) {
      return kernels[place]->origin->module == kernels[at]->origin->module;
    };
    size_t first = at, last = at;
    for (size_t back = 1; back <= std::min(at, kAttentionReach); ++back)
      if (inModule(at - back) && isProduct(*kernels[at - back])) {
        first = at - back;
        break;
      }
    for (size_t on = 1; on <= kAttentionReach && at + on < kernels.size(); ++on)
      if (inModule(at + on) && isProduct(*kernels[at + on])) {
        last = at + on;
        break;
      }
    if (first == at || last == at)
      continue;
    Cost &cost = found[kernels[at]->origin->source];
    cost.module = kernels[at]->origin->module;
    ++cost.calls;
    for (size_t place = first; place <= last; ++place) {
      cost.timeNs += kernels[place]->durationNs;
      lines[kernels[at]->origin->source].insert(
          {kernels[at]->origin->module, kernels[place]->origin->source});
    }
  }
  for (auto &[source, cost] : found) {
    cost.timeNs += backwardTime(context, lines[source]);
    addAt<evidence::AttentionByHand>(context, source, cost);
  }
}

/// A norm for each parameter's gradient, one after the other.
static void addGradientLoops(Context &context) {
  std::map<StringRef, uint64_t> norms;
  for (const Activity *kernel : context.kernels)
    if (kernel->part == Part::None && !kernel->origin->source.empty() &&
        StringSwitch<bool>(nameOf(*kernel))
            .Cases({"norm", "linalg_vector_norm", "linalg_norm"}, true)
            .Default(false))
      ++norms[kernel->origin->source];
  for (const auto &[source, count] : norms) {
    if (count < kLeastLoop * uint64_t(context.steps))
      continue;
    Line line(source);
    Cost cost;
    for (const Activity *kernel : context.kernels)
      if (kernel->part == Part::None &&
          Line(kernel->origin->source).isNear(line))
        cost.add(*kernel);
    // Gradients of all modules.
    cost.module = "";
    addAt<evidence::GradientLoop>(context, source, cost);
  }
}

/// What the optimizer runs: a loop over parameters, or gradients set to zero.
static void addOptimizer(Context &context) {
  std::map<StringRef, Cost> steps, sets;
  std::map<StringRef, std::map<StringRef, Cost>> foreign;
  std::set<StringRef> fused;
  // These have no other form.
  auto isSingle = [](const Activity &kernel) {
    return StringSwitch<bool>(kernel.origin->range)
        .Cases({"Optimizer.step#LBFGS.step", "Optimizer.step#SparseAdam.step"},
               true)
        .Default(false);
  };
  for (const Activity *kernel : context.kernels) {
    if (kernel->part != Part::Optimizer || isSingle(*kernel))
      continue;
    bool isSet = kernel->origin->range.starts_with("Optimizer.zero_grad#");
    // Of an optimizer that is none of PyTorch's the lines are its own, and none
    // of them is what there is to change.
    bool isForeign = !isSet && !kernel->origin->module.contains(" group ");
    StringRef where =
        isForeign ? kernel->origin->range : kernel->origin->source;
    if (isForeign)
      foreign[where][kernel->origin->source].add(*kernel);
    (isSet ? sets : steps)[where].add(*kernel);
    StringRef name = nameOf(*kernel);
    if (name.starts_with("_fused_") || name.starts_with("_foreach_"))
      fused.insert(where);
  }
  for (const auto &[where, cost] : steps) {
    if (fused.count(where) ||
        cost.calls < kLeastOptimizerLoop * uint64_t(context.steps))
      continue;
    StringRef source = where;
    if (auto lines = foreign.find(where); lines != foreign.end())
      source =
          llvm::max_element(lines->second, [](const auto &a, const auto &b) {
            return a.second.timeNs < b.second.timeNs;
          })->first;
    addAt<evidence::OptimizerLoop>(context, source, cost);
  }
  for (auto &[source, cost] : sets) {
    // Gradients of all modules.
    cost.module = "";
    addAt<evidence::GradientSets>(context, source, cost);
  }
}

/// The gradient of a whole table of which a step used some rows.
static void addEmbeddingGradients(Context &context) {
  std::map<ModuleLine, Cost> sums;
  for (const Activity *kernel : context.kernels)
    if (nameOf(*kernel).starts_with("embedding") &&
        nameOf(*kernel).ends_with("backward") &&
        !kernel->origin->source.empty())
      sums[{kernel->origin->module, kernel->origin->source}].add(*kernel);
  for (const auto &[where, cost] : sums)
    if (static_cast<double>(cost.timeNs) >=
        5 * kLeastShare * static_cast<double>(context.wall()))
      addAt<evidence::DenseEmbeddingGradient>(context, where.second, cost);
}

/// Of each device the line that grows most, where a thousand steps more would
/// take as much again as all that it holds.
static void addMemoryGrowth(Context &context) {
  constexpr uint64_t kManySteps = 1000;
  for (const TensorMemory &memory : context.profile.tensorMemory) {
    std::map<ModuleLine, uint64_t> lines;
    for (const MemorySite &site : memory.sites)
      lines[{site.module, site.source}] += site.growthBytesPerStep;
    auto most = llvm::max_element(lines, [](const auto &a, const auto &b) {
      return a.second < b.second;
    });
    if (most == lines.end() || most->second < 1 + memory.peakBytes / kManySteps)
      continue;
    evidence::MemoryGrowth growth;
    growth.device = memory.device;
    growth.module = most->first.first.str();
    growth.source = most->first.second.str();
    growth.bytesPerStep = most->second;
    growth.allBytesPerStep = memory.growthBytesPerStep;
    growth.peakBytes = memory.peakBytes;
    context.add(growth);
  }
}

void findings::addLineFindings(Context &context) {
  addHostLines(context);
  addNormalizations(context);
  addAttentions(context);
  addGradientLoops(context);
  addOptimizer(context);
  addEmbeddingGradients(context);
  addMemoryGrowth(context);
}
