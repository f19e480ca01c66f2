// Normalizations that are spelled out, as the code of Llama-like models has
// them: a mean of squares or a variance, and what is multiplied or divided by
// its root. No rule takes them; this says at which lines they are, what they
// cost, and why they stay.

#include "opprof/Analysis/Cost/NodeCost.h"
#include "opprof/Dialect/FX/IR/Arguments.h"
#include "opprof/Dialect/FX/IR/FX.h"
#include "opprof/Rewrite/Recommend.h"
#include "opprof/Rewrite/ScriptOffers.h"
#include "opprof/Support/Units.h"

#include <cmath>

using namespace mlir;
using namespace opprof;
using namespace opprof::fx;
using namespace opprof::rewrite;

static NodeOp getNode(Value value) {
  return value ? value.getDefiningOp<NodeOp>() : NodeOp();
}

/// What the node is of; null where that is no value, as in graphs that nobody
/// ran.
static Value getSelf(NodeOp node) {
  return node->getNumOperands() > 0 ? node->getOperand(0) : Value();
}

/// What is squared in `node`; null where nothing is.
static Value getSquared(NodeOp node) {
  StringRef target = node ? node.getTarget() : "";
  if (target == "aten.square.default" ||
      (target == "aten.pow.Tensor_Scalar" &&
       getNumber(node.getArgument("exponent")) == 2))
    return getSelf(node);
  bool isProduct = target == "aten.mul.Tensor" && node->getNumOperands() == 2;
  return isProduct && node->getOperand(0) == node->getOperand(1)
             ? node->getOperand(0)
             : Value();
}

/// What `value` is a mean of squares or a variance of, with something added, a
/// bound, or a cast between; null where it is neither.
static Value getNormalized(Value value) {
  constexpr unsigned kMostBetween = 4;
  for (unsigned i = 0; i <= kMostBetween; ++i) {
    NodeOp node = getNode(value);
    StringRef target = node ? node.getTarget() : "";
    if (target == "aten.mean.dim")
      return getSquared(getNode(getSelf(node)));
    if (target.starts_with("aten.var."))
      return getSelf(node);
    if (!llvm::is_contained({"aten.add.Tensor", "aten.add.Scalar",
                             "aten.clamp.default", "aten.clamp_min.default",
                             "aten.to.dtype", "aten._to_copy.default"},
                            target) ||
        node->getNumOperands() != 1)
      return {};
    value = node->getOperand(0);
  }
  return {};
}

/// What is normalized where `node` is a root by which something is multiplied
/// or divided; null where it is none.
static Value getNormalizedByRoot(NodeOp node) {
  StringRef target = node.getTarget();
  bool isRoot = target == "aten.rsqrt.default" || target == "aten.sqrt.default";
  if (target == "aten.pow.Tensor_Scalar")
    isRoot =
        std::abs(getNumber(node.getArgument("exponent")).value_or(0)) == 0.5;
  bool isFactor =
      llvm::any_of(node.getResult().getUsers(), [](Operation *user) {
        auto used = dyn_cast<NodeOp>(user);
        return used &&
               llvm::is_contained({"aten.mul.Tensor", "aten.div.Tensor",
                                   "aten.mul_.Tensor", "aten.div_.Tensor"},
                                  used.getTarget());
      });
  return isRoot && isFactor ? getNormalized(getSelf(node)) : Value();
}

static void explainNormalizations(ArrayRef<GraphOp> graphs,
                                  const Evidence &evidence, Offers &offers) {
  SmallVector<std::pair<GraphOp, NodeOp>> roots;
  double bytes = 0;
  for (GraphOp graph : graphs) {
    llvm::DenseSet<Value> kept = collectOfWeights(graph);
    for (NodeOp node : graph.getBlock().getOps<NodeOp>())
      if (Value normalized = getNormalizedByRoot(node);
          normalized && !kept.contains(normalized)) {
        roots.emplace_back(graph, node);
        bytes +=
            2 * getTensorShape(normalized.getType()).getNumBytes().value_or(0);
      }
  }
  double ns = getRooflineNs(0, bytes, evidence.device.fp32.rate,
                            evidence.device.memory.rate);
  for (auto [graph, root] : roots)
    offers.decline(
        kNormalization.name,
        "Inductor usually makes one kernel of it, as of rms_norm and "
        "layer_norm, which it takes apart into such operators; by the model "
        "all of them take " +
            formatTime(static_cast<int64_t>(ns)) +
            " of a step, to read and write what they normalize once",
        graph, root);
}

const Rule rewrite::kNormalization = {
    "form-norm", "normalization-spelled-out",
    "a mean of squares or a variance, and what is multiplied or divided by its "
    "root: declined, as Inductor usually makes one kernel of it, as it "
    "does of rms_norm and layer_norm",
    "none is offered; what is said to be spent: two passes over what is "
    "normalized / memory bandwidth",
    explainNormalizations};
