// The names that the values of a graph have outside MLIR.

#include "opprof/Dialect/FX/IR/Names.h"
#include "opprof/Dialect/FX/IR/FX.h"
#include "opprof/Dialect/FX/IR/Provenance.h"

using namespace mlir;
using namespace opprof::fx;

/// "add" for aten.add.Tensor and operator.add.
static StringRef getBaseName(NodeOp node) {
  StringRef target = node.getTarget();
  if (node.getKind() != NodeKind::call_function)
    return target;
  auto [prefix, last] = target.rsplit('.');
  if (last.empty())
    return target;
  // An overload's name says less than the operator's.
  if (prefix.contains('.') && !prefix.starts_with("torch"))
    return prefix.rsplit('.').second;
  return last;
}

StringRef GraphNames::claim(StringRef wanted,
                            const llvm::StringSet<> *reserved) {
  auto isFree = [&](StringRef name) {
    return !taken.contains(name) && !(reserved && reserved->contains(name));
  };
  if (isFree(wanted))
    return taken.insert(wanted).first->getKey();
  unsigned &number = nextNumber[wanted];
  while (true) {
    std::string candidate = (wanted + "_" + llvm::Twine(++number)).str();
    if (isFree(candidate))
      return taken.insert(candidate).first->getKey();
  }
}

GraphNames::GraphNames(
    GraphOp graph, llvm::function_ref<std::string(llvm::StringRef)> legalize,
    const llvm::StringSet<> *reserved) {
  auto give = [&](Value value, StringRef name) {
    names[value] =
        legalize ? claim(legalize(name), reserved) : claim(name, reserved);
  };
  // Names that are recorded go before names that are made up.
  SmallVector<std::pair<Value, std::string>> unnamed;
  for (BlockArgument argument : graph.getBlock().getArguments()) {
    StringRef name = graph.getInputName(argument.getArgNumber());
    if (name.empty())
      unnamed.emplace_back(argument,
                           "arg" + std::to_string(argument.getArgNumber()));
    else
      give(argument, name);
  }
  auto visitBlock = [&](auto &visit, Block &block) -> void {
    for (Operation &op : block) {
      StringRef name = getNodeName(&op);
      for (OpResult result : op.getResults()) {
        if (!name.empty() && op.getNumResults() == 1)
          give(result, name);
        else if (auto node = dyn_cast<NodeOp>(op))
          unnamed.emplace_back(result, getBaseName(node).str());
        else if (auto call = dyn_cast<CallOp>(op))
          unnamed.emplace_back(result, call.getCallee().str());
        else
          unnamed.emplace_back(result, "value");
      }
      for (Region &region : op.getRegions()) {
        for (BlockArgument argument : region.getArguments()) {
          StringRef argumentName = getNodeName(argument.getLoc());
          auto node = dyn_cast<NodeOp>(op);
          Value passed = node ? node.getPassedValue(argument) : Value();
          // Inside a block, what comes from outside may have its name there.
          if (passed && argumentName == getNodeName(passed.getLoc()))
            names[argument] = names.lookup(passed);
          else if (argumentName.empty())
            unnamed.emplace_back(argument, "arg");
          else
            give(argument, argumentName);
        }
        visit(visit, region.front());
      }
    }
  };
  visitBlock(visitBlock, graph.getBlock());
  for (const auto &[value, name] : unnamed)
    give(value, name);
}
