// The join of a wrapper's launches to nodes, kept between launches.
// Launches.cpp walks them. LaunchNodes.cpp proposes the nodes that records
// mean, LaunchProof.cpp proves what a kernel's body computes and a call's
// arguments mean, LaunchWork.cpp decides. LaunchBuffers.cpp follows the values
// through regions of memory, LaunchCosts.cpp counts.

#ifndef OPPROF_LIB_TARGET_INDUCTORCODE_LAUNCHJOINER_H
#define OPPROF_LIB_TARGET_INDUCTORCODE_LAUNCHJOINER_H

#include "GraphWrites.h"
#include "LaunchProof.h"

#include "opprof/Analysis/Cost/CostModel.h"
#include "opprof/Target/InductorCode/Launches.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSwitch.h"

namespace opprof::inductor {

inline constexpr uint32_t kNoNode = ~0u;

/// Work that Inductor fuses into kernels of its own.
bool isFusible(const GraphNode &node);

/// Products, convolutions and attention: library calls or templates.
bool isLibraryWork(const GraphNode &node);

/// Whether it gives the gradient of an average: of what was averaged it takes
/// nothing but the sizes.
bool isGradientOfAverage(llvm::StringRef family);

/// What stands in an argument: another node or a number.
struct Argument {
  std::optional<uint32_t> node;
  std::optional<double> number;
};

/// The nodes and numbers among all arguments and the members of lists.
using ArgumentTable = llvm::DenseMap<const llvm::json::Value *, Argument>;
ArgumentTable readArguments(const GraphView &graph);

/// A graph with what the join asks of it again and again.
struct IndexedGraph {
  const GraphView *graph;
  std::vector<std::vector<uint32_t>> users;
  /// The node whose value a chain of views and getitems shows.
  std::vector<uint32_t> root;
  /// As `root`, but results of an operator with several are values of their
  /// own.
  std::vector<uint32_t> value;
  std::vector<bool> isOutput;
  /// By node: "mm" of a call of aten.mm.default.
  std::vector<llvm::StringRef> family;
  llvm::StringMap<std::vector<uint32_t>> byFamily;
  /// Whether a node is a view, work of generated kernels or of a library: asked
  /// of each node for every launch near it.
  std::vector<bool> view, fusible, library;
  /// Calls that read no node.
  std::vector<uint32_t> sources;
  /// What a generated kernel can compute without reading anything.
  std::vector<bool> selfMade;
  /// By node: the first one of the same value, itself mostly: what computes the
  /// same of the same, or what it copies.
  std::vector<uint32_t> twin;
  /// By first one: it and the others that compute the same.
  llvm::DenseMap<uint32_t, std::vector<uint32_t>> twins;
  /// By first one: the size of the smallest dimension that places which are
  /// computed from it are in; 0 where it leads to none.
  std::vector<int64_t> placeLimits;
  ArgumentTable arguments;

  explicit IndexedGraph(const GraphView &view) : graph(&view) {
    users = view.users();
    arguments = readArguments(view);
    root.resize(view.nodes.size());
    value.resize(view.nodes.size());
    this->view.resize(view.nodes.size());
    fusible.resize(view.nodes.size());
    library.resize(view.nodes.size());
    family.resize(view.nodes.size());
    isOutput.resize(view.nodes.size());
    for (uint32_t i = 0; i < view.nodes.size(); ++i) {
      const GraphNode &node = view.nodes[i];
      root[i] = value[i] = i;
      if (node.op == GraphNode::Call) {
        bool isView = isViewTarget(node.target);
        bool isPart = node.target == "operator.getitem";
        if (node.operands.empty()) {
          sources.push_back(i);
        } else if (isView || isPart) {
          uint32_t from = node.operands.front();
          root[i] = root[from];
          // A part of a split is a view, one of several results is not.
          bool isOwn = isPart && view.nodes[from].op == GraphNode::Call &&
                       !isViewTarget(view.nodes[from].target);
          value[i] = isOwn ? i : value[from];
        }
        this->view[i] = isView || root[i] != i;
        // What is written through a view, as a value (see followWrites).
        bool isWritten =
            opFamily(node.target) == "copy_" && !node.operands.empty() &&
            this->view[node.operands.front()] &&
            (!users[i].empty() || llvm::is_contained(graph->outputs, i));
        fusible[i] = isFusible(node) || isWritten;
        library[i] = isLibraryWork(node);
        family[i] = opFamily(node.target);
        byFamily[family[i]].push_back(i);
      }
    }
    for (uint32_t output : view.outputs)
      isOutput[root[output]] = true;
    findTwins();
    placeLimits.resize(view.nodes.size());
  }

