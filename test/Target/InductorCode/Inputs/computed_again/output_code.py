# AOT ID: ['0_backward']
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


cpp_fused__log_softmax_add_clamp_div_eq_exp_expand_ge_gt_huber_loss_huber_loss_backward_le_logical_and_lt_masked_fill_mul_neg_new_zeros_scatter_add_slice_slice_backward_squeeze_stack_sub_sum_unsqueeze_view_where_0 = async_compile.cpp_pybinding(['float*', 'const float*', 'const float*', 'const float*', 'const float*', 'const float*', 'const float*', 'float*', 'float*', 'float*', 'float*', 'float*', 'float*'], r'''
#include <torch/csrc/inductor/aoti_runtime/utils.h>
#include <torch/csrc/inductor/cpp_prefix.h>
extern "C"  void  kernel(float* in_out_ptr0,
                       const float* in_ptr0,
                       const float* in_ptr1,
                       const float* in_ptr2,
                       const float* in_ptr4,
                       const float* in_ptr5,
                       const float* in_ptr6,
                       float* out_ptr0,
                       float* out_ptr1,
                       float* out_ptr2,
                       float* out_ptr4,
                       float* out_ptr5,
                       float* out_ptr6)
{
    std::atomic<int> inductor_cpu_integer_div_error{0};
    inductor_cpu_integer_div_error_flag = &inductor_cpu_integer_div_error;
    torch::aot_inductor::RAIIAtenRecordFunctionHandle record_graph_0_cpp_fused__log_softmax_add_clamp_div_eq_exp_expand_ge_gt_huber_loss_huber_loss_backward_le_logical_and_lt_masked_fill_mul_neg_new_zeros_scatter_add_slice_slice_backward_squeeze_stack_sub_sum_unsqueeze_view_where_0_("graph_0_cpp_fused__log_softmax_add_clamp_div_eq_exp_expand_ge_gt_huber_loss_huber_loss_backward_le_logical_and_lt_masked_fill_mul_neg_new_zeros_scatter_add_slice_slice_backward_squeeze_stack_sub_sum_unsqueeze_view_where_0", nullptr);
    auto in_ptr3 = in_out_ptr0;
    {
        #pragma GCC ivdep
        for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(5L); x0+=static_cast<int64_t>(1L))
        {
            #pragma GCC ivdep
            for(int64_t x1=static_cast<int64_t>(0L); x1<static_cast<int64_t>(3L); x1+=static_cast<int64_t>(1L))
            {
                {
                    {
                        auto tmp0 = x0;
                        auto tmp1 = c10::convert<int64_t>(tmp0);
                        auto tmp2 = static_cast<int64_t>(4);
                        auto tmp3 = tmp1 < tmp2;
                        auto tmp4 = [&]
                        {
                            auto tmp5 = in_ptr0[static_cast<int64_t>(x1 + 3L*x0)];
                            auto tmp6 = in_ptr1[static_cast<int64_t>(x1 + 3L*x0)];
                            auto tmp7 = float(tmp6 + tmp5);
                            auto tmp8 = float(tmp5 - tmp7);
                            auto tmp9 = static_cast<float>(-1.0);
                            auto tmp10 = tmp8 < tmp9;
                            auto tmp11 = in_ptr2[static_cast<int64_t>(0L)];
                            auto tmp12 = static_cast<float>(0.5);
                            auto tmp13 = float(tmp11 * tmp12);
                            auto tmp14 = static_cast<float>(-0.08333333333333333);
                            auto tmp15 = float(tmp13 * tmp14);
                            auto tmp16 = static_cast<float>(1.0);
                            auto tmp17 = float(tmp15 * tmp16);
                            auto tmp18 = tmp8 > tmp16;
                            auto tmp19 = static_cast<float>(0.08333333333333333);
                            auto tmp20 = float(tmp13 * tmp19);
                            auto tmp21 = float(tmp20 * tmp16);
                            auto tmp22 = float(tmp8 * tmp19);
                            auto tmp23 = float(tmp22 * tmp13);
                            auto tmp24 = tmp18 ? tmp21 : tmp23;
                            auto tmp25 = tmp10 ? tmp17 : tmp24;
                            return tmp25;
                        }
                        ;
                        auto tmp26 = tmp3 ? tmp4() : static_cast<decltype(tmp4())>(0.0);
                        auto tmp27 = static_cast<float>(0.0);
                        auto tmp28 = tmp3 ? tmp26 : tmp27;
                        out_ptr0[static_cast<int64_t>(x1 + 3L*x0)] = tmp28;
                    }
                }
            }
        }
    }
    {
        {
            float tmp_acc0 = 0;
            for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(15L); x0+=static_cast<int64_t>(1L))
            {
                {
                    {
                        auto tmp0 = out_ptr0[static_cast<int64_t>(x0)];
                        tmp_acc0 = tmp_acc0 + tmp0;
                    }
                }
            }
            out_ptr1[static_cast<int64_t>(0L)] = tmp_acc0;
        }
    }
    {
        #pragma GCC ivdep
        for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(48L); x0+=static_cast<int64_t>(1L))
        {
            {
                {
                    auto tmp0 = static_cast<float>(0.0);
                    out_ptr2[static_cast<int64_t>(x0)] = tmp0;
                }
            }
        }
    }
    {
        #pragma GCC ivdep
        for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(12L); x0+=static_cast<int64_t>(1L))
        {
            {
                {
                    auto tmp0 = in_ptr3[static_cast<int64_t>(x0)];
                    auto tmp1 = in_ptr1[static_cast<int64_t>(x0)];
                    auto tmp2 = in_ptr4[static_cast<int64_t>(0L)];
                    auto tmp4 = in_ptr5[static_cast<int64_t>(0L)];
                    auto tmp13 = in_ptr2[static_cast<int64_t>(0L)];
                    auto tmp20 = in_out_ptr0[static_cast<int64_t>(x0)];
                    auto tmp3 = float(tmp1 - tmp2);
                    auto tmp5 = tmp3 / tmp4;
                    auto tmp6 = float(tmp0 * tmp5);
                    auto tmp7 = static_cast<float>(0.8);
                    auto tmp8 = max_propagate_nan(tmp0, tmp7);
                    auto tmp9 = static_cast<float>(1.2);
                    auto tmp10 = min_propagate_nan(tmp8, tmp9);
                    auto tmp11 = float(tmp10 * tmp5);
                    auto tmp12 = tmp6 == tmp11;
                    auto tmp14 = decltype(tmp13)(-tmp13);
                    auto tmp15 = static_cast<float>(12.0);
                    auto tmp16 = tmp14 / tmp15;
                    auto tmp17 = static_cast<float>(2.0);
                    auto tmp18 = tmp16 / tmp17;
                    auto tmp19 = tmp12 ? tmp18 : tmp16;
                    auto tmp21 = tmp20 >= tmp7;
                    auto tmp22 = tmp20 <= tmp9;
                    auto tmp23 = tmp21 && tmp22;
                    auto tmp24 = float(tmp20 * tmp5);
                    auto tmp25 = max_propagate_nan(tmp20, tmp7);
                    auto tmp26 = min_propagate_nan(tmp25, tmp9);
                    auto tmp27 = float(tmp26 * tmp5);
                    auto tmp28 = tmp24 < tmp27;
                    auto tmp29 = static_cast<float>(0.0);
                    auto tmp30 = tmp28 ? tmp29 : tmp19;
                    auto tmp31 = float(tmp30 * tmp5);
                    auto tmp32 = tmp23 ? tmp31 : tmp29;
                    auto tmp33 = tmp24 > tmp27;
                    auto tmp34 = tmp33 ? tmp29 : tmp19;
                    auto tmp35 = float(tmp34 * tmp5);
                    auto tmp36 = float(tmp32 + tmp35);
                    auto tmp37 = float(tmp36 * tmp20);
                    in_out_ptr0[static_cast<int64_t>(x0)] = tmp37;
                }
            }
        }
    }
    {
        #pragma GCC ivdep
        for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(15L); x0+=static_cast<int64_t>(1L))
        {
            #pragma GCC ivdep
            for(int64_t x1=static_cast<int64_t>(0L); x1<static_cast<int64_t>(4L); x1+=static_cast<int64_t>(1L))
            {
                {
                    {
                        auto tmp0 = in_ptr6[static_cast<int64_t>(x1 + 4L*x0)];
                        auto tmp1 = in_ptr6[static_cast<int64_t>(4L*x0)];
                        auto tmp2 = in_ptr6[static_cast<int64_t>(1L + 4L*x0)];
                        auto tmp4 = in_ptr6[static_cast<int64_t>(2L + 4L*x0)];
                        auto tmp6 = in_ptr6[static_cast<int64_t>(3L + 4L*x0)];
                        auto tmp3 = max_propagate_nan(tmp1, tmp2);
                        auto tmp5 = max_propagate_nan(tmp3, tmp4);
                        auto tmp7 = max_propagate_nan(tmp5, tmp6);
                        auto tmp8 = float(tmp0 - tmp7);
                        out_ptr4[static_cast<int64_t>(x1 + 4L*x0)] = tmp8;
                    }
                }
            }
        }
    }
    {
        #pragma GCC ivdep
        for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(15L); x0+=static_cast<int64_t>(1L))
        {
            {
                {
                    auto tmp0 = out_ptr4[static_cast<int64_t>(4L*x0)];
                    auto tmp2 = out_ptr4[static_cast<int64_t>(1L + 4L*x0)];
                    auto tmp5 = out_ptr4[static_cast<int64_t>(2L + 4L*x0)];
                    auto tmp8 = out_ptr4[static_cast<int64_t>(3L + 4L*x0)];
                    auto tmp1 = std::exp(tmp0);
                    auto tmp3 = std::exp(tmp2);
                    auto tmp4 = float(tmp1 + tmp3);
                    auto tmp6 = std::exp(tmp5);
                    auto tmp7 = float(tmp4 + tmp6);
                    auto tmp9 = std::exp(tmp8);
                    auto tmp10 = float(tmp7 + tmp9);
                    auto tmp11 = std::log(tmp10);
                    out_ptr5[static_cast<int64_t>(x0)] = tmp11;
                }
            }
            #pragma GCC ivdep
            for(int64_t x1=static_cast<int64_t>(0L); x1<static_cast<int64_t>(4L); x1+=static_cast<int64_t>(1L))
            {
                {
                    {
                        auto tmp0 = out_ptr4[static_cast<int64_t>(x1 + 4L*x0)];
                        auto tmp1 = out_ptr5[static_cast<int64_t>(x0)];
                        auto tmp2 = float(tmp0 - tmp1);
                        auto tmp3 = std::exp(tmp2);
                        out_ptr6[static_cast<int64_t>(x1 + 4L*x0)] = tmp3;
                    }
                }
            }
        }
    }
    inductor_cpu_integer_div_error_flag = nullptr;
    inductor_cpu_throw_if_integer_div_error(inductor_cpu_integer_div_error);
}
''')


