// Puts a replacement at every place of a pattern, and keeps the types of what
// follows true.

#include "opprof/Analysis/Structure/Equivalence.h"
#include "opprof/Dialect/FX/IR/Arguments.h"
#include "opprof/Dialect/FX/IR/Provenance.h"
#include "opprof/Dialect/FX/IR/Schema.h"
#include "opprof/Dialect/FX/TransformOps/FXTransformOps.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace opprof::fx;

namespace {

/// What a pattern's size symbols and open constants stand for at one place, put
/// into the types and arguments of a replacement.
class Substitution {
public:
  Substitution(const SubgraphMatch &match) : match(match) {}

  Attribute apply(Attribute leaf) const {
    if (auto symbol = dyn_cast<SymAttr>(leaf)) {
      auto found = match.symbols.find(symbol.getValue());
      return found == match.symbols.end() ? leaf : found->second;
    }
    if (auto open = dyn_cast<AnyAttr>(leaf)) {
      auto found = match.constants.find(
          StringAttr::get(leaf.getContext(), open.getName()));
      return found == match.constants.end() ? leaf : found->second;
    }
    return leaf;
  }

  Type apply(Type type) const {
    auto tensor = dyn_cast<RankedTensorType>(type);
    auto info = tensor ? dyn_cast_or_null<TensorInfoAttr>(tensor.getEncoding())
                       : nullptr;
    if (!info || !info.getDims())
      return type;
    SmallVector<Attribute> dims = applyAll(info.getDims());
    SmallVector<int64_t> shape;
    for (Attribute dim : dims) {
      auto number = dyn_cast<IntegerAttr>(dim);
      shape.push_back(number ? number.getInt() : ShapedType::kDynamic);
    }
    ArrayAttr strides = info.getStrides();
    if (strides)
      strides = ArrayAttr::get(type.getContext(), applyAll(strides));
    return RankedTensorType::get(
        shape, tensor.getElementType(),
        TensorInfoAttr::getCanonical(type.getContext(), info.getDevice(), dims,
                                     strides, info.getStorageOffset(),
                                     info.getRequiresGrad(), info.getLayout(),
                                     info.getSubclass()));
  }

private:
  SmallVector<Attribute> applyAll(ArrayAttr elements) const {
    return llvm::map_to_vector(
        elements, [&](Attribute element) { return apply(element); });
  }

  const SubgraphMatch &match;
};

/// The graph's names, to give new nodes names of their own.
class NameTable {
public:
  explicit NameTable(GraphOp graph) {
    for (unsigned i = 0, e = graph.getArgumentTypes().size(); i != e; ++i)
      names.insert(graph.getInputName(i));
    for (Operation &op : graph.getBlock())
      names.insert(getNodeName(&op));
  }

  std::string getUnique(StringRef wanted) {
    std::string name = wanted.str();
    for (unsigned i = 1; !names.insert(name).second; ++i)
      name = (wanted + "_" + Twine(i)).str();
    return name;
  }

private:
  llvm::StringSet<> names;
};

} // namespace

/// What `op` would like to be called: its own name, or what FX makes of its
/// target ("aten.cat.default" becomes "cat").
static StringRef getWantedName(Operation *op) {
  StringRef name = getNodeName(op);
  if (!name.empty())
    return name;
  auto node = dyn_cast<NodeOp>(op);
  if (!node)
    return "call";
  StringRef target = node.getTarget();
  if (lookupSchema(target))
    target = target.rsplit('.').first;
  return target.rsplit('.').second.empty() ? target : target.rsplit('.').second;
}

/// The location of the new node `name` in the place of `original`: the user's
/// line and module stay those of what it replaces.
static Location getReplacedLocation(StringRef name, Location original) {
  if (auto named = dyn_cast<NameLoc>(original))
    original = named.getChildLoc();
  return NameLoc::get(StringAttr::get(original.getContext(), name), original);
}

