// Building rewrite scripts from graphs, without text in between.

#include "opprof/Target/TransformScript/ScriptBuilder.h"
#include "opprof/Dialect/FX/IR/FX.h"
#include "opprof/Dialect/FX/TransformOps/FXTransformOps.h"

#include "mlir/Dialect/Transform/IR/TransformDialect.h"
#include "mlir/Dialect/Transform/IR/TransformOps.h"
#include "mlir/Dialect/Transform/IR/TransformTypes.h"

using namespace mlir;
using namespace opprof::fx;

ScriptBuilder::ScriptBuilder(MLIRContext *context) : builder(context) {
  context->loadDialect<FXDialect, transform::TransformDialect>();
  module = ModuleOp::create(builder.getUnknownLoc());
  module->getOperation()->setAttr(
      transform::TransformDialect::kWithNamedSequenceAttrName,
      builder.getUnitAttr());
}

GraphOp ScriptBuilder::beginGraph(StringRef name, ArrayRef<std::string> names,
                                  ArrayRef<Type> types, TypeRange results) {
  builder.setInsertionPointToEnd(module->getBody());
  auto graph =
      GraphOp::create(builder, builder.getUnknownLoc(), name,
                      builder.getFunctionType(TypeRange(types), results));
  graph.setPrivate();
  SmallVector<Attribute> inputs;
  SmallVector<Location> places;
  for (StringRef input : names) {
    StringAttr text = builder.getStringAttr(input);
    inputs.push_back(builder.getDictionaryAttr(
        builder.getNamedAttr(FXDialect::kNameAttr, text)));
    places.push_back(NameLoc::get(text));
  }
  graph.setArgAttrsAttr(builder.getArrayAttr(inputs));
  builder.createBlock(&graph.getBody(), {}, types, places);
  return graph;
}

Value ScriptBuilder::addNode(const Twine &name, StringRef target,
                             ValueRange operands, Type type,
                             ArrayRef<Attribute> arguments,
                             ArrayRef<StringRef> keywords) {
  SmallVector<Attribute> values(arguments);
  if (values.empty())
    values.assign(operands.size(), ValueAttr::get(builder.getContext()));
  auto names = llvm::map_to_vector(keywords, [&](StringRef keyword) {
    return Attribute(builder.getStringAttr(keyword));
  });
  return NodeOp::create(builder, NameLoc::get(builder.getStringAttr(name)),
                        type, target, operands, values, names)
      .getResult();
}

void ScriptBuilder::finishGraph(ValueRange results) {
  OutputOp::create(builder, builder.getUnknownLoc(), results);
}

void ScriptBuilder::addReplacement(GraphOp pattern, GraphOp replacement) {
  replacements.push_back({pattern, replacement});
}

void ScriptBuilder::addStrategies(ArrayRef<NamedAttribute> added) {
  llvm::append_range(strategies, added);
}

OwningOpRef<ModuleOp> ScriptBuilder::finish() {
  Location place = builder.getUnknownLoc();
  Type handle = transform::AnyOpType::get(builder.getContext());
  builder.setInsertionPointToEnd(module->getBody());
  auto sequence = transform::NamedSequenceOp::create(
      builder, place,
      transform::TransformDialect::kTransformEntryPointSymbolName, handle,
      TypeRange(), [&](OpBuilder &body, Location, BlockArgument root) {
        for (auto [pattern, replacement] : replacements)
          transform::ReplaceSubgraphOp::create(
              body, place, TypeRange(), ValueRange{root},
              ArrayRef<NamedAttribute>{
                  {"pattern", FlatSymbolRefAttr::get(pattern)},
                  {"replacement", FlatSymbolRefAttr::get(replacement)}});
        if (!strategies.empty())
          transform::RegionStrategyOp::create(body, place, TypeRange(),
                                              ValueRange{root}, strategies);
        transform::YieldOp::create(body, place);
      });
  sequence.setArgAttr(0, transform::TransformDialect::kArgReadOnlyAttrName,
                      builder.getUnitAttr());
  return std::move(module);
}
