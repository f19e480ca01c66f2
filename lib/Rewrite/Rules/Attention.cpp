// The rule "attention that is spelled out becomes one operator".

#include "AttentionSpelling.h"
#include "OpenScript.h"

#include "opprof/Analysis/Structure/PatternConditions.h"
#include "opprof/Dialect/FX/IR/Arguments.h"
#include "opprof/Dialect/FX/IR/GraphAttributes.h"
#include "opprof/Dialect/FX/IR/Provenance.h"

#include "llvm/ADT/MapVector.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace opprof;
using namespace opprof::fx;
using namespace opprof::rewrite;

namespace {

/// Makes the script of one spelling: the pattern is what the program has there,
/// for every size.
class AttentionMaker {
public:
  AttentionMaker(AttentionSpelling &spelling, const TensorKind &kind)
      : spelling(spelling), script(kind), element(kind.element) {}

  OwningOpRef<ModuleOp> make();

private:
  void addInput(Value value, StringRef name, Type type);
  void addInputs();
  GraphOp beginGraph(StringRef name);
  Type getOperandType(Value value, const DimNames &names);
  Type getBesideType(Value value, Value scores);
  Type getScoresType(Value value, bool isContiguous = false);
  Type getResultType(bool isContiguous);
  void copyNode(NodeOp node, Type type);
  void makePattern();

  Value call(StringRef name, StringRef target, ValueRange operands, Type type,
             ArrayRef<Attribute> arguments = {},
             ArrayRef<StringRef> keywords = {}) {
    return script.addNode(name, target, operands, type, arguments, keywords);
  }
  Type getAny(Value value, Type type = {}) {
    return script.getAnyType(cast<RankedTensorType>(value.getType()).getRank(),
                             type);
  }
  Value arrange(Value value, const DimNames &names, StringRef rows,
                StringRef columns, StringRef name);
  Value alignTo(Value scores, Value value);
  Value seeAllOfHiddenRows(Value query);
  Value findHiddenRows(Value seen);
  Value clearRows(Value query, Value rows);
  Value keepUndefined(Value attended);
  Value castToQueries(Value value);
  Value scaleBy(Value value, const AttentionStep &step);
  void addToMask(Value scores, Value value, double factor);
  Value hide(const AttentionStep &step, Value query, bool isAddedTo);
  Value swallow(Value added);
  Value finishResult(Value value);
  void makeReplacement();

  AttentionSpelling &spelling;
  OpenScript script;
  Type element;
  GraphOp graph;
  /// What the script takes from outside, in order.
  SmallVector<Value> inputs;
  /// Of these, numbers that the program makes, which stay what they are.
  llvm::SmallDenseSet<Value> lifted;
  SmallVector<std::string> names;
  SmallVector<Type> types;
  /// What stands for a value of the program in the graph that is being made.
  llvm::SmallDenseMap<Value, Value> values;
  /// Of the replacement: what is added to scores, or says which of them count.
  Value mask;
  /// Whether `mask` may be infinite, so that softmax of a row is undefined.
  bool mayBeInfinite = false;
  /// Rows of which a number hides all, where something is added to it.
  Value hiddenRows;
  double hidingNumber = 0;
  bool needsContiguous = false;
};

} // namespace

//===----------------------------------------------------------------------===//
// The pattern
//===----------------------------------------------------------------------===//

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static unsigned rankOf(Value value) {
  return static_cast<unsigned>(typeOf(value).getRank());
}

