// --dedup-partitions: each repeated subgraph once.

#include "Outlining.h"
#include "PartitionMap.h"

#include "opprof/Analysis/Structure/RepeatedSubgraphs.h"
#include "opprof/Analysis/Structure/StructuralHash.h"
#include "opprof/Dialect/FX/IR/Names.h"
#include "opprof/Dialect/FX/IR/Provenance.h"
#include "opprof/Dialect/FX/Transforms/Passes.h"

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

struct DedupPartitionsPass
    : public opprof::fx::impl::DedupPartitionsPassBase<DedupPartitionsPass> {
  using Base::Base;

  void runOnOperation() override;

private:
  /// Outlines the repeats of `graph`; `parent` is the class that it was made
  /// of, or null.
  std::vector<Outlined> dedupGraph(GraphOp graph, const Outlined *parent,
                                   SymbolTable &symbols, unsigned &numNodes);
  void reportWeakClasses(GraphOp graph, PartitionMap &map);
  void report(GraphOp graph, unsigned numNodes,
              ArrayRef<Summary> summaries) const;
  std::string claimLabel(StringRef wanted);

  PartitionMap map;
  bool writesMap = false;
  /// Names of the graph at hand, where a map is written.
  std::shared_ptr<GraphNames> names;
  std::string graphName;
  std::vector<Summary> summaries;
  llvm::StringMap<unsigned> labelCounts;
  unsigned numClasses = 0;
  unsigned nodesSaved = 0, partitionsFound = 0;
};

} // namespace

std::string DedupPartitionsPass::claimLabel(StringRef wanted) {
  unsigned count = ++labelCounts[wanted];
  if (count == 1)
    return wanted.str();
  return claimLabel((wanted + "#" + Twine(count)).str());
}

std::vector<Outlined> DedupPartitionsPass::dedupGraph(GraphOp graph,
                                                      const Outlined *parent,
                                                      SymbolTable &symbols,
                                                      unsigned &numNodes) {
  RepeatOptions options;
  options.minNodes = std::max(1u, minNodes.getValue());
  options.minRepeats = std::max(2u, minRepeats.getValue());
  options.equivalence.ignoreOrder = anyOrder && !parent;
  StructuralHash hash;
  std::vector<PartitionClass> classes =
      findRepeatedSubgraphs(graph, options, hash, &numNodes);
  gatherPartitions(graph, classes, options.equivalence.ignoreOrder);

  // The place of a node in the class that its graph was made of.
  llvm::DenseMap<Operation *, unsigned> placeInParent;
  if (parent)
    for (Operation &op : graph.getBlock().without_terminator())
      placeInParent.try_emplace(&op, placeInParent.size());

  std::vector<Outlined> results;
  std::vector<ClassNames> classNames;
  size_t firstSummary = summaries.size();
  bool keepsInstances = writesMap || levels > 1;
  for (PartitionClass &repeated : classes) {
    Outlined result;
    result.id = "c" + std::to_string(numClasses++);
    ClassNames &given = classNames.emplace_back();
    MappedClass mapped;
    mapped.id = result.id;
    mapped.hash = StructuralHash::toText(repeated.hash);
    mapped.parent = parent ? parent->id : "";
    mapped.nodeCount = repeated.partitions.front().nodes.size();
    std::string type;
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
              outerInstance
                  ? outerInstance->locations[placeInParent.lookup(node)]
                  : node->getLoc());
          if (!writesMap)
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
        if (type.empty())
          type = label.type;
        if (outer == 0) {
          // Inside its parent's range a nested one is called by what is left.
          StringRef shown = instance.label;
          if (outerInstance && shown.consume_front(outerInstance->label))
            shown.consume_front(".");
          given.labels.push_back(shown.empty() ? instance.label : shown.str());
        }
        if (writesMap)
          mapped.partitions.push_back({instance.label, outer == 0 && index == 0,
                                       label.modules, instance.names,
                                       graphName});
        result.instances.push_back(std::move(instance));
        if (!keepsInstances)
          result.instances.back().locations = {};
      }
    }
    Operation *begin = repeated.partitions.front().nodes.front();
    FileLineColLoc line = getUserFrame(begin->getLoc());
    Summary summary{result.id,   "",
                    mapped.hash, mapped.nodeCount,
                    {},          line ? Location(line) : graph.getLoc()};
    for (const Instance &instance : result.instances)
      summary.labels.push_back(instance.label);
    if (!parent) {
      nodesSaved += (repeated.partitions.size() - 1) * mapped.nodeCount;
      partitionsFound += repeated.partitions.size();
    }
    given.graph = type.empty() ? "partition" : type;
    summaries.push_back(std::move(summary));
    if (writesMap)
      map.classes.push_back(std::move(mapped));
    results.push_back(std::move(result));
  }
  SmallVector<GraphOp> graphs =
      outlineClasses(graph, classes, classNames, symbols);
  for (auto [index, outlined] : llvm::enumerate(graphs)) {
    results[index].graph = outlined;
    summaries[firstSummary + index].graphName = outlined.getSymName();
  }
  return results;
}

