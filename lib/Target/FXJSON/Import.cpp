// Reads graph JSON: one pass over the text that makes MLIR ops as it goes, so
// that a graph is never held twice. Here are the document and its graphs;
// JSONSource reads the text and says what is wrong with it, ValueReader makes
// attributes of values and arguments, Tables holds what nodes refer to.

#include "Tables.h"
#include "ValueReader.h"

#include "opprof/Dialect/FX/IR/Arguments.h"
#include "opprof/Dialect/FX/IR/FX.h"
#include "opprof/Dialect/FX/IR/Provenance.h"
#include "opprof/Target/FXJSON/FXJSON.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace opprof::fx;
using llvm::Twine;

namespace {
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

class Importer {
public:
  Importer(StringRef text, StringRef fileName, MLIRContext *context)
      : context(context), builder(context),
        source(text, fileName, context, [this] { return describePlace(); }),
        lexer(source.lexer), values(source, context), tables(source, context),
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

  // Functions that return a truth value return false after an error.
  std::string describePlace() const;
  bool fail(const Twine &what) { return source.fail(what); }
  bool readIndex(size_t limit, StringRef what, int64_t &index);

  Key findKey(ArrayRef<KeyName> keys, unsigned &next, StringRef name);
  bool enterMember(ArrayRef<KeyName> keys, unsigned &next, SeenKeys &seen,
                   StringRef name, Key &key);
  bool requireKey(const SeenKeys &seen, Key key, StringRef name);
  bool readDocument();
  bool readDocumentMember(Key key);
  template <typename Add> bool readTable(Section table, Add add);
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

  MLIRContext *context;
  OpBuilder builder;
  JSONSource source;
  JSONLexer &lexer;
  ValueReader values;
  Tables tables;
  OperationName nodeName;
  ObjectType unknownType;
  DictionaryAttr noAttributes;
  StringAttr codeKey, codesKey, fromNodeKey, modulesKey, originalAtenKey,
      seqNrKey;

  OwningOpRef<ModuleOp> module;
  Section section = Section::Document;
  SeenKeys documentSeen;
  llvm::StringSet<> graphNames;
  unsigned numGraphs = 0;

  // The graph being read.
  GraphOp graph;
  SeenKeys graphSeen;
  StringRef graphName;
  SmallVector<mlir::Type> inputTypes;
  SmallVector<Location> inputLocations;
  SmallVector<DictionaryAttr> inputAttrs;
  SmallVector<StringRef> inputNames;
  NodeRecord node;
  unsigned nextNodeKey = 0;
  size_t numNodes = 0, numOutputs = 0;
  OutputRecord output;
  SmallVector<Attribute> outputArgs, outputSignature;
  SmallVector<Value> outputOperands;
  bool isPlainSignature = true;
};
} // namespace

