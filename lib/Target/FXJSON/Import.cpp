// Reads graph JSON: a SAX handler that makes MLIR ops as the text goes by, so
// that a graph is never held twice.

#include "opprof/Dialect/FX/IR/Arguments.h"
#include "opprof/Dialect/FX/IR/FX.h"
#include "opprof/Dialect/FX/IR/Provenance.h"
#include "opprof/Target/FXJSON/FXJSON.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"

#include <nlohmann/json.hpp>

using namespace mlir;
using namespace opprof::fx;
using llvm::Twine;

namespace {
/// Bounds on what a file may ask of the reader. Whatever PyTorch writes lies
/// far below them.
constexpr unsigned kMaxArgumentNesting = 60;
constexpr unsigned kMaxNesting = 200;
constexpr unsigned kMaxTypeNesting = 60;
constexpr uint64_t kMaxTypeSize = 1 << 20;
constexpr size_t kMaxFrames = 1000;
constexpr size_t kMaxIntDigits = 4096;
/// A diagnostic shows its line of the file; no terminal is helped by a longer
/// one.
constexpr size_t kMaxShownLine = 2000;

/// Reads characters and leaves word of how far it got: nlohmann's events carry
/// no positions. A first pass does without; only a file with something to say
/// of is read again with this.
class TrackingIterator {
public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char *;
  using reference = const char &;

  TrackingIterator(const char *current, const char **reached)
      : current(current), reached(reached) {}
  reference operator*() const { return *current; }
  TrackingIterator &operator++() {
    *reached = ++current;
    return *this;
  }
  TrackingIterator operator++(int) {
    TrackingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const TrackingIterator &other) const {
    return current == other.current;
  }
  bool operator!=(const TrackingIterator &other) const {
    return current != other.current;
  }

private:
  const char *current;
  const char **reached;
};

/// Which part of the document an object or array being read is.
enum class Place {
  Document,
  Types,
  Stacks,
  Modules,
  Graphs,
  Graph,
  Inputs,
  Nodes,
  Node,
  Kwargs,
  Outputs,
  Output
};

/// What a place takes next.
enum class Expect {
  Int,
  String,
  Object,
  Array,
  /// Any JSON value, kept as an attribute.
  Json,
  /// An argument in the forms of the document's table.
  Argument,
  /// An unknown key's value.
  Ignored,
  /// Between the members of an object.
  Key
};

/// Keys of all objects that are read member by member.
enum class Key {
  None,
  Version,
  Producer,
  Types,
  Stacks,
  Modules,
  Graphs,
  Name,
  Stage,
  Inputs,
  Nodes,
  Outputs,
  RangeConstraints,
  InSpec,
  OutSpec,
  Attributes,
  Op,
  Target,
  Args,
  Kwargs,
  Type,
  Stack,
  SeqNr,
  OriginalAten,
  FromNode,
  Value,
  Kind,
  Unknown
};

/// The one key of an argument that is an object.
enum class Form {
  None,
  Node,
  Tuple,
  Dict,
  Slice,
  Ellipsis,
  Float,
  Int,
  Complex,
  DType,
  Device,
  Layout,
  MemoryFormat,
  Sym,
  Graph,
  Op,
  Object
};

/// A list or object that is being made into an attribute.
struct Container {
  enum Kind { List, Members, ArgumentForm } kind = List;
  ::Form form = ::Form::None;
  SmallVector<Attribute> values;
  SmallVector<StringAttr> keys;
};

/// A stack of the table of stacks.
struct StackEntry {
  LocationAttr location;
  StringAttr userCode;
  ArrayAttr codes;
};

/// A type of the table of types, with what bounds its printed form.
struct TypeEntry {
  mlir::Type type;
  unsigned depth = 1;
  uint64_t size = 1;
};

/// A member of an object that may come once.
class SeenKeys {
public:
  bool insert(Key key) {
    uint64_t bit = uint64_t(1) << static_cast<unsigned>(key);
    bool isNew = !(bits & bit);
    bits |= bit;
    return isNew;
  }
  bool contains(Key key) const {
    return bits & (uint64_t(1) << static_cast<unsigned>(key));
  }

private:
  uint64_t bits = 0;
};

class Importer {
public:
  Importer(StringRef text, StringRef fileName, MLIRContext *context,
           bool isTracking)
      : text(text), fileName(fileName), context(context), builder(context),
        isTracking(isTracking), valueAttr(ValueAttr::get(context)),
        nodeName(NodeOp::getOperationName(), context), reached(text.begin()),
        codeKey(builder.getStringAttr(kCodeKey)),
        codesKey(builder.getStringAttr(kCodesKey)),
        fromNodeKey(builder.getStringAttr(kFromNodeKey)),
        modulesKey(builder.getStringAttr(kModulesKey)),
        originalAtenKey(builder.getStringAttr(kOriginalAtenKey)),
        seqNrKey(builder.getStringAttr(kSeqNrKey)) {}

  OwningOpRef<ModuleOp> run();

  /// True where the file has to be read again to say what is wrong, and where.
  bool needsTracking() const { return failed && !isTracking; }

  // What nlohmann calls.
  bool null() {
    return scalar("null", [&] { return Attribute(NoneAttr::get(context)); });
  }
  bool boolean(bool value) {
    return scalar("a truth value",
                  [&] { return Attribute(builder.getBoolAttr(value)); });
  }
  bool number_integer(int64_t value) { return integer(value); }
  bool number_unsigned(uint64_t value) {
    if (value > static_cast<uint64_t>(INT64_MAX))
      return hugeInteger(std::to_string(value));
    return integer(static_cast<int64_t>(value));
  }
  bool number_float(double value, const std::string &digits) {
    if (digits.find_first_of(".eE") == std::string::npos)
      return hugeInteger(digits);
    return scalar("a number with a point",
                  [&] { return Attribute(builder.getF64FloatAttr(value)); });
  }
  bool string(std::string &value);
  bool binary(std::vector<uint8_t> &) { return fail("holds binary data"); }
  bool start_object(size_t);
  bool key(std::string &name);
  bool end_object();
  bool start_array(size_t);
  bool end_array();
  bool parse_error(size_t position, const std::string &token,
                   const nlohmann::detail::exception &error);

private:
  struct NodeRecord {
    SeenKeys seen;
    unsigned line = 0;
    std::string name, op, target;
    ArrayAttr args;
    SmallVector<Attribute> kwargs, kwargNames;
    SmallVector<Value> operands, kwargOperands;
    int64_t type = -1, stack = -1, modules = -1;
    IntegerAttr seqNr;
    StringAttr originalAten;
    ArrayAttr fromNode;

