// Nodes, and the types of what they give.

#include "Enums.h"
#include "Importer.h"
#include "SymPy.h"

#include "opprof/Dialect/FX/IR/Schema.h"

using namespace mlir;
using namespace opprof::fx;
using namespace opprof::fx::pt2;

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

/// A size, stride or offset as an attribute, or null where it is none.
Attribute Importer::getExtent(const json &size) {
  auto [kind, value] = getUnion(size);
  if (kind == "as_int") {
    if (auto number = getInteger(value))
      return builder.getI64IntegerAttr(*number);
  } else if (kind == "as_expr") {
    StringRef text = getString(*value, "expr_str");
    if (!text.empty())
      return SymAttr::get(context, getSymPyText(text));
  }
  return {};
}

Type Importer::getTensorType(const json &meta) {
  auto dtype = getInteger(getMember(meta, "dtype"));
  std::optional<json> device = getMember(meta, "device");
  std::optional<json> sizes = getMember(meta, "sizes");
  if (!dtype || !device || !sizes || !sizes->is_array())
    return {};
  TensorDescription tensor;
  for (const json &size : getElements(sizes)) {
    Attribute extent = getExtent(size);
    if (!extent)
      return {};
    tensor.sizes.push_back(extent);
  }
  SmallVector<Attribute> strides;
  for (const json &stride : getElements(getMember(meta, "strides"))) {
    strides.push_back(getExtent(stride));
    if (!strides.back())
      return {};
  }
  if (strides.size() == tensor.sizes.size())
    tensor.strides = builder.getArrayAttr(strides);
  if (std::optional<json> offset = getMember(meta, "storage_offset"))
    tensor.offset = getExtent(*offset);
  if (auto code = getInteger(getMember(meta, "layout"));
      code && getLayoutName(*code) != "strided") {
    tensor.layout = builder.getStringAttr(getLayoutName(*code));
    tensor.strides = {};
  }
  std::string dtypeName = getScalarTypeName(*dtype).str();
  std::string deviceName = getDeviceName(*device);
  tensor.dtype = dtypeName;
  tensor.device = deviceName;
  tensor.requiresGrad = getFlag(meta, "requires_grad");
  return opprof::fx::getTensorType(context, tensor);
}

/// The type of the value `name`, or null where the graph says nothing of it.
Type Importer::getType(Graph &graph, StringRef name) {
  auto find = [&](StringRef table) -> std::optional<json> {
    const llvm::StringMap<json> &values = graph.values[table];
    auto found = values.find(name);
    if (found == values.end())
      return std::nullopt;
    return found->second;
  };
  if (std::optional<json> meta = find(kTensors))
    return getTensorType(*meta);
  auto getExpression = [&](const json &value) -> std::optional<std::string> {
    auto [kind, content] = getUnion(value);
    if (kind == "as_expr")
      return getSymPyText(getString(*content, "expr_str"));
    return std::nullopt;
  };
  if (std::optional<json> value = find(kSymInts)) {
    if (auto expression = getExpression(*value))
      return SymIntType::get(context, *expression);
    return ScalarType::get(context, "int");
  }
  if (std::optional<json> value = find(kSymFloats)) {
    if (auto expression = getExpression(*value))
      return SymFloatType::get(context, *expression);
    return ScalarType::get(context, "float");
  }
  if (std::optional<json> value = find(kSymBools)) {
    if (auto expression = getExpression(*value))
      return SymBoolType::get(context, *expression);
    return ScalarType::get(context, "bool");
  }
  if (std::optional<json> value = find(kCustomObjects))
    return ObjectType::get(context, getString(*value, "class_fqn"));
  return {};
}

