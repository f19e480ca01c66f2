// The rules for strategies of a whole graph: weights laid out once, a lower
// precision, autotuning, one CUDA graph round the compiled program.

#include "opprof/Analysis/Cost/NodeCost.h"
#include "opprof/Dialect/FX/IR/Arguments.h"
#include "opprof/Dialect/FX/IR/FX.h"
#include "opprof/Dialect/FX/IR/Provenance.h"
#include "opprof/Dialect/FX/IR/Schema.h"
#include "opprof/Rewrite/Recommend.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace opprof;
using namespace opprof::fx;
using namespace opprof::rewrite;

namespace {

/// What the strategies' preconditions and predictions ask of a graph.
struct GraphFacts {
  bool isFunctional = true;
  bool isRandom = false;
  bool isStatic = true;
  bool isOnGPU = true;
  /// Tensors of other floating types than float32, which a cast would not keep.
  bool hasOtherFloats = false;
  bool hasFloat32Weights = false;
  unsigned products = 0, convolutions = 0;
  /// Bytes of the weights that products and convolutions take.
  double productWeightBytes = 0;
  double convolutionBytes = 0;
  /// FLOPs of products, convolutions and attention, and all bytes.
  double matrixFlops = 0, bytes = 0;
  /// Measured time of those nodes, and of all.
  double matrixNs = 0, allNs = 0;
  unsigned launches = 0;
};

} // namespace

static bool isConvolution(NodeOp node) {
  return node.getTarget().starts_with("aten.conv") ||
         node.getTarget().starts_with("aten.convolution");
}

static void collectTypeFacts(Type type, GraphFacts &facts) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return;
  facts.isStatic &= tensor.hasStaticShape();
  auto info = dyn_cast_or_null<TensorInfoAttr>(tensor.getEncoding());
  facts.isOnGPU &= info && info.getDevice().starts_with("cuda");
  Type element = tensor.getElementType();
  if (isa<FloatType, ComplexType>(element) && !element.isF32())
    facts.hasOtherFloats = true;
}

static GraphFacts collectFacts(GraphOp graph, const Evidence &evidence) {
  GraphFacts facts;
  for (auto [index, argument] : llvm::enumerate(graph.getArguments())) {
    collectTypeFacts(argument.getType(), facts);
    auto tensor = dyn_cast<RankedTensorType>(argument.getType());
    if (tensor && tensor.getElementType().isF32() &&
        graph.getInputKind(index) == "parameter")
      facts.hasFloat32Weights = true;
  }
  for (Operation &op : graph.getBlock()) {
    auto node = dyn_cast<NodeOp>(op);
    if (!node)
      continue;
    collectTypeFacts(node.getType(), facts);
    facts.isFunctional &= !node.mayWrite();
    facts.isRandom |= node.drawsRandomNumbers();
    OperatorCost cost = getNodeCost(node);
    bool isMatrix = cost.kind == WorkKind::Matrix;
    if (cost.kind != WorkKind::View && node.getTarget() != "operator.getitem")
      ++facts.launches;
    double bytes = cost.bytesRead.value_or(0) + cost.bytesWritten.value_or(0);
    facts.bytes += bytes;
    if (isMatrix)
      facts.matrixFlops += cost.flops.value_or(0);
    if (isConvolution(node)) {
      ++facts.convolutions;
      facts.convolutionBytes += bytes;
    } else if (isMatrix) {
      ++facts.products;
      for (Value operand : node.getOperands())
        if (auto argument = dyn_cast<BlockArgument>(operand))
          if (graph.getInputKind(argument.getArgNumber()) == "parameter")
            if (auto type = dyn_cast<RankedTensorType>(operand.getType());
                type && type.hasStaticShape())
              facts.productWeightBytes +=
                  4.0 * static_cast<double>(type.getNumElements());
    }
    auto found = evidence.nodeNs.find(getNodeName(node));
    if (found != evidence.nodeNs.end()) {
      facts.allNs += found->second;
      facts.matrixNs += isMatrix ? found->second : 0;
    }
  }
  // A graph of another stage names its written inputs in its signature.
  if (auto signature = graph.getOutput().getSignature())
    for (Attribute entry : *signature)
      if (auto fields = dyn_cast<DictionaryAttr>(entry))
        if (auto kind = fields.getAs<StringAttr>("kind"))
          facts.isFunctional &= !kind.getValue().contains("mutation");
  return facts;
}

