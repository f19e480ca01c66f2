// One fx graph as one Python function.

#include "Calls.h"
#include "SymbolicExpression.h"

#include "opprof/Dialect/FX/IR/Arguments.h"
#include "opprof/Dialect/FX/IR/FX.h"
#include "opprof/Dialect/FX/IR/GraphAttributes.h"
#include "opprof/Dialect/FX/IR/Names.h"
#include "opprof/Dialect/FX/IR/Provenance.h"
#include "opprof/Dialect/FX/IR/Schema.h"
#include "opprof/Dialect/Prof/IR/Prof.h"
#include "opprof/Target/Python/PythonEmitter.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/FormatVariadic.h"

#include <charconv>

using namespace mlir;
using namespace opprof::fx;

//===----------------------------------------------------------------------===//
// Words and strings
//===----------------------------------------------------------------------===//

/// The next code point of `text`, or -1 for a byte that is no valid UTF-8.
static int32_t takeCodePoint(StringRef &text) {
  const auto *begin = reinterpret_cast<const llvm::UTF8 *>(text.begin());
  const auto *end = reinterpret_cast<const llvm::UTF8 *>(text.end());
  const llvm::UTF8 *next = begin;
  llvm::UTF32 codePoint = 0;
  if (llvm::convertUTF8Sequence(&next, end, &codePoint,
                                llvm::strictConversion) != llvm::conversionOK) {
    text = text.drop_front();
    return -1;
  }
  text = text.drop_front(next - begin);
  return static_cast<int32_t>(codePoint);
}

std::string opprof::fx::getPythonString(StringRef text) {
  std::string result = "\"";
  llvm::raw_string_ostream os(result);
  while (!text.empty()) {
    uint8_t first = text.front();
    int32_t codePoint = takeCodePoint(text);
    if (codePoint == '"' || codePoint == '\\')
      os << '\\' << static_cast<char>(codePoint);
    else if (codePoint == '\n')
      os << "\\n";
    else if (codePoint == '\t')
      os << "\\t";
    else if (codePoint >= 0x20 && codePoint < 0x7F)
      os << static_cast<char>(codePoint);
    else if (codePoint < 0)
      // Python's own way to keep a byte that is no text (surrogateescape).
      os << llvm::formatv("\\udc{0:x-2}", first);
    else if (codePoint < 0x10000)
      os << llvm::formatv("\\u{0:x-4}", codePoint);
    else
      os << llvm::formatv("\\U{0:x-8}", codePoint);
  }
  return result + "\"";
}

std::string opprof::fx::getPythonComment(StringRef text) {
  std::string result;
  while (!text.empty()) {
    StringRef before = text;
    int32_t codePoint = takeCodePoint(text);
    bool isHarmful =
        codePoint < 0x20 || (codePoint >= 0x7F && codePoint < 0xA0) ||
        (codePoint >= 0x200B && codePoint <= 0x200F) ||
        (codePoint >= 0x2028 && codePoint <= 0x202E) ||
        (codePoint >= 0x2066 && codePoint <= 0x2069) || codePoint == 0xFEFF;
    if (codePoint == '\t')
      result += ' ';
    else if (isHarmful)
      result += '?';
    else
      result += before.drop_back(text.size());
  }
  return result;
}

std::string opprof::fx::getPythonIdentifier(StringRef text) {
  std::string result;
  if (text.empty() || llvm::isDigit(text.front()))
    result += '_';
  for (char c : text)
    result += llvm::isAlnum(c) ? c : '_';
  if (isPythonKeyword(result))
    result += "_";
  return result;
}

std::string opprof::fx::getPythonFloat(double value) {
  if (std::isnan(value))
    return "float(\"nan\")";
  if (std::isinf(value))
    return value > 0 ? "float(\"inf\")" : "float(\"-inf\")";
  char buffer[64];
  auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
  std::string digits(buffer, result.ptr);
  if (digits.find_first_of(".e") == std::string::npos)
    digits += ".0";
  return digits;
}

//===----------------------------------------------------------------------===//
// Targets
//===----------------------------------------------------------------------===//

