// Whether code was compiled from a graph.

#include "Belonging.h"

#include "opprof/Support/Units.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::driver;
using inductor::GraphNode;
using inductor::GraphView;

/// The shape of a tensor that goes into a graph; symbolic sizes are all one.
/// Empty for what is no tensor, and for scalars, which every program has.
static std::string shapeOfInput(const GraphNode &node) {
  if (node.op != GraphNode::Placeholder || node.results.size() != 1 ||
      !node.results.front().shapeKnown)
    return "";
  std::string shape;
  for (const inductor::Dim &dim : node.results.front().shape)
    shape += (dim.value ? utostr(uint64_t(*dim.value)) : "s") + ",";
  return shape;
}

Belonging driver::findBelonging(const GraphView &code,
                                const launch::LaunchMap &map,
                                const GraphView &graph) {
  Belonging found;
  // What PyTorch recorded is proof.
  if (StringRef(map.graph).contains("_backward_") ||
      (map.alignment && map.alignment->method == "recorded"))
    return found;
  StringMap<uint64_t> shapes;
  for (const GraphNode &node : graph.nodes)
    if (std::string shape = shapeOfInput(node); !shape.empty())
      ++shapes[shape];
  for (const GraphNode &node : code.nodes) {
    std::string shape = shapeOfInput(node);
    if (shape.empty())
      continue;
    ++found.inputs;
    uint64_t &left = shapes[shape];
    found.commonInputs += left > 0;
    left -= left > 0;
  }
  // An operator's name alone ties nodes of any two programs. A node that
  // several launches compute is tied where one of them says so.
  StringMap<bool> isTied;
  for (const launch::Launch &launch : map.launches)
    for (const launch::LaunchNode &node : launch.nodes)
      isTied[node.graph + "." + node.name] |=
          !node.from.empty() &&
          node.fromConfidence.value_or(Confidence::High) < Confidence::Low;
  found.nodes = isTied.size();
  for (const auto &node : isTied)
    found.tiedNodes += node.second;
  return found;
}

std::string Belonging::describe() const {
  return std::to_string(commonInputs) + " of " +
         formatCount(inputs, "input of the code has",
                     "inputs of the code have") +
         " the shape of one of the graph's, and " + std::to_string(tiedNodes) +
         " of " + formatCount(nodes, "node", "nodes") +
         " could be tied to the graph's";
}
