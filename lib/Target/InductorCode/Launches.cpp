//===- Launches.cpp - From a wrapper to its launch map --------------------===//
//
// Walks the launches in call order and keeps, for every buffer, the node whose
// value it holds. A launch's nodes come from the best record there is; the
// buffers that go in and out confirm or complete it.
//
//===----------------------------------------------------------------------===//

#include "opprof/Target/InductorCode/Launches.h"
#include "opprof/Analysis/Cost/CostModel.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Path.h"

#include <set>

using namespace llvm;
using namespace opprof;
using namespace opprof::inductor;
using namespace opprof::launch;

namespace {
constexpr uint32_t noNode = ~0u;

/// A graph with what the join asks of it again and again.
struct IndexedGraph {
  const GraphView *graph;
  std::vector<std::vector<uint32_t>> users;
  /// The node whose value a chain of views and getitems shows.
  std::vector<uint32_t> root;
  std::vector<bool> isOutput;
  StringMap<std::vector<uint32_t>> byFamily;

  explicit IndexedGraph(const GraphView &view) : graph(&view) {
    users = view.users();
    root.resize(view.nodes.size());
    isOutput.resize(view.nodes.size());
    for (uint32_t i = 0; i < view.nodes.size(); ++i) {
      const GraphNode &node = view.nodes[i];
      root[i] = i;
      if (node.op == GraphNode::Call) {
        bool passes =
            isViewTarget(node.target) || node.target == "operator.getitem";
        if (passes && !node.operands.empty())
          root[i] = root[node.operands.front()];
        byFamily[opFamily(node.target)].push_back(i);
      }
    }
    for (uint32_t output : view.outputs)
      isOutput[root[output]] = true;
  }

  const GraphNode &operator[](uint32_t i) const { return graph->nodes[i]; }
  bool isView(uint32_t i) const {
    return root[i] != i || (graph->nodes[i].op == GraphNode::Call &&
                            (isViewTarget(graph->nodes[i].target)));
  }
};

class Joiner {
public:
  explicit Joiner(const LaunchSources &sources)
      : sources(sources), program(sources.program) {}

  LaunchMap run();

private:
  struct Found {
    uint32_t node;
    std::vector<std::string> evidence;
  };

  IndexedGraph &graphOf(const WrapperLaunch &launch);
  std::vector<Found> findNodes(const WrapperLaunch &launch, uint32_t index,
                               IndexedGraph &graph);
  std::vector<LaunchOperand>
  withWholeOutputs(const WrapperLaunch &launch) const;
  std::vector<uint32_t> findCone(const WrapperLaunch &given,
                                 IndexedGraph &graph);
  std::vector<uint32_t> namesToNodes(ArrayRef<std::string> names,
                                     const IndexedGraph &graph);
  std::vector<uint32_t> findExtern(const WrapperLaunch &launch,
                                   IndexedGraph &graph);
  std::vector<uint32_t> repeatFirstUse(const WrapperLaunch &launch,
                                       IndexedGraph &graph);
  void fillLaunch(const WrapperLaunch &from, uint32_t index, Launch &to);
  std::vector<uint32_t> matchOutputs(const WrapperLaunch &given, uint32_t index,
                                     ArrayRef<uint32_t> nodes,
                                     const IndexedGraph &graph);
  void setBuffers(const WrapperLaunch &launch, ArrayRef<uint32_t> nodes,
                  ArrayRef<uint32_t> outputs, IndexedGraph &graph, Launch &to);
  void addCosts(const WrapperLaunch &launch, const IndexedGraph &graph,
                ArrayRef<uint32_t> nodes, ArrayRef<uint32_t> inputNodes,
                Launch &to);
  void addNotLaunched(LaunchMap &map);
  StringRef reasonFor(uint32_t node, const IndexedGraph &graph);
  void assignMissingHandles();
  uint32_t inputNode(const LaunchOperand &operand,
                     const IndexedGraph &graph) const;
  /// What the launch takes from this buffer: scratch memory that it only
  /// passes to be written counts as nothing.
  bool isRead(const LaunchOperand &operand) const;
  TensorInfo infoOf(const LaunchOperand &operand) const;
  /// Whether what launch `index` writes there is used afterwards.
  bool isLive(const LaunchOperand &operand, uint32_t index) const {
    return operand.storage < 0 || lastUse[operand.storage] > index;
  }

  const LaunchSources &sources;
  const WrapperProgram &program;
  GraphView fragments;
  StringMap<std::unique_ptr<IndexedGraph>> graphs;
  /// The node whose value a storage holds, by storage; and the graph of it.
  std::vector<uint32_t> holds;
  std::vector<const IndexedGraph *> holdsIn;
  /// The last launch that takes a storage; beyond all where it is returned, or
  /// the caller's.
  std::vector<uint32_t> lastUse;
  /// What the nodes say of a storage where the wrapper does not.
  std::vector<TensorInfo> storageInfo;
  /// Launches that computed a node: (graph, node) -> first launch.
  DenseMap<std::pair<const IndexedGraph *, uint32_t>, uint32_t> computedBy;
  /// The storages that a launch wrote.
  DenseMap<int32_t, uint32_t> writtenBy;
  /// Nodes whose value a storage holds in part: the first stage of a reduction.
  DenseMap<int32_t, std::vector<uint32_t>> partial;
  /// First use of a definition: its nodes and the node each parameter held.
  struct FirstUse {
    std::vector<uint32_t> nodes;
    std::vector<uint32_t> operandNodes;
  };
  DenseMap<int32_t, FirstUse> firstUses;
  std::vector<std::optional<int64_t>> handles;
  /// Operands of the launch at hand that are passed to be written only.
  DenseSet<const LaunchOperand *> scratch;
};
} // namespace

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

