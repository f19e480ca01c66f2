// The rules for strategies of whole graphs: weights laid out once, a lower
// precision, autotuning, one CUDA graph round the compiled program.

#include "opprof/Analysis/Cost/NodeCost.h"
#include "opprof/Analysis/Structure/StorageEffects.h"
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

static constexpr StringLiteral kMayWriteInput =
    "nothing is known of what it writes, which may be an input of the graph";

namespace {

/// A node of which something is true, or nothing.
struct Sight {
  Operation *node = nullptr;

  void note(Operation *other) { node = node ? node : other; }
  explicit operator bool() const { return node; }
};

/// What the strategies' preconditions and predictions ask of a graph.
struct GraphFacts {
  /// The graph, where these are the facts of one.
  GraphOp graph;
  /// The first node that writes an input, draws random numbers, has sizes that
  /// are symbols, or a tensor that is not on a GPU. Single values of the
  /// graph's own are none of these: Inductor hands them to kernels as numbers.
  Sight writesInput, draws, symbolic, offGPU;
  /// The first one of which nobody knows what it writes, where it comes before
  /// one that writes an input.
  Sight mayWriteInput;
  /// The first one of another floating type than float32, which a cast would
  /// not keep.
  Sight otherFloat;
  bool hasFloat32Weights = false;
  unsigned products = 0, convolutions = 0;
  /// Bytes of the weights that products and convolutions take, and of all that
  /// convolutions read and write.
  double productWeightBytes = 0, convolutionWeightBytes = 0;
  double convolutionBytes = 0;
  /// FLOPs of products, convolutions and attention, and all bytes.
  double matrixFlops = 0, bytes = 0;
  /// Measured time of those nodes, and of all.
  double matrixNs = 0, allNs = 0;
  unsigned launches = 0;

  /// Adds up what both take.
  GraphFacts &operator+=(const GraphFacts &other);

  bool hasProducts() const { return products || convolutions; }
};

} // namespace

GraphFacts &GraphFacts::operator+=(const GraphFacts &other) {
  products += other.products;
  convolutions += other.convolutions;
  productWeightBytes += other.productWeightBytes;
  convolutionWeightBytes += other.convolutionWeightBytes;
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

/// Notes at `place` what its tensor of `type` is, which callers give or not.
static void collectTypeFacts(Type type, Operation *place, GraphFacts &facts,
                             bool isGiven = false) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return;
  if (!tensor.hasStaticShape())
    facts.symbolic.note(place);
  auto info = dyn_cast_or_null<TensorInfoAttr>(tensor.getEncoding());
  bool isOnGPU = info && info.getDevice().starts_with("cuda");
  if (!isOnGPU && (isGiven || !info || tensor.getRank() > 0))
    facts.offGPU.note(place);
  Type element = tensor.getElementType();
  if (isa<FloatType, ComplexType>(element) && !element.isF32())
    facts.otherFloat.note(place);
}

/// Bytes of the parameters that a node takes, as float32.
static double getWeightBytes(GraphOp graph, NodeOp node) {
  double bytes = 0;
  for (Value operand : node.getOperands())
    if (auto argument = dyn_cast<BlockArgument>(operand))
      if (graph.getInputKind(argument.getArgNumber()) == "parameter")
        if (auto type = dyn_cast<RankedTensorType>(operand.getType());
            type && type.hasStaticShape())
          bytes += 4.0 * static_cast<double>(type.getNumElements());
  return bytes;
}

static GraphFacts collectFacts(GraphOp graph) {
  GraphFacts facts;
  facts.graph = graph;
  for (auto [index, argument] : llvm::enumerate(graph.getArguments())) {
    // Dynamo hands a program no input that nothing takes.
    if (argument.use_empty())
      continue;
    // Where an input is what it should not be, what takes it is named.
    Operation *user = *argument.getUsers().begin();
    collectTypeFacts(argument.getType(), user, facts,
                     graph.getInputKind(index) != "constant_tensor");
    auto tensor = dyn_cast<RankedTensorType>(argument.getType());
    if (tensor && tensor.getElementType().isF32() &&
        graph.getInputKind(index) == "parameter")
      facts.hasFloat32Weights = true;
  }
  Operation *write = StorageEffects(graph).findWriteOfInput();
  auto writer = dyn_cast_or_null<NodeOp>(write);
  bool isKnown = !writer || lookupSchema(writer.getTarget()) ||
                 writer.getTarget().starts_with("operator.");
  (isKnown ? facts.writesInput : facts.mayWriteInput).note(write);
  for (Operation &op : graph.getBlock()) {
    auto node = dyn_cast<NodeOp>(op);
    if (!node)
      continue;
    collectTypeFacts(node.getType(), node, facts);
    if (node.drawsRandomNumbers())
      facts.draws.note(node);
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
      facts.convolutionWeightBytes += getWeightBytes(graph, node);
    } else if (isMatrix) {
      ++facts.products;
      facts.productWeightBytes += getWeightBytes(graph, node);
    }
    if (std::optional<double> time = prof::getTime(node)) {
      facts.allNs += *time;
      facts.matrixNs += isMatrix ? *time : 0;
    }
  }
  return facts;
}

