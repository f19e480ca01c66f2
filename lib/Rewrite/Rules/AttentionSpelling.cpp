// Reading attention as programs spell it: from a softmax back to the product of
// queries and keys, and on to the product with the values. What is met on the
// way and not known is an obstacle, with its node.

#include "AttentionSpelling.h"

#include "opprof/Analysis/Structure/PatternConditions.h"
#include "opprof/Dialect/FX/IR/Arguments.h"
#include "opprof/Dialect/FX/IR/Schema.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace opprof;
using namespace opprof::fx;
using namespace opprof::rewrite;

DimNames opprof::rewrite::getDimNames(unsigned rank,
                                      ArrayRef<std::string> last) {
  DimNames names = rank == 3 ? DimNames{"n"} : DimNames{"b", "h"};
  llvm::append_range(names, last);
  return names;
}

unsigned AttentionSpelling::getRank() {
  auto rank = [](NodeOp node) -> int64_t {
    return cast<RankedTensorType>(node.getType()).getRank();
  };
  int64_t result = rank(first.node);
  for (AttentionStep &step : before)
    result = std::max(result, rank(step.node));
  for (AttentionStep &step : after)
    result = std::max(result, rank(step.node));
  return static_cast<unsigned>(result);
}

double opprof::rewrite::getLowest(Type element) {
  auto type = cast<FloatType>(element);
  return APFloat::getLargest(type.getFloatSemantics(), /*Negative=*/true)
      .convertToDouble();
}

//===----------------------------------------------------------------------===//
// What all of it asks
//===----------------------------------------------------------------------===//

static RankedTensorType getTensorType(Value value) {
  return value ? dyn_cast<RankedTensorType>(value.getType()) : nullptr;
}

/// The sizes of a tensor, numbers or symbols; null ones are unknown.
static SmallVector<Attribute> getSizes(Value value) {
  RankedTensorType type = getTensorType(value);
  auto info = dyn_cast_or_null<TensorInfoAttr>(type.getEncoding());
  if (info && info.getDims())
    return SmallVector<Attribute>(info.getDims().getValue());
  Builder builder(type.getContext());
  return llvm::map_to_vector(type.getShape(), [&](int64_t size) {
    return ShapedType::isDynamic(size)
               ? Attribute()
               : Attribute(builder.getI64IntegerAttr(size));
  });
}

static bool isOne(Attribute size) {
  auto number = dyn_cast_or_null<IntegerAttr>(size);
  return number && number.getInt() == 1;
}

BlockArgument opprof::rewrite::getLifted(Value value) {
  auto node = value ? value.getDefiningOp<NodeOp>() : nullptr;
  while (node &&
         llvm::is_contained({"aten.detach_.default", "aten.detach.default"},
                            node.getTarget()))
    node = node->getOperand(0).getDefiningOp<NodeOp>();
  // What an attribute of the model holds may be another tensor tomorrow.
  if (!node || !node.getTarget().starts_with("aten.lift_fresh"))
    return {};
  auto lifted = dyn_cast<BlockArgument>(node->getOperand(0));
  return lifted && getConstantOfInput(lifted) ? lifted : BlockArgument();
}

/// The number that fills a tensor without dimensions, where a node makes it.
static std::optional<double> getConstant(Value value) {
  auto node = value ? value.getDefiningOp<NodeOp>() : nullptr;
  RankedTensorType type = getTensorType(value);
  if (!node || !type || type.getRank() != 0)
    return std::nullopt;
  if (BlockArgument lifted = getLifted(value))
    return getNumber(getConstantOfInput(lifted));
  if (node.getTarget() == "aten.full.default")
    return getNumber(node.getArgument("fill_value"));
  if (node.getTarget() == "aten.scalar_tensor.default")
    return getNumber(node.getArgument("s"));
  return std::nullopt;
}

/// "aten.mul.Tensor" of "aten.mul_.Tensor".
static std::string getFunctionalTarget(NodeOp node) {
  auto [space, name] = node.getTarget().split('.');
  auto [bare, overload] = name.split('.');
  return (space + "." + getFunctionalName(bare) + "." + overload).str();
}

