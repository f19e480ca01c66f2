// --dedup-partitions: each repeated subgraph once.

#include "Outlining.h"

#include "opprof/Analysis/Structure/RepeatedSubgraphs.h"
#include "opprof/Analysis/Structure/StructuralHash.h"
#include "opprof/Dialect/FX/IR/Names.h"
#include "opprof/Dialect/FX/IR/NodeSymbols.h"
#include "opprof/Dialect/FX/IR/Provenance.h"
#include "opprof/Dialect/FX/Transforms/Passes.h"
#include "opprof/Support/OutputFile.h"
#include "opprof/Support/PartitionMap.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <deque>
#include <map>

namespace opprof::fx {
#define GEN_PASS_DEF_DEDUPPARTITIONSPASS
#include "opprof/Dialect/FX/Transforms/Passes.h.inc"
} // namespace opprof::fx

using namespace mlir;
using namespace opprof;
using namespace opprof::fx;

namespace {

/// The nodes of one partition as they were: outlining takes the nodes away, and
/// nested partitions, labels and the map still need this.
struct Instance {
  std::string label;
  /// Of the nodes, and behind them of those in their blocks.
  std::vector<Location> locations;
  std::vector<std::string> names;
};

/// A class that has become a graph.
struct Outlined {
  GraphOp graph;
  std::string id;
  std::vector<Instance> instances;
  MappedClass mapped;
  /// The user's line that the first instance begins with.
  Location place;

  explicit Outlined(Location place) : place(place) {}
};

/// How many classes the graphs of the module have had so far: ids go on from
/// graph to graph.
struct Numbers {
  unsigned classes = 0, weakClasses = 0;
};

/// In which order of a graph's nodes its outermost repeats are looked for.
enum class SearchOrder { Recorded, Dataflow, WhicheverSavesMore };

/// Dedups one graph.
class Deduplicator {
public:
  /// The map names nodes where `keepsNames`.
  Deduplicator(GraphOp graph, const DedupPartitionsPassOptions &request,
               SearchOrder order, bool keepsNames, SymbolTable &symbols,
               Numbers &numbers);

  void run();
  /// Says what is equal but for shapes.
  void reportWeakClasses();
  /// Says what was found.
  void report();
  PartitionMap takeMap();

private:
  std::vector<PartitionClass> findOutermost(bool &followsDataflow);
  /// Outlines what repeats in the graph and, behind the outermost level, in its
  /// classes; false where nothing does.
  bool dedupLevel(unsigned level);
  /// Outlines what repeats in the blocks that nodes hold; false where nothing
  /// does.
  bool dedupBlocks();
  void outline(MutableArrayRef<PartitionClass> found, bool isSearchedAgain);
  Outlined &getOutlined(const PartitionClass &repeated);
  /// Adds an instance for each place in the graph of every new partition.
  void addInstances(const PartitionClass &repeated, Outlined &result,
                    ClassNames &given);
  void addInstance(const Partition &partition, const Outlined *parent,
                   const Instance *outer, unsigned index, Outlined &result,
                   ClassNames &given);
  std::string claimLabel(StringRef wanted);
  RepeatOptions options() const;

  GraphOp graph;
  const DedupPartitionsPassOptions &request;
  SearchOrder order;
  SymbolTable &symbols;
  Numbers &numbers;
  StringAttr modulesKey;
  /// Names of the graph, where a map is written.
  std::optional<GraphNames> names;
  SearchedNodes searched;
  PartitionMap map;
  /// In the order of their ids; they stay where they are.
  std::deque<Outlined> classes;
  /// The class that a graph is.
  llvm::DenseMap<Operation *, Outlined *> classOf;
  /// The place of a node in the class whose graph it is in.
  llvm::DenseMap<Operation *, unsigned> placeInClass;
  llvm::StringMap<unsigned> labelCounts;
};

struct DedupPartitionsPass
    : public opprof::fx::impl::DedupPartitionsPassBase<DedupPartitionsPass> {
  using Base::Base;

  void runOnOperation() override;

private:
  /// Refuses a map that cannot be written, and warns of graphs that are missed.
  LogicalResult check();
};

} // namespace

