// Graphs as sequences of numbers for what each node computes.

#include "NodeSequence.h"

#include "opprof/Analysis/Structure/DataflowOrder.h"

#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/xxhash.h"

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
  void appendNode(NodeOp node);
  int getContent(NodeOp node);
  int computeContent(NodeOp node);
  void escape(Operation *user);

  NodeSequence &sequence;
  StructuralHash &hash;
  PositionMap positions;
  /// By what is hashed of a node, and by which attributes and types it has.
  llvm::DenseMap<uint64_t, int> numbers, numbersOfInterned;
};
} // namespace

int SequenceBuilder::computeContent(NodeOp node) {
  uint64_t content = hash.hashNode(node);
  for (Type type : node->getOperandTypes())
    content = llvm::hash_combine(content, hash.hashType(type));
  auto [found, isNew] = numbers.try_emplace(content, sequence.numContents);
  sequence.numContents += isNew;
  return found->second;
}

/// The number of what a node is and takes. Attributes and types are interned:
/// what has the very ones of an earlier node is not looked into.
int SequenceBuilder::getContent(NodeOp node) {
  if (!node.getBlocks().empty())
    return computeContent(node);
  SmallVector<const void *, 16> interned = {
      node.getTargetAttr().getAsOpaquePointer(),
      node.getArgsAttr().getAsOpaquePointer(),
      node.getKwargNamesAttr().getAsOpaquePointer(),
      node.getKindAttr().getAsOpaquePointer(),
      node.getResult().getType().getAsOpaquePointer()};
  for (Type type : node->getOperandTypes())
    interned.push_back(type.getAsOpaquePointer());
  uint64_t key = llvm::xxh3_64bits(
      ArrayRef(reinterpret_cast<const uint8_t *>(interned.data()),
               interned.size() * sizeof(void *)));
  auto [found, isNew] = numbersOfInterned.try_emplace(key, -1);
  if (isNew)
    found->second = computeContent(node);
  return found->second;
}

void SequenceBuilder::appendNode(NodeOp node) {
  Operation *op = node;
  int position = sequence.size();
  sequence.operandStart.push_back(sequence.operands.size());
  for (Value operand : op->getOperands()) {
    Operation *source = operand.getDefiningOp();
    int definition = source ? positions.lookup(source) : -1;
    sequence.operands.push_back(definition);
    if (definition >= 0)
      sequence.lastUse[definition] = position;
  }
  positions.insert(op, position);
  sequence.nodes.push_back(op);
  sequence.hasBlocks |= op->getNumRegions() != 0;
  sequence.contents.push_back(getContent(node));
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
    auto node = dyn_cast<NodeOp>(op);
    if (node) {
      ++sequence.numNodes;
      for (Region &block : node.getBlocks())
        block.walk([&](NodeOp) { ++sequence.numNodes; });
      // What partitions may hold.
      if (node.getKind() != NodeKind::get_attr) {
        appendNode(node);
        return;
      }
    }
    // What names a weight may stand between nodes, and is moved away.
    if (isFirst && node) {
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