cpp_fused__log_softmax__log_softmax_backward_data_add_div_expand_mul_neg_slice_backward_sum_unsqueeze_view_1 = async_compile.cpp_pybinding(['float*', 'float*', 'const float*', 'const float*', 'const float*', 'float*'], r'''
#include <torch/csrc/inductor/aoti_runtime/utils.h>
#include <torch/csrc/inductor/cpp_prefix.h>
extern "C"  void  kernel(float* in_out_ptr0,
                       float* in_out_ptr1,
                       const float* in_ptr0,
                       const float* in_ptr2,
                       const float* in_ptr3,
                       float* out_ptr0)
{
    std::atomic<int> inductor_cpu_integer_div_error{0};
    inductor_cpu_integer_div_error_flag = &inductor_cpu_integer_div_error;
    torch::aot_inductor::RAIIAtenRecordFunctionHandle record_graph_0_cpp_fused__log_softmax__log_softmax_backward_data_add_div_expand_mul_neg_slice_backward_sum_unsqueeze_view_1_("graph_0_cpp_fused__log_softmax__log_softmax_backward_data_add_div_expand_mul_neg_slice_backward_sum_unsqueeze_view_1", nullptr);
    auto in_ptr1 = in_out_ptr1;
    {
        #pragma GCC ivdep
        for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(5L); x0+=static_cast<int64_t>(1L))
        {
            #pragma GCC ivdep
            for(int64_t x1=static_cast<int64_t>(0L); x1<static_cast<int64_t>(3L); x1+=static_cast<int64_t>(1L))
            {
                #pragma GCC ivdep
                for(int64_t x2=static_cast<int64_t>(0L); x2<static_cast<int64_t>(4L); x2+=static_cast<int64_t>(1L))
                {
                    {
                        {
                            auto tmp0 = in_ptr0[static_cast<int64_t>(0L)];
                            auto tmp7 = in_ptr1[static_cast<int64_t>(x2 + 4L*x1 + 12L*x0)];
                            auto tmp9 = in_out_ptr0[static_cast<int64_t>(x2 + 4L*x1 + 12L*x0)];
                            auto tmp10 = in_ptr2[static_cast<int64_t>(x1 + 3L*x0)];
                            auto tmp1 = decltype(tmp0)(-tmp0);
                            auto tmp2 = static_cast<float>(0.01);
                            auto tmp3 = float(tmp1 * tmp2);
                            auto tmp4 = decltype(tmp3)(-tmp3);
                            auto tmp5 = static_cast<float>(15.0);
                            auto tmp6 = tmp4 / tmp5;
                            auto tmp8 = float(tmp6 * tmp7);
                            auto tmp11 = float(tmp9 - tmp10);
                            auto tmp12 = float(tmp6 * tmp11);
                            auto tmp13 = float(tmp12 * tmp7);
                            auto tmp14 = float(tmp8 + tmp13);
                            auto tmp15 = x0;
                            auto tmp16 = c10::convert<int64_t>(tmp15);
                            auto tmp17 = static_cast<int64_t>(4);
                            auto tmp18 = tmp16 < tmp17;
                            auto tmp19 = [&]
                            {
                                auto tmp20 = in_ptr3[static_cast<int64_t>(x2 + 4L*x1 + 12L*x0)];
                                return tmp20;
                            }
                            ;
                            auto tmp21 = tmp18 ? tmp19() : static_cast<decltype(tmp19())>(0.0);
                            auto tmp22 = static_cast<float>(0.0);
                            auto tmp23 = tmp18 ? tmp21 : tmp22;
                            auto tmp24 = float(tmp14 + tmp23);
                            in_out_ptr0[static_cast<int64_t>(x2 + 4L*x1 + 12L*x0)] = tmp24;
                        }
                    }
                }
            }
        }
    }
    {
        #pragma GCC ivdep
        for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(15L); x0+=static_cast<int64_t>(1L))
        {
            #pragma GCC ivdep
            for(int64_t x1=static_cast<int64_t>(0L); x1<static_cast<int64_t>(4L); x1+=static_cast<int64_t>(1L))
            {
                {
                    {
                        auto tmp0 = in_out_ptr0[static_cast<int64_t>(x1 + 4L*x0)];
                        auto tmp1 = in_out_ptr1[static_cast<int64_t>(x1 + 4L*x0)];
                        auto tmp2 = in_out_ptr0[static_cast<int64_t>(4L*x0)];
                        auto tmp3 = in_out_ptr0[static_cast<int64_t>(1L + 4L*x0)];
                        auto tmp5 = in_out_ptr0[static_cast<int64_t>(2L + 4L*x0)];
                        auto tmp7 = in_out_ptr0[static_cast<int64_t>(3L + 4L*x0)];
                        auto tmp4 = float(tmp2 + tmp3);
                        auto tmp6 = float(tmp4 + tmp5);
                        auto tmp8 = float(tmp6 + tmp7);
                        auto tmp9 = float(tmp1 * tmp8);
                        auto tmp10 = float(tmp0 - tmp9);
                        in_out_ptr1[static_cast<int64_t>(x1 + 4L*x0)] = tmp10;
                    }
                }
            }
        }
    }
    {
        #pragma GCC ivdep
        for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(4L); x0+=static_cast<int64_t>(1L))
        {
            {
                float tmp_acc0 = 0;
                for(int64_t x1=static_cast<int64_t>(0L); x1<static_cast<int64_t>(15L); x1+=static_cast<int64_t>(1L))
                {
                    {
                        {
                            auto tmp0 = in_out_ptr1[static_cast<int64_t>(x0 + 4L*x1)];
                            tmp_acc0 = tmp_acc0 + tmp0;
                        }
                    }
                }
                out_ptr0[static_cast<int64_t>(x0)] = tmp_acc0;
            }
        }
    }
    inductor_cpu_integer_div_error_flag = nullptr;
    inductor_cpu_throw_if_integer_div_error(inductor_cpu_integer_div_error);
}
''')


