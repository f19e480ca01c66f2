// Finding repeats: the nodes as a sequence of content numbers, its repeats by
// suffix array, their borders by the values that cross them, and confirmation
// by dataflow. docs/dedup.md says why.

#include "opprof/Analysis/Structure/RepeatedSubgraphs.h"

#include "opprof/Analysis/Structure/PatternConditions.h"

#include "NodeSequence.h"
#include "SuffixArray.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallSet.h"

#include <map>
#include <queue>

using namespace mlir;
using namespace opprof;
using namespace opprof::fx;

namespace {

/// A stretch of the text that appears more than once.
struct Candidate {
  /// Twice the nodes saved, less one for every value that a call passes on:
  /// borders that few values cross are worth a node or two. Not more, as what a
  /// layer saves for its backward half crosses every border there is.
  int64_t gain;
  int place;
  int length;
  /// Where the stretch appears, as a range of the suffix array.
  int firstRank, lastRank;

  /// How many values, weights apart, come in and go out.
  int numCrossing;

  int64_t getGain(size_t numPlaces) const {
    return 2 * (int64_t(numPlaces) - 1) * length -
           int64_t(numPlaces) * numCrossing;
  }

  /// What gains more comes first, then what stands first.
  bool operator<(const Candidate &other) const {
    return std::tie(gain, other.place, other.length) <
           std::tie(other.gain, place, length);
  }
};

/// Appearances of a candidate that are confirmed to be the same.
struct Group {
  AppearanceShape shape;
  /// The place of each in the text.
  SmallVector<std::pair<int, Partition>, 0> members;
  /// True where the first member is the whole of a class.
  bool isWhole = false;
};

class RepeatFinder {
public:
  RepeatFinder(NodeSequence sequence, const RepeatOptions &options,
               StructuralHash &hash)
      : options(options), hash(hash), sequence(std::move(sequence)) {}

  std::vector<PartitionClass> run();
  SearchedNodes getSearched() const {
    return {sequence.numNodes, sequence.hasBlocks};
  }

private:
  bool buildText(int &alphabet);
  void findInText(int alphabet);
  void collectCandidates();
  void addCandidate(int place, int length, bool isPeriodic = false);
  void addPeriodic(int first, int end, int period);
  int countCrossing(int place, int length);
  int countCrossingAt(int position, int length);
  int chooseStart(int first, int end, int period,
                  llvm::function_ref<bool(int)> isAllowed);
  std::vector<int> getFreePlaces(const Candidate &candidate) const;
  bool areEnough(ArrayRef<int> places, int length) const;
  bool isPartOfGreater(int place, int other, int length,
                       std::pair<int, int> around);
  void leaveParts(const Candidate &candidate, std::vector<int> &places);
  std::vector<Group> confirm(const Candidate &candidate, ArrayRef<int> places,
                             std::vector<int> &left);
  bool isSame(const Group &group, int place, int length,
              const AppearanceShape &shape, Partition &partition) const;
  int64_t getGain(const Candidate &candidate, ArrayRef<Group> groups) const;
  bool isClass(const Group &group) const;
  void accept(const Candidate &candidate, MutableArrayRef<Group> groups);
  void splitCandidate(const Candidate &candidate, int first, int second);
  int findCut(int first, int second, int length) const;
  void markRepeats(int place, int length);
  void markAlike(int place, int length);
  void markRepeat(int first, int second, int length);
  bool isAcross(int position, int length) const;
  bool isUnit(std::pair<int, int> repeat);
  int findCutBefore(int from, int to, bool isLast = false) const;
  std::pair<int, int> trim(int place, int length);
  bool composeOnce();
  void takeApart(const Group &group, int length);
  void findWholeGraphs();
  bool isWhole(int place, int length) const;

  const RepeatOptions &options;
  StructuralHash &hash;
  NodeSequence sequence;

  /// What is searched: the contents of the sequence, or of what is left of it.
  std::vector<int> text;
  /// The position in the sequence of each place of a text that holds what is
  /// left only, -1 for borders; empty for a text that is the sequence.
  std::vector<int> positions;
  /// Where classes stand in the text that may only be taken whole: the places
  /// from here on.
  int firstClosed = 0;
  std::unique_ptr<SuffixArray> suffixes;
  std::priority_queue<Candidate> candidates;
  llvm::DenseSet<std::pair<uint64_t, int>> seen;
  llvm::DenseSet<std::pair<int, int>> marked;
  /// What listing occurrences and comparing them may still cost: bounds the
  /// work on sequences that hold very many repeats of very many lengths.
  int64_t budget = 0;
  /// The same for finding what no border should cut.
  int64_t markBudget = 0;
  /// The same for finding what is a part of something greater.
  int64_t partBudget = 0;
  /// An accepted partition: where it ends, and the index of its class.
  struct Taken {
    int end, index;
  };
  /// By where they begin, in positions.
  std::map<int, Taken> taken;
  /// For each position the shortest repeat, confirmed between two places, that
  /// begins before it and ends behind it; empty where nothing asks for it.
  std::vector<std::pair<int, int>> across;
  std::vector<PartitionClass> classes;
  /// What is the whole of a class: the first partition of every class, and
  /// graphs that are classes already.
  struct Whole {
    /// The index of the class; -1 for a graph of which there is none here yet.
    int index = -1;
    GraphOp graph;
  };
  /// By position and length: a class may begin where another one does.
  llvm::DenseMap<std::pair<int, int>, Whole> wholes;
  /// For each class the position of its first partition, and its length.
  std::vector<std::pair<int, int>> firstPartitions;
  /// For each class where its partitions begin, in positions.
  std::vector<std::vector<int>> placesOfClasses;

