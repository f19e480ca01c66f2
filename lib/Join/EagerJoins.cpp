// From an eager program's operators to nodes.

#include "EagerJoins.h"
#include "opprof/Trace/InputShapes.h"

#include "opprof/Join/SequenceAlignment.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/Twine.h"

#include <map>

using namespace llvm;
using namespace opprof;
using namespace opprof::join;
using namespace opprof::profile;
using namespace opprof::trace;
using launch::LaunchMap;
using launch::Sizes;

/// Of the launches of a graph, how many a pass has to show to be one: an eager
/// program runs operators of the same names beside the graph. And how many of
/// the graph's or of the pass's have to match to be sure: an export makes masks
/// that the program does without.
static constexpr double kEnough = 0.5, kNearlyAll = 0.9;

/// Functions of autograd's between one and the addition to a gradient that it
/// made.
static constexpr size_t kMostRecent = 8;

/// Operators that come between two of a pass and are not the graph's.
static constexpr uint32_t kMostBetween = 32;

//===----------------------------------------------------------------------===//
// Operators under one name for all their forms
//===----------------------------------------------------------------------===//

/// "aten::relu_" and "aten::relu" are one: an export may have either. So are
/// the forms of operators that are chosen by device and mode.
static std::string operatorFamily(StringRef name) {
  auto [space, op] = name.split("::");
  if (space != "aten")
    return name.str();
  if (!op.ends_with("__"))
    op.consume_back("_");
  if (op.starts_with("_scaled_dot_product"))
    op = "scaled_dot_product_attention";
  op = StringSwitch<StringRef>(op)
           .Cases({"_batch_norm_impl_index", "native_batch_norm",
                   "cudnn_batch_norm", "_native_batch_norm_legit",
                   "_native_batch_norm_legit_no_training",
                   "_batch_norm_with_update", "_batch_norm_no_update"},
                  "batch_norm")
           .Case("lift_fresh_copy", "lift_fresh")
           .Default(op);
  return ("aten::" + op).str();
}

//===----------------------------------------------------------------------===//
// Sizes of inputs
//===----------------------------------------------------------------------===//

/// Whether an operator with inputs of these sizes can be that launch. A number
/// that is wrapped in a tensor and an argument that is no tensor look alike.
static bool fits(ArrayRef<std::optional<Sizes>> wanted,
                 ArrayRef<InputShape> shown) {
  for (auto [graph, input] : llvm::zip(wanted, shown)) {
    if (input.isList)
      continue;
    const Sizes &trace = input.tensors.front();
    if (!graph) {
      if (!trace.empty())
        return false;
      continue;
    }
    if (graph->size() != trace.size())
      return false;
    for (auto [a, b] : llvm::zip(*graph, trace))
      if (a != launch::kUnknownSize && a != b)
        return false;
  }
  return true;
}

/// The tensors among an operator's inputs that are arguments by themselves, but
/// for those that may be wrapped numbers.
static SmallVector<ArrayRef<int64_t>> tensorsOf(ArrayRef<InputShape> shown) {
  SmallVector<ArrayRef<int64_t>> tensors;
  for (const InputShape &input : shown)
    if (!input.isList && !input.tensors.front().empty())
      tensors.push_back(input.tensors.front());
  return tensors;
}

/// Whether an operator takes the very tensors that a launch takes.
static bool takesTensorsOf(const launch::Launch &launch,
                           ArrayRef<InputShape> shown) {
  SmallVector<ArrayRef<int64_t>> wanted;
  for (const std::optional<Sizes> &sizes : launch.argumentSizes)
    if (sizes && !sizes->empty())
      wanted.push_back(*sizes);
  return wanted == tensorsOf(shown);
}

//===----------------------------------------------------------------------===//
// One map
//===----------------------------------------------------------------------===//

namespace {
/// An operator of the host that may be one of the graph's.
struct Candidate {
  uint32_t op;
  /// Place among the operators of the thread.
  uint32_t place;
  uint32_t family;
  /// Place in the texts of sizes.
  uint32_t dims;
};

/// Those of a thread, in order.
struct Candidates {
  std::vector<Candidate> launches;
  /// Views, and operators that the graph has not: of these the family is kNone.
  std::vector<Candidate> others;
};

/// Aligns operators with the launches of one map, and then others with its
/// views between those that are matched.
class MapAligner {
public:
  MapAligner(const LaunchMap &map, const HostTimeline &host);

