// Findings at lines of the program, of programs whose operators an observer
// recorded: what the host waits for, and work that one operator of PyTorch does
// faster than the several that the program calls.

#include "FindingBuilder.h"

#include "opprof/Analysis/Cost/DeviceCeilings.h"
#include "opprof/Profile/CollectiveWait.h"
#include "opprof/Support/Median.h"
#include "opprof/Trace/InputShapes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

#include <algorithm>
#include <limits>
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
/// Calls of an operator in a step that make a loop.
static constexpr uint64_t kLeastLoop = 8;
static constexpr uint64_t kLeastOptimizerLoop = 30;
/// Operators on lists of all parameters call about as many kernels.
static constexpr size_t kCallsOfList = 4;
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
  std::vector<const Activity *> kernels;

  void add(const Context &context, const Activity &kernel) {
    module = kernel.origin->module;
    ++calls;
    addTime(context, kernel);
  }
  /// Of the backward pass: no call of the line.
  void addTime(const Context &context, const Activity &kernel) {
    timeNs += kernel.durationNs;
    spanNs += context.spanOf(kernel);
    kernels.push_back(&kernel);
  }
  void add(const Cost &other) {
    calls += other.calls;
    timeNs += other.timeNs;
    spanNs += other.spanNs;
    llvm::append_range(kernels, other.kernels);
  }
  /// `stays` is what those in their place take, which are `left` calls in all.
  void replaceBy(const Context &context, int64_t stays, size_t left) {
    if (const Simulation *played = context.simulation()) {
      savedNs = played->savedBy(shareAmong(stays, left));
      return;
    }
    savedNs = std::max<int64_t>(spanNs - stays, 0);
  }