  int toPosition(int place) const {
    return positions.empty() ? place : positions[place];
  }

  // Scratch space, one entry a position.
  std::vector<int> lastSeen, marks;
  int lastMark = 0;
};

} // namespace

//===----------------------------------------------------------------------===//
// The text
//===----------------------------------------------------------------------===//

/// Makes the text of what no partition holds yet, and behind it of each class
/// found so far; false where that is nothing.
bool RepeatFinder::buildText(int &alphabet) {
  int size = sequence.size();
  candidates = {};
  seen.clear();
  marked.clear();
  if (taken.empty()) {
    text = sequence.contents;
    firstClosed = sequence.firstClosed;
    alphabet = sequence.numContents;
    return size > 1;
  }
  text.clear();
  positions.clear();
  alphabet = sequence.numContents;
  auto append = [&](int begin, int end) {
    for (int position = begin; position != end; ++position) {
      text.push_back(sequence.contents[position]);
      positions.push_back(position);
    }
    text.push_back(alphabet++);
    positions.push_back(-1);
  };
  int begin = 0;
  auto appendFree = [&](int end) {
    if (end - begin >= static_cast<int>(options.minNodes))
      append(begin, end);
  };
  for (auto [first, partition] : taken) {
    if (first >= sequence.firstClosed)
      break;
    appendFree(first);
    begin = partition.end;
  }
  appendFree(sequence.firstClosed);
  firstClosed = text.size();
  if (text.empty())
    return false;
  for (std::pair<int, int> first : firstPartitions)
    if (wholes.contains(first))
      append(first.first, first.first + first.second);
  // Classes that nothing here belongs to yet.
  for (const NodeSequence::Body &body : sequence.bodies) {
    auto whole = wholes.find({body.begin, body.end - body.begin});
    if (body.begin >= sequence.firstClosed && whole != wholes.end() &&
        whole->second.index < 0)
      append(body.begin, body.end);
  }
  return true;
}

/// The smallest period of [first, end), which divides `period`.
static int findPeriod(ArrayRef<int> text, int first, int end, int period) {
  auto hasPeriod = [&](int candidate) {
    for (int i = first; i + candidate < end; ++i)
      if (text[i] != text[i + candidate])
        return false;
    return true;
  };
  // Divided by one prime factor after the other, as often as it stays a period.
  int rest = period;
  for (int factor = 2; factor <= rest; ++factor) {
    if (factor > rest / factor)
      factor = rest;
    while (rest % factor == 0) {
      rest /= factor;
      if (hasPeriod(period / factor))
        period /= factor;
    }
  }
  return period;
}

/// True for a cast that does nothing.
static bool isIdleCast(Operation *op) {
  auto node = dyn_cast<NodeOp>(op);
  return node && node.getNumOperands() == 1 &&
         (node.getTarget().starts_with("aten.to.") ||
          node.getTarget() == "aten._to_copy.default") &&
         isa<TensorType>(node.getType()) &&
         node.getType() == node.getOperand(0).getType();
}

/// True for what begins a layer and computes nothing: a cast that does nothing,
/// and what an exporter asserts of the value that it casts.
static bool isIdle(Operation *op) { return isIdleCast(op) || onlyAsserts(op); }

/// Where in its first period to cut a stretch of positions that repeats with
/// `period`, among the starts that are allowed: where the fewest values come in
/// and go out, and among such places not between a value and the one node that
/// takes it, nor behind a cast that does nothing, whose result is that value.
int RepeatFinder::chooseStart(int first, int end, int period,
                              llvm::function_ref<bool(int)> isAllowed) {
  // A few periods show what all of them do.
  constexpr int64_t kMaxPeriods = 16;
  end = std::min<int64_t>(end, first + kMaxPeriods * period);
  // A cut before node b separates the two nodes of (a, u] where a < b <= u; so
  // each link counts for the starts whose cuts fall into an interval. Of each
  // start the same number of cuts is looked at, none of them at the ends, where
  // what the stretch takes and gives is no matter of the start.
  int numCuts = (end - first) / period - 1;
  int firstCut = first + period, lastCut = firstCut + numCuts * period - 1;
  std::vector<int64_t> change(period + 1), useChange(period + 1);
  auto addLink = [&](std::vector<int64_t> &change, int from, int to) {
    int low = std::max(from + 1, firstCut), high = std::min(to, lastCut);
    if (to - from >= period || low > high)
      return;
    low = (low - first) % period;
    high = (high - first) % period;
    if (low <= high) {
      ++change[low];
      --change[high + 1];
    } else {
      ++change[low];
      --change[period];
      ++change[0];
      --change[high + 1];
    }
  };
  for (int i = first; i < end; ++i)
    lastSeen[i] = i;
  for (int i = first; i < end; ++i)
    for (int o = sequence.operandStart[i]; o < sequence.operandStart[i + 1];
         ++o) {
      int definition = sequence.operands[o];
      if (definition < first)
        continue;
      // One input of every partition that uses the value.
      if (lastSeen[definition] != i) {
        addLink(change, lastSeen[definition], i);
        int value = definition;
        while (isIdleCast(sequence.nodes[value]) &&
               sequence.operands[sequence.operandStart[value]] >= first)
          value = sequence.operands[sequence.operandStart[value]];
        addLink(useChange, value, i);
      }
      lastSeen[definition] = i;
    }
  for (int i = first; i < end; ++i) {
    int last = sequence.lastUse[i];
    if (last > i)
      addLink(change, i, std::min(last, i + period));
  }
  int best = -1;
  int64_t links = 0, uses = 0;
  std::tuple<int64_t, bool, bool> bestCost;
  for (int start = 0; start < period; ++start) {
    links += change[start];
    uses += useChange[start];
    if (!isAllowed(first + start))
      continue;
    int before = first + (start + period - 1) % period;
    std::tuple<int64_t, bool, bool> cost(links, uses <= numCuts,
                                         isIdle(sequence.nodes[before]));
    if (best < 0 || cost < bestCost) {
      best = first + start;
      bestCost = cost;
    }
  }
  return best;
}

