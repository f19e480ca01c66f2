// Reads the JSON of torch.export's archives (torch/_export/serde/schema.py)
// into the fx dialect, as torch.export.load reads it into an ExportedProgram.

#include "SymPy.h"
#include "ZipArchive.h"

#include "opprof/Dialect/FX/IR/Arguments.h"
#include "opprof/Dialect/FX/IR/FX.h"
#include "opprof/Dialect/FX/IR/Provenance.h"
#include "opprof/Dialect/FX/IR/Schema.h"
#include "opprof/Target/FXJSON/FXJSON.h"
#include "opprof/Target/PT2/PT2.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Path.h"

#include <nlohmann/json.hpp>

using namespace mlir;
using namespace opprof::fx;
using llvm::Twine;
using nlohmann::json;

namespace {
constexpr unsigned kMaxGraphNesting = 32;
constexpr unsigned kMaxArgumentNesting = 32;

/// A member of an object, or null where there is none or `value` is no object.
const json *getMember(const json &value, const char *key) {
  if (!value.is_object())
    return nullptr;
  auto found = value.find(key);
  return found == value.end() || found->is_null() ? nullptr : &*found;
}

StringRef getString(const json &value, const char *key) {
  const json *member = getMember(value, key);
  return member && member->is_string()
             ? StringRef(member->get_ref<const std::string &>())
             : StringRef();
}

/// The elements of an array, or none where `value` is no array.
const std::vector<json> &getElements(const json *value) {
  static const std::vector<json> kNone;
  return value && value->is_array() ? value->get_ref<const json::array_t &>()
                                    : kNone;
}

std::optional<int64_t> getInteger(const json *value) {
  if (!value || !value->is_number_integer() ||
      (value->is_number_unsigned() &&
       value->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)))
    return std::nullopt;
  return value->get<int64_t>();
}

/// The name and value of a union: an object with one member.
std::pair<StringRef, const json *> getUnion(const json &value) {
  if (!value.is_object() || value.size() != 1)
    return {"", nullptr};
  auto member = value.begin();
  return {member.key(), &member.value()};
}

/// JSON as text, bounded, for values that are only kept.
std::string getText(const json &value) {
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > 1000)
    text = text.substr(0, 1000) + "…";
  return text;
}

StringRef getDType(int64_t code) {
  switch (code) {
  case 1:
    return "uint8";
  case 2:
    return "int8";
  case 3:
    return "int16";
  case 4:
    return "int32";
  case 5:
    return "int64";
  case 6:
    return "float16";
  case 7:
    return "float32";
  case 8:
    return "float64";
  case 9:
    return "complex32";
  case 10:
    return "complex64";
  case 11:
    return "complex128";
  case 12:
    return "bool";
  case 13:
    return "bfloat16";
  case 28:
    return "uint16";
  case 29:
    return "float8_e4m3fn";
  case 30:
    return "float8_e5m2";
  case 31:
    return "float8_e4m3fnuz";
  case 32:
    return "float8_e5m2fnuz";
  case 33:
    return "float8_e8m0fnu";
  case 34:
    return "uint32";
  case 35:
    return "uint64";
  default:
    return "";
  }
}

StringRef getLayout(int64_t code) {
  static constexpr StringLiteral kNames[] = {
      "",           "sparse_coo", "sparse_csr", "sparse_csc",
      "sparse_bsr", "sparse_bsc", "_mkldnn",    "strided"};
  return code >= 0 && code < 8 ? StringRef(kNames[code]) : StringRef();
}

StringRef getMemoryFormat(int64_t code) {
  static constexpr StringLiteral kNames[] = {
      "", "contiguous_format", "channels_last", "channels_last_3d",
      "preserve_format"};
  return code >= 0 && code < 5 ? StringRef(kNames[code]) : StringRef();
}

/// The target as graph JSON names it: aten.add.Tensor, operator.mul.
std::string getTarget(StringRef target) {
  if (target.consume_front("torch.ops.") || target.consume_front("torch._ops."))
    return target.str();
  if (target.consume_front("_operator."))
    return ("operator." + target).str();
  return target.str();
}

/// A module's qualified name from what export records of it.
std::string getModuleName(StringRef path) {
  path.consume_front("L['self']");
  path.consume_front("L__self__");
  std::string result;
  while (!path.empty()) {
    // ._modules['h'] and ['h'] stand for .h
    path.consume_front("._modules");
    if (path.consume_front("[")) {
      auto [name, rest] = path.split(']');
      result += (result.empty() ? "" : ".") + name.trim("'\"").str();
      path = rest;
      continue;
    }
    result += path.front();
    path = path.drop_front();
  }
  return StringRef(result).ltrim('.').str();
}

/// Installed packages are named from `site-packages` on, wherever that is.
StringRef getShortFile(StringRef file) {
  size_t found = file.rfind("/site-packages/");
  return found == StringRef::npos ? file : file.substr(found + 1);
}

class Importer {
public:
  Importer(StringRef fileName, MLIRContext *context)
      : fileName(fileName), context(context), builder(context) {}

  OwningOpRef<ModuleOp> run(StringRef bytes);

private:
  /// What is known of the graph being read.
  struct Graph {
    const json *source = nullptr;
    GraphOp op;
    std::string name;
    llvm::StringMap<Value> values;
    llvm::StringMap<std::pair<const json *, FlatSymbolRefAttr>> subgraphs;
    unsigned depth = 0;
    std::string node;
  };

  LogicalResult fail(const Twine &what);
  LogicalResult readModel(StringRef entry, StringRef text, StringRef name);
  LogicalResult readGraph(Graph &graph, const json *signature);
  LogicalResult readInputs(Graph &graph, const json *signature);
  LogicalResult readNode(Graph &graph, const json &node);
  LogicalResult makeOutputs(Graph &graph, const json &node, NodeOp op,
                            ArrayRef<const json *> outputs,
                            DictionaryAttr metadata, Location stack);
  LogicalResult readOutputs(Graph &graph, const json *signature);

