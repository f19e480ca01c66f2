// Runs a kernel's statements for the first element of everything that it
// writes: which values it stores, and which of its arguments each came from.

#ifndef OPPROF_LIB_TARGET_INDUCTORCODE_KERNELRUN_H
#define OPPROF_LIB_TARGET_INDUCTORCODE_KERNELRUN_H

#include "AbstractValue.h"
#include "KernelBody.h"

#include "llvm/ADT/STLFunctionalExtras.h"
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
  /// Parameters that the value was loaded through.
  llvm::SmallBitVector loaded;
};

/// What is in memory before: the element at `offset` from where the argument
/// of that parameter points.
using KernelLoader = llvm::function_ref<AbstractValue(unsigned, double)>;

struct KernelResult {
  /// The last value stored to each place, in the order of first stores.
  std::vector<KernelStore> stores;
  /// Parameters through which it takes what was in memory before.
  llvm::SmallBitVector read;
};

KernelResult runKernel(const KernelBody &body,
                       llvm::ArrayRef<KernelArgument> arguments,
                       KernelLoader load);

} // namespace opprof::inductor

#endif // OPPROF_LIB_TARGET_INDUCTORCODE_KERNELRUN_H
