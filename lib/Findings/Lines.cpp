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
} // namespace

static StringRef nameOf(const Activity &kernel) {
  StringRef name = kernel.hostOp.empty() ? kernel.name : kernel.hostOp;
  name.consume_front("aten::");
  return name;
}

template <typename Evidence>
static void addAt(Context &context, StringRef source, StringRef module,
                  uint64_t calls, int64_t timeNs) {
  if (static_cast<double>(timeNs) <
      kLeastShare * static_cast<double>(context.wall()))
    return;
  Evidence found;
  found.source = source.str();
  found.module = module.str();
  found.calls = calls;
  found.timeNs = timeNs;
  context.add(found).severityNsPerStep = context.perStep(timeNs);
}

static void addHostLines(Context &context) {
  for (const HostCost &cost : context.profile.host) {
    bool isMuch = static_cast<double>(cost.timeNs) >=
                  kLeastLoadingShare * static_cast<double>(context.wall());
    if (cost.kind == HostCostKind::DataLoading && isMuch)
      addAt<evidence::DataLoadingWaits>(context, cost.source, cost.module,
                                        cost.calls, cost.timeNs);
    if (cost.kind == HostCostKind::Compilation)
      addAt<evidence::Recompilation>(context, cost.source, cost.module,
                                     cost.calls, cost.timeNs);
  }
}

/// What the backward pass of these lines of a module takes.
static int64_t backwardTime(const Context &context, StringRef module,
                            const std::set<StringRef> &lines) {
  int64_t timeNs = 0;
  for (const Activity *kernel : context.kernels)
    if (kernel->part == Part::Backward && kernel->module == module &&
        lines.count(kernel->source))
      timeNs += kernel->durationNs;
  return timeNs;
}