int RepeatFinder::countCrossing(int place, int length) {
  return countCrossingAt(toPosition(place), length);
}

int RepeatFinder::countCrossingAt(int place, int length) {
  int count = 0, end = place + length;
  ++lastMark;
  for (int i = place; i < end; ++i) {
    count += sequence.lastUse[i] >= end;
    for (int o = sequence.operandStart[i]; o < sequence.operandStart[i + 1];
         ++o) {
      int definition = sequence.operands[o];
      if (definition < 0 || definition >= place ||
          marks[definition] == lastMark)
        continue;
      marks[definition] = lastMark;
      ++count;
    }
  }
  return count;
}

void RepeatFinder::addCandidate(int place, int length, bool isPeriodic) {
  if (length < static_cast<int>(options.minNodes) || budget < 0)
    return;
  if (!across.empty() && !isPeriodic)
    std::tie(place, length) = trim(place, length);
  if (length < static_cast<int>(options.minNodes))
    return;
  auto [firstRank, lastRank] = suffixes->findOccurrences(place, length);
  budget -= lastRank - firstRank;
  uint64_t key = (uint64_t(firstRank) << 32) | unsigned(lastRank);
  if (!seen.insert({key, length}).second)
    return;
  budget -= length;
  Candidate candidate{0,         place,    length,
                      firstRank, lastRank, countCrossing(place, length)};
  std::vector<int> places = getFreePlaces(candidate);
  if (!areEnough(places, length))
    return;
  candidate.gain = candidate.getGain(places.size());
  candidates.push(candidate);
}

void RepeatFinder::addPeriodic(int first, int end, int period) {
  period = findPeriod(text, first, end, period);
  int rest = (end - first) % period;
  // A stretch holds no border, so its positions follow each other.
  int position = toPosition(first), shift = first - position;
  auto addBest = [&](int numStarts) {
    int start =
        numStarts == 1
            ? position
            : chooseStart(position, end - shift, period, [&](int start) {
                return start < position + numStarts;
              });
    addCandidate(start + shift, period, /*isPeriodic=*/true);
  };
  addBest(rest + 1);
  // Once less, with better borders: what stands at the ends may be wired in
  // another way.
  if (rest + 1 < period && end - first >= 3 * period)
    addBest(period);
  // A stretch shorter than the period appears once more: A b A b A.
  if (rest >= static_cast<int>(options.minNodes))
    addCandidate(first, rest);
}

/// Walks the text from longest earlier match to longest earlier match. All of a
/// repeat's appearances but the first begin inside such a match.
void RepeatFinder::collectCandidates() {
  EarlierMatches earlier(*suffixes);
  int size = text.size();
  // Smaller repeats say where not to cut greater ones.
  struct Match {
    int begin, end, source;
  };
  std::vector<Match> matches;
  for (int place = 0; place < size;) {
    int length = earlier.length[place], source = earlier.source[place];
    if (length == 0) {
      ++place;
      continue;
    }
    int end = place + length;
    int begin = place;
    while (source > 0 && text[source - 1] == text[begin - 1]) {
      --source;
      --begin;
    }
    matches.push_back({begin, end, source});
    if (!across.empty() && end - begin < begin - source)
      markRepeats(begin, end - begin);
    place = end;
  }
  for (auto [begin, end, source] : matches) {
    int distance = begin - source;
    if (end - begin >= distance)
      addPeriodic(source, end, distance);
    else
      addCandidate(begin, end - begin);
  }
}

/// True where the nodes from `place` on are the whole of a class.
bool RepeatFinder::isWhole(int place, int length) const {
  return wholes.contains({toPosition(place), length});
}

/// The places of a candidate where nothing else lies, from left to right,
/// without overlap, and a class that it is the whole of.
std::vector<int> RepeatFinder::getFreePlaces(const Candidate &candidate) const {
  std::vector<int> places(suffixes->suffixes.begin() + candidate.firstRank,
                          suffixes->suffixes.begin() + candidate.lastRank);
  llvm::sort(places);
  std::vector<int> result;
  int end = 0;
  for (int place : places) {
    if (place >= firstClosed) {
      if (isWhole(place, candidate.length))
        result.push_back(place);
      continue;
    }
    if (place < end)
      continue;
    int position = toPosition(place);
    auto after = taken.lower_bound(position + candidate.length);
    if (after != taken.begin() && std::prev(after)->second.end > position)
      continue;
    result.push_back(place);
    end = place + candidate.length;
  }
  return result;
}

