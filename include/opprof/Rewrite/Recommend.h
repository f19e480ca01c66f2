// Rules from findings to rewrites. A rule looks at graphs and what is known of
// their run, and offers concrete rewrites, each with its script and a
// prediction.

#ifndef OPPROF_REWRITE_RECOMMEND_H
#define OPPROF_REWRITE_RECOMMEND_H

#include "opprof/Analysis/Cost/DeviceCeilings.h"
#include "opprof/Support/NodeId.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <optional>
#include <string>
#include <vector>

namespace opprof::fx {
class GraphOp;
} // namespace opprof::fx

namespace opprof::rewrite {

/// What is known of a run of the program beside the times on its nodes, which
/// rules read with prof::getTime. Times are those of one step.
struct Evidence {
  DeviceCeilings device;
  std::optional<double> wallNs;
  std::optional<double> busyNs;
  std::optional<double> kernelNs;
  /// The relative error that a rewrite may bring; 0 allows those that keep the
  /// bits of what is exact.
  double errorBudget = 0;
  /// Whether gradients are taken of the graph, and weights change in every
  /// step.
  bool isTraining = false;
};

/// One rewrite on offer.
struct Recommendation {
  /// A word for files and Python definitions: "merge-gemms".
  std::string name;
  /// The finding that it answers, as reports name it.
  std::string finding;
  std::string title;
  std::string explanation;
  /// Predicted for one step.
  double savesNs = 0;
  /// The relative error against float32 that it is expected to bring.
  double error = 0;
  /// The nodes that it applies to, one list for each place; empty for a
  /// strategy of whole graphs.
  std::vector<std::vector<NodeId>> places;
  /// What it does: a transform script without its head.
  mlir::OwningOpRef<mlir::ModuleOp> script;
};

/// What a rule looked at and left alone.
struct Decline {
  /// The name of the rule and of what it would have offered.
  std::string rule;
  /// The condition that does not hold, in words.
  std::string reason;
  /// The first node of which that is true, with the user's line of it
  /// (`file:line`); both are empty where it is true of no node in particular.
  NodeId node;
  std::string line;
  /// How many nodes it is true of.
  unsigned count = 1;
};

/// All that rules have to say of a program.
struct Offers {
  std::vector<Recommendation> recommendations;
  /// One for each rule and reason.
  std::vector<Decline> declines;

  /// Notes that `rule` leaves `node` of `graph` alone; null stands for all of
  /// it.
  void decline(llvm::StringRef rule, const llvm::Twine &reason,
               fx::GraphOp graph, mlir::Operation *node);
};

/// A rule: what it is about, in words, and what it does.
struct Rule {
  /// That of its recommendations.
  llvm::StringLiteral name;
  llvm::StringLiteral finding;
  /// What it looks for, and when that is safe to change.
  llvm::StringLiteral conditions;
  /// The formula of `savesNs`.
  llvm::StringLiteral prediction;
  /// Sees all graphs of the program, so that equal edits of several of them are
  /// one rewrite.
  void (*find)(llvm::ArrayRef<fx::GraphOp> graphs, const Evidence &evidence,
               Offers &offers);
};

// Each is defined in the file of its name in lib/Rewrite/Rules.
extern const Rule kAttention, kAutotune, kBatchNormFolding, kBFloat16,
    kCudaGraph, kFloat16, kFreeze, kNormalization, kSharedInputGemms,
    kTF32Products;

/// All rules, in the order in which they are asked.
llvm::ArrayRef<const Rule *> getRules();

/// Prints each rule with its finding, conditions and prediction.
void printRules(llvm::raw_ostream &os);

// Rewrites are for the public graphs of a module, but for those that Inductor
// has lowered already (stage post_grad), which no backend is handed.

/// The first graph that rewrites are for, with an empty node's name; none where
/// there is none.
std::optional<NodeId> getMainGraph(mlir::ModuleOp module);

/// What the profile that is attached to `module` says of its run. The device is
/// that of the main graph's first tensor where no profile names one. The error
/// budget is for the caller to say.
Evidence readEvidence(mlir::ModuleOp module);

/// What all rules offer for `module`, and the scripts of the folder `rules`
/// where it is not empty, by what each should save; and what they decline.
/// Fails, with a diagnostic, where a script of the folder can't be read.
mlir::FailureOr<Offers> recommend(mlir::ModuleOp module,
                                  const Evidence &evidence,
                                  llvm::StringRef rules = "");

/// Puts the head (fx.rewrite) on the recommendation's script. Plain node names
/// in it belong to `main`; a node of another graph is written as a dictionary.
void setScriptHead(const Recommendation &recommendation, unsigned rank,
                   const NodeId &main);

/// The identity of a node of `graph`.
NodeId getNodeId(fx::GraphOp graph, mlir::Operation *node);

/// Nanoseconds, by the roofline, of an operator of `flops` that moves `bytes`.
inline double getRooflineNs(double flops, double bytes, double rate,
                            double bandwidth) {
  return 1e9 * std::max(flops / rate, bytes / bandwidth);
}

} // namespace opprof::rewrite

#endif // OPPROF_REWRITE_RECOMMEND_H
