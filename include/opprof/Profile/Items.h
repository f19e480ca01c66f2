// What of a profile takes time, by node, class, module, kernel or operator, and
// step by step: what is ranked within one profile, and compared between two.

#ifndef OPPROF_PROFILE_ITEMS_H
#define OPPROF_PROFILE_ITEMS_H

#include "opprof/Profile/Profile.h"

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace opprof::profile {

/// What kernel time is summed up by.
enum class ItemKind : uint8_t { Node, Class, Module, Kernel, Operator };
inline constexpr size_t kNumItemKinds = 5;

llvm::StringRef stringify(ItemKind kind);
std::optional<ItemKind> parseItemKind(llvm::StringRef text);

/// How an item of one profile is found in another, the surest first.
enum class Match : uint8_t {
  /// The same node of the same graph and module, the same kernel, the same
  /// operator on the same inputs.
  Identity,
  /// The same place of the structure: a class of the same hash, a node of the
  /// same kind and number in its module, a kernel of the same nodes.
  Structure,
  Name,
};
inline constexpr size_t kNumMatches = 3;

llvm::StringRef stringify(Match match);

/// A sum of kernel time under one name.
struct Item {
  std::string name;
  /// What else a person knows it by: its module, its inputs' sizes. May be
  /// empty.
  std::string detail;
  /// Of an item that is a node.
  std::optional<NodeId> node;
  /// What another profile's item must have the same of, for each match; empty
  /// where it cannot be found so.
  std::array<std::string, kNumMatches> keys;
  /// Its kernel time in each repeat, in nanoseconds.
  std::vector<int64_t> timesNs;
  /// Kernels that ran in all repeats.
  uint64_t kernels = 0;

  int64_t totalNs() const;
};

/// A profile's items. A repeat is a steady step, or, where there are none, the
/// whole recording. The items of a repeat sum to its kernel time. Where
/// launches are the repeats, each item has as many as it has launches.
struct ItemTable {
  std::vector<Item> items;
  /// Whether repeats are steps.
  bool hasSteps = false;
  /// Of each repeat, in nanoseconds. A step goes from its start to its end, or
  /// to that of its last kernel, but not into the next one. Wall times are
  /// absent where nothing ran.
  std::vector<int64_t> wallNs, kernelNs;

  size_t repeats() const { return kernelNs.size(); }
};

ItemTable listItems(const Profile &profile, ItemKind by);

/// Kernels that were launched alike, each with the times of its launches: of a
/// recording without a timeline, in which how many were counted says nothing.
ItemTable listLaunches(const Profile &profile);

/// What the profile can be told apart by best: nodes, or else operators, or
/// else kernels.
ItemKind finestKind(const Profile &profile);

} // namespace opprof::profile

#endif // OPPROF_PROFILE_ITEMS_H
