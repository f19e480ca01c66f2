// Rules from findings to rewrites. A rule looks at a graph and what is known of
// its run, and offers concrete rewrites, each with its script and a prediction.

#ifndef OPPROF_REWRITE_RECOMMEND_H
#define OPPROF_REWRITE_RECOMMEND_H

#include "opprof/Analysis/Cost/DeviceCeilings.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace opprof::fx {
class GraphOp;
} // namespace opprof::fx

namespace opprof::rewrite {

/// What is known of a run of the graph. Times are those of one step.
struct Evidence {
  DeviceCeilings device;
  std::optional<double> wallNs;
  std::optional<double> busyNs;
  std::optional<double> kernelNs;
  std::optional<double> kernels;
  /// Kernel time by node name.
  llvm::StringMap<double> nodeNs;
  double errorBudget = 1e-3;
};

/// Adds what the text of a profile.opprof.json says. `name` stands in errors.
llvm::Error readEvidence(llvm::StringRef text, llvm::StringRef name,
                         Evidence &evidence);

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
  /// strategy of the whole graph.
  std::vector<std::vector<std::string>> places;
  /// The script below its head: the graphs, and what the sequence does.
  std::string types;
  std::string graphs;
  std::string sequence;
};

using Rule = void (*)(fx::GraphOp graph, const Evidence &evidence,
                      std::vector<Recommendation> &results);

/// GEMMs of one input become one GEMM and its slices.
void recommendSharedInputGemms(fx::GraphOp graph, const Evidence &evidence,
                               std::vector<Recommendation> &results);

/// Strategies for the whole graph: freezing, precision, autotuning, one CUDA
/// graph.
void recommendRegionStrategies(fx::GraphOp graph, const Evidence &evidence,
                               std::vector<Recommendation> &results);

/// What all rules offer, by what each should save.
std::vector<Recommendation> recommend(fx::GraphOp graph,
                                      const Evidence &evidence);

/// The rewrite script of a recommendation, as text.
std::string getScriptText(const Recommendation &recommendation, unsigned rank);

/// Seconds, by the roofline, of an operator of `flops` that moves `bytes`.
inline double getRooflineNs(double flops, double bytes, double rate,
                            double bandwidth) {
  return 1e9 * std::max(flops / rate, bytes / bandwidth);
}

/// Makes --recommend-rewrites known.
void registerRecommendRewrites();

} // namespace opprof::rewrite

#endif // OPPROF_REWRITE_RECOMMEND_H
