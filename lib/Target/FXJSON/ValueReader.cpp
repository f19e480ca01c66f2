// Values and arguments of graph JSON. A value in an argument that is an object
// has one key, which says what it is.

#include "ValueReader.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace opprof::fx;
using llvm::Twine;

// Bounds on what a file may ask of the reader. Whatever PyTorch writes lies far
// below them.
static constexpr unsigned kMaxArgumentNesting = 60;
static constexpr unsigned kMaxNesting = 200;
static constexpr size_t kMaxIntDigits = 4096;

/// Any value, as an attribute, inside `depth` others.
Attribute ValueReader::readValue(Grammar grammar, unsigned depth) {
  auto orFail = [&](bool isRead, Attribute value) {
    if (!isRead)
      source.failSyntax();
    return isRead ? value : Attribute();
  };
  switch (lexer.peek()) {
  case '{':
    return grammar == Grammar::Argument ? readForm(depth)
                                        : readMembers(depth, kMaxNesting);
  case '[':
    return readList(grammar, depth);
  case '"': {
    StringRef value;
    if (!lexer.readString(value))
      return orFail(false, {});
    return getString(value);
  }
  case 't':
    return orFail(lexer.readWord("true"), builder.getBoolAttr(true));
  case 'f':
    return orFail(lexer.readWord("false"), builder.getBoolAttr(false));
  case 'n':
    return orFail(lexer.readWord("null"), NoneAttr::get(context));
  default:
    break;
  }
  JSONLexer::Number number;
  if (!lexer.readNumber(number))
    return orFail(false, {});
  switch (number.kind) {
  case JSONLexer::Number::Integer:
    return builder.getI64IntegerAttr(number.integer);
  case JSONLexer::Number::Float:
    return builder.getF64FloatAttr(number.real);
  case JSONLexer::Number::HugeInteger:
    source.hugeInteger(number.digits);
    break;
  }
  return {};
}

Attribute ValueReader::readList(Grammar grammar, unsigned depth) {
  if (!checkNesting(depth, grammar == Grammar::Argument ? kMaxArgumentNesting
                                                        : kMaxNesting))
    return {};
  size_t first = elements.size();
  if (!source.forEachElement([&] {
        Attribute element = readValue(grammar, depth + 1);
        if (element)
          elements.push_back(element);
        return !!element;
      }))
    return {};
  auto list = ArrayAttr::get(context, ArrayRef(elements).drop_front(first));
  elements.truncate(first);
  return list;
}

/// An object of whatever keys, as a dictionary.
Attribute ValueReader::readMembers(unsigned depth, unsigned limit) {
  if (!checkNesting(depth, limit))
    return {};
  size_t first = members.size();
  if (!source.forEachMember([&](StringRef key) {
        if (key.empty())
          return fail("a key is empty");
        StringAttr name = strings.get(key);
        Attribute value = readValue(Grammar::Json, depth + 1);
        if (value)
          members.emplace_back(name, value);
        return !!value;
      }))
    return {};
  MutableArrayRef<NamedAttribute> own =
      MutableArrayRef(members).drop_front(first);
  if (!sortMembers(own))
    return {};
  auto dictionary = DictionaryAttr::getWithSorted(context, own);
  members.truncate(first);
  return dictionary;
}

/// Brings the members of an object into the order of a dictionary's.
bool ValueReader::sortMembers(MutableArrayRef<NamedAttribute> members) {
  bool areLast =
      llvm::equal(members, lastKeys, [](NamedAttribute member, StringAttr key) {
        return member.getName() == key;
      });
  if (!areLast) {
    lastKeys.clear();
    lastOrder.clear();
    for (NamedAttribute member : members) {
      lastOrder.push_back(lastKeys.size());
      lastKeys.push_back(member.getName());
    }
    llvm::sort(lastOrder, [&](unsigned left, unsigned right) {
      return lastKeys[left].getValue() < lastKeys[right].getValue();
    });
    for (size_t position = 1; position < lastOrder.size(); ++position) {
      StringAttr key = lastKeys[lastOrder[position]];
      if (key == lastKeys[lastOrder[position - 1]])
        return fail("the key '" + key.getValue() +
                    "' comes twice in one object");
    }
  }
  sorted.clear();
  for (unsigned position : lastOrder)
    sorted.push_back(members[position]);
  llvm::copy(sorted, members.begin());
  return true;
}

