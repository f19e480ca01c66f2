// Outlining: labels, gathering, and the replacement of partitions by calls.

#include "Outlining.h"

#include "opprof/Analysis/Structure/DataflowOrder.h"
#include "opprof/Analysis/Structure/IdleArguments.h"
#include "opprof/Dialect/FX/IR/Provenance.h"
#include "opprof/Dialect/Prof/IR/Prof.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace opprof;
using namespace opprof::fx;

//===----------------------------------------------------------------------===//
// Labels
//===----------------------------------------------------------------------===//

static StringRef getPath(Attribute module) {
  auto entry = dyn_cast<ArrayAttr>(module);
  auto path =
      entry && !entry.empty() ? dyn_cast<StringAttr>(entry[0]) : nullptr;
  return path ? path.getValue() : "";
}

static StringRef getModuleType(Attribute module) {
  auto entry = dyn_cast<ArrayAttr>(module);
  auto type =
      entry && entry.size() > 1 ? dyn_cast<StringAttr>(entry[1]) : nullptr;
  return type ? type.getValue().rsplit('.').second.empty()
                    ? type.getValue()
                    : type.getValue().rsplit('.').second
              : "";
}

PartitionLabel opprof::fx::getPartitionLabel(StringAttr modulesKey,
                                             ArrayRef<Location> locations) {
  // Nodes of one module share one attribute, and mostly follow each other.
  llvm::SmallMapVector<ArrayAttr, unsigned, 4> counts;
  ArrayAttr previous;
  unsigned *count = nullptr;
  unsigned total = 0;
  for (Location location : locations) {
    DictionaryAttr metadata = getMetadata(location);
    auto modules =
        metadata ? metadata.getAs<ArrayAttr>(modulesKey) : ArrayAttr();
    if (!modules || modules.empty())
      continue;
    if (modules != previous)
      count = &counts[modules];
    previous = modules;
    ++*count;
    ++total;
  }
  PartitionLabel label;
  if (counts.empty())
    return label;
  ArrayRef<Attribute> common = counts.begin()->first.getValue();
  for (auto &[modules, unused] : counts) {
    size_t length = 0;
    while (length < common.size() && length < modules.size() &&
           common[length] == modules[length])
      ++length;
    common = common.take_front(length);
  }
  if (!common.empty() && !getPath(common.back()).empty()) {
    label.path = getPath(common.back());
    label.type = getModuleType(common.back());
    label.modules = {label.path};
    return label;
  }
  // The nodes lie in several modules: those below the common one.
  llvm::SmallMapVector<Attribute, unsigned, 4> outermost;
  for (auto &[modules, number] : counts)
    if (modules.size() > common.size())
      outermost[modules[common.size()]] += number;
  // Those that give the partition its name; the others are what a neighbour
  // gave or takes.
  unsigned largest = 0;
  for (auto &[module, number] : outermost) {
    label.modules.push_back(getPath(module).str());
    largest = std::max(largest, number);
  }
  SmallVector<Attribute> covered;
  for (auto &[module, number] : outermost)
    if (4 * number >= largest && !getPath(module).empty())
      covered.push_back(module);
  bool areOfOneType = llvm::all_of(covered, [&](Attribute module) {
    return getModuleType(module) == getModuleType(covered.front());
  });
  if (covered.empty())
    return label;
  if (covered.size() == 1 ? 2 * largest > total : areOfOneType) {
    label.path = getPath(covered.front());
    label.type = getModuleType(covered.front());
    if (covered.size() > 1)
      label.path +=
          ((covered.size() == 2 ? "+" : "..") + getPath(covered.back())).str();
  }
  return label;
}

//===----------------------------------------------------------------------===//
// Gathering
//===----------------------------------------------------------------------===//

static bool isSideBySide(const Partition &partition) {
  if (partition.isSideBySide)
    return true;
  Operation *expected = partition.nodes.front();
  for (Operation *node : partition.nodes) {
    if (node != expected)
      return false;
    expected = node->getNextNode();
  }
  return true;
}

