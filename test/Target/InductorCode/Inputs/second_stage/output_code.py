# AOT ID: ['0_forward']
from ctypes import c_void_p, c_long, c_int
import torch
import math
import random
import os
import tempfile
from math import inf, nan
from cmath import nanj
from torch._inductor.hooks import run_intermediate_hooks
from torch._inductor.utils import maybe_profile
from torch._inductor.codegen.memory_planning import _align as align
from torch import device, empty_strided
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.select_algorithm import extern_kernels

aten = torch.ops.aten
inductor_ops = torch.ops.inductor
_quantized = torch.ops._quantized
assert_size_stride = torch._C._dynamo.guards.assert_size_stride
assert_alignment = torch._C._dynamo.guards.assert_alignment
empty_strided_cpu = torch._C._dynamo.guards._empty_strided_cpu
empty_strided_cpu_pinned = torch._C._dynamo.guards._empty_strided_cpu_pinned
empty_strided_cuda = torch._C._dynamo.guards._empty_strided_cuda
empty_strided_xpu = torch._C._dynamo.guards._empty_strided_xpu
empty_strided_mtia = torch._C._dynamo.guards._empty_strided_mtia
reinterpret_tensor = torch._C._dynamo.guards._reinterpret_tensor
alloc_from_pool = torch.ops.inductor._alloc_from_pool
async_compile = AsyncCompile()
empty_strided_p2p = torch._C._distributed_c10d._SymmetricMemory.empty_strided_p2p


cpp_fused_elu_0 = async_compile.cpp_pybinding(['const float*', 'float*'], r'''
#include <torch/csrc/inductor/aoti_runtime/utils.h>
#include <torch/csrc/inductor/cpp_prefix.h>
extern "C"  void  kernel(const float* in_ptr0,
                       float* out_ptr0)
{
    std::atomic<int> inductor_cpu_integer_div_error{0};
    inductor_cpu_integer_div_error_flag = &inductor_cpu_integer_div_error;
    torch::aot_inductor::RAIIAtenRecordFunctionHandle record_graph_0_cpp_fused_elu_0_("graph_0_cpp_fused_elu_0", nullptr);
    {
        #pragma GCC ivdep
        for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(42L); x0+=static_cast<int64_t>(1L))
        {
            {
                {
                    auto tmp0 = in_ptr0[static_cast<int64_t>(x0)];
                    auto tmp1 = static_cast<float>(0.0);
                    auto tmp2 = tmp0 > tmp1;
                    auto tmp3 = static_cast<float>(1.0);
                    auto tmp4 = float(tmp0 * tmp3);
                    auto tmp5 = std::expm1(tmp4);
                    auto tmp6 = float(tmp5 * tmp3);
                    auto tmp7 = tmp2 ? tmp4 : tmp6;
                    out_ptr0[static_cast<int64_t>(x0)] = tmp7;
                }
            }
        }
    }
    inductor_cpu_integer_div_error_flag = nullptr;
    inductor_cpu_throw_if_integer_div_error(inductor_cpu_integer_div_error);
}
''')


cpp_fused_gelu_smooth_l1_loss_1 = async_compile.cpp_pybinding(['float*', 'const float*', 'float*', 'float*'], r'''
#include <torch/csrc/inductor/aoti_runtime/utils.h>
#include <torch/csrc/inductor/cpp_prefix.h>
extern "C"  void  kernel(float* in_out_ptr0,
                       const float* in_ptr0,
                       float* out_ptr0,
                       float* out_ptr1)
{
    std::atomic<int> inductor_cpu_integer_div_error{0};
    inductor_cpu_integer_div_error_flag = &inductor_cpu_integer_div_error;
    torch::aot_inductor::RAIIAtenRecordFunctionHandle record_graph_0_cpp_fused_gelu_smooth_l1_loss_1_("graph_0_cpp_fused_gelu_smooth_l1_loss_1", nullptr);
    {
        {
            float tmp_acc0 = 0;
            for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(112L); x0+=static_cast<int64_t>(1L))
            {
                {
                    {
                        auto tmp0 = in_out_ptr0[static_cast<int64_t>(x0)];
                        auto tmp9 = in_ptr0[static_cast<int64_t>(x0)];
                        auto tmp1 = static_cast<float>(0.5);
                        auto tmp2 = float(tmp0 * tmp1);
                        auto tmp3 = static_cast<float>(0.7071067811865476);
                        auto tmp4 = float(tmp0 * tmp3);
                        auto tmp5 = std::erf(tmp4);
                        auto tmp6 = static_cast<float>(1.0);
                        auto tmp7 = float(tmp5 + tmp6);
                        auto tmp8 = float(tmp2 * tmp7);
                        auto tmp10 = float(tmp9 - tmp8);
                        auto tmp11 = std::abs(tmp10);
                        auto tmp12 = tmp11 < tmp6;
                        auto tmp13 = float(tmp11 * tmp11);
                        auto tmp14 = float(tmp13 * tmp1);
                        auto tmp15 = tmp14 / tmp6;
                        auto tmp16 = float(tmp11 - tmp1);
                        auto tmp17 = tmp12 ? tmp15 : tmp16;
                        in_out_ptr0[static_cast<int64_t>(x0)] = tmp8;
                        out_ptr0[static_cast<int64_t>(x0)] = tmp10;
                        tmp_acc0 = tmp_acc0 + tmp17;
                    }
                }
            }
            out_ptr1[static_cast<int64_t>(0L)] = tmp_acc0;
        }
    }
    inductor_cpu_integer_div_error_flag = nullptr;
    inductor_cpu_throw_if_integer_div_error(inductor_cpu_integer_div_error);
}
''')