/// A reference to a node, as the only member of an argument object.
Attribute ValueReader::readReference() {
  StringRef name;
  if (!lexer.readString(name)) {
    source.failSyntax();
    return {};
  }
  Value value = scope.values.lookup(llvm::CachedHashStringRef(name));
  if (!value && !scope.danglingPlace) {
    scope.danglingName = source.save(name);
    scope.danglingUser = source.where();
    scope.danglingPlace = lexer.getPlace();
  }
  operands->push_back(value);
  return valueAttr;
}

ValueReader::Form ValueReader::parseForm(StringRef key) {
  return llvm::StringSwitch<Form>(key)
      .Case("node", Form::Node)
      .Case("tuple", Form::Tuple)
      .Case("dict", Form::Dict)
      .Case("slice", Form::Slice)
      .Case("ellipsis", Form::Ellipsis)
      .Case("float", Form::Float)
      .Case("int", Form::Int)
      .Case("complex", Form::Complex)
      .Case("dtype", Form::DType)
      .Case("device", Form::Device)
      .Case("layout", Form::Layout)
      .Case("memory_format", Form::MemoryFormat)
      .Case("sym", Form::Sym)
      .Case("graph", Form::Graph)
      .Case("op", Form::Op)
      .Case("object", Form::Object)
      .Default(Form::None);
}

static FloatAttr toFloat(Builder &builder, Attribute value) {
  if (auto number = dyn_cast<FloatAttr>(value))
    return number;
  if (auto number = dyn_cast<IntegerAttr>(value))
    return builder.getF64FloatAttr(static_cast<double>(number.getInt()));
  return {};
}

static bool isWholeNumber(StringRef digits) {
  digits.consume_front("-");
  return !digits.empty() && llvm::all_of(digits, llvm::isDigit);
}

/// An argument that is an object: its one key says what its value is.
Attribute ValueReader::readForm(unsigned depth) {
  if (!checkNesting(depth, kMaxArgumentNesting))
    return {};
  StringRef name;
  Form form = Form::None;
  Attribute value;
  if (!source.forEachMember([&](StringRef key) {
        if (form != Form::None)
          return fail("an argument that is an object has one key; it has '" +
                      name + "' and '" + key + "'");
        form = parseForm(key);
        if (form == Form::None)
          return fail("'" + Twine(key) +
                      "' is no form of argument; docs/formats/graph-json.md "
                      "lists them");
        name = source.save(key);
        char first = lexer.peek();
        if (form == Form::Node && first == '"')
          value = readReference();
        else if (form == Form::Object && first == '{')
          value = readMembers(depth + 1, kMaxArgumentNesting);
        else
          value = readValue(Grammar::Argument, depth + 1);
        return !!value;
      }))
    return {};
  if (form == Form::None) {
    fail("an argument that is an object has one key; it has none");
    return {};
  }
  return makeForm(form, name, value);
}