void opprof::fx::gatherPartitions(GraphOp graph,
                                  ArrayRef<PartitionClass> classes,
                                  bool followDataflow) {
  bool areGathered = true;
  for (const PartitionClass &repeated : classes)
    for (const Partition &partition : repeated.partitions)
      areGathered = areGathered && isSideBySide(partition);
  if (areGathered)
    return;
  Block &block = graph.getBlock();
  llvm::DenseMap<Operation *, int64_t> recorded;
  for (Operation &op : block.without_terminator())
    recorded.try_emplace(&op, recorded.size());
  if (followDataflow) {
    for (Operation *node : getDataflowOrder(graph))
      node->moveBefore(block.getTerminator());
  }
  // What still lies between names a weight, and depends on nothing.
  for (const PartitionClass &repeated : classes)
    for (const Partition &partition : repeated.partitions) {
      Operation *current = partition.nodes.front();
      for (Operation *node : partition.nodes) {
        while (current != node) {
          Operation *between = current;
          current = current->getNextNode();
          between->moveBefore(partition.nodes.front());
        }
        current = current->getNextNode();
      }
    }
  SmallVector<int64_t> order;
  for (Operation &op : block.without_terminator())
    order.push_back(recorded.lookup(&op));
  graph->setDiscardableAttr(kRecordedOrderAttr,
                            DenseI64ArrayAttr::get(graph.getContext(), order));
}

//===----------------------------------------------------------------------===//
// Outlining
//===----------------------------------------------------------------------===//

/// As many origins as a node of an outlined graph names: its location stays
/// small however often the graph is called.
static constexpr unsigned kMaxOrigins = 4;

/// "h.0.attn.weight" inside "h.0" gives attn_weight.
static std::string getInputName(Value input, StringRef path) {
  auto argument = dyn_cast<BlockArgument>(input);
  auto graph = argument ? dyn_cast<GraphOp>(argument.getOwner()->getParentOp())
                        : GraphOp();
  StringRef target;
  if (graph)
    target = graph.getInputTarget(argument.getArgNumber());
  if (auto node = input.getDefiningOp<NodeOp>())
    if (node.getKind() == NodeKind::get_attr)
      target = node.getTarget();
  if (target.empty() || path.empty() || !target.consume_front(path) ||
      !target.consume_front("."))
    return "input";
  std::string name;
  for (char c : target)
    name += llvm::isAlnum(c) ? c : '_';
  return name;
}

static SmallVector<Location> getInputLocations(const Partition &partition,
                                               StringRef path) {
  llvm::StringSet<> taken;
  SmallVector<Location> locations;
  for (Value input : partition.inputs) {
    std::string wanted = getInputName(input, path), name = wanted;
    for (unsigned i = 1; !taken.insert(name).second; ++i)
      name = wanted + "_" + std::to_string(i);
    locations.push_back(
        NameLoc::get(StringAttr::get(input.getContext(), name)));
  }
  return locations;
}

/// The user's line of the first node of a partition, or unknown.
static Location getPlace(const Partition &partition) {
  Location first = partition.nodes.front()->getLoc();
  if (FileLineColLoc line = getUserFrame(first))
    return line;
  return UnknownLoc::get(first.getContext());
}

/// The discardable attributes of the nodes, or null where none has any.
static ArrayAttr getInstanceAttributes(MLIRContext *context,
                                       const Partition &partition) {
  if (llvm::all_of(partition.nodes, [](Operation *node) {
        return node->getDiscardableAttrs().empty();
      }))
    return {};
  SmallVector<Attribute> attributes;
  for (Operation *node : partition.nodes)
    attributes.push_back(node->getDiscardableAttrDictionary());
  return ArrayAttr::get(context, attributes);
}

/// The result types of the nodes, or null where they are those of the class's
/// first partition, up to the names of symbols.
static ArrayAttr getInstanceTypes(MLIRContext *context, const Partition &first,
                                  const Partition &partition) {
  bool areSame =
      llvm::all_of(llvm::zip(first.nodes, partition.nodes), [&](auto pair) {
        Type type = std::get<0>(pair)->getResult(0).getType();
        Type other = std::get<1>(pair)->getResult(0).getType();
        return type == other ||
               renameSymbols(type, partition.renaming.symbols) == other;
      });
  if (areSame)
    return {};
  SmallVector<Attribute> types;
  for (Operation *node : partition.nodes)
    types.push_back(TypeAttr::get(node->getResult(0).getType()));
  return ArrayAttr::get(context, types);
}

