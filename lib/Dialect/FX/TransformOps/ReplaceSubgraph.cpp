// Puts a replacement at every place of a pattern, and keeps the types of what
// follows true.

#include "opprof/Analysis/Structure/Equivalence.h"
#include "opprof/Analysis/Structure/PatternConditions.h"
#include "opprof/Dialect/FX/IR/Arguments.h"
#include "opprof/Dialect/FX/IR/Provenance.h"
#include "opprof/Dialect/FX/IR/Schema.h"
#include "opprof/Dialect/FX/TransformOps/FXTransformOps.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/SetVector.h"
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
      const auto *found = match.constants.find(
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
    else if (!info.getUnknownStrides())
      if (auto contiguous = TensorInfoAttr::getStaticStrides(
              RankedTensorType::get(shape, tensor.getElementType())))
        strides = Builder(type.getContext()).getI64ArrayAttr(*contiguous);
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

static SmallVector<NodeOp> collectViews(Value value) {
  SmallVector<NodeOp> views;
  visitViews(value, [&](NodeOp view) { views.push_back(view); });
  return views;
}

/// `type` laid out as the view `node` lays out a tensor of `source`.
static Type getViewType(NodeOp node, RankedTensorType type,
                        RankedTensorType source) {
  auto info = cast<TensorInfoAttr>(type.getEncoding());
  Builder builder(node.getContext());
  ArrayAttr newStrides;
  if (source.hasStaticShape())
    if (auto strides = TensorInfoAttr::getStaticStrides(source))
      if (auto inferred = inferViewStrides(node, *strides))
        newStrides = builder.getI64ArrayAttr(*inferred);
  SmallVector<Attribute> dims;
  if (info.getDims())
    llvm::append_range(dims, info.getDims());
  else
    for (int64_t size : type.getShape())
      dims.push_back(builder.getI64IntegerAttr(size));
  return RankedTensorType::get(
      type.getShape(), type.getElementType(),
      TensorInfoAttr::getCanonical(node.getContext(), info.getDevice(), dims,
                                   newStrides, info.getStorageOffset(),
                                   info.getRequiresGrad(), info.getLayout(),
                                   info.getSubclass()));
}

/// `type`, of `node` or of one of the parts that it lists, laid out as `node`
/// lays out its first operand; as it is where nothing is said of its layout.
static Type getRenewedType(NodeOp node, Type type) {
  Type from = node.getOperand(0).getType();
  auto index =
      node.getTarget() == "operator.getitem" && node.getArgs().size() > 1
          ? dyn_cast<IntegerAttr>(node.getArgs()[1])
          : IntegerAttr();
  if (auto list = dyn_cast<ListType>(from)) {
    TypeRange parts = list.getElements().getTypes();
    bool isPart = index && index.getInt() >= 0 &&
                  static_cast<size_t>(index.getInt()) < parts.size();
    return isPart ? parts[index.getInt()] : type;
  }
  auto source = dyn_cast<RankedTensorType>(from);
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!source || !tensor ||
      !isa_and_nonnull<TensorInfoAttr>(tensor.getEncoding()))
    return type;
  return getViewType(node, tensor, source);
}

/// Renews the types of `views`, and of their views: what they are views of is
/// laid out otherwise now.
static void propagateLayout(RewriterBase &rewriter, SmallVector<NodeOp> views) {
  while (!views.empty()) {
    NodeOp node = views.pop_back_val();
    Type renewed;
    if (auto list = dyn_cast<ListType>(node.getType())) {
      auto parts =
          llvm::map_to_vector(list.getElements().getTypes(), [&](Type part) {
            return getRenewedType(node, part);
          });
      renewed = ListType::get(node.getContext(),
                              TupleType::get(node.getContext(), parts));
    } else {
      renewed = getRenewedType(node, node.getType());
    }
    if (renewed == node.getType())
      continue;
    rewriter.modifyOpInPlace(node, [&] { node.getResult().setType(renewed); });
    views.append(collectViews(node.getResult()));
  }
}

