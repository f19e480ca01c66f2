// Nested arguments of fx nodes, and torch's dtypes as MLIR element types.

#include "opprof/Dialect/FX/IR/Arguments.h"

#include "llvm/ADT/StringSwitch.h"

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

Type opprof::fx::getElementType(MLIRContext *context, StringRef dtype) {
  using Getter = Type (*)(MLIRContext *);
  Getter getter =
      llvm::StringSwitch<Getter>(dtype)
          .Case("float32",
                [](MLIRContext *c) -> Type { return Float32Type::get(c); })
          .Case("float16",
                [](MLIRContext *c) -> Type { return Float16Type::get(c); })
          .Case("bfloat16",
                [](MLIRContext *c) -> Type { return BFloat16Type::get(c); })
          .Case("float64",
                [](MLIRContext *c) -> Type { return Float64Type::get(c); })
          .Case("float8_e4m3fn",
                [](MLIRContext *c) -> Type { return Float8E4M3FNType::get(c); })
          .Case(
              "float8_e4m3fnuz",
              [](MLIRContext *c) -> Type { return Float8E4M3FNUZType::get(c); })
          .Case("float8_e5m2",
                [](MLIRContext *c) -> Type { return Float8E5M2Type::get(c); })
          .Case(
              "float8_e5m2fnuz",
              [](MLIRContext *c) -> Type { return Float8E5M2FNUZType::get(c); })
          .Case(
              "float8_e8m0fnu",
              [](MLIRContext *c) -> Type { return Float8E8M0FNUType::get(c); })
          .Case("complex32",
                [](MLIRContext *c) -> Type {
                  return ComplexType::get(Float16Type::get(c));
                })
          .Case("complex64",
                [](MLIRContext *c) -> Type {
                  return ComplexType::get(Float32Type::get(c));
                })
          .Case("complex128",
                [](MLIRContext *c) -> Type {
                  return ComplexType::get(Float64Type::get(c));
                })
          .Default(nullptr);
  if (getter)
    return getter(context);
  if (dtype == "bool")
    return IntegerType::get(context, 1);
  StringRef digits = dtype;
  bool isUnsigned = digits.consume_front("u");
  unsigned width;
  if (digits.consume_front("int") && !digits.getAsInteger(10, width) &&
      (width == 8 || width == 16 || width == 32 || width == 64))
    return IntegerType::get(context, width,
                            isUnsigned ? IntegerType::Unsigned
                                       : IntegerType::Signless);
  return DTypeType::get(context, dtype);
}

StringRef opprof::fx::getDTypeName(Type type) {
  if (auto other = dyn_cast<DTypeType>(type))
    return other.getName();
  if (auto complex = dyn_cast<ComplexType>(type)) {
    Type part = complex.getElementType();
    return part.isF16()   ? "complex32"
           : part.isF32() ? "complex64"
           : part.isF64() ? "complex128"
                          : "";
  }
  if (auto integer = dyn_cast<IntegerType>(type)) {
    bool isUnsigned = integer.isUnsigned();
    switch (integer.getWidth()) {
    case 1:
      return "bool";
    case 8:
      return isUnsigned ? "uint8" : "int8";
    case 16:
      return isUnsigned ? "uint16" : "int16";
    case 32:
      return isUnsigned ? "uint32" : "int32";
    case 64:
      return isUnsigned ? "uint64" : "int64";
    default:
      return "";
    }
  }
  if (type.isF32())
    return "float32";
  if (type.isF16())
    return "float16";
  if (type.isBF16())
    return "bfloat16";
  if (type.isF64())
    return "float64";
  if (isa<Float8E4M3FNType>(type))
    return "float8_e4m3fn";
  if (isa<Float8E4M3FNUZType>(type))
    return "float8_e4m3fnuz";
  if (isa<Float8E5M2Type>(type))
    return "float8_e5m2";
  if (isa<Float8E5M2FNUZType>(type))
    return "float8_e5m2fnuz";
  if (isa<Float8E8M0FNUType>(type))
    return "float8_e8m0fnu";
  return "";
}

std::optional<uint64_t> opprof::fx::getElementBytes(Type type) {
  if (auto complex = dyn_cast<ComplexType>(type)) {
    if (auto part = getElementBytes(complex.getElementType()))
      return 2 * *part;
    return std::nullopt;
  }
  if (type.isIntOrFloat())
    return llvm::divideCeil(type.getIntOrFloatBitWidth(), 8);
  return std::nullopt;
}
