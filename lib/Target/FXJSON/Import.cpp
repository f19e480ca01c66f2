// Reads graph JSON: one pass over the text that makes MLIR ops as it goes, so
// that a graph is never held twice. Here are the document and its graphs;
// JSONSource reads the text and says what is wrong with it, ValueReader makes
// attributes of values and arguments, Tables holds what nodes refer to.

#include "Tables.h"
#include "ValueReader.h"

#include "opprof/Dialect/FX/IR/ArgumentForms.h"
#include "opprof/Dialect/FX/IR/GraphBuilder.h"
#include "opprof/Support/ReadingLimits.h"
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
  Blocks,
  Type,
  Stack,
  SeqNr,
  OriginalAten,
  TorchFunction,
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
    {"name", Key::Name},
    {"op", Key::Op},
    {"target", Key::Target},
    {"args", Key::Args},
    {"kwargs", Key::Kwargs},
    {"type", Key::Type},
    {"stack", Key::Stack},
    {"modules", Key::Modules},
    {"seq_nr", Key::SeqNr},
    {"original_aten", Key::OriginalAten},
    {"from_node", Key::FromNode},
    {"blocks", Key::Blocks},
    {"torch_fn", Key::TorchFunction},
};
constexpr KeyName kBlockKeys[] = {
    {"inputs", Key::Inputs},
    {"nodes", Key::Nodes},
    {"outputs", Key::Outputs},
};

/// Blocks of nodes nest no deeper than this: bounds recursion.
constexpr unsigned kMaxBlockNesting = 60;
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
      : builder(context), program(context),
        source(text, fileName, context, [this] { return describePlace(); }),
        lexer(source.lexer), values(source, context), tables(source, context) {}

  OwningOpRef<ModuleOp> run();

private:
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
  bool readNode();
  bool readNodeMember(Key key);
  bool readKwargs();
  bool readBlocks();
  bool readBlock();
  bool readBlockMember(Key key, const SeenKeys &seen);
  bool addBlockInput(Attribute value);
  bool checkReferences();
  bool readOutput();
  bool finishGraph();
  bool finishNode();
  bool finishOutput();
  bool finishDocument();

  Builder builder;
  ModuleBuilder program;
  JSONSource source;
  JSONLexer &lexer;
  ValueReader values;
  Tables tables;

  Section section = Section::Document;
  SeenKeys documentSeen;
  unsigned numGraphs = 0;

  // The graph being read; its builder is in `values`, which looks names up.
  SeenKeys graphSeen;
  StringRef graphName;
  size_t numInputs = 0, numNodes = 0, numOutputs = 0;
  // The node being read.
  NodeDescription node;
  SeenKeys nodeSeen;
  StringRef nodeName, nodeOp, nodeTarget;
  unsigned nextNodeKey = 0;
  unsigned blockNesting = 0;
  OutputRecord output;
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
      os << ", input #" << numInputs;
    else if (section == Section::Output)
      os << ", output #" << numOutputs;
    else if (section == Section::Node && nodeName.empty())
      os << ", node #" << numNodes;
    else if (section == Section::Node)
      os << ", node '" << nodeName << "'";
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
      program.getModule()->setAttr(kProducerAttr, producer);
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

bool Importer::readGraph() {
  ++numGraphs;
  graphSeen = {};
  graphName = {};
  numInputs = numNodes = numOutputs = 0;
  values.scope.begin(program);

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
    if (!program.claimName(graphName))
      return fail("a second graph of this name; graphs are told apart by "
                  "name, so rename one");
    return !graphName.empty() || fail("the name is empty");
  case Key::Stage:
    if (!source.readString(string))
      return false;
    values.scope.graph->setStage(string);
    return true;
  case Key::InSpec:
  case Key::OutSpec:
    if (!source.readString(string))
      return false;
    values.scope.graph->setAttribute(key == Key::InSpec ? kInSpecAttr
                                                        : kOutSpecAttr,
                                     builder.getStringAttr(string));
    return true;
  case Key::Inputs:
    if (graphSeen.contains(Key::Nodes))
      return fail("'inputs' come after 'nodes'; the format has them before");
    return readTable(Section::Inputs,
                     [&](Attribute value) { return addInput(value); });
  case Key::Nodes:
    return requireKey(graphSeen, Key::Inputs, "inputs") &&
           source.forEachElement([&] { return readNode(); });
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
      values.scope.graph->setAttribute(kAttributesAttr, members);
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
    values.scope.graph->setAttribute(kRangeConstraintsAttr, members);
  return true;
}