  const GraphNode &operator[](uint32_t i) const { return graph->nodes[i]; }
  bool isView(uint32_t i) const { return view[i]; }
  /// Whether a copy's way back to what it shows leads through a view that puts
  /// elements elsewhere: the first may be the same, and the others are not.
  bool movesElements(uint32_t copy, uint32_t from) const {
    while (copy != from && !graph->nodes[copy].operands.empty() &&
           (isView(copy) || isClone(copy))) {
      if (llvm::StringSwitch<bool>(family[copy])
              .Cases({"permute", "transpose", "t", "as_strided"}, true)
              .Default(false))
        return true;
      copy = graph->nodes[copy].operands.front();
    }
    return false;
  }
  /// Whether its one result has complex numbers.
  bool isComplex(uint32_t i) const {
    const std::vector<TensorInfo> &results = graph->nodes[i].results;
    return results.size() == 1 &&
           llvm::StringRef(results.front().dtype).starts_with("complex");
  }
  bool isClone(uint32_t i) const {
    return family[i] == "clone" && !graph->nodes[i].operands.empty();
  }
  /// Whether a generated kernel can make it of its operands.
  bool isKernelWork(uint32_t i) const {
    return graph->nodes[i].op == GraphNode::Call &&
           (view[i] || fusible[i] ||
            graph->nodes[i].target == "operator.getitem");
  }
  /// The nodes whose value is there where the node's is: it, its twins, and
  /// what it copies.
  llvm::SmallVector<uint32_t, 2> findSame(uint32_t node) const;
  /// Whether it is one tensor of whole numbers, which may be places in another.
  bool mayIndex(uint32_t i) const {
    const std::vector<TensorInfo> &results = graph->nodes[i].results;
    return results.size() == 1 && (results.front().dtype == "int64" ||
                                   results.front().dtype == "int32");
  }
  /// The operands that a node's value is computed from.
  llvm::ArrayRef<uint32_t> valueOperands(uint32_t i) const {
    llvm::ArrayRef<uint32_t> operands = graph->nodes[i].operands;
    return isGradientOfAverage(family[i]) ? operands.take_front() : operands;
  }
  /// To be called once it is known which nodes no kernel computes.
  void findSelfMade();
  /// `sizeOf`: the number of a dimension, where it has one.
  void findPlaceLimits(
      llvm::function_ref<std::optional<int64_t>(const Dim &)> sizeOf);

private:
  void findTwins();
  bool sameArgument(const llvm::json::Value &a,
                    const llvm::json::Value &b) const;
};

/// A part of a storage and the value that it holds.
struct HeldRegion {
  /// Elements from the start of the storage; absent where it is no number.
  std::optional<int64_t> offset = 0;
  TensorInfo info;
  const IndexedGraph *graph = nullptr;
  /// kNoNode where the value is no node's, or not known.
  uint32_t node = kNoNode;
  /// It is proven that it holds the node's value.
  bool sure = true;
  /// Nodes whose value it may as well be.
  llvm::SmallVector<uint32_t, 1> rivals = {};
  /// The node is a convolution whose bias a later launch adds.
  bool lacksBias = false;
  /// The launch that wrote it, or kNoNode.
  uint32_t writer = kNoNode;
  /// Without a node: what stands for its first element, and the nodes that it
  /// was computed from.
  AbstractValue first = AbstractValue::unknown();
  std::vector<uint32_t> madeFrom = {};
  /// Without a node: it is this many times the value of that one, as the sum
  /// of squares that a variance is divided from.
  std::optional<ScaledNode> multiple = {};
  /// Of a concatenation, what it was put together from.
  std::vector<HeldRegion> parts = {};
  /// An input of a body: the same memory as other inputs of it, each read by
  /// its parameter's name.
  std::vector<HeldRegion> again = {};
  std::string parameter = {};
};

/// What stands for one element of a tensor.
struct ElementAt {
  llvm::SmallVector<double, 4> place;
  AbstractValue value;
};

/// A node that records name for a launch, and which.
struct FoundNode {
  uint32_t node;
  std::vector<std::string> evidence;
};

/// Whether something other than dataflow names it.
inline bool isRecord(const FoundNode &found) {
  return llvm::any_of(found.evidence, [](const std::string &evidence) {
    return evidence != "dataflow";
  });
}

/// What goes into a launch.
struct LaunchInputs {
  /// By operand: the node whose value it holds, where it is read and known.
  std::vector<uint32_t> nodes;
  /// The nodes whose values go in.
  llvm::DenseSet<uint32_t> available;
  /// Those of which a part goes in: the launch is a second stage.
  llvm::SmallSet<uint32_t, 4> continued;
  /// Whether the value of every buffer that is read is known.
  bool known = true;
};

/// What decides which of the nodes that records name a launch computes.
struct LaunchWork {
  const WrapperLaunch &from;
  uint32_t index;
  IndexedGraph &graph;
  /// A kernel that Inductor generated.
  bool isGenerated = false;
  /// A library call or a user's kernel of which the node is among those named.
  bool hasCalled = false;
  LaunchInputs inputs = {};
  /// What can be computed from what goes in.
  llvm::DenseSet<uint32_t> computable = {};
  /// By operand: the node that a written one holds afterwards.
  std::vector<uint32_t> outputs = {};
  /// What is stored, and what that is computed from.
  llvm::DenseSet<uint32_t> needed = {};
  /// Whether `needed` says what becomes of every buffer that is written.
  bool allStored = false;
};

/// Where element `place` of the memory stands in a tensor of these sizes and
/// steps that starts at 0; none where it stands between its elements or
/// outside.
std::optional<llvm::SmallVector<double, 4>>
placeIn(llvm::ArrayRef<int64_t> sizes, llvm::ArrayRef<int64_t> strides,
        double place);

class KernelProver;

class Joiner {
public:
  explicit Joiner(const LaunchSources &given)
      : sources(given), program(given.program) {
    if (sources.postGrad && (written = followWrites(*sources.postGrad)))
      sources.postGrad = &*written;
  }

