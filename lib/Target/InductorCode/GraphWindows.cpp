// Pooling, an element at a time: what lies in the element's window, in the
// order in which Inductor's kernels read it.

#include "GraphRun.h"
#include "LaunchJoiner.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::inductor;
using Place = GraphRunner::Place;

/// Larger windows are loops in kernels, whose turns are not run one by one.
static constexpr double kMaxTaps = 256;

/// One number for each dimension that a window moves along: an argument gives
/// each, one for all, or none.
std::optional<Place> GraphRunner::windowSizes(const json::Value *value,
                                              size_t rank,
                                              const Place &otherwise) const {
  const json::Array *list = listOf(value);
  if (!list) {
    std::optional<double> number = numberOf(value);
    return number ? Place(rank, *number) : otherwise;
  }
  if (list->empty())
    return otherwise;
  Place out;
  for (const json::Value &item : *list) {
    std::optional<double> number = numberOf(&item);
    if (!number)
      return std::nullopt;
    out.push_back(*number);
  }
  if (out.size() == 1)
    out.assign(rank, out.front());
  if (out.size() != rank)
    return std::nullopt;
  return out;
}

/// The window of one element of a pooling's result.
std::optional<GraphRunner::Window>
GraphRunner::findWindow(const GraphNode &node, const Place &place,
                        size_t rank) const {
  std::optional<uint32_t> operand = nodeOf(get(node, 0, "self"));
  std::optional<Place> shape = operand ? shapeOf(*operand) : std::nullopt;
  auto sizes = windowSizes(get(node, 1, "kernel_size"), rank, {});
  if (!shape || shape->size() != place.size() || place.size() < rank ||
      !sizes || sizes->empty())
    return std::nullopt;
  auto steps = windowSizes(get(node, 2, "stride"), rank, *sizes);
  auto pads = windowSizes(get(node, 3, "padding"), rank, Place(rank, 0.0));
  if (!steps || !pads)
    return std::nullopt;
  Window window;
  window.operand = *operand;
  window.first = place;
  for (size_t i = 0; i < rank; ++i) {
    size_t dim = place.size() - rank + i;
    double begin = place[dim] * (*steps)[i] - (*pads)[i];
    double end = std::min(begin + (*sizes)[i], (*shape)[dim] + (*pads)[i]);
    window.padded *= end - begin;
    window.first[dim] = std::max(begin, 0.0);
    window.end.push_back(std::min(end, (*shape)[dim]));
    window.taps *= window.end.back() - window.first[dim];
  }
  if (!(window.taps >= 1 && window.taps <= kMaxTaps))
    return std::nullopt;
  return window;
}

/// The elements of a window reduced in row-major order.
AbstractValue GraphRunner::reduceWindow(StringRef by, const Window &window) {
  size_t rank = window.end.size(), lead = window.first.size() - rank;
  Place at = window.first;
  std::optional<AbstractValue> out;
  for (;;) {
    AbstractValue value = evaluate(window.operand, at);
    out = out ? applyOperator(by, {*out, value}) : value;
    size_t dim = rank;
    while (dim-- > 0) {
      if (++at[lead + dim] < window.end[dim])
        break;
      at[lead + dim] = window.first[lead + dim];
      if (dim == 0)
        return *out;
    }
  }
}

bool inductor::isGradientOfAverage(StringRef family) {
  return family == "avg_pool2d_backward" || family == "avg_pool3d_backward";
}

