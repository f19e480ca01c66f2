// Making fx.graph ops from what files say.

#include "opprof/Dialect/FX/IR/GraphBuilder.h"

#include "opprof/Dialect/FX/IR/Arguments.h"
#include "opprof/Dialect/FX/IR/FX.h"

using namespace mlir;
using namespace opprof::fx;
using llvm::Twine;

RankedTensorType opprof::fx::getTensorType(MLIRContext *context,
                                           const TensorDescription &tensor) {
  SmallVector<int64_t> shape;
  for (Attribute size : tensor.sizes) {
    auto number = dyn_cast<IntegerAttr>(size);
    shape.push_back(number ? number.getInt() : ShapedType::kDynamic);
  }
  return RankedTensorType::get(
      shape, opprof::fx::getElementType(context, tensor.dtype),
      TensorInfoAttr::getCanonical(
          context, tensor.device, tensor.sizes, tensor.strides, tensor.offset,
          tensor.requiresGrad, tensor.layout, tensor.subclass));
}

void NodeDescription::clear() {
  name = target = {};
  kind = NodeKind::call_function;
  type = {};
  args = {};
  operands.clear();
  kwargs.clear();
  kwargNames.clear();
  kwargOperands.clear();
  blocks.clear();
  origin = {};
}

//===----------------------------------------------------------------------===//
// ModuleBuilder
//===----------------------------------------------------------------------===//

ModuleBuilder::ModuleBuilder(MLIRContext *context)
    : builder(context),
      module(ModuleOp::create(builder, UnknownLoc::get(context))),
      nodeName(NodeOp::getOperationName(), context),
      unknownType(ObjectType::get(context, "")),
      noAttributes(builder.getDictionaryAttr({})),
      codeKey(builder.getStringAttr(kCodeKey)),
      codesKey(builder.getStringAttr(kCodesKey)),
      fromNodeKey(builder.getStringAttr(kFromNodeKey)),
      modulesKey(builder.getStringAttr(kModulesKey)),
      originalAtenKey(builder.getStringAttr(kOriginalAtenKey)),
      seqNrKey(builder.getStringAttr(kSeqNrKey)),
      torchFunctionKey(builder.getStringAttr(kTorchFunctionKey)) {}

std::string ModuleBuilder::claimUniqueName(StringRef wanted) {
  std::string name = wanted.str();
  for (unsigned number = 2; !claimName(name); ++number)
    name = (wanted + "_" + Twine(number)).str();
  return name;
}

Location ModuleBuilder::getLocation(StringAttr name, const NodeOrigin &origin) {
  // In the order of the keys, so that the dictionary need not sort them.
  SmallVector<NamedAttribute, 8> metadata;
  auto add = [&](StringAttr key, Attribute value) {
    if (value)
      metadata.emplace_back(key, value);
  };
  add(codeKey, origin.stack.userCode);
  add(codesKey, origin.stack.codes);
  add(fromNodeKey, origin.fromNode);
  add(modulesKey, origin.modules);
  add(originalAtenKey, origin.originalAten);
  add(seqNrKey, origin.seqNr);
  add(torchFunctionKey, origin.torchFunction);
  Location stack = origin.stack.location
                       ? Location(origin.stack.location)
                       : Location(UnknownLoc::get(getContext()));
  return getNodeLocation(
      name, DictionaryAttr::getWithSorted(getContext(), metadata), stack);
}

OwningOpRef<ModuleOp> ModuleBuilder::finish() {
  SymbolTableCollection symbols;
  // Subgraphs come after the graphs that call them.
  for (Operation &op : llvm::reverse(*module->getBody()))
    if (auto graph = cast<GraphOp>(op); graph.isFunctional(symbols))
      graph.setFunctional(true);
  return std::move(module);
}

//===----------------------------------------------------------------------===//
// GraphBuilder
//===----------------------------------------------------------------------===//

GraphBuilder::GraphBuilder(ModuleBuilder &program)
    : program(program), builder(program.getContext()) {
  builder.setInsertionPointToEnd(program.getModule().getBody());
  auto graph = GraphOp::create(builder, builder.getUnknownLoc(), "",
                               builder.getFunctionType({}, {}));
  op = graph;
  block = &graph.getBody().emplaceBlock();
  builder.setInsertionPointToEnd(block);
}

GraphBuilder::GraphBuilder(ModuleBuilder &program, BlockOfNode)
    : program(program), builder(program.getContext()),
      region(std::make_unique<Region>()), block(&region->emplaceBlock()) {
  builder.setInsertionPointToEnd(block);
}

void GraphBuilder::setStage(StringRef stage) {
  cast<GraphOp>(op).setStage(stage);
}