  launch::LaunchMap run();

private:
  friend class KernelProver;

  void findFunctions();
  void countCalls();
  void markCalled(IndexedGraph &graph) const;
  IndexedGraph &graphOf(const WrapperLaunch &launch);
  // Which nodes records mean.
  std::vector<FoundNode> findNodes(const WrapperLaunch &launch, uint32_t index,
                                   IndexedGraph &graph);
  std::vector<uint32_t> findProvenance(const WrapperLaunch &launch,
                                       uint32_t index,
                                       const IndexedGraph &graph);
  llvm::DenseSet<uint32_t> findSourceNodes(const WrapperLaunch &launch,
                                           const IndexedGraph &graph);
  std::vector<uint32_t> findCopy(const WrapperLaunch &launch,
                                 const IndexedGraph &graph);
  bool isStale(llvm::ArrayRef<uint32_t> nodes, const IndexedGraph &graph) const;
  std::vector<LaunchOperand>
  withWholeOutputs(const WrapperLaunch &launch) const;
  std::vector<uint32_t> findCone(const WrapperLaunch &given,
                                 IndexedGraph &graph);
  std::vector<uint32_t> findCone(const WrapperLaunch &given,
                                 IndexedGraph &graph, bool again,
                                 bool &isFilled);
  std::vector<uint32_t> namesToNodes(llvm::ArrayRef<std::string> names,
                                     const IndexedGraph &graph);
  std::vector<uint32_t> findExtern(const WrapperLaunch &launch,
                                   IndexedGraph &graph);
  std::vector<uint32_t> repeatFirstUse(const WrapperLaunch &launch,
                                       IndexedGraph &graph);
  // Which of them the launch computes.
  void fillLaunch(const WrapperLaunch &from, uint32_t index,
                  launch::Launch &to);
  std::vector<uint32_t> findTakers(const LaunchWork &work,
                                   const LaunchProof &proof) const;
  std::vector<uint32_t> decideProven(llvm::ArrayRef<FoundNode> found,
                                     const LaunchWork &work,
                                     const LaunchProof &proof,
                                     launch::Launch &to);
  std::vector<uint32_t> decideListed(std::vector<FoundNode> found,
                                     LaunchWork &work, const LaunchProof &proof,
                                     launch::Launch &to);
  void addPutTogether(const LaunchWork &work,
                      std::vector<FoundNode> &found) const;
  bool isComputedBefore(const LaunchWork &work, uint32_t node) const;
  void setIdentity(const WrapperLaunch &from, uint32_t index,
                   launch::Launch &to) const;
  std::vector<uint32_t> findCandidates(llvm::ArrayRef<uint32_t> nodes,
                                       LaunchWork &work) const;
  void findNeeded(llvm::ArrayRef<uint32_t> candidates, LaunchWork &work,
                  const LaunchProof &proof, bool isRecorded);
  std::vector<uint32_t> addNodes(llvm::ArrayRef<FoundNode> found,
                                 const LaunchWork &work,
                                 const LaunchProof &proof, launch::Launch &to);
  void addContinued(const LaunchWork &work, std::vector<uint32_t> &computed,
                    launch::Launch &to) const;
  /// The name of a graph that is not the map's own.
  std::string nameOf(const IndexedGraph &graph) const;

