// Nested arguments of fx nodes, and torch's dtypes as MLIR element types.

#include "opprof/Dialect/FX/IR/Arguments.h"
#include "opprof/Dialect/FX/IR/FX.h"
#include "opprof/Dialect/FX/IR/Schema.h"
#include "opprof/Support/DTypes.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace opprof::fx;

void opprof::fx::walkLeaves(Attribute argument,
                            llvm::function_ref<void(Attribute)> visit) {
  if (auto list = dyn_cast<ArrayAttr>(argument)) {
    for (Attribute element : list)
      walkLeaves(element, visit);
  } else if (auto tuple = dyn_cast<TupleAttr>(argument)) {
    for (Attribute element : tuple.getElements())
      walkLeaves(element, visit);
  } else if (auto dict = dyn_cast<DictAttr>(argument)) {
    for (auto [key, value] : llvm::zip(dict.getKeys(), dict.getValues())) {
      walkLeaves(key, visit);
      walkLeaves(value, visit);
    }
  } else if (auto slice = dyn_cast<SliceAttr>(argument)) {
    walkLeaves(slice.getStart(), visit);
    walkLeaves(slice.getStop(), visit);
    walkLeaves(slice.getStep(), visit);
  } else {
    visit(argument);
  }
}

std::optional<double> opprof::fx::getNumber(Attribute argument) {
  if (auto number = dyn_cast_or_null<FloatAttr>(argument))
    return number.getValueAsDouble();
  if (auto number = dyn_cast_or_null<IntegerAttr>(argument))
    return static_cast<double>(number.getInt());
  return std::nullopt;
}

unsigned opprof::fx::countValues(Attribute argument) {
  unsigned count = 0;
  walkLeaves(argument, [&](Attribute leaf) { count += isa<ValueAttr>(leaf); });
  return count;
}

static ArrayAttr mapArray(ArrayAttr array,
                          llvm::function_ref<Attribute(Attribute)> replace) {
  SmallVector<Attribute> elements;
  for (Attribute element : array)
    elements.push_back(mapLeaves(element, replace));
  return ArrayAttr::get(array.getContext(), elements);
}

Attribute
opprof::fx::mapLeaves(Attribute argument,
                      llvm::function_ref<Attribute(Attribute)> replace) {
  MLIRContext *context = argument.getContext();
  if (auto list = dyn_cast<ArrayAttr>(argument))
    return mapArray(list, replace);
  if (auto tuple = dyn_cast<TupleAttr>(argument))
    return TupleAttr::get(context, mapArray(tuple.getElements(), replace));
  if (auto dict = dyn_cast<DictAttr>(argument)) {
    SmallVector<Attribute> keys, values;
    for (auto [key, value] : llvm::zip(dict.getKeys(), dict.getValues())) {
      keys.push_back(mapLeaves(key, replace));
      values.push_back(mapLeaves(value, replace));
    }
    return DictAttr::get(context, ArrayAttr::get(context, keys),
                         ArrayAttr::get(context, values));
  }
  if (auto slice = dyn_cast<SliceAttr>(argument)) {
    Attribute start = mapLeaves(slice.getStart(), replace);
    Attribute stop = mapLeaves(slice.getStop(), replace);
    Attribute step = mapLeaves(slice.getStep(), replace);
    return SliceAttr::get(context, start, stop, step);
  }
  return replace(argument);
}

namespace {
/// A dtype that is a type of MLIR's of its own.
struct FloatDType {
  StringLiteral name;
  Type (*get)(MLIRContext *);
  bool (*isType)(Type);
};
} // namespace

template <typename FloatT>
static constexpr FloatDType describe(StringLiteral name) {
  return {name,
          [](MLIRContext *context) -> Type { return FloatT::get(context); },
          [](Type type) { return isa<FloatT>(type); }};
}

static constexpr FloatDType kFloatDTypes[] = {
    describe<Float32Type>("float32"),
    describe<Float16Type>("float16"),
    describe<BFloat16Type>("bfloat16"),
    describe<Float64Type>("float64"),
    describe<Float8E4M3FNType>("float8_e4m3fn"),
    describe<Float8E4M3FNUZType>("float8_e4m3fnuz"),
    describe<Float8E5M2Type>("float8_e5m2"),
    describe<Float8E5M2FNUZType>("float8_e5m2fnuz"),
    describe<Float8E8M0FNUType>("float8_e8m0fnu"),
};

