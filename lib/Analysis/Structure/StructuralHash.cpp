// Content hashes: xxh3 over numbers that stand for interned content.

#include "opprof/Analysis/Structure/StructuralHash.h"

#include "NodeComparison.h"

#include "opprof/Analysis/Structure/IdleArguments.h"

#include "opprof/Dialect/FX/IR/Arguments.h"

#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace opprof::fx;

static uint64_t hashWords(ArrayRef<uint64_t> words) {
  return llvm::xxh3_64bits(
      ArrayRef(reinterpret_cast<const uint8_t *>(words.data()),
               words.size() * sizeof(uint64_t)));
}

static uint64_t hashText(StringRef text) { return llvm::xxh3_64bits(text); }

namespace {
/// Tells values of one kind from equal values of another. The numbers are part
/// of every hash that was ever written to a file, so they stay as they are.
enum Tag : uint64_t {
  kString = 1,
  kInteger,
  kFloat,
  kList,
  kTuple,
  kDict,
  kSlice,
  kComplex,
  kText,
  kSymbol,
  kObject,
  kGraph,
  kTypeAttribute,
  kOtherAttribute,
  kTensorType,
  kUnrankedTensorType,
  kTupleType,
  kListType,
  kOptionalType,
  kSymbolicType,
  kTextType,
  kIntegerType,
  kOtherType,
  kNode,
  kOperation,
  kSubgraph,
  kUnknownSize,
  kAbsent,
  kBlock
};
} // namespace

std::string StructuralHash::toText(uint64_t hash) {
  return llvm::utohexstr(hash, /*LowerCase=*/true, /*Width=*/16);
}

