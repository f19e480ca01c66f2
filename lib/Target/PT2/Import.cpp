// Reads the JSON of torch.export's archives (torch/_export/serde/schema.py)
// into the fx dialect, as torch.export.load reads it into an ExportedProgram:
// the archive, its documents, and their graphs.

#include "Enums.h"
#include "Importer.h"
#include "ZipArchive.h"

#include "opprof/Support/ReadingLimits.h"
#include "opprof/Target/PT2/PT2.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace opprof::fx;
using namespace opprof::fx::pt2;
using llvm::Twine;

LogicalResult Importer::fail(const Twine &what) {
  InFlightDiagnostic diagnostic = emitError(UnknownLoc::get(context));
  diagnostic << fileName << ": ";
  if (!entryName.empty())
    diagnostic << entryName << ": ";
  if (current && !current->name.empty())
    diagnostic << "graph '" << current->name << "'";
  if (current && !current->node.empty())
    diagnostic << ", node '" << current->node << "'";
  if (current)
    diagnostic << ": ";
  diagnostic << what.str();
  return failure();
}

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

/// What graph JSON calls the kind of an input that a signature calls `kind`, or
/// empty.
static StringRef getInputKind(StringRef kind) {
  return llvm::StringSwitch<StringRef>(kind)
      .Case("parameter", "parameter")
      .Case("buffer", "buffer")
      .Case("tensor_constant", "constant_tensor")
      .Case("custom_obj", "constant_object")
      .Case("token", "token")
      .Cases({"user_input", "constant_input"}, kUserInputKind)
      .Default("");
}

/// The first of the members that is a string, or empty.
static StringRef getFirstString(const json &value,
                                std::initializer_list<const char *> keys) {
  for (const char *key : keys)
    if (StringRef text = getString(value, key); !text.empty())
      return text;
  return {};
}

/// An input, with its entry in the signature or null where there is none.
LogicalResult Importer::readInput(Graph &graph, size_t index, const json &input,
                                  std::optional<json> spec) {
  InputDescription description;
  std::string name = getOutputName(input).str();
  StringRef kind = kUserInputKind;
  if (spec) {
    auto [which, content] = getUnion(*spec);
    kind = getInputKind(which);
    if (kind.empty())
      return fail("input #" + Twine(index) + " is of the unknown kind '" +
                  which + "'");
    StringRef target =
        getFirstString(*content, {"parameter_name", "buffer_name",
                                  "tensor_constant_name", "custom_obj_name"});
    if (!target.empty())
      description.target = builder.getStringAttr(target);
    if (!getFlag(*content, "persistent", /*otherwise=*/true))
      description.persistent = builder.getBoolAttr(false);
    if (name.empty())
      name = getString(*content, "name").str();
    if (std::optional<json> argument = getMember(*content, "arg");
        argument && name.empty())
      name = getString(*argument, "name").str();
  }
  if (name.empty())
    name = graph.builder.makeUniqueName("arg" + std::to_string(index));
  description.kind = builder.getStringAttr(kind);
  if (!graph.builder.addInput(builder.getStringAttr(name),
                              getOutputType(graph, input), description))
    return fail("there are two inputs called '" + name + "'");
  return success();
}

LogicalResult Importer::readInputs(Graph &graph,
                                   std::optional<json> signature) {
  SmallVector<json> inputs = getElements(getMember(graph.source, "inputs"));
  SmallVector<json> specs = getElements(
      signature ? getMember(*signature, "input_specs") : std::nullopt);
  if (signature && specs.size() != inputs.size())
    return fail("the graph has " + Twine(inputs.size()) +
                " inputs, but its signature speaks of " + Twine(specs.size()));
  for (auto [index, input] : llvm::enumerate(inputs))
    if (failed(
            readInput(graph, index, input,
                      signature ? std::optional(specs[index]) : std::nullopt)))
      return failure();
  return success();
}

/// An output with its entry in the signature.
LogicalResult Importer::readOutputSpec(Graph &graph, Attribute value,
                                       const json &spec) {
  auto [kind, content] = getUnion(spec);
  if (!content)
    return fail("an output's signature is no object with one key");
  if (!llvm::is_contained(kOutputKinds, kind))
    return fail("an output is of the unknown kind '" + kind + "'");
  StringRef target = getFirstString(
      *content, {"parameter_name", "buffer_name", "user_input_name"});
  std::optional<StringRef> known;
  if (!target.empty())
    known = target;
  graph.builder.addOutput(value, kind, known);
  return success();
}

LogicalResult Importer::readOutputs(Graph &graph,
                                    std::optional<json> signature) {
  graph.node.clear();
  SmallVector<Attribute> values;
  for (const json &output : getElements(getMember(graph.source, "outputs"))) {
    values.push_back(
        readArgument(graph, output, graph.builder.getOutputOperands()));
    if (!values.back())
      return failure();
  }
  if (!signature) {
    for (Attribute value : values)
      graph.builder.addOutput(value);
    return success();
  }
  SmallVector<json> specs = getElements(getMember(*signature, "output_specs"));
  if (specs.size() != values.size())
    return fail("the graph has " + Twine(values.size()) +
                " outputs, but its signature speaks of " + Twine(specs.size()));
  for (auto [value, spec] : llvm::zip(values, specs))
    if (failed(readOutputSpec(graph, value, spec)))
      return failure();
  return success();
}

