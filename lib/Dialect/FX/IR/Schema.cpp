// Look-up in the generated table of operator schemas.

#include "opprof/Dialect/FX/IR/Schema.h"

#include "llvm/ADT/STLExtras.h"

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

llvm::StringRef opprof::fx::getSchemaTorchVersion() { return kTorchVersion; }
