// One element of a node's value: views move the place, arithmetic is done on
// the operands' elements there, reductions take the first of what they reduce.

#include "GraphRun.h"

#include "opprof/Dialect/FX/IR/Schema.h"

#include "llvm/ADT/StringSwitch.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::inductor;

/// Deeper chains of fused nodes are left undecided.
static constexpr unsigned kMaxGraphDepth = 600;
static constexpr size_t kMaxKnown = 60'000;
/// Inductor spells reductions of fewer elements out
/// (config.unroll_reductions_threshold).
static constexpr double kUnrolledBelow = 8;

using Place = GraphRunner::Place;

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

const json::Value *GraphRunner::get(const GraphNode &node, size_t position,
                                    StringRef keyword) const {
  for (const auto &[key, value] : node.kwargs)
    if (key == keyword)
      return &value;
  return position < node.args.size() ? &node.args[position] : nullptr;
}

std::optional<uint32_t> GraphRunner::nodeOf(const json::Value *value) const {
  auto it = graph.arguments.find(value);
  return it == graph.arguments.end() ? std::nullopt : it->second.node;
}

std::optional<double> GraphRunner::numberOf(const json::Value *value) const {
  auto it = graph.arguments.find(value);
  if (it == graph.arguments.end() || !it->second.node)
    return it == graph.arguments.end() ? std::nullopt : it->second.number;
  const std::string &symbol = graph[*it->second.node].symbol;
  if (symbol.empty())
    return std::nullopt;
  if (std::optional<int64_t> size = sizeOf(Dim{std::nullopt, symbol}))
    return *size;
  return std::nullopt;
}

const json::Array *opprof::inductor::listOf(const json::Value *value) {
  if (!value)
    return nullptr;
  if (const json::Object *object = value->getAsObject())
    return object->getArray("tuple");
  return value->getAsArray();
}

static std::optional<double> readNumber(const json::Value &value) {
  if (std::optional<double> number = value.getAsNumber())
    return number;
  if (std::optional<bool> flag = value.getAsBoolean())
    return *flag;
  const json::Object *object = value.getAsObject();
  if (!object)
    return std::nullopt;
  for (StringRef key :
       {StringRef(kRealNumberKey), StringRef("float"), StringRef("int")})
    if (std::optional<StringRef> text = object->getString(key)) {
      if (*text == "inf")
        return INFINITY;
      if (*text == "-inf")
        return -INFINITY;
      double number;
      if (!text->getAsDouble(number))
        return number;
    }
  return std::nullopt;
}

ArgumentTable opprof::inductor::readArguments(const GraphView &graph) {
  ArgumentTable table;
  auto add = [&](const json::Value &value) {
    Argument argument;
    argument.node = getNodeArgument(value);
    if (!argument.node)
      argument.number = readNumber(value);
    if (argument.node || argument.number)
      table.try_emplace(&value, argument);
  };
  auto addWithMembers = [&](const json::Value &value) {
    if (const json::Array *list = listOf(&value))
      llvm::for_each(*list, add);
    else
      add(value);
  };
  for (const GraphNode &node : graph.nodes) {
    llvm::for_each(node.args, addWithMembers);
    for (const auto &[key, value] : node.kwargs)
      addWithMembers(value);
  }
  return table;
}

std::optional<SmallVector<size_t>> GraphRunner::dimsOf(const json::Value *value,
                                                       size_t rank) const {
  SmallVector<size_t> out;
  auto add = [&](const json::Value &item) {
    std::optional<int64_t> dim = item.getAsInteger();
    if (!dim)
      return false;
    int64_t at = *dim < 0 ? *dim + int64_t(rank) : *dim;
    if (at < 0 || at >= int64_t(rank))
      return false;
    out.push_back(at);
    return true;
  };
  const json::Array *list = listOf(value);
  // No dimensions are all of them.
  if (!value || value->getAsNull() || (list && list->empty())) {
    for (size_t i = 0; i < rank; ++i)
      out.push_back(i);
    return out;
  }
  if (!list)
    return add(*value) ? std::optional(out) : std::nullopt;
  for (const json::Value &item : *list)
    if (!add(item))
      return std::nullopt;
  return out;
}

std::optional<Place> GraphRunner::shapeOf(uint32_t node) const {
  const std::vector<TensorInfo> &results = graph[node].results;
  if (results.size() != 1 || !results[0].shapeKnown)
    return std::nullopt;
  Place out;
  for (const Dim &dim : results[0].shape) {
    std::optional<int64_t> size = sizeOf(dim);
    if (!size)
      return std::nullopt;
    out.push_back(*size);
  }
  return out;
}

Place GraphRunner::stepsOf(ArrayRef<double> shape) {
  Place steps(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;)
    steps[i - 1] = steps[i] * shape[i];
  return steps;
}

static double offsetAt(ArrayRef<double> place, ArrayRef<double> shape) {
  Place steps = GraphRunner::stepsOf(shape);
  double offset = 0;
  for (auto [at, step] : zip(place, steps))
    offset += at * step;
  return offset;
}

static Place placeAt(double offset, ArrayRef<double> shape) {
  Place steps = GraphRunner::stepsOf(shape), out;
  for (auto [i, step] : enumerate(steps)) {
    double at = i + 1 == steps.size() ? offset : std::floor(offset / step);
    out.push_back(at);
    offset -= at * step;
  }
  return out;
}