namespace {

/// The replacement at all places of one graph.
class Replacer {
public:
  Replacer(RewriterBase &rewriter, GraphOp graph, GraphOp replacement)
      : rewriter(rewriter), replacement(replacement), names(graph) {}

  void replace(const SubgraphMatch &match);
  /// Removes what was replaced, and returns the nodes that were made.
  SmallVector<Operation *> finish();

private:
  RewriterBase &rewriter;
  GraphOp replacement;
  NameTable names;
  /// What took the place of a value: a later place may take what an earlier
  /// one gave.
  IRMapping replaced;
  SmallVector<Operation *> made, dead;
};

} // namespace

void Replacer::replace(const SubgraphMatch &match) {
  Substitution substitution(match);
  rewriter.setInsertionPoint(match.insertionPoint);
  IRMapping mapping;
  for (auto [argument, input] :
       llvm::zip(replacement.getArguments(), match.inputs))
    mapping.map(argument, replaced.lookupOrDefault(input));
  Location original = match.nodes.front()->getLoc();
  for (Operation &op : replacement.getBlock().without_terminator()) {
    Operation *copy = rewriter.clone(op, mapping);
    made.push_back(copy);
    rewriter.modifyOpInPlace(copy, [&] {
      copy->setLoc(
          getReplacedLocation(names.getUnique(getWantedName(&op)), original));
      for (Value result : copy->getResults())
        result.setType(substitution.apply(result.getType()));
      if (auto node = dyn_cast<NodeOp>(copy))
        node.setArgsAttr(
            cast<ArrayAttr>(mapLeaves(node.getArgs(), [&](Attribute leaf) {
              return substitution.apply(leaf);
            })));
    });
  }
  for (auto [matched, value] :
       llvm::zip(match.outputs, replacement.getOutput().getOperands())) {
    Value output = matched;
    Value newValue = mapping.lookup(value);
    // Of a value that was there before, other views stay as they are.
    SmallVector<NodeOp> views;
    if (output.getType() != newValue.getType())
      views = collectViews(output);
    rewriter.replaceAllUsesWith(output, newValue);
    replaced.map(output, newValue);
    propagateLayout(rewriter, std::move(views));
  }
  llvm::append_range(dead, match.nodes);
}

SmallVector<Operation *> Replacer::finish() {
  // Another place's insertion point may be one of them, so they go last.
  llvm::sort(dead, [](Operation *first, Operation *second) {
    return second->isBeforeInBlock(first);
  });
  llvm::SmallPtrSet<Operation *, 16> isMade(made.begin(), made.end());
  for (Operation *node : dead) {
    // What is asserted of a value goes with it. One may name it twice.
    llvm::SmallSetVector<Operation *, 4> users(node->getUsers().begin(),
                                               node->getUsers().end());
    if (!llvm::all_of(users, [](Operation *user) {
          return onlyAsserts(user) && user->use_empty();
        }))
      continue;
    for (Operation *user : users)
      rewriter.eraseOp(user);
    // A handle to a result's node is to the node that took its place, where
    // that is a new one.
    Value newValue = replaced.lookupOrNull(node->getResult(0));
    if (newValue && isMade.contains(newValue.getDefiningOp()))
      rewriter.replaceOp(node, newValue);
    else
      rewriter.eraseOp(node);
  }
  return std::move(made);
}

Replaced opprof::fx::replaceSubgraphs(RewriterBase &rewriter, GraphOp graph,
                                      const SubgraphMatcher &matcher,
                                      GraphOp replacement) {
  OpBuilder::InsertionGuard guard(rewriter);
  Replaced result;
  Replacer replacer(rewriter, graph, replacement);
  for (const SubgraphMatch &match : matcher.matchAll(graph)) {
    replacer.replace(match);
    ++result.numPlaces;
  }
  if (result.numPlaces)
    result.nodes = replacer.finish();
  return result;
}