  Candidates collect(ArrayRef<uint32_t> ops,
                     function_ref<bool(uint32_t)> isExcluded);
  /// Cuts candidates into passes through the graph.
  std::vector<ArrayRef<Candidate>> cut(ArrayRef<Candidate> candidates) const;
  const SequenceAlignment &align(ArrayRef<Candidate> pass);
  /// Aligns other operators with the graph's views in these half-open ranges of
  /// its launches, none of which is matched, and with launches of another name
  /// that take tensors of the same sizes. Tells `found` of each pair and of
  /// whether it is forced.
  void alignOthers(
      ArrayRef<Candidate> others,
      ArrayRef<std::pair<uint32_t, uint32_t>> ranges,
      function_ref<void(const Candidate &, uint32_t, bool)> found) const;

  bool matches(const Candidate &candidate, uint32_t launch) const {
    return families[launch] == candidate.family && fitsSizes(candidate, launch);
  }
  /// The launches that every pass shows.
  double expected() const;
  size_t countLaunching() const { return launching.size(); }
  /// Whether sizes have to agree.
  bool bySizes = true;

private:
  bool fitsSizes(const Candidate &candidate, uint32_t launch) const {
    return !bySizes ||
           fits(map.launches[launch].argumentSizes, shown[candidate.dims]);
  }
  void fillGaps(ArrayRef<Candidate> pass, SequenceAlignment &alignment) const;
  void fillLoops(ArrayRef<Candidate> pass, SequenceAlignment &alignment) const;
  std::optional<uint32_t> findAnchor(ArrayRef<Candidate> candidates) const;

  const LaunchMap &map;
  const HostTimeline &host;
  StringMap<uint32_t> familyIds, dimIds;
  /// By launch; kNone for views, and for what is no view.
  std::vector<uint32_t> families, viewFamilies;
  /// The launches that are no views, and their families.
  std::vector<uint32_t> launching;
  DenseSet<uint32_t> launchFamilies;
  std::vector<std::vector<InputShape>> shown;
  std::map<std::vector<uint64_t>, SequenceAlignment> alignments;
};
} // namespace

MapAligner::MapAligner(const LaunchMap &map, const HostTimeline &host)
    : map(map), host(host) {
  for (const launch::Launch &launch : map.launches) {
    auto [it, inserted] = familyIds.try_emplace(
        operatorFamily(profilerName(launch.kernel)), familyIds.size());
    bool isView = launch.kind == launch::LaunchKind::View;
    families.push_back(isView ? kNone : it->second);
    viewFamilies.push_back(isView ? it->second : kNone);
    if (isView)
      continue;
    launching.push_back(families.size() - 1);
    launchFamilies.insert(it->second);
  }
}

Candidates MapAligner::collect(ArrayRef<uint32_t> ops,
                               function_ref<bool(uint32_t)> isExcluded) {
  Candidates candidates;
  // What an operator of the graph calls is a part of it, and what a view calls
  // of the view.
  DenseSet<uint32_t> inside, insideView, insideUnknown;
  for (auto [place, op] : llvm::enumerate(ops)) {
    const HostOp &hostOp = host.op(op);
    uint32_t parent = host.parent(op);
    if (parent != kNone && inside.contains(parent)) {
      inside.insert(op);
      continue;
    }
    bool isInView = parent != kNone && insideView.contains(parent);
    bool isInUnknown = parent != kNone && insideUnknown.contains(parent);
    if (isInView)
      insideView.insert(op);
    if (isInUnknown)
      insideUnknown.insert(op);
    if (hostOp.annotation || host.callOf(op) != kNone || isExcluded(op))
      continue;
    auto it = familyIds.find(operatorFamily(hostOp.name));
    uint32_t family = it == familyIds.end() ? kNone : it->second;
    bool launches = family != kNone && launchFamilies.contains(family);
    if (!launches && (isInView || (family == kNone && isInUnknown)))
      continue;
    StringRef sizes = host.inputsOf(op).dims;
    auto [dims, inserted] = dimIds.try_emplace(sizes, shown.size());
    if (inserted)
      shown.push_back(readInputShapes(sizes));
    (launches          ? inside
     : family == kNone ? insideUnknown
                       : insideView)
        .insert(op);
    if (family != kNone || tensorsOf(shown[dims->second]).size() > 1)
      (launches ? candidates.launches : candidates.others)
          .push_back({op, uint32_t(place), family, dims->second});
  }
  return candidates;
}

