// Random graphs as recipes, which can be changed in one thing and built any
// number of times under other names.

#ifndef OPPROF_UNITTESTS_ANALYSIS_STRUCTURE_RANDOMGRAPH_H
#define OPPROF_UNITTESTS_ANALYSIS_STRUCTURE_RANDOMGRAPH_H

#include "opprof/Dialect/FX/IR/FX.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"

#include <random>

namespace opprof::fx {

struct TypeRecipe {
  int rows = 4, columns = 8;
  bool isTransposed = false;
  bool isHalf = false;
  bool isOnGPU = false;
  bool operator==(const TypeRecipe &) const = default;
};

struct NodeRecipe {
  std::string target;
  /// Inputs come first, then nodes.
  std::vector<int> operands;
  int64_t constant = 0;
  bool hasConstant = false;
  TypeRecipe type;
};

struct GraphRecipe {
  int numInputs = 2;
  std::vector<NodeRecipe> nodes;
  std::vector<int> outputs;

  int numValues() const { return numInputs + nodes.size(); }
  TypeRecipe typeOf(int value) const {
    return value < numInputs ? TypeRecipe() : nodes[value - numInputs].type;
  }
};

/// The single differences that two graphs can have.
enum class Change {
  Edge,
  OperandOrder,
  Constant,
  Shape,
  Stride,
  DType,
  Device,
  Effect,
  OutputOrder,
  Target
};
inline constexpr Change kAllChanges[] = {
    Change::Edge,        Change::OperandOrder, Change::Constant, Change::Shape,
    Change::Stride,      Change::DType,        Change::Device,   Change::Effect,
    Change::OutputOrder, Change::Target};

class RandomGraphs {
public:
  explicit RandomGraphs(unsigned seed) : random(seed) {}

  int below(int bound) {
    return std::uniform_int_distribution<int>(0, bound - 1)(random);
  }

  GraphRecipe make(int numNodes) {
    static const char *kUnary[] = {"aten.relu.default", "aten.neg.default",
                                   "aten.exp.default", "aten.softmax.int"};
    static const char *kBinary[] = {"aten.add.Tensor", "aten.mul.Tensor",
                                    "aten.sub.Tensor"};
    GraphRecipe graph;
    // Each input has a use of its own, so that no two of them could be
    // exchanged.
    for (int i = 0; i < 2; ++i) {
      NodeRecipe node;
      node.target = i == 0 ? "aten.sin.default" : "aten.cos.default";
      node.operands = {i};
      graph.nodes.push_back(node);
    }
    for (int i = 0; i < numNodes; ++i) {
      NodeRecipe node;
      int values = graph.numValues();
      // Mostly what was made last, so that graphs are deep and connected.
      auto pick = [&] { return std::max(0, values - 1 - below(4)); };
      if (below(2)) {
        node.target = kUnary[below(4)];
        node.operands = {pick()};
        if (node.target == "aten.softmax.int") {
          node.hasConstant = true;
          node.constant = below(2);
        }
      } else {
        node.target = kBinary[below(3)];
        node.operands = {pick(), pick()};
      }
      if (below(4) == 0)
        node.type.rows = 4 + 4 * below(2);
      graph.nodes.push_back(node);
    }
    std::vector<bool> isUsed(graph.numValues());
    for (const NodeRecipe &node : graph.nodes)
      for (int operand : node.operands)
        isUsed[operand] = true;
    for (int value = graph.numInputs; value < graph.numValues(); ++value)
      if (!isUsed[value])
        graph.outputs.push_back(value);
    return graph;
  }

  /// `graph` with one thing changed at a random place, or nothing where it has
  /// no place for that change.
  std::optional<GraphRecipe> change(GraphRecipe graph, Change kind) {
    std::vector<int> places;
    auto isPlace = [&](int index) {
      const NodeRecipe &node = graph.nodes[index];
      switch (kind) {
      case Change::OperandOrder:
        return node.operands.size() == 2 &&
               node.operands[0] != node.operands[1];
      case Change::Constant:
        return node.hasConstant;
      case Change::Effect:
        return node.target == "aten.relu.default";
      case Change::Target:
        return node.operands.size() == 2;
      default:
        return true;
      }
    };
    for (int i = 0, e = graph.nodes.size(); i != e; ++i)
      if (isPlace(i))
        places.push_back(i);
    if (places.empty())
      return std::nullopt;
    int index = places[below(places.size())];
    NodeRecipe &node = graph.nodes[index];
    switch (kind) {
    case Change::Edge: {
      int &operand = node.operands[below(node.operands.size())];
      int other = below(graph.numInputs + index);
      if (other == operand)
        return std::nullopt;
      operand = other;
      break;
    }
    case Change::OperandOrder:
      std::swap(node.operands[0], node.operands[1]);
      break;
    case Change::Constant:
      ++node.constant;
      break;
    case Change::Shape:
      node.type.columns *= 2;
      break;
    case Change::Stride:
      node.type.isTransposed = true;
      break;
    case Change::DType:
      node.type.isHalf = true;
      break;
    case Change::Device:
      node.type.isOnGPU = true;
      break;
    case Change::Effect:
      node.target = "aten.relu_.default";
      break;
    case Change::OutputOrder:
      if (graph.outputs.size() < 2)
        return std::nullopt;
      std::swap(graph.outputs.front(), graph.outputs.back());
      break;
    case Change::Target:
      node.target = node.target == "aten.add.Tensor" ? "aten.div.Tensor"
                                                     : "aten.add.Tensor";
      break;
    }
    return graph;
  }

