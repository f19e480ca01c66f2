// Which nodes the records of a launch mean: PyTorch's provenance, the fragment
// in the kernel's comment, the comment at the call, operators and dataflow.

#include "LaunchJoiner.h"

#include "llvm/ADT/StringSwitch.h"

#include <set>

using namespace llvm;
using namespace opprof;
using namespace opprof::inductor;
using namespace opprof::launch;

std::vector<uint32_t> Joiner::namesToNodes(ArrayRef<std::string> names,
                                           const IndexedGraph &graph) {
  std::vector<uint32_t> out;
  for (const std::string &name : names)
    if (std::optional<uint32_t> node = graph.graph->find(name))
      if ((*graph.graph).nodes[*node].op == GraphNode::Call)
        out.push_back(*node);
  llvm::sort(out);
  out.erase(llvm::unique(out), out.end());
  return out;
}

SmallVector<StringRef, 4> opprof::inductor::externFamilies(StringRef kernel) {
  StringRef name = kernel.starts_with("torch.ops.") ? opFamily(kernel)
                                                    : kernel.rsplit('.').second;
  SmallVector<StringRef, 4> families = {name};
  // An addmm whose bias Inductor adds elsewhere runs as mm, and back.
  if (name == "mm" || name == "bias_addmm")
    families.push_back("addmm");
  else if (name == "addmm")
    families.append({"_addmm_activation", "linear"});
  else if (name == "_mkl_linear")
    families.push_back("mkl_linear");
  else if (name == "randint")
    families.push_back("inductor_seeds");
  else if (name == "scatter_reduce_")
    families.append({"scatter_add", "scatter_reduce"});
  else if (name == "index_put_" || name == "scatter_")
    families.push_back(name.drop_back());
  return families;
}

/// A library call: the first node of its operator that nothing computed yet
/// and whose operands are the buffers that go in.
std::vector<uint32_t> Joiner::findExtern(const WrapperLaunch &launch,
                                         IndexedGraph &graph) {
  SmallVector<uint32_t> inputs;
  const LaunchOperand *output = nullptr;
  for (const LaunchOperand &operand : launch.operands) {
    if (operand.role & KernelParameter::Input)
      inputs.push_back(inputNode(operand, graph));
    if (operand.role & KernelParameter::Output)
      output = &operand;
  }
  SmallVector<uint32_t> candidates;
  for (StringRef family : externFamilies(launch.kernel))
    if (auto it = graph.byFamily.find(family); it != graph.byFamily.end())
      copy_if(it->second, std::back_inserter(candidates), [&](uint32_t node) {
        return !computedBy.contains({&graph, node});
      });
  llvm::sort(candidates);

  uint32_t best = kNoNode;
  size_t bestScore = 0;
  for (uint32_t candidate : candidates) {
    const GraphNode &node = graph[candidate];
    if (output && output->info.shapeKnown && node.results.size() == 1 &&
        node.results[0].shapeKnown && output->info.elements() &&
        node.results[0].elements() &&
        output->info.elements() != node.results[0].elements())
      continue;
    size_t score = 1;
    bool conflicts = false;
    for (uint32_t input : inputs) {
      if (input == kNoNode)
        continue;
      bool isOperand = any_of(node.operands, [&](uint32_t operand) {
        return graph.root[operand] == graph.root[input];
      });
      conflicts |= !isOperand;
      score += isOperand;
    }
    if (!conflicts && score > bestScore) {
      best = candidate;
      bestScore = score;
    }
  }
  return best == kNoNode ? std::vector<uint32_t>() : std::vector{best};
}

static bool sameConstants(const GraphNode &a, const GraphNode &b) {
  if (a.args.size() != b.args.size() || a.kwargs.size() != b.kwargs.size())
    return false;
  for (auto [x, y] : zip(a.args, b.args)) {
    if (!getNodeArgument(x) && !x.getAsArray() && x != y)
      return false;
  }
  return true;
}