/// The first launch that is unlike every other, and that comes as often as most
/// of its kind do: each time it is another pass.
std::optional<uint32_t>
MapAligner::findAnchor(ArrayRef<Candidate> candidates) const {
  std::map<std::pair<uint32_t, std::vector<std::optional<Sizes>>>, uint32_t>
      alike;
  auto keyOf = [&](uint32_t launch) {
    return std::pair(families[launch],
                     bySizes ? map.launches[launch].argumentSizes
                             : std::vector<std::optional<Sizes>>());
  };
  for (uint32_t launch = 0; launch < families.size(); ++launch)
    ++alike[keyOf(launch)];
  std::vector<std::pair<uint32_t, uint32_t>> seen;
  std::map<uint32_t, uint32_t> weight;
  for (uint32_t launch = 0; launch < families.size(); ++launch) {
    // What may run never, or often, marks no pass.
    const launch::Launch &at = map.launches[launch];
    if (alike[keyOf(launch)] != 1 || at.conditional || at.inLoop)
      continue;
    uint32_t count = llvm::count_if(
        candidates, [&](const Candidate &at) { return matches(at, launch); });
    if (!count)
      continue;
    seen.push_back({launch, count});
    ++weight[count];
  }
  if (seen.empty())
    return std::nullopt;
  uint32_t usual = llvm::max_element(weight, [](const auto &a, const auto &b) {
                     return a.second < b.second;
                   })->first;
  for (auto [launch, count] : seen)
    if (count == usual)
      return launch;
  return std::nullopt;
}

std::vector<ArrayRef<Candidate>>
MapAligner::cut(ArrayRef<Candidate> candidates) const {
  std::optional<uint32_t> anchor = findAnchor(candidates);
  if (!anchor)
    return {candidates};
  std::vector<size_t> starts;
  for (size_t at = 0; at < candidates.size(); ++at) {
    if (!matches(candidates[at], *anchor))
      continue;
    // The pass begins with what leads up to the anchor.
    size_t start = at;
    uint32_t launch = *anchor;
    for (size_t back = at; back-- > 0 && launch && start - back < kMostBetween;)
      for (uint32_t before = launch; before-- > 0;)
        if (matches(candidates[back], before)) {
          launch = before;
          start = back;
          break;
        }
    starts.push_back(starts.empty() ? start : std::max(start, starts.back()));
  }
  std::vector<ArrayRef<Candidate>> passes;
  for (auto [number, start] : llvm::enumerate(starts)) {
    size_t end =
        number + 1 < starts.size() ? starts[number + 1] : candidates.size();
    if (start < end)
      passes.push_back(candidates.slice(start, end - start));
  }
  return passes;
}

const SequenceAlignment &MapAligner::align(ArrayRef<Candidate> pass) {
  std::vector<uint64_t> sequence = {bySizes};
  for (const Candidate &candidate : pass)
    sequence.push_back(uint64_t(candidate.family) << 32 | candidate.dims);
  auto [it, inserted] = alignments.try_emplace(std::move(sequence));
  if (inserted) {
    it->second = alignSequences(
        pass.size(), launching.size(), [&](uint32_t candidate, uint32_t place) {
          return matches(pass[candidate], launching[place]);
        });
    for (AlignedElement &element : it->second.elements)
      if (element.position)
        element.position = launching[*element.position];
    if (bySizes && it->second.matched >= kEnough * expected())
      fillGaps(pass, it->second);
    if (it->second.matched >= kEnough * expected())
      fillLoops(pass, it->second);
  }
  return it->second;
}