/// A number as arguments have it; null for anything else.
static Attribute readConstant(Attribute value) {
  if (isa<IntegerAttr, FloatAttr>(value))
    return value;
  auto members = dyn_cast<DictionaryAttr>(value);
  StringRef key = stringifyArgumentForm(ArgumentForm::Float);
  Attribute text = members && members.size() == 1 ? members.get(key) : nullptr;
  // The caller says what is wrong.
  return text ? makeArgument(ArgumentForm::Float, text, [](const Twine &) {})
              : Attribute();
}

bool Importer::addInput(Attribute value) {
  auto members = dyn_cast<DictionaryAttr>(value);
  if (!members)
    return fail("an input is an object");
  StringAttr name;
  Type type;
  InputDescription input;
  for (NamedAttribute member : members) {
    StringRef key = member.getName();
    Attribute content = member.getValue();
    if (key == "name") {
      name = dyn_cast<StringAttr>(content);
    } else if (key == "kind") {
      input.kind = dyn_cast<StringAttr>(content);
      if (!input.kind ||
          !llvm::is_contained(kInputKinds, input.kind.getValue()))
        return fail("'kind' is not parameter, buffer, constant_tensor, "
                    "constant_object, token or user_input");
    } else if (key == "target") {
      input.target = dyn_cast<StringAttr>(content);
      if (!input.target)
        return fail("'target' is no string");
    } else if (key == "persistent") {
      input.persistent = dyn_cast<BoolAttr>(content);
      if (!input.persistent)
        return fail("'persistent' is neither true nor false");
    } else if (key == "constant") {
      input.constant = readConstant(content);
      if (!input.constant)
        return fail("'constant' is neither a number nor true or false");
    } else if (key == "type") {
      auto index = dyn_cast<IntegerAttr>(content);
      if (!index || index.getInt() < 0 ||
          index.getInt() >= static_cast<int64_t>(tables.types.size()))
        return fail("'type' is no index into the table of types");
      type = tables.types[index.getInt()].type;
    } else if (key == "from_node") {
      input.origin.fromNode = dyn_cast<ArrayAttr>(content);
      if (!input.origin.fromNode)
        return fail("'from_node' is no array");
    } else if (source.isNewUnknown(key)) {
      source.warn("the key '" + key +
                  "' is unknown, and left out here and wherever else it comes");
    }
  }
  if (!name || name.getValue().empty())
    return fail("the required key 'name' is missing");
  if (!input.kind)
    return fail("the required key 'kind' is missing");
  if (input.kind.getValue() != kUserInputKind && !input.target)
    return fail("the required key 'target' is missing: a " +
                input.kind.getValue() + " has one");
  if (!values.scope.graph->addInput(name, type, input))
    return fail("there are two inputs called '" + name.getValue() + "'");
  ++numInputs;
  return true;
}