/// Whether it is that of an element, and not between elements.
static bool isWholePlace(ArrayRef<double> place) {
  return all_of(place, [](double at) { return at == std::floor(at); });
}

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

AbstractValue GraphRunner::evaluateFirst(uint32_t node) {
  const std::vector<TensorInfo> &results = graph[node].results;
  if (results.size() != 1 || !results[0].shapeKnown)
    return AbstractValue::unknown();
  return evaluate(node, Place(results[0].shape.size(), 0.0));
}

AbstractValue GraphRunner::evaluateAt(uint32_t node, double offset) {
  std::optional<Place> shape = shapeOf(node);
  if (!shape || offset != std::floor(offset))
    return AbstractValue::unknown();
  return evaluate(node, placeAt(offset, *shape));
}

/// The number of a given value's element: in row-major order, and between
/// elements in that of memory, as a kernel knows no other.
std::optional<double> GraphRunner::offsetIn(uint32_t node,
                                            const Place &place) const {
  if (all_of(place, [](double at) { return at == 0; }))
    return 0;
  std::optional<Place> shape = shapeOf(node);
  if (!shape || shape->size() != place.size())
    return std::nullopt;
  if (isWholePlace(place) || !layouts)
    return offsetAt(place, *shape);
  auto it = layouts->find(graph.twin[node]);
  if (it == layouts->end())
    return offsetAt(place, *shape);
  if (it->second.size() != place.size())
    return std::nullopt;
  double offset = 0;
  for (auto [at, step] : zip(place, it->second))
    offset += at * step;
  return offset;
}

AbstractValue GraphRunner::evaluate(uint32_t node, const Place &place) {
  if (held.contains(node)) {
    std::optional<double> offset = offsetIn(node, place);
    if (!offset)
      return AbstractValue::unknown();
    AbstractValue value = given(graph, node, *offset, draw);
    if (!withoutBias || !withoutBias->contains(node))
      return value;
    // (input, weight, bias, …): a number for each channel.
    std::optional<uint32_t> bias = nodeOf(get(graph[node], 2, "bias"));
    if (!bias || place.size() < 2)
      return AbstractValue::unknown();
    return applyOperator("add", {value, evaluate(*bias, Place(1, place[1]))});
  }
  if (graph[node].op != GraphNode::Call || depth > kMaxGraphDepth)
    return AbstractValue::unknown();
  bool isFirst = all_of(place, [](double at) { return at == 0; });
  std::pair<uint32_t, std::vector<double>> key(node, {});
  if (!isFirst)
    key.second.assign(place.begin(), place.end());
  if (isFirst) {
    if (auto it = knownFirst.find(node); it != knownFirst.end())
      return it->second;
  } else if (auto it = known.find(key); it != known.end()) {
    return it->second;
  }
  if (known.size() + knownFirst.size() > kMaxKnown)
    return AbstractValue::unknown();
  ++depth;
  AbstractValue value = evaluateCall(node, place);
  --depth;
  if (isFirst)
    knownFirst.try_emplace(node, value);
  else
    known.try_emplace(std::move(key), value);
  return value;
}

AbstractValue GraphRunner::evaluateCall(uint32_t node, const Place &place) {
  // No formula stands for a library's work, whatever goes in.
  if (graph.library[node] ||
      (graph[node].args.empty() && !graph[node].operands.empty()))
    return AbstractValue::unknown();
  for (auto method :
       {&GraphRunner::evaluateWindow, &GraphRunner::evaluatePart,
        &GraphRunner::evaluateView, &GraphRunner::evaluateSource,
        &GraphRunner::evaluateReduction, &GraphRunner::evaluateMovement,
        &GraphRunner::evaluateIndexed})
    if (std::optional<AbstractValue> value = (this->*method)(node, place))
      return *value;
  return evaluatePointwise(node, place);
}

AbstractValue GraphRunner::evaluateBroadcast(uint32_t operand,
                                             const Place &place) {
  std::optional<Place> shape = shapeOf(operand);
  if (!shape || shape->size() > place.size()) {
    if (all_of(place, [](double at) { return at == 0; }))
      return evaluateFirst(operand);
    return AbstractValue::unknown();
  }
  Place at(place.end() - shape->size(), place.end());
  for (auto [coordinate, size] : zip(at, *shape))
    if (size == 1)
      coordinate = 0;
  return evaluate(operand, at);
}

AbstractValue GraphRunner::argument(const json::Value &value,
                                    const Place &place) {
  if (std::optional<double> number = numberOf(&value))
    return AbstractValue::constant(*number);
  if (std::optional<uint32_t> node = nodeOf(&value))
    return evaluateBroadcast(*node, place);
  return AbstractValue::unknown(false);
}

