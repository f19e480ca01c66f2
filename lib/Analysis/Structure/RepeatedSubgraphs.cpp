// Finding repeats: the nodes as a sequence of content numbers, its repeats by
// suffix array, their borders by the values that cross them, and confirmation
// by dataflow. docs/dedup.md says why.

#include "opprof/Analysis/Structure/RepeatedSubgraphs.h"

#include "NodeSequence.h"
#include "SuffixArray.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

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
  RepeatFinder(ArrayRef<GraphOp> graphs, const RepeatOptions &options,
               StructuralHash &hash)
      : options(options), hash(hash),
        sequence(graphs, options.equivalence.ignoreOrder, hash) {}

  std::vector<PartitionClass> run();
  unsigned getNumNodes() const { return sequence.numNodes; }

private:
  bool buildText(int &alphabet);
  void findInText(int alphabet);
  void collectCandidates();
  void addCandidate(int place, int length);
  void addPeriodic(int first, int end, int period);
  int countCrossing(int place, int length);
  int findPeriod(int first, int end, int period) const;
  int chooseStart(int first, int end, int period, int numStarts);
  std::vector<int> getFreePlaces(const Candidate &candidate) const;
  bool areEnough(ArrayRef<int> places, int length) const;
  std::vector<Group> confirm(const Candidate &candidate, ArrayRef<int> places,
                             std::vector<int> &left);
  bool isSame(const Group &group, int place, int length,
              const AppearanceShape &shape, Renaming &renaming) const;
  int64_t getGain(const Candidate &candidate, ArrayRef<Group> groups) const;
  bool isClass(const Group &group) const;
  void accept(const Candidate &candidate, MutableArrayRef<Group> groups);
  void splitCandidate(const Candidate &candidate, ArrayRef<int> places);
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
  /// What listing occurrences and comparing them may still cost: bounds the
  /// work on sequences that hold very many repeats of very many lengths.
  int64_t budget = 0;
  /// Where accepted partitions begin and end, in positions.
  std::map<int, int> taken;
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
  if (taken.empty()) {
    text = sequence.contents;
    firstClosed = size;
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
  for (auto [first, end] : taken) {
    appendFree(first);
    begin = end;
  }
  appendFree(size);
  firstClosed = text.size();
  if (text.empty())
    return false;
  for (auto [first, length] : firstPartitions)
    append(first, first + length);
  return true;
}

/// The smallest period of [first, end), which divides `period`.
int RepeatFinder::findPeriod(int first, int end, int period) const {
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

/// Where to cut a stretch that repeats with `period`, among the first
/// `numStarts` places: where the fewest values come in and go out.
int RepeatFinder::chooseStart(int first, int end, int period, int numStarts) {
  if (numStarts == 1)
    return first;
  // A stretch holds no border, so its positions follow each other.
  int shift = first - toPosition(first);
  first -= shift;
  end -= shift;
  // A cut before node b separates the two nodes of (a, u] where a < b <= u; so
  // each link counts for the starts whose cuts fall into an interval.
  std::vector<int64_t> change(period + 1);
  auto addLink = [&](int from, int to) {
    if (to - from >= period)
      return;
    int low = (from + 1 - first) % period, high = (to - first) % period;
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
      if (lastSeen[definition] != i)
        addLink(lastSeen[definition], i);
      lastSeen[definition] = i;
    }
  for (int i = first; i < end; ++i) {
    int last = sequence.lastUse[i];
    if (last > i)
      addLink(i, std::min(last, i + period));
  }
  int best = 0;
  int64_t cost = 0, bestCost = 0;
  for (int start = 0; start < numStarts; ++start) {
    cost += change[start];
    if (start == 0 || cost < bestCost) {
      best = start;
      bestCost = cost;
    }
  }
  return first + best + shift;
}

int RepeatFinder::countCrossing(int place, int length) {
  place = toPosition(place);
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

void RepeatFinder::addCandidate(int place, int length) {
  if (length < static_cast<int>(options.minNodes) || budget < 0)
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
  period = findPeriod(first, end, period);
  int rest = (end - first) % period;
  addCandidate(chooseStart(first, end, period, rest + 1), period);
  // A stretch shorter than the period appears once more: A b A b A.
  if (rest >= static_cast<int>(options.minNodes))
    addCandidate(first, rest);
}

/// Walks the text from longest earlier match to longest earlier match. All of a
/// repeat's appearances but the first begin inside such a match.
void RepeatFinder::collectCandidates() {
  EarlierMatches earlier(*suffixes);
  int size = text.size();
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
    int distance = begin - source;
    if (end - begin >= distance)
      addPeriodic(source, end, distance);
    else
      addCandidate(begin, end - begin);
    place = end;
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
    if (after != taken.begin() && std::prev(after)->second > position)
      continue;
    result.push_back(place);
    end = place + candidate.length;
  }
  return result;
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

/// True where two nodes are the same without a look at what they name: the
/// usual case, as content is interned.
static bool haveSameContent(NodeOp first, NodeOp second) {
  return first.getTargetAttr() == second.getTargetAttr() &&
         first.getArgsAttr() == second.getArgsAttr() &&
         first.getKwargNamesAttr() == second.getKwargNamesAttr() &&
         first.getKind() == second.getKind() &&
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

/// True where the nodes from `place` on belong to the group.
bool RepeatFinder::isSame(const Group &group, int place, int length,
                          const AppearanceShape &shape,
                          Renaming &renaming) const {
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
  EquivalenceOptions equivalence = options.equivalence;
  equivalence.ignoreOrder = false;
  return areInterned ||
         areEquivalent(toSubgraph(sequence, first, length, group.shape),
                       toSubgraph(sequence, place, length, shape), equivalence,
                       &renaming);
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
      partition.renaming = {};
      if (!isSame(group, place, length, shape, partition.renaming))
        continue;
      partition.inputs = std::move(shape.inputs);
      group.members.emplace_back(place, std::move(partition));
      return;
    }
    partition.renaming = {};
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
  for (Group &group : groups)
    if (!isClass(group) && !group.isWhole)
      for (auto &[place, partition] : group.members)
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
      taken.emplace(position, position + length);
      repeated.partitions.push_back(std::move(partition));
    }
  }
}

