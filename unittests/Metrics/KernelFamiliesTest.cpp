// Tests of the table of kernel families, on names that recorders wrote.

#include "opprof/Metrics/KernelFamilies.h"

#include "llvm/ADT/STLExtras.h"
#include "gtest/gtest.h"

using namespace opprof::metrics;

namespace {

struct Known {
  llvm::StringRef kernel;
  KernelWork work;
  TensorCores tensorCores;
};

TEST(KernelFamilies, RecordedNames) {
  using enum KernelWork;
  using enum TensorCores;
  const Known known[] = {
      {"fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::"
       "AttentionKernel<float, cutlass::arch::Sm80, true, 64>::Params)",
       Attention, Used},
      {"cudnn_generated_fort_native_sdpa_sm80_flash_fprop_wmma_f16_knob_35_"
       "16x128x64_1x4x1_cga1x1x1_kernel0_0",
       Attention, Used},
      {"void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_"
       "traits<64, 128, 128, 4>>(pytorch_flash::Flash_fwd_params)",
       Attention, Used},
      {"conv2d_c1_k1_nhwc", DepthwiseConvolution, Unused},
      {"void at::native::(anonymous namespace)::conv_depthwise2d_forward_"
       "kernel<1, float, int>()",
       DepthwiseConvolution, Unused},
      {"nvjet_sm90_tst_64x64_64x13_2x1_v_bz_bias_TNT", Product, Used},
      {"void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>()",
       Product, Unused},
      {"void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_64x64_16x6>()",
       Product, Used},
      {"sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize64x64x8_stage3_"
       "warpsize1x4x1_ffma_aligna4_alignc4_execute_kernel__5x_cublas",
       Product, Unused},
      {"sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_"
       "warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
       Product, Used},
      {"sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nchwkcrs_nchw_"
       "tilesize256x64x8_stage3_warpsize2x2x1_g1_ffma_aligna4_alignc4",
       Convolution, Unused},
      {"sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_"
       "tilesize128x128x16_stage4_warpsize2x2x1_g1_tensor16x8x8_alignc4",
       Convolution, Used},
      {"void convolve_common_engine_float_NHWC<float, float, 1024>()",
       Convolution, Unused},
      {"void cublasLt::splitKreduce_kernel<32, 16, int, float>()", Helper,
       Unused},
      {"void cudnn::engines_precompiled::nchwToNhwcKernel<float>()", Helper,
       Unused},
      {"void gemmSN_TN_kernel<float, 128, 16>()", VectorProduct, Unused},
      {"void sgemm_largek_lds64<true, false, 5, 5>()", Product, Unused},
      {"ampere_sgemm_128x64_nn", Product, Unused},
      {"ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_nn", Product,
       Used},
      {"Cijk_Alik_Bljk_HHS_BH_MT128x128x32_MI32x32x8x1_SN_1LDSB0", Product,
       Used},
  };
  for (const auto &[kernel, work, tensorCores] : known) {
    const KernelFamily *family = findKernelFamily(kernel);
    ASSERT_TRUE(family) << kernel.str();
    EXPECT_EQ(family->work, work) << kernel.str();
    EXPECT_EQ(family->tensorCores, tensorCores) << kernel.str();
  }
}

TEST(KernelFamilies, OfOthersNothingIsKnown) {
  for (llvm::StringRef kernel :
       {"", "triton_poi_fused_add_0", "my_kernel",
        "void at::native::vectorized_elementwise_kernel<4, float>()"})
    EXPECT_FALSE(findKernelFamily(kernel)) << kernel.str();
}

TEST(KernelFamilies, EachSaysHowItIsKnown) {
  for (const KernelFamily &family : getKernelFamilies()) {
    EXPECT_FALSE(family.parts.empty());
    EXPECT_FALSE(family.evidence.empty());
  }
}

TEST(KernelFamilies, CollectivesOfAnyLibrary) {
  for (llvm::StringRef kernel :
       {"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage)",
        "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t",
        "void at::native::multimem_all_reduce_kernel<c10::BFloat16, 16>()",
        "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>()",
        "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_"
        "oneshot_lamport<1>()",
        "void deep_ep::internode_ll::dispatch<true, 10, 7168>()"})
    EXPECT_TRUE(isCollective(kernel)) << kernel.str();
  for (llvm::StringRef kernel :
       {"void oneflow::softmax::SoftmaxBlockAllReduce<float>()",
        "triton_red_fused_warp_all_reduce_0", "reduce_kernel<512, 1>",
        "vectorized_gather_kernel<16, long>", "ampere_sgemm_128x64_nn",
        // Operators of the host, which hand over what others run.
        "c10d::allreduce_", "c10d::_allgather_base_",
        "_c10d_functional::all_reduce"})
    EXPECT_FALSE(isCollective(kernel)) << kernel.str();
}

} // namespace
