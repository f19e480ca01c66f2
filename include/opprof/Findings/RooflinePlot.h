// The roofline of a profile: the arithmetic that kernels do for each byte, the
// rate at which they do it, and what the device allows. What has no place there
// is said too.

#ifndef OPPROF_FINDINGS_ROOFLINEPLOT_H
#define OPPROF_FINDINGS_ROOFLINEPLOT_H

#include "opprof/Profile/Profile.h"

namespace opprof {

/// The steady kernels of one launch, or, of a program without a graph, of one
/// operator with inputs of one size.
struct RooflinePoint {
  /// Places in Profile::launches or in Profile::operators: one of them.
  std::optional<uint32_t> launch;
  std::optional<uint32_t> op;
  /// The longest of the kernels, in Profile::kernels.
  uint32_t kernel = 0;
  uint64_t kernels = 0;
  int64_t timeNs = 0;
  /// FLOPs a byte, by the model of costs.
  double intensity = 0;
  double flopsPerSecond = 0;
  /// What its products are held against, what bounds it and its share of the
  /// roof; nothing without ceilings.
  profile::Precision ceiling = profile::Precision::FP32;
  profile::Bound bound = profile::Bound::Unknown;
  double roofPct = 0;
};

/// Why kernels have no place among the points.
enum class NoPlace : uint8_t {
  Arithmetic, ///< they do none: they only move data
  Model,      ///< no formula for what they do, or a size is not known
  Sizes,      ///< sizes were not recorded
  Type,       ///< it is not known of which type the products are
  Launch,     ///< they are joined to no launch
  Operator,   ///< no operator that was recorded launched them
};

struct KernelsOfName {
  llvm::StringRef name;
  uint64_t kernels = 0;
  int64_t timeNs = 0;
};

struct WithoutPlace {
  NoPlace why = NoPlace::Model;
  uint64_t kernels = 0;
  int64_t timeNs = 0;
  /// Longest first.
  std::vector<KernelsOfName> names;
};

struct RooflinePlot {
  /// Of the busiest device, whose kernels these are; absent where they are not
  /// known.
  std::optional<profile::evidence::Ceilings> ceilings;
  /// Longest first; their times and those without sum to the device's steady
  /// kernels.
  std::vector<RooflinePoint> points;
  std::vector<WithoutPlace> without;
  /// Steps that times are over.
  int64_t steps = 1;
};

/// `profile`, which must outlive the plot, has its findings or not.
RooflinePlot plotRoofline(const profile::Profile &profile);

} // namespace opprof

#endif // OPPROF_FINDINGS_ROOFLINEPLOT_H