/// Refuses what no tensor is: what such a graph computes is not known.
LogicalResult Importer::checkTensors(Graph &graph) {
  for (const auto &entry : graph.values[kTensors]) {
    const json &meta = entry.getValue();
    auto dtype = getInteger(getMember(meta, "dtype"));
    if (dtype && getScalarTypeName(*dtype).empty())
      return fail("the tensor '" + entry.getKey() + "' is of the dtype " +
                  Twine(*dtype) + ", which PyTorch 2.6 to 2.13 do not have");
    for (const json &size : getElements(getMember(meta, "sizes")))
      if (auto number = dyn_cast_or_null<IntegerAttr>(getExtent(size));
          number && number.getInt() < 0)
        return fail("the tensor '" + entry.getKey() + "' has a size of " +
                    Twine(number.getInt()));
  }
  return success();
}

LogicalResult Importer::readGraph(Graph &graph, std::optional<json> signature) {
  current = &graph;
  for (const char *key : {"inputs", "outputs", "nodes"})
    if (std::optional<json> list = getMember(graph.source, key);
        !list || !list->is_array())
      return fail("the required key '" + Twine(key) +
                  "' is missing or no array");
  for (StringRef table : kValueTables)
    if (std::optional<json> values = getMember(graph.source, table))
      if (opprof::JSONReading::object entries; !values->get(entries))
        for (auto [name, value] : entries)
          if (!value.is_null())
            graph.values[table].try_emplace(name, value);
  if (failed(checkTensors(graph)))
    return failure();
  graph.builder.setStage("export");
  if (failed(readInputs(graph, signature)))
    return failure();
  for (const json &node : getElements(getMember(graph.source, "nodes")))
    if (failed(readNode(graph, node)))
      return failure();
  if (failed(readOutputs(graph, signature)))
    return failure();
  if (getFlag(graph.source, "is_single_tensor_return"))
    graph.builder.setAttribute(
        kAttributesAttr, builder.getDictionaryAttr(builder.getNamedAttr(
                             kOutputFormKey, builder.getStringAttr("single"))));
  graph.builder.finish(graph.name, /*isPublic=*/graph.depth == 0);
  return success();
}

/// Texts of one writer, which gives the keys of equal objects in one order.
static bool areEqual(const json &first, const json &second) {
  return simdjson::minify(first) == simdjson::minify(second);
}

Attribute Importer::readSubgraph(Graph &graph, const json &argument) {
  StringRef name = getString(argument, "name");
  std::optional<json> source = getMember(argument, "graph");
  if (name.empty() || !source) {
    (void)fail("holds a subgraph without a name or a graph");
    return {};
  }
  if (graph.depth >= kMaxGraphNesting) {
    (void)fail("subgraphs are nested deeper than " + Twine(kMaxGraphNesting));
    return {};
  }
  // One subgraph that several nodes call is written at each of them.
  auto found = graph.subgraphs.find(name);
  if (found != graph.subgraphs.end() && areEqual(found->second.first, *source))
    return found->second.second;

  std::string path = graph.depth ? graph.name + "." + name.str() : name.str();
  Graph child(program, *source, program.claimUniqueName(path), graph.depth + 1);
  auto symbol = FlatSymbolRefAttr::get(context, child.name);
  graph.subgraphs.insert_or_assign(name, std::pair(*source, symbol));
  LogicalResult result = readGraph(child, /*signature=*/std::nullopt);
  current = &graph;
  return succeeded(result) ? Attribute(symbol) : Attribute();
}

//===----------------------------------------------------------------------===//
// Documents
//===----------------------------------------------------------------------===//

/// What the document says of the graph and of the module as a whole.
void Importer::readModelAttributes(const json &document, GraphBuilder &graph) {
  NamedAttrList ranges;
  std::optional<json> constraints = getMember(document, "range_constraints");
  opprof::JSONReading::object entries;
  if (constraints && !constraints->get(entries)) {
    for (auto [symbol, range] : entries) {
      auto bound = [&, &range = range](StringRef key) -> Attribute {
        if (auto number = getInteger(getMember(range, key)))
          return builder.getI64IntegerAttr(*number);
        return opprof::fx::NoneAttr::get(context);
      };
      if (!symbol.empty())
        ranges.set(symbol,
                   builder.getArrayAttr({bound("min_val"), bound("max_val")}));
    }
  }
  if (!ranges.empty())
    graph.setAttribute(kRangeConstraintsAttr, ranges.getDictionary(context));
  // The call of the whole module says how arguments and results nest.
  std::optional<json> graphModule = getMember(document, "graph_module");
  for (const json &call :
       getElements(getMember(*graphModule, "module_call_graph"))) {
    std::optional<json> signature = getMember(call, "signature");
    std::optional<json> path = getMember(call, "fqn");
    if (!signature || !path || getString(*path) != StringRef(""))
      continue;
    for (auto [key, attribute] : {std::pair("in_spec", kInSpecAttr),
                                  std::pair("out_spec", kOutSpecAttr)})
      if (StringRef spec = getString(*signature, key); !spec.empty())
        graph.setAttribute(attribute, builder.getStringAttr(spec));
    break;
  }
  if (StringRef torch = getString(document, "torch_version"); !torch.empty())
    program.getModule()->setAttr(kProducerAttr,
                                 builder.getDictionaryAttr(builder.getNamedAttr(
                                     "torch", builder.getStringAttr(torch))));
}