    void clear() {
      seen = {};
      name.clear();
      op.clear();
      target.clear();
      args = {};
      kwargs.clear();
      kwargNames.clear();
      operands.clear();
      kwargOperands.clear();
      type = stack = modules = -1;
      seqNr = {};
      originalAten = {};
      fromNode = {};
    }
  };
  struct OutputRecord {
    SeenKeys seen;
    Attribute value;
    std::string kind, target;
  };

  // Errors.
  std::string where() const;
  Location getFilePlace(StringRef &prefix, std::string &storage) const;
  bool fail(const Twine &what);
  bool warn(const Twine &what);
  bool unexpected(StringRef what);
  bool hugeInteger(StringRef digits);

  // Values.
  bool integer(int64_t value);
  template <typename Make> bool scalar(StringRef what, Make make);
  bool add(Attribute attribute);
  bool beginContainer(Container::Kind kind);
  bool endContainer();
  Attribute finishForm(Container &container);
  bool finishValue(Attribute value);
  bool reference(StringRef name);

  // Structure.
  StringAttr getKey(StringRef name) {
    StringAttr &key = keyCache[name];
    if (!key)
      key = builder.getStringAttr(name);
    return key;
  }
  using Entry = std::pair<Key, Expect>;
  Expect expectation(Place place, StringRef name);
  static Entry lookUpKey(Place place, StringRef name);
  bool enter(Place place);
  void leave();
  bool requireKey(const SeenKeys &seen, Key key, StringRef name);
  bool addType(Attribute value);
  Type convertTensor(DictionaryAttr members);
  bool addStack(Attribute value);
  bool addModules(Attribute value);
  bool addInput(Attribute value);
  bool beginGraph();
  bool beginNodes();
  bool finishGraph();
  bool finishNode();
  bool finishOutput();
  bool finishDocument();
  LocationAttr makeLocation(StringRef name, int64_t stack, int64_t modules,
                            ArrayAttr fromNode, StringAttr originalAten,
                            IntegerAttr seqNr);

  StringRef text;
  StringRef fileName;
  MLIRContext *context;
  OpBuilder builder;
  bool isTracking;
  ValueAttr valueAttr;
  OperationName nodeName;
  const char *reached;
  StringAttr codeKey, codesKey, fromNodeKey, modulesKey, originalAtenKey,
      seqNrKey;
  bool failed = false;

  OwningOpRef<ModuleOp> module;

  SmallVector<Place> places;
  Expect expected = Expect::Object;
  Key currentKey = Key::None;
  std::string keyName;
  unsigned nesting = 0;

  // The value being made into an attribute or passed over.
  bool isCapturing = false, isArgument = false;
  unsigned ignoredDepth = 0;
  SmallVector<Container, 0> containers;
  unsigned numContainers = 0;
  SmallVector<Value> *operands = nullptr;
  /// Keys come again and again; this is cheaper to ask than the context.
  llvm::StringMap<StringAttr> keyCache;
  Place lastPlace = Place::Document;
  size_t nextPrediction = 0;
  std::vector<std::pair<std::string, Entry>> predictions;

  SeenKeys documentSeen;
  SmallVector<TypeEntry> types;
  SmallVector<StackEntry> stacks;
  SmallVector<ArrayAttr> moduleStacks;
  llvm::StringSet<> warnedKeys;
  llvm::StringSet<> graphNames;
  SmallVector<std::pair<FlatSymbolRefAttr, std::string>> graphReferences;
  llvm::StringSet<> referencedGraphs;
  unsigned numGraphs = 0;

  // The graph being read.
  GraphOp graph;
  SeenKeys graphSeen;
  std::string graphName;
  SmallVector<mlir::Type> inputTypes;
  SmallVector<Location> inputLocations;
  SmallVector<DictionaryAttr> inputAttrs;
  SmallVector<std::string> inputNames;
  llvm::StringMap<Value> values;
  bool isInNode = false;
  NodeRecord node;
  size_t numNodes = 0, numOutputs = 0;
  OutputRecord output;
  SmallVector<Attribute> outputArgs, outputSignature;
  SmallVector<Value> outputOperands;
  bool isPlainSignature = true;
  // The first reference to a name that was not seen yet: what was wrong with it
  // is known at the end of the graph.
  std::string danglingName, danglingUser;
  const char *danglingPlace = nullptr;
};
} // namespace

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

std::string Importer::where() const {
  std::string result;
  llvm::raw_string_ostream os(result);
  if (numGraphs && !places.empty() && places.front() == Place::Document &&
      places.size() > 2) {
    if (graphName.empty())
      os << "graph #" << numGraphs - 1;
    else
      os << "graph '" << graphName << "'";
    if (isInNode) {
      if (node.name.empty())
        os << ", node #" << numNodes;
      else
        os << ", node '" << node.name << "'";
    } else if (llvm::is_contained(places, Place::Inputs)) {
      os << ", input #" << inputTypes.size();
    } else if (llvm::is_contained(places, Place::Output)) {
      os << ", output #" << numOutputs;
    }
  } else if (!places.empty()) {
    switch (places.back()) {
    case Place::Types:
      os << "type #" << types.size();
      break;
    case Place::Stacks:
      os << "stack #" << stacks.size();
      break;
    case Place::Modules:
      os << "module stack #" << moduleStacks.size();
      break;
    default:
      break;
    }
  }
  if (!keyName.empty()) {
    if (!result.empty())
      os << ", ";
    os << "key '" << keyName << "'";
  }
  if (!result.empty())
    os << ": ";
  return result;
}

/// The place reached, as a location whose line a diagnostic can show; where
/// that line is too long to be shown, the location is unknown and `prefix`
/// names the place.
Location Importer::getFilePlace(StringRef &prefix, std::string &storage) const {
  const char *place = std::min(reached, text.end());
  StringRef before(text.begin(), place - text.begin());
  size_t line = before.count('\n') + 1;
  size_t lineBegin = before.rfind('\n');
  lineBegin = lineBegin == StringRef::npos ? 0 : lineBegin + 1;
  size_t lineEnd = text.find('\n', before.size());
  if (lineEnd == StringRef::npos)
    lineEnd = text.size();
  size_t column = before.size() - lineBegin;
  if (lineEnd - lineBegin <= kMaxShownLine)
    return FileLineColLoc::get(context, fileName, line,
                               std::max<size_t>(column, 1));
  storage = (fileName + ":" + Twine(line) + ":" + Twine(column) + ": ").str();
  prefix = storage;
  return UnknownLoc::get(context);
}

