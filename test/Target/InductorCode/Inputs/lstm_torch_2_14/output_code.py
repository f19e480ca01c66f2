# AOT ID: ['0_inference']
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
from torch._inductor.runtime.runtime_utils import assert_tensor_metadata

aten = torch.ops.aten
inductor_ops = torch.ops.inductor
_quantized = torch.ops._quantized
assert_size_stride = torch._C._dynamo.guards.assert_size_stride
assert_size_stride_grouped = torch._C._dynamo.guards.assert_size_stride_grouped
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


cpp_fused_lstm_zeros_0 = async_compile.cpp_pybinding(['float*', 'float*'], r'''
#include <torch/csrc/inductor/aoti_runtime/utils.h>
#include <torch/csrc/inductor/cpp_prefix.h>
extern "C"  void  kernel(float* out_ptr0,
                       float* out_ptr1)
{
    std::atomic<int> inductor_cpu_integer_div_error{0};
    inductor_cpu_integer_div_error_flag = &inductor_cpu_integer_div_error;
    torch::aot_inductor::RAIIAtenRecordFunctionHandle record_graph_0_cpp_fused_lstm_zeros_0_("graph_0_cpp_fused_lstm_zeros_0", nullptr);
    {
        for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(64L); x0+=static_cast<int64_t>(16L))
        {
            {
                if(C10_LIKELY(x0 >= static_cast<int64_t>(0) && x0 < static_cast<int64_t>(64L)))
                {
                    auto tmp0 = static_cast<float>(0.0);
                    auto tmp1 = at::vec::Vectorized<float>(tmp0);
                    tmp1.store(out_ptr0 + static_cast<int64_t>(x0));
                }
            }
        }
    }
    {
        for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(64L); x0+=static_cast<int64_t>(16L))
        {
            {
                if(C10_LIKELY(x0 >= static_cast<int64_t>(0) && x0 < static_cast<int64_t>(64L)))
                {
                    auto tmp0 = static_cast<float>(0.0);
                    auto tmp1 = at::vec::Vectorized<float>(tmp0);
                    tmp1.store(out_ptr1 + static_cast<int64_t>(x0));
                }
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
        arg0_1, arg1_1, arg2_1, arg3_1, arg4_1, arg5_1, arg6_1 = args
        args.clear()
        buf0 = empty_strided_cpu((1, 2, 32), (64, 32, 1), torch.float32)
        buf1 = empty_strided_cpu((1, 2, 32), (64, 32, 1), torch.float32)
        assert_size_stride_grouped((arg0_1, arg1_1, arg2_1, arg3_1, arg4_1), ((2, 6, 24), (128, 24), (128, 32), (128, ), (128, )), ((144, 24, 1), (24, 1), (32, 1), (1, ), (1, )), 'input')
        # [Provenance debug handles] cpp_fused_lstm_zeros_0:1
        cpp_fused_lstm_zeros_0(buf0, buf1)
        # Topologically Sorted Source Nodes: [zeros, zeros_1, lstm_input], Original ATen: [aten.zeros, opprof_recurrent.lstm]
        # [Provenance debug handles] torch.ops.opprof_recurrent.lstm.default:2
        buf2 = torch.ops.opprof_recurrent.lstm.default(arg0_1, [buf0, buf1], [arg1_1, arg2_1, arg3_1, arg4_1], True, 1, 0.0, False, False, True)
        del arg0_1
        del arg1_1
        del arg2_1
        del arg3_1
        del arg4_1
        del buf0
        del buf1
        buf3 = buf2[0]
        assert_tensor_metadata(buf3, (2, 6, 32), (32, 64, 1), torch.float32, 'torch.ops.opprof_recurrent.lstm.default')
        # buffer buf3 (op: torch.ops.opprof_recurrent.lstm.default) is assumed to be not aligned
        del buf2
        assert_size_stride_grouped((arg6_1, arg5_1), ((4, ), (4, 32)), ((1, ), (32, 1)), 'input')
        buf6 = empty_strided_cpu((2, 4), (4, 1), torch.float32)
        # Topologically Sorted Source Nodes: [select, linear], Original ATen: [aten.select, aten.t, aten.addmm]
        # [Provenance debug handles] extern_kernels.addmm:3
        extern_kernels.addmm(arg6_1, reinterpret_tensor(buf3, (2, 32), (32, 1), 320), reinterpret_tensor(arg5_1, (32, 4), (1, 32), 0), alpha=1, beta=1, out=buf6)
        del arg5_1
        del arg6_1
        return (buf6, )

runner = Runner(partitions=[])
call = runner.call
recursively_apply_fns = runner.recursively_apply_fns


def get_args():
    from torch._dynamo.testing import rand_strided
    arg0_1 = rand_strided((2, 6, 24), (144, 24, 1), device='cpu', dtype=torch.float32)
    arg1_1 = rand_strided((128, 24), (24, 1), device='cpu', dtype=torch.float32)
    arg2_1 = rand_strided((128, 32), (32, 1), device='cpu', dtype=torch.float32)
    arg3_1 = rand_strided((128, ), (1, ), device='cpu', dtype=torch.float32)
    arg4_1 = rand_strided((128, ), (1, ), device='cpu', dtype=torch.float32)
    arg5_1 = rand_strided((4, 32), (32, 1), device='cpu', dtype=torch.float32)
    arg6_1 = rand_strided((4, ), (1, ), device='cpu', dtype=torch.float32)
    return [arg0_1, arg1_1, arg2_1, arg3_1, arg4_1, arg5_1, arg6_1]


def benchmark_compiled_module(args, times=10, repeat=10):
    from torch._inductor.utils import print_performance
    fn = lambda: call(list(args))
    return print_performance(fn, times=times, repeat=repeat, device='cpu')


if __name__ == "__main__":
    from torch._inductor.wrapper_benchmark import compiled_module_main
    args = get_args()
    compiled_module_main('None', lambda times, repeat: benchmark_compiled_module(args, times=times, repeat=repeat))
