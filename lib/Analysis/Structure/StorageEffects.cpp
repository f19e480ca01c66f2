// Classes of values that share storage, by the schemas of operators.

#include "opprof/Analysis/Structure/StorageEffects.h"

#include "opprof/Dialect/FX/IR/Schema.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace opprof::fx;

/// Writes that change what autograd knows of a tensor, and no element.
static bool writesNoElement(StringRef target) {
  return llvm::is_contained({"detach_", "requires_grad_", "retain_grad"},
                            getOperatorName(target));
}

/// Operators that give a tensor another storage, which no schema says.
static bool changesStorage(StringRef target) {
  return llvm::is_contained({"set_", "set_data", "resize_", "resize_as_",
                             "_resize_output_", "resize_as_sparse_"},
                            getOperatorName(target));
}

StorageEffects::StorageEffects(GraphOp graph) : graph(graph) {
  auto number = [&](Value value) {
    numbers.try_emplace(value, numbers.size());
  };
  for (Value argument : graph.getArguments())
    number(argument);
  for (Operation &op : graph.getBlock())
    llvm::for_each(op.getResults(), number);
  storages.grow(numbers.size());
  for (Operation &op : graph.getBlock().without_terminator()) {
    if (auto node = dyn_cast<NodeOp>(op)) {
      addNode(node);
      continue;
    }
    // What a call gives may share storage with what it takes.
    for (Value result : op.getResults())
      for (Value operand : op.getOperands())
        unite(result, operand);
    auto call = dyn_cast<CallOp>(op);
    auto callee = call ? lookupGraph(call, call.getCalleeAttr()) : nullptr;
    if (!isMemoryEffectFree(&op) && !(callee && callee.getFunctional()))
      writes.push_back({&op, {}, /*isAny=*/true});
  }
  storages.compress();
  for (auto [value, index] : numbers) {
    auto node = value.getDefiningOp<NodeOp>();
    if (isa<BlockArgument>(value) ||
        (node && node.getKind() == NodeKind::get_attr))
      isInput[storages[index]] = true;
  }
}

void StorageEffects::unite(Value first, Value second) {
  storages.join(numbers.lookup(first), numbers.lookup(second));
}

void StorageEffects::addNode(NodeOp node) {
  Write write{node, {}};
  bool isKnown = node.getKind() == NodeKind::call_function &&
                 (lookupSchema(node.getTarget()) || !node.mayWrite());
  bool writesElements = !isKnown || !writesNoElement(node.getTarget());
  node.visitOperandRoles(
      [&](OpOperand &operand, bool isWritten, bool isAliased) {
        if (isWritten && writesElements)
          write.values.push_back(operand.get());
        if (isAliased)
          unite(node.getResult(), operand.get());
      });
  bool isAttribute = node.getKind() == NodeKind::get_attr;
  write.isAny = !isAttribute && (!isKnown || changesStorage(node.getTarget()));
  if (write.isAny || !write.values.empty())
    writes.push_back(std::move(write));
}

unsigned StorageEffects::getStorage(Value value) const {
  return storages[numbers.lookup(value)];
}

bool StorageEffects::mayBeInput(Value value) const {
  return isInput.lookup(getStorage(value));
}

bool StorageEffects::mayAlias(Value first, Value second) const {
  return getStorage(first) == getStorage(second) ||
         (mayBeInput(first) && mayBeInput(second));
}

bool StorageEffects::canWrite(const Write &write, Value value) const {
  return write.isAny || llvm::any_of(write.values, [&](Value written) {
           return mayAlias(written, value);
         });
}

Operation *StorageEffects::findWriteOfInput() const {
  for (const Write &write : writes)
    if (isa<NodeOp, CallOp>(write.node) &&
        (write.isAny || llvm::any_of(write.values, [&](Value value) {
           return mayBeInput(value);
         })))
      return write.node;
  // A graph of a later stage says in its signature what goes into its inputs.
  OutputOp output = GraphOp(graph).getOutput();
  auto signature = output.getSignature();
  if (!signature)
    return nullptr;
  for (Attribute entry : *signature) {
    auto fields = dyn_cast<DictionaryAttr>(entry);
    auto kind = fields ? fields.getAs<StringAttr>("kind") : nullptr;
    if (kind && kind.getValue().contains("mutation"))
      return output;
  }
  return nullptr;
}

Operation *StorageEffects::findWriteBetween(
    Operation *first, Operation *last, ArrayRef<Value> values,
    llvm::function_ref<bool(Operation *)> isLeftOut) const {
  for (const Write &write : writes) {
    if (write.node->isBeforeInBlock(first) ||
        last->isBeforeInBlock(write.node) ||
        (isLeftOut && isLeftOut(write.node)))
      continue;
    if (llvm::any_of(values,
                     [&](Value value) { return canWrite(write, value); }))
      return write.node;
  }
  return nullptr;
}
