// One element of a tensor, as a number that stands for it. Kernels and graphs
// are evaluated at the same element, from the same made-up inputs: two values
// that differ are different functions of the inputs, two that agree are taken
// for the same.

#ifndef OPPROF_LIB_TARGET_INDUCTORCODE_ABSTRACTVALUE_H
#define OPPROF_LIB_TARGET_INDUCTORCODE_ABSTRACTVALUE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cmath>
#include <cstdint>
#include <optional>

namespace opprof::inductor {

struct AbstractValue {
  double number = 0;
  /// Every step that led to it is modelled.
  bool known = false;
  /// Inputs have part in it: it is no constant and no index.
  bool isData = false;
  /// It tests whether this number is below zero (an index that wraps round).
  std::optional<double> belowZero;

  /// Beside the least number of a type, which masks are made of, what it is
  /// added to would vanish, and its exponential is no number: its digits stand
  /// for it, a tenth of them, as exponentials of tens are as good as nothing.
  static AbstractValue constant(double number) {
    constexpr double kLargest = 1e30;
    if (std::isfinite(number) && std::fabs(number) > kLargest)
      number = std::copysign(std::log10(std::fabs(number)) / 10, number);
    return {number, !std::isnan(number), false, {}};
  }
  static AbstractValue data(double number) {
    return {number, std::isfinite(number), true, {}};
  }
  static AbstractValue unknown(bool isData = true) {
    return {0, false, isData, {}};
  }

  bool agrees(const AbstractValue &other, double tolerance = 1e-6) const;
};

/// The element at `offset` of the input that `seed` stands for. Offsets that
/// depend on data are no whole numbers.
AbstractValue makeInput(uint64_t seed, double offset);

/// What stands for tensors is drawn so often where data gives places. What
/// divides a place leaves small numbers as they are, so that these tell no
/// divisor from another: only the first draw has small ones.
inline constexpr unsigned kPlaceDraws = 10;

/// The same of a tensor of whole numbers, which may be places in another one:
/// they have no part behind the point, as views take places apart. In the first
/// draw they are small and multiply, as nothing equals what it is multiplied
/// with; in others they are anywhere below `limit`, the size of what they are
/// places in. 0: they are none.
AbstractValue makeIndex(uint64_t seed, double offset, int64_t limit,
                        unsigned draw);

/// The result of an operator by ATen's name ("add", "where", "relu") on
/// elements; unknown for one that is not modelled.
AbstractValue applyOperator(llvm::StringRef name,
                            llvm::ArrayRef<AbstractValue> args);

/// Whether a type of a graph, of Triton or of C++ has whole numbers.
bool isWholeType(llvm::StringRef name);

/// What a conversion to a type of whole numbers leaves of the element: of a
/// constant no part behind the point, of data all that tells it.
AbstractValue toWhole(AbstractValue element);

/// The result of reducing `count` elements of which `element` is the first.
/// Reducing in several stages gives the same.
AbstractValue applyReduction(llvm::StringRef name, AbstractValue element,
                             double count);

/// Mean, and the sum of squared distances from it.
std::pair<AbstractValue, AbstractValue> applyWelford(AbstractValue element,
                                                     double count);

/// The maximum, and the sum of exponentials below it.
std::pair<AbstractValue, AbstractValue> applySoftmax(AbstractValue element,
                                                     double count);

} // namespace opprof::inductor

#endif // OPPROF_LIB_TARGET_INDUCTORCODE_ABSTRACTVALUE_H