bool Importer::fail(const Twine &what) {
  if (failed)
    return false;
  failed = true;
  if (!isTracking)
    return false;
  StringRef prefix;
  std::string storage;
  Location place = getFilePlace(prefix, storage);
  emitError(place) << prefix << where() << what;
  return false;
}

/// False where the file has to be read again for the warning's place.
bool Importer::warn(const Twine &what) {
  if (!isTracking)
    return fail(what);
  StringRef prefix;
  std::string storage;
  Location place = getFilePlace(prefix, storage);
  emitWarning(place) << prefix << where() << what;
  return true;
}

static StringRef describe(Expect expect) {
  switch (expect) {
  case Expect::Int:
    return "a whole number";
  case Expect::String:
    return "a string";
  case Expect::Object:
    return "an object";
  case Expect::Array:
    return "an array";
  case Expect::Key:
    return "a key";
  case Expect::Json:
  case Expect::Argument:
  case Expect::Ignored:
    return "a value";
  }
  return "a value";
}

bool Importer::unexpected(StringRef what) {
  return fail("expected " + Twine(describe(expected)) + ", found " + what);
}

bool Importer::hugeInteger(StringRef digits) {
  if (ignoredDepth || (!isCapturing && expected == Expect::Ignored))
    return scalar("a number", [&] { return Attribute(); });
  return fail("the whole number " + Twine(digits.take_front(40)) +
              (digits.size() > 40 ? "… " : " ") +
              "does not fit 64 bits; as an argument it is written "
              "{\"int\": \"" +
              digits.take_front(8) + "…\"}");
}