/// Means, roots and quotients of one place, and no operator that normalizes.
static void addNormalizations(Context &context) {
  std::map<StringRef, std::vector<const Activity *>> byModule;
  for (const Activity *kernel : context.kernels)
    if (kernel->part == Part::Forward && !kernel->source.empty())
      byModule[kernel->module].push_back(kernel);
  struct Sum {
    uint64_t calls = 0;
    int64_t timeNs = 0;
    StringRef module;
  };
  std::map<StringRef, Sum> found;
  for (auto &[module, kernels] : byModule) {
    auto is = [](const Activity *kernel, std::initializer_list<StringRef> of) {
      return llvm::is_contained(of, nameOf(*kernel));
    };
    std::set<StringRef> means;
    for (const Activity *kernel : kernels)
      if (is(kernel, {"mean", "var", "var_mean", "std"}))
        means.insert(kernel->source);
    std::set<StringRef> counted;
    for (StringRef source : means) {
      Line line(source);
      bool hasRoot = false, hasScale = false;
      for (const Activity *kernel : kernels)
        if (Line(kernel->source).isNear(line)) {
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
      Sum &sum = found[source];
      sum.module = module;
      std::set<StringRef> lines;
      for (const Activity *kernel : kernels)
        if (Line(kernel->source).isNear(line) &&
            is(kernel, {"mean", "var", "var_mean", "std", "pow", "square",
                        "sub", "rsub", "add", "mul", "div", "rsqrt", "sqrt"})) {
          ++sum.calls;
          sum.timeNs += kernel->durationNs;
          lines.insert(kernel->source);
        }
      sum.timeNs += backwardTime(context, module, lines);
    }
  }
  for (const auto &[source, sum] : found)
    addAt<evidence::NormalizationByHand>(context, source, sum.module, sum.calls,
                                         sum.timeNs);
}

/// A softmax between two products of one module.
static void addAttentions(Context &context) {
  auto isProduct = [](const Activity &kernel) {
    return StringSwitch<bool>(nameOf(kernel))
        .Cases({"matmul", "bmm", "baddbmm", "einsum"}, true)
        .Default(false);
  };
  struct Sum {
    uint64_t calls = 0;
    int64_t timeNs = 0;
    StringRef module;
  };
  std::map<StringRef, Sum> found;
  // Modules and lines of the operators that each is made of.
  std::map<StringRef, std::set<std::pair<StringRef, StringRef>>> lines;
  std::vector<const Activity *> kernels;
  llvm::copy_if(
      context.kernels, std::back_inserter(kernels), [](const Activity *kernel) {
        return kernel->part == Part::Forward && !kernel->source.empty();
      });
  for (size_t at = 0; at < kernels.size(); ++at) {
    StringRef name = nameOf(*kernels[at]);
    if (name != "softmax" && name != "_softmax")
      continue;
    auto inModule = [&](size_t place) {
      return kernels[place]->module == kernels[at]->module;
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
    Sum &sum = found[kernels[at]->source];
    sum.module = kernels[at]->module;
    ++sum.calls;
    for (size_t place = first; place <= last; ++place) {
      sum.timeNs += kernels[place]->durationNs;
      lines[kernels[at]->source].insert(
          {kernels[at]->module, kernels[place]->source});
    }
  }
  for (const Activity *kernel : context.kernels)
    if (kernel->part == Part::Backward)
      for (auto &[source, of] : lines)
        if (of.count({kernel->module, kernel->source}))
          found[source].timeNs += kernel->durationNs;
  for (const auto &[source, sum] : found)
    addAt<evidence::AttentionByHand>(context, source, sum.module, sum.calls,
                                     sum.timeNs);
}

/// A norm for each parameter's gradient, one after the other.
static void addGradientLoops(Context &context) {
  std::map<StringRef, uint64_t> norms;
  for (const Activity *kernel : context.kernels)
    if (kernel->part == Part::None && !kernel->source.empty() &&
        StringSwitch<bool>(nameOf(*kernel))
            .Cases({"norm", "linalg_vector_norm", "linalg_norm"}, true)
            .Default(false))
      ++norms[kernel->source];
  for (const auto &[source, count] : norms) {
    if (count < kLeastLoop * uint64_t(context.steps))
      continue;
    Line line(source);
    uint64_t calls = 0;
    int64_t timeNs = 0;
    for (const Activity *kernel : context.kernels)
      if (kernel->part == Part::None && Line(kernel->source).isNear(line)) {
        ++calls;
        timeNs += kernel->durationNs;
      }
    addAt<evidence::GradientLoop>(context, source, "", calls, timeNs);
  }
}

/// What the optimizer runs: a loop over parameters, or gradients set to zero.
static void addOptimizer(Context &context) {
  struct Sum {
    uint64_t calls = 0;
    int64_t timeNs = 0;
    StringRef module;
    bool isFused = false;
  };
  std::map<StringRef, Sum> steps, sets;
  for (const Activity *kernel : context.kernels) {
    if (kernel->part != Part::Optimizer)
      continue;
    bool isSet = kernel->range.starts_with("Optimizer.zero_grad#");
    Sum &sum = (isSet ? sets : steps)[kernel->source];
    ++sum.calls;
    sum.timeNs += kernel->durationNs;
    sum.module = kernel->module;
    StringRef name = nameOf(*kernel);
    sum.isFused |= name.starts_with("_fused_") || name.starts_with("_foreach_");
  }
  for (const auto &[source, sum] : steps)
    if (!sum.isFused &&
        sum.calls >= kLeastOptimizerLoop * uint64_t(context.steps))
      addAt<evidence::OptimizerLoop>(context, source, sum.module, sum.calls,
                                     sum.timeNs);
  for (const auto &[source, sum] : sets)
    addAt<evidence::GradientSets>(context, source, "", sum.calls, sum.timeNs);
}

/// The gradient of a whole table of which a step used some rows.
static void addEmbeddingGradients(Context &context) {
  std::map<std::pair<StringRef, StringRef>, std::pair<uint64_t, int64_t>> sums;
  for (const Activity *kernel : context.kernels)
    if (nameOf(*kernel).starts_with("embedding") &&
        nameOf(*kernel).ends_with("backward") && !kernel->source.empty()) {
      auto &[calls, timeNs] = sums[{kernel->source, kernel->module}];
      ++calls;
      timeNs += kernel->durationNs;
    }
  for (const auto &[where, sum] : sums)
    if (static_cast<double>(sum.second) >=
        5 * kLeastShare * static_cast<double>(context.wall()))
      addAt<evidence::DenseEmbeddingGradient>(
          context, where.first, where.second, sum.first, sum.second);
}

void findings::addLineFindings(Context &context) {
  addHostLines(context);
  addNormalizations(context);
  addAttentions(context);
  addGradientLoops(context);
  addOptimizer(context);
  addEmbeddingGradients(context);
}