/// The arguments of nodes that differ from those of the class's first partition
/// in what has no effect, or null where none does.
static ArrayAttr getInstanceArguments(MLIRContext *context,
                                      const Partition &first,
                                      const Partition &partition) {
  SmallVector<Attribute> arguments;
  bool areSame = true;
  for (auto [op, other] : llvm::zip(first.nodes, partition.nodes)) {
    auto node = cast<NodeOp>(op), otherNode = cast<NodeOp>(other);
    bool differs =
        node.getArgsAttr() != otherNode.getArgsAttr() && getIdleArgument(node);
    areSame &= !differs;
    arguments.push_back(differs ? Attribute(otherNode.getArgsAttr())
                                : UnitAttr::get(context));
  }
  return areSame ? ArrayAttr() : ArrayAttr::get(context, arguments);
}

/// The private graph of a class, still empty, with an argument for each input.
static GraphOp createGraph(GraphOp graph, const PartitionClass &repeated,
                           const ClassNames &names, Operation *after,
                           SymbolTable &symbols) {
  OpBuilder builder(graph.getContext());
  const Partition &first = repeated.partitions.front();
  SmallVector<Type> inputTypes, outputTypes;
  for (Value input : first.inputs)
    inputTypes.push_back(input.getType());
  for (auto [node, result] : repeated.outputs)
    outputTypes.push_back(first.nodes[node]->getResult(result).getType());
  GraphOp outlined = GraphOp::create(
      builder,
      NameLoc::get(builder.getStringAttr(names.graph), getPlace(first)),
      names.graph, builder.getFunctionType(inputTypes, outputTypes));
  outlined.setPrivate();
  outlined.setFunctional(graph.getFunctional());
  symbols.insert(outlined, std::next(Block::iterator(after)));
  builder.createBlock(&outlined.getBody(), {}, inputTypes,
                      getInputLocations(first, names.labels.front()));
  return outlined;
}

namespace {
/// Makes the calls of a graph. There are many, and each makes attributes that
/// no other one has; what they share is looked up once.
class CallMaker {
public:
  explicit CallMaker(MLIRContext *context)
      : context(context), partitionKey(StringAttr::get(
                              context, prof::ProfDialect::kPartitionAttr)) {}

  CallOp make(FlatSymbolRefAttr callee, const PartitionClass &repeated,
              const Partition &partition, StringRef label, prof::Role role);

private:
  Location getLocation(const Partition &partition);
  void addRenaming(const Renaming &renaming, NamedAttrList &attributes);

  MLIRContext *context;
  StringAttr partitionKey;
};
} // namespace

Location CallMaker::getLocation(const Partition &partition) {
  SmallVector<Attribute> instance;
  instance.reserve(partition.nodes.size());
  for (Operation *node : partition.nodes)
    instance.push_back(LocationAttr(node->getLoc()));
  return getInstanceLocation(getPlace(partition),
                             ArrayAttr::get(context, instance));
}

void CallMaker::addRenaming(const Renaming &renaming,
                            NamedAttrList &attributes) {
  Builder builder(context);
  NamedAttrList symbols, graphs;
  for (const auto &entry : renaming.symbols)
    if (entry.getKey() != entry.getValue())
      symbols.set(entry.getKey(), builder.getStringAttr(entry.getValue()));
  for (auto [name, other] : renaming.graphs)
    if (name != other)
      graphs.set(name, FlatSymbolRefAttr::get(other));
  if (!symbols.empty())
    attributes.set(kRenamedSymbolsAttr, symbols.getDictionary(context));
  if (!graphs.empty())
    attributes.set(kRenamedGraphsAttr, graphs.getDictionary(context));
}

