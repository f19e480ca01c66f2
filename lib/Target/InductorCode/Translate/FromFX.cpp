// The code reader's graphs out of the fx dialect. Names, operands, types and
// places of the nodes of an fx.graph.

#include "opprof/Dialect/FX/IR/Arguments.h"
#include "opprof/Dialect/FX/IR/FX.h"
#include "opprof/Dialect/FX/IR/Provenance.h"
#include "opprof/Target/GraphFile/GraphFile.h"
#include "opprof/Target/InductorCode/InductorTranslation.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace opprof;
using namespace opprof::inductor;
using namespace opprof::launch;

static constexpr uint32_t kNoPlace = ~0u;

static Dim toDim(Attribute attribute) {
  Dim dim;
  if (auto number = dyn_cast<IntegerAttr>(attribute))
    dim.value = number.getInt();
  else if (auto symbol = dyn_cast<fx::SymAttr>(attribute))
    dim.symbol = symbol.getValue().str();
  return dim;
}

static std::optional<TensorInfo> toTensorInfo(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return std::nullopt;
  TensorInfo info;
  info.dtype = fx::getDTypeName(tensor.getElementType()).str();
  info.shapeKnown = true;
  auto encoding = dyn_cast_or_null<fx::TensorInfoAttr>(tensor.getEncoding());
  if (encoding)
    info.device = encoding.getDevice().str();
  ArrayAttr dims = encoding ? encoding.getDims() : ArrayAttr();
  for (auto [i, size] : llvm::enumerate(tensor.getShape())) {
    if (dims && i < dims.size())
      info.shape.push_back(toDim(dims[i]));
    else
      info.shape.push_back(ShapedType::isDynamic(size) ? Dim{std::nullopt, "?"}
                                                       : Dim{size, ""});
  }
  if (auto strides = fx::TensorInfoAttr::getStaticStrides(tensor))
    for (int64_t stride : *strides)
      info.stride.push_back(Dim{stride, ""});
  return info;
}

static void setType(GraphNode &node, Type type) {
  if (std::optional<TensorInfo> info = toTensorInfo(type)) {
    node.results.push_back(std::move(*info));
  } else if (auto tuple = dyn_cast<TupleType>(type)) {
    node.resultIsTuple = true;
    for (Type member : tuple.getTypes())
      node.results.push_back(toTensorInfo(member).value_or(TensorInfo()));
  } else if (auto list = dyn_cast<fx::ListType>(type)) {
    node.resultIsTuple = true;
    for (Type member : list.getElements().getTypes())
      node.results.push_back(toTensorInfo(member).value_or(TensorInfo()));
  } else if (auto symbol = dyn_cast<fx::SymIntType>(type)) {
    node.symbol = symbol.getExpression().str();
  }
}

/// An argument as printed FX modules give it (GraphNode::args); what alignment
/// and costs have no use for is null. `open`: the places of the values in it
/// and in all that follow, kNoPlace for one that lies in no node of the graph.
static llvm::json::Value toJSON(Attribute argument, ArrayRef<uint32_t> &open) {
  if (isa<fx::ValueAttr>(argument) && !open.empty()) {
    uint32_t place = open.front();
    open = open.drop_front();
    if (place == kNoPlace)
      return nullptr;
    return inductor::makeNodeArgument(place);
  }
  if (auto boolean = dyn_cast<BoolAttr>(argument))
    return boolean.getValue();
  if (auto integer = dyn_cast<IntegerAttr>(argument))
    return integer.getInt();
  if (auto real = dyn_cast<FloatAttr>(argument))
    return llvm::json::Object{
        {inductor::kRealNumberKey,
         llvm::formatv("{0:E16}", real.getValueAsDouble()).str()}};
  if (auto text = dyn_cast<StringAttr>(argument))
    return text.getValue();
  if (auto symbol = dyn_cast<FlatSymbolRefAttr>(argument))
    return llvm::json::Object{{"graph", symbol.getValue()}};
  if (auto list = dyn_cast<ArrayAttr>(argument)) {
    llvm::json::Array out;
    for (Attribute element : list)
      out.push_back(toJSON(element, open));
    return out;
  }
  if (auto tuple = dyn_cast<fx::TupleAttr>(argument))
    return llvm::json::Object{{"tuple", toJSON(tuple.getElements(), open)}};
  open = open.drop_front(fx::countValues(argument));
  return nullptr;
}

