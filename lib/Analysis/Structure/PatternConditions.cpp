// The conditions of a pattern, and whether they hold.

#include "opprof/Analysis/Structure/PatternConditions.h"

#include "opprof/Analysis/Structure/StorageEffects.h"
#include "opprof/Dialect/FX/IR/Arguments.h"
#include "opprof/Dialect/FX/IR/GraphAttributes.h"
#include "opprof/Dialect/FX/IR/Schema.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace opprof::fx;

StringRef opprof::fx::stringifyConditionKind(ConditionKind kind) {
  switch (kind) {
  case ConditionKind::DType:
    return "dtype";
  case ConditionKind::Shape:
    return "shape";
  case ConditionKind::Stride:
    return "stride";
  case ConditionKind::Device:
    return "device";
  case ConditionKind::Layout:
    return "layout";
  case ConditionKind::Subclass:
    return "subclass";
  case ConditionKind::RequiresGrad:
    return "requires_grad";
  case ConditionKind::Constant:
    return "constant";
  case ConditionKind::Type:
    return "type";
  case ConditionKind::InnerUsesOnly:
    return "inner_uses_only";
  case ConditionKind::InputsComeFirst:
    return "inputs_come_first";
  case ConditionKind::EffectsInOrder:
    return "effects_in_order";
  case ConditionKind::ResultsStayInside:
    return "results_stay_inside";
  case ConditionKind::ViewsWork:
    return "views_work";
  case ConditionKind::NothingWrittenAfter:
    return "nothing_written_after";
  }
  llvm_unreachable("every kind has its name");
}

StringRef opprof::fx::explainPlaceCondition(ConditionKind kind) {
  switch (kind) {
  case ConditionKind::InnerUsesOnly:
    return "a value that the pattern does not give out is used outside of it";
  case ConditionKind::InputsComeFirst:
    return "a result is used before all inputs are there";
  case ConditionKind::EffectsInOrder:
    return "what its nodes read may be written between them, or numbers are "
           "drawn "
           "at random";
  case ConditionKind::ResultsStayInside:
    return "the graph returns a result, or a view of one";
  case ConditionKind::ViewsWork:
    return "a view of a result needs the layout that it has now";
  case ConditionKind::NothingWrittenAfter:
    return "what it takes or gives is written later, and the replacement "
           "shares "
           "storage otherwise than the pattern";
  default:
    llvm_unreachable("this is about a value");
  }
}

//===----------------------------------------------------------------------===//
// Computing them
//===----------------------------------------------------------------------===//

/// The strides that a tensor of type `type` has to have, as `Condition` holds
/// them, or null where the type leaves them open.
static Attribute getExpectedStrides(RankedTensorType type) {
  Builder builder(type.getContext());
  auto info = dyn_cast_or_null<TensorInfoAttr>(type.getEncoding());
  if (!info || info.getUnknownStrides())
    return {};
  if (info.getStrides())
    return info.getStrides();
  if (auto strides = TensorInfoAttr::getStaticStrides(type))
    return builder.getI64ArrayAttr(*strides);
  return builder.getUnitAttr();
}

static Attribute getExpectedShape(RankedTensorType type) {
  Builder builder(type.getContext());
  auto info = dyn_cast_or_null<TensorInfoAttr>(type.getEncoding());
  if (info && info.getDims())
    return info.getDims();
  SmallVector<Attribute> shape;
  for (int64_t size : type.getShape())
    shape.push_back(ShapedType::isDynamic(size)
                        ? Attribute(builder.getUnitAttr())
                        : builder.getI64IntegerAttr(size));
  return builder.getArrayAttr(shape);
}