std::string GraphBuilder::makeUniqueName(StringRef wanted) const {
  std::string name = wanted.str();
  for (unsigned number = 1; hasName(name); ++number)
    name = (wanted + "_" + Twine(number)).str();
  return name;
}

bool GraphBuilder::claimName(StringAttr name, Value value) {
  return values.try_emplace(llvm::CachedHashStringRef(name.getValue()), value)
      .second;
}

Value GraphBuilder::addInput(StringAttr name, Type type,
                             const InputDescription &input) {
  auto [entry, isNew] =
      values.try_emplace(llvm::CachedHashStringRef(name.getValue()));
  if (!isNew)
    return {};
  SmallVector<NamedAttribute, 4> attributes;
  auto add = [&](StringRef key, Attribute value) {
    if (value)
      attributes.emplace_back(builder.getStringAttr(key), value);
  };
  add(FXDialect::kKindAttr, input.kind);
  add(kConstantAttr, input.constant);
  add(FXDialect::kTargetAttr, input.target);
  add(FXDialect::kPersistentAttr, input.persistent);
  inputAttrs.push_back(builder.getDictionaryAttr(attributes));
  entry->second = block->addArgument(type ? type : program.unknownType,
                                     program.getLocation(name, input.origin));
  return entry->second;
}

Value GraphBuilder::addNode(NodeDescription &node) {
  auto [entry, isNew] =
      values.try_emplace(llvm::CachedHashStringRef(node.name.getValue()));
  if (!isNew)
    return {};
  NodeOp::Properties properties;
  properties.target = node.target;
  properties.kind = NodeKindAttr::get(program.getContext(), node.kind);
  properties.args = node.args;
  SmallVector<Value> operands(node.operands);
  if (!node.kwargs.empty()) {
    SmallVector<Attribute> all(node.args.begin(), node.args.end());
    llvm::append_range(all, node.kwargs);
    properties.args = builder.getArrayAttr(all);
    properties.kwarg_names = builder.getArrayAttr(node.kwargNames);
    llvm::append_range(operands, node.kwargOperands);
  }
  Operation *made = Operation::create(
      program.getLocation(node.name, node.origin), program.nodeName,
      node.type ? node.type : program.unknownType, operands,
      program.noAttributes, &properties,
      /*successors=*/BlockRange(), node.blocks.size());
  for (auto [made, taken] : llvm::zip(made->getRegions(), node.blocks))
    made.takeBody(*taken);
  builder.insert(made);
  entry->second = made->getResult(0);
  return entry->second;
}

Value GraphBuilder::addGetItem(StringAttr name, Type type, Value tuple,
                               int64_t index, const NodeOrigin &origin) {
  NodeDescription node;
  node.name = name;
  node.target = builder.getStringAttr("operator.getitem");
  node.type = type;
  node.args = builder.getArrayAttr(
      {ValueAttr::get(builder.getContext()), builder.getI64IntegerAttr(index)});
  node.operands.push_back(tuple);
  node.origin = origin;
  return addNode(node);
}

void GraphBuilder::addOutput(Attribute value, StringRef kind,
                             std::optional<StringRef> target) {
  outputs.push_back(value);
  SmallVector<NamedAttribute, 2> members;
  members.emplace_back(builder.getStringAttr("kind"),
                       builder.getStringAttr(kind));
  if (target)
    members.emplace_back(builder.getStringAttr("target"),
                         builder.getStringAttr(*target));
  isPlainSignature &= kind == kUserOutputKind && !target;
  signature.push_back(builder.getDictionaryAttr(members));
}

void GraphBuilder::setAttribute(StringRef key, Attribute value) {
  op->setAttr(key, value);
}

std::unique_ptr<Region> GraphBuilder::finishBlock() {
  auto output =
      OutputOp::create(builder, builder.getUnknownLoc(), outputOperands);
  output.setArgsAttr(builder.getArrayAttr(outputs));
  return std::move(region);
}

void GraphBuilder::finish(StringRef name, bool isPublic) {
  auto output =
      OutputOp::create(builder, builder.getUnknownLoc(), outputOperands);
  output.setArgsAttr(builder.getArrayAttr(outputs));
  if (!isPlainSignature)
    output.setSignatureAttr(builder.getArrayAttr(signature));
  auto graph = cast<GraphOp>(op);
  graph.setFunctionType(builder.getFunctionType(
      block->getArgumentTypes(), TypeRange(ValueRange(outputOperands))));
  graph.setAllArgAttrs(inputAttrs);
  graph.setSymName(name);
  graph->setLoc(getGraphLocation(*block));
  if (!isPublic)
    SymbolTable::setSymbolVisibility(graph, SymbolTable::Visibility::Private);
}
