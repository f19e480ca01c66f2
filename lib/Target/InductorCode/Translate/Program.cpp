// Launch maps as the inductor dialect. One data model, two forms: every field
// of a launch map has its place in an inductor.program, and comes back from
// there.

#include "opprof/Dialect/FX/IR/FXDialect.h"
#include "opprof/Dialect/FX/IR/NodeSymbols.h"
#include "opprof/Dialect/Inductor/IR/Inductor.h"
#include "opprof/Target/InductorCode/InductorTranslation.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace opprof;
using namespace opprof::inductor;
using namespace opprof::launch;

static ArrayAttr toStrings(OpBuilder &builder,
                           llvm::ArrayRef<std::string> values) {
  SmallVector<Attribute> out;
  for (const std::string &value : values)
    out.push_back(builder.getStringAttr(value));
  return builder.getArrayAttr(out);
}

static StringAttr optional(OpBuilder &builder, llvm::StringRef text) {
  return text.empty() ? StringAttr() : builder.getStringAttr(text);
}

static IntegerAttr optional(OpBuilder &builder, std::optional<uint64_t> value) {
  return value ? builder.getI64IntegerAttr(*value) : IntegerAttr();
}

namespace {
/// Makes the inductor.program of one launch map.
class ProgramBuilder {
public:
  ProgramBuilder(const LaunchMap &map, Operation *graph,
                 fx::NodeSymbols &symbols, OpBuilder &builder)
      : map(map), graph(graph), symbols(symbols), builder(builder) {
    addSubgraphs(graph);
  }

  ProgramOp build();

private:
  /// Bodies of higher-order operators. Two compiled graphs may each have a
  /// true_graph_0, so they are found by who names them.
  void addSubgraphs(Operation *user);
  /// The graph called `name` in the map, where an empty name is the map's own.
  Operation *getGraph(StringRef name);
  NodeAttr toNode(const LaunchNode &node);
  void addLaunch(const Launch &launch);

  const LaunchMap &map;
  Operation *graph;
  fx::NodeSymbols &symbols;
  OpBuilder &builder;
  llvm::StringMap<Operation *> subgraphs;
};
} // namespace

void ProgramBuilder::addSubgraphs(Operation *user) {
  auto uses = SymbolTable::getSymbolUses(user);
  if (!uses || !fx::isGraph(user))
    return;
  for (SymbolTable::SymbolUse use : *uses) {
    Operation *named = SymbolTable::lookupNearestSymbolFrom(
        user->getParentOp(), use.getSymbolRef().getRootReference());
    if (fx::isGraph(named) &&
        subgraphs.try_emplace(fx::getGraphId(named).graph, named).second)
      addSubgraphs(named);
  }
}

Operation *ProgramBuilder::getGraph(StringRef name) {
  if (name.empty())
    return graph;
  Operation *&subgraph = subgraphs[name];
  if (!subgraph)
    subgraph = symbols.getOrAddGraph({name.str(), map.stage, ""});
  return subgraph;
}

NodeAttr ProgramBuilder::toNode(const LaunchNode &node) {
  SmallVector<Attribute> from;
  for (const NodeId &id : node.from)
    from.push_back(fx::NodeSymbols::getRef(
        symbols.getOrAddGraph({id.graph, id.stage, ""}), id.name));
  SmallVector<int64_t> idle(node.idleFrom.begin(), node.idleFrom.end());
  auto word = [&](std::optional<Confidence> confidence) {
    return confidence ? builder.getStringAttr(stringify(*confidence))
                      : StringAttr();
  };
  return NodeAttr::get(
      builder.getContext(),
      fx::NodeSymbols::getRef(getGraph(node.graph), node.name),
      node.evidence.empty() ? ArrayAttr() : toStrings(builder, node.evidence),
      word(node.confidence), node.recomputed, node.continued, node.prepares,
      from.empty() ? ArrayAttr() : builder.getArrayAttr(from),
      idle.empty() ? DenseI64ArrayAttr() : builder.getDenseI64ArrayAttr(idle),
      word(node.fromConfidence),
      node.work ? builder.getI64IntegerAttr(*node.work) : IntegerAttr(),
      node.module ? builder.getStringAttr(*node.module) : StringAttr(),
      optional(builder, node.source));
}

