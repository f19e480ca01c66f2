// Arguments of nodes: unions, whose one key says what the value is.

#include "Enums.h"
#include "Importer.h"

#include "opprof/Dialect/FX/IR/ArgumentForms.h"

using namespace mlir;
using namespace opprof::fx;
using namespace opprof::fx::pt2;
using llvm::Twine;

namespace {
/// Reads one argument. Functions return null after an error.
class ArgumentReader {
public:
  ArgumentReader(Importer &importer, Graph &graph,
                 SmallVectorImpl<Value> &operands, unsigned depth = 0)
      : importer(importer), graph(graph), operands(operands), depth(depth),
        context(importer.getContext()), builder(context) {}

  Attribute read(const json &argument);

private:
  using Reader = Attribute (ArgumentReader::*)(const json &);
  /// What a union holds: one value, a list of them, or lists in a list, as
  /// lists or as tuples.
  enum class Nesting { One, List, Lists, Tuples };
  struct Form {
    StringLiteral kind;
    Nesting nesting;
    Reader read;
  };
  static ArrayRef<Form> getForms();

  Attribute readNested(const json &value, const Form &form);
  Attribute readList(const json &value, const Form &form);
  Attribute readLists(const json &value, const Form &form);

  Attribute readNone(const json &) {
    return opprof::fx::NoneAttr::get(context);
  }
  Attribute readTensor(const json &value) {
    return takeValue(getString(value, "name"));
  }
  Attribute readOptionalTensor(const json &value);
  Attribute readInt(const json &value);
  Attribute readFloat(const json &value);
  Attribute readBool(const json &value);
  Attribute readString(const json &value);
  Attribute readComplex(const json &value);
  Attribute readSymbolic(const json &value);
  Attribute readScalarType(const json &value);
  Attribute readMemoryFormat(const json &value);
  Attribute readLayout(const json &value);
  Attribute readDevice(const json &value) {
    return DeviceAttr::get(context, getDeviceName(value));
  }
  Attribute readGraph(const json &value) {
    return importer.readSubgraph(graph, value);
  }
  Attribute readOperator(const json &value);
  Attribute readCustomObject(const json &value);
  Attribute readDict(const json &value);

  Attribute wrong(const Twine &what) {
    (void)importer.fail(what);
    return {};
  }
  Attribute wrongContent(StringRef what, const json &value) {
    return wrong("'" + kind + "' holds no " + what + ": " + getText(value));
  }
  /// A newer PyTorch's form is kept, and what needs it will name it.
  Attribute keep(const json &value) {
    return ObjectAttr::get(context, kind, getText(value));
  }
  Attribute takeValue(StringRef name);
  static StringRef getName(const json &code, StringRef (*lookUp)(int64_t)) {
    std::optional<int64_t> number = getInteger(code);
    return number ? lookUp(*number) : StringRef();
  }

  Importer &importer;
  Graph &graph;
  SmallVectorImpl<Value> &operands;
  unsigned depth;
  MLIRContext *context;
  Builder builder;
  /// The key of the union.
  StringRef kind;
};
} // namespace

