// One side of a comparison: several recordings as one table of items.

#ifndef OPPROF_LIB_COMPARE_SIDES_H
#define OPPROF_LIB_COMPARE_SIDES_H

#include "opprof/Compare/Compare.h"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace opprof::compare {

/// Which items of `to` are those of `from`, and how each was found; one of `to`
/// is found once.
struct Found {
  std::optional<uint32_t> place;
  profile::Match match = profile::Match::Identity;
};
std::vector<Found> matchItems(llvm::ArrayRef<profile::Item> from,
                              llvm::ArrayRef<profile::Item> to);

/// A series of one time, and how far its recordings are apart.
struct Series {
  std::vector<double> values;
  /// The largest mean of a recording less the smallest; 0 for one recording.
  double apart = 0;
};

struct SideTable {
  Side side;
  std::vector<profile::Item> items;
  /// Item by item.
  std::vector<Series> times;
  Series wall, kernels;
  /// Steps, or recordings without any, that kernels were counted in.
  size_t counted = 0;
  /// Of operators that take 1 % of the time: the sizes that each, by name, is
  /// called with.
  std::map<std::string, std::set<std::string>> sizes;
};

/// What the repeats of a comparison are.
enum class Repeats { Steps, Recordings, Launches };

SideTable tabulate(llvm::ArrayRef<Recording> recordings, profile::ItemKind by,
                   Repeats repeats);

/// In what the sides differ.
std::vector<Unlike> findUnlike(const SideTable &a, const SideTable &b);

} // namespace opprof::compare

#endif // OPPROF_LIB_COMPARE_SIDES_H