bool Importer::parse_error(size_t, const std::string &token,
                           const nlohmann::detail::exception &error) {
  if (failed)
    return false;
  keyName.clear();
  if (text.trim().empty())
    return fail("the file is empty; write it again with `opprof export`");
  if (text.starts_with("PK\x03\x04"))
    return fail("this is a zip archive; if torch.export saved it, read it with "
                "--import-pt2");
  StringRef message = error.what();
  // "[json.exception.parse_error.101] parse error at line 1, column 2: …"
  message = message.substr(message.find("] ") + 2);
  if (message.starts_with("parse error"))
    message = message.substr(message.find(": ") + 2);
  if (reached >= text.end() && message.contains("end of input"))
    return fail("the file ends in the middle of the graph (was it truncated?); "
                "write it again with `opprof export`");
  std::string clean;
  for (char c : message.take_front(200))
    clean += llvm::isPrint(c) ? c : '?';
  return fail("this is no valid JSON: " + clean);
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

template <typename Make> bool Importer::scalar(StringRef what, Make make) {
  if (ignoredDepth)
    return true;
  if (isCapturing)
    return add(make());
  switch (expected) {
  case Expect::Ignored:
    return finishValue({});
  case Expect::Json:
  case Expect::Argument:
    isArgument = expected == Expect::Argument;
    return finishValue(make());
  default:
    return unexpected(what);
  }
}

bool Importer::integer(int64_t value) {
  if (!isCapturing && !ignoredDepth && expected == Expect::Int) {
    switch (currentKey) {
    case Key::Version:
      if (value != 1)
        return fail("this is graph JSON of version " + Twine(value) +
                    "; this opprof reads version 1: write the file again with "
                    "the `opprof export` that belongs to it");
      break;
    case Key::Type:
      node.type = value;
      if (value < 0 || value >= static_cast<int64_t>(types.size()))
        return fail("there is no type #" + Twine(value) +
                    " in the table of types");
      break;
    case Key::Stack:
      node.stack = value;
      if (value < 0 || value >= static_cast<int64_t>(stacks.size()))
        return fail("there is no stack #" + Twine(value) +
                    " in the table of stacks");
      break;
    case Key::Modules:
      node.modules = value;
      if (value < 0 || value >= static_cast<int64_t>(moduleStacks.size()))
        return fail("there is no module stack #" + Twine(value) +
                    " in the table of modules");
      break;
    default:
      node.seqNr = builder.getI64IntegerAttr(value);
      break;
    }
    return finishValue({});
  }
  return scalar("a whole number",
                [&] { return Attribute(builder.getI64IntegerAttr(value)); });
}

bool Importer::string(std::string &value) {
  if (ignoredDepth)
    return true;
  if (isCapturing) {
    if (isArgument && containers[numContainers - 1].form == Form::Node)
      return reference(value);
    return add(builder.getStringAttr(value));
  }
  if (expected != Expect::String)
    return scalar("a string",
                  [&] { return Attribute(builder.getStringAttr(value)); });
  switch (currentKey) {
  case Key::Name:
    if (places.back() == Place::Node) {
      node.name = value;
    } else {
      graphName = value;
      if (!graphNames.insert(value).second)
        return fail("a second graph of this name; graphs are told apart by "
                    "name, so rename one");
    }
    if (value.empty())
      return fail("the name is empty");
    break;
  case Key::Op:
    node.op = value;
    break;
  case Key::Target:
    (places.back() == Place::Node ? node.target : output.target) = value;
    break;
  case Key::OriginalAten:
    node.originalAten = getKey(value);
    break;
  case Key::Kind:
    output.kind = value;
    break;
  case Key::Stage:
    graph.setStage(value);
    break;
  case Key::InSpec:
    graph->setAttr(kInSpecAttr, builder.getStringAttr(value));
    break;
  case Key::OutSpec:
    graph->setAttr(kOutSpecAttr, builder.getStringAttr(value));
    break;
  default:
    break;
  }
  return finishValue({});
}

/// Adds a value to the innermost container.
bool Importer::add(Attribute attribute) {
  Container &container = containers[numContainers - 1];
  if (container.kind == Container::ArgumentForm && !container.values.empty())
    return fail("an argument object holds one value");
  container.values.push_back(attribute);
  return true;
}

bool Importer::beginContainer(Container::Kind kind) {
  unsigned limit = isArgument ? kMaxArgumentNesting : kMaxNesting;
  if (numContainers >= limit)
    return fail("values are nested deeper than " + Twine(limit));
  if (numContainers == containers.size())
    containers.emplace_back();
  Container &container = containers[numContainers++];
  container.kind = kind;
  container.form = Form::None;
  container.values.clear();
  container.keys.clear();
  isCapturing = true;
  return true;
}

bool Importer::endContainer() {
  Container &container = containers[numContainers - 1];
  Attribute result;
  if (container.kind == Container::List) {
    result = ArrayAttr::get(context, container.values);
  } else if (container.kind == Container::Members) {
    SmallVector<NamedAttribute, 8> members;
    for (auto [key, value] : llvm::zip(container.keys, container.values))
      members.emplace_back(key, value);
    if (auto twice = DictionaryAttr::findDuplicate(members, /*isSorted=*/false))
      return fail("the key '" + twice->getName().getValue() +
                  "' comes twice in one object");
    result = DictionaryAttr::get(context, members);
  } else {
    result = finishForm(container);
    if (!result)
      return false;
  }
  --numContainers;
  if (numContainers)
    return add(result);
  isCapturing = false;
  return finishValue(result);
}

/// A reference to a node, as the only member of an argument object.
bool Importer::reference(StringRef name) {
  Value value = values.lookup(name);
  if (!value && !danglingPlace) {
    danglingName = name;
    danglingUser = isTracking ? where() : "";
    danglingPlace = reached;
  }
  operands->push_back(value);
  return add(valueAttr);
}

static Form parseForm(StringRef key) {
  return llvm::StringSwitch<Form>(key)
      .Case("node", Form::Node)
      .Case("tuple", Form::Tuple)
      .Case("dict", Form::Dict)
      .Case("slice", Form::Slice)
      .Case("ellipsis", Form::Ellipsis)
      .Case("float", Form::Float)
      .Case("int", Form::Int)
      .Case("complex", Form::Complex)
      .Case("dtype", Form::DType)
      .Case("device", Form::Device)
      .Case("layout", Form::Layout)
      .Case("memory_format", Form::MemoryFormat)
      .Case("sym", Form::Sym)
      .Case("graph", Form::Graph)
      .Case("op", Form::Op)
      .Case("object", Form::Object)
      .Default(Form::None);
}

static FloatAttr toFloat(Builder &builder, Attribute value) {
  if (auto number = dyn_cast<FloatAttr>(value))
    return number;
  if (auto number = dyn_cast<IntegerAttr>(value))
    return builder.getF64FloatAttr(static_cast<double>(number.getInt()));
  return {};
}

static bool isWholeNumber(StringRef digits) {
  digits.consume_front("-");
  return !digits.empty() && llvm::all_of(digits, llvm::isDigit);
}

/// The argument that an object with one key stands for, or null after an error.
Attribute Importer::finishForm(Container &container) {
  auto wrong = [&](const Twine &what) {
    fail(what);
    return Attribute();
  };
  if (container.form == Form::None || container.values.empty())
    return wrong("an argument that is an object has one key; it has none");
  Attribute value = container.values.front();
  auto list = dyn_cast<ArrayAttr>(value);
  auto string = dyn_cast<StringAttr>(value);
  StringRef name = container.keys.front();
  auto expectString = [&] { return wrong("'" + name + "' takes a string"); };
  switch (container.form) {
  case Form::Node:
    return isa<ValueAttr>(value) ? value : expectString();
  case Form::Tuple:
    if (!list)
      return wrong("'tuple' takes an array");
    return TupleAttr::get(context, list);
  case Form::Dict: {
    SmallVector<Attribute> keys, members;
    if (!list)
      return wrong("'dict' takes an array of [key, value]");
    for (Attribute element : list) {
      auto pair = dyn_cast<ArrayAttr>(element);
      if (!pair || pair.size() != 2)
        return wrong("'dict' takes an array of [key, value]");
      keys.push_back(pair[0]);
      members.push_back(pair[1]);
    }
    return DictAttr::get(context, ArrayAttr::get(context, keys),
                         ArrayAttr::get(context, members));
  }
  case Form::Slice:
    if (!list || list.size() != 3)
      return wrong("'slice' takes [start, stop, step]");
    return SliceAttr::get(context, list[0], list[1], list[2]);
  case Form::Ellipsis:
    if (auto flag = dyn_cast<BoolAttr>(value); !flag || !flag.getValue())
      return wrong("'ellipsis' takes true");
    return EllipsisAttr::get(context);
  case Form::Float: {
    double number = 0;
    if (!string)
      return expectString();
    if (string.getValue() == "inf")
      number = std::numeric_limits<double>::infinity();
    else if (string.getValue() == "-inf")
      number = -std::numeric_limits<double>::infinity();
    else if (string.getValue() == "nan")
      number = std::numeric_limits<double>::quiet_NaN();
    else
      return wrong("'float' takes \"inf\", \"-inf\" or \"nan\"; any other "
                   "number is written as it is");
    return builder.getF64FloatAttr(number);
  }
  case Form::Int: {
    if (!string)
      return expectString();
    StringRef digits = string.getValue();
    if (!isWholeNumber(digits) || digits.size() > kMaxIntDigits)
      return wrong("'int' takes a whole number of up to " +
                   Twine(kMaxIntDigits) + " decimal digits, as a string");
    int64_t small;
    if (!digits.getAsInteger(10, small))
      return builder.getI64IntegerAttr(small);
    return BigIntAttr::get(context, digits);
  }
  case Form::Complex: {
    FloatAttr real, imaginary;
    if (list && list.size() == 2) {
      real = toFloat(builder, list[0]);
      imaginary = toFloat(builder, list[1]);
    }
    if (!real || !imaginary)
      return wrong("'complex' takes [real, imaginary]");
    return ComplexAttr::get(context, real, imaginary);
  }
  case Form::DType:
    return string ? DTypeAttr::get(context, string) : expectString();
  case Form::Device:
    return string ? DeviceAttr::get(context, string) : expectString();
  case Form::Layout:
    return string ? LayoutAttr::get(context, string) : expectString();
  case Form::MemoryFormat:
    return string ? MemoryFormatAttr::get(context, string) : expectString();
  case Form::Sym:
    return string ? SymAttr::get(context, string) : expectString();
  case Form::Op:
    return string ? OpRefAttr::get(context, string) : expectString();
  case Form::Graph: {
    if (!string || string.getValue().empty())
      return wrong("'graph' takes the name of a graph of this file");
    auto symbol = FlatSymbolRefAttr::get(string);
    if (referencedGraphs.insert(string.getValue()).second)
      graphReferences.emplace_back(symbol, isTracking ? where() : "");
    return symbol;
  }
  case Form::Object: {
    auto members = dyn_cast<DictionaryAttr>(value);
    auto type = members ? members.getAs<StringAttr>("type") : StringAttr();
    auto repr = members ? members.getAs<StringAttr>("repr") : StringAttr();
    if (!type || !repr)
      return wrong("'object' takes {\"type\": \"…\", \"repr\": \"…\"}");
    return ObjectAttr::get(context, type.getValue(), repr.getValue());
  }
  case Form::None:
    break;
  }
  return wrong("unknown form of argument");
}

//===----------------------------------------------------------------------===//
// Structure
//===----------------------------------------------------------------------===//

/// What `name` of an object at `place` takes; sets the current key.
Expect Importer::expectation(Place place, StringRef name) {
  // The keys of one node come in the order of those of the node before.
  if (place != lastPlace) {
    predictions.clear();
    lastPlace = place;
  }
  if (nextPrediction < predictions.size() &&
      predictions[nextPrediction].first == name) {
    Entry entry = predictions[nextPrediction++].second;
    currentKey = entry.first;
    return entry.second;
  }
  Entry entry = lookUpKey(place, name);
  predictions.resize(std::min(nextPrediction, predictions.size()));
  predictions.emplace_back(name, entry);
  nextPrediction = predictions.size();
  currentKey = entry.first;
  return entry.second;
}

Importer::Entry Importer::lookUpKey(Place place, StringRef name) {
  Entry unknown(Key::Unknown, Expect::Ignored);
  Entry entry = unknown;
  switch (place) {
  case Place::Document:
    entry = llvm::StringSwitch<Entry>(name)
                .Case("opprof_graph_version", {Key::Version, Expect::Int})
                .Case("producer", {Key::Producer, Expect::Json})
                .Case("types", {Key::Types, Expect::Array})
                .Case("stacks", {Key::Stacks, Expect::Array})
                .Case("modules", {Key::Modules, Expect::Array})
                .Case("graphs", {Key::Graphs, Expect::Array})
                .Default(unknown);
    break;
  case Place::Graph:
    entry =
        llvm::StringSwitch<Entry>(name)
            .Case("name", {Key::Name, Expect::String})
            .Case("stage", {Key::Stage, Expect::String})
            .Case("inputs", {Key::Inputs, Expect::Array})
            .Case("nodes", {Key::Nodes, Expect::Array})
            .Case("outputs", {Key::Outputs, Expect::Array})
            .Case("range_constraints", {Key::RangeConstraints, Expect::Json})
            .Case("in_spec", {Key::InSpec, Expect::String})
            .Case("out_spec", {Key::OutSpec, Expect::String})
            .Case("attributes", {Key::Attributes, Expect::Json})
            .Default(unknown);
    break;
  case Place::Node:
    entry = llvm::StringSwitch<Entry>(name)
                .Case("name", {Key::Name, Expect::String})
                .Case("op", {Key::Op, Expect::String})
                .Case("target", {Key::Target, Expect::String})
                .Case("args", {Key::Args, Expect::Argument})
                .Case("kwargs", {Key::Kwargs, Expect::Object})
                .Case("type", {Key::Type, Expect::Int})
                .Case("stack", {Key::Stack, Expect::Int})
                .Case("modules", {Key::Modules, Expect::Int})
                .Case("seq_nr", {Key::SeqNr, Expect::Int})
                .Case("original_aten", {Key::OriginalAten, Expect::String})
                .Case("from_node", {Key::FromNode, Expect::Json})
                .Default(unknown);
    break;
  case Place::Output:
    entry = llvm::StringSwitch<Entry>(name)
                .Case("value", {Key::Value, Expect::Argument})
                .Case("kind", {Key::Kind, Expect::String})
                .Case("target", {Key::Target, Expect::String})
                .Default(unknown);
    break;
  default:
    break;
  }
  return entry;
}

bool Importer::enter(Place place) {
  places.push_back(place);
  nextPrediction = 0;
  currentKey = Key::None;
  keyName.clear();
  switch (place) {
  case Place::Types:
  case Place::Stacks:
  case Place::Modules:
  case Place::Inputs:
    expected = Expect::Json;
    break;
  case Place::Graphs:
  case Place::Nodes:
  case Place::Outputs:
    expected = Expect::Object;
    break;
  default:
    expected = Expect::Key;
    break;
  }
  return true;
}

void Importer::leave() {
  places.pop_back();
  currentKey = Key::None;
  keyName.clear();
  if (places.empty())
    return;
  Place place = places.back();
  expected =
      place == Place::Graphs || place == Place::Nodes || place == Place::Outputs
          ? Expect::Object
          : Expect::Key;
}

bool Importer::start_object(size_t) {
  if (ignoredDepth) {
    ++ignoredDepth;
    return true;
  }
  if (isCapturing) {
    Container &parent = containers[numContainers - 1];
    bool isArgumentObject = isArgument && parent.form != Form::Object &&
                            parent.kind != Container::Members;
    return beginContainer(isArgumentObject ? Container::ArgumentForm
                                           : Container::Members);
  }
  switch (expected) {
  case Expect::Ignored:
    ignoredDepth = 1;
    return true;
  case Expect::Json:
    isArgument = false;
    return beginContainer(Container::Members);
  case Expect::Argument:
    isArgument = true;
    return beginContainer(Container::ArgumentForm);
  case Expect::Object:
    break;
  default:
    return unexpected("an object");
  }
  if (places.empty())
    return enter(Place::Document);
  switch (places.back()) {
  case Place::Graphs:
    return beginGraph() && enter(Place::Graph);
  case Place::Nodes:
    node.clear();
    isInNode = true;
    return enter(Place::Node);
  case Place::Outputs:
    output = {};
    operands = &outputOperands;
    return enter(Place::Output);
  default:
    operands = &node.kwargOperands;
    return enter(Place::Kwargs);
  }
}

bool Importer::key(std::string &name) {
  if (ignoredDepth)
    return true;
  if (isCapturing) {
    Container &container = containers[numContainers - 1];
    if (container.kind == Container::ArgumentForm) {
      if (container.form != Form::None)
        return fail("an argument that is an object has one key; it has '" +
                    container.keys.front().getValue() + "' and '" + name + "'");
      container.form = parseForm(name);
      if (container.form == Form::None)
        return fail("'" + Twine(name) +
                    "' is no form of argument; docs/formats/graph-json.md "
                    "lists them");
    } else if (name.empty()) {
      return fail("a key is empty");
    }
    container.keys.push_back(getKey(name));
    return true;
  }
  Place place = places.back();
  if (place == Place::Kwargs) {
    if (name.empty())
      return fail("a keyword argument has an empty name");
    node.kwargNames.push_back(getKey(name));
    expected = Expect::Argument;
    return true;
  }
  keyName = name;
  expected = expectation(place, name);
  if (currentKey == Key::Unknown) {
    return !warnedKeys.insert(name).second ||
           warn("unknown, and left out here and wherever else it comes");
  }
  SeenKeys &seen = place == Place::Document ? documentSeen
                   : place == Place::Graph  ? graphSeen
                   : place == Place::Node   ? node.seen
                                            : output.seen;
  if (!seen.insert(currentKey))
    return fail("comes twice in one object");
  if (currentKey == Key::Args)
    operands = &node.operands;
  return true;
}

bool Importer::end_object() {
  if (ignoredDepth) {
    if (--ignoredDepth == 0)
      return finishValue({});
    return true;
  }
  if (isCapturing)
    return endContainer();
  Place place = places.back();
  keyName.clear();
  switch (place) {
  case Place::Graph:
    if (!finishGraph())
      return false;
    break;
  case Place::Node:
    if (!finishNode())
      return false;
    isInNode = false;
    break;
  case Place::Output:
    if (!finishOutput())
      return false;
    break;
  case Place::Document:
    if (!finishDocument())
      return false;
    break;
  default:
    break;
  }
  leave();
  return true;
}

bool Importer::start_array(size_t) {
  if (ignoredDepth) {
    ++ignoredDepth;
    return true;
  }
  if (isCapturing)
    return beginContainer(Container::List);
  switch (expected) {
  case Expect::Ignored:
    ignoredDepth = 1;
    return true;
  case Expect::Json:
  case Expect::Argument:
    isArgument = expected == Expect::Argument;
    return beginContainer(Container::List);
  case Expect::Array:
    break;
  default:
    return unexpected("an array");
  }
  switch (currentKey) {
  case Key::Types:
    return enter(Place::Types);
  case Key::Stacks:
    return enter(Place::Stacks);
  case Key::Modules:
    return enter(Place::Modules);
  case Key::Graphs:
    if (!documentSeen.contains(Key::Version))
      return fail("the file has no 'opprof_graph_version' before its graphs: "
                  "it is no graph JSON");
    return enter(Place::Graphs);
  case Key::Inputs:
    if (graphSeen.contains(Key::Nodes))
      return fail("'inputs' come after 'nodes'; the format has them before");
    return enter(Place::Inputs);
  case Key::Nodes:
    return beginNodes() && enter(Place::Nodes);
  default:
    if (!graphSeen.contains(Key::Nodes))
      return fail("'outputs' come before 'nodes'; the format has them after");
    return enter(Place::Outputs);
  }
}

bool Importer::end_array() {
  if (ignoredDepth) {
    if (--ignoredDepth == 0)
      return finishValue({});
    return true;
  }
  if (isCapturing)
    return endContainer();
  leave();
  return true;
}

/// Called after each complete value of a member or element; `value` is null
/// where it was taken already.
bool Importer::finishValue(Attribute value) {
  isCapturing = false;
  switch (places.back()) {
  case Place::Types:
    return addType(value);
  case Place::Stacks:
    return addStack(value);
  case Place::Modules:
    return addModules(value);
  case Place::Inputs:
    return addInput(value);
  case Place::Kwargs:
    node.kwargs.push_back(value);
    break;
  default:
    break;
  }
  expected = Expect::Key;
  switch (currentKey) {
  case Key::Producer:
    module->getOperation()->setAttr(kProducerAttr, value);
    break;
  case Key::Args:
    node.args = dyn_cast<ArrayAttr>(value);
    if (!node.args)
      return fail("expected an array of arguments");
    break;
  case Key::FromNode: {
    node.fromNode = dyn_cast<ArrayAttr>(value);
    if (!node.fromNode ||
        !llvm::all_of(node.fromNode, llvm::IsaPred<DictionaryAttr>))
      return fail("expected an array of objects");
    break;
  }
  case Key::Value:
    output.value = value;
    break;
  case Key::RangeConstraints: {
    auto members = dyn_cast<DictionaryAttr>(value);
    if (!members)
      return fail("expected an object of [lower, upper] by symbol");
    for (NamedAttribute member : members) {
      auto bounds = dyn_cast<ArrayAttr>(member.getValue());
      if (!bounds || bounds.size() != 2 ||
          !llvm::all_of(bounds, llvm::IsaPred<IntegerAttr, NoneAttr>))
        return fail("the bounds of '" + member.getName().getValue() +
                    "' are not [lower, upper], each a whole number or null");
    }
    if (!members.empty())
      graph->setAttr(kRangeConstraintsAttr, members);
    break;
  }
  case Key::Attributes: {
    auto members = dyn_cast<DictionaryAttr>(value);
    if (!members)
      return fail("expected an object");
    if (!members.empty())
      graph->setAttr(kAttributesAttr, members);
    break;
  }
  default:
    break;
  }
  currentKey = Key::None;
  if (places.back() != Place::Kwargs)
    keyName.clear();
  return true;
}

bool Importer::requireKey(const SeenKeys &seen, Key key, StringRef name) {
  return seen.contains(key) ||
         fail("the required key '" + Twine(name) + "' is missing");
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

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
Type Importer::convertTensor(DictionaryAttr members) {
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

  SmallVector<int64_t> sizes;
  SmallVector<Attribute> extents;
  for (Attribute extent : shape) {
    auto number = dyn_cast<IntegerAttr>(extent);
    sizes.push_back(number ? number.getInt() : ShapedType::kDynamic);
    extents.push_back(toExtent(extent));
  }
  if (strides) {
    SmallVector<Attribute> elements;
    for (Attribute stride : strides)
      elements.push_back(toExtent(stride));
    strides = ArrayAttr::get(context, elements);
  }
  auto info = TensorInfoAttr::getCanonical(
      context, device, extents, strides, offset ? toExtent(offset) : offset,
      requiresGrad && requiresGrad.getValue(), layout, subclass);
  return RankedTensorType::get(
      sizes, opprof::fx::getElementType(context, dtype), info);
}

bool Importer::addType(Attribute value) {
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

bool Importer::addStack(Attribute value) {
  auto list = dyn_cast<ArrayAttr>(value);
  if (!list || list.empty() || list.size() > kMaxFrames)
    return fail("a stack is an array of 1 to " + Twine(kMaxFrames) + " frames");
  SmallVector<StackFrame> frames;
  SmallVector<Attribute> codes;
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
    codes.push_back(builder.getStringAttr(frames.back().code));
  }
  StackEntry entry;
  entry.location = getStackLocation(context, frames);
  const StackFrame *user = getUserFrame(frames);
  if (!user->code.empty())
    entry.userCode = builder.getStringAttr(user->code);
  bool hasOtherCode = llvm::any_of(frames, [&](const StackFrame &frame) {
    return &frame != user && !frame.code.empty();
  });
  if (hasOtherCode)
    entry.codes = builder.getArrayAttr(codes);
  stacks.push_back(entry);
  return true;
}

bool Importer::addModules(Attribute value) {
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

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

LocationAttr Importer::makeLocation(StringRef name, int64_t stack,
                                    int64_t modules, ArrayAttr fromNode,
                                    StringAttr originalAten,
                                    IntegerAttr seqNr) {
  // In the order of the keys, so that the dictionary need not sort them.
  SmallVector<NamedAttribute, 6> metadata;
  Location place = UnknownLoc::get(context);
  if (stack >= 0) {
    const StackEntry &entry = stacks[stack];
    place = entry.location;
    if (entry.userCode)
      metadata.emplace_back(codeKey, entry.userCode);
    if (entry.codes)
      metadata.emplace_back(codesKey, entry.codes);
  }
  if (fromNode)
    metadata.emplace_back(fromNodeKey, fromNode);
  if (modules >= 0)
    metadata.emplace_back(modulesKey, moduleStacks[modules]);
  if (originalAten)
    metadata.emplace_back(originalAtenKey, originalAten);
  if (seqNr)
    metadata.emplace_back(seqNrKey, seqNr);
  return getNodeLocation(
      context, name, DictionaryAttr::getWithSorted(context, metadata), place);
}

bool Importer::beginGraph() {
  ++numGraphs;
  graphSeen = {};
  graphName.clear();
  inputTypes.clear();
  inputLocations.clear();
  inputAttrs.clear();
  inputNames.clear();
  values.clear();
  numNodes = numOutputs = 0;
  outputArgs.clear();
  outputSignature.clear();
  outputOperands.clear();
  isPlainSignature = true;
  danglingPlace = nullptr;
  builder.setInsertionPointToEnd(module->getBody());
  graph = GraphOp::create(builder, UnknownLoc::get(context), "",
                          builder.getFunctionType({}, {}));
  graph.getBody().emplaceBlock();
  return true;
}

bool Importer::addInput(Attribute value) {
  auto members = dyn_cast<DictionaryAttr>(value);
  if (!members)
    return fail("an input is an object");
  StringAttr name, kind, target;
  ArrayAttr fromNode;
  int64_t type = -1;
  SmallVector<NamedAttribute> attributes;
  for (NamedAttribute member : members) {
    StringRef key = member.getName();
    Attribute content = member.getValue();
    if (key == "name") {
      name = dyn_cast<StringAttr>(content);
    } else if (key == "kind") {
      kind = dyn_cast<StringAttr>(content);
      if (!kind ||
          !llvm::is_contained({"parameter", "buffer", "constant_tensor",
                               "constant_object", "token", "user_input"},
                              kind.getValue()))
        return fail("'kind' is not parameter, buffer, constant_tensor, "
                    "constant_object, token or user_input");
      attributes.emplace_back(builder.getStringAttr(FXDialect::kKindAttr),
                              kind);
    } else if (key == "target") {
      target = dyn_cast<StringAttr>(content);
      if (!target)
        return fail("'target' is no string");
      attributes.emplace_back(builder.getStringAttr(FXDialect::kTargetAttr),
                              target);
    } else if (key == "persistent") {
      if (!isa<BoolAttr>(content))
        return fail("'persistent' is neither true nor false");
      attributes.emplace_back(builder.getStringAttr(FXDialect::kPersistentAttr),
                              content);
    } else if (key == "type") {
      auto index = dyn_cast<IntegerAttr>(content);
      type = index ? index.getInt() : -1;
      if (type < 0 || type >= static_cast<int64_t>(types.size()))
        return fail("'type' is no index into the table of types");
    } else if (key == "from_node") {
      fromNode = dyn_cast<ArrayAttr>(content);
      if (!fromNode)
        return fail("'from_node' is no array");
    } else if (warnedKeys.insert(key).second &&
               !warn("the key '" + key +
                     "' is unknown, and left out here and wherever else it "
                     "comes")) {
      return false;
    }
  }
  if (!name || name.getValue().empty())
    return fail("the required key 'name' is missing");
  if (!kind)
    return fail("the required key 'kind' is missing");
  if (kind.getValue() != "user_input" && !target)
    return fail("the required key 'target' is missing: a " + kind.getValue() +
                " has one");
  if (!values.try_emplace(name, Value()).second)
    return fail("there are two inputs called '" + name.getValue() + "'");
  inputNames.push_back(name.str());
  inputTypes.push_back(type < 0 ? Type(ObjectType::get(context, ""))
                                : types[type].type);
  inputLocations.push_back(
      makeLocation(name, -1, -1, fromNode, StringAttr(), IntegerAttr()));
  inputAttrs.push_back(DictionaryAttr::get(context, attributes));
  return true;
}

bool Importer::beginNodes() {
  if (!requireKey(graphSeen, Key::Inputs, "inputs"))
    return false;
  Block &block = graph.getBlock();
  for (auto [name, type, location] :
       llvm::zip(inputNames, inputTypes, inputLocations))
    values[name] = block.addArgument(type, location);
  graph.setFunctionType(builder.getFunctionType(inputTypes, {}));
  graph.setAllArgAttrs(inputAttrs);
  builder.setInsertionPointToEnd(&block);
  return true;
}

bool Importer::finishNode() {
  if (!requireKey(node.seen, Key::Name, "name") ||
      !requireKey(node.seen, Key::Op, "op") ||
      !requireKey(node.seen, Key::Target, "target") ||
      !requireKey(node.seen, Key::Args, "args") ||
      !requireKey(node.seen, Key::Kwargs, "kwargs"))
    return false;
  std::optional<NodeKind> kind = symbolizeNodeKind(node.op);
  if (!kind)
    return fail("'" + Twine(node.op) +
                "' is no kind of node: call_function, call_method, "
                "call_module or get_attr");
  if (node.target.empty())
    return fail("the target is empty");
  if (node.kwargNames.size() > 1) {
    llvm::SmallDenseSet<Attribute> seen;
    for (Attribute name : node.kwargNames)
      if (!seen.insert(name).second)
        return fail("the keyword argument '" +
                    cast<StringAttr>(name).getValue() + "' is given twice");
  }
  ++numNodes;
  auto [entry, isNew] = values.try_emplace(node.name, Value());
  if (!isNew)
    return fail("a second node or input of this name; names are how nodes "
                "refer to each other, so each comes once in a graph");
  // After a dangling reference nothing is built, but names are still collected.
  if (danglingPlace)
    return true;

  ArrayAttr args = node.args, names;
  if (!node.kwargs.empty()) {
    SmallVector<Attribute> all(args.begin(), args.end());
    llvm::append_range(all, node.kwargs);
    args = builder.getArrayAttr(all);
    names = builder.getArrayAttr(node.kwargNames);
    llvm::append_range(node.operands, node.kwargOperands);
  }
  OperationState state(makeLocation(node.name, node.stack, node.modules,
                                    node.fromNode, node.originalAten,
                                    node.seqNr),
                       nodeName);
  state.addOperands(node.operands);
  state.addTypes(node.type < 0 ? Type(ObjectType::get(context, ""))
                               : types[node.type].type);
  auto &properties = state.getOrAddProperties<NodeOp::Properties>();
  properties.target = getKey(node.target);
  properties.args = args;
  properties.kind = NodeKindAttr::get(context, *kind);
  if (names)
    properties.kwarg_names = names;
  entry->second = builder.create(state)->getResult(0);
  return true;
}

bool Importer::finishOutput() {
  if (!requireKey(output.seen, Key::Value, "value") ||
      !requireKey(output.seen, Key::Kind, "kind"))
    return false;
  if (!llvm::is_contained({"user_output", "loss_output", "buffer_mutation",
                           "parameter_mutation", "user_input_mutation",
                           "gradient_to_parameter", "gradient_to_user_input",
                           "token"},
                          StringRef(output.kind)))
    return fail("'" + Twine(output.kind) +
                "' is no kind of output; docs/formats/graph-json.md lists "
                "them");
  ++numOutputs;
  outputArgs.push_back(output.value);
  SmallVector<NamedAttribute> members;
  members.emplace_back(builder.getStringAttr("kind"),
                       builder.getStringAttr(output.kind));
  bool hasTarget = output.seen.contains(Key::Target);
  if (hasTarget)
    members.emplace_back(builder.getStringAttr("target"),
                         builder.getStringAttr(output.target));
  isPlainSignature &= output.kind == "user_output" && !hasTarget;
  outputSignature.push_back(builder.getDictionaryAttr(members));
  return true;
}

bool Importer::finishGraph() {
  if (!requireKey(graphSeen, Key::Name, "name") ||
      !requireKey(graphSeen, Key::Inputs, "inputs") ||
      !requireKey(graphSeen, Key::Nodes, "nodes") ||
      !requireKey(graphSeen, Key::Outputs, "outputs"))
    return false;
  if (danglingPlace) {
    // The message is about the reference, not about the end of the graph.
    reached = danglingPlace;
    failed = true;
    if (!isTracking)
      return false;
    StringRef prefix;
    std::string storage;
    Location place = getFilePlace(prefix, storage);
    InFlightDiagnostic diagnostic = emitError(place);
    diagnostic << prefix << danglingUser;
    if (values.contains(danglingName))
      diagnostic << "'" << danglingName
                 << "' comes later in the graph (or is this node): the nodes "
                    "are not in the order in which they run, or the graph has "
                    "a cycle";
    else
      diagnostic << "there is no node or input called '" << danglingName
                 << "' in this graph";
    return false;
  }
  auto output =
      OutputOp::create(builder, UnknownLoc::get(context), outputOperands);
  output.setArgsAttr(builder.getArrayAttr(outputArgs));
  if (!isPlainSignature)
    output.setSignatureAttr(builder.getArrayAttr(outputSignature));
  graph.setFunctionType(builder.getFunctionType(
      inputTypes, TypeRange(ValueRange(outputOperands))));
  graph.setSymName(graphName);
  if (numGraphs > 1)
    SymbolTable::setSymbolVisibility(graph, SymbolTable::Visibility::Private);
  return true;
}

bool Importer::finishDocument() {
  if (!requireKey(documentSeen, Key::Version, "opprof_graph_version") ||
      !requireKey(documentSeen, Key::Graphs, "graphs"))
    return false;
  if (numGraphs == 0)
    return fail("the file holds no graph");
  for (const auto &[symbol, user] : graphReferences)
    if (!graphNames.contains(symbol.getValue()))
      return fail(user + "there is no graph called '" + symbol.getValue() +
                  "' in this file");
  // Subgraphs come after the graphs that call them.
  for (Operation &op : llvm::reverse(*module->getBody()))
    if (auto each = cast<GraphOp>(op); each.isFunctional())
      each.setFunctional(true);
  return true;
}

OwningOpRef<ModuleOp> Importer::run() {
  module = ModuleOp::create(builder, UnknownLoc::get(context));
  bool isRead = false;
  if (isTracking) {
    TrackingIterator begin(text.begin(), &reached), end(text.end(), &reached);
    isRead = nlohmann::json::sax_parse(begin, end, this);
  } else {
    isRead = nlohmann::json::sax_parse(text.begin(), text.end(), this);
  }
  if (!isRead && !failed)
    fail("this is no valid JSON");
  return failed ? nullptr : std::move(module);
}

OwningOpRef<ModuleOp> opprof::fx::importGraphJSON(StringRef text,
                                                  StringRef fileName,
                                                  MLIRContext *context) {
  context->loadDialect<FXDialect>();
  // One thread makes all the attributes: no need to lock and cache for others.
  bool wasThreaded = context->isMultithreadingEnabled();
  context->disableMultithreading();
  OwningOpRef<ModuleOp> module;
  bool isTracking = false;
  for (bool isDone = false; !isDone; isTracking = true) {
    Importer importer(text, fileName, context, isTracking);
    module = importer.run();
    isDone = !importer.needsTracking();
  }
  if (wasThreaded)
    context->enableMultithreading();
  return module;
}