ArrayRef<ArgumentReader::Form> ArgumentReader::getForms() {
  using R = ArgumentReader;
  static constexpr Form kForms[] = {
      {"as_none", Nesting::One, &R::readNone},
      {"as_tensor", Nesting::One, &R::readTensor},
      {"as_tensors", Nesting::List, &R::readTensor},
      {"as_nested_tensors", Nesting::Lists, &R::readTensor},
      {"as_optional_tensor", Nesting::One, &R::readOptionalTensor},
      {"as_optional_tensors", Nesting::List, &R::readOptionalTensor},
      {"as_int", Nesting::One, &R::readInt},
      {"as_ints", Nesting::List, &R::readInt},
      {"as_int_lists", Nesting::Tuples, &R::readInt},
      {"as_float", Nesting::One, &R::readFloat},
      {"as_floats", Nesting::List, &R::readFloat},
      {"as_float_lists", Nesting::Lists, &R::readFloat},
      {"as_bool", Nesting::One, &R::readBool},
      {"as_bools", Nesting::List, &R::readBool},
      {"as_string", Nesting::One, &R::readString},
      {"as_strings", Nesting::List, &R::readString},
      {"as_complex", Nesting::One, &R::readComplex},
      {"as_sym_int", Nesting::One, &R::readSymbolic},
      {"as_sym_ints", Nesting::List, &R::readSymbolic},
      {"as_sym_float", Nesting::One, &R::readSymbolic},
      {"as_sym_floats", Nesting::List, &R::readSymbolic},
      {"as_sym_bool", Nesting::One, &R::readSymbolic},
      {"as_sym_bools", Nesting::List, &R::readSymbolic},
      {"as_scalar_type", Nesting::One, &R::readScalarType},
      {"as_memory_format", Nesting::One, &R::readMemoryFormat},
      {"as_layout", Nesting::One, &R::readLayout},
      {"as_device", Nesting::One, &R::readDevice},
      {"as_graph", Nesting::One, &R::readGraph},
      {"as_operator", Nesting::One, &R::readOperator},
      {"as_custom_obj", Nesting::One, &R::readCustomObject},
      {"as_string_to_argument", Nesting::One, &R::readDict},
  };
  return kForms;
}

Attribute ArgumentReader::read(const json &argument) {
  std::optional<json> value;
  std::tie(kind, value) = getUnion(argument);
  if (!value)
    return wrong("holds an argument that is no object with one key: " +
                 getText(argument));
  for (const Form &form : getForms())
    if (form.kind == kind)
      return readNested(*value, form);
  return keep(*value);
}

Attribute ArgumentReader::readNested(const json &value, const Form &form) {
  switch (form.nesting) {
  case Nesting::One:
    return (this->*form.read)(value);
  case Nesting::List:
    if (!value.is_array())
      return wrong("'" + kind + "' is no array");
    return readList(value, form);
  case Nesting::Lists:
  case Nesting::Tuples:
    return readLists(value, form);
  }
  llvm_unreachable("unhandled nesting");
}

/// The elements of an array; what is no array has none.
Attribute ArgumentReader::readList(const json &value, const Form &form) {
  SmallVector<Attribute> elements;
  for (const json &element : getElements(value)) {
    elements.push_back((this->*form.read)(element));
    if (!elements.back())
      return {};
  }
  return builder.getArrayAttr(elements);
}

Attribute ArgumentReader::readLists(const json &value, const Form &form) {
  if (!value.is_array())
    return wrong("'" + kind + "' is no array");
  SmallVector<Attribute> lists;
  for (const json &inner : getElements(value)) {
    Attribute list = readList(inner, form);
    if (!list)
      return {};
    lists.push_back(form.nesting == Nesting::Tuples
                        ? TupleAttr::get(context, cast<ArrayAttr>(list))
                        : list);
  }
  return builder.getArrayAttr(lists);
}

Attribute ArgumentReader::takeValue(StringRef name) {
  Value value = graph.builder.lookup(name);
  if (!value)
    return wrong("refers to '" + name +
                 "', which no input or earlier node of the graph gives");
  operands.push_back(value);
  return ValueAttr::get(context);
}

Attribute ArgumentReader::readOptionalTensor(const json &value) {
  auto [which, tensor] = getUnion(value);
  if (which == "as_none")
    return readNone(value);
  if (which == "as_tensor")
    return readTensor(*tensor);
  return wrongContent("tensor", value);
}

Attribute ArgumentReader::readInt(const json &value) {
  if (auto small = getInteger(value))
    return builder.getI64IntegerAttr(*small);
  if (uint64_t large; !value.get(large))
    return BigIntAttr::get(context, std::to_string(large));
  return wrongContent("whole number of 64 bits", value);
}

