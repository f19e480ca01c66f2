// Which node's value each buffer holds, from launch to launch.

#include "LaunchJoiner.h"
#include "Sizes.h"

#include "opprof/Target/InductorCode/PythonParser.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

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

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

std::optional<int64_t> Joiner::sizeOf(const Dim &dim) const {
  if (dim.value)
    return dim.value;
  auto [it, isNew] = sizes.try_emplace(dim.symbol, std::nullopt);
  if (isNew) {
    int64_t number;
    BumpPtrAllocator arena;
    if (!StringRef(dim.symbol).getAsInteger(10, number))
      it->second = number;
    else if (!program.sizeHints.empty() && dim.symbol.size() < 4096)
      if (const Expr *expr = parseExpression(dim.symbol, arena))
        it->second = evaluateSize(*expr, program.sizeHints);
  }
  return it->second;
}

TensorInfo Joiner::withSizes(TensorInfo info) const {
  for (std::vector<Dim> *dims : {&info.shape, &info.stride})
    for (Dim &dim : *dims)
      if (std::optional<int64_t> size = sizeOf(dim))
        dim = Dim{size, ""};
  return info;
}

std::optional<uint64_t> Joiner::elementsOf(const TensorInfo &info) const {
  if (!info.shapeKnown)
    return std::nullopt;
  uint64_t count = 1;
  for (const Dim &dim : info.shape) {
    std::optional<int64_t> size = sizeOf(dim);
    bool overflow = false;
    if (!size || *size < 0)
      return std::nullopt;
    count = SaturatingMultiply<uint64_t>(count, *size, &overflow);
    if (overflow)
      return std::nullopt;
  }
  return count;
}

/// Whether the operand can hold such a value.
bool Joiner::fits(const LaunchOperand &operand,
                  const TensorInfo &result) const {
  if (!operand.info.shapeKnown)
    return true;
  std::optional<uint64_t> has = elementsOf(operand.info);
  std::optional<uint64_t> asks = elementsOf(result);
  if (has && asks && *has != *asks)
    return false;
  return operand.info.dtype.empty() || result.dtype.empty() ||
         operand.info.dtype == result.dtype;
}

bool Joiner::fits(const LaunchOperand &operand, const GraphNode &node) const {
  if (node.results.empty())
    return true;
  return any_of(node.results,
                [&](const TensorInfo &info) { return fits(operand, info); });
}

//===----------------------------------------------------------------------===//
// Regions
//===----------------------------------------------------------------------===//

namespace {
/// Sizes and steps of a region, as numbers.
struct Layout {
  SmallVector<int64_t, 4> sizes, strides;
};
} // namespace

static std::optional<Layout>
layoutOf(const TensorInfo &info,
         function_ref<std::optional<int64_t>(const Dim &)> sizeOf) {
  if (!info.shapeKnown)
    return std::nullopt;
  Layout out;
  for (const Dim &dim : info.shape) {
    std::optional<int64_t> size = sizeOf(dim);
    if (!size)
      return std::nullopt;
    out.sizes.push_back(*size);
  }
  if (info.stride.size() == info.shape.size()) {
    for (const Dim &dim : info.stride) {
      std::optional<int64_t> stride = sizeOf(dim);
      if (!stride)
        return std::nullopt;
      out.strides.push_back(*stride);
    }
  } else {
    out.strides.assign(out.sizes.size(), 1);
    for (size_t i = out.sizes.size(); i-- > 1;)
      out.strides[i - 1] = out.strides[i] * std::max<int64_t>(1, out.sizes[i]);
  }
  return out;
}

std::optional<SmallVector<double, 4>>
opprof::inductor::placeIn(ArrayRef<int64_t> sizes, ArrayRef<int64_t> strides,
                          double place) {
  SmallVector<size_t, 4> order;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] != 1 && strides[i] > 0)
      order.push_back(i);
  llvm::stable_sort(
      order, [&](size_t a, size_t b) { return strides[a] > strides[b]; });
  SmallVector<double, 4> out(sizes.size(), 0.0);
  for (auto [i, dim] : enumerate(order)) {
    double stride = strides[dim];
    bool isLast = i + 1 == order.size();
    double at = isLast ? place / stride : std::floor(place / stride);
    if (at < 0 || at >= sizes[dim])
      return std::nullopt;
    out[dim] = at;
    place -= at * stride;
  }
  if (std::fabs(place) > 1e-6)
    return std::nullopt;
  return out;
}