/// True where what repeats from `place` and, inside a partition that reaches
/// over the positions `around`, from `other` goes on before or behind: the next
/// level finds the whole of it.
bool RepeatFinder::isPartOfGreater(int place, int other, int length,
                                   std::pair<int, int> around) {
  // As far as no partition stands, and as the partition reaches.
  int position = toPosition(place), otherPosition = toPosition(other);
  auto after = taken.upper_bound(position);
  int first = after == taken.begin() ? 0 : std::prev(after)->second.end;
  int last = after == taken.end() ? sequence.size() : after->first;
  auto [otherFirst, otherLast] = around;
  int before = 0, behind = 0;
  while (position - before > first && otherPosition - before > otherFirst &&
         text[place - before - 1] == text[other - before - 1])
    ++before;
  while (position + length + behind < last &&
         otherPosition + length + behind < otherLast &&
         text[place + length + behind] == text[other + length + behind])
    ++behind;
  auto isAlike = [&](int before, int behind) {
    int size = before + length + behind;
    partBudget -= size;
    return size > length && findCut(position - before, otherPosition - before,
                                    size) > before + length - (behind == 0);
  };
  return isAlike(before, behind) || (before != 0 && isAlike(0, behind)) ||
         (behind != 0 && isAlike(before, 0));
}

/// Drops the places that are parts of something greater that an accepted
/// partition holds too. Taken now, they would hide it from the next level.
void RepeatFinder::leaveParts(const Candidate &candidate,
                              std::vector<int> &places) {
  // What stands around a place is the same in each partition of a class: a few
  // that stand between different nodes show all.
  constexpr size_t kMaxPlaces = 16;
  llvm::SmallSet<std::tuple<int, int, int>, kMaxPlaces> seen;
  SmallVector<std::pair<int, std::pair<int, int>>, kMaxPlaces> inside;
  int size = text.size();
  for (int rank = candidate.firstRank;
       rank < candidate.lastRank && inside.size() < kMaxPlaces; ++rank) {
    int place = suffixes->suffixes[rank], end = place + candidate.length;
    int index = -1;
    // A border ends what is closed.
    std::pair<int, int> around(0, sequence.size());
    if (place < firstClosed) {
      int position = toPosition(place);
      auto after = taken.upper_bound(position);
      if (after == taken.begin() ||
          std::prev(after)->second.end < position + candidate.length)
        continue;
      index = std::prev(after)->second.index;
      around = {std::prev(after)->first, std::prev(after)->second.end};
    } else if (isWhole(place, candidate.length)) {
      continue;
    }
    int before = place ? text[place - 1] : -1;
    if (seen.insert({index, before, end < size ? text[end] : -1}).second)
      inside.push_back({place, around});
  }
  llvm::erase_if(places, [&](int place) {
    return place < firstClosed &&
           llvm::any_of(
               inside,
               [&](auto &other) {
                 return partBudget > 0 &&
                        isPartOfGreater(place, other.first, candidate.length,
                                        other.second);
               });
  });
}

/// True where places may make a class, or belong to one.
bool RepeatFinder::areEnough(ArrayRef<int> places, int length) const {
  if (places.size() >= options.minRepeats)
    return true;
  return places.size() > 1 && llvm::any_of(places, [&](int place) {
           return isWhole(place, length);
         });
}

//===----------------------------------------------------------------------===//
// Confirmation
//===----------------------------------------------------------------------===//

/// True where two nodes are the same without a look at what they name or hold:
/// the usual case, as content is interned.
static bool haveSameContent(NodeOp first, NodeOp second) {
  return first.getBlocks().empty() && second.getBlocks().empty() &&
         first.getTargetAttr() == second.getTargetAttr() &&
         first.getArgsAttr() == second.getArgsAttr() &&
         first.getKwargNamesAttr() == second.getKwargNamesAttr() &&
         (first.getKindAttr() == second.getKindAttr() ||
          first.getKind() == second.getKind()) &&
         first.getResult().getType() == second.getResult().getType();
}

static Subgraph toSubgraph(const NodeSequence &sequence, int place, int length,
                           const AppearanceShape &shape) {
  Subgraph subgraph;
  for (int i = place; i < place + length; ++i)
    subgraph.nodes.push_back(sequence.nodes[i]);
  llvm::append_range(subgraph.inputs, shape.inputs);
  for (auto [node, result] : shape.outputs)
    subgraph.outputs.push_back(subgraph.nodes[node]->getResult(result));
  return subgraph;
}

/// True where the nodes from `place` on belong to the group; `partition` is
/// told how they differ from its first.
bool RepeatFinder::isSame(const Group &group, int place, int length,
                          const AppearanceShape &shape,
                          Partition &partition) const {
  int first = toPosition(group.members.front().first);
  place = toPosition(place);
  if (group.shape.edges != shape.edges || group.shape.outputs != shape.outputs)
    return false;
  bool areInterned = true;
  for (auto [value, other] : llvm::zip(group.shape.inputs, shape.inputs))
    areInterned &= value.getType() == other.getType();
  for (int i = 0; areInterned && i < length; ++i)
    areInterned = haveSameContent(cast<NodeOp>(sequence.nodes[first + i]),
                                  cast<NodeOp>(sequence.nodes[place + i]));
  partition.renaming = {};
  partition.isIdentical = areInterned;
  EquivalenceOptions equivalence = options.equivalence;
  equivalence.ignoreOrder = false;
  return areInterned ||
         areEquivalent(toSubgraph(sequence, first, length, group.shape),
                       toSubgraph(sequence, place, length, shape), equivalence,
                       &partition.renaming);
}