/// An expression with every symbol called the same: how symbols repeat is
/// hashed with the subgraph that they appear in.
static uint64_t hashExpression(StringRef expression) {
  std::string text;
  splitSymbols(expression, [&](StringRef part, bool isSymbol) {
    text += isSymbol ? "$" : part;
  });
  return hashText(text);
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

uint64_t StructuralHash::hashAttribute(Attribute attribute) {
  if (!attribute)
    return kAbsent;
  auto found = attributeHashes.find(attribute);
  if (found != attributeHashes.end())
    return found->second;
  uint64_t hash = computeAttributeHash(attribute);
  attributeHashes[attribute] = hash;
  return hash;
}

uint64_t StructuralHash::computeAttributeHash(Attribute attribute) {
  SmallVector<uint64_t> words;
  auto appendAll = [&](uint64_t tag, ArrayRef<Attribute> elements) {
    words.push_back(tag);
    words.push_back(elements.size());
    for (Attribute element : elements)
      words.push_back(hashAttribute(element));
  };
  // What a #fx.<kind><"text"> is called.
  auto appendText = [&](StringRef text) {
    words = {kText, hashText(attribute.getAbstractAttribute().getName()),
             hashText(text)};
  };
  if (auto text = dyn_cast<StringAttr>(attribute)) {
    words = {kString, hashText(text.getValue())};
  } else if (auto number = dyn_cast<IntegerAttr>(attribute)) {
    const APInt &value = number.getValue();
    words = {kInteger, hashType(number.getType())};
    words.append(value.getRawData(), value.getRawData() + value.getNumWords());
  } else if (auto number = dyn_cast<FloatAttr>(attribute)) {
    APInt bits = number.getValue().bitcastToAPInt();
    words = {kFloat, hashType(number.getType())};
    words.append(bits.getRawData(), bits.getRawData() + bits.getNumWords());
  } else if (auto list = dyn_cast<ArrayAttr>(attribute)) {
    appendAll(kList, list.getValue());
  } else if (auto tuple = dyn_cast<TupleAttr>(attribute)) {
    appendAll(kTuple, tuple.getElements().getValue());
  } else if (auto dict = dyn_cast<DictAttr>(attribute)) {
    words = {kDict, hashAttribute(dict.getKeys()),
             hashAttribute(dict.getValues())};
  } else if (auto slice = dyn_cast<SliceAttr>(attribute)) {
    appendAll(kSlice, {slice.getStart(), slice.getStop(), slice.getStep()});
  } else if (auto complex = dyn_cast<ComplexAttr>(attribute)) {
    appendAll(kComplex, {complex.getReal(), complex.getImaginary()});
  } else if (auto symbol = dyn_cast<SymAttr>(attribute)) {
    words = {kSymbol, hashExpression(symbol.getValue())};
  } else if (auto object = dyn_cast<ObjectAttr>(attribute)) {
    words = {kObject, hashText(object.getPythonType()),
             hashText(object.getRepr())};
  } else if (auto value = dyn_cast<BigIntAttr>(attribute)) {
    appendText(value.getValue());
  } else if (auto value = dyn_cast<DTypeAttr>(attribute)) {
    appendText(value.getValue());
  } else if (auto value = dyn_cast<DeviceAttr>(attribute)) {
    appendText(value.getValue());
  } else if (auto value = dyn_cast<LayoutAttr>(attribute)) {
    appendText(value.getValue());
  } else if (auto value = dyn_cast<MemoryFormatAttr>(attribute)) {
    appendText(value.getValue());
  } else if (auto value = dyn_cast<OpRefAttr>(attribute)) {
    appendText(value.getValue());
  } else if (auto type = dyn_cast<TypeAttr>(attribute)) {
    words = {kTypeAttribute, hashType(type.getValue())};
  } else if (isa<SymbolRefAttr>(attribute)) {
    // A graph's name does not count; what it holds is hashed with the node.
    words = {kGraph};
  } else {
    // What an attribute of another dialect holds is left to the comparison.
    words = {kOtherAttribute,
             hashText(attribute.getAbstractAttribute().getName())};
  }
  return hashWords(words);
}

bool StructuralHash::namesGraphs(Attribute attribute) {
  auto [found, isNew] = graphNaming.try_emplace(attribute, false);
  if (!isNew)
    return found->second;
  bool result = false;
  walkLeaves(attribute,
             [&](Attribute leaf) { result |= isa<FlatSymbolRefAttr>(leaf); });
  graphNaming[attribute] = result;
  return result;
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

uint64_t StructuralHash::hashType(Type type) {
  auto found = typeHashes.find(type);
  if (found != typeHashes.end())
    return found->second;
  uint64_t hash = computeTypeHash(type);
  typeHashes[type] = hash;
  return hash;
}

uint64_t StructuralHash::computeTypeHash(Type type) {
  SmallVector<uint64_t> words;
  if (auto tensor = dyn_cast<RankedTensorType>(type)) {
    words = {kTensorType, hashType(tensor.getElementType()),
             static_cast<uint64_t>(tensor.getRank())};
    auto info = dyn_cast_or_null<TensorInfoAttr>(tensor.getEncoding());
    if (!options.ignoreShapes) {
      if (info && info.getDims())
        words.push_back(hashAttribute(info.getDims()));
      else
        for (int64_t size : tensor.getShape())
          words.push_back(ShapedType::isDynamic(size) ? uint64_t(kUnknownSize)
                                                      : uint64_t(size));
      words.push_back(info ? hashAttribute(info.getStrides()) : kAbsent);
      // The place of the storage offset, which does not count.
      words.push_back(info ? hashAttribute({}) : kAbsent);
      words.push_back(info && info.getUnknownStrides());
    }
    if (info) {
      words.append({hashText(info.getDevice()), info.getRequiresGrad(),
                    hashAttribute(info.getLayout()),
                    hashAttribute(info.getSubclass())});
    } else if (tensor.getEncoding()) {
      words.push_back(hashAttribute(tensor.getEncoding()));
    }
  } else if (auto tensor = dyn_cast<UnrankedTensorType>(type)) {
    words = {kUnrankedTensorType, hashType(tensor.getElementType())};
  } else if (auto tuple = dyn_cast<mlir::TupleType>(type)) {
    words = {kTupleType, tuple.size()};
    for (Type element : tuple.getTypes())
      words.push_back(hashType(element));
  } else if (auto list = dyn_cast<ListType>(type)) {
    words = {kListType, hashType(list.getElements())};
  } else if (auto optional = dyn_cast<OptionalType>(type)) {
    words = {kOptionalType, hashType(optional.getElement())};
  } else if (auto value = dyn_cast<SymIntType>(type)) {
    words = {kSymbolicType, 0, hashExpression(value.getExpression())};
  } else if (auto value = dyn_cast<SymFloatType>(type)) {
    words = {kSymbolicType, 1, hashExpression(value.getExpression())};
  } else if (auto value = dyn_cast<SymBoolType>(type)) {
    words = {kSymbolicType, 2, hashExpression(value.getExpression())};
  } else if (auto scalar = dyn_cast<ScalarType>(type)) {
    words = {kTextType, 0, hashText(scalar.getName())};
  } else if (auto object = dyn_cast<ObjectType>(type)) {
    words = {kTextType, 1, hashText(object.getPythonType())};
  } else if (auto dtype = dyn_cast<DTypeType>(type)) {
    words = {kTextType, 2, hashText(dtype.getName())};
  } else if (auto integer = dyn_cast<IntegerType>(type)) {
    words = {kIntegerType, integer.getWidth(),
             static_cast<uint64_t>(integer.getSignedness())};
  } else if (auto complex = dyn_cast<ComplexType>(type)) {
    words = {kOtherType, hashText("complex"),
             hashType(complex.getElementType())};
  } else {
    words = {kOtherType, hashText(type.getAbstractType().getName())};
  }
  if (options.ignoreShapes && isa<SymIntType, SymFloatType, SymBoolType>(type))
    words.pop_back();
  return hashWords(words);
}

/// The symbols of `type` in the order written.
static void collectSymbols(Type type, SmallVectorImpl<StringRef> &symbols) {
  auto addExpression = [&](StringRef expression) {
    splitSymbols(expression, [&](StringRef part, bool isSymbol) {
      if (isSymbol)
        symbols.push_back(part);
    });
  };
  auto addAll = [&](ArrayAttr elements) {
    if (!elements)
      return;
    for (Attribute element : elements)
      if (auto symbol = dyn_cast<SymAttr>(element))
        addExpression(symbol.getValue());
  };
  if (auto tensor = dyn_cast<RankedTensorType>(type)) {
    if (auto info = dyn_cast_or_null<TensorInfoAttr>(tensor.getEncoding())) {
      addAll(info.getDims());
      addAll(info.getStrides());
    }
  } else if (auto tuple = dyn_cast<mlir::TupleType>(type)) {
    for (Type element : tuple.getTypes())
      collectSymbols(element, symbols);
  } else if (auto list = dyn_cast<ListType>(type)) {
    collectSymbols(list.getElements(), symbols);
  } else if (auto optional = dyn_cast<OptionalType>(type)) {
    collectSymbols(optional.getElement(), symbols);
  } else if (auto value = dyn_cast<SymIntType>(type)) {
    addExpression(value.getExpression());
  } else if (auto value = dyn_cast<SymFloatType>(type)) {
    addExpression(value.getExpression());
  } else if (auto value = dyn_cast<SymBoolType>(type)) {
    addExpression(value.getExpression());
  }
}

void StructuralHash::appendSymbols(Type type,
                                   llvm::StringMap<unsigned> &numbers,
                                   SmallVectorImpl<uint64_t> &words) {
  if (options.ignoreShapes)
    return;
  auto [found, isNew] = typeSymbols.try_emplace(type);
  if (isNew)
    collectSymbols(type, found->second);
  for (StringRef symbol : found->second)
    words.push_back(numbers.try_emplace(symbol, numbers.size()).first->second);
}

//===----------------------------------------------------------------------===//
// Nodes and subgraphs
//===----------------------------------------------------------------------===//

uint64_t StructuralHash::hashGraphReference(Operation *op,
                                            FlatSymbolRefAttr name) {
  auto graph = lookupGraph(op, name);
  return graph ? hashGraph(graph) : hashText(name.getValue());
}

uint64_t StructuralHash::hashArguments(NodeOp node) {
  ArrayAttr args = node.getArgs();
  uint64_t hash = kAbsent;
  if (std::optional<unsigned> idle = getIdleArgument(node)) {
    SmallVector<uint64_t> words;
    for (auto [index, argument] : llvm::enumerate(args))
      words.push_back(index == *idle ? uint64_t(kAbsent)
                                     : hashAttribute(argument));
    hash = hashWords(words);
  } else if (options.ignoreShapes) {
    SmallVector<uint64_t> words;
    const OperatorSchema *schema = lookupSchema(node.getTarget());
    for (auto [index, argument] : llvm::enumerate(args))
      words.push_back(isSizeArgument(getArgumentName(node, schema, index))
                          ? uint64_t(kUnknownSize)
                          : hashAttribute(argument));
    hash = hashWords(words);
  } else {
    hash = hashAttribute(args);
  }
  if (!namesGraphs(args))
    return hash;
  SmallVector<uint64_t> words{hash};
  walkLeaves(args, [&](Attribute leaf) {
    if (auto name = dyn_cast<FlatSymbolRefAttr>(leaf))
      words.push_back(hashGraphReference(node, name));
  });
  return hashWords(words);
}

uint64_t StructuralHash::hashBlocks(NodeOp node) {
  SmallVector<uint64_t> words;
  for (Region &block : node.getBlocks()) {
    words.push_back(kBlock);
    words.push_back(block.getNumArguments());
    // Blocks are isolated: every value is one of their own.
    llvm::DenseMap<Value, uint64_t> numbers;
    for (Value argument : block.getArguments())
      numbers.try_emplace(argument, numbers.size());
    for (Operation &op : block.front()) {
      words.push_back(hashNode(&op));
      for (Value operand : op.getOperands())
        words.push_back(numbers.lookup(operand));
      for (Value result : op.getResults())
        numbers.try_emplace(result, numbers.size());
      if (auto output = dyn_cast<OutputOp>(op))
        words.push_back(hashAttribute(output.getArgs()));
    }
  }
  return hashWords(words);
}

uint64_t StructuralHash::hashNode(Operation *op) {
  if (auto node = dyn_cast<NodeOp>(op); node && !node.getBlocks().empty()) {
    uint64_t words[] = {kNode, hashAttribute(node.getTargetAttr()),
                        hashArguments(node), hashBlocks(node),
                        hashType(node.getResult().getType())};
    return hashWords(words);
  }
  if (auto node = dyn_cast<NodeOp>(op)) {
    bool namesWeight = node.getKind() == NodeKind::get_attr;
    uint64_t words[] = {kNode,
                        static_cast<uint64_t>(node.getKind()),
                        namesWeight ? uint64_t(kAbsent)
                                    : hashAttribute(node.getTargetAttr()),
                        hashArguments(node),
                        hashAttribute(node.getKwargNamesAttr()),
                        hashType(node.getResult().getType())};
    return hashWords(words);
  }
  SmallVector<uint64_t> words{kOperation,
                              hashText(op->getName().getStringRef()),
                              op->getNumOperands(), op->getNumResults()};
  for (Type type : op->getResultTypes())
    words.push_back(hashType(type));
  if (auto call = dyn_cast<CallOp>(op))
    words.push_back(hashGraphReference(op, call.getCalleeAttr()));
  return hashWords(words);
}

uint64_t StructuralHash::hashSubgraph(const Subgraph &unordered) {
  Subgraph sorted;
  if (options.ignoreOrder) {
    sorted = unordered;
    sorted.sortByDataflow();
  }
  const Subgraph &subgraph = options.ignoreOrder ? sorted : unordered;
  SmallVector<uint64_t> words{kSubgraph, subgraph.nodes.size(),
                              subgraph.inputs.size(), subgraph.outputs.size()};
  llvm::StringMap<unsigned> symbols;
  llvm::DenseMap<Value, uint64_t> numbers;
  auto number = [&](Value value) {
    auto [found, isNew] = numbers.try_emplace(value, numbers.size());
    if (isNew) {
      words.push_back(hashType(value.getType()));
      appendSymbols(value.getType(), symbols, words);
    }
    return found->second;
  };
  if (subgraph.graph)
    for (Value input : subgraph.inputs)
      number(input);
  for (Operation *op : subgraph.nodes) {
    words.push_back(hashNode(op));
    for (Value operand : op->getOperands()) {
      uint64_t value = number(operand);
      words.push_back(value);
    }
    for (Value result : op->getResults())
      number(result);
  }
  for (Value output : subgraph.outputs) {
    uint64_t value = number(output);
    words.push_back(value);
  }
  if (GraphOp graph = subgraph.graph)
    words.push_back(hashAttribute(graph.getOutput().getArgs()));
  return hashWords(words);
}

uint64_t StructuralHash::hashGraph(GraphOp graph) {
  // The entry made before the graph is looked into ends circles of calls.
  auto [found, isNew] = graphHashes.try_emplace(graph, uint64_t(kGraph));
  if (!isNew)
    return found->second;
  uint64_t hash = hashSubgraph(Subgraph::get(graph));
  graphHashes[graph] = hash;
  return hash;
}