static bool isProduct(NodeOp node) {
  return llvm::is_contained({"aten.matmul.default", "aten.bmm.default",
                             "aten.baddbmm.default", "aten.einsum.default"},
                            node.getTarget());
}

/// True where something takes the result of `node` beside `user`.
static bool isTakenElsewhere(NodeOp node, Operation *user) {
  return llvm::any_of(node->getUsers(), [&](Operation *other) {
    return other != user && !asksForTypeOnly(other, node.getResult());
  });
}

/// False where a size or another number comes from a node: what has it in an
/// argument's place has no default of its own.
static bool takesTensorsAlone(NodeOp node) {
  return llvm::all_of(node->getOperands(), [](Value operand) {
    return getTensorType(operand) != nullptr;
  });
}

/// True where `value` has as many elements as `other`, as far as is known.
static bool haveEqualSizes(Value value, Value other) {
  RankedTensorType type = getTensorType(value), same = getTensorType(other);
  if (!type || !same)
    return false;
  if (!type.hasStaticShape() || !same.hasStaticShape())
    return true;
  return type.getNumElements() == same.getNumElements();
}

/// True where `node` puts scores beside others, or takes some of them: no
/// attention that is known, but one that is looked at.
static bool changesNumber(NodeOp node) {
  return llvm::is_contained({"aten.cat.default", "aten.concat.default",
                             "aten.slice.Tensor", "aten.narrow.default",
                             "aten.pad.default", "aten.constant_pad_nd.default",
                             "aten.index_select.default", "aten.gather.default",
                             "aten.as_strided.default"},
                            node.getTarget());
}

/// A product from which `value` comes through nodes that keep the number of its
/// elements or, where `isLoose`, change it; null where there is none near. Each
/// of `seen` is looked at once: there are as many ways as combinations.
static NodeOp findProductBefore(Value value, unsigned depth, bool isLoose,
                                llvm::SmallPtrSetImpl<Operation *> &seen) {
  auto node = value ? value.getDefiningOp<NodeOp>() : NodeOp();
  if (!node || !depth || !seen.insert(node).second)
    return {};
  if (isProduct(node))
    return node;
  for (Value operand : node->getOperands())
    if (haveEqualSizes(operand, value) || (isLoose && changesNumber(node)))
      if (NodeOp product = findProductBefore(operand, depth - 1, isLoose, seen))
        return product;
  return {};
}

static NodeOp findProductBefore(Value value, bool isLoose = false) {
  llvm::SmallPtrSet<Operation *, 16> seen;
  return findProductBefore(value, /*depth=*/12, isLoose, seen);
}

/// True where of two operands the second one is made of scores.
static bool areScoresSecond(Value first, Value second) {
  return !findProductBefore(first) &&
         (findProductBefore(second) ||
          !findProductBefore(first, /*isLoose=*/true));
}

/// A product to which `value` goes.
static NodeOp findProductBehind(Value value, unsigned depth,
                                llvm::SmallPtrSetImpl<Operation *> &seen) {
  if (!depth)
    return {};
  for (Operation *user : value.getUsers()) {
    auto node = dyn_cast<NodeOp>(user);
    if (!node || !seen.insert(node).second)
      continue;
    if (isProduct(node))
      return node;
    if (haveEqualSizes(node.getResult(), value) || changesNumber(node))
      if (NodeOp product = findProductBehind(node.getResult(), depth - 1, seen))
        return product;
  }
  return {};
}

static NodeOp findProductBehind(Value value) {
  llvm::SmallPtrSet<Operation *, 16> seen;
  return findProductBehind(value, /*depth=*/8, seen);
}

/// Where all of a row is hidden, softmax gives each key the same weight, and
/// numbers that are added to scores have to do so too. In float16 there is none
/// so low, and with another one after it, it is not told what weight is whose.
static constexpr StringLiteral kShows =
    "what is filled in shows where all of a row is hidden";

namespace {

/// Reads one place.
class Reader {
public:
  explicit Reader(NodeOp softmax) { spelling.softmax = softmax; }

  /// False, with an obstacle, where the spelling is not known.
  bool read() {
    return readSoftmax() && readBefore() && readBehind() && checkMasks() &&
           checkSizes();
  }