cpp_fused__log_softmax__softmax_abs_add_all_amax_bitwise_not_clamp_min_div_eq_fill_masked_fill_mean_mul_ne_neg_nll_loss_forward_smooth_l1_loss_sqrt_sub_sum_where_xlogy_zeros_like_2 = async_compile.cpp_pybinding(['float*', 'float*', 'float*', 'float*', 'float*', 'const int64_t*', 'const float*', 'const float*', 'const float*', 'const float*', 'const float*', 'bool*', 'int64_t*', 'bool*', 'float*', 'float*', 'float*', 'float*', 'float*', 'int64_t*', 'float*', 'float*', 'float*', 'float*', 'float*'], r'''
#include <torch/csrc/inductor/aoti_runtime/utils.h>
#include <torch/csrc/inductor/cpp_prefix.h>
extern "C"  void  kernel(float* in_out_ptr0,
                       float* in_out_ptr1,
                       float* in_out_ptr2,
                       float* in_out_ptr3,
                       float* in_out_ptr4,
                       const int64_t* in_ptr0,
                       const float* in_ptr1,
                       const float* in_ptr2,
                       const float* in_ptr3,
                       const float* in_ptr4,
                       const float* in_ptr5,
                       bool* out_ptr0,
                       int64_t* out_ptr1,
                       bool* out_ptr2,
                       float* out_ptr3,
                       float* out_ptr4,
                       float* out_ptr5,
                       float* out_ptr6,
                       float* out_ptr7,
                       int64_t* out_ptr8,
                       float* out_ptr9,
                       float* out_ptr10,
                       float* out_ptr12,
                       float* out_ptr17,
                       float* out_ptr18)
{
    std::atomic<int> inductor_cpu_integer_div_error{0};
    inductor_cpu_integer_div_error_flag = &inductor_cpu_integer_div_error;
    torch::aot_inductor::RAIIAtenRecordFunctionHandle record_graph_0_cpp_fused__log_softmax__softmax_abs_add_all_amax_bitwise_not_clamp_min_div_eq_fill_masked_fill_mean_mul_ne_neg_nll_loss_forward_smooth_l1_loss_sqrt_sub_sum_where_xlogy_zeros_like_2_("graph_0_cpp_fused__log_softmax__softmax_abs_add_all_amax_bitwise_not_clamp_min_div_eq_fill_masked_fill_mean_mul_ne_neg_nll_loss_forward_smooth_l1_loss_sqrt_sub_sum_where_xlogy_zeros_like_2", nullptr);
    auto out_ptr16 = in_out_ptr1;
    auto out_ptr15 = in_out_ptr2;
    auto out_ptr14 = in_out_ptr3;
    auto out_ptr13 = in_out_ptr4;
    {
        {
            int64_t tmp_acc0 = 0;
            for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(7L); x0+=static_cast<int64_t>(1L))
            {
                {
                    {
                        auto tmp0 = in_ptr0[static_cast<int64_t>(x0)];
                        auto tmp1 = static_cast<int64_t>(-100);
                        auto tmp2 = tmp0 == tmp1;
                        auto tmp3 = !tmp2;
                        auto tmp4 = c10::convert<int64_t>(tmp3);
                        out_ptr0[static_cast<int64_t>(x0)] = tmp2;
                        tmp_acc0 = tmp_acc0 + tmp4;
                    }
                }
            }
            out_ptr1[static_cast<int64_t>(0L)] = tmp_acc0;
        }
    }
    {
        {
            int64_t tmp_acc0 = 0;
            float tmp_acc1 = 0;
            float tmp_acc2 = 0;
            for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(7L); x0+=static_cast<int64_t>(1L))
            {
                {
                    {
                        auto tmp0 = in_ptr1[static_cast<int64_t>(5L*x0)];
                        auto tmp9 = in_ptr1[static_cast<int64_t>(1L + 5L*x0)];
                        auto tmp17 = in_ptr1[static_cast<int64_t>(2L + 5L*x0)];
                        auto tmp25 = in_ptr1[static_cast<int64_t>(3L + 5L*x0)];
                        auto tmp33 = in_ptr1[static_cast<int64_t>(4L + 5L*x0)];
                        auto tmp105 = in_ptr0[static_cast<int64_t>(x0)];
                        auto tmp120 = out_ptr0[static_cast<int64_t>(x0)];
                        auto tmp1 = static_cast<float>(2.0);
                        auto tmp2 = tmp0 / tmp1;
                        auto tmp3 = tmp2 == tmp2;
                        auto tmp4 = std::abs(tmp2);
                        auto tmp5 = std::numeric_limits<float>::infinity();
                        auto tmp6 = tmp4 != tmp5;
                        auto tmp7 = tmp3 && tmp6;
                        auto tmp8 = !tmp7;
                        auto tmp10 = tmp9 / tmp1;
                        auto tmp11 = tmp10 == tmp10;
                        auto tmp12 = std::abs(tmp10);
                        auto tmp13 = tmp12 != tmp5;
                        auto tmp14 = tmp11 && tmp13;
                        auto tmp15 = !tmp14;
                        auto tmp16 = tmp8 || tmp15;
                        auto tmp18 = tmp17 / tmp1;
                        auto tmp19 = tmp18 == tmp18;
                        auto tmp20 = std::abs(tmp18);
                        auto tmp21 = tmp20 != tmp5;
                        auto tmp22 = tmp19 && tmp21;
                        auto tmp23 = !tmp22;
                        auto tmp24 = tmp16 || tmp23;
                        auto tmp26 = tmp25 / tmp1;
                        auto tmp27 = tmp26 == tmp26;
                        auto tmp28 = std::abs(tmp26);
                        auto tmp29 = tmp28 != tmp5;
                        auto tmp30 = tmp27 && tmp29;
                        auto tmp31 = !tmp30;
                        auto tmp32 = tmp24 || tmp31;
                        auto tmp34 = tmp33 / tmp1;
                        auto tmp35 = tmp34 == tmp34;
                        auto tmp36 = std::abs(tmp34);
                        auto tmp37 = tmp36 != tmp5;
                        auto tmp38 = tmp35 && tmp37;
                        auto tmp39 = !tmp38;
                        auto tmp40 = tmp32 || tmp39;
                        auto tmp41 = !tmp40;
                        auto tmp42 = static_cast<float>(1.0);
                        auto tmp43 = float(tmp0 * tmp42);
                        auto tmp44 = float(tmp9 * tmp42);
                        auto tmp45 = max_propagate_nan(tmp43, tmp44);
                        auto tmp46 = float(tmp17 * tmp42);
                        auto tmp47 = max_propagate_nan(tmp45, tmp46);
                        auto tmp48 = float(tmp25 * tmp42);
                        auto tmp49 = max_propagate_nan(tmp47, tmp48);
                        auto tmp50 = float(tmp33 * tmp42);
                        auto tmp51 = max_propagate_nan(tmp49, tmp50);
                        auto tmp52 = max_propagate_nan(tmp2, tmp10);
                        auto tmp53 = max_propagate_nan(tmp52, tmp18);
                        auto tmp54 = max_propagate_nan(tmp53, tmp26);
                        auto tmp55 = max_propagate_nan(tmp54, tmp34);
                        auto tmp56 = float(tmp43 - tmp51);
                        auto tmp57 = tmp56 / tmp1;
                        auto tmp58 = float(tmp2 - tmp55);
                        auto tmp59 = tmp41 ? tmp57 : tmp58;
                        auto tmp60 = std::exp(tmp59);
                        auto tmp61 = float(tmp44 - tmp51);
                        auto tmp62 = tmp61 / tmp1;
                        auto tmp63 = float(tmp10 - tmp55);
                        auto tmp64 = tmp41 ? tmp62 : tmp63;
                        auto tmp65 = std::exp(tmp64);
                        auto tmp66 = float(tmp60 + tmp65);
                        auto tmp67 = float(tmp46 - tmp51);
                        auto tmp68 = tmp67 / tmp1;
                        auto tmp69 = float(tmp18 - tmp55);
                        auto tmp70 = tmp41 ? tmp68 : tmp69;
                        auto tmp71 = std::exp(tmp70);
                        auto tmp72 = float(tmp66 + tmp71);
                        auto tmp73 = float(tmp48 - tmp51);
                        auto tmp74 = tmp73 / tmp1;
                        auto tmp75 = float(tmp26 - tmp55);
                        auto tmp76 = tmp41 ? tmp74 : tmp75;
                        auto tmp77 = std::exp(tmp76);
                        auto tmp78 = float(tmp72 + tmp77);
                        auto tmp79 = float(tmp50 - tmp51);
                        auto tmp80 = tmp79 / tmp1;
                        auto tmp81 = float(tmp34 - tmp55);
                        auto tmp82 = tmp41 ? tmp80 : tmp81;
                        auto tmp83 = std::exp(tmp82);
                        auto tmp84 = float(tmp78 + tmp83);
                        auto tmp85 = std::log(tmp84);
                        auto tmp86 = max_propagate_nan(tmp0, tmp9);
                        auto tmp87 = max_propagate_nan(tmp86, tmp17);
                        auto tmp88 = max_propagate_nan(tmp87, tmp25);
                        auto tmp89 = max_propagate_nan(tmp88, tmp33);
                        auto tmp90 = float(tmp0 - tmp89);
                        auto tmp91 = std::exp(tmp90);
                        auto tmp92 = float(tmp9 - tmp89);
                        auto tmp93 = std::exp(tmp92);
                        auto tmp94 = float(tmp91 + tmp93);
                        auto tmp95 = float(tmp17 - tmp89);
                        auto tmp96 = std::exp(tmp95);
                        auto tmp97 = float(tmp94 + tmp96);
                        auto tmp98 = float(tmp25 - tmp89);
                        auto tmp99 = std::exp(tmp98);
                        auto tmp100 = float(tmp97 + tmp99);
                        auto tmp101 = float(tmp33 - tmp89);
                        auto tmp102 = std::exp(tmp101);
                        auto tmp103 = float(tmp100 + tmp102);
                        auto tmp104 = std::log(tmp103);
                        auto tmp106 = static_cast<int64_t>(-100);
                        auto tmp107 = tmp105 != tmp106;
                        auto tmp108 = c10::convert<int64_t>(tmp107);
                        auto tmp109 = static_cast<int64_t>(0);
                        auto tmp110 = tmp107 ? tmp105 : tmp109;
                        auto tmp111 = tmp110;
                        auto tmp112 = c10::convert<int64_t>(tmp111);
                        TORCH_CHECK((0 <= tmp112) & (tmp112 < 5L), "index out of bounds: 0 <= tmp112 < 5L");
                        auto tmp114 = in_ptr1[static_cast<int64_t>(tmp110 + 5L*x0)];
                        auto tmp115 = float(tmp114 - tmp89);
                        auto tmp116 = float(tmp115 - tmp104);
                        auto tmp117 = decltype(tmp116)(-tmp116);
                        auto tmp118 = static_cast<float>(0.0);
                        auto tmp119 = tmp107 ? tmp117 : tmp118;
                        auto tmp121 = float(tmp90 - tmp104);
                        auto tmp122 = float(tmp92 - tmp104);
                        auto tmp123 = float(tmp121 + tmp122);
                        auto tmp124 = float(tmp95 - tmp104);
                        auto tmp125 = float(tmp123 + tmp124);
                        auto tmp126 = float(tmp98 - tmp104);
                        auto tmp127 = float(tmp125 + tmp126);
                        auto tmp128 = float(tmp101 - tmp104);
                        auto tmp129 = float(tmp127 + tmp128);
                        auto tmp130 = decltype(tmp129)(-tmp129);
                        auto tmp131 = tmp120 ? tmp118 : tmp130;
                        out_ptr2[static_cast<int64_t>(x0)] = tmp41;
                        out_ptr3[static_cast<int64_t>(x0)] = tmp51;
                        out_ptr4[static_cast<int64_t>(x0)] = tmp55;
                        out_ptr5[static_cast<int64_t>(x0)] = tmp85;
                        out_ptr6[static_cast<int64_t>(x0)] = tmp89;
                        out_ptr7[static_cast<int64_t>(x0)] = tmp104;
                        tmp_acc0 = tmp_acc0 + tmp108;
                        tmp_acc1 = tmp_acc1 + tmp119;
                        tmp_acc2 = tmp_acc2 + tmp131;
                    }
                }
            }
            out_ptr8[static_cast<int64_t>(0L)] = tmp_acc0;
            out_ptr9[static_cast<int64_t>(0L)] = tmp_acc1;
            out_ptr10[static_cast<int64_t>(0L)] = tmp_acc2;
        }
    }
    {
        #pragma GCC ivdep
        for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(7L); x0+=static_cast<int64_t>(1L))
        {
            #pragma GCC ivdep
            for(int64_t x1=static_cast<int64_t>(0L); x1<static_cast<int64_t>(5L); x1+=static_cast<int64_t>(1L))
            {
                {
                    {
                        auto tmp0 = in_ptr2[static_cast<int64_t>(5L*x0)];
                        auto tmp9 = in_ptr2[static_cast<int64_t>(1L + 5L*x0)];
                        auto tmp17 = in_ptr2[static_cast<int64_t>(2L + 5L*x0)];
                        auto tmp25 = in_ptr2[static_cast<int64_t>(3L + 5L*x0)];
                        auto tmp33 = in_ptr2[static_cast<int64_t>(4L + 5L*x0)];
                        auto tmp42 = in_ptr2[static_cast<int64_t>(x1 + 5L*x0)];
                        auto tmp1 = static_cast<float>(2.0);
                        auto tmp2 = tmp0 / tmp1;
                        auto tmp3 = tmp2 == tmp2;
                        auto tmp4 = std::abs(tmp2);
                        auto tmp5 = std::numeric_limits<float>::infinity();
                        auto tmp6 = tmp4 != tmp5;
                        auto tmp7 = tmp3 && tmp6;
                        auto tmp8 = !tmp7;
                        auto tmp10 = tmp9 / tmp1;
                        auto tmp11 = tmp10 == tmp10;
                        auto tmp12 = std::abs(tmp10);
                        auto tmp13 = tmp12 != tmp5;
                        auto tmp14 = tmp11 && tmp13;
                        auto tmp15 = !tmp14;
                        auto tmp16 = tmp8 || tmp15;
                        auto tmp18 = tmp17 / tmp1;
                        auto tmp19 = tmp18 == tmp18;
                        auto tmp20 = std::abs(tmp18);
                        auto tmp21 = tmp20 != tmp5;
                        auto tmp22 = tmp19 && tmp21;
                        auto tmp23 = !tmp22;
                        auto tmp24 = tmp16 || tmp23;
                        auto tmp26 = tmp25 / tmp1;
                        auto tmp27 = tmp26 == tmp26;
                        auto tmp28 = std::abs(tmp26);
                        auto tmp29 = tmp28 != tmp5;
                        auto tmp30 = tmp27 && tmp29;
                        auto tmp31 = !tmp30;
                        auto tmp32 = tmp24 || tmp31;
                        auto tmp34 = tmp33 / tmp1;
                        auto tmp35 = tmp34 == tmp34;
                        auto tmp36 = std::abs(tmp34);
                        auto tmp37 = tmp36 != tmp5;
                        auto tmp38 = tmp35 && tmp37;
                        auto tmp39 = !tmp38;
                        auto tmp40 = tmp32 || tmp39;
                        auto tmp41 = !tmp40;
                        auto tmp43 = static_cast<float>(1.0);
                        auto tmp44 = float(tmp42 * tmp43);
                        auto tmp45 = float(tmp0 * tmp43);
                        auto tmp46 = float(tmp9 * tmp43);
                        auto tmp47 = max_propagate_nan(tmp45, tmp46);
                        auto tmp48 = float(tmp17 * tmp43);
                        auto tmp49 = max_propagate_nan(tmp47, tmp48);
                        auto tmp50 = float(tmp25 * tmp43);
                        auto tmp51 = max_propagate_nan(tmp49, tmp50);
                        auto tmp52 = float(tmp33 * tmp43);
                        auto tmp53 = max_propagate_nan(tmp51, tmp52);
                        auto tmp54 = float(tmp44 - tmp53);
                        auto tmp55 = tmp54 / tmp1;
                        auto tmp56 = tmp42 / tmp1;
                        auto tmp57 = max_propagate_nan(tmp2, tmp10);
                        auto tmp58 = max_propagate_nan(tmp57, tmp18);
                        auto tmp59 = max_propagate_nan(tmp58, tmp26);
                        auto tmp60 = max_propagate_nan(tmp59, tmp34);
                        auto tmp61 = float(tmp56 - tmp60);
                        auto tmp62 = tmp41 ? tmp55 : tmp61;
                        auto tmp63 = std::exp(tmp62);
                        in_out_ptr0[static_cast<int64_t>(x1 + 5L*x0)] = tmp63;
                    }
                }
            }
        }
    }
    {
        {
            float tmp_acc0 = 0;
            for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(7L); x0+=static_cast<int64_t>(1L))
            {
                for(int64_t x1=static_cast<int64_t>(0L); x1<static_cast<int64_t>(5L); x1+=static_cast<int64_t>(1L))
                {
                    {
                        {
                            auto tmp0 = in_out_ptr0[static_cast<int64_t>(x1 + 5L*x0)];
                            auto tmp1 = in_out_ptr0[static_cast<int64_t>(5L*x0)];
                            auto tmp2 = in_out_ptr0[static_cast<int64_t>(1L + 5L*x0)];
                            auto tmp4 = in_out_ptr0[static_cast<int64_t>(2L + 5L*x0)];
                            auto tmp6 = in_out_ptr0[static_cast<int64_t>(3L + 5L*x0)];
                            auto tmp8 = in_out_ptr0[static_cast<int64_t>(4L + 5L*x0)];
                            auto tmp19 = out_ptr2[static_cast<int64_t>(x0)];
                            auto tmp20 = in_ptr1[static_cast<int64_t>(x1 + 5L*x0)];
                            auto tmp23 = out_ptr3[static_cast<int64_t>(x0)];
                            auto tmp28 = out_ptr4[static_cast<int64_t>(x0)];
                            auto tmp31 = out_ptr5[static_cast<int64_t>(x0)];
                            auto tmp3 = float(tmp1 + tmp2);
                            auto tmp5 = float(tmp3 + tmp4);
                            auto tmp7 = float(tmp5 + tmp6);
                            auto tmp9 = float(tmp7 + tmp8);
                            auto tmp10 = tmp0 / tmp9;
                            auto tmp11 = std::isnan(tmp10);
                            auto tmp12 = static_cast<float>(0.0);
                            auto tmp13 = tmp10 == tmp12;
                            auto tmp14 = std::log(tmp10);
                            auto tmp15 = float(tmp10 * tmp14);
                            auto tmp16 = tmp13 ? tmp12 : tmp15;
                            auto tmp17 = std::numeric_limits<float>::quiet_NaN();
                            auto tmp18 = tmp11 ? tmp17 : tmp16;
                            auto tmp21 = static_cast<float>(1.0);
                            auto tmp22 = float(tmp20 * tmp21);
                            auto tmp24 = float(tmp22 - tmp23);
                            auto tmp25 = static_cast<float>(2.0);
                            auto tmp26 = tmp24 / tmp25;
                            auto tmp27 = tmp20 / tmp25;
                            auto tmp29 = float(tmp27 - tmp28);
                            auto tmp30 = tmp19 ? tmp26 : tmp29;
                            auto tmp32 = float(tmp30 - tmp31);
                            auto tmp33 = float(tmp10 * tmp32);
                            auto tmp34 = float(tmp18 - tmp33);
                            out_ptr12[static_cast<int64_t>(x1 + 5L*x0)] = tmp10;
                            tmp_acc0 = tmp_acc0 + tmp34;
                        }
                    }
                }
            }
            out_ptr13[static_cast<int64_t>(0L)] = tmp_acc0;
        }
    }
    {
        #pragma GCC ivdep
        for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(7L); x0+=static_cast<int64_t>(1L))
        {
            {
                float tmp_acc0 = 0;
                float tmp_acc1 = 0;
                float tmp_acc2 = 0;
                for(int64_t x1=static_cast<int64_t>(0L); x1<static_cast<int64_t>(16L); x1+=static_cast<int64_t>(1L))
                {
                    {
                        {
                            auto tmp0 = in_ptr3[static_cast<int64_t>(x1 + 16L*x0)];
                            auto tmp1 = in_ptr4[static_cast<int64_t>(x1 + 16L*x0)];
                            auto tmp2 = float(tmp0 * tmp1);
                            auto tmp3 = float(tmp0 * tmp0);
                            auto tmp4 = float(tmp1 * tmp1);
                            tmp_acc0 = tmp_acc0 + tmp2;
                            tmp_acc1 = tmp_acc1 + tmp3;
                            tmp_acc2 = tmp_acc2 + tmp4;
                        }
                    }
                }
                out_ptr14[static_cast<int64_t>(x0)] = tmp_acc0;
                out_ptr15[static_cast<int64_t>(x0)] = tmp_acc1;
                out_ptr16[static_cast<int64_t>(x0)] = tmp_acc2;
            }
        }
    }
    {
        {
            float tmp_acc0 = 0;
            for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(7L); x0+=static_cast<int64_t>(1L))
            {
                {
                    {
                        auto tmp0 = out_ptr16[static_cast<int64_t>(x0)];
                        auto tmp3 = out_ptr15[static_cast<int64_t>(x0)];
                        auto tmp7 = out_ptr14[static_cast<int64_t>(x0)];
                        auto tmp1 = static_cast<float>(9.999999960041972e-13);
                        auto tmp2 = float(tmp0 + tmp1);
                        auto tmp4 = float(tmp3 + tmp1);
                        auto tmp5 = float(tmp4 * tmp2);
                        auto tmp6 = std::sqrt(tmp5);
                        auto tmp8 = tmp7 / tmp6;
                        auto tmp9 = static_cast<float>(1.0);
                        auto tmp10 = float(tmp9 - tmp8);
                        auto tmp11 = static_cast<bool>(true);
                        auto tmp12 = static_cast<float>(0.0);
                        auto tmp13 = tmp11 ? tmp10 : tmp12;
                        auto tmp14 = float(tmp8 - tmp12);
                        auto tmp15 = max_propagate_nan(tmp14, tmp12);
                        auto tmp16 = static_cast<bool>(false);
                        auto tmp17 = tmp16 ? tmp15 : tmp12;
                        auto tmp18 = float(tmp13 + tmp17);
                        in_out_ptr1[static_cast<int64_t>(x0)] = tmp2;
                        in_out_ptr2[static_cast<int64_t>(x0)] = tmp6;
                        in_out_ptr3[static_cast<int64_t>(x0)] = tmp8;
                        tmp_acc0 = tmp_acc0 + tmp18;
                    }
                }
            }
            out_ptr17[static_cast<int64_t>(0L)] = tmp_acc0;
        }
    }
    {
        {
            {
                auto tmp0 = out_ptr8[static_cast<int64_t>(0L)];
                auto tmp2 = out_ptr13[static_cast<int64_t>(0L)];
                auto tmp7 = out_ptr9[static_cast<int64_t>(0L)];
                auto tmp11 = out_ptr10[static_cast<int64_t>(0L)];
                auto tmp12 = out_ptr1[static_cast<int64_t>(0L)];
                auto tmp19 = in_ptr5[static_cast<int64_t>(0L)];
                auto tmp23 = out_ptr17[static_cast<int64_t>(0L)];
                auto tmp1 = c10::convert<float>(tmp0);
                auto tmp3 = static_cast<float>(7.0);
                auto tmp4 = tmp2 / tmp3;
                auto tmp5 = static_cast<float>(4.0);
                auto tmp6 = float(tmp4 * tmp5);
                auto tmp8 = tmp7 / tmp1;
                auto tmp9 = static_cast<float>(0.9);
                auto tmp10 = float(tmp8 * tmp9);
                auto tmp13 = c10::convert<float>(tmp12);
                auto tmp14 = tmp11 / tmp13;
                auto tmp15 = static_cast<float>(0.02);
                auto tmp16 = float(tmp14 * tmp15);
                auto tmp17 = float(tmp10 + tmp16);
                auto tmp18 = float(tmp6 + tmp17);
                auto tmp20 = static_cast<float>(112.0);
                auto tmp21 = tmp19 / tmp20;
                auto tmp22 = float(tmp18 + tmp21);
                auto tmp24 = tmp23 / tmp3;
                auto tmp25 = float(tmp22 + tmp24);
                out_ptr18[static_cast<int64_t>(0L)] = tmp1;
                in_out_ptr4[static_cast<int64_t>(0L)] = tmp25;
            }
        }
    }
    inductor_cpu_integer_div_error_flag = nullptr;
    inductor_cpu_throw_if_integer_div_error(inductor_cpu_integer_div_error);
}
''')


