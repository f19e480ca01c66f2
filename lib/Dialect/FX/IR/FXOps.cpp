// Operations of the fx dialect: syntax, verifiers, memory effects.

#include "opprof/Dialect/FX/IR/Arguments.h"
#include "opprof/Dialect/FX/IR/FX.h"
#include "opprof/Dialect/FX/IR/Provenance.h"
#include "opprof/Dialect/FX/IR/Schema.h"
#include "opprof/Dialect/FX/IR/StorageOffsets.h"
#include "opprof/Dialect/FX/IR/Symbols.h"

#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/FunctionImplementation.h"

using namespace mlir;
using namespace opprof::fx;

#define GET_OP_CLASSES
#include "opprof/Dialect/FX/IR/FXOps.cpp.inc"

/// TorchScript's nodes that hold blocks.
static constexpr StringLiteral kIfTarget = "prim.If";
static constexpr StringLiteral kSetAttrTarget = "prim.SetAttr";
static constexpr StringLiteral kLoopTarget = "prim.Loop";

/// Arguments nest no deeper than this: bounds recursion on untrusted input.
static constexpr unsigned kMaxNesting = 64;

//===----------------------------------------------------------------------===//
// Syntax of arguments
//===----------------------------------------------------------------------===//

using UnresolvedOperands = SmallVectorImpl<OpAsmParser::UnresolvedOperand>;

static ParseResult parseArgument(OpAsmParser &parser, Attribute &argument,
                                 UnresolvedOperands &operands, unsigned depth);

/// Words that begin an argument and are no attribute of MLIR's own.
static bool isArgumentWord(StringRef word) {
  return word == "none" || word == "slice" || word == "dict";
}

/// Parses arguments up to `close`, the opening bracket already read.
static ParseResult
parseArgumentsUntil(OpAsmParser &parser, SmallVectorImpl<Attribute> &elements,
                    UnresolvedOperands &operands, unsigned depth,
                    llvm::function_ref<ParseResult()> parseOptionalClose,
                    llvm::function_ref<ParseResult()> parseClose) {
  if (succeeded(parseOptionalClose()))
    return success();
  do {
    Attribute element;
    if (parseArgument(parser, element, operands, depth + 1))
      return failure();
    elements.push_back(element);
  } while (succeeded(parser.parseOptionalComma()));
  return parseClose();
}

static ParseResult parseParenthesized(OpAsmParser &parser,
                                      SmallVectorImpl<Attribute> &elements,
                                      UnresolvedOperands &operands,
                                      unsigned depth) {
  return parseArgumentsUntil(
      parser, elements, operands, depth,
      [&] { return parser.parseOptionalRParen(); },
      [&] { return parser.parseRParen(); });
}

/// Parses what follows `none`, `slice` or `dict`.
static ParseResult parseArgumentAfterWord(OpAsmParser &parser, StringRef word,
                                          Attribute &argument,
                                          UnresolvedOperands &operands,
                                          unsigned depth) {
  MLIRContext *context = parser.getContext();
  if (word == "none") {
    argument = NoneAttr::get(context);
    return success();
  }
  SmallVector<Attribute> elements;
  if (word == "slice") {
    SMLoc place = parser.getCurrentLocation();
    if (parser.parseLParen() ||
        parseParenthesized(parser, elements, operands, depth))
      return failure();
    if (elements.size() != 3)
      return parser.emitError(place)
             << "a slice has a start, a stop and a step";
    argument = SliceAttr::get(context, elements[0], elements[1], elements[2]);
    return success();
  }
  SmallVector<Attribute> values;
  if (parser.parseLParen())
    return failure();
  if (failed(parser.parseOptionalRParen())) {
    do {
      Attribute key, value;
      if (parseArgument(parser, key, operands, depth + 1) ||
          parser.parseEqual() ||
          parseArgument(parser, value, operands, depth + 1))
        return failure();
      elements.push_back(key);
      values.push_back(value);
    } while (succeeded(parser.parseOptionalComma()));
    if (parser.parseRParen())
      return failure();
  }
  argument = DictAttr::get(context, ArrayAttr::get(context, elements),
                           ArrayAttr::get(context, values));
  return success();
}

static ParseResult parseArgument(OpAsmParser &parser, Attribute &argument,
                                 UnresolvedOperands &operands, unsigned depth) {
  MLIRContext *context = parser.getContext();
  if (depth > kMaxNesting)
    return parser.emitError(parser.getCurrentLocation())
           << "arguments are nested deeper than " << kMaxNesting;

  OpAsmParser::UnresolvedOperand operand;
  OptionalParseResult parsedOperand = parser.parseOptionalOperand(operand);
  if (parsedOperand.has_value()) {
    if (failed(*parsedOperand))
      return failure();
    operands.push_back(operand);
    argument = ValueAttr::get(context);
    return success();
  }

  SmallVector<Attribute> elements;
  if (succeeded(parser.parseOptionalLSquare())) {
    if (parseArgumentsUntil(
            parser, elements, operands, depth,
            [&] { return parser.parseOptionalRSquare(); },
            [&] { return parser.parseRSquare(); }))
      return failure();
    argument = ArrayAttr::get(context, elements);
    return success();
  }
  if (succeeded(parser.parseOptionalLParen())) {
    if (parseParenthesized(parser, elements, operands, depth))
      return failure();
    argument = TupleAttr::get(context, ArrayAttr::get(context, elements));
    return success();
  }
  StringRef word;
  if (succeeded(parser.parseOptionalKeyword(&word, {"none", "slice", "dict"})))
    return parseArgumentAfterWord(parser, word, argument, operands, depth);
  return parser.parseAttribute(argument);
}