static void addTypeConditions(Type type, ArrayRef<unsigned> path,
                              SmallVectorImpl<Condition> &conditions) {
  Builder builder(type.getContext());
  auto add = [&](ConditionKind kind, Attribute expected) {
    conditions.push_back({kind, expected, SmallVector<unsigned, 1>(path), 0});
  };
  auto addAll = [&](TypeRange elements) {
    for (auto [index, element] : llvm::enumerate(elements)) {
      SmallVector<unsigned, 1> inner(path);
      inner.push_back(index);
      addTypeConditions(element, inner, conditions);
    }
  };
  if (isa<AnyType>(type))
    return;
  if (auto list = dyn_cast<ListType>(type))
    return addAll(list.getElements().getTypes());
  if (auto tuple = dyn_cast<TupleType>(type))
    return addAll(tuple.getTypes());
  auto tensor = dyn_cast<TensorType>(type);
  if (!tensor)
    return add(ConditionKind::Type, TypeAttr::get(type));
  add(ConditionKind::DType, TypeAttr::get(tensor.getElementType()));
  auto ranked = dyn_cast<RankedTensorType>(type);
  if (!ranked)
    return;
  add(ConditionKind::Shape, getExpectedShape(ranked));
  auto info = dyn_cast_or_null<TensorInfoAttr>(ranked.getEncoding());
  if (!info)
    return;
  if (Attribute strides = getExpectedStrides(ranked))
    add(ConditionKind::Stride, strides);
  add(ConditionKind::Device, builder.getStringAttr(info.getDevice()));
  add(ConditionKind::Layout,
      info.getLayout() ? info.getLayout() : builder.getStringAttr("strided"));
  add(ConditionKind::Subclass,
      info.getSubclass() ? info.getSubclass() : builder.getStringAttr(""));
  if (info.getRequiresGrad())
    add(ConditionKind::RequiresGrad, builder.getBoolAttr(true));
}

static bool mayAliasFirstOperand(NodeOp node) {
  if (node.getKind() != NodeKind::call_function)
    return true;
  const OperatorSchema *schema = lookupSchema(node.getTarget());
  return !schema || schema->isView() ||
         returnsUndeclaredAlias(node.getTarget());
}

/// True for two parts of one tensor that a split gives, which share no element.
static bool areDisjointParts(Value first, Value second) {
  auto one = first.getDefiningOp<NodeOp>();
  auto other = second.getDefiningOp<NodeOp>();
  return one && other && one != other &&
         one.getTarget() == "operator.getitem" &&
         other.getTarget() == "operator.getitem" &&
         one.getOperand(0) == other.getOperand(0) &&
         one.getArgs() != other.getArgs();
}

/// True where results of `graph` may share storage with its arguments, or with
/// each other.
static bool mayShareResults(GraphOp graph) {
  StorageEffects effects(graph);
  auto results = graph.getOutput().getOperands();
  for (auto [index, result] : llvm::enumerate(results)) {
    if (effects.mayBeInput(result))
      return true;
    for (Value other : results.drop_front(index + 1))
      if (effects.mayAlias(result, other) && !areDisjointParts(result, other))
        return true;
  }
  return false;
}

PatternConditions PatternConditions::get(GraphOp pattern, GraphOp replacement) {
  PatternConditions conditions;
  auto addValue = [&](Value value) {
    SmallVector<Condition> &all = conditions.ofValues.emplace_back();
    addTypeConditions(value.getType(), {}, all);
    if (Attribute constant = getConstantOfInput(value))
      all.push_back({ConditionKind::Constant, constant, {}, 0});
  };
  for (Value argument : pattern.getArguments())
    addValue(argument);
  for (NodeOp node : pattern.getBlock().getOps<NodeOp>())
    addValue(node.getResult());
  Builder builder(pattern.getContext());
  auto add = [&](ConditionKind kind, Attribute expected, unsigned result = 0) {
    conditions.ofPlace.push_back({kind, expected, {}, result});
  };
  add(ConditionKind::InnerUsesOnly, builder.getUnitAttr());
  add(ConditionKind::InputsComeFirst, builder.getUnitAttr());
  add(ConditionKind::EffectsInOrder, builder.getUnitAttr());
  if (!replacement)
    return conditions;
  add(ConditionKind::ResultsStayInside, builder.getUnitAttr());
  for (auto [index, types] : llvm::enumerate(
           llvm::zip(pattern.getResultTypes(), replacement.getResultTypes()))) {
    auto before = dyn_cast<RankedTensorType>(std::get<0>(types));
    auto after = dyn_cast<RankedTensorType>(std::get<1>(types));
    if (!after && !isa<UnrankedTensorType, AnyType>(std::get<1>(types)))
      continue;
    Attribute strides = after ? getExpectedStrides(after) : Attribute();
    if (strides && before && strides == getExpectedStrides(before))
      continue;
    add(ConditionKind::ViewsWork, strides ? strides : builder.getUnitAttr(),
        index);
  }
  if (mayShareResults(pattern) || mayShareResults(replacement))
    add(ConditionKind::NothingWrittenAfter, builder.getUnitAttr());
  return conditions;
}

//===----------------------------------------------------------------------===//
// Evaluating those of values
//===----------------------------------------------------------------------===//

