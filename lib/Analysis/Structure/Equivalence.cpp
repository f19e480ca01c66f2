// Comparing subgraphs: node by node, with types, constants and edges.

#include "opprof/Analysis/Structure/Equivalence.h"
#include "opprof/Analysis/Structure/DataflowOrder.h"
#include "opprof/Analysis/Structure/IdleArguments.h"

#include "NodeComparison.h"

#include "opprof/Dialect/FX/IR/Arguments.h"
#include "opprof/Dialect/FX/IR/Provenance.h"

#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <array>
#include <charconv>

using namespace mlir;
using namespace opprof::fx;

//===----------------------------------------------------------------------===//
// Subgraph
//===----------------------------------------------------------------------===//

Subgraph Subgraph::get(ArrayRef<Operation *> nodes) {
  Subgraph subgraph;
  subgraph.nodes.assign(nodes.begin(), nodes.end());
  llvm::SmallPtrSet<Operation *, 16> inside(nodes.begin(), nodes.end());
  llvm::SmallDenseSet<Value> seen;
  for (Operation *node : nodes) {
    for (Value operand : node->getOperands()) {
      Operation *definition = operand.getDefiningOp();
      if ((!definition || !inside.contains(definition)) &&
          seen.insert(operand).second)
        subgraph.inputs.push_back(operand);
    }
    for (Value result : node->getResults())
      if (llvm::any_of(result.getUsers(),
                       [&](Operation *user) { return !inside.contains(user); }))
        subgraph.outputs.push_back(result);
  }
  return subgraph;
}

Subgraph Subgraph::get(GraphOp graph) {
  Subgraph subgraph;
  subgraph.graph = graph;
  for (Operation &node : graph.getBlock().without_terminator())
    subgraph.nodes.push_back(&node);
  llvm::append_range(subgraph.inputs, graph.getArguments());
  llvm::append_range(subgraph.outputs, graph.getOutput().getOperands());
  return subgraph;
}

void Subgraph::sortByDataflow() {
  SmallVector<Operation *> recorded = nodes;
  llvm::sort(recorded, [](Operation *first, Operation *second) {
    return first->isBeforeInBlock(second);
  });
  SmallVector<Operation *> roots;
  if (graph) {
    for (Value output : outputs)
      if (Operation *definition = output.getDefiningOp())
        roots.push_back(definition);
  } else {
    // What no node inside takes comes in the recorded order: for a part of a
    // graph that is the order of its outputs.
    llvm::SmallDenseSet<Operation *> inside(nodes.begin(), nodes.end());
    for (Operation *node : recorded)
      if (llvm::none_of(node->getUsers(),
                        [&](Operation *user) { return inside.contains(user); }))
        roots.push_back(node);
  }
  std::vector<Operation *> order = getDataflowOrder(recorded, roots);
  nodes.assign(order.begin(), order.end());
  if (graph)
    return;
  Subgraph sorted = get(nodes);
  inputs = std::move(sorted.inputs);
  outputs = std::move(sorted.outputs);
}

//===----------------------------------------------------------------------===//
// Symbols
//===----------------------------------------------------------------------===//

Attribute opprof::fx::rename(Attribute attribute, const Renaming &renaming) {
  return mapLeaves(attribute, [&](Attribute leaf) -> Attribute {
    if (auto symbol = dyn_cast<SymAttr>(leaf))
      return SymAttr::get(symbol.getContext(),
                          renameSymbols(symbol.getValue(), renaming.symbols));
    if (auto name = dyn_cast<FlatSymbolRefAttr>(leaf)) {
      const auto *found = renaming.graphs.find(name.getAttr());
      if (found != renaming.graphs.end())
        return FlatSymbolRefAttr::get(found->second);
    }
    return leaf;
  });
}

//===----------------------------------------------------------------------===//
// Differences in words
//===----------------------------------------------------------------------===//

StringRef opprof::fx::stringifyDifferenceKind(DifferenceKind kind) {
  switch (kind) {
  case DifferenceKind::NodeCount:
    return "number of nodes";
  case DifferenceKind::InputCount:
    return "number of inputs";
  case DifferenceKind::OutputCount:
    return "number of outputs";
  case DifferenceKind::Operation:
    return "operation";
  case DifferenceKind::Target:
    return "target";
  case DifferenceKind::NodeKind:
    return "kind of node";
  case DifferenceKind::Arguments:
    return "arguments";
  case DifferenceKind::Constant:
    return "constant";
  case DifferenceKind::Edge:
    return "edge";
  case DifferenceKind::DType:
    return "dtype";
  case DifferenceKind::Shape:
    return "shape";
  case DifferenceKind::Stride:
    return "stride";
  case DifferenceKind::Device:
    return "device";
  case DifferenceKind::Type:
    return "type";
  case DifferenceKind::Effect:
    return "effect";
  case DifferenceKind::InputOrder:
    return "input order";
  case DifferenceKind::OutputOrder:
    return "output order";
  case DifferenceKind::Subgraph:
    return "subgraph";
  case DifferenceKind::Unmatched:
    return "node";
  }
  llvm_unreachable("every kind has its name");
}

