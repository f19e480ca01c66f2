//===- Program.cpp - Launch maps as the inductor dialect ------------------===//
//
// One data model, two forms: every field of a launch map has its place in an
// inductor.program, and comes back from there.
//
//===----------------------------------------------------------------------===//

#include "opprof/Dialect/Inductor/IR/Inductor.h"
#include "opprof/Target/InductorCode/InductorTranslation.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace opprof;
using namespace opprof::inductor;
using namespace opprof::launch;

// The two enumerations have the same values in the same order.
static_assert(static_cast<int>(KernelKind::Subgraph) ==
              static_cast<int>(LaunchKind::Subgraph));
static_assert(static_cast<int>(KernelCategory::Collective) ==
              static_cast<int>(LaunchCategory::Collective));

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

static NodeAttr toNode(OpBuilder &builder, const LaunchNode &node) {
  ArrayAttr origins;
  if (!node.from.empty()) {
    SmallVector<Attribute> list;
    for (const NodeId &ref : node.from)
      list.push_back(toStrings(builder, {ref.graph, ref.stage, ref.name}));
    origins = builder.getArrayAttr(list);
  }
  return NodeAttr::get(
      builder.getContext(), node.name, toStrings(builder, node.evidence),
      node.recomputed, node.continued, node.prepares,
      optional(builder, node.graph), origins,
      node.module ? builder.getStringAttr(*node.module) : StringAttr(),
      optional(builder, node.source));
}

OwningOpRef<ModuleOp> opprof::inductor::toProgram(const LaunchMap &map,
                                                  MLIRContext *context) {
  context->loadDialect<InductorDialect>();
  OpBuilder builder(context);
  llvm::StringRef file =
      map.launches.empty() ? llvm::StringRef() : map.launches.front().file;
  Location whole = file.empty()
                       ? Location(builder.getUnknownLoc())
                       : Location(FileLineColLoc::get(context, file, 0, 0));
  OwningOpRef<ModuleOp> module(ModuleOp::create(whole));
  builder.setInsertionPointToStart(module->getBody());
  AlignmentInfoAttr alignment;
  if (map.alignment)
    alignment = AlignmentInfoAttr::get(
        context, map.alignment->method, map.alignment->graph,
        map.alignment->stage, map.alignment->aligned, map.alignment->of);
  auto program = ProgramOp::create(
      builder, whole, builder.getStringAttr(map.graph),
      builder.getStringAttr(map.stage),
      builder.getI64IntegerAttr(map.statements.understood),
      builder.getI64IntegerAttr(map.statements.total), alignment);
  builder.createBlock(&program.getBody());

  llvm::StringSet<> kernels;
  for (const Launch &launch : map.launches)
    if (kernels.insert(launch.kernel).second)
      KernelOp::create(
          builder, whole, builder.getStringAttr(launch.kernel),
          KernelKindAttr::get(context, static_cast<KernelKind>(launch.kind)),
          KernelCategoryAttr::get(context,
                                  static_cast<KernelCategory>(launch.category)),
          optional(builder, launch.kernelHash));
  for (const Launch &launch : map.launches) {
    SmallVector<Attribute> nodes;
    for (const LaunchNode &node : launch.nodes)
      nodes.push_back(toNode(builder, node));
    SmallVector<int64_t> callLines(launch.callLines.begin(),
                                   launch.callLines.end());
    LaunchOp::create(
        builder, FileLineColLoc::get(context, launch.file, launch.line, 0),
        builder.getI64IntegerAttr(launch.index),
        FlatSymbolRefAttr::get(context, launch.kernel),
        optional(builder, launch.function),
        callLines.empty() ? DenseI64ArrayAttr()
                          : builder.getDenseI64ArrayAttr(callLines),
        toStrings(builder, launch.inputs), toStrings(builder, launch.outputs),
        builder.getArrayAttr(nodes),
        launch.listedOnly.empty() ? ArrayAttr()
                                  : toStrings(builder, launch.listedOnly),
        launch.debugHandle ? builder.getI64IntegerAttr(*launch.debugHandle)
                           : IntegerAttr(),
        optional(builder, launch.flops), optional(builder, launch.dtype),
        optional(builder, launch.bytesRead),
        optional(builder, launch.bytesWritten),
        launch.conditional ? builder.getUnitAttr() : UnitAttr(),
        launch.inLoop ? builder.getUnitAttr() : UnitAttr());
  }
  for (const NotLaunched &node : map.notLaunched)
    NotLaunchedOp::create(builder, whole, builder.getStringAttr(node.name),
                          optional(builder, node.graph),
                          builder.getStringAttr(node.reason));
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

LaunchMap opprof::inductor::toLaunchMap(ProgramOp program) {
  LaunchMap map;
  map.graph = program.getSymName().str();
  map.stage = program.getStage().str();
  map.statements.total = program.getTotal();
  map.statements.understood = program.getUnderstood();
  map.statements.keptAsText = program.getTotal() - program.getUnderstood();
  if (AlignmentInfoAttr alignment = program.getAlignmentAttr())
    map.alignment = {alignment.getMethod().str(), alignment.getGraph().str(),
                     alignment.getStage().str(), alignment.getAligned(),
                     alignment.getTotal()};
  for (LaunchOp op : program.getBody().getOps<LaunchOp>()) {
    Launch &launch = map.launches.emplace_back();
    launch.index = op.getIndex();
    if (auto place = dyn_cast<FileLineColLoc>(op.getLoc())) {
      launch.file = place.getFilename().getValue().str();
      launch.line = place.getLine();
    }
    launch.kernel = op.getKernel().str();
    if (auto kernel = SymbolTable::lookupNearestSymbolFrom<KernelOp>(
            op, op.getKernelAttr())) {
      launch.kind = static_cast<LaunchKind>(kernel.getKind());
      launch.category = static_cast<LaunchCategory>(kernel.getCategory());
      launch.kernelHash = kernel.getHash().value_or("").str();
    }
    launch.function = op.getFunction().value_or("").str();
    if (std::optional<llvm::ArrayRef<int64_t>> lines = op.getCallLines())
      launch.callLines.assign(lines->begin(), lines->end());
    launch.inputs = toVector(op.getInputs());
    launch.outputs = toVector(op.getOutputs());
    launch.listedOnly = toVector(op.getListedAttr());
    if (op.getHandle())
      launch.debugHandle = *op.getHandle();
    launch.flops = op.getFlops();
    launch.dtype = op.getDtype().value_or("").str();
    launch.bytesRead = op.getBytesRead();
    launch.bytesWritten = op.getBytesWritten();
    launch.conditional = op.getConditional();
    launch.inLoop = op.getInLoop();
    for (Attribute attribute : op.getNodes()) {
      auto from = cast<NodeAttr>(attribute);
      LaunchNode &node = launch.nodes.emplace_back();
      node.name = from.getName().str();
      node.graph = toText(from.getGraph());
      node.recomputed = from.getRecomputed();
      node.continued = from.getContinued();
      node.prepares = from.getPrepares();
      node.evidence = toVector(from.getEvidence());
      if (from.getModule())
        node.module = toText(from.getModule());
      node.source = toText(from.getSource());
      if (from.getOrigins())
        for (Attribute origin : from.getOrigins()) {
          std::vector<std::string> parts = toVector(cast<ArrayAttr>(origin));
          node.from.push_back({parts[0], parts[1], parts[2]});
        }
    }
  }
  for (NotLaunchedOp op : program.getBody().getOps<NotLaunchedOp>())
    map.notLaunched.push_back({op.getNode().str(),
                               op.getGraph().value_or("").str(),
                               op.getReason().str()});
  return map;
}