Deduplicator::Deduplicator(GraphOp graph,
                           const DedupPartitionsPassOptions &request,
                           SearchOrder order, bool keepsNames,
                           SymbolTable &symbols, Numbers &numbers)
    : graph(graph), request(request), order(order), symbols(symbols),
      numbers(numbers),
      modulesKey(StringAttr::get(graph.getContext(), kModulesKey)) {
  NodeId id = getGraphId(graph);
  map.graph = std::move(id.graph);
  map.stage = std::move(id.stage);
  if (keepsNames)
    names.emplace(graph);
}

RepeatOptions Deduplicator::options() const {
  RepeatOptions options;
  options.minNodes = std::max(1u, request.minNodes);
  options.minRepeats = std::max(2u, request.minRepeats);
  return options;
}

/// The nodes, and behind them those in their blocks.
static void forEachNode(ArrayRef<Operation *> nodes,
                        llvm::function_ref<void(Operation *)> visit) {
  bool hasBlocks = false;
  for (Operation *node : nodes) {
    visit(node);
    hasBlocks |= node->getNumRegions() != 0;
  }
  if (!hasBlocks)
    return;
  for (Operation *node : nodes)
    for (Region &region : node->getRegions())
      region.walk<WalkOrder::PreOrder>([&](NodeOp inner) { visit(inner); });
}

std::string Deduplicator::claimLabel(StringRef wanted) {
  unsigned count = ++labelCounts[wanted];
  if (count == 1)
    return wanted.str();
  return claimLabel((wanted + "#" + Twine(count)).str());
}

void Deduplicator::addInstance(const Partition &partition,
                               const Outlined *parent, const Instance *outer,
                               unsigned index, Outlined &result,
                               ClassNames &given) {
  Instance instance;
  size_t numNodes = partition.nodes.size();
  instance.locations.reserve(numNodes);
  forEachNode(partition.nodes, [&](Operation *node) {
    instance.locations.push_back(
        outer ? outer->locations[placeInClass.lookup(node)] : node->getLoc());
    if (names)
      instance.names.push_back(outer ? outer->names[placeInClass.lookup(node)]
                                     : names->lookup(node->getResult(0)).str());
  });
  PartitionLabel label = getPartitionLabel(
      modulesKey, ArrayRef(instance.locations).take_front(numNodes));
  std::string fallback = result.id + "." + std::to_string(index);
  std::string wanted = label.path;
  if (wanted.empty() || (outer && wanted == outer->label))
    wanted = outer ? outer->label + "." + fallback : fallback;
  instance.label = claimLabel(wanted);
  if (given.graph.empty())
    given.graph = label.type;
  if (!outer || outer == &parent->instances.front()) {
    // Inside its parent's range a nested one is called by what is left.
    StringRef shown = instance.label;
    if (outer && shown.consume_front(outer->label))
      shown.consume_front(".");
    given.labels.push_back(shown.empty() ? instance.label : shown.str());
  }
  MappedPartition &place = result.mapped.partitions.emplace_back();
  place.label = instance.label;
  place.isUnique = result.instances.empty();
  place.parent = parent ? parent->id : "";
  place.modules = std::move(label.modules);
  if (names)
    for (const std::string &name :
         ArrayRef(instance.names).take_front(numNodes))
      place.nodes.push_back({map.graph, map.stage, name});
  if (!names && request.levels < 2 && !searched.hasBlocks)
    instance.locations = {};
  result.instances.push_back(std::move(instance));
}

void Deduplicator::addInstances(const PartitionClass &repeated,
                                Outlined &result, ClassNames &given) {
  // Partitions in one class stand for as many places as it has instances: they
  // come instance by instance.
  ArrayRef<Partition> partitions(repeated.partitions);
  unsigned index = 0;
  if (repeated.graph) {
    partitions = partitions.drop_front();
    index = result.instances.size();
    given.labels.push_back("");
  }
  while (!partitions.empty()) {
    auto getParent = [&](const Partition &partition) {
      return classOf.lookup(
          partition.nodes.front()->getParentOfType<GraphOp>());
    };
    Outlined *parent = getParent(partitions.front());
    ArrayRef<Partition> together =
        partitions.take_while([&](const Partition &partition) {
          return getParent(partition) == parent;
        });
    // A class may be nested in one that gets instances at the same level.
    for (unsigned outer = 0, e = parent ? parent->instances.size() : 1;
         outer != e; ++outer)
      for (auto [number, partition] : llvm::enumerate(together))
        addInstance(partition, parent,
                    parent ? &parent->instances[outer] : nullptr,
                    index + number, result, given);
    index += together.size();
    partitions = partitions.drop_front(together.size());
  }
  if (given.graph.empty())
    given.graph = "partition";
}

