// What library kernels are, by their names. The one table of families: what
// each computes, whether it runs on tensor cores, and how that is known.

#ifndef OPPROF_METRICS_KERNELFAMILIES_H
#define OPPROF_METRICS_KERNELFAMILIES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>

namespace opprof::metrics {

/// What the kernels of a family compute.
enum class KernelWork : uint8_t {
  Product,
  Attention,
  Convolution,
  /// With a channel to a group: sums of few products each, and no matrices.
  DepthwiseConvolution,
  /// Products with a vector, which read each value once.
  VectorProduct,
  /// Beside one of the others: sums of parts, layouts, workspaces.
  Helper,
};

/// Whether they use the tensor cores.
enum class TensorCores : uint8_t { Used, Unused, Unknown };

struct KernelFamily {
  /// What a kernel's name has to contain: all of them.
  llvm::ArrayRef<llvm::StringLiteral> parts;
  KernelWork work;
  TensorCores tensorCores;
  /// How that is known.
  llvm::StringLiteral evidence;
};

/// All of them; the first that fits counts.
llvm::ArrayRef<KernelFamily> getKernelFamilies();

/// Null where the name is of no known family.
const KernelFamily *findKernelFamily(llvm::StringRef kernel);

/// Whether the kernel turns tensors of convolutions from channels first to last
/// or back, as cuDNN and MIOpen do where their kernels want another layout than
/// they are given.
bool isLayoutConversion(llvm::StringRef kernel);

/// Whether the kernel is a collective among devices: of NCCL or RCCL, or of
/// PyTorch's symmetric memory, vLLM, SGLang and TensorRT-LLM, which have their
/// own.
bool isCollective(llvm::StringRef kernel);

} // namespace opprof::metrics

#endif // OPPROF_METRICS_KERNELFAMILIES_H
