// The code reader's graphs as the fx dialect. What FromFX.cpp reads, the other
// way round: graphs that were printed by PyTorch become fx.graph ops.

#include "opprof/Dialect/FX/IR/ArgumentForms.h"
#include "opprof/Dialect/FX/IR/GraphBuilder.h"
#include "opprof/Target/InductorCode/InductorTranslation.h"

using namespace mlir;
using namespace opprof;
using namespace opprof::inductor;
using llvm::Twine;

namespace {
/// Adds graphs to a module. Functions return null or failure after an error.
class ModuleWriter {
public:
  ModuleWriter(llvm::StringRef fileName, MLIRContext *context)
      : fileName(fileName), context(context), builder(context),
        program(context) {}

  OwningOpRef<ModuleOp> run(const GraphView &main);

private:
  LogicalResult fail(const Twine &what);
  LogicalResult addGraph(const GraphView &source, bool isMain);
  LogicalResult addNode(const GraphNode &source, fx::GraphBuilder &graph);

  Type getTensorType(const TensorInfo &info);
  Type getType(const GraphNode &node);
  fx::NodeOrigin getOrigin(const GraphNode &node);

  Attribute convert(const llvm::json::Value &value,
                    SmallVectorImpl<Value> &operands, unsigned depth = 0);
  Attribute convertObject(const llvm::json::Object &object,
                          SmallVectorImpl<Value> &operands, unsigned depth);
  Attribute convertMembers(const llvm::json::Object &object);
  Attribute convertReference(uint32_t place, SmallVectorImpl<Value> &operands);

  llvm::StringRef fileName;
  MLIRContext *context;
  Builder builder;
  fx::ModuleBuilder program;
  // What is being made, for references and messages.
  const GraphView *view = nullptr;
  fx::GraphBuilder *graph = nullptr;
  llvm::StringRef node;
};
} // namespace

LogicalResult ModuleWriter::fail(const Twine &what) {
  InFlightDiagnostic diagnostic = emitError(UnknownLoc::get(context));
  diagnostic << fileName << ": graph '" << view->name << "'";
  if (!node.empty())
    diagnostic << ", node '" << node << "'";
  diagnostic << ": " << what.str();
  return failure();
}

//===----------------------------------------------------------------------===//
// Types and places
//===----------------------------------------------------------------------===//

Type ModuleWriter::getTensorType(const TensorInfo &info) {
  if (info.dtype.empty())
    return fx::ObjectType::get(context, "unknown");
  auto toExtent = [&](const Dim &dim) -> Attribute {
    return dim.value ? Attribute(builder.getI64IntegerAttr(*dim.value))
                     : fx::SymAttr::get(context, dim.symbol);
  };
  fx::TensorDescription tensor;
  tensor.dtype = info.dtype;
  // A printed module does not say where its tensors live.
  tensor.device = info.device;
  if (info.device.empty())
    tensor.device = "unknown";
  for (const Dim &dim : info.shape) {
    if (dim.value && *dim.value < 0) {
      (void)fail("the type has a size below 0");
      return {};
    }
    tensor.sizes.push_back(toExtent(dim));
  }
  if (!info.stride.empty() || info.shape.empty()) {
    if (info.stride.size() != info.shape.size()) {
      (void)fail("the tensor has " + Twine(info.stride.size()) +
                 " strides for " + Twine(info.shape.size()) + " dimensions");
      return {};
    }
    tensor.strides =
        builder.getArrayAttr(llvm::map_to_vector(info.stride, toExtent));
  }
  return fx::getTensorType(context, tensor);
}

Type ModuleWriter::getType(const GraphNode &source) {
  if (!source.symbol.empty())
    return fx::SymIntType::get(context, source.symbol);
  if (!source.resultIsTuple)
    return getTensorType(source.results.empty() ? TensorInfo()
                                                : source.results.front());
  SmallVector<Type> members;
  for (const TensorInfo &info : source.results) {
    members.push_back(getTensorType(info));
    if (!members.back())
      return {};
  }
  return TupleType::get(context, members);
}