GraphView opprof::inductor::graphFromFragments(const WrapperProgram &program) {
  GraphView graph;
  graph.stage = "post_grad";
  graph.name = "fragments";
  StringMap<uint32_t> index;
  // Placeholders of one kernel are results of another: nodes with a target
  // win, so they are added first, and operands are resolved at the end.
  std::vector<std::pair<uint32_t, const FragmentNode *>> calls;
  for (bool placeholders : {false, true})
    for (const KernelDefinition &kernel : program.kernels)
      for (const FragmentNode &node : kernel.fragment) {
        if (node.isPlaceholder != placeholders)
          continue;
        auto [it, inserted] = index.try_emplace(node.name, graph.nodes.size());
        if (!inserted)
          continue;
        GraphNode &out = graph.nodes.emplace_back();
        out.name = node.name;
        out.target = placeholders ? node.name : node.target;
        out.op = placeholders ? GraphNode::Placeholder : GraphNode::Call;
        if (node.type)
          out.results.push_back(*node.type);
        out.line = kernel.line;
        if (!placeholders)
          calls.push_back({it->second, &node});
      }
  for (auto [at, node] : calls)
    for (const std::string &operand : node->operands)
      if (auto it = index.find(operand); it != index.end())
        graph.nodes[at].operands.push_back(it->second);
  graph.reindex();
  return graph;
}

IndexedGraph &Joiner::graphOf(const WrapperLaunch &launch) {
  const GraphView *view = sources.postGrad;
  StringRef name;
  if (view)
    if (const GraphView *child = view->subgraph(launch.function)) {
      view = child;
      name = launch.function;
    }
  if (!view)
    view = &fragments;
  std::unique_ptr<IndexedGraph> &slot = graphs[name];
  if (!slot)
    slot = std::make_unique<IndexedGraph>(*view);
  return *slot;
}

//===----------------------------------------------------------------------===//
// Finding a launch's nodes
//===----------------------------------------------------------------------===//

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

/// Comments have no handle for some kernels (templates, combined kernels); the
/// mapping then has as many keys of the kernel's name as it has launches.
void Joiner::assignMissingHandles() {
  handles.resize(program.launches.size());
  StringMap<SmallVector<uint32_t>> missing;
  // Handles are any numbers; two of them a DenseSet keeps for itself.
  StringMap<std::set<int64_t>> taken;
  for (auto [i, launch] : enumerate(program.launches)) {
    handles[i] = launch.debugHandle;
    if (launch.debugHandle)
      taken[launch.kernel].insert(*launch.debugHandle);
    else
      missing[launch.kernel].push_back(i);
  }
  if (!sources.provenance || missing.empty())
    return;
  StringMap<SmallVector<int64_t>> recorded;
  for (const auto &entry : sources.provenance->kernelToPost) {
    auto [kernel, handle] = entry.first().rsplit(':');
    int64_t number;
    if (!handle.getAsInteger(10, number) && missing.contains(kernel) &&
        !taken[kernel].contains(number))
      recorded[kernel].push_back(number);
  }
  for (auto &[kernel, launches] : missing) {
    SmallVector<int64_t> &numbers = recorded[kernel];
    if (numbers.size() != launches.size())
      continue;
    llvm::sort(numbers);
    for (auto [launch, number] : zip(launches, numbers))
      handles[launch] = number;
  }
}

bool Joiner::isRead(const LaunchOperand &operand) const {
  if (!(operand.role & KernelParameter::Input))
    return false;
  return !(operand.role & KernelParameter::Output) || operand.storage < 0 ||
         program.storages[operand.storage].isInput ||
         writtenBy.contains(operand.storage);
}

/// The operand's layout, completed by the node that its buffer holds.
TensorInfo Joiner::infoOf(const LaunchOperand &operand) const {
  TensorInfo info = operand.info;
  if (operand.storage < 0)
    return info;
  const TensorInfo &recorded = storageInfo[operand.storage];
  if (info.dtype.empty())
    info.dtype = recorded.dtype;
  if (!info.shapeKnown && recorded.shapeKnown) {
    info.shape = recorded.shape;
    info.stride = recorded.stride;
    info.shapeKnown = true;
  }
  return info;
}

uint32_t Joiner::inputNode(const LaunchOperand &operand,
                           const IndexedGraph &graph) const {
  if (operand.storage < 0)
    return noNode;
  if (holdsIn[operand.storage] == &graph)
    return holds[operand.storage];
  return noNode;
}