/// Subgraphs equal but for shapes, of which not all are the same.
void DedupPartitionsPass::reportWeakClasses(GraphOp graph, PartitionMap &map) {
  RepeatOptions options;
  options.minNodes = std::max(1u, minNodes.getValue());
  options.minRepeats = std::max(2u, minRepeats.getValue());
  options.equivalence.ignoreShapes = true;
  StructuralHash hash(options.equivalence);
  for (PartitionClass &weak : findRepeatedSubgraphs(graph, options, hash)) {
    MappedWeakClass mapped;
    std::vector<Subgraph> parts;
    llvm::StringSet<> kinds;
    for (auto [index, partition] : llvm::enumerate(weak.partitions)) {
      SmallVector<Location> locations;
      for (Operation *node : partition.nodes)
        locations.push_back(node->getLoc());
      std::string label = getPartitionLabel(locations).path;
      if (label.empty())
        label = "w" + std::to_string(map.weakClasses.size()) + "." +
                std::to_string(index);
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
    mapped.id = "w" + std::to_string(map.weakClasses.size());
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

void DedupPartitionsPass::report(GraphOp graph, unsigned numNodes,
                                 ArrayRef<Summary> summaries) const {
  if (summaries.empty()) {
    mlir::emitRemark(graph.getLoc())
        << "@" << graph.getSymName() << ", " << numNodes
        << " nodes: no subgraph of at least " << minNodes.getValue()
        << " nodes is repeated";
    return;
  }
  InFlightDiagnostic remark =
      mlir::emitRemark(graph.getLoc())
      << "@" << graph.getSymName() << ", " << numNodes
      << " nodes: " << partitionsFound << " partitions in " << summaries.size()
      << (summaries.size() == 1 ? " class, " : " classes, ") << nodesSaved
      << " nodes saved";
  constexpr size_t kMaxShown = 20;
  for (const Summary &summary : summaries.take_front(kMaxShown)) {
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

void DedupPartitionsPass::runOnOperation() {
  StringRef file =
      partitionMap.empty() ? getPartitionMapFile() : StringRef(partitionMap);
  writesMap = !file.empty();
  SymbolTable symbols(getOperation());
  bool isFirst = true;
  for (GraphOp graph :
       llvm::make_early_inc_range(getOperation().getOps<GraphOp>())) {
    if (graph.isPrivate())
      continue;
    unsigned numNodes = 0;
    graphName = graph.getSymName();
    if (isFirst) {
      map.graph = graph.getSymName();
      map.stage = graph.getStage().value_or("").str();
    }
    if (writesMap)
      names = std::make_shared<GraphNames>(graph);
    summaries.clear();
    labelCounts.clear();
    nodesSaved = partitionsFound = 0;
    if (mode == DedupMode::IgnoreShapes)
      reportWeakClasses(graph, map);
    std::vector<Outlined> outer = dedupGraph(graph, nullptr, symbols, numNodes);
    if (isFirst)
      map.nodeCount = numNodes;
    isFirst = false;
    for (unsigned level = 1; level < levels && !outer.empty(); ++level) {
      std::vector<Outlined> inner;
      for (const Outlined &outlined : outer) {
        unsigned numInside = 0;
        for (Outlined &nested :
             dedupGraph(outlined.graph, &outlined, symbols, numInside))
          inner.push_back(std::move(nested));
      }
      outer = std::move(inner);
    }
    report(graph, numNodes, summaries);
    numPartitions += partitionsFound;
    numNodesSaved += nodesSaved;
  }
  if (!writesMap)
    return;
  if (llvm::Error error = map.write(file)) {
    mlir::emitError(getOperation().getLoc())
        << "the partition map cannot be written to '" << file
        << "': " << llvm::toString(std::move(error));
    signalPassFailure();
  }
}
