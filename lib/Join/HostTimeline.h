// How the host's operators nest.

#ifndef OPPROF_LIB_JOIN_HOSTTIMELINE_H
#define OPPROF_LIB_JOIN_HOSTTIMELINE_H

#include "PlacesById.h"

#include "opprof/Support/Intervals.h"
#include "opprof/Trace/Trace.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"

namespace opprof::join {

/// The number of no range, operator, map or launch.
inline constexpr uint32_t kNone = ~uint32_t(0);

/// What an observer notes while Dynamo compiles.
inline constexpr llvm::StringLiteral kCompilationEvent = "compilation";

/// Operators and marked ranges of a trace, nested by thread and time.
class HostTimeline {
public:
  explicit HostTimeline(const trace::Trace &trace);

  const trace::HostOp &op(uint32_t index) const { return trace.hostOps[index]; }
  const trace::OperatorInputs &inputsOf(uint32_t index) const {
    return trace.inputsOf(op(index));
  }
  /// The type of the first input of the innermost operator at or round `op` of
  /// which it is known: what autocast calls again has what it cast.
  llvm::StringRef firstTypeAround(uint32_t op) const;
  /// The same of an outermost operator, at or in it.
  llvm::StringRef firstTypeWithin(uint32_t top) const;
  /// The range directly round `op`, or none.
  uint32_t parent(uint32_t op) const { return parents[op]; }
  /// The innermost range of `thread` that contains `time`, or none.
  uint32_t enclosing(trace::ThreadId thread, int64_t time) const;
  /// The operator that record function `externalId` is, or none.
  uint32_t byExternalId(uint64_t externalId) const;

  /// Calls of compiled graphs, in order of time.
  llvm::ArrayRef<uint32_t> calls() const { return callOps; }
  /// Whether `op` ran while its thread compiled, as an observer noted it: what
  /// Dynamo traces a program with, and none of the program's own work.
  bool isCompiling(uint32_t op) const;

  /// Operators and ranges of a thread, outer ones first, in order of time.
  llvm::ArrayRef<uint32_t> opsOf(trace::ThreadId thread) const {
    return byThread[thread];
  }

  /// The call (a position in calls()) that `op` runs in, or none.
  uint32_t callOf(uint32_t op) const { return callOfOp[op]; }
  /// The outermost operator at or round `op`, within its call if it is in one.
  /// None where only marked ranges are.
  uint32_t topOf(uint32_t op) const { return tops[op]; }
  /// What the host called that `op` is in: the outermost operator, or else the
  /// innermost function that a recorder lists among operators without a
  /// namespace ("CompiledFunction", "Torch-Compiled Region: 0/0"). None where
  /// only marked ranges are, and for none.
  uint32_t calleeOf(uint32_t op) const;
  /// Outermost operators of a call, in order of time.
  llvm::ArrayRef<uint32_t> topsOfCall(uint32_t call) const {
    return callTops[call];
  }
  /// Outermost operators outside all calls, in order of time.
  llvm::ArrayRef<uint32_t> topsOutside() const { return outsideTops; }

private:
  const trace::Trace &trace;
  std::vector<uint32_t> parents;
  std::vector<uint32_t> callOfOp;
  std::vector<uint32_t> tops;
  std::vector<uint32_t> callOps;
  std::vector<std::vector<uint32_t>> callTops;
  std::vector<uint32_t> outsideTops;
  /// Operators of each thread by start.
  std::vector<std::vector<uint32_t>> byThread;
  /// When each thread compiled.
  std::vector<std::vector<Interval>> compilations;
  PlacesById externalIds;
  /// Of outermost operators what they called under their own name, with inputs.
  llvm::DenseMap<uint32_t, uint32_t> calledAgain;
};

/// True for an operator or a generated kernel; false for the ranges that
/// PyTorch puts round them (compiled regions, autograd's bookkeeping).
bool isOperator(const trace::HostOp &op);

} // namespace opprof::join

#endif // OPPROF_LIB_JOIN_HOSTTIMELINE_H
