// What library kernels are, by their names. Counters are those of a GPT-2 in
// fp32 that Nsight Compute counted on an H200 (smsp__pipe_tensor_cycles_active,
// mean of all launches).

#include "opprof/Metrics/KernelFamilies.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::metrics;

static constexpr StringLiteral kNamesMMA =
    "the name has the shape or the type of a matrix instruction";
static constexpr StringLiteral kNamesFMA =
    "the name says that products are scalar ones (ffma, simt); 0.0 % counted";
static constexpr StringLiteral kNoProduct = "it multiplies no matrices";
static constexpr StringLiteral kVector =
    "it reads a matrix once, for a vector; there is nothing to reuse";

// One channel a group.
static constexpr StringLiteral kDepthwiseC1K1[] = {"c1_k1"};
static constexpr StringLiteral kDepthwise[] = {"depthwise"};
// Attention.
static constexpr StringLiteral kFmhaCutlass[] = {"fmha_cutlass"};
static constexpr StringLiteral kFlash[] = {"flash_"};
static constexpr StringLiteral kFlashSpace[] = {"flash::"};
static constexpr StringLiteral kFmha[] = {"fmha"};
static constexpr StringLiteral kSdpa[] = {"sdpa"};
static constexpr StringLiteral kAotriton[] = {"attn_fwd"};
static constexpr StringLiteral kAotritonBackward[] = {"attn_bwd"};
// Beside the others.
static constexpr StringLiteral kSplitK[] = {"splitKreduce"};
static constexpr StringLiteral kSplitKLower[] = {"splitk_reduce"};
static constexpr StringLiteral kToNhwc[] = {"nchwToNhwc"};
static constexpr StringLiteral kToNchw[] = {"nhwcToNchw"};
static constexpr StringLiteral kWorkspace[] = {"init_device_workspace"};
static constexpr StringLiteral kEpilogue[] = {"cublasLt::epilogue"};
static constexpr StringLiteral kScale[] = {"scal_kernel<"};
// Vectors.
static constexpr StringLiteral kGemv[] = {"gemv"};
static constexpr StringLiteral kGemvUpper[] = {"GEMV"};
static constexpr StringLiteral kSmallN[] = {"gemmSN"};
static constexpr StringLiteral kDot[] = {"dot_kernel<"};
// Convolutions, before the products that they are made of.
static constexpr StringLiteral kConvTF32[] = {"implicit_gemm", "_tf32"};
static constexpr StringLiteral kConvMMA[] = {"implicit_gemm", "tensor"};
static constexpr StringLiteral kConvWarpGroup[] = {"implicit_gemm",
                                                   "warpgroup"};
static constexpr StringLiteral kConvFMA[] = {"implicit_gemm", "ffma"};
static constexpr StringLiteral kConvHalf[] = {"implicit_gemm", "f16f16"};
static constexpr StringLiteral kConvBF16[] = {"implicit_gemm", "bf16bf16"};
static constexpr StringLiteral kConvSimt[] = {"cutlass", "simt", "fprop"};
static constexpr StringLiteral kConvTensorop[] = {"cutlass", "tensorop",
                                                  "fprop"};
static constexpr StringLiteral kConvCommon[] = {"convolve_common_engine"};
static constexpr StringLiteral kConvSgemm[] = {"convolve_sgemm"};
static constexpr StringLiteral kConv2d[] = {"conv2d_"};
static constexpr StringLiteral kWinogradFP32[] = {"winograd", "Float"};
// Products.
static constexpr StringLiteral kNvjet[] = {"nvjet"};
static constexpr StringLiteral kSimt[] = {"simt"};
static constexpr StringLiteral kTensorop[] = {"tensorop"};
static constexpr StringLiteral kFFMA[] = {"ffma"};
static constexpr StringLiteral kTF32[] = {"tf32"};
static constexpr StringLiteral kWarpGroup[] = {"xmma", "warpgroupsize"};
static constexpr StringLiteral kTensor[] = {"xmma", "tensor"};
static constexpr StringLiteral k1688[] = {"1688"};
static constexpr StringLiteral k16816[] = {"16816"};
static constexpr StringLiteral k884[] = {"s884"};
static constexpr StringLiteral kH884[] = {"h884"};
static constexpr StringLiteral kHMMA[] = {"hmma"};
static constexpr StringLiteral kIMMA[] = {"imma"};
static constexpr StringLiteral kWGMMA[] = {"wgmma"};
static constexpr StringLiteral kSm90Gemm[] = {"cutlass", "GmmaTensor"};
static constexpr StringLiteral kMatrixInstruction[] = {"Cijk_", "_MI"};
static constexpr StringLiteral kXDL[] = {"xdl"};
static constexpr StringLiteral kSgemm[] = {"sgemm"};
static constexpr StringLiteral kDgemm[] = {"dgemm"};