/// The part of the document that is being read.
std::string Importer::describePlace() const {
  std::string result;
  llvm::raw_string_ostream os(result);
  switch (section) {
  case Section::Document:
    break;
  case Section::Types:
    os << "type #" << tables.types.size();
    break;
  case Section::Stacks:
    os << "stack #" << tables.stacks.size();
    break;
  case Section::Modules:
    os << "module stack #" << tables.moduleStacks.size();
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
  return result;
}

/// An index into a table of `limit` entries, each of which is called `what`.
bool Importer::readIndex(size_t limit, StringRef what, int64_t &index) {
  if (!source.readInteger(index))
    return false;
  if (index >= 0 && static_cast<uint64_t>(index) < limit)
    return true;
  return fail("there is no " + what + " #" + Twine(index) +
              " in the table of " +
              (what == "module stack" ? "modules" : what + "s"));
}

//===----------------------------------------------------------------------===//
// Document
//===----------------------------------------------------------------------===//

/// Looks first at the key after the one found before: objects of one kind have
/// their keys in one order.
Key Importer::findKey(ArrayRef<KeyName> keys, unsigned &next, StringRef name) {
  for (size_t tried = 0; tried < keys.size(); ++tried) {
    if (next >= keys.size())
      next = 0;
    const auto &[known, key] = keys[next++];
    if (known == name) {
      source.keyName = known;
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
  return source.forEachMember([&](StringRef name) {
    Key key;
    if (!enterMember(kDocumentKeys, next, documentSeen, name, key) ||
        !(key == Key::Unknown ? source.skipUnknown(name)
                              : readDocumentMember(key)))
      return false;
    source.keyName = {};
    return true;
  }) && (lexer.isFinished() || source.expected("the end of the file")) &&
         finishDocument();
}

bool Importer::readDocumentMember(Key key) {
  switch (key) {
  case Key::Version: {
    int64_t version;
    if (!source.readInteger(version))
      return false;
    return version == 1 ||
           fail("this is graph JSON of version " + Twine(version) +
                "; this opprof reads version 1: write the file again with "
                "the `opprof export` that belongs to it");
  }
  case Key::Producer: {
    Attribute producer = values.readJSON();
    if (producer)
      module->getOperation()->setAttr(kProducerAttr, producer);
    return !!producer;
  }
  case Key::Types:
    return readTable(Section::Types,
                     [&](Attribute value) { return tables.addType(value); });
  case Key::Stacks:
    return readTable(Section::Stacks,
                     [&](Attribute value) { return tables.addStack(value); });
  case Key::Modules:
    return readTable(Section::Modules,
                     [&](Attribute value) { return tables.addModules(value); });
  default:
    if (!documentSeen.contains(Key::Version))
      return fail("the file has no 'opprof_graph_version' before its graphs: "
                  "it is no graph JSON");
    return source.forEachElement([&] { return readGraph(); });
  }
}

/// An array, every element of which is a value that `add` takes.
template <typename Add> bool Importer::readTable(Section table, Add add) {
  if (lexer.peek() != '[')
    return source.unexpected("an array");
  Section before = section;
  section = table;
  source.keyName = {};
  if (!source.forEachElement([&] {
        Attribute value = values.readJSON();
        return value && add(value);
      }))
    return false;
  section = before;
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
    const Tables::StackEntry &entry = tables.stacks[stack];
    place = entry.location;
    if (entry.userCode)
      metadata.emplace_back(codeKey, entry.userCode);
    if (entry.codes)
      metadata.emplace_back(codesKey, entry.codes);
  }
  if (fromNode)
    metadata.emplace_back(fromNodeKey, fromNode);
  if (modules >= 0)
    metadata.emplace_back(modulesKey, tables.moduleStacks[modules]);
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
  values.scope.clear();
  numNodes = numOutputs = 0;
  outputArgs.clear();
  outputSignature.clear();
  outputOperands.clear();
  isPlainSignature = true;
  builder.setInsertionPointToEnd(module->getBody());
  graph = GraphOp::create(builder, UnknownLoc::get(context), "",
                          builder.getFunctionType({}, {}));
  graph.getBody().emplaceBlock();

  unsigned next = 0;
  section = Section::Graph;
  source.keyName = {};
  if (!source.forEachMember([&](StringRef name) {
        Key key;
        if (!enterMember(kGraphKeys, next, graphSeen, name, key) ||
            !(key == Key::Unknown ? source.skipUnknown(name)
                                  : readGraphMember(key)))
          return false;
        source.keyName = {};
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
    if (!source.readText(graphName))
      return false;
    if (!graphNames.insert(graphName).second)
      return fail("a second graph of this name; graphs are told apart by "
                  "name, so rename one");
    return !graphName.empty() || fail("the name is empty");
  case Key::Stage:
    if (!source.readString(string))
      return false;
    graph.setStage(string);
    return true;
  case Key::InSpec:
  case Key::OutSpec:
    if (!source.readString(string))
      return false;
    graph->setAttr(key == Key::InSpec ? kInSpecAttr : kOutSpecAttr,
                   builder.getStringAttr(string));
    return true;
  case Key::Inputs:
    if (graphSeen.contains(Key::Nodes))
      return fail("'inputs' come after 'nodes'; the format has them before");
    return readTable(Section::Inputs,
                     [&](Attribute value) { return addInput(value); });
  case Key::Nodes:
    return readNodes();
  case Key::Outputs:
    if (!graphSeen.contains(Key::Nodes))
      return fail("'outputs' come before 'nodes'; the format has them after");
    return source.forEachElement([&] { return readOutput(); });
  case Key::RangeConstraints:
    return readRangeConstraints();
  default: {
    Attribute value = values.readJSON();
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
  Attribute value = values.readJSON();
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
      if (type < 0 || type >= static_cast<int64_t>(tables.types.size()))
        return fail("'type' is no index into the table of types");
    } else if (key == "from_node") {
      fromNode = dyn_cast<ArrayAttr>(content);
      if (!fromNode)
        return fail("'from_node' is no array");
    } else if (source.isNewUnknown(key)) {
      source.warn("the key '" + key +
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
  if (!values.scope.values
           .try_emplace(llvm::CachedHashStringRef(name.getValue()))
           .second)
    return fail("there are two inputs called '" + name.getValue() + "'");
  inputNames.push_back(name);
  inputTypes.push_back(type < 0 ? Type(unknownType) : tables.types[type].type);
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
    values.scope.values[llvm::CachedHashStringRef(name)] =
        block.addArgument(type, location);
  graph.setFunctionType(builder.getFunctionType(inputTypes, {}));
  graph.setAllArgAttrs(inputAttrs);
  builder.setInsertionPointToEnd(&block);
  return source.forEachElement([&] { return readNode(); });
}

bool Importer::readNode() {
  if (lexer.peek() != '{')
    return source.unexpected("an object");
  node.clear();
  values.ownName = {};
  section = Section::Node;
  source.keyName = {};
  if (!source.forEachMember([&](StringRef name) {
        Key key;
        if (!enterMember(kNodeKeys, nextNodeKey, node.seen, name, key) ||
            !(key == Key::Unknown ? source.skipUnknown(name)
                                  : readNodeMember(key)))
          return false;
        source.keyName = {};
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
    if (!source.readText(node.name))
      return false;
    if (node.name.empty())
      return fail("the name is empty");
    values.ownName = node.nameAttr = builder.getStringAttr(node.name);
    return true;
  case Key::Op:
    return source.readText(node.op);
  case Key::Target:
    return source.readText(node.target);
  case Key::Args: {
    Attribute args = values.readArgument(node.operands);
    if (!args)
      return false;
    node.args = dyn_cast<ArrayAttr>(args);
    return node.args || fail("expected an array of arguments");
  }
  case Key::Kwargs:
    return readKwargs();
  case Key::Type:
    return readIndex(tables.types.size(), "type", node.type);
  case Key::Stack:
    return readIndex(tables.stacks.size(), "stack", node.stack);
  case Key::Modules:
    return readIndex(tables.moduleStacks.size(), "module stack", node.modules);
  case Key::SeqNr: {
    int64_t number;
    if (!source.readInteger(number))
      return false;
    node.seqNr = builder.getI64IntegerAttr(number);
    return true;
  }
  case Key::OriginalAten: {
    StringRef name;
    if (!source.readString(name))
      return false;
    node.originalAten = values.strings.get(name);
    return true;
  }
  default: {
    Attribute fromNode = values.readJSON();
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
  return source.forEachMember([&](StringRef name) {
    if (name.empty())
      return fail("a keyword argument has an empty name");
    node.kwargNames.push_back(values.strings.get(name));
    Attribute value = values.readArgument(node.kwargOperands);
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
      values.scope.values.try_emplace(llvm::CachedHashStringRef(node.name));
  if (!isNew)
    return fail("a second node or input of this name; names are how nodes "
                "refer to each other, so each comes once in a graph");
  // After a dangling reference nothing is built, but names are still collected.
  if (values.scope.danglingPlace)
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
  properties.target = values.strings.get(node.target);
  properties.args = args;
  properties.kind = NodeKindAttr::get(context, *kind);
  properties.kwarg_names = names;
  mlir::Type type = node.type < 0 ? unknownType : tables.types[node.type].type;
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
    return source.unexpected("an object");
  output = {};
  section = Section::Output;
  source.keyName = {};
  unsigned next = 0;
  if (!source.forEachMember([&](StringRef name) {
        Key key;
        if (!enterMember(kOutputKeys, next, output.seen, name, key))
          return false;
        bool isRead;
        if (key == Key::Unknown) {
          isRead = source.skipUnknown(name);
        } else if (key == Key::Value) {
          output.value = values.readArgument(outputOperands);
          isRead = !!output.value;
        } else {
          isRead =
              source.readText(key == Key::Kind ? output.kind : output.target);
        }
        source.keyName = {};
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
  if (values.scope.danglingPlace) {
    // The message is about the reference, not about the end of the graph.
    if (values.scope.values.contains(
            llvm::CachedHashStringRef(values.scope.danglingName)))
      return source.failAt(
          values.scope.danglingPlace, values.scope.danglingUser,
          "'" + values.scope.danglingName +
              "' comes later in the graph (or is this node): the nodes are "
              "not in the order in which they run, or the graph has a cycle");
    return source.failAt(values.scope.danglingPlace, values.scope.danglingUser,
                         "there is no node or input called '" +
                             values.scope.danglingName + "' in this graph");
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
  for (const auto &[symbol, user] : values.graphReferences)
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
