// Evaluates nodes of a graph for one element, as KernelRun.h does kernels: from
// the values that a launch reads to those that it may store.

#ifndef OPPROF_LIB_TARGET_INDUCTORCODE_GRAPHRUN_H
#define OPPROF_LIB_TARGET_INDUCTORCODE_GRAPHRUN_H

#include "AbstractValue.h"
#include "LaunchJoiner.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <map>

namespace opprof::inductor {

/// The members of a list or a tuple in an argument, or null.
const llvm::json::Array *listOf(const llvm::json::Value *value);

class GraphRunner {
public:
  using Place = llvm::SmallVector<double, 4>;
  using Sizes = llvm::function_ref<std::optional<int64_t>(const Dim &)>;

  /// `held`: values that are given; the graph is evaluated from those on.
  GraphRunner(const IndexedGraph &graph, const llvm::DenseSet<uint32_t> &held,
              Sizes sizeOf)
      : graph(graph), held(held), sizeOf(sizeOf) {}

  /// Convolutions among the given values that lack their bias; may be null.
  const llvm::DenseSet<uint32_t> *withoutBias = nullptr;

  /// Whether reductions of a few elements are done element by element, as
  /// kernels do where Inductor unrolls them.
  bool unrolls = false;
  /// Those that leave a single element too: for a CPU these stay loops.
  bool unrollsWhole = false;
  /// Whether that would have made a difference so far.
  bool canUnroll = false;
  /// Which of several draws of places it is evaluated for.
  unsigned draw = 0;

  /// By the first of its twins: the steps of a value that is read at places
  /// between elements, as what stands for one that data gives may be. None
  /// where it is read in several layouts. May be null: row-major order.
  using Layouts = llvm::DenseMap<uint32_t, Place>;
  const Layouts *layouts = nullptr;

  /// The node's value at a place of its shape.
  AbstractValue evaluate(uint32_t node, const Place &place);
  /// At its first element.
  AbstractValue evaluateFirst(uint32_t node);
  /// At the element of that number in row-major order.
  AbstractValue evaluateAt(uint32_t node, double offset);
  /// What stands for element `offset` of a node's given value, in row-major
  /// order. Twins have one value in each draw.
  static AbstractValue given(const IndexedGraph &graph, uint32_t node,
                             double offset, unsigned draw = 0) {
    uint32_t twin = graph.twin[node];
    return graph.mayIndex(node)
               ? makeIndex(twin, offset, graph.placeLimits[twin], draw)
               : makeInput(twin, offset);
  }
  /// The number of a result's dimension, row-major steps between its elements.
  std::optional<Place> shapeOf(uint32_t node) const;
  static Place stepsOf(llvm::ArrayRef<double> shape);

private:
  std::optional<double> offsetIn(uint32_t node, const Place &place) const;
  AbstractValue evaluateCall(uint32_t node, const Place &place);
  std::optional<AbstractValue> evaluateView(uint32_t node, const Place &place);
  AbstractValue evaluateStrided(uint32_t node, uint32_t operand,
                                const Place &place);
  /// The element of `operand` that a view of it shows at `place`; none where
  /// that is not known.
  std::optional<Place> shownPlace(uint32_t node, uint32_t operand,
                                  const Place &place) const;
  /// Where a view shows an element of what it is of, if it does.
  struct PlaceInView {
    Place place;
    bool isInside = false;
  };
  /// None where that is not known.
  std::optional<PlaceInView> findInView(uint32_t view, uint32_t operand,
                                        const Place &place) const;
  AbstractValue evaluateWritten(uint32_t node, uint32_t view, uint32_t source,
                                const Place &place);
  std::optional<AbstractValue> evaluatePart(uint32_t node, const Place &place);
  std::optional<AbstractValue> evaluateReduction(uint32_t node,
                                                 const Place &place);
  std::optional<AbstractValue> evaluateMovement(uint32_t node,
                                                const Place &place);
  std::optional<AbstractValue> evaluateIndexed(uint32_t node,
                                               const Place &place);
  std::optional<AbstractValue> evaluateSource(uint32_t node,
                                              const Place &place);
  std::optional<AbstractValue> evaluateWindow(uint32_t node,
                                              const Place &place);
  /// What a pooling reads for one element of its result.
  struct Window {
    uint32_t operand = 0;
    /// The first element in it, and the ends along its dimensions.
    Place first, end;
    /// Elements in it, and with those of the padding.
    double taps = 1, padded = 1;
  };
  std::optional<Window> findWindow(const GraphNode &node, const Place &place,
                                   size_t rank) const;
  AbstractValue evaluateAverageGradient(const GraphNode &node,
                                        const Place &place, size_t rank);
  AbstractValue reduceWindow(llvm::StringRef by, const Window &window);
  std::optional<Place> windowSizes(const llvm::json::Value *value, size_t rank,
                                   const Place &otherwise) const;
  bool unrollsTo(const Place &sizes) const;
  llvm::SmallVector<Place> reducedPlaces(uint32_t operand, const Place &first,
                                         llvm::ArrayRef<size_t> dims);
  AbstractValue reduce(llvm::StringRef family, uint32_t operand,
                       const Place &first, llvm::ArrayRef<size_t> dims,
                       double correction = 0,
                       std::optional<AbstractValue> mean = std::nullopt);
  AbstractValue evaluatePointwise(uint32_t node, const Place &place);
  AbstractValue evaluateForeach(uint32_t node, uint32_t member,
                                const Place &place);
  /// The element of `operand` that one at `place` of a larger shape is
  /// computed from.
  AbstractValue evaluateBroadcast(uint32_t operand, const Place &place);
  AbstractValue argument(const llvm::json::Value &value, const Place &place);
  const llvm::json::Value *get(const GraphNode &node, size_t position,
                               llvm::StringRef keyword) const;
  std::optional<uint32_t> nodeOf(const llvm::json::Value *value) const;
  std::optional<double> numberOf(const llvm::json::Value *value) const;
  /// Dimensions that an argument names, counted from the front.
  std::optional<llvm::SmallVector<size_t>>
  dimsOf(const llvm::json::Value *value, size_t rank) const;

  const IndexedGraph &graph;
  const llvm::DenseSet<uint32_t> &held;
  Sizes sizeOf;
  /// What was found at first elements, most of what is asked for, and at
  /// others.
  llvm::DenseMap<uint32_t, AbstractValue> knownFirst;
  std::map<std::pair<uint32_t, std::vector<double>>, AbstractValue> known;
  unsigned depth = 0;
};

} // namespace opprof::inductor

#endif // OPPROF_LIB_TARGET_INDUCTORCODE_GRAPHRUN_H