/// Groups the places that are the same; `left` becomes those that are in no
/// class.
std::vector<Group> RepeatFinder::confirm(const Candidate &candidate,
                                         ArrayRef<int> places,
                                         std::vector<int> &left) {
  int length = candidate.length;
  std::vector<Group> groups;
  // Bounds the comparisons where places of equal content are wired in very
  // many ways.
  constexpr size_t kMaxGroups = 64;
  auto add = [&](int place) {
    bool whole = isWhole(place, length);
    AppearanceShape shape = getShape(sequence, toPosition(place), length);
    Partition partition;
    for (Group &group : groups) {
      // Two classes are different, or the second would not have been made.
      if (whole && group.isWhole)
        continue;
      if (!isSame(group, place, length, shape, partition))
        continue;
      partition.inputs = std::move(shape.inputs);
      group.members.emplace_back(place, std::move(partition));
      return;
    }
    partition.renaming = {};
    partition.isIdentical = true;
    if (groups.size() == kMaxGroups) {
      left.push_back(place);
      return;
    }
    partition.inputs = shape.inputs;
    Group &group = groups.emplace_back();
    group.members.emplace_back(place, std::move(partition));
    group.shape = std::move(shape);
    group.isWhole = whole;
  };
  // The first of a group is what the others are renamed from.
  for (int place : places)
    if (isWhole(place, length))
      add(place);
  for (int place : places)
    if (!isWhole(place, length))
      add(place);
  // The whole of a class may be left as well: its parts may lie in a class.
  for (Group &group : groups)
    if (!isClass(group))
      for (auto &[place, partition] : group.members)
        if (place < firstClosed)
          left.push_back(place);
  llvm::sort(left);
  llvm::erase_if(groups, [&](const Group &group) { return !isClass(group); });
  return groups;
}

bool RepeatFinder::isClass(const Group &group) const {
  return group.members.size() >= (group.isWhole ? 2 : options.minRepeats);
}

int64_t RepeatFinder::getGain(const Candidate &candidate,
                              ArrayRef<Group> groups) const {
  int64_t gain = 0;
  for (const Group &group : groups)
    gain += candidate.getGain(group.members.size());
  return gain;
}

/// Makes classes of the groups, or adds them to the classes that they are of.
void RepeatFinder::accept(const Candidate &candidate,
                          MutableArrayRef<Group> groups) {
  int length = candidate.length;
  for (Group &group : groups) {
    int first = toPosition(group.members.front().first);
    Whole &whole = wholes[{first, length}];
    bool isNew = whole.index < 0;
    if (isNew) {
      whole.index = classes.size();
      PartitionClass &added = classes.emplace_back();
      firstPartitions.emplace_back(first, length);
      placesOfClasses.emplace_back();
      added.graph = whole.graph;
      added.hash =
          hash.hashSubgraph(toSubgraph(sequence, first, length, group.shape));
      added.outputs = std::move(group.shape.outputs);
      added.partitions.reserve(group.members.size());
    }
    PartitionClass &repeated = classes[whole.index];
    for (auto &[place, partition] :
         MutableArrayRef(group.members).drop_front(isNew ? 0 : 1)) {
      int position = toPosition(place);
      partition.isSideBySide =
          !sequence.hasSkipped && !options.equivalence.ignoreOrder;
      partition.nodes.assign(sequence.nodes.begin() + position,
                             sequence.nodes.begin() + position + length);
      taken.insert({position, {position + length, whole.index}});
      placesOfClasses[whole.index].push_back(position);
      repeated.partitions.push_back(std::move(partition));
    }
  }
}

/// The part of two places of equal content up to and with the node that makes
/// them differ, or `length` where none does.
int RepeatFinder::findCut(int first, int second, int length) const {
  AppearanceShape shape = getShape(sequence, first, length);
  AppearanceShape other = getShape(sequence, second, length);
  // Behind it, what the node takes comes from outside in both.
  int cut = length;
  size_t edge = 0;
  for (int i = 0; i < cut; ++i) {
    int numOperands =
        sequence.operandStart[first + i + 1] - sequence.operandStart[first + i];
    for (int operand = 0; operand < numOperands; ++operand, ++edge)
      if (edge >= other.edges.size() || shape.edges[edge] != other.edges[edge])
        cut = std::min(cut, i);
  }
  // What one of the two gives to the outside ends the part before.
  auto differs = llvm::mismatch(shape.outputs, other.outputs);
  for (auto [output, outputs] :
       {std::pair(differs.first, &shape), std::pair(differs.second, &other)})
    if (output != outputs->outputs.end())
      cut = std::min(cut, static_cast<int>(output->first) + 1);
  return cut;
}

/// Tries again with the parts before and behind the node that makes two places
/// differ.
void RepeatFinder::splitCandidate(const Candidate &candidate, int first,
                                  int second) {
  int length = candidate.length;
  budget -= length;
  if (budget < 0)
    return;
  int cut = findCut(toPosition(first), toPosition(second), length);
  // What the last node gives may be taken behind one place and by nobody behind
  // the other, as what the last layer of a stack computes for the next one.
  auto hasTaker = [&](int place) {
    int last = toPosition(place) + length - 1;
    return sequence.lastUse[last] > last;
  };
  if (cut == length && hasTaker(first) != hasTaker(second))
    --cut;
  if (cut == 0 || cut == length)
    return;
  addCandidate(first, cut);
  addCandidate(first + cut, length - cut);
}

//===----------------------------------------------------------------------===//
// Repeats inside repeats
//===----------------------------------------------------------------------===//

/// Keeps in mind where the content of a stretch stands wired like it.
void RepeatFinder::markAlike(int place, int length) {
  auto [first, last] = suffixes->findOccurrences(place, length);
  if (!marked.insert({first, length}).second)
    return;
  int position = toPosition(place);
  for (int rank = first; rank < last && markBudget > 0; ++rank) {
    int other = toPosition(suffixes->suffixes[rank]);
    markBudget -= length;
    if (other != position && findCut(position, other, length) != length)
      continue;
    for (int i = other + 1; i < other + length; ++i)
      if (auto &[low, high] = across[i]; high == 0 || length < high - low)
        across[i] = {other, other + length};
  }
}