/// A kernel launched again: the same operators, on the buffers that go in now.
std::vector<uint32_t> Joiner::repeatFirstUse(const WrapperLaunch &launch,
                                             IndexedGraph &graph) {
  auto it = firstUses.find(launch.definition);
  if (it == firstUses.end() || it->second.nodes.empty())
    return {};
  const FirstUse &first = it->second;
  DenseMap<uint32_t, uint32_t> mapped;
  for (auto [i, operand] : enumerate(launch.operands)) {
    if (i >= first.operandNodes.size())
      break;
    uint32_t now = inputNode(operand, graph);
    if (first.operandNodes[i] != kNoNode && now != kNoNode)
      mapped[graph.root[first.operandNodes[i]]] = graph.root[now];
  }
  std::vector<uint32_t> out;
  DenseSet<uint32_t> chosen;
  for (uint32_t node : first.nodes) {
    const GraphNode &model = graph[node];
    // A node that reads nothing (a constant) stands for itself.
    if (model.operands.empty()) {
      out.push_back(node);
      continue;
    }
    uint32_t anchor = kNoNode;
    for (uint32_t operand : model.operands)
      if (auto known = mapped.find(graph.root[operand]); known != mapped.end())
        if (anchor == kNoNode ||
            graph.users[known->second].size() < graph.users[anchor].size())
          anchor = known->second;
    if (anchor == kNoNode)
      return {};
    // Users through views.
    SmallVector<uint32_t> work(graph.users[anchor].begin(),
                               graph.users[anchor].end());
    uint32_t match = kNoNode;
    for (size_t at = 0; at < work.size() && at < 4096; ++at) {
      uint32_t user = work[at];
      if (graph.root[user] != user)
        work.append(graph.users[user].begin(), graph.users[user].end());
      const GraphNode &other = graph[user];
      if (other.target != model.target || chosen.contains(user) ||
          other.operands.size() != model.operands.size() ||
          !sameConstants(model, other))
        continue;
      bool agrees = true;
      for (auto [a, b] : zip(model.operands, other.operands))
        if (auto known = mapped.find(graph.root[a]); known != mapped.end())
          agrees &= known->second == graph.root[b];
      if (!agrees)
        continue;
      bool isNew = !computedBy.contains({&graph, user});
      if (match == kNoNode || (isNew && computedBy.contains({&graph, match})))
        match = user;
      if (isNew)
        break;
    }
    if (match == kNoNode)
      return {};
    chosen.insert(match);
    mapped[graph.root[node]] = graph.root[match];
    for (auto [a, b] : zip(model.operands, graph[match].operands))
      mapped.try_emplace(graph.root[a], graph.root[b]);
    out.push_back(match);
  }
  llvm::sort(out);
  return out;
}

/// A product with one row or one column: for a CPU, Inductor makes a sum of it.
static bool isVectorProduct(const GraphNode &node) {
  if (opFamily(node.target) != "bmm" || node.results.size() != 1 ||
      node.results[0].shape.size() != 3)
    return false;
  ArrayRef<Dim> shape = node.results[0].shape;
  return shape[1].value == int64_t(1) || shape[2].value == int64_t(1);
}

bool opprof::inductor::isLibraryWork(const GraphNode &node) {
  return getWorkKind(node.target) == WorkKind::Matrix && !isVectorProduct(node);
}

bool opprof::inductor::isFusible(const GraphNode &node) {
  if (node.op != GraphNode::Call ||
      StringRef(node.target).starts_with("higher_order."))
    return false;
  StringRef family = opFamily(node.target);
  // Another device's memory is copied to by a call.
  if (family == "copy_" || family == "device_put")
    return false;
  WorkKind kind = getWorkKind(node.target);
  return (kind != WorkKind::Matrix || isVectorProduct(node)) &&
         kind != WorkKind::Unknown;
}

/// What can be computed from the buffers that go in and leads to values of the
/// sizes that come out; of those, ones that nothing computed yet come first.
std::vector<uint32_t> Joiner::findCone(const WrapperLaunch &given,
                                       IndexedGraph &graph) {
  // What was computed before may be computed again where it leads to what
  // nothing computed yet, and without it a store would have no value.
  bool isFilled = true;
  std::vector<uint32_t> cone =
      findCone(given, graph, /*again=*/false, isFilled);
  return isFilled ? cone : findCone(given, graph, /*again=*/true, isFilled);
}

