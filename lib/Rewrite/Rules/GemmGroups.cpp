// Finding the GEMMs of a graph that share an input, and what keeps others from
// being merged.

#include "GemmGroups.h"

#include "opprof/Analysis/Structure/PatternConditions.h"
#include "opprof/Analysis/Structure/StorageEffects.h"
#include "opprof/Dialect/FX/IR/Arguments.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace opprof;
using namespace opprof::fx;
using namespace opprof::rewrite;

/// True for an argument that is absent or 1, as addmm's factors have to be.
static bool isOne(Attribute factor) {
  return !factor || getNumber(factor) == 1;
}

static bool isStaticTensor(Value value, unsigned minRank, unsigned maxRank) {
  auto type = value ? dyn_cast<RankedTensorType>(value.getType()) : nullptr;
  return type && type.hasStaticShape() && type.getRank() >= minRank &&
         type.getRank() <= maxRank;
}

/// `node` as a GEMM that this rule knows how to merge.
static std::optional<Gemm> matchGemm(NodeOp node) {
  Gemm gemm;
  gemm.node = node;
  gemm.result = node.getResult();
  StringRef target = node.getTarget();
  if (target == "aten.linear.default") {
    gemm.input = node.getArgumentValue("input");
    gemm.weight = node.getArgumentValue("weight");
    gemm.bias = node.getArgumentValue("bias");
    gemm.widthDim = 0;
  } else if (target == "aten.mm.default" || target == "aten.matmul.default") {
    gemm.input = node.getArgumentValue("self");
    gemm.weight =
        node.getArgumentValue(target == "aten.mm.default" ? "mat2" : "other");
    gemm.widthDim = 1;
  } else if (target == "aten.addmm.default") {
    gemm.input = node.getArgumentValue("mat1");
    gemm.weight = node.getArgumentValue("mat2");
    gemm.bias = node.getArgumentValue("self");
    gemm.widthDim = 1;
    if (!gemm.bias || !isOne(node.getArgument("alpha")) ||
        !isOne(node.getArgument("beta")))
      return std::nullopt;
  } else {
    return std::nullopt;
  }
  if (!isStaticTensor(gemm.input, 1, 16) ||
      !isStaticTensor(gemm.weight, 2, 2) ||
      !isStaticTensor(node.getResult(), 1, 16) ||
      (gemm.bias && !isStaticTensor(gemm.bias, 1, 1)))
    return std::nullopt;
  if (node->use_empty())
    return std::nullopt;
  // It would be copied in every call.
  if (!isa<BlockArgument>(gemm.weight) ||
      (gemm.bias && !isa<BlockArgument>(gemm.bias)))
    gemm.obstacle = "its weight is computed in every call";
  else if (gemm.bias &&
           cast<RankedTensorType>(gemm.bias.getType()).getDimSize(0) !=
               gemm.getWidth())
    // Side by side, biases would stand beside other columns than their own.
    gemm.obstacle = "its bias is one number for all of its columns";
  else if (isReturned(node.getResult()))
    gemm.obstacle = "the graph returns its result, or a view of it";
  return gemm;
}

SmallVector<NodeOp> GemmGroup::getNodes() const {
  auto nodes = llvm::map_to_vector(gemms, [](const Gemm &g) { return g.node; });
  for (const auto &[place, gemm] : repeats)
    nodes.push_back(gemm.node);
  return nodes;
}

static bool isOfOneWeight(const GemmGroup &group) {
  return llvm::all_of(group.gemms, [&](const Gemm &gemm) {
    return gemm.weight == group.gemms[0].weight;
  });
}

/// Leaves the first GEMM of each weight among those that are to be merged.
static void moveRepeats(GemmGroup &group) {
  SmallVector<Gemm> all = std::move(group.gemms);
  group.gemms.clear();
  for (const Gemm &gemm : all) {
    const auto *first = llvm::find_if(group.gemms, [&](const Gemm &other) {
      return other.weight == gemm.weight;
    });
    if (first == group.gemms.end())
      group.gemms.push_back(gemm);
    else
      group.repeats.push_back({first - group.gemms.begin(), gemm});
  }
}

/// Says of a GEMM that is alone in its group why the others of its input are
/// in another one.
template <typename Groups>
static void declineUnlike(const Groups &groups, const Gemm &gemm, GraphOp graph,
                          Offers &offers) {
  for (auto &[key, group] : groups) {
    const Gemm &other = group.gemms[0];
    if (other.input != gemm.input || other.node == gemm.node)
      continue;
    bool isOfOneOperator =
        NodeOp(other.node).getTargetAttr() == NodeOp(gemm.node).getTargetAttr();
    StringRef reason =
        !isOfOneOperator ? "another product of its input calls another operator"
        : !other.bias != !gemm.bias
            ? "of it and another product of its input one has a bias"
            : "the weight of another product of its input has another type";
    offers.decline(kSharedInputGemms.name, reason, graph, gemm.node);
    return;
  }
}

SmallVector<GemmGroup> opprof::rewrite::findGemmGroups(GraphOp graph,
                                                       Offers &offers) {
  using Key = std::tuple<Value, StringAttr, unsigned, Type>;
  llvm::MapVector<Key, GemmGroup> groups;
  for (NodeOp node : graph.getBlock().getOps<NodeOp>()) {
    std::optional<Gemm> gemm = matchGemm(node);
    if (!gemm)
      continue;
    GemmGroup &group =
        groups[{gemm->input, node.getTargetAttr(), gemm->bias ? 1u : 0u,
                gemm->getWeightType().getElementType()}];
    // An argument of the pattern stands for one weight or one bias.
    bool sharesOne = llvm::any_of(group.gemms, [&](const Gemm &g) {
      return (g.weight == gemm->weight) != (g.bias == gemm->bias) && g.bias;
    });
    if (!sharesOne)
      group.gemms.push_back(*gemm);
  }
  for (auto &[key, group] : groups)
    if (isOfOneWeight(group))
      declineUnlike(groups, group.gemms[0], graph, offers);
  StorageEffects effects(graph);
  SmallVector<GemmGroup> result;
  for (auto &[key, group] : groups) {
    if (isOfOneWeight(group))
      continue;
    llvm::erase_if(group.gemms, [&](const Gemm &gemm) {
      if (!gemm.obstacle.empty())
        offers.decline(kSharedInputGemms.name, gemm.obstacle, graph, gemm.node);
      return !gemm.obstacle.empty();
    });
    if (isOfOneWeight(group))
      continue;
    SmallVector<Value> read;
    for (const Gemm &gemm : group.gemms)
      llvm::append_range(read, gemm.node->getOperands());
    Operation *write = effects.findWriteBetween(group.gemms.front().node,
                                                group.gemms.back().node, read);
    moveRepeats(group);
    if (write)
      offers.decline(kSharedInputGemms.name,
                     "what the products read may be written between them",
                     graph, write);
    else
      result.push_back(std::move(group));
  }
  return result;
}