static bool isContiguous(const Layout &layout) {
  int64_t step = 1;
  for (size_t i = layout.sizes.size(); i-- > 0;) {
    if (layout.sizes[i] != 1 && layout.strides[i] != step)
      return false;
    step *= layout.sizes[i];
  }
  return true;
}

/// The steps in memory between elements of the region's node; none where they
/// are not known.
std::optional<SmallVector<double, 4>>
Joiner::stepsOf(const HeldRegion &region, const IndexedGraph &graph) const {
  auto sizes = [&](const Dim &dim) { return sizeOf(dim); };
  std::optional<Layout> layout = layoutOf(region.info, sizes);
  const std::vector<TensorInfo> &results = graph[region.node].results;
  if (!layout || results.size() != 1)
    return std::nullopt;
  TensorInfo rowMajor = results.front();
  rowMajor.stride.clear();
  std::optional<Layout> own = layoutOf(rowMajor, sizes);
  if (!own)
    return std::nullopt;
  if (isContiguous(*layout))
    return SmallVector<double, 4>(own->strides.begin(), own->strides.end());
  if (own->sizes != layout->sizes)
    return std::nullopt;
  return SmallVector<double, 4>(layout->strides.begin(), layout->strides.end());
}

/// The number of an element in row-major order, given its place in storage.
std::optional<double> Joiner::offsetIn(const HeldRegion &region,
                                       double place) const {
  if (!region.offset)
    return std::nullopt;
  double inside = place - *region.offset;
  if (inside == 0)
    return 0;
  auto sizes = [&](const Dim &dim) { return sizeOf(dim); };
  std::optional<Layout> layout = layoutOf(region.info, sizes);
  if (!layout)
    return std::nullopt;
  // What is gathered by data is at no whole number, and in no place.
  if (isContiguous(*layout))
    return inside;
  auto at = placeIn(layout->sizes, layout->strides, inside);
  if (!at)
    return std::nullopt;
  double offset = 0;
  for (auto [coordinate, size] : zip(*at, layout->sizes))
    offset = offset * size + coordinate;
  return offset;
}

/// Whether a tensor of that layout may have an element there.
bool Joiner::mayHold(const TensorInfo &info, double offset) const {
  if (offset < 0)
    return false;
  std::optional<Layout> layout =
      layoutOf(info, [&](const Dim &dim) { return sizeOf(dim); });
  return !layout || placeIn(layout->sizes, layout->strides, offset);
}

bool Joiner::overlaps(const HeldRegion &region,
                      const LaunchOperand &operand) const {
  auto sizes = [&](const Dim &dim) { return sizeOf(dim); };
  std::optional<Layout> a = layoutOf(region.info, sizes);
  std::optional<Layout> b = layoutOf(operand.info, sizes);
  if (!a || !b || !region.offset || !operand.offset)
    return true;
  auto extent = [](const Layout &layout) {
    int64_t last = 0;
    for (auto [size, stride] : zip(layout.sizes, layout.strides))
      last += std::max<int64_t>(0, size - 1) * stride;
    return last;
  };
  if (*region.offset + extent(*a) < *operand.offset ||
      *operand.offset + extent(*b) < *region.offset)
    return false;
  // Columns of one matrix: ranges that cross, elements that do not.
  if (a->strides != b->strides)
    return true;
  const Layout &first = *region.offset <= *operand.offset ? *a : *b;
  double apart = std::abs(*operand.offset - *region.offset);
  Layout wide = first;
  for (int64_t &size : wide.sizes)
    size = std::max<int64_t>(size, 2);
  // Outside of the first's sizes in a dimension that both step alike.
  SmallVector<size_t, 4> order;
  for (size_t i = 0; i < first.strides.size(); ++i)
    if (first.strides[i] > 0)
      order.push_back(i);
  llvm::stable_sort(order, [&](size_t x, size_t y) {
    return first.strides[x] > first.strides[y];
  });
  for (size_t dim : order) {
    double at = std::floor(apart / first.strides[dim]);
    if (at >= first.sizes[dim])
      return false;
    apart -= at * first.strides[dim];
  }
  return true;
}