static std::string describe(Operation *op) {
  if (!op)
    return "nothing";
  std::string text;
  StringRef name = getNodeName(op);
  if (auto node = dyn_cast<NodeOp>(op))
    text = node.getTarget().str();
  else
    text = op->getName().getStringRef().str();
  if (!name.empty())
    text = (name + " (" + text + ")").str();
  return text;
}

static bool isAboutNode(DifferenceKind kind) {
  switch (kind) {
  case DifferenceKind::NodeCount:
  case DifferenceKind::InputCount:
  case DifferenceKind::OutputCount:
  case DifferenceKind::InputOrder:
  case DifferenceKind::OutputOrder:
    return false;
  default:
    return true;
  }
}

std::string Difference::getText() const {
  if (kind == DifferenceKind::Unmatched)
    return (Twine("only the ") + (first ? "first" : "second") + " has node " +
            Twine(position) + ", " + describe(first ? first : second))
        .str();
  std::string text = ("they differ in " + stringifyDifferenceKind(kind)).str();
  if (isAboutNode(kind) && (first || second))
    text += (" at node " + Twine(position) + ", " + describe(first) + " and " +
             describe(second))
                .str();
  else if (!isAboutNode(kind) && kind != DifferenceKind::NodeCount &&
           kind != DifferenceKind::InputCount &&
           kind != DifferenceKind::OutputCount)
    text += (" at position " + Twine(position)).str();
  text += ": ";
  if (!argument.empty())
    text += ("the argument '" + argument + "' is ").str();
  return text + firstText + " in the first, " + secondText + " in the second";
}

/// The calls that led to the user's line, innermost first, as notes.
static void attachCalls(InFlightDiagnostic &diagnostic, Location location) {
  FileLineColLoc place = getUserFrame(location);
  SmallVector<StackFrame> frames = getStackFrames(location);
  while (place && !frames.empty() &&
         (frames.back().file != place.getFilename() ||
          frames.back().line != place.getLine()))
    frames.pop_back();
  if (frames.empty())
    return;
  frames.pop_back();
  for (const StackFrame &frame : llvm::reverse(frames))
    diagnostic.attachNote(
        FileLineColLoc::get(location.getContext(), frame.file, frame.line, 0))
        << "called from here";
}

void Difference::report(Location place) const {
  if (first || second)
    place = (first ? first : second)->getLoc();
  // The printer of diagnostics shows the calls that led to the first place.
  InFlightDiagnostic diagnostic = mlir::emitRemark(place) << getText();
  if (!first || !second)
    return;
  FileLineColLoc line = getUserFrame(second->getLoc());
  diagnostic.attachNote(line ? Location(line) : second->getLoc())
      << "the other one is here";
  attachCalls(diagnostic, second->getLoc());
}

//===----------------------------------------------------------------------===//
// NodeComparison: types and constants
//===----------------------------------------------------------------------===//