static void setPlace(GraphNode &node, Location location) {
  node.hasModule = false;
  if (DictionaryAttr metadata = fx::getMetadata(location)) {
    node.hasModule = metadata.contains(fx::kModulesKey);
    if (auto code = metadata.getAs<StringAttr>(fx::kCodeKey))
      node.source.code = code.getValue().str();
    if (auto chain = metadata.getAs<ArrayAttr>(fx::kFromNodeKey))
      for (Attribute entry : chain) {
        auto keys = dyn_cast<DictionaryAttr>(entry);
        if (!keys)
          continue;
        auto graph = keys.getAs<StringAttr>("graph");
        auto name = keys.getAs<StringAttr>("name");
        if (name)
          node.from.push_back(
              {graph ? graph.getValue().str() : "", name.getValue().str()});
      }
  }
  node.module = fx::getModulePath(location).str();
  for (const fx::StackFrame &frame : fx::getStackFrames(location))
    node.stack.push_back(
        (frame.file + ":" + llvm::Twine(frame.line) +
         (frame.function.empty() ? "" : " in " + frame.function.str()))
            .str());
  if (FileLineColLoc frame = fx::getUserFrame(location)) {
    node.source.file = frame.getFilename().getValue().str();
    node.source.line = frame.getLine();
  }
}

GraphView opprof::inductor::toGraphView(fx::GraphOp graph) {
  GraphView view;
  view.name = graph.getSymName().str();
  view.stage = graph.getStage().value_or("").str();
  llvm::DenseMap<Value, uint32_t> index;
  for (BlockArgument argument : graph.getBlock().getArguments()) {
    GraphNode node;
    node.op = GraphNode::Placeholder;
    unsigned number = argument.getArgNumber();
    node.name = graph.getInputName(number).str();
    node.target = graph.getInputTarget(number).str();
    setType(node, argument.getType());
    index[argument] = view.nodes.size();
    view.nodes.push_back(std::move(node));
  }
  for (Operation &op : graph.getBlock()) {
    if (op.hasTrait<OpTrait::IsTerminator>()) {
      for (Value operand : op.getOperands())
        if (auto it = index.find(operand); it != index.end())
          view.outputs.push_back(it->second);
      continue;
    }
    auto fxNode = dyn_cast<fx::NodeOp>(op);
    if (!fxNode)
      continue;
    GraphNode node;
    node.op = fxNode.getKind() == fx::NodeKind::get_attr ? GraphNode::GetAttr
                                                         : GraphNode::Call;
    node.name = fx::getNodeName(&op).str();
    node.target = fxNode.getTarget().str();
    SmallVector<uint32_t> places;
    for (Value operand : op.getOperands()) {
      auto it = index.find(operand);
      places.push_back(it == index.end() ? kNoPlace : it->second);
    }
    llvm::copy_if(places, std::back_inserter(node.operands),
                  [](uint32_t place) { return place != kNoPlace; });
    ArrayRef<uint32_t> open = places;
    auto args = fxNode.getArgs().getValue();
    for (Attribute argument : args.take_front(fxNode.getNumPositional()))
      node.args.push_back(toJSON(argument, open));
    if (std::optional<ArrayAttr> names = fxNode.getKwargNames())
      for (auto [name, argument] :
           llvm::zip(*names, args.drop_front(fxNode.getNumPositional())))
        node.kwargs.emplace_back(cast<StringAttr>(name).getValue().str(),
                                 toJSON(argument, open));
    setType(node, fxNode.getResult().getType());
    setPlace(node, op.getLoc());
    index[fxNode.getResult()] = view.nodes.size();
    view.nodes.push_back(std::move(node));
  }
  view.reindex();
  return view;
}

llvm::Expected<GraphView> opprof::inductor::toGraphView(ModuleOp module,
                                                        llvm::StringRef name) {
  auto graphs = module.getOps<fx::GraphOp>();
  if (graphs.empty())
    return llvm::createStringError(name + ": holds no fx.graph");
  fx::GraphOp main = *graphs.begin();
  for (fx::GraphOp graph : graphs)
    if (graph.getStage()) {
      main = graph;
      break;
    }
  GraphView view = toGraphView(main);
  for (fx::GraphOp graph : graphs)
    if (graph != main)
      view.subgraphs.push_back(toGraphView(graph));
  view.reindex();
  return view;
}

llvm::Expected<GraphView> opprof::inductor::loadGraph(llvm::StringRef path,
                                                      MLIRContext *context) {
  llvm::Expected<OwningOpRef<ModuleOp>> module = readGraphFile(path, context);
  if (!module)
    return module.takeError();
  if (!*module)
    return llvm::createStringError(path + ": could not be read as a graph");
  return toGraphView(**module, path);
}
