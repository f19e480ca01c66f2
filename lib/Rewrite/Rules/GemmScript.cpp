// The arguments and calls that the graphs of a script about GEMMs are made of.

#include "GemmScript.h"

using namespace mlir;
using namespace opprof;
using namespace opprof::fx;
using namespace opprof::rewrite;

GemmScript::GemmScript(const GemmGroup &group)
    : ScriptBuilder(NodeOp(group.gemms[0].node).getContext()), group(group) {}

GraphOp GemmScript::beginGemms(StringRef name, TypeRange results) {
  SmallVector<std::string> names{"x"};
  SmallVector<Type> types{group.gemms[0].input.getType()};
  for (auto [i, gemm] : llvm::enumerate(group.gemms)) {
    names.push_back(("weight_" + Twine(i)).str());
    types.push_back(gemm.weight.getType());
    if (gemm.bias) {
      names.push_back(("bias_" + Twine(i)).str());
      types.push_back(gemm.bias.getType());
    }
  }
  GraphOp graph = beginGraph(name, names, types, results);
  weights.clear();
  biases.clear();
  input = graph.getArgument(0);
  unsigned next = 1;
  for (const Gemm &gemm : group.gemms) {
    weights.push_back(graph.getArgument(next++));
    if (gemm.bias)
      biases.push_back(graph.getArgument(next++));
  }
  return graph;
}

Value GemmScript::addGemm(const Twine &name, Value weight, Value bias,
                          Type type) {
  StringRef target = NodeOp(group.gemms[0].node).getTarget();
  SmallVector<Value> operands{input, weight};
  if (bias)
    // linear takes its bias last, addmm first.
    operands.insert(target == "aten.linear.default" ? operands.end()
                                                    : operands.begin(),
                    bias);
  return addNode(name, target, operands, type);
}