/// The strides of a view that makes `shape` of a tensor of `sizes` and
/// `strides`, or none where such a tensor has no such view.
static std::optional<SmallVector<int64_t>>
getViewStrides(ArrayRef<int64_t> sizes, ArrayRef<int64_t> strides,
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

/// The strides of what `view` makes of its first operand, or none where this is
/// not known.
static std::optional<SmallVector<int64_t>> inferViewStrides(NodeOp view) {
  auto source = dyn_cast<RankedTensorType>(view.getOperand(0).getType());
  auto result = dyn_cast<RankedTensorType>(view.getType());
  if (!source || !result || !source.hasStaticShape() ||
      !result.hasStaticShape())
    return std::nullopt;
  auto strides = TensorInfoAttr::getStaticStrides(source);
  if (!strides)
    return std::nullopt;
  StringRef target = view.getTarget();
  auto getDim = [&](StringRef argument) -> std::optional<int64_t> {
    auto dim = dyn_cast_or_null<IntegerAttr>(view.getArgument(argument));
    int64_t rank = source.getRank();
    if (!dim || dim.getInt() < -rank || dim.getInt() >= rank)
      return std::nullopt;
    return dim.getInt() < 0 ? dim.getInt() + rank : dim.getInt();
  };
  if (target == "aten.view.default" || target == "aten.reshape.default")
    return getViewStrides(source.getShape(), *strides, result.getShape());
  if (target == "aten.transpose.int") {
    auto first = getDim("dim0"), second = getDim("dim1");
    if (!first || !second)
      return std::nullopt;
    std::swap((*strides)[*first], (*strides)[*second]);
    return strides;
  }
  if (target == "aten.permute.default") {
    auto dims = dyn_cast_or_null<ArrayAttr>(view.getArgument("dims"));
    if (!dims || dims.size() != strides->size())
      return std::nullopt;
    SmallVector<int64_t> permuted;
    for (Attribute dim : dims) {
      auto number = dyn_cast<IntegerAttr>(dim);
      int64_t rank = source.getRank();
      if (!number || number.getInt() < -rank || number.getInt() >= rank)
        return std::nullopt;
      permuted.push_back((*strides)[(number.getInt() + rank) % rank]);
    }
    return permuted;
  }
  return std::nullopt;
}

/// True where `view` needs its operand's elements to lie as they did.
static bool needsStrides(NodeOp node) {
  return node.getTarget() == "aten.view.default";
}

/// Renews the types of the views of `value`, whose layout has changed.
static void propagateLayout(Value value) {
  SmallVector<Value> worklist{value};
  while (!worklist.empty()) {
    Value current = worklist.pop_back_val();
    for (Operation *user : current.getUsers()) {
      auto node = dyn_cast<NodeOp>(user);
      if (!node || node.getNumOperands() == 0 || node.getOperand(0) != current)
        continue;
      const OperatorSchema *schema = lookupSchema(node.getTarget());
      auto type = dyn_cast<RankedTensorType>(node.getType());
      auto info =
          type ? dyn_cast_or_null<TensorInfoAttr>(type.getEncoding()) : nullptr;
      bool mayView = schema && (schema->isView() ||
                                node.getTarget() == "aten.reshape.default");
      if (!mayView || !info)
        continue;
      ArrayAttr strides;
      if (auto inferred = inferViewStrides(node))
        strides = Builder(node.getContext()).getI64ArrayAttr(*inferred);
      SmallVector<Attribute> dims;
      if (info.getDims())
        llvm::append_range(dims, info.getDims());
      else
        for (int64_t size : type.getShape())
          dims.push_back(Builder(node.getContext()).getI64IntegerAttr(size));
      Type renewed = RankedTensorType::get(
          type.getShape(), type.getElementType(),
          TensorInfoAttr::getCanonical(node.getContext(), info.getDevice(),
                                       dims, strides, info.getStorageOffset(),
                                       info.getRequiresGrad(), info.getLayout(),
                                       info.getSubclass()));
      if (renewed == type)
        continue;
      node.getResult().setType(renewed);
      worklist.push_back(node.getResult());
    }
  }
}

/// True where the place may take the replacement: its results stay inside the
/// graph, and every aten.view of them works on the layout that they get.
static bool isReplaceable(const SubgraphMatch &match,
                          const Substitution &substitution,
                          GraphOp replacement) {
  for (auto [matched, newType] :
       llvm::zip(match.outputs, replacement.getResultTypes())) {
    Value output = matched;
    if (llvm::any_of(output.getUsers(), llvm::IsaPred<OutputOp>))
      return false;
    auto type = dyn_cast<RankedTensorType>(substitution.apply(newType));
    if (!type || !type.hasStaticShape())
      continue;
    auto strides = TensorInfoAttr::getStaticStrides(type);
    for (Operation *user : output.getUsers()) {
      auto node = dyn_cast<NodeOp>(user);
      if (!node || !needsStrides(node))
        continue;
      auto viewed = dyn_cast<RankedTensorType>(node.getType());
      if (strides && viewed && viewed.hasStaticShape() &&
          !getViewStrides(type.getShape(), *strides, viewed.getShape()))
        return false;
    }
  }
  return true;
}

unsigned opprof::fx::replaceSubgraphs(GraphOp graph,
                                      const SubgraphMatcher &matcher,
                                      GraphOp replacement) {
  NameTable names(graph);
  // A later place may take what an earlier one gave.
  IRMapping replaced;
  SmallVector<Operation *> dead;
  unsigned places = 0;
  auto matches = matcher.matchAll(graph);
  for (const SubgraphMatch &match : matches) {
    Substitution substitution(match);
    if (!isReplaceable(match, substitution, replacement))
      continue;
    OpBuilder builder(match.insertionPoint);
    IRMapping mapping;
    for (auto [argument, input] :
         llvm::zip(replacement.getArguments(), match.inputs))
      mapping.map(argument, replaced.lookupOrDefault(input));
    Location original = match.nodes.front()->getLoc();
    for (Operation &op : replacement.getBlock().without_terminator()) {
      Operation *copy = builder.clone(op, mapping);
      copy->setLoc(
          getReplacedLocation(names.getUnique(getWantedName(&op)), original));
      for (Value result : copy->getResults())
        result.setType(substitution.apply(result.getType()));
      if (auto node = dyn_cast<NodeOp>(copy))
        node.setArgsAttr(
            cast<ArrayAttr>(mapLeaves(node.getArgs(), [&](Attribute leaf) {
              return substitution.apply(leaf);
            })));
    }
    for (auto [matched, value] :
         llvm::zip(match.outputs, replacement.getOutput().getOperands())) {
      Value output = matched;
      Value newValue = mapping.lookup(value);
      output.replaceAllUsesWith(newValue);
      replaced.map(output, newValue);
      propagateLayout(newValue);
    }
    llvm::append_range(dead, match.nodes);
    ++places;
  }
  // Another place's insertion point may be one of them, so they go last.
  llvm::sort(dead, [](Operation *first, Operation *second) {
    return second->isBeforeInBlock(first);
  });
  for (Operation *node : dead)
    if (node->use_empty())
      node->erase();
  return places;
}