/// The argument that an object with one key stands for, or null after an error.
Attribute ValueReader::makeForm(Form form, StringRef name, Attribute value) {
  auto wrong = [&](const Twine &what) {
    fail(what);
    return Attribute();
  };
  auto list = dyn_cast<ArrayAttr>(value);
  auto string = dyn_cast<StringAttr>(value);
  auto expectString = [&] { return wrong("'" + name + "' takes a string"); };
  switch (form) {
  case Form::Node:
    return isa<ValueAttr>(value) ? value : expectString();
  case Form::Tuple:
    if (!list)
      return wrong("'tuple' takes an array");
    return TupleAttr::get(context, list);
  case Form::Dict: {
    SmallVector<Attribute> keys, members;
    if (!list)
      return wrong("'dict' takes an array of [key, value]");
    for (Attribute element : list) {
      auto pair = dyn_cast<ArrayAttr>(element);
      if (!pair || pair.size() != 2)
        return wrong("'dict' takes an array of [key, value]");
      keys.push_back(pair[0]);
      members.push_back(pair[1]);
    }
    return DictAttr::get(context, ArrayAttr::get(context, keys),
                         ArrayAttr::get(context, members));
  }
  case Form::Slice:
    if (!list || list.size() != 3)
      return wrong("'slice' takes [start, stop, step]");
    return SliceAttr::get(context, list[0], list[1], list[2]);
  case Form::Ellipsis:
    if (auto flag = dyn_cast<BoolAttr>(value); !flag || !flag.getValue())
      return wrong("'ellipsis' takes true");
    return EllipsisAttr::get(context);
  case Form::Float: {
    double number = 0;
    if (!string)
      return expectString();
    if (string.getValue() == "inf")
      number = std::numeric_limits<double>::infinity();
    else if (string.getValue() == "-inf")
      number = -std::numeric_limits<double>::infinity();
    else if (string.getValue() == "nan")
      number = std::numeric_limits<double>::quiet_NaN();
    else
      return wrong("'float' takes \"inf\", \"-inf\" or \"nan\"; any other "
                   "number is written as it is");
    return builder.getF64FloatAttr(number);
  }
  case Form::Int: {
    if (!string)
      return expectString();
    StringRef digits = string.getValue();
    if (!isWholeNumber(digits) || digits.size() > kMaxIntDigits)
      return wrong("'int' takes a whole number of up to " +
                   Twine(kMaxIntDigits) + " decimal digits, as a string");
    int64_t small;
    if (!digits.getAsInteger(10, small))
      return builder.getI64IntegerAttr(small);
    return BigIntAttr::get(context, digits);
  }
  case Form::Complex: {
    FloatAttr real, imaginary;
    if (list && list.size() == 2) {
      real = toFloat(builder, list[0]);
      imaginary = toFloat(builder, list[1]);
    }
    if (!real || !imaginary)
      return wrong("'complex' takes [real, imaginary]");
    return ComplexAttr::get(context, real, imaginary);
  }
  case Form::DType:
    return string ? DTypeAttr::get(context, string) : expectString();
  case Form::Device:
    return string ? DeviceAttr::get(context, string) : expectString();
  case Form::Layout:
    return string ? LayoutAttr::get(context, string) : expectString();
  case Form::MemoryFormat:
    return string ? MemoryFormatAttr::get(context, string) : expectString();
  case Form::Sym:
    return string ? SymAttr::get(context, string) : expectString();
  case Form::Op:
    return string ? OpRefAttr::get(context, string) : expectString();
  case Form::Graph: {
    if (!string || string.getValue().empty())
      return wrong("'graph' takes the name of a graph of this file");
    auto symbol = FlatSymbolRefAttr::get(string);
    if (referencedGraphs.insert(string.getValue()).second)
      graphReferences.emplace_back(symbol, source.where());
    return symbol;
  }
  case Form::Object: {
    auto members = dyn_cast<DictionaryAttr>(value);
    auto type = members ? members.getAs<StringAttr>("type") : StringAttr();
    auto repr = members ? members.getAs<StringAttr>("repr") : StringAttr();
    if (!type || !repr)
      return wrong("'object' takes {\"type\": \"…\", \"repr\": \"…\"}");
    return ObjectAttr::get(context, type.getValue(), repr.getValue());
  }
  case Form::None:
    break;
  }
  return wrong("unknown form of argument");
}
