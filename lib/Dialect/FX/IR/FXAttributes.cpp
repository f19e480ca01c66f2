// Attributes of the fx dialect, the tensor encoding among them.

#include "opprof/Dialect/FX/IR/FXAttributes.h"
#include "opprof/Dialect/FX/IR/StorageOffsets.h"

#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace opprof::fx;

#include "opprof/Dialect/FX/IR/FXAttrInterfaces.cpp.inc"
#include "opprof/Dialect/FX/IR/FXEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "opprof/Dialect/FX/IR/FXAttrs.cpp.inc"

void FXDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "opprof/Dialect/FX/IR/FXAttrs.cpp.inc"
      >();
}

bool BigIntAttr::isWholeNumber(StringRef text) {
  text.consume_front("-");
  return !text.empty() && text.size() <= kMaxDigits &&
         llvm::all_of(text, llvm::isDigit) && !text.starts_with("0");
}

LogicalResult
BigIntAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                   StringRef value) {
  if (!isWholeNumber(value))
    return emitError() << "a whole number of up to " << kMaxDigits
                       << " decimal digits is expected, and no zero before "
                          "them";
  return success();
}

LogicalResult
DictAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                 ArrayAttr keys, ArrayAttr values) {
  if (keys.size() != values.size())
    return emitError() << "a dict of " << keys.size() << " keys and "
                       << values.size() << " values";
  return success();
}

//===----------------------------------------------------------------------===//
// TensorInfoAttr
//===----------------------------------------------------------------------===//

/// Parses  [, strides = […]] [, unknown_strides] [, dims = […]] [, offset = …]
/// [, requires_grad] [, layout = "…"] [, subclass = "…"]  in any order.
Attribute TensorInfoAttr::parse(AsmParser &parser, Type) {
  std::string device;
  ArrayAttr strides, dims;
  Attribute offset;
  StringAttr layout, subclass;
  bool unknownStrides = false, requiresGrad = false;
  if (parser.parseLess() || parser.parseString(&device))
    return {};
  while (succeeded(parser.parseOptionalComma())) {
    StringRef key;
    SMLoc place = parser.getCurrentLocation();
    if (parser.parseKeyword(&key))
      return {};
    if (key == "unknown_strides") {
      unknownStrides = true;
      continue;
    }
    if (key == "requires_grad") {
      requiresGrad = true;
      continue;
    }
    if (parser.parseEqual())
      return {};
    ParseResult parsed = failure();
    if (key == "strides")
      parsed = parser.parseAttribute(strides);
    else if (key == "dims")
      parsed = parser.parseAttribute(dims);
    else if (key == "offset")
      parsed = parser.parseAttribute(offset);
    else if (key == "layout")
      parsed = parser.parseAttribute(layout);
    else if (key == "subclass")
      parsed = parser.parseAttribute(subclass);
    else
      parser.emitError(place)
          << "a tensor has no '" << key
          << "': expected strides, unknown_strides, dims, offset, "
             "requires_grad, layout or subclass";
    if (parsed)
      return {};
  }
  if (parser.parseGreater())
    return {};
  return get(parser.getContext(), device, strides, unknownStrides, dims, offset,
             requiresGrad, layout, subclass);
}

static void printBareArray(AsmPrinter &printer, ArrayAttr array) {
  printer << "[";
  llvm::interleaveComma(array, printer, [&](Attribute element) {
    printer.printAttributeWithoutType(element);
  });
  printer << "]";
}

void TensorInfoAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printer.printString(getDevice());
  if (getStrides()) {
    printer << ", strides = ";
    printBareArray(printer, getStrides());
  }
  if (getUnknownStrides())
    printer << ", unknown_strides";
  if (getDims()) {
    printer << ", dims = ";
    printBareArray(printer, getDims());
  }
  if (getStorageOffset()) {
    printer << ", offset = ";
    printer.printAttributeWithoutType(getStorageOffset());
  }
  if (getRequiresGrad())
    printer << ", requires_grad";
  if (getLayout())
    printer << ", layout = " << getLayout();
  if (getSubclass())
    printer << ", subclass = " << getSubclass();
  printer << ">";
}

