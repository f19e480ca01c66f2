// A compiled graph and its bodies, each beside the exported graph that it was
// made from.

#ifndef OPPROF_LIB_TARGET_INDUCTORCODE_ALIGNEDGRAPHS_H
#define OPPROF_LIB_TARGET_INDUCTORCODE_ALIGNEDGRAPHS_H

#include "AlignmentBodies.h"

#include "opprof/Target/InductorCode/Alignment.h"

#include <map>
#include <set>
#include <string>

namespace opprof::inductor {

/// One graph of the compiled program, tied to one of the exported program.
struct AlignedGraph {
  const GraphView *postGrad = nullptr;
  /// The exported graph, as the places of `ties` mean it.
  InlinedGraph exported;
  std::vector<Tie> ties;
  /// Of the nodes that `ties` is of.
  std::vector<std::vector<uint32_t>> users;
  /// The inputs of both, in their order, and those that are one by the call's
  /// operands.
  llvm::SmallVector<uint32_t> postGradInputs, exportedInputs;
  llvm::SmallVector<std::pair<uint32_t, uint32_t>> inputs;
  /// The compiled bodies that call it.
  std::set<std::string> callers;
  /// How sure it is that these two are one; no more than of its callers.
  Confidence link = Confidence::High;

  /// What structure ties a node to; where that is nothing, or its operator's
  /// name alone, the one origin that all its users are parts of and that it can
  /// be a part of as well.
  Tie findTie(uint32_t at) const;
};

/// The exported call that a call of the compiled graph is recorded to come
/// from: its place in the exported graph, or nothing.
using RecordedCall =
    llvm::function_ref<std::optional<uint32_t>(const GraphNode &call)>;

class BodyCalls;
class OperandPairs;

/// Ties both programs' main graphs and, by the calls that are tied, bodies of
/// cond, while_loop and their like. What is recorded for a call of the main
/// graph comes before its tie.
class AlignedGraphs {
public:
  AlignedGraphs() = default;
  AlignedGraphs(const AlignmentSources &sources, const GraphView &postGrad,
                RecordedCall recordedCall);

  bool empty() const { return !main.postGrad; }
  /// The graph of this name, empty for the main one; null where it is unknown.
  const AlignedGraph *find(llvm::StringRef graph) const;
  /// Bodies and calls of them that were not followed, as copies of bodies would
  /// have come to many times the exported program.
  uint64_t numLeft() const { return budget.refused(); }

private:
  std::optional<std::pair<uint32_t, Confidence>>
  findCall(const AlignedGraph &in, const BodyCalls &calls, uint32_t call,
           RecordedCall recordedCall) const;
  void alignBodies(const AlignedGraph &in, RecordedCall recordedCall,
                   unsigned depth);
  void alignBody(const AlignedGraph &in, const GraphView &body,
                 const GraphView &origin, const OperandPairs &operands,
                 Confidence link, RecordedCall recordedCall, unsigned depth);
  void settleLinks();

  const GraphView *exported = nullptr;
  const GraphView *postGrad = nullptr;
  /// The compiled graph with its records; null where there are none.
  const GraphView *recorded = nullptr;
  /// Operators with bodies that the compiled graph calls as well.
  llvm::StringSet<> called;
  BodyBudget budget;
  AlignedGraph main;
  /// By name of the compiled body.
  std::map<std::string, AlignedGraph, std::less<>> bodies;
};

} // namespace opprof::inductor

#endif // OPPROF_LIB_TARGET_INDUCTORCODE_ALIGNEDGRAPHS_H