static bool isExternFamily(StringRef kernel, StringRef family) {
  StringRef name = kernel.rsplit('.').second;
  if (kernel.starts_with("torch.ops."))
    name = opFamily(kernel);
  if (name == family)
    return true;
  // An addmm whose bias Inductor adds elsewhere runs as mm, and back.
  return StringSwitch<bool>(name)
      .Case("mm", family == "addmm")
      .Case("addmm", family == "_addmm_activation" || family == "linear")
      .Case("bias_addmm", family == "addmm")
      .Case("_mkl_linear", family == "mkl_linear")
      .Default(false);
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
  StringRef name = launch.kernel;
  StringRef family =
      name.starts_with("torch.ops.") ? opFamily(name) : name.rsplit('.').second;
  SmallVector<uint32_t> candidates;
  for (StringRef key : {family, StringRef("addmm"), StringRef("linear"),
                        StringRef("_addmm_activation")}) {
    if (!isExternFamily(launch.kernel, key))
      continue;
    auto it = graph.byFamily.find(key);
    if (it == graph.byFamily.end())
      continue;
    for (uint32_t node : it->second)
      if (!computedBy.contains({&graph, node}))
        candidates.push_back(node);
  }
  llvm::sort(candidates);

  uint32_t best = noNode;
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
      if (input == noNode)
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
  return best == noNode ? std::vector<uint32_t>() : std::vector{best};
}

