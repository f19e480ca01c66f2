// A graph as the code reader needs it. Nodes, operands and types of an FX graph
// in plain C++. Filled from printed FX modules (FXReadable.h) or from the fx
// dialect; the join of launches to nodes, the alignment of two captures and the
// cost model work on it.

#ifndef OPPROF_TARGET_INDUCTORCODE_GRAPHVIEW_H
#define OPPROF_TARGET_INDUCTORCODE_GRAPHVIEW_H

#include "opprof/Dialect/FX/IR/Schema.h"
#include "opprof/Support/DTypes.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/JSON.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace opprof::inductor {

/// A size: a number, or a symbolic expression as PyTorch prints it.
struct Dim {
  std::optional<int64_t> value;
  std::string symbol;

  bool operator==(const Dim &other) const = default;
};

struct TensorInfo {
  /// torch's own name: "float32". Empty where unknown.
  std::string dtype;
  std::vector<Dim> shape;
  std::vector<Dim> stride;
  std::string device;
  bool shapeKnown = false;

  /// Number of elements, where every size is a number.
  std::optional<uint64_t> elements() const;
  /// Size in bytes, where dtype and every size are known.
  std::optional<uint64_t> bytes() const;
};

/// Bytes of one element, or nothing for an unknown dtype.
inline std::optional<unsigned> elementSize(llvm::StringRef dtype) {
  return getDTypeBytes(dtype);
}

/// Reads "f32[8, 16][16, 1]cuda:0", the short form in FX comments; strides and
/// device may be missing. Returns nothing for "Sym(s0)" and other types.
std::optional<TensorInfo> parseShortType(llvm::StringRef text);

struct SourcePlace {
  std::string file;
  uint32_t line = 0;
  std::string code;

  bool operator==(const SourcePlace &other) const = default;
};

/// In arguments, the key of a number that is no integer, spelled as it was:
/// {"$number": "1.0"}. The values of the JSON library take 1.0 for 1, which
/// would be another type.
inline constexpr llvm::StringLiteral kRealNumberKey = "$number";

/// In arguments a node is its place in the graph, counted from a number that no
/// other argument can be: an object takes kilobytes, and most arguments are
/// nodes.
inline llvm::json::Value makeNodeArgument(uint32_t place) {
  return llvm::json::Value((uint64_t(1) << 63) + place);
}

/// The place of the node that an argument is, or nothing.
inline std::optional<uint32_t> getNodeArgument(const llvm::json::Value &value) {
  std::optional<uint64_t> number = value.getAsUINT64();
  return number && *number >> 63 ? std::optional<uint32_t>(*number)
                                 : std::nullopt;
}

struct GraphNode {
  enum Op : uint8_t { Placeholder, Call, GetAttr };

  Op op = Call;
  std::string name;
  /// "aten.mm.default", "operator.getitem"; of inputs the qualified name.
  std::string target;
  /// Argument nodes in the order they are written, keyword arguments last.
  std::vector<uint32_t> operands;
  /// Whole arguments as graph JSON writes them (docs/formats/graph-json.md),
  /// but for nodes (see makeNodeArgument) and numbers with a point or exponent
  /// (see kRealNumberKey).
  llvm::json::Array args;
  std::vector<std::pair<std::string, llvm::json::Value>> kwargs;
  /// Types of the results: one, several for a tuple, none where unknown.
  std::vector<TensorInfo> results;
  bool resultIsTuple = false;
  /// A symbolic result: its expression.
  std::string symbol;
  /// Path of the innermost module; `hasModule` tells the root from unknown.
  std::string module;
  bool hasModule = false;
  SourcePlace source;
  /// The whole stack, outermost frame first; empty where only `source` is
  /// known.
  std::vector<std::string> stack;
  /// Recorded ancestors, newest first: (graph, name).
  std::vector<std::pair<std::string, std::string>> from;
  /// Line in the file that was read.
  uint32_t line = 0;
};

struct GraphView {
  std::string name;
  std::string stage;
  std::vector<GraphNode> nodes;
  /// Output values in order; an output that is no node is left out.
  std::vector<uint32_t> outputs;
  llvm::json::Array outputArgs;
  /// Bodies of higher-order operators, by name.
  std::vector<GraphView> subgraphs;

  std::optional<uint32_t> find(llvm::StringRef node) const;
  /// Must be called after `nodes` or `subgraphs` changed.
  void reindex();
  /// users[i]: nodes that take node i.
  std::vector<std::vector<uint32_t>> users() const;
  const GraphView *subgraph(llvm::StringRef subgraphName) const;

private:
  llvm::StringMap<uint32_t> index, subgraphIndex;
};

/// Operators that give another view of their first operand and launch nothing.
inline bool isViewTarget(llvm::StringRef target) {
  return fx::isViewOperator(target);
}

/// "aten.mm.default" -> "mm"; "operator.getitem" -> "getitem".
inline llvm::StringRef opFamily(llvm::StringRef target) {
  return fx::getOperatorName(target);
}

} // namespace opprof::inductor

#endif // OPPROF_TARGET_INDUCTORCODE_GRAPHVIEW_H