static Type getElement(Type type, unsigned index) {
  if (auto list = dyn_cast<ListType>(type))
    type = list.getElements();
  auto tuple = dyn_cast<TupleType>(type);
  return tuple && index < tuple.size() ? tuple.getType(index) : Type();
}

static bool haveSizes(Attribute expected, ArrayRef<Attribute> actual,
                      SizeComparison compareSize) {
  auto sizes = cast<ArrayAttr>(expected);
  return sizes.size() == actual.size() &&
         llvm::all_of(llvm::zip(sizes, actual), [&](auto pair) {
           auto [size, other] = pair;
           return isa<UnitAttr>(size) || compareSize(size, other);
         });
}

/// The sizes of a tensor; null stands for those that nobody knows.
static SmallVector<Attribute> getSizes(RankedTensorType type) {
  auto sizes = cast<ArrayAttr>(getExpectedShape(type));
  return llvm::map_to_vector(sizes, [](Attribute size) {
    return isa<UnitAttr>(size) ? Attribute() : size;
  });
}

static bool hasStrides(Attribute expected, RankedTensorType type,
                       SizeComparison compareSize) {
  Attribute strides = getExpectedStrides(type);
  if (!strides)
    return false;
  if (isa<UnitAttr>(expected) || isa<UnitAttr>(strides)) {
    auto isContiguous = [&](Attribute layout) {
      if (isa<UnitAttr>(layout))
        return true;
      auto encoding = cast<TensorInfoAttr>(type.getEncoding());
      auto plain = RankedTensorType::get(
          type.getShape(), type.getElementType(),
          TensorInfoAttr::get(type.getContext(), encoding.getDevice(), {},
                              false, {}, {}, false, {}, {}));
      auto contiguous = TensorInfoAttr::getStaticStrides(plain);
      return contiguous &&
             layout == Builder(type.getContext()).getI64ArrayAttr(*contiguous);
    };
    return isContiguous(expected) && isContiguous(strides);
  }
  return haveSizes(expected, cast<ArrayAttr>(strides).getValue(), compareSize);
}

Attribute opprof::fx::getConstantOfInput(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  auto graph = argument ? dyn_cast<GraphOp>(argument.getOwner()->getParentOp())
                        : nullptr;
  return graph ? graph.getArgAttr(argument.getArgNumber(), kConstantAttr)
               : nullptr;
}

bool opprof::fx::holds(const Condition &condition, Value value,
                       SizeComparison compareSize) {
  if (condition.kind == ConditionKind::Constant)
    return getConstantOfInput(value) == condition.expected;
  Type type = value.getType();
  for (unsigned index : condition.path)
    if (!type || !(type = getElement(type, index)))
      return false;
  Attribute expected = condition.expected;
  if (condition.kind == ConditionKind::Type) {
    Type wanted = cast<TypeAttr>(expected).getValue();
    // Which expression it is, the edges say.
    bool isSymbolic = isa<SymIntType, SymFloatType, SymBoolType>(wanted);
    return type == wanted ||
           (isSymbolic && type.getTypeID() == wanted.getTypeID());
  }
  auto tensor = dyn_cast<TensorType>(type);
  if (!tensor)
    return false;
  if (condition.kind == ConditionKind::DType)
    return tensor.getElementType() == cast<TypeAttr>(expected).getValue();
  auto ranked = dyn_cast<RankedTensorType>(type);
  if (!ranked)
    return false;
  if (condition.kind == ConditionKind::Shape)
    return haveSizes(expected, getSizes(ranked), compareSize);
  auto info = dyn_cast_or_null<TensorInfoAttr>(ranked.getEncoding());
  if (!info)
    return false;
  StringRef layout = info.getLayout() ? info.getLayout().getValue() : "strided";
  StringRef subclass = info.getSubclass() ? info.getSubclass().getValue() : "";
  switch (condition.kind) {
  case ConditionKind::Stride:
    return hasStrides(expected, ranked, compareSize);
  case ConditionKind::Device:
    return info.getDevice() == cast<StringAttr>(expected).getValue();
  case ConditionKind::Layout:
    return layout == cast<StringAttr>(expected).getValue();
  case ConditionKind::Subclass:
    return subclass == cast<StringAttr>(expected).getValue();
  case ConditionKind::RequiresGrad:
    return info.getRequiresGrad() == cast<BoolAttr>(expected).getValue();
  default:
    llvm_unreachable("a condition of a place is asked of a value");
  }
}

//===----------------------------------------------------------------------===//
// Views
//===----------------------------------------------------------------------===//

