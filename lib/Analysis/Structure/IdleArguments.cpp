// The table of arguments that a switch makes idle.

#include "opprof/Analysis/Structure/IdleArguments.h"

#include "NodeComparison.h"

#include "opprof/Dialect/FX/IR/Schema.h"

using namespace mlir;
using namespace opprof::fx;

namespace {
/// `argument` counts only where `condition` is true; never where that is empty.
struct IdleArgument {
  llvm::StringLiteral target, argument, condition;
};
} // namespace

static constexpr IdleArgument kIdleArguments[] = {
    {"aten.dropout.default", "p", "train"},
    {"aten.feature_dropout.default", "p", "train"},
    {"aten.alpha_dropout.default", "p", "train"},
    {"aten.feature_alpha_dropout.default", "p", "train"},
    {"aten.batch_norm.default", "momentum", "training"},
    // What decompositions make of them.
    {"aten.native_dropout.default", "p", "train"},
    {"aten.native_batch_norm.default", "momentum", "training"},
    {"aten._native_batch_norm_legit.default", "momentum", "training"},
    {"aten._native_batch_norm_legit_no_training.default", "momentum", ""},
};

std::optional<unsigned> opprof::fx::getIdleArgument(NodeOp node) {
  StringRef target = node.getTarget();
  for (const IdleArgument &known : kIdleArguments) {
    if (known.target != target)
      continue;
    if (!known.condition.empty()) {
      auto isOn = dyn_cast_or_null<BoolAttr>(node.getArgument(known.condition));
      if (!isOn || isOn.getValue())
        return std::nullopt;
    }
    const OperatorSchema *schema = lookupSchema(target);
    for (unsigned i = 0, e = node.getArgs().size(); i != e; ++i)
      if (getArgumentName(node, schema, i) == known.argument &&
          isa<FloatAttr, IntegerAttr>(node.getArgs()[i]))
        return i;
    return std::nullopt;
  }
  return std::nullopt;
}
