// Look-up in the generated table of operator schemas.

#include "opprof/Dialect/FX/IR/Schema.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/Twine.h"

using namespace opprof::fx;

#include "Schemas.inc"

bool OperatorSchema::isMutating() const {
  return llvm::any_of(arguments, [](const SchemaArgument &argument) {
    return argument.isWritten;
  });
}

bool OperatorSchema::isView() const {
  return llvm::any_of(returns, [](const SchemaArgument &argument) {
    return argument.aliasSet != 0;
  });
}

int OperatorSchema::getArgumentIndex(llvm::StringRef argumentName) const {
  for (auto [index, argument] : llvm::enumerate(arguments))
    if (argument.name == argumentName)
      return index;
  return -1;
}

const OperatorSchema *opprof::fx::lookupSchema(llvm::StringRef target) {
  const OperatorSchema *found = llvm::lower_bound(
      kSchemas, target, [](const OperatorSchema &schema, llvm::StringRef name) {
        return schema.name < name;
      });
  if (found == std::end(kSchemas) || found->name != target)
    return nullptr;
  return found;
}

/// Their schemas say that they may alias, but they are called to copy, and do
/// where there is anything to do.
static bool isCalledToCopy(llvm::StringRef name) {
  return llvm::is_contained(
      {"to", "contiguous", "cpu", "cuda", "pin_memory", "coalesce",
       "resolve_conj", "resolve_neg", "as_tensor", "_sparse_broadcast_to",
       "_autocast_to_full_precision", "_autocast_to_reduced_precision",
       "_grad_sum_to_size", "to_here", "local_value"},
      name);
}

/// Views that have no schema, or one that hides it from the compiler.
static bool isUndeclaredView(llvm::StringRef name) {
  return name == "_unsafe_view" || name == "inductor_view";
}

bool opprof::fx::returnsUndeclaredAlias(llvm::StringRef target) {
  static constexpr llvm::StringLiteral kNames[] = {"_unsafe_view",
                                                   "alpha_dropout",
                                                   "atleast_1d",
                                                   "atleast_2d",
                                                   "atleast_3d",
                                                   "broadcast_tensors",
                                                   "cartesian_prod",
                                                   "chain_matmul",
                                                   "channel_shuffle",
                                                   "conj_physical",
                                                   "data",
                                                   "dequantize",
                                                   "dropout",
                                                   "einsum",
                                                   "feature_alpha_dropout",
                                                   "feature_dropout",
                                                   "flatten_dense_tensors",
                                                   "inductor_view",
                                                   "lift",
                                                   "meshgrid",
                                                   "sum_to_size",
                                                   "to_dense",
                                                   "type_as",
                                                   "unsafe_chunk",
                                                   "unsafe_split",
                                                   "unsafe_split_with_sizes"};
  return llvm::binary_search(kNames, getOperatorName(target));
}

bool opprof::fx::renewsRunningStatistics(llvm::StringRef target) {
  return llvm::is_contained(
      {"batch_norm", "instance_norm", "native_batch_norm", "cudnn_batch_norm",
       "miopen_batch_norm", "_batch_norm_impl_index", "batch_norm_gather_stats",
       "batch_norm_gather_stats_with_counts"},
      getOperatorName(target));
}

bool opprof::fx::isKnownToWrite(llvm::StringRef target) {
  const OperatorSchema *schema = lookupSchema(target);
  return schema && schema->isMutating();
}

llvm::ArrayRef<OperatorSchema> opprof::fx::getOverloads(llvm::StringRef name) {
  std::string prefix = (llvm::Twine(name) + ".").str();
  llvm::ArrayRef<OperatorSchema> schemas(kSchemas);
  const OperatorSchema *first = llvm::lower_bound(
      schemas, prefix,
      [](const OperatorSchema &schema, llvm::StringRef prefix) {
        return schema.name < prefix;
      });
  return schemas.drop_front(first - schemas.begin())
      .take_while([&](const OperatorSchema &schema) {
        return schema.name.starts_with(prefix);
      });
}

bool opprof::fx::hasNamespace(llvm::StringRef target) {
  std::string prefix = (target.split('.').first + ".").str();
  const OperatorSchema *found = llvm::lower_bound(
      kSchemas, prefix, [](const OperatorSchema &schema, llvm::StringRef name) {
        return schema.name < name;
      });
  return target.contains('.') && found != std::end(kSchemas) &&
         found->name.starts_with(prefix);
}

llvm::StringRef opprof::fx::findSimilarOperator(llvm::StringRef target) {
  // One that is named without its overload is that, and no misspelling.
  for (const OperatorSchema &schema : getOverloads(target))
    return schema.name;
  constexpr unsigned kMostChanges = 4;
  llvm::StringRef nearest;
  unsigned distance = kMostChanges + 1;
  for (const OperatorSchema &schema : kSchemas) {
    unsigned changes = target.edit_distance(
        schema.name, /*AllowReplacements=*/true, kMostChanges);
    if (changes < distance) {
      distance = changes;
      nearest = schema.name;
    }
  }
  return nearest;
}

bool opprof::fx::hasOperator(llvm::StringRef name, bool ofTensor) {
  return llvm::any_of(getOverloads(name), [&](const OperatorSchema &schema) {
    return !ofTensor || (!schema.arguments.empty() &&
                         schema.arguments.front().type == "Tensor");
  });
}

llvm::StringRef opprof::fx::getOperatorName(llvm::StringRef target) {
  target.consume_front("torch.ops.");
  auto [space, name] = target.split('.');
  auto [bare, overload] = name.split('.');
  if (bare.size() < name.size() && space != "torch")
    return bare;
  return target.substr(target.rfind('.') + 1);
}

llvm::StringRef opprof::fx::getFunctionalName(llvm::StringRef operatorName) {
  if (operatorName.size() > 1 && operatorName.ends_with("_") &&
      !operatorName.ends_with("__"))
    return operatorName.drop_back();
  return operatorName;
}

/// The views among the operators of a name space, by name: asked of each node
/// for every launch near it, so that a search among all schemas is too slow.
static llvm::StringSet<> collectViews(llvm::StringRef space) {
  llvm::StringSet<> views;
  for (const OperatorSchema &schema : kSchemas)
    if (llvm::StringRef name = schema.name;
        name.consume_front(space) && schema.isView() && !schema.isMutating())
      views.insert(name.split('.').first);
  return views;
}

bool opprof::fx::isViewOperator(llvm::StringRef target) {
  static const llvm::StringSet<> ofATen = collectViews("aten."),
                                 ofPrims = collectViews("prims.");
  llvm::StringRef name = getOperatorName(target);
  if (isUndeclaredView(name))
    return true;
  target.consume_front("torch.ops.");
  bool isPrim = target.starts_with("prims.");
  return (isPrim ? ofPrims : ofATen).contains(name) && !isCalledToCopy(name);
}
