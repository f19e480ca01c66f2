// The rules for strategies of whole graphs: weights laid out once, a lower
// precision, autotuning, one CUDA graph round the compiled program.

#include "opprof/Analysis/Cost/NodeCost.h"
#include "opprof/Dialect/FX/IR/Arguments.h"
#include "opprof/Dialect/FX/IR/FX.h"
#include "opprof/Dialect/FX/IR/Provenance.h"
#include "opprof/Dialect/FX/IR/Schema.h"
#include "opprof/Dialect/Prof/IR/Prof.h"
#include "opprof/Rewrite/Recommend.h"
#include "opprof/Target/TransformScript/ScriptBuilder.h"

#include "llvm/Support/Format.h"
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

  /// Both graphs as one.
  GraphFacts &operator+=(const GraphFacts &other);

  bool hasProducts() const { return products || convolutions; }
};

} // namespace

GraphFacts &GraphFacts::operator+=(const GraphFacts &other) {
  isFunctional &= other.isFunctional;
  isRandom |= other.isRandom;
  isStatic &= other.isStatic;
  isOnGPU &= other.isOnGPU;
  hasOtherFloats |= other.hasOtherFloats;
  hasFloat32Weights |= other.hasFloat32Weights;
  products += other.products;
  convolutions += other.convolutions;
  productWeightBytes += other.productWeightBytes;
  convolutionBytes += other.convolutionBytes;
  matrixFlops += other.matrixFlops;
  bytes += other.bytes;
  matrixNs += other.matrixNs;
  allNs += other.allNs;
  launches += other.launches;
  return *this;
}

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

