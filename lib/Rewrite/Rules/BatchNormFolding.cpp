// The rule "batch normalizations fold into the products before them". In
// inference a normalization scales and shifts every channel by the same numbers
// in every call, which the weights can do themselves. So does one that a model
// spells as a factor and a term made of weights.

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
  /// The constants behind the bias.
  ArrayRef<StringRef> constants;
  /// Channels are the weight's second dimension, and those of groups share it.
  bool isTransposed = false;
};

constexpr StringRef kConvolution[] = {"stride", "padding", "dilation",
                                      "groups"};
constexpr StringRef kTransposed[] = {"stride", "padding", "output_padding",
                                     "groups", "dilation"};
constexpr Product kProducts[] = {
    {"aten.conv1d.default", 3, kConvolution},
    {"aten.conv2d.default", 4, kConvolution},
    {"aten.conv3d.default", 5, kConvolution},
    {"aten.conv1d.padding", 3, kConvolution},
    {"aten.conv2d.padding", 4, kConvolution},
    {"aten.conv3d.padding", 5, kConvolution},
    {"aten.conv_transpose1d.default", 3, kTransposed, true},
    {"aten.conv_transpose2d.input", 4, kTransposed, true},
    {"aten.conv_transpose3d.input", 5, kTransposed, true},
    {"aten.linear.default", 2, {}}};

/// What decides about the script of a normalization.
struct Form {
  const Product *product;
  bool hasBias, hasFactors;
  TensorKind kind;
  /// The dimensions of a factor and a term that stand for the normalization;
  /// none where it is an operator.
  unsigned spelledRank = 0;
  /// How a linear layer's result of three dimensions is viewed before it is
  /// normalized, so that its channels are the second one; null where it isn't.
  StringAttr view = {};
  SmallVector<Attribute> viewArguments = {};
  /// What gives the normalized rows the sizes of the layer's result again,
  /// which it takes for that; null where nothing does.
  StringAttr restore = {};

  bool swapsDims() const {
    return view == "aten.transpose.int" || view == "aten.permute.default";
  }
  bool operator==(const Form &) const = default;
};

/// Builds the script of one form.
class FoldingMaker {
public:
  explicit FoldingMaker(const Form &form)
      : form(form), product(*form.product), script(form.kind) {}

  OwningOpRef<ModuleOp> make();

private:
  Type getType(StringRef first, StringRef second, StringRef others) const;
  Type getInputType() const {
    return form.view ? script.getType({"batch", "length", "in"})
                     : getType("batch", "in", "size");
  }
  Type getProductType() const {
    return form.view ? script.getType({"batch", "length", "out"})
                     : getResultType();
  }
  Type getResultType() const {
    if (form.view)
      return form.swapsDims() ? script.getType({"batch", "out", "length"})
                              : script.getType({"rows", "out"});
    return getType("batch", "out", "result");
  }
  void beginGraph(StringRef name);
  /// An argument of both graphs.
  Value get(StringRef name) {
    const auto *place = llvm::find(names, name);
    return place == names.end() ? Value()
                                : graph.getArgument(place - names.begin());
  }
  Value multiply(Value weight, Value bias);
  Value view(Value product);
  Type getSpelledType();
  Value normalize(Value product);
  Value makeScale();
  Value makeBias(Value scale);
  Value reshape(StringRef name, Value value, ArrayRef<Attribute> shape) {
    return script.addNode(name, "aten.reshape.default", value,
                          script.getAnyType(shape.size()),
                          {script.value(), script.list(shape)});
  }
  Value compute(StringRef name, StringRef target, ValueRange operands) {
    return script.addNode(name, target, operands, script.getType({"out"}));
  }

  const Form &form;
  const Product &product;
  OpenScript script;
  GraphOp graph;
  SmallVector<std::string> names;
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
  names = {"x", "weight"};
  SmallVector<Type> types{
      getInputType(), product.isTransposed ? getType("in", "out", "kernel")
                                           : getType("out", "group", "kernel")};
  if (form.spelledRank) {
    names.append({"scale", "shift"});
    types.append(2, getSpelledType());
  } else {
    if (form.hasFactors)
      names.append({"gamma", "beta"});
    names.append({"mean", "var"});
  }
  if (form.hasBias)
    names.push_back("bias");
  types.append(names.size() - types.size(), script.getType({"out"}));
  graph = script.beginGraph(name, names, types,
                            form.restore ? getProductType() : getResultType());
}