  // What buffers hold.
  void bindInputs(const WrapperLaunch &from, IndexedGraph &graph);
  LaunchInputs readInputs(const WrapperLaunch &from, const IndexedGraph &graph);
  void findLiveOutputs();
  /// The number of a size: of a symbol, what the harness says it was.
  std::optional<int64_t> sizeOf(const Dim &dim) const;
  TensorInfo withSizes(TensorInfo info) const;
  std::optional<uint64_t> elementsOf(const TensorInfo &info) const;
  bool fits(const LaunchOperand &operand, const TensorInfo &result) const;
  bool fits(const LaunchOperand &operand, const GraphNode &node) const;
  const HeldRegion *findRegion(const LaunchOperand &operand,
                               const IndexedGraph &graph) const;
  /// Whether it is one of the parts of a value that was joined of them.
  bool isPart(const HeldRegion &region, int32_t storage) const {
    return llvm::none_of(regions[storage], [&](const HeldRegion &held) {
      return &held == &region;
    });
  }
  const HeldRegion *findRegionAt(const LaunchOperand &operand, double offset,
                                 const IndexedGraph &graph) const;
  std::optional<double> offsetIn(const HeldRegion &region, double place) const;
  std::optional<llvm::SmallVector<double, 4>>
  stepsOf(const HeldRegion &region, const IndexedGraph &graph) const;
  bool mayHold(const TensorInfo &info, double offset) const;
  bool overlaps(const HeldRegion &region, const LaunchOperand &operand) const;
  void writeRegion(const LaunchOperand &operand, HeldRegion region);
  bool isPutTogether(uint32_t cat, llvm::ArrayRef<const HeldRegion *> parts,
                     const TensorInfo &storage,
                     const IndexedGraph &graph) const;
  uint32_t joinRegions(int32_t storage, const IndexedGraph &graph);

  // What kernels and calls prove.
  LaunchProof prove(const LaunchWork &work, llvm::ArrayRef<FoundNode> found);
  LaunchProof proveCall(const LaunchWork &work,
                        llvm::ArrayRef<FoundNode> found);
  std::vector<ElementAt> otherElements(const LaunchOperand &operand,
                                       const HeldRegion &region,
                                       const IndexedGraph &graph) const;
  LaunchProof proveCopy(const LaunchWork &work,
                        llvm::ArrayRef<FoundNode> found);
  void bindResult(const LaunchOperand &operand, IndexedGraph &graph);
  llvm::DenseSet<uint32_t> findComputable(const IndexedGraph &graph,
                                          const llvm::DenseSet<uint32_t> &held,
                                          std::set<uint32_t> open,
                                          bool &isCut) const;
  bool collectCone(uint32_t node, const IndexedGraph &graph,
                   LaunchProof &proof) const;
  std::vector<uint32_t> matchOutputs(const WrapperLaunch &given, uint32_t index,
                                     llvm::ArrayRef<uint32_t> nodes,
                                     const IndexedGraph &graph,
                                     llvm::ArrayRef<uint32_t> proven = {});
  void setBuffers(const LaunchWork &work, llvm::ArrayRef<uint32_t> nodes,
                  const LaunchProof &proof, launch::Launch &to);
  void addFlops(const WrapperLaunch &launch, const IndexedGraph &graph,
                llvm::ArrayRef<uint32_t> nodes, launch::Launch &to) const;
  void addBytes(const WrapperLaunch &launch, const IndexedGraph &graph,
                llvm::ArrayRef<uint32_t> nodes,
                llvm::ArrayRef<uint32_t> inputNodes, launch::Launch &to) const;
  /// What a library's results take, which have the types of their nodes.
  void addResultBytes(const IndexedGraph &graph, llvm::ArrayRef<uint32_t> nodes,
                      launch::Launch &to) const;
  void addOperands(const WrapperLaunch &launch, launch::Launch &to) const;
  void addNotLaunched(launch::LaunchMap &map);
  llvm::StringRef reasonFor(uint32_t node, const IndexedGraph &graph);
  void assignMissingHandles();
  uint32_t inputNode(const LaunchOperand &operand,
                     const IndexedGraph &graph) const;
  /// What the launch takes from this buffer: scratch memory that it only
  /// passes to be written counts as nothing.
  bool isRead(const LaunchOperand &operand) const;
  TensorInfo infoOf(const LaunchOperand &operand) const;
  /// Whether what launch `index` writes there is used afterwards.
  bool isLive(const LaunchOperand &operand, uint32_t index) const {
    return operand.storage < 0 || !dead.contains({index, operand.storage});
  }

