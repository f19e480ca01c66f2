// Taking views out of regions.

#include "Regions.h"

#include "opprof/Dialect/FX/IR/Schema.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace opprof;
using namespace opprof::fx;

/// The value that the node's result shares storage with, or null.
static Value getViewSource(NodeOp node) {
  if (node.getKind() != NodeKind::call_function || !node.getNumOperands())
    return {};
  StringRef target = node.getTarget();
  if (target == "operator.getitem" || target == "_operator.getitem")
    return node.getOperand(0);
  const OperatorSchema *schema = lookupSchema(target);
  if (!schema)
    return {};
  if (schema->isView())
    for (const SchemaArgument &argument : schema->arguments)
      if (argument.aliasSet)
        if (Value source = node.getArgumentValue(argument.name))
          return source;
  // Dropout that is off hands its input on, though its schema does not say so.
  auto trains = dyn_cast_or_null<BoolAttr>(node.getArgument("train"));
  if (target.contains("dropout") && trains && !trains.getValue())
    return node.getArgumentValue("input");
  return {};
}

/// The value that owns the storage of `value`, as far as `value`'s graph goes.
static Value getOwner(Value value) {
  while (auto node = value.getDefiningOp<NodeOp>()) {
    Value source = getViewSource(node);
    if (!source)
      break;
    value = source;
  }
  return value;
}

/// The outputs that share storage with an input or with another output.
static SmallVector<Value> getSharedOutputs(GraphOp graph) {
  llvm::MapVector<Value, SmallVector<Value>> byOwner;
  for (Value output : graph.getOutput().getOperands())
    byOwner[getOwner(output)].push_back(output);
  SmallVector<Value> shared;
  for (auto &[owner, outputs] : byOwner)
    for (Value output : outputs)
      if (isa<BlockArgument>(owner) || (outputs.size() > 1 && output != owner))
        shared.push_back(output);
  return shared;
}

bool opprof::fx::hasSharedOutputs(GraphOp graph) {
  return !getSharedOutputs(graph).empty();
}

namespace {
/// One graph on its way to being split.
class ViewSeparator {
public:
  explicit ViewSeparator(GraphOp graph) : graph(graph) {}
  /// False, with nothing changed, where the views need what stays inside.
  bool run(SymbolTable &symbols);

private:
  bool collectViews();
  GraphOp createRegion(SymbolTable &symbols);

  GraphOp graph;
  /// The nodes that make the shared outputs out of their owners.
  llvm::SetVector<Operation *> views;
  llvm::SetVector<Value> owners;
};
} // namespace

bool ViewSeparator::collectViews() {
  for (Value output : getSharedOutputs(graph)) {
    Value value = output;
    while (auto node = value.getDefiningOp<NodeOp>()) {
      Value source = getViewSource(node);
      if (!source)
        break;
      views.insert(node);
      value = source;
    }
    owners.insert(value);
  }
  return llvm::all_of(views, [&](Operation *view) {
    return llvm::all_of(view->getOperands(), [&](Value operand) {
      return isa<BlockArgument>(operand) || owners.contains(operand) ||
             views.contains(operand.getDefiningOp());
    });
  });
}

/// What is computed, without the views that only the outside takes.
GraphOp ViewSeparator::createRegion(SymbolTable &symbols) {
  IRMapping mapping;
  auto region = cast<GraphOp>(graph->clone(mapping));
  SmallVector<Value> kept;
  for (Value output : graph.getOutput().getOperands())
    if (!views.contains(output.getDefiningOp()) && !isa<BlockArgument>(output))
      owners.insert(output);
  for (Value owner : owners)
    if (!isa<BlockArgument>(owner))
      kept.push_back(mapping.lookup(owner));
  OutputOp output = region.getOutput();
  OpBuilder builder(output);
  OutputOp::create(builder, output.getLoc(), kept);
  output.erase();
  llvm::SmallPtrSet<Operation *, 8> copies;
  for (Operation *view : views)
    copies.insert(mapping.lookup(view));
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(region.getBlock())))
    if (copies.contains(&op) && isOpTriviallyDead(&op))
      op.erase();
  region.setFunctionType(builder.getFunctionType(
      region.getFunctionType().getInputs(), ValueRange(kept).getTypes()));
  symbols.insert(region, Block::iterator(graph));
  return region;
}

bool ViewSeparator::run(SymbolTable &symbols) {
  if (!collectViews())
    return false;
  GraphOp region = createRegion(symbols);
  Block &block = graph.getBlock();
  SmallVector<Operation *> former;
  for (Operation &op : block.without_terminator())
    former.push_back(&op);
  OpBuilder builder(block.getTerminator());
  auto call = CallOp::create(
      builder, graph.getLoc(), region.getFunctionType().getResults(),
      FlatSymbolRefAttr::get(region.getSymNameAttr()), block.getArguments(),
      /*arg_attrs=*/nullptr, /*res_attrs=*/nullptr);
  IRMapping mapping;
  unsigned index = 0;
  for (Value owner : owners)
    if (!isa<BlockArgument>(owner))
      mapping.map(owner, call.getResult(index++));
  for (Operation *op : former) {
    if (!views.contains(op))
      continue;
    auto node = cast<NodeOp>(op);
    // What was written in place is what it was written into.
    if (node.mayWrite())
      mapping.map(node.getResult(),
                  mapping.lookupOrDefault(getViewSource(node)));
    else
      builder.clone(*op, mapping);
  }
  OutputOp output = graph.getOutput();
  for (OpOperand &operand : output->getOpOperands())
    operand.set(mapping.lookupOrDefault(operand.get()));
  for (Operation *op : llvm::reverse(former))
    op->erase();
  return true;
}

llvm::DenseSet<Operation *> opprof::fx::separateViews(ModuleOp module) {
  SymbolTable symbols(module);
  llvm::SetVector<Operation *> callees;
  module.walk([&](CallOp call) {
    if (auto callee = symbols.lookup<GraphOp>(call.getCallee()))
      callees.insert(callee);
  });
  llvm::DenseSet<Operation *> result;
  for (Operation *callee : callees) {
    auto graph = cast<GraphOp>(callee);
    if (!hasSharedOutputs(graph))
      continue;
    ViewSeparator(graph).run(symbols);
    result.insert(graph);
  }
  return result;
}