/// The product of x; a null bias is none.
Value FoldingMaker::multiply(Value weight, Value bias) {
  SmallVector<Value> operands{get("x"), weight};
  if (bias)
    operands.push_back(bias);
  SmallVector<Attribute> arguments{script.value(), script.value(),
                                   bias ? script.value() : script.none()};
  for (StringRef name : product.constants)
    arguments.push_back(product.isTransposed && name == "groups"
                            ? script.number(1)
                            : script.open(name));
  return script.addNode("product", product.target, operands, getProductType(),
                        arguments);
}

/// The product as it is normalized.
Value FoldingMaker::view(Value product) {
  return form.view ? script.addNode("viewed", form.view.getValue(), product,
                                    getResultType(), form.viewArguments)
                   : product;
}

/// The type of a factor or a term of channels: its other dimensions are 1.
Type FoldingMaker::getSpelledType() {
  SmallVector<Attribute> sizes(form.spelledRank, script.number(1));
  sizes[form.spelledRank + 1 - product.rank] = script.size("out");
  return script.getType(sizes, form.kind.element, /*isContiguous=*/false);
}

Value FoldingMaker::normalize(Value product) {
  if (form.spelledRank) {
    Value scaled = script.addNode("scaled", "aten.mul.Tensor",
                                  {product, get("scale")}, getResultType());
    return script.addNode("normalized", "aten.add.Tensor",
                          {scaled, get("shift")}, getResultType());
  }
  SmallVector<Value> operands{product};
  if (form.hasFactors)
    operands.append({get("gamma"), get("beta")});
  operands.append({get("mean"), get("var")});
  SmallVector<Attribute> arguments(5, script.value());
  if (!form.hasFactors)
    arguments[1] = arguments[2] = script.none();
  arguments.append({script.flag(false), script.open("momentum"),
                    script.open("eps"), script.open("cudnn_enabled")});
  return script.addNode("normalized", "aten.batch_norm.default", operands,
                        getResultType(), arguments);
}

/// What each channel is multiplied by.
Value FoldingMaker::makeScale() {
  if (form.spelledRank)
    return get("scale");
  Value shifted = script.addNode("shifted", "aten.add.Scalar", get("var"),
                                 script.getType({"out"}),
                                 {script.value(), script.open("eps")});
  Value root = compute("root", "aten.rsqrt.default", shifted);
  return form.hasFactors
             ? compute("scale", "aten.mul.Tensor", {get("gamma"), root})
             : root;
}

Value FoldingMaker::makeBias(Value scale) {
  if (form.spelledRank) {
    Value shift = reshape("shift", get("shift"), {script.number(-1)});
    if (!form.hasBias)
      return shift;
    Value factor = reshape("factor", scale, {script.number(-1)});
    Value scaled = compute("scaled", "aten.mul.Tensor", {get("bias"), factor});
    return compute("bias", "aten.add.Tensor", {scaled, shift});
  }
  Value offset =
      form.hasBias
          ? compute("offset", "aten.sub.Tensor", {get("bias"), get("mean")})
          : compute("offset", "aten.neg.default", get("mean"));
  Value bias = compute("scaled", "aten.mul.Tensor", {offset, scale});
  return form.hasFactors
             ? compute("shift", "aten.add.Tensor", {bias, get("beta")})
             : bias;
}

OwningOpRef<ModuleOp> FoldingMaker::make() {
  beginGraph("pattern");
  GraphOp pattern = graph;
  Value product = multiply(get("weight"), get("bias"));
  Value normalized = normalize(view(product));
  script.finishGraph(
      form.restore ? script.addNode("restored", form.restore.getValue(),
                                    {normalized, product}, getProductType())
                   : normalized);

  beginGraph("replacement");
  Value scale = makeScale();
  SmallVector<Attribute> shape(this->product.rank, script.number(1));
  shape[this->product.isTransposed] = script.number(-1);
  Value weight =
      script.addNode("weight_scaled", "aten.mul.Tensor",
                     {get("weight"), reshape("column", scale, shape)},
                     get("weight").getType());
  Value folded = multiply(weight, makeBias(scale));
  script.finishGraph(form.restore ? folded : view(folded));
  script.addReplacement(pattern, graph);
  script.addStrategies(NamedAttribute(
      StringAttr::get(script.getBuilder().getContext(), "prologue"),
      script.getBuilder().getUnitAttr()));
  return script.finish();
}