/// Prints `argument`, taking values from `operands` as #fx.value asks for them.
static void printArgument(OpAsmPrinter &printer, Attribute argument,
                          OperandRange operands, unsigned &nextOperand) {
  auto printAll = [&](ArrayRef<Attribute> elements) {
    llvm::interleaveComma(elements, printer, [&](Attribute element) {
      printArgument(printer, element, operands, nextOperand);
    });
  };
  if (isa<ValueAttr>(argument)) {
    // An invalid op is printed too, in the verifier's message.
    if (nextOperand < operands.size())
      printer.printOperand(operands[nextOperand]);
    else
      printer << argument;
    ++nextOperand;
  } else if (auto list = dyn_cast<ArrayAttr>(argument)) {
    printer << "[";
    printAll(list.getValue());
    printer << "]";
  } else if (auto tuple = dyn_cast<TupleAttr>(argument)) {
    printer << "(";
    printAll(tuple.getElements().getValue());
    printer << ")";
  } else if (isa<NoneAttr>(argument)) {
    printer << "none";
  } else if (auto slice = dyn_cast<SliceAttr>(argument)) {
    printer << "slice(";
    printAll({slice.getStart(), slice.getStop(), slice.getStep()});
    printer << ")";
  } else if (auto dict = dyn_cast<DictAttr>(argument)) {
    printer << "dict(";
    llvm::interleaveComma(
        llvm::zip(dict.getKeys(), dict.getValues()), printer, [&](auto entry) {
          printArgument(printer, std::get<0>(entry), operands, nextOperand);
          printer << " = ";
          printArgument(printer, std::get<1>(entry), operands, nextOperand);
        });
    printer << ")";
  } else if (auto integer = dyn_cast<IntegerAttr>(argument);
             integer && integer.getType().isSignlessInteger(64)) {
    printer.printAttributeWithoutType(argument);
  } else if (auto number = dyn_cast<FloatAttr>(argument);
             number && number.getType().isF64() &&
             number.getValue().isFinite()) {
    printer.printAttributeWithoutType(argument);
  } else {
    printer.printAttribute(argument);
  }
}

/// Resolves `operands` against the types in parentheses that follow a colon.
static ParseResult parseOperandTypes(OpAsmParser &parser,
                                     SmallVectorImpl<Type> &types) {
  if (parser.parseLParen())
    return failure();
  if (succeeded(parser.parseOptionalRParen()))
    return success();
  return failure(parser.parseTypeList(types) || parser.parseRParen());
}

static LogicalResult verifyValueCount(Operation *op, ArrayAttr args,
                                      unsigned numOperands) {
  unsigned expected = countValues(args);
  if (expected != numOperands)
    return op->emitOpError()
           << "has " << numOperands << " operands, but its arguments name "
           << expected << " values";
  return success();
}

//===----------------------------------------------------------------------===//
// GraphOp
//===----------------------------------------------------------------------===//

void GraphOp::build(OpBuilder &builder, OperationState &state, StringRef name,
                    FunctionType type, StringRef stage) {
  state.addAttribute(getSymNameAttrName(state.name),
                     builder.getStringAttr(name));
  state.addAttribute(getFunctionTypeAttrName(state.name), TypeAttr::get(type));
  if (!stage.empty())
    state.addAttribute(getStageAttrName(state.name),
                       builder.getStringAttr(stage));
  state.addRegion();
}

/// fx.graph [private] @name [stage "…"] (arguments) -> (results) [attributes
/// {…}] body
ParseResult GraphOp::parse(OpAsmParser &parser, OperationState &state) {
  Builder &builder = parser.getBuilder();
  (void)impl::parseOptionalVisibilityKeyword(parser, state.attributes);
  StringAttr name;
  if (parser.parseSymbolName(name, getSymNameAttrName(state.name),
                             state.attributes))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("stage"))) {
    StringAttr stage;
    if (parser.parseAttribute(stage, getStageAttrName(state.name),
                              state.attributes))
      return failure();
  }
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<Type> resultTypes;
  SmallVector<DictionaryAttr> resultAttrs;
  bool isVariadic = false;
  if (function_interface_impl::parseFunctionSignatureWithArguments(
          parser, /*allowVariadic=*/false, arguments, isVariadic, resultTypes,
          resultAttrs))
    return failure();
  SmallVector<Type> argumentTypes;
  for (const OpAsmParser::Argument &argument : arguments)
    argumentTypes.push_back(argument.type);
  state.addAttribute(
      getFunctionTypeAttrName(state.name),
      TypeAttr::get(builder.getFunctionType(argumentTypes, resultTypes)));
  if (parser.parseOptionalAttrDictWithKeyword(state.attributes))
    return failure();
  call_interface_impl::addArgAndResultAttrs(
      builder, state, arguments, resultAttrs, getArgAttrsAttrName(state.name),
      getResAttrsAttrName(state.name));
  return parser.parseRegion(*state.addRegion(), arguments,
                            /*enableNameShadowing=*/false);
}

void GraphOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  if (auto visibility = getSymVisibility();
      visibility && *visibility != "public")
    printer << *visibility << ' ';
  printer.printSymbolName(getSymName());
  if (getStage()) {
    printer << " stage ";
    printer.printString(*getStage());
    printer << ' ';
  }
  call_interface_impl::printFunctionSignature(
      printer, getArgumentTypes(), getArgAttrsAttr(), /*isVariadic=*/false,
      getResultTypes(), getResAttrsAttr(), &getBody(),
      /*printEmptyResult=*/false);
  function_interface_impl::printFunctionAttributes(
      printer, *this,
      {getSymVisibilityAttrName(), getFunctionTypeAttrName(),
       getStageAttrName(), getArgAttrsAttrName(), getResAttrsAttrName()});
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false,
                      /*printBlockTerminators=*/true);
}

/// Nodes that name graphs are verified as users of symbols, with one table of
/// them: to look each up alone takes time with the square of their number.
static bool namesGraphs(NodeOp node) {
  bool found = false;
  for (Attribute argument : node.getArgs())
    walkLeaves(argument,
               [&](Attribute leaf) { found |= isa<FlatSymbolRefAttr>(leaf); });
  return found;
}

static InFlightDiagnostic emitWritesInFunctional(NodeOp node) {
  return node.emitOpError()
         << "may write a tensor, in a graph that is marked functional";
}