void ProgramBuilder::addLaunch(const Launch &launch) {
  MLIRContext *context = builder.getContext();
  SmallVector<Attribute> nodes, listed;
  for (const LaunchNode &node : launch.nodes)
    nodes.push_back(toNode(node));
  for (const std::string &name : launch.listedOnly)
    listed.push_back(fx::NodeSymbols::getRef(graph, name));
  SmallVector<int64_t> callLines(launch.callLines.begin(),
                                 launch.callLines.end());
  LaunchOp::create(
      builder, FileLineColLoc::get(context, launch.file, launch.line, 0),
      builder.getI64IntegerAttr(launch.index),
      builder.getStringAttr(launch.kernel),
      LaunchKindAttr::get(context, *launch.kind),
      LaunchCategoryAttr::get(context, *launch.category),
      optional(builder, launch.kernelHash), optional(builder, launch.function),
      callLines.empty() ? DenseI64ArrayAttr()
                        : builder.getDenseI64ArrayAttr(callLines),
      toStrings(builder, launch.inputs), toStrings(builder, launch.outputs),
      builder.getArrayAttr(nodes),
      listed.empty() ? ArrayAttr() : builder.getArrayAttr(listed),
      launch.debugHandle ? builder.getI64IntegerAttr(*launch.debugHandle)
                         : IntegerAttr(),
      optional(builder, launch.flops), optional(builder, launch.dtype),
      optional(builder, launch.bytesRead),
      optional(builder, launch.bytesWritten),
      launch.conditional ? builder.getUnitAttr() : UnitAttr(),
      launch.inLoop ? builder.getUnitAttr() : UnitAttr());
}

ProgramOp ProgramBuilder::build() {
  StringRef file =
      map.launches.empty() ? StringRef() : StringRef(map.launches.front().file);
  Location whole =
      file.empty()
          ? Location(builder.getUnknownLoc())
          : Location(FileLineColLoc::get(builder.getContext(), file, 0, 0));
  AlignmentInfoAttr alignment;
  if (map.alignment)
    alignment = AlignmentInfoAttr::get(
        builder.getContext(), map.alignment->method,
        FlatSymbolRefAttr::get(SymbolTable::getSymbolName(symbols.getOrAddGraph(
            {map.alignment->graph, map.alignment->stage, ""}))),
        map.alignment->aligned, map.alignment->of, map.alignment->proven);
  auto program = ProgramOp::create(
      builder, whole, FlatSymbolRefAttr::get(SymbolTable::getSymbolName(graph)),
      builder.getI64IntegerAttr(map.statements.understood),
      builder.getI64IntegerAttr(map.statements.total), alignment);
  OpBuilder::InsertionGuard guard(builder);
  builder.createBlock(&program.getBody());
  for (const Launch &launch : map.launches)
    addLaunch(launch);
  for (const NotLaunched &node : map.notLaunched)
    NotLaunchedOp::create(
        builder, whole,
        fx::NodeSymbols::getRef(getGraph(node.graph), node.name),
        builder.getStringAttr(node.reason));
  return program;
}

ProgramOp opprof::inductor::addProgram(const LaunchMap &map,
                                       fx::NodeSymbols &symbols,
                                       OpBuilder &builder) {
  Operation *graph = symbols.getOrAddGraph({map.graph, map.stage, ""});
  return ProgramBuilder(map, graph, symbols, builder).build();
}

OwningOpRef<ModuleOp> opprof::inductor::toProgram(const LaunchMap &map,
                                                  MLIRContext *context) {
  context->loadDialect<fx::FXDialect, InductorDialect>();
  OwningOpRef<ModuleOp> module(ModuleOp::create(UnknownLoc::get(context)));
  fx::NodeSymbols symbols(*module);
  auto builder = OpBuilder::atBlockEnd(module->getBody());
  ProgramOp program = addProgram(map, symbols, builder);
  module->getOperation()->setLoc(program.getLoc());
  return module;
}

static std::vector<std::string> toVector(ArrayAttr strings) {
  std::vector<std::string> out;
  if (strings)
    for (Attribute value : strings)
      out.push_back(cast<StringAttr>(value).getValue().str());
  return out;
}

static std::string toText(StringAttr text) {
  return text ? text.getValue().str() : std::string();
}

