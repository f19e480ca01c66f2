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

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

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
  std::vector<Location> locations;
  std::vector<std::string> names;
};

/// A class that has become a graph.
struct Outlined {
  GraphOp graph;
  std::string id;
  std::vector<Instance> instances;
};

/// What is said of a class at the end.
struct Summary {
  std::string id, graphName, hash;
  unsigned numNodes = 0;
  std::vector<std::string> labels;
  /// The user's line that the first instance begins with.
  Location place;
};

/// How many classes the graphs of the module have had so far: ids go on from
/// graph to graph.
struct Numbers {
  unsigned classes = 0, weakClasses = 0;
};

/// Dedups one graph.
class Deduplicator {
public:
  Deduplicator(GraphOp graph, const DedupPartitionsPassOptions &request,
               SymbolTable &symbols, Numbers &numbers);

  void run();
  /// Says what is equal but for shapes.
  void reportWeakClasses();
  /// Says what was found.
  void report();

  PartitionMap map;

private:
  /// Outlines the repeats of `from`; `parent` is the class that it was made
  /// of, or null.
  std::vector<Outlined> dedup(GraphOp from, const Outlined *parent,
                              unsigned &numNodes);
  /// Adds an instance to `result` for each place of the class, and names them.
  void addInstances(const PartitionClass &repeated, const Outlined *parent,
                    const llvm::DenseMap<Operation *, unsigned> &placeInParent,
                    Outlined &result, MappedClass &mapped, ClassNames &given);
  std::string claimLabel(StringRef wanted);
  RepeatOptions options() const;

  GraphOp graph;
  const DedupPartitionsPassOptions &request;
  SymbolTable &symbols;
  Numbers &numbers;
  /// Names of the graph, where a map is written.
  std::optional<GraphNames> names;
  unsigned numNodes = 0, numNodesSaved = 0, numPartitions = 0;
  std::vector<Summary> summaries;
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
                           SymbolTable &symbols, Numbers &numbers)
    : graph(graph), request(request), symbols(symbols), numbers(numbers) {
  NodeId id = getGraphId(graph);
  map.graph = std::move(id.graph);
  map.stage = std::move(id.stage);
  if (!request.partitionMap.empty())
    names.emplace(graph);
}

RepeatOptions Deduplicator::options() const {
  RepeatOptions options;
  options.minNodes = std::max(1u, request.minNodes);
  options.minRepeats = std::max(2u, request.minRepeats);
  return options;
}

std::string Deduplicator::claimLabel(StringRef wanted) {
  unsigned count = ++labelCounts[wanted];
  if (count == 1)
    return wanted.str();
  return claimLabel((wanted + "#" + Twine(count)).str());
}

void Deduplicator::addInstances(
    const PartitionClass &repeated, const Outlined *parent,
    const llvm::DenseMap<Operation *, unsigned> &placeInParent,
    Outlined &result, MappedClass &mapped, ClassNames &given) {
  bool keepsInstances = names || request.levels > 1;
  // A nested partition stands for one place in each instance of its parent.
  unsigned numOuter = parent ? parent->instances.size() : 1;
  for (unsigned outer = 0; outer != numOuter; ++outer) {
    const Instance *outerInstance =
        parent ? &parent->instances[outer] : nullptr;
    for (auto [index, partition] : llvm::enumerate(repeated.partitions)) {
      Instance instance;
      instance.locations.reserve(partition.nodes.size());
      for (Operation *node : partition.nodes) {
        instance.locations.push_back(
            outerInstance ? outerInstance->locations[placeInParent.lookup(node)]
                          : node->getLoc());
        if (!names)
          continue;
        instance.names.push_back(
            outerInstance ? outerInstance->names[placeInParent.lookup(node)]
                          : names->lookup(node->getResult(0)).str());
      }
      PartitionLabel label = getPartitionLabel(instance.locations);
      std::string fallback = result.id + "." + std::to_string(index);
      std::string wanted = label.path;
      if (wanted.empty() || (outerInstance && wanted == outerInstance->label))
        wanted =
            outerInstance ? outerInstance->label + "." + fallback : fallback;
      instance.label = claimLabel(wanted);
      if (given.graph.empty())
        given.graph = label.type;
      if (outer == 0) {
        // Inside its parent's range a nested one is called by what is left.
        StringRef shown = instance.label;
        if (outerInstance && shown.consume_front(outerInstance->label))
          shown.consume_front(".");
        given.labels.push_back(shown.empty() ? instance.label : shown.str());
      }
      MappedPartition &place = mapped.partitions.emplace_back();
      place.label = instance.label;
      place.isUnique = outer == 0 && index == 0;
      place.modules = label.modules;
      if (names)
        for (const std::string &name : instance.names)
          place.nodes.push_back({map.graph, map.stage, name});
      if (!keepsInstances)
        instance.locations = {};
      result.instances.push_back(std::move(instance));
    }
  }
  if (given.graph.empty())
    given.graph = "partition";
}