/// The type of an operand of a product: where it is repeated over batches or
/// heads it has 1 there.
Type AttentionMaker::getOperandType(Value value, const DimNames &dims) {
  Value scores = spelling.first.node.getResult();
  if (value == spelling.second.right)
    scores = spelling.second.left;
  DimNames all = getDimNames(typeOf(scores).getRank(), {"l", "s"});
  auto getSize = [&](Value of, unsigned dim) {
    return typeOf(of).getDimSize(dim);
  };
  SmallVector<Attribute> sizes;
  for (auto [dim, name] : llvm::enumerate(dims)) {
    const auto *place = llvm::find(all, name);
    bool isRepeated = place != all.end() && getSize(value, dim) == 1 &&
                      getSize(scores, place - all.begin()) != 1;
    sizes.push_back(isRepeated ? script.number(1) : script.size(name));
  }
  return script.getType(sizes, element, /*isContiguous=*/false);
}

Type AttentionMaker::getScoresType(Value value, bool isContiguous) {
  auto sizes = llvm::map_to_vector(
      getDimNames(typeOf(value).getRank(), {"l", "s"}),
      [&](const std::string &name) { return script.size(name); });
  return script.getType(sizes, typeOf(value).getElementType(), isContiguous);
}

Type AttentionMaker::getResultType(bool isContiguous) {
  auto sizes =
      llvm::map_to_vector(spelling.second.dims, [&](const std::string &name) {
        return script.size(name);
      });
  return script.getType(sizes, element, isContiguous);
}

void AttentionMaker::addInput(Value value, StringRef name, Type type) {
  if (!value || llvm::is_contained(inputs, value))
    return;
  inputs.push_back(value);
  names.push_back(name.str());
  types.push_back(type);
}

/// The type of what is combined with `scores`: each of its dimensions is that
/// of scores, or 1. Where there are none only its type counts.
Type AttentionMaker::getBesideType(Value value, Value scores) {
  RankedTensorType type = typeOf(value);
  if (!scores || type.getRank() > typeOf(scores).getRank())
    return script.getAnyType(type.getRank(), type.getElementType());
  DimNames all = getDimNames(typeOf(scores).getRank(), {"l", "s"});
  SmallVector<Attribute> sizes;
  for (auto [dim, name] : llvm::enumerate(
           ArrayRef(all).take_back(static_cast<size_t>(type.getRank()))))
    sizes.push_back(type.getDimSize(dim) == 1 ? script.number(1)
                                              : script.size(name));
  return script.getType(sizes, type.getElementType(), /*isContiguous=*/false);
}

/// All that the nodes take and do not make.
void AttentionMaker::addInputs() {
  AttentionProduct &first = spelling.first, &second = spelling.second;
  addInput(first.left, "query", getOperandType(first.left, first.leftDims));
  addInput(first.right, "key", getOperandType(first.right, first.rightDims));
  addInput(second.right, "values",
           getOperandType(second.right, second.rightDims));
  llvm::SmallPtrSet<Operation *, 8> inside{first.node, spelling.softmax};
  for (AttentionStep &step : spelling.before)
    inside.insert(step.node);
  for (AttentionStep &step : spelling.after)
    inside.insert(step.node);
  auto add = [&](NodeOp node, StringRef name, Value scores) {
    for (Value operand : node->getOperands()) {
      Operation *definition = operand.getDefiningOp();
      if (BlockArgument number = getLifted(operand)) {
        lifted.insert(number);
        addInput(number, ("number" + Twine(inputs.size() - 2)).str(),
                 script.getAnyType(0, typeOf(number).getElementType()));
        continue;
      }
      bool isNumber = definition && definition->getNumOperands() == 0 &&
                      typeOf(operand).getRank() == 0;
      if (isNumber || (definition && inside.contains(definition)))
        continue;
      addInput(operand, (name + Twine(inputs.size() - 2)).str(),
               getBesideType(operand, scores));
    }
  };
  add(first.node, "added", first.node.getResult());
  for (AttentionStep &step : spelling.before)
    add(step.node, step.kind == AttentionStep::Kind::Scale ? "factor" : "mask",
        step.kind == AttentionStep::Kind::Form ? Value() : step.scores);
  for (AttentionStep &step : spelling.after)
    add(step.node, "like", {});
}