/// Keeps in mind that two places repeat, as far as they are wired alike.
void RepeatFinder::markRepeat(int first, int second, int length) {
  while (length >= static_cast<int>(options.minNodes) && markBudget > 0) {
    markBudget -= length;
    int cut = findCut(toPosition(first), toPosition(second), length);
    if (cut >= static_cast<int>(options.minNodes))
      markAlike(second, cut);
    cut = std::max(cut, 1);
    first += cut;
    second += cut;
    length -= cut;
  }
}

/// Keeps in mind with which of the places of equal content a stretch repeats.
void RepeatFinder::markRepeats(int place, int length) {
  // Of the first and the last of very many, as some are wired in another way.
  constexpr int kMaxPlaces = 8;
  auto [first, last] = suffixes->findOccurrences(place, length);
  for (int rank = first; rank < last; ++rank) {
    if (rank - first >= kMaxPlaces && last - rank > kMaxPlaces)
      rank = last - kMaxPlaces;
    if (int other = suffixes->suffixes[rank]; other != place)
      markRepeat(other, place, length);
  }
}

/// True where a cut before `position` goes through a repeat shorter than
/// `length`.
bool RepeatFinder::isAcross(int position, int length) const {
  if (across.empty() || position >= static_cast<int>(across.size()))
    return false;
  auto [begin, end] = across[position];
  return end != 0 && end - begin < length;
}

/// True where a repeat takes one value and gives one, weights apart, as modules
/// do.
bool RepeatFinder::isUnit(std::pair<int, int> repeat) {
  return countCrossingAt(repeat.first, repeat.second - repeat.first) <= 2;
}

/// The first, or the last, of the cuts from position `from` to `to` that the
/// fewest values cross.
int RepeatFinder::findCutBefore(int from, int to, bool isLast) const {
  int best = from, crossing = 0, fewest = 0;
  for (int cut = from; cut < to; ++cut) {
    crossing += sequence.lastUse[cut] > cut;
    int first = sequence.operandStart[cut];
    ArrayRef<int> operands(sequence.operands.data() + first,
                           sequence.operandStart[cut + 1] - first);
    for (auto [i, definition] : llvm::enumerate(operands))
      crossing -= definition >= 0 && sequence.lastUse[definition] == cut &&
                  !llvm::is_contained(operands.take_front(i), definition);
    if (crossing < fewest + isLast) {
      fewest = crossing;
      best = cut + 1;
    }
  }
  return best;
}

/// A stretch without the parts at its ends that belong to a smaller repeat in
/// one of its first places, where no more values cross its borders then.
std::pair<int, int> RepeatFinder::trim(int place, int length) {
  constexpr int kMaxPlaces = 8;
  // What is left of a text is in pieces: there the greater one may be the part.
  int maxLength = positions.empty() ? length : sequence.size();
  int dropFront = 0, dropBack = 0;
  auto [first, last] = suffixes->findOccurrences(place, length);
  for (int rank = first; rank < std::min(last, first + kMaxPlaces); ++rank) {
    int begin = toPosition(suffixes->suffixes[rank]), end = begin + length;
    if (isAcross(begin, maxLength)) {
      // Where as few cross behind a smaller one as in its midst, that goes
      // first if it is like a module: what stands on the border of two layers
      // takes and gives more.
      int cut = findCutBefore(begin, std::min(across[begin].second, end),
                              isUnit(across[begin]));
      dropFront = std::max(dropFront, cut - begin);
    }
    if (isAcross(end, maxLength)) {
      int cut = findCutBefore(std::max(across[end].first, begin), end);
      dropBack = std::max(dropBack, end - cut);
    }
  }
  return {place + dropFront, length - dropFront - dropBack};
}

/// Gives up the partitions that are parts of `group`, and the classes of which
/// too few are left.
void RepeatFinder::takeApart(const Group &group, int length) {
  llvm::SmallSetVector<int, 8> indices;
  for (auto &[begin, partition] : group.members) {
    auto first = taken.lower_bound(begin);
    auto last = taken.lower_bound(begin + length);
    for (auto place = first; place != last; ++place)
      indices.insert(place->second.index);
    taken.erase(first, last);
  }
  for (int index : indices) {
    auto [position, classLength] = firstPartitions[index];
    auto whole = wholes.find({position, classLength});
    if (classes[index].graph)
      whole->second.index = -1;
    else
      wholes.erase(whole);
    classes[index] = PartitionClass();
    // Of those left, what is a part of something greater waits for that.
    std::vector<int> places;
    SmallVector<int> inside;
    int begin = group.members.front().first;
    for (int place : placesOfClasses[index])
      if (taken.erase(place))
        places.push_back(place);
      else if (place >= begin && place < begin + length)
        inside.push_back(place);
    llvm::erase_if(places, [&](int place) {
      return llvm::any_of(inside, [&](int other) {
        return partBudget > 0 && isPartOfGreater(place, other, classLength,
                                                 {begin, begin + length});
      });
    });
    if (!areEnough(places, classLength))
      continue;
    Candidate candidate{0, places.front(), classLength, 0, 0, 0};
    std::vector<int> left;
    std::vector<Group> groups = confirm(candidate, places, left);
    accept(candidate, groups);
  }
}