async_compile.wait(globals())
del async_compile

class Runner:
    def __init__(self, partitions):
        self.partitions = partitions

    def recursively_apply_fns(self, fns):
        new_callables = []
        for fn, c in zip(fns, self.partitions):
            new_callables.append(fn(c))
        self.partitions = new_callables

    def call(self, args):
        primals_1, primals_2, primals_3, primals_4, primals_5, primals_6, primals_7, primals_8, primals_9, primals_10, primals_11, primals_12 = args
        args.clear()
        assert_size_stride(primals_3, (16, ), (1, ), 'input')
        assert_size_stride(primals_1, (7, 8), (8, 1), 'input')
        assert_size_stride(primals_2, (16, 8), (8, 1), 'input')
        buf0 = empty_strided_cpu((7, 16), (16, 1), torch.float32)
        # Topologically Sorted Source Nodes: [wrap_with_set_grad_enabled], Original ATen: [aten.t, aten.addmm]
        # [Provenance debug handles] extern_kernels.addmm:1
        extern_kernels.addmm(primals_3, primals_1, reinterpret_tensor(primals_2, (8, 16), (1, 8), 0), alpha=1, beta=1, out=buf0)
        del primals_2
        del primals_3
        assert_size_stride(primals_7, (6, ), (1, ), 'input')
        assert_size_stride(primals_6, (6, 8), (8, 1), 'input')
        buf3 = empty_strided_cpu((7, 6), (6, 1), torch.float32)
        # Topologically Sorted Source Nodes: [linear_2], Original ATen: [aten.t, aten.addmm]
        # [Provenance debug handles] extern_kernels.addmm:2
        extern_kernels.addmm(primals_7, primals_1, reinterpret_tensor(primals_6, (8, 6), (1, 8), 0), alpha=1, beta=1, out=buf3)
        del primals_6
        del primals_7
        buf4 = empty_strided_cpu((7, 6), (6, 1), torch.float32)
        assert_size_stride(primals_11, (16, ), (1, ), 'input')
        assert_size_stride(primals_10, (16, 6), (6, 1), 'input')
        # [Provenance debug handles] cpp_fused_elu_0:3
        cpp_fused_elu_0(buf3, buf4)
        buf22 = empty_strided_cpu((7, 16), (16, 1), torch.float32)
        # Topologically Sorted Source Nodes: [linear_4], Original ATen: [aten.t, aten.addmm]
        # [Provenance debug handles] extern_kernels.addmm:4
        extern_kernels.addmm(primals_11, buf4, reinterpret_tensor(primals_10, (6, 16), (1, 6), 0), alpha=1, beta=1, out=buf22)
        del primals_11
        buf1 = buf0; del buf0  # reuse
        buf23 = empty_strided_cpu((7, 16), (16, 1), torch.float32)
        buf24 = empty_strided_cpu((), (), torch.float32)
        assert_size_stride(primals_5, (5, ), (1, ), 'input')
        assert_size_stride(primals_4, (5, 16), (16, 1), 'input')
        # [Provenance debug handles] cpp_fused_gelu_smooth_l1_loss_1:5
        cpp_fused_gelu_smooth_l1_loss_1(buf1, buf22, buf23, buf24)
        buf2 = empty_strided_cpu((7, 5), (5, 1), torch.float32)
        # Topologically Sorted Source Nodes: [wrap_with_set_grad_enabled], Original ATen: [aten.t, aten.addmm]
        # [Provenance debug handles] extern_kernels.addmm:6
        extern_kernels.addmm(primals_5, buf1, reinterpret_tensor(primals_4, (16, 5), (1, 16), 0), alpha=1, beta=1, out=buf2)
        del primals_4
        del primals_5
        assert_size_stride(primals_9, (5, ), (1, ), 'input')
        assert_size_stride(primals_8, (5, 6), (6, 1), 'input')
        buf5 = empty_strided_cpu((7, 5), (5, 1), torch.float32)
        # Topologically Sorted Source Nodes: [linear_3], Original ATen: [aten.t, aten.addmm]
        # [Provenance debug handles] extern_kernels.addmm:7
        extern_kernels.addmm(primals_9, buf4, reinterpret_tensor(primals_8, (6, 5), (1, 6), 0), alpha=1, beta=1, out=buf5)
        del primals_9
        assert_size_stride(primals_12, (7, ), (1, ), 'input')
        buf19 = empty_strided_cpu((7, ), (1, ), torch.bool)
        buf20 = empty_strided_cpu((), (), torch.int64)
        buf8 = empty_strided_cpu((7, 1), (1, 1), torch.bool)
        buf6 = empty_strided_cpu((7, 1), (1, 1), torch.float32)
        buf7 = empty_strided_cpu((7, 1), (1, 1), torch.float32)
        buf9 = empty_strided_cpu((7, 1), (1, 1), torch.float32)
        buf14 = empty_strided_cpu((7, 1), (1, 1), torch.float32)
        buf15 = empty_strided_cpu((7, 1), (1, 1), torch.float32)
        buf16 = empty_strided_cpu((), (), torch.int64)
        buf18 = empty_strided_cpu((), (), torch.float32)
        buf21 = empty_strided_cpu((), (), torch.float32)
        buf10 = empty_strided_cpu((7, 5), (5, 1), torch.float32)
        buf11 = buf10; del buf10  # reuse
        buf12 = empty_strided_cpu((7, 5), (5, 1), torch.float32)
        buf13 = empty_strided_cpu((), (), torch.float32)
        buf25 = empty_strided_cpu((7, ), (1, ), torch.float32)
        buf26 = empty_strided_cpu((7, ), (1, ), torch.float32)
        buf27 = empty_strided_cpu((7, ), (1, ), torch.float32)
        buf28 = buf27; del buf27  # reuse
        buf29 = buf26; del buf26  # reuse
        buf30 = buf25; del buf25  # reuse
        buf31 = empty_strided_cpu((), (), torch.float32)
        buf17 = empty_strided_cpu((), (), torch.float32)
        buf32 = buf13; del buf13  # reuse
        # [Provenance debug handles] cpp_fused__log_softmax__softmax_abs_add_all_amax_bitwise_not_clamp_min_div_eq_fill_masked_fill_mean_mul_ne_neg_nll_loss_forward_smooth_l1_loss_sqrt_sub_sum_where_xlogy_zeros_like_2:8
        cpp_fused__log_softmax__softmax_abs_add_all_amax_bitwise_not_clamp_min_div_eq_fill_masked_fill_mean_mul_ne_neg_nll_loss_forward_smooth_l1_loss_sqrt_sub_sum_where_xlogy_zeros_like_2(buf11, buf28, buf29, buf30, buf32, primals_12, buf5, buf2, buf22, buf1, buf24, buf19, buf20, buf8, buf6, buf7, buf9, buf14, buf15, buf16, buf18, buf21, buf12, buf31, buf17)
        return (buf32, primals_1, primals_8, primals_10, primals_12, buf1, buf3, buf4, buf5, buf6, buf7, buf8, buf9, buf12, buf14, buf15, buf17, buf19, buf22, buf23, buf28, buf29, buf30, )

