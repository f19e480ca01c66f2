// What Inductor's generated wrapper launches. The data model of launches.json:
// every launch of one compiled graph in call order, with the nodes it computes.
// Plain C++: readers of profiles use it without an MLIR context.

#ifndef OPPROF_LAUNCH_LAUNCHMAP_H
#define OPPROF_LAUNCH_LAUNCHMAP_H

#include "opprof/Launch/LaunchInfo.h"
#include "opprof/Support/Confidence.h"
#include "opprof/Support/NodeId.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace opprof::launch {

/// One post-grad node that a launch computes.
struct LaunchNode {
  std::string name;
  /// The graph it lies in where that is not the map's own: the body of a
  /// higher-order operator ("true_graph_0"), a name that other compiled graphs
  /// have too. LaunchMap::idOf gives the full identity.
  std::string graph;
  /// An earlier launch computed it already, and this one does so again.
  bool recomputed = false;
  /// An earlier launch began it (a reduction in two stages) and this one
  /// finishes it.
  bool continued = false;
  /// This launch only moves data for the node (another layout for a
  /// convolution's operand); a library call computes it.
  bool prepares = false;
  /// Which records name this node for this launch: "provenance" (the mapping
  /// file, by debug handle), "fragment" (the graph fragment at the kernel's
  /// definition), "source_nodes" (the comment at the call), "dataflow" (what
  /// lies between the launch's inputs and outputs), "target" (the operator).
  std::vector<std::string> evidence;
  /// How sure it is that this launch computes the node. Absent in maps that do
  /// not say it.
  std::optional<Confidence> confidence;
  /// The exported nodes that it was made from.
  std::vector<NodeId> from;
  /// Places in `from` of nodes that compute nothing (views, dropout that is
  /// switched off), where others do.
  std::vector<uint32_t> idleFrom;
  /// What the cost model estimates that the node does, in bytes, 16 FLOPs
  /// counted as one of them; 0 for what computes nothing, absent where there is
  /// no model.
  std::optional<uint64_t> work;
  /// How sure `from` is; absent where it is empty or a map does not say it.
  std::optional<Confidence> fromConfidence;
  /// Path of the innermost module; the root's is empty.
  std::optional<std::string> module;
  /// "file:line" of the user's code; empty where unknown.
  std::string source;
  /// Place in LaunchMap::stacks.
  std::optional<uint32_t> stack;
};

/// Sizes of a tensor; kUnknownSize for one that is no number.
using Sizes = std::vector<int64_t>;
inline constexpr int64_t kUnknownSize = -1;

/// One place in the wrapper where a kernel is launched.
struct Launch : LaunchInfo {
  Launch() {
    kind = LaunchKind::Extern;
    category = LaunchCategory::Extern;
  }

  /// The wrapper function that the launch stands in: "call", "partition_0".
  std::string function;
  /// Lines of the calls that led there from "call", outermost first.
  std::vector<uint32_t> callLines;
  /// Basename of the kernel's cached source file; empty where there is none.
  std::string kernelHash;
  /// The number after the kernel's name in the provenance records.
  std::optional<int64_t> debugHandle;
  std::vector<LaunchNode> nodes;
  /// Nodes that PyTorch's records name for this launch although it only reads
  /// their value, or can't compute them from what goes in.
  std::vector<std::string> listedOnly;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  /// Of an operator that runs by itself: its tensors by position of its
  /// arguments, nothing for an argument that is no tensor.
  std::vector<std::optional<Sizes>> argumentSizes;
  /// Inside `if` or `else`: it may not run.
  bool conditional = false;
  /// Inside a loop: it may run any number of times.
  bool inLoop = false;
};

/// A post-grad node that no launch computes, and why: "view", "getitem",
/// "attribute", "symbolic", "constant", "dead", "subgraph", "mutation",
/// "unrecorded".
struct NotLaunched {
  std::string name;
  /// As in LaunchNode.
  std::string graph;
  std::string reason;
};

/// Statements of the wrapper that the reader met.
struct StatementCounts {
  uint64_t total = 0;
  uint64_t understood = 0;
  uint64_t keptAsText = 0;
};

/// How post-grad nodes were joined to the nodes of an exported graph.
struct Alignment {
  /// "recorded" (identities that PyTorch wrote down) or "structure" (two
  /// captures of one model, matched by operators, shapes and dataflow).
  std::string method;
  std::string graph;
  std::string stage;
  /// Launched post-grad nodes whose exported nodes are certain: recorded, or
  /// proven by dataflow. Absent where a map does not say it.
  std::optional<uint64_t> proven;
  /// Launched post-grad nodes with at least one exported node, of how many.
  uint64_t aligned = 0;
  uint64_t of = 0;
  /// Bodies and calls of them that were left without ties, as copies of bodies
  /// would have come to many times the exported program.
  uint64_t bodiesLeft = 0;
};

/// Everything that one compiled graph launches.
struct LaunchMap {
  static constexpr int64_t kVersion = 1;

  std::string graph;
  std::string stage = "post_grad";
  StatementCounts statements;
  std::optional<Alignment> alignment;
  /// Whole stacks of the user's program, outermost frame first, each frame as
  /// "file:line in function".
  std::vector<std::vector<std::string>> stacks;
  std::vector<Launch> launches;
  std::vector<NotLaunched> notLaunched;

  /// The launches are those of a graph that runs operator by operator, not of
  /// a wrapper.
  bool isByOperator() const {
    return !launches.empty() && launches.front().file.empty();
  }

  /// The post-grad node, by its full identity.
  NodeId idOf(const LaunchNode &node) const {
    return {node.graph.empty() ? graph : graph + "." + node.graph, stage,
            node.name};
  }
};

/// Writes `map` as launches.json (docs/formats/launches.md).
void writeLaunchMap(const LaunchMap &map, llvm::json::OStream &json);

/// Writes `map` as indented text that ends in a newline.
void writeLaunchMap(const LaunchMap &map, llvm::raw_ostream &os);

/// Reads launches.json: one object, or a list of them as `opprof launches
/// --json` prints. `name` stands in errors. Unknown keys are ignored.
llvm::Expected<std::vector<LaunchMap>> readLaunchMaps(llvm::StringRef text,
                                                      llvm::StringRef name);

/// As above, where exactly one compiled graph is expected.
llvm::Expected<LaunchMap> readLaunchMap(llvm::StringRef text,
                                        llvm::StringRef name);

} // namespace opprof::launch

#endif // OPPROF_LAUNCH_LAUNCHMAP_H