  /// Null after an error; values go to `operands`.
  Attribute readArgument(Graph &graph, const json &argument,
                         SmallVectorImpl<Value> &operands, unsigned depth = 0);
  Attribute readSymbolic(Graph &graph, const json &argument,
                         SmallVectorImpl<Value> &operands);
  Attribute readSubgraph(Graph &graph, const json &argument);
  Value lookUp(Graph &graph, StringRef name);

  Type getType(Graph &graph, StringRef name);
  Type getTensorType(const json &meta);
  Attribute getExtent(const json &size);
  /// The type of a value that a node gives or an input is.
  Type getOutputType(Graph &graph, const json &argument);

  void readMetadata(const json &node, NamedAttrList &metadata, Location &stack);
  void readFromNode(StringRef text, NamedAttrList &metadata);
  std::string makeUniqueName(StringRef wanted);
  std::string makeNodeName(Graph &graph, StringRef wanted);

  StringRef fileName;
  MLIRContext *context;
  OpBuilder builder;
  OwningOpRef<ModuleOp> module;
  std::string entryName;
  Graph *current = nullptr;
  llvm::StringSet<> graphNames;
  llvm::StringMap<std::string> sourceGraphs;
  llvm::StringMap<std::pair<LocationAttr, std::pair<StringAttr, ArrayAttr>>>
      stacks;
};
} // namespace

LogicalResult Importer::fail(const Twine &what) {
  InFlightDiagnostic diagnostic = emitError(UnknownLoc::get(context));
  diagnostic << fileName << ": ";
  if (!entryName.empty())
    diagnostic << entryName << ": ";
  if (current && !current->name.empty())
    diagnostic << "graph '" << current->name << "'";
  if (current && !current->node.empty())
    diagnostic << ", node '" << current->node << "'";
  if (current)
    diagnostic << ": ";
  diagnostic << what.str();
  return failure();
}

std::string Importer::makeUniqueName(StringRef wanted) {
  std::string name = wanted.str();
  for (unsigned number = 2; !graphNames.insert(name).second; ++number)
    name = (wanted + "_" + Twine(number)).str();
  return name;
}

std::string Importer::makeNodeName(Graph &graph, StringRef wanted) {
  std::string name = wanted.str();
  for (unsigned number = 1; graph.values.contains(name); ++number)
    name = (wanted + "_" + Twine(number)).str();
  return name;
}

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
  const json *device = getMember(meta, "device");
  const json *sizes = getMember(meta, "sizes");
  if (!dtype || !device || !sizes || !sizes->is_array())
    return {};
  SmallVector<int64_t> shape;
  SmallVector<Attribute> extents, strides;
  for (const json &size : getElements(sizes)) {
    Attribute extent = getExtent(size);
    auto number = dyn_cast_or_null<IntegerAttr>(extent);
    if (!extent || (number && number.getInt() < 0))
      return {};
    shape.push_back(number ? number.getInt() : ShapedType::kDynamic);
    extents.push_back(extent);
  }
  for (const json &stride : getElements(getMember(meta, "strides"))) {
    strides.push_back(getExtent(stride));
    if (!strides.back())
      return {};
  }
  std::string deviceName = getString(*device, "type").str();
  if (auto index = getInteger(getMember(*device, "index")))
    deviceName += ":" + std::to_string(*index);
  ArrayAttr strideAttr;
  if (strides.size() == shape.size())
    strideAttr = builder.getArrayAttr(strides);
  Attribute offset;
  if (const json *value = getMember(meta, "storage_offset"))
    offset = getExtent(*value);
  StringAttr layout;
  if (auto code = getInteger(getMember(meta, "layout")); code && *code != 7) {
    layout = builder.getStringAttr(getLayout(*code));
    strideAttr = {};
  }
  const json *requiresGrad = getMember(meta, "requires_grad");
  StringRef dtypeName = getDType(*dtype);
  std::string unknown = "unknown_" + std::to_string(*dtype);
  return RankedTensorType::get(
      shape,
      opprof::fx::getElementType(context,
                                 dtypeName.empty() ? unknown : dtypeName),
      TensorInfoAttr::getCanonical(context, deviceName, extents, strideAttr,
                                   offset,
                                   requiresGrad && requiresGrad->is_boolean() &&
                                       requiresGrad->get<bool>(),
                                   layout));
}

