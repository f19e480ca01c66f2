// Look-up in the generated table of operator schemas.

#include "opprof/Dialect/FX/IR/Schema.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
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

/// The schemas of all overloads of "aten.transpose".
static llvm::ArrayRef<OperatorSchema> getOverloads(llvm::StringRef name) {
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

bool opprof::fx::hasOperator(llvm::StringRef name, bool ofTensor) {
  return llvm::any_of(getOverloads(name), [&](const OperatorSchema &schema) {
    return !ofTensor || (!schema.arguments.empty() &&
                         schema.arguments.front().type == "Tensor");
  });
}

llvm::StringRef opprof::fx::getOperatorName(llvm::StringRef target) {
  target.consume_front("torch.ops.");
  llvm::SmallVector<llvm::StringRef, 4> parts;
  target.split(parts, '.');
  if (parts.size() >= 3 && parts[0] != "torch")
    return parts[1];
  return parts.back();
}

bool opprof::fx::isViewOperator(llvm::StringRef target) {
  llvm::StringRef name = getOperatorName(target);
  if (isUndeclaredView(name))
    return true;
  if (isCalledToCopy(name))
    return false;
  target.consume_front("torch.ops.");
  llvm::StringRef space = target.starts_with("prims.") ? "prims." : "aten.";
  return llvm::any_of(getOverloads((llvm::Twine(space) + name).str()),
                      [](const OperatorSchema &schema) {
                        return schema.isView() && !schema.isMutating();
                      });
}
