// Taking views out of regions.

#include "Regions.h"

#include "opprof/Dialect/FX/IR/Arguments.h"
#include "opprof/Dialect/FX/IR/FX.h"
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

static Value getViewSource(NodeOp node);

static bool isGetItem(NodeOp node) {
  return node.getTarget() == "operator.getitem" ||
         node.getTarget() == "_operator.getitem";
}

/// True where the results of the graph that the node runs own their storage,
/// each its own.
static bool ownsResults(NodeOp node, StringRef name) {
  auto graph = lookupGraph(node, StringAttr::get(node.getContext(), name));
  llvm::SmallDenseSet<Value> results;
  return graph && llvm::all_of(graph.getOutput().getOperands(), [&](Value out) {
           auto maker = out.getDefiningOp<NodeOp>();
           return maker && !isGetItem(maker) && !getViewSource(maker) &&
                  lookupSchema(maker.getTarget()) && results.insert(out).second;
         });
}

/// True where each of the several results of `node` owns its storage: those of
/// operators that return tensors side by side. Of a list nothing is known, as
/// some operators give one of views and do not say so.
static bool givesFreshTensors(NodeOp node) {
  if (const OperatorSchema *schema = lookupSchema(node.getTarget()))
    return schema->returns.size() > 1 && !schema->isView() &&
           !schema->isMutating() && !returnsUndeclaredAlias(node.getTarget()) &&
           llvm::all_of(schema->returns, [](const SchemaArgument &result) {
             return result.type == "Tensor" && !result.aliasSet;
           });
  SmallVector<StringRef> graphs;
  walkLeaves(node.getArgs(), [&](Attribute leaf) {
    if (auto name = dyn_cast<FlatSymbolRefAttr>(leaf))
      graphs.push_back(name.getValue());
  });
  return graphs.size() == 1 && ownsResults(node, graphs.front());
}

/// What an element of a tuple shares storage with: the tuple, or where each
/// element owns its storage the first node that takes the same one.
static Value getElementSource(NodeOp element) {
  Value tuple = element.getOperand(0);
  auto maker = tuple.getDefiningOp<NodeOp>();
  if (!maker || element.getNumOperands() != 1 || !givesFreshTensors(maker))
    return tuple;
  NodeOp first = element;
  for (Operation *user : tuple.getUsers())
    if (auto other = dyn_cast<NodeOp>(user))
      if (isGetItem(other) && other->getBlock() == first->getBlock() &&
          other.getArgs() == element.getArgs() && other->isBeforeInBlock(first))
        first = other;
  return first == element ? Value() : first.getResult();
}

