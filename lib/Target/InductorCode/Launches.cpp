// Walks a wrapper's launches in call order and keeps, for every buffer, the
// node whose value it holds. A launch's nodes come from the best record there
// is; the buffers that go in and out confirm or complete it.

#include "GraphRun.h"
#include "LaunchJoiner.h"

#include "llvm/ADT/StringSwitch.h"

#include <set>

using namespace llvm;
using namespace opprof;
using namespace opprof::inductor;
using namespace opprof::launch;

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

bool IndexedGraph::sameArgument(const json::Value &a,
                                const json::Value &b) const {
  auto first = arguments.find(&a), second = arguments.find(&b);
  bool isNode = first != arguments.end() && first->second.node;
  if (isNode != (second != arguments.end() && second->second.node))
    return false;
  if (isNode)
    return twin[*first->second.node] == twin[*second->second.node];
  const json::Array *list = listOf(&a), *other = listOf(&b);
  if (!list || !other)
    return a == b;
  return list->size() == other->size() &&
         all_of(zip(*list, *other), [&](const auto &pair) {
           return sameArgument(std::get<0>(pair), std::get<1>(pair));
         });
}

/// Inductor merges equal nodes but for those that make constants, each of which
/// could be written to; so masks that layers share stand there several times.
void IndexedGraph::findTwins() {
  twin.resize(graph->nodes.size());
  DenseMap<uint64_t, SmallVector<uint32_t, 1>> byHash;
  for (uint32_t i = 0; i < twin.size(); ++i) {
    twin[i] = i;
    const GraphNode &node = graph->nodes[i];
    bool isPure = node.op == GraphNode::Call && (fusible[i] || isView(i)) &&
                  !node.args.empty() && !family[i].contains("rand") &&
                  !family[i].contains("seed") &&
                  !family[i].contains("dropout") && !family[i].ends_with("_");
    if (isClone(i))
      twin[i] = twin[node.operands.front()];
    if (!isPure || isClone(i))
      continue;
    uint64_t key = hash_value(StringRef(node.target));
    for (uint32_t operand : node.operands)
      key = hash_combine(key, twin[operand]);
    // Two keys a table keeps for itself.
    SmallVector<uint32_t, 1> &others = byHash[key >> 1];
    auto *same = find_if(others, [&](uint32_t other) {
      const GraphNode &first = graph->nodes[other];
      return first.target == node.target &&
             first.args.size() == node.args.size() &&
             first.kwargs.size() == node.kwargs.size() &&
             all_of(zip(first.args, node.args),
                    [&](const auto &pair) {
                      return sameArgument(std::get<0>(pair), std::get<1>(pair));
                    }) &&
             all_of(zip(first.kwargs, node.kwargs), [&](const auto &pair) {
               return std::get<0>(pair).first == std::get<1>(pair).first &&
                      sameArgument(std::get<0>(pair).second,
                                   std::get<1>(pair).second);
             });
    });
    if (same == others.end()) {
      others.push_back(i);
      continue;
    }
    twin[i] = *same;
    std::vector<uint32_t> &group = twins[*same];
    if (group.empty())
      group.push_back(*same);
    group.push_back(i);
  }
}

SmallVector<uint32_t, 2> IndexedGraph::findSame(uint32_t node) const {
  SmallVector<uint32_t, 2> same = {node};
  while (isClone(node)) {
    node = graph->nodes[node].operands.front();
    same.push_back(node);
  }
  if (auto it = twins.find(twin[node]); it != twins.end())
    append_range(same, it->second);
  return same;
}

void IndexedGraph::findSelfMade() {
  selfMade.resize(graph->nodes.size());
  for (uint32_t i = 0; i < selfMade.size(); ++i)
    selfMade[i] =
        !graph->nodes[i].symbol.empty() ||
        (isKernelWork(i) && all_of(valueOperands(i), [&](uint32_t operand) {
           return operand < i && selfMade[operand];
         }));
}

/// Operators that read or write where an argument says, and how: places along
/// a dimension that is named, or in the first ones, one for each member.
static bool namesDimension(StringRef family) {
  return family == "index_select" || family == "gather" ||
         family.starts_with("scatter") || family == "index_add" ||
         family == "index_copy" || family == "index_fill";
}