std::vector<uint32_t> Joiner::findCone(const WrapperLaunch &given,
                                       IndexedGraph &graph, bool again,
                                       bool &isFilled) {
  WrapperLaunch launch = given;
  launch.operands = withWholeOutputs(given);
  DenseSet<uint32_t> known;
  for (const LaunchOperand &operand : launch.operands)
    if (isRead(operand)) {
      uint32_t node = inputNode(operand, graph);
      if (node == kNoNode)
        return {};
      known.insert(graph.root[node]);
    }
  // Users of the inputs, and theirs, in the order of the graph.
  std::set<uint32_t> work;
  auto addUsers = [&](uint32_t node) {
    work.insert(graph.users[node].begin(), graph.users[node].end());
  };
  for (uint32_t node : known)
    addUsers(node);
  std::vector<uint32_t> cone;
  DenseSet<uint32_t> inside;
  while (!work.empty() && cone.size() < 100'000) {
    uint32_t at = *work.begin();
    work.erase(work.begin());
    const GraphNode &node = graph[at];
    if (graph.root[at] != at) {
      addUsers(at);
      continue;
    }
    if (inside.contains(at) || known.contains(at) || !isFusible(node) ||
        (!again && computedBy.contains({&graph, at})))
      continue;
    bool can = all_of(node.operands, [&](uint32_t operand) {
      uint32_t root = graph.root[operand];
      return known.contains(root) || inside.contains(root) ||
             graph[root].operands.empty() || !graph[root].symbol.empty();
    });
    // An input without operands is a placeholder that did not go in.
    can &= none_of(node.operands, [&](uint32_t operand) {
      uint32_t root = graph.root[operand];
      return graph[root].op == GraphNode::Placeholder &&
             graph[root].symbol.empty() && !known.contains(root);
    });
    if (!can)
      continue;
    inside.insert(at);
    cone.push_back(at);
    addUsers(at);
  }

  DenseSet<uint32_t> chosen;
  DenseMap<uint32_t, size_t> filled;
  DenseSet<int32_t> seen;
  std::vector<uint32_t> leaving = findLeaving(cone, graph);
  for (const LaunchOperand &operand : launch.operands) {
    if (!(operand.role & KernelParameter::Output))
      continue;
    // The same buffer again is the same value.
    if (operand.storage >= 0 && !seen.insert(operand.storage).second)
      continue;
    bool isChosen = false;
    for (uint32_t at : leaving) {
      size_t room = std::max<size_t>(1, graph[at].results.size());
      if (filled[at] >= room || !fits(operand, graph[at]) ||
          computedBy.contains({&graph, at}))
        continue;
      ++filled[at];
      chosen.insert(at);
      isChosen = true;
      break;
    }
    isFilled &= isChosen;
  }
  // Everything that the chosen values are computed from.
  DenseSet<uint32_t> needed = chosen;
  std::vector<uint32_t> out;
  for (uint32_t at : reverse(cone)) {
    if (!needed.contains(at))
      continue;
    out.push_back(at);
    for (uint32_t operand : graph[at].operands)
      needed.insert(graph.root[operand]);
  }
  llvm::sort(out);
  return out;
}

/// What the mapping file says of this launch.
std::vector<uint32_t> Joiner::findProvenance(const WrapperLaunch &launch,
                                             uint32_t index,
                                             const IndexedGraph &graph) {
  if (!sources.provenance)
    return {};
  const Provenance::Table &table = sources.provenance->kernelToPost;
  auto it = table.end();
  if (handles[index])
    it = table.find(launch.kernel + ":" + std::to_string(*handles[index]));
  if (it == table.end() && launch.firstUse)
    it = table.find(launch.kernel); // PyTorch 2.7: no handles.
  if (it == table.end())
    return {};
  return namesToNodes(it->second, graph);
}

/// What the comment at the call can mean in this graph.
DenseSet<uint32_t> Joiner::findSourceNodes(const WrapperLaunch &launch,
                                           const IndexedGraph &graph) {
  const KernelDefinition *kernel =
      launch.definition >= 0 ? &program.kernels[launch.definition] : nullptr;
  DenseSet<uint32_t> named;
  auto addNames = [&](ArrayRef<std::string> names) {
    for (const std::string &name : names)
      if (std::optional<uint32_t> node = graph.graph->find(name))
        if (graph[*node].op == GraphNode::Call)
          named.insert(*node);
  };
  StringMap<ArrayRef<std::string>> sourceToAten;
  if (kernel && launch.firstUse)
    for (const auto &[from, to] : kernel->sourceToAten)
      sourceToAten.try_emplace(from, to);
  for (const std::string &source : launch.sourceNodes) {
    if (sources.provenance)
      if (auto it = sources.provenance->preToPost.find(source);
          it != sources.provenance->preToPost.end())
        addNames(it->second);
    if (auto it = sourceToAten.find(source); it != sourceToAten.end())
      addNames(it->second);
  }
  return named;
}