  LaunchSources sources;
  /// The post-grad graph, where it writes through views.
  std::optional<GraphView> written;
  const WrapperProgram &program;
  GraphView fragments;
  llvm::StringMap<std::unique_ptr<IndexedGraph>> graphs;
  /// By function of the wrapper: the body that it runs.
  llvm::StringMap<const GraphView *> functions;
  /// By family of operators: calls that may compute one.
  llvm::StringMap<size_t> calls;
  /// The values that a storage holds, by storage.
  std::vector<std::vector<HeldRegion>> regions;
  /// (launch, storage) of what nobody reads afterwards.
  llvm::DenseSet<std::pair<uint32_t, int32_t>> dead;
  /// What the nodes say of a storage where the wrapper does not.
  std::vector<TensorInfo> storageInfo;
  /// Launches that computed a node: (graph, node) -> first launch.
  llvm::DenseMap<std::pair<const IndexedGraph *, uint32_t>, uint32_t>
      computedBy;
  /// Of those nodes, which only launches did that may have computed others.
  llvm::DenseSet<std::pair<const IndexedGraph *, uint32_t>> unsure;
  /// By launch: what it computed, for the first time or again.
  llvm::DenseMap<uint32_t, std::vector<uint32_t>> computedIn;
  /// The storages that a launch wrote.
  llvm::DenseMap<int32_t, uint32_t> writtenBy;
  /// Results of operators with bodies that a buffer was found for.
  llvm::DenseSet<std::pair<const IndexedGraph *, uint32_t>> boundResults;
  /// Nodes whose value a storage holds in part: the first stage of a reduction.
  llvm::DenseMap<int32_t, std::vector<uint32_t>> partial;
  /// First use of a definition: its nodes and the node each parameter held.
  struct FirstUse {
    std::vector<uint32_t> nodes;
    std::vector<uint32_t> operandNodes;
  };
  llvm::DenseMap<int32_t, FirstUse> firstUses;
  std::vector<std::optional<int64_t>> handles;
  /// Sizes by how they are written, those that are symbols by the harness.
  mutable llvm::StringMap<std::optional<int64_t>> sizes;
  /// Operands of the launch at hand that are passed to be written only.
  llvm::DenseSet<const LaunchOperand *> scratch;
};

/// The operators that a call of `kernel` may compute, by their families.
llvm::SmallVector<llvm::StringRef, 4> externFamilies(llvm::StringRef kernel);

/// Whether a call of `kernel` computes an operator of this family.
inline bool isExternFamily(llvm::StringRef kernel, llvm::StringRef family) {
  return llvm::is_contained(externFamilies(kernel), family);
}

/// Nodes whose value is used outside of `nodes`, through views.
std::vector<uint32_t> findLeaving(llvm::ArrayRef<uint32_t> nodes,
                                  const IndexedGraph &graph);

} // namespace opprof::inductor

#endif // OPPROF_LIB_TARGET_INDUCTORCODE_LAUNCHJOINER_H
