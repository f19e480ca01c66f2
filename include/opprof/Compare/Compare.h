// Two sets of recordings of a program, item by item: what became slower, what
// faster, and how sure that is. docs/compare.md has the rules.

#ifndef OPPROF_COMPARE_COMPARE_H
#define OPPROF_COMPARE_COMPARE_H

#include "opprof/Profile/Items.h"
#include "opprof/Profile/Profile.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace opprof::compare {

/// With fewer repeats in a side nothing is said of changes.
inline constexpr size_t kFewestRepeats = 5;
/// How often all comparisons of one pair of equal programs together may call
/// anything a change.
inline constexpr double kFamilyLevel = 1e-4;
/// Items below this share of a step in both sides are not told apart.
inline constexpr double kLeastShare = 0.001;
/// Of itself, what an item changes from one process to the next without any
/// cause in the program: on a GPU, and on a CPU.
inline constexpr double kProcessShareOfGPU = 0.01, kProcessShareOfCPU = 0.05;
/// All items being slower alike, by at most this share, is a clock's work.
inline constexpr double kClockShare = 0.03;

enum class Verdict : uint8_t {
  Same, ///< no change beyond noise
  Slower,
  Faster,
  New,     ///< in B alone
  Gone,    ///< in A alone
  Small,   ///< too short in both to be told apart
  Unknown, ///< too few repeats
  Unclear, ///< beyond noise by itself, and not as one of all that is compared
};

llvm::StringRef stringify(Verdict verdict);

/// A time in both sides. Times are those of a repeat, the trimmed mean of all,
/// in nanoseconds.
struct Change {
  std::optional<double> aNs, bNs;
  /// B less A, where both have it.
  std::optional<double> changeNs;
  /// Of the change, at 95 % for this item alone; absent with too few repeats.
  std::optional<std::pair<double, double>> intervalNs;
  /// What the change had to exceed, with its error, to be called one.
  std::optional<double> floorNs;
  Verdict verdict = Verdict::Unknown;

  /// Whether all of the interval lies further from zero than `ns`.
  bool isBeyond(double ns) const;
  /// `ns` in percent of A's time; absent where that is none.
  std::optional<double> percentOfA(double ns) const;
};

struct ItemChange : Change {
  std::string name, detail;
  std::optional<NodeId> node;
  /// How the item of B was found; absent where it is in one side only.
  std::optional<profile::Match> matchedBy;
  /// Kernels a repeat, in each side; launches, where those are the repeats.
  double aKernels = 0, bKernels = 0;
};

/// What is known of a side, for a person to judge what is compared.
struct Side {
  std::vector<std::string> files;
  /// Recordings, steady steps in all of them, and what was compared: steps, or
  /// recordings where there are enough of those.
  size_t recordings = 0;
  uint64_t steps = 0;
  size_t repeats = 0;
  bool repeatsAreRecordings = false;
  /// Each in words, of all recordings; empty where it is not known.
  std::string device, mode, torch, dtypes, inputs, source;
  bool isCPU = false;
  /// Whose clock the kernels' times are by: "the device's" or "the host's".
  llvm::StringRef clock;
};

/// Something in which the sides are unlike, so that a change may be its.
struct Unlike {
  /// "device", "mode", "torch", "dtypes", "batch" or "source".
  llvm::StringRef what;
  std::string a, b;
};

struct Comparison {
  profile::ItemKind by = profile::ItemKind::Node;
  /// Whether items have the times of a launch, and launches are their repeats:
  /// where neither side has a timeline, as pages of Nsight Compute.
  bool byLaunch = false;
  Side a, b;
  std::vector<Unlike> unlike;
  /// From the start of a step to its end, and what its kernels add up to.
  Change step, kernelTime;
  /// B's time over A's that most kernel time shares, where that may be a
  /// clock's doing: changes count only beyond it too.
  std::optional<double> clockRatio;
  /// The errors were made larger by, as neighbouring repeats are alike.
  double errorGrowth = 1;
  /// Items that could have been called changed.
  size_t compared = 0;
  /// Changed ones first, the largest changes first.
  std::vector<ItemChange> items;
  /// What else to know, in words.
  std::vector<std::string> notes;

  size_t count(Verdict verdict) const;
  size_t count(profile::Match match) const;
  /// What is slower by more than `percent` of A's step: the step, its kernel
  /// time, items. As JSON and pages name them.
  std::vector<std::string> slowerBy(double percent) const;
  /// Whether both sides have enough repeats for anything to be called changed.
  bool isJudged() const;
};

/// Compares recordings: each profile, and the file that it was read from.
/// Without `by` it is what all of them can be told apart by best.
struct Recording {
  const profile::Profile *profile = nullptr;
  std::string file;
};
Comparison compareRecordings(llvm::ArrayRef<Recording> a,
                             llvm::ArrayRef<Recording> b,
                             std::optional<profile::ItemKind> by);

/// Writes the comparison (docs/formats/diff.md) as text that ends in a newline.
void writeComparison(const Comparison &comparison,
                     std::optional<double> failAbovePct, llvm::raw_ostream &os);

} // namespace opprof::compare

#endif // OPPROF_COMPARE_COMPARE_H