Type Importer::getOutputType(Graph &graph, const json &argument) {
  auto [kind, value] = getUnion(argument);
  auto named = [&](StringRef name, Type otherwise) -> Type {
    Type type = name.empty() ? Type() : getType(graph, name);
    return type ? type : otherwise;
  };
  Type unknown = ObjectType::get(context, "");
  auto symbolic = [&](StringRef scalar) {
    return named(getString(*value, "as_name"),
                 Type(ScalarType::get(context, scalar)));
  };
  auto listOf = [&](llvm::function_ref<Type(const json &)> getElement) -> Type {
    SmallVector<Type> types;
    for (const json &element : getElements(value))
      types.push_back(getElement(element));
    return ListType::get(context, TupleType::get(context, types));
  };
  if (kind == "as_tensor" || kind == "as_custom_obj")
    return named(getString(*value, "name"), unknown);
  if (kind == "as_tensors")
    return listOf([&](const json &element) {
      return named(getString(element, "name"), unknown);
    });
  if (kind == "as_optional_tensors")
    return listOf([&](const json &element) -> Type {
      return getOutputType(graph, element);
    });
  if (kind == "as_sym_int" || kind == "as_int")
    return kind == "as_int" ? Type(ScalarType::get(context, "int"))
                            : symbolic("int");
  if (kind == "as_sym_float" || kind == "as_float")
    return kind == "as_float" ? Type(ScalarType::get(context, "float"))
                              : symbolic("float");
  if (kind == "as_sym_bool" || kind == "as_bool")
    return kind == "as_bool" ? Type(ScalarType::get(context, "bool"))
                             : symbolic("bool");
  if (kind == "as_string")
    return ScalarType::get(context, "str");
  if (kind == "as_none")
    return opprof::fx::NoneType::get(context);
  return unknown;
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

std::string pt2::getTarget(StringRef target) {
  if (target.consume_front("torch.ops.") || target.consume_front("torch._ops."))
    return target.str();
  if (target.consume_front("_operator."))
    return ("operator." + target).str();
  return target.str();
}

static bool isHigherOrder(StringRef target) {
  return target.starts_with("higher_order.");
}

/// Whether an input of a node is given by its name: archives say so, and for
/// older ones the operator's schema does.
static bool isKeyword(const json &input, StringRef name, StringRef target,
                      const OperatorSchema *schema) {
  constexpr int64_t kUnknown = 0, kKeyword = 2;
  int64_t kind = getInteger(getMember(input, "kind")).value_or(kUnknown);
  if (kind != kUnknown)
    return kind == kKeyword;
  // Python cannot write this one as a keyword.
  if (name == "from")
    return false;
  int index = schema ? schema->getArgumentIndex(name) : -1;
  if (index < 0)
    return isHigherOrder(target) && !name.empty();
  return schema->arguments[index].isKeywordOnly ||
         schema->arguments[index].hasDefault();
}

LogicalResult Importer::readInputsOfNode(Graph &graph, const json &inputs,
                                         NodeDescription &node) {
  StringRef target = node.target;
  const OperatorSchema *schema = lookupSchema(target);
  SmallVector<Attribute> positional;
  for (const json &input : getElements(inputs)) {
    StringRef name = getString(input, "name");
    std::optional<json> argument = getMember(input, "arg");
    if (!argument)
      return fail("an input has no 'arg'");
    bool byName = isKeyword(input, name, target, schema);
    Attribute value = readArgument(graph, *argument,
                                   byName ? node.kwargOperands : node.operands);
    if (!value)
      return failure();
    if (!byName) {
      positional.push_back(value);
      continue;
    }
    StringAttr key = builder.getStringAttr(name);
    if (name.empty() || llvm::is_contained(node.kwargNames, key))
      return fail("a keyword argument has no name, or comes twice: '" + name +
                  "'");
    node.kwargs.push_back(value);
    node.kwargNames.push_back(key);
  }
  node.args = builder.getArrayAttr(positional);
  return success();
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

StringRef pt2::getOutputName(const json &output) {
  auto [kind, value] = getUnion(output);
  if (kind == "as_tensor" || kind == "as_custom_obj")
    return getString(*value, "name");
  if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool")
    return getString(*value, "as_name");
  return "";
}

/// The name of an element of a list of tensors, or of symbols.
static StringRef getElementName(const json &element) {
  StringRef name = getString(element, "name");
  return name.empty() ? getString(element, "as_name") : name;
}

/// What a node gives: its one value, or one that is taken apart.
struct Importer::Results {
  Type type;
  /// What the archive calls the one value; empty where it is taken apart.
  StringRef valueName;
  /// The elements of a value that is taken apart, in order.
  SmallVector<json> elements;
};

Importer::Results Importer::getResults(Graph &graph, const json &node,
                                       bool isHigherOrder) {
  Results results;
  SmallVector<json> outputs = getElements(getMember(node, "outputs"));
  if (outputs.empty()) {
    results.type = opprof::fx::NoneType::get(context);
    return results;
  }
  StringRef firstKind;
  std::optional<json> firstValue;
  std::tie(firstKind, firstValue) = getUnion(outputs.front());
  bool isList = outputs.size() == 1 && firstKind == "as_tensors";
  // Such a node says whether it gives its one tensor, or a tuple of it.
  bool isTuple = outputs.size() > 1 ||
                 (isHigherOrder && !isList && firstKind != "as_none" &&
                  !getFlag(node, "is_hop_single_tensor_return",
                           /*otherwise=*/true));
  if (isTuple) {
    SmallVector<Type> types;
    for (const json &output : outputs) {
      types.push_back(getOutputType(graph, output));
      results.elements.push_back(output);
    }
    results.type = TupleType::get(context, types);
    return results;
  }
  results.type = getOutputType(graph, outputs.front());
  if (!isList) {
    results.valueName = getOutputName(outputs.front());
    return results;
  }
  if (isHigherOrder)
    results.type = cast<ListType>(results.type).getElements();
  for (const json &element : getElements(firstValue))
    results.elements.push_back(element);
  return results;
}

/// As FX names a node after its target: aten.topk.default gives topk.
static StringRef getBaseName(StringRef target) {
  auto [prefix, last] = target.rsplit('.');
  StringRef base = lookupSchema(target) ? prefix.rsplit('.').second : last;
  return base.empty() ? target : base;
}

/// Takes one element of `base`, as the graph did that was saved: an element
/// that nothing took has a name made up by the archive, and gets no node.
LogicalResult Importer::addItem(Graph &graph, const NodeDescription &of,
                                Value base, StringRef baseName, size_t index,
                                StringRef name, Type type) {
  if (name.starts_with((baseName + "_unused_").str()))
    return success();
  if (!graph.builder.addGetItem(builder.getStringAttr(name), type, base, index,
                                of.origin))
    return fail("a second value called '" + name + "'");
  return success();
}

/// A list inside a tuple: first the list, then its elements.
LogicalResult Importer::addItemsOfList(Graph &graph, const NodeDescription &of,
                                       Value base, size_t index,
                                       const json &output) {
  StringRef nodeName = of.name;
  SmallVector<json> elements = getElements(getUnion(output).second);
  bool isUsed = llvm::any_of(elements, [&](const json &element) {
    StringRef name = getElementName(element);
    return !name.empty() && !name.starts_with((nodeName + "_unused_").str());
  });
  if (!isUsed)
    return success();
  std::string listName = graph.builder.makeUniqueName("getitem");
  if (failed(addItem(graph, of, base, nodeName, index, listName,
                     getOutputType(graph, output))))
    return failure();
  Value list = graph.builder.lookup(listName);
  for (auto [inner, element] : llvm::enumerate(elements)) {
    StringRef name = getElementName(element);
    if (!name.empty() && failed(addItem(graph, of, list, listName, inner, name,
                                        getType(graph, name))))
      return failure();
  }
  return success();
}

LogicalResult Importer::addItems(Graph &graph, const NodeDescription &of,
                                 Value base, ArrayRef<json> outputs) {
  for (auto [index, output] : llvm::enumerate(outputs)) {
    // An element of a list of tensors is {"name": …} itself.
    StringRef name = getString(output, "name");
    Type type = name.empty() ? Type() : getType(graph, name);
    if (name.empty()) {
      name = getOutputName(output);
      if (!name.empty())
        type = getOutputType(graph, output);
    }
    StringRef kind = getUnion(output).first;
    if (!name.empty()) {
      if (failed(addItem(graph, of, base, of.name, index, name, type)))
        return failure();
    } else if (kind == "as_tensors" || kind == "as_sym_ints" ||
               kind == "as_sym_floats" || kind == "as_sym_bools") {
      if (failed(addItemsOfList(graph, of, base, index, output)))
        return failure();
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

LogicalResult Importer::readNode(Graph &graph, const json &source) {
  std::string target = getTarget(getString(source, "target"));
  std::string name = getString(source, "name").str();
  graph.node = name;
  if (target.empty())
    return fail("the required key 'target' is missing or no string");
  if (graph.node.empty())
    graph.node = target;
  std::optional<json> inputs = getMember(source, "inputs");
  std::optional<json> outputs = getMember(source, "outputs");
  if (!inputs || !inputs->is_array() || !outputs || !outputs->is_array())
    return fail("the required key 'inputs' or 'outputs' is missing or no "
                "array");
  NodeDescription node;
  node.target = builder.getStringAttr(target);
  if (failed(readInputsOfNode(graph, *inputs, node)))
    return failure();

  Results results = getResults(graph, source, isHigherOrder(target));
  if (name.empty())
    name = results.valueName.empty()
               ? graph.builder.makeUniqueName(getBaseName(target))
               : results.valueName.str();
  node.name = builder.getStringAttr(name);
  node.type = results.type;
  node.origin = metadata.read(source);
  Value value = graph.builder.addNode(node);
  if (!value)
    return fail("a second node or input of this name");
  // Older archives may call the value otherwise than the node.
  if (!results.valueName.empty() && results.valueName != name &&
      !graph.builder.claimName(builder.getStringAttr(results.valueName), value))
    return fail("a second value called '" + results.valueName + "'");
  return addItems(graph, node, value, results.elements);
}