/// The class that outlining makes of what was found, or adds to.
Outlined &Deduplicator::getOutlined(const PartitionClass &repeated) {
  if (repeated.graph)
    return *classOf.lookup(repeated.graph);
  const Partition &first = repeated.partitions.front();
  FileLineColLoc line = getUserFrame(first.nodes.front()->getLoc());
  classes.emplace_back(line ? Location(line) : graph.getLoc());
  Outlined &result = classes.back();
  result.id = "c" + std::to_string(numbers.classes++);
  result.mapped.id = result.id;
  result.mapped.hash = StructuralHash::toText(repeated.hash);
  result.mapped.nodeCount = first.nodes.size();
  return result;
}

/// How many nodes are not needed a second time.
static size_t countSaved(ArrayRef<PartitionClass> classes) {
  size_t saved = 0;
  for (const PartitionClass &repeated : classes)
    saved += (repeated.partitions.size() - 1) *
             repeated.partitions.front().nodes.size();
  return saved;
}

/// For each node of a graph, in their order, a number that it shares with those
/// that it is merged with.
using MergedNodes = std::vector<unsigned>;

static MergedNodes getMergedNodes(GraphOp graph,
                                  ArrayRef<PartitionClass> classes) {
  llvm::DenseMap<Operation *, unsigned> numbers;
  MergedNodes merged;
  for (NodeOp node : graph.getBlock().getOps<NodeOp>()) {
    numbers[node] = merged.size();
    merged.push_back(merged.size());
  }
  for (const PartitionClass &repeated : classes)
    for (const Partition &partition : repeated.partitions)
      for (auto [node, first] :
           llvm::zip_equal(partition.nodes, repeated.partitions.front().nodes))
        merged[numbers.at(node)] = numbers.at(first);
  return merged;
}

/// Whether all modules that are merged in `first`, node by node, are so in
/// `second`.
static bool keepsModules(GraphOp graph, const MergedNodes &first,
                         const MergedNodes &second) {
  // By path, as the graph's nodes stand.
  llvm::MapVector<StringRef, std::vector<unsigned>> nodesOf;
  unsigned number = 0;
  for (NodeOp node : graph.getBlock().getOps<NodeOp>()) {
    DictionaryAttr metadata = getMetadata(node.getLoc());
    auto modules =
        metadata ? metadata.getAs<ArrayAttr>(kModulesKey) : ArrayAttr();
    for (Attribute module :
         modules ? modules.getValue() : ArrayRef<Attribute>())
      if (auto entry = dyn_cast<ArrayAttr>(module); entry && !entry.empty())
        if (auto path = dyn_cast<StringAttr>(entry[0]))
          if (std::vector<unsigned> &nodes = nodesOf[path.getValue()];
              nodes.empty() || nodes.back() != number)
            nodes.push_back(number);
    ++number;
  }
  std::map<std::vector<unsigned>, std::vector<unsigned>> groups;
  return llvm::all_of(nodesOf, [&](const auto &entry) {
    auto get = [&](const MergedNodes &merged) {
      return llvm::map_to_vector(entry.second,
                                 [&](unsigned node) { return merged[node]; });
    };
    auto wanted = get(first), found = get(second);
    auto [group, isNew] = groups.try_emplace({wanted.begin(), wanted.end()},
                                             found.begin(), found.end());
    return isNew || llvm::equal(group->second, found);
  });
}