void MapAligner::alignOthers(
    ArrayRef<Candidate> others, ArrayRef<std::pair<uint32_t, uint32_t>> ranges,
    function_ref<void(const Candidate &, uint32_t, bool)> found) const {
  if (others.empty())
    return;
  SmallVector<uint32_t> launches;
  for (auto [begin, end] : ranges)
    llvm::append_range(launches, llvm::seq(begin, end));
  SequenceAlignment alignment = alignSequences(
      others.size(), launches.size(), [&](uint32_t other, uint32_t place) {
        const Candidate &candidate = others[other];
        uint32_t launch = launches[place];
        if (candidate.family == kNone)
          return bySizes && viewFamilies[launch] == kNone &&
                 takesTensorsOf(map.launches[launch], shown[candidate.dims]);
        return viewFamilies[launch] == candidate.family &&
               fitsSizes(candidate, launch);
      });
  for (auto [candidate, element] : llvm::zip(others, alignment.elements))
    if (element.position)
      found(candidate, launches[*element.position], element.forced);
}

/// So many launches have to run in a pass: calls of bodies and views launch
/// nothing themselves, and what is chosen or repeated may not run.
double MapAligner::expected() const {
  return llvm::count_if(launching, [&](uint32_t place) {
    const launch::Launch &launch = map.launches[place];
    return launch.kind != launch::LaunchKind::Subgraph && !launch.conditional &&
           !launch.inLoop;
  });
}

/// The body of a loop stands in the map once, and runs any number of times:
/// what lies between what is before it and what is behind it goes round it.
/// Never sure, as nothing says where a turn begins.
void MapAligner::fillLoops(ArrayRef<Candidate> pass,
                           SequenceAlignment &alignment) const {
  std::vector<AlignedElement> &elements = alignment.elements;
  for (uint32_t begin = 0, end = 0; begin < families.size(); begin = end + 1) {
    end = begin;
    while (end < families.size() && map.launches[end].inLoop)
      ++end;
    if (begin == end)
      continue;
    auto isIn = [&](const AlignedElement &element) {
      return element.position && *element.position >= begin &&
             *element.position < end;
    };
    size_t first = 0, last = pass.size();
    for (size_t at = 0; at < elements.size(); ++at)
      if (elements[at].position && *elements[at].position < begin)
        first = at + 1;
    for (size_t at = elements.size(); at-- > first;)
      if (elements[at].position && *elements[at].position >= end)
        last = at;
    uint32_t next = begin;
    for (size_t at = first; at < last; ++at) {
      if (elements[at].position && !isIn(elements[at]))
        continue;
      alignment.matched -= elements[at].position.has_value();
      elements[at] = {};
      for (uint32_t turn = 0; turn < end - begin; ++turn) {
        uint32_t launch = begin + (next - begin + turn) % (end - begin);
        if (pass[at].family != families[launch])
          continue;
        elements[at].position = launch;
        ++alignment.matched;
        next = launch + 1 == end ? begin : launch + 1;
        break;
      }
    }
  }
}

/// An export may call an operator with other arguments than the program: a mask
/// where attention was causal by itself. Between two that match, name and order
/// have to do, and are never sure.
void MapAligner::fillGaps(ArrayRef<Candidate> pass,
                          SequenceAlignment &alignment) const {
  for (const AlignmentGap &gap : findGaps(alignment, families.size())) {
    SequenceAlignment between = alignSequences(
        gap.firstEnd - gap.firstBegin, gap.secondEnd - gap.secondBegin,
        [&](uint32_t candidate, uint32_t launch) {
          return pass[gap.firstBegin + candidate].family ==
                 families[gap.secondBegin + launch];
        });
    for (auto [offset, element] : llvm::enumerate(between.elements))
      if (element.position && element.forced) {
        alignment.elements[gap.firstBegin + offset].position =
            gap.secondBegin + *element.position;
        ++alignment.matched;
      }
  }
}

//===----------------------------------------------------------------------===//
// EagerJoins
//===----------------------------------------------------------------------===//

/// A function that autograd's engine runs. One that runs inside another is not
/// a part of it.
static bool isFunction(const HostOp &op) {
  return op.name.starts_with("autograd::engine::evaluate_function");
}

