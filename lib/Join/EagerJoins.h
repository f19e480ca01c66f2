// From an eager program's operators to nodes. The operators of a trace and the
// nodes of the exported graph are two sequences of the same program: they are
// aligned by name, sizes and order, one pass through the graph at a time.

#ifndef OPPROF_LIB_JOIN_EAGERJOINS_H
#define OPPROF_LIB_JOIN_EAGERJOINS_H

#include "LaunchIndex.h"

namespace opprof::join {

class EagerJoins {
public:
  /// Aligns what the host ran outside of compiled graphs with each map of a
  /// graph that runs operator by operator.
  EagerJoins(const trace::Trace &trace, const HostTimeline &host,
             LaunchIndex &index);

  /// How the operator that ran `op`, or that encloses it, was joined; not valid
  /// where it was not. A function of autograd's is joined to the node whose
  /// operator recorded it.
  const Join &of(uint32_t op) const;

  /// As above, where `op` has no join and all operators inside it that have one
  /// have the same.
  const Join &within(uint32_t op) const;
  /// That operator, or none.
  uint32_t joinedOp(uint32_t op) const;
  /// The forward operator whose backward `op` runs; empty where none is known.
  llvm::StringRef recorderOf(uint32_t op) const;
  /// Whether `op` runs a function of autograd's, or a step of an optimizer.
  bool isOutside(uint32_t op) const;

  /// What a person should know of each alignment.
  llvm::ArrayRef<std::string> notes() const { return remarks; }
  /// Where passes through a graph begin, in order of time.
  llvm::ArrayRef<int64_t> passStarts() const { return starts; }
  /// By operator of the trace; empty where nothing was joined.
  llvm::ArrayRef<Join> all() const {
    return anyJoined ? llvm::ArrayRef(joins) : llvm::ArrayRef<Join>();
  }
  /// The method of those that ran a node itself, not its backward.
  static constexpr llvm::StringLiteral kForward = "operator";
  /// Whether any operator was joined.
  bool any() const { return anyJoined; }

private:
  void alignThread(uint32_t map, trace::ThreadId thread, LaunchIndex &index);
  void setJoin(uint32_t op, LaunchId launch, const LaunchIndex &index,
               bool sure, bool bySizes);
  void setOtherJoin(uint32_t op, LaunchId launch, const LaunchIndex &index);
  void joinBackward(const trace::Trace &trace, const LaunchIndex &index);

  const HostTimeline &host;
  /// By operator: its own join, and the nearest operator at or round it that
  /// has one.
  std::vector<Join> joins;
  std::vector<uint32_t> joinedBy;
  /// By outermost operator: one of those inside it that are joined, where all
  /// are joined alike.
  std::vector<uint32_t> joinedInside;
  /// By function of autograd's: the forward operator that recorded it.
  llvm::DenseMap<uint32_t, uint32_t> recordedBy;
  std::vector<std::string> remarks;
  std::vector<int64_t> starts;
  bool anyJoined = false;
};

} // namespace opprof::join

#endif // OPPROF_LIB_JOIN_EAGERJOINS_H