/// The outermost repeats: those of the dataflow's order or of the recorded one,
/// whichever was asked for, or save more and lose no module.
std::vector<PartitionClass> Deduplicator::findOutermost(bool &followsDataflow) {
  RepeatOptions wanted = options();
  wanted.areNested = request.levels > 1;
  StructuralHash hash;
  std::vector<PartitionClass> recorded;
  followsDataflow = order != SearchOrder::Recorded;
  if (order != SearchOrder::Dataflow)
    recorded = findRepeatedSubgraphs(graph, wanted, hash, &searched);
  if (!followsDataflow)
    return recorded;
  wanted.equivalence.ignoreOrder = true;
  std::vector<PartitionClass> ordered =
      findRepeatedSubgraphs(graph, wanted, hash, &searched);
  // Of two that save as many nodes, the one of fewer classes.
  auto isBetter = [](ArrayRef<PartitionClass> first,
                     ArrayRef<PartitionClass> second) {
    size_t saved = countSaved(first), other = countSaved(second);
    return saved > other || (saved == other && first.size() < second.size());
  };
  if (order == SearchOrder::WhicheverSavesMore &&
      (isBetter(recorded, ordered) ||
       !keepsModules(graph, getMergedNodes(graph, recorded),
                     getMergedNodes(graph, ordered)))) {
    followsDataflow = false;
    return recorded;
  }
  return ordered;
}

bool Deduplicator::dedupLevel(unsigned level) {
  std::vector<PartitionClass> found;
  if (level == 0) {
    bool followsDataflow;
    found = findOutermost(followsDataflow);
    gatherPartitions(graph, found, followsDataflow);
  } else {
    SmallVector<GraphOp> graphs = {graph};
    for (const Outlined &outlined : classes)
      graphs.push_back(outlined.graph);
    StructuralHash hash;
    RepeatOptions wanted = options();
    wanted.areNested = level + 1 < request.levels;
    found = findRepeatedSubgraphs(graphs, wanted, hash);
  }
  outline(found, level + 1 < request.levels || searched.hasBlocks);
  return !found.empty();
}

bool Deduplicator::dedupBlocks() {
  if (!searched.hasBlocks)
    return false;
  bool isAnyFound = false;
  SmallVector<Block *> outer = {&graph.getBlock()};
  size_t numSeen = 0;
  // Blocks are searched with those of the same depth, the outer ones first.
  while (true) {
    SmallVector<GraphOp> graphs;
    for (auto [index, outlined] : llvm::enumerate(classes)) {
      graphs.push_back(outlined.graph);
      if (index >= numSeen)
        outer.push_back(&outlined.graph.getBlock());
    }
    numSeen = classes.size();
    SmallVector<Block *> inner;
    for (Block *block : outer)
      for (auto node : block->getOps<NodeOp>())
        for (Region &region : node.getBlocks())
          inner.push_back(&region.front());
    if (inner.empty())
      return isAnyFound;
    StructuralHash hash;
    std::vector<PartitionClass> found =
        findRepeatedSubgraphs(inner, graphs, options(), hash);
    outline(found, /*isSearchedAgain=*/true);
    isAnyFound |= !found.empty();
    outer = std::move(inner);
  }
}

/// Makes graphs of what was found, and calls in its places.
void Deduplicator::outline(MutableArrayRef<PartitionClass> found,
                           bool isSearchedAgain) {
  // What lies in a known class has a place in each of its places, the new ones
  // among them.
  std::stable_partition(
      found.begin(), found.end(),
      [](const PartitionClass &repeated) { return bool(repeated.graph); });
  std::vector<ClassNames> classNames;
  std::vector<Outlined *> outlined;
  for (const PartitionClass &repeated : found) {
    outlined.push_back(&getOutlined(repeated));
    addInstances(repeated, *outlined.back(), classNames.emplace_back());
  }
  SmallVector<GraphOp> graphs =
      outlineClasses(graph, found, classNames, symbols);
  for (auto [result, made] : llvm::zip(outlined, graphs)) {
    result->graph = made;
    bool isNew = classOf.try_emplace(made, result).second;
    if (!isNew || !isSearchedAgain)
      continue;
    SmallVector<Operation *> inside;
    for (Operation &node : made.getBlock().without_terminator())
      inside.push_back(&node);
    unsigned place = 0;
    forEachNode(inside, [&](Operation *node) { placeInClass[node] = place++; });
  }
}

void Deduplicator::run() {
  bool isFound = dedupLevel(0);
  isFound |= dedupBlocks();
  for (unsigned level = 1; isFound && level < request.levels; ++level)
    isFound = dedupLevel(level);
  map.nodeCount = searched.numNodes;
}

PartitionMap Deduplicator::takeMap() {
  for (Outlined &outlined : classes) {
    outlined.mapped.parent = outlined.mapped.partitions.front().parent;
    map.classes.push_back(std::move(outlined.mapped));
  }
  return std::move(map);
}