CallOp CallMaker::make(FlatSymbolRefAttr callee, const PartitionClass &repeated,
                       const Partition &partition, StringRef label,
                       prof::Role role) {
  OpBuilder builder(context);
  builder.setInsertionPoint(partition.nodes.front());
  SmallVector<Type> types;
  for (auto [node, result] : repeated.outputs)
    types.push_back(partition.nodes[node]->getResult(result).getType());
  auto call = CallOp::create(builder, getLocation(partition), types, callee,
                             ValueRange(partition.inputs),
                             /*arg_attrs=*/nullptr, /*res_attrs=*/nullptr);
  NamedAttrList attributes;
  attributes.set(partitionKey, prof::PartitionAttr::get(context, label, role));
  if (ArrayAttr given = getInstanceAttributes(context, partition))
    attributes.set(kInstanceAttributesAttr, given);
  if (!partition.isIdentical) {
    const Partition &first = repeated.partitions.front();
    if (ArrayAttr types = getInstanceTypes(context, first, partition))
      attributes.set(kInstanceTypesAttr, types);
    if (ArrayAttr arguments = getInstanceArguments(context, first, partition))
      attributes.set(kInstanceArgumentsAttr, arguments);
    addRenaming(partition.renaming, attributes);
  }
  call->setDiscardableAttrs(attributes.getDictionary(context));
  return call;
}

/// Moves the nodes of the first partition into the class's graph.
static void fillGraph(GraphOp outlined, const PartitionClass &repeated) {
  MLIRContext *context = outlined.getContext();
  const Partition &first = repeated.partitions.front();
  Block *body = &outlined.getBlock();
  SmallVector<SmallVector<Location, kMaxOrigins>> origins(first.nodes.size());
  for (const Partition &partition :
       llvm::ArrayRef(repeated.partitions).take_front(kMaxOrigins))
    for (auto [node, locations] : llvm::zip(partition.nodes, origins))
      locations.push_back(node->getLoc());
  llvm::DenseMap<Value, Value> arguments;
  for (auto [input, argument] : llvm::zip(first.inputs, body->getArguments()))
    arguments[input] = argument;
  for (auto [node, locations] : llvm::zip(first.nodes, origins)) {
    node->moveBefore(body, body->end());
    node->setLoc(FusedLoc::get(context, locations));
    for (OpOperand &operand : node->getOpOperands())
      if (Value argument = arguments.lookup(operand.get()))
        operand.set(argument);
  }
  SmallVector<Value> outputs;
  for (auto [node, result] : repeated.outputs)
    outputs.push_back(first.nodes[node]->getResult(result));
  OpBuilder builder = OpBuilder::atBlockEnd(body);
  OutputOp::create(builder, outlined.getLoc(), outputs);
}

SmallVector<GraphOp>
opprof::fx::outlineClasses(GraphOp graph,
                           MutableArrayRef<PartitionClass> classes,
                           ArrayRef<ClassNames> names, SymbolTable &symbols) {
  // All calls are there before the first node goes: a partition may take what
  // one of another class gives.
  SmallVector<GraphOp> graphs;
  SmallVector<SmallVector<std::pair<CallOp, Partition *>>> calls(
      classes.size());
  CallMaker maker(graph.getContext());
  Operation *after = graph;
  for (auto [repeated, given, made] : llvm::zip(classes, names, calls)) {
    // The first partition of a graph that is there is all of it.
    bool isNew = !repeated.graph;
    graphs.push_back(isNew ? createGraph(graph, repeated, given, after, symbols)
                           : repeated.graph);
    if (isNew)
      after = graphs.back();
    auto callee = FlatSymbolRefAttr::get(graphs.back().getSymNameAttr());
    for (auto [index, partition] : llvm::enumerate(repeated.partitions))
      if (isNew || index != 0)
        made.emplace_back(
            maker.make(callee, repeated, partition, given.labels[index],
                       index == 0 ? prof::Role::unique : prof::Role::duplicate),
            &partition);
  }
  for (auto [repeated, outlined] : llvm::zip(classes, graphs))
    if (!repeated.graph)
      fillGraph(outlined, repeated);
  for (auto [repeated, outlined, made] : llvm::zip(classes, graphs, calls)) {
    Block *body = &outlined.getBlock();
    for (auto [call, partition] : made)
      for (auto [output, value] :
           llvm::zip(repeated.outputs, call.getResults())) {
        Value result = partition->nodes[output.first]->getResult(output.second);
        result.replaceUsesWithIf(value, [&](OpOperand &use) {
          return use.getOwner()->getBlock() != body;
        });
      }
  }
  for (PartitionClass &repeated : classes)
    for (Partition &partition :
         llvm::MutableArrayRef(repeated.partitions).drop_front()) {
      for (Operation *node : llvm::reverse(partition.nodes))
        node->erase();
      partition.nodes.clear();
    }
  return graphs;
}