LogicalResult TensorInfoAttr::verifyEncoding(
    ArrayRef<int64_t> shape, Type elementType,
    llvm::function_ref<InFlightDiagnostic()> emitError) const {
  if (getStrides() && getStrides().size() != shape.size())
    return emitError() << getStrides().size() << " strides for a tensor of "
                       << shape.size() << " dimensions";
  if (getDims()) {
    if (getDims().size() != shape.size())
      return emitError() << getDims().size() << " dims for a tensor of "
                         << shape.size() << " dimensions";
    for (auto [dim, size] : llvm::zip(getDims(), shape)) {
      auto number = dyn_cast<IntegerAttr>(dim);
      if (number && !ShapedType::isDynamic(size) && number.getInt() != size)
        return emitError() << "dims says " << number.getInt()
                           << " where the shape says " << size;
    }
  }
  return success();
}

/// Appends the strides of a contiguous tensor; false where a size is symbolic
/// or a stride passes 64 bits.
static bool appendContiguousStrides(ArrayRef<int64_t> shape,
                                    SmallVectorImpl<int64_t> &strides) {
  strides.assign(shape.size(), 1);
  int64_t stride = 1;
  for (int64_t i = shape.size() - 1; i >= 0; --i) {
    if (ShapedType::isDynamic(shape[i]))
      return false;
    strides[i] = stride;
    if (llvm::MulOverflow(stride, std::max<int64_t>(shape[i], 1), stride))
      return false;
  }
  return true;
}

TensorInfoAttr
TensorInfoAttr::getCanonical(MLIRContext *context, StringRef device,
                             ArrayRef<Attribute> shape, ArrayAttr strides,
                             Attribute storageOffset, bool requiresGrad,
                             StringAttr layout, StringAttr subclass) {
  SmallVector<int64_t> sizes, contiguous;
  bool isStatic = llvm::all_of(shape, llvm::IsaPred<IntegerAttr>);
  ArrayAttr dims;
  bool unknownStrides = !strides;
  if (isStatic) {
    for (Attribute size : shape)
      sizes.push_back(cast<IntegerAttr>(size).getInt());
    if (strides && appendContiguousStrides(sizes, contiguous) &&
        strides == Builder(context).getI64ArrayAttr(contiguous))
      strides = {};
  } else {
    dims = ArrayAttr::get(context, shape);
  }
  if (auto number = dyn_cast_or_null<IntegerAttr>(storageOffset);
      number && number.getInt() == 0)
    storageOffset = {};
  return get(context, device, strides, unknownStrides, dims, storageOffset,
             requiresGrad, layout, subclass);
}

std::optional<SmallVector<int64_t>>
TensorInfoAttr::getStaticStrides(RankedTensorType type) {
  SmallVector<int64_t> strides;
  auto info = dyn_cast_or_null<TensorInfoAttr>(type.getEncoding());
  if (info && info.getUnknownStrides())
    return std::nullopt;
  if (!info || !info.getStrides()) {
    if (!appendContiguousStrides(type.getShape(), strides))
      return std::nullopt;
    return strides;
  }
  for (Attribute stride : info.getStrides()) {
    auto number = dyn_cast<IntegerAttr>(stride);
    if (!number)
      return std::nullopt;
    strides.push_back(number.getInt());
  }
  return strides;
}

Type opprof::fx::dropStorageOffsets(Type type) {
  AttrTypeReplacer replacer;
  replacer.addReplacement([](TensorInfoAttr info) -> Attribute {
    if (!info.getStorageOffset())
      return info;
    return TensorInfoAttr::get(
        info.getContext(), info.getDevice(), info.getStrides(),
        info.getUnknownStrides(), info.getDims(), /*storageOffset=*/{},
        info.getRequiresGrad(), info.getLayout(), info.getSubclass());
  });
  return replacer.replace(type);
}
