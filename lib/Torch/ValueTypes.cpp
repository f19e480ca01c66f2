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

std::optional<size_t> opprof::torchscript::toPlace(int64_t index, size_t size) {
  int64_t place = index + (index < 0 ? static_cast<int64_t>(size) : 0);
  return place >= 0 && place < static_cast<int64_t>(size)
             ? std::optional(static_cast<size_t>(place))
             : std::nullopt;
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
// Forms of arguments
//===----------------------------------------------------------------------===//

/// True where a value's type says more than which class it is of.
static bool hasForm(const c10::Type &type) {
  if (type.kind() == c10::TypeKind::TensorType ||
      type.kind() == c10::TypeKind::OptionalType ||
      type.kind() == c10::TypeKind::UnionType ||
      type.kind() == c10::TypeKind::AnyType)
    return true;
  for (const c10::TypePtr &inner : type.containedTypes())
    if (hasForm(*inner))
      return true;
  return false;
}

static std::string getKeyText(const c10::IValue &key) {
  if (key.isString())
    return quote(key.toStringRef());
  if (key.isBool())
    return key.toBool() ? "true" : "false";
  return key.isInt() ? std::to_string(key.toInt()) : floatText(key.toDouble());
}

static std::string getFormText(const c10::IValue &value, bool &isOpen) {
  std::vector<std::string> texts;
  if (value.isNone() || (value.isTensor() && !value.toTensor().defined()))
    return "null";
  if (value.isTensor()) {
    const at::Tensor &tensor = value.toTensor();
    for (int64_t size : tensor.sizes())
      texts.push_back(std::to_string(size));
    return "{\"dtype\":" + quote(getDTypeName(tensor.scalar_type())) +
           ",\"size\":" + listText(texts) + "}";
  }
  if (value.isTuple()) {
    for (const c10::IValue &element : value.toTupleRef().elements())
      texts.push_back(getFormText(element, isOpen));
    return form("tuple", listText(texts));
  }
  if (!hasForm(*value.type()))
    return "true";
  if (value.isList()) {
    for (const c10::IValue &element : value.toListRef()) {
      texts.push_back(getFormText(element, isOpen));
      isOpen |= texts.back() != texts.front();
    }
    isOpen |= texts.empty() || texts.size() > kMaxElements;
    return form("list", listText(texts));
  }
  if (value.isGenericDict()) {
    for (const auto &entry : value.toGenericDict()) {
      const c10::IValue &key = entry.key();
      isOpen |=
          !key.isString() && !key.isInt() && !key.isDouble() && !key.isBool();
      if (isOpen)
        break;
      texts.push_back(
          listText({getKeyText(key), getFormText(entry.value(), isOpen)}));
    }
    isOpen |= texts.empty() || texts.size() > kMaxElements;
    return form("dict", listText(texts));
  }
  return "true";
}

ArgumentForm opprof::torchscript::describeForm(const c10::IValue &value,
                                               const c10::Type &declared) {
  ArgumentForm result;
  std::string text = getFormText(value, result.isOpen);
  bool isSaidByType = value.isTensor() && value.toTensor().defined();
  if (!result.isOpen && !isSaidByType && hasForm(declared))
    result.text = text;
  return result;
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
  c10::IValue parseKey(const c10::TypePtr &type);
  at::Tensor makeTensor(const c10::IValue &lists) const;
  std::string parseString(char end);
  at::Tensor parseTensor(std::string_view word) const;

  const std::string &text;
  std::string_view rest;
};
} // namespace

/// The type that a value has which is there.
static c10::TypePtr unwrapOptional(const c10::TypePtr &type) {
  auto optional = type ? type->cast<c10::OptionalType>() : nullptr;
  return optional ? unwrapOptional(optional->getElementType()) : type;
}

static bool isOfKind(const c10::TypePtr &type, c10::TypeKind kind) {
  return type && type->kind() == kind;
}

static c10::TypePtr getElementType(const c10::TypePtr &type, size_t index) {
  if (!type)
    return nullptr;
  if (auto list = type->cast<c10::ListType>())
    return list->getElementType();
  if (auto dict = type->cast<c10::DictType>())
    return dict->getValueType();
  if (auto tuple = type->cast<c10::TupleType>())
    return index < tuple->elements().size() ? tuple->elements()[index]
                                            : nullptr;
  return nullptr;
}