  AttentionSpelling spelling;
  AttentionObstacle obstacle;

private:
  bool refuse(NodeOp node, const Twine &reason) {
    obstacle = {node, reason.str()};
    return false;
  }
  bool readSoftmax();
  bool readBefore();
  bool readBehind();
  /// What reads a step of the operator; null where it is not known.
  using Read = bool (Reader::*)(AttentionStep &);
  static Read getReader(NodeOp node);
  bool readProduct(NodeOp node, AttentionProduct &product,
                   SmallVectorImpl<std::string> &letters);
  bool readFirst(NodeOp node);
  bool readSecond(NodeOp node, Value weights);
  bool readStep(AttentionStep &step);
  bool readForm(AttentionStep &step, Type narrowest);
  bool readFactor(AttentionStep &step);
  bool readSum(AttentionStep &step);
  bool readHidden(AttentionStep &step);
  bool checkFilled(AttentionStep &step, Attribute constant, Value tensor);
  bool swallowsSums(const AttentionStep &step);
  bool checkMasks();
  bool checkSizes();

  Type getQueryElement() const {
    return getTensorType(spelling.first.left).getElementType();
  }
};

} // namespace

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// The letters of an equation of einsum: two operands and the result.
/// Dimensions that "..." stands for have capitals from the end.
static std::optional<SmallVector<std::string, 3>>
readEquation(StringRef equation, int64_t leftRank, int64_t rightRank) {
  std::string text;
  llvm::copy_if(equation, std::back_inserter(text),
                [](char c) { return c != ' '; });
  auto [operands, result] = StringRef(text).split("->");
  auto [left, right] = operands.split(',');
  if (!StringRef(text).contains("->") || right.contains(','))
    return std::nullopt;
  size_t numHidden = 0;
  auto spell = [&](StringRef letters, int64_t rank) -> std::string {
    auto [front, back] = letters.split("...");
    if (!letters.contains("..."))
      return letters.str();
    size_t named = front.size() + back.size();
    if (rank >= 0)
      numHidden = static_cast<size_t>(rank) - named;
    return (front + StringRef("WXYZ").take_back(numHidden) + back).str();
  };
  SmallVector<std::string, 3> all{spell(left, leftRank),
                                  spell(right, rightRank), spell(result, -1)};
  for (const std::string &letters : all)
    for (char letter : letters)
      if (!llvm::isAlpha(letter) || llvm::count(letters, letter) > 1)
        return std::nullopt;
  if (static_cast<int64_t>(all[0].size()) != leftRank ||
      static_cast<int64_t>(all[1].size()) != rightRank)
    return std::nullopt;
  return all;
}

/// The operands of a product, and its letters as einsum has them.
bool Reader::readProduct(NodeOp node, AttentionProduct &product,
                         SmallVectorImpl<std::string> &letters) {
  product.node = node;
  if (!takesTensorsAlone(node))
    return refuse(node, "a number that it takes is computed in every call");
  StringRef target = node.getTarget();
  bool isEinsum = target == "aten.einsum.default";
  if (isEinsum) {
    auto operands = node.getArgumentValues("tensors");
    if (operands.size() != 2)
      return refuse(node, "it multiplies other than two tensors");
    product.left = operands[0];
    product.right = operands[1];
  } else if (target == "aten.baddbmm.default") {
    product.left = node.getArgumentValue("batch1");
    product.right = node.getArgumentValue("batch2");
    product.factor = getNumber(node.getArgument("alpha")).value_or(1);
    product.addedFactor = getNumber(node.getArgument("beta")).value_or(1);
    product.added = node.getArgumentValue("self");
  } else {
    product.left = node.getArgumentValue("self");
    product.right =
        node.getArgumentValue(target == "aten.bmm.default" ? "mat2" : "other");
  }
  RankedTensorType left = getTensorType(product.left),
                   right = getTensorType(product.right),
                   type = getTensorType(node.getResult());
  if (!left || !right || !type)
    return refuse(node, "the sizes of its operands are not known");
  if (type.getRank() != 3 && type.getRank() != 4)
    return refuse(node, "its result has " + Twine(type.getRank()) +
                            " dimensions, and attention has three or four");
  if (isEinsum) {
    auto equation = dyn_cast_or_null<StringAttr>(node.getArgument("equation"));
    auto read = equation ? readEquation(equation.getValue(), left.getRank(),
                                        right.getRank())
                         : std::nullopt;
    if (!read || read->back().size() != static_cast<size_t>(type.getRank()))
      return refuse(node, "its equation is none of products in batches");
    llvm::append_range(letters, *read);
    return true;
  }
  if (left.getRank() != type.getRank() || right.getRank() != type.getRank())
    return refuse(node, "its operands have other numbers of dimensions");
  StringRef batch = type.getRank() == 3 ? "n" : "bh";
  letters.assign(
      {(batch + "le").str(), (batch + "es").str(), (batch + "ls").str()});
  return true;
}

