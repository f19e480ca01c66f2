// Nodes by symbol, and where they are once graphs are outlined.

#include "opprof/Dialect/FX/IR/NodeSymbols.h"
#include "opprof/Dialect/FX/IR/FX.h"
#include "opprof/Dialect/FX/IR/Names.h"
#include "opprof/Dialect/FX/IR/Provenance.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace opprof;
using namespace opprof::fx;

bool opprof::fx::isNode(Operation *op) { return isa_and_nonnull<NodeOp>(op); }

bool opprof::fx::isCall(Operation *op) { return isa_and_nonnull<CallOp>(op); }

bool opprof::fx::isGraph(Operation *op) { return isa_and_nonnull<GraphOp>(op); }

bool opprof::fx::isGraphOrExternal(Operation *op) {
  return isa_and_nonnull<GraphOp, ExternalOp>(op);
}

NodeId opprof::fx::getGraphId(Operation *graph) {
  NodeId id;
  if (auto name = graph->getAttrOfType<StringAttr>(FXDialect::kNameAttr))
    id.graph = name.getValue();
  else
    id.graph = SymbolTable::getSymbolName(graph).getValue();
  if (auto here = dyn_cast<GraphOp>(graph))
    id.stage = here.getStage().value_or("");
  else
    id.stage = cast<ExternalOp>(graph).getStage().value_or("");
  return id;
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

/// What an operation of a graph becomes when calls are inlined; operations that
/// are no nodes (markers) count for the recorded order.
using Places = std::vector<std::pair<Operation *, NodePlace>>;

/// A graph that calls another twice, and that a third, has more nodes than
/// memory has room for. Calls beyond so many nodes, each counted once for every
/// call that it lies in, are left as they are.
static constexpr size_t kMaxPlaces = size_t(1) << 22;

namespace {
class Flattener {
public:
  explicit Flattener(SymbolTableCollection &symbols) : symbols(symbols) {}

  Places flatten(GraphOp graph);

private:
  Places flatten(CallOp call);

  SymbolTableCollection &symbols;
  llvm::DenseSet<Operation *> open;
  size_t left = kMaxPlaces;
};
} // namespace

/// The nodes that `call` stands for, or none where it is no outlined one's.
Places Flattener::flatten(CallOp call) {
  auto callee =
      symbols.lookupNearestSymbolFrom<GraphOp>(call, call.getCalleeAttr());
  // A graph that calls itself is no outlined one.
  if (!callee || left == 0 || open.contains(callee))
    return {};
  Places places = flatten(callee);

  ArrayAttr instance = getInstance(call.getLoc());
  size_t numNodes = llvm::count_if(
      places, [](const auto &place) { return place.second.node; });
  // A callee that has been rewritten since has nodes of its own.
  bool named = instance && instance.size() == numNodes;
  left -= std::min(left, numNodes);
  unsigned index = 0;
  for (auto &[op, place] : places) {
    if (!place.node)
      continue;
    place.calls.push_back(call);
    place.location = {};
    if (named)
      place.location = dyn_cast<LocationAttr>(instance[index]);
    place.index = index++;
  }
  return places;
}

Places Flattener::flatten(GraphOp graph) {
  open.insert(graph);
  Places places;
  for (Operation &op : graph.getBlock().without_terminator()) {
    if (auto call = dyn_cast<CallOp>(op)) {
      Places inner = flatten(call);
      if (!inner.empty()) {
        llvm::append_range(places, inner);
        continue;
      }
    }
    NodePlace place;
    if (isa<NodeOp>(op))
      place.node = &op;
    place.location = op.getLoc();
    places.emplace_back(&op, place);
    left -= left > 0;
  }
  open.erase(graph);
  auto recorded = graph->getAttrOfType<DenseI64ArrayAttr>(kRecordedOrderAttr);
  if (!recorded || static_cast<size_t>(recorded.size()) != places.size())
    return places;
  Places ordered(places.size());
  for (auto [place, target] : llvm::zip(places, recorded.asArrayRef())) {
    if (target < 0 || target >= recorded.size() || ordered[target].first)
      return places;
    ordered[target] = place;
  }
  return ordered;
}

static std::vector<NodePlace> getNodePlaces(GraphOp graph,
                                            SymbolTableCollection &symbols) {
  std::vector<NodePlace> nodes;
  for (auto &[op, place] : Flattener(symbols).flatten(graph))
    if (place.node)
      nodes.push_back(place);
  return nodes;
}

//===----------------------------------------------------------------------===//
// NodeSymbols
//===----------------------------------------------------------------------===//

/// The graphs that this one calls, and those that they call.
static llvm::SetVector<Operation *> findBodies(Operation *graph,
                                               SymbolTable &table) {
  llvm::SetVector<Operation *> bodies;
  auto addUses = [&](Operation *user) {
    if (auto uses = SymbolTable::getSymbolUses(user))
      for (SymbolTable::SymbolUse use : *uses) {
        auto body =
            table.lookup<GraphOp>(use.getSymbolRef().getRootReference());
        if (body && body != graph)
          bodies.insert(body);
      }
  };
  addUses(graph);
  for (size_t i = 0; i != bodies.size(); ++i)
    addUses(bodies[i]);
  return bodies;
}

NodeSymbols::NodeSymbols(ModuleOp module) : module(module) {
  // Graphs that calls stand for have no nodes of their own identity.
  llvm::DenseSet<StringAttr> outlined;
  llvm::SetVector<Operation *> staged;
  module.walk(
      [&](CallOp call) { outlined.insert(call.getCalleeAttr().getAttr()); });
  for (auto graph : module.getOps<GraphOp>()) {
    if (!graph.isPrivate() || !outlined.contains(graph.getSymNameAttr()))
      graphs.push_back(graph);
    ids[graph] = getGraphId(graph);
    if (graph.getStage())
      staged.insert(graph);
  }
  // A subgraph has the stage of the graph that it belongs to: the one that
  // names it.
  SymbolTable &table = symbols.getSymbolTable(module);
  for (size_t i = 0; i != staged.size(); ++i) {
    std::string stage = ids[staged[i]].stage;
    auto uses = SymbolTable::getSymbolUses(staged[i]);
    if (!uses)
      continue;
    for (SymbolTable::SymbolUse use : *uses)
      if (auto named =
              table.lookup<GraphOp>(use.getSymbolRef().getRootReference());
          named && staged.insert(named))
        ids[named].stage = stage;
  }
  for (Operation *graph : graphs)
    byId[ids[graph]].push_back(graph);
  // Bodies of compiled graphs bear names that those of others have too: maps of
  // launches and profiles put the graph's own before them.
  for (Operation *graph : graphs)
    if (graphs.size() > 1 && cast<GraphOp>(graph).getStage())
      for (Operation *body : findBodies(graph, table))
        byId[{ids[graph].graph + "." + getGraphId(body).graph, ids[graph].stage,
              ""}]
            .push_back(body);
  for (auto external : module.getOps<ExternalOp>())
    addGraph(external, getGraphId(external));
}

void NodeSymbols::addGraph(Operation *graph, NodeId id) {
  byId[id].push_back(graph);
  ids[graph] = std::move(id);
}

Operation *NodeSymbols::lookupGraph(const NodeId &id) const {
  auto it = byId.find({id.graph, id.stage, ""});
  return it != byId.end() && it->second.size() == 1 ? it->second.front()
                                                    : nullptr;
}

Operation *NodeSymbols::getOrAddGraph(const NodeId &id) {
  if (Operation *graph = lookupGraph(id))
    return graph;
  auto builder = OpBuilder::atBlockEnd(module.getBody());
  auto external = ExternalOp::create(
      builder, builder.getUnknownLoc(), id.graph, /*sym_visibility=*/nullptr,
      id.stage.empty() ? StringAttr() : builder.getStringAttr(id.stage));
  // Another graph may have the name of this one as its symbol.
  symbols.getSymbolTable(module).insert(external);
  if (external.getSymName() != id.graph)
    external->setDiscardableAttr(FXDialect::kNameAttr,
                                 builder.getStringAttr(id.graph));
  addGraph(external, {id.graph, id.stage, ""});
  return external;
}

NodeSymbols::Index &NodeSymbols::getIndex(Operation *graph) {
  std::unique_ptr<Index> &index = indices[graph];
  if (index)
    return *index;
  index = std::make_unique<Index>();
  index->places = getNodePlaces(cast<GraphOp>(graph), symbols);
  GraphNames names(cast<GraphOp>(graph));
  for (auto [number, place] : llvm::enumerate(index->places)) {
    StringRef name;
    if (place.calls.empty())
      name = names.lookup(place.node->getResult(0));
    else if (place.location)
      name = getNodeName(Location(place.location));
    if (!name.empty())
      index->byName.try_emplace(name, number);
  }
  return *index;
}

llvm::ArrayRef<NodePlace> NodeSymbols::getPlaces(Operation *graph) {
  return getIndex(graph).places;
}

const NodePlace *NodeSymbols::lookup(const NodeId &id) {
  auto graph = dyn_cast_or_null<GraphOp>(lookupGraph(id));
  if (!graph)
    return nullptr;
  Index &index = getIndex(graph);
  auto it = index.byName.find(id.name);
  return it == index.byName.end() ? nullptr : &index.places[it->second];
}

const NodePlace *NodeSymbols::lookup(SymbolRefAttr node) {
  auto graph =
      symbols.getSymbolTable(module).lookup<GraphOp>(node.getRootReference());
  if (!graph)
    return nullptr;
  Index &index = getIndex(graph);
  auto it = index.byName.find(node.getLeafReference());
  return it == index.byName.end() ? nullptr : &index.places[it->second];
}

SymbolRefAttr NodeSymbols::getRef(Operation *graph, StringRef name) {
  return SymbolRefAttr::get(
      SymbolTable::getSymbolName(graph),
      {FlatSymbolRefAttr::get(graph->getContext(), name)});
}

SymbolRefAttr NodeSymbols::getRef(const NodeId &id) const {
  return getRef(lookupGraph(id), id.name);
}

NodeId NodeSymbols::getId(SymbolRefAttr node) const {
  Operation *graph =
      SymbolTable::lookupSymbolIn(module, node.getRootReference());
  auto known = ids.find(graph);
  NodeId id = known == ids.end() ? getGraphId(graph) : known->second;
  id.name = node.getLeafReference().getValue();
  return id;
}

LogicalResult opprof::fx::verifyNodeRefs(Operation *op, ArrayAttr nodes,
                                         SymbolTableCollection &symbols) {
  for (auto node : nodes.getAsRange<SymbolRefAttr>()) {
    if (node.getNestedReferences().size() != 1)
      return op->emitOpError()
             << "names a node as " << node << "; expected @graph::@node";
    Operation *graph =
        symbols.lookupNearestSymbolFrom(op, node.getRootReference());
    if (!isGraphOrExternal(graph))
      return op->emitOpError()
             << "names " << node << ", but there is no graph @"
             << node.getRootReference().getValue()
             << "; an fx.external stands for one of another module";
  }
  return success();
}