/// The value that the node's result shares storage with, or null.
static Value getViewSource(NodeOp node) {
  if (node.getKind() != NodeKind::call_function || !node.getNumOperands())
    return {};
  StringRef target = node.getTarget();
  if (isGetItem(node))
    return getElementSource(node);
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

namespace {
/// Which values of a module share storage, as far as operators' schemas say.
class StorageOwners {
public:
  /// The value of the same graph that owns the storage of `value`. Of what a
  /// call gives, the first result with that storage stands for it.
  Value getOwner(Value value);
  /// The outputs that share storage with an input or with another output.
  SmallVector<Value> getSharedOutputs(GraphOp graph);
  /// The first two of the values that the call passes which share storage.
  std::optional<std::pair<unsigned, unsigned>> getSharedOperands(CallOp call);

private:
  ArrayRef<Value> getOutputOwners(GraphOp graph);

  /// The owner of each output; of graphs that are being looked into, nothing.
  llvm::DenseMap<Operation *, SmallVector<Value>> outputOwners;
};
} // namespace

ArrayRef<Value> StorageOwners::getOutputOwners(GraphOp graph) {
  auto [found, isNew] = outputOwners.try_emplace(graph);
  if (!isNew)
    return found->second;
  SmallVector<Value> owners;
  for (Value output : graph.getOutput().getOperands())
    owners.push_back(getOwner(output));
  return outputOwners[graph] = std::move(owners);
}

Value StorageOwners::getOwner(Value value) {
  while (true) {
    if (auto node = value.getDefiningOp<NodeOp>()) {
      Value source = getViewSource(node);
      if (!source)
        return value;
      value = source;
      continue;
    }
    auto call = value.getDefiningOp<CallOp>();
    auto callee = call ? lookupGraph(call, call.getCalleeAttr()) : GraphOp();
    ArrayRef<Value> owners =
        callee ? getOutputOwners(callee) : ArrayRef<Value>();
    // A graph that calls itself is an error that the printer reports.
    if (owners.empty())
      return value;
    Value owner = owners[cast<OpResult>(value).getResultNumber()];
    auto argument = dyn_cast<BlockArgument>(owner);
    if (!argument)
      return call.getResult(llvm::find(owners, owner) - owners.begin());
    value = call.getOperand(argument.getArgNumber());
  }
}

std::optional<std::pair<unsigned, unsigned>>
StorageOwners::getSharedOperands(CallOp call) {
  llvm::SmallDenseMap<Value, unsigned> owners;
  for (auto [index, operand] : llvm::enumerate(call.getOperands())) {
    auto [found, isNew] = owners.try_emplace(getOwner(operand), index);
    if (!isNew)
      return std::pair(found->second, unsigned(index));
  }
  return std::nullopt;
}

SmallVector<Value> StorageOwners::getSharedOutputs(GraphOp graph) {
  llvm::MapVector<Value, SmallVector<Value>> byOwner;
  for (Value output : graph.getOutput().getOperands())
    byOwner[getOwner(output)].push_back(output);
  SmallVector<Value> shared;
  for (auto &[owner, outputs] : byOwner)
    for (Value output : outputs) {
      // The parts of a list, as chunk gives one, are views of one tensor.
      bool isShared = isa<BlockArgument>(owner) || outputs.size() > 1 ||
                      !isa<TensorType>(output.getType());
      if (isShared && (output != owner || isa<BlockArgument>(owner)))
        shared.push_back(output);
    }
  return shared;
}

bool opprof::fx::needsSeparation(ModuleOp module) {
  StorageOwners storage;
  return llvm::any_of(module.getOps<GraphOp>(), [&](GraphOp graph) {
    return (graph.isPrivate() && !storage.getSharedOutputs(graph).empty()) ||
           // Calls stand in the bodies of nodes too.
           graph
               .walk([&](CallOp call) {
                 return storage.getSharedOperands(call).has_value()
                            ? WalkResult::interrupt()
                            : WalkResult::advance();
               })
               .wasInterrupted();
  });
}

namespace {
/// One graph on its way to being split.
class ViewSeparator {
public:
  ViewSeparator(GraphOp graph, ArrayRef<Value> shared)
      : graph(graph), shared(shared) {}
  /// False, with nothing changed, where the views need what stays inside.
  bool run(SymbolTable &symbols);

private:
  bool collectViews();
  GraphOp createRegion(SymbolTable &symbols);

  GraphOp graph;
  ArrayRef<Value> shared;
  /// The nodes that make the shared outputs out of their owners.
  llvm::SetVector<Operation *> views;
  llvm::SetVector<Value> owners;
};
} // namespace

bool ViewSeparator::collectViews() {
  for (Value output : shared) {
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

/// Says why a graph is a plain function and no region.
static InFlightDiagnostic reportLeftOut(GraphOp graph) {
  return mlir::emitRemark(graph.getLoc())
         << "@" << graph.getSymName() << " is no region: ";
}

static void reportLeftOut(GraphOp graph, CallOp call,
                          std::pair<unsigned, unsigned> shared) {
  InFlightDiagnostic remark = reportLeftOut(graph);
  remark << "a call gives it input " << shared.first << " and input "
         << shared.second << ", which share storage";
  remark.attachNote(call.getLoc()) << "the call is here";
}

llvm::DenseSet<Operation *> opprof::fx::separateViews(ModuleOp module) {
  SymbolTable symbols(module);
  StorageOwners storage;
  llvm::DenseSet<Operation *> result;
  llvm::MapVector<Operation *, SmallVector<Value>> toSplit;
  // Everything is asked before anything is changed.
  module.walk([&](CallOp call) {
    auto callee = symbols.lookup<GraphOp>(call.getCallee());
    if (!callee)
      return;
    if (auto shared = storage.getSharedOperands(call))
      if (result.insert(callee).second)
        reportLeftOut(callee, call, *shared);
    SmallVector<Value> shared = storage.getSharedOutputs(callee);
    if (shared.empty())
      return;
    // What a call inside gives twice stays together.
    bool areOwned = llvm::all_of(shared, [&](Value output) {
      Value owner = storage.getOwner(output);
      return isa<BlockArgument>(owner) || owner.getDefiningOp<NodeOp>();
    });
    if (areOwned)
      toSplit[callee] = std::move(shared);
    else if (result.insert(callee).second)
      reportLeftOut(callee) << "it returns what a call inside it gives twice";
  });
  for (auto &[callee, shared] : toSplit) {
    if (!result.insert(callee).second)
      continue;
    auto graph = cast<GraphOp>(callee);
    if (!ViewSeparator(graph, shared).run(symbols))
      reportLeftOut(graph) << "it returns a view, and what the view is made "
                              "with is computed inside";
  }
  return result;
}
