// Which launch map each call of a compiled graph is of.

#include "CallFits.h"
#include "opprof/Trace/InputShapes.h"

#include "llvm/ADT/STLExtras.h"

#include <set>

using namespace llvm;
using namespace opprof;
using namespace opprof::join;
using namespace opprof::trace;

static constexpr StringLiteral kOtherGraph =
    "another compiled graph launches the same kernels";
static constexpr StringLiteral kOtherCompilation =
    "calls of another graph, or of another compilation of this one, run the "
    "same operators, and only one of them can be this";

/// What PyTorch calls the graph of a call: a name of code, a key of its cache,
/// or nothing.
static StringRef keyOf(const HostOp &call) {
  StringRef name = call.name;
  name.consume_front("## Call CompiledFxGraph");
  name.consume_back("##");
  name = name.trim();
  return name == "None" ? StringRef() : name;
}

CallFits::CallFits(const HostTimeline &host, LaunchIndex &index,
                   const WrapperFiles *wrappers, std::vector<Operators> calls)
    : host(host), index(index), wrappers(wrappers), calls(std::move(calls)) {
  choices.resize(this->calls.size());
  chosen.assign(this->calls.size(), false);
  chooseNamed();
  chooseByKey();
  chooseByOperators();
  settleShapes();
}

CallFits::Sequence CallFits::sequenceOf(ArrayRef<uint32_t> operators) {
  Sequence sequence;
  for (uint32_t op : operators) {
    LaunchKey key = index.keyOf(host, op);
    sequence.push_back(uint64_t(key.hash) << 32 | key.name);
  }
  return sequence;
}

static LaunchKey toKey(uint64_t element) {
  return {uint32_t(element >> 32), uint32_t(element)};
}

static SequenceAlignment align(ArrayRef<uint64_t> sequence,
                               ArrayRef<LaunchKey> launches) {
  return alignSequences(sequence.size(), launches.size(),
                        [&](uint32_t op, uint32_t launch) {
                          return toKey(sequence[op]).matches(launches[launch]);
                        });
}

const std::vector<CallFit> &CallFits::fitsOf(ArrayRef<uint32_t> operators) {
  Sequence sequence = sequenceOf(operators);
  auto [it, inserted] = fits.try_emplace(sequence);
  std::vector<CallFit> &found = it->second;
  if (!inserted)
    return found;
  for (uint32_t map = 0; map < index.getMaps().size(); ++map) {
    // What runs operator by operator is no compiled graph.
    if (index.getMaps()[map].isByOperator())
      continue;
    ArrayRef<LaunchKey> launches = index.keysOf(map);
    SequenceAlignment alignment = align(sequence, launches);
    // Library calls look alike in every model: a map whose generated kernels
    // are not those of the call is another model's. So is one that explains
    // less than half of it, unless a hash says otherwise: what runs in a loop
    // stands in the map once.
    bool anyGenerated = false, generatedMatched = false, hashMatched = false;
    for (auto [position, element] : llvm::enumerate(alignment.elements)) {
      const HostOp &op = host.op(operators[position]);
      if (!op.generated && !op.name.contains("cpp_fused"))
        continue;
      anyGenerated = true;
      if (!element.position)
        continue;
      generatedMatched = true;
      hashMatched |=
          toKey(sequence[position]).hash && launches[*element.position].hash;
    }
    if (!alignment.matched || (anyGenerated && !generatedMatched) ||
        (!hashMatched &&
         2 * uint64_t(alignment.matched) < uint64_t(sequence.size())))
      continue;
    double score = double(alignment.matched) /
                   double(std::max(sequence.size(), launches.size()));
    found.push_back({map, std::move(alignment), score});
  }
  llvm::stable_sort(found, [](const CallFit &a, const CallFit &b) {
    return a.score > b.score;
  });
  return found;
}

const CallFit *CallFits::fitOf(ArrayRef<uint32_t> operators, uint32_t map) {
  Sequence sequence = sequenceOf(operators);
  auto [it, inserted] = named.try_emplace({sequence, map});
  if (inserted)
    it->second = {map, align(sequence, index.keysOf(map)), 1};
  return it->second.alignment.matched ? &it->second : nullptr;
}

CallChoice CallFits::choose(ArrayRef<uint32_t> operators) {
  const std::vector<CallFit> &found = fitsOf(operators);
  CallChoice choice;
  if (found.empty())
    return choice;
  choice.fit = &found.front();
  if (found.size() > 1 && found[1].score == found[0].score)
    choice.doubt = kOtherGraph;
  return choice;
}

/// Calls that name the code are of that code's map, or of none.
void CallFits::chooseNamed() {
  if (!wrappers)
    return;
  for (uint32_t call = 0; call < calls.size(); ++call) {
    StringRef key = keyOf(host.op(host.calls()[call]));
    if (!isCodeName(key))
      continue;
    CallChoice &choice = choices[call];
    if (std::optional<uint32_t> map = wrappers->findName(key)) {
      choice.fit = fitOf(calls[call], *map);
      choice.named = map;
      chosen[call] = true;
    } else if (wrappers->haveCodeOfAll(index.getMaps().size())) {
      choice.named = kNone;
      chosen[call] = true;
    }
  }
}

