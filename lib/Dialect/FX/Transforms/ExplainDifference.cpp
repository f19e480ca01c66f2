// --explain-difference: why two parts of a module are not the same.

#include "opprof/Analysis/Structure/Equivalence.h"
#include "opprof/Dialect/FX/IR/Names.h"
#include "opprof/Dialect/FX/IR/NodeSymbols.h"
#include "opprof/Dialect/FX/IR/Provenance.h"
#include "opprof/Dialect/FX/Transforms/Passes.h"
#include "opprof/Support/InputFile.h"
#include "opprof/Support/PartitionMap.h"

#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MemoryBuffer.h"

namespace opprof::fx {
#define GEN_PASS_DEF_EXPLAINDIFFERENCEPASS
#include "opprof/Dialect/FX/Transforms/Passes.h.inc"
} // namespace opprof::fx

using namespace mlir;
using namespace opprof;
using namespace opprof::fx;

/// True where the node belongs to the module `path` or to one inside it.
static bool liesInModule(Operation *op, StringRef path) {
  DictionaryAttr metadata = getMetadata(op->getLoc());
  auto modules =
      metadata ? metadata.getAs<ArrayAttr>(kModulesKey) : ArrayAttr();
  if (!modules)
    return false;
  return llvm::any_of(modules, [&](Attribute module) {
    auto entry = dyn_cast<ArrayAttr>(module);
    auto text =
        entry && !entry.empty() ? dyn_cast<StringAttr>(entry[0]) : nullptr;
    return text && text.getValue() == path;
  });
}

namespace {
struct ExplainDifferencePass
    : public opprof::fx::impl::ExplainDifferencePassBase<
          ExplainDifferencePass> {
  using Base::Base;

  void runOnOperation() override {
    markAllAnalysesPreserved();
    if (partitions.size() != 2) {
      mlir::emitError(getOperation().getLoc())
          << "--explain-difference takes the names of two partitions: "
             "--explain-difference=partitions=h.0,h.1";
      return signalPassFailure();
    }
    if (failed(readMaps()))
      return signalPassFailure();
    std::optional<Subgraph> first = find(partitions[0]);
    std::optional<Subgraph> second = find(partitions[1]);
    if (!first || !second)
      return signalPassFailure();
    Location place = first->nodes.empty() ? getOperation().getLoc()
                                          : first->nodes.front()->getLoc();
    std::vector<Difference> differences = findDifferences(*first, *second);
    for (const Difference &difference : differences)
      difference.report(place);
    if (!differences.empty())
      return;
    InFlightDiagnostic remark = mlir::emitRemark(place)
                                << partitions[0] << " and " << partitions[1]
                                << " are the same: " << first->nodes.size()
                                << " nodes";
    if (!second->nodes.empty())
      remark.attachNote(second->nodes.front()->getLoc())
          << "the other one is here";
  }

private:
  std::vector<PartitionMap> maps;

  LogicalResult readMaps() {
    maps.clear();
    if (partitionMap.empty())
      return success();
    auto error = [&](const Twine &why) {
      return mlir::emitError(getOperation().getLoc())
             << "--explain-difference cannot read its partition map: " << why;
    };
    llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> buffer =
        opprof::openInput(partitionMap);
    if (!buffer)
      return error(partitionMap + ": " + buffer.getError().message());
    llvm::Expected<std::vector<PartitionMap>> read =
        readPartitionMaps((*buffer)->getBuffer(), partitionMap);
    if (!read)
      return error(llvm::toString(read.takeError()));
    maps = std::move(*read);
    return success();
  }

  /// The partition that stands for the class of that id: its nodes where they
  /// stand, or the graph that they were outlined into.
  std::optional<Subgraph> findClass(StringRef id) {
    for (const PartitionMap &map : maps)
      for (const MappedClass &mapped : map.classes) {
        auto unique =
            llvm::find_if(mapped.partitions, [](const MappedPartition &place) {
              return place.isUnique;
            });
        if (mapped.id != id || unique == mapped.partitions.end())
          continue;
        if (std::optional<Subgraph> call = findCall(unique->label))
          return call;
        llvm::StringSet<> wanted;
        for (const NodeId &node : unique->nodes)
          wanted.insert(node.name);
        for (GraphOp graph : getOperation().getOps<GraphOp>()) {
          NodeId graphId = getGraphId(graph);
          if (graphId.graph != map.graph || graphId.stage != map.stage)
            continue;
          GraphNames names(graph);
          SmallVector<Operation *> nodes;
          for (Operation &op : graph.getBlock().without_terminator())
            if (op.getNumResults() &&
                wanted.contains(names.lookup(op.getResult(0))))
              nodes.push_back(&op);
          if (nodes.size() == wanted.size())
            return Subgraph::get(nodes);
        }
      }
    return std::nullopt;
  }

  /// What the call with that label stands for.
  std::optional<Subgraph> findCall(StringRef label) {
    std::optional<Subgraph> found;
    for (GraphOp graph : getOperation().getOps<GraphOp>())
      graph.walk([&](CallOp call) {
        auto partition = call->getAttrOfType<prof::PartitionAttr>(
            prof::ProfDialect::kPartitionAttr);
        if (!partition || partition.getLabel() != label)
          return WalkResult::advance();
        if (auto callee = lookupGraph(call, call.getCalleeAttr()))
          found = Subgraph::get(callee);
        return found ? WalkResult::interrupt() : WalkResult::advance();
      });
    return found;
  }

  std::optional<Subgraph> find(StringRef name) {
    ModuleOp module = getOperation();
    if (name.starts_with("@")) {
      if (auto *graph = SymbolTable::lookupSymbolIn(module, name.drop_front()))
        if (auto found = dyn_cast<GraphOp>(graph))
          return Subgraph::get(found);
      mlir::emitError(module.getLoc()) << "there is no graph " << name;
      return std::nullopt;
    }
    if (std::optional<Subgraph> found = findClass(name))
      return found;
    if (std::optional<Subgraph> found = findCall(name))
      return found;
    for (GraphOp graph : module.getOps<GraphOp>()) {
      SmallVector<Operation *> nodes;
      for (Operation &op : graph.getBlock().without_terminator())
        if (liesInModule(&op, name))
          nodes.push_back(&op);
      if (!nodes.empty())
        return Subgraph::get(nodes);
    }
    mlir::emitError(module.getLoc())
        << "'" << name << "' is no module path, no partition's label, "
        << (maps.empty() ? "" : "no class of the partition map, ")
        << "and no graph (write @name for one)";
    return std::nullopt;
  }
};
} // namespace