/// Members of what gives several results.
std::optional<AbstractValue> GraphRunner::evaluatePart(uint32_t at,
                                                       const Place &place) {
  const GraphNode &node = graph[at];
  if (node.target != "operator.getitem")
    return std::nullopt;
  std::optional<uint32_t> from = nodeOf(get(node, 0, ""));
  std::optional<double> member = numberOf(get(node, 1, ""));
  if (!from || !member || graph[*from].op != GraphNode::Call)
    return AbstractValue::unknown();
  const GraphNode &source = graph[*from];
  StringRef family = graph.family[*from];
  if (family.starts_with("_foreach_"))
    return evaluateForeach(*from, *member, place);
  std::optional<uint32_t> operand = nodeOf(get(source, 0, "self"));
  std::optional<Place> shape = operand ? shapeOf(*operand) : std::nullopt;
  if (!shape)
    return AbstractValue::unknown();
  if ((family == "max" || family == "min") && source.args.size() >= 2) {
    auto dims = dimsOf(get(source, 1, "dim"), shape->size());
    if (!dims || dims->size() != 1)
      return AbstractValue::unknown();
    Place inner = place;
    if (inner.size() == shape->size())
      inner[dims->front()] = 0;
    else
      inner.insert(inner.begin() + std::min(dims->front(), inner.size()), 0.0);
    if (inner.size() != shape->size())
      return AbstractValue::unknown();
    const char *by = family == "max" ? *member == 0 ? "amax" : "argmax"
                     : *member == 0  ? "amin"
                                     : "argmin";
    return reduce(by, *operand, inner, *dims);
  }
  bool isStatistics = family == "var_mean";
  bool isSoftmax = family == "prepare_softmax_online";
  if (isStatistics || isSoftmax) {
    auto dims = dimsOf(get(source, 1, "dim"), shape->size());
    if (!dims)
      return AbstractValue::unknown();
    double count = 1;
    for (size_t dim : *dims)
      count *= (*shape)[dim];
    Place inner = place;
    if (inner.size() != shape->size()) {
      for (size_t dim : *dims)
        inner.insert(inner.begin() + std::min(dim, inner.size()), 0.0);
    }
    if (inner.size() != shape->size())
      return AbstractValue::unknown();
    for (size_t dim : *dims)
      inner[dim] = 0;
    if (isSoftmax) {
      auto [maximum, sum] = applySoftmax(evaluate(*operand, inner), count);
      return *member == 0 ? maximum : sum;
    }
    double correction = numberOf(get(source, 2, "correction")).value_or(1);
    if (*member == 1)
      return reduce("mean", *operand, inner, *dims);
    // A mean that is there already is not computed again.
    std::optional<AbstractValue> mean;
    for (uint32_t user : graph.users[*from])
      if (held.contains(user) && graph[user].target == "operator.getitem" &&
          numberOf(get(graph[user], 1, "")) == 1)
        mean = evaluate(user, place);
    return reduce("var", *operand, inner, *dims, correction, mean);
  }
  auto moved = [&](size_t dim, double by) {
    Place inner = place;
    inner[dim] += by;
    return evaluate(*operand, inner);
  };
  if (family == "unbind") {
    auto dim = dimsOf(get(source, 1, "dim"), shape->size());
    size_t at = get(source, 1, "dim") && dim ? dim->front() : 0;
    Place inner = place;
    inner.insert(inner.begin() + std::min(at, inner.size()), *member);
    return evaluate(*operand, inner);
  }
  if (family == "split" || family == "split_with_sizes") {
    auto dim = dimsOf(get(source, 2, "dim"), shape->size());
    size_t along = get(source, 2, "dim") && dim ? dim->front() : 0;
    double start = 0;
    if (const json::Array *sizes = listOf(get(source, 1, "split_sizes"))) {
      for (size_t i = 0; i < *member && i < sizes->size(); ++i)
        start += numberOf(&(*sizes)[i]).value_or(NAN);
    } else {
      start = *member * numberOf(get(source, 1, "split_size")).value_or(NAN);
    }
    if (along < place.size() && !std::isnan(start))
      return moved(along, start);
  }
  return AbstractValue::unknown();
}

/// A view by strides of what is made here, which lies in row-major order.
AbstractValue GraphRunner::evaluateStrided(uint32_t at, uint32_t operand,
                                           const Place &place) {
  std::optional<Place> from = shapeOf(operand);
  const json::Array *strides = listOf(get(graph[at], 2, "stride"));
  bool isOwn = graph[operand].op == GraphNode::Call && !graph.isView(operand);
  if (!from || !strides || strides->size() != place.size() || !isOwn)
    return AbstractValue::unknown();
  double offset = numberOf(get(graph[at], 3, "storage_offset")).value_or(0);
  for (auto [coordinate, stride] : zip(place, *strides))
    offset += coordinate * numberOf(&stride).value_or(NAN);
  if (std::isnan(offset))
    return AbstractValue::unknown();
  return evaluate(operand, placeAt(offset, *from));
}

static bool isReshape(StringRef family) {
  return StringSwitch<bool>(family)
      .Cases({"view", "reshape", "_unsafe_view"}, true)
      .Cases({"inductor_view", "flatten", "unflatten"}, true)
      .Cases({"squeeze", "unsqueeze", "_reshape_alias"}, true)
      .Default(false);
}