GraphOp AttentionMaker::beginGraph(StringRef name) {
  graph = script.beginGraph(name, names, types, getResultType(needsContiguous));
  values.clear();
  for (auto [input, argument] : llvm::zip(inputs, graph.getArguments()))
    values[input] = argument;
  return graph;
}

/// The node as it is, but for sizes that it names.
void AttentionMaker::copyNode(NodeOp node, Type type) {
  SmallVector<Value> operands;
  for (Value operand : node->getOperands()) {
    if (!values.contains(operand))
      copyNode(operand.getDefiningOp<NodeOp>(),
               getAny(operand, typeOf(operand).getElementType()));
    operands.push_back(values.lookup(operand));
  }
  SmallVector<Attribute> arguments(node.getArgs().getValue());
  StringRef target = node.getTarget();
  if (target.contains("view") || target == "aten.reshape.default")
    for (Attribute &argument : arguments)
      if (isa<ArrayAttr>(argument))
        argument = AnyAttr::get(type.getContext(), "");
  SmallVector<StringRef> keywords;
  if (auto given = node.getKwargNames())
    for (Attribute name : *given)
      keywords.push_back(cast<StringAttr>(name).getValue());
  values[node.getResult()] = call(target.split('.').second.split('.').first,
                                  target, operands, type, arguments, keywords);
}

void AttentionMaker::makePattern() {
  beginGraph("pattern");
  for (auto [index, input] : llvm::enumerate(inputs))
    if (Attribute constant = getConstantOfInput(input);
        constant && lifted.contains(input))
      graph.setArgAttr(index, kConstantAttr, constant);
  copyNode(spelling.first.node, getScoresType(spelling.first.node.getResult()));
  for (AttentionStep &step : spelling.before)
    copyNode(step.node, getScoresType(step.node.getResult()));
  copyNode(spelling.softmax, getScoresType(spelling.softmax.getResult()));
  for (AttentionStep &step : spelling.after)
    copyNode(step.node, getScoresType(step.node.getResult()));
  copyNode(spelling.second.node, getResultType(needsContiguous));
  script.finishGraph(values.lookup(spelling.second.node.getResult()));
}

//===----------------------------------------------------------------------===//
// The replacement
//===----------------------------------------------------------------------===//

/// An operand of a product as four dimensions: batches, heads, `rows` and
/// `columns`.
Value AttentionMaker::arrange(Value value, const DimNames &dims, StringRef rows,
                              StringRef columns, StringRef name) {
  Type type = getOperandType(value, dims);
  ArrayRef<Attribute> sizes =
      cast<TensorInfoAttr>(cast<RankedTensorType>(type).getEncoding())
          .getDims()
          .getValue();
  DimNames wanted = getDimNames(dims.size(), {rows.str(), columns.str()});
  SmallVector<Attribute> order, arranged;
  for (const std::string &dim : wanted) {
    size_t place = llvm::find(dims, dim) - dims.begin();
    order.push_back(script.number(static_cast<int64_t>(place)));
    arranged.push_back(sizes[place]);
  }
  auto getType = [&](ArrayRef<Attribute> all) {
    return script.getType(all, element, /*isContiguous=*/false);
  };
  Value result = values.lookup(value);
  if (dims != wanted)
    result = call(name, "aten.permute.default", result, getType(arranged),
                  {script.value(), script.list(order)});
  // A batch or head that all share.
  SmallVector<Attribute> expanded;
  for (const std::string &dim : wanted)
    expanded.push_back(script.size(dim));
  if (arranged != expanded)
    result = call(name, "aten.expand.default", result, getType(expanded),
                  {script.value(), script.list(expanded)});
  if (wanted.size() == 4)
    return result;
  if (spelling.getRank() == 3) {
    SmallVector<Attribute> all{script.number(1)};
    llvm::append_range(all, expanded);
    return call(name, "aten.unsqueeze.default", result, getType(all),
                {script.value(), script.number(0)});
  }
  SmallVector<Attribute> all{script.size("b"), script.size("h")};
  llvm::append_range(all, ArrayRef(expanded).drop_front());
  return call(name, "aten.view.default", result, getType(all),
              {script.value(), script.list(all)});
}

