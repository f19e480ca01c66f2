// Reads graph JSON: one pass over the text that makes MLIR ops as it goes, so
// that a graph is never held twice.

#include "JSONLexer.h"

#include "opprof/Dialect/FX/IR/Arguments.h"
#include "opprof/Dialect/FX/IR/FX.h"
#include "opprof/Dialect/FX/IR/Provenance.h"
#include "opprof/Target/FXJSON/FXJSON.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/CachedHashString.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/StringSaver.h"
#include "llvm/Support/xxhash.h"

#include <array>

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

/// The list that an error's place is in; its elements are counted where they
/// have no name.
enum class Section {
  Document,
  Types,
  Stacks,
  Modules,
  Graph,
  Inputs,
  Node,
  Output
};

/// Keys of all objects that are read member by member.
enum class Key {
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

using KeyName = std::pair<StringRef, Key>;

constexpr KeyName kDocumentKeys[] = {
    {"opprof_graph_version", Key::Version},
    {"producer", Key::Producer},
    {"types", Key::Types},
    {"stacks", Key::Stacks},
    {"modules", Key::Modules},
    {"graphs", Key::Graphs},
};
constexpr KeyName kGraphKeys[] = {
    {"name", Key::Name},
    {"stage", Key::Stage},
    {"inputs", Key::Inputs},
    {"nodes", Key::Nodes},
    {"outputs", Key::Outputs},
    {"range_constraints", Key::RangeConstraints},
    {"in_spec", Key::InSpec},
    {"out_spec", Key::OutSpec},
    {"attributes", Key::Attributes},
};
constexpr KeyName kNodeKeys[] = {
    {"name", Key::Name},          {"op", Key::Op},
    {"target", Key::Target},      {"args", Key::Args},
    {"kwargs", Key::Kwargs},      {"type", Key::Type},
    {"stack", Key::Stack},        {"modules", Key::Modules},
    {"seq_nr", Key::SeqNr},       {"original_aten", Key::OriginalAten},
    {"from_node", Key::FromNode},
};
constexpr KeyName kOutputKeys[] = {
    {"value", Key::Value},
    {"kind", Key::Kind},
    {"target", Key::Target},
};

/// Members of an object that are read so far.
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

/// What a value may be: any JSON, or an argument in the forms of the document's
/// table.
enum class Grammar { Json, Argument };

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

/// Attributes of strings that come again and again: asking here is cheaper than
/// asking the context. Strings that come once push each other out.
class StringCache {
public:
  explicit StringCache(MLIRContext *context) : context(context) {}

  StringAttr get(StringRef text) {
    StringAttr &entry = entries[llvm::xxh3_64bits(text) % entries.size()];
    if (!entry || entry.getValue() != text)
      entry = StringAttr::get(context, text);
    return entry;
  }

private:
  MLIRContext *context;
  std::array<StringAttr, 512> entries;
};

class Importer {
public:
  Importer(StringRef text, StringRef fileName, MLIRContext *context)
      : text(text), fileName(fileName), context(context), builder(context),
        lexer(text), strings(context), valueAttr(ValueAttr::get(context)),
        nodeName(NodeOp::getOperationName(), context),
        unknownType(ObjectType::get(context, "")),
        noAttributes(builder.getDictionaryAttr({})),
        codeKey(builder.getStringAttr(kCodeKey)),
        codesKey(builder.getStringAttr(kCodesKey)),
        fromNodeKey(builder.getStringAttr(kFromNodeKey)),
        modulesKey(builder.getStringAttr(kModulesKey)),
        originalAtenKey(builder.getStringAttr(kOriginalAtenKey)),
        seqNrKey(builder.getStringAttr(kSeqNrKey)) {}

  OwningOpRef<ModuleOp> run();

private:
  struct NodeRecord {
    SeenKeys seen;
    StringRef name, op, target;
    StringAttr nameAttr;
    ArrayAttr args;
    SmallVector<Attribute> kwargs, kwargNames;
    SmallVector<Value> operands, kwargOperands;
    int64_t type = -1, stack = -1, modules = -1;
    IntegerAttr seqNr;
    StringAttr originalAten;
    ArrayAttr fromNode;