EagerJoins::EagerJoins(const Trace &trace, const HostTimeline &host,
                       LaunchIndex &index)
    : host(host) {
  // What was recorded need not be matched.
  if (!trace.identities.empty())
    return;
  for (uint32_t map = 0; map < index.getMaps().size(); ++map)
    if (index.getMaps()[map].isByOperator()) {
      joins.resize(trace.hostOps.size());
      for (ThreadId thread = 0; thread < trace.threads.size(); ++thread)
        alignThread(map, thread, index);
    }
  if (!anyJoined)
    return;
  llvm::sort(starts);
  joinBackward(trace, index);
  joinedBy.assign(trace.hostOps.size(), kNone);
  for (ThreadId thread = 0; thread < trace.threads.size(); ++thread)
    for (uint32_t op : host.opsOf(thread)) {
      uint32_t parent = host.parent(op);
      joinedBy[op] = joins[op].launch.valid() ? op
                     : parent == kNone || isFunction(host.op(op))
                         ? kNone
                         : joinedBy[parent];
    }
  joinedInside.assign(trace.hostOps.size(), kNone);
  std::vector<bool> differ(trace.hostOps.size());
  for (uint32_t op = 0; op < joins.size(); ++op) {
    uint32_t top = host.topOf(op);
    if (!joins[op].launch.valid() || top == kNone || differ[top])
      continue;
    uint32_t &inside = joinedInside[top];
    differ[top] = inside != kNone &&
                  joins[inside].launch.launch != joins[op].launch.launch;
    inside = differ[top] ? kNone : op;
  }
}

/// Functions of autograd and optimizers run operators that are no nodes of a
/// forward graph.
bool EagerJoins::isOutside(uint32_t op) const {
  for (; op != kNone; op = host.parent(op)) {
    const HostOp &hostOp = host.op(op);
    if (hostOp.backward || hostOp.name.starts_with("Optimizer.") ||
        hostOp.name.starts_with("torch::autograd::") || isFunction(hostOp))
      return true;
  }
  return false;
}

void EagerJoins::alignThread(uint32_t map, ThreadId thread,
                             LaunchIndex &index) {
  const LaunchMap &launches = index.getMaps()[map];
  MapAligner aligner(launches, host);
  auto [candidates, others] =
      aligner.collect(host.opsOf(thread), [&](uint32_t op) {
        return isOutside(op) || joins[op].launch.valid();
      });
  if (candidates.empty())
    return;
  double of = aligner.expected();
  bool shapesSeen = llvm::any_of(candidates, [&](const Candidate &candidate) {
    return !host.inputsOf(candidate.op).dims.empty();
  });
  // The graph may have been exported with another batch: then names and order
  // are all there is.
  for (bool bySizes : {true, false}) {
    if (bySizes && !shapesSeen)
      continue;
    aligner.bySizes = bySizes;
    uint64_t passes = 0, matched = 0;
    ArrayRef<Candidate> othersLeft = others;
    auto othersBefore = [&](uint32_t place) {
      ArrayRef<Candidate> before = othersLeft.take_while(
          [&](const Candidate &other) { return other.place < place; });
      othersLeft = othersLeft.drop_front(before.size());
      return before;
    };
    const uint32_t all = launches.launches.size();
    // The launch behind the last one that matched, in the pass before too:
    // what lies between passes is of the end of one or the begin of the next.
    std::optional<uint32_t> behind;
    for (ArrayRef<Candidate> pass : aligner.cut(candidates)) {
      const SequenceAlignment &alignment = aligner.align(pass);
      if (!alignment.matched || alignment.matched < kEnough * of) {
        (void)othersBefore(pass.back().place);
        behind.reset();
        continue;
      }
      ++passes;
      starts.push_back(host.op(pass.front().op).startNs);
      matched += alignment.matched;
      bool sure = bySizes && alignment.matched >=
                                 kNearlyAll * std::min(of, double(pass.size()));
      auto joinOther = [&](const Candidate &other, uint32_t launch,
                           bool forced) {
        if (other.family != kNone)
          setJoin(other.op, {map, launch}, index, sure && forced, bySizes);
        else if (forced)
          setOtherJoin(other.op, {map, launch}, index);
      };
      bool isFirst = true;
      for (auto [candidate, element] : llvm::zip(pass, alignment.elements)) {
        if (!element.position)
          continue;
        uint32_t launch = *element.position;
        ArrayRef<Candidate> before = othersBefore(candidate.place);
        // A loop goes back.
        if (isFirst)
          aligner.alignOthers(
              before, {{behind.value_or(all), all}, {0, launch}}, joinOther);
        else if (*behind <= launch)
          aligner.alignOthers(before, {{*behind, launch}}, joinOther);
        isFirst = false;
        behind = launch + 1;
        setJoin(candidate.op, {map, launch}, index, sure && element.forced,
                bySizes);
      }
      if (pass.end() == ArrayRef(candidates).end())
        aligner.alignOthers(othersLeft, {{*behind, all}}, joinOther);
    }
    if (!passes)
      continue;
    anyJoined = true;
    remarks.push_back(
        ("the program ran uncompiled: " + Twine(matched) + " of its " +
         Twine(candidates.size()) + " operators were matched with " +
         launches.graph + "'s " + Twine(aligner.countLaunching()) +
         " by name, " + (bySizes ? "sizes " : "") + "and order, in " +
         Twine(passes) + (passes == 1 ? " pass" : " passes") +
         (bySizes ? ""
          : shapesSeen
              ? "; their sizes differ from the graph's, so that none of this "
                "is sure: export the graph with the inputs that it runs with"
              : "; the trace has no sizes: record it with record_shapes=True"))
            .str());
    return;
  }
}