static Recommendation makeStrategy(GraphOp graph, const Rule &rule,
                                   std::string title, std::string explanation,
                                   ArrayRef<NamedAttribute> strategies,
                                   double savesNs, double error) {
  Recommendation result;
  result.name = rule.name;
  result.finding = rule.finding;
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
             Offers &offers);

  void recommendFreezing();
  void recommendPrecision(const Rule &rule, double rate, double error);
  void recommendCudaGraph();
  void recommendAutotuning();

private:
  /// What stands in the way of a strategy: the node, and why.
  using Obstacle = std::pair<Sight, StringRef>;

  /// The graphs for which `applies` holds and that nothing stands in the way
  /// of, as one; none where there is none. What stands in the way is declined.
  std::optional<GraphFacts>
  select(const Rule &rule, llvm::function_ref<bool(const GraphFacts &)> applies,
         llvm::function_ref<SmallVector<Obstacle>(const GraphFacts &)>
             getObstacles = nullptr) const;
  void offer(Recommendation recommendation) {
    offers.recommendations.push_back(std::move(recommendation));
  }
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
  Offers &offers;
  SmallVector<GraphFacts> facts;
  GraphFacts all;
};

} // namespace

Strategies::Strategies(ArrayRef<GraphOp> graphs, const Evidence &evidence,
                       Offers &offers)
    : first(graphs[0]), context(first.getContext()), evidence(evidence),
      device(evidence.device), offers(offers) {
  for (GraphOp graph : graphs) {
    facts.push_back(collectFacts(graph));
    all += facts.back();
  }
}