/// What is combined with `scores`, so that it meets four dimensions of them.
Value AttentionMaker::alignTo(Value scores, Value value) {
  Value result = values.lookup(value);
  RankedTensorType type = typeOf(value);
  auto add = [&](Value to) {
    return call("aligned", "aten.unsqueeze.default", to,
                script.getAnyType(rankOf(to) + 1, type.getElementType()),
                {script.value(), script.number(0)});
  };
  // Of batches and heads that are one dimension. Masks of fewer dimensions meet
  // the last ones, and need two at least.
  if (type.getRank() == 3 && typeOf(scores).getRank() == 3) {
    if (spelling.getRank() == 3 || type.getDimSize(0) == 1)
      return add(result);
    return call("aligned", "aten.unflatten.int", result,
                script.getAnyType(4, type.getElementType()),
                {script.value(), script.number(0),
                 script.list({script.size("b"), script.size("h")})});
  }
  while (rankOf(result) < 2)
    result = add(result);
  return result;
}

/// A mask in the type of queries; numbers that it can't hold become its lowest
/// one, and not infinite.
Value AttentionMaker::castToQueries(Value value) {
  auto from = dyn_cast<FloatType>(typeOf(value).getElementType());
  if (from == element)
    return value;
  if (from && getLowest(from) < getLowest(element)) {
    constexpr double kHides = -std::numeric_limits<double>::infinity();
    Value infinite =
        call("infinite", "aten.eq.Scalar", value,
             script.getAnyType(rankOf(value),
                               IntegerType::get(element.getContext(), 1)),
             {script.value(), script.real(kHides)});
    value = call("bounded", "aten.clamp_min.default", value, value.getType(),
                 {script.value(), script.real(getLowest(element))});
    value = call("bounded", "aten.masked_fill.Scalar", {value, infinite},
                 value.getType(),
                 {script.value(), script.value(), script.real(kHides)});
  }
  return call("mask", "aten.to.dtype", value, getAny(value, element),
              {script.value(),
               DTypeAttr::get(element.getContext(), getDTypeName(element))});
}

/// `value` times, or divided by, what scores are.
Value AttentionMaker::scaleBy(Value value, const AttentionStep &step) {
  if (step.number)
    return call("scaled",
                step.isDivided ? "aten.div.Tensor" : "aten.mul.Tensor", value,
                value.getType(), {script.value(), script.real(*step.number)});
  return call("scaled", step.isDivided ? "aten.div.Tensor" : "aten.mul.Tensor",
              {value, alignTo(step.scores, step.other)}, value.getType());
}

void AttentionMaker::addToMask(Value scores, Value value, double factor) {
  Value added = castToQueries(alignTo(scores, value));
  mayBeInfinite = true;
  if (factor != 1)
    added = call("added", "aten.mul.Tensor", added, added.getType(),
                 {script.value(), script.real(factor)});
  if (hiddenRows)
    added = swallow(added);
  unsigned rank = std::max(mask ? rankOf(mask) : 0, rankOf(added));
  mask = mask ? call("mask", "aten.add.Tensor", {mask, added},
                     script.getAnyType(rank))
              : added;
}

