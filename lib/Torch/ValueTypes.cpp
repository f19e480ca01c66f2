// Types of values, and values of the command line.

#include "ValueTypes.h"

#include "ModuleGraph.h"

#include "opprof/Torch/Archive.h"

#include <ATen/ATen.h>

#include <charconv>
#include <limits>

using namespace opprof::torchscript;

/// A list with more elements is described by its type alone.
static constexpr size_t kMaxElements = 256;
/// Bytes that a tensor of the command line may have.
static constexpr double kMaxInputBytes = 1e11;

namespace {
struct DType {
  c10::ScalarType type;
  const char *name;
  /// As --input writes it; null where it takes none.
  const char *suffix;
};
} // namespace

static constexpr DType kDTypes[] = {
    {c10::ScalarType::Float, "float32", "f32"},
    {c10::ScalarType::Double, "float64", "f64"},
    {c10::ScalarType::Half, "float16", "f16"},
    {c10::ScalarType::BFloat16, "bfloat16", "bf16"},
    {c10::ScalarType::Long, "int64", "i64"},
    {c10::ScalarType::Int, "int32", "i32"},
    {c10::ScalarType::Short, "int16", "i16"},
    {c10::ScalarType::Char, "int8", "i8"},
    {c10::ScalarType::Byte, "uint8", "u8"},
    {c10::ScalarType::Bool, "bool", "b8"},
    {c10::ScalarType::ComplexFloat, "complex64", "c64"},
    {c10::ScalarType::ComplexDouble, "complex128", "c128"},
    {c10::ScalarType::ComplexHalf, "complex32", nullptr},
    {c10::ScalarType::QInt8, "qint8", nullptr},
    {c10::ScalarType::QUInt8, "quint8", nullptr},
    {c10::ScalarType::QInt32, "qint32", nullptr},
    {c10::ScalarType::QUInt4x2, "quint4x2", nullptr},
    {c10::ScalarType::QUInt2x4, "quint2x4", nullptr},
    {c10::ScalarType::Float8_e5m2, "float8_e5m2", nullptr},
    {c10::ScalarType::Float8_e4m3fn, "float8_e4m3fn", nullptr},
    {c10::ScalarType::UInt16, "uint16", nullptr},
    {c10::ScalarType::UInt32, "uint32", nullptr},
    {c10::ScalarType::UInt64, "uint64", nullptr},
};

const char *opprof::torchscript::getDTypeName(c10::ScalarType type) {
  for (const DType &known : kDTypes)
    if (known.type == type)
      return known.name;
  return c10::toString(type);
}

//===----------------------------------------------------------------------===//
// Describing
//===----------------------------------------------------------------------===//

ValueType ValueType::makeOptional() const {
  if (kind == Optional)
    return *this;
  ValueType result;
  result.kind = Optional;
  result.elements = {*this};
  return result;
}

void ValueType::merge(const ValueType &other) {
  if (kind == Optional && other.kind != Optional) {
    if (!other.isNone())
      elements[0].merge(other);
    return;
  }
  if (kind != Unknown && isNone() != other.isNone()) {
    *this = (isNone() ? other : *this).makeOptional();
    return;
  }
  bool isSame = kind == other.kind && name == other.name &&
                elements.size() == other.elements.size();
  if (kind == Tensor && isSame)
    isSame = dtype == other.dtype && sizes.size() == other.sizes.size() &&
             device == other.device && layout == other.layout &&
             requiresGrad == other.requiresGrad;
  if (!isSame) {
    *this = {};
    return;
  }
  for (size_t i = 0; i < elements.size(); ++i)
    elements[i].merge(other.elements[i]);
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] != other.sizes[i])
      sizes[i] = -1;
  knowsStrides &= other.knowsStrides && strides == other.strides &&
                  storageOffset == other.storageOffset;
}

bool ValueType::hasStaticSizes() const {
  if (kind != Tensor)
    return false;
  for (int64_t size : sizes)
    if (size < 0)
      return false;
  return true;
}