static Recommendation makeStrategy(StringRef name, StringRef finding,
                                   std::string title, std::string explanation,
                                   StringRef strategies, double savesNs,
                                   double error) {
  Recommendation result;
  result.name = name.str();
  result.finding = finding.str();
  result.title = std::move(title);
  result.explanation = std::move(explanation);
  result.savesNs = std::max(savesNs, 0.0);
  result.error = error;
  result.sequence = ("    transform.fx.region_strategy %root {" + strategies +
                     "} : !transform.any_op\n")
                        .str();
  return result;
}

void opprof::rewrite::recommendRegionStrategies(
    GraphOp graph, const Evidence &evidence,
    std::vector<Recommendation> &results) {
  GraphFacts facts = collectFacts(graph, evidence);
  const DeviceCeilings &device = evidence.device;
  double matrixModelNs =
      getRooflineNs(facts.matrixFlops, 0, device.fp32.rate, device.memory.rate);
  double memoryModelNs =
      getRooflineNs(0, facts.bytes, device.fp32.rate, device.memory.rate);
  double matrixNs = facts.matrixNs ? facts.matrixNs : matrixModelNs;
  double kernelNs = evidence.kernelNs.value_or(
      facts.allNs ? facts.allNs : std::max(matrixModelNs, memoryModelNs));

  if ((facts.products || facts.convolutions) && facts.hasFloat32Weights &&
      facts.isFunctional) {
    // Each layout is a read and a write of the weights; each convolution that
    // is followed by a normalization saves a pass over its result.
    double saves = 1e9 *
                   (2 * facts.productWeightBytes + facts.convolutionBytes) /
                   device.memory.rate;
    // A GPU's GEMMs take weights as they lie.
    if (device.isGPU)
      saves = 1e9 * facts.convolutionBytes / device.memory.rate;
    results.push_back(makeStrategy(
        "freeze", "weights-laid-out-in-every-call",
        (Twine(facts.products + facts.convolutions) +
         " products and convolutions with weights laid out once")
            .str(),
        "The weights do not change between calls. As constants they are laid "
        "out once as the kernels want them, normalizations fold into the "
        "convolutions before them, and what depends on weights alone is "
        "computed once. Folding changes the order of roundings, no more.",
        "freeze", std::min(saves, 0.5 * kernelNs), 1e-6));
  }

  struct Precision {
    StringRef dtype;
    double rate, error;
  };
  for (const Precision &precision :
       {Precision{"float16", device.fp16.rate, 7e-4},
        Precision{"bfloat16", device.bf16.rate, 6e-3}}) {
    if (!precision.rate || precision.error > evidence.errorBudget ||
        !facts.hasFloat32Weights || facts.hasOtherFloats || !facts.isFunctional)
      continue;
    double saves = matrixNs * (1 - device.fp32.rate / precision.rate) +
                   0.5 * std::max(kernelNs - matrixNs, 0.0);
    std::string explanation;
    llvm::raw_string_ostream(explanation)
        << "The products run in float32, without the matrix units for "
        << precision.dtype
        << ". Weights are cast once, inputs and outputs in every call; half "
           "the bytes move. An error of about "
        << llvm::format("%.0e", precision.error)
        << " against float32 is usual, and validation measures it.";
    results.push_back(makeStrategy(
        precision.dtype, "matrix-units-idle",
        ("Everything between inputs and outputs in " + precision.dtype).str(),
        std::move(explanation),
        ("freeze, precision = \"" + precision.dtype + "\"").str(), saves,
        precision.error));
  }

  if (device.isGPU && facts.isOnGPU && facts.isStatic && facts.isFunctional &&
      !facts.isRandom) {
    double wallNs = evidence.wallNs.value_or(
        std::max(kernelNs, facts.launches * 2 * device.launchNs));
    results.push_back(makeStrategy(
        "cuda-graph", "overhead-bound",
        "One CUDA graph captured round the compiled program",
        "The host needs time for every launch, and the device waits for it. "
        "Shapes are static and nothing is written but results, so the whole "
        "program can be captured once and replayed by a single launch; the "
        "same kernels run on the same values.",
        "cuda_graph", wallNs - evidence.busyNs.value_or(kernelNs), 0));
  }

  if (device.isGPU && facts.convolutions && facts.isFunctional)
    results.push_back(makeStrategy(
        "autotune", "kernel-choice-by-rule",
        (Twine(facts.convolutions) + " convolutions with measured choices")
            .str(),
        "For each convolution and GEMM, Inductor times the library's kernels "
        "and its own templates once, when it compiles, and keeps the fastest.",
        "autotune", 0.1 * matrixNs, 1e-6));
}
