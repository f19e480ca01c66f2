// The launches of an eager run. A graph that runs node by node launches each
// operator for itself: its launch map is the graph, with what the model of
// costs says of each node. Where it calls another graph (a region of autocast,
// a branch, the body of a loop), that one's operators come behind the call, and
// so do those of TorchScript's blocks, which are nodes of the graph itself.

#include "../AlignmentBodies.h"

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

/// Whether a node launches nothing and its gradient may. Operators that give a
/// view where they can, and copy where they can't, may launch themselves.
static bool isView(fx::NodeOp node) {
  llvm::StringRef family = opFamily(node.getTarget());
  return node.getTarget() != "operator.getitem" &&
         isViewTarget(node.getTarget()) && family != "reshape" &&
         family != "flatten";
}

/// Why there is nothing of a node to launch, or empty.
static llvm::StringRef whyNotLaunched(fx::NodeOp node) {
  if (node.getKind() == fx::NodeKind::get_attr)
    return "attribute";
  if (isa<fx::SymIntType>(node.getType()))
    return "symbolic";
  if (node.getTarget() == "operator.getitem")
    return "getitem";
  // Marks of a function that is mapped over a dimension: nothing runs.
  if (node.getTarget().starts_with("torch._functorch."))
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

/// Launches of all graphs together: graphs that call one another twice, and
/// those others, have more than memory has room for.
static constexpr size_t kMaxLaunches = size_t(1) << 20;

namespace {
class OperatorMapper {
public:
  explicit OperatorMapper(ModuleOp module) : symbols(module) {}

  LaunchMap run(fx::GraphOp graph);

private:
  /// How often a graph's operators run where they stand in the map.
  struct Use {
    /// The graph's name, where it is not the map's own.
    std::string body;
    bool conditional = false;
    bool inLoop = false;
  };
  void addGraph(fx::GraphOp graph, const Use &use);
  void addBlock(fx::GraphOp graph, Block &block, const Use &use);
  void addNode(fx::GraphOp graph, fx::NodeOp node, const Use &use);
  void addBodies(fx::GraphOp graph, fx::NodeOp node, const Use &use);

  SymbolTable symbols;
  LaunchMap map;
  /// Graphs that are being added: a call of one of them has no end.
  llvm::SmallPtrSet<Operation *, 8> open;
};
} // namespace

void OperatorMapper::addNode(fx::GraphOp graph, fx::NodeOp node,
                             const Use &use) {
  std::string name = fx::getNodeName(node).str();
  ++map.statements.total;
  ++map.statements.understood;
  if (llvm::StringRef reason = whyNotLaunched(node); !reason.empty()) {
    map.notLaunched.push_back({name, use.body, reason.str()});
    return;
  }
  Launch &launch = map.launches.emplace_back();
  launch.index = map.launches.size() - 1;
  launch.kernel = node.getTarget().str();
  launch.kind = isView(node) ? LaunchKind::View
                : getBodyUse(node.getTarget()) == BodyUse::None &&
                        node.getBlocks().empty()
                    ? LaunchKind::Fallback
                    : LaunchKind::Subgraph;
  launch.conditional = use.conditional;
  launch.inLoop = use.inLoop;
  LaunchNode &computed = launch.nodes.emplace_back();
  computed.name = name;
  computed.graph = use.body;
  // A body of the exported graph is a graph of the module itself.
  if (!use.body.empty()) {
    computed.from = {{use.body, map.stage, name}};
    computed.fromConfidence = Confidence::High;
  }
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
    else if (auto input = cast<BlockArgument>(operand);
             // What a block of a node takes has no name outside of it.
             input.getOwner() == &graph.getBlock())
      launch.inputs.push_back(graph.getInputName(input.getArgNumber()).str());
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

void OperatorMapper::addBodies(fx::GraphOp graph, fx::NodeOp node,
                               const Use &use) {
  bool isLoop = node.getTarget() == "prim.Loop";
  for (Region &block : node.getBlocks())
    addBlock(graph, block.front(),
             {use.body, use.conditional || !isLoop, use.inLoop || isLoop});
  BodyUse bodyUse = getBodyUse(node.getTarget());
  if (bodyUse == BodyUse::None)
    return;
  for (Attribute argument : node.getArgs())
    if (auto name = dyn_cast<FlatSymbolRefAttr>(argument))
      if (auto body = symbols.lookup<fx::GraphOp>(name.getAttr()))
        addGraph(body, {fx::getGraphId(body).graph,
                        use.conditional || bodyUse == BodyUse::Choice,
                        use.inLoop || bodyUse == BodyUse::Loop});
}

void OperatorMapper::addGraph(fx::GraphOp graph, const Use &use) {
  if (!open.insert(graph).second)
    return;
  addBlock(graph, graph.getBlock(), use);
  open.erase(graph);
}

void OperatorMapper::addBlock(fx::GraphOp graph, Block &block, const Use &use) {
  for (auto node : block.getOps<fx::NodeOp>()) {
    if (map.launches.size() >= kMaxLaunches && !use.body.empty())
      break;
    addNode(graph, node, use);
    addBodies(graph, node, use);
  }
}

LaunchMap OperatorMapper::run(fx::GraphOp graph) {
  NodeId id = fx::getGraphId(graph);
  map.graph = std::move(id.graph);
  map.stage = std::move(id.stage);
  addGraph(graph, {});
  return std::move(map);
}

std::optional<LaunchMap> opprof::inductor::mapOperators(ModuleOp module) {
  for (auto graph : module.getOps<fx::GraphOp>())
    if (graph.getStage())
      return OperatorMapper(module).run(graph);
  return std::nullopt;
}