std::vector<Outlined> Deduplicator::dedup(GraphOp from, const Outlined *parent,
                                          unsigned &numNodes) {
  RepeatOptions wanted = options();
  wanted.equivalence.ignoreOrder = request.anyOrder && !parent;
  StructuralHash hash;
  std::vector<PartitionClass> classes =
      findRepeatedSubgraphs(from, wanted, hash, &numNodes);
  gatherPartitions(from, classes, wanted.equivalence.ignoreOrder);

  // The place of a node in the class that its graph was made of.
  llvm::DenseMap<Operation *, unsigned> placeInParent;
  if (parent)
    for (Operation &op : from.getBlock().without_terminator())
      placeInParent.try_emplace(&op, placeInParent.size());

  std::vector<Outlined> results;
  std::vector<ClassNames> classNames;
  size_t firstSummary = summaries.size();
  for (PartitionClass &repeated : classes) {
    Outlined &result = results.emplace_back();
    result.id = "c" + std::to_string(numbers.classes++);
    MappedClass mapped;
    mapped.id = result.id;
    mapped.hash = StructuralHash::toText(repeated.hash);
    mapped.parent = parent ? parent->id : "";
    mapped.nodeCount = repeated.partitions.front().nodes.size();
    addInstances(repeated, parent, placeInParent, result, mapped,
                 classNames.emplace_back());

    Operation *begin = repeated.partitions.front().nodes.front();
    FileLineColLoc line = getUserFrame(begin->getLoc());
    Summary summary{result.id,   "",
                    mapped.hash, unsigned(mapped.nodeCount),
                    {},          line ? Location(line) : from.getLoc()};
    for (const Instance &instance : result.instances)
      summary.labels.push_back(instance.label);
    summaries.push_back(std::move(summary));
    if (!parent) {
      numNodesSaved += (repeated.partitions.size() - 1) * mapped.nodeCount;
      numPartitions += repeated.partitions.size();
    }
    map.classes.push_back(std::move(mapped));
  }
  SmallVector<GraphOp> graphs =
      outlineClasses(from, classes, classNames, symbols);
  for (auto [index, outlined] : llvm::enumerate(graphs)) {
    results[index].graph = outlined;
    summaries[firstSummary + index].graphName = outlined.getSymName();
  }
  return results;
}

void Deduplicator::run() {
  std::vector<Outlined> outer = dedup(graph, nullptr, numNodes);
  map.nodeCount = numNodes;
  for (unsigned level = 1; level < request.levels && !outer.empty(); ++level) {
    std::vector<Outlined> inner;
    for (const Outlined &outlined : outer) {
      unsigned numInside = 0;
      llvm::append_range(inner, dedup(outlined.graph, &outlined, numInside));
    }
    outer = std::move(inner);
  }
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
      std::string label = getPartitionLabel(locations).path;
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
      if (auto difference = findDifference(parts.front(), parts.back()))
        if (kinds.insert(stringifyDifferenceKind(difference->kind)).second)
          mapped.differIn.push_back(
              stringifyDifferenceKind(difference->kind).str());
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
  if (summaries.empty()) {
    mlir::emitRemark(graph.getLoc())
        << "@" << graph.getSymName() << ", " << numNodes
        << " nodes: no subgraph of at least " << request.minNodes
        << " nodes is repeated";
    return;
  }
  InFlightDiagnostic remark =
      mlir::emitRemark(graph.getLoc())
      << "@" << graph.getSymName() << ", " << numNodes
      << " nodes: " << numPartitions << " partitions in " << summaries.size()
      << (summaries.size() == 1 ? " class, " : " classes, ") << numNodesSaved
      << " nodes saved";
  constexpr size_t kMaxShown = 20;
  for (const Summary &summary : ArrayRef(summaries).take_front(kMaxShown)) {
    Diagnostic &note = remark.attachNote(summary.place);
    note << summary.id << " @" << summary.graphName << ", " << summary.numNodes
         << " nodes: " << summary.labels.front();
    note << (summary.labels.size() > 2 ? " … " : ", ") << summary.labels.back()
         << ": 1 unique, " << summary.labels.size() - 1
         << (summary.labels.size() == 2 ? " duplicate" : " duplicates");
  }
  if (summaries.size() > kMaxShown)
    remark.attachNote() << "and " << summaries.size() - kMaxShown
                        << " more classes";
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
    Deduplicator dedup(graph, options, symbols, numbers);
    if (options.mode == DedupMode::IgnoreShapes)
      dedup.reportWeakClasses();
    dedup.run();
    dedup.report();
    maps.push_back(std::move(dedup.map));
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
      if (mapped.parent.empty() && !mapped.partitions.empty()) {
        numPartitions += mapped.partitions.size();
        numNodesSaved += (mapped.partitions.size() - 1) * mapped.nodeCount;
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