/// The name of a graph that a map mentions, which is empty for its own.
static std::string toGraphName(SymbolRefAttr node, const LaunchMap &map,
                               const fx::NodeSymbols &symbols) {
  NodeId id = symbols.getId(node);
  return id.graph == map.graph ? std::string() : id.graph;
}

static LaunchNode toLaunchNode(NodeAttr from, const LaunchMap &map,
                               const fx::NodeSymbols &symbols) {
  LaunchNode node;
  node.name = from.getNode().getLeafReference().str();
  node.graph = toGraphName(from.getNode(), map, symbols);
  node.recomputed = from.getRecomputed();
  node.continued = from.getContinued();
  node.prepares = from.getPrepares();
  node.evidence = toVector(from.getEvidence());
  if (from.getConfidence())
    node.confidence = parseConfidence(from.getConfidence().getValue());
  if (from.getFromConfidence())
    node.fromConfidence = parseConfidence(from.getFromConfidence().getValue());
  if (from.getWork())
    node.work = from.getWork().getInt();
  if (from.getIdle())
    node.idleFrom.assign(from.getIdle().asArrayRef().begin(),
                         from.getIdle().asArrayRef().end());
  if (from.getModule())
    node.module = toText(from.getModule());
  node.source = toText(from.getSource());
  if (from.getFrom())
    for (auto origin : from.getFrom().getAsRange<SymbolRefAttr>())
      node.from.push_back(symbols.getId(origin));
  return node;
}

static Launch toLaunch(LaunchOp op, const LaunchMap &map,
                       const fx::NodeSymbols &symbols) {
  Launch launch;
  launch.index = op.getIndex();
  if (auto place = dyn_cast<FileLineColLoc>(op.getLoc())) {
    launch.file = place.getFilename().getValue().str();
    launch.line = place.getLine();
  }
  launch.kernel = op.getKernel().str();
  launch.kind = op.getKind();
  launch.category = op.getCategory();
  launch.kernelHash = op.getHash().value_or("").str();
  launch.function = op.getFunction().value_or("").str();
  if (std::optional<llvm::ArrayRef<int64_t>> lines = op.getCallLines())
    launch.callLines.assign(lines->begin(), lines->end());
  launch.inputs = toVector(op.getInputs());
  launch.outputs = toVector(op.getOutputs());
  if (op.getListed())
    for (auto node : op.getListedAttr().getAsRange<SymbolRefAttr>())
      launch.listedOnly.push_back(node.getLeafReference().str());
  if (op.getHandle())
    launch.debugHandle = *op.getHandle();
  launch.flops = op.getFlops();
  launch.dtype = op.getDtype().value_or("").str();
  launch.bytesRead = op.getBytesRead();
  launch.bytesWritten = op.getBytesWritten();
  launch.conditional = op.getConditional();
  launch.inLoop = op.getInLoop();
  for (auto node : op.getNodes().getAsRange<NodeAttr>())
    launch.nodes.push_back(toLaunchNode(node, map, symbols));
  return launch;
}

LaunchMap opprof::inductor::toLaunchMap(ProgramOp program) {
  fx::NodeSymbols symbols(program->getParentOfType<ModuleOp>());
  LaunchMap map;
  NodeId graph = symbols.getId(program.getGraphAttr());
  map.graph = graph.graph;
  map.stage = graph.stage;
  map.statements.total = program.getTotal().value_or(0);
  map.statements.understood = program.getUnderstood().value_or(0);
  map.statements.keptAsText = map.statements.total - map.statements.understood;
  if (AlignmentInfoAttr alignment = program.getAlignmentAttr()) {
    NodeId exported = symbols.getId(alignment.getGraph());
    map.alignment = {alignment.getMethod().str(),
                     exported.graph,
                     exported.stage,
                     alignment.getProven(),
                     alignment.getAligned(),
                     alignment.getTotal()};
  }
  for (LaunchOp op : program.getBody().getOps<LaunchOp>())
    map.launches.push_back(toLaunch(op, map, symbols));
  for (NotLaunchedOp op : program.getBody().getOps<NotLaunchedOp>())
    map.notLaunched.push_back({op.getNode().getLeafReference().str(),
                               toGraphName(op.getNode(), map, symbols),
                               op.getReason().str()});
  return map;
}