ArrayRef<KernelFamily> opprof::metrics::getKernelFamilies() {
  using enum KernelWork;
  using enum TensorCores;
  static constexpr KernelFamily kTable[] = {
      {kDepthwiseC1K1, DepthwiseConvolution, Unused, kNoProduct},
      {kDepthwise, DepthwiseConvolution, Unused, kNoProduct},
      {kFmhaCutlass, Attention, Used,
       "its tensor pipe was counted at 13.7 %, in fp32: CUTLASS splits fp32 "
       "into tf32"},
      {kFlash, Attention, Used, "FlashAttention's products are MMA alone"},
      {kFlashSpace, Attention, Used, "FlashAttention's products are MMA alone"},
      {kFmha, Attention, Used,
       "cuDNN's and TensorRT's fused attention takes 16-bit and 8-bit types, "
       "whose products are MMA"},
      {kSdpa, Attention, Used, "cuDNN names the MMA of its attention (wmma)"},
      {kAotriton, Attention, Used,
       "AOTriton's attention is tl.dot, which is MFMA on AMD's devices"},
      {kAotritonBackward, Attention, Used,
       "AOTriton's attention is tl.dot, which is MFMA on AMD's devices"},
      {kSplitK, Helper, Unused, "it adds up parts; 0.4 % counted"},
      {kSplitKLower, Helper, Unused, kNoProduct},
      {kToNhwc, Helper, Unused, kNoProduct},
      {kToNchw, Helper, Unused, kNoProduct},
      {kWorkspace, Helper, Unused, kNoProduct},
      {kEpilogue, Helper, Unused, kNoProduct},
      {kScale, Helper, Unused, kNoProduct},
      {kGemv, VectorProduct, Unused, kVector},
      {kGemvUpper, VectorProduct, Unused, kVector},
      {kSmallN, VectorProduct, Unused, kVector},
      {kDot, VectorProduct, Unused, kVector},
      {kConvTF32, Convolution, Used, kNamesMMA},
      {kConvMMA, Convolution, Used, kNamesMMA},
      {kConvWarpGroup, Convolution, Used,
       "products of warp groups are wgmma, which runs on tensor cores only"},
      {kConvFMA, Convolution, Unused, kNamesFMA},
      {kConvHalf, Convolution, Used, kNamesMMA},
      {kConvBF16, Convolution, Used, kNamesMMA},
      {kConvSimt, Convolution, Unused, kNamesFMA},
      {kConvTensorop, Convolution, Used, kNamesMMA},
      {kConvCommon, Convolution, Unused,
       "cuDNN's direct engine sums scalar products"},
      {kConvSgemm, Convolution, Unused, kNamesFMA},
      {kConv2d, Convolution, Unknown, "its name says no more"},
      {kWinogradFP32, Convolution, Unused,
       "Winograd's transformed products in fp32 are scalar ones"},
      {kNvjet, Product, Used,
       "cuBLAS has these for Hopper and later, on wgmma and tcgen05 only"},
      {kSimt, Product, Unused, kNamesFMA},
      {kTensorop, Product, Used, kNamesMMA},
      {kFFMA, Product, Unused, kNamesFMA},
      {kTF32, Product, Used, kNamesMMA},
      {kWarpGroup, Product, Used,
       "products of warp groups are wgmma, which runs on tensor cores only"},
      {kTensor, Product, Used, kNamesMMA},
      {k1688, Product, Used, kNamesMMA},
      {k16816, Product, Used, kNamesMMA},
      {k884, Product, Used, kNamesMMA},
      {kH884, Product, Used, kNamesMMA},
      {kHMMA, Product, Used, kNamesMMA},
      {kIMMA, Product, Used, kNamesMMA},
      {kWGMMA, Product, Used, kNamesMMA},
      {kSm90Gemm, Product, Used, kNamesMMA},
      {kMatrixInstruction, Product, Used,
       "Tensile names the matrix instruction (MI) of rocBLAS and hipBLASLt"},
      {kXDL, Product, Used, "Composable Kernel calls MFMA so"},
      {kSgemm, Product, Unused,
       "cuBLAS names the type and no instruction: scalar products in fp32"},
      {kDgemm, Product, Unknown, "fp64 has tensor cores on some devices only"},
  };
  return kTable;
}

const KernelFamily *opprof::metrics::findKernelFamily(StringRef kernel) {
  for (const KernelFamily &family : getKernelFamilies())
    if (all_of(family.parts,
               [&](StringRef part) { return kernel.contains(part); }))
      return &family;
  return nullptr;
}

bool opprof::metrics::isLayoutConversion(StringRef kernel) {
  static constexpr StringLiteral kParts[] = {
      kToNhwc[0], kToNchw[0],
      // MIOpen's.
      "batched_transpose_", "transpose_NCHW2CNHW", "transpose_CNHW2NCHW"};
  return llvm::any_of(kParts,
                      [&](StringRef part) { return kernel.contains(part); });
}

bool opprof::metrics::isCollective(StringRef kernel) {
  static constexpr StringLiteral kParts[] = {
      "nccl", "all_reduce", "allreduce", "all_gather", "allgather",
      "reduce_scatter", "reducescatter", "all_to_all", "alltoall", "all2all",
      "multimem_", "cross_device_reduce", "nvshmem", "userbuffers", "mscclpp",
      // DeepEP, by whatever name it was built in.
      "ep::internode", "ep::intranode"};
  // An operator of the host hands a collective over, and returns: how long that
  // takes says nothing of the collective, which a thread of gloo's runs.
  if (kernel.starts_with("c10d::") || kernel.starts_with("_c10d_functional"))
    return false;
  for (StringRef part : kParts) {
    size_t at = kernel.find_insensitive(part);
    if (at == StringRef::npos)
      continue;
    // Those of a block or a warp stay on their device.
    StringRef before = kernel.take_front(at).rtrim('_');
    if (!before.ends_with_insensitive("block") &&
        !before.ends_with_insensitive("warp") &&
        !before.ends_with_insensitive("cta"))
      return true;
  }
  return false;
}