static bool sameConstants(const GraphNode &a, const GraphNode &b) {
  if (a.args.size() != b.args.size() || a.kwargs.size() != b.kwargs.size())
    return false;
  for (auto [x, y] : zip(a.args, b.args)) {
    bool isNode = x.getAsObject() && x.getAsObject()->get("node");
    if (!isNode && !x.getAsArray() && x != y)
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
    if (first.operandNodes[i] != noNode && now != noNode)
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
    uint32_t anchor = noNode;
    for (uint32_t operand : model.operands)
      if (auto known = mapped.find(graph.root[operand]); known != mapped.end())
        if (anchor == noNode ||
            graph.users[known->second].size() < graph.users[anchor].size())
          anchor = known->second;
    if (anchor == noNode)
      return {};
    // Users through views.
    SmallVector<uint32_t> work(graph.users[anchor].begin(),
                               graph.users[anchor].end());
    uint32_t match = noNode;
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
      if (match == noNode || (isNew && computedBy.contains({&graph, match})))
        match = user;
      if (isNew)
        break;
    }
    if (match == noNode)
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

/// Products, convolutions and attention: library calls or templates.
static bool isLibraryWork(const GraphNode &node) {
  return getWorkKind(node.target) == WorkKind::Matrix;
}

/// Work that Inductor fuses into kernels of its own.
static bool isFusible(const GraphNode &node) {
  if (node.op != GraphNode::Call ||
      StringRef(node.target).starts_with("higher_order."))
    return false;
  StringRef family = opFamily(node.target);
  if (family == "copy_")
    return false;
  WorkKind kind = getWorkKind(node.target);
  return kind != WorkKind::Matrix && kind != WorkKind::Unknown;
}

/// Nodes whose value is used outside of `nodes`, through views.
static std::vector<uint32_t> findLeaving(ArrayRef<uint32_t> nodes,
                                         const IndexedGraph &graph) {
  DenseSet<uint32_t> inside(nodes.begin(), nodes.end());
  std::vector<uint32_t> leaving;
  for (uint32_t node : nodes) {
    if (graph.root[node] != node)
      continue;
    // What is written in place stays.
    bool leaves =
        graph.isOutput[node] || opFamily(graph[node].target).ends_with("_");
    SmallVector<uint32_t> work(graph.users[node].begin(),
                               graph.users[node].end());
    for (size_t at = 0; at < work.size() && !leaves; ++at) {
      uint32_t user = work[at];
      if (graph.root[user] != user)
        work.append(graph.users[user].begin(), graph.users[user].end());
      else
        leaves = !inside.contains(user);
    }
    if (leaves)
      leaving.push_back(node);
  }
  return leaving;
}

static bool fits(const LaunchOperand &operand, const GraphNode &node) {
  if (node.results.empty() || !operand.info.shapeKnown)
    return true;
  return any_of(node.results, [&](const TensorInfo &info) {
    bool sameSize = !info.elements() || !operand.info.elements() ||
                    info.elements() == operand.info.elements();
    return sameSize && (operand.info.dtype.empty() || info.dtype.empty() ||
                        operand.info.dtype == info.dtype);
  });
}

/// The operands; where several write parts of one buffer (a concatenation done
/// in place), each has the layout of the whole.
std::vector<LaunchOperand>
Joiner::withWholeOutputs(const WrapperLaunch &launch) const {
  std::vector<LaunchOperand> operands = launch.operands;
  DenseMap<int32_t, StringSet<>> parts;
  for (const LaunchOperand &operand : operands)
    if (operand.role == KernelParameter::Output && operand.storage >= 0)
      parts[operand.storage].insert(operand.name);
  for (LaunchOperand &operand : operands)
    if (operand.role == KernelParameter::Output && operand.storage >= 0 &&
        parts[operand.storage].size() > 1)
      operand.info = program.storages[operand.storage].info;
  return operands;
}

/// What can be computed from the buffers that go in, that nothing computed
/// yet, and that leads to values of the sizes that come out.
std::vector<uint32_t> Joiner::findCone(const WrapperLaunch &given,
                                       IndexedGraph &graph) {
  WrapperLaunch launch = given;
  launch.operands = withWholeOutputs(given);
  DenseSet<uint32_t> known;
  for (const LaunchOperand &operand : launch.operands)
    if (isRead(operand)) {
      uint32_t node = inputNode(operand, graph);
      if (node == noNode)
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
    if (inside.contains(at) || computedBy.contains({&graph, at}) ||
        !isFusible(node))
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
    for (uint32_t at : leaving) {
      size_t room = std::max<size_t>(1, graph[at].results.size());
      if (filled[at] >= room || !fits(operand, graph[at]))
        continue;
      ++filled[at];
      chosen.insert(at);
      break;
    }
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

std::vector<Joiner::Found> Joiner::findNodes(const WrapperLaunch &launch,
                                             uint32_t index,
                                             IndexedGraph &graph) {
  std::vector<uint32_t> nodes;
  std::vector<std::string> evidence;
  if (sources.provenance) {
    const Provenance::Table &table = sources.provenance->kernelToPost;
    auto it = table.end();
    if (handles[index])
      it = table.find(launch.kernel + ":" + std::to_string(*handles[index]));
    if (it == table.end() && launch.firstUse)
      it = table.find(launch.kernel); // PyTorch 2.7: no handles.
    if (it != table.end()) {
      nodes = namesToNodes(it->second, graph);
      if (!nodes.empty())
        evidence.push_back("provenance");
    }
  }

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

  // What the comment at the call can mean in this graph.
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

  bool byFlow = false, byTarget = false;
  if (nodes.empty() && kernel) {
    nodes = repeatFirstUse(launch, graph);
    byFlow = !nodes.empty();
  }
  // Records that were made for another launch (kernels combined in one step
  // share theirs) name only what was computed before.
  bool isStale =
      kernel && !nodes.empty() && !byFlow && none_of(nodes, [&](uint32_t node) {
        return !graph.isView(node) && !computedBy.contains({&graph, node});
      });
  if (kernel && kernel->rolesCertain && (nodes.empty() || isStale)) {
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
  if (nodes.empty() && launch.kind == LaunchKind::Copy)
    for (StringRef family : {"device_put", "_to_copy", "copy_", "clone"}) {
      auto it = graph.byFamily.find(family);
      if (!nodes.empty() || it == graph.byFamily.end())
        continue;
      for (uint32_t node : it->second)
        if (!computedBy.contains({&graph, node})) {
          uint32_t input = launch.operands.empty()
                               ? noNode
                               : inputNode(launch.operands[0], graph);
          bool reads = any_of(graph[node].operands, [&](uint32_t operand) {
            return input != noNode && graph.root[operand] == graph.root[input];
          });
          if (reads) {
            nodes = {node};
            byTarget = byFlow = true;
            break;
          }
        }
    }
  // The comment alone: everything it names that does arithmetic and that no
  // other launch computed.
  if (nodes.empty() && kernel)
    for (uint32_t node : named)
      if (!graph.isView(node))
        nodes.push_back(node);
  llvm::sort(nodes);

  std::vector<Found> out;
  for (uint32_t node : nodes) {
    Found found{node, evidence};
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

//===----------------------------------------------------------------------===//
// Buffers, costs
//===----------------------------------------------------------------------===//

/// Which node each written operand of the launch holds afterwards; noNode
/// where that is not known.
std::vector<uint32_t> Joiner::matchOutputs(const WrapperLaunch &given,
                                           uint32_t index,
                                           ArrayRef<uint32_t> nodes,
                                           const IndexedGraph &graph) {
  WrapperLaunch launch = given;
  launch.operands = withWholeOutputs(given);
  std::vector<uint32_t> out(launch.operands.size(), noNode);
  std::vector<uint32_t> leaving = findLeaving(nodes, graph);
  // A library call has one node; all it writes are members of that.
  if (launch.definition < 0) {
    uint32_t node = noNode;
    if (leaving.size() == 1)
      node = leaving.front();
    else if (nodes.size() == 1)
      node =
          graph.root[nodes.front()] == nodes.front() ? nodes.front() : noNode;
    for (auto [i, operand] : enumerate(launch.operands))
      if (operand.role & KernelParameter::Output)
        out[i] = node;
    return out;
  }
  // The definition's comment says what its first launch stores.
  const KernelDefinition &kernel = program.kernels[launch.definition];
  SmallVector<uint32_t> stored;
  if (launch.firstUse)
    for (const std::string &name : kernel.fragmentReturns)
      if (std::optional<uint32_t> node = graph.graph->find(name))
        stored.push_back(graph.root[*node]);
  // A buffer passed twice is one; one that nobody uses later is scratch.
  SmallVector<size_t> written;
  DenseMap<int32_t, size_t> firstOf;
  for (auto [i, operand] : enumerate(launch.operands))
    if (operand.role & KernelParameter::Output && isLive(operand, index) &&
        firstOf.try_emplace(operand.storage, i).second)
      written.push_back(i);

  SmallVector<uint32_t> candidates;
  for (uint32_t node : leaving)
    if (stored.empty() || is_contained(stored, node))
      candidates.push_back(node);
  if (candidates.empty())
    candidates.assign(leaving.begin(), leaving.end());
  // More values are used elsewhere than are stored: the others are computed
  // again there. What nobody computed before is stored rather than what was,
  // and results rather than what leads to them.
  auto fitting = [&](uint32_t node) {
    return any_of(written, [&](size_t i) {
      return fits(launch.operands[i], graph[node]);
    });
  };
  llvm::erase_if(candidates, [&](uint32_t node) { return !fitting(node); });
  if (candidates.size() > written.size()) {
    SmallVector<uint32_t> fresh;
    for (uint32_t node : candidates)
      if (!computedBy.contains({&graph, node}))
        fresh.push_back(node);
    if (fresh.size() >= written.size())
      candidates = fresh;
    // What leads to another one comes before it, and is not stored.
    DenseSet<uint32_t> inside(nodes.begin(), nodes.end());
    for (size_t i = 0; i < candidates.size();) {
      if (candidates.size() <= written.size())
        break;
      DenseSet<uint32_t> reached;
      SmallVector<uint32_t> work = {candidates[i]};
      bool leads = false;
      for (size_t at = 0; at < work.size() && !leads; ++at)
        for (uint32_t user : graph.users[work[at]]) {
          bool isView = graph.root[user] != user;
          leads |= is_contained(candidates, user);
          if ((isView || inside.contains(user)) && reached.insert(user).second)
            work.push_back(user);
        }
      if (leads)
        candidates.erase(candidates.begin() + i);
      else
        ++i;
    }
  }
  // A node with several results (var_mean, an operator on lists) can fill as
  // many buffers.
  SmallVector<size_t> left;
  for (uint32_t node : candidates)
    left.push_back(std::max<size_t>(1, graph[node].results.size()));
  for (size_t i : written)
    for (auto [node, room] : zip(candidates, left))
      if (room && fits(launch.operands[i], graph[node])) {
        out[i] = node;
        --room;
        break;
      }
  for (auto [i, operand] : enumerate(launch.operands))
    if (operand.role & KernelParameter::Output)
      if (auto it = firstOf.find(operand.storage); it != firstOf.end())
        out[i] = out[it->second];
  return out;
}

/// Decides which node each written buffer holds from here on.
void Joiner::setBuffers(const WrapperLaunch &launch, ArrayRef<uint32_t> nodes,
                        ArrayRef<uint32_t> outputs, IndexedGraph &graph,
                        Launch &to) {
  std::vector<uint32_t> unstored = findLeaving(nodes, graph);
  llvm::erase_if(unstored, [&](uint32_t node) {
    return is_contained(outputs, node) ||
           getWorkKind(graph[node].target) != WorkKind::Reduction;
  });
  size_t nextPartial = 0;
  for (auto [operand, node] : zip(launch.operands, outputs)) {
    if (!(operand.role & KernelParameter::Output) || operand.storage < 0)
      continue;
    holds[operand.storage] = node;
    holdsIn[operand.storage] = &graph;
    writtenBy[operand.storage] = to.index;
    partial.erase(operand.storage);
    if (node == noNode) {
      // A reduction in two stages stores a part of its value.
      if (nextPartial < unstored.size())
        partial[operand.storage] = {unstored[nextPartial++]};
      continue;
    }
    const std::vector<TensorInfo> &results = graph[node].results;
    size_t member = operand.member.value_or(0);
    if (member < results.size() && launch.definition < 0)
      storageInfo[operand.storage] = results[member];
  }
}

/// Bytes that a view of `info` touches: repeated elements count once.
static std::optional<uint64_t> touchedBytes(const TensorInfo &info) {
  TensorInfo unique = info;
  if (info.stride.size() == info.shape.size())
    for (auto [size, stride] : zip(unique.shape, info.stride))
      if (stride.value && *stride.value == 0)
        size = Dim{1, ""};
  return unique.bytes();
}

static TensorShape toShape(const TensorInfo &info) {
  TensorShape out;
  out.elementBytes = elementSize(info.dtype).value_or(0);
  if (!info.shapeKnown)
    out.sizes.push_back(-1);
  for (const Dim &dim : info.shape)
    out.sizes.push_back(dim.value.value_or(-1));
  return out;
}

/// Arguments that the model asks for beside shapes.
static void setArguments(const GraphNode &node, OperatorCall &call) {
  for (const auto &[key, value] : node.kwargs)
    if (key == "is_causal")
      call.isCausal |= value.getAsBoolean().value_or(false);
  // is_causal by position: (q, k, v, dropout_p, is_causal), or after a bias
  // and compute_log_sumexp.
  StringRef family = opFamily(node.target);
  std::optional<size_t> position =
      StringSwitch<std::optional<size_t>>(family)
          .Case("_scaled_dot_product_flash_attention", 4)
          .Case("_scaled_dot_product_flash_attention_for_cpu", 4)
          .Case("_scaled_dot_product_efficient_attention", 6)
          .Case("_scaled_dot_product_cudnn_attention", 6)
          .Case("scaled_dot_product_attention", 5)
          .Case("_scaled_dot_product_efficient_attention_backward", 10)
          .Case("_scaled_dot_product_flash_attention_backward", 11)
          .Default(std::nullopt);
  if (position && *position < node.args.size())
    call.isCausal |= node.args[*position].getAsBoolean().value_or(false);
  if (family == "convolution" && node.args.size() > 8) {
    call.isTransposed = node.args[6].getAsBoolean().value_or(false);
    call.groups = node.args[8].getAsInteger().value_or(1);
  }
}

void Joiner::addCosts(const WrapperLaunch &launch, const IndexedGraph &graph,
                      ArrayRef<uint32_t> nodes, ArrayRef<uint32_t> inputNodes,
                      Launch &to) {
  // FLOPs of the nodes that this launch really computes.
  bool isKernel = launch.definition >= 0;
  if (!to.nodes.empty()) {
    std::optional<uint64_t> total = 0;
    StringSet<> continued;
    for (const LaunchNode &node : to.nodes)
      if (node.continued)
        continued.insert(node.name);
    for (uint32_t at : nodes) {
      const GraphNode &node = graph[at];
      if (continued.contains(node.name) || node.target == "operator.getitem" ||
          (!isKernel && graph.root[at] != at))
        continue;
      SmallVector<TensorShape> inputs, outputs;
      for (uint32_t operand : node.operands) {
        const GraphNode &from = graph[operand];
        if (from.symbol.empty())
          inputs.push_back(toShape(from.results.empty() || from.resultIsTuple
                                       ? TensorInfo()
                                       : from.results[0]));
      }
      for (const TensorInfo &result : node.results)
        outputs.push_back(toShape(result));
      if (node.results.empty() && node.symbol.empty())
        outputs.push_back(toShape(TensorInfo()));
      OperatorCall call;
      call.target = node.target;
      call.inputs = inputs;
      call.outputs = outputs;
      call.isCausal = launch.isCausal;
      setArguments(node, call);
      OperatorCost cost = estimateCost(call);
      // Sizes computed on the host are no work of the device.
      if (!node.symbol.empty())
        cost.flops = 0;
      if (!cost.flops || !total)
        total = std::nullopt;
      else
        total = *total + *cost.flops;
    }
    to.flops = total;
  }

  if (isKernel && !program.kernels[launch.definition].rolesCertain)
    return;
  // Tables that are only gathered from: as many rows as are returned.
  DenseMap<uint32_t, uint64_t> gathered;
  DenseSet<uint32_t> readWhole;
  for (uint32_t at : nodes) {
    const GraphNode &node = graph[at];
    StringRef family = opFamily(node.target);
    bool gathers = family == "embedding" || family == "index" ||
                   family == "gather" || family == "index_select" ||
                   family == "_unsafe_index";
    for (auto [i, operand] : enumerate(node.operands)) {
      uint32_t root = graph.root[operand];
      if (gathers && i == 0 && node.results.size() == 1 &&
          node.results[0].bytes())
        gathered[root] += *node.results[0].bytes();
      else if (graph.root[at] == at)
        readWhole.insert(root);
    }
  }
  std::optional<uint64_t> read = 0, write = 0;
  SmallSet<std::pair<int32_t, uint64_t>, 8> seenReads;
  for (auto [operand, node] : zip(launch.operands, inputNodes)) {
    std::optional<uint64_t> size = touchedBytes(infoOf(operand));
    bool isOutput = operand.role & KernelParameter::Output;
    // Scratch memory is not read: isRead was asked before it was written.
    bool isInput = operand.role & KernelParameter::Input &&
                   !(isOutput && node == noNode && scratch.contains(&operand));
    if (isInput) {
      std::optional<uint64_t> bytes = size;
      if (node != noNode && !readWhole.contains(node))
        if (auto it = gathered.find(node); it != gathered.end())
          bytes = size ? std::min(*size, it->second) : it->second;
      bool isNew = !size || operand.storage < 0 ||
                   seenReads.insert({operand.storage, *size}).second;
      if (isNew)
        read = read && bytes ? std::optional(*read + *bytes) : std::nullopt;
    }
    if (isOutput)
      write = write && size ? std::optional(*write + *size) : std::nullopt;
  }
  if (launch.operands.empty())
    return;
  to.bytesRead = read;
  to.bytesWritten = write;
}

//===----------------------------------------------------------------------===//
// The map
//===----------------------------------------------------------------------===//

void Joiner::fillLaunch(const WrapperLaunch &from, uint32_t index, Launch &to) {
  to.index = index;
  to.file = sys::path::filename(program.fileName).str();
  to.line = from.line;
  to.function = from.function;
  to.callLines = from.callLines;
  to.kernel = from.kernel;
  to.kind = from.kind;
  to.category = from.category;
  to.debugHandle = handles[index];
  to.conditional = from.conditional;
  to.inLoop = from.inLoop;
  if (from.definition >= 0)
    to.kernelHash = program.kernels[from.definition].hash;

  // Graph inputs hold their own nodes.
  IndexedGraph &graph = graphOf(from);
  for (const LaunchOperand &operand : from.operands) {
    if (operand.storage < 0 || holdsIn[operand.storage] == &graph)
      continue;
    // In a subgraph, the name of the parameter without the function's prefix.
    const Storage &storage = program.storages[operand.storage];
    StringRef name = storage.isInput && graph.graph == sources.postGrad
                         ? storage.name
                         : operand.name;
    if (name.consume_front(from.function))
      name.consume_front("_");
    if (std::optional<uint32_t> node = graph.graph->find(name))
      if (graph[*node].op == GraphNode::Placeholder) {
        holds[operand.storage] = *node;
        holdsIn[operand.storage] = &graph;
        if (!graph[*node].results.empty())
          storageInfo[operand.storage] = graph[*node].results.front();
      }
  }

  std::vector<Found> found = findNodes(from, index, graph);
  std::vector<uint32_t> nodes;
  for (const Found &item : found)
    nodes.push_back(item.node);

  // Which of them this launch can compute from what goes in.
  scratch.clear();
  DenseSet<uint32_t> available;
  bool inputsKnown = true;
  SmallSet<uint32_t, 4> continued;
  std::vector<uint32_t> inputNodes;
  for (const LaunchOperand &operand : from.operands) {
    bool reads = isRead(operand);
    uint32_t node = reads ? inputNode(operand, graph) : noNode;
    inputNodes.push_back(node);
    if (!reads) {
      if (operand.role & KernelParameter::Input)
        scratch.insert(&operand);
      continue;
    }
    if (node == noNode) {
      auto parts = partial.find(operand.storage);
      if (parts == partial.end())
        inputsKnown = false;
      else
        continued.insert(parts->second.begin(), parts->second.end());
    } else {
      available.insert(graph.root[node]);
    }
  }
  DenseSet<uint32_t> computable;
  for (uint32_t node : nodes) {
    bool can = true;
    for (uint32_t operand : graph[node].operands) {
      uint32_t root = graph.root[operand];
      const GraphNode &source = graph[root];
      can &= available.contains(root) || computable.contains(root) ||
             (source.op == GraphNode::Call && source.operands.empty()) ||
             !source.symbol.empty();
    }
    if (can) {
      computable.insert(graph.root[node]);
      computable.insert(node);
    }
  }

  // What the launch stores, and so what it must compute.
  bool isKernel = from.definition >= 0;
  bool isGenerated = isKernel && from.kind != LaunchKind::User;
  std::vector<uint32_t> candidates;
  // A library call is one operator, a user's kernel the node that wraps it.
  auto isCalled = [&](uint32_t node) {
    if (from.kind == LaunchKind::User)
      return StringRef(graph[node].target).contains("triton_kernel_wrapper");
    return isExternFamily(from.kernel, opFamily(graph[node].target));
  };
  bool isSingle = from.kind == LaunchKind::User || !isKernel;
  bool hasCalled = isSingle && any_of(nodes, isCalled);
  for (uint32_t node : nodes) {
    if (hasCalled) {
      if (isCalled(node))
        candidates.push_back(node);
      continue;
    }
    bool isWork = graph.root[node] == node &&
                  !(isGenerated && from.category != LaunchCategory::Template &&
                    isLibraryWork(graph[node]));
    if (isWork && (computable.contains(node) || !inputsKnown) &&
        !available.contains(node))
      candidates.push_back(node);
  }
  std::vector<uint32_t> outputs = matchOutputs(from, index, candidates, graph);
  DenseSet<uint32_t> needed;
  bool allStored = isGenerated && inputsKnown;
  for (auto [operand, node] : zip(from.operands, outputs))
    if (operand.role & KernelParameter::Output && isLive(operand, index)) {
      if (node == noNode)
        allStored = false;
      else
        needed.insert(node);
    }
  for (uint32_t node : reverse(candidates))
    if (needed.contains(node))
      for (uint32_t operand : graph[node].operands)
        needed.insert(graph.root[operand]);
  bool isMain = graph.graph == sources.postGrad || graph.graph == &fragments;
  std::vector<uint32_t> computed;
  for (const Found &item : found) {
    auto key = std::make_pair<const IndexedGraph *, uint32_t>(
        &graph, uint32_t(item.node));
    auto earlier = computedBy.find(key);
    const GraphNode &graphNode = graph[item.node];
    bool isView = graph.root[item.node] != item.node;
    bool can = computable.contains(item.node);
    // The same line again is another instance of the same function: another
    // call, other values.
    bool again = earlier != computedBy.end() && !isView &&
                 program.launches[earlier->second].line != from.line;
    bool isWrapper =
        StringRef(graphNode.target).contains("triton_kernel_wrapper");
    bool prepares = !isView && isGenerated &&
                    from.category != LaunchCategory::Template &&
                    isLibraryWork(graphNode);
    bool continues = again && !can && continued.contains(item.node);
    bool listed;
    if (prepares)
      // Where the kernel computes other things, the product is what it reads.
      listed = !available.empty() && available.contains(item.node);
    else if (hasCalled)
      listed = !isCalled(item.node);
    else if (isWrapper && isGenerated)
      listed = true;
    else if (continues)
      listed = false;
    else if (isView)
      listed = isGenerated && inputsKnown &&
               (!can || (allStored && !needed.contains(graph.root[item.node]) &&
                         !available.contains(graph.root[item.node])));
    else if (again)
      listed = available.contains(item.node) || (!can && inputsKnown) ||
               (allStored && !needed.contains(item.node));
    else
      listed = allStored && can && !needed.contains(item.node);
    if (listed) {
      to.listedOnly.push_back(graphNode.name);
      continue;
    }
    LaunchNode &node = to.nodes.emplace_back();
    node.name = graphNode.name;
    if (!isMain)
      node.graph = graph.graph->name;
    node.evidence = item.evidence;
    node.prepares = prepares;
    if (prepares)
      continue;
    if ((can || continues) && !is_contained(node.evidence, "dataflow"))
      node.evidence.push_back("dataflow");
    node.continued = continues;
    node.recomputed = again && !continues;
    computed.push_back(item.node);
    computedBy.try_emplace(key, index);
  }
  // A second stage that no record names.
  if (isGenerated && computed.empty() && !continued.empty())
    for (uint32_t at : continued) {
      LaunchNode &node = to.nodes.emplace_back();
      node.name = graph[at].name;
      if (!isMain)
        node.graph = graph.graph->name;
      node.evidence = {"dataflow"};
      node.continued = true;
      computed.push_back(at);
    }
  // What is stored now, with the second stages among it.
  bool finishes = false;
  for (const LaunchNode &node : to.nodes)
    finishes |= node.continued;
  if (finishes)
    outputs = matchOutputs(from, index, computed, graph);
  nodes = std::move(computed);
  // A kernel that only moves data for a library call gives its input's value.
  if (isGenerated && nodes.empty() && available.size() == 1)
    for (auto [operand, node] : zip(from.operands, outputs))
      if (operand.role & KernelParameter::Output &&
          fits(operand, graph[*available.begin()]))
        node = *available.begin();
  if (from.definition >= 0 && from.firstUse) {
    FirstUse &first = firstUses[from.definition];
    first.nodes = nodes;
    first.operandNodes = inputNodes;
  }

  setBuffers(from, nodes, outputs, graph, to);
  for (const LaunchOperand &operand : from.operands)
    if (to.dtype.empty() && operand.role & KernelParameter::Input)
      to.dtype = infoOf(operand).dtype;
  addCosts(from, graph, nodes, inputNodes, to);

  StringSet<> read, written;
  for (const LaunchOperand &operand : from.operands) {
    if (operand.role & KernelParameter::Input &&
        read.insert(operand.name).second)
      to.inputs.push_back(operand.name);
    if (operand.role & KernelParameter::Output &&
        written.insert(operand.name).second)
      to.outputs.push_back(operand.name);
  }
  // A library's result has the type of its node.
  if (!to.bytesWritten && nodes.size() >= 1 && from.definition < 0) {
    std::optional<uint64_t> total;
    for (uint32_t node : nodes)
      if (graph.root[node] == node)
        for (const TensorInfo &info : graph[node].results)
          if (std::optional<uint64_t> size = info.bytes())
            total = total.value_or(0) + *size;
    to.bytesWritten = total;
  }
}

StringRef Joiner::reasonFor(uint32_t at, const IndexedGraph &graph) {
  const GraphNode &node = graph[at];
  if (node.op == GraphNode::GetAttr)
    return "attribute";
  if (node.target == "operator.getitem")
    return "getitem";
  if (isViewTarget(node.target))
    return "view";
  if (!node.symbol.empty() || StringRef(node.target).starts_with("operator.") ||
      StringRef(node.target).starts_with("math."))
    return "symbolic";
  if (StringRef(node.target).starts_with("higher_order."))
    return "subgraph";
  StringRef family = opFamily(node.target);
  if (family.starts_with("sym_") || family.starts_with("_assert"))
    return "symbolic";
  if (family == "copy_" || family == "copy")
    return "mutation";
  if (graph.users[at].empty() && !graph.isOutput[at])
    return "dead";
  if (node.operands.empty() ||
      StringSwitch<bool>(family)
          .Cases({"full_like", "zeros_like", "ones_like", "empty_like"}, true)
          .Default(false))
    return "constant";
  return "unrecorded";
}

void Joiner::addNotLaunched(LaunchMap &map) {
  auto addGraph = [&](const GraphView &view, StringRef name) {
    std::unique_ptr<IndexedGraph> &slot = graphs[name];
    if (!slot)
      slot = std::make_unique<IndexedGraph>(view);
    // Of two bodies of one name, launches know the first.
    if (slot->graph != &view)
      return;
    for (uint32_t i = 0; i < view.nodes.size(); ++i)
      if (view.nodes[i].op != GraphNode::Placeholder &&
          !computedBy.contains({slot.get(), i}))
        map.notLaunched.push_back(
            {view.nodes[i].name, name.str(), reasonFor(i, *slot).str()});
  };
  if (!sources.postGrad) {
    addGraph(fragments, "");
    return;
  }
  addGraph(*sources.postGrad, "");
  for (const GraphView &child : sources.postGrad->subgraphs)
    addGraph(child, child.name);
}

LaunchMap Joiner::run() {
  LaunchMap map;
  map.graph = sources.graphName;
  map.statements = program.statements;
  if (!sources.postGrad)
    fragments = graphFromFragments(program);
  holds.assign(program.storages.size(), noNode);
  holdsIn.assign(program.storages.size(), nullptr);
  storageInfo.resize(program.storages.size());
  lastUse.assign(program.storages.size(), 0);
  for (auto [i, launch] : enumerate(program.launches))
    for (const LaunchOperand &operand : launch.operands)
      if (operand.storage >= 0)
        lastUse[operand.storage] = i;
  for (int32_t storage : program.returned)
    lastUse[storage] = noNode;
  for (auto [storage, last] : zip(program.storages, lastUse))
    if (storage.isInput && storage.isMutated)
      last = noNode;
  assignMissingHandles();
  map.launches.resize(program.launches.size());
  for (auto [i, launch] : enumerate(program.launches))
    fillLaunch(launch, i, map.launches[i]);
  addNotLaunched(map);
  return map;
}

LaunchMap opprof::inductor::buildLaunchMap(const LaunchSources &sources) {
  return Joiner(sources).run();
}
