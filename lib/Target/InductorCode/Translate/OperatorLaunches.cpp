// The launches of an eager run. A graph that runs node by node launches each
// operator for itself: its launch map is the graph, with what the model of
// costs says of each node.

#include "opprof/Analysis/Cost/NodeCost.h"
#include "opprof/Dialect/FX/IR/Arguments.h"
#include "opprof/Dialect/FX/IR/FX.h"
#include "opprof/Dialect/FX/IR/Names.h"
#include "opprof/Dialect/FX/IR/NodeSymbols.h"
#include "opprof/Dialect/FX/IR/Provenance.h"
#include "opprof/Target/InductorCode/InductorTranslation.h"

using namespace mlir;
using namespace opprof;
using namespace opprof::inductor;
using namespace opprof::launch;

static LaunchCategory categoryOf(WorkKind kind) {
  switch (kind) {
  case WorkKind::View:
  case WorkKind::Movement:
    return LaunchCategory::Copy;
  case WorkKind::Pointwise:
    return LaunchCategory::Pointwise;
  case WorkKind::Reduction:
    return LaunchCategory::Reduction;
  case WorkKind::Matrix:
  case WorkKind::Unknown:
    return LaunchCategory::Extern;
  }
  llvm_unreachable("unhandled kind of work");
}

/// Why a node launches nothing, or empty. Operators that give a view where they
/// can, and copy where they can't, may launch.
static llvm::StringRef whyNotLaunched(fx::NodeOp node) {
  if (node.getKind() == fx::NodeKind::get_attr)
    return "attribute";
  if (isa<fx::SymIntType>(node.getType()))
    return "symbolic";
  llvm::StringRef family = opFamily(node.getTarget());
  if (node.getTarget() == "operator.getitem")
    return "getitem";
  if (isViewTarget(node.getTarget()) && family != "reshape" &&
      family != "flatten")
    return "view";
  return "";
}

/// The sizes of the tensors that are arguments by themselves.
static std::vector<std::optional<Sizes>> getArgumentSizes(fx::NodeOp node) {
  std::vector<std::optional<Sizes>> sizes;
  unsigned operand = 0;
  for (Attribute argument : node.getArgs()) {
    std::optional<Sizes> &own = sizes.emplace_back();
    if (isa<fx::ValueAttr>(argument))
      if (auto tensor = dyn_cast<RankedTensorType>(
              node.getOperands()[operand].getType())) {
        own.emplace();
        for (int64_t size : tensor.getShape())
          own->push_back(ShapedType::isDynamic(size) ? kUnknownSize : size);
      }
    operand += fx::countValues(argument);
  }
  return sizes;
}

static LaunchMap mapOperators(fx::GraphOp graph) {
  LaunchMap map;
  NodeId id = fx::getGraphId(graph);
  map.graph = std::move(id.graph);
  map.stage = std::move(id.stage);
  for (auto node : graph.getBlock().getOps<fx::NodeOp>()) {
    std::string name = fx::getNodeName(node).str();
    ++map.statements.total;
    ++map.statements.understood;
    if (llvm::StringRef reason = whyNotLaunched(node); !reason.empty()) {
      map.notLaunched.push_back({name, "", reason.str()});
      continue;
    }
    Launch &launch = map.launches.emplace_back();
    launch.index = map.launches.size() - 1;
    launch.kernel = node.getTarget().str();
    launch.kind = LaunchKind::Fallback;
    LaunchNode &computed = launch.nodes.emplace_back();
    computed.name = name;
    computed.evidence = {"target"};
    computed.confidence = Confidence::High;
    Location location = node.getLoc();
    if (DictionaryAttr metadata = fx::getMetadata(location);
        metadata && metadata.contains(fx::kModulesKey))
      computed.module = fx::getModulePath(location).str();
    if (FileLineColLoc frame = fx::getUserFrame(location))
      computed.source = frame.getFilename().getValue().str() + ":" +
                        std::to_string(frame.getLine());
    for (Value operand : node.getOperands()) {
      if (Operation *producer = operand.getDefiningOp())
        launch.inputs.push_back(fx::getNodeName(producer).str());
      else
        launch.inputs.push_back(
            graph.getInputName(cast<BlockArgument>(operand).getArgNumber())
                .str());
      if (auto tensor = dyn_cast<RankedTensorType>(operand.getType());
          tensor && launch.dtype.empty())
        launch.dtype = fx::getDTypeName(tensor.getElementType()).str();
    }
    launch.outputs = {name};
    launch.argumentSizes = getArgumentSizes(node);
    OperatorCost cost = getNodeCost(node);
    launch.category = categoryOf(cost.kind);
    launch.flops = cost.flops;
    launch.bytesRead = cost.bytesRead;
    launch.bytesWritten = cost.bytesWritten;
  }
  return map;
}

std::optional<LaunchMap> opprof::inductor::mapOperators(ModuleOp module) {
  for (auto graph : module.getOps<fx::GraphOp>())
    if (graph.getStage())
      return ::mapOperators(graph);
  return std::nullopt;
}