/// The gradient of an average: what each window that an element lies in gives
/// it. (gradient, input, kernel size, stride, padding, ceil mode,
/// count_include_pad, divisor_override)
AbstractValue GraphRunner::evaluateAverageGradient(const GraphNode &node,
                                                   const Place &place,
                                                   size_t rank) {
  std::optional<uint32_t> gradient = nodeOf(get(node, 0, "grad_output"));
  std::optional<uint32_t> input = nodeOf(get(node, 1, "self"));
  std::optional<Place> from = gradient ? shapeOf(*gradient) : std::nullopt;
  std::optional<Place> to = input ? shapeOf(*input) : std::nullopt;
  auto sizes = windowSizes(get(node, 2, "kernel_size"), rank, {});
  if (!from || !to || from->size() != place.size() || place.size() < rank ||
      to->size() != place.size() || !sizes || sizes->empty())
    return AbstractValue::unknown();
  auto steps = windowSizes(get(node, 3, "stride"), rank, *sizes);
  auto pads = windowSizes(get(node, 4, "padding"), rank, Place(rank, 0.0));
  if (!steps || !pads)
    return AbstractValue::unknown();
  const json::Value *includes = get(node, 6, "count_include_pad");
  bool countsPads = !includes || includes->getAsBoolean().value_or(true);
  std::optional<double> divisor = numberOf(get(node, 7, "divisor_override"));
  // The windows in each dimension, and the elements in each of these.
  SmallVector<SmallVector<std::pair<double, double>>> windows(rank);
  double terms = 1;
  for (size_t i = 0; i < rank; ++i) {
    size_t dim = place.size() - rank + i;
    double size = (*sizes)[i], step = (*steps)[i], pad = (*pads)[i];
    double at = place[dim] + pad;
    double first = std::max(0.0, std::ceil((at - size + 1) / step));
    double last = std::min((*from)[dim] - 1, std::floor(at / step));
    if (!(last - first < kMaxTaps))
      return AbstractValue::unknown();
    for (double window = first; window <= last; ++window) {
      double begin = window * step - pad;
      double end = std::min(begin + size, (*to)[dim] + pad);
      double inside = std::min(end, (*to)[dim]) - std::max(begin, 0.0);
      windows[i].push_back({window, countsPads ? end - begin : inside});
    }
    terms *= windows[i].size();
  }
  if (terms > kMaxTaps)
    return AbstractValue::unknown();
  AbstractValue sum = AbstractValue::constant(0);
  for (size_t term = 0; term < size_t(terms); ++term) {
    Place inner = place;
    double count = 1;
    size_t rest = term;
    for (size_t i = rank; i-- > 0;) {
      auto [window, elements] = windows[i][rest % windows[i].size()];
      rest /= windows[i].size();
      inner[place.size() - rank + i] = window;
      count *= elements;
    }
    AbstractValue part = applyOperator(
        "div", {evaluate(*gradient, inner),
                AbstractValue::constant(divisor.value_or(count))});
    sum = applyOperator("add", {sum, part});
  }
  return sum;
}

std::optional<AbstractValue> GraphRunner::evaluateWindow(uint32_t at,
                                                         const Place &place) {
  const GraphNode *node = &graph[at];
  StringRef family = graph.family[at];
  if (isGradientOfAverage(family))
    return evaluateAverageGradient(*node, place, family.contains("3d") ? 3 : 2);
  bool isMaximum = false;
  if (node->target == "operator.getitem") {
    std::optional<uint32_t> from = nodeOf(get(*node, 0, ""));
    if (!from || graph[*from].op != GraphNode::Call ||
        numberOf(get(*node, 1, "")) != 0)
      return std::nullopt;
    family = graph.family[*from];
    node = &graph[*from];
    isMaximum = family.starts_with("max_pool") ||
                family == "_low_memory_max_pool_with_offsets";
  }
  bool isAverage = family == "avg_pool2d" || family == "avg_pool3d";
  if (!isMaximum && !isAverage)
    return std::nullopt;
  size_t rank = family.contains("3d") ? 3 : 2;
  // (input, kernel size, stride, padding, dilation, ceil mode) of a maximum.
  bool isDilated = false;
  if (isMaximum) {
    auto dilation = windowSizes(get(*node, 4, "dilation"), rank, {});
    isDilated =
        !dilation || any_of(*dilation, [](double by) { return by != 1; });
  }
  std::optional<Window> window = findWindow(*node, place, rank);
  if (!window || isDilated)
    return AbstractValue::unknown();
  if (isMaximum)
    return reduceWindow("maximum", *window);
  const json::Value *includes = get(*node, 5, "count_include_pad");
  bool countsPads = !includes || includes->getAsBoolean().value_or(true);
  double count = countsPads ? window->padded : window->taps;
  if (auto divisor = numberOf(get(*node, 6, "divisor_override")))
    count = *divisor;
  return applyOperator(
      "div", {reduceWindow("add", *window), AbstractValue::constant(count)});
}