/// What is added in rows that a number hides, where these have zeros in its
/// place: what the sum of both in float32 is beside that number.
Value AttentionMaker::swallow(Value added) {
  auto getSpacing = [](double number) {
    auto value = static_cast<float>(std::abs(number));
    return static_cast<double>(value) -
           static_cast<double>(std::nextafter(value, 0.0F));
  };
  unsigned rank = std::max(rankOf(added), rankOf(hiddenRows));
  auto fill = [&](Value where, double number) {
    where = call(
        "rows", "aten.logical_and.default", {where, hiddenRows},
        script.getAnyType(rank, IntegerType::get(element.getContext(), 1)));
    added = call("added", "aten.masked_fill.Scalar", {added, where},
                 script.getAnyType(rank),
                 {script.value(), script.value(), script.real(number)});
  };
  auto compare = [&](StringRef target, Value value, double number) {
    return call("where", target, value,
                script.getAnyType(rankOf(value),
                                  IntegerType::get(element.getContext(), 1)),
                {script.value(), script.real(number)});
  };
  double lowest = getLowest(element);
  Value size = call("size", "aten.abs.default", added, added.getType());
  Value isLost = compare("aten.le.Scalar", size, getSpacing(hidingNumber) / 2);
  Value overflows = compare("aten.lt.Scalar", added,
                            lowest - hidingNumber - getSpacing(lowest) / 2);
  fill(isLost, 0);
  fill(overflows, -std::numeric_limits<double>::infinity());
  return added;
}

/// Scores that are hidden get so low a number that adding them to it does not
/// show; rows of which all are hidden are those of queries of zeros.
Value AttentionMaker::hide(const AttentionStep &step, Value query,
                           bool isAddedTo) {
  Value seen = alignTo(step.scores, step.other), hidden = seen;
  if (step.keeps)
    hidden = call("hidden", "aten.logical_not.default", seen, seen.getType());
  else
    seen = {};
  double filled = *step.number;
  bool isFinite = std::isfinite(filled);
  if (isFinite && !isAddedTo)
    filled = getLowest(element);
  mayBeInfinite |= !isFinite;
  if (!mask)
    mask = call("none_hidden", "aten.zeros_like.default", hidden,
                getAny(hidden, element),
                {script.value(),
                 DTypeAttr::get(element.getContext(), getDTypeName(element))},
                {"dtype"});
  unsigned rank = std::max(rankOf(mask), rankOf(hidden));
  auto fill = [&](Value hidden, double number) {
    mask = call("mask", "aten.masked_fill.Scalar", {mask, hidden},
                script.getAnyType(rank),
                {script.value(), script.value(), script.real(number)});
  };
  fill(hidden, filled);
  if (!isFinite)
    return query;
  if (!seen)
    seen = call("seen", "aten.logical_not.default", hidden, hidden.getType());
  Value rows = findHiddenRows(seen);
  fill(rows, 0);
  if (isAddedTo) {
    hiddenRows = rows;
    hidingNumber = filled;
  }
  return clearRows(query, rows);
}

/// Of each row whether none of it is seen.
Value AttentionMaker::findHiddenRows(Value seen) {
  Type flags = script.getAnyType(rankOf(seen),
                                 IntegerType::get(element.getContext(), 1));
  Value any = call("any_seen", "aten.any.dim", seen, flags,
                   {script.value(), script.number(-1), script.flag(true)});
  return call("hidden_rows", "aten.logical_not.default", any, flags);
}

Value AttentionMaker::clearRows(Value query, Value rows) {
  return call("query", "aten.masked_fill.Scalar", {query, rows},
              query.getType(),
              {script.value(), script.value(), script.real(0)});
}

/// Where all of a row is hidden by one number, softmax gives each key the same
/// weight. So do queries of zeros that see all keys, in types that have no
/// number so low that scores do not show beside it, too.
Value AttentionMaker::seeAllOfHiddenRows(Value query) {
  Value rows = findHiddenRows(mask);
  mask = call("seen", "aten.logical_or.default", {mask, rows}, mask.getType());
  return clearRows(query, rows);
}