LogicalResult GraphOp::verifyRegions() {
  auto output = dyn_cast<OutputOp>(getBlock().getTerminator());
  if (!output)
    return emitOpError() << "must end in fx.output";
  if (output.getOperandTypes() != TypeRange(getResultTypes()))
    return output.emitOpError()
           << "gives values of other types than the graph's results";
  if (getFunctional())
    for (NodeOp node : getBlock().getOps<NodeOp>())
      if (!namesGraphs(node) && node.mayWrite())
        return emitWritesInFunctional(node);
  return success();
}

OutputOp GraphOp::getOutput() {
  return cast<OutputOp>(getBlock().getTerminator());
}

StringRef GraphOp::getInputName(unsigned index) {
  if (auto name = getArgAttrOfType<StringAttr>(index, FXDialect::kNameAttr))
    return name;
  return getNodeName(getArgument(index).getLoc());
}

StringRef GraphOp::getInputKind(unsigned index) {
  if (auto kind = getArgAttrOfType<StringAttr>(index, FXDialect::kKindAttr))
    return kind;
  return "user_input";
}

StringRef GraphOp::getInputTarget(unsigned index) {
  if (auto target = getArgAttrOfType<StringAttr>(index, FXDialect::kTargetAttr))
    return target;
  return "";
}

void GraphOp::getAsmBlockArgumentNames(Region &region,
                                       OpAsmSetValueNameFn setName) {
  for (BlockArgument argument : region.getArguments()) {
    StringRef name = getInputName(argument.getArgNumber());
    if (!name.empty())
      setName(argument, name);
  }
}

//===----------------------------------------------------------------------===//
// NodeOp
//===----------------------------------------------------------------------===//

void NodeOp::build(OpBuilder &builder, OperationState &state, Type result,
                   StringRef target, ValueRange operands,
                   ArrayRef<Attribute> args, ArrayRef<Attribute> kwargNames) {
  state.addOperands(operands);
  state.addTypes(result);
  Properties &properties = state.getOrAddProperties<Properties>();
  properties.target = builder.getStringAttr(target);
  properties.args = builder.getArrayAttr(args);
  properties.kind =
      NodeKindAttr::get(builder.getContext(), NodeKind::call_function);
  if (!kwargNames.empty())
    properties.kwarg_names = builder.getArrayAttr(kwargNames);
}

/// Parses arguments up to ')', those by keyword last; `names` gets one name for
/// each of the trailing keyword arguments.
static ParseResult parseCallArguments(OpAsmParser &parser,
                                      SmallVectorImpl<Attribute> &args,
                                      SmallVectorImpl<Attribute> &names,
                                      UnresolvedOperands &operands) {
  MLIRContext *context = parser.getContext();
  if (succeeded(parser.parseOptionalRParen()))
    return success();
  do {
    StringRef word;
    SMLoc place = parser.getCurrentLocation();
    Attribute argument;
    if (succeeded(parser.parseOptionalKeyword(&word))) {
      if (succeeded(parser.parseOptionalEqual())) {
        names.push_back(StringAttr::get(context, word));
        if (parseArgument(parser, argument, operands, 0))
          return failure();
        args.push_back(argument);
        continue;
      }
      if (word == "true" || word == "false")
        argument = BoolAttr::get(context, word == "true");
      else if (!isArgumentWord(word))
        return parser.emitError(place)
               << "expected '=' after the keyword '" << word << "'";
      else if (parseArgumentAfterWord(parser, word, argument, operands, 0))
        return failure();
    } else if (parseArgument(parser, argument, operands, 0)) {
      return failure();
    }
    if (!names.empty())
      return parser.emitError(place)
             << "a positional argument follows a keyword argument";
    args.push_back(argument);
  } while (succeeded(parser.parseOptionalComma()));
  return parser.parseRParen();
}

/// Reads a node's blocks: `block (arguments) { … }`, none or several.
static ParseResult parseBlocks(OpAsmParser &parser, OperationState &state) {
  while (succeeded(parser.parseOptionalKeyword("block"))) {
    SmallVector<OpAsmParser::Argument> arguments;
    if (parser.parseArgumentList(arguments, OpAsmParser::Delimiter::Paren,
                                 /*allowType=*/true) ||
        parser.parseRegion(*state.addRegion(), arguments))
      return failure();
  }
  return success();
}

/// fx.node [kind] "target"(arguments) [{attributes}] : (types) -> type [blocks]
ParseResult NodeOp::parse(OpAsmParser &parser, OperationState &state) {
  Builder &builder = parser.getBuilder();
  Properties &properties = state.getOrAddProperties<Properties>();
  StringRef keyword;
  NodeKind kind = NodeKind::call_function;
  SMLoc place = parser.getCurrentLocation();
  if (succeeded(parser.parseOptionalKeyword(&keyword))) {
    std::optional<NodeKind> parsed = symbolizeNodeKind(keyword);
    if (!parsed)
      return parser.emitError(place)
             << "'" << keyword
             << "' is no kind of node: use call_function, call_method, "
                "call_module or get_attr";
    kind = *parsed;
  }
  properties.kind = NodeKindAttr::get(builder.getContext(), kind);

  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  SmallVector<Attribute> args, names;
  SmallVector<Type> operandTypes;
  Type result;
  if (parser.parseAttribute(properties.target) || parser.parseLParen())
    return failure();
  SMLoc operandsPlace = parser.getCurrentLocation();
  if (parseCallArguments(parser, args, names, operands) ||
      parser.parseOptionalAttrDict(state.attributes) || parser.parseColon() ||
      parseOperandTypes(parser, operandTypes) || parser.parseArrow() ||
      parser.parseType(result) ||
      parser.resolveOperands(operands, operandTypes, operandsPlace,
                             state.operands))
    return failure();
  properties.args = builder.getArrayAttr(args);
  if (!names.empty())
    properties.kwarg_names = builder.getArrayAttr(names);
  state.addTypes(result);
  return parseBlocks(parser, state);
}

void NodeOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  if (getKind() != NodeKind::call_function)
    printer << stringifyNodeKind(getKind()) << ' ';
  printer.printAttributeWithoutType(getTargetAttr());
  printer << '(';
  unsigned nextOperand = 0, index = 0, numPositional = getNumPositional();
  llvm::interleaveComma(getArgs(), printer, [&](Attribute argument) {
    if (index >= numPositional)
      printer << cast<StringAttr>((*getKwargNames())[index - numPositional])
                     .getValue()
              << " = ";
    ++index;
    printArgument(printer, argument, getOperands(), nextOperand);
  });
  printer << ')';
  printer.printOptionalAttrDict(
      (*this)->getDiscardableAttrDictionary().getValue());
  printer << " : (";
  llvm::interleaveComma(getOperandTypes(), printer);
  printer << ") -> " << getResult().getType();
  printer.increaseIndent();
  for (Region &block : getBlocks()) {
    printer.printNewline();
    printer << "block (";
    llvm::interleaveComma(
        block.getArguments(), printer,
        [&](BlockArgument argument) { printer.printRegionArgument(argument); });
    printer << ") ";
    printer.printRegion(block, /*printEntryBlockArgs=*/false);
  }
  printer.decreaseIndent();
}

LogicalResult NodeOp::verify() {
  if (getTarget().empty())
    return emitOpError() << "has no target";
  if (ArrayAttr names = getKwargNamesAttr()) {
    if (names.size() > getArgs().size())
      return emitOpError()
             << "names more keyword arguments than it has arguments";
    llvm::SmallDenseSet<StringRef> seen;
    for (Attribute name : names) {
      auto text = dyn_cast<StringAttr>(name);
      if (!text)
        return emitOpError() << "has a keyword that is no string";
      if (!seen.insert(text.getValue()).second)
        return emitOpError() << "gives the keyword argument '"
                             << text.getValue() << "' twice";
    }
  }
  return verifyValueCount(*this, getArgs(), getNumOperands());
}

/// Checks that `arguments`, which are to be values, are what a block takes as
/// `parameters`.
static LogicalResult verifyPassed(NodeOp node, ArrayRef<Attribute> arguments,
                                  OperandRange operands,
                                  ArrayRef<BlockArgument> parameters) {
  if (arguments.size() != parameters.size())
    return node.emitOpError() << "passes " << arguments.size()
                              << " values that its block reads, and the block "
                                 "takes "
                              << parameters.size();
  if (!llvm::all_of(arguments, llvm::IsaPred<ValueAttr>))
    return node.emitOpError() << "passes a constant where its block reads a "
                                 "value";
  for (auto [operand, parameter] : llvm::zip(operands, parameters))
    if (operand.getType() != parameter.getType())
      return node.emitOpError()
             << "passes a value of type " << operand.getType()
             << " where its block takes " << parameter.getType();
  return success();
}

/// Checks that a node gives what `number` values are as a result.
static LogicalResult verifyResult(NodeOp node, unsigned number) {
  Type type = node.getType();
  auto tuple = dyn_cast<TupleType>(type);
  bool fits = number == 0   ? isa<opprof::fx::NoneType>(type)
              : number == 1 ? true
                            : tuple && tuple.size() == number;
  if (fits)
    return success();
  return node.emitOpError() << "has the result type " << type
                            << ", but its blocks give " << number << " values";
}

static LogicalResult verifyIf(NodeOp node) {
  if (node.getBlocks().size() != 2 || node.getArgs().empty() ||
      !isa<ValueAttr>(node.getArgs()[0]))
    return node.emitOpError() << "takes a truth value, and has two blocks";
  unsigned number = 0;
  for (Region &block : node.getBlocks()) {
    if (failed(verifyPassed(node, node.getArgs().getValue().drop_front(),
                            node.getOperands().drop_front(),
                            block.getArguments())))
      return failure();
    unsigned given =
        cast<OutputOp>(block.front().getTerminator()).getArgs().size();
    if (&block != &node.getBlocks().front() && given != number)
      return node.emitOpError() << "has a block that gives " << number
                                << " values, and one that gives " << given;
    number = given;
  }
  return verifyResult(node, number);
}

static LogicalResult verifyLoop(NodeOp node) {
  if (node.getBlocks().size() != 1)
    return node.emitOpError() << "has one block";
  Region &block = node.getBlocks().front();
  ArrayRef<Attribute> args = node.getArgs().getValue();
  unsigned given =
      cast<OutputOp>(block.front().getTerminator()).getArgs().size();
  if (given == 0 || args.size() < given + 1 || block.getNumArguments() < given)
    return node.emitOpError()
           << "takes a number of rounds, a truth value and what is carried, "
              "and "
              "its block takes the round and gives whether there is another";
  // The round stands where the number of rounds and the truth value do.
  unsigned numBefore = 0;
  for (Attribute argument : args.take_front(given + 1))
    numBefore += countValues(argument);
  if (failed(verifyPassed(node, args.drop_front(given + 1),
                          node.getOperands().drop_front(numBefore),
                          block.getArguments().drop_front(given))))
    return failure();
  return verifyResult(node, given - 1);
}

LogicalResult NodeOp::verifyRegions() {
  for (Region &block : getBlocks())
    if (!isa<OutputOp>(block.front().getTerminator()))
      return emitOpError() << "has a block that does not end in fx.output";
  if (getTarget() == kIfTarget || getTarget() == kLoopTarget) {
    if (getKwargNames())
      return emitOpError() << "takes no keyword arguments";
    return getTarget() == kIfTarget ? verifyIf(*this) : verifyLoop(*this);
  }
  if (!getBlocks().empty())
    return emitOpError() << "holds blocks: only " << kIfTarget << " and "
                         << kLoopTarget << " do";
  return success();
}

unsigned NodeOp::getNumCarried() {
  return cast<OutputOp>(getBlocks().front().front().getTerminator())
             .getArgs()
             .size() -
         1;
}

Value NodeOp::getPassedValue(BlockArgument argument) {
  unsigned numOwn = getTarget() == kLoopTarget ? getNumCarried() + 1 : 0;
  unsigned numAfter =
      argument.getOwner()->getNumArguments() - argument.getArgNumber();
  if (argument.getArgNumber() < numOwn || numAfter > getNumOperands())
    return {};
  return getOperand(getNumOperands() - numAfter);
}