/// The type of the value `name`, or null where the graph says nothing of it.
Type Importer::getType(Graph &graph, StringRef name) {
  std::string key = name.str();
  auto find = [&](const char *table) -> const json * {
    const json *values = getMember(*graph.source, table);
    return values ? getMember(*values, key.c_str()) : nullptr;
  };
  if (const json *meta = find("tensor_values"))
    return getTensorType(*meta);
  auto getExpression = [&](const json &value) -> std::optional<std::string> {
    auto [kind, content] = getUnion(value);
    if (kind == "as_expr")
      return getSymPyText(getString(*content, "expr_str"));
    return std::nullopt;
  };
  if (const json *value = find("sym_int_values")) {
    if (auto expression = getExpression(*value))
      return SymIntType::get(context, *expression);
    return ScalarType::get(context, "int");
  }
  if (const json *value = find("sym_float_values")) {
    if (auto expression = getExpression(*value))
      return SymFloatType::get(context, *expression);
    return ScalarType::get(context, "float");
  }
  if (const json *value = find("sym_bool_values")) {
    if (auto expression = getExpression(*value))
      return SymBoolType::get(context, *expression);
    return ScalarType::get(context, "bool");
  }
  if (const json *value = find("custom_obj_values"))
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

Value Importer::lookUp(Graph &graph, StringRef name) {
  Value value = graph.values.lookup(name);
  if (!value)
    (void)fail("refers to '" + name +
               "', which no input or earlier node of the graph gives");
  return value;
}

/// A symbolic argument: a value by name, or a constant.
Attribute Importer::readSymbolic(Graph &graph, const json &argument,
                                 SmallVectorImpl<Value> &operands) {
  auto [kind, value] = getUnion(argument);
  if (kind == "as_name" && value->is_string()) {
    Value found = lookUp(graph, value->get_ref<const std::string &>());
    if (!found)
      return {};
    operands.push_back(found);
    return ValueAttr::get(context);
  }
  if (kind == "as_int" || kind == "as_float" || kind == "as_bool")
    return readArgument(graph, argument, operands, kMaxArgumentNesting);
  (void)fail("holds a symbolic argument that is neither a name nor a number: " +
             getText(argument));
  return {};
}

static FloatAttr getFloat(Builder &builder, const json &value) {
  if (value.is_number())
    return builder.getF64FloatAttr(value.get<double>());
  if (!value.is_string())
    return {};
  StringRef text = value.get_ref<const std::string &>();
  double infinity = std::numeric_limits<double>::infinity();
  if (text == "Infinity")
    return builder.getF64FloatAttr(infinity);
  if (text == "-Infinity")
    return builder.getF64FloatAttr(-infinity);
  if (text == "NaN")
    return builder.getF64FloatAttr(std::numeric_limits<double>::quiet_NaN());
  return {};
}

Attribute Importer::readSubgraph(Graph &graph, const json &argument) {
  StringRef name = getString(argument, "name");
  const json *source = getMember(argument, "graph");
  if (name.empty() || !source) {
    (void)fail("holds a subgraph without a name or a graph");
    return {};
  }
  if (graph.depth >= kMaxGraphNesting) {
    (void)fail("subgraphs are nested deeper than " + Twine(kMaxGraphNesting));
    return {};
  }
  // One subgraph that several nodes call is written at each of them.
  auto found = graph.subgraphs.find(name);
  if (found != graph.subgraphs.end() && *found->second.first == *source)
    return found->second.second;

  Graph child;
  child.source = source;
  std::string path = graph.depth ? graph.name + "." + name.str() : name.str();
  child.name = makeUniqueName(path);
  child.depth = graph.depth + 1;
  auto symbol = FlatSymbolRefAttr::get(context, child.name);
  graph.subgraphs[name] = {source, symbol};
  OpBuilder::InsertionGuard guard(builder);
  LogicalResult result = readGraph(child, /*signature=*/nullptr);
  current = &graph;
  return succeeded(result) ? Attribute(symbol) : Attribute();
}

Attribute Importer::readArgument(Graph &graph, const json &argument,
                                 SmallVectorImpl<Value> &operands,
                                 unsigned depth) {
  auto [kind, content] = getUnion(argument);
  auto wrong = [&](const Twine &what) {
    (void)fail(what);
    return Attribute();
  };
  if (!content)
    return wrong("holds an argument that is no object with one key: " +
                 getText(argument));
  const json &value = *content;
  auto takeValue = [&](StringRef name) -> Attribute {
    Value found = lookUp(graph, name);
    if (!found)
      return {};
    operands.push_back(found);
    return ValueAttr::get(context);
  };
  auto takeList = [&](llvm::function_ref<Attribute(const json &)> takeElement)
      -> Attribute {
    SmallVector<Attribute> elements;
    if (!value.is_array())
      return wrong("'" + kind + "' is no array");
    for (const json &element : getElements(&value)) {
      elements.push_back(takeElement(element));
      if (!elements.back())
        return {};
    }
    return builder.getArrayAttr(elements);
  };
  auto takeInt = [&](const json &number) -> Attribute {
    if (auto small = getInteger(&number))
      return builder.getI64IntegerAttr(*small);
    if (number.is_number_unsigned())
      return BigIntAttr::get(context, std::to_string(number.get<uint64_t>()));
    return wrong("'" + kind +
                 "' holds no whole number of 64 bits: " + getText(number));
  };
  auto takeFloat = [&](const json &number) -> Attribute {
    if (FloatAttr result = getFloat(builder, number))
      return result;
    return wrong("'" + kind + "' holds no number: " + getText(number));
  };
  auto takeBool = [&](const json &flag) -> Attribute {
    if (!flag.is_boolean())
      return wrong("'" + kind + "' holds no truth value: " + getText(flag));
    return builder.getBoolAttr(flag.get<bool>());
  };
  auto takeString = [&](const json &text) -> Attribute {
    if (!text.is_string())
      return wrong("'" + kind + "' holds no string: " + getText(text));
    return builder.getStringAttr(text.get_ref<const std::string &>());
  };
  auto takeOptional = [&](const json &element) -> Attribute {
    auto [which, tensor] = getUnion(element);
    if (which == "as_none")
      return opprof::fx::NoneAttr::get(context);
    if (which == "as_tensor")
      return takeValue(getString(*tensor, "name"));
    return wrong("'" + kind + "' holds no tensor: " + getText(element));
  };
  auto takeTensor = [&](const json &element) {
    return takeValue(getString(element, "name"));
  };
  auto takeSymbolic = [&](const json &element) {
    return readSymbolic(graph, element, operands);
  };
  auto takeCode = [&](StringRef (*getName)(int64_t)) {
    auto code = getInteger(&value);
    return code ? getName(*code) : StringRef();
  };

  if (kind == "as_none")
    return opprof::fx::NoneAttr::get(context);
  if (kind == "as_tensor")
    return takeTensor(value);
  if (kind == "as_tensors")
    return takeList(takeTensor);
  if (kind == "as_optional_tensor")
    return takeOptional(value);
  if (kind == "as_optional_tensors")
    return takeList(takeOptional);
  if (kind == "as_int")
    return takeInt(value);
  if (kind == "as_ints")
    return takeList(takeInt);
  if (kind == "as_float")
    return takeFloat(value);
  if (kind == "as_floats")
    return takeList(takeFloat);
  if (kind == "as_bool")
    return takeBool(value);
  if (kind == "as_bools")
    return takeList(takeBool);
  if (kind == "as_string")
    return takeString(value);
  if (kind == "as_strings")
    return takeList(takeString);
  if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool")
    return takeSymbolic(value);
  if (kind == "as_sym_ints" || kind == "as_sym_floats" ||
      kind == "as_sym_bools")
    return takeList(takeSymbolic);
  if (kind == "as_scalar_type") {
    StringRef name = takeCode(getDType);
    if (!name.empty())
      return DTypeAttr::get(context, name);
  }
  if (kind == "as_memory_format") {
    StringRef name = takeCode(getMemoryFormat);
    if (!name.empty())
      return MemoryFormatAttr::get(context, name);
  }
  if (kind == "as_layout") {
    StringRef name = takeCode(getLayout);
    if (!name.empty())
      return LayoutAttr::get(context, name);
  }
  if (kind == "as_device") {
    std::string name = getString(value, "type").str();
    if (auto index = getInteger(getMember(value, "index")))
      name += ":" + std::to_string(*index);
    return DeviceAttr::get(context, name);
  }
  if (kind == "as_graph")
    return readSubgraph(graph, value);
  if (kind == "as_operator" && value.is_string())
    return OpRefAttr::get(context,
                          getTarget(value.get_ref<const std::string &>()));
  if (kind == "as_complex") {
    const json *real = getMember(value, "real");
    const json *imaginary = getMember(value, "imag");
    FloatAttr realAttr = real ? getFloat(builder, *real) : FloatAttr();
    FloatAttr imaginaryAttr =
        imaginary ? getFloat(builder, *imaginary) : FloatAttr();
    if (realAttr && imaginaryAttr)
      return opprof::fx::ComplexAttr::get(context, realAttr, imaginaryAttr);
  }
  if (kind == "as_custom_obj") {
    StringRef name = getString(value, "name");
    if (graph.values.contains(name))
      return takeValue(name);
    return ObjectAttr::get(context, getString(value, "class_fqn"), name);
  }
  auto takeLists = [&](llvm::function_ref<Attribute(const json &)> takeElement,
                       bool asTuples) -> Attribute {
    return takeList([&](const json &inner) -> Attribute {
      SmallVector<Attribute> elements;
      for (const json &element : getElements(&inner)) {
        elements.push_back(takeElement(element));
        if (!elements.back())
          return {};
      }
      ArrayAttr list = builder.getArrayAttr(elements);
      return asTuples ? Attribute(TupleAttr::get(context, list))
                      : Attribute(list);
    });
  };
  if (kind == "as_nested_tensors")
    return takeLists(takeTensor, /*asTuples=*/false);
  if (kind == "as_int_lists")
    return takeLists(takeInt, /*asTuples=*/true);
  if (kind == "as_float_lists")
    return takeLists(takeFloat, /*asTuples=*/false);
  if (kind == "as_string_to_argument" && value.is_object()) {
    if (depth >= kMaxArgumentNesting)
      return wrong("arguments are nested deeper than " +
                   Twine(kMaxArgumentNesting));
    SmallVector<Attribute> keys, members;
    for (const auto &[key, member] : value.items()) {
      keys.push_back(builder.getStringAttr(key));
      members.push_back(readArgument(graph, member, operands, depth + 1));
      if (!members.back())
        return {};
    }
    return DictAttr::get(context, builder.getArrayAttr(keys),
                         builder.getArrayAttr(members));
  }
  // A newer PyTorch's form is kept, and what needs it will name it.
  return ObjectAttr::get(context, kind, getText(value));
}

//===----------------------------------------------------------------------===//
// Metadata
//===----------------------------------------------------------------------===//

/// The frames of a traceback as Python prints it, innermost last; their texts
/// live in `text`.
static SmallVector<StackFrame> parseStackTrace(StringRef text) {
  SmallVector<StackFrame> frames;
  SmallVector<StringRef> lines;
  text.split(lines, '\n');
  for (StringRef line : lines) {
    StringRef rest = line.trim();
    if (rest.consume_front("File \"")) {
      auto [file, after] = rest.split("\", line ");
      StackFrame frame;
      frame.file = getShortFile(file);
      if (after.consumeInteger(10, frame.line) || frame.line > INT32_MAX)
        continue;
      if (after.consume_front(", in "))
        frame.function = after.trim();
      frames.push_back(frame);
    } else if (!frames.empty() && frames.back().code.empty() &&
               !rest.trim(" ^~").empty()) {
      frames.back().code = rest;
    }
  }
  constexpr size_t kMaxFrames = 1000;
  if (frames.size() > kMaxFrames)
    frames.erase(frames.begin(), frames.end() - kMaxFrames);
  return frames;
}

/// "key,path,type;…" as [["path", "type"], …].
static ArrayAttr parseModuleStack(Builder &builder, StringRef text) {
  SmallVector<Attribute> modules;
  SmallVector<StringRef> entries;
  text.split(entries, ';');
  for (StringRef entry : entries) {
    // Commas in brackets belong to a part.
    SmallVector<StringRef> parts;
    int depth = 0;
    size_t begin = 0;
    for (size_t i = 0; i < entry.size(); ++i) {
      char c = entry[i];
      depth += (c == '[' || c == '(') - (c == ']' || c == ')');
      if (c == ',' && depth == 0) {
        parts.push_back(entry.slice(begin, i));
        begin = i + 1;
      }
    }
    parts.push_back(entry.substr(begin));
    if (parts.size() != 3)
      continue;
    modules.push_back(builder.getStrArrayAttr(
        {StringRef(getModuleName(parts[1])), parts[2]}));
  }
  return modules.empty() ? ArrayAttr() : builder.getArrayAttr(modules);
}

/// The nested records of a node's origin as one chain, newest first, each step
/// once.
void Importer::readFromNode(StringRef text, NamedAttrList &metadata) {
  json chain = json::parse(text.begin(), text.end(), nullptr,
                           /*allow_exceptions=*/false);
  SmallVector<std::pair<const json *, unsigned>> pending;
  auto push = [&](const json &list, unsigned depth) {
    for (const json &element : llvm::reverse(getElements(&list)))
      pending.emplace_back(&element, depth);
  };
  push(chain, 0);
  SmallVector<Attribute> steps;
  llvm::SmallDenseSet<Attribute> seen;
  while (!pending.empty()) {
    auto [source, depth] = pending.pop_back_val();
    if (const json *inner = getMember(*source, "from_node"))
      push(*inner, depth + 1);
    StringRef name = getString(*source, "name");
    const json *graphId = getMember(*source, "graph_id");
    if (name.empty() || !graphId)
      continue;
    std::string &graph = sourceGraphs[getText(*graphId)];
    if (graph.empty())
      graph = "#" + std::to_string(sourceGraphs.size());
    std::string action;
    const json *actions = getMember(*source, "action");
    if (actions && actions->is_string())
      action = StringRef(actions->get_ref<const std::string &>()).lower();
    for (const json &each : getElements(actions))
      if (each.is_string())
        action += (action.empty() ? "" : "+") +
                  StringRef(each.get_ref<const std::string &>()).lower();
    Attribute step = builder.getDictionaryAttr(
        {builder.getNamedAttr("name", builder.getStringAttr(name)),
         builder.getNamedAttr("graph", builder.getStringAttr(graph)),
         builder.getNamedAttr(
             "pass", builder.getStringAttr(getString(*source, "pass_name"))),
         builder.getNamedAttr("action", builder.getStringAttr(action))});
    if (seen.insert(step).second)
      steps.push_back(step);
  }
  if (!steps.empty())
    metadata.set(kFromNodeKey, builder.getArrayAttr(steps));
}

void Importer::readMetadata(const json &node, NamedAttrList &metadata,
                            Location &stack) {
  const json *source = getMember(node, "metadata");
  if (!source)
    return;
  if (StringRef text = getString(*source, "stack_trace"); !text.empty()) {
    auto [entry, isNew] = stacks.try_emplace(text);
    auto &[location, codes] = entry->second;
    SmallVector<StackFrame> frames;
    if (isNew) {
      frames = parseStackTrace(text);
      location = getStackLocation(context, frames);
      SmallVector<Attribute> all;
      bool hasOthers = false;
      for (const StackFrame &frame : frames) {
        all.push_back(builder.getStringAttr(frame.code));
        if (&frame == getUserFrame(frames))
          codes.first =
              frame.code.empty() ? StringAttr() : cast<StringAttr>(all.back());
        else
          hasOthers |= !frame.code.empty();
      }
      if (hasOthers)
        codes.second = builder.getArrayAttr(all);
    }
    stack = location;
    if (codes.first)
      metadata.set(kCodeKey, codes.first);
    if (codes.second)
      metadata.set(kCodesKey, codes.second);
  }
  StringRef modules = getString(*source, "nn_module_stack");
  if (ArrayAttr list = parseModuleStack(builder, modules))
    metadata.set(kModulesKey, list);
  if (StringRef text = getString(*source, "torch_fn"); !text.empty()) {
    auto [name, function] = text.split(';');
    metadata.set(kTorchFunctionKey, builder.getStrArrayAttr({name, function}));
  }
  if (StringRef text = getString(*source, "from_node"); !text.empty())
    readFromNode(text, metadata);
}

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

/// The name of the value that an output of a node gives, or empty.
static StringRef getOutputName(const json &output) {
  auto [kind, value] = getUnion(output);
  if (kind == "as_tensor" || kind == "as_custom_obj")
    return getString(*value, "name");
  if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool")
    return getString(*value, "as_name");
  return "";
}

LogicalResult Importer::readNode(Graph &graph, const json &node) {
  std::string target = getTarget(getString(node, "target"));
  graph.node = getString(node, "name").str();
  if (target.empty())
    return fail("the required key 'target' is missing or no string");
  if (graph.node.empty())
    graph.node = target;
  const json *inputs = getMember(node, "inputs");
  const json *outputs = getMember(node, "outputs");
  if (!inputs || !inputs->is_array() || !outputs || !outputs->is_array())
    return fail("the required key 'inputs' or 'outputs' is missing or no "
                "array");

  // Arguments: by their kind, and in archives older than that by the schema.
  const OperatorSchema *schema = lookupSchema(target);
  bool isHigherOrder = StringRef(target).starts_with("higher_order.");
  SmallVector<Attribute> positional, keyword, keywordNames;
  SmallVector<Value> operands, keywordOperands;
  llvm::StringSet<> seenKeywords;
  for (const json &input : getElements(inputs)) {
    StringRef name = getString(input, "name");
    const json *argument = getMember(input, "arg");
    if (!argument)
      return fail("an input has no 'arg'");
    auto kind = getInteger(getMember(input, "kind"));
    bool isKeyword = kind && *kind == 2;
    if (!kind || *kind == 0) {
      int index = schema ? schema->getArgumentIndex(name) : -1;
      if (index >= 0)
        isKeyword = schema->arguments[index].isKeywordOnly ||
                    schema->arguments[index].hasDefault;
      else
        isKeyword = isHigherOrder && !name.empty();
      // Python cannot write these as keywords.
      isKeyword &= name != "from";
    }
    Attribute value =
        readArgument(graph, *argument, isKeyword ? keywordOperands : operands);
    if (!value)
      return failure();
    if (!isKeyword) {
      positional.push_back(value);
      continue;
    }
    if (name.empty() || !seenKeywords.insert(name).second)
      return fail("a keyword argument has no name, or comes twice: '" + name +
                  "'");
    keyword.push_back(value);
    keywordNames.push_back(builder.getStringAttr(name));
  }
  llvm::append_range(positional, keyword);
  llvm::append_range(operands, keywordOperands);

  // One output is the node's value; several are a tuple, taken apart.
  SmallVector<const json *> results;
  for (const json &output : getElements(outputs))
    results.push_back(&output);
  const json *single = getMember(node, "is_hop_single_tensor_return");
  auto [firstKind, firstValue] =
      results.size() == 1 ? getUnion(*results[0])
                          : std::pair<StringRef, const json *>("", nullptr);
  bool isTupleOfOne = results.size() == 1 && isHigherOrder && single &&
                      single->is_boolean() && !single->get<bool>() &&
                      firstKind != "as_none" && firstKind != "as_tensors";
  bool isList = results.size() == 1 && firstKind == "as_tensors";
  std::string name = getString(node, "name").str();
  Type type;
  if (results.empty()) {
    type = opprof::fx::NoneType::get(context);
  } else if (results.size() == 1 && !isTupleOfOne) {
    type = getOutputType(graph, *results[0]);
    if (isList && isHigherOrder)
      type = cast<ListType>(type).getElements();
    if (name.empty())
      name = getOutputName(*results[0]).str();
  } else {
    SmallVector<Type> types;
    for (const json *output : results)
      types.push_back(getOutputType(graph, *output));
    type = TupleType::get(context, types);
  }
  if (name.empty()) {
    // As FX names a node after its target: aten.topk.default gives topk.
    auto [prefix, last] = StringRef(target).rsplit('.');
    StringRef base = schema ? prefix.rsplit('.').second : last;
    name = makeNodeName(graph, base.empty() ? StringRef(target) : base);
  } else if (graph.values.contains(name)) {
    return fail("a second node or input of this name");
  }

  NamedAttrList metadata;
  Location stack = UnknownLoc::get(context);
  readMetadata(node, metadata, stack);
  DictionaryAttr metadataAttr = metadata.getDictionary(context);
  auto op = NodeOp::create(builder,
                           getNodeLocation(context, name, metadataAttr, stack),
                           type, target, operands, positional, keywordNames);
  graph.values[name] = op.getResult();
  if (results.size() == 1 && !isTupleOfOne && !isList) {
    // Older archives may call the value otherwise than the node.
    StringRef valueName = getOutputName(*results[0]);
    if (!valueName.empty() && valueName != name &&
        !graph.values.try_emplace(valueName, op.getResult()).second)
      return fail("a second value called '" + valueName + "'");
    return success();
  }
  if (isList) {
    SmallVector<const json *> elements;
    for (const json &element : getElements(firstValue))
      elements.push_back(&element);
    return makeOutputs(graph, node, op, elements, metadataAttr, stack);
  }
  return makeOutputs(graph, node, op, results, metadataAttr, stack);
}

/// Takes a node's outputs apart, as the graph did that was saved: an output
/// that nothing took has a name made up by the archive, and gets no node.
LogicalResult Importer::makeOutputs(Graph &graph, const json &node, NodeOp op,
                                    ArrayRef<const json *> outputs,
                                    DictionaryAttr metadata, Location stack) {
  StringRef nodeName = getNodeName(op);
  auto make = [&](Value base, size_t index, StringRef name, Type type,
                  StringRef unusedPrefix) -> LogicalResult {
    if (name.starts_with((unusedPrefix + "_unused_").str()))
      return success();
    if (graph.values.contains(name))
      return fail("a second value called '" + name + "'");
    Attribute args[] = {ValueAttr::get(context),
                        builder.getI64IntegerAttr(index)};
    auto item =
        NodeOp::create(builder, getNodeLocation(context, name, metadata, stack),
                       type, "operator.getitem", base, args);
    graph.values[name] = item.getResult();
    return success();
  };
  auto typeOf = [&](StringRef name) {
    Type type = getType(graph, name);
    return type ? type : Type(ObjectType::get(context, ""));
  };
  for (auto [index, output] : llvm::enumerate(outputs)) {
    // An element of a list of tensors is {"name": …} itself.
    if (StringRef name = getString(*output, "name"); !name.empty()) {
      if (failed(make(op.getResult(), index, name, typeOf(name), nodeName)))
        return failure();
      continue;
    }
    auto [kind, value] = getUnion(*output);
    if (StringRef name = getOutputName(*output); !name.empty()) {
      if (failed(make(op.getResult(), index, name,
                      getOutputType(graph, *output), nodeName)))
        return failure();
    } else if (kind == "as_tensors" || kind == "as_sym_ints" ||
               kind == "as_sym_floats" || kind == "as_sym_bools") {
      // A list inside the tuple: first the list, then its elements.
      bool isUsed = llvm::any_of(getElements(value), [&](const json &element) {
        StringRef name = getString(element, "name");
        if (name.empty())
          name = getString(element, "as_name");
        return !name.empty() &&
               !name.starts_with((nodeName + "_unused_").str());
      });
      if (!isUsed)
        continue;
      std::string listName = makeNodeName(graph, "getitem");
      if (failed(make(op.getResult(), index, listName,
                      getOutputType(graph, *output), nodeName)))
        return failure();
      Value list = graph.values.lookup(listName);
      for (auto [inner, element] : llvm::enumerate(getElements(value))) {
        StringRef name = getString(element, "name");
        if (name.empty())
          name = getString(element, "as_name");
        if (!name.empty() &&
            failed(make(list, inner, name, typeOf(name), listName)))
          return failure();
      }
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

LogicalResult Importer::readInputs(Graph &graph, const json *signature) {
  const json *specs =
      signature ? getMember(*signature, "input_specs") : nullptr;
  const auto &inputs = getElements(getMember(*graph.source, "inputs"));
  if (signature && getElements(specs).size() != inputs.size())
    return fail("the graph has " + Twine(inputs.size()) +
                " inputs, but its signature speaks of " +
                Twine(getElements(specs).size()));
  SmallVector<Type> types;
  SmallVector<DictionaryAttr> attributes;
  Block &block = graph.op.getBlock();
  for (auto [index, input] : llvm::enumerate(inputs)) {
    std::string name = getOutputName(input).str();
    StringRef kind = "user_input", target;
    bool isPersistent = true;
    if (signature) {
      auto [which, spec] = getUnion(getElements(specs)[index]);
      kind = llvm::StringSwitch<StringRef>(which)
                 .Case("parameter", "parameter")
                 .Case("buffer", "buffer")
                 .Case("tensor_constant", "constant_tensor")
                 .Case("custom_obj", "constant_object")
                 .Case("token", "token")
                 .Cases({"user_input", "constant_input"}, "user_input")
                 .Default("");
      if (kind.empty())
        return fail("input #" + Twine(index) + " is of the unknown kind '" +
                    which + "'");
      for (const char *key : {"parameter_name", "buffer_name",
                              "tensor_constant_name", "custom_obj_name"})
        if (target.empty())
          target = getString(*spec, key);
      if (const json *persistent = getMember(*spec, "persistent"))
        isPersistent = !persistent->is_boolean() || persistent->get<bool>();
      if (name.empty())
        name = getString(*spec, "name").str();
      if (const json *argument = getMember(*spec, "arg");
          argument && name.empty())
        name = getString(*argument, "name").str();
    }
    if (name.empty())
      name = makeNodeName(graph, "arg" + std::to_string(index));
    if (graph.values.contains(name))
      return fail("there are two inputs called '" + name + "'");
    Type type = getOutputType(graph, input);
    graph.values[name] =
        block.addArgument(type, NameLoc::get(builder.getStringAttr(name)));
    types.push_back(type);
    NamedAttrList attribute;
    attribute.set(FXDialect::kKindAttr, builder.getStringAttr(kind));
    if (!target.empty())
      attribute.set(FXDialect::kTargetAttr, builder.getStringAttr(target));
    if (!isPersistent)
      attribute.set(FXDialect::kPersistentAttr, builder.getBoolAttr(false));
    attributes.push_back(attribute.getDictionary(context));
  }
  graph.op.setFunctionType(builder.getFunctionType(types, {}));
  graph.op.setAllArgAttrs(attributes);
  return success();
}

LogicalResult Importer::readOutputs(Graph &graph, const json *signature) {
  graph.node.clear();
  SmallVector<Attribute> args, entries;
  SmallVector<Value> operands;
  for (const json &output : getElements(getMember(*graph.source, "outputs"))) {
    args.push_back(readArgument(graph, output, operands));
    if (!args.back())
      return failure();
  }
  bool isPlain = true;
  if (signature) {
    for (const json &spec :
         getElements(getMember(*signature, "output_specs"))) {
      auto [kind, content] = getUnion(spec);
      if (!content)
        return fail("an output's signature is no object with one key");
      static constexpr StringLiteral kKinds[] = {"user_output",
                                                 "loss_output",
                                                 "buffer_mutation",
                                                 "parameter_mutation",
                                                 "user_input_mutation",
                                                 "gradient_to_parameter",
                                                 "gradient_to_user_input",
                                                 "token"};
      if (!llvm::is_contained(kKinds, kind))
        return fail("an output is of the unknown kind '" + kind + "'");
      StringRef target;
      for (const char *key :
           {"parameter_name", "buffer_name", "user_input_name"})
        if (target.empty())
          target = getString(*content, key);
      NamedAttrList entry;
      entry.set("kind", builder.getStringAttr(kind));
      if (!target.empty())
        entry.set("target", builder.getStringAttr(target));
      entries.push_back(entry.getDictionary(context));
      isPlain &= kind == "user_output";
    }
    if (entries.size() != args.size())
      return fail("the graph has " + Twine(args.size()) +
                  " outputs, but its signature speaks of " +
                  Twine(entries.size()));
  }
  auto output = OutputOp::create(builder, UnknownLoc::get(context), operands);
  output.setArgsAttr(builder.getArrayAttr(args));
  if (!isPlain)
    output.setSignatureAttr(builder.getArrayAttr(entries));
  graph.op.setFunctionType(builder.getFunctionType(
      graph.op.getArgumentTypes(), TypeRange(ValueRange(operands))));
  return success();
}

LogicalResult Importer::readGraph(Graph &graph, const json *signature) {
  current = &graph;
  for (const char *key : {"inputs", "outputs", "nodes"})
    if (const json *list = getMember(*graph.source, key);
        !list || !list->is_array())
      return fail("the required key '" + Twine(key) +
                  "' is missing or no array");
  builder.setInsertionPointToEnd(module->getBody());
  graph.op = GraphOp::create(builder, UnknownLoc::get(context), graph.name,
                             builder.getFunctionType({}, {}), "export");
  if (graph.depth)
    SymbolTable::setSymbolVisibility(graph.op,
                                     SymbolTable::Visibility::Private);
  Block &block = graph.op.getBody().emplaceBlock();
  builder.setInsertionPointToEnd(&block);
  if (failed(readInputs(graph, signature)))
    return failure();
  for (const json &node : getElements(getMember(*graph.source, "nodes"))) {
    builder.setInsertionPointToEnd(&block);
    if (failed(readNode(graph, node)))
      return failure();
  }
  if (failed(readOutputs(graph, signature)))
    return failure();
  graph.op->setLoc(getGraphLocation(block));
  const json *single = getMember(*graph.source, "is_single_tensor_return");
  if (single && single->is_boolean() && single->get<bool>())
    graph.op->setAttr(kAttributesAttr,
                      builder.getDictionaryAttr(builder.getNamedAttr(
                          kOutputFormKey, builder.getStringAttr("single"))));
  return success();
}

/// How far a text goes before it is no JSON, for the message.
static std::string describeBadJSON(StringRef text) {
  if (text.trim().empty())
    return "it is empty";
  return "it is no valid JSON, or breaks off";
}

LogicalResult Importer::readModel(StringRef entry, StringRef text,
                                  StringRef name) {
  entryName = entry.str();
  current = nullptr;
  json document = json::parse(text.begin(), text.end(), nullptr,
                              /*allow_exceptions=*/false);
  if (document.is_discarded())
    return fail(describeBadJSON(text));
  const json *version = getMember(document, "schema_version");
  auto major =
      version ? getInteger(getMember(*version, "major")) : std::nullopt;
  if (!major)
    return fail("it has no 'schema_version': this is no graph of torch.export");
  if (*major != 8)
    return fail("its schema is version " + Twine(*major) +
                "; opprof reads version 8, of PyTorch 2.6 to 2.13: save the "
                "model again with one of these");
  const json *graphModule = getMember(document, "graph_module");
  const json *source = graphModule ? getMember(*graphModule, "graph") : nullptr;
  const json *signature =
      graphModule ? getMember(*graphModule, "signature") : nullptr;
  if (!source || !signature)
    return fail("the required key 'graph_module', its 'graph' or its "
                "'signature' is missing");

  Graph graph;
  graph.source = source;
  graph.name = makeUniqueName(name);
  if (failed(readGraph(graph, signature)))
    return failure();
  current = &graph;
  NamedAttrList ranges;
  if (const json *constraints = getMember(document, "range_constraints");
      constraints && constraints->is_object()) {
    for (const auto &[symbol, range] : constraints->items()) {
      auto bound = [&](const char *key) -> Attribute {
        if (auto number = getInteger(getMember(range, key)))
          return builder.getI64IntegerAttr(*number);
        return opprof::fx::NoneAttr::get(context);
      };
      if (!symbol.empty())
        ranges.set(symbol,
                   builder.getArrayAttr({bound("min_val"), bound("max_val")}));
    }
  }
  if (!ranges.empty())
    graph.op->setAttr(kRangeConstraintsAttr, ranges.getDictionary(context));
  // The call of the whole module says how arguments and results nest.
  for (const json &call :
       getElements(getMember(*graphModule, "module_call_graph"))) {
    const json *callSignature = getMember(call, "signature");
    const json *path = getMember(call, "fqn");
    if (!callSignature || !path || !path->is_string() ||
        !path->get_ref<const std::string &>().empty())
      continue;
    for (auto [key, attribute] : {std::pair("in_spec", kInSpecAttr),
                                  std::pair("out_spec", kOutSpecAttr)})
      if (StringRef spec = getString(*callSignature, key); !spec.empty())
        graph.op->setAttr(attribute, builder.getStringAttr(spec));
    break;
  }
  if (StringRef torch = getString(document, "torch_version"); !torch.empty())
    module->getOperation()->setAttr(
        kProducerAttr, builder.getDictionaryAttr(builder.getNamedAttr(
                           "torch", builder.getStringAttr(torch))));
  current = nullptr;
  return success();
}

OwningOpRef<ModuleOp> Importer::run(StringRef bytes) {
  llvm::Expected<ZipArchive> archive = ZipArchive::open(bytes);
  if (!archive) {
    (void)fail(llvm::toString(archive.takeError()));
    return nullptr;
  }
  module = ModuleOp::create(builder, UnknownLoc::get(context));
  std::string stem = llvm::sys::path::stem(fileName).str();
  StringRef(stem).consume_back(".noweights");

  // Models by name, and what their graphs are called: as the model is, or as
  // the archive where the model is just called "model".
  SmallVector<std::pair<const ZipArchive::Entry *, std::string>> models;
  for (const ZipArchive::Entry &entry : archive->getEntries()) {
    StringRef path = entry.name;
    auto [folder, file] = path.rsplit('/');
    if (file.empty())
      file = path;
    if (path == "serialized_exported_program.json") {
      models.emplace_back(&entry, stem);
    } else if (file.ends_with(".json") &&
               (folder == "models" || folder.ends_with("/models"))) {
      StringRef root = folder.drop_back(StringRef("models").size());
      StringRef model = file.drop_back(StringRef(".json").size());
      std::string name = model != "model" ? model.str()
                         : root.empty()   ? stem
                                          : root.split('/').first.str();
      models.emplace_back(&entry, name);
    }
  }
  if (models.empty()) {
    bool isCompiled =
        llvm::any_of(archive->getEntries(), [](const auto &entry) {
          return StringRef(entry.name).contains("aotinductor");
        });
    (void)fail(isCompiled
                   ? "this is an AOTInductor package, which holds compiled "
                     "code and no graph: give the file that torch.export.save "
                     "wrote"
                   : "the archive holds no models/*.json and no "
                     "serialized_exported_program.json: torch.export.save did "
                     "not write it");
    return nullptr;
  }
  for (const auto &[entry, name] : models) {
    entryName.clear();
    current = nullptr;
    llvm::Expected<std::string> text = archive->read(*entry);
    if (!text) {
      (void)fail(llvm::toString(text.takeError()));
      return nullptr;
    }
    if (failed(readModel(entry->name, *text, name.empty() ? "graph" : name)))
      return nullptr;
  }
  // Subgraphs come after the graphs that call them.
  for (Operation &op : llvm::reverse(*module->getBody()))
    if (auto graph = cast<GraphOp>(op); graph.isFunctional())
      graph.setFunctional(true);
  return std::move(module);
}

OwningOpRef<ModuleOp> opprof::fx::importPT2(StringRef archive,
                                            StringRef fileName,
                                            MLIRContext *context) {
  context->loadDialect<FXDialect>();
  return Importer(fileName, context).run(archive);
}