fx::NodeOrigin ModuleWriter::getOrigin(const GraphNode &source) {
  fx::NodeOrigin origin;
  if (source.source.line)
    origin.stack = fx::getStackOrigin(
        context, fx::StackFrame{source.source.file, source.source.line,
                                /*function=*/"", source.source.code});
  return origin;
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

Attribute ModuleWriter::convertReference(uint32_t place,
                                         SmallVectorImpl<Value> &operands) {
  const GraphNode &target = view->nodes[place];
  // The body of a higher-order operator is an attribute of the printed module.
  if (target.op == GraphNode::GetAttr && view->subgraph(target.target))
    return FlatSymbolRefAttr::get(context, target.target);
  Value value = graph->lookup(target.name);
  if (!value) {
    (void)fail("there is no node or input called '" + target.name +
               "' before it");
    return {};
  }
  operands.push_back(value);
  return fx::ValueAttr::get(context);
}

Attribute ModuleWriter::convertMembers(const llvm::json::Object &object) {
  NamedAttrList members;
  for (const auto &[key, value] : object)
    members.set(llvm::StringRef(key),
                builder.getStringAttr(value.getAsString().value_or("")));
  return members.getDictionary(context);
}

Attribute ModuleWriter::convertObject(const llvm::json::Object &object,
                                      SmallVectorImpl<Value> &operands,
                                      unsigned depth) {
  llvm::StringRef key = object.begin()->first;
  const llvm::json::Value &content = object.begin()->second;
  if (key == kRealNumberKey) {
    double value = 0;
    (void)content.getAsString()->getAsDouble(value);
    return builder.getF64FloatAttr(value);
  }
  fx::ArgumentForm form = *fx::parseArgumentForm(key);
  Attribute value = form == fx::ArgumentForm::Object
                        ? convertMembers(*content.getAsObject())
                        : convert(content, operands, depth + 1);
  if (!value)
    return {};
  return fx::makeArgument(form, value,
                          [&](const Twine &what) { (void)fail(what); });
}

Attribute ModuleWriter::convert(const llvm::json::Value &value,
                                SmallVectorImpl<Value> &operands,
                                unsigned depth) {
  if (depth > fx::kMaxArgumentNesting) {
    (void)fail("arguments are nested deeper than " +
               Twine(fx::kMaxArgumentNesting));
    return {};
  }
  if (std::optional<uint32_t> place = getNodeArgument(value))
    return convertReference(*place, operands);
  switch (value.kind()) {
  case llvm::json::Value::Null:
    return fx::NoneAttr::get(context);
  case llvm::json::Value::Boolean:
    return builder.getBoolAttr(*value.getAsBoolean());
  case llvm::json::Value::Number:
    return builder.getI64IntegerAttr(*value.getAsInteger());
  case llvm::json::Value::String:
    return builder.getStringAttr(*value.getAsString());
  case llvm::json::Value::Object:
    return convertObject(*value.getAsObject(), operands, depth);
  case llvm::json::Value::Array:
    break;
  }
  SmallVector<Attribute> elements;
  for (const llvm::json::Value &element : *value.getAsArray()) {
    elements.push_back(convert(element, operands, depth + 1));
    if (!elements.back())
      return {};
  }
  return builder.getArrayAttr(elements);
}

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

LogicalResult ModuleWriter::addNode(const GraphNode &source,
                                    fx::GraphBuilder &into) {
  node = source.name;
  Type type = getType(source);
  if (!type)
    return failure();
  StringAttr name = builder.getStringAttr(source.name);
  if (source.op == GraphNode::Placeholder) {
    fx::InputDescription input;
    input.kind = builder.getStringAttr(fx::kUserInputKind);
    if (!into.addInput(name, type, input))
      return fail("there are two inputs of this name");
    return success();
  }
  if (source.target.empty())
    return fail("what it calls has no name");
  fx::NodeDescription description;
  description.name = name;
  description.target = builder.getStringAttr(source.target);
  if (source.op == GraphNode::GetAttr)
    description.kind = fx::NodeKind::get_attr;
  description.type = type;
  description.origin = getOrigin(source);
  SmallVector<Attribute> args;
  for (const llvm::json::Value &value : source.args) {
    args.push_back(convert(value, description.operands));
    if (!args.back())
      return failure();
  }
  description.args = builder.getArrayAttr(args);
  for (const auto &[key, value] : source.kwargs) {
    StringAttr keyword = builder.getStringAttr(key);
    if (llvm::is_contained(description.kwargNames, keyword))
      return fail("the keyword argument '" + Twine(key) + "' is given twice");
    description.kwargNames.push_back(keyword);
    description.kwargs.push_back(convert(value, description.kwargOperands));
    if (!description.kwargs.back())
      return failure();
  }
  if (!into.addNode(description))
    return fail("a second node or input of this name; names are how nodes "
                "refer to each other, so each comes once in a graph");
  return success();
}

LogicalResult ModuleWriter::addGraph(const GraphView &source, bool isMain) {
  view = &source;
  node = {};
  if (!program.claimName(source.name))
    return fail("a second graph of this name; graphs are told apart by name");
  fx::GraphBuilder into(program);
  graph = &into;
  into.setStage(source.stage);
  for (const GraphNode &each : source.nodes) {
    // References to a subgraph are its symbol.
    if (each.op == GraphNode::GetAttr && source.subgraph(each.target))
      continue;
    if (failed(addNode(each, into)))
      return failure();
  }
  node = {};
  for (const llvm::json::Value &output : source.outputArgs) {
    Attribute value = convert(output, into.getOutputOperands());
    if (!value)
      return failure();
    into.addOutput(value);
  }
  into.finish(source.name, /*isPublic=*/isMain);
  return success(llvm::all_of(source.subgraphs, [&](const GraphView &child) {
    return succeeded(addGraph(child, /*isMain=*/false));
  }));
}

OwningOpRef<ModuleOp> ModuleWriter::run(const GraphView &main) {
  // Printed modules do not say what wrote them.
  program.getModule()->setAttr(fx::kProducerAttr,
                               builder.getDictionaryAttr({}));
  return succeeded(addGraph(main, /*isMain=*/true)) ? program.finish()
                                                    : nullptr;
}

OwningOpRef<ModuleOp> opprof::inductor::toModule(const GraphView &graph,
                                                 llvm::StringRef fileName,
                                                 MLIRContext *context) {
  context->loadDialect<fx::FXDialect>();
  return ModuleWriter(fileName, context).run(graph);
}