static GraphFacts collectFacts(GraphOp graph) {
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
    if (std::optional<double> time = prof::getTime(node)) {
      facts.allNs += *time;
      facts.matrixNs += isMatrix ? *time : 0;
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

static Recommendation makeStrategy(GraphOp graph, StringRef name,
                                   StringRef finding, std::string title,
                                   std::string explanation,
                                   ArrayRef<NamedAttribute> strategies,
                                   double savesNs, double error) {
  Recommendation result;
  result.name = name.str();
  result.finding = finding.str();
  result.title = std::move(title);
  result.explanation = std::move(explanation);
  result.savesNs = std::max(savesNs, 0.0);
  result.error = error;
  ScriptBuilder script(graph.getContext());
  script.addStrategies(strategies);
  result.script = script.finish();
  return result;
}

namespace {

/// The strategies for the graphs of one program. Each is offered once, for the
/// graphs in which it is safe: the backend leaves the others alone.
class Strategies {
public:
  Strategies(ArrayRef<GraphOp> graphs, const Evidence &evidence,
             std::vector<Recommendation> &results);

  void recommendFreezing();
  void recommendPrecision(StringRef dtype, double rate, double error);
  void recommendCudaGraph();
  void recommendAutotuning();

private:
  /// The graphs for which `isSafe` holds, as one; none where there is none.
  std::optional<GraphFacts>
  select(llvm::function_ref<bool(const GraphFacts &)> isSafe) const;
  /// Kernel time of a step in these graphs, measured or by the model.
  double getKernelNs(const GraphFacts &facts) const;
  double getMatrixNs(const GraphFacts &facts) const;
  NamedAttribute flag(StringRef name) const {
    return {StringAttr::get(context, name), UnitAttr::get(context)};
  }

  GraphOp first;
  MLIRContext *context;
  const Evidence &evidence;
  const DeviceCeilings &device;
  std::vector<Recommendation> &results;
  SmallVector<GraphFacts> facts;
  GraphFacts all;
};

} // namespace

Strategies::Strategies(ArrayRef<GraphOp> graphs, const Evidence &evidence,
                       std::vector<Recommendation> &results)
    : first(graphs[0]), context(first.getContext()), evidence(evidence),
      device(evidence.device), results(results) {
  for (GraphOp graph : graphs) {
    facts.push_back(collectFacts(graph));
    all += facts.back();
  }
}

std::optional<GraphFacts>
Strategies::select(llvm::function_ref<bool(const GraphFacts &)> isSafe) const {
  std::optional<GraphFacts> selected;
  for (const GraphFacts &graph : facts)
    if (isSafe(graph)) {
      if (!selected)
        selected.emplace();
      *selected += graph;
    }
  return selected;
}

double Strategies::getMatrixNs(const GraphFacts &graphs) const {
  return graphs.matrixNs ? graphs.matrixNs
                         : getRooflineNs(graphs.matrixFlops, 0,
                                         device.fp32.rate, device.memory.rate);
}

double Strategies::getKernelNs(const GraphFacts &graphs) const {
  // What the profile says is of the whole program.
  if (evidence.kernelNs && graphs.launches == all.launches)
    return *evidence.kernelNs;
  if (graphs.allNs)
    return graphs.allNs;
  return getRooflineNs(graphs.matrixFlops, graphs.bytes, device.fp32.rate,
                       device.memory.rate);
}

void Strategies::recommendFreezing() {
  std::optional<GraphFacts> graphs = select([](const GraphFacts &graph) {
    return graph.hasProducts() && graph.hasFloat32Weights && graph.isFunctional;
  });
  if (!graphs)
    return;
  // Each layout is a read and a write of the weights; each convolution that is
  // followed by a normalization saves a pass over its result.
  double saves = 1e9 *
                 (2 * graphs->productWeightBytes + graphs->convolutionBytes) /
                 device.memory.rate;
  // A GPU's GEMMs take weights as they lie.
  if (device.isGPU)
    saves = 1e9 * graphs->convolutionBytes / device.memory.rate;
  results.push_back(makeStrategy(
      first, "freeze", "weights-laid-out-in-every-call",
      (Twine(graphs->products + graphs->convolutions) +
       " products and convolutions with weights laid out once")
          .str(),
      "The weights do not change between calls. As constants they are laid "
      "out once as the kernels want them, normalizations fold into the "
      "convolutions before them, and what depends on weights alone is "
      "computed once. Folding changes the order of roundings, no more.",
      flag("freeze"), std::min(saves, 0.5 * getKernelNs(*graphs)), 1e-6));
}

void Strategies::recommendPrecision(StringRef dtype, double rate,
                                    double error) {
  if (!rate)
    return;
  std::optional<GraphFacts> graphs = select([](const GraphFacts &graph) {
    return graph.hasFloat32Weights && !graph.hasOtherFloats &&
           graph.isFunctional;
  });
  if (!graphs)
    return;
  double matrixNs = getMatrixNs(*graphs);
  double saves = matrixNs * (1 - device.fp32.rate / rate) +
                 0.5 * std::max(getKernelNs(*graphs) - matrixNs, 0.0);
  std::string explanation;
  llvm::raw_string_ostream(explanation)
      << "The products run in float32, without the matrix units for " << dtype
      << ". Weights are cast once, inputs and outputs in every call; half the "
         "bytes move. An error of about "
      << llvm::format("%.0e", error)
      << " against float32 is usual, and validation measures it.";
  results.push_back(
      makeStrategy(first, dtype, "matrix-units-idle",
                   ("Everything between inputs and outputs in " + dtype).str(),
                   std::move(explanation),
                   {flag("freeze"),
                    {StringAttr::get(context, "precision"),
                     StringAttr::get(context, dtype)}},
                   saves, error));
}

void Strategies::recommendCudaGraph() {
  if (!device.isGPU)
    return;
  std::optional<GraphFacts> graphs = select([](const GraphFacts &graph) {
    return graph.isOnGPU && graph.isStatic && graph.isFunctional &&
           !graph.isRandom;
  });
  if (!graphs)
    return;
  double kernelNs = getKernelNs(all);
  double wallNs = evidence.wallNs.value_or(
      std::max(kernelNs, all.launches * 2 * device.launchNs));
  double saves = wallNs - evidence.busyNs.value_or(kernelNs);
  if (all.launches)
    saves *= static_cast<double>(graphs->launches) / all.launches;
  results.push_back(makeStrategy(
      first, "cuda-graph", "overhead-bound",
      "One CUDA graph captured round the compiled program",
      "The host needs time for every launch, and the device waits for it. "
      "Shapes are static and nothing is written but results, so the whole "
      "program can be captured once and replayed by a single launch; the same "
      "kernels run on the same values.",
      flag("cuda_graph"), saves, 0));
}

void Strategies::recommendAutotuning() {
  if (!device.isGPU)
    return;
  std::optional<GraphFacts> graphs = select([](const GraphFacts &graph) {
    return graph.convolutions && graph.isFunctional;
  });
  if (graphs)
    results.push_back(makeStrategy(
        first, "autotune", "kernel-choice-by-rule",
        (Twine(graphs->convolutions) + " convolutions with measured choices")
            .str(),
        "For each convolution and GEMM, Inductor times the library's kernels "
        "and its own templates once, when it compiles, and keeps the fastest.",
        flag("autotune"), 0.1 * getMatrixNs(*graphs), 1e-6));
}

void opprof::rewrite::recommendRegionStrategies(
    ArrayRef<GraphOp> graphs, const Evidence &evidence,
    std::vector<Recommendation> &results) {
  if (graphs.empty())
    return;
  Strategies strategies(graphs, evidence, results);
  strategies.recommendFreezing();
  strategies.recommendPrecision("float16", evidence.device.fp16.rate, 7e-4);
  strategies.recommendPrecision("bfloat16", evidence.device.bf16.rate, 6e-3);
  strategies.recommendCudaGraph();
  strategies.recommendAutotuning();
}