  /// `block` several times, each taking what the one before it gives, and the
  /// same second input.
  static GraphRecipe chain(const GraphRecipe &block, int numBlocks) {
    GraphRecipe result;
    result.numInputs = 2;
    int way = 0;
    for (int i = 0; i < numBlocks; ++i) {
      int begin = result.numValues();
      auto renumber = [&](int value) {
        return value == 0   ? way
               : value == 1 ? 1
                            : begin + value - block.numInputs;
      };
      for (NodeRecipe node : block.nodes) {
        for (int &operand : node.operands)
          operand = renumber(operand);
        result.nodes.push_back(node);
      }
      way = renumber(block.outputs[0]);
    }
    result.outputs = {way};
    return result;
  }

  /// The nodes in another order that keeps every node behind what it takes.
  GraphRecipe shuffle(const GraphRecipe &graph) {
    int numInputs = graph.numInputs, numNodes = graph.nodes.size();
    std::vector<int> newValue(graph.numValues(), -1);
    for (int i = 0; i < numInputs; ++i)
      newValue[i] = i;
    GraphRecipe result;
    result.numInputs = numInputs;
    while (static_cast<int>(result.nodes.size()) < numNodes) {
      std::vector<int> ready;
      for (int i = 0; i < numNodes; ++i) {
        bool isReady = newValue[numInputs + i] < 0;
        for (int operand : graph.nodes[i].operands)
          isReady = isReady && newValue[operand] >= 0;
        if (isReady)
          ready.push_back(i);
      }
      int chosen = ready[below(ready.size())];
      NodeRecipe node = graph.nodes[chosen];
      for (int &operand : node.operands)
        operand = newValue[operand];
      newValue[numInputs + chosen] = result.numValues();
      result.nodes.push_back(node);
    }
    for (int output : graph.outputs)
      result.outputs.push_back(newValue[output]);
    return result;
  }

private:
  std::mt19937 random;
};

inline mlir::Type buildType(mlir::MLIRContext *context, TypeRecipe type) {
  mlir::Builder builder(context);
  mlir::ArrayAttr strides;
  if (type.isTransposed)
    strides = builder.getI64ArrayAttr({1, type.rows});
  auto info = TensorInfoAttr::get(context, type.isOnGPU ? "cuda:0" : "cpu",
                                  strides, false, {}, {}, false, {}, {});
  return mlir::RankedTensorType::get({type.rows, type.columns},
                                     type.isHalf
                                         ? mlir::Type(builder.getF16Type())
                                         : mlir::Type(builder.getF32Type()),
                                     info);
}

/// Appends the nodes of `graph`, called `prefix` and a number, and returns the
/// values of its outputs.
inline llvm::SmallVector<mlir::Value> buildNodes(mlir::OpBuilder &builder,
                                                 const GraphRecipe &graph,
                                                 mlir::ValueRange inputs,
                                                 llvm::StringRef prefix) {
  mlir::MLIRContext *context = builder.getContext();
  llvm::SmallVector<mlir::Value> values(inputs);
  for (const NodeRecipe &node : graph.nodes) {
    llvm::SmallVector<mlir::Value> operands;
    llvm::SmallVector<mlir::Attribute> args;
    for (int operand : node.operands) {
      operands.push_back(values[operand]);
      args.push_back(ValueAttr::get(context));
    }
    if (node.hasConstant)
      args.push_back(builder.getI64IntegerAttr(node.constant));
    std::string name = (prefix + llvm::Twine(values.size())).str();
    auto op = NodeOp::create(
        builder, mlir::NameLoc::get(builder.getStringAttr(name)),
        buildType(context, node.type), node.target, operands, args);
    values.push_back(op.getResult());
  }
  llvm::SmallVector<mlir::Value> outputs;
  for (int output : graph.outputs)
    outputs.push_back(values[output]);
  return outputs;
}

/// A graph of its own, at the end of `module`.
inline GraphOp
buildGraph(mlir::ModuleOp module, llvm::StringRef name,
           llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::OpBuilder &,
                                                             mlir::ValueRange)>
               fill,
           int numInputs = 2) {
  mlir::OpBuilder builder(module.getContext());
  llvm::SmallVector<mlir::Type> inputTypes(
      numInputs, buildType(module.getContext(), TypeRecipe()));
  auto graph = GraphOp::create(builder, builder.getUnknownLoc(), name,
                               builder.getFunctionType(inputTypes, {}));
  module.push_back(graph);
  llvm::SmallVector<mlir::Location> locations(numInputs,
                                              builder.getUnknownLoc());
  mlir::Block *block =
      builder.createBlock(&graph.getBody(), {}, inputTypes, locations);
  llvm::SmallVector<mlir::Value> outputs = fill(builder, block->getArguments());
  OutputOp::create(builder, builder.getUnknownLoc(), outputs);
  graph.setFunctionType(builder.getFunctionType(
      inputTypes, llvm::to_vector(mlir::ValueRange(outputs).getTypes())));
  // The second input of a block is its weight.
  if (numInputs == 2)
    graph.setArgAttr(1, FXDialect::kKindAttr,
                     builder.getStringAttr("parameter"));
  return graph;
}

inline GraphOp buildGraph(mlir::ModuleOp module, llvm::StringRef name,
                          const GraphRecipe &recipe) {
  return buildGraph(
      module, name,
      [&](mlir::OpBuilder &builder, mlir::ValueRange inputs) {
        return buildNodes(builder, recipe, inputs, name);
      },
      recipe.numInputs);
}

/// A context with the fx dialect, and an empty module.
struct TestModule {
  TestModule() : context(mlir::MLIRContext::Threading::DISABLED) {
    context.loadDialect<FXDialect>();
    module = mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  }
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

} // namespace opprof::fx

#endif // OPPROF_UNITTESTS_ANALYSIS_STRUCTURE_RANDOMGRAPH_H
