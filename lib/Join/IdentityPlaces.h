// What recorded identities stand for.

#ifndef OPPROF_LIB_JOIN_IDENTITYPLACES_H
#define OPPROF_LIB_JOIN_IDENTITYPLACES_H

#include "opprof/Join/Attribution.h"

namespace opprof::join {

/// Why a line of a file that is no map's has no launch.
inline constexpr llvm::StringLiteral kUnknownCode =
    "launched by code that none of the launch maps is of";

/// What an identity that was recorded with a launch stands for.
struct IdentityPlace {
  static constexpr uint32_t kNone = ~uint32_t(0);

  /// Place in AttributionInputs::maps, or none.
  uint32_t map = kNone;
  /// The launches of its line, or of its node, in call order.
  llvm::SmallVector<uint32_t, 1> launches;
  /// A node that is in no launch map.
  bool isNode = false;
  NodeId node;
  /// Why it is neither: one of few texts, to be counted by, and the details.
  llvm::StringRef reason;
  std::string details;
};

/// Finds them: by line of generated code, or by node of a graph that ran node
/// by node.
class IdentityPlaces {
public:
  explicit IdentityPlaces(const AttributionInputs &inputs);

  IdentityPlace find(const trace::Identity &identity) const;

private:
  IdentityPlace findNode(const trace::Identity &identity) const;

  const AttributionInputs &inputs;
  using Launches = llvm::SmallVector<uint32_t, 1>;
  /// By map: launches by their line, and those of one node.
  std::vector<std::map<uint32_t, Launches>> byLine;
  std::vector<NodeIdMap<Launches>> byNode;
};

} // namespace opprof::join

#endif // OPPROF_LIB_JOIN_IDENTITYPLACES_H