/// Complex dtypes, with the dtype of their parts.
static constexpr std::pair<StringLiteral, StringLiteral> kComplexDTypes[] = {
    {"complex32", "float16"},
    {"complex64", "float32"},
    {"complex128", "float64"},
};

static constexpr unsigned kIntWidths[] = {8, 16, 32, 64};

static Attribute parseDefault(Builder &builder, StringRef text) {
  MLIRContext *context = builder.getContext();
  if (text.empty())
    return {};
  if (text == "none")
    return opprof::fx::NoneAttr::get(context);
  if (text == "true" || text == "false")
    return builder.getBoolAttr(text == "true");
  if (text.consume_front("\""))
    return builder.getStringAttr(text);
  if (text.consume_front("dtype:"))
    return DTypeAttr::get(context, text);
  if (text.consume_front("memory_format:"))
    return MemoryFormatAttr::get(context, text);
  if (text.consume_front("[")) {
    SmallVector<StringRef> parts;
    text.drop_back().split(parts, ',', -1, /*KeepEmpty=*/false);
    return builder.getArrayAttr(llvm::map_to_vector(
        parts, [&](StringRef part) { return parseDefault(builder, part); }));
  }
  int64_t integer;
  if (!text.getAsInteger(10, integer))
    return builder.getI64IntegerAttr(integer);
  double number = 0;
  text.getAsDouble(number);
  return builder.getF64FloatAttr(number);
}

Attribute opprof::fx::getDefaultValue(MLIRContext *context,
                                      const SchemaArgument &argument) {
  Builder builder(context);
  return parseDefault(builder, argument.defaultText);
}

Attribute opprof::fx::getNormalizedArgument(NodeOp node,
                                            const SchemaArgument &argument) {
  Attribute value = node.getArgument(argument.name);
  if (!value)
    value = getDefaultValue(node.getContext(), argument);
  if (!value)
    return {};
  StringRef type = argument.type;
  if (auto tuple = dyn_cast<TupleAttr>(value); tuple && type.contains("List["))
    value = tuple.getElements();
  if (!type.contains("float"))
    return value;
  return mapLeaves(value, [](Attribute leaf) -> Attribute {
    auto integer = dyn_cast<IntegerAttr>(leaf);
    if (!integer || isa<BoolAttr>(leaf))
      return leaf;
    return Builder(leaf.getContext()).getF64FloatAttr(integer.getInt());
  });
}

Type opprof::fx::getElementType(MLIRContext *context, StringRef dtype) {
  for (const FloatDType &known : kFloatDTypes)
    if (known.name == dtype)
      return known.get(context);
  for (const auto &[name, part] : kComplexDTypes)
    if (name == dtype)
      return mlir::ComplexType::get(getElementType(context, part));
  if (dtype == "bool")
    return IntegerType::get(context, 1);
  StringRef digits = dtype;
  bool isUnsigned = digits.consume_front("u");
  unsigned width;
  if (digits.consume_front("int") && !digits.getAsInteger(10, width) &&
      llvm::is_contained(kIntWidths, width))
    return IntegerType::get(context, width,
                            isUnsigned ? IntegerType::Unsigned
                                       : IntegerType::Signless);
  return DTypeType::get(context, dtype);
}

/// The name of a dtype of whole numbers; empty where torch has none.
static StringRef getIntName(IntegerType type) {
  static constexpr StringLiteral kNames[] = {"int8", "int16", "int32", "int64"};
  static constexpr StringLiteral kUnsignedNames[] = {"uint8", "uint16",
                                                     "uint32", "uint64"};
  if (type.getWidth() == 1)
    return "bool";
  for (auto [index, width] : llvm::enumerate(kIntWidths))
    if (width == type.getWidth())
      return type.isUnsigned() ? kUnsignedNames[index] : kNames[index];
  return "";
}

StringRef opprof::fx::getDTypeName(Type type) {
  if (auto other = dyn_cast<DTypeType>(type))
    return other.getName();
  if (auto integer = dyn_cast<IntegerType>(type))
    return getIntName(integer);
  if (auto complex = dyn_cast<mlir::ComplexType>(type)) {
    StringRef partName = getDTypeName(complex.getElementType());
    for (const auto &[name, part] : kComplexDTypes)
      if (part == partName)
        return name;
    return "";
  }
  for (const FloatDType &known : kFloatDTypes)
    if (known.isType(type))
      return known.name;
  return "";
}

std::optional<uint64_t> opprof::fx::getElementBytes(Type type) {
  return getDTypeBytes(getDTypeName(type));
}