/// Subgraphs equal but for shapes, of which not all are the same.
void Deduplicator::reportWeakClasses() {
  RepeatOptions wanted = options();
  wanted.equivalence.ignoreShapes = true;
  StructuralHash hash(wanted.equivalence);
  for (PartitionClass &weak : findRepeatedSubgraphs(graph, wanted, hash)) {
    MappedWeakClass mapped;
    std::string id = "w" + std::to_string(numbers.weakClasses);
    std::vector<Subgraph> parts;
    llvm::StringSet<> kinds;
    for (auto [index, partition] : llvm::enumerate(weak.partitions)) {
      SmallVector<Location> locations;
      for (Operation *node : partition.nodes)
        locations.push_back(node->getLoc());
      std::string label = getPartitionLabel(modulesKey, locations).path;
      if (label.empty())
        label = id + "." + std::to_string(index);
      mapped.partitions.push_back(label);
      Subgraph part;
      part.nodes.assign(partition.nodes.begin(), partition.nodes.end());
      part.inputs.assign(partition.inputs.begin(), partition.inputs.end());
      for (auto [node, result] : weak.outputs)
        part.outputs.push_back(partition.nodes[node]->getResult(result));
      parts.push_back(std::move(part));
      if (index == 0)
        continue;
      for (const Difference &difference :
           findDifferences(parts.front(), parts.back()))
        if (kinds.insert(stringifyDifferenceKind(difference.kind)).second)
          mapped.differIn.push_back(
              stringifyDifferenceKind(difference.kind).str());
    }
    if (mapped.differIn.empty())
      continue;
    mapped.id = id;
    ++numbers.weakClasses;
    FileLineColLoc line =
        getUserFrame(weak.partitions.front().nodes.front()->getLoc());
    mlir::emitRemark(line ? Location(line) : graph.getLoc())
        << "@" << graph.getSymName() << ": equal but for "
        << llvm::join(mapped.differIn, ", ")
        << ", and so not merged: " << weak.partitions.size()
        << " partitions of " << weak.partitions.front().nodes.size()
        << " nodes, " << mapped.partitions.front() << " … "
        << mapped.partitions.back();
    map.weakClasses.push_back(std::move(mapped));
  }
}

void Deduplicator::report() {
  if (classes.empty()) {
    mlir::emitRemark(graph.getLoc())
        << "@" << graph.getSymName() << ", " << searched.numNodes
        << " nodes: no subgraph of at least " << request.minNodes
        << " nodes is repeated";
    return;
  }
  unsigned numPartitions = 0;
  uint64_t numNodesSaved = 0;
  for (const Outlined &outlined : classes)
    for (const MappedPartition &partition : outlined.mapped.partitions) {
      if (!partition.parent.empty())
        continue;
      ++numPartitions;
      numNodesSaved += partition.isUnique ? 0 : outlined.mapped.nodeCount;
    }
  InFlightDiagnostic remark =
      mlir::emitRemark(graph.getLoc())
      << "@" << graph.getSymName() << ", " << searched.numNodes
      << " nodes: " << numPartitions << " partitions in " << classes.size()
      << (classes.size() == 1 ? " class, " : " classes, ") << numNodesSaved
      << " nodes saved";
  constexpr size_t kMaxShown = 20;
  for (Outlined &outlined : llvm::make_range(
           classes.begin(),
           classes.begin() + std::min(kMaxShown, classes.size()))) {
    Diagnostic &note = remark.attachNote(outlined.place);
    const std::vector<Instance> &instances = outlined.instances;
    note << outlined.id << " @" << outlined.graph.getSymName() << ", "
         << outlined.mapped.nodeCount << " nodes: " << instances.front().label;
    note << (instances.size() > 2 ? " … " : ", ") << instances.back().label
         << ": 1 unique, " << instances.size() - 1
         << (instances.size() == 2 ? " duplicate" : " duplicates");
  }
  if (classes.size() > kMaxShown)
    remark.attachNote() << "and " << classes.size() - kMaxShown
                        << " more classes";
}

