// Finding repeats: the nodes as a sequence of content hashes, its repeats by
// suffix array, their borders by the values that cross them, and confirmation
// by dataflow. docs/dedup.md says why.

#include "opprof/Analysis/Structure/RepeatedSubgraphs.h"
#include "llvm/ADT/STLExtras.h"

#include "SuffixArray.h"

#include "opprof/Analysis/Structure/DataflowOrder.h"

#include "llvm/ADT/DenseSet.h"

#include <map>
#include <queue>

using namespace mlir;
using namespace opprof;
using namespace opprof::fx;

namespace {

/// The body of a graph as arrays of numbers. A position is that of a node that
/// may be in a partition.
struct NodeSequence {
  std::vector<Operation *> nodes;
  /// A number for each node's content: equal content, equal number.
  std::vector<int> contents;
  int numContents = 0;
  /// For the operands of all nodes: the position of the node that gives the
  /// value, or -1 for one from elsewhere. Those of node i begin at
  /// operandStart[i].
  std::vector<int> operandStart, operands;
  /// The last position that uses a result of a node; past the end where the
  /// graph returns it or something outside the sequence takes it.
  std::vector<int> lastUse;

  int size() const { return nodes.size(); }
};

/// A stretch of the sequence that appears more than once.
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

class RepeatFinder {
public:
  RepeatFinder(GraphOp graph, const RepeatOptions &options,
               StructuralHash &hash)
      : graph(graph), options(options), hash(hash) {}

  std::vector<PartitionClass> run();

  unsigned numNodes = 0;

private:
  void buildSequence();
  void collectCandidates();
  void addCandidate(int place, int length);
  void addPeriodic(int first, int end, int period);
  int countCrossing(int place, int length);
  int findPeriod(int first, int end, int period) const;
  int chooseStart(int first, int end, int period, int numStarts);
  std::vector<int> getFreePlaces(const Candidate &candidate) const;
  std::vector<int> acceptCandidate(const Candidate &candidate,
                                   ArrayRef<int> places);
  void splitCandidate(const Candidate &candidate, ArrayRef<int> places);

  GraphOp graph;
  const RepeatOptions &options;
  StructuralHash &hash;
  NodeSequence sequence;
  /// True where nodes of the graph are not in the sequence.
  bool hasSkipped = false;
  std::unique_ptr<SuffixArray> suffixes;
  std::priority_queue<Candidate> candidates;
  llvm::DenseSet<std::pair<uint64_t, int>> seen;
  /// What listing occurrences may still cost: bounds the work on sequences
  /// that hold very many repeats of very many lengths.
  int64_t budget = 0;
  /// Where accepted partitions begin and end.
  std::map<int, int> taken;
  std::vector<PartitionClass> classes;
  /// For each class the position of its first partition.
  std::vector<int> firstPlaces;

  // Scratch space, one entry a position.
  std::vector<int> lastSeen, marks;
  int lastMark = 0;
};

} // namespace

//===----------------------------------------------------------------------===//
// The sequence
//===----------------------------------------------------------------------===//

namespace {
/// Positions of operations, -1 for those that have none. Most look-ups are for
/// what came shortly before, and stay out of the large table.
class PositionMap {
public:
  PositionMap() : recent(kNumRecent) {}
  void insert(Operation *op, int position) {
    positions[op] = position;
    recent[getSlot(op)] = {op, position};
  }
  int lookup(Operation *op) {
    std::pair<Operation *, int> &slot = recent[getSlot(op)];
    if (slot.first == op)
      return slot.second;
    auto found = positions.find(op);
    if (found == positions.end())
      return -1;
    slot = {op, found->second};
    return found->second;
  }

private:
  static constexpr size_t kNumRecent = 4096;
  static size_t getSlot(Operation *op) {
    return (reinterpret_cast<uintptr_t>(op) >> 4) * 0x9E3779B97F4A7C15u >> 52;
  }
  std::vector<std::pair<Operation *, int>> recent;
  llvm::DenseMap<Operation *, int> positions;
};
} // namespace

/// True for operations that partitions may hold.
static bool isRepeatable(Operation *op) {
  auto node = dyn_cast<NodeOp>(op);
  return node && node.getKind() != NodeKind::get_attr;
}