/// Tries again with the parts before and behind the node that makes the first
/// two of `places` differ.
void RepeatFinder::splitCandidate(const Candidate &candidate,
                                  ArrayRef<int> places) {
  int length = candidate.length;
  budget -= length;
  if (budget < 0)
    return;
  int position = toPosition(places[0]);
  AppearanceShape first = getShape(sequence, position, length);
  AppearanceShape second = getShape(sequence, toPosition(places[1]), length);
  // Behind it, what the node takes comes from outside in both.
  int cut = length;
  size_t edge = 0;
  for (int i = 0; i < cut; ++i) {
    int numOperands = sequence.operandStart[position + i + 1] -
                      sequence.operandStart[position + i];
    for (int operand = 0; operand < numOperands; ++operand, ++edge)
      if (edge >= second.edges.size() ||
          first.edges[edge] != second.edges[edge])
        cut = std::min(cut, i);
  }
  // What one of the two gives to the outside ends the part before.
  auto differs = llvm::mismatch(first.outputs, second.outputs);
  for (auto [output, outputs] :
       {std::pair(differs.first, &first), std::pair(differs.second, &second)})
    if (output != outputs->outputs.end())
      cut = std::min(cut, static_cast<int>(output->first) + 1);
  if (cut == 0 || cut >= length)
    return;
  addCandidate(places[0], cut);
  addCandidate(places[0] + cut, length - cut);
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
  collectCandidates();
  while (!candidates.empty()) {
    Candidate candidate = candidates.top();
    candidates.pop();
    std::vector<int> places = getFreePlaces(candidate);
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
    // What is confirmed may be less than what looked the same.
    if (int64_t gain = getGain(candidate, groups);
        !groups.empty() && budget > 0 && isWorse(gain)) {
      budget -= int64_t(places.size()) * candidate.length;
      waitWith(gain);
      continue;
    }
    accept(candidate, groups);
    if (left.size() >= options.minRepeats)
      splitCandidate(candidate, left);
  }
}

std::vector<PartitionClass> RepeatFinder::run() {
  lastSeen.assign(sequence.size(), 0);
  marks.assign(sequence.size(), 0);
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
  std::vector<size_t> order(classes.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  llvm::sort(order, [&](size_t first, size_t second) {
    return firstPartitions[first] < firstPartitions[second];
  });
  std::vector<PartitionClass> sorted;
  for (size_t index : order)
    sorted.push_back(std::move(classes[index]));
  return sorted;
}

std::vector<PartitionClass>
opprof::fx::findRepeatedSubgraphs(ArrayRef<GraphOp> graphs,
                                  const RepeatOptions &options,
                                  StructuralHash &hash, unsigned *numNodes) {
  RepeatFinder finder(graphs, options, hash);
  std::vector<PartitionClass> classes = finder.run();
  if (numNodes)
    *numNodes = finder.getNumNodes();
  return classes;
}