/// `letters` by the names that `names` gives them.
static DimNames nameDims(StringRef letters,
                         const llvm::SmallDenseMap<char, std::string> &names) {
  DimNames result;
  for (char letter : letters)
    result.push_back(names.lookup(letter));
  return result;
}

bool Reader::readFirst(NodeOp node) {
  AttentionProduct &product = spelling.first;
  SmallVector<std::string, 3> letters;
  if (!readProduct(node, product, letters))
    return false;
  StringRef result = letters[2];
  char row = result[result.size() - 2], column = result.back();
  if (StringRef(letters[1]).contains(row)) {
    std::swap(letters[0], letters[1]);
    std::swap(product.left, product.right);
  }
  StringRef left = letters[0], right = letters[1];
  DimNames all = getDimNames(result.size(), {"l", "s"});
  llvm::SmallDenseMap<char, std::string> names;
  for (auto [letter, name] : llvm::zip(result, all))
    names[letter] = name;
  SmallVector<char> summed;
  for (char letter : left)
    if (!result.contains(letter)) {
      names[letter] = "e";
      summed.push_back(letter);
    }
  bool isKnown = summed.size() == 1 && right.contains(summed.front()) &&
                 left.size() == result.size() &&
                 right.size() == result.size() && left.contains(row) &&
                 !right.contains(row) && right.contains(column) &&
                 !left.contains(column);
  for (char letter : result.drop_back(2))
    isKnown &= left.contains(letter) && right.contains(letter);
  if (!isKnown)
    return refuse(node, "its equation is none of queries and keys");
  product.leftDims = nameDims(left, names);
  product.rightDims = nameDims(right, names);
  product.dims = all;
  if (!isa<FloatType>(getQueryElement()))
    return refuse(node, "it multiplies other than real numbers");
  if (product.addedFactor == 0)
    product.added = {};
  return true;
}