static const Product *findProduct(NodeOp node) {
  const auto *product = llvm::find_if(kProducts, [&](const Product &known) {
    return node && known.target == node.getTarget();
  });
  return product == std::end(kProducts) ? nullptr : product;
}

/// True where `node` views a linear layer's result of three dimensions so that
/// its channels, the last one, are the second one.
static bool bringsChannelsForward(NodeOp node) {
  auto before = node.getNumOperands() == 1
                    ? node.getOperand(0).getDefiningOp<NodeOp>()
                    : nullptr;
  if (!before || before.getTarget() != "aten.linear.default" ||
      node.getKwargNames())
    return false;
  auto from = dyn_cast<RankedTensorType>(before.getType()),
       type = dyn_cast<RankedTensorType>(node.getType());
  if (!from || !type || from.getRank() != 3)
    return false;
  auto getDim = [](Attribute number) -> int64_t {
    auto dim = dyn_cast<IntegerAttr>(number);
    return dim ? (dim.getInt() + 3) % 3 : -1;
  };
  StringRef target = node.getTarget();
  ArrayRef<Attribute> arguments = node.getArgs().getValue().drop_front();
  if (target == "aten.transpose.int")
    return arguments.size() == 2 &&
           getDim(arguments[0]) + getDim(arguments[1]) == 3;
  auto dims =
      arguments.empty() ? ArrayAttr() : dyn_cast<ArrayAttr>(arguments.front());
  if (target == "aten.permute.default")
    return dims && llvm::equal(llvm::map_range(dims, getDim),
                               ArrayRef<int64_t>{0, 2, 1});
  bool mergesRows = llvm::is_contained(
      {"aten.flatten.using_ints", "aten.view.default", "aten.reshape.default"},
      target);
  return mergesRows && type.getRank() == 2 && !type.isDynamicDim(1) &&
         type.getDimSize(1) == from.getDimSize(2);
}

/// What gives `norm` the sizes of `product` again.
static StringAttr findRestoring(NodeOp norm, NodeOp product) {
  for (Operation *user : norm->getUsers())
    if (auto node = dyn_cast<NodeOp>(user))
      if ((node.getTarget() == "aten.reshape_as.default" ||
           node.getTarget() == "aten.view_as.default") &&
          node.getArgumentValue("other") == product.getResult())
        return node.getTargetAttr();
  return {};
}

/// The form of a normalization; none, with the reason, where what it takes is
/// no product that is known.
static std::optional<Form> readForm(NodeOp norm, std::string &reason) {
  Value input = norm.getArgumentValue("input");
  auto type = input ? dyn_cast<RankedTensorType>(input.getType()) : nullptr;
  auto info =
      type ? dyn_cast_or_null<TensorInfoAttr>(type.getEncoding()) : nullptr;
  auto node = input ? input.getDefiningOp<NodeOp>() : nullptr;
  reason = node ? "what it normalizes is the result of " +
                      node.getTarget().str() + ", and of no product"
                : "what it normalizes is an input of the graph";
  if (!node || !info)
    return std::nullopt;
  NodeOp view = bringsChannelsForward(node) ? node : NodeOp();
  if (view)
    node = view.getOperand(0).getDefiningOp<NodeOp>();
  const Product *product = findProduct(node);
  if (!product)
    return std::nullopt;
  auto isTraining = dyn_cast_or_null<BoolAttr>(norm.getArgument("training"));
  if (!isTraining || isTraining.getValue() ||
      !norm.getArgumentValue("running_mean")) {
    reason = "it normalizes by statistics of the batch";
    return std::nullopt;
  }
  if (!view && type.getRank() != product->rank) {
    reason = "the result of " + node.getTarget().str() + " has " +
             std::to_string(type.getRank()) +
             " dimensions, and its channels "
             "are not the second one";
    return std::nullopt;
  }
  Form form{product, node.getArgumentValue("bias") != Value(),
            norm.getArgumentValue("weight") != Value(),
            TensorKind{type.getElementType(), info.getDevice()}};
  if (view) {
    form.view = view.getTargetAttr();
    form.viewArguments.assign(view.getArgs().begin(), view.getArgs().end());
    // Sizes; the types say which.
    for (Attribute &argument : form.viewArguments)
      if (isa<ArrayAttr>(argument) && !form.swapsDims())
        argument = AnyAttr::get(view.getContext(), "sizes");
    form.restore = findRestoring(norm, node);
  }
  return form;
}