bool opprof::fx::onlyAsserts(Operation *op) {
  auto node = dyn_cast<NodeOp>(op);
  return node && node.getTarget() == "aten._assert_tensor_metadata.default";
}

bool opprof::fx::asksForTypeOnly(Operation *user, Value value) {
  auto node = dyn_cast<NodeOp>(user);
  return onlyAsserts(user) ||
         (node && node.getTarget() == "aten.type_as.default" &&
          node.getArgumentValue("self") != value);
}

void opprof::fx::visitViews(Value value,
                            llvm::function_ref<void(NodeOp)> visit) {
  llvm::SmallPtrSet<Operation *, 8> seen;
  for (Operation *user : value.getUsers())
    if (auto node = dyn_cast<NodeOp>(user); node && seen.insert(user).second &&
                                            node.getOperand(0) == value &&
                                            mayAliasFirstOperand(node))
      visit(node);
}

bool opprof::fx::isReturned(Value value) {
  SmallVector<Value> worklist{value};
  while (!worklist.empty()) {
    Value current = worklist.pop_back_val();
    if (llvm::any_of(current.getUsers(), llvm::IsaPred<OutputOp>))
      return true;
    visitViews(current,
               [&](NodeOp view) { worklist.push_back(view.getResult()); });
  }
  return false;
}

std::optional<SmallVector<int64_t>>
opprof::fx::getViewStrides(ArrayRef<int64_t> sizes, ArrayRef<int64_t> strides,
                           ArrayRef<int64_t> shape) {
  SmallVector<int64_t> result(shape.size());
  int64_t next = shape.size() - 1;
  // Groups of dimensions that lie side by side in memory, from the last one.
  int64_t groupElements = 1, viewElements = 1;
  int64_t baseStride = strides.empty() ? 1 : strides.back();
  for (int64_t i = sizes.size() - 1; i >= 0; --i) {
    groupElements *= sizes[i];
    bool ends = i == 0 || (sizes[i - 1] != 1 &&
                           strides[i - 1] != groupElements * baseStride);
    if (!ends)
      continue;
    while (next >= 0 && (viewElements < groupElements || shape[next] == 1)) {
      result[next] = viewElements * baseStride;
      viewElements *= shape[next--];
    }
    if (viewElements != groupElements)
      return std::nullopt;
    if (i > 0) {
      baseStride = strides[i - 1];
      groupElements = viewElements = 1;
    }
  }
  if (next != -1)
    return std::nullopt;
  return result;
}

static std::optional<int64_t> getDimension(Attribute argument, int64_t rank) {
  auto dim = dyn_cast_or_null<IntegerAttr>(argument);
  if (!dim || dim.getInt() < -rank || dim.getInt() >= rank)
    return std::nullopt;
  return dim.getInt() < 0 ? dim.getInt() + rank : dim.getInt();
}

/// True for the operators that fail where their operand has no such view.
static bool isStrictView(NodeOp node) {
  return node.getTarget() == "aten.view.default" ||
         node.getTarget() == "aten._unsafe_view.default";
}

/// True for elementwise operators that write their first operand and return it.
static bool isWrittenInPlace(NodeOp node) {
  const OperatorSchema *schema = lookupSchema(node.getTarget());
  return schema && schema->isPointwise && schema->isView() &&
         !schema->arguments.empty() && schema->arguments.front().isWritten;
}

/// The strides of what `view` makes of one dimension of a tensor, or of all
/// parts that it takes one apart into; none where it is another view.
static std::optional<SmallVector<int64_t>>
inferStridesOfParts(NodeOp view, ArrayRef<int64_t> sizes,
                    SmallVector<int64_t> strides) {
  StringRef target = view.getTarget();
  if (llvm::is_contained({"aten.detach.default", "aten.alias.default",
                          "aten.split.Tensor", "aten.split_with_sizes.default",
                          "aten.chunk.default"},
                         target))
    return strides;
  bool adds = target == "aten.unsqueeze.default";
  Attribute argument = view.getArgument("dim");
  if (!argument)
    argument = Builder(view.getContext()).getI64IntegerAttr(0);
  auto dim = getDimension(argument, sizes.size() + (adds ? 1 : 0));
  if (!dim)
    return std::nullopt;
  if (adds) {
    bool isLast = *dim == static_cast<int64_t>(sizes.size());
    strides.insert(strides.begin() + *dim,
                   isLast ? 1 : sizes[*dim] * strides[*dim]);
    return strides;
  }
  bool drops = target == "aten.select.int" || target == "aten.unbind.int" ||
               (target == "aten.squeeze.dim" && sizes[*dim] == 1);
  if (drops) {
    strides.erase(strides.begin() + *dim);
    return strides;
  }
  if (target == "aten.squeeze.dim")
    return strides;
  if (target != "aten.slice.Tensor")
    return std::nullopt;
  Attribute step = view.getArgument("step");
  auto number = dyn_cast_or_null<IntegerAttr>(step);
  if (step && !number)
    return std::nullopt;
  strides[*dim] *= number ? number.getInt() : 1;
  return strides;
}