bool Reader::readSecond(NodeOp node, Value weights) {
  AttentionProduct &product = spelling.second;
  if (node.getTarget() == "aten.baddbmm.default")
    return refuse(node, "it adds something to the weighted values");
  SmallVector<std::string, 3> letters;
  if (!readProduct(node, product, letters))
    return false;
  if (product.left == product.right)
    return refuse(node, "it multiplies the weights with themselves");
  if (product.right == weights) {
    std::swap(letters[0], letters[1]);
    std::swap(product.left, product.right);
    if (node.getTarget() != "aten.einsum.default")
      return refuse(node, "the weights are its second operand");
  }
  StringRef left = letters[0], right = letters[1], result = letters[2];
  if (left.size() != result.size() || right.size() != result.size())
    return refuse(node, "its equation is none of weights and values");
  DimNames all = getDimNames(left.size(), {"l", "s"});
  llvm::SmallDenseMap<char, std::string> names;
  for (auto [letter, name] : llvm::zip(left, all))
    names[letter] = name;
  char row = left[left.size() - 2], column = left.back();
  SmallVector<char> features;
  for (char letter : right)
    if (!left.contains(letter)) {
      names[letter] = "f";
      features.push_back(letter);
    }
  bool isKnown = features.size() == 1 && result.contains(features.front()) &&
                 result.contains(row) && !right.contains(row) &&
                 right.contains(column) && !result.contains(column);
  for (char letter : left.drop_back(2))
    isKnown &= right.contains(letter) && result.contains(letter);
  if (!isKnown)
    return refuse(node, "its equation is none of weights and values");
  product.leftDims = all;
  product.rightDims = nameDims(right, names);
  product.dims = nameDims(result, names);
  return true;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

/// Views, casts and dropout that is off. What is computed in fewer bits than
/// `narrowest` has would be another result.
bool Reader::readForm(AttentionStep &step, Type narrowest) {
  NodeOp node = step.node;
  StringRef target = node.getTarget();
  if (getFunctionalTarget(node) == "aten.dropout.default") {
    if (!takesTensorsAlone(node))
      return refuse(node, "a number that it takes is computed in every call");
    auto isOn = dyn_cast_or_null<BoolAttr>(node.getArgument("train"));
    if (!isOn || isOn.getValue())
      return refuse(node, "dropout is on");
    step.scores = node.getArgumentValue("input");
    return true;
  }
  step.scores = node.getArgumentValue("self");
  RankedTensorType from = getTensorType(step.scores),
                   type = getTensorType(node.getResult());
  if (!from || !type)
    return refuse(node, "the sizes of its operand are not known");
  bool isCast = llvm::is_contained({"aten.to.dtype", "aten.type_as.default",
                                    "aten._to_copy.default", "aten.to.other"},
                                   target);
  if (isCast) {
    auto element = dyn_cast<FloatType>(type.getElementType());
    auto least = dyn_cast<FloatType>(narrowest);
    if (!element || !least || element.getWidth() < least.getWidth() ||
        (element.getWidth() == least.getWidth() && element != least))
      return refuse(node, "it casts to a type that holds less");
    if (element.isF64() && !least.isF64())
      return refuse(node, "what follows is computed in float64");
    return true;
  }
  if (node->getNumOperands() != 1)
    return refuse(node, "its sizes are computed in every call");
  if (type.getRank() != 3 && type.getRank() != 4)
    return refuse(node, "it gives scores " + Twine(type.getRank()) +
                            " dimensions, and attention has three or four");
  if (ArrayRef(getSizes(step.scores)).take_back(2) !=
      ArrayRef(getSizes(node.getResult())).take_back(2))
    return refuse(node, "it takes the sizes of queries and keys apart");
  if (type.getRank() == from.getRank() && type.getShape() != from.getShape())
    return refuse(node, "it takes batches and heads apart in another way");
  return true;
}

static bool isForm(NodeOp node) {
  return llvm::is_contained({"aten.view.default", "aten.reshape.default",
                             "aten._unsafe_view.default", "aten.to.dtype",
                             "aten.type_as.default", "aten._to_copy.default",
                             "aten.to.other", "aten.dropout.default"},
                            getFunctionalTarget(node));
}

/// A factor or divisor of scores.
bool Reader::readFactor(AttentionStep &step) {
  NodeOp node = step.node;
  step.kind = AttentionStep::Kind::Scale;
  step.isDivided = node.getTarget().starts_with("aten.div");
  step.scores = node.getArgumentValue("self");
  step.number = getNumber(node.getArgument("other"));
  if (!step.number) {
    step.other = node.getArgumentValue("other");
    if (!step.isDivided && areScoresSecond(step.scores, step.other))
      std::swap(step.scores, step.other);
    step.number = getConstant(step.other);
    RankedTensorType type = getTensorType(step.other);
    if (!step.number && type && type.getRank() &&
        !isOne(getSizes(step.other).back()))
      return refuse(node, "scores are multiplied with a tensor that differs "
                          "from key to key");
  }
  if (step.number && !(std::abs(*step.number) > 0))
    return refuse(node, "scores are multiplied with or divided by zero");
  return true;
}

bool Reader::readSum(AttentionStep &step) {
  NodeOp node = step.node;
  step.kind = AttentionStep::Kind::Add;
  step.scores = node.getArgumentValue("self");
  step.other = node.getArgumentValue("other");
  if (!step.other) {
    // A term that a model left out, as XLNet's of segments.
    if (getNumber(node.getArgument("other")) != 0.0)
      return refuse(node, "it adds a number to all scores");
    step.kind = AttentionStep::Kind::Form;
    return true;
  }
  double alpha = getNumber(node.getArgument("alpha")).value_or(1);
  bool isDifference = getFunctionalTarget(node) == "aten.sub.Tensor";
  if (areScoresSecond(step.scores, step.other)) {
    std::swap(step.scores, step.other);
    if (isDifference || alpha != 1)
      return refuse(node, "scores are taken from something");
  }
  step.number = isDifference ? -alpha : alpha;
  return true;
}

/// What is filled in has to hide a score.
bool Reader::checkFilled(AttentionStep &step, Attribute constant,
                         Value tensor) {
  step.number = constant ? getNumber(constant) : getConstant(tensor);
  if (!step.number)
    return refuse(step.node, "the value that is filled in is not known");
  constexpr double kHides = -1e9;
  RankedTensorType type = getTensorType(step.scores);
  if (!type || !isa<FloatType>(type.getElementType()))
    return refuse(step.node, "scores are other than real numbers");
  double lowest = getLowest(type.getElementType());
  if (*step.number > kHides && *step.number > lowest)
    return refuse(step.node, kShows);
  return true;
}

bool Reader::readHidden(AttentionStep &step) {
  NodeOp node = step.node;
  StringRef target = node.getTarget();
  step.kind = AttentionStep::Kind::Hide;
  step.scores = node.getArgumentValue("self");
  step.keeps = target.starts_with("aten.where");
  if (!step.keeps) {
    step.other = node.getArgumentValue("mask");
    Attribute value = node.getArgument("value");
    bool isTensor = target.ends_with(".Tensor");
    return checkFilled(step, isTensor ? Attribute() : value,
                       node.getArgumentValue("value"));
  }
  step.other = node.getArgumentValue("condition");
  Attribute filled = node.getArgument("other");
  Value tensor = node.getArgumentValue("other");
  bool isFirst = target == "aten.where.ScalarSelf" ||
                 (target == "aten.where.self" &&
                  !(step.scores && findProductBefore(step.scores)));
  if (isFirst) {
    step.keeps = false;
    filled = node.getArgument("self");
    tensor = std::exchange(step.scores, node.getArgumentValue("other"));
  }
  return checkFilled(step, tensor ? Attribute() : filled, tensor);
}

Reader::Read Reader::getReader(NodeOp node) {
  return llvm::StringSwitch<Read>(getFunctionalTarget(node))
      .Cases({"aten.mul.Tensor", "aten.div.Tensor", "aten.mul.Scalar",
              "aten.div.Scalar"},
             &Reader::readFactor)
      .Cases({"aten.add.Tensor", "aten.sub.Tensor"}, &Reader::readSum)
      .Cases({"aten.masked_fill.Scalar", "aten.masked_fill.Tensor",
              "aten.where.self", "aten.where.ScalarOther",
              "aten.where.ScalarSelf"},
             &Reader::readHidden)
      .Default(nullptr);
}

bool Reader::readStep(AttentionStep &step) {
  NodeOp node = step.node;
  if (!takesTensorsAlone(node))
    return refuse(node, "a number that it takes is computed in every call");
  if (!(this->*getReader(node))(step))
    return false;
  // Scores are the pattern's own, and nothing else is changed with them.
  if (isKnownToWrite(node.getTarget()) &&
      step.scores != node.getArgumentValue("self"))
    return refuse(node, "it writes scores into what they are combined with");
  if (!step.scores || !getTensorType(step.scores) ||
      getSizes(step.scores) != getSizes(node.getResult()))
    return refuse(node, "it repeats scores over more batches or heads");
  if (getTensorType(step.scores).getRank() > 4)
    return refuse(node, "its result has more than four dimensions");
  if (step.other && !getTensorType(step.other))
    return refuse(node, "the sizes of its operand are not known");
  if (step.other == step.scores)
    return refuse(node, "it combines scores with themselves");
  return true;
}

bool Reader::readSoftmax() {
  NodeOp node = spelling.softmax;
  Value scores = node.getArgumentValue("self");
  RankedTensorType type = getTensorType(scores),
                   result = getTensorType(node.getResult());
  std::optional<double> dim = getNumber(node.getArgument("dim"));
  if (!type || !result || !dim)
    return refuse(node, "the sizes of its operand are not known");
  if (*dim != -1 && *dim != static_cast<double>(type.getRank() - 1))
    return refuse(node, "it is over another dimension than the last one");
  if (result.getElementType().isF64() && !type.getElementType().isF64())
    return refuse(node, "it is computed in float64");
  auto from = dyn_cast<FloatType>(type.getElementType());
  auto to = dyn_cast<FloatType>(result.getElementType());
  if (!from || !to)
    return refuse(node, "scores are other than real numbers");
  if (to.getWidth() < from.getWidth() ||
      (to.getWidth() == from.getWidth() && to != from))
    return refuse(node, "it is computed in a type that holds less");
  return true;
}

/// True where `node` makes rows of scores longer by what comes from no product.
static bool putsColumnsBeside(NodeOp node) {
  RankedTensorType type = getTensorType(node.getResult());
  std::optional<double> dim = getNumber(node.getArgument("dim"));
  if (!llvm::is_contained({"aten.cat.default", "aten.concat.default"},
                          node.getTarget()) ||
      !type || !dim || (*dim != -1 && *dim != type.getRank() - 1))
    return false;
  return llvm::count_if(node->getOperands(), [](Value part) {
           return findProductBefore(part) != nullptr;
         }) == 1;
}

bool Reader::readBefore() {
  NodeOp user = spelling.softmax;
  Value scores = user.getArgumentValue("self");
  while (true) {
    auto node = scores.getDefiningOp<NodeOp>();
    if (!node)
      return refuse(user, "what it takes is an input of the graph");
    if (putsColumnsBeside(node))
      return refuse(node, "it puts columns of no key beside scores, as an "
                          "attention sink is: they take a share of softmax, "
                          "and the operator has no place for them");
    if (!isProduct(node) && !isForm(node) && !getReader(node))
      return refuse(node, node.getTarget() +
                              " stands between the product and softmax");
    if (isTakenElsewhere(node, user))
      return refuse(node, "its result is taken elsewhere too");
    if (isProduct(node)) {
      std::reverse(spelling.before.begin(), spelling.before.end());
      return readFirst(node);
    }
    AttentionStep step;
    step.node = node;
    Value before = node->getNumOperands() ? node->getOperand(0) : Value();
    RankedTensorType type = getTensorType(before);
    if (isForm(node) ? !type || !readForm(step, type.getElementType())
                     : !readStep(step))
      return false;
    spelling.before.push_back(step);
    user = node;
    scores = step.scores;
  }
}

bool Reader::readBehind() {
  NodeOp node = spelling.softmax;
  while (true) {
    SmallVector<Operation *> users(node->getUsers());
    llvm::erase_if(users, [&](Operation *user) {
      return asksForTypeOnly(user, node.getResult());
    });
    users.erase(llvm::unique(users), users.end());
    if (users.size() != 1)
      return refuse(node, "its result is taken elsewhere too");
    auto user = dyn_cast<NodeOp>(users.front());
    if (!user)
      return refuse(node, "the graph returns the weights");
    if (isProduct(user))
      return readSecond(user, node.getResult());
    if (!isForm(user))
      return refuse(user, user.getTarget() +
                              " stands between softmax and the product");
    AttentionStep step;
    step.node = user;
    if (!readForm(step, getQueryElement()))
      return false;
    spelling.after.push_back(step);
    node = user;
  }
}

//===----------------------------------------------------------------------===//
// Masks
//===----------------------------------------------------------------------===//

/// True where what is added to scores may be lower than their type holds.
static bool isWider(const AttentionStep &step) {
  auto added = dyn_cast<FloatType>(getTensorType(step.other).getElementType());
  auto scores =
      dyn_cast<FloatType>(getTensorType(step.scores).getElementType());
  return added && scores && getLowest(added) < getLowest(scores);
}

/// True where what is filled in is so low that what is added to it is lost, or
/// hides too, as GPT-Neo adds a mask of paddings to one of what comes later.
bool Reader::swallowsSums(const AttentionStep &step) {
  constexpr double kSwallows = -1e20;
  return *step.number <= kSwallows && getQueryElement().isF32() &&
         getTensorType(step.scores).getElementType().isF32();
}

/// Masks become numbers that are added to scores, or say which of them count:
/// what was filled in must hide whatever it is, and stay a number.
bool Reader::checkMasks() {
  bool isHalf = getQueryElement().isF16();
  // From the last step on: what comes after it.
  double factor = 1;
  bool isLast = true, isFactorKnown = true, areOnlySumsBehind = true;
  for (AttentionStep &step : llvm::reverse(spelling.before)) {
    switch (step.kind) {
    case AttentionStep::Kind::Form:
      break;
    case AttentionStep::Kind::Scale:
      areOnlySumsBehind = false;
      if (!step.number) {
        isFactorKnown = false;
        if (getTensorType(step.other).getElementType() != getQueryElement())
          return refuse(step.node, "what scores are multiplied with has "
                                   "another type than queries");
        break;
      }
      factor *= step.isDivided ? 1 / *step.number : *step.number;
      break;
    case AttentionStep::Kind::Add:
      if (isHalf && !getTensorType(step.other).getElementType().isF16())
        return refuse(step.node, "the mask may hold numbers that float16 does "
                                 "not");
      if (isKnownToWrite(step.node.getTarget()) && isWider(step))
        return refuse(step.node, "the mask may hold numbers that scores, which "
                                 "it is added to in place, do not");
      isLast = false;
      break;
    case AttentionStep::Kind::Hide:
      if (std::isfinite(*step.number)) {
        if (!isLast && !(areOnlySumsBehind && swallowsSums(step)))
          return refuse(step.node, kShows);
        double lowest = getLowest(getTensorType(step.scores).getElementType());
        if (!isFactorKnown || !(factor > 0) || *step.number * factor < lowest)
          return refuse(step.node, "what is filled in is multiplied, and may "
                                   "be no number then");
      }
      isLast = areOnlySumsBehind = false;
      break;
    }
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

/// Each operand of a product has the sizes of scores, or 1 in the dimensions of
/// batches and heads.
bool Reader::checkSizes() {
  auto check = [&](AttentionProduct &product, Value operand,
                   const DimNames &names, Value scores) {
    SmallVector<Attribute> sizes = getSizes(operand),
                           expected = getSizes(scores);
    DimNames all = getDimNames(expected.size(), {"l", "s"});
    for (auto [size, name] : llvm::zip(sizes, names)) {
      if (!size)
        return refuse(product.node, "the sizes of its operands are not known");
      const auto *place = llvm::find(all, name);
      if (place == all.end())
        continue;
      bool isBatch = name != "l" && name != "s";
      if (size != expected[place - all.begin()] && !(isBatch && isOne(size)))
        return refuse(product.node, "it repeats one operand over the other");
    }
    return true;
  };
  AttentionProduct &first = spelling.first, &second = spelling.second;
  Type element = getQueryElement();
  for (Value other : {first.right, second.right})
    if (getTensorType(other).getElementType() != element)
      return refuse(second.node, "queries, keys and values differ in type");
  return check(first, first.left, first.leftDims, first.node.getResult()) &&
         check(first, first.right, first.rightDims, first.node.getResult()) &&
         check(second, second.right, second.rightDims, second.left);
}

std::vector<AttentionPlace> opprof::rewrite::findAttention(GraphOp graph) {
  std::vector<AttentionPlace> places;
  for (NodeOp node : graph.getBlock().getOps<NodeOp>()) {
    StringRef target = node.getTarget();
    bool isSoftmax =
        target == "aten.softmax.int" || target == "aten._softmax.default";
    if ((!isSoftmax && target != "aten.exp.default") || !node->getNumOperands())
      continue;
    AttentionPlace place;
    place.last = findProductBehind(node.getResult());
    if (!place.last ||
        !findProductBefore(node->getOperand(0), /*isLoose=*/true))
      continue;
    if (isSoftmax) {
      Reader reader(node);
      if (reader.read()) {
        place.spelling = std::move(reader.spelling);
        place.last = place.spelling->second.node;
      }
      place.obstacle = std::move(reader.obstacle);
    } else {
      place.obstacle = {node, "softmax is written as exp and a sum"};
    }
    places.push_back(std::move(place));
  }
  return places;
}