/// The form of `term`, where it is added to channels of a convolution that a
/// factor multiplied, and both are made of weights alone.
static std::optional<Form>
readSpelledForm(NodeOp term, const llvm::DenseSet<Value> &ofWeights) {
  auto getMade = [](NodeOp node, StringRef target) {
    Value value = node && node.getTarget() == target
                      ? node.getArgumentValue("self")
                      : Value();
    return value ? value.getDefiningOp<NodeOp>() : NodeOp();
  };
  NodeOp factor = getMade(term, "aten.add.Tensor");
  NodeOp node = getMade(factor, "aten.mul.Tensor");
  const Product *product = findProduct(node);
  auto type =
      node ? dyn_cast<RankedTensorType>(node.getType()) : RankedTensorType();
  auto info =
      type ? dyn_cast_or_null<TensorInfoAttr>(type.getEncoding()) : nullptr;
  if (!product || product->constants.empty() || !info ||
      type.getRank() != product->rank)
    return std::nullopt;
  Value scale = factor.getArgumentValue("other"),
        shift = term.getArgumentValue("other");
  unsigned rank = 0;
  for (Value value : {scale, shift}) {
    auto own = value && ofWeights.contains(value)
                   ? dyn_cast<RankedTensorType>(value.getType())
                   : nullptr;
    // All dimensions but that of the channels are 1.
    if (!own || own.getRank() + 1 < type.getRank() ||
        own.getRank() > type.getRank() || !own.hasStaticShape() ||
        own.getDimSize(own.getRank() + 1 - type.getRank()) !=
            type.getDimSize(1) ||
        own.getNumElements() != type.getDimSize(1) ||
        (rank && rank != own.getRank()))
      return std::nullopt;
    rank = static_cast<unsigned>(own.getRank());
  }
  return Form{product, node.getArgumentValue("bias") != Value(),
              /*hasFactors=*/true,
              TensorKind{type.getElementType(), info.getDevice()}, rank};
}

/// A form, and the nodes that normalize so.
using Places = std::pair<Form, llvm::SmallPtrSet<Operation *, 8>>;

/// The forms of all normalizations; those that are none of a product are
/// declined.
static std::vector<Places> collectForms(ArrayRef<GraphOp> graphs,
                                        Offers &offers) {
  std::vector<Places> forms;
  for (GraphOp graph : graphs) {
    llvm::DenseSet<Value> ofWeights = collectOfWeights(graph);
    for (NodeOp node : graph.getBlock().getOps<NodeOp>()) {
      std::string reason;
      bool isOperator = node.getTarget() == "aten.batch_norm.default";
      std::optional<Form> form = isOperator ? readForm(node, reason)
                                            : readSpelledForm(node, ofWeights);
      if (!form && isOperator)
        offers.decline(kBatchNormFolding.name, reason, graph, node);
      if (!form)
        continue;
      auto known = llvm::find_if(
          forms, [&](const Places &other) { return other.first == *form; });
      if (known == forms.end())
        known = forms.insert(known, {*form, {}});
      known->second.insert(node);
    }
  }
  return forms;
}

const Rule rewrite::kBatchNormFolding = {
    "fold-batch-norm", "normalization-by-constants",
    "batch_norm in inference of a convolution, of a transposed one of one "
    "group, or of a linear layer with a 2-D result, or a 3-D one that is "
    "flattened or transposed, that nothing else takes; of "
    "convolutions also a factor and a term made of weights",
    kPredictionByModel,
    [](ArrayRef<GraphOp> graphs, const Evidence &evidence, Offers &offers) {
      for (const auto &[form, nodes] : collectForms(graphs, offers)) {
        std::vector<Recommendation> variants;
        variants.push_back(makeVariant(
            kBatchNormFolding,
            "Batch normalizations fold into the weights before them",
            "In inference a batch normalization multiplies each channel by one "
            "number and adds another, the same in every call. Weights that are "
            "multiplied once, and a bias, do that in the product itself. "
            "Folding changes the order of roundings.",
            FoldingMaker(form).make()));
        // What is near another form than its own says nothing. The result may
        // be that of what restores sizes.
        auto isAsked = [&nodes = nodes](Operation *op) {
          return nodes.contains(op) ||
                 (op->getNumOperands() &&
                  nodes.contains(op->getOperand(0).getDefiningOp()));
        };
        offerVariants(graphs, evidence, kBatchNormFolding, std::move(variants),
                      offers, isAsked);
      }
    }};