std::optional<AbstractValue> GraphRunner::evaluateView(uint32_t at,
                                                       const Place &place) {
  const GraphNode &node = graph[at];
  StringRef family = graph.family[at];
  std::optional<uint32_t> operand = nodeOf(get(node, 0, "self"));
  bool isSame = StringSwitch<bool>(family)
                    .Cases({"clone", "alias", "detach", "contiguous"}, true)
                    .Cases({"_to_copy", "convert_element_type", "to"}, true)
                    .Cases({"device_put", "lift_fresh_copy", "view_as"}, true)
                    .Case("lift_fresh", true)
                    .Default(false);
  if (!operand)
    return std::nullopt;
  if (isSame) {
    AbstractValue value = evaluate(*operand, place);
    bool isWhole =
        node.results.size() == 1 && isWholeType(node.results.front().dtype);
    return isWhole ? toWhole(value) : value;
  }
  if (!graph.isView(at))
    return std::nullopt;
  if (family == "view_as_real") {
    if (place.empty() || (place.back() != 0 && place.back() != 1))
      return AbstractValue::unknown();
    AbstractValue number =
        evaluate(*operand, Place(place.begin(), place.end() - 1));
    return place.back() == 0 ? number : applyOperator("imag", number);
  }
  bool isFirst = all_of(place, [](double at) { return at == 0; });
  // The first element stays the first, whatever the sizes.
  if (isFirst && (isReshape(family) || family == "permute" ||
                  family == "transpose" || family == "t" || family == "expand"))
    return evaluateFirst(*operand);
  if (family == "as_strided")
    return evaluateStrided(at, *operand, place);
  if (family == "expand")
    return evaluateBroadcast(*operand, place);
  std::optional<Place> inner = shownPlace(at, *operand, place);
  return inner ? evaluate(*operand, *inner) : AbstractValue::unknown();
}

std::optional<Place> GraphRunner::shownPlace(uint32_t at, uint32_t operand,
                                             const Place &place) const {
  const GraphNode &node = graph[at];
  StringRef family = graph.family[at];
  std::optional<Place> from = shapeOf(operand), to = shapeOf(at);
  if (!from)
    return std::nullopt;
  size_t rank = from->size();
  if (isReshape(family)) {
    if (!to || to->size() != place.size())
      return std::nullopt;
    return placeAt(offsetAt(place, *to), *from);
  }
  Place inner(rank, 0.0);
  if (family == "permute") {
    auto dims = dimsOf(get(node, 1, "dims"), rank);
    if (!dims || dims->size() != place.size())
      return std::nullopt;
    for (auto [i, dim] : enumerate(*dims))
      inner[dim] = place[i];
    return inner;
  }
  if (family == "transpose" || family == "t") {
    if (place.size() != rank)
      return std::nullopt;
    inner = place;
    if (family == "t") {
      if (rank == 2)
        std::swap(inner[0], inner[1]);
    } else {
      auto first = dimsOf(get(node, 1, "dim0"), rank);
      auto second = dimsOf(get(node, 2, "dim1"), rank);
      if (!first || !second)
        return std::nullopt;
      std::swap(inner[first->front()], inner[second->front()]);
    }
    return inner;
  }
  if (family == "diagonal") {
    double offset = numberOf(get(node, 1, "offset")).value_or(0);
    double first = numberOf(get(node, 2, "dim1")).value_or(0);
    double second = numberOf(get(node, 3, "dim2")).value_or(1);
    first += first < 0 ? rank : 0;
    second += second < 0 ? rank : 0;
    if (rank < 2 || place.size() + 1 != rank || first == second)
      return std::nullopt;
    // It is the last dimension of what is shown.
    const auto *others = place.begin();
    for (size_t dim = 0; dim < rank; ++dim) {
      if (dim == first)
        inner[dim] = place.back() + std::max(-offset, 0.0);
      else if (dim == second)
        inner[dim] = place.back() + std::max(offset, 0.0);
      else if (others + 1 != place.end())
        inner[dim] = *others++;
      else
        return std::nullopt;
    }
    return inner;
  }
  const json::Value *dimArgument = get(node, 1, "dim");
  auto dim = dimsOf(dimArgument, rank);
  size_t along = dimArgument && dim && !dim->empty() ? dim->front() : 0;
  if (along >= rank)
    return std::nullopt;
  if (family == "select") {
    double index = numberOf(get(node, 2, "index")).value_or(NAN);
    inner = place;
    inner.insert(inner.begin() + std::min(along, inner.size()),
                 index < 0 ? index + (*from)[along] : index);
    if (inner.size() != rank || std::isnan(index))
      return std::nullopt;
    return inner;
  }
  if (family == "slice" && place.size() == rank) {
    double start = numberOf(get(node, 2, "start")).value_or(0);
    if (start < 0)
      start = std::max(0.0, start + (*from)[along]);
    inner = place;
    inner[along] =
        start + place[along] * numberOf(get(node, 4, "step")).value_or(1);
    return inner;
  }
  return std::nullopt;
}

std::optional<GraphRunner::PlaceInView>
GraphRunner::findInView(uint32_t view, uint32_t operand,
                        const Place &place) const {
  std::optional<Place> from = shapeOf(operand), sizes = shapeOf(view);
  if (!from || !sizes || from->size() != place.size())
    return std::nullopt;
  // These keep the order of elements. Steps between those that they show there
  // may be none, where a permuted tensor is shown in one dimension.
  if (isReshape(graph.family[view]))
    return PlaceInView{placeAt(offsetAt(place, *from), *sizes), true};
  auto offsetOf = [&](const Place &inner) -> std::optional<double> {
    std::optional<Place> shown = shownPlace(view, operand, inner);
    return shown ? std::optional(offsetAt(*shown, *from)) : std::nullopt;
  };
  std::optional<double> start = offsetOf(Place(sizes->size(), 0.0));
  if (!start)
    return std::nullopt;
  SmallVector<int64_t, 4> counts, steps;
  for (auto [dim, size] : enumerate(*sizes)) {
    if (size == 0)
      return PlaceInView();
    Place next(sizes->size(), 0.0);
    next[dim] = size > 1;
    std::optional<double> offset = offsetOf(next);
    if (!offset)
      return std::nullopt;
    counts.push_back(size);
    steps.push_back(*offset - *start);
  }
  double offset = offsetAt(place, *from);
  std::optional<Place> inner =
      offset < *start ? std::nullopt : placeIn(counts, steps, offset - *start);
  if (!inner || !isWholePlace(*inner))
    return PlaceInView();
  if (shownPlace(view, operand, *inner) != place)
    return std::nullopt;
  return PlaceInView{std::move(*inner), true};
}