    void clear() {
      seen = {};
      name = op = target = {};
      nameAttr = {};
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
    StringRef kind, target;
  };

  // Errors. Functions that return a truth value return false after one, others
  // null.
  std::string where() const;
  Location getFilePlace(const char *place, StringRef &prefix,
                        std::string &storage) const;
  bool fail(const Twine &what) {
    return failAt(lexer.getPlace(), where(), what);
  }
  bool failAt(const char *place, StringRef where, const Twine &what);
  void warn(const Twine &what);
  bool failSyntax();
  bool expected(StringRef what) { return lexer.expected(what) || failSyntax(); }
  bool unexpected(StringRef what);
  bool hugeInteger(StringRef digits);

  // JSON.
  template <typename Each> bool forEachMember(Each each);
  template <typename Each> bool forEachElement(Each each);
  bool readString(StringRef &value);
  bool readText(StringRef &value);
  bool readIndex(size_t limit, StringRef what, int64_t &index);
  bool readInteger(int64_t &value);
  bool skipUnknown(StringRef key);

  // Values.
  Attribute readValue(Grammar grammar, unsigned depth = 0);
  Attribute readList(Grammar grammar, unsigned depth);
  Attribute readMembers(unsigned depth, unsigned limit);
  Attribute readForm(unsigned depth);
  Attribute makeForm(Form form, StringRef name, Attribute value);
  bool sortMembers(MutableArrayRef<NamedAttribute> members);
  Attribute readReference();
  bool checkNesting(unsigned depth, unsigned limit) {
    return depth < limit ||
           fail("values are nested deeper than " + Twine(limit));
  }
  StringAttr getString(StringRef value) {
    // Most strings that come once are the node's own name.
    return node.nameAttr && value == node.name ? node.nameAttr
                                               : strings.get(value);
  }

  // Structure.
  Key findKey(ArrayRef<KeyName> keys, unsigned &next, StringRef name);
  bool enterMember(ArrayRef<KeyName> keys, unsigned &next, SeenKeys &seen,
                   StringRef name, Key &key);
  bool requireKey(const SeenKeys &seen, Key key, StringRef name);
  bool readDocument();
  bool readDocumentMember(Key key);
  bool readTable(Section table, bool (Importer::*add)(Attribute));
  bool addType(Attribute value);
  Type convertTensor(DictionaryAttr members);
  bool addStack(Attribute value);
  bool addModules(Attribute value);
  bool addInput(Attribute value);
  bool readGraph();
  bool readGraphMember(Key key);
  bool readRangeConstraints();
  bool readNodes();
  bool readNode();
  bool readNodeMember(Key key);
  bool readKwargs();
  bool readOutput();
  bool finishGraph();
  bool finishNode();
  bool finishOutput();
  bool finishDocument();
  LocationAttr makeLocation(StringAttr name, int64_t stack, int64_t modules,
                            ArrayAttr fromNode, StringAttr originalAten,
                            IntegerAttr seqNr);

  StringRef text;
  StringRef fileName;
  MLIRContext *context;
  OpBuilder builder;
  JSONLexer lexer;
  StringCache strings;
  ValueAttr valueAttr;
  OperationName nodeName;
  ObjectType unknownType;
  DictionaryAttr noAttributes;
  StringAttr codeKey, codesKey, fromNodeKey, modulesKey, originalAtenKey,
      seqNrKey;
  llvm::BumpPtrAllocator allocator;
  llvm::StringSaver saver{allocator};

  OwningOpRef<ModuleOp> module;

  // Where reading is.
  Section section = Section::Document;
  StringRef keyName;

