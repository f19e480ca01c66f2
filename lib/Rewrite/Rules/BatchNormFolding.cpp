// The rule "batch normalizations fold into the products before them". In
// inference a normalization scales and shifts every channel by the same numbers
// in every call, which the weights can do themselves.

#include "OpenScript.h"

using namespace mlir;
using namespace opprof;
using namespace opprof::fx;
using namespace opprof::rewrite;

namespace {

/// An operator whose result a normalization may follow, and its dimensions. A
/// linear layer's channels are in the second one only where there are two.
struct Product {
  StringLiteral target;
  unsigned rank;
  bool isConvolution;
};

constexpr Product kProducts[] = {{"aten.conv1d.default", 3, true},
                                 {"aten.conv2d.default", 4, true},
                                 {"aten.conv3d.default", 5, true},
                                 {"aten.linear.default", 2, false}};

/// Builds the script for one product, with a bias or without.
class FoldingMaker {
public:
  FoldingMaker(const Product &product, bool hasBias, const TensorKind &kind)
      : product(product), hasBias(hasBias), script(kind) {}

  OwningOpRef<ModuleOp> make();

private:
  /// The arguments of both graphs; a bias is the last one.
  enum Input { X, Weight, Gamma, Beta, Mean, Var, Bias };

  Type getType(StringRef first, StringRef second, StringRef others) const;
  Type getResultType() const { return getType("batch", "out", "result"); }
  void beginGraph(StringRef name);
  Value get(Input input) { return graph.getArgument(input); }
  Value multiply(Value weight, Value bias);
  Value compute(StringRef name, StringRef target, ValueRange operands) {
    return script.addNode(name, target, operands, script.getType({"out"}));
  }

  const Product &product;
  bool hasBias;
  OpenScript script;
  GraphOp graph;
};

} // namespace

Type FoldingMaker::getType(StringRef first, StringRef second,
                           StringRef others) const {
  SmallVector<std::string> sizes{first.str(), second.str()};
  for (unsigned i = 2; i < product.rank; ++i)
    sizes.push_back((others + Twine(i)).str());
  return script.getType(sizes);
}

void FoldingMaker::beginGraph(StringRef name) {
  SmallVector<std::string> names{"x", "weight", "gamma", "beta", "mean", "var"};
  SmallVector<Type> types{getType("batch", "in", "size"),
                          getType("out", "group", "kernel")};
  types.append(4 + hasBias, script.getType({"out"}));
  if (hasBias)
    names.push_back("bias");
  graph = script.beginGraph(name, names, types, getResultType());
}

/// The product of x; a null bias is none.
Value FoldingMaker::multiply(Value weight, Value bias) {
  SmallVector<Value> operands{get(X), weight};
  if (bias)
    operands.push_back(bias);
  SmallVector<Attribute> arguments{script.value(), script.value(),
                                   bias ? script.value() : script.none()};
  if (product.isConvolution)
    for (StringRef name : {"stride", "padding", "dilation", "groups"})
      arguments.push_back(script.open(name));
  return script.addNode("product", product.target, operands, getResultType(),
                        arguments);
}

OwningOpRef<ModuleOp> FoldingMaker::make() {
  beginGraph("pattern");
  GraphOp pattern = graph;
  SmallVector<Attribute> arguments(5, script.value());
  arguments.append({script.flag(false), script.open("momentum"),
                    script.open("eps"), script.open("cudnn_enabled")});
  Value product = multiply(get(Weight), hasBias ? get(Bias) : Value());
  script.finishGraph(
      script.addNode("normalized", "aten.batch_norm.default",
                     {product, get(Gamma), get(Beta), get(Mean), get(Var)},
                     getResultType(), arguments));

  beginGraph("replacement");
  Value shifted = script.addNode("shifted", "aten.add.Scalar", get(Var),
                                 script.getType({"out"}),
                                 {script.value(), script.open("eps")});
  Value root = compute("root", "aten.rsqrt.default", shifted);
  Value scale = compute("scale", "aten.mul.Tensor", {get(Gamma), root});
  SmallVector<Attribute> shape(this->product.rank, script.number(1));
  shape[0] = script.number(-1);
  Value column =
      script.addNode("column", "aten.reshape.default", scale,
                     script.getAnyType(this->product.rank),
                     {script.value(), script.getBuilder().getArrayAttr(shape)});
  Value weight = script.addNode("weight_scaled", "aten.mul.Tensor",
                                {get(Weight), column}, get(Weight).getType());
  Value offset =
      hasBias ? compute("offset", "aten.sub.Tensor", {get(Bias), get(Mean)})
              : compute("offset", "aten.neg.default", get(Mean));
  Value scaled = compute("scaled", "aten.mul.Tensor", {offset, scale});
  Value bias = compute("shift", "aten.add.Tensor", {scaled, get(Beta)});
  script.finishGraph(multiply(weight, bias));
  script.addReplacement(pattern, graph);
  script.addStrategies(NamedAttribute(
      StringAttr::get(script.getBuilder().getContext(), "prologue"),
      script.getBuilder().getUnitAttr()));
  return script.finish();
}

const Rule rewrite::kBatchNormFolding = {
    "fold-batch-norm", "normalization-by-constants",
    "batch_norm in inference, with factors, of a convolution or of a linear "
    "layer with a 2-D result that nothing else takes",
    kPredictionByModel,
    [](ArrayRef<GraphOp> graphs, const Evidence &evidence, Offers &offers) {
      std::vector<Recommendation> variants;
      for (const TensorKind &kind :
           collectKinds(graphs, "aten.batch_norm.default"))
        for (const Product &product : kProducts)
          for (bool hasBias : {false, true})
            variants.push_back(makeVariant(
                kBatchNormFolding,
                "Batch normalizations fold into the weights before them",
                "In inference a batch normalization multiplies each channel "
                "by one number and adds another, the same in every call. "
                "Weights that are multiplied once, and a bias, do that in the "
                "product itself. Folding changes the order of roundings.",
                FoldingMaker(product, hasBias, kind).make()));
      offerVariants(graphs, evidence, kBatchNormFolding, std::move(variants),
                    offers);
    }};