/// What a write through a view leaves of all that the view is of (see
/// followWrites): what was written, where the view shows the place.
AbstractValue GraphRunner::evaluateWritten(uint32_t at, uint32_t view,
                                           uint32_t source,
                                           const Place &place) {
  uint32_t whole = graph.root[view];
  std::optional<Place> shape = shapeOf(whole);
  // Between elements, as where data gives the place, it may be either.
  if (!shape || shapeOf(at) != shape || !isWholePlace(place))
    return AbstractValue::unknown();
  SmallVector<uint32_t> views = {view};
  while (graph[views.back()].operands.front() != whole)
    views.push_back(graph[views.back()].operands.front());
  Place inner = place;
  for (uint32_t shown : reverse(views)) {
    std::optional<PlaceInView> found =
        findInView(shown, graph[shown].operands.front(), inner);
    if (!found)
      return AbstractValue::unknown();
    if (!found->isInside)
      return evaluate(whole, place);
    inner = std::move(found->place);
  }
  return evaluateBroadcast(source, inner);
}

/// What is made from nothing.
std::optional<AbstractValue> GraphRunner::evaluateSource(uint32_t at,
                                                         const Place &place) {
  const GraphNode &node = graph[at];
  StringRef family = graph.family[at];
  auto number = [&](size_t position, StringRef keyword, double otherwise) {
    return numberOf(get(node, position, keyword)).value_or(otherwise);
  };
  if (family == "full" || family == "full_like" || family == "new_full") {
    size_t position = family == "new_full" ? 2 : 1;
    return AbstractValue::constant(number(position, "fill_value", NAN));
  }
  if (family == "scalar_tensor")
    return AbstractValue::constant(number(0, "s", NAN));
  if (family == "zeros" || family == "zeros_like" || family == "new_zeros")
    return AbstractValue::constant(0);
  if (family == "ones" || family == "ones_like" || family == "new_ones")
    return AbstractValue::constant(1);
  if (family == "iota" && place.size() == 1)
    return AbstractValue::constant(number(9, "start", 0) +
                                   place[0] * number(9, "step", 1));
  if (family == "arange" && place.size() == 1) {
    bool hasStart = node.args.size() > 1;
    return AbstractValue::constant(
        (hasStart ? number(0, "start", NAN) : 0) +
        place[0] * (node.args.size() > 2 ? number(2, "step", NAN) : 1));
  }
  if (family == "inductor_lookup_seed")
    if (std::optional<uint32_t> seeds = nodeOf(get(node, 0, "seeds")))
      return evaluate(*seeds, Place(1, number(1, "index", NAN)));
  if (family == "inductor_random")
    if (std::optional<uint32_t> seed = nodeOf(get(node, 1, "seed"))) {
      const json::Value *mode = get(node, 2, "mode");
      bool isUniform = mode && mode->getAsString() == "rand";
      return applyOperator(isUniform ? "rand" : "randn", evaluateFirst(*seed));
    }
  return std::nullopt;
}

std::optional<AbstractValue>
GraphRunner::evaluateReduction(uint32_t at, const Place &place) {
  const GraphNode &node = graph[at];
  StringRef family = graph.family[at];
  if (family == "bmm") {
    std::optional<uint32_t> left = nodeOf(get(node, 0, "self"));
    std::optional<uint32_t> right = nodeOf(get(node, 1, "mat2"));
    std::optional<Place> shape = left ? shapeOf(*left) : std::nullopt;
    if (!shape || shape->size() != 3 || !right || place.size() != 3)
      return AbstractValue::unknown();
    double inner = shape->back();
    auto product = [&](double at) {
      return applyOperator("mul", {evaluate(*left, {place[0], place[1], at}),
                                   evaluate(*right, {place[0], at, place[2]})});
    };
    std::optional<Place> whole = shapeOf(at);
    bool isSpelledOut =
        inner > 1 && inner < kUnrolledBelow && whole && unrollsTo(*whole);
    canUnroll |= isSpelledOut;
    if (!isSpelledOut || !unrolls)
      return applyReduction("sum", product(0), inner);
    AbstractValue sum = product(0);
    for (double at = 1; at < inner; ++at)
      sum = applyOperator("add", {sum, product(at)});
    return sum;
  }
  bool isScan = family == "cumsum" || family == "cumprod";
  bool isReduction = StringSwitch<bool>(family)
                         .Cases({"sum", "mean", "amax", "amin", "prod"}, true)
                         .Cases({"any", "all", "var", "std"}, true)
                         .Cases({"argmax", "argmin"}, true)
                         .Default(false);
  // max(x) reduces; max(x, dim) gives indices too, max(x, y) is pointwise.
  isReduction |= (family == "max" || family == "min") && node.args.size() == 1;
  std::optional<uint32_t> operand = nodeOf(get(node, 0, "self"));
  if ((!isReduction && !isScan) || !operand)
    return std::nullopt;
  std::optional<Place> shape = shapeOf(*operand);
  if (!shape)
    return AbstractValue::unknown();
  auto dims = dimsOf(get(node, 1, "dim"), shape->size());
  if (!dims)
    return AbstractValue::unknown();
  if (isScan) {
    // The first element of a scan is the first of what it scans.
    if (dims->size() == 1 && place.size() == shape->size() &&
        place[dims->front()] == 0)
      return evaluate(*operand, place);
    return AbstractValue::unknown();
  }
  Place inner = place;
  llvm::sort(*dims);
  bool keeps = place.size() == shape->size();
  for (size_t dim : *dims) {
    if (keeps)
      inner[dim] = 0;
    else
      inner.insert(inner.begin() + std::min(dim, inner.size()), 0.0);
  }
  if (inner.size() != shape->size())
    return AbstractValue::unknown();
  double correction = numberOf(get(node, 2, "correction")).value_or(1);
  return reduce(family, *operand, inner, *dims, correction);
}

