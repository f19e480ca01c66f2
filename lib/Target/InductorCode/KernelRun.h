// Runs a kernel's statements for the first element of everything that it
// writes: which values it stores, and which of its arguments each came from.

#ifndef OPPROF_LIB_TARGET_INDUCTORCODE_KERNELRUN_H
#define OPPROF_LIB_TARGET_INDUCTORCODE_KERNELRUN_H

#include "AbstractValue.h"
#include "KernelBody.h"

#include "llvm/ADT/SmallBitVector.h"

namespace opprof::inductor {

/// An argument of the kernel, by parameter.
struct KernelArgument {
  /// A tensor's memory, or -1.
  int32_t storage = -1;
  /// Elements from the start of the memory.
  double offset = 0;
  /// A number, where it is known.
  std::optional<double> number;
};

/// One value that the kernel leaves in memory.
struct KernelStore {
  unsigned parameter;
  /// Elements from where the argument points.
  double offset;
  AbstractValue value;
  /// Parameters that the value was loaded through; past their number, those
  /// through which it was read back (see getReadBackBit).
  llvm::SmallBitVector loaded;
  /// How often the kernel had read back, and written over, what it stored
  /// through the parameter before.
  unsigned round = 0;
  /// It is read at other places than the first, or was found by `reload`.
  bool isReadBack = false;
  /// Data says where it, or something over it, is stored.
  bool isScattered = false;
};

/// Where `KernelStore::loaded` has what was stored through a parameter, of a
/// kernel with so many.
inline unsigned getReadBackBit(size_t count, unsigned parameter,
                               unsigned round) {
  return count * (1 + round) + parameter;
}

/// The memory behind a kernel's arguments. Offsets are in elements from where
/// the argument of a parameter points.
class KernelMemory {
public:
  virtual ~KernelMemory() = default;
  /// What is there before.
  virtual AbstractValue load(unsigned parameter, double offset) = 0;
  /// It is read at a place that is not known.
  virtual void touch(unsigned parameter) {}
  /// What the kernel itself stored there before, where that is known of all
  /// that it stored through the parameter in that round.
  virtual std::optional<AbstractValue> reload(unsigned parameter,
                                              unsigned round, double offset) {
    return std::nullopt;
  }
  /// Whether the offset may be one of the argument's elements: others may lie
  /// between those, as where several parts are put together.
  virtual bool mayHold(unsigned parameter, double offset) { return true; }
  /// Whether values that the kernel did not store are read there too.
  virtual bool holdsOthers(unsigned parameter) { return false; }
};

struct KernelResult {
  /// The last value stored to each place, in the order of first stores.
  std::vector<KernelStore> stores;
  /// Those that were read back before another took their place.
  std::vector<KernelStore> overwritten;
  /// Parameters through which it takes what was in memory before.
  llvm::SmallBitVector read;
  /// Parameters through which it stored what it then reads at other places
  /// than the first, where the value of nothing else is known.
  llvm::SmallBitVector readBack;
  /// Data gave a place that it read.
  bool readsByData = false;
  /// As KernelStore::loaded: what places were loaded through that it divides.
  llvm::SmallBitVector divided;
  /// By parameter: how many statements store through it.
  llvm::SmallVector<unsigned> storing;
};

/// Another turn than the first of the loops that stand in `depth` others, or
/// another block along that axis: at this share of all of them, the second at
/// least.
struct KernelTurn {
  unsigned depth;
  double share;
};

/// `turn`: runs the kernel for other elements than the first of what it
/// stores. Of what several statements stored through one parameter, nothing is
/// read back then.
KernelResult runKernel(const KernelBody &body,
                       llvm::ArrayRef<KernelArgument> arguments,
                       KernelMemory &memory,
                       std::optional<KernelTurn> turn = std::nullopt);

} // namespace opprof::inductor

#endif // OPPROF_LIB_TARGET_INDUCTORCODE_KERNELRUN_H
