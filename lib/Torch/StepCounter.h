// Counts the steps of a program while it runs, from the ranges that PyTorch
// marks round what an optimizer or torch.profiler does.

#ifndef OPPROF_LIB_TORCH_STEPCOUNTER_H
#define OPPROF_LIB_TORCH_STEPCOUNTER_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace opprof::observer {

/// A step ends with the optimizer that came last of those that the program
/// steps: of a generator and a discriminator with the one that follows the
/// other, however often that steps. Without optimizers it ends with a step of
/// torch.profiler's.
class StepCounter {
public:
  /// What the end of a range was to the steps.
  enum class Event {
    None,
    /// A step has ended with it.
    Step,
    /// The step that had ended goes on until here: an optimizer was not known
    /// before. Soon after the beginning all that ran until now is one step.
    Longer,
  };

  /// Whether ranges of that name are of any use to `rangeEnded`.
  static bool counts(std::string_view name);

  /// `place` tells optimizers of one class apart.
  Event rangeEnded(std::string_view name, uint32_t place);

  /// How many steps have ended.
  uint64_t steps() const { return count; }
  /// What a step ends with: "SGD.step"; empty before the first.
  std::string endsWith() const;

private:
  struct Optimizer {
    std::string name;
    uint32_t place;
    /// The number of its last step among those of all optimizers, and how far
    /// two of its steps lay apart at most.
    uint64_t last, longestGap;
    /// As which of the steps of all optimizers it came first, and how many
    /// steps had been counted that were then taken for one. Forgotten when it
    /// steps again.
    uint64_t first = 0, merged = 0;
  };

  std::vector<Optimizer> optimizers;
  /// Which of them ends a step.
  size_t ending = 0;
  uint64_t stepped = 0, count = 0;
  bool isProfilers = false;
};

} // namespace opprof::observer

#endif // OPPROF_LIB_TORCH_STEPCOUNTER_H