/// Merges all levels of a copy of `graph`.
static MergedNodes tryOrder(GraphOp graph,
                            const DedupPartitionsPassOptions &options,
                            SearchOrder order) {
  OwningOpRef<ModuleOp> copy = graph->getParentOfType<ModuleOp>().clone();
  SymbolTable symbols(*copy);
  Numbers numbers;
  Deduplicator dedup(symbols.lookup<GraphOp>(graph.getSymName()), options,
                     order, /*keepsNames=*/true, symbols, numbers);
  dedup.run();
  UniquePlaces places(dedup.takeMap());
  GraphNames names(graph);
  NodeId id = getGraphId(graph);
  llvm::StringMap<unsigned> firsts;
  MergedNodes merged;
  for (NodeOp node : graph.getBlock().getOps<NodeOp>()) {
    id.name = names.lookup(node.getResult()).str();
    merged.push_back(firsts
                         .try_emplace(places.representative(id).name,
                                      static_cast<unsigned>(merged.size()))
                         .first->second);
  }
  return merged;
}

/// How many nodes are left of those that are merged.
static size_t countLeft(const MergedNodes &merged) {
  return llvm::DenseSet<unsigned>(merged.begin(), merged.end()).size();
}

/// Where classes are looked into, only trying tells which order leaves less.
static SearchOrder chooseOrder(GraphOp graph,
                               const DedupPartitionsPassOptions &options) {
  if (!options.anyOrder)
    return SearchOrder::Recorded;
  if (options.levels < 2)
    return SearchOrder::WhicheverSavesMore;
  MergedNodes recorded = tryOrder(graph, options, SearchOrder::Recorded);
  MergedNodes ordered = tryOrder(graph, options, SearchOrder::Dataflow);
  // Of two that leave as many nodes, the recorded one: what is found without
  // `any-order` is found with it. A few nodes less are not worth a module, of
  // which a border of the other order went through the midst.
  return countLeft(ordered) < countLeft(recorded) &&
                 keepsModules(graph, recorded, ordered)
             ? SearchOrder::Dataflow
             : SearchOrder::Recorded;
}

std::vector<PartitionMap>
opprof::fx::dedupPartitions(ModuleOp module,
                            const DedupPartitionsPassOptions &options) {
  SymbolTable symbols(module);
  Numbers numbers;
  std::vector<PartitionMap> maps;
  for (GraphOp graph : llvm::make_early_inc_range(module.getOps<GraphOp>())) {
    if (graph.isPrivate())
      continue;
    Deduplicator dedup(graph, options, chooseOrder(graph, options),
                       /*keepsNames=*/!options.partitionMap.empty(), symbols,
                       numbers);
    if (options.mode == DedupMode::IgnoreShapes)
      dedup.reportWeakClasses();
    dedup.run();
    dedup.report();
    maps.push_back(dedup.takeMap());
  }
  return maps;
}

LogicalResult DedupPartitionsPass::check() {
  ModuleOp module = getOperation();
  // Modules side by side are worked on at the same time.
  if (!partitionMap.empty() && module->getParentOp())
    return mlir::emitError(module.getLoc())
           << "a partition map is of the outermost module: those of modules in "
              "it would overwrite one another";
  bool holdsModules = !module.getOps<ModuleOp>().empty();
  if (holdsModules && module.getOps<GraphOp>().empty())
    mlir::emitWarning(module.getLoc())
        << "no fx.graph is here, only modules that may hold some: run "
           "--pass-pipeline='builtin.module(builtin.module(dedup-partitions))'";
  return success();
}

void DedupPartitionsPass::runOnOperation() {
  if (failed(check()))
    return signalPassFailure();
  std::vector<PartitionMap> maps =
      dedupPartitions(getOperation(), {levels, minNodes, minRepeats, anyOrder,
                                       mode, partitionMap});
  for (const PartitionMap &map : maps)
    for (const MappedClass &mapped : map.classes)
      for (const MappedPartition &partition : mapped.partitions)
        if (partition.parent.empty()) {
          ++numPartitions;
          numNodesSaved += partition.isUnique ? 0 : mapped.nodeCount;
        }
  if (partitionMap.empty())
    return;
  if (llvm::Error error =
          writeFile(partitionMap.getValue(), [&](llvm::raw_ostream &os) {
            writePartitionMaps(maps, os);
          })) {
    mlir::emitError(getOperation().getLoc())
        << "the partition map: " << llvm::toString(std::move(error));
    signalPassFailure();
  }
}