/// A copy: the first node that copies what goes in and that nothing computed
/// yet.
std::vector<uint32_t> Joiner::findCopy(const WrapperLaunch &launch,
                                       const IndexedGraph &graph) {
  if (launch.operands.empty())
    return {};
  uint32_t input = inputNode(launch.operands[0], graph);
  if (input == kNoNode)
    return {};
  for (StringRef family :
       {"device_put", "_to_copy", "convert_element_type", "copy_", "clone"}) {
    auto it = graph.byFamily.find(family);
    if (it == graph.byFamily.end())
      continue;
    for (uint32_t node : it->second)
      if (!computedBy.contains({&graph, node}) &&
          any_of(graph[node].operands, [&](uint32_t operand) {
            return graph.root[operand] == graph.root[input];
          }))
        return {node};
  }
  return {};
}

/// Records that were made for another launch (kernels combined in one step
/// share theirs) name only what was computed before.
bool Joiner::isStale(ArrayRef<uint32_t> nodes,
                     const IndexedGraph &graph) const {
  return !nodes.empty() && none_of(nodes, [&](uint32_t node) {
    return !graph.isView(node) && !computedBy.contains({&graph, node});
  });
}

std::vector<FoundNode> Joiner::findNodes(const WrapperLaunch &launch,
                                         uint32_t index, IndexedGraph &graph) {
  std::vector<uint32_t> nodes = findProvenance(launch, index, graph);
  std::vector<std::string> evidence;
  if (!nodes.empty())
    evidence.push_back("provenance");
  const KernelDefinition *kernel =
      launch.definition >= 0 ? &program.kernels[launch.definition] : nullptr;
  SmallSet<uint32_t, 16> fragment;
  if (kernel && launch.firstUse) {
    std::vector<std::string> names;
    for (const FragmentNode &node : kernel->fragment)
      if (!node.isPlaceholder)
        names.push_back(node.name);
    std::vector<uint32_t> found = namesToNodes(names, graph);
    fragment.insert(found.begin(), found.end());
    if (nodes.empty()) {
      nodes = found;
    }
  }

  DenseSet<uint32_t> named = findSourceNodes(launch, graph);
  bool byFlow = false, byTarget = false;
  if (nodes.empty() && kernel) {
    nodes = repeatFirstUse(launch, graph);
    byFlow = !nodes.empty();
  }
  bool stale = kernel && !byFlow && isStale(nodes, graph);
  if (kernel && kernel->rolesCertain && (nodes.empty() || stale)) {
    std::vector<uint32_t> cone = findCone(launch, graph);
    if (!cone.empty()) {
      nodes = std::move(cone);
      evidence.clear();
      byFlow = true;
    }
  }
  if (nodes.empty() && (launch.kind == LaunchKind::Extern ||
                        launch.kind == LaunchKind::Fallback ||
                        launch.kind == LaunchKind::Collective)) {
    nodes = findExtern(launch, graph);
    byTarget = !nodes.empty();
  }
  if (nodes.empty() && launch.kind == LaunchKind::Copy) {
    nodes = findCopy(launch, graph);
    if (!nodes.empty())
      byTarget = byFlow = true;
  }
  // The comment alone: everything it names that does arithmetic and that no
  // other launch computed.
  if (nodes.empty() && kernel)
    for (uint32_t node : named)
      if (!graph.isView(node))
        nodes.push_back(node);
  llvm::sort(nodes);

  std::vector<FoundNode> out;
  for (uint32_t node : nodes) {
    FoundNode found{node, evidence};
    if (fragment.contains(node))
      found.evidence.push_back("fragment");
    if (named.contains(node))
      found.evidence.push_back("source_nodes");
    if (byTarget)
      found.evidence.push_back("target");
    if (byFlow)
      found.evidence.push_back("dataflow");
    out.push_back(std::move(found));
  }
  return out;
}
