// Findings at lines of the program, of programs whose operators an observer
// recorded: what the host waits for, and work that one operator of PyTorch does
// faster than the several that the program calls.

#include "FindingBuilder.h"

#include "opprof/Analysis/Cost/DeviceCeilings.h"
#include "opprof/Support/Median.h"
#include "opprof/Trace/InputShapes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

#include <algorithm>
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
  /// With what it takes to call them (Context::spanOf).
  int64_t spanNs = 0;
  /// What the program is shorter by with what does the same in their place.
  std::optional<int64_t> savedNs;

  void add(const Context &context, const Activity &kernel) {
    module = kernel.origin->module;
    ++calls;
    timeNs += kernel.durationNs;
    spanNs += context.spanOf(kernel);
  }
  void add(const Cost &other) {
    calls += other.calls;
    timeNs += other.timeNs;
    spanNs += other.spanNs;
  }
  /// `stays` is what the one in their place takes.
  void replaceBy(int64_t stays) {
    savedNs = std::max<int64_t>(spanNs - stays, 0);
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

/// Named by the time that it takes: what it costs may be less.
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
  found.savedNs = cost.savedNs;
  context.add(found).severityNsPerStep =
      context.perStep(cost.savedNs.value_or(cost.timeNs));
}

static void addHostLines(Context &context) {
  std::map<StringRef, Cost> garbage;
  for (const HostCost &host : context.profile.host) {
    Cost cost;
    cost.module = host.module;
    cost.calls = host.calls;
    cost.timeNs = host.timeNs;
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

/// What the backward pass of these lines runs.
static std::vector<const Activity *>
backwardOf(const Context &context, const std::set<ModuleLine> &lines) {
  std::vector<const Activity *> found;
  for (const Activity *kernel : context.kernels)
    if (kernel->part == Part::Backward &&
        lines.count({kernel->origin->module, kernel->origin->source}))
      found.push_back(kernel);
  return found;
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
      Cost cost;
      std::set<ModuleLine> lines;
      std::vector<int64_t> spans;
      int64_t roots = 0;
      bool isCentred = false;
      for (const Activity *kernel : kernels) {
        if (!Line(kernel->origin->source).isNear(line) ||
            !is(kernel,
                {"mean", "var", "var_mean", "std", "pow", "square", "sub",
                 "rsub", "add", "mul", "div", "rsqrt", "sqrt", "reciprocal"}))
          continue;
        cost.add(context, *kernel);
        spans.push_back(context.spanOf(*kernel));
        lines.insert({module, kernel->origin->source});
        isCentred |= is(kernel, {"sub", "rsub", "var", "var_mean", "std"});
        roots += is(kernel, {"rsqrt", "sqrt", "std"});
      }
      std::vector<const Activity *> backward = backwardOf(context, lines);
      for (const Activity *kernel : backward) {
        cost.timeNs += kernel->durationNs;
        cost.spanNs += context.spanOf(*kernel);
      }
      // One operator for each root reads all and writes it, as most of these
      // do; its backward pass takes two such. On a CPU rms_norm is made of the
      // same operators.
      int64_t stays = medianOf(spans) * roots;
      cost.replaceBy(backward.empty() ? stays : 3 * stays);
      if (context.isCPU && !isCentred)
        cost.savedNs = 0;
      Cost &sum = found[source];
      sum.module = cost.module;
      sum.add(cost);
      sum.savedNs = sum.savedNs.value_or(0) + *cost.savedNs;
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
  // Of the operators that each is made of; what its products take, and what
  // the operator in its place does as well.
  std::map<StringRef, std::set<ModuleLine>> lines;
  std::map<StringRef, int64_t> products, stays;
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
    StringRef source = kernels[at]->origin->source;
    Cost &cost = found[source];
    cost.module = kernels[at]->origin->module;
    ++cost.calls;
    for (size_t place = first; place <= last; ++place) {
      const Activity &kernel = *kernels[place];
      cost.timeNs += kernel.durationNs;
      cost.spanNs += context.spanOf(kernel);
      if (isProduct(kernel))
        products[source] += context.spanOf(kernel);
      // A CPU computes the softmax all the same.
      if (isProduct(kernel) || (context.isCPU && place == at))
        stays[source] += context.spanOf(kernel);
      lines[source].insert({kernel.origin->module, kernel.origin->source});
    }
  }
  for (auto &[source, cost] : found) {
    std::vector<const Activity *> backward = backwardOf(context, lines[source]);
    for (const Activity *kernel : backward) {
      cost.timeNs += kernel->durationNs;
      cost.spanNs += context.spanOf(*kernel);
      if (isProduct(*kernel) || nameOf(*kernel) == "mm")
        stays[source] += context.spanOf(*kernel);
    }
    // One of the two products is computed again for the backward pass.
    if (!backward.empty())
      stays[source] += products[source] / 2;
    cost.replaceBy(stays[source]);
    addAt<evidence::AttentionByHand>(context, source, cost);
  }
}

namespace {
/// Products of one type.
struct Products {
  Cost cost;
  /// Of those whose sizes are known.
  double flops = 0;
  int64_t withFlopsNs = 0;
  /// What casts on their line take.
  int64_t castsNs = 0;

  void add(const Context &context, const Activity &kernel) {
    cost.add(context, kernel);
    if (!kernel.op)
      return;
    const OperatorTime &op = context.profile.operators[*kernel.op];
    if (!op.flops || !op.kernels)
      return;
    flops += double(*op.flops) * double(op.calls) / double(op.kernels);
    withFlopsNs += context.spanOf(kernel);
  }
  double flopsPerNs() const {
    return withFlopsNs > 0 ? flops / double(withFlopsNs) : 0;
  }
};
} // namespace

/// The type that a product multiplies: of its input, or by the library's name
/// of the kernel; empty where neither says it.
static StringRef productType(const Activity &kernel) {
  StringRef type = kernel.origin->inputType;
  if (!type.empty())
    return StringSwitch<StringRef>(type)
        .Cases({"float", "c10::BFloat16", "c10::Half"}, type)
        .Default("");
  StringRef name = kernel.name;
  if (name.contains("bf16"))
    return "c10::BFloat16";
  if (name.contains("f16") || name.contains("hgemm"))
    return "c10::Half";
  if (name.contains("f32f32") || name.contains("sgemm"))
    return "float";
  return "";
}

/// How much longer float32 takes, where no sizes are known: by the rates of the
/// device.
static double timesLonger(const Context &context) {
  std::optional<DeviceCeilings> ceilings = findDeviceCeilings(*context.device);
  if (!ceilings || ceilings->fp32.rate <= 0 || ceilings->bf16.rate <= 0)
    return 1;
  return std::max(ceilings->bf16.rate / ceilings->fp32.rate, 1.0);
}

/// Products in float32 where most are of fewer bits: what autocast was turned
/// off for, or an input that something made wider.
static void addPrecisionIslands(Context &context) {
  auto isProduct = [](const Activity &kernel) {
    return StringSwitch<bool>(nameOf(kernel))
        .Cases({"linear", "matmul", "mm", "addmm", "bmm", "baddbmm", "conv1d"},
               true)
        .Cases({"conv2d", "conv3d", "convolution", "einsum",
                "scaled_dot_product_attention"},
               true)
        .Default(false);
  };
  Products narrow;
  std::map<StringRef, int64_t> others;
  // By line: one that several modules run is of the last.
  std::map<StringRef, Products> wide;
  std::set<StringRef> mixed;
  for (const Activity *kernel : context.kernels) {
    if (kernel->part != Part::Forward || kernel->origin->source.empty() ||
        !isProduct(*kernel))
      continue;
    StringRef type = productType(*kernel);
    if (type.empty())
      continue;
    StringRef source = kernel->origin->source;
    Products &products = type == "float" ? wide[source] : narrow;
    if (type != "float") {
      others[type] += kernel->durationNs;
      mixed.insert(source);
    }
    products.add(context, *kernel);
  }
  double wideFlops = 0;
  uint64_t wideCalls = 0;
  for (const auto &[source, products] : wide) {
    wideFlops += products.flops;
    wideCalls += products.cost.calls;
  }
  // Some among others, and not the other way round.
  if (wide.empty() || others.empty() ||
      (wideFlops >= narrow.flops && wideCalls >= narrow.cost.calls))
    return;
  StringRef usual = llvm::max_element(others, [](const auto &a, const auto &b) {
                      return a.second < b.second;
                    })->first;
  for (const Activity *kernel : context.kernels) {
    auto it = wide.find(kernel->origin->source);
    if (it == wide.end())
      continue;
    Products &products = it->second;
    if (kernel->part == Part::Backward) {
      products.cost.timeNs += kernel->durationNs;
      products.cost.spanNs += context.spanOf(*kernel);
    } else if (nameOf(*kernel) == "to" || nameOf(*kernel) == "_to_copy") {
      products.castsNs += context.spanOf(*kernel);
    }
  }
  for (auto &[source, products] : wide) {
    // What a line does in both is no choice of the line.
    if (mixed.count(source))
      continue;
    Cost &cost = products.cost;
    // The backward pass is as much faster as the forward one.
    double times = narrow.flopsPerNs() > 0 && products.flopsPerNs() > 0
                       ? narrow.flopsPerNs() / products.flopsPerNs()
                       : timesLonger(context);
    auto stays = static_cast<int64_t>(double(cost.spanNs) / times);
    cost.spanNs += products.castsNs;
    cost.replaceBy(stays);
    if (static_cast<double>(*cost.savedNs) <
        kLeastShare * static_cast<double>(context.wall()))
      continue;
    evidence::PrecisionIsland island;
    island.source = source.str();
    island.module = cost.module.str();
    island.calls = cost.calls;
    island.timeNs = cost.timeNs;
    island.savedNs = cost.savedNs;
    island.others = usual.str();
    context.add(island).severityNsPerStep = context.perStep(*cost.savedNs);
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
    std::vector<int64_t> spans;
    for (const Activity *kernel : context.kernels)
      if (kernel->part == Part::None &&
          Line(kernel->origin->source).isNear(line)) {
        cost.add(context, *kernel);
        spans.push_back(context.spanOf(*kernel));
      }
    // Gradients of all modules.
    cost.module = "";
    // All are read and scaled in any case: what is saved is the calls, each of
    // which takes what the least of them does, those of numbers.
    llvm::sort(spans);
    int64_t call = spans[spans.size() / 10];
    cost.replaceBy(cost.spanNs - int64_t(spans.size()) * call);
    addAt<evidence::GradientLoop>(context, source, cost);
  }
}

/// What the optimizer runs: a loop over parameters, or gradients set to zero.
static void addOptimizer(Context &context) {
  std::map<StringRef, Cost> steps, sets;
  std::map<StringRef, std::map<StringRef, Cost>> foreign;
  std::map<StringRef, std::map<StringRef, int64_t>> byName;
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
      foreign[where][kernel->origin->source].add(context, *kernel);
    (isSet ? sets : steps)[where].add(context, *kernel);
    StringRef name = nameOf(*kernel);
    if (!isSet)
      byName[where][name] += context.spanOf(*kernel);
    if (name.starts_with("_fused_") || name.starts_with("_foreach_"))
      fused.insert(where);
  }
  for (auto &[where, cost] : steps) {
    if (fused.count(where) ||
        cost.calls < kLeastOptimizerLoop * uint64_t(context.steps))
      continue;
    StringRef source = where;
    if (auto lines = foreign.find(where); lines != foreign.end())
      source =
          llvm::max_element(lines->second, [](const auto &a, const auto &b) {
            return a.second.timeNs < b.second.timeNs;
          })->first;
    // One kernel goes over each parameter once, as the longest of them does.
    int64_t longest = 0;
    for (const auto &[name, spanNs] : byName[where])
      longest = std::max(longest, spanNs);
    cost.replaceBy(longest);
    addAt<evidence::OptimizerLoop>(context, source, cost);
  }
  for (auto &[source, cost] : sets) {
    // Gradients of all modules.
    cost.module = "";
    cost.replaceBy(0);
    addAt<evidence::GradientSets>(context, source, cost);
  }
}