cpp_fused_add_huber_loss_huber_loss_backward_mm_mul_slice_slice_backward_squeeze_stack_sum_t_tanh_backward_unsqueeze_view_2 = async_compile.cpp_pybinding(['float*', 'const float*', 'const float*', 'const float*', 'const float*', 'const float*', 'float*'], r'''
#include <torch/csrc/inductor/aoti_runtime/utils.h>
#include <torch/csrc/inductor/cpp_prefix.h>
extern "C"  void  kernel(float* in_out_ptr0,
                       const float* in_ptr0,
                       const float* in_ptr1,
                       const float* in_ptr2,
                       const float* in_ptr3,
                       const float* in_ptr4,
                       float* out_ptr0)
{
    std::atomic<int> inductor_cpu_integer_div_error{0};
    inductor_cpu_integer_div_error_flag = &inductor_cpu_integer_div_error;
    torch::aot_inductor::RAIIAtenRecordFunctionHandle record_graph_0_cpp_fused_add_huber_loss_huber_loss_backward_mm_mul_slice_slice_backward_squeeze_stack_sum_t_tanh_backward_unsqueeze_view_2_("graph_0_cpp_fused_add_huber_loss_huber_loss_backward_mm_mul_slice_slice_backward_squeeze_stack_sum_t_tanh_backward_unsqueeze_view_2", nullptr);
    {
        #pragma GCC ivdep
        for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(5L); x0+=static_cast<int64_t>(1L))
        {
            #pragma GCC ivdep
            for(int64_t x1=static_cast<int64_t>(0L); x1<static_cast<int64_t>(3L); x1+=static_cast<int64_t>(1L))
            {
                #pragma GCC ivdep
                for(int64_t x2=static_cast<int64_t>(0L); x2<static_cast<int64_t>(16L); x2+=static_cast<int64_t>(1L))
                {
                    {
                        {
                            auto tmp29 = in_ptr3[static_cast<int64_t>(x2)];
                            auto tmp31 = in_out_ptr0[static_cast<int64_t>(x2 + 16L*x1 + 48L*x0)];
                            auto tmp33 = in_ptr4[static_cast<int64_t>(x2 + 16L*x1 + 48L*x0)];
                            auto tmp0 = x0;
                            auto tmp1 = c10::convert<int64_t>(tmp0);
                            auto tmp2 = static_cast<int64_t>(4);
                            auto tmp3 = tmp1 < tmp2;
                            auto tmp4 = [&]
                            {
                                auto tmp5 = in_ptr0[static_cast<int64_t>(x1 + 3L*x0)];
                                auto tmp6 = in_ptr1[static_cast<int64_t>(x1 + 3L*x0)];
                                auto tmp7 = float(tmp6 + tmp5);
                                auto tmp8 = float(tmp5 - tmp7);
                                auto tmp9 = static_cast<float>(-1.0);
                                auto tmp10 = tmp8 < tmp9;
                                auto tmp11 = in_ptr2[static_cast<int64_t>(0L)];
                                auto tmp12 = static_cast<float>(0.5);
                                auto tmp13 = float(tmp11 * tmp12);
                                auto tmp14 = static_cast<float>(-0.08333333333333333);
                                auto tmp15 = float(tmp13 * tmp14);
                                auto tmp16 = static_cast<float>(1.0);
                                auto tmp17 = float(tmp15 * tmp16);
                                auto tmp18 = tmp8 > tmp16;
                                auto tmp19 = static_cast<float>(0.08333333333333333);
                                auto tmp20 = float(tmp13 * tmp19);
                                auto tmp21 = float(tmp20 * tmp16);
                                auto tmp22 = float(tmp8 * tmp19);
                                auto tmp23 = float(tmp22 * tmp13);
                                auto tmp24 = tmp18 ? tmp21 : tmp23;
                                auto tmp25 = tmp10 ? tmp17 : tmp24;
                                return tmp25;
                            }
                            ;
                            auto tmp26 = tmp3 ? tmp4() : static_cast<decltype(tmp4())>(0.0);
                            auto tmp27 = static_cast<float>(0.0);
                            auto tmp28 = tmp3 ? tmp26 : tmp27;
                            auto tmp30 = float(tmp28 * tmp29);
                            auto tmp32 = float(tmp30 + tmp31);
                            auto tmp34 = float(tmp33 * tmp33);
                            auto tmp35 = static_cast<float>(1.0);
                            auto tmp36 = float(tmp35 - tmp34);
                            auto tmp37 = float(tmp32 * tmp36);
                            in_out_ptr0[static_cast<int64_t>(x2 + 16L*x1 + 48L*x0)] = tmp37;
                        }
                    }
                }
            }
        }
    }
    {
        #pragma GCC ivdep
        for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(16L); x0+=static_cast<int64_t>(1L))
        {
            {
                float tmp_acc0 = 0;
                for(int64_t x1=static_cast<int64_t>(0L); x1<static_cast<int64_t>(15L); x1+=static_cast<int64_t>(1L))
                {
                    {
                        {
                            auto tmp0 = in_out_ptr0[static_cast<int64_t>(x0 + 16L*x1)];
                            tmp_acc0 = tmp_acc0 + tmp0;
                        }
                    }
                }
                out_ptr0[static_cast<int64_t>(x0)] = tmp_acc0;
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
        primals_4, primals_6, view, tanh, addmm_1, addmm_2, cat, mean, add_9, unsqueeze, exp_1, tangents_1 = args
        args.clear()
        assert_size_stride(addmm_2, (15, 1), (1, 1), 'input')
        assert_size_stride(cat, (12, ), (1, ), 'input')
        assert_size_stride(tangents_1, (), (), 'input')
        buf8 = empty_strided_cpu((5, 3), (3, 1), torch.float32)
        buf10 = empty_strided_cpu((1, 1), (1, 1), torch.float32)
        buf4 = empty_strided_cpu((4, 3, 4), (12, 4, 1), torch.float32)
        assert_size_stride(exp_1, (4, 3), (3, 1), 'input')
        assert_size_stride(mean, (), (), 'input')
        assert_size_stride(add_9, (), (), 'input')
        buf5 = exp_1; del exp_1  # reuse
        assert_size_stride(addmm_1, (15, 4), (4, 1), 'input')
        buf0 = empty_strided_cpu((5, 3, 4), (12, 4, 1), torch.float32)
        buf1 = empty_strided_cpu((5, 3, 1), (3, 1, 15), torch.float32)
        buf2 = empty_strided_cpu((5, 3, 4), (12, 4, 1), torch.float32)
        assert_size_stride(unsqueeze, (4, 3, 1), (3, 1, 1), 'input')
        # [Provenance debug handles] cpp_fused__log_softmax_add_clamp_div_eq_exp_expand_ge_gt_huber_loss_huber_loss_backward_le_logical_and_lt_masked_fill_mul_neg_new_zeros_scatter_add_slice_slice_backward_squeeze_stack_sub_sum_unsqueeze_view_where_0:1
        cpp_fused__log_softmax_add_clamp_div_eq_exp_expand_ge_gt_huber_loss_huber_loss_backward_le_logical_and_lt_masked_fill_mul_neg_new_zeros_scatter_add_slice_slice_backward_squeeze_stack_sub_sum_unsqueeze_view_where_0(buf5, addmm_2, cat, tangents_1, mean, add_9, addmm_1, buf8, buf10, buf4, buf0, buf1, buf2)
        del add_9
        del addmm_1
        del mean
        aten.scatter_reduce_.two(buf4,-1,unsqueeze,reinterpret_tensor(buf5, (4, 3, 1), (3, 1, 0), 0), reduce='sum', include_self=True)
        del buf5
        del unsqueeze
        buf7 = buf0; del buf0  # reuse
        buf11 = buf2; del buf2  # reuse
        buf14 = empty_strided_cpu((1, 4), (4, 1), torch.float32)
        assert_size_stride(primals_4, (4, 16), (16, 1), 'input')
        # [Provenance debug handles] cpp_fused__log_softmax__log_softmax_backward_data_add_div_expand_mul_neg_slice_backward_sum_unsqueeze_view_1:2
        cpp_fused__log_softmax__log_softmax_backward_data_add_div_expand_mul_neg_slice_backward_sum_unsqueeze_view_1(buf7, buf11, tangents_1, buf1, buf4, buf14)
        del buf1
        del buf4
        del buf7
        buf12 = empty_strided_cpu((15, 16), (16, 1), torch.float32)
        # Topologically Sorted Source Nodes: [sum_4, mul_39, sub_20, view_10, linear_1, permute_7, mm_1], Original ATen: [aten._log_softmax_backward_data, aten.view, aten.t, aten.mm]
        # [Provenance debug handles] extern_kernels.mm:3
        extern_kernels.mm(reinterpret_tensor(buf11, (15, 4), (4, 1), 0), primals_4, out=buf12)
        del primals_4
        assert_size_stride(primals_6, (1, 16), (16, 1), 'input')
        assert_size_stride(tanh, (5, 3, 16), (48, 16, 1), 'input')
        buf15 = reinterpret_tensor(buf12, (5, 3, 16), (48, 16, 1), 0); del buf12  # reuse
        buf17 = empty_strided_cpu((1, 16), (16, 1), torch.float32)
        # [Provenance debug handles] cpp_fused_add_huber_loss_huber_loss_backward_mm_mul_slice_slice_backward_squeeze_stack_sum_t_tanh_backward_unsqueeze_view_2:4
        cpp_fused_add_huber_loss_huber_loss_backward_mm_mul_slice_slice_backward_squeeze_stack_sum_t_tanh_backward_unsqueeze_view_2(buf15, addmm_2, cat, tangents_1, primals_6, tanh, buf17)
        del addmm_2
        del cat
        del primals_6
        del tangents_1
        buf9 = empty_strided_cpu((1, 16), (16, 1), torch.float32)
        # Topologically Sorted Source Nodes: [mul_25, linear_2, squeeze, stack, slice_1, add_8, huber_loss, lt_1, mul_26, mul_27, gt, mul_28, mul_29, mul_30, mul_31, where_1, where_2, full_1, _generalized_scatter, unsqueeze_3, view_7, permute_4, linear_1, permute_6], Original ATen: [aten.mul, aten.view, aten.squeeze, aten.stack, aten.slice, aten.add, aten.huber_loss, aten.huber_loss_backward, aten.slice_backward, aten.unsqueeze, aten.t, aten.mm]
        # [Provenance debug handles] extern_kernels.mm:5
        extern_kernels.mm(reinterpret_tensor(buf8, (1, 15), (0, 1), 0), reinterpret_tensor(tanh, (15, 16), (16, 1), 0), out=buf9)
        del buf8
        buf13 = empty_strided_cpu((4, 16), (16, 1), torch.float32)
        # Topologically Sorted Source Nodes: [linear_1, sum_4, mul_39, sub_20, view_10, permute_8, permute_10], Original ATen: [aten.view, aten._log_softmax_backward_data, aten.t, aten.mm]
        # [Provenance debug handles] extern_kernels.mm:6
        extern_kernels.mm(reinterpret_tensor(buf11, (4, 15), (1, 4), 0), reinterpret_tensor(tanh, (15, 16), (16, 1), 0), out=buf13)
        del buf11
        del tanh
        assert_size_stride(view, (15, 6), (6, 1), 'input')
        buf16 = empty_strided_cpu((16, 6), (6, 1), torch.float32)
        # Topologically Sorted Source Nodes: [mul_25, linear_2, squeeze, stack, slice_1, add_8, huber_loss, lt_1, mul_26, mul_27, gt, mul_28, mul_29, mul_30, mul_31, where_1, where_2, full_1, _generalized_scatter, unsqueeze_3, view_7, permute_3, mul_38, view_9, view_12, add_14, mul_40, sub_21, mul_41, view_13, permute_11, permute_13], Original ATen: [aten.mul, aten.view, aten.squeeze, aten.stack, aten.slice, aten.add, aten.huber_loss, aten.huber_loss_backward, aten.slice_backward, aten.unsqueeze, aten.t, aten.mm, aten.tanh_backward]
        # [Provenance debug handles] extern_kernels.mm:7
        extern_kernels.mm(reinterpret_tensor(buf15, (16, 15), (1, 16), 0), view, out=buf16)
        del buf15
        del view
        return (None, buf16, reinterpret_tensor(buf17, (16, ), (1, ), 0), buf13, reinterpret_tensor(buf14, (4, ), (1, ), 0), buf9, reinterpret_tensor(buf10, (1, ), (1, ), 0), None, None, None, None, )

runner = Runner(partitions=[])
call = runner.call
recursively_apply_fns = runner.recursively_apply_fns


def get_args():
    from torch._dynamo.testing import rand_strided
    primals_4 = rand_strided((4, 16), (16, 1), device='cpu', dtype=torch.float32)
    primals_6 = rand_strided((1, 16), (16, 1), device='cpu', dtype=torch.float32)
    view = rand_strided((15, 6), (6, 1), device='cpu', dtype=torch.float32)
    tanh = rand_strided((5, 3, 16), (48, 16, 1), device='cpu', dtype=torch.float32)
    addmm_1 = rand_strided((15, 4), (4, 1), device='cpu', dtype=torch.float32)
    addmm_2 = rand_strided((15, 1), (1, 1), device='cpu', dtype=torch.float32)
    cat = rand_strided((12, ), (1, ), device='cpu', dtype=torch.float32)
    mean = rand_strided((), (), device='cpu', dtype=torch.float32)
    add_9 = rand_strided((), (), device='cpu', dtype=torch.float32)
    unsqueeze = rand_strided((4, 3, 1), (3, 1, 1), device='cpu', dtype=torch.int64)
    exp_1 = rand_strided((4, 3), (3, 1), device='cpu', dtype=torch.float32)
    tangents_1 = rand_strided((), (), device='cpu', dtype=torch.float32)
    return [primals_4, primals_6, view, tanh, addmm_1, addmm_2, cat, mean, add_9, unsqueeze, exp_1, tangents_1]


def benchmark_compiled_module(args, times=10, repeat=10):
    from torch._inductor.utils import print_performance
    fn = lambda: call(list(args))
    return print_performance(fn, times=times, repeat=repeat, device='cpu')


if __name__ == "__main__":
    from torch._inductor.wrapper_benchmark import compiled_module_main
    args = get_args()
    compiled_module_main('None', lambda times, repeat: benchmark_compiled_module(args, times=times, repeat=repeat))
