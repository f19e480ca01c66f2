// The tables of graph JSON.

#include "Tables.h"

#include "opprof/Dialect/FX/IR/GraphBuilder.h"

using namespace mlir;
using namespace opprof::fx;
using llvm::Twine;

// Bounds on what a file may ask of the reader. Whatever PyTorch writes lies far
// below them.
static constexpr unsigned kMaxTypeNesting = 60;
static constexpr uint64_t kMaxTypeSize = 1 << 20;
static constexpr size_t kMaxFrames = 1000;

static bool isSize(Attribute value) {
  auto number = dyn_cast<IntegerAttr>(value);
  return (number && number.getInt() >= 0) || isa<StringAttr>(value);
}

/// A size or stride: a number or the expression of a symbol.
static Attribute toExtent(Attribute value) {
  if (auto expression = dyn_cast<StringAttr>(value))
    return SymAttr::get(value.getContext(), expression.getValue());
  return value;
}

/// The type, or null after an error.
Type Tables::convertTensor(DictionaryAttr members) {
  auto wrong = [&](const Twine &what) {
    fail(what);
    return Type();
  };
  auto dtype = members.getAs<StringAttr>("dtype");
  auto device = members.getAs<StringAttr>("device");
  auto shape = members.getAs<ArrayAttr>("shape");
  if (!dtype)
    return wrong("the tensor's required key 'dtype' is missing or no string");
  if (!device)
    return wrong("the tensor's required key 'device' is missing or no string");
  if (!shape || !llvm::all_of(shape, isSize))
    return wrong("the tensor's required key 'shape' is missing, or not an "
                 "array of sizes (0 or more) and symbolic expressions");
  Attribute strideValue = members.get("stride");
  auto strides = dyn_cast_or_null<ArrayAttr>(strideValue);
  if (strideValue && (!strides || !llvm::all_of(strides, [](Attribute value) {
        return isa<IntegerAttr, StringAttr>(value);
      })))
    return wrong("the tensor's 'stride' is not an array of numbers and "
                 "symbolic expressions");
  Attribute offset = members.get("storage_offset");
  if (offset && !isa<IntegerAttr, StringAttr>(offset))
    return wrong("the tensor's 'storage_offset' is neither a number nor a "
                 "symbolic expression");
  auto layout = members.getAs<StringAttr>("layout");
  auto subclass = members.getAs<StringAttr>("subclass");
  auto requiresGrad = members.getAs<BoolAttr>("requires_grad");
  // A sparse tensor has no strides.
  if (layout && strides && strides.empty() && !shape.empty())
    strides = {};
  if (strides && strides.size() != shape.size())
    return wrong("the tensor has " + Twine(strides.size()) + " strides for " +
                 Twine(shape.size()) + " dimensions");

  TensorDescription tensor;
  tensor.dtype = dtype;
  tensor.device = device;
  for (Attribute size : shape)
    tensor.sizes.push_back(toExtent(size));
  if (strides) {
    SmallVector<Attribute> elements;
    for (Attribute stride : strides)
      elements.push_back(toExtent(stride));
    tensor.strides = ArrayAttr::get(context, elements);
  }
  tensor.offset = offset ? toExtent(offset) : offset;
  tensor.requiresGrad = requiresGrad && requiresGrad.getValue();
  tensor.layout = layout;
  tensor.subclass = subclass;
  return getTensorType(context, tensor);
}