/// Where all of a row is hidden by negative infinity, softmax gives no numbers,
/// and the operator gives zeros.
Value AttentionMaker::keepUndefined(Value attended) {
  if (!mayBeInfinite)
    return attended;
  Builder builder(element.getContext());
  Value undefined;
  if (typeOf(mask).getElementType().isInteger(1)) {
    undefined = findHiddenRows(mask);
  } else {
    Value highest = call(
        "highest", "aten.amax.default", mask, getAny(mask, element),
        {script.value(), script.list({script.number(-1)}), script.flag(true)});
    undefined = call("undefined", "aten.eq.Scalar", highest,
                     script.getAnyType(rankOf(mask), builder.getI1Type()),
                     {script.value(),
                      script.real(-std::numeric_limits<double>::infinity())});
  }
  return call("attended", "aten.masked_fill.Scalar", {attended, undefined},
              attended.getType(),
              {script.value(), script.value(),
               script.real(std::numeric_limits<double>::quiet_NaN())});
}

/// Four dimensions as the program has its result.
Value AttentionMaker::finishResult(Value value) {
  const DimNames &dims = spelling.second.dims;
  DimNames given = getDimNames(dims.size(), {"l", "f"});
  auto sizes = llvm::map_to_vector(
      given, [&](const std::string &name) { return script.size(name); });
  Type type = script.getType(sizes, element, /*isContiguous=*/false);
  if (dims.size() == 3)
    value = spelling.getRank() == 3
                ? call("result", "aten.squeeze.dim", value, type,
                       {script.value(), script.number(0)})
                : call("result", "aten.reshape.default", value, type,
                       {script.value(), script.list(sizes)});
  if (dims != given) {
    SmallVector<Attribute> order;
    for (const std::string &dim : dims)
      order.push_back(script.number(llvm::find(given, dim) - given.begin()));
    value = call("result", "aten.permute.default", value, getResultType(false),
                 {script.value(), script.list(order)});
  }
  if (needsContiguous)
    value =
        call("result", "aten.contiguous.default", value, getResultType(true));
  return value;
}

void AttentionMaker::makeReplacement() {
  beginGraph("replacement");
  AttentionProduct &first = spelling.first, &second = spelling.second;
  Value query = arrange(first.left, first.leftDims, "l", "e", "query");
  Value key = arrange(first.right, first.rightDims, "s", "e", "key");
  Value values = arrange(second.right, second.rightDims, "s", "f", "values");
  // Scaling the queries is scaling the scores, of which there are more.
  double scale = first.factor;
  if (first.added)
    addToMask(first.node.getResult(), first.added, first.addedFactor);
  auto hides =
      llvm::make_filter_range(spelling.before, [](const AttentionStep &step) {
        return step.kind == AttentionStep::Kind::Hide ||
               step.kind == AttentionStep::Kind::Add;
      });
  bool isFlag = !first.added && llvm::hasSingleElement(hides) &&
                hides.begin()->kind == AttentionStep::Kind::Hide;
  for (AttentionStep &step : spelling.before)
    isFlag &= step.kind != AttentionStep::Kind::Scale ||
              (step.number && *step.number > 0);
  for (AttentionStep &step : spelling.before) {
    if (step.kind == AttentionStep::Kind::Add) {
      addToMask(step.scores, step.other, *step.number);
    } else if (step.kind == AttentionStep::Kind::Hide && isFlag) {
      mask = alignTo(step.scores, step.other);
      mayBeInfinite = std::isinf(*step.number);
      if (!step.keeps)
        mask = call("seen", "aten.logical_not.default", mask, mask.getType());
      if (!mayBeInfinite)
        query = seeAllOfHiddenRows(query);
    } else if (step.kind == AttentionStep::Kind::Hide) {
      bool isAddedTo = std::any_of(
          &step, spelling.before.end(), [](const AttentionStep &later) {
            return later.kind == AttentionStep::Kind::Add;
          });
      query = hide(step, query, isAddedTo);
    } else if (step.kind == AttentionStep::Kind::Scale) {
      if (step.number)
        scale = step.isDivided ? scale / *step.number : scale * *step.number;
      else
        query = scaleBy(query, step);
      if (mask && !isFlag) {
        mask = scaleBy(mask, step);
        mayBeInfinite = true;
      }
    }
  }
  SmallVector<Value> operands{query, key, values};
  if (mask)
    operands.push_back(mask);
  SmallVector<Attribute> arguments(operands.size(), script.value());
  if (!mask)
    arguments.push_back(script.none());
  arguments.append({script.real(0), script.flag(false), script.real(scale)});
  SmallVector<Attribute> sizes;
  if (spelling.getRank() == 3)
    sizes.append({script.number(1), script.size("n")});
  else
    sizes.append({script.size("b"), script.size("h")});
  sizes.append({script.size("l"), script.size("f")});
  Value attended =
      call("attended", "aten.scaled_dot_product_attention.default", operands,
           script.getType(sizes, element, /*isContiguous=*/false), arguments,
           {"scale"});
  script.finishGraph(finishResult(keepUndefined(attended)));
}