LogicalResult Importer::readModel(StringRef entry, StringRef text,
                                  StringRef name) {
  entryName = entry.str();
  current = nullptr;
  if (text.trim().empty())
    return fail("it is empty");
  LogicalResult result = failure();
  opprof::JSONReading reading((fileName + ": " + entry).str());
  if (llvm::Error error = reading.parse(
          text,
          [&](json document) {
            result = readDocument(document, name);
            return llvm::Error::success();
          },
          kMaxDepth))
    return emitError(UnknownLoc::get(context))
           << llvm::toString(std::move(error));
  return result;
}

LogicalResult Importer::readDocument(const json &document, StringRef name) {
  std::optional<json> version = getMember(document, "schema_version");
  auto major =
      version ? getInteger(getMember(*version, "major")) : std::nullopt;
  if (!major)
    return fail("it has no 'schema_version': this is no graph of torch.export");
  if (*major != 8)
    return fail("its schema is version " + Twine(*major) +
                "; opprof reads version 8, of PyTorch 2.6 to 2.13: save the "
                "model again with one of these");
  std::optional<json> graphModule = getMember(document, "graph_module");
  std::optional<json> source =
      graphModule ? getMember(*graphModule, "graph") : std::nullopt;
  std::optional<json> signature =
      graphModule ? getMember(*graphModule, "signature") : std::nullopt;
  if (!source || !signature)
    return fail("the required key 'graph_module', its 'graph' or its "
                "'signature' is missing");

  Graph graph(program, *source, program.claimUniqueName(name), /*depth=*/0);
  if (failed(readGraph(graph, signature)))
    return failure();
  readModelAttributes(document, graph.builder);
  current = nullptr;
  return success();
}

OwningOpRef<ModuleOp> Importer::run(StringRef bytes) {
  llvm::Expected<ZipArchive> archive = ZipArchive::open(bytes);
  if (!archive) {
    (void)fail(llvm::toString(archive.takeError()));
    return nullptr;
  }
  std::string stem = llvm::sys::path::stem(fileName).str();
  StringRef(stem).consume_back(".noweights");

  // Models by name, and what their graphs are called: as the model is, or as
  // the archive where the model is just called "model".
  SmallVector<std::pair<const ZipArchive::Entry *, std::string>> models;
  for (const ZipArchive::Entry &entry : archive->getEntries()) {
    StringRef path = entry.name;
    auto [folder, file] = path.rsplit('/');
    if (file.empty())
      file = path;
    if (path == "serialized_exported_program.json") {
      models.emplace_back(&entry, stem);
    } else if (file.ends_with(".json") &&
               (folder == "models" || folder.ends_with("/models"))) {
      StringRef root = folder.drop_back(StringRef("models").size());
      StringRef model = file.drop_back(StringRef(".json").size());
      std::string name = model != "model" ? model.str()
                         : root.empty()   ? stem
                                          : root.split('/').first.str();
      models.emplace_back(&entry, name);
    }
  }
  if (models.empty()) {
    bool isCompiled =
        llvm::any_of(archive->getEntries(), [](const auto &entry) {
          return StringRef(entry.name).contains("aotinductor");
        });
    (void)fail(isCompiled
                   ? "this is an AOTInductor package, which holds compiled "
                     "code and no graph: give the file that torch.export.save "
                     "wrote"
                   : "the archive holds no models/*.json and no "
                     "serialized_exported_program.json: torch.export.save did "
                     "not write it");
    return nullptr;
  }
  for (const auto &[entry, name] : models) {
    entryName.clear();
    current = nullptr;
    llvm::Expected<std::string> text = archive->read(*entry);
    if (!text) {
      (void)fail(llvm::toString(text.takeError()));
      return nullptr;
    }
    if (failed(readModel(entry->name, *text, name.empty() ? "graph" : name)))
      return nullptr;
  }
  return program.finish();
}

OwningOpRef<ModuleOp> opprof::fx::importPT2(StringRef archive,
                                            StringRef fileName,
                                            MLIRContext *context) {
  context->loadDialect<FXDialect>();
  limitReading(fileName, archive.size(), kPackedBudget);
  return Importer(fileName, context).run(archive);
}