void RepeatFinder::buildSequence() {
  PositionMap positions;
  std::vector<Operation *> others;
  llvm::DenseMap<uint64_t, int> numbers;
  // Definitions come before uses, so one pass is enough.
  auto append = [&](Operation *op) {
    numNodes += isa<NodeOp>(op);
    if (isRepeatable(op)) {
      int position = sequence.size();
      sequence.operandStart.push_back(sequence.operands.size());
      for (Value operand : op->getOperands()) {
        Operation *source = operand.getDefiningOp();
        int definition = source ? positions.lookup(source) : -1;
        sequence.operands.push_back(definition);
        if (definition >= 0)
          sequence.lastUse[definition] = position;
      }
      auto [found, isNew] =
          numbers.try_emplace(hash.hashNode(op), sequence.numContents);
      sequence.numContents += isNew;
      positions.insert(op, position);
      sequence.nodes.push_back(op);
      sequence.contents.push_back(found->second);
      sequence.lastUse.push_back(-1);
    } else if (!isa<NodeOp>(op)) {
      // Nothing repeats across a call or a marker: a number of its own.
      others.push_back(op);
      sequence.operandStart.push_back(sequence.operands.size());
      sequence.nodes.push_back(nullptr);
      sequence.contents.push_back(sequence.numContents++);
      sequence.lastUse.push_back(-1);
    } else {
      hasSkipped = true;
    }
  };
  // Each pass over the operations of a large graph costs, so there is one.
  if (options.equivalence.ignoreOrder)
    llvm::for_each(getDataflowOrder(graph), append);
  else
    for (Operation &op : graph.getBlock().without_terminator())
      append(&op);
  sequence.operandStart.push_back(sequence.operands.size());
  int size = sequence.size();
  auto escape = [&](Operation *user) {
    for (Value operand : user->getOperands())
      if (Operation *op = operand.getDefiningOp())
        if (int position = positions.lookup(op); position >= 0)
          sequence.lastUse[position] = size;
  };
  for (Operation *op : others)
    escape(op);
  escape(graph.getOutput());
}

//===----------------------------------------------------------------------===//
// Candidates
//===----------------------------------------------------------------------===//

