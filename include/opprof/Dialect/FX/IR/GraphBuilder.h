// Making fx.graph ops from a file: what every importer does alike. Importers
// say what a file holds, and word the errors; here it becomes ops.

#ifndef OPPROF_DIALECT_FX_IR_GRAPHBUILDER_H
#define OPPROF_DIALECT_FX_IR_GRAPHBUILDER_H

#include "opprof/Dialect/FX/IR/FXAttributes.h"
#include "opprof/Dialect/FX/IR/GraphAttributes.h"
#include "opprof/Dialect/FX/IR/Provenance.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/CachedHashString.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringSet.h"

namespace opprof::fx {

/// A tensor as files describe it.
struct TensorDescription {
  /// Torch's name: "bfloat16".
  llvm::StringRef dtype;
  /// "cuda:0"
  llvm::StringRef device;
  /// Each a whole number, or #fx.sym.
  llvm::SmallVector<mlir::Attribute> sizes;
  /// As many of the same, or null where the file does not say.
  mlir::ArrayAttr strides;
  /// One of the same, or null where it is 0.
  mlir::Attribute offset;
  bool requiresGrad = false;
  /// Null where it is strided.
  mlir::StringAttr layout;
  /// Null for a plain tensor.
  mlir::StringAttr subclass;
};

/// The type of that tensor.
mlir::RankedTensorType getTensorType(mlir::MLIRContext *context,
                                     const TensorDescription &tensor);

/// What a file says of an input beside its name and type.
struct InputDescription {
  /// One of kInputKinds.
  mlir::StringAttr kind;
  /// The qualified name in the module, or null.
  mlir::StringAttr target;
  /// Of a buffer, whether it is saved with the module; null where not said.
  mlir::BoolAttr persistent;
  /// Of a constant tensor without dimensions, what it holds; null where not
  /// said.
  mlir::Attribute constant;
  NodeOrigin origin;
};

/// A node as files describe it.
struct NodeDescription {
  mlir::StringAttr name;
  mlir::StringAttr target;
  NodeKind kind = NodeKind::call_function;
  /// Null where unknown.
  mlir::Type type;
  /// Positional arguments, nested, with #fx.value where `operands` come.
  mlir::ArrayAttr args;
  llvm::SmallVector<mlir::Value> operands;
  /// Keyword arguments with their names, and what #fx.value stands for there.
  llvm::SmallVector<mlir::Attribute> kwargs, kwargNames;
  llvm::SmallVector<mlir::Value> kwargOperands;
  /// As GraphBuilder::finishBlock gave them; addNode takes them.
  llvm::SmallVector<std::unique_ptr<mlir::Region>, 0> blocks;
  NodeOrigin origin;

  void clear();
};

/// A module of graphs, in the order in which their making is begun.
class ModuleBuilder {
public:
  explicit ModuleBuilder(mlir::MLIRContext *context);

  mlir::MLIRContext *getContext() { return builder.getContext(); }
  mlir::ModuleOp getModule() { return *module; }

  /// Takes a name for a graph; false where another has it.
  bool claimName(llvm::StringRef name) { return names.insert(name).second; }
  bool hasName(llvm::StringRef name) const { return names.contains(name); }
  /// Takes `wanted`, or where another graph has it, that with a number.
  std::string claimUniqueName(llvm::StringRef wanted);

  /// The module, with `functional` on the graphs that write nothing.
  mlir::OwningOpRef<mlir::ModuleOp> finish();

private:
  friend class GraphBuilder;

  mlir::Location getLocation(mlir::StringAttr name, const NodeOrigin &origin);

  mlir::OpBuilder builder;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  llvm::StringSet<> names;

  // Asked for once, for graphs of millions of nodes.
  mlir::OperationName nodeName;
  mlir::Type unknownType;
  mlir::DictionaryAttr noAttributes;
  mlir::StringAttr codeKey, codesKey, fromNodeKey, modulesKey, originalAtenKey,
      seqNrKey, torchFunctionKey;
};

/// Says of a GraphBuilder that it makes a block of a node and no graph.
struct BlockOfNode {};

/// One graph: inputs, then nodes, then outputs. Each name is taken once.
class GraphBuilder {
public:
  /// Begins a graph at the end of the module.
  explicit GraphBuilder(ModuleBuilder &program);
  /// Begins a block, which has names of its own.
  GraphBuilder(ModuleBuilder &program, BlockOfNode);

  /// "export", "post_grad": the stage that the graph was taken from.
  void setStage(llvm::StringRef stage);

  /// The value of that name; null where there is none, or the name was only
  /// claimed.
  mlir::Value lookup(llvm::StringRef name) const {
    return values.lookup(llvm::CachedHashStringRef(name));
  }
  bool hasName(llvm::StringRef name) const {
    return values.contains(llvm::CachedHashStringRef(name));
  }
  /// `wanted`, or that with a number where a value has it.
  std::string makeUniqueName(llvm::StringRef wanted) const;
  /// Takes a name without making a value, or as one more name of `value`.
  /// False where it is taken.
  bool claimName(mlir::StringAttr name, mlir::Value value = {});

  /// Null, and nothing is made, where the name is taken. A null type is one
  /// that is unknown.
  mlir::Value addInput(mlir::StringAttr name, mlir::Type type,
                       const InputDescription &input);
  mlir::Value addNode(NodeDescription &node);
  /// An element of a tuple or list.
  mlir::Value addGetItem(mlir::StringAttr name, mlir::Type type,
                         mlir::Value tuple, int64_t index,
                         const NodeOrigin &origin);

  /// An output of a kind of kOutputKinds, nested, with #fx.value where values
  /// of `getOutputOperands` come.
  void addOutput(mlir::Attribute value, llvm::StringRef kind = kUserOutputKind,
                 std::optional<llvm::StringRef> target = std::nullopt);
  /// What #fx.value stands for in the outputs, in order, to be added to.
  llvm::SmallVectorImpl<mlir::Value> &getOutputOperands() {
    return outputOperands;
  }

  /// Says `key` of the graph: one of the names in GraphAttributes.h.
  void setAttribute(llvm::StringRef key, mlir::Attribute value);

  /// Ends the graph with its outputs, and gives it its symbol, which the module
  /// has claimed. `isPublic` is false for what other graphs call.
  void finish(llvm::StringRef name, bool isPublic);
  /// Ends a block with its outputs.
  std::unique_ptr<mlir::Region> finishBlock();

private:
  ModuleBuilder &program;
  mlir::OpBuilder builder;
  /// Null for a block of a node, which `region` holds.
  mlir::Operation *op = nullptr;
  std::unique_ptr<mlir::Region> region;
  mlir::Block *block;
  // Names live in the context.
  llvm::DenseMap<llvm::CachedHashStringRef, mlir::Value> values;
  llvm::SmallVector<mlir::DictionaryAttr> inputAttrs;
  llvm::SmallVector<mlir::Attribute> outputs, signature;
  llvm::SmallVector<mlir::Value> outputOperands;
  bool isPlainSignature = true;
};

} // namespace opprof::fx

#endif // OPPROF_DIALECT_FX_IR_GRAPHBUILDER_H