bool Tables::addType(Attribute value) {
  TypeEntry entry;
  if (auto name = dyn_cast<StringAttr>(value)) {
    if (name.getValue() == "none")
      entry.type = opprof::fx::NoneType::get(context);
    else if (llvm::is_contained({"int", "float", "bool", "str"},
                                name.getValue()))
      entry.type = ScalarType::get(context, name);
    else
      return fail("'" + name.getValue() +
                  "' is no type: none, int, float, bool, str, or an object");
    types.push_back(entry);
    return true;
  }
  auto members = dyn_cast<DictionaryAttr>(value);
  if (!members || members.size() != 1)
    return fail("a type is a name or an object with one key");
  StringRef kind = members.begin()->getName();
  Attribute content = members.begin()->getValue();
  auto text = dyn_cast<StringAttr>(content);
  auto list = dyn_cast<ArrayAttr>(content);
  // Types refer to earlier ones, so none can hold itself; what they would
  // unfold to is bounded.
  auto lookUp = [&](Attribute index) -> const TypeEntry * {
    auto number = dyn_cast<IntegerAttr>(index);
    if (!number || number.getInt() < 0 ||
        number.getInt() >= static_cast<int64_t>(types.size())) {
      fail("'" + kind +
           "' refers to a type that does not come before it in the table");
      return nullptr;
    }
    const TypeEntry &found = types[number.getInt()];
    entry.depth = std::max(entry.depth, found.depth + 1);
    entry.size += found.size;
    if (entry.depth > kMaxTypeNesting || entry.size > kMaxTypeSize) {
      fail("the type is nested too deep, or unfolds to more than " +
           Twine(kMaxTypeSize) + " types");
      return nullptr;
    }
    return &found;
  };

  if (kind == "tensor") {
    auto tensor = dyn_cast<DictionaryAttr>(content);
    if (!tensor)
      return fail("'tensor' takes an object");
    entry.type = convertTensor(tensor);
    if (!entry.type)
      return false;
  } else if (kind == "tuple" || kind == "list") {
    SmallVector<mlir::Type> elements;
    if (!list)
      return fail("'" + kind + "' takes an array of types by index");
    for (Attribute index : list) {
      const TypeEntry *found = lookUp(index);
      if (!found)
        return false;
      elements.push_back(found->type);
    }
    entry.type = TupleType::get(context, elements);
    if (kind == "list")
      entry.type = ListType::get(context, cast<TupleType>(entry.type));
  } else if (kind == "optional") {
    const TypeEntry *found = lookUp(content);
    if (!found)
      return false;
    entry.type = OptionalType::get(context, found->type);
  } else if (kind == "symint" || kind == "symfloat" || kind == "symbool" ||
             kind == "object") {
    // An expression that is one number is written as that number.
    std::string expression;
    if (auto number = dyn_cast<IntegerAttr>(content))
      expression = std::to_string(number.getInt());
    else if (text)
      expression = text.str();
    else
      return fail("'" + kind + "' takes a string");
    entry.type =
        kind == "symint"     ? Type(SymIntType::get(context, expression))
        : kind == "symfloat" ? Type(SymFloatType::get(context, expression))
        : kind == "symbool"  ? Type(SymBoolType::get(context, expression))
                             : Type(ObjectType::get(context, expression));
  } else {
    return fail("'" + kind + "' is no kind of type");
  }
  types.push_back(entry);
  return true;
}

bool Tables::addStack(Attribute value) {
  auto list = dyn_cast<ArrayAttr>(value);
  if (!list || list.empty() || list.size() > kMaxFrames)
    return fail("a stack is an array of 1 to " + Twine(kMaxFrames) + " frames");
  SmallVector<StackFrame> frames;
  for (Attribute element : list) {
    auto members = dyn_cast<DictionaryAttr>(element);
    auto file = members ? members.getAs<StringAttr>("file") : StringAttr();
    auto line = members ? members.getAs<IntegerAttr>("line") : IntegerAttr();
    if (!file || !line || line.getInt() < 0 || line.getInt() > INT32_MAX)
      return fail("frame #" + Twine(frames.size()) +
                  " has no 'file' or no 'line'");
    auto function = members.getAs<StringAttr>("function");
    auto code = members.getAs<StringAttr>("code");
    frames.push_back({file, static_cast<unsigned>(line.getInt()),
                      function ? function.getValue() : StringRef(),
                      code ? code.getValue() : StringRef()});
  }
  stacks.push_back(getStackOrigin(context, frames));
  return true;
}

bool Tables::addModules(Attribute value) {
  auto list = dyn_cast<ArrayAttr>(value);
  if (!list)
    return fail("a module stack is an array of objects");
  SmallVector<Attribute> entries;
  for (Attribute element : list) {
    auto members = dyn_cast<DictionaryAttr>(element);
    auto path = members ? members.getAs<StringAttr>("path") : StringAttr();
    auto type = members ? members.getAs<StringAttr>("type") : StringAttr();
    if (!path || !type)
      return fail("module #" + Twine(entries.size()) +
                  " has no 'path' or no 'type'");
    entries.push_back(builder.getArrayAttr({path, type}));
  }
  moduleStacks.push_back(builder.getArrayAttr(entries));
  return true;
}