/// True where `holds` is true of a node in the blocks of `node`.
static bool anyInBlocks(NodeOp node, llvm::function_ref<bool(NodeOp)> holds) {
  return llvm::any_of(node.getBlocks(), [&](Region &block) {
    return llvm::any_of(block.getOps<NodeOp>(), holds);
  });
}

bool NodeOp::readsAttributes() {
  return getKind() == NodeKind::get_attr ||
         getKind() == NodeKind::call_module ||
         anyInBlocks(*this,
                     [](NodeOp inner) { return inner.readsAttributes(); });
}

StringAttr opprof::fx::getAssignedAttribute(NodeOp node) {
  ArrayRef<Attribute> args = node.getArgs().getValue();
  if (node.getKind() != NodeKind::call_function ||
      node.getTarget() != kSetAttrTarget || args.size() != 2 ||
      node.getKwargNames())
    return {};
  return dyn_cast<StringAttr>(args[0]);
}

static bool mayWriteAnything(NodeOp node, SymbolTableCollection &symbols);

LogicalResult NodeOp::verifySymbolUses(SymbolTableCollection &symbols) {
  for (Attribute argument : getArgs()) {
    LogicalResult result = success();
    walkLeaves(argument, [&](Attribute leaf) {
      auto symbol = dyn_cast<FlatSymbolRefAttr>(leaf);
      if (symbol && failed(result) == false &&
          !symbols.lookupNearestSymbolFrom<GraphOp>(*this, symbol))
        result = emitOpError()
                 << "names the subgraph " << symbol << ", which does not exist";
    });
    if (failed(result))
      return failure();
  }
  auto graph = dyn_cast<GraphOp>((*this)->getParentOp());
  if (graph && graph.getFunctional() && namesGraphs(*this) &&
      mayWriteAnything(*this, symbols))
    return emitWritesInFunctional(*this);
  return success();
}

void NodeOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  StringRef name = getNodeName(*this);
  if (!name.empty())
    setName(getResult(), name);
}

void NodeOp::getAsmBlockArgumentNames(Region &region,
                                      OpAsmSetValueNameFn setName) {
  for (BlockArgument argument : region.getArguments())
    if (StringRef name = getNodeName(argument.getLoc()); !name.empty())
      setName(argument, name);
}

unsigned NodeOp::getNumPositional() {
  return getArgs().size() - (getKwargNames() ? getKwargNames()->size() : 0);
}

/// The index among all arguments of the one that the schema calls `name`, or
/// -1.
static int findArgument(NodeOp node, StringRef name) {
  unsigned numPositional = node.getNumPositional();
  if (node.getKwargNames())
    for (auto [index, keyword] : llvm::enumerate(*node.getKwargNames()))
      if (cast<StringAttr>(keyword).getValue() == name)
        return numPositional + index;
  const OperatorSchema *schema = lookupSchema(node.getTarget());
  if (!schema)
    return -1;
  int index = schema->getArgumentIndex(name);
  return index < static_cast<int>(numPositional) ? index : -1;
}

Attribute NodeOp::getArgument(StringRef name) {
  int index = findArgument(*this, name);
  return index < 0 ? Attribute() : getArgs()[index];
}

OperandRange NodeOp::getArgumentValues(StringRef name) {
  int index = findArgument(*this, name);
  if (index < 0)
    return getOperands().take_front(0);
  unsigned first = 0;
  for (int i = 0; i < index; ++i)
    first += countValues(getArgs()[i]);
  return getOperands().slice(first, countValues(getArgs()[index]));
}

Value NodeOp::getArgumentValue(StringRef name) {
  if (!isa_and_nonnull<ValueAttr>(getArgument(name)))
    return {};
  return getArgumentValues(name).front();
}

//===----------------------------------------------------------------------===//
// Memory effects
//===----------------------------------------------------------------------===//

namespace {
/// The state of PyTorch's random generators.
struct RandomStateResource
    : public SideEffects::Resource::Base<RandomStateResource> {
  StringRef getName() final { return "fx.random_state"; }
};
} // namespace

/// True for functions without a schema that only compute.
static bool isPureFunction(StringRef target) {
  static constexpr StringLiteral kPureModules[] = {
      "operator.", "_operator.", "math.", "torch.sym_",
      "torch.fx.experimental.symbolic_shapes."};
  // Numbers of tensors, and of Python's; TorchScript's graphs hold these.
  static constexpr StringLiteral kPureBuiltins[] = {
      "builtins.bool", "builtins.int", "builtins.float",  "builtins.len",
      "builtins.max",  "builtins.min", "builtins.getattr"};
  if (llvm::is_contained(kPureBuiltins, target))
    return true;
  return llvm::any_of(
             kPureModules,
             [&](StringRef prefix) { return target.starts_with(prefix); }) &&
         !target.starts_with("operator.i") && target != "operator.setitem" &&
         target != "operator.delitem";
}

GraphOp opprof::fx::lookupGraph(Operation *from, StringAttr name) {
  Operation *table = SymbolTable::getNearestSymbolTable(from);
  if (!table)
    return {};
  for (auto graph : table->getRegion(0).getOps<GraphOp>())
    if (graph.getSymNameAttr() == name)
      return graph;
  return {};
}

/// Finds the graph that a node names.
using GraphLookup = llvm::function_ref<GraphOp(NodeOp, FlatSymbolRefAttr)>;

/// True for a higher-order operator that does what its subgraphs do and no
/// more, where all of them only compute.
static bool callsOnlyFunctionalSubgraphs(NodeOp node, GraphLookup lookup) {
  static constexpr StringLiteral kControlFlow[] = {
      "higher_order.cond",
      "higher_order.while_loop",
      "higher_order.scan",
      "higher_order.associative_scan",
      "higher_order.map_impl",
      "higher_order.invoke_subgraph",
      "higher_order.wrap_with_set_grad_enabled",
      "higher_order.wrap_with_autocast"};
  if (!llvm::is_contained(kControlFlow, node.getTarget()))
    return false;
  bool foundAny = false, allFunctional = true;
  for (Attribute argument : node.getArgs())
    walkLeaves(argument, [&](Attribute leaf) {
      auto symbol = dyn_cast<FlatSymbolRefAttr>(leaf);
      if (!symbol)
        return;
      foundAny = true;
      GraphOp subgraph = lookup(node, symbol);
      allFunctional &= subgraph && subgraph.getFunctional();
    });
  return foundAny && allFunctional;
}