const HeldRegion *Joiner::findRegionAt(const LaunchOperand &operand,
                                       double offset,
                                       const IndexedGraph &graph) const {
  if (operand.storage < 0)
    return nullptr;
  const std::vector<HeldRegion> &held = regions[operand.storage];
  const HeldRegion *only = nullptr;
  for (const HeldRegion &region : held) {
    if (region.graph != &graph)
      continue;
    if (held.size() == 1) {
      for (const HeldRegion &other : region.again)
        if (other.parameter == operand.name)
          return &other;
      // Read by the name under which a part was written.
      for (const HeldRegion &part : region.parts)
        if (part.offset == operand.offset &&
            part.info.shape == operand.info.shape &&
            part.info.stride == operand.info.stride)
          return &part;
      return &region;
    }
    if (!operand.offset || !region.offset)
      continue;
    double inside = *operand.offset + offset - *region.offset;
    auto sizes = [&](const Dim &dim) { return sizeOf(dim); };
    std::optional<Layout> layout = layoutOf(region.info, sizes);
    if (inside == 0 || (layout && inside > 0 &&
                        placeIn(layout->sizes, layout->strides, inside)))
      only = &region;
  }
  return only;
}

const HeldRegion *Joiner::findRegion(const LaunchOperand &operand,
                                     const IndexedGraph &graph) const {
  return findRegionAt(operand, 0, graph);
}

/// What was there before is gone.
void Joiner::writeRegion(const LaunchOperand &operand, HeldRegion region) {
  std::vector<HeldRegion> &held = regions[operand.storage];
  llvm::erase_if(
      held, [&](const HeldRegion &other) { return overlaps(other, operand); });
  held.push_back(std::move(region));
}

/// Whether the parts stand where the concatenation puts its operands.
bool Joiner::isPutTogether(uint32_t cat, ArrayRef<const HeldRegion *> parts,
                           const TensorInfo &storage,
                           const IndexedGraph &graph) const {
  auto sizes = [&](const Dim &dim) { return sizeOf(dim); };
  auto sizesOf = [&](uint32_t node) -> std::optional<Layout> {
    if (graph[node].results.size() != 1)
      return std::nullopt;
    TensorInfo rowMajor = graph[node].results.front();
    rowMajor.stride.clear();
    return layoutOf(rowMajor, sizes);
  };
  std::optional<Layout> whole = sizesOf(cat);
  std::optional<Layout> made = layoutOf(storage, sizes);
  if (!whole)
    return true;
  // The steps of what was made first may be another tensor's, and those of
  // parts their own.
  SmallVector<ArrayRef<int64_t>, 3> choices = {whole->strides};
  if (made && made->sizes == whole->sizes)
    choices.push_back(made->strides);
  std::optional<Layout> part = layoutOf(parts.front()->info, sizes);
  if (part && part->strides.size() == whole->sizes.size())
    choices.push_back(part->strides);
  return any_of(choices, [&](ArrayRef<int64_t> strides) {
    int64_t at = *parts.front()->offset;
    for (auto [operand, held] : zip(graph[cat].operands, parts)) {
      if (*held->offset != at)
        return false;
      std::optional<Layout> own = sizesOf(operand);
      if (!own || own->sizes.size() != strides.size())
        return true;
      // They differ in the dimension that they are put together along.
      for (auto [size, all, stride] : zip(own->sizes, whole->sizes, strides))
        at += size != all ? size * stride : 0;
    }
    return true;
  });
}

