// The rule "attention that is spelled out becomes one operator".

#include "OpenScript.h"

using namespace mlir;
using namespace opprof;
using namespace opprof::fx;
using namespace opprof::rewrite;

namespace {

/// How scores become weights between the two products: what programs write.
struct Spelling {
  /// The operator that scales the scores, or empty.
  StringLiteral scale;
  /// What hides scores: an operator, or empty.
  StringLiteral mask;
  int64_t dim;
  bool hasDropout;
};

constexpr StringLiteral kScales[] = {"", "aten.mul.Tensor", "aten.div.Tensor"};
constexpr StringLiteral kMasks[] = {"", "aten.add.Tensor",
                                    "aten.masked_fill.Scalar"};

class AttentionMaker {
public:
  AttentionMaker(const Spelling &spelling, const TensorKind &kind)
      : spelling(spelling), script(kind) {}

  OwningOpRef<ModuleOp> make();

private:
  /// The arguments of both graphs; a mask is the last one.
  enum Input { Query, KeyTurned, Values, Mask };

  void beginGraph(StringRef name);
  Value get(Input input) { return graph.getArgument(input); }
  Type getResultType() const { return script.getType({"b", "h", "l", "f"}); }
  /// `value` scaled as the program scales scores.
  Value scale(Value value) {
    if (spelling.scale.empty())
      return value;
    return script.addNode("scaled", spelling.scale, value, value.getType(),
                          {script.value(), script.open("scale")});
  }
  void makePattern();
  void makeReplacement();

  const Spelling &spelling;
  OpenScript script;
  GraphOp graph;
};

} // namespace

void AttentionMaker::beginGraph(StringRef name) {
  SmallVector<std::string> names{"query", "key_turned", "values"};
  SmallVector<Type> types{script.getType({"b", "h", "l", "e"}),
                          script.getType({"b", "h", "e", "s"}),
                          script.getType({"b", "h", "s", "f"})};
  if (!spelling.mask.empty()) {
    names.push_back("mask");
    bool isFlag = spelling.mask == "aten.masked_fill.Scalar";
    types.push_back(script.getAnyType(
        4, isFlag ? script.getBuilder().getI1Type() : Type()));
  }
  graph = script.beginGraph(name, names, types, getResultType());
}

void AttentionMaker::makePattern() {
  beginGraph("pattern");
  Type type = script.getType({"b", "h", "l", "s"});
  Value scores = scale(script.addNode("scores", "aten.matmul.default",
                                      {get(Query), get(KeyTurned)}, type));
  SmallVector<Attribute> arguments(2, script.value());
  if (spelling.mask == "aten.masked_fill.Scalar")
    arguments.push_back(script.real(-std::numeric_limits<double>::infinity()));
  if (!spelling.mask.empty())
    scores = script.addNode("masked", spelling.mask, {scores, get(Mask)}, type,
                            arguments);
  Value weights = script.addNode(
      "weights", "aten.softmax.int", scores, type,
      {script.value(), script.number(spelling.dim), script.open("dtype")});
  if (spelling.hasDropout)
    weights = script.addNode(
        "kept", "aten.dropout.default", weights, type,
        {script.value(), script.open("rate"), script.flag(false)});
  script.finishGraph(script.addNode("result", "aten.matmul.default",
                                    {weights, get(Values)}, getResultType()));
}

void AttentionMaker::makeReplacement() {
  beginGraph("replacement");
  // Scaling the queries is scaling the scores, of which there are more.
  Value query = scale(get(Query));
  Value key =
      script.addNode("key", "aten.transpose.int", get(KeyTurned),
                     script.getType({"b", "h", "s", "e"}),
                     {script.value(), script.number(-2), script.number(-1)});
  SmallVector<Value> operands{query, key, get(Values)};
  if (spelling.mask == "aten.masked_fill.Scalar")
    operands.push_back(script.addNode("seen", "aten.logical_not.default",
                                      get(Mask), get(Mask).getType()));
  else if (!spelling.mask.empty())
    operands.push_back(get(Mask));
  SmallVector<Attribute> arguments(operands.size(), script.value());
  if (spelling.mask.empty())
    arguments.push_back(script.none());
  arguments.append({script.real(0), script.flag(false), script.real(1)});
  script.finishGraph(
      script.addNode("attended", "aten.scaled_dot_product_attention.default",
                     operands, getResultType(), arguments, {"scale"}));
}

OwningOpRef<ModuleOp> AttentionMaker::make() {
  makePattern();
  GraphOp pattern = graph;
  makeReplacement();
  script.addReplacement(pattern, graph);
  return script.finish();
}

const Rule rewrite::kAttention = {
    "form-attention", "attention-spelled-out",
    "matmul, an optional factor, an optional mask (added, or -inf filled in), "
    "softmax over the last of four dimensions, dropout that is off, matmul; "
    "batches and heads are equal, and nothing else takes what is in between",
    kPredictionByModel,
    [](ArrayRef<GraphOp> graphs, const Evidence &evidence, Offers &offers) {
      std::vector<Recommendation> variants;
      for (const TensorKind &kind : collectKinds(graphs, "aten.softmax.int"))
        for (StringLiteral scale : kScales)
          for (StringLiteral mask : kMasks)
            for (unsigned flags = 0; flags < 4; ++flags)
              variants.push_back(makeVariant(
                  kAttention,
                  "Attention that is spelled out becomes one operator",
                  "Scores, mask, softmax and the second product are one "
                  "kernel, which holds a tile of the scores at a time.",
                  AttentionMaker(
                      {scale, mask, flags & 2 ? -1 : 3, bool(flags & 1)}, kind)
                      .make()));
      offerVariants(graphs, evidence, kAttention, std::move(variants), offers);
    }};