/// What a person knows the launch by.
static StringRef nodeOf(const launch::Launch &launch) {
  return launch.nodes.empty() ? launch.kernel : launch.nodes.front().name;
}

void EagerJoins::setJoin(uint32_t op, LaunchId launch, const LaunchIndex &index,
                         bool sure, bool bySizes) {
  Join &join = joins[op];
  join.launch = launch;
  join.method = kForward;
  join.confidence = sure ? Confidence::High : Confidence::Medium;
  const launch::Launch &at = index.at(launch);
  join.explanation =
      ("host operator " + host.op(op).name + " is node " + nodeOf(at) + " of " +
       index.getMaps()[launch.map].graph + ": operator" +
       (bySizes ? ", sizes and order fit" : " and order fit") +
       (sure      ? ", and leave no choice"
        : bySizes ? "; another reading would fit as well, or sizes differ"
                  : "; sizes were not compared"))
          .str();
}

/// What a model calls may depend on whether it is exported.
void EagerJoins::setOtherJoin(uint32_t op, LaunchId launch,
                              const LaunchIndex &index) {
  setJoin(op, launch, index, /*sure=*/false, /*bySizes=*/true);
  joins[op].explanation = "host operator " + host.op(op).name.str() +
                          " takes the tensors of node " +
                          nodeOf(index.at(launch)).str() + " of " +
                          index.getMaps()[launch.map].graph +
                          ", between the same neighbours; their names differ";
}

/// What adds to the gradient of a parameter follows the function that made the
/// gradient: of those that ran last, the newest whose node takes a tensor of
/// these sizes.
static Join joinAccumulation(StringRef dims, ArrayRef<uint32_t> recent,
                             ArrayRef<Join> found, const LaunchIndex &index) {
  std::vector<InputShape> gradient = readInputShapes(dims);
  if (gradient.size() != 1 || gradient.front().isList)
    return Join();
  std::optional<Sizes> sizes = gradient.front().tensors.front();
  for (uint32_t function : llvm::reverse(recent)) {
    const launch::Launch &launch = index.at(found[function].launch);
    if (!llvm::is_contained(launch.argumentSizes, sizes))
      continue;
    Join join = found[function];
    join.confidence = std::max(join.confidence, Confidence::Medium);
    join.explanation = "adds to the gradient of an argument of these sizes: " +
                       join.explanation;
    return join;
  }
  return Join();
}

/// What autograd's engine does with the gradients that a function gave: it sums
/// those of an argument that was broadcast, a bias for example, and adds those
/// of a value that several functions take.
static Join joinFollowing(StringRef op, const Join &function) {
  Join join = function;
  StringRef why = "brings the gradient to its argument's type and sizes: ";
  if (op == "aten::add" || op == "aten::add_") {
    join.confidence = std::max(join.confidence, Confidence::Medium);
    why = "adds the gradient to another one of the same value: ";
  }
  join.explanation = (why + function.explanation).str();
  return join;
}