/// Calls with different keys are of different graphs, and a map is of one: it
/// goes to the graph whose calls fit it best.
void CallFits::chooseByKey() {
  using Pair = std::pair<StringRef, uint32_t>;
  std::map<Pair, double> scores;
  std::set<StringRef> keys;
  for (uint32_t call = 0; call < calls.size(); ++call) {
    StringRef key = keyOf(host.op(host.calls()[call]));
    if (chosen[call] || key.empty())
      continue;
    keys.insert(key);
    for (const CallFit &fit : fitsOf(calls[call])) {
      double &score = scores[{key, fit.map}];
      score = std::max(score, fit.score);
    }
  }
  if (keys.size() < 2)
    return;
  std::vector<std::pair<double, Pair>> order;
  for (const auto &[pair, score] : scores)
    order.push_back({score, pair});
  llvm::stable_sort(
      order, [](const auto &a, const auto &b) { return a.first > b.first; });
  // Those of the same score are settled together: what could go either way is
  // in doubt.
  std::map<StringRef, std::pair<uint32_t, bool>> mapOfKey;
  std::set<uint32_t> taken;
  for (size_t begin = 0, end; begin < order.size(); begin = end) {
    for (end = begin;
         end < order.size() && order[end].first == order[begin].first;)
      ++end;
    std::vector<Pair> open;
    for (size_t i = begin; i < end; ++i)
      if (const Pair &pair = order[i].second;
          !mapOfKey.count(pair.first) && !taken.count(pair.second))
        open.push_back(pair);
    auto inDoubt = [&](const Pair &pair) {
      return llvm::any_of(open, [&](const Pair &other) {
        return (other.first == pair.first) != (other.second == pair.second);
      });
    };
    for (const Pair &pair : open)
      if (!mapOfKey.count(pair.first) && taken.insert(pair.second).second)
        mapOfKey[pair.first] = {pair.second, inDoubt(pair)};
    for (const Pair &pair : open)
      mapOfKey.try_emplace(pair.first, pair.second, true);
  }
  for (uint32_t call = 0; call < calls.size(); ++call) {
    StringRef key = keyOf(host.op(host.calls()[call]));
    if (chosen[call] || key.empty())
      continue;
    chosen[call] = true;
    auto it = mapOfKey.find(key);
    if (it == mapOfKey.end())
      continue;
    for (const CallFit &fit : fitsOf(calls[call]))
      if (fit.map == it->second.first)
        choices[call].fit = &fit;
    if (it->second.second)
      choices[call].doubt = kOtherCompilation;
  }
}

void CallFits::chooseByOperators() {
  for (uint32_t call = 0; call < calls.size(); ++call)
    if (!chosen[call])
      choices[call] = choose(calls[call]);
}

/// FLOPs of a matrix product by the shapes of its operands; absent for other
/// operators.
static std::optional<uint64_t> countFlops(const HostOp &op,
                                          const OperatorInputs &given) {
  bool adds = op.name == "aten::addmm" || op.name == "aten::baddbmm";
  if (!adds && op.name != "aten::mm" && op.name != "aten::bmm")
    return std::nullopt;
  std::vector<InputShape> inputs = readInputShapes(given.dims);
  if (inputs.size() < 2u + adds)
    return std::nullopt;
  const InputShape &left = inputs[adds], &right = inputs[1 + adds];
  if (left.isList || right.isList || left.tensors.front().empty() ||
      right.tensors.front().empty())
    return std::nullopt;
  uint64_t flops = 2 * uint64_t(right.tensors.front().back());
  for (int64_t size : left.tensors.front())
    flops *= uint64_t(size);
  return flops;
}

/// Whether the shapes of the call's products are those of the map.
bool CallFits::isOfMap(ArrayRef<uint32_t> operators, const CallFit &fit) const {
  for (auto [position, element] : llvm::enumerate(fit.alignment.elements)) {
    if (!element.position)
      continue;
    const launch::Launch &launch = index.at({fit.map, *element.position});
    std::optional<uint64_t> flops = countFlops(
        host.op(operators[position]), host.inputsOf(operators[position]));
    if (flops && launch.flops && *flops != *launch.flops)
      return false;
  }
  return true;
}

/// Code without symbolic sizes runs on the same shapes every time: of calls
/// without keys that run the same operators on several, all but those of one
/// are of other code.
void CallFits::settleShapes() {
  if (!wrappers)
    return;
  std::map<std::pair<const CallFit *, std::string>, std::vector<uint32_t>>
      variants;
  std::map<const CallFit *, unsigned> variantsOf, fitting;
  std::vector<bool> isStatic;
  for (uint32_t map = 0; map < index.getMaps().size(); ++map)
    isStatic.push_back(wrappers->isStatic(map));
  for (uint32_t call = 0; call < calls.size(); ++call) {
    const CallFit *fit = choices[call].fit;
    if (!fit || !keyOf(host.op(host.calls()[call])).empty() ||
        !isStatic[fit->map])
      continue;
    std::string shapes;
    for (uint32_t op : calls[call])
      shapes += host.inputsOf(op).dims.str() + ";";
    variants[{fit, shapes}].push_back(call);
  }
  for (const auto &[variant, members] : variants) {
    ++variantsOf[variant.first];
    fitting[variant.first] += isOfMap(calls[members.front()], *variant.first);
  }
  for (const auto &[variant, members] : variants) {
    const CallFit *fit = variant.first;
    if (variantsOf[fit] < 2)
      continue;
    bool fits = isOfMap(calls[members.front()], *fit);
    for (uint32_t call : members) {
      if (fitting[fit] && !fits)
        choices[call] = CallChoice();
      else if (fitting[fit] != 1)
        choices[call].doubt = kOtherCompilation;
    }
  }
}