OwningOpRef<ModuleOp> AttentionMaker::make() {
  // What views the result, or a view of it, may need it row by row, as products
  // of batches give it.
  NodeOp last = spelling.second.node;
  SmallVector<Value> views{last.getResult()};
  while (!views.empty())
    visitViews(views.pop_back_val(), [&](NodeOp view) {
      needsContiguous |= view.getTarget() == "aten.view.default";
      views.push_back(view.getResult());
    });
  auto info =
      dyn_cast_or_null<TensorInfoAttr>(typeOf(last.getResult()).getEncoding());
  needsContiguous &= info && !info.getUnknownStrides() && !info.getStrides();
  addInputs();
  makePattern();
  GraphOp pattern = graph;
  makeReplacement();
  script.addReplacement(pattern, graph);
  return script.finish();
}

static std::string toText(ModuleOp script) {
  std::string text;
  llvm::raw_string_ostream(text) << script;
  return text;
}

const Rule rewrite::kAttention = {
    "form-attention", "attention-spelled-out",
    "matmul, bmm, baddbmm or einsum of queries and keys, factors, masks "
    "(added, "
    "or a number below -1e9 filled in), softmax over the last of three or four "
    "dimensions, dropout that is off, the product with values; casts to "
    "float32 "
    "and views of batches and heads between them; nothing else takes what is "
    "in "
    "between",
    kPredictionByModel,
    [](ArrayRef<GraphOp> graphs, const Evidence &evidence, Offers &offers) {
      llvm::MapVector<StringAttr, Recommendation> variants;
      // Where a variant was made, and not found again in its place.
      llvm::SmallPtrSet<Operation *, 8> spelled;
      for (GraphOp graph : graphs)
        for (AttentionPlace &place : findAttention(graph)) {
          auto info =
              place.spelling
                  ? dyn_cast_or_null<TensorInfoAttr>(
                        typeOf(place.spelling->first.left).getEncoding())
                  : nullptr;
          if (!info) {
            if (place.spelling)
              place.obstacle = {place.spelling->first.node,
                                "the device of its operands is not known"};
            offers.decline(kAttention.name, place.obstacle.reason, graph,
                           place.obstacle.node);
            continue;
          }
          spelled.insert(place.last);
          TensorKind kind{typeOf(place.spelling->first.left).getElementType(),
                          info.getDevice()};
          Recommendation variant = makeVariant(
              kAttention, "Attention that is spelled out becomes one operator",
              "Scores, mask, softmax and the second product are one kernel, "
              "which holds a tile of the scores at a time.",
              AttentionMaker(*place.spelling, kind).make());
          StringAttr text =
              StringAttr::get(graph.getContext(), toText(*variant.script));
          variants.insert({text, std::move(variant)});
        }
      std::vector<Recommendation> all;
      for (auto &[text, variant] : variants)
        all.push_back(std::move(variant));
      offerVariants(graphs, evidence, kAttention, std::move(all), offers,
                    [&](Operation *op) { return spelled.contains(op); });
    }};