/// Whether reductions to tensors of these sizes are spelled out, if they are
/// small enough.
bool GraphRunner::unrollsTo(const Place &sizes) const {
  return unrollsWhole || any_of(sizes, [](double size) { return size != 1; });
}

/// The places that are reduced into one, the first of them being `first`; none
/// where they are too many to be spelled out.
SmallVector<Place> GraphRunner::reducedPlaces(uint32_t operand,
                                              const Place &first,
                                              ArrayRef<size_t> dims) {
  SmallVector<Place> places = {first};
  std::optional<Place> shape = shapeOf(operand);
  Place kept = *shape;
  for (size_t dim : dims)
    kept[dim] = 1;
  if (!unrollsTo(kept))
    return {};
  for (size_t dim : dims) {
    double size = (*shape)[dim];
    if (!(size * places.size() < kUnrolledBelow))
      return {};
    size_t count = places.size();
    for (double at = 1; at < size; ++at)
      for (size_t i = 0; i < count; ++i) {
        Place place = places[i];
        place[dim] = at;
        places.push_back(std::move(place));
      }
  }
  return places;
}

/// The sum, the maximum, … of the values of `operand` along `dims`; the
/// variance round `mean`, where that is known otherwise.
AbstractValue GraphRunner::reduce(StringRef family, uint32_t operand,
                                  const Place &first, ArrayRef<size_t> dims,
                                  double correction,
                                  std::optional<AbstractValue> mean) {
  std::optional<Place> shape = shapeOf(operand);
  double count = 1;
  for (size_t dim : dims)
    count *= (*shape)[dim];
  SmallVector<AbstractValue> values;
  SmallVector<Place> places = reducedPlaces(operand, first, dims);
  canUnroll |= places.size() > 1;
  if (unrolls)
    for (const Place &place : places)
      values.push_back(evaluate(operand, place));
  // One value stands for all, or each for itself.
  bool isSpelledOut = values.size() > 1;
  if (!isSpelledOut)
    values.assign(1, evaluate(operand, first));
  auto combine = [&](StringRef name) {
    if (!isSpelledOut)
      return applyReduction(name, values.front(), count);
    StringRef pairwise = StringSwitch<StringRef>(name)
                             .Case("sum", "add")
                             .Case("prod", "mul")
                             .Cases({"amax", "max"}, "maximum")
                             .Cases({"amin", "min"}, "minimum")
                             .Case("any", "logical_or")
                             .Case("all", "logical_and")
                             .Default("");
    AbstractValue result =
        pairwise.empty() ? AbstractValue::unknown() : values.front();
    for (const AbstractValue &value : ArrayRef(values).drop_front())
      result = applyOperator(pairwise, {result, value});
    return result;
  };
  auto divide = [](AbstractValue sum, double by) {
    return applyOperator("div", {sum, AbstractValue::constant(by)});
  };
  if (family == "mean")
    return divide(combine("sum"), count);
  if (family != "var" && family != "std")
    return combine(family);
  if (!mean)
    mean = isSpelledOut ? divide(combine("sum"), count)
                        : applyReduction("mean", values.front(), count);
  for (AbstractValue &value : values) {
    AbstractValue distance = applyOperator("sub", {value, *mean});
    value = applyOperator("mul", {distance, distance});
  }
  AbstractValue variance = divide(combine("sum"), count - correction);
  return family == "var" ? variance : applyOperator("sqrt", variance);
}

