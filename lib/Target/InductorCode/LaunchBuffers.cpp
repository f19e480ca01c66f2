// Which node's value each buffer holds, from launch to launch.

#include "LaunchJoiner.h"

#include "llvm/ADT/StringSet.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::inductor;
using namespace opprof::launch;

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
    return kNoNode;
  if (holdsIn[operand.storage] == &graph)
    return holds[operand.storage];
  return kNoNode;
}

std::vector<uint32_t> opprof::inductor::findLeaving(ArrayRef<uint32_t> nodes,
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

bool opprof::inductor::fits(const LaunchOperand &operand,
                            const GraphNode &node) {
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

/// Graph inputs hold their own nodes.
void Joiner::bindInputs(const WrapperLaunch &from, IndexedGraph &graph) {
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
}

/// What the operands hold before the launch; remembers which are scratch.
LaunchInputs Joiner::readInputs(const WrapperLaunch &from,
                                const IndexedGraph &graph) {
  scratch.clear();
  LaunchInputs inputs;
  for (const LaunchOperand &operand : from.operands) {
    bool reads = isRead(operand);
    uint32_t node = reads ? inputNode(operand, graph) : kNoNode;
    inputs.nodes.push_back(node);
    if (!reads) {
      if (operand.role & KernelParameter::Input)
        scratch.insert(&operand);
      continue;
    }
    if (node == kNoNode) {
      auto parts = partial.find(operand.storage);
      if (parts == partial.end())
        inputs.known = false;
      else
        inputs.continued.insert(parts->second.begin(), parts->second.end());
    } else {
      inputs.available.insert(graph.root[node]);
    }
  }
  return inputs;
}

/// Which node each written operand of the launch holds afterwards; kNoNode
/// where that is not known.
std::vector<uint32_t> Joiner::matchOutputs(const WrapperLaunch &given,
                                           uint32_t index,
                                           ArrayRef<uint32_t> nodes,
                                           const IndexedGraph &graph) {
  WrapperLaunch launch = given;
  launch.operands = withWholeOutputs(given);
  std::vector<uint32_t> out(launch.operands.size(), kNoNode);
  std::vector<uint32_t> leaving = findLeaving(nodes, graph);
  // A library call has one node; all it writes are members of that.
  if (launch.definition < 0) {
    uint32_t node = kNoNode;
    if (leaving.size() == 1)
      node = leaving.front();
    else if (nodes.size() == 1)
      node =
          graph.root[nodes.front()] == nodes.front() ? nodes.front() : kNoNode;
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
    if (node == kNoNode) {
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

void Joiner::addOperands(const WrapperLaunch &launch, Launch &to) const {
  for (const LaunchOperand &operand : launch.operands)
    if (to.dtype.empty() && operand.role & KernelParameter::Input)
      to.dtype = infoOf(operand).dtype;
  StringSet<> read, written;
  for (const LaunchOperand &operand : launch.operands) {
    if (operand.role & KernelParameter::Input &&
        read.insert(operand.name).second)
      to.inputs.push_back(operand.name);
    if (operand.role & KernelParameter::Output &&
        written.insert(operand.name).second)
      to.outputs.push_back(operand.name);
  }
}