/// True where `node` writes `argument` though its schema does not say so: the
/// running statistics of a normalization in training.
static bool writesUndeclared(NodeOp node, const SchemaArgument &argument) {
  if ((argument.name != "running_mean" && argument.name != "running_var") ||
      !renewsRunningStatistics(node.getTarget()))
    return false;
  return llvm::none_of(
      ArrayRef<StringRef>{"training", "use_input_stats"}, [&](StringRef name) {
        auto flag = dyn_cast_or_null<BoolAttr>(node.getArgument(name));
        return flag && !flag.getValue();
      });
}

/// Calls `visit(operand, mayWrite, isAliasOfResult)` for each operand.
static void
visitSchemaRoles(NodeOp node, const OperatorSchema &schema,
                 llvm::function_ref<void(OpOperand &, bool, bool)> visit) {
  unsigned operand = 0, numPositional = node.getNumPositional();
  bool returnsAlias = schema.isView();
  // Of one tensor einsum may give a view; what it combines is a new one.
  bool isCombined =
      node.getTarget() == "aten.einsum.default" && node->getNumOperands() > 1;
  bool returnsUndeclared =
      !isCombined && returnsUndeclaredAlias(node.getTarget());
  for (auto [index, argument] : llvm::enumerate(node.getArgs())) {
    int position = index;
    if (index >= numPositional)
      position = schema.getArgumentIndex(
          cast<StringAttr>((*node.getKwargNames())[index - numPositional])
              .getValue());
    bool written = false, aliased = returnsUndeclared;
    if (position >= 0 && position < static_cast<int>(schema.arguments.size())) {
      const SchemaArgument &described = schema.arguments[position];
      written = described.isWritten || writesUndeclared(node, described);
      aliased |= returnsAlias && described.aliasSet != 0;
    }
    for (unsigned i = 0, count = countValues(argument); i < count;
         ++i, ++operand)
      visit(node->getOpOperand(operand), written, aliased);
  }
}

void NodeOp::visitOperandRoles(
    llvm::function_ref<void(OpOperand &, bool, bool)> visit) {
  bool isCall = getKind() == NodeKind::call_function;
  if (const OperatorSchema *schema =
          isCall ? lookupSchema(getTarget()) : nullptr)
    return visitSchemaRoles(*this, *schema, visit);
  bool writes = mayWrite();
  bool aliases = !isCall || !isPureFunction(getTarget()) ||
                 getTarget() == "operator.getitem";
  for (OpOperand &operand : getOperation()->getOpOperands())
    visit(operand, writes, aliases);
}

/// True where something in the graph may write the storage of `value` or of a
/// view of it. Looks at no more than a bounded number of uses, and answers true
/// past that.
static bool mayBeWritten(Value value) {
  Operation *parent = value.getParentRegion()->getParentOp();
  // What a block takes may be one value under two names, too.
  if (isa<NodeOp>(parent)) {
    auto around = parent->getParentOfType<GraphOp>();
    return !around || !around.getFunctional();
  }
  auto graph = dyn_cast<GraphOp>(parent);
  if (graph && graph.getFunctional())
    return false;
  // What a subgraph takes may be one value under two names, and what it gives
  // may be written by its caller.
  if (graph && graph.isPrivate())
    return true;
  constexpr unsigned kMaxUses = 4096;
  unsigned numUses = 0;
  SmallVector<Value> worklist{value};
  llvm::SmallDenseSet<Value> seen{value};
  auto push = [&](Value next) {
    if (seen.insert(next).second)
      worklist.push_back(next);
  };
  while (!worklist.empty()) {
    Value current = worklist.pop_back_val();
    // What a call gives may share storage with what it takes.
    if (auto call = current.getDefiningOp<CallOp>())
      for (Value operand : call.getOperands())
        push(operand);
    // A view shares its storage with what it is a view of.
    if (auto node = current.getDefiningOp<NodeOp>()) {
      if (node.getTarget() == "operator.getitem")
        push(node.getOperand(0));
      else if (const OperatorSchema *schema = lookupSchema(node.getTarget()))
        visitSchemaRoles(node, *schema,
                         [&](OpOperand &operand, bool, bool aliased) {
                           if (aliased)
                             push(operand.get());
                         });
    }
    for (OpOperand &use : current.getUses()) {
      if (++numUses > kMaxUses)
        return true;
      if (auto call = dyn_cast<CallOp>(use.getOwner())) {
        auto callee = lookupGraph(call, call.getCalleeAttr());
        if (!callee || !callee.getFunctional())
          return true;
        for (Value result : call.getResults())
          push(result);
        continue;
      }
      auto node = dyn_cast<NodeOp>(use.getOwner());
      if (!node)
        continue;
      const OperatorSchema *schema = lookupSchema(node.getTarget());
      if (!schema) {
        if (!isPureFunction(node.getTarget()))
          return true;
        if (node.getTarget() == "operator.getitem")
          push(node.getResult());
        continue;
      }
      bool written = false;
      visitSchemaRoles(node, *schema,
                       [&](OpOperand &operand, bool writes, bool aliased) {
                         if (&operand != &use)
                           return;
                         written |= writes;
                         if (aliased)
                           push(node.getResult());
                       });
      if (written)
        return true;
    }
  }
  return false;
}

