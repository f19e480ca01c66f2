// Archives of torch.export as graphs, part by part: documents and graphs in
// Import.cpp, nodes and types in Nodes.cpp, arguments in Arguments.cpp, where
// nodes come from in Metadata.cpp.

#ifndef OPPROF_LIB_TARGET_PT2_IMPORTER_H
#define OPPROF_LIB_TARGET_PT2_IMPORTER_H

#include "Metadata.h"

#include "opprof/Dialect/FX/IR/GraphBuilder.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/Twine.h"

namespace opprof::fx::pt2 {

/// What is known of the graph being read.
struct Graph {
  Graph(ModuleBuilder &program, const json &source, std::string name,
        unsigned depth)
      : source(source), name(std::move(name)), depth(depth), builder(program) {}

  json source;
  std::string name;
  /// The number of graphs whose nodes hold this one.
  unsigned depth;
  GraphBuilder builder;
  llvm::StringMap<std::pair<json, mlir::FlatSymbolRefAttr>> subgraphs;
  /// What the graph says of each of its values, by the table that says it: a
  /// search of the document would take long.
  llvm::StringMap<llvm::StringMap<json>> values;
  /// The node being read, for messages.
  std::string node;
};

class Importer {
public:
  Importer(llvm::StringRef fileName, mlir::MLIRContext *context)
      : fileName(fileName), context(context), builder(context),
        program(context), metadata(context) {}

  mlir::OwningOpRef<mlir::ModuleOp> run(llvm::StringRef bytes);

  /// Says what is wrong at the place that is being read.
  mlir::LogicalResult fail(const llvm::Twine &what);
  mlir::MLIRContext *getContext() { return context; }

  /// Null after an error; values go to `operands`.
  mlir::Attribute readArgument(Graph &graph, const json &argument,
                               llvm::SmallVectorImpl<mlir::Value> &operands);
  /// The symbol of the graph that an argument holds, or null after an error.
  mlir::Attribute readSubgraph(Graph &graph, const json &argument);

private:
  mlir::LogicalResult readModel(llvm::StringRef entry, llvm::StringRef text,
                                llvm::StringRef name);
  mlir::LogicalResult readDocument(const json &document, llvm::StringRef name);
  void readModelAttributes(const json &document, GraphBuilder &graph);
  mlir::LogicalResult readGraph(Graph &graph, std::optional<json> signature);
  mlir::LogicalResult checkTensors(Graph &graph);
  mlir::LogicalResult readInputs(Graph &graph, std::optional<json> signature);
  mlir::LogicalResult readInput(Graph &graph, size_t index, const json &input,
                                std::optional<json> spec);
  mlir::LogicalResult readOutputs(Graph &graph, std::optional<json> signature);
  mlir::LogicalResult readOutputSpec(Graph &graph, mlir::Attribute value,
                                     const json &spec);

  struct Results;
  mlir::LogicalResult readNode(Graph &graph, const json &node);
  mlir::LogicalResult readInputsOfNode(Graph &graph, const json &inputs,
                                       NodeDescription &node);
  Results getResults(Graph &graph, const json &node, bool isHigherOrder);
  mlir::LogicalResult addItem(Graph &graph, const NodeDescription &of,
                              mlir::Value base, llvm::StringRef baseName,
                              size_t index, llvm::StringRef name,
                              mlir::Type type);
  mlir::LogicalResult addItems(Graph &graph, const NodeDescription &of,
                               mlir::Value base, llvm::ArrayRef<json> outputs);
  mlir::LogicalResult addItemsOfList(Graph &graph, const NodeDescription &of,
                                     mlir::Value base, size_t index,
                                     const json &output);

  mlir::Attribute getExtent(const json &size);
  mlir::Type getTensorType(const json &meta);
  mlir::Type getType(Graph &graph, llvm::StringRef name);
  mlir::Type getOutputType(Graph &graph, const json &argument);

  llvm::StringRef fileName;
  mlir::MLIRContext *context;
  mlir::Builder builder;
  ModuleBuilder program;
  MetadataReader metadata;
  std::string entryName;
  /// For messages.
  Graph *current = nullptr;
};

/// The objects of a graph that say what its values are.
inline constexpr llvm::StringLiteral kTensors = "tensor_values";
inline constexpr llvm::StringLiteral kSymInts = "sym_int_values";
inline constexpr llvm::StringLiteral kSymFloats = "sym_float_values";
inline constexpr llvm::StringLiteral kSymBools = "sym_bool_values";
inline constexpr llvm::StringLiteral kCustomObjects = "custom_obj_values";
inline constexpr llvm::StringLiteral kValueTables[] = {
    kTensors, kSymInts, kSymFloats, kSymBools, kCustomObjects};

/// The target as graph JSON names it: aten.add.Tensor, operator.mul.
std::string getTarget(llvm::StringRef target);

/// The name of the value that an output of a node gives, or empty.
llvm::StringRef getOutputName(const json &output);

} // namespace opprof::fx::pt2

#endif // OPPROF_LIB_TARGET_PT2_IMPORTER_H
