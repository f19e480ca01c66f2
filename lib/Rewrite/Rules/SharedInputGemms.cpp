// The rule "GEMMs that share an input become one". Reading the input once and
// filling the device with one larger product beats several small ones; the
// merged weights are computed once, in a prologue.

#include "GemmGroups.h"

#include "opprof/Dialect/FX/IR/Arguments.h"
#include "opprof/Dialect/Prof/IR/Prof.h"
#include "opprof/Rewrite/ScriptOffers.h"

using namespace mlir;
using namespace opprof;
using namespace opprof::fx;
using namespace opprof::rewrite;

/// Time of a GEMM of these sizes. On a GPU its tiles run in waves, the last of
/// which may leave most processors idle: the reason why small ones are slow.
static double predictGemmNs(double rows, double width, double depth,
                            double elementBytes, const DeviceCeilings &device,
                            double rate) {
  double flops = 2 * rows * width * depth;
  double bytes = elementBytes * (rows * depth + width * depth + rows * width);
  if (device.isGPU) {
    double tiles = std::ceil(rows / 128) * std::ceil(width / 128);
    double waves = std::ceil(tiles / device.multiprocessors);
    rate *= tiles / (waves * device.multiprocessors);
  }
  return getRooflineNs(flops, bytes, rate, device.memory.rate) +
         device.launchNs;
}

static double predictSavings(const GemmGroup &group,
                             const DeviceCeilings &device) {
  auto inputType = cast<RankedTensorType>(group.gemms[0].input.getType());
  double depth = inputType.getShape().back();
  double rows = depth ? inputType.getNumElements() / depth : 0;
  double elementBytes = getElementBytes(inputType.getElementType()).value_or(4);
  double rate = elementBytes < 4 && device.fp16.rate ? device.fp16.rate
                                                     : device.fp32.rate;
  double apart = 0, width = 0, measured = 0;
  bool isMeasured = true;
  auto add = [&](const Gemm &gemm, std::optional<double> time) {
    apart +=
        predictGemmNs(rows, gemm.getWidth(), depth, elementBytes, device, rate);
    measured += time.value_or(0);
    isMeasured &= time.has_value();
  };
  for (const Gemm &gemm : group.gemms) {
    width += gemm.getWidth();
    add(gemm, prof::getTime(gemm.node));
  }
  // What has no time of its own, a compiler took for the first one.
  for (const auto &[place, gemm] : group.repeats)
    if (std::optional<double> time = prof::getTime(gemm.node))
      add(gemm, time);
  double merged = predictGemmNs(rows, width, depth, elementBytes, device, rate);
  // The model gives the ratio; a measured time gives the scale.
  return isMeasured ? measured * (1 - merged / apart) : apart - merged;
}

/// What decides about the script: two groups of one form are two places of one
/// rewrite.
static SmallVector<Attribute> getForm(const GemmGroup &group) {
  NodeOp node = group.gemms[0].node;
  SmallVector<Attribute> form{node.getTargetAttr(),
                              TypeAttr::get(group.gemms[0].input.getType())};
  for (const Gemm &gemm : group.gemms) {
    for (Value value : {gemm.weight, gemm.bias, gemm.result})
      form.push_back(value ? TypeAttr::get(value.getType()) : TypeAttr());
  }
  Builder builder(node.getContext());
  for (const auto &[place, gemm] : group.repeats)
    form.push_back(builder.getI64IntegerAttr(place));
  return form;
}

namespace {
/// What is offered for groups of one form.
struct Offered {
  SmallVector<Attribute> form;
  Recommendation current;
  SmallVector<SmallVector<NodeOp>> places;
  SmallVector<double> savings;
};
} // namespace

/// Leaves the places where the script can be applied.
static void keepApplicable(ArrayRef<GraphOp> graphs, Offered &offered,
                           Offers &offers) {
  Recommendation &current = offered.current;
  SmallVector<bool> applicable = findApplicable(
      graphs, kSharedInputGemms, *current.script, offered.places, offers);
  for (auto [place, saves, isApplicable] :
       llvm::zip(offered.places, offered.savings, applicable)) {
    if (!isApplicable)
      continue;
    current.savesNs += saves;
    std::vector<NodeId> &nodes = current.places.emplace_back();
    for (NodeOp node : place)
      nodes.push_back(getNodeId(node->getParentOfType<GraphOp>(), node));
  }
}

static void recommendSharedInputGemms(ArrayRef<GraphOp> graphs,
                                      const Evidence &evidence,
                                      Offers &offers) {
  std::vector<Offered> found;
  for (GraphOp graph : graphs)
    for (const GemmGroup &group : findGemmGroups(graph, offers)) {
      SmallVector<Attribute> form = getForm(group);
      auto same = llvm::find_if(
          found, [&](const Offered &other) { return other.form == form; });
      if (same == found.end()) {
        same = found.emplace(found.end());
        same->form = std::move(form);
        same->current.script = mergeGemms(group);
      }
      same->places.push_back(group.getNodes());
      same->savings.push_back(predictSavings(group, evidence.device));
    }
  for (Offered &offered : found) {
    keepApplicable(graphs, offered, offers);
    Recommendation &current = offered.current;
    if (current.places.empty())
      continue;
    current.name = kSharedInputGemms.name;
    current.finding = kSharedInputGemms.finding;
    current.title = std::to_string(current.places[0].size()) +
                    " GEMMs of one input become one";
    if (size_t places = current.places.size(); places > 1)
      current.title += ", at " + std::to_string(places) + " places";
    current.explanation =
        "Every product reads the same input, and each is too small to fill the "
        "device. With the weights side by side, one product reads the input "
        "once; each result is a slice of it. Every element is the same sum of "
        "the same products as before, so results agree up to the order in "
        "which the library adds.";
    current.error = 1e-6;
    offers.recommendations.push_back(std::move(current));
  }
}

const Rule rewrite::kSharedInputGemms = {
    "merge-gemms", "gemms-sharing-an-input",
    "linear, mm, matmul or addmm with one input and different 2-D weights that "
    "are inputs of the graph, all with or all without a 1-D bias; none is "
    "returned, and nothing they read is written between them",
    "times × (1 − roofline of one product of all widths, in waves of tiles / "
    "the sum of theirs)",
    recommendSharedInputGemms};