/// Makes classes of what holds whole partitions and other nodes around them:
/// greater repeats that gained less than their parts. Their parts are found
/// again inside the class.
bool RepeatFinder::composeOnce() {
  // The sequence with one number for each partition.
  std::vector<int> symbols, starts;
  int size = sequence.size();
  for (int position = 0; position < size;) {
    auto found = taken.find(position);
    bool isTaken = found != taken.end();
    symbols.push_back(isTaken ? sequence.numContents + found->second.index
                              : sequence.contents[position]);
    starts.push_back(position);
    position = isTaken ? found->second.end : position + 1;
  }
  starts.push_back(size);
  int numSymbols = symbols.size();
  // Places in what follows are positions.
  positions.clear();
  firstClosed = size;
  budget = 32 * int64_t(numSymbols);
  text = sequence.contents;
  partBudget = 32 * int64_t(size);

  SuffixArray array(symbols, sequence.numContents + classes.size());
  struct Stretch {
    int64_t gain;
    int first, length;
    std::vector<int> appearances;

    bool operator<(const Stretch &other) const {
      return std::tie(gain, other.first) < std::tie(other.gain, first);
    }
  };
  std::priority_queue<Stretch> stretches;
  llvm::DenseSet<std::pair<int, int>> tried;
  auto getLength = [&](int first, int length) {
    return starts[first + length] - starts[first];
  };
  auto isTaken = [&](int symbol) { return symbol >= sequence.numContents; };
  auto add = [&](int first, int length, bool isPart) {
    // A stretch begins where the fewest values cross, of the places before its
    // first partition.
    if (!isPart) {
      int begin = std::find_if(symbols.begin() + first,
                               symbols.begin() + first + length, isTaken) -
                  symbols.begin();
      int dropped = findCutBefore(starts[first], starts[begin]) - starts[first];
      first += dropped;
      length -= dropped;
      // And ends before a smaller repeat of which it holds the begin only.
      int last = first + length;
      if (int end = starts[last]; isAcross(end, size) && isUnit(across[end])) {
        while (!isTaken(symbols[last - 1]))
          --last;
        int cut = findCutBefore(std::max(starts[last], across[end].first), end);
        length -= end - cut;
      }
    }
    // A part that differs from the rest ends where no smaller repeat is cut, or
    // one that partitions cut already, or of which it holds more than is left.
    auto [firstRank, lastRank] = array.findOccurrences(first, length);
    auto cutsRepeat = [&](int place, bool isEnd) {
      int cut = starts[place];
      if (!isAcross(cut, size) || isTaken(symbols[place]) ||
          isTaken(symbols[place - 1]))
        return false;
      int before = cut - across[cut].first, behind = across[cut].second - cut;
      return isEnd ? before <= behind : behind <= before;
    };
    if (isPart &&
        llvm::any_of(
            ArrayRef(array.suffixes).slice(firstRank, lastRank - firstRank),
            [&](int place) {
              return cutsRepeat(place, /*isEnd=*/false) ||
                     cutsRepeat(place + length, /*isEnd=*/true);
            }))
      return;
    budget -= lastRank - firstRank + length;
    if (budget < 0 || !tried.insert({firstRank, length}).second)
      return;
    ArrayRef<int> inside = ArrayRef(symbols).slice(first, length);
    if (llvm::none_of(inside, isTaken) || llvm::all_of(inside, isTaken) ||
        getLength(first, length) < static_cast<int>(options.minNodes))
      return;
    std::vector<int> appearances(array.suffixes.begin() + firstRank,
                                 array.suffixes.begin() + lastRank);
    llvm::sort(appearances);
    int end = 0;
    llvm::erase_if(appearances, [&](int place) {
      if (place < end)
        return true;
      end = place + length;
      return false;
    });
    if (appearances.size() < options.minRepeats)
      return;
    Candidate candidate{0, starts[first], getLength(first, length), 0, 0, 0};
    candidate.numCrossing = countCrossing(candidate.place, candidate.length);
    int64_t gain = candidate.getGain(appearances.size());
    if (gain > 0)
      stretches.push({gain, first, length, std::move(appearances)});
  };
  EarlierMatches earlier(array);
  for (int place = 0; place < numSymbols;) {
    int length = earlier.length[place], source = earlier.source[place];
    if (length == 0) {
      ++place;
      continue;
    }
    int begin = place, end = place + length;
    while (source > 0 && symbols[source - 1] == symbols[begin - 1]) {
      --source;
      --begin;
    }
    if (end - begin >= begin - source) {
      int period = findPeriod(symbols, source, end, begin - source);
      int rest = (end - source) % period, best = source;
      if (rest != 0) {
        int start =
            chooseStart(starts[source], starts[end], getLength(source, period),
                        [&](int start) {
                          return start <= starts[source + rest] &&
                                 std::binary_search(
                                     starts.begin() + source,
                                     starts.begin() + source + rest + 1, start);
                        });
        best = llvm::lower_bound(starts, start) - starts.begin();
      }
      add(best, period, /*isPart=*/false);
    } else {
      add(begin, end - begin, /*isPart=*/false);
    }
    place = end;
  }

  bool isChanged = false;
  std::vector<bool> isUsed(numSymbols);
  // Parts of what differs are tried in turn.
  while (!stretches.empty()) {
    Stretch stretch = stretches.top();
    stretches.pop();
    std::vector<int> places;
    for (int first : stretch.appearances)
      if (std::find(isUsed.begin() + first,
                    isUsed.begin() + first + stretch.length,
                    true) == isUsed.begin() + first + stretch.length)
        places.push_back(starts[first]);
    int length = getLength(stretch.first, stretch.length);
    if (!areEnough(places, length))
      continue;
    Candidate candidate{0, places.front(), length, 0, 0, 0};
    std::vector<int> left;
    std::vector<Group> groups = confirm(candidate, places, left);
    for (Group &group : groups) {
      takeApart(group, length);
      for (auto &[place, partition] : group.members) {
        int first = llvm::lower_bound(starts, place) - starts.begin();
        std::fill_n(isUsed.begin() + first, stretch.length, true);
      }
    }
    accept(candidate, groups);
    isChanged |= !groups.empty();
    if (left.size() < options.minRepeats)
      continue;
    int cut = left.front() + findCut(left[0], left[1], length);
    int first = llvm::lower_bound(starts, left.front()) - starts.begin();
    int middle = llvm::upper_bound(starts, cut) - starts.begin() - 1;
    int last = first + stretch.length;
    if (middle > first && middle < last)
      add(first, middle - first, /*isPart=*/true);
    if (starts[middle] < cut)
      ++middle;
    if (middle > first && middle < last)
      add(middle, last - middle, /*isPart=*/true);
  }
  return isChanged;
}

