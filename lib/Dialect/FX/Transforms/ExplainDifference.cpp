// --explain-difference: why two parts of a module are not the same.

#include "opprof/Analysis/Structure/Equivalence.h"
#include "opprof/Dialect/FX/IR/Provenance.h"
#include "opprof/Dialect/FX/Transforms/Passes.h"

#include "mlir/IR/SymbolTable.h"

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
    std::optional<Subgraph> first = find(partitions[0]);
    std::optional<Subgraph> second = find(partitions[1]);
    if (!first || !second)
      return signalPassFailure();
    Location place = first->nodes.empty() ? getOperation().getLoc()
                                          : first->nodes.front()->getLoc();
    std::optional<Difference> difference = findDifference(*first, *second);
    if (difference)
      return difference->report(place);
    InFlightDiagnostic remark = mlir::emitRemark(place)
                                << partitions[0] << " and " << partitions[1]
                                << " are the same: " << first->nodes.size()
                                << " nodes";
    if (!second->nodes.empty())
      remark.attachNote(second->nodes.front()->getLoc())
          << "the other one is here";
  }

private:
  std::optional<Subgraph> find(StringRef name) {
    ModuleOp module = getOperation();
    if (name.starts_with("@")) {
      if (auto *graph = SymbolTable::lookupSymbolIn(module, name.drop_front()))
        if (auto found = dyn_cast<GraphOp>(graph))
          return Subgraph::get(found);
      mlir::emitError(module.getLoc()) << "there is no graph " << name;
      return std::nullopt;
    }
    for (GraphOp graph : module.getOps<GraphOp>()) {
      SmallVector<Operation *> nodes;
      for (Operation &op : graph.getBlock().without_terminator()) {
        auto call = dyn_cast<CallOp>(op);
        if (call) {
          auto partition = call->getAttrOfType<prof::PartitionAttr>(
              prof::ProfDialect::kPartitionAttr);
          if (partition && partition.getLabel() == name)
            if (auto callee = SymbolTable::lookupNearestSymbolFrom<GraphOp>(
                    call, call.getCalleeAttr()))
              return Subgraph::get(callee);
        } else if (liesInModule(&op, name)) {
          nodes.push_back(&op);
        }
      }
      if (!nodes.empty())
        return Subgraph::get(nodes);
    }
    mlir::emitError(module.getLoc())
        << "'" << name
        << "' is no module path, no partition's label and no "
           "graph (write @name for one)";
    return std::nullopt;
  }
};
} // namespace