/// Elements of all tensors of an operator's inputs at that place, by its sizes.
static double elementsOf(const Context &context, const Activity &kernel,
                         size_t place) {
  if (!kernel.op)
    return 0;
  std::vector<trace::InputShape> inputs =
      trace::readInputShapes(context.profile.operators[*kernel.op].inputDims);
  double elements = 0;
  if (place < inputs.size())
    for (const std::vector<int64_t> &sizes : inputs[place].tensors) {
      double product = 1;
      for (int64_t size : sizes)
        product *= double(size);
      elements += product;
    }
  return elements;
}

/// The gradient of a whole table of which a step used some rows, and what the
/// optimizer does with all of them.
static void addEmbeddingGradients(Context &context) {
  std::map<StringRef, Cost> sums;
  std::map<ModuleLine, double> tables;
  double parameters = 0;
  int64_t optimizerNs = 0;
  for (const Activity *kernel : context.kernels) {
    StringRef name = nameOf(*kernel), source = kernel->origin->source;
    // Of several parameters, which makes it one of a few operators.
    if (kernel->part == Part::Optimizer &&
        !kernel->origin->range.starts_with("Optimizer.zero_grad#") &&
        (name.starts_with("_foreach_") || name.starts_with("_fused_"))) {
      parameters = std::max(parameters, elementsOf(context, *kernel, 0));
      optimizerNs += context.spanOf(*kernel);
    }
    name.consume_front("_");
    if (!name.starts_with("embedding") || source.empty())
      continue;
    if (name.ends_with("backward"))
      sums[source].add(context, *kernel);
    else if (kernel->part == Part::Forward)
      tables[{kernel->origin->module, source}] =
          elementsOf(context, *kernel, 0);
  }
  for (auto &[source, cost] : sums) {
    double elements = 0;
    for (const auto &[line, size] : tables)
      if (line.second == source)
        elements += size;
    // What the optimizer does with the rows that were not used. A sparse
    // gradient takes no time.
    if (parameters > 0 && static_cast<double>(cost.spanNs) >=
                              kLeastShare * static_cast<double>(context.wall()))
      cost.spanNs += static_cast<int64_t>(double(optimizerNs) *
                                          std::min(1.0, elements / parameters));
    if (static_cast<double>(cost.spanNs) <
        5 * kLeastShare * static_cast<double>(context.wall()))
      continue;
    cost.replaceBy(0);
    addAt<evidence::DenseEmbeddingGradient>(context, source, cost);
  }
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
  addPrecisionIslands(context);
  addGradientLoops(context);
  addOptimizer(context);
  addEmbeddingGradients(context);
  addMemoryGrowth(context);
}
