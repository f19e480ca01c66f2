// Which launch map each call of a compiled graph is of. The host's range round
// a call names the code that runs, where opprof compiled it, or a key of its
// graph; the operators in it, in order, fit the launches of some maps better
// than those of others. A function that was compiled several times has maps
// that are much alike, and there may be no map of one that ran.

#ifndef OPPROF_LIB_JOIN_CALLFITS_H
#define OPPROF_LIB_JOIN_CALLFITS_H

#include "LaunchIndex.h"
#include "opprof/Join/SequenceAlignment.h"
#include "opprof/Join/WrapperFiles.h"

#include "llvm/ADT/SmallVector.h"

#include <map>

namespace opprof::join {

/// How operators of the host fit the launches of a map.
struct CallFit {
  uint32_t map = kNone;
  SequenceAlignment alignment;
  /// The part of operators and launches that match.
  double score = 0;
};

/// The map that a call is taken to be of.
struct CallChoice {
  /// Null where none fits.
  const CallFit *fit = nullptr;
  /// What else the call may be of, for a person; empty where nothing is.
  llvm::StringRef doubt;
  /// The map whose code the range round the call names, or
  /// kNone where that is of none; absent where it names nothing.
  std::optional<uint32_t> named;
};

class CallFits {
public:
  using Operators = llvm::SmallVector<uint32_t>;

  /// `calls` has the operators of each call of `host`. `wrappers` may be null.
  CallFits(const HostTimeline &host, LaunchIndex &index,
           const WrapperFiles *wrappers, std::vector<Operators> calls);

  const Operators &operatorsOf(uint32_t call) const { return calls[call]; }
  const CallChoice &choiceOf(uint32_t call) const { return choices[call]; }

  /// The same for operators outside of calls.
  CallChoice choose(llvm::ArrayRef<uint32_t> operators);

private:
  /// Operators by their keys: those of one graph's calls are alike.
  using Sequence = std::vector<uint64_t>;

  Sequence sequenceOf(llvm::ArrayRef<uint32_t> operators);
  const std::vector<CallFit> &fitsOf(llvm::ArrayRef<uint32_t> operators);
  const CallFit *fitOf(llvm::ArrayRef<uint32_t> operators, uint32_t map);
  void chooseNamed();
  void chooseByKey();
  void chooseByOperators();
  void settleShapes();
  bool isOfMap(llvm::ArrayRef<uint32_t> operators, const CallFit &fit) const;

  const HostTimeline &host;
  LaunchIndex &index;
  const WrapperFiles *wrappers;
  std::vector<Operators> calls;
  std::vector<CallChoice> choices;
  std::vector<bool> chosen;
  /// Best first.
  std::map<Sequence, std::vector<CallFit>> fits;
  std::map<std::pair<Sequence, uint32_t>, CallFit> named;
};

} // namespace opprof::join

#endif // OPPROF_LIB_JOIN_CALLFITS_H