bool Importer::readNode() {
  if (lexer.peek() != '{')
    return source.unexpected("an object");
  node.clear();
  nodeSeen = {};
  nodeName = nodeOp = nodeTarget = {};
  values.ownName = {};
  section = Section::Node;
  source.keyName = {};
  if (!source.forEachMember([&](StringRef name) {
        Key key;
        if (!enterMember(kNodeKeys, nextNodeKey, nodeSeen, name, key) ||
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
  int64_t index;
  switch (key) {
  case Key::Name:
    if (!source.readText(nodeName))
      return false;
    if (nodeName.empty())
      return fail("the name is empty");
    values.ownName = node.name = builder.getStringAttr(nodeName);
    return true;
  case Key::Op:
    return source.readText(nodeOp);
  case Key::Target:
    return source.readText(nodeTarget);
  case Key::Args: {
    Attribute args = values.readArgument(node.operands);
    if (!args)
      return false;
    node.args = dyn_cast<ArrayAttr>(args);
    return node.args || fail("expected an array of arguments");
  }
  case Key::Kwargs:
    return readKwargs();
  case Key::Blocks:
    return readBlocks();
  case Key::Type:
    if (!readIndex(tables.types.size(), "type", index))
      return false;
    node.type = tables.types[index].type;
    return true;
  case Key::Stack:
    if (!readIndex(tables.stacks.size(), "stack", index))
      return false;
    node.origin.stack = tables.stacks[index];
    return true;
  case Key::Modules:
    if (!readIndex(tables.moduleStacks.size(), "module stack", index))
      return false;
    node.origin.modules = tables.moduleStacks[index];
    return true;
  case Key::SeqNr: {
    int64_t number;
    if (!source.readInteger(number))
      return false;
    node.origin.seqNr = builder.getI64IntegerAttr(number);
    return true;
  }
  case Key::OriginalAten: {
    StringRef name;
    if (!source.readString(name))
      return false;
    node.origin.originalAten = values.strings.get(name);
    return true;
  }
  case Key::TorchFunction: {
    Attribute names = values.readJSON();
    if (!names)
      return false;
    node.origin.torchFunction = dyn_cast<ArrayAttr>(names);
    return (node.origin.torchFunction &&
            node.origin.torchFunction.size() == 2 &&
            llvm::all_of(node.origin.torchFunction,
                         llvm::IsaPred<StringAttr>)) ||
           fail("expected an array of two strings");
  }
  default: {
    Attribute fromNode = values.readJSON();
    if (!fromNode)
      return false;
    node.origin.fromNode = dyn_cast<ArrayAttr>(fromNode);
    return (node.origin.fromNode &&
            llvm::all_of(node.origin.fromNode,
                         llvm::IsaPred<DictionaryAttr>)) ||
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

/// The blocks of the node at hand. What was read of it is kept meanwhile.
bool Importer::readBlocks() {
  if (++blockNesting > kMaxBlockNesting)
    return fail("blocks are nested deeper than " + Twine(kMaxBlockNesting));
  NodeDescription outerNode = std::move(node);
  SeenKeys outerSeen = nodeSeen;
  StringRef outerName = nodeName, outerOp = nodeOp, outerTarget = nodeTarget;
  GraphScope outerScope(std::move(values.scope));
  SmallVector<std::unique_ptr<Region>, 0> blocks;
  bool isRead = source.forEachElement([&] {
    values.scope.beginBlock(program);
    if (!readBlock())
      return false;
    blocks.push_back(values.scope.graph->finishBlock());
    return true;
  });
  if (!isRead)
    return false;
  values.scope.resume(std::move(outerScope));
  node = std::move(outerNode);
  node.blocks = std::move(blocks);
  nodeSeen = outerSeen;
  nodeName = outerName;
  nodeOp = outerOp;
  nodeTarget = outerTarget;
  values.ownName = node.name;
  section = Section::Node;
  source.keyName = "blocks";
  --blockNesting;
  return true;
}

bool Importer::readBlock() {
  SeenKeys seen;
  unsigned next = 0;
  return source.forEachMember([&](StringRef name) {
    Key key;
    return enterMember(kBlockKeys, next, seen, name, key) &&
           (key == Key::Unknown ? source.skipUnknown(name)
                                : readBlockMember(key, seen));
  }) && requireKey(seen, Key::Inputs, "inputs") &&
         requireKey(seen, Key::Nodes, "nodes") &&
         requireKey(seen, Key::Outputs, "outputs") && checkReferences();
}

bool Importer::readBlockMember(Key key, const SeenKeys &seen) {
  switch (key) {
  case Key::Inputs:
    if (seen.contains(Key::Nodes))
      return fail("'inputs' come after 'nodes'; the format has them before");
    return readTable(Section::Node,
                     [&](Attribute value) { return addBlockInput(value); });
  case Key::Nodes:
    return requireKey(seen, Key::Inputs, "inputs") &&
           source.forEachElement([&] { return readNode(); });
  default:
    if (!seen.contains(Key::Nodes))
      return fail("'outputs' come before 'nodes'; the format has them after");
    return source.forEachElement([&] {
      Attribute value =
          values.readArgument(values.scope.graph->getOutputOperands());
      if (value)
        values.scope.graph->addOutput(value);
      return !!value;
    });
  }
}

bool Importer::addBlockInput(Attribute value) {
  auto members = dyn_cast<DictionaryAttr>(value);
  auto name = members ? members.getAs<StringAttr>("name") : StringAttr();
  if (!name || name.getValue().empty())
    return fail("an input of a block is an object with a 'name'");
  Type type;
  if (Attribute content = members.get("type")) {
    auto index = dyn_cast<IntegerAttr>(content);
    if (!index || index.getInt() < 0 ||
        index.getInt() >= static_cast<int64_t>(tables.types.size()))
      return fail("'type' is no index into the table of types");
    type = tables.types[index.getInt()].type;
  }
  return values.scope.graph->addInput(name, type, InputDescription()) ||
         fail("a block has two inputs called '" + name.getValue() + "'");
}

bool Importer::finishNode() {
  if (!requireKey(nodeSeen, Key::Name, "name") ||
      !requireKey(nodeSeen, Key::Op, "op") ||
      !requireKey(nodeSeen, Key::Target, "target") ||
      !requireKey(nodeSeen, Key::Args, "args") ||
      !requireKey(nodeSeen, Key::Kwargs, "kwargs"))
    return false;
  std::optional<NodeKind> kind = symbolizeNodeKind(nodeOp);
  if (!kind)
    return fail("'" + Twine(nodeOp) +
                "' is no kind of node: call_function, call_method, "
                "call_module or get_attr");
  if (nodeTarget.empty())
    return fail("the target is empty");
  if (node.kwargNames.size() > 1) {
    llvm::SmallDenseSet<Attribute> seen;
    for (Attribute name : node.kwargNames)
      if (!seen.insert(name).second)
        return fail("the keyword argument '" +
                    cast<StringAttr>(name).getValue() + "' is given twice");
  }
  ++numNodes;
  node.kind = *kind;
  node.target = values.strings.get(nodeTarget);
  // After a dangling reference nothing is built, but names are still collected.
  bool isNew = values.scope.danglingPlace
                   ? values.scope.graph->claimName(node.name)
                   : !!values.scope.graph->addNode(node);
  return isNew ||
         fail("a second node or input of this name; names are how nodes "
              "refer to each other, so each comes once in a graph");
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
          output.value =
              values.readArgument(values.scope.graph->getOutputOperands());
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
  if (!llvm::is_contained(kOutputKinds, output.kind))
    return fail("'" + Twine(output.kind) +
                "' is no kind of output; docs/formats/graph-json.md lists "
                "them");
  ++numOutputs;
  std::optional<StringRef> target;
  if (output.seen.contains(Key::Target))
    target = output.target;
  values.scope.graph->addOutput(output.value, output.kind, target);
  return true;
}

/// Fails where a node names one that is not there, or not yet.
bool Importer::checkReferences() {
  const GraphScope &scope = values.scope;
  if (!scope.danglingPlace)
    return true;
  // The message is about the reference, not about the end of the graph.
  if (scope.graph->hasName(scope.danglingName))
    return source.failAt(
        scope.danglingPlace, scope.danglingUser,
        "'" + scope.danglingName +
            "' comes later in the graph (or is this node): the nodes are "
            "not in the order in which they run, or the graph has a cycle");
  return source.failAt(scope.danglingPlace, scope.danglingUser,
                       "there is no node or input called '" +
                           scope.danglingName + "' in this " +
                           (blockNesting ? "block" : "graph"));
}

bool Importer::finishGraph() {
  if (!requireKey(graphSeen, Key::Name, "name") ||
      !requireKey(graphSeen, Key::Inputs, "inputs") ||
      !requireKey(graphSeen, Key::Nodes, "nodes") ||
      !requireKey(graphSeen, Key::Outputs, "outputs") || !checkReferences())
    return false;
  values.scope.graph->finish(graphName, /*isPublic=*/numGraphs == 1);
  return true;
}

bool Importer::finishDocument() {
  if (!requireKey(documentSeen, Key::Version, "opprof_graph_version") ||
      !requireKey(documentSeen, Key::Graphs, "graphs"))
    return false;
  if (numGraphs == 0)
    return fail("the file holds no graph");
  for (const auto &[symbol, user] : values.graphReferences)
    if (!program.hasName(symbol.getValue()))
      return fail(user + "there is no graph called '" + symbol.getValue() +
                  "' in this file");
  return true;
}

OwningOpRef<ModuleOp> Importer::run() {
  return readDocument() ? program.finish() : nullptr;
}

OwningOpRef<ModuleOp> opprof::fx::importGraphJSON(StringRef text,
                                                  StringRef fileName,
                                                  MLIRContext *context) {
  context->loadDialect<FXDialect>();
  limitReading(fileName, text.size(), kPlainBudget);
  // One thread makes all the attributes: no need to lock and cache for others.
  bool wasThreaded = context->isMultithreadingEnabled();
  context->disableMultithreading();
  OwningOpRef<ModuleOp> module = Importer(text, fileName, context).run();
  if (wasThreaded)
    context->enableMultithreading();
  return module;
}