/// A function of autograd's has the number that the forward operator drew which
/// recorded it. Operators that record nothing show the number that the next one
/// draws: the last that shows it has drawn it.
void EagerJoins::joinBackward(const Trace &trace, const LaunchIndex &index) {
  // Each process counts for itself.
  std::map<std::pair<ProcessId, int64_t>, std::vector<uint32_t>> drawn;
  for (ThreadId thread = 0; thread < trace.threads.size(); ++thread)
    for (uint32_t op : host.opsOf(thread))
      if (const HostOp &hostOp = host.op(op);
          hostOp.sequenceNumber && !hostOp.backward && !hostOp.annotation)
        drawn[{trace.threads[thread], *hostOp.sequenceNumber}].push_back(op);
  std::vector<Join> found(joins.size());
  for (ThreadId thread = 0; thread < trace.threads.size(); ++thread) {
    // The functions that ran last, the newest at the end.
    SmallVector<uint32_t> recent;
    // The last one, and the engine's run of it.
    uint32_t function = kNone, run = kNone;
    for (uint32_t op : host.opsOf(thread)) {
      const HostOp &hostOp = host.op(op);
      // Ranges that the program marks say nothing.
      uint32_t parent = host.parent(op);
      while (parent != kNone && host.op(parent).annotation)
        parent = host.parent(parent);
      if (run != kNone && parent == run && !hostOp.backward)
        found[op] = joinFollowing(hostOp.name, found[function]);
      if (hostOp.name == "torch::autograd::AccumulateGrad")
        found[op] =
            joinAccumulation(host.inputsOf(op).dims, recent, found, index);
      if (!hostOp.backward || !hostOp.sequenceNumber)
        continue;
      auto it = drawn.find({trace.threads[thread], *hostOp.sequenceNumber});
      if (it == drawn.end())
        continue;
      uint32_t last = kNone;
      bool severalThreads = false;
      for (uint32_t forward : it->second) {
        if (host.op(forward).startNs >= hostOp.startNs)
          continue;
        severalThreads |=
            last != kNone && host.op(forward).thread != host.op(last).thread;
        if (last == kNone || host.op(forward).startNs >= host.op(last).startNs)
          last = forward;
      }
      uint32_t forward = last;
      if (last != kNone && !severalThreads)
        recordedBy[op] = last;
      while (forward != kNone && !joins[forward].launch.valid())
        forward = host.parent(forward);
      // Each thread counts for itself.
      if (forward == kNone || severalThreads)
        continue;
      found[op] = joins[forward];
      found[op].method = "sequence_number";
      found[op].explanation =
          ("backward of " + host.op(forward).name + ", by autograd's number " +
           Twine(*hostOp.sequenceNumber) + "; " + joins[forward].explanation)
              .str();
      if (recent.size() == kMostRecent)
        recent.erase(recent.begin());
      recent.push_back(op);
      function = op;
      run = parent != kNone && isFunction(host.op(parent)) ? parent : kNone;
    }
  }
  for (auto [join, backward] : llvm::zip_equal(joins, found))
    if (backward.launch.valid())
      join = std::move(backward);
}

const Join &EagerJoins::of(uint32_t op) const {
  static const Join none;
  if (!anyJoined || op == kNone || joinedBy[op] == kNone)
    return none;
  return joins[joinedBy[op]];
}

const Join &EagerJoins::within(uint32_t op) const {
  const Join &own = of(op);
  if (own.launch.valid() || !anyJoined || joinedInside[op] == kNone)
    return own;
  return joins[joinedInside[op]];
}

StringRef EagerJoins::recorderOf(uint32_t op) const {
  for (; op != kNone; op = host.parent(op)) {
    if (auto it = recordedBy.find(op); it != recordedBy.end())
      return host.op(it->second).name;
    if (isFunction(host.op(op)))
      break;
  }
  return "";
}

uint32_t EagerJoins::joinedOp(uint32_t op) const {
  return anyJoined && op != kNone ? joinedBy[op] : kNone;
}