runner = Runner(partitions=[])
call = runner.call
recursively_apply_fns = runner.recursively_apply_fns


def get_args():
    from torch._dynamo.testing import rand_strided
    primals_1 = rand_strided((7, 8), (8, 1), device='cpu', dtype=torch.float32)
    primals_2 = rand_strided((16, 8), (8, 1), device='cpu', dtype=torch.float32)
    primals_3 = rand_strided((16, ), (1, ), device='cpu', dtype=torch.float32)
    primals_4 = rand_strided((5, 16), (16, 1), device='cpu', dtype=torch.float32)
    primals_5 = rand_strided((5, ), (1, ), device='cpu', dtype=torch.float32)
    primals_6 = rand_strided((6, 8), (8, 1), device='cpu', dtype=torch.float32)
    primals_7 = rand_strided((6, ), (1, ), device='cpu', dtype=torch.float32)
    primals_8 = rand_strided((5, 6), (6, 1), device='cpu', dtype=torch.float32)
    primals_9 = rand_strided((5, ), (1, ), device='cpu', dtype=torch.float32)
    primals_10 = rand_strided((16, 6), (6, 1), device='cpu', dtype=torch.float32)
    primals_11 = rand_strided((16, ), (1, ), device='cpu', dtype=torch.float32)
    primals_12 = rand_strided((7, ), (1, ), device='cpu', dtype=torch.int64)
    return [primals_1, primals_2, primals_3, primals_4, primals_5, primals_6, primals_7, primals_8, primals_9, primals_10, primals_11, primals_12]


def benchmark_compiled_module(args, times=10, repeat=10):
    from torch._inductor.utils import print_performance
    fn = lambda: call(list(args))
    return print_performance(fn, times=times, repeat=repeat, device='cpu')


if __name__ == "__main__":
    from torch._inductor.wrapper_benchmark import compiled_module_main
    args = get_args()
    compiled_module_main('None', lambda times, repeat: benchmark_compiled_module(args, times=times, repeat=repeat))