/// Collects the numbers of lists in lists, and their sizes.
static bool collectNumbers(const c10::IValue &value, size_t depth,
                           std::vector<int64_t> &sizes,
                           std::vector<c10::IValue> &numbers) {
  if (!value.isList()) {
    numbers.push_back(value);
    return depth == sizes.size() &&
           (value.isInt() || value.isDouble() || value.isBool());
  }
  auto elements = value.toListRef();
  auto size = static_cast<int64_t>(elements.size());
  if (depth == sizes.size() && numbers.empty())
    sizes.push_back(size);
  else if (depth >= sizes.size() || sizes[depth] != size)
    return false;
  for (const c10::IValue &element : elements)
    if (!collectNumbers(element, depth + 1, sizes, numbers))
      return false;
  return true;
}

/// A tensor of the numbers in lists: of float32 where one has a point.
at::Tensor InputParser::makeTensor(const c10::IValue &lists) const {
  std::vector<int64_t> sizes;
  std::vector<c10::IValue> numbers;
  if (!collectNumbers(lists, 0, sizes, numbers))
    throw InputError("the input '" + text +
                     "' stands for a tensor, and holds more than numbers in "
                     "lists of equal lengths");
  bool isReal = numbers.empty(), isBool = !numbers.empty();
  for (const c10::IValue &number : numbers) {
    isReal |= number.isDouble();
    isBool &= number.isBool();
  }
  at::Tensor result =
      at::empty(static_cast<int64_t>(numbers.size()), at::kDouble);
  at::Tensor whole = at::empty(static_cast<int64_t>(numbers.size()), at::kLong);
  for (size_t i = 0; i < numbers.size(); ++i) {
    auto at = static_cast<int64_t>(i);
    if (isReal)
      result[at].fill_(numbers[i].toScalar());
    else
      whole[at].fill_(numbers[i].toScalar());
  }
  return (isReal   ? result.to(at::kFloat)
          : isBool ? whole.to(at::kBool)
                   : whole)
      .view(sizes);
}

c10::IValue InputParser::parseKey(const c10::TypePtr &type) {
  skipSpace();
  char quote = rest.empty() ? ' ' : rest.front();
  if (quote == '\'' || quote == '"') {
    rest.remove_prefix(1);
    return parseString(quote);
  }
  c10::IValue key = parseWord(type);
  if (!key.isInt() && !key.isDouble() && !key.isBool())
    fail();
  return key;
}

c10::IValue InputParser::parseValue(const c10::TypePtr &wanted,
                                    unsigned depth) {
  if (depth > 16)
    fail();
  skipSpace();
  c10::TypePtr type = unwrapOptional(wanted);
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
    if (close == ')') {
      auto named = type ? type->cast<c10::TupleType>() : nullptr;
      return named && named->schema()
                 ? c10::ivalue::Tuple::createNamed(std::move(elements), named)
                 : c10::ivalue::Tuple::create(std::move(elements));
    }
    c10::TypePtr element = getElementType(type, 0);
    // A tensor's own type has its sizes, and a list of those is another type.
    if (!element)
      element = elements.empty() || elements[0].isTensor()
                    ? c10::TypePtr(c10::TensorType::get())
                    : elements[0].type();
    c10::impl::GenericList list(element);
    for (c10::IValue &value : elements)
      list.push_back(std::move(value));
    if (isOfKind(type, c10::TypeKind::TensorType))
      return makeTensor(list);
    return list;
  }
  if (consume('{')) {
    c10::TypePtr element = getElementType(type, 0);
    auto known = type ? type->cast<c10::DictType>() : nullptr;
    c10::TypePtr keyType =
        known ? known->getKeyType() : c10::TypePtr(c10::StringType::get());
    c10::impl::GenericDict dict(keyType,
                                element ? element : c10::TensorType::get());
    for (bool isFirst = true; !consume('}'); isFirst = false) {
      if (!isFirst && !consume(','))
        fail();
      if (consume('}'))
        break;
      c10::IValue key = parseKey(keyType);
      if (!key.type()->isSubtypeOf(*keyType))
        throw InputError("the input '" + text + "' has a key that is " +
                         key.type()->annotation_str() + ", and not " +
                         keyType->annotation_str());
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
  // A backslash keeps what follows it from ending the text.
  std::string value;
  for (; !rest.empty() && rest.front() != end; rest.remove_prefix(1)) {
    bool isEscaped = rest.front() == '\\' && rest.size() > 1 &&
                     (rest[1] == end || rest[1] == '\\');
    rest.remove_prefix(isEscaped ? 1 : 0);
    value += rest.front();
  }
  if (rest.empty())
    fail();
  rest.remove_prefix(1);
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
    return isOfKind(type, c10::TypeKind::FloatType)
               ? c10::IValue(static_cast<double>(integer))
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