//===----------------------------------------------------------------------===//
// The search
//===----------------------------------------------------------------------===//

/// Graphs that are classes already, as far as a place can be a call of them.
void RepeatFinder::findWholeGraphs() {
  for (const NodeSequence::Body &body : sequence.bodies) {
    int length = body.end - body.begin;
    if (llvm::is_contained(ArrayRef(sequence.nodes).slice(body.begin, length),
                           nullptr))
      continue;
    GraphOp graph = body.graph;
    AppearanceShape shape = getShape(sequence, body.begin, length);
    Subgraph subgraph = toSubgraph(sequence, body.begin, length, shape);
    if (llvm::equal(subgraph.inputs, graph.getArguments()) &&
        llvm::equal(subgraph.outputs, graph.getOutput().getOperands()))
      wholes[{body.begin, length}].graph = graph;
  }
}

/// Takes one candidate after the other out of the text, by what it gains.
void RepeatFinder::findInText(int alphabet) {
  suffixes = std::make_unique<SuffixArray>(text, alphabet);
  budget = 32 * int64_t(text.size());
  markBudget = partBudget = budget;
  collectCandidates();
  while (!candidates.empty()) {
    Candidate candidate = candidates.top();
    candidates.pop();
    std::vector<int> places = getFreePlaces(candidate);
    if (options.areNested)
      leaveParts(candidate, places);
    if (!areEnough(places, candidate.length))
      continue;
    auto isWorse = [&](int64_t gain) {
      return gain < candidate.gain && !candidates.empty() &&
             gain < candidates.top().gain;
    };
    auto waitWith = [&](int64_t gain) {
      candidate.gain = gain;
      candidates.push(candidate);
    };
    if (int64_t gain = candidate.getGain(places.size()); isWorse(gain)) {
      waitWith(gain);
      continue;
    }
    std::vector<int> left;
    std::vector<Group> groups = confirm(candidate, places, left);
    // Where classes are looked into, what all places have in common comes
    // first: the rest may be a repeat with what stands behind it.
    if (!across.empty() && !groups.empty() && !left.empty())
      splitCandidate(candidate, groups.front().members.front().first,
                     left.front());
    // What is confirmed may be less than what looked the same.
    if (int64_t gain = getGain(candidate, groups);
        !groups.empty() && budget > 0 && isWorse(gain)) {
      budget -= int64_t(places.size()) * candidate.length;
      waitWith(gain);
      continue;
    }
    accept(candidate, groups);
    if (left.size() >= options.minRepeats)
      splitCandidate(candidate, left[0], left[1]);
  }
}

std::vector<PartitionClass> RepeatFinder::run() {
  lastSeen.assign(sequence.size(), 0);
  marks.assign(sequence.size(), 0);
  if (options.areNested)
    across.resize(sequence.size());
  findWholeGraphs();
  // What one class takes away may leave others in pieces that were no
  // candidates: layers of another kind between those of the first.
  int alphabet = 0;
  constexpr int kMaxRounds = 16;
  for (int round = 0; round != kMaxRounds && buildText(alphabet); ++round) {
    size_t numTaken = taken.size();
    findInText(alphabet);
    if (taken.size() == numTaken)
      break;
  }
  for (int round = 0;
       options.areNested && round != kMaxRounds && !taken.empty(); ++round)
    if (!composeOnce())
      break;
  std::vector<size_t> order;
  for (size_t i = 0; i < classes.size(); ++i)
    if (!classes[i].partitions.empty())
      order.push_back(i);
  llvm::sort(order, [&](size_t first, size_t second) {
    return firstPartitions[first] < firstPartitions[second];
  });
  std::vector<PartitionClass> sorted;
  for (size_t index : order)
    sorted.push_back(std::move(classes[index]));
  return sorted;
}

std::vector<PartitionClass> opprof::fx::findRepeatedSubgraphs(
    ArrayRef<GraphOp> graphs, const RepeatOptions &options,
    StructuralHash &hash, SearchedNodes *searched) {
  RepeatFinder finder(
      NodeSequence(graphs, options.equivalence.ignoreOrder, hash), options,
      hash);
  std::vector<PartitionClass> classes = finder.run();
  if (searched)
    *searched = finder.getSearched();
  return classes;
}

std::vector<PartitionClass> opprof::fx::findRepeatedSubgraphs(
    ArrayRef<Block *> blocks, ArrayRef<GraphOp> classes,
    const RepeatOptions &options, StructuralHash &hash) {
  assert(!options.areNested && !options.equivalence.ignoreOrder &&
         "blocks of nodes are searched as they stand");
  return RepeatFinder(NodeSequence(blocks, classes, hash), options, hash).run();
}