std::optional<SmallVector<int64_t>>
opprof::fx::inferViewStrides(NodeOp view, ArrayRef<int64_t> strides) {
  StringRef target = view.getTarget();
  auto result = dyn_cast<RankedTensorType>(view.getType());
  int64_t rank = strides.size();
  // One of the parts that were taken apart: each has the strides of all.
  if (target == "operator.getitem" &&
      isa<ListType>(view.getOperand(0).getType()) && result &&
      result.getRank() == rank)
    return SmallVector<int64_t>(strides);
  auto source = dyn_cast<RankedTensorType>(view.getOperand(0).getType());
  if (!source || !source.hasStaticShape() || source.getRank() != rank)
    return std::nullopt;
  if (auto parts = inferStridesOfParts(view, source.getShape(),
                                       SmallVector<int64_t>(strides)))
    return parts;
  if (!result || !result.hasStaticShape())
    return std::nullopt;
  if (isWrittenInPlace(view))
    return SmallVector<int64_t>(strides);
  if (isStrictView(view) ||
      llvm::is_contained({"aten.reshape.default", "aten.flatten.using_ints",
                          "aten.unflatten.int"},
                         target))
    return getViewStrides(source.getShape(), strides, result.getShape());
  if (target == "aten.transpose.int") {
    auto first = getDimension(view.getArgument("dim0"), rank);
    auto second = getDimension(view.getArgument("dim1"), rank);
    if (!first || !second)
      return std::nullopt;
    SmallVector<int64_t> swapped(strides);
    std::swap(swapped[*first], swapped[*second]);
    return swapped;
  }
  if (target == "aten.permute.default") {
    auto dims = dyn_cast_or_null<ArrayAttr>(view.getArgument("dims"));
    if (!dims || dims.size() != strides.size())
      return std::nullopt;
    SmallVector<int64_t> permuted;
    for (Attribute dim : dims) {
      auto number = getDimension(dim, rank);
      if (!number)
        return std::nullopt;
      permuted.push_back(strides[*number]);
    }
    return permuted;
  }
  return std::nullopt;
}

/// The strides that `view` gives to whatever it takes: it makes a contiguous
/// tensor.
static std::optional<SmallVector<int64_t>> getForcedStrides(NodeOp view) {
  auto type = dyn_cast<RankedTensorType>(view.getType());
  if (view.getTarget() != "aten.contiguous.default" || !type ||
      !type.hasStaticShape() || view.getArgument("memory_format"))
    return std::nullopt;
  SmallVector<int64_t> strides(type.getRank(), 1);
  for (int64_t i = type.getRank() - 2; i >= 0; --i)
    strides[i] = strides[i + 1] * std::max<int64_t>(type.getDimSize(i + 1), 1);
  return strides;
}

bool opprof::fx::viewsWork(Value value,
                           std::optional<SmallVector<int64_t>> strides) {
  // They read storage by its layout: they would fail, or give other numbers.
  static constexpr StringLiteral kByLayout[] = {
      "aten.as_strided.default", "aten.as_strided_.default", "aten.view.dtype",
      "aten.view_as_real.default", "aten.view_as_complex.default"};
  using Strides = std::optional<SmallVector<int64_t>>;
  SmallVector<std::pair<Value, Strides>> worklist;
  worklist.emplace_back(value, std::move(strides));
  bool allWork = true;
  while (allWork && !worklist.empty()) {
    auto [current, layout] = worklist.pop_back_val();
    visitViews(current, [&, &layout = layout](NodeOp view) {
      Strides inferred = getForcedStrides(view);
      if (!inferred && layout)
        inferred = inferViewStrides(view, *layout);
      allWork &= !llvm::is_contained(kByLayout, view.getTarget()) &&
                 (inferred || !isStrictView(view));
      worklist.emplace_back(view.getResult(), std::move(inferred));
    });
  }
  return allWork;
}
