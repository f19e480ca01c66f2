// Whether two sets of repeated times differ: trimmed means, their errors, and
// intervals of differences. docs/compare.md says why these.

#ifndef OPPROF_COMPARE_STATISTICS_H
#define OPPROF_COMPARE_STATISTICS_H

#include "llvm/ADT/ArrayRef.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace opprof::compare {

/// `values` must not be empty.
double meanOf(llvm::ArrayRef<double> values);

/// The share of the repeats that is left out at each end of a trimmed mean: a
/// step that the machine disturbed says nothing of the program.
inline constexpr double kTrim = 0.2;

/// The mean of what is left after the smallest and the largest repeats are.
struct TrimmedMean {
  double mean = 0;
  /// Of the mean, squared: Yuen's, from the winsorized variance; 0 for one
  /// repeat.
  double squaredError = 0;
  /// Repeats that the mean is of.
  size_t kept = 0;
};

/// `values` may be in any order, and must not be empty.
TrimmedMean trimmedMean(llvm::ArrayRef<double> values);

/// The value that Student's t with `freedom` degrees of freedom (above 0)
/// passes with probability `tail`, above 0 and at most 0.5.
double studentQuantile(double tail, double freedom);

/// How far the difference of two trimmed means may be off, with probability
/// `level` at most: Yuen's test for two means of unlike variances. Absent where
/// a side has too few repeats for an error.
std::optional<double> marginOfDifference(const TrimmedMean &a,
                                         const TrimmedMean &b, double level);

/// How much of the next repeat's deviation the last one's foretells, from 0 to
/// 0.9: the correlation of neighbours. Errors of means grow by
/// sqrt((1 + r) / (1 - r)).
double correlationOfNeighbours(llvm::ArrayRef<double> values);

/// Intervals of differences by the bootstrap: repeats are drawn anew in each
/// side, the same ones for all items.
class Bootstrap {
public:
  /// The numbers of repeats in each side. What is drawn depends on nothing
  /// else, so that a comparison always says the same.
  Bootstrap(size_t repeatsOfA, size_t repeatsOfB);

  /// Where the difference of the trimmed means, b - a, lies with a probability
  /// of 95 %.
  std::pair<double, double> interval(llvm::ArrayRef<double> a,
                                     llvm::ArrayRef<double> b) const;

  static constexpr size_t kDraws = 1000;

private:
  /// How often each repeat was drawn, draw by draw.
  std::vector<uint16_t> drawsOfA, drawsOfB;
};

} // namespace opprof::compare

#endif // OPPROF_COMPARE_STATISTICS_H