void IndexedGraph::findPlaceLimits(
    function_ref<std::optional<int64_t>(const Dim &)> sizeOf) {
  // Of a size that is not known: beyond what any view divides by.
  constexpr int64_t kUnknownLimit = 1 << 20;
  auto limit = [&](uint32_t at, int64_t by) {
    if (mayIndex(at) && by > 0 && (!placeLimits[at] || by < placeLimits[at]))
      placeLimits[at] = by;
  };
  auto sizeAt = [&](const GraphNode &table, int64_t dim) {
    if (table.results.size() != 1 || !table.results[0].shapeKnown)
      return kUnknownLimit;
    const std::vector<Dim> &shape = table.results[0].shape;
    dim = dim < 0 ? dim + int64_t(shape.size()) : dim;
    if (dim < 0 || dim >= int64_t(shape.size()))
      return kUnknownLimit;
    return sizeOf(shape[dim]).value_or(kUnknownLimit);
  };
  for (uint32_t i = graph->nodes.size(); i-- > 0;) {
    const GraphNode &node = graph->nodes[i];
    if (node.op != GraphNode::Call)
      continue;
    auto nodeOf = [&](const json::Value &value) -> std::optional<uint32_t> {
      auto it = arguments.find(&value);
      return it == arguments.end() ? std::nullopt : it->second.node;
    };
    std::optional<uint32_t> table =
        node.args.empty() ? std::nullopt : nodeOf(node.args[0]);
    if (table && node.args.size() > 1) {
      StringRef name = family[i];
      name.consume_front("_unsafe_");
      if (name.starts_with("index"))
        if (const json::Array *list = listOf(&node.args[1]))
          for (auto [dim, member] : enumerate(*list))
            if (std::optional<uint32_t> index = nodeOf(member))
              limit(*index, sizeAt(graph->nodes[*table], dim));
      std::optional<int64_t> dim = node.args[1].getAsInteger();
      if (namesDimension(name) && dim && node.args.size() > 2)
        if (std::optional<uint32_t> index = nodeOf(node.args[2]))
          limit(*index, sizeAt(graph->nodes[*table], *dim));
      if (name == "embedding")
        if (std::optional<uint32_t> index = nodeOf(node.args[1]))
          limit(*index, sizeAt(graph->nodes[*table], 0));
    }
    if (!placeLimits[i])
      continue;
    limit(twin[i], placeLimits[i]);
    if (isKernelWork(i))
      for (uint32_t operand : node.operands)
        limit(operand, placeLimits[i]);
  }
}

/// Of a body within a body the function's name is that of the graph,
/// "body.branch", with underlines.
void Joiner::findFunctions() {
  if (!sources.postGrad)
    return;
  for (const GraphView &body : sources.postGrad->subgraphs) {
    std::string name = body.name;
    llvm::replace(name, '.', '_');
    functions.try_emplace(body.name, &body);
    functions.try_emplace(name, &body);
  }
}

IndexedGraph &Joiner::graphOf(const WrapperLaunch &launch) {
  auto body = functions.find(launch.function);
  bool isBody = body != functions.end();
  const GraphView *view = isBody             ? body->second
                          : sources.postGrad ? sources.postGrad
                                             : &fragments;
  std::unique_ptr<IndexedGraph> &slot =
      graphs[isBody ? StringRef(launch.function) : StringRef()];
  if (!slot) {
    slot = std::make_unique<IndexedGraph>(*view);
    markCalled(*slot);
    slot->findSelfMade();
    slot->findPlaceLimits([&](const Dim &dim) { return sizeOf(dim); });
  }
  return *slot;
}

/// How often the wrapper calls what may compute an operator.
void Joiner::countCalls() {
  for (const WrapperLaunch &launch : program.launches)
    if (launch.definition < 0 && (launch.kind == LaunchKind::Extern ||
                                  launch.kind == LaunchKind::Fallback))
      for (StringRef family : externFamilies(launch.kernel))
        ++calls[family];
}

/// Where as many calls of an operator as nodes of it stand in the wrapper, no
/// generated kernel computes one.
void Joiner::markCalled(IndexedGraph &graph) const {
  for (const auto &[family, nodes] : graph.byFamily) {
    if (calls.lookup(family) < nodes.size())
      continue;
    for (uint32_t node : nodes) {
      graph.fusible[node] = false;
      graph.library[node] = true;
    }
  }
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
          view.find(view.nodes[i].name) == i &&
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
  regions.resize(program.storages.size());
  storageInfo.resize(program.storages.size());
  findFunctions();
  countCalls();
  findLiveOutputs();
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
