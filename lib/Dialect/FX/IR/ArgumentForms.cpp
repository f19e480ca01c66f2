// Arguments from objects with one key.

#include "opprof/Dialect/FX/IR/ArgumentForms.h"
#include "opprof/Dialect/FX/IR/FXAttributes.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace opprof::fx;
using llvm::Twine;

using FailFn = llvm::function_ref<void(const Twine &)>;

// In the order of the enumeration.
static constexpr StringLiteral kForms[] = {
    "node", "tuple",   "dict",  "slice",  "ellipsis", "float",
    "int",  "complex", "dtype", "device", "layout",   "memory_format",
    "sym",  "graph",   "op",    "object"};
static_assert(std::size(kForms) ==
              static_cast<size_t>(ArgumentForm::Object) + 1);

std::optional<ArgumentForm> opprof::fx::parseArgumentForm(StringRef key) {
  for (auto [index, form] : llvm::enumerate(kForms))
    if (form == key)
      return static_cast<ArgumentForm>(index);
  return std::nullopt;
}

StringRef opprof::fx::stringifyArgumentForm(ArgumentForm form) {
  return kForms[static_cast<size_t>(form)];
}

static Attribute wrong(FailFn fail, const Twine &what) {
  fail(what);
  return {};
}

static Attribute makeDict(ArrayAttr pairs, MLIRContext *context, FailFn fail) {
  static constexpr StringLiteral kTakes = "'dict' takes an array of [key, "
                                          "value]";
  SmallVector<Attribute> keys, members;
  if (!pairs)
    return wrong(fail, kTakes);
  for (Attribute element : pairs) {
    auto pair = dyn_cast<ArrayAttr>(element);
    if (!pair || pair.size() != 2)
      return wrong(fail, kTakes);
    keys.push_back(pair[0]);
    members.push_back(pair[1]);
  }
  return DictAttr::get(context, ArrayAttr::get(context, keys),
                       ArrayAttr::get(context, members));
}

/// The numbers that JSON has no digits for.
static Attribute makeFloat(StringRef text, Builder builder, FailFn fail) {
  double infinity = std::numeric_limits<double>::infinity();
  if (text == "inf")
    return builder.getF64FloatAttr(infinity);
  if (text == "-inf")
    return builder.getF64FloatAttr(-infinity);
  if (text == "nan")
    return builder.getF64FloatAttr(std::numeric_limits<double>::quiet_NaN());
  return wrong(fail, "'float' takes \"inf\", \"-inf\" or \"nan\"; any other "
                     "number is written as it is");
}

static Attribute makeInt(StringRef text, Builder builder, FailFn fail) {
  int64_t small;
  if (!text.getAsInteger(10, small))
    return builder.getI64IntegerAttr(small);
  if (!BigIntAttr::isWholeNumber(text))
    return wrong(fail, "'int' takes a whole number of up to " +
                           Twine(BigIntAttr::kMaxDigits) +
                           " decimal digits, as a string");
  return BigIntAttr::get(builder.getContext(), text);
}

static FloatAttr toFloat(Builder builder, Attribute value) {
  if (auto number = dyn_cast<FloatAttr>(value))
    return number;
  if (auto number = dyn_cast<IntegerAttr>(value))
    return builder.getF64FloatAttr(static_cast<double>(number.getInt()));
  return {};
}

static Attribute makeComplex(ArrayAttr parts, Builder builder, FailFn fail) {
  FloatAttr real, imaginary;
  if (parts && parts.size() == 2) {
    real = toFloat(builder, parts[0]);
    imaginary = toFloat(builder, parts[1]);
  }
  if (!real || !imaginary)
    return wrong(fail, "'complex' takes [real, imaginary]");
  return opprof::fx::ComplexAttr::get(builder.getContext(), real, imaginary);
}

static Attribute makeObject(DictionaryAttr members, MLIRContext *context,
                            FailFn fail) {
  auto type = members ? members.getAs<StringAttr>("type") : StringAttr();
  auto repr = members ? members.getAs<StringAttr>("repr") : StringAttr();
  if (!type || !repr)
    return wrong(fail, "'object' takes {\"type\": \"…\", \"repr\": \"…\"}");
  return ObjectAttr::get(context, type.getValue(), repr.getValue());
}

/// The forms whose key holds a string.
static Attribute makeFromString(ArgumentForm form, StringAttr string,
                                MLIRContext *context, FailFn fail) {
  if (form == ArgumentForm::Graph && (!string || string.empty()))
    return wrong(fail, "'graph' takes the name of a graph of this file");
  if (!string)
    return wrong(fail, "'" + stringifyArgumentForm(form) + "' takes a string");
  switch (form) {
  case ArgumentForm::Float:
    return makeFloat(string, Builder(context), fail);
  case ArgumentForm::Int:
    return makeInt(string, Builder(context), fail);
  case ArgumentForm::DType:
    return DTypeAttr::get(context, string);
  case ArgumentForm::Device:
    return DeviceAttr::get(context, string);
  case ArgumentForm::Layout:
    return LayoutAttr::get(context, string);
  case ArgumentForm::MemoryFormat:
    return MemoryFormatAttr::get(context, string);
  case ArgumentForm::Sym:
    return SymAttr::get(context, string);
  case ArgumentForm::Graph:
    return FlatSymbolRefAttr::get(string);
  case ArgumentForm::Op:
    return OpRefAttr::get(context, string);
  default:
    llvm_unreachable("this form holds no string");
  }
}

Attribute opprof::fx::makeArgument(ArgumentForm form, Attribute value,
                                   FailFn fail) {
  MLIRContext *context = value.getContext();
  auto list = dyn_cast<ArrayAttr>(value);
  switch (form) {
  case ArgumentForm::Node:
    return isa<ValueAttr>(value) ? value : wrong(fail, "'node' takes a string");
  case ArgumentForm::Tuple:
    return list ? TupleAttr::get(context, list)
                : wrong(fail, "'tuple' takes an array");
  case ArgumentForm::Dict:
    return makeDict(list, context, fail);
  case ArgumentForm::Slice:
    return list && list.size() == 3
               ? SliceAttr::get(context, list[0], list[1], list[2])
               : wrong(fail, "'slice' takes [start, stop, step]");
  case ArgumentForm::Ellipsis: {
    auto flag = dyn_cast<BoolAttr>(value);
    return flag && flag.getValue() ? EllipsisAttr::get(context)
                                   : wrong(fail, "'ellipsis' takes true");
  }
  case ArgumentForm::Complex:
    return makeComplex(list, Builder(context), fail);
  case ArgumentForm::Object:
    return makeObject(dyn_cast<DictionaryAttr>(value), context, fail);
  default:
    return makeFromString(form, dyn_cast<StringAttr>(value), context, fail);
  }
}