  /// Elements of all lists and members of all objects that are being read, the
  /// innermost last.
  SmallVector<Attribute> elements;
  SmallVector<NamedAttribute> members;
  /// The keys of the last object, as they came, and the order that they have in
  /// a dictionary: most objects have the keys of the one before.
  SmallVector<StringAttr> lastKeys;
  SmallVector<unsigned> lastOrder;
  SmallVector<NamedAttribute> sorted;
  /// Where references to nodes go.
  SmallVector<Value> *operands = nullptr;

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
  StringRef graphName;
  SmallVector<mlir::Type> inputTypes;
  SmallVector<Location> inputLocations;
  SmallVector<DictionaryAttr> inputAttrs;
  SmallVector<StringRef> inputNames;
  llvm::DenseMap<llvm::CachedHashStringRef, Value> values;
  NodeRecord node;
  unsigned nextNodeKey = 0;
  size_t numNodes = 0, numOutputs = 0;
  OutputRecord output;
  SmallVector<Attribute> outputArgs, outputSignature;
  SmallVector<Value> outputOperands;
  bool isPlainSignature = true;
  // The first reference to a name that was not seen yet: what was wrong with it
  // is known at the end of the graph.
  StringRef danglingName;
  std::string danglingUser;
  const char *danglingPlace = nullptr;
};
} // namespace

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

std::string Importer::where() const {
  std::string result;
  llvm::raw_string_ostream os(result);
  switch (section) {
  case Section::Document:
    break;
  case Section::Types:
    os << "type #" << types.size();
    break;
  case Section::Stacks:
    os << "stack #" << stacks.size();
    break;
  case Section::Modules:
    os << "module stack #" << moduleStacks.size();
    break;
  case Section::Graph:
  case Section::Inputs:
  case Section::Node:
  case Section::Output:
    if (graphName.empty())
      os << "graph #" << numGraphs - 1;
    else
      os << "graph '" << graphName << "'";
    if (section == Section::Inputs)
      os << ", input #" << inputTypes.size();
    else if (section == Section::Output)
      os << ", output #" << numOutputs;
    else if (section == Section::Node && node.name.empty())
      os << ", node #" << numNodes;
    else if (section == Section::Node)
      os << ", node '" << node.name << "'";
    break;
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

/// The place as a location whose line a diagnostic can show; where that line is
/// too long to be shown, the location is unknown and `prefix` names the place.
Location Importer::getFilePlace(const char *place, StringRef &prefix,
                                std::string &storage) const {
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

bool Importer::failAt(const char *place, StringRef where, const Twine &what) {
  StringRef prefix;
  std::string storage;
  Location location = getFilePlace(place, prefix, storage);
  emitError(location) << prefix << where << what;
  return false;
}

void Importer::warn(const Twine &what) {
  StringRef prefix;
  std::string storage;
  Location location = getFilePlace(lexer.getPlace(), prefix, storage);
  emitWarning(location) << prefix << where() << what;
}

/// Says what the lexer stopped at.
bool Importer::failSyntax() {
  keyName = {};
  if (text.trim().empty())
    return fail("the file is empty; write it again with `opprof export`");
  if (text.starts_with("PK\x03\x04"))
    return fail("this is a zip archive; if torch.export saved it, read it with "
                "--import-pt2");
  if (lexer.isAtEnd())
    return fail("the file ends in the middle of the graph (was it truncated?); "
                "write it again with `opprof export`");
  return fail("this is no valid JSON: " + lexer.getError());
}

/// Says what comes instead of `what`.
bool Importer::unexpected(StringRef what) {
  auto found = [&](bool isRead, StringRef kind) {
    return isRead ? fail("expected " + what + ", found " + kind) : failSyntax();
  };
  StringRef string;
  JSONLexer::Number number;
  switch (lexer.peek()) {
  case '{':
    return found(true, "an object");
  case '[':
    return found(true, "an array");
  case '"':
    return found(lexer.readString(string), "a string");
  case 't':
    return found(lexer.readWord("true"), "a truth value");
  case 'f':
    return found(lexer.readWord("false"), "a truth value");
  case 'n':
    return found(lexer.readWord("null"), "null");
  default:
    if (!lexer.readNumber(number))
      return failSyntax();
    return found(true, number.kind == JSONLexer::Number::Float
                           ? "a number with a point"
                           : "a whole number");
  }
}

bool Importer::hugeInteger(StringRef digits) {
  return fail("the whole number " + Twine(digits.take_front(40)) +
              (digits.size() > 40 ? "… " : " ") +
              "does not fit 64 bits; as an argument it is written "
              "{\"int\": \"" +
              digits.take_front(8) + "…\"}");
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

/// Reads an object, and calls `each` with every key, to read the key's value.
template <typename Each> bool Importer::forEachMember(Each each) {
  if (!lexer.consume('{'))
    return unexpected("an object");
  if (lexer.consume('}'))
    return true;
  do {
    StringRef key;
    if (!lexer.readString(key))
      return failSyntax();
    if (!lexer.consume(':'))
      return expected("':'");
    if (!each(key))
      return false;
  } while (lexer.consume(','));
  return lexer.consume('}') || expected("',' or '}'");
}

/// Reads an array, and calls `each` to read every element.
template <typename Each> bool Importer::forEachElement(Each each) {
  if (!lexer.consume('['))
    return unexpected("an array");
  if (lexer.consume(']'))
    return true;
  do {
    if (!each())
      return false;
  } while (lexer.consume(','));
  return lexer.consume(']') || expected("',' or ']'");
}

/// A string that holds until the next one is read.
bool Importer::readString(StringRef &value) {
  if (lexer.peek() != '"')
    return unexpected("a string");
  return lexer.readString(value) || failSyntax();
}

/// A string that holds as long as the text.
bool Importer::readText(StringRef &value) {
  if (!readString(value))
    return false;
  if (!lexer.isView(value))
    value = saver.save(value);
  return true;
}

bool Importer::readInteger(int64_t &value) {
  char first = lexer.peek();
  if (first != '-' && !llvm::isDigit(first))
    return unexpected("a whole number");
  JSONLexer::Number number;
  if (!lexer.readNumber(number))
    return failSyntax();
  if (number.kind == JSONLexer::Number::HugeInteger)
    return hugeInteger(number.digits);
  if (number.kind == JSONLexer::Number::Float)
    return fail("expected a whole number, found a number with a point");
  value = number.integer;
  return true;
}

/// An index into a table of `limit` entries, each of which is called `what`.
bool Importer::readIndex(size_t limit, StringRef what, int64_t &index) {
  if (!readInteger(index))
    return false;
  if (index >= 0 && static_cast<uint64_t>(index) < limit)
    return true;
  return fail("there is no " + what + " #" + Twine(index) +
              " in the table of " +
              (what == "module stack" ? "modules" : what + "s"));
}

/// The value of a key that the format does not have.
bool Importer::skipUnknown(StringRef key) {
  auto [entry, isNew] = warnedKeys.insert(key);
  keyName = entry->getKey();
  if (isNew)
    warn("unknown, and left out here and wherever else it comes");
  return lexer.skipValue() || failSyntax();
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

/// Any value, as an attribute, inside `depth` others.
Attribute Importer::readValue(Grammar grammar, unsigned depth) {
  auto orFail = [&](bool isRead, Attribute value) {
    if (!isRead)
      failSyntax();
    return isRead ? value : Attribute();
  };
  switch (lexer.peek()) {
  case '{':
    return grammar == Grammar::Argument ? readForm(depth)
                                        : readMembers(depth, kMaxNesting);
  case '[':
    return readList(grammar, depth);
  case '"': {
    StringRef value;
    if (!lexer.readString(value))
      return orFail(false, {});
    return getString(value);
  }
  case 't':
    return orFail(lexer.readWord("true"), builder.getBoolAttr(true));
  case 'f':
    return orFail(lexer.readWord("false"), builder.getBoolAttr(false));
  case 'n':
    return orFail(lexer.readWord("null"), NoneAttr::get(context));
  default:
    break;
  }
  JSONLexer::Number number;
  if (!lexer.readNumber(number))
    return orFail(false, {});
  switch (number.kind) {
  case JSONLexer::Number::Integer:
    return builder.getI64IntegerAttr(number.integer);
  case JSONLexer::Number::Float:
    return builder.getF64FloatAttr(number.real);
  case JSONLexer::Number::HugeInteger:
    hugeInteger(number.digits);
    break;
  }
  return {};
}

Attribute Importer::readList(Grammar grammar, unsigned depth) {
  if (!checkNesting(depth, grammar == Grammar::Argument ? kMaxArgumentNesting
                                                        : kMaxNesting))
    return {};
  size_t first = elements.size();
  if (!forEachElement([&] {
        Attribute element = readValue(grammar, depth + 1);
        if (element)
          elements.push_back(element);
        return !!element;
      }))
    return {};
  auto list = ArrayAttr::get(context, ArrayRef(elements).drop_front(first));
  elements.truncate(first);
  return list;
}

/// An object of whatever keys, as a dictionary.
Attribute Importer::readMembers(unsigned depth, unsigned limit) {
  if (!checkNesting(depth, limit))
    return {};
  size_t first = members.size();
  if (!forEachMember([&](StringRef key) {
        if (key.empty())
          return fail("a key is empty");
        StringAttr name = strings.get(key);
        Attribute value = readValue(Grammar::Json, depth + 1);
        if (value)
          members.emplace_back(name, value);
        return !!value;
      }))
    return {};
  MutableArrayRef<NamedAttribute> own =
      MutableArrayRef(members).drop_front(first);
  if (!sortMembers(own))
    return {};
  auto dictionary = DictionaryAttr::getWithSorted(context, own);
  members.truncate(first);
  return dictionary;
}

/// Brings the members of an object into the order of a dictionary's.
bool Importer::sortMembers(MutableArrayRef<NamedAttribute> members) {
  bool areLast =
      llvm::equal(members, lastKeys, [](NamedAttribute member, StringAttr key) {
        return member.getName() == key;
      });
  if (!areLast) {
    lastKeys.clear();
    lastOrder.clear();
    for (NamedAttribute member : members) {
      lastOrder.push_back(lastKeys.size());
      lastKeys.push_back(member.getName());
    }
    llvm::sort(lastOrder, [&](unsigned left, unsigned right) {
      return lastKeys[left].getValue() < lastKeys[right].getValue();
    });
    for (size_t position = 1; position < lastOrder.size(); ++position) {
      StringAttr key = lastKeys[lastOrder[position]];
      if (key == lastKeys[lastOrder[position - 1]])
        return fail("the key '" + key.getValue() +
                    "' comes twice in one object");
    }
  }
  sorted.clear();
  for (unsigned position : lastOrder)
    sorted.push_back(members[position]);
  llvm::copy(sorted, members.begin());
  return true;
}

/// A reference to a node, as the only member of an argument object.
Attribute Importer::readReference() {
  StringRef name;
  if (!lexer.readString(name)) {
    failSyntax();
    return {};
  }
  Value value = values.lookup(llvm::CachedHashStringRef(name));
  if (!value && !danglingPlace) {
    danglingName = saver.save(name);
    danglingUser = where();
    danglingPlace = lexer.getPlace();
  }
  operands->push_back(value);
  return valueAttr;
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

/// An argument that is an object: its one key says what its value is.
Attribute Importer::readForm(unsigned depth) {
  if (!checkNesting(depth, kMaxArgumentNesting))
    return {};
  StringRef name;
  Form form = Form::None;
  Attribute value;
  if (!forEachMember([&](StringRef key) {
        if (form != Form::None)
          return fail("an argument that is an object has one key; it has '" +
                      name + "' and '" + key + "'");
        form = parseForm(key);
        if (form == Form::None)
          return fail("'" + Twine(key) +
                      "' is no form of argument; docs/formats/graph-json.md "
                      "lists them");
        name = lexer.isView(key) ? key : saver.save(key);
        char first = lexer.peek();
        if (form == Form::Node && first == '"')
          value = readReference();
        else if (form == Form::Object && first == '{')
          value = readMembers(depth + 1, kMaxArgumentNesting);
        else
          value = readValue(Grammar::Argument, depth + 1);
        return !!value;
      }))
    return {};
  if (form == Form::None) {
    fail("an argument that is an object has one key; it has none");
    return {};
  }
  return makeForm(form, name, value);
}

/// The argument that an object with one key stands for, or null after an error.
Attribute Importer::makeForm(Form form, StringRef name, Attribute value) {
  auto wrong = [&](const Twine &what) {
    fail(what);
    return Attribute();
  };
  auto list = dyn_cast<ArrayAttr>(value);
  auto string = dyn_cast<StringAttr>(value);
  auto expectString = [&] { return wrong("'" + name + "' takes a string"); };
  switch (form) {
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
      graphReferences.emplace_back(symbol, where());
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

/// Looks first at the key after the one found before: objects of one kind have
/// their keys in one order.
Key Importer::findKey(ArrayRef<KeyName> keys, unsigned &next, StringRef name) {
  for (size_t tried = 0; tried < keys.size(); ++tried) {
    if (next >= keys.size())
      next = 0;
    const auto &[known, key] = keys[next++];
    if (known == name) {
      keyName = known;
      return key;
    }
  }
  return Key::Unknown;
}

/// Finds the key `name`, which may come once.
bool Importer::enterMember(ArrayRef<KeyName> keys, unsigned &next,
                           SeenKeys &seen, StringRef name, Key &key) {
  key = findKey(keys, next, name);
  return key == Key::Unknown || seen.insert(key) ||
         fail("comes twice in one object");
}

bool Importer::requireKey(const SeenKeys &seen, Key key, StringRef name) {
  return seen.contains(key) ||
         fail("the required key '" + Twine(name) + "' is missing");
}

bool Importer::readDocument() {
  unsigned next = 0;
  return forEachMember([&](StringRef name) {
           Key key;
           if (!enterMember(kDocumentKeys, next, documentSeen, name, key) ||
               !(key == Key::Unknown ? skipUnknown(name)
                                     : readDocumentMember(key)))
             return false;
           keyName = {};
           return true;
         }) &&
         (lexer.isFinished() || expected("the end of the file")) &&
         finishDocument();
}

bool Importer::readDocumentMember(Key key) {
  switch (key) {
  case Key::Version: {
    int64_t version;
    if (!readInteger(version))
      return false;
    return version == 1 ||
           fail("this is graph JSON of version " + Twine(version) +
                "; this opprof reads version 1: write the file again with "
                "the `opprof export` that belongs to it");
  }
  case Key::Producer: {
    Attribute producer = readValue(Grammar::Json);
    if (producer)
      module->getOperation()->setAttr(kProducerAttr, producer);
    return !!producer;
  }
  case Key::Types:
    return readTable(Section::Types, &Importer::addType);
  case Key::Stacks:
    return readTable(Section::Stacks, &Importer::addStack);
  case Key::Modules:
    return readTable(Section::Modules, &Importer::addModules);
  default:
    if (!documentSeen.contains(Key::Version))
      return fail("the file has no 'opprof_graph_version' before its graphs: "
                  "it is no graph JSON");
    return forEachElement([&] { return readGraph(); });
  }
}

/// An array, every element of which is a value that `add` takes.
bool Importer::readTable(Section table, bool (Importer::*add)(Attribute)) {
  if (lexer.peek() != '[')
    return unexpected("an array");
  Section before = section;
  section = table;
  keyName = {};
  if (!forEachElement([&] {
        Attribute value = readValue(Grammar::Json);
        return value && (this->*add)(value);
      }))
    return false;
  section = before;
  return true;
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

LocationAttr Importer::makeLocation(StringAttr name, int64_t stack,
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
  return getNodeLocation(name, DictionaryAttr::getWithSorted(context, metadata),
                         place);
}

bool Importer::readGraph() {
  ++numGraphs;
  graphSeen = {};
  graphName = {};
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

  unsigned next = 0;
  section = Section::Graph;
  keyName = {};
  if (!forEachMember([&](StringRef name) {
        Key key;
        if (!enterMember(kGraphKeys, next, graphSeen, name, key) ||
            !(key == Key::Unknown ? skipUnknown(name) : readGraphMember(key)))
          return false;
        keyName = {};
        return true;
      }) ||
      !finishGraph())
    return false;
  section = Section::Document;
  return true;
}

bool Importer::readGraphMember(Key key) {
  StringRef string;
  switch (key) {
  case Key::Name:
    if (!readText(graphName))
      return false;
    if (!graphNames.insert(graphName).second)
      return fail("a second graph of this name; graphs are told apart by "
                  "name, so rename one");
    return !graphName.empty() || fail("the name is empty");
  case Key::Stage:
    if (!readString(string))
      return false;
    graph.setStage(string);
    return true;
  case Key::InSpec:
  case Key::OutSpec:
    if (!readString(string))
      return false;
    graph->setAttr(key == Key::InSpec ? kInSpecAttr : kOutSpecAttr,
                   builder.getStringAttr(string));
    return true;
  case Key::Inputs:
    if (graphSeen.contains(Key::Nodes))
      return fail("'inputs' come after 'nodes'; the format has them before");
    return readTable(Section::Inputs, &Importer::addInput);
  case Key::Nodes:
    return readNodes();
  case Key::Outputs:
    if (!graphSeen.contains(Key::Nodes))
      return fail("'outputs' come before 'nodes'; the format has them after");
    return forEachElement([&] { return readOutput(); });
  case Key::RangeConstraints:
    return readRangeConstraints();
  default: {
    Attribute value = readValue(Grammar::Json);
    if (!value)
      return false;
    auto members = dyn_cast<DictionaryAttr>(value);
    if (!members)
      return fail("expected an object");
    if (!members.empty())
      graph->setAttr(kAttributesAttr, members);
    return true;
  }
  }
}

bool Importer::readRangeConstraints() {
  Attribute value = readValue(Grammar::Json);
  if (!value)
    return false;
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
    } else if (warnedKeys.insert(key).second) {
      warn("the key '" + key +
           "' is unknown, and left out here and wherever else it comes");
    }
  }
  if (!name || name.getValue().empty())
    return fail("the required key 'name' is missing");
  if (!kind)
    return fail("the required key 'kind' is missing");
  if (kind.getValue() != "user_input" && !target)
    return fail("the required key 'target' is missing: a " + kind.getValue() +
                " has one");
  if (!values.try_emplace(llvm::CachedHashStringRef(name.getValue())).second)
    return fail("there are two inputs called '" + name.getValue() + "'");
  inputNames.push_back(name);
  inputTypes.push_back(type < 0 ? Type(unknownType) : types[type].type);
  inputLocations.push_back(
      makeLocation(name, -1, -1, fromNode, StringAttr(), IntegerAttr()));
  inputAttrs.push_back(DictionaryAttr::get(context, attributes));
  return true;
}

bool Importer::readNodes() {
  if (!requireKey(graphSeen, Key::Inputs, "inputs"))
    return false;
  Block &block = graph.getBlock();
  for (auto [name, type, location] :
       llvm::zip(inputNames, inputTypes, inputLocations))
    values[llvm::CachedHashStringRef(name)] = block.addArgument(type, location);
  graph.setFunctionType(builder.getFunctionType(inputTypes, {}));
  graph.setAllArgAttrs(inputAttrs);
  builder.setInsertionPointToEnd(&block);
  return forEachElement([&] { return readNode(); });
}

bool Importer::readNode() {
  if (lexer.peek() != '{')
    return unexpected("an object");
  node.clear();
  section = Section::Node;
  keyName = {};
  if (!forEachMember([&](StringRef name) {
        Key key;
        if (!enterMember(kNodeKeys, nextNodeKey, node.seen, name, key) ||
            !(key == Key::Unknown ? skipUnknown(name) : readNodeMember(key)))
          return false;
        keyName = {};
        return true;
      }) ||
      !finishNode())
    return false;
  section = Section::Graph;
  return true;
}

bool Importer::readNodeMember(Key key) {
  switch (key) {
  case Key::Name:
    if (!readText(node.name))
      return false;
    if (node.name.empty())
      return fail("the name is empty");
    node.nameAttr = builder.getStringAttr(node.name);
    return true;
  case Key::Op:
    return readText(node.op);
  case Key::Target:
    return readText(node.target);
  case Key::Args: {
    operands = &node.operands;
    Attribute args = readValue(Grammar::Argument);
    if (!args)
      return false;
    node.args = dyn_cast<ArrayAttr>(args);
    return node.args || fail("expected an array of arguments");
  }
  case Key::Kwargs:
    return readKwargs();
  case Key::Type:
    return readIndex(types.size(), "type", node.type);
  case Key::Stack:
    return readIndex(stacks.size(), "stack", node.stack);
  case Key::Modules:
    return readIndex(moduleStacks.size(), "module stack", node.modules);
  case Key::SeqNr: {
    int64_t number;
    if (!readInteger(number))
      return false;
    node.seqNr = builder.getI64IntegerAttr(number);
    return true;
  }
  case Key::OriginalAten: {
    StringRef name;
    if (!readString(name))
      return false;
    node.originalAten = strings.get(name);
    return true;
  }
  default: {
    Attribute fromNode = readValue(Grammar::Json);
    if (!fromNode)
      return false;
    node.fromNode = dyn_cast<ArrayAttr>(fromNode);
    return (node.fromNode &&
            llvm::all_of(node.fromNode, llvm::IsaPred<DictionaryAttr>)) ||
           fail("expected an array of objects");
  }
  }
}

bool Importer::readKwargs() {
  operands = &node.kwargOperands;
  return forEachMember([&](StringRef name) {
    if (name.empty())
      return fail("a keyword argument has an empty name");
    node.kwargNames.push_back(strings.get(name));
    Attribute value = readValue(Grammar::Argument);
    node.kwargs.push_back(value);
    return !!value;
  });
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
  auto [entry, isNew] =
      values.try_emplace(llvm::CachedHashStringRef(node.name));
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
  NodeOp::Properties properties;
  properties.target = strings.get(node.target);
  properties.args = args;
  properties.kind = NodeKindAttr::get(context, *kind);
  properties.kwarg_names = names;
  mlir::Type type = node.type < 0 ? unknownType : types[node.type].type;
  Operation *op = Operation::create(
      makeLocation(node.nameAttr, node.stack, node.modules, node.fromNode,
                   node.originalAten, node.seqNr),
      nodeName, type, node.operands, noAttributes, &properties,
      /*successors=*/BlockRange(), /*numRegions=*/0);
  builder.insert(op);
  entry->second = op->getResult(0);
  return true;
}

bool Importer::readOutput() {
  if (lexer.peek() != '{')
    return unexpected("an object");
  output = {};
  section = Section::Output;
  keyName = {};
  unsigned next = 0;
  if (!forEachMember([&](StringRef name) {
        Key key;
        if (!enterMember(kOutputKeys, next, output.seen, name, key))
          return false;
        bool isRead;
        if (key == Key::Unknown) {
          isRead = skipUnknown(name);
        } else if (key == Key::Value) {
          operands = &outputOperands;
          output.value = readValue(Grammar::Argument);
          isRead = !!output.value;
        } else {
          isRead = readText(key == Key::Kind ? output.kind : output.target);
        }
        keyName = {};
        return isRead;
      }) ||
      !finishOutput())
    return false;
  section = Section::Graph;
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
    if (values.contains(llvm::CachedHashStringRef(danglingName)))
      return failAt(
          danglingPlace, danglingUser,
          "'" + danglingName +
              "' comes later in the graph (or is this node): the nodes are "
              "not in the order in which they run, or the graph has a cycle");
    return failAt(danglingPlace, danglingUser,
                  "there is no node or input called '" + danglingName +
                      "' in this graph");
  }
  auto output =
      OutputOp::create(builder, UnknownLoc::get(context), outputOperands);
  output.setArgsAttr(builder.getArrayAttr(outputArgs));
  if (!isPlainSignature)
    output.setSignatureAttr(builder.getArrayAttr(outputSignature));
  graph.setFunctionType(builder.getFunctionType(
      inputTypes, TypeRange(ValueRange(outputOperands))));
  graph.setSymName(graphName);
  graph->setLoc(getGraphLocation(graph.getBlock()));
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
  return readDocument() ? std::move(module) : nullptr;
}

OwningOpRef<ModuleOp> opprof::fx::importGraphJSON(StringRef text,
                                                  StringRef fileName,
                                                  MLIRContext *context) {
  context->loadDialect<FXDialect>();
  // One thread makes all the attributes: no need to lock and cache for others.
  bool wasThreaded = context->isMultithreadingEnabled();
  context->disableMultithreading();
  OwningOpRef<ModuleOp> module = Importer(text, fileName, context).run();
  if (wasThreaded)
    context->enableMultithreading();
  return module;
}
