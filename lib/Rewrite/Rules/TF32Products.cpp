// The rule for float32 products on a device with TF32 units, which PyTorch
// leaves idle unless it is told to use them.

#include "opprof/Analysis/Cost/NodeCost.h"
#include "opprof/Dialect/FX/IR/FX.h"
#include "opprof/Dialect/FX/IR/Schema.h"
#include "opprof/Dialect/Prof/IR/Prof.h"
#include "opprof/Rewrite/Recommend.h"
#include "opprof/Target/TransformScript/ScriptBuilder.h"

using namespace mlir;
using namespace opprof;
using namespace opprof::fx;
using namespace opprof::rewrite;

/// What TF32's eleven bits cost a product of random matrices: 3e-4 where
/// operands are rounded to nearest, and this where bits are dropped.
static constexpr double kError = 8e-4;

/// A product of float32 on a GPU that cuBLAS computes. Convolutions use TF32
/// units by PyTorch's default, and kernels of attention do not ask.
static bool isFloat32Product(NodeOp node) {
  constexpr StringLiteral kProducts[] = {"mm",      "addmm",  "bmm",
                                         "baddbmm", "linear", "matmul"};
  if (!llvm::is_contained(kProducts, getOperatorName(node.getTarget())))
    return false;
  auto type = dyn_cast<RankedTensorType>(node.getType());
  if (!type || !type.getElementType().isF32())
    return false;
  auto info = dyn_cast_or_null<TensorInfoAttr>(type.getEncoding());
  return info && info.getDevice().starts_with("cuda");
}

/// What TF32 units should save of a product's time.
static double getSavedNs(NodeOp node, const DeviceCeilings &device) {
  OperatorCost cost = getNodeCost(node);
  double flops = cost.flops.value_or(0);
  double bytes = cost.bytesRead.value_or(0) + cost.bytesWritten.value_or(0);
  double before =
      getRooflineNs(flops, bytes, device.fp32.rate, device.memory.rate);
  double after =
      getRooflineNs(flops, bytes, device.tf32.rate, device.memory.rate);
  if (!before)
    return 0;
  return prof::getTime(node).value_or(before) * (1 - after / before);
}

static void recommendTF32Products(ArrayRef<GraphOp> graphs,
                                  const Evidence &evidence, Offers &offers) {
  const DeviceCeilings &device = evidence.device;
  if (!device.tf32.rate)
    return;
  unsigned products = 0;
  double savesNs = 0;
  for (GraphOp graph : graphs)
    for (NodeOp node : graph.getBlock().getOps<NodeOp>()) {
      if (!isFloat32Product(node))
        continue;
      ++products;
      savesNs += getSavedNs(node, device);
    }
  // Products that wait for memory alone gain nothing.
  if (savesNs <= 0)
    return;
  Recommendation result;
  result.name = kTF32Products.name;
  result.finding = kTF32Products.finding;
  result.title = (Twine(products) + " float32 product" +
                  (products == 1 ? "" : "s") + " on TF32 units")
                     .str();
  result.explanation =
      "The products run in float32, without matrix units. TF32 units round "
      "what they multiply to eleven bits and add in float32: all values keep "
      "the range of float32, and what is no product keeps its precision.";
  result.savesNs = savesNs;
  result.error = kError;
  MLIRContext *context = graphs.front()->getContext();
  ScriptBuilder script(context);
  script.addStrategies(
      NamedAttribute(StringAttr::get(context, "tf32"), UnitAttr::get(context)));
  result.script = script.finish();
  offers.recommendations.push_back(std::move(result));
}

const Rule rewrite::kTF32Products = {
    "tf32", "matrix-units-idle",
    "products of float32 on a GPU that has TF32 units",
    "sum over products of time × (1 − roofline at the TF32 rate / roofline at "
    "the float32 rate)",
    recommendTF32Products};