/// The node whose operands the parts of a storage hold, in order: a
/// concatenation that was written part by part. Its value replaces them.
uint32_t Joiner::joinRegions(int32_t storage, const IndexedGraph &graph) {
  std::vector<HeldRegion> &held = regions[storage];
  if (held.size() < 2)
    return kNoNode;
  std::vector<const HeldRegion *> parts;
  for (const HeldRegion &region : held) {
    if (region.graph != &graph || region.node == kNoNode || !region.offset)
      return kNoNode;
    parts.push_back(&region);
  }
  llvm::sort(parts, [](const HeldRegion *a, const HeldRegion *b) {
    return *a->offset < *b->offset;
  });
  // Another node of the same value may be what it is put together of.
  auto mayBe = [](const HeldRegion &part) {
    SmallVector<uint32_t, 2> nodes = {part.node};
    append_range(nodes, part.rivals);
    return nodes;
  };
  SmallVector<uint32_t> open;
  for (uint32_t node : mayBe(*parts.front()))
    for (uint32_t same : graph.findSame(node))
      append_range(open, graph.users[same]);
  struct Candidate {
    uint32_t node;
    bool hasShape;
    unsigned numExact;
  };
  const TensorInfo &made = program.storages[storage].info;
  SmallVector<Candidate, 2> candidates;
  for (size_t at = 0; at < open.size() && at < 256; ++at) {
    uint32_t user = open[at];
    const GraphNode &node = graph[user];
    if (graph.root[user] != user)
      open.append(graph.users[user].begin(), graph.users[user].end());
    if (opFamily(node.target) != "cat" || node.operands.size() != parts.size())
      continue;
    // Other views of one value are the next best.
    bool isSame = true;
    unsigned numExact = 0;
    for (auto [operand, part] : zip(node.operands, parts)) {
      SmallVector<uint32_t, 2> nodes = mayBe(*part);
      isSame &= any_of(nodes, [&, operand = operand](uint32_t node) {
        return graph.twin[graph.value[operand]] ==
               graph.twin[graph.value[node]];
      });
      numExact += any_of(nodes, [&, operand = operand](uint32_t node) {
        return graph.twin[operand] == graph.twin[node];
      });
    }
    if (!isSame || !isPutTogether(user, parts, made, graph))
      continue;
    bool hasShape =
        node.results.size() == 1 && node.results.front().shape == made.shape;
    candidates.push_back({user, hasShape, numExact});
  }
  auto rank = [](const Candidate &candidate) {
    return std::pair(candidate.hasShape, candidate.numExact);
  };
  // Of several like that the first.
  const Candidate *best = llvm::max_element(
      candidates, [&](const Candidate &a, const Candidate &b) {
        return rank(a) < rank(b);
      });
  if (best == candidates.end())
    return kNoNode;
  uint32_t node = best->node;
  HeldRegion whole;
  whole.info = made;
  whole.graph = &graph;
  whole.node = node;
  whole.writer = parts.back()->writer;
  whole.sure =
      all_of(parts, [](const HeldRegion *part) { return part->sure; }) &&
      none_of(candidates, [&](const Candidate &other) {
        return other.hasShape == best->hasShape &&
               graph.twin[other.node] != graph.twin[node];
      });
  whole.parts = std::move(held);
  held.assign(1, std::move(whole));
  return node;
}

uint32_t Joiner::inputNode(const LaunchOperand &operand,
                           const IndexedGraph &graph) const {
  const HeldRegion *region = findRegion(operand, graph);
  return region ? region->node : kNoNode;
}

/// Finds what is written and never read before it is written again.
void Joiner::findLiveOutputs() {
  std::vector<bool> live(program.storages.size());
  for (int32_t storage : program.returned)
    live[storage] = true;
  for (auto [i, storage] : enumerate(program.storages))
    if (storage.isInput && storage.isMutated)
      live[i] = true;
  for (size_t i = program.launches.size(); i-- > 0;) {
    const WrapperLaunch &launch = program.launches[i];
    for (const LaunchOperand &operand : launch.operands) {
      if (operand.storage < 0 || !(operand.role & KernelParameter::Output))
        continue;
      // What a loop's next turn reads is not followed.
      if (!live[operand.storage] && !launch.inLoop)
        dead.insert({uint32_t(i), operand.storage});
    }
    auto isMutated = [&](const LaunchOperand &operand) {
      return launch.definition >= 0 &&
             operand.parameter <
                 program.kernels[launch.definition].parameters.size() &&
             program.kernels[launch.definition]
                 .parameters[operand.parameter]
                 .isMutated;
    };
    for (const LaunchOperand &operand : launch.operands) {
      bool isWhole =
          operand.storage >= 0 && operand.role == KernelParameter::Output &&
          !isMutated(operand) && !launch.conditional && !launch.inLoop &&
          operand.offset == 0 && elementsOf(operand.info) &&
          elementsOf(operand.info) ==
              elementsOf(program.storages[operand.storage].info);
      if (isWhole)
        live[operand.storage] = false;
    }
    for (const LaunchOperand &operand : launch.operands)
      if (operand.storage >= 0 && operand.role & KernelParameter::Input)
        live[operand.storage] = true;
  }
}

