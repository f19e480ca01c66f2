// --inline-partitions: the graph as it was before --dedup-partitions.

#include "Outlining.h"

#include "opprof/Dialect/FX/IR/Arguments.h"
#include "opprof/Dialect/FX/IR/Provenance.h"
#include "opprof/Dialect/FX/Transforms/Passes.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

namespace opprof::fx {
#define GEN_PASS_DEF_INLINEPARTITIONSPASS
#include "opprof/Dialect/FX/Transforms/Passes.h.inc"
} // namespace opprof::fx

using namespace mlir;
using namespace opprof;
using namespace opprof::fx;

static bool cameFromOutlining(CallOp call) {
  return call->hasAttr(prof::ProfDialect::kPartitionAttr);
}

static Renaming getRenaming(CallOp call) {
  Renaming renaming;
  renaming.symbols = getRenamedSymbols(call);
  if (auto graphs = call->getAttrOfType<DictionaryAttr>(kRenamedGraphsAttr))
    for (NamedAttribute entry : graphs)
      if (auto name = dyn_cast<FlatSymbolRefAttr>(entry.getValue()))
        renaming.graphs.insert({entry.getName(), name.getAttr()});
  return renaming;
}

/// Puts the nodes of `callee` in the place of `call`.
static void inlineCall(CallOp call, GraphOp callee) {
  OpBuilder builder(call);
  ArrayAttr instance = getInstance(call.getLoc());
  ArrayAttr attributes, types, arguments;
  attributes = call->getAttrOfType<ArrayAttr>(kInstanceAttributesAttr);
  types = call->getAttrOfType<ArrayAttr>(kInstanceTypesAttr);
  arguments = call->getAttrOfType<ArrayAttr>(kInstanceArgumentsAttr);
  size_t numNodes = llvm::count_if(callee.getBlock(), llvm::IsaPred<NodeOp>);
  // A callee that has been rewritten since has nodes of its own.
  if (instance && instance.size() != numNodes)
    instance = {};
  if (attributes && attributes.size() != numNodes)
    attributes = {};
  if (types && types.size() != numNodes)
    types = {};
  if (arguments && arguments.size() != numNodes)
    arguments = {};
  Renaming renaming = getRenaming(call);
  bool isRenamed = !renaming.symbols.empty() || !renaming.graphs.empty();

  IRMapping mapping;
  mapping.map(callee.getArguments(), call.getOperands());
  unsigned index = 0;
  for (Operation &op : callee.getBlock().without_terminator()) {
    Operation *copy = builder.clone(op, mapping);
    auto node = dyn_cast<NodeOp>(copy);
    if (!node)
      continue;
    if (instance)
      if (auto location = dyn_cast<LocationAttr>(instance[index]))
        copy->setLoc(location);
    if (attributes)
      if (auto dictionary = dyn_cast<DictionaryAttr>(attributes[index]))
        copy->setDiscardableAttrs(dictionary);
    if (isRenamed) {
      node.setArgsAttr(cast<ArrayAttr>(rename(node.getArgs(), renaming)));
      node.getResult().setType(
          renameSymbols(node.getResult().getType(), renaming.symbols));
    }
    if (arguments)
      if (auto own = dyn_cast<ArrayAttr>(arguments[index]))
        node.setArgsAttr(own);
    if (types)
      if (auto type = dyn_cast<TypeAttr>(types[index]))
        node.getResult().setType(type.getValue());
    ++index;
  }
  for (auto [result, output] :
       llvm::zip(call.getResults(), callee.getOutput().getOperands()))
    result.replaceAllUsesWith(mapping.lookupOrDefault(output));
  call.erase();
}

/// Undoes what gathering moved, where the graph still has the nodes that it
/// had.
static void restoreOrder(GraphOp graph) {
  auto recorded = graph->getAttrOfType<DenseI64ArrayAttr>(kRecordedOrderAttr);
  if (!recorded)
    return;
  graph->removeDiscardableAttr(kRecordedOrderAttr);
  Block &block = graph.getBlock();
  SmallVector<Operation *> nodes;
  for (Operation &op : block.without_terminator())
    nodes.push_back(&op);
  SmallVector<Operation *> order(nodes.size());
  if (static_cast<size_t>(recorded.size()) != nodes.size())
    return;
  for (auto [node, place] : llvm::zip(nodes, recorded.asArrayRef())) {
    if (place < 0 || place >= static_cast<int64_t>(order.size()) ||
        order[place])
      return;
    order[place] = node;
  }
  llvm::DenseMap<Operation *, unsigned> places;
  for (auto [place, node] : llvm::enumerate(order))
    places[node] = place;
  for (auto [place, node] : llvm::enumerate(order))
    for (Value operand : node->getOperands())
      if (Operation *definition = operand.getDefiningOp())
        if (places.lookup(definition) >= place)
          return;
  for (Operation *node : order)
    node->moveBefore(block.getTerminator());
}

namespace {
struct InlinePartitionsPass
    : public opprof::fx::impl::InlinePartitionsPassBase<InlinePartitionsPass> {
  using Base::Base;

  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    llvm::SetVector<Operation *> callees;
    llvm::DenseSet<Operation *> finished, open;
    for (GraphOp graph :
         llvm::make_early_inc_range(getOperation().getOps<GraphOp>()))
      if (failed(inlineInto(graph, symbols, callees, finished, open)))
        return signalPassFailure();
    llvm::DenseSet<StringAttr> used;
    if (auto uses = SymbolTable::getSymbolUses(&getOperation().getBodyRegion()))
      for (SymbolTable::SymbolUse use : *uses)
        used.insert(use.getSymbolRef().getRootReference());
    for (Operation *callee : llvm::reverse(callees)) {
      auto graph = cast<GraphOp>(callee);
      if (graph.isPrivate() && !used.contains(graph.getSymNameAttr()))
        symbols.erase(graph);
    }
  }

private:
  /// Callees first, so that what is inlined holds no calls any more.
  LogicalResult inlineInto(GraphOp graph, SymbolTable &symbols,
                           llvm::SetVector<Operation *> &callees,
                           llvm::DenseSet<Operation *> &finished,
                           llvm::DenseSet<Operation *> &open) {
    if (finished.contains(graph))
      return success();
    if (!open.insert(graph).second)
      return graph.emitError("calls itself, so it cannot be inlined");
    // Those in blocks of nodes among them.
    SmallVector<CallOp> calls;
    graph.walk([&](CallOp call) { calls.push_back(call); });
    for (CallOp call : calls) {
      auto callee = symbols.lookup<GraphOp>(call.getCallee());
      if (!callee || !cameFromOutlining(call))
        continue;
      if (failed(inlineInto(callee, symbols, callees, finished, open)))
        return failure();
      callees.insert(callee);
      inlineCall(call, callee);
    }
    restoreOrder(graph);
    open.erase(graph);
    finished.insert(graph);
    return success();
  }
};
} // namespace