/// True where a node of `graph` may assign the model's attribute `name`. Looks
/// at no more than a bounded number of nodes, and answers true past that.
static bool mayAssign(GraphOp graph, StringAttr name) {
  if (graph.getFunctional())
    return false;
  auto target = StringAttr::get(name.getContext(), kSetAttrTarget);
  constexpr unsigned kMaxNodes = 16384;
  unsigned numNodes = 0;
  WalkResult found = graph.walk([&](NodeOp node) {
    if (++numNodes > kMaxNodes)
      return WalkResult::interrupt();
    if (node.getTargetAttr() != target)
      return WalkResult::advance();
    // One that names no attribute of the model assigns that of an object, which
    // may be any.
    StringAttr assigned = getAssignedAttribute(node);
    return !assigned || assigned == name ? WalkResult::interrupt()
                                         : WalkResult::advance();
  });
  return found.wasInterrupted();
}

/// True where the node, or one in its blocks, reads an attribute that `graph`
/// may assign.
static bool readsAssigned(NodeOp node, GraphOp graph) {
  if (node.getKind() == NodeKind::get_attr)
    return mayAssign(graph, node.getTargetAttr());
  return anyInBlocks(node,
                     [&](NodeOp inner) { return readsAssigned(inner, graph); });
}

/// True where the node, or one in its blocks, reads an attribute that the
/// program may assign.
static bool readsAssigned(NodeOp node) {
  if (!node.readsAttributes())
    return false;
  auto graph = node->getParentOfType<GraphOp>();
  // The caller of a subgraph may assign what that reads.
  return !graph || (graph.isPrivate() && !graph.getFunctional()) ||
         readsAssigned(node, graph);
}

/// True for an operator whose only random part is dropout, which its arguments
/// turn off: attention without dropout, dropout and recurrent layers in eval
/// mode.
static bool isDropoutOff(NodeOp node) {
  auto isFalse = [](Attribute argument) {
    auto flag = dyn_cast_or_null<BoolAttr>(argument);
    return flag && !flag.getValue();
  };
  if (isFalse(node.getArgument("train")) ||
      isFalse(node.getArgument("training")))
    return true;
  const OperatorSchema *schema = lookupSchema(node.getTarget());
  if (schema->getArgumentIndex("dropout_p") < 0)
    return false;
  Attribute rate = node.getArgument("dropout_p");
  auto number = dyn_cast_or_null<FloatAttr>(rate);
  return !rate || (number && number.getValue().isZero());
}

/// True where the node, or a node of a subgraph that it runs, draws from a
/// random generator. Subgraphs nested deeper than any PyTorch makes count as
/// drawing, which also ends circles.
static bool drawsRandom(NodeOp node, unsigned depth) {
  if (const OperatorSchema *schema = lookupSchema(node.getTarget()))
    return schema->isRandom && !isDropoutOff(node);
  if (anyInBlocks(node, [&](NodeOp inner) {
        return inner.getKind() == NodeKind::call_function &&
               drawsRandom(inner, depth);
      }))
    return true;
  bool draws = false;
  for (Attribute argument : node.getArgs())
    walkLeaves(argument, [&](Attribute leaf) {
      auto symbol = dyn_cast<FlatSymbolRefAttr>(leaf);
      if (!symbol || draws)
        return;
      auto subgraph = lookupGraph(node, symbol);
      draws =
          !subgraph || depth > 8 ||
          llvm::any_of(subgraph.getBlock().getOps<NodeOp>(), [&](NodeOp inner) {
            return drawsRandom(inner, depth + 1);
          });
    });
  return draws;
}

bool NodeOp::drawsRandomNumbers() {
  return getKind() == NodeKind::call_function && drawsRandom(*this, 0);
}

static bool mayWriteAnything(NodeOp node, GraphLookup lookup) {
  if (node.getKind() == NodeKind::get_attr)
    return false;
  if (node.getKind() != NodeKind::call_function)
    return true;
  if (const OperatorSchema *schema = lookupSchema(node.getTarget())) {
    if (schema->isMutating())
      return true;
    bool writes = false;
    if (renewsRunningStatistics(node.getTarget()))
      visitSchemaRoles(node, *schema, [&](OpOperand &, bool written, bool) {
        writes |= written;
      });
    return writes;
  }
  if (!node.getBlocks().empty())
    return anyInBlocks(
        node, [&](NodeOp inner) { return mayWriteAnything(inner, lookup); });
  return !isPureFunction(node.getTarget()) &&
         !callsOnlyFunctionalSubgraphs(node, lookup);
}

bool NodeOp::mayWrite() {
  return mayWriteAnything(*this, [](NodeOp node, FlatSymbolRefAttr name) {
    return lookupGraph(node, name);
  });
}

static bool mayWriteAnything(NodeOp node, SymbolTableCollection &symbols) {
  return mayWriteAnything(node, [&](NodeOp user, FlatSymbolRefAttr name) {
    return symbols.lookupNearestSymbolFrom<GraphOp>(user, name);
  });
}

bool GraphOp::isFunctional(SymbolTableCollection &symbols) {
  return llvm::none_of(getBlock(), [&](Operation &op) {
    if (auto node = dyn_cast<NodeOp>(op))
      return mayWriteAnything(node, symbols);
    if (auto call = dyn_cast<CallOp>(op)) {
      auto callee =
          symbols.lookupNearestSymbolFrom<GraphOp>(call, call.getCalleeAttr());
      // A callee answers by its own mark: following calls could go in circles.
      return !callee || !callee.getFunctional();
    }
    return false;
  });
}

bool NodeOp::hasSideEffects() { return mayWrite() || drawsRandomNumbers(); }

void NodeOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  auto *memory = SideEffects::DefaultResource::get();
  const OperatorSchema *schema = nullptr;
  if (getKind() == NodeKind::call_function) {
    schema = lookupSchema(getTarget());
    if (!schema && !mayWrite()) {
      if (drawsRandomNumbers()) {
        effects.emplace_back(MemoryEffects::Read::get(),
                             RandomStateResource::get());
        effects.emplace_back(MemoryEffects::Write::get(),
                             RandomStateResource::get());
      }
      // What a block gives may be what it takes, and builtins.bool reads the
      // tensor that it is given.
      bool seesTensors =
          !getBlocks().empty() || getTarget().starts_with("builtins.");
      if (seesTensors && llvm::any_of((*this)->getOperands(), mayBeWritten)) {
        effects.emplace_back(MemoryEffects::Read::get(), memory);
        if (!getBlocks().empty())
          effects.emplace_back(MemoryEffects::Write::get(), memory);
      } else if (readsAssigned(*this)) {
        effects.emplace_back(MemoryEffects::Read::get(), memory);
      }
      return;
    }
  }
  if (!schema && getKind() != NodeKind::get_attr) {
    effects.emplace_back(MemoryEffects::Read::get(), memory);
    effects.emplace_back(MemoryEffects::Write::get(), memory);
    return;
  }
  if (schema && drawsRandomNumbers()) {
    effects.emplace_back(MemoryEffects::Read::get(),
                         RandomStateResource::get());
    effects.emplace_back(MemoryEffects::Write::get(),
                         RandomStateResource::get());
  }
  bool reads = getKind() == NodeKind::get_attr &&
               (mayBeWritten(getResult()) || readsAssigned(*this));
  if (schema)
    visitSchemaRoles(
        *this, *schema, [&](OpOperand &operand, bool writes, bool aliased) {
          if (writes)
            effects.emplace_back(MemoryEffects::Write::get(), &operand, memory);
          if (!isa<RankedTensorType, UnrankedTensorType>(
                  operand.get().getType()))
            return;
          // A view reads nothing itself, but what it shows may change.
          reads |= writes || mayBeWritten(operand.get());
        });
  if (reads)
    effects.emplace_back(MemoryEffects::Read::get(), memory);
  // Two fresh tensors of equal value are not the same once one is written.
  if (schema && !mayWrite() && mayBeWritten(getResult()))
    effects.emplace_back(MemoryEffects::Allocate::get(),
                         cast<OpResult>(getResult()), memory);
}

//===----------------------------------------------------------------------===//
// OutputOp
//===----------------------------------------------------------------------===//

void OutputOp::build(OpBuilder &builder, OperationState &state,
                     ValueRange operands) {
  state.addOperands(operands);
  SmallVector<Attribute> args(operands.size(),
                              ValueAttr::get(builder.getContext()));
  state.getOrAddProperties<Properties>().args = builder.getArrayAttr(args);
}

/// fx.output(arguments) [signature [...]] [{attributes}] : (types)
ParseResult OutputOp::parse(OpAsmParser &parser, OperationState &state) {
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  SmallVector<Attribute> args;
  SmallVector<Type> types;
  Properties &properties = state.getOrAddProperties<Properties>();
  if (parser.parseLParen())
    return failure();
  SMLoc place = parser.getCurrentLocation();
  if (parseParenthesized(parser, args, operands, 0))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("signature")) &&
      parser.parseAttribute(properties.signature))
    return failure();
  if (parser.parseOptionalAttrDict(state.attributes) || parser.parseColon() ||
      parseOperandTypes(parser, types) ||
      parser.resolveOperands(operands, types, place, state.operands))
    return failure();
  properties.args = parser.getBuilder().getArrayAttr(args);
  return success();
}

void OutputOp::print(OpAsmPrinter &printer) {
  printer << '(';
  unsigned nextOperand = 0;
  llvm::interleaveComma(getArgs(), printer, [&](Attribute argument) {
    printArgument(printer, argument, getOperands(), nextOperand);
  });
  printer << ')';
  if (getSignature())
    printer << " signature " << *getSignature();
  printer.printOptionalAttrDict(
      (*this)->getDiscardableAttrDictionary().getValue());
  printer << " : (";
  llvm::interleaveComma(getOperandTypes(), printer);
  printer << ")";
}

LogicalResult OutputOp::verify() {
  if (getSignature() && getSignature()->size() != getArgs().size())
    return emitOpError() << "has a signature of " << getSignature()->size()
                         << " outputs for " << getArgs().size();
  return verifyValueCount(*this, getArgs(), getNumOperands());
}

//===----------------------------------------------------------------------===//
// CallOp
//===----------------------------------------------------------------------===//

LogicalResult CallOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto callee =
      symbols.lookupNearestSymbolFrom<GraphOp>(*this, getCalleeAttr());
  if (!callee)
    return emitOpError() << "calls " << getCalleeAttr()
                         << ", which is no graph of this module";
  // A callee may be shared by places whose sizes have other names, and whose
  // tensors begin at other places of their storage.
  SymbolMap renamed = getRenamedSymbols(*this);
  auto agree = [&](TypeRange types, TypeRange here) {
    return llvm::equal(types, here, [&](Type type, Type other) {
      Type expected = renameSymbols(type, renamed);
      return expected == other ||
             dropStorageOffsets(expected) == dropStorageOffsets(other);
    });
  };
  if (!agree(callee.getArgumentTypes(), getOperandTypes()))
    return emitOpError() << "passes operands of other types than "
                         << getCalleeAttr() << " takes";
  if (!agree(callee.getResultTypes(), getResultTypes()))
    return emitOpError() << "has results of other types than "
                         << getCalleeAttr() << " gives";
  return success();
}

void CallOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  // What the callee's nodes do to the callee's arguments is not visible as
  // effects on values here, so any effect inside stands for every effect.
  auto callee = lookupGraph(*this, getCalleeAttr());
  bool isPure = callee && llvm::all_of(callee.getBlock().without_terminator(),
                                       [](Operation &op) {
                                         return isMemoryEffectFree(&op);
                                       });
  auto caller = (*this)->getParentOfType<GraphOp>();
  isPure = isPure &&
           !(caller &&
             llvm::any_of(callee.getBlock().getOps<NodeOp>(), [&](NodeOp node) {
               return readsAssigned(node, caller);
             }));
  if (isPure && llvm::none_of(getOperands(), mayBeWritten) &&
      llvm::none_of(getResults(), mayBeWritten))
    return;
  effects.emplace_back(MemoryEffects::Read::get(),
                       SideEffects::DefaultResource::get());
  effects.emplace_back(MemoryEffects::Write::get(),
                       SideEffects::DefaultResource::get());
}