private:
  /// Some of the kernels in the place of all, evenly among them.
  Simulation::Times shareAmong(int64_t stays, size_t left) const {
    Simulation::Times times;
    left = std::min(left, kernels.size());
    for (const Activity *kernel : kernels)
      times[kernel] = Simulation::kGone;
    for (size_t at = 0; at < left; ++at)
      times[kernels[at * kernels.size() / left]] = stays / int64_t(left);
    return times;
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

static bool isWorth(const Context &context, int64_t timeNs) {
  return static_cast<double>(timeNs) >=
         kLeastShare * static_cast<double>(context.undisturbedNs());
}

/// Named by the time that it takes: what it costs may be less.
template <typename Evidence>
static void addAt(Context &context, StringRef source, const Cost &cost) {
  // What its calls cost is seen by what is saved.
  if (!isWorth(context, std::max(cost.timeNs, cost.savedNs.value_or(0))))
    return;
  Evidence found;
  found.source = source.str();
  found.module = cost.module.str();
  found.calls = cost.calls;
  found.timeNs = cost.timeNs;
  found.savedNs = cost.savedNs;
  Finding &finding = context.add(found);
  // What nothing of PyTorch's saves is named, and has no cost.
  if (int64_t costNs = cost.savedNs.value_or(cost.timeNs))
    finding.severityNsPerStep = context.perStep(costNs);
}

static void addHostLines(Context &context) {
  std::map<StringRef, Cost> garbage;
  const Device *device = findBusiestDevice(context.profile);
  bool isCPU = device && device->kind == "cpu";
  int64_t idleNs = isCPU ? 0 : sumLengths(context.idle());
  for (const HostCost &host : context.profile.host) {
    Cost cost;
    cost.module = host.module;
    cost.calls = host.calls;
    cost.timeNs = host.timeNs;
    // Of what a GPU had to do meanwhile nothing is lost, and no line can save
    // what another one does.
    if (host.kind == HostCostKind::DataLoading && !isCPU) {
      if (idleNs < host.timeNs)
        cost.savedNs = idleNs;
      idleNs -= std::min(idleNs, host.timeNs);
    }
    // What held the program up did so in here as well.
    bool isMuch = static_cast<double>(cost.savedNs.value_or(cost.timeNs)) >=
                  kLeastLoadingShare * static_cast<double>(context.wall());
    if (host.kind == HostCostKind::DataLoading && isMuch)
      addAt<evidence::DataLoadingWaits>(context, host.source, cost);
    if (host.kind == HostCostKind::Compilation)
      addAt<evidence::Recompilation>(context, host.source, cost);
    if (host.kind == HostCostKind::Garbage)
      garbage[host.source].add(cost);
    // Waits for a device are told by what the steps are without them.
    if (host.kind == HostCostKind::Wait && host.name == kCollectiveWait &&
        isMuch)
      addAt<evidence::CollectiveWait>(context, host.source, cost);
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

/// Whether a product or quotient is of two tensors, as of what is normalized
/// and its norm; one of a number scales a loss or a variance.
static bool isOfTwoTensors(const Context &context, const Activity &kernel) {
  if (!kernel.op)
    return true;
  std::vector<trace::InputShape> inputs =
      trace::readInputShapes(context.profile.operators[*kernel.op].inputDims);
  auto isTensor = [](const trace::InputShape &input) {
    return !input.tensors.empty() && !input.tensors.front().empty();
  };
  return inputs.size() < 2 || (isTensor(inputs[0]) && isTensor(inputs[1]));
}

/// Means, roots and quotients of one place, and no operator that normalizes.
static void addNormalizations(Context &context) {
  std::map<StringRef, std::vector<const Activity *>> byModule;
  for (const Activity *kernel : context.kernels)
    if (kernel->part == Part::Forward && !kernel->origin->source.empty())
      byModule[kernel->origin->module].push_back(kernel);
  std::map<StringRef, Cost> found;
  // What those in their place take, in how many calls.
  std::map<StringRef, std::pair<int64_t, size_t>> left;
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
          hasScale |=
              is(kernel, {"mul", "div"}) && isOfTwoTensors(context, *kernel);
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
      for (const Activity *kernel : backward)
        cost.addTime(context, *kernel);
      // One operator for each root reads all and writes it, as most of these
      // do; its backward pass takes two such. On a CPU rms_norm is made of the
      // same operators.
      int64_t stays = medianOf(spans) * roots;
      if (!backward.empty())
        stays *= 3;
      if (context.isCPU && !isCentred)
        stays = cost.spanNs;
      Cost &sum = found[source];
      sum.module = cost.module;
      sum.add(cost);
      left[source].first += stays;
      left[source].second += roots * (backward.empty() ? 1 : 3);
    }
  }
  for (auto &[source, cost] : found) {
    cost.replaceBy(context, left[source].first, left[source].second);
    addAt<evidence::NormalizationByHand>(context, source, cost);
  }
}

/// A softmax between two products of one module.
static void addAttentions(Context &context) {
  auto isProduct = [](const Activity &kernel) {
    return StringSwitch<bool>(nameOf(kernel))
        .Cases({"matmul", "bmm", "baddbmm", "einsum"}, true)
        .Default(false);
  };
  auto isSoftmax = [](const Activity &kernel) {
    StringRef name = nameOf(kernel);
    return name == "softmax" || name == "_softmax";
  };
  std::map<StringRef, Cost> found;
  // Of the operators that each is made of; what its products take, and what
  // the operator in its place does as well.
  std::map<StringRef, std::set<ModuleLine>> lines;
  std::map<StringRef, int64_t> product, stays;
  std::vector<const Activity *> kernels;
  llvm::copy_if(
      context.kernels, std::back_inserter(kernels), [](const Activity *kernel) {
        return kernel->part == Part::Forward && !kernel->origin->source.empty();
      });
  for (size_t at = 0; at < kernels.size(); ++at) {
    if (!isSoftmax(*kernels[at]))
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
    // A product copies what does not fit it first.
    auto isCopyFor = [&](size_t place, size_t product) {
      return inModule(place) &&
             kernels[place]->name.contains_insensitive("copy") &&
             nameOf(*kernels[place]) == nameOf(*kernels[product]) &&
             kernels[place]->origin->source == kernels[product]->origin->source;
    };
    const size_t scores = first;
    while (first > 0 && isCopyFor(first - 1, scores))
      --first;
    while (last + 1 < kernels.size() && isCopyFor(last, last + 1))
      ++last;
    StringRef source = kernels[at]->origin->source;
    Cost &cost = found[source];
    cost.module = kernels[at]->origin->module;
    ++cost.calls;
    // Both products have the same arithmetic. What one of them takes longer is
    // of the scores, which go through memory, and of copies that make it fit.
    const int64_t shorter = std::min(context.spanOf(*kernels[scores]),
                                     context.spanOf(*kernels[last]));
    product[source] += shorter;
    stays[source] += 2 * shorter;
    for (size_t place = first; place <= last; ++place) {
      const Activity &kernel = *kernels[place];
      cost.addTime(context, kernel);
      // A CPU computes the softmax all the same.
      if (context.isCPU && isSoftmax(kernel))
        stays[source] += context.spanOf(kernel);
      lines[source].insert({kernel.origin->module, kernel.origin->source});
    }
    // Its softmax may be of several kernels.
    at = last;
  }
  for (auto &[source, cost] : found) {
    std::vector<const Activity *> backward = backwardOf(context, lines[source]);
    for (const Activity *kernel : backward) {
      cost.addTime(context, *kernel);
      if (isProduct(*kernel) || nameOf(*kernel) == "mm")
        stays[source] += context.spanOf(*kernel);
    }
    // One of the two products is computed again for the backward pass.
    if (!backward.empty())
      stays[source] += product[source];
    cost.replaceBy(context, stays[source],
                   cost.calls * (backward.empty() ? 1 : 4));
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
  /// Casts on their line.
  std::vector<const Activity *> casts;
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
      products.cost.addTime(context, *kernel);
    } else if (nameOf(*kernel) == "to" || nameOf(*kernel) == "_to_copy") {
      products.castsNs += context.spanOf(*kernel);
      products.casts.push_back(kernel);
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
    if (const Simulation *played = context.simulation()) {
      Simulation::Times changed;
      for (const Activity *kernel : cost.kernels)
        changed[kernel] = int64_t(double(kernel->durationNs) / times);
      for (const Activity *cast : products.casts)
        changed[cast] = Simulation::kGone;
      cost.savedNs = played->savedBy(changed);
    } else {
      auto stays = static_cast<int64_t>(double(cost.spanNs) / times);
      cost.savedNs =
          std::max<int64_t>(cost.spanNs + products.castsNs - stays, 0);
    }
    if (static_cast<double>(*cost.savedNs) <
        kLeastShare * static_cast<double>(context.undisturbedNs()))
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

/// What tells apart calls of an operator on tensors of other sizes: the
/// operator where sizes were recorded, or else blocks.
using Size = std::pair<uint32_t, uint64_t>;
static Size sizeOf(const Activity &kernel) {
  uint64_t blocks = 0;
  if (const auto &grid = kernel.config->grid)
    blocks = (*grid)[0];
  return {kernel.op.value_or(~uint32_t(0)), blocks};
}

/// The lines that clip gradients one by one: each takes many norms of one
/// tensor, by an operator or as a sum of squares, outside of modules and of the
/// backward pass. Sums of products of one size are some measure's.
static std::set<StringRef> findClippingLines(const Context &context) {
  std::map<StringRef, uint64_t> norms, squares, sums;
  std::map<StringRef, std::set<Size>> sizes;
  for (const Activity *kernel : context.kernels) {
    StringRef name = nameOf(*kernel), source = kernel->origin->source;
    if (kernel->part != Part::None || source.empty())
      continue;
    if (name == "norm" || name == "linalg_vector_norm" || name == "linalg_norm")
      ++norms[source];
    else if (name == "pow" || name == "square" || name == "mul")
      ++squares[source];
    else if (name == "sum") {
      ++sums[source];
      if (kernel->op)
        sizes[source].insert(sizeOf(*kernel));
    }
  }
  for (const auto &[source, count] : sums)
    if (auto it = squares.find(source);
        it != squares.end() && sizes[source].size() != 1)
      norms[source] += std::min(count, it->second);
  std::set<StringRef> lines;
  for (const auto &[source, count] : norms)
    if (count >= kLeastLoop * uint64_t(context.steps))
      lines.insert(source);
  return lines;
}

/// To gradients that were set to zero the next backward pass adds, where it
/// could keep what it made.
static void addSums(const Context &context, std::map<StringRef, Cost> &sets) {
  Cost *last = nullptr;
  bool isBackward = false;
  for (const Activity *kernel : context.kernels) {
    if (kernel->origin->range.starts_with("Optimizer.zero_grad#")) {
      auto it = sets.find(kernel->origin->source);
      last = it == sets.end() ? nullptr : &it->second;
      isBackward = false;
    } else if (kernel->part == Part::Backward) {
      isBackward = true;
      if (last && nameOf(*kernel) == "torch::autograd::AccumulateGrad")
        last->addTime(context, *kernel);
    } else if (kernel->part == Part::Forward && isBackward) {
      // To what a second pass makes is added in any case.
      last = nullptr;
    }
  }
}

/// Calls of operators at a line, by name.
using CallsByName = std::map<StringRef, std::vector<const Activity *>>;

/// What a call of an operator takes beside what it does with tensors: what is
/// usual for the smallest ones, or for numbers. Absent where sizes are not
/// known or all are of one.
static std::optional<int64_t> usualCall(const Context &context,
                                        ArrayRef<const Activity *> kernels) {
  std::map<uint32_t, std::vector<int64_t>> bySizes;
  for (const Activity *kernel : kernels) {
    if (!kernel->op)
      return std::nullopt;
    bySizes[*kernel->op].push_back(context.spanOf(*kernel));
  }
  std::optional<int64_t> least;
  for (auto &[op, spans] : bySizes) {
    const std::vector<trace::InputShape> inputs =
        trace::readInputShapes(context.profile.operators[op].inputDims);
    if (inputs.empty())
      return std::nullopt;
    const bool isOfNumbers =
        llvm::all_of(inputs, [](const trace::InputShape &input) {
          return llvm::all_of(input.tensors,
                              [](const auto &sizes) { return sizes.empty(); });
        });
    // Of a few it is not known what is usual.
    const bool isUsual = 2 * int64_t(spans.size()) >= context.steps;
    if (isUsual && (isOfNumbers || bySizes.size() > 1))
      least = std::min(least.value_or(std::numeric_limits<int64_t>::max()),
                       medianOf(std::move(spans)));
  }
  return least;
}

/// What the tensors of a loop move stays: what a call takes goes, but for one
/// of each operator.
static void replaceLoop(const Context &context, Cost &cost,
                        const CallsByName &calls) {
  int64_t stays = 0;
  for (const auto &[name, kernels] : calls) {
    std::vector<int64_t> spans;
    for (const Activity *kernel : kernels)
      spans.push_back(context.spanOf(*kernel));
    llvm::sort(spans);
    const int64_t call =
        usualCall(context, kernels).value_or(spans[spans.size() / 10]);
    for (int64_t span : spans)
      stays += std::max<int64_t>(span - call, 0);
    stays += call * context.steps;
  }
  cost.replaceBy(context, stays, calls.size() * size_t(context.steps));
}

/// A norm for each parameter's gradient, one after the other.
static void addGradientLoops(Context &context,
                             const std::set<StringRef> &clipping) {
  for (StringRef source : clipping) {
    Line line(source);
    Cost cost;
    std::vector<int64_t> spans;
    CallsByName calls;
    for (const Activity *kernel : context.kernels)
      if (kernel->part == Part::None &&
          Line(kernel->origin->source).isNear(line)) {
        cost.add(context, *kernel);
        spans.push_back(context.spanOf(*kernel));
        calls[nameOf(*kernel)].push_back(kernel);
      }
    // Gradients of all modules.
    cost.module = "";
    // All are read and scaled in any case: what is saved is the calls. Where no
    // sizes are known, each takes what the least of them does, those of
    // numbers.
    if (llvm::all_of(calls, [&](const auto &ofName) {
          return usualCall(context, ofName.second).has_value();
        })) {
      replaceLoop(context, cost, calls);
    } else {
      llvm::sort(spans);
      int64_t call = spans[spans.size() / 10];
      cost.replaceBy(context, cost.spanNs - int64_t(spans.size()) * call,
                     kCallsOfList * size_t(context.steps));
    }
    addAt<evidence::GradientLoop>(context, source, cost);
  }
}

static bool isMatrixProduct(StringRef name) {
  return StringSwitch<bool>(name)
      .Cases({"mm", "addmm", "bmm", "baddbmm", "matmul", "linear", "einsum"},
             true)
      .Cases({"mv", "convolution", "conv1d", "conv2d", "conv3d"}, true)
      .Default(false);
}

/// Whether an operator changes its first input, of which lists have one for
/// all.
static bool changesInPlace(StringRef name) {
  return StringSwitch<bool>(name)
      .Cases({"add_", "sub_", "mul_", "div_", "lerp_", "copy_", "addcmul_",
              "addcdiv_"},
             true)
      .Cases({"zero_", "neg_", "sqrt_", "sign_", "clamp_", "clamp_min_"}, true)
      .Default(false);
}

/// Whether an operator makes of its first input another of that size, which a
/// loop over parameters keeps in its place.
static bool makesAnother(StringRef name) {
  return StringSwitch<bool>(name)
      .Cases({"add", "sub", "mul", "div", "lerp", "addcmul", "addcdiv"}, true)
      .Default(false);
}

/// Whether it runs outside of modules, optimizers and the backward pass. Of a
/// term of the loss that parameters have it is a part of the forward pass.
static bool isOutside(const Activity &kernel) {
  return (kernel.part == Part::None || kernel.part == Part::Forward) &&
         kernel.origin->module.empty() && !kernel.origin->source.empty();
}

/// The most calls of one of the operators `isCounted` that a step has at lines
/// near `line` with nothing else between them: a loop over a model's layers
/// has the layers there.
template <typename Function>
static uint64_t longestRun(const Context &context, const Line &line,
                           Function isCounted) {
  uint64_t longest = 0;
  std::map<StringRef, uint64_t> calls;
  std::optional<uint32_t> step;
  for (const Activity *kernel : context.kernels) {
    // What another thread runs meanwhile: a gradient that is sent.
    if (kernel->origin->source.empty())
      continue;
    if (kernel->step != step || !isOutside(*kernel) ||
        !Line(kernel->origin->source).isNear(line))
      calls.clear();
    step = kernel->step;
    if (isOutside(*kernel) && Line(kernel->origin->source).isNear(line) &&
        isCounted(nameOf(*kernel)))
      longest = std::max(longest, ++calls[nameOf(*kernel)]);
  }
  return longest;
}

static constexpr StringLiteral kAddsGradient =
    "torch::autograd::AccumulateGrad";

/// The sizes of the first tensors of operators, as they were recorded; of those
/// that have none nothing.
static std::set<std::vector<int64_t>>
firstSizes(const Context &context, const std::set<uint32_t> &operators) {
  std::set<std::vector<int64_t>> sizes;
  for (uint32_t op : operators) {
    std::vector<trace::InputShape> inputs =
        trace::readInputShapes(context.profile.operators[op].inputDims);
    if (!inputs.empty() && !inputs[0].isList && !inputs[0].tensors.empty() &&
        !inputs[0].tensors[0].empty())
      sizes.insert(inputs[0].tensors[0]);
  }
  return sizes;
}

/// Whether most sizes that a loop in the forward pass goes over are those of
/// gradients: a loss may compare feature maps one by one, too. True where no
/// sizes are known.
static bool goesOverParameters(const Context &context,
                               ArrayRef<const Activity *> loop) {
  std::set<uint32_t> ofGradients, ofLoop;
  for (const Activity *kernel : context.kernels)
    if (kernel->op && nameOf(*kernel) == kAddsGradient)
      ofGradients.insert(*kernel->op);
  for (const Activity *kernel : loop)
    if (kernel->op)
      ofLoop.insert(*kernel->op);
  auto gradients = firstSizes(context, ofGradients);
  auto own = firstSizes(context, ofLoop);
  return own.empty() || 2 * llvm::count_if(own, [&](const auto &sizes) {
                          return gradients.count(sizes) > 0;
                        }) > static_cast<int64_t>(own.size());
}

/// An optimizer by hand, a running mean, or a term of the loss that is summed
/// up parameter by parameter; gives their lines.
static std::set<StringRef>
addParameterLoops(Context &context, const std::set<StringRef> &clipping) {
  std::set<StringRef> found;
  // Without steps the loop may be the program's own.
  if (!countSteadySteps(context.profile))
    return found;
  std::map<StringRef, std::map<StringRef, uint64_t>> inPlace, anew;
  // Each operator has sizes of its own.
  std::map<StringRef, std::map<StringRef, std::set<Size>>> sizes;
  auto mostSizes = [&](StringRef source) {
    size_t most = 0;
    for (const auto &[name, ofName] : sizes[source])
      most = std::max(most, ofName.size());
    return most;
  };
  // Of gradients that are clipped, which another finding names, and of layers.
  std::set<StringRef> others = clipping;
  for (const Activity *kernel : context.kernels) {
    if (!isOutside(*kernel))
      continue;
    StringRef name = nameOf(*kernel), source = kernel->origin->source;
    if (isMatrixProduct(name))
      others.insert(source);
    if (changesInPlace(name))
      ++inPlace[source][name];
    else if (makesAnother(name))
      ++anew[source][name];
    else
      continue;
    sizes[source][name].insert(sizeOf(*kernel));
  }
  // Parameters have the sizes of the step before, what a program reads does
  // not.
  for (const auto &[source, names] : anew) {
    uint64_t most = 0;
    for (const auto &[name, count] : names)
      most = std::max(most, count);
    if (mostSizes(source) * uint64_t(context.steps) <= most)
      inPlace[source].insert(names.begin(), names.end());
  }
  auto changes = [](StringRef name) {
    return changesInPlace(name) || makesAnother(name);
  };
  std::vector<Line> counted;
  for (const auto &[source, names] : inPlace) {
    Line line(source);
    uint64_t most = 0;
    for (const auto &[name, count] : names)
      most = std::max(most, count);
    if (most < kLeastLoop * uint64_t(context.steps) || mostSizes(source) < 2 ||
        llvm::any_of(
            others,
            [&](StringRef other) { return Line(other).isNear(line); }) ||
        llvm::any_of(
            counted, [&](const Line &other) { return line.isNear(other); }) ||
        longestRun(context, line, changes) < kLeastLoop)
      continue;
    Cost cost;
    CallsByName calls;
    std::set<ModuleLine> lines;
    bool isOfLoss = false;
    for (const Activity *kernel : context.kernels)
      if (isOutside(*kernel) && Line(kernel->origin->source).isNear(line)) {
        cost.add(context, *kernel);
        calls[nameOf(*kernel)].push_back(kernel);
        lines.insert({kernel->origin->module, kernel->origin->source});
        isOfLoss |= kernel->part == Part::Forward;
      }
    if (isOfLoss && !goesOverParameters(context, cost.kernels))
      continue;
    for (const Activity *kernel : backwardOf(context, lines)) {
      // Each parameter has a gradient in any case.
      if (nameOf(*kernel) == kAddsGradient)
        continue;
      cost.addTime(context, *kernel);
      calls[nameOf(*kernel)].push_back(kernel);
    }
    counted.push_back(line);
    found.insert(source);
    llvm::stable_sort(cost.kernels, [](const Activity *a, const Activity *b) {
      return a->startNs < b->startNs;
    });
    replaceLoop(context, cost, calls);
    if (isWorth(context, *cost.savedNs))
      addAt<evidence::ParameterLoop>(context, source, cost);
  }
  return found;
}

namespace {
/// What a program calls at the lines round one, over and over.
struct LoopOfLines {
  Cost cost;
  CallsByName calls;
  std::set<ModuleLine> lines;
  /// Calls of each line.
  std::map<ModuleLine, uint64_t> most;
  /// Modules that are called there for a few times each.
  std::set<StringRef> modules;
};
} // namespace

/// Where each kernel is among those of forward passes, by its place; such as
/// are of none have none.
static std::vector<uint32_t> forwardOrder(const Context &context) {
  std::vector<uint32_t> order(context.profile.kernels.size());
  uint32_t next = 0;
  for (const Activity *kernel : context.kernels)
    if (kernel->part == Part::Forward || kernel->part == Part::None)
      order[context.placeOf(*kernel)] = next++;
  return order;
}

/// Whether most of what runs in a step from the first kernel of a loop to its
/// last is the loop's: more of it is a model that is called over and over.
static bool isMostOfItsTime(const Context &context, const LoopOfLines &loop,
                            ArrayRef<uint32_t> order) {
  std::map<std::optional<uint32_t>, std::pair<uint32_t, uint32_t>> spans;
  for (const Activity *kernel : loop.cost.kernels) {
    uint32_t place = order[context.placeOf(*kernel)];
    auto &[first, last] =
        spans.try_emplace(kernel->step, place, place).first->second;
    first = std::min(first, place);
    last = std::max(last, place);
  }
  uint64_t all = 0;
  for (const auto &[step, span] : spans)
    all += span.second - span.first + 1;
  return 2 * loop.cost.kernels.size() >= all;
}

/// What the program calls operator by operator, in the forward pass: the line
/// that calls a compiled graph calls none of the graph's over and over.
static std::vector<const Activity *>
calledByTheProgram(const Context &context) {
  const std::vector<Interval> compiled = context.compiledCalls();
  std::vector<const Activity *> called;
  for (const Activity *kernel : context.kernels) {
    bool isForward =
        kernel->part == Part::Forward || kernel->part == Part::None;
    bool isCompiled =
        kernel->launch ||
        (kernel->launchStartNs && contains(compiled, *kernel->launchStartNs));
    if (isForward && !isCompiled && !kernel->origin->source.empty())
      called.push_back(kernel);
  }
  return called;
}

/// Small operators that one line calls over and over.
static void addOperatorLoops(Context &context,
                             const std::set<StringRef> &others) {
  constexpr double kLeastLoopShare = 0.05;
  const int64_t smallNs = context.isCPU ? 30'000 : 10'000;
  if (!countSteadySteps(context.profile))
    return;
  std::map<ModuleLine, CallsByName> byLine;
  for (const Activity *kernel : calledByTheProgram(context))
    byLine[{kernel->origin->module, kernel->origin->source}][nameOf(*kernel)]
        .push_back(kernel);
  // Of each line those that are called often, and are small.
  std::map<ModuleLine, CallsByName> often;
  for (const auto &[where, calls] : byLine)
    for (const auto &[name, kernels] : calls) {
      if (kernels.size() < kLeastLoop * uint64_t(context.steps) ||
          changesInPlace(name))
        continue;
      std::vector<int64_t> times;
      std::set<Size> sizes;
      for (const Activity *kernel : kernels) {
        times.push_back(kernel->durationNs);
        sizes.insert(sizeOf(*kernel));
      }
      // Tensors of other sizes each time are no rows of one: such are layers.
      if (2 * sizes.size() * uint64_t(context.steps) <= kernels.size() &&
          medianOf(std::move(times)) < smallNs)
        often[where][name] = kernels;
    }
  const std::vector<uint32_t> order = forwardOrder(context);
  std::set<ModuleLine> counted;
  for (const auto &[where, unused] : often) {
    const Line line(where.second);
    // Loops over gradients and parameters have findings of their own.
    if (counted.count(where) || llvm::any_of(others, [&](StringRef own) {
          return Line(own).isNear(line);
        }))
      continue;
    LoopOfLines loop;
    for (const auto &[other, calls] : byLine) {
      if (!Line(other.second).isNear(line) || counted.count(other))
        continue;
      auto it = often.find(other);
      if (it == often.end()) {
        loop.modules.insert(other.first);
        continue;
      }
      loop.lines.insert(other);
      for (const auto &[name, kernels] : it->second) {
        llvm::append_range(loop.calls[name], kernels);
        loop.most[other] += kernels.size();
        for (const Activity *kernel : kernels)
          loop.cost.add(context, *kernel);
      }
    }
    counted.insert(loop.lines.begin(), loop.lines.end());
    // A layer after the other is no call over and over of one.
    if (2 * loop.modules.size() >= kLeastLoop ||
        !isMostOfItsTime(context, loop, order))
      continue;
    for (const Activity *kernel : backwardOf(context, loop.lines)) {
      loop.cost.addTime(context, *kernel);
      loop.calls[nameOf(*kernel)].push_back(kernel);
    }
    llvm::stable_sort(loop.cost.kernels,
                      [](const Activity *a, const Activity *b) {
                        return a->startNs < b->startNs;
                      });
    replaceLoop(context, loop.cost, loop.calls);
    if (static_cast<double>(*loop.cost.savedNs) <
        kLeastLoopShare * static_cast<double>(context.undisturbedNs()))
      continue;
    StringRef source;
    std::tie(loop.cost.module, source) =
        llvm::max_element(loop.most, [](const auto &a, const auto &b) {
          return a.second < b.second;
        })->first;
    addAt<evidence::OperatorLoop>(context, source, loop.cost);
  }
}

namespace {
/// Calls of one line in which the program waits, and the copies that they are
/// for.
struct WaitsOfLine {
  Cost cost;
  std::vector<const void *> calls;
  std::map<StringRef, uint64_t> names;
  uint64_t bytes = 0;
  /// Of copies: what they take on the device, and the host in them and in the
  /// waits for them. They save no more.
  int64_t mostNs = 0;
};
} // namespace

/// What the waits of each line take is what they save at most.
static void addHostWaits(Context &context, const Simulation &played,
                         std::map<StringRef, WaitsOfLine> &lines) {
  for (auto &[source, waits] : lines) {
    if (!isWorth(context, waits.cost.timeNs))
      continue;
    waits.cost.savedNs = played.savedBy(Simulation::Times(), waits.calls);
    if (!isWorth(context, *waits.cost.savedNs))
      continue;
    evidence::HostWait found;
    found.source = source.str();
    found.calls = waits.cost.calls;
    found.timeNs = waits.cost.timeNs;
    found.savedNs = waits.cost.savedNs;
    found.call =
        llvm::max_element(waits.names, [](const auto &a, const auto &b) {
          return a.second < b.second;
        })->first.str();
    context.add(found).severityNsPerStep = context.perStep(*found.savedNs);
  }
}

static void addPageableCopies(Context &context, const Simulation &played,
                              std::map<StringRef, WaitsOfLine> &lines) {
  // Of the program's own, where it has some: bytes each ns.
  double pinnedRate = 20;
  for (const Activity *copy : context.copies)
    if (copy->name.contains("Pinned -> Device") && copy->durationNs > 0 &&
        copy->bytes.value_or(0) > 1 << 20)
      pinnedRate =
          std::max(pinnedRate, double(*copy->bytes) / double(copy->durationNs));
  for (auto &[source, own] : lines) {
    if (!isWorth(context, own.mostNs))
      continue;
    Simulation::Times times;
    for (const Activity *copy : own.cost.kernels)
      times[copy] =
          std::min(int64_t(double(copy->bytes.value_or(0)) / pinnedRate),
                   copy->durationNs);
    own.cost.savedNs = played.savedBy(times, own.calls);
    if (!isWorth(context, *own.cost.savedNs))
      continue;
    evidence::PageableCopies found;
    found.source = source.str();
    found.module = own.cost.module.str();
    found.calls = own.cost.calls;
    found.timeNs = own.cost.timeNs;
    found.savedNs = own.cost.savedNs;
    found.bytes = own.bytes;
    context.add(found).severityNsPerStep = context.perStep(*found.savedNs);
  }
}

/// Where the program waits for the device, and what it is idle for.
static void addWaits(Context &context) {
  const Simulation *played = context.simulation();
  if (!played)
    return;
  // Waits for what is copied to the device are the copies', by line and
  // operator.
  std::map<StringRef, WaitsOfLine> waits, copies;
  std::map<StringRef, uint64_t> reads;
  for (const Activity *copy : context.copies) {
    StringRef source = copy->origin->source;
    if (copy->kind != ActivityKind::Memcpy || source.empty() ||
        !copy->launchStartNs)
      continue;
    if (copy->name.contains("Pageable -> Device")) {
      WaitsOfLine &own = copies[source];
      own.cost.add(context, *copy);
      own.calls.push_back(copy);
      own.bytes += copy->bytes.value_or(0);
      own.mostNs += copy->durationNs + copy->launchDurationNs.value_or(0);
      ++own.names[copy->origin->hostOp];
    } else if (played->waits(*copy)) {
      // A value that is read: the wait is in the call, or in one after it.
      WaitsOfLine &line = waits[source];
      line.calls.push_back(copy);
      line.cost.timeNs += copy->launchDurationNs.value_or(0);
      ++reads[source];
      line.names.try_emplace(copy->origin->hostOp, 0);
    }
  }
  for (const Synchronization &wait : context.profile.synchronizations) {
    if (wait.source.empty() || wait.startNs < context.window.first ||
        wait.startNs >= context.window.second)
      continue;
    auto it = copies.find(wait.source);
    if (it != copies.end() && it->second.names.count(wait.op)) {
      it->second.calls.push_back(&wait);
      it->second.mostNs += wait.durationNs;
      continue;
    }
    WaitsOfLine &line = waits[wait.source];
    ++line.cost.calls;
    line.cost.timeNs += wait.durationNs;
    line.calls.push_back(&wait);
    ++line.names[wait.op.empty() ? StringRef(wait.name) : StringRef(wait.op)];
  }
  for (auto &[source, line] : waits)
    line.cost.calls = std::max(line.cost.calls, reads[source]);
  addHostWaits(context, *played, waits);
  addPageableCopies(context, *played, copies);
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
    cost.replaceBy(context, longest, kCallsOfList * size_t(context.steps));
    // One that costs nothing is as good as any.
    if (isWorth(context, *cost.savedNs))
      addAt<evidence::OptimizerLoop>(context, source, cost);
  }
  addSums(context, sets);
  for (auto &[source, cost] : sets) {
    // Gradients of all modules.
    cost.module = "";
    cost.replaceBy(context, 0, 0);
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

namespace {
/// What an optimizer without lists runs on parameters of one size.
struct StepsOfSize {
  std::map<StringRef, uint64_t> calls;
  int64_t spanNs = 0;

  /// How many such parameters there are: each operator is called once or more
  /// for each.
  uint64_t countParameters(int64_t steps) const {
    uint64_t least = llvm::min_element(calls, [](const auto &a, const auto &b) {
                       return a.second < b.second;
                     })->second;
    return std::max<uint64_t>(least / uint64_t(steps), 1);
  }
};
} // namespace

/// The gradient of a whole table of which a step used some rows, and what the
/// optimizer does with all of them.
static void addEmbeddingGradients(Context &context) {
  std::map<StringRef, Cost> sums;
  std::map<ModuleLine, double> tables;
  double parameters = 0;
  int64_t optimizerNs = 0;
  std::map<double, StepsOfSize> bySize;
  for (const Activity *kernel : context.kernels) {
    StringRef name = nameOf(*kernel), source = kernel->origin->source;
    if (kernel->part == Part::Optimizer &&
        !kernel->origin->range.starts_with("Optimizer.zero_grad#")) {
      double elements = elementsOf(context, *kernel, 0);
      // Of several parameters, which makes it one of a few operators.
      if (name.starts_with("_foreach_") || name.starts_with("_fused_")) {
        parameters = std::max(parameters, elements);
        optimizerNs += context.spanOf(*kernel);
      } else if (elements > 0) {
        ++bySize[elements].calls[name];
        bySize[elements].spanNs += context.spanOf(*kernel);
      }
    }
    name.consume_front("_");
    if (!name.starts_with("embedding") || source.empty() ||
        name.ends_with("sparse_backward"))
      continue;
    if (name.ends_with("backward"))
      sums[source].add(context, *kernel);
    else if (kernel->part == Part::Forward)
      tables[{kernel->origin->module, source}] =
          elementsOf(context, *kernel, 0);
  }
  for (auto &[source, cost] : sums) {
    double elements = 0;
    std::map<double, uint64_t> counts;
    for (const auto &[line, size] : tables)
      if (line.second == source) {
        elements += size;
        ++counts[size];
      }
    // What the optimizer does with the rows that were not used. Where it is not
    // told that a gradient is sparse, it takes no time.
    if (static_cast<double>(cost.spanNs) >=
        kLeastShare * static_cast<double>(context.undisturbedNs())) {
      if (parameters > 0)
        cost.spanNs += static_cast<int64_t>(
            double(optimizerNs) * std::min(1.0, elements / parameters));
      for (const auto &[size, count] : counts)
        if (auto it = bySize.find(size); it != bySize.end())
          cost.spanNs += static_cast<int64_t>(
              double(it->second.spanNs) *
              std::min(1.0, double(count) / double(it->second.countParameters(
                                                context.steps))));
    }
    if (static_cast<double>(cost.spanNs) <
        5 * kLeastShare * static_cast<double>(context.undisturbedNs()))
      continue;
    cost.savedNs = cost.spanNs;
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
  std::set<StringRef> loops = findClippingLines(context);
  addGradientLoops(context, loops);
  addOptimizer(context);
  loops.merge(addParameterLoops(context, loops));
  addOperatorLoops(context, loops);
  addWaits(context);
  addEmbeddingGradients(context);
  addMemoryGrowth(context);
}
