// Bodies of higher-order operators in place of their calls.

#ifndef OPPROF_LIB_TARGET_INDUCTORCODE_ALIGNMENTBODIES_H
#define OPPROF_LIB_TARGET_INDUCTORCODE_ALIGNMENTBODIES_H

#include "opprof/Target/InductorCode/GraphView.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringSet.h"

#include <utility>

namespace opprof::inductor {

/// What a higher-order operator does with the graphs that it is given.
enum class BodyUse : uint8_t {
  None,   ///< nothing that is known, or it is no such operator
  Once,   ///< runs the one that it has, whatever its operands are
  Choice, ///< runs one of several
  Loop    ///< runs them any number of times
};

BodyUse getBodyUse(llvm::StringRef target);

inline bool isHigherOrder(const GraphNode &node) {
  return llvm::StringRef(node.target).starts_with("higher_order.");
}

/// Whether `operand` only names a body of `call`: printed graphs read bodies as
/// attributes, which have no type.
inline bool isBodyName(const GraphNode &call, const GraphNode &operand) {
  return isHigherOrder(call) && operand.op == GraphNode::GetAttr &&
         operand.results.empty();
}

/// How much may be put in place of calls: a body that is called often is as
/// many copies of it. A few times what the exported program is, in nodes and
/// members of their arguments; what goes beyond is left as it is, and counted.
class BodyBudget {
public:
  BodyBudget() = default;
  explicit BodyBudget(const GraphView &exported);

  /// Whether a copy of the body may be made.
  bool take(const GraphView &body);
  /// How often it was refused.
  uint64_t refused() const { return numRefused; }

private:
  size_t sizeOf(const GraphView &body);

  llvm::DenseMap<const GraphView *, size_t> sizes;
  size_t left = 0;
  uint64_t numRefused = 0;
};

struct InlinedGraph {
  GraphView graph;
  /// The graph that each node lies in, and its place there.
  std::vector<std::pair<const GraphView *, uint32_t>> origins;
};

/// `view`, the exported graph or one of its bodies, without calls of bodies
/// that run once, as a region of autocast does. What chooses or repeats a body
/// (cond, while_loop) stays, and so do operators of `kept`, which the compiled
/// graph calls too, and what the budget refuses.
InlinedGraph inlineBodies(const GraphView &exported, const GraphView &view,
                          const llvm::StringSet<> &kept, BodyBudget &budget);

/// The body that such a call runs, or null.
const GraphView *findBody(const GraphView &exported, const GraphNode &node);

/// The bodies that a call in `view` names, in their order; `whole` is the graph
/// that all bodies are of. None where one of them is not there.
llvm::SmallVector<const GraphView *, 2> findBodies(const GraphView &whole,
                                                   const GraphView &view,
                                                   const GraphNode &call);

/// What goes into the inputs of a call's bodies, in their order: places of
/// nodes, kNoOperand for a number. A branch's predicate goes into none.
inline constexpr uint32_t kNoOperand = ~0u;
llvm::SmallVector<uint32_t> bodyOperands(const GraphNode &call,
                                         const GraphView &view);

} // namespace opprof::inductor

#endif // OPPROF_LIB_TARGET_INDUCTORCODE_ALIGNMENTBODIES_H