/// The smallest period of [first, end), which divides `period`.
int RepeatFinder::findPeriod(int first, int end, int period) const {
  const std::vector<int> &contents = sequence.contents;
  auto hasPeriod = [&](int candidate) {
    for (int i = first; i + candidate < end; ++i)
      if (contents[i] != contents[i + candidate])
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
  return first + best;
}

int RepeatFinder::countCrossing(int place, int length) {
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
  size_t numPlaces = getFreePlaces(candidate).size();
  if (numPlaces < options.minRepeats)
    return;
  candidate.gain = candidate.getGain(numPlaces);
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

/// Walks the sequence from longest earlier match to longest earlier match. All
/// of a repeat's appearances but the first begin inside such a match.
void RepeatFinder::collectCandidates() {
  const std::vector<int> &contents = sequence.contents;
  EarlierMatches earlier(*suffixes);
  int size = sequence.size();
  for (int place = 0; place < size;) {
    int length = earlier.length[place], source = earlier.source[place];
    if (length == 0) {
      ++place;
      continue;
    }
    int end = place + length;
    int begin = place;
    while (source > 0 && contents[source - 1] == contents[begin - 1]) {
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

/// The places of a candidate where nothing else lies, from left to right,
/// without overlap.
std::vector<int> RepeatFinder::getFreePlaces(const Candidate &candidate) const {
  std::vector<int> places(suffixes->suffixes.begin() + candidate.firstRank,
                          suffixes->suffixes.begin() + candidate.lastRank);
  llvm::sort(places);
  std::vector<int> result;
  int end = 0;
  for (int place : places) {
    if (place < end)
      continue;
    auto after = taken.lower_bound(place + candidate.length);
    if (after != taken.begin() && std::prev(after)->second > place)
      continue;
    result.push_back(place);
    end = place + candidate.length;
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Confirmation
//===----------------------------------------------------------------------===//

namespace {
/// The edges of one appearance: for each operand the position inside, or which
/// value from outside; and which results are used outside.
struct Shape {
  std::vector<int> edges;
  std::vector<Value> inputs;
  std::vector<std::pair<unsigned, unsigned>> outputs;
};
} // namespace

static Shape getShape(const NodeSequence &sequence, int place, int length) {
  Shape shape;
  shape.edges.reserve(sequence.operandStart[place + length] -
                      sequence.operandStart[place]);
  llvm::SmallDenseMap<Value, int, 16> inputs;
  for (int i = place; i < place + length; ++i) {
    Operation *node = sequence.nodes[i];
    int first = sequence.operandStart[i], last = sequence.operandStart[i + 1];
    for (int operand = first; operand < last; ++operand) {
      int definition = sequence.operands[operand];
      if (definition >= place) {
        shape.edges.push_back(definition - place);
        continue;
      }
      // The operation itself is looked at only for what comes from outside.
      Value value = node->getOperand(operand - first);
      auto [found, isNew] = inputs.try_emplace(value, inputs.size());
      if (isNew)
        shape.inputs.push_back(value);
      shape.edges.push_back(-1 - found->second);
    }
    if (sequence.lastUse[i] >= place + length)
      shape.outputs.emplace_back(i - place, 0);
  }
  return shape;
}

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
                           const Shape &shape) {
  Subgraph subgraph;
  for (int i = place; i < place + length; ++i)
    subgraph.nodes.push_back(sequence.nodes[i]);
  llvm::append_range(subgraph.inputs, shape.inputs);
  for (auto [node, result] : shape.outputs)
    subgraph.outputs.push_back(subgraph.nodes[node]->getResult(result));
  return subgraph;
}

/// Makes classes of the places that are the same; returns those that are left.
std::vector<int> RepeatFinder::acceptCandidate(const Candidate &candidate,
                                               ArrayRef<int> places) {
  int length = candidate.length;
  /// Appearances that are confirmed to be the same.
  struct Group {
    Shape shape;
    SmallVector<std::pair<int, Partition>, 0> members;
  };
  std::vector<Group> groups;
  EquivalenceOptions equivalence = options.equivalence;
  equivalence.ignoreOrder = false;
  // Bounds the comparisons where places of equal content are wired in very
  // many ways.
  constexpr size_t kMaxGroups = 64;
  std::vector<int> left;
  for (int place : places) {
    Shape shape = getShape(sequence, place, length);
    Renaming renaming;
    bool isPlaced = false;
    for (Group &group : groups) {
      int first = group.members.front().first;
      if (group.shape.edges != shape.edges ||
          group.shape.outputs != shape.outputs)
        continue;
      bool isSame = true;
      for (auto [value, other] : llvm::zip(group.shape.inputs, shape.inputs))
        isSame &= value.getType() == other.getType();
      for (int i = 0; isSame && i < length; ++i)
        isSame = haveSameContent(cast<NodeOp>(sequence.nodes[first + i]),
                                 cast<NodeOp>(sequence.nodes[place + i]));
      if (!isSame)
        isSame = areEquivalent(toSubgraph(sequence, first, length, group.shape),
                               toSubgraph(sequence, place, length, shape),
                               equivalence, &renaming);
      if (!isSame)
        continue;
      Partition partition;
      partition.inputs = std::move(shape.inputs);
      partition.renaming = std::move(renaming);
      group.members.emplace_back(place, std::move(partition));
      isPlaced = true;
      break;
    }
    if (isPlaced)
      continue;
    if (groups.size() == kMaxGroups) {
      left.push_back(place);
      continue;
    }
    Partition partition;
    partition.inputs = shape.inputs;
    groups.emplace_back().members.emplace_back(place, std::move(partition));
    groups.back().shape = std::move(shape);
  }
  for (Group &group : groups) {
    if (group.members.size() < options.minRepeats) {
      for (auto &[place, partition] : group.members)
        left.push_back(place);
      continue;
    }
    PartitionClass &added = classes.emplace_back();
    int first = group.members.front().first;
    firstPlaces.push_back(first);
    added.hash =
        hash.hashSubgraph(toSubgraph(sequence, first, length, group.shape));
    added.outputs = std::move(group.shape.outputs);
    added.partitions.reserve(group.members.size());
    for (auto &[place, partition] : group.members) {
      partition.isSideBySide = !hasSkipped && !options.equivalence.ignoreOrder;
      partition.nodes.assign(sequence.nodes.begin() + place,
                             sequence.nodes.begin() + place + length);
      taken.emplace(place, place + length);
      added.partitions.push_back(std::move(partition));
    }
  }
  llvm::sort(left);
  return left;
}

/// Tries again with the parts before and behind the node that makes the first
/// two of `places` differ.
void RepeatFinder::splitCandidate(const Candidate &candidate,
                                  ArrayRef<int> places) {
  int length = candidate.length;
  budget -= length;
  if (budget < 0)
    return;
  Shape first = getShape(sequence, places[0], length);
  Shape second = getShape(sequence, places[1], length);
  // Behind it, what the node takes comes from outside in both.
  int cut = length;
  size_t edge = 0;
  for (int i = 0; i < cut; ++i) {
    int numOperands = sequence.operandStart[places[0] + i + 1] -
                      sequence.operandStart[places[0] + i];
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

std::vector<PartitionClass> RepeatFinder::run() {
  buildSequence();
  int size = sequence.size();
  if (size < 2)
    return {};
  suffixes =
      std::make_unique<SuffixArray>(sequence.contents, sequence.numContents);
  lastSeen.assign(size, 0);
  marks.assign(size, 0);
  budget = 32 * int64_t(size);
  collectCandidates();
  while (!candidates.empty()) {
    Candidate candidate = candidates.top();
    candidates.pop();
    std::vector<int> places = getFreePlaces(candidate);
    if (places.size() < options.minRepeats)
      continue;
    int64_t gain = candidate.getGain(places.size());
    if (gain < candidate.gain) {
      candidate.gain = gain;
      candidates.push(candidate);
      continue;
    }
    std::vector<int> left = acceptCandidate(candidate, places);
    if (left.size() >= options.minRepeats)
      splitCandidate(candidate, left);
  }
  std::vector<size_t> order(classes.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  llvm::sort(order, [&](size_t first, size_t second) {
    return firstPlaces[first] < firstPlaces[second];
  });
  std::vector<PartitionClass> sorted;
  for (size_t index : order)
    sorted.push_back(std::move(classes[index]));
  return sorted;
}

std::vector<PartitionClass>
opprof::fx::findRepeatedSubgraphs(GraphOp graph, const RepeatOptions &options,
                                  StructuralHash &hash, unsigned *numNodes) {
  RepeatFinder finder(graph, options, hash);
  std::vector<PartitionClass> classes = finder.run();
  if (numNodes)
    *numNodes = finder.numNodes;
  return classes;
}