static std::string toText(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

static std::string toText(Attribute attribute) {
  if (!attribute)
    return "nothing";
  if (isa<ValueAttr>(attribute))
    return "a value";
  if (isa<UnitAttr>(attribute))
    return "None";
  if (auto number = dyn_cast<FloatAttr>(attribute)) {
    std::array<char, 32> digits;
    auto end =
        std::to_chars(digits.begin(), digits.end(), number.getValueAsDouble());
    std::string text(digits.begin(), end.ptr);
    // What is no integer does not look like one.
    return text +
           (StringRef(text).find_first_not_of("-0123456789") == StringRef::npos
                ? ".0"
                : "");
  }
  std::string text;
  llvm::raw_string_ostream os(text);
  attribute.print(os, /*elideType=*/true);
  return text;
}

StringRef opprof::fx::getArgumentName(NodeOp node, const OperatorSchema *schema,
                                      unsigned index) {
  unsigned numPositional = node.getNumPositional();
  if (index >= numPositional)
    return cast<StringAttr>((*node.getKwargNames())[index - numPositional]);
  if (schema && index < schema->arguments.size())
    return schema->arguments[index].name;
  return "";
}

/// The name of the argument that operand `index` of the node stands in.
static StringRef getArgumentOfOperand(NodeOp node, unsigned index) {
  for (unsigned i = 0, e = node.getArgs().size(); i != e; ++i) {
    unsigned numValues = countValues(node.getArgs()[i]);
    if (index < numValues)
      return getArgumentName(node, lookupSchema(node.getTarget()), i);
    index -= numValues;
  }
  return "";
}

StringRef NodeComparison::getComparedArgument() {
  if (comparedArgument)
    return getArgumentName(comparedNode, lookupSchema(comparedNode.getTarget()),
                           *comparedArgument);
  if (comparedOperand && comparedNode)
    return getArgumentOfOperand(comparedNode, *comparedOperand);
  return comparedName;
}

bool NodeComparison::differ(DifferenceKind kind, std::string firstText,
                            std::string secondText) {
  difference.kind = kind;
  difference.firstText = std::move(firstText);
  difference.secondText = std::move(secondText);
  difference.argument = getComparedArgument();
  if (all)
    all->push_back(difference);
  return false;
}

bool NodeComparison::compareSymbols(StringRef first, StringRef second) {
  SmallVector<std::pair<StringRef, bool>> left, right;
  splitSymbols(first, [&](StringRef text, bool isSymbol) {
    left.emplace_back(text, isSymbol);
  });
  splitSymbols(second, [&](StringRef text, bool isSymbol) {
    right.emplace_back(text, isSymbol);
  });
  if (left.size() != right.size())
    return false;
  for (auto [a, b] : llvm::zip(left, right)) {
    if (a.second != b.second)
      return false;
    if (!a.second) {
      if (a.first != b.first)
        return false;
      continue;
    }
    auto [forward, isNew] =
        renaming.symbols.try_emplace(a.first, b.first.str());
    auto [backward, isNewBack] =
        backwardSymbols.try_emplace(b.first, a.first.str());
    if (forward->second != b.first || backward->second != a.first)
      return false;
  }
  return true;
}

bool NodeComparison::bindSize(Attribute expected, Attribute size) {
  auto symbol = dyn_cast<SymAttr>(expected);
  if (!size || !symbol)
    return expected == size;
  auto [bound, isNew] = boundSizes.try_emplace(symbol.getValue(), size);
  return bound->second == size;
}

bool NodeComparison::compareSize(Attribute first, Attribute second) {
  auto symbol = dyn_cast_or_null<SymAttr>(first);
  auto other = dyn_cast_or_null<SymAttr>(second);
  if (symbol && other)
    return compareSymbols(symbol.getValue(), other.getValue());
  return first == second;
}

/// The size of a dimension: a number, an expression, or null for `?`.
static Attribute getSize(RankedTensorType type, TensorInfoAttr info,
                         unsigned dimension) {
  if (info && info.getDims())
    return info.getDims()[dimension];
  int64_t size = type.getShape()[dimension];
  if (ShapedType::isDynamic(size))
    return {};
  return IntegerAttr::get(IntegerType::get(type.getContext(), 64), size);
}

bool NodeComparison::compareTensors(RankedTensorType first,
                                    RankedTensorType second) {
  auto differInTypes = [&](DifferenceKind kind) {
    return differ(kind, toText(first), toText(second));
  };
  if (first.getElementType() != second.getElementType())
    return differInTypes(DifferenceKind::DType);
  if (first.getRank() != second.getRank())
    return differInTypes(DifferenceKind::Shape);
  auto info = dyn_cast_or_null<TensorInfoAttr>(first.getEncoding());
  auto otherInfo = dyn_cast_or_null<TensorInfoAttr>(second.getEncoding());
  if (!options.ignoreShapes)
    for (int64_t i = 0, e = first.getRank(); i != e; ++i)
      if (!compareSize(getSize(first, info, i), getSize(second, otherInfo, i)))
        return differInTypes(DifferenceKind::Shape);
  if (!info || !otherInfo)
    return first.getEncoding() == second.getEncoding() ||
           differInTypes(DifferenceKind::Type);
  if (info.getDevice() != otherInfo.getDevice())
    return differInTypes(DifferenceKind::Device);
  if (info.getRequiresGrad() != otherInfo.getRequiresGrad() ||
      info.getLayout() != otherInfo.getLayout() ||
      info.getSubclass() != otherInfo.getSubclass())
    return differInTypes(DifferenceKind::Type);
  if (options.ignoreShapes)
    return true;
  if (info.getUnknownStrides() != otherInfo.getUnknownStrides() ||
      !info.getStrides() != !otherInfo.getStrides())
    return differInTypes(DifferenceKind::Stride);
  if (info.getStrides())
    for (auto [stride, other] :
         llvm::zip(info.getStrides(), otherInfo.getStrides()))
      if (!compareSize(stride, other))
        return differInTypes(DifferenceKind::Stride);
  // Where in its storage a tensor begins changes nothing in what is computed.
  return true;
}

/// True for types whose equality needs no look at symbols.
static bool hasNoSymbols(Type type) {
  if (auto tensor = dyn_cast<RankedTensorType>(type)) {
    auto info = dyn_cast_or_null<TensorInfoAttr>(tensor.getEncoding());
    return !info || !info.getDims();
  }
  return isa<opprof::fx::NoneType, ScalarType, ObjectType, DTypeType>(type);
}

bool NodeComparison::compareTypes(Type first, Type second) {
  if (first == second && hasNoSymbols(first))
    return true;
  if (auto tensor = dyn_cast<RankedTensorType>(first))
    if (auto other = dyn_cast<RankedTensorType>(second))
      return compareTensors(tensor, other);
  auto compareAll = [&](TypeRange types, TypeRange others) {
    if (types.size() != others.size())
      return differ(DifferenceKind::Type, toText(first), toText(second));
    for (auto [type, other] : llvm::zip(types, others))
      if (!compareTypes(type, other))
        return false;
    return true;
  };
  if (auto tuple = dyn_cast<TupleType>(first))
    if (auto other = dyn_cast<TupleType>(second))
      return compareAll(tuple.getTypes(), other.getTypes());
  if (auto list = dyn_cast<ListType>(first))
    if (auto other = dyn_cast<ListType>(second))
      return compareAll(list.getElements().getTypes(),
                        other.getElements().getTypes());
  if (auto optional = dyn_cast<OptionalType>(first))
    if (auto other = dyn_cast<OptionalType>(second))
      return compareTypes(optional.getElement(), other.getElement());
  auto getExpression = [](Type type) -> std::optional<StringRef> {
    if (auto symbol = dyn_cast<SymIntType>(type))
      return symbol.getExpression();
    if (auto symbol = dyn_cast<SymFloatType>(type))
      return symbol.getExpression();
    if (auto symbol = dyn_cast<SymBoolType>(type))
      return symbol.getExpression();
    return std::nullopt;
  };
  auto expression = getExpression(first), other = getExpression(second);
  if (expression && other && first.getTypeID() == second.getTypeID()) {
    if (options.ignoreShapes || compareSymbols(*expression, *other))
      return true;
    return differ(DifferenceKind::Shape, toText(first), toText(second));
  }
  return first == second ||
         differ(DifferenceKind::Type, toText(first), toText(second));
}

bool NodeComparison::compareGraphs(Operation *first, FlatSymbolRefAttr name,
                                   Operation *second, FlatSymbolRefAttr other) {
  auto graph = lookupGraph(first, name);
  auto otherGraph = lookupGraph(second, other);
  if (!graph || !otherGraph)
    return name == other ||
           differ(DifferenceKind::Subgraph, toText(name), toText(other));
  if (graph != otherGraph) {
    auto [bound, isNew] =
        renaming.graphs.insert({name.getAttr(), other.getAttr()});
    if (bound->second != other.getAttr())
      return differ(DifferenceKind::Subgraph, toText(name), toText(other));
    if (!isNew)
      return true;
    // A pair that is being compared counts as equal: only a difference that is
    // found somewhere ends a circle of calls.
    if (!graphsInProgress.insert({graph, otherGraph}).second)
      return true;
    NodeComparison inner(options, /*isPattern=*/false);
    inner.graphsInProgress = graphsInProgress;
    if (!inner.compareSubgraphs(Subgraph::get(graph),
                                Subgraph::get(otherGraph)))
      return differ(DifferenceKind::Subgraph,
                    toText(name) + " (" + inner.difference.getText() + ")",
                    toText(other));
  }
  return true;
}

bool opprof::fx::isSizeArgument(StringRef name) {
  return llvm::is_contained({"size", "sizes", "shape", "normalized_shape",
                             "input_sizes", "output_size", "split_size",
                             "split_sizes", "start", "end", "length", "N", "C",
                             "HxW", "max_q", "max_k"},
                            name);
}

bool NodeComparison::compareArguments(Operation *first, Attribute argument,
                                      Operation *second, Attribute other,
                                      bool isSize) {
  if (isa<ValueAttr>(argument) && isa<ValueAttr>(other))
    return true;
  if (isPattern) {
    if (auto open = dyn_cast<AnyAttr>(argument)) {
      if (countValues(other))
        return differ(DifferenceKind::Constant, "a constant", "a value");
      if (open.getName().empty())
        return true;
      auto [bound, isNew] = boundConstants.insert(
          {StringAttr::get(open.getContext(), open.getName()), other});
      return bound->second == other ||
             differ(DifferenceKind::Constant, toText(bound->second),
                    toText(other));
    }
  }
  auto compareAll = [&](ArrayRef<Attribute> elements,
                        ArrayRef<Attribute> others) {
    if (elements.size() != others.size())
      return (options.ignoreShapes && isSize) ||
             differ(DifferenceKind::Arguments, toText(argument), toText(other));
    for (auto [element, otherElement] : llvm::zip(elements, others))
      if (!compareArguments(first, element, second, otherElement, isSize))
        return false;
    return true;
  };
  if (auto list = dyn_cast<ArrayAttr>(argument))
    if (auto otherList = dyn_cast<ArrayAttr>(other))
      return compareAll(list.getValue(), otherList.getValue());
  if (auto tuple = dyn_cast<TupleAttr>(argument))
    if (auto otherTuple = dyn_cast<TupleAttr>(other))
      return compareAll(tuple.getElements().getValue(),
                        otherTuple.getElements().getValue());
  if (auto dict = dyn_cast<DictAttr>(argument))
    if (auto otherDict = dyn_cast<DictAttr>(other))
      return compareAll(dict.getKeys().getValue(),
                        otherDict.getKeys().getValue()) &&
             compareAll(dict.getValues().getValue(),
                        otherDict.getValues().getValue());
  if (auto slice = dyn_cast<SliceAttr>(argument))
    if (auto otherSlice = dyn_cast<SliceAttr>(other))
      return compareAll(
          {slice.getStart(), slice.getStop(), slice.getStep()},
          {otherSlice.getStart(), otherSlice.getStop(), otherSlice.getStep()});
  if (auto symbol = dyn_cast<SymAttr>(argument))
    if (isa<SymAttr>(other) || isPattern) {
      if (isPattern ? bindSize(symbol, other)
                    : compareSymbols(symbol.getValue(),
                                     cast<SymAttr>(other).getValue()))
        return true;
      return (options.ignoreShapes && isSize) ||
             differ(DifferenceKind::Constant, toText(argument), toText(other));
    }
  if (auto name = dyn_cast<FlatSymbolRefAttr>(argument))
    if (auto otherName = dyn_cast<FlatSymbolRefAttr>(other))
      return compareGraphs(first, name, second, otherName);
  if (argument == other)
    return true;
  bool isNumber =
      isa<IntegerAttr, SymAttr>(argument) && isa<IntegerAttr, SymAttr>(other);
  if (options.ignoreShapes && isSize && isNumber)
    return true;
  if (argument.getTypeID() != other.getTypeID())
    return differ(DifferenceKind::Arguments, toText(argument), toText(other));
  return differ(DifferenceKind::Constant, toText(argument), toText(other));
}

bool NodeComparison::compareNodes(NodeOp first, NodeOp second) {
  comparedNode = first;
  difference.first = first;
  difference.second = second;
  if (first.getKind() != second.getKind())
    return differ(DifferenceKind::NodeKind,
                  stringifyNodeKind(first.getKind()).str(),
                  stringifyNodeKind(second.getKind()).str());
  // The target of get_attr is the name of a weight, which does not count.
  bool namesWeight = first.getKind() == NodeKind::get_attr && !isPattern;
  if (first.getTargetAttr() != second.getTargetAttr() && !namesWeight)
    return differ(first.hasSideEffects() != second.hasSideEffects()
                      ? DifferenceKind::Effect
                      : DifferenceKind::Target,
                  first.getTarget().str(), second.getTarget().str());
  // Blocks are the same word for word, or they are not.
  if (!llvm::equal(first.getBlocks(), second.getBlocks(),
                   [](Region &block, Region &other) {
                     return OperationEquivalence::isRegionEquivalentTo(
                         &block, &other, OperationEquivalence::IgnoreLocations);
                   }))
    return differ(DifferenceKind::Arguments, "its blocks", "other blocks");
  if (isPattern)
    return comparePatternArguments(first, second);
  bool isSame = true;
  if (first.getArgs().size() != second.getArgs().size() ||
      first.getKwargNamesAttr() != second.getKwargNamesAttr()) {
    isSame = false;
    if (!all)
      return differ(DifferenceKind::Arguments, toText(first.getArgs()),
                    toText(second.getArgs()));
    listArguments(first, second);
  } else {
    isSame = compareGivenArguments(first, second);
    if (!isSame && !all)
      return false;
  }
  return compareTypes(first.getResult().getType(),
                      second.getResult().getType()) &&
         isSame;
}

bool NodeComparison::compareGivenArguments(NodeOp first, NodeOp second) {
  const OperatorSchema *schema =
      options.ignoreShapes ? lookupSchema(first.getTarget()) : nullptr;
  std::optional<unsigned> idle;
  if (first.getArgs() != second.getArgs())
    if (idle = getIdleArgument(first); idle != getIdleArgument(second))
      idle.reset();
  bool isSame = true;
  for (unsigned i = 0, e = first.getArgs().size(); i != e; ++i) {
    if (i == idle)
      continue;
    comparedArgument = i;
    bool isSize = options.ignoreShapes &&
                  isSizeArgument(getArgumentName(first, schema, i));
    isSame &= compareArguments(first, first.getArgs()[i], second,
                               second.getArgs()[i], isSize);
    if (!isSame && !all)
      break;
  }
  comparedArgument.reset();
  return isSame;
}

/// Whether the schema knows all arguments of `node`.
static bool isOfSchema(NodeOp node, const OperatorSchema &schema) {
  if (node.getNumPositional() > schema.arguments.size())
    return false;
  ArrayAttr names = node.getKwargNamesAttr();
  return !names ||
         llvm::all_of(names.getAsRange<StringAttr>(), [&](StringAttr name) {
           return schema.getArgumentIndex(name) >= 0;
         });
}

bool NodeComparison::listArguments(NodeOp first, NodeOp second) {
  const OperatorSchema *schema = lookupSchema(first.getTarget());
  size_t before = all->size();
  if (schema && isOfSchema(first, *schema) && isOfSchema(second, *schema))
    for (const SchemaArgument &argument : schema->arguments) {
      comparedName = argument.name;
      Attribute given = getNormalizedArgument(first, argument);
      Attribute other = getNormalizedArgument(second, argument);
      if (!given != !other)
        differ(DifferenceKind::Arguments, toText(given), toText(other));
      else if (given)
        compareArguments(first, given, second, other, false);
    }
  comparedName = "";
  // They may say the same in other words.
  return all->size() == before &&
         differ(DifferenceKind::Arguments,
                std::to_string(first.getArgs().size()) + " are written",
                std::to_string(second.getArgs().size()) + " are written");
}

bool NodeComparison::comparePatternArguments(NodeOp pattern, NodeOp node) {
  const OperatorSchema *schema = lookupSchema(pattern.getTarget());
  pairedOperands.clear();
  auto pairUp = [&](Attribute argument, OperandRange values, Attribute other,
                    OperandRange otherValues) {
    if (!argument != !other)
      return differ(DifferenceKind::Arguments, toText(argument), toText(other));
    if (!argument)
      return true;
    if (!compareArguments(pattern, argument, node, other, false))
      return false;
    if (values.size() != otherValues.size())
      return differ(DifferenceKind::Arguments, toText(argument), toText(other));
    for (auto [value, otherValue] : llvm::zip(values, otherValues))
      pairedOperands.emplace_back(value, otherValue);
    return true;
  };
  // What the schema does not know, as of a newer PyTorch, is compared as it is
  // written.
  if (!schema || !isOfSchema(pattern, *schema) || !isOfSchema(node, *schema)) {
    if (pattern.getKwargNamesAttr() != node.getKwargNamesAttr() ||
        pattern.getArgs().size() != node.getArgs().size())
      return differ(DifferenceKind::Arguments, toText(pattern.getArgs()),
                    toText(node.getArgs()));
    return pairUp(pattern.getArgs(), pattern.getOperands(), node.getArgs(),
                  node.getOperands());
  }
  for (const SchemaArgument &argument : schema->arguments)
    if (!pairUp(getNormalizedArgument(pattern, argument),
                pattern.getArgumentValues(argument.name),
                getNormalizedArgument(node, argument),
                node.getArgumentValues(argument.name))) {
      difference.argument = argument.name;
      return false;
    }
  return true;
}

bool NodeComparison::compareOperations(Operation *first, Operation *second) {
  comparedNode = nullptr;
  if (first->getName() != second->getName()) {
    difference.first = first;
    difference.second = second;
    return differ(DifferenceKind::Operation,
                  first->getName().getStringRef().str(),
                  second->getName().getStringRef().str());
  }
  if (auto node = dyn_cast<NodeOp>(first))
    return compareNodes(node, cast<NodeOp>(second));
  difference.first = first;
  difference.second = second;
  if (first->getNumResults() != second->getNumResults())
    return differ(DifferenceKind::Type, "another number of results",
                  "another number of results");
  for (auto [type, other] :
       llvm::zip(first->getResultTypes(), second->getResultTypes()))
    if (!compareTypes(type, other))
      return false;
  if (auto call = dyn_cast<CallOp>(first))
    return compareGraphs(first, call.getCalleeAttr(), second,
                         cast<CallOp>(second).getCalleeAttr());
  if (first->getNumRegions() || second->getNumRegions() ||
      first->getPropertiesAsAttribute() != second->getPropertiesAsAttribute())
    return differ(DifferenceKind::Operation, "other attributes or regions",
                  "other attributes or regions");
  return true;
}

//===----------------------------------------------------------------------===//
// NodeComparison: edges
//===----------------------------------------------------------------------===//

static std::string describeValue(Value value, const Subgraph &subgraph) {
  if (auto result = dyn_cast<OpResult>(value)) {
    for (auto [index, node] : llvm::enumerate(subgraph.nodes))
      if (node == result.getOwner())
        return ("the result of node " + Twine(index) + ", " + describe(node))
            .str();
  }
  for (auto [index, input] : llvm::enumerate(subgraph.inputs))
    if (input == value)
      return ("input " + Twine(index)).str();
  return "a value from outside";
}

bool NodeComparison::bind(Value first, Value second) {
  auto [forward, isNew] = values.try_emplace(first, second);
  auto [backward, isNewBack] = backwardValues.try_emplace(second, first);
  return forward->second == second && backward->second == first;
}

bool NodeComparison::compareInputs(const Subgraph &first,
                                   const Subgraph &second) {
  if (first.inputs.size() != second.inputs.size())
    return differ(DifferenceKind::InputCount,
                  std::to_string(first.inputs.size()),
                  std::to_string(second.inputs.size()));
  bool isSame = true;
  for (auto [index, input] : llvm::enumerate(first.inputs)) {
    difference.position = index;
    isSame &= compareTypes(input.getType(), second.inputs[index].getType());
    if (!isSame && !all)
      return false;
    bind(input, second.inputs[index]);
  }
  return isSame;
}

bool NodeComparison::compareOperands(Operation *node, Operation *other,
                                     const Subgraph &first,
                                     const Subgraph &second) {
  if (node->getNumOperands() != other->getNumOperands())
    return differ(DifferenceKind::Arguments,
                  std::to_string(node->getNumOperands()) + " operands",
                  std::to_string(other->getNumOperands()) + " operands");
  auto isFromOutside = [](Value value, const auto &nodes) {
    Operation *definition = value.getDefiningOp();
    return !definition || !nodes.contains(definition);
  };
  auto isOfOne = [&](Value value) {
    return value.getDefiningOp() && unmatched.contains(value.getDefiningOp());
  };
  bool isSame = true;
  for (unsigned i = 0, e = node->getNumOperands(); i != e; ++i) {
    Value operand = node->getOperand(i), otherOperand = other->getOperand(i);
    if (all && (isOfOne(operand) || isOfOne(otherOperand)))
      continue;
    comparedOperand = i;
    bool isNew = !values.count(operand) && !backwardValues.count(otherOperand);
    bool isInput = isFromOutside(operand, inside);
    bool agrees = true;
    if (isInput == isFromOutside(otherOperand, otherInside) &&
        bind(operand, otherOperand)) {
      agrees = !isNew || !isInput ||
               compareTypes(operand.getType(), otherOperand.getType());
    } else {
      bool areInputs = isInput && isFromOutside(otherOperand, otherInside);
      agrees = differ(
          areInputs && first.graph && second.graph ? DifferenceKind::InputOrder
                                                   : DifferenceKind::Edge,
          describeValue(operand, first), describeValue(otherOperand, second));
    }
    isSame &= agrees;
    if (!isSame && !all)
      break;
  }
  comparedOperand.reset();
  return isSame;
}

/// What the outputs of the graph are to its caller, in order.
static SmallVector<Attribute> getOutputKinds(GraphOp graph) {
  SmallVector<Attribute> kinds;
  if (auto signature = graph.getOutput().getSignature())
    for (auto entry : signature->getAsRange<DictionaryAttr>())
      kinds.push_back(entry.get("kind"));
  return kinds;
}

bool NodeComparison::compareBorders(const Subgraph &first,
                                    const Subgraph &second) {
  difference.first = difference.second = nullptr;
  // Which nodes are more is listed where all differences are.
  if (first.nodes.size() != second.nodes.size() && !all)
    return differ(DifferenceKind::NodeCount, std::to_string(first.nodes.size()),
                  std::to_string(second.nodes.size()));
  bool areGraphs = first.graph && second.graph;
  bool isSame = true;
  // That of two graphs was compared before.
  if (first.inputs.size() != second.inputs.size() && !(areGraphs && all)) {
    isSame =
        differ(DifferenceKind::InputCount, std::to_string(first.inputs.size()),
               std::to_string(second.inputs.size()));
    if (!all)
      return false;
  }
  if (first.outputs.size() != second.outputs.size())
    return differ(DifferenceKind::OutputCount,
                  std::to_string(first.outputs.size()),
                  std::to_string(second.outputs.size()));
  for (auto [index, output] : llvm::enumerate(first.outputs)) {
    Value other = second.outputs[index];
    difference.position = index;
    if (unmatched.contains(output.getDefiningOp()) ||
        unmatched.contains(other.getDefiningOp()) || bind(output, other))
      continue;
    difference.first = output.getDefiningOp();
    difference.second = other.getDefiningOp();
    isSame = differ(DifferenceKind::OutputOrder, describeValue(output, first),
                    describeValue(other, second));
    if (!all)
      return false;
  }
  if (!areGraphs)
    return isSame;
  difference.first = difference.second = nullptr;
  GraphOp graph = first.graph, otherGraph = second.graph;
  if (graph.getOutput().getArgs() != otherGraph.getOutput().getArgs() ||
      getOutputKinds(graph) != getOutputKinds(otherGraph))
    return differ(DifferenceKind::OutputOrder,
                  toText(graph.getOutput().getArgs()),
                  toText(otherGraph.getOutput().getArgs()));
  return isSame;
}

bool NodeComparison::compareSubgraphs(const Subgraph &first,
                                      const Subgraph &second) {
  if (first.graph && second.graph && !compareInputs(first, second))
    return false;
  inside.insert(first.nodes.begin(), first.nodes.end());
  otherInside.insert(second.nodes.begin(), second.nodes.end());
  for (unsigned i = 0, e = std::min(first.nodes.size(), second.nodes.size());
       i != e; ++i) {
    Operation *node = first.nodes[i], *other = second.nodes[i];
    difference.position = i;
    if (!compareOperations(node, other) ||
        !compareOperands(node, other, first, second))
      return false;
    for (auto [result, otherResult] :
         llvm::zip(node->getResults(), other->getResults()))
      bind(result, otherResult);
  }
  return compareBorders(first, second);
}

void NodeComparison::listDifferences(
    const Subgraph &first, const Subgraph &second,
    ArrayRef<std::pair<unsigned, unsigned>> pairs,
    std::vector<Difference> &differences) {
  all = &differences;
  if (first.graph && second.graph)
    compareInputs(first, second);
  inside.insert(first.nodes.begin(), first.nodes.end());
  otherInside.insert(second.nodes.begin(), second.nodes.end());
  unmatched.insert(first.nodes.begin(), first.nodes.end());
  unmatched.insert(second.nodes.begin(), second.nodes.end());
  for (auto [position, otherPosition] : pairs) {
    unmatched.erase(first.nodes[position]);
    unmatched.erase(second.nodes[otherPosition]);
  }
  unsigned next = 0, otherNext = 0;
  auto listUnmatched = [&](unsigned end, unsigned otherEnd) {
    for (; next < end; ++next)
      differences.push_back({DifferenceKind::Unmatched, next, first.nodes[next],
                             nullptr, "", "", ""});
    for (; otherNext < otherEnd; ++otherNext)
      differences.push_back({DifferenceKind::Unmatched, otherNext, nullptr,
                             second.nodes[otherNext], "", "", ""});
  };
  for (auto [position, otherPosition] : pairs) {
    listUnmatched(position, otherPosition);
    ++next, ++otherNext;
    Operation *node = first.nodes[position];
    Operation *other = second.nodes[otherPosition];
    difference.position = position;
    // Another operator's operands are other ones.
    size_t before = differences.size();
    bool isSame = compareOperations(node, other);
    auto isOther = [](const Difference &found) {
      return found.kind == DifferenceKind::Operation ||
             found.kind == DifferenceKind::Target ||
             found.kind == DifferenceKind::NodeKind ||
             found.kind == DifferenceKind::Effect;
    };
    if (isSame ||
        (node->getNumOperands() == other->getNumOperands() &&
         llvm::none_of(ArrayRef(differences).drop_front(before), isOther)))
      compareOperands(node, other, first, second);
    for (auto [result, otherResult] :
         llvm::zip(node->getResults(), other->getResults()))
      bind(result, otherResult);
  }
  listUnmatched(first.nodes.size(), second.nodes.size());
  compareBorders(first, second);
}

std::optional<Difference> opprof::fx::findDifference(const Subgraph &first,
                                                     const Subgraph &second,
                                                     EquivalenceOptions options,
                                                     Renaming *renaming) {
  NodeComparison comparison(options, /*isPattern=*/false);
  bool areEqual;
  if (options.ignoreOrder) {
    Subgraph sorted = first, otherSorted = second;
    sorted.sortByDataflow();
    otherSorted.sortByDataflow();
    areEqual = comparison.compareSubgraphs(sorted, otherSorted);
  } else {
    areEqual = comparison.compareSubgraphs(first, second);
  }
  if (!areEqual)
    return comparison.getDifference();
  if (renaming)
    *renaming = comparison.takeRenaming();
  return std::nullopt;
}
