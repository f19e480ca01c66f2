// One module of everything that is known of a program and its run.

#include "opprof/Driver/AnnotatedProgram.h"
#include "opprof/Dialect/FX/IR/FX.h"
#include "opprof/Dialect/FX/IR/NodeSymbols.h"
#include "opprof/Dialect/Inductor/IR/Inductor.h"
#include "opprof/Dialect/Prof/IR/Prof.h"
#include "opprof/Dialect/Prof/Transforms/AttachProfile.h"
#include "opprof/Target/InductorCode/InductorTranslation.h"

#include "mlir/IR/SymbolTable.h"

using namespace mlir;
using namespace opprof;

/// Gives `graph` a symbol that neither its own module nor `target` has, and the
/// name `name`.
static LogicalResult rename(fx::GraphOp graph, llvm::StringRef name,
                            SymbolTable &own, SymbolTable &target) {
  auto isTaken = [&](llvm::StringRef candidate) {
    Operation *holder = own.lookup(candidate);
    return target.lookup(candidate) || (holder && holder != graph);
  };
  unsigned number = 0;
  SmallString<64> symbol(name);
  if (isTaken(name))
    symbol = SymbolTable::generateSymbolName<64>(name, isTaken, number);
  if (symbol != graph.getSymName() && failed(own.rename(graph, symbol)))
    return failure();
  auto builder = Builder(graph.getContext());
  if (symbol == name)
    graph->removeDiscardableAttr(fx::FXDialect::kNameAttr);
  else
    graph->setDiscardableAttr(fx::FXDialect::kNameAttr,
                              builder.getStringAttr(name));
  return success();
}

/// Moves the graphs of a compiled graph into `module`, as private ones.
static LogicalResult addPostGradGraphs(ModuleOp module,
                                       CompiledGraph &compiled) {
  SymbolTable own(*compiled.postGrad), target(module);
  fx::GraphOp main;
  for (auto graph : compiled.postGrad->getOps<fx::GraphOp>())
    if (!main || (graph.getStage() && !main.getStage()))
      main = graph;
  if (!main)
    return compiled.postGrad->emitError()
           << "the post-grad graph of " << compiled.map.graph
           << " holds no fx.graph";
  main.setStage(compiled.map.stage);
  for (auto graph :
       llvm::make_early_inc_range(compiled.postGrad->getOps<fx::GraphOp>())) {
    std::string name =
        graph == main ? compiled.map.graph : fx::getGraphId(graph).graph;
    if (failed(rename(graph, name, own, target)))
      return failure();
    graph.setPrivate();
  }
  for (auto graph :
       llvm::make_early_inc_range(compiled.postGrad->getOps<fx::GraphOp>())) {
    graph->moveBefore(module.getBody(), module.getBody()->end());
  }
  compiled.postGrad = {};
  return success();
}

LogicalResult opprof::addDynamoGraphs(ModuleOp module, ModuleOp from) {
  fx::NodeSymbols held(module);
  for (auto graph : from.getOps<fx::GraphOp>())
    if (graph.getStage() && held.lookupGraph(fx::getGraphId(graph)))
      return success();
  SymbolTable own(from), target(module);
  for (auto graph : llvm::make_early_inc_range(from.getOps<fx::GraphOp>())) {
    std::string name = fx::getGraphId(graph).graph;
    if (failed(rename(graph, name, own, target)))
      return failure();
    graph->moveBefore(module.getBody(), module.getBody()->end());
  }
  return success();
}

LogicalResult
opprof::addCompiledGraphs(ModuleOp module,
                          llvm::MutableArrayRef<CompiledGraph> compiled) {
  for (CompiledGraph &graph : compiled) {
    if (graph.dynamo && failed(addDynamoGraphs(module, *graph.dynamo)))
      return failure();
    if (graph.postGrad && failed(addPostGradGraphs(module, graph)))
      return failure();
  }
  return success();
}

LogicalResult opprof::buildAnnotatedProgram(
    ModuleOp module, llvm::MutableArrayRef<CompiledGraph> compiled,
    ArrayRef<PartitionMap> partitions, const profile::Profile *profile) {
  MLIRContext *context = module.getContext();
  context->loadDialect<fx::FXDialect, inductor::InductorDialect,
                       prof::ProfDialect>();
  llvm::DenseSet<Operation *> before = prof::getOperations(module);
  if (failed(addCompiledGraphs(module, compiled)))
    return failure();
  fx::NodeSymbols symbols(module);
  auto builder = OpBuilder::atBlockEnd(module.getBody());
  for (CompiledGraph &graph : compiled)
    inductor::addProgram(graph.map, symbols, builder);
  for (const PartitionMap &map : partitions)
    prof::addClasses(module, map);
  prof::markAttached(module, before);
  if (!profile)
    return success();
  return prof::attachProfile(module, *profile);
}