/// Python's binary operator for a function of the module `operator`, or empty.
static StringRef getInfix(StringRef target) {
  if (!target.consume_front("operator.") && !target.consume_front("_operator."))
    return "";
  return llvm::StringSwitch<StringRef>(target)
      .Case("add", "+")
      .Case("sub", "-")
      .Case("mul", "*")
      .Case("truediv", "/")
      .Case("floordiv", "//")
      .Case("mod", "%")
      .Case("matmul", "@")
      .Case("eq", "==")
      .Case("ne", "!=")
      .Case("lt", "<")
      .Case("le", "<=")
      .Case("gt", ">")
      .Case("ge", ">=")
      .Default("");
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

/// "f32[4, s0]", as PyTorch prints types of nodes; empty for other types.
static std::string getTypeText(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return "";
  StringRef dtype = getDTypeName(tensor.getElementType());
  StringRef shortName = llvm::StringSwitch<StringRef>(dtype)
                            .Case("float32", "f32")
                            .Case("float64", "f64")
                            .Case("float16", "f16")
                            .Case("bfloat16", "bf16")
                            .Case("int64", "i64")
                            .Case("int32", "i32")
                            .Case("int16", "i16")
                            .Case("int8", "i8")
                            .Case("uint8", "u8")
                            .Case("bool", "b8")
                            .Case("complex64", "c64")
                            .Case("complex128", "c128")
                            .Default(dtype);
  std::string result;
  llvm::raw_string_ostream os(result);
  os << shortName << '[';
  auto info = dyn_cast_or_null<TensorInfoAttr>(tensor.getEncoding());
  llvm::interleaveComma(llvm::enumerate(tensor.getShape()), os, [&](auto size) {
    if (!ShapedType::isDynamic(size.value()))
      os << size.value();
    else if (auto symbol = dyn_cast_or_null<SymAttr>(
                 info && info.getDims() ? info.getDims()[size.index()]
                                        : Attribute()))
      os << symbol.getValue();
    else
      os << '?';
  });
  os << ']';
  return result;
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

static bool isName(StringRef text) {
  return !text.empty() && !llvm::isDigit(text.front()) &&
         llvm::all_of(text,
                      [](char c) { return llvm::isAlnum(c) || c == '_'; });
}

namespace {
class FunctionPrinter {
public:
  FunctionPrinter(GraphOp graph, raw_ostream &os,
                  const PythonFunctionOptions &options)
      : graph(graph), os(os), options(options), indent(options.indent + 4, ' '),
        reserved(collectReserved()),
        names(graph, getPythonIdentifier, &reserved) {}

  LogicalResult print();

private:
  bool isBesideForeign();
  bool holdsTextFor(StringRef target, ArrayRef<Attribute> args);

  llvm::StringSet<> collectReserved();
  std::string getFunctionName(StringRef symbol) const {
    std::string name =
        options.functionName ? options.functionName(symbol).str() : "";
    return name.empty() ? getPythonIdentifier(symbol) : name;
  }
  bool needsAttributes(StringRef symbol) const {
    return options.takesAttributes && options.takesAttributes(symbol);
  }

  InFlightDiagnostic error(Operation *op) {
    // What a block or a graph gives has no line of its own.
    if (isa<OutputOp>(op))
      op = op->getParentOp();
    InFlightDiagnostic diagnostic = op->emitError();
    if (StringRef name = getNodeName(op); !name.empty())
      diagnostic << "node '" << name << "': ";
    return diagnostic;
  }

  void printSignature();
  LogicalResult printSymbols();
  void printPlace(Operation &op);
  LogicalResult printOperation(Operation &op);
  LogicalResult printNode(NodeOp node);
  LogicalResult printBlock(Block &block);
  LogicalResult printIf(NodeOp node);
  LogicalResult printLoop(NodeOp node);
  FailureOr<std::string> getYielded(Block &block, unsigned first);
  LogicalResult printCall(CallOp call);
  LogicalResult printMarker(Operation &op);
  LogicalResult printOutput(OutputOp output);
  void printDeletions(Operation &op);
  void findLastUses(Block &block);
  /// The variable that holds the value. What a block takes from outside is what
  /// it is there.
  StringRef getVariable(Value value) const {
    while (auto argument = dyn_cast<BlockArgument>(value)) {
      auto node = dyn_cast<NodeOp>(argument.getOwner()->getParentOp());
      Value passed = node ? node.getPassedValue(argument) : Value();
      if (!passed)
        break;
      value = passed;
    }
    return names.lookup(value);
  }

  /// The expression of an argument; values come from `operands` in turn.
  FailureOr<std::string> getArgument(Operation *op, Attribute argument,
                                     unsigned &nextOperand);
  FailureOr<std::string> getArguments(Operation *op, ArrayRef<Attribute> list,
                                      unsigned &nextOperand);
  FailureOr<std::string> getIndex(Operation *op, Attribute index,
                                  unsigned &nextOperand);
  FailureOr<std::string> getExpression(NodeOp node);
  FailureOr<std::string> getSymbolic(Operation *op, StringRef expression);

  GraphOp graph;
  raw_ostream &os;
  const PythonFunctionOptions &options;
  std::optional<bool> besideForeign;
  std::string indent;
  /// Symbols that arguments hold, by their expression's name in Python.
  llvm::MapVector<StringRef, std::string> symbols;
  llvm::StringSet<> reserved;
  GraphNames names;
  llvm::DenseMap<Operation *, SmallVector<Value, 2>> lastUses;
  std::string shownPlace;
};
} // namespace

/// Names that no value of the graph may take.
llvm::StringSet<> FunctionPrinter::collectReserved() {
  llvm::StringSet<> result = {
      "torch",      "operator", "math",  "attributes", "functools",
      "float",      "complex",  "slice", "getattr",    "abs",
      "bool",       "divmod",   "int",   "len",        "max",
      "min",        "pow",      "round", "sum",        "_range_push",
      "_range_pop", "dict",     "list",  "range",      "sorted",
      "str",        "tuple"};
  result.insert(options.name.empty() ? getPythonIdentifier(graph.getSymName())
                                     : options.name);
  auto visit = [&](Attribute leaf) {
    if (auto symbol = dyn_cast<FlatSymbolRefAttr>(leaf)) {
      result.insert(getFunctionName(symbol.getValue()));
    } else if (auto symbol = dyn_cast<SymAttr>(leaf);
               symbol && !options.isOfRewrite) {
      (void)getPythonExpression(symbol.getValue(), [&](StringRef name) {
        std::string python = getPythonIdentifier(name);
        symbols[name] = python;
        result.insert(python);
        return python;
      });
    }
  };
  graph.walk([&](Operation *op) {
    if (auto call = dyn_cast<CallOp>(op))
      result.insert(getFunctionName(call.getCallee()));
    else if (auto node = dyn_cast<NodeOp>(op))
      walkLeaves(node.getArgs(), visit);
    else if (auto output = dyn_cast<OutputOp>(op))
      walkLeaves(output.getArgs(), visit);
  });
  return result;
}

void FunctionPrinter::findLastUses(Block &block) {
  llvm::DenseSet<Value> seen;
  for (Operation &op : llvm::reverse(block)) {
    for (Value operand : op.getOperands()) {
      // The caller holds its arguments anyway.
      if (seen.insert(operand).second && operand.getDefiningOp() &&
          !isa<OutputOp>(op))
        lastUses[&op].push_back(operand);
    }
    for (Region &inner : op.getRegions())
      findLastUses(inner.front());
  }
}

void FunctionPrinter::printSignature() {
  std::string outer(options.indent, ' ');
  for (StringRef decorator : options.decorators)
    os << outer << '@' << decorator << '\n';
  os << outer << "def "
     << (options.name.empty() ? getPythonIdentifier(graph.getSymName())
                              : options.name.str())
     << '(';
  bool takesAttributes = needsAttributes(graph.getSymName());
  Block &block = graph.getBlock();
  if (!options.withComments) {
    if (takesAttributes)
      os << "attributes" << (block.getNumArguments() ? ", " : "");
    llvm::interleaveComma(block.getArguments(), os,
                          [&](Value input) { os << names.lookup(input); });
    os << "):\n";
    return;
  }
  // One line an input, with what is known of it.
  if (takesAttributes || block.getNumArguments())
    os << '\n';
  if (takesAttributes)
    os << indent << "attributes,\n";
  for (BlockArgument input : block.getArguments()) {
    unsigned index = input.getArgNumber();
    os << indent << names.lookup(input) << ',';
    std::string about = getTypeText(input.getType());
    if (StringRef target = graph.getInputTarget(index); !target.empty())
      about += (" " + graph.getInputKind(index) + " " + target).str();
    if (StringRef(about).trim().size())
      os << "  # " << getPythonComment(StringRef(about).trim());
    os << '\n';
  }
  os << outer << "):\n";
}

/// Gives each symbol that an argument holds its value, from the inputs.
LogicalResult FunctionPrinter::printSymbols() {
  for (auto &[symbol, python] : symbols) {
    std::string value;
    for (BlockArgument input : graph.getBlock().getArguments()) {
      if (auto number = dyn_cast<SymIntType>(input.getType());
          number && number.getExpression() == symbol)
        value = names.lookup(input);
      auto tensor = dyn_cast<RankedTensorType>(input.getType());
      auto info = tensor
                      ? dyn_cast_or_null<TensorInfoAttr>(tensor.getEncoding())
                      : TensorInfoAttr();
      if (!value.empty() || !info || !info.getDims())
        continue;
      for (auto [index, size] : llvm::enumerate(info.getDims()))
        if (auto dim = dyn_cast<SymAttr>(size);
            dim && dim.getValue() == symbol && value.empty())
          value =
              (names.lookup(input) + ".size(" + llvm::Twine(index) + ")").str();
    }
    if (value.empty())
      return graph.emitError()
             << "graph '" << graph.getSymName() << "' uses the symbol '"
             << symbol
             << "', but none of its inputs is, or has a dimension of, just "
                "that size";
    os << indent << python << " = " << value << '\n';
  }
  return success();
}

/// A comment with the module and the source line, where they change.
void FunctionPrinter::printPlace(Operation &op) {
  if (!options.withComments)
    return;
  std::string place = getModulePath(op.getLoc()).str();
  if (auto partition = op.getAttrOfType<opprof::prof::PartitionAttr>(
          opprof::prof::ProfDialect::kPartitionAttr))
    place = (partition.getLabel() + " (" +
             opprof::prof::stringifyRole(partition.getRole()) + ")")
                .str();
  DictionaryAttr metadata = getMetadata(op.getLoc());
  // A location without records of PyTorch's is a place in an MLIR file.
  if (metadata || getInstance(op.getLoc()))
    if (std::string source = getSourceText(op.getLoc()); !source.empty())
      place += (place.empty() ? "" : "  ") + source;
  if (auto code = metadata ? metadata.getAs<StringAttr>(kCodeKey) : nullptr)
    place += (": " + code.getValue()).str();
  if (place.empty() || place == shownPlace)
    return;
  shownPlace = place;
  os << indent << "# " << getPythonComment(place) << '\n';
}

FailureOr<std::string> FunctionPrinter::getSymbolic(Operation *op,
                                                    StringRef expression) {
  std::optional<std::string> python =
      getPythonExpression(expression, [&](StringRef symbol) {
        auto *found = symbols.find(symbol);
        return found == symbols.end() ? std::string() : found->second;
      });
  if (!python)
    return error(op) << "the symbolic expression \"" << expression
                     << "\" has no form in Python";
  return *python;
}

FailureOr<std::string> FunctionPrinter::getArguments(Operation *op,
                                                     ArrayRef<Attribute> list,
                                                     unsigned &nextOperand) {
  std::string result;
  for (Attribute element : list) {
    FailureOr<std::string> text = getArgument(op, element, nextOperand);
    if (failed(text))
      return failure();
    if (!result.empty())
      result += ", ";
    result += *text;
  }
  return result;
}

FailureOr<std::string> FunctionPrinter::getArgument(Operation *op,
                                                    Attribute argument,
                                                    unsigned &nextOperand) {
  auto wrapped = [&](StringRef open, ArrayRef<Attribute> elements,
                     StringRef close) -> FailureOr<std::string> {
    FailureOr<std::string> inner = getArguments(op, elements, nextOperand);
    if (failed(inner))
      return failure();
    return (open + *inner + close).str();
  };
  auto named = [&](StringRef value) -> FailureOr<std::string> {
    if (!isTorchConstant(value))
      return error(op) << "'" << value
                       << "' is no dtype, layout or memory format of torch";
    return ("torch." + value).str();
  };

  if (isa<ValueAttr>(argument))
    return getVariable(op->getOperand(nextOperand++)).str();
  if (isa<opprof::fx::NoneAttr>(argument))
    return std::string("None");
  if (isa<EllipsisAttr>(argument))
    return std::string("...");
  if (auto flag = dyn_cast<BoolAttr>(argument))
    return std::string(flag.getValue() ? "True" : "False");
  if (auto number = dyn_cast<IntegerAttr>(argument))
    return llvm::toString(number.getValue(), 10,
                          !number.getType().isUnsignedInteger());
  if (auto number = dyn_cast<FloatAttr>(argument))
    return getPythonFloat(number.getValueAsDouble());
  if (auto text = dyn_cast<StringAttr>(argument))
    return getPythonString(text);
  if (auto number = dyn_cast<BigIntAttr>(argument))
    return number.getValue().str();
  if (auto number = dyn_cast<opprof::fx::ComplexAttr>(argument))
    return "complex(" + getPythonFloat(number.getReal().getValueAsDouble()) +
           ", " + getPythonFloat(number.getImaginary().getValueAsDouble()) +
           ")";
  if (auto dtype = dyn_cast<DTypeAttr>(argument))
    return named(dtype.getValue());
  if (auto layout = dyn_cast<LayoutAttr>(argument))
    return named(layout.getValue());
  if (auto format = dyn_cast<MemoryFormatAttr>(argument))
    return named(format.getValue());
  if (auto device = dyn_cast<DeviceAttr>(argument))
    return "torch.device(" + getPythonString(device.getValue()) + ")";
  if (auto symbol = dyn_cast<SymAttr>(argument)) {
    if (!options.isOfRewrite)
      return getSymbolic(op, symbol.getValue());
    if (!isName(symbol.getValue()))
      return error(op) << "names the size '" << symbol.getValue()
                       << "', and a rewrite for a backend can name plain sizes "
                          "only";
    return "Size(" + getPythonString(symbol.getValue()) + ")";
  }
  if (auto open = dyn_cast<AnyAttr>(argument); open && options.isOfRewrite)
    return "Open(" + getPythonString(open.getName()) + ")";
  if (auto reference = dyn_cast<OpRefAttr>(argument)) {
    std::string function = getCallableFunction(reference.getValue());
    if (function.empty())
      return error(op) << "'" << reference.getValue()
                       << "' is no operator that a program may call";
    return function;
  }
  if (auto symbol = dyn_cast<FlatSymbolRefAttr>(argument)) {
    std::string function = getFunctionName(symbol.getValue());
    if (needsAttributes(symbol.getValue()))
      return "functools.partial(" + function + ", attributes)";
    return function;
  }
  if (auto list = dyn_cast<ArrayAttr>(argument))
    return wrapped("[", list.getValue(), "]");
  if (auto tuple = dyn_cast<TupleAttr>(argument))
    return wrapped("(", tuple.getElements().getValue(),
                   tuple.getElements().size() == 1 ? ",)" : ")");
  if (auto slice = dyn_cast<SliceAttr>(argument))
    return wrapped("slice(",
                   {slice.getStart(), slice.getStop(), slice.getStep()}, ")");
  if (auto dict = dyn_cast<DictAttr>(argument)) {
    std::string result = "{";
    for (auto [key, value] : llvm::zip(dict.getKeys(), dict.getValues())) {
      FailureOr<std::string> keyText = getArgument(op, key, nextOperand);
      if (failed(keyText))
        return failure();
      FailureOr<std::string> valueText = getArgument(op, value, nextOperand);
      if (failed(valueText))
        return failure();
      result += (result.size() > 1 ? ", " : "") + *keyText + ": " + *valueText;
    }
    return result + "}";
  }
  if (auto object = dyn_cast<ObjectAttr>(argument))
    return error(op) << "takes the " << object.getPythonType() << " "
                     << object.getRepr()
                     << ", which exists only in the process that exported the "
                        "graph; give the model a tensor, number or string "
                        "instead, or keep this part out of the export";
  return error(op) << "the argument " << argument << " has no form in Python";
}

/// What stands between the brackets of an index.
FailureOr<std::string> FunctionPrinter::getIndex(Operation *op, Attribute index,
                                                 unsigned &nextOperand) {
  if (auto tuple = dyn_cast<TupleAttr>(index);
      tuple && !tuple.getElements().empty()) {
    std::string result;
    for (Attribute element : tuple.getElements()) {
      // A tuple inside a tuple is an index of its own, not more of this one.
      FailureOr<std::string> text = isa<SliceAttr>(element)
                                        ? getIndex(op, element, nextOperand)
                                        : getArgument(op, element, nextOperand);
      if (failed(text))
        return failure();
      result += (result.empty() ? "" : ", ") + *text;
    }
    return tuple.getElements().size() == 1 ? result + "," : result;
  }
  auto slice = dyn_cast<SliceAttr>(index);
  if (!slice)
    return getArgument(op, index, nextOperand);
  std::string result;
  Attribute parts[] = {slice.getStart(), slice.getStop(), slice.getStep()};
  for (auto [position, part] : llvm::enumerate(parts)) {
    bool isNone = isa<opprof::fx::NoneAttr>(part);
    if (position == 1 || (position == 2 && !isNone))
      result += ":";
    if (isNone)
      continue;
    FailureOr<std::string> text = getArgument(op, part, nextOperand);
    if (failed(text))
      return failure();
    result += *text;
  }
  return result;
}

/// True for arguments that need no parentheses next to an operator.
static bool isAtom(Attribute argument) {
  if (auto number = dyn_cast<IntegerAttr>(argument))
    return !number.getValue().isNegative();
  return isa<ValueAttr>(argument);
}

/// Whether text may come to an operator that PyTorch did not have. A rewrite
/// may come to stand in a program that calls one.
bool FunctionPrinter::isBesideForeign() {
  if (!besideForeign) {
    Operation *program = graph->getParentOp() ? graph->getParentOp() : graph;
    besideForeign = options.isOfRewrite || callsForeignOperators(program);
  }
  return *besideForeign;
}

/// True where a call would get text that it must not have.
bool FunctionPrinter::holdsTextFor(StringRef target, ArrayRef<Attribute> args) {
  bool holdsText = false, mayTake = mayTakeTextBesideForeign(target);
  for (Attribute argument : args)
    argument.walk([&](Attribute inner) {
      holdsText |= isa<StringAttr>(inner);
      // What the call hands the text on to.
      if (auto reference = dyn_cast<OpRefAttr>(inner))
        mayTake &= mayTakeTextBesideForeign(reference.getValue());
    });
  return ((holdsText && !mayTake) || makesText(target)) && isBesideForeign();
}

/// The right side of the node's statement.
FailureOr<std::string> FunctionPrinter::getExpression(NodeOp node) {
  ArrayRef<Attribute> args = node.getArgs().getValue();
  unsigned nextOperand = 0, numPositional = node.getNumPositional();
  StringRef target = node.getTarget();
  bool isPlain =
      node.getKind() == NodeKind::call_function && numPositional == args.size();

  if (isPlain && args.size() == 2 && isa<ValueAttr>(args[0]) &&
      (target == "operator.getitem" || target == "_operator.getitem")) {
    std::string base = getVariable(node.getOperand(nextOperand++)).str();
    FailureOr<std::string> index = getIndex(node, args[1], nextOperand);
    if (failed(index))
      return failure();
    return base + "[" + *index + "]";
  }
  if (isPlain && args.size() == 2 && isa<ValueAttr>(args[0]) &&
      (target == "getattr" || target == "builtins.getattr")) {
    auto attribute = dyn_cast<StringAttr>(args[1]);
    if (!attribute || !isReadableAttribute(attribute.getValue()))
      return error(node) << "reads the attribute " << args[1]
                         << ", which is none that a program may read";
    return (getVariable(node.getOperand(0)) + "." + attribute.getValue()).str();
  }
  bool isCallable =
      !getCallableFunction(target).empty() || !getInfix(target).empty();
  if (node.getKind() == NodeKind::call_function && isCallable &&
      holdsTextFor(target, args))
    return error(node) << (makesText(target) ? "makes text by '"
                                             : "hands text to '")
                       << target
                       << "', which is no operator of PyTorch that takes any: "
                          "it may be the name of a file";
  if (StringRef infix = getInfix(target); isPlain && !infix.empty() &&
                                          args.size() == 2 && isAtom(args[0]) &&
                                          isAtom(args[1])) {
    FailureOr<std::string> left = getArgument(node, args[0], nextOperand);
    FailureOr<std::string> right = getArgument(node, args[1], nextOperand);
    return (*left + " " + infix + " " + *right).str();
  }

  std::string function;
  switch (node.getKind()) {
  case NodeKind::get_attr:
    return "attributes[" +
           getPythonString((options.attributePrefix + target).str()) + "]";
  case NodeKind::call_module:
    function = "attributes[" +
               getPythonString((options.attributePrefix + target).str()) + "]";
    break;
  case NodeKind::call_method: {
    if (!isCallableMethod(target) || numPositional == 0)
      return error(node) << "'" << target
                         << "' is no method of its first argument that a "
                            "program may call";
    FailureOr<std::string> object = getArgument(node, args[0], nextOperand);
    if (failed(object))
      return failure();
    if (!isa<ValueAttr>(args[0]))
      object = "(" + *object + ")";
    args = args.drop_front();
    --numPositional;
    function = getPythonMember(*object, target);
    break;
  }
  case NodeKind::call_function:
    function = getCallableFunction(target);
    if (target.starts_with("higher_order.triton_kernel_wrapper"))
      return error(node)
             << "runs a Triton kernel of the user's, which the graph names by "
                "its number in the exporting process; the kernel's source is "
                "in no graph, so a program cannot hold it. Export the model "
                "with torch.ops instead (torch.library.triton_op), or without "
                "this kernel";
    if (isOperatorOfAnyType(target))
      return error(node)
             << "calls '" << target
             << "', TorchScript's own operator on values of any type, which "
                "Python cannot call: keep this part out of the method, or run "
                "the archive itself";
    if (function.empty())
      return error(node)
             << "calls '" << target
             << "', which is no operator of PyTorch, and none of the "
                "functions that a program may call";
    break;
  }

  std::string result = function + "(";
  bool isFirst = true;
  auto separate = [&] {
    if (!isFirst)
      result += ", ";
    isFirst = false;
  };
  for (auto [index, argument] : llvm::enumerate(args)) {
    FailureOr<std::string> text = getArgument(node, argument, nextOperand);
    if (failed(text))
      return failure();
    separate();
    if (index >= numPositional) {
      StringRef keyword =
          cast<StringAttr>((*node.getKwargNames())[index - numPositional]);
      if (isPythonIdentifier(keyword) && !isPythonKeyword(keyword))
        result += (keyword + "=").str();
      else
        // Names like `from` and `self` that Python's syntax does not take.
        text = "**{" + getPythonString(keyword) + ": " + *text + "}";
    }
    result += *text;
  }
  return result + ")";
}

//===----------------------------------------------------------------------===//
// Nodes with blocks
//===----------------------------------------------------------------------===//

/// Prints a block's nodes, indented.
LogicalResult FunctionPrinter::printBlock(Block &block) {
  for (Operation &op : block.without_terminator())
    if (failed(printOperation(op)))
      return failure();
  return success();
}

/// What a block gives from its `first` value on, between commas.
FailureOr<std::string> FunctionPrinter::getYielded(Block &block,
                                                   unsigned first) {
  auto output = cast<OutputOp>(block.getTerminator());
  unsigned nextOperand = 0;
  for (Attribute before : output.getArgs().getValue().take_front(first))
    nextOperand += countValues(before);
  return getArguments(output, output.getArgs().getValue().drop_front(first),
                      nextOperand);
}

LogicalResult FunctionPrinter::printIf(NodeOp node) {
  std::string outer = indent;
  StringRef keyword = "if ";
  bool isUsed = !node.getResult().use_empty();
  for (Region &region : node.getBlocks()) {
    Block &block = region.front();
    auto output = cast<OutputOp>(block.getTerminator());
    os << outer << keyword;
    if (&region == &node.getBlocks().front())
      os << getVariable(node.getOperand(0));
    os << ":\n";
    keyword = "else";
    indent = outer + "    ";
    FailureOr<std::string> yielded = getYielded(block, 0);
    if (failed(printBlock(block)) || failed(yielded))
      return failure();
    bool isTuple = output.getArgs().size() > 1;
    if (isUsed && !output.getArgs().empty())
      os << indent << names.lookup(node.getResult()) << " = "
         << (isTuple ? "(" : "") << *yielded << (isTuple ? ")\n" : "\n");
    else if (block.without_terminator().empty())
      os << indent << "pass\n";
    indent = outer;
  }
  return success();
}

/// True for the constant True.
static bool isTrue(Attribute argument) {
  auto flag = dyn_cast<BoolAttr>(argument);
  return flag && flag.getValue();
}

LogicalResult FunctionPrinter::printLoop(NodeOp node) {
  Block &block = node.getBlocks().front().front();
  ArrayRef<Attribute> args = node.getArgs().getValue();
  auto output = cast<OutputOp>(block.getTerminator());
  unsigned numCarried = node.getNumCarried(), nextOperand = 0;
  FailureOr<std::string> count = getArgument(node, args[0], nextOperand);
  FailureOr<std::string> begins = getArgument(node, args[1], nextOperand);
  FailureOr<std::string> initial =
      getArguments(node, args.slice(2, numCarried), nextOperand);
  FailureOr<std::string> next = getYielded(block, 1);
  unsigned conditionOperand = 0;
  FailureOr<std::string> another =
      getArgument(output, output.getArgs()[0], conditionOperand);
  if (failed(count) || failed(begins) || failed(initial) || failed(next) ||
      failed(another))
    return failure();

  std::string carried;
  for (BlockArgument argument :
       block.getArguments().drop_front().take_front(numCarried))
    carried += (carried.empty() ? "" : ", ") + names.lookup(argument).str();
  StringRef round = names.lookup(block.getArgument(0));
  auto most = dyn_cast<IntegerAttr>(args[0]);
  bool isCounted = isTrue(args[1]) && isTrue(output.getArgs()[0]);
  bool isUnbounded =
      most && most.getInt() == INT64_MAX && block.getArgument(0).use_empty();
  std::string condition =
      isCounted ? "" : names.claim("goes_on", &reserved).str();
  if (numCarried)
    os << indent << carried << " = " << *initial << '\n';
  if (!isCounted) {
    os << indent << condition << " = " << *begins << '\n';
    if (!isUnbounded)
      os << indent << round << " = 0\n";
  }
  os << indent;
  if (isCounted)
    os << "for " << round << " in range(" << *count << "):\n";
  else if (isUnbounded)
    os << "while " << condition << ":\n";
  else
    os << "while " << condition << " and " << round << " < " << *count << ":\n";

  std::string outer = std::exchange(indent, indent + "    ");
  if (failed(printBlock(block)))
    return failure();
  if (numCarried)
    os << indent << (isCounted ? "" : condition + ", ") << carried << " = "
       << (isCounted ? "" : *another + ", ") << *next << '\n';
  else if (!isCounted)
    os << indent << condition << " = " << *another << '\n';
  else if (block.without_terminator().empty())
    os << indent << "pass\n";
  if (!isCounted && !isUnbounded)
    os << indent << round << " += 1\n";
  indent = outer;
  if (!node.getResult().use_empty() && numCarried)
    os << indent << names.lookup(node.getResult()) << " = "
       << (numCarried > 1 ? "(" : "") << carried
       << (numCarried > 1 ? ")\n" : "\n");
  return success();
}

LogicalResult FunctionPrinter::printNode(NodeOp node) {
  if (node.getBlocks().size() == 2)
    return printIf(node);
  if (node.getBlocks().size() == 1)
    return printLoop(node);
  ArrayRef<Attribute> args = node.getArgs().getValue();
  bool isUnused = node.getResult().use_empty();
  bool isSetItem = node.getTarget() == "operator.setitem" && isUnused &&
                   args.size() == 3 && isa<ValueAttr>(args[0]) &&
                   !node.getKwargNames();
  if (isSetItem) {
    unsigned nextOperand = 1;
    FailureOr<std::string> index = getIndex(node, args[1], nextOperand);
    if (failed(index))
      return failure();
    FailureOr<std::string> value = getArgument(node, args[2], nextOperand);
    if (failed(value))
      return failure();
    os << indent << getVariable(node.getOperand(0)) << '[' << *index
       << "] = " << *value << '\n';
    return success();
  }
  if (isAssignment(node)) {
    bool holdsText = false;
    Attribute assigned = args[1];
    assigned.walk([&](StringAttr) { holdsText = true; });
    if (holdsText && isBesideForeign())
      return error(node) << "assigns text to the model's attribute '"
                         << cast<StringAttr>(args[0]).getValue()
                         << "', which a program that calls operators of other "
                            "libraries does not keep: it may come to be the "
                            "name of a file";
    unsigned nextOperand = 0;
    FailureOr<std::string> value = getArgument(node, args[1], nextOperand);
    if (failed(value))
      return failure();
    StringRef name = cast<StringAttr>(args[0]).getValue();
    os << indent << "attributes["
       << getPythonString((options.attributePrefix + name).str())
       << "] = " << *value << '\n';
    return success();
  }
  FailureOr<std::string> expression = getExpression(node);
  if (failed(expression))
    return failure();
  os << indent;
  if (!isUnused) {
    os << names.lookup(node.getResult());
    if (std::string type = getTypeText(node.getType());
        options.withComments && !type.empty())
      os << ": " << getPythonString(type);
    os << " = ";
  }
  os << *expression << '\n';
  return success();
}

/// Whether the graph returns the values of its output in order and nothing
/// else, which is what a call can take apart.
static bool returnsPlainValues(GraphOp graph) {
  return llvm::all_of(graph.getOutput().getArgs(), llvm::IsaPred<ValueAttr>);
}

/// "single" or "list" where the graph does not return a tuple.
static StringRef getOutputForm(GraphOp graph) {
  auto attributes = graph->getAttrOfType<DictionaryAttr>(kAttributesAttr);
  auto form =
      attributes ? attributes.getAs<StringAttr>(kOutputFormKey) : StringAttr();
  return form ? form.getValue() : "";
}

LogicalResult FunctionPrinter::printCall(CallOp call) {
  auto callee = lookupGraph(call, call.getCalleeAttr());
  if (!callee || !returnsPlainValues(callee))
    return error(call) << "calls '" << call.getCallee()
                       << "', which returns more than values";
  os << indent;
  if (llvm::any_of(call.getResults(),
                   [](Value result) { return !result.use_empty(); })) {
    bool isOneTuple =
        call.getNumResults() == 1 && getOutputForm(callee) != "single";
    os << (isOneTuple ? "(" : "");
    llvm::interleaveComma(call.getResults(), os, [&](Value result) {
      os << (result.use_empty() ? "_" : names.lookup(result));
    });
    os << (isOneTuple ? ",) = " : " = ");
  }
  os << getFunctionName(call.getCallee()) << '(';
  if (needsAttributes(call.getCallee()))
    os << "attributes" << (call.getNumOperands() ? ", " : "");
  llvm::interleaveComma(call.getOperands(), os,
                        [&](Value operand) { os << getVariable(operand); });
  os << ")\n";
  return success();
}

LogicalResult FunctionPrinter::printMarker(Operation &op) {
  if (auto push = dyn_cast<opprof::prof::RangePushOp>(op))
    os << indent << "_range_push(" << getPythonString(push.getLabel()) << ")\n";
  else if (isa<opprof::prof::RangePopOp>(op))
    os << indent << "_range_pop()\n";
  else
    return op.emitError() << "'" << op.getName().getStringRef()
                          << "' has no form in Python";
  return success();
}

void FunctionPrinter::printDeletions(Operation &op) {
  auto found = lastUses.find(&op);
  if (!options.withDeletions || found == lastUses.end())
    return;
  os << indent << "del ";
  llvm::interleaveComma(found->second, os,
                        [&](Value value) { os << names.lookup(value); });
  os << '\n';
}

LogicalResult FunctionPrinter::printOutput(OutputOp output) {
  ArrayRef<Attribute> args = output.getArgs().getValue();
  unsigned nextOperand = 0;
  FailureOr<std::string> values = getArguments(output, args, nextOperand);
  if (failed(values))
    return failure();
  StringRef form = getOutputForm(graph);
  bool isSingle =
      args.size() == 1 &&
      (form == "single" || (form.empty() && options.unwrapSingleOutput));
  os << indent << "return ";
  if (isSingle)
    os << *values;
  else if (form == "list")
    os << '[' << *values << ']';
  else
    os << '(' << *values << (args.size() == 1 ? ",)" : ")");
  os << '\n';
  return success();
}

LogicalResult FunctionPrinter::print() {
  printSignature();
  if (failed(printSymbols()))
    return failure();
  if (options.withDeletions)
    findLastUses(graph.getBlock());
  for (Operation &op : graph.getBlock().without_terminator())
    if (failed(printOperation(op)))
      return failure();
  return printOutput(graph.getOutput());
}

LogicalResult FunctionPrinter::printOperation(Operation &op) {
  if (isa<NodeOp, CallOp>(op))
    printPlace(op);
  LogicalResult result = failure();
  if (auto node = dyn_cast<NodeOp>(op))
    result = printNode(node);
  else if (auto call = dyn_cast<CallOp>(op))
    result = printCall(call);
  else
    result = printMarker(op);
  if (succeeded(result))
    printDeletions(op);
  return result;
}

LogicalResult
opprof::fx::printPythonFunction(GraphOp graph, raw_ostream &os,
                                const PythonFunctionOptions &options) {
  return FunctionPrinter(graph, os, options).print();
}
