// Graphs as sequences of numbers for what each node computes.

#include "NodeSequence.h"

#include "opprof/Analysis/Structure/DataflowOrder.h"

#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace opprof;
using namespace opprof::fx;

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

class SequenceBuilder {
public:
  SequenceBuilder(NodeSequence &sequence, StructuralHash &hash)
      : sequence(sequence), hash(hash) {}

  /// `isFirst` is the graph whose nodes may be moved to lie side by side.
  void append(Block &block, bool ignoreOrder, bool isFirst);
  /// Nothing repeats across a call, a marker or the end of a graph: a number of
  /// its own.
  void appendBorder();
  void finish() { sequence.operandStart.push_back(sequence.operands.size()); }

private:
  void appendNode(Operation *op);
  void escape(Operation *user);

  NodeSequence &sequence;
  StructuralHash &hash;
  PositionMap positions;
  llvm::DenseMap<uint64_t, int> numbers;
};
} // namespace

/// True for operations that partitions may hold.
static bool isRepeatable(Operation *op) {
  auto node = dyn_cast<NodeOp>(op);
  return node && node.getKind() != NodeKind::get_attr;
}

void SequenceBuilder::appendNode(Operation *op) {
  int position = sequence.size();
  sequence.operandStart.push_back(sequence.operands.size());
  uint64_t content = hash.hashNode(op);
  for (Value operand : op->getOperands()) {
    Operation *source = operand.getDefiningOp();
    int definition = source ? positions.lookup(source) : -1;
    sequence.operands.push_back(definition);
    if (definition >= 0)
      sequence.lastUse[definition] = position;
    content = llvm::hash_combine(content, hash.hashType(operand.getType()));
  }
  auto [found, isNew] = numbers.try_emplace(content, sequence.numContents);
  sequence.numContents += isNew;
  positions.insert(op, position);
  sequence.nodes.push_back(op);
  sequence.hasBlocks |= op->getNumRegions() != 0;
  sequence.contents.push_back(found->second);
  sequence.lastUse.push_back(-1);
}

void SequenceBuilder::appendBorder() {
  sequence.operandStart.push_back(sequence.operands.size());
  sequence.nodes.push_back(nullptr);
  sequence.contents.push_back(sequence.numContents++);
  sequence.lastUse.push_back(-1);
}

void SequenceBuilder::escape(Operation *user) {
  for (Value operand : user->getOperands())
    if (Operation *op = operand.getDefiningOp())
      if (int position = positions.lookup(op); position >= 0)
        sequence.lastUse[position] = NodeSequence::kOutside;
}

void SequenceBuilder::append(Block &block, bool ignoreOrder, bool isFirst) {
  std::vector<Operation *> others;
  // Definitions come before uses, so one pass is enough.
  auto appendAny = [&](Operation *op) {
    if (auto node = dyn_cast<NodeOp>(op)) {
      ++sequence.numNodes;
      for (Region &block : node.getBlocks())
        block.walk([&](NodeOp) { ++sequence.numNodes; });
    }
    if (isRepeatable(op)) {
      appendNode(op);
      return;
    }
    // What names a weight may stand between nodes, and is moved away.
    if (isFirst && isa<NodeOp>(op)) {
      sequence.hasSkipped = true;
      return;
    }
    others.push_back(op);
    appendBorder();
  };
  // Each pass over the operations of a large graph costs, so there is one.
  if (ignoreOrder)
    llvm::for_each(getDataflowOrder(cast<GraphOp>(block.getParentOp())),
                   appendAny);
  else
    for (Operation &op : block.without_terminator())
      appendAny(&op);
  llvm::for_each(others, [&](Operation *op) { escape(op); });
  escape(block.getTerminator());
}

NodeSequence::NodeSequence(ArrayRef<GraphOp> graphs, bool ignoreOrder,
                           StructuralHash &hash) {
  SequenceBuilder builder(*this, hash);
  for (GraphOp graph : graphs) {
    int begin = size();
    builder.append(graph.getBlock(), ignoreOrder, graphs.size() == 1);
    if (graphs.size() == 1)
      continue;
    if (graph != graphs.front())
      bodies.push_back({begin, size(), graph});
    builder.appendBorder();
  }
  firstClosed = size();
  builder.finish();
}

NodeSequence::NodeSequence(ArrayRef<Block *> blocks, ArrayRef<GraphOp> classes,
                           StructuralHash &hash) {
  SequenceBuilder builder(*this, hash);
  for (Block *block : blocks) {
    builder.append(*block, /*ignoreOrder=*/false, /*isFirst=*/false);
    builder.appendBorder();
  }
  firstClosed = size();
  for (GraphOp graph : classes) {
    int begin = size();
    builder.append(graph.getBlock(), /*ignoreOrder=*/false, /*isFirst=*/false);
    bodies.push_back({begin, size(), graph});
    builder.appendBorder();
  }
  builder.finish();
}

AppearanceShape opprof::fx::getShape(const NodeSequence &sequence, int place,
                                     int length) {
  AppearanceShape shape;
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