static ValueType makeNamed(ValueType::Kind kind, std::string name) {
  ValueType type;
  type.kind = kind;
  type.name = std::move(name);
  return type;
}

static ValueType describeTensor(const at::Tensor &tensor) {
  ValueType type;
  if (!tensor.defined())
    return makeNamed(ValueType::Name, "none");
  type.kind = ValueType::Tensor;
  type.dtype = tensor.scalar_type();
  type.device = tensor.device().str();
  type.requiresGrad = tensor.requires_grad();
  type.sizes = tensor.sizes().vec();
  if (tensor.layout() == at::kStrided) {
    type.strides = tensor.strides().vec();
    type.storageOffset = tensor.storage_offset();
    type.knowsStrides = true;
  } else {
    std::ostringstream layout;
    layout << tensor.layout();
    type.layout = layout.str();
    for (char &c : type.layout)
      c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return type;
}

ValueType opprof::torchscript::describe(const c10::IValue &value) {
  if (value.isTensor())
    return describeTensor(value.toTensor());
  if (value.isNone())
    return makeNamed(ValueType::Name, "none");
  if (value.isBool())
    return makeNamed(ValueType::Name, "bool");
  if (value.isInt())
    return makeNamed(ValueType::Name, "int");
  if (value.isDouble())
    return makeNamed(ValueType::Name, "float");
  if (value.isString())
    return makeNamed(ValueType::Name, "str");
  if (value.isTuple()) {
    ValueType type = makeNamed(ValueType::Tuple, "");
    for (const c10::IValue &element : value.toTupleRef().elements())
      type.elements.push_back(describe(element));
    return type;
  }
  if (value.isList() && value.toListRef().size() <= kMaxElements) {
    ValueType type = makeNamed(ValueType::List, "");
    for (const c10::IValue &element : value.toListRef())
      type.elements.push_back(describe(element));
    return type;
  }
  return makeNamed(ValueType::Object, getModuleTypeName(*value.type()));
}

ValueType opprof::torchscript::describe(const c10::Type &type) {
  switch (type.kind()) {
  case c10::TypeKind::TensorType:
    return {};
  case c10::TypeKind::NoneType:
    return makeNamed(ValueType::Name, "none");
  case c10::TypeKind::BoolType:
    return makeNamed(ValueType::Name, "bool");
  case c10::TypeKind::IntType:
    return makeNamed(ValueType::Name, "int");
  case c10::TypeKind::FloatType:
    return makeNamed(ValueType::Name, "float");
  case c10::TypeKind::StringType:
    return makeNamed(ValueType::Name, "str");
  case c10::TypeKind::OptionalType:
    return describe(*type.expectRef<c10::OptionalType>().getElementType())
        .makeOptional();
  case c10::TypeKind::TupleType: {
    ValueType result = makeNamed(ValueType::Tuple, "");
    for (const c10::TypePtr &element :
         type.expectRef<c10::TupleType>().elements())
      result.elements.push_back(describe(*element));
    return result;
  }
  default:
    return makeNamed(ValueType::Object, getModuleTypeName(type));
  }
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

static std::string getTensorText(const ValueType &type) {
  auto numbers = [](const std::vector<int64_t> &values) {
    std::vector<std::string> texts;
    for (int64_t value : values)
      texts.push_back(value < 0 ? "\"?\"" : std::to_string(value));
    return listText(texts);
  };
  std::string text =
      "{\"tensor\":{\"dtype\":" + quote(getDTypeName(type.dtype)) +
      ",\"shape\":" + numbers(type.sizes);
  if (type.knowsStrides || !type.layout.empty())
    text += ",\"stride\":" + numbers(type.strides);
  if (type.knowsStrides && type.storageOffset)
    text += ",\"storage_offset\":" + std::to_string(type.storageOffset);
  text += ",\"device\":" + quote(type.device);
  if (!type.layout.empty())
    text += ",\"layout\":" + quote(type.layout);
  return text + (type.requiresGrad ? ",\"requires_grad\":true}}" : "}}");
}

int opprof::torchscript::addType(GraphFile &file, const ValueType &type) {
  switch (type.kind) {
  case ValueType::Unknown:
    return -1;
  case ValueType::Tensor:
    return file.types.add(getTensorText(type));
  case ValueType::Name:
    return file.types.add(quote(type.name));
  case ValueType::Object:
    return file.types.add(form("object", quote(type.name)));
  case ValueType::Optional: {
    int element = addType(file, type.elements[0]);
    // A tensor of which nothing else is known.
    if (element < 0)
      element = file.types.add(form("object", quote("")));
    return file.types.add(form("optional", std::to_string(element)));
  }
  case ValueType::Tuple:
  case ValueType::List: {
    std::vector<std::string> elements;
    for (const ValueType &element : type.elements) {
      int index = addType(file, element);
      // A tensor of which nothing else is known.
      if (index < 0)
        index = file.types.add(form("object", quote("")));
      elements.push_back(std::to_string(index));
    }
    return file.types.add(form(type.kind == ValueType::List ? "list" : "tuple",
                               listText(elements)));
  }
  }
  return -1;
}

//===----------------------------------------------------------------------===//
// Inputs of the command line
//===----------------------------------------------------------------------===//

namespace {
class InputParser {
public:
  explicit InputParser(const std::string &text) : text(text), rest(text) {}

  c10::IValue parse(const c10::TypePtr &type) {
    c10::IValue value = parseValue(type, 0);
    skipSpace();
    if (!rest.empty())
      fail();
    return value;
  }

private:
  [[noreturn]] void fail() const {
    throw InputError("the input '" + text +
                     "' is none that can be made: give a "
                     "tensor as 4x128xi64 (f32, f64, f16, bf16, i64, i32, i16, "
                     "i8, u8, b8, c64, c128), a number, true, false, none, "
                     "'text', [a, b], (a, b) or {'key': a}");
  }
  void skipSpace() {
    while (!rest.empty() && rest.front() == ' ')
      rest.remove_prefix(1);
  }
  bool consume(char c) {
    skipSpace();
    if (rest.empty() || rest.front() != c)
      return false;
    rest.remove_prefix(1);
    return true;
  }
  c10::IValue parseValue(const c10::TypePtr &type, unsigned depth);
  c10::IValue parseWord(const c10::TypePtr &type);
  std::string parseString(char end);
  at::Tensor parseTensor(std::string_view word) const;

  const std::string &text;
  std::string_view rest;
};
} // namespace

static c10::TypePtr getElementType(const c10::TypePtr &type, size_t index) {
  if (!type)
    return nullptr;
  if (auto optional = type->cast<c10::OptionalType>())
    return getElementType(optional->getElementType(), index);
  if (auto list = type->cast<c10::ListType>())
    return list->getElementType();
  if (auto dict = type->cast<c10::DictType>())
    return dict->getValueType();
  if (auto tuple = type->cast<c10::TupleType>())
    return index < tuple->elements().size() ? tuple->elements()[index]
                                            : nullptr;
  return nullptr;
}

c10::IValue InputParser::parseValue(const c10::TypePtr &type, unsigned depth) {
  if (depth > 16)
    fail();
  skipSpace();
  if (consume('[') || consume('(')) {
    char close = text[text.size() - rest.size() - 1] == '[' ? ']' : ')';
    std::vector<c10::IValue> elements;
    while (!consume(close)) {
      if (!elements.empty() && !consume(','))
        fail();
      if (consume(close))
        break;
      elements.push_back(
          parseValue(getElementType(type, elements.size()), depth + 1));
    }
    if (close == ')')
      return c10::ivalue::Tuple::create(std::move(elements));
    c10::TypePtr element = getElementType(type, 0);
    // A tensor's own type has its sizes, and a list of those is another type.
    if (!element)
      element = elements.empty() || elements[0].isTensor()
                    ? c10::TypePtr(c10::TensorType::get())
                    : elements[0].type();
    c10::impl::GenericList list(element);
    for (c10::IValue &value : elements)
      list.push_back(std::move(value));
    return list;
  }
  if (consume('{')) {
    c10::TypePtr element = getElementType(type, 0);
    c10::impl::GenericDict dict(c10::StringType::get(),
                                element ? element : c10::TensorType::get());
    for (bool isFirst = true; !consume('}'); isFirst = false) {
      if (!isFirst && !consume(','))
        fail();
      skipSpace();
      char quote = rest.empty() ? ' ' : rest.front();
      if (quote != '\'' && quote != '"')
        fail();
      rest.remove_prefix(1);
      std::string key = parseString(quote);
      if (!consume(':'))
        fail();
      dict.insert(key, parseValue(element, depth + 1));
    }
    return dict;
  }
  if (consume('\''))
    return parseString('\'');
  if (consume('"'))
    return parseString('"');
  return parseWord(type);
}

std::string InputParser::parseString(char end) {
  size_t length = rest.find(end);
  if (length == std::string_view::npos)
    fail();
  std::string value(rest.substr(0, length));
  rest.remove_prefix(length + 1);
  return value;
}

c10::IValue InputParser::parseWord(const c10::TypePtr &type) {
  size_t length = rest.find_first_of(",])}: ");
  std::string_view word = rest.substr(0, length);
  rest.remove_prefix(word.size());
  if (word == "none" || word == "None")
    return {};
  if (word == "true" || word == "True")
    return true;
  if (word == "false" || word == "False")
    return false;
  const char *end = word.data() + word.size();
  int64_t integer;
  auto asInteger = std::from_chars(word.data(), end, integer);
  if (asInteger.ec == std::errc() && asInteger.ptr == end) {
    bool isFloat = type && type->kind() == c10::TypeKind::FloatType;
    return isFloat ? c10::IValue(static_cast<double>(integer))
                   : c10::IValue(integer);
  }
  double number;
  auto asNumber = std::from_chars(word.data(), end, number);
  if (asNumber.ec == std::errc() && asNumber.ptr == end)
    return number;
  return parseTensor(word);
}

at::Tensor InputParser::parseTensor(std::string_view word) const {
  size_t last = word.rfind('x');
  std::string_view suffix =
      last == std::string_view::npos ? word : word.substr(last + 1);
  const DType *found = nullptr;
  for (const DType &dtype : kDTypes)
    if (dtype.suffix && suffix == dtype.suffix)
      found = &dtype;
  if (!found)
    fail();
  std::vector<int64_t> sizes;
  double bytes = static_cast<double>(c10::elementSize(found->type));
  std::string_view shape = word.substr(0, word.size() - suffix.size());
  while (!shape.empty()) {
    int64_t size;
    auto result =
        std::from_chars(shape.data(), shape.data() + shape.size(), size);
    shape.remove_prefix(result.ptr - shape.data());
    if (result.ec != std::errc() || size < 0 || shape.empty() ||
        shape.front() != 'x')
      fail();
    shape.remove_prefix(1);
    sizes.push_back(size);
    bytes *= static_cast<double>(size);
    if (bytes > kMaxInputBytes)
      throw InputError("the input '" + text + "' is larger than 100 GB");
  }
  at::TensorOptions options = at::TensorOptions().dtype(found->type);
  bool isReal =
      c10::isFloatingType(found->type) || c10::isComplexType(found->type);
  if (!isReal)
    return at::zeros(sizes, options);
  // Half-precision kernels of random numbers are not everywhere.
  at::ScalarType drawn =
      c10::isComplexType(found->type) ? found->type : at::kFloat;
  return at::randn(sizes, at::TensorOptions().dtype(drawn)).to(found->type);
}

c10::IValue opprof::torchscript::parseInput(const std::string &text,
                                            const c10::TypePtr &type) {
  return InputParser(text).parse(type);
}