static FloatAttr getFloat(Builder &builder, const json &value) {
  if (double number; !value.get(number))
    return builder.getF64FloatAttr(number);
  StringRef text = getString(value).value_or("");
  double infinity = std::numeric_limits<double>::infinity();
  if (text == "Infinity")
    return builder.getF64FloatAttr(infinity);
  if (text == "-Infinity")
    return builder.getF64FloatAttr(-infinity);
  if (text == "NaN")
    return builder.getF64FloatAttr(std::numeric_limits<double>::quiet_NaN());
  return {};
}

Attribute ArgumentReader::readFloat(const json &value) {
  if (FloatAttr number = getFloat(builder, value))
    return number;
  return wrongContent("number", value);
}

Attribute ArgumentReader::readBool(const json &value) {
  bool flag;
  if (value.get(flag))
    return wrongContent("truth value", value);
  return builder.getBoolAttr(flag);
}

Attribute ArgumentReader::readString(const json &value) {
  if (std::optional<StringRef> text = getString(value))
    return builder.getStringAttr(*text);
  return wrongContent("string", value);
}

Attribute ArgumentReader::readComplex(const json &value) {
  std::optional<json> real = getMember(value, "real");
  std::optional<json> imaginary = getMember(value, "imag");
  FloatAttr realAttr = real ? getFloat(builder, *real) : FloatAttr();
  FloatAttr imaginaryAttr =
      imaginary ? getFloat(builder, *imaginary) : FloatAttr();
  if (!realAttr || !imaginaryAttr)
    return keep(value);
  return opprof::fx::ComplexAttr::get(context, realAttr, imaginaryAttr);
}

/// A value by name, or a constant.
Attribute ArgumentReader::readSymbolic(const json &value) {
  auto [which, content] = getUnion(value);
  if (which == "as_name")
    if (std::optional<StringRef> name = getString(*content))
      return takeValue(*name);
  if (which == "as_int" || which == "as_float" || which == "as_bool")
    return ArgumentReader(importer, graph, operands, depth).read(value);
  return wrong(
      "holds a symbolic argument that is neither a name nor a number: " +
      getText(value));
}

Attribute ArgumentReader::readScalarType(const json &value) {
  StringRef name = getName(value, getScalarTypeName);
  return name.empty() ? keep(value) : DTypeAttr::get(context, name);
}

Attribute ArgumentReader::readMemoryFormat(const json &value) {
  StringRef name = getName(value, getMemoryFormatName);
  return name.empty() ? keep(value) : MemoryFormatAttr::get(context, name);
}

Attribute ArgumentReader::readLayout(const json &value) {
  StringRef name = getName(value, getLayoutName);
  return name.empty() ? keep(value) : LayoutAttr::get(context, name);
}

Attribute ArgumentReader::readOperator(const json &value) {
  if (std::optional<StringRef> name = getString(value))
    return OpRefAttr::get(context, getTarget(*name));
  return keep(value);
}

Attribute ArgumentReader::readCustomObject(const json &value) {
  StringRef name = getString(value, "name");
  if (graph.builder.hasName(name))
    return takeValue(name);
  return ObjectAttr::get(context, getString(value, "class_fqn"), name);
}

Attribute ArgumentReader::readDict(const json &value) {
  opprof::JSONReading::object object;
  if (value.get(object))
    return keep(value);
  if (depth >= kMaxArgumentNesting)
    return wrong("arguments are nested deeper than " +
                 Twine(kMaxArgumentNesting));
  SmallVector<Attribute> keys, members;
  std::vector<std::pair<std::string_view, json>> items;
  for (auto [key, member] : object)
    items.emplace_back(key, member);
  llvm::stable_sort(items, llvm::less_first());
  for (const auto &[key, member] : items) {
    keys.push_back(builder.getStringAttr(key));
    members.push_back(
        ArgumentReader(importer, graph, operands, depth + 1).read(member));
    if (!members.back())
      return {};
  }
  return DictAttr::get(context, builder.getArrayAttr(keys),
                       builder.getArrayAttr(members));
}

Attribute Importer::readArgument(Graph &graph, const json &argument,
                                 SmallVectorImpl<Value> &operands) {
  return ArgumentReader(*this, graph, operands).read(argument);
}