/// Concatenations, repetitions, paddings and scatters of slices: whose element
/// stands there.
std::optional<AbstractValue> GraphRunner::evaluateMovement(uint32_t at,
                                                           const Place &place) {
  const GraphNode &node = graph[at];
  StringRef family = graph.family[at];
  if (family == "copy")
    if (std::optional<uint32_t> source = nodeOf(get(node, 1, "src")))
      return evaluateBroadcast(*source, place);
  if (family == "copy_") {
    std::optional<uint32_t> to = nodeOf(get(node, 0, "self"));
    std::optional<uint32_t> source = nodeOf(get(node, 1, "src"));
    if (to && source && graph.root[*to] != *to)
      return evaluateWritten(at, *to, *source, place);
  }
  if (family == "cat") {
    const json::Array *list = listOf(get(node, 0, "tensors"));
    const json::Value *dimArgument = get(node, 1, "dim");
    auto dims = dimsOf(dimArgument, place.size());
    size_t along = dimArgument && dims ? dims->front() : 0;
    if (!list || along >= place.size())
      return AbstractValue::unknown();
    Place inner = place;
    for (const json::Value &item : *list) {
      std::optional<uint32_t> part = nodeOf(&item);
      std::optional<Place> shape = part ? shapeOf(*part) : std::nullopt;
      if (!shape || shape->size() != place.size())
        return AbstractValue::unknown();
      if (inner[along] < (*shape)[along])
        return evaluate(*part, inner);
      inner[along] -= (*shape)[along];
    }
    return AbstractValue::unknown();
  }
  std::optional<uint32_t> operand = nodeOf(get(node, 0, "self"));
  std::optional<Place> shape = operand ? shapeOf(*operand) : std::nullopt;
  if ((family == "flip" || family == "rev") && shape) {
    auto dims = dimsOf(get(node, 1, "dims"), shape->size());
    if (!dims || shape->size() != place.size())
      return AbstractValue::unknown();
    Place inner = place;
    for (size_t dim : *dims)
      inner[dim] = (*shape)[dim] - 1 - place[dim];
    return evaluate(*operand, inner);
  }
  if (family == "repeat" && shape && place.size() >= shape->size()) {
    Place inner(place.end() - shape->size(), place.end());
    for (auto [coordinate, size] : zip(inner, *shape))
      coordinate = std::fmod(coordinate, size);
    return evaluate(*operand, inner);
  }
  if (family == "constant_pad_nd" && shape) {
    const json::Array *pads = listOf(get(node, 1, "pad"));
    if (!pads || shape->size() != place.size())
      return AbstractValue::unknown();
    Place inner = place;
    for (size_t i = 0; 2 * i + 1 < pads->size() && i < inner.size(); ++i) {
      size_t dim = inner.size() - 1 - i;
      inner[dim] -= numberOf(&(*pads)[2 * i]).value_or(NAN);
      if (!(inner[dim] >= 0 && inner[dim] < (*shape)[dim]))
        return AbstractValue::constant(
            numberOf(get(node, 2, "value")).value_or(0));
    }
    return evaluate(*operand, inner);
  }
  if ((family == "slice_scatter" || family == "select_scatter") && shape) {
    std::optional<uint32_t> source = nodeOf(get(node, 1, "src"));
    auto dims = dimsOf(get(node, 2, "dim"), place.size());
    size_t along = get(node, 2, "dim") && dims ? dims->front() : 0;
    if (!source || along >= place.size())
      return AbstractValue::unknown();
    Place inner = place;
    // Negative ones count from the end.
    auto placeOf = [&](size_t argument, StringRef name, double otherwise) {
      double at = numberOf(get(node, argument, name)).value_or(otherwise);
      return at < 0 ? at + (*shape)[along] : at;
    };
    if (family == "select_scatter") {
      if (place[along] != placeOf(3, "index", NAN))
        return evaluate(*operand, place);
      inner.erase(inner.begin() + along);
      return evaluate(*source, inner);
    }
    double start = std::max(placeOf(3, "start", 0), 0.0);
    double end = placeOf(4, "end", INFINITY);
    double step = numberOf(get(node, 5, "step")).value_or(1);
    double from = place[along] - start;
    if (place[along] >= end || from < 0 || std::fmod(from, step) != 0)
      return evaluate(*operand, place);
    inner[along] = from / step;
    return evaluate(*source, inner);
  }
  return std::nullopt;
}

/// Gathers: the index is a number like others.
std::optional<AbstractValue> GraphRunner::evaluateIndexed(uint32_t at,
                                                          const Place &place) {
  const GraphNode &node = graph[at];
  StringRef family = graph.family[at];
  std::optional<uint32_t> table = nodeOf(get(node, 0, "self"));
  if (!table)
    return std::nullopt;
  auto read = [&](const Place &inner) { return evaluate(*table, inner); };
  if (family == "embedding") {
    std::optional<uint32_t> rows = nodeOf(get(node, 1, "indices"));
    if (!rows || place.empty())
      return AbstractValue::unknown();
    AbstractValue row = evaluate(*rows, Place(place.begin(), place.end() - 1));
    if (!row.known)
      return row;
    return read({row.number, place.back()});
  }
  if (family == "gather" || family == "index_select") {
    std::optional<Place> shape = shapeOf(*table);
    std::optional<uint32_t> index = nodeOf(get(node, 2, "index"));
    auto dims =
        shape ? dimsOf(get(node, 1, "dim"), shape->size()) : std::nullopt;
    if (!index || !dims || dims->size() != 1 || place.size() != shape->size())
      return AbstractValue::unknown();
    size_t along = dims->front();
    AbstractValue row =
        evaluate(*index, family == "gather" ? place : Place(1, place[along]));
    if (!row.known)
      return row;
    Place inner = place;
    inner[along] = row.number;
    return read(inner);
  }
  if (family != "index" && family != "_unsafe_index")
    return std::nullopt;
  const json::Array *list = listOf(get(node, 1, "indices"));
  std::optional<Place> shape = shapeOf(*table);
  if (!list || !shape)
    return AbstractValue::unknown();
  // Indices that stand together are replaced by their common shape there,
  // others by one at the front.
  SmallVector<std::optional<uint32_t>> indices(shape->size());
  size_t rank = 0, first = shape->size(), last = 0, count = 0;
  for (auto [i, item] : enumerate(*list)) {
    std::optional<uint32_t> index = nodeOf(&item);
    std::optional<Place> size = index ? shapeOf(*index) : std::nullopt;
    if (!index)
      continue;
    if (!size || i >= indices.size() ||
        graph[*index].results[0].dtype == "bool")
      return AbstractValue::unknown();
    indices[i] = index;
    rank = std::max(rank, size->size());
    first = std::min<size_t>(first, i);
    last = i;
    ++count;
  }
  if (!count || place.size() + count != shape->size() + rank)
    return AbstractValue::unknown();
  size_t start = last - first + 1 == count ? first : 0;
  Place common(place.begin() + start, place.begin() + start + rank), inner;
  size_t next = 0;
  for (auto [i, index] : enumerate(indices)) {
    if (!index) {
      if (next == start)
        next += rank;
      inner.push_back(next < place.size() ? place[next++] : 0);
      continue;
    }
    AbstractValue row = evaluateBroadcast(*index, common);
    if (!row.known)
      return row;
    inner.push_back(row.number);
  }
  return read(inner);
}