//===----------------------------------------------------------------------===//
// What a launch stores, where its kernel does not say it
//===----------------------------------------------------------------------===//

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
    DenseSet<uint32_t> seen;
    for (size_t at = 0; at < work.size() && !leaves; ++at) {
      uint32_t user = work[at];
      if (!seen.insert(user).second)
        continue;
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

/// What a subgraph left is a result of the operator that it is the body of: the
/// first one of that type that nothing holds yet.
void Joiner::bindResult(const LaunchOperand &operand, IndexedGraph &graph) {
  if (regions[operand.storage].empty() ||
      !(operand.role & KernelParameter::Input))
    return;
  for (uint32_t at = 0; at < graph.graph->nodes.size(); ++at) {
    const GraphNode &node = graph[at];
    bool isResult = node.target == "operator.getitem" &&
                    !node.operands.empty() &&
                    StringRef(graph[node.operands.front()].target)
                        .starts_with("higher_order.");
    if (!isResult || node.results.size() != 1 ||
        !fits(operand, node.results.front()) ||
        !boundResults.insert({&graph, at}).second)
      continue;
    HeldRegion region;
    region.info = operand.info;
    region.graph = &graph;
    region.node = at;
    regions[operand.storage].assign(1, std::move(region));
    return;
  }
}

/// Graph inputs hold their own nodes.
void Joiner::bindInputs(const WrapperLaunch &from, IndexedGraph &graph) {
  for (const LaunchOperand &operand : from.operands) {
    if (operand.storage < 0)
      continue;
    std::vector<HeldRegion> &held = regions[operand.storage];
    auto own = find_if(
        held, [&](const HeldRegion &region) { return region.graph == &graph; });
    // A loop may start with one buffer as two of its values.
    bool isInputAgain = own != held.end() && held.size() == 1 &&
                        own->node != kNoNode &&
                        graph[own->node].op == GraphNode::Placeholder &&
                        graph.graph != sources.postGrad;
    if (own != held.end() && !isInputAgain)
      continue;
    // In a subgraph, the name of the parameter without the function's prefix.
    const Storage &storage = program.storages[operand.storage];
    StringRef name = storage.isInput && graph.graph == sources.postGrad
                         ? storage.name
                         : operand.name;
    if (name.consume_front(from.function))
      name.consume_front("_");
    std::optional<uint32_t> node = graph.graph->find(name);
    bool isInput = node && graph[*node].op == GraphNode::Placeholder;
    if (!isInput) {
      if (graph.graph == sources.postGrad)
        bindResult(operand, graph);
      continue;
    }
    HeldRegion region;
    region.info = storage.info;
    region.graph = &graph;
    region.node = *node;
    if (isInputAgain) {
      region.parameter = operand.name;
      bool isKnown = any_of(own->again, [&](const HeldRegion &other) {
        return other.node == *node;
      });
      if (*node != own->node && !isKnown)
        own->again.push_back(std::move(region));
      continue;
    }
    if (!graph[*node].results.empty()) {
      storageInfo[operand.storage] = graph[*node].results.front();
      if (!region.info.shapeKnown)
        region.info = graph[*node].results.front();
    }
    held.assign(1, std::move(region));
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
/// where that is not known. `proven`: by operand, what is known already.
std::vector<uint32_t> Joiner::matchOutputs(const WrapperLaunch &given,
                                           uint32_t index,
                                           ArrayRef<uint32_t> nodes,
                                           const IndexedGraph &graph,
                                           ArrayRef<uint32_t> proven) {
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
  // What is proven of one buffer is no guess for another.
  auto isProven = [&](size_t i) {
    return i < proven.size() && proven[i] != kNoNode;
  };
  DenseMap<uint32_t, size_t> taken;
  for (size_t i : written)
    if (isProven(i)) {
      out[i] = proven[i];
      ++taken[proven[i]];
    }
  llvm::erase_if(written, isProven);
  // A node with several results (var_mean, an operator on lists) can fill as
  // many buffers.
  auto getRoom = [&](uint32_t node) {
    size_t results = std::max<size_t>(1, graph[node].results.size());
    return results - std::min(results, taken.lookup(node));
  };
  llvm::erase_if(candidates, [&](uint32_t node) {
    return !fitting(node) || !getRoom(node);
  });
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
  SmallVector<size_t> left;
  for (uint32_t node : candidates)
    left.push_back(getRoom(node));
  for (size_t i : written)
    for (auto [node, room] : zip(candidates, left))
      if (room && fits(launch.operands[i], graph[node])) {
        out[i] = node;
        --room;
        break;
      }
  for (auto [i, operand] : enumerate(launch.operands))
    if (operand.role & KernelParameter::Output)
      if (auto it = firstOf.find(operand.storage); it != firstOf.end()) {
        // What is proven of one part of a storage says nothing of another.
        bool isOther = isProven(it->second) &&
                       operand.offset != launch.operands[it->second].offset;
        out[i] = isOther ? kNoNode : out[it->second];
      }
  return out;
}

/// Decides which node each written buffer holds from here on.
void Joiner::setBuffers(const LaunchWork &work, ArrayRef<uint32_t> nodes,
                        const LaunchProof &proof, Launch &to) {
  IndexedGraph &graph = work.graph;
  const WrapperLaunch &launch = work.from;
  std::vector<uint32_t> unstored = findLeaving(nodes, graph);
  llvm::erase_if(unstored, [&](uint32_t node) {
    return is_contained(work.outputs, node) ||
           getWorkKind(graph[node].target) != WorkKind::Reduction;
  });
  size_t nextPartial = 0;
  for (auto [i, operand] : enumerate(launch.operands)) {
    if (!(operand.role & KernelParameter::Output) || operand.storage < 0)
      continue;
    uint32_t node = work.outputs[i];
    HeldRegion region;
    region.offset = operand.offset;
    region.info = operand.info;
    region.graph = &graph;
    region.node = node;
    region.writer = to.index;
    bool isProven = i < proof.outputs.size() && proof.outputs[i] == node;
    region.sure =
        isProven && proof.unique && proof.sure && !proof.tied.contains(i);
    if (isProven)
      region.rivals = proof.rivals.lookup(i);
    // A kernel that computes it adds the bias.
    region.lacksBias = node != kNoNode && proof.withoutBias.contains(node) &&
                       (launch.definition < 0 || !is_contained(nodes, node));
    writtenBy[operand.storage] = to.index;
    partial.erase(operand.storage);
    if (node == kNoNode) {
      if (i < proof.firsts.size())
        region.first = proof.firsts[i];
      if (auto it = proof.multiples.find(i); it != proof.multiples.end())
        region.multiple = it->second;
      if (i < proof.firstsFrom.size() && !proof.firstsFrom[i].empty())
        region.madeFrom = proof.firstsFrom[i];
      else
        region.madeFrom.assign(proof.held.begin(), proof.held.end());
      // A reduction in two stages stores a part of its value.
      if (nextPartial < unstored.size())
        partial[operand.storage] = {unstored[nextPartial++]};
    } else if (launch.definition < 0) {
      const std::vector<TensorInfo> &results = graph[node].results;
      // The node of a member has that member alone.
      bool isMember = graph[node].target == "operator.getitem";
      size_t member = isMember ? 0 : operand.member.value_or(0);
      if (member < results.size())
        storageInfo[operand.storage] = results[member];
      if (!region.info.shapeKnown && results.size() == 1)
        region.info = results.front();
    }
    writeRegion(operand, std::move(region));
    uint32_t joined = joinRegions(operand.storage, graph);
    if (joined != kNoNode &&
        computedBy.try_emplace({&work.graph, joined}, to.index).second) {
      LaunchNode &whole = to.nodes.emplace_back();
      whole.name = graph[joined].name;
      whole.graph = nameOf(graph);
      whole.evidence = {"dataflow"};
      whole.confidence = regions[operand.storage].front().sure
                             ? Confidence::High
                             : Confidence::Medium;
    }
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