std::optional<GraphFacts> Strategies::select(
    const Rule &rule, llvm::function_ref<bool(const GraphFacts &)> applies,
    llvm::function_ref<SmallVector<Obstacle>(const GraphFacts &)> getObstacles)
    const {
  std::optional<GraphFacts> selected;
  for (const GraphFacts &graph : facts) {
    if (!applies(graph))
      continue;
    bool isFree = true;
    if (getObstacles)
      for (auto [sight, reason] : getObstacles(graph))
        if (sight) {
          offers.decline(rule.name, reason, graph.graph, sight.node);
          isFree = false;
        }
    if (!isFree)
      continue;
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
  // What is written is no constant, and nothing else changes.
  std::optional<GraphFacts> graphs =
      select(kFreeze, [](const GraphFacts &graph) {
        return graph.hasProducts() && graph.hasFloat32Weights;
      });
  if (!graphs)
    return;
  // Each layout is a read and a write of the weights; on a CPU each convolution
  // that is followed by a normalization saves a pass over its result.
  double saves = 1e9 *
                 (2 * graphs->productWeightBytes + graphs->convolutionBytes) /
                 device.memory.rate;
  // A GPU's GEMMs take weights as they lie; the pass over a convolution's
  // result stays there, as Inductor adds the bias in it.
  if (device.isGPU)
    saves = 1e9 * 2 * graphs->convolutionWeightBytes / device.memory.rate;
  offer(makeStrategy(
      first, kFreeze,
      (Twine(graphs->products + graphs->convolutions) +
       " products and convolutions with weights laid out once")
          .str(),
      "The weights do not change between calls. As constants they are laid "
      "out once as the kernels want them, normalizations fold into the "
      "convolutions before them, and what depends on weights alone is "
      "computed once. Folding changes the order of roundings, no more.",
      flag("freeze"), std::min(saves, 0.5 * getKernelNs(*graphs)), 1e-6));
}

void Strategies::recommendPrecision(const Rule &rule, double rate,
                                    double error) {
  StringRef dtype = rule.name;
  if (!rate)
    return;
  std::optional<GraphFacts> graphs = select(
      rule, [](const GraphFacts &graph) { return graph.hasFloat32Weights; },
      [](const GraphFacts &graph) -> SmallVector<Obstacle> {
        return {{graph.otherFloat, "not all of its floats are float32"},
                {graph.writesInput, "it writes an input of the graph"},
                {graph.mayWriteInput, kMayWriteInput}};
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
  offer(makeStrategy(
      first, rule, ("Everything between inputs and outputs in " + dtype).str(),
      std::move(explanation),
      {flag("freeze"),
       {StringAttr::get(context, "precision"),
        StringAttr::get(context, dtype)}},
      saves, error));
}

void Strategies::recommendCudaGraph() {
  if (!device.isGPU)
    return;
  std::optional<GraphFacts> graphs = select(
      kCudaGraph, [](const GraphFacts &graph) { return graph.launches > 0; },
      [](const GraphFacts &graph) -> SmallVector<Obstacle> {
        return {{graph.offGPU, "a tensor is not on the GPU"},
                {graph.symbolic, "its sizes are symbols"},
                {graph.writesInput, "it writes an input of the graph"},
                {graph.mayWriteInput, kMayWriteInput},
                {graph.draws, "it draws random numbers"}};
      });
  if (!graphs)
    return;
  double kernelNs = getKernelNs(all);
  double wallNs = evidence.wallNs.value_or(
      std::max(kernelNs, all.launches * 2 * device.launchNs));
  double saves = wallNs - evidence.busyNs.value_or(kernelNs);
  if (all.launches)
    saves *= static_cast<double>(graphs->launches) / all.launches;
  offer(makeStrategy(
      first, kCudaGraph, "One CUDA graph captured round the compiled program",
      "The host needs time for every launch, and the device waits for it. "
      "Shapes are static and no input is written, so the whole "
      "program can be captured once and replayed by a single launch; the same "
      "kernels run on the same values.",
      flag("cuda_graph"), saves, 0));
}

void Strategies::recommendAutotuning() {
  if (!device.isGPU)
    return;
  std::optional<GraphFacts> graphs =
      select(kAutotune,
             [](const GraphFacts &graph) { return graph.convolutions > 0; });
  if (graphs)
    offer(makeStrategy(
        first, kAutotune,
        (Twine(graphs->convolutions) + " convolutions with measured choices")
            .str(),
        "For each convolution and GEMM, Inductor times the library's kernels "
        "and its own templates once, when it compiles, and keeps the fastest.",
        flag("autotune"), 0.1 * getMatrixNs(*graphs), 1e-6));
}

const Rule rewrite::kFreeze = {
    "freeze", "weights-laid-out-in-every-call",
    "products or convolutions, and parameters of float32; weights that the "
    "graph writes stay inputs",
    "bytes of two passes over the weights of convolutions (on a CPU over those "
    "of products, and one over what convolutions read and write) / memory "
    "bandwidth, at most half of the kernel time",
    [](ArrayRef<GraphOp> graphs, const Evidence &evidence, Offers &offers) {
      Strategies(graphs, evidence, offers).recommendFreezing();
    }};

static constexpr StringLiteral kPrecisionConditions =
    "parameters of float32, no other floating type, and no write to an input; "
    "the device has units for it";
static constexpr StringLiteral kPrecisionPrediction =
    "time of products × (1 − float32 rate / its rate) + half of all other "
    "kernel time";

const Rule rewrite::kFloat16 = {
    "float16", "matrix-units-idle", kPrecisionConditions, kPrecisionPrediction,
    [](ArrayRef<GraphOp> graphs, const Evidence &evidence, Offers &offers) {
      Strategies(graphs, evidence, offers)
          .recommendPrecision(kFloat16, evidence.device.fp16.rate, 7e-4);
    }};

const Rule rewrite::kBFloat16 = {
    "bfloat16", "matrix-units-idle", kPrecisionConditions, kPrecisionPrediction,
    [](ArrayRef<GraphOp> graphs, const Evidence &evidence, Offers &offers) {
      Strategies(graphs, evidence, offers)
          .recommendPrecision(kBFloat16, evidence.device.bf16.rate, 6e-3);
    }};

const Rule rewrite::kCudaGraph = {
    "cuda-graph", "overhead-bound",
    "all tensors on a GPU, sizes that are numbers, no write to an input, "
    "nothing random",
    "wall time − time in which the device is busy",
    [](ArrayRef<GraphOp> graphs, const Evidence &evidence, Offers &offers) {
      Strategies(graphs, evidence, offers).recommendCudaGraph();
    }};

const Rule rewrite::kAutotune = {
    "autotune", "kernel-choice-by-rule", "convolutions on a GPU",
    "a tenth of the time of products and convolutions",
    [](ArrayRef<GraphOp> graphs, const Evidence &evidence, Offers &offers) {
      Strategies(graphs, evidence, offers).recommendAutotuning();
    }};