AbstractValue GraphRunner::evaluateForeach(uint32_t at, uint32_t member,
                                           const Place &place) {
  const GraphNode &node = graph[at];
  StringRef name = graph.family[at].drop_front(9);
  SmallVector<AbstractValue> args;
  for (const json::Value &value : node.args) {
    if (const json::Array *list = listOf(&value)) {
      if (member >= list->size())
        return AbstractValue::unknown();
      args.push_back(argument((*list)[member], place));
    } else {
      args.push_back(argument(value, place));
    }
  }
  if ((name == "addcmul" || name == "addcdiv") && args.size() >= 3) {
    AbstractValue product =
        applyOperator(name == "addcmul" ? "mul" : "div", {args[1], args[2]});
    AbstractValue scale =
        args.size() > 3 ? args[3] : AbstractValue::constant(1);
    for (const auto &[key, value] : node.kwargs)
      if (key == "value")
        scale = argument(value, place);
    return applyOperator("add",
                         {args[0], applyOperator("mul", {product, scale})});
  }
  for (const auto &[key, value] : node.kwargs)
    if (key == "alpha" && args.size() == 2)
      args[1] = applyOperator("mul", {args[1], argument(value, place)});
  return applyOperator(name, args);
}

AbstractValue GraphRunner::evaluatePointwise(uint32_t at, const Place &place) {
  const GraphNode &node = graph[at];
  StringRef family = graph.family[at];
  SmallVector<AbstractValue> args;
  for (const json::Value &value : node.args) {
    if (value.getAsNull()) {
      args.push_back(AbstractValue::unknown(false));
      continue;
    }
    args.push_back(argument(value, place));
  }
  auto keyword = [&](StringRef name) -> const json::Value * {
    for (const auto &[key, value] : node.kwargs)
      if (key == name)
        return &value;
    return nullptr;
  };
  auto apply = [](StringRef name, ArrayRef<AbstractValue> values) {
    return applyOperator(name, values);
  };
  if ((family == "add" || family == "sub") && args.size() >= 2) {
    AbstractValue other = args[1];
    if (const json::Value *alpha = keyword("alpha"))
      other = apply("mul", {other, argument(*alpha, place)});
    return apply(family, {args[0], other});
  }
  if (family == "rsub" && args.size() >= 2)
    return apply("sub", {args[1], args[0]});
  if (family == "div" && args.size() == 2) {
    AbstractValue quotient = apply("div", args);
    if (const json::Value *mode = keyword("rounding_mode"))
      if (std::optional<StringRef> text = mode->getAsString())
        return *text == "floor" ? apply("floor_divide", args)
                                : apply("trunc", quotient);
    return quotient;
  }
  if (family == "clamp" || family == "hardtanh") {
    AbstractValue value = args.empty() ? AbstractValue::unknown() : args[0];
    const json::Value *low = get(node, 1, "min"), *high = get(node, 2, "max");
    if (low && !low->getAsNull())
      value = apply("maximum", {value, argument(*low, place)});
    if (high && !high->getAsNull())
      value = apply("minimum", {value, argument(*high, place)});
    return value;
  }
  if (family == "masked_fill" && args.size() == 3)
    return apply("where", {args[1], args[2], args[0]});
  if (family == "fma" && args.size() == 3)
    return apply("add", {apply("mul", {args[0], args[1]}), args[2]});
  if ((family == "addcmul" || family == "addcdiv") && args.size() >= 3) {
    AbstractValue product =
        apply(family == "addcmul" ? "mul" : "div", {args[1], args[2]});
    if (const json::Value *value = keyword("value"))
      product = apply("mul", {product, argument(*value, place)});
    return apply("add", {args[0], product});
  }
  bool isInPlace = fx::getFunctionalName(family) != family;
  if (isInPlace || family == "max" || family == "min")
    return AbstractValue::unknown();
  return applyOperator(family, args);
}
